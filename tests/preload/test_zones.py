"""Memory that is freed in zones goes back by itself: after the keeper fell asleep, without a keeper, in a fork's child.

programs/zoner.c does what a test tells it, line by line, and uses nothing but zones in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Preload, compile_c
from test_keeper import Actor, eventually, resident_kb, wait_for_keeper, wait_until_quiet

pytestmark = [pytest.mark.usefixtures("ours_only"), pytest.mark.deep]  # they wait for seconds

KIB = 40 << 10
SIZES = [16, 100, 1000, 5000, 30_000, 300_000, 5_000_000, 13_000_000]
# What may stay of what was freed: bins, tables, and parts of the last pages.
STAYS = 0.06


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("zoner.c", tmp_path_factory.mktemp("zoner") / "zoner")


@pytest.fixture
def begin(preload: Preload, program: Path) -> Iterator[Callable[..., Actor]]:
    with contextlib.ExitStack() as running:

        def begin_one(**variables: str) -> Actor:
            actor = Actor(program, preload.environment(**variables))
            running.callback(actor.close)
            return actor

        yield begin_one


def begin_quiet(begin: Callable[..., Actor], count: int) -> list[Actor]:
    """Processes whose keepers sleep."""
    actors = [begin() for _ in range(count)]
    for actor in actors:
        actor.ask("start")
    for actor in actors:
        wait_until_quiet(actor.pid, wait_for_keeper(actor.pid))
    return actors


def free_and_expect(actor: Actor, pid: int, size: int, way: str) -> Callable[[], bool]:
    """Fills a zone and frees; says whether what was freed has gone back."""
    filled = actor.ask(f"fill {size} {KIB}")
    before = resident_kb(pid)
    kept = actor.ask(way)
    least = (filled - kept) * (1 - STAYS)
    return lambda: before - resident_kb(pid) >= least


@pytest.mark.parametrize("way", ["thin", "empty", "drop"])
def test_freed_memory_goes_back_after_the_keeper_slept(begin: Callable[..., Actor], way: str) -> None:
    actors = begin_quiet(begin, len(SIZES))
    goes = [free_and_expect(actor, actor.pid, size, way) for actor, size in zip(actors, SIZES, strict=True)]
    for size, has_gone in zip(SIZES, goes, strict=True):
        eventually(has_gone, f"blocks of {size} bytes have gone back")


def test_work_of_a_thread_that_only_uses_zones_wakes_the_keeper(begin: Callable[..., Actor]) -> None:
    actors = begin_quiet(begin, len(SIZES))
    for actor in actors:
        actor.ask("move")
    goes = [free_and_expect(actor, actor.pid, size, "thin") for actor, size in zip(actors, SIZES, strict=True)]
    for size, has_gone in zip(SIZES, goes, strict=True):
        eventually(has_gone, f"blocks of {size} bytes have gone back")


@pytest.mark.parametrize("churned", ["heap", "zone"])
@pytest.mark.parametrize("background", ["0", ""])
def test_work_elsewhere_does_not_keep_it(begin: Callable[..., Actor], churned: str, background: str) -> None:
    """Without a keeper, any thread that works gives the memory back. With one, the keeper does so while threads work."""
    for size in (16, 1000, 30_000, 5_000_000):
        actor = begin(HAKOZUNA_BACKGROUND=background) if background else begin()
        actor.ask("start")
        has_gone = free_and_expect(actor, actor.pid, size, "thin")
        actor.ask(f"churn {churned}")
        eventually(has_gone, f"blocks of {size} bytes have gone back")
        actor.close()


def test_a_forks_child_gives_back(begin: Callable[..., Actor]) -> None:
    """The child's keeper comes with its first thread. The child frees in a zone of its own, and in one of its parent's."""
    [actor] = begin_quiet(begin, 1)
    actor.ask(f"fill 1000 {KIB}")
    child = actor.ask("fork")
    has_gone = free_and_expect(actor, child, 1000, "thin")
    actor.ask("start")
    eventually(has_gone, "the child's blocks have gone back")
    wait_until_quiet(child, wait_for_keeper(child))
    has_gone = free_and_expect(actor, child, 3000, "drop")
    eventually(has_gone, "the child's second zone has gone back")
    actor.tell("return 0")
    assert actor.forked_end() == 0
