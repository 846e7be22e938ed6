"""Programs under limits: how much of the address space they obtain, and that they work on afterwards."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from conftest import Preload, compile_c, describe

pytestmark = pytest.mark.usefixtures("ours_only")

SIZES = ["small", "mixed", "large", "huge"]
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
    assert seen["again_kb"] >= seen["first_kb"] * 0.9, describe(result)
    assert seen["other_kb"] >= megabytes * 1024 * least_share(kind, megabytes, "other", late), describe(result)


def test_mlockall_is_quick(preload: Preload, program: Path) -> None:
    """It reads every mapping: also the table of page tags, which is 8 GiB of zeros."""
    seen = figures(preload.run(program, "lock").stdout)
    if seen["error"] != 0:
        pytest.skip(f"mlockall is not permitted: errno {seen['error']}")
    assert seen["cpu_ms"] < 200
