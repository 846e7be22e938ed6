"""Ways to get hakozuna into a program, each from an installed tree or from the sources, as a user would.

A way is right if the program prints the configuration string, and if hz_free accepts blocks of malloc and strdup
(programs/ours.c). `make test-packages` runs all of them, `make test` those that are not marked as slow.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
CONFIG = "engine=hz3 lane=scale overrides=none version="


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs with HZ_SLOW=1, which `make test-packages` sets")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HZ_SLOW") == "1":
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="slow; `make test-packages` runs it"))


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


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What `cmake --install` writes."""
    assert (BUILD / "lib/libhakozuna.a").is_file(), "nothing to install; `make libs` builds it"
    return install(tmp_path_factory.mktemp("tree"))
