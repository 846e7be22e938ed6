"""The workloads do the work they describe, refuse bad arguments, have no races, and notice a broken allocator."""

import os
import pathlib
import re
import subprocess

import pytest
from workload_programs import NAMES, SOURCES, build_library, build_workloads

ARGS = "bench_random_mixed_malloc_args"
DIST = "bench_random_mixed_malloc_dist"
REMOTE = "bench_random_mixed_mt_remote_malloc"

# Short runs of each workload, in all of its modes.
SMALL_RUNS = [
    (ARGS, "20000 100 16 2048"),
    (ARGS, "20000 100 16 2048 0x2a --pair"),
    (ARGS, "500 50 8 9000 3 --pair --check=full"),
    (ARGS, "1 1 8 8 --check=full"),
    (ARGS, "40000 30000 16 64 --pair"),
    (DIST, "20000 100 16 65536 1 app"),
    (DIST, "20000 100 16 256 0x12345678 trimix 16 256 100 257 2048 0 2049 32768 0 --pair"),
    (REMOTE, "1 20000 100 16 2048 90"),
    (REMOTE, "2 20000 100 16 2048 0"),
    (REMOTE, "2 20000 100 16 2048 100 2 --full=wait"),
    (REMOTE, "3 20000 100 16 2048 90 2 --full=fallback"),
    (REMOTE, "4 2000 50 8 4000 50 16 --full=wait --check=full"),
    (REMOTE, "16 2000 50 16 2048 90 --full=wait --seed=9"),
    ("xmalloc_test", "2 2 10"),
    ("xmalloc_test", "1 3 150 100 7 --check=full"),
    ("xmalloc_test", "3 1 20 8 1000"),
    ("larson", "2 8 1000 100 10"),
    ("larson", "5 8 300 50 2 7 --generations=20 --check=full"),
    ("larson", "1 64 64 1 1 --generations=1"),
    ("burst_idle", "1 1 1 --idle=0"),
    ("burst_idle", "8 2 3 16 1024 --idle=0 --check=full"),
    ("burst_idle", "3 1 2 8 8 --idle=1"),
    ("resident", "1 --shape=classes --idle=0"),
    ("resident", "1 --shape=shift --idle=0 --seed=7"),
    ("resident", "1 3 --shape=queues --rounds=500 --idle=0"),
    ("resident", "1 3 --shape=relay --idle=0"),
    ("resident", "1 5 --shape=sleepers --idle=1"),
    ("resident", "2 --shape=stranger --idle=0"),
    ("resident", "1 4 --shape=ended --idle=0"),
    ("cache_scratch", "2 20 100"),
    ("cache_scratch", "3 20 100 1"),
    ("cache_thrash", "2 20 100 24"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build_workloads(tmp_path_factory.mktemp("workloads"))


def run(
    programs: pathlib.Path, name: str, args: str, preload: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = os.environ | ({"LD_PRELOAD": str(preload)} if preload else {})
    return subprocess.run(
        [programs / name, *args.split()], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def values(out: str) -> dict[str, str]:
    return dict(re.findall(r"(?:^|\s)([a-z_0-9]+)=(\S+)", out))


def check_good_run(name: str, done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    # the only warning that a good run may print
    remarks = re.sub(r"\Awarning: \d+\.\d\d % of the sends met a full ring .*\n", "", done.stderr)
    assert (done.returncode, remarks) == (0, "")
    found = values(done.stdout)
    figure = "seconds" if name.startswith("cache_") else "ops_per_s"
    assert done.stdout.splitlines()[-1].startswith(f"{figure}=")
    assert float(found[figure]) > 0
    assert float(found["seconds"]) > 0
    assert 0 < int(found["final_rss_kb"]) <= int(found["peak_rss_kb"])
    assert found["identity"] == "ok"
    return found


def test_there_is_a_small_run_of_every_workload() -> None:
    assert {name for name, _ in SMALL_RUNS} == set(NAMES)


@pytest.mark.parametrize(("name", "args"), SMALL_RUNS)
def test_small_run(programs: pathlib.Path, name: str, args: str) -> None:
    check_good_run(name, run(programs, name, args))


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizer_finds_nothing(tmp_path: pathlib.Path, sanitizer: str) -> None:
    built = build_workloads(tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    for name, args in SMALL_RUNS:
        check_good_run(name, run(built, name, args))


def test_toggle_frees_and_allocates_one_each_step(programs: pathlib.Path) -> None:
    found = check_good_run(ARGS, run(programs, ARGS, "30001 100 16 256 5"))
    assert int(found["allocated"]) + int(found["freed"]) == 30001
    assert int(found["allocated"]) == int(found["freed"]) + int(found["remaining_freed"])
    assert 0 < int(found["remaining_freed"]) <= 100


def test_pairs_keep_every_slot_filled(programs: pathlib.Path) -> None:
    found = check_good_run(ARGS, run(programs, ARGS, "3000 100 16 256 5 --pair"))
    assert (found["allocated"], found["freed"], found["remaining_freed"]) == ("3000", "3000", "100")
    assert float(found["ops_per_s"]) == pytest.approx(2 * float(found["pairs_per_s"]), rel=1e-3)


def test_large_working_set_is_really_live(programs: pathlib.Path) -> None:
    """All slots are reached, although the table of draws is smaller than the number of slots."""
    few = check_good_run(ARGS, run(programs, ARGS, "1000000 1000 1024 1024 5"))
    many = check_good_run(ARGS, run(programs, ARGS, "1000000 100000 1024 1024 5"))
    assert int(many["remaining_freed"]) > 40000
    assert int(many["peak_rss_kb"]) - int(few["peak_rss_kb"]) > 35000


def test_remote_identity_and_target(programs: pathlib.Path) -> None:
    done = run(programs, REMOTE, "4 20000 100 16 512 90 64 --full=wait")
    found = check_good_run(REMOTE, done)
    allocated, local, sent = (int(found[key]) for key in ("allocated", "local_freed", "remote_sent"))
    assert allocated + local + sent == 4 * 20000
    assert sent == int(found["remote_received"])
    assert allocated == local + sent + int(found["remaining_freed"])
    assert found["ring_full_fallback"] == "0"
    assert re.search(
        r"^\[EFFECTIVE_REMOTE\] target=90\.0% actual=(89|90|91)\.\d% fallback_rate=0\.00%$", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"^\[STATS\] allocated=\d+ local_freed=\d+ remote_sent=\d+ remote_received=\d+ ring_full_fallback=0 "
        r"overflow_sent=0 overflow_received=0$",
        done.stdout,
        re.MULTILINE,
    )


def test_full_ring_falls_back_to_local_frees_and_warns(programs: pathlib.Path) -> None:
    """16 threads on few CPUs: the next thread sleeps most of the time, so a ring of two entries is soon full."""
    done = run(programs, REMOTE, "16 50000 100 16 512 90 2 --full=fallback")
    found = check_good_run(REMOTE, done)
    assert 0 < int(found["ring_full_fallback"]) <= int(found["local_freed"])
    assert int(found["allocated"]) + int(found["local_freed"]) + int(found["remote_sent"]) == 16 * 50000
    assert "of the sends met a full ring" in done.stderr


def test_same_seed_same_work(programs: pathlib.Path) -> None:
    """With a single thread the counts depend only on the seed."""
    first, again, other = (
        values(run(programs, ARGS, f"30000 100 16 256 {seed}").stdout) for seed in ("11", "0xb", "12")
    )
    assert first["allocated"] == again["allocated"]
    assert first["remaining_freed"] != other["remaining_freed"] or first["allocated"] != other["allocated"]


def test_xmalloc_counts(programs: pathlib.Path) -> None:
    found = check_good_run("xmalloc_test", run(programs, "xmalloc_test", "2 3 120 16 11"))
    assert found["allocated"] == found["freed"] == str(2 * 120 * 11)


def test_xmalloc_by_time_ends_and_balances(programs: pathlib.Path) -> None:
    found = check_good_run("xmalloc_test", run(programs, "xmalloc_test", "1 1 --seconds=1"))
    assert found["fixed"] == "time"
    assert found["allocated"] == found["freed"] != "0"


SPARSE = """
#include "next.h"
extern void *__libc_memalign(size_t alignment, size_t size);
void *malloc(size_t size) { return __libc_memalign(4096, size); }
"""


def test_live_bytes_and_their_pages(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """An allocator that puts each block on a page of its own needs more pages for the same bytes."""
    args = "1 --shape=shift --idle=0"
    dense = check_good_run("resident", run(programs, "resident", args))
    sparse = check_good_run("resident", run(programs, "resident", args, build_library(tmp_path / "sparse.so", SPARSE)))
    assert int(dense["live_kb"]) == int(sparse["live_kb"]) > 1024
    assert int(dense["live_kb"]) <= int(dense["live_pages_kb"]) < int(sparse["live_pages_kb"]) - 2000
    none = check_good_run("resident", run(programs, "resident", "1 2 --shape=relay --idle=0"))
    assert (none["live_kb"], none["live_pages_kb"]) == ("0", "0")


def test_pages_are_counted_exactly(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "pages.c"
    source.write_text(
        '#include <stdio.h>\n#include "live_pages.h"\n#include "machine.h"\n'
        "int main(void) {\n"
        "    const struct block_rules rules = {8, 100000, false};\n"
        "    uint32_t tags = 7;\n"
        "    unsigned char *memory = machine_map(400, 1 << 21);\n"
        "    struct live_pages set;\n"
        "    live_pages_open(&set);\n"
        '    printf("%d", (int)live_pages_close_kb(&set));\n'
        "    live_pages_open(&set);\n"
        "    live_pages_add(&set, block_sealed(&rules, memory, 4096, &tags));\n"  # one page
        "    live_pages_add(&set, block_sealed(&rules, memory + 4096 + 4000, 97, &tags));\n"  # two
        "    live_pages_add(&set, block_sealed(&rules, memory + 8200, 8, &tags));\n"  # the second of them
        "    for (int i = 1; i < 400; i++)\n"  # one in each region of 2 MiB
        "        live_pages_add(&set, block_sealed(&rules, memory + ((size_t)i << 21) + 65536, 4096, &tags));\n"
        '    printf(" %d\\n", (int)live_pages_close_kb(&set));\n'
        "    return 0;\n"
        "}\n"
    )
    common = SOURCES / "common"
    program = tmp_path / "pages"
    parts = [source, *(common / f"{name}.c" for name in ("live_pages", "machine", "block"))]
    subprocess.run(["cc", "-std=c11", "-pthread", "-I", common, "-o", program, *parts], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == f"0 {(3 + 399) * 4}\n"


def test_help_names_ranges(programs: pathlib.Path) -> None:
    for name in NAMES:
        done = run(programs, name, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: {name} ")
        assert re.search(r"\d\.\.\d", done.stdout)


BAD_ARGUMENTS = [
    (ARGS, "", "ITERS is missing (steps, 1..1099511627776)"),
    (ARGS, "10 10 16", "MAX is missing (largest size in bytes, 8..1073741824)"),
    (ARGS, "0 10 16 32", "ITERS: '0' is not a whole number from 1 to 1099511627776"),
    (ARGS, "10 10 7 32", "MIN: '7' is not a whole number from 8 to 1073741824"),
    (ARGS, "10 10 16 1g", "MAX: '1g' is not a whole number from 8 to 1073741824"),
    (ARGS, "10 10 -16 32", "MIN: '-16' is not a whole number from 8 to 1073741824"),
    (ARGS, "10 10 64 32", "MIN: '64' must not be above MAX, which is 32"),
    (ARGS, "10 10 16 32 0x", "SEED: '0x' is not a whole number from 0 to 18446744073709551615"),
    (ARGS, "10 10 16 32 18446744073709551616", "SEED: '18446744073709551616' is not a whole number from 0"),
    (ARGS, "10 10 16 32 1 2", "'2' is one argument too many"),
    (ARGS, "10 10 16 32 --check=most", "--check: 'most' is not edges or full"),
    (ARGS, "10 10 16 32 --check", "'--check': --check needs a value after '='"),
    (ARGS, "10 10 16 32 --pair=1", "'--pair=1': --pair takes no value"),
    (ARGS, "10 10 16 32 --pairs", "unknown option '--pairs'"),
    (DIST, "10 10 16 32 1", "the distribution is missing: app, or trimix and 9 numbers"),
    (DIST, "10 10 16 32 1 normal", "'normal' is not a distribution; use app or trimix"),
    (DIST, "10 10 16 32 1 app 3", "'3' is one argument too many: app takes no numbers"),
    (DIST, "10 10 16 32 1 trimix 16 32 1", "trimix takes 9 numbers (LO HI W three times), not 3"),
    (DIST, "10 10 16 32 1 trimix 16 32 0 16 32 0 16 32 0", "W: '0' three times"),
    (DIST, "10 10 16 32 1 trimix 16 32 1 64 32 1 16 32 1", "LO: '64' must not be above HI, which is 32"),
    (REMOTE, "0 10 10 16 32 50", "THREADS: '0' is not a whole number from 1 to 1024"),
    (REMOTE, "1025 10 10 16 32 50", "THREADS: '1025' is not a whole number from 1 to 1024"),
    (REMOTE, "2 10 10 16 32 101", "REMOTE_PCT: '101' is not a whole number from 0 to 100"),
    (REMOTE, "2 10 10 16 32 50 1000", "RING_SLOTS: '1000' is not a power of two from 2 to 16777216"),
    (REMOTE, "2 10 10 16 32 50 --full=drop", "--full: 'drop' is not fallback or wait"),
    (REMOTE, "2 10 10 16 32 50 --seed=x", "seed: 'x' is not a whole number from 0 to 18446744073709551615"),
    ("xmalloc_test", "0 1", "PRODUCERS: '0' is not a whole number from 1 to 512"),
    ("larson", "1 16 8 1 1", "MIN: '16' must not be above MAX, which is 8"),
    ("burst_idle", "0 1", "PRODUCERS: '0' is not a whole number from 1 to 1023"),
    ("burst_idle", "1 1 1 16 8", "MIN: '16' must not be above MAX, which is 8"),
    ("resident", "0", "MIB: '0' is not a whole number from 1 to 1048576"),
    ("resident", "1 --shape=round", "--shape: 'round' is not classes or shift or queues or relay or sleepers or stranger or ended"),
    ("larson", "1 8 16 1 1 --generations=0", "generations: '0' is not a whole number from 1 to 10000"),
    ("cache_scratch", "1 1", "WRITES is missing"),
    ("cache_thrash", "1 1 1 0", "SIZE: '0' is not a whole number from 1 to 1048576"),
]


@pytest.mark.parametrize(("name", "args", "message"), BAD_ARGUMENTS)
def test_bad_arguments(programs: pathlib.Path, name: str, args: str, message: str) -> None:
    done = run(programs, name, args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{name}: {message}")
    assert f"usage: {name} " in done.stderr


# Allocators that are broken in one way each, but only for a size that nothing but the workload requests.
FLIPS_LAST_BYTE = """
#include "next.h"
void *malloc(size_t size) {
    static _Thread_local unsigned char *last; static _Thread_local size_t last_size, calls;
    if (size == 72 && ++calls % 1000 == 0) last[last_size - 1] ^= 1;
    unsigned char *block = next_malloc(size);
    if (size == 72) { last = block; last_size = size; }
    return block;
}
"""
FLIPS_A_MIDDLE_BYTE = FLIPS_LAST_BYTE.replace("last[last_size - 1]", "last[last_size / 2]")
HANDS_OUT_TWICE = """
#include "next.h"
static _Thread_local unsigned char *last; static _Thread_local size_t calls;
void *malloc(size_t size) {
    if (size == 72 && ++calls % 1000 == 500) return last; // within a batch, so the next block is filled before this one is freed
    unsigned char *block = next_malloc(size);
    if (size == 72) last = block;
    return block;
}
void free(void *block) { (void)block; }
"""
OVERLAPS = HANDS_OUT_TWICE.replace("return last;", "return last + 16;")
RUNS_OUT = """
#include "next.h"
void *malloc(size_t size) {
    static _Thread_local size_t calls;
    return size == 72 && ++calls == 1000 ? NULL : next_malloc(size);
}
"""
MISALIGNS = """
#include "next.h"
void *malloc(size_t size) { return size == 72 ? (char *)next_malloc(size + 8) + 8 : next_malloc(size); }
void free(void *block) { (void)block; }
"""
RUNS_OF_72_BYTES = [
    (ARGS, "5000 100 72 72"),
    (ARGS, "5000 100 72 72 --pair"),
    (DIST, "5000 100 72 72 1 app"),
    (REMOTE, "2 5000 100 72 72 90 --full=wait"),
    ("xmalloc_test", "1 1 10 72 1000"),
    ("larson", "2 72 72 100 20"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    directory = tmp_path_factory.mktemp("broken")
    codes = {
        "last_byte": FLIPS_LAST_BYTE,
        "middle": FLIPS_A_MIDDLE_BYTE,
        "twice": HANDS_OUT_TWICE,
        "overlap": OVERLAPS,
        "null": RUNS_OUT,
        "misaligned": MISALIGNS,
    }
    return {name: build_library(directory / f"{name}.so", code) for name, code in codes.items()}


@pytest.mark.parametrize(("name", "args"), RUNS_OF_72_BYTES)
@pytest.mark.parametrize("how", ["last_byte", "twice", "overlap"])
def test_broken_contents_are_noticed(
    programs: pathlib.Path, broken: dict[str, pathlib.Path], how: str, name: str, args: str
) -> None:
    done = run(programs, name, args, broken[how])
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{name}: content check failed: block 0x" in done.stderr


@pytest.mark.parametrize(("name", "args"), RUNS_OF_72_BYTES)
def test_middle_bytes_are_noticed_by_the_full_check(
    programs: pathlib.Path, broken: dict[str, pathlib.Path], name: str, args: str
) -> None:
    assert run(programs, name, args, broken["middle"]).returncode == 0
    done = run(programs, name, f"{args} --check=full", broken["middle"])
    assert (done.returncode, done.stdout) == (1, "")
    assert "of 72 bytes was changed at offset 36" in done.stderr


@pytest.mark.parametrize(("name", "args"), RUNS_OF_72_BYTES)
def test_null_is_noticed(programs: pathlib.Path, broken: dict[str, pathlib.Path], name: str, args: str) -> None:
    done = run(programs, name, args, broken["null"])
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{name}: malloc(72) returned NULL" in done.stderr


def test_misalignment_is_noticed_by_the_full_check(programs: pathlib.Path, broken: dict[str, pathlib.Path]) -> None:
    done = run(programs, ARGS, "5000 100 72 72 --check=full", broken["misaligned"])
    assert done.returncode == 1
    assert "which is not aligned to 16" in done.stderr


@pytest.mark.parametrize("name", ["cache_scratch", "cache_thrash"])
def test_block_of_two_threads_is_noticed(programs: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    """All threads get the same block of 72 bytes."""
    code = """
    #include "next.h"
    void *malloc(size_t size) { static _Alignas(16) char one[72]; return size == 72 ? one : next_malloc(size); }
    void free(void *block) { (void)block; }
    """
    library = build_library(tmp_path / "one.so", code)
    done = run(programs, name, "2 2000 20000 72", library)
    assert (done.returncode, done.stdout) == (1, "")
    assert "content check failed: block 0x" in done.stderr


def test_broken_identity_ends_the_program(tmp_path: pathlib.Path) -> None:
    """No allocator can break the counts of a workload, so the test calls the check directly."""
    source = tmp_path / "identity.c"
    source.write_text(
        '#include "machine.h"\n'
        "int main(int argc, char **argv) {\n"
        "    (void)argv;\n"
        '    machine_require_equal("sent = received", 7, 7);\n'
        '    machine_require_equal("sent = received", 7, (unsigned long)argc + 7);\n'
        "    return 0;\n"
        "}\n"
    )
    common = SOURCES / "common"
    program = tmp_path / "identity"
    build = ["cc", "-std=c11", "-pthread", "-I", common, "-o", program, source, common / "machine.c"]
    subprocess.run(build, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "identity: accounting identity broken: sent = received: 7 is not 8\n"


def test_malloc_source_is_printed(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    code = '#include "next.h"\nvoid *malloc(size_t size) { return next_malloc(size); }\n'
    library = build_library(tmp_path / "other.so", code)
    assert "/libc.so.6" in values(run(programs, ARGS, "10 10 16 16").stdout)["malloc_from"]
    assert values(run(programs, ARGS, "10 10 16 16", library).stdout)["malloc_from"] == str(library)
