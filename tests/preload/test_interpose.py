"""Programs that replace functions of the C library by functions that allocate: the library calls none of them.

tests/packages/needed.txt lists the functions that it does call, and why.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, TIMEOUT_SECONDS, Preload, archive_of, clean_environment, compile_c, describe

pytestmark = pytest.mark.usefixtures("ours_only")


def build(output: Path, *flags: str) -> Path:
    return compile_c("interpose.c", output, f"-I{ROOT / 'src'}", "-rdynamic", *flags)


@pytest.mark.parametrize("variables", [{}, {"HAKOZUNA_BACKGROUND": "0"}], ids=["keeper", "no-keeper"])
def test_functions_of_the_program_that_allocate(preload: Preload, tmp_path: Path, variables: dict[str, str]) -> None:
    result = preload.run(build(tmp_path / "program"), variables=variables)
    assert result.stdout == "done\n", describe(result)


@pytest.mark.parametrize("diagnosis", ["HAKOZUNA_PROFILE", "HAKOZUNA_SAMPLE_GUARD"])
def test_reports_profiles_and_guards_call_none_either(preload: Preload, tmp_path: Path, diagnosis: str) -> None:
    variables = {
        "HAKOZUNA_STATS": f"every=1,exit,json,file={tmp_path}/stats",
        diagnosis: {"HAKOZUNA_PROFILE": f"exit,file={tmp_path}/profile", "HAKOZUNA_SAMPLE_GUARD": "100"}[diagnosis],
    }
    result = preload.run(build(tmp_path / "program"), variables=variables)
    assert result.stdout == "done\n", describe(result)
    assert (tmp_path / "stats").read_text().startswith("{"), describe(result)
    assert (tmp_path / "profile").exists() == (diagnosis == "HAKOZUNA_PROFILE"), describe(result)


def test_functions_of_a_program_that_has_the_archive(library: Path, tmp_path: Path) -> None:
    program = build(tmp_path / "program", str(archive_of(library)))
    result = subprocess.run(
        [program], env=clean_environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
