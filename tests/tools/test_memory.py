"""docs/memory.md has the tables that tools/memory.py writes, and the tool refuses sources that it cannot read."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import memory  # noqa: E402 - from the folder that the line above adds

GOOD_BOUND = 'BOUND(ROUND, 64 << 20, 2 << 20, 64 << 20, 8, "rounds")\n'
GOOD_CHORE = 'CHORE(idle_bins, TICKS | DEMAND, HZ_AGE_MS, "bins go home")\n'


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A root with the sources of one bound and one chore, and a page."""
    (tmp_path / "src/heap/back").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / memory.BOUNDS).write_text("/* top */\n" + GOOD_BOUND)
    (tmp_path / memory.CHORES).write_text(GOOD_CHORE)
    (tmp_path / memory.KNOBS).write_text('KNOB(HZ_AGE_MS, 1, 9, 7, "x")\n')
    marks = "\n".join(f"{begin}\nold\n{end}" for begin, end in map(memory.marks, memory.TABLES))
    (tmp_path / memory.PAGE).write_text(f"# Page\n\n{marks}\n\nend\n")
    return tmp_path


def test_the_page_is_up_to_date() -> None:
    assert memory.page(ROOT) == (ROOT / memory.PAGE).read_text()


def test_each_source_gives_a_row(tree: pathlib.Path) -> None:
    assert memory.main(["--root", str(tree)]) == 0
    text = (tree / memory.PAGE).read_text()
    assert "| rounds | 64 MiB | 2 MiB | 64 MiB | 1/8 |" in text
    assert "| idle bins | 7 ms | x | x |  | x | bins go home |" in text
    assert "old" not in text
    assert text.startswith("# Page\n") and text.endswith("\nend\n")
    assert memory.page(tree) == text, "once more changes nothing"


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (memory.BOUNDS, 'BOUND(ROUND, 64 MiB, 0, 0, 8, "x")', "'64 MiB' is not a number of bytes, such as 16 << 20"),
        (memory.BOUNDS, "BOUND(ROUND)", "'BOUND(ROUND)' does not have the form BOUND(...) that the comment at the top of the file gives"),
        (memory.BOUNDS, "", "no line begins with BOUND("),
        (memory.CHORES, 'CHORE(a, TICKS | NOBODY, 0, "x")', "'NOBODY' is no driver; allowed: BESIDE, ALONE, TICKS"),
        (memory.CHORES, 'CHORE(a, TICKS, HZ_NONE, "x")', "'HZ_NONE' is neither a number nor a knob of src/heap/knobs.def"),
        (memory.PAGE, "# Page\n", "want one line '<!-- written by tools/memory.py: bounds -->'"),
    ],
)
def test_what_cannot_be_read_is_named(tree: pathlib.Path, capsys: pytest.CaptureFixture, path: str, text: str, message: str) -> None:
    before = (tree / memory.PAGE).read_text()
    (tree / path).write_text(text)
    assert memory.main(["--root", str(tree)]) == 1
    assert message in capsys.readouterr().err
    assert (tree / memory.PAGE).read_text() == (text if path == memory.PAGE else before), "nothing is lost"
