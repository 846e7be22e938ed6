"""The five documents' commands and names are true: each command line of bench/documents/README.md runs with small counts and prints what the page says; each
flag of bench/documents/names.md does what it says, each counter is printed. test_figures.py has the figures."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIB_DIR = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so")).parent
TREE = ROOT / "build/documents"
COMMANDS = (ROOT / "bench/documents/README.md").read_text()
NAMES = (ROOT / "bench/documents/names.md").read_text()
BLOCK = re.compile(r"^```sh(?P<how>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)

sys.path.insert(0, str(ROOT / "bench/documents"))
import library  # noqa: E402

pytestmark = pytest.mark.deep  # it lays out a tree with libraries of its own


def prints(text_before: str) -> list[str]:
    """The words in code after the last "Prints" before a block; blocks that follow each other share them."""
    sentence = text_before[text_before.rindex("Prints ") :]
    return re.findall(r"`([^`]+)`", sentence.partition("```")[0])


def blocks() -> list:
    return [
        pytest.param(found["how"].strip(), found["code"], prints(COMMANDS[: found.start()]),
                     id=f"line{COMMANDS.count(chr(10), 0, found.start()) + 1}")
        for found in BLOCK.finditer(COMMANDS)
    ]  # fmt: skip


def small(code: str, scratch: pathlib.Path) -> str:
    """The same commands with few iterations and runs, and with their logs in `scratch`."""
    code = re.sub(r"(?<![\w.x])[1-9]\d{5,}(?!\w)", "2000", code)
    code = re.sub(r"\bRUNS=\d+", "RUNS=2", code)
    code = re.sub(r"\| head -(\d+)", r"| sed -n 1,\1p", code)  # head ends early, and the program before it by SIGPIPE
    return code.replace("/tmp/", f"{scratch}/")


def run(code: str, scratch: pathlib.Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "LOG_DIR": str(scratch / "hz3_ssot_logs")}
    for name in ("MAKEFLAGS", "MAKELEVEL", "LD_PRELOAD"):
        environment.pop(name, None)
    command = ["bash", "-euo", "pipefail", "-c", code]
    with tempfile.TemporaryFile("w+") as out:  # into a pipe, perf record would write its samples
        done = subprocess.run(command, cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
        out.seek(0)
        return subprocess.CompletedProcess(command, done.returncode, out.read(), done.stderr)


def complaints(done: subprocess.CompletedProcess, words: list[str]) -> list[str]:
    """The exit status if it is bad, and the words that were not printed."""
    status = [f"exit {done.returncode}: {done.stderr[-500:]}"] if done.returncode != 0 else []
    return status + [word for word in words if word not in done.stdout + done.stderr]


@pytest.fixture(scope="module", autouse=True)
def tree():
    """Afterwards the libraries are again those without flags."""
    subprocess.run([ROOT / "bench/documents/lay_out.sh"], check=True, capture_output=True)
    yield
    for engine, targets in (("hz3", ["all_ldpreload_scale", "all_ldpreload_home"]), ("hz4", ["all"])):
        subprocess.run(["make", "-s", "-C", TREE / "hakozuna" / engine, *targets], check=True, capture_output=True)


def can_perf() -> bool:
    words = ["perf", "record", "-o", "/dev/null", "true"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("how", "code", "words"), blocks())
def test_command(tmp_path, how, code, words):
    assert how in {"", "perf"}
    if how == "perf" and not can_perf():
        pytest.skip("perf is missing or forbidden")
    assert complaints(run(small(code, tmp_path), tmp_path), words) == []
    kept = [pathlib.Path(path) for path in re.findall(r"(?:-o|tee(?: -a)?) (/\S+)", small(code, tmp_path))]
    assert [path for path in kept if not path.stat().st_size] == []


def test_commands_are_found_and_shortened():
    assert len(blocks()) >= 7
    assert all(len(block.values[2]) >= 1 for block in blocks())
    text = small("./p 8 2500000 400 16 65536 90 0x12345678 && RUNS=30 ITERS=20000000 tee /tmp/x", pathlib.Path("/s"))
    assert text == "./p 8 2000 400 16 65536 90 0x12345678 && RUNS=2 ITERS=2000 tee /s/x"


def test_a_command_that_fails_or_prints_something_else_is_noticed(tmp_path):
    assert complaints(run("echo a; exit 3", tmp_path), ["b"]) == ["exit 3: ", "b"]
    assert complaints(run("echo a b", tmp_path), ["a", "b"]) == []


def test_logs_have_headers(tmp_path):
    """Document 003: the headers name what was preloaded and its file, and the raw output follows."""
    code = "RUNS=2 ITERS=1000 WS=50 MIN=16 MAX=64 ./hakozuna/hz3/scripts/run_bench_hz3_ssot.sh"
    assert complaints(run(code, tmp_path), ["allocator=hz3 runs=2"]) == []
    log = (tmp_path / "hz3_ssot_logs/hz3.log").read_text()
    header = "\n".join(line for line in log.splitlines() if line.startswith("[BENCH-HEADER]"))
    for word in ("date=", "commit=", "cpu=", "preload=hz3", "lib=", "config=engine=hz3 lane=scale", "command=LD_PRELOAD="):
        assert word in header
    assert len(re.findall(r"^ops_per_s=\d+$", log, re.MULTILINE)) == 2
    figures = sorted(int(found) for found in re.findall(r"^ops_per_s=(\d+)$", log, re.MULTILINE))
    printed = re.search(r"allocator=hz3 runs=2 median_ops_per_s=(\d+)", run(code, tmp_path / "again").stdout)
    assert printed is not None and figures[0] > 0
    assert "preload=system lib=libc" in (tmp_path / "hz3_ssot_logs/system.log").read_text()


def test_a_missing_library_is_left_out_and_named(tmp_path):
    done = run("RUNS=1 ITERS=100 MIMALLOC_SO=/none.so ./hakozuna/hz3/scripts/run_bench_hz3_ssot.sh", tmp_path)
    assert done.returncode == 0
    assert "mimalloc is left out: no library '/none.so'" in done.stderr
    assert "allocator=mimalloc" not in done.stdout


LATE = """
#include <stdlib.h>
int main(void) {
    static void *many[4096];
    for (int round = 0; round < 50; round++) { /* the library inspects the first frees of a thread in every build */
        for (int i = 0; i < 4096; i++) many[i] = malloc(40);
        for (int i = 0; i < 4096; i++) free(many[i]);
    }
    void *one = malloc(40), *other = malloc(40);
    free(one), free(other), free(one);
    return 0;
}
"""
# A thread frees one full remote buffer of another thread's blocks: `each` blocks of a size class, of as many classes as it takes.
BUFFERFUL = """
#include <pthread.h>
#include <stdlib.h>
enum { BUFFER = 128 };
static void *blocks[BUFFER];
static void *release(void *unused) {
    for (int i = 0; i < BUFFER; i++) free(blocks[i]);
    return unused;
}
int main(int argc, char **argv) {
    int each = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < BUFFER; i++) {
        int at = i / each;
        blocks[i] = malloc(at < 16 ? 16 * (at + 1) : (size_t)(9 + at % 8) << (5 + (at - 16) / 8));
    }
    pthread_t thread;
    pthread_create(&thread, NULL, release, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"""


class Built:
    """A library that a make line of the documents with flags has left behind. It stays when the line is run with others."""

    def __init__(self, target: str, flags: str, scratch: pathlib.Path):
        engine, name, link, variable = {
            "all_ldpreload_scale": ("hz3", "scale", "libhakozuna_hz3_scale.so", "HZ3_LDPRELOAD_DEFS_EXTRA"),
            "all_ldpreload_home": ("hz3", "home", "libhakozuna_hz3_home.so", "HZ3_LDPRELOAD_DEFS_EXTRA"),
            "all": ("hz4", "default", "hakozuna/hz4/libhakozuna_hz4.so", "HZ4_DEFS_EXTRA"),
        }[target]
        done = run(f"make -s -C hakozuna/{engine} {target} {variable}='{flags}'", scratch)
        assert done.returncode == 0, done.stderr
        self.printed = done.stderr
        self.library = (TREE / link).resolve()
        self.scratch = scratch
        shown = subprocess.run(["true"], env=self.environment(HAKOZUNA_SHOW_CONFIG="2"), capture_output=True, text=True, check=True)
        self.config = dict(word.split("=", 1) for word in shown.stderr.split() if "=" in word)
        assert (self.config["engine"], self.config["lane"]) == (engine, name)

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self.library), **more}

    def files(self) -> set[str]:
        """The sources that the library has code of."""
        lines = subprocess.run(["readelf", "--debug-dump=decodedline", self.library], capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"^([a-z_0-9]+\.c) ", lines, re.MULTILINE))

    def run(self, command: list) -> subprocess.CompletedProcess:
        return subprocess.run(command, env=self.environment(HAKOZUNA_STATS="json"), capture_output=True, text=True, check=False)

    def counters(self, command: list) -> dict[str, int]:
        """The counters of all groups after a run."""
        done = self.run(command)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stderr[done.stderr.index("{") :])
        return {name: value for group in report.values() if isinstance(group, dict) for name, value in group.items()}

    def ring(self, threads: int = 4, most: int = 2048) -> list[str]:
        return [str(TREE / "hakozuna/out/bench_random_mixed_mt_remote_malloc"), *f"{threads} 20000 400 16 {most} 90 1024 --full=wait".split()]

    def program(self, source: str) -> str:
        path = self.scratch / "program"
        subprocess.run(["gcc", "-w", "-pthread", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
        return str(path)


# Each flag of the documents is in one of these, so one build shows several.
MUTEXES = "-DHZ3_S142_XFER_LOCKFREE=0 -DHZ3_S142_CENTRAL_LOCKFREE=0 -DHZ3_S86_CENTRAL_SHADOW=1"
ALONE = "-DHZ3_P32_NUM_SHARDS=5 -DHZ3_SHARD_COLLISION_FAILFAST=1 -DHZ3_OWNER_EXCL_ALWAYS=0"
FEW = "-DHZ3_NUM_SHARDS=2 -DHZ3_SHARD_COLLISION_FAILFAST=1 -DHZ3_LIST_FAILFAST=1"
CHECKED = "-DHZ3_S142_XFER_LOCKFREE=1 -DHZ3_S142_FAILFAST=1 -DHZ3_XFER_STRUCT_FAILFAST=1"
PAGES = "-DHZ3_S121=1 -DHZ3_S121_LAZY_THRESHOLD=4"
COUNTED = "-DHZ4_REMOTE_INBOX=0 -DHZ4_MID_STATS_B1=1 -DHZ4_OS_STATS=1 -DHZ4_OS_STATS_B9=1"


def built(target: str, flags: str):
    @pytest.fixture(scope="module")
    def library(tmp_path_factory):
        return Built(target, flags, tmp_path_factory.mktemp("built"))

    return library


home_with_mutexes = built("all_ldpreload_home", f"{MUTEXES} {ALONE}")
scale_with_few_shards = built("all_ldpreload_scale", FEW)
scale_with_checks = built("all_ldpreload_scale", CHECKED)
home_with_pages = built("all_ldpreload_home", PAGES)
hz4_with_counters = built("all", COUNTED)


def test_each_flag_is_built():
    """A flag that the documents have and no test builds does perhaps nothing."""
    named = set(re.findall(r"-D(\w+)=", f"{MUTEXES} {ALONE} {FEW} {CHECKED} {PAGES} {COUNTED}"))
    always = {flag for flag in library.PARTS if "OS_STATS" not in flag}
    assert named == {*library.FLAGS, library.STATISTICS, *library.PARTS} - always


def test_mutexes_and_shadow_are_in_the_library(home_with_mutexes):
    """XFER_LOCKFREE=0, CENTRAL_LOCKFREE=0, S86_CENTRAL_SHADOW=1: the code that carries the blocks is another one."""
    config = home_with_mutexes.config
    assert [config[f"HZ_{knob}"] for knob in ("TRANSFER_LOCKFREE", "CENTRAL_LOCKFREE", "CENTRAL_SHADOW")] == ["0", "0", "1"]
    assert {"transfer_mutex.c", "central_mutex.c", "shadow.c"} <= home_with_mutexes.files()
    assert not {"transfer_lockfree.c", "central_lockfree.c", "transfer_check.c"} & home_with_mutexes.files()
    counters = home_with_mutexes.counters(home_with_mutexes.ring())
    assert counters["mail_blocks"] > 0.9 * counters["remote_free"] > 10_000
    assert counters["transfer_send"] > 1000 and counters["central_send"] > 0
    assert home_with_mutexes.printed == ""  # in lane home there is nothing to say


def test_lock_free_ways_are_in_the_library(scale_with_checks):
    """XFER_LOCKFREE=1, and the two flags of one check. In lane scale the path carries nearly nothing, and make says so."""
    assert [scale_with_checks.config[f"HZ_{knob}"] for knob in ("TRANSFER_LOCKFREE", "TRANSFER_FAILFAST")] == ["1", "1"]
    assert {"transfer_lockfree.c", "transfer_check.c"} <= scale_with_checks.files()
    assert not {"transfer_mutex.c", "central_mutex.c", "shadow.c"} & scale_with_checks.files()
    counters = scale_with_checks.counters(scale_with_checks.ring())
    assert counters["transfer_send"] < 1000  # of 72,000 remote frees
    assert "TRANSFER_LOCKFREE, TRANSFER_FAILFAST: in lane hz3/scale threads keep the blocks that they free" in scale_with_checks.printed
    assert "`all_ldpreload_home` builds the lane in which it carries all remote frees" in scale_with_checks.printed


def test_each_thread_has_its_shard(home_with_mutexes):
    """P32_NUM_SHARDS=5, SHARD_COLLISION_FAILFAST=1: main and four threads, and one too many."""
    assert [home_with_mutexes.config[name] for name in ("shards", "HZ_SHARD_COLLISION_FAILFAST")] == ["5", "1"]
    assert home_with_mutexes.counters(home_with_mutexes.ring(4))["shards"] == 5
    refused = home_with_mutexes.run(home_with_mutexes.ring(5))
    assert refused.returncode == -signal.SIGABRT and "hakozuna: more threads than shards; shards there are: 5" in refused.stderr


def test_consumers_need_no_lock(home_with_mutexes):
    """OWNER_EXCL_ALWAYS=0: what was sent is taken without the shard's lock, so nothing is left in the carry, and most refills take no lock."""
    assert home_with_mutexes.config["HZ_EXCLUSIVE_ALWAYS"] == "0"
    alone = home_with_mutexes.counters(home_with_mutexes.ring())
    assert alone["carry_hit"] == 0 and alone["ls_acq_self"] < alone["refill"]
    locked = Built("all_ldpreload_home", "", home_with_mutexes.scratch)
    assert locked.config["HZ_EXCLUSIVE_ALWAYS"] == "1"
    shared = locked.counters(locked.ring())
    assert shared["carry_hit"] > 0 and shared["ls_acq_self"] + shared["ls_acq_steal"] + shared["ls_acq_miss"] > shared["refill"]


def test_scale_ends_with_too_many_threads(scale_with_few_shards):
    """NUM_SHARDS=2, SHARD_COLLISION_FAILFAST=1 in the lane of the documents' make lines, which otherwise has a shard for each CPU."""
    config = scale_with_few_shards.config
    assert [config[name] for name in ("shards", "HZ_SHARD_COLLISION_FAILFAST", "HZ_SHARDS_PER_CPU")] == ["2", "1", "0"]
    assert scale_with_few_shards.run([scale_with_few_shards.program(BUFFERFUL), "2"]).returncode == 0
    refused = scale_with_few_shards.run(scale_with_few_shards.ring(2))
    assert refused.returncode == -signal.SIGABRT and "hakozuna: more threads than shards; shards there are: 2" in refused.stderr


def test_a_late_double_free_is_found(scale_with_few_shards):
    """LIST_FAILFAST=1."""
    assert scale_with_few_shards.config["HZ_LIST_FAILFAST"] == "1"
    program = scale_with_few_shards.program(LATE)
    found = scale_with_few_shards.run([program])
    assert found.returncode == -signal.SIGABRT and "hakozuna: double free of block: 0x" in found.stderr
    plain = {**os.environ, "LD_PRELOAD": str(LIB_DIR / "libhakozuna_hz3_scale.so")}
    assert subprocess.run([program], env=plain, capture_output=True, check=False).returncode == 0


def test_pages_are_queued_from_the_threshold_on(home_with_pages):
    """S121=1, S121_LAZY_THRESHOLD=4: three blocks wait in their page, four put it into the queue."""
    config = home_with_pages.config
    assert [config[f"HZ_{knob}"] for knob in ("PAGE_LOCAL_REMOTE", "PAGE_LOCAL_THRESHOLD", "TRANSFER_CENTRAL")] == ["1", "4", "0"]
    assert "page_local.c" in home_with_pages.files()
    program = home_with_pages.program(BUFFERFUL)
    queued = {each: home_with_pages.counters([program, str(each)]) for each in (3, 4)}
    assert queued[3]["push_objs"] > 100 and queued[4]["push_objs"] > 100
    assert queued[3]["pageq_enq"] == 0
    assert queued[4]["pageq_enq"] > 20


def test_hz4_counts_and_has_no_inbox(hz4_with_counters):
    """REMOTE_INBOX=0, MID_STATS_B1=1; OS_STATS and OS_STATS_B9, which are always there."""
    assert (hz4_with_counters.config["HZ_REMOTE_INBOX"], hz4_with_counters.config["stats"]) == ("0", "1")
    counters = hz4_with_counters.counters(hz4_with_counters.ring(4, 32768))
    assert counters["pageq_deq"] > 0 and counters["inbox_push_list"] == 0
    assert counters["malloc_calls"] > 10_000 and counters["alloc_cache_hit"] > 10_000 and counters["ls_acq_self"] > 0
    plain = Built("all", "-DHZ4_REMOTE_INBOX=1 -DHZ4_MID_STATS_B1=0", hz4_with_counters.scratch)
    assert (plain.config["HZ_REMOTE_INBOX"], plain.config["stats"]) == ("1", "0")
    others = plain.counters(plain.ring(4, 32768))
    assert others["inbox_push_list"] > 0 and "malloc_calls" not in others and others["ls_acq_self"] > 0


def test_flags_of_parts_change_nothing():
    """1 is how it is. No variant is built, and 0 is refused (test_bad_flags_are_refused)."""
    words = [f"-D{flag}=1" for flag in library.PARTS]
    assert library.choose(words) == library.Chosen({}, statistics=False)


@pytest.mark.parametrize(
    ("words", "knobs"),
    [
        ("-DHZ3_S142_CENTRAL_LOCKFREE", {"CENTRAL_LOCKFREE": "1", "TRANSFER_CENTRAL": "1"}),
        ("-DHZ3_S142_FAILFAST=0", {"TRANSFER_FAILFAST": "0"}),
        ("-DHZ3_SHARD_COLLISION_FAILFAST=0", {"SHARD_COLLISION_FAILFAST": "0"}),
        ("-DHZ3_SHARD_COLLISION_FAILFAST=1", {"SHARD_COLLISION_FAILFAST": "1", "SHARDS_PER_CPU": "0"}),
        ("-DHZ3_S121_LAZY_THRESHOLD=8", {"PAGE_LOCAL_THRESHOLD": "8", "PAGE_LOCAL_REMOTE": "1", "TRANSFER_CENTRAL": "0"}),
        ("-DHZ3_S121=0", {"PAGE_LOCAL_REMOTE": "0"}),
        ("-DHZ4_MID_STATS_B1=0", {}),
    ],
)
def test_a_flag_sets_what_it_needs(words, knobs):
    assert library.choose(words.split()) == library.Chosen(knobs, statistics=False)


@pytest.mark.parametrize("lane", ["hz3/scale", "hz3/fast", "hz3/p32", "hz3/home", "hz4/default"])
def test_make_names_the_lane_in_which_a_way_carries_blocks(lane):
    ways = library.choose("-DHZ3_S142_XFER_LOCKFREE=0 -DHZ3_S86_CENTRAL_SHADOW=0 -DHZ3_S121=0".split())
    shards = library.choose(["-DHZ3_NUM_SHARDS=4"])
    assert library.hint(lane, shards) == ""
    says = f"TRANSFER_LOCKFREE, CENTRAL_SHADOW, PAGE_LOCAL_REMOTE: in lane {lane} threads keep the blocks that they free"
    assert library.hint(lane, ways).startswith(says) == (lane in ("hz3/scale", "hz3/fast", "hz3/p32"))
    assert bool(library.hint(lane, ways)) == (lane in ("hz3/scale", "hz3/fast", "hz3/p32"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-DHZ3_S142_XFER=1", "'HZ3_S142_XFER' is no flag of the documents; allowed: "),
        ("HZ3_S142_FAILFAST=1", "'HZ3_S142_FAILFAST=1' is not -DFLAG=VALUE"),
        (
            "-DHZ3_S142_FAILFAST=1 -DHZ3_XFER_STRUCT_FAILFAST=0",
            "HZ3_XFER_STRUCT_FAILFAST=0: needs TRANSFER_FAILFAST=0, but HZ3_S142_FAILFAST=1 sets it to 1",
        ),
        ("-DHZ3_S142_XFER_LOCKFREE=1 -DHZ3_S121=1", "HZ3_S142_XFER_LOCKFREE=1: needs TRANSFER_CENTRAL=1, but HZ3_S121=1 sets it to 0"),
        ("-DHZ3_S121=0 -DHZ3_S121_LAZY_THRESHOLD=4", "HZ3_S121_LAZY_THRESHOLD=4: needs PAGE_LOCAL_REMOTE=1, but HZ3_S121=0 sets it to 0"),
        ("-DHZ4_MID_STATS_B1=2", "HZ4_MID_STATS_B1=2; allowed: 0, 1"),
        *((f"-D{flag}=0", f"{flag}=0: this part cannot be switched off (bench/documents/names.md)") for flag in library.PARTS),
        ("-DHZ3_NUM_SHARDS=0", "HZ_NUM_SHARDS is 0; allowed: 1..255"),
    ],
)
def test_bad_flags_are_refused(tmp_path, flags, message):
    done = run(f"make -s -C hakozuna/hz3 all_ldpreload_scale HZ3_LDPRELOAD_DEFS_EXTRA='{flags}'", tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


# Document 000 forbids these combinations, its section 4. A build ends at its first file.
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "-DHZ3_S142_CENTRAL_LOCKFREE=1 -DHZ3_SHARD_COLLISION_FAILFAST=0 -DHZ3_OWNER_EXCL_ALWAYS=0",
            "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_SHARD_COLLISION_FAILFAST=1",
        ),
        ("-DHZ3_S142_CENTRAL_LOCKFREE=1 -DHZ3_S86_CENTRAL_SHADOW=1", "HZ_CENTRAL_SHADOW: needs HZ_CENTRAL_LOCKFREE=0"),
        (
            "-DHZ3_S142_XFER_LOCKFREE=1 -DHZ3_SHARD_COLLISION_FAILFAST=0 -DHZ3_OWNER_EXCL_ALWAYS=0",
            "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_SHARD_COLLISION_FAILFAST=1",
        ),
    ],
)
def test_forbidden_combinations_do_not_build(tmp_path, flags, message):
    done = run(f"make -s -C hakozuna/hz3 all_ldpreload_scale HZ3_LDPRELOAD_DEFS_EXTRA='{flags}'", tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


def knob_names() -> set[str]:
    files = [ROOT / "src/heap/knobs.def", *ROOT.glob("src/engines/*/engine_knobs.def")]
    return {name for file in files for name in re.findall(r"\((HZ_[A-Z0-9_]+),", file.read_text())}


def rows(heading: str) -> dict[str, str]:
    """The list below a heading of names.md: what stands here, by each name in code before the arrow."""
    section = NAMES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = {}
    for left, right in re.findall(r"^\* ([^→\n]*) → (.*)$", section, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", left), right)
    return found


def test_each_flag_is_a_knob_and_on_the_page():
    page = rows("Flags of hz3") | rows("Flags and counters of hz4")
    knobs = knob_names()
    assert len(knobs) > 20
    for flag, knob in library.FLAGS.items():
        assert f"HZ_{knob}" in knobs, flag
        assert f"HZ_{knob}" in page[flag], flag
    assert [flag for flag in library.PARTS if flag not in page] == []
    named = {flag for flag in page if re.fullmatch(r"HZ[34]_[A-Z0-9_]+", flag) and not flag.endswith("_WORK_ORDER")}
    assert named - {*library.FLAGS, *library.PARTS, library.STATISTICS} == {"HZ3_LDPRELOAD_DEFS", "HZ3_LDPRELOAD_DEFS_EXTRA"}
    assert all("cannot be switched" in page[flag] for flag in library.PARTS)


def printed_counters() -> set[str]:
    """The counters of both engines: those that the libraries print, and those that only a build with statistics counts."""
    found = {"malloc_calls", "free_calls", "free_batch_enq"}  # computed from hot counters
    for name in ("hz3_scale", "hz4"):
        environment = {"LD_PRELOAD": str(LIB_DIR / f"libhakozuna_{name}.so"), "HAKOZUNA_STATS": "json"}
        report = json.loads(subprocess.run(["true"], env={**os.environ, **environment}, capture_output=True, text=True, check=True).stderr)
        found |= {counter for group in report.values() if isinstance(group, dict) for counter in group}
    hot = re.findall(r'^COUNTER\("\w+", \w+, "(\w+)", HOT,', (ROOT / "src/heap/counters.def").read_text(), re.MULTILINE)
    return found | set(hot)


def counters_of_the_documents() -> dict[str, str]:
    """The name here of each counter there."""
    left = {**rows("Functions and variables of hz3"), **rows("Flags and counters of hz4")}
    return {name: right for name, right in left.items() if re.fullmatch(r"[a-z][a-z0-9_]*", name) and "hz3_" not in name and "hz4_" not in name}


def test_each_counter_is_printed():
    printed = printed_counters()
    renamed = 0
    for name, right in counters_of_the_documents().items():
        if name in ("remote_head", "remote_count", "remote_state", "p2_acq_self"):
            continue  # fields and a lock that do not exist here; the table says what does their work
        here = [] if "the same names" in right or "group `" in right else re.findall(r"`([a-z0-9_]+)`", right)
        assert set(here or [name]) <= printed, f"{name}: {right}"
        renamed += bool(here)
    assert renamed >= 4
    for name in ("ls_acq_self", "ls_rel_miss", "remote_flush_calls", "inbox_stash_max", "large_rel", "pageq_deq"):
        assert name in printed
