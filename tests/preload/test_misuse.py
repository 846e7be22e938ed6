"""Small programs that misuse memory, each in a process of its own: every double and invalid free ends the program.

programs/misuse.c has the kinds of misuse. A new thread's frees are inspected (src/heap/cache/inspect.c), so these short
programs are stopped in the call itself; the library need not notice the same mistake at once in a program that has run
for long.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import Preload, clean_environment, compile_c

SIZES = (1, 8, 24, 200, 1000, 3000, 20000, 65536, 100000, 500000, 5000000)
TEXTS = {
    "double-free": r"double free of block: 0x[0-9a-f]+|free of a pointer that is not from this allocator: 0x[0-9a-f]+"
    r"|free of a pointer into the middle of a block: 0x[0-9a-f]+",  # guard build: a trim took the fence in front of the block
    "invalid-free": r"free of a pointer (that is not from this allocator|into the middle of a block): 0x[0-9a-f]+"
    r"|double free of block: 0x[0-9a-f]+",  # the page behind the block's may have been in use
}
FENCE_TEXTS = (
    "bytes in front of a block were overwritten:",
    "bytes behind a block were overwritten:",
    "a block was written to after its free:",
)
LINE = r"hakozuna: (?:{}) \((?:\d+ bytes, shard \d+, |large, )?found [a-z_', :]+\)\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("misuse.c", tmp_path_factory.mktemp("misuse") / "misuse", "-Wno-vla")


def kinds(program: Path) -> list[tuple[str, str]]:
    """(kind, group)."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True, env=clean_environment())
    return [(kind, group) for kind, group in map(str.split, done.stdout.splitlines())]


@pytest.mark.parametrize("group", TEXTS)
@pytest.mark.usefixtures("ours_only")
def test_bad_free_ends_the_program(preload: Preload, program: Path, group: str) -> None:
    line = re.compile(LINE.format(TEXTS[group]))
    for kind in (kind for kind, its_group in kinds(program) if its_group == group):
        for size in SIZES:
            done = preload.run(program, kind, str(size), check=False)
            seen = (done.returncode, done.stdout, line.fullmatch(done.stderr) is not None)
            assert seen == (-signal.SIGABRT, "", True), (kind, size, done)


# What the guard build cannot see: a byte so far behind a small block that it lies in memory nobody has asked for yet.
UNSEEN_BY_FENCES = {"beyond-megabyte"}


def test_the_guard_build_stops_all_others(preload: Preload, program: Path, library: Path) -> None:
    if "fences=1" not in preload.run(program, "--list", variables={"HAKOZUNA_SHOW_CONFIG": "2"}).stderr:
        pytest.skip(f"{library.name} is not of the guard build")
    noticed = set()
    for kind, _ in kinds(program):
        for size in SIZES:
            done = preload.run(program, kind, str(size), check=False)
            if kind not in UNSEEN_BY_FENCES:
                assert "NOT_CAUGHT" not in done.stdout, (kind, size, done)
            noticed |= {text for text in FENCE_TEXTS if text in done.stderr}
    assert noticed == set(FENCE_TEXTS)


def test_the_program_misuses_memory(program: Path) -> None:
    """Without an allocator's help most kinds go unnoticed, so that it is the library that stops them above."""
    env = clean_environment() | {"GLIBC_TUNABLES": "glibc.malloc.check=0"}
    found = Counter()
    for kind, group in kinds(program):
        done = subprocess.run([program, kind, "200"], capture_output=True, text=True, check=False, env=env)
        found[group, "NOT_CAUGHT" in done.stdout] += 1
    assert {group for group, _ in found} >= {"double-free", "invalid-free", "outside", "after-free", "reuse", "contents", "size"}
    assert sum(count for (_, unnoticed), count in found.items() if unnoticed) > 10


@pytest.mark.parametrize(("args", "code"), [([], 2), (["twice"], 2), (["twice", "0"], 2), (["thrice", "8"], 2), (["twice", "8x"], 2)])
def test_bad_arguments(program: Path, args: list[str], code: int) -> None:
    done = subprocess.run([program, *args], capture_output=True, text=True, check=False, env=clean_environment())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("usage: ")
