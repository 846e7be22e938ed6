"""command/top.py on terminals of several sizes: frames are whole, keys work, and processes come, change and go."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import types
from collections.abc import Callable, Iterator

import pytest
import report_parts
import tables
import top
from terminal import Terminal
from test_running import ROOT, SERVICE, TIMEOUT_SECONDS, Service, called, good, stats, watched

TOOL = ROOT / "command/heap_stats.py"
THREADS = """
import threading
stay = threading.Event()
for number in range(30):
    threading.Thread(target=stay.wait, daemon=True).start()
"""
EXECUTES = """
import os, sys
print("ready", flush=True)
sys.stdin.readline()
os.execvp("tail", ["tail", "-f", "/dev/null"])
"""


class Top:
    """`hakozuna top` on a terminal of its own."""

    def __init__(self, size: tuple[int, int], *words: object, **environment: str):
        self.master, slave = pty.openpty()
        self.screen = Terminal(*size)
        self.resize(size)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)

        self.process = subprocess.Popen(
            [sys.executable, TOOL, "top", *map(str, words)], stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal,
            env=kept | {"TERM": "xterm-256color"} | environment,
        )  # fmt: skip
        self.modes = termios.tcgetattr(slave)
        self.slave = slave

    def resize(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, is_seen: Callable[[list[str]], bool]) -> list[str]:
        """Reads on until the screen shows it."""
        while not is_seen(self.screen.lines):
            ready, _, _ = select.select([self.master], [], [], TIMEOUT_SECONDS)
            assert ready, "\n".join(self.screen.lines)
            self.screen.feed(os.read(self.master, 65536))
        return self.screen.lines

    def end(self) -> int:
        """Reads all that is left."""
        os.close(self.slave)
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65536):
                self.screen.feed(data)
        return self.process.wait(TIMEOUT_SECONDS)


@contextlib.contextmanager
def on_terminal(size: tuple[int, int], *words: object, **environment: str) -> Iterator[Top]:
    top = Top(size, *words, **environment)
    try:
        yield top
    finally:
        top.process.kill()
        top.process.wait()
        os.close(top.master)


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    with watched(tmp_path_factory.mktemp("service"), "--watch", "--profile", code=THREADS + SERVICE) as service:
        yield service


@pytest.fixture(params=[True, False], ids=["rich", "plain"])
def library(request, tmp_path) -> dict[str, str]:
    """With rich, and without."""
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich/__init__.py").write_text("raise ImportError\n")
    return {} if request.param else {"PYTHONPATH": str(tmp_path)}


def row_of(lines: list[str], pattern: str) -> int:
    (found,) = [at for at, line in enumerate(lines) if re.match(pattern, line)]
    return found


def is_second(lines: list[str]) -> bool:
    """A frame with rates; its last line is written last."""
    return any("MiB/s" in line for line in lines) and lines[-1].startswith("q quits")


def is_whole(lines: list[str]) -> bool:
    """Of one process. A frame that is drawn over an older one shows parts of both, until all of it is there."""
    return is_second(lines) and all("MiB/s" in line for line in lines[1:6])


# ---- whole -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (60, 12)], ids=str)
def test_a_frame_is_whole(service, library, size):
    with on_terminal(size, service.pid, "--interval", "0.1", **library) as shown:
        lines = shown.until(is_whole)
        assert shown.screen.alternate and shown.screen.lost == []
        assert re.match(rf"hakozuna [0-9.]+, hz3-scale: python3, pid {service.pid}", lines[0])
        assert [line.split()[0] for line in lines[1:6]] == ["live", "cached", "free", "held", "RSS"], "totals come first"
        assert all("MiB/s" in line for line in lines[1:6])
        assert lines[6].startswith("each second: caches refilled ") and lines[-1] == "q quits, p pauses, s sorts: by held"[: size[0]]
        if size[1] >= 24:
            classes, threads = row_of(lines, "classes that hold most"), row_of(lines, "  thread  name")
            assert lines[7] == "" and classes == 8 and lines[threads - 1] == ""
            assert all(title in lines[classes] for title in ("live MiB", "held", "blocks/s", "unused"))
            rows = [lines[classes + 1 : threads - 1], lines[threads + 1 : -1]]
            assert all(re.match(r"(\d+ B|large, up to) ", line) for line in rows[0]) and all(re.match(r" +\d+  python3 ", line) for line in rows[1])
            assert sum(map(len, rows)) == size[1] - 12, "no line is left empty"
            assert (" cached " in lines[classes]) == (size[0] > 80), "what is not needed goes, and nothing is cut off"
        assert "…" not in "".join(lines[1:])
        assert (shown.screen.colours > 0) == (library == {})
        shown.press("q")
        assert shown.end() == 0
        assert not shown.screen.alternate and shown.screen.lost == []


def test_keys(service, library):
    with on_terminal((80, 24), service.pid, "--interval", "0.1", **library) as shown:
        shown.until(is_second)
        assert not termios.tcgetattr(shown.slave)[3] & termios.ICANON, "keys come without Enter"
        for order, title in (("live", "classes with most live bytes"), ("growth", "classes that grow most"), ("held", "classes that hold most")):
            shown.press("s")
            shown.until(lambda lines, order=order, title=title: lines[-1].endswith(f"by {order}") and lines[8].startswith(title))
        shown.press("p")
        paused = shown.until(lambda lines: lines[-1].startswith("q quits, p goes on; PAUSED"))[:6]
        service.grow(5000)
        shown.press("s")
        assert shown.until(lambda lines: lines[-1].endswith("by live"))[:6] == paused
        shown.press("p")
        shown.until(lambda lines: lines[-1].startswith("q quits, p pauses") and lines[1] != paused[1])
        shown.press("\x03")
        modes = shown.modes
        assert shown.process.wait(TIMEOUT_SECONDS) == 130
        assert termios.tcgetattr(shown.slave)[3] == modes[3], "the terminal is as it was"
        shown.end()
        assert not shown.screen.alternate


def test_another_size_of_the_terminal(service, library):
    with on_terminal((80, 24), service.pid, "--interval", "1000", **library) as shown:
        shown.until(lambda lines: lines[-1].startswith("q quits"))
        shown.screen = Terminal(120, 40)
        shown.resize((120, 40))
        lines = shown.until(lambda lines: lines[39].startswith("q quits"))
        assert lines[0].startswith("hakozuna ") and shown.screen.lost == []


def test_sigterm_puts_the_terminal_back(service):
    with on_terminal((80, 24), service.pid, "--interval", "1000") as shown:
        shown.until(lambda lines: lines[-1].startswith("q quits"))
        shown.process.terminate()
        assert shown.process.wait(TIMEOUT_SECONDS) == 128 + signal.SIGTERM
        assert termios.tcgetattr(shown.slave)[3] & termios.ICANON
        shown.end()
        assert not shown.screen.alternate


# ---- several processes, and such that change -------------------------------------------------------


def test_several_processes(tmp_path, library):
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(watched(tmp_path, "--watch")) for _ in range(2))
        second.grow(8000)
        shown = stack.enter_context(on_terminal((100, 30), first.pid, second.pid, "--interval", "0.1", **library))
        lines = shown.until(lambda lines: is_second(lines) and any(line.startswith("hakozuna ") for line in lines))
        assert lines[0].split()[:2] == ["pid", "program"] and lines[1].split()[0] == "all"
        assert [line.split()[0] for line in lines[2:4]] == [str(second.pid), str(first.pid)], "by what they hold"
        live = [float(line.split()[at]) for line, at in zip(lines[1:4], (1, 2, 2))]
        assert live[0] == pytest.approx(live[1] + live[2], abs=0.02)
        assert f"pid {second.pid}" in lines[5] and lines[6].startswith("live ")
        shown.press("n")
        shown.until(lambda lines: f"pid {first.pid}," in lines[5])
        first.process.kill()
        shown.until(lambda lines: lines[0].startswith("hakozuna ") and f"pid {second.pid}," in lines[0])
        assert shown.screen.lost == []
        second.process.kill()
        assert shown.end() == 2
        assert any(f"hakozuna top: process {second.pid} has ended" in line for line in shown.screen.lines)


def test_several_processes_to_a_file(tmp_path):
    with watched(tmp_path, "--watch") as first, watched(tmp_path, "--watch") as second:
        text = good(called("heap_stats.py", "top", first.pid, second.pid, first.pid, "--once", "--interval", "0.1"))
    assert re.search(r"(?m)^ +all +\d", text) and text.count("hakozuna ") == 2 and "\x1b" not in text
    assert all(text.count(f"pid {each.pid}, up") == 1 for each in (first, second))


def test_lines_of_json(tmp_path):
    with watched(tmp_path, "--watch") as first, watched(tmp_path, "--watch") as second:
        text = good(called("heap_stats.py", "top", first.pid, second.pid, "--once", "--interval", "0.1", "--json"))
    reports = [json.loads(line) for line in text.splitlines()]
    assert {each["process"]["pid"] for each in reports} == {first.pid, second.pid}
    for each in reports:
        assert each["problem"] == "" and each["heap"]["live_bytes"] > 0
        assert set(each["per_second"]) == {"live_bytes", "cached_bytes", "free_bytes", "resident_bytes", "rss_bytes"}
        assert all(isinstance(value, (int, float)) for value in each["per_second"].values())


def test_json_on_a_terminal_is_no_screen(service):
    with on_terminal((80, 24), "--json", "--once", "--interval", "0.1", service.pid) as shown:
        assert shown.end() == 0
        assert not shown.screen.alternate and shown.screen.colours == 0


def test_stats_fits_the_terminal(service):
    """And a pipe gets whole lines."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 60, 0, 0))
        order = [sys.executable, ROOT / "command/heap_stats.py", "stats", str(service.pid), "--part", "totals", "--part", "classes"]
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        with subprocess.Popen(order, stdout=slave, stdin=slave, env=environment) as process:
            os.close(slave)
            text = read_all(master)
            assert process.wait(TIMEOUT_SECONDS) == 0
    finally:
        os.close(master)
    body = text.split("\r\n\r\n", 1)[1]
    assert "live" in body and max(map(len, body.split("\r\n"))) <= 60
    whole = good(called("heap_stats.py", "stats", service.pid, "--part", "totals"))
    assert max(map(len, whole.splitlines())) > 100


def read_all(master: int) -> str:
    """Until nobody has the other end."""
    data = b""
    with contextlib.suppress(OSError):
        while part := os.read(master, 1 << 16):
            data += part
    return data.decode()


def test_a_process_that_executes_another_program(tmp_path):
    with watched(tmp_path, "--watch", code=EXECUTES) as service:
        order = [sys.executable, TOOL, "top", str(service.pid), "--interval", "0.05"]
        shown = subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert ": python3, pid" in shown.stdout.readline()
        service.process.stdin.write("\n")
        service.process.stdin.flush()
        for line in shown.stdout:
            if re.match(r"hakozuna .*: tail, pid", line):
                break
        frame = [next(shown.stdout) for _ in range(2)]
        assert frame[1].startswith("live ") and "MiB/s" not in frame[1], "no rate between two programs"
        service.process.kill()
        assert f"hakozuna top: process {service.pid} has ended\n" == shown.communicate(timeout=TIMEOUT_SECONDS)[1]
        assert shown.returncode == 2


def test_no_rate_between_two_programs(tmp_path):
    with watched(tmp_path, "--watch") as service:
        report = json.loads(good(stats(service.pid, "--json")))
    later = copy.deepcopy(report)
    later["process"]["uptime_ms"] += 1000
    assert top.is_same_program(report, later)
    for change in ({"program": "other"},):
        assert not top.is_same_program(report, {**later, "process": later["process"] | change})
    assert not top.is_same_program(report, {**later, "heap": later["heap"] | {"peak_bytes": 1}})
    assert not top.is_same_program(report, {**later, "config": "engine=hz4 lane=default"})


# ---- layout ----------------------------------------------------------------------------------------


def test_every_size_has_a_frame_of_that_size(service):
    """Also with rows that a program of many sizes and threads has, and with a flow between threads."""
    old = json.loads(good(stats(service.pid, "--json")))
    new = copy.deepcopy(old)
    new["process"]["uptime_ms"] += 1000
    new["flow"] = [{"block_bytes": size, "large": 0, "sampled": 1, "freed_blocks": 4, "freed_bytes": 4, "passed_blocks": 2, "passed_bytes": 2,
                    "in_flight_blocks": 1, "in_flight_bytes": 1} for size in range(16, 416, 16)]  # fmt: skip
    new["flow_pairs"] = [{"allocated_by": each, "freed_by": 2**32 - 1, "block_bytes": 16, "blocks": 1, "bytes": 16} for each in range(40)]
    one = types.SimpleNamespace(new=new, old=old, problem="", growth=lambda: 0.0, process=types.SimpleNamespace(number=1))
    other = types.SimpleNamespace(new=new, old=None, problem="it is stopped", growth=lambda: 0.0, process=types.SimpleNamespace(number=2))
    for watched_ones in ([one], [one, other]):
        for width in (1, 20, 40, 79, 80, 120, 300):
            for height in (1, 2, 5, 10, 23, 24, 25, 60, 200):
                lines = top.screen_frame(watched_ones, top.State(), width, height)
                assert len(lines) == height and max(map(len, lines)) <= width, (width, height)
    whole = top.screen_frame([one], top.State(), 120, 200)
    assert sum(line.startswith(("classes ", "  thread ", "blocks that cross", "allocated by")) for line in whole) == 4


def test_columns_that_fit():
    columns = [tables.Column("name", is_text=True), tables.Column("a", order=1), tables.Column("b", order=2), tables.Column("c")]
    rows = [["a long name", "1", "22", "333"]]
    assert tables.lay_out(columns, rows) == ["name         a   b    c", "a long name  1  22  333"]
    assert tables.lay_out(columns, rows, 20) == ["name         a    c", "a long name  1  333"]
    assert tables.lay_out(columns, rows, 17) == ["name           c", "a long name  333"]
    assert tables.lay_out(columns, rows, 10) == ["name     c", "a lo…  333"]
    columns[0] = tables.Column("name", is_text=True, more=", 1 of 2000")
    assert tables.lay_out(columns, rows, 30)[0] == "name, 1 of 2000  a   b    c" and tables.lay_out(columns, rows, 24)[0] == "name         a   b    c"
    assert [tables.whole_parts("a: one, two, three", width) for width in (18, 17, 11, 10, 6, 2, 0)] == ["a: one, two, three", "a: one, two", "a: one, two", "a: one", "a: one", "a", ""]
    assert tables.cut("abc", 2) == "a…" and tables.cut("abc", 0) == ""


def test_rows_are_shared_among_tables():
    assert top.shares([(10, 1), (2, 1)], 8) == [6, 2]
    assert top.shares([(10, 1), (10, 1), (10, 2)], 9) == [3, 2, 2]
    assert top.shares([(1, 1)], 0) == [0]


def test_one_of_something_is_no_plural():
    assert report_parts.counted(1, "thread") == "1 thread" and report_parts.counted(2, "thread") == "2 threads"
