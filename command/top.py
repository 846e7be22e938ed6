"""`hakozuna top PID...`: asks processes for their figures again and again, and shows what changes. Part of heap_stats.py.

On a terminal a frame fills the screen and never more: totals come first, and tables have as many rows and columns as there is room for.
A process that executes another program stays watched; it may not answer for a moment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable
from dataclasses import dataclass, field

import asking
import report_parts as parts
import running
from tables import Column, cut, lay_out, whole_parts

INTERVAL_SECONDS = 2.0
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen without a cursor, and back
PROCESSES_SHARE = 3  # the table of processes takes at most this share of the screen


class Watched:
    """A process, and the last two reports of the program that it runs."""

    def __init__(self, process: running.Process, arguments: argparse.Namespace):
        self.process, self.arguments = process, arguments
        self.new: dict = {}
        self.old: dict | None = None
        self.problem = ""  # why it has not answered the last time
        self.ask()

    def ask(self) -> None:
        """Raises Refused."""
        answer = asking.ask(self.process, "HAKOZUNA_STATS", self.arguments)
        report = parts.report_of(answer, self.process)
        self.old = self.new if self.new and is_same_program(self.new, report) else None
        self.new, self.problem = report, ""

    def ask_again(self) -> None:
        """As long as the process lives, it may answer the next time: a program that it executes has to start first."""
        try:
            self.ask()
        except running.Refused as error:
            self.problem = "" if self.has_ended else str(error)

    @property
    def has_ended(self) -> bool:
        return self.process.has_ended(0)

    def growth(self) -> float:
        return parts.rate(self.new, self.old, "heap", "live_bytes") or 0.0


def is_same_program(old: dict, new: dict) -> bool:
    """What was given back never falls while a program runs, and the peak hardly: a report adds up what threads change meanwhile."""
    if (old["process"]["program"], old["config"]) != (new["process"]["program"], new["config"]):
        return False
    return 7 * old["heap"]["peak_bytes"] <= 8 * new["heap"]["peak_bytes"] and old["heap"]["purged_bytes"] <= new["heap"]["purged_bytes"]


# ---- a frame ---------------------------------------------------------------------------------------


@dataclass
class State:
    """What keys have changed."""

    order: str = "held"
    is_paused: bool = False
    chosen: int = 0  # the process whose tables are shown: its number, or 0 for the first
    is_json: bool = False  # --json


PROCESS_ORDERS: dict[str, Callable[[Watched], float]] = {
    "held": lambda one: -one.new["heap"]["resident_bytes"],
    "live": lambda one: -one.new["heap"]["live_bytes"],
    "growth": lambda one: -one.growth(),
}


def in_order(watched: list[Watched], state: State) -> list[Watched]:
    return sorted(watched, key=PROCESS_ORDERS[state.order])


def chosen_of(watched: list[Watched], state: State) -> Watched:
    return next((one for one in watched if one.process.number == state.chosen), watched[0])


def processes(watched: list[Watched], room: parts.Room) -> list[str]:
    """A line for each, all together first."""
    keys = (("heap", "live_bytes"), ("heap", "cached_bytes"), ("heap", "free_bytes"), ("heap", "resident_bytes"), ("process", "rss_bytes"))
    sums = [sum(parts.at(one.new, *key) for one in watched) for key in keys]
    cells = [["", "all", *figures_of(sums, sum(one.growth() for one in watched))]]
    for one in watched[: room.rows]:
        name = running.printable(one.new["process"]["program"])
        cells.append([str(one.process.number), name, *figures_of([parts.at(one.new, *key) for key in keys], one.growth())])
    title = Column("program", 15, is_text=True, more=parts.more(len(cells) - 1, watched))
    columns = [Column("pid", 7), title, Column("live MiB", 8), Column("MiB/s", 8), Column("cached", 8, order=2), Column("free", 8, order=3),
               Column("held", 8), Column("RSS", 8, order=1)]  # fmt: skip
    return lay_out(columns, cells, room.width)


def figures_of(numbers: list[int], growth: float) -> list[str]:
    live, *others = map(parts.mib, numbers)
    return [live, parts.signed(growth, parts.MIB, 2), *others]


def shares(needs: list[tuple[int, int]], room: int) -> list[int]:
    """Divides lines among tables, each of which wants so many rows of so many lines: one row after the other."""
    rows = [0] * len(needs)
    while True:
        given = False
        for at, (wanted, lines) in enumerate(needs):
            if rows[at] < wanted and lines <= room:
                rows[at] += 1
                room -= lines
                given = True
        if not given:
            return rows


def tables(new: dict, old: dict | None, state: State, width: int, height: int) -> list[str]:
    """As many as there is room for: with each, a blank line and a line of titles."""
    wanted = [
        (lambda room: parts.classes(new, old, room, state.order), len(parts.held_rows(new)), 1),
        (lambda room: parts.threads(new, old, room), len(new["threads"]), 1),
        (lambda room: parts.flow(new, old, room), max(len(new.get("flow", [])), len(new.get("flow_pairs", []))), 2),
    ]
    wanted = [one for one in wanted if one[1] > 0]
    heads = [2 * lines for _, _, lines in wanted]
    while wanted and sum(heads) + sum(lines for _, _, lines in wanted) > height:  # not even a row of each
        wanted.pop()
        heads.pop()
    rows = shares([(need, lines) for _, need, lines in wanted], height - sum(heads))
    found = []
    for (show, _, _), count in zip(wanted, rows):
        found += ["", *show(parts.Room(width, count))]
    return found


def keys_line(state: State, several: bool) -> str:
    pause = "p goes on; PAUSED" if state.is_paused else "p pauses"
    return f"q quits, {pause}, s sorts: by {state.order}" + (", n shows the next process" if several else "")


def screen_frame(watched: list[Watched], state: State, width: int, height: int) -> list[str]:
    """Exactly as many lines as the screen has, none wider than it."""
    watched = in_order(watched, state)
    one = chosen_of(watched, state)
    lines = []
    if len(watched) > 1:
        lines += [*processes(watched, parts.Room(width, max(height // PROCESSES_SHARE - 2, 1))), ""]
    head = parts.heading(one.new)[0]
    lines += [whole_parts(head, width) or cut(head, width)]
    lines += parts.totals(one.new, one.old, parts.Room(width)) + parts.work(one.new, one.old, parts.Room(width))
    last = [cut(keys_line(state, len(watched) > 1), width)]
    if problem := next((each.problem for each in watched if each.problem), ""):
        last.insert(0, cut(f"no answer: {problem}", width))
    lines += tables(one.new, one.old, state, width, height - len(lines) - len(last))
    lines = lines[: max(height - len(last), 0)]
    return (lines + [""] * (height - len(last) - len(lines)) + last)[-height:]


def plain_frame(watched: list[Watched], state: State) -> list[str]:
    """For a file or a pipe: everything."""
    watched = in_order(watched, state)
    blocks = [processes(watched, parts.FREE)] if len(watched) > 1 else []
    for one in watched:
        new, old = one.new, one.old
        blocks += [parts.heading(new), parts.totals(new, old), parts.work(new, old), parts.classes(new, old, order=state.order),
                   parts.threads(new, old), parts.flow(new, old)]  # fmt: skip
        if one.problem:
            blocks.append([f"no answer: {one.problem}"])
    return parts.joined(blocks)


RATES = {"live_bytes": "heap", "cached_bytes": "heap", "free_bytes": "heap", "resident_bytes": "heap", "rss_bytes": "process"}


def json_line(one: Watched) -> str:
    """The report as the process writes it, and what has changed a second since the one before; null if that is not known."""
    changes = {key: parts.rate(one.new, one.old, group, key) for key, group in RATES.items()}
    return json.dumps({**one.new, "per_second": changes, "problem": one.problem})


# ---- the terminal ----------------------------------------------------------------------------------


@dataclass
class Screen:
    """A terminal: a frame stands where the last one stood. By rich where that is installed, in colours."""

    live: object = None
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    keyboard: int = -1  # standard input, if it is a terminal
    resized: int = -1  # can be read when the terminal has another size

    def __enter__(self) -> Screen:
        with contextlib.suppress(ImportError):
            from rich.live import Live

            self.live = self.stack.enter_context(Live(screen=True, auto_refresh=False))
        if self.live is None:
            self.write(ENTER)
            self.stack.callback(self.write, LEAVE)
        if sys.stdin.isatty():
            self.keyboard = sys.stdin.fileno()
            self.stack.callback(termios.tcsetattr, self.keyboard, termios.TCSADRAIN, termios.tcgetattr(self.keyboard))
            tty.setcbreak(self.keyboard, termios.TCSANOW)
        self.resized, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(self.resized, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # puts the terminal back
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        self.stack.__exit__(*error)

    @staticmethod
    def write(text: str) -> None:
        print(text, end="", flush=True)

    def show(self, lines: list[str]) -> None:
        if self.live is None:
            self.write("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")
            return
        from rich.text import Text

        text = Text("\n".join(lines), no_wrap=True, overflow="crop")
        text.highlight_regex(r"(?m)^(?:hakozuna |classes |blocks that |allocated by| +thread | +pid ).*$", "bold")
        text.highlight_regex(r"(?<= )\+[0-9.]+", "yellow")
        text.highlight_regex(r"(?m)^no answer: .*$|PAUSED", "red")
        self.live.update(text, refresh=True)


def wait(watched: list[Watched], screen: Screen | None, seconds: float) -> str:
    """A key, "ended" if a process has, "resized", or "" when the time is over."""
    waiter = select.poll()
    ours = {} if screen is None else {screen.keyboard: "key", screen.resized: "resized"}
    for descriptor in [*(one.process.descriptor for one in watched), *(each for each in ours if each >= 0)]:
        waiter.register(descriptor, select.POLLIN)
    ready = [descriptor for descriptor, _ in waiter.poll(max(seconds, 0) * 1000)]
    if not ready:
        return ""
    kinds = [ours.get(descriptor, "ended") for descriptor in ready]
    if "resized" in kinds:
        os.read(screen.resized, 4096)
    if "key" in kinds:
        return os.read(screen.keyboard, 1).decode(errors="replace") or "q"  # its end: nobody is there any more
    return kinds[0]


# ---- the command -----------------------------------------------------------------------------------


def press(key: str, watched: list[Watched], state: State) -> None:
    orders = list(parts.ORDERS)
    if key == "s":
        state.order = orders[(orders.index(state.order) + 1) % len(orders)]
    elif key == "p":
        state.is_paused = not state.is_paused
    elif key == "n":
        ordered = in_order(watched, state)
        at = ordered.index(chosen_of(ordered, state))
        state.chosen = ordered[(at + 1) % len(ordered)].process.number


def living(watched: list[Watched]) -> list[Watched]:
    """Raises Refused when none lives."""
    left = [one for one in watched if not one.has_ended]
    if not left:
        raise running.Refused(f"process {watched[-1].process.number} has ended")
    return left


def show(watched: list[Watched], state: State, screen: Screen | None, is_first: bool) -> None:
    if state.is_json:
        print("\n".join(map(json_line, in_order(watched, state))), flush=True)
    elif screen is not None:
        width, height = shutil.get_terminal_size()
        screen.show(screen_frame(watched, state, width, height))
    else:
        print(("" if is_first else "\n") + "\n".join(plain_frame(watched, state)), flush=True)


def follow(watched: list[Watched], state: State, screen: Screen | None, interval: float) -> None:
    """Until a key or the last process ends it. Raises Refused at the latter."""
    next_time = time.monotonic() + interval
    is_first = True
    while True:
        key = wait(watched, screen, next_time - time.monotonic())
        if key == "q":
            return
        watched = living(watched) if key == "ended" else watched
        press(key, watched, state)
        if key == "":
            next_time = time.monotonic() + interval
            for one in [] if state.is_paused else watched:
                one.ask_again()
            watched = living(watched)
        if screen is not None or key == "":
            show(watched, state, screen, is_first)
            is_first = False


def run(arguments: argparse.Namespace) -> None:
    state = State(arguments.sort, is_json=arguments.json)
    with contextlib.ExitStack() as stack:
        watched = [Watched(stack.enter_context(running.Process(pid)), arguments) for pid in dict.fromkeys(arguments.pid)]
        if arguments.once:
            wait(watched, None, arguments.interval)
            for one in watched:
                one.ask()
            show(watched, state, None, is_first=True)
            return
        screen = stack.enter_context(Screen()) if sys.stdout.isatty() and not state.is_json else None
        if screen is not None:
            show(watched, state, screen, is_first=True)
        follow(watched, state, screen, arguments.interval)
