"""The allocators under comparison: the peers from Debian packages, the project's libraries, and any other file."""

import dataclasses
import glob
import hashlib
import os
import pathlib
import subprocess
import sys

from compare.project import LIB_DIR, public_path

# name -> (file, package that brings it)
PEERS = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0"),
}
GLIBC = "glibc"

_CONFIG_SYMBOL = "hz_config_string"
_ASK_CONFIG = f"""
import ctypes
ask = ctypes.CDLL(None).{_CONFIG_SYMBOL}
ask.restype = ctypes.c_char_p
print(ask().decode())
"""


@dataclasses.dataclass(frozen=True)
class Allocator:
    """`library` None is the C library's own malloc. `config` is hz_config_string of libraries that have it."""

    name: str
    library: pathlib.Path | None = None
    config: str = ""
    sha256: str = ""

    @property
    def is_ours(self) -> bool:
        """Judged against the peers; whatever has no configuration string of ours is a peer."""
        return self.config != ""

    @property
    def shown_library(self) -> str:
        return public_path(self.library) if self.library else ""


def _ask_config(library: pathlib.Path) -> str:
    """In a child of its own, preloaded as in the runs: the library replaces malloc of whatever loads it."""
    command = [sys.executable, "-c", _ASK_CONFIG]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    last_words = asked.stderr.strip().splitlines()[-1:]
    return " ".join([f"unknown: asking {_CONFIG_SYMBOL} ended with exit code {asked.returncode}", *last_words])


def load(name: str, library: pathlib.Path) -> Allocator:
    """Raises ValueError when the file cannot be one to preload. Whether it really can shows when it runs."""
    library = library.absolute()
    if any(character in str(library) for character in " :"):
        raise ValueError(f"allocator {name}: '{library}' has a blank or colon, which LD_PRELOAD takes as a separator")
    try:
        contents = library.read_bytes()
    except OSError as error:
        raise ValueError(f"allocator {name}: cannot read '{library}': {error.strerror}") from error
    config = _ask_config(library) if _CONFIG_SYMBOL.encode() in contents else ""
    return Allocator(name, library, config, hashlib.sha256(contents).hexdigest())


def _find_peer(name: str) -> pathlib.Path | None:
    file = PEERS[name][0]
    found = sorted(glob.glob(f"/usr/lib/*-linux-gnu/{file}") + glob.glob(f"/usr/lib/{file}"))
    return pathlib.Path(found[0]) if found else None


def _own_libraries() -> dict[str, pathlib.Path]:
    return {path.stem.removeprefix("libhakozuna_"): path for path in sorted(LIB_DIR.glob("libhakozuna_*.so"))}


def select(names: str | None, extra: dict[str, pathlib.Path]) -> tuple[list[Allocator], list[str]]:
    """The allocators, and remarks about those that are not here.

    `names` None takes all that are found; a name asked for that cannot be had raises ValueError. `extra` (--lib) is
    always taken, and wins over a built-in of the same name.
    """
    files: dict[str, pathlib.Path | None] = {GLIBC: None}
    missing: dict[str, str] = {}
    for name, (file, package) in PEERS.items():
        path = _find_peer(name)
        if path is not None:
            files[name] = path
        else:
            missing[name] = f"{name}: no {file} under /usr/lib; 'apt-get install {package}' brings it"
    own = _own_libraries()
    files.update(own)
    if not own:
        missing["hakozuna"] = f"no libhakozuna_*.so in {public_path(LIB_DIR)}; 'make libs' builds them"
    if names is not None:
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        for name in wanted:
            if name not in files and name not in extra:
                known = ", ".join([*files, *extra])
                unknown = "; ".join([f"no allocator is called '{name}'", f"here: {known}", *missing.values()])
                raise ValueError(missing.get(name, unknown))
        files = {name: files[name] for name in wanted if name in files}
        missing = {}
    files.update(extra)
    allocators = [Allocator(name) if path is None else load(name, path) for name, path in files.items()]
    return allocators, list(missing.values())
