"""Programs that restrict their system calls with seccomp: none of the library's calls may be the one that ends them.

programs/sandbox.c installs the filter. docs/failure.md lists which calls the library makes, and when.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Preload, compile_c, describe

pytestmark = pytest.mark.usefixtures("ours_only")

# What a program that only allocates and writes cannot do without.
ALLOCATES = "mmap,munmap,mprotect,madvise,mremap,futex,write,exit_group"
# What glibc's pthread_create and the end of a thread need.
STARTS_THREADS = f"{ALLOCATES},clone,clone3,rt_sigprocmask,rt_sigaction,set_robust_list,rseq,exit"
# What a thread that does not end needs.
GOES_ON = f"{ALLOCATES},rt_sigprocmask,set_robust_list,rseq"
# Calls that neither the dynamic linker nor a thread's start makes. (The linker's log, on which `preload` looks, needs
# getpid.)
OWN_CALLS = [
    "clock_gettime", "getcpu", "getrusage", "gettid", "membarrier", "prctl", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_setscheduler", "sched_yield", "sysinfo",
]  # fmt: skip
# Calls that can be refused while memory is still to be had. glibc itself starts no thread without mprotect.
REFUSABLE = ["brk", "getpid", "gettid", "madvise", "membarrier", "mremap", "munmap", "openat", "prlimit64", "read"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("sandbox.c", tmp_path_factory.mktemp("sandbox") / "sandbox")


def survives(preload: Preload, program: Path, *arguments: str, **variables: str) -> None:
    result = preload.run(program, *arguments, variables=variables)
    assert result.stdout == "done\n", describe(result)


@pytest.mark.parametrize("how", ["prctl", "raw"])
def test_a_filter_that_kills_all_but_memory_calls(preload: Preload, program: Path, how: str) -> None:
    survives(preload, program, "late", f"{how}:kill", "one", f"={ALLOCATES}")


@pytest.mark.parametrize("when", ["late", "threads"])
@pytest.mark.parametrize(("how", "background"), [("prctl", "1"), ("prctl", "0"), ("raw", "0")])
def test_a_filter_that_kills_all_but_memory_calls_and_threads(
    preload: Preload, program: Path, when: str, how: str, background: str
) -> None:
    """With a keeper the library must learn of the filter, which it does from prctl only."""
    arguments = (when, f"{how}:kill", "threads", f"={STARTS_THREADS}")
    survives(preload, program, *arguments, HAKOZUNA_BACKGROUND=background)


def test_the_keeper_has_ended_when_the_filter_comes(preload: Preload, program: Path) -> None:
    """Not even the calls with which a thread ends are allowed. Ten times, since a keeper that is late may be lucky."""
    for _ in range(10):
        survives(preload, program, "threads", "prctl:kill", "stay", f"={ALLOCATES}")


def test_the_filter_comes_while_the_keeper_starts(preload: Preload, program: Path) -> None:
    """The thread that installs it waits for the keeper, which calls membarrier first of all. Twenty times, as above."""
    for _ in range(20):
        survives(preload, program, "first", "prctl:kill", "one", "membarrier")


def test_a_keeper_that_starts_has_ended_when_the_filter_comes(preload: Preload, program: Path) -> None:
    """A thread may not even end. Fifty times: the keeper may start late."""
    for _ in range(50):
        survives(preload, program, "beside", "prctl:kill", "one", f"={GOES_ON}")


@pytest.mark.parametrize("call", OWN_CALLS)
def test_an_inherited_filter_that_kills_one_call(preload: Preload, program: Path, call: str) -> None:
    survives(preload, program, "exec", "prctl:kill", "threads", call)


@pytest.mark.parametrize(("when", "how"), [("exec", "prctl:kill"), ("threads", "prctl:kill"), ("threads", "raw:EPERM")])
def test_a_filter_that_forbids_to_time_huge_pages(preload: Preload, program: Path, when: str, how: str) -> None:
    survives(preload, program, when, how, "dense", "clock_gettime,getrusage")


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("how", ["prctl", "raw"])
@pytest.mark.parametrize("call", REFUSABLE)
def test_a_filter_that_refuses_one_call(preload: Preload, program: Path, call: str, how: str, error: str) -> None:
    survives(preload, program, "threads", f"{how}:{error}", "threads", call)


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("when", ["late", "threads"])
def test_a_filter_that_refuses_mprotect(preload: Preload, program: Path, when: str, error: str) -> None:
    survives(preload, program, when, f"raw:{error}", "one", "mprotect")


@pytest.mark.parametrize(("when", "work"), [("early", "one"), ("late", "one"), ("threads", "stay")])
@pytest.mark.parametrize("how", ["prctl:kill", "raw:EINVAL", "raw:EPERM", "raw:EACCES", "raw:ENOSYS"])
@pytest.mark.parametrize("arguments", ["@plain", "@fixed"])
def test_a_filter_that_looks_at_arguments(
    preload: Preload, program: Path, when: str, work: str, how: str, arguments: str
) -> None:
    """It lets only those pass that glibc's malloc uses. Memory of all sizes is to be had, zeroed, grown and aligned."""
    background = "1" if how.startswith("prctl") else "0"  # nobody tells a keeper of the other filters
    survives(preload, program, when, how, work, arguments, HAKOZUNA_BACKGROUND=background)


@pytest.mark.parametrize("call", ["mmap", "mremap,munmap,madvise,mprotect"])
@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_without_memory_calls_malloc_fails_with_enomem(
    preload: Preload, program: Path, call: str, error: str
) -> None:
    survives(preload, program, "late", f"raw:{error}", "refused", call)
