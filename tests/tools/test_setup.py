"""tools/setup finds missing packages, including packages that dpkg does not know."""

import os
import pathlib
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/setup"


@pytest.fixture
def check(tmp_path):
    """Runs `tools/setup --check` where dpkg-query prints `lines` and exits with `status`."""

    def run(lines: str, status: int) -> subprocess.CompletedProcess:
        fake = tmp_path / "dpkg-query"
        fake.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}END\nexit {status}\n")
        fake.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run([TOOL, "--check"], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})

    return run


def test_packages_that_dpkg_does_not_know_are_missing(check):
    run = check("cmake installed\n", 1)
    assert run.returncode == 1
    assert run.stderr.startswith("tools/setup: missing; as root: apt-get install --no-install-recommends ")
    assert " clang-format " in run.stderr
    assert " cmake " not in run.stderr


def test_removed_packages_are_missing(check):
    run = check("redis-server config-files\n", 0)
    assert run.returncode == 1
    assert " redis-server " in run.stderr


def test_nothing_is_missing_when_all_are_installed(check):
    names = check("", 1).stderr.split("--no-install-recommends ", 1)[1].split()
    run = check("".join(f"{name} installed\n" for name in names), 0)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
