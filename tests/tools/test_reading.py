"""tools/reading.py on a small library: which files are on a way of calls, and which only help."""

import json
import pathlib
import subprocess
import sys

import pytest

import reading
import tidy_names

ROOT = pathlib.Path(reading.__file__).resolve().parent.parent

# malloc -> front.h -> heap/slow.c -> (by address) heap/each.c -> heap/depot.c; lock.h and heap/tick.c only help.
FILES = {
    "src/front.h": "static inline __attribute__((always_inline)) void *front_malloc(int n) {\n    return slow(n);\n}\n",
    "src/lock.h": "static inline void lock(void) {\n}\n",
    "src/heap/all.h": '#include "lock.h"\nvoid *slow(int n);\nvoid tick(void);\nvoid each(void *(*f)(int));\nvoid *pop(int n);\nenum { HAS_OTHER = 0 };\n'
    "void *other(int n);\n",
    "src/front/malloc.c": '#include "heap/all.h"\n#include "front.h"\nvoid *malloc(int n) {\n    return front_malloc(n);\n}\n',
    "src/heap/slow.c": '#include "heap/all.h"\n/* Visits. */\nstatic void *visit(int n) {\n    lock();\n    return HAS_OTHER ? other(n) : pop(n);\n}\n'
    "static void (*steps[])(void) = {tick};\n"
    "void *slow(int n) {\n    steps[n]();\n    each(visit);\n    return 0;\n}\n",
    "src/heap/each.c": '#include "heap/all.h"\nvoid each(void *(*f)(int)) {\n    lock();\n    f(1);\n}\n',
    "src/heap/depot.c": '#include "heap/all.h"\nvoid *pop(int n) {\n    lock();\n    return 0;\n}\n',
    "src/heap/tick.c": '#include "heap/all.h"\nstatic void visit(void) {\n}\n\nvoid tick(void) {\n    visit();\n    slow(2);\n}\n',
    "src/heap/report/other.c": '#include "heap/all.h"\nvoid *other(int n) {\n    return pop(n);\n}\n',
}
WAY = ["src/front/malloc.c", "src/front.h", "src/heap/slow.c", "src/heap/depot.c"]


def walk_of(start: str, *ends: str, beside: tuple[str, ...] = ()) -> reading.Walk:
    return reading.Walk("made up", start, ends, beside, 0, 0)


@pytest.fixture
def library(tmp_path):
    """Returns a function that writes the library, changed by `files`, and reads its graph."""

    def read(files: dict[str, str] | None = None) -> reading.Graph:
        for path, text in {**FILES, **(files or {})}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        entries = [
            {"directory": str(tmp_path), "file": path, "command": f"gcc -O2 -flto -g -fno-builtin -Isrc -o lib.dir/{path}.o -c {path}"}
            for path in FILES
            if path.endswith(".c")
        ]
        commands = tmp_path / "compile_commands.json"
        commands.write_text(json.dumps(entries))
        return reading.join_units(tmp_path, reading.read_units(tmp_path, commands, "lib.dir"))

    return read


def test_files_on_the_way(library):
    on_way, helpers = reading.walk(library(), walk_of("malloc", "pop"))
    assert reading.files_of(on_way) == WAY
    assert [place.name for place in on_way if place.path] == ["malloc", "front_malloc", "slow", "visit", "pop"]
    # a function that gets another one, one in a table (which only leads back), and a helper; but not other()
    assert sorted(reading.files_of(helpers)) == ["src/heap/each.c", "src/heap/tick.c", "src/lock.h"]


def test_a_way_through_another_file(library):
    """A function that goes on to the end counts with its file, wherever it is."""
    tick = FILES["src/heap/tick.c"].replace("slow(2)", "pop(2)")
    graph = library({"src/heap/tick.c": tick})
    on_way, _ = reading.walk(graph, walk_of("malloc", "pop"))
    assert reading.files_of(on_way) == [*WAY, "src/heap/tick.c"]
    on_way, helpers = reading.walk(graph, walk_of("malloc", "pop", beside=("tick",)))
    assert reading.files_of(on_way) == WAY and "src/heap/tick.c" not in reading.files_of(helpers)


def test_a_constant_that_lets_more_in(library):
    text = FILES["src/heap/all.h"].replace("HAS_OTHER = 0", "HAS_OTHER = 1")
    on_way, _ = reading.walk(library({"src/heap/all.h": text}), walk_of("malloc", "other"))
    assert reading.files_of(on_way) == [*WAY[:3], "src/heap/report/other.c"]


def test_a_walk_that_leads_nowhere(library):
    graph = library()
    with pytest.raises(SystemExit, match="no way from malloc to other"):
        reading.walk(graph, walk_of("malloc", "other"))
    with pytest.raises(SystemExit, match="want one function 'gone', the library has 0"):
        reading.walk(graph, walk_of("malloc", "gone"))
    with pytest.raises(SystemExit, match="want one function 'visit', the library has 2 src/heap/.*, src/heap/"):
        reading.walk(graph, walk_of("malloc", "pop", beside=("visit",)))


def test_a_file_that_does_not_compile(library):
    with pytest.raises(SystemExit, match="gcc did not say what 'src/heap/each.c' calls"):
        library({"src/heap/each.c": "void each(\n"})


def test_lines_and_rooms(library, tmp_path):
    graph = library({"src/heap/unused.h": "int x;\n"})
    lines = reading.count_lines(tmp_path, graph.files)
    assert lines["all"] == sum(text.count("\n") for text in FILES.values())
    assert lines["all"] - lines["heap"] == FILES["src/heap/report/other.c"].count("\n")
    # the comment of slow.c, and the empty line of tick.c
    assert reading.count_code(tmp_path, graph.files) == lines["heap"] - 2
    assert reading.rooms(tmp_path, graph.files) == [("src", 2, 2), ("src/front", 1, 1), ("src/heap", 6, 5), ("src/heap/report", 1, 1)]


def test_print(library, capsys):
    one = walk_of("malloc", "pop")._replace(way=3, read=9)
    found = reading.walk(library(), one)
    reading.print_walk("hit", one, found, False)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "hit: made up", "  4 files on the way (wanted: 3), 7 with helpers (wanted: 9)", "    1 src/front/malloc.c: malloc",
    ]  # fmt: skip
    reading.print_walk("hit", one, found, True)
    assert capsys.readouterr().out.splitlines()[-3:] == ["    5 + src/heap/each.c: each", "    6 + src/heap/tick.c: tick", "    7 + src/lock.h: lock"]


def test_gate():
    numbers = {"hit way": 4, "lines all": 100}
    assert reading.judge(numbers, {"hit way": 4, "lines all": 120}) == []
    assert reading.judge(numbers, {"hit way": 3, "lines all": 100}) == ["hit way is 4; at most 3"]
    assert reading.judge(numbers, {"hit way": 4, "gone way": 1}) == ["lines all has no ceiling", "gone way is no number of this tool"]


def test_ceilings(tmp_path):
    page = tmp_path / "reading.txt"
    page.write_text(reading.HEADER + "hit way     4\nlines all 100\n")
    assert reading.read_ceilings(page) == {"hit way": 4, "lines all": 100}
    page.write_text("hit way\n")
    with pytest.raises(SystemExit, match="reading.txt:1: 'hit way'; want"):
        reading.read_ceilings(page)


def test_functions_of_the_walks_exist():
    names = {
        function.name
        for path in (ROOT / "src").rglob("*.[ch]")
        for function in tidy_names.functions_of(path.name, path.read_text(encoding="utf-8"))
    }
    for walk in reading.WALKS.values():
        assert {walk.start, *walk.ends, *walk.beside} <= names
    assert all(any((ROOT / "src").glob(f"{path.removeprefix('src/')}*")) for path in reading.WATCHING)


def test_a_walk_that_is_not_there():
    done = subprocess.run([sys.executable, ROOT / "tools/reading.py", "stroll"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "walk 'stroll'; allowed: hit, refill" in done.stderr


@pytest.mark.deep
def test_nothing_grew(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "tools/reading.py", "--gate"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reading: nothing grew\n", "")
