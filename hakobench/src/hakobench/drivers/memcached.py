"""Runs memcached under the allocator, with a memcached thread for each of its cpus. kv_load loads it over a unix
socket.

The row's params are `limit_mb`, the memory limit (default 1024), and idle_ms as for redis. The RSS after flush_all
contains all slabs, because memcached never gives them back."""

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
    """memcached refuses to run as root unless `-u root` allows it."""
    user = pwd.getpwuid(os.getuid()).pw_name
    threads, limit = max(1, len(job.cpus)), job.row.params.get("limit_mb", "1024")
    return ["-s", SOCKET, "-u", user, "-t", str(threads), "-m", limit]


def ask(server: app.Server, command: str, last_line: str) -> list[str]:
    """The lines of the reply before `last_line`. Raises FailedError when the reply ends otherwise."""
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
    """Raises FailedError when memcached evicted values: the row would then do other work."""
    evictions = [line for line in ask(server, "stats", "END") if line.startswith("STAT evictions ")]
    if evictions != ["STAT evictions 0"]:
        raise app.FailedError(f"memcached has evicted values: {' '.join(evictions) or 'unknown number'}")


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
            outcome.figures |= app.idle_figures(job, server) | server.rss_figures() | server.stop()

    return app.guarded(outcome, work)
