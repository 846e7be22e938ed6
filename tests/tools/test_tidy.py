"""Each house rule gets a bad input, which it must report, and a similar good one, which it must accept."""

import pathlib
import re
import shutil
import subprocess

import pytest

import tidy
import tidy_names

TOOL = pathlib.Path(tidy.__file__)
REPOSITORY = TOOL.parent.parent
BASE = {
    "include/hakozuna/hakozuna.h": "int hz_version(void);\n",
    "src/base/os/arena.h": "int hz_arena;\n",
    "src/heap/heap.h": "int hz_heap;\n",
    "src/heap/pages/page.h": "int hz_page;\n",
    "src/heap/pages/adopt.h": "int hz_adopt;\n",
    "src/heap/knobs.def": "KNOB(HZ_SHARDS)\n",
    **{
        f"src/engines/{engine}/{name}": "/* nothing */\n"
        for engine in ("hz3", "hz4")
        for name in ("engine_config.h", "engine_knobs.def", "engine_counters.def", "way.h")
    },
    "src/ways/inbox/mailbox.h": "int hz_mailbox;\n",
    "src/ways/direct/sent.h": "int hz_sent;\n",
    "src/ways/lists/sent.h": "int hz_sent;\n",
    "src/ways/lists/list.h": "int hz_list;\n",
    "src/ways/queues/mailbox.h": "int hz_mailbox;\n",
    "src/ways/queues/page_queue.h": "int hz_page_queue;\n",
    "src/ways/shared/takers.h": "int hz_takers;\n",
    "src/engines/hz3/stash.h": "int hz3_stash;\n",
    "src/engines/hz3/lanes/scale.h": "enum { HZ_SHARDS = 63 };\n",
    "src/engines/hz4/inbox.h": "int hz4_inbox;\n",
    "src/front/front.h": "int hz_front;\n",
}


@pytest.fixture
def tree(tmp_path):
    """Returns a function that writes a small repository with the given files and runs rules on it."""
    shutil.copy(REPOSITORY / ".clang-format", tmp_path)

    def run(files: dict[str, str], *rules: str) -> list[str]:
        for path, text in {**BASE, **files}.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return [str(p) for p in tidy.find_problems(tmp_path, tidy.known_files(tmp_path), set(rules))]

    return run


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/base/os/a.c", "engines/hz3/stash.h", 'base includes "engines/hz3/stash.h" of hz3'),
        ("src/base/os/a.c", "../../engines/hz4/inbox.h", 'base includes "../../engines/hz4/inbox.h" of hz4'),
        ("src/base/os/a.c", "heap/heap.h", 'base includes "heap/heap.h" of heap'),
        ("src/base/os/a.c", "front/front.h", 'base includes "front/front.h" of front'),
        ("src/base/os/a.c", "mailbox.h", '"mailbox.h" is in none of the include roots'),
        ("src/heap/heap.c", "front/front.h", 'heap includes "front/front.h" of front'),
        ("src/heap/heap.c", "inbox.h", 'heap includes "inbox.h" of hz4'),
        ("src/heap/heap.c", "lanes/scale.h", 'heap includes "lanes/scale.h" of hz3'),
        ("src/heap/heap.c", "engines/hz3/stash.h", 'heap names engine hz3 in "engines/hz3/stash.h"; the build chooses the engine'),
        ("src/heap/heap.c", "engines/hz4/way.h", 'heap names engine hz4 in "engines/hz4/way.h"; the build chooses the engine'),
        ("src/heap/heap.c", "../engines/hz4/way.h", 'heap names engine hz4 in "../engines/hz4/way.h"; the build chooses the engine'),
        ("src/heap/heap.c", "ways/queues/mailbox.h", 'heap names way queues in "ways/queues/mailbox.h"; the build chooses the way'),
        ("src/front/a.c", "../ways/inbox/mailbox.h", 'front names way inbox in "../ways/inbox/mailbox.h"; the build chooses the way'),
        ("src/heap/heap.c", "page_queue.h", 'heap includes "page_queue.h" of ways/queues'),
        ("src/ways/inbox/mail.c", "../queues/page_queue.h", 'ways/inbox includes "../queues/page_queue.h" of ways/queues'),
        ("src/ways/inbox/mail.c", "front/front.h", 'ways/inbox includes "front/front.h" of front'),
        ("src/ways/inbox/mail.c", "engines/hz4/inbox.h", 'ways/inbox includes "engines/hz4/inbox.h" of hz4'),
        ("src/base/os/a.c", "ways/inbox/mailbox.h", 'base includes "ways/inbox/mailbox.h" of ways/inbox'),
        ("src/engines/hz3/a.c", "engines/hz4/inbox.h", 'hz3 includes "engines/hz4/inbox.h" of hz4'),
        ("src/engines/hz3/a.c", "../hz4/way.h", 'hz3 includes "../hz4/way.h" of hz4'),
        ("src/engines/hz4/a.c", "engines/hz3/stash.h", 'hz4 includes "engines/hz3/stash.h" of hz3'),
        ("src/engines/hz4/lanes/a.h", "lanes/scale.h", '"lanes/scale.h" is in none of the include roots'),
        ("src/engines/hz3/a.c", "front/front.h", 'hz3 includes "front/front.h" of front'),
        ("src/front/a.c", "engines/hz4/inbox.h", 'front names engine hz4 in "engines/hz4/inbox.h"; the build chooses the engine'),
        ("src/front/a.c", "../engines/hz3/stash.h", 'front names engine hz3 in "../engines/hz3/stash.h"; the build chooses the engine'),
        ("src/front/a.c", "sent.h", 'front includes "sent.h" of ways/direct, ways/lists'),
        ("src/heap/heap.c", "mailbox.h", 'heap includes "mailbox.h" of ways/inbox, ways/queues'),
        ("src/front/a.c", "way.h", 'front includes "way.h" of hz3, hz4'),
        ("include/hakozuna/b.h", "heap/heap.h", 'the public header includes "heap/heap.h" of src'),
        ("include/hakozuna/b.h", "base/os/arena.h", 'the public header includes "base/os/arena.h" of src'),
        ("src/base/os/a.c", "base/gone.h", '"base/gone.h" is in none of the include roots'),
    ],
)
def test_include_across_layers(tree, path, include, message):
    assert tree({path: f'/* why */\n#include "{include}"\n'}, "include") == [f"{path}:2: [include] {message}"]


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/heap/pages/page.c", "heap/pages/adopt.h", 'pages/page includes "heap/pages/adopt.h", which comes after it in HEAP_ORDER'),
        ("src/heap/pages/page.h", "heap/heap.h", 'pages/page includes "heap/heap.h", which comes after it in HEAP_ORDER'),
        ("src/heap/pages/page.h", "sent.h", 'pages/page includes "sent.h", which comes after it in HEAP_ORDER'),
        ("src/ways/inbox/mail.c", "heap/pages/adopt.h", 'way includes "heap/pages/adopt.h", which comes after it in HEAP_ORDER'),
        ("src/engines/hz4/way.h", "heap/pages/page.h", 'knobs includes "heap/pages/page.h", which comes after it in HEAP_ORDER'),
        ("src/ways/shared/takers.h", "heap/pages/page.h", 'takers includes "heap/pages/page.h", which comes after it in HEAP_ORDER'),
        ("src/heap/helpers.c", "heap/pages/page.h", "helpers is not in HEAP_ORDER (tools/tidy.py)"),
    ],
)
def test_include_against_the_order_of_modules(tree, path, include, message):
    assert tree({path: f'#include "{include}"\n'}, "include") == [f"{path}:1: [include] {message}"]


@pytest.mark.parametrize(
    ("path", "include", "message"),
    [
        ("src/base/os/a.c", "base/map/runmap.h", 'base/os includes "base/map/runmap.h", which is in no room up to it in BASE_ROOMS'),
        ("src/base/map/a.c", "base/map/runmap.h", None),
        ("src/base/watch/a.c", "base/os/arena.h", None),
        ("src/base/hall/a.c", "base/os/arena.h", "room 'hall' is not in BASE_ROOMS (tools/tidy.py)"),
        ("src/base/a.c", "base/os/arena.h", "room '' is not in BASE_ROOMS (tools/tidy.py)"),
    ],
)
def test_include_against_the_order_of_rooms(tree, path, include, message):
    found = tree({"src/base/map/runmap.h": "int x;\n", path: f'#include "{include}"\n'}, "include")
    assert found == ([f"{path}:1: [include] {message}"] if message else [])


def test_order_names_every_room_of_base():
    assert sorted(tidy.BASE_ROOMS) == sorted(path.name for path in (REPOSITORY / "src/base").iterdir())


def test_a_room_with_too_many_files(tree):
    files = {f"src/base/map/a{number}.c": "int x;\n" for number in range(tidy.ROOM_FILES)}
    assert tree(files, "rooms") == []
    assert tree({"src/base/map/b.c": "int x;\n"}, "rooms") == ["src/base/map:1: [rooms] 26 files; allowed: 25"]
    files = {f"tests/unit/base/map/a{number}.cc": "int x;\n" for number in range(tidy.ROOM_FILES + 1)}
    assert tree(files, "rooms")[-1] == "tests/unit/base/map:1: [rooms] 26 files; allowed: 25"


def test_order_names_every_module_of_the_heap():
    root = REPOSITORY / "src/heap"
    modules = {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.[ch]")}
    assert modules == set(tidy.HEAP_ORDER) - {"sent", "takers", "way", "cpu_bins"}
    assert len(tidy.HEAP_ORDER) == len(set(tidy.HEAP_ORDER))


def test_include_of_layer_in_angle_brackets(tree):
    assert tree({"src/base/os/a.c": "#include <engines/hz3/stash.h>\n"}, "include") != []


@pytest.mark.parametrize("name", ["engine_config.h", "engine_knobs.def", "engine_counters.def", "way.h"])
def test_include_of_an_engine_by_heap(tree, tmp_path, name):
    files = {"src/heap/heap.c": f'#include "{name}"\n'}
    assert tree(files, "include") == []
    (tmp_path / "src/engines/hz4" / name).unlink()
    problems = tidy.find_problems(tmp_path, ["src/heap/heap.c"], {"include"})
    assert [str(p) for p in problems] == [f'src/heap/heap.c:1: [include] heap includes "{name}", which hz4 does not have']


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/os/a.c", '"base/os/arena.h"'),
        ("src/base/os/a.c", "<stdio.h>"),
        ("src/base/os/a.c", '"hakozuna/hakozuna.h"'),
        ("src/heap/heap.c", '"base/os/arena.h"'),
        ("src/heap/heap.c", '"heap/knobs.def"'),
        ("src/heap/heap.c", '"heap/pages/adopt.h"'),
        ("src/heap/heap.c", '"hakozuna/hakozuna.h"'),
        ("src/engines/hz3/a.c", '"base/os/arena.h"'),
        ("src/ways/inbox/mail.c", '"heap/pages/page.h"'),
        ("src/ways/inbox/mail.c", '"mailbox.h"'),
        ("src/ways/inbox/mailbox.h", '"way.h"'),
        ("src/ways/queues/mailbox.h", '"page_queue.h"'),
        ("src/heap/heap.c", '"sent.h"'),
        ("src/ways/inbox/mail.c", '"list.h"'),
        ("src/ways/lists/list.h", '"mailbox.h"'),
        ("src/heap/heap.c", '"takers.h"'),
        ("src/engines/hz3/a.c", '"lanes/scale.h"'),
        ("src/engines/hz3/way.h", '"heap/knobs.def"'),
        ("src/engines/hz3/lanes/b.h", '"lanes/scale.h"'),
        ("src/engines/hz3/a.c", "HZ_LANE_HEADER"),
        ("src/engines/hz4/a.c", '"hakozuna/hakozuna.h"'),
        ("src/front/a.c", '"base/os/arena.h"'),
        ("src/front/a.c", '"heap/heap.h"'),
        ("src/front/a.c", '"hakozuna/hakozuna.h"'),
        ("include/hakozuna/b.h", '"hakozuna/hakozuna.h"'),
        ("tests/unit/a.cc", '"engines/hz4/inbox.h"'),
    ],
)
def test_include_within_layers(tree, path, include):
    assert tree({path: f"#include {include}\n"}, "include") == []


def test_include_in_comment_does_not_count(tree):
    assert tree({"src/base/os/a.c": '/*\n#include "engines/hz3/stash.h"\n*/\n'}, "include") == []


def test_modules_that_include_each_other(tree):
    files = {"src/base/os/a.h": "int a;\n", "src/base/os/a.c": '#include "base/os/b.h"\n', "src/base/os/b.h": '#include "base/os/c.h"\n'}
    assert tree({**files, "src/base/os/c.h": "int c;\n"}, "circle") == []
    circle = "src/base/os/a -> src/base/os/b -> src/base/os/c -> src/base/os/a"
    assert tree({**files, "src/base/os/c.h": '\n#include "base/os/a.h"\n'}, "circle") == [f"src/base/os/c.h:2: [circle] {circle}"]


def test_a_function_that_another_module_defines(tree):
    header = "/* what */\nint hz_a_get(int x);\n"
    assert tree({"src/base/os/a.h": header, "src/base/os/a.c": "int hz_a_get(int x) {\n    return x;\n}\n"}, "home") == []
    found = tree({"src/base/os/a.h": header, "src/base/os/a.c": "int x;\n", "src/base/os/b.c": "int hz_a_get(int x) {\n}\n"}, "home")
    assert found == ["src/base/os/a.h:2: [home] hz_a_get is not defined in src/base/os/a.c"]


def test_a_call_is_no_definition(tree):
    files = {"src/base/os/a.h": "int hz_a_get(void);\n", "src/base/os/a.c": "int f(void) {\n    return hz_a_get();\n}\n"}
    assert len(tree(files, "home")) == 1


def test_a_comment_behind_code_that_goes_on(tree):
    assert tree({"src/base/os/a.c": "int x; /* one,\n          two */\n"}, "note") == [
        "src/base/os/a.c:1: [note] a comment behind code must end on its line; put it above the statement"
    ]
    good = "/* one,\n   two */\nint x; /* three */\n#define Y 1 /* four\n*/\nint z; /* five */ /* six */\n"
    assert tree({"src/base/os/a.c": good, "tests/a.cc": "int x; /* one,\n two */\n"}, "note") == []


def test_long_file(tree):
    assert tree({"src/base/os/a.c": "int x;\n" * 801}, "length") == ["src/base/os/a.c:801: [length] 801 lines; allowed: 800"]
    assert tree({"src/base/os/a.c": "int x;\n" * 800}, "length") == []


def test_long_file_that_is_a_script(tree):
    assert len(tree({"tools/thing": "#!/bin/sh\n" + "true\n" * 800}, "length")) == 1


def test_long_file_that_is_data(tree):
    assert tree({"bench/results/a.csv": "1,2\n" * 2000}, "length") == []


BODIES = [
    "static int f(int a,\n             int b) {{\n{0}}}\n",
    "struct pair f(void) {{\n{0}}}\n",
    'extern "C" {{\nint f(void) {{\n{0}}}\n}}\n',
    "namespace a {{\nTEST(One, Two) {{\n{0}}}\n}} // namespace a\n",
    "class A {{\n  public:\n    int f() const {{\n{0}    }}\n}};\n",
    "#define OPEN {{\nint f(void) {{\n{0}}}\n",
    "int f(void) {{\n    char c = '{{'; /* {{ */\n{0}    puts(\"}}\");\n}}\n",
]


@pytest.mark.parametrize("shape", BODIES)
def test_long_function(tree, shape):
    path = "src/base/os/a.cc"
    [problem] = tree({path: shape.format("    x++;\n" * 69)}, "length")
    assert "function of 7" in problem and problem.endswith("allowed: 70")
    assert tree({path: shape.format("    x++;\n" * 60)}, "length") == []


def test_long_function_is_named_by_its_first_line(tree):
    text = "int x;\n\nint f(void) {\n" + "    x++;\n" * 70 + "}\n"
    assert tree({"src/base/os/a.c": text}, "length") == ["src/base/os/a.c:3: [length] function of 72 lines; allowed: 70"]


def test_long_table_is_not_a_function(tree):
    text = "static const int table[] = {\n" + "    1,\n" * 100 + "};\n"
    assert tree({"src/base/os/a.c": text}, "length") == []


def test_long_python_function(tree):
    text = "def f():\n" + "    x = 1\n" * 70
    assert tree({"tools/a.py": text}, "length") == ["tools/a.py:1: [length] function of 71 lines; allowed: 70"]
    assert tree({"tools/a.py": "", "tools/a": "#!/usr/bin/env python3\n" + text}, "length") != []


@pytest.mark.parametrize("directive", ["#if HZ_CHECKS", "#ifdef HZ_CHECKS", "  #  ifndef X", "#elif Y", "#else"])
@pytest.mark.parametrize("path", ["src/base/os/a.c", "src/heap/a.h", "src/heap/engine_config.h", "src/engines/hz3/bin.h", "src/front/a.c", "bench/w.c"])
def test_condition(tree, path, directive):
    [problem] = tree({path: f"int x;\n{directive}\n"}, "condition")
    assert problem.startswith(f"{path}:2: [condition] #")


@pytest.mark.parametrize(
    "path", ["src/base/os/compiler.h", "src/base/os/os_linux.c", "src/base/os/syscall.h", "src/heap/config.c", "src/engines/hz3/engine_config.h", "src/engines/hz3/lanes/scale.h", "include/hakozuna/hakozuna.h", "tests/contract/api.h"]
)
def test_condition_where_it_belongs(tree, path):
    assert tree({path: "int x;\n#if HZ_CHECKS\n#endif\n"}, "condition") == []


def test_include_guard_is_not_a_condition(tree):
    guard = "/* what\n#if inside a comment */\n#ifndef HZ_A_H\n#define HZ_A_H\n#ifdef __cplusplus\n#endif\n#endif\n"
    assert tree({"src/base/os/a.h": guard}, "condition") == []


def test_default_of_macro_is_not_an_include_guard(tree):
    text = "#ifndef HZ_A_H\n#define HZ_A_H\n#ifndef SIZE\n#define SIZE 3\n#endif\n#endif\n"
    assert len(tree({"src/base/os/a.h": text}, "condition")) == 1
    assert len(tree({"src/base/os/a.h": "", "src/base/os/a.c": "#ifndef SIZE\n#define SIZE 3\n#endif\n"}, "condition")) == 1


@pytest.mark.parametrize(
    "code",
    [
        "x = atomic_load(&y);",
        "atomic_fetch_add_explicit(&x, 1, o);",
        "__atomic_store_n(&x, 1, 0);",
        "__sync_synchronize();",
        "int order = memory_order_relaxed;",
        "#include <stdatomic.h>",
    ],
)
def test_atomic(tree, code):
    [problem] = [p for p in tree({"src/engines/hz3/a.c": f"\n{code}\n"}, "atomic")][:1]
    assert problem.startswith("src/engines/hz3/a.c:2: [atomic]")
    assert tree({"src/engines/hz3/a.c": "", "src/base/os/atomic.h": code}, "atomic") == []


def test_atomic_names_of_ours_and_comments(tree):
    text = "/* atomic_load(x) */\n_Atomic(int) x;\nint y = hz_load_rlx(&x);\n"
    assert tree({"src/engines/hz3/a.c": text}, "atomic") == []


EDGES = "| edge | file |\n|---|---|\n| **list-take** | `a.c` |\n| **page-move** | `a.c` |\n"
SEND = "void hz_list_send(int *word) {\n    *word = 1; /* sync: list-take, partner hz_list_take */\n}\n"
TAKE = "int hz_list_take(int *word) {\n    return *word; /* sync: list-take, partner hz_list_send */\n}\n"


def partner_problems(tree, comment: str, *, take: str = TAKE) -> list[str]:
    """What the rule says of a comment in a.c, beside a pair that is right."""
    files = {"src/memory-order.md": EDGES, "src/base/os/a.c": f"{SEND}{take}{comment}\n", "src/base/os/atomic.h": "/* with the partner */\n"}
    return tree(files, "partner")


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("/* sync: list-take, partner hz_list_put */", "partner hz_list_put of list-take is no function of src"),
        ("/* sync: list-take, partner hz_list_put: its contents */", "partner hz_list_put of list-take is no function of src"),
        ("/* sync: list-take, partners hz_list_take, hz_gone. Why */", "partner hz_gone of list-take is no function of src"),
        ("/* sync: list-take, partners hz_list_take\n * and hz_gone */", "partner hz_gone of list-take is no function of src"),
        ("/* sync: list-take, partners hz_gone (the entry), hz_list_take (its kind) */", "partner hz_gone of list-take is no function of src"),
        ("/* sync: list-take, as in hz_gone */", "partner hz_gone of list-take is no function of src"),
        ("/* sync: list-take, partners as in hz_gone */", "partner hz_gone of list-take is no function of src"),
        ("/* sync: page-move, partner hz_list_take */", "partner hz_list_take has no comment `sync: page-move`"),
        ("/* sync: list-give, one thread */", "edge list-give is not in src/memory-order.md"),
        ("/* the partner is hz_list_take */", "a partner without its edge; want `sync: EDGE, partner FUNCTION`"),
        ("/* sync: list-take, partner the other thread */", "partner the of list-take is no function of src"),
    ],
)
def test_partner_that_is_wrong(tree, comment, message):
    assert partner_problems(tree, comment) == [f"src/base/os/a.c:7: [partner] {message}"]


@pytest.mark.parametrize(
    "comment",
    [
        "int x; /* sync: list-take */",
        "/* sync: list-take; only the value counts */",
        "/* relaxed: hint. sync: list-take, partner hz_list_take, and itself */",
        "/* sync: list-take, partners hz_list_take,\n   hz_list_send and hz_list_take. The loser waits */",
        "/* sync: list-take, partner the CAS below */",
        "/* sync: list-take, partner the release store in this function */",
        "/* sync: list-take, partners hz_list_take (the head) and hz_list_send (the tail) */",
        "/* sync: list-take, as in hz_list_send */",
        "/* sync: list-take, partner hz_list_take in a.c */",
    ],
)
def test_partner_that_is_right(tree, comment):
    assert partner_problems(tree, comment) == []


def test_partner_that_is_silent(tree):
    """The other end of an edge says so too."""
    silent = TAKE.replace("sync: list-take, partner hz_list_send", "it is only read")
    assert partner_problems(tree, "", take=silent) == ["src/base/os/a.c:2: [partner] partner hz_list_take has no comment `sync: list-take`"]


def test_page_of_edges_that_names_nothing(tree):
    page = EDGES + "| **list-give** | `a.c` | `hz_list_send`, CAS rel | `hz_list_gone`, load acq | `word` | none |\n"
    found = tree({"src/memory-order.md": page, "src/base/os/a.c": SEND + TAKE}, "partner")
    assert found == ["src/memory-order.md:5: [partner] hz_list_gone of list-give is no function of src"]


@pytest.mark.parametrize("text", ["Called by b.c.", "Called when\n * a thread starts.", "Used by b.c.", "Callers: b.c, c.c.", "see a.h. Called from free."])
def test_list_of_callers(tree, text):
    [problem] = tree({"src/base/os/a.c": f"/*\n * a.c - it is. {text}\n */\n"}, "caller")
    assert problem.startswith("src/base/os/a.c:2: [caller] '") and "a list of callers goes stale" in problem


@pytest.mark.parametrize("text", ["/* exit can be called by a handler */", "/* For the child's only thread. */", "/* The caller holds the lock. */"])
def test_rule_about_the_caller(tree, text):
    assert tree({"src/base/os/a.c": f"{text}\nint x;\n"}, "caller") == []


HEADER = "/* Ends it. Only {0}\n   calls this. */\nint hz_a_end(int x);\n"
USE = "static int step(void) {\n    return hz_a_end(1);\n}\n"


@pytest.mark.parametrize("caller", ["b.c", "step"])
def test_only_caller(tree, caller):
    files = {"src/base/os/a.h": HEADER.format(caller), "src/base/os/a.c": "int hz_a_end(int x) {\n    return x;\n}\n"}
    assert tree(files, "caller") == ["src/base/os/a.h:1: [caller] nothing calls hz_a_end"]
    assert tree({**files, "src/base/os/b.c": USE}, "caller") == []
    other = USE.replace("step", "other")
    found = tree({**files, "src/base/os/c.c": other}, "caller")
    assert found == [f"src/base/os/c.c:2: [caller] other calls hz_a_end, but only {caller} may (src/base/os/a.h:1)"]


def test_only_caller_of_nothing(tree):
    assert tree({"src/base/os/a.h": "/* Only b.c calls this. */\nenum { A };\n"}, "caller") == [
        "src/base/os/a.h:1: [caller] 'Only ... calls this' stands above no function"
    ]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("static HZ_NOINLINE _Atomic(int) *word_of(const void *block, int (*f)(int)) {", "word_of"),
        ("enum answer hz_look(void) {", "hz_look"),
        ("bool IMPL(purge)(void *address) {", "hz_os_purge"),
        ("struct hz_round\nhz_round_do(int x,\n            int y) {", "hz_round_do"),
    ],
)
def test_definitions(head, name):
    text = f"/* {{ */\n{head}\n    puts(\"}}\");\n}}\n"
    [found] = tidy_names.functions_of("a.c", text)
    assert found.name == name and text[found.end :] == "}\n"


@pytest.mark.parametrize("text", ["struct a {\n    int (*f)(void);\n};\n", "static int a[] = {f(1)};\n", "int f(void);\n", "#define F(x) {\n"])
def test_no_definition(text):
    assert list(tidy_names.functions_of("a.c", text)) == []


def function(name: str) -> str:
    return f"int {name}(int x) {{\n    return x;\n}}\n"


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("src/heap/a.c", "hz_block_fetch", "'fetch' is called 'get' here (docs/glossary.md)"),
        ("src/ways/inbox/a.c", "hz_enqueue_all", "'enqueue' is called 'send' here (docs/glossary.md)"),
        ("src/front/a.c", "hz_page_adopt", "'adopt' means something else (docs/glossary.md); it belongs to src/heap/pages/adopt"),
        ("src/heap/back/a.c", "hz_pages_retire_all_locked", "'retire' means something else (docs/glossary.md); it belongs to src/heap/pages/"),
        ("src/heap/back/a.c", "park", "'park' means something else (docs/glossary.md); it belongs to src/heap/threads/"),
    ],
)
def test_verb(tree, path, name, message):
    assert tree({path: "int x;\n" + function(name)}, "verb") == [f"{path}:2: [verb] {name}: {message}"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/heap/pages/page.c", "hz_page_retire_locked"),
        ("src/heap/threads/a.c", "hz_park_is_lost"),
        ("src/heap/back/a.c", "park_reset"),  # not the verb, but a part of the name
        ("src/heap/back/a.c", "is_fetched"),
        ("src/front/api.c", "hz_zone_destroy"),
        ("tests/unit/a.cc", "hz_block_fetch"),
    ],
)
def test_verb_that_is_right(tree, path, name):
    assert tree({path: function(name)}, "verb") == []


def test_verbs_are_those_of_the_glossary():
    rows = (REPOSITORY / "docs/glossary.md").read_text().partition("## Verbs")[2]
    verbs = {verb for row in re.findall(r"^\* \*\*([a-z, ]+)\*\*:", rows, re.MULTILINE) for verb in row.split(", ")}
    assert set(tidy_names.VERBS) <= verbs
    assert not set(tidy_names.SYNONYMS) & (verbs | set(tidy_names.PLAIN_VERBS))


def test_other_names_are_still_used(monkeypatch):
    """An exception that nothing needs any more would allow the next wrong name."""
    paths = [path for path in tidy.known_files(REPOSITORY) if path.startswith("src/")]
    names = dict(tidy_names.OTHER_NAMES)
    monkeypatch.setattr(tidy_names, "OTHER_NAMES", {})
    found = {problem.text.partition(":")[0] for problem in tidy.find_problems(REPOSITORY, paths, {"verb"})}
    assert found == set(names)


def knobs(first: int, count: int) -> str:
    return "/* KNOB(NO, ...) */\n" + "".join(f"KNOB(HZ_{number}, 0, 1, 0)\n" for number in range(first, first + count))


def test_too_many_knobs(tree):
    files = {"src/heap/knobs.def": knobs(0, 15), "src/engines/hz3/engine_knobs.def": knobs(20, 5)}
    assert tree(files, "knobs") == []
    breach = "src/engines/hz3/engine_knobs.def:1: [knobs] 21 knobs of our own; allowed: 20 (tests/counts/knobs.txt)"
    assert tree({**files, "src/engines/hz3/engine_knobs.def": knobs(20, 6)}, "knobs") == [breach]
    files["src/engines/hz3/engine_knobs.def"] = knobs(20, 8)
    assert tree({**files, "tests/counts/knobs.txt": "# why\ndocuments knob HZ_3  HZ3_OLD\nmost hz3 knobs 22\n"}, "knobs") == []
    found = tree({**files, "tests/counts/knobs.txt": "documents knob HZ_3\nmost hz3 knobs 21\n"}, "knobs")
    assert found == ["src/engines/hz3/engine_knobs.def:1: [knobs] 22 knobs of our own; allowed: 21 (tests/counts/knobs.txt)"]


def test_too_many_lanes(tree):
    files = {f"src/engines/hz4/lanes/{name}.h": "" for name in "abcd"}
    assert tree(files, "knobs") == []
    files["src/engines/hz4/lanes/e.h"] = ""
    assert tree(files, "knobs") == ["src/engines/hz4/lanes:1: [knobs] 5 lanes of our own; allowed: 4 (tests/counts/knobs.txt)"]
    assert tree({**files, "tests/counts/knobs.txt": "documents lane hz4/e\n"}, "knobs") == []


def test_list_of_knobs_that_is_wrong(tree):
    found = tree({"tests/counts/knobs.txt": "documents knob HZ_GONE\nmany knobs\n"}, "knobs")
    assert found == [
        "tests/counts/knobs.txt:2: [knobs] 'many knobs'; want `documents knob|lane NAME` or `most ENGINE knobs|lanes N`",
        "tests/counts/knobs.txt:1: [knobs] no engine has HZ_GONE",
    ]


def test_every_flag_of_the_documents_is_a_knob_of_theirs():
    listed = set(re.findall(r"^documents knob HZ_(\S+)", (REPOSITORY / tidy_names.KNOBS_PAGE).read_text(), re.MULTILINE))
    flags = (REPOSITORY / "bench/documents/library.py").read_text().partition("FLAGS = {")[2].partition("}")[0]
    assert set(re.findall(r': "(\w+)"', flags)) | {"PAGE_LOCAL_REMOTE"} == listed


@pytest.mark.parametrize(
    "text",
    [
        "cd /wo" + "rk/main",
        "(/ro" + "ot/.cache)",
        "see /ho" + "me/anna/x",
        "/tmp/bash" + "_jobs.0/x",
        "// TO" + "DO: later",
        "# FIX" + "ME",
        "X" * 3 + " odd",
    ],
)
@pytest.mark.parametrize("path", ["src/base/os/a.c", "docs/a.md", "Makefile"])
def test_word(tree, path, text):
    [problem] = tree({path: f"fine\n{text}\n"}, "word")
    assert problem.startswith(f"{path}:2: [word]")


@pytest.mark.parametrize("text", ["mktemp /tmp/a.XXXXXX", "bench/work/x", "the root of it", "/usr/lib", "$HOME/root/", "a/home/b"])
def test_word_that_is_allowed(tree, text):
    assert tree({"docs/a.md": text + "\n"}, "word") == []


def test_width(tree):
    text = "é" * 160 + "\n" + "| a " * 41 + "\n"
    assert tree({"docs/a.md": text}, "width") == ["docs/a.md:2: [width] 164 columns; allowed: 160"]
    assert tree({"docs/a.md": "short\n", "docs/a.csv": text, "src/base/os/a.c": text}, "width") == []


def test_long_page(tree):
    page = "text\n" * 151
    breach = ["docs/a.md:151: [page] 151 lines; allowed: 150"]
    assert tree({"docs/a.md": page}, "page") == breach
    assert tree({"docs/a.md": "text\n" * 150, "CHANGELOG.md": page, "docs/a.txt": page}, "page") == []


@pytest.mark.parametrize(
    "mark",
    [
        "<!-- written by tools/lanes.py (make docs); do not edit -->\n",
        "<!-- results: a.csv -->\n<!-- `hakobench report --markdown` wrote this page: edit suite.md.j2, not this file -->\n",
    ],
)
def test_long_page_that_a_program_wrote(tree, mark):
    assert tree({"docs/a.md": mark + "text\n" * 150}, "page") == []
    assert len(tree({"docs/a.md": "text\n" * 150 + mark}, "page")) == 1  # a table in it may be written, the page is not


def test_every_page_that_a_program_writes_is_known_as_such():
    for path in ["docs/lanes.md", "docs/counters.md", *(f"bench/results/{suite}.md" for suite in ("apps", "large", "quick", "rss", "seeds"))]:
        assert tidy.WRITTEN.search("\n".join(tidy.Source(REPOSITORY, path).lines[:2])), path


DECISION = """## Form

**Question.** Which?

**Decision.** This one.

| a | b |
|---|---|
{rows}
**What would change our mind.** Figures.

**Date.** {date}. **Status.** {status}.

**Raw data.** Not kept.
"""


def decision(rows=8, date="2026-11-22", status="Current") -> str:
    return DECISION.format(rows="| 1 | 2 |\n" * rows, date=date, status=status)


def decision_problems(tree, text: str, page: str = "a.md") -> list[str]:
    return [problem.partition(": [decision] ")[2] for problem in tree({f"docs/decisions/{page}": text}, "decision")]


def test_decision(tree):
    assert decision_problems(tree, "# A\n\n" + decision() + "\n" + decision(0, status="Superseded by [b](b.md#c)")) == []
    assert tree({"docs/decisions/a.md": decision(), "docs/a.md": "## no decision\n" + "word " * 1000}, "decision") == []


@pytest.mark.parametrize("label", tidy.DECISION_LABELS)
def test_decision_without_a_label(tree, label):
    [problem] = decision_problems(tree, decision().replace(f"**{label}.**", "**Else.**"))
    assert problem.startswith(f"no '**{label}.**'")


def test_decision_names_the_section_that_is_wrong(tree):
    text = "# A\n\n" + decision(0) + decision(0).replace("**Raw data.**", "")
    [problem] = tree({"docs/decisions/a.md": text}, "decision")
    assert problem == f"docs/decisions/a.md:{text.splitlines().index('## Form', 3) + 1}: [decision] no '**Raw data.**'"


@pytest.mark.parametrize("date", ["2026-13-01", "2026-11-32", "November 2026", "26-11-22", "2026-11"])
def test_decision_with_a_bad_date(tree, date):
    assert len(decision_problems(tree, decision(date=date))) == 1


@pytest.mark.parametrize("status", ["", "Done", "Currently", "Superseded", "Superseded by b"])
def test_decision_with_a_bad_status(tree, status):
    assert len(decision_problems(tree, decision(status=status))) == 1


def test_long_decision(tree):
    words = tidy.word_count(decision().splitlines())
    assert decision_problems(tree, decision() + "word " * (500 - words) + "\n") == []
    assert decision_problems(tree, decision() + "word " * (501 - words) + "\n") == ["501 words; allowed: 500"]


def test_long_page_of_decisions(tree):
    page = decision() * 2
    more = 900 - tidy.word_count(page.splitlines())
    assert decision_problems(tree, "word " * more + "\n" + page) == []
    assert decision_problems(tree, "word " * (more + 1) + "\n" + page) == ["page of 901 words; allowed: 900"]
    assert decision_problems(tree, "text\n") == ["no section, so no decision"]


def test_long_index_of_decisions(tree):
    assert decision_problems(tree, "## Bins\n" + "word " * 748 + "\n", "README.md") == []
    assert decision_problems(tree, "## Bins\n" + "word " * 749 + "\n", "README.md") == ["page of 751 words; allowed: 750"]


def test_tables_of_a_decision(tree):
    assert decision_problems(tree, decision(rows=9)) == ["a table of 9 rows; allowed: 8"]
    assert decision_problems(tree, decision() + "\n| a |\n|---|\n| 1 |\n") == ["2 tables; allowed: 1"]


def test_format(tree):
    [problem] = tree({"src/base/os/a.c": "int x;\n\nint   y;\n"}, "format")
    assert problem == "src/base/os/a.c:3: [format] clang-format would change this"


def test_binary_file_is_left_alone(tree, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe\x00")
    assert tree({}, *tidy.RULES) == []


def test_ignored_files_are_left_alone(tree, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files = {".gitignore": "/build/\n", "build/a.c": "#if X\n", "src/base/os/new.c": "#if X\n"}
    problems = tree(files, "condition")
    assert [p.split(":")[0] for p in problems] == ["src/base/os/new.c"]


def run_tool(*arguments):
    return subprocess.run(["/usr/bin/python3", TOOL, *arguments], capture_output=True, text=True)


def test_exit_codes(tree, tmp_path):
    tree({})
    good = run_tool("--root", tmp_path)
    assert (good.returncode, good.stdout.splitlines()[-1][:6]) == (0, "tidy: ")
    tree({"src/base/os/a.c": "#if X\n#endif\n"})
    bad = run_tool("--root", tmp_path)
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[0].startswith("src/base/os/a.c:1: [condition]")
    assert bad.stdout.splitlines()[-1].endswith("1 problems")


def test_bad_arguments(tmp_path):
    missing = run_tool("--root", tmp_path / "gone")
    assert missing.returncode == 2 and "want a directory" in missing.stderr
    rule = run_tool("--rule", "beauty")
    assert rule.returncode == 2 and "'beauty'" in rule.stderr and "include" in rule.stderr
    empty = run_tool("--root", tmp_path)
    assert empty.returncode == 2 and "it has no files" in empty.stderr


# ---- policy ----------------------------------------------------------------------------------------

ROW = 'POLICY(HZ_ROOM, 4 << 20, "bytes", "a.md#{}", "at most, so far")\n'


def test_policy(tree):
    pages = {"docs/decisions/a.md": "## Two words\n"}
    bound = 'BOUND(TICK, 16 << 20, 2 << 20, 0, 1, "a tick")\n'
    assert tree({**pages, "src/policy.def": ROW.format("two-words") * 44 + bound}, "policy") == []
    [problem] = tree({**pages, "src/policy.def": ROW.format("two-words") * 45 + bound}, "policy")
    assert problem == "src/policy.def:46: [policy] 46 rows; allowed: 45"
    problems = tree({**pages, "src/policy.def": ROW.format("two") + ROW.replace("a.md", "b.md").format("two") + "POLICY(A, 1)\n"}, "policy")
    assert [problem.partition("[policy] ")[2] for problem in problems] == [
        "there is no decision a.md#two",
        "there is no decision b.md#two",
        "not POLICY(name, value, unit, decision, what) or BOUND(...) on one line",
    ]
