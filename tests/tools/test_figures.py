"""The figures of the five documents' pages are those of the raw files: figures.py judges the runs anew, its pages are the ones in the tree, and a wrong
figure, a lost sentence, an interval that nobody computed and a requirement that is missing are noticed."""

import csv
import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/documents"))
import figures  # noqa: E402
from hakobench import record  # noqa: E402


def said() -> list[tuple[str, dict[str, str]]]:
    """The lines of measured.csv, by the word of their pair."""
    numbers: dict[str, int] = {}
    found = []
    for line in figures.measured():
        number = numbers.setdefault(line["part"], 0)
        numbers[line["part"]] += 1
        found.append((f"{line['part']}.{number}", line))
    return found


def test_pages_are_what_the_raw_files_give():
    assert list(figures.problems()) == []


@pytest.mark.parametrize(("word", "line"), said(), ids=lambda one: one if isinstance(one, str) else "")
def test_the_runs_give_the_verdict_that_the_tool_gave(word, line):
    """pairs.csv.gz has the runs of measured.csv: judged anew, they give its intervals to the last digit."""
    verdict = figures.pair(word).verdict
    texts = ["-" if one is None else f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in (verdict.gain, verdict.hold)]
    assert [verdict.word, *texts] == [line["verdict"], line["gain"], line["hold"]]


def test_packed_runs_are_those_of_the_history():
    known = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", "94f9686"], capture_output=True, check=False).returncode == 0
    if not known:
        pytest.skip("a shallow clone has no history")
    for one in (figures.EARLIER["B"], figures.Packed(figures.measured()[-1]["runs"])):
        runs = figures.packed_runs()[figures.seed_of(one.blob)]
        assert sorted(map(repr, runs)) == sorted(map(repr, figures.unpacked(one)))


def test_a_commit_that_the_history_lacks_is_said_so():
    """Of a library whose commit is gone, and of a file that names none, the table of runs says it."""
    known = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", "94f9686"], capture_output=True, check=False).returncode == 0
    if not known:
        pytest.skip("a shallow clone has no history")
    rows = [line for line in figures.runs_table().splitlines() if re.match(r"\| [A-Z] \|", line)]
    assert len(rows) == len(figures.EARLIER) + len(figures.FILES) + 1 + len(figures.measured_letters())
    for row in rows:
        library = row.split("|")[3].strip()
        commits = re.findall(r"\b[0-9a-f]{7}\b", library)
        there = [subprocess.run(["git", "-C", ROOT, "cat-file", "-e", name], capture_output=True, check=False).returncode == 0 for name in commits]
        assert (not all(there)) == (figures.GONE in library), row
        assert (not commits) == (figures.UNNAMED in library), row


def test_a_wrong_figure_is_noticed():
    wanted = ["one side has 0.38 [0.32, 0.44] of it"]
    assert list(figures.lacking("p", "so one side has\n  0.38 [0.32, 0.44] of it.", wanted)) == []
    assert list(figures.lacking("p", "one side has 0.39 [0.32, 0.44] of it", wanted)) == [
        "p: lacks 'one side has 0.38 [0.32, 0.44] of it'",
        "p: '0.39 [0.32, 0.44]' is in no sentence of figures.toml",
    ]


def test_a_change_of_a_run_changes_its_figures(tmp_path, monkeypatch):
    """One run that is twice as fast moves the interval of its row."""
    before = figures.row("pages.0", "xmalloc-2-2")
    one = figures.pair("pages.0")
    run = next(run for run in one.runs if run.row == "xmalloc-2-2" and run.allocator == one.said["b"])
    figures.pair.cache_clear()
    monkeypatch.setattr(run, "value", 2 * run.value)
    assert figures.row("pages.0", "xmalloc-2-2") != before
    monkeypatch.undo()
    figures.pair.cache_clear()
    assert figures.row("pages.0", "xmalloc-2-2") == before


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("none:a", "no figure is of the kind 'none'; allowed: gain, "),
        ("gain:a:b", "gain takes 1 words, not 2"),
        ("gain:lockfree-home.9", "'lockfree-home.9' is no pair of measured.csv; allowed: PART.NUMBER, where lockfree-home has 4"),
        ("gain:nothing.0", "where nothing has 0"),
        ("row:pages.0:t8-r0", "pages.0 has no row 't8-r0'; its rows: t16-r0, "),
        ("speed:z:a:b/c", "'z' is no letter of runs; allowed: S, Q, "),
        ("speed:S:mt-t4-r90:hz9/hz4", "S has no runs of row 'mt-t4-r90' under 'hz9'"),
        ("count:redis:hz3-scale:none", "remote-counts.csv has no redis,hz3-scale,none"),
        ("cost:I:tiny-16-256:hz9:Ir", "counts-one-thread.csv has 0 lines of tiny-16-256 under hz9, not 2"),
        ("profile:F:run 1:none", "mutex-profile.log has no 'none' below 'run 1'"),
        ("simulated:ring:3:1:moves", "coherence.csv has no ring,3,1"),
    ],
)
def test_a_bad_key_is_refused(key, message):
    with pytest.raises(figures.BadKey, match=re.escape(message)):
        figures.figure(key)


def test_figures_computed_by_hand():
    """From the raw files as a reader would do it."""
    with (figures.RAW / "counts-one-thread.csv").open() as file:
        low, high = (line for line in csv.DictReader(file) if (line["row"], line["allocator"]) == ("tiny-16-256", "tcmalloc"))
    pairs = int(high["pairs"]) - int(low["pairs"])
    assert figures.figure("cost:I:tiny-16-256:tcmalloc:Ir") == str(round((int(high["Ir"]) - int(low["Ir"])) / pairs))
    lines = (figures.RAW / "remote-counts.csv").read_text().splitlines()
    sent = next(int(line.split(",")[3]) for line in lines if line.startswith("xmalloc-8-8,hz4-home,remote.mail_blocks,"))
    freed = next(int(line.split(",")[3]) for line in lines if line.startswith("xmalloc-8-8,hz4-home,counters.remote_free,"))
    assert figures.figure("share:xmalloc-8-8:hz4-home:remote.mail_blocks/counters.remote_free") == f"{100 * sent / freed:.1f} %"
    assert figures.figure("profile:F:hz3-home-mutex-apart run 1:hz_lock_release") == "0.8 %" and "0.78% [.] hz_lock_release" in (figures.RAW / "mutex-profile.log").read_text()
    assert figures.number_text(9999) == "9999" and figures.number_text(1502188) == "1 502 188" and figures.number_text(0.5) == "0.50"


def test_each_requirement_is_answered():
    found = figures.requirements()
    assert {one.document for one in found} == {"000", "001", "002", "003", "004"}
    for one in found:
        assert one.asks and one.answer, one
        assert ("missing:" in one.answer) <= (one.status in ("part", "missing")), one
        assert one.status != "part" or "missing:" in one.answer or one.number == 52, one


def test_an_incomplete_list_is_noticed(tmp_path, monkeypatch):
    text = (figures.HERE / "requirements.toml").read_text()
    monkeypatch.setattr(figures, "HERE", tmp_path)
    (tmp_path / "requirements.toml").write_text(re.sub(r"  \{ number = 7,.*\n", "", text))
    with pytest.raises(ValueError, match="the numbers are not 1 to 71, each once"):
        figures.requirements()
    (tmp_path / "requirements.toml").write_text(text.replace('status = "replaced"', 'status = "perhaps"', 1))
    with pytest.raises(ValueError, match="2 has status 'perhaps'; allowed: done, replaced, part, missing"):
        figures.requirements()


def test_each_figure_has_its_source(capsys):
    """--list: lane, commit, machine and date of each."""
    assert figures.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(figures.keys()) > 150
    for line in lines:
        assert re.fullmatch(r".+ = .+; [A-Z]: .+; (?:[0-9a-f]{7}.*|not named); (?:EPYC|Xeon); 2026-\d\d-\d\d; \S+", line), line


def test_what_is_measured_anew_takes_the_place_of_its_part(tmp_path, monkeypatch):
    """The runs of a new summary.csv, in which B is twice as fast, become those of the part; its own letter follows those of older commits."""
    line = next(line for line in figures.measured() if line["part"] == "random")
    old = figures.packed_runs()[figures.seed_of(line["runs"])]
    new = tmp_path / "documents-20270101-000000-77.csv"
    writer = record.Writer(new)
    for run in old:
        value = 2 * run.value if run.allocator == line["b"] else run.value
        writer.add(dataclasses.replace(run, seed=77, commit="abcdef0", started="2027-01-01T00:00:00+00:00", value=value), [])
    writer.close()
    summary = tmp_path / "summary.csv"
    with summary.open("w") as out:
        table = csv.DictWriter(out, list(line))
        table.writeheader()
        table.writerow({**line, "runs": str(new)})
    kept = [one for one in figures.measured() if one["part"] in ("random", "pages")]
    monkeypatch.setattr(figures, "RAW", tmp_path)
    monkeypatch.setattr(figures, "EARLIER", {})
    monkeypatch.setattr(figures, "measured", lambda: kept)
    monkeypatch.setattr(figures, "read_blob", lambda one: record.read(new).runs if one.blob == str(new) else figures.packed_runs()[figures.seed_of(one.blob)])
    monkeypatch.setattr(figures, "PAIRS", tmp_path / "pairs.csv.gz")
    assert figures.main(["--take", str(summary)]) == 0
    taken = figures.read_csv(tmp_path / "measured.csv")
    assert [(one["part"], one["runs"]) for one in taken] == [(one["part"], one["runs"]) for one in kept[1:]] + [("random", str(new))]
    monkeypatch.setattr(figures, "measured", lambda: taken)
    before = figures.figure("gain:random.0")
    for cached in (figures.packed_runs, figures.pair, figures.figure, figures.measured_letters):
        cached.cache_clear()
    low, doubled = (float(text.partition(" ")[0]) for text in (before, figures.figure("gain:random.0")))
    assert doubled == pytest.approx(2 * low, abs=0.02)
    assert figures.figure("run:gain:random.0") == "V" and figures.figure("commit:gain:random.0") == "abcdef0"
    monkeypatch.undo()
    for cached in (figures.packed_runs, figures.pair, figures.figure, figures.measured_letters):
        cached.cache_clear()


def test_check_tells_which_page_is_old(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "problems", lambda: iter(["a.md: lacks 'x'"]))
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().err == "figures.py: a.md: lacks 'x'\n"
    monkeypatch.setattr(figures, "page", lambda _name: figures.figure("none:a"))
    assert figures.main([]) == 2
    assert capsys.readouterr().err.startswith("figures.py: 'none:a': no figure is of the kind 'none'")


def test_no_line_of_a_page_ends_within_a_figure():
    text = "word " * 30 + "0.12 [0.10, 0.14] and 1 000 000 blocks, 5 %" + " word" * 20
    for at in range(60):
        lines = figures.wrapped("x" * at + " " + text).splitlines()
        assert all(len(line) <= figures.COLUMNS for line in lines)
        assert any("0.12 [0.10, 0.14]" in line for line in lines) and any("1 000 000" in line for line in lines) and any("5 %" in line for line in lines)
