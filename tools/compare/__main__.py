"""Entry of `python tools/compare`: a directory is run without its package, so the package is found here."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from compare.cli import main

main(prog_name="compare")
