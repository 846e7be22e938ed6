"""In every environment that any machine can have, a program with threads is not killed, has a keeper, and gives memory back.

environments.py has the environments, and what they start. `make environments` measures them and those that need more of a
machine, and makes the table in docs/containers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import environments
import pytest
from environments import ENVIRONMENTS, Environment, Place, Seen

pytestmark = pytest.mark.usefixtures("ours_only")

# `make test` runs these, `make test-deep` the others.
QUICK = ("none", "container", "systemd-tight", "strict", "kill-membarrier")
PORTABLE = [pytest.param(one, id=one.name, marks=[] if one.name in QUICK else [pytest.mark.deep]) for one in ENVIRONMENTS if one.portable]
AT_ONCE = 6
# How much more memory may stay than without a filter. Without one far less stays than the keeper's absence would leave.
RATIO, MORE_MB = 1.25, 4
UNFILTERED_MB_MOST = 16
# What glibc's malloc holds after the work.
GLIBC_MB_LEAST = 100


@pytest.fixture(scope="module")
def place(library: Path) -> Iterator[Place]:
    with environments.place(library) as made:
        yield made


@pytest.fixture(scope="module")
def seen_in(place: Place, request: pytest.FixtureRequest) -> Callable[[Environment], Seen]:
    """What was seen in an environment. Those that this session tests run several at a time, with the unfiltered one."""
    wanted = {
        item.callspec.params["environment"].name: item.callspec.params["environment"]
        for item in request.session.items
        if item.path == Path(__file__) and hasattr(item, "callspec") and "environment" in item.callspec.params
    }
    unfiltered = environments.BY_NAME["none"]
    todo = [one for one in wanted.values() if one.name != unfiltered.name and not one.missing()]
    found: dict[str, Seen] = {}

    def seen(environment: Environment) -> Seen:
        if not found:
            found.update(environments.run([unfiltered], place, UNFILTERED_MB_MOST))
        while environment.name not in found:
            together, todo[:] = todo[:AT_ONCE], todo[AT_ONCE:]
            found.update(environments.run(together, place, most(found[unfiltered.name])))
        return found[environment.name]

    return seen


def most(unfiltered: Seen) -> float:
    return RATIO * unfiltered.resident_mb + MORE_MB


def test_the_workload_is_one_that_needs_a_keeper() -> None:
    with environments.place(None) as place:
        seen = environments.run([environments.BY_NAME["none"]], place)["none"]
    assert not seen.keeper
    assert seen.resident_mb > GLIBC_MB_LEAST


@pytest.mark.parametrize("environment", PORTABLE)
def test_memory_goes_back(seen_in: Callable[[Environment], Seen], environment: Environment) -> None:
    if why := environment.missing():
        pytest.skip(why)
    seen = seen_in(environment)
    if seen.failure and environment.wrap is not environments.plain:
        pytest.skip(f"this machine cannot have it: {seen.failure}")
    assert (seen.failure, seen.killed) == ("", "")
    assert seen.keeper, "no thread besides the program's own"
    unfiltered = seen_in(environments.BY_NAME["none"])
    assert unfiltered.resident_mb < UNFILTERED_MB_MOST
    assert seen.resident_mb < most(unfiltered)


def test_a_killed_program_is_seen(place: Place) -> None:
    """The harness: at munmap the program ends, long before its end."""
    killing = environments.filtered("kills", "", environments.killing("munmap"))
    assert environments.run([killing], place)["kills"].killed.startswith("signal 31")


def test_refused_calls_are_seen(place: Place) -> None:
    calls = [call for call in environments.CALLS if not call.startswith("/")]
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": calls, "action": "SCMP_ACT_ERRNO", "errnoRet": 13}]}
    assert environments.refused(environments.filtered("refuses", "", profile), place) == dict.fromkeys(calls, "EACCES")
