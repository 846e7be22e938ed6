"""HAKOZUNA_SAMPLE_GUARD: one allocation in N is guarded, and its misuse is reported with the calls that led to it."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import Preload, compile_c, describe, required

pytestmark = pytest.mark.usefixtures("ours_only")

VARIABLE = "HAKOZUNA_SAMPLE_GUARD"
CALL = re.compile(r"^    (/.*)\+(0x[0-9a-f]+)( \(.*\))?$")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("guarded.c", tmp_path_factory.mktemp("guarded") / "guarded", "-g")


def guarded_of(preload: Preload, program: Path, rate: str | None, threads: int, each: int) -> int:
    variables = {} if rate is None else {VARIABLE: rate}
    return int(preload.run(program, "count", str(threads), str(each), variables=variables).stdout)


# ---- the variable ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [None, "0"])
def test_off_unless_asked_for(preload: Preload, program: Path, rate: str | None) -> None:
    assert guarded_of(preload, program, rate, 2, 100_000) == 0
    variables = {} if rate is None else {VARIABLE: rate}
    result = preload.run(program, "maps", variables=variables)
    assert (result.stderr, "libgcc_s" in result.stdout) == ("", False), describe(result)
    assert pool_mappings(result.stdout) == []


def pool_mappings(maps: str) -> list[str]:
    """Readable pages without a file between two that are not: live blocks of the pool."""
    rows = [re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)", line) for line in maps.splitlines()]
    found = []
    for before, page, behind in zip(rows, rows[1:], rows[2:]):
        beside = [row[3][:3] == "---" and row[4] == "0" for row in (before, behind)]
        small = int(page[2], 16) - int(page[1], 16) <= 16384
        if all(beside) and small and page[3] == "rw-p" and (before[2], page[2]) == (page[1], behind[1]):
            found.append(page[0])
    return found


def test_live_blocks_are_between_guard_pages(preload: Preload, program: Path) -> None:
    result = preload.run(program, "maps", variables={VARIABLE: "1"})
    assert len(pool_mappings(result.stdout)) > 0, result.stdout


@pytest.mark.parametrize(
    "value", ["", "x", "-1", "1.5", " 5", "5 ", "0x10", "1000000001", "18446744073709551617", "9" * 500]
)
def test_a_bad_value_is_named_once(preload: Preload, program: Path, value: str) -> None:
    result = preload.run(program, "count", "2", "100000", variables={VARIABLE: value})
    assert result.stderr == f"hakozuna: {VARIABLE}={value[:80]}: allowed are 0 (off) to 1000000000\n"
    assert result.stdout == "0\n"


@pytest.mark.parametrize(("rate", "threads"), [(1, 1), (50, 1), (50, 4), (1000, 4)])
def test_one_in_n_is_guarded(preload: Preload, program: Path, rate: int, threads: int) -> None:
    each = min(1000 * rate, 400_000)
    expected = threads * each / rate
    slack = 6 * expected**0.5 if rate > 1 else 0
    assert abs(guarded_of(preload, program, str(rate), threads, each) - expected) <= slack


def test_works_in_little_address_space(preload: Preload, program: Path) -> None:
    """The pool takes 5 MiB."""
    command = f"ulimit -v {48 << 10} && exec {shlex.quote(str(program))} count 1 10000"
    result = preload.run("bash", "-c", command, variables={VARIABLE: "10"})
    assert 700 < int(result.stdout) < 1300, describe(result)


# ---- the report ------------------------------------------------------------------------------------


def calls_of(report: str) -> dict[str, list[tuple[str, str]]]:
    """(file, offset) of the calls under each title."""
    calls: dict[str, list[tuple[str, str]]] = {}
    title = ""
    for line in report.splitlines():
        if (found := re.match(r"^  (\w+) (?:by|in) thread (\d+):$", line)) is not None:
            title = found[1]
            calls[title] = []
        elif (call := CALL.match(line)) is not None:
            calls[title].append((call[1], call[2]))
    return calls


def functions_of(calls: list[tuple[str, str]], program: Path) -> list[str]:
    """The program's functions among the calls, by addr2line."""
    offsets = [offset for file, offset in calls if Path(file).resolve() == program.resolve()]
    command = [required("addr2line"), "-f", "-e", str(program), *offsets]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[::2]


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-fomit-frame-pointer", "-O2")], ids=["pie", "no-pie", "O2"])
def test_addr2line_finds_the_calls(preload: Preload, tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = compile_c("guarded.c", tmp_path / "guarded", "-g", *flags)
    result = preload.run(program, "misuse", check=False, variables={VARIABLE: "3"})
    assert result.returncode == -signal.SIGSEGV, describe(result)
    first, second = result.stderr.splitlines()[:2]
    assert re.fullmatch(r"hakozuna: access to a freed block: 0x[0-9a-f]+", first), result.stderr
    assert re.fullmatch(r"  3 bytes inside a freed block of 100 bytes at 0x[0-9a-f]+", second), result.stderr
    calls = calls_of(result.stderr)
    assert list(calls) == ["freed", "allocated", "found"]
    assert functions_of(calls["allocated"], program)[0] == "make_it"
    assert functions_of(calls["freed"], program)[0] == "release_it"
    assert functions_of(calls["found"], program)[0] == "touch_it"
    innermost = [stack[0][0] for title, stack in calls.items() if title != "found"]
    assert all(str(preload.library) != file for file in innermost), "the library's own calls are left out"


@pytest.mark.deep
def test_misuse_without_the_guard_is_not_noticed(preload: Preload, program: Path) -> None:
    """The test above cannot pass by another message."""
    result = preload.run("timeout", "5", program, "misuse", check=False)
    assert "hakozuna" not in result.stderr, describe(result)


def test_a_child_of_a_fork_reports_for_itself(preload: Preload, program: Path) -> None:
    result = preload.run(program, "fork", variables={VARIABLE: "2"})
    assert result.stdout == f"child: signal {int(signal.SIGSEGV)}\nparent: well\n", describe(result)
    assert result.stderr.count("hakozuna: access to a freed block:") == 1


# ---- real programs ---------------------------------------------------------------------------------

PYTHON = """
import concurrent.futures, hashlib, json, subprocess
def work(seed):
    rows = [{"number": i * seed, "text": str(i) * (i % 50)} for i in range(2000)]
    return hashlib.sha256(json.dumps(json.loads(json.dumps(rows))).encode()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(list(pool.map(work, range(16))))
print(subprocess.run(["sort", "-r"], input="a\\nb\\n", capture_output=True, text=True).stdout)
"""


@pytest.mark.parametrize("rate", ["1", "20", "5000"])
def test_python_works_as_without(preload: Preload, rate: str) -> None:
    variables = {VARIABLE: rate, "PYTHONMALLOC": "malloc"}
    plain = preload.run("/usr/bin/python3", "-I", "-c", PYTHON, preload=False)
    result = preload.run("/usr/bin/python3", "-I", "-c", PYTHON, variables=variables, least_processes=2)
    assert (result.stdout, result.stderr) == (plain.stdout, ""), describe(result)


def test_a_compiler_works_as_without(preload: Preload, tmp_path: Path) -> None:
    source = tmp_path / "program.cc"
    source.write_text('#include <map>\n#include <string>\nint main() { return std::map<std::string, int>{{"ab", 1}}["ab"]; }\n')
    for output, used in (("plain.s", False), ("guarded.s", True)):
        command = [required("g++"), "-O1", "-S", source, "-o", tmp_path / output]
        preload.run(*command, preload=used, variables={VARIABLE: "20"}, least_processes=2 if used else 0)
    assert (tmp_path / "plain.s").read_text() == (tmp_path / "guarded.s").read_text()


def test_dlopen(library: Path, tmp_path: Path) -> None:
    program = compile_c("dlopen_host.c", tmp_path / "dlopen_host")
    result = subprocess.run(
        [program, library, "hz_"], env={VARIABLE: "2", "PATH": "/usr/bin"}, capture_output=True, text=True, timeout=120
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
