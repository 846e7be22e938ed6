"""The table of docs/containers.md: what a run showed becomes a row, and no environment is left out."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/preload")]

import environments  # noqa: E402 - from the folders that the line above adds
import environments_table as tool  # noqa: E402
from environments import CALLS, Environment, Seen  # noqa: E402
from hakobench import seccomp  # noqa: E402

ONE = Environment("one", "an environment")


@pytest.mark.parametrize(
    ("seen", "row"),
    [
        (Seen(keeper=True, keeper_name="hakozuna", resident_mb=7.4), "| one | an environment | runs | 7 | - |"),
        (Seen(keeper=True, resident_mb=7.6, refused={"prctl": "EPERM"}), "| one | an environment | runs, nameless | 8 | EPERM: prctl |"),
        (Seen(resident_mb=60, refused=dict.fromkeys(CALLS[1:], "kills")), "| one | an environment | none | 60 | kills: all but membarrier |"),
        (Seen(killed="signal 31"), "| one | an environment | **killed**: signal 31 | - | - |"),
        (Seen(failure="wants root"), "| one | an environment | not run here: wants root | | |"),
    ],
)
def test_a_row(seen, row):
    assert tool.row(ONE, seen) == row


def test_an_environment_that_is_not_installed_is_a_row():
    absent = environments.started("absent", "", environments.plain, "no-such-program")
    assert tool.measured([absent], None)["absent"].failure == "not installed: no-such-program"


def test_an_environment_that_does_not_start_says_why():
    with environments.place(None) as place:
        broken = environments.started("broken", "", environments.after("sh", "-c", "echo no room >&2; exit 1"), "sh")
        assert environments.run([broken], place)["broken"].failure == "exit code 1: no room"


def test_only_the_table_is_replaced():
    assert tool.replaced(f"a\n{tool.BEGIN}\nold\n{tool.END}\nb\n", "new") == f"a\n{tool.BEGIN}\nnew\n{tool.END}\nb\n"


def test_each_environment_has_its_own_name_and_a_row_on_the_page():
    names = [one.name for one in environments.ENVIRONMENTS]
    assert len(set(names)) == len(names)
    text = tool.PAGE.read_text().split(tool.BEGIN)[1].split(tool.END)[0]
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][1:] == [f"| {name}" for name in names]


def test_every_profile_is_used_and_can_be_compiled():
    used = {name for one in environments.ENVIRONMENTS for name in one.profiles if isinstance(name, str)}
    assert used == set(seccomp.names())
    assert all(len(seccomp.compiled(seccomp.read(name))) % 8 == 0 for name in used)


def test_the_place_is_removed():
    with environments.place(None) as place:
        assert place.program.is_file()
    assert not place.folder.exists()
