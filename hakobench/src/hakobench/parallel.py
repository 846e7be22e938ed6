"""Runs of simulations beside each other, whose counts do not depend on other load. The commands that count call this."""

import concurrent.futures
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

WAIT_SECONDS = 0.5
RUNS_MAX = 2

Cell = TypeVar("Cell")
Result = TypeVar("Result")
Watch = Callable[[int], None]


class Children:
    """The running process groups, to end them on Ctrl-C."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._over = False

    @contextlib.contextmanager
    def one(self) -> Iterator[list[int]]:
        started: list[int] = []
        try:
            yield started
        finally:
            self._pids.difference_update(started)

    def watch(self, started: list[int], pid: int) -> None:
        started.append(pid)
        self._pids.add(pid)
        if self._over:
            self._kill(pid)

    def end(self) -> None:
        """Ends all groups, and those that start later at their start."""
        self._over = True
        for pid in list(self._pids):
            self._kill(pid)

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


def run(
    cells: Sequence[Cell], work: Callable[[Cell, Watch], Result], done: Callable[[Cell, Result], None], what: str, console: Console
) -> None:
    """Calls `work` for every cell, and `done` with each result as it comes. `work` tells `watch` the pids of the process
    groups that it starts. An interruption ends them, keeps the results so far, and is raised again."""
    children = Children()

    def one(cell: Cell) -> Result:
        with children.one() as started:
            return work(cell, lambda pid: children.watch(started, pid))

    workers = min(RUNS_MAX, len(os.sched_getaffinity(0)))
    with progress_bar(console) as progress, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            task = progress.add_task(what, total=len(cells))
            futures = {pool.submit(one, cell): cell for cell in cells}
            running = set(futures)
            while running:  # with a limit: a signal just before an endless wait would go unnoticed until the wait ends
                ended, running = concurrent.futures.wait(running, WAIT_SECONDS, concurrent.futures.FIRST_COMPLETED)
                for future in sorted(ended, key=lambda each: each.exception() is not None):  # keeps the results so far
                    done(futures[future], future.result())
                    progress.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise
