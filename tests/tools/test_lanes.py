"""The pages made from the knobs are up to date, and each fault in a knob or a lane is reported with its file and line."""

import pathlib
import subprocess

import pytest

import lanes
from lanes import Knob, LaneError

TOOL = pathlib.Path(lanes.__file__)
GOOD_KNOB = 'KNOB(HZ_SIZE_BYTES, 8, 64, 32, "bytes", "This against that")'
KNOBS = [Knob("HZ_SIZE_BYTES", 8, 64, 32, "bytes", "This against that")]
ENGINE = lanes.Engine("hz7", KNOBS)
GOOD_LANE = '#ifndef X_H\n#define X_H\n\n#define HZ_LANE_NAME "tiny"\n#define LANE_HZ_SIZE_BYTES HZ_SET(16)\n\n#endif\n'


def test_committed_pages_are_up_to_date():
    run = subprocess.run([TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def probe_once():
    """`lanes.probe`, which compiles a program for a lane, with its figures kept: no test changes a lane of the project."""
    probe, figures = lanes.probe, {}

    def find(lane):
        if lane.path not in figures:
            figures[lane.path] = probe(lane)
        return figures[lane.path]

    return find


@pytest.fixture
def other_pages(tmp_path, monkeypatch, probe_once):
    """Lets the tool read its own root, but write to copies of its pages in tmp_path."""
    monkeypatch.setattr(lanes, "probe", probe_once)
    for name, path in (("LANES_PAGE", "lanes.md"), ("ARCHITECTURE_PAGE", "architecture.md")):
        (tmp_path / path).write_text((lanes.ROOT / getattr(lanes, name)).read_text())
        monkeypatch.setattr(lanes, name, str(tmp_path / path))
    return tmp_path


def test_a_stale_page_is_named_and_then_written(other_pages, capsys):
    page = other_pages / "lanes.md"
    page.write_text(page.read_text().replace("HZ_NUM_SHARDS", "HZ_OLD_NAME"))
    assert lanes.main(["--check"]) == 1
    assert capsys.readouterr().err == f"lanes: {page} is stale; `make docs` writes it\n"
    assert "HZ_OLD_NAME" in page.read_text()
    assert lanes.main([]) == 0
    assert "HZ_OLD_NAME" not in page.read_text()
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
        (f"{GOOD_KNOB}\nKNOB(HZ_B, 1)\n", "k.def:2: 'KNOB(HZ_B, 1)' is not a knob; want KNOB("),
        (f"/* a\n b */\n{GOOD_KNOB}\nint x;\n", "k.def:4: 'int x;' is not a knob"),
        ('KNOB(HZ3_B, 1, 2, 1, "u", "x")\n', "k.def:1: 'KNOB(HZ3_B, 1, 2, 1, \"u\", \"x\")' is not a knob"),
        ('KNOB(HZ_B, 1, 2, 1, "u", "")\n', "k.def:1: 'KNOB(HZ_B, 1, 2, 1, \"u\", \"\")' is not a knob"),
        ('KNOB(HZ_B, 1, 2, "u", "x")\n', "k.def:1: 'KNOB(HZ_B, 1, 2, \"u\", \"x\")' is not a knob"),
        ('KNOB(HZ_B, 3, 2, 2, "u", "x")\n', "k.def:1: HZ_B: smallest 3 is above largest 2"),
        ('KNOB(HZ_B, 1, 2, 3, "u", "x")\n', "k.def:1: default: HZ_B is 3; allowed: 1..2"),
        (f"{GOOD_KNOB}\n{GOOD_KNOB}\n", "k.def:2: HZ_SIZE_BYTES exists already"),
        ("/* nothing */\n", "k.def:1: no knobs"),
    ],
)
def test_bad_knobs(text, message):
    with pytest.raises(LaneError) as error:
        lanes.read_knobs(text, "k.def")
    assert str(error.value).startswith(message)


def test_a_knob_of_the_heap_cannot_be_an_engines_too():
    with pytest.raises(LaneError, match="^e.def:1: HZ_SIZE_BYTES exists already$"):
        lanes.read_knobs(GOOD_KNOB, "e.def", tuple(KNOBS))


@pytest.fixture
def tree(tmp_path):
    """Returns a function that lays out headers in src/engines/hz7/lanes and reads the first as a lane."""

    def read(**headers: str) -> lanes.Lane:
        folder = tmp_path / "src/engines/hz7/lanes"
        folder.mkdir(parents=True)
        for name, text in headers.items():
            (folder / f"{name}.h").write_text(text)
        return lanes.read_lane(tmp_path, f"src/engines/hz7/lanes/{next(iter(headers))}.h", ENGINE)

    return read


def test_good_lane(tree):
    wanted = lanes.Lane("hz7", "tiny", "src/engines/hz7/lanes/l.h", {"HZ_SIZE_BYTES": 16}, {"HZ_SIZE_BYTES": 16})
    assert tree(l=GOOD_LANE) == wanted


def test_a_knob_that_a_lane_does_not_set_has_its_default(tree):
    lane = tree(l=GOOD_LANE.replace("#define LANE_HZ_SIZE_BYTES HZ_SET(16)\n", ""))
    assert (lane.set_here, lane.values) == ({}, {"HZ_SIZE_BYTES": 32})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SET(16)", "SET(65)", "5: HZ_SIZE_BYTES is 65; allowed: 8..64"),
        ("SET(16)", "SET(7)", "5: HZ_SIZE_BYTES is 7; allowed: 8..64"),
        ("SET(16)", "SET(many)", "5: HZ_SIZE_BYTES is many; allowed: 8..64"),
        ("HZ_SET(16)", "16", "5: '#define LANE_HZ_SIZE_BYTES 16' sets nothing; want #define LANE_HZ_NAME HZ_SET(value)"),
        ("LANE_HZ_SIZE_BYTES", "LANE_HZ_SIZE", "5: HZ_SIZE is not a knob of hz7; it has: HZ_SIZE_BYTES"),
        ('#define HZ_LANE_NAME "tiny"', "", "1: does not set HZ_LANE_NAME"),
        ("#define LANE_HZ_SIZE_BYTES HZ_SET(16)", '#include "lanes/gone.h"', "5: there is no src/engines/hz7/lanes/gone.h"),
        ("\n#endif", "#define LANE_HZ_SIZE_BYTES HZ_SET(16)\n#endif", "6: HZ_SIZE_BYTES is set twice"),
    ],
)
def test_bad_lane(tree, old, new, message):
    with pytest.raises(LaneError) as error:
        tree(l=GOOD_LANE.replace(old, new))
    assert str(error.value) == f"src/engines/hz7/lanes/l.h:{message}"


OTHER = '#define HZ_LANE_NAME "other"\n#include "lanes/l.h"\n'


def test_a_lane_that_includes_another_has_what_that_one_sets(tree):
    lane = tree(other=OTHER, l=GOOD_LANE)
    assert (lane.name, lane.path, lane.values) == ("other", "src/engines/hz7/lanes/other.h", {"HZ_SIZE_BYTES": 16})
    assert lane._replace(name="tiny").library == "libhakozuna_hz7_tiny.so"
    assert lane._replace(name="default").library == "libhakozuna_hz7.so"


def test_a_fault_in_an_included_lane_is_named_where_it_is(tree):
    with pytest.raises(LaneError, match="^src/engines/hz7/lanes/l.h:5: HZ_SIZE_BYTES is 7; allowed: 8..64$"):
        tree(other=OTHER, l=GOOD_LANE.replace("SET(16)", "SET(7)"))


def test_lanes_that_include_each_other_end(tree):
    with pytest.raises(LaneError, match="^src/engines/hz7/lanes/l.h:1: does not set HZ_LANE_NAME$"):
        tree(l='#include "lanes/m.h"\n', m='#include "lanes/l.h"\n')


def test_lanes_of_the_project():
    engines, found = lanes.read_engines(lanes.ROOT)
    assert [engine.name for engine in engines] == ["hz3", "hz4"]
    values = {lane.title: lane.values for lane in found}
    assert {"hz3/scale", "hz4/default", "hz4/pageq"} <= set(values)
    differing = {name for name, value in values["hz4/pageq"].items() if value != values["hz4/default"][name]}
    assert differing == {"HZ_REMOTE_INBOX"}
    assert "HZ_INBOX_BYTES" not in values["hz3/scale"] and "HZ_STASH_BYTES" not in values["hz4/default"]


def test_each_knob_is_listed_once_with_the_engines_that_have_it():
    only, switch = Knob("HZ_ONLY", 0, 9, 3, "blocks", "Only hz8 has it"), Knob("HZ_SWITCH", 0, 1, 1, "switch", "1 does it")
    engines = [ENGINE, lanes.Engine("hz8", [*KNOBS, only, switch])]
    assert lanes.knob_lines(engines) == [
        "* `HZ_SIZE_BYTES` (32 B; 8 B to 64 B): This against that.",
        "* `HZ_ONLY` (3; 0 to 9, blocks; hz8): Only hz8 has it.",
        "* `HZ_SWITCH` (switch, 1; hz8): 1 does it.",
    ]


def test_a_lane_is_listed_with_what_it_sets():
    found = [lanes.Lane("hz7", "a", "p.h", {"HZ_SIZE_BYTES": 16}, {}), lanes.Lane("hz7", "b", "q.h", {}, {})]
    assert lanes.lane_table(found, [ENGINE])[2:] == ["| hz7-a | SIZE_BYTES 16 B |", "| hz7-b | nothing |"]


def figures(**knobs: int) -> lanes.Figures:
    """The figures of a lane with two classes: blocks of 16 bytes go home, blocks of 64 KiB can rest in the depot."""
    common = {"HZ_CLASS_COUNT": 3, "HZ_LONG_CLASS_FIRST": 3, "HZ_LONG_ROOM_BYTES": 2 << 20, "HZ_HOME_COUNT": 64, "HZ_LIST_COUNT_MAX": 65535,
              "HZ_REMOTE_COUNT": 96, "HZ_DEPOT_BYTES": 1 << 20}
    small = {"class_1_bytes": 16, "class_1_bin": 128, "class_1_start": 96, "class_1_batch": 64, "class_1_home": 1, "class_1_shared": 0,
             "class_1_mid": 0, "class_1_list": 64}
    big = {"class_2_bytes": 65536, "class_2_bin": 8, "class_2_start": 8, "class_2_batch": 4, "class_2_home": 0, "class_2_shared": 1,
           "class_2_mid": 1, "class_2_list": 4}
    return {**common, **small, **big, "thread_block_bytes": 50 << 10, "shard_bytes": 1 << 10, **knobs}


def bounds(f: lanes.Figures) -> dict[str, str]:
    lines = lanes.bounds_table([lanes.Lane("hz7", "a", "", {}, {})], [f])[2:]
    return {what: value for what, value, _ in (line.strip("| ").split(" | ") for line in lines if line.startswith("|"))}


def test_lanes_with_the_same_bounds_share_a_column():
    found = [lanes.Lane("hz7", name, "", {}, {}) for name in ("a", "b", "c")]
    head = lanes.bounds_table(found, [figures(), figures(shard_bytes=2 << 10), figures()])[0]
    assert head == "| at most | hz7-a, hz7-c | hz7-b | formula |"


def test_bounds_with_an_inbox():
    found = bounds(figures(HZ_REMOTE_INBOX=1, HZ_INBOX_BYTES=1 << 20))
    assert found["one thread: all bins full"] == "2.5 MiB"  # 514 KiB, and room for long blocks
    assert found["one thread: its fullest bin"] == "512 KiB"
    assert found["one thread: remote buffer"] == "1.5 KiB"
    assert found["one shard, one class: inbox"] == "1 MiB"
    assert found["one shard, one class: all that waits"] == "2 MiB"
    assert [found[f"one shard, one class: {name}"] for name in ("stash", "transfer", "central")] == ["-"] * 3
    assert found["depot, one class: fixed part"] == "1 MiB"


def test_bounds_without_one():
    found = bounds(figures(HZ_REMOTE_INBOX=0, HZ_INBOX_BYTES=1 << 20))
    assert [found[f"one shard, one class: {name}"] for name in ("inbox", "all that waits")] == ["-"] * 2


def test_bounds_with_a_stash():
    found = bounds(figures(HZ_STASH_BYTES=1 << 18, HZ_CENTRAL_BYTES=1 << 20, HZ_TRANSFER_SLOTS=8))
    assert found["one shard, one class: inbox"] == "-"
    assert found["one shard, one class: stash"] == "256 KiB"
    assert found["one shard, one class: transfer"] == "4 MiB"  # 8 lists of a bin of 8 blocks
    assert found["one shard, one class: central"] == "1 MiB"
    assert found["one shard, one class: all that waits"] == "6.25 MiB"  # and 1 MiB of carry


def test_bounds_with_a_stash_alone():
    found = bounds(figures(HZ_STASH_BYTES=1 << 18, HZ_CENTRAL_BYTES=1 << 20))
    assert found["one shard, one class: stash"] == "256 KiB"
    assert [found[f"one shard, one class: {name}"] for name in ("transfer", "central", "inbox")] == ["-"] * 3
    assert found["one shard, one class: all that waits"] == "512 KiB"


def test_bounds_without_a_stash():
    found = bounds(figures(HZ_STASH_BYTES=0, HZ_CENTRAL_BYTES=1 << 20, HZ_TRANSFER_SLOTS=8))
    assert found["one shard, one class: stash"] == "-"
    assert found["one shard, one class: all that waits"] == "6 MiB"


def test_a_lane_is_built_from_ways():
    _, found = lanes.read_engines(lanes.ROOT)
    ways = {lane.title: (*lanes.ways_home_of(lane), lanes.takers_of(lane)) for lane in found}
    assert ways["hz3/scale"] == ways["hz3/fast"] == ways["hz3/p32"] == ways["hz4/default"] == ("direct", "shared")
    assert ways["hz3/home"] == ("lists", "stages", "shared") and ways["hz4/pageq"] == ("lists", "queues", "shared")
    assert ways["hz4/home"] == ("lists", "inbox", "shared")
    lane = next(lane for lane in found if lane.title == "hz3/scale")
    alone = lane._replace(values={**lane.values, "HZ_SHARD_COLLISION_FAILFAST": 1, "HZ_PAGE_LOCAL_REMOTE": 1})
    assert (lanes.ways_home_of(alone), lanes.takers_of(alone)) == (("lists", "queues"), "alone")
    assert {lane.title for lane in found if lanes.bins_of(lane) == "percpu"} == {"hz3/percpu"}


def test_lanes_that_agree_share_columns():
    found = [lanes.Lane("hz7", name, "", {}, {}) for name in ("a", "b", "c")]
    same = lanes.bins_table(found[:2], [figures()] * 2)
    assert same[0] == "| block | bin | at first | batch |"
    other = lanes.bins_table(found, [figures(), figures(class_1_bin=64), figures()])
    assert other[0] == "| block | bin | at first | batch | hz7-b: bin | hz7-b: at first | hz7-b: batch |"
    assert other[2] == "| 16 B | 128 | 96 | 64 | 64 | 96 | 64 |"


def test_bad_knobs_end_the_tool(tmp_path, monkeypatch, capsys):
    (tmp_path / "src/heap").mkdir(parents=True)
    (tmp_path / "src/heap/knobs.def").write_text(f"{GOOD_KNOB}\nnonsense\n")
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    assert lanes.main(["--check"]) == 2
    assert capsys.readouterr().err.startswith("lanes: src/heap/knobs.def:2: 'nonsense' is not a knob")


def test_an_engine_without_lanes_and_no_engine(tmp_path):
    (tmp_path / "src/heap").mkdir(parents=True)
    (tmp_path / "src/heap/knobs.def").write_text(GOOD_KNOB)
    with pytest.raises(LaneError, match="^src:1: no engine"):
        lanes.read_engines(tmp_path)
    (tmp_path / "src/engines/hz7").mkdir(parents=True)
    (tmp_path / "src/engines/hz7/engine_knobs.def").write_text('KNOB(HZ_ONLY, 0, 9, 0, "blocks", "Only hz7 has it")')
    with pytest.raises(LaneError, match="^src/engines/hz7/lanes:1: no lanes"):
        lanes.read_engines(tmp_path)


def test_a_lane_that_does_not_compile_is_named(monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(LaneError, match=r"src/engines/hz3/lanes/scale.h:1: tools/lanes_probe.c does not compile"):
        lanes.probe(lanes.Lane("hz3", "scale", "src/engines/hz3/lanes/scale.h", {}, {}))


def test_a_value_that_is_read_wrongly_is_noticed():
    _, found = lanes.read_engines(lanes.ROOT)
    lane = next(lane for lane in found if lane.title == "hz4/pageq")
    assert lanes.probe(lane)["HZ_REMOTE_INBOX"] == 0
    wrong = lane._replace(values={**lane.values, "HZ_REMOTE_COUNT": 257})
    with pytest.raises(LaneError, match="^src/engines/hz4/lanes/pageq.h:1: HZ_REMOTE_COUNT is read as 257, but compiled as 256$"):
        lanes.probe(wrong)


@pytest.mark.parametrize("text", ["", lanes.BEGIN, lanes.END + lanes.BEGIN, lanes.BEGIN * 2 + lanes.END])
def test_marks_that_are_not_there_once_each(text):
    with pytest.raises(LaneError, match="p.md:1: want"):
        lanes.replace_marked(text, [], "p.md")
