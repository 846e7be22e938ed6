"""command/leaks.py: what a program has lost at its end, what is suppressed, and the exit status."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import leaks
import pytest
import symbols

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
TIMEOUT_SECONDS = 60
needs_tool = pytest.mark.skipif(symbols.find_tool() is None, reason="there is neither llvm-symbolizer nor addr2line")

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void lost_here(void) { memset(malloc(100), 1, 100); }
__attribute__((noinline)) static void lost_large(size_t size) { memset(malloc(size), 1, 100); }
__attribute__((noinline)) static void lost_there(void) {
    void **outer = malloc(200);
    outer[0] = malloc(50);
    outer[1] = NULL;
    __asm__ volatile("" : : "r"(outer) : "memory");
}
__attribute__((noinline)) static void scrub(void) {
    char room[8192];
    memset(room, 0, sizeof(room));
    __asm__ volatile("" : : "r"(room) : "memory");
}
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "here") == 0)
            lost_here();
        if (strcmp(argv[i], "there") == 0)
            lost_there();
        if (strcmp(argv[i], "large") == 0)
            for (int j = 0; j < 200; j++)
                lost_large(100000 + (size_t)j % 2 * 3000000);
        if (strcmp(argv[i], "_exit") == 0)
            _exit(0);
        if (strcmp(argv[i], "fail") == 0)
            return 3;
    }
    scrub();
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("lossy")
    (folder / "lossy.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-g", "-fno-builtin", str(folder / "lossy.c"), "-o", str(folder / "lossy")], check=True)
    return folder / "lossy"


def run(*words: object, **options: object) -> subprocess.CompletedProcess:
    order = [sys.executable, ROOT / "command" / "leaks.py", "--library", LIBRARY, *words]
    return subprocess.run(list(map(str, order)), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS, **options)


@needs_tool
def test_leaks_are_shown_with_their_calls(program: pathlib.Path) -> None:
    done = run(program, "here", "there")
    report = leaks.report_of(done.stderr)
    assert done.returncode == leaks.FOUND
    assert [(group.kind, group.blocks) for group in report.groups] == [("direct", 1), ("direct", 1), ("indirect", 1)], done.stderr
    assert "lost_there" in report.groups[0].lines[1] and "lost_here" in report.groups[1].lines[1]
    assert "main" in report.groups[2].lines[2]


@needs_tool
def test_large_blocks_have_their_calls_too(program: pathlib.Path) -> None:
    """They begin at different distances behind the place that the search finds."""
    done = run(program, "large")
    assert done.returncode == leaks.FOUND and "not sampled" not in done.stderr, done.stderr
    groups = leaks.report_of(done.stderr).groups
    assert sum(group.blocks for group in groups) == 200 and all("lost_large" in "".join(group.lines[1:2]) for group in groups)


@needs_tool
def test_leaks_as_json(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "supp").write_text("leak:lost_here")
    done = run("--json", tmp_path / "found.json", "-s", tmp_path / "supp", program, "here", "there")
    assert done.returncode == leaks.FOUND
    (process,) = json.loads((tmp_path / "found.json").read_text())["processes"]
    assert process["is_checked"] and [(group["kind"], group["blocks"]) for group in process["groups"]] == [("direct", 1), ("direct", 1), ("indirect", 1)]
    assert [group["suppressed_by"] for group in process["groups"]] == [None, "lost_here", None]
    assert "lost_there" in process["groups"][0]["calls"][0]


def test_a_file_for_json_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    done = run("--json", tmp_path / "none/found.json", "sh", "-c", f"touch {tmp_path}/ran")
    assert (done.returncode, done.stderr) == (leaks.REFUSED, f"hakozuna leaks: cannot write '{tmp_path}/none/found.json': No such file or directory\n")
    assert not (tmp_path / "ran").exists(), "it is named before the program runs"


def test_nothing_is_said_of_a_program_without_leaks(program: pathlib.Path) -> None:
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_programs_own_status_goes_first(program: pathlib.Path) -> None:
    assert run(program, "fail").returncode == 3
    done = run(program, "here", "fail")
    assert (done.returncode, "direct" in done.stderr) == (3, True)
    assert run("sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_by_size(program: pathlib.Path) -> None:
    done = run("--by-size", program, "here")
    assert done.returncode == leaks.FOUND and "not sampled" in done.stderr


@needs_tool
@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("leak:lost_here", 1),
        ("# a comment\n\nleak:lost_there", 1),
        ("leak:lost_*", 0),
        ("leak:^lost_here$\nleak:^lost_th", 0),
        ("leak:lossy.c", 0),
        ("leak:lossy$", 0),
        ("leak:lost$", 2),
        ("leak:^ost", 2),
        ("leak:libmissing", 2),
    ],
)
def test_suppressions(program: pathlib.Path, tmp_path: pathlib.Path, lines: str, left: int) -> None:
    (tmp_path / "supp").write_text(lines)
    done = run("-s", tmp_path / "supp", program, "here", "there")
    assert done.stderr.count("  direct: ") == left, done.stderr
    assert (done.returncode, "suppressed: " in done.stderr) == (leaks.FOUND if left else 0, left < 2)


@pytest.mark.parametrize("line", ["race:x", "leak", "leak:", "leak:*", "lost_here"])
def test_a_bad_suppression_is_named(program: pathlib.Path, tmp_path: pathlib.Path, line: str) -> None:
    (tmp_path / "supp").write_text("leak:good\n" + line)
    done = run("-s", tmp_path / "supp", program)
    assert done.returncode == leaks.REFUSED
    assert f"line 2: '{line}': allowed are leak:NAME" in done.stderr


def test_what_cannot_be_done_is_said(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run(program, "_exit")
    assert (done.returncode, "not checked" in done.stderr) == (leaks.FOUND, True)
    assert run("-s", tmp_path / "missing", program).returncode == leaks.REFUSED
    done = run(tmp_path / "missing")
    assert (done.returncode, str(tmp_path / "missing") in done.stderr) == (leaks.NOT_RUN, True)
    assert run().returncode == leaks.REFUSED


def test_folders_with_signs_that_the_library_reads(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for name in ("a,b", "%p%x"):
        (tmp_path / name).mkdir()
        done = run("--by-size", program, "here", env={**os.environ, "TMPDIR": str(tmp_path / name)})
        assert done.returncode == leaks.FOUND and "direct" in done.stderr, done
