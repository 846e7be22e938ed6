"""tools/run_tests.py says what it does and what is left, goes on after a failure, and ends with one line."""

import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess

import pytest
import run_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = """# a comment
test      setup  5 nothing: packages
test      first  8 one two: the first
test      second 9 three: the second
test-deep setup  5 nothing: packages
test-deep long  70 three: the rest
"""
CTEST = r"""1/2 Test #1: a ... Passed\n2/2 Test #2: b ... Passed\n100% tests passed, 0 tests failed out of 2\n"""
CTEST_FAILED = r"""50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n\t  3 - hz4.unit.a (Failed)\nErrors while running CTest\n"""
PYTEST_FAILED = "FAILED tests/a.py::test_b[x y] - AssertionError: no\\n=== 1 failed, 7 passed, 2 skipped in 3.14s ===\\n"
MAKEFILE = f"""nothing:
one:
\t@printf %b '{CTEST}'
two:
\t@printf %b '==== 7 passed, 2 skipped in 3.14s (0:00:03) ====\\n'
three:
\t@printf %b '{CTEST}'
test test-deep:
\t@tools/run_tests.py $@ $(STEPS)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with the runner, the job of CI, and small steps."""
    for name in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "STEPS"):
        monkeypatch.delenv(name, raising=False)  # those of the make that runs this test
    for name in ("tools/run_tests.py", ".ci/run"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/steps.txt").write_text(STEPS)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "tools/setup").write_text("#!/bin/sh\n")
    (tmp_path / "tools/setup").chmod(0o755)
    return tmp_path


def run(tree: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([tree / "tools/run_tests.py", *arguments], capture_output=True, text=True, check=False)


def change(tree: pathlib.Path, target: str, recipe: str) -> None:
    """Gives a target of the Makefile another recipe."""
    text = (tree / "Makefile").read_text()
    changed = re.sub(rf"^{target}:\n\t.*$", lambda _: f"{target}:\n\t{recipe}", text, flags=re.MULTILINE)
    assert changed != text
    (tree / "Makefile").write_text(changed)


def test_each_step_is_announced_and_the_last_line_is_the_result(tree):
    done = run(tree, "test")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "[1/3] setup: packages  (elapsed 0:00, left about 0:22: first, second)"
    assert re.fullmatch(r"\[2/3\] first: the first  \(elapsed 0:0\d, left about 0:17: second\)", lines[1])
    assert re.fullmatch(r"\[3/3\] second: the second  \(elapsed 0:0\d, left about 0:09\)", lines[2])
    assert re.fullmatch(r"make test: 11 tests passed, 2 skipped, in 0:0\d", lines[3])
    assert len(lines) == 4
    assert "7 passed" in (tree / "build/logs/first.log").read_text()


def test_after_a_failure_the_others_still_run(tree):
    change(tree, "one", f"@printf %b '{CTEST_FAILED}{PYTEST_FAILED}'; exit 8")
    done = run(tree, "test")
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[2] == "----- the end of build/logs/first.log"
    assert [line for line in lines if line.startswith("failed: ")] == ["failed: hz4.unit.a", "failed: tests/a.py::test_b[x y]"]
    assert "first FAILED; again: make one two" in lines
    assert lines[-2].startswith("[3/3] second")
    assert lines[-1] == "make test: FAILED: first (build/logs/first.log)"


def test_what_a_failed_test_printed_is_shown():
    """ctest prints it when the test fails, and other tests follow."""
    passed = "".join(f" {number}/99 Test  #{number}: a{number} ...   Passed    0.1 sec\n" for number in range(4, 99))
    failed = " 2/99 Test  #1: d ...***Not Run (Disabled)   0.0 sec\n 3/99 Test  #2: b ...***Failed    0.1 sec\nexpected 1\nfound 2\n\n"
    aborted = "99/99 Test #99: c ...Subprocess aborted***Exception:   0.1 sec\n" + "".join(f"line {number}\n" for number in range(100))
    text = f"      Start  2: b\n{failed}      Start  4: a4\n{passed}{aborted}\n97% tests passed, 2 tests failed out of 99\n"
    shown = run_tests.outputs_of_failed(text)
    assert shown[:4] == [" 3/99 Test  #2: b ...***Failed    0.1 sec", "expected 1", "found 2", aborted.splitlines()[0]]
    assert shown[4:] == [f"line {number}" for number in range(60, 100)]


def test_a_source_that_does_not_compile_is_named(tree):
    change(tree, "one", "@printf %b '[1/2] Building b.c.o\\nFAILED: b.c.o \\ngcc b.c\\nb.c:1: error\\n'; exit 1")
    assert "failed: b.c.o" in run(tree, "test", "first").stdout.splitlines()


def test_without_the_packages_nothing_starts(tree):
    text = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(text.replace("nothing:\n", "nothing:\n\t@echo no root; exit 1\n"))
    lines = run(tree, "test").stdout.splitlines()
    assert lines[-1] == "make test: FAILED: setup (build/logs/setup.log)"
    assert "no root" in lines and not any("first:" in line for line in lines)


def commit(tree: pathlib.Path, text: str) -> str:
    """Commits all files, with a text in the file `said`, and returns the commit."""
    (tree / "said").write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["add", "-A"], [*author, "commit", "-q", "-m", text]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tree, monkeypatch):
    """The tree with two commits on main. Step `second` runs only after a change below `product` or of `one.txt`."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # those of a hook that runs this test
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    with (tree / "tests/steps.txt").open("a") as steps:
        steps.write("if-changed test second: product one.txt\n")
    (tree / ".gitignore").write_text("/build/\n/product/ignored\n")
    (tree / "product").mkdir()
    for name in ("product/a", "product2", "one.txt"):
        (tree / name).touch()
    subprocess.run(["git", "init", "-q", "-b", "main", tree], check=True)
    commit(tree, "first")
    commit(tree, "second")
    return tree


def left_out(tree: pathlib.Path) -> str:
    """The commit with which the runner says that it compares when it leaves out step `second`; empty when it runs it."""
    lines = run(tree, "test").stdout.splitlines()
    found = re.fullmatch(r"second is left out: nothing that it tests differs from commit (\w{7}); `make test-deep` runs these tests", lines[0])
    assert bool(found) != any(" second: " in line for line in lines)
    return found[1] if found else ""


def switch(tree: pathlib.Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True)


def test_a_step_waits_for_a_change(repository):
    assert left_out(repository)
    (repository / "product2").write_text("beside it")
    (repository / "product/ignored").write_text("not known to git")
    assert left_out(repository)
    (repository / "product/a").write_text("changed")
    assert not left_out(repository)


def test_steps_that_wait_for_a_change_can_be_left_out(repository):
    (repository / "product/a").write_text("changed")
    lines = run(repository, "test", "--always").stdout.splitlines()
    assert any(" first: " in line for line in lines)
    assert not any("second" in line for line in lines)


@pytest.mark.parametrize("change", ["product/new", "one.txt"])
def test_a_new_file_and_a_listed_file_are_changes(repository, change):
    (repository / change).write_text("changed")
    assert not left_out(repository)


def test_a_file_that_moved_away_is_a_change(repository):
    (repository / "product/a").write_text("a text that git finds again\n" * 9)
    commit(repository, "third")
    commit(repository, "fourth")
    assert left_out(repository)
    switch(repository, "mv", "product/a", "elsewhere")
    assert not left_out(repository)


def test_on_the_main_branch_the_last_commit_counts(repository):
    (repository / "product/a").write_text("changed")
    landed = commit(repository, "third")
    assert not left_out(repository)
    commit(repository, "fourth")
    assert left_out(repository) == landed[:7]


@pytest.mark.parametrize("upstream", ["main", "origin/main", "another"])
def test_on_a_branch_all_its_commits_count(repository, upstream):
    base = commit(repository, "base")
    switch(repository, "switch", "-q", "-c", "work")
    if upstream == "origin/main":
        switch(repository, "update-ref", "refs/remotes/origin/main", "main")
        switch(repository, "branch", "-D", "main")
    if upstream == "another":
        switch(repository, "branch", "-m", "main", "another")
        switch(repository, "branch", "--set-upstream-to", "another")
    commit(repository, "on the branch")
    assert left_out(repository) == base[:7]
    (repository / "product/a").write_text("changed")
    commit(repository, "a change")
    commit(repository, "and another commit")
    assert not left_out(repository)


def test_when_git_cannot_say_the_step_runs(repository, monkeypatch):
    assert left_out(repository)
    clone = repository.parent / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repository}", clone], check=True)
    assert not left_out(clone)
    shutil.rmtree(repository / ".git")
    assert not left_out(repository)


def test_a_step_that_waits_can_be_named(repository):
    assert left_out(repository)
    assert run(repository, "test", "second").stdout.startswith("[1/1] second: the second")
    assert "9 s  the second, if changed\n" in run(repository, "--list").stdout


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("if-changed test third: Makefile", "no step 'third' of test before this line"),
        ("if-changed test second: Makefile gone", "no file or folder 'gone'"),
        ("if-changed test second", "'if-changed test second'; want TARGET STEP SECONDS MAKE-TARGETS: WHAT"),
    ],
)
def test_a_wrong_condition_is_named(tree, line, text):
    (tree / "tests/steps.txt").write_text(f"{STEPS}{line}\n")
    done = run(tree, "test")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith(f"run_tests.py: tests/steps.txt:7: {text}")


def test_steps_can_be_chosen(tree):
    done = run(tree, "test", "second")
    assert done.stdout.startswith("[1/1] second: the second")
    assert done.returncode == 0 and not (tree / "build/logs/first.log").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["test", "third"], "unknown step 'third' of test; allowed: setup, first, second"),
        (["test", "first", "long"], "unknown step 'long' of test; allowed: setup, first, second"),
        (["tests"], "unknown target 'tests'; allowed: test, test-deep, --list, --times, --record"),
        ([], "unknown target ''; allowed: test, test-deep, --list, --times, --record"),
        (["--times"], "no times in build/logs; `make test` writes them"),
        (["--record"], "no times of steps that passed in build/logs; `make test` writes them"),
    ],
)
def test_bad_arguments(tree, arguments, text):
    done = run(tree, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"run_tests.py: {text}\n")


@pytest.mark.parametrize("line", ["test a b", "tests a 5 one: x", "test a five one: x", "test a 5 : x", "test a 5 one:", "test a 5 one; two: x"])
def test_a_line_that_is_no_step_is_named(tree, line):
    (tree / "tests/steps.txt").write_text(f"{STEPS}{line}\n")
    done = run(tree, "test")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"run_tests.py: tests/steps.txt:7: '{line}'; want TARGET STEP SECONDS MAKE-TARGETS: WHAT")


def test_a_step_is_named_once(tree):
    (tree / "tests/steps.txt").write_text(f"{STEPS}test first 1 one: again\n")
    assert run(tree, "test").stderr == "run_tests.py: tests/steps.txt:7: a second step 'first' of test\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_that_was_started(tree, number):
    """The pipe has two ends as long as a process of the step lives. One process of the step ignores the gentle signals."""
    pipe = tree / "pipe"
    os.mkfifo(pipe)
    change(tree, "one", f"@exec 3>{pipe}; (trap '' INT TERM; exec sleep 1000) & echo started >&3; sleep 1000")
    command = ["env", "--default-signal=HUP", tree / "tools/run_tests.py", "test"]  # nohup may have started this test
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        with pipe.open() as lines:
            assert lines.readline() == "started\n"
            runner.send_signal(number)
            assert lines.read() == ""
        last = runner.communicate()[0].splitlines()[-1]
    assert runner.returncode == 128 + number
    assert re.fullmatch(r"make test: stopped in first after 0:\d\d \(build/logs/first\.log\)", last)
    assert (tree / "build/logs/test.times").read_text().splitlines()[-1].endswith("stopped")


def test_a_terminal_shows_how_far_a_step_is(tree):
    """The step ends when the line about its progress was seen."""
    pipe = tree / "pipe"
    os.mkfifo(pipe)
    change(tree, "one", f"@printf %b '[3/9] Building a.c.o\\n'; read line <{pipe}")
    parent, child = pty.openpty()
    with subprocess.Popen([tree / "tools/run_tests.py", "test", "first"], stdout=child) as runner:
        os.close(child)
        seen = b""
        while b"building 3/9" not in seen:
            seen += os.read(parent, 4096)
        pipe.write_text("go on\n")
        assert runner.wait() == 0
    os.close(parent)
    assert re.search(rb"first 0:\d\d building 3/9  \(elapsed 0:\d\d, left about 0:0\d\)", seen)


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ("[1/20] Building a\n[12/20] Linking b\n", "building 12/20"),
        ("[20/20] Linking\n  3/40 Test #7: hz4.unit.a ...   Passed\n", "test 3/40"),
        ("........ [ 21%]\n...s.... [ 43%]\n", "tests 43%"),
        ("[20/20] Linking\n== preload under hz3_scale hz4\n", "preload under hz3_scale hz4"),
        ("nothing of it\n", ""),
        ("", ""),
    ],
)
def test_progress(tmp_path, text, progress):
    (tmp_path / "log").write_text(text)
    assert run_tests.progress_of(tmp_path / "log") == progress


def test_what_is_left_follows_the_pace_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "Signals", lambda: None)
    steps = [run_tests.Step("test", name, seconds, [name], name) for name, seconds in (("a", 40), ("b", 100), ("c", 10))]
    one = run_tests.Run(tmp_path, "test", steps)
    assert one.left(0, 0) == 150
    assert one.left(0, 15) == 135
    assert one.left(0, 60) == 116  # a step that takes longer does not make the others shorter
    one.results.append(run_tests.Result("a", 80, "passed"))
    assert one.left(1, 50) == 170  # twice as slow
    one.results[0] = run_tests.Result("a", 2, "passed")  # all was built before
    assert one.left(1, 0) == 55


def test_times_are_shown_and_recorded(tree):
    logs = tree / "build/logs"
    logs.mkdir(parents=True)
    (logs / "test.times").write_text("setup 5 passed\nfirst 123 passed\nsecond 4 FAILED\n")
    (logs / "test-deep.times").write_text("long 7 passed\n")
    assert run(tree, "--times").stdout.splitlines() == [
        "target     step             seconds",
        "test       setup                  5",
        "test       first                123",
        "test       second                 4  FAILED",
        "test-deep  long                   7",
        "test       all                  132",
        "test-deep  all                    7",
    ]
    assert run(tree, "--record").returncode == 0
    recorded = (tree / "tests/steps.txt").read_text()
    assert recorded == STEPS.replace("first  8 ", "first  123 ").replace("long  70 ", "long  7  ")
    assert run(tree, "--list").stdout.splitlines()[1] == "test       first              123 s  the first"


@pytest.mark.parametrize("fails", [False, True])
def test_ci_prints_the_times_whatever_happens(tree, fails):
    if fails:
        change(tree, "two", "@exit 1")
    done = subprocess.run([tree / ".ci/run"], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert (done.returncode != 0) == fails
    table = lines[lines.index("target     step             seconds") :]
    assert [tuple(line.split()[:2]) for line in table[1:6]] == [
        ("test", "setup"), ("test", "first"), ("test", "second"), ("test-deep", "setup"), ("test-deep", "long"),
    ]  # fmt: skip
    assert table[2].endswith("FAILED") == fails
    assert [line.startswith("make test-deep: 2 tests passed") for line in lines].count(True) == 1
