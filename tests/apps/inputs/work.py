"""Threads and forked processes that build, sort, pickle and compress; run with PYTHONMALLOC=malloc."""

import concurrent.futures
import hashlib
import json
import multiprocessing
import pickle
import random
import re
import zlib


def work(seed):
    chance = random.Random(seed)
    table = {}
    for i in range(40_000):
        table[chance.randrange(3000)] = [chance.randbytes(chance.randrange(600)), str(i) * (i % 40)]
    text = json.dumps({str(key): [value[0].hex(), value[1]] for key, value in table.items()}, sort_keys=True)
    assert pickle.loads(pickle.dumps(table)) == table
    packed = zlib.compress(text.encode(), 1)
    assert zlib.decompress(packed).decode() == text
    return hashlib.sha256(re.sub("[a-f]+", "-", text).encode()).hexdigest()


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        by_threads = list(threads.map(work, range(6)))
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as processes:
            assert processes.map(work, range(4)) == by_threads[:4]
    print(*by_threads, sep="\n")
