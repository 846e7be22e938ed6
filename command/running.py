"""A running process, and how to ask it by a signal: the library writes a report when it gets the one that HAKOZUNA_STATS or
HAKOZUNA_PROFILE names (docs/statistics.md). asking.py asks at a socket instead, unless the user says --signal.

The words of the variable come from /proc/PID/environ. Programs that set the title of their process (redis-server, nginx) overwrite
that memory; then the caller gives the words.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import glob
import os
import pathlib
import pwd
import re
import select
import signal
import stat
import time
from dataclasses import dataclass

REPORTER = "hakozuna-stats"  # the library's thread that writes reports
LIBRARY = re.compile(r"/libhakozuna[^/\n]*\.so[^/\n]*$", re.MULTILINE)
LOOK_SECONDS = 0.01  # from one look at the file to the next
WAIT_SECONDS = 10.0
PID_MAX = 2**31 - 1  # what the kernel can have
RUN_OPTION = {"HAKOZUNA_STATS": "--watch", "HAKOZUNA_PROFILE": "--profile"}
EXAMPLE = {"HAKOZUNA_STATS": "json,signal=URG,file=/tmp/%e.%p.stats", "HAKOZUNA_PROFILE": "signal=USR2,file=/tmp/%e.%p.heap"}
DEFAULT_FILE = {"HAKOZUNA_STATS": "", "HAKOZUNA_PROFILE": "%e.%p.heap"}


class Refused(Exception):
    """Why there is no report. The text is for people."""


class NoAnswer(Refused):
    """The process was asked, and has written nothing in time."""


# ---- the words -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """What the variable asks for, as src/front/reports/request.c reads it. `signal` is 0 and `file` "" if there is none."""

    variable: str
    text: str
    signal: int
    file: str
    format: str


def signal_of(name: str) -> int:
    """0 if the word names none."""
    if name.isascii() and name.isdigit():
        return int(name) if signal.SIGRTMIN <= int(name) <= signal.SIGRTMAX else 0
    with contextlib.suppress(ValueError, KeyError):
        return int(signal.Signals["SIG" + name.removeprefix("SIG")])
    return 0


def words_of(variable: str, text: str) -> Words:
    number, file, kind = 0, DEFAULT_FILE[variable], "text"
    for word in text.split(","):
        if word in ("text", "verbose", "json"):
            kind = word
        elif word.startswith("signal="):
            number = signal_of(word.removeprefix("signal=")) or number
        elif word.startswith("file="):
            file = word.removeprefix("file=")
    return Words(variable, text, number, file, kind)


def path_pattern(file: str, pid: int) -> str:
    """A pattern for glob. The program's name cannot be known from outside, since programs overwrite it."""
    parts = {"%e": "*", "%p": str(pid), "%%": "%"}
    return "".join(parts.get(part, glob.escape(part)) for part in re.findall(r"%.|[^%]+|%", file))


# ---- the process -----------------------------------------------------------------------------------


def printable(text: str) -> str:
    """What a process says of itself, for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def require_own_proc() -> None:
    """That /proc has the numbers of this program's own namespace: a signal must go to the process that was looked at."""
    try:
        me = os.readlink("/proc/self")
    except FileNotFoundError as error:
        raise Refused("/proc does not show this program: mount it here, by 'mount -t proc proc /proc'") from error
    if me != str(os.getpid()):
        raise Refused("/proc is that of another namespace of processes: mount it here, by 'mount -t proc proc /proc', or ask from there")


class Process:
    """A process that may be asked. It is held by a descriptor, so that a later process of the same number is not meant."""

    def __init__(self, number: int):
        require_own_proc()
        try:
            self.descriptor = os.pidfd_open(number)
        except (OSError, OverflowError) as error:
            raise Refused(f"there is no process {number}") from error
        self.number = number
        self.folder = pathlib.Path(f"/proc/{number}")
        self.status = self.look()
        self.owner = int(self.status["Uid"].split()[0])
        self.kept: pathlib.Path | None = None  # what it has answered at its socket
        self.memory: int | None = None  # the file of that, which ends with this object
        self.inner_number = int(self.status.get("NSpid", str(number)).split()[-1])  # in its own namespace

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        if self.memory is not None:
            os.close(self.memory)

    def look(self) -> dict[str, str]:
        try:
            lines = (self.folder / "status").read_text(errors="replace").splitlines()
        except OSError as error:
            raise Refused(f"process {self.number} has ended") from error
        found = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
        if found["State"].startswith(("Z", "X")):
            raise Refused(f"process {self.number} has ended")
        return found

    def read(self, name: str) -> str:
        """A file of /proc that only the process's user can read."""
        try:
            return (self.folder / name).read_bytes().decode(errors="replace")
        except PermissionError as error:
            me = os.geteuid()
            if self.owner != me:
                why = f"belongs to {user_name(self.owner)}, and you are {user_name(me)}"
            else:
                why = "runs with rights that you do not have, so it cannot be queried"
            raise Refused(f"process {self.number} {why}") from error
        except OSError as error:
            raise Refused(f"process {self.number} has ended") from error

    def keep(self, data: bytes, adds: bool) -> int:
        """Writes an answer to a file in memory, after earlier ones if `adds`, and returns its offset. A container may have no folder for a file."""
        if self.kept is None:
            self.memory = os.memfd_create("hakozuna")
            self.kept = pathlib.Path(f"/proc/{os.getpid()}/fd/{self.memory}")
        with self.kept.open("ab" if adds else "wb") as file:
            start = file.tell()
            file.write(data)
        return start

    def threads(self) -> dict[str, int]:
        """Names and numbers; of threads with the same name, one."""
        found = {}
        for path in self.folder.glob("task/*/comm"):
            with contextlib.suppress(OSError):
                found[path.read_text(errors="replace").strip()] = int(path.parent.name)
        return found

    def catches(self, number: int) -> bool:
        return bool(int(self.status["SigCgt"], 16) >> number - 1 & 1)

    def has_ended(self, seconds: float) -> bool:
        """Waits so long for its end."""
        waiter = select.poll()
        waiter.register(self.descriptor, select.POLLIN)
        return bool(waiter.poll(seconds * 1000))

    def send(self, number: int) -> None:
        """To the library's thread, which does not block it. So it interrupts no call of another thread."""
        thread = self.threads().get(REPORTER)
        if self.has_ended(0) or thread is None or ctypes.CDLL(None).tgkill(self.number, thread, number) != 0:
            raise Refused(f"process {self.number} has ended")

    def find(self, file: str) -> dict[str, os.stat_result]:
        """The regular files of a pattern, as the process sees them: in its folder, and in its container."""
        base = self.folder / ("root" if file.startswith("/") else "cwd")
        found = {}
        for path in glob.glob(f"{base}/{path_pattern(file.lstrip('/'), self.inner_number)}"):
            with contextlib.suppress(OSError):
                about = os.lstat(path)
                if stat.S_ISLNK(about.st_mode) or not stat.S_ISREG(about.st_mode):
                    raise Refused(f"'{file}' is not a regular file, so its reports cannot be read back")
                found[path] = about
        return found

    def writes(self, about: os.stat_result) -> bool:
        """Whether it has the file open."""
        for path in self.folder.glob("fd/*"):
            with contextlib.suppress(OSError):
                other = os.stat(path)
                if (other.st_dev, other.st_ino) == (about.st_dev, about.st_ino):
                    return True
        return False


def process_number(text: str) -> int:
    """For argparse."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= PID_MAX):
        raise argparse.ArgumentTypeError(f"'{text}': allowed is the number of a process, 1 to {PID_MAX}")
    return int(text)


# ---- asking ----------------------------------------------------------------------------------------


def advice(variable: str) -> str:
    return f"start it with {variable}={EXAMPLE[variable]}, or by 'hakozuna run {RUN_OPTION[variable]} PROGRAM' and query it without --signal"


def words_for(process: Process, variable: str, told: str | None) -> Words:
    """The words that the process was started with."""
    environment = process.read("environ")
    named = re.search(rf"(?:^|\0){variable}=([^\0]*)", environment)
    has_reporter = REPORTER in process.threads()
    if not has_reporter and LIBRARY.search(process.read("maps")) is None:
        raise Refused(f"process {process.number} does not run under hakozuna: {advice(variable)}")
    if told is not None:
        return words_of(variable, told)
    if named is not None:
        return words_of(variable, named[1])
    others = (name for name in EXAMPLE if name != variable)
    if has_reporter and not any(re.search(rf"(?:^|\0){name}=", environment) for name in others):
        raise Refused(f"process {process.number} has overwritten its environment: give its {variable} again with --words")
    raise Refused(f"process {process.number} was started without {variable}: {advice(variable)}")


def check(process: Process, words: Words) -> None:
    """That a signal would make a report in a file."""
    has = f"process {process.number} has {words.variable}={words.text}"
    if words.signal == 0:
        raise Refused(f"{has}, which names no signal: {advice(words.variable)}")
    if words.file == "":
        raise Refused(f"{has}, so its reports go to stderr: {advice(words.variable)}")
    if REPORTER not in process.threads():
        raise Refused(
            f"{has}, and no thread '{REPORTER}': it is a child of the process that was started so (the option children includes it), or it has "
            "restricted its system calls"
        )
    if not process.catches(words.signal):  # the signal could end it
        raise Refused(f"process {process.number} has no handler for signal {words.signal}, which {words.variable} names")
    if process.status["State"].startswith(("T", "t")):
        raise Refused(f"process {process.number} is stopped; after SIGCONT it can answer")


@dataclass(frozen=True)
class Answer:
    """The bytes that the process has written; `path` has them from `start` on."""

    words: Words
    path: pathlib.Path
    data: bytes
    start: int


def grown(process: Process, words: Words, before: dict[str, os.stat_result]) -> tuple[str, int] | None:
    """A file with a whole new report, and where the report begins. It is whole when the process has closed the file."""
    for path, about in process.find(words.file).items():
        old = before.get(path)
        start = old.st_size if old is not None and old.st_ino == about.st_ino and old.st_size <= about.st_size else 0
        if about.st_size > start and not process.writes(about):
            return path, start
    return None


def wait(process: Process, words: Words, before: dict[str, os.stat_result], seconds: float) -> Answer:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := grown(process, words, before)) is not None:
            with open(found[0], "rb") as file:
                file.seek(found[1])
                return Answer(words, pathlib.Path(found[0]), file.read(), found[1])
        if process.has_ended(LOOK_SECONDS):
            raise Refused(f"process {process.number} has ended")
    raise NoAnswer(
        f"process {process.number} has written no report within {seconds:g} s: it handles signal {words.signal} itself, cannot write "
        f"'{words.file}' (then it says so on stderr), or is stopped"
    )


def ask(process: Process, variable: str, told: str | None = None, seconds: float = WAIT_SECONDS) -> Answer:
    """Lets the process write a report, and reads it. Raises Refused."""
    process.status = process.look()
    words = words_for(process, variable, told)
    check(process, words)
    before = process.find(words.file)
    process.send(words.signal)
    try:
        return wait(process, words, before, seconds)
    except PermissionError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from error
