"""Random recordings from a seed, for the test_trace_* files."""

import random

import numpy

from hakobench.trace import events
from hakobench.trace.events import Trace

MALLOC, CALLOC, REALLOC, MEMALIGN = (events.FUNCTIONS.index(name) for name in ("malloc", "calloc", "realloc", "memalign"))

# function, kind, thread, block, size, log2 of the alignment
Event = tuple[int, int, int, int, int, int]


def trace_of(rows: list[Event], **fields: object) -> Trace:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(events.COLUMNS)
    return Trace(
        **{name: numpy.array(column, kind) for (name, kind), column in zip(events.COLUMNS.items(), columns, strict=True)},
        **({"program": "sample"} | fields),
    )


def random_rows(seed: int, count: int, threads: int = 4, size_max: int = 3000) -> list[Event]:
    """Valid events: any thread can resize or free any block."""
    rng = random.Random(seed)
    live: list[int] = []
    rows: list[Event] = []
    blocks = 0
    seen = 0
    for _ in range(count):
        thread = rng.randrange(min(threads, seen + 1))
        seen = max(seen, thread + 1)
        what = rng.random()
        if what < 0.05:
            rows.append((events.FREE, events.FREE_NULL, thread, 0, 0, 0))
        elif what < 0.07:
            rows.append((MALLOC, events.FAILED, thread, 0, (1 << 64) - 1, 0))
        elif what < 0.5 or not live:
            function = rng.choice((MALLOC, MALLOC, CALLOC, REALLOC, MEMALIGN))
            align = rng.randrange(4, 13) if function == MEMALIGN else 0
            rows.append((function, events.ALLOCATE, thread, blocks, rng.randrange(size_max), align))
            live.append(blocks)
            blocks += 1
        elif what < 0.6:
            kind = rng.choice((events.RESIZE, events.MOVE))
            rows.append((REALLOC, kind, thread, rng.choice(live), 1 + rng.randrange(size_max), 0))
        else:
            rows.append((events.FREE, events.RELEASE, thread, live.pop(rng.randrange(len(live))), 0, 0))
    return rows


def same(one: Trace, other: Trace) -> bool:
    return all(numpy.array_equal(getattr(one, name), getattr(other, name)) for name in events.COLUMNS) and (
        (one.program, one.remarks) == (other.program, other.remarks)
    )
