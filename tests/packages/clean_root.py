"""An empty Debian to install into: what debootstrap makes, kept in build/clean-root, and copies of it that tests may change."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest
from installing import ROOT, run

SUITE = "bookworm"
KEPT = ROOT / "build/clean-root"


def cannot_be_made() -> str:
    """Why this machine allows no clean root, or nothing."""
    if os.geteuid() != 0:
        return "wants root, for debootstrap and chroot"
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
    return done.stderr.strip()


needed = pytest.mark.skipif(bool(cannot_be_made()), reason=f"no clean root: {cannot_be_made()}")


@functools.cache
def minimal() -> pathlib.Path:
    """Debian with nothing beside what every Debian has. Made once, since that takes half a minute."""
    folder = KEPT / SUITE
    if not folder.is_dir():
        scratch = KEPT / f"{SUITE}.{os.getpid()}"  # two workers may make it at a time
        run("debootstrap", "--variant=minbase", SUITE, scratch)
        shutil.rmtree(scratch / "var/cache/apt/archives", ignore_errors=True)
        try:
            scratch.rename(folder)
        except OSError:
            shutil.rmtree(scratch)
    return folder


ENTER = """
import json, os, subprocess, sys
root, variables, *words = sys.argv[1:]
subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
os.chroot(root)
os.chdir("/")
os.execvpe(words[0], words, json.loads(variables))
"""


def call_in(folder: pathlib.Path, words: Sequence[object], variables: dict[str, str]) -> subprocess.CompletedProcess:
    """Runs a command in a root, with /proc and with these variables only. All that it starts ends with it."""
    (folder / "proc").mkdir(exist_ok=True)
    enter = [sys.executable, "-c", ENTER, str(folder), json.dumps(variables), *map(str, words)]
    order = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *enter]
    return subprocess.run(order, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


class CleanRoot:
    """A copy of the empty Debian."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        run("cp", "-a", f"{minimal()}/.", folder)
        shutil.copyfile("/etc/resolv.conf", folder / "etc/resolv.conf")

    def call(self, *words: object, **variables: str) -> subprocess.CompletedProcess:
        home = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/srv", "LC_ALL": "C.UTF-8"}
        settings = {**home, "DEBIAN_FRONTEND": "noninteractive", **variables}
        return call_in(self.folder, words, settings)

    def run(self, *words: object, **variables: str) -> str:
        """The output of a command. Raises AssertionError with all that it printed when it fails."""
        done = self.call(*words, **variables)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def apt_install(self, *packages: object) -> None:
        """Packages with what they need, from Debian or, with a path, from the root itself."""
        self.run("apt-get", "update", "-qq")
        self.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages)
