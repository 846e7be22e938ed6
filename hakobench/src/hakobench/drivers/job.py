"""What a driver gets, and what it returns."""

import dataclasses
import pathlib
from collections.abc import Callable

from hakobench.rows import Row


@dataclasses.dataclass(frozen=True)
class Job:
    """One run to make. `args` are the row's with the amount of work filled in. `scratch` is an empty directory that the
    runner removes afterwards. `cpus` are for the program under test, `client_cpus` for a load generator. `confine` puts the program under test
    into the allocator's seccomp profile, between fork and exec."""

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
    confine: Callable[[], None] | None = None


@dataclasses.dataclass
class Outcome:
    """How a run went. `figures` has every figure by name: ops_per_s, seconds, p50_us, p99_us, peak_rss_kb,
    final_rss_kb, fallback_rate in per cent, malloc_from, the *_seconds of the process, ...; the row's metric must be
    among them. `command` is what a reader would type, with public paths and without the preload."""

    command: str
    figures: dict[str, str] = dataclasses.field(default_factory=dict)
    output: str = ""
    failure: str = ""
