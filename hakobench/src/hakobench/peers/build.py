"""Builds the library to preload from an unpacked crate, with gcc and the peer's own build program."""

import os
import pathlib
import shlex
import shutil
import subprocess
from typing import Callable, TextIO

from hakobench.peers import programs
from hakobench.peers.errors import PeerError
from hakobench.peers.recipes import Recipe

BUILD_SECONDS_MAX = 1200.0
JOBS = min(2, os.cpu_count() or 1)

# Error messages contain the names of source files: without this a library's hash would depend on its build folder.
_SAME_PATHS = "-ffile-prefix-map={source}=."

_CMAKE_LISTS = """cmake_minimum_required(VERSION 3.13)
project(peer C CXX ASM)
set(CMAKE_CXX_STANDARD 17)
find_package(Threads REQUIRED)
add_library(peer SHARED
{sources})
set_target_properties(peer PROPERTIES POSITION_INDEPENDENT_CODE ON OUTPUT_NAME {output})
target_include_directories(peer PRIVATE
{includes})
target_compile_options(peer PRIVATE {flags})
target_link_libraries(peer PRIVATE Threads::Threads ${{CMAKE_DL_LIBS}})
target_link_options(peer PRIVATE -Wl,-z,defs)
"""


def _cmake_lists(recipe: Recipe) -> str:
    output = pathlib.PurePosixPath(recipe.library).stem.removeprefix("lib")
    sources = "\n".join(f'    "${{SOURCE}}/{file}"' for file in recipe.sources)
    includes = "\n".join(f'    "${{SOURCE}}/{folder}"' for folder in recipe.includes)
    flags = f"{recipe.flags} {_SAME_PATHS.format(source='${SOURCE}')}"
    return _CMAKE_LISTS.format(sources=sources, includes=includes, output=output, flags=flags)


def _cmake(folder: str, build_type: str, options: tuple[str, ...], targets: tuple[str, ...]) -> list[list[str]]:
    configure = ["cmake", "-G", "Ninja", "-S", folder, "-B", "{build}", f"-DCMAKE_BUILD_TYPE={build_type}"]
    compilers = ["-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++"]
    build = ["cmake", "--build", "{build}", "-j", str(JOBS), "--target", *targets]
    return [[*configure, *compilers, *options], build]


def commands(recipe: Recipe) -> list[list[str]]:
    """The commands to run in the build's folder. {source} and {build} stand for folders, for the manifest."""
    if recipe.build == "configure":
        compilers = ["CC=gcc", "CXX=g++", f"CFLAGS={recipe.flags}", f"CXXFLAGS={recipe.flags}"]
        return [["sh", "./configure", *recipe.options, *compilers], ["make", f"-j{JOBS}", *recipe.targets]]
    if recipe.build == "cmake":
        options = (*recipe.options, f"-DCMAKE_C_FLAGS={_SAME_PATHS}", f"-DCMAKE_CXX_FLAGS={_SAME_PATHS}")
        return _cmake("{source}", "Release", options, recipe.targets)
    # Only the recipe's flags: a build type would add its own.
    return _cmake("{build}/project", "None", (*recipe.options, "-DSOURCE={source}"), ("peer",))


def shown_commands(recipe: Recipe) -> list[str]:
    """The commands for the manifest, and the flags when the commands do not contain them."""
    shown = [shlex.join(command) for command in commands(recipe)]
    return [*shown, f"flags: {recipe.flags} -fPIC -shared"] if recipe.build == "sources" else shown


def compiler_version() -> str:
    """The first line of `g++ --version`. Raises PeerError without one."""
    try:
        asked = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerError("needs 'g++', which is not here or does not run; tools/setup installs it") from error
    return asked.stdout.splitlines()[0]


def check_tools(recipe: Recipe) -> None:
    """Called before anything is fetched. Raises PeerError that names the missing tool."""
    missing = [tool for tool in recipe.tools if shutil.which(tool) is None]
    if missing:
        raise PeerError(f"needs '{missing[0]}', which is not here; tools/setup installs it")


def _prepare(recipe: Recipe, source: pathlib.Path, crate: pathlib.Path, build: pathlib.Path) -> pathlib.Path:
    """The folder to build in: `build`, or the sources themselves for a configure script."""
    if not source.is_dir():
        raise PeerError(f"the crate has no folder '{recipe.source}'")
    if recipe.build == "configure":
        if recipe.overlay:
            shutil.copytree(crate / recipe.overlay, source, dirs_exist_ok=True)
        return source
    build.mkdir()
    if recipe.build == "sources":
        (build / "project").mkdir()
        (build / "project" / "CMakeLists.txt").write_text(_cmake_lists(recipe))
    return build


def build(
    recipe: Recipe, crate: pathlib.Path, work: pathlib.Path, log: TextIO, on_line: Callable[[], None]
) -> pathlib.Path:
    """Builds the library somewhere in `work` and returns its path. Raises PeerError."""
    source = crate / recipe.source
    try:
        folder = _prepare(recipe, source, crate, work / "build")
    except (OSError, shutil.Error) as error:
        raise PeerError(f"cannot prepare the build: {error}") from error
    for command in commands(recipe):
        filled = [word.replace("{source}", str(source)).replace("{build}", str(folder)) for word in command]
        programs.run(filled, log, folder, BUILD_SECONDS_MAX, on_line)
    return folder / recipe.library
