#!/usr/bin/env python3
"""House rules as a test: `tools/tidy.py` prints every breach as `path:line: [rule] what` and exits with 1.

Checks the files that git knows (tracked, or new and not ignored), or all files without git.
Rules:
  include     a room of base includes itself and the rooms before it in BASE_ROOMS; front includes base, heap and
              front. heap includes base, modules of heap
              that come before it in HEAP_ORDER, and by their bare names the few files that every engine
              has, and those that the ways have (sent.h, takers.h, cpu_bins.h). An engine or a way includes
              base, itself, and modules of heap that come before it in HEAP_ORDER, never another engine or
              way. A way may include the files that every engine has. All may include the public header,
              which includes nothing of src
  circle      no module includes itself through others; a module is a .h and a .c of one name
  home        a function declared in src/<module>.h is defined in src/<module>.c (or in the files of HOMES)
  length      files of code up to 800 lines, functions up to 70
  width       Markdown lines up to 160 columns
  page        Markdown pages up to 150 lines, except CHANGELOG.md and pages that a program writes
  decision    pages of docs/decisions up to 900 words, their README.md up to 750; each section of a page is one decision of at most
              500 words, with the labels of DECISION_LABELS, a date, a status, and at most one table of at most eight rows
  policy      src/policy.def has at most 45 rows, each with the section of a decision that exists
  condition   #if and its relatives only in base/os/compiler.h, base/os_*.c, base/os/syscall.h, config.[ch], engine_config.h,
              lanes, ways/percpu/rseq.h, workloads/common/marks.h, the public headers and headers of tests; include guards and `#ifdef __cplusplus`
              excepted
  atomic      in src, the compiler's and the standard's atomic functions only in base/os/atomic.h
  note        in src, a comment behind code ends on its line; a longer one stands above the statement
  partner     in src, `sync: EDGE, partner FUNCTION` names an edge of src/memory-order.md and a function of src that
              has a comment `sync: EDGE` too
  caller      in src, no comment lists callers; where one says `Only X calls this`, no other function, or file, does
  verb        in src, functions use the verbs of docs/glossary.md for what they mean there, and no synonyms of them
  knobs       an engine has at most 20 knobs and 4 lanes beside those of its documents, or as many as tests/counts/knobs.txt says
  word        no paths of somebody's machine, no marks of unfinished work
  format      clang-format would change nothing
"""

import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys
from typing import Callable, Iterator, NamedTuple

import tidy_names

FILE_LINES = 800
FUNCTION_LINES = 70
MARKDOWN_COLUMNS = 160
PAGE_LINES = 150
C_SUFFIXES = {".c", ".h", ".cc", ".hpp", ".def"}
CODE_SUFFIXES = C_SUFFIXES | {".py", ".cmake", ".sh", ".map"}
FORMATTED_SUFFIXES = {".c", ".h", ".cc", ".hpp"}


class Problem(NamedTuple):
    """One breach of one rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


class Source:
    """A file whose text is read once: as written, and with comments and literals blanked out."""

    def __init__(self, root: pathlib.Path, path: str):
        self.root = root
        self.path = path
        self.suffix = pathlib.PurePosixPath(path).suffix
        self.text = (root / path).read_text(encoding="utf-8")
        self.lines = self.text.split("\n")
        if self.lines[-1] == "":
            self.lines.pop()

    @property
    def is_c(self) -> bool:
        return self.suffix in C_SUFFIXES

    @property
    def is_code(self) -> bool:
        return self.suffix in CODE_SUFFIXES or self.text.startswith("#!")

    def bare(self) -> str:
        """The C text with comments, strings and character constants blanked; lines keep their numbers."""
        if not hasattr(self, "_bare"):
            self._bare = blank_literals(self.text)
        return self._bare


LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def blank_literals(text: str) -> str:
    """Replaces comments with spaces and literals with empty ones; newlines stay."""

    def blank(match: re.Match) -> str:
        found = match.group(0)
        newlines = "\n" * found.count("\n")
        if found.startswith("/"):
            return " " + newlines
        return '""' + newlines if found[0] in 'R"' else "0" + newlines

    return LITERAL.sub(blank, text)


# ---- include ---------------------------------------------------------------------------------------

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?P<open>["<])(?P<name>[^">\n]+)[">]', re.MULTILINE)
ENGINE = re.compile(r"^hz[0-9]+$")


# What heap and the ways find in the directory of the engine that they are built with.
ENGINE_FILES = {"engine_config.h", "engine_knobs.def", "engine_counters.def", "way.h"}
# What heap finds in the directories of the ways that it is built with.
WAY_FILES = {"sent.h", "takers.h", "cpu_bins.h"}
# What the folder of all ways with mailboxes finds in the folder of the one that it is built with.
MAILBOX_FILES = {"mailbox.h", "takers.h"}
# The layers below each, which it may include besides itself and the public header ("include").
POLICY_FILES = {"src/policy.h", "src/policy.def"}  # below all layers
BELOW = {"base": set(), "heap": {"base"}, "front": {"base", "heap"}, "engine": {"base", "heap"}}
# The rooms of base from bottom to top: each may include only those before it.
BASE_ROOMS = "os lists process profile map arena watch".split()
ROOM_FILES = 25
# The modules of heap from bottom to top: each may include only those before it. The ways' sent.h, takers.h, cpu_bins and
# other files have their places in it too.
HEAP_ORDER = (
    "knobs sizeclass misuse seal class_policy counters cache/bin threads/thread_block "
    "takers pages/shard pages/grid pages/page "
    "back/pressure pages/collapse pages/page_purge pages/put pages/send way sent pages/adopt pages/supply "
    "cache/batches cache/depot cache/sampler cache/inspect cache/flush cache/room cache/age cache/refill cpu_bins "
    "threads/init back/limit back/surroundings threads/park threads/orphan threads/zone threads/sleepers back/chores back/keeper "
    "threads/fork threads/thread threads/sample back/tick back/purge query resize malloc free heap "
    "report/census report/leaks report/figures report/flow report/situation report/stats config report/overview"
).split()


def layer_of(path: str) -> str:
    """'base', 'heap', 'front', 'hz3', 'ways/inbox', ... for a path under src/; 'include' under include/; else ''."""
    parts = pathlib.PurePosixPath(path).parts
    if len(parts) > 2 and parts[0] == "src":
        if parts[1] == "ways":
            return f"ways/{parts[2]}"
        return parts[2] if parts[1] == "engines" else parts[1]
    if path in POLICY_FILES:
        return "policy"
    return "include" if parts and parts[0] == "include" else ""


def place_of(path: str) -> str:
    """The word in HEAP_ORDER that stands for a file of heap, of an engine or of a way."""
    layer = layer_of(path)
    stem = pathlib.PurePosixPath(path).with_suffix("").as_posix()
    if layer == "heap":
        return stem.removeprefix("src/heap/")
    name = stem.rpartition("/")[2]
    if pathlib.PurePosixPath(path).name in WAY_FILES or (is_way(layer) and name in {"cpu_bins", "sent"}):
        return name
    return "way" if is_way(layer) else "knobs"


def is_way(layer: str) -> bool:
    return layer.startswith("ways/")


def ways_of(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in (root / "src/ways").glob("*") if path.is_dir())


def engines_of(root: pathlib.Path) -> list[str]:
    engines = root / "src/engines"
    return sorted(p.name for p in engines.iterdir() if ENGINE.match(p.name)) if engines.is_dir() else []


def resolve_include(source: Source, name: str) -> set[str]:
    """The files that the build could find under `name`, relative to the root."""
    root, layer = source.root, layer_of(source.path)
    places = [(root / source.path).parent, root / "src", root / "include"]
    if ENGINE.match(layer):
        places.append(root / "src/engines" / layer)
    elif layer in {"heap", "front"} or is_way(layer):  # the build puts the engine's directory on their include path
        places += [root / "src/engines" / engine for engine in engines_of(root)]
        places += ways_of(root) if not is_way(layer) or (layer == "ways/lists" and name in MAILBOX_FILES) else []  # and those of the ways home
        places += [root / "src/ways/lists"] if is_way(layer) else []
    found = set()
    for place in places:
        target = pathlib.Path(os.path.normpath(place / name))
        if target.is_file() and target.is_relative_to(root):
            found.add(target.relative_to(root).as_posix())
    return found


def layer_breach(layer: str, name: str, targets: set[str], engines: list[str]) -> str | None:
    """Says what is wrong when a file of `layer` includes `name`, found in the layers `targets`; None when nothing is."""
    if not targets:
        return f'"{name}" is in none of the include roots'
    if layer == "include":
        return f'the public header includes "{name}" of src' if targets != {"include"} else None
    if layer in {"heap", "front"}:
        named = re.match(r"(?:\.\./|src/|engines/)*(hz[0-9]+)/", name)
        if named:
            return f'{layer} names engine {named.group(1)} in "{name}"; the build chooses the engine'
        named = re.match(r"(?:\.\./|src/)*ways/([a-z]+)/", name)
        if named:
            return f'{layer} names way {named.group(1)} in "{name}"; the build chooses the way'
    if layer == "heap" and name in WAY_FILES:
        return None
    if (layer == "heap" or is_way(layer)) and name in ENGINE_FILES:
        lacking = sorted(set(engines) - targets)
        return f'{layer} includes "{name}", which {", ".join(lacking)} does not have' if lacking else None
    if layer == "ways/lists" and name in MAILBOX_FILES:
        return None
    common = {"ways/lists"} if is_way(layer) else set()
    wrong = sorted(targets - {layer, "include", "policy"} - common - BELOW.get("engine" if ENGINE.match(layer) or is_way(layer) else layer, {"base"}))
    return f'{layer} includes "{name}" of {", ".join(wrong)}' if wrong else None


def room_breach(path: str, name: str, targets: set[str]) -> str | None:
    """Says what is wrong when a file of a room of base includes `name`, found as `targets`."""
    own = room_of(path)
    if own not in BASE_ROOMS:
        return f"room '{own}' is not in BASE_ROOMS (tools/tidy.py)"
    for target in sorted(targets):
        other = room_of(target)
        if layer_of(target) == "base" and (other not in BASE_ROOMS or BASE_ROOMS.index(other) > BASE_ROOMS.index(own)):
            return f'base/{own} includes "{name}", which is in no room up to it in BASE_ROOMS'
    return None


def room_of(path: str) -> str:
    """The folder of a file of base below src/base; empty for one that is in none."""
    parts = pathlib.PurePosixPath(path).parts
    return parts[2] if len(parts) == 4 else ""


def order_breach(path: str, name: str, targets: set[str]) -> str | None:
    """Says what is wrong with the order when a file of heap, of an engine or of a way includes a module of heap."""
    own = place_of(path)
    if own not in HEAP_ORDER:
        return f"{own} is not in HEAP_ORDER (tools/tidy.py)"
    for target in sorted(targets):
        other = place_of(target)
        if layer_of(target) == layer_of(path) != "heap" or layer_of(target) in {"base", "include", "policy"}:
            continue
        if other not in HEAP_ORDER:
            return f'"{name}" is not in HEAP_ORDER (tools/tidy.py)'
        if HEAP_ORDER.index(other) > HEAP_ORDER.index(own):
            return f'{own} includes "{name}", which comes after it in HEAP_ORDER'
    return None


def includes_of(source: Source) -> Iterator[tuple[int, str, set[str]]]:
    """(line, name, files that the name can mean) of each include, system headers left out."""
    # source.bare() blanks the quoted names too, so only comments are blanked here.
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), source.text, flags=re.DOTALL)
    for match in INCLUDE.finditer(text):
        targets = resolve_include(source, match.group("name"))
        if match.group("open") == '"' or targets:
            yield text.count("\n", 0, match.start()) + 1, match.group("name"), targets


def check_include(source: Source) -> Iterator[Problem]:
    layer = layer_of(source.path)
    if not source.is_c or not layer:
        return
    for line, name, targets in includes_of(source):
        breach = layer_breach(layer, name, {layer_of(target) for target in targets}, engines_of(source.root))
        if breach is None and layer == "base":
            breach = room_breach(source.path, name, targets)
        if breach is None and (layer == "heap" or is_way(layer) or ENGINE.match(layer)):
            breach = order_breach(source.path, name, targets)
        if breach:
            yield Problem(source.path, line, "include", breach)


# ---- circle ----------------------------------------------------------------------------------------


def module_of(path: str) -> str:
    return pathlib.PurePosixPath(path).with_suffix("").as_posix()


def check_circles(sources: list[Source]) -> Iterator[Problem]:
    """Modules of src whose .h and .c lead back to themselves."""
    edges: dict[str, dict[str, tuple[str, int]]] = {}
    for source in sources:
        if not source.is_c or not source.path.startswith("src/"):
            continue
        own = module_of(source.path)
        for line, _, targets in includes_of(source):
            for target in targets:
                if module_of(target) != own and target.endswith(".h"):
                    edges.setdefault(own, {}).setdefault(module_of(target), (source.path, line))
    state: dict[str, str] = {}
    trail: list[str] = []

    def visit(module: str) -> Iterator[Problem]:
        state[module] = "open"
        trail.append(module)
        for target, (path, line) in sorted(edges.get(module, {}).items()):
            if state.get(target) == "open":
                circle = " -> ".join([*trail[trail.index(target) :], target])
                yield Problem(path, line, "circle", circle)
            elif target not in state:
                yield from visit(target)
        trail.pop()
        state[module] = "done"

    for module in sorted(edges):
        if module not in state:
            yield from visit(module)


# ---- rooms -----------------------------------------------------------------------------------------


def check_rooms(paths: list[str]) -> Iterator[Problem]:
    """Folders of src and its unit tests in which nobody finds anything."""
    rooms: dict[str, int] = {}
    for path in paths:
        if path.startswith(("src/", "tests/unit/")):
            folder = path.rpartition("/")[0]
            rooms[folder] = rooms.get(folder, 0) + 1
    for folder, files in sorted(rooms.items()):
        if files > ROOM_FILES:
            yield Problem(folder, 1, "rooms", f"{files} files; allowed: {ROOM_FILES}")


# ---- home ------------------------------------------------------------------------------------------

# Headers whose functions are defined elsewhere: a contract with several implementations.
HOMES = {
    "src/base/os/os.h": ("src/base/os/os_linux.c", "src/base/os/os_process.c", "src/base/os/os_faulty.c"),
    "src/base/os/os_faulty.h": ("src/base/os/os_faulty.c", "src/base/os/os_linux.c"),
    "src/ways/lists/mail.h": ("src/ways/inbox/mail.c", "src/ways/queues/mail.c", "src/ways/stages/mail.c"),
}
PROTOTYPE = re.compile(r"^(?!typedef|static|extern|#)[A-Za-z_][^;{}=]*?\b(hz[0-9]*_\w+)\([^;{}]*\)\s*;", re.MULTILINE)


def check_home(source: Source) -> Iterator[Problem]:
    if source.suffix != ".h" or not source.path.startswith("src/"):
        return
    homes = HOMES.get(source.path, (f"{module_of(source.path)}.c",))
    bodies = "".join((source.root / home).read_text(encoding="utf-8") for home in homes if (source.root / home).is_file())
    bodies = blank_literals(bodies)
    # os_linux.c gives its functions their names by IMPL(name)
    bodies = re.sub(r"\bIMPL\((\w+)\)", r"hz_os_\1 hz_os_linux_\1", bodies)
    bare = source.bare()
    for match in PROTOTYPE.finditer(bare):
        name = match.group(1)
        if not re.search(rf"\b{name}\b[^;{{}}]*\)[^;{{}}]*\{{", bodies):
            line = bare.count("\n", 0, match.start(1)) + 1
            yield Problem(source.path, line, "home", f"{name} is not defined in {' or '.join(homes)}")


# ---- length ----------------------------------------------------------------------------------------

SCOPE = re.compile(r"^(?:inline\s+)?namespace\b|^extern\s+\"|^(?:template\s*<.*>\s*)?(?:class|struct|union|enum)\b")


def opens_function(head: str) -> bool:
    """True when a brace after `head` (the text since the last ; { or }) opens a function's body."""
    head = re.sub(r"^(?:\s*#[^\n]*\n)+", "", head).strip()
    if SCOPE.match(head) and not re.search(r"\)\s*(?:const|noexcept|override|final)?\s*$", head):
        return False
    return "(" in head and not head.endswith("=")


def c_functions(bare: str) -> Iterator[tuple[int, int]]:
    """(first line, last line) of each function, including its head, in blanked C or C++ text."""
    # Preprocessor lines (with their continuations) can have unbalanced braces.
    bare = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m.group(0).count("\n"), bare, flags=re.MULTILINE)
    depth = body_depth = head_start = start = 0
    in_body = False
    for position, char in enumerate(bare):
        if char == "{":
            if not in_body and opens_function(bare[head_start:position]):
                in_body, body_depth = True, depth
                head = bare[head_start:position]
                start = head_start + len(head) - len(head.lstrip())
            depth += 1
        elif char == "}":
            depth -= 1
            if in_body and depth == body_depth:
                in_body = False
                yield bare.count("\n", 0, start) + 1, bare.count("\n", 0, position) + 1
        if char in "{};" and not in_body:
            head_start = position + 1


def python_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno or node.lineno


def is_python(source: Source) -> bool:
    return source.suffix == ".py" or bool(re.match(r"#!.*\bpython3?\b", source.lines[0] if source.lines else ""))


def check_length(source: Source) -> Iterator[Problem]:
    if not source.is_code:
        return
    if len(source.lines) > FILE_LINES:
        yield Problem(source.path, len(source.lines), "length", f"{len(source.lines)} lines; allowed: {FILE_LINES}")
    functions: Iterator[tuple[int, int]] = iter(())
    if source.is_c:
        functions = c_functions(source.bare())
    elif is_python(source):
        functions = python_functions(source.text)
    for first, last in functions:
        if last - first + 1 > FUNCTION_LINES:
            text = f"function of {last - first + 1} lines; allowed: {FUNCTION_LINES}"
            yield Problem(source.path, first, "length", text)


# ---- condition -------------------------------------------------------------------------------------

DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else)\b[ \t]*(.*)$")
CONDITION_HOMES = re.compile(
    r"^(?:src/base/os/(?:compiler|syscall)\.h|src/base/(?:os|process)/os_[a-z0-9_]+\.c|src/[a-z0-9]+/config\.[ch]|src/engines/[a-z0-9]+/engine_config\.h"
    r"|src/engines/[a-z0-9]+/lanes/[a-z0-9]+\.h|src/ways/percpu/rseq\.h|bench/workloads/common/marks\.h|include/hakozuna/[a-z_]+\.(?:h|hpp)|tests/.*\.h)$"
)


def guard_lines(lines: list[str]) -> set[int]:
    """The line number of a leading `#ifndef X` whose next code line is `#define X`."""
    code = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if len(code) < 2:
        return set()
    (number, first), (_, second) = code[:2]
    guard = re.match(r"#\s*ifndef\s+(\w+)$", first)
    if guard and re.match(rf"#\s*define\s+{guard.group(1)}$", second):
        return {number}
    return set()


def check_condition(source: Source) -> Iterator[Problem]:
    if not source.is_c or CONDITION_HOMES.match(source.path):
        return
    lines = source.bare().split("\n")
    guards = guard_lines(lines) if source.suffix == ".h" else set()
    for number, line in enumerate(lines, 1):
        match = DIRECTIVE.match(line)
        if not match or number in guards:
            continue
        if match.group(1) == "ifdef" and match.group(2).strip() == "__cplusplus":
            continue
        text = f"#{match.group(1)} {match.group(2).strip()}".rstrip()
        yield Problem(source.path, number, "condition", f"{text}: conditions live in config headers and base/os/compiler.h")


# ---- atomic ----------------------------------------------------------------------------------------

ATOMIC = re.compile(r"\b(?:atomic_\w+\s*\(|__atomic_\w+|__sync_\w+|__c11_atomic_\w+|memory_order_\w+)|<stdatomic\.h>")


def check_atomic(source: Source) -> Iterator[Problem]:
    if not source.is_c or not source.path.startswith("src/") or source.path == "src/base/os/atomic.h":
        return
    for number, line in enumerate(source.bare().split("\n"), 1):
        for match in ATOMIC.finditer(line):
            what = match.group(0).rstrip("( ")
            yield Problem(source.path, number, "atomic", f"{what}: atomics only through base/os/atomic.h")


# ---- note ------------------------------------------------------------------------------------------

OPEN_COMMENT = re.compile(r"^(?P<code>\s*[^\s*/][^\"]*?)/\*(?:(?!\*/).)*$")


def check_note(source: Source) -> Iterator[Problem]:
    if not source.is_c or not source.path.startswith("src/"):
        return
    for number, line in enumerate(source.lines, 1):
        found = OPEN_COMMENT.match(line)
        if found and not found["code"].lstrip().startswith("#"):
            yield Problem(source.path, number, "note", "a comment behind code must end on its line; put it above the statement")


# ---- word ------------------------------------------------------------------------------------------

# Written so that they do not match themselves.
WORDS = [
    (re.compile(r"(?<![\w.$}-])/(?:work|root|home/[a-z][\w-]*|Users/\w+)(?:/|\b(?![\w-]))"), "path of somebody's machine"),
    (re.compile(r"/tmp/bash[_]jobs"), "path of somebody's machine"),
    (re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b"), "mark of unfinished work"),
]


def check_word(source: Source) -> Iterator[Problem]:
    for number, line in enumerate(source.lines, 1):
        for pattern, meaning in WORDS:
            match = pattern.search(line)
            if match:
                yield Problem(source.path, number, "word", f"'{match.group(0)}': {meaning}")


# ---- width -----------------------------------------------------------------------------------------


def check_width(source: Source) -> Iterator[Problem]:
    """Wider lines cannot be read side by side, and a table that needs them is two tables."""
    for number, line in enumerate(source.lines if source.suffix == ".md" else [], 1):
        if len(line) > MARKDOWN_COLUMNS:
            yield Problem(source.path, number, "width", f"{len(line)} columns; allowed: {MARKDOWN_COLUMNS}")


# ---- page ------------------------------------------------------------------------------------------

# The comment at the top of a page that tools/lanes.py, tools/counters.py or hakobench writes.
WRITTEN = re.compile(r"^<!-- (?:written by tools/\S+\.py|`hakobench report --markdown` wrote this page)", re.MULTILINE)
WRITTEN_LINES = 2  # of the page, in which that comment stands


def check_page(source: Source) -> Iterator[Problem]:
    """A longer page is two pages: a reader looks for one thing."""
    if source.suffix != ".md" or source.path == "CHANGELOG.md" or len(source.lines) <= PAGE_LINES:
        return
    if not WRITTEN.search("\n".join(source.lines[:WRITTEN_LINES])):
        yield Problem(source.path, PAGE_LINES + 1, "page", f"{len(source.lines)} lines; allowed: {PAGE_LINES}")


# ---- decision --------------------------------------------------------------------------------------

DECISION_PAGE = re.compile(r"^docs/decisions/(?P<name>[^/]+)\.md$")
DECISION_WORDS = 500
DECISION_PAGE_WORDS = 900
DECISION_INDEX_WORDS = 750
DECISION_ROWS = 8
# What a section says, by its labels in bold; and what must follow a label, where that is more than text.
DECISION_LABELS = {
    "Question": r"\S",
    "Decision": r"\S",
    "What would change our mind": r"\S",
    "Date": r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])\.",
    "Status": r"(?:Current|Superseded by \[[^]]+\]\([^)]+\))[.;,]",
    "Raw data": r"\S",
}


def word_count(lines: list[str]) -> int:
    """As `wc -w` counts: the bars of a table are words too."""
    return sum(len(line.split()) for line in lines)


def sections_of(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, lines) of each section of a page."""
    starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        yield start + 1, lines[start:end]


def decision_breaches(section: list[str]) -> Iterator[str]:
    """Says what is wrong with one decision."""
    words = word_count(section)
    if words > DECISION_WORDS:
        yield f"{words} words; allowed: {DECISION_WORDS}"
    text = "\n".join(section)
    for label, value in DECISION_LABELS.items():
        if not re.search(rf"\*\*{label}\.\*\*\s+{value}", text):
            yield f"no '**{label}.**'" + (f" with {value}" if label in {"Date", "Status"} else "")
    tables = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    if len(tables) > 1:
        yield f"{len(tables)} tables; allowed: 1"
    for table in tables:
        rows = len(table.splitlines()) - 2  # the head and the line below it
        if rows > DECISION_ROWS:
            yield f"a table of {rows} rows; allowed: {DECISION_ROWS}"


def check_decision(source: Source) -> Iterator[Problem]:
    """A decision is read on one screen, and says when it was made and whether it still holds."""
    page = DECISION_PAGE.match(source.path)
    if not page:
        return
    is_index = page["name"] == "README"
    words, most = word_count(source.lines), DECISION_INDEX_WORDS if is_index else DECISION_PAGE_WORDS
    if words > most:
        yield Problem(source.path, 1, "decision", f"page of {words} words; allowed: {most}")
    if is_index:
        return
    sections = list(sections_of(source.lines))
    if not sections:
        yield Problem(source.path, 1, "decision", "no section, so no decision")
    for line, section in sections:
        for breach in decision_breaches(section):
            yield Problem(source.path, line, "decision", breach)


# ---- policy ----------------------------------------------------------------------------------------

POLICY_ROWS = 45
POLICY_ROW = re.compile(r'^(?:POLICY\(\w+, [^,"]+, "[^"]+", "(?P<page>[\w-]+\.md)#(?P<section>[\w-]+)"|BOUND\(\w+(?:, [^,"]+){4}), "[^"]+"\)$')


def check_policy(source: Source) -> Iterator[Problem]:
    """The numbers that decide where free memory rests are few, in one table, and each has a decision."""
    if source.path != "src/policy.def":
        return
    rows = [(number, line) for number, line in enumerate(source.lines, 1) if line.startswith(("POLICY(", "BOUND("))]
    if len(rows) > POLICY_ROWS:
        yield Problem(source.path, rows[POLICY_ROWS][0], "policy", f"{len(rows)} rows; allowed: {POLICY_ROWS}")
    for number, line in rows:
        row = POLICY_ROW.match(line)
        if not row:
            yield Problem(source.path, number, "policy", "not POLICY(name, value, unit, decision, what) or BOUND(...) on one line")
            continue
        page = source.root / "docs/decisions" / (row["page"] or "README.md")
        titles = re.findall(r"(?m)^## (.+)$", page.read_text(encoding="utf-8")) if page.is_file() else []
        if row["page"] and row["section"] not in {title.lower().replace(" ", "-") for title in titles}:
            yield Problem(source.path, number, "policy", f"there is no decision {row['page']}#{row['section']}")


# ---- format ----------------------------------------------------------------------------------------


def check_format(root: pathlib.Path, paths: list[str]) -> Iterator[Problem]:
    """Runs clang-format on many files per call, because it starts slowly."""
    paths = [path for path in paths if pathlib.PurePosixPath(path).suffix in FORMATTED_SUFFIXES]
    for first in range(0, len(paths), 64):
        command = ["clang-format", "--dry-run", "--style=file", *paths[first : first + 64]]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"tidy: clang-format failed: {run.stderr.strip()}")
        seen = set()
        for line in run.stderr.splitlines():
            match = re.match(r"(.*?):(\d+):\d+: (?:warning|error): .*clang-format", line)
            if match and match.group(1) not in seen:
                seen.add(match.group(1))
                yield Problem(match.group(1), int(match.group(2)), "format", "clang-format would change this")


# ---- all together ----------------------------------------------------------------------------------

RULES: dict[str, Callable[[Source], Iterator[Problem]]] = {
    "include": check_include,
    "home": check_home,
    "length": check_length,
    "condition": check_condition,
    "atomic": check_atomic,
    "note": check_note,
    "word": check_word,
    "width": check_width,
    "page": check_page,
    "decision": check_decision,
    "policy": check_policy,
}


def known_files(root: pathlib.Path) -> list[str]:
    """Paths below root, relative and sorted, without what git ignores."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 0:
        names = set(run.stdout.split("\0")) - {""}
    else:
        paths = (path.relative_to(root) for path in root.rglob("*"))
        names = {path.as_posix() for path in paths if path.parts[0] not in {".git", ".venv", ".cache", "build"}}
    return sorted(name for name in names if (root / name).is_file() and not (root / name).is_symlink())


def find_problems(root: pathlib.Path, paths: list[str], rules: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    sources: list[Source] = []
    for path in paths:
        try:
            sources.append(Source(root, path))
        except UnicodeDecodeError:
            continue  # not text: nothing to read
    for source in sources:
        for name, rule in RULES.items():
            if name in rules:
                problems += rule(source)
    if "circle" in rules:
        problems += check_circles(sources)
    if "partner" in rules:
        problems += [Problem(path, line, "partner", what) for path, line, what in tidy_names.check_partners(sources, root)]
    if "caller" in rules:
        problems += [Problem(path, line, "caller", what) for path, line, what in tidy_names.check_callers(sources)]
    if "verb" in rules:
        problems += [Problem(path, line, "verb", what) for path, line, what in tidy_names.check_verbs(sources)]
    if "knobs" in rules:
        problems += [Problem(path, line, "knobs", what) for path, line, what in tidy_names.check_knobs(root, engines_of(root))]
    if "rooms" in rules:
        problems += check_rooms(paths)
    if "format" in rules:
        problems += check_format(root, paths)
    return problems


def main(arguments: list[str]) -> int:
    names = [*RULES, "circle", "partner", "caller", "verb", "knobs", "rooms", "format"]
    parser = argparse.ArgumentParser(description="Checks the house rules.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--rule", action="append", choices=names, help="only this rule (may be repeated)")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    if not root.is_dir():
        parser.error(f"--root is '{options.root}'; want a directory")
    paths = known_files(root)
    if not paths:
        parser.error(f"--root is '{options.root}'; it has no files")
    problems = find_problems(root, paths, set(options.rule or names))
    for problem in problems:
        print(problem)
    print(f"tidy: {len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
