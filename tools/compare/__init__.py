"""Compares allocators over the workloads of bench/workloads; `python tools/compare --help`."""
