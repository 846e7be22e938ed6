"""What a driver gets, and what it returns."""

import dataclasses
import pathlib
from collections.abc import Callable

from hakobench.rows import Row


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
