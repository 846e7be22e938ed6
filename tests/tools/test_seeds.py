"""The five documents' pages are true: each command line of bench/documents/README.md runs with small counts and prints what the page says; each flag of
docs/history/older-names.md is a knob, each counter is printed; each figure of docs/history/seeds.md is that of its run."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIB_DIR = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so")).parent
TREE = ROOT / "build/documents"
COMMANDS = (ROOT / "bench/documents/README.md").read_text()
SEEDS = (ROOT / "docs/history/seeds.md").read_text()
NAMES = (ROOT / "docs/history/older-names.md").read_text()
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
    return subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=TREE, env=environment, capture_output=True, text=True, check=False)


def complaints(done: subprocess.CompletedProcess, words: list[str]) -> list[str]:
    """The exit status if it is bad, and the words that were not printed."""
    status = [f"exit {done.returncode}: {done.stderr[-500:]}"] if done.returncode != 0 else []
    return status + [word for word in words if word not in done.stdout + done.stderr]


@pytest.fixture(scope="module", autouse=True)
def tree():
    """Afterwards the libraries are again those without flags."""
    subprocess.run([ROOT / "bench/documents/lay_out.sh"], check=True, capture_output=True)
    yield
    subprocess.run(["make", "-s", "-C", TREE / "hakozuna/hz3", "all_ldpreload_scale"], check=True, capture_output=True)


def can_perf() -> bool:
    words = ["perf", "record", "-o", "/dev/null", "true"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("how", "code", "words"), blocks())
def test_command(tmp_path, how, code, words):
    assert how in {"", "slow", "perf"}
    if how == "slow" and not os.environ.get("HZ_SLOW"):
        pytest.skip("HZ_SLOW=1 builds this variant too")
    if how == "perf" and not can_perf():
        pytest.skip("perf is missing or forbidden")
    assert complaints(run(small(code, tmp_path), tmp_path), words) == []


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


def test_flags_become_the_library(tmp_path):
    """The library that the documents' make line leaves behind says so itself."""
    flags = "-DHZ3_S142_XFER_LOCKFREE=1 -DHZ3_S142_FAILFAST=1 -DHZ3_XFER_STRUCT_FAILFAST=1"
    code = f"make -s -C hakozuna/hz3 clean all_ldpreload_scale HZ3_LDPRELOAD_DEFS_EXTRA='{flags}'; ls libhakozuna_hz3_*.so"
    code += "; HAKOZUNA_SHOW_CONFIG=2 LD_PRELOAD=./libhakozuna_hz3_scale.so /bin/true"
    done = run(code, tmp_path)
    assert complaints(done, ["HZ_TRANSFER_LOCKFREE=1", "HZ_TRANSFER_FAILFAST=1"]) == []
    assert "libhakozuna_hz3_scale.so" in done.stdout
    assert run("make -s -C hakozuna/hz3 all_ldpreload all_ldpreload_scale", tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-DHZ3_S142_XFER=1", "'HZ3_S142_XFER' is no flag of the documents; allowed: "),
        ("HZ3_S142_FAILFAST=1", "'HZ3_S142_FAILFAST=1' is not -DFLAG=VALUE"),
        ("-DHZ3_S142_FAILFAST=1 -DHZ3_XFER_STRUCT_FAILFAST=0", "HZ3_XFER_STRUCT_FAILFAST=0: another flag sets TRANSFER_FAILFAST to 1"),
        ("-DHZ3_PTAG_DSTBIN_ENABLE=0", "HZ3_PTAG_DSTBIN_ENABLE=0: this part cannot be switched off"),
        ("-DHZ3_NUM_SHARDS=0", "HZ_NUM_SHARDS is 0; allowed: 1..255"),
    ],
)
def test_bad_flags_are_refused(tmp_path, flags, message):
    done = run(f"make -s -C hakozuna/hz3 all_ldpreload_scale HZ3_LDPRELOAD_DEFS_EXTRA='{flags}'", tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


# Document 000 forbids these combinations, its section 4.
@pytest.mark.skipif(not os.environ.get("HZ_SLOW"), reason="HZ_SLOW=1 tries to build them")
@pytest.mark.parametrize(
    "flags",
    [
        "-DHZ3_S142_CENTRAL_LOCKFREE=1 -DHZ3_SHARD_COLLISION_FAILFAST=0 -DHZ3_OWNER_EXCL_ALWAYS=0",
        "-DHZ3_S142_CENTRAL_LOCKFREE=1 -DHZ3_S86_CENTRAL_SHADOW=1",
        "-DHZ3_S142_XFER_LOCKFREE=1 -DHZ3_SHARD_COLLISION_FAILFAST=0 -DHZ3_OWNER_EXCL_ALWAYS=0",
    ],
)
def test_forbidden_combinations_do_not_build(tmp_path, flags):
    assert run(f"make -s -C hakozuna/hz3 all_ldpreload_scale HZ3_LDPRELOAD_DEFS_EXTRA='{flags}'", tmp_path).returncode != 0


def knob_names() -> set[str]:
    files = [ROOT / "src/heap/knobs.def", *ROOT.glob("src/engines/*/engine_knobs.def")]
    return {name for file in files for name in re.findall(r"\((HZ_[A-Z0-9_]+),", file.read_text())}


def rows(heading: str) -> dict[str, str]:
    """The list below a heading of older-names.md: what stands here, by each name in code before the arrow."""
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
    assert named - set(library.FLAGS) - set(library.PARTS) == {"HZ3_LDPRELOAD_DEFS", "HZ3_LDPRELOAD_DEFS_EXTRA"}


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


def answers() -> list[list[str]]:
    """The cells of the rows of the last table."""
    section = SEEDS.split("\n## Questions and claims\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if re.match(r"\| 00[0-4]", line)]


def runs() -> dict[str, str]:
    """The raw file of each letter, relative to bench/results."""
    legend = SEEDS[SEEDS.rindex("\nRuns in ") :]
    return dict(re.findall(r"\b([A-Z])\s`([^`]+)`", legend))


def test_each_answer_has_its_run():
    """Rows without a figure, and only these, are measured by a part of the plan."""
    sys.path.insert(0, str(ROOT / "bench/documents"))
    import measure

    parts = {part.name for part in measure.PARTS}
    rows = answers()
    assert len(rows) > 35
    assert {row[0][:3] for row in rows} == {"000", "001", "002", "003", "004"}
    for row in rows:
        assert len(row) == 6, row
        named = {word for found in re.findall(r"\(([a-z0-9, -]+)\)", row[3]) for word in found.split(", ")}
        if "*not yet*" in row[3]:
            assert named & parts, row
        else:
            assert row[5] in runs(), row
        assert row[5] in {"", *runs()}, row


def test_each_run_exists():
    found = runs()
    assert len(found) >= 10
    for letter, name in found.items():
        commit, _, file = name.rpartition(":")
        if not commit:
            assert (ROOT / "bench/results" / file).exists() or (ROOT / "bench/results/documents" / file).exists(), letter
            continue
        known = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", commit], capture_output=True, check=False).returncode == 0
        path = f"{commit}:bench/results/{file}"
        if known:  # a shallow clone does not have the history
            subprocess.run(["git", "-C", ROOT, "cat-file", "-e", path], check=True, capture_output=True)


def cell(csv_text: str, row: str, allocator: str) -> float:
    """The median of a row's figures."""
    found = sorted(float(value) for value in re.findall(rf"^{re.escape(row)},{allocator},\d+,\d+,,[^,]*,([0-9.]+),", csv_text, re.MULTILINE))
    return found[len(found) // 2]


@pytest.mark.parametrize(
    ("question", "ratios"),
    [
        ("xmalloc-test 8+8, hz3 / mimalloc", [("xmalloc-8-8", "hz3_scale", "mimalloc"), ("xmalloc-8-8", "hz4", "mimalloc")]),
        ("hz4 / hz3, T4, T8, T16 R90", [(f"mt-t{n}-r90", "hz4", "hz3_scale") for n in (4, 8, 16)]),
        ("hz4 / hz3, T16 R0, R50, R90", [(f"mt-t16-r{n}", "hz4", "hz3_scale") for n in (0, 50, 90)]),
        ("full range: a crash, then hz4 / hz3", [("mt-t16-r90-64k", "hz4", "hz3_scale")]),
        ("the gap closes with T", [(f"mt-t{n}-r90", "hz4", "hz3_scale") for n in (4, 64, 128)]),
        ("tiny, hz3 / tcmalloc", [("app-16-256", "hz3_scale", "tcmalloc")]),
        ("app 16 to 32768, hz3 / tcmalloc", [("app-16-32768", "hz3_scale", "tcmalloc")]),
        ("T16 R90 32 KiB, hz4 / tcmalloc", [("mt-t16-r90-32k", "hz4", "tcmalloc")]),
        ("malloc_args, hz4 / tcmalloc", [("args-16-32768", "hz4", "tcmalloc")]),
    ],
)
def test_ratios_are_those_of_the_run(question, ratios):
    """When suite `seeds` has a newer run, the page's figures follow it."""
    row = next(row for row in answers() if row[1] == question)
    assert row[5] == "S"
    text = gzip.decompress((ROOT / "bench/results" / runs()["S"]).read_bytes()).decode()
    shown = re.findall(r"\b\d\.\d\d\b", row[3])
    assert shown == [f"{cell(text, name, ours) / cell(text, name, other):.2f}" for name, ours, other in ratios]
