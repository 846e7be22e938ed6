"""What the tests of this folder share. Not in conftest.py, since other folders have modules of that name too."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
ABI = PROGRAMS.parent / "abi.txt"
CONFIG = "engine=hz3 lane=scale overrides=none version="


def run(*command: object, **variables: str) -> str:
    """The output of a command. Raises AssertionError with all that it printed when it fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKOZUNA_", "LD_", "PKG_CONFIG"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=kept | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(prefix: pathlib.Path, *options: str) -> pathlib.Path:
    run("cmake", "--install", BUILD, "--prefix", prefix, *options)
    return prefix


def make_packages(preset: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """The packages of a preset for cpack, in `folder`. Several tests want them, and may run at a time."""
    build = ROOT / "build" / preset
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cmake", "--preset", preset, "-S", ROOT)
        run("cmake", "--build", build, "--target", "libs")
        run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder)
    return [path for path in folder.iterdir() if path.suffix in {".deb", ".ddeb", ".rpm"}]


def shown_configuration(*command: object) -> str:
    """What a program prints that runs under the library."""
    variables = {"HAKOZUNA_SHOW_CONFIG": "2", "PATH": "/usr/bin:/bin"}
    shown = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=True).stderr
    return shown[shown.index("engine=") :]


def linked_configuration(lib: pathlib.Path, package: str, program: pathlib.Path) -> str:
    """What a program prints that is linked as pkg-config says. `lib` has the libraries and `package`."""
    flags = run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=f"{lib}/pkgconfig")
    run("gcc", "-flto", PROGRAMS / "ours.c", *shlex.split(flags), f"-Wl,-rpath,{lib}", "-o", program)
    return run(program)


def abi(library: pathlib.Path) -> list[str]:
    """What a program can take from the library: names and versions."""
    rows = (line.split() for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines())
    return sorted(row[2].replace("@@", "@") for row in rows if row[1] != "A")
