"""Suites: good files become rows, bad ones give an error with file and line."""

import pathlib

import pytest
from workload_programs import NAMES

from hakobench import suite

GOOD = """about = "for a test"
rounds = 4

[[row]]
name = "mt-t{threads}-r{remote}"
about = "{threads} threads, {remote} %"
workload = "bench_random_mixed_mt_remote_malloc"
args = ["{threads}", "{work}", "400", "16", "2048", "{remote}"]
metric = "ops_per_s"
work = 1_000
tags = ["mt", "r{remote}"]
each = { threads = [2, 4], remote = [0, 90] }

[[row]]
name = "plain"
about = "nothing to scale"
workload = "larson"
metric = "wall_seconds"
output = "discard"

[[seed]]
row = "mt-t4-r90"
ours = "hz4"
against = "tcmalloc"
ratio = 0.96
source = "004"
"""


def write(directory: pathlib.Path, text: str) -> str:
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_rows_of_each_combination(tmp_path: pathlib.Path) -> None:
    read = suite.load(write(tmp_path, GOOD))
    assert (read.name, read.about, read.rounds) == ("mine", "for a test", 4)
    assert [row.name for row in read.rows] == ["mt-t2-r0", "mt-t2-r90", "mt-t4-r0", "mt-t4-r90", "plain"]
    row = read.rows[3]
    assert row.about == "4 threads, 90 %"
    assert row.tags == ("mt", "r90")
    assert row.params == {"threads": "4", "remote": "90"}
    assert row.scaled_args(1) == ["4", "250", "400", "16", "2048", "90"]
    assert row.scaled_args(0.1)[1] == "25"
    assert row.scaled_args(1e-9)[1] == "1"
    assert (row.unit, row.less_is_better, row.driver, row.discard_output) == ("M ops/s", False, "program", False)
    assert (read.rows[4].discard_output, read.rows[4].less_is_better) == (True, True)
    assert read.seeds == (suite.SeedRatio("mt-t4-r90", "hz4", "tcmalloc", 0.96, "004"),)


def test_rows_are_chosen_by_name_pattern_and_tag(tmp_path: pathlib.Path) -> None:
    read = suite.load(write(tmp_path, GOOD))
    assert read.select(None) == read.rows
    assert [row.name for row in read.select("plain,mt-t2-*")] == ["mt-t2-r0", "mt-t2-r90", "plain"]
    assert [row.name for row in read.select("@r90")] == ["mt-t2-r90", "mt-t4-r90"]
    with pytest.raises(ValueError, match=r"suite mine has no row 'mt-t3\*'; rows: mt-t2-r0, "):
        read.select("plain,mt-t3*")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 4", "rounds = ", r":2: "),
        ("rounds = 4", "rounds = 0", r":2: rounds is 0; allowed: 1 to 1000"),
        ("rounds = 4", 'rounds = "4"', r":2: rounds is '4'; allowed: a value of type int"),
        ("rounds = 4", "laps = 4", r":2: unknown key 'laps'; allowed: about, peers, rounds"),
        ("rounds = 4", 'peers = ["jemaloc"]', r":2: no peer is called 'jemaloc'; known: glibc, "),
        ("rounds = 4", "peers = [1]", r":2: peers is \[1\]; allowed: a list of strings"),
        ('about = "for a test"\n', "", r":1: key 'about' is missing"),
        ("work = 1_000", "work = -1", r":10: work is -1; allowed: 0 to"),
        ("work = 1_000", "work = true", r":10: work is True; allowed: a value of type int"),
        ("work = 1_000", "wrok = 1_000", r":10: unknown key 'wrok'; allowed: "),
        ('metric = "ops_per_s"', 'metric = "speed"', r":9: metric is 'speed'; allowed: ops_per_s, "),
        ('metric = "ops_per_s"\n', "", r":4: key 'metric' is missing"),
        ('"{remote}"]\n', '"{remot}"]\n', r":8: args has the placeholder '\{remot\}'; there are: work, threads, remote"),
        ('"{remote}"]\n', '"{remote"]\n', r":8: args is '\{remote': expected '\}' before end of string"),
        ('"{remote}"]\n', '"{remote:d}"]\n', r":8: args is '\{remote:d\}'; allowed as a placeholder: a name in braces"),
        ('name = "plain"', 'name = "a/b"', r":15: name is 'a/b'; allowed: letters, digits and _ \. \+ -"),
        ("threads = [2, 4]", "threads = []", r":12: each\.threads is \[\]; allowed: a list that is not empty"),
        ("threads = [2, 4]", 'threads = ["two"]', r":12: threads is 'two'; allowed: a number from 1"),
        ("threads = [2, 4]", "threads = [0]", r":12: threads is '0'; allowed: a number from 1"),
        ("threads = [2, 4]", "threads = [2, 2]", r":5: two rows are called 'mt-t2-r0'"),
        ('metric = "wall_seconds"', 'metric = "seconds"', r":19: discarded output cannot give the metric 'seconds'"),
        ('output = "discard"', 'output = "drop"', r":19: output is 'drop'; allowed: keep, discard"),
        ('output = "discard"', 'driver = "warp"', r":19: driver is 'warp'; allowed: program, "),
        ('row = "mt-t4-r90"', 'row = "mt-t8-r90"', r":22: no row is called 'mt-t8-r90'"),
        ("ratio = 0.96", 'ratio = "96 %"', r":25: ratio is '96 %'; allowed: a value of type int or float"),
        ('source = "004"\n', "", r":21: key 'source' is missing"),
    ],
)
def test_bad_files_are_reported_with_their_line(tmp_path: pathlib.Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ValueError, match=r"mine\.toml" + message):
        suite.load(path)


def test_suite_without_rows(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"mine\.toml:1: no \[\[row\]\] in it"):
        suite.load(write(tmp_path, 'about = "nothing"\n'))
    with pytest.raises(ValueError, match=r"mine\.toml:1: row must be written as \[\[row\]\] tables"):
        suite.load(write(tmp_path, 'about = "nothing"\nrow = [{ name = "x" }]\n'))


def test_unknown_suites() -> None:
    with pytest.raises(ValueError, match="no suite is called 'quik'; there are: .*close, .*first, fragmented, full, hz3, hz4, large, programs, quick, rss, seeds, smoke, or"):
        suite.load("quik")
    with pytest.raises(ValueError, match="cannot read suite '/nowhere/mine.toml': "):
        suite.load("/nowhere/mine.toml")


@pytest.mark.parametrize("name", suite.names())
def test_suites_of_the_package(name: str) -> None:
    read = suite.load(name)
    for row in read.rows:
        assert row.driver != "program" or row.workload in NAMES


def test_every_workload_is_in_a_suite() -> None:
    rows = [row for name in ("full", "rss", "documents", "large", "close", "first") for row in suite.load(name).rows]
    assert {row.workload for row in rows if row.driver == "program"} == set(NAMES)


JUDGED = """about = "what judges a row"

[[row]]
name = "one"
about = "one"
workload = "larson"
metric = "seconds"
params = { threads = 1 }
"""


@pytest.mark.parametrize(
    ("metric", "params", "said", "judged_by"),
    [
        ("seconds", "threads = 1", "", "cpu"),
        ("pairs_per_s", "high = 16", "", "cpu"),
        ("requests_per_s", "threads = 2", "", "figure"),
        ("peak_rss_kb", "threads = 1", "", "figure"),
        ("p99_us", "threads = 1", "", "figure"),
        ("seconds", "threads = 1", "figure", "figure"),
        ("wall_seconds", "threads = 4", "cpu", "cpu"),
    ],
)
def test_what_judges_a_row(tmp_path: pathlib.Path, metric: str, params: str, said: str, judged_by: str) -> None:
    text = JUDGED.replace("seconds", metric).replace("threads = 1", params)
    text += f'judged_by = "{said}"\n' if said else ""
    assert suite.load(write(tmp_path, text)).rows[0].judged_by == judged_by


@pytest.mark.parametrize(
    ("metric", "said", "message"),
    [
        ("seconds", "wall", r":9: judged_by is 'wall'; allowed: cpu, figure"),
        ("peak_rss_kb", "cpu", r":9: CPU time cannot stand for the metric 'peak_rss_kb'; allowed: ops_per_s, .*cpu_seconds"),
    ],
)
def test_what_cannot_judge_a_row(tmp_path: pathlib.Path, metric: str, said: str, message: str) -> None:
    text = JUDGED.replace("seconds", metric) + f'judged_by = "{said}"\n'
    with pytest.raises(ValueError, match=r"mine\.toml" + message):
        suite.load(write(tmp_path, text))


WITH_THREADS = {"xmalloc_test", "larson", "cache_thrash", "cache_scratch", "pipeline", "db_bench", "java"}


@pytest.mark.parametrize("name", suite.names())
def test_cpu_time_judges_no_threads_that_wait(name: str) -> None:
    """Programs that start threads without a parameter `threads`, and rows of several threads."""
    for row in suite.load(name).rows:
        if row.workload in WITH_THREADS or row.threads > 1:
            assert row.judged_by == "figure", row.name


def test_cpu_time_judges_real_programs() -> None:
    rows = suite.load("apps").rows
    assert len([row for row in rows if row.judged_by == "cpu"]) == 15
    assert {row.name for row in rows if row.judged_by == "figure"} == {"redis-get-p16", "rocksdb-fill", "rocksdb-read"}


BESIDE = """about = "figures side by side"

[[row]]
name = "one"
about = "one"
workload = "resident"
args = ["1"]
metric = "after5_rss_kb"
also = ["peak_rss_kb", "rss_mib_s", "live_kb"]
rss_every_ms = 20
"""


def test_metrics_beside_the_one_that_judges(tmp_path: pathlib.Path) -> None:
    (row,) = suite.load(write(tmp_path, BESIDE)).rows
    assert (row.metric, row.also) == ("after5_rss_kb", ("peak_rss_kb", "rss_mib_s", "live_kb"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"live_kb"]', '"love_kb"]', r":9: also has 'love_kb'; allowed: ops_per_s, "),
        ('"live_kb"]', '"peak_rss_kb"]', r":9: the row has the metric 'peak_rss_kb' twice"),
        ('"live_kb"]', '"after5_rss_kb"]', r":9: the row has the metric 'after5_rss_kb' twice"),
        ('metric = "after5_rss_kb"', 'metric = "live_kb"', r":8: metric is 'live_kb'; allowed: ops_per_s, "),
        ("rss_every_ms = 20\n", "", r":3: the metric 'rss_mib_s' needs samples: rss_every_ms must be above 0"),
        ("rss_every_ms = 20", 'output = "discard"', r":10: discarded output cannot give the metric 'after5_rss_kb'"),
    ],
)
def test_metrics_that_cannot_be_shown(tmp_path: pathlib.Path, old: str, new: str, message: str) -> None:
    assert BESIDE.count(old) == 1
    with pytest.raises(ValueError, match=r"mine\.toml" + message):
        suite.load(write(tmp_path, BESIDE.replace(old, new)))
