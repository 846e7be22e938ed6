"""The work of the servers in the table: each function starts its server under the library, and returns what to compare."""

from __future__ import annotations

import contextlib
import functools
import getpass
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from runner import Stage  # first, since it makes the next two modules known

from preloading import required  # isort: skip
from servers import RedisClient, check_redis, fill_redis, memcached_sessions, server  # isort: skip

WAIT_SECONDS = 60


def serve(stage: Stage, command: list[str], *arguments: object, **options: object) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """A server of servers.py under the stage's library and profiles."""
    return server(stage.preload, command, *arguments, preexec_fn=stage.confine, **options)


def redis_command(stage: Stage, address: Path) -> list[str]:
    return [
        required("redis-server"), "--port", "0", "--unixsocket", str(address), "--dir", str(stage.folder), "--save", "",
        "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0", "--io-threads", "2",
        "--lazyfree-lazy-user-del", "yes", "--enable-debug-command", "yes",
    ]  # fmt: skip


def redis_wait(client: RedisClient, field: str) -> None:
    """Waits until the server, or a child of it that saves or rewrites, has done what the field of its figures says."""
    end = time.monotonic() + WAIT_SECONDS
    while b"%s:1" % field.encode() in (info := client("INFO", "persistence")):
        assert time.monotonic() < end, f"{field} is still 1"
        time.sleep(0.02)
    assert b"rdb_last_bgsave_status:ok" in info and b"aof_last_bgrewrite_status:ok" in info, info.decode()


def redis(stage: Stage) -> str:
    """Fills a server, rewrites its AOF and saves while clients write, and starts it again from either file."""
    address = stage.folder / "redis.sock"
    with serve(stage, redis_command(stage, address), address) as process:
        client = RedisClient(address)
        wanted = fill_redis(client)
        assert "Background" in client("BGREWRITEAOF")
        stage.client(
            required("redis-benchmark"), "-s", address, "-n", "8000", "-c", "20", "-r", "3000", "-d", "300", "-P", "8", "-q",
            "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_300,mset",
        )  # fmt: skip
        redis_wait(client, "aof_rewrite_in_progress")
        assert client("BGSAVE") == "Background saving started"
        check_redis(client, wanted)
        redis_wait(client, "rdb_bgsave_in_progress")
        before = client("DEBUG", "DIGEST")
        assert client("DEBUG", "RELOAD") == "OK"
        assert client("DEBUG", "DIGEST") == before
        assert client("MEMORY", "PURGE") == "OK"
        del process
    with serve(stage, redis_command(stage, address), address):  # from the AOF
        client = RedisClient(address)
        redis_wait(client, "loading")
        assert client("DEBUG", "DIGEST") == before
        for key in client("KEYS", "*"):  # what redis-benchmark wrote is random
            if not key.startswith(b"check:"):
                client("DEL", key)
        return f"{client('DBSIZE')} keys, {client('DEBUG', 'DIGEST')}"


def memcached(stage: Stage) -> str:
    address = stage.folder / "memcached.sock"
    command = [required("memcached"), "-s", str(address), "-t", "4", "-m", "64", "-u", getpass.getuser()]
    with serve(stage, command, address):
        memcached_sessions(address, 12)
    return "all replies are right"


def postgres_folder() -> Path:
    """Where Debian puts the server's programs: the newest version of them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    assert found, "PostgreSQL is not installed; run tools/setup apps"
    return found[-1].parent


def as_user(folder: Path, user: str) -> list[str]:
    """What to put before a command that refuses to run as root."""
    if os.geteuid() != 0:
        return []
    entry = pwd.getpwnam(user)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return [required("setpriv"), f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]


def postgresql(stage: Stage) -> str:
    """Fixed SQL with parallel workers, pgbench, whose balances must add up, and a dump that is restored and dumped again."""
    programs, data = postgres_folder(), stage.folder / "data"
    data.mkdir()
    prefix = as_user(data, "postgres")
    stage.client(*prefix, programs / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
    command = [
        *prefix, str(programs / "postgres"), "-D", str(data), "-k", str(data), "-c", "listen_addresses=", "-c", "fsync=off",
        "-c", "max_worker_processes=8", "-c", "min_parallel_table_scan_size=0", "-c", "parallel_setup_cost=0",
    ]  # fmt: skip
    login = ("-h", data, "-U", "tester")

    def ready(_: Path) -> bool:
        probe = [programs / "pg_isready", "-q", "-h", data]
        return subprocess.run(probe, check=False).returncode == 0

    sql = functools.partial(stage.client, programs / "psql", *login, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
    with serve(stage, command, stage.folder / "postgres", ready, signal.SIGINT):
        answer = sql("-d", "postgres", "-f", Path(stage.environment()["INPUTS"]) / "queries.sql")
        stage.client(programs / "pgbench", *login, "-i", "-s", "3", "-q", "postgres")
        for mode, clients in (("simple", 4), ("prepared", 8)):
            stage.client(programs / "pgbench", *login, "-c", str(clients), "-j", "2", "-t", "400", "-M", mode, "postgres")
        sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)"
        answer += sql("-d", "postgres", "-c", f"{sums}, count(*), sum(delta) = (select sum(tbalance) from pgbench_tellers) from pgbench_history")
        dump = stage.client(programs / "pg_dump", *login, "-n", "work", "postgres")
        sql("-d", "postgres", "-c", "create database copy")
        sql("-d", "copy", input=dump)
        again = stage.client(programs / "pg_dump", *login, "-n", "work", "copy")
        assert stable(again) == stable(dump), "the restored database dumps differently"
    log = (stage.folder / "postgres.log").read_text()
    assert "terminated by signal" not in log and "PANIC" not in log, log[-2000:]
    return answer + hashlib.sha256(stable(dump).encode()).hexdigest()


def stable(dump: str) -> str:
    r"""A dump without the lines that name a random key (\restrict)."""
    return "\n".join(line for line in dump.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


NGINX = """
worker_processes 2;
pid nginx.pid;
error_log stderr warn;
daemon off;
{user}
events {{ worker_connections 256; }}
http {{
    access_log off;
    types {{ text/plain txt; }}
    default_type text/plain;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    proxy_cache_path cache keys_zone=c:1m;
    gzip on; gzip_types text/plain; gzip_min_length 100;
    server {{ listen unix:{folder}/nginx.sock; root {data}; location /up/ {{ proxy_pass http://unix:{folder}/origin.sock:/; proxy_cache c; proxy_cache_valid 1m; }} }}
    server {{ listen unix:{folder}/origin.sock; root {data}; }}
    server {{ listen 127.0.0.1:{port}; root {data}; ssi on; }}
}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx(stage: Stage) -> str:
    """Serves the tree of files plain, gzipped and through a cache, and is reloaded while clients wait for answers."""
    folder, port = stage.folder, free_port()
    (folder / "cache").mkdir()
    files = sorted(path.relative_to(stage.base / "data") for path in (stage.base / "data/tree").rglob("*") if path.is_file())[:60]
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, data=stage.base / "data", port=port, user=user))
    address = folder / "nginx.sock"
    command = [required("/usr/sbin/nginx"), "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    total = hashlib.sha256()
    with serve(stage, command, address, stop=signal.SIGQUIT) as process:
        for reload in range(3):
            load = [required("ab"), "-q", "-n", "6000", "-c", "40", "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{port}/{files[0]}"]
            clients = subprocess.Popen(load, env=stage.preload.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=stage.confine)
            if reload:
                process.send_signal(signal.SIGHUP)  # new workers take over, old ones finish their connections
            output, _ = clients.communicate(timeout=WAIT_SECONDS)
            assert clients.returncode == 0 and "Failed requests:        0" in output, output
            for way in ("", "up/"):
                urls = [f"http://x/{way}{file}" for file in files]
                body = subprocess.run(
                    [required("curl"), "-sf", "--compressed", "--unix-socket", str(address), *urls], check=True, capture_output=True,
                    timeout=WAIT_SECONDS, env=stage.preload.environment(), preexec_fn=stage.confine,
                ).stdout  # fmt: skip
                assert body == b"".join((stage.base / "data" / file).read_bytes() for file in files)
                total.update(body)
    shutil.rmtree(folder / "cache")
    return total.hexdigest()


SSHD = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/login_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
Subsystem sftp internal-sftp
"""


def accepts(port: int, _: Path) -> bool:
    """Whether a server accepts connections on the port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def sshd(stage: Stage) -> str:
    """Logs in by key, runs commands and copies a file both ways. sshd confines the process that talks to a stranger."""
    folder, port = stage.folder, free_port()
    for name in ("host_key", "login_key"):
        stage.client("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    (folder / "sshd.conf").write_text(SSHD.format(folder=folder, port=port))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it locks in that process; made at boot where it is a service
    # it clears its environment, so a child that it executes would not have the library: -r has it fork only
    command = [required("/usr/sbin/sshd"), "-D", "-e", "-r", "-f", str(folder / "sshd.conf")]
    options = (
        "-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
        "-o", "BatchMode=yes", "-i", str(folder / "login_key"),
    )  # fmt: skip
    login = f"{getpass.getuser()}@127.0.0.1"
    answers = []
    with serve(stage, command, folder / "sshd", functools.partial(accepts, port)):
        for text in ("id -un", "seq 20000 | sha256sum", "cat | sha256sum"):
            answers.append(stage.client("ssh", *options, "-p", str(port), login, text, input="x" * 300_000))
        stage.client("scp", *options, "-q", "-P", str(port), stage.base / "data/all", f"{login}:{folder}/sent")
        stage.client("scp", *options, "-q", "-P", str(port), f"{login}:{folder}/sent", folder / "back")
    assert (folder / "back").read_bytes() == (stage.base / "data/all").read_bytes()
    log = (folder / "sshd.log").read_text()
    assert log.count("Accepted publickey") == 5 and "signal" not in log.replace("Received signal 15; terminating", ""), log
    return "".join(answers)


PHP_FPM = """
[global]
error_log = /dev/stderr
daemonize = no
[www]
{user}
listen = {folder}/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 3
pm.max_requests = 20
clear_env = no
"""


def php_fpm(stage: Stage) -> str:
    """FastCGI requests to three workers, each replaced after twenty; the extensions are opened with RTLD_DEEPBIND."""
    folder, programs = stage.folder, sorted(Path("/usr/sbin").glob("php-fpm[0-9]*"))
    assert programs, "php-fpm is not installed; run tools/setup apps"
    user = "user = www-data\ngroup = www-data" if os.geteuid() == 0 else ""
    (folder / "fpm.conf").write_text(PHP_FPM.format(folder=folder, user=user))
    script = Path(stage.environment()["INPUTS"]) / "request.php"
    shutil.copy(script, folder / "request.php")  # where www-data can read it
    answers = []
    with serve(stage, [str(programs[-1]), "-F", "-y", str(folder / "fpm.conf")], folder / "fpm.sock", stop=signal.SIGQUIT):
        for number in range(70):
            variables = (f"SCRIPT_FILENAME={folder}/request.php", "REQUEST_METHOD=GET", f"QUERY_STRING=n={number}")
            answers.append(stage.client("env", *variables, "cgi-fcgi", "-bind", "-connect", folder / "fpm.sock"))
    log = (folder / "fpm.log").read_text()
    assert "exited on signal" not in log, log[-2000:]
    return "".join(answers)


def redis_unit(stage: Stage) -> str:
    """With the command line, the configuration and the user of Debian's redis-server.service; only its paths are of this folder.
    The profiles stand for the unit's options, and come after the change of user, as systemd does it."""
    folder, address = stage.folder, stage.folder / "redis.sock"
    user = {"user": "redis", "group": "redis", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "redis", "redis")
    command = [
        required("redis-server"), "/etc/redis/redis.conf", "--supervised", "systemd", "--daemonize", "no", "--port", "0",
        "--unixsocket", str(address), "--unixsocketperm", "777", "--dir", str(folder), "--logfile", "", "--pidfile", str(folder / "redis.pid"),
        "--enable-debug-command", "yes",
    ]  # fmt: skip
    with serve(stage, command, address, **user):
        client = RedisClient(address)
        check_redis(client, fill_redis(client))
        assert client("BGSAVE") == "Background saving started"
        redis_wait(client, "rdb_bgsave_in_progress")
        client("FLUSHALL", "ASYNC")
        wanted = fill_redis(client)
        check_redis(client, wanted)
        return f"{len(wanted)} keys, {client('DEBUG', 'DIGEST')}"
