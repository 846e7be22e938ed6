#!/usr/bin/env python3
"""How many files one must read to follow a block or a byte through the library: `tools/reading.py`.

A walk begins at a function and ends at others. Its files are those with a function on some way of calls from its start
to an end, in the library of lane hz3/scale as the release build compiles it: calls in headers count, and so do functions
that are passed on by address; what an `if (CONSTANT)` leaves out does not. Helpers on no way to the end (locks, lists,
atomics) do not count. WALKS names the walks, and the functions at which a walk turns back because another walk begins.

The calls are those that gcc sees before it inlines (-fdump-ipa-cgraph). Without --commands the tool has cmake write the
commands of the compiler, in build/reading; nothing is built.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

import tidy_names

ROOT = pathlib.Path(__file__).resolve().parent.parent
CEILINGS = "tests/counts/reading.txt"
LANE = "hz3/scale"
TARGET = "hakozuna_hz3_scale_objects.dir"
CONFIGURE = ("-DHZ_BUILD=release", "-DHZ_UNITY=OFF", f"-DHAKOZUNA_LANES={LANE}", "-DHAKOZUNA_BUILD_TESTS=OFF",
             "-DHAKOZUNA_BUILD_BENCHMARKS=OFF", "-DHAKOZUNA_INSTALL=OFF", "-DCMAKE_C_COMPILER=gcc",
             "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")  # fmt: skip
LINES_WANTED = 9000
# What watches the heap or tells of it, and is not needed to understand where a block goes.
WATCHING = ("src/base/profile/", "src/base/watch/", "src/heap/report/", "src/front/reports/")


class Walk(NamedTuple):
    """`ends`, `beside`: functions. No way goes on behind an end, or into what is beside it: another walk begins there.
    `way`, `read`: how many files we want on the way, and with the helpers that are called from it; 0: no aim yet."""

    what: str
    start: str
    ends: tuple[str, ...]
    beside: tuple[str, ...]
    way: int
    read: int


WALKS = {
    "hit": Walk("malloc finds a block in the thread's bin", "malloc", ("hz_bin_pop",), ("hz_malloc_slow", "hz_malloc_medium"), 5, 0),
    "refill": Walk(
        "malloc finds the bin empty: a batch of the depot, or blocks of a page", "hz_malloc_slow",
        ("hz_depot_pop", "hz_pages_carve_locked"), ("hz_keeper_start_if_wanted", "hz_thread_attach"), 8, 14,
    ),
    "remote": Walk(
        "a thread frees a block of another one: to the depot or the mailbox, and on until its page is retired", "free",
        ("hz_depot_push", "hz_page_retire_locked"),
        ("hz_thread_attach", "hz_thread_arm", "hz_zone_put", "hz_tick_zone"), 12, 16,
    ),
    "idle": Walk(
        "the bins of a thread that sleeps go home, by the keeper", "keeper_round", ("hz_pages_put_locked",),
        ("do_idle_bins", "do_others", "do_cpu_bins", "do_depot", "do_mail", "do_sparse", "do_pages", "hz_orphans_bury", "hz_orphan_reclaim"), 7, 0,
    ),
    "purge": Walk(
        "malloc_trim gives back all free memory", "hz_heap_trim", ("hz_os_purge",),
        ("hz_thread_attach", "hz_init", "hz_arena_init"), 10, 0,
    ),
}  # fmt: skip


# ---- the calls -------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A function; or a variable that holds addresses of functions, whose path is empty."""

    path: str
    name: str


class Graph(NamedTuple):
    """`calls`: what a place calls or names, in the order of the text; `files`: all files of src that are compiled."""

    calls: dict[Place, list[Place]]
    files: set[str]

    def find(self, name: str) -> Place:
        found = [place for place in self.calls if place.name == name and place.path]
        if len(found) != 1:
            where = ", ".join(place.path for place in found)
            raise SystemExit(f"reading: want one function '{name}', the library has {len(found)} {where}".rstrip())
        return found[0]

    def find_all(self, names: tuple[str, ...]) -> set[Place]:
        return {self.find(name) for name in names}


class Node(NamedTuple):
    """A function or variable as gcc knows it in one file. `links`: names of others."""

    name: str
    is_function: bool
    is_defined: bool
    is_public: bool
    links: list[str]


class Unit(NamedTuple):
    """What gcc says of one file: its nodes, and the files of src that it includes, itself first."""

    nodes: list[Node]
    files: list[str]


NODE = re.compile(r"\S+/(?P<number>\d+) \((?P<name>[^)]*)\) @0x[0-9a-f]+")
LINK = re.compile(r"\S+/(\d+)\b")
ROW = re.compile(r"  (?P<key>Type|Visibility|References|Calls):(?P<rest>.*)")


def read_dump(text: str) -> list[Node]:
    """The first complete table of a dump: all is read, and nothing inlined."""
    table = text.partition("Reclaimed Symbol table:")[2].partition("Symbol table:")[0]
    parts = re.split(rf"^(?=\S+/\d+ \()", table, flags=re.MULTILINE)
    heads = [NODE.match(part) for part in parts]
    names = {head["number"]: head["name"] for head in heads if head}
    nodes = []
    for part, head in zip(parts, heads):
        if head is None:
            continue
        rows = {row["key"]: row["rest"] for row in map(ROW.match, part.splitlines()) if row}
        # gcc lists the last one first
        links = [names[number] for key in ("Calls", "References") for number in reversed(LINK.findall(rows.get(key, ""))) if number in names]
        kind = rows.get("Type", "")
        nodes.append(Node(head["name"], "function" in kind, "definition" in kind, "public" in rows.get("Visibility", ""), links))
    return nodes


def read_unit(root: pathlib.Path, folder: str, command: list[str], source: str) -> Unit:
    """Has gcc read a file as the library's build does, without optimising it."""
    kept = [word for word in command if not re.match(r"-(?:flto|fno-fat|O|g\b|c$|M)", word)]
    if "-o" in kept:
        del kept[kept.index("-o") : kept.index("-o") + 2]
    kept = [word for word in kept if word != source] + ["-O0", "-fno-lto", "-w", "-S", "-o", os.devnull, "-fdump-ipa-cgraph"]
    with tempfile.TemporaryDirectory() as place:
        run = [*kept, "-dumpdir", f"{place}/", "-dumpbase", "unit", "-MMD", "-MF", f"{place}/files", source]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
        dumps = list(pathlib.Path(place).glob("unit*.cgraph"))
        if done.returncode != 0 or len(dumps) != 1:
            raise SystemExit(f"reading: {shlex.join(run)}\n{done.stderr}reading: gcc did not say what '{source}' calls")
        names = (pathlib.Path(place) / "files").read_text().replace("\\\n", " ").partition(":")[2].split()
        src = (root / "src").resolve()
        files = [(pathlib.Path(folder) / name).resolve() for name in names]
        return Unit(read_dump(dumps[0].read_text()), [path.relative_to(root).as_posix() for path in files if path.is_relative_to(src)])


def read_units(root: pathlib.Path, commands: pathlib.Path, target: str) -> list[Unit]:
    entries = [entry for entry in json.loads(commands.read_text()) if target in entry["command"]]
    if not entries:
        raise SystemExit(f"reading: {commands} has no command of '{target}'")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda entry: read_unit(root, entry["directory"], shlex.split(entry["command"]), entry["file"]), entries))


def configure(root: pathlib.Path) -> pathlib.Path:
    """The compiler's commands for the library."""
    folder = root / "build/reading"
    done = subprocess.run(["cmake", "-S", root, "-B", folder, *CONFIGURE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"reading: cmake failed:\n{done.stderr}")
    return folder / "compile_commands.json"


def join_units(root: pathlib.Path, units: list[Unit]) -> Graph:
    """One graph of all files: names become places."""
    files = {path for unit in units for path in unit.files}
    homes: dict[str, set[str]] = {}
    for path in files:
        for function in tidy_names.functions_of(path, (root / path).read_text(encoding="utf-8")):
            homes.setdefault(function.name, set()).add(path)

    def place_of(node: Node, unit: Unit) -> Place:
        if not node.is_function:
            return Place("", node.name if node.is_public else f"{unit.files[0]}:{node.name}")
        # a function that a macro defines is in the file that is compiled
        return Place(next((path for path in unit.files if path in homes.get(node.name, ())), unit.files[0]), node.name)

    public: dict[str, Place] = {}
    for unit in units:
        for node in unit.nodes:
            if node.is_defined and node.is_public:
                public.setdefault(node.name, place_of(node, unit))
    calls: dict[Place, list[Place]] = {}
    for unit in units:
        own = {node.name: place_of(node, unit) for node in unit.nodes if node.is_defined}
        for node in unit.nodes:
            if node.is_defined:
                links = [own.get(name) or public.get(name) for name in node.links]
                calls.setdefault(own[node.name], list(dict.fromkeys(link for link in links if link)))
    return Graph(calls, files)


# ---- walks -----------------------------------------------------------------------------------------


def reach(calls: dict[Place, list[Place]], starts: list[Place], stops: set[Place]) -> list[Place]:
    """All places that calls lead to, in the order of the text; not what lies behind `stops`."""
    seen: dict[Place, None] = {}
    stack = list(reversed(starts))
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen[place] = None
        stack += [] if place in stops else reversed(calls.get(place, []))
    return list(seen)


def walk(graph: Graph, one: Walk) -> tuple[list[Place], list[Place]]:
    """The functions on the ways from the start to the ends, and those that they call besides."""
    start, ends, beside = graph.find(one.start), graph.find_all(one.ends), graph.find_all(one.beside)
    there = [place for place in reach(graph.calls, [start], ends | beside) if place not in beside]
    missed = sorted(place.name for place in ends.difference(there))
    if missed:
        raise SystemExit(f"reading: no way from {one.start} to {', '.join(missed)}")
    backwards: dict[Place, list[Place]] = {}
    for place in there:
        for called in graph.calls.get(place, []) if place not in ends else []:
            backwards.setdefault(called, []).append(place)
    leading = set(reach(backwards, list(ends), set())).intersection(there)
    # A function that only calls back what has led to it is on no way: it must get on without all of these.
    on = {place: [called for called in graph.calls.get(place, []) if called in leading] for place in leading}
    behind = {place: leading.difference(reach({**on, place: []}, [start], ends)) for place in leading}
    on_way = []
    for place in there:
        if place in leading:
            passed = {other for other in leading if place in behind[other]}
            if ends.intersection(reach(on, [place], ends | passed)):
                on_way.append(place)
    helpers = []
    for place in on_way:
        for called in graph.calls.get(place, []) if place not in ends else []:
            helpers += [called] if called.path else graph.calls.get(called, [])  # of a table, what it names
    return on_way, [place for place in dict.fromkeys(helpers) if place not in beside and place not in on_way]


def files_of(places: list[Place]) -> list[str]:
    return list(dict.fromkeys(place.path for place in places if place.path))


# ---- what is printed -------------------------------------------------------------------------------


def count_lines(root: pathlib.Path, files: set[str]) -> dict[str, int]:
    """Lines of the library's .c and .h files: all, and without those that watch or report."""
    lines = {path: (root / path).read_text(encoding="utf-8").count("\n") for path in files if path.endswith((".c", ".h"))}
    return {"all": sum(lines.values()), "heap": sum(count for path, count in lines.items() if not path.startswith(WATCHING))}


def count_code(root: pathlib.Path, files: set[str]) -> int:
    """Lines of the same files without what watches or reports that are neither empty nor comments."""
    texts = [(root / path).read_text(encoding="utf-8") for path in files if path.endswith((".c", ".h")) and not path.startswith(WATCHING)]
    return sum(1 for text in texts for line in tidy_names.code_of(text).splitlines() if line.strip())


def rooms(root: pathlib.Path, files: set[str]) -> list[tuple[str, int, int]]:
    """(folder of src, its files, those of them that are compiled)."""
    there: dict[str, list[str]] = {}
    for path in (root / "src").rglob("*"):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            there.setdefault(name.rpartition("/")[0], []).append(name)
    return [(folder, len(names), len(files.intersection(names))) for folder, names in sorted(there.items())]


def aim(wanted: int) -> str:
    return f" (wanted: {wanted})" if wanted else ""


def print_walk(name: str, one: Walk, found: tuple[list[Place], list[Place]], with_helpers: bool) -> None:
    way, read = files_of(found[0]), files_of(found[0] + found[1])
    print(f"{name}: {one.what}\n  {len(way)} files on the way{aim(one.way)}, {len(read)} with helpers{aim(one.read)}")
    shown = found[0] + found[1] if with_helpers else found[0]
    for number, path in enumerate(files_of(shown), 1):
        functions = [place.name for place in shown if place.path == path]
        more = f" and {len(functions) - 4} more" if len(functions) > 4 else ""
        print(f"  {number:3} {'' if path in way else '+ '}{path}: {', '.join(functions[:4])}{more}")


def figures(root: pathlib.Path, graph: Graph) -> dict[str, int]:
    """All numbers that have a ceiling."""
    numbers = {}
    for name, one in WALKS.items():
        on_way, helpers = walk(graph, one)
        numbers[f"{name} way"] = len(files_of(on_way))
        numbers[f"{name} read"] = len(files_of(on_way + helpers))
    return numbers | {f"lines {name}": count for name, count in count_lines(root, graph.files).items()}


def read_ceilings(path: pathlib.Path) -> dict[str, int]:
    ceilings = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = re.fullmatch(r"(\S+ \S+) +(\d+)", line)
        if found:
            ceilings[found.group(1)] = int(found.group(2))
        elif line and not line.startswith("#"):
            raise SystemExit(f"{path}:{number}: '{line}'; want `WALK way|read N` or `lines all|heap N`")
    return ceilings


def judge(numbers: dict[str, int], ceilings: dict[str, int]) -> list[str]:
    """What grew, and what the list of ceilings lacks or has besides."""
    found = [f"{name} is {count}; at most {ceilings[name]}" for name, count in numbers.items() if count > ceilings.get(name, count)]
    found += [f"{name} has no ceiling" for name in numbers if name not in ceilings]
    return found + [f"{name} is no number of this tool" for name in ceilings if name not in numbers]


HEADER = """# How much there is to read: no number may grow. tools/reading.py --gate compares, and --record writes this.
# "way" and "read" are files of a walk, without and with helpers; "lines heap" is "lines all" without what watches or reports.

"""


def print_all(root: pathlib.Path, graph: Graph, options: argparse.Namespace) -> None:
    if options.lines:
        lines = count_lines(root, graph.files)
        print(f"{lines['all']} lines in {LANE}, {lines['heap']} without what watches or reports{aim(LINES_WANTED)}, of which {count_code(root, graph.files)} have code")
    if options.rooms:
        for folder, there, compiled in rooms(root, graph.files):
            print(f"{there:4} {folder}" + (f" ({compiled} in {LANE})" if compiled != there else ""))
    if not options.lines and not options.rooms:
        for name, one in WALKS.items():
            if name in (options.walk or WALKS):
                print_walk(name, one, walk(graph, one), options.all)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("walk", nargs="*", help=f"only these walks: {', '.join(WALKS)}")
    parser.add_argument("--all", action="store_true", help="the files with helpers too, marked by +")
    parser.add_argument("--lines", action="store_true", help="lines of the library instead")
    parser.add_argument("--rooms", action="store_true", help="files of each folder of src instead")
    parser.add_argument("--gate", action="store_true", help=f"only compare with {CEILINGS}; exit 1 if a number grew")
    parser.add_argument("--record", action="store_true", help=f"write today's numbers into {CEILINGS}")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--commands", type=pathlib.Path, help="compile_commands.json of a configured release build")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.walk) - set(WALKS))
    if unknown:
        parser.error(f"walk '{unknown[0]}'; allowed: {', '.join(WALKS)}")
    root = options.root.resolve()
    graph = join_units(root, read_units(root, options.commands or configure(root), TARGET))
    if options.record:
        rows = "".join(f"{name:12} {count:6}\n" for name, count in figures(root, graph).items())
        (root / CEILINGS).write_text(HEADER + rows, encoding="utf-8")
    elif options.gate:
        grown = judge(figures(root, graph), read_ceilings(root / CEILINGS))
        print("\n".join(f"reading: {line}" for line in grown) or "reading: nothing grew")
        return 1 if grown else 0
    else:
        print_all(root, graph, options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
