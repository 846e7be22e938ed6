"""Every edge of docs/memory-order.md has a scenario, and every atomic operation of base/atomic.h is a point."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/model"
CALL = re.compile(r"explore(?:_all)?\(\s*(?:edges|((?:\"[^\"]*\"\s*)+))", re.DOTALL)
NAMED = re.compile(r"constexpr const char \*edges =((?:\s*\"[^\"]*\")+);")


def documented_edges(text: str) -> set[str]:
    rows = re.findall(r"^\|([^|]*)\|", text[text.index("\n## Edges") : text.index("\n## Why")], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"\*\*([a-z-]+)\*\*|(send-take)", row) for name in name if name}


def scenario_edges(text: str) -> set[str]:
    """The names that scenarios say they are about."""
    literals = [*CALL.findall(text), *NAMED.findall(text)]
    return {name for literal in literals for part in re.findall(r'"([^"]*)"', literal) for name in part.split()}


def test_every_edge_has_a_scenario():
    edges = documented_edges((ROOT / "docs/memory-order.md").read_text())
    named = set().union(*(scenario_edges(path.read_text()) for path in MODEL.glob("test_*.cc")))
    assert len(edges) > 20
    assert named == edges


def test_names_are_found_in_a_call():
    text = 'model::explore("one two "\n   "three",\n 5, [] {});\nconstexpr const char *edges = "four";\nexplore_all(edges, 1'
    assert scenario_edges(text) == {"one", "two", "three", "four"}


def test_every_operation_is_a_point():
    used = set(re.findall(r"\batomic_\w+_explicit\b", (ROOT / "src/base/atomic.h").read_text()))
    points = set(re.findall(r"^#define (atomic_\w+)\(", (MODEL / "points.h").read_text(), re.MULTILINE))
    assert len(used) > 5
    assert used == points
