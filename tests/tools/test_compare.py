"""tools/compare tells a slow allocator from a fast one, and what did not run from what did."""

import csv
import os
import pathlib
import subprocess
import sys

import pytest
from compare import allocators, report, rows
from compare.machine import CpuTimes
from compare.project import ROOT, public_path, public_text
from workload_programs import NAMES, build_library, build_workloads

COMPARE = ROOT / "tools" / "compare"

SLOW = """
#include "next.h"
void *malloc(size_t size) {
    for (volatile int i = 0; i < 2000; i++) { }
    return next_malloc(size);
}
"""
# What makes a library one of ours is its configuration string.
OURS = """
#include "next.h"
const char *hz_config_string(void) { return "engine=test lane=none"; }
void *malloc(size_t size) { return next_malloc(size); }
"""
CRASHES = """
#include "next.h"
#include <signal.h>
void *malloc(size_t size) {
    static _Thread_local int calls;
    if (size == 1024 && ++calls == 100) raise(SIGSEGV);
    return next_malloc(size);
}
"""
FLIPS = """
#include "next.h"
void *malloc(size_t size) {
    static _Thread_local unsigned char *last;
    static _Thread_local int calls;
    if (size == 1024 && ++calls == 100) last[size - 1] ^= 1;
    unsigned char *block = next_malloc(size);
    if (size == 1024) last = block;
    return block;
}
"""
HANGS = """
#include "next.h"
void *malloc(size_t size) {
    while (size == 1024) { }
    return next_malloc(size);
}
"""
NO_MALLOC = "int nothing_to_see_here(void) { return 1; }\n"
DIES_WHEN_ASKED = """
#include "next.h"
const char *hz_config_string(void) { return NULL; }
void *malloc(size_t size) { return next_malloc(size); }
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build_workloads(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    directory = tmp_path_factory.mktemp("libraries")
    codes = {
        "slow": SLOW,
        "ours": OURS,
        "crashes": CRASHES,
        "flips": FLIPS,
        "hangs": HANGS,
        "no_malloc": NO_MALLOC,
        "dies": DIES_WHEN_ASKED,
    }
    found = {name: build_library(directory / f"lib{name}.so", code) for name, code in codes.items()}
    found["text"] = directory / "libtext.so"
    found["text"].write_text("this is no shared library\n")
    return found


class Comparison:
    """One call of tools/compare, in a directory of its own."""

    def __init__(self, programs: pathlib.Path, results: pathlib.Path):
        self.programs = programs
        self.results = results
        self.env = dict(os.environ)

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        places = ["--bin-dir", str(self.programs), "--results-dir", str(self.results)]
        command = [sys.executable, str(COMPARE), *places, "--force", *args]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=300, check=False)

    def raw(self) -> list[dict[str, str]]:
        (file,) = self.results.glob("compare-*.csv")
        with file.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))


@pytest.fixture
def compare(programs: pathlib.Path, tmp_path: pathlib.Path) -> Comparison:
    return Comparison(programs, tmp_path / "results")


def table_line(out: str, row: str) -> dict[str, str]:
    """The cells of a row in the first Markdown table that has it, by column title."""
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line[:1] == "|"]
    titles = table[0]
    (cells,) = [cells for cells in table if cells[0].split()[0] == row and len(cells) == len(titles)][:1]
    return dict(zip(titles, cells, strict=True))


def test_slow_allocator_loses(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    done = compare(
        "--rows", "args-16-2048", "--allocators", "glibc", "--lib", f"slow={libraries['slow']}",
        "--lib", f"ours={libraries['ours']}", "--rounds", "3", "--scale", "0.003",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = table_line(done.stdout, "args-16-2048")
    assert cells["glibc"].startswith("**")
    assert not cells["slow"].startswith("**")
    values = {name: [float(run["value"]) for run in compare.raw() if run["allocator"] == name] for name in cells}
    assert max(values["slow"]) * 3 < min(values["glibc"])
    # ours is glibc with another name: about as fast as the best peer, which is glibc and not the slow one
    assert 0.1 < float(cells["ours / best peer"]) < 10
    assert 0.5 < float(cells["ours RSS / leanest peer"]) < 2
    assert "ours: engine=test lane=none" in done.stdout


def test_seconds_rows_prefer_less(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    slow = libraries["ours"].with_name("libslower.so")
    build_library(slow, OURS.replace("return next", "for (volatile int i = 0; i < 200000; i++) { } return next"))
    done = compare(
        "--rows", "cache-thrash-2", "--allocators", "glibc", "--lib", f"ours={slow}", "--scale", "0.0001",
        "--rounds", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = table_line(done.stdout, "cache-thrash-2")
    assert cells["unit"] == "s"
    assert float(cells["ours / best peer"]) < 0.5


def test_csv_is_complete(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    done = compare(
        "--rows", "args-16-256,mt-t2-*", "--allocators", "glibc", "--lib", f"ours={libraries['ours']}",
        "--rounds", "2", "--scale", "0.001", "--seed", "77",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "seed 77" in done.stderr
    raw = compare.raw()
    cells = {(run["row"], run["allocator"], run["round"]) for run in raw}
    names = ["args-16-256", "mt-t2-r0", "mt-t2-r50", "mt-t2-r90"]
    assert cells == {(row, name, turn) for row in names for name in ("glibc", "ours") for turn in "12"}
    assert [int(run["position"]) for run in raw] == list(range(1, 17))
    may_be_empty = {"failure", "other_cpu_share", "library", "library_sha256", "config"}
    for run in raw:
        assert set(run) == set(report.COLUMNS)
        assert not [column for column in report.COLUMNS if column not in may_be_empty and run[column] == ""]
        assert (run["status"], run["failure"], run["seed"], run["scale"]) == ("ok", "", "77", "0.001")
        assert float(run["value"]) > 0
        assert 0 < int(run["final_rss_kb"]) <= int(run["peak_rss_kb"])
        preload = "LD_PRELOAD=libours.so " if run["allocator"] == "ours" else ""
        assert run["command"].startswith(f"{preload}bench_random_mixed_m")
        assert run["config"] == ("engine=test lane=none" if run["allocator"] == "ours" else "")
        assert len(run["library_sha256"]) == (64 if run["allocator"] == "ours" else 0)
        assert str(compare.programs) not in ",".join(run.values())


def test_order_is_shuffled_by_the_seed(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    orders = []
    for turn, seed in enumerate(("1", "1", "2")):
        compare = Comparison(programs, tmp_path / str(turn))
        done = compare("--rows", "args-*", "--allocators", "glibc", "--rounds", "3", "--scale", "1e-6", "--seed", seed)
        assert done.returncode == 0, done.stderr
        orders.append([run["row"] for run in compare.raw()])
    assert orders[0] == orders[1] != orders[2]
    first_rounds = [orders[0][at : at + 4] for at in (0, 4, 8)]
    assert all(sorted(order) == sorted(first_rounds[0]) for order in first_rounds)
    assert len({tuple(order) for order in first_rounds}) > 1


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        ("crashes", "killed by SIGSEGV"),
        ("flips", "exit code 1: bench_random_mixed_malloc_args: content check failed: block 0x"),
        ("text", "the preload took no effect: malloc comes from libc.so.6: ERROR: ld.so: object 'libtext.so'"),
        ("no_malloc", "the preload took no effect: malloc comes from libc.so.6"),
    ],
)
def test_failed_runs_are_told(
    compare: Comparison, libraries: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch, library: str, reason: str
) -> None:
    done = compare(
        "--rows", "args-200k-live", "--allocators", "glibc", "--lib", f"bad={libraries[library]}", "--rounds", "2",
        "--scale", "0.0001",
    )  # fmt: skip
    assert done.returncode == 1
    cells = table_line(done.stdout, "args-200k-live")
    assert cells["bad"] == "FAILED 2/2"
    assert cells["glibc"].startswith("**")
    assert f"args-200k-live, bad: {reason}" in done.stdout
    for run in compare.raw():
        assert run["status"] == ("FAILED" if run["allocator"] == "bad" else "ok")
        assert run["failure"].startswith(reason if run["allocator"] == "bad" else "")
        assert (run["value"] == "") == (run["allocator"] == "bad")


def test_run_without_end_is_ended(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    done = compare(
        "--rows", "args-200k-live", "--allocators", "", "--lib", f"bad={libraries['hangs']}", "--rounds", "1",
        "--scale", "0.0001", "--timeout", "0.5",
    )  # fmt: skip
    assert done.returncode == 1
    assert "args-200k-live, bad: no end after 0.5 s (1 runs)" in done.stdout


def test_unanswered_configuration_does_not_make_a_peer(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    done = compare(
        "--rows", "args-16-256", "--allocators", "glibc", "--lib", f"ours={libraries['dies']}", "--rounds", "1",
        "--scale", "0.0001",
    )  # fmt: skip
    assert "ours / best peer" in table_line(done.stdout, "args-16-256")
    assert "ours: unknown: asking hz_config_string ended with exit code" in done.stdout


def test_callers_settings_do_not_reach_the_workload(compare: Comparison, libraries: dict[str, pathlib.Path]) -> None:
    """An LD_PRELOAD or GLIBC_TUNABLES of the shell would decide the glibc row."""
    compare.env["LD_PRELOAD"] = str(libraries["ours"])
    done = compare("--rows", "args-16-256", "--allocators", "glibc", "--rounds", "1", "--scale", "0.0001")
    assert done.returncode == 0, done.stdout


def test_markdown_goes_between_the_markers(compare: Comparison, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Benchmarks\n\nbefore\n\n{report.BEGIN}\nold table\n{report.END}\n\nafter\n")
    options = ("--rows", "larson-2", "--allocators", "glibc", "--rounds", "1", "--scale", "0.001")
    done = compare(*options, "--markdown", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith(f"# Benchmarks\n\nbefore\n\n{report.BEGIN}\n")
    assert text.endswith(f"{report.END}\n\nafter\n")
    assert "old table" not in text
    assert done.stdout in text
    assert "Fewer than 5 rounds: do not quote these figures." in text
    report.markdown_check(page)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--rows", "args-16-265"], "no row is called 'args-16-265'; rows: args-16-256, args-16-2048,"),
        (["--rows", "mt-*,zz*"], "no row is called 'zz*'; rows: "),
        (["--rows", ""], "no row is called ''; rows: "),
        (["--allocators", "glib"], "no allocator is called 'glib'; here: glibc"),
        (["--lib", "x"], "'x' is not NAME=PATH"),
        (["--lib", "x=/nowhere/libx.so"], "allocator x: cannot read '/nowhere/libx.so': No such file or directory"),
        (["--lib", "x=/tmp/a b.so"], "allocator x: '/tmp/a b.so' has a blank or colon"),
        (["--rounds", "0"], "0 is not in the range 1<=x<=1000"),
        (["--scale", "0"], "0.0 is not in the range 0<x<=1000"),
        (["--markdown", "/nowhere/page.md"], "--markdown: no directory '/nowhere'"),
        (["--markdown", str(ROOT / "LICENSE")], f"LICENSE' needs one line '{report.BEGIN}'"),
        (["--bin-dir", "/nowhere"], "no program 'bench_random_mixed_malloc_args'; 'make build-release' builds"),
    ],
)
def test_bad_arguments(compare: Comparison, args: list[str], message: str) -> None:
    done = compare("--allocators", "glibc", *args)
    assert done.returncode == 2
    # click draws its messages in lines of the terminal's width
    assert message in done.stderr.replace("\n", " "), done.stderr
    assert not list(compare.results.glob("*"))


def test_busy_machine_is_refused(programs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    spinner = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(spinner) for _ in os.sched_getaffinity(0)]
    places = ["--bin-dir", str(programs), "--results-dir", str(tmp_path)]
    options = ["--rows", "args-16-256", "--allocators", "glibc", "--rounds", "1", "--scale", "0.0001"]
    command = [sys.executable, str(COMPARE), *places, *options]
    try:
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        forced = subprocess.run([*command, "--force"], capture_output=True, text=True, timeout=60, check=False)
    finally:
        for process in spinners:
            process.kill()
            process.wait()
    assert refused.returncode == 2
    assert "the machine is busy: " in refused.stderr
    assert "allowed are 10%" in refused.stderr
    assert forced.returncode == 0
    assert "NOT A QUIET MACHINE: " in forced.stdout


def test_list_names_all_rows(compare: Comparison) -> None:
    done = compare("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [row.name for row in rows.ROWS]


def test_every_row_runs(compare: Comparison) -> None:
    """Arguments of the built-in rows are ones that the workloads take."""
    done = compare("--allocators", "glibc", "--rounds", "1", "--scale", "0.001")
    assert done.returncode == 0, done.stdout
    assert {run["row"] for run in compare.raw()} == {row.name for row in rows.ROWS}
    assert {row.workload for row in rows.ROWS} == set(NAMES)


def test_own_libraries_are_found_by_lane(
    libraries: dict[str, pathlib.Path], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocators, "LIB_DIR", tmp_path)
    with pytest.raises(ValueError, match=r"no allocator is called 'hz3_scale'.*; no libhakozuna_\*.so in"):
        allocators.select("hz3_scale", {})
    (tmp_path / "libhakozuna_hz3_scale.so").write_bytes(libraries["ours"].read_bytes())
    (tmp_path / "libhakozuna.so").write_bytes(libraries["ours"].read_bytes())
    found, _ = allocators.select(None, {})
    assert [allocator.name for allocator in found if allocator.is_ours] == ["hz3_scale"]
    assert found[0].name == "glibc"


def test_shares_of_the_machine() -> None:
    before = CpuTimes(100.0, 1000.0)
    after = CpuTimes(103.0, 1010.0)
    assert after.share_since(before) == pytest.approx(0.3)
    assert after.share_since(before, own_seconds=2.0) == pytest.approx(0.1)
    assert after.share_since(before, own_seconds=5.0) == 0.0
    assert CpuTimes(100.1, 1000.2).share_since(before) is None


def test_no_path_of_this_machine_in_results() -> None:
    assert public_path(ROOT / "build" / "lib" / "libx.so") == "build/lib/libx.so"
    assert public_path(pathlib.Path("/usr/lib/liby.so.2")) == "/usr/lib/liby.so.2"
    assert public_path(pathlib.Path("/opt/elsewhere/libz.so")) == "libz.so"
    outside = pathlib.Path("/opt/elsewhere/libz.so")
    assert public_text(f"'{outside}' and {ROOT}/build/x", outside) == "'libz.so' and build/x"
