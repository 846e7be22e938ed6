"""The allocators to compare: glibc, the peers, the libraries of this project, and any other library file."""

import dataclasses
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
from collections.abc import Sequence

import click

from hakobench import peers, seccomp
from hakobench.project import IN_CHECKOUT, LIB_DIR, ROOT, public_path, public_text
from hakobench.rows import NAME

GLIBC = "glibc"
ASK_SECONDS = 10.0
INSTALLED_DEFAULT = "hakozuna"  # libhakozuna.so.0
USERS_LANES = ("hz3-scale", "hz4")  # the default, and the one for less memory
_TRIPLE = sysconfig.get_config_var("MULTIARCH") or "."  # of Debian, such as x86_64-linux-gnu
SYSTEM_FOLDERS = [pathlib.Path(name) for name in ("/usr/local/lib", "/usr/lib64", f"/usr/lib/{_TRIPLE}", "/usr/lib")]
_KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")

_CONFIG_SYMBOL = "hz_config_string"
_ASK_CONFIG = f"""
import ctypes
ask = ctypes.CDLL(None).{_CONFIG_SYMBOL}
ask.restype = ctypes.c_char_p
print(ask().decode())
"""


@dataclasses.dataclass(frozen=True)
class Allocator:
    """One allocator. `library` is None for the C library's own malloc. `config` is the hz_config_string of a library
    that exports one. `settings` are environment variables that this allocator needs to be at its best. `under` is a
    seccomp profile, as seccomp.path_of takes it, in which the program under test runs; empty: none."""

    name: str
    library: pathlib.Path | None = None
    config: str = ""
    sha256: str = ""
    version: str = ""
    source: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    under: str = ""

    @property
    def is_ours(self) -> bool:
        """A library with a configuration string is ours and is judged against the peers; all others are peers."""
        return self.config != ""

    @property
    def shown_library(self) -> str:
        return public_path(self.library) if self.library else ""

    def environment(self) -> dict[str, str]:
        """Nearly empty, so that no setting of the caller's shell (MALLOC_CONF, GLIBC_TUNABLES) changes a figure."""
        kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        preload = {"LD_PRELOAD": str(self.library)} if self.library else {}
        return kept | {"LC_ALL": "C"} | dict(self.settings) | preload


def confined(chosen: list[Allocator], under: str) -> dict[str, Allocator]:
    """The same allocators under a seccomp profile, by the names of those without. Raises ValueError."""
    profile = seccomp.path_of(under).stem
    seccomp.compiled(seccomp.read(under))
    return {one.name: dataclasses.replace(one, name=f"{one.name}+{profile}", under=under) for one in chosen}


def digest(path: pathlib.Path) -> str:
    """The sha256 of a file in hexadecimal. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _ask_config(library: pathlib.Path) -> str:
    """Asks a child that preloads the library as the runs do, because a library replaces the malloc of its process."""
    command = [sys.executable, "-c", _ASK_CONFIG]
    environment = Allocator("", library).environment()
    try:
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=ASK_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"unknown: asking {_CONFIG_SYMBOL} took more than {ASK_SECONDS:g} s"
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    last_words = asked.stderr.strip().splitlines()[-1:]
    text = " ".join([f"unknown: asking {_CONFIG_SYMBOL} ended with exit code {asked.returncode}", *last_words])
    return public_text(text, library, pathlib.Path(sys.executable))


def load(name: str, library: pathlib.Path, version: str = "", source: str = "file") -> Allocator:
    """Raises ValueError when it is certain that the file cannot be preloaded. Only a run shows that it can."""
    library = library.absolute()
    if any(character in str(library) for character in " :"):
        raise ValueError(f"allocator {name}: '{library}' has a blank or colon, which LD_PRELOAD takes as a separator")
    try:
        contents = library.read_bytes()
    except OSError as error:
        raise ValueError(f"allocator {name}: cannot read '{library}': {error.strerror}") from error
    config = _ask_config(library) if _CONFIG_SYMBOL.encode() in contents else ""
    return Allocator(name, library, config, hashlib.sha256(contents).hexdigest(), version, source)


def _installed_libraries(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    files = sorted(folder.glob("libhakozuna*.so.[0-9]"))  # not .so.0.1.0, to which a link of the first name leads
    return {path.name.partition(".so")[0].removeprefix("libhakozuna-").removeprefix("lib"): path for path in files}


def own_libraries() -> dict[str, pathlib.Path]:
    """The libraries build/lib/libhakozuna_X.so, by X. Outside of a checkout those of the Python package hakozuna, or those
    of the first system folder that has any: libhakozuna.so.0 is "hakozuna", libhakozuna-X.so.0 is X."""
    if not IN_CHECKOUT:
        package = importlib.util.find_spec("hakozuna")
        folders = [pathlib.Path(folder) / "lib" for folder in (package and package.submodule_search_locations) or ()]
        found = (_installed_libraries(folder) for folder in [*folders, *SYSTEM_FOLDERS])
        return next(filter(None, found), {})
    return {path.stem.removeprefix("libhakozuna_"): path for path in sorted(LIB_DIR.glob("libhakozuna_*.so"))}


def _found_peers(remarks: list[str], optional: bool, named: Sequence[str]) -> dict[str, Allocator]:
    found = {}
    for name, peer in peers.installed(remarks, optional, named).items():
        settings = tuple(sorted(peer.environment.items()))
        found[name] = Allocator(name, peer.library, "", peer.sha256, peer.version, peer.source, settings)
    return found


def _stale(own: dict[str, pathlib.Path]) -> list[str]:
    """Warns about our libraries that are older than their sources: the results name the commit of the tree."""
    if not IN_CHECKOUT:
        return []
    sources = [path for folder in ("src", "include") for path in (ROOT / folder).rglob("*") if path.is_file()]
    newest = max(sources, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        return []
    return [
        f"{public_path(path)} is older than {public_path(newest)}; 'make libs' builds it again"
        for path in own.values()
        if path.stat().st_mtime < newest.stat().st_mtime
    ]


def lane_of(config: str) -> str:
    """The name that `hakozuna -l` has for the lane of a configuration string: hz3-scale, hz4. Empty for a variant."""
    words = dict(word.split("=", 1) for word in config.split() if "=" in word)
    if not {"engine", "lane"} <= words.keys() or words.get("overrides", "none") != "none":
        return ""
    return words["engine"] if words["lane"] == "default" else f"{words['engine']}-{words['lane']}"


def user_name(name: str, config: str) -> str:
    """A library of ours by the name of its lane: hz3_scale, in a checkout, and hakozuna, installed, are hz3-scale."""
    lane = lane_of(config)
    return lane if lane and name.replace("_", "-") in (lane, INSTALLED_DEFAULT) else name


def _by_lane(wanted: str, known: dict[str, Allocator]) -> str:
    """The name here of the library whose lane has this name, as in hz3-scale; else the name as it is."""
    if wanted in known:
        return wanted
    return next((name for name, one in known.items() if one.is_ours and lane_of(one.config) == wanted), wanted)


def _for_users(known: dict[str, Allocator]) -> dict[str, Allocator]:
    """Without the lanes that are there to compare engines, if the others are there."""
    few = {name: one for name, one in known.items() if not one.is_ours or lane_of(one.config) in USERS_LANES}
    return few if any(one.is_ours for one in few.values()) else known


def select(
    names: str | None, extra: dict[str, pathlib.Path], optional: Sequence[str] = (), few: bool = False
) -> tuple[list[Allocator], list[str]]:
    """The chosen allocators, and remarks about those that are missing.

    Without `names` it takes all that it finds, of the optional peers those in `optional`, and with `few` of our lanes USERS_LANES only; with names it raises
    ValueError for one that is missing. `extra` (--lib) is always among the chosen, and replaces a built-in of the same name.
    """
    remarks: list[str] = []
    known = _found_peers(remarks, names is not None, optional)
    own = own_libraries()
    if not own:
        missing = f"no libhakozuna_*.so in {public_path(LIB_DIR)}; 'make libs' builds them"
        remarks.append(missing if IN_CHECKOUT else "no hakozuna is installed; --lib NAME=PATH adds a library")
    known |= {name: load(name, path, source="this project") for name, path in own.items()}
    remarks += _stale(own)
    added = {name: load(name, path) for name, path in extra.items()}
    if names is not None:
        wanted = [_by_lane(name.strip(), known) for name in names.split(",") if name.strip()]
        for name in wanted:
            if name not in known and name not in added:
                here = ", ".join([*known, *added])
                raise ValueError("; ".join([f"no allocator is called '{name}'", f"here: {here}", *remarks]))
        known = {name: known[name] for name in wanted if name in known}
        remarks = _stale({name: path for name, path in own.items() if name in wanted})
    elif few:
        known = _for_users(known)
    chosen = list((known | added).values())
    if not chosen:
        raise ValueError("no allocator is chosen")
    return chosen, remarks


def parse_libraries(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> dict[str, pathlib.Path]:
    """The click callback of `--lib NAME=PATH`, an option that can be repeated."""
    libraries = {}
    for word in words:
        name, separator, path = word.partition("=")
        if not separator or not name or not path:
            raise click.BadParameter(f"'{word}' is not NAME=PATH")
        if not NAME.fullmatch(name):
            raise click.BadParameter(f"'{name}' is not a name; allowed: letters, digits and _ . + -")
        libraries[name] = pathlib.Path(path)
    return libraries


def options(function):
    """The two click options by which every measuring command chooses its allocators: `names` and `extra`."""
    function = click.option(
        "--lib", "extra", metavar="NAME=PATH", multiple=True, callback=parse_libraries, help="One more allocator."
    )(function)
    return click.option(
        "--allocators",
        "names",
        metavar="NAMES",
        help="Comma-separated names (build/lib/libhakozuna_X.so is X; a lane's name, as in hz3-scale); default: all that it finds; "
        "of a PROGRAM: glibc, the peers, hz3-scale and hz4.",
    )(function)
