"""The table of README.md is what the raw results of suite first give, and tools/readme_figures.py names what it cannot use."""

import gzip
import pathlib
import shutil
import subprocess
import sys

import pytest
import readme_figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/readme_figures.py"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """The page and the results, the results unpacked."""
    (tmp_path / readme_figures.RESULTS).mkdir(parents=True)
    shutil.copy(ROOT / readme_figures.PAGE, tmp_path)
    results = readme_figures.newest(ROOT)
    text = gzip.decompress(results.read_bytes()) if results.suffix == ".gz" else results.read_bytes()
    (tmp_path / readme_figures.RESULTS / results.name.removesuffix(".gz")).write_bytes(text)
    return tmp_path


def results_of(tree: pathlib.Path) -> pathlib.Path:
    return next((tree / readme_figures.RESULTS).iterdir())


def test_the_table_is_what_the_results_give() -> None:
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_each_row_has_a_figure_of_each_allocator(tree: pathlib.Path) -> None:
    page = (tree / readme_figures.PAGE).read_text()
    lines = page.split(readme_figures.BEGIN)[1].split(readme_figures.END)[0].strip().splitlines()
    assert len(lines) == 2 + len(readme_figures.ROWS)
    assert all(len(line.strip("|").split("|")) == 1 + len(readme_figures.ALLOCATORS) for line in lines)


def test_a_changed_figure_is_seen_and_mended(tree: pathlib.Path) -> None:
    page = tree / readme_figures.PAGE
    before = page.read_text()
    at = before.index("|", before.index(readme_figures.ROWS[0].text)) + 2
    page.write_text(before[:at] + "9" + before[at:])
    done = run("--root", str(tree), "--check")
    assert done.returncode == 1 and "differs from bench/results/first-" in done.stderr
    assert run("--root", str(tree)).returncode == 0
    assert page.read_text() == before


def test_a_median_is_not_the_first_round(tree: pathlib.Path) -> None:
    """The figures come from the raw file: without its first round another table comes out."""
    results = results_of(tree)
    runs = readme_figures.record.read(results).runs
    row = readme_figures.ROWS[0]
    values = sorted(
        readme_figures.figure(run, *row.figures[0]) for run in runs if (run.row, run.allocator) == (row.name, "glibc")
    )
    assert len(values) >= 5
    assert readme_figures.cell(runs, row, "glibc").startswith(readme_figures.number(values[len(values) // 2]))


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("nothing", "must have the line '<!-- figures: begin -->' once"),
        (readme_figures.END + readme_figures.BEGIN, "must have the line"),
        (readme_figures.BEGIN * 2 + readme_figures.END, "must have the line"),
    ],
)
def test_a_page_without_its_marks_is_named(tree: pathlib.Path, page: str, message: str) -> None:
    (tree / readme_figures.PAGE).write_text(page)
    done = run("--root", str(tree))
    assert done.returncode == 2 and message in done.stderr
    assert (tree / readme_figures.PAGE).read_text() == page


def test_missing_results_are_named(tree: pathlib.Path) -> None:
    results_of(tree).unlink()
    done = run("--root", str(tree))
    assert done.returncode == 2 and "has no results of suite first" in done.stderr


def test_a_missing_allocator_is_named(tree: pathlib.Path) -> None:
    results = results_of(tree)
    results.write_text(results.read_text().replace("mimalloc", "otheralloc"))
    done = run("--root", str(tree))
    assert done.returncode == 2 and "pool under mimalloc: no runs" in done.stderr
