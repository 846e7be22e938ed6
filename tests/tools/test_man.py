"""The man pages say what their sources say, completely, and man has nothing to complain about them."""

import pathlib
import re
import subprocess
import sys

import man
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*man.PAGES, "command/hakozuna.1.in"]


def shown(path: pathlib.Path) -> subprocess.CompletedProcess:
    """A page as a reader sees it."""
    order = ["man", "--warnings", "-E", "ascii", "-l", str(path)]
    environment = {"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    return subprocess.run(order, env=environment, capture_output=True, text=True, check=False)


def test_they_are_as_their_sources_say():
    done = subprocess.run([sys.executable, ROOT / "tools/man.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_changed_source_is_noticed(monkeypatch, capsys):
    monkeypatch.setitem(man.PAGES, "packaging/man/hakozuna.7.in", lambda: "other")
    for path in ("packaging/man/hz_malloc.3.in", "hakobench/hakobench.1"):
        monkeypatch.delitem(man.PAGES, path)
    assert man.main(["--check"]) == 1
    assert capsys.readouterr().err == "man: packaging/man/hakozuna.7.in: not as their sources say; 'make docs' writes them\n"


@pytest.mark.parametrize("page", PAGES)
def test_man_has_nothing_to_complain(page):
    done = shown(ROOT / page)
    assert (done.returncode, done.stderr) == (0, "")
    assert "##" not in done.stdout and "**" not in done.stdout.replace("void **", "") and "|---" not in done.stdout


def test_man_complains_about_what_is_wrong(tmp_path):
    (tmp_path / "page.1").write_text(".TH PAGE 1\n.SH NAME\npage \\- x\n.NOSUCH y\n")
    assert "NOSUCH" in shown(tmp_path / "page.1").stderr


def test_all_functions_are_in():
    text = shown(ROOT / "packaging/man/hz_malloc.3.in").stdout
    header = (ROOT / man.HEADER).read_text()
    names = man.functions(header)
    assert len(names) > 20 and sorted(names) == sorted(set(re.findall(r"(?m)^HZ_API [^;]*?\b(hz_\w+)\(", header)))
    for name in names:
        assert re.search(rf"(?m)^ +[\w ]+\**{name}\(", text), f"{name} has no prototype"
    for member in ("live_bytes", "held_bytes", "HZ_STATS_JSON"):
        assert member in text


def test_all_variables_are_in():
    text = shown(ROOT / "packaging/man/hakozuna.7.in").stdout
    variables = re.findall(r"(?m)^\| `(HAKOZUNA_\w+)` \|", (ROOT / "docs/settings.md").read_text())
    assert len(variables) > 3
    assert [name for name in variables if not re.search(rf"(?m)^ +{name}$", text)] == []


def test_all_commands_are_in():
    from hakobench.cli import COMMANDS

    text = shown(ROOT / "hakobench/hakobench.1").stdout
    assert [name for name in COMMANDS if not re.search(rf"(?m)^ +hakobench {name} ", text)] == []
    assert "--bin-dir" in text


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        ("a `b-c` **d** [e](f.md) g-h", "a \\fBb\\-c\\fR \\fBd\\fR e g-h"),
        (".a\n'b", "\\&.a\n\\&'b"),
        ("a\\b @c@", "a\\eb \\[at]c\\[at]"),
    ],
)
def test_text_becomes_roff(text, roff):
    assert man.inline(text) == roff


def test_blocks_become_roff():
    text = "## Two words\nText.\n\n* one\n  more\n* two\n\n```console\n.x -y\n```\n\n| a | b | c |\n|---|---|---|\n| `d` | e | f. |\n"
    assert list(man.markdown(text)) == [
        *(".SH TWO WORDS", ".PP", "Text.", ".IP \\(bu 2", "one more", ".IP \\(bu 2", "two"),
        *(".PP", ".nf", ".RS 4", "\\&.x \\-y", ".RE", ".fi", ".TP", "\\fBd\\fR", "b: e; c: f."),
    ]
