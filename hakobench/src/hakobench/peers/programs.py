"""Runs the programs that fetch and build: their output goes into a log, and a time limit ends them with their
children."""

import os
import pathlib
import shlex
import signal
import subprocess
import threading
from typing import Callable, TextIO

from hakobench.peers.errors import PeerError

# Settings of the caller's shell, or of a `make` around this, that would change the build.
_DROPPED = (
    "CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF "
    "CMAKE_GENERATOR CMAKE_BUILD_TYPE CARGO_TARGET_DIR DESTDIR"
).split()


def environment(**added: str) -> dict[str, str]:
    """The caller's environment without variables that would change a build, and with messages in English."""
    return {name: value for name, value in os.environ.items() if name not in _DROPPED} | {"LC_ALL": "C"} | added


def _kill_group(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended by itself


def run(
    command: list[str],
    log: TextIO,
    cwd: pathlib.Path,
    timeout_seconds: float,
    on_line: Callable[[], None] = lambda: None,
    shown: str = "",
    **added: str,
) -> None:
    """Runs a program to its end, and calls `on_line` with each line of output.

    `added` are environment variables; `shown` names the command in errors.

    Raises PeerError when the program is missing, fails or takes too long; its children die with it.
    """
    shown = shown or " ".join([pathlib.Path(command[0]).name, *command[1:2]])
    log.write(f"$ {shlex.join(command)}\n")
    log.flush()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(**added),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise PeerError(f"cannot start '{command[0]}': {error.strerror}") from error
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _kill_group(process)

    timer = threading.Timer(timeout_seconds, expire)
    timer.start()
    try:
        for line in process.stdout:
            log.write(line)
            on_line()
        code = process.wait()
    except BaseException:
        _kill_group(process)
        process.wait()
        raise
    finally:
        timer.cancel()
        process.stdout.close()
    if expired.is_set():
        raise PeerError(f"'{shown}' took more than {timeout_seconds:g} s")
    if code != 0:
        raise PeerError(f"'{shown}' ended with exit code {code}")
