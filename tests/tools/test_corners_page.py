"""tests/contract/README.md names, for each promise of the standards, tests that exist, and leaves out no test of the corners' files."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/contract/README.md"
# Every test of these is a corner of the page.
CORNERS = ("standards", "libc_names", "libc_blocks", "replaced_operators", "operators")


def names_in(*paths: pathlib.Path) -> set[str]:
    """Suite.Name of GoogleTest's tests, and the names of pytest's."""
    found = set()
    for path in paths:
        text = path.read_text()
        found |= {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", text, re.MULTILINE)}
        found |= set(re.findall(r"^def (test_\w+)", text, re.MULTILINE)) if path.suffix == ".py" else set()
    return found


def names_on(page: str) -> list[str]:
    """The code spans behind who promises a corner; `.Name` is of the suite before it."""
    found = []
    for tests in re.findall(r"^\* .+ \(.+\): (.*)$", page, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", tests):
            found.append(found[-1].split(".")[0] + name if name.startswith(".") else name)
    return found


def test_every_corner_has_a_test_that_exists():
    names = names_on(PAGE.read_text())
    there = names_in(*(ROOT / "tests").rglob("*.cc"), *(ROOT / "tests").rglob("test_*.py"))
    assert [name for name in names if name not in there] == []
    assert len(names) > 80


def test_every_corner_names_a_test():
    corners = [line for line in PAGE.read_text().splitlines() if line.startswith("* ")]
    assert len(corners) > 70
    assert [corner for corner in corners if not names_on(corner)] == []


def test_every_test_of_the_corners_files_is_on_the_page():
    files = [ROOT / f"tests/contract/test_{name}.cc" for name in CORNERS]
    assert names_in(*files) - set(names_on(PAGE.read_text())) == set()


def test_a_test_that_is_gone_is_noticed(tmp_path):
    source = tmp_path / "test_a.cc"
    source.write_text("TEST(Suite, There) {\n}\nTEST_F(Other, There) {\n}\n")
    assert names_in(source) == {"Suite.There", "Other.There"}
    assert names_on("* `a` corner: x (C17; `b`): `Suite.There`, `.Gone`\n* `code` (x)\n") == ["Suite.There", "Suite.Gone"]
