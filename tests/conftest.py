"""Which tests are for `make test-deep`, and the order of the files.

`make test` runs the tests without the marker deep, `make test-deep` those with it. All tests of DEEP_FOLDERS have it. Tests with
the marker slow are skipped unless HZ_SLOW=1.

With `--dist loadfile` a worker takes whole files: the long ones come first, so that none of them runs alone at the end. xdist
would begin with the files that have the most tests; `--no-loadscope-reorder` keeps this order.
"""

from __future__ import annotations

import os
import pathlib

import pytest

TESTS = pathlib.Path(__file__).parent
LONG_FILES = (
    "preload/test_python.py", "preload/test_library.py", "preload/test_commands.py", "preload/test_limits.py",
    "preload/test_sample_guard.py", "preload/test_resident.py", "preload/test_environments.py", "preload/test_keeper.py",
    "preload/test_kinds.py", "preload/test_fork.py", "preload/test_sandbox.py", "preload/test_profile.py", "preload/test_servers.py",
    "tools/test_variant.py", "tools/test_workloads.py", "tools/test_run_tests.py", "tools/test_steps.py",
    "hakobench/test_report_markdown.py", "tools/test_seeds.py",
    "packages/test_install.py", "hakobench/test_trace_recorder.py", "tools/test_lane_libraries.py", "tools/test_ways.py",
    "hakobench/test_statistics.py", "tools/test_diagnose_page.py", "hakobench/test_trace_replay.py", "hakobench/test_run.py",
    "hakobench/test_report_browser.py", "hakobench/test_report_page.py", "hakobench/test_why.py", "tools/test_lanes.py",
)  # fmt: skip
DEEP_FOLDERS = ("hakobench", "model", "packages")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deep: `make test-deep` runs it, and `make test` does not")
    config.addinivalue_line("markers", "slow: takes a minute or more; runs with HZ_SLOW=1")
    missing = [name for name in LONG_FILES if not (TESTS / name).is_file()]
    missing += [name for name in DEEP_FOLDERS if not (TESTS / name).is_dir()]
    if missing:
        raise pytest.UsageError(f"tests/conftest.py: no such file: {', '.join(missing)}")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(TESTS / folder in item.path.parents for folder in DEEP_FOLDERS):
            item.add_marker(pytest.mark.deep)
        if os.environ.get("HZ_SLOW") != "1" and item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="slow; HZ_SLOW=1 runs it"))
    places = {TESTS / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
