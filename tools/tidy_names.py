"""The rules of tools/tidy.py about names: partner, caller, verb, knobs. tidy.py describes them.

A rule gets all sources (Source of tidy.py), or the root, and yields (path, line, what).
"""

import pathlib
import re
from typing import Iterator, NamedTuple

Breach = tuple[str, int, str]

# ---- what a source says ----------------------------------------------------------------------------

# clang-format begins every definition in the first column and ends it with a brace there.
HEAD = re.compile(r"^(?!else\b|do\b|(?:struct|enum|union)[ \w]*\{)[A-Za-z_][^;{}=#]*\)[^;{}=#()]*\{", re.MULTILINE)
LITERAL = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'", re.DOTALL)
NOT_A_NAME = re.compile(r"_Atomic|__attribute__|HZ_[A-Z_0-9]+")


class Function(NamedTuple):
    """A definition: where it starts, and where its body does and ends, in the file's text."""

    name: str
    path: str
    start: int
    body: int
    end: int


class Comment(NamedTuple):
    """A comment whose line ends, and the stars that begin a line, are blanks."""

    path: str
    start: int
    end: int
    text: str


def code_of(text: str) -> str:
    """Comments and literals become blanks; all else keeps its place."""
    return LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def name_in(head: str) -> str:
    """The function that a text such as `static void *f(int a)` declares."""
    # os_linux.c gives its functions their names by IMPL(name)
    head = re.sub(r"\bIMPL\((\w+)\)", r"hz_os_\1", head)
    depth = 0
    for found in re.finditer(r"(\w+)(?=\()|[()]", head):
        if found.group(1) is None:
            depth += 1 if found.group(0) == "(" else -1
        elif depth == 0 and not NOT_A_NAME.fullmatch(found.group(1)):
            return found.group(1)
    return ""


def functions_of(path: str, text: str) -> Iterator[Function]:
    code = code_of(text)
    for head in HEAD.finditer(code):
        name = name_in(head.group(0))
        line_end = code.find("\n", head.end())
        closing = max(code.rfind("}", head.end(), line_end), 0) or code.find("\n}", head.end() - 1) + 1
        if name and closing > 0:
            yield Function(name, path, head.start(), head.end(), closing)


def comments_of(path: str, text: str) -> Iterator[Comment]:
    for found in LITERAL.finditer(text):
        if found.group(0).startswith("/*"):
            flat = re.sub(r"\n[ \t]*\*?(?!/)", lambda gap: " " * len(gap.group(0)), found.group(0)[2:-2])
            yield Comment(path, found.start(), found.end(), "  " + flat + "  ")


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


class Tree:
    """All of src: its texts, definitions and comments."""

    def __init__(self, sources: list):
        self.texts = {source.path: source.text for source in sources if source.is_c and source.path.startswith("src/")}
        self.comments = [comment for path, text in self.texts.items() for comment in comments_of(path, text)]
        self.functions: dict[str, list[Function]] = {}
        for path, text in self.texts.items():
            for function in functions_of(path, text):
                self.functions.setdefault(function.name, []).append(function)

    def line(self, comment: Comment, place: int) -> int:
        return line_of(self.texts[comment.path], comment.start + place)


# ---- partner ---------------------------------------------------------------------------------------

EDGES_PAGE = "src/memory-order.md"
EDGE = re.compile(r"\| \*\*([a-z-]+)\*\* \|")
NAME = r"[a-z]\w*(?:\s+\([^)]*\))?"
PARTNERS = re.compile(
    r"sync:\s+(?P<edge>[a-z][a-z-]*)"
    rf"(?:,\s+(?:partner\s+(?P<near>the\s+[\w\s]*?(?:below|above|in\s+this\s+\w+))|(?:partners?\s+)?as\s+in\s+(?P<same>\w+)"
    rf"|partners\s+(?P<many>{NAME}(?:(?:,|\s+and)\s+{NAME}(?=[,.:;]|\s+and\s|\s*$))+)|partner\s+(?P<one>\w+)))?"
)
PARTNER = re.compile(r"\bpartners?\b")


def carries(tree: Tree, function: Function, edge: str) -> bool:
    return re.search(rf"sync:\s+{edge}\b", tree.texts[function.path][function.start : function.end]) is not None


def partner_breaches(tree: Tree, comment: Comment, found: re.Match) -> Iterator[str]:
    edge = found["edge"]
    names = found["one"] or found["same"] or re.sub(r"\s+\([^)]*\)", "", found["many"] or "")
    for name in re.findall(r"\b(?!and\b)\w+", names):
        others = tree.functions.get(name, [])
        if not others:
            yield f"partner {name} of {edge} is no function of src"
        elif not any(carries(tree, other, edge) for other in others):
            yield f"partner {name} has no comment `sync: {edge}`"


def edges_of(page: str, tree: Tree) -> Iterator[tuple[str, int, list[str]]]:
    """(edge, line, functions of its two ends that do not exist) of the page's table."""
    for number, line in enumerate(page.split("\n"), 1):
        edge = EDGE.match(line)
        if edge:
            ends = " ".join(line.split("|")[3:5])
            yield edge.group(1), number, [name for name in re.findall(r"`(\w+)`", ends) if name not in tree.functions]


def check_partners(sources: list, root: pathlib.Path) -> Iterator[Breach]:
    """Both ends of an edge name each other."""
    tree = Tree(sources)
    page = root / EDGES_PAGE
    edges = set()
    for edge, line, missing in edges_of(page.read_text(encoding="utf-8") if page.is_file() else "", tree):
        edges.add(edge)
        for name in missing:
            yield EDGES_PAGE, line, f"{name} of {edge} is no function of src"
    for comment in tree.comments:
        known = []
        for found in PARTNERS.finditer(comment.text):
            known.append(found.span())
            line = tree.line(comment, found.start())
            if found["edge"] not in edges:
                yield comment.path, line, f"edge {found['edge']} is not in {EDGES_PAGE}"
            for what in partner_breaches(tree, comment, found):
                yield comment.path, line, what
        for found in PARTNER.finditer(comment.text):
            if not any(first <= found.start() < last for first, last in known) and comment.path != "src/base/os/atomic.h":
                yield comment.path, tree.line(comment, found.start()), "a partner without its edge; want `sync: EDGE, partner FUNCTION`"


# ---- caller ----------------------------------------------------------------------------------------

CALLERS = re.compile(r"(?:^|[.;]|-)\s+(Called\s+(?:by|from|in|when|where|to|on|at)\b|Used\s+by\b|Callers?:)")
ONLY = re.compile(r"\bOnly\s+(?P<caller>[a-z]\w*)(?P<file>\.c)?\s+calls\s+this\b")
DECLARED = re.compile(r"\s*([A-Za-z_][^;{}=]*\))[^;{}=()]*[;{]")


def stem(path: str) -> str:
    return pathlib.PurePosixPath(path).with_suffix("").as_posix()


def calls_of(tree: Tree, name: str) -> Iterator[tuple[str, int, str]]:
    """(path, line, function) of each use of the name within a function."""
    for path, text in tree.texts.items():
        if name not in text:
            continue
        code = code_of(text)
        for function in functions_of(path, text):
            for found in re.finditer(rf"\b{name}\b", code[function.body : function.end]):
                yield path, line_of(text, function.body + found.start()), function.name


def check_callers(sources: list) -> Iterator[Breach]:
    """No list of callers, which nobody keeps; a rule about who may call is checked."""
    tree = Tree(sources)
    for comment in tree.comments:
        for found in CALLERS.finditer(comment.text):
            words = re.sub(r"\s+", " ", found.group(1))
            what = f"'{words}': a list of callers goes stale; for a rule write `Only FUNCTION calls this` or `Only FILE.c calls this`"
            yield comment.path, tree.line(comment, found.start(1)), what
        for found in ONLY.finditer(comment.text):
            line = tree.line(comment, found.start())
            declared = DECLARED.match(code_of(tree.texts[comment.path])[comment.end :])
            name = name_in(declared.group(1)) if declared else ""
            if not name:
                yield comment.path, line, "'Only ... calls this' stands above no function"
                continue
            uses = list(calls_of(tree, name))
            if not uses:
                yield comment.path, line, f"nothing calls {name}"
            for path, use, function in uses:
                if found["caller"] != (stem(path).rpartition("/")[2] if found["file"] else function):
                    yield path, use, f"{function} calls {name}, but only {found['caller']}{found['file'] or ''} may ({comment.path}:{line})"


# ---- verb ------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """Where functions of the verb are: a function in no such folder or file means something else by it. `synonyms`:
    words that no function uses, since they would mean the same as the verb."""

    homes: str
    synonyms: str = ""


# Verbs of docs/glossary.md.
VERBS = {
    "park": Verb("src/heap/threads/"),
    "resume": Verb("src/heap/threads/"),
    "carve": Verb("src/heap/pages/", "slice"),
    "send": Verb("src/", "enqueue post deliver dispatch forward"),
    "take": Verb("src/", "dequeue grab receive"),
    "put": Verb("src/", "deposit return"),
    "pass": Verb("src/heap/cache/", "donate handover"),
    "push": Verb("src/", "append"),
    "pop": Verb("src/"),
    "refill": Verb("src/heap/", "replenish restock"),
    "flush": Verb("src/heap/cache/flush src/base/profile/profile_write src/base/watch/report", "evict spill"),
    "drain": Verb("src/ways/"),
    "adopt": Verb("src/heap/pages/adopt", "steal inherit seize"),
    "claim": Verb("src/", "obtain"),
    "release": Verb("src/", "relinquish abandon disown"),
    "attach": Verb("src/heap/threads/"),
    "detach": Verb("src/heap/threads/"),
    "depart": Verb("src/heap/pages/"),
    "arrive": Verb("src/heap/pages/"),
    "reclaim": Verb("src/heap/threads/orphan src/ways/", "reap salvage"),
    "gather": Verb("src/ways/", "collect harvest"),
    "settle": Verb("src/base/ src/heap/cache/ src/heap/pages/ src/heap/threads/ src/ways/"),
    "retire": Verb("src/heap/pages/"),
    "purge": Verb("src/", "decommit scavenge"),
}
# Verbs of style.md that need no glossary.
PLAIN_VERBS = {
    "find": Verb("src/", "lookup search locate"),
    "get": Verb("src/", "fetch retrieve"),
    "alloc": Verb("src/", "allocate"),
    "free": Verb("src/", "deallocate dealloc dispose"),
    "drop": Verb("src/", "destroy discard"),
    "add": Verb("src/", "insert"),
}
# Functions that are named otherwise, and what they do or why.
OTHER_NAMES = {
    "hz_zone_destroy": "public",
    "enqueue": "a page, not blocks: the page queue (src/ways/queues)",
    "leak_insert": "into a sorted list",
    "hz_fence_drain": "empties the quarantine",
    "entries_pass": "passes over entries",
    "hz_keeper_resume": "the keeper goes on after a fork",
    "hz_spares_return": "spare batches, not blocks",
    "hz_idle_bins_flush": "sends idle bins home",
    "shard_retire": "retires all pages of a shard",
}
SUFFIX = re.compile(r"(?:_(?:locked|slow|fork|all|some|one|once|due|sent|class|fully|tick|walk))+$")
SYNONYMS = {word: verb for table in (VERBS, PLAIN_VERBS) for verb, row in table.items() for word in row.synonyms.split()}


def check_verbs(sources: list) -> Iterator[Breach]:
    """One verb for each meaning, and one meaning for each verb."""
    tree = Tree(sources)
    for name, functions in sorted(tree.functions.items()):
        if name in OTHER_NAMES:
            continue
        verb = SUFFIX.sub("", name).rpartition("_")[2]
        for path, start in {(function.path, function.start) for function in functions}:
            line = line_of(tree.texts[path], start)
            for word in name.split("_"):
                if word in SYNONYMS:
                    yield path, line, f"{name}: '{word}' is called '{SYNONYMS[word]}' here (docs/glossary.md)"
            if verb in VERBS and not path.startswith(tuple(VERBS[verb].homes.split())):
                yield path, line, f"{name}: '{verb}' means something else (docs/glossary.md); it belongs to {VERBS[verb].homes}"


# ---- knobs -----------------------------------------------------------------------------------------

KNOBS_PAGE = "tests/counts/knobs.txt"
KNOBS_MOST = {"knobs": 20, "lanes": 4}
KNOB_LINE = re.compile(r"^KNOB\((\w+),", re.MULTILINE)
COUNT_LINE = re.compile(r"documents (?:knob|lane) (?P<own>\S+)|most (?P<engine>\S+) (?P<what>knobs|lanes) (?P<most>\d+)$")


def knobs_in(path: pathlib.Path) -> list[str]:
    return KNOB_LINE.findall(path.read_text(encoding="utf-8")) if path.is_file() else []


def check_knobs(root: pathlib.Path, engines: list[str]) -> Iterator[Breach]:
    """What an engine can be built with stays small enough to know and to test."""
    own: dict[str, int] = {}
    most: dict[tuple[str, str], int] = {}
    page = root / KNOBS_PAGE
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n") if page.is_file() else [], 1):
        found = COUNT_LINE.match(line)
        if found is None:
            if line and not line.startswith("#"):
                yield KNOBS_PAGE, number, f"'{line}'; want `documents knob|lane NAME` or `most ENGINE knobs|lanes N`"
        elif found["own"]:
            own[found["own"]] = number
        else:
            most[found["engine"], found["what"]] = int(found["most"])
    unknown = dict(own)
    for engine in engines:
        folder = f"src/engines/{engine}"
        names = {
            "knobs": knobs_in(root / "src/heap/knobs.def") + knobs_in(root / folder / "engine_knobs.def"),
            "lanes": [f"{engine}/{path.stem}" for path in sorted((root / folder / "lanes").glob("*.h"))],
        }
        for what, there in names.items():
            ours = [name for name in there if name not in own]
            allowed = most.get((engine, what), KNOBS_MOST[what])
            if len(ours) > allowed:
                yield f"{folder}/{'engine_knobs.def' if what == 'knobs' else 'lanes'}", 1, f"{len(ours)} {what} of our own; allowed: {allowed} ({KNOBS_PAGE})"
            for name in there:
                unknown.pop(name, None)
    for name, number in unknown.items():
        yield KNOBS_PAGE, number, f"no engine has {name}"
