#!/usr/bin/python3
"""Builds graphs of objects with cycles, walks them, and leaves them to the garbage collector."""

import gc
import random

from common import Digest, amount


class Node:
    """Has a dict of its own, like most objects of Python programs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"node {number}"
        self.edges: list[Node] = []
        self.parent: Node | None = None

    def join(self, other: "Node") -> None:
        self.edges.append(other)
        other.parent = self


def reached(start: Node) -> int:
    """The number of nodes reachable from `start`."""
    seen, todo = {start.number}, [start]
    while todo:
        for node in todo.pop().edges:
            if node.number not in seen:
                seen.add(node.number)
                todo.append(node)
    return len(seen)


def main() -> None:
    digest = Digest()
    draw = random.Random(7)
    kept: list[Node] = []
    for _ in range(amount()):
        nodes = [Node(number) for number in range(5000)]
        for node in nodes:
            for _ in range(draw.randrange(4)):
                node.join(nodes[draw.randrange(len(nodes))])
        digest.add(reached(nodes[0]))
        kept = [nodes[0], *kept[:2]]  # older graphs stay alive for a while
        del nodes, node
        digest.add(gc.collect() > 0)
    digest.show()


if __name__ == "__main__":
    main()
