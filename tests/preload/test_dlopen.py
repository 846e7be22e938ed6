"""Libraries that a program opens have the preloaded malloc, whatever flags it opens them with."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Preload, compile_c


@pytest.mark.usefixtures("ours_only")
def test_deepbind(preload: Preload, tmp_path: Path) -> None:
    """The library is found by the program's RUNPATH, both without us and with us between the program and dlopen."""
    (tmp_path / "below").mkdir()
    compile_c("deep.c", tmp_path / "below/libdeep.so", "-shared", "-fPIC")
    host = compile_c("deep_host.c", tmp_path / "deep_host", "-Wno-pedantic", "-Wl,-rpath,$ORIGIN/below,--enable-new-dtags")
    assert preload.run(host, "libdeep.so", preload=False).stdout == "swapped\n"
    assert preload.run(host, "libdeep.so").stdout == "swapped\n"
