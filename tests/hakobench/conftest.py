"""Lets the tests import workload_programs, which builds workloads and small libraries to preload."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
