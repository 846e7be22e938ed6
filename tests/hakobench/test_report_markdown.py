"""docs/benchmarks.md: what goes between the markers, and that the repository's is what its results give."""

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
from report_recordings import Made, MadeRow, make_run

ABOVE, BELOW = "# Benchmarks\n\nWritten by hand.\n\n", "\nAlso by hand: <!-- not: a marker -->\n"


@pytest.fixture
def document(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "benchmarks.md"
    path.write_text(f"{ABOVE}{markdown.BEGIN}\nold\n{markdown.END}{BELOW}", encoding="utf-8")
    return path


@pytest.fixture
def results(tmp_path: pathlib.Path) -> pathlib.Path:
    return report_recordings.write(tmp_path / "made.csv", report_recordings.runs(Made(rounds=2)))


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(report.command, [str(argument) for argument in arguments])


def _contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_hand_written_parts_stay_and_the_plots_are_there(document: pathlib.Path, results: pathlib.Path) -> None:
    done = _run("--markdown", document, results)
    assert done.exit_code == 0, done.output
    text = document.read_text(encoding="utf-8")
    assert text.startswith(ABOVE + markdown.BEGIN) and text.endswith(markdown.END + BELOW)
    assert "old" not in text.split(markdown.BEGIN)[1].split(markdown.END)[0].split("\n")
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(linked) == 5
    written = {path.relative_to(document.parent).as_posix() for path in (document.parent / "benchmarks").iterdir()}
    assert set(linked) == written
    assert "[`made.csv`](made.csv)" in text


def test_plots_are_valid_and_ask_for_nothing(document: pathlib.Path, results: pathlib.Path) -> None:
    assert _run("--markdown", document, results).exit_code == 0
    for path in (document.parent / "benchmarks").iterdir():
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


def test_the_same_results_give_the_same_bytes(document: pathlib.Path, results: pathlib.Path) -> None:
    assert _run("--markdown", document, results).exit_code == 0
    first = _contents(document.parent)
    assert _run("--markdown", document, results).exit_code == 0
    assert _contents(document.parent) == first
    assert str(document.parent) not in "".join(
        content.decode() for name, content in first.items() if name != "made.csv"
    )


def test_the_check_sees_every_difference(document: pathlib.Path, results: pathlib.Path) -> None:
    assert _run("--markdown", document, results).exit_code == 0
    assert _run("--markdown", document, "--check").exit_code == 0
    good = _contents(document.parent)
    plot = document.parent / "benchmarks" / "synthetic-speed.svg"
    stray = document.parent / "benchmarks" / "other-speed.svg"
    cases = [
        (document, document.read_text(encoding="utf-8").replace("| 1.", "| 2.", 1), "is not what its results give"),
        (plot, plot.read_text(encoding="utf-8").replace("Speed", "speed"), "is not what the results give"),
        (stray, svg.GENERATED, "belongs to no results"),
        (results, "".join(results.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), "is not what"),
    ]
    for path, text, message in cases:
        path.write_text(text, encoding="utf-8")
        done = _run("--markdown", document, "--check")
        assert (done.exit_code, message in done.stderr) == (1, True), (path, done.output)
        path.unlink()
        if path.name in good or path == plot:
            path.write_bytes(good[path.relative_to(document.parent).as_posix()])
    assert _run("--markdown", document, "--check").exit_code == 0
    plot.unlink()
    done = _run("--markdown", document, "--check")
    assert (done.exit_code, "is missing" in done.stderr) == (1, True)


def test_plots_of_earlier_results_go_and_files_of_others_stay(document: pathlib.Path, results: pathlib.Path) -> None:
    folder = document.parent / "benchmarks"
    folder.mkdir()
    (folder / "gone-speed.svg").write_text(f"<svg>{svg.GENERATED}</svg>", encoding="utf-8")
    (folder / "drawn-by-hand.svg").write_text("<svg></svg>", encoding="utf-8")
    assert _run("--markdown", document, results).exit_code == 0
    names = {path.name for path in folder.iterdir()}
    assert "gone-speed.svg" not in names
    assert {"drawn-by-hand.svg", "synthetic-speed.svg"} <= names


def test_several_results_have_a_section_each(document: pathlib.Path, results: pathlib.Path) -> None:
    second = report_recordings.write(document.parent / "second.csv", report_recordings.runs(Made("abc1234", rounds=1)))
    assert _run("--markdown", document, results, second).exit_code == 0
    text = document.read_text(encoding="utf-8")
    assert text.count("## Suite synthetic") == 2
    assert markdown.named_results(document) == [results, second]
    assert {"synthetic-speed.svg", "synthetic-2-speed.svg"} <= {
        path.name for path in (document.parent / "benchmarks").iterdir()
    }
    assert "Only 1 round:" in text
    assert _run("--markdown", document, "--check").exit_code == 0


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
    done = _run("--markdown", document, results)
    assert (done.exit_code, message in done.stderr) == (2, True), done.output
    assert document.read_text(encoding="utf-8") == text
    assert not (document.parent / "benchmarks").exists()


def test_results_that_are_not_there_are_named(document: pathlib.Path, results: pathlib.Path) -> None:
    done = _run("--markdown", document)
    assert (done.exit_code, "--markdown needs the CSVs" in done.stderr) == (2, True)
    assert _run("--markdown", document, results).exit_code == 0
    results.unlink()
    done = _run("--markdown", document, "--check")
    assert (done.exit_code, "made.csv" in done.stderr) == (2, True)


def test_results_from_elsewhere_cannot_be_documented(
    document: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = report_recordings.runs(Made(rounds=1))[:30]
    elsewhere = report_recordings.write(tmp_path_factory.mktemp("elsewhere") / "x.csv", made)
    done = _run("--markdown", document, elsewhere)
    assert (done.exit_code, "is not in the folder of the project" in done.stderr) == (2, True)


def test_words_of_others_do_not_break_the_table(document: pathlib.Path) -> None:
    evil = "a|b`c`<script>*d*_e_\n| x |"
    row = MadeRow(evil, evil, "")
    runs = [make_run(row, 0, evil, failure=evil), make_run(row, 0, "hz3", True, config=evil)]
    path = report_recordings.write(document.parent / "evil.csv", [(run, []) for run in runs])
    assert _run("--markdown", document, path).exit_code == 0
    text = document.read_text(encoding="utf-8")
    assert "<script>" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(re.search(r"(?<!\\)\|$", line) for line in tables)
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in tables if "a\\|b" in line]
    assert columns and all(count in (4, 5, 7) for count in columns)


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
    markdown.write(document, [dataclasses.replace(found.recording, path=tmp_path / "x.csv")])
    assert "| mt | tcmalloc | 0.96 | hz4 | 1.20 | 004, section 1 |" in document.read_text(encoding="utf-8")


def test_the_document_in_the_repository_is_what_its_results_give() -> None:
    done = _run("--check")
    assert done.exit_code == 0, done.output
