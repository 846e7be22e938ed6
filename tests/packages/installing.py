"""What the tests of this folder share. Not in conftest.py, since other folders have modules of that name too."""

from __future__ import annotations

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
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
