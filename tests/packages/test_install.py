"""What `cmake --install` writes, and the projects that use it: CMake, meson."""

import pathlib
import re
import shutil
import subprocess

import pytest
from installing import ABI, CONFIG, PROGRAMS, ROOT, abi, install, run

LANES = ["hz3-fast", "hz3-home", "hz3-p32", "hz3-percpu", "hz4", "hz4-home"]
NAMES = ["hakozuna", *(f"hakozuna-{lane}" for lane in LANES)]
SCRIPTS = {f"lib/hakozuna/{path.name}" for path in (ROOT / "command").glob("*.py")}
COMPLETION = {"share/bash-completion/completions/hakozuna", "share/zsh/site-functions/_hakozuna"}
TOOLS = {"bin/hakozuna", *SCRIPTS, *COMPLETION, "share/man/man1/hakozuna.1", "share/man/man7/hakozuna.7"}
FUNCTIONS = re.findall(r"(?m)^HZ_API [^;(]*\b(hz_\w+)\(", (ROOT / "include/hakozuna/hakozuna.h").read_text())


def files(folder: pathlib.Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def test_only_what_is_for_use_is_installed(tree):
    found = files(tree)
    shared = {f"lib/lib{name}.so{suffix}" for name in NAMES for suffix in ("", ".0", ".0.1.0")}
    archives = {f"lib/lib{name}.a" for name in NAMES} | {"lib/hakozuna.o", "lib/libhakozuna-prefix.a"}
    pc = {f"lib/pkgconfig/{name}{suffix}.pc" for name in NAMES for suffix in ("", "-static")} | {"lib/pkgconfig/hakozuna-prefix.pc"}
    cmake = {path for path in found if path.startswith("lib/cmake/hakozuna/hakozuna-")}
    assert len(cmake) == 4
    pages = {f"share/man/man3/{name}.3" for name in FUNCTIONS}
    assert found == shared | archives | pc | cmake | TOOLS | pages | {"include/hakozuna/hakozuna.h", "include/hakozuna/hakozuna.hpp"}


def test_components(tmp_path):
    runtime = install(tmp_path / "runtime", "--component", "runtime")
    assert files(runtime) == {f"lib/lib{name}.so{suffix}" for name in NAMES for suffix in (".0", ".0.1.0")}
    assert files(install(tmp_path / "tools", "--component", "tools")) == TOOLS
    debug = install(tmp_path / "debug", "--component", "debug")
    build_id = re.search(r"Build ID: (..)(\w+)", run("readelf", "-n", runtime / "lib/libhakozuna.so.0"))
    symbols = debug / f"lib/debug/.build-id/{build_id[1]}/{build_id[2]}.debug"
    assert ".debug_info" in run("readelf", "-S", "--wide", symbols)
    assert len(files(debug)) == len(NAMES)
    stripped = install(tmp_path / "stripped", "--component", "runtime", "--strip")
    assert ".debug_info" not in run("readelf", "-S", "--wide", stripped / "lib/libhakozuna.so.0")


@pytest.mark.parametrize("name", NAMES)
def test_abi(tree, name):
    """Programs that were linked before depend on these. A name may come, with a version of its own, but none may go."""
    library = tree / f"lib/lib{name}.so.0"
    assert abi(library) == ABI.read_text().splitlines()
    assert f"soname: [lib{name}.so.0]" in run("readelf", "-d", library)


def test_a_changed_abi_is_noticed(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("void *malloc(unsigned long n) { return (void *)n; }\n")
    run("gcc", "-shared", "-fPIC", "-fno-builtin", "-nostdlib", source, "-o", tmp_path / "libother.so")
    assert abi(tmp_path / "libother.so") == ["malloc"]


def test_the_command(tree, tmp_path):
    """bin/hakozuna finds the libraries beside it, in a tree that has been moved."""
    moved = tmp_path / "moved"
    shutil.copytree(tree, moved, symlinks=True)
    show = ["sh", "-c", 'echo "$LD_PRELOAD"; exec printf "%s|" "$@"', "name", "two words", ""]
    preloaded = f"{moved}/bin/../lib/libhakozuna-hz4.so.0"
    assert run(moved / "bin/hakozuna", "-l", "hz4", *show) == f"{preloaded}\ntwo words||"
    shown = subprocess.run([moved / "bin/hakozuna", "true"], env={"HAKOZUNA_SHOW_CONFIG": "2", "PATH": "/usr/bin:/bin"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert CONFIG in shown.stderr
    assert subprocess.run([moved / "bin/hakozuna", "false"], check=False).returncode == 1


def test_man_finds_the_pages(tree):
    order = {"MANPATH": str(tree / "share/man"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "120"}
    version = run("pkg-config", "--modversion", "hakozuna", PKG_CONFIG_PATH=f"{tree}/lib/pkgconfig").strip()
    for section, name in (("1", "hakozuna"), ("7", "hakozuna"), ("3", "hz_malloc"), ("3", "hz_stats_get")):
        done = subprocess.run(["man", section, name], env=order, capture_output=True, text=True, check=True)
        assert f"hakozuna {version}" in done.stdout and "@" not in done.stdout.replace("@@", ""), done.stdout[-300:]


def test_the_command_reads_profiles(tree, tmp_path):
    run(tree / "bin/hakozuna", "/bin/true", HAKOZUNA_PROFILE=f"rate=1,file={tmp_path}/profile")
    assert "    1  " in run(tree / "bin/hakozuna", "profile", "list", tmp_path / "profile")
    done = subprocess.run([tree / "bin/hakozuna", "profile", "list", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"hakozuna profile: {tmp_path}/none: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-l", "hz9", "true"], "hakozuna: no lane 'hz9'"),
        ([], "usage: hakozuna [OPTION...] PROGRAM [ARGUMENT...]"),
        (["-x"], "hakozuna: no option '-x'"),
    ],
)
def test_the_command_names_what_is_wrong(tree, words, message):
    order = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    done = subprocess.run([tree / "bin/hakozuna", *words], env=order, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_the_command_lists_what_is_installed(tree):
    found = run(tree / "bin/hakozuna", "lanes").splitlines()
    assert [line.split()[0] for line in found] == ["hz3-scale", *LANES]
    assert not any("not installed" in line for line in found)


PROJECT = """cmake_minimum_required(VERSION 3.25)
project(app C)
{obtain}
foreach(way {ways})
    string(REPLACE "::" "-" name "${{way}}")
    add_executable(${{name}} {programs}/$<IF:$<STREQUAL:${{way}},hakozuna::prefix>,prefix,{source}>.c)
    target_link_libraries(${{name}} PRIVATE ${{way}})
endforeach()
"""


def build_project(folder: pathlib.Path, obtain: str, ways: list[str], *options: str, source: str = "ours") -> list[pathlib.Path]:
    """The programs of a CMake project, one for each target that it links."""
    (folder / "CMakeLists.txt").write_text(PROJECT.format(obtain=obtain, ways=" ".join(ways), programs=PROGRAMS, source=source))
    run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", *options)
    run("cmake", "--build", folder / "build")
    return [folder / "build" / way.replace("::", "-") for way in ways]


ALL = ["hakozuna::hakozuna", "hakozuna::static", "hakozuna::prefix"]


def test_find_package(tree, tmp_path):
    obtain = "find_package(hakozuna 0.1 CONFIG REQUIRED)"
    programs = build_project(tmp_path, obtain, [*ALL, "hakozuna::hz4-static"], f"-DCMAKE_PREFIX_PATH={tree}", "-DCMAKE_C_FLAGS=-flto -O2")
    assert [run(program).partition(" overrides")[0] for program in programs] == [*["engine=hz3 lane=scale"] * 3, "engine=hz4 lane=default"]


def test_find_package_for_a_program_that_knows_nothing_of_it(tree, tmp_path):
    ways = ["hakozuna::hakozuna", "hakozuna::static"]
    options = (f"-DCMAKE_PREFIX_PATH={tree}", "-DCMAKE_C_FLAGS=-flto -O2")
    for program in build_project(tmp_path, "find_package(hakozuna CONFIG REQUIRED)", ways, *options, source="plain"):
        shown = subprocess.run([program], env={"HAKOZUNA_SHOW_CONFIG": "2"}, capture_output=True, text=True, check=True)
        assert CONFIG in shown.stderr


def test_find_package_refuses_another_version(tree, tmp_path):
    with pytest.raises(AssertionError, match='compatible with requested version "1.0"'):
        build_project(tmp_path, "find_package(hakozuna 1.0 CONFIG REQUIRED)", ALL, f"-DCMAKE_PREFIX_PATH={tree}")


def test_add_subdirectory(tmp_path):
    """The sources as a part of another project: no tests, nothing to install, and no warning ends the build."""
    programs = build_project(tmp_path, f"add_subdirectory({ROOT} hakozuna)", ALL, "-DCMAKE_C_FLAGS=-Wconversion -Wundef -flto")
    assert all(run(program).startswith(CONFIG) for program in programs)
    assert not list((tmp_path / "build").rglob("*gtest*"))
    run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.slow
def test_fetch_content_with_options(tmp_path):
    obtain = f"""include(FetchContent)
set(HAKOZUNA_OVERRIDE OFF)
set(HAKOZUNA_LANES hz4)
FetchContent_Declare(hakozuna SOURCE_DIR {ROOT})
FetchContent_MakeAvailable(hakozuna)"""
    (program,) = build_project(tmp_path, obtain, ["hakozuna::prefix"])
    assert run(program).startswith("engine=hz4 lane=default")
    assert not list((tmp_path / "build").rglob("libhakozuna.*"))


@pytest.mark.parametrize("package", ["hakozuna", "hakozuna-static"])
def test_meson(tree, tmp_path, package):
    page = (ROOT / "docs/install.md").read_text()
    assert "dependency('hakozuna-static')" in page
    (tmp_path / "plain.c").write_text((PROGRAMS / "plain.c").read_text())
    lines = f"project('app', 'c')\nexecutable('app', 'plain.c', dependencies: dependency('{package}'))\n"
    (tmp_path / "meson.build").write_text(lines)
    run("meson", "setup", tmp_path / "build", tmp_path, "-Db_lto=true", PKG_CONFIG_PATH=f"{tree}/lib/pkgconfig")
    run("meson", "compile", "-C", tmp_path / "build")
    shown = subprocess.run([tmp_path / "build/app"], env={"HAKOZUNA_SHOW_CONFIG": "2"}, capture_output=True, text=True, check=True)
    assert CONFIG in shown.stderr
