"""Checks the Promela models beside this file with spin: each holds as it is, and each planted bug is found."""

import pathlib
import re
import subprocess

import pytest

MODELS = pathlib.Path(__file__).resolve().parent
BUG = re.compile(r"^ \*   (BUG_[A-Z_]+) ", re.MULTILINE)


def bugs_of(model: str) -> list[str]:
    """The bugs that a model's head describes."""
    return BUG.findall((MODELS / model).read_text())


def models() -> list[str]:
    return sorted(path.name for path in MODELS.glob("*.pml"))


def verify(model: str, folder: pathlib.Path, *bugs: str) -> tuple[int, str]:
    """Searches all states of a model. Returns the number of errors and the output of spin's program."""
    run = {"cwd": folder, "check": True, "capture_output": True, "text": True}
    subprocess.run(["spin", *(f"-D{bug}" for bug in bugs), "-a", MODELS / model], **run)
    subprocess.run(["cc", "-w", "-DSAFETY", "-o", "pan", "pan.c"], **run)
    printed = subprocess.run(["./pan", "-m1000000"], **run).stdout
    assert "max search depth too small" not in printed
    assert "Search not completed" not in printed or bugs, printed
    return int(re.search(r"errors: (\d+)", printed)[1]), printed


@pytest.mark.parametrize("model", models())
def test_holds(model, tmp_path):
    errors, printed = verify(model, tmp_path)
    assert errors == 0, printed
    assert int(re.search(r"(\d+) states, stored", printed)[1]) > 1000, printed


@pytest.mark.parametrize(("model", "bug"), [(model, bug) for model in models() for bug in bugs_of(model)])
def test_bug_is_found(model, bug, tmp_path):
    errors, printed = verify(model, tmp_path, bug)
    assert errors > 0, printed


@pytest.mark.parametrize("model", models())
def test_bugs_are_described(model):
    used = set(re.findall(r"#ifn?def (BUG_[A-Z_]+)", (MODELS / model).read_text()))
    assert used == set(bugs_of(model)) != set()
