"""Command line programs give the same results with and without the preload."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, Preload, required
from trees import digest, write_tree

TEXT = str(PROGRAMS / "large.cc")
OUTPUT_COMMANDS = [
    ["ls", "-lR", "/usr/include/linux"],
    ["sort", "--parallel=2", TEXT],
    ["awk", "{ n[$1]++ } END { for (k in n) s += n[k]; print s, length(n) }", TEXT],
    ["bash", "-c", "declare -A a; for i in {1..3000}; do a[$i]=$((i * i)); done; echo ${#a[@]} ${a[77]}; echo no >&2"],
    ["sed", "-n", "s/e/E/gp", TEXT],
    ["find", "/usr/include", "-name", "*.h", "-newer", "/etc/hostname"],
    ["cat", "/nonexistent"],
    ["gzip", "-9", "-c", "-n", TEXT],
]


@pytest.mark.parametrize("command", OUTPUT_COMMANDS, ids=lambda command: command[0])
def test_output_and_errors_are_unchanged(preload: Preload, command: list[str]) -> None:
    plain = preload.run(*command, check=False, preload=False)
    preloaded = preload.run(*command, check=False)
    assert preloaded.returncode == plain.returncode
    assert preloaded.stdout == plain.stdout
    assert preloaded.stderr == plain.stderr


def test_perl_hashes(preload: Preload) -> None:
    plain = preload.run(required("perl"), PROGRAMS / "hashes.pl", preload=False)
    assert preload.run("perl", PROGRAMS / "hashes.pl").stdout == plain.stdout


def test_sqlite(preload: Preload, tmp_path: Path) -> None:
    sql = (PROGRAMS / "items.sql").read_text()
    results = {}
    for name, preloaded in (("plain", False), ("preloaded", True)):
        database = tmp_path / f"{name}.db"
        results[name] = preload.run(required("sqlite3"), database, preload=preloaded, input=sql).stdout
    assert results["preloaded"].splitlines()[-1] == "ok", "PRAGMA integrity_check"
    assert results["preloaded"] == results["plain"]


def test_tar_and_threaded_xz(preload: Preload, tmp_path: Path) -> None:
    required("tar"), required("xz")
    source, target = tmp_path / "source", tmp_path / "target"
    write_tree(source, 1, 120)
    target.mkdir()
    archive = tmp_path / "all.tar.xz"
    script = f"set -o pipefail; tar -C '{source}' -cf - . | xz -T2 --block-size=1MiB -3 > '{archive}'"
    preload.run("bash", "-c", script, least_processes=3)
    preload.run("bash", "-c", f"set -o pipefail; xz -T2 -dc '{archive}' | tar -C '{target}' -xf -", least_processes=3)
    assert digest(target) == digest(source)
    subprocess.run(["xz", "-t", str(archive)], check=True)


def test_git(preload: Preload, tmp_path: Path) -> None:
    tree = tmp_path / "repository"
    tree.mkdir()
    author = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "gc.auto=0"]

    def git(*arguments: str, **options: object) -> str:
        return preload.run(required("git"), "-C", tree, *author, *arguments, **options).stdout

    git("init", "--quiet", "--initial-branch=main")
    for number in range(6):
        write_tree(tree, number, 30)
        git("add", "--all")
        git("commit", "--quiet", "-m", f"commit {number}")
    wanted = digest(tree)
    git("gc", "--prune=now", "--quiet", least_processes=3)
    git("fsck", "--full", "--strict")
    assert git("rev-list", "--count", "HEAD").strip() == "6"
    assert len(git("log", "--stat", "-p", "--no-renames").splitlines()) > 100
    clone = tmp_path / "clone"
    preload.run("git", "clone", "--quiet", f"file://{tree}", clone, least_processes=3)
    assert digest(clone) == wanted
    subprocess.run(["git", "-C", str(clone), "fsck", "--full"], check=True, capture_output=True)


@pytest.mark.deep
def test_compiler_makes_the_same_object(preload: Preload, tmp_path: Path) -> None:
    objects = []
    for preloaded in (False, True):
        output = tmp_path / f"large{preloaded:d}.o"
        command = [required("g++"), "-std=c++17", "-O2", "-frandom-seed=1", "-c", PROGRAMS / "large.cc", "-o", output]
        preload.run(*command, preload=preloaded, least_processes=3)  # g++, cc1plus, as
        objects.append(output.read_bytes())
    assert objects[0] == objects[1]
