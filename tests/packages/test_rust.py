"""The Rust crate: what is in the package, its own tests, and a program that declares it as its one dependency."""

import json
import pathlib
import re
import subprocess
import tarfile

import clean_root
import pytest
from clean_root import CleanRoot
from installing import BUILD, CONFIG, ROOT, run

CRATE = ROOT / "packaging/rust"
PROGRAM = """#[global_allocator]
static GLOBAL: hakozuna::Hakozuna = hakozuna::Hakozuna;

fn main() {
    let words: Vec<&str> = hakozuna::config_string().split(' ').collect();
    assert!(hakozuna::usable_size(words.as_ptr().cast()) >= words.len() * 16);
    println!("{}", words.join(" "));
}
"""


def cargo(*words: object) -> str:
    return run("cargo", *words, CARGO_TERM_COLOR="never")


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("target")


@pytest.fixture(scope="module")
def crate(target, tmp_path_factory) -> pathlib.Path:
    """The package as a registry would get it, built once by cargo itself, and unpacked."""
    cargo("publish", "--dry-run", "--allow-dirty", "--manifest-path", CRATE / "Cargo.toml", "--target-dir", target)
    cargo("package", "--no-verify", "--allow-dirty", "--manifest-path", CRATE / "Cargo.toml", "--target-dir", target)
    (file,) = (target / "package").glob("hakozuna-*.crate")
    folder = tmp_path_factory.mktemp("crate")
    with tarfile.open(file) as archive:
        archive.extractall(folder)
    return folder / file.stem


def listed_sources() -> set[str]:
    suffixes = {".c", ".h", ".def"}
    return {path.relative_to(ROOT).as_posix() for folder in ("src", "include") for path in (ROOT / folder).rglob("*") if path.suffix in suffixes}


@pytest.mark.slow
def test_the_package_has_all_sources_and_nothing_else(crate):
    found = {path.relative_to(crate).as_posix() for path in crate.rglob("*") if path.is_file()}
    own = {"Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json", "LICENSE", "README.md", "build.rs", "src/lib.rs", "tests/global.rs"}
    assert found - {".cargo_vcs_info.json"} == own - {".cargo_vcs_info.json"} | {f"c/{name}" for name in listed_sources()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "config"),
    [("", CONFIG), ("override", CONFIG), ("hz3-home", "engine=hz3 lane=home "), ("hz4", "engine=hz4 lane=default ")],
)
def test_a_program_with_one_dependency(crate, target, tmp_path, features, config):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text(PROGRAM)
    wanted = json.dumps(features.split())
    (tmp_path / "Cargo.toml").write_text(
        f'[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n\n[dependencies]\nhakozuna = {{ path = "{crate}", features = {wanted} }}\n'
    )
    assert cargo("run", "--release", "--manifest-path", tmp_path / "Cargo.toml", "--target-dir", target).startswith(config)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "hz3-home,checks,override", "hz4,stats"])
def test_its_own_tests(target, features):
    printed = cargo("test", "--features", features, "--manifest-path", CRATE / "Cargo.toml", "--target-dir", target)
    assert len(re.findall(r"^test .* \.\.\. ok$", printed, re.MULTILINE)) >= 5
    assert ("the_c_library_is_ours_too" in printed) == ("override" in features)


@pytest.mark.slow
def test_two_lanes_are_refused(target):
    order = ["cargo", "check", "--features", "hz4,hz3-p32", "--manifest-path", CRATE / "Cargo.toml", "--target-dir", target]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "features hz3-p32, hz4 are given; allowed: one lane at most" in done.stderr


def stated_rust() -> str:
    """The oldest Rust that the crate says it works with."""
    return re.search(r'(?m)^rust-version = "(.*)"$', (CRATE / "Cargo.toml").read_text())[1]


@pytest.mark.slow
@clean_root.needed
def test_the_oldest_rust(crate, tmp_path):
    """The crate's own tests and a program by Debian's rustc, which is of the stated version. cargo of today chooses versions
    of what the crate needs that this one can compile."""
    root = CleanRoot(tmp_path / "root")
    root.apt_install("cargo", "gcc", "libc6-dev", "rustc")
    assert root.run("rustc", "--version").startswith(f"rustc {stated_rust()}.")
    work = root.folder / "srv"
    run("cp", "-a", crate, work / "hakozuna")
    (work / "hakozuna/Cargo.lock").unlink()  # in the form of today
    (work / "app/src").mkdir(parents=True)
    (work / "app/src/main.rs").write_text(PROGRAM)
    (work / "app/Cargo.toml").write_text(
        f'[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\nrust-version = "{stated_rust()}"\n\n'
        '[dependencies]\nhakozuna = { path = "../hakozuna" }\n'
    )
    older = {"CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS": "fallback"}
    run("cargo", "vendor", "--manifest-path", work / "app/Cargo.toml", work / "vendor", **older)
    (work / ".cargo").mkdir()
    (work / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n\n[source.vendored]\ndirectory = "/srv/vendor"\n'
    )
    (work / "app/Cargo.lock").unlink()
    cargo = "cargo {} --offline --manifest-path /srv/{}/Cargo.toml {}"
    for features, config in (("", CONFIG), ("override,hz4", "engine=hz4 lane=default ")):
        wanted = f"--features {features}" if features else ""
        tested = root.run("sh", "-c", "cd /srv && " + cargo.format("test", "hakozuna", wanted))
        assert len(re.findall(r"^test .* \.\.\. ok$", tested, re.MULTILINE)) >= 5
        wanted = wanted.replace(features, ",".join(f"hakozuna/{name}" for name in features.split(","))) if features else ""
        assert root.run("sh", "-c", "cd /srv && " + cargo.format("run", "app", wanted)).startswith(config)


def compile_command(lane: str) -> str:
    """How the project's build compiles a source of a lane's shared library."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    return next(one["command"] for one in commands if f"hakozuna_{lane}_objects.dir/" in one["command"] and one["file"].endswith("/free.c"))


def lane_table() -> dict[str, tuple[str, list[str]]]:
    """The lanes of build.rs: library name -> header and its folders of src/ways."""
    text = (CRATE / "build.rs").read_text()
    rows = re.findall(r'Lane \{ feature: "(.*)", engine: "(.*)", header: "(.*)", home: &\[(.*)\], bins: "(.*)" \}', text)
    return {engine if header == "default" else f"{engine}_{header}": (header, [*re.findall(r'"(\w+)"', home), "shared", bins]) for _, engine, header, home, bins in rows}


def test_it_is_built_as_the_project_builds_it():
    """The lanes with their parts, and the flags that change what the library is."""
    text = (CRATE / "build.rs").read_text()
    table = lane_table()
    assert sorted(table) == ["hz3_fast", "hz3_home", "hz3_p32", "hz3_percpu", "hz3_scale", "hz4", "hz4_home"]
    for lane, (header, ways) in table.items():
        command = compile_command(lane)
        assert f"lanes/{header}.h" in command
        assert re.findall(r"-I\S*/src/ways/(\w+)", command) == ways
    wanted = set(re.findall(r"-f[\w-]+(?:=\S+)?", compile_command("hz3_scale"))) - {"-flto", "-flto=auto", "-fno-fat-lto-objects", "-fPIC"}
    names = re.findall(r'"(\w+)"', re.search(r"const MALLOC_NAMES.*?\];", text, re.DOTALL)[0])
    assert wanted == {*re.findall(r'"(-f[\w=-]+)"', text), *(f"-fno-builtin-{name}" for name in names)}
