"""Programs under settings of the whole machine: overcommit, the limit of mappings, transparent huge pages, a memory cgroup.

`make test-system` runs them: as root, on a machine that nobody else uses, since every process gets these settings. They
are restored at the end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, TIMEOUT_SECONDS, Preload, compile_c

sys.path.append(str(ROOT / "tests" / "tools"))

from workload_programs import build_workloads  # from the folder that the line above adds

pytestmark = pytest.mark.skipif(
    os.environ.get("HZ_SYSTEM") != "1" or os.geteuid() != 0, reason="make test-system, as root: it changes the machine's settings"
)

VM = Path("/proc/sys/vm")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CGROUP = Path("/sys/fs/cgroup/memory")
SETTINGS = {
    "overcommit-guess": {VM / "overcommit_memory": "0"},
    "overcommit-always": {VM / "overcommit_memory": "1"},
    "overcommit-never": {VM / "overcommit_ratio": "80", VM / "overcommit_memory": "2"},
    "few-mappings": {VM / "max_map_count": "400"},
    "thp-never": {THP: "never"},
    "thp-always": {THP: "always"},
}
PYTHON = """
import threading
def work(kept):
    for turn in range(20):
        kept.append([str(i) * (i % 40) for i in range(20000)])
        del kept[:-2]
threads = [threading.Thread(target=work, args=([],)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""


def value_of(setting: Path) -> str:
    """What is written in the setting; of a list of choices, the chosen one."""
    text = setting.read_text().strip()
    return text[text.index("[") + 1 : text.index("]")] if "[" in text else text


@contextlib.contextmanager
def changed(settings: dict[Path, str]) -> Iterator[None]:
    before = {setting: value_of(setting) for setting in settings}
    try:
        for setting, value in settings.items():
            setting.write_text(value)
            assert value_of(setting) == value
        yield
    finally:
        for setting in reversed(settings):
            setting.write_text(before[setting])


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_workloads(tmp_path_factory.mktemp("workloads"), names=["resident", "threads"])


@pytest.mark.parametrize("name", SETTINGS)
def test_programs_run_under_the_setting(preload: Preload, workloads: Path, name: str) -> None:
    with changed(SETTINGS[name]):
        assert preload.run(sys.executable, "-c", PYTHON, variables={"PYTHONMALLOC": "malloc"}).stdout == "done\n"
        for shape in ("classes", "relay", "queues", "ended"):  # they verify the contents of their blocks
            preload.run(workloads / "resident", "8", "4", f"--shape={shape}", "--rounds=2000", "--idle=0")
        if name != "few-mappings":  # a stack and its guard are two mappings
            preload.run(workloads / "threads", "500", "100", "--idle=0")


@pytest.mark.parametrize("name", ["overcommit-guess", "overcommit-always", "overcommit-never"])
def test_what_glibc_refuses_is_refused(preload: Preload, tmp_path: Path, name: str) -> None:
    program = compile_c("space.c", tmp_path / "space")
    with changed(SETTINGS[name]):
        plain = subprocess.run([program, "refused"], capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS)
        assert preload.run(program, "refused").stdout == plain.stdout
    assert ("twice the memory, malloc: a block" in plain.stdout) == (name == "overcommit-always")


def test_few_mappings_refuse_and_do_not_end_the_program(preload: Preload) -> None:
    """3 MiB blocks until malloc returns NULL; then they are freed, and a small one is to be had."""
    program = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
held = []
while len(held) < 20000 and (block := libc.malloc(100 << 20)):
    held.append(block)
for block in held: libc.free(block)
print(len(held) > 100, libc.malloc(1000) is not None)
"""
    with changed({VM / "max_map_count": "400"}):
        assert preload.run(sys.executable, "-c", program).stdout == "True True\n"


@pytest.mark.skipif(not CGROUP.is_dir(), reason="no memory controller of cgroup v1")
def test_a_memory_cgroup_is_not_exceeded_by_what_rests(preload: Preload, workloads: Path) -> None:
    """Each program holds less than a third of the limit live; the kernel would kill it if too much rested."""
    group = CGROUP / f"hakozuna-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(128 << 20))
        join = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
        preload.run(*join, sys.executable, "-c", PYTHON, variables={"PYTHONMALLOC": "malloc"})
        for shape in ("classes", "queues", "relay", "sleepers", "ended"):
            preload.run(*join, workloads / "resident", "8", "4", f"--shape={shape}", "--rounds=2000", "--idle=0")
    finally:
        group.rmdir()


def test_the_settings_are_restored() -> None:
    before = value_of(VM / "overcommit_memory")
    with pytest.raises(ZeroDivisionError), changed({VM / "overcommit_memory": "1"}):
        raise ZeroDivisionError
    assert value_of(VM / "overcommit_memory") == before


def test_a_program_that_fails_is_noticed(preload: Preload, workloads: Path) -> None:
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        preload.run(workloads / "resident", "8", "4", "--shape=none")
