"""docs/failure.md lists each system call of the library with its arguments: what strace sees has to be there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, compile_c
from tracing import Call, arguments_of, calls_in, trace

pytestmark = pytest.mark.usefixtures("ours_only")

PAGE = ROOT / "docs/failure.md"
# Names of calls; alternatives for their arguments; what for; whether they are plain; what a refusal does.
ROW = re.compile(r"^\| (?P<names>`\w+`(?:, `\w+`)*) \| (?P<arguments>[^|]*)\| [^|]+ \| (?P<plain>yes |)\| [^|]+ \|$", re.MULTILINE)
# Blocks of all sizes, in threads and in a fork's child, which outgrows its parent's blocks.
PYTHON = """
import os, threading
def work():
    held = [bytes(1000 * i) for i in range(1, 2000)]
    grown = bytearray(5 << 20)
    for _ in range(40): grown.extend(bytes(3 << 20))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if os.fork() == 0:
    work()
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


class Row(NamedTuple):
    name: str
    arguments: tuple[frozenset[str], ...]  # each as the set of its flags


def row_of(name: str, arguments: str) -> Row:
    words = [word for word in arguments.split(", ") if word]
    return Row(name, tuple(frozenset(word.replace("+", "|").split("|")) for word in words))


def rows_of(page: str) -> dict[Row, bool]:
    """Each row; whether a confined process makes the call, too."""
    return {
        row_of(name, arguments): found["plain"] == "yes "
        for found in ROW.finditer(page)
        for name in re.findall(r"`(\w+)`", found["names"])
        for arguments in re.findall(r"`([^`]+)`", found["arguments"]) or [""]
    }


def unlisted(calls: set[Call], page: str) -> list[str]:
    """The calls that the page does not have, or not for a confined process."""
    rows = rows_of(page)
    wrong = []
    for call in calls:
        plain = rows.get(row_of(call.name, call.arguments))
        if plain is None or (call.is_confined and not plain):
            wrong.append(f"{call}{' of a confined process' if call.is_confined else ''}")
    return sorted(wrong)


def names(calls: set[Call]) -> set[str]:
    return {str(call) for call in calls}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return {
        "sizes": compile_c("interpose.c", folder / "sizes", f"-I{ROOT / 'src'}"),
        "sandbox": compile_c("sandbox.c", folder / "sandbox"),
    }


def test_a_program_with_threads(library: Path, programs: dict[str, Path], tmp_path: Path) -> None:
    calls = trace(library, tmp_path, programs["sizes"])
    assert unlisted(calls, PAGE.read_text()) == []
    assert names(calls) >= {
        "mmap(PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS)", "mprotect(PROT_READ|PROT_WRITE)", "madvise(MADV_DONTNEED)", "munmap()",
        "prlimit64(RLIMIT_AS, NULL)",
    }  # fmt: skip


def test_python_with_threads_and_a_fork(library: Path, tmp_path: Path) -> None:
    calls = trace(library, tmp_path, "/usr/bin/python3", "-c", PYTHON, variables={"PYTHONMALLOC": "malloc"})
    assert unlisted(calls, PAGE.read_text()) == []
    assert names(calls) >= {"mremap(0)", "madvise(MADV_DONTNEED)"}


@pytest.mark.parametrize(
    "variables",
    [
        {"HAKOZUNA_STATS": "exit,every=1", "HAKOZUNA_PROFILE": "exit,file=profile"},
        {"HAKOZUNA_STATS": "exit,file=stats", "HAKOZUNA_SAMPLE_GUARD": "50"},
        {"HAKOZUNA_PROFILE": "exit,unwind=frame-pointer,file=profile"},
        {"HAKOZUNA_STATS": "exit,listen"},
    ],
    ids=["profile", "guard", "frames", "listen"],
)
def test_reports_and_guards(
    library: Path, programs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = trace(library, tmp_path, programs["sizes"], variables=variables)
    assert unlisted(calls, PAGE.read_text()) == []
    assert {"write", "openat"} <= {call.name for call in calls}


@pytest.mark.parametrize(("when", "work"), [("late", "one"), ("threads", "stay")])
def test_a_confined_process_makes_plain_calls_only(
    library: Path, programs: dict[str, Path], tmp_path: Path, when: str, work: str
) -> None:
    variables = {"HAKOZUNA_STATS": "listen"} if work == "one" else {}
    calls = trace(library, tmp_path, programs["sandbox"], when, "prctl:EPERM", work, "getrusage", variables=variables)
    assert unlisted(calls, PAGE.read_text()) == []
    assert {"mmap", "mprotect", "madvise"} <= {call.name for call in calls if call.is_confined}


@pytest.mark.parametrize("error", ["EPERM", "EINVAL"])
def test_what_is_tried_after_a_refusal(library: Path, programs: dict[str, Path], tmp_path: Path, error: str) -> None:
    """Of a filter of which nobody tells: other calls with other arguments follow."""
    variables = {"HAKOZUNA_BACKGROUND": "0"}
    command = (programs["sandbox"], "early", f"raw:{error}", "one", "mprotect")
    calls = trace(library, tmp_path, *command, variables=variables, is_told=False)
    assert unlisted(calls, PAGE.read_text()) == []
    assert "mmap(PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS)" in names(calls)


def test_calls_that_the_page_lacks_are_noticed(library: Path, programs: dict[str, Path], tmp_path: Path) -> None:
    calls = trace(library, tmp_path, programs["sandbox"], "late", "prctl:EPERM", "one", "getrusage")
    page = PAGE.read_text()
    row = next(row for row in ROW.finditer(page) if "MADV_DONTNEED" in row["arguments"])[0]
    assert unlisted(calls, page.replace(row, "")) == ["madvise(MADV_DONTNEED)", "madvise(MADV_DONTNEED) of a confined process"]
    assert unlisted(calls, page.replace(row, row.replace("| yes |", "| |"))) == ["madvise(MADV_DONTNEED) of a confined process"]


def test_only_calls_from_the_librarys_file_count() -> None:
    lines = [
        '7 [00007f0000000001] openat(AT_FDCWD, "/lib/ours.so", O_RDONLY|O_CLOEXEC) = 3',
        "7 [00007f0000000002] mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_DENYWRITE, 3, 0) = 0x7f1000000000",
        "7 [00007f1000000010] madvise(0x5000, 4096, MADV_FREE) = 0",
        "7 [00007f1000001010] madvise(0x5000, 4096, MADV_COLD) = 0",
        "8 [00007f1000000020] getrandom( <unfinished ...>",
        "7 [00007f1000000030] munmap(0x5000, 4096) = 0",
        '8 [00007f1000000020] <... getrandom resumed>"a, b)", 8, GRND_NONBLOCK) = 8',
        '7 [00007f1000000040] execve("/bin/true", ["true"], 0x7ffc /* 9 vars */) = 0',
        "7 [00007f1000000010] madvise(0x5000, 4096, MADV_COLD) = 0",
    ]
    found = names(calls_in("\n".join(lines), "/lib/ours.so"))
    assert found == {"madvise(MADV_FREE)", "munmap()", "getrandom(GRND_NONBLOCK)"}
    assert arguments_of(r'1, "a, \")", {b=[2, 3]}, C|D) = 0')[2:] == ["{b=[2, 3]}", "C|D"]
