#!/usr/bin/python3
"""Records with attributes, some hundred MiB of them: made, sorted, grouped by a key, and joined with a second table."""

import random

from common import Digest, amount

PLACES = 5000


class Record:
    """Has a dict of its own, like most objects of Python programs."""

    def __init__(self, number: int, place: str, price: float) -> None:
        self.number = number
        self.place = place
        self.price = price
        self.note = f"record {number} of {place}"


def main() -> None:
    digest = Digest()
    draw = random.Random(12)
    records = [Record(number, f"place {draw.randrange(PLACES)}", draw.random()) for number in range(amount())]
    records.sort(key=lambda record: record.price)
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.place, []).append(record)
    taxes = {f"place {place}": draw.random() for place in range(PLACES)}
    joined = [(record.number, record.price * taxes[record.place]) for record in records]
    joined.sort()
    digest.add([(place, len(members)) for place, members in sorted(groups.items())[:100]])
    digest.add([round(price, 9) for _, price in joined[:1000]])
    digest.show()


if __name__ == "__main__":
    main()
