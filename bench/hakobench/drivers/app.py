"""What the drivers of real programs share: finding them, a server's life, and loads on it."""

import contextlib
import os
import pathlib
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from hakobench import process
from hakobench.drivers.job import Job, Outcome
from hakobench.project import public_path, public_text
from hakobench.rows import Row

KV_LOAD = "kv_load"  # programs of bench/apps
MEASURE_CHILD = "measure_child"
_BUILT = (KV_LOAD, MEASURE_CHILD)
PACKAGES = {
    "db_bench": "rocksdb-tools",
    "redis-benchmark": "redis-tools",
    "xz": "xz-utils",
}  # of programs whose Debian package has another name
RETRY_SECONDS = 0.002
FAILURE_LINES = 3  # of what a load generator says about its failure
# Preloading glibc by name puts its malloc in front of one that a program is linked with: Debian's redis-server
# brings jemalloc.
GLIBC_NAME = "libc.so.6"


class FailedError(Exception):
    """What went wrong in a run, as one line."""


def missing_program(name: str, bin_dir: pathlib.Path) -> str:
    """Why `name` (built to `bin_dir`, on PATH, or an absolute path) cannot be run; empty when it can."""
    if name in _BUILT:
        path = bin_dir / name
        return "" if os.access(path, os.X_OK) else f"no program '{public_path(path)}'; 'make bench' builds it"
    if shutil.which(name):
        return ""
    package = pathlib.Path(name).name
    return f"no {name}; 'apt-get install {PACKAGES.get(package, package)}'"


def program_path(job: Job, name: str) -> str:
    """Raises FailedError when it is not there."""
    found = str(job.bin_dir / name) if name in _BUILT else shutil.which(name)
    if not found:
        raise FailedError(missing_program(name, job.bin_dir))
    return found


def shown(words: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """A command as a reader would type it."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    words = [public_path(pathlib.Path(word)) if word.startswith("/") else word for word in words]
    return " ".join([*settings, shlex.join(words)])


def glibc_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What is to be added for programs that are linked with a malloc of their own."""
    return {} if "LD_PRELOAD" in environment else {"LD_PRELOAD": GLIBC_NAME}


def guarded(outcome: Outcome, work: Callable[[], None]) -> Outcome:
    """Runs `work` and tells what stopped it in `outcome`."""
    try:
        work()
    except (FailedError, OSError) as error:
        outcome.failure = public_text(str(error))
    return outcome


class Server:
    """A server under test: bound to job.cpus, in a process group of its own that ends with the `with` block.

    It runs in job.scratch, where its socket is called `socket_name`; relative names are never too long for a socket.
    """

    def __init__(self, job: Job, argv: Sequence[str], environment: Mapping[str, str], socket_name: str):
        self._job = job
        self._argv = list(argv)
        self._environment = dict(environment)
        self._socket_name = socket_name
        self._deadline = time.monotonic() + job.timeout
        self._log = job.scratch / "server.log"
        self._usage = (0.0, 0.0)
        self._status: int | None = None

    def __enter__(self) -> Self:
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    self._argv, env=self._environment, cwd=self._job.scratch, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, start_new_session=True, preexec_fn=process.bind(self._job.cpus),
                )  # fmt: skip
        except OSError as error:
            raise FailedError(f"cannot start '{public_path(pathlib.Path(self._argv[0]))}': {error.strerror}") from error
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
            self._job.watch(self._process.pid)
        except BaseException:
            process.kill_group(self._process)
            self._process.wait()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        process.kill_group(self._process)
        if self._status is None:
            self._reap()
        os.close(self._pidfd)

    @property
    def name(self) -> str:
        return pathlib.Path(self._argv[0]).name

    def seconds_left(self) -> float:
        """Of the row's time limit. Raises FailedError when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise FailedError(f"{self.name}: no end after {self._job.timeout:.0f} s{self._last_words()}")
        return left

    def connect(self) -> socket.socket:
        """A connection as soon as the server takes one. Raises FailedError when it ended or time is up."""
        folder = os.open(self._job.scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            while True:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(self.seconds_left())
                try:
                    connection.connect(f"/proc/self/fd/{folder}/{self._socket_name}")
                    return connection
                except OSError:
                    connection.close()
                self.stay_up(RETRY_SECONDS)
        finally:
            os.close(folder)

    def load(self, argv: Sequence[str]) -> process.Ended:
        """Runs a load generator beside it. Raises FailedError when either of them fails.

        With the param share_cpu = "yes" it runs on the server's cpus: a single client without pipeline takes turns with
        its server, and on two cpus the figure would be the time in which an idle cpu wakes up."""
        shares_cpu = self._job.row.params.get("share_cpu") == "yes"
        try:
            ended = process.run(
                argv, self._job.plain_environment, timeout=self.seconds_left(), cwd=self._job.scratch,
                cpus=self._job.cpus if shares_cpu else self._job.client_cpus,
            )  # fmt: skip
        except OSError as error:
            raise FailedError(f"cannot start '{public_path(pathlib.Path(argv[0]))}': {error.strerror}") from error
        # A client that lost its server ends before the server is gone for good.
        self.stay_up(0.2 if ended.failure else 0)
        if ended.failure:
            # redis-benchmark explains on stdout what is wrong with its arguments, before a long usage text.
            lines = ended.stderr.strip().splitlines()[-FAILURE_LINES:] or ended.stdout.strip().splitlines()[:1]
            words = "; ".join(lines)
            how = ended.failure if ended.timed_out or not words else f"{process.status_text(ended.status)}: {words}"
            raise FailedError(f"{pathlib.Path(argv[0]).name}: {how}")
        return ended

    def stay_up(self, seconds: float) -> None:
        """Lets the server be for that long. Raises FailedError when it ends meanwhile, or is gone already."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if poll.poll(seconds * 1000):
            self._reap()
            raise FailedError(f"{self.name} ended by itself: {process.status_text(self._status)}{self._last_words()}")

    def rss_figures(self) -> dict[str, str]:
        """The peak so far, and what it has now."""
        return {"final_rss_kb": str(self._memory_kb("VmRSS")), "peak_rss_kb": str(self._memory_kb("VmHWM"))}

    def _memory_kb(self, field: str) -> int:
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace")
        for line in status.splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise FailedError(f"{self.name} has no {field} in /proc/PID/status")

    def stop(self) -> dict[str, str]:
        """Asks it to end, which has to go well too. Returns the cpu seconds it has used."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(self.seconds_left() * 1000):
            raise FailedError(f"{self.name} does not end after SIGTERM{self._last_words()}")
        self._reap()
        if self._status not in (0, -signal.SIGTERM):
            raise FailedError(f"{self.name} ended badly: {process.status_text(self._status)}{self._last_words()}")
        user, system = self._usage
        return {
            "user_seconds": f"{user:.6f}",
            "system_seconds": f"{system:.6f}",
            "cpu_seconds": f"{user + system:.6f}",
        }

    def _reap(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = self._status = os.waitstatus_to_exitcode(status)
        self._usage = (usage.ru_utime, usage.ru_stime)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()}" if lines else ""


def load_argv(job: Job, loads: Mapping[str, Callable[[list[str]], list[str]]]) -> list[str]:
    """The load generator of a row: the first of its args. `loads` adds to the others what leads it to the socket.

    Raises FailedError when the row names a load that is not in `loads`, or none."""
    name = job.args[0] if job.args else ""
    if name not in loads:
        raise FailedError(f"the row's load is '{name}'; allowed: {', '.join(loads)}")
    return [program_path(job, name), *loads[name](job.args[1:])]


def missing_server(row: Row, bin_dir: pathlib.Path) -> str:
    """Of a row whose first argument is its load generator."""
    found = [missing_program(name, bin_dir) for name in (row.workload, *row.args[:1])]
    return next((why for why in found if why), "")


def idle_seconds(job: Job) -> float:
    """How long the server is left alone before its RSS is looked at: what users of a server see is what it keeps when
    the work is over."""
    return int(job.row.params.get("idle_ms", "0")) / 1000
