"""Finds the peers of this machine (`installed`), and fetches and builds the missing ones (`ensure`)."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import time
from typing import Callable, Iterable

import rich.console
import rich.progress

from hakobench.peers import build, cache, fetch, probe, recipes
from hakobench.peers.errors import PeerError
from hakobench.peers.recipes import Recipe
from hakobench.project import public_text

GLIBC = "glibc"
_SYSTEM_PATTERNS = (
    "usr/lib/*-linux-gnu/{file}",
    "usr/lib64/{file}",
    "usr/lib/{file}",
    "usr/lib/llvm-*/lib/clang/*/lib/linux/{file}",
)
SYSTEM_ROOT = pathlib.Path("/")


@dataclasses.dataclass(frozen=True)
class Peer:
    """An allocator to compare with. `library` is None for the C library's own malloc; its runs need `environment`."""

    name: str
    library: pathlib.Path | None
    version: str
    source: str
    sha256: str
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Status:
    """`peer` is None when the peer cannot be used now; `remark` then says why, else it can be empty."""

    recipe: Recipe
    state: str
    peer: Peer | None = None
    remark: str = ""


def _glibc_version() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")
    except (ValueError, OSError):
        return "unknown"  # another C library


def _debian_version(package: str) -> str:
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return asked.stdout.strip() if asked.returncode == 0 and asked.stdout.strip() else "unknown"


def _system_library(file: str) -> pathlib.Path | None:
    for pattern in _SYSTEM_PATTERNS:
        found = sorted(SYSTEM_ROOT.glob(pattern.format(file=file)))
        if found:
            return found[0]
    return None


def _replaced(recipe: Recipe, value: str) -> Status:
    """The library that an environment variable names; an unusable one is an error, never replaced by another."""
    library = pathlib.Path(value).absolute()
    try:
        sha256 = fetch.sha256_of(library)
    except OSError as error:
        return Status(recipe, "unavailable", None, f"{recipe.variable}={value}: {error.strerror}")
    peer = Peer(recipe.name, library, "unknown", recipe.variable, sha256, recipe.environment)
    return Status(recipe, "replaced", peer, f"{recipe.variable} names {cache.shown(library)}")


def _with_settings(recipe: Recipe, status: Status) -> Status:
    """The status of a peer of kind settings, from that of the peer whose library it is."""
    if status.peer is None:
        return Status(recipe, status.state, None, status.remark)
    environment = status.peer.environment | recipe.environment
    peer = dataclasses.replace(status.peer, name=recipe.name, environment=environment)
    return Status(recipe, status.state, peer, status.remark)


def inspect(recipe: Recipe) -> Status:
    """The state of one peer on this machine and in the cache. Fetches and changes nothing."""
    if recipe.kind == "settings":
        return _with_settings(recipe, inspect(recipes.load()[recipe.of]))
    if recipe.kind == "system":
        return Status(recipe, "system", Peer(recipe.name, None, _glibc_version(), recipe.origin, ""))
    value = os.environ.get(recipe.variable)
    if value:
        return _replaced(recipe, value)
    if recipe.kind == "debian":
        library = _system_library(recipe.library)
        if library is not None:
            version, sha256 = _debian_version(recipe.package), fetch.sha256_of(library)
            return Status(
                recipe, "system", Peer(recipe.name, library, version, recipe.origin, sha256, recipe.environment)
            )
    entry = cache.entry(recipe)
    if entry is None:
        return Status(recipe, "missing", None, f"not in the cache; 'hakobench peers {recipe.name}' brings it")
    if entry.fault:
        return Status(recipe, "stale", None, f"{entry.fault}; 'hakobench peers {recipe.name}' builds it again")
    manifest = entry.manifest
    peer = Peer(
        recipe.name, entry.library, manifest.version, recipe.origin, manifest.library_sha256, recipe.environment
    )
    return Status(recipe, "cached", peer)


def installed(remarks: list[str], optional: bool = False, named: Iterable[str] = ()) -> dict[str, Peer]:
    """The peers of this machine, glibc first, without fetching any; `remarks` name the others.

    With `optional` it includes the peers that are otherwise used only by name, else those of them that are `named`.
    Raises ValueError for a name that no peer has.
    """
    wanted = {recipe.name for recipe in [*choose(None, optional), *choose(named)]}
    found: dict[str, Peer] = {}
    missing: list[Status] = []
    for recipe in choose(None, optional=True):
        if recipe.name not in wanted:
            continue
        status = inspect(recipe)
        if status.peer is not None:
            found[recipe.name] = status.peer
        elif status.state == "missing":
            missing.append(status)
        else:
            remarks.append(f"{recipe.name}: {status.remark}")
    if missing:
        remarks.append(_missing_text(missing))
    return found


def _missing_text(missing: list[Status]) -> str:
    """One remark for all of them."""
    if len(missing) == 1:
        return f"{missing[0].recipe.name}: {missing[0].remark}"
    bring = list(dict.fromkeys(status.recipe.of or status.recipe.name for status in missing))
    seconds = sum(recipe.seconds for recipe in choose(bring))
    names = ", ".join(status.recipe.name for status in missing)
    return f"{names}: not in the cache; 'hakobench peers {' '.join(bring)}' brings them, in about {max(1, round(seconds / 60))} min"


def _find_library(recipe: Recipe, unpacked: pathlib.Path) -> pathlib.Path:
    """The library in an unpacked wheel or Debian package. Raises PeerError."""
    if recipe.kind == "wheel":
        found = [unpacked / recipe.library]
    else:
        found = [path for pattern in _SYSTEM_PATTERNS for path in unpacked.glob(pattern.format(file=recipe.library))]
    if not found or not found[0].is_file():
        raise PeerError(f"there is no {recipe.library} in the package")
    return found[0]


def _package_version(recipe: Recipe, archive: pathlib.Path) -> str:
    if recipe.kind != "debian":
        return recipe.version
    command = ["dpkg-deb", "-f", str(archive), "Version"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode != 0 or not asked.stdout.strip():
        raise PeerError(f"{archive.name} names no version")
    return asked.stdout.strip()


def _keep_log(work: pathlib.Path, target: pathlib.Path) -> None:
    """Keeps a log without the name of the work folder, which no reader will find. Raises OSError."""
    text = (work / cache.LOG).read_text(encoding="utf-8", errors="replace")
    target.write_text(public_text(text.replace(str(work), "WORK")), encoding="utf-8")


def _make(recipe: Recipe, folder: pathlib.Path, work: pathlib.Path, on_line: Callable[[], None]) -> None:
    """Fetches, builds, tests and publishes one peer. The log is in `work`. Raises PeerError and OSError."""
    start = time.monotonic()
    with open(work / cache.LOG, "w", encoding="utf-8") as log:
        build.check_tools(recipe)
        compiler = build.compiler_version() if recipe.kind == "crate" else ""
        for name in ("fetch", "unpack", "result"):
            (work / name).mkdir()
        archive = fetch.fetch(recipe, work / "fetch", log)
        version = _package_version(recipe, archive)
        unpacked = fetch.unpack(recipe, archive, work / "unpack", log)
        if recipe.kind == "crate":
            built = build.build(recipe, unpacked, work, log, on_line)
            if not built.is_file():
                raise PeerError(f"the build made no {recipe.library}")
        else:
            built = _find_library(recipe, unpacked)
        library = work / "result" / pathlib.PurePosixPath(recipe.library).name
        shutil.copyfile(built, library)
        probe.check(library, recipe.environment)
        manifest = cache.Manifest(
            name=recipe.name,
            version=recipe.shown_version or version,
            kind=recipe.kind,
            package=recipe.package,
            package_version=version,
            archive=archive.name,
            archive_sha256=fetch.sha256_of(archive),
            library=library.name,
            library_sha256=fetch.sha256_of(library),
            compiler=compiler,
            commands=build.shown_commands(recipe) if recipe.kind == "crate" else [],
            environment=recipe.environment,
            environment_why=recipe.environment_why.strip(),
            recipe_sha256=recipe.digest,
            seconds=round(time.monotonic() - start, 1),
        )
        manifest.write(work / "result")
    _keep_log(work, work / "result" / cache.LOG)
    # A Debian version can have an epoch, "1:2.0", but a colon separates paths in LD_PRELOAD.
    cache.publish(work / "result", work, folder / version.replace(":", "-"))


def _attempt(recipe: Recipe, folder: pathlib.Path, on_line: Callable[[], None]) -> Status:
    """Makes a peer under its lock. The log of a failure is kept beside the versions."""
    with cache.work_folder(folder) as work:
        try:
            _make(recipe, folder, work, on_line)
        except (PeerError, OSError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"cannot write the cache {cache.shown(folder)}: {error.strerror}"
            kept = folder / cache.FAILED_LOG
            with contextlib.suppress(OSError):  # no room for the log either, but the reason is shown
                _keep_log(work, kept)
                reason += f"; log: {cache.shown(kept)}"
            return Status(recipe, "unavailable", None, reason)
    (folder / cache.FAILED_LOG).unlink(missing_ok=True)
    return inspect(recipe)


def _bring(recipe: Recipe, on_wait: Callable[[], None], on_line: Callable[[], None]) -> Status:
    """Makes one missing peer, unless another process made it while this one waited for the lock."""
    if recipe.kind == "settings":
        return _with_settings(recipe, _bring(recipes.load()[recipe.of], on_wait, on_line))
    try:
        with cache.locked(recipe.name, on_wait) as folder:
            status = inspect(recipe)
            return status if status.peer is not None else _attempt(recipe, folder, on_line)
    except PeerError as error:
        return Status(recipe, "unavailable", None, str(error))


def _tested(status: Status) -> Status:
    """A library that was not built here has to pass the probe, too."""
    if status.peer is None or status.peer.library is None or status.state not in ("system", "replaced"):
        return status
    try:
        probe.check(status.peer.library, status.peer.environment)
    except PeerError as error:
        return Status(status.recipe, "unavailable", None, str(error))
    return status


def choose(names: Iterable[str] | None, optional: bool = False) -> list[Recipe]:
    """The recipes of `names`; without names all, the optional ones only with `optional`. Raises ValueError."""
    table = recipes.load()
    if names is None:
        return [recipe for recipe in table.values() if optional or not recipe.optional]
    for name in names:
        if name not in table:
            raise ValueError(f"no peer is called '{name}'; known: {', '.join(table)}")
    return [table[name] for name in dict.fromkeys(names)]


def _can_be_brought(status: Status) -> bool:
    return status.state in ("missing", "stale")


def _bring_all(statuses: list[Status], console: rich.console.Console) -> list[Status]:
    """Makes the missing peers one after the other, and shows the time left for all of them."""
    total = sum(status.recipe.seconds for status in statuses if _can_be_brought(status))
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TextColumn("left"),
        rich.progress.TimeRemainingColumn(),
    )
    result, done = [], 0.0
    with rich.progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        for status in statuses:
            recipe, lines, began = status.recipe, 0, time.monotonic()
            if not _can_be_brought(status):
                result.append(status)
                continue
            if status.state == "stale":
                console.print(f"{recipe.name}: {status.remark.split(';')[0]}; building it again", highlight=False)

            def on_line() -> None:
                nonlocal lines
                lines += 1
                share = min(0.99, lines / recipe.log_lines)
                progress.update(task, completed=done + share * recipe.seconds)

            progress.update(task, description=recipe.name)
            if not console.is_terminal:  # which would show the bar
                console.print(f"{recipe.name}: fetching and building, about {recipe.seconds:.0f} s", markup=False, highlight=False)
            waiting = f"{recipe.name}: waiting for another process that builds it"
            result.append(_bring(recipe, lambda: progress.update(task, description=waiting), on_line))
            done += recipe.seconds
            progress.update(task, completed=done)
            if not console.is_terminal:
                state = "ready" if result[-1].peer else "unavailable"
                console.print(f"{recipe.name}: {state}, after {time.monotonic() - began:.0f} s", markup=False, highlight=False)
    return result


def ensure(names: Iterable[str] | None = None, console: rich.console.Console | None = None) -> list[Status]:
    """Fetches and builds the missing ones of these peers, and tests every library from outside the cache.

    Returns a Status for each, in the order of the names; an unavailable peer has a remark. Raises ValueError for an
    unknown name. Several processes can call this at the same time.
    """
    statuses = [inspect(recipe) for recipe in choose(names)]
    if any(_can_be_brought(status) for status in statuses):
        statuses = _bring_all(statuses, console or rich.console.Console(stderr=True))
    return [_tested(status) for status in statuses]
