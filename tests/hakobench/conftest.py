"""Shared by the tests of hakobench: the workloads, and the modules that build small libraries."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

from workload_programs import shared_workloads  # from the folder that the line above adds


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shared_workloads(tmp_path_factory)
