"""What asks a process: `hakozuna run --watch`, `stats`, `top`, `profile PID`; by a signal too (running.py); and why there is no report.

test_asking.py has what only the socket needs."""

import concurrent.futures
import copy
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import types

import report_parts
import jsonschema
import pytest
import running
import top

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = ROOT / "build/bin/hakozuna"
LIBRARY = pathlib.Path(os.environ.get("HZ_LIB", ROOT / "build/lib/libhakozuna.so"))
TIMEOUT_SECONDS = 60
# Says when it is ready, keeps more with each line that it gets, and ends with its input.
SERVICE = """
import sys
import types
kept = [bytearray(200_000) for _ in range(10)]
print("ready", flush=True)
for line in sys.stdin:
    kept += [bytearray(3000) for _ in range(int(line))]
    print("done", flush=True)
"""
OVERWRITES = """
import ctypes
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)
"""
HEAD = re.compile(r"^hakozuna \d+\.\d+\.\d+, hz\d[\w-]*: python3, pid (\d+), up 0 d 0:00:\d\d, (?:1 thread|\d+ threads)$", re.MULTILINE)


class Service:
    """A running program. `call` is how it is started, in front of its own words."""

    def __init__(self, *call: object, code: str = SERVICE, **environment: str):
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        words = [*map(str, call), "python3", "-c", code]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=kept | environment)
        self.pid = self.process.pid

    def __enter__(self) -> "Service":
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def grow(self, blocks: int) -> None:
        self.process.stdin.write(f"{blocks}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


def watched(folder: pathlib.Path, *options: str, code: str = SERVICE, **environment: str) -> Service:
    """Under `hakozuna run`, whose files go to a folder of this test."""
    return Service(COMMAND, "run", *options, code=code, XDG_RUNTIME_DIR=str(folder), **environment)


def preloaded(words: str | None, code: str = SERVICE, **environment: str) -> Service:
    variables = {} if words is None else {"HAKOZUNA_STATS": words}
    return Service(code=code, LD_PRELOAD=str(LIBRARY), **variables, **environment)


def called(tool: str, *words: object, folder: pathlib.Path | None = None) -> subprocess.CompletedProcess:
    order = [sys.executable, str(ROOT / "command" / tool), *map(str, words)]
    environment = os.environ | ({"XDG_RUNTIME_DIR": str(folder)} if folder else {})
    return subprocess.run(order, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS, env=environment)


def stats(*words: object, **options: object) -> subprocess.CompletedProcess:
    return called("heap_stats.py", "stats", *words, **options)


def good(done: subprocess.CompletedProcess) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs/formats/stats-schema.json").read_text()))


# ---- a process that answers ------------------------------------------------------------------------


def test_a_program_that_run_has_started(folder):
    with watched(folder, "--watch") as service:
        text = good(stats(service.pid))
        assert HEAD.search(text)[1] == str(service.pid)
        for part in ("live ", "cached ", "free ", "held ", "RSS ", "sizes ", "classes that hold most", "  thread", "process ", "limits "):
            assert re.search(rf"(?m)^{part}", text), f"no {part}"
        place = folder / "hakozuna"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        (socket,) = place.iterdir()
        assert re.fullmatch(rf"{service.pid}\.[0-9a-f]{{16}}", socket.name) and socket.is_socket() and stat.S_IMODE(socket.stat().st_mode) == 0o600
        report = json.loads(good(stats(service.pid, "--json")))
        validator().validate(report)
        assert report["heap"]["live_bytes"] > 2_000_000 and report["process"]["pid"] == service.pid


def test_a_part_of_the_report(tmp_path):
    with watched(tmp_path, "--watch", "--lane", "hz4") as service:
        text = good(stats(service.pid, "--part", "threads", "--part", "limits"))
        assert ", hz4: " in text
        assert re.search(rf"(?m)^ +{service.pid}  python3 ", text) and "memory of the machine" in text
        assert "classes that hold most" not in text


def test_a_file_of_the_user_is_kept_and_only_his_to_read(tmp_path):
    before = os.umask(0)
    try:
        service = preloaded(f"json,signal=USR2,file={tmp_path}/%e.%p%%")
    finally:
        os.umask(before)
    with service:
        for count in (1, 2):
            good(stats(service.pid, "--signal"))
            (file,) = tmp_path.iterdir()
            assert len(file.read_text().splitlines()) == count
        assert file.name == f"python3.{service.pid}%"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_relative_file_lies_in_the_folder_of_the_process(tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r})" + SERVICE
    with preloaded("json,signal=USR1,file=report", code) as service:
        assert str(service.pid) in good(stats(service.pid, "--signal"))
    assert (tmp_path / "report").is_file()


def test_reports_as_text(tmp_path):
    with preloaded(f"verbose,signal=USR2,file={tmp_path}/%p") as service:
        text = good(stats(service.pid, "--signal"))
        assert HEAD.search(text) and "\nconfig:" in text
        for words in (["--json"], ["--part", "sizes"]):
            done = stats(service.pid, "--signal", *words)
            assert done.returncode == 2 and f"process {service.pid} writes reports as verbose, not as json: start it with " in done.stderr


def test_a_program_that_overwrites_its_environment(tmp_path):
    """As servers do to set the title of their process."""
    with watched(tmp_path, "--watch", code=OVERWRITES + SERVICE) as service:
        assert "HAKOZUNA" not in pathlib.Path(f"/proc/{service.pid}/environ").read_text()
        assert HEAD.search(good(stats(service.pid, folder=tmp_path)))
    words = f"json,signal=USR2,file={tmp_path}/%p"
    with preloaded(words, OVERWRITES + SERVICE) as service:
        done = stats(service.pid, "--signal")
        assert done.returncode == 2 and "has overwritten its environment" in done.stderr and "--words" in done.stderr
        assert HEAD.search(good(stats(service.pid, "--signal", "--words", words)))
        refused(2, "--words says which signal and file .* names, so it needs --signal", service.pid, "--words", words)


def test_several_ask_at_a_time(tmp_path):
    with watched(tmp_path, "--watch") as service, concurrent.futures.ThreadPoolExecutor() as pool:
        for done in pool.map(lambda _: stats(service.pid, "--json"), range(4)):
            assert json.loads(good(done))["process"]["pid"] == service.pid


# ---- top -------------------------------------------------------------------------------------------


def test_one_frame(tmp_path):
    with watched(tmp_path, "--watch") as service:
        text = good(called("heap_stats.py", "top", service.pid, "--once", "--interval", "0.1"))
    assert len(HEAD.findall(text)) == 1
    assert re.search(r"(?m)^live +\d+\.\d\d MiB +\d+\.\d % +(0|[+-]\d+\.\d\d) MiB/s  in use by the program: small ", text)
    assert "each second: caches refilled " in text and "blocks/s" in text and "refills/s" in text


def test_a_process_that_ends_ends_top(tmp_path):
    with watched(tmp_path, "--watch") as service:
        order = [sys.executable, ROOT / "command/heap_stats.py", "top", str(service.pid), "--interval", "0.1"]
        top = subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert top.stdout.readline().startswith("hakozuna ")
        service.process.kill()
        assert top.communicate(timeout=TIMEOUT_SECONDS)[1] == f"hakozuna top: process {service.pid} has ended\n"
        assert top.returncode == 2


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("report")
    with watched(folder, "--watch") as service:
        return json.loads(good(stats(service.pid, "--json")))


def frame(new: dict, old: dict) -> str:
    """Of one process, to a file."""
    watched = types.SimpleNamespace(new=new, old=old, problem="", growth=lambda: 0.0)
    return "\n".join(top.plain_frame([watched], top.State()))


def test_what_changes_is_shown_a_second(report):
    new = copy.deepcopy(report)
    new["process"]["uptime_ms"] += 500
    new["heap"]["live_bytes"] += 1 << 20
    new["counters"]["refill"] += 7
    new["classes"][0]["live"] += 3
    new["classes"][0]["held_bytes"] = 1 << 40  # so that it comes first
    new["threads"][0]["flush"] += 2
    new["threads"][0]["name"] = "a\x1b[2J"
    text = frame(new, report)
    assert re.search(r"(?m)^live .*% +\+2\.00 MiB/s  in use", text)
    assert "caches refilled 14, caches flushed 0," in text
    assert re.search(rf"(?m)^{new['classes'][0]['block_bytes']} B .* \+6 ", text)
    assert re.search(r"(?m)a\?\[2J .* 0 +\+4 ", text)
    same = frame(report, report)
    assert "+" not in same, "no time has passed, so no rate is known"


def test_shares_and_sums_are_those_of_the_report(report):
    heap = report["heap"]
    text = "\n".join(report_parts.totals(report, None))
    assert f"{heap['live_bytes'] / (1 << 20):.2f}" in text
    assert f"a trim returns at most {(heap['cached_bytes'] + heap['free_bytes']) / (1 << 20):.2f}" in text
    assert [report_parts.size(value) for value in (48, 2048, 2097152, 1536)] == ["48 B", "2 KiB", "2 MiB", "1536 B"]


def test_limits_that_are_near_are_marked(tmp_path):
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 40, 2 << 40))" + SERVICE
    with watched(tmp_path, "--watch", code=code) as service, running.Process(service.pid) as process:
        (found,) = [each for each in report_parts.limits_of(process) if each[0] == "Max address space"]
        assert found[2] == 2 << 40 and 1 << 20 < found[1] < found[2]
        assert "Max address space " in good(stats(service.pid, "--part", "limits"))


def test_a_near_limit(monkeypatch):
    monkeypatch.setattr(report_parts, "limits_of", lambda _: [("x", 95 << 20, 100 << 20), ("y", 50 << 20, 100 << 20)])
    assert [line.endswith("near") for line in report_parts.limits_part(None, {})] == [False, True, False]


# ---- profile ---------------------------------------------------------------------------------------


def test_a_profile_of_a_running_process(tmp_path):
    with watched(tmp_path, "--profile") as service:
        text = good(called("heap_profile.py", service.pid, "--count", "1", "--no-symbols", "--keep", tmp_path / "kept"))
        assert re.match(rf"python3, process {service.pid}: live: \d+\.\d\d MiB ±\d+ %, \d+ samples, in about \d+ blocks of \d+ stack traces\n  \d+\.\d\d MiB ±", text)
        assert "     1  20" in good(called("heap_profile.py", "list", tmp_path / "kept"))
        tool = subprocess.Popen([sys.executable, ROOT / "command/heap_profile.py", str(service.pid), "--over", "0.5", "--no-symbols"],
                                stdout=subprocess.PIPE, text=True)  # fmt: skip
        service.grow(3000)
        text = tool.communicate(timeout=TIMEOUT_SECONDS)[0]
        assert tool.returncode == 0 and "live:" not in text
        assert good(called("heap_profile.py", service.pid, "--allocated", "--no-symbols")).startswith(f"python3, process {service.pid}: allocated: ")
        assert HEAD.search(good(stats(service.pid))), "whichever variable has the word, the process can be asked for statistics"


FLOW_SERVICE = """
import ctypes, sys, threading
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
def pass_on(number):
    blocks = []
    maker = threading.Thread(target=lambda: blocks.extend(library.malloc(5000) for _ in range(number)))
    maker.start(); maker.join()
    for block in blocks[:number * 3 // 4]:
        library.free(block)
pass_on(4000)
print("ready", flush=True)
for line in sys.stdin:
    pass_on(int(line))
    print("done", flush=True)
"""


def test_the_flow_of_a_running_process(tmp_path):
    """20 MB in blocks of 5000 bytes, of which three quarters cross: 29 of 40 samples, so all figures vary by a fifth or so.

    A sample stands for about 100 blocks. Python itself has blocks of this size class, so one or two samples may be its own.
    """
    with watched(tmp_path, "--watch", "--profile", code=FLOW_SERVICE) as service:
        first = json.loads(good(stats(service.pid, "--json")))
        assert [error.message for error in validator().iter_errors(first)] == []
        (row,) = [row for row in first["flow"] if row["block_bytes"] == 5120]
        assert (row["sampled"], row["large"]) == (1, 0)
        own = row["freed_blocks"] - row["passed_blocks"]
        assert 1000 < row["passed_blocks"] < 5500 and 0 <= own < 300, "hardly a thread frees blocks of its own"
        assert 100 < row["in_flight_blocks"] < 2500, "the live blocks are expected to cross, too"
        assert sum(pair["bytes"] for pair in first["flow_pairs"]) == pytest.approx(sum(row["passed_bytes"] for row in first["flow"]), rel=0.01)
        service.grow(40000)
        second = json.loads(good(stats(service.pid, "--json")))
        passed = [sum(row["passed_bytes"] for row in each["flow"]) for each in (first, second)]
        assert passed[1] > 5 * passed[0]
        text = good(stats(service.pid, "--part", "flow"))
        assert re.search(r"(?m)^blocks that cross threads \(estimates\)[, \w]* +MiB/s +± +samples +blocks/s +in flight", text)
        assert re.search(r"(?m)^5120 B +\d+\.\d\d +\d+ % +\d+ +\d+ +\d+ ", text)
        assert re.search(rf"(?m)^\d+ +{service.pid} python3 +any +\d+\.\d\d +\d+ % +\d+ +\d+$", text)
        text = good(called("heap_profile.py", service.pid, "--flow", "--count", "1", "--no-symbols"))
        assert re.search(r" %, were freed by another thread \(\d+ samples\)\n", text) and re.search(r"(?m)^ +5120 +\d+\.\d\d +\d+ % +\d+ +\d+ +\d+ +(100|9\d)\.\d %$", text)


def test_the_flow_between_two_reports(report):
    """Rates, the order of rows, and rows that only the newer report has."""
    old, new = copy.deepcopy(report), copy.deepcopy(report)
    new["process"]["uptime_ms"] = old["process"]["uptime_ms"] + 2000

    def row(size: int, passed: int, large: int = 0) -> dict:
        return {"block_bytes": size, "large": large, "sampled": 0, "freed_blocks": 2 * passed, "freed_bytes": 2 * passed * size,
                "passed_blocks": passed, "passed_bytes": passed * size, "passed_samples": 0, "in_flight_blocks": 7, "in_flight_bytes": 7 * size}  # fmt: skip

    old["flow"], new["flow"] = [row(1 << 19, 8, 1)], [row(64, 1000), row(1 << 19, 24, 1)]
    new["flow_pairs"] = [
        {"allocated_by": 2**32 - 1, "freed_by": new["threads"][0]["thread_id"], "block_bytes": 64, "blocks": 1000, "bytes": 64000, "samples": 0},
        {"allocated_by": 5, "freed_by": 6, "block_bytes": 1 << 19, "blocks": 16, "bytes": 8 << 20, "samples": 0},
    ]
    assert [error.message for error in validator().iter_errors(new)] == []
    lines = [line.split() for line in report_parts.flow(new, old)]
    assert "(estimates)" not in lines[0]
    assert lines[1:3] == [["large,", "up", "to", "512", "KiB", "4.00", "8", "7", "3.50", "50.0", "%"], ["64", "B", "0.03", "500", "7", "0.00", "50.0", "%"]]
    assert lines[5] == ["5", "6", "512", "KiB", "4.00", "8"]
    assert lines[6] == ["others", str(new["threads"][0]["thread_id"]), "python3", "64", "B", "0.03", "500"]
    assert report_parts.flow(report, None) == []
    old["flow"][0]["passed_samples"], new["flow"][1]["passed_samples"] = 8, 24
    for one in [*new["flow"], *old["flow"]]:
        one["sampled"] = 1
    new["flow_pairs"][1]["samples"] = 4
    lines = [line.split() for line in report_parts.flow(new, old)]
    assert lines[0][5:9] == ["MiB/s", "±", "samples", "blocks/s"], "what the estimates come from, between the two reports"
    assert lines[1][5:9] == ["4.00", "25", "%", "16"] and lines[5] == ["5", "6", "512", "KiB", "4.00", "50", "%", "4", "8"]
    assert "blocks that cross threads" in frame(new, old)


# ---- no report -------------------------------------------------------------------------------------


# ---- namespaces ------------------------------------------------------------------------------------

UNSHARE = ["unshare", "--user", "--map-root-user"]
NEW_PROCESSES = [*UNSHARE, "--pid", "--fork", "--kill-child"]
# In a folder of its own: all of /, another /tmp and its own /proc.
CHROOT = """
mount --rbind / "$0" && mount -t tmpfs none "$0/tmp" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"
"""
has_namespaces = subprocess.run([*NEW_PROCESSES, "--mount-proc", "true"], capture_output=True, check=False).returncode == 0
namespaces = pytest.mark.skipif(not has_namespaces, reason="this user may make no namespaces")


def only_child(pid: int) -> int:
    (child,) = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@namespaces
def test_a_process_in_a_namespace_of_networks(tmp_path):
    with Service(*UNSHARE, "--net", COMMAND, "run", "--watch", XDG_RUNTIME_DIR=str(tmp_path)) as service:
        assert HEAD.search(good(stats(service.pid)))


@namespaces
@pytest.mark.parametrize("tool", ["stats", "top", "profile"])
def test_a_process_in_a_namespace_of_processes_is_asked_from_outside(tmp_path, tool):
    call = [*NEW_PROCESSES, "--mount-proc", COMMAND, "run", "--watch", "--profile"]
    with Service(*call, XDG_RUNTIME_DIR=str(tmp_path)) as service:
        pid = only_child(service.pid)
        words = {"stats": ["heap_stats.py", "stats", pid], "top": ["heap_stats.py", "top", pid, "--once", "--interval", "0.1"],
                 "profile": ["heap_profile.py", pid, "--no-symbols"]}  # fmt: skip
        answer = good(called(*words[tool]))
        assert "process 1: live" in answer if tool == "profile" else HEAD.search(answer)[1] == "1"


@namespaces
@pytest.mark.parametrize("mounts", [True, False])
def test_a_process_is_asked_from_inside_its_namespace(tmp_path, mounts):
    """The namespace's /proc is there, or that of its parent, which shows other processes by the same numbers."""
    program = "python3 -uc 'import time; print(1); time.sleep(1000)'"  # the signal would end a pause, and the process
    script = f"coproc {{ exec {COMMAND} run --watch {program}; }}; read -ru ${{COPROC[0]}} _; {COMMAND} stats $COPROC_PID"
    call = [*NEW_PROCESSES, *(["--mount-proc"] if mounts else []), "bash", "-c", script]
    done = subprocess.run(call, env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_SECONDS)  # fmt: skip
    if mounts:
        assert HEAD.search(good(done))
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("hakozuna stats: /proc is that of another namespace of processes: mount it here")


@namespaces
@pytest.mark.skipif(ROOT.is_relative_to("/tmp"), reason="the new root's own /tmp hides this repository")
def test_a_process_in_a_root_of_its_own(tmp_path):
    """It writes to its own /tmp, which its /proc/PID/root leads to."""
    (tmp_path / "root").mkdir()
    call = [*NEW_PROCESSES, "--mount", "bash", "-c", CHROOT, tmp_path / "root", COMMAND, "run", "--watch"]
    with Service(*call) as service:
        assert HEAD.search(good(stats(only_child(service.pid))))[1] == "1"


def test_without_proc(monkeypatch):
    def missing(_path):
        raise FileNotFoundError

    monkeypatch.setattr(os, "readlink", missing)
    with pytest.raises(running.Refused, match="/proc does not show this program"):
        running.Process(os.getpid())


# ---- refusals --------------------------------------------------------------------------------------


def refused(code: int, pattern: str, *words: object, **options: object) -> None:
    done = stats(*words, **options)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert re.fullmatch(rf"hakozuna stats: {pattern}\n", done.stderr), done.stderr


def test_no_such_process():
    with Service() as service:
        pid = service.pid
    refused(2, f"there is no process {pid}", pid)
    refused(2, f"there is no process {2**31 - 1}", 2**31 - 1)
    done = stats(2**40)
    assert (done.returncode, done.stdout) == (2, "") and f"'{2**40}': allowed is the number of a process" in done.stderr


HINT = r"start it with HAKOZUNA_STATS=json,signal=URG,file=/tmp/%e\.%p\.stats, or by 'hakozuna run --watch PROGRAM' and query it without --signal"


def test_a_process_without_the_library():
    with Service() as service:
        refused(2, f"process {service.pid} does not run under hakozuna: {HINT}", service.pid, "--signal")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (None, "was started without HAKOZUNA_STATS"),
        ("json,exit", "has HAKOZUNA_STATS=json,exit, which names no signal"),
        ("json,signal=USR2", "has HAKOZUNA_STATS=json,signal=USR2, so its reports go to stderr"),
    ],
)
def test_a_process_that_was_not_asked_like_that(words, why):
    with preloaded(words) as service:
        refused(2, f"process {service.pid} {why}: {HINT}", service.pid, "--signal")


def test_a_child_that_is_silent(tmp_path):
    code = """
import os, sys
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print("ready", flush=True)
print(child, flush=True)
os.wait()
"""
    with preloaded(f"json,signal=USR2,file={tmp_path}/%p", code) as service:
        child = int(service.process.stdout.readline())
        refused(2, rf"process {child} has HAKOZUNA_STATS=.*, and no thread 'hakozuna-stats': it is a child .* children .*", child, "--signal")
        assert pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "S", "it got no signal, which would end it"


def test_no_signal_without_a_handler(tmp_path):
    code = "import signal; signal.signal(signal.SIGUSR2, signal.SIG_DFL)" + SERVICE
    with preloaded(f"json,signal=USR2,file={tmp_path}/%p", code) as service:
        refused(2, f"process {service.pid} has no handler for signal {int(signal.SIGUSR2)}, which HAKOZUNA_STATS names", service.pid, "--signal")
        service.grow(1)


def test_a_program_with_a_handler_of_its_own(tmp_path):
    code = "import signal; signal.signal(signal.SIGUSR2, lambda *_: None)" + SERVICE
    with preloaded(f"json,signal=USR2,file={tmp_path}/%p", code) as service:
        refused(1, rf"process {service.pid} has written no report within 0\.2 s: it handles signal 12 itself, .*", service.pid, "--signal", "--wait", "0.2")


def test_a_process_that_is_stopped(tmp_path):
    with watched(tmp_path, "--watch") as service:
        service.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, service.pid, os.WSTOPPED)
        refused(2, f"process {service.pid} is stopped; after SIGCONT it can answer", service.pid)


def test_a_process_that_has_ended_but_is_not_reaped(tmp_path):
    with watched(tmp_path, "--watch") as service:
        service.process.kill()
        os.waitid(os.P_PID, service.pid, os.WEXITED | os.WNOWAIT)
        refused(2, f"process {service.pid} has ended", service.pid)


def test_reports_that_cannot_be_read_back(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with preloaded(f"json,signal=USR2,file={tmp_path}/fifo") as service:
        refused(2, f"'{tmp_path}/fifo' is not a regular file, so its reports cannot be read back", service.pid, "--signal")


def test_a_process_of_another_user():
    """As root, this test looks at its own process as another user would."""
    is_root = os.geteuid() == 0
    with running.Process(os.getpid() if is_root else 1) as process:
        if is_root:
            os.seteuid(65534)
        try:
            with pytest.raises(running.Refused, match=rf"process {process.number} belongs to root, and you are \w+"):
                process.read("environ")
        finally:
            if is_root:
                os.seteuid(0)


# ---- words -----------------------------------------------------------------------------------------


def test_every_signal_of_the_library_is_known():
    text = (ROOT / "src/front/reports/request.c").read_text()
    names = re.findall(r'\{"([A-Z0-9]+)", SIG', text)
    assert len(names) == 10
    for name in names:
        assert running.signal_of(name) == running.signal_of(f"SIG{name}") == getattr(signal, f"SIG{name}")
    assert [running.signal_of(name) for name in ("60", "12", "x", "")] == [60, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", (0, "", "text")),
        ("signal=USR1,json,file=/a,signal=USR2,signal=KIL,nonsense", (signal.SIGUSR2, "/a", "json")),
        ("verbose,file=/a,file=/b=c", (0, "/b=c", "verbose")),
    ],
)
def test_words_are_read_as_the_library_reads_them(text, found):
    words = running.words_of("HAKOZUNA_STATS", text)
    assert (words.signal, words.file, words.format) == found
    assert running.words_of("HAKOZUNA_PROFILE", "signal=USR2").file == "%e.%p.heap"


def test_a_pattern_of_files():
    assert running.path_pattern("/tmp/a[b]%e.%p%%", 7) == "/tmp/a[[]b]*.7%"


# ---- run -------------------------------------------------------------------------------------------


def run(*words: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]} | environment)


def test_run_passes_words_on(tmp_path):
    shown = 'echo "$LD_PRELOAD $HAKOZUNA_STATS"; printf "%s|" "$@"'
    done = run("run", "--lane=hz4", "--watch", "--", "sh", "-c", shown, "sh", "--watch", "two words", XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{COMMAND.parent}/../lib/libhakozuna-hz4.so.0 listen,children\n--watch|two words|"
    assert run("run", "sh", "-c", "exit 7").returncode == 7
    assert run("run", "env").stdout.count("HAKOZUNA") == 0


def test_run_puts_files_only_where_nobody_else_can(tmp_path):
    folder = tmp_path / "hakozuna"
    folder.mkdir(mode=0o755)
    order = ("run", "--watch", "true")
    done = run(*order, XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 2 and f"'{folder}' is not what it should be: directory, user {os.getuid()}, mode 755 instead of" in done.stderr
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")
    assert "is not what it should be: symbolic link" in run(*order, XDG_RUNTIME_DIR=str(tmp_path)).stderr
    assert "cannot make the folder" in run(*order, XDG_RUNTIME_DIR=str(tmp_path / "none")).stderr


@pytest.mark.parametrize("folder", ["", "relative"])
def test_a_folder_that_is_none_is_not_used(folder):
    text = run("run", "--watch", "sh", "-c", f"ls /tmp/hakozuna-{os.getuid()}/$$.*", XDG_RUNTIME_DIR=folder).stdout
    assert re.fullmatch(rf"/tmp/hakozuna-{os.getuid()}/\d+\.[0-9a-f]{{16}}\n", text)
