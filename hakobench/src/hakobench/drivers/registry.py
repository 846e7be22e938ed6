"""The drivers by the name that a suite gives to a row's `driver`."""

import pathlib
from typing import Protocol

from hakobench.drivers import command, memcached, own, program, redis, rocksdb
from hakobench.drivers.job import Job, Outcome
from hakobench.rows import Row


class Driver(Protocol):
    """The two functions of a driver's module.

    The driver starts the program under test with `job.environment`, which has the LD_PRELOAD, and helpers such as a
    load generator with `job.plain_environment`. It calls `job.watch(pid)` right after the start of the program under
    test: the runner then looks whether the preload took effect, and samples the RSS.
    """

    def missing(self, row: Row, bin_dir: pathlib.Path) -> str:
        """Why this machine cannot run the row ("no redis-server; 'apt-get install redis-server'"); empty when it can."""

    def run(self, job: Job) -> Outcome:
        """One run. A failure is reported in Outcome.failure, not raised."""


DRIVERS: dict[str, Driver] = {
    "program": program,
    "command": command,
    "own": own,
    "redis": redis,
    "memcached": memcached,
    "rocksdb": rocksdb,
}
