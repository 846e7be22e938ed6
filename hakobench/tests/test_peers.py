"""Peers are fetched, built, tested, kept and found again, and every step reports its failures. Needs no network."""

import hashlib
import http.server
import io
import json
import pathlib
import platform
import shutil
import socket
import stat
import subprocess
import tarfile
import threading
import zipfile

import click.testing
import pytest
import rich.console

from hakobench import allocators, peers, project
from hakobench.commands.peers import command
from hakobench.peers import cache, fetch, probe, programs, recipes, store
from hakobench.peers.errors import PeerError

REAL_CACHE = project.CACHE_DIR
REAL_RECIPES = recipes.PATH

# glibc's allocator under other names: small, and it works wherever the tests do.
GOOD_C = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void free(void *block) { __libc_free(block); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : 12;
}
"""
TRAPPING_C = GOOD_C.replace("    *block =", "    if (alignment == 4096) __builtin_trap();\n    *block =")
# Only for sizes that nothing but the probe requests: otherwise Python itself would crash.
FORGETFUL_C = GOOD_C.replace(
    "return __libc_realloc", "if (size == 100100) return __libc_calloc(1, size);\n    return __libc_realloc"
)
NO_MALLOC_C = "int nothing(void) { return 0; }\n"

RECIPE = """
[[peer]]
name = "{name}"
kind = "crate"
package = "fake-sys"
version = "1.2.3+7"
shown_version = "7"
sha256 = "{sha256}"
library = "{library}"
build = "{build}"
source = "upstream"
{more}
log_lines = 10
"""


@pytest.fixture(autouse=True)
def world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A separate machine: cache, cargo's home, recipes and system libraries are in tmp_path."""
    monkeypatch.setattr(project, "CACHE_DIR", tmp_path / "cache")
    monkeypatch.setattr(recipes, "PATH", tmp_path / "recipes.toml")
    monkeypatch.setattr(store, "SYSTEM_ROOT", tmp_path / "system")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    for name in ("FAKE", "FAKE_WHEEL", "TCMALLOC", "MIMALLOC", "JEMALLOC"):
        monkeypatch.delenv(f"{name}_SO", raising=False)
    return tmp_path


def write_recipes(world: pathlib.Path, *texts: str) -> None:
    (world / "recipes.toml").write_text("\n".join(['[[peer]]\nname = "glibc"\nkind = "system"\n', *texts]))


def pack_crate(files: dict[str, str]) -> bytes:
    """A crate named fake-sys 1.2.3+7, as cargo stores it."""
    files = {
        "Cargo.toml": '[package]\nname = "fake-sys"\nversion = "1.2.3+7"\nedition = "2021"\n',
        "src/lib.rs": "",
        **files,
    }
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as file:
        for name, text in files.items():
            info = tarfile.TarInfo(f"fake-sys-1.2.3+7/{name}")
            info.size = len(text.encode())
            file.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


def give_crate(
    world: pathlib.Path,
    files: dict[str, str],
    build: str = "sources",
    library: str = "libfake.so",
    more: str = 'sources = ["fake.c"]\nflags = "-O1"',
    sha256: str = "",
) -> None:
    """Puts a crate into cargo's cache, and writes its recipe."""
    crate = pack_crate(files)
    folder = world / "cargo" / "registry" / "cache" / "local"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fake-sys-1.2.3+7.crate").write_bytes(crate)
    sha256 = sha256 or hashlib.sha256(crate).hexdigest()
    write_recipes(world, RECIPE.format(name="fake", sha256=sha256, library=library, build=build, more=more))


def ensure(*names: str) -> list[peers.Status]:
    return peers.ensure(names or None, rich.console.Console(file=io.StringIO()))


def ensure_fake() -> peers.Status:
    return ensure("fake")[0]


def compile_library(path: pathlib.Path, source: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)], input=source, text=True, check=True)
    return path


def folder_of(world: pathlib.Path) -> pathlib.Path:
    return world / "cache" / "peers" / "fake" / "1.2.3+7"


# ---- the table -------------------------------------------------------------------------------------


def test_shipped_recipes_are_well_formed() -> None:
    table = recipes.load(REAL_RECIPES)
    assert list(table)[0] == "glibc"
    assert {"jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "google-tcmalloc"} <= set(table)
    for recipe in table.values():
        assert recipe.kind not in ("crate", "wheel") or len(recipe.sha256) == 64, recipe.name
        assert not recipe.environment or recipe.environment_why, recipe.name
    assert table["tcmalloc"].variable == "TCMALLOC_SO"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[peer]]\nname = "a"\nkind = "magic"\n', "peer a: kind is 'magic'; allowed: system, debian, wheel, crate, settings"),
        ('[[peer]]\nname = "a"\nkind = "system"\ncolour = 1\n', "peer a: unknown key 'colour'"),
        ('[[peer]]\nname = "a"\nkind = "wheel"\npackage = "p"\n', "peer a: kind wheel needs 'version'"),
        (RECIPE.format(name="a", sha256="0", library="l", build="guess", more=""), "peer a: build is 'guess'"),
        ('[[peer]]\nname = "a"\nkind = "system"\n' * 2, "two peers are called a"),
        ('[[peer]]\nkind = "system"\n', "no usable name"),
        ('[[peer]]\nname = "a"\nkind = "settings"\nof = "b"\n', "peer a: kind settings needs 'environment'"),
        (
            '[[peer]]\nname = "a"\nkind = "settings"\nof = "b"\nenvironment = { K = "1" }\n',
            "peer a: of is 'b'; allowed: a library listed before it",
        ),
        ("[[peer]\n", "recipes.toml: "),
    ],
)
def test_bad_recipes_are_named(world: pathlib.Path, text: str, message: str) -> None:
    (world / "recipes.toml").write_text(text)
    with pytest.raises(ValueError, match=r"^recipes\.toml") as caught:
        recipes.load()
    assert message in str(caught.value)


# ---- crates ----------------------------------------------------------------------------------------


def test_crate_is_built_recorded_and_found_again(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C}, more='sources = ["fake.c"]\nenvironment = { KEY = "1" }')
    remarks: list[str] = []
    assert list(peers.installed(remarks)) == ["glibc"]
    assert remarks == ["fake: not in the cache; 'hakobench peers fake' brings it"]

    status = ensure_fake()
    assert (status.state, status.remark) == ("cached", "")
    assert status.peer.version == "7"
    assert status.peer.source == "crate fake-sys 1.2.3+7"
    assert status.peer.environment == {"KEY": "1"}
    manifest = json.loads((folder_of(world) / "manifest.json").read_text())
    assert manifest["library_sha256"] == status.peer.sha256 == fetch.sha256_of(status.peer.library)
    assert manifest["archive_sha256"] == recipes.load()["fake"].sha256
    assert manifest["compiler"].startswith("g++")
    for name in ("manifest.json", "build.log"):
        assert str(world) not in (folder_of(world) / name).read_text()
    assert sorted(path.name for path in folder_of(world).parent.iterdir()) == ["1.2.3+7"]

    inode = (folder_of(world) / "manifest.json").stat().st_ino
    assert ensure_fake() == status
    assert (folder_of(world) / "manifest.json").stat().st_ino == inode
    assert peers.installed([])["fake"] == status.peer


def test_built_library_does_not_depend_on_the_place(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GOOD_C + "const char *where(void) { return __FILE__; }\n"
    give_crate(world, {"upstream/fake.c": source})
    first = ensure_fake().peer
    monkeypatch.setattr(project, "CACHE_DIR", world / "another" / "cache")
    second = ensure_fake().peer
    assert first.library != second.library
    assert first.sha256 == second.sha256


def test_cmake_crate(world: pathlib.Path) -> None:
    lists = "cmake_minimum_required(VERSION 3.13)\nproject(fake C CXX)\nadd_library(fake SHARED fake.c)\n"
    give_crate(world, {"upstream/fake.c": GOOD_C, "upstream/CMakeLists.txt": lists}, "cmake", more='targets = ["fake"]')
    assert ensure_fake().state == "cached"


def test_configure_crate(world: pathlib.Path) -> None:
    configure = """for word; do
    case "$word" in CC=*) compiler=${word#CC=} ;; CFLAGS=*) flags=${word#CFLAGS=} ;; esac
done
printf 'lib:\\n\\tmkdir -p out\\n\\t%s %s -shared -fPIC -o out/libfake.so.2 fake.c\\n' "$compiler" "$flags" >Makefile
"""
    files = {"upstream/fake.c": GOOD_C, "generated/configure": configure}
    more = 'overlay = "generated"\nflags = "-O1"\ntargets = ["lib"]'
    give_crate(world, files, "configure", "out/libfake.so.2", more)
    status = ensure_fake()
    assert status.remark == ""
    assert status.peer.library.name == "libfake.so.2"


def test_wrong_hash_is_not_used(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C}, sha256="0" * 64)
    tool = world / "bin" / "cargo"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    status = ensure_fake()
    assert status.peer is None
    assert "cannot fetch fake-sys: sha256 of fake-sys-1.2.3+7.crate is " in status.remark
    assert f"the recipe says {'0' * 64}" in status.remark
    assert not folder_of(world).exists()


def test_compiler_error_leaves_a_log_until_it_works(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": "int broken(\n"})
    status = ensure_fake()
    log = world / "cache" / "peers" / "fake" / "failed.log"
    assert status.state == "unavailable"
    assert status.remark == f"'cmake --build' ended with exit code 1; log: {log}"
    assert "fake.c:" in log.read_text() and str(world / "cache") not in log.read_text()
    assert [path.name for path in log.parent.iterdir()] == ["failed.log"]

    give_crate(world, {"upstream/fake.c": GOOD_C})
    assert ensure_fake().state == "cached"
    assert not log.exists()


def test_missing_tool_is_named_before_anything_is_fetched(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C}, more='sources = ["fake.c"]\ntools = ["no-such-compiler"]')
    assert ensure_fake().remark.startswith("needs 'no-such-compiler', which is not here; tools/setup installs it; log:")


def test_missing_cargo_is_named(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    shutil.rmtree(world / "cargo")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "cargo" else which(program))
    assert "cannot fetch fake-sys: needs 'cargo', which is not here" in ensure_fake().remark


def test_folder_missing_in_the_crate(world: pathlib.Path) -> None:
    give_crate(world, {"elsewhere/fake.c": GOOD_C})
    assert "the crate has no folder 'upstream'" in ensure_fake().remark


def test_broken_archive(world: pathlib.Path) -> None:
    give_crate(world, {})
    path = next((world / "cargo").glob("registry/cache/*/*.crate"))
    path.write_bytes(b"no archive")
    sha256 = hashlib.sha256(b"no archive").hexdigest()
    write_recipes(world, RECIPE.format(name="fake", sha256=sha256, library="l.so", build="sources", more=""))
    assert "cannot unpack fake-sys-1.2.3+7.crate" in ensure_fake().remark


# ---- libraries that do not work -------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TRAPPING_C, "a process under it died: SIG"),
        (FORGETFUL_C, "realloc of 100000 bytes lost them"),
        (NO_MALLOC_C, "it has no malloc"),
    ],
)
def test_library_that_does_not_work_is_left_out(world: pathlib.Path, source: str, message: str) -> None:
    give_crate(world, {"upstream/fake.c": source})
    status = ensure_fake()
    assert status.peer is None
    assert message in status.remark
    assert not folder_of(world).exists()


def test_library_that_does_not_load(world: pathlib.Path) -> None:
    source = GOOD_C + "extern int nowhere;\nint *get(void) { return &nowhere; }\n"
    library = compile_library(world / "libundefined.so", source)
    with pytest.raises(PeerError, match="a process under it failed: "):
        probe.check(library, {})


def test_library_with_a_blank_in_its_path(world: pathlib.Path) -> None:
    with pytest.raises(PeerError, match="has a blank or colon"):
        probe.check(compile_library(world / "a b" / "libgood.so", GOOD_C), {})


# ---- the cache ---------------------------------------------------------------------------------------


def test_changed_library_is_reported_and_built_again(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    good = ensure_fake().peer
    with open(good.library, "ab") as file:
        file.write(b"changed")
    remarks: list[str] = []
    assert "fake" not in peers.installed(remarks)
    assert "libfake.so changed since it was built; 'hakobench peers fake' builds it again" in remarks[0]
    output = io.StringIO()
    assert peers.ensure(["fake"], rich.console.Console(file=output, width=300))[0].peer == good
    assert "changed since it was built; building it again" in output.getvalue()
    assert fetch.sha256_of(good.library) == good.sha256


def test_corrupt_manifest_is_reported_and_built_again(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    good = ensure_fake().peer
    for contents in (b"", b"{", b"[]", b"{}", b'{"name": 1}', b"\xff"):
        (folder_of(world) / "manifest.json").write_bytes(contents)
        remarks: list[str] = []
        assert "fake" not in peers.installed(remarks), contents
        assert "manifest.json cannot be used: " in remarks[0], contents
    assert ensure_fake().peer == good


def test_manifest_with_a_wrong_type(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    ensure_fake()
    path = folder_of(world) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"environment": "KEY=1"}))
    assert "its field 'environment' has the wrong type" in peers.inspect(recipes.load()["fake"]).remark


def test_missing_library_is_built_again(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    good = ensure_fake().peer
    good.library.unlink()
    assert peers.inspect(recipes.load()["fake"]).state == "stale"
    assert ensure_fake().peer == good


def test_edited_recipe_builds_again(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    ensure_fake()
    give_crate(world, {"upstream/fake.c": GOOD_C}, more='sources = ["fake.c"]\nflags = "-O1 -DNDEBUG"')
    status = peers.inspect(recipes.load()["fake"])
    assert "its recipe changed since it was built" in status.remark
    assert ensure_fake().state == "cached"
    assert "-DNDEBUG" in " ".join(json.loads((folder_of(world) / "manifest.json").read_text())["commands"])


def test_failed_rebuild_keeps_what_was_there(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    before = ensure_fake().peer
    give_crate(world, {"upstream/fake.c": GOOD_C}, more='sources = ["absent.c"]')
    assert ensure_fake().state == "unavailable"
    assert fetch.sha256_of(before.library) == before.sha256


def test_leftovers_of_an_interrupted_build_are_removed(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    left = world / "cache" / "peers" / "fake" / ".work-left"
    left.mkdir(parents=True)
    assert ensure_fake().state == "cached"
    assert not left.exists()


def test_interrupt_stops_the_build_and_leaves_nothing(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store._bring(recipes.load()["fake"], lambda: None, interrupt)
    assert list((world / "cache" / "peers" / "fake").iterdir()) == []


def test_second_process_waits_and_builds_nothing(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    recipe = recipes.load()["fake"]
    waits, results = threading.Event(), []
    other = threading.Thread(
        target=lambda: results.append(store._bring(recipe, waits.set, lambda: pytest.fail("built twice")))
    )
    with cache.locked("fake", lambda: pytest.fail("nobody else has the lock")) as folder:
        other.start()
        assert waits.wait(60)
        built = store._attempt(recipe, folder, lambda: None)
    other.join(60)
    assert built.state == "cached"
    assert results == [built]


def test_cache_that_cannot_be_written(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    (world / "cache").write_text("a file where the folder should be")
    status = ensure_fake()
    assert status.state == "unavailable"
    assert status.remark.startswith("cannot write the cache ")


# ---- the clients of the registries -------------------------------------------------------------------


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server(world: pathlib.Path):
    """Serves world/registry on the loopback; yields its port."""
    (world / "registry").mkdir()

    def handler(*arguments: object) -> QuietHandler:
        return QuietHandler(*arguments, directory=str(world / "registry"))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served.server_address[1]
        served.shutdown()
        thread.join()


def use_registry(world: pathlib.Path, port: int) -> None:
    (world / "cargo").mkdir(exist_ok=True)
    (world / "cargo" / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "local"\n[source.local]\nregistry = "sparse+http://127.0.0.1:{port}/"\n'
    )


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here")
def test_cargo_fetches_from_a_registry(world: pathlib.Path, server: int) -> None:
    crate = pack_crate({"upstream/fake.c": GOOD_C})
    give_crate(world, {"upstream/fake.c": GOOD_C})
    shutil.rmtree(world / "cargo")
    use_registry(world, server)
    line = {"name": "fake-sys", "vers": "1.2.3+7", "deps": [], "cksum": hashlib.sha256(crate).hexdigest()}
    line |= {"features": {}, "yanked": False}
    registry = world / "registry"
    for path in ("fa/ke", "fake-sys/1.2.3+7"):
        (registry / path).mkdir(parents=True)
    (registry / "config.json").write_text(json.dumps({"dl": f"http://127.0.0.1:{server}"}))
    (registry / "fa" / "ke" / "fake-sys").write_text(json.dumps(line) + "\n")
    (registry / "fake-sys" / "1.2.3+7" / "download").write_bytes(crate)
    status = ensure_fake()
    assert status.remark == ""
    assert "cargo fetch" in (folder_of(world) / "build.log").read_text()


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here")
def test_no_network_for_cargo(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    shutil.rmtree(world / "cargo")
    with socket.socket() as unused:  # bound but not listening, so it refuses connections
        unused.bind(("127.0.0.1", 0))
        use_registry(world, unused.getsockname()[1])
        status = ensure_fake()
    assert status.peer is None
    assert "cannot fetch fake-sys: 'cargo fetch' ended with exit code " in status.remark
    assert peers.installed([])["glibc"].library is None


WHEEL_RECIPE = """
[[peer]]
name = "fake-wheel"
kind = "wheel"
package = "fake-wheel"
version = "3.4"
machine = "{machine}"
sha256 = "{sha256}"
library = "{library}"
"""


def give_wheel(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch, library: str = "lib/libfake.so.3") -> pathlib.Path:
    """Puts a wheel into a folder, makes pip take everything from there, and returns the folder."""
    folder = world / "wheels"
    folder.mkdir()
    good = compile_library(world / "libgood.so", GOOD_C)
    wheel = folder / "fake_wheel-3.4-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("lib/libfake.so.3", good.read_bytes())
        about = {
            "METADATA": "Metadata-Version: 2.1\nName: fake-wheel\nVersion: 3.4\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        for name, text in about.items():
            file.writestr(f"fake_wheel-3.4.dist-info/{name}", text)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    write_recipes(world, WHEEL_RECIPE.format(machine=platform.machine(), sha256=sha256, library=library))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_wheel(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_wheel(world, monkeypatch)
    status = ensure("fake-wheel")[0]
    assert status.remark == ""
    assert (status.peer.version, status.peer.source) == ("3.4", "wheel fake-wheel 3.4")
    assert status.peer.library.name == "libfake.so.3"


def test_wheel_that_pip_cannot_get(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = give_wheel(world, monkeypatch)
    shutil.rmtree(folder)
    folder.mkdir()
    assert "cannot fetch fake-wheel: 'pip download' ended with exit code 1; log: " in ensure("fake-wheel")[0].remark


def test_wheel_without_the_library(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_wheel(world, monkeypatch, "lib/libother.so")
    assert "there is no lib/libother.so in the package" in ensure("fake-wheel")[0].remark


def test_wheel_of_another_machine(world: pathlib.Path) -> None:
    write_recipes(world, WHEEL_RECIPE.format(machine="pdp11", sha256="0", library="l"))
    assert "the wheel is for pdp11, this machine is " in ensure("fake-wheel")[0].remark


DEBIAN_RECIPE = '[[peer]]\nname = "fake"\nkind = "debian"\npackage = "libfake"\nlibrary = "libfake.so.1"\n'


def test_debian_library_of_the_system_is_taken_and_tested(world: pathlib.Path) -> None:
    write_recipes(world, DEBIAN_RECIPE)
    library = compile_library(world / "system" / "usr" / "lib" / "x86_64-linux-gnu" / "libfake.so.1", GOOD_C)
    status = ensure_fake()
    assert (status.state, status.peer.library, status.peer.source) == ("system", library, "Debian libfake")
    assert not (world / "cache").exists()
    compile_library(library, NO_MALLOC_C)
    assert ensure_fake().state == "unavailable"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here")
def test_debian_package_is_unpacked_into_the_cache(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = world / "package"
    real = compile_library(tree / "usr" / "lib" / "x86_64-linux-gnu" / "libfake.so.1.5", GOOD_C)
    real.with_name("libfake.so.1").symlink_to(real.name)
    (tree / "DEBIAN").mkdir()
    fields = "Package: libfake\nVersion: 1:1.5-2\nArchitecture: all\nMaintainer: nobody\nDescription: fake\n"
    (tree / "DEBIAN" / "control").write_text(fields)
    subprocess.run(["dpkg-deb", "--build", str(tree), str(world / "libfake.deb")], check=True)
    tool = world / "bin" / "apt-get"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$*" = "-q download libfake" ] && cp {world}/libfake.deb .\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    write_recipes(world, DEBIAN_RECIPE)
    status = ensure_fake()
    assert status.remark == ""
    assert status.peer.version == "1:1.5-2"
    assert status.peer.library == world / "cache" / "peers" / "fake" / "1-1.5-2" / "libfake.so.1"
    assert ensure_fake() == status


# ---- other libraries ---------------------------------------------------------------------------------


def test_variable_replaces_the_peer(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    library = compile_library(world / "libother.so", GOOD_C)
    monkeypatch.setenv("FAKE_SO", str(library))
    status = ensure_fake()
    assert (status.state, status.peer.library, status.peer.source) == ("replaced", library, "FAKE_SO")
    assert peers.installed([])["fake"] == status.peer
    assert not (world / "cache").exists()


def test_variable_that_names_no_file(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    assert ensure_fake().state == "cached"
    monkeypatch.setenv("FAKE_SO", str(world / "absent.so"))
    remarks: list[str] = []
    assert "fake" not in peers.installed(remarks)
    assert remarks == [f"fake: FAKE_SO={world / 'absent.so'}: No such file or directory"]
    assert ensure_fake().remark == remarks[0].removeprefix("fake: ")


def test_variable_that_names_no_library(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_crate(world, {})
    (world / "text.so").write_text("no library")
    monkeypatch.setenv("FAKE_SO", str(world / "text.so"))
    assert ensure_fake().remark == "a process under it failed: it was not loaded"


def test_optional_peers_only_by_name(world: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_recipes(world, DEBIAN_RECIPE + "optional = true\n")
    monkeypatch.setenv("FAKE_SO", str(compile_library(world / "libother.so", GOOD_C)))
    assert list(peers.installed([])) == ["glibc"]
    assert list(peers.installed([], optional=True)) == ["glibc", "fake"]
    assert [status.recipe.name for status in ensure()] == ["glibc"]
    assert [found.name for found in allocators.select("fake", {})[0]] == ["fake"]


# ---- programs ----------------------------------------------------------------------------------------


def test_program_that_takes_too_long_is_ended(world: pathlib.Path) -> None:
    log = io.StringIO()
    with pytest.raises(PeerError, match="'sh -c' took more than 0.1 s"):
        programs.run(["sh", "-c", "sleep 1000 & wait"], log, world, 0.1)


def test_program_that_is_not_there(world: pathlib.Path) -> None:
    with pytest.raises(PeerError, match="cannot start 'no-such-program': No such file"):
        programs.run(["no-such-program"], io.StringIO(), world, 60)


def test_settings_of_the_shell_do_not_reach_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O0")
    monkeypatch.setenv("MAKEFLAGS", "-j99")
    monkeypatch.setenv("KEPT", "1")
    found = programs.environment(ADDED="2")
    assert not {"CFLAGS", "MAKEFLAGS"} & set(found)
    assert (found["KEPT"], found["ADDED"], found["LC_ALL"]) == ("1", "2", "C")


# ---- the command -------------------------------------------------------------------------------------


def call(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, arguments, terminal_width=200, env={"COLUMNS": "200"})


def test_command_brings_what_it_can(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": "int broken(\n"})
    result = call()
    assert result.exit_code == 0, result.output
    assert "unavailable" in result.output
    assert len([line for line in result.output.splitlines() if line.startswith("fake: ") and "log: " in line]) == 1
    required = call("--require", "fake")
    assert required.exit_code == 1
    assert "required, but not there: fake" in required.output
    give_crate(world, {"upstream/fake.c": GOOD_C})
    assert call("--require", "fake").exit_code == 0


def test_command_lists_without_fetching(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    result = call("--list")
    assert result.exit_code == 0
    assert "not here" in result.output and "glibc" in result.output
    assert not (world / "cache").exists()
    peer = ensure_fake().peer
    assert peer.sha256[:12] in call("--list").output


@pytest.mark.parametrize("arguments", [("nobody",), ("--require", "nobody"), ("--list", "nobody")])
def test_command_names_what_it_does_not_know(world: pathlib.Path, arguments: tuple[str, ...]) -> None:
    give_crate(world, {})
    result = call(*arguments)
    assert result.exit_code == 2
    assert "no peer is called 'nobody'; known: glibc, fake" in result.output


# ---- the real ones -----------------------------------------------------------------------------------


def test_real_peers_replace_malloc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests only the peers in the cache: `hakobench peers` fills it, not a test."""
    monkeypatch.setattr(project, "CACHE_DIR", REAL_CACHE)
    monkeypatch.setattr(recipes, "PATH", REAL_RECIPES)
    monkeypatch.setattr(store, "SYSTEM_ROOT", pathlib.Path("/"))
    found = [peer for peer in peers.installed([], optional=True).values() if peer.library]
    if not found:
        pytest.skip("no peer is here; `hakobench peers` brings them")
    for peer in found:
        probe.check(peer.library, peer.environment)


# ---- settings --------------------------------------------------------------------------------------

SETTINGS_RECIPE = """
[[peer]]
name = "fake-lazy"
kind = "settings"
of = "fake"
environment = { MODE = "lazy" }
optional = true
"""


def test_a_library_with_other_settings_is_a_peer_of_its_own(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C}, more='sources = ["fake.c"]\nenvironment = { KEY = "1" }')
    with (world / "recipes.toml").open("a") as text:
        text.write(SETTINGS_RECIPE)
    remarks: list[str] = []
    assert list(peers.installed(remarks, named=["fake-lazy"])) == ["glibc"]
    assert remarks == ["fake, fake-lazy: not in the cache; 'hakobench peers fake' brings them, in about 1 min"]
    (status,) = ensure("fake-lazy")
    assert (status.state, status.peer.name, status.remark) == ("cached", "fake-lazy", "")
    assert status.peer.environment == {"KEY": "1", "MODE": "lazy"}
    found = peers.installed([], named=["fake-lazy"])
    assert list(found) == ["glibc", "fake", "fake-lazy"]
    assert found["fake"].library == found["fake-lazy"].library
    assert found["fake"].environment == {"KEY": "1"}


def test_optional_peers_that_a_suite_names(world: pathlib.Path) -> None:
    give_crate(world, {"upstream/fake.c": GOOD_C})
    with (world / "recipes.toml").open("a") as text:
        text.write(SETTINGS_RECIPE)
    ensure_fake()
    assert list(peers.installed([])) == ["glibc", "fake"]
    chosen, _ = allocators.select(None, {}, ["fake-lazy"])
    lazy = next(one for one in chosen if one.name == "fake-lazy")
    assert lazy.environment()["MODE"] == "lazy"
    assert "fake-lazy" not in {one.name for one in allocators.select(None, {})[0]}
    with pytest.raises(ValueError, match="no peer is called 'fake-busy'"):
        peers.installed([], named=["fake-busy"])
