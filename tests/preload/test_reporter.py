"""HAKOZUNA_STATS: a process that runs is asked for statistics (docs/statistics.md)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, clean_environment, compile_c, required

pytestmark = pytest.mark.usefixtures("ours_only")

PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
HEAD = re.compile(r"^hakozuna [0-9.]+, [\w-]+: (?P<program>\S+), pid (?P<pid>\d+),", re.MULTILINE)


def environment(library: Path, words: str) -> dict[str, str]:
    return clean_environment() | {"LD_PRELOAD": str(library), "HAKOZUNA_STATS": words}


def run(library: Path, words: str, *command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True} | options
    return subprocess.run(
        [str(part) for part in command], env=environment(library, words), text=True, timeout=TIMEOUT_SECONDS, check=False, **options
    )


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("asked.c", tmp_path_factory.mktemp("asked") / "asked")


class Asked:
    """A running program. Its stderr is a pipe, so reading a report waits until it is there."""

    def __init__(self, library: Path, words: str, *command: str | Path):
        self.start(library, words, *command, stderr=subprocess.PIPE)

    def start(self, library: Path, words: str, *command: str | Path, stderr: int) -> None:
        self.process = subprocess.Popen(
            command, env=environment(library, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Asked:
        self.worker = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # also a child that should have ended
        self.process.communicate()

    def report(self) -> dict:
        return json.loads(self.process.stderr.readline())

    def end(self) -> tuple[str, str]:
        output, errors = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return output, errors


@pytest.mark.parametrize("words", ["1", "text", "exit", "text,exit"])
def test_a_report_at_exit(library: Path, words: str) -> None:
    result = run(library, words, *PYTHON, "print('out')")
    assert (result.returncode, result.stdout) == (0, "out\n")
    assert [found["program"] for found in HEAD.finditer(result.stderr)] == ["python3"]
    assert "config:" not in result.stderr


def test_a_program_that_closes_stderr_before_it_ends(library: Path) -> None:
    """As all of coreutils do."""
    assert HEAD.search(run(library, "1", "/bin/ls", "/").stderr)


def test_formats(library: Path) -> None:
    assert json.loads(run(library, "json", *PYTHON, "pass").stderr)["process"]["program"] == "python3"
    assert "\nconfig:" in run(library, "verbose", *PYTHON, "pass").stderr
    assert run(library, "0", *PYTHON, "pass").stderr == ""


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_no_report_without_exit(library: Path, end: str) -> None:
    assert run(library, "1", *PYTHON, f"import os; {end}").stderr == ""


def test_words_that_are_not_allowed(library: Path) -> None:
    """Each is named once, also when the program starts others, and the good words are obeyed."""
    result = run(library, "jsn,exit,every=0,signal=KILL", "bash", "-c", "/bin/true; /bin/true; exit 0")
    lines = result.stderr.splitlines()
    for word in ("jsn", "every=0", "signal=KILL"):
        assert [line for line in lines if line.startswith(f"hakozuna: HAKOZUNA_STATS: '{word}': allowed are ")], result.stderr
    assert lines[3].startswith("hakozuna 0"), result.stderr
    assert sum("allowed are" in line for line in lines) == 3


def test_sigterm_makes_a_report_and_ends_the_program(library: Path, asked: Path) -> None:
    with Asked(library, "json", asked, "work") as program:
        os.kill(program.worker, signal.SIGTERM)
        assert program.report()["process"]["pid"] == program.worker
        assert program.process.wait(TIMEOUT_SECONDS) == -signal.SIGTERM
        assert program.end()[1] == "", "one report"


def test_sigterm_interrupts_the_program_for_good(library: Path, asked: Path) -> None:
    """What stands behind an interrupted pause does not run while the report is written."""
    for _ in range(15):
        with Asked(library, "json", asked, "pause") as program:
            os.kill(program.worker, signal.SIGTERM)
            output, errors = program.end()
            assert (program.process.returncode, output, len(errors.splitlines())) == (-signal.SIGTERM, "", 1)


def test_two_signals_of_timeout(library: Path, asked: Path) -> None:
    """timeout(1) sends SIGTERM to the program, and at once again to its group: the report is made all the same."""
    command = ["timeout", "0.2", "env", f"LD_PRELOAD={library}", "HAKOZUNA_STATS=json", asked, "pause"]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert (result.returncode, len(result.stderr.splitlines())) == (124, 1)


class Full(Asked):
    """A running program whose stderr is a pipe that is full."""

    def __init__(self, library: Path, words: str, *command: str | Path):
        self.reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        self.start(library, words, *command, stderr=writer)
        os.close(writer)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        os.close(self.reader)


def test_a_second_sigterm_does_not_wait_for_the_report(library: Path, asked: Path) -> None:
    with Full(library, "json", asked, "pause") as program:
        end = time.monotonic() + 4
        while time.monotonic() < end and program.process.poll() is None:
            os.kill(program.worker, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(0.1)
        assert program.process.poll() == -signal.SIGTERM


def test_a_program_that_handles_sigterm_itself(library: Path) -> None:
    program = "import os, signal, sys; signal.signal(15, lambda *_: sys.exit(7)); os.kill(os.getpid(), 15)"
    result = run(library, "json", *PYTHON, program)
    assert result.returncode == 7
    assert len(result.stderr.splitlines()) == 1


def test_a_signal_that_was_ignored_stays_ignored(library: Path) -> None:
    program = "import os; os.kill(os.getpid(), 15); print('on')"
    result = run(library, "json", "bash", "-c", f'trap "" TERM; exec {" ".join(PYTHON)} "{program}"')
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (0, "on\n", 1)


def test_a_signal_at_any_time(library: Path, asked: Path) -> None:
    """Threads allocate, and the signal also reaches those that are inside malloc."""
    with Asked(library, "json,signal=USR2", asked, "work") as program:
        for _ in range(50):
            os.kill(program.worker, signal.SIGUSR2)
            report = program.report()
            assert report["process"]["pid"] == program.worker
            assert report["heap"]["live_bytes"] == sum(row["live_bytes"] for row in report["ranges"])
        output, errors = program.end()
        assert (program.process.returncode, output, errors) == (0, "counted 0\n", ""), "no report at exit was asked for"


def test_a_handler_of_the_program_wins(library: Path, asked: Path) -> None:
    with Asked(library, "json,signal=USR2,exit", asked, "handler") as program:
        os.kill(program.worker, signal.SIGUSR2)
        output, errors = program.end()
    assert output == "counted 1\n"
    report, complaint = errors.splitlines()
    assert json.loads(report)["process"]["program"] == "asked"
    assert complaint == f"hakozuna: HAKOZUNA_STATS: the program uses signal {signal.SIGUSR2.value} itself, so it no longer makes reports"


def test_a_report_every_second(library: Path, asked: Path) -> None:
    with Asked(library, "json,every=1", asked, "work") as program:
        times = [program.report()["process"]["uptime_ms"] for _ in range(3)]
        assert 900 < times[1] - times[0], "not more often"
        assert 900 < times[2] - times[1], "not more often"


def test_children_are_silent_unless_asked(library: Path) -> None:
    script = "/usr/bin/python3 -I -S -c pass; /usr/bin/python3 -I -S -c pass; exit 0"
    names = [found["program"] for found in HEAD.finditer(run(library, "1", "bash", "-c", script).stderr)]
    assert names == ["bash"]
    names = [found["program"] for found in HEAD.finditer(run(library, "1,children", "bash", "-c", script).stderr)]
    assert names == ["python3", "python3", "bash"]


def test_a_program_that_executes_another_is_still_the_one_that_was_asked(library: Path) -> None:
    result = run(library, "1", "bash", "-c", "exec /usr/bin/python3 -I -S -c pass")
    assert [found["program"] for found in HEAD.finditer(result.stderr)] == ["python3"]


@pytest.mark.parametrize("words", ["json,signal=USR2,exit", "json,signal=USR2,exit,children"])
def test_a_forks_child(library: Path, asked: Path, words: str) -> None:
    with Asked(library, words, asked, "fork") as program:
        assert program.worker != program.process.pid
        os.kill(program.worker, signal.SIGUSR2)
        if "children" in words:
            assert program.report()["process"]["pid"] == program.worker
        os.kill(program.process.pid, signal.SIGUSR2)
        assert program.report()["process"]["pid"] == program.process.pid
        os.kill(program.worker, signal.SIGTERM)
        program.process.wait(TIMEOUT_SECONDS)  # the parent ends after the child
        output, errors = program.end()
        pids = [json.loads(line)["process"]["pid"] for line in errors.splitlines()]
        assert pids == ([program.worker] if "children" in words else []) + [program.process.pid]
        assert program.process.returncode == 128 + signal.SIGTERM, "the child has ended by the signal"
        assert output == ""


def test_sigterm_ends_a_forks_child_that_reports(library: Path, asked: Path) -> None:
    with Asked(library, "json,children", asked, "fork") as program:
        os.kill(program.worker, signal.SIGTERM)
        assert program.process.wait(TIMEOUT_SECONDS) == 128 + signal.SIGTERM
        assert program.report()["process"]["pid"] == program.worker


def test_a_child_that_the_c_library_does_not_know_of(library: Path, asked: Path) -> None:
    result = run(library, "json", asked, "copy")
    assert (result.returncode, len(result.stderr.splitlines())) == (3, 1)


def test_such_a_child_with_its_parents_number(library: Path, asked: Path) -> None:
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "env"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs root, who can make a namespace of processes")
    command = [*namespace, f"LD_PRELOAD={library}", "HAKOZUNA_STATS=json", asked, "first"]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert (result.returncode, len(result.stderr.splitlines())) == (3, 1)


def test_a_daemon_does_not_keep_stderr_open(library: Path) -> None:
    lives, end = os.pipe()
    program = f"""
import os
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
os.close({end})
os.read({lives}, 1)
"""
    try:
        result = run(library, "1", *PYTHON, program, pass_fds=(lives, end))  # waits for the end of stderr
    finally:
        os.close(end)
        os.close(lives)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_file_with_the_number_of_stderr(library: Path, tmp_path: Path) -> None:
    program = f"import os; os.close(2); os.write(os.open('{tmp_path}/data', os.O_RDWR | os.O_CREAT), b'precious')"
    assert HEAD.search(run(library, "1", *PYTHON, program).stderr)
    assert (tmp_path / "data").read_text() == "precious"


def test_another_request_in_a_process_that_is_observed(library: Path) -> None:
    python = " ".join(PYTHON) + " pass"
    result = run(library, "1,exit", "bash", "-c", f"HAKOZUNA_STATS=json {python}; {python}; exit 0")
    first, _, rest = result.stderr.partition("\n")
    assert json.loads(first)["process"]["program"] == "python3"
    assert [found["program"] for found in HEAD.finditer(rest)] == ["bash"]


def test_the_reporter_has_ordinary_priority(library: Path) -> None:
    if subprocess.run(["chrt", "--fifo", "1", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to set a real-time priority")
    program = """
import os, time
found = {}
while "hakozuna-stats" not in found:  # the thread names itself when it first runs; the test's timeout ends this
    time.sleep(0.001)  # a real-time thread would keep it from running
    for thread in os.listdir("/proc/self/task"):
        found[open(f"/proc/self/task/{thread}/comm").read().strip()] = os.sched_getscheduler(int(thread))
for name, policy in found.items():
    print(name, policy)
"""
    lines = run(library, "1", "chrt", "--fifo", "1", *PYTHON, program).stdout.splitlines()
    assert f"hakozuna-stats {os.SCHED_OTHER}" in lines
    assert f"python3 {os.SCHED_FIFO}" in lines


@pytest.mark.parametrize(("words", "reports"), [("json", 1), ("listen", 0), ("json,exit,listen", 1)])
def test_our_threads_do_not_keep_a_process_alive(library: Path, asked: Path, words: str, reports: int) -> None:
    result = run(library, words, asked, "leave")
    assert (result.returncode, len(result.stderr.splitlines())) == (0, reports)


def test_a_listener_that_ends_slowly_does_not_end_the_process(library: Path, asked: Path) -> None:
    """The process's last thread calls exit. The listener has other files, in which the report at exit would be lost."""
    tracer = [required("strace"), "-f", "-o", os.devnull, "-e", "trace=unlinkat", "-e", "inject=unlinkat:delay_enter=200000"]
    variables = ["-E", "HAKOZUNA_STATS=json,exit,listen", "-E", f"LD_PRELOAD={library}"]
    result = subprocess.run([*tracer, *variables, asked, "leave"], capture_output=True, text=True, check=False)
    assert (result.returncode, len(result.stderr.splitlines())) == (0, 1), result.stderr


def test_files(library: Path, tmp_path: Path) -> None:
    result = run(library, f"json,file={tmp_path}/%e.%p.%%", *PYTHON, "import os; print(os.getpid())")
    path = tmp_path / f"python3.{result.stdout.strip()}.%"
    assert result.stderr == ""
    assert json.loads(path.read_text())["process"]["pid"] == int(result.stdout)
    assert path.stat().st_mode & 0o777 == 0o600
    for _ in range(2):
        run(library, f"json,file={tmp_path}/one", *PYTHON, "pass")
    assert len((tmp_path / "one").read_text().splitlines()) == 2, "reports are added"


def test_no_report_through_a_symbolic_link(library: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    result = run(library, f"1,file={tmp_path}/link", *PYTHON, "pass")
    assert result.stderr == f"hakozuna: HAKOZUNA_STATS: cannot write {tmp_path}/link: error 40\n"
    assert (tmp_path / "target").read_text() == "precious"


def test_a_fifo_without_a_reader(library: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    result = run(library, f"1,file={tmp_path}/fifo", *PYTHON, "import os; print([n for n in os.listdir('/proc/self/fd') if int(n) > 9])")
    assert (result.returncode, result.stdout) == (0, "[]\n"), "with a file, no copy of stderr is kept"
    assert result.stderr == f"hakozuna: HAKOZUNA_STATS: cannot write {tmp_path}/fifo: error 6\n"


def test_a_full_disk_is_reported_once(library: Path, asked: Path) -> None:
    with Asked(library, "exit,signal=USR2,file=/dev/full", asked, "work") as program:
        os.kill(program.worker, signal.SIGUSR2)
        assert program.process.stderr.readline() == "hakozuna: HAKOZUNA_STATS: cannot write /dev/full: error 28\n"
        assert program.end() == ("counted 0\n", "")
        assert program.process.returncode == 0


def test_a_report_that_does_not_fit_is_taken_back(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("{}\n")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))}
    result = run(library, f"json,file={path}", *PYTHON, "pass", **limit)
    assert (result.returncode, result.stderr) == (0, f"hakozuna: HAKOZUNA_STATS: cannot write {path}: error 27\n")
    assert path.read_text() == "{}\n"


def test_nobody_reads_the_report(library: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = run(library, "1", *PYTHON, "pass", capture_output=False, stderr=writer)
    os.close(writer)
    assert result.returncode == 0


def test_signals_of_writes_are_as_without_a_report(library: Path, asked: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    unread = run(library, "1", asked, "buffered", capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    assert unread.returncode == -signal.SIGPIPE
    assert HEAD.search(unread.stderr)
    silent = run(library, "1", asked, "buffered", capture_output=False, stdout=subprocess.PIPE, stderr=writer)
    assert (silent.returncode, silent.stdout) == (0, "text\n")
    os.close(writer)


def test_programs_with_more_rights_than_their_caller_ignore_it(library: Path) -> None:
    if os.geteuid() != 0 or os.statvfs("/tmp").f_flag & os.ST_NOSUID:
        pytest.skip("needs root, who can make a set-user-ID program of another user, in a place where it has an effect")
    folder = Path("/tmp") / f"hz-setuid-{os.getpid()}"  # others must be able to read it
    folder.mkdir()
    try:
        copy = shutil.copy(library, folder / re.sub(r"\.so.*", ".so.0", library.name))  # the name that programs look for
        program = compile_c("asked.c", folder / "program", copy, f"-Wl,-rpath,{folder}")
        plain = subprocess.run([program], env={"HAKOZUNA_STATS": "1"}, capture_output=True, text=True, check=False)
        assert HEAD.search(plain.stderr), "a linked program is asked too"
        os.chmod(folder, 0o755)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        raised = subprocess.run([program], env={"HAKOZUNA_STATS": "1"}, capture_output=True, text=True, check=False)
        assert (raised.returncode, raised.stderr) == (3, "")
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("place", ["", ",listen", ",file=/tmp/hakozuna-never-%p"])
def test_a_program_that_restricts_its_system_calls(library: Path, tmp_path: Path, place: str) -> None:
    """The filter kills for any call but those of memory and write: the reporter must have ended, and the report at exit
    must manage with these."""
    program = compile_c("sandbox.c", tmp_path / "sandbox")
    calls = "=mmap,munmap,mprotect,madvise,mremap,futex,write,exit_group"
    result = run(library, f"json,exit,signal=USR2{place}", program, "late", "prctl:kill", "exit", calls)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    if "file" in place:
        assert "restricted its system calls" in result.stderr
        return
    report = json.loads(result.stderr)
    process = report["process"]
    assert (process["program"], process["pid"]) == ("sandbox", 0)
    assert process.keys() == {"program", "pid", "keeper", "keeper_advice", "soft_limit_bytes", "soft_limit_source"}


def test_the_command_of_the_page(library: Path, tmp_path: Path) -> None:
    """docs/statistics.md: ask a server that runs."""
    server = subprocess.Popen(
        [required("redis-server"), "--port", "0", "--unixsocket", str(tmp_path / "socket"), "--save", ""],
        env=environment(library, f"signal=USR2,file={tmp_path}/%e.%p"), stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        while "eady to accept connections" not in server.stdout.readline():
            assert server.poll() is None
        path = tmp_path / f"redis-server.{server.pid}"
        os.mkfifo(path)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
            os.kill(server.pid, signal.SIGUSR2)
            assert select.select([reader], [], [], TIMEOUT_SECONDS)[0]
            os.set_blocking(reader.fileno(), True)
            text = reader.read()
        assert HEAD.match(text)["pid"] == str(server.pid)
        assert "\nlive " in text
    finally:
        server.terminate()
        server.communicate(timeout=TIMEOUT_SECONDS)
