"""command/symbols.py, names.py and pprof.py: names of C++, of code that runtimes compile, and in messages of the library."""

from __future__ import annotations

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys

import heap_profile
import pprof_message
import pytest
import symbols
from symbols import Frame

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
TIMEOUT_SECONDS = 60
needs_tool = pytest.mark.skipif(symbols.find_tool() is None, reason="there is neither llvm-symbolizer nor addr2line")


def tool(name: str, *words: object, **options: object) -> subprocess.CompletedProcess:
    order = [sys.executable, ROOT / "command" / name, *map(str, words)]
    return subprocess.run(order, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS, **options)


def good(done: subprocess.CompletedProcess) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def under(words: list[object], cwd: pathlib.Path, **variables: str) -> subprocess.CompletedProcess:
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(LIBRARY)} | variables
    return subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)


# ---- names of C++ ----------------------------------------------------------------------------------

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("main", "main"),
        ("shop::Book::add(int)", "shop::Book::add"),
        ("shop::Book::find(int) const", "shop::Book::find"),
        (f"std::vector<{STRING}, std::allocator<{STRING} > >::push_back({STRING}&&)", "std::vector<std::string>::push_back"),
        (f"std::map<int, {STRING}, std::less<int>, std::allocator<std::pair<int const, {STRING} > > >::operator[](int const&)", "std::map<int, std::string>::operator[]"),
        ("std::unordered_map<int, A, std::hash<int>, std::equal_to<int>, std::allocator<std::pair<int const, A> > >::clear()", "std::unordered_map<int, A>::clear"),
        ("std::unique_ptr<A, std::default_delete<A> > std::make_unique<A>()", "std::make_unique<A>"),
        ("void shop::each<int>(std::function<void (int)>)", "shop::each<int>"),
        ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()"),
        ("operator new(unsigned long)", "operator new"),
        ("shop::Money::operator bool() const", "shop::Money::operator bool"),
        ("shop::operator<<(std::ostream&, shop::Money const&)", "shop::operator<<"),
        ("shop::Money::operator->() const", "shop::Money::operator->"),
        ("shop::(anonymous namespace)::hidden(int)", "shop::(anonymous namespace)::hidden"),
        ("(anonymous namespace)::hidden(int)", "(anonymous namespace)::hidden"),
        ("shop::run(int)::{lambda(int)#1}::operator()(int) const", "shop::run(int)::{lambda(int)#1}::operator()"),
        ("decltype(auto) shop::make<A>(A&&)", "shop::make<A>"),
        ("work.constprop.0", "work"),
        ("work(int) [clone .isra.0]", "work"),
        ("shop::name[abi:cxx11]()", "shop::name"),
        ("std::__1::vector<int, std::__1::allocator<int> >::reserve(unsigned long)", "std::vector<int>::reserve"),
        ("alloc::vec::Vec<T,A>::push::h0123456789abcdef", "alloc::vec::Vec<T,A>::push"),
        ("java.lang.Object jdk.internal.misc.Unsafe.getReferenceVolatile(java.lang.Object, long)", "jdk.internal.misc.Unsafe.getReferenceVolatile"),
        ("void java.lang.Object.<init>()", "java.lang.Object.<init>"),
        ("asn1_item_embed_d2i", "asn1_item_embed_d2i"),
        ("prog+0x40000f", "prog+0x40000f"),
        ("a(", "a"),
        ("<", "<"),
        ("", ""),
    ],
)
def test_a_short_name(full, short):
    assert symbols.short_name(full) == short


def test_a_name_that_is_still_long():
    name = symbols.short_name("shop::Table<" + ", ".join(f"shop::Column{number}" for number in range(20)) + ">::insert(int)")
    assert name == "shop::Table<...>::insert"


def test_calls_within_headers_of_libraries_are_one():
    header = "/usr/include/c++/12/bits/stl_vector.h"
    stack = [Frame("operator new(unsigned long)", "", 0), Frame("A<int>::allocate(unsigned long)", header, 1), Frame("std::vector<int>::push_back(int&&)", header, 2),
             Frame("shop::add(int)", "/src/shop.cc", 3), Frame("std::thread::_M_run()", "", 0), Frame("start", "", 0)]  # fmt: skip
    assert [str(frame) for frame in symbols.for_people(stack)] == [
        "operator new", f"std::vector<int>::push_back  {header}:2", "shop::add  /src/shop.cc:3", "std::thread::_M_run", "start",
    ]  # fmt: skip
    assert list(symbols.for_people(stack[1:3])) == [Frame("std::vector<int>::push_back", header, 2)]


# ---- a program of C++ ------------------------------------------------------------------------------

SHOP = """
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace shop {
struct Order { std::vector<std::string> lines; };
struct Book {
    std::map<int, std::unique_ptr<Order>> orders;
    __attribute__((noinline)) void add(int number) {
        auto one = std::make_unique<Order>();
        for (int i = 0; i < 20; i++)
            one->lines.push_back(std::string(300, 'x'));
        orders.emplace(number, std::move(one));
    }
};
}
int main() {
    auto &book = *new shop::Book;
    for (int i = 0; i < 2000; i++)
        book.add(i);
}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> pathlib.Path:
    """A program whose profile and list of leaks lie beside it."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.cc").write_text(SHOP)
    subprocess.run(["g++", "-g", "-O1", "shop.cc", "-o", "shop"], cwd=folder, check=True)
    done = under(["./shop"], folder, HAKOZUNA_PROFILE="rate=32K,exit,leak,file=shop.heap")
    assert done.returncode == 0 and done.stderr.startswith("hakozuna: leaks: ")
    (folder / "log").write_text(done.stderr)
    return folder


@needs_tool
def test_a_profile_of_cxx(shop):
    text = good(tool("heap_profile.py", "leaks", "shop.heap", cwd=shop))
    assert re.search(r"(?m)^    shop::Book::add  \S+/shop\.cc:13\n    main  \S+/shop\.cc:\d+$", text), text
    assert "__cxx11" not in text and "std::allocator<std" not in text
    stacks = re.split(r"(?m)^  \d.*\n", text)[1:]  # what is not of add (the book, what libraries keep) is sampled seldom
    for calls in (stack.splitlines() for stack in stacks if "shop::Book::add" in stack):
        at = next(index for index, call in enumerate(calls) if "shop::Book::add" in call)
        assert at <= 1, f"one call into the library: {calls}"
    full = good(tool("heap_profile.py", "leaks", "--full-names", "shop.heap", cwd=shop))
    assert "shop::Book::add(int)" in full and "std::__cxx11::basic_string<char" in full and full.count("\n") > text.count("\n")


def test_the_file_for_pprof_needs_no_package(shop):
    """With Python alone, and protobuf reads what it says."""
    good(subprocess.run([sys.executable, "-S", ROOT / "command/heap_profile.py", "pprof", "shop.heap"], cwd=shop, env={"PATH": os.environ["PATH"]},
                        capture_output=True, text=True, check=False))  # fmt: skip
    message = pprof_message.profile_message()()
    message.ParseFromString(gzip.decompress((shop / "shop.heap.pb.gz").read_bytes()))
    profile = heap_profile.profile_of(shop / "shop.heap", None, None)
    assert sum(sample.value[3] for sample in message.sample) == sum(round(values[3]) for values in profile.values.values()) > 8 << 20
    assert message.string_table[message.default_sample_type] == "inuse_space" and message.string_table[0] == ""
    assert {message.string_table[mapping.filename] for mapping in message.mapping} >= {str(shop / "shop")}
    again = tool("heap_profile.py", "pprof", "shop.heap", "-o", "none/out", cwd=shop)
    assert (again.returncode, again.stderr) == (2, "hakozuna profile: none/out: No such file or directory\n")


# ---- names in messages -----------------------------------------------------------------------------


@needs_tool
def test_names_in_a_list_of_leaks(shop):
    log = (shop / "log").read_text()
    for text in (good(tool("names.py", "log", cwd=shop)), good(tool("names.py", input=log, cwd=shop))):
        assert text.startswith(log.splitlines()[0])
        assert re.search(r"(?m)^ +(\./shop\+0x[0-9a-f]+  )?shop::Book::add  \S+shop\.cc:13$", text), text
        assert re.search(r"(?m)^ +(\./shop\+0x[0-9a-f]+  )?main  \S+shop\.cc:\d+$", text), text
        assert all(line in text for line in log.splitlines()), "nothing is taken away"
    assert "shop::Book::add(int)" in good(tool("names.py", "--full-names", "log", cwd=shop))


@needs_tool
def test_names_in_a_report_of_the_guard(tmp_path):
    (tmp_path / "twice.c").write_text("#include <stdlib.h>\nstatic void twice(void *p) {\n    free(p);\n    free(p);\n}\nint main(void) {\n    twice(malloc(100));\n}\n")
    subprocess.run(["gcc", "-g", "-O0", "-w", "twice.c", "-o", "twice"], cwd=tmp_path, check=True)
    done = under(["./twice"], tmp_path, HAKOZUNA_SAMPLE_GUARD="1")
    assert done.stderr.startswith("hakozuna: double free")
    text = good(tool("names.py", input=done.stderr, cwd=tmp_path))
    for line, count in ((3, 1), (4, 1), (7, 3)):
        assert len(re.findall(rf"(?m)^    \./twice\+0x[0-9a-f]+  \w+  \S+/twice\.c:{line}$", text)) == count, text


def test_what_is_no_call_passes_through(tmp_path):
    log = b"a line\n    /none+0x12\n    0x1234\n\xff\xfe no text\n    x+0xzz\n"
    done = subprocess.run([sys.executable, ROOT / "command/names.py"], input=log, capture_output=True, check=False)
    if symbols.find_tool() is not None:
        assert (done.returncode, done.stdout, done.stderr) == (0, log, b"")
    assert tool("names.py", tmp_path / "none").stderr == f"hakozuna names: '{tmp_path}/none': No such file or directory\n" or symbols.find_tool() is None
    done = tool("names.py", env={"PATH": str(tmp_path)}, input="")
    assert (done.returncode, done.stderr) == (2, "hakozuna names: it needs llvm-symbolizer or addr2line (Debian: binutils), and there is neither\n")


# ---- code that a runtime compiles ------------------------------------------------------------------

MAP = """1000 100 py::work:/srv/app.py
2000 10 JS:*serve /srv/app.js:12:7
2010 10 JS:~ /srv/app.js:1:1
0x0000000000003000 0x0000000000000020 byte java.lang.String.coder()
4000 10 bad\x1b[2Jname
half a li"""


def test_maps_of_compiled_code():
    code = symbols.CompiledCode(MAP)
    assert code.at(0x10FF) == Frame("work", "/srv/app.py", 0) and code.at(0x1100) is None and code.at(0xFFF) is None
    assert code.at(0x2000) == Frame("serve", "/srv/app.js", 12) and code.at(0x2010) == Frame("(anonymous)", "/srv/app.js", 1)
    assert code.at(0x3010) == Frame("byte java.lang.String.coder()", "", 0)
    assert code.at(0x4000) == Frame("bad?[2Jname", "", 0)
    assert str(Frame("work", "/srv/app.py", 0)) == "work  /srv/app.py"
    assert symbols.CompiledCode.of_process(2**30).at(0x1000) is None


def test_a_map_of_another_user_says_nothing(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/perf-7.map").write_text(MAP)
    assert symbols.CompiledCode.of_process(7, str(tmp_path)).at(0x1000) is not None
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if os.stat(tmp_path / "tmp/perf-7.map").st_uid != 0:
        assert symbols.CompiledCode.of_process(7, str(tmp_path)).at(0x1000) is None
    else:
        os.chown(tmp_path / "tmp/perf-7.map", 54321, 54321)
        assert symbols.CompiledCode.of_process(7, str(tmp_path)).at(0x1000) is None


JIT = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void *kept[2000];
int main(void) {
#if defined(__x86_64__)
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3}; /* push rbp; mov rbp, rsp; call rsi; pop rbp; ret */
#else
    unsigned int code[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0020, 0xa8c17bfd, 0xd65f03c0}; /* stp; mov x29, sp; blr x1; ldp; ret */
#endif
    void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(place, code, sizeof(code));
    __builtin___clear_cache(place, (char *)place + sizeof(code));
    void *(*compiled)(size_t, void *(*)(size_t));
    memcpy(&compiled, &place, sizeof(compiled));
    char path[100];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx py::serve_orders:/srv/shop.py\n", (unsigned long)place, sizeof(code));
    fclose(map);
    for (int i = 0; i < 2000; i++)
        kept[i] = compiled(3000, malloc);
    return 0;
}
"""


def test_a_program_that_compiles_while_it_runs(tmp_path):
    """Machine code that this program writes into memory, as runtimes do, and its line in the map."""
    (tmp_path / "jit.c").write_text(JIT)
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "jit.c", "-o", "jit"], cwd=tmp_path, check=True)
    done = under(["./jit"], tmp_path, HAKOZUNA_PROFILE="rate=16K,exit,unwind=frame-pointer,file=heap")
    assert (done.returncode, done.stderr) == (0, "")
    (moment,) = heap_profile.read_moments(tmp_path / "heap")
    try:
        text = good(tool("heap_profile.py", "leaks", "heap", "--count", "1", cwd=tmp_path))
        assert re.search(r"allocated by:\n    serve_orders  /srv/shop\.py\n", text), text
        assert "serve_orders " in good(tool("heap_profile.py", "folded", "heap", cwd=tmp_path))
        good(tool("heap_profile.py", "pprof", "heap", cwd=tmp_path))
        message = pprof_message.profile_message()()
        message.ParseFromString(gzip.decompress((tmp_path / "heap.pb.gz").read_bytes()))
        assert {"serve_orders", "/srv/shop.py"} <= set(message.string_table)
        assert "serve_orders" not in good(tool("heap_profile.py", "leaks", "heap", "--no-symbols", cwd=tmp_path))
    finally:
        os.unlink(f"/tmp/perf-{moment.pid}.map")


NODE = """
const fs = require("fs"), kept = [];
function makeOrder(i) { return Buffer.allocUnsafeSlow(3000).fill(i & 255); }
function serve() { for (let i = 0; i < 20000; i++) kept.push(makeOrder(i)); }
serve();
setInterval(() => { if (fs.existsSync("heap")) process.exit(0); }, 20);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_functions_of_node(tmp_path):
    """It sets signals to their defaults when it starts, so the profile comes by time."""
    (tmp_path / "app.js").write_text(NODE)
    done = under(["node", "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-opt", "--no-sparkplug", "app.js"], tmp_path, HAKOZUNA_PROFILE="rate=256K,every=1,unwind=frame-pointer,file=heap")
    assert done.returncode == 0, done.stderr
    (moment, *_) = heap_profile.read_moments(tmp_path / "heap")
    try:
        text = good(tool("heap_profile.py", "leaks", "heap", "--at", "1", "--count", "1", cwd=tmp_path))
        assert re.search(rf"(?m)^    makeOrder  {tmp_path}/app\.js:3\n    serve  {tmp_path}/app\.js:4$", text), text
    finally:
        os.unlink(f"/tmp/perf-{moment.pid}.map")


def python_with_maps() -> str | None:
    """Python writes maps from 3.12 on."""
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-X", "perf", "-c", "import sys; assert sys.is_stack_trampoline_active()"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def test_functions_of_python(tmp_path):
    python = python_with_maps()
    if python is None:
        pytest.skip("there is no Python that writes maps of what it compiles")
    script = "import os\nkept = []\ndef make_orders():\n    kept.extend(bytearray(3000) for _ in range(3000))\nmake_orders()\nprint(os.getpid())\nos.kill(os.getpid(), 15)\n"
    (tmp_path / "app.py").write_text(script)
    done = under([python, "-X", "perf", "-u", "app.py"], tmp_path, HAKOZUNA_PROFILE="rate=64K,exit,unwind=frame-pointer,file=heap", PYTHONMALLOC="malloc")
    try:
        text = good(tool("heap_profile.py", "leaks", "heap", "--count", "3", cwd=tmp_path))
        assert re.search(rf"(?m)^    make_orders\.?\S*  {tmp_path}/app\.py$", text), text
    finally:
        os.unlink(f"/tmp/perf-{int(done.stdout)}.map")
