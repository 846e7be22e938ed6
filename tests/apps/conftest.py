"""The session of tests/apps: which libraries, where the programs run, and what the results are kept in.

HZ_LIB_DIR is a folder of libraries, HZ_LANES the lanes to run ('all', or names as in docs/lanes.md, or glibc), HZ_BUILD
the build they come from. Results go to build/apps.json, beside those of earlier runs; `page.py` makes tests/apps/README.md of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("services", "servers", "preloading")  # so that a failed assertion there shows its values

import page
from programs import PROGRAMS
from runner import Outcome, Program, Stage, baseline_problems, glibc, libraries_in, problems, version_of, write_data

ROOT = Path(__file__).resolve().parents[2]
# The check build verifies its state after each change of it.
TIMEOUT_FACTORS = {"check": 8, "clang-check": 8}


def build_name() -> str:
    return os.environ.get("HZ_BUILD", "release")


def libraries() -> dict[str, Path]:
    """The libraries to run, by lane."""
    folder = Path(os.environ.get("HZ_LIB_DIR", ROOT / "build/lib")).resolve()
    try:
        return libraries_in(folder, os.environ.get("HZ_LANES", "all").split())
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def chosen_programs() -> list[object]:
    """The programs of the table that this build runs, each with each of its profiles as parameters of a test."""
    programs = [program for program in PROGRAMS if program.check or build_name() not in TIMEOUT_FACTORS]
    slow = pytest.mark.skipif(os.environ.get("HZ_SLOW") != "1", reason="slow; HZ_SLOW=1 runs it")
    return [
        pytest.param(program, under, id=f"{program.name}-{under}" if under else program.name, marks=[slow] if program.slow else [])
        for program in programs
        for under in program.under
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        metafunc.parametrize(("program", "under"), chosen_programs())


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A folder that other users can enter, since some servers change their user; with the input of the programs."""
    folder = Path(tempfile.mkdtemp(prefix="hz-apps-"))
    folder.chmod(0o755)
    write_data(folder / "data")
    for lane, library in libraries().items():
        (folder / lane).mkdir()
        shutil.copy(library, folder / lane)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def judge(base: Path, record_property: Callable[[str, object], None]) -> Callable[[Program, str], list[str]]:
    """Runs a program under a profile with glibc, then with each library. Returns what is wrong, for all of them."""

    def run(program: Program, under: str) -> list[str]:
        stage = Stage(base, program, TIMEOUT_FACTORS.get(build_name(), 1), under)
        baseline = stage.run(glibc())
        wrong = baseline_problems(program, baseline)
        assert not wrong, "under glibc: " + "\n".join(wrong)
        found = []
        for lane, library in libraries().items():
            outcome = stage.run(library if library == glibc() else base / lane / library.name)
            wrong = problems(program, baseline, outcome)
            found += [f"under {lane}: {text}" for text in wrong]
            row = {
                "program": program.name, "under": under, "version": version_of(program), "lane": lane, "build": build_name(),
                "result": "wrong" if wrong else "ok", "glibc_seconds": baseline.cpu_seconds, "seconds": outcome.cpu_seconds,
            }  # fmt: skip
            if library != glibc():
                record_property("app", row)
        shutil.rmtree(stage.folder, ignore_errors=True)
        return found

    return run


ROWS: list[dict[str, object]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        ROWS.extend(value for name, value in report.user_properties if name == "app")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or not ROWS:
        return
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    path = ROOT / "build/apps.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for row in ROWS:
        kept[f"{row['program']} {row['under']} {row['lane']} {row['build']}"] = row | {"commit": commit, "machine": page.machine()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
