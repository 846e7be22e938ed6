"""The hakozuna memory allocator: where its libraries are. The command `hakozuna` runs programs under it."""

from __future__ import annotations

import os
import pathlib

DEFAULT_LANE = "hz3-scale"
_HERE = pathlib.Path(__file__).resolve().parent
_LIBRARIES = _HERE / "lib"
COMMAND = _HERE / "bin" / "hakozuna"


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
