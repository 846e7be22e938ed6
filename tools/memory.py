#!/usr/bin/env python3
"""Writes the tables in docs/memory.md from the sources: the bounds of src/policy.def, and the chores of
src/heap/back/chores.def.

usage: memory.py [--root DIRECTORY] [--print]

--print: write the page to stdout and leave the file alone.
Exits with 1 if a line of a source cannot be read, or the page lacks the marks between which a table stands.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/memory.md"
BOUNDS = "src/policy.def"
CHORES = "src/heap/back/chores.def"
KNOBS = "src/heap/knobs.def"
DRIVERS = {
    "BESIDE": ("ticks with a keeper",),
    "ALONE": ("ticks without",),
    "TICKS": ("ticks with a keeper", "ticks without"),
    "ROUND": ("keeper",),
    "DEMAND": ("on demand",),
    "CPUS": ("ticks with a keeper", "ticks without", "keeper", "on demand"),
}
COLUMNS = ("ticks with a keeper", "ticks without", "keeper", "on demand")
BOUND = re.compile(r"BOUND\((\w+), ([^,]+), ([^,]+), ([^,]+), (\d+), \"([^\"]+)\"\)")
CHORE = re.compile(r"CHORE\((\w+), ([A-Z |]+), (\w+), \"([^\"]+)\"\)")


class BadSource(Exception):
    """A line of a source that is not what it should be."""


def lines(root: pathlib.Path, path: str, name: str, pattern: re.Pattern) -> list[tuple[str, ...]]:
    """The fields of each line that begins with `name`, as `pattern` divides them."""
    found = []
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith(f"{name}("):
            continue
        match = pattern.fullmatch(line)
        if match is None:
            raise BadSource(f"{path}:{number}: '{line}' does not have the form {name}(...) that the comment at the top of the file gives")
        found.append(match.groups())
    if not found:
        raise BadSource(f"{path}: no line begins with {name}(")
    return found


def size(expression: str) -> int:
    """Bytes: a number, or a number << another one."""
    number = re.fullmatch(r"(\d+)(?: << (\d+))?", expression)
    if number is None:
        raise BadSource(f"{BOUNDS}: '{expression}' is not a number of bytes, such as 16 << 20")
    return int(number[1]) << int(number[2] or 0)


def size_text(count: int) -> str:
    return f"{count >> 20} MiB" if count % (1 << 20) == 0 else f"{count} bytes"


def bounds_table(root: pathlib.Path) -> list[str]:
    rows = ["| when | bytes | for each thread | at most | plus recent *taken* |", "|---|---|---|---|---|"]
    for _, fixed, thread, most, share, text in lines(root, BOUNDS, "BOUND", BOUND):
        cells = (size(fixed), size(thread), size(most))
        shown = [size_text(cell) if cell else "-" for cell in cells]
        rows.append(f"| {text} | {' | '.join(shown)} | {'all' if share == '1' else f'1/{share}'} |")
    return rows


def milliseconds(root: pathlib.Path, word: str) -> str:
    """`word`: a number, or a knob whose default is meant."""
    if word.isdigit():
        return "each time" if word == "0" else f"{word} ms"
    found = re.search(rf"^KNOB\({word}, \d+, \d+, (\d+),", (root / KNOBS).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BadSource(f"{CHORES}: '{word}' is neither a number nor a knob of {KNOBS}")
    return f"{found[1]} ms"


def chores_table(root: pathlib.Path) -> list[str]:
    rows = [f"| chore | every | {' | '.join(COLUMNS)} | what it does |", "|---|---|" + "---|" * (len(COLUMNS) + 1)]
    for name, drivers, every, text in lines(root, CHORES, "CHORE", CHORE):
        unknown = [word for word in drivers.split(" | ") if word not in DRIVERS]
        if unknown:
            raise BadSource(f"{CHORES}: '{unknown[0]}' is no driver; allowed: {', '.join(DRIVERS)}")
        who = {column for word in drivers.split(" | ") for column in DRIVERS[word]}
        marks = " | ".join("x" if column in who else "" for column in COLUMNS)
        rows.append(f"| {name.replace('_', ' ')} | {milliseconds(root, every)} | {marks} | {text} |")
    return rows


TABLES = {"bounds": bounds_table, "chores": chores_table}


def marks(name: str) -> tuple[str, str]:
    return f"<!-- written by tools/memory.py: {name} -->", f"<!-- written by tools/memory.py: end of {name} -->"


def page(root: pathlib.Path) -> str:
    """docs/memory.md with its tables made anew. Raises BadSource."""
    text = (root / PAGE).read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = marks(name)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise BadSource(f"{PAGE}: want one line '{begin}' and one '{end}'")
        before, _, rest = text.partition(begin)
        text = "\n".join([before + begin, "", *table(root), "", end + rest.partition(end)[2]])
    return text


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes the tables in docs/memory.md from the sources.")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--print", action="store_true", help="write the page to stdout and leave the file alone")
    options = parser.parse_args(arguments)
    try:
        text = page(options.root)
    except (OSError, BadSource) as error:
        print(f"memory: {error}", file=sys.stderr)
        return 1
    if options.print:
        sys.stdout.write(text)
    else:
        (options.root / PAGE).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
