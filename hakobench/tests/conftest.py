"""Shared by the tests of hakobench: the workloads, the modules that build small libraries, and the order of the files.

With `--dist loadfile` a worker takes whole files: the long ones come first, so that none of them runs alone at the end.
"""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
LONG_FILES = (
    "test_report_markdown.py", "test_trace_recorder.py", "test_statistics.py", "test_trace_replay.py", "test_run.py",
    "test_report_browser.py", "test_report_page.py", "test_why.py",
)  # fmt: skip

sys.path.insert(0, str(TESTS.parents[1] / "tests" / "tools"))

from workload_programs import shared_workloads  # from the folder that the line above adds


def pytest_configure() -> None:
    missing = [name for name in LONG_FILES if not (TESTS / name).is_file()]
    if missing:
        raise pytest.UsageError(f"hakobench/tests/conftest.py: no such file: {', '.join(missing)}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {TESTS / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shared_workloads(tmp_path_factory)
