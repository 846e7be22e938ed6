"""Every edge of src/memory-order.md has a scenario, and every atomic operation of base/os/atomic.h is a point."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/model"
# The scheduler cannot stop a thread inside a restartable sequence; tests/unit/ways/percpu has threads that are interrupted there. Nor is it
# the kernel, which wakes the keeper when a thread ends: keeper_sleep.pml is the model for that. Nothing that a scenario checks goes wrong
# without the last four: a figure is wrong for a moment, a mapping stays without a name, the text of a refusal is wrong, or a leak is missed.
WITHOUT_SCENARIO = {"cpu-bins", "keeper", "life", "thread-fill", "early-name", "listener", "begun-publish"}
CALL = re.compile(r"explore(?:_all)?\(\s*(?:edges|((?:\"[^\"]*\"\s*)+))", re.DOTALL)
NAMED = re.compile(r"constexpr const char \*edges =((?:\s*\"[^\"]*\")+);")


def documented_edges(text: str) -> set[str]:
    rows = re.findall(r"^\|([^|]*)\|", text[text.index("\n## Edges") : text.index("\n## Why")], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"\*\*([a-z-]+)\*\*|(send-take)", row) for name in name if name}


def scenario_edges(text: str) -> set[str]:
    """The names of the edges that scenarios cover."""
    literals = [*CALL.findall(text), *NAMED.findall(text)]
    return {name for literal in literals for part in re.findall(r'"([^"]*)"', literal) for name in part.split()}


def test_every_edge_has_a_scenario():
    edges = documented_edges((ROOT / "src/memory-order.md").read_text())
    named = set().union(*(scenario_edges(path.read_text()) for path in MODEL.glob("test_*.cc")))
    assert len(edges) > 20
    assert named == edges - WITHOUT_SCENARIO
    assert edges > WITHOUT_SCENARIO


def test_names_are_found_in_a_call():
    text = 'model::explore("one two "\n   "three",\n 5, [] {});\n'
    text += 'constexpr const char *edges = "four";\nexplore_all(edges, 1'
    assert scenario_edges(text) == {"one", "two", "three", "four"}


def test_every_operation_is_a_point():
    used = set(re.findall(r"\batomic_\w+_explicit\b", (ROOT / "src/base/os/atomic.h").read_text()))
    assert len(used) > 5
    for header in (MODEL / "points.h", MODEL / "points_cc.h", ROOT / "tests/c11/stdatomic.h"):
        made = set(re.findall(r"^(?:#define|.*\b(?:T|void|bool)) (atomic_\w+)\(", header.read_text(), re.MULTILINE))
        assert made == used, header
