"""What `make test-apps` judges by: each way in which a run can go wrong is noticed. The programs here go wrong on purpose."""

import json
import os
import pathlib
import select
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/apps"))

import page  # noqa: E402 - from the folder that the line above adds
import programs  # noqa: E402
from runner import Program, Stage, baseline_problems, glibc, libraries_in, problems  # noqa: E402

REPORT = "hakozuna: double free of block: 0x1000"


@pytest.fixture
def judge(tmp_path):
    """Runs a script twice under glibc, the second time as if under the library, and returns what was found each time."""
    (tmp_path / "data").mkdir()

    def run(script: str = "", library: pathlib.Path | None = None, profile: str = "", **options: object) -> tuple[list[str], list[str]]:
        program = Program("bash", "goes wrong", script, **options)
        stage = Stage(tmp_path, program, under=profile)
        first = stage.run(glibc())
        return baseline_problems(program, first), problems(program, first, stage.run(library or glibc()))

    return run


def test_the_same_answer_is_no_problem(judge):
    assert judge("echo out; echo err >&2; cat /dev/null", inside=("bash", "cat")) == ([], [])


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("echo $$", "stdout"),
        ("echo out; echo $$ >&2", "stderr"),
        ('echo out; [ ! -e "$DATA/ran" ] || exit 3; touch "$DATA/ran"', "exit status"),
        ('echo out; [ ! -e "$DATA/ran" ] || kill -ABRT $$; touch "$DATA/ran"', "exit status"),
    ],
)
def test_another_answer(judge, script, what):
    baseline, found = judge(script)
    assert baseline == []
    assert len(found) == 1
    assert found[0].startswith(f"--- {what} under glibc")


def test_what_varies_can_be_replaced_or_left_out(judge):
    assert judge("echo process $$; echo $$ >&2", normalise=((r"process \d+", "process N"),), stderr=False) == ([], [])


@pytest.mark.parametrize("script", [f"echo out; echo '{REPORT}' >&2", f"echo out '{REPORT}'", f"echo out; echo 'x {REPORT}' >server.log"])
def test_a_report_of_the_library_is_a_problem_even_if_the_output_is_equal(judge, script):
    baseline, found = judge(script, stderr=False)
    assert baseline == []
    assert len(found) == 1
    assert found[0].startswith("reported: ") and found[0].endswith(REPORT)


def test_a_library_that_cannot_be_loaded(judge):
    _, found = judge("echo out", pathlib.Path("/nonexistent/libhakozuna.so"), stderr=False)
    assert [text for text in found if "cannot be preloaded" in text]
    assert "'bash' did not load the library; programs that did: []" in found


def test_a_program_that_drops_the_preload(judge):
    _, found = judge("echo out; env -u LD_PRELOAD cat /dev/null", inside=("bash", "cat"))
    assert found == ["'cat' did not load the library; programs that did: ['bash', 'env']"]


def test_a_program_that_hangs_is_ended_with_its_children(judge, tmp_path):
    baseline, _ = judge('echo out; sleep 600 & echo $! >"$DATA/child"; wait', timeout_seconds=1)
    assert "still running after 1 s" in baseline[0]
    try:
        child = os.pidfd_open(int((tmp_path / "data/child").read_text()))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 10)  # the kill takes effect when the child gets a CPU
    os.close(child)
    assert ended


def test_the_profiles_hold_for_what_a_script_starts(judge, tmp_path):
    refused = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mknodat", "mknod"], "action": "SCMP_ACT_KILL_PROCESS"}]}
    (tmp_path / "refused.json").write_text(json.dumps(refused))
    ends = "echo out; if mkfifo p; then exit 3; fi"
    assert judge(ends, profile=f"allow+{tmp_path}/refused.json", stderr=False) == ([], [])
    assert "exit status 3" in judge(ends, profile="allow")[0][0]
    with pytest.raises(ValueError, match="'nothing' is neither a file nor a known profile; known: allow, container, "):
        judge(ends, profile="nothing")


def test_a_program_with_a_preload_of_its_own_runs_alone_under_glibc(judge):
    assert judge('echo "${LD_PRELOAD:-none}"', preloads=True, inside=()) == ([], ["'bash' did not load the library; programs that did: []"])


def test_a_silent_program_has_nothing_to_compare(judge):
    assert judge("true")[0] == ["nothing on stdout, so there is nothing to compare"]


def test_work_that_fails(tmp_path):
    def work(stage: Stage) -> str:
        stage.client("/bin/bash", "-c", f"echo '{REPORT}' >&2")
        return "right"

    outcome = Stage(tmp_path, Program("bash", "a client", work=work)).run(glibc())
    assert outcome.status.startswith("AssertionError: ")
    assert REPORT in outcome.status


def test_lanes(tmp_path):
    with pytest.raises(ValueError, match="which has no libhakozuna_"):
        libraries_in(tmp_path, ["all"])
    for lane in ("hz3_scale", "hz4"):
        (tmp_path / f"libhakozuna_{lane}.so").touch()
    assert list(libraries_in(tmp_path, ["all"])) == ["hz3_scale", "hz4"]
    assert libraries_in(tmp_path, ["glibc"]) == {"glibc": glibc()}
    with pytest.raises(ValueError, match="HZ_LANES has 'hz5'; allowed: all, hz3_scale, hz4, glibc"):
        libraries_in(tmp_path, ["hz4", "hz5"])


def test_each_program_has_its_own_name():
    names = [program.name for program in programs.PROGRAMS]
    assert sorted(set(names)) == sorted(names)


def test_the_page_shows_what_went_wrong():
    row = {"program": "bash", "version": "5.2", "commit": "abc", "machine": "a machine", "glibc_seconds": 1.0, "seconds": 2.0, "under": ""}
    results = {
        "a": row | {"lane": "hz4", "build": "release", "result": "ok"},
        "b": row | {"lane": "hz3_fast", "build": "release", "result": "wrong"},
        "c": row | {"lane": "hz4", "build": "check", "result": "ok"},
        "d": row | {"lane": "hz4", "build": "release", "result": "wrong", "under": "container"},
    }
    text = page.replaced(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", results)
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| bash | 5.2 | arrays, recursion, pipes, 300 subshells | 1.0 | - | 2.0 | **wrong**: hz3_fast | **wrong**: hz4 | 1 ok |" in text
