"""malloc and threads before main, when other code of the process is not ready yet: constructors that wait for threads,
and calls before thread-local variables have their start values."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, Preload, compile_c, required

WAYS = ["pthread", "c11", "std", "timer", "aio"]


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs and libraries, each with the constructor of starter.cc in another place."""
    folder = tmp_path_factory.mktemp("early")
    cpp = [required("g++"), "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", str(PROGRAMS / "starter.cc")]
    for command in (
        [*cpp, "-DPRIORITY=65535", "-shared", "-fPIC", "-o", folder / "libstarter.so"],
        [*cpp, "-DPRIORITY=101", "-c", "-o", folder / "first.o"],
        [*cpp, "-DPRIORITY=65535", "-c", "-o", folder / "last.o"],
    ):
        subprocess.run(command, check=True)
    compile_c("starter_host.c", folder / "host")
    linked = ["-Wl,--no-as-needed", f"-L{folder}", "-lstarter", f"-Wl,-rpath,{folder}"]
    compile_c("starter_host.c", folder / "host_linked", *linked)
    for name in ("first", "last"):
        compile_c("starter_host.c", folder / f"host_{name}", str(folder / f"{name}.o"), "-lstdc++")
    return folder


# where the constructor is: the program, its argument, and what is preloaded
PLACES = {
    "library": ("host_linked", None, "{ours}"),
    "program": ("host_last", None, "{ours}"),
    "program, priority 101": ("host_first", None, "{ours}"),
    "preloaded before": ("host", None, "{starter}:{ours}"),
    "preloaded behind": ("host", None, "{ours}:{starter}"),
    "opened": ("host", "libstarter.so", "{ours}"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", WAYS)
def test_a_constructor_waits_for_threads(preload: Preload, early: Path, place: str, way: str) -> None:
    name, argument, preloads = PLACES[place]
    command = [early / name, *([early / argument] if argument else [])]
    variables = {"STARTER_WAY": way, "LD_PRELOAD": preloads.format(ours=preload.library, starter=early / "libstarter.so")}
    if place != "opened":
        variables["STARTER_LOOKS"] = "1"
    assert preload.run(*command, variables=variables).stderr == "started\n"


LINKS = {"lazy": ["-Wl,-z,lazy"], "now": ["-Wl,-z,now"], "no-pie": ["-fno-pie", "-no-pie"]}


@pytest.mark.parametrize("link", LINKS)
def test_the_earliest_calls(preload: Preload, link: str, tmp_path: Path) -> None:
    """The resolver of the program's IFUNC runs before thread-local variables have their start values."""
    program = compile_c("earliest.c", tmp_path / "earliest", "-Wno-pedantic", *LINKS[link])
    assert preload.run(program, preload=False).stdout == "well\n"
    assert preload.run(program).stdout == "well\n"
    assert preload.run(program, variables={"LD_BIND_NOW": "1"}).stdout == "well\n"


@pytest.mark.parametrize("auditors_malloc", ["glibc", "ours"])
def test_an_auditor_allocates(preload: Preload, auditors_malloc: str, tmp_path: Path) -> None:
    """An auditor and its libraries are loaded first, into a namespace of their own. In one case it is linked with our
    library, of which the process then has two copies."""
    flags = [str(preload.library), f"-Wl,-rpath,{preload.library.parent}"] if auditors_malloc == "ours" else []
    auditor = compile_c("auditor.c", tmp_path / "auditor.so", "-shared", "-fPIC", "-Wl,--no-as-needed", *flags)
    program = compile_c("earliest.c", tmp_path / "earliest", "-Wno-pedantic")
    starts_threads = compile_c("c11_threads.c", tmp_path / "c11_threads")
    for command, said in (program, "well\n"), (starts_threads, "42\nkeeper\n"):
        result = preload.run(command, variables={"LD_AUDIT": str(auditor)})
        assert (result.stdout, result.stderr) == (said, "")  # the dynamic linker says so when it cannot use the auditor


@pytest.mark.parametrize("hash_style", ["gnu", "sysv", "both"])
def test_libraries_that_replace_the_same_functions_are_called(preload: Preload, hash_style: str, tmp_path: Path) -> None:
    """Whether they are preloaded before ours or behind it, and whichever hash table they have."""
    program = compile_c("replaced.c", tmp_path / "replaced", "-Wno-pedantic")
    names = ("before", "behind")
    for name in names:
        compile_c("replacer.c", tmp_path / f"{name}.so", "-shared", "-fPIC", f'-DNAME="{name}"', f"-Wl,--hash-style={hash_style}")
    preloads = ":".join([str(tmp_path / "before.so"), str(preload.library), str(tmp_path / "behind.so")])
    lines = preload.run(program, variables={"LD_PRELOAD": preloads}).stderr.splitlines()
    assert sorted(lines) == [f"{name}: pthread_create, 1 thrd_create, 1 dlopen, 1 prctl" for name in names]
