"""Control groups that tests make, as root."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

GROUPS = Path("/sys/fs/cgroup")
DEADLINE_SECONDS = 30


@contextlib.contextmanager
def own_group(controller: str, file: str) -> Iterator[Path]:
    """A group of our own: in the version 1 tree of the controller if that has the file, else in the version 2 tree. Skips the test
    where none can be made."""
    v1 = GROUPS / controller
    group = (v1 if (v1 / file).exists() else GROUPS) / f"hakozuna_{controller}_{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        yield group
    finally:
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            try:
                group.rmdir()
                break
            except OSError:  # until the last process in it is gone
                time.sleep(0.05)
