"""Servers: redis under redis-benchmark, memcached under threaded clients. All replies are checked."""

from __future__ import annotations

import contextlib
import getpass
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Preload, describe, required

CONNECT_ATTEMPTS = 200


@contextlib.contextmanager
def server(preload: Preload, command: list[str], address: Path) -> Iterator[subprocess.Popen[str]]:
    """A server on a Unix socket. It must have the library mapped, and must end cleanly on SIGTERM."""
    log = address.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(command, env=preload.environment(), stdout=output, stderr=output, text=True)
        try:
            wait_until_listening(process, address, log)
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            assert str(preload.library) in maps, "the preload took no effect"
            yield process
            assert process.poll() is None, f"the server ended on its own: {log.read_text()[-2000:]}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                pytest.fail(f"the server did not end on SIGTERM: {log.read_text()[-2000:]}")
    assert code in (0, -signal.SIGTERM), f"the server exited with {code}: {log.read_text()[-2000:]}"


def wait_until_listening(process: subprocess.Popen[str], address: Path, log: Path) -> None:
    waiter = threading.Event()
    for _ in range(CONNECT_ATTEMPTS):
        if process.poll() is not None:
            pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(address))
            return
        waiter.wait(0.05)
    pytest.fail(f"the server does not listen: {log.read_text()[-2000:]}")


class RedisClient:
    """Just as much of the Redis protocol as the test needs."""

    def __init__(self, address: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(address))
        self._file = self._socket.makefile("rb")

    def __call__(self, *words: str | bytes) -> object:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(request)
        return self._reply()

    def _reply(self) -> object:
        line = self._file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise AssertionError(f"redis answered {line!r}")


def redis_command(address: Path, directory: Path) -> list[str]:
    return [
        required("redis-server"), "--port", "0", "--unixsocket", str(address), "--dir", str(directory),
        "--save", "", "--appendonly", "no", "--io-threads", "2", "--lazyfree-lazy-user-del", "yes",
        "--activedefrag", "no", "--daemonize", "no",
    ]  # fmt: skip


def test_redis(preload: Preload, tmp_path: Path) -> None:
    address = tmp_path / "redis.sock"
    with server(preload, redis_command(address, tmp_path), address):
        run_redis_benchmark(preload, address)
        client = RedisClient(address)
        wanted = fill_redis(client)
        assert client("BGSAVE") == "Background saving started"  # forks; the child reads the whole heap
        check_redis(client, wanted)
        assert client("MEMORY", "PURGE") == "OK"
        assert client("FLUSHALL", "ASYNC") == "OK"
        assert client("DBSIZE") == 0


def run_redis_benchmark(preload: Preload, address: Path) -> None:
    result = preload.run(
        required("redis-benchmark"), "-s", address, "-n", "20000", "-c", "20", "-r", "20000", "-d", "300", "-P", "8",
        "-q", "-t", "ping,set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_300,mset",
    )  # fmt: skip
    assert result.stdout.count("requests per second") >= 11, describe(result)
    assert "rror" not in result.stdout + result.stderr, describe(result)


def fill_redis(client: RedisClient) -> dict[str, bytes]:
    chance = random.Random(3)
    wanted = {}
    for number in range(4000):
        key = f"check:{chance.randrange(1500)}"
        if number % 5 == 4:
            client("DEL", key)
            wanted.pop(key, None)
        else:
            wanted[key] = chance.randbytes(chance.choice((3, 60, 700, 5000, 100_000 if number % 50 == 0 else 40)))
            assert client("SET", key, wanted[key]) == "OK"
    return wanted


def check_redis(client: RedisClient, wanted: dict[str, bytes]) -> None:
    for key, value in wanted.items():
        assert client("GET", key) == value
        assert client("APPEND", key, b"x" * 100) == len(value) + 100  # makes the server call realloc
        assert client("GET", key) == value + b"x" * 100


def memcached_session(address: Path, seed: int, failures: list[str]) -> None:
    chance = random.Random(seed)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(address))
        replies = connection.makefile("rb")
        for _ in range(1500):
            key = b"%d:%d" % (seed, chance.randrange(200))
            value = chance.randbytes(chance.choice((1, 50, 900, 20_000)))
            connection.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
            stored, header = replies.readline(), replies.readline()
            got = replies.read(len(value) + 2)[:-2]
            if stored != b"STORED\r\n" or not header.startswith(b"VALUE " + key) or got != value:
                failures.append(f"{key!r}: {stored!r} {header!r}")
                return
            replies.readline()  # END


def test_memcached(preload: Preload, tmp_path: Path) -> None:
    address = tmp_path / "memcached.sock"
    command = [required("memcached"), "-s", str(address), "-t", "4", "-m", "64", "-u", getpass.getuser()]
    with server(preload, command, address):
        failures: list[str] = []
        clients = [
            threading.Thread(target=memcached_session, args=(address, seed, failures), daemon=True) for seed in range(6)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join(timeout=TIMEOUT_SECONDS)
            assert not client.is_alive(), "memcached does not answer"
        assert not failures
