"""Asks a running process for a report at the unix socket that the word `listen` in HAKOZUNA_STATS or HAKOZUNA_PROFILE makes
(docs/statistics.md), or by a signal if the user says so (running.py). Used by heap_stats.py, heap_profile.py and metrics.py.

The socket is FOLDER/PID.MARK (src/base/process/listener.h). /proc/PID/net/unix has its path, as the process sees it. The kernel
says which process is at the other end, so a socket that an earlier process of this number has left behind cannot answer for it.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import pathlib
import re
import socket
import stat
import struct
import time

import running

NAME = re.compile(r"(?P<pid>\d+)\.[0-9a-f]{8}")
REQUEST = {"HAKOZUNA_STATS": "json", "HAKOZUNA_PROFILE": "profile"}
CONNECT_SECONDS = 2  # for a process whose queue is full
BEGIN, END, NO = b"ok\n", b"end\n", b"no: "


# ---- where the socket is ---------------------------------------------------------------------------


def folders(process: running.Process) -> list[str]:
    """Where its socket may be, if /proc/PID/net/unix does not say."""
    named = re.search(r"(?:^|\0)XDG_RUNTIME_DIR=(/[^\0]*)", process.read("environ"))
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    runtime = [named[1] if named else "", own, f"/run/user/{process.owner}"]
    return [*(f"{folder}/hakozuna" for folder in runtime if folder.startswith("/")), f"/tmp/hakozuna-{process.owner}"]


def listed(process: running.Process) -> list[str]:
    """The sockets of its namespace of networks that have such a name."""
    lines = process.read("net/unix").splitlines()
    paths = [line.split(maxsplit=7)[7] for line in lines if line.count(" /") == 1]
    return [path for path in paths if os.path.basename(os.path.dirname(path)).startswith("hakozuna")]


def is_left_behind(name: str, inner_number: int) -> bool:
    """Whether the name is that of this process, or of one that is no more."""
    match = NAME.fullmatch(name)
    return match is not None and (int(match["pid"]) == inner_number or not pathlib.Path(f"/proc/{match['pid']}").exists())


def places(process: running.Process) -> list[str]:
    """Paths of sockets that may be the process's, through its own root; and through ours, if it has another one by now."""
    found = {}
    for path in listed(process):
        if (match := NAME.fullmatch(os.path.basename(path))) is not None and int(match["pid"]) == process.inner_number:
            found |= {f"{process.folder}/root{path}": None, path: None}
    for folder in folders(process):
        for path in glob.glob(f"{process.folder}/root{glob.escape(folder)}/*.*"):
            if is_left_behind(os.path.basename(path), process.inner_number):
                found[path] = None
    return list(found)


def remove(folder: int, name: str) -> None:
    """A socket at which nobody listens: its process was killed, or has executed another program."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) and stat.S_IMODE(os.fstat(folder).st_mode) == 0o700:
            os.unlink(name, dir_fd=folder)


def connected(path: str, number: int) -> socket.socket | None:
    """A connection, if the process of this number is at the other end."""
    try:
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", CONNECT_SECONDS if number > 0 else 0, 0 if number > 0 else 1))
    try:
        peer.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # the path itself may be too long for a socket
        (other, _, _) = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
        if other == number:
            return peer
    except ConnectionRefusedError:
        remove(folder, os.path.basename(path))
    except OSError:
        pass
    finally:
        os.close(folder)
    peer.close()
    return None


# ---- no socket -------------------------------------------------------------------------------------


def advice(variable: str) -> str:
    return f"start it by 'hakozuna run {running.RUN_OPTION[variable]} PROGRAM', or under the library with {variable}=listen"


def missing(process: running.Process, variable: str) -> running.Refused:
    """Why there is no socket."""
    number = process.number
    environment = process.read("environ")
    if running.LIBRARY.search(process.read("maps")) is None:
        return running.Refused(f"process {number} does not run under hakozuna: {advice(variable)}")
    named = [re.search(rf"(?:^|\0){name}=([^\0]*)", environment) for name in REQUEST]
    words = {word for match in named if match for word in match[1].split(",")}
    if "listen" in words:
        why = (
            "is asked to listen, and does not: it is a child of the process that was asked (the word children asks it too), or has restricted its "
            "system calls, or has said on stderr what was in the way"
        )
        return running.Refused(f"process {number} {why}")
    by_signal = "" if not any(word.startswith("signal=") for word in words) else "; --signal asks by the signal that it names"
    return running.Refused(f"process {number} does not listen, so it cannot be asked: {advice(variable)}{by_signal}")


# ---- asking ----------------------------------------------------------------------------------------


def read_all(peer: socket.socket, number: int, seconds: float) -> bytes:
    end = time.monotonic() + seconds
    data = bytearray()
    try:
        while True:
            peer.settimeout(max(end - time.monotonic(), 0.001))
            part = peer.recv(1 << 16)
            if not part:
                return bytes(data)
            data += part
    except TimeoutError as error:
        raise running.NoAnswer(f"process {number} has not answered within {seconds:g} s") from error
    except OSError as error:
        raise running.Refused(f"process {number} has ended") from error


def request(process: running.Process, peer: socket.socket, variable: str, seconds: float) -> bytes:
    """What the process answers. Raises Refused."""
    with contextlib.suppress(OSError):  # it may have left already, with an answer
        peer.sendall(f"{REQUEST[variable]}\n".encode())
    data = read_all(peer, process.number, seconds)
    if data.startswith(NO):
        hint = f": {advice(variable)}" if b"no heap profile" in data else ""
        raise running.Refused(f"process {process.number} refuses: {data.removeprefix(NO).decode(errors='replace').strip()}{hint}")
    if not (data.startswith(BEGIN) and data.endswith(END)):
        raise running.NoAnswer(f"process {process.number} has broken off its answer")
    return data[len(BEGIN) : -len(END)]


def ask_at_socket(process: running.Process, variable: str, seconds: float) -> running.Answer:
    process.status = process.look()
    if process.status["State"].startswith(("T", "t")):
        raise running.Refused(f"process {process.number} is stopped; after SIGCONT it can answer")
    found = None
    for path in places(process):
        if found is None and (peer := connected(path, process.number)) is not None:
            found = path
            with peer:
                data = request(process, peer, variable, seconds)
        elif found is None or not path.endswith(os.path.basename(found)):
            connected(path, -1)  # removes what was left behind
    if found is None:
        raise missing(process, variable)
    start = process.keep(data)
    return running.Answer(running.Words(variable, "", 0, found, "json"), process.kept, data, start)


def ask(process: running.Process, variable: str, arguments: argparse.Namespace) -> running.Answer:
    """Lets the process report, and reads it. Raises Refused."""
    if arguments.signal:
        return running.ask(process, variable, arguments.words, arguments.wait)
    if arguments.words is not None:
        raise running.Refused("--words says which signal and file HAKOZUNA_STATS or HAKOZUNA_PROFILE names, so it needs --signal")
    return ask_at_socket(process, variable, arguments.wait)


def seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"'{text}': allowed are 0.05 to 86400 seconds")
    return value


def add_signal_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signal", action="store_true", help="ask by the signal that the variable names, as in signal=USR2; it can interrupt a blocking call of the program"
    )
