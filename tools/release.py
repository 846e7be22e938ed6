#!/usr/bin/env python3
"""Versions and releases.

    tools/release.py version             print the version; exit with 1 unless every file that names one agrees
    tools/release.py set 0.2.0           write another version into these files, and date the changelog's section
    tools/release.py evidence            of which library each page of results is; exit with 1 if one is of another than HEAD's
    tools/release.py build               make all that a release publishes, from the last commit: `make release`

A release is: the sources, packages for Debian, the Rust crate, the Python wheels, the changelog's section, a bill of
materials (CycloneDX), and SHA256SUMS over all of them. Times in them are that of the commit, so that whoever builds the
same commit with the same tools gets the same bytes.
"""

import argparse
import datetime
import gzip
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "build/packaging-venv/bin"  # the programs of packaging/requirements.txt
NUMBER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
HEADER = "include/hakozuna/hakozuna.h"
# A file, and the place in it that has the version.
PLACES = {
    "packaging/rust/Cargo.toml": r'(?m)^version = "([^"]*)"',
    "hakobench/pyproject.toml": r'(?m)^version = "([^"]*)"',
    "packaging/vcpkg/vcpkg.json": r'"version": "([^"]*)"',
}
PARTS = ("MAJOR", "MINOR", "PATCH")
UNRELEASED = "## Unreleased\n"


class ReleaseError(Exception):
    """What is wrong, in one line."""


def run(*command: object, **added: str) -> str:
    """The output of a command. Raises ReleaseError with the last line that it printed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=ROOT, env={**os.environ, **added}, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ReleaseError(f"cannot run '{words[0]}': {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise ReleaseError(f"'{' '.join(words[:3])}' failed: {said[-1]}")
    return done.stdout


# ---- versions --------------------------------------------------------------------------------------


def header_version(root: pathlib.Path) -> str:
    text = (root / HEADER).read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define HZ_VERSION_{part} (\d+)", text)[1] for part in PARTS)


def version(root: pathlib.Path) -> str:
    """The version, which is that of the header. Raises ReleaseError when another file names another one."""
    own = header_version(root)
    for path, place in PLACES.items():
        found = re.search(place, (root / path).read_text(encoding="utf-8"))
        if found is None or found[1] != own:
            raise ReleaseError(f"{path} has version '{found[1] if found else 'none'}', {HEADER} has '{own}'")
    return own


def set_version(root: pathlib.Path, new: str, day: str) -> None:
    """Writes a version into all files, and begins its section of the changelog. Raises ReleaseError."""
    if not NUMBER.fullmatch(new):
        raise ReleaseError(f"version is '{new}'; allowed: three numbers, such as 0.2.0 (https://semver.org)")
    own = version(root)
    if tuple(map(int, new.split("."))) <= tuple(map(int, own.split("."))):
        raise ReleaseError(f"version is '{new}'; it must be above '{own}'")
    changes = root / "CHANGELOG.md"
    text = changes.read_text(encoding="utf-8")
    if UNRELEASED not in text:
        raise ReleaseError(f"CHANGELOG.md has no line '{UNRELEASED.strip()}'")
    changes.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n## {new} - {day}\n", 1), encoding="utf-8")
    header = root / HEADER
    text = header.read_text(encoding="utf-8")
    for part, number in zip(PARTS, new.split("."), strict=True):
        text = re.sub(rf"(#define HZ_VERSION_{part}) \d+", rf"\1 {number}", text)
    header.write_text(text, encoding="utf-8")
    for path, place in PLACES.items():
        text = (root / path).read_text(encoding="utf-8")
        found = re.search(place, text)
        (root / path).write_text(text[: found.start(1)] + new + text[found.end(1) :], encoding="utf-8")


def changes_of(text: str, number: str) -> str:
    """The changelog's section of a version, without its heading. Raises ReleaseError."""
    found = re.search(rf"(?ms)^## {re.escape(number)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md has no section '## {number} - YEAR-MONTH-DAY'; `tools/release.py set` makes one")
    return found[1].strip() + "\n"


# ---- evidence ----------------------------------------------------------------------------------------


def measured(root: pathlib.Path) -> dict[str, str]:
    """The commits that the pages of results name, by suite. Raises ReleaseError when a page names none."""
    found = {}
    for page in sorted((root / "bench/results").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if not text.startswith("<!-- results: "):
            continue  # not the page of a suite
        commit = re.search(r"(?m)^\* commit: (\S+)$", text)
        if commit is None:
            raise ReleaseError(f"{page.relative_to(root)} names no commit")
        found[page.stem] = commit[1]
    return found


def evidence(root: pathlib.Path) -> tuple[list[str], bool]:
    """A line for each suite, and whether all were measured with the library of HEAD. Raises ReleaseError."""
    lines = []
    is_one = True
    for suite, commit in measured(root).items():
        changed = run("git", "-C", root, "diff", "--name-only", commit, "HEAD", "--", "src", "include").split()
        is_one = is_one and not changed
        lines.append(f"{suite:<12} {commit:<12} {f'{len(changed)} changed files since' if changed else 'of this library'}")
    return lines, is_one


# ---- what a release publishes ----------------------------------------------------------------------


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill_of_materials(number: str, commit: str, epoch: int, files: list[pathlib.Path]) -> dict:
    """CycloneDX 1.5: the library, the files of the release as its parts, what they need, and what they were built with."""
    hakozuna = f"pkg:generic/hakozuna@{number}"
    licence = [{"license": {"id": "MIT"}}]
    parts = [
        {"type": "file", "bom-ref": path.name, "name": path.name, "version": number, "licenses": licence,
         "hashes": [{"alg": "SHA-256", "content": digest(path)}]}
        for path in files
    ]  # fmt: skip
    libc = {"type": "library", "bom-ref": "libc", "name": "glibc", "description": "of the system; it is not in these files"}
    compiler = run("gcc", "--version").splitlines()[0]
    tools = [{"type": "application", "name": "gcc", "version": compiler.split()[-1], "description": compiler},
             {"type": "application", "name": "cmake", "version": run("cmake", "--version").splitlines()[0].split()[-1]}]  # fmt: skip
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'hakozuna:{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": tools},
            "component": {"type": "library", "bom-ref": hakozuna, "name": "hakozuna", "version": number, "purl": hakozuna,
                          "licenses": licence, "description": "memory allocator for programs with many threads"},
            "properties": [{"name": "hakozuna:commit", "value": commit}, {"name": "hakozuna:machine", "value": platform.machine()}],
        },
        "components": [*parts, libc],
        "dependencies": [
            {"ref": hakozuna, "dependsOn": ["libc"]},
            {"ref": "libc"},
            *({"ref": path.name, "dependsOn": ["libc"]} for path in files),
        ],
    }  # fmt: skip


def write_sources(number: str, commit: str, out: pathlib.Path) -> None:
    name = f"hakozuna-{number}"
    with tempfile.TemporaryDirectory() as scratch:
        plain = pathlib.Path(scratch) / "sources.tar"
        run("git", "archive", "--format=tar", f"--prefix={name}/", f"--output={plain}", commit)
        with (out / f"{name}.tar.gz").open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            packed.write(plain.read_bytes())


def write_packages(preset: str, out: pathlib.Path, epoch: str, maintainer: str | None) -> None:
    folder = ROOT / "build" / preset
    shutil.rmtree(folder, ignore_errors=True)
    options = [f"-DHAKOZUNA_MAINTAINER={maintainer}"] if maintainer else []
    run("cmake", "--preset", preset, *options, SOURCE_DATE_EPOCH=epoch)
    run("cmake", "--build", folder, "--target", "libs", SOURCE_DATE_EPOCH=epoch)
    run("cpack", "--config", folder / "CPackConfig.cmake", "-B", folder / "packages", SOURCE_DATE_EPOCH=epoch)
    for path in sorted((folder / "packages").iterdir()):
        if path.suffix in {".deb", ".ddeb", ".rpm"}:
            shutil.copyfile(path, out / path.name)


def write_crate(number: str, out: pathlib.Path) -> None:
    target = ROOT / "build/cargo"
    run("cargo", "package", "--manifest-path", "packaging/rust/Cargo.toml", "--target-dir", target)
    shutil.copyfile(target / f"package/hakozuna-{number}.crate", out / f"hakozuna-{number}.crate")


def write_wheels(out: pathlib.Path, epoch: str) -> None:
    shutil.rmtree(ROOT / "build/wheel", ignore_errors=True)
    for project in (".", "./hakobench"):
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", out, project, SOURCE_DATE_EPOCH=epoch)
    # The tag of the oldest glibc that has all symbols of the libraries, which PyPI asks for.
    (built,) = out.glob("hakozuna-*-linux_*.whl")
    path = f"{PACKAGING}{os.pathsep}{os.environ['PATH']}"
    run("auditwheel", "repair", "--only-plat", "--wheel-dir", out, built, SOURCE_DATE_EPOCH=epoch, PATH=path)
    built.unlink()


def build(out: pathlib.Path, maintainer: str | None) -> None:
    number = version(ROOT)
    if run("git", "status", "--porcelain").strip():
        raise ReleaseError("files differ from the last commit (git status); a release is made from a commit")
    commit = run("git", "rev-parse", "HEAD").strip()
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    lines, is_one = evidence(ROOT)
    if int(number.partition(".")[0]) >= 1 and not is_one:
        print("\n".join(lines), file=sys.stderr)
        raise ReleaseError("results are of other libraries; from 1.0 on all suites are measured with the library of the release")
    changes = changes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), number)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    steps = {
        "sources": lambda: write_sources(number, commit, out),
        "Debian packages": lambda: write_packages("package", out, epoch, maintainer),
        "RPM packages": lambda: write_packages("rpm", out, epoch, maintainer),
        "crate": lambda: write_crate(number, out),
        "wheels": lambda: write_wheels(out, epoch),
    }
    for name, step in steps.items():
        print(f"release: {name}", file=sys.stderr, flush=True)
        step()
    files = sorted(out.iterdir())
    bill = json.dumps(bill_of_materials(number, commit, int(epoch), files), indent=2)
    (out / f"hakozuna-{number}.cdx.json").write_text(bill + "\n", encoding="utf-8")
    (out / f"CHANGES-{number}.md").write_text(changes, encoding="utf-8")
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print(f"tag: v{number} ({commit})")
    print("".join(lines), end="")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Versions and releases.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version", help="print the version, or say which file disagrees")
    commands.add_parser("evidence", help="say of which library each page of results is")
    setting = commands.add_parser("set", help="write another version into the files that have one")
    setting.add_argument("number")
    setting.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    building = commands.add_parser("build", help="make all that a release publishes")
    building.add_argument("--output", type=pathlib.Path, default=ROOT / "build/dist", help="default: build/dist")
    building.add_argument("--maintainer", metavar="'NAME <ADDRESS>'", help="who answers for the packages")
    options = parser.parse_args(arguments)
    try:
        if options.command == "version":
            print(version(ROOT))
        elif options.command == "evidence":
            lines, is_one = evidence(ROOT)
            print("\n".join(lines))
            return 0 if is_one else 1
        elif options.command == "set":
            set_version(options.root, options.number, datetime.datetime.now(datetime.timezone.utc).date().isoformat())
        else:
            build(options.output.resolve(), options.maintainer)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
