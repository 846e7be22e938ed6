"""The memory that a recording needs: a small file can claim more events than fit."""

import pathlib

from hakobench.trace.events import TraceError

MEMINFO = pathlib.Path("/proc/meminfo")
# Contains the columns for reading and linking: 8 to 12 of 8 bytes, and two copies of the events.
BYTES_PER_EVENT = 200


def available() -> int | None:
    """Available memory in bytes; None when the system does not report it."""
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def require(path: pathlib.Path, count: int) -> None:
    """Raises TraceError when this number of events does not fit."""
    there = available()
    needed = count * BYTES_PER_EVENT
    if there is not None and needed > there:
        raise TraceError(
            f"{path.name}: {count} events or more need about {needed >> 20} MiB of memory; available: {there >> 20} MiB"
        )
