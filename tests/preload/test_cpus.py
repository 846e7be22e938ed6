"""The number of shards that threads are spread over follows the CPUs that the process can use while it runs."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Preload, compile_c
from groups import own_group

DEADLINE_SECONDS = 20
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def one_shard_a_cpu(preload: Preload, ours_only: None) -> None:
    del ours_only
    config = preload.run("/bin/true", variables={"HAKOZUNA_SHOW_CONFIG": "2"}).stderr
    if " HZ_SHARDS_PER_CPU=1 " not in config:
        pytest.skip("this lane does not spread threads by CPUs")
    if len(CPUS) < 2:
        pytest.skip("there is only one CPU")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("shards.c", tmp_path_factory.mktemp("shards") / "shards")


class Shards:
    """A running programs/shards.c."""

    def __init__(self, program: Path, environment: dict[str, str], prepare: Callable[[], object]) -> None:
        self.process = subprocess.Popen(
            [program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,  # noqa: PLW1509: no threads in this process
        )
        self.pid = self.process.pid
        self._watchdog = threading.Timer(TIMEOUT_SECONDS, self.process.kill)
        self._watchdog.start()
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, line: str) -> list[int]:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer[:1] == line.split()[:1], answer
        return [int(word) for word in answer[1:]]

    def used(self, threads: int) -> set[int]:
        """The shards that so many threads get which start now, and end."""
        shards = self.ask(f"start {threads}")
        self.ask("stop")
        return set(shards)

    def eventually_uses(self, number: int, threads: int = 8) -> None:
        """The library looks once a second."""
        end = time.monotonic() + DEADLINE_SECONDS
        while len(used := self.used(threads)) != number:
            assert time.monotonic() < end, f"{threads} threads use the shards {used}, not {number}"
            time.sleep(0.1)

    def allow(self, cpus: list[int]) -> None:
        """As `taskset -a -p`."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)

    def resident_mb(self) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def close(self) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def begin(preload: Preload, program: Path) -> Iterator[Callable[..., Shards]]:
    with contextlib.ExitStack() as running:

        def begin_one(prepare: Callable[[], object] = lambda: None, **variables: str) -> Shards:
            shards = Shards(program, preload.environment(**variables), prepare)
            running.callback(shards.close)
            return shards

        yield begin_one


def on(cpus: list[int]) -> Callable[[], None]:
    return lambda: os.sched_setaffinity(0, cpus)


def test_there_are_as_many_as_cpus(begin: Callable[..., Shards]) -> None:
    assert len(begin().used(len(CPUS))) == len(CPUS)


@pytest.mark.parametrize("background", ["0", "1"])
def test_a_process_that_starts_on_one_cpu(begin: Callable[..., Shards], background: str) -> None:
    shards = begin(on(CPUS[:1]), HAKOZUNA_BACKGROUND=background)
    assert shards.used(8) == {0}
    shards.allow(CPUS)
    shards.eventually_uses(len(CPUS))


@pytest.mark.parametrize("idle_seconds", [0, 3])
def test_a_process_that_is_confined_to_one_cpu(begin: Callable[..., Shards], idle_seconds: int) -> None:
    shards = begin()
    assert len(shards.used(8)) == len(CPUS)
    time.sleep(idle_seconds)  # the background thread waits longer now, and starting threads look more often than it
    shards.allow(CPUS[:1])
    shards.eventually_uses(1)
    shards.allow(CPUS)
    shards.eventually_uses(len(CPUS))


@contextlib.contextmanager
def quota_group(cpus: int) -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A control group of our own with a CPU quota, and a function that changes it."""
    period = 100000
    with own_group("cpu", "cpu.cfs_quota_us") as group:

        def change(number: int) -> None:
            if (group / "cpu.cfs_quota_us").exists():
                (group / "cpu.cfs_quota_us").write_text(str(number * period))
            elif (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{number * period} {period}")
            else:
                pytest.skip("the cpu controller is not available")

        change(cpus)
        yield group, change


def test_a_quota_of_the_control_group(program: Path, preload: Preload) -> None:
    with quota_group(1) as (group, change):

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        shards = Shards(program, preload.environment(), enter)
        try:
            assert shards.used(8) == {0}
            change(2)
            shards.eventually_uses(2)
        finally:
            shards.close()


def test_what_a_shard_without_threads_holds_is_used(begin: Callable[..., Shards]) -> None:
    """The second shard holds sparse pages, and gets no thread any more: threads of the first one use the room."""
    shards = begin()
    assert len(shards.used(8)) == len(CPUS)
    shards.ask("start 1")  # so that the next thread gets another shard
    before = shards.resident_mb()
    shards.ask("hold 64")
    shards.ask("stop")
    shards.allow(CPUS[:1])
    shards.eventually_uses(1)
    shards.ask("take 50")  # 56 MB are free in those pages
    assert shards.resident_mb() - before < 64 + 16
