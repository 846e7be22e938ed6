"""Programs that give up namespaces and rights: the library's threads keep none of them.

The kernel changes these for the calling thread only. In a program with one thread that thread is the whole program, and one of the
library that kept them would be a way back (/proc/self/task/TID/root). programs/drops.c makes the calls.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, TIMEOUT_SECONDS, clean_environment, compile_c

pytestmark = [
    pytest.mark.usefixtures("ours_only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up rights"),
]

DEADLINE_SECONDS = 20
CALLS = ["unshare", "unshare-call", "setns", "capset", "capset-call", "bounding", "bounding-call", "securebits", "ids-call", "landlock-call"]
INVISIBLE = {"securebits", "landlock-call"}  # in /proc
# Which threads of the library there are: the keeper, after threads that have ended; those of HAKOZUNA_STATS.
KEEPER = ("2", {"hakozuna"})
REPORTERS = ("0", {"hakozuna-stats", "hakozuna-ask"})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("drops.c", tmp_path_factory.mktemp("drops") / "drops")


class Dropper:
    """A running programs/drops.c."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        word, _, pid = process.stdout.readline().partition(" ")
        assert word == "ready", process.stderr.read()
        self.pid = int(pid)

    def ask(self, line: str) -> int:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def ours(self) -> dict[str, int]:
        """The library's threads."""
        found = {}
        for path in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
                found[(path / "comm").read_text().strip()] = int(path.name)
        return {name: task for name, task in found.items() if name.startswith("hakozuna")}

    def wait_for(self, names: set[str]) -> dict[str, int]:
        end = time.monotonic() + DEADLINE_SECONDS
        while set(self.ours()) != names:
            assert time.monotonic() < end, f"after {DEADLINE_SECONDS} s there are {self.ours()}, not {names}"
            time.sleep(0.02)
        return self.ours()

    def tasks(self) -> set[str]:
        return set(os.listdir(f"/proc/{self.pid}/task"))

    def wait_for_tasks(self, count: int) -> set[str]:
        end = time.monotonic() + DEADLINE_SECONDS
        while len(self.tasks()) != count:
            assert time.monotonic() < end, f"after {DEADLINE_SECONDS} s there are not {count} threads, but {self.tasks()}"
            time.sleep(0.02)
        return self.tasks()

    def rights(self, task: int) -> dict[str, str]:
        folder = Path(f"/proc/{self.pid}/task/{task}")
        lines = (line.partition(":") for line in (folder / "status").read_text().splitlines())
        found = {key: value.strip() for key, _, value in lines if key.startswith(("Cap", "Uid", "Gid", "NoNewPrivs"))}
        return found | {space: os.readlink(folder / "ns" / space) for space in ("uts", "mnt", "net", "user")}


@contextlib.contextmanager
def begun(program: Path, library: Path, folder: Path, *words: str, stats: bool | str = False) -> Iterator[Dropper]:
    folder.chmod(0o700)
    asked = {"HAKOZUNA_STATS": "listen,signal=USR2,text" if stats is True else stats, "XDG_RUNTIME_DIR": str(folder)} if stats else {}
    process = subprocess.Popen(
        [program, *words], env=clean_environment() | {"LD_PRELOAD": str(library)} | asked,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watchdog = threading.Timer(TIMEOUT_SECONDS, process.kill)
    watchdog.start()
    try:
        yield Dropper(process)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize("which", [KEEPER, REPORTERS], ids=["keeper", "reporters"])
@pytest.mark.parametrize("call", CALLS)
def test_our_threads_keep_nothing(library: Path, program: Path, tmp_path: Path, call: str, which: tuple[str, set[str]]) -> None:
    threads, names = which
    with begun(program, library, tmp_path, threads, stats="hakozuna-ask" in names) as dropper:
        before = dropper.wait_for(names)
        rights_before = dropper.rights(dropper.pid)
        if (error := dropper.ask(call)) != 0:
            pytest.skip(f"the kernel refuses {call}: {os.strerror(error)}")
        after = dropper.wait_for(names)
        rights = dropper.rights(dropper.pid)
        assert call in INVISIBLE or rights != rights_before, "the call has an effect"
        assert all(dropper.rights(task) == rights for task in after.values())
        assert not set(before.values()) & set(after.values()), "they have started anew"


def test_they_answer_afterwards(library: Path, program: Path, tmp_path: Path) -> None:
    with begun(program, library, tmp_path, "0", stats=True) as dropper:
        assert dropper.ask("bounding") == 0
        dropper.wait_for(REPORTERS[1])

        answer = subprocess.run([ROOT / "build/bin/hakozuna", "stats", str(dropper.pid)], capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0 and "hakozuna" in answer.stdout, answer.stderr


CALMS = ["probe", "borrow-ids", "borrow-capability", "unshare-pid", "vfork-unshare", "vfork-bounding", "vfork-prctl"]


@pytest.mark.parametrize("words", [("2", "stay"), ("2",), ("filtered", "2", "stay"), ("forked", "2"), ("filtered", "forked", "2")], ids=" ".join)
@pytest.mark.parametrize("call", CALMS)
def test_calls_that_give_up_nothing_leave_the_keeper(library: Path, program: Path, tmp_path: Path, call: str, words: tuple[str, ...]) -> None:
    """A question to the kernel, ids for a moment, and calls of a child of vfork, since it shares the memory."""
    with begun(program, library, tmp_path, *words) as dropper:
        if "filtered" in words:  # under a filter the keeper has no name
            before = dropper.wait_for_tasks(1 + 2 * ("stay" in words) + 1)
        else:
            dropper.wait_for(KEEPER[1])
            before = dropper.tasks()
        assert dropper.ask(call) == 0
        if "filtered" in words and call.startswith("borrow"):  # nothing asks whether it was for a moment
            dropper.wait_for_tasks(len(before))
        else:
            assert dropper.tasks() == before
        if call != "unshare-pid":
            assert dropper.ask("unshare") == 0, "it goes on"


@pytest.mark.parametrize("call", ["borrow-ids", "borrow-capability", "unshare-pid"])
def test_calls_that_give_up_nothing_leave_the_reporters(library: Path, program: Path, tmp_path: Path, call: str) -> None:
    with begun(program, library, tmp_path, "0", stats=True) as dropper:
        before = dropper.wait_for(REPORTERS[1])
        assert dropper.ask(call) == 0
        assert dropper.ours() == before


def test_reports_come_in_time_whatever_is_given_up(library: Path, program: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with begun(program, library, tmp_path, "0", stats=f"every=1,json,file={reports}") as dropper:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert dropper.ask("bounding") == 0
            time.sleep(0.1)
        assert len(reports.read_text().splitlines()) >= 2


def test_no_report_is_lost_whatever_is_given_up(library: Path, program: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with begun(program, library, tmp_path, "0", stats=f"json,signal=USR2,file={reports}") as dropper:
        for count in range(1, 21):
            os.kill(dropper.pid, signal.SIGUSR2)
            assert dropper.ask("bounding") == 0
            end = time.monotonic() + DEADLINE_SECONDS
            while not reports.exists() or len(reports.read_text().splitlines()) < count:
                assert time.monotonic() < end, f"no report after signal {count}"
                time.sleep(0.002)


def test_a_filter_that_answers_by_a_signal(library: Path, program: Path, tmp_path: Path) -> None:
    """SIGSYS must not be blocked around the program's call: the kernel would end the process."""
    with begun(program, library, tmp_path, "trapping", "2") as dropper:
        dropper.wait_for_tasks(2)
        assert dropper.ask("trapped") == 0


@pytest.mark.parametrize("call", ["unshare", "capset", "bounding"])
def test_a_program_with_other_threads(library: Path, program: Path, tmp_path: Path, call: str) -> None:
    """Its other threads keep what they have, and so do ours."""
    with begun(program, library, tmp_path, "2", "stay") as dropper:
        before = dropper.wait_for(KEEPER[1])
        assert dropper.ask(call) == 0
        assert dropper.ours() == before


def test_a_fork_in_a_confined_process(library: Path, program: Path, tmp_path: Path) -> None:
    with begun(program, library, tmp_path, "0") as dropper:
        assert dropper.ask("fork-without-futex") == 0


def test_a_filter_that_ends_the_listener(library: Path, program: Path, tmp_path: Path) -> None:
    with begun(program, library, tmp_path, "killing", "0", stats=True) as dropper:
        assert "a thread, which a filter has ended" in dropper.process.stderr.readline()
