"""The system calls that the preloaded library itself makes, as strace sees them.

strace prints the address of each call. The library's calls go straight to the kernel, so their addresses lie in its file's
mapping, which strace sees, too. Calls of the program and of the C library have other addresses.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from preloading import TIMEOUT_SECONDS, clean_environment, required

LINE = re.compile(r"^(?P<thread>\d+) +\[(?P<address>[0-9a-f]+)\] (?P<name>\w+)\((?P<rest>.*)$")
RESUMED = re.compile(r"^\d+ +\[[0-9a-f?]+\] <\.\.\. \w+ resumed>(?P<rest>.*)$")
RESULT = re.compile(r"\) += (?P<result>\S+)")
# Which arguments of a call say what it does. Of the others only addresses, lengths and descriptors matter.
TELLING = {
    "mmap": [2, 3], "mprotect": [2], "madvise": [2], "mremap": [3], "futex": [1], "openat": [2], "prlimit64": [1, 2],
    "membarrier": [0], "prctl": [0], "fcntl": [1], "ioctl": [1], "getrusage": [0], "getrandom": [2], "rseq": [2],
    "clock_gettime": [0], "close_range": [2],
}  # fmt: skip


@dataclass
class Process:
    """Where the library is mapped: the begin and end of its file."""

    descriptor: str | None = None
    mapped: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str  # the telling ones: "PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS"
    is_confined: bool  # the program had told of a filter before

    def __str__(self) -> str:
        return f"{self.name}({self.arguments})"


def arguments_of(rest: str) -> list[str]:
    """The arguments, without what follows them. Commas in brackets and strings do not separate."""
    found, depth, quoted, word = [], 0, False, ""
    for character in rest:
        if character == '"' and not word.endswith("\\"):
            quoted = not quoted
        elif not quoted and character in "([{":
            depth += 1
        elif not quoted and character in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif not quoted and depth == 0 and character == ",":
            found.append(word.strip())
            word = ""
            continue
        word += character
    return [*found, word.strip()]


def whole_lines(trace: str) -> Iterator[str]:
    """Puts the two parts of a call together, between which other threads made calls. One that never ended has one part."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        thread = line.partition(" ")[0]
        rest = RESUMED.match(line)
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
        elif rest is not None:
            yield begun.pop(thread, "") + rest["rest"]
        else:
            yield line
    yield from begun.values()


def calls_in(trace: str, library: str, *, is_told: bool = True) -> set[Call]:
    """What the library called in any process of the trace: each has the same mappings. `is_told`: a filter comes by the
    function prctl."""
    found: set[Call] = set()
    image, is_confined = Process(), False
    for line in whole_lines(trace):
        match = LINE.match(line)
        if match is None:
            continue
        name, arguments = match["name"], arguments_of(match["rest"])
        result = RESULT.search(match["rest"])
        value = result["result"] if result else ""
        if name == "execve" and value == "0":
            image, is_confined = Process(), False
        elif name == "openat" and f'"{library}"' in match["rest"]:
            image.descriptor = value
        elif name == "mmap" and image.descriptor is not None and arguments[4] == image.descriptor and not image.mapped:
            image.mapped.append((int(value, 16), int(value, 16) + int(arguments[1])))
        address = int(match["address"], 16)
        if any(begin < address <= end for begin, end in image.mapped):
            telling = ", ".join(arguments[i] for i in TELLING.get(name, []) if i < len(arguments))
            found.add(Call(name, telling, is_confined))
        if is_told and name == "prctl" and arguments[0] in ("PR_SET_NO_NEW_PRIVS", "PR_SET_SECCOMP"):
            is_confined = True
    return found


def trace(
    library: Path, folder: Path, *command: str | Path, variables: dict[str, str] | None = None, is_told: bool = True
) -> set[Call]:
    """Runs one program, which may start threads and forks but executes no other, and returns the library's calls."""
    log = folder / "trace"
    words = [required("strace"), "-f", "-i", "-o", log, "-E", f"LD_PRELOAD={library}"]
    for name, value in (variables or {}).items():
        words += ["-E", f"{name}={value}"]
    result = subprocess.run(
        [str(word) for word in (*words, "--", *command)],
        env=clean_environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout}{result.stderr}"
    return calls_in(log.read_text(errors="replace"), str(library), is_told=is_told)
