"""The raw CSV: runs come back as they were written, and a damaged file is reported with its line."""

import csv
import dataclasses
import gzip
import math
import pathlib
from collections.abc import Callable

import pytest

from hakobench import record, summary
from hakobench.project import RESULTS_DIR
from hakobench.report import history


def a_run(**changes: object) -> record.Run:
    run = record.Run(
        suite="quick", row_index=0, row="args", about="one, two", tags="st", params="threads=2", allocator="glibc",
        ours=False, round=1, position=1, failure="", marks="", metric="ops_per_s", unit="M ops/s",
        less_is_better=False, value=1.5, wall_seconds=0.25, cpu_seconds=0.5, peak_rss_kb=2048, final_rss_kb=1024,
        other_cpu_share=None, figures="p99_us=12.5 result=abc", command='x "y"', library="", library_sha256="",
        library_version="2.36", config="", program_sha256="", commit="abc", cpu="cpu", cores=2, kernel="6",
        governor="none", load=0.1, busy_share=0.0, seed=7, scale=1.0, started="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    return dataclasses.replace(run, **changes)


def written(path: pathlib.Path, runs: list[record.Run], samples: list[tuple[int, int]] | None = None) -> pathlib.Path:
    writer = record.Writer(path)
    for run in runs:
        writer.add(run, samples or [])
    writer.close()
    return path


def test_runs_come_back(tmp_path: pathlib.Path) -> None:
    runs = [
        a_run(),
        a_run(position=2, ours=True, other_cpu_share=0.25, failure='killed by SIGSEGV, the "end"', value=0.0),
    ]
    path = written(tmp_path / "x.csv", runs[:1], [(0, 100), (20, 300)])
    written(path, runs[1:], [(0, 50)])
    recording = record.read(path)
    assert recording.runs == runs
    assert [dataclasses.astuple(sample) for sample in recording.rss] == [(1, 0, 100), (1, 20, 300), (2, 0, 50)]
    assert record.words(recording.runs[0].params) == {"threads": "2"}
    assert recording.runs[0].figure("p99_us") == 12.5
    assert recording.runs[0].figure("result") is None


def packed(path: pathlib.Path) -> pathlib.Path:
    """The file packed, in place of itself."""
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


def test_packed_runs_come_back(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "x.csv", [a_run(), a_run(position=2, row="other")], [(0, 100), (20, 300)])
    plain = record.read(path)
    assert len(plain.rss) == 4
    target = packed(path)
    assert record.read(target).rss == []
    packed(record.rss_path(path))
    assert record.read(target) == dataclasses.replace(plain, path=target)
    assert [record.stem(one) for one in (path, target)] == ["x", "x"]
    written(tmp_path / "y.csv", [a_run()], [(0, 100)])
    assert [one.name for one in history.csv_files(tmp_path)] == ["x.csv.gz", "y.csv"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-20], "cannot unpack '.*x.csv.gz': Compressed file ended before"),
        (lambda data: data[:20] + bytes([data[20] ^ 0xFF]) + data[21:], "cannot unpack '.*x.csv.gz': "),
        (lambda data: b"row,allocator\n", "cannot unpack '.*x.csv.gz': Not a gzipped file"),
        (lambda data: gzip.compress(b"other\n"), "x.csv.gz:1: the first line is not the header"),
    ],
)
def test_a_damaged_packed_file_is_named(tmp_path: pathlib.Path, damage: Callable[[bytes], bytes], message: str) -> None:
    path = packed(written(tmp_path / "x.csv", [a_run()]))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        record.read(path)


def test_a_run_is_one_line(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "x.csv", [a_run(failure="first\r\nsecond\tthird"), a_run(position=2)])
    assert [run.failure for run in record.read(path).runs] == ["first  second third", ""]


def test_constants_stand_once(tmp_path: pathlib.Path) -> None:
    """Each scope has one line, another when a value changes, and all again after the file was reopened."""
    runs = [a_run(round=number, position=number) for number in (1, 2, 3)]
    runs += [a_run(position=4, allocator="hz4", ours=True, config="shards=63"), a_run(position=5, row="other")]
    runs += [a_run(position=6, commit="def"), a_run(position=7, command="another")]
    path = written(tmp_path / "x.csv", runs)
    lines = path.read_text(encoding="utf-8").splitlines()
    count = {name: sum(line.startswith(f"# {name},") for line in lines) for name in record.SCOPES}
    assert count == {"file": 3, "row": 2, "allocator": 2, "cell": 4}
    assert len(lines) == 1 + sum(count.values()) + len(runs)
    written(path, [a_run(position=8)])
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(lines) + len(record.SCOPES) + 1
    assert record.read(path).runs == [*runs, a_run(position=8)]


def old_format(path: pathlib.Path, runs: list[record.Run]) -> pathlib.Path:
    """Writes a file like older versions: every column in every line."""
    with path.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(record.OLD_COLUMNS)
        for run in runs:
            values = dataclasses.asdict(run) | {
                "ours": "yes" if run.ours else "no",
                "less_is_better": "no",
                "other_cpu_share": "" if run.other_cpu_share is None else run.other_cpu_share,
            }
            writer.writerow([values[column] for column in record.OLD_COLUMNS])
    return path


def test_files_of_older_versions_can_be_read_but_not_appended_to(tmp_path: pathlib.Path) -> None:
    runs = [a_run(), a_run(position=2, ours=True, other_cpu_share=0.25, failure="# file,x")]
    path = old_format(tmp_path / "x.csv", runs)
    before = path.read_bytes()
    assert record.read(path).runs == runs
    with pytest.raises(ValueError, match=r"x\.csv' has the format of an older hakobench: it can be read, but not"):
        record.Writer(path)
    assert path.read_bytes() == before
    assert record.has_run(path)


def test_an_interrupted_file_keeps_its_runs(tmp_path: pathlib.Path) -> None:
    """Wherever a writer was killed, the complete runs can be read, and a new writer appends to them."""
    runs = [a_run(), a_run(position=2, allocator="hz4", ours=True), a_run(position=3, row="other")]
    whole = written(tmp_path / "whole.csv", runs).read_bytes()
    lines = whole.splitlines(keepends=True)
    ends = [sum(map(len, lines[: at + 1])) for at, line in enumerate(lines) if at and not line.startswith(b"#")]
    path = tmp_path / "x.csv"
    for size in range(len(lines[0]), len(whole)):
        path.write_bytes(whole[:size])
        record.drop_torn_line(path)
        done = sum(end <= size for end in ends)
        assert record.has_run(path) == (done > 0)
        written(path, runs[done:])
        assert record.read(path).runs == runs


def test_torn_lines_are_dropped(tmp_path: pathlib.Path) -> None:
    """Even when the cut is within the last column, so that the number of columns is right."""
    path = written(tmp_path / "x.csv", [a_run(), a_run(position=2)], [(0, 100)])
    for file in (path, record.rss_path(path)):
        with file.open("r+b") as text:
            text.truncate(file.stat().st_size - 3)
        record.drop_torn_line(file)
    assert [run.position for run in record.read(path).runs] == [1]
    assert len(record.read(path).rss) == 1
    record.drop_torn_line(tmp_path / "none.csv")


def test_only_one_writes(tmp_path: pathlib.Path) -> None:
    writer = record.Writer(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"another process is writing '.*x\.csv'"):
        record.Writer(tmp_path / "x.csv")
    writer.close()
    record.Writer(tmp_path / "x.csv").close()


def edited(path: pathlib.Path, old: str, new: str) -> pathlib.Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",1.5,", ",fast,", r"x\.csv:6: column value is 'fast', not a value of its type"),
        ("ours=no", "ours=perhaps", r"x\.csv:4: column ours is 'perhaps'"),
        (",2026-01-01T00:00:00+00:00", "", r"x\.csv:6: \d+ columns, expected \d+"),
        ("row,allocator,round", "row,round,allocator",
         r"x\.csv:1: the first line is not the header 'row,allocator,round,\.\.\.' or 'suite,row_index,row,\.\.\.'"),
        ('"about=one, two"', '"about=one, two', r"x\.csv:\d+: "),
        ("# file", "# folder", r"x\.csv:2: constants of 'folder'; allowed: file, row, allocator, cell"),
        (",commit=abc", "", r"x\.csv:2: a line of constants of a file gives suite, commit, .*; this one does not"),
        (",commit=abc", ",commit=abc,commit=abc", r"x\.csv:2: a line of constants of a file gives suite, commit"),
        ("# cell,args,glibc", "# cell,args,hz4", r"x\.csv:6: no line '# cell,args,glibc,\.\.\.' stands above this run"),
    ],
)  # fmt: skip
def test_damaged_results_are_reported_with_their_line(tmp_path: pathlib.Path, old: str, new: str, message: str) -> None:
    path = edited(written(tmp_path / "x.csv", [a_run()]), old, new)
    with pytest.raises(ValueError, match=message):
        record.read(path)


def test_files_that_are_no_results(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read '.*none\.csv': No such file"):
        record.read(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"bytes\.csv:1: not text in UTF-8"):
        record.read(tmp_path / "bytes.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match=r"empty\.csv:1: the first line is not the header"):
        record.read(tmp_path / "empty.csv")
    path = written(tmp_path / "norun.csv", [])
    with pytest.raises(ValueError, match=r"norun\.csv:1: no runs in it"):
        record.read(path)
    path = written(tmp_path / "x.csv", [a_run()], [(0, 100)])
    edited(record.rss_path(path), "1,0,100", "1,zero,100")
    with pytest.raises(ValueError, match=r"x\.rss\.csv:2: '1,zero,100' is not position,time_ms,rss_kb"):
        record.read(path)


def test_summary_of_a_row() -> None:
    runs = [
        a_run(round=turn, allocator=name, ours=name == "mine", value=value, peak_rss_kb=rss, other_cpu_share=0.01)
        for name, values, rss in (
            ("glibc", (1.0, 2.0, 9.0), 1024), ("fat", (10.0, 11.0, 14.0), 8192), ("mine", (12.0, 22.0, 24.0), 4096)
        )
        for turn, value in enumerate(values, 1)
    ]  # fmt: skip
    (line,) = summary.lines(runs)
    assert [(cell.allocator, cell.value) for cell in line.cells.values()] == [("fat", 11), ("glibc", 2), ("mine", 22)]
    assert line.cells["fat"].spread == pytest.approx(2 / 11)
    assert line.best_peer.allocator == "fat"
    of_rounds = (12 / 10) * (22 / 11) * (24 / 14)
    assert line.ratio_to_best("mine") == pytest.approx(of_rounds ** (1 / 3))
    assert line.rss_ratio("mine") is None  # no peer reaches 0.8 of its speed
    assert line.rss_ratio("fat") == 1.0  # glibc is too slow to count, so the leanest peer of its speed is itself
    assert not line.is_noisy


def test_a_ratio_is_of_the_rounds_that_both_have() -> None:
    """The third round was interrupted; and a round that a file has twice gives two pairs."""
    runs = [
        a_run(round=turn, allocator=name, ours=name == "mine", value=value)
        for name, values in (("glibc", ((1, 1.0), (2, 4.0), (2, 5.0), (3, 900.0))), ("mine", ((1, 2.0), (2, 8.0), (2, 10.0))))
        for turn, value in values
    ]  # fmt: skip
    (line,) = summary.lines(runs)
    assert line.log_ratios("mine", "glibc") == pytest.approx([math.log(2.0)] * 3)
    assert line.ratio_to_best("mine") == pytest.approx(2.0)
    alone = [dataclasses.replace(run, round=run.round + 9 * run.ours) for run in runs]
    (line,) = summary.lines(alone)
    assert (line.ratio_to_best("mine"), line.standing_to_best("mine")) == (None, None)


def test_stolen_time_of_a_row() -> None:
    shares = (0.0, None, 0.02, 0.3)
    (line,) = summary.lines([a_run(round=turn, stolen_share=share) for turn, share in enumerate(shares)])
    assert (line.stolen_share, line.is_noisy) == (0.02, False)
    (line,) = summary.lines([a_run(stolen_share=0.3, other_cpu_share=0.01)])
    assert (line.is_noisy, line.noise) == (True, "others used 1%, the host took 30%")
    (line,) = summary.lines([a_run(other_cpu_share=0.01)])
    assert (line.stolen_share, line.noise) == (None, "others used 1%")


def test_summary_where_less_is_better_and_runs_fail() -> None:
    runs = [
        a_run(allocator="slow", value=4.0, less_is_better=True),
        a_run(allocator="quick", value=1.0, less_is_better=True),
        a_run(allocator="mine", ours=True, value=2.0, less_is_better=True),
        a_run(allocator="broken", value=0.0, failure="exit code 1", less_is_better=True, marks="noisy"),
    ]
    (line,) = summary.lines(runs)
    assert line.best_peer.allocator == "quick"
    assert line.ratio_to_best("mine") == 0.5
    assert line.speed_ratio("mine", "slow") == 2.0
    assert line.speed_ratio("mine", "broken") is None
    assert line.cells["broken"].failed
    assert line.cells["broken"].marks == {"noisy"}
    assert line.failed_peers == ("broken",)


def test_no_peer_is_too_slow_for_memory_rows() -> None:
    rss = {"metric": "peak_rss_kb", "unit": "MiB peak", "less_is_better": True}
    runs = [
        a_run(allocator="fat", value=15.0, peak_rss_kb=15 * 1024, **rss),
        a_run(allocator="mine", ours=True, value=10.0, peak_rss_kb=10 * 1024, **rss),
    ]
    (line,) = summary.lines(runs)
    assert line.rss_ratio("mine") == pytest.approx(10 / 15)
    (line,) = summary.lines([runs[0], dataclasses.replace(runs[1], peak_rss_kb=0)])
    assert line.rss_ratio("mine") is None


def test_rows_keep_the_order_of_the_suite() -> None:
    runs = [a_run(row="b", row_index=1), a_run(row="a", row_index=0, position=2)]
    assert [line.row for line in summary.lines(runs)] == ["a", "b"]


def test_a_file_from_before_the_figures_side_by_side(tmp_path: pathlib.Path) -> None:
    """Its lines of constants lack `also`; they can be read, and a new writer appends to them."""
    path = written(tmp_path / "x.csv", [a_run()])
    text = path.read_text(encoding="utf-8")
    assert text.count(",also=,") == 1
    path.write_text(text.replace(",also=,", ","), encoding="utf-8")
    assert record.read(path).runs == [a_run()]
    written(path, [a_run(position=2, also="p99_us peak_rss_kb")])
    assert [run.also for run in record.read(path).runs] == ["", "p99_us peak_rss_kb"]


def test_a_file_from_before_stolen_time(tmp_path: pathlib.Path) -> None:
    """Its header and its runs lack the column, its rows what judges them: the figure does. It cannot be appended to."""
    runs = [a_run(), a_run(position=2, round=2, other_cpu_share=0.5)]
    path = written(tmp_path / "x.csv", runs)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].endswith(",stolen_share") and sum(",judged_by=figure," in line for line in lines) == 1
    old = [line if line.startswith("#") else line.rpartition(",")[0] for line in lines]
    path.write_text("".join(f"{line.replace(',judged_by=figure,', ',')}\n" for line in old), encoding="utf-8")
    read = record.read(path).runs
    assert read == runs
    assert {(run.judged_by, run.stolen_share) for run in read} == {("figure", None)}
    with pytest.raises(ValueError, match=r"x\.csv' has the format of an older hakobench"):
        record.Writer(path)


@pytest.mark.parametrize("name", ["apps", "large", "quick", "rss", "seeds"])
def test_the_results_of_the_repository_can_be_read(name: str) -> None:
    """Whatever version wrote them."""
    (path,) = (path for path in history.csv_files(RESULTS_DIR) if path.name.startswith(f"{name}-"))
    assert all(run.speed > 0 for run in record.read(path).runs if not run.failure)


def test_what_judges_a_run(tmp_path: pathlib.Path) -> None:
    runs = [a_run(judged_by="cpu", stolen_share=0.0625), a_run(position=2, row="other", value=4.0, less_is_better=True)]
    read = record.read(written(tmp_path / "x.csv", runs)).runs
    assert read == runs
    assert [run.speed for run in read] == [2.0, 0.25]
    assert a_run().speed == 1.5
    assert [a_run(judged_by="cpu", cpu_seconds=0.0).speed, a_run(value=0.0, less_is_better=True).speed] == [0.0, 0.0]


def test_figures_side_by_side_are_medians_in_their_units() -> None:
    runs = [
        a_run(also="peak_rss_kb live_kb gone", figures=f"peak_rss_kb={kb} live_kb=512", position=at, round=at)
        for at, kb in enumerate((1024, 4096, 2048), 1)
    ]
    runs += [a_run(allocator="jemalloc", also="peak_rss_kb live_kb gone", figures="peak_rss_kb=1024 live_kb=0")]
    runs += [a_run(allocator="hz4", ours=True, also="peak_rss_kb live_kb gone", figures="peak_rss_kb=1 live_kb=512")]
    (line,) = summary.lines(runs)
    assert [column[0] for column in line.columns] == ["ops_per_s", "peak_rss_kb", "live_kb", "gone"]
    assert [column[1] for column in line.columns] == ["M ops/s", "MiB peak", "MiB live", "gone"]
    assert [line.figure_of("glibc", name) for name, _, _ in line.columns] == [1.5, 2.0, 0.5, None]
    assert [summary.cell_text(line, "jemalloc", name) for name, _, _ in line.columns] == ["1.50", "1.00", "0", "–"]
    assert line.best_of("peak_rss_kb", True) == "jemalloc"  # ours are no peers
    assert line.best_of("live_kb", True) is None
    assert line.best_of("gone", True) is None
