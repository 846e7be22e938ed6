"""Where things are, and how they are named in results: nothing of one machine's paths may get into them."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = ROOT / "build" / "release" / "bench"
LIB_DIR = ROOT / "build" / "lib"
RESULTS_DIR = ROOT / "bench" / "results"
LOG_DIR = ROOT / "build" / "bench-logs"
CACHE_DIR = pathlib.Path(os.environ.get("HAKOBENCH_CACHE") or ROOT / ".cache" / "hakobench")


def public_path(path: pathlib.Path) -> str:
    """Relative inside the project, as it is for the system's files, else the file name."""
    for form in (path.absolute(), path.resolve()):
        if form.is_relative_to(ROOT):
            return str(form.relative_to(ROOT))
    return str(path) if path.is_absolute() and path.is_relative_to("/usr") else path.name


def public_text(text: str, *paths: pathlib.Path) -> str:
    """`text` with these files and those of the project named as public_path names them."""
    for path in paths:
        text = text.replace(str(path), public_path(path))
    return text.replace(f"{ROOT}/", "").replace(str(ROOT), ".")
