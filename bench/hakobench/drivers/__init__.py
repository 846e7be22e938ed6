"""How a row is run. A driver is a module hakobench.drivers.<name> with two functions:

    missing(row, bin_dir) -> str   why this row cannot run here ("no redis-server; 'apt-get install redis-server'"), or ""
    run(job) -> Outcome            one run; what goes wrong is told in Outcome.failure, not raised

The driver starts the program under test with `job.environment` (its LD_PRELOAD included), and helpers such as a load
generator with `job.plain_environment`. It calls `job.watch(pid)` right after the start of the program under test: the
runner looks there whether the preload took effect, and samples the RSS.
"""

import dataclasses
import importlib
import pathlib
from collections.abc import Callable
from typing import Protocol

from hakobench.suite import Row

NAMES = ("program", "command", "redis", "memcached", "rocksdb")


@dataclasses.dataclass(frozen=True)
class Job:
    """`args` are the row's with the amount of work filled in; `scratch` is an empty directory that is removed
    afterwards; `cpus` those the program under test may use, `client_cpus` those for a load generator."""

    row: Row
    args: list[str]
    environment: dict[str, str]
    plain_environment: dict[str, str]
    bin_dir: pathlib.Path
    scratch: pathlib.Path
    timeout: float
    cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]
    watch: Callable[[int], None]


@dataclasses.dataclass
class Outcome:
    """`figures`: every figure by name (ops_per_s, seconds, p50_us, p99_us, peak_rss_kb, final_rss_kb, fallback_rate in
    percent, malloc_from, ...); the row's metric must be among them. The *_seconds of the process are
    figures too. `command` is what a reader would type, with public paths, without the preload."""

    command: str
    figures: dict[str, str] = dataclasses.field(default_factory=dict)
    output: str = ""
    failure: str = ""


class Driver(Protocol):
    """The two functions of a driver's module."""

    def missing(self, row: Row, bin_dir: pathlib.Path) -> str: ...

    def run(self, job: Job) -> Outcome: ...


def find(name: str) -> Driver:
    """`name` is one of NAMES."""
    return importlib.import_module(f"hakobench.drivers.{name}")
