"""The Dockerfile and the two lines of docs/containers.md, by buildah, without a registry.

The bases stand in for those of a registry: Debian is what debootstrap makes; distroless has what Debian's packages of its
libraries have, and no shell. In place of Alpine there is Debian with its musl-gcc and an `apk` that installs nothing for the
build, and nothing but musl and a program to run in.
"""

import json
import pathlib
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator

import clean_root
import pytest
from clean_root import CleanRoot, call_in, minimal
from installing import CONFIG, ROOT, run

pytestmark = [pytest.mark.slow, clean_root.needed]
DEBIAN = "docker.io/library/debian:bookworm-slim"
ALPINE = "docker.io/library/alpine:3.22"
DISTROLESS = "gcr.io/distroless/cc"
MACHINE = platform.machine()
# What the libraries of distroless/cc are made of.
DISTROLESS_PACKAGES = ("base-files", "libc6", "libgcc-s1", "libgomp1", "libstdc++6")
PROGRAM = """#include <cstdio>
#include <string>
int main() { std::puts(std::string(1000, 'x').c_str()); }
"""
APK = """#!/bin/sh
[ "$*" = "add --no-cache cmake g++ gcc linux-headers musl-dev samurai" ] && exec cmake --version
"""


class Images:
    """Buildah with images of its own."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        kind = run("stat", "--file-system", "--format=%T", folder).strip()
        driver = "overlay" if kind in {"ext2/ext3", "xfs", "btrfs"} else "vfs"  # the latter copies all files for each image
        self.words = ["buildah", "--root", folder / "store", "--runroot", folder / "run", "--storage-driver", driver]

    def call(self, *words: object) -> str:
        return run(*self.words, *words)

    def remove(self) -> None:
        self.call("rm", "--all")
        self.call("rmi", "--all", "--force")
        subprocess.run(["umount", self.folder / "store/overlay"], capture_output=True, check=False)  # buildah mounts it on itself
        shutil.rmtree(self.folder)

    def add_base(self, name: str, tree: pathlib.Path, *settings: str) -> None:
        container = self.call("from", "scratch").strip()
        run("cp", "-a", f"{tree}/.", self.call("mount", container).strip())
        self.call("umount", container)
        if settings:
            self.call("config", *(word for setting in settings for word in ("--env", setting)), container)
        self.call("commit", "--quiet", container, name)
        self.call("rm", container)

    def build(self, name: str, dockerfile: pathlib.Path, context: pathlib.Path, *options: str) -> None:
        self.call("build", "--pull-never", "--isolation", "chroot", "--file", dockerfile, "--tag", name, *options, context)

    def files(self, name: str) -> set[str]:
        container = self.call("from", "--pull-never", name).strip()
        tree = pathlib.Path(self.call("mount", container).strip())
        found = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if not path.is_dir()}
        self.call("umount", container)
        return found

    def start(self, name: str, *command: object, **variables: str) -> subprocess.CompletedProcess:
        """Runs a command in a container of an image, whose variables hold. Not by `buildah run`, which can lose what a
        command prints when the command ends at once."""
        settings = json.loads(self.call("inspect", "--type", "image", name))["OCIv1"]["config"].get("Env", [])
        container = self.call("from", "--pull-never", name).strip()
        tree = pathlib.Path(self.call("mount", container).strip())
        own = {"PATH": "/usr/bin:/bin", "HAKOZUNA_SHOW_CONFIG": "2"}
        done = call_in(tree, command, own | dict(setting.split("=", 1) for setting in settings) | variables)
        self.call("umount", container)
        self.call("rm", container)
        return done


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Iterator[Images]:
    images = Images(tmp_path_factory.mktemp("images"))
    images.add_base(DEBIAN, minimal())
    images.build("hakozuna", ROOT / "packaging/docker/Dockerfile", ROOT, "--target", "glibc")
    yield images
    images.remove()


def two_lines(base: str) -> str:
    """The lines that docs/containers.md has for an image of hakozuna, after the base that they are put on."""
    page = (ROOT / "docs/containers.md").read_text()
    glibc, musl = re.findall(r"`(COPY --from=\S+ \S+ \S+)` and `(ENV [^`]+)`", page)
    return f"FROM {base}\n" + "\n".join(musl if base == ALPINE else glibc) + "\n"


def put_under(images: Images, base: str, folder: pathlib.Path) -> str:
    (folder / "Dockerfile").write_text(two_lines(base))
    images.build("app", folder / "Dockerfile", folder)
    return "app"


def test_the_image_holds_the_libraries_and_nothing_else(images):
    found = images.files("hakozuna")
    assert {"lib/libhakozuna.so.0", "lib/libhakozuna-hz4.so.0"} <= found
    assert [name for name in found if not name.startswith("lib/libhakozuna")] == []


def test_debian(images, tmp_path):
    app = put_under(images, DEBIAN, tmp_path)
    done = images.start(app, "date")
    assert done.returncode == 0 and CONFIG in done.stderr, done.stderr
    assert "cannot be preloaded" not in done.stderr
    assert images.start(app, "date", LD_PRELOAD="").stderr == "", "undone"


def test_distroless(images, tmp_path):
    downloads = CleanRoot(tmp_path / "downloads")
    downloads.run("apt-get", "update", "-qq")
    downloads.run("sh", "-c", f"cd /srv && apt-get download -qq -o APT::Sandbox::User=root {' '.join(DISTROLESS_PACKAGES)}")
    tree = tmp_path / "tree"
    for package in (downloads.folder / "srv").glob("*.deb"):
        run("dpkg", "-x", package, tree)
    (tmp_path / "app.cc").write_text(PROGRAM)
    run("g++", "-O2", tmp_path / "app.cc", "-o", tree / "app")
    images.add_base(DISTROLESS, tree)
    assert not [name for name in images.files(DISTROLESS) if name.startswith("bin/") or name.endswith("/sh")]
    done = images.start(put_under(images, DISTROLESS, tmp_path), "/app")
    assert (done.returncode, done.stdout) == (0, "x" * 1000 + "\n"), done.stderr
    assert CONFIG in done.stderr


def test_alpine(images, tmp_path):
    """The stage of the Dockerfile that builds with musl, and a program of musl under its library."""
    builder = CleanRoot(tmp_path / "builder")
    builder.apt_install("cmake", "g++", "gcc", "linux-libc-dev", "musl-tools", "ninja-build")
    (builder.folder / "usr/local/bin/apk").write_text(APK)
    (builder.folder / "usr/local/bin/apk").chmod(0o755)
    headers = builder.folder / "srv/headers"
    headers.mkdir()
    for name, path in (("linux", "linux"), ("asm-generic", "asm-generic"), ("asm", f"{MACHINE}-linux-gnu/asm")):
        (headers / name).symlink_to(f"/usr/include/{path}")
    images.add_base(ALPINE, builder.folder, "CC=musl-gcc", "CFLAGS=-idirafter /srv/headers")
    images.build("hakozuna:musl", ROOT / "packaging/docker/Dockerfile", ROOT, "--target", "musl")

    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    shutil.copy(builder.folder / f"usr/lib/{MACHINE}-linux-musl/libc.so", tree / f"lib/ld-musl-{MACHINE}.so.1")
    run("musl-gcc", "-O2", "-fno-builtin", ROOT / "tests/musl/heap.c", "-o", tree / "heap", "-pthread")
    images.add_base(ALPINE, tree)
    done = images.start(put_under(images, ALPINE, tmp_path), "/heap", "own")
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    assert images.start(ALPINE, "/heap", "own").returncode == 1, "musl's own malloc is noticed"
