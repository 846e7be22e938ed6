"""The folders of the project, and the names of files in results, which must not contain a path of this machine."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = ROOT / "build" / "release" / "bench"
LIB_DIR = ROOT / "build" / "lib"
RESULTS_DIR = ROOT / "bench" / "results"
LOG_DIR = ROOT / "build" / "bench-logs"
CACHE_DIR = pathlib.Path(os.environ.get("HAKOBENCH_CACHE") or ROOT / ".cache" / "hakobench")


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
