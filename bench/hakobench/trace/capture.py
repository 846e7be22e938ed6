"""Runs a program under the recorder."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence

from hakobench.process import status_text
from hakobench.project import BIN_DIR, public_path
from hakobench.trace import raw
from hakobench.trace.events import TraceError

RECORDER = BIN_DIR / "libhakotrace.so"
LARGEST, FIRST = "largest", "first"


@dataclasses.dataclass(frozen=True)
class Process:
    """One recorded process, or what one executed: `image` counts that from 0. `records` is about its calls."""

    path: pathlib.Path
    header: raw.Header
    image: int
    records: int


@dataclasses.dataclass(frozen=True)
class Capture:
    """`ended` is empty when the program ended well. `processes` in the order of their first appearance; `pid` is that
    of the program itself. `unreadable` are complaints about files that cannot be used."""

    pid: int
    status: int
    ended: str
    processes: tuple[Process, ...]
    unreadable: tuple[str, ...]


def _find(directory: pathlib.Path) -> tuple[list[Process], list[str]]:
    found, unreadable = [], []
    for path in sorted(directory.iterdir(), key=lambda path: (path.stat().st_ctime_ns, path.name)):
        try:
            header, records = raw.peek(path)
            found.append(Process(path, header, int(path.suffix[1:]), records))
        except TraceError as error:
            unreadable.append(str(error))
    return found, unreadable


@contextlib.contextmanager
def _program_decides() -> Iterator[None]:
    """Ctrl-C ends the program, if it wants to end; what it recorded until then is wanted."""
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def scratch(beside: pathlib.Path, kept: Callable[[pathlib.Path], None]) -> Iterator[pathlib.Path]:
    """A directory for what the recorder writes, on the disk of the result: /tmp is memory on many machines. When
    something fails, what was recorded stays, and `kept` is told where: the program may have run for hours."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix=".hakotrace-", dir=beside))
    try:
        yield directory
    except BaseException:
        if any(directory.iterdir()):
            kept(directory)
        else:
            directory.rmdir()
        raise
    shutil.rmtree(directory, ignore_errors=True)


def run(argv: Sequence[str], directory: pathlib.Path, recorder: pathlib.Path | None = None) -> Capture:
    """Runs to the end, with this process's input and output. Raises ValueError when the recorder is not there, OSError
    when the program cannot be started."""
    recorder = recorder or RECORDER
    if not recorder.is_file():
        raise ValueError(f"no recorder '{public_path(recorder)}'; 'make build-release' builds it")
    preload = ":".join([str(recorder.absolute()), *filter(None, [os.environ.get("LD_PRELOAD")])])
    environment = os.environ | {"LD_PRELOAD": preload, "HAKOTRACE_FILE": str(directory.absolute() / "raw")}
    with _program_decides():
        process = subprocess.Popen(list(argv), env=environment)
        try:
            status = process.wait()
        except BaseException:  # SIGTERM and SIGHUP reach this process alone
            process.kill()
            process.wait()
            raise
    processes, unreadable = _find(directory)
    ended = "" if status == 0 else status_text(status)
    return Capture(process.pid, status, ended, tuple(processes), tuple(unreadable))


def choose(capture: Capture, wanted: str) -> Process:
    """The process to keep: the one with most calls, the program itself, or the largest of that name. Raises
    ValueError that names those there are."""
    candidates = list(capture.processes)
    if not candidates:
        raise ValueError("nothing was recorded: the program allocates nothing, is linked statically, brings its own malloc, "
                         "or runs with privileges that forbid preloading")  # fmt: skip
    if wanted == FIRST:
        candidates = [one for one in candidates if one.header.pid == capture.pid][:1]
    elif wanted != LARGEST:
        candidates = [one for one in candidates if one.header.program == wanted]
    if not candidates:
        names = ", ".join(dict.fromkeys(one.header.program for one in capture.processes))
        raise ValueError(f"no recorded process is '{wanted}'; there are: {names} (or {LARGEST}, {FIRST})")
    return max(candidates, key=lambda one: one.records)
