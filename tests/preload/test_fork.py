"""Fork handlers that allocate, registered before and after the library's own: a child handler that runs before ours
meets a heap whose other threads have vanished."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Preload, archive_of, compile_c

FORKS = 60


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the program, the library of handlers, and the program linked with that library."""
    directory = tmp_path_factory.mktemp("fork")
    compile_c("fork_busy.c", directory / "busy")
    handlers = compile_c("fork_handlers.c", directory / "libhandlers.so", "-shared", "-fPIC")
    compile_c("fork_busy.c", directory / "linked", "-Wl,--no-as-needed", str(handlers), f"-Wl,-rpath,{directory}")
    return directory


@pytest.mark.parametrize("order", ["handlers first", "handlers last"])
def test_handlers_of_a_preloaded_library(preload: Preload, built: Path, order: str) -> None:
    """The constructor of one of the two runs first, whichever the dynamic linker takes; each order is tried."""
    libraries = [str(built / "libhandlers.so"), str(preload.library)]
    if order == "handlers last":
        libraries.reverse()
    result = preload.run(built / "busy", FORKS, variables={"LD_PRELOAD": ":".join(libraries)})
    assert result.stdout == f"{FORKS} {FORKS}\n"


def test_handlers_of_a_linked_library(preload: Preload, built: Path) -> None:
    assert preload.run(built / "linked", FORKS).stdout == f"{FORKS} {FORKS}\n"


@pytest.mark.usefixtures("ours_only")
def test_handlers_in_a_program_linked_with_the_archive(preload: Preload, built: Path) -> None:
    """Constructors of libraries run before those of the program, and so before the archive's."""
    archive = archive_of(preload.library)
    handlers = built / "libhandlers.so"
    program = compile_c(
        "fork_busy.c", built / "static", "-Wl,--no-as-needed", str(handlers), f"-Wl,-rpath,{built}",
        "-Wl,--export-dynamic", str(archive),
    )  # fmt: skip
    assert preload.run(program, FORKS, preload=False).stdout == f"{FORKS} {FORKS}\n"


def test_without_handlers(preload: Preload, built: Path) -> None:
    assert preload.run(built / "busy", FORKS).stdout == f"{FORKS} 0\n"
