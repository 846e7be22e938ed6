"""Names for addresses: functions of files, by llvm-symbolizer or addr2line, and those that a runtime compiles, from /tmp/perf-PID.map
(Python -X perf, node --perf-basic-prof, jcmd PID Compiler.perfmap). How they are shortened for people. Used by heap_profile.py and
names.py."""

from __future__ import annotations

import bisect
import os
import pathlib
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

TOOLS = ("llvm-symbolizer", "addr2line")
# Folders of headers that a program is compiled with but that are not its own code.
LIBRARY_FOLDERS = re.compile(r"/usr/(local/)?include/|/usr/lib(64|/gcc|/llvm)[-/]|/include/c\+\+/|/rustc/[^/]*/library/")
LIBRARY_SPACES = re.compile(r"(std|__gnu_cxx|__cxxabiv1)::")
LONG_NAME = 80  # characters; template arguments of longer names are left out


@dataclass(frozen=True)
class Mapping:
    """An executable segment of a file: addresses, place in the file, and the addresses that the file itself uses."""

    start: int
    size: int
    offset: int
    address: int
    path: str
    build_id: str

    @property
    def name(self) -> str:
        return pathlib.PurePath(self.path).name or "?"

    def in_file(self, address: int) -> int:
        """What addr2line wants."""
        return address - self.start + self.address


@dataclass(frozen=True)
class Frame:
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        return self.function + (f"  {self.file}{line}" if self.file else "")


# ---- files -----------------------------------------------------------------------------------------


def build_id_of(path: str) -> str | None:
    """The build id of an ELF file, "" if it has none; None if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01":
                return None
            offset, entry_size, entries = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
            for index in range(entries):
                file.seek(offset + index * entry_size)
                kind, _, start, _, _, size = struct.unpack("<IIQQQQ", file.read(40))
                if kind == 4 and (found := note_of(file, start, size)) is not None:
                    return found
    except (OSError, struct.error):
        return None
    return ""


def note_of(file, start: int, size: int) -> str | None:
    file.seek(start)
    notes = file.read(size)
    at = 0
    while at + 12 <= len(notes):
        name_size, content_size, kind = struct.unpack_from("<III", notes, at)
        content = at + 12 + (name_size + 3) // 4 * 4
        if kind == 3 and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[content : content + content_size].hex()
        at = content + (content_size + 3) // 4 * 4
    return None


def find_tool() -> str | None:
    return next(filter(None, map(shutil.which, TOOLS)), None)


def frames_in(tool: str, path: str, addresses: Iterable[int]) -> dict[int, list[Frame]]:
    """The functions at addresses of a file, innermost first: more than one where a function was inlined. Without those not known."""
    found: dict[int, list[Frame]] = {}
    command = [tool, "-a", "-f", "-C", "-i", "-e", path]
    if "llvm" in pathlib.Path(tool).name:
        command.append("--output-style=GNU")
    addresses = list(addresses)
    given = "".join(f"{address:#x}\n" for address in addresses)
    result = subprocess.run(command, input=given, capture_output=True, text=True, errors="replace", check=False)
    answers = iter(addresses)
    lines = iter(result.stdout.splitlines())
    frames: list[Frame] = []
    for line in lines:
        if line.startswith("0x"):
            address = next(answers, None)
            if address is None:
                break
            frames = found.setdefault(address, [])
            continue
        place = next(lines, "??:0").partition(" (discriminator")[0]
        if line in ("", "??"):
            continue
        file, _, number = place.rpartition(":")
        frames.append(Frame(line, "" if file == "??" else file, int(number) if number.isdigit() else 0))
    return {address: frames for address, frames in found.items() if frames}


# ---- code that a runtime compiles ------------------------------------------------------------------


def compiled_frame(name: str) -> Frame:
    """What the line of a map calls a function, as Python ("py::work:/a.py"), node ("JS:*work /a.js:3:7") and Java ("void A.b()")
    write it."""
    if found := re.fullmatch(r"py::(.+?):([^:]*)", name):
        return Frame(found[1], found[2], 0)
    if found := re.fullmatch(r"(?:JS|LazyCompile|Function|Script|Eval):[~^*+]?(\S*) (.*?):(\d+)(?::\d+)?", name):
        return Frame(found[1] or "(anonymous)", found[2], int(found[3]))
    return Frame(name, "", 0)


class CompiledCode:
    """A process's /tmp/perf-PID.map: lines of start, size and name. A later line replaces earlier ones that it overlaps."""

    def __init__(self, text: str = ""):
        rows: dict[int, tuple[int, str]] = {}
        for line in text.splitlines():
            parts = line.split(" ", 2)
            try:
                rows[int(parts[0], 16)] = int(parts[1], 16), parts[2]
            except (IndexError, ValueError):  # the last line may be half written
                continue
        self.starts = sorted(rows)
        self.rows = rows

    @classmethod
    def of_process(cls, pid: int, root: str = "") -> CompiledCode:
        """That of a process, which `root` leads to if it has another /tmp. A map of somebody else's says nothing."""
        path = f"{root}/tmp/perf-{pid}.map"
        try:
            if os.stat(path).st_uid not in (0, os.getuid()) and os.getuid() != 0:
                return cls()
            with open(path, encoding="utf-8", errors="replace") as file:
                return cls(file.read())
        except OSError:
            return cls()

    def at(self, address: int) -> Frame | None:
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0:
            return None
        size, name = self.rows[self.starts[index]]
        return compiled_frame("".join(c if c.isprintable() else "?" for c in name)) if address < self.starts[index] + size else None


# ---- names for people ------------------------------------------------------------------------------


def closing(text: str, at: int) -> int:
    """The index behind the bracket that closes the one at `at`; the end of the text if none does."""
    pairs = {"<": ">", "(": ")", "[": "]", "{": "}"}
    depth = 0
    for index in range(at, len(text)):
        if text[index] == text[at]:
            depth += 1
        elif text[index] == pairs[text[at]] and not text[index - 1 : index + 1] == "->":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


DEFAULTS = re.compile(r",\s*std::(?:allocator|char_traits|less|greater|hash|equal_to|default_delete|pmr::polymorphic_allocator)<")


def without_defaults(name: str) -> str:
    """Without the template arguments that the standard's containers have anyway."""
    while found := DEFAULTS.search(name):
        name = name[: found.start()] + name[closing(name, found.end() - 1) :]
    return re.sub(r"\s+>", ">", name)


def without_parameters(name: str) -> str:
    """Without what follows the function's own name, and without the type that it returns."""
    at, start = 0, 0
    while at < len(name):
        if name.startswith("operator", at) and not (name[at - 1 : at].isalnum() or name[at - 1 : at] == "_"):
            found = re.match(r"operator(\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?|\s?[^(<]+)", name[at:])
            at += len(found[0]) if found else len("operator")
        elif name.startswith("(anonymous namespace)", at):
            at += len("(anonymous namespace)")
        elif name.startswith("decltype(", at):
            at = closing(name, at + len("decltype"))
        elif name[at] in "<{[":
            at = closing(name, at)
        elif name[at] == "(":
            end = closing(name, at)
            if not name.startswith("::", end):  # a function within this one follows
                return name[start:at] or name
            at = end
        else:
            if name[at] == " ":
                start = at + 1
            at += 1
    return name[start:]


def short_name(name: str) -> str:
    """A demangled C++ or Rust name for people: without parameters, result, default arguments, and the compiler's marks."""
    name = re.sub(r" \[clone [^\]]*\]|\.(?:constprop|isra|part|cold|lto_priv)(?:\.\d+)?|\[abi:\w+\]|::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"\bstd::(?:__cxx11|__1|__ndk1)::", "std::", name)
    name = without_defaults(name)
    name = re.sub(r"std::basic_(string|string_view|ostream|istream|iostream|ofstream|ifstream|stringstream)<char>", r"std::\1", name)
    if re.search(r"[(<:]", name):
        name = without_parameters(name)
    if len(name) > LONG_NAME and "<" in name:
        name = without_arguments(name)
    return name


def without_arguments(name: str) -> str:
    """With an ellipsis for the template arguments."""
    found, at = "", 0
    while at < len(name):
        if name[at] == "<" and not found.endswith("operator"):
            found, at = found + "<...>", closing(name, at)
        else:
            found, at = found + name[at], at + 1
    return found


def is_of_library(frame: Frame) -> bool:
    """Whether a function comes from the headers of a library, most often inlined."""
    return bool(LIBRARY_FOLDERS.search(frame.file) or LIBRARY_SPACES.match(short_name(frame.function)))


def for_people(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Short names, and of neighbours from headers of libraries only the outermost, which the program has called."""
    held: Frame | None = None
    for frame in frames:  # the innermost first
        short = replace(frame, function=short_name(frame.function))
        if is_of_library(frame):
            held = short
            continue
        if held is not None:
            yield held
            held = None
        yield short
    if held is not None:
        yield held
