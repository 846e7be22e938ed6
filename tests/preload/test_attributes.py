"""What a program tells the kernel about a block (mprotect, madvise, mlock, ...) ends with the block's free."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Preload, compile_c

WAYS = ("libc", "syscall", "raw")
PLAIN_SHARE = 0.75  # of the tries: in so many an address must come again, or the test shows nothing


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("attributes.c", tmp_path_factory.mktemp("attributes") / "attributes")


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("ranges.c", tmp_path_factory.mktemp("ranges") / "ranges")


def look(output: str) -> None:
    last = re.search(r"^(\d+) tried, (\d+) came again, (\d+) wrong$", output, re.MULTILINE)
    assert last is not None, output
    tried, again, wrong = map(int, last.groups())
    assert wrong == 0, output
    assert again >= PLAIN_SHARE * tried, output


@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("way", WAYS)
def test_the_next_owner_gets_plain_memory(preload: Preload, program: Path, way: str) -> None:
    look(preload.run(program, way, "quick").stdout)


@pytest.mark.deep
@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("way", WAYS)
def test_the_next_owner_gets_plain_memory_at_every_size(preload: Preload, program: Path, way: str) -> None:
    look(preload.run(program, way, "all").stdout)


@pytest.mark.usefixtures("ours_only")
def test_the_c_librarys_heap_fails_the_same_test(preload: Preload, program: Path) -> None:
    """glibc ends attributes only where it unmaps. If the test's look found nothing there, it would find nothing here either."""
    done = preload.run(program, "libc", "quick", preload=False)
    assert not done.stdout.endswith(" 0 wrong\n")


@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("mode", ["fork", "barrier", "filled", "filled-idle", "locked"])
def test_ranges(preload: Preload, ranges: Path, mode: str) -> None:
    output = preload.run(ranges, mode).stdout
    if output == "the kernel collapses nothing\n":
        pytest.skip("the kernel makes no huge pages on demand (before Linux 6.1)")
    assert output == "done\n"


@pytest.mark.usefixtures("ours_only")
def test_blocks_of_the_pools_have_no_attributes_either(preload: Preload, program: Path) -> None:
    """A sampled block lies in a pool of its own."""
    for variable, value in (("HAKOZUNA_SAMPLE_GUARD", "2"), ("HAKOZUNA_PROFILE", "rate=4096,file=/dev/null")):
        output = preload.run(program, "libc", "quick", variables={variable: value}).stdout
        assert output.endswith(" 0 wrong\n"), output
