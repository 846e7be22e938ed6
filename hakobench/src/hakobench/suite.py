"""Suites: the rows to run, read from TOML.

    about = "one line"
    rounds = 5
    peers = ["jemalloc-background"]              # optional peers that take part

    [[row]]
    name = "mt-t{threads}-r{remote}"             # unique after the placeholders are filled in
    about = "{threads} threads, {remote} % of the frees by the next thread"
    workload = "bench_random_mixed_mt_remote_malloc"   # a program of bench/workloads, or of the driver
    driver = "program"                           # of hakobench.drivers; this is the default
    args = ["{threads}", "{work}", "400", "16", "2048", "{remote}", "1024", "--full=wait"]
    metric = "ops_per_s"                         # one of METRICS; the row's figure
    judged_by = "figure"                         # or "cpu": see below
    also = ["peak_rss_kb"]                       # METRICS that a table shows beside it
    work = 16_000_000                            # amount of work; {work} is work x scale / {threads} (or / 1)
    tags = ["mt", "r{remote}"]
    params = { low = 16 }                        # more placeholders, kept in the raw results
    each = { threads = [2, 4], remote = [0, 90] }      # one row for each combination
    output = "keep"                              # or "discard": stdout to /dev/null; then only metrics of the process
    rss_every_ms = 0                             # time between samples of the RSS; 0: none
    timeout = 120                                # seconds

    [[seed]]                                     # what the project's five documents measured
    row = "mt-t16-r90"
    ours = "hz4"
    against = "tcmalloc"
    ratio = 0.96
    source = "004, section 1"

What judges a row. `judged_by = "cpu"` is the CPU time of the process, user and system, from its start to its end: time in
which other processes or the host have the cpu does not count. It is the default where the metric is a rate or the time
of the row's work (Metric.of_work) and `threads` is 1 or absent. With more threads the default is "figure", the metric
itself, because threads that wait for each other use no CPU time. A row says what judges it where the default is wrong:
"figure" for threads that no parameter names, and for a program of which only a part is measured; "cpu" for several
threads that do not wait for each other's blocks.
"""

import dataclasses
import fnmatch
import itertools
import pathlib
import re
import string
import tomllib
from collections.abc import Sequence

from hakobench import peers
from hakobench.drivers.registry import DRIVERS
from hakobench.rows import BY_CPU, BY_FIGURE, JUDGING, METRICS, NAME, Row

OWN_ROUNDS = 7
OWN_TIMEOUT = 3600.0  # seconds, for a run of a caller's program
SUITES_DIR = pathlib.Path(__file__).parent / "suites"


@dataclasses.dataclass(frozen=True)
class SeedRatio:
    """What the project's five documents measured: the speed of `ours` as a multiple of that of `against`."""

    row: str
    ours: str
    against: str
    ratio: float
    source: str


@dataclasses.dataclass(frozen=True)
class Suite:
    """`rounds` is the default number of runs of each cell. `peers` are the optional peers that take part in it."""

    name: str
    about: str
    rounds: int
    rows: tuple[Row, ...]
    seeds: tuple[SeedRatio, ...] = ()
    peers: tuple[str, ...] = ()

    def select(self, patterns: str | None) -> tuple[Row, ...]:
        """The rows whose name matches one of the comma-separated names and shell patterns, or that have a tag `@TAG`.

        Raises ValueError that names a pattern without a match, and all rows."""
        if patterns is None:
            return self.rows
        wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
        for pattern in wanted:
            if not any(_matches(row, pattern) for row in self.rows):
                names = ", ".join(row.name for row in self.rows)
                raise ValueError(f"suite {self.name} has no row '{pattern}'; rows: {names}")
        return tuple(row for row in self.rows if any(_matches(row, pattern) for pattern in wanted))


def _matches(row: Row, pattern: str) -> bool:
    return pattern[1:] in row.tags if pattern.startswith("@") else fnmatch.fnmatchcase(row.name, pattern)


class _Table:
    """One table of the file. Its errors name file and line."""

    def __init__(self, path: pathlib.Path, lines: list[str], start: int, end: int, values: dict):
        self._path = path
        self._lines = lines
        self._start = start
        self._end = end
        self.values = values

    def error(self, key: str, text: str) -> ValueError:
        pattern = re.compile(rf"\s*{re.escape(key)}\s*=")
        within = range(self._start, self._end)
        line = next((at for at in within if pattern.match(self._lines[at])), self._start)
        return ValueError(f"{self._path}:{line + 1}: {text}")

    def check_keys(self, allowed: set[str], required: set[str]) -> None:
        for key in self.values:
            if key not in allowed:
                raise self.error(key, f"unknown key '{key}'; allowed: {', '.join(sorted(allowed))}")
        for key in sorted(required - self.values.keys()):
            raise self.error("", f"key '{key}' is missing")

    def get(self, key: str, kind: type | tuple[type, ...], default=None):
        value = self.values.get(key, default)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(one.__name__ for one in kinds)
            raise self.error(key, f"{key} is {value!r}; allowed: a value of type {names}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None, whole: bool = True) -> float:
        value = self.get(key, int if whole else (int, float), default)
        if not low <= value <= high:
            raise self.error(key, f"{key} is {value}; allowed: {low:g} to {high:g}")
        return value


_ROW_KEYS = {field.name for field in dataclasses.fields(Row)} - {"discard_output"} | {"each", "output"}
_ROW_REQUIRED = {"name", "about", "workload", "metric"}
_SEED_KEYS = {field.name for field in dataclasses.fields(SeedRatio)}


def of_program(argv: Sequence[str], discard: bool) -> Suite:
    """A suite of one row: a program of the caller's. Raises ValueError for a name that no file can have."""
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", pathlib.Path(argv[0]).name).strip("-")
    if not name:
        raise ValueError(f"'{argv[0]}' is not the name of a program")
    about = "a program of the caller's"
    row = Row(
        name=name, about=about, workload=argv[0], driver="own", args=tuple(argv[1:]), metric="wall_seconds", work=0,
        tags=("own",), params={"cpus": "all"}, also=("cpu_seconds", "peak_rss_kb"), discard_output=discard,
        timeout=OWN_TIMEOUT,
    )  # fmt: skip
    return Suite(f"run-{name}", about, OWN_ROUNDS, (row,))


def names() -> list[str]:
    """The suites that come with the package."""
    return sorted(path.stem for path in SUITES_DIR.glob("*.toml"))


def load(name_or_path: str) -> Suite:
    """A suite of the package by its name, or a TOML file by its path (with a slash or .toml).

    Raises ValueError: for an unknown name with the names of all suites, else `file:line: what is wrong`."""
    is_path = name_or_path.endswith(".toml") or "/" in name_or_path
    path = pathlib.Path(name_or_path) if is_path else SUITES_DIR / f"{name_or_path}.toml"
    if not is_path and not path.is_file():
        raise ValueError(f"no suite is called '{name_or_path}'; there are: {', '.join(names())}, or a path to a .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read suite '{path}': {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        line = at.group(1) if at else str(len(text.splitlines()) or 1)
        raise ValueError(f"{path}:{line}: {error}") from error
    return _suite(path, text.splitlines() or [""], document)


def _tables(path: pathlib.Path, lines: list[str], document: dict, kind: str) -> list[_Table]:
    values = document.get(kind, [])
    heads = [at for at, line in enumerate(lines) if re.match(r"\s*\[", line)]
    starts = [at for at in heads if re.match(rf"\s*\[\[\s*{kind}\s*\]\]", lines[at])]
    if not isinstance(values, list) or len(starts) != len(values):
        raise ValueError(f"{path}:1: {kind} must be written as [[{kind}]] tables")
    tables = []
    for start, table in zip(starts, values, strict=True):
        end = next((at for at in heads if at > start and not lines[at].lstrip().startswith(f"[{kind}.")), len(lines))
        tables.append(_Table(path, lines, start, end, table))
    return tables


def _suite(path: pathlib.Path, lines: list[str], document: dict) -> Suite:
    top = _Table(path, lines, 0, len(lines), {k: v for k, v in document.items() if k not in ("row", "seed")})
    top.check_keys({"about", "rounds", "peers"}, {"about"})
    rounds = int(top.number("rounds", 1, 1000, 5))
    rows: list[Row] = []
    for table in _tables(path, lines, document, "row"):
        for row in _rows(table):
            if any(row.name == other.name for other in rows):
                raise table.error("name", f"two rows are called '{row.name}'")
            rows.append(row)
    if not rows:
        raise ValueError(f"{path}:1: no [[row]] in it")
    seeds = tuple(_seed(table, rows) for table in _tables(path, lines, document, "seed"))
    return Suite(path.stem, top.get("about", str), rounds, tuple(rows), seeds, _peers(top))


def _peers(top: _Table) -> tuple[str, ...]:
    names = _texts(top, "peers", {})
    try:
        peers.choose(names)
    except ValueError as error:
        raise top.error("peers", str(error)) from error
    return names


def _seed(table: _Table, rows: list[Row]) -> SeedRatio:
    table.check_keys(_SEED_KEYS, _SEED_KEYS)
    found = {key: table.get(key, str) for key in ("row", "ours", "against", "source")}
    if all(row.name != found["row"] for row in rows):
        raise table.error("row", f"no row is called '{found['row']}'")
    return SeedRatio(ratio=float(table.number("ratio", 1e-6, 1e6, whole=False)), **found)


def _each(table: _Table) -> list[dict[str, str]]:
    each = table.get("each", dict, {})
    for key, choices in each.items():
        if not isinstance(choices, list) or not choices:
            raise table.error("each", f"each.{key} is {choices!r}; allowed: a list that is not empty")
    combinations = itertools.product(*each.values())
    return [dict(zip(each, map(str, values), strict=True)) for values in combinations]


def _fill(table: _Table, key: str, template: str, params: dict[str, str]) -> str:
    """The template with its placeholders filled in. `{work}` stays, because it depends on the scale."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise table.error(key, f"{key} is '{template}': {error}") from error
    for _, name, form, conversion in parts:
        if name is not None and name != "work" and name not in params:
            raise table.error(key, f"{key} has the placeholder '{{{name}}}'; there are: {', '.join(['work', *params])}")
        if form or conversion:
            raise table.error(key, f"{key} is '{template}'; allowed as a placeholder: a name in braces")
    return template.format_map(params | {"work": "{work}"})


def _texts(table: _Table, key: str, params: dict[str, str]) -> tuple[str, ...]:
    values = table.get(key, list, [])
    if not all(isinstance(value, str) for value in values):
        raise table.error(key, f"{key} is {values!r}; allowed: a list of strings")
    return tuple(_fill(table, key, value, params) for value in values)


def _choice(table: _Table, key: str, allowed: Sequence[str], default: str | None = None) -> str:
    value = table.get(key, str, default)
    if value not in allowed:
        raise table.error(key, f"{key} is '{value}'; allowed: {', '.join(allowed)}")
    return value


def _also(table: _Table, metric: str) -> tuple[str, ...]:
    """The metrics beside the one that judges the row."""
    names = _texts(table, "also", {})
    for name in names:
        if name not in METRICS:
            raise table.error("also", f"also has '{name}'; allowed: {', '.join(METRICS)}")
    twice = next((name for name in names if (metric, *names).count(name) > 1), None)
    if twice is not None:
        raise table.error("also", f"the row has the metric '{twice}' twice")
    return names


def _check_sources(table: _Table, metrics: Sequence[str], discard: bool, rss_every_ms: int) -> None:
    """Every metric of the row has something it comes from."""
    for name in metrics:
        if discard and not METRICS[name].of_process:
            of_process = ", ".join(other for other, one in METRICS.items() if one.of_process)
            raise table.error("output", f"discarded output cannot give the metric '{name}'; allowed: {of_process}")
        if METRICS[name].of_samples and not rss_every_ms:
            raise table.error("", f"the metric '{name}' needs samples: rss_every_ms must be above 0")


def _judge(table: _Table, row: Row) -> str:
    """What judges the row: what it says, or the default."""
    chosen = _choice(table, "judged_by", [BY_CPU, BY_FIGURE], row.default_judge)
    if chosen == BY_CPU and not METRICS[row.metric].of_work:
        of_work = ", ".join(name for name, metric in METRICS.items() if metric.of_work)
        raise table.error("judged_by", f"CPU time cannot stand for the metric '{row.metric}'; allowed: {of_work}")
    return chosen


def _rows(table: _Table) -> list[Row]:
    table.check_keys(_ROW_KEYS, _ROW_REQUIRED)
    metric = _choice(table, "metric", JUDGING)
    also = _also(table, metric)
    discard = _choice(table, "output", ["keep", "discard"], "keep") == "discard"
    rss_every_ms = int(table.number("rss_every_ms", 0, 60_000, 0))
    _check_sources(table, (metric, *also), discard, rss_every_ms)
    fixed = {key: str(value) for key, value in table.get("params", dict, {}).items()}
    rows = []
    for chosen in _each(table):
        params = fixed | chosen
        if not params.get("threads", "1").isdigit() or params.get("threads") == "0":
            key = "each" if "threads" in chosen else "params"
            raise table.error(key, f"threads is '{params['threads']}'; allowed: a number from 1")
        name = _fill(table, "name", table.get("name", str), params)
        if not NAME.fullmatch(name):
            raise table.error("name", f"name is '{name}'; allowed: letters, digits and _ . + -")
        row = Row(
            name=name,
            about=_fill(table, "about", table.get("about", str), params),
            workload=table.get("workload", str),
            driver=_choice(table, "driver", list(DRIVERS), "program"),
            args=_texts(table, "args", params),
            metric=metric,
            work=int(table.number("work", 0, 10**12, 0)),
            tags=_texts(table, "tags", params),
            params=params,
            also=also,
            discard_output=discard,
            rss_every_ms=rss_every_ms,
            timeout=float(table.number("timeout", 1, 86_400, 120, whole=False)),
        )
        rows.append(dataclasses.replace(row, judged_by=_judge(table, row)))
    return rows
