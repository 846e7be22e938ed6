"""The programs of packaging/requirements.txt."""

import pathlib

from installing import ROOT

BIN = ROOT / "build/packaging-venv/bin"


def tool(name: str) -> pathlib.Path:
    assert (BIN / name).is_file(), f"no {name}; `make test-packages` installs it"
    return BIN / name
