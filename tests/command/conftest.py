"""Lets the tests import the files of the command, which are scripts and not a package. And what several of them need."""

import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "command"))


@pytest.fixture
def folder():
    """A short path: the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="hz-") as name:
        yield pathlib.Path(name)
