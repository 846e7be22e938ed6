"""Compares memory allocators over workloads and real programs; `hakobench --help`."""
