"""Every kind of process has the library's own thread if it can, and none is disturbed by it.

programs/kinds.c is the process; most of its kinds print "ok" under glibc's malloc too.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Preload, archive_of, clean_environment, compile_c, describe

pytestmark = pytest.mark.usefixtures("ours_only")

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
CPUS = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("kinds.c", tmp_path_factory.mktemp("kinds") / "kinds")


def is_ok(preload: Preload, program: Path, *words: str, before: tuple[str, ...] = (), **options: object) -> str:
    """Runs a kind; what it said before its "ok"."""
    result = preload.run(*before, program, *words, **options)
    assert result.stdout.endswith("ok\n"), describe(result)
    return result.stdout.removesuffix("ok\n")


@pytest.mark.parametrize("how", ["raw", "_fork", "stack", "handler", "vfork", "threads"])
@pytest.mark.parametrize("seed", ["1", "20"])
def test_children_that_no_fork_handler_knows(preload: Preload, program: Path, how: str, seed: str) -> None:
    """Sixty each, since a child hung only if the library's thread held a lock at the instant of the clone."""
    is_ok(preload, program, "clones", how, "60", seed)


@AS_ROOT
@pytest.mark.parametrize("before", [(), ("unshare", "--pid", "--fork", "--kill-child")])
def test_children_in_a_namespace_of_processes(preload: Preload, program: Path, before: tuple[str, ...]) -> None:
    """Such a child is process 1, and its parent can be that too."""
    is_ok(preload, program, "clones", "pid", "20", "1", before=before)


@pytest.mark.parametrize("background", ["0", "1"])
@pytest.mark.parametrize("how", ["protect", "unmap", "reuse", "holding"])
def test_threads_that_end_by_the_system_call(preload: Preload, program: Path, how: str, background: str) -> None:
    is_ok(preload, program, "ends", how, "20", variables={"HAKOZUNA_BACKGROUND": background})


@pytest.mark.parametrize("how", ["busy", "asleep", "last", "exit", "thread"])
def test_a_process_ends_with_its_last_thread(preload: Preload, program: Path, how: str) -> None:
    """However its first thread ends."""
    is_ok(preload, program, "leader", how)


def test_all_descriptors_belong_to_the_program(preload: Preload, program: Path) -> None:
    is_ok(preload, program, "descriptors", "2500")


@AS_ROOT
@pytest.mark.parametrize("how", ["user", "threads", "mount", "network"])
def test_namespaces_after_threads_were_joined(preload: Preload, program: Path, how: str) -> None:
    is_ok(preload, program, "namespace", how)


@AS_ROOT
@pytest.mark.parametrize("count", [1, 7])
def test_the_thread_gives_its_place_up(preload: Preload, program: Path, count: int) -> None:
    """RLIMIT_NPROC counts the threads of a user, and root has no limit. So each run has a user of its own."""
    user = 1_500_000_000 + os.getpid() + count
    for folder in program.parents[:2]:
        folder.chmod(0o755)
    command = ["setpriv", "--reuid", str(user), "--clear-groups", program, "full", str(count)]
    # without the dynamic linker's log, whose folder this user may not write
    environment = clean_environment() | {"LD_PRELOAD": str(preload.library)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (result.stdout, result.stderr) == ("ok\n", "")


@AS_ROOT
@pytest.mark.parametrize("how", ["cpus", "nice", "idle", "batch", "rr"])
def test_the_thread_is_as_the_process_was_at_load(preload: Preload, program: Path, how: str) -> None:
    """Not as the thread is that happens to start it."""
    assert is_ok(preload, program, "alone", how) == f"cpus {CPUS} nice 0 policy 0\n"


@pytest.mark.parametrize("how", ["timer", "aio"])
def test_threads_of_the_c_library(preload: Preload, program: Path, how: str) -> None:
    is_ok(preload, program, "glibc", how)


# ---- whether there is a thread, and what is said of it --------------------------------------------------------------


def said(
    preload: Preload, program: Path, how: str = "fed", prepare: Callable[[], object] = lambda: None, **variables: str
) -> str:
    """What a report after a second says of the keeper."""
    environment = preload.environment(HAKOZUNA_STATS="text,every=1", **variables)
    process = subprocess.Popen(
        [program, "sleep", how, "60"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=prepare,  # noqa: PLW1509: no threads in this process
    )  # fmt: skip
    try:
        for line in process.stderr:
            if found := re.fullmatch(r"keeper: (.*)\n", line):
                return found[1]
    finally:
        process.kill()
        process.communicate()
    pytest.fail("no report")


def test_a_report_says_that_it_runs(preload: Preload, program: Path) -> None:
    assert said(preload, program) == "runs"


def test_a_report_says_why_it_does_not(preload: Preload, program: Path) -> None:
    assert said(preload, program, HAKOZUNA_BACKGROUND="0") == "none: HAKOZUNA_BACKGROUND=0; unset the variable"


@AS_ROOT
@pytest.mark.parametrize("count", [1, 40, 400, 5000])
def test_a_user_with_many_groups(preload: Preload, program: Path, count: int) -> None:
    assert said(preload, program, prepare=lambda: os.setgroups(range(1_234_500_000, 1_234_500_000 + count))) == "runs"


def test_no_descriptor_is_left(preload: Preload, program: Path) -> None:
    """When the first thread starts: the library's thread has a table of its own."""
    assert said(preload, program, "starved") == "runs"


# ---- however the library is linked ----------------------------------------------------------------------------------


def rss_mb(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def after_work(program: Path, environment: dict[str, str], has_fallen: Callable[[float], bool]) -> float:
    """The resident MB of a process whose threads sleep, as soon as `has_fallen` is true of them, or after 5 s."""
    process = subprocess.Popen([program, "sleep", "fed", "60"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        end = time.monotonic() + 5
        while time.monotonic() < end and not has_fallen(rss_mb(process.pid)):
            time.sleep(0.1)
        return rss_mb(process.pid)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["preloaded", "object", "static"])
def test_memory_goes_back_however_the_library_is_linked(
    preload: Preload, program: Path, tmp_path: Path, how: str
) -> None:
    environment = clean_environment()
    if how == "preloaded":
        environment = preload.environment()
    else:
        flags = ["-static"] if how == "static" else []
        program = compile_c("kinds.c", tmp_path / how, *flags, str(archive_of(preload.library)), "-Wl,-u,malloc")
    share = 0.5 if how == "preloaded" else 0.75  # threads that attach late keep their bins
    without = after_work(program, environment | {"HAKOZUNA_BACKGROUND": "0"}, lambda _: False)
    assert after_work(program, environment, lambda mb: mb < without * share) < without * share
