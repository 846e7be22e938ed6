#!/usr/bin/env python3
"""Shows what a process keeps in its heap: `hakozuna stats PID`, `hakozuna top PID` and `hakozuna stats --core FILE` (docs/diagnose.md).

`stats` lets the process write one report; `top` does so again and again, and shows what has changed in between. The figures are
those of docs/formats/stats-schema.json. What a report does not have comes from /proc: the rest of the process's memory, and its limits.
Of a process that has ended, `stats` reads the core file (heap_core.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import heap_core
import asking
import running

MIB = 1 << 20
ROWS = 10
INTERVAL_SECONDS = 2.0
PARTS = ("totals", "sizes", "classes", "threads", "flow", "process", "limits")
CORE_PARTS = ("totals", "sizes", "classes", "largest", "threads")
NEAR_LIMIT = 0.9
OTHER_THREADS = 2**32 - 1
NO_FLOW = "flow: no block has crossed threads, or none was counted: start the process by 'hakozuna run --watch --profile', or under a build with statistics"
NO_LIMIT = 1 << 60  # a version 1 control group without a limit has a number near 2^63


# ---- reports ---------------------------------------------------------------------------------------


def report_of(answer: running.Answer, process: running.Process) -> dict:
    """The newest report of the process in an answer. Raises Refused."""
    if answer.words.format != "json":
        raise running.Refused(
            f"process {process.number} writes reports as {answer.words.format}, not as json: {running.advice(answer.words.variable)}"
        )
    for line in reversed(answer.data.splitlines()):
        with contextlib.suppress(ValueError):
            report = json.loads(line)
            if report["process"]["pid"] == process.inner_number:
                return report
    raise running.Refused(f"{answer.words.file}: no whole report of process {process.number}")


def rate(new: dict, old: dict | None, *keys: object) -> float | None:
    """How much a figure has changed a second; None without an older report."""
    if old is None:
        return None
    milliseconds = new["process"].get("uptime_ms", 0) - old["process"].get("uptime_ms", 0)
    return (at(new, *keys) - at(old, *keys)) * 1000 / milliseconds if milliseconds > 0 else None


def at(report: object, *keys: object) -> int:
    for key in keys:
        report = report.get(key, 0) if isinstance(report, dict) else 0
    return report if isinstance(report, int) else 0


def mib(value: float) -> str:
    return f"{value / MIB:.2f}"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"


def signed(value: float | None, unit: float = 1.0, digits: int = 0) -> str:
    """Empty when it is not known."""
    if value is None:
        return ""
    text = f"{value / unit:+.{digits}f}"
    return text if float(text) else "0"


def printable(text: str) -> str:
    """A program can give a thread any name, also one that commands a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


# ---- parts of a frame ------------------------------------------------------------------------------


def heading(report: dict) -> list[str]:
    engine, lane = (re.search(rf"(?:^| ){key}=(\S+)", report["config"]) for key in ("engine", "lane"))
    about = report["process"]
    text = f"hakozuna {report['version']}, {engine[1] if engine else '?'} {lane[1] if lane else '?'}: {printable(about['program'])}, pid {about['pid']}"
    if "uptime_ms" in about:
        seconds = about["uptime_ms"] // 1000
        text += f", up {seconds // 86400} d {seconds // 3600 % 24}:{seconds // 60 % 60:02}:{seconds % 60:02}, {about['threads']} threads"
    return [text]


def totals(new: dict, old: dict | None) -> list[str]:
    heap, rest, about = new["heap"], new["rest"], new["process"]
    held = heap["resident_bytes"]
    whole = sum(row["held_bytes"] for row in new["ranges"] if row["name"] == "free pages")
    waiting = sum(at(rest, f"{name}_bytes") for name in ("stash", "carry", "page_lists", "waiting"))
    live = ", ".join(f"{row['name']} {mib(row['live_bytes'])}" for row in new["ranges"] if row["live_bytes"] or row["name"] in ("small", "medium"))
    rows = [
        ("live", "live_bytes", f"in use by the program: {live}"),
        ("resting", "cached_bytes", f"freed, kept for reuse: in threads' bins {mib(rest['bins_bytes'])}, in remote buffers {mib(rest['remote_bytes'])}, "
         f"on the way home {mib(waiting)}, in the depot {mib(rest['depot_bytes'])}"),
        ("free", "free_bytes", f"in pages that hold blocks {mib(heap['free_bytes'] - whole)}, whole pages {mib(whole)}; "
         f"given back since the start {mib(heap['purged_bytes'])}"),
        ("held", "resident_bytes", f"peak {mib(heap['peak_bytes'])}; a trim gives back at most {mib(heap['cached_bytes'] + heap['free_bytes'])}"),
    ]  # fmt: skip
    lines = [f"{'':10}{'MiB':>10}{'':>10}" + (f"{'MiB/s':>9}" if old else "")]
    for name, key, what in rows:
        change = f"{signed(rate(new, old, 'heap', key), MIB, 2):>9}" if old else ""
        lines.append(f"{name:10}{mib(heap[key]):>10}{percent(heap[key], held):>10}{change}  {what}")
    if "rss_bytes" in about:
        change = f"{signed(rate(new, old, 'process', 'rss_bytes'), MIB, 2):>9}" if old else ""
        of_heap = about.get("heap_rss_bytes")  # a process under a filter of system calls does not ask the kernel
        share = "" if of_heap is None else f"  of it heap {mib(of_heap)} ({percent(of_heap, about['rss_bytes'])})"
        lines.append(f"{'RSS':10}{mib(about['rss_bytes']):>10}{'':>10}{change}{share}")
    return lines


def work(new: dict, old: dict | None) -> list[str]:
    """What the threads do with the tiers behind their bins. Hits in bins are not counted, so this is no count of all calls."""
    if old is None:
        return []
    names = {"refill": "bins refilled", "flush": "bins flushed", "page_create": "pages made", "page_retire": "pages retired",
             "large_alloc": "blocks of no class allocated", "large_free": "freed"}  # fmt: skip
    return ["each second: " + ", ".join(f"{text} {rate(new, old, 'counters', key) or 0:.0f}" for key, text in names.items())]


def sizes(new: dict, _old: dict | None) -> list[str]:
    lines = [f"{'sizes':24}{'live MiB':>10}{'resting':>10}{'free':>10}{'held':>10}{'blocks':>11}"]
    for row in new["ranges"]:
        if row["name"] in ("guarded", "profiled") and not row["held_bytes"]:
            continue
        up = f", up to {size(row['up_to_bytes'])}" if row["up_to_bytes"] else ""
        numbers = "".join(f"{mib(row[key]):>10}" for key in ("live_bytes", "resting_bytes", "free_bytes", "held_bytes"))
        lines.append(f"{row['name'] + up:24}{numbers}{row['live_blocks']:>11}")
    return lines


def size(value: int) -> str:
    for unit, text in ((MIB, "MiB"), (1024, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value // unit} {text}"
    return f"{value} B"


@dataclass(frozen=True)
class Held:
    """A class, or a range of large blocks, in bytes."""

    name: str
    live: int
    resting: int
    free: int
    held: int
    blocks: int


def held_rows(report: dict) -> list[Held]:
    rows = []
    for one in report["classes"]:
        block = one["block_bytes"]
        rows.append(Held(f"{block} B", one["live"] * block, one["cached"] * block, one["free_bytes"], one["held_bytes"], one["live"]))
    for one in report["large"]:
        rows.append(Held(f"large, up to {size(one['up_to_bytes'])}", one["live_bytes"], 0, 0, one["live_bytes"], one["live_blocks"]))
    return sorted(rows, key=lambda row: -row.held)


def classes(new: dict, old: dict | None) -> list[str]:
    before = {row.name: row.blocks for row in held_rows(old)} if old else {}
    change = f"{'blocks/s':>10}" if old else ""
    lines = [f"{'classes that hold most':24}{'live MiB':>10}{'resting':>10}{'free':>10}{'held':>10}{'blocks':>11}{change}{'unused':>10}"]
    milliseconds = new["process"].get("uptime_ms", 0) - old["process"].get("uptime_ms", 0) if old else 0
    rows = held_rows(new)
    for row in rows[:ROWS]:
        speed = (row.blocks - before.get(row.name, 0)) * 1000 / milliseconds if milliseconds > 0 else None
        change = f"{signed(speed):>10}" if old else ""
        numbers = "".join(f"{mib(value):>10}" for value in (row.live, row.resting, row.free, row.held))
        lines.append(f"{row.name:24}{numbers}{row.blocks:>11}{change}{percent(row.held - row.live, row.held):>10}")
    return lines + ([f"and {len(rows) - ROWS} others"] if len(rows) > ROWS else [])


def threads(new: dict, old: dict | None) -> list[str]:
    before = {(one["number"], one["thread_id"]): one for one in old["threads"]} if old else {}
    change = f"{'refills/s':>11}{'flushes/s':>11}" if old else ""
    lines = [f"{'thread':>8}  {'name':16}{'in bins MiB':>12}{'in buffer':>11}{change}{'shard':>7}"]
    rows = sorted(new["threads"], key=lambda one: -(one["bins_bytes"] + one["remote_bytes"]))
    milliseconds = new["process"].get("uptime_ms", 0) - old["process"].get("uptime_ms", 0) if old else 0
    for one in rows[:ROWS]:
        change = ""
        if old:
            known = before.get((one["number"], one["thread_id"]), {}) if milliseconds > 0 else {}
            change = "".join(f"{signed((one[key] - known[key]) * 1000 / milliseconds) if known else '':>11}" for key in ("refill", "flush"))
        parked = "  parked" if one["parked"] else ""
        lines.append(f"{one['thread_id']:>8}  {printable(one['name']):16}{mib(one['bins_bytes']):>12}{mib(one['remote_bytes']):>11}"
                     f"{change}{one['shard']:>7}{parked}")  # fmt: skip
    return lines + ([f"and {len(rows) - ROWS} others"] if len(rows) > ROWS else [])


def thread_title(number: int, names: dict[int, str]) -> str:
    if number == OTHER_THREADS:
        return "others"
    return f"{number} {printable(names.get(number, ''))}".strip()


def flow(new: dict, old: dict | None) -> list[str]:
    """Blocks that one thread has allocated and another freed: by size and by pair of threads. Rates are for the time between
    the two reports, or, with one report, since the start."""
    rows = new.get("flow", [])
    if not rows:
        return []
    before = {(row["block_bytes"], row["large"]): row for row in old.get("flow", [])} if old else {}
    milliseconds = new["process"].get("uptime_ms", 0) - (old["process"].get("uptime_ms", 0) if old else 0)
    seconds = milliseconds / 1000 if milliseconds > 0 else 0.0

    def speed(value: int, known: int) -> float:
        return (value - known) / seconds if seconds else 0.0

    shown = []
    for row in rows:
        known = before.get((row["block_bytes"], row["large"]), {})
        speeds = [speed(row[key], known.get(key, 0)) for key in ("passed_bytes", "passed_blocks")]
        shown.append((*speeds, row))
    lines = [f"{'blocks that cross threads':24}{'MiB/s':>10}{'blocks/s':>11}{'in flight':>11}{'MiB':>10}{'of its frees':>14}"
             f"{'  (estimates)' if rows[0]['sampled'] else ''}"]  # fmt: skip
    for bytes_a_second, blocks_a_second, row in sorted(shown, key=lambda each: (-each[0], -each[2]["passed_bytes"]))[:ROWS]:
        name = f"large, up to {size(row['block_bytes'])}" if row["large"] else f"{row['block_bytes']} B"
        lines.append(f"{name:24}{mib(bytes_a_second):>10}{blocks_a_second:>11.0f}{row['in_flight_blocks']:>11}{mib(row['in_flight_bytes']):>10}"
                     f"{percent(row['passed_blocks'], max(row['freed_blocks'], row['passed_blocks'])):>14}")  # fmt: skip
    if len(rows) > ROWS:
        lines.append(f"and {len(rows) - ROWS} others")
    return lines + flow_pairs(new, old, speed)


def flow_pairs(new: dict, old: dict | None, speed: Callable[[int, int], float]) -> list[str]:
    names = {one["thread_id"]: one["name"] for one in new["threads"]}
    known = {pair_of(row): row for row in old.get("flow_pairs", [])} if old else {}
    shown = []
    for row in new.get("flow_pairs", []):
        before = known.get(pair_of(row), {})
        shown.append((*(speed(row[key], before.get(key, 0)) for key in ("bytes", "blocks")), row))
    lines = ["", f"{'allocated by':24}{'freed by':24}{'block':>8}{'MiB/s':>10}{'blocks/s':>11}"]
    for bytes_a_second, blocks_a_second, row in sorted(shown, key=lambda each: (-each[0], -each[2]["bytes"]))[:ROWS]:
        block = size(row["block_bytes"]) if row["block_bytes"] else "any"
        lines.append(f"{thread_title(row['allocated_by'], names):24}{thread_title(row['freed_by'], names):24}{block:>8}"
                     f"{mib(bytes_a_second):>10}{blocks_a_second:>11.0f}")  # fmt: skip
    return lines + ([f"and {len(shown) - ROWS} others"] if len(shown) > ROWS else [])


def pair_of(row: dict) -> tuple[int, int, int]:
    return row["allocated_by"], row["freed_by"], row["block_bytes"]


# ---- what /proc knows ------------------------------------------------------------------------------


def kib(status: dict[str, str], key: str) -> int:
    return int(status.get(key, "0 kB").split()[0]) * 1024


def process_part(process: running.Process, report: dict) -> list[str]:
    """What the process's resident memory consists of."""
    status = process.look()
    rss, tables = kib(status, "VmRSS"), at(report, "counters", "meta_bytes")
    known = report["process"].get("heap_rss_bytes")  # not in a process under a filter of system calls
    heap, most = (report["heap"]["resident_bytes"], "at most ") if known is None else (known, "")
    files, shared, anonymous = (kib(status, f"Rss{name}") for name in ("File", "Shmem", "Anon"))
    rows = [
        ("RSS", rss, f"peak {mib(kib(status, 'VmHWM'))}; swapped out {mib(kib(status, 'VmSwap'))}"),
        ("of hakozuna", min(heap + tables, rss), f"blocks and free pages {most}{mib(heap)}, its tables at most {mib(tables)}"),
        ("files", files, "programs and libraries, and files that are mapped"),
        ("shared", shared, "shared memory"),
        ("the rest", max(0, anonymous - heap - tables), "stacks, data of libraries, and what the program maps itself"),
    ]
    lines = [f"{'process':16}{'MiB':>10}"]
    return lines + [f"{name:16}{mib(value):>10}{percent(value, rss):>10}  {what}" for name, value, what in rows]


def control_groups(process: running.Process) -> list[pathlib.Path]:
    """Folders of the memory control group of the process and of those above it."""
    found = []
    with contextlib.suppress(OSError):
        for line in (process.folder / "cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds in ("", "memory"):
                top = pathlib.Path("/sys/fs/cgroup", kinds)
                below = top / path.lstrip("/")
                found += [folder for folder in (below, *below.parents) if folder.is_relative_to(top)]
    return found


def number_in(path: pathlib.Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def limits_of(process: running.Process) -> list[tuple[str, int, int]]:
    """The limits of memory that are in force: name, used, allowed."""
    status = process.look()
    found = []
    for line in process.read("limits").splitlines()[1:]:
        name, soft = line[:26].strip(), line[26:47].strip()
        used = {"Max address space": "VmSize", "Max data size": "VmData", "Max locked memory": "VmLck"}.get(name)
        if used is not None and soft.isdigit() and (used != "VmLck" or kib(status, used)):
            found.append((name, kib(status, used), int(soft)))
    for folder in control_groups(process):
        for limit, used in (("memory.max", "memory.current"), ("memory.high", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            allowed, now = number_in(folder / limit), number_in(folder / used)
            if allowed is not None and now is not None and allowed < NO_LIMIT:
                found.append((f"control group, {limit}", now, allowed))
    with contextlib.suppress(OSError, AttributeError):
        text = pathlib.Path("/proc/meminfo").read_text()
        total, free = (int(re.search(rf"{key}: *(\d+) kB", text)[1]) * 1024 for key in ("MemTotal", "MemAvailable"))
        found.append(("memory of the machine", total - free, total))
    return found


def limits_part(process: running.Process, _report: dict) -> list[str]:
    lines = [f"{'limits':36}{'used MiB':>12}{'limit MiB':>12}"]
    for name, used, allowed in limits_of(process):
        near = "  near" if used >= NEAR_LIMIT * allowed else ""
        lines.append(f"{name:36}{mib(used):>12}{mib(allowed):>12}{percent(used, allowed):>10}{near}")
    return lines


# ---- what a core file knows ------------------------------------------------------------------------


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def core_heading(report: dict) -> list[str]:
    core = report["core"]
    how = f", by {signal_name(core['signal'])}" if core["signal"] else ""
    lines = [*heading(report), f"from the core file '{printable(core['file'])}'{how}, with {core['threads']} threads"]
    if core["unsure"]:
        lines.append("not everything is certain, since the process stopped in the middle of something, or its memory is not whole:")
        lines += [f"  {text}" for text in core["unsure"]]
    return lines


def largest(new: dict, _old: dict | None) -> list[str]:
    lines = [f"{'largest blocks':24}{'MiB':>10}{'bytes':>16}"]
    return lines + [f"{row['address']:<#24x}{mib(row['bytes']):>10}{row['bytes']:>16}" for row in new["largest"]]


# ---- commands --------------------------------------------------------------------------------------

SHOWN = {"totals": totals, "sizes": sizes, "classes": classes, "largest": largest, "threads": threads, "flow": flow}
LOOKED_UP = {"process": process_part, "limits": limits_part}


def whole_report(process: running.Process, report: dict, parts: list[str]) -> list[str]:
    blocks = [heading(report)]
    for part in parts:
        blocks.append(SHOWN[part](report, None) if part in SHOWN else LOOKED_UP[part](process, report))
        if part == "flow" and not blocks[-1]:
            blocks[-1] = [NO_FLOW]
    return joined(blocks)


def joined(blocks: list[list[str]]) -> list[str]:
    return [line.rstrip() for line in "\n\n".join("\n".join(block) for block in blocks if block).split("\n")]


def frame(new: dict, old: dict | None) -> list[str]:
    return joined([heading(new), totals(new, old), work(new, old), classes(new, old), threads(new, old), flow(new, old)])


def core_stats(arguments: argparse.Namespace) -> None:
    for part in arguments.part or ():
        if part not in CORE_PARTS:
            raise running.Refused(f"--part {part}: a core file does not say; it has {', '.join(CORE_PARTS)}")
    reports = [heap.report(arguments.largest) for heap in heap_core.heaps(arguments.core)]
    if arguments.json:
        print("\n".join(json.dumps(report) for report in reports))
        return
    shown = [joined([core_heading(report), *(SHOWN[part](report, None) for part in arguments.part or CORE_PARTS)]) for report in reports]
    print("\n\n".join("\n".join(lines) for lines in shown))


def stats(arguments: argparse.Namespace) -> None:
    if arguments.core is not None:
        core_stats(arguments)
        return
    with running.Process(arguments.pid) as process:
        if "largest" in (arguments.part or ()):
            raise running.Refused("--part largest: only a core file says which blocks are the largest")
        answer = asking.ask(process, "HAKOZUNA_STATS", arguments)
        if answer.words.format != "json" and not (arguments.json or arguments.part):
            print("\n".join(printable(line) for line in answer.data.decode(errors="replace").splitlines()))
            return
        report = report_of(answer, process)
        print(json.dumps(report) if arguments.json else "\n".join(whole_report(process, report, arguments.part or list(PARTS))))


class View:
    """Where the frames of `top` go: one over the other on a terminal, else one below the other."""

    def __init__(self, stack: contextlib.ExitStack):
        self.live = None
        self.is_terminal = sys.stdout.isatty()
        self.is_first = True
        if self.is_terminal:
            with contextlib.suppress(ImportError):
                from rich.live import Live

                self.live = stack.enter_context(Live(screen=True, auto_refresh=False))

    def show(self, lines: list[str]) -> None:
        if self.live is not None:
            from rich.text import Text

            text = Text("\n".join(lines), no_wrap=True, overflow="crop")
            text.highlight_regex(r"(?m)^(?:hakozuna|classes that|  thread ).*$", "bold")
            self.live.update(text, refresh=True)
        else:
            before = "\x1b[H\x1b[2J" if self.is_terminal else "" if self.is_first else "\n"
            print(before + "\n".join(lines), flush=True)
        self.is_first = False


def top(arguments: argparse.Namespace) -> None:
    def ask() -> dict:
        return report_of(asking.ask(process, "HAKOZUNA_STATS", arguments), process)

    with contextlib.ExitStack() as stack:
        process = stack.enter_context(running.Process(arguments.pid))
        old = ask()
        view = View(stack)
        if not arguments.once and view.is_terminal:
            view.show(frame(old, None))
        while True:
            if process.has_ended(arguments.interval):
                raise running.Refused(f"process {process.number} has ended")
            new = ask()
            view.show(frame(new, old))
            if arguments.once:
                return
            old = new


def seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"'{text}': allowed are 0.05 to 86400 seconds")
    return value


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="hakozuna", description="Shows what a process keeps in its heap.")
    commands = whole.add_subparsers(dest="command", required=True)
    pid_help = "of a process that `hakozuna run --watch` or HAKOZUNA_STATS has started"
    common = argparse.ArgumentParser(add_help=False)
    asking.add_signal_option(common)
    common.add_argument("--words", help="with --signal: the value of HAKOZUNA_STATS, for a program that overwrites its environment")
    common.add_argument("--wait", type=seconds, default=running.WAIT_SECONDS, metavar="SECONDS", help="for an answer; default: %(default)g")
    one = commands.add_parser("stats", parents=[common], help="print one report, of a running process or of a core file")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("pid", type=int, nargs="?", metavar="PID", help=pid_help)
    what.add_argument("--core", metavar="FILE", help="a core file, as the kernel, gcore or gdb's generate-core-file writes it")
    one.add_argument("--largest", type=int, default=ROWS, metavar="COUNT", help="of a core file: so many of the largest blocks; default: %(default)d")
    one.add_argument("--json", action="store_true", help="the report as the process writes it (docs/formats/stats-schema.json)")
    one.add_argument("--part", action="append", choices=(*PARTS, "largest"), help="only this part; may be given several times")
    live = commands.add_parser("top", parents=[common], help="show reports again and again, and what changes")
    live.add_argument("pid", type=int, metavar="PID", help=pid_help)
    live.add_argument("--interval", type=seconds, default=INTERVAL_SECONDS, metavar="SECONDS", help="default: %(default)g")
    live.add_argument("--once", action="store_true", help="print one frame, from two reports, and end")
    return whole


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    try:
        {"stats": stats, "top": top}[arguments.command](arguments)
        sys.stdout.flush()
    except running.Refused as error:
        print(f"hakozuna {arguments.command}: {error}", file=sys.stderr)
        return 1 if isinstance(error, running.NoAnswer) else 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
