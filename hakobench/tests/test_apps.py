"""Real programs as rows: the drivers read their output, report their failures, and run every row."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import resource
import select
import socketserver
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from workload_programs import build_library

from hakobench import allocators, machine, record, runner, suite
from hakobench.drivers import app, command, redis, rocksdb
from hakobench.drivers.job import Job, Outcome
from hakobench.drivers.registry import DRIVERS
from hakobench.project import BIN_DIR, ROOT
from hakobench.rows import METRICS, Row
from hakobench.watch import Watcher

LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
APPS = suite.load("apps")
SEEDS_REDIS = suite.load("seeds").select("redis-*")
RSS_APPS = suite.load("rss").select("@app")
GENERATOR = ROOT / "bench/apps/generate.py"
PYTHON_SCRIPTS = ("json_documents", "text_patterns", "object_graph", "dict_churn", "json_service", "postgres_queries", "syntax_trees")

RECORDED_REDIS = """\
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"LPUSH (needed to benchmark LRANGE)","892857.12","0.811","0.088","0.783","1.223","1.751","5.711"
"LRANGE_100 (first 100 elements)","66533.60","4.256","0.336","4.175","6.951","9.023","13.871"
"""
REDIS_HEADER = RECORDED_REDIS.splitlines()[0]
RECORDED_ROCKSDB = """\
DB path: [db]
fillrandom   :       2.451 micros/op 407828 ops/sec 0.245 seconds 100000 operations;   84.0 MB/s
Microseconds per write:
Count: 100000 Average: 2.4512  StdDev: 10.40
Percentiles: P50: 1.68 P75: 2.36 P99: 5.64 P99.9: 40.95 P99.99: 131.82
DB path: [db]
compact      :  172185.000 micros/op 5 ops/sec 0.172 seconds 1 operations;
DB path: [db]
readrandom   :       2.031 micros/op 492237 ops/sec 0.203 seconds 100000 operations;   64.2 MB/s (63293 of 100000 found)
Microseconds per read:
Percentiles: P50: 1.41 P75: 1.91 P99: 4.01 P99.9: 15.00 P99.99: 108.11
"""


def make_row(driver: str, workload: object, *args: str, timeout: float = 60, **params: str) -> Row:
    return Row("row", "a row", str(workload), driver, args, "wall_seconds", 1, (), params, timeout=timeout)


def make_job(
    row: Row, scratch: pathlib.Path, scale: float = 1, library: pathlib.Path | None = None,
    watch: Callable[[int], None] = lambda pid: None,
) -> Job:  # fmt: skip
    plain = allocators.Allocator("glibc").environment()
    environment = allocators.Allocator("one", library).environment()
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    args = row.scaled_args(scale)
    return Job(row, args, environment, plain, BIN_DIR, scratch, row.timeout, cpus[:1], cpus[-1:], watch)


def run(job: Job) -> Outcome:
    return DRIVERS[job.row.driver].run(job)


def script(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def is_gone(pid: int) -> bool:
    """Waits for the end of a killed process; False when it lives on."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = poll.poll(20_000)
    os.close(pidfd)
    return bool(ended)


# ---- what programs print ---------------------------------------------------------------------------


def test_redis_benchmark_last_test_counts() -> None:
    assert redis.parse_benchmark("WARNING: no CONFIG\n" + RECORDED_REDIS) == {
        "requests_per_s": "66533.60",
        "p50_us": "4175.00",
        "p99_us": "9023.00",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no CSV header"),
        ("Could not connect\n", "no CSV header"),
        (REDIS_HEADER + "\n", "ran no test"),
        (REDIS_HEADER + '\n"SET","fast","1","1","1","1","1","1"\n', "rps of SET is 'fast', no number"),
        (REDIS_HEADER + '\n"SET","100.0","1","1"\n', "p50_latency_ms of SET is 'None', no number"),
        (REDIS_HEADER + '\n"SET","0.00","1","1","1","1","1","1"\n', "SET made 0.00 requests/s"),
        ('"test","rps"\n"SET","10"\n', "p50_latency_ms of SET is 'None'"),
    ],
)
def test_redis_benchmark_broken_output(text: str, message: str) -> None:
    with pytest.raises(app.FailedError, match=message):
        redis.parse_benchmark(text)


def test_rocksdb_last_test_counts_and_result_names_all() -> None:
    assert rocksdb.parse(RECORDED_ROCKSDB) == {
        "requests_per_s": "492237",
        "p50_us": "1.41",
        "p99_us": "4.01",
        "result": "fillrandom:100000,compact:1,readrandom:63293-of-100000",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line with ops/sec"),
        (RECORDED_ROCKSDB.replace("ops/sec", "ops"), "no line with ops/sec"),
        (RECORDED_ROCKSDB.rpartition("Percentiles")[0], "1 lines of percentiles for 2 tests"),
    ],
)
def test_rocksdb_broken_output(text: str, message: str) -> None:
    with pytest.raises(app.FailedError, match=message):
        rocksdb.parse(text)


# ---- servers that go wrong -------------------------------------------------------------------------

LISTENS = """#!/usr/bin/python3
import os, signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("redis.sock")
listener.listen()
connection = listener.accept()[0]
connection.recv(100)
"""


def test_server_that_does_not_start(tmp_path: pathlib.Path) -> None:
    """The failure shows the server's last output. Under glibc, the malloc that the server is linked with is not
    used."""
    server = script(tmp_path / "server", "#!/bin/sh\necho first\necho \"no memory, preload=$LD_PRELOAD\" >&2\nexit 3\n")
    outcome = run(make_job(make_row("redis", server, "redis-benchmark"), tmp_path))
    assert outcome.failure == "server ended by itself: exit code 3: no memory, preload=libc.so.6"


def test_server_under_an_allocator_gets_only_that_preload(tmp_path: pathlib.Path) -> None:
    library = build_library(tmp_path / "nothing.so", "int nothing;\n")
    server = script(tmp_path / "server", "#!/bin/sh\necho \"preload=$LD_PRELOAD\"\nexit 3\n")
    outcome = run(make_job(make_row("redis", server, "redis-benchmark"), tmp_path, library=library))
    assert outcome.failure.endswith(f": preload={library}")


def test_server_that_cannot_be_started(tmp_path: pathlib.Path) -> None:
    server = script(tmp_path / "server", "no program\n")
    outcome = run(make_job(make_row("redis", server, "redis-benchmark"), tmp_path))
    assert outcome.failure == "cannot start 'server': Exec format error"


def test_server_that_never_listens_is_killed_with_its_children(tmp_path: pathlib.Path) -> None:
    server = script(tmp_path / "server", "#!/bin/sh\nsleep 1000 &\necho $! >child\nwait\n")
    pids: list[int] = []
    row = make_row("redis", server, "redis-benchmark", timeout=1)
    outcome = run(make_job(row, tmp_path, watch=pids.append))
    assert outcome.failure == "server: no end after 1 s"
    assert is_gone(pids[0])
    assert is_gone(int((tmp_path / "child").read_text()))


def test_server_is_killed_when_the_run_is_interrupted(tmp_path: pathlib.Path) -> None:
    pids: list[int] = []

    def interrupt(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(make_job(make_row("redis", "redis-server", "redis-benchmark"), tmp_path, watch=interrupt))
    assert is_gone(pids[0])


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "server ended by itself: killed by SIGSEGV"),
        ("connection.sendall(b'-ERR out of memory\\r\\n'); connection.recv(1)", "answered PING by '-ERR out of memory'"),
        ("connection.sendall(b'+PANG\\r\\n'); connection.recv(1)", "does not answer PING by PONG"),
    ],
)
def test_server_that_answers_badly(tmp_path: pathlib.Path, reply: str, message: str) -> None:
    server = script(tmp_path / "server", LISTENS + reply + "\n")
    outcome = run(make_job(make_row("redis", server, "redis-benchmark"), tmp_path))
    assert message in outcome.failure


def test_server_that_dies_under_load(tmp_path: pathlib.Path) -> None:
    reply = "connection.sendall(b'+PONG\\r\\n'); listener.accept(); os.kill(os.getpid(), signal.SIGABRT)\n"
    server = script(tmp_path / "server", LISTENS + reply)
    outcome = run(make_job(make_row("redis", server, "kv_load", "10", "50"), tmp_path))
    assert outcome.failure == "server ended by itself: killed by SIGABRT"


def test_server_that_dies_at_its_end(tmp_path: pathlib.Path) -> None:
    """A library can fail as late as at the end of the program."""
    library = build_library(
        tmp_path / "dies.so",
        "#include <stdlib.h>\n__attribute__((destructor)) static void die(void) { abort(); }\n",
    )
    row = make_row("redis", "redis-server", "redis-benchmark", "-t", "set", "-n", "100")
    outcome = run(make_job(row, tmp_path, library=library))
    assert outcome.failure.startswith("redis-server ended badly: killed by SIGABRT")


# ---- loads that go wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["kv_load", "0", "50"], "kv_load: exit code 2: kv_load: REQUESTS: '0' is not a whole number"),
        (["redis-benchmark", "--nonsense"], "redis-benchmark: exit code 1: Invalid option"),
        (["redis-benchmark", "-t", "nonsense"], "redis-benchmark ran no test"),
        (["redis-benchmark", "-n", "10", "GET"], "redis-benchmark: exit code 1: .*wrong number of arguments"),
        (["memslap"], "the row's load is 'memslap'; allowed: redis-benchmark, kv_load"),
        ([], "the row's load is ''; allowed: redis-benchmark, kv_load"),
    ],
)
def test_load_that_fails(tmp_path: pathlib.Path, args: list[str], message: str) -> None:
    outcome = run(make_job(make_row("redis", "redis-server", *args), tmp_path))
    assert re.match(message, outcome.failure), outcome.failure


class FakeRedis(socketserver.ThreadingUnixStreamServer):
    """Keeps values in a dict and does one thing wrong."""

    daemon_threads = True

    def __init__(self, path: pathlib.Path, wrong: str):
        super().__init__(str(path), FakeRedisHandler)
        self.values: dict[bytes, bytes] = {}
        self.deleted: set[bytes] = set()
        self.wrong = wrong


class FakeRedisHandler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while line := self.rfile.readline():
                words = [self.word() for _ in range(int(line[1:]))]
                if words[0] == b"GET" and self.server.wrong == "closes":
                    return
                self.wfile.write(self.reply(*words))

    def word(self) -> bytes:
        size = int(self.rfile.readline()[1:])
        return self.rfile.read(size + 2)[:-2]

    def reply(self, verb: bytes, key: bytes, value: bytes = b"") -> bytes:
        wrong, values = self.server.wrong, self.server.values
        if verb == b"SET":
            values[key] = value
            self.server.deleted.discard(key)
            return b"-OOM command not allowed\r\n" if wrong == "refuses" else b"+OK\r\n"
        if verb == b"DEL":
            was_there = key not in self.server.deleted or wrong == "miscounts"
            self.server.deleted.add(key)
            return b":%d\r\n" % was_there
        value = values[key]
        if wrong == "loses" or (key in self.server.deleted and wrong != "keeps"):
            return b"$-1\r\n"
        if wrong == "flips":
            value = value[:-1] + bytes([value[-1] ^ 1])
        if wrong == "cuts":
            value = value[:-1]
        more = b"+OK\r\n" if wrong == "babbles" else b""
        return b"$%d\r\n%s\r\n" % (len(value), value) + more


def kv_load(tmp_path: pathlib.Path, wrong: str, *options: str) -> subprocess.CompletedProcess:
    path = f"/proc/self/cwd/{os.path.relpath(tmp_path / 's')}"
    with FakeRedis(pathlib.Path(path), wrong) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        argv = [BIN_DIR / "kv_load", "200", "20", "--clients=2", "--pipeline=3", "--set-percent=0", *options, "s"]
        ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        server.shutdown()
        return ended


def test_kv_load_with_a_good_server(tmp_path: pathlib.Path) -> None:
    ended = kv_load(tmp_path, "nothing", "--delete-percent=20", "--delete-all")
    assert (ended.returncode, ended.stderr) == (0, "")
    figures = record.words(ended.stdout.replace("\n", " "))
    assert int(figures["gets"]) + int(figures["deletes"]) == 200
    assert float(figures["p99_us"]) >= float(figures["p50_us"]) > 0
    assert figures["result"].split("-")[1] == figures["live"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("refuses", "was answered with '-OOM command not allowed'"),
        ("loses", "was stored, but is missing"),
        ("flips", "has a different value from the one stored"),
        ("cuts", "has a different value from the one stored"),
        ("keeps", "was deleted, but is still there"),
        ("miscounts", "DELETE of key:"),
        ("babbles", "5 bytes after the last expected reply"),
        ("closes", "the server closed the connection"),
    ],
)
def test_kv_load_notices(tmp_path: pathlib.Path, wrong: str, message: str) -> None:
    ended = kv_load(tmp_path, wrong, "--delete-percent=50", "--pipeline=1")
    assert (ended.returncode, message in ended.stderr) == (1, True), ended.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["10", "20"], "0 sockets; allowed: 1"),
        (["10", "20", "a", "b"], "2 sockets; allowed: 1"),
        (["10", "20", "s", "--clients=21"], "20 keys for 21 clients"),
        (["10", "20", "s", "--set-percent=60", "--delete-percent=41"], "add up to 101; allowed: 0 to 100"),
        (["10", "20", "s", "--value-min=9", "--value-max=8"], "value-m"),
        (["10", "20", "s", "--protocol=memcached", "--snapshot"], "snapshot needs protocol redis"),
        (["10", "20", "s", "--protocol=http"], "'http' is not redis or memcached"),
    ],
)
def test_kv_load_refuses(args: list[str], message: str) -> None:
    ended = subprocess.run([BIN_DIR / "kv_load", *args], capture_output=True, text=True, check=False)
    assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


def test_kv_load_without_server(tmp_path: pathlib.Path) -> None:
    argv = [BIN_DIR / "kv_load", "10", "20", "--clients=1", "nothing.sock"]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "kv_load: cannot connect to 'nothing.sock': No such file or directory\n"


# ---- commands --------------------------------------------------------------------------------------


def test_peak_is_the_programs_not_ours(tmp_path: pathlib.Path) -> None:
    """ru_maxrss of a program includes the size of its parent at the fork, so measure_child stands between them."""
    ballast = b"x" * 100_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > len(ballast) // 1024
    outcome = run(make_job(make_row("command", "/bin/true"), tmp_path))
    assert outcome.failure == ""
    assert 0 < int(outcome.figures["peak_rss_kb"]) < 20_000


def test_peak_is_that_of_the_largest_child(tmp_path: pathlib.Path) -> None:
    child = "import subprocess; subprocess.run(['/usr/bin/python3', '-c', 'bytearray(100_000_000)'], check=True)"
    outcome = run(make_job(make_row("command", "/usr/bin/python3", "-c", child), tmp_path))
    assert int(outcome.figures["peak_rss_kb"]) > 95_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo one >&2; echo two >&2; exit 4", "exit code 4: two"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exit 0", "the program ended well, but its result out.txt is not there"),
    ],
)
def test_command_that_fails(tmp_path: pathlib.Path, text: str, message: str) -> None:
    outcome = run(make_job(make_row("command", "sh", "-c", text, result="out.txt"), tmp_path))
    assert outcome.failure == message


def test_command_that_hangs_is_killed_with_its_children(tmp_path: pathlib.Path) -> None:
    text = "sleep 1000 & echo $! >child; wait"
    outcome = run(make_job(make_row("command", "sh", "-c", text, timeout=1), tmp_path))
    assert outcome.failure == "no end after 1 s"
    assert is_gone(int((tmp_path / "child").read_text()))


def test_the_command_and_not_its_launcher_has_settings_and_preload(tmp_path: pathlib.Path) -> None:
    library = build_library(tmp_path / "nothing.so", "int nothing;\n")
    text = "echo $COLOUR; tr '\\0' '\\n' </proc/$PPID/environ | grep -c LD_PRELOAD; echo $LD_PRELOAD"
    outcome = run(make_job(make_row("command", "sh", "-c", text, COLOUR="blue"), tmp_path, library=library))
    assert outcome.output.split() == ["blue", "0", str(library)]
    assert outcome.command.startswith("COLOUR=blue /usr/bin/sh -c ")


def test_watch_gets_the_program_and_not_the_launcher(tmp_path: pathlib.Path) -> None:
    """The program waits until the watcher has seen it."""
    os.mkfifo(tmp_path / "fifo")
    pids: list[int] = []

    def watch(pid: int) -> None:
        pids.append(pid)
        (tmp_path / "fifo").write_text("go\n")

    outcome = run(make_job(make_row("command", "sh", "-c", "read line <fifo; echo $$"), tmp_path, watch=watch))
    assert outcome.output.split() == [str(pids[0])]


def test_another_result_is_a_failure(tmp_path: pathlib.Path) -> None:
    """A program with another result under one allocator has failed, however fast it was."""
    library = build_library(tmp_path / "nothing.so", "int nothing;\n")
    # It computes for a while, so that the watcher can look at it.
    text = "import os; open('result.txt', 'w').write(f\"{sum(range(10**7))}{'nothing' in os.environ['LD_PRELOAD']}\")"
    row = make_row("command", "/usr/bin/python3", "-c", text, result="result.txt")
    chosen = [allocators.Allocator("glibc"), allocators.load("wrong", library)]
    plan = runner.Plan("test", (row,), chosen, 1, 1.0, 1, tmp_path / "out.csv", tmp_path / "logs", forced=True)
    runs = runner.execute(plan, machine.look())
    assert len(runs) == 2
    by_name = {run.allocator: run for run in runs}
    assert by_name["glibc"].failure == ""
    assert by_name["wrong"].failure.startswith("the result is ")
    assert ", in two runs under glibc it is " in by_name["wrong"].failure


def test_figures_that_a_command_writes(tmp_path: pathlib.Path) -> None:
    text = "echo during_rss_kb=17 wall_seconds=3 >figures.txt; echo told"
    outcome = run(make_job(make_row("command", "sh", "-c", text, figures="figures.txt"), tmp_path))
    assert (outcome.failure, outcome.figures["during_rss_kb"], outcome.figures["wall_seconds"]) == ("", "17", "3")
    silent = run(make_job(make_row("command", "sh", "-c", "exit 0", figures="none.txt"), tmp_path))
    assert silent.failure == "the program ended well, but its figures none.txt are not there"


def test_a_server_is_left_alone_before_its_rss_counts(tmp_path: pathlib.Path) -> None:
    """The three readings lie in the time that the row asks for."""
    row = make_row("redis", "redis-server", "redis-benchmark", "-t", "set", "-n", "100", idle_ms="1500")
    began = time.monotonic()
    outcome = run(make_job(row, tmp_path))
    assert outcome.failure == ""
    assert time.monotonic() - began > 1.5
    assert all(int(outcome.figures[f"{name}_rss_kb"]) > 1000 for name in ("end", "after1", "after5", "final"))


def test_a_snapshot_during_the_load(tmp_path: pathlib.Path) -> None:
    row = make_row("redis", "redis-server", "kv_load", "2000", "500", "--value-max=64", "--snapshot", snapshot="yes")
    outcome = run(make_job(row, tmp_path))
    assert outcome.failure == ""
    assert all(float(outcome.figures[name]) > 0 for name in ("fork_us", "copied_kb", "p9999_us"))
    assert "--rdbcompression no" in outcome.command


def test_a_server_with_io_threads(tmp_path: pathlib.Path) -> None:
    row = make_row("redis", "redis-server", "kv_load", "2000", "500", "--value-max=64", "--clients=4", io_threads="2")
    outcome = run(make_job(row, tmp_path))
    assert outcome.failure == ""
    assert float(outcome.figures["requests_per_s"]) > 0
    assert "--io-threads 2 --io-threads-do-reads yes" in outcome.command


@pytest.mark.parametrize(("status", "seconds"), [("err", "0"), ("ok", "-1")])
def test_a_snapshot_that_fails(status: str, seconds: str) -> None:
    class Client:
        def ask(self, command: str) -> str:
            return f"rdb_bgsave_in_progress:0\r\nrdb_last_bgsave_status:{status}\r\nrdb_last_bgsave_time_sec:{seconds}\r\n"

    with pytest.raises(app.FailedError, match="could not write its dump"):
        redis._snapshot_figures(None, Client())


# ---- inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["source.cc", "load.sql", "text.txt", "records.json"])
def test_generated_input_is_always_the_same(kind: str) -> None:
    argv = [sys.executable, GENERATOR, kind, "3000" if kind == "text.txt" else "9"]
    once, again = (
        subprocess.run(argv, capture_output=True, check=True, env={"PYTHONHASHSEED": seed}).stdout for seed in "12"
    )
    assert once == again
    assert len(once) == 3000 if kind == "text.txt" else len(once) > 1000


@pytest.mark.parametrize("args", [[], ["source.cc"], ["source.cc", "0"], ["picture.png", "5"], ["source.cc", "-1"]])
def test_generator_refuses(args: list[str]) -> None:
    ended = subprocess.run([sys.executable, GENERATOR, *args], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"arguments are '{' '.join(args)}'; allowed: source.cc|load.sql|text.txt|records.json, a number, 1 or more" in ended.stderr


@pytest.mark.parametrize("name", PYTHON_SCRIPTS)
def test_python_scripts_refuse(name: str) -> None:
    argv = [sys.executable, "-B", ROOT / f"bench/apps/{name}.py", "many"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, "arguments are 'many'; allowed: one number, 1 or more" in ended.stderr) == (2, True)


@pytest.mark.skipif(shutil.which("node") is None, reason="tools/setup apps installs node")
def test_the_script_of_node_refuses() -> None:
    argv = ["node", ROOT / "bench/apps/large_buffers.js", "many"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, "arguments are 'many'; allowed: one number, 1 or more" in ended.stderr) == (2, True)


@pytest.mark.parametrize(("program", "script"), [("lua5.4", "large_tables.lua"), ("lua5.4", "expressions.lua"), ("perl", "large_hashes.pl")])
def test_scripts_of_lua_and_perl(program: str, script: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}; tools/setup apps installs it")
    argv = [program, ROOT / "bench/apps" / script]
    ended = subprocess.run([*argv, "many"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"{script}: arguments are 'many'; allowed: one number, 1 or more\n")
    once, again = (subprocess.run([*argv, "300"], capture_output=True, text=True, check=True).stdout for _ in "12")
    assert (once, int(once) > 1000) == (again, True)


@pytest.mark.parametrize(("program", "script"), [("perl", "text_index.pl"), ("tclsh", "word_lists.tcl"), ("bash", "word_arrays.sh")])
def test_scripts_that_read_a_text(program: str, script: str, tmp_path: pathlib.Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}; tools/setup apps installs it")
    argv = [program, ROOT / "bench/apps" / script]
    ended = subprocess.run([*argv, "/nowhere"], capture_output=True, text=True, check=False)
    allowed = f"{script}: arguments are '/nowhere'; allowed: one file that can be read\n"
    assert (ended.returncode, ended.stderr) == (2, allowed)
    text = tmp_path / "text"
    text.write_text("two words 12.\nwords once more 7.\n")
    printed = subprocess.run([*argv, text], capture_output=True, text=True, check=True).stdout
    assert int(printed.split()[0]) == {"perl": 6, "tclsh": 6, "bash": 7}[program]  # bash counts the ends of lines


def test_each_row_of_suite_programs_runs(tmp_path: pathlib.Path) -> None:
    argv = [sys.executable, "-m", "hakobench", "run", "programs", "--allocators", "glibc", "--rounds", "1", "--scale", "0.02", "--force"]
    ended = subprocess.run([*argv, "--results-dir", tmp_path, "--log-dir", tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "FAILED" not in ended.stdout


@pytest.mark.skipif(shutil.which("java") is None, reason="tools/setup apps installs java")
def test_the_program_in_java_refuses() -> None:
    argv = ["java", ROOT / "bench/apps/NativeBlocks.java", "many"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, "arguments are 'many'; allowed: one number, 1 or more" in ended.stderr) == (2, True)


@pytest.mark.parametrize("args", [[], ["0"], ["many"], ["300000000"], ["1", "2"]])
def test_the_join_refuses(args: list[str]) -> None:
    ended = subprocess.run([BIN_DIR / "table_join", *args], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "table_join: allowed: one number, 1 to 200000000\n")


@pytest.mark.parametrize("args", [[], ["0"], ["-1"], ["many"], ["1", "0"], ["1", "2", "3"]])
def test_the_pipeline_refuses(args: list[str]) -> None:
    ended = subprocess.run([BIN_DIR / "pipeline", *args], capture_output=True, text=True, check=False)
    allowed = "RECORDS, 1 to 1000000000000, and then PER_SECOND, 1 to 1000000000, or nothing"
    assert (ended.returncode, ended.stderr) == (2, f"pipeline: allowed: {allowed}\n")


def test_the_pipeline_loses_no_word() -> None:
    ended = subprocess.run([BIN_DIR / "pipeline", "2000"], capture_output=True, text=True, check=True)
    assert ended.stdout == "words=17396 distinct=11571\n"


def test_input_is_cached_and_copied(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CACHE_DIR", tmp_path / "cache")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for _ in range(2):
        assert command.prepare_inputs([".read @text.txt=100"], scratch) == [("text.txt", "100")]
    assert len((scratch / "text.txt").read_bytes()) == 100
    assert len(list((tmp_path / "cache/inputs").iterdir())) == 1
    assert command.final_args([".read @text.txt=100", "bench/x"]) == [".read text.txt", str(ROOT / "bench/x")]
    with pytest.raises(app.FailedError, match=r"no input picture.png: generate.py: arguments are 'picture.png 5'"):
        command.prepare_inputs(["@picture.png=5"], scratch)
    assert len(list((tmp_path / "cache/inputs").iterdir())) == 1


# ---- every row -------------------------------------------------------------------------------------

LARGE = suite.load("large").select("clang-link,table-join,postgres")  # the others take seconds however little work they have
ROWS = [*APPS.rows, *SEEDS_REDIS, *RSS_APPS, *LARGE]


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {row.name: DRIVERS[row.driver].missing(row, BIN_DIR) for row in APPS.rows if not row.workload.startswith("/")}
    assert missing["rocksdb-fill"] == "no db_bench; 'apt-get install rocksdb-tools'"
    assert missing["xz"] == "no xz; 'apt-get install xz-utils'"
    assert missing["redis-set"] == "no redis-server; 'apt-get install redis-server'"
    assert all("apt-get install" in why for why in missing.values())


def test_programs_not_built_are_named(tmp_path: pathlib.Path) -> None:
    missing = {row.name: DRIVERS[row.driver].missing(row, tmp_path) for row in APPS.rows}
    assert missing["memcached"] == "no program 'kv_load'; 'make bench' builds it"
    assert missing["g++"] == "no program 'measure_child'; 'make bench' builds it"
    assert missing["redis-set"] == ""


def test_missing_program_fails_plainly(tmp_path: pathlib.Path) -> None:
    outcome = run(make_job(make_row("command", "no-such-program"), tmp_path))
    assert outcome.failure == "no no-such-program; 'apt-get install no-such-program'"


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, str]]:
    yield {}


@pytest.mark.parametrize("library", [None, LIBRARY], ids=["glibc", "preload"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{row.metric}")
def test_row(
    row: Row, library: pathlib.Path | None, tmp_path: pathlib.Path, results: dict[str, str]
) -> None:
    """Each row runs with little work, with and without the library, and with the same result. A missing program is a
    failure, because tools/setup installs all of them."""
    driver = DRIVERS[row.driver]
    assert driver.missing(row, BIN_DIR) == ""
    for name in ("idle_ms", "IDLE_SECONDS"):
        row.params.pop(name, None)
    watcher = Watcher(library, 0)
    outcome = run(make_job(row, tmp_path, scale=0.01, library=library, watch=watcher.start))
    watcher.stop()
    assert outcome.failure == ""
    measured = [name for name in row.also if not METRICS[name].of_samples]  # the runner adds the others
    assert all(float(outcome.figures[name]) > 0 for name in (row.metric, *measured))
    assert int(outcome.figures["peak_rss_kb"]) > 1000
    is_server = row.driver in ("redis", "memcached")
    if is_server:
        assert int(outcome.figures["final_rss_kb"]) > 1000
    if row.metric == "requests_per_s":
        assert float(outcome.figures["p99_us"]) >= float(outcome.figures["p50_us"]) > 0
    if library and is_server:
        assert watcher.seen
    if "result" in outcome.figures:
        assert results.setdefault(row.name, outcome.figures["result"]) == outcome.figures["result"]
    # The preload stands before the command, so the command must not begin with the making of inputs.
    assert ("  # " in outcome.command) == any("@" in arg for arg in row.args)
    assert str(tmp_path) not in outcome.command + outcome.failure
    assert str(ROOT) not in outcome.command + outcome.output


@pytest.mark.parametrize("driver", ["command", "redis", "memcached", "rocksdb"])
def test_discarded_output(driver: str, tmp_path: pathlib.Path) -> None:
    """Every driver can discard the output of a row that is judged by a figure of the process."""
    row = next(row for row in APPS.rows if row.driver == driver and "result" not in row.params)
    params = {name: value for name, value in row.params.items() if name not in ("idle_ms", "IDLE_SECONDS", "figures")}
    row = dataclasses.replace(row, metric="wall_seconds", also=(), discard_output=True, params=params)
    outcome = run(make_job(row, tmp_path, scale=0.01))
    assert outcome.failure == ""
    assert float(outcome.figures["wall_seconds"]) > 0
    assert "result" not in outcome.figures, "nothing is compared that was not kept"
    assert "requests_per_s" not in outcome.figures
