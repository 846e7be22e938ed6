"""The demo must notice wrong results, and a library that is not loaded or not ours."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "demo"
LOADER = importlib.machinery.SourceFileLoader("demo", str(TOOL))
demo = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", LOADER))
LOADER.exec_module(demo)

PROBE = """
#include <stdlib.h>
const char *hz_config_string(void) { return "engine=probe"; }
"""
# An unusable malloc: every program that really loads it fails.
BROKEN = PROBE + "void *malloc(size_t n) { (void)n; return NULL; }\n"


def compile_library(folder: pathlib.Path, name: str, text: str) -> pathlib.Path:
    source = folder / f"{name}.c"
    source.write_text(text)
    library = folder / f"lib{name}.so"
    subprocess.run(["gcc", "-fno-builtin", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """A library that claims to be ours but leaves malloc to glibc."""
    return compile_library(tmp_path_factory.mktemp("demo"), "probe", PROBE)


def run_tool(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True)


def run(answer, seconds=1.0, kib=1024):
    return demo.Run(seconds, kib, answer)


def test_different_answers_are_an_error():
    demo.check_answers("g++", {"glibc": [run("a"), run("a")], "hakozuna": [run("a")]})
    with pytest.raises(demo.DemoError, match="g\\+\\+ produced different results"):
        demo.check_answers("g++", {"glibc": [run("a")], "hakozuna": [run("a"), run("b")]})


def test_table_shows_medians_and_ratios():
    runs = {
        "glibc": [run("a", 2.0, 2048), run("a", 9.0, 2048), run("a", 1.0, 2048)],
        "hakozuna": [run("a", 1.0, 3072), run("a", 1.0, 3072), run("a", 5.0, 3072)],
    }
    line = demo.table({"python": runs}).splitlines()[-1]
    assert line.split()[2:] == ["2.00", "1.00", "2.0", "3.0", "0.50", "1.50"]


def test_allocators_take_turns(monkeypatch):
    seen = []

    def fake(preload, folder):
        seen.append(preload)
        return run("a")

    monkeypatch.setitem(demo.PROGRAMS, "python", ("python3", fake))
    results = demo.measure(["python"], {"glibc": "G", "hakozuna": "H"}, 3)
    assert seen == ["G", "H", "H", "G", "G", "H"]
    assert [len(runs) for runs in results["python"].values()] == [3, 3]


def test_wrong_answer_stops_the_measurement(monkeypatch):
    monkeypatch.setitem(demo.PROGRAMS, "python", ("python3", lambda preload, folder: run(preload)))
    with pytest.raises(demo.DemoError, match="different results"):
        demo.measure(["python"], {"glibc": "G", "hakozuna": "H"}, 1)


class FakeClient:
    """Redis in a dictionary; `broken` names the command that does nothing."""

    def __init__(self, broken=b""):
        self.broken, self.values = broken, {}

    def ask(self, command, key, value=b""):
        if command == self.broken:
            return b"nothing done"
        if command == b"GET":
            return self.values.get(key, b"")
        if command == b"DEL":
            self.values.pop(key, None)
        else:
            self.values[key] = (self.values.get(key, b"") if command == b"APPEND" else b"") + value
        return b"OK"


def test_redis_that_gives_back_what_was_stored():
    assert demo.check_redis(FakeClient()) == demo.check_redis(FakeClient())


@pytest.mark.parametrize("command", [b"SET", b"GET", b"APPEND", b"DEL"])
def test_redis_that_loses_something(command):
    with pytest.raises(demo.DemoError, match="different values from those stored"):
        demo.check_redis(FakeClient(command))


def test_library_that_is_not_loaded(probe, tmp_path):
    with pytest.raises(demo.DemoError, match="cannot be preloaded"):
        demo.run_python(str(tmp_path / "gone.so"), tmp_path)


def test_failing_program(tmp_path):
    broken = compile_library(tmp_path, "broken", BROKEN)
    with pytest.raises(demo.DemoError, match="python3 ended with"):
        demo.run_python(str(broken), tmp_path)


def test_one_real_program(probe):
    done = run_tool("--lib", probe, "--rounds", "1", "--program", "python")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "engine=probe"
    assert "round 1 of 1: results correct" in done.stdout


def test_bad_arguments(probe, tmp_path):
    for rounds in ("0", "100", "x"):
        done = run_tool("--lib", probe, "--rounds", rounds)
        assert done.returncode == 2 and f"'{rounds}'; allowed: 1 to 99" in done.stderr
    done = run_tool("--lib", probe, "--program", "emacs")
    assert done.returncode == 2 and "'emacs'" in done.stderr
    text = tmp_path / "text.so"
    text.write_text("no library")
    for path in (text, tmp_path / "gone.so"):
        done = run_tool("--lib", path)
        assert done.returncode == 1 and f"'{path}' is not a hakozuna library" in done.stderr
