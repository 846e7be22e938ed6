"""The raw results of a run of a suite: one CSV file, one line a run.

    row,allocator,round,position,failure,...                      the header: the columns that differ from run to run
    # file,suite=quick,commit=ffba472,cpu=...                     constants of the file,
    # row,mt-t2-r90,row_index=5,metric=ops_per_s,...              of a row,
    # allocator,hz4,ours=yes,library=build/lib/...,config=...     of an allocator,
    # cell,mt-t2-r90,hz4,command=LD_PRELOAD=...                   and of a row under an allocator
    mt-t2-r90,hz4,1,1,,,26.01,...                                 a run

A line of constants holds for the runs below it until the next line for the same row or allocator. The writer adds one
whenever a constant is new or has changed, so all constants of a run stand above it: an interrupted suite keeps what it
has, and `run --resume` appends to it. Files of older versions lack columns and constants (LATER), and the oldest repeat
every column in every line; `read` reads all of them. Beside X.csv there can be X.rss.csv: the RSS over time of the runs
whose row asks for samples. `read` also reads X.csv.gz and X.rss.csv.gz, both as gzip makes them; nothing is appended to
these.
"""

import csv
import dataclasses
import fcntl
import gzip
import io
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from typing import TextIO

from hakobench.rows import BY_CPU, BY_FIGURE

FLOAT_DIGITS = 6
SUFFIX = ".csv"
RSS_SUFFIX = ".rss.csv"
PACKED = ".gz"
RSS_COLUMNS = ("position", "time_ms", "rss_kb")


@dataclasses.dataclass
class Run:
    """One run of one row under one allocator.

    `row_index` is the row's place in its suite. An empty `failure` means that the run ended well. `value` is the row's
    figure in `unit`, 0 after a failure. `marks` are words that cast doubt on the figure: busy, forced, noisy, stolen,
    fallback, unverified. `figures` holds every figure of the run as key=value words. `other_cpu_share` is the share of the
    machine (0..1) that other processes used during the run, `stolen_share` the one that the host took from it (in older
    files part of `other_cpu_share`); None when the run was too short to tell. `ours` is true for a library of this
    project, false for a peer. `also` are the names of the figures that reports show beside `metric`. `judged_by` is
    that of the row (hakobench.rows).
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
    also: str = ""
    judged_by: str = BY_FIGURE
    stolen_share: float | None = None

    @property
    def speed(self) -> float:
        """What the run is judged by, as a number that is higher for a better run; 0 without one. Only the ratio of two
        speeds of the same row means something."""
        if self.judged_by == BY_CPU:
            return 1 / self.cpu_seconds if self.cpu_seconds > 0 else 0.0
        if self.less_is_better:
            return 1 / self.value if self.value > 0 else 0.0
        return self.value

    def figure(self, name: str) -> float | None:
        """The number that `figures` gives for `name`; None without one."""
        try:
            return float(words(self.figures)[name])
        except (KeyError, ValueError):
            return None


@dataclasses.dataclass(frozen=True)
class Scope:
    """What `constants` are the same for: all runs that agree in the columns `keys`."""

    keys: tuple[str, ...]
    constants: tuple[str, ...]


SCOPES = {
    "file": Scope(
        (), ("suite", "commit", "cpu", "cores", "kernel", "governor", "load", "busy_share", "seed", "scale")
    ),
    "row": Scope(
        ("row",),
        (
            "row_index", "about", "tags", "params", "metric", "unit", "less_is_better", "also", "judged_by",
            "program_sha256",
        ),
    ),  # fmt: skip
    "allocator": Scope(("allocator",), ("ours", "library", "library_sha256", "library_version", "config")),
    "cell": Scope(("row", "allocator"), ("command",)),
}
CONSTANT = "# "  # begins a line of constants
_TYPES = {field.name: field.type for field in dataclasses.fields(Run)}
LATER = ("also", "judged_by", "stolen_share")  # what files of older versions lack; they mean the defaults of Run
OLD_COLUMNS = tuple(name for name in _TYPES if name not in LATER)  # every column in every line, as the oldest files
COLUMNS = tuple(name for name in _TYPES if all(name not in scope.constants for scope in SCOPES.values()))
EARLIER_COLUMNS = tuple(name for name in COLUMNS if name not in LATER)


@dataclasses.dataclass(frozen=True)
class RssSample:
    """The RSS of the run `position`, `time_ms` after the start of its program."""

    position: int
    time_ms: int
    rss_kb: int


@dataclasses.dataclass(frozen=True)
class Recording:
    """The contents of one CSV file."""

    path: pathlib.Path
    runs: list[Run]
    rss: list[RssSample]


def words(text: str) -> dict[str, str]:
    """The key=value words of a column, as a dictionary."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def stem(path: pathlib.Path) -> str:
    """X of X.csv and of X.csv.gz."""
    return path.name.removesuffix(PACKED).removesuffix(SUFFIX)


def rss_path(path: pathlib.Path) -> pathlib.Path:
    """X.csv -> X.rss.csv, X.csv.gz -> X.rss.csv.gz."""
    return path.with_name(stem(path) + RSS_SUFFIX + (PACKED if path.suffix == PACKED else ""))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{FLOAT_DIGITS}g}"
    return "".join(one if one.isprintable() else " " for one in str(value))  # a run is one line


def drop_torn_line(path: pathlib.Path) -> None:
    """Cuts off a last line without a newline, which a killed writer can leave."""
    if path.exists():
        with path.open("r+b") as text:
            contents = text.read()
            text.truncate(contents.rfind(b"\n") + 1)


def has_run(path: pathlib.Path) -> bool:
    """Whether a complete line of a run stands in the file."""
    lines = path.read_bytes().split(b"\n")[1:-1]  # after the last newline stands nothing, or a torn line
    return any(not line.startswith(CONSTANT.encode()) for line in lines)


def _line(values: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


class Writer:
    """Appends runs to a file; a new or empty file gets the header. Each run is on the disk before the next one starts.

    Raises ValueError when another process is writing the file, or when the file has the format of an older version.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._written: dict[tuple[str, ...], str] = {}  # the newest line of constants for each scope and its keys
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out: TextIO = path.open("a", newline="", encoding="utf-8")
        try:
            fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._out.close()
            raise ValueError(f"another process is writing '{path}'") from error
        if path.stat().st_size == 0:
            self._append(_line(COLUMNS))
        elif not path.read_bytes().startswith(_line(COLUMNS).encode()):
            self._out.close()
            raise ValueError(f"'{path}' has the format of an older hakobench: it can be read, but not appended to")

    def _append(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        os.fsync(self._out.fileno())

    def _constants(self, run: Run) -> Iterator[str]:
        """The lines of constants that `run` needs above it and that do not stand there yet."""
        for name, scope in SCOPES.items():
            keys = (name, *(_text(getattr(run, key)) for key in scope.keys))
            texts = (f"{constant}={_text(getattr(run, constant))}" for constant in scope.constants)
            line = _line([CONSTANT + name, *keys[1:], *texts])
            if self._written.get(keys) != line:
                self._written[keys] = line
                yield line

    def add(self, run: Run, samples: list[tuple[int, int]]) -> None:
        """Appends `run` and its RSS samples, pairs (time_ms, rss_kb)."""
        values = _line(_text(getattr(run, column)) for column in COLUMNS)
        self._append("".join([*self._constants(run), values]))
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


def _typed(where: str, texts: dict[str, str]) -> dict[str, object]:
    fields = {}
    for column, text in texts.items():
        try:
            fields[column] = _value(_TYPES[column], text)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{where}: column {column} is '{text}', not a value of its type") from error
    return fields


def _constants(where: str, values: list[str]) -> tuple[tuple[str, ...], dict[str, object]]:
    """A line of constants: the name of its scope with its keys, and the values it gives."""
    name = values[0].removeprefix(CONSTANT)
    if name not in SCOPES:
        raise ValueError(f"{where}: constants of '{name}'; allowed: {', '.join(SCOPES)}")
    scope = SCOPES[name]
    end = 1 + len(scope.keys)
    texts = dict(value.split("=", 1) for value in values[end:] if "=" in value)
    needed = tuple(constant for constant in scope.constants if constant in texts or constant not in LATER)
    if tuple(texts) != needed or len(texts) != len(values) - end:
        raise ValueError(f"{where}: a line of constants of a {name} gives {', '.join(scope.constants)}; this one does not")
    return (name, *values[1:end]), _typed(where, texts)


def _runs(path: pathlib.Path, columns: tuple[str, ...], lines: list[tuple[int, list[str]]]) -> Iterator[Run]:
    scopes = {} if columns == OLD_COLUMNS else SCOPES  # in the oldest format every line is complete
    constants: dict[tuple[str, ...], dict[str, object]] = {}
    for line, values in lines:
        where = f"{path}:{line}"
        if scopes and values and values[0].startswith(CONSTANT):
            keys, found = _constants(where, values)
            constants[keys] = found
            continue
        if len(values) != len(columns):
            raise ValueError(f"{where}: {len(values)} columns, expected {len(columns)}: the line is cut off or edited")
        fields = _typed(where, dict(zip(columns, values, strict=True)))
        for name, scope in scopes.items():
            keys = (name, *(fields[key] for key in scope.keys))
            if keys not in constants:
                raise ValueError(f"{where}: no line '{','.join([CONSTANT + name, *keys[1:]])},...' stands above this run")
            fields |= constants[keys]
        yield Run(**fields)


def _open(path: pathlib.Path) -> TextIO:
    if path.suffix == PACKED:
        return gzip.open(path, "rt", newline="", encoding="utf-8")
    return path.open(newline="", encoding="utf-8")


def _lines(path: pathlib.Path, *headers: tuple[str, ...]) -> tuple[tuple[str, ...], list[tuple[int, list[str]]]]:
    """The header, which is one of `headers`, and the lines below it with their numbers."""
    try:
        with _open(path) as text:
            reader = csv.reader(text, strict=True)
            lines = [(reader.line_num, values) for values in reader]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"cannot unpack '{path}': {error}") from error
    except OSError as error:
        raise ValueError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:1: not text in UTF-8: {error}") from error
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num}: {error}") from error
    if not lines or tuple(lines[0][1]) not in headers:
        known = " or ".join(dict.fromkeys(f"'{','.join(columns[:3])},...'" for columns in headers))
        raise ValueError(f"{path}:1: the first line is not the header {known}")
    return tuple(lines[0][1]), lines[1:]


def read(path: pathlib.Path) -> Recording:
    """Raises ValueError `file:line: what is wrong`."""
    runs = list(_runs(path, *_lines(path, COLUMNS, EARLIER_COLUMNS, OLD_COLUMNS)))
    if not runs:
        raise ValueError(f"{path}:1: no runs in it")
    samples = []
    rss = rss_path(path)
    if rss.exists():
        for line, values in _lines(rss, RSS_COLUMNS)[1]:
            try:
                samples.append(RssSample(*map(int, values)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{rss}:{line}: '{','.join(values)}' is not position,time_ms,rss_kb") from error
    return Recording(path, runs, samples)
