"""The pages made from the knobs are up to date, and what is wrong with a knob or a lane is said with file and line."""

import pathlib
import subprocess

import pytest

import lanes
from lanes import Knob, LaneError

TOOL = pathlib.Path(lanes.__file__)
GOOD_KNOB = 'KNOB(HZ3_SIZE_BYTES, 8, 64, "this against that")'
KNOBS = [Knob("HZ3_SIZE_BYTES", 8, 64, "this against that")]
GOOD_LANE = '#ifndef X_H\n#define X_H\n#define HZ3_LANE_NAME "tiny"\n#ifndef HZ3_SIZE_BYTES\n#define HZ3_SIZE_BYTES 16\n#endif\n#endif\n'


def test_committed_pages_are_up_to_date():
    run = subprocess.run([TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.fixture
def other_pages(tmp_path, monkeypatch):
    """The tool's own root, with the pages it writes elsewhere."""
    for name, path in (("LANES_PAGE", "lanes.md"), ("ARCHITECTURE_PAGE", "architecture.md")):
        (tmp_path / path).write_text((lanes.ROOT / getattr(lanes, name)).read_text())
        monkeypatch.setattr(lanes, name, str(tmp_path / path))
    return tmp_path


def test_a_stale_page_is_named_and_then_written(other_pages, capsys):
    page = other_pages / "lanes.md"
    page.write_text(page.read_text().replace("HZ3_NUM_SHARDS", "HZ3_OLD_NAME"))
    assert lanes.main(["--check"]) == 1
    assert capsys.readouterr().err == f"lanes: {page} is not up to date; `make docs` writes it\n"
    assert "HZ3_OLD_NAME" in page.read_text()
    assert lanes.main([]) == 0
    assert "HZ3_OLD_NAME" not in page.read_text()
    assert lanes.main(["--check"]) == 0


def test_a_stale_table_in_a_written_page_is_found(other_pages):
    page = other_pages / "architecture.md"
    text = page.read_text()
    page.write_text(text.replace(lanes.BEGIN, lanes.BEGIN + "\nold"))
    assert lanes.main(["--check"]) == 1
    assert lanes.main([]) == 0
    assert page.read_text() == text


def test_good_knobs():
    assert lanes.read_knobs(f"/* two\n   lines */\n\n{GOOD_KNOB}\n", "k.def") == KNOBS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD_KNOB}\nKNOB(HZ3_B, 1)\n", "k.def:2: 'KNOB(HZ3_B, 1)' is no knob; want KNOB("),
        (f"/* a\n b */\n{GOOD_KNOB}\nint x;\n", "k.def:4: 'int x;' is no knob"),
        ('KNOB(HZ4_B, 1, 2, "x")\n', "k.def:1: 'KNOB(HZ4_B, 1, 2, \"x\")' is no knob"),
        ('KNOB(HZ3_B, 1, 2, "")\n', "k.def:1: 'KNOB(HZ3_B, 1, 2, \"\")' is no knob"),
        ('KNOB(HZ3_B, 3, 2, "x")\n', "k.def:1: HZ3_B: smallest 3 is above largest 2"),
        (f"{GOOD_KNOB}\n{GOOD_KNOB}\n", "k.def:2: HZ3_SIZE_BYTES is there already"),
        ("/* nothing */\n", "k.def:1: no knobs"),
    ],
)
def test_bad_knobs(text, message):
    with pytest.raises(LaneError) as error:
        lanes.read_knobs(text, "k.def")
    assert str(error.value).startswith(message)


def test_good_lane():
    assert lanes.read_lane(GOOD_LANE, "l.h", KNOBS) == lanes.Lane("tiny", "l.h", {"HZ3_SIZE_BYTES": 16})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("BYTES 16", "BYTES 65", "l.h:5: HZ3_SIZE_BYTES is 65; allowed: 8..64"),
        ("BYTES 16", "BYTES 7", "l.h:5: HZ3_SIZE_BYTES is 7; allowed: 8..64"),
        ("BYTES 16", "BYTES many", "l.h:5: HZ3_SIZE_BYTES is many; allowed: 8..64"),
        ("define HZ3_SIZE_BYTES", "define HZ3_SIZE", "l.h:5: HZ3_SIZE is no knob; src/hz3/knobs.def has: HZ3_SIZE_BYTES"),
        ("#define HZ3_SIZE_BYTES 16", "", "l.h:1: does not set HZ3_SIZE_BYTES"),
        ('#define HZ3_LANE_NAME "tiny"', "", "l.h:1: does not set HZ3_LANE_NAME"),
    ],
)
def test_bad_lane(old, new, message):
    with pytest.raises(LaneError) as error:
        lanes.read_lane(GOOD_LANE.replace(old, new), "l.h", KNOBS)
    assert str(error.value) == message


def test_bad_knobs_end_the_tool(tmp_path, monkeypatch, capsys):
    (tmp_path / "src/hz3/lanes").mkdir(parents=True)
    (tmp_path / "src/hz3/knobs.def").write_text(f"{GOOD_KNOB}\nnonsense\n")
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    assert lanes.main(["--check"]) == 2
    assert capsys.readouterr().err.startswith("lanes: src/hz3/knobs.def:2: 'nonsense' is no knob")


def test_a_lane_that_does_not_compile_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(LaneError, match=r"src/hz3/lanes/scale.h:1: tools/lanes_probe.c does not compile"):
        lanes.probe(lanes.Lane("scale", "src/hz3/lanes/scale.h", {}))


@pytest.mark.parametrize("text", ["", lanes.BEGIN, lanes.END + lanes.BEGIN, lanes.BEGIN * 2 + lanes.END])
def test_marks_that_are_not_there_once_each(text):
    with pytest.raises(LaneError, match="p.md:1: want"):
        lanes.replace_marked(text, [], "p.md")
