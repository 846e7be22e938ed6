"""tools/setup finds missing packages, including packages that dpkg does not know."""

import os
import pathlib
import shutil
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/setup"


@pytest.fixture
def check(tmp_path):
    """Runs `tools/setup --check` where dpkg-query prints `lines` and exits with `status`."""

    def run(lines: str, status: int, *words: str) -> subprocess.CompletedProcess:
        fake = tmp_path / "dpkg-query"
        fake.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}END\nexit {status}\n")
        fake.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run([TOOL, "--check", *words], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})

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


def test_apps_are_asked_for_unless_their_command_is_there(tmp_path):
    """Only `tools/setup apps` wants them, and a command that came in another way will do."""
    for name in ("bash", "awk", "sort", "comm", "mktemp", "rm", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name in ("dpkg-query", "go"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    command, environment = [TOOL, "--check"], {**os.environ, "PATH": str(tmp_path)}
    plain = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    apps = subprocess.run([*command, "apps"], capture_output=True, text=True, check=False, env=environment)
    assert " ffmpeg " in apps.stderr and " golang-go " not in apps.stderr
    assert " ffmpeg " not in plain.stderr and " cmake " in plain.stderr


def test_run_wants_little(check):
    names = check("", 1, "run").stderr.split("--no-install-recommends ", 1)[1].split()
    assert {"build-essential", "cmake", "redis-server"} <= set(names) and len(names) < 10
    assert check("".join(f"{name} installed\n" for name in names), 0, "run").returncode == 0


def test_an_unknown_argument_is_named():
    run = subprocess.run([TOOL, "app"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "tools/setup: unknown argument 'app'; allowed: run, apps, environments, packaging, --check\n")
