"""What people read of a report (docs/formats/stats-schema.json), part by part, with what has changed since an older one; and what /proc
knows besides: the rest of the process's memory, and its limits. Used by heap_stats.py, top.py and metrics.py."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

import running
from tables import Column, cut, lay_out, whole_parts

MIB = 1 << 20
ROWS = 10
NEAR_LIMIT = 0.9
OTHER_THREADS = 2**32 - 1
NO_FLOW = "flow: no block was freed by another thread, or none was counted: start the process by 'hakozuna run --watch --profile', or under a build with statistics"
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


# ---- parts of a frame ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """How wide a part may be, and how many rows its table may have. Without a number everything is shown."""

    width: int | None = None
    rows: int = ROWS


FREE = Room()


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def lane_of(report: dict) -> str:
    """The lane's name, as `hakozuna -l` takes it."""
    engine, lane = (re.search(rf"(?:^| ){key}=(\S+)", report["config"]) for key in ("engine", "lane"))
    if engine is None or lane is None:
        return "?"
    return engine[1] if lane[1] == "default" else f"{engine[1]}-{lane[1]}"


def uptime(report: dict) -> str:
    seconds = report["process"]["uptime_ms"] // 1000
    return f"{seconds // 86400} d {seconds // 3600 % 24}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def heading(report: dict) -> list[str]:
    about = report["process"]
    text = f"hakozuna {report['version']}, {lane_of(report)}: {running.printable(about['program'])}, pid {about['pid']}"
    if "uptime_ms" in about:
        text += f", up {uptime(report)}, {counted(about['threads'], 'thread')}"
    return [text]


def situation(report: dict) -> list[str]:
    """Whether the keeper runs, and the soft limit: as in the library's own report."""
    about = report["process"]
    if "keeper" not in about:
        return []
    advice = f"; {about['keeper_advice']}" if about.get("keeper_advice") else ""
    limit = f"{about['soft_limit_bytes'] >> 20} MiB" if about["soft_limit_bytes"] else "none"
    return [f"keeper: {about['keeper']}{advice}", f"soft limit: {limit}, {about['soft_limit_source']}"]


def totals(new: dict, old: dict | None, room: Room = FREE) -> list[str]:
    heap, rest, about = new["heap"], new["rest"], new["process"]
    held = heap["resident_bytes"]
    whole = sum(row["held_bytes"] for row in new["ranges"] if row["name"] == "free pages")
    waiting = sum(at(rest, f"{name}_bytes") for name in ("stash", "carry", "page_lists", "waiting"))
    live = ", ".join(f"{row['name']} {mib(row['live_bytes'])}" for row in new["ranges"] if row["live_bytes"] or row["name"] in ("small", "medium"))
    rows = [
        ("live", "live_bytes", f"in use by the program: {live}"),
        ("cached", "cached_bytes", f"freed, kept for reuse: in thread caches {mib(rest['bins_bytes'])}, in remote buffers {mib(rest['remote_bytes'])}, "
         f"on the way to pages {mib(waiting)}, in the depot {mib(rest['depot_bytes'])}"),
        ("free", "free_bytes", f"in pages that hold blocks {mib(heap['free_bytes'] - whole)}, whole pages {mib(whole)}; "
         f"returned to the system so far {mib(heap['purged_bytes'])}"),
        ("held", "resident_bytes", f"peak {mib(heap['peak_bytes'])}; a trim returns at most {mib(heap['cached_bytes'] + heap['free_bytes'])}"),
    ]  # fmt: skip
    lines = []
    for name, key, what in rows:
        lines.append((f"{name:8}{mib(heap[key]):>10} MiB {percent(heap[key], held):>7}{speed(new, old, 'heap', key)}", what))
    if "rss_bytes" in about:
        of_heap = about.get("heap_rss_bytes")  # a process under a filter of system calls does not ask the kernel
        share = "" if of_heap is None else f"of it heap {mib(of_heap)} ({percent(of_heap, about['rss_bytes'])})"
        lines.append((f"{'RSS':8}{mib(about['rss_bytes']):>10} MiB {'':7}{speed(new, old, 'process', 'rss_bytes')}", share))
    return [cut(f"{figures}  {whole_parts(what, None if room.width is None else room.width - len(figures) - 2)}".rstrip(), room.width) for figures, what in lines]


def speed(new: dict, old: dict | None, *keys: object) -> str:
    """Of bytes, as a column; empty without an older report."""
    return f"  {signed(rate(new, old, *keys), MIB, 2):>8} MiB/s" if old else ""


def work(new: dict, old: dict | None, room: Room = FREE) -> list[str]:
    """What the threads do with the tiers behind their bins. Hits in bins are not counted, so this is no count of all calls."""
    if old is None:
        return []
    names = {"refill": "caches refilled", "flush": "caches flushed", "page_create": "pages made", "page_retire": "pages freed",
             "large_alloc": "large blocks allocated", "large_free": "freed"}  # fmt: skip
    text = "each second: " + ", ".join(f"{text} {rate(new, old, 'counters', key) or 0:.0f}" for key, text in names.items())
    return [whole_parts(text, room.width)]


SIZE_COLUMNS = [Column("live MiB", 8), Column("cached", 8, order=4), Column("free", 8, order=5), Column("held", 8), Column("blocks", 9, order=2)]
UNUSED = Column("unused", 7, order=3)


def sizes(new: dict, _old: dict | None, room: Room = FREE) -> list[str]:
    keys = ("live_bytes", "resting_bytes", "free_bytes", "held_bytes")
    rows, all_of_them = [], [0] * 5
    for row in new["ranges"]:
        numbers = [*(row[key] for key in keys), row["live_blocks"]]
        all_of_them = [a + b for a, b in zip(all_of_them, numbers)]
        if row["name"] in ("guarded", "profiled") and not row["held_bytes"]:
            continue
        up = f", up to {size(row['up_to_bytes'])}" if row["up_to_bytes"] else ""
        rows.append(size_cells(row["name"] + up, numbers))
    rows.append(size_cells("all", all_of_them))
    return lay_out([Column("sizes", 22, is_text=True), *SIZE_COLUMNS, UNUSED], rows, room.width)


def size_cells(name: str, numbers: list[int]) -> list[str]:
    live, held, blocks = numbers[0], numbers[3], numbers[4]
    return [name, *map(mib, numbers[:4]), str(blocks), percent(held - live, held)]


def size(value: int) -> str:
    for unit, text in ((MIB, "MiB"), (1024, "KiB")):
        if value >= unit and value % unit == 0:
            return f"{value // unit} {text}"
    return f"{value} B"


@dataclass(frozen=True)
class Held:
    """A class, or a range of large blocks, in bytes. `growth` is a second, None if it is not known."""

    name: str
    live: int
    resting: int
    free: int
    held: int
    blocks: int
    growth: float | None = None


def held_rows(report: dict) -> list[Held]:
    rows = []
    for one in report["classes"]:
        block = one["block_bytes"]
        rows.append(Held(f"{block} B", one["live"] * block, one["cached"] * block, one["free_bytes"], one["held_bytes"], one["live"]))
    for one in report["large"]:
        rows.append(Held(f"large, up to {size(one['up_to_bytes'])}", one["live_bytes"], 0, 0, one["live_bytes"], one["live_blocks"]))
    return rows


def seconds_between(new: dict, old: dict | None) -> float:
    """0 if the time is not known."""
    return max(new["process"].get("uptime_ms", 0) - old["process"].get("uptime_ms", 0), 0) / 1000 if old else 0.0


ORDERS = {
    "held": ("that hold most", lambda row: -row.held),
    "live": ("with most live bytes", lambda row: -row.live),
    "growth": ("that grow most", lambda row: -(row.growth or 0.0)),
}


def more(shown: int, rows: list) -> str:
    """Behind a title, where not all rows are shown."""
    return f", {shown} of {len(rows)}" if len(rows) > shown else ""


def classes(new: dict, old: dict | None, room: Room = FREE, order: str = "held") -> list[str]:
    before = {row.name: row for row in held_rows(old)} if old else {}
    time = seconds_between(new, old)
    rows = []
    for row in held_rows(new):
        known = before.get(row.name)
        grown = row.live - (known.live if known else 0)
        rows.append(replace(row, growth=grown / time if time > 0 else None))
    rows.sort(key=ORDERS[order][1])
    cells = []
    for row in rows[: room.rows]:
        known = before.get(row.name)
        blocks = [signed((row.blocks - (known.blocks if known else 0)) / time) if time > 0 else ""] if old else []
        name, *numbers, unused = size_cells(row.name, [row.live, row.resting, row.free, row.held, row.blocks])
        cells.append([name, *numbers, *blocks, unused])
    title = Column(f"classes {ORDERS[order][0]}", 22, is_text=True, more=more(len(cells), rows))
    change = [Column("blocks/s", 8)] if old else []
    return lay_out([title, *SIZE_COLUMNS, *change, UNUSED], cells, room.width)


def threads(new: dict, old: dict | None, room: Room = FREE) -> list[str]:
    before = {(one["number"], one["thread_id"]): one for one in old["threads"]} if old else {}
    time = seconds_between(new, old)
    rows = sorted(new["threads"], key=lambda one: -(one["bins_bytes"] + one["remote_bytes"]))
    cells = []
    for one in rows[: room.rows]:
        known = before.get((one["number"], one["thread_id"]), {}) if time > 0 else {}
        changes = [signed((one[key] - known[key]) / time) if known else "" for key in ("refill", "flush")] if old else []
        cells.append([str(one["thread_id"]), running.printable(one["name"]), mib(one["bins_bytes"]), mib(one["remote_bytes"]), *changes, str(one["shard"]),
                      "parked" if one["parked"] else ""])  # fmt: skip
    changes = [Column("refills/s", 9, order=2), Column("flushes/s", 9, order=3)] if old else []
    columns = [Column("thread", 8), Column("name", 15, is_text=True, more=more(len(cells), rows)), Column("cached MiB", 11), Column("in buffer", 9),
               *changes, Column("shard", 5, order=1), Column("", 6, is_text=True)]  # fmt: skip
    return lay_out(columns, cells, room.width)


def thread_title(number: int, names: dict[int, str]) -> str:
    if number == OTHER_THREADS:
        return "others"
    return f"{number} {running.printable(names.get(number, ''))}".strip()


def flow(new: dict, old: dict | None, room: Room = FREE) -> list[str]:
    """Blocks that one thread has allocated and another freed: by size and by pair of threads. Rates are for the time between
    the two reports, or, with one report, since the start."""
    rows = new.get("flow", [])
    if not rows:
        return []
    before = {(row["block_bytes"], row["large"]): row for row in old.get("flow", [])} if old else {}
    time = seconds_between(new, old) if old else new["process"].get("uptime_ms", 0) / 1000

    def speed_of(value: int, known: int) -> float:
        return (value - known) / time if time > 0 else 0.0

    shown = []
    for row in rows:
        known = before.get((row["block_bytes"], row["large"]), {})
        speeds = [speed_of(row[key], known.get(key, 0)) for key in ("passed_bytes", "passed_blocks")]
        shown.append((*speeds, row, sure(row.get("passed_samples", 0) - known.get("passed_samples", 0))))
    cells = []
    for bytes_a_second, blocks_a_second, row, certainty in sorted(shown, key=lambda each: (-each[0], -each[2]["passed_bytes"]))[: room.rows]:
        name = f"large, up to {size(row['block_bytes'])}" if row["large"] else f"{row['block_bytes']} B"
        cells.append([name, mib(bytes_a_second), *certainty * rows[0]["sampled"], f"{blocks_a_second:.0f}", str(row["in_flight_blocks"]),
                      mib(row["in_flight_bytes"]), percent(row["passed_blocks"], max(row["freed_blocks"], row["passed_blocks"]))])  # fmt: skip
    estimates = " (estimates)" if rows[0]["sampled"] else ""
    of_estimates = SURE * rows[0]["sampled"]
    title = Column(f"blocks that cross threads{estimates}", 24, is_text=True, more=more(len(cells), rows))
    columns = [title, Column("MiB/s", 8), *of_estimates, Column("blocks/s", 9), Column("in flight", 9), Column("MiB", 8, order=1),
               Column("of its frees", 12, order=2)]  # fmt: skip
    return [*lay_out(columns, cells, room.width), "", *flow_pairs(new, old, speed_of, room)]


SURE = [Column("±", 6, order=3), Column("samples", 7, order=4)]


def sure(samples: int) -> list[str]:
    """One standard deviation of an estimate from so many samples, at most: less where most blocks of a size are sampled."""
    return [f"{100 / math.sqrt(samples):.0f} %" if samples > 0 else "", str(samples)]


def flow_pairs(new: dict, old: dict | None, speed_of: Callable[[int, int], float], room: Room) -> list[str]:
    names = {one["thread_id"]: one["name"] for one in new["threads"]}
    known = {pair_of(row): row for row in old.get("flow_pairs", [])} if old else {}
    shown = []
    for row in new.get("flow_pairs", []):
        before = known.get(pair_of(row), {})
        certainty = sure(row.get("samples", 0) - before.get("samples", 0))
        shown.append((*(speed_of(row[key], before.get(key, 0)) for key in ("bytes", "blocks")), row, certainty))
    is_sampled = any(row.get("samples", 0) for _, _, row, _ in shown)
    cells = []
    for bytes_a_second, blocks_a_second, row, certainty in sorted(shown, key=lambda each: (-each[0], -each[2]["bytes"]))[: room.rows]:
        block = size(row["block_bytes"]) if row["block_bytes"] else "any"
        cells.append([thread_title(row["allocated_by"], names), thread_title(row["freed_by"], names), block, mib(bytes_a_second),
                      *certainty * is_sampled, f"{blocks_a_second:.0f}"])  # fmt: skip
    columns = [Column("allocated by", 22, is_text=True, more=more(len(cells), shown)), Column("freed by", 22, is_text=True), Column("block", 6),
               Column("MiB/s", 8), *SURE * is_sampled, Column("blocks/s", 9)]  # fmt: skip
    return lay_out(columns, cells, room.width)


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
        ("hakozuna", min(heap + tables, rss), f"blocks and free pages {most}{mib(heap)}, its tables at most {mib(tables)}"),
        ("files", files, "programs, libraries and mapped files"),
        ("shared", shared, "shared memory"),
        ("other", max(0, anonymous - heap - tables), "stacks, data of libraries, and other mappings of the program"),
    ]
    cells = [[name, mib(value), percent(value, rss), what] for name, value, what in rows]
    return lay_out([Column("process", 12, is_text=True), Column("MiB", 8), Column("", 7), Column("", is_text=True)], cells)


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
    cells = []
    for name, used, allowed in limits_of(process):
        near = "near" if used >= NEAR_LIMIT * allowed else ""
        cells.append([name, mib(used), mib(allowed), percent(used, allowed), near])
    return lay_out([Column("limits", 24, is_text=True), Column("used MiB", 9), Column("limit MiB", 9), Column("", 7), Column("", is_text=True)], cells)


# ---- what a core file knows ------------------------------------------------------------------------


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def core_heading(report: dict) -> list[str]:
    core = report["core"]
    how = f", by {signal_name(core['signal'])}" if core["signal"] else ""
    lines = [*heading(report), f"from the core file '{running.printable(core['file'])}'{how}, with {counted(core['threads'], 'thread')}"]
    if core["unsure"]:
        lines.append("not everything is certain, since the process stopped in the middle of something, or its memory is not whole:")
        lines += [f"  {text}" for text in core["unsure"]]
    return lines


def largest(new: dict, _old: dict | None) -> list[str]:
    cells = [[f"{row['address']:#x}", mib(row["bytes"]), str(row["bytes"])] for row in new["largest"]]
    return lay_out([Column("largest blocks", 22, is_text=True), Column("MiB", 8), Column("bytes", 12)], cells)


SHOWN = {"totals": totals, "sizes": sizes, "classes": classes, "largest": largest, "threads": threads, "flow": flow}
LOOKED_UP = {"process": process_part, "limits": limits_part}


def joined(blocks: list[list[str]]) -> list[str]:
    return [line.rstrip() for line in "\n\n".join("\n".join(block) for block in blocks if block).split("\n")]
