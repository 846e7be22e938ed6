#!/usr/bin/python3
"""Writes and parses JSON documents of nested orders: short strings, lists and dicts that live for one document."""

import json
import random

from common import Digest, amount


def order(draw: random.Random, number: int) -> dict:
    lines = [
        {"sku": f"sku-{draw.randrange(10**6):06}", "count": draw.randrange(9), "price": draw.randrange(10**5) / 100,
         "tags": [f"tag{draw.randrange(50)}" for _ in range(draw.randrange(6))], "gift": draw.random() < 0.1}
        for _ in range(draw.randrange(1, 12))
    ]  # fmt: skip
    note = "x" * draw.randrange(300) if draw.random() < 0.3 else None
    return {"id": number, "customer": {"name": f"customer {draw.randrange(1000)}", "note": note}, "lines": lines}


def main() -> None:
    digest = Digest()
    draw = random.Random(5)
    for document in range(amount()):
        orders = [order(draw, number) for number in range(60)]
        written = json.dumps(orders, indent=1 if document % 2 else None, sort_keys=document % 3 == 0)
        parsed = json.loads(written)
        if parsed != orders:
            raise SystemExit(f"document {document}: the parsed orders differ from the written ones")
        digest.add(sum(line["count"] * line["price"] for one in parsed for line in one["lines"]))
        digest.add(len(written))
    digest.show()


if __name__ == "__main__":
    main()
