"""The recorder: its file has exactly the program's calls, and the program does not notice it."""

import collections
import os
import pathlib
import resource
import signal
import subprocess

import pytest
from trace_programs import PRELUDE, build_program, build_tools, only, record, replay
from workload_programs import build_library

from hakobench.project import LIB_DIR
from hakobench.trace import capture, events, figures, link, raw

OURS = LIB_DIR / "libhakozuna.so"

EVERY_FUNCTION = """
int main(void) {
    void *p, *q;
    free(keep(malloc(100)));
    free(NULL);
    p = keep(calloc(7, 11)); MUST(p);
    p = keep(realloc(p, 5000)); MUST(p);
    p = keep(realloc(p, 70)); MUST(p);
    p = keep(reallocarray(p, 30, 10)); MUST(p);
    free(p);
    p = keep(realloc(NULL, 33)); MUST(p);
    MUST(realloc(p, 0) == NULL);
    volatile size_t huge = SIZE_MAX / 2;
    MUST(calloc(huge, 4) == NULL && errno == ENOMEM);
    MUST(malloc(huge) == NULL && errno == ENOMEM);
    p = keep(malloc(60)); strcpy(p, "kept");
    MUST(realloc(p, huge) == NULL && errno == ENOMEM && strcmp(p, "kept") == 0);
    MUST(reallocarray(p, huge, 8) == NULL && errno == ENOMEM);
    free(p);
    p = memalign(64, 65); MUST((uintptr_t)p % 64 == 0); free(p);
    MUST(posix_memalign(&p, 4096, 66) == 0); free(p);
    q = p; MUST(posix_memalign(&p, 24, 66) == EINVAL && p == q);
    p = aligned_alloc(128, 256); MUST((uintptr_t)p % 128 == 0); free(p);
    p = valloc(67); MUST((uintptr_t)p % 4096 == 0); free(p);
    p = pvalloc(68); MUST((uintptr_t)p % 4096 == 0); free(p);
    keep(malloc(12345));
    return 7;
}
"""

HAND_OVER = """
enum { THREADS = 4, BLOCKS = 1000 };
static void *volatile slots[THREADS][BLOCKS];
static pthread_barrier_t barrier;
static void *body(void *argument) {
    int self = (int)(intptr_t)argument;
    for (int i = 0; i < BLOCKS; i++) slots[self][i] = malloc(16 + 8 * self);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < BLOCKS; i++) free(slots[(self + THREADS - 1) % THREADS][i]);
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, body, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}
"""

# Blocks go round through four threads. Each thread frees the block it gets and allocates another one right away, so
# different threads use the same few addresses again and again.
GO_ROUND = """
enum { THREADS = 4, ROUNDS = 1500 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static void *block; static int turn;
static void *body(void *argument) {
    int self = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        void *mine = malloc(48);
        pthread_mutex_lock(&lock);
        while (turn != self) pthread_cond_wait(&turned, &lock);
        void *other = block; block = mine; turn = (self + 1) % THREADS;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&lock);
        other = i % 3 == 0 && other ? realloc(other, 48 + i % 64) : other;
        free(other);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, body, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    free(block);
}
"""

FORK = """
int main(void) {
    void *inherited[10];
    for (int i = 0; i < 10; i++) inherited[i] = malloc(1000 + i);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 10; i++) free(inherited[i]);
        inherited[0] = malloc(55);
        for (int i = 0; i < 20; i++) free(keep(malloc(2000)));
        _exit(3);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    for (int i = 0; i < 10; i++) free(inherited[i]);
    for (int i = 0; i < 30; i++) free(keep(malloc(3000)));
}
"""

# Threads allocate while another one forks: each child has to find its own recording in order.
FORK_WHILE_BUSY = """
static volatile int done;
static void *body(void *unused) { (void)unused; while (!done) free(keep(malloc(77))); return NULL; }
int main(void) {
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, body, NULL);
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child == 0) { for (int k = 0; k < 100; k++) free(keep(malloc(88))); _exit(0); }
        int status;
        MUST(waitpid(child, &status, 0) == child && status == 0);
    }
    done = 1;
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
}
"""

SHORT_THREADS = """
static pthread_key_t key;
static void at_end(void *block) { free(block); free(keep(malloc(222))); }
static void *body(void *unused) {
    (void)unused;
    pthread_setspecific(key, malloc(111));
    return NULL;
}
int main(void) {
    pthread_key_create(&key, at_end);
    for (int t = 0; t < 300; t++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, body, NULL) == 0);
        pthread_join(thread, NULL);
    }
}
"""

# More than a region of events after all files are closed, in another directory.
CLOSES_ALL = """
int main(void) {
    write(1, "hello\\n", 6);
    for (int fd = 0; fd < 64; fd++) close(fd);
    MUST(chdir("/") == 0);
    for (int i = 0; i < 100000; i++) free(keep(malloc(64)));
    MUST(open("/dev/null", O_RDWR) == 0);
    return 5;
}
"""

FORK_AFTER_CHANGES = """
int main(void) {
    keep(malloc(44));
    MUST(clearenv() == 0 && chdir("/") == 0);
    pid_t child = fork();
    if (child == 0) { for (int i = 0; i < 20; i++) free(keep(malloc(55))); _exit(0); }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}
"""

ODD_ALIGNMENTS = """
int main(void) {
    volatile size_t huge = (size_t)1 << 62, odd = huge + 1;
    free(keep(memalign(48, 70)));
    free(keep(memalign(1, 71)));
    MUST(memalign(huge, 72) == NULL);
    MUST(memalign(odd, 73) == NULL);
    free(keep(malloc(74)));
}
"""

DOUBLE_FREE = """
int main(void) { for (int i = 0; i < 10; i++) { void *p = keep(malloc(61)); free(p); if (i == 5) free(p); } }
"""
IGNORES_FREE = """
void free(void *block) { (void)block; }
"""
OPERATORS = """
#include <cstddef>
static char pool[1 << 20]; static std::size_t used;
void *operator new(std::size_t size) { used += 64 + size / 64 * 64; return pool + used; }
void operator delete(void *) noexcept {}
void operator delete(void *, std::size_t) noexcept {}
"""

KILLS_ITSELF = """
int main(void) { for (int i = 0; i < 1000; i++) keep(malloc(32)); kill(getpid(), SIGKILL); }
"""
ENDS_AT_ONCE = """
int main(void) { for (int i = 0; i < 1000; i++) keep(malloc(32)); _exit(4); }
"""
EXECUTES = """
int main(int argc, char **argv) {
    for (int i = 0; i < argc * 100; i++) keep(malloc(32));
    if (argc > 1) { argv[1] = NULL; execv(argv[0], argv); }
    return 0;
}
"""
MANY = """
int main(void) {
    void *blocks[64] = {0};
    for (int i = 0; i < 200000; i++) { free(blocks[i % 64]); blocks[i % 64] = malloc(16 + i % 512); MUST(blocks[i % 64]); }
    write(1, "done\\n", 5);
    return 6;
}
"""
MANY_THREADS_MANY_EVENTS = """
static void *body(void *unused) { (void)unused; for (int i = 0; i < 60000; i++) free(keep(malloc(24))); return NULL; }
int main(void) {
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) pthread_create(&threads[t], NULL, body, NULL);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    return 6;
}
"""
HANDLER_ALLOCATES = """
static volatile int rung;
static void ring(int number) { (void)number; free(keep(malloc(99))); rung++; }
int main(void) {
    signal(SIGUSR1, ring);
    for (int i = 0; i < 50; i++) { raise(SIGUSR1); free(keep(malloc(98))); }
    return rung == 50 ? 0 : 1;
}
"""
CPLUSPLUS = """
#include <new>
struct alignas(256) Wide { char bytes[512]; };
template <class T> T *keep(T *block) { __asm__ volatile("" : "+r"(block)); return block; }
int main() {
    for (int i = 0; i < 10; i++) delete keep(new int(i));
    for (int i = 0; i < 20; i++) delete[] keep(new char[100]);
    for (int i = 0; i < 5; i++) delete keep(new Wide);
}
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build_tools(tmp_path_factory.mktemp("tools"))


def _sized(trace: events.Trace, *sizes: int) -> collections.Counter:
    """The number of allocated blocks of these sizes, which only the program's own code requests."""
    found = trace.size[trace.kind == events.ALLOCATE]
    return collections.Counter(int(size) for size in found if int(size) in sizes)


def test_every_function_is_counted_with_its_size(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", EVERY_FUNCTION))
    trace = only(found)
    counted = figures.compute(trace)
    assert found.status == 7
    assert trace.remarks == ()
    assert counted.calls == {
        "malloc": 4, "calloc": 2, "realloc": 5, "reallocarray": 2, "memalign": 1, "posix_memalign": 2,
        "aligned_alloc": 1, "valloc": 1, "pvalloc": 1, "free": 9,
    }  # fmt: skip
    assert (counted.failed, counted.free_null) == (5, 1)
    sizes = [int(size) for size in trace.size[trace.kind == events.ALLOCATE]]
    assert sizes == [100, 77, 33, 60, 65, 66, 256, 67, 68, 12345]
    assert (counted.left_blocks, counted.left_bytes) == (1, 12345)
    resized = (trace.kind == events.RESIZE) | (trace.kind == events.MOVE)
    assert [int(size) for size in trace.size[resized]] == [5000, 70, 300]
    assert counted.alignments == {64: 1, 128: 1, 4096: 3}
    assert counted.peak_bytes == 12345
    assert (counted.reallocs.calls, counted.reallocs.grown, counted.reallocs.longest_chain) == (3, 2, 3)
    assert (counted.reallocs.bytes_before, counted.reallocs.bytes_after) == (77 + 5000 + 70, 5000 + 70 + 300)


def test_blocks_handed_to_the_next_thread(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", HAND_OVER)))
    counted = figures.compute(trace)
    assert _sized(trace, 16, 24, 32, 40) == {16: 1000, 24: 1000, 32: 1000, 40: 1000}
    assert counted.remote_frees == 4000
    # Threads are numbered by their first call; the sizes show which is which.
    of_size = {
        size: int(trace.thread[(trace.kind == events.ALLOCATE) & (trace.size == size)][0]) for size in (16, 24, 32, 40)
    }
    ring = [of_size[size] for size in (16, 24, 32, 40)]
    assert set(counted.pairs) == {(ring[at], ring[(at + 1) % 4], 1000) for at in range(4)}
    printed = replay(tools, trace, tmp_path)
    assert (printed["remote_frees"], printed["threads"]) == ("4000", str(trace.thread_count))


@pytest.mark.parametrize("library", [None, OURS], ids=["glibc", "hakozuna"])
def test_one_block_that_goes_round(
    tools: pathlib.Path, tmp_path: pathlib.Path, library: pathlib.Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event out of order would show as an address allocated twice, or a block freed twice."""
    if library is not None and not library.exists():
        pytest.skip("no libhakozuna.so; 'make libs' builds it")
    if library is not None:
        monkeypatch.setenv("LD_PRELOAD", str(library))
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", GO_ROUND))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    trace = only(found)
    counted = figures.compute(trace)
    assert found.status == 0
    assert trace.remarks == ()
    assert counted.calls["malloc"] == 4 * 1500
    assert counted.remote_frees + counted.reallocs.calls >= 4 * 1500 - 1
    for under in (None, OURS if OURS.exists() else None):
        printed = replay(tools, trace, tmp_path, "--repeat=3", "--touch=all", library=under)
        assert printed["identity"] == "ok"
        assert int(printed["freed"]) == 3 * counted.frees


def test_a_recording_has_few_addresses_for_many_blocks(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Otherwise the test above would not reuse addresses."""
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", GO_ROUND))
    records = raw.read(found.processes[0].path)
    begins = (records.operation & raw.FUNCTION_MASK) == events.FUNCTIONS.index("malloc")
    assert len(set(records.address[begins].tolist())) < 4 * 1500 / 10


def test_a_forked_child_has_a_recording_of_its_own(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", FORK))
    parent, child = sorted(found.processes, key=lambda one: one.header.forked)
    assert (parent.header.pid, child.header.parent_pid) == (found.pid, found.pid)
    of_parent, of_child = link.link(raw.read(parent.path)), link.link(raw.read(child.path))
    assert _sized(of_parent, 55, 2000, 3000) == {3000: 30}
    assert _sized(of_child, 55, 2000, 3000) == {55: 1, 2000: 20}
    assert figures.compute(of_parent).frees == 40
    assert figures.compute(of_child).frees == 20
    assert of_parent.remarks == ()
    assert any("inherited" in remark for remark in of_child.remarks)
    assert any(remark.startswith("10 calls concern blocks") for remark in of_child.remarks)


def test_a_forked_child_is_recorded_whatever_became_of_environment_and_directory(
    tools: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    program = build_program(tmp_path / "program", FORK_AFTER_CHANGES)
    environment = os.environ | {"LD_PRELOAD": str(tools / "libhakotrace.so"), "HAKOTRACE_FILE": "relative"}
    assert subprocess.run([program], env=environment, cwd=tmp_path, check=False).returncode == 0
    traces = [link.link(raw.read(path)) for path in tmp_path.glob("relative.*")]
    assert sorted(map(str, (_sized(trace, 44, 55) for trace in traces))) == ["Counter({44: 1})", "Counter({55: 20})"]


def test_alignments_that_are_no_power_of_two(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """An alignment that is too large to serve must not spoil the recording either."""
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", ODD_ALIGNMENTS)))
    rows = zip(trace.kind, trace.size, trace.align_log2, strict=True)
    found = {int(size): (int(kind), int(log)) for kind, size, log in rows if 70 <= size <= 74}
    assert found == {
        70: (events.ALLOCATE, 6), 71: (events.ALLOCATE, 0), 72: (events.FAILED, 62), 73: (events.FAILED, 0),
        74: (events.ALLOCATE, 0),
    }  # fmt: skip


def test_a_double_free_costs_only_that_call(
    tools: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an allocator that accepts a double free."""
    monkeypatch.setenv("LD_PRELOAD", str(build_library(tmp_path / "ignores.so", IGNORES_FREE)))
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", DOUBLE_FREE))
    assert found.status == 0
    trace = only(found)
    assert _sized(trace, 61) == {61: 10}
    assert figures.compute(trace).frees >= 10
    assert [remark for remark in trace.remarks if remark.startswith("1 calls release a block that was released before")]


def test_another_operator_new_is_reported(
    tools: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "operators.cc"
    source.write_text(OPERATORS)
    subprocess.run(["c++", "-fPIC", "-shared", "-o", tmp_path / "operators.so", source], check=True)
    program = build_program(tmp_path / "program", CPLUSPLUS.replace("delete keep(new Wide)", "(void)0"), "c++")
    plain = only(record(tools, tmp_path / "plain", program))
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "operators.so"))
    trace = only(record(tools, tmp_path / "raw", program))
    assert plain.remarks == ()
    assert [remark for remark in trace.remarks if remark.startswith("C++ operator new is that of operators.so, not")]


def test_fork_while_other_threads_allocate(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", FORK_WHILE_BUSY))
    assert found.status == 0
    assert len(found.processes) == 9
    for one in found.processes:
        trace = link.link(raw.read(one.path))
        assert _sized(trace, 88) == ({88: 100} if one.header.forked else {})


def test_threads_that_end_and_destructors_that_allocate(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", SHORT_THREADS))
    trace = only(found)
    counted = figures.compute(trace)
    assert _sized(trace, 111, 222) == {111: 300, 222: 300}
    assert counted.alive_at_once <= 2
    assert trace.thread_count == 301
    # Pages, not chunks of the largest size.
    assert found.processes[0].path.stat().st_size <= 3 << 20
    assert replay(tools, trace, tmp_path)["threads"] == "301"


def test_a_program_that_closes_everything(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", CLOSES_ALL)))
    assert _sized(trace, 64)[64] == 100000
    assert trace.remarks == ()


@pytest.mark.parametrize(("code", "status"), [(KILLS_ITSELF, -signal.SIGKILL), (ENDS_AT_ONCE, 4)])
def test_nothing_is_lost_when_a_program_ends_abruptly(
    tools: pathlib.Path, tmp_path: pathlib.Path, code: str, status: int
) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", code))
    trace = only(found)
    assert found.status == status
    assert _sized(trace, 32) == {32: 1000}
    assert ["did not end through exit()" in remark for remark in trace.remarks] == [True]


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.default_int_handler])
def test_the_program_ignores_sigint_where_the_recorder_did(
    tools: pathlib.Path, tmp_path: pathlib.Path, before: signal.Handlers
) -> None:
    """A script's background job has SIGINT ignored, and so has what it starts."""
    outside = signal.signal(signal.SIGINT, before)
    try:
        record(tools, tmp_path / "raw", "sh", "-c", f"exec cat /proc/self/status >{tmp_path}/status")
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, outside)
    status = dict(line.split(":", 1) for line in (tmp_path / "status").read_text().splitlines())
    assert bool(int(status["SigIgn"], 16) >> (signal.SIGINT - 1) & 1) == (before is signal.SIG_IGN)


def test_exec_begins_another_recording(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = record(tools, tmp_path / "raw", build_program(tmp_path / "program", EXECUTES), "again")
    first, second = sorted(found.processes, key=lambda one: one.image)
    assert first.header.pid == second.header.pid == found.pid
    assert _sized(link.link(raw.read(first.path)), 32) == {32: 200}
    assert _sized(link.link(raw.read(second.path)), 32) == {32: 100}
    assert capture.choose(found, capture.LARGEST) == first


@pytest.mark.parametrize("code", [MANY, MANY_THREADS_MANY_EVENTS], ids=["one-thread", "four-threads"])
def test_recording_stops_when_the_file_may_not_grow(
    tools: pathlib.Path, tmp_path: pathlib.Path, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """SIGXFSZ, or a store into a page without space, would kill the program."""
    program = build_program(tmp_path / "program", code)
    plain = subprocess.run([program], capture_output=True, check=False)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, before[1]))
    try:
        found = record(tools, tmp_path / "raw", program)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    printed = capfd.readouterr()
    assert (found.status, printed.out.encode(), printed.err) == (plain.returncode, plain.stdout, "")
    trace = only(found)
    assert any("no space" in remark and "EFBIG" in remark for remark in trace.remarks)
    assert 3 * (1 << 20) / 24 * 0.5 < len(trace) < 3 * (1 << 20) / 24
    assert replay(tools, trace, tmp_path)["identity"] == "ok"


def test_a_file_that_cannot_be_made_is_reported_once(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = build_program(tmp_path / "program", MANY)
    library = {"LD_PRELOAD": str(tools / "libhakotrace.so")}
    wrong = os.environ | library | {"HAKOTRACE_FILE": str(tmp_path / "missing" / "raw")}
    done = subprocess.run([program], env=wrong, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (6, "done\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("hakotrace: cannot record: ")
    assert "No such file or directory" in done.stderr
    done = subprocess.run([program], env=os.environ | library, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (6, "done\n", "")


def test_signal_handlers_may_allocate(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", HANDLER_ALLOCATES)))
    assert _sized(trace, 98, 99) == {98: 50, 99: 50}


def test_operators_of_cplusplus(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", CPLUSPLUS, "c++")))
    assert _sized(trace, 4, 100, 512) == {4: 10, 100: 20, 512: 5}
    counted = figures.compute(trace)
    assert counted.alignments == {256: 5}
    assert counted.frees - counted.allocations >= -1  # libstdc++ keeps its emergency pool


def test_another_allocator_behind_the_recorder(
    tools: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not OURS.exists():
        pytest.skip("no libhakozuna.so; 'make libs' builds it")
    monkeypatch.setenv("LD_PRELOAD", str(OURS))
    trace = only(record(tools, tmp_path / "raw", build_program(tmp_path / "program", HAND_OVER)))
    assert figures.compute(trace).remote_frees == 4000


def test_a_static_program_is_not_recorded(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(PRELUDE + MANY)
    built = subprocess.run(
        ["cc", "-static", "-o", tmp_path / "program", source], capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        pytest.skip("no static C library")
    found = record(tools, tmp_path / "raw", tmp_path / "program")
    with pytest.raises(ValueError, match="nothing was recorded: .*statically"):
        capture.choose(found, capture.LARGEST)


REAL = {
    "python": ["/usr/bin/python3", "-c", "import json, threading\nfor t in [threading.Thread(target=lambda: "
               "json.loads(json.dumps(list(range(3000))))) for _ in range(4)]: t.start()\nprint('ran')"],
    "sort": ["/usr/bin/sort", "--parallel=2", "INPUT"],
    "xz": ["/usr/bin/xz", "-T2", "-0", "-c", "INPUT"],
    "sqlite3": ["/usr/bin/sqlite3", ":memory:", "create table t(a); with recursive c(x) as (select 1 union all select "
                "x+1 from c where x<3000) insert into t select x from c; select sum(a) from t;"],
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_programs_notice_nothing(
    tools: pathlib.Path, tmp_path: pathlib.Path, capfdbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    data = tmp_path / "input"
    data.write_text("".join(f"{number * 7919 % 20011}\n" for number in range(20011)))
    argv = [str(data) if word == "INPUT" else word for word in REAL[name]]
    if not pathlib.Path(argv[0]).exists():
        pytest.skip(f"no {argv[0]}")
    plain = subprocess.run(argv, capture_output=True, check=False)
    capfdbinary.readouterr()
    found = record(tools, tmp_path / "raw", *argv)
    printed = capfdbinary.readouterr()
    assert (found.status, printed.out, printed.err) == (plain.returncode, plain.stdout, plain.stderr)
    trace = only(found)
    assert trace.remarks == () or all("did not end through exit()" in remark for remark in trace.remarks)
    counted = figures.compute(trace)
    told_by_replay = replay(tools, trace, tmp_path)
    assert int(told_by_replay["allocated"]) == counted.allocations
    assert int(told_by_replay["live"]) == counted.left_blocks


def test_a_compiler_with_its_children(tools: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "small.c"
    source.write_text("int main(void) { return 0; }\n")
    found = record(tools, tmp_path / "raw", "gcc", "-O2", "-c", source, "-o", tmp_path / "small.o")
    assert found.status == 0
    assert (tmp_path / "small.o").exists()
    assert {"cc1", "as"} <= {one.header.program.rsplit("-", 1)[-1] for one in found.processes}
    assert capture.choose(found, capture.LARGEST).header.program == "cc1"
    assert capture.choose(found, capture.FIRST).header.pid == found.pid
    with pytest.raises(ValueError, match="no recorded process is 'clang'; there are: .*cc1"):
        capture.choose(found, "clang")
    for one in found.processes:
        assert figures.compute(link.link(raw.read(one.path))).allocations > 0
