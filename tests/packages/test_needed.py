"""Which symbols each library takes from elsewhere: needed.txt says why. A program can replace each one by a function that allocates."""

from __future__ import annotations

import pathlib
import re

import pytest
from installing import BUILD, PROGRAMS, run

LIBRARIES = BUILD / "lib"
LIST = PROGRAMS.parent / "needed.txt"


def reasons(text: str) -> dict[str, str]:
    """The reason of each symbol."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = dict(line.split(" ", 1) for line in lines)
    assert len(found) == len(lines), "a symbol is listed twice"
    return found


def needed_by(library: pathlib.Path) -> set[str]:
    """The undefined symbols, without versions."""
    options = ["-D"] if library.suffix == ".so" else []
    lines = run("nm", *options, "--undefined-only", "--format=posix", library).splitlines()
    return {line.split()[0].partition("@")[0] for line in lines if line and not line.endswith(":")}


def libraries() -> list[pathlib.Path]:
    """Shared libraries, archives and single objects of all lanes, and the archive that leaves malloc alone."""
    found = [path for path in LIBRARIES.iterdir() if re.fullmatch(r"(lib)?hakozuna(-[a-z0-9]+)*\.(so|a|o)", path.name)]
    assert {"libhakozuna.so", "libhakozuna.a", "hakozuna.o", "libhakozuna-prefix.a", "libhakozuna-hz4.so"} <= {path.name for path in found}
    return sorted(found)


@pytest.mark.parametrize("library", libraries() if LIBRARIES.is_dir() else [], ids=lambda path: path.name)
def test_a_library_needs_only_what_is_listed(library):
    assert sorted(needed_by(library) - set(reasons(LIST.read_text()))) == []


def test_what_is_listed_is_needed_and_has_a_reason():
    listed = reasons(LIST.read_text())
    assert sorted(set(listed) - set().union(*map(needed_by, libraries()))) == []
    assert [name for name, reason in listed.items() if len(reason) < len("computes")] == []


def test_a_symbol_that_is_not_listed_is_noticed(tmp_path):
    (tmp_path / "calls.c").write_text("#include <sys/mman.h>\nint purge(void *p) { return madvise(p, 1, MADV_DONTNEED); }\n")
    run("gcc", "-shared", "-fPIC", tmp_path / "calls.c", "-o", tmp_path / "calls.so")
    assert needed_by(tmp_path / "calls.so") - set(reasons(LIST.read_text())) == {"madvise"}
