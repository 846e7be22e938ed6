"""command/hakozuna.in: the command itself, its lanes, its help, what it says about mistakes, and completion."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import nearest
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = ROOT / "build/bin/hakozuna"
SUBCOMMANDS = ("run", "stats", "top", "metrics", "profile", "names", "why", "lanes", "path")
TIMEOUT_SECONDS = 60


def run(*words: object, cwd: pathlib.Path | None = None, **environment: str) -> subprocess.CompletedProcess:
    kept = {"PATH": os.environ["PATH"]} | environment
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False, env=kept, cwd=cwd, timeout=TIMEOUT_SECONDS)


def refused(code: int, pattern: str, *words: object, **options: object) -> None:
    done = run(*words, **options)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert re.fullmatch(f"hakozuna: {pattern}\n", done.stderr), done.stderr


def folder_with(folder: pathlib.Path, *programs: str) -> str:
    """A folder that has only these programs, for PATH."""
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(os.path.realpath(sys.executable if name == "python3" else shutil.which(name)))
    return str(folder)


# ---- help and mistakes -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["run", "--help"], ["lanes", "--help"], ["path", "-h"], ["-l", "hz4", "--help"]])
def test_help_is_an_answer(words):
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: hakozuna [OPTION...] PROGRAM [ARGUMENT...]")
    assert all(re.search(rf"\b{name}\b", done.stdout) for name in SUBCOMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize("command", ["stats", "top", "metrics", "profile", "leaks", "names", "why"])
def test_each_command_has_help(command, tmp_path):
    path = folder_with(tmp_path / "bin", "sh", "readlink", "dirname", "python3", "sed", "sort", "tr")  # without hakobench
    done = run(command, "--help", PATH=path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"usage: hakozuna {command} ")


def test_the_version_is_that_of_the_library():
    header = (ROOT / "include/hakozuna/hakozuna.h").read_text()
    version = ".".join(re.search(rf"VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hakozuna {version}\n", "")


@pytest.mark.parametrize("words", [[], ["run"], ["run", "--watch"], ["run", "--lane"], ["lanes", "x"], ["path", "x"]])
def test_a_call_without_what_it_needs(words, tmp_path):
    done = run(*words, XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: hakozuna [OPTION...] PROGRAM") and "--watch" in done.stderr


def test_what_was_meant():
    refused(127, r"no program 'tpo' in PATH, and no command of hakozuna \(did you mean 'top'\?\)", "tpo", "1")
    refused(127, "no program 'qqqqqq' in PATH, and no command of hakozuna", "qqqqqq")
    refused(127, r"no program '\./none'", "./none")
    refused(2, r"no option '--wach' \(did you mean '--watch'\?\); there are: .* --watch .*", "run", "--wach", "true")
    refused(2, r"no lane 'hz3-scael' \(did you mean 'hz3-scale'\?\); there are: hz3-scale .* in '.*'", "-l", "hz3-scael", "true")
    done = run("stats", "--jsn", "1")
    assert done.returncode == 2 and done.stderr.endswith("error: unrecognized arguments: --jsn (did you mean '--json'?)\n")
    done = run("stats", "--part", "clases", "1")
    assert done.returncode == 2 and done.stderr.endswith(" (did you mean 'classes'?)\n")
    done = run("profile", "leeks", "file")
    assert done.returncode == 2 and done.stderr.endswith(" (did you mean 'leaks'?)\n")
    assert nearest.question("zzz", ["stats", "top"]) == ""


def test_without_python(tmp_path):
    """Programs run, lanes are listed, and a mistake is named, without what was meant."""
    path = folder_with(tmp_path / "bin", "sh", "readlink", "dirname", "sed", "sort", "tr", "od", "true")
    assert run("true", PATH=path).returncode == 0
    assert run("lanes", PATH=path).stdout.startswith("hz3-scale ")
    refused(2, "no lane 'hz9'; there are: .*", "-l", "hz9", "true", PATH=path)
    for command in ("stats", "why"):
        refused(2, f"{command} needs Python 3.9 or later, and there is no 'python3'", command, "1", PATH=path)


# ---- lanes -----------------------------------------------------------------------------------------


def listed() -> list[str]:
    return [line.split()[0] for line in run("lanes").stdout.splitlines()]


def test_every_lane_by_one_name():
    """The list, -l, what the library says of itself, and the libraries' files."""
    found = listed()
    assert found[0] == "hz3-scale" and sorted(found[1:]) == found[1:] and {"hz3-fast", "hz3-p32", "hz3-percpu", "hz3-home", "hz4", "hz4-home"} < set(found)
    for lane in found:
        shown = run("-l", lane, "true", HAKOZUNA_SHOW_CONFIG="1").stderr
        assert re.fullmatch(rf"hakozuna [0-9.]+ in true \(pid \d+\): {lane}, \d+ CPUs?, (no keeper: .*|keeper runs.*)\n", shown), shown
        path = run("path", "-l", lane).stdout.rstrip("\n")
        assert path == str(COMMAND.parent.parent / "lib" / ("libhakozuna.so.0" if lane == "hz3-scale" else f"libhakozuna-{lane}.so.0"))
        assert pathlib.Path(path).exists()
    for words in (["-lhz4"], ["--lane=hz4"], ["run", "--lane", "hz4"]):
        assert run(*words, "printenv", "LD_PRELOAD").stdout.endswith("/libhakozuna-hz4.so.0\n")


def test_lanes_as_json():
    found = json.loads(run("lanes", "--json").stdout)
    assert [each["lane"] for each in found] == listed()
    assert [each["lane"] for each in found if each["is_default"]] == ["hz3-scale"] and all(each["about"] for each in found)


def test_the_pages_have_the_same_names():
    """And a text for each lane that is installed."""
    texts = dict(line.split(maxsplit=1) for line in run("lanes").stdout.splitlines())
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("## Which lane") : readme.index("## How it works")]
    named = set(re.findall(r"`(hz\d[\w-]*)`", table))
    assert named == {lane for lane, text in texts.items() if text != "not installed by default"}
    assert texts["hz3-scale"].endswith("(the default)")
    titles = set(re.findall(r"(?m)^\| (hz\d[\w-]*) \| ", (ROOT / "docs/lanes.md").read_text()))
    assert titles == set(listed())


# ---- programs that keep their malloc ---------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> pathlib.Path:
    """One program, linked in three ways."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
    for name, options in (("static", ["-static"]), ("static-pie", ["-static-pie"]), ("fixed", ["-no-pie"]), ("dynamic", [])):
        subprocess.run(["gcc", *options, "main.c", "-o", name], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", ["static", "static-pie"])
def test_a_static_program_keeps_its_malloc(programs, name):
    for word in (f"./{name}", str(programs / name)):
        done = run(word, cwd=programs)
        says = f"hakozuna: '{word}' is a static program: it keeps its own malloc, unless it is linked with hakozuna.o\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", says)
    assert run(name, PATH=f"{programs}:{os.environ['PATH']}").stderr.startswith(f"hakozuna: '{name}' is a static program")


def test_a_dynamic_program_has_ours(programs):
    for name in ("dynamic", "fixed"):
        done = run(f"./{name}", cwd=programs)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    for word in ("main.c", "."):  # no program: what the shell says of it
        assert run(f"./{word}", cwd=programs).returncode == 126
    assert run("sh", "-c", "exit 7").returncode == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_set_user_id_program_keeps_its_malloc(programs):
    copy = programs / "elevated"
    shutil.copy(programs / "dynamic", copy)
    copy.chmod(0o4755)
    os.chown(copy, 65534, 65534)
    copy.chmod(0o4755)
    assert run(copy).stderr == f"hakozuna: '{copy}' is a set-user-ID program: it keeps its own malloc\n"


# ---- why -------------------------------------------------------------------------------------------


def test_why_without_hakobench(tmp_path):
    path = folder_with(tmp_path / "bin", "sh", "readlink", "dirname", "sed", "python3", "sort", "seq")
    done = run("why", "--budget", "0.3", "sh", "-c", "seq 1000 | sort >file", PATH=path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.match(r"Under hz3-scale the program is [\d.]+ times as fast as under the C library's malloc \(\d+ pairs? of runs, [\d.]+ to [\d.]+\)", lines[0])
    assert re.fullmatch(r"A run takes [\d.e-]+ s, and [\d.e-]+ s of CPU time\.", lines[1]) and "hakobench" in lines[2]
    assert (tmp_path / "file").read_text().count("\n") == 1000
    found = json.loads(run("why", "--json", "--budget", "0.1", "sh", "-c", ":", PATH=path).stdout)
    assert found["lane"] == "hz3-scale" and found["times_as_fast"] > 0
    assert set(found["pairs"][0]) == {"c_library", "hakozuna"} and set(found["pairs"][0]["hakozuna"]) == {"wall_seconds", "cpu_seconds", "peak_bytes"}
    done = run("why", "none", PATH=path)
    assert (done.returncode, done.stderr) == (2, "hakozuna why: cannot run 'none': No such file or directory\n")
    done = run("why", "sh", "-c", "exit 3", PATH=path)
    assert (done.returncode, done.stderr) == (2, "hakozuna why: 'sh' failed under the C library's malloc: exit code 3\n")
    done = run("why", "--budget", "0", "true", PATH=path)
    assert done.returncode == 2 and "--budget 0: allowed are 0.1 to 86400 seconds" in done.stderr


def test_why_is_hakobenchs_where_that_is(tmp_path):
    path = folder_with(tmp_path / "bin", "sh", "readlink", "dirname", "sed")
    (tmp_path / "bin/hakobench").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "bin/hakobench").chmod(0o755)
    assert run("why", "--budget", "3", "true", "a b", PATH=path).stdout == "why|--budget|3|true|a b|"
    (tmp_path / "bin/python3").symlink_to(os.path.realpath(sys.executable))
    assert "pairs" in json.loads(run("why", "--json", "--budget", "0.1", "true", PATH=f"{path}:/usr/bin:/bin").stdout), "that has no JSON"


# ---- completion ------------------------------------------------------------------------------------

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_hakozuna
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    script = ROOT / "command/completion/hakozuna.bash"
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", str(script), *words], capture_output=True, text=True, check=True, env={"PATH": path}, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_lanes():
    assert set(SUBCOMMANDS) | {"--watch", "--lane"} <= set(completed("hakozuna", ""))
    assert completed("hakozuna", "st") == ["stats"]
    assert completed("hakozuna", "--wa") == ["--watch"]
    for words in (["-l", "hz3-"], ["run", "--lane", "hz3-"], ["path", "-l", "hz3-"]):
        assert completed("hakozuna", *words) == [lane for lane in listed() if lane.startswith("hz3-")]
    assert "redis-server" not in completed("hakozuna", "stats", "") and "--json" in completed("hakozuna", "stats", "")
    assert "bash" in completed("hakozuna", "run", "--watch", "bas"), "a program"
    assert "lanes" not in completed("hakozuna", "run", ""), "no command behind a command"
    assert completed("hakozuna", "run", "cat", "README") == ["README.md"], "a file for the program"


def test_bash_completes_processes_that_can_be_asked(tmp_path):
    service = subprocess.Popen([COMMAND, "--watch", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)})
    try:
        service.stdin.write(b"ready\n")
        service.stdin.flush()
        assert service.stdout.readline() == b"ready\n"
        for command in ("stats", "top", "metrics", "profile"):
            assert str(service.pid) in completed("hakozuna", command, str(service.pid)[0])
        assert str(os.getpid()) not in completed("hakozuna", "stats", "")
    finally:
        service.kill()
        service.communicate()


def test_completion_names_the_options_that_there_are(tmp_path):
    """In both files, and only those."""
    path = folder_with(tmp_path / "bin", "sh", "readlink", "dirname", "python3", "sed", "sort", "tr")
    for name in ("hakozuna.bash", "_hakozuna"):
        text = (ROOT / "command/completion" / name).read_text()
        for command in ("stats", "top", "metrics", "names", "why"):
            (line,) = re.findall(rf"(?m)^ +{command}\) (?:_hakozuna_offer|_arguments)((?:.*\\\n)*.*)", text)
            options = set(re.findall(r"--[a-z-]+", line)) - {"--"}
            helped = set(re.findall(r"(?m)^  (?:-\w(?: [A-Z]+)?, )?(--[a-z-]+)", run(command, "--help", PATH=path).stdout))
            assert options and options <= helped, (name, command)
            assert helped - options <= {"--pid"}, (name, command)


class Zsh:
    """An interactive shell in a terminal of its own, which completes with our file."""

    def __enter__(self):
        environment = {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "TERM": "dumb", "HOME": "/nonexistent"}
        self.number, self.terminal = pty.fork()
        if self.number == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.write(f"PS1= RPS1=; fpath=({ROOT}/command/completion $fpath); autoload -Uz compinit; compinit -u -D; echo READ''Y\n")
        self.read("READY")
        return self

    def __exit__(self, *reason):
        os.kill(self.number, signal.SIGKILL)
        os.waitpid(self.number, 0)
        os.close(self.terminal)

    def write(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def read(self, wanted: str) -> str:
        """Up to the text that is waited for."""
        found = ""
        end = time.monotonic() + TIMEOUT_SECONDS
        while wanted not in found:
            assert time.monotonic() < end and select.select([self.terminal], [], [], TIMEOUT_SECONDS)[0], f"no '{wanted}' in {found!r}"
            found += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\a", "", os.read(self.terminal, 65536).decode(errors="replace"))
        return found


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("hakozuna metr\t", "hakozuna metrics"),
        ("hakozuna stats --part \t", "limits"),
        ("hakozuna -l hz3-p\t", "hundreds of threads on few CPUs"),
        ("hakozuna run --wat\t", "hakozuna run --watch"),
        ("hakozuna -l hz4 readli\t", "hakozuna -l hz4 readlink"),
    ],
)
def test_zsh_completes(typed, wanted):
    with Zsh() as zsh:
        zsh.write(typed)
        zsh.read(wanted)
