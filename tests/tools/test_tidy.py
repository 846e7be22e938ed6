"""Each house rule gets a bad input, which it must report, and a similar good one, which it must accept."""

import pathlib
import shutil
import subprocess

import pytest

import tidy

TOOL = pathlib.Path(tidy.__file__)
REPOSITORY = TOOL.parent.parent
BASE = {
    "include/hakozuna/hakozuna.h": "int hz_version(void);\n",
    "src/base/os/arena.h": "int hz_arena;\n",
    "src/heap/heap.h": "int hz_heap;\n",
    "src/heap/pages/page.h": "int hz_page;\n",
    "src/heap/pages/drain.h": "int hz_drain;\n",
    "src/heap/knobs.def": "KNOB(HZ_SHARDS)\n",
    **{
        f"src/engines/{engine}/{name}": "/* nothing */\n"
        for engine in ("hz3", "hz4")
        for name in ("engine_config.h", "engine_knobs.def", "engine_counters.def", "way.h")
    },
    "src/ways/inbox/mailbox.h": "int hz_mailbox;\n",
    "src/ways/queues/mailbox.h": "int hz_mailbox;\n",
    "src/ways/queues/page_queue.h": "int hz_page_queue;\n",
    "src/ways/shared/takers.h": "int hz_takers;\n",
    "src/engines/hz3/stash.h": "int hz3_stash;\n",
    "src/engines/hz3/lanes/scale.h": "enum { HZ_SHARDS = 63 };\n",
    "src/engines/hz4/inbox.h": "int hz4_inbox;\n",
    "src/front/front.h": "int hz_front;\n",
}


@pytest.fixture
def tree(tmp_path):
    """Returns a function that writes a small repository with the given files and runs rules on it."""
    shutil.copy(REPOSITORY / ".clang-format", tmp_path)

    def run(files: dict[str, str], *rules: str) -> list[str]:
        for path, text in {**BASE, **files}.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return [str(p) for p in tidy.find_problems(tmp_path, tidy.known_files(tmp_path), set(rules))]

    return run


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/base/os/a.c", "engines/hz3/stash.h", 'base includes "engines/hz3/stash.h" of hz3'),
        ("src/base/os/a.c", "../../engines/hz4/inbox.h", 'base includes "../../engines/hz4/inbox.h" of hz4'),
        ("src/base/os/a.c", "heap/heap.h", 'base includes "heap/heap.h" of heap'),
        ("src/base/os/a.c", "front/front.h", 'base includes "front/front.h" of front'),
        ("src/base/os/a.c", "mailbox.h", '"mailbox.h" is in none of the include roots'),
        ("src/heap/heap.c", "front/front.h", 'heap includes "front/front.h" of front'),
        ("src/heap/heap.c", "inbox.h", 'heap includes "inbox.h" of hz4'),
        ("src/heap/heap.c", "lanes/scale.h", 'heap includes "lanes/scale.h" of hz3'),
        ("src/heap/heap.c", "engines/hz3/stash.h", 'heap names engine hz3 in "engines/hz3/stash.h"; the build chooses the engine'),
        ("src/heap/heap.c", "engines/hz4/way.h", 'heap names engine hz4 in "engines/hz4/way.h"; the build chooses the engine'),
        ("src/heap/heap.c", "../engines/hz4/way.h", 'heap names engine hz4 in "../engines/hz4/way.h"; the build chooses the engine'),
        ("src/heap/heap.c", "ways/queues/mailbox.h", 'heap names way queues in "ways/queues/mailbox.h"; the build chooses the way'),
        ("src/front/a.c", "../ways/inbox/mailbox.h", 'front names way inbox in "../ways/inbox/mailbox.h"; the build chooses the way'),
        ("src/heap/heap.c", "page_queue.h", 'heap includes "page_queue.h" of ways/queues'),
        ("src/ways/inbox/mail.c", "../queues/page_queue.h", 'ways/inbox includes "../queues/page_queue.h" of ways/queues'),
        ("src/ways/inbox/mail.c", "front/front.h", 'ways/inbox includes "front/front.h" of front'),
        ("src/ways/inbox/mail.c", "engines/hz4/inbox.h", 'ways/inbox includes "engines/hz4/inbox.h" of hz4'),
        ("src/base/os/a.c", "ways/inbox/mailbox.h", 'base includes "ways/inbox/mailbox.h" of ways/inbox'),
        ("src/engines/hz3/a.c", "engines/hz4/inbox.h", 'hz3 includes "engines/hz4/inbox.h" of hz4'),
        ("src/engines/hz3/a.c", "../hz4/way.h", 'hz3 includes "../hz4/way.h" of hz4'),
        ("src/engines/hz4/a.c", "engines/hz3/stash.h", 'hz4 includes "engines/hz3/stash.h" of hz3'),
        ("src/engines/hz4/lanes/a.h", "lanes/scale.h", '"lanes/scale.h" is in none of the include roots'),
        ("src/engines/hz3/a.c", "front/front.h", 'hz3 includes "front/front.h" of front'),
        ("src/front/a.c", "engines/hz4/inbox.h", 'front names engine hz4 in "engines/hz4/inbox.h"; the build chooses the engine'),
        ("src/front/a.c", "../engines/hz3/stash.h", 'front names engine hz3 in "../engines/hz3/stash.h"; the build chooses the engine'),
        ("src/front/a.c", "mailbox.h", 'front includes "mailbox.h" of ways/inbox, ways/queues'),
        ("src/front/a.c", "way.h", 'front includes "way.h" of hz3, hz4'),
        ("include/hakozuna/b.h", "heap/heap.h", 'the public header includes "heap/heap.h" of src'),
        ("include/hakozuna/b.h", "base/os/arena.h", 'the public header includes "base/os/arena.h" of src'),
        ("src/base/os/a.c", "base/gone.h", '"base/gone.h" is in none of the include roots'),
    ],
)
def test_include_across_layers(tree, path, include, message):
    assert tree({path: f'/* why */\n#include "{include}"\n'}, "include") == [f"{path}:2: [include] {message}"]


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/heap/pages/page.c", "heap/pages/drain.h", 'pages/page includes "heap/pages/drain.h", which comes after it in HEAP_ORDER'),
        ("src/heap/pages/page.h", "heap/heap.h", 'pages/page includes "heap/heap.h", which comes after it in HEAP_ORDER'),
        ("src/heap/pages/link.h", "mailbox.h", 'pages/link includes "mailbox.h", which comes after it in HEAP_ORDER'),
        ("src/ways/inbox/mail.c", "heap/pages/drain.h", 'way includes "heap/pages/drain.h", which comes after it in HEAP_ORDER'),
        ("src/engines/hz4/way.h", "heap/pages/page.h", 'knobs includes "heap/pages/page.h", which comes after it in HEAP_ORDER'),
        ("src/ways/queues/mailbox.h", "heap/pages/page.h", 'mailbox includes "heap/pages/page.h", which comes after it in HEAP_ORDER'),
        ("src/heap/helpers.c", "heap/pages/page.h", "helpers is not in HEAP_ORDER (tools/tidy.py)"),
    ],
)
def test_include_against_the_order_of_modules(tree, path, include, message):
    assert tree({path: f'#include "{include}"\n'}, "include") == [f"{path}:1: [include] {message}"]


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/base/os/a.c", "base/map/runmap.h", 'base/os includes "base/map/runmap.h", which is in no room up to it in BASE_ROOMS'),
        ("src/base/map/a.c", "base/map/runmap.h", None),
        ("src/base/watch/a.c", "base/os/arena.h", None),
        ("src/base/hall/a.c", "base/os/arena.h", "room 'hall' is not in BASE_ROOMS (tools/tidy.py)"),
        ("src/base/a.c", "base/os/arena.h", "room '' is not in BASE_ROOMS (tools/tidy.py)"),
    ],
)
def test_include_against_the_order_of_rooms(tree, path, include, message):
    found = tree({"src/base/map/runmap.h": "int x;\n", path: f'#include "{include}"\n'}, "include")
    assert found == ([f"{path}:1: [include] {message}"] if message else [])


def test_order_names_every_room_of_base():
    assert sorted(tidy.BASE_ROOMS) == sorted(path.name for path in (REPOSITORY / "src/base").iterdir())


def test_a_room_with_too_many_files(tree):
    files = {f"src/base/map/a{number}.c": "int x;\n" for number in range(tidy.ROOM_FILES)}
    assert tree(files, "rooms") == []
    assert tree({"src/base/map/b.c": "int x;\n"}, "rooms") == ["src/base/map:1: [rooms] 26 files; allowed: 25"]
    files = {f"tests/unit/base/map/a{number}.cc": "int x;\n" for number in range(tidy.ROOM_FILES + 1)}
    assert tree(files, "rooms")[-1] == "tests/unit/base/map:1: [rooms] 26 files; allowed: 25"


def test_order_names_every_module_of_the_heap():
    root = REPOSITORY / "src/heap"
    modules = {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.[ch]")}
    assert modules == set(tidy.HEAP_ORDER) - {"mailbox", "takers", "way", "cpu_bins"}
    assert len(tidy.HEAP_ORDER) == len(set(tidy.HEAP_ORDER))


def test_include_of_layer_in_angle_brackets(tree):
    assert tree({"src/base/os/a.c": "#include <engines/hz3/stash.h>\n"}, "include") != []


@pytest.mark.parametrize("name", ["engine_config.h", "engine_knobs.def", "engine_counters.def", "way.h"])
def test_include_of_an_engine_by_heap(tree, tmp_path, name):
    files = {"src/heap/heap.c": f'#include "{name}"\n'}
    assert tree(files, "include") == []
    (tmp_path / "src/engines/hz4" / name).unlink()
    problems = tidy.find_problems(tmp_path, ["src/heap/heap.c"], {"include"})
    assert [str(p) for p in problems] == [f'src/heap/heap.c:1: [include] heap includes "{name}", which hz4 does not have']


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/os/a.c", '"base/os/arena.h"'),
        ("src/base/os/a.c", "<stdio.h>"),
        ("src/base/os/a.c", '"hakozuna/hakozuna.h"'),
        ("src/heap/heap.c", '"base/os/arena.h"'),
        ("src/heap/heap.c", '"heap/knobs.def"'),
        ("src/heap/heap.c", '"heap/pages/drain.h"'),
        ("src/heap/heap.c", '"hakozuna/hakozuna.h"'),
        ("src/engines/hz3/a.c", '"base/os/arena.h"'),
        ("src/ways/inbox/mail.c", '"heap/pages/page.h"'),
        ("src/ways/inbox/mail.c", '"mailbox.h"'),
        ("src/ways/inbox/mailbox.h", '"way.h"'),
        ("src/ways/queues/mailbox.h", '"page_queue.h"'),
        ("src/heap/heap.c", '"mailbox.h"'),
        ("src/heap/heap.c", '"takers.h"'),
        ("src/engines/hz3/a.c", '"lanes/scale.h"'),
        ("src/engines/hz3/way.h", '"heap/knobs.def"'),
        ("src/engines/hz3/lanes/b.h", '"lanes/scale.h"'),
        ("src/engines/hz3/a.c", "HZ_LANE_HEADER"),
        ("src/engines/hz4/a.c", '"hakozuna/hakozuna.h"'),
        ("src/front/a.c", '"base/os/arena.h"'),
        ("src/front/a.c", '"heap/heap.h"'),
        ("src/front/a.c", '"hakozuna/hakozuna.h"'),
        ("include/hakozuna/b.h", '"hakozuna/hakozuna.h"'),
        ("tests/unit/a.cc", '"engines/hz4/inbox.h"'),
    ],
)
def test_include_within_layers(tree, path, include):
    assert tree({path: f"#include {include}\n"}, "include") == []


def test_include_in_comment_does_not_count(tree):
    assert tree({"src/base/os/a.c": '/*\n#include "engines/hz3/stash.h"\n*/\n'}, "include") == []


def test_modules_that_include_each_other(tree):
    files = {"src/base/os/a.h": "int a;\n", "src/base/os/a.c": '#include "base/os/b.h"\n', "src/base/os/b.h": '#include "base/os/c.h"\n'}
    assert tree({**files, "src/base/os/c.h": "int c;\n"}, "circle") == []
    circle = "src/base/os/a -> src/base/os/b -> src/base/os/c -> src/base/os/a"
    assert tree({**files, "src/base/os/c.h": '\n#include "base/os/a.h"\n'}, "circle") == [f"src/base/os/c.h:2: [circle] {circle}"]


def test_a_function_that_another_module_defines(tree):
    header = "/* what */\nint hz_a_get(int x);\n"
    assert tree({"src/base/os/a.h": header, "src/base/os/a.c": "int hz_a_get(int x) {\n    return x;\n}\n"}, "home") == []
    found = tree({"src/base/os/a.h": header, "src/base/os/a.c": "int x;\n", "src/base/os/b.c": "int hz_a_get(int x) {\n}\n"}, "home")
    assert found == ["src/base/os/a.h:2: [home] hz_a_get is not defined in src/base/os/a.c"]


def test_a_call_is_no_definition(tree):
    files = {"src/base/os/a.h": "int hz_a_get(void);\n", "src/base/os/a.c": "int f(void) {\n    return hz_a_get();\n}\n"}
    assert len(tree(files, "home")) == 1


def test_a_comment_behind_code_that_goes_on(tree):
    assert tree({"src/base/os/a.c": "int x; /* one,\n          two */\n"}, "note") == [
        "src/base/os/a.c:1: [note] a comment behind code must end on its line; put it above the statement"
    ]
    good = "/* one,\n   two */\nint x; /* three */\n#define Y 1 /* four\n*/\nint z; /* five */ /* six */\n"
    assert tree({"src/base/os/a.c": good, "tests/a.cc": "int x; /* one,\n two */\n"}, "note") == []


def test_long_file(tree):
    assert tree({"src/base/os/a.c": "int x;\n" * 801}, "length") == ["src/base/os/a.c:801: [length] 801 lines; allowed: 800"]
    assert tree({"src/base/os/a.c": "int x;\n" * 800}, "length") == []


def test_long_file_that_is_a_script(tree):
    assert len(tree({"tools/thing": "#!/bin/sh\n" + "true\n" * 800}, "length")) == 1


def test_long_file_that_is_data(tree):
    assert tree({"bench/results/a.csv": "1,2\n" * 2000}, "length") == []


BODIES = [
    "static int f(int a,\n             int b) {{\n{0}}}\n",
    "struct pair f(void) {{\n{0}}}\n",
    'extern "C" {{\nint f(void) {{\n{0}}}\n}}\n',
    "namespace a {{\nTEST(One, Two) {{\n{0}}}\n}} // namespace a\n",
    "class A {{\n  public:\n    int f() const {{\n{0}    }}\n}};\n",
    "#define OPEN {{\nint f(void) {{\n{0}}}\n",
    "int f(void) {{\n    char c = '{{'; /* {{ */\n{0}    puts(\"}}\");\n}}\n",
]


@pytest.mark.parametrize("shape", BODIES)
def test_long_function(tree, shape):
    path = "src/base/os/a.cc"
    [problem] = tree({path: shape.format("    x++;\n" * 69)}, "length")
    assert "function of 7" in problem and problem.endswith("allowed: 70")
    assert tree({path: shape.format("    x++;\n" * 60)}, "length") == []


def test_long_function_is_named_by_its_first_line(tree):
    text = "int x;\n\nint f(void) {\n" + "    x++;\n" * 70 + "}\n"
    assert tree({"src/base/os/a.c": text}, "length") == ["src/base/os/a.c:3: [length] function of 72 lines; allowed: 70"]


def test_long_table_is_not_a_function(tree):
    text = "static const int table[] = {\n" + "    1,\n" * 100 + "};\n"
    assert tree({"src/base/os/a.c": text}, "length") == []


def test_long_python_function(tree):
    text = "def f():\n" + "    x = 1\n" * 70
    assert tree({"tools/a.py": text}, "length") == ["tools/a.py:1: [length] function of 71 lines; allowed: 70"]
    assert tree({"tools/a.py": "", "tools/a": "#!/usr/bin/env python3\n" + text}, "length") != []


@pytest.mark.parametrize("directive", ["#if HZ_CHECKS", "#ifdef HZ_CHECKS", "  #  ifndef X", "#elif Y", "#else"])
@pytest.mark.parametrize("path", ["src/base/os/a.c", "src/heap/a.h", "src/heap/engine_config.h", "src/engines/hz3/bin.h", "src/front/a.c", "bench/w.c"])
def test_condition(tree, path, directive):
    [problem] = tree({path: f"int x;\n{directive}\n"}, "condition")
    assert problem.startswith(f"{path}:2: [condition] #")


@pytest.mark.parametrize(
    "path", ["src/base/os/compiler.h", "src/base/os/os_linux.c", "src/base/os/syscall.h", "src/heap/config.c", "src/engines/hz3/engine_config.h", "src/engines/hz3/lanes/scale.h", "include/hakozuna/hakozuna.h", "tests/contract/api.h"]
)
def test_condition_where_it_belongs(tree, path):
    assert tree({path: "int x;\n#if HZ_CHECKS\n#endif\n"}, "condition") == []


def test_include_guard_is_not_a_condition(tree):
    guard = "/* what\n#if inside a comment */\n#ifndef HZ_A_H\n#define HZ_A_H\n#ifdef __cplusplus\n#endif\n#endif\n"
    assert tree({"src/base/os/a.h": guard}, "condition") == []


def test_default_of_macro_is_not_an_include_guard(tree):
    text = "#ifndef HZ_A_H\n#define HZ_A_H\n#ifndef SIZE\n#define SIZE 3\n#endif\n#endif\n"
    assert len(tree({"src/base/os/a.h": text}, "condition")) == 1
    assert len(tree({"src/base/os/a.h": "", "src/base/os/a.c": "#ifndef SIZE\n#define SIZE 3\n#endif\n"}, "condition")) == 1


@pytest.mark.parametrize(
    "code",
    [
        "x = atomic_load(&y);",
        "atomic_fetch_add_explicit(&x, 1, o);",
        "__atomic_store_n(&x, 1, 0);",
        "__sync_synchronize();",
        "int order = memory_order_relaxed;",
        "#include <stdatomic.h>",
    ],
)
def test_atomic(tree, code):
    [problem] = [p for p in tree({"src/engines/hz3/a.c": f"\n{code}\n"}, "atomic")][:1]
    assert problem.startswith("src/engines/hz3/a.c:2: [atomic]")
    assert tree({"src/engines/hz3/a.c": "", "src/base/os/atomic.h": code}, "atomic") == []


def test_atomic_names_of_ours_and_comments(tree):
    text = "/* atomic_load(x) */\n_Atomic(int) x;\nint y = hz_load_rlx(&x);\n"
    assert tree({"src/engines/hz3/a.c": text}, "atomic") == []


@pytest.mark.parametrize(
    "text",
    [
        "cd /wo" + "rk/main",
        "(/ro" + "ot/.cache)",
        "see /ho" + "me/anna/x",
        "/tmp/bash" + "_jobs.0/x",
        "// TO" + "DO: later",
        "# FIX" + "ME",
        "X" * 3 + " odd",
    ],
)
@pytest.mark.parametrize("path", ["src/base/os/a.c", "docs/a.md", "Makefile"])
def test_word(tree, path, text):
    [problem] = tree({path: f"fine\n{text}\n"}, "word")
    assert problem.startswith(f"{path}:2: [word]")


@pytest.mark.parametrize("text", ["mktemp /tmp/a.XXXXXX", "bench/work/x", "the root of it", "/usr/lib", "$HOME/root/", "a/home/b"])
def test_word_that_is_allowed(tree, text):
    assert tree({"docs/a.md": text + "\n"}, "word") == []


def test_width(tree):
    text = "é" * 160 + "\n" + "| a " * 41 + "\n"
    assert tree({"docs/a.md": text}, "width") == ["docs/a.md:2: [width] 164 columns; allowed: 160"]
    assert tree({"docs/a.md": "short\n", "docs/a.csv": text, "src/base/os/a.c": text}, "width") == []


def test_long_page(tree):
    page = "text\n" * 151
    breach = ["docs/a.md:151: [page] 151 lines; allowed: 150"]
    assert tree({"docs/a.md": page}, "page") == breach
    assert tree({"docs/a.md": "text\n" * 150, "CHANGELOG.md": page, "docs/a.txt": page}, "page") == []


@pytest.mark.parametrize(
    "mark",
    [
        "<!-- written by tools/lanes.py (make docs); do not edit -->\n",
        "<!-- results: a.csv -->\n<!-- `hakobench report --markdown` wrote this page: edit suite.md.j2, not this file -->\n",
    ],
)
def test_long_page_that_a_program_wrote(tree, mark):
    assert tree({"docs/a.md": mark + "text\n" * 150}, "page") == []
    assert len(tree({"docs/a.md": "text\n" * 150 + mark}, "page")) == 1  # a table in it may be written, the page is not


def test_every_page_that_a_program_writes_is_known_as_such():
    for path in ["docs/lanes.md", "docs/counters.md", *(f"bench/results/{suite}.md" for suite in ("apps", "large", "quick", "rss", "seeds"))]:
        assert tidy.WRITTEN.search("\n".join(tidy.Source(REPOSITORY, path).lines[:2])), path


def test_format(tree):
    [problem] = tree({"src/base/os/a.c": "int x;\n\nint   y;\n"}, "format")
    assert problem == "src/base/os/a.c:3: [format] clang-format would change this"


def test_binary_file_is_left_alone(tree, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe\x00")
    assert tree({}, *tidy.RULES) == []


def test_ignored_files_are_left_alone(tree, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files = {".gitignore": "/build/\n", "build/a.c": "#if X\n", "src/base/os/new.c": "#if X\n"}
    problems = tree(files, "condition")
    assert [p.split(":")[0] for p in problems] == ["src/base/os/new.c"]


def run_tool(*arguments):
    return subprocess.run(["/usr/bin/python3", TOOL, *arguments], capture_output=True, text=True)


def test_exit_codes(tree, tmp_path):
    tree({})
    good = run_tool("--root", tmp_path)
    assert (good.returncode, good.stdout.splitlines()[-1][:6]) == (0, "tidy: ")
    tree({"src/base/os/a.c": "#if X\n#endif\n"})
    bad = run_tool("--root", tmp_path)
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[0].startswith("src/base/os/a.c:1: [condition]")
    assert bad.stdout.splitlines()[-1].endswith("1 problems")


def test_bad_arguments(tmp_path):
    missing = run_tool("--root", tmp_path / "gone")
    assert missing.returncode == 2 and "want a directory" in missing.stderr
    rule = run_tool("--rule", "beauty")
    assert rule.returncode == 2 and "'beauty'" in rule.stderr and "include" in rule.stderr
    empty = run_tool("--root", tmp_path)
    assert empty.returncode == 2 and "it has no files" in empty.stderr
