#!/usr/bin/python3
"""A cache of strings, tuples and lists that keeps changing: dicts and lists grow, shrink and are discarded."""

import random

from common import Digest, amount

KEYS = 20_000


def main() -> None:
    digest = Digest()
    draw = random.Random(8)
    cache: dict[str, list[tuple[int, str]]] = {}
    for turn in range(amount()):
        for _ in range(2000):
            key = f"key:{draw.randrange(KEYS)}"
            entry = cache.setdefault(key, [])
            entry.append((turn, "v" * draw.randrange(400)))
            if len(entry) > 5:
                del entry[: draw.randrange(1, 6)]
            if draw.random() < 0.2:
                cache.pop(f"key:{draw.randrange(KEYS)}", None)
        if turn % 20 == 19:
            by_length: dict[int, set[str]] = {}
            for key, entry in cache.items():
                by_length.setdefault(sum(len(text) for _, text in entry), set()).add(key)
            digest.add(sorted((length, len(keys)) for length, keys in by_length.items())[:50])
            cache = {key: list(entry) for key, entry in cache.items() if len(entry) > 1}
    digest.add(len(cache))
    digest.show()


if __name__ == "__main__":
    main()
