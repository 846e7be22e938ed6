"""HAKOZUNA_LEAKS and hz_leaks_check: blocks that nothing reaches, and none but these."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, Preload, describe, required

pytestmark = pytest.mark.usefixtures("ours_only")

VARIABLE = "HAKOZUNA_LEAKS"
FOUND = re.compile(
    r"^hakozuna: leaks: (\d+) blocks? of (\d+) bytes leaked directly, and (\d+) of (\d+) bytes indirectly; "
    r"(\d+) of (\d+) bytes are live$",
    re.MULTILINE,
)
NONE = re.compile(r"^hakozuna: leaks: none; (\d+) blocks? of \d+ bytes (?:is|are) live$", re.MULTILINE)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("leaky") / "leaky"
    command = [required("c++"), "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*command, str(PROGRAMS / "leaky.cc"), "-o", str(output), "-pthread"], check=True)
    return output


def leaks_in(text: str) -> tuple[int, int]:
    """Direct and indirect leaks of a report, which must be there once."""
    found, none = FOUND.findall(text), NONE.findall(text)
    assert len(found) + len(none) == 1, text
    return (int(found[0][0]), int(found[0][2])) if found else (0, 0)


# ---- what is found -----------------------------------------------------------------------------------

LOST = {"lost_many": (1000, 0), "lost_of_zone": (2, 0), "lost_chain": (1, 3), "lost_ring": (1, 1), "lost_with_tail": (1, 1)}


def wanted_of(name: str) -> tuple[int, int]:
    return LOST.get(name, (1, 0)) if name.startswith("lost_") else (0, 0)


def check_rows(preload: Preload, program: Path, *words: str, **variables: str) -> list[tuple[str, int, int]]:
    # without the variable, threads that have ended are not known: their stacks count
    result = preload.run(program, "check", *words, variables={VARIABLE: "every=80000"} | variables)
    rows = re.findall(r"^(\w+) (-?\d+) (-?\d+)$", result.stdout, re.MULTILINE)
    assert len(rows) == len(result.stdout.splitlines()) > 30, describe(result)  # all are exact
    return [(name, int(direct), int(indirect)) for name, direct, indirect in rows]


def assert_bounds(rows: list[tuple[str, int, int]], least: float) -> None:
    """No more leaks than were made. An old address in a register or in a frame can hide one for a while."""
    direct = indirect = wanted_direct = wanted_indirect = 0
    for name, more_direct, more_indirect in rows:
        direct, indirect = direct + more_direct, indirect + more_indirect
        wanted_direct, wanted_indirect = wanted_direct + wanted_of(name)[0], wanted_indirect + wanted_of(name)[1]
        assert (direct <= wanted_direct, indirect <= wanted_indirect) == (True, True), (name, rows)
    assert direct >= wanted_direct * least, rows


def assert_each(rows: list[tuple[str, int, int]]) -> None:
    """Before other threads run nothing is hidden. A new thread has registers of the one that has started it."""
    alone = [name for name, *_ in rows].index("kept_in_other_stack")
    assert [row for row in rows[:alone] if row[1:] != wanted_of(row[0])] == []
    assert alone > 20
    assert_bounds(rows, 0.99)


def test_each_leak_is_found_and_none_is_invented(preload: Preload, program: Path) -> None:
    assert_each(check_rows(preload, program))


@pytest.mark.parametrize("churning", [1, 3])
def test_none_is_invented_while_threads_allocate(preload: Preload, program: Path, churning: int) -> None:
    """Threads are stopped anywhere."""
    assert_bounds(check_rows(preload, program, str(churning)), 0.97)


@pytest.mark.parametrize("variables", [{"HAKOZUNA_PROFILE": "rate=1,file=/dev/null"}, {"HAKOZUNA_SAMPLE_GUARD": "3"}])
def test_sampled_blocks_leak_alike(preload: Preload, program: Path, variables: dict[str, str]) -> None:
    assert_each(check_rows(preload, program, **variables))


# ---- the variable ------------------------------------------------------------------------------------


def test_nothing_is_said_unless_asked(preload: Preload, program: Path) -> None:
    for variables in ({}, {VARIABLE: "0"}, {VARIABLE: ""}):
        assert preload.run(program, "lose", variables=variables).stderr == ""


def test_at_exit(preload: Preload, program: Path) -> None:
    result = preload.run(program, "lose", variables={VARIABLE: "exit"})
    assert leaks_in(result.stderr) == (3, 4), describe(result)
    assert re.search(r"^  direct: \d+ bytes in 3 blocks of \d+ bytes, not sampled, at 0x[0-9a-f]+ and elsewhere$", result.stderr, re.M)
    assert leaks_in(preload.run(program, "tidy", variables={VARIABLE: "1"}).stderr) == (0, 0)


def test_by_call_stack_when_sampled(preload: Preload, program: Path) -> None:
    result = preload.run(program, "lose", variables={VARIABLE: "exit", "HAKOZUNA_PROFILE": "rate=1,file=/dev/null"})
    groups = re.findall(r"^  (direct|indirect): (\d+) bytes in (\d+) blocks?, allocated by:\n((?:    .*\n)+)", result.stderr, re.M)
    assert sum(int(blocks) for kind, _, blocks, _ in groups if kind == "direct") == 3, describe(result)
    assert all(f"{program}+0x" in stack for *_, stack in groups)


def test_the_status(preload: Preload, program: Path) -> None:
    def status(words: str, *what: str) -> int:
        return preload.run(program, *what, check=False, variables={VARIABLE: words}).returncode

    assert status("exit,status=23", "lose") == 23
    assert status("status=7", "lose") == 7
    assert status("exit", "lose") == 0
    assert status("status=23", "tidy") == 0
    assert status("status=23", "status", "5") == 5
    assert status("status=23", "lose-by-thread") == 23


def test_output_that_waits_is_written(preload: Preload) -> None:
    """The status changes after the C library's handlers and before it writes what is left."""
    code = "import ctypes, sys; ctypes.CDLL(None).malloc(5000) and sys.stdout.write('written')"
    result = preload.run("/usr/bin/python3", "-c", code, variables={VARIABLE: "status=9"}, check=False)
    assert (result.returncode, result.stdout) == (9, "written"), describe(result)


@pytest.mark.parametrize(("words", "wrong"), [("exit,nonsense", "nonsense"), ("status=0", "status=0"), ("status=256", "status=256"), ("json", "json"), ("listen", "listen")])
def test_a_bad_word_is_named_once(preload: Preload, program: Path, words: str, wrong: str) -> None:
    result = preload.run(program, "tidy", variables={VARIABLE: words})
    complaints = [line for line in result.stderr.splitlines() if "allowed are" in line]
    assert len(complaints) == 1 and wrong.removeprefix("status=") in complaints[0], describe(result)


def test_children_stay_silent(preload: Preload, program: Path) -> None:
    result = preload.run(program, "fork", variables={VARIABLE: "exit,status=23"})
    assert (leaks_in(result.stderr), "child 0" in result.stdout) == ((0, 0), True), describe(result)
    result = preload.run("bash", "-c", f"{program} lose; {program} lose; true", variables={VARIABLE: "exit"})
    assert "direct: 216" not in result.stderr and len(FOUND.findall(result.stderr) + NONE.findall(result.stderr)) <= 1
    result = preload.run(program, "fork", variables={VARIABLE: "exit,children"})
    assert len(FOUND.findall(result.stderr)) == 1 and len(NONE.findall(result.stderr)) == 1, describe(result)


def test_to_a_file(preload: Preload, program: Path, tmp_path: Path) -> None:
    preload.run(program, "lose", variables={VARIABLE: f"exit,file={tmp_path}/%e.%p.leaks"})
    (file,) = tmp_path.glob("leaky.*.leaks")
    assert leaks_in(file.read_text()) == (3, 4)


@pytest.mark.parametrize("threads", [1, 100])
def test_exit_in_a_thread_while_others_wait(preload: Preload, program: Path, threads: int) -> None:
    result = preload.run(program, "exit-in-thread", str(threads), check=False, variables={VARIABLE: "status=7"})
    assert (result.returncode, leaks_in(result.stderr)) == (7, (1, 0)), describe(result)


def test_when_a_signal_asks(preload: Preload, program: Path) -> None:
    environment = preload.environment(**{VARIABLE: "signal=USR1"})
    with subprocess.Popen([program, "wait"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert leaks_in(process.stderr.readline()) == (1, 0)
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_debugger_is_in_the_way(preload: Preload, program: Path) -> None:
    result = preload.run(program, "traced")
    assert result.stdout == f"-1 {os.strerror(1)}\n", describe(result)
    (line,) = result.stderr.splitlines()
    assert line.startswith("hakozuna: leaks: not checked: the system does not let us stop the threads: a debugger traces"), line


# ---- real programs -----------------------------------------------------------------------------------

CXX = "template <int N> struct A { static int f(int x) { return A<N - 1>::f(x * N) + x; } };\ntemplate <> struct A<0> { static int f(int x) { return x; } };\nint main() { return A<200>::f(3); }\n"
PYTHON = "import json, re, threading; t = threading.Thread(target=lambda: json.dumps([1] * 1000)); t.start(); t.join(); print(len(re.findall('a', 'banana')))"
PERL = "my %h; $h{$_} = [1 .. 10] for 1 .. 1000; print scalar keys %h"
LUA = "local t = {} for i = 1, 10000 do t[i] = {i, tostring(i)} end print(#t)"
SQL = "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) insert into t select x, hex(x) from c; select count(*), max(b) from t;"


def real_programs(folder: Path) -> dict[str, list[str]]:
    """The ends of programs that free what they have, or still have its address; by the names of what must be installed."""
    source = folder / "program.cc"
    source.write_text(CXX)
    (folder / "text").write_text("".join(f"{i} line\n" for i in range(5000)))
    cc1plus = subprocess.run([required("c++"), "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "bash": ["bash", "-c", 'f() { local a=("$@"); for i in "${a[@]}"; do declare -A m; m[$i]=$i; done; }; f {1..200}; x=$(echo sub); echo "$x"'],
        "/usr/bin/python3": ["/usr/bin/python3", "-c", PYTHON],
        "git": ["git", "-C", str(ROOT), "log", "--oneline", "-5"],
        "sqlite3": ["sqlite3", ":memory:", SQL],
        cc1plus: [cc1plus, "-quiet", "-O2", str(source), "-o", os.devnull],
        "grep": ["grep", "-E", "-c", "(1|2)+ line", str(folder / "text")],
        "sort": ["sort", "-n", "-r", str(folder / "text"), "-o", os.devnull],
        "awk": ["awk", "{ a[$1 % 100] += $1 } END { for (k in a) s += a[k]; print s }", str(folder / "text")],
        "sed": ["sed", "-n", "s/line/LINE/p", str(folder / "text")],
        "tar": ["tar", "-C", str(folder), "-cf", os.devnull, "text"],
        "xz": ["xz", "-kc", "-T2", str(folder / "text")],
        "lua5.4": ["lua5.4", "-e", LUA],
        "node": ["node", "-e", "console.log([1, 2, 3].map((x) => x * 2))"],
        "make": ["make", "-f", os.devnull, "-n", "--eval", "all:;@echo x"],
    }


def sanitizer() -> str | None:
    """LeakSanitizer alone, as a library that can be preloaded."""
    found = subprocess.run([required("c++"), "-print-file-name=liblsan.so"], check=True, capture_output=True, text=True).stdout.strip()
    return os.path.realpath(found) if os.path.isabs(found) and shutil.which("setarch") else None


def sanitizer_count(command: list[str], folder: Path) -> int | None:
    """The leaks that LeakSanitizer finds; None where it does not work. It needs addresses that are not random."""
    library, log = sanitizer(), folder / "lsan"
    if library is None:
        return None
    environment = {**os.environ, "LD_PRELOAD": library, "LSAN_OPTIONS": f"log_path={log}:exitcode=23"}
    done = subprocess.run(["setarch", "-R", *command], env=environment, capture_output=True, check=False, timeout=100)
    texts = [path.read_text(errors="replace") for path in folder.glob("lsan.*")]
    counts = [int(count) for text in texts for count in re.findall(r"leaked in (\d+) allocation", text)]
    return sum(counts) if counts or done.returncode == 0 else None


NAMES = ["bash", "/usr/bin/python3", "git", "sqlite3", "cc1plus", "grep", "sort", "awk", "sed", "tar", "xz", "lua5.4", "node", "make"]


@pytest.mark.parametrize("name", NAMES)
def test_no_leak_is_invented_in_real_programs(preload: Preload, tmp_path: Path, name: str) -> None:
    programs = real_programs(tmp_path)
    command = next(words for key, words in programs.items() if key == name or key.endswith("/" + name))
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} is not installed")
    result = preload.run(*command, variables={VARIABLE: f"exit,file={tmp_path}/%p.leaks"})
    (file,) = tmp_path.glob("*.leaks")
    direct, indirect = leaks_in(file.read_text())
    if direct + indirect > 0:
        others = sanitizer_count(command, tmp_path)
        assert others is not None and direct + indirect <= others, f"LeakSanitizer: {others}\n{file.read_text()}\n{describe(result)}"


def test_redis(preload: Preload, tmp_path: Path) -> None:
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("redis-server is not installed")
    socket, report = tmp_path / "socket", tmp_path / "report"
    environment = preload.environment(**{VARIABLE: f"exit,file={report}"})
    command = [server, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "eady to accept connections" in line:
                break
        client = ["redis-cli", "-s", str(socket)]
        for words in (["set", "a", "x" * 100_000], ["eval", "for i=1,500 do redis.call('rpush', 'l', i) end", "0"], ["shutdown", "nosave"]):
            subprocess.run([*client, *words], check=words[0] != "shutdown", capture_output=True, timeout=60)
        process.stdout.read()
        assert process.wait(60) == 0
    direct, indirect = leaks_in(report.read_text())
    assert direct + indirect == 0, report.read_text()


