"""The folders of the project, and the names of files in results, which must not contain a path of this machine.

In a checkout everything lies in it. An installed hakobench writes below the current folder, takes the sources of its
programs from the package, and keeps what it builds in the user's cache.
"""

import importlib.metadata
import os
import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parent
_TREE = _PACKAGE.parents[2]  # in a checkout, in which the package is hakobench/src/hakobench
IN_CHECKOUT = (_TREE / "include" / "hakozuna" / "hakozuna.h").is_file()
_USER_CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hakobench"

ROOT = _TREE if IN_CHECKOUT else pathlib.Path.cwd()
SOURCES = ROOT / "bench" if IN_CHECKOUT else _PACKAGE / "sources"
OUT_DIR = ROOT / "build" if IN_CHECKOUT else ROOT / "hakobench-results"
LIB_DIR = ROOT / "build" / "lib"
RESULTS_DIR = ROOT / "bench" / "results" if IN_CHECKOUT else OUT_DIR
LOG_DIR = OUT_DIR / "bench-logs"
CACHE_DIR = pathlib.Path(os.environ.get("HAKOBENCH_CACHE") or (ROOT / ".cache" / "hakobench" if IN_CHECKOUT else _USER_CACHE))


def version() -> str:
    return importlib.metadata.version("hakobench")


BIN_DIR = ROOT / "build" / "release" / "bench" if IN_CHECKOUT else CACHE_DIR / "programs" / version()


def public_path(path: pathlib.Path) -> str:
    """A path inside the project becomes relative, a path of the system stays, any other becomes the file name."""
    for form in (path.absolute(), path.resolve()):
        if form.is_relative_to(ROOT):
            return str(form.relative_to(ROOT))
    return str(path) if path.is_absolute() and path.is_relative_to("/usr") else path.name


def public_text(text: str, *paths: pathlib.Path) -> str:
    """`text` with `paths`, and all paths of the project, replaced by their public_path."""
    for path in paths:
        text = text.replace(str(path), public_path(path))
    return text.replace(f"{ROOT}/", "").replace(str(ROOT), ".")
