"""Libraries that a program opens have the preloaded malloc, whatever flags it opens them with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, Preload, compile_c, exported_names, required

NAMES_SKIPPED = {"dlopen", "dlmopen"}  # the library can call the C library's


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, and libraries that are found by its RUNPATH only."""
    folder = tmp_path_factory.mktemp("deep")
    (folder / "below").mkdir()
    for name, flags in ("deep", ["-DVERSION=2"]), ("deeper", ["-DVERSION=3", "-Wl,-z,now,-z,relro"]):
        compile_c("deep.c", folder / f"below/lib{name}.so", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", *flags)
    path = "-Wl,-rpath,$ORIGIN/below,--enable-new-dtags"
    for name, flags in ("host", []), ("host_now", ["-Wl,-z,now"]), ("host_lazy", ["-Wl,-z,lazy", "-no-pie", "-fno-pie"]):
        compile_c("deep_host.c", folder / name, "-Wno-pedantic", "-rdynamic", path, *flags)
    return folder


@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("host", ["host", "host_now", "host_lazy"])
@pytest.mark.parametrize("how", ["now", "lazy", "global", "dlmopen", "closed"])
def test_a_library_opened_with_deepbind_sees_its_own_symbols(preload: Preload, deep: Path, how: str, host: str) -> None:
    """And blocks pass both ways. The library is found by the program's RUNPATH, with us between the program and dlopen."""
    assert preload.run(deep / host, how, preload=False).stdout == "2 20\n"
    assert preload.run(deep / host, how).stdout == "2 20\n"
    assert preload.run(deep / host, how, variables={"LD_BIND_NOW": "1"}).stdout == "2 20\n"


@pytest.mark.usefixtures("ours_only")
def test_a_library_opened_with_deepbind_opens_another(preload: Preload, deep: Path) -> None:
    assert preload.run(deep / "host", "nested", preload=False).stdout == "2 20 3\n"
    assert preload.run(deep / "host", "nested").stdout == "2 20 3\n"


@pytest.mark.usefixtures("ours_only")
def test_another_namespace_keeps_its_malloc(preload: Preload, deep: Path) -> None:
    assert preload.run(deep / "host", "namespace", "malloc", "free").stdout == "2 20 malloc differs free differs\n"


@pytest.mark.usefixtures("ours_only")
def test_a_library_opened_with_deepbind_beside_an_auditor(preload: Preload, deep: Path, tmp_path: Path) -> None:
    """The auditor has a C library of its own too."""
    auditor = compile_c("auditor.c", tmp_path / "auditor.so", "-shared", "-fPIC")
    assert preload.run(deep / "host", "now", "malloc", variables={"LD_AUDIT": str(auditor)}).stdout == "2 20\n"


@pytest.mark.usefixtures("ours_only")
def test_threads_open_libraries_with_deepbind_at_the_same_moment(preload: Preload, deep: Path) -> None:
    for _ in range(20):
        assert preload.run(deep / "host", "threads").stdout == "2 20\n"


@pytest.mark.usefixtures("ours_only")
def test_the_whole_family_is_redirected(preload: Preload, deep: Path, library: Path) -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("/libc.so.6"))
    names = sorted((exported_names(library) & exported_names(Path(libc))) - NAMES_SKIPPED)
    assert {"malloc", "free", "cfree", "mallinfo2", "__libc_pvalloc"} <= set(names)
    assert preload.run(deep / "host", "now", *names).stdout == "2 20\n"
    assert " malloc differs" in preload.run(deep / "host", "refused", *names).stdout


@pytest.mark.usefixtures("ours_only")
def test_a_function_that_a_library_behind_ours_replaces_is_not_redirected(preload: Preload, deep: Path, tmp_path: Path) -> None:
    """Its next definition would be ours, whose next one is its own, and so on."""
    behind = compile_c("replacer.c", tmp_path / "behind.so", "-shared", "-fPIC", '-DNAME="behind"')
    # its dlopen calls the next one, which therefore searches its RUNPATH and not the program's
    variables = {"LD_PRELOAD": f"{preload.library}:{behind}", "LD_LIBRARY_PATH": str(deep / "below")}
    result = preload.run(deep / "host", "threads", "prctl", "malloc", variables=variables)
    assert result.stdout == "2 20 prctl differs\n"
    assert "behind: pthread_create" in result.stderr


@pytest.mark.usefixtures("ours_only")
def test_where_the_table_cannot_be_changed_the_flag_is_dropped(preload: Preload, deep: Path) -> None:
    """Blocks pass, and the library sees the program's symbols."""
    assert preload.run(deep / "host", "refused", preload=False).stdout == "2 20\n"
    assert preload.run(deep / "host", "refused").stdout == "1 10\n"


@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("runtime", ["shared", "apart"])
def test_a_cpp_library_opened_with_deepbind(preload: Preload, runtime: str, tmp_path: Path) -> None:
    """It finds the operators of libstdc++, which call malloc, before ours. With `apart` it contains a runtime of its own."""
    flags = {"shared": [], "apart": ["-static-libstdc++", "-static-libgcc"]}[runtime]
    for source, options in ("deep_shape.cc", ["-shared", "-fPIC", "-o", tmp_path / "libshape.so", *flags]), (
        "deep_shape_host.cc",
        ["-o", tmp_path / "host"],
    ):
        subprocess.run([required("g++"), "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", PROGRAMS / source, *options], check=True)
    command = [tmp_path / "host", tmp_path / "libshape.so", *(["apart"] if runtime == "apart" else [])]
    assert preload.run(*command, preload=False).stdout == "well\n"
    assert preload.run(*command).stdout == "well\n"


@pytest.mark.usefixtures("ours_only")
@pytest.mark.parametrize("early", [0, 1])
def test_a_library_that_asks_for_the_next_malloc_has_a_pair_that_fits(preload: Preload, deep: Path, early: int, tmp_path: Path) -> None:
    """Preloaded behind ours, it finds the C library's, and after the first RTLD_DEEPBIND ours in their place."""
    behind = compile_c("deep_behind.c", tmp_path / "behind.so", "-shared", "-fPIC", "-Wno-pedantic", f"-DEARLY={early}")
    assert preload.run(deep / "host", "now", variables={"LD_PRELOAD": f"{preload.library}:{behind}"}).stdout == "2 20\n"
