#!/usr/bin/env python3
"""What processes keep in their heaps as Prometheus' text format has it: `hakozuna metrics PID...` (docs/operate.md). It asks as
`hakozuna stats` does (asking.py).

The format is version 0.0.4 of Prometheus' text exposition format: of each metric a line HELP, a line TYPE and its samples, all together.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import asking
import nearest
import running
from report_parts import at, lane_of, report_of

LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
OWN_LABELS = ("program", "pid", "version", "lane")
FILE_MODE = 0o644  # the collector runs as another user


# ---- the metrics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """`value` is None where a report does not say."""

    name: str
    kind: str
    about: str
    value: Callable[[dict], float | None]


def of(group: str, *keys: str) -> Callable[[dict], float | None]:
    """The sum of figures of a group."""
    return lambda report: sum(at(report, group, key) for key in keys)


def known(key: str, unit: float = 1) -> Callable[[dict], float | None]:
    """A figure of the process, which it does not give without /proc, or under a filter of system calls."""
    return lambda report: report["process"][key] / unit if key in report["process"] else None


def soft_limit(report: dict) -> float | None:
    return report["process"]["soft_limit_bytes"] or None


METRICS = (
    Metric("live_bytes", "gauge", "Memory of blocks that the program has allocated and not freed.", of("heap", "live_bytes")),
    Metric("cached_bytes", "gauge", "Memory of freed blocks that are cached for reuse.", of("heap", "cached_bytes")),
    Metric("free_bytes", "gauge", "Free memory in pages with blocks, and free pages.", of("heap", "free_bytes")),
    Metric("resident_bytes", "gauge", "Live, cached and free bytes together: at most so much of the heap is resident.", of("heap", "resident_bytes")),
    Metric("peak_bytes", "gauge", "The highest resident bytes so far.", of("heap", "peak_bytes")),
    Metric("mapped_bytes", "gauge", "Address space obtained for blocks.", of("heap", "mapped_bytes")),
    Metric("direct_blocks", "gauge", "Live blocks above 2 MiB.", of("heap", "mapping_count")),
    Metric("soft_limit_bytes", "gauge", "Soft limit of the heap; absent if there is none.", soft_limit),
    Metric("keeper_running", "gauge", "1 while the library's own thread, which returns memory to the system, runs.", of("rest", "keeper")),
    Metric("process_resident_bytes", "gauge", "Resident memory of the whole process.", known("rss_bytes")),
    Metric("process_heap_resident_bytes", "gauge", "The heap's part of the process's resident memory, as the kernel counts it.", known("heap_rss_bytes")),
    Metric("process_threads", "gauge", "Threads of the process, with those of the library.", known("threads")),
    Metric("process_uptime_seconds", "gauge", "Time since the process started.", known("uptime_ms", 1000)),
    Metric("returned_bytes_total", "counter", "Memory returned to the system.", of("heap", "purged_bytes")),
    Metric("refills_total", "counter", "Times that a thread found its cache of a size empty.", of("counters", "refill")),
    Metric("flushes_total", "counter", "Times that a thread found its cache of a size full.", of("counters", "flush")),
    Metric("pages_made_total", "counter", "Pages made for blocks of a size.", of("counters", "page_create")),
    Metric("pages_freed_total", "counter", "Pages freed when the last of their blocks was returned.", of("counters", "page_retire")),
    Metric("large_allocations_total", "counter", "Allocations of blocks that have no size class.", of("counters", "large_alloc")),
    Metric("large_frees_total", "counter", "Frees of blocks that have no size class.", of("counters", "large_free")),
    Metric("lock_waits_total", "counter", "Times that a thread had to wait for the lock of a shard.", of("locks", "ls_acq_miss", "ls_rel_miss")),
)  # fmt: skip


# ---- the text --------------------------------------------------------------------------------------


def quoted(value: str) -> str:
    return '"' + value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'


def sample(name: str, labels: dict[str, str], value: float) -> str:
    shown = ",".join(f"{key}={quoted(text)}" for key, text in labels.items())
    return f"hakozuna_{name}{{{shown}}} {value:.3f}".removesuffix(".000")


def family(name: str, kind: str, about: str, samples: list[str]) -> list[str]:
    return [f"# HELP hakozuna_{name} {about}", f"# TYPE hakozuna_{name} {kind}", *samples] if samples else []


def text_of(asked: list[int], reports: dict[int, dict], more: dict[str, str]) -> str:
    """`reports` has those that have answered, by their numbers."""
    labels = {pid: {"program": report["process"]["program"], "pid": str(pid), **more} for pid, report in reports.items()}
    up = [sample("up", {"pid": str(pid), **more}, pid in reports) for pid in asked]
    lines = family("up", "gauge", "1 if the process has answered.", up)
    info = [sample("info", labels[pid] | {"version": report["version"], "lane": lane_of(report)}, 1) for pid, report in reports.items()]
    lines += family("info", "gauge", "The library that the process uses.", info)
    for metric in METRICS:
        values = {pid: value for pid, report in reports.items() if (value := metric.value(report)) is not None}
        lines += family(metric.name, metric.kind, metric.about, [sample(metric.name, labels[pid], value) for pid, value in values.items()])
    return "\n".join(lines) + "\n"


def json_of(asked: list[int], reports: dict[int, dict], more: dict[str, str]) -> str:
    """The same figures; null where a report does not say."""
    rows = []
    for pid in asked:
        row: dict[str, object] = {"pid": pid, "up": pid in reports, "labels": more}
        if pid in reports:
            report = reports[pid]
            row |= {"program": report["process"]["program"], "version": report["version"], "lane": lane_of(report)}
            row |= {metric.name: metric.value(report) for metric in METRICS}
        rows.append(row)
    return json.dumps({"processes": rows}) + "\n"


# ---- the command -----------------------------------------------------------------------------------


def replace(file: pathlib.Path, text: str) -> None:
    """At once, so that nobody reads a half. Raises Refused."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as new:
                os.fchmod(descriptor, FILE_MODE)
                new.write(text)
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except UnicodeError as error:
        raise running.Refused("a label is no text in UTF-8") from error
    except OSError as error:
        raise running.Refused(f"cannot write '{file}': {error.strerror}") from error


def label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or LABEL.fullmatch(key) is None:
        raise argparse.ArgumentTypeError(f"'{text}': allowed is NAME=VALUE; a name has letters, digits and _, and begins with a letter or one _")
    if key in OWN_LABELS:
        raise argparse.ArgumentTypeError(f"'{text}': the names {', '.join(OWN_LABELS)} are taken")
    return key, value


def parser() -> argparse.ArgumentParser:
    whole = nearest.Parser(prog="hakozuna metrics", description="Prints what processes keep in their heaps in Prometheus' text format.")
    whole.add_argument("pid", type=running.process_number, nargs="+", metavar="PID", help="of a process that `hakozuna run --watch` or HAKOZUNA_STATS has started")
    whole.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="write FILE, replaced as a whole, instead of stdout")
    whole.add_argument("--label", type=label, action="append", default=[], metavar="NAME=VALUE", help="a label of each sample; may be given several times")
    whole.add_argument("--json", action="store_true", help="the same figures as JSON")
    asking.add_signal_option(whole)
    whole.add_argument("--words", help="with --signal: the value of HAKOZUNA_STATS, for a program that overwrites its environment")
    whole.add_argument("--wait", type=asking.seconds, default=running.WAIT_SECONDS, metavar="SECONDS", help="for an answer; default: %(default)g")
    return whole


def collect(arguments: argparse.Namespace) -> dict[int, dict]:
    """The reports of the processes that answer. Says on stderr why the others do not."""
    reports = {}
    for number in arguments.pid:
        try:
            with running.Process(number) as process:
                reports[number] = report_of(asking.ask(process, "HAKOZUNA_STATS", arguments), process)
        except running.Refused as error:
            print(f"hakozuna metrics: {error}", file=sys.stderr)
    return reports


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    arguments.pid = list(dict.fromkeys(arguments.pid))
    if arguments.words is not None and not arguments.signal:
        print("hakozuna metrics: --words needs --signal", file=sys.stderr)
        return 2
    reports = collect(arguments)
    text = (json_of if arguments.json else text_of)(arguments.pid, reports, dict(arguments.label))
    try:
        if arguments.output is not None:
            replace(arguments.output, text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    except running.Refused as error:
        print(f"hakozuna metrics: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0 if len(reports) == len(arguments.pid) else 1


if __name__ == "__main__":
    sys.exit(main())
