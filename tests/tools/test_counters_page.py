"""docs/counters.md agrees with the lists of counters and with what a library prints, and faults in a list are named."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import counters
import pytest
from counters import Counter, CounterError

TOOL = pathlib.Path(counters.__file__)
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", counters.ROOT / "build/lib/libhakozuna.so"))
GOOD = 'COUNTER("mid", field, "name", SUM, "blocks")'


def test_the_committed_page_is_up_to_date():
    run = subprocess.run([TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of all that the tool reads and writes, as its root."""
    lists = [*counters.ROOT.glob(counters.ENGINE_LISTS), *counters.ROOT.glob(counters.MAILBOXES)]
    for path in [counters.COMMON, counters.REPORT, counters.LISTS, counters.PAGE, counters.SCHEMA, *(path.relative_to(counters.ROOT) for path in lists)]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(counters.ROOT / path, tmp_path / path)
    monkeypatch.setattr(counters, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (counters.PAGE, "`refill_depot`", "`refill_deport`"),
        (counters.COMMON, "pages made", "pages constructed"),
        ("src/engines/hz4/engine_counters.def", "SUM", "HOT"),
    ],
)
def test_a_stale_page_is_named_and_then_written(tree, capsys, path, old, new):
    text = (tree / path).read_text()
    assert old in text
    (tree / path).write_text(text.replace(old, new))
    assert counters.main(["--check"]) == 1
    assert capsys.readouterr().err == "counters: docs/counters.md is stale; `make docs` writes it\n"
    assert counters.main([]) == 0
    assert counters.main(["--check"]) == 0


def test_a_figure_that_is_computed_must_be_described(tree, capsys):
    report = tree / counters.REPORT
    report.write_text(report.read_text().replace('"meta_bytes"', '"meta_kib"'))
    assert counters.main(["--check"]) == 2
    assert re.fullmatch(r"counters: src/heap/report/stats\.c:\d+: reports 'meta_kib', which COMPUTED .*\n", capsys.readouterr().err)


def test_a_part_of_a_mailbox_must_be_described(tree, capsys):
    source = tree / "src/engines/hz4/way.h"
    source.write_text(source.read_text().replace('"inbox_bytes"', '"postbox_bytes"'))
    assert counters.main(["--check"]) == 2
    assert re.fullmatch(r"counters: src/engines/hz4/way\.h:\d+: reports 'postbox_bytes', which COMPUTED .*\n", capsys.readouterr().err)


def test_a_described_part_needs_its_mailbox():
    with pytest.raises(CounterError, match=r"^m\.c:1: does not report 'central_bytes', which COMPUTED"):
        counters.require_computed('#define HZ_INBOX_FIGURE "stash_bytes"\n#define HZ_TRANSFER_FIGURE "transfer_bytes"\n', "m.c", counters.PART, ("hz3",))


def test_a_description_needs_a_figure():
    text = "\n".join(f'hz_report_number(report, "{counter.name}", 0);' for counter in counters.COMPUTED if not counter.engines)
    counters.require_computed(text, "s.c")
    with pytest.raises(CounterError, match=r"^s\.c:1: does not report 'seg_acq', which COMPUTED"):
        counters.require_computed(text.replace('"seg_acq"', '"threads"'), "s.c")


def test_good_counters():
    text = f"/* two\n   lines */\n{GOOD}\n"
    assert counters.read_counters(text, "c.def", ("hz7",)) == [Counter("mid", "name", "SUM", "blocks", ("hz7",))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD}\nCOUNTER(mid)\n", "c.def:2: 'COUNTER(mid)' is not a counter; want COUNTER("),
        (GOOD.replace("SUM", "MEAN"), "c.def:1: 'COUNTER("),
        (GOOD.replace("mid", "middle"), "c.def:1: group 'middle' of name is not one of: counters, mid, "),
        (f"{GOOD}\n{GOOD}", "c.def:2: mid.name is defined twice"),
        (GOOD.replace('"name"', '"malloc_calls"'), "c.def:1: mid.malloc_calls is defined twice"),
        ("/* nothing */\n", "c.def:1: no counters; want lines COUNTER("),
    ],
)
def test_bad_counters(text, message):
    with pytest.raises(CounterError) as error:
        counters.read_counters(text, "c.def", before=tuple(counters.COMPUTED))
    assert str(error.value).startswith(message)


def test_no_engines(tree):
    shutil.rmtree(tree / "src/engines")
    with pytest.raises(CounterError, match="no engines"):
        counters.read_all(tree)


def test_what_an_item_says():
    assert counters.item(Counter("mid", "one", "SUM", "blocks")) == "* `one`: blocks"
    assert counters.item(Counter("mid", "two", "HOT", "blocks", ("hz4",))) == "* `two`: blocks (hz4, stats)"
    assert counters.item(Counter("os", "three", "MAX", "most blocks")) == "* `three`: most blocks; the largest value of any thread"


def printed(library: pathlib.Path) -> dict:
    """The report of a process that has allocated blocks."""
    environment = {"LD_PRELOAD": str(library), "HAKOZUNA_STATS": "json"}
    command = ["/usr/bin/python3", "-I", "-S", "-c", "pass"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr)


def names_on_page(engine: str, builds: set[str]) -> set[tuple[str, str]]:
    """(group, name) of the page's items for one engine."""
    items = set()
    for section in re.split(r"^## ", (counters.ROOT / counters.PAGE).read_text(), flags=re.MULTILINE)[1:]:
        for name, limits in re.findall(r"^\* `(\w+)`: .*?(?: \(((?:hz\d|stats)(?:, (?:hz\d|stats))*)\))?$", section, re.MULTILINE):
            words = limits.split(", ") if limits else []
            engines = [word for word in words if word != "stats"]
            if ("stats" if "stats" in words else "all") in builds and (not engines or engine in engines):
                items.add((section.split("\n")[0], name))
    return items


@pytest.mark.parametrize("name", ["libhakozuna_hz3_home.so", "libhakozuna_hz4_home.so"])
def test_the_page_has_what_a_library_prints(name):
    report = printed(LIBRARY.parent / name)
    words = dict(word.split("=", 1) for word in report["config"].split())
    found = {(group, figure) for group in counters.GROUPS for figure in (report[group][0] if isinstance(report[group], list) else report[group])}
    builds = {"all", "stats"} if words["stats"] == "1" else {"all"}
    assert found == names_on_page(words["engine"], builds)
    assert names_on_page(words["engine"], {"all", "stats"}) - names_on_page(words["engine"], {"all"})
