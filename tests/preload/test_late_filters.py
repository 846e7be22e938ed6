"""Programs that confine themselves while their threads allocate: nothing that the library does then may end them.

programs/confines.c installs the filter, in all the ways that programs have. Its lists kill, and allow what glibc's malloc
uses; test_sandbox.py has filters that come between two pieces of work, and filters that refuse.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment, compile_c

sys.path.append(str(ROOT / "hakobench/src"))  # seccomp.py needs none of the packages that hakobench needs

from hakobench import seccomp  # noqa: E402 - after the line above

pytestmark = pytest.mark.usefixtures("ours_only")

WAYS = ("prctl", "each", "syscall", "tsync", "libseccomp", "libseccomp-tsync", "libseccomp-root")
QUICK = ("prctl", "tsync", "libseccomp-root")  # `make test` runs these, `make test-deep` the others
# What glibc's malloc and free use (it counts the CPUs, and reads in /proc how the machine overcommits), the end of a thread, and
# this program's own reads, writes and end.
MEMORY = (
    "mmap munmap mprotect madvise mremap brk futex getrandom sched_getaffinity openat close rt_sigprocmask exit exit_group read write "
    "restart_syscall prctl"
).split()
# A second list also allows to start threads.
THREADS = [*MEMORY, *"clone clone3 rseq set_robust_list rt_sigaction rt_sigreturn".split()]
LISTS = {"memory": (MEMORY, []), "threads": (THREADS, ["more"])}
# The keeper works every 100 ms.
SECONDS = 1.5
KEEPER_DEADLINE_SECONDS = 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("confines.c", tmp_path_factory.mktemp("confines") / "confines", "-l:libseccomp.so.2")


def names_of_threads(pid: int) -> list[str]:
    return [(path / "comm").read_text().strip() for path in Path(f"/proc/{pid}/task").iterdir()]


@contextlib.contextmanager
def confined(program: Path, library: Path, way: str, allowed: list[str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """The program, when its threads allocate and the library's keeper runs."""
    calls = [name for name in allowed if name != "prctl" or way == "each"]  # each of its workers calls prctl itself
    profile = {"defaultAction": "SCMP_ACT_KILL_PROCESS", "syscalls": [{"names": calls, "action": "SCMP_ACT_ALLOW"}]}
    code = program.with_name(f"{way}-{len(calls)}.bpf")
    code.write_bytes(seccomp.compiled(profile))
    process = subprocess.Popen(
        [program, way, code, ",".join(calls), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=clean_environment() | {"LD_PRELOAD": str(library)},
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        assert str(library) in Path(f"/proc/{process.pid}/maps").read_text(), "the preload took no effect"
        end = time.monotonic() + KEEPER_DEADLINE_SECONDS
        while "hakozuna" not in names_of_threads(process.pid):
            assert time.monotonic() < end, f"no keeper after {KEEPER_DEADLINE_SECONDS} s"
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def confine(process: subprocess.Popen[str]) -> None:
    process.stdin.write("now\n")
    process.stdin.flush()


@pytest.mark.parametrize("way", [pytest.param(way, marks=[] if way in QUICK else [pytest.mark.deep]) for way in WAYS])
def test_a_program_that_confines_itself_goes_on(library: Path, program: Path, way: str) -> None:
    if way == "libseccomp-root" and os.geteuid() != 0:
        pytest.skip("only root may install a filter without PR_SET_NO_NEW_PRIVS")
    with contextlib.ExitStack() as running:
        processes = {
            name: running.enter_context(confined(program, library, way, allowed, *options)) for name, (allowed, options) in LISTS.items()
        }
        for process in processes.values():
            confine(process)
        time.sleep(SECONDS)  # not for synchronisation: so long all threads and the keeper go on
        for name, process in processes.items():
            out, err = process.communicate(timeout=60)
            assert (name, process.returncode, out, err) == (name, 0, "confined\ndone\n", "")


def test_a_list_that_is_too_short_kills(library: Path, program: Path) -> None:
    """The program: a list without munmap ends it."""
    with confined(program, library, "tsync", [name for name in MEMORY if name not in ("munmap", "madvise")]) as process:
        confine(process)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGSYS, f"exit code {process.returncode}: {out}"
