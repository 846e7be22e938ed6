#!/usr/bin/python3
"""Matches, splits, replaces and counts in text: many short strings, some long ones that grow."""

import collections
import random
import re

from common import Digest, amount

RECORD = re.compile(r"(?P<when>\d{4}-\d\d-\d\d) (?P<level>[A-Z]+) (?P<host>[\w.-]+): (?P<words>.*)")
NUMBER = re.compile(r"\b\d+\b")


def record(draw: random.Random) -> str:
    words = " ".join(f"{draw.choice('abcdefgh') * draw.randrange(1, 9)}{draw.randrange(999)}" for _ in range(14))
    when = f"20{draw.randrange(10, 30)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
    level = draw.choice(("INFO", "WARN", "ERROR"))
    return f"{when} {level} host-{draw.randrange(40)}.example: {words} took {draw.randrange(10**5)} ms"


def main() -> None:
    digest = Digest()
    draw = random.Random(6)
    for _ in range(amount()):
        page = "\n".join(record(draw) for _ in range(400))
        counts: collections.Counter[str] = collections.Counter()
        for line in page.splitlines():
            found = RECORD.match(line)
            counts[found["host"] + found["level"]] += 1
            counts.update(word.upper() for word in found["words"].split())
        masked = NUMBER.sub(lambda number: f"<{int(number.group()) * 7}>", page)
        digest.add(masked.translate({ord("a"): "ä", ord("b"): None}).count("ä"))
        digest.add(counts.most_common(20))
    digest.show()


if __name__ == "__main__":
    main()
