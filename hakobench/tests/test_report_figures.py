"""Figures that count and figures that do not: rows in which a peer failed, memory as a figure, memory without a
measurement, latency, and the measurements that a history can compare."""

import dataclasses
import pathlib
import re

import pytest

from hakobench import record
from hakobench.record import Recording, Run
from hakobench.report import facts, history, markdown, page, theme
from report_recordings import MadeRow, make_run

FAST = MadeRow("fast", "one thread", "")
OTHER = MadeRow("other", "two threads", "threads=2")
IDLE = MadeRow("idle", "asleep", "", "idle_rss_kb", "MiB idle", True, 10.0)
PEAK = MadeRow("peak", "all live", "", "peak_rss_kb", "MiB peak", True, 10.0)


def _recording(*runs: Run, name: str = "made.csv") -> Recording:
    return Recording(pathlib.Path(name), [dataclasses.replace(run, position=at + 1) for at, run in enumerate(runs)], [])


def _page(*runs: Run) -> str:
    recording = _recording(*runs)
    return page.render(recording, history.collect(recording, []))


def _markdown(folder: pathlib.Path, *runs: Run) -> str:
    """The page, its plots and the document, as one text."""
    document = folder / "b.md"
    document.write_text(f"{markdown.BEGIN}{markdown.END}", encoding="utf-8")
    written = markdown.write(document, folder, [dataclasses.replace(_recording(*runs), path=folder / "made.csv")])
    return "\n".join(path.read_text(encoding="utf-8") for path in written)


def _visible(text: str) -> str:
    """The page without style and script."""
    return re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)


WITH_A_FAILED_PEER = (
    make_run(FAST, 0, "glibc", value=10.0),
    make_run(FAST, 0, "tcmalloc", value=20.0),
    make_run(FAST, 0, "hz3", True, value=10.0),
    make_run(OTHER, 1, "glibc", value=10.0),
    make_run(OTHER, 1, "tcmalloc", value=20.0),
    make_run(OTHER, 1, "tcmalloc", failure="no end", value=0.0),
    make_run(OTHER, 1, "hz3", True, value=30.0),
)


def test_ratios_of_rows_in_which_a_peer_failed_count_nowhere() -> None:
    found = facts.collect(_recording(*WITH_A_FAILED_PEER))
    (verdict,) = found.verdicts
    assert verdict.ratios == pytest.approx({"fast": 0.5})
    assert verdict.doubtful == pytest.approx({"other": 3.0})
    assert list(verdict.standings) == ["fast"]
    assert (verdict.mean, verdict.wins, verdict.losses) == (pytest.approx(0.5), [], ["fast"])
    assert {point.name: point.y for point in page.overall_points(found)}["hz3"] == pytest.approx(0.5)


def test_ratios_of_rows_in_which_a_peer_failed_are_marked(tmp_path: pathlib.Path) -> None:
    text = _page(*WITH_A_FAILED_PEER)
    assert '<a href="#row.other" title="runs failed under tcmalloc">3.00†</a>' in text
    assert '<a href="#row.fast">0.50</a>' in text
    assert "† marks ratios in 1 row where runs of a peer failed" in text
    document = _markdown(tmp_path, *WITH_A_FAILED_PEER)
    assert "| other | figure | 3.00† |" in document
    assert "| fast | figure | 0.50 | not decided (pairs: 1) |" in document
    assert re.search(r"† Runs of a peer failed in this row[^†|]*:\sother\s\(tcmalloc\)\.", document)
    assert "†" not in _page(*WITH_A_FAILED_PEER[:3]) + _markdown(tmp_path, *WITH_A_FAILED_PEER[:3])


def test_without_a_sound_row_there_is_no_mean(tmp_path: pathlib.Path) -> None:
    runs = WITH_A_FAILED_PEER[3:]
    assert "No row has a ratio that counts: runs of a peer failed in each." in _page(*runs)
    document = _markdown(tmp_path, *runs)
    assert "**hz3**: no ratio counts, because runs of a peer failed in each row." in document
    assert "geometric mean 0" not in document


def test_memory_is_not_called_fast(tmp_path: pathlib.Path) -> None:
    runs = [
        make_run(row, at, name, ours, value=value)
        for at, row in enumerate((IDLE, PEAK))
        for name, ours, value in (("glibc", False, 12.0), ("hz3", True, 8.0))
    ]
    words = re.compile(r"[^\"'>.]*\b(?:fast\w*|slow\w*|speed)\b[^\"'<.]*", re.IGNORECASE)
    explained = ("How fast the leanest peer", "0.8 of our speed", "0.8 times as fast", "in rows that measure speed", 'id="speed"')
    for text in (_visible(_page(*runs)), _markdown(tmp_path, *runs)):
        assert "better" in text
        for known in (*explained, "synthetic/speed.svg"):
            text = text.replace(known, "")
        assert words.findall(text) == []
    assert "faster" in _page(make_run(FAST, 0, "glibc"), make_run(FAST, 0, "hz3", True))


def test_rows_of_memory_are_not_drawn_as_speed_against_memory() -> None:
    runs = [make_run(row, at, name, name == "hz3") for at, row in enumerate((FAST, PEAK)) for name in ("glibc", "hz3")]
    recording = _recording(*runs)
    with page.svg.settings():
        builder = page.Builder(facts.collect(recording), history.collect(recording, []), lambda _: None)
        assert [panel.scatter is not None for panel in builder.panels()] == [True, False]
    assert page.overall_points(facts.collect(_recording(*runs[2:]))) == []


def test_unmeasured_memory_is_a_dash(tmp_path: pathlib.Path) -> None:
    runs = [
        make_run(FAST, 0, "glibc", peak_rss_kb=2048, final_rss_kb=0),
        make_run(FAST, 0, "hz3", True, peak_rss_kb=0, final_rss_kb=0),
    ]
    text = _page(*runs)
    assert "0.0 MiB" not in text
    cell = r'<td class="num" data-value="([^"]*)"><a href="#raw.fast[^>]*>([^<]*)</a> <small>([^<]*)<'
    cells = re.findall(cell, text)
    assert [cell for cell in cells if cell[2].startswith("/")] == [("", "–", "/ –"), ("2.0", "2.0", "/ –")]
    raw = re.findall(r'<tr id="run\.\d">(.*?)</tr>', text)
    assert [re.findall(r'<td class="num">([^<]*)', row)[5:7] for row in raw] == [["–", "–"], ["2.0", "–"]]
    document = _markdown(tmp_path, *runs)
    assert "| fast | – / – | 2.0 / – |" in document
    assert "0.0" not in document.split("Peak / final")[1].split("Rows:")[0]


def test_latencies_have_a_table(tmp_path: pathlib.Path) -> None:
    printed = [
        make_run(FAST, 0, name, name == "hz3", figures=f"p50_us={p50} p99_us={p99}")
        for name, p50, p99 in (("glibc", 40, 900), ("glibc", 50, 1000), ("glibc", 48, "inf"), ("hz3", 31, 700))
    ]
    runs = [*printed, make_run(FAST, 0, "glibc", failure="x", figures="p50_us=1 p99_us=1"), make_run(OTHER, 1, "glibc")]
    (line,) = facts.collect(_recording(*runs)).latencies
    assert (line.row, line.cells) == ("fast", {"glibc": (48.0, 950.0), "hz3": (31.0, 700.0)})
    text = _page(*runs)
    table = text[text.index('id="latency"') :].split("</table>")[0]
    assert '<td class="num" data-value="950.0"><a href="#raw.fast.glibc">48.0 / 950</a></td>' in table
    assert "other" not in table
    assert "| fast | 31.0 / 700 | 48.0 / 950 |" in _markdown(tmp_path, *runs)
    without = _page(make_run(OTHER, 1, "glibc")) + _markdown(tmp_path, make_run(OTHER, 1, "glibc"))
    assert 'id="latency"' not in without and "Latency" not in without


def test_pictures_link_to_the_raw_rows_of_all_they_show() -> None:
    rows = [MadeRow(f"mt-t{n}-r0", "", f"threads={n} remote=0") for n in (1, 2, 4)]
    runs = [make_run(row, at, name, name == "hz3") for at, row in enumerate(rows) for name in ("glibc", "hz3")]
    older = [dataclasses.replace(run, commit="0000001", started="2026-01-01T00:00:00+00:00") for run in runs]
    recording = _recording(*runs)
    found = history.collect(recording, [_recording(*older, name="older.csv")])
    with page.svg.settings():
        builder = page.Builder(facts.collect(recording), found, lambda _: None)
        (group,) = builder.scaling("threads")
        together = builder.history_pictures()[0]
    assert [link for _, link in group.links] == [f"#raw.mt-t{n}-r0" for n in (1, 2, 4)]
    assert (together.about, [link for _, link in together.links]) == ("3 of 3 rows", ["#raw"])
    text = page.render(recording, found)
    summary = text[text.index('id="summary"') : text.index('id="maps"')]
    assert '<a href="#raw">raw rows and commands</a>' in summary


def test_every_table_can_be_sorted() -> None:
    tables = re.findall(r"<table[^>]*>", _page(make_run(FAST, 0, "glibc"), make_run(FAST, 0, "hz3", failure="x")))
    assert len(tables) == 2 + 1 + 1 + 2
    assert all('class="sortable"' in table for table in tables)


def _pair(ours: float, peer: float = 10.0, row: MadeRow = FAST, **changes: object) -> list[Run]:
    return [make_run(row, 0, "glibc", value=peer, **changes), make_run(row, 0, "hz3", True, value=ours, **changes)]


def _names(found: history.History) -> list[tuple[str, tuple[str, ...]]]:
    return [(commit.name, commit.files) for commit in found.commits]


@pytest.mark.parametrize(
    "changes",
    [{"suite": "smoke"}, {"command": "LD_PRELOAD=x.so bench 6000000"}],
    ids=["suite", "amount of work"],
)
def test_other_work_stays_out_of_the_history(changes: dict[str, object]) -> None:
    current = _recording(*_pair(12.0))
    other = _recording(*_pair(20.0, commit="0000001", **changes), name="other.csv")
    found = history.collect(current, [other])
    assert _names(found) == [("71ce0b5", ("made.csv",))]
    assert len(found.remarks) == 1 and "other.csv" in found.remarks[0]


def test_the_preload_is_no_difference() -> None:
    commands = ("bench 4 'a b'", "LD_PRELOAD=build/x.so bench 4 'a b'", "A='1 2' B=3 LD_PRELOAD='p q.so' bench 4 'a b'")
    assert {history.work_of(command) for command in commands} == {"bench 4 'a b'"}
    assert history.work_of("A=1 bench 4") != history.work_of("bench 4")
    assert history.work_of("redis hakobench-ab12_xyz") == history.work_of("redis hakobench-zz34qrst")


def test_a_peer_that_failed_before_its_command_was_known_is_seen() -> None:
    current = _recording(*_pair(12.0))
    runs = [*_pair(20.0, commit="0000001"), make_run(FAST, 0, "jemalloc", failure="x", command="", commit="0000001")]
    found = history.collect(current, [_recording(*runs, name="other.csv")])
    older = next(commit for commit in found.commits if commit.name == "0000001")
    assert older.ratios("hz3") == {}


def test_ratios_are_taken_within_a_file() -> None:
    quiet = _recording(*_pair(20.0, 10.0), name="quiet.csv")
    busy = _recording(*_pair(4.0, 1.0), name="busy.csv")
    (commit,) = history.collect(quiet, [busy]).commits
    assert set(commit.files) == {"quiet.csv", "busy.csv"}
    assert commit.ratios("hz3") == {"fast": pytest.approx(8**0.5)}


def test_uncommitted_states_are_not_merged() -> None:
    first = _recording(*_pair(20.0, commit="71ce0b5-dirty"), name="first.csv")
    second = _recording(*_pair(5.0, commit="71ce0b5-dirty"), name="second.csv")
    found = history.collect(first, [second])
    assert sorted(_names(found)) == [("71ce0b5-dirty", ("first.csv",)), ("71ce0b5-dirty", ("second.csv",))]
    assert sorted(commit.ratios("hz3")["fast"] for commit in found.commits) == [0.5, 2.0]


def test_the_mean_of_commits_has_the_same_rows_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    current = _recording(*_pair(20.0), *_pair(5.0, row=OTHER))
    older = _recording(*_pair(10.0, commit="0000001", started="2026-01-01T00:00:00+00:00"), name="older.csv")
    drawn = []
    original = page.plots.lines
    monkeypatch.setattr(page.plots, "lines", lambda series, *a, **k: drawn.append(series) or original(series, *a, **k))
    found = facts.collect(current)
    with page.svg.settings():
        pictures = page.Builder(found, history.collect(current, [older]), lambda _: None).history_pictures()
    assert [picture.title for picture in pictures] == ["rows of all commits, geometric mean", "fast"]
    assert pictures[0].about == "1 of 2 rows"
    assert [one.y for one in drawn[0]] == [pytest.approx((1.0, 2.0))]
    assert "hz3" in theme.looks({library.name: library.ours for library in found.libraries})


def test_commits_without_common_rows_have_no_mean() -> None:
    current = _recording(*_pair(20.0), *_pair(5.0, row=OTHER))
    one = _recording(*_pair(10.0, commit="0000001"), name="1.csv")
    two = _recording(*_pair(10.0, row=OTHER, commit="0000002"), name="2.csv")
    with page.svg.settings():
        found = history.collect(current, [one, two])
        pictures = page.Builder(facts.collect(current), found, lambda _: None).history_pictures()
    assert [picture.title for picture in pictures] == ["fast", "other"]


def test_a_file_is_read_once_and_stands_for_itself(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.csv"
    writer = record.Writer(path)
    for run in _pair(12.0):
        writer.add(run, [])
    writer.close()
    found = history.collect(record.read(path), [record.read(path)])
    assert [commit.files for commit in found.commits] == [("x.csv",)]


def test_a_table_has_room_for_two_of_ours() -> None:
    def judged(*names: str) -> list[str]:
        return facts.collect(_recording(make_run(FAST, 0, "glibc"), *(make_run(FAST, 0, name, True) for name in names))).judged

    assert judged("hz3_scale", "variant") == ["hz3_scale", "variant"]
    assert judged("hz3_scale", "hz3_p32", "hz4") == ["hz3_scale", "hz4"]
    assert judged("one", "three", "two") == ["one", "three", "two"]
