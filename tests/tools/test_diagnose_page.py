"""docs/diagnose.md: each of its commands runs, and prints the lines that the page shows, with other numbers."""

import os
import pathlib
import re
import subprocess

import pytest

from hakobench.drivers import app
from hakobench.project import BIN_DIR

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/diagnose.md").read_text()
MARK = "@@ next command @@"
TIMEOUT_SECONDS = 120
NO_PROGRAM = app.missing_program(app.MEASURE_CHILD, BIN_DIR) or app.missing_program("pipeline", BIN_DIR)
pytestmark = pytest.mark.skipif(NO_PROGRAM != "", reason=NO_PROGRAM)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?ms)^```{re.escape(kind)}\n(.*?)^```$", PAGE)


def commands() -> list[tuple[str, list[str]]]:
    """Each command, and the lines that the page shows of its output."""
    found = []
    for block in blocks("console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line != "...":
                found[-1][1].append(line)
    return found


def shape(line: str) -> str:
    """A line without its numbers, and what is said in place of a number."""
    line = re.sub(r"\b(sample|block|stack trace|thread)s\b", r"\1", line)
    line = re.sub(r" ±[\d.]+ %", "", line)
    line = re.sub(r"less than (?=[\d.]+ %)|about (?=[\d.]+ %)|\(\d+ pairs, [^)]*\)", "", line)
    return re.sub(r"[+-]?\d[\d.]*(?:e[+-]\d+)?", "N", " ".join(line.split()))


OFTEN = "HAKOZUNA_PROFILE=listen,children,rate=4096 hakozuna run --watch"


def script() -> str:
    """All commands in their order. The machine may be busy, and the answer need not be exact. Samples are taken so often that
    chance leaves nothing out that the page shows."""
    setup = [line[2:].replace("hakozuna run --watch --profile", OFTEN) for block in blocks("console setup") for line in block.splitlines()]
    lines = ["trap 'kill $(jobs -p)' EXIT", *setup]
    # the signal's handler is there, and the folder of `run`
    lines += [f"until hakozuna stats ${name} >/dev/null 2>&1; do sleep 0.05; done" for name in ("REDIS", "SERVICE", "PIPELINE")]
    for command, _ in commands():
        lines += [f"echo '{MARK}'", command.replace("hakozuna why --budget 10", "hakozuna why --force --budget 1")]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("diagnose")
    (code,) = blocks("python service.py")
    (folder / "service.py").write_text(code)
    (folder / "bin").mkdir()
    (folder / "bin/hakobench").write_text(f"#!/bin/sh\nexec {ROOT}/.venv/bin/python -m hakobench \"$@\"\n")
    (folder / "bin/hakobench").chmod(0o755)
    path = f"{folder}/bin:{ROOT}/build/bin:{BIN_DIR}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(ROOT / "hakobench/src")}
    with (folder / "errors").open("w+") as errors:
        done = subprocess.run(["bash", "-c", script()], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)  # fmt: skip
        errors.seek(0)
        found = done.stdout.split(f"{MARK}\n")[1:]
        assert len(found) == len(commands()), done.stdout + errors.read()
        return found


@pytest.mark.parametrize("number", range(len(commands())), ids=lambda number: commands()[number][0])
def test_a_command_prints_what_the_page_shows(outputs, number):
    printed = {shape(line) for line in outputs[number].splitlines()}
    missing = [line for line in commands()[number][1] if shape(line) not in printed]
    assert missing == [], outputs[number]


def test_there_are_ten_questions():
    assert re.findall(r"(?m)^## (\d+)\.", PAGE) == [str(number) for number in range(1, 11)]
    assert len(commands()) == 12 and all(lines for _, lines in commands())


def test_a_line_that_is_gone_is_noticed():
    assert shape("held   48.98   100.0 %  peak") == shape("held 1.00 9 % peak")
    assert shape("held 1.0 peak") != shape("held 1.0 most") and shape("3072 B +476") == shape("16 B 0")
