"""The command lines of docs/install.md with several compilers and linkers: malloc and free are ours."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest
from installing import CONFIG, PROGRAMS, run

QUICK = ["gcc -flto", "clang -flto -fuse-ld=lld"]
SLOW = [
    "gcc", "gcc -fuse-ld=gold", "gcc -flto -fuse-ld=gold", "gcc -fuse-ld=lld", "gcc -fuse-ld=mold", "gcc -flto -fuse-ld=mold",
    "clang", "clang -flto", "clang -fuse-ld=gold", "clang -fuse-ld=lld", "clang -fuse-ld=mold", "clang -flto -fuse-ld=mold",
]  # fmt: skip
COMPILERS = [*QUICK, *(pytest.param(compiler, marks=pytest.mark.slow) for compiler in SLOW)]
MODES = ["", "-static", "-static-pie"]
FORMS = ["{lib}/hakozuna.o -pthread", "-Wl,-u,malloc {lib}/libhakozuna.a -pthread"]


def link(tree: pathlib.Path, program: pathlib.Path, source: str, compiler: str, words: str) -> pathlib.Path:
    library = words.format(lib=tree / "lib").split()
    run(*compiler.split(), "-O2", f"-I{tree}/include", PROGRAMS / source, *library, "-o", program)
    return program


def defines(program: pathlib.Path, name: str) -> bool:
    return any(line.split()[-1] == name for line in run("nm", "--defined-only", program).splitlines())


def check_ours(tree: pathlib.Path, folder: pathlib.Path, compiler: str, words: str) -> None:
    """A program that uses the API, and one that knows nothing of it."""
    assert run(link(tree, folder / "ours", "ours.c", compiler, words)).startswith(CONFIG)
    plain = link(tree, folder / "plain", "plain.c", compiler, words)
    shown = subprocess.run([plain], env={"HAKOZUNA_SHOW_CONFIG": "2"}, capture_output=True, text=True, check=True)
    assert shown.stdout == "1\n"
    assert CONFIG in shown.stderr


@pytest.mark.parametrize("form", FORMS, ids=["object", "archive"])
@pytest.mark.parametrize("mode", MODES, ids=["dynamic", "static", "static-pie"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_static_link(tree, tmp_path, compiler, mode, form):
    if mode == "-static-pie" and "gold" in compiler:
        with pytest.raises(AssertionError, match="no-dynamic-linker"):  # gold cannot do this, whatever is linked
            link(tree, tmp_path / "plain", "plain.c", f"{compiler} {mode}", "")
        return
    check_ours(tree, tmp_path, f"{compiler} {mode}", form)


@pytest.mark.parametrize("mode", MODES, ids=["dynamic", "static", "static-pie"])
@pytest.mark.parametrize("compiler", ["g++", "g++ -flto", "clang++ -flto -fuse-ld=lld"])
def test_static_link_of_cxx(tree, tmp_path, compiler, mode):
    program = link(tree, tmp_path / "ours", "ours.cc", f"{compiler} {mode}", FORMS[0])
    assert run(program).startswith(CONFIG)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_shared_link(tree, tmp_path, compiler):
    check_ours(tree, tmp_path, compiler, "-L{lib} -Wl,--no-as-needed -lhakozuna -Wl,-rpath,{lib}")
    needed = run("readelf", "-d", tmp_path / "ours")
    assert "[libhakozuna.so.0]" in needed, "the program must not depend on which lane is the default"


@pytest.mark.parametrize("lane", ["hz3-fast", "hz3-p32", "hz3-percpu", "hz3-home", "hz4", "hz4-home"])
def test_another_lane(tree, tmp_path, lane):
    engine, _, name = lane.partition("-")
    expected = f"engine={engine} lane={name or 'default'} "
    shared = link(tree, tmp_path / "shared", "ours.c", "cc", f"-L{{lib}} -lhakozuna-{lane} -Wl,-rpath,{{lib}}")
    assert run(shared).startswith(expected)
    assert f"[libhakozuna-{lane}.so.0]" in run("readelf", "-d", shared)
    archive = link(tree, tmp_path / "static", "ours.c", "cc -flto", f"-Wl,-u,malloc {{lib}}/libhakozuna-{lane}.a -pthread")
    assert run(archive).startswith(expected)


@pytest.mark.parametrize("mode", MODES, ids=["dynamic", "static", "static-pie"])
@pytest.mark.parametrize("compiler", QUICK)
def test_prefix(tree, tmp_path, compiler, mode):
    program = link(tree, tmp_path / "prefix", "prefix.c", f"{compiler} {mode}", "{lib}/libhakozuna-prefix.a -pthread")
    assert run(program).startswith(CONFIG)
    assert defines(program, "hz_malloc")
    mixed = subprocess.run([program, "mixed"], capture_output=True, text=True, check=False)
    assert re.search(r"not from this allocator: 0x\w+ \(found in hz_free\)", mixed.stderr)


PREFIX = "{lib}/libhakozuna-prefix.a -pthread"


@pytest.mark.parametrize("what", ["confine", "unshare"])
def test_prefix_without_a_thread(tree, tmp_path, what):
    """With the prefix archive the program itself tells the library, since the archive replaces nothing of the C library's."""
    program = link(tree, tmp_path / "alone", "alone.c", "cc", PREFIX)
    assert run(program, what) == "done\n"
    unannounced = subprocess.run([program, what, "unannounced"], capture_output=True, text=True, check=False)
    assert unannounced.stdout == "" and unannounced.returncode != 0, "otherwise this test could not fail"


@pytest.mark.parametrize("form", [PREFIX, FORMS[1]], ids=["prefix", "malloc"])
def test_a_library_with_the_archive_can_be_closed(tree, tmp_path, form):
    """It stays in memory, as the keeper runs in it, and the program may have blocks of it."""
    plugin = link(tree, tmp_path / "plugin.so", "plugin.c", "cc -shared -fPIC", form + " -Wl,-Bsymbolic")
    host = link(tree, tmp_path / "host", "host.c", "cc", "-ldl")
    assert run(host, plugin) == "closed\nthe keeper runs\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a set-user-ID program of another user")
def test_a_set_user_id_program_reads_no_variables(tree, tmp_path):
    program = link(tree, tmp_path / "plain", "plain.c", "cc", FORMS[0])
    shown = {"HAKOZUNA_SHOW_CONFIG": "2"}
    assert CONFIG in subprocess.run([program], env=shown, capture_output=True, text=True, check=True).stderr
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert subprocess.run([program], env=shown, capture_output=True, text=True, check=True).stderr == ""
    executes = link(tree, tmp_path / "executes", "executes.c", "cc", FORMS[0])
    variables = {"HAKOZUNA_STATS": "1", "HAKOZUNA": "x", "A": "1", **shown, "Z": "2"}
    assert "HAKOZUNA_STATS=1\n" in subprocess.run([executes], env=variables, capture_output=True, text=True, check=True).stdout
    os.chown(executes, 65534, 65534)
    executes.chmod(0o4755)
    raised = subprocess.run([executes], env=variables, capture_output=True, text=True, check=True)
    assert sorted(raised.stdout.splitlines()) == ["A=1", "HAKOZUNA=x", "Z=2"], "and hands none on"


def test_preload(tree, tmp_path):
    plain = link(tree, tmp_path / "plain", "plain.c", "cc", "")
    shown = {"HAKOZUNA_SHOW_CONFIG": "2", "LD_PRELOAD": str(tree / "lib/libhakozuna.so.0")}
    assert CONFIG in subprocess.run([plain], env=shown, capture_output=True, text=True, check=True).stderr


def test_a_malloc_that_is_not_ours_is_noticed(tree, tmp_path):
    """Without the options gcc -flto takes the C library's malloc, as install.md says; and with the prefix archive it stays."""
    for words in ("{lib}/libhakozuna.a -pthread", "-L{lib} -Wl,--as-needed -lhakozuna -Wl,-rpath,{lib}"):
        with pytest.raises(AssertionError):
            check_ours(tree, tmp_path, "gcc -flto", words)
    with pytest.raises(AssertionError, match="not from this allocator"):
        check_ours(tree, tmp_path, "gcc", "{lib}/libhakozuna-prefix.a -pthread")


def test_the_archive_is_one_object(tree):
    """A linker takes all of it or nothing, and no internal name can meet one of the program's."""
    for archive in sorted((tree / "lib").glob("*.a")):
        assert len(run("ar", "t", archive).split()) == 1, archive.name
        names = {line.split()[-1] for line in run("nm", "-g", "--defined-only", archive).splitlines() if " " in line}
        internal = {name for name in names if name.startswith("hz_")} - set(public_names())
        assert internal == set(), archive.name
        assert ("malloc" in names) == (archive.name != "libhakozuna-prefix.a")


def public_names() -> list[str]:
    lines = (PROGRAMS.parent / "abi.txt").read_text().splitlines()
    return [line.partition("@")[0] for line in lines if line.endswith("@HAKOZUNA_0")]


def test_the_makefile_line_of_the_install_page(tree, tmp_path):
    page = (PROGRAMS.parents[2] / "docs/install.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("LDLIBS += "))
    makefile = f"CPPFLAGS += -I{tree}/include\n{line.replace('/usr/local', str(tree))}\n"
    (tmp_path / "Makefile").write_text(makefile)
    (tmp_path / "ours.c").write_text((PROGRAMS / "ours.c").read_text())
    run("make", "-C", tmp_path, "ours", "CFLAGS=-O2 -flto")
    assert run(tmp_path / "ours").startswith(CONFIG)


@pytest.mark.parametrize(
    ("source", "mode", "package"),
    [
        ("ours.c", "", "hakozuna"),
        ("plain.c", "", "hakozuna"),
        ("ours.c", "-static", "--static hakozuna"),
        ("ours.c", "-static-pie", "--static hakozuna"),
        ("ours.c", "", "hakozuna-static"),
        ("plain.c", "", "hakozuna-static"),
        ("prefix.c", "", "hakozuna-prefix"),
        ("ours.c", "", "hakozuna-hz4"),
    ],
)
def test_pkg_config(tree, tmp_path, source, mode, package):
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", *package.split(), PKG_CONFIG_PATH=f"{tree}/lib/pkgconfig"))
    program = tmp_path / "program"
    found = [] if mode else [f"-Wl,-rpath,{tree}/lib"]
    run("gcc", "-flto", "-O2", *mode.split(), PROGRAMS / source, *flags, *found, "-o", program)
    shown = subprocess.run([program], env={"HAKOZUNA_SHOW_CONFIG": "2"}, capture_output=True, text=True, check=True)
    assert "engine=hz" in shown.stdout + shown.stderr
