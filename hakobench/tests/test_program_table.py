"""The result of `hakobench run -- PROGRAM`, budgets, and what a user is told while something is built."""

from __future__ import annotations

import io
import re
import stat

import pytest
from rich.console import Console

from hakobench import allocators, program_table, programs, record, runner
from hakobench.peers import recipes, store

OURS = "engine=hz3 lane=scale overrides=none version=0.1.0"
OTHER = "engine=hz4 lane=default overrides=none version=0.1.0"
SECONDS = {"glibc": 2.0, "mimalloc": 1.25, "hz3_scale": 1.0, "hz4": 2.5, "broken": 0.0, "snmalloc-checked": 1.5}


def some_runs(rounds: int = 5) -> list[record.Run]:
    """Each allocator has the same time in every round, but for a hundredth; one of them fails."""
    texts = {str: "", int: 0, float: 0.0, bool: False}
    blank = {name: texts.get(kind, 0.0) for name, kind in record._TYPES.items()}
    configs = {"hz3_scale": OURS, "hz4": OTHER}
    return [
        record.Run(**(blank | {
            "allocator": name, "ours": name in configs, "config": configs.get(name, ""), "round": at, "row": "sort", "about": "sorts numbers", "metric": "wall_seconds", "unit": "s",
            "less_is_better": True, "value": value * (1 + at / 100), "wall_seconds": value * (1 + at / 100), "also": "cpu_seconds peak_rss_kb",
            "figures": f"cpu_seconds={value / 3}", "peak_rss_kb": 10240 if name == "glibc" else 5120, "failure": "" if value else "exit code 1", "judged_by": "figure",
            "other_cpu_share": 0.0,
        }))
        for name, value in SECONDS.items() for at in range(1, rounds + 1)
    ]  # fmt: skip


def shown(width: int | None, rounds: int = 5) -> list[str]:
    """On a terminal of a width, or in a file."""
    console = Console(file=io.StringIO(), width=width, force_terminal=width is not None, color_system=None, highlight=False)
    program_table.show(some_runs(rounds), console)
    return console.file.getvalue().splitlines()


def test_an_allocator_a_line_the_fastest_first():
    head, titles, *rows = shown(None)[:8]
    assert head == "sort: sorts numbers; 5 rounds"
    assert titles.split() == ["allocator", "s", "x", "glibc", "interval", "spread", "CPU", "s", "peak", "MiB", "memory", "x", "glibc"]
    assert [row.split()[0] for row in rows] == ["hz3-scale", "mimalloc", "snmalloc-checked", "glibc", "hz4", "broken"]
    assert rows[0].split()[1:] == ["1.03", "2.00", "2.00", "..", "2.00", "±1.9", "%", "0.333", "5.00", "0.500"]
    assert rows[3].split()[1:] == ["2.06", "1.00", "±1.9", "%", "0.667", "10.0", "1.00"], "against itself there is no interval"
    assert rows[4].split()[2] == "0.800" and rows[5].split()[1:] == ["failed"]
    assert "interval" not in "".join(shown(None, rounds=2)[2:8]) and ".." not in "".join(shown(None, rounds=2)[2:8]), "two pairs have none"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_a_line_fits_every_width(width):
    lines = shown(width)
    rows = [line for line in lines if line.split() and line.split()[0] in {"hz3-scale", "mimalloc", "glibc", "hz4", "broken", "snmalloc-checked"}]
    assert len(rows) == len(SECONDS) and all(len(row) <= width for row in lines[1:8])
    assert "x glibc" in lines[1] and ("interval" in lines[1]) == (width >= 60)
    assert ("memory x glibc" in lines[1]) == (width >= 100)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00123456, "0.00123"), (0.0999, "0.0999"), (0.99951, "1.00"), (1.0, "1.00"), (9.996, "10.0"), (12.345, "12.3"), (99.96, "100"), (1234.5, "1234"), (0, "0"), (None, "-")],
)
def test_three_digits(value, text):
    assert program_table.digits(value) == text


# ---- which allocators ------------------------------------------------------------------------------


@pytest.fixture
def libraries(monkeypatch, tmp_path):
    """Those of a checkout with many lanes, and one peer; no file is read."""
    configs = {"hz3_fast": "engine=hz3 lane=fast overrides=none", "hz3_scale": OURS, "hz4": OTHER, "hz4_home": "engine=hz4 lane=home overrides=none"}
    monkeypatch.setattr(allocators, "own_libraries", lambda: {name: tmp_path / name for name in configs})
    monkeypatch.setattr(allocators, "load", lambda name, path, source="": allocators.Allocator(name, path, configs[name]))
    monkeypatch.setattr(allocators, "_found_peers", lambda *_: {"glibc": allocators.Allocator("glibc"), "peer": allocators.Allocator("peer", tmp_path)})
    monkeypatch.setattr(allocators, "_stale", lambda _: [])
    return configs


def test_a_program_runs_under_what_users_choose_from(libraries):
    def names(*words: object, **options: object) -> list[str]:
        return [one.name for one in allocators.select(*words, **options)[0]]

    assert names(None, {}, few=True) == ["glibc", "peer", "hz3_scale", "hz4"]
    assert names(None, {}) == ["glibc", "peer", *libraries]
    assert names("hz4-home,glibc", {}, few=True) == ["hz4_home", "glibc"]
    assert names("hz3-scale,hz3_fast", {}) == ["hz3_scale", "hz3_fast"], "a lane by the name that users know"
    del libraries["hz3_scale"], libraries["hz4"]
    assert names(None, {}, few=True) == ["glibc", "peer", "hz3_fast", "hz4_home"], "rather others than none"
    with pytest.raises(ValueError, match="no allocator is called 'hz3-scael'"):
        names("hz3-scael", {})


def test_the_name_of_a_lane():
    assert [allocators.lane_of(config) for config in (OURS, OTHER, "", "engine=hz3 lane=scale overrides=BIN_COUNT:64", "unknown: x")] == ["hz3-scale", "hz4", "", "", ""]
    names = [allocators.user_name(*words) for words in (("hz3_scale", OURS), ("hakozuna", OURS), ("hz4", OTHER), ("mine", OURS), ("glibc", ""))]
    assert names == ["hz3-scale", "hz3-scale", "hz4", "mine", "glibc"]


# ---- budgets ---------------------------------------------------------------------------------------


def test_a_round_that_does_not_fit_is_not_begun():
    now = [0.0]
    rounds = runner.Rounds(10.0, lambda: now[0])
    made = []
    for number in (1, 1, 2, 2, 3, 3, 4, 4):
        if not rounds.has_time_for(number):
            break
        made.append(number)
        now[0] += 2.0 if number < 3 else 1.5
    assert made == [1, 1, 2, 2], "the third would end after 12 s, as long as the longest took"
    late = runner.Rounds(0.0, lambda: now[0])
    assert late.has_time_for(1)
    now[0] += 1.0
    assert late.has_time_for(1) and not late.has_time_for(2), "one is always made"
    assert all(runner.Rounds(None).has_time_for(number) for number in range(5))


# ---- what is built ---------------------------------------------------------------------------------


def test_the_programs_are_built_once_and_it_is_said(tmp_path, monkeypatch):
    """With a compiler that makes empty files: what is compiled, hakobench's packages are tested with."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" != -o ] || : >"$2"; shift; done\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("CXX", str(compiler))
    told: list[str] = []
    folder = tmp_path / "programs"
    for _ in range(2):
        programs.build_missing(folder, own=folder, in_checkout=False, tell=told.append)
    assert told == [f"building the programs to measure with by {compiler}, once, in {tmp_path}: the workloads, the recorder, the replay", "built"]
    assert (folder / "hakoreplay").exists() and (folder / "libhakotrace.so").exists()


def test_peers_say_what_they_do_without_a_terminal(monkeypatch):
    """On a terminal there is a bar."""
    recipe = next(recipe for recipe in recipes.load().values() if not recipe.optional and recipe.kind != "settings")
    monkeypatch.setattr(store, "inspect", lambda one: store.Status(one, "missing", None, "not in the cache"))
    monkeypatch.setattr(store, "_bring", lambda one, *_: store.Status(one, "unavailable", None, "no network"))
    console = Console(file=io.StringIO(), width=200)
    (status,) = store.ensure([recipe.name], console)
    assert status.state == "unavailable"
    first, second = console.file.getvalue().splitlines()
    assert re.fullmatch(rf"{recipe.name}: fetching and building, about \d+ s", first)
    assert re.fullmatch(rf"{recipe.name}: unavailable, after \d+ s", second)
