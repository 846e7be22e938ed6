"""Builds the workloads, and small libraries to preload, for tests; needs only a C compiler and pytest."""

import fcntl
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench" / "workloads"
NAMES = sorted(path.stem for path in SOURCES.glob("*.c"))
_CC = os.environ.get("CC", "cc")
_FLAGS = ("-std=c11", "-O2", "-g", "-fno-builtin-malloc", "-pthread")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build_workloads(directory: pathlib.Path, *flags: str, names: list[str] = NAMES) -> pathlib.Path:
    """Builds workloads into `directory`; their common code is compiled once."""
    common = sorted((SOURCES / "common").glob("*.c"))
    objects = [directory / f"{path.stem}.o" for path in common]
    for source, target in zip(common, objects, strict=True):
        _run([_CC, *_FLAGS, *flags, "-c", "-o", str(target), str(source)])
    for name in names:
        program = [_CC, *_FLAGS, *flags, "-o", str(directory / name), str(SOURCES / f"{name}.c")]
        _run([*program, *map(str, objects)])
    return directory


def shared_workloads(factory: pytest.TempPathFactory) -> pathlib.Path:
    """All workloads. The first worker of a test run builds them for all workers."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, complete = base / "workloads", base / "workloads.complete"
    with (base / "workloads.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            folder.mkdir(exist_ok=True)
            build_workloads(folder)
            complete.touch()
    return folder


def build_library(path: pathlib.Path, code: str) -> pathlib.Path:
    """Builds a shared library from C code, which can call the next malloc as next_malloc after `#include "next.h"`."""
    (path.parent / "next.h").write_text(NEXT_H)
    source = path.with_suffix(".c")
    source.write_text(code)
    _run([_CC, *_FLAGS, "-fPIC", "-shared", "-o", str(path), str(source)])
    return path


# glibc's second names, because dlsym itself may allocate; with hakozuna behind the library they name hakozuna's functions.
NEXT_H = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
#define next_malloc __libc_malloc
#define next_free __libc_free
"""
