"""The programs that an installed hakobench measures with: built from the package's sources when they are first needed.

In a checkout the build of the project makes them.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

from hakobench.project import BIN_DIR, IN_CHECKOUT, SOURCES

# as in the project's build (cmake/workloads.cmake, cmake/trace.cmake)
_NAMES = "malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc pvalloc".split()
_FLAGS = ["-std=c11", "-O2", "-g", "-pthread", *(f"-fno-builtin-{name}" for name in _NAMES)]
_LIBRARY_FLAGS = ["-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec", "-Wl,-z,now,-z,nodelete,-z,defs"]


def _tell(text: str) -> None:
    print(f"hakobench: {text}", file=sys.stderr, flush=True)


def _compile(*words: str | pathlib.Path) -> None:
    _run(os.environ.get("CC") or "cc", *_FLAGS, *map(str, words))


def _compile_cpp(*words: str | pathlib.Path) -> None:
    _run(os.environ.get("CXX") or "c++", "-std=c++17", "-O2", "-g", *map(str, words))


def _run(compiler: str, *words: str) -> None:
    command = [compiler, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(
            f"cannot build the programs to measure with: cannot start '{compiler}': {error.strerror}"
        ) from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["no message"]
        raise ValueError(f"cannot build the programs to measure with: '{compiler}' said: {said[0]}")


def _build(folder: pathlib.Path, sources: pathlib.Path, tell: Callable[[str], None]) -> None:
    workloads, trace = sources / "workloads", sources / "trace"
    compilers = " and ".join(dict.fromkeys([os.environ.get("CC") or "cc", os.environ.get("CXX") or "c++"]))
    tell(f"building the programs to measure with by {compilers}, once, in {folder.parent}: the workloads, the recorder, the replay")
    objects = []
    for source in sorted((workloads / "common").glob("*.c")):
        objects.append(folder / f"{source.stem}.o")
        _compile("-c", source, "-o", objects[-1])
    for source in sorted([*workloads.glob("*.c"), *(sources / "apps").glob("*.c")]):
        _compile(f"-I{workloads}", source, *objects, "-o", folder / source.stem, "-lm")
    _compile(f"-I{workloads}", workloads / "counted" / "ledger.c", *objects, "-o", folder / "ledger", "-lm", "-ldl")
    _compile(f"-I{workloads}", trace / "replay.c", trace / "plan.c", *objects, "-o", folder / "hakoreplay", "-lm")
    for source in sorted((sources / "apps").glob("*.cc")):
        _compile_cpp(source, "-o", folder / source.stem)
    recorder = [trace / f"{name}.c" for name in ("recorder", "record", "next")]
    _compile(*_LIBRARY_FLAGS, *recorder, "-o", folder / "libhakotrace.so", "-ldl")
    _compile(*_LIBRARY_FLAGS, workloads / "counted" / "still.c", "-o", folder / "libstill.so")
    for path in objects:
        path.unlink()
    tell("built")


def build_missing(
    folder: pathlib.Path, own: pathlib.Path = BIN_DIR, in_checkout: bool = IN_CHECKOUT, sources: pathlib.Path = SOURCES,
    tell: Callable[[str], None] = _tell,
) -> None:  # fmt: skip
    """Builds the programs into `folder` if it is hakobench's own and not there yet, and tells so. Raises ValueError."""
    if in_checkout or folder != own or folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        _build(scratch, sources, tell)
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)  # all of them or none
        except OSError:
            if not folder.is_dir():  # or another process was first
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
