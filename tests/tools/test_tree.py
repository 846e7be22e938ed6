"""The tracked files stay small enough for a quick clone."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE_BYTES_MAX = 12 << 20


def too_large(sizes: dict[str, int], limit: int = TREE_BYTES_MAX) -> str | None:
    """What is wrong with files of these sizes, naming the largest; None when nothing is."""
    total = sum(sizes.values())
    if total <= limit:
        return None
    largest = max(sizes, key=lambda name: sizes[name])
    return f"{total} bytes in tracked files; allowed: {limit}. The largest is {largest} with {sizes[largest]}"


def tracked_sizes() -> dict[str, int]:
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name]
    return {path.relative_to(ROOT).as_posix(): path.lstat().st_size for path in paths if path.exists()}


def test_tracked_files_are_within_the_limit():
    assert too_large(tracked_sizes()) is None


def test_a_tree_that_is_too_large_is_named():
    assert too_large({"a": 6, "b": 7}, 13) is None
    assert too_large({"a": 6, "b": 8}, 13) == "14 bytes in tracked files; allowed: 13. The largest is b with 8"
