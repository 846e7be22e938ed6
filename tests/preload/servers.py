"""Servers under the library, and clients that check every reply: shared by tests/preload and tests/apps."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preloading import TIMEOUT_SECONDS, Preload

CONNECT_ATTEMPTS = 400
STOP_SECONDS = 60


def listens(address: Path) -> bool:
    """Whether a server accepts connections on the Unix socket."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(address))
        return True
    return False


@contextlib.contextmanager
def server(
    preload: Preload,
    command: list[str],
    address: Path,
    ready: Callable[[Path], bool] = listens,
    stop: signal.Signals = signal.SIGTERM,
    **options: object,
) -> Iterator[subprocess.Popen[str]]:
    """A server on a Unix socket. It must have the library mapped, and must end cleanly on the signal `stop`."""
    log = address.with_suffix(".log")
    with log.open("a") as output:
        environment = preload.environment()
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, text=True, start_new_session=True, **options
        )
        try:
            wait_until_ready(process, address, log, ready)
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            assert str(preload.library) in maps, "the preload took no effect"
            yield process
            assert process.poll() is None, f"the server ended on its own: {log.read_text()[-2000:]}"
            process.send_signal(stop)
            try:
                code = process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pytest.fail(f"the server did not end on {stop.name}: {log.read_text()[-2000:]}")
            assert code in (0, -stop), f"the server exited with {code}: {log.read_text()[-2000:]}"
        finally:
            with contextlib.suppress(ProcessLookupError):  # the usual case: all of them have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until_ready(process: subprocess.Popen[str], address: Path, log: Path, ready: Callable[[Path], bool]) -> None:
    waiter = threading.Event()
    for _ in range(CONNECT_ATTEMPTS):
        if process.poll() is not None:
            pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
        if ready(address):
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


def memcached_sessions(address: Path, count: int) -> None:
    """Clients side by side, each with keys of its own."""
    failures: list[str] = []
    clients = [
        threading.Thread(target=memcached_session, args=(address, seed, failures), daemon=True) for seed in range(count)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(timeout=TIMEOUT_SECONDS)
        assert not client.is_alive(), "memcached does not answer"
    assert not failures
