"""What threads cost: those that sleep, beside their blocks and their stacks, and those that have ended, after a trim."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Preload, compile_c

pytestmark = pytest.mark.usefixtures("ours_only")

BACKGROUND = pytest.mark.parametrize("background", ["0", "1"], ids=["alone", "keeper"])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("threads.c", tmp_path_factory.mktemp("threads") / "threads")


def kilobytes(preload: Preload, program: Path, *arguments: str, background: str = "0", is_ours: bool = True) -> int:
    variables = {"HAKOZUNA_BACKGROUND": background}
    return int(preload.run(program, *arguments, variables=variables, preload=is_ours).stdout)


@BACKGROUND
def test_ended_threads_leave_little_after_a_trim(preload: Preload, program: Path, background: str) -> None:
    """The C library keeps 40 MB of their stacks, each with a touched system page or more."""
    assert kilobytes(preload, program, "ended", "4000", background=background) <= 8_000


@BACKGROUND
@pytest.mark.parametrize("sizes", ["none", "small", "medium"])
def test_sleeping_threads_cost_little_beside_their_blocks(
    preload: Preload, program: Path, sizes: str, background: str
) -> None:
    """The stacks are what threads that only sleep have under the C library's malloc. Descriptions of pages, which every MiB
    of blocks needs, take 8 KiB of the bound for the medium sizes."""
    threads = 1000
    stacks = kilobytes(preload, program, "sleeping", str(threads), "none", is_ours=False)
    ours = kilobytes(preload, program, "sleeping", str(threads), sizes, background=background)
    assert (ours - stacks) / threads <= (32 if sizes == "medium" else 20)
