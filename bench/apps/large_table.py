#!/usr/bin/python3
"""A table of some hundred MiB: a dict of lists, strings and tuples is filled, then read and changed at random."""

import random

from common import Digest, amount

READS_PER_ENTRY = 2
CHANGES_SHARE = 8


def main() -> None:
    digest = Digest()
    draw = random.Random(11)
    count = amount()
    table: dict[str, list[object]] = {}
    for number in range(count):
        table[f"key {draw.randrange(10**9)}"] = [number, str(number), (number, number + 1)]
    keys = list(table)
    total = 0
    for turn in range(READS_PER_ENTRY * count):
        entry = table[keys[int(draw.random() * len(keys))]]
        total += entry[0] + len(entry[1])
        if turn % CHANGES_SHARE == 0:
            entry[1] = str(turn)
    digest.add((len(table), total))
    digest.show()


if __name__ == "__main__":
    main()
