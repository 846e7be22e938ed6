"""Lets the tests import the files of the command, which are scripts and not a package."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "command"))
