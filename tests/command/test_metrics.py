"""`hakozuna metrics`: what it prints is read by Prometheus' own parser, and its figures are those of the report (docs/operate.md)."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess

import metrics
import pytest
from prometheus_client.parser import text_string_to_metric_families
from test_running import ROOT, called, good, preloaded, stats, watched

GONE = 4194305  # above the largest number that a process can have


def asked(*words: object) -> subprocess.CompletedProcess:
    return called("metrics.py", *words)


def families(text: str) -> dict:
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(text: str) -> dict[str, dict[str, float]]:
    """name -> pid -> value."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, {})[one.labels["pid"]] = one.value
    return found


def test_a_process(tmp_path):
    with watched(tmp_path, "--watch", "--lane", "hz4") as service:
        text = good(asked(service.pid))
        report = json.loads(good(stats(service.pid, "--json")))
    found = {name: values[str(service.pid)] for name, values in samples(text).items()}
    assert set(found) >= {f"hakozuna_{metric.name}" for metric in metrics.METRICS} - {"hakozuna_soft_limit_bytes"}
    assert found["hakozuna_up"] == 1 and found["hakozuna_live_bytes"] > 2_000_000
    # the program waits for input, so nothing has changed in between
    for name, key in (("live", "live"), ("cached", "cached"), ("free", "free"), ("resident", "resident"), ("mapped", "mapped")):
        assert found[f"hakozuna_{name}_bytes"] == report["heap"][f"{key}_bytes"]
    assert found["hakozuna_resident_bytes"] == sum(found[f"hakozuna_{name}_bytes"] for name in ("live", "cached", "free"))
    assert found["hakozuna_refills_total"] == report["counters"]["refill"] > 0
    (info,) = families(text)["hakozuna_info"].samples
    assert info.labels == {"program": "python3", "pid": str(service.pid), "version": report["version"], "lane": "hz4"}


def test_the_same_as_json(tmp_path):
    with watched(tmp_path, "--watch", "--lane", "hz4") as service:
        done = asked(service.pid, GONE, "--label", "service=web", "--json")
        text = samples(good(asked(service.pid)))
    assert (done.returncode, done.stderr) == (1, f"hakozuna metrics: there is no process {GONE}\n")
    one, gone = json.loads(done.stdout)["processes"]
    assert gone == {"pid": GONE, "up": False, "labels": {"service": "web"}}
    assert (one["pid"], one["up"], one["program"], one["lane"], one["labels"]) == (service.pid, True, "python3", "hz4", {"service": "web"})
    assert set(one) == {"pid", "up", "labels", "program", "version", "lane", *(metric.name for metric in metrics.METRICS)}
    assert one["live_bytes"] == text["hakozuna_live_bytes"][str(service.pid)]


@pytest.mark.parametrize("pid", ["abc", "0", "-1", "1.5", "99999999999"])
def test_a_number_that_no_process_has(pid):
    done = asked("--", pid)
    assert (done.returncode, done.stdout) == (2, "") and f"'{pid}': allowed is the number of a process, 1 to 2147483647" in done.stderr


def test_each_metric_has_its_type_and_its_help(tmp_path):
    with watched(tmp_path, "--watch") as service:
        found = families(good(asked(service.pid)))
    for name, family in found.items():
        assert family.documentation and re.fullmatch(r"hakozuna_[a-z_]+", name)
        assert family.type == ("counter" if all(one.name.endswith("_total") for one in family.samples) else "gauge"), name
    assert {found[name].type for name in ("hakozuna_returned_bytes", "hakozuna_refills", "hakozuna_lock_waits")} == {"counter"}


def test_the_page_lists_each_metric():
    page = (ROOT / "docs/operate.md").read_text()
    listed = re.findall(r"(?m)^\| `hakozuna_(\w+)` \|", page)
    assert listed == ["up", "info", *(metric.name for metric in metrics.METRICS)]
    used = set(re.findall(r"\bhakozuna_([a-z_]+)\b", page))
    assert used <= set(listed), "an expression of the page names a metric that does not exist"


def test_several_processes_and_one_that_is_gone(tmp_path):
    with watched(tmp_path, "--watch") as first, watched(tmp_path, "--watch") as second:
        done = asked(first.pid, GONE, second.pid, first.pid)
    assert (done.returncode, done.stderr) == (1, f"hakozuna metrics: there is no process {GONE}\n")
    found = samples(done.stdout)
    assert found["hakozuna_up"] == {str(first.pid): 1, str(GONE): 0, str(second.pid): 1}
    assert set(found["hakozuna_live_bytes"]) == {str(first.pid), str(second.pid)}


def test_a_process_that_cannot_be_asked():
    done = asked(os.getpid())
    assert done.returncode == 1 and "does not run under hakozuna" in done.stderr
    assert samples(done.stdout) == {"hakozuna_up": {str(os.getpid()): 0}}


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "hakozuna.prom"
    file.write_text("old\n")
    before = os.umask(0o077)
    try:
        with watched(tmp_path, "--watch") as service, file.open() as reader:
            assert good(asked(service.pid, "--output", file)) == ""
            assert reader.read() == "old\n", "who has begun to read the old file reads it to its end"
            assert samples(file.read_text())["hakozuna_up"] == {str(service.pid): 1}
            assert stat.S_IMODE(file.stat().st_mode) == 0o644, "the collector is another user"
    finally:
        os.umask(before)
    assert asked(GONE, "-o", file).returncode == 1
    assert samples(file.read_text()) == {"hakozuna_up": {str(GONE): 0}}, "the file says that the process is gone"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hakozuna", "hakozuna.prom"]


@pytest.mark.parametrize(("file", "why"), [("none/x.prom", "No such file or directory"), ("folder", "Is a directory")])
def test_a_file_that_cannot_be_written(tmp_path, file, why):
    (tmp_path / "folder").mkdir()
    done = asked(GONE, "-o", tmp_path / file)
    assert done.returncode == 2 and done.stderr.endswith(f"hakozuna metrics: cannot write '{tmp_path / file}': {why}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_labels(tmp_path):
    with watched(tmp_path, "--watch") as service:
        text = good(asked(service.pid, "--label", "service=web", "--label", 'note=a "quoted\\ \nlabel'))
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            assert (one.labels["service"], one.labels["note"]) == ("web", 'a "quoted\\ \nlabel')


@pytest.mark.parametrize("word", ["web", "=web", "a-b=web", "1a=web", "__a=web", "pid=7", "lane=x"])
def test_labels_that_are_not_allowed(word):
    done = asked(GONE, "--label", word)
    assert (done.returncode, done.stdout) == (2, "") and f"'{word}': " in done.stderr


def test_mistakes():
    for words, says in ((["x"], "'x'"), ([], "PID"), ([GONE, "--outptu", "f"], "did you mean '--output'?"), ([GONE, "--words", "json"], "--words needs --signal")):
        done = asked(*words)
        assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


def test_by_a_signal(tmp_path):
    with preloaded(f"json,signal=USR2,file={tmp_path}/%p") as service:
        assert samples(good(asked(service.pid, "--signal")))["hakozuna_up"] == {str(service.pid): 1}


def test_a_soft_limit_and_figures_that_are_not_known():
    """Not every report has all figures: without a limit, or under a filter of system calls."""
    report = {
        "version": "1.2.3", "config": "engine=hz3 lane=scale", "rest": {"keeper": 0},
        "process": {"program": "x", "pid": 1, "soft_limit_bytes": 0},
        "heap": {"live_bytes": 2**50 + 1}, "counters": {}, "locks": {"ls_acq_miss": 2, "ls_rel_miss": 3},
    }  # fmt: skip
    found = samples(metrics.text_of([1], {1: report}, {}))
    assert "hakozuna_soft_limit_bytes" not in found and "hakozuna_process_resident_bytes" not in found
    assert (found["hakozuna_live_bytes"]["1"], found["hakozuna_lock_waits_total"]["1"], found["hakozuna_keeper_running"]["1"]) == (2**50 + 1, 5, 0)
    report["process"] |= {"soft_limit_bytes": 7 << 20, "uptime_ms": 1500}
    found = samples(metrics.text_of([1], {1: report}, {}))
    assert (found["hakozuna_soft_limit_bytes"]["1"], found["hakozuna_process_uptime_seconds"]["1"]) == (7 << 20, 1.5)


def test_counters_do_not_fall_when_threads_end(tmp_path):
    """A counter that falls looks like a new process: what ended threads have counted stays in the sum."""
    code = """
import sys, threading
def work():
    kept = [bytearray(size) for size in range(1, 60000, 97)]
print("ready", flush=True)
for line in sys.stdin:
    threads = [threading.Thread(target=work) for _ in range(int(line))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("done", flush=True)
"""
    counters = [f"hakozuna_{metric.name}" for metric in metrics.METRICS if metric.kind == "counter"]
    with watched(tmp_path, "--watch", code=code) as service:
        last = dict.fromkeys(counters, 0.0)
        for threads in (8, 1, 1):
            service.grow(threads)
            now = {name: values[str(service.pid)] for name, values in samples(good(asked(service.pid))).items() if name in counters}
            assert all(now[name] >= last[name] for name in counters), (last, now)
            last = now
        assert last["hakozuna_refills_total"] > 0
