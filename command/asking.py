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
import sys
import time

import running

NAME = re.compile(r"(?P<pid>\d+)\.(?:[0-9a-f]{8}){1,2}")
REQUEST = {"HAKOZUNA_STATS": "json", "HAKOZUNA_PROFILE": "profile"}
WAITS = b"no: it waits to be asked to sample"
ANSWER_BYTES_MAX = 512 << 20
CONNECT_SECONDS = 2  # for a process whose queue is full
LISTENER = "hakozuna-ask"  # the library's thread
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
    bound = [os.path.split(path) for path in paths]  # to a hidden name, which is changed when it listens
    return [f"{folder}/{name.removeprefix('.')}" for folder, name in bound if os.path.basename(folder).startswith("hakozuna")]


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
        about, place = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(folder)
        # a container may lead to another folder by a symbolic link
        if stat.S_ISSOCK(about.st_mode) and stat.S_IMODE(place.st_mode) == 0o700 and about.st_uid == place.st_uid:
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
    if words & {"listen", "wait"}:
        return running.Refused(f"process {number} was started to listen, and does not: {why_silent(process)}")
    by_signal = "" if not any(word.startswith("signal=") for word in words) else "; --signal queries it by the signal that it names"
    return running.Refused(f"process {number} does not listen, so it cannot be queried: {advice(variable)}{by_signal}")


def why_silent(process: running.Process) -> str:
    """Why a process that was asked to listen has no socket at which it answers."""
    status = process.look()
    has_thread = LISTENER in process.threads()
    if any(status.get(key, "0") != "0" for key in ("Seccomp", "NoNewPrivs")) and not has_thread:
        return "it has restricted its system calls, or was started so and a call that it takes is refused, as it has then said on stderr"
    if has_thread:
        return f"its thread {LISTENER} is there, but its socket is not where this program can reach it: it is in another root, or was removed"
    return "it is a child of the process that was started so (the option children includes it), or has said on stderr what was in the way"


# ---- asking ----------------------------------------------------------------------------------------


def sleeps_confined(process: running.Process) -> bool:
    """Whether it has restricted its system calls where its listener could not be told: the thread sleeps, and its socket stays."""
    status = process.look()
    is_confined = any(status.get(key, "0") != "0" for key in ("Seccomp", "NoNewPrivs"))
    return is_confined and not (process.folder / "root/proc/thread-self").is_symlink()


def read_all(peer: socket.socket, process: running.Process, seconds: float) -> bytes:
    number = process.number
    end = time.monotonic() + seconds
    data = bytearray()
    try:
        while True:
            peer.settimeout(max(end - time.monotonic(), 0.001))
            part = peer.recv(1 << 16)
            if not part:
                return bytes(data)
            data += part
            if len(data) > ANSWER_BYTES_MAX:
                raise running.Refused(f"process {number} answers more than {ANSWER_BYTES_MAX >> 20} MiB, which is no report")
    except TimeoutError as error:
        why = (
            ": it has restricted its system calls, in a root without /proc and the socket's folder, so its listener could not be told, and sleeps for good"
            if not data and sleeps_confined(process)
            else ""
        )
        raise running.NoAnswer(f"process {number} has not answered within {seconds:g} s{why}") from error
    except OSError as error:  # it has closed the connection, perhaps without a look at the question
        if data:
            return bytes(data)
        raise running.Refused(f"process {number} has ended") from error


def request(process: running.Process, peer: socket.socket, variable: str, words: str, seconds: float) -> bytes:
    """What the process answers. Raises Refused, Waits."""
    with contextlib.suppress(OSError):  # it may have left already, with an answer
        peer.sendall(f"{words}\n".encode())
    data = read_all(peer, process, seconds)
    if data.startswith(WAITS):
        raise Waits(f"process {process.number} has not begun to sample")
    if data.startswith(NO):
        hint = f": {advice(variable)}" if b"no heap profile" in data else ""
        raise running.Refused(f"process {process.number} refuses: {running.printable(data.removeprefix(NO).decode(errors='replace').strip())}{hint}")
    if not (data.startswith(BEGIN) and data.endswith(END)):
        raise running.NoAnswer(f"process {process.number} has broken off its answer")
    return data[len(BEGIN) : -len(END)]


class Waits(running.Refused):
    """It makes a heap profile only when somebody asks for that (HAKOZUNA_PROFILE=wait)."""


def ask_at_socket(process: running.Process, variable: str, seconds: float, words: str = "") -> running.Answer:
    """`words`: what is asked; default: a report of the variable's kind."""
    process.status = process.look()
    if process.status["State"].startswith(("T", "t")):
        raise running.Refused(f"process {process.number} is stopped; after SIGCONT it can answer")
    found = None
    for path in places(process):
        if found is None and (peer := connected(path, process.number)) is not None:
            found = path
            with peer:
                data = request(process, peer, variable, words or REQUEST[variable], seconds)
        elif found is None or not path.endswith(os.path.basename(found)):
            connected(path, -1)  # removes what was left behind
    if found is None:
        raise missing(process, variable)
    if words.startswith("profile "):  # the line before the profile says what was done
        line, _, data = data.partition(b"\n")
        tell_done(running.printable(line.decode(errors="replace")), process.number)
    start = process.keep(data, adds=variable == "HAKOZUNA_PROFILE")  # a profile is read with those before it
    return running.Answer(running.Words(variable, "", 0, found, "json"), process.kept, data, start)


def tell_done(line: str, number: int) -> None:
    """That sampling has begun, runs already, or has ended, on stderr. The answer is the profile."""
    done, _, left = line.partition(" ")
    texts = {
        "began": "begins to sample allocations now",
        "runs": "samples allocations already",
        "ended": "no longer samples allocations",
    }
    print(f"hakozuna profile: process {number} {texts.get(done, line)}", file=sys.stderr)
    if left not in ("", "0"):
        print(f"hakozuna profile: {left} of its threads could not be reached: they go on as before", file=sys.stderr)


def ask(process: running.Process, variable: str, arguments: argparse.Namespace, words: str = "") -> running.Answer:
    """Lets the process report, and reads it. Raises Refused, Waits."""
    if arguments.signal and words:
        raise running.Refused("a signal only gets what was sampled so far: --start, --stop and --seconds need the socket, so leave out --signal")
    if arguments.signal:
        return running.ask(process, variable, arguments.words, arguments.wait)
    if arguments.words is not None:
        raise running.Refused("--words says which signal and file HAKOZUNA_STATS or HAKOZUNA_PROFILE names, so it needs --signal")
    return ask_at_socket(process, variable, arguments.wait, words)


def seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"'{text}': allowed are 0.05 to 86400 seconds")
    return value


def add_signal_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signal", action="store_true", help="query by the signal that the variable names, as in signal=USR2; it can interrupt a blocking call of the program"
    )
