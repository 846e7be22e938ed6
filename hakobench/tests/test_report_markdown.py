"""The pages of results and the table in docs/benchmarks.md: their contents, and that those of the repository are what
its results give."""

import dataclasses
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest
from click.testing import CliRunner, Result

import report_recordings
from hakobench import suite
from hakobench.commands import report
from hakobench.report import facts, markdown, svg
from hakobench.record import Recording
from hakobench.rows import METRICS
from report_recordings import Made, MadeRow, make_run

# Few rows with which a page still has every plot: both axes of scaling, the rows of which a run fails, and one with RSS samples.
ROWS = ("mt-t4-r0", "mt-t4-r90", "mt-t16-r0", "mt-t16-r90", "mt-t16-r90-64k", "phases")
ABOVE, BELOW = "# Benchmarks\n\nWritten by hand.\n\n", "\nAlso by hand: <!-- not: a marker -->\n"


@pytest.fixture
def document(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "benchmarks.md"
    path.write_text(f"{ABOVE}{markdown.BEGIN}\nold\n{markdown.END}{BELOW}", encoding="utf-8")
    return path


@pytest.fixture
def results(tmp_path: pathlib.Path) -> pathlib.Path:
    return report_recordings.write(tmp_path / "results" / "made.csv", report_recordings.runs(Made(rounds=2, names=ROWS)))


def _report(document: pathlib.Path, folder: pathlib.Path, *arguments: object) -> Result:
    return _run("--document", document, "--results-dir", folder, *arguments)


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(report.command, [str(argument) for argument in arguments])


def _contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_page_has_its_plots_and_the_document_its_table(document: pathlib.Path, results: pathlib.Path) -> None:
    done = _report(document, results.parent, "--markdown", results)
    assert done.exit_code == 0, done.output
    page = results.with_name("synthetic.md")
    text = page.read_text(encoding="utf-8")
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(linked) == 6
    assert set(linked) == {f"synthetic/{path.name}" for path in results.with_name("synthetic").iterdir()}
    assert "[`made.csv`](made.csv)" in text
    assert markdown.pages(results.parent) == {page: results}
    written = document.read_text(encoding="utf-8")
    assert written.startswith(ABOVE + markdown.BEGIN) and written.endswith(markdown.END + BELOW)
    between = written.split(markdown.BEGIN)[1].split(markdown.END)[0].strip().splitlines()
    assert [line.split(" | ")[:2] for line in between[2:]] == [["| [synthetic](results/synthetic.md)", "2026-11-21"]] * 2
    assert [line.split(" | ")[3] for line in between[2:]] == ["hz3_scale", "hz4"]


def test_the_table_counts_what_the_page_says(document: pathlib.Path, results: pathlib.Path) -> None:
    row = MadeRow("one", "", "")
    values = {
        "glibc": ((9, 10, 11), (9, 10, 11), (9, 10, 11), (9, 10, 11)),
        "hz4": ((12, 13, 14), (11, 12, 8), (6, 7, 8), (9.01, 10.1, 11.1)),
    }
    runs = [
        make_run(dataclasses.replace(row, name=f"row{at}"), at, name, name == "hz4", value=float(value), round=turn)
        for name, rows in values.items()
        for at, rounds in enumerate(rows)
        for turn, value in enumerate(rounds, 1)
    ]
    results.unlink()
    path = report_recordings.write(results.with_name("x.csv"), [(run, []) for run in runs])
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    assert "| hz4 | 4 | 1 | 1 | 1 | 1 | 0.98 | glibc 1.00 | row2 0.70 |" in document.read_text(encoding="utf-8")
    text = " ".join(results.with_name("synthetic.md").read_text(encoding="utf-8").split())
    assert "4 rows: 1 behind, 1 level within 2 %, 1 not decided, 1 ahead; geometric mean 0.98." in text
    assert "Below 1: row2 0.70 (behind)." in text
    assert re.search(r"\| row0 \| figure \| 1\.30 \| ahead \(1\.\d+ \.\. 1\.\d+\) \|", text)
    assert "| row3 | figure | 1.01 | level within 2 % |" in text
    assert "* stolen by the host: not recorded" in text and "| stolen |" not in text and "By cpu:" not in text


def test_the_page_names_what_judges_and_what_was_stolen(document: pathlib.Path, results: pathlib.Path) -> None:
    runs = [
        make_run(MadeRow("one", "", ""), 0, name, name == "hz4", round=turn, cpu_seconds=cpu, judged_by="cpu", stolen_share=share)
        for name, cpu in (("glibc", 1.1), ("hz4", 1.0))
        for turn, share in enumerate((0.01, 0.02, 0.4), 1)
    ]
    results.unlink()
    path = report_recordings.write(results.with_name("x.csv"), [(run, []) for run in runs])
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    text = " ".join(results.with_name("synthetic.md").read_text(encoding="utf-8").split())
    assert "* stolen by the host: 2.0% of the machine in the median run, 40.0% at most" in text
    assert "| row | by | hz4 / best | hz4 is | RSS / leanest | stolen |" in text
    assert "| one | cpu | 1.10 | ahead (1.100 .. 1.100) | 1.00 | 2.0% |" in text
    assert "By cpu: the program's CPU time gives the ratio" in text


def test_plots_are_valid_and_load_nothing(document: pathlib.Path, results: pathlib.Path) -> None:
    assert _report(document, results.parent, "--markdown", results).exit_code == 0
    for path in results.with_name("synthetic").iterdir():
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        used = [element.get("href") for element in root.iter() if element.get("href")]
        assert len(ids) == len(set(ids))
        assert {f"#{name}" for name in ids} >= set(used)
        assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
        classes = {name for element in root.iter() for name in (element.get("class") or "").split()}
        style = next(element.text for element in root.iter() if element.tag.endswith("style"))
        light, dark = style.split("@media (prefers-color-scheme:dark)")
        for name in classes:
            assert f".{name}{{" in light and f".{name}{{" in dark


@pytest.mark.parametrize("count", [1, markdown.ROWS_OVER_TIME, markdown.ROWS_OVER_TIME + 1])
def test_a_short_suite_has_a_picture_of_rss_over_time(document: pathlib.Path, results: pathlib.Path, count: int) -> None:
    made = []
    for at in range(count):
        for name in ("glibc", "hz4"):
            run = make_run(MadeRow(f"row{at}", "", ""), at, name, name == "hz4", position=len(made) + 1)
            made.append((run, [(0, 1024), (500, 2048), (900, 1500)]))
    made.append((make_run(MadeRow("not sampled", "", ""), count, position=len(made) + 1), []))
    results.unlink()
    path = report_recordings.write(results.with_name("x.csv"), made)
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    picture = results.with_name("synthetic") / "over-time.svg"
    assert picture.exists() == (count <= markdown.ROWS_OVER_TIME)
    if picture.exists():
        text = picture.read_text(encoding="utf-8")
        assert all(f">row{at}<" in text for at in range(count)) and ">not sampled<" not in text
        assert text.count(">glibc<") >= count and text.count(">hz4<") >= count
        assert "(synthetic/over-time.svg)" in results.with_name("synthetic.md").read_text(encoding="utf-8")


def test_the_same_results_give_the_same_bytes(document: pathlib.Path, results: pathlib.Path) -> None:
    assert _report(document, results.parent, "--markdown", results).exit_code == 0
    first = _contents(document.parent)
    assert _report(document, results.parent, "--markdown", results).exit_code == 0
    assert _contents(document.parent) == first
    written = (content.decode() for name, content in first.items() if not name.endswith(".csv"))
    assert str(document.parent) not in "".join(written)


def test_the_check_sees_every_difference(document: pathlib.Path, results: pathlib.Path) -> None:
    folder = results.parent
    assert _report(document, folder, "--markdown", results).exit_code == 0
    assert _report(document, folder, "--check").exit_code == 0
    page, plot, stray = folder / "synthetic.md", folder / "synthetic/speed.svg", folder / "other/speed.svg"
    cases = [
        (page, page.read_text(encoding="utf-8").replace("| 1.", "| 2.", 1), "is not what the results give"),
        (document, document.read_text(encoding="utf-8").replace("| 1.", "| 2.", 1), "is not what the results give"),
        (plot, plot.read_text(encoding="utf-8").replace("Speed", "speed"), "is not what the results give"),
        (stray, svg.GENERATED, "belongs to no page"),
        (results, "".join(results.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), "is not what"),
    ]
    for path, text, message in cases:
        before = path.read_bytes() if path.exists() else None
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        done = _report(document, folder, "--check")
        assert (done.exit_code, message in done.stderr) == (1, True), (path, done.output)
        path.unlink()
        if before is not None:
            path.write_bytes(before)
    assert _report(document, folder, "--check").exit_code == 0
    plot.unlink()
    done = _report(document, folder, "--check")
    assert (done.exit_code, "is missing" in done.stderr) == (1, True)


def test_plots_of_earlier_results_go_and_files_of_others_stay(document: pathlib.Path, results: pathlib.Path) -> None:
    folder = results.with_name("synthetic")
    folder.mkdir()
    (folder / "gone.svg").write_text(f"<svg>{svg.GENERATED}</svg>", encoding="utf-8")
    (folder / "drawn-by-hand.svg").write_text("<svg></svg>", encoding="utf-8")
    assert _report(document, results.parent, "--markdown", results).exit_code == 0
    names = {path.name for path in folder.iterdir()}
    assert "gone.svg" not in names
    assert {"drawn-by-hand.svg", "speed.svg"} <= names


def _of_suite(path: pathlib.Path, name: str, made: Made) -> pathlib.Path:
    runs = [(dataclasses.replace(run, suite=name), samples) for run, samples in report_recordings.runs(made)]
    return report_recordings.write(path, runs)


def test_each_suite_has_a_page_and_newer_results_replace_older(document: pathlib.Path, results: pathlib.Path) -> None:
    folder = results.parent
    second = _of_suite(folder / "second.csv", "other", Made("abc1234", rounds=1, names=ROWS))
    assert _report(document, folder, "--markdown", results).exit_code == 0
    assert _report(document, folder, "--markdown", second).exit_code == 0
    assert markdown.pages(folder) == {folder / "other.md": second, folder / "synthetic.md": results}
    assert "Only 1 round:" in (folder / "other.md").read_text(encoding="utf-8")
    table = document.read_text(encoding="utf-8")
    assert table.count("[other](results/other.md)") == table.count("[synthetic](results/synthetic.md)") == 2
    third = report_recordings.write(folder / "third.csv", report_recordings.runs(Made("def5678", rounds=2, names=ROWS)))
    done = _report(document, folder, "--markdown", results, third)
    assert (done.exit_code, "is of suite synthetic, as another CSV is" in done.stderr) == (2, True)
    assert _report(document, folder, "--markdown", third).exit_code == 0
    assert markdown.pages(folder) == {folder / "other.md": second, folder / "synthetic.md": third}
    table = document.read_text(encoding="utf-8")
    assert (table.count("| def5678 |"), table.count("| 71ce0b5 |")) == (2, 0)
    assert _report(document, folder, "--check").exit_code == 0


def test_a_page_written_by_hand_stays(document: pathlib.Path, results: pathlib.Path) -> None:
    page = results.with_name("synthetic.md")
    page.write_text("# Mine\n", encoding="utf-8")
    done = _report(document, results.parent, "--markdown", results)
    assert (done.exit_code, "synthetic.md' was written by hand" in done.stderr) == (2, True)
    assert page.read_text(encoding="utf-8") == "# Mine\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", f"has the marker '{markdown.BEGIN}' 0 times"),
        (markdown.BEGIN, f"has the marker '{markdown.END}' 0 times"),
        (f"{markdown.BEGIN}{markdown.END}{markdown.END}", f"has the marker '{markdown.END}' 2 times"),
        (f"{markdown.END}{markdown.BEGIN}", "stands above"),
    ],
)
def test_missing_markers_are_named(document: pathlib.Path, results: pathlib.Path, text: str, message: str) -> None:
    document.write_text(text, encoding="utf-8")
    done = _report(document, results.parent, "--markdown", results)
    assert (done.exit_code, message in done.stderr) == (2, True), done.output
    assert document.read_text(encoding="utf-8") == text
    assert {path.name for path in results.parent.iterdir()} == {"made.csv", "made.rss.csv"}


def test_results_that_are_missing_are_named(document: pathlib.Path, results: pathlib.Path) -> None:
    done = _report(document, results.parent, "--markdown")
    assert (done.exit_code, "--markdown needs the CSVs" in done.stderr) == (2, True)
    done = _report(document, results.parent, "--check", results)
    assert (done.exit_code, "give neither CSVs nor --markdown" in done.stderr) == (2, True)
    assert _report(document, results.parent, "--markdown", results).exit_code == 0
    results.unlink()
    done = _report(document, results.parent, "--check")
    assert (done.exit_code, "made.csv" in done.stderr) == (2, True)


def test_a_page_lies_beside_its_results(document: pathlib.Path, results: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = _report(document, tmp_path / "elsewhere", "--markdown", results)
    assert (done.exit_code, "is not in elsewhere; a page lies beside its results" in done.stderr) == (2, True)


def test_foreign_text_does_not_break_the_table(document: pathlib.Path, tmp_path: pathlib.Path) -> None:
    evil = "a|b`c`<script>*d*_e_\n| x |"
    row = MadeRow(evil, evil, "")
    runs = [make_run(row, 0, evil, failure=evil), make_run(row, 0, "hz3", True, config=evil)]
    path = report_recordings.write(tmp_path / "evil.csv", [(run, []) for run in runs])
    assert _report(document, tmp_path, "--markdown", path).exit_code == 0
    text = (tmp_path / "synthetic.md").read_text(encoding="utf-8")
    assert "<script>" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(re.search(r"(?<!\\)\|$", line) for line in tables)
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in tables if "a\\|b" in line]
    assert columns and all(count in (4, 5, 6) for count in columns)


def test_long_text_is_folded_and_tables_are_not(document: pathlib.Path, results: pathlib.Path) -> None:
    long = "word " * 100
    runs = [make_run(MadeRow("row", long, ""), 0, "hz3", True, config=long, failure=long)]
    path = report_recordings.write(results.with_name("long.csv"), [(run, []) for run in runs])
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    lines = results.with_name("synthetic.md").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= markdown.TEXT_COLUMNS
    assert sum("word word" in line for line in lines) > 12


def test_ratios_of_the_documents_stand_beside_ours(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(
        'about = "x"\n[[row]]\nname = "mt"\nabout = "y"\nworkload = "w"\nmetric = "ops_per_s"\n'
        '[[seed]]\nrow = "mt"\nours = "hz4"\nagainst = "tcmalloc"\nratio = 0.96\nsource = "004, section 1"\n'
        '[[seed]]\nrow = "mt"\nours = "hz4"\nagainst = "mimalloc"\nratio = 1.5\nsource = "005"\n'
        '[[seed]]\nrow = "mt"\nours = "hz4"\nagainst = "hz3"\nratio = 0.7\nsource = "002"\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(suite, "SUITES_DIR", tmp_path)
    row = MadeRow("mt", "", "")
    runs = [
        make_run(row, 0, "tcmalloc", value=10.0, suite="mine"),
        make_run(row, 0, "hz3", True, value=12.0, suite="mine"),
    ]
    found = facts.collect(Recording(tmp_path / "x.csv", runs, []))
    assert [(seed.against, seed.ratio, seed.ours) for seed in found.seeds] == [
        ("tcmalloc", 0.96, {"hz3": 1.2}),
        ("mimalloc", 1.5, {"hz3": None}),
        ("hz3", 0.7, {"hz3": None}),
    ]
    document = tmp_path / "b.md"
    document.write_text(f"{markdown.BEGIN}{markdown.END}", encoding="utf-8")
    markdown.write(document, tmp_path, [found.recording])
    page = (tmp_path / "mine.md").read_text(encoding="utf-8")
    assert "| mt | tcmalloc | 0.96 | hz4 | 1.20 | 004, section 1 |" in page


def test_the_pages_of_the_repository_are_what_its_results_give() -> None:
    done = _run("--check")
    assert done.exit_code == 0, done.output


def test_figures_side_by_side_have_a_table_of_their_row(document: pathlib.Path, results: pathlib.Path) -> None:
    row = MadeRow("idle", "sleeps", "", "after5_rss_kb", "MiB 5 s later", True)
    peaks = {"glibc": (2048, 8.0), "jemalloc": (1024, 16.0), "hz4": (512, 4.0)}
    runs = [
        make_run(row, 0, name, name == "hz4", value=value, also="peak_rss_kb live_kb", figures=f"peak_rss_kb={kb} live_kb=0")
        for name, (kb, value) in peaks.items()
    ]
    runs.append(make_run(row, 0, "rpmalloc", failure="killed by SIGSEGV", also="peak_rss_kb live_kb", figures=""))
    results.unlink()
    path = report_recordings.write(results.with_name("x.csv"), [(run, []) for run in runs])
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    text = results.with_name("synthetic.md").read_text(encoding="utf-8")
    table = text[text.index("| allocator | MiB 5 s later") :].split("\n\n")[0].splitlines()
    assert table == [
        "| allocator | MiB 5 s later ↓ | MiB peak ↓ | MiB live |",
        "|---|--:|--:|--:|",
        "| hz4 | 4.00 | 0.50 | 0 |",
        "| glibc | **8.00** | 2.00 | 0 |",
        "| jemalloc | 16.0 | **1.00** | 0 |",
        "| rpmalloc | failed | failed | failed |",
    ]


def test_no_line_of_a_table_is_too_wide(document: pathlib.Path, results: pathlib.Path) -> None:
    """Tables with many allocators or many figures are several tables, and show all of them."""
    row = MadeRow("idle", "sleeps", "", "after5_rss_kb", "MiB 5 s later", True)
    also = [name for name, metric in METRICS.items() if metric.less_is_better and name != "after5_rss_kb"][:16]
    names = [f"allocator-{at:02}" for at in range(20)]
    figures = " ".join(f"{name}={1234567}" for name in also)
    runs = [
        make_run(row, 0, name, at == 0, value=123.4, also=" ".join(also), figures=figures, peak_rss_kb=123_456)
        for at, name in enumerate(names)
    ]
    results.unlink()
    path = report_recordings.write(results.with_name("x.csv"), [(run, []) for run in runs])
    assert _report(document, results.parent, "--markdown", path).exit_code == 0
    lines = results.with_name("synthetic.md").read_text(encoding="utf-8").splitlines()
    assert max(len(line) for line in lines if not line.startswith("!")) <= 160
    heads = [line for line in lines if line.startswith("| row, unit |")]
    assert [word for head in heads for word in head.strip("| ").split(" | ")[1:]] == names
    heads = [line for line in lines if line.startswith("| allocator | ") and "version" not in line]
    assert sum(len(head.strip("| ").split(" | ")) - 1 for head in heads) == 1 + len(also)
