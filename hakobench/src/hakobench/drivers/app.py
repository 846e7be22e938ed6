"""What the drivers of real programs share: finding a program, the life of a server, and load on it."""

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
PIPELINE = "pipeline"
TABLE_JOIN = "table_join"
_BUILT = (KV_LOAD, MEASURE_CHILD, PIPELINE, TABLE_JOIN)
PACKAGES = {
    "db_bench": "rocksdb-tools",
    "clang++": "clang",
    "java": "default-jdk-headless",
    "node": "nodejs",
    "redis-benchmark": "redis-tools",
    "xz": "xz-utils",
}  # the Debian packages whose name is not the program's
RETRY_SECONDS = 0.002
FAILURE_LINES = 3  # of a load generator's error message
# Preloaded by name, glibc's malloc comes before a malloc that the program is linked with: Debian's redis-server is
# linked with jemalloc.
GLIBC_NAME = "libc.so.6"


class FailedError(Exception):
    """A run failed; the text says why in one line."""


def missing_program(name: str, bin_dir: pathlib.Path) -> str:
    """Why `name` (built in `bin_dir`, on PATH, or an absolute path) cannot run; empty when it can."""
    if name in _BUILT:
        path = bin_dir / name
        return "" if os.access(path, os.X_OK) else f"no program '{public_path(path)}'; 'make bench' builds it"
    if shutil.which(name):
        return ""
    package = pathlib.Path(name).name
    return f"no {name}; 'apt-get install {PACKAGES.get(package, package)}'"


def program_path(job: Job, name: str) -> str:
    """Where the program is. Raises FailedError when it is missing."""
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
    """The settings that put glibc's malloc before one that the program is linked with."""
    return {} if "LD_PRELOAD" in environment else {"LD_PRELOAD": GLIBC_NAME}


def guarded(outcome: Outcome, work: Callable[[], None]) -> Outcome:
    """Runs `work`, and puts the reason into `outcome` when it fails."""
    try:
        work()
    except (FailedError, OSError) as error:
        outcome.failure = public_text(str(error))
    return outcome


class Server:
    """A server under test. It is bound to job.cpus, in its own process group, which ends with the `with` block.

    It runs in job.scratch and listens on `socket_name` there; a relative name is never too long for a socket.
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
                    stderr=log, start_new_session=True, preexec_fn=process.prepare(self._job.cpus, self._job.confine),
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
        """What is left of the row's time limit. Raises FailedError when nothing is."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise FailedError(f"{self.name}: no end after {self._job.timeout:.0f} s{self._last_words()}")
        return left

    def connect(self) -> socket.socket:
        """Connects as soon as the server accepts. Raises FailedError when the server ended or the time is up."""
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
        """Runs a load generator beside the server. Raises FailedError when either of them fails.

        With the param share_cpu = "yes" it runs on the server's cpus. A single client without pipeline and its server
        take turns, so on two cpus the figure would be the time an idle cpu takes to wake up."""
        shares_cpu = self._job.row.params.get("share_cpu") == "yes"
        try:
            ended = process.run(
                argv, self._job.plain_environment, timeout=self.seconds_left(), cwd=self._job.scratch,
                cpus=self._job.cpus if shares_cpu else self._job.client_cpus,
                discard_output=self._job.row.discard_output,
            )  # fmt: skip
        except OSError as error:
            raise FailedError(f"cannot start '{public_path(pathlib.Path(argv[0]))}': {error.strerror}") from error
        # A client that lost its server can end before the server does.
        self.stay_up(0.2 if ended.failure else 0)
        if ended.failure:
            # redis-benchmark prints what is wrong with its arguments on stdout, before a long usage text.
            lines = ended.stderr.strip().splitlines()[-FAILURE_LINES:] or ended.stdout.strip().splitlines()[:1]
            words = "; ".join(lines)
            how = ended.failure if ended.timed_out or not words else f"{process.status_text(ended.status)}: {words}"
            raise FailedError(f"{pathlib.Path(argv[0]).name}: {how}")
        return ended

    def stay_up(self, seconds: float) -> None:
        """Leaves the server alone for that long. Raises FailedError when it ends meanwhile or has ended already."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if poll.poll(seconds * 1000):
            self._reap()
            raise FailedError(f"{self.name} ended by itself: {process.status_text(self._status)}{self._last_words()}")

    def rss_figures(self) -> dict[str, str]:
        """The server's peak RSS so far, and its RSS now."""
        return {"final_rss_kb": str(self._memory_kb("VmRSS")), "peak_rss_kb": str(self._memory_kb("VmHWM"))}

    def _memory_kb(self, field: str) -> int:
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace")
        for line in status.splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise FailedError(f"{self.name} has no {field} in /proc/PID/status")

    def stop(self) -> dict[str, str]:
        """Ends the server by SIGTERM and returns the cpu seconds it used. Raises FailedError on a bad end."""
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
    """The command of a row's load generator, which is the first of its args. `loads` adds the options for the socket.

    Raises FailedError when the row names no load, or one that is not in `loads`."""
    name = job.args[0] if job.args else ""
    if name not in loads:
        raise FailedError(f"the row's load is '{name}'; allowed: {', '.join(loads)}")
    return [program_path(job, name), *loads[name](job.args[1:])]


def missing_server(row: Row, bin_dir: pathlib.Path) -> str:
    """`missing` for a row whose first argument is its load generator."""
    found = [missing_program(name, bin_dir) for name in (row.workload, *row.args[:1])]
    return next((why for why in found if why), "")


def idle_figures(job: Job, server: Server) -> dict[str, str]:
    """Leaves the server alone for idle_ms, because its users see what it keeps after the work. The RSS at the start of
    that time, after a second of it, and at its end."""
    seconds = int(job.row.params.get("idle_ms", "0")) / 1000
    figures = {}
    for name, pause in (("end", 0.0), ("after1", min(1.0, seconds)), ("after5", max(0.0, seconds - 1.0))):
        server.stay_up(pause)
        figures[f"{name}_rss_kb"] = server.rss_figures()["final_rss_kb"]
    return figures
