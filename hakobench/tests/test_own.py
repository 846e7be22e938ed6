"""`hakobench run -- PROGRAM`: a program of the caller's, in his folder, without a suite's file."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from preloads import OURS
from rich.console import Console
from workload_programs import build_library

from hakobench import record, statistics, suite, summary
from hakobench.commands import run as run_command
from hakobench.drivers import app
from hakobench.project import BIN_DIR, ROOT
from hakobench.trace import advice, replays

NO_PROGRAM = app.missing_program(app.MEASURE_CHILD, BIN_DIR)
pytestmark = pytest.mark.skipif(NO_PROGRAM != "", reason=NO_PROGRAM)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build_library(tmp_path_factory.mktemp("library") / "libours.so", OURS)


def call(folder: pathlib.Path, library: pathlib.Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in `folder`, under glibc and a library that calls itself ours."""
    options = ["--force", "--allocators", "glibc", "--lib", f"mine={library}"]
    command = [sys.executable, "-m", "hakobench", "run", *options, *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "hakobench/src")} | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def runs_of(called: subprocess.CompletedProcess[str]) -> list[record.Run]:
    return record.read(pathlib.Path(called.stdout.splitlines()[-1])).runs


def python(folder: pathlib.Path, text: str) -> tuple[str, ...]:
    """The words that run a script, which lies in the folder and is named as the caller would name it."""
    (folder / "script.py").write_text(text)
    return ("--", sys.executable, "script.py", "--rounds", "{work}")


def test_runs_where_and_as_the_caller_does(tmp_path, library):
    text = """import os, sys
assert sys.argv[1:] == ["--rounds", "{work}"], sys.argv
assert os.environ["MINE"] == "yes"
with open("runs", "a") as out:
    out.write(os.environ.get("LD_PRELOAD", "none") + "\\n")
"""
    words = ("--rounds", "2", "--export-json", "table.json", *python(tmp_path, text))
    called = call(tmp_path, library, *words, MINE="yes")
    assert called.returncode == 0, called.stdout + called.stderr
    runs = runs_of(called)
    assert [run.failure for run in runs] == [""] * 4
    assert (tmp_path / "hakobench-results") in pathlib.Path(called.stdout.splitlines()[-1]).parents
    preloads = (tmp_path / "runs").read_text().split()
    # two rounds and one warm-up each; a run under glibc to compare with comes at most once more
    assert preloads.count(str(library)) == 3
    assert len(preloads) - 3 in (3, 4)
    table = json.loads((tmp_path / "table.json").read_text())
    cells = table["rows"][0]["allocators"]
    assert set(cells) == {"glibc", "mine"}
    assert cells["mine"]["ours"] and len(cells["mine"]["values"]) == 2
    assert set(cells["mine"]["figures"]) == {"wall_seconds", "cpu_seconds", "peak_rss_kb"}


def test_a_program_that_prints_times_does_not_fail(tmp_path, library):
    called = call(tmp_path, library, "--rounds", "2", *python(tmp_path, "import time\nprint(time.monotonic_ns())\n"))
    assert called.returncode == 0, called.stdout
    assert any("unverified" in run.marks for run in runs_of(called))


def test_a_wrong_result_fails(tmp_path, library):
    text = "import os\nprint('libours' in os.environ.get('LD_PRELOAD', ''))\n"
    called = call(tmp_path, library, "--rounds", "2", *python(tmp_path, text))
    assert called.returncode == 1
    assert {run.allocator for run in runs_of(called) if run.failure} == {"mine"}
    assert "in two runs under glibc it is" in called.stdout


def test_discarded_output_is_not_compared(tmp_path, library):
    text = "import os, stat\nassert stat.S_ISCHR(os.fstat(1).st_mode)\nprint(os.environ.get('LD_PRELOAD'))\n"
    called = call(tmp_path, library, "--rounds", "2", "--output", "discard", *python(tmp_path, text))
    assert called.returncode == 0, called.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "it takes either a SUITE or '-- PROGRAM [ARGS]...'"),
        (("smoke", "--", "true"), "it takes either a SUITE or '-- PROGRAM [ARGS]...'"),
        (("--",), "'--' is not followed by a program"),
        (("--", "no-such-program"), "no program 'no-such-program'"),
        (("--", "./neither"), "no program './neither'"),
    ],
)
def test_bad_calls(tmp_path, library, words, message):
    called = call(tmp_path, library, *words)
    assert called.returncode == 2
    assert message in re.sub(r"\s+", " ", called.stderr)


def some_runs(count: int) -> list[record.Run]:
    """One good run of each of `count` allocators."""
    texts = {str: "x", int: 1, float: 1.0, bool: False}
    values = {name: texts.get(kind, 1.0) for name, kind in record._TYPES.items()}
    fixed = {"failure": "", "marks": "", "metric": "wall_seconds", "also": "", "other_cpu_share": 0.0}
    return [record.Run(**(values | fixed | {"allocator": f"allocator-{i}", "ours": i == 0})) for i in range(count)]


@pytest.mark.parametrize(("count", "is_folded"), [(6, False), (7, True)])
def test_a_table_of_many_allocators_folds_in_a_terminal(count, is_folded):
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))
    run_command.print_result(some_runs(count), console)
    text = console.export_text()
    assert ("/ best peer" in text) == is_folded
    if is_folded:
        assert all(f"allocator-{i} " in text for i in range(count)), "no name is cut off"


def test_an_interval_of_few_noisy_pairs_is_wide():
    noisy = [[0.0, 3.0, -3.0, 1.0, -2.0]]
    assert statistics.interval(noisy).is_wide
    assert statistics.interval([[0.1]]).is_wide
    assert not statistics.interval([[0.0, 0.01, -0.01, 0.0, 0.01, 0.0, 0.0]]).is_wide


def test_names_of_programs():
    assert suite.of_program(("/usr/bin/a b", "x"), discard=False).rows[0].name == "a-b"
    with pytest.raises(ValueError, match="is not the name of a program"):
        suite.of_program(("/",), discard=False)
    assert summary.as_json([]) == {"rows": []}


@pytest.mark.parametrize(
    ("budget", "once", "cells", "rounds", "repeat", "expected"),
    [
        (120, 0.001, 10, 7, 100, (7, 100)),
        (120, 0.1, 10, 7, 100, (7, 17)),
        (120, 2.0, 10, 7, 100, (6, 1)),
        (120, 1000.0, 10, 7, 100, (1, 1)),
        (120, 0.0, 10, 7, 10_000, (7, 10_000)),
    ],
)
def test_a_replay_fits_its_budget(budget, once, cells, rounds, repeat, expected):
    assert replays.fit(budget, once, cells, rounds, repeat) == expected


@pytest.mark.parametrize(
    ("program", "word"),
    [("python3", "PYTHONMALLOC"), ("/usr/bin/python3.11 x.py", "PYTHONMALLOC"), ("php8.2", "USE_ZEND_ALLOC"), ("perl", "Perl")],
)
def test_a_pool_of_the_program_is_named(program, word):
    assert [word in remark for remark in advice.pool_remarks(program)] == [True]


def test_a_program_without_a_pool_has_no_remark():
    assert advice.pool_remarks("redis-server") == []


def test_under_a_profile_each_cell_runs_twice(tmp_path, library):
    """The profile holds where the name says so, and nowhere else; the command that is recorded repeats the run."""
    text = """import re
with open("/proc/self/status") as status, open("modes", "a") as out:
    out.write(re.search(r"Seccomp:.(\\d)", status.read())[1])
"""
    profile = tmp_path / "mine.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["uselib"], "action": "SCMP_ACT_ERRNO"}]}')
    called = call(tmp_path, library, "--rounds", "1", "--warmup", "0", "--under", str(profile), *python(tmp_path, text))
    assert called.returncode == 0, called.stdout + called.stderr
    runs = {run.allocator: run for run in runs_of(called)}
    assert set(runs) == {"glibc", "mine", "glibc+mine", "mine+mine"}
    modes = (tmp_path / "modes").read_text()  # perhaps with a run before the first that is not recorded
    assert modes.count("2") == 2 and modes.count("0") in (2, 3)
    assert runs["mine+mine"].command.startswith("python3 -m hakobench.seccomp ")
    assert re.search(r"without.*with.*ratio", called.stdout)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{}", "the profile has no 'defaultAction'"),
        ("{", "cannot read the profile"),
        ('{"defaultAction": "SCMP_ACT_MAYBE"}', "the profile has no 'MAYBE'"),
    ],
)
def test_a_bad_profile_is_named(tmp_path, library, content, what):
    (tmp_path / "bad.json").write_text(content)
    called = call(tmp_path, library, "--under", str(tmp_path / "bad.json"), *python(tmp_path, ""))
    assert called.returncode == 2
    assert what in called.stderr
    assert "neither a file nor a known profile" in call(tmp_path, library, "--under", "docker", *python(tmp_path, "")).stderr


def test_a_command_under_a_known_profile():
    command = [sys.executable, "-m", "hakobench.seccomp", "container", "unshare", "--user", "true"]
    called = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT / "hakobench/src")})
    assert called.returncode != 0 and "Operation not permitted" in called.stderr
