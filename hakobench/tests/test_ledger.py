"""The ledger: its rows repeat, its budget is compared, a slowdown of 3 % is found, and its history is searched."""

import dataclasses
import pathlib
import shutil
import subprocess

import click.testing
import pytest
from preloads import NO_MALLOC, slow
from workload_programs import build_library

from hakobench import allocators, commits
from hakobench.commands import counts
from hakobench.counts import history, ledger
from hakobench.project import BIN_DIR, LIB_DIR

COST = ledger.Cost(instructions=100.0, locked=0.5, l1_misses=1.0, ll_misses=0.1, calls=0.01)
ROW = "loop-16-256"
needs_valgrind = pytest.mark.skipif(bool(ledger.missing()), reason=ledger.missing() or "-")


def counted(row: str = "row", lane: str = "lane", **costs: float) -> ledger.Counted:
    return ledger.Counted(row, lane, "", dataclasses.replace(COST, **costs), 1000)


def run(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(counts.command, words)


def library(folder: pathlib.Path, loops: int) -> pathlib.Path:
    return build_library(folder / f"slow{loops}.so", slow(loops))


# ---- the budget ----


def test_a_budget_is_read_as_it_is_written(tmp_path: pathlib.Path) -> None:
    budget = {("a-row", "hz3"): COST, ("b", "hz4_home"): dataclasses.replace(COST, locked=0.125)}
    path = tmp_path / "budget.txt"
    path.write_text(ledger.budget_text(budget, "# why"))
    assert ledger.budget_read(path) == budget
    assert path.read_text().startswith("# why\n# row ")


@pytest.mark.parametrize("line", ["row lane 1 2 3 4", "row lane 1 2 3 4 5 6", "row lane 1 2 x 4 5", "row"])
def test_a_wrong_line_is_named(line: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "budget.txt"
    path.write_text(f"# comment\n{line}\n")
    with pytest.raises(ValueError, match="budget.txt:2: a line is ROW LANE INSTRUCTIONS LOCKED"):
        ledger.budget_read(path)


@pytest.mark.parametrize(
    ("costs", "found"),
    [
        ({}, []),
        ({"instructions": 101.9}, []),
        ({"instructions": 103.0}, ["row lane: instructions 100.000 -> 103.000 (+3.0%)"]),
        ({"instructions": 97.0}, ["row lane: instructions 100.000 -> 97.000 (-3.0%)"]),
        ({"locked": 0.515}, ["row lane: locked 0.500 -> 0.515 (+3.0%)"]),
        ({"ll_misses": 0.11}, []),  # too few to tell
        ({"calls": 0.02}, ["row lane: calls 0.010 -> 0.020 (+100.0%)"]),
    ],
)
def test_a_change_above_two_per_cent_is_found(costs: dict[str, float], found: list[str]) -> None:
    assert [change.text() for change in ledger.changes({("row", "lane"): COST}, [counted(**costs)])] == found


def test_failures_and_unknown_rows_are_no_changes() -> None:
    cells = [ledger.Counted("row", "lane", "it broke"), counted("other")]
    assert ledger.changes({("row", "lane"): COST}, cells) == []


# ---- real counts ----


@needs_valgrind
@pytest.mark.parametrize("row", [ROW, "ring-T4-R90"])
def test_counts_repeat(row: str) -> None:
    ours = allocators.load("ours", next(iter(sorted(LIB_DIR.glob("libhakozuna_hz3_scale.so")))))
    first, second = (ledger.count(row, ours) for _ in range(2))
    assert first.failure == second.failure == ""
    assert first.ops == second.ops > 1000
    assert second.cost.instructions == pytest.approx(first.cost.instructions, rel=0.001)
    assert second.cost.locked == pytest.approx(first.cost.locked, rel=0.001, abs=0.001)


@needs_valgrind
def test_a_planted_slowdown_of_three_per_cent_fails(tmp_path: pathlib.Path) -> None:
    """The budget is that of an allocator; another one takes three instructions more for a hundred."""
    budget = tmp_path / "budget.txt"
    before, after = library(tmp_path, 60), library(tmp_path, 63)
    written = run("--ledger", "--rows", ROW, "--lib", f"one={before}", "--allocators", "", "--budget", str(budget), "--write-budget")
    assert written.exit_code == 0, written.output
    cost = ledger.budget_read(budget)[ROW, "one"]
    same = run("--ledger", "--rows", ROW, "--lib", f"one={before}", "--allocators", "", "--budget", str(budget))
    assert same.exit_code == 0, same.output
    slower = run("--ledger", "--rows", ROW, "--lib", f"one={after}", "--allocators", "", "--budget", str(budget))
    assert slower.exit_code == 1
    assert f"{ROW} one: instructions {cost.instructions:.3f} -> " in slower.output
    now = ledger.count(ROW, allocators.load("one", after)).cost
    assert 1.03 < now.instructions / cost.instructions < 1.04


@needs_valgrind
def test_a_row_that_fails_is_told(tmp_path: pathlib.Path) -> None:
    broken = build_library(tmp_path / "no.so", NO_MALLOC)
    done = run("--ledger", "--rows", ROW, "--lib", f"none={broken}", "--allocators", "")
    assert done.exit_code == 1
    assert f"failed: none, {ROW}: " in done.output


def test_an_unknown_row_is_named() -> None:
    if ledger.missing():
        pytest.skip(ledger.missing())
    done = run("--ledger", "--rows", "nothing-*", "--allocators", "glibc")
    assert done.exit_code == 2
    assert "no row of the ledger is called 'nothing-*'; there are: loop-16-64" in done.output


def test_the_rows_run_without_valgrind() -> None:
    """So what is counted does not depend on the simulation."""
    if not (BIN_DIR / ledger.PROGRAM).is_file():
        pytest.skip("the workloads are not built")
    done = subprocess.run([BIN_DIR / ledger.PROGRAM, f"--row={ROW}"], capture_output=True, text=True, check=False)
    assert (done.returncode, "still=no" in done.stdout, "ops=20000" in done.stdout) == (0, True, True)
    wrong = subprocess.run([BIN_DIR / ledger.PROGRAM, "--row=no-row"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no-row" in wrong.stderr


@pytest.mark.parametrize("words", [["--budget", "x"], ["--write-budget"], ["--ours"], ["--ledger", "--write-budget"], ["--ledger", "--ours", "--allocators", "glibc"]])
def test_options_that_do_not_fit(words: list[str]) -> None:
    assert run(*words).exit_code == 2


# ---- the history ----

COMMITS = [(f"{number:040x}", f"change {number}") for number in range(64)]


def costs_of(commit: str, jumps: dict[int, float]) -> history.Costs:
    number, instructions = int(commit, 16), 100.0
    for at, factor in jumps.items():
        instructions *= factor if number >= at else 1.0
    return {"row": dataclasses.replace(COST, instructions=instructions), "flat": COST}


def test_the_search_ends_at_the_commits_that_changed_a_row() -> None:
    jumps = {17: 1.5, 40: 0.9, 41: 1.3}
    asked: list[str] = []

    def count(commit: str) -> history.Costs:
        asked.append(commit)
        return costs_of(commit, jumps)

    points = history.search(COMMITS, count, most=30)
    found = [(int(step.commit, 16), round(step.after / step.before, 3), step.between) for step in history.steps(points)]
    assert found == [(17, 1.5, 1), (40, 0.9, 1), (41, 1.3, 1)]
    assert len(asked) == len(set(asked)) <= 30


def test_commits_that_do_not_build_are_passed_over() -> None:
    points = history.search(COMMITS, lambda commit: None if int(commit, 16) in (0, 31, 32, 63) else costs_of(commit, {32: 2.0}), most=40)
    step = history.steps(points)
    assert [(int(one.commit, 16), one.between) for one in step] == [(33, 3)]
    assert "one of 3 up to" in step[0].text()


def test_no_more_than_asked_for_are_counted() -> None:
    asked: list[str] = []
    history.search(COMMITS, lambda commit: asked.append(commit) or costs_of(commit, {number: 1.1 for number in range(64)}), most=7)
    assert len(asked) == 7


def test_the_picture_names_rows_and_commits(tmp_path: pathlib.Path) -> None:
    points = history.search(COMMITS, lambda commit: costs_of(commit, {17: 1.5}), most=12)
    history.draw(points, ["row", "flat"], tmp_path / "history.svg")
    text = (tmp_path / "history.svg").read_text()
    assert all(word in text for word in ("row", "flat", "1.50", COMMITS[17][0][:9]))


def test_commits_between_are_those_that_change_a_library() -> None:
    if shutil.which("git") is None or subprocess.run(["git", "rev-parse", "HEAD~30"], capture_output=True, check=False).returncode != 0:
        pytest.skip("not in a repository with a history")
    first = commits.resolve("HEAD~30")
    listed = history.commits_between(first, commits.resolve("HEAD"))
    assert listed[0][0] == first
    assert len(listed) <= 31
