"""The command `hakozuna` (command/hakozuna.in), which also is `python -m hakozuna`."""

from __future__ import annotations

import os
import sys

import hakozuna


def main() -> None:
    """Becomes the shell script, whose tools run under this Python."""
    os.execve("/bin/sh", ["sh", str(hakozuna.COMMAND), *sys.argv[1:]], {**os.environ, "HAKOZUNA_PYTHON": sys.executable})


if __name__ == "__main__":
    main()
