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

from hakobench import programs
from hakobench.process import status_text
from hakobench.project import BIN_DIR, public_path
from hakobench.trace import raw
from hakobench.trace.events import TraceError

RECORDER = BIN_DIR / "libhakotrace.so"
LARGEST, FIRST = "largest", "first"


@dataclasses.dataclass(frozen=True)
class Process:
    """One recorded process, or one program that it executed: `image` counts those from 0. `records` is about the number
    of its calls."""

    path: pathlib.Path
    header: raw.Header
    image: int
    records: int


@dataclasses.dataclass(frozen=True)
class Capture:
    """`ended` is empty when the program ended well. `processes` are in the order of their first appearance; `pid` is
    that of the program itself. `unreadable` has an error for each unusable file."""

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
    """Leaves Ctrl-C to the program, which may end or go on; the calls made until then are kept. Where SIGINT is ignored,
    the program starts with it ignored too."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def scratch(beside: pathlib.Path, kept: Callable[[pathlib.Path], None]) -> Iterator[pathlib.Path]:
    """A directory for the recorder's files, on the disk of the result, because /tmp is memory on many machines. After
    an error the files stay, because the program may have run for hours; `kept` gets their place."""
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


def run(argv: Sequence[str], directory: pathlib.Path, recorder: pathlib.Path | None = None, quiet: bool = False) -> Capture:
    """Runs the program to its end, with this process's input and output, or `quiet` with neither. Raises ValueError without the recorder, and
    OSError when the program cannot start."""
    if recorder is None:
        programs.build_missing(BIN_DIR)
        recorder = RECORDER
    if not recorder.is_file():
        raise ValueError(f"no recorder '{public_path(recorder)}'; 'make build-release' builds it")
    preload = ":".join([str(recorder.absolute()), *filter(None, [os.environ.get("LD_PRELOAD")])])
    environment = os.environ | {"LD_PRELOAD": preload, "HAKOTRACE_FILE": str(directory.absolute() / "raw")}
    with _program_decides():
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} if quiet else {}
        process = subprocess.Popen(list(argv), env=environment, **streams)
        try:
            status = process.wait()
        except BaseException:  # SIGTERM and SIGHUP reach only this process
            process.kill()
            process.wait()
            raise
    processes, unreadable = _find(directory)
    ended = "" if status == 0 else status_text(status)
    return Capture(process.pid, status, ended, tuple(processes), tuple(unreadable))


def choose(capture: Capture, wanted: str) -> Process:
    """The process to keep: the one with most calls, the program itself, or the largest of that name. Raises ValueError
    that names all recorded processes."""
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
