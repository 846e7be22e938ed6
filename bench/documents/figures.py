#!/usr/bin/env python3
"""Computes the figures of the five documents' pages from the raw files: `figures.py [--list | --check | --pack]`.

A page's source has a figure's key where the page has the figure: `{row:lockfree-home.0:t16-r90}`. KINDS says which keys
there are. Without an option the program writes the pages of PAGES. --list prints each key with its figure, the library's
commit, machine, date and lanes. --check prints what is not as the raw files say, and exits with 1: a page of PAGES that
is not the one that would be written, or a sentence of figures.toml that its page lacks. --pack writes PAIRS from the git
history, which needs a full clone. --take SUMMARY takes what `make documents-measure` has measured, the lines of its
summary.csv, in the place of the same parts; then write the pages, and read what they say.

Intervals are those of hakobench. A group of rows has the interval and the verdict of `hakobench compare` (99.5 %), a
single row that of the suites' pages (95 %).
"""

import argparse
import csv
import functools
import gzip
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hakobench import judge, record, standing, statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "bench/documents"
RAW = ROOT / "bench/results/documents"
PAIRS = RAW / "pairs.csv.gz"
KEY = re.compile(r"\{([a-z]+(?::[^{}]+)?)\}")
INTERVAL = re.compile(r"\b\d+\.\d+ \[\d+\.\d+, \d+\.\d+\]")
TOGETHER = re.compile(rf"{INTERVAL.pattern}| %|(?<=\d) (?=\d{{3}}\b)")  # no line ends within
HELD = "\0"  # a space there
STATUSES = ("done", "replaced", "part", "missing")
REQUIREMENTS = 71
COLUMNS = 158  # of a written page


class BadKey(Exception):
    """A key that names no figure."""


class Source(NamedTuple):
    """A raw file of counts in RAW. `lacks` says what is wrong with its commit."""

    path: str
    date: str
    lacks: str = ""


class Packed(NamedTuple):
    """A run of the history that PAIRS has: `commit:path`, and the rows and allocators that pages need (all, if empty)."""

    blob: str
    rows: tuple[str, ...] = ()
    allocators: tuple[str, ...] = ()


SKETCH_ROWS = ("args-16-256", "args-16-2048", "app-16-32768")
# Letters of single runs in PAIRS; those of measured.csv are U, V, W by the library's commit.
EARLIER = {
    "Q": Packed("94f9686:bench/results/hz3-20261122-114538-1601851450.csv", ("ring-t8-r0",)),
    "X": Packed("94f9686:bench/results/hz3-20261122-113754-869745685.csv"),
    "H": Packed("94f9686:bench/results/full-20261122-074334-1545481124.csv", ("mt-t16-r90", "xmalloc-1-1", "xmalloc-2-2"), ("hz4", "hz4_pageq")),
    "L": Packed("94f9686:bench/results/hz3-20261122-115539-3287105398.csv", (), ("hz3_scale", "lto-off")),
    "B": Packed("build/documents-measured/hz3-20261127-125946-477638147.csv", SKETCH_ROWS, ("hz4", "pagefirst")),
    "Z": Packed("build/documents-measured/documents-20261127-124800-2435942480.csv"),
    "O": Packed("94f9686:bench/results/hz3-20261123-030830-830160805.csv", (), ("base", "tcmalloc")),
}
MEASURED_LETTERS = "UVWYTE"  # of measured.csv's runs, by their library's commit
SUITE = "bench/results/seeds-*.csv.gz"
GONE = "not in the history"
UNNAMED = "not named"
FILES = {
    "R": Source("remote-counts.csv", "2026-11-25"),
    "A": Source("atomics-xmalloc-8-8.csv", "2026-11-25"),
    "I": Source("counts-one-thread.csv", "2026-11-24", GONE),
    "C": Source("counts-statistics.csv", "2026-11-24", GONE),
    "K": Source("locks-ring-32k.log", "2026-11-24", GONE),
    "P": Source("p32-t128.log", "2026-11-24", GONE),
    "D": Source("coherence.csv", "2026-11-24", UNNAMED),
    "F": Source("mutex-profile.log", "2026-11-27"),
    "M": Source("tiny-profile.log", "2026-11-27"),
    "N": Source("stash-profile.log", "2026-11-27"),
    "J": Source("counts-lockfree.csv", "2026-11-27"),
    "G": Source("t16-r90-profile.log", "2026-11-24", UNNAMED),
}


def read_csv(path: pathlib.Path) -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


# ---- runs of hakobench -----------------------------------------------------------------------------


@functools.cache
def measured() -> list[dict[str, str]]:
    """The lines of measured.csv: what the tool said when it ran."""
    return read_csv(RAW / "measured.csv")


@functools.cache
def packed_runs() -> dict[int, list[record.Run]]:
    """The runs in PAIRS by the seed of their file."""
    found: dict[int, list[record.Run]] = {}
    for run in record.read(PAIRS).runs:
        found.setdefault(run.seed, []).append(run)
    return found


def seed_of(blob: str) -> int:
    return int(pathlib.PurePath(blob).stem.rpartition("-")[2])


@functools.cache
def suite_path() -> pathlib.Path:
    (path,) = ROOT.glob(SUITE)
    return path


@functools.cache
def runs_of(letter: str) -> list[record.Run]:
    if letter == "S":
        return record.read(suite_path()).runs
    if letter not in EARLIER:
        raise BadKey(f"'{letter}' is no letter of runs; allowed: S, {', '.join(EARLIER)}")
    return packed_runs()[seed_of(EARLIER[letter].blob)]


class Pair(NamedTuple):
    """A line of measured.csv with its runs, judged anew."""

    said: dict[str, str]
    runs: list[record.Run]
    rows: dict[str, judge.RowResult]
    verdict: judge.Verdict


@functools.cache
def pair(word: str) -> Pair:
    """`word`: a part and the number of the pair in it, as lockfree-home.0."""
    part, _, number = word.partition(".")
    of_part = [line for line in measured() if line["part"] == part]
    if not number.isdigit() or int(number) >= len(of_part):
        raise BadKey(f"'{word}' is no pair of measured.csv; allowed: PART.NUMBER, where {part} has {len(of_part)}")
    said = of_part[int(number)]
    runs = packed_runs()[seed_of(said["runs"])]
    gate = judge.load_gate(said["gate"])
    rows = judge.compare_rows(runs, said["a"], said["b"], gate)
    return Pair(said, runs, {row.row: row for row in rows}, judge.verdict(rows, said["a"], said["b"], gate))


def interval_text(found: statistics.Interval | None) -> str:
    if found is None or not found.is_known:
        raise BadKey("this figure has no interval: too few pairs of runs")
    return f"{found.ratio:.2f} [{found.low:.2f}, {found.high:.2f}]"


def gain(word: str) -> str:
    return interval_text(pair(word).verdict.gain)


def hold(word: str) -> str:
    return interval_text(pair(word).verdict.hold)


def verdict(word: str) -> str:
    return pair(word).verdict.word


def row(word: str, name: str) -> str:
    """B's speed as a multiple of A's in one row."""
    rows = pair(word).rows
    if name not in rows:
        raise BadKey(f"{word} has no row '{name}'; its rows: {', '.join(rows)}")
    found = rows[name].standing
    assert found is not None
    return interval_text(found.interval)


def group(word: str, names: str) -> str:
    """B's speed as a multiple of A's in some rows together, with the confidence of a group."""
    rows = pair(word).rows
    missing = [name for name in names.split(",") if name not in rows]
    if missing:
        raise BadKey(f"{word} has no row '{missing[0]}'; its rows: {', '.join(rows)}")
    return interval_text(statistics.interval([rows[name].ratios for name in names.split(",")]))


def level(word: str, name: str) -> str:
    """A's median in a row."""
    first = pair(word).rows[name].first
    assert first is not None
    return f"{first:.0f}"


def by_round(letter: str, name: str, allocator: str) -> dict[int, record.Run]:
    found = {run.round: run for run in runs_of(letter) if run.row == name and run.allocator == allocator and not run.failure}
    if not found:
        raise BadKey(f"{letter} has no runs of row '{name}' under '{allocator}'")
    return found


def speed(letter: str, name: str, ratio: str) -> str:
    """The ratio A/B of two allocators' speeds in a row of a run, over the pairs of the same round."""
    ours, _, other = ratio.partition("/")
    first, second = by_round(letter, name, other), by_round(letter, name, ours)
    ratios = [statistics.log_ratio(first[at].speed, second[at].speed, less_is_better=False) for at in sorted(first.keys() & second.keys())]
    return interval_text(standing.of(ratios).interval)


def median(letter: str, name: str, allocator: str) -> str:
    values = sorted(run.value for run in by_round(letter, name, allocator).values())
    middle = len(values) // 2
    return f"{values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2:.1f}"


# ---- counts ----------------------------------------------------------------------------------------


def number_text(value: float) -> str:
    """Whole numbers from 10 000 on in groups of three, others with two digits."""
    if value != round(value):
        return f"{value:.2f}"
    return f"{round(value):,}".replace(",", " ") if value >= 10_000 else f"{round(value)}"


@functools.cache
def remote_counts() -> dict[tuple[str, str, str], float]:
    return {(line["program"], line["source"], line["figure"]): float(line["value"]) for line in read_csv(RAW / FILES["R"].path)}


def remote(program: str, source: str, figure: str) -> float:
    found = remote_counts().get((program, source, figure))
    if found is None:
        raise BadKey(f"remote-counts.csv has no {program},{source},{figure}")
    return found


def count(program: str, source: str, figure: str) -> str:
    return number_text(remote(program, source, figure))


def share(program: str, source: str, ratio: str) -> str:
    """One counter as per cent of another, or of the frees that the trace of the same program found remote."""
    part, _, whole = ratio.partition("/")
    of = remote(program, "trace", "remote_frees") if whole == "trace" else remote(program, source, whole)
    return f"{100 * remote(program, source, part) / of:.1f} %"


def perlist(program: str, source: str) -> str:
    """Blocks in a list that went through transfer or central, or in a page when it was taken (pages)."""
    if source.endswith("-pages"):
        return f"{remote(program, source, 'remote.blocks_per_100_pages') / 100:.3g}"
    in_central = remote_counts().get((program, source, "counters.central_send"), 0)  # a counter that is 0 is left out
    lists = remote(program, source, "counters.transfer_send") + in_central
    return f"{remote(program, source, 'remote.mail_blocks') / lists:.3g}"


def atomics(name: str, library: str) -> str:
    """Atomic read-modify-writes for each remote free; `name`: the end of the file's name."""
    lines = read_csv(RAW / f"atomics-{name}.csv")
    return next(f"{float(line['atomics_per_operation']):.2f}" for line in lines if line["name"] == library and line["object"] == "all")


def cost(letter: str, name: str, allocator: str, column: str) -> str:
    """What one more pair of malloc and free costs: the difference of two amounts of work. D1 and LL are misses of reads and writes."""
    lines = [line for line in read_csv(RAW / FILES[letter].path) if line["row"] == name and line["allocator"] == allocator]
    if len(lines) != 2:
        raise BadKey(f"{FILES[letter].path} has {len(lines)} lines of {name} under {allocator}, not 2")
    columns = {"D1": ("D1mr", "D1mw"), "LL": ("DLmr", "DLmw")}.get(column, (column,))
    low, high = ((int(line["pairs"]), sum(int(line[one]) for one in columns)) for line in sorted(lines, key=lambda line: int(line["pairs"])))
    value = (high[1] - low[1]) / (high[0] - low[0])
    return f"{value:.0f}" if len(columns) == 1 else f"{value:.2f}" if column == "D1" else f"{value:.4f}"


def extra(name: str, library: str) -> float:
    """What counters of hot paths add to a pair, in the library's own instructions."""
    with_counters, without = (int(cost("C", name, one, "allocator_instructions")) for one in (f"{library}_stats", library))
    return with_counters - without


@functools.cache
def reports(letter: str) -> list[dict[str, dict[str, int]]]:
    """The groups of counters of the JSON reports in a log, which need not be whole."""
    lines = [line for line in (RAW / FILES[letter].path).read_text().splitlines() if line.startswith("{")]
    return [{name: json.loads(group) for name, group in re.findall(r'"(\w+)":(\{[^{}]*\})', line)} for line in lines]


def log(letter: str, number: str, ratio: str) -> str:
    """A counter of the log's report of that number, from 1, or one as per cent of another."""
    report = reports(letter)[int(number) - 1]

    def value(name: str) -> int:
        group, _, counter = name.partition(".")
        return report[group][counter]

    part, _, whole = ratio.partition("/")
    return f"{100 * value(part) / value(whole):.2f} %" if whole else number_text(value(part))


def profile(letter: str, heading: str, symbol: str) -> str:
    """The share of a symbol in the profile's section whose heading begins with that word."""
    section = ""
    for line in (RAW / FILES[letter].path).read_text().splitlines():
        section = line[2:] if line.startswith("# ") else section
        found = re.fullmatch(r"([0-9.]+)% \[[.k]\] (\S+)", line)
        if found and found[2] == symbol and section.startswith(heading):
            return f"{float(found[1]):.1f} %"
    raise BadKey(f"{FILES[letter].path} has no '{symbol}' below '{heading}'")


def simulated(pattern: str, cpus: str, parts: str, column: str) -> str:
    """A cell of the first simulation in coherence.csv."""
    text = (RAW / FILES["D"].path).read_text().split("\n# ")[0]
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines:
        if (line["pattern"], line["cpus"], line["parts"]) == (pattern, cpus, parts):
            return f"{float(line[column]):.2g}"
    raise BadKey(f"coherence.csv has no {pattern},{cpus},{parts}")


# ---- where a figure comes from ---------------------------------------------------------------------


class Origin(NamedTuple):
    """Where a raw file's figures come from: for the table of runs."""

    date: str
    commit: str
    machine: str
    bin_kib: str


def bin_kib(text: str) -> str:
    """What a bin may hold of a class, in every configuration of a file."""
    return ", ".join(sorted({str(int(found) // 1024) for found in re.findall(r"HZ_BIN_BYTES=(\d+)", text)}))


def origin_of_runs(runs: Sequence[record.Run]) -> Origin:
    commits = ", ".join(sorted({run.commit for run in runs}))
    machine = "Xeon" if "Xeon" in runs[0].cpu else "EPYC"
    return Origin(min(run.started for run in runs)[:10], commits, machine, bin_kib(" ".join({run.config for run in runs})))


def origin_of_file(source: Source) -> Origin:
    """Of a file with counts, which all come from the same machine."""
    text = (RAW / source.path).read_text()
    commit = re.search(r"commit=([0-9a-f]{7}(?:-dirty)?)", text)
    name = commit[1] if commit else read_csv(RAW / source.path)[0].get("commit", "") if source.path.endswith(".csv") else ""
    return Origin(source.date, ", ".join(filter(None, (name, source.lacks))), "EPYC", bin_kib(text))


# ---- keys ------------------------------------------------------------------------------------------

KINDS: dict[str, tuple[Callable[..., str], int]] = {
    "gain": (gain, 1), "hold": (hold, 1), "verdict": (verdict, 1), "row": (row, 2), "group": (group, 2), "level": (level, 2),
    "speed": (speed, 3), "median": (median, 3),
    "count": (count, 3), "share": (share, 3), "perlist": (perlist, 2), "atomics": (atomics, 2), "cost": (cost, 4),
    "extra": (lambda name, library: number_text(extra(name, library)), 2),
    "log": (log, 3), "profile": (profile, 3), "simulated": (simulated, 4),
}  # fmt: skip


ABOUT: dict[str, Callable[[str], str]] = {
    "about": lambda key: figure(key).partition(" ")[0],  # a ratio without its interval
    "run": lambda key: letter_of(key),
    "commit": lambda key: origin_of(key).commit,
    "date": lambda key: origin_of(key).date,
}
OF_PAIRS = ("gain", "hold", "verdict", "row", "group", "level")


@functools.cache
def figure(key: str) -> str:
    """The text of a figure, or, by ABOUT, something about it. Raises BadKey."""
    kind, *words = key.split(":")
    if kind in ABOUT:
        return ABOUT[kind](":".join(words))
    if kind not in KINDS:
        raise BadKey(f"'{key}': no figure is of the kind '{kind}'; allowed: {', '.join(KINDS)}")
    compute, arguments = KINDS[kind]
    if len(words) != arguments:
        raise BadKey(f"'{key}': {kind} takes {arguments} words, not {len(words)}")
    return compute(*words)


@functools.cache
def measured_letters() -> dict[str, str]:
    """The letter of each commit in measured.csv, in the order of time. A dirty tree counts as its commit."""
    first = {}
    for line in measured():
        for run in packed_runs()[seed_of(line["runs"])]:
            first[base(run.commit)] = min(run.started, first.get(base(run.commit), run.started))
    return dict(zip(sorted(first, key=first.__getitem__), MEASURED_LETTERS, strict=False))


def base(commit: str) -> str:
    return commit.removesuffix("-dirty")


def letter_of_runs(runs: Sequence[record.Run]) -> str:
    return measured_letters()[base(runs[0].commit)]


def plain(key: str) -> str:
    """The key without a word of ABOUT."""
    kind, _, rest = key.partition(":")
    return rest if kind in ABOUT else key


def letter_of(key: str) -> str:
    """The letter of the file that a figure comes from."""
    kind, *words = plain(key).split(":")
    if kind in OF_PAIRS:
        return letter_of_runs(pair(words[0]).runs)
    if kind in ("count", "share", "perlist"):
        return "R"
    return {"atomics": "A", "extra": "C", "simulated": "D"}.get(kind, words[0])


def origin_of(key: str) -> Origin:
    """Of the file that a figure comes from."""
    kind, *words = plain(key).split(":")
    letter = letter_of(key)
    if kind in OF_PAIRS:
        return origin_of_runs(pair(words[0]).runs)
    return origin_of_runs(runs_of(letter)) if letter == "S" or letter in EARLIER else origin_of_file(FILES[letter])


def render(text: str, tables: dict[str, Callable[[], str]] | None = None) -> str:
    """`text` with its figures. Raises BadKey."""
    own = tables or {}
    return KEY.sub(lambda found: own[found[1]]() if found[1] in own else figure(found[1]), text)


# ---- pages -----------------------------------------------------------------------------------------


class Requirement(NamedTuple):
    """What a document asks. `answer` has the figures' keys."""

    number: int
    document: str
    asks: str
    status: str
    answer: str


def requirements() -> list[Requirement]:
    """Raises ValueError when the list is not complete."""
    listed = tomllib.loads((HERE / "requirements.toml").read_text())["requirement"]
    found = [Requirement(**one) for one in listed]
    if [one.number for one in found] != list(range(1, REQUIREMENTS + 1)):
        raise ValueError(f"requirements.toml: the numbers are not 1 to {REQUIREMENTS}, each once")
    for one in found:
        if one.status not in STATUSES:
            raise ValueError(f"requirements.toml: {one.number} has status '{one.status}'; allowed: {', '.join(STATUSES)}")
    return found


def requirements_tables() -> str:
    """A table for each document."""
    tables = []
    for document in dict.fromkeys(one.document for one in requirements()):
        mine = [one for one in requirements() if one.document == document]
        lines = [f"| {one.number} | {one.asks} | {one.status} | {render(one.answer)} |" for one in mine]
        tables.append("\n".join([f"## {document}", "", "| | asks | status | answer |", "|--:|---|---|---|", *lines]))
    return "\n\n".join(tables)


def statuses() -> str:
    """How many requirements have each status."""
    numbers = {status: sum(one.status == status for one in requirements()) for status in STATUSES}
    return ", ".join(f"{number} {status}" for status, number in numbers.items())


def runs_table() -> str:
    """A line for each letter."""
    lines = ["| | date | library | machine | KiB of a bin | raw file |", "|---|---|---|---|---|---|"]

    def add(letter: str, origin: Origin, file: str) -> None:
        lines.append(f"| {letter} | {origin.date} | {origin.commit} | {origin.machine} | {origin.bin_kib} | {file} |")

    add("S", origin_of_runs(runs_of("S")), f"`{suite_path().name}`")
    for letter, one in EARLIER.items():
        add(letter, origin_of_runs(runs_of(letter)), f"`{PAIRS.name}`: `{pathlib.PurePath(one.blob).stem}`")
    for letter in measured_letters().values():
        mine = [line for line in measured() if letter_of_runs(packed_runs()[seed_of(line["runs"])]) == letter]
        runs = [run for line in mine for run in packed_runs()[seed_of(line["runs"])]]
        add(letter, origin_of_runs(runs), f"`{PAIRS.name}`: {', '.join(dict.fromkeys(line['part'] for line in mine))}")
    for letter, source in FILES.items():
        name = source.path.replace("xmalloc-8-8", "*") if letter == "A" else source.path
        add(letter, origin_of_file(source), f"`documents/{name}`")
    return "\n".join(lines)


TABLES = {"requirements": requirements_tables, "statuses": statuses, "runs": runs_table}
PAGES = {"bench/documents/seeds.md": "seeds.md.in", "bench/documents/requirements.md": "requirements.md.in"}


def wrapped(line: str) -> str:
    """A paragraph or an item of a list, which is one line in a page's source."""
    if line.startswith(("|", "#", "<!--")):
        return line
    indent = "  " if line.startswith("* ") else ""
    whole = TOGETHER.sub(lambda found: found[0].replace(" ", HELD), line)
    return textwrap.fill(whole, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).replace(HELD, " ")


def page(name: str) -> str:
    """The page as it should be. Raises BadKey."""
    text = render((HERE / PAGES[name]).read_text(), TABLES)
    return "".join(f"{wrapped(line)}\n" for line in text.splitlines())


def sentences() -> dict[str, list[str]]:
    """For each page that people write: what it has to say."""
    return tomllib.loads((HERE / "figures.toml").read_text())


def one_line(text: str) -> str:
    return " ".join(text.split())


def problems() -> Iterator[str]:
    for name in PAGES:
        if (ROOT / name).read_text() != page(name):
            yield f"{name}: not what its source and the raw files give; `bench/documents/figures.py` writes it"
    for name, wanted in sentences().items():
        text = (ROOT / name).read_text()
        yield from lacking(name, text, [render(one) for one in wanted])


def lacking(name: str, text: str, wanted: Sequence[str]) -> Iterator[str]:
    """The sentences that a page lacks, and the intervals on it that none of the sentences has."""
    plain = one_line(text)
    yield from (f"{name}: lacks '{one}'" for one in wanted if one_line(one) not in plain)
    known = {found for one in wanted for found in INTERVAL.findall(one)}
    yield from (f"{name}: '{found}' is in no sentence of figures.toml" for found in INTERVAL.findall(plain) if found not in known)


def keys() -> list[str]:
    """All keys of all pages, each once."""
    texts = [(HERE / source).read_text() for source in PAGES.values()]
    texts += [one.answer for one in requirements()] + [one for wanted in sentences().values() for one in wanted]
    return [key for key in dict.fromkeys(found for text in texts for found in KEY.findall(text)) if key not in TABLES]


def describe(key: str) -> str:
    """A line of --list."""
    kind, *words = plain(key).split(":")
    letter, origin = letter_of(key), origin_of(key)
    if kind in OF_PAIRS:
        said = pair(words[0]).said
        path, lanes = said["runs"], f"{said['b']} / {said['a']}"
    elif letter == "S" or letter in EARLIER:
        path, lanes = suite_path().name if letter == "S" else EARLIER[letter].blob, words[-1]
    else:
        path, lanes = FILES[letter].path, " ".join(words)
    return f"{key} = {figure(key)}; {letter}: {lanes}; {origin.commit}; {origin.machine}; {origin.date}; {path}"


# ---- PAIRS -----------------------------------------------------------------------------------------


def read_blob(one: Packed) -> list[record.Run]:
    """The runs of a file in the history, of one in the tree, or of PAIRS itself when that file is gone. Raises CalledProcessError without
    the commit."""
    commit, _, name = one.blob.rpartition(":")
    if not commit:
        path = ROOT / name
        return record.read(path).runs if path.exists() else packed_runs()[seed_of(one.blob)]
    done = subprocess.run(["git", "-C", ROOT, "show", one.blob], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "runs.csv"
        path.write_bytes(done.stdout)
        return record.read(path).runs


def unpacked(one: Packed) -> list[record.Run]:
    """The runs that PAIRS has of a file."""
    runs = [run for run in read_blob(one) if (not one.rows or run.row in one.rows) and (not one.allocators or run.allocator in one.allocators)]
    runs.sort(key=lambda run: (run.row_index, run.allocator, run.round))
    for run in runs:
        run.figures = ""  # what the programs printed: most of the bytes, and no page uses it
    return runs


def pack(files: Sequence[Packed]) -> bytes:
    """The content of PAIRS: files of hakobench's format one after the other, below one header."""
    whole = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        for number, one in enumerate(files):
            path = pathlib.Path(folder) / f"{number}.csv"
            writer = record.Writer(path)
            for run in unpacked(one):
                writer.add(run, [])
            writer.close()
            text = path.read_bytes()
            whole.write(text if number == 0 else text[text.index(b"\n") + 1 :])
    return gzip.compress(whole.getvalue(), 9, mtime=0)


def take(summary: pathlib.Path) -> None:
    """Puts the lines of a summary.csv into measured.csv, in the place of those of the same parts, and their runs into PAIRS."""
    new = read_csv(summary)
    parts = {line["part"] for line in new}
    lines = [line for line in measured() if line["part"] not in parts] + new
    out = io.StringIO()
    writer = csv.DictWriter(out, list(new[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    packed = pack([*EARLIER.values(), *(Packed(line["runs"]) for line in lines)])
    (RAW / "measured.csv").write_text(out.getvalue())
    PAIRS.write_bytes(packed)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Computes the figures of the five documents' pages.")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="print each figure with its library, machine and file")
    instead.add_argument("--check", action="store_true", help="print what differs from the raw files")
    instead.add_argument("--take", type=pathlib.Path, metavar="SUMMARY", help="take what was measured, from its summary.csv")
    instead.add_argument("--pack", action="store_true", help=f"write {PAIRS.name} from the history")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.pack:
            PAIRS.write_bytes(pack([*EARLIER.values(), *(Packed(line["runs"]) for line in measured())]))
        elif chosen.take:
            take(chosen.take)
        elif chosen.list:
            print("\n".join(map(describe, keys())))
        elif chosen.check:
            found = list(problems())
            print("".join(f"figures.py: {one}\n" for one in found), end="", file=sys.stderr)
            return 1 if found else 0
        else:
            for name in PAGES:
                (ROOT / name).write_text(page(name))
    except (BadKey, ValueError, OSError) as error:
        print(f"figures.py: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"figures.py: {error.stderr.decode().strip()}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
