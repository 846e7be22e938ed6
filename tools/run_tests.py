#!/usr/bin/env python3
"""Runs the steps of `make test` or `make test-deep` one after the other, and says what it does and what is left.

usage: tools/run_tests.py TARGET [STEP ...]    the steps of TARGET (test, test-deep), or only those named
       tools/run_tests.py TARGET --always      the steps of TARGET that do not wait for a change
       tools/run_tests.py --list               all steps, with the seconds that each takes
       tools/run_tests.py --times              how long each step of the last runs took
       tools/run_tests.py --record             write these times into tests/steps.txt, from which "left" is reckoned

A step is a line of tests/steps.txt: some targets of the Makefile. What it prints goes to build/logs/STEP.log. When a step
fails, the tests that failed and the end of the log are shown, and the next step starts, so that one run finds as much as it
can; only without the packages and the Python environment of the first step nothing else starts. The last line is the result.

A line `if-changed TARGET STEP: PATH ...` says what a step tests. TARGET leaves the step out when no file below these paths differs
from the commit at which the work left the upstream branch (else origin/main, else main), or if it has not left it, from the commit
before the last. The step runs when it is named, and when git cannot say.

exit code: 0 when all passed, 1 when a step failed, 2 for a bad argument, 128 and the signal's number when one ended the run.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple, NoReturn

TARGETS = ("test", "test-deep")
FIRST = "setup"  # no other step can do without it; it may ask for a password
STEP_LINE = re.compile(r"(?P<target>\S+) +(?P<name>[a-z0-9-]+) +(?P<seconds>\d+) +(?P<make>[a-z0-9 -]+?) *: *(?P<what>\S.*)")
CONDITION_LINE = re.compile(r"if-changed +(?P<target>\S+) +(?P<name>[a-z0-9-]+) *: *(?P<paths>\S.*)")
TIMES_LINE = re.compile(r"(?P<name>\S+) (?P<seconds>\d+) (?P<result>passed|FAILED|stopped)")
UPSTREAMS = ("@{upstream}", "origin/main", "main")
TERMINAL_SECONDS = 1.0  # from one line about the progress to the next
LOG_SECONDS = 60.0  # the same when nobody looks at a terminal
PACE_MIN = 0.5  # steps that find everything built do not make those faster that run tests
OVERDUE_SHARE = 0.1  # of the time that a step has taken, when it takes longer than expected
TAIL_LINES = 40
GRACE_SECONDS = 10.0  # how long a step that was interrupted may clean up
# The counters of ninja, ctest and pytest, and what the Makefile says: the newest tells how far a step is.
PROGRESS = re.compile(r"^== (?P<said>.*)$|^\[(?P<built>\d+/\d+)\]|^ *(?P<ran>\d+/\d+) Test +#|\[ *(?P<percent>\d+%)\]$", re.MULTILINE)
CTEST_RESULT = re.compile(r"^\d+% tests passed, (\d+) tests failed out of (\d+)$", re.MULTILINE)
PYTEST_RESULT = re.compile(r"^=*.*\b\d+ (?:passed|failed|skipped|errors?)\b.* in [\d.]+s\b.*$", re.MULTILINE)
FAILED_TEST = re.compile(r"^\t *\d+ - (?P<ctest>\S+) \(|^(?:FAILED|ERROR) (?P<pytest>\S+::.*?)(?: - .*)?$|^FAILED: (?P<built>\S+)", re.MULTILINE)

FAILED_OUTPUT = re.compile(r"^(?P<line> *\d+/\d+ Test +#(?!.*Disabled).*\*\*\*.*)\n(?P<output>(?:(?! *\d+/\d+ Test +#| +Start +\d+:|\d+% tests passed).*\n)*)", re.MULTILINE)


class Step(NamedTuple):
    """A line of tests/steps.txt."""

    target: str
    name: str
    seconds: int  # that it takes on two cores, from a fresh clone
    make: list[str]
    what: str
    paths: tuple[str, ...] = ()  # with any, the step runs only when a file below them has changed


class Result(NamedTuple):
    """How a step ended."""

    name: str
    seconds: float
    result: str  # passed, FAILED or stopped


class Signals:
    """Wakes the run when a step has ended, and when a signal asks it to stop."""

    def __init__(self) -> None:
        self.stopped = 0  # the signal's number
        self.read_end, write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the default would wake nobody
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # which nohup wants
                signal.signal(number, self.stop)

    def stop(self, number: int, frame: object) -> None:
        del frame
        self.stopped = self.stopped or number

    def wait(self, seconds: float) -> bool:
        """Whether a signal came before the time was over."""
        if not select.select([self.read_end], [], [], seconds)[0]:
            return False
        os.read(self.read_end, 4096)
        return True


def refuse(text: str) -> NoReturn:
    print(f"run_tests.py: {text}", file=sys.stderr)
    raise SystemExit(2)


def read_steps(root: pathlib.Path) -> list[Step]:
    path = root / "tests/steps.txt"
    steps: list[Step] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        condition = CONDITION_LINE.fullmatch(line)
        if condition:
            steps = with_condition(root, steps, number, **condition.groupdict())
            continue
        found = STEP_LINE.fullmatch(line)
        if not found or found["target"] not in TARGETS:
            refuse(f"tests/steps.txt:{number}: '{line}'; want TARGET STEP SECONDS MAKE-TARGETS: WHAT, with a target of {', '.join(TARGETS)}")
        step = Step(found["target"], found["name"], int(found["seconds"]), found["make"].split(), found["what"])
        if any((step.target, step.name) == (other.target, other.name) for other in steps):
            refuse(f"tests/steps.txt:{number}: a second step '{step.name}' of {step.target}")
        steps.append(step)
    return steps


def with_condition(root: pathlib.Path, steps: list[Step], number: int, target: str, name: str, paths: str) -> list[Step]:
    """The steps, of which one got its paths."""
    if (target, name) not in {(step.target, step.name) for step in steps}:
        refuse(f"tests/steps.txt:{number}: no step '{name}' of {target} before this line")
    missing = [path for path in paths.split() if not (root / path).exists()]
    if missing:
        refuse(f"tests/steps.txt:{number}: no file or folder '{missing[0]}'")
    return [step._replace(paths=tuple(paths.split())) if (step.target, step.name) == (target, name) else step for step in steps]


class Changes(NamedTuple):
    """What differs from an earlier commit: in later commits, in the index, in the files, new files included."""

    commit: str
    files: frozenset[str]


def git(root: pathlib.Path, *words: str) -> str:
    """Raises CalledProcessError or OSError."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


def base_commit(root: pathlib.Path) -> str:
    """The commit to compare with. Raises CalledProcessError or OSError."""
    head = git(root, "rev-parse", "HEAD").strip()
    for upstream in UPSTREAMS:
        with contextlib.suppress(subprocess.CalledProcessError):
            base = git(root, "merge-base", "HEAD", upstream).strip()
            if base != head:
                return base
            break
    return git(root, "rev-parse", "--verify", "HEAD~1").strip()


def changes(root: pathlib.Path) -> Changes | None:
    """None when git cannot say: no git, no repository, or a clone without the commit to compare with."""
    try:
        base = base_commit(root)
        listed = git(root, "diff", "--name-only", "--no-renames", "-z", base) + git(root, "ls-files", "--others", "--exclude-standard", "-z")
    except (OSError, subprocess.CalledProcessError):
        return None
    return Changes(base, frozenset(listed.split("\0")) - {""})


def is_changed(step: Step, found: Changes | None) -> bool:
    if found is None or not step.paths:
        return True
    return any(file == path or file.startswith(f"{path}/") for file in found.files for path in step.paths)


def clock(seconds: float) -> str:
    """75 -> 1:15"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress_of(log: pathlib.Path) -> str:
    """What the newest counter in a log says, or nothing."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        found = list(PROGRESS.finditer(file.read().decode(errors="replace")))
    if not found:
        return ""
    kind = found[-1].lastgroup
    word = {"said": "", "built": "building ", "ran": "test ", "percent": "tests "}[kind]
    return f"{word}{found[-1][kind]}"


def count_tests(text: str) -> collections.Counter:
    """How many tests have passed and how many were skipped, as ctest and pytest say."""
    counts: collections.Counter = collections.Counter()
    for failed, ran in CTEST_RESULT.findall(text):
        counts["passed"] += int(ran) - int(failed)
    for line in PYTEST_RESULT.findall(text):
        for number, kind in re.findall(r"\b(\d+) (passed|skipped)\b", line):
            counts[kind] += int(number)
    return counts


def failed_tests(text: str) -> list[str]:
    """The tests, or the files that do not compile."""
    return list(dict.fromkeys(found[found.lastgroup] for found in FAILED_TEST.finditer(text)))


def outputs_of_failed(text: str) -> list[str]:
    """What the tests printed that failed under ctest, which may stand far above the end; of each the last lines."""
    kept = []
    for found in FAILED_OUTPUT.finditer(text):
        lines = found["output"].rstrip().splitlines()
        kept += [found["line"], *lines[-TAIL_LINES:]]
    return kept


class Run:
    """One run of a target's steps."""

    def __init__(self, root: pathlib.Path, target: str, steps: list[Step]):
        self.target = target
        self.steps = steps
        self.logs = root / "build/logs"
        self.root = root
        self.signals = Signals()
        self.start = time.monotonic()
        self.results: list[Result] = []
        self.counts: collections.Counter = collections.Counter()

    def left(self, index: int, in_step: float) -> float:
        """Expected seconds to the end, from the steps' times, and from how fast this machine was until now."""
        done = sum(step.seconds for step in self.steps[:index])
        taken = sum(result.seconds for result in self.results)
        pace = max(taken / done, PACE_MIN) if done >= 30 else 1.0
        current = max(self.steps[index].seconds * pace - in_step, in_step * OVERDUE_SHARE)
        return current + pace * sum(step.seconds for step in self.steps[index + 1 :])

    def say_left(self, index: int, in_step: float) -> str:
        names = ", ".join(step.name for step in self.steps[index + 1 :])
        after = f": {names}" if names else ""
        return f"elapsed {clock(time.monotonic() - self.start)}, left about {clock(self.left(index, in_step))}{after}"

    def watch(self, index: int, process: subprocess.Popen, log: pathlib.Path) -> int:
        """Waits for a step, and says now and then how far it is."""
        terminal = sys.stdout.isatty()
        begin = time.monotonic()
        while process.poll() is None and not self.signals.stopped:
            if self.signals.wait(TERMINAL_SECONDS if terminal else LOG_SECONDS):
                continue
            in_step = time.monotonic() - begin
            line = f"      {self.steps[index].name} {clock(in_step)} {progress_of(log)}  ({self.say_left(index, in_step)})"
            if terminal:
                print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
            else:
                print(line, flush=True)
        if terminal:
            print("\r\033[K", end="", flush=True)
        return process.poll()

    def run_step(self, index: int) -> str:
        step = self.steps[index]
        log = self.logs / f"{step.name}.log"
        # The step that may ask for a password keeps the terminal. Any other has a process group of its own, so that a
        # signal reaches all that it started.
        own_group = step.name != FIRST
        with log.open("w") as out:
            process = subprocess.Popen(
                ["make", "--no-print-directory", *step.make],
                cwd=self.root, stdin=subprocess.DEVNULL if own_group else None, stdout=out, stderr=subprocess.STDOUT, start_new_session=own_group,
            )  # fmt: skip
        status = self.watch(index, process, log)
        if self.signals.stopped:
            end(process, own_group)
            return "stopped"
        text = log.read_text(errors="replace")
        self.counts += count_tests(text)
        if status == 0:
            return "passed"
        self.show_failure(step, text)
        return "FAILED"

    def show_failure(self, step: Step, text: str) -> None:
        outputs = outputs_of_failed(text)
        if outputs:
            print(f"----- from build/logs/{step.name}.log", *outputs, sep="\n")
        print(f"----- the end of build/logs/{step.name}.log", *text.splitlines()[-TAIL_LINES:], "-----", sep="\n")
        for name in failed_tests(text):
            print(f"failed: {name}")
        print(f"{step.name} FAILED; again: make {' '.join(step.make)}", flush=True)

    def run(self) -> int:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.write_times()  # those of an earlier run go
        for index, step in enumerate(self.steps):
            print(f"[{index + 1}/{len(self.steps)}] {step.name}: {step.what}  ({self.say_left(index, 0)})", flush=True)
            begin = time.monotonic()
            result = self.run_step(index)
            self.results.append(Result(step.name, time.monotonic() - begin, result))
            self.write_times()
            if self.signals.stopped:
                print(f"make {self.target}: stopped in {step.name} after {clock(time.monotonic() - self.start)} (build/logs/{step.name}.log)")
                return 128 + self.signals.stopped
            if result == "FAILED" and step.name == FIRST:
                break
        return self.conclude()

    def conclude(self) -> int:
        failed = [f"{result.name} (build/logs/{result.name}.log)" for result in self.results if result.result == "FAILED"]
        if failed:
            print(f"make {self.target}: FAILED: {', '.join(failed)}")
            return 1
        skipped = f", {self.counts['skipped']} skipped," if self.counts["skipped"] else ""
        print(f"make {self.target}: {self.counts['passed']} tests passed{skipped} in {clock(time.monotonic() - self.start)}")
        return 0

    def write_times(self) -> None:
        lines = [f"{name} {round(seconds)} {result}\n" for name, seconds, result in self.results]
        times_of(self.root, self.target).write_text("".join(lines))


def end(process: subprocess.Popen, own_group: bool) -> None:
    """Ends an interrupted step: first as Ctrl-C does, then harder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            if own_group:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
            break
    if own_group:  # what make has left behind
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def times_of(root: pathlib.Path, target: str) -> pathlib.Path:
    return root / f"build/logs/{target}.times"


def read_times(root: pathlib.Path, target: str) -> list[Result]:
    path = times_of(root, target)
    found = [TIMES_LINE.fullmatch(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Result(line["name"], int(line["seconds"]), line["result"]) for line in found if line]


def print_times(root: pathlib.Path) -> None:
    rows = [(target, *result) for target in TARGETS for result in read_times(root, target)]
    if not rows:
        refuse("no times in build/logs; `make test` writes them")
    for target in TARGETS:
        seconds = [row[2] for row in rows if row[0] == target]
        if seconds:
            rows.append((target, "all", sum(seconds), ""))
    print(f"{'target':<10} {'step':<16} seconds")
    for target, name, seconds, result in rows:
        print(f"{target:<10} {name:<16} {seconds:>7}{'' if result in ('passed', '') else f'  {result}'}")


def record_times(root: pathlib.Path) -> None:
    """Only steps that passed: a failure may have ended one early."""
    taken = {(target, result.name): round(result.seconds) for target in TARGETS for result in read_times(root, target) if result.result == "passed"}
    if not taken:
        refuse("no times of steps that passed in build/logs; `make test` writes them")
    path = root / "tests/steps.txt"
    lines = path.read_text().splitlines(keepends=True)
    for place, line in enumerate(lines):
        found = STEP_LINE.fullmatch(line.rstrip("\n"))
        if found and (found["target"], found["name"]) in taken:
            width = found.end("seconds") - found.start("seconds")
            seconds = f"{taken[found['target'], found['name']]:<{width}}"
            lines[place] = line[: found.start("seconds")] + seconds + line[found.end("seconds") :]
    path.write_text("".join(lines))


def choose(steps: list[Step], target: str, names: list[str]) -> list[Step]:
    of_target = [step for step in steps if step.target == target]
    for name in names:
        if name not in {step.name for step in of_target}:
            refuse(f"unknown step '{name}' of {target}; allowed: {', '.join(step.name for step in of_target)}")
    return [step for step in of_target if not names or step.name in names]


def leave_out(root: pathlib.Path, steps: list[Step]) -> list[Step]:
    """The steps without those for which nothing has changed; these are named."""
    found = changes(root)
    left_out = [step for step in steps if not is_changed(step, found)]
    for step in left_out:
        print(f"{step.name} is left out: nothing that it tests differs from commit {found.commit[:7]}; `make {TARGETS[1]}` runs these tests", flush=True)
    return [step for step in steps if step not in left_out]


def main(arguments: list[str]) -> int:
    root = pathlib.Path(__file__).resolve().parents[1]
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
    elif arguments == ["--times"]:
        print_times(root)
    elif arguments == ["--record"]:
        record_times(root)
    elif arguments == ["--list"]:
        for step in read_steps(root):
            print(f"{step.target:<10} {step.name:<16} {step.seconds:>5} s  {step.what}{', if changed' if step.paths else ''}")
    elif arguments and arguments[0] in TARGETS:
        if arguments[1:] == ["--always"]:
            steps = [step for step in choose(read_steps(root), arguments[0], []) if not step.paths]
            return Run(root, arguments[0], steps).run()
        steps = choose(read_steps(root), arguments[0], arguments[1:])
        return Run(root, arguments[0], steps if arguments[1:] else leave_out(root, steps)).run()
    else:
        refuse(f"unknown target '{' '.join(arguments)}'; allowed: {', '.join(TARGETS)}, --list, --times, --record")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
