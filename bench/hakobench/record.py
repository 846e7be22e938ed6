"""The raw results: one CSV line a run, each complete in itself (command, library, machine, commit, configuration).

A file is written line by line, so an interrupted suite leaves what it has, and `run --resume` goes on from there.
Beside X.csv there may be X.rss.csv: the RSS over time of the runs whose row asks for samples.
"""

import csv
import dataclasses
import fcntl
import os
import pathlib
from typing import TextIO

FLOAT_DIGITS = 6
RSS_SUFFIX = ".rss.csv"
RSS_COLUMNS = ("position", "time_ms", "rss_kb")


@dataclasses.dataclass
class Run:
    """One run of one row under one allocator. The fields are the columns, in this order.

    `row_index` is the row's place in its suite. `failure` empty: it ended well. `value` is the row's figure in `unit`; 0 after a failure. `marks` are words that
    say why the figure is to be doubted: busy, forced, noisy, fallback, unverified. `figures` holds everything the run
    told, as key=value words. `other_cpu_share` is what others used of the machine meanwhile (0..1), None when it was
    too short to tell. `ours`: the library is of this project, not a peer.
    """

    suite: str
    row_index: int
    row: str
    about: str
    tags: str
    params: str
    allocator: str
    ours: bool
    round: int
    position: int
    failure: str
    marks: str
    metric: str
    unit: str
    less_is_better: bool
    value: float
    wall_seconds: float
    cpu_seconds: float
    peak_rss_kb: int
    final_rss_kb: int
    other_cpu_share: float | None
    figures: str
    command: str
    library: str
    library_sha256: str
    library_version: str
    config: str
    program_sha256: str
    commit: str
    cpu: str
    cores: int
    kernel: str
    governor: str
    load: float
    busy_share: float
    seed: int
    scale: float
    started: str

    def figure(self, name: str) -> float | None:
        """One of `figures` as a number."""
        try:
            return float(words(self.figures)[name])
        except (KeyError, ValueError):
            return None


COLUMNS = tuple(field.name for field in dataclasses.fields(Run))
_TYPES = {field.name: field.type for field in dataclasses.fields(Run)}


@dataclasses.dataclass(frozen=True)
class RssSample:
    """`time_ms` since the start of the program."""

    position: int
    time_ms: int
    rss_kb: int


@dataclasses.dataclass(frozen=True)
class Recording:
    """What one CSV file holds."""

    path: pathlib.Path
    runs: list[Run]
    rss: list[RssSample]


def words(text: str) -> dict[str, str]:
    """The key=value words of a column."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def rss_path(path: pathlib.Path) -> pathlib.Path:
    """X.csv -> X.rss.csv."""
    return path.with_name(path.name.removesuffix(".csv") + RSS_SUFFIX)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{FLOAT_DIGITS}g}"
    return "".join(one if one.isprintable() else " " for one in str(value))  # a run is one line


def drop_torn_line(path: pathlib.Path) -> None:
    """Cuts off a last line without an end, which a killed writer may leave."""
    if path.exists():
        with path.open("r+b") as text:
            contents = text.read()
            text.truncate(contents.rfind(b"\n") + 1)


class Writer:
    """Appends runs to a file; a new or empty one gets the header. Every line is on the disk before the next run. Raises
    ValueError when somebody else is writing the same file."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out: TextIO = path.open("a", newline="", encoding="utf-8")
        try:
            fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._out.close()
            raise ValueError(f"'{path}' is being written by somebody else") from error
        is_new = path.stat().st_size == 0
        self._csv = csv.writer(self._out, lineterminator="\n")
        if is_new:
            self._write(COLUMNS)

    def _write(self, values: tuple[str, ...]) -> None:
        self._csv.writerow(values)
        self._out.flush()
        os.fsync(self._out.fileno())

    def add(self, run: Run, samples: list[tuple[int, int]]) -> None:
        """`samples`: (time_ms, rss_kb) of this run."""
        self._write(tuple(_text(getattr(run, column)) for column in COLUMNS))
        if samples:
            path = rss_path(self._path)
            is_new = not path.exists()
            with path.open("a", newline="", encoding="utf-8") as out:
                writer = csv.writer(out, lineterminator="\n")
                if is_new:
                    writer.writerow(RSS_COLUMNS)
                writer.writerows((run.position, *sample) for sample in samples)

    def close(self) -> None:
        self._out.close()


def _value(kind: object, text: str) -> object:
    if kind is bool:
        return {"yes": True, "no": False}[text]
    if kind == float | None:
        return float(text) if text else None
    return kind(text)  # str, int or float


def _run(path: pathlib.Path, line: int, values: list[str]) -> Run:
    if len(values) != len(COLUMNS):
        raise ValueError(f"{path}:{line}: {len(values)} columns, expected {len(COLUMNS)}: the line is cut off or edited")
    fields = {}
    for column, text in zip(COLUMNS, values, strict=True):
        try:
            fields[column] = _value(_TYPES[column], text)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{path}:{line}: column {column} is '{text}', not a value of its type") from error
    return Run(**fields)


def _lines(path: pathlib.Path, columns: tuple[str, ...]) -> list[tuple[int, list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as text:
            reader = csv.reader(text, strict=True)
            lines = [(reader.line_num, values) for values in reader]
    except OSError as error:
        raise ValueError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:1: not text in UTF-8: {error}") from error
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num}: {error}") from error
    if not lines or tuple(lines[0][1]) != columns:
        raise ValueError(f"{path}:1: the first line is not the header '{','.join(columns[:3])},...'")
    return lines[1:]


def read(path: pathlib.Path) -> Recording:
    """Raises ValueError `file:line: what is wrong`."""
    runs = [_run(path, line, values) for line, values in _lines(path, COLUMNS)]
    if not runs:
        raise ValueError(f"{path}:1: no runs in it")
    samples = []
    rss = rss_path(path)
    if rss.exists():
        for line, values in _lines(rss, RSS_COLUMNS):
            try:
                samples.append(RssSample(*map(int, values)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{rss}:{line}: '{','.join(values)}' is not position,time_ms,rss_kb") from error
    return Recording(path, runs, samples)
