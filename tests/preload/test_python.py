"""CPython under the preload: parts of its own test suite, with pymalloc and with every object from malloc."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Preload, clean_environment, describe

MODULES = [
    "test_dict", "test_list", "test_set", "test_bytes", "test_unicode", "test_json", "test_queue", "test_thread",
    "test_threading_local", "test_fork1", "test_mmap", "test_weakref", "test_gc", "test_zlib",
]  # fmt: skip
# They take half of the time, and with Python's own allocator their small objects do not come from malloc.
SMALL_OBJECTS = {"test_set", "test_weakref", "test_gc"}

OWN_WORK = """
import concurrent.futures, hashlib, json, multiprocessing, pickle, random, re, subprocess, sys, zlib

def work(seed):
    chance = random.Random(seed)
    table = {}
    for i in range(10000):
        table[chance.randrange(3000)] = [chance.randbytes(chance.randrange(600)), str(i) * (i % 40)]
    text = json.dumps({str(key): [value[0].hex(), value[1]] for key, value in table.items()}, sort_keys=True)
    assert pickle.loads(pickle.dumps(table)) == table
    packed = zlib.compress(text.encode())
    assert zlib.decompress(packed).decode() == text
    return hashlib.sha256(re.sub("[a-f]+", "-", text).encode()).hexdigest()

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        by_threads = list(threads.map(work, range(4)))
    with multiprocessing.get_context("fork").Pool(2) as processes:
        by_processes = processes.map(work, range(4))
    assert by_threads == by_processes
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\\n"
    print(*by_threads)
"""


def python_with_test_suite() -> str | None:
    """An interpreter that has CPython's `test` package (on Debian: libpython3-testsuite), or None."""
    candidates = [sys.executable, shutil.which("python3"), "/usr/bin/python3"]
    candidates += sorted(str(path) for path in Path.home().glob(".pyenv/versions/*/bin/python3"))
    for candidate in filter(None, candidates):
        probe = subprocess.run(
            [candidate, "-c", "import test.test_dict, test.test_queue, sys; print(sys.executable)"],
            env=clean_environment(),
            capture_output=True,
            text=True,
        )
        if probe.returncode == 0:
            return probe.stdout.strip()
    return None


def failed_modules(output: str) -> set[str]:
    """The names that regrtest prints after 'N tests failed:'."""
    found = re.search(r"tests? failed:\n((?:    .*\n)+)", output)
    return set(found.group(1).split()) if found else set()


@pytest.mark.deep
@pytest.mark.parametrize("pythonmalloc", ["default", "malloc"])
def test_cpythons_own_tests(preload: Preload, pythonmalloc: str, tmp_path: Path) -> None:
    python = python_with_test_suite()
    if python is None:
        pytest.skip("no interpreter with the package `test` found (Debian: libpython3-testsuite)")
    if pythonmalloc == "default" and "hz4" in preload.library.name:
        pytest.skip("Python's own allocator leaves malloc little to do: one library is enough")
    modules = [name for name in MODULES if pythonmalloc == "malloc" or name not in SMALL_OBJECTS]
    command = [python, "-m", "test", "-j2", "--timeout", "200", *modules]
    variables = {"PYTHONMALLOC": pythonmalloc}
    result = preload.run(*command, check=False, least_processes=len(modules), variables=variables, cwd=tmp_path)
    assert re.search(r"== Tests result: \w+", result.stdout), describe(result)
    if result.returncode == 0:
        return
    plain = preload.run(*command, check=False, preload=False, variables=variables, cwd=tmp_path)
    only_here = failed_modules(result.stdout) - failed_modules(plain.stdout)
    assert failed_modules(result.stdout) and not only_here, describe(result)


@pytest.fixture(scope="module")
def own_work(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The script, and what it prints without the preload."""
    script = tmp_path_factory.mktemp("own_work") / "work.py"
    script.write_text(OWN_WORK)
    plain = subprocess.run(["/usr/bin/python3", script], env=clean_environment(), check=True, capture_output=True, text=True)
    assert len(plain.stdout.split()) == 4
    return script, plain.stdout


@pytest.mark.deep
@pytest.mark.parametrize("pythonmalloc", ["default", "malloc", "malloc_debug"])
def test_threads_processes_and_contents(preload: Preload, pythonmalloc: str, own_work: tuple[Path, str]) -> None:
    script, plain = own_work
    preloaded = preload.run("/usr/bin/python3", script, variables={"PYTHONMALLOC": pythonmalloc}, least_processes=2)
    assert preloaded.stdout == plain
