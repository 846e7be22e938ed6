"""The documents agree with the sources as far as a program can check: examples compile and run, named functions exist,
links have targets, and memory-order.md has the same edges as the sources."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
PAGES = [ROOT / "src/README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>cpp|c)(?P<way>(?: [^\n]*)?)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SOURCE_NAME = re.compile(r"`(hz[34]?_[a-z0-9_]+)(?:\([^`]*\))?`")
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
EDGE = re.compile(r"\bsync: ([a-z]+(?:-[a-z]+)*)")


def sources() -> str:
    files = [path for folder in ("src", "include") for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".c", ".h", ".def"}]
    return "\n".join(path.read_text() for path in files)


def examples() -> list:
    text = (ROOT / "docs/usage.md").read_text()
    return [
        pytest.param(found["language"], found["way"].strip(), found["code"], id=f"line{text.count(chr(10), 0, found.start()) + 1}")
        for found in BLOCK.finditer(text)
    ]


def build_and_run(folder: pathlib.Path, language: str, way: str, code: str) -> subprocess.CompletedProcess:
    """Compiles an example and runs it the way that its fence says: link, preload or dlopen."""
    assert way in {"link", "preload", "dlopen"}, f"the fence says '{way}'; allowed: link, preload, dlopen"
    source, program = folder / f"example.{'c' if language == 'c' else 'cc'}", folder / "example"
    source.write_text(code)
    compiler = ["cc", "-std=c11"] if language == "c" else ["c++", "-std=c++17", "-Wno-alloc-size-larger-than"]
    link = [f"-L{LIBRARY.parent}", "-lhakozuna", f"-Wl,-rpath,{LIBRARY.parent}"] if way == "link" else []
    command = [*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/include", str(source), "-o", str(program), *link]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)} if way == "dlopen" else dict(os.environ)
    if way == "preload":
        environment["LD_PRELOAD"] = str(LIBRARY)
    return subprocess.run([program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("language", "way", "code"), examples())
def test_example(tmp_path, language, way, code):
    run = build_and_run(tmp_path, language, way, code)
    assert (run.returncode, run.stderr) == (0, "")


def test_there_are_examples():
    assert {way for example in examples() for way in [example.values[1]]} == {"link", "preload", "dlopen"}


def test_an_example_that_fails_is_noticed(tmp_path):
    assert build_and_run(tmp_path, "c", "link", "int main(void) {\n    return 3;\n}\n").returncode == 3
    with pytest.raises(subprocess.CalledProcessError):
        build_and_run(tmp_path, "c", "link", "int main(void) {\n    return hz_missing();\n}\n")


def unknown_names(text: str, known: str) -> list[str]:
    """The functions that a page names but the sources do not have."""
    return [name for name in SOURCE_NAME.findall(text) if not re.search(rf"\b{name}\b", known)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page):
    text = page.read_text()
    if page.name == "glossary.md":  # the first columns of its tables have names of other designs
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.MULTILINE)
    assert unknown_names(text, sources()) == []


def test_a_name_that_is_gone_is_noticed():
    assert unknown_names("`hz3_gone` and `hz3_there(1)`", "int hz3_there(int);") == ["hz3_gone"]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes from the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: pathlib.Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        if not other.exists() or (anchor and anchor not in anchors(other.read_text())):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    assert broken_links(page) == []


def test_broken_links_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](gone.md) [d](page.md#one-two)\n")
    assert broken_links(page) == ["#three", "gone.md"]


def documented_edges(text: str) -> set[str]:
    rows = re.findall(r"^\|([^|]*)\|", text[text.index("\n## Edges") : text.index("\n## Why")], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"\*\*([a-z-]+)\*\*|(send-take)", row) for name in name if name}


def test_every_edge_is_documented():
    in_sources = set(EDGE.findall(sources())) - {"edge"}
    assert documented_edges((ROOT / "docs/memory-order.md").read_text()) == in_sources


COUNTER = re.compile(r'^COUNTER\("(?P<group>[a-z]+)", [a-z_]+, "(?P<name>[a-z_]+)", (?P<kind>SUM|MAX|HOT), "', re.MULTILINE)


def counters_of(path: str) -> set[tuple[str, str]]:
    return {(found["group"], found["name"]) for found in COUNTER.finditer((ROOT / path).read_text())}


def documented_counters(page: str) -> set[tuple[str, str]]:
    """(group, name) for each name in the first columns of the tables under a line `**group**`."""
    parts = re.split(r"^\*\*([a-z]+)\*\*.*$", page, flags=re.MULTILINE)
    return {
        (group, name)
        for group, text in zip(parts[1::2], parts[2::2])
        for cell in re.findall(r"^\|([^|]*)\|", text, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+)`", cell)
    }


# Counters that no thread counts; src/core/stats.c knows or computes them.
KNOWN = {("counters", name) for name in ("threads", "thread_blocks", "shards", "meta_bytes")} | {("os", "seg_acq")}
KNOWN |= {("mid", name) for name in ("malloc_calls", "free_calls", "free_batch_enq")}


def test_every_counter_is_documented():
    """hz4.md documents the common counters and those of hz4; hz3.md documents those that only hz3 has."""
    common = counters_of("src/core/counters.def")
    assert len(common) > 30
    assert documented_counters((ROOT / "docs/hz4.md").read_text()) == common | counters_of("src/hz4/engine_counters.def") | KNOWN
    page = (ROOT / "docs/hz3.md").read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", page[page.index("\n## What the statistics say") :], re.MULTILINE))
    assert {("counters", name) for name in rows} == counters_of("src/hz3/engine_counters.def")


def test_a_counter_in_the_wrong_group_is_noticed():
    page = "**mid**: blocks\n\n| counter | counts |\n|---|---|\n| `one`, `two` | of `four` |\n\n**os**\n\n| `three` | x |\n"
    assert documented_counters(page) == {("mid", "one"), ("mid", "two"), ("os", "three")}
