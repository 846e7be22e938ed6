"""The cache of built peers: <cache>/peers/<name>/<version>/{library, manifest.json, build.log}.

A folder <version> is always complete: it is made under another name and renamed. A process that changes anything below
<name> holds the lock <name>.lock; a reader needs none.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import tempfile
from typing import Callable, Iterator

from hakobench import project
from hakobench.peers.errors import PeerError
from hakobench.peers.fetch import sha256_of
from hakobench.peers.recipes import Recipe

MANIFEST = "manifest.json"
LOG = "build.log"
FAILED_LOG = "failed.log"
_WORK = ".work-"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The facts about a library in the cache, without a path of the machine. `seconds` is fetching and building."""

    name: str
    version: str
    kind: str
    package: str
    package_version: str
    archive: str
    archive_sha256: str
    library: str
    library_sha256: str
    compiler: str
    commands: list[str]
    environment: dict[str, str]
    environment_why: str
    recipe_sha256: str
    seconds: float

    def write(self, folder: pathlib.Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A library in the cache. `fault` says why it must not be used; the manifest can then be missing."""

    fault: str = ""
    manifest: Manifest | None = None
    library: pathlib.Path | None = None


def root() -> pathlib.Path:
    return project.CACHE_DIR / "peers"


def shown(path: pathlib.Path) -> str:
    """A path for messages to the user: short inside the project, else whole, because the user needs it."""
    path = path.absolute()
    return project.public_path(path) if path.is_relative_to(project.ROOT) else str(path)


def _read_manifest(path: pathlib.Path) -> Manifest:
    """Raises ValueError, to which JSON's and Unicode's errors belong, and OSError."""
    values = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    try:
        manifest = Manifest(**values)
    except TypeError as error:
        raise ValueError("its fields are not the known ones") from error
    for field in dataclasses.fields(Manifest):
        kinds = {float: (int, float), list[str]: list, dict[str, str]: dict}.get(field.type, field.type)
        if not isinstance(getattr(manifest, field.name), kinds):
            raise ValueError(f"its field '{field.name}' has the wrong type")
    return manifest


def _folder(recipe: Recipe) -> pathlib.Path | None:
    """The folder of a recipe's version. A recipe of a Debian package names no version and takes the one in the
    cache."""
    base = root() / recipe.name
    if recipe.version:
        folder = base / recipe.version
        return folder if folder.is_dir() else None
    folders = [path for path in sorted(base.glob("*")) if path.is_dir() and not path.name.startswith(".")]
    return folders[-1] if folders else None


def entry(recipe: Recipe) -> Entry | None:
    """The cache's library for a recipe, with its hash checked; None when there is none."""
    folder = _folder(recipe)
    if folder is None:
        return None
    try:
        manifest = _read_manifest(folder / MANIFEST)
    except (ValueError, OSError) as error:
        return Entry(f"{shown(folder / MANIFEST)} cannot be used: {error}")
    library = folder / manifest.library
    try:
        found = sha256_of(library)
    except OSError as error:
        return Entry(f"cannot read {shown(library)}: {error.strerror}", manifest)
    if found != manifest.library_sha256:
        return Entry(f"{shown(library)} changed since it was built", manifest)
    if manifest.recipe_sha256 != recipe.digest:
        return Entry("its recipe changed since it was built", manifest)
    return Entry("", manifest, library)


@contextlib.contextmanager
def locked(name: str, on_wait: Callable[[], None]) -> Iterator[pathlib.Path]:
    """Yields the peer's folder, which no other process changes meanwhile. Calls `on_wait` once before it has to wait.

    Removes the leftovers of an interrupted build. Raises PeerError when the cache cannot be written.
    """
    folder = root() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(root() / f"{name}.lock", "w", encoding="utf-8")
    except OSError as error:
        raise PeerError(f"cannot write the cache {shown(root())}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_WORK}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield folder


@contextlib.contextmanager
def work_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder for one build, on the same file system as its target; removed afterwards."""
    work = pathlib.Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(result: pathlib.Path, work: pathlib.Path, target: pathlib.Path) -> None:
    """Makes `result` the folder `target`; the old target goes into `work`, which is deleted. Needs the lock."""
    if target.exists():
        os.rename(target, work / "replaced")
    os.rename(result, target)
