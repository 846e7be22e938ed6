"""Runs memcached under the allocator, loaded by kv_load over a unix socket, with a thread for each cpu it may
use. The row's params: `limit_mb`, its memory limit (default 1024), and idle_ms as for redis. What flush_all leaves is what
memcached keeps: it never gives its slabs back."""

import os
import pathlib
import pwd

from hakobench import process
from hakobench.drivers import app
from hakobench.drivers.job import Job, Outcome
from hakobench.rows import Row

SOCKET = "memcached.sock"
LOADS = {app.KV_LOAD: lambda args: [*args, SOCKET, "--protocol=memcached"]}


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    return app.missing_server(row, bin_dir)


def server_options(job: Job) -> list[str]:
    """memcached refuses to run as root unless root is named."""
    user = pwd.getpwuid(os.getuid()).pw_name
    threads, limit = max(1, len(job.cpus)), job.row.params.get("limit_mb", "1024")
    return ["-s", SOCKET, "-u", user, "-t", str(threads), "-m", limit]


def ask(server: app.Server, command: str, last_line: str) -> list[str]:
    """The lines of the reply before `last_line`. Raises FailedError on any other end."""
    connection = server.connect()
    lines = []
    try:
        connection.sendall(f"{command}\r\n".encode())
        with connection.makefile("r", encoding="ascii", errors="replace") as replies:
            for line in replies:
                lines.append(line.strip())
                if lines[-1] == last_line:
                    return lines[:-1]
                if lines[-1].split(" ")[0] in ("ERROR", "CLIENT_ERROR", "SERVER_ERROR"):
                    break
    except OSError as error:
        server.stay_up(0.2)
        raise app.FailedError(f"memcached does not answer {command}: {error}") from error
    finally:
        connection.close()
    server.stay_up(0.2)
    raise app.FailedError(f"memcached answered {command} by '{lines[-1] if lines else ''}'")


def _check(server: app.Server) -> None:
    """Values that were thrown out for want of memory would make other work of the same row."""
    evictions = [line for line in ask(server, "stats", "END") if line.startswith("STAT evictions ")]
    if evictions != ["STAT evictions 0"]:
        raise app.FailedError(f"memcached has thrown values out: {' '.join(evictions) or 'unknown number'}")


def run(job: Job) -> Outcome:
    outcome = Outcome("")

    def work() -> None:
        argv = [app.program_path(job, job.row.workload), *server_options(job)]
        load = app.load_argv(job, LOADS)
        glibc = app.glibc_settings(job.environment)
        outcome.command = f"{app.shown(argv, environment=glibc)} & {app.shown(load)}"
        with app.Server(job, argv, job.environment | glibc, SOCKET) as server:
            server.connect().close()
            ended = server.load(load)
            outcome.output = ended.stdout + ended.stderr
            outcome.figures = process.key_values(ended.stdout)
            outcome.figures["wall_seconds"] = f"{ended.wall_seconds:.6f}"
            _check(server)
            ask(server, "flush_all", "OK")
            server.stay_up(app.idle_seconds(job))
            outcome.figures |= server.rss_figures() | server.stop()

    return app.guarded(outcome, work)
