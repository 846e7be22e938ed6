"""Shared by the Python applications: their argument, and a digest of their results."""

import hashlib
import sys


def amount() -> int:
    """The only argument. Ends the program with exit code 2 unless it is a number, 1 or more."""
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or sys.argv[1] == "0":
        sys.exit(_usage())
    return int(sys.argv[1])


def _usage() -> int:
    print(f"{sys.argv[0]}: arguments are '{' '.join(sys.argv[1:])}'; allowed: one number, 1 or more", file=sys.stderr)
    return 2


class Digest:
    """A digest of values in the order in which they are added."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, value: object) -> None:
        self._hash.update(repr(value).encode())

    def show(self) -> None:
        print(f"digest={self._hash.hexdigest()}")
