"""The documents agree with the sources as far as a program can check: examples compile and run, the files and functions
that are named exist, links have targets, memory-order.md has the edges of the sources, settings.md has the variables, their
options and the settings of the API, usage.md the first words of the configuration string, and numbers that a page repeats
are those of the sources."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
FOLDERS = ("docs", "docs/decisions", "hakobench/docs", "bench/coherence", "bench/documents", "bench/results", "tests/apps", "tests/contract")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "src/README.md", "bench/README.md", "hakobench/README.md", "command/README.md")),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))),
]
BLOCK = re.compile(r"^```(?P<language>cpp|c)(?P<way>(?: [^\n]*)?)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
SOURCE_NAME = re.compile(r"(?<![\w/.-])hz[34]?_[a-z0-9_]+(?![\w+*-])(?!\.(?:so|a)\b)")
SOURCE_PATH = re.compile(r"`((?:src|tests|bench|hakobench|tools|cmake|command|include)/[^`\s]*)`")
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
EDGE = re.compile(r"\bsync: ([a-z]+(?:-[a-z]+)*)")


def page_name(page: pathlib.Path) -> str:
    return page.relative_to(ROOT).as_posix()


def bare(text: str) -> str:
    """C without its comments."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def sources() -> str:
    files = [path for folder in ("src", "include") for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".c", ".h", ".def"}]
    return "\n".join(path.read_text() for path in files)


def examples() -> list:
    """Each program of a page of docs/, named by its page and line."""
    pages = [(page.stem, page.read_text()) for page in sorted((ROOT / "docs").glob("*.md"))]
    return [
        pytest.param(found["language"], found["way"].strip(), found["code"], id=f"{name}-line{text.count(chr(10), 0, found.start()) + 1}")
        for name, text in pages
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


def lane_names() -> set[str]:
    """hz3_scale, hz4_pageq and so on: names of libraries, and no functions."""
    return {f"{path.parts[-3]}_{path.stem}" for path in (ROOT / "src/engines").glob("*/lanes/*.h")}


def unknown_names(text: str, known: str) -> list[str]:
    """The functions and variables in a page's code that the sources, without their comments, do not have."""
    names = dict.fromkeys(name for code in CODE.findall(text) for name in SOURCE_NAME.findall(code))
    return [name for name in names if name not in lane_names() and not re.search(rf"\b{name}\b", known)]


def without_older_names(page: pathlib.Path) -> str:
    """In bench/documents/names.md a name of the earlier allocators stands before each arrow."""
    text = page.read_text()
    return re.sub(r"^\* [^→\n]*→", "*", text, flags=re.MULTILINE) if page.name == "names.md" else text


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_names_exist(page):
    assert unknown_names(without_older_names(page), bare(sources())) == []


def test_a_name_that_is_gone_is_noticed():
    text = "`hz3_gone`, `hz3_there(1)`, `a = hz_mentioned`, `libhakozuna_hz3_x.so`, `hz3_scale`, plain hz_text\n```\nhz_tree  src/a.c\n```\n"
    known = bare("int hz3_there(int); /* hz_mentioned */")
    assert unknown_names(text, known) == ["hz3_gone", "hz_mentioned", "hz_tree"]


# Paths that a page names although they do not exist, and why.
ABSENT_PATHS = {
    "bench/results/SUITE-DATE-SEED.csv": "hakobench.md: what a run writes",
    "src/engines/<engine>/lanes/<lane>.h": "CONTRIBUTING.md: the header of a lane that somebody adds",
}


def missing_paths(text: str, root: pathlib.Path) -> list[str]:
    """The paths in a page's code spans that do not exist below `root`; * and {a,b} as in a shell."""
    missing = []
    for path in dict.fromkeys(SOURCE_PATH.findall(text)):
        found = re.fullmatch(r"(.*)\{(.*)\}(.*)", path)
        patterns = [found[1] + word + found[3] for word in found[2].split(",")] if found else [path.rstrip("/")]
        if path not in ABSENT_PATHS and not all(any(root.glob(pattern)) for pattern in patterns):
            missing.append(path)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_exist(page):
    assert missing_paths(without_older_names(page), ROOT) == []


def test_a_path_that_is_gone_is_noticed(tmp_path):
    (tmp_path / "src/base").mkdir(parents=True)
    (tmp_path / "src/base/a.c").touch()
    text = "`src/base`, `src/base/`, `src/base/*.c`, `src/base/a.{c,h}`, `src/core/a.c`, `tests/x.cc`, `elsewhere/x`, src/plain.c"
    assert missing_paths(text, tmp_path) == ["src/base/a.{c,h}", "src/core/a.c", "tests/x.cc"]


def test_absent_paths_are_named_and_absent():
    pages = "\n".join(page.read_text() for page in PAGES)
    assert [path for path in ABSENT_PATHS if (ROOT / path).exists() or f"`{path}`" not in pages] == []


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


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links(page):
    assert broken_links(page) == []


def test_broken_links_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](gone.md) [d](page.md#one-two)\n")
    assert broken_links(page) == ["#three", "gone.md"]


DECISIONS = ROOT / "docs/decisions"


def decisions(pages: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The decisions of pages by name: target of a link -> (date, first word of the status)."""
    found = {}
    for name, text in pages.items():
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            [anchor] = anchors("## " + section.splitlines()[0])
            stamp = re.search(r"\*\*Date\.\*\* (\S+)\. \*\*Status\.\*\* (\w+)", section)
            found[f"{name}#{anchor}"] = (stamp[1], stamp[2].lower())
    return found


def indexed_decisions(index: str) -> dict[str, tuple[str, str]]:
    """The same, as the lines of the index say it."""
    lines = re.findall(r"^\* \[[^]]+\]\(([^)]+)\)\. (\S+), (\w+)$", index, re.MULTILINE)
    return {target: (date, status) for target, date, status in lines}


def test_index_of_decisions():
    pages = {page.name: page.read_text() for page in DECISIONS.glob("*.md")}
    index = pages.pop("README.md")
    assert indexed_decisions(index) == decisions(pages)


def test_a_decision_that_the_index_lacks_is_noticed():
    pages = {"a.md": "# A\n\n## One, two\n**Date.** 2026-11-22. **Status.** Current.\n\n## Three\n**Date.** 2026-11-23. **Status.** Superseded by x.\n"}
    index = "* [that](a.md#one-two). 2026-11-22, current\n* [this](a.md#three). 2026-11-23, superseded\n"
    assert indexed_decisions(index) == decisions(pages)
    assert indexed_decisions(index.replace("22", "21")) != decisions(pages) != indexed_decisions(index.replace("#three", "#four"))


def documented_edges(text: str) -> set[str]:
    rows = re.findall(r"^\|([^|]*)\|", text[text.index("\n## Edges") : text.index("\n## Why")], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"\*\*([a-z-]+)\*\*|(send-take)", row) for name in name if name}


def test_every_edge_is_documented():
    in_sources = set(EDGE.findall(sources())) - {"edge"}
    assert documented_edges((ROOT / "src/memory-order.md").read_text()) == in_sources


def documented_variables(page: str) -> set[str]:
    return set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))


def unknown_variables(text: str) -> set[str]:
    """The variables and options of CMake called HAKOZUNA_... in a page that neither the sources nor the build have."""
    known = sources() + "".join(path.read_text() for path in (ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")))
    return {name for name in re.findall(r"\bHAKOZUNA_[A-Z_]*[A-Z]\b", text) if not re.search(rf"\b{name}\b", known)}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_variables_exist(page):
    assert unknown_variables(page.read_text()) == set()


def test_a_variable_that_is_gone_is_noticed():
    assert unknown_variables("HAKOZUNA_STATS, HAKOZUNA_GONE=1, HAKOZUNA_LTO, HAKOZUNA_*") == {"HAKOZUNA_GONE"}


def test_environment_variables():
    text = bare(sources())
    assert len(re.findall(r"\b(?:secure_)?getenv\(", text)) == 1, "hz_os_getenv is the one place that reads the environment"
    assert len(re.findall(r"\bhz_os_getenv\(", text)) == 12, "declared, defined, called eight times in override_load.c, in load.c and in reporter.c"
    read = set(re.findall(r'\b(?:is_set|hz_os_getenv)\("([A-Z_]+)"', text))
    page = (ROOT / "docs/settings.md").read_text()
    assert documented_variables(page) == read
    assert documented_variables(page.replace("HAKOZUNA_STATS`", "HAKOZUNA_STATISTICS`")) != read


def read_words(source: str) -> set[str]:
    """The words that src/front/reports/request.c knows; of those with a value what stands before it."""
    names = re.findall(r'(?<!\w)is\(word, "([\w-]+)"\)|has_key\(&word, "(\w+=)"\)|strcmp\(words, "(0)"\)', source)
    values = re.findall(r'!is\(word, "([\w-]+)"\)', source)
    return {name for found in names for name in found if name} - set(values)


def documented_words(page: str) -> set[str]:
    table = page[page.index("\n## Options of") : page.index("\n## In the program")]
    words = [word for cell in re.findall(r"(?m)^\| (`[^|]+) \|", table) for word in re.findall(r"`([^`]+)`", cell)]
    return {word.partition("=")[0] + "=" if "=" in word else word for word in words}


def test_words_of_the_variables():
    source, page = (ROOT / "src/front/reports/request.c").read_text(), (ROOT / "docs/settings.md").read_text()
    assert len(read_words(source)) > 10
    assert documented_words(page) == read_words(source)
    assert documented_words(page.replace("`leak`", "`leaks`")) != read_words(source) != read_words(source.replace('"leak"', '"leaks"'))
    (signals,) = re.findall(r'#define ALLOWED_SIGNALS "(.*), or the number', source)
    assert signals in page and "1 to 86400" in page and "1 to 1073741824" in page


def test_settings_of_the_api():
    page = (ROOT / "docs/settings.md").read_text()
    header = (ROOT / "include/hakozuna/hakozuna.h").read_text()
    settings = set(re.findall(r"\b(hz_(?:limit|sampling)_(?:set|notify|start))\(", header))
    assert len(settings) == 4 and settings <= set(re.findall(r"(?m)^\| `(hz_\w+)\(", page))
    act = set(re.findall(r"\bM_[A-Z_]+\b", re.search(r"\bmallopt\(.*?\n}", bare((ROOT / "src/front/override/override_introspect.c").read_text()), re.DOTALL)[0]))
    assert set(re.findall(r"(?m)^\| (M_[A-Z_]+) \|", page)) == act - {"M_MXFAST"}


def test_figures_of_the_heap():
    """statistics.md has the lines of group `heap`, in their order."""
    printed = re.findall(r'hz_report_number\(report, "(\w+)"', (ROOT / "src/front/api.c").read_text())
    assert len(printed) > 5
    assert re.findall(r"^\| `heap\.(\w+)` \|", (ROOT / "docs/statistics.md").read_text(), re.MULTILINE) == printed


def test_configuration_string():
    """usage.md shows how it begins, and the line before it."""
    text = (ROOT / "docs/usage.md").read_text()
    shown = re.search(r"^(engine=.*) \.\.\.$", text, re.MULTILINE)
    first = re.search(r"^hakozuna [0-9.]+ in true .*$", text, re.MULTILINE)
    environment = {"LD_PRELOAD": str(LIBRARY), "HAKOZUNA_SHOW_CONFIG": "2"}
    run = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True, check=True)
    assert shown is not None and first is not None
    head, config = run.stderr.splitlines()[:2]
    assert re.sub(r"pid \d+", "pid 4711", re.sub(r"\d+ CPUs?", "2 CPUs", head)) == first[0]
    assert config.startswith(shown[1] + " ")


# A number in the sources, and the words with which a page repeats it. When one is not there, look at the other.
REPEATED = [
    ("src/base/arena/arena.c", "TICK_MS = 100,", "docs/usage.md", "at most every 100 ms"),
    ("src/base/arena/arena.c", "TICK_BUDGET_PAGES = 512,", "docs/usage.md", "about 512 pages"),
    ("src/policy.def", "HZ_PURGE_DELAY_MS, 500,", "docs/usage.md", "not used for 500 ms"),
    ("src/policy.def", "HZ_BUDGET_BYTES, 4 << 20,", "docs/usage.md", "more than 4 MiB"),
    ("src/policy.def", "HZ_BUDGET_USED_SHARE, 64,", "docs/usage.md", "1/64 of the memory in use"),
    ("src/policy.def", "HZ_BUDGET_LOOP_BYTES, 128 << 20,", "docs/usage.md", "up to 128 MiB more"),
    ("src/base/arena/arena.c", "BUDGET_STEP_PAGES = 64,", "docs/architecture.md", "at most 64 pages"),
    ("src/base/map/region.h", "HZ_REGION_UNITS = 64,", "docs/architecture.md", "Up to 64 MiB"),
    ("src/base/arena/arena.c", "DIRECTORY_COUNT = 1 << 18,", "docs/usage.md", "2^18 segments"),
    ("src/policy.def", "HZ_DEPOT_AGE_SHARE, 32,", "docs/usage.md", "a 32nd of each size class"),
    ("src/heap/knobs.def", r"HZ_DEPOT_AGE_MS, \d+, \d+, 100,", "docs/usage.md", "every 100 ms a 32nd"),
    ("src/heap/free.c", "FREES_AT_ONCE = 16 ", "docs/life-of-a-block.md", "after 16 frees"),
    ("src/heap/pages/page.c", "BLOCKS_MIN = 4,", "docs/life-of-a-block.md", "at least 4 blocks"),
    ("src/heap/pages/page.c", "WASTE_SHARE_MAX = 16,", "docs/life-of-a-block.md", "at most 1/16"),
    ("src/heap/pages/adopt.c", "PAGES_AT_ONCE = 4 ", "docs/life-of-a-block.md", "up to 4 others"),
    ("src/engines/hz4/lanes/default.h", r"HZ_HOME_BELOW_BYTES +HZ_SET\(129\)", "docs/life-of-a-block.md", "up to 128 bytes"),
    ("src/engines/hz4/lanes/default.h", r"HZ_HOME_BELOW_BYTES +HZ_SET\(129\)", "docs/choose.md", "blocks up to 128 bytes"),
    ("src/policy.def", "HZ_LIMIT_GROUP_SHARE, 8,", "docs/choose.md", "takes 7/8 of it"),
    ("src/heap/back/limit.c", "PURGE_SHARE = 16,", "docs/choose.md", "at most a sixteenth of the time"),
    ("src/policy.def", "HZ_BUDGET_BYTES, 4 << 20,", "docs/settings.md", "default 4 MiB"),
    ("src/policy.def", "HZ_BUDGET_USED_SHARE, 64,", "docs/settings.md", "1/64 of memory in use"),
    ("src/engines/hz4/lanes/default.h", r"HZ_REMOTE_COUNT +HZ_SET\(256\)", "docs/life-of-a-block.md", "remote buffer: 256 blocks"),
]


def differs(source: str, number: str, page: str, words: str) -> list[str]:
    """Which of the two is not there; line breaks of the page do not count."""
    wrong = [] if re.search(number, source) else [number]
    return wrong + ([] if words in " ".join(page.split()) else [words])


@pytest.mark.parametrize(("path", "number", "page", "words"), REPEATED)
def test_numbers_that_a_page_repeats(path, number, page, words):
    assert differs((ROOT / path).read_text(), number, (ROOT / page).read_text(), words) == []


def test_a_number_that_has_changed_is_noticed():
    assert differs("A = 2,", "A = 1,", "one\nthing", "one thing") == ["A = 1,"]
    assert differs("A = 1,", "A = 1,", "two\nthings", "one thing") == ["one thing"]
