"""asm_budget.py on hand-written listings and on a library compiled by the test."""

import pathlib
import shutil
import subprocess

import pytest

import asm_budget
from asm_budget import BudgetError, Cost

TOOL = pathlib.Path(asm_budget.__file__)


def listing(*lines: str, name: str = "malloc", start: int = 0x1000) -> str:
    """An objdump listing with one instruction per four bytes."""
    body = "".join(f"    {start + 4 * i:x}:\t{line}\n" for i, line in enumerate(lines))
    return f"\nlib.so:     file format elf64-x86-64\n\n{start:016x} <{name}>:\n{body}"


def cost(*lines: str) -> Cost:
    instructions, labels = asm_budget.parse_listing(listing(*lines))
    return asm_budget.follow_path(instructions, labels["malloc"])[0]


# malloc from a bin that is an array: class, count, test, decrement, load; the code of the miss follows.
HIT = (
    "lea    -0x1(%rdi),%rax",
    "cmp    $0x7ff,%rax",
    "ja     1030 <malloc+0x30>",
    "shr    $0x4,%rax",
    "mov    %fs:0x10(,%rax,8),%rdx        # 3fd8 <bins>",
    "test   %rdx,%rdx",
    "je     1030 <malloc+0x30>",
    "sub    $0x1,%rdx",
    "mov    %rdx,%fs:0x10(,%rax,8)",
    "mov    (%rcx,%rdx,8),%rax",
    "ret",
    "nop",
    "jmp    2000 <refill>",
)


def test_hit_path_stops_at_first_ret():
    assert cost(*HIT) == Cost(instructions=11, loads=2, stores=1, branches=2, calls=0, locked=0)


def test_branches_are_not_taken():
    assert cost("je     1010 <malloc+0x10>", "ret", "call   2000 <slow>", "call   2000 <slow>", "ret").calls == 0


def test_unconditional_jumps_are_followed():
    text = listing("jmp    2000 <hz_malloc>") + listing("mov    (%rdi),%rax", "ret", name="hz_malloc", start=0x2000)
    instructions, labels = asm_budget.parse_listing(text)
    found, path = asm_budget.follow_path(instructions, labels["malloc"])
    assert found == Cost(instructions=3, loads=1, branches=1)
    assert [i.address for i in path] == [0x1000, 0x2000, 0x2004]


@pytest.mark.parametrize(
    ("line", "loads", "stores"),
    [
        ("mov    %rdi,%rax", 0, 0),
        ("mov    $0x10,%eax", 0, 0),
        ("lea    0x8(%rdi,%rax,4),%rax", 0, 0),
        ("nopw   0x0(%rax,%rax,1)", 0, 0),
        ("prefetcht0 (%rax)", 0, 0),
        ("endbr64", 0, 0),
        ("xchg   %ax,%ax", 0, 0),
        ("mov    (%rdi),%rax", 1, 0),
        ("mov    0x2ca6(%rip),%rsi        # 3fd8 <x>", 1, 0),
        ("mov    %fs:0x0,%rdx", 1, 0),
        ("movzwl (%rdx,%rax,2),%eax", 1, 0),
        ("cmp    %rax,0x8(%rdi)", 1, 0),
        ("testb  $0x1,(%rdi)", 1, 0),
        ("cmpq   $0x0,%fs:0x8", 1, 0),
        ("add    0x8(%rdi),%rax", 1, 0),
        ("imul   0x8(%rdi),%rax", 1, 0),
        ("mull   (%rdi)", 1, 0),
        ("pop    %rbx", 1, 0),
        ("mov    %rax,(%rdi)", 0, 1),
        ("movq   $0x0,0x10(%rdi)", 0, 1),
        ("movups %xmm0,(%rdi)", 0, 1),
        ("sete   (%rdi)", 0, 1),
        ("push   %rbx", 0, 1),
        ("add    %rax,0x8(%rdi)", 1, 1),
        ("incq   (%rdi)", 1, 1),
        ("subl   $0x1,%fs:0xfffffffffffffff8(%rax)", 1, 1),
        ("pushq  0x8(%rdi)", 1, 1),
        ("popcnt %rdi,%rax", 0, 0),
    ],
)
def test_memory_access(line, loads, stores):
    assert cost(line, "ret") == Cost(2, loads, stores)


@pytest.mark.parametrize(
    "line", ["lock cmpxchg %rdx,(%rdi)", "lock xadd %eax,(%rdi)", "lock incl (%rdi)", "xchg   %rax,(%rdi)", "lock orq $0x0,(%rsp)"]
)
def test_locked_operation(line):
    assert cost(line, "ret").locked == 1


def test_calls_are_counted_and_stepped_over():
    found = cost("call   2000 <slow>", "call   *0x2ff0(%rip)        # 3ff0 <slow@got>", "ret")
    assert (found.calls, found.loads, found.instructions) == (2, 1, 3)


def test_prefixes():
    assert cost("notrack je 1000 <malloc>", "repz ret") == Cost(instructions=2, branches=1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("mov    %rdi,%rax",), "the code ends after 0x1000 without ret"),
        (("jmp    1000 <malloc>",), "no ret within 1000 instructions"),
        (("jmp    *0x2ff0(%rip)",), "the path leaves by an indirect jump at 0x1000"),
        (("jmp    5000 <gone>",), "the path reaches 0x5000, where there is no code"),
        (("nop", "ud2"), "the path ends in ud2 at 0x1004"),
    ],
)
def test_path_without_end(lines, message):
    with pytest.raises(BudgetError, match=message.replace("*", r"\*")):
        cost(*lines)


def test_read_budget():
    rows = asm_budget.read_budget("# head\n\nhz3_scale malloc 14 3 2 2 0 0 # why\n", "b.txt")
    assert rows == [asm_budget.Row("hz3_scale", "malloc", Cost(14, 3, 2, 2, 0, 0))]


@pytest.mark.parametrize("line", ["hz3_scale malloc 14", "hz3_scale malloc 14 3 2 2 0 x", "hz3_scale malloc 14 3 2 2 0 -1", "a b 1 2 3 4 5 6 7"])
def test_read_bad_budget(line):
    with pytest.raises(BudgetError, match="b.txt:2: .*want: lane function instructions loads"):
        asm_budget.read_budget(f"#\n{line}\n", "b.txt")


def test_read_empty_budget():
    with pytest.raises(BudgetError, match="no rows"):
        asm_budget.read_budget("# nothing\n", "b.txt")


@pytest.mark.parametrize("column", range(len(asm_budget.COLUMNS)))
def test_over_budget_in_each_column(column):
    allowed = Cost(14, 3, 2, 2, 0, 0)
    worse = Cost(*[value + (i == column) for i, value in enumerate(allowed)])
    [breach] = asm_budget.over_budget(worse, allowed)
    assert breach == f"{asm_budget.COLUMNS[column]} {worse[column]} > {allowed[column]}"
    assert asm_budget.over_budget(allowed, allowed) == []


SOURCE = """
extern int word;
int word;
__attribute__((visibility("default"))) int cheap(int x) { return x + word; }
__attribute__((visibility("default"))) int dear(int x) { return __atomic_add_fetch(&word, x, __ATOMIC_SEQ_CST); }
"""


@pytest.fixture(scope="module")
def libs(tmp_path_factory):
    """A directory with libhakozuna_probe.so, in which `dear` has a locked operation."""
    folder = tmp_path_factory.mktemp("libs")
    source = folder / "probe.c"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", source, "-o", folder / "libhakozuna_probe.so"], check=True)
    return folder


def run_tool(libs, tmp_path, budget):
    file = tmp_path / "budget.txt"
    file.write_text(budget)
    return subprocess.run(["/usr/bin/python3", TOOL, "--libs", libs, file], capture_output=True, text=True)


def test_library_within_budget(libs, tmp_path):
    run = run_tool(libs, tmp_path, "probe cheap 9 9 9 9 0 0\nprobe dear 9 9 9 9 9 1\n")
    assert (run.returncode, run.stderr) == (0, "")
    assert [line.split()[-1] for line in run.stdout.splitlines()] == ["ok", "ok"]


def test_library_over_budget(libs, tmp_path):
    run = run_tool(libs, tmp_path, "probe cheap 9 9 9 9 0 0\nprobe dear 9 9 9 9 0 0\n")
    assert run.returncode == 1
    assert "over budget: locked 1 > 0" in run.stdout
    assert "ret" in run.stdout  # the path is shown


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("probe gone 9 9 9 9 0 0\n", "does not export 'gone'"),
        ("other cheap 9 9 9 9 0 0\n", "libhakozuna_other.so' does not exist"),
        ("probe cheap nine\n", "budget.txt:1: 'probe cheap nine'"),
    ],
)
def test_bad_input(libs, tmp_path, budget, message):
    run = run_tool(libs, tmp_path, budget)
    assert run.returncode == 2
    assert message in run.stderr


def test_file_that_is_not_a_library(libs, tmp_path):
    shutil.copy(libs / "probe.c", libs / "libhakozuna_text.so")
    run = run_tool(libs, tmp_path, "text cheap 9 9 9 9 0 0\n")
    assert run.returncode == 2
    assert "objdump" in run.stderr
