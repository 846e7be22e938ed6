"""Libraries of commits. Each is built once, in a clean `git worktree` below the cache, under its hash and compiler.

    .cache/hakobench/commits/<hash>-<compiler>/lib/libhakozuna_X.so      what `make libs` builds from that commit
    build/bench-logs/commits/<hash>.log                                  the output of the build

Neither uncommitted changes nor compilers and flags of the environment reach the build. `hakobench compare` calls this.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hakobench import allocators
from hakobench.process import kill_group
from hakobench.project import CACHE_DIR, IN_CHECKOUT, LOG_DIR, ROOT, public_path

PREFIX = "git:"
DEFAULT_LIBRARY = "libhakozuna.so"
COMPILER = "gcc"  # the compiler of the preset "release"
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "USER")  # others could change a build
_SHORT = 12
_SCRATCH = "build-"
_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # what ninja prints


def git(root: pathlib.Path, *arguments: str) -> str:
    """The output of git. Raises ValueError with the last line that git printed."""
    try:
        asked = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"cannot run git: {error.strerror}") from error
    if asked.returncode != 0:
        said = asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"]
        raise ValueError(f"git {arguments[0]}: {said[-1]}")
    return asked.stdout.strip()


def split(word: str) -> tuple[str, str]:
    """`git:REV` or `git:REV:LANE` -> revision and lane ("" is the default lane). Raises ValueError."""
    revision, _, lane = word.removeprefix(PREFIX).partition(":")
    if not revision or revision.startswith("-"):
        raise ValueError(f"'{word}' names no commit; allowed: git:REV or git:REV:LANE, such as git:HEAD~1")
    return revision, lane


def resolve(revision: str, root: pathlib.Path = ROOT) -> str:
    """The full hash of a revision. Raises ValueError that names the revision."""
    if root is ROOT and not IN_CHECKOUT:
        raise ValueError(f"'{PREFIX}{revision}' is a commit of hakozuna, and this hakobench is not in its repository")
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except ValueError as error:
        if "cannot run" in str(error):
            raise
        raise ValueError(f"no commit of this repository is called '{revision}'") from error


def compiler_version() -> str:
    """The version of the compiler as part of a folder's name: gcc-Debian-12.2.0-14-12.2.0. Raises ValueError."""
    try:
        asked = subprocess.run([COMPILER, "--version"], env=_environment(), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"building a commit needs '{COMPILER}', which is not here or does not run") from error
    return re.sub(r"[^A-Za-z0-9.]+", "-", asked.stdout.partition("\n")[0]).strip("-")


def _environment() -> dict[str, str]:
    """Leaves out CC, CFLAGS, LD_PRELOAD and the like, so that the same commit always gives the same library."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def name_of(word: str, root: pathlib.Path = ROOT) -> str:
    """The name that results give to the allocator of `git:REV[:LANE]`. Raises ValueError."""
    revision, lane = split(word)
    return "-".join([resolve(revision, root)[:_SHORT], *([lane] if lane else [])])


def library_of(commit: str, target: str, console: Console, root: pathlib.Path = ROOT, cache: pathlib.Path | None = None,
               log_dir: pathlib.Path | None = None) -> allocators.Allocator:  # fmt: skip
    """The library of one lane of a commit, given as a full hash. Builds only that target, which names the library, unless
    the cache has it. Raises ValueError."""
    store = (cache or CACHE_DIR / "commits").absolute()
    store.mkdir(parents=True, exist_ok=True)
    built = store / f"{commit}-{compiler_version()}-{target}"
    with _locked(store / "lock"):
        _clear(store, root)
        if not built.is_dir():
            log = (log_dir or LOG_DIR / "commits") / f"{commit}-{target}.log"
            _build(commit, root, built, log, console, target)
    return allocators.load(commit[:_SHORT], next((built / "lib").iterdir()), version=commit, source="this project")


def load(word: str, console: Console, root: pathlib.Path = ROOT, cache: pathlib.Path | None = None,
         log_dir: pathlib.Path | None = None) -> allocators.Allocator:  # fmt: skip
    """The library of `git:REV[:LANE]`; builds it when the cache does not have it. Raises ValueError for an unknown
    commit, a build that fails (with the path of its log) and a lane that the commit does not have."""
    revision, lane = split(word)
    commit = resolve(revision, root)
    store = (cache or CACHE_DIR / "commits").absolute()
    store.mkdir(parents=True, exist_ok=True)
    built = store / f"{commit}-{compiler_version()}"
    with _locked(store / "lock"):
        _clear(store, root)
        if not built.is_dir():
            _build(commit, root, built, (log_dir or LOG_DIR / "commits") / f"{commit}.log", console)
    found = {path.name: path for path in sorted((built / "lib").glob("libhakozuna*.so"))}
    file = f"libhakozuna_{lane}.so" if lane else DEFAULT_LIBRARY
    if file not in found:
        raise ValueError(f"commit {commit[:_SHORT]} has no library '{file}'; it has: {', '.join(found) or 'none'}")
    return allocators.load(name_of(word, root), found[file], version=commit, source="this project")


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """A lock, so that two processes never build the same commit at the same time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear(store: pathlib.Path, root: pathlib.Path) -> None:
    """Removes the leftovers of killed builds. The caller holds the lock, so no build is running."""
    left = list(store.glob(f"{_SCRATCH}*"))
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    if left:
        with contextlib.suppress(ValueError):
            git(root, "worktree", "prune")


def _build(commit: str, root: pathlib.Path, built: pathlib.Path, log: pathlib.Path, console: Console,
           target: str = "libs") -> None:  # fmt: skip
    """Builds in a worktree beside the cache, and moves the finished result to `built`: all libraries, installed, or the
    one of a target."""
    log.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=built.parent))
    tree, out = scratch / "tree", scratch / "out"
    try:
        git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        jobs = str(len(os.sched_getaffinity(0)))
        commands = [
            ["cmake", "--preset", "release"],
            ["cmake", "--build", "build/release", "--target", target, "-j", jobs],
        ]
        installing = [
            ["cmake", "--install", "build/release", "--prefix", str(out)],
            ["cmake", "--install", "build/release", "--prefix", str(out), "--component", "tree"],  # no such component in old commits: nothing
        ]
        with log.open("w", encoding="utf-8") as text, _progress(console) as progress:
            task = progress.add_task(f"building commit {commit[:_SHORT]}", total=None)

            def tell(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            for command in [*commands, *(installing if target == "libs" else [])]:
                status = _run(command, tree, text, tell)
                if status != 0:
                    raise ValueError(f"commit {commit[:_SHORT]} does not build: '{' '.join(command[:3])}' ended with "
                                     f"exit code {status}; see {public_path(log)}")  # fmt: skip
        (out / "lib").mkdir(parents=True, exist_ok=True)
        if target != "libs":
            shutil.copy(_library_in(tree / "build" / "release" / "lib", target, commit), out / "lib")
        out.rename(built)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(ValueError):
            git(root, "worktree", "prune")


def _library_in(folder: pathlib.Path, target: str, commit: str) -> pathlib.Path:
    """The shared library that a target has built; later commits give that of the default lane a shorter name. Raises
    ValueError."""
    for name in (f"lib{target}.so", DEFAULT_LIBRARY):
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise ValueError(f"commit {commit[:_SHORT]}: building '{target}' made no library")


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"),
               TimeRemainingColumn())  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _run(command: list[str], cwd: pathlib.Path, log, tell) -> int:
    """Runs a command with its output in `log`, and returns its exit code. `tell` gets ninja's counts. An interruption
    ends the command with all its children, and is raised again."""
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    try:
        process = subprocess.Popen(command, cwd=cwd, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    except OSError as error:
        log.write(f"cannot run {command[0]}: {error.strerror}\n")
        return 127
    with process:
        try:
            for line in process.stdout:
                log.write(line)
                counted = _STEP.match(line)
                if counted:
                    tell(*map(int, counted.groups()))
        except BaseException:
            kill_group(process)
            raise
    return process.returncode
