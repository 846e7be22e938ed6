"""The keeper, the library's own thread, seen from outside: when there is one, when it sleeps, and how it ends.

programs/actor.c does what a test tells it, line by line, and its threads sleep between the lines. What the keeper does
takes time, so tests wait until something in /proc is so, with a deadline.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Preload, clean_environment, compile_c

pytestmark = pytest.mark.usefixtures("ours_only")

NAME = "hakozuna"
DEADLINE_SECONDS = 20
FUTEX = {"x86_64": 202}.get(platform.machine(), 98)  # the number of the system call; 98 on arm64 and riscv64
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# glibc lets nobody block its own signals 32 and 33; the kernel lets nobody block SIGKILL and SIGSTOP.
NEVER_BLOCKED = {9, 19, 32, 33}


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"not so after {DEADLINE_SECONDS} s: {what}"
        time.sleep(0.02)


def tasks(pid: int) -> dict[int, str]:
    """The names of a process's threads."""
    found = {}
    for path in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
            found[int(path.name)] = (path / "comm").read_text().strip()
    return found


def keepers(pid: int) -> list[int]:
    return [task for task, name in tasks(pid).items() if name == NAME]


def status(pid: int, task: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def switches(pid: int, task: int) -> int:
    """How often the thread was switched away. When this stays, the thread was not woken."""
    seen = status(pid, task)
    return int(seen["voluntary_ctxt_switches"]) + int(seen["nonvoluntary_ctxt_switches"])


def resident_kb(pid: int) -> int:
    return int(status(pid, pid)["VmRSS"].removesuffix("kB"))


def wait_for_keeper(pid: int) -> int:
    """A keeper names itself when it begins to run."""
    eventually(lambda: len(keepers(pid)) == 1, f"one thread is named {NAME}: {tasks(pid)}")
    return keepers(pid)[0]


def sleeps_without_a_timer(pid: int, keeper: int) -> bool:
    """The kernel says in which call a thread waits, and with which arguments. The fourth argument of futex is its timeout."""
    call = Path(f"/proc/{pid}/task/{keeper}/syscall").read_text().split()
    return call[0] == str(FUTEX) and int(call[4], 16) == 0


def wait_until_quiet(pid: int, keeper: int) -> int:
    """Waits until the keeper sleeps without a timer; returns its switches."""
    eventually(lambda: sleeps_without_a_timer(pid, keeper), "the keeper sleeps")
    return switches(pid, keeper)


class Actor:
    """A running programs/actor.c."""

    def __init__(self, program: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self._watchdog = threading.Timer(TIMEOUT_SECONDS, self.process.kill)
        self._watchdog.start()
        self._expect("ready")

    def _expect(self, word: str) -> int:
        answer = self.process.stdout.readline().split()
        assert answer[:1] == [word], f"actor answered {answer}, not {word}; {self._last_words()}"
        return int(answer[1]) if len(answer) > 1 else 0

    def _last_words(self) -> str:
        self.process.kill()
        return f"it ended with {self.process.wait()} and said: {self.process.stderr.read()}"

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> int:
        """Has it do the line; the number in the answer."""
        self.tell(line)
        return self._expect(line.split()[0])

    def forked_end(self) -> int:
        """The answer of the parent when the child of `fork` has ended: its exit code."""
        return self._expect("fork")

    def ended(self) -> int:
        """Waits for its end; the exit code."""
        try:
            return self.process.wait(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the process does not end; its threads are {tasks(self.pid)}")

    def close(self) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("actor.c", tmp_path_factory.mktemp("actor") / "actor")


@pytest.fixture
def begin(preload: Preload, program: Path) -> Iterator[Callable[..., Actor]]:
    """Starts actors; with preloaded=False under glibc's malloc."""
    with contextlib.ExitStack() as running:

        def begin_one(preloaded: bool = True, **variables: str) -> Actor:
            actor = Actor(program, preload.environment(**variables) if preloaded else clean_environment())
            running.callback(actor.close)
            assert (str(preload.library) in Path(f"/proc/{actor.pid}/maps").read_text()) == preloaded
            return actor

        yield begin_one


# ---- when there is a keeper ------------------------------------------------------------------------------


def test_a_process_without_threads_has_none(begin: Callable[..., Actor]) -> None:
    actor = begin()
    assert actor.ask("forks 1") == 1  # it has allocated, and its child has started a thread
    assert list(tasks(actor.pid)) == [actor.pid]


def test_unshare_works_in_a_process_without_threads(begin: Callable[..., Actor]) -> None:
    assert begin().ask("unshare") == begin(preloaded=False).ask("unshare")


def test_unshare_works_after_threads_without_a_keeper(begin: Callable[..., Actor]) -> None:
    answers = []
    for preloaded in (False, True):
        actor = begin(preloaded, HAKOZUNA_BACKGROUND="0")
        actor.ask("start 3")
        actor.ask("stop")
        eventually(lambda: list(tasks(actor.pid)) == [actor.pid], "the joined threads are gone")  # noqa: B023
        answers.append(actor.ask("unshare"))
    assert answers[0] == answers[1]


def test_a_process_with_threads_has_one(begin: Callable[..., Actor]) -> None:
    actor = begin()
    actor.ask("start 1")
    keeper = wait_for_keeper(actor.pid)
    assert len(tasks(actor.pid)) == 3
    actor.ask("stop")
    actor.ask("start 8")
    eventually(lambda: len(tasks(actor.pid)) == 10, "the main thread, 8 workers, the keeper")
    assert keepers(actor.pid) == [keeper]


def test_it_blocks_all_signals(begin: Callable[..., Actor]) -> None:
    """So no handler of the program runs in it. glibc's own signals it gets, or setuid would wait for it for ever."""
    actor = begin()
    actor.ask("start 2")
    mask = int(status(actor.pid, wait_for_keeper(actor.pid))["SigBlk"], 16)
    assert {signal for signal in range(1, 65) if not mask >> (signal - 1) & 1} == NEVER_BLOCKED
    assert actor.ask("setuid") == 0
    workers = [task for task, name in tasks(actor.pid).items() if name != NAME]
    assert all(int(status(actor.pid, task)["SigBlk"], 16) == 0 for task in workers), "the program's threads block none"


def test_the_environment_forbids_it(begin: Callable[..., Actor]) -> None:
    actor = begin(HAKOZUNA_BACKGROUND="0")
    actor.ask("start 2")
    assert len(tasks(actor.pid)) == 3
    actor.ask("burst 1000")
    assert len(tasks(actor.pid)) == 3


def test_an_unknown_value_is_named_once_and_allows_it(begin: Callable[..., Actor]) -> None:
    actor = begin(HAKOZUNA_BACKGROUND="no")
    actor.ask("start 2")
    wait_for_keeper(actor.pid)
    actor.tell("return 0")
    assert actor.ended() == 0
    assert actor.process.stderr.read() == "hakozuna: HAKOZUNA_BACKGROUND=no: allowed are 0 and 1\n"


def test_a_sandboxed_process_has_none(begin: Callable[..., Actor]) -> None:
    """Also not one whose filter allows everything: the library cannot see what a filter does."""
    actor = begin()
    assert actor.ask("filter") == 0
    actor.ask("start 2")
    actor.ask("burst 1000")
    assert len(tasks(actor.pid)) == 3


def test_a_forks_child_has_none_until_it_starts_a_thread(begin: Callable[..., Actor]) -> None:
    actor = begin()
    actor.ask("start 3")
    wait_for_keeper(actor.pid)
    child = actor.ask("fork")
    assert list(tasks(child)) == [child]
    assert actor.ask("forks 10") == 10
    assert list(tasks(child)) == [child]
    actor.ask("start 2")
    wait_for_keeper(child)
    assert len(tasks(child)) == 4
    actor.ask("burst 1000")
    actor.tell("exit 3")
    assert actor.forked_end() == 3
    assert len(tasks(actor.pid)) == 5


# ---- when it sleeps --------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_an_idle_process_is_not_woken(begin: Callable[..., Actor], seconds: int) -> None:
    actor = begin()
    actor.ask("start 4")
    actor.ask("burst 8000")
    keeper = wait_for_keeper(actor.pid)
    quiet = wait_until_quiet(actor.pid, keeper)
    time.sleep(seconds)
    assert switches(actor.pid, keeper) == quiet


@pytest.mark.deep
def test_it_wakes_when_threads_work(begin: Callable[..., Actor]) -> None:
    """After the second burst memory goes back as after the first, though the keeper slept in between."""
    actor = begin()
    actor.ask("start 4")
    actor.ask("burst 16000")
    keeper = wait_for_keeper(actor.pid)
    quiet = wait_until_quiet(actor.pid, keeper)
    resident = resident_kb(actor.pid)
    actor.ask("burst 16000")
    eventually(lambda: switches(actor.pid, keeper) > quiet, "the keeper works")
    wait_until_quiet(actor.pid, keeper)
    assert resident_kb(actor.pid) < resident + 1500


# ---- how it ends -----------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("work", ["burst", "churn"])
def test_it_ends_with_the_first_thread(begin: Callable[..., Actor], work: str) -> None:
    """The process ends when the program's last thread has ended, by itself and with 0, as POSIX wants it."""
    actor = begin()
    actor.ask("start 3")
    actor.ask(f"{work} 2000")
    keeper = wait_for_keeper(actor.pid)
    if work == "burst":
        wait_until_quiet(actor.pid, keeper)
    actor.ask("leave")
    eventually(lambda: status(actor.pid, actor.pid)["State"].startswith("Z"), "the first thread has ended")
    eventually(lambda: keepers(actor.pid) == [], "the keeper has ended")
    actor.ask("burst 1000")  # the others go on
    actor.ask("stop")
    actor.ask("start 2")
    eventually(lambda: len(tasks(actor.pid)) == 4, "the first thread, its heir and two workers, and no new keeper")
    actor.ask("stop")
    assert actor.process.poll() is None
    actor.tell("return 0")  # the last thread
    assert actor.ended() == 0


@pytest.mark.parametrize("way", ["return", "exit", "quick_exit", "_exit"])
def test_the_process_ends_while_it_works(begin: Callable[..., Actor], way: str) -> None:
    for code in range(5):
        actor = begin()
        actor.ask("start 3")
        actor.ask("churn 500")
        keeper = wait_for_keeper(actor.pid)
        first = switches(actor.pid, keeper)
        eventually(lambda: switches(actor.pid, keeper) > first + code, "the keeper works")  # noqa: B023
        actor.tell(f"{way} {code}")
        assert actor.ended() == code
        assert actor.process.stderr.read() == ""


def test_the_process_executes_another_program_while_it_works(begin: Callable[..., Actor]) -> None:
    actor = begin()
    actor.ask("start 3")
    actor.ask("churn 500")
    wait_for_keeper(actor.pid)
    actor.tell("exec")
    assert actor.ended() == 0


# ---- beside it -------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_forks_under_load(begin: Callable[..., Actor]) -> None:
    actor = begin()
    actor.ask("start 3")
    actor.ask("churn 500")
    wait_for_keeper(actor.pid)
    assert actor.ask("forks 200") == 200
    actor.ask("rest")
    actor.ask("burst 1000")
    assert len(keepers(actor.pid)) == 1


def test_modules_are_loaded_and_closed_while_it_works(begin: Callable[..., Actor], tmp_path: Path) -> None:
    modules = [compile_c("module.c", tmp_path / "module0.so", "-shared", "-fPIC")]
    for number in range(1, 8):
        modules.append(Path(shutil.copy(modules[0], tmp_path / f"module{number}.so")))
    actor = begin()
    actor.ask("start 3")
    keeper = wait_for_keeper(actor.pid)
    first = switches(actor.pid, keeper)
    end = time.monotonic() + DEADLINE_SECONDS
    while switches(actor.pid, keeper) < first + 20 and time.monotonic() < end:
        for module in modules:
            assert actor.ask(f"load {module}") == 0
        actor.ask("burst 100")
    assert time.monotonic() < end, "the keeper works"
    actor.tell("return 0")
    assert actor.ended() == 0


COLLAPSING = """
import ctypes, json, os, sys, threading, time
library = ctypes.CDLL(None)
def collapsed():
    reader, writer = os.pipe()
    library.hz_stats_print(writer, 1)
    os.close(writer)
    with os.fdopen(reader) as report:
        return json.load(report)["os"]["huge_collapsed"]
thread = threading.Thread(target=int)
thread.start()
thread.join()
table = [(number, str(number)) for number in range(600_000)]
end = time.monotonic() + float(sys.argv[1])
while collapsed() == 0 and time.monotonic() < end:
    time.sleep(0.05)
print(collapsed())
"""


@pytest.mark.skipif(
    tuple(int(part) for part in platform.release().split(".")[:2]) < (6, 1) or not THP.exists() or "[never]" in THP.read_text(),
    reason="no MADV_COLLAPSE before Linux 6.1, or no huge pages",
)
def test_it_makes_the_first_small_pages_of_a_large_heap_huge(preload: Preload) -> None:
    """The library asks for no unit below 32 MiB, so the first units have small pages, however fast the kernel is."""

    def collapsed(seconds: float, **variables: str) -> int:
        command = ["/usr/bin/python3", "-c", COLLAPSING, str(seconds)]
        return int(preload.run(*command, variables={"PYTHONMALLOC": "malloc", **variables}).stdout)

    assert collapsed(DEADLINE_SECONDS) > 0
    assert collapsed(0.5, HAKOZUNA_BACKGROUND="0") == 0
