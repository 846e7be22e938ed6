"""Command line programs give the same results with and without the preload."""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, Preload, required

PERL = r"""
use strict; use warnings;
my (%words, @rows);
for my $i (1 .. 120_000) {
    my $key = "key" . ($i * 7919 % 65537);
    push @{ $words{$key} }, $i x (1 + $i % 5);
    delete $words{"key" . ($i * 31 % 65537)} if $i % 3 == 0;
}
@rows = map { $_ . ":" . join(",", @{ $words{$_} }) } sort keys %words;
my $sum = 0;
$sum = ($sum * 33 + unpack("%32C*", $_)) % 4294967291 for @rows;
print scalar(@rows), " $sum\n";
"""

SQL = """
PRAGMA journal_mode = MEMORY;
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, weight REAL, payload BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO items SELECT i, 'item ' || (i * 7919 % 60000), i * 0.5, zeroblob(i % 300) FROM n;
CREATE INDEX by_name ON items (name);
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT name || ' of weight ' || weight FROM items WHERE id % 7 = 0;
UPDATE items SET payload = zeroblob(1000 + id % 3000) WHERE id % 5 = 0;
DELETE FROM items WHERE id % 3 = 0;
SELECT count(*), sum(length(payload)), max(name) FROM items;
SELECT count(*) FROM words WHERE words MATCH 'item NOT weight';
SELECT a.name, group_concat(b.id) FROM items a JOIN items b ON a.name = b.name WHERE a.id < 200 GROUP BY a.name;
VACUUM;
PRAGMA integrity_check;
"""

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
    plain = preload.run(required("perl"), "-e", PERL, preload=False)
    assert preload.run("perl", "-e", PERL).stdout == plain.stdout


def test_sqlite(preload: Preload, tmp_path: Path) -> None:
    results = {}
    for name, preloaded in (("plain", False), ("preloaded", True)):
        database = tmp_path / f"{name}.db"
        results[name] = preload.run(required("sqlite3"), database, preload=preloaded, input=SQL).stdout
    assert results["preloaded"].splitlines()[-1] == "ok", "PRAGMA integrity_check"
    assert results["preloaded"] == results["plain"]


def write_tree(root: Path, seed: int, count: int) -> None:
    """Writes files of compressible text and of noise; each seed overwrites some files of the other seeds."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(500)]
    for index in chance.sample(range(3 * count), count):
        path = root / f"d{index % 17}" / f"file{index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if index % 3 == 0:
            path.write_bytes(chance.randbytes(chance.randrange(60_000)))
        else:
            path.write_text(" ".join(chance.choices(words, k=chance.randrange(20_000))))


def digest(root: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts):
        total.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return total.hexdigest()


def test_tar_and_threaded_xz(preload: Preload, tmp_path: Path) -> None:
    required("tar"), required("xz")
    source, target = tmp_path / "source", tmp_path / "target"
    write_tree(source, 1, 300)
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
        write_tree(tree, number, 60)
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


def test_compiler_makes_the_same_object(preload: Preload, tmp_path: Path) -> None:
    objects = []
    for preloaded in (False, True):
        output = tmp_path / f"large{preloaded:d}.o"
        command = [required("g++"), "-std=c++17", "-O2", "-frandom-seed=1", "-c", PROGRAMS / "large.cc", "-o", output]
        preload.run(*command, preload=preloaded, least_processes=3)  # g++, cc1plus, as
        objects.append(output.read_bytes())
    assert objects[0] == objects[1]
