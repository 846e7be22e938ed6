"""Which tests are for `make test-deep`, and the order of the files.

`make test` runs the tests without the marker deep, `make test-deep` those with it. All tests of DEEP_FOLDERS have it. The tests
of scripts wait for a change besides (tests/steps.txt). Tests with the marker slow are skipped unless HZ_SLOW=1.

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
    "tools/test_variant.py", "tools/test_workloads.py", "tools/test_run_tests.py", "tools/test_steps.py", "tools/test_seeds.py",
    "packages/test_install.py", "tools/test_lane_libraries.py", "tools/test_ways.py", "tools/test_diagnose_page.py",
    "tools/test_lanes.py",
)  # fmt: skip
DEEP_FOLDERS = ("model", "packages")


def pytest_configure() -> None:
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
