"""Seccomp profiles in the form of the OCI runtime specification, the one that Docker, Podman, crun and runc read.

libseccomp turns a profile into the kernel's form. The result is installed between fork and exec, so it is there before
the first instruction of the program, as in a container. hakobench/filters has the profiles that are known by name.

usage: python3 -m hakobench.seccomp PROFILE COMMAND [ARGS]...     runs a command under a profile
"""

import ctypes
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence

FILTERS = pathlib.Path(__file__).resolve().parent / "filters"

_ALLOW = 0x7FFF0000
_ACTIONS = {"ALLOW": _ALLOW, "KILL": 0, "KILL_THREAD": 0, "KILL_PROCESS": 0x80000000, "TRAP": 0x00030000, "LOG": 0x7FFC0000}
_ERRNO = 0x00050000
_COMPARISONS = {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_INSTRUCTION_BYTES = 8


class _Comparison(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def names() -> list[str]:
    """The profiles that are known by name."""
    return sorted(path.stem for path in FILTERS.glob("*.json"))


def path_of(name: str) -> pathlib.Path:
    """The file of a profile that is known by name, or `name` itself if it is a file. Raises ValueError."""
    known = FILTERS / f"{name}.json"
    if known.is_file():
        return known
    if pathlib.Path(name).is_file():
        return pathlib.Path(name)
    raise ValueError(f"'{name}' is neither a file nor a known profile; known: {', '.join(names())}")


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError as error:
        raise ValueError(f"no libseccomp.so.2 ({error}); 'apt-get install libseccomp2'") from error
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison),
    ]  # fmt: skip
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


def _action(name: str, error: int) -> int:
    word = name.removeprefix("SCMP_ACT_")
    return _ERRNO | error if word == "ERRNO" else _ACTIONS[word]


def _comparisons(arguments: list[dict]) -> "ctypes.Array[_Comparison]":
    made = (_Comparison * len(arguments))()
    for place, argument in enumerate(arguments):
        op = _COMPARISONS[argument["op"].removeprefix("SCMP_CMP_")]
        made[place] = _Comparison(argument["index"], op, argument["value"], argument.get("valueTwo", 0))
    return made


def compiled(profile: dict) -> bytes:
    """The profile as instructions for the kernel. Names that this libseccomp does not know are left out, as container
    engines do: they are calls of other processors, or newer ones. Raises ValueError when the profile is no good."""
    library = _library()
    try:
        default = _action(profile["defaultAction"], profile.get("defaultErrnoRet", 1))
        context = library.seccomp_init(default)
        for rule in profile.get("syscalls", []):
            action = _action(rule["action"], rule.get("errnoRet", 1))
            arguments = _comparisons(rule.get("args") or [])
            for name in rule["names"]:
                number = library.seccomp_syscall_resolve_name(name.encode())
                if number == -1 or action == default:
                    continue
                result = library.seccomp_rule_add_array(context, action, number, len(arguments), arguments)
                # a negative number stands for a call of another processor, for which no rule with arguments can be made
                if result != 0 and number >= 0:
                    raise ValueError(f"libseccomp refuses the rule for '{name}': {os.strerror(-result)}")
    except KeyError as error:
        raise ValueError(f"the profile has no {error}, or an unknown word there") from error
    with tempfile.TemporaryFile() as file:
        result = library.seccomp_export_bpf(context, file.fileno())
        library.seccomp_release(context)
        if result != 0:
            raise ValueError(f"libseccomp cannot export the profile: {os.strerror(-result)}")
        file.seek(0)
        return file.read()


def read(name: str) -> dict:
    """The profile of that name, or in that file. Raises ValueError."""
    path = path_of(name)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"cannot read the profile '{path}': {error}") from error


def installer(programs: Sequence[bytes]) -> Callable[[], None]:
    """A preexec_fn that installs the programs one after the other, as `compiled` made them. The last one must allow
    execve, and, unless the caller passes close_fds=False, what Python does between this function and exec."""
    c_library = ctypes.CDLL(None, use_errno=True)
    prctl = c_library.prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    made = [_Program(len(code) // _INSTRUCTION_BYTES, code) for code in programs]

    def install() -> None:
        if prctl(_PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
        for program in made:
            if prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program), 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")

    return install


def under(name: str) -> Callable[[], None]:
    """A preexec_fn that puts the child under the profile of that name, or in that file. Raises ValueError."""
    return installer([compiled(read(name))])


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        confine = under(arguments[0])
        confine()
        os.execvp(arguments[1], arguments[1:])
    except (OSError, ValueError) as error:
        print(f"hakobench.seccomp: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
