"""The reports that the library writes as JSON fit docs/formats/stats-schema.json, and reports that are wrong do not."""

import copy
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
SCHEMA = json.loads((ROOT / "docs/formats/stats-schema.json").read_text())
LANES = ["hz3_scale", "hz4"]

PROGRAM = """
import ctypes, os, threading, tempfile
library = ctypes.CDLL(None)
blocks = [bytearray(size) for size in (100, 3000, 100_000, 1 << 20, 5 << 20) for _ in range(9)]
del blocks[::2]
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
file = tempfile.TemporaryFile()
assert library.hz_stats_print(file.fileno(), 1) == 0
done.set()
thread.join()
file.seek(0)
print(file.read().decode("ascii"), end="")
"""


def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module", params=LANES)
def report(request) -> dict:
    environment = {"LD_PRELOAD": str(LIBRARY.parent / f"libhakozuna_{request.param}.so"), "PYTHONMALLOC": "malloc"}
    command = ["/usr/bin/python3", "-I", "-S", "-c", PROGRAM]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.count("\n") == 1, "a report is one line"
    return json.loads(run.stdout)


def test_a_report_fits(report):
    assert [error.message for error in validator().iter_errors(report)] == []
    assert report["process"]["program"] == "python3"
    assert len(report["threads"]) == 2
    assert {row["name"] for row in report["threads"]} == {"python3"}
    assert sum(row["live_bytes"] for row in report["ranges"]) == report["heap"]["live_bytes"]


def changed(report: dict, path: list, value: object) -> dict:
    """The report with one value replaced, or with a key removed if the value is None."""
    report = copy.deepcopy(report)
    place = report
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return report


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["heap"], None),
        (["heap", "live_bytes"], None),
        (["heap", "live_bytes"], -1),
        (["heap", "live_kib"], 1),
        (["process", "pid"], "1"),
        (["ranges", 0, "name"], "tiny"),
        (["classes", 0, "unused_permille"], 1001),
        (["threads", 0, "parked"], 2),
        (["large", 0], {}),
        (["counters", "refill"], 0.5),
        (["version"], "one"),
    ],
)
def test_a_wrong_report_does_not_fit(report, path, value):
    assert not validator().is_valid(changed(report, path, value))
