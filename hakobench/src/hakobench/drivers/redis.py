"""Runs redis-server under the allocator, with load from redis-benchmark or kv_load over a unix socket.

The row's args are the load's command line. params:
    idle_ms = 2000        the wait between the deletion of all keys and the reading of the RSS; default 0
    snapshot = "yes"      the load has redis-server fork and write a dump (kv_load --snapshot); the row's figures get
                          fork_us (the time of the fork) and copied_kb (what both processes have of their own after it)
    io_threads = 2        that many threads of the server read and write, and what a client deletes is freed by another
                          thread; default: one thread does all
    share_cpu = "yes"     the load runs on the server's cpus: see app.Server.load
After FLUSHALL Debian's redis purges by mallctl, which only jemalloc has. Use `kv_load --delete-all` to see what an
allocator gives back by itself: it leaves nothing to flush.
"""

import csv
import io
import pathlib

from hakobench import process
from hakobench.drivers import app
from hakobench.drivers.job import Job, Outcome
from hakobench.rows import Row

SOCKET = "redis.sock"
SERVER_OPTIONS = (
    "--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no", "--loglevel", "warning",
)  # fmt: skip
SNAPSHOT_OPTIONS = ("--rdbcompression", "no")  # it would measure the processor's way with values that do not compress
THREADS_OPTIONS = ("--io-threads-do-reads", "yes", "--lazyfree-lazy-user-del", "yes")
LOOK_SECONDS = 0.05
LOADS = {
    "redis-benchmark": lambda args: ["-s", SOCKET, "--csv", *args],  # its options come first, a command can follow
    app.KV_LOAD: lambda args: [*args, SOCKET, "--protocol=redis"],
}
_BENCHMARK_COLUMNS = {"requests_per_s": ("rps", 1), "p50_us": ("p50_latency_ms", 1000), "p99_us": ("p99_latency_ms", 1000)}


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    return app.missing_server(row, bin_dir)


def parse_benchmark(text: str) -> dict[str, str]:
    """The figures of the last test that `redis-benchmark --csv` printed; the tests before it are preparation.

    Raises FailedError that says what is wrong with the output."""
    # Warnings can stand on lines of their own before the header.
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"test",')), None)
    if start is None:
        raise app.FailedError("redis-benchmark printed no CSV header")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    if not rows:
        raise app.FailedError("redis-benchmark ran no test")
    figures = {}
    for name, (column, factor) in _BENCHMARK_COLUMNS.items():
        try:
            value = float(rows[-1][column]) * factor
        except (KeyError, TypeError, ValueError) as error:
            found = rows[-1].get(column)
            raise app.FailedError(f"redis-benchmark: {column} of {rows[-1]['test']} is '{found}', no number") from error
        figures[name] = f"{value:.2f}"
    if float(figures["requests_per_s"]) <= 0:
        raise app.FailedError(f"redis-benchmark: {rows[-1]['test']} made {figures['requests_per_s']} requests/s")
    return figures


class Client:
    """One connection, for simple commands."""

    def __init__(self, server: app.Server):
        self._server = server
        self._socket = server.connect()
        self._stream = self._socket.makefile("rb")

    def ask(self, command: str) -> str:
        """The reply to an inline command; the text of a bulk reply. Raises FailedError for an error or no reply."""
        self._socket.settimeout(self._server.seconds_left())
        try:
            self._socket.sendall(f"{command}\r\n".encode())
            line = self._stream.readline().decode(errors="replace").rstrip("\r\n")
            if line.startswith("$") and line[1:].isdecimal():
                return self._stream.read(int(line[1:]) + 2).decode(errors="replace")
        except OSError as error:
            self._server.stay_up(0.2)
            raise app.FailedError(f"redis-server does not answer {command}: {error}") from error
        if line[:1] not in ("+", ":"):
            self._server.stay_up(0 if line else 0.2)
            raise app.FailedError(f"redis-server answered {command} by '{line}'")
        return line[1:]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def _check(client: Client, has_keys: bool) -> None:
    """Raises FailedError when the server replied with an error during the load, or with `has_keys` has no keys."""
    if has_keys and client.ask("DBSIZE") == "0":
        raise app.FailedError("redis-server has no keys after the load")
    errors = [line for line in client.ask("INFO stats").splitlines() if line.startswith("total_error_replies:")]
    if errors != ["total_error_replies:0"]:
        raise app.FailedError(f"redis-server gave error replies: {' '.join(errors) or 'unknown number'}")


def _flush(client: Client) -> None:
    """Deletes the keys that the load has left."""
    if client.ask("DBSIZE") != "0":
        client.ask("FLUSHALL")
        if client.ask("DBSIZE") != "0":
            raise app.FailedError("redis-server has keys after FLUSHALL")


def _info(client: Client, section: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in client.ask(f"INFO {section}").splitlines())
    return {name: value for name, _, value in pairs}


def _snapshot_figures(server: app.Server, client: Client) -> dict[str, str]:
    """Waits for the end of the dump that the load has asked for. Raises FailedError when it failed."""
    while (persistence := _info(client, "persistence"))["rdb_bgsave_in_progress"] != "0":
        server.stay_up(LOOK_SECONDS)
        server.seconds_left()
    if persistence["rdb_last_bgsave_status"] != "ok" or persistence["rdb_last_bgsave_time_sec"] == "-1":
        raise app.FailedError("redis-server could not write its dump")
    copied = int(persistence["rdb_last_cow_size"]) // 1024
    return {"fork_us": _info(client, "stats")["latest_fork_usec"], "copied_kb": str(copied)}


def _options(row: Row) -> list[str]:
    """Those that the row's params add to the server's."""
    options = list(SNAPSHOT_OPTIONS) if row.params.get("snapshot") == "yes" else []
    if "io_threads" in row.params:
        options += ["--io-threads", str(row.params["io_threads"]), *THREADS_OPTIONS]
    return options


def _measure(job: Job, outcome: Outcome, server: app.Server, load: list[str]) -> None:
    client = Client(server)
    try:
        if client.ask("PING") != "PONG":
            raise app.FailedError("redis-server does not answer PING by PONG")
        ended = server.load(load)
        outcome.output = ended.stdout + ended.stderr
        is_benchmark = job.args[0] == "redis-benchmark"
        if not job.row.discard_output:
            outcome.figures = parse_benchmark(ended.stdout) if is_benchmark else process.key_values(ended.stdout)
        outcome.figures["wall_seconds"] = f"{ended.wall_seconds:.6f}"
        if job.row.params.get("snapshot") == "yes":
            outcome.figures |= _snapshot_figures(server, client)
        _check(client, is_benchmark)  # kv_load has checked its keys itself
        _flush(client)
    finally:
        client.close()
    outcome.figures |= app.idle_figures(job, server) | server.rss_figures() | server.stop()


def run(job: Job) -> Outcome:
    outcome = Outcome("")

    def work() -> None:
        glibc = app.glibc_settings(job.environment)
        argv = [app.program_path(job, job.row.workload), *SERVER_OPTIONS, *_options(job.row)]
        load = app.load_argv(job, LOADS)
        outcome.command = f"{app.shown(argv, environment=glibc)} & {app.shown(load)}"
        with app.Server(job, argv, job.environment | glibc, SOCKET) as server:
            _measure(job, outcome, server, load)

    return app.guarded(outcome, work)
