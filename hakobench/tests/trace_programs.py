"""Builds the recorder, the replay, and small programs to record, for the test_trace_* files."""

import os
import pathlib
import subprocess

from hakobench.process import key_values
from hakobench.project import ROOT
from hakobench.trace import capture, link, plan, raw
from hakobench.trace.events import Trace

TRACE = ROOT / "bench" / "trace"
WORKLOADS = ROOT / "bench" / "workloads"
_FLAGS = ("-O1", "-g", "-pthread", "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free")
# Uses no function of the C library that allocates, so the numbers of calls are those in the program's code.
PRELUDE = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static void *keep(void *block) { __asm__ volatile("" : "+r"(block)); return block; }
#define MUST(x) do { if (!(x)) _exit(99); } while (0)
"""


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build_tools(directory: pathlib.Path) -> pathlib.Path:
    """Builds libhakotrace.so and hakoreplay in `directory`."""
    compiler = [os.environ.get("CC", "cc"), "-std=c11", *_FLAGS]
    recorder = [str(TRACE / name) for name in ("recorder.c", "record.c", "next.c")]
    shared = ["-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec", "-ldl"]
    _run([*compiler, "-o", str(directory / "libhakotrace.so"), *recorder, *shared])
    sources = [TRACE / "replay.c", TRACE / "plan.c", *sorted((WORKLOADS / "common").glob("*.c"))]
    _run([*compiler, f"-I{WORKLOADS}", "-o", str(directory / "hakoreplay"), *map(str, sources), "-lm"])
    return directory


def build_program(path: pathlib.Path, code: str, compiler: str = "cc") -> pathlib.Path:
    """Builds a program. For C, `code` follows PRELUDE; a C++ program ("c++") is all in `code`."""
    source = path.with_suffix(".c" if compiler == "cc" else ".cc")
    source.write_text((PRELUDE if compiler == "cc" else "") + code)
    _run([compiler, *_FLAGS, "-o", str(path), str(source)])
    return path


def record(tools: pathlib.Path, directory: pathlib.Path, *argv: str | pathlib.Path) -> capture.Capture:
    """Runs argv under the recorder, which writes its files into the new folder `directory`."""
    directory.mkdir()
    return capture.run([str(word) for word in argv], directory, tools / "libhakotrace.so")


def only(found: capture.Capture) -> Trace:
    """The recording of a program with one process."""
    assert found.unreadable == ()
    assert len(found.processes) == 1
    return link.link(raw.read(found.processes[0].path))


def replay(
    tools: pathlib.Path, trace: Trace, directory: pathlib.Path, *arguments: str, library: pathlib.Path | None = None
) -> dict[str, str]:
    """The output of hakoreplay for the trace; it has to end well."""
    path = directory / "replay.plan"
    plan.write(path, trace)
    done = run_replay(tools, path, *arguments, library=library)
    assert (done.returncode, done.stderr) == (0, "")
    return key_values(done.stdout)


def run_replay(
    tools: pathlib.Path, path: pathlib.Path, *arguments: str, library: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"LD_PRELOAD": str(library)} if library else {})
    command = [str(tools / "hakoreplay"), str(path), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
