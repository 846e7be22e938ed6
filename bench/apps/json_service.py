#!/usr/bin/python3
"""A service in Python: threads parse JSON documents, keep the newest of them, drop all at the end, and sleep.

The argument is the number of documents of each thread; IDLE_SECONDS in the environment is the sleep (default 0). Writes
its figures to figures.txt: end_rss_kb after everything was dropped, after1_rss_kb and after5_rss_kb after 1 s and after
the whole sleep.
"""

import collections
import gc
import json
import os
import pathlib
import random
import threading
import time

from common import Digest, amount
from json_documents import order

THREADS = 4
ORDERS = 60
KEPT = 120  # documents that a thread holds
HELD: list[collections.deque] = []  # what the threads held at their end


def serve(thread: int, documents: int, digests: list[Digest]) -> None:
    """Parses documents; those that are too old are dropped by this thread, the last ones by main."""
    draw = random.Random(thread)
    kept: collections.deque = collections.deque(maxlen=KEPT)
    for _ in range(documents):
        written = json.dumps([order(draw, number) for number in range(ORDERS)])
        kept.append(json.loads(written))
        digests[thread].add(len(written))
        digests[thread].add(sum(len(one["lines"]) for one in kept[0]))
    HELD.append(kept)


def rss_kb() -> int:
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def main() -> None:
    documents = amount()
    idle = float(os.environ.get("IDLE_SECONDS", "0"))
    digests = [Digest() for _ in range(THREADS)]
    threads = [threading.Thread(target=serve, args=(index, documents, digests)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    full = rss_kb()
    HELD.clear()
    gc.collect()
    end = rss_kb()
    time.sleep(min(1.0, idle))
    after1 = rss_kb()
    time.sleep(max(0.0, idle - 1.0))
    figures = f"during_rss_kb={full} end_rss_kb={end} after1_rss_kb={after1} after5_rss_kb={rss_kb()}\n"
    pathlib.Path("figures.txt").write_text(figures, encoding="ascii")
    for digest in digests:
        digest.show()


if __name__ == "__main__":
    main()
