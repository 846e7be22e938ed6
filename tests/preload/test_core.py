"""Core files: what is in them, and what `hakozuna stats --core` reads out of them."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from conftest import PROGRAMS, ROOT, TIMEOUT_SECONDS, archive_of, clean_environment, compile_c, required

pytestmark = pytest.mark.usefixtures("ours_only")

sys.path.append(str(ROOT / "command"))

import heap_core  # noqa: E402 - after the line above
import running  # noqa: E402

MIB = 1 << 20
# What only the process itself knows.
NOT_IN_CORE = {
    "process": None, "flow": None, "flow_pairs": None, "os": {"huge_asked", "huge_refused", "huge_slow", "huge_most_us", "huge_collapsed"},
    "remote": {"blocks_per_100_pages"}, "rest": {"keeper"}, "mid": {"malloc_calls", "free_calls", "free_batch_enq"},
}  # fmt: skip
KERNEL_WRITES_HERE = not Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/"))
by_kernel = pytest.mark.skipif(not KERNEL_WRITES_HERE, reason="core_pattern sends core files elsewhere")


def unlimited() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


@dataclass
class Ended:
    core: Path
    live: dict  # the report that the process has written just before
    large: list[dict]  # the blocks that it has named


def environment(library: Path | None) -> dict[str, str]:
    preloaded = {} if library is None else {"LD_PRELOAD": str(library)}
    return clean_environment() | {"HAKOZUNA_BACKGROUND": "0"} | preloaded


def ended(program: Path, library: Path | None, how: str, folder: Path) -> Ended:
    """Lets the program end with a core file of the kernel."""
    run = subprocess.run(
        [program, folder / "live.json", how], cwd=folder, env=environment(library), preexec_fn=unlimited, check=False,
        capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert run.returncode == (0 if how == "child" else -signal.SIGABRT), run.stderr
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("the system writes no core file here")
    return Ended(cores[0], json.loads((folder / "live.json").read_text()), named(run.stdout))


def named(output: str) -> list[dict]:
    rows = [{"address": int(address, 16), "bytes": int(size)} for address, size in re.findall(r"(?m)^(0x[0-9a-f]+) (\d+)$", output)]
    return sorted(rows, key=lambda row: -row["bytes"])


def gcored(pid: int, folder: Path) -> Path:
    subprocess.run([required("gcore"), "-o", folder / "by_gcore", str(pid)], check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    return folder / f"by_gcore.{pid}"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("heap_at_end.c", tmp_path_factory.mktemp("heap_at_end") / "heap_at_end", f"-I{ROOT / 'include'}")


def of_core(core: Path, largest: int = 10) -> dict:
    (heap,) = heap_core.heaps(str(core))
    return heap.report(largest)


def known(report: dict) -> dict:
    """What a core file can say, too."""
    kept = {}
    for key, value in report.items():
        if key in ("core", "largest") or (key in NOT_IN_CORE and NOT_IN_CORE[key] is None):
            continue
        kept[key] = {name: number for name, number in value.items() if name not in NOT_IN_CORE.get(key, ())} if isinstance(value, dict) else value
    kept["threads"] = [row | {"name": ""} for row in report["threads"]]
    return kept


def lies_in(block: dict, row: dict) -> bool:
    """The file tells where a block's memory begins. The program's pointer can be up to 64 KiB behind that."""
    before = block["address"] - row["address"]
    return 0 <= before < 1 << 16 and before + block["bytes"] == row["bytes"]


def agree(ended: Ended) -> dict:
    report = of_core(ended.core)
    assert known(report) == known(ended.live)
    assert report["core"]["unsure"] == []
    rows = [next(row for row in report["largest"] if lies_in(block, row)) for block in ended.large]
    assert rows == [row for row in report["largest"] if row in rows], "the largest first"
    schema = json.loads((ROOT / "docs/formats/stats-schema.json").read_text())
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(report)] == []
    return report


# ---- what the report says --------------------------------------------------------------------------


@by_kernel
@pytest.mark.parametrize("how", ["abort", "child", "zone"])
def test_the_report_is_that_of_the_process(library: Path, program: Path, tmp_path: Path, how: str) -> None:
    report = agree(ended(program, library, how, tmp_path))
    assert report["process"]["program"] == "heap_at_end"
    assert report["core"]["signal"] == signal.SIGABRT
    assert report["core"]["threads"] == (1 if how == "child" else 3)
    assert report["heap"]["cached_bytes"] > 0
    assert report["heap"]["mapping_count"] == 3


@by_kernel
def test_a_static_link(library: Path, tmp_path: Path) -> None:
    program = compile_c("heap_at_end.c", tmp_path / "linked", f"-I{ROOT / 'include'}", "-static", "-Wl,-u,malloc,-u,hz_stats_print,-u,hz_zone_create",
                        "-Wl,--gc-sections", str(archive_of(library)))  # fmt: skip
    subprocess.run([required("strip"), program], check=True)
    agree(ended(program, None, "abort", tmp_path))


def test_gcore(library: Path, program: Path, tmp_path: Path) -> None:
    with subprocess.Popen([program, tmp_path / "live.json", "wait"], env=environment(library), stdout=subprocess.PIPE, text=True) as process:
        lines = []
        while not lines or lines[-1] != "ready\n":
            lines.append(process.stdout.readline())
            assert lines[-1] != "", "the program has ended"
        try:
            core = gcored(process.pid, tmp_path)
        finally:
            process.kill()
    report = agree(Ended(core, json.loads((tmp_path / "live.json").read_text()), named("".join(lines))))
    assert report["process"]["pid"] == process.pid


@by_kernel
def test_links_that_the_program_has_overwritten(library: Path, program: Path, tmp_path: Path) -> None:
    """Lists through free blocks lead anywhere. The figures come from counts, and the rest is said to be unsure."""
    smashed = ended(program, library, "smash", tmp_path)
    report = of_core(smashed.core)
    assert report["heap"] == smashed.live["heap"]
    assert all(lies_in(*pair) for pair in zip(smashed.large, report["largest"][:5], strict=True))


def test_a_crash_inside_malloc(library: Path, program: Path, tmp_path: Path) -> None:
    """gdb ends the process where a thread holds locks and has taken blocks out of a page."""
    script = [
        "set pagination off", "set confirm off", "set breakpoint pending on", f"set exec-wrapper env LD_PRELOAD={library}",
        f"set args {tmp_path / 'live.json'} wait", "break main", "run", "delete", "break hz_page_create_locked", "continue",
        f"generate-core-file {tmp_path / 'inside'}", "kill",
    ]  # fmt: skip
    words = [word for line in script for word in ("-ex", line)]
    run = subprocess.run([required("gdb"), "-q", "-nx", "-batch", *words, program], env=clean_environment(), capture_output=True, text=True,
                         check=False, timeout=TIMEOUT_SECONDS)  # fmt: skip
    core = tmp_path / "inside"
    assert core.is_file(), run.stdout + run.stderr
    unsure = of_core(core)["core"]["unsure"]
    assert any(line.startswith("a thread held the lock of shard") for line in unsure), unsure
    assert "1 threads that were inside malloc or free" in unsure


@by_kernel
def test_a_core_file_that_is_cut_off(library: Path, program: Path, tmp_path: Path) -> None:
    """Whatever the length: a report that says so, or a refusal."""
    core = ended(program, library, "abort", tmp_path).core
    whole = core.stat().st_size
    said = set()
    for length in (whole - 5000, *(whole * part // 10 for part in range(9, 0, -1)), 4000, 70, 10, 0):
        os.truncate(core, length)
        try:
            said.add(re.sub(r"\d+", "N", of_core(core)["core"]["unsure"][0]))
        except running.Refused as refusal:
            said.add(str(refusal).replace(str(core), "FILE").partition(":")[0])
    assert {"cannot read 'FILE'", "'FILE' is cut off in its headers", "'FILE' is cut off", "the core file is cut off: N bytes of memory are missing"} <= said


@by_kernel
def test_the_command(library: Path, program: Path, tmp_path: Path) -> None:
    found = ended(program, library, "abort", tmp_path)

    def stats(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, ROOT / "command/heap_stats.py", "stats", *words], check=False, capture_output=True, text=True)

    text = stats("--core", found.core).stdout.splitlines()
    assert re.fullmatch(r"hakozuna [0-9.]+, hz[34][\w-]*: heap_at_end, pid \d+", text[0])
    assert text[1] == f"from the core file '{found.core.name}', by SIGABRT, with 3 threads"
    largest = text.index(next(line for line in text if line.startswith("largest blocks")))
    assert text[largest + 1].split() == [hex(found.large[0]["address"]), "200.00", str(200 * MIB)]
    assert text[2] == "", "nothing is unsure"
    part = stats("--core", found.core, "--part", "largest", "--largest", "1").stdout.splitlines()
    assert part[-1].split()[-1] == str(200 * MIB)
    assert json.loads(stats("--core", found.core, "--json").stdout)["heap"] == found.live["heap"]
    for words, why in (
        (("--core", found.core, "--part", "flow"), "a core file does not say"),
        (("--core", program), "is no core file, but a program or a library"),
        (("--core", found.core.with_name("none")), "No such file or directory"),
        (("--core", PROGRAMS / "heap_at_end.c"), "is no core file: it is not in the format ELF"),
        ((), "required"),
        (("--core", found.core, "1"), "not allowed with"),
    ):
        run = stats(*words)
        assert run.returncode == 2 and why in run.stderr, run.stderr


@by_kernel
def test_a_process_without_the_library(tmp_path: Path) -> None:
    (tmp_path / "abort.c").write_text("#include <stdlib.h>\nint main(void) { abort(); }\n")
    subprocess.run([required("cc"), tmp_path / "abort.c", "-o", tmp_path / "abort"], check=True)
    subprocess.run([tmp_path / "abort"], cwd=tmp_path, preexec_fn=unlimited, check=False)
    with pytest.raises(running.Refused, match="did not run under hakozuna"):
        of_core(next(tmp_path.glob("core*")))


# ---- what is in the file ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("core_blocks.c", tmp_path_factory.mktemp("core_blocks") / "core_blocks")


def aborted(grower: Path, library: Path, how: str, folder: Path) -> tuple[Path, list[dict]]:
    run = subprocess.run([grower, how, "abort"], cwd=folder, env=environment(library), preexec_fn=unlimited, check=False,
                         capture_output=True, text=True, timeout=TIMEOUT_SECONDS)  # fmt: skip
    assert run.returncode == -signal.SIGABRT, run.stderr
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("the system writes no core file here")
    return cores[0], named(run.stdout)


@by_kernel
@pytest.mark.parametrize("how", ["grow", "again", "confined", "shrink"])
def test_all_that_is_live_is_in_the_file(library: Path, grower: Path, tmp_path: Path, how: str) -> None:
    path, blocks = aborted(grower, library, how, tmp_path)
    core = heap_core.Core(str(path))
    assert len(blocks) == {"grow": 60000, "shrink": 3}.get(how, 30003)
    for block in blocks:
        content = core.read(block["address"], block["bytes"])
        assert content == bytes([block["bytes"] >> 10 & 0xFF | 1]) * block["bytes"], block


@by_kernel
def test_the_kernels_file_has_what_is_resident(library: Path, grower: Path, tmp_path: Path) -> None:
    path, _blocks = aborted(grower, library, "shrink", tmp_path)
    about = path.stat()
    assert about.st_size < 24 * MIB, "of 64 MiB that were used, and more that is reserved, 3 blocks are left"
    assert about.st_blocks * 512 < 8 * MIB


def test_gcores_file_has_what_is_resident(library: Path, grower: Path, tmp_path: Path) -> None:
    """gdb writes all anonymous mappings in full, reserved ones too, unless they are left out."""
    with subprocess.Popen([grower, "shrink", "wait"], env=environment(library), stdout=subprocess.PIPE, text=True) as process:
        try:
            while (line := process.stdout.readline()) != "ready\n":
                assert line != "", "the program has ended"
            length = gcored(process.pid, tmp_path).stat().st_size
        finally:
            process.kill()
    assert length < 24 * MIB


def test_mappings_are_named(library: Path, grower: Path, tmp_path: Path) -> None:
    """Kernels without names answer EINVAL to the first call, and no call follows. strace makes it succeed."""
    options = ["-f", "-qq", "-e", "trace=prctl", "-e", "signal=none", "-o", tmp_path / "trace"]
    words = ["env", f"LD_PRELOAD={library}", grower, "shrink", "abort"]
    subprocess.run([required("strace"), *options, "-e", "inject=prctl:retval=0", *words], check=False, capture_output=True, timeout=TIMEOUT_SECONDS)
    text = (tmp_path / "trace").read_text()
    calls = re.findall(r'PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0x[0-9a-f]+, (\d+), "([^"]+)"', text)
    assert {name for _length, name in calls} == {"hakozuna: blocks", "hakozuna: tables"}
    lengths = [int(length) for length, name in calls if name == "hakozuna: blocks"]
    assert 64 * MIB in lengths, "a whole reservation is named; what is mapped anew in it later is named again, so that it stays one mapping"
    subprocess.run([required("strace"), *options, "-e", "inject=prctl:error=EINVAL", *words], check=False, capture_output=True, timeout=TIMEOUT_SECONDS)
    assert (tmp_path / "trace").read_text().count("PR_SET_VMA_ANON_NAME") == 1


# ---- a debugger that calls malloc ------------------------------------------------------------------

# A thread that has the lock of a shard stays where it is, while the first thread is made to allocate. None of the others
# may have stopped in the arena, whose lock the call cannot do without.
CALLER = """
import re
import gdb
def is_in_arena(thread):
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        if re.search("arena|region|segment|hz_os_", frame.name() or ""):
            return True
        frame = frame.older()
    return False
for line in ("set pagination off", "set confirm off", "set breakpoint pending on", "break all_are_ready", "run", "delete",
             "break hz_page_create_locked"):
    gdb.execute(line)
is_alone = False
while not is_alone:
    gdb.execute("continue")
    holder = gdb.selected_thread()
    is_alone = not any(is_in_arena(thread) for thread in gdb.selected_inferior().threads() if thread.num != holder.num)
    holder.switch()
gdb.execute("delete")
gdb.execute("set scheduler-locking on")
print("held in", gdb.selected_frame().name(), "by", gdb.selected_thread().num)
gdb.execute("thread 1")
for size in SIZES:
    gdb.execute(f"print (long)malloc({size}) > 0")
    print("allocated", size)
gdb.execute("kill")
"""


@pytest.mark.deep
def test_malloc_that_a_debugger_calls(library: Path, tmp_path: Path) -> None:
    program = compile_c("held_lock.c", tmp_path / "held_lock")
    sizes = (200 if "hz4" in library.name else 100, 3000, 40000)  # home classes wait for their own shard: up to 128 bytes in hz4
    (tmp_path / "caller.py").write_text(CALLER.replace("SIZES", repr(sizes)))
    wrapper = f"set exec-wrapper env LD_PRELOAD={library} HAKOZUNA_BACKGROUND=0"  # no keeper stops with a lock either
    words = ["-q", "-nx", "-batch", "-ex", wrapper, "-x", tmp_path / "caller.py", program]
    one_cpu = [required("taskset"), "-c", str(min(os.sched_getaffinity(0)))]
    run = subprocess.run([*one_cpu, required("gdb"), *words], env=clean_environment(), check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert re.search("held in hz_page_create_locked by [2-9]", run.stdout), run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if line.startswith("allocated")] == [f"allocated {size}" for size in sizes]
