"""Servers: redis under redis-benchmark, memcached under threaded clients. All replies are checked."""

from __future__ import annotations

import getpass
from pathlib import Path

from conftest import Preload, describe, required
from servers import RedisClient, check_redis, fill_redis, memcached_sessions, server


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
        required("redis-benchmark"), "-s", address, "-n", "8000", "-c", "20", "-r", "20000", "-d", "300", "-P", "8",
        "-q", "-t", "ping,set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_300,mset",
    )  # fmt: skip
    assert result.stdout.count("requests per second") >= 11, describe(result)
    assert "rror" not in result.stdout + result.stderr, describe(result)


def test_memcached(preload: Preload, tmp_path: Path) -> None:
    address = tmp_path / "memcached.sock"
    command = [required("memcached"), "-s", str(address), "-t", "4", "-m", "64", "-u", getpass.getuser()]
    with server(preload, command, address):
        memcached_sessions(address, 6)
