"""Programs under limits: how much of the address space they obtain, and that they work on afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Preload, compile_c, describe
from groups import own_group

pytestmark = pytest.mark.usefixtures("ours_only")

MIB = 1 << 20
DEADLINE_SECONDS = 60
SIZES = ["small", "mixed", "large", "huge"]
LARGEST_KB = 6144  # a huge block of programs/limits.c
MEGABYTES = [64, 256, 1024]
# Small blocks take as long as all others together, so their largest limit is lower.
LIMITS = [(512 if sizes == "small" and megabytes == 1024 else megabytes, sizes) for megabytes in MEGABYTES for sizes in SIZES]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("limits.c", tmp_path_factory.mktemp("limits") / "limits")


def least_share(kind: str, megabytes: int, sizes: str, late: bool) -> float:
    """The share of the limit that a program obtains at least."""
    if megabytes > 64 or not late:
        return 0.6
    if kind == "data":
        return 0.4  # 16 MB are tables, and a block of more than 2 MiB takes units of 4 MiB
    return 0 if sizes == "huge" else 0.5  # nothing can be mapped any more, but reserved segments can be opened


def figures(output: str) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split("=") for line in output.splitlines())}


@pytest.mark.deep
@pytest.mark.parametrize(("megabytes", "sizes"), LIMITS)
@pytest.mark.parametrize("kind", ["as", "data"])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_most_of_the_limit_is_obtained(
    preload: Preload, program: Path, kind: str, megabytes: int, sizes: str, late: bool
) -> None:
    if late:
        command = [program, sizes, kind, str(megabytes)]
    else:
        option = "-v" if kind == "as" else "-d"
        command = ["bash", "-c", f"ulimit {option} {megabytes << 10} && exec {shlex.quote(str(program))} {sizes}"]
    result = preload.run(*command)
    seen = figures(result.stdout)
    assert seen["first_kb"] >= megabytes * 1024 * least_share(kind, megabytes, sizes, late), describe(result)
    least = seen["first_kb"] * 0.9
    if (kind, sizes) == ("data", "huge"):  # blocks take whole units of 4 MiB: with other draws one less can fit
        least = min(least, seen["first_kb"] - LARGEST_KB)
    assert seen["again_kb"] >= least, describe(result)
    assert seen["other_kb"] >= megabytes * 1024 * least_share(kind, megabytes, "other", late), describe(result)


@pytest.mark.parametrize("sizes", ["large", "huge"])
def test_a_limit_that_is_raised(preload: Preload, program: Path, sizes: str) -> None:
    """Tables are made for what the program can raise its limit to, at most 32 times the first one."""
    result = preload.run("bash", "-c", f"ulimit -Sv {200 << 10} && exec {shlex.quote(str(program))} {sizes} as 4096")
    assert figures(result.stdout)["first_kb"] >= 0.8 * (4 << 20), describe(result)


@pytest.mark.parametrize("sizes", [(2_200_000, 1_000_000, 200_000), (1_000_000, 3_000_000, 2_200_000)], ids=["direct-first", "paged-first"])
@pytest.mark.parametrize("gib", [10, 16])
def test_blocks_of_one_kind_leave_room_for_the_other(preload: Preload, tmp_path: Path, gib: int, sizes: tuple[int, ...]) -> None:
    """Segments keep their entries in a directory, whose size follows the limit of the address space."""
    phases = compile_c("phases.c", tmp_path / "phases")
    result = preload.run("bash", "-c", f"ulimit -v {gib << 20} && exec {shlex.quote(str(phases))} {' '.join(map(str, sizes))}")
    obtained = [int(line) for line in result.stdout.split()]
    assert len(obtained) == len(sizes) and min(obtained) >= 0.7 * gib * 1024, describe(result)


def test_mlockall_is_quick(preload: Preload, program: Path) -> None:
    """It reads every mapping: also the table of page tags, which is 8 GiB of zeros."""
    seen = figures(preload.run(program, "lock").stdout)
    if seen["error"] != 0:
        pytest.skip(f"mlockall is not permitted: errno {seen['error']}")
    assert seen["cpu_ms"] < 200


@contextlib.contextmanager
def memory_group() -> Iterator[tuple[Path, Path]]:
    """A control group of our own, and its file with the limit of memory."""
    with own_group("memory", "memory.limit_in_bytes") as group:
        limits = [group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists()]
        if not limits:
            pytest.skip("the memory controller is not available")
        yield group, limits[0]


def test_the_limit_of_the_control_group_is_followed(preload: Preload, tmp_path: Path) -> None:
    """It is changed, and lifted, while the program works. The limit is 7/8 of the group's."""
    program = compile_c("asked.c", tmp_path / "asked")
    reports = tmp_path / "reports"
    words = f"signal=USR2,json,file={reports}"
    with memory_group() as (group, limit):

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        def soft_limit() -> int:
            before = reports.read_text() if reports.exists() else ""
            process.send_signal(signal.SIGUSR2)
            while not reports.exists() or len(reports.read_text()) == len(before) or not reports.read_text().endswith("\n"):
                assert time.monotonic() < end, "no report came"
                time.sleep(0.02)
            return json.loads(reports.read_text().splitlines()[-1])["process"]["soft_limit_bytes"]

        limit.write_text(str(512 * MIB))
        end = time.monotonic() + DEADLINE_SECONDS
        process = subprocess.Popen(
            [program, "work"], env=preload.environment(HAKOZUNA_STATS=words), preexec_fn=enter,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for written, expected in ((512 * MIB, 448 * MIB), (64 * MIB, 56 * MIB), (1024 * MIB, 896 * MIB), (-1, 0)):
                limit.write_text("max" if written < 0 and limit.name == "memory.max" else str(written))
                while soft_limit() != expected:
                    assert time.monotonic() < end, f"the soft limit is {soft_limit()}, not {expected}"
                    time.sleep(0.1)
        finally:
            process.communicate()


@pytest.mark.parametrize("words", ["exit", "exit,listen", "exit,signal=USR2", "exit,every=1000"])
def test_a_program_with_one_thread_has_the_limit_if_the_library_has_a_thread(preload: Preload, tmp_path: Path, words: str) -> None:
    """The library's own thread, which answers or writes reports, hides that the program has one."""
    reports = tmp_path / "reports"
    code = "keep = [bytes(1000) for _ in range(40_000)]"  # 40 MB: one without such a thread looks when it has 16
    with memory_group() as (group, limit):

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        limit.write_text(str(256 * MIB))
        environment = preload.environment(
            HAKOZUNA_STATS=f"json,file={reports},{words}", XDG_RUNTIME_DIR=str(tmp_path), PYTHONMALLOC="malloc"
        )
        subprocess.run([sys.executable, "-c", code], env=environment, preexec_fn=enter, check=True)
    soft = json.loads(reports.read_text().splitlines()[-1])["process"]["soft_limit_bytes"]
    assert 150 * MIB < soft <= 224 * MIB


@pytest.mark.deep
@pytest.mark.parametrize(("threads", "mib"), [(1, 33), (8, 24)])
def test_bursts_are_not_killed_in_a_small_group(preload: Preload, tmp_path: Path, threads: int, mib: int) -> None:
    """So much of each size in turn: what rests makes way before the group's 64 MiB are full, in a program without threads too."""
    program = compile_c("bursts.c", tmp_path / "bursts")
    with memory_group() as (group, limit):

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        limit.write_text(str(64 * MIB))
        status = subprocess.run([program, str(threads), str(mib)], env=preload.environment(), preexec_fn=enter, check=False).returncode
        assert status == 0, f"ended with status {status}; -9: the kernel killed it"
