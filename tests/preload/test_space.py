"""Requests that the kernel refuses, late limits of the address space, and what stays mapped in the end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Preload, clean_environment, compile_c, describe, required

pytestmark = pytest.mark.usefixtures("ours_only")

MIB = 1024  # in KiB
# Small blocks take as long as all others together.
LATE = [(sizes, megabytes) for sizes in ("small", "mixed", "large", "huge") for megabytes in (32, 64, 256) if (sizes, megabytes) != ("small", 256)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("space.c", tmp_path_factory.mktemp("space") / "space")


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("limits.c", tmp_path_factory.mktemp("limits") / "limits")


def figures(output: str) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split("=") for line in output.splitlines())}


def test_what_glibc_refuses_is_refused(preload: Preload, program: Path) -> None:
    """Whatever the mode of overcommit is; tests/preload/test_system_settings.py sets the three modes."""
    plain = subprocess.run([program, "refused"], capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS)
    ours = preload.run(program, "refused")
    assert ours.stdout == plain.stdout, describe(ours)
    assert "SIZE_MAX less 15, malloc: ENOMEM" in ours.stdout
    assert len(ours.stdout.splitlines()) == 43


def test_a_refusal_costs_two_calls(library: Path, program: Path, tmp_path: Path) -> None:
    """One call asks for the memory, and one reads the limit of the address space."""
    strace = required("strace")
    log = tmp_path / "calls"
    rounds = 200
    result = subprocess.run(
        [strace, "-o", log, "-E", f"LD_PRELOAD={library}", program, "loop", str(rounds)],
        capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS, env=clean_environment(),
    )  # fmt: skip
    if "granted" in result.stdout:
        pytest.skip("the kernel refuses nothing: vm.overcommit_memory is 1")
    _, within, _ = re.split(r"^getppid\(\).*\n", log.read_text(), flags=re.MULTILINE)
    calls = within.splitlines()
    assert len(calls) <= 2 * rounds, calls[:10]
    assert sum(call.startswith("mmap(") for call in calls) == rounds, calls[:10]


def test_large_alignments_leave_nothing_mapped(preload: Preload, program: Path) -> None:
    seen = figures(preload.run(program, "aligned").stdout)
    assert seen["peak_kb"] <= 2 * seen["live_kb"] + 256 * MIB
    assert seen["after_kb"] <= 128 * MIB


def test_a_hole_without_an_aligned_part_hides_no_other(preload: Preload, program: Path) -> None:
    seen = figures(preload.run(program, "holes").stdout)
    assert seen["whole"] > 150
    assert seen["with_hole"] >= seen["whole"]


def test_growing_in_a_forks_child_keeps_no_address_space(preload: Preload, program: Path) -> None:
    assert figures(preload.run(program, "child", "100").stdout)["more_kb"] <= 512 * MIB


@pytest.mark.parametrize(("sizes", "megabytes"), LATE)
def test_a_limit_above_what_is_mapped_is_kept(preload: Preload, limits: Path, sizes: str, megabytes: int) -> None:
    """glibc gives as much: what the limit leaves, not what the library has reserved."""
    result = preload.run(limits, sizes, "beyond", str(megabytes))
    seen = figures(result.stdout)
    for key in ("first_kb", "again_kb", "other_kb"):
        assert seen[key] <= (megabytes + 16) * MIB, describe(result)
        assert seen[key] >= megabytes * MIB * 0.6, describe(result)
    assert seen["lifted_kb"] >= 1024 * MIB, describe(result)
