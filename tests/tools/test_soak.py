"""tools/soak divides the time between the programs it finds, preloads each library, and reports what each says."""

import pathlib
import subprocess

import pytest

SOAK = pathlib.Path(__file__).resolve().parents[2] / "tools/soak"


def program(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def soak(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    (folder / "check").mkdir(exist_ok=True)
    (folder / "release/lib").mkdir(parents=True, exist_ok=True)
    command = [SOAK, "--check", folder / "check", "--release", folder / "release", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_program_has_the_same_part_of_the_time(tmp_path):
    program(tmp_path / "check/tests/hz3_scale.soak", 'echo "$@"')
    program(tmp_path / "check/tests/hz4.soak", 'echo "$@"')
    program(tmp_path / "release/tests/system.soak", 'echo "$LD_PRELOAD" "$@"')
    (tmp_path / "release/lib").mkdir()
    # The dynamic linker of the shell that stands for the program says that it ignores an empty library.
    library = tmp_path / "release/lib/libhakozuna_hz4.so"
    library.touch()
    run = soak(tmp_path, "--seconds", "600", "--seed", "7", "--threads", "3")
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert lines[0] == "check hz3_scale.soak: --seconds 200 --seed 7 --threads 3"
    assert lines[1] == "check hz4.soak: --seconds 200 --seed 7 --threads 3"
    assert lines[2].startswith("release libhakozuna_hz4.so: ")
    assert lines[-1].endswith(f"{library} --seconds 200 --seed 7 --threads 3")


def test_a_failure_is_reported_and_the_others_still_run(tmp_path):
    program(tmp_path / "check/tests/hz3_scale.soak", "echo damaged >&2; exit 3")
    program(tmp_path / "check/tests/hz4.soak", "echo good")
    run = soak(tmp_path)
    assert run.returncode == 1
    assert run.stdout == "check hz3_scale.soak: damaged (failed with 3)\ncheck hz4.soak: good\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--seconds", "soon"], "--seconds is 'soon'; allowed: a number"),
        (["--check", "/nowhere"], "--check is '/nowhere'; allowed: a directory of a build"),
        (["--fast"], "unknown argument '--fast'; allowed: --seconds, --seed, --threads, --check, --release"),
        ([], "there are no soak programs in"),
    ],
)
def test_bad_arguments(tmp_path, arguments, text):
    run = soak(tmp_path, *arguments)
    assert run.returncode == 2
    assert text in run.stderr
