"""The replay makes the recorded calls, finds allocators that damage blocks, and refuses impossible plans."""

import pathlib
import shutil
import struct
import subprocess

import pytest
from trace_programs import TRACE, WORKLOADS, build_tools, replay, run_replay
from trace_samples import MALLOC, random_rows, trace_of
from workload_programs import build_library

from hakobench.project import LIB_DIR
from hakobench.trace import events, figures, plan, store

OURS = LIB_DIR / "libhakozuna.so"

# Returns the same block twice in a row: its first owner finds the seal of the second.
TWICE = """
#include "next.h"
void *malloc(size_t size) {
    static _Thread_local void *last; static _Thread_local int calls;
    void *block = size == 40 && ++calls == 3 ? last : next_malloc(size);
    last = size == 40 ? block : last;
    return block;
}
"""
NOT_ZERO = """
#include "next.h"
void *calloc(size_t count, size_t size) {
    unsigned char *block = next_malloc(count * size);
    memset(block, 0, count * size);
    if (count == 1 && size == 50) block[size - 1] = 1;
    return block;
}
"""
MISALIGNED = """
#include "next.h"
void *memalign(size_t alignment, size_t size) { return (char *)next_malloc(size + alignment + 16) + 8; }
"""
LOSES = """
#include "next.h"
void *realloc(void *block, size_t size) { (void)block; return memset(next_malloc(size), 0, size); }
"""
NOTHING = """
#include "next.h"
void *malloc(size_t size) { return size == 40 ? NULL : next_malloc(size); }
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build_tools(tmp_path_factory.mktemp("tools"))


@pytest.mark.parametrize("touch", ["edges", "pages", "all"])
@pytest.mark.parametrize("library", [None, OURS], ids=["glibc", "hakozuna"])
def test_all_calls_are_made(
    tools: pathlib.Path, tmp_path: pathlib.Path, touch: str, library: pathlib.Path | None
) -> None:
    if library is not None and not library.exists():
        pytest.skip("no libhakozuna.so; 'make libs' builds it")
    trace = trace_of(random_rows(11, 20_000, threads=6, size_max=20_000))
    counted = figures.compute(trace)
    printed = replay(tools, trace, tmp_path, f"--touch={touch}", "--repeat=3", library=library)
    failed = counted.failed
    assert int(printed["events"]) == len(trace) - failed
    assert (int(printed["threads"]), int(printed["blocks"]), int(printed["rounds"])) == (6, counted.allocations, 3)
    assert (int(printed["allocated"]), int(printed["freed"])) == (3 * counted.allocations, 3 * counted.frees)
    assert (int(printed["live"]), int(printed["live_bytes"])) == (counted.left_blocks, counted.left_bytes)
    assert printed["identity"] == "ok"
    assert float(printed["ops_per_s"]) > 0
    # The allocator decides whether a block moves, and so which thread owns it; but most events stay the same.
    assert abs(int(printed["remote_frees"]) / 3 - counted.remote_frees) < 0.2 * counted.frees
    expected = OURS if library else pathlib.Path("libc.so.6")
    assert pathlib.Path(printed["malloc_from"]).name == expected.name


def test_memory_is_without_the_tables(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = []
    for block in range(200_000):
        rows += [(MALLOC, events.ALLOCATE, 0, block, 64, 0), (events.FREE, events.RELEASE, 0, block, 0, 0)]
    printed = replay(tools, trace_of(rows), tmp_path)
    assert int(printed["tables_kb"]) > 6000
    assert int(printed["peak_rss_kb"]) < 6000


NO_THREADS = """
#include "next.h"
int pthread_create(void *thread, void *attributes, void *start, void *argument) {
    (void)thread; (void)attributes; (void)start; (void)argument;
    return 11;
}
"""


def test_a_recording_of_one_thread_starts_none(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The start of a thread would take most of the time of a short recording."""
    library = build_library(tmp_path / "none.so", NO_THREADS)
    printed = replay(tools, trace_of(random_rows(2, 1000, threads=1)), tmp_path, "--repeat=4", library=library)
    assert (printed["rounds"], printed["waits"], printed["pace_waits"], printed["wait_share"]) == ("4", "0", "0", "0.0000")
    path = tmp_path / "two.plan"
    plan.write(path, trace_of(random_rows(2, 1000, threads=2)))
    done = run_replay(tools, path, library=library)
    assert (done.returncode, "cannot start a thread" in done.stderr) == (1, True)


def test_the_first_thread_may_end_before_others_begin(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = [(MALLOC, events.ALLOCATE, thread, thread, 8, 0) for thread in range(200)]
    rows += [(events.FREE, events.RELEASE, 199 - block % 3, block, 0, 0) for block in range(200)]
    printed = replay(tools, trace_of(rows), tmp_path, "--repeat=20")
    assert (printed["calls"], printed["freed"], printed["live"]) == ("8000", "4000", "0")
    assert int(printed["remote_frees"]) == 20 * 199
    assert 0.0 <= float(printed["wait_share"]) <= 1.0


def test_a_realloc_that_moves_anothers_block_is_a_remote_free(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = [(MALLOC, events.ALLOCATE, 0, 0, 8, 0), (3, events.MOVE, 1, 0, 1 << 20, 0), (events.FREE, events.RELEASE, 1, 0, 0, 0)]
    printed = replay(tools, trace_of(rows), tmp_path)
    assert printed["remote_frees"] == "1"


def test_threads_that_do_not_overlap_are_not_started_together(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """2000 threads at a time would not fit into the memory for their stacks under this limit."""
    rows = [(MALLOC, events.ALLOCATE, thread, thread, 8, 0) for thread in range(2000)]
    path = tmp_path / "plan"
    plan.write(path, trace_of(rows))
    command = f"ulimit -v 1000000 && '{tools}/hakoreplay' '{path}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "threads=2000 " in done.stdout


def test_threads_wait_for_each_other(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Every block is allocated by one thread, moved by the next, and freed by the third."""
    rows = []
    for block in range(5000):
        rows += [
            (MALLOC, events.ALLOCATE, block % 3, block, 40, 0), (3, events.MOVE, (block + 1) % 3, block, 4000, 0),
            (events.FREE, events.RELEASE, (block + 2) % 3, block, 0, 0),
        ]  # fmt: skip
    printed = replay(tools, trace_of(rows), tmp_path, "--repeat=5")
    assert (printed["freed"], printed["live"]) == ("25000", "0")
    assert int(printed["remote_frees"]) > 20_000


def test_no_thread_runs_far_ahead_of_those_that_free(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The program has a queue of 100 blocks of 4 KiB. A replay without pacing could let the first thread allocate all
    400 MiB before the second frees."""
    rows = []
    for block in range(100_000):
        rows.append((MALLOC, events.ALLOCATE, 0, block, 4096, 0))
        if block >= 100:
            rows.append((events.FREE, events.RELEASE, 1, block - 100, 0, 0))
    printed = replay(tools, trace_of(rows), tmp_path)
    assert int(printed["remote_frees"]) == 99_900
    assert int(printed["peak_rss_kb"]) < 40_000


@pytest.mark.parametrize(
    ("code", "row", "message"),
    [
        (TWICE, (MALLOC, 40, 0), "content check failed: block .* of 40 bytes was changed while it was live"),
        (NOT_ZERO, (2, 50, 0), "calloc of 50 bytes returned memory that is not zero"),
        (MISALIGNED, (5, 60, 6), "the request was for alignment 2.6"),
        (NOTHING, (MALLOC, 40, 0), "no memory for 40 bytes"),
    ],
)
def test_an_allocator_that_breaks_blocks_is_found(
    tools: pathlib.Path, tmp_path: pathlib.Path, code: str, row: tuple[int, int, int], message: str
) -> None:
    function, size, align = row
    rows = [(function, events.ALLOCATE, 0, block, size, align) for block in range(5)]
    rows += [(events.FREE, events.RELEASE, 0, block, 0, 0) for block in range(5)]
    _expect_failure(tools, tmp_path, code, rows, message)


def test_an_allocator_that_loses_contents_is_found(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = [(MALLOC, events.ALLOCATE, 0, 0, 40, 0), (3, events.MOVE, 0, 0, 90, 0)]
    _expect_failure(tools, tmp_path, LOSES, rows, "realloc from 40 to 90 bytes lost the contents")


def _expect_failure(tools: pathlib.Path, tmp_path: pathlib.Path, code: str, rows: list, message: str) -> None:
    import re

    path = tmp_path / "plan"
    plan.write(path, trace_of(rows))
    assert run_replay(tools, path).returncode == 0
    done = run_replay(tools, path, library=build_library(tmp_path / "broken.so", code))
    assert done.returncode == 1
    assert re.search(f"^hakoreplay: {message}", done.stderr), done.stderr


# ---- impossible plans -----------------------------------------------------------------------------------------


def _plan(path: pathlib.Path, rows: list[tuple[int, int, int, int, int]], **header: int) -> pathlib.Path:
    """Writes a plan of (size, block, thread, function | kind << 4, log2 of the alignment) without any check."""
    values = {"byte_order": 0x01020304, "version": 1, "threads": 1, "blocks": min(2, len(rows)), "events": len(rows)} | header
    packed = b"".join(struct.pack("=QIHBB", *row) for row in rows)
    path.write_bytes(struct.pack("=8sIIIIQ", b"HAKOPLN\0", *values.values()) + packed)
    return path


_NEW, _GROW, _END = 0x01, 0x13, 0x2A
_A, _END_A = (8, 0, 0, _NEW, 0), (0, 0, 0, _END, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([_A, _END_A, _END_A], "event 2: the block was released before (thread 0, block 0)"),
        ([_END_A], "event 0: the block was never allocated (thread 0, block 0)"),
        ([_A, _A], "event 1: the block was allocated before (thread 0, block 0)"),
        ([_A, _END_A, (9, 0, 0, _GROW, 0)], "event 2: the block was released before (thread 0, block 0)"),
        ([_A, (8, 2, 0, _NEW, 0)], "event 1: there is no such block (thread 0, block 2)"),
        ([_A, (8, 1, 1, _NEW, 0)], "event 1: threads are not numbered in the order of their first events"),
        ([(8, 0, 0, 0x00, 0)], "event 0: no such function or kind"),
        ([(8, 0, 0, 0x0F, 0)], "event 0: no such function or kind"),
        ([(8, 0, 0, 0xF1, 0)], "event 0: no such function or kind"),
        ([(8, 0, 0, 0x0A, 0)], "event 0: the function does not do that"),
        ([(8, 0, 0, 0x31, 0)], "event 0: the function does not do that"),
        ([_A, (0, 0, 0, 0x21, 0)], "event 1: the function does not do that"),
        ([_A, (8, 0, 0, 0x12, 0)], "event 1: the function does not do that"),
        ([(1 << 60, 0, 0, _NEW, 0)], "event 0: size or alignment is too large"),
        ([(8, 0, 0, 0x05, 60)], "event 0: size or alignment is too large"),
    ],
)
def test_impossible_plans_are_refused(tools: pathlib.Path, tmp_path: pathlib.Path, rows: list, message: str) -> None:
    done = run_replay(tools, _plan(tmp_path / "plan", rows))
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"byte_order": 0x04030201}, "byte order 0x4030201, version 1; readable: 0x1020304, 1"),
        ({"version": 9}, "version 9; readable"),
        ({"threads": 0}, "0 threads, 1 events; allowed"),
        ({"threads": 70000}, "70000 threads, 1 events; allowed: 1 to 65536"),
        ({"threads": 2}, "the header says 2 threads, 1 have events"),
        ({"events": 2}, "the header says 2 events, 16 bytes follow"),
        ({"blocks": 1 << 31}, "2147483648 blocks do not fit 1 events"),
    ],
)
def test_impossible_headers_are_refused(
    tools: pathlib.Path, tmp_path: pathlib.Path, header: dict[str, int], message: str
) -> None:
    done = run_replay(tools, _plan(tmp_path / "plan", [_A], **({"blocks": 1} | header)))
    assert done.returncode == 1
    assert message in done.stderr


def test_files_that_are_no_plans(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "No such file" in run_replay(tools, tmp_path / "missing").stderr
    (tmp_path / "short").write_bytes(b"HAKOPLN\0")
    assert "8 bytes are too few" in run_replay(tools, tmp_path / "short").stderr
    store.write(tmp_path / "recording", trace_of(random_rows(1, 100)))
    assert "not a plan of hakobench replay" in run_replay(tools, tmp_path / "recording").stderr


@pytest.mark.parametrize("arguments", [["--touch=most"], ["--repeat=0"], ["another"], ["--unknown"], ["--addresses"]])
def test_bad_arguments(tools: pathlib.Path, tmp_path: pathlib.Path, arguments: list[str]) -> None:
    done = run_replay(tools, _plan(tmp_path / "plan", [_A], blocks=1), *arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr.lower() or "want one PLAN" in done.stderr


@pytest.mark.parametrize(
    ("file", "message"),
    [("/no/directory/x", "/no/directory/x: No such file or directory"), ("/dev/full", "/dev/full: no room for 1 addresses: ")],
)
def test_addresses_that_cannot_be_written(tools: pathlib.Path, tmp_path: pathlib.Path, file: str, message: str) -> None:
    done = run_replay(tools, _plan(tmp_path / "plan", [_A], blocks=1), file, "--addresses")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"hakoreplay: {message}")


def test_a_recording_without_calls_cannot_be_replayed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no call to replay"):
        plan.write(tmp_path / "plan", trace_of([(MALLOC, events.FAILED, 0, 0, 1 << 62, 0)]))


# ---- races ----------------------------------------------------------------------------------------------------------

# Stands for an allocator: a stack of addresses under a lock, as the argument in record.h asks for.
RECORD_FROM_THREADS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include "record.h"
enum { ADDRESSES = 64, THREADS = 4, STEPS = 20000, HELD_MAX = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char pool[ADDRESSES];
static int stack[ADDRESSES], top;
static void *body(void *argument) {
    int held[HELD_MAX], count = 0;
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < STEPS; i++) {
        random = random * 1103515245u + 12345u;
        if (count < HELD_MAX && random >> 30 != 0) {
            pthread_mutex_lock(&lock);
            int block = stack[--top];
            pthread_mutex_unlock(&lock);
            record_write(record_order(), TRACE_MALLOC, 0, &pool[block], 10);
            held[count++] = block;
        } else if (count > 0) {
            int block = held[--count];
            record_write(record_order(), TRACE_FREE, 0, &pool[block], 0);
            pthread_mutex_lock(&lock);
            stack[top++] = block;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    while (top < ADDRESSES) { stack[top] = top; top++; }
    for (uintptr_t t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, body, (void *)(t * 77));
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    record_end();
    return 0;
}
"""


def _sanitized(directory: pathlib.Path, name: str, *words: str) -> list[str]:
    """The command that runs the program built under ThreadSanitizer, or a skip."""
    path = directory / name
    flags = ["-std=c11", "-O1", "-g", "-fsanitize=thread", "-pthread"]
    built = subprocess.run(["cc", *flags, "-o", str(path), *words], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"no ThreadSanitizer: {built.stderr.splitlines()[-1]}")
    # Newer kernels spread mappings too far for the runtime of this ThreadSanitizer.
    return [*(["setarch", "-R"] if shutil.which("setarch") else []), str(path)]


def test_the_replay_has_no_race(tmp_path: pathlib.Path) -> None:
    sources = [TRACE / "replay.c", TRACE / "plan.c", *sorted((WORKLOADS / "common").glob("*.c"))]
    command = _sanitized(tmp_path, "replay", f"-I{WORKLOADS}", *map(str, sources), "-lm")
    plan.write(tmp_path / "plan", trace_of(random_rows(5, 30_000, threads=5)))
    words = [str(tmp_path / "plan"), str(tmp_path / "addresses"), "--addresses", "--repeat=2"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_recorder_has_no_race(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "threads.c"
    source.write_text(RECORD_FROM_THREADS)
    command = _sanitized(tmp_path, "threads", f"-I{TRACE}", str(source), str(TRACE / "record.c"))
    environment = {"HAKOTRACE_FILE": str(tmp_path / "raw"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = tmp_path.glob("raw.*")
    trace = store.read(path)
    assert trace.remarks == ()
    assert trace.thread_count == 4
    assert len(trace) > 4 * 15_000
