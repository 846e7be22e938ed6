"""The modules of hakobench import each other without a circle.

The test reads the imports from the sources. The import of a package by its own modules, which Python makes by itself,
does not count.
"""

import ast
import pathlib

import pytest

import hakobench

PACKAGE = pathlib.Path(hakobench.__file__).parent


def modules(package: pathlib.Path) -> dict[str, pathlib.Path]:
    """Every module of a package by its dotted name; an __init__.py has the name of its folder."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: pathlib.Path, known: dict[str, pathlib.Path]) -> set[str]:
    """The modules among `known` that a module imports, within functions too.

    `from a import b` is an import of the module a.b when there is one, and of a otherwise.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names}
    return found & known.keys()


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle in order, the first one again at the end; empty without a circle."""
    done: set[str] = set()

    def follow(path: list[str]) -> list[str]:
        for target in sorted(graph[path[-1]]):
            if target in path:
                return [*path[path.index(target) :], target]
            if target not in done and (found := follow([*path, target])):
                return found
        done.add(path[-1])
        return []

    return next((found for name in sorted(graph) if name not in done and (found := follow([name]))), [])


def circle_of(package: pathlib.Path) -> list[str]:
    known = modules(package)
    return circle({name: imports(name, path, known) for name, path in known.items()})


def test_hakobench_has_no_circle() -> None:
    assert len(modules(PACKAGE)) > 40
    assert circle_of(PACKAGE) == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"a": "import pack.b", "b": "from pack.c import x", "c": "x = 1"}, []),
        ({"a": "import pack.b", "b": "from pack.c import x", "c": "from pack import a"}, ["a", "b", "c", "a"]),
        ({"a": "from pack import b", "b": "def f():\n    from pack import a"}, ["a", "b", "a"]),
        ({"a": "from . import b", "b": "from .a import x"}, ["a", "b", "a"]),
        ({"a": "from pack.sub import low", "sub/__init__": "", "sub/low": "from .. import a"}, ["a", "sub.low", "a"]),
        ({"a": "from pack.sub import name", "sub/__init__": "import pack.a"}, ["a", "sub", "a"]),
        ({"a": "from os import path", "b": "from pack import a, b"}, ["b", "b"]),
    ],
)
def test_a_circle_is_noticed(tmp_path: pathlib.Path, sources: dict[str, str], expected: list[str]) -> None:
    for name, text in {"__init__": "", **sources}.items():
        path = tmp_path / "pack" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert circle_of(tmp_path / "pack") == [f"pack.{name}" for name in expected]
