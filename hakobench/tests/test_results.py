"""bench/results stays small: it has the newest run of each suite, the history has the others."""

import pathlib
import re
import subprocess

from hakobench.project import RESULTS_DIR
from hakobench.record import PACKED, RSS_SUFFIX, SUFFIX

BYTES_MAX = 2_000_000


def tracked(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files that git knows below the folder; all files when there is no git."""
    command = ["git", "-C", str(folder), "ls-files", "-z"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return [path for path in folder.rglob("*") if path.is_file()]
    return [path for name in run.stdout.split("\0") if name and (path := folder / name).is_file()]


def excess(files: list[pathlib.Path], limit: int) -> str:
    """Empty when the files have at most `limit` bytes together, else what is too much, the largest files first."""
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    largest = sorted(files, key=lambda path: -sizes[path])[:3]
    names = ", ".join(f"{path.name} ({sizes[path]})" for path in largest)
    return f"{total} bytes, allowed are {limit}; the largest: {names}" if total > limit else ""


def test_the_results_of_the_repository_are_small() -> None:
    files = tracked(RESULTS_DIR)
    assert files
    assert excess(files, BYTES_MAX) == ""


def test_too_much_is_noticed(tmp_path: pathlib.Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path, size in zip(files, (60, 40), strict=True):
        path.write_bytes(b"x" * size)
    assert excess(files, 100) == ""
    assert excess(files, 99) == "100 bytes, allowed are 99; the largest: a.csv (60), b.csv (40)"


def test_only_tracked_files_count(tmp_path: pathlib.Path) -> None:
    for name in ("known.csv", "local.csv"):
        (tmp_path / name).write_bytes(b"x")
    assert {path.name for path in tracked(tmp_path)} == {"known.csv", "local.csv"}
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "known.csv"], check=True)
    assert [path.name for path in tracked(tmp_path)] == ["known.csv"]


def without_page(files: list[pathlib.Path], pages: str) -> list[str]:
    """The CSVs, packed ones and those of RSS samples among them, whose name does not stand in the text of the pages."""
    names = [path.name for path in files if path.name.removesuffix(PACKED).endswith(SUFFIX)]
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name.replace(RSS_SUFFIX, SUFFIX))}(?![\w.])", pages)]


def test_every_result_has_a_page() -> None:
    """A CSV that no page shows belongs in the history."""
    pages = (path.read_text(encoding="utf-8") for path in RESULTS_DIR.glob("*.md") if path.name != "README.md")
    assert without_page(tracked(RESULTS_DIR), "\n".join(pages)) == []


def test_a_result_without_a_page_is_noticed() -> None:
    files = [pathlib.Path(name) for name in ("a.csv", "a.rss.csv", "b.csv", "b.rss.csv", "c.csv.gz", "c.rss.csv.gz", "d.csv.gz", "a.md")]
    assert without_page(files, "raw results: a.csv, c.csv.gz") == ["b.csv", "b.rss.csv", "d.csv.gz"]
    assert without_page(files[:1], "a.csv.gz") == ["a.csv"]
