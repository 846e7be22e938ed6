"""The library as a file: exports, dependencies, start in small address spaces, dlopen, building itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, Preload, archive_of, clean_environment, compile_c, describe, exported_names, required

MALLOC_FAMILY = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
    "pvalloc", "cfree", "malloc_usable_size", "malloc_trim", "mallopt", "mallinfo", "mallinfo2", "malloc_info",
    "malloc_stats", "free_sized", "free_aligned_sized",
    "__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign", "__libc_valloc",
    "__libc_pvalloc", "__libc_mallopt", "__libc_mallinfo",
}  # fmt: skip
HZ_NAMES = {
    "hz_malloc", "hz_free", "hz_calloc", "hz_realloc", "hz_reallocarray", "hz_aligned_alloc", "hz_aligned_realloc",
    "hz_rezalloc", "hz_recalloc", "hz_expand", "hz_malloc_sized", "hz_free_batch", "hz_thread_idle",
    "hz_thread_stats_get", "hz_threads_stats_get", "hz_stats_peak_reset", "hz_posix_memalign", "hz_memalign",
    "hz_valloc", "hz_pvalloc", "hz_free_sized", "hz_free_aligned_sized", "hz_usable_size", "hz_good_size",
    "hz_background_set", "hz_confine", "hz_leaks_check", "hz_limit_get", "hz_limit_notify", "hz_limit_set", "hz_purge", "hz_version", "hz_config_string", "hz_stats_print",
    "hz_stats_get", "hz_zone_create", "hz_zone_destroy", "hz_zone_malloc", "hz_zone_calloc", "hz_zone_aligned_alloc",
    "hz_zone_of", "hz_zone_stats_get", "hz_sampling_start", "hz_sampling_notify",
}  # fmt: skip
# Itanium C++ ABI: nw, na, dl, da are new, new[], delete, delete[]; among the arguments, m is size_t.
OPERATORS = {
    prefix + suffix
    for prefix in ("_Znwm", "_Znam")
    for suffix in ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")
} | {
    prefix + suffix
    for prefix in ("_ZdlPv", "_ZdaPv")
    for suffix in (
        "", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t", "St11align_val_tRKSt9nothrow_t",
    )
}  # fmt: skip


@pytest.mark.usefixtures("ours_only")
def test_exactly_the_intended_symbols_are_exported(library: Path) -> None:
    names = exported_names(library)
    versions = {name for name in names if re.fullmatch(r"(LIB)?HAKOZUNA[A-Z0-9_.]*", name)}
    # the first two look for RTLD_DEEPBIND; the next two start the keeper with the program's first thread; before the next
    # two install a filter the keeper ends, and for the others our threads start anew
    own = {"dlopen", "dlmopen", "pthread_create", "thrd_create", "prctl", "syscall", "unshare", "setns", "capset"}
    own |= {"__size_returning_new", "__size_returning_new_aligned"}
    # these tell of what the program tells the kernel about its blocks
    own |= {"madvise", "mbind", "mlock", "mlock2", "mlockall", "mmap", "mmap64", "mprotect", "mremap", "munlockall", "munmap"}
    own |= {"pkey_mprotect"}
    assert MALLOC_FAMILY | HZ_NAMES | OPERATORS | own == names - versions


@pytest.mark.usefixtures("ours_only")
def test_every_function_of_glibcs_malloc_is_replaced(library: Path) -> None:
    """A function that the library did not replace would return glibc's blocks, which would then reach our free. The list
    is that of the glibc on this machine, so a name that a later glibc adds is noticed. GLIBC_PRIVATE names are glibc's
    own, and what it gets through them it allocates by `malloc`."""
    maps = Path("/proc/self/maps").read_text()
    libc = next(line.split()[-1] for line in maps.splitlines() if line.endswith("/libc.so.6"))
    listing = subprocess.run(["nm", "-D", "--defined-only", libc], check=True, capture_output=True, text=True).stdout
    public = re.findall(r" [TWi] (\w+)@@?GLIBC_[0-9.]+$", listing, re.MULTILINE)
    member = re.compile(
        r"(__libc_)?([a-z_]*(malloc|calloc|memalign|valloc)[a-z_]*|realloc(array)?|c?free(_(aligned_)?sized)?|mallopt|"
        r"mallinfo2?|aligned_alloc)"
    )
    family = {name for name in public if member.fullmatch(name)}
    assert {"malloc", "aligned_alloc", "posix_memalign", "__libc_pvalloc", "malloc_info"} <= family
    assert family <= exported_names(library)


@pytest.mark.usefixtures("ours_only")
def test_needs_only_libc(library: Path) -> None:
    headers = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", headers))
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}, needed


@pytest.mark.usefixtures("ours_only")
def test_thread_local_storage_is_small(library: Path) -> None:
    """glibc reserves little static TLS (1664 bytes by default) for libraries loaded with dlopen."""
    headers = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True, text=True).stdout
    sizes = [int(line.split()[5], 16) for line in headers.splitlines() if line.split()[:1] == ["TLS"]]
    assert sum(sizes) <= 512, f"{sum(sizes)} bytes"


def test_c_programs_do_not_load_the_cpp_runtime(preload: Preload, is_ours: bool, tmp_path: Path) -> None:
    program = compile_c("show_maps.c", tmp_path / "show_maps")
    maps = preload.run(program).stdout
    assert str(preload.library) in maps
    if is_ours:
        assert "libstdc++" not in maps
        assert "libgcc_s" not in maps


@pytest.mark.parametrize("megabytes", [32, 48, 64, 128, 1024])
def test_small_programs_start_in_little_address_space(preload: Preload, megabytes: int) -> None:
    script = "x=0; for i in {1..2000}; do a[$i]=$i; x=$((x + i)); done; echo ${#a[@]} $x; /bin/true && echo well"
    command = f"ulimit -v {megabytes * 1024} && exec bash -c {shlex.quote(script)}"
    assert preload.run("bash", "-c", command, least_processes=2).stdout == "2000 2001000\nwell\n"


@pytest.mark.parametrize("megabytes", [64, 96, 256])
def test_python_starts_in_little_address_space(preload: Preload, megabytes: int) -> None:
    program = "print(sum(len(str(i)) for i in range(100000)), len({i: [i] for i in range(20000)}))"
    command = f"ulimit -v {megabytes * 1024} && exec /usr/bin/python3 -I -S -c {shlex.quote(program)}"
    plain = preload.run("bash", "-c", command, preload=False, check=False)
    if plain.returncode != 0:
        pytest.skip(f"python does not start in {megabytes} MB with glibc's malloc either")
    assert preload.run("bash", "-c", command).stdout == plain.stdout


def test_python_raises_memory_error_at_its_limit(preload: Preload) -> None:
    program = """
blocks = []
try:
    while True:
        blocks.append(bytearray(100_000))
except MemoryError:
    count = len(blocks)
    del blocks
    again = [bytearray(100_000) for _ in range(count * 3 // 4)]
    print("survived", count > 300, len(again) > 200)
"""
    command = f"ulimit -v {256 * 1024} && exec /usr/bin/python3 -I -S -c {shlex.quote(program)}"
    assert preload.run("bash", "-c", command).stdout == "survived True True\n"


@pytest.mark.usefixtures("ours_only")
def test_show_config_prints_key_value_words_on_stderr(preload: Preload) -> None:
    result = preload.run("/bin/echo", "out", variables={"HAKOZUNA_SHOW_CONFIG": "2"})
    assert result.stdout == "out\n"
    first, *lines = result.stderr.splitlines()
    assert preload.run("/bin/echo", variables={"HAKOZUNA_SHOW_CONFIG": "1"}).stderr.count("\n") == 1
    assert [line.split(":")[0] for line in lines[1:]] == ["keeper", "soft limit"], result.stderr
    words = lines[0].split()
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    lane = pairs["engine"] + ("" if pairs["lane"] == "default" else f"-{pairs['lane']}")
    wanted = rf"hakozuna {pairs['version']} in echo \(pid \d+\): {lane}, \d+ CPUs?, no keeper: the program has started no second thread"
    assert re.fullmatch(wanted, first), first
    assert {"engine", "lane", "version", "shards", "checks", "build"} <= pairs.keys(), result.stderr
    assert all("=" in word for word in words), result.stderr
    assert lines[1] == "keeper: none: the program has started no second thread"
    for off in ("0", ""):
        assert preload.run("/bin/echo", "out", variables={"HAKOZUNA_SHOW_CONFIG": off}).stderr == ""
    wrong = preload.run("/bin/echo", "out", variables={"HAKOZUNA_SHOW_CONFIG": "yes"})
    assert (wrong.stdout, wrong.stderr) == ("out\n", "hakozuna: HAKOZUNA_SHOW_CONFIG=yes: allowed are 0 (off), 1 (a line) and 2 (the knobs too)\n")


@pytest.mark.usefixtures("ours_only")
def test_reports_are_json_from_inside_python(preload: Preload) -> None:
    program = """
import ctypes, json, os, sys
library = ctypes.CDLL(None)
library.hz_config_string.restype = ctypes.c_char_p
words = dict(word.split("=", 1) for word in library.hz_config_string().decode().split())
reader, writer = os.pipe()
assert library.hz_stats_print(writer, 1) == 0
os.close(writer)
report = json.loads(os.fdopen(reader).read())
print(json.dumps({"words": words, "report": report, "trimmed": library.malloc_trim(0)}))
"""
    answer = json.loads(preload.run("/usr/bin/python3", "-I", "-c", program).stdout)
    assert answer["words"]["engine"].startswith("hz")
    assert answer["report"]["heap"]["live_bytes"] > 100_000
    assert answer["trimmed"] in (0, 1)


@pytest.mark.usefixtures("ours_only")
def test_statistics_are_not_printed_unasked(preload: Preload) -> None:
    result = preload.run("bash", "-c", "/bin/true; /bin/true; (exit 0)", least_processes=3)
    assert (result.stdout, result.stderr) == ("", "")


def test_dlopen_from_a_c_program(library: Path, is_ours: bool, tmp_path: Path) -> None:
    program = compile_c("dlopen_host.c", tmp_path / "dlopen_host")
    prefix = "hz_" if is_ours else ""
    result = subprocess.run(
        [program, library, prefix], env=clean_environment(), capture_output=True, text=True, timeout=120
    )
    if not is_ours and "static TLS" in result.stderr:
        pytest.skip(f"this library does not promise to work with dlopen: {result.stderr}")
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


@pytest.mark.usefixtures("ours_only")
def test_threads_of_c11_start_the_keeper(preload: Preload, tmp_path: Path) -> None:
    program = compile_c("c11_threads.c", tmp_path / "c11_threads")
    assert preload.run(program).stdout == "42\nkeeper\n"
    assert preload.run(program, variables={"HAKOZUNA_BACKGROUND": "0"}).stdout == "42\nalone\n"


LIFE = """preinit array
early constructor
constructor
main
thread
destructor of a key
module: constructor
module: call
module: destructor
module: atexit handler
end of main
"""
ENDS = {"return": "on_exit handler\natexit handler\ndestructor\n", "quick": "at_quick_exit handler\n"}


@pytest.mark.parametrize("end", ENDS)
def test_every_stage_of_a_process_allocates(preload: Preload, end: str, tmp_path: Path) -> None:
    """Before main, in handlers and destructors of all kinds, and in a module that is loaded and closed."""
    program = compile_c("lifecycle.c", tmp_path / "lifecycle")
    module = compile_c("lifecycle_module.c", tmp_path / "module.so", "-shared", "-fPIC")
    assert preload.run(program, module, *(["quick"] if end == "quick" else [])).stdout == LIFE + ENDS[end]


REPLACES = ["g++", "-std=c++17", "-O1", "-Wno-sized-deallocation", str(PROGRAMS / "replaces.cc")]


def test_a_program_may_replace_some_operators(preload: Preload, tmp_path: Path) -> None:
    program = tmp_path / "replaces"
    subprocess.run([*REPLACES, "-o", program], check=True)
    preload.run(program)


@pytest.mark.usefixtures("ours_only")
def test_a_program_with_the_archive_may_replace_some_operators(library: Path, tmp_path: Path) -> None:
    """Two strong definitions of one operator would not link."""
    program = tmp_path / "replaces"
    subprocess.run([*REPLACES, archive_of(library), "-pthread", "-o", program], check=True)
    names = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    assert re.search(r" [TtWw] hz_heap_malloc|hz_malloc_slow$", names, re.MULTILINE), "malloc is not the archive's"
    subprocess.run([program], env=clean_environment(), check=True, timeout=60)


@pytest.mark.deep
@pytest.mark.usefixtures("ours_only")
def test_the_library_builds_itself_under_its_own_preload(preload: Preload, tmp_path: Path) -> None:
    build = tmp_path / "build"
    lanes = "-DHAKOZUNA_LANES=hz3/scale;hz4"  # the libraries that the suite runs with
    configure = [required("cmake"), "-S", ROOT, "-B", build, "-G", "Ninja", "-DHAKOZUNA_BUILD_TESTS=OFF", "-DHAKOZUNA_BUILD_BENCHMARKS=OFF"]
    preload.run(*configure, lanes, least_processes=20)
    preload.run(required("ninja"), "-C", build, "-j2", f"lib/{preload.library.name}", least_processes=20)
    built = Preload(build / "lib" / preload.library.name, preload.log_directory)
    assert built.library.is_file()
    result = built.run(sys.executable, "-c", "print(len([str(i) for i in range(100000)]))")
    assert result.stdout == "100000\n", describe(result)
