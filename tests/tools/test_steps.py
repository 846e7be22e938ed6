"""`make test` and `make test-deep` together run every test, and each test in one of them. `make test` also runs tests of a product
that has changed, which `make test-deep` runs anyway.

What runs is read from the commands that make would run for the steps of tests/steps.txt. CMake configures the presets that are
divided in a tree of links, and ctest and pytest list the tests that each command selects.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import NamedTuple

import pytest
import run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = run_tests.read_steps(ROOT)
# What no step runs, and why.
OTHER_PRESETS = {
    "stats": "release with counters, which check has too",
    "clang-release": "clang compiles the same sources in clang-check",
    "asan": "clang's runs",
    "clang-tsan": "gcc's runs",
}
SHORT_PRESETS = {"arm64": "under qemu-user all suites take an hour: `make arm64`", "riscv64": "the same"}
LIBRARY = "build/lib/libhakozuna.so"
# The tests of the products, other than programs under the preloaded libraries.
PRODUCTS = (("tests", "--ignore", "tests/preload", "--ignore", "tests/apps"), ("hakobench/tests",))
OTHER_FOLDERS = {"tests/apps": "programs that tools/setup apps installs: `make test-apps`"}
CTEST = re.compile(r"^ctest --preset (\S+)(.*)$", re.MULTILINE)
PYTEST = re.compile(r"(?:xargs .*)?HZ_LIB=(\S+) \S+ -m pytest ([^>|;\n]*)")
LANES = re.compile(r"printf '%s\\n' ([^|]*) \|")
NOT_FOR_COLLECTION = re.compile(r"(?:^| )-n \d+| --dist \w+| --no-loadscope-reorder")


class Selection(NamedTuple):
    """A command that runs tests."""

    tool: str  # ctest or pytest
    place: str  # the preset, or the library
    words: tuple[str, ...]  # the other words of the command


def commands_of(steps: list[run_tests.Step]) -> str:
    """What make would do."""
    goals = [goal for step in steps for goal in step.make]
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")}
    return subprocess.run(["make", "-n", *goals], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def selections(text: str) -> list[Selection]:
    """The commands in it that run tests, one for each lane."""
    found = [Selection("ctest", preset, tuple(re.sub(r"-j \d+", "", words).split())) for preset, words in CTEST.findall(text)]
    for line in text.splitlines():
        for library, words in PYTEST.findall(line):
            lanes = LANES.search(line)
            for lane in lanes[1].split() if lanes else [""]:
                name = pathlib.Path(library.replace("@", lane)).relative_to(ROOT).as_posix()
                found.append(Selection("pytest", name, tuple(shlex.split(NOT_FOR_COLLECTION.sub("", words)))))
    return found


def wrong_counts(everything: set[str], parts: list[list[str]]) -> list[str]:
    """The tests that no part has, or that run twice, or that are in a part alone."""
    counts = collections.Counter(name for part in parts for name in part)
    return sorted(f"{name}: runs {counts[name]} times" for name in everything | set(counts) if counts[name] != 1 or name not in everything)


@pytest.fixture(scope="module")
def selected() -> list[Selection]:
    return selections(commands_of([step for step in STEPS if not step.paths]))


@pytest.fixture(scope="module")
def linked_tree(tmp_path_factory) -> pathlib.Path:
    """The sources without builds, so that configuring disturbs nobody."""
    folder = tmp_path_factory.mktemp("tree")
    for path in ROOT.iterdir():
        if path.name not in ("build", ".git"):
            (folder / path.name).symlink_to(path)
    return folder


def list_ctest(tree: pathlib.Path, *words: str) -> list[str]:
    run = subprocess.run(["ctest", "--preset", *words, "-N"], cwd=tree, capture_output=True, text=True, check=True)
    return re.findall(r"^ +Test +#\d+: (\S+)$", run.stdout, re.MULTILINE)


def divided_presets(selected: list[Selection]) -> set[str]:
    """The configure presets whose tests more than one command runs, or a command with a filter."""
    whole = {selection.place for selection in selected if selection.tool == "ctest" and not selection.words}
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
    configured = {preset["name"]: preset.get("configurePreset") or preset["inherits"] for preset in presets}
    return {configured[selection.place] for selection in selected if selection.tool == "ctest" and configured[selection.place] not in whole}


def list_pytest(selection: Selection) -> subprocess.Popen:
    environment = {**os.environ, "HZ_LIB": str(ROOT / selection.place)}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *selection.words]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def selected_tests(listing: str) -> tuple[list[str], int]:
    """The tests that pytest lists, and how many there are with those that the command leaves out."""
    total = re.search(r"^(?:\d+/)?(\d+) tests? collected", listing, re.MULTILINE)
    assert total, listing
    return [line for line in listing.splitlines() if "::" in line], int(total[1])


def problems_of_parts(listings: list[str]) -> list[str]:
    """What is wrong with commands that are to run all tests of the same folders, each once."""
    parts, totals = zip(*(selected_tests(listing) for listing in listings))
    everything = {name for part in parts for name in part}
    missing = [f"{total - len(everything)} tests run nowhere" for total in set(totals) if total != len(everything)]
    return missing + wrong_counts(everything, list(parts))


def test_every_preset_is_run(selected):
    presets = set(re.search(r"^PRESETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split())
    named = {selection.place for selection in selected if selection.tool == "ctest"}
    divided = divided_presets(selected)
    assert divided >= set(SHORT_PRESETS)
    assert presets - named - divided == set(OTHER_PRESETS)
    assert "musl" in named


def test_every_ctest_test_runs_once(selected, linked_tree):
    presets = divided_presets(selected) - set(SHORT_PRESETS)
    assert presets == {"release", "check"}
    names = []
    for preset in sorted(presets):
        subprocess.run(["cmake", "--preset", preset, "--log-level=WARNING"], cwd=linked_tree, stdout=subprocess.DEVNULL, check=True)
        parts = [list_ctest(linked_tree, selection.place, *selection.words) for selection in selected if selection.place.startswith(preset)]
        assert len(parts) == 2 and all(parts)
        everything = list_ctest(linked_tree, preset)
        assert wrong_counts(set(everything), parts) == []
        names += [f"{preset}/{name}" for name in everything]
    for pattern in (line for line in (ROOT / "cmake/deep_tests.txt").read_text().splitlines() if not line.startswith("#")):
        assert any(re.search(pattern, name) for name in names), f"cmake/deep_tests.txt: no test is called {pattern}"


@pytest.fixture(scope="module")
def listings(selected) -> dict[Selection, str]:
    """What pytest lists for each command, also for those that wait for a change, and for all tests of the products."""
    waiting = selections(commands_of([step for step in STEPS if step.paths]))
    wholes = [Selection("pytest", LIBRARY, words) for words in PRODUCTS]
    wanted = [one for one in (*selected, *waiting, *wholes) if one.tool == "pytest" and not one.place.startswith("build/guard/")]
    processes = {selection: list_pytest(selection) for selection in wanted}
    return {selection: process.communicate()[0] for selection, process in processes.items()}


def names_of(listings: dict[Selection, str], chosen: list[Selection]) -> set[str]:
    return {name for selection in chosen for name in selected_tests(listings[selection])[0]}


def test_every_python_test_runs_once(selected, listings):
    texts = collections.defaultdict(list)
    for selection in selected:
        if selection in listings:
            texts[selection.place].append(listings[selection])
    lanes = re.search(r"^PRELOAD_LANES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    some = "build/lib/libhakozuna_hz3_percpu.so"  # programs with threads, once more
    assert set(texts) == {LIBRARY, some, *(f"build/lib/libhakozuna_{lane}.so" for lane in lanes)}
    assert all(selected_tests(text)[0] for text in texts.pop(some))
    everything = names_of(listings, [Selection("pytest", LIBRARY, words) for words in PRODUCTS])
    assert wrong_counts(everything, [selected_tests(text)[0] for text in texts.pop(LIBRARY)]) == []
    assert [problem for parts in texts.values() for problem in problems_of_parts(parts)] == []
    files = {path.relative_to(ROOT).as_posix() for folder in ("tests", "hakobench/tests") for path in (ROOT / folder).rglob("test_*.py")}
    left_out = {file for file in files if any(file.startswith(f"{folder}/") for folder in OTHER_FOLDERS)}
    assert left_out
    preloaded = {name for parts in texts.values() for part in parts for name in selected_tests(part)[0]}
    assert files - {name.partition("::")[0] for name in everything | preloaded} == left_out


def test_what_waits_for_a_change_runs_in_test_deep_anyway(listings):
    waiting = [step for step in STEPS if step.paths]
    assert {(step.target, step.name) for step in waiting} == {("test", "tools"), ("test", "hakobench")}
    names = names_of(listings, selections(commands_of(waiting)))
    deep = selections(commands_of([step for step in STEPS if step.target == "test-deep"]))
    assert len({name.partition("::")[0] for name in names}) > 30
    assert names - names_of(listings, [one for one in deep if one in listings]) == set()


def test_python_tests_that_run_twice_or_nowhere_are_noticed():
    quick, deep = "a.py::b\na.py::c\n\n2/3 tests collected (1 deselected) in 0.1s\n", "a.py::d\n\n1/3 tests collected (2 deselected) in 0.1s\n"
    assert problems_of_parts([quick, deep]) == []
    assert problems_of_parts([quick]) == ["1 tests run nowhere"]
    assert problems_of_parts([quick, deep.replace("1/3", "1/4")]) == ["1 tests run nowhere"]
    assert problems_of_parts([quick, deep.replace("d\n", "d\na.py::c\n", 1)]) == ["a.py::c: runs 2 times"]
    with pytest.raises(AssertionError):
        problems_of_parts([quick, "ERROR a.py\n"])


def test_tests_that_run_twice_or_nowhere_are_noticed():
    assert wrong_counts({"a", "b"}, [["a"], ["b"]]) == []
    assert wrong_counts({"a", "b", "c"}, [["a", "b"], ["b", "d"]]) == ["b: runs 2 times", "c: runs 0 times", "d: runs 1 times"]


def test_commands_are_read():
    text = f"""cmake --build --preset check -j 2
ctest --preset check-quick -j 3
ctest --preset arm64 -j 3 -L '^short$'
status=0; HZ_LIB={ROOT}/build/lib/b.so python -m pytest tests/preload -n 4 || status=$?; exit $status
HZ_LIB={ROOT}/build/lib/a.so .venv/bin/python -m pytest tests --ignore tests/apps -n 3 --dist loadfile --no-loadscope-reorder -m "not deep"
HZ_LIB={ROOT}/build/lib/a.so .venv/bin/python -m pytest -n 3 --dist loadfile hakobench/tests
printf '%s\\n' hz3 hz4 | xargs -P 2 -I @ sh -c 'HZ_LIB={ROOT}/build/lib/@.so python -m pytest tests/preload -n 2 -m deep >build/log 2>&1' || status=1
"""
    assert selections(text) == [
        Selection("ctest", "check-quick", ()),
        Selection("ctest", "arm64", ("-L", "'^short$'")),
        Selection("pytest", "build/lib/b.so", ("tests/preload",)),
        Selection("pytest", "build/lib/a.so", ("tests", "--ignore", "tests/apps", "-m", "not deep")),
        Selection("pytest", "build/lib/a.so", ("hakobench/tests",)),
        Selection("pytest", "build/lib/hz3.so", ("tests/preload", "-m", "deep")),
        Selection("pytest", "build/lib/hz4.so", ("tests/preload", "-m", "deep")),
    ]


def test_a_preset_that_is_left_out_or_halved_is_noticed(selected):
    without = [selection for selection in selected if selection.place != "clang-asan"]
    with pytest.raises(AssertionError):
        test_every_preset_is_run(without)
    halved = [selection._replace(words=("-L", "unit")) if selection.place == "tsan" else selection for selection in selected]
    assert divided_presets(halved) == divided_presets(selected) | {"tsan"}


def seconds_of(target: str, with_waiting: bool = True) -> int:
    return sum(step.seconds for step in STEPS if step.target == target and (with_waiting or not step.paths))


def test_the_targets_are_short_enough():
    """12 minutes for people, 15 when all products have changed, an hour for both in CI, on two cores; `tools/run_tests.py --record`
    writes the seconds."""
    assert seconds_of("test", with_waiting=False) <= 12 * 60
    assert seconds_of("test") <= 15 * 60
    assert seconds_of("test") + seconds_of("test-deep") <= 58 * 60
