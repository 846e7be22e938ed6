"""The workloads do the work they describe, refuse bad arguments, have no races, and notice a broken allocator."""

import os
import pathlib
import re
import subprocess

import pytest
from workload_programs import NAMES, SOURCES, build_library, build_workloads, shared_workloads

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
    (REMOTE, "2 5000 100 16 2048 100 2 --full=wait"),
    (REMOTE, "3 20000 100 16 2048 90 2 --full=fallback"),
    (REMOTE, "4 2000 50 8 4000 50 16 --full=wait --check=full"),
    (REMOTE, "16 2000 50 16 2048 90 --full=wait --seed=9"),
    ("workload_bench_system", "1 2 1000 16 1024"),
    ("workload_bench_system", "8 2 1000 16 1024 --keys=64 --check=full"),
    ("workload_bench_system", "3 3 500 8 8 --keys=1 --pattern=random --seed=7"),
    ("xmalloc_test", "2 2 10"),
    ("xmalloc_test", "1 3 150 100 7 --check=full"),
    ("xmalloc_test", "3 1 20 8 1000"),
    ("xmalloc_test", "1 1 20 8 100 --most=3000 --check=full"),
    ("larson", "2 8 1000 100 10"),
    ("larson", "5 8 300 50 2 7 --generations=20 --check=full"),
    ("larson", "1 64 64 1 1 --generations=1"),
    ("burst_idle", "1 1 1 --idle=0"),
    ("burst_idle", "8 2 3 16 1024 --idle=0 --check=full"),
    ("burst_idle", "3 1 2 8 8 --idle=1"),
    ("growth", "1 --reads=1"),
    ("growth", "2 --reads=1 --fragment=64"),
    ("growth", "3 8 100000 --reads=1 --churn=150 --seed=7"),
    ("requests", "2 20 300"),
    ("requests", "1 5 100 8 100000 --from=malloc --end=each --check=full --seed=3"),
    ("resident", "1 --shape=classes --idle=0"),
    ("resident", "1 --shape=shift --idle=0 --seed=7"),
    ("resident", "1 3 --shape=queues --rounds=500 --idle=0"),
    ("resident", "1 3 --shape=relay --idle=0"),
    ("resident", "1 5 --shape=sleepers --idle=1"),
    ("resident", "2 --shape=stranger --idle=0"),
    ("resident", "1 4 --shape=ended --idle=0"),
    ("pool", "3 2 50 --idle=0"),
    ("pool", "4 3 20 8 9000 --kept=30 --result=3000 --idle=1 --seed=4 --check=full"),
    ("pool", "2 2 10 --kept=0 --idle=0"),
    ("threads", "20 10 --idle=0"),
    ("threads", "5 50 8 9000 --idle=1 --seed=4 --check=full"),
    ("snapshot", "3"),
    ("snapshot", "2 100 9000 --seed=5 --check=full"),
    ("trivial", "5"),
    ("limit", "16384"),
    ("limit", "16384 512 9000 --when=late --seed=3"),
    ("latency", "3 3000 100 16 512 90"),
    ("latency", "1 2000 10 8 8 0 --check=full"),
    ("service", "1 3 --seconds=1"),
    ("service", "2 1 --seconds=1 --seed=9"),
    ("cache_scratch", "2 20 100"),
    ("cache_scratch", "3 20 100 1"),
    ("cache_thrash", "2 20 100 24"),
    ("cache_thrash", "3 20 2 1 --most=64 --placements=5"),
    ("cache_scratch", "2 20 2 --placements=3 --seed=5"),
    ("chains", "1 --shape=integers"),
    ("chains", "1 --shape=cubes --seed=3"),
    ("chains", "1 --shape=objects"),
    ("batches", "100 1000 16 128"),
    ("batches", "30 1001 8 9000 --order=same --seed=4 --check=full"),
    ("batches", "1 5 8 8 --order=random"),
]

# The last figure of a workload, if it is not a rate of operations.
FIGURES = {"cache_scratch": "seconds", "cache_thrash": "seconds", "trivial": "startup_us", "limit": "obtained_kb", "snapshot": "child_rss_kb"}
# A sanitizer needs more address space than the workload leaves it.
WITHOUT_SANITIZERS = {"limit"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shared_workloads(tmp_path_factory)


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
    figure = FIGURES.get(name, "ops_per_s")
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


SLOW_CREATE_C = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *argument) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    int result = next(thread, attr, main, argument);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    return result;
}
"""


def test_a_thread_of_a_service_may_run_long_before_its_hour_is_opened(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    slow = build_library(tmp_path / "slow_create.so", SLOW_CREATE_C)
    check_good_run("service", run(programs, "service", "1 1 --seconds=1", preload=slow))


@pytest.mark.deep
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizer_finds_nothing(tmp_path: pathlib.Path, sanitizer: str) -> None:
    built = build_workloads(tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    for name, args in SMALL_RUNS:
        if name not in WITHOUT_SANITIZERS:
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


def test_remote_rings_have_65536_entries(programs: pathlib.Path) -> None:
    """The documents' command line without its last argument."""
    assert "ring_slots=65536 " in run(programs, REMOTE, "2 100 10 16 32 50").stdout


def test_key_value_patterns(programs: pathlib.Path) -> None:
    """Each pattern makes its operations, and the counts of one thread follow from the arguments."""
    done = run(programs, "workload_bench_system", "1 3 1000 16 64 --keys=64")
    found = check_good_run("workload_bench_system", done)
    lines = re.findall(r"^(\w+)_ops_per_s=\d+ \1_misses=\d+$", done.stdout, re.MULTILINE)
    assert lines == ["set", "get", "lpush", "lpop", "random"]
    assert (found["set_misses"], found["get_misses"], found["lpush_misses"]) == ("0", "0", "0")
    pushed = 64 * 64  # 64 of the lists have keys; each is full after 3000 pushes only if it got 64
    assert int(found["lpop_misses"]) >= 3000 - pushed
    alone = run(programs, "workload_bench_system", "1 3 1000 16 64 --keys=64 --pattern=lpop")
    assert values(alone.stdout)["lpop_misses"] == "3000"
    only_set = check_good_run("workload_bench_system", run(programs, "workload_bench_system", "2 3 1000 16 64 --pattern=set"))
    assert int(only_set["allocated"]) == 4096 + 2 * 3 * 1000
    assert int(only_set["freed"]) == 2 * 3 * 1000


def test_key_value_threads_free_blocks_of_others(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A library counts the blocks that another thread frees: none with one client but those of the store's filling."""
    code = """
    #include "next.h"
    #include <stdio.h>
    #include <stdatomic.h>
    static _Thread_local char me;
    static _Atomic(long) remote;
    struct header { void *owner; size_t bytes; };
    void *malloc(size_t size) {
        struct header *block = next_malloc(size + sizeof *block);
        block->owner = &me;
        return block + 1;
    }
    void free(void *block) {
        struct header *head = (struct header *)block - 1;
        if (block == NULL) return;
        if (head->owner != &me) remote++;
        next_free(head);
    }
    void *calloc(size_t n, size_t size) { void *block = malloc(n * size); return memset(block, 0, n * size); }
    __attribute__((destructor)) static void report(void) { fprintf(stderr, "remote=%ld\\n", remote); }
    """
    library = build_library(tmp_path / "remote.so", code)
    counted = []
    for threads in ("1", "4"):
        done = run(programs, "workload_bench_system", f"{threads} 50 1000 16 64 --keys=64 --pattern=set", library)
        assert done.returncode == 0, done.stderr
        counted.append(int(values(done.stderr)["remote"]))
    assert counted[0] <= 64 * 2
    assert counted[1] > counted[0]


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


def test_threads_are_all_alive_at_once(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With each block on a page of its own, the pages tell how many blocks were live."""
    sparse = build_library(tmp_path / "sparse.so", SPARSE)
    found = check_good_run("threads", run(programs, "threads", "50 20 --idle=0", sparse))
    assert int(found["live_pages_kb"]) == 50 * 20 * 4
    assert int(found["during_rss_kb"]) - int(found["started_rss_kb"]) >= 50 * 20 * 4
    assert 50 * 20 * 400 < int(found["live_kb"]) * 1024 < 50 * 20 * 640


def test_only_the_results_of_a_pool_stay(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With each block on a page of its own, the pages tell how many blocks are live at the end, from all requests."""
    sparse = build_library(tmp_path / "sparse.so", SPARSE)
    found = check_good_run("pool", run(programs, "pool", "5 4 100 --kept=7 --result=500 --idle=0", sparse))
    assert int(found["live_pages_kb"]) == 5 * 4 * 7 * 4
    assert int(found["live_kb"]) == 5 * 4 * 7 * 500 // 1024


SLOW_TO_START = """
#include <stdint.h>
#include <time.h>
static unsigned char table[8 << 20];
__attribute__((constructor)) static void begin(void) {
    const struct timespec pause = {0, 20000000};
    for (unsigned i = 0; i < sizeof table; i += 4096) ((volatile unsigned char *)table)[i] = 1;
    nanosleep(&pause, 0);
}
"""


def test_trivial_measures_what_a_library_adds(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    plain = check_good_run("trivial", run(programs, "trivial", "9"))
    slow = check_good_run("trivial", run(programs, "trivial", "9", build_library(tmp_path / "slow.so", SLOW_TO_START)))
    assert float(slow["startup_min_us"]) > 20_000 > float(plain["startup_min_us"])
    assert float(plain["startup_min_us"]) <= float(plain["startup_us"])
    assert int(slow["start_rss_kb"]) > int(plain["start_rss_kb"]) + 8000


def test_trivial_does_nothing_with_0_and_notices_a_failing_child(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run(programs, "trivial", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    code = "#include <unistd.h>\n__attribute__((destructor)) static void end(void) { _exit(3); }\n"
    failing = run(programs, "trivial", "2", build_library(tmp_path / "failing.so", code))
    assert failing.returncode == 1
    assert failing.stderr == "trivial: a child that does nothing ended with status 0x300\n"


RESERVES = """
#define _GNU_SOURCE
#include <sys/mman.h>
__attribute__((constructor)) static void begin(void) {
    mmap(0, 24 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
"""


@pytest.mark.parametrize("when", ["start", "late"])
def test_limit_counts_what_an_allocator_reserves(programs: pathlib.Path, tmp_path: pathlib.Path, when: str) -> None:
    args = f"65536 --when={when}"
    plain = check_good_run("limit", run(programs, "limit", args))
    lavish = check_good_run("limit", run(programs, "limit", args, build_library(tmp_path / "lavish.so", RESERVES)))
    assert 50_000 < int(plain["obtained_kb"]) <= int(plain["filled_kb"]) < 65_536
    assert int(plain["again_kb"]) > 50_000
    missing = int(plain["filled_kb"]) - int(lavish["filled_kb"])
    assert 23 * 1024 < missing < 26 * 1024


def test_limit_wants_enomem(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    code = """
    #include "next.h"
    void *malloc(size_t size) {
        static int calls;
        return size >= 1024 && size <= 65536 && ++calls > 100 ? NULL : next_malloc(size);
    }
    """
    done = run(programs, "limit", "65536", build_library(tmp_path / "silent.so", code))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"limit: malloc\(\d+\) returned NULL with errno 0, not ENOMEM\n", done.stderr)


# One malloc in 1000 takes a millisecond.
PAUSES = """
#define _GNU_SOURCE
#include "next.h"
#include <time.h>
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
void *malloc(size_t size) {
    static _Thread_local unsigned calls;
    if (size == 64 && ++calls % 1000 == 0) for (long long end = now() + 1000000; now() < end;) { }
    return next_malloc(size);
}
"""


def test_latency_shows_rare_pauses(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    library = build_library(tmp_path / "pauses.so", PAUSES)
    found = check_good_run("latency", run(programs, "latency", "2 50000 100 64 64 50", library))
    assert found["allocated"] == found["freed"] == "100000"
    assert 40_000 < int(found["sent"]) < 60_000
    times = {key: float(value) for key, value in found.items() if key.endswith("_ns")}
    assert 0 < times["malloc_p50_ns"] <= times["malloc_p99_ns"] < 900_000
    assert 960_000 < times["malloc_p9999_ns"] <= times["malloc_max_ns"]
    assert 0 < times["free_p50_ns"] <= times["free_p99_ns"] < 900_000
    assert times["free_p99_ns"] <= times["free_p9999_ns"] <= times["free_max_ns"]
    assert 0 < times["timer_ns"] < 10_000


def hours(out: str) -> list[dict[str, str]]:
    return [values(line) for line in out.splitlines() if line.startswith("hour=")]


def test_service_has_a_day_of_24_hours(programs: pathlib.Path) -> None:
    done = run(programs, "service", "16 3 --seconds=1")
    found = check_good_run("service", done)
    day = hours(done.stdout)
    assert [one["hour"] for one in day] == [str(hour) for hour in range(1, 25)]
    live = [int(one["live_kb"]) for one in day]
    assert 0.09 * 16384 < live[0] < 0.17 * 16384
    assert live[11] > 0.75 * 16384
    assert live[23] < 0.4 * live[11]
    assert all(int(one["live_kb"]) <= int(one["live_pages_kb"]) <= int(one["rss_kb"]) for one in day)
    assert int(found["threads_started"]) > 3
    assert found["rss_by_hour_kb"] == ",".join(one["rss_kb"] for one in day)
    assert found["live_by_hour_kb"] == ",".join(one["live_kb"] for one in day)
    expected = (int(day[23]["rss_kb"]) - int(found["table_kb"])) / int(day[23]["live_kb"])
    assert float(found["hour24_ratio"]) == pytest.approx(expected, rel=0.01)
    assert {one["size"] for one in day} != {day[0]["size"]}


def test_service_draws_its_day_from_the_seed(programs: pathlib.Path) -> None:
    first, again, other = (
        [one["size"] for one in hours(run(programs, "service", f"1 1 --seconds=1 --seed={seed}").stdout)]
        for seed in ("5", "0x5", "6")
    )
    assert first == again != other


def test_service_sees_memory_that_stays(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Without any free, the RSS of the night is that of all blocks of the day."""
    plain = check_good_run("service", run(programs, "service", "2 2 --seconds=1"))
    code = '#include "next.h"\nvoid free(void *block) { (void)block; }\n'
    leaking = check_good_run("service", run(programs, "service", "2 2 --seconds=1", build_library(tmp_path / "leaks.so", code)))
    assert float(leaking["hour24_ratio"]) > 5 * float(plain["hour24_ratio"])
    assert float(plain["hour1_ratio"]) > 1


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
    ("workload_bench_system", "1 100 1000 16", "MAX is missing (largest value in bytes, 8..1073741824)"),
    ("workload_bench_system", "1 1 1 16 8", "MIN: '16' must not be above MAX, which is 8"),
    ("workload_bench_system", "1 1 1 8 8 --pattern=incr", "--pattern: 'incr' is not set or get or lpush or lpop or random or all"),
    ("xmalloc_test", "0 1", "PRODUCERS: '0' is not a whole number from 1 to 512"),
    ("larson", "1 16 8 1 1", "MIN: '16' must not be above MAX, which is 8"),
    ("burst_idle", "0 1", "PRODUCERS: '0' is not a whole number from 1 to 1023"),
    ("growth", "0", "MIB: '0' is not a whole number from 1 to 65536"),
    ("growth", "1 16 8", "MIN: '16' must not be above MAX, which is 8"),
    ("burst_idle", "1 1 1 16 8", "MIN: '16' must not be above MAX, which is 8"),
    ("requests", "1 1 0", "BLOCKS: '0' is not a whole number from 1 to 4194304"),
    ("requests", "1 1 1 16 8", "MIN: '16' must not be above MAX, which is 8"),
    ("requests", "1 1 1 --from=zone", "--from: 'zone' is not best or malloc or heap"),
    ("resident", "0", "MIB: '0' is not a whole number from 1 to 1048576"),
    ("resident", "1 --shape=round", "--shape: 'round' is not classes or shift or queues or relay or sleepers or stranger or ended"),
    ("pool", "0", "REQUESTS: '0' is not a whole number from 1 to 1048576"),
    ("pool", "1 2 10 32 16", "MIN: '32' must not be above MAX, which is 16"),
    ("threads", "0", "THREADS: '0' is not a whole number from 1 to 32768"),
    ("threads", "1 1 32 16", "MIN: '32' must not be above MAX, which is 16"),
    ("threads", "1 --idle=never", "idle: 'never' is not a whole number from 0 to 86400"),
    ("trivial", "-1", "REPEATS: '-1' is not a whole number from 0 to 1000000"),
    ("trivial", "7 --report", "--report: only with 0 for REPEATS"),
    ("limit", "100", "LIMIT_KIB: '100' is not a whole number from 8192 to 16777216"),
    ("limit", "8192 2048 1024", "MIN: '2048' must not be above MAX, which is 1024"),
    ("limit", "8192 --when=never", "--when: 'never' is not start or late"),
    ("latency", "2", "ITERS is missing (steps of each thread, 1..1099511627776)"),
    ("latency", "2 10 10 16 32 101", "REMOTE_PCT: '101' is not a whole number from 0 to 100"),
    ("service", "0", "MIB: '0' is not a whole number from 1 to 65536"),
    ("service", "1 1 --seconds=0", "seconds: '0' is not a whole number from 1 to 86400"),
    ("service", "1 1 --seed=x", "seed: 'x' is not a whole number from 0 to 18446744073709551615"),
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


ZONES_C = """
#include "next.h"
#include <stdio.h>
struct zone { void *blocks[1000]; int count; };
static int zones;
struct zone *hz_zone_create(void) { zones++; struct zone *zone = next_malloc(sizeof *zone); zone->count = 0; return zone; }
void *hz_zone_malloc(struct zone *zone, size_t size) { void *block = next_malloc(size); zone->blocks[zone->count++] = block; return block; }
void hz_zone_destroy(struct zone *zone) {
    for (int i = 0; i < zone->count && KEEPS; i++) next_free(zone->blocks[i]);
    next_free(zone);
}
__attribute__((destructor)) static void tell(void) { fprintf(stderr, "%d zones\\n", zones); }
"""


@pytest.mark.parametrize(("end", "keeps"), [("all", 1), ("each", 0)])
def test_requests_use_the_heaps_of_the_library(programs: pathlib.Path, tmp_path: pathlib.Path, end: str, keeps: int) -> None:
    library = build_library(tmp_path / "zones.so", ZONES_C.replace("KEEPS", str(keeps)))
    done = run(programs, "requests", f"1 7 500 --end={end} --check=full", preload=library)
    assert (done.returncode, done.stderr) == (0, "7 zones\n")
    assert values(done.stdout)["from"] == "zone"
    done = run(programs, "requests", "1 7 500 --from=malloc", preload=library)
    assert (values(done.stdout)["from"], done.stderr) == ("malloc", "0 zones\n")


def test_requests_need_a_heap_if_one_is_asked_for(programs: pathlib.Path) -> None:
    done = run(programs, "requests", "1 1 1 --from=heap")
    assert done.returncode == 1 and "neither zones of hakozuna nor heaps of mimalloc" in done.stderr


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
    ("workload_bench_system", "1 5 1000 72 72 --keys=50 --pattern=set"),
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
