"""Folders of generated files, as input for programs: shared by tests/preload and tests/apps."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path


def write_tree(root: Path, seed: int, count: int) -> None:
    """Writes files of compressible text and of noise; each seed overwrites some files of the other seeds."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(500)]
    for index in chance.sample(range(3 * count), count):
        path = root / f"d{index % 17}" / f"file{index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if index % 3 == 0:
            path.write_bytes(chance.randbytes(chance.randrange(60_000)))
        else:
            path.write_text(" ".join(chance.choices(words, k=chance.randrange(20_000))))


def digest(root: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts):
        total.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return total.hexdigest()
