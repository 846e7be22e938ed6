"""Runs one program under an allocator, with a time limit and a watcher, and reads the usage of its children."""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

READ_SECONDS = 2.0  # to read the rest of the pipes; a daemon that left the group can hold them open for ever
_KEY_VALUE = re.compile(r"(?:^|\s)([a-z_0-9]+)=(\S+)")


@dataclasses.dataclass
class Ended:
    """How a process ended. The cpu seconds include those of the children it waited for. `timed_out`: it was killed.
    There is no peak RSS, because the kernel's figure contains the size that this process had when it forked."""

    status: int
    stdout: str
    stderr: str
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    timed_out: bool

    @property
    def failure(self) -> str:
        """Empty after a good end, else the way it ended and its last lines of output."""
        found = self.stderr.strip().splitlines()
        last_words = f": {found[-1]}" if found else ""
        if self.timed_out:
            return f"no end after {self.wall_seconds:.0f} s{last_words}"
        return status_text(self.status) + last_words if self.status != 0 else ""


def status_text(status: int) -> str:
    """`status` as subprocess returns it: a negative number is a signal."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
    return f"exit code {status}"


def key_values(text: str) -> dict[str, str]:
    """All key=value words of a workload's output; for a repeated key the last one."""
    return dict(_KEY_VALUE.findall(text))


def prepare(cpus: Sequence[int], confine: Callable[[], None] | None = None) -> Callable[[], None] | None:
    """A preexec_fn that binds the child to `cpus`, if any, and then calls `confine`; None when there is nothing to do."""
    steps = [lambda: os.sched_setaffinity(0, cpus)] if cpus else []
    steps += [confine] if confine else []
    return (lambda: [step() for step in steps]) if steps else None


def kill_group(process: subprocess.Popen) -> None:
    """Kills a process that leads its own session, with all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout: float,
    cwd: pathlib.Path | None = None,
    cpus: Sequence[int] = (),
    discard_output: bool = False,
    stdin: int = subprocess.DEVNULL,
    watch: Callable[[int], None] | None = None,
    confine: Callable[[], None] | None = None,
) -> Ended:
    """Runs a program to its end, or kills its process group after `timeout` seconds. Calls `watch` with the pid right
    after the start, and `confine` in the child before it. Raises OSError when the program cannot start. The usage is that of this child alone (wait4)."""
    began = time.monotonic()
    out = subprocess.DEVNULL if discard_output else subprocess.PIPE
    process = subprocess.Popen(
        argv, env=dict(environment), cwd=cwd, stdin=stdin, stdout=out, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True, preexec_fn=prepare(cpus, confine),
    )  # fmt: skip
    texts: dict[str, str] = {}
    streams = {"stdout": process.stdout, "stderr": process.stderr}
    readers = [
        threading.Thread(target=lambda n=name, s=stream: texts.__setitem__(n, s.read()), daemon=True)
        for name, stream in streams.items()
        if stream is not None
    ]
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        kill_group(process)

    timer = threading.Timer(timeout, expire)
    try:
        for thread in [*readers, timer]:
            thread.start()
        if watch is not None:
            watch(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        kill_group(process)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)
        raise
    finally:
        timer.cancel()
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    kill_group(process)  # a process left in the background would disturb the next run
    for reader in readers:
        reader.join(READ_SECONDS)
    return Ended(
        process.returncode, texts.get("stdout", ""), texts.get("stderr", ""), wall, usage.ru_utime, usage.ru_stime,
        expired.is_set(),
    )  # fmt: skip
