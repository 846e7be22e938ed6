"""The hakozuna memory allocator: where its libraries are. `python -m hakozuna` runs programs under it."""

from __future__ import annotations

import os
import pathlib
import stat

DEFAULT_LANE = "hz3-scale"
_HERE = pathlib.Path(__file__).resolve().parent
_LIBRARIES = _HERE / "lib"
TOOLS = _HERE / "tools"
_LISTEN = "listen,children"  # as in the installed command (command/hakozuna.in)


def lanes() -> list[str]:
    """The names of the lanes, the default first."""
    others = sorted(path.name.partition(".so")[0] for path in _LIBRARIES.glob("libhakozuna-*.so.*"))
    return [DEFAULT_LANE, *(name.removeprefix("libhakozuna-") for name in others)]


def library(lane: str = DEFAULT_LANE) -> pathlib.Path:
    """The shared library of a lane. Raises ValueError for an unknown lane."""
    if lane not in lanes():
        raise ValueError(f"no lane is called '{lane}'; there are: {', '.join(lanes())}")
    name = "libhakozuna" if lane == DEFAULT_LANE else f"libhakozuna-{lane}"
    (found,) = _LIBRARIES.glob(f"{name}.so.*")
    return found


def environment(lane: str = DEFAULT_LANE) -> dict[str, str]:
    """The process's environment, with the library in front of what LD_PRELOAD names already. Raises ValueError."""
    names = [str(library(lane)), *filter(None, [os.environ.get("LD_PRELOAD")])]
    if any(character in names[0] for character in " :"):
        raise ValueError(f"'{names[0]}' has a blank or a colon, which LD_PRELOAD takes as a separator")
    return {**os.environ, "LD_PRELOAD": ":".join(names)}


def _check_folder() -> None:
    """Looks whether the folder is there in which the library makes the socket of a process that listens. Raises ValueError."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime}/hakozuna" if runtime.startswith("/") else f"/tmp/hakozuna-{os.getuid()}"
    try:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        found = os.lstat(folder)
    except OSError as error:
        raise ValueError(f"cannot make the folder '{folder}': {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise ValueError(f"'{folder}' is not what it should be: a directory of this user with mode 700")


def watched(watch: bool, profile: bool) -> dict[str, str]:
    """The variables with which a process can be asked later, for its statistics or its heap profile. Raises ValueError."""
    if watch or profile:
        _check_folder()
    wanted = {"HAKOZUNA_STATS": _LISTEN} if watch else {}
    return wanted | ({"HAKOZUNA_PROFILE": _LISTEN} if profile else {})
