"""HAKOZUNA_PROFILE=wait: a process is sampled from the moment at which somebody asks (docs/profile.md#waiting)."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import time

import heap_profile
import pytest
from test_asking import asked_for, go_build, sockets
from test_running import LIBRARY, ROOT, TIMEOUT_SECONDS, Service, called

PROGRAM = ROOT / "tests/command/waiting.c"
WAITS = b"no: it waits to be asked to sample: profile start, or profile for=SECONDS\n"
RATE = 4096
SMALL, BLOCKS = 3000, 100  # of the program


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("waiting") / "waiting"
    words = ["cc", "-std=gnu11", "-O1", "-g", "-fno-optimize-sibling-calls", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*words, str(PROGRAM), "-o", str(file), "-pthread", "-ldl"], check=True)
    return file


class Waiting:
    """The program, which waits to be profiled."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path, words: str = f"wait,rate={RATE}", **environment: str):
        variables = os.environ | {"LD_PRELOAD": str(LIBRARY), "HAKOZUNA_PROFILE": words, "XDG_RUNTIME_DIR": str(folder)} | environment
        self.folder = folder
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        self.pid = self.process.pid

    def __enter__(self) -> "Waiting":
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def tell(self, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def socket(self, pid: int | None = None) -> pathlib.Path:
        (path,) = (path for path in sockets(self.folder) if path.name.startswith(f"{pid or self.pid}."))
        return path

    def ask(self, words: bytes) -> tuple[str, heap_profile.Moment]:
        """What was done, and the profile."""
        answer = asked_for(self.socket(), words + b"\n")
        assert answer.startswith(b"ok\n") and answer.endswith(b"end\n"), answer[:200]
        done, _, data = answer.removeprefix(b"ok\n").partition(b"\n") if words != b"profile" else (b"", b"", answer.removeprefix(b"ok\n"))
        reader = heap_profile.Reader("answer", data.removesuffix(b"end\n"))
        moment = reader.moment()
        assert reader.at == len(reader.data)
        return done.decode(), moment


def allocated(moment: heap_profile.Moment) -> float:
    return sum(values[1] for values in moment.estimates().values())


def live(moment: heap_profile.Moment) -> float:
    return sum(values[3] for values in moment.estimates().values())


def profile(*words: object) -> subprocess.CompletedProcess:
    return called("heap_profile.py", *words)


# ---- it begins when somebody asks ------------------------------------------------------------------


def test_nothing_is_sampled_before(program, folder):
    with Waiting(program, folder) as service:
        assert service.tell("work") == "done"
        assert asked_for(service.socket(), b"profile\n") == WAITS
        assert service.tell("keep") == "done"
        done, moment = service.ask(b"profile start")
        assert done == "began 0" and moment.rate == RATE and allocated(moment) == 0


def test_threads_that_run_already_are_sampled(program, folder):
    """Whether they run, or wait in a call of the C library; and the first one."""
    with Waiting(program, folder) as service:
        service.tell("work")
        assert service.ask(b"profile start")[0] == "began 0"
        for _ in range(20):
            service.tell("work")
        service.tell("keep")
        text = profile(service.pid, "--allocated", "--count", 100)
        assert text.returncode == 0 and text.stderr == ""
        for function in ("first", "second", "third", "main"):
            assert re.search(rf"(?m)^    {function}  ", text.stdout), f"{function} in {text.stdout}"
        _, moment = service.ask(b"profile")
        exact = 20 * 3 * (BLOCKS * SMALL + 300000) + BLOCKS * SMALL
        assert 0.9 * exact < allocated(moment) < 1.1 * exact, "the deviation is below 1 %"
        assert 0.5 * BLOCKS * SMALL < live(moment) < 1.5 * BLOCKS * SMALL


def test_the_first_question_begins_it(program, folder):
    with Waiting(program, folder) as service:
        first = profile(service.pid)
        assert first.returncode == 0 and "live: 0.00 MiB, 0 samples" in first.stdout
        assert first.stderr == f"hakozuna profile: process {service.pid} begins to sample allocations now\n"
        service.tell("keep")
        second = profile(service.pid)
        assert second.returncode == 0 and second.stderr == "" and "main  " in second.stdout


def test_blocks_from_before_are_freed_as_ever(program, folder):
    with Waiting(program, folder) as service:
        service.tell("keep")
        service.ask(b"profile start")
        service.tell("keep")
        service.tell("drop")
        service.tell("work")
        _, moment = service.ask(b"profile")
        assert live(moment) == 0 and allocated(moment) > 0


# ---- how it ends -----------------------------------------------------------------------------------


def test_it_ends_and_begins_again(program, folder):
    with Waiting(program, folder) as service:
        service.ask(b"profile start")
        service.tell("keep")
        done, ended = service.ask(b"profile stop")
        assert done == "ended 0" and live(ended) > 0
        for _ in range(10):
            service.tell("work")
        assert allocated(service.ask(b"profile")[1]) == allocated(ended), "nothing is sampled"
        service.tell("drop")
        assert live(service.ask(b"profile")[1]) == 0, "but what was is seen to be freed"
        assert profile(service.pid).stderr == "", "a question does not begin it again"
        assert service.ask(b"profile start")[0] == "began 0"
        service.tell("work")
        assert allocated(service.ask(b"profile")[1]) > allocated(ended)


def test_stop_from_the_command(program, folder):
    with Waiting(program, folder) as service:
        early = profile(service.pid, "--stop")
        assert early.returncode == 2 and "nobody has asked it to sample yet" in early.stderr
        assert profile(service.pid, "--start").stderr == f"hakozuna profile: process {service.pid} begins to sample allocations now\n"
        assert profile(service.pid, "--start").stderr == f"hakozuna profile: process {service.pid} samples allocations already\n"
        service.tell("keep")
        done = profile(service.pid, "--stop")
        assert done.stderr == f"hakozuna profile: process {service.pid} no longer samples allocations\n" and "main  " in done.stdout


def runs(service: Waiting) -> bool:
    """Whether it samples now. The shortest question changes nothing if it does."""
    return service.ask(b"profile for=1")[0].startswith("runs")


def test_for_some_seconds(program, folder):
    """What is allocated meanwhile, and nothing afterwards: it ends by itself, also if nobody fetches the profile."""
    with Waiting(program, folder) as service:
        service.tell("keep")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(profile, service.pid, "--seconds", 2, "--count", 100)
            while asked_for(service.socket(), b"profile\n") == WAITS:
                time.sleep(0.01)
            service.tell("work")
            service.tell("drop")
            done = answer.result(TIMEOUT_SECONDS)
        assert done.returncode == 0 and done.stdout.startswith(f"waiting, process {service.pid}: allocated: ")
        assert "first  " in done.stdout and "    main  " not in done.stdout
        before = allocated(service.ask(b"profile")[1])
        assert service.ask(b"profile for=1")[0].startswith("began"), "its seconds are over"
        end = time.monotonic() + TIMEOUT_SECONDS
        while runs(service):
            assert time.monotonic() < end
            time.sleep(2)
        assert allocated(service.ask(b"profile")[1]) == before


def test_several_ask_at_once(program, folder):
    """The longest counts, and each gets its own part."""
    with Waiting(program, folder) as service:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = [pool.submit(profile, service.pid, "--seconds", seconds, "--no-symbols") for seconds in (1, 3, 1, 3, 2)]
            while not all(answer.done() for answer in answers):
                service.tell("work")
        for answer in answers:
            assert answer.result().returncode == 0 and ": allocated: " in answer.result().stdout
            assert re.search(r"(began|begins|samples) .*", answer.result().stderr)
        assert sum("begins to sample" in answer.result().stderr for answer in answers) == 1


def test_for_good_outlives_a_time(program, folder):
    with Waiting(program, folder) as service:
        assert service.ask(b"profile for=1")[0].startswith("began")
        assert service.ask(b"profile start")[0].startswith("runs")
        time.sleep(1.5)  # not to wait for anything: there would be nothing to see
        assert runs(service)
        service.ask(b"profile stop")
        service.tell("keep")
        assert live(service.ask(b"profile")[1]) == 0


def test_pprof_of_some_seconds(program, folder):
    with Waiting(program, folder) as service:
        file = folder / "profile.pb.gz"
        done = profile(service.pid, "--seconds", 1, "--pprof", file)
        assert done.returncode == 0 and done.stdout == f"{file}\n" and file.stat().st_size > 0


def test_a_profile_that_does_not_wait_cannot_be_stopped(program, folder):
    with Waiting(program, folder, f"listen,rate={RATE}") as service:
        service.tell("keep")
        done = profile(service.pid, "--stop")
        assert done.returncode == 2 and "only with HAKOZUNA_PROFILE=wait" in done.stderr
        assert service.ask(b"profile for=1")[0] == "runs 0"
        time.sleep(1.5)  # as above
        before = allocated(service.ask(b"profile")[1])
        service.tell("work")
        assert allocated(service.ask(b"profile")[1]) > before > 0


# ---- words -----------------------------------------------------------------------------------------


def test_words_that_are_unknown_are_named(program, folder):
    with Waiting(program, folder) as service:
        for request in (b"profile begin", b"profile  start", b"profile for", b"profilex", b"wait"):
            assert asked_for(service.socket(), request + b"\n") == b"no: what is asked is not known to this version of the library\n"
        for request in (b"profile for=0", b"profile for=", b"profile for=86401", b"profile for=1s", b"profile for=-1", b"profile for=99999999999"):
            assert asked_for(service.socket(), request + b"\n") == b"no: profile for=SECONDS: allowed are 1 to 86400\n"
        assert asked_for(service.socket(), b"profile\n") == WAITS, "none of them has begun it"
        for words in (["--seconds", "0"], ["--seconds", "1.5"], ["--seconds", "86401"], ["--seconds", "1", "--over", "1"], ["--start", "--stop"]):
            assert profile(service.pid, *words).returncode == 2
        assert asked_for(service.socket(), b"profile\n") == WAITS
    with Waiting(program, folder, "wait,wiat,rate=0") as service:
        service.process.stdin.close()
        errors = service.process.stderr.read()
        assert "HAKOZUNA_PROFILE: 'wiat': allowed are rate=BYTES" in errors and ", listen, wait, " in errors and "'rate=0'" in errors
    with Waiting(program, folder, "0", HAKOZUNA_STATS="wait") as service:
        service.process.stdin.close()
        assert "HAKOZUNA_STATS: 'wait': allowed are text" in service.process.stderr.read()


def test_a_signal_cannot_begin_it(program, folder):
    with Waiting(program, folder, "wait,signal=USR2") as service:
        done = profile(service.pid, "--signal", "--seconds", 1)
        assert done.returncode == 2 and "need the socket" in done.stderr


def test_a_profile_at_exit_only_if_somebody_has_asked(program, folder):
    for asks in (False, True):
        code = "import os, sys; print('ready', flush=True); kept = [bytearray(9000) for _ in sys.stdin]"
        file = folder / f"{asks}.heap"
        with Service(code=code, LD_PRELOAD=str(LIBRARY), HAKOZUNA_PROFILE=f"wait,exit,leak,file={file}", XDG_RUNTIME_DIR=str(folder)) as service:
            if asks:
                assert profile(service.pid, "--start").returncode == 0
            service.process.communicate("x\n" * 1000, timeout=TIMEOUT_SECONDS)
            assert service.process.returncode == 0
        assert file.exists() == asks


# ---- other processes, and the program itself -------------------------------------------------------


def test_a_forks_child_is_not_sampled(program, folder):
    with Waiting(program, folder, f"wait,children,rate={RATE}") as service:
        service.ask(b"profile start")
        child = int(service.tell("fork"))
        try:
            while not (found := [path for path in sockets(folder) if path.name.startswith(f"{child}.")]):
                time.sleep(0.01)
            (path,) = found
            before = asked_for(path, b"profile for=1\n")
            assert before.startswith(b"ok\nbegan 0\n"), "nobody has asked the child"
            assert service.ask(b"profile start")[0].startswith("runs"), "the parent goes on"
        finally:
            os.kill(child, 9)


def test_the_program_begins_it(program, folder):
    """While other threads exist; and then it is not begun again."""
    with Waiting(program, folder) as service:
        service.tell("work")
        assert service.tell("start") == "0" and service.tell("start") == "EALREADY"
        for _ in range(10):
            service.tell("work")
        text = profile(service.pid, "--allocated", "--count", 100)
        assert text.stderr == "" and all(f"    {name}  " in text.stdout for name in ("first", "second", "third"))
        assert service.ask(b"profile stop")[0] == "ended 0" and service.tell("start") == "0"


def test_python(folder):
    code = "import sys; print('ready', flush=True)\nfor line in sys.stdin: kept = [bytearray(3000) for _ in range(int(line))]; print('done', flush=True)"
    with Service(code=code, LD_PRELOAD=str(LIBRARY), HAKOZUNA_PROFILE="wait", XDG_RUNTIME_DIR=str(folder)) as service:
        assert profile(service.pid, "--start").returncode == 0
        service.grow(5000)
        text = profile(service.pid)
        assert text.returncode == 0 and re.search(r"live: \d\d\.\d\d MiB ±\d+ %, \d+ samples", text.stdout), text


GO = """
package main

// #include <stdlib.h>
// static void *volatile kept[10000];
// static void keep(int i) { kept[i] = calloc(1, 3000); }
import "C"
import ("bufio"; "fmt"; "os")

func main() {
    fmt.Println("ready")
    for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
        for i := 0; i < 10000; i++ { C.keep(C.int(i)) }
        fmt.Println("done")
    }
}
"""


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go (tools/setup apps)")
def test_go(folder):
    go_build(folder, GO)
    with Waiting(folder / "program", folder, "wait") as service:
        assert profile(service.pid, "--start").returncode == 0
        assert service.tell("x") == "done"
        text = profile(service.pid)
        assert text.returncode == 0 and re.search(r"live: \d\d\.\d\d MiB ±\d+ %, \d+ samples", text.stdout) and "keep" in text.stdout, text


# ---- it costs nothing before -----------------------------------------------------------------------


def instructions(program: pathlib.Path, folder: pathlib.Path, words: str | None) -> int:
    """Of the program's function and all that it calls, with bins that are filled."""
    log = folder / f"callgrind.{words}"
    call = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={log}", "--toggle-collect=counted", program, "count"]
    variables = {"LD_PRELOAD": str(LIBRARY), "XDG_RUNTIME_DIR": str(folder)} | ({} if words is None else {"HAKOZUNA_PROFILE": words})
    subprocess.run(call, capture_output=True, check=True, env=os.environ | variables, timeout=TIMEOUT_SECONDS)
    (total,) = re.findall(r"(?m)^(?:summary|totals): (\d+)$", log.read_text())[:1]
    return int(total)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind (tools/setup)")
def test_not_an_instruction_more_before(program, folder):
    plain = instructions(program, folder, None)
    assert plain > 100_000
    assert instructions(program, folder, "wait") == plain
    assert instructions(program, folder, "rate=512K,listen") > plain, "and the count does notice the sampling"
