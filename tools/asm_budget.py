#!/usr/bin/env python3
"""Counts the machine instructions on the fast paths of malloc and free and compares them with a budget.

usage: asm_budget.py --libs DIR BUDGET

Each line of BUDGET is `lane function instructions loads stores branches calls locked`, with the allowed
maximums; `#` starts a comment. The library of a lane is DIR/libhakozuna_<lane>.so (x86-64).

The fast path is the path on which no conditional jump is taken: from the function's entry along the
fall-through, through unconditional jumps, to the first `ret`. The code is written so that a hit falls
through; if a compiler lays it out differently, this check notices that too.
"""

import argparse
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

COLUMNS = ("instructions", "loads", "stores", "branches", "calls", "locked")
PATH_LIMIT = 1000  # instructions; a longer path cannot be the fast path

PREFIXES = {"bnd", "notrack", "data16", "rep", "repz", "repnz", "cs", "ds", "lock", "addr32"}
ONLY_READ = ("cmp", "test", "bt ", "ucomi", "comi", "ptest")
NO_ACCESS = ("lea", "nop", "prefetch", "endbr")
# These write their memory operand without reading it first.
ONLY_WRITE = ("mov", "set", "pop", "vmov", "cvt", "stmxcsr", "pextr")
ADDRESS = re.compile(r"^[0-9a-f]+$")
HEADER = re.compile(r"^(?P<address>[0-9a-f]+) <(?P<name>[^>]+)>:$")
LINE = re.compile(r"^ *(?P<address>[0-9a-f]+):\t(?P<text>[^#]*)")


class BudgetError(Exception):
    """A problem with the library, the code or the budget that the user has to fix."""


class Cost(NamedTuple):
    """The cost of one pass through a path; compared column by column."""

    instructions: int = 0
    loads: int = 0
    stores: int = 0
    branches: int = 0
    calls: int = 0
    locked: int = 0

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self, other)))


class Instruction(NamedTuple):
    """One disassembled instruction in AT&T syntax: destination last."""

    address: int
    prefixes: frozenset[str]
    name: str
    operands: tuple[str, ...]

    def target(self) -> int | None:
        """Where a direct jump or call goes; None for an indirect one."""
        word = self.operands[0].split()[0] if self.operands else ""
        return int(word, 16) if ADDRESS.match(word) else None

    @property
    def is_return(self) -> bool:
        return self.name in ("ret", "retq")

    @property
    def is_call(self) -> bool:
        return self.name in ("call", "callq")

    @property
    def is_jump(self) -> bool:
        return self.name in ("jmp", "jmpq")

    @property
    def is_branch(self) -> bool:
        return self.name.startswith("j") or self.name.startswith("loop")


def split_operands(text: str) -> tuple[str, ...]:
    """Splits at commas, except those within an address like 0x8(%rax,%rbx,8)."""
    return tuple(part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip())


def parse_instruction(address: int, text: str) -> Instruction | None:
    words = text.split()
    prefixes = set()
    while words and (words[0] in PREFIXES or words[0].startswith("rex")):
        prefixes.add(words.pop(0))
    if not words:
        return None
    operands = " ".join(words[1:])
    return Instruction(address, frozenset(prefixes), words[0], split_operands(operands))


def parse_listing(listing: str) -> tuple[dict[int, Instruction], dict[str, int]]:
    """Reads the output of `objdump -d --no-show-raw-insn`: instructions by address, and labels by name."""
    instructions, labels = {}, {}
    for line in listing.splitlines():
        header = HEADER.match(line)
        if header:
            labels[header.group("name")] = int(header.group("address"), 16)
            continue
        match = LINE.match(line)
        instruction = parse_instruction(int(match.group("address"), 16), match.group("text")) if match else None
        if instruction:
            instructions[instruction.address] = instruction
    return instructions, labels


def is_memory(operand: str) -> bool:
    """0x8(%rax), (%rax), %fs:0x28 and a bare address are memory; $5 and %rax are not."""
    operand = operand.lstrip("*")
    return "(" in operand or ":" in operand or bool(re.match(r"^(?:0x)?[0-9a-f]+$", operand))


def memory_access(instruction: Instruction) -> tuple[int, int]:
    """(loads, stores) of one instruction, without the return address of call and ret."""
    name, operands = instruction.name, instruction.operands
    if name.startswith(NO_ACCESS) or not operands:
        return 0, 0
    if instruction.is_branch or instruction.is_call:
        return (1 if operands[0].startswith("*") and is_memory(operands[0]) else 0), 0
    loads = sum(is_memory(operand) for operand in operands[:-1])
    stores = 1 if name.startswith("push") else 0
    loads += 1 if name.startswith("pop") and not name.startswith("popcnt") else 0
    if not is_memory(operands[-1]):
        return loads, stores
    if name.startswith("push") or f"{name} ".startswith(ONLY_READ):
        return loads + 1, stores
    if len(operands) == 1 and name.startswith(("mul", "imul", "div", "idiv")):
        return loads + 1, stores
    if name.startswith(ONLY_WRITE):
        return loads, stores + 1
    return loads + 1, stores + 1


def cost_of(instruction: Instruction) -> Cost:
    loads, stores = memory_access(instruction)
    # xchg with a memory operand is locked even without the prefix.
    locked = "lock" in instruction.prefixes or (instruction.name.startswith("xchg") and stores > 0)
    return Cost(1, loads, stores, int(instruction.is_branch), int(instruction.is_call), int(locked))


def follow_path(instructions: dict[int, Instruction], entry: int) -> tuple[Cost, list[Instruction]]:
    """The cost and the instructions of the fall-through path from `entry` to the first ret."""
    order = sorted(instructions)
    following = dict(zip(order, order[1:]))
    cost, path, address = Cost(), [], entry
    while len(path) < PATH_LIMIT:
        instruction = instructions.get(address)
        if instruction is None:
            raise BudgetError(f"the path reaches {address:#x}, where there is no code")
        path.append(instruction)
        cost = cost.plus(cost_of(instruction))
        if instruction.is_return:
            return cost, path
        if instruction.name in ("ud2", "hlt"):
            raise BudgetError(f"the path ends in {instruction.name} at {address:#x}")
        target = following.get(address)
        if instruction.is_jump:
            target = instruction.target()
            if target is None:
                raise BudgetError(f"the path leaves by an indirect jump at {address:#x}")
        if target is None:
            raise BudgetError(f"the code ends after {address:#x} without ret")
        address = target
    raise BudgetError(f"no ret within {PATH_LIMIT} instructions")


class Row(NamedTuple):
    """One line of the budget file."""

    lane: str
    function: str
    allowed: Cost


def read_budget(text: str, name: str) -> list[Row]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 + len(COLUMNS) or not all(word.isdecimal() for word in words[2:]):
            want = "lane function " + " ".join(COLUMNS)
            raise BudgetError(f"{name}:{number}: '{line.strip()}'; want: {want} (numbers from 0)")
        rows.append(Row(words[0], words[1], Cost(*map(int, words[2:]))))
    if not rows:
        raise BudgetError(f"{name}: no rows")
    return rows


def over_budget(cost: Cost, allowed: Cost) -> list[str]:
    return [f"{column} {have} > {most}" for column, have, most in zip(COLUMNS, cost, allowed) if have > most]


def run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise BudgetError(f"{command[0]} is not installed (Debian package binutils)") from error
    except subprocess.CalledProcessError as error:
        raise BudgetError(f"{' '.join(command)}: {error.stderr.strip()}") from error


def exported_symbols(library: pathlib.Path) -> dict[str, int]:
    """Addresses by exported name. The labels of a listing are not enough: of several names of an address they show only one."""
    symbols = {}
    for line in run("nm", "-D", "--defined-only", str(library)).splitlines():
        words = line.split()
        if len(words) == 3:
            symbols[words[2].split("@")[0]] = int(words[0], 16)
    return symbols


def check_library(library: pathlib.Path, rows: list[Row]) -> bool:
    """Prints one line per row, and the path of each row that is over budget. True when all rows are within it."""
    if not library.is_file():
        raise BudgetError(f"'{library}' does not exist; `make libs` builds it")
    listing = run("objdump", "-d", "--no-show-raw-insn", str(library))
    if "elf64-x86-64" not in listing:
        raise BudgetError(f"'{library}' is not x86-64; the budget is for x86-64 only")
    instructions, _ = parse_listing(listing)
    symbols = exported_symbols(library)
    fine = True
    for row in rows:
        if row.function not in symbols:
            raise BudgetError(f"'{library}' does not export '{row.function}'")
        cost, path = follow_path(instructions, symbols[row.function])
        breaches = over_budget(cost, row.allowed)
        verdict = "over budget: " + ", ".join(breaches) if breaches else "ok"
        figures = "  ".join(f"{column} {have}/{most}" for column, have, most in zip(COLUMNS, cost, row.allowed))
        print(f"{row.lane} {row.function:8}  {figures}  {verdict}")
        if breaches:
            fine = False
            for instruction in path[:60]:
                print(f"    {instruction.address:x}  {instruction.name} {', '.join(instruction.operands)}")
    return fine


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Compares the fast paths' machine code with a budget.")
    parser.add_argument("--libs", type=pathlib.Path, required=True, help="directory of the release libraries")
    parser.add_argument("budget", type=pathlib.Path)
    options = parser.parse_args(arguments)
    try:
        rows = read_budget(options.budget.read_text(encoding="utf-8"), str(options.budget))
        lanes = dict.fromkeys(row.lane for row in rows)
        results = [
            check_library(options.libs / f"libhakozuna_{lane}.so", [row for row in rows if row.lane == lane]) for lane in lanes
        ]
    except (BudgetError, OSError) as error:
        print(f"asm_budget: {error}", file=sys.stderr)
        return 2
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
