"""What the Python applications share: their argument, and a digest of what they computed."""

import hashlib
import sys


def amount() -> int:
    """The only argument. Ends the program with exit code 2 when it is no number from 1."""
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or sys.argv[1] == "0":
        sys.exit(_usage())
    return int(sys.argv[1])


def _usage() -> int:
    print(f"{sys.argv[0]}: arguments are '{' '.join(sys.argv[1:])}'; allowed: one number from 1", file=sys.stderr)
    return 2


class Digest:
    """Of values in the order in which they come."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, value: object) -> None:
        self._hash.update(repr(value).encode())

    def show(self) -> None:
        print(f"digest={self._hash.hexdigest()}")
