"""command/asking.py and the library's socket: a process is asked, and no call of it is interrupted (docs/statistics.md)."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

import asking
import pytest
import running
from test_running import COMMAND, HEAD, LIBRARY, ROOT, SERVICE, TIMEOUT_SECONDS, Service, called, good, only_child, preloaded, refused, stats, watched

BLOCKED = ROOT / "tests/command/blocked.c"
HINT = r"start it by 'hakozuna run --watch PROGRAM', or under the library with HAKOZUNA_STATS=listen"
ASKS = 100
EINTR = 4
LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can change the user and the root of a process")


def go_build(folder: pathlib.Path, text: str) -> None:
    """Makes `folder`/program, which may call C."""
    (folder / "main.go").write_text(text)
    build = ["go", "build", "-o", folder / "program", folder / "main.go"]
    subprocess.run(build, check=True, cwd=folder, env=os.environ | {"CGO_ENABLED": "1", "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod"})


def sockets(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted((folder / "hakozuna").iterdir())


def report_of(process: running.Process) -> dict:
    return json.loads(asking.ask_at_socket(process, "HAKOZUNA_STATS", TIMEOUT_SECONDS).data)


def answers(service: Service) -> None:
    with running.Process(service.pid) as process:
        assert report_of(process)["process"]["pid"] == process.inner_number


# ---- nothing is interrupted ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blocked(tmp_path_factory) -> pathlib.Path:
    program = tmp_path_factory.mktemp("blocked") / "blocked"
    subprocess.run(["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", str(BLOCKED), "-o", str(program), "-pthread"], check=True)
    return program


class Blocked:
    """The program, when all of its threads are in their calls."""

    def __init__(self, *command: object, **environment: str):
        variables = os.environ | environment
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)

    def __enter__(self) -> "Blocked":
        self.threads = {}
        for line in self.process.stdout:
            if line == "ready\n":
                break
            name, number = line.split()
            self.threads[name] = int(number)
        status = pathlib.Path(f"/proc/{self.threads['nanosleep']}/status").read_text()
        self.pid = int(re.search(r"(?m)^Tgid:\s+(\d+)$", status)[1])
        for thread in (self.pid, *self.threads.values()):
            while pathlib.Path(f"/proc/{self.pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] != "S":
                pass  # it has printed, and is on its way into the call; the test's time limit ends this
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def returned(self) -> dict[str, int]:
        """Ends the program. The calls that have returned, and their errors."""
        output = self.process.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines()
        assert output[-1] == "done"
        return {name: int(error) for name, error in (line.split() for line in output[:-1])}


def test_no_blocking_call_is_interrupted(blocked, folder):
    with Blocked(COMMAND, "run", "--watch", "--profile", blocked, XDG_RUNTIME_DIR=str(folder)) as program:
        assert len(program.threads) >= 25
        with running.Process(program.pid) as process:
            for _ in range(ASKS):
                assert report_of(process)["process"]["pid"] == program.pid
        assert "blocked, process" in good(called("heap_profile.py", program.pid, "--no-symbols"))
        assert program.returned() == {}
    assert [path for path in sockets(folder) if path.name.startswith(f"{program.pid}.")] == [], "the socket goes when the process ends"


def test_a_signal_to_the_librarys_thread_interrupts_nothing_either(blocked, folder):
    variables = {"LD_PRELOAD": str(LIBRARY), "HAKOZUNA_STATS": f"json,signal=USR2,file={folder}/%p"}
    with Blocked(blocked, **variables) as program:
        for _ in range(5):
            good(stats(program.pid, "--signal"))
        assert program.returned() == {}


def test_a_signal_to_the_process_does(blocked, folder):
    """What a signal costs; and the program does notice it."""
    variables = {"LD_PRELOAD": str(LIBRARY), "HAKOZUNA_STATS": f"json,signal=USR2,file={folder}/%p"}
    with Blocked(blocked, **variables) as program:
        os.kill(program.pid, 12)
        assert program.process.stdout.readline() == f"main {EINTR}\n"


def test_no_signal_is_sent(blocked, folder):
    strace = shutil.which("strace")
    assert strace, "run tools/setup"
    log = folder / "log"
    variables = [f"LD_PRELOAD={LIBRARY}", "-E", "HAKOZUNA_STATS=listen"]
    command = [strace, "-f", "-e", "trace=ppoll,kill,tgkill,tkill", "-o", log, "-E", *variables, blocked]
    with Blocked(*command, XDG_RUNTIME_DIR=str(folder)) as program, running.Process(program.pid) as process:
        for _ in range(ASKS):
            report_of(process)
        assert program.returned() == {}
    text = log.read_text()
    assert re.findall(r"--- SIG\w+|kill\([\d, ]*SIG\w+", text) == [], "but kill(PID, 0), which asks whether a process is there"
    (thread,) = set(re.findall(r"(?m)^(\d+) +ppoll\(\[\{.*\}, \{.*\}\], 2, NULL, NULL, 8", text))
    # a wait with more files is for a peer that has not yet asked, or not yet read
    waits = re.findall(rf"(?m)^{thread} +ppoll\(\[\{{.*\}}\], 2, ", text)
    assert 2 <= len(waits) <= ASKS + 2, "the thread wakes when it is asked, and only then"


# ---- the program's files ---------------------------------------------------------------------------


def test_the_program_has_no_file_of_ours(folder):
    """Neither at the start nor when it has closed all that it has; and it is asked all the same."""
    code = """
import os
print(sorted(map(int, os.listdir("/proc/self/fd"))))
os.closerange(3, 65536)
"""
    plain = subprocess.run(["python3", "-c", code], capture_output=True, text=True, check=True).stdout
    with watched(folder, "--watch", code=code.replace("print(", "found = (") + SERVICE.replace('"ready"', '"ready\\n%s" % found')) as service:
        assert service.process.stdout.readline() == plain
        answers(service)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_standard_files_that_are_closed_stay_closed(folder, closed):
    def first_number(*options: str) -> int:
        program = "import os; os._exit(10 + os.open('/dev/null', os.O_RDWR))"
        command = ["sh", "-c", f'exec "$@" {closed}<&-', "sh", COMMAND, "run", *options, "/usr/bin/python3", "-S", "-c", program]
        return subprocess.run(command, env=os.environ | {"XDG_RUNTIME_DIR": str(folder)}, capture_output=True, check=False).returncode

    assert first_number("--watch") == first_number() >= 10


# ---- other processes of the program ----------------------------------------------------------------

FORKS = """
import os, sys
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, b".")
    sys.stdin.read()
    os._exit(0)
os.read(read, 1)
print("ready", flush=True)
print(child, flush=True)
os.wait()
"""


def test_a_forks_child_has_a_socket_of_its_own(folder):
    with watched(folder, "--watch", code=FORKS) as service:
        child = int(service.process.stdout.readline())
        for pid in (service.pid, child):
            with running.Process(pid) as process:
                assert report_of(process)["process"]["pid"] == pid
        assert [int(path.name.partition(".")[0]) for path in sockets(folder)] == sorted([service.pid, child], key=str)


def test_a_forks_child_that_was_not_asked(folder):
    with preloaded("listen", FORKS, XDG_RUNTIME_DIR=str(folder)) as service:
        child = int(service.process.stdout.readline())
        answers(service)
        refused(2, rf"process {child} was started to listen, and does not: it is a child of .* \(the option children includes it\).*", child)


def test_a_program_after_exec_takes_the_socket_over(folder):
    code = "import os, sys; os.environ.pop('AGAIN', None) and os.execv(sys.executable, ['python3', '-c', sys.argv[1]])"
    code = f"code = {SERVICE!r}\n" + code.replace("sys.argv[1]", "code")
    with watched(folder, "--watch", code=code, AGAIN="1") as service:
        assert len(sockets(folder)) == 1
        assert HEAD.search(good(stats(service.pid)))


def test_what_exec_leaves_behind_is_removed(folder):
    """The next program is not under the library."""
    with watched(folder, "--watch", code=f"import os; os.environ.pop('LD_PRELOAD'); os.execvp('python3', ['python3', '-c', {SERVICE!r}])") as service:
        assert len(sockets(folder)) == 1
        refused(2, f"process {service.pid} does not run under hakozuna: {HINT}", service.pid, folder=folder)
        assert sockets(folder) == []


def test_what_killed_processes_leave_behind_is_removed(folder):
    """By whoever asks another process."""
    with watched(folder, "--watch") as second:
        with watched(folder, "--watch") as first:
            answers(first)
        assert len(sockets(folder)) == 2
        answers(second)
        (left,) = sockets(folder)
        assert left.name.startswith(f"{second.pid}.")


def test_children_that_end_by_exit_do_not_pile_up(folder):
    """Each removes what the ones before have left, but not the socket of a process that it cannot see."""
    code = """
import os
for _ in range(100):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
""" + SERVICE
    (folder / "hakozuna").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / f"hakozuna/{2**31 - 2}.01234567"))
        other.listen()
        with watched(folder, "--watch", code=code) as service:
            names = [path.name for path in sockets(folder)]
            assert f"{2**31 - 2}.01234567" in names and len(names) < 20, names
            answers(service)


def test_another_process_at_the_socket_is_no_answer(folder):
    """The kernel says which process listens, so a name is not believed."""
    with Service() as service:
        (folder / "hakozuna").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as other:
            path = folder / f"hakozuna/{service.pid}.01234567"
            other.bind(str(path))
            other.listen()
            assert asking.connected(str(path), service.pid) is None
            assert asking.connected(str(path), os.getpid()) is not None
        assert asking.connected(str(path), service.pid) is None and not path.exists()


# ---- what happens to a process ---------------------------------------------------------------------


def test_a_program_that_restricts_its_system_calls(folder):
    """The listener ends before, and the socket goes."""
    code = f"{LIBC}assert libc.prctl(38, 1, 0, 0, 0) == 0\n" + SERVICE
    with watched(folder, "--watch", code=code) as service:
        assert sockets(folder) == []
        with running.Process(service.pid) as process:
            assert "hakozuna-ask" not in process.threads()
        refused(2, rf"process {service.pid} was started to listen, and does not: .* restricted its system calls.*", service.pid)


def test_a_namespace_that_wants_one_thread(folder):
    code = f"{LIBC}assert libc.unshare(0x10000000) == 0, ctypes.get_errno()\n" + SERVICE
    with watched(folder, "--watch", code=code) as service:
        assert sockets(folder) == []
        service.grow(1)


NEWUSER, UNKNOWN_FLAG = 0x10000000, 1
ENTERS = "print(libc.unshare({flags}), ctypes.get_errno(), flush=True)\n"


@pytest.mark.parametrize("words", ["listen", "listen,exit,signal=USR2,file=/dev/null"])
def test_a_call_that_is_refused_for_another_reason(folder, words):
    """The kernel says EINVAL, as it does where a second thread is in the way. The listener comes back."""
    code = LIBC + SERVICE.replace('print("ready", flush=True)', 'print("ready", flush=True)\n' + ENTERS.format(flags=UNKNOWN_FLAG))
    with preloaded(words, code, XDG_RUNTIME_DIR=str(folder)) as service:
        assert service.process.stdout.readline() == "-1 22\n"
        assert len(sockets(folder)) == 1
        answers(service)
        with running.Process(service.pid) as process:
            until = time.monotonic() + TIMEOUT_SECONDS
            while "signal" in words and "hakozuna-stats" not in process.threads():  # it names itself when it first runs
                assert time.monotonic() < until
                time.sleep(0.01)
            assert len(list(process.folder.glob("task/*"))) == (3 if "signal" in words else 2)


def test_a_thread_of_the_program_is_in_the_way(folder):
    """Then ours does not end."""
    thread = "import threading\nis_over = threading.Event()\nthreading.Thread(target=is_over.wait, daemon=True).start()\n"
    code = LIBC + thread + SERVICE.replace('print("ready", flush=True)', 'print("ready", flush=True)\n' + ENTERS.format(flags=NEWUSER))
    with preloaded("listen", code, XDG_RUNTIME_DIR=str(folder)) as service:
        with running.Process(service.pid) as process:
            before = process.threads()["hakozuna-ask"]
            assert service.process.stdout.readline() == "-1 22\n"
            assert process.threads()["hakozuna-ask"] == before
        answers(service)


@is_root
def test_a_listener_that_could_not_be_told_says_why(folder):
    """In a root without /proc it sleeps for good when the program has restricted its system calls. Its socket stays."""
    (folder / "root").mkdir()
    code = f"import os\n{LIBC}os.chroot({str(folder / 'root')!r})\nassert libc.prctl(38, 1, 0, 0, 0) == 0\n" + SERVICE
    with watched(folder, "--watch", code=code) as service:
        done = stats(service.pid, "--wait", "0.5")
        assert done.returncode == 1 and "has not answered within 0.5 s: it has restricted its system calls, in a root without /proc" in done.stderr


@is_root
@pytest.mark.parametrize("change", ["os.setuid(65534)", "os.chroot({root!r})", "os.chroot({root!r}); os.setuid(65534)"])
def test_a_server_that_gives_up_rights_is_asked_by_root(folder, change):
    (folder / "root").mkdir()
    code = f"import os; {change.format(root=str(folder / 'root'))}\n" + SERVICE
    with watched(folder, "--watch", code=code) as service:
        for _ in range(3):
            answers(service)


@is_root
@pytest.mark.parametrize("change", ["os.setuid(65534)", "os.chroot({root!r})"])
def test_its_listener_still_ends(folder, change):
    (folder / "root").mkdir()
    code = f"import os\n{LIBC}{change.format(root=str(folder / 'root'))}\nassert libc.prctl(38, 1, 0, 0, 0) == 0\n" + SERVICE
    with watched(folder, "--watch", code=code) as service:
        service.grow(1)
        with running.Process(service.pid) as process:
            is_left = "hakozuna-ask" in process.threads()
        assert is_left == ("chroot" in change), "without /proc and its folder it cannot be reached, and sleeps"
        service.grow(1)


def test_a_peer_that_says_nothing_does_not_hold_others_up(folder):
    with watched(folder, "--watch") as service:
        peers = []
        for _ in range(2):
            peers.append(socket.socket(socket.AF_UNIX))
            peers[-1].connect(str(sockets(folder)[0]))
        answers(service)
        for peer in peers:
            peer.close()


def test_peers_that_do_not_read_do_not_hold_others_up(folder):
    """Nor a thread of the program that loads a library meanwhile: no lock is held while anything is sent."""
    loads = "import ctypes\n" + SERVICE.replace('print("done", flush=True)', 'ctypes.CDLL("libm.so.6"); print("done", flush=True)')
    with watched(folder, "--watch", "--profile", code=loads) as service:
        (path,) = sockets(folder)
        peers = []
        for _ in range(10):
            peers.append(socket.socket(socket.AF_UNIX))
            peers[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            peers[-1].connect(str(path))
            peers[-1].sendall(b"verbose\n" if len(peers) % 2 else b"profile\n")
        answers(service)
        service.grow(10)
        for peer in peers:
            with peer:
                assert b"".join(iter(lambda peer=peer: peer.recv(65536), b"")).endswith(b"end\n"), "and they get all of it"


def asked_for(path: pathlib.Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(request)
        peer.shutdown(socket.SHUT_WR)
        try:
            return b"".join(iter(lambda: peer.recv(65536), b""))
        except ConnectionResetError:  # it has not read all
            return b""


def test_what_can_be_asked(folder):
    with watched(folder, "--watch") as service:
        (path,) = sockets(folder)
        assert asked_for(path, b"what\n") == b"no: what is asked is not known to this version of the library\n"
        assert asked_for(path, b"profile\n") == b"no: the process makes no heap profile\n"
        for request in (b"", b"json", b"x" * 64, b"x" * 64 + b"\n"):
            assert asked_for(path, request) == b""
        for kind in ("text", "verbose"):
            text = asked_for(path, kind.encode() + b"\n").decode()
            assert text.startswith("ok\nhakozuna ") and text.endswith("end\n") and ("\nconfig:" in text) == (kind == "verbose")
        done = called("heap_profile.py", service.pid)
        assert done.returncode == 2 and "refuses: the process makes no heap profile: start it by 'hakozuna run --profile PROGRAM'" in done.stderr


@is_root
def test_another_user_gets_no_answer(folder):
    with watched(folder, "--watch") as service:
        (path,) = sockets(folder)
        code = f"""
import os, socket
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as peer:
    try:
        peer.connect({str(path)!r})
        print(peer.recv(100).decode(), end="")
    except OSError as error:
        print(error.strerror)
"""
        ask = [sys.executable, "-c", code]
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "Permission denied\n"
        for opened in (folder, folder / "hakozuna", path):
            opened.chmod(0o777)
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "no: only its user and root may ask\n"
        answers(service)


# ---- no socket -------------------------------------------------------------------------------------


def runs_without_listening(what: str, error: int, folder: pathlib.Path, **options: object) -> None:
    """The program goes on, and stderr says so once."""
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(LIBRARY), "HAKOZUNA_STATS": "listen", "HAKOZUNA_PROFILE": "listen,file=/dev/null",
                   "XDG_RUNTIME_DIR": str(folder)}  # fmt: skip
    done = subprocess.run(["/usr/bin/python3", "-c", "print(len([bytearray(1000) for _ in range(10000)]))"], env=environment, capture_output=True, text=True,
                          check=False, **options)  # fmt: skip
    line = f"hakozuna: HAKOZUNA_STATS: cannot listen in '{folder}/hakozuna': {what}: error {error}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "10000\n", line)


SYSTEM_CALLS = {"x86_64": {"socket": 41, "close_range": 436}, "aarch64": {"socket": 198, "close_range": 436}}


def filtered(number: int):
    """For preexec_fn: a filter that answers EPERM to the call of this number, and allows all others."""
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None)

    def confine() -> None:
        filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filters, 0, 0) == 0

    return confine


@pytest.mark.parametrize(("call", "what"), [("socket", "socket"), ("close_range", "a table of files of its own, which needs Linux 5.9")])
def test_a_filter_that_refuses(folder, call, what):
    runs_without_listening(what, 1, folder, preexec_fn=filtered(SYSTEM_CALLS[os.uname().machine][call]))


def test_a_filter_that_refuses_nothing_of_ours(folder):
    """As in most containers: the process was asked to listen, so it makes the calls that this takes."""
    process = subprocess.Popen([COMMAND, "run", "--watch", "python3", "-c", SERVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"XDG_RUNTIME_DIR": str(folder)}, preexec_fn=filtered(100000))  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    text = good(stats(process.pid))
    assert HEAD.search(text) and re.search(r"(?m)^RSS +\d+\.\d\d MiB$", text) and "blocks and free pages at most " in text
    assert HEAD.search(good(called("heap_stats.py", "top", process.pid, "--once", "--interval", "0.1")))
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert sockets(folder) == []


def test_a_folder_that_others_can_enter(folder):
    what = "the folder, which has to be this user's with mode 700"
    (folder / "hakozuna").mkdir()
    (folder / "hakozuna").chmod(0o755)
    runs_without_listening(what, 1, folder)
    (folder / "hakozuna").rename(folder / "other")
    (folder / "other").chmod(0o700)
    (folder / "hakozuna").symlink_to(folder / "other")
    runs_without_listening(what, 20, folder)
    runs_without_listening(what, 2, folder / "none")


def test_a_folder_whose_path_is_too_long(folder):
    long = folder / ("x" * 80)
    long.mkdir()
    with watched(long, "--watch") as service:
        answers(service)
        (path,) = pathlib.Path(f"/tmp/hakozuna-{os.geteuid()}").glob(f"{service.pid}.*")
    path.unlink()


@pytest.mark.parametrize(
    ("words", "more"), [(None, ""), ("json,exit", ""), ("json,signal=USR2,file=/dev/null", "; --signal queries it by the signal that it names")]
)
def test_a_process_that_does_not_listen(words, more):
    with preloaded(words) as service:
        refused(2, f"process {service.pid} does not listen, so it cannot be queried: {HINT}{more}", service.pid)
        service.grow(1)


def test_a_process_without_the_library():
    with Service() as service:
        refused(2, f"process {service.pid} does not run under hakozuna: {HINT}", service.pid)


# ---- other runtimes --------------------------------------------------------------------------------

GO = """
package main

// #include <stdlib.h>
import "C"
import ("fmt"; "os"; "os/signal"; "io")

func main() {
    signals := make(chan os.Signal, 100)
    signal.Notify(signals) // all of them
    C.malloc(100000)
    fmt.Println("ready")
    io.ReadAll(os.Stdin)
    fmt.Println(len(signals))
}
"""


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go (tools/setup apps)")
def test_a_go_program_that_takes_every_signal(folder):
    go_build(folder, GO)
    process = subprocess.Popen([COMMAND, "run", "--watch", folder / "program"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"XDG_RUNTIME_DIR": str(folder), "GODEBUG": "asyncpreemptoff=1"})  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    for _ in range(3):
        assert "program, pid" in good(stats(process.pid))
    assert process.communicate(timeout=TIMEOUT_SECONDS)[0] == "0\n", "it got no signal"


def test_a_process_in_a_sandbox_of_its_own(folder):
    """Another root, other processes, another /tmp: it is asked from outside."""
    bubblewrap = shutil.which("bwrap")
    assert bubblewrap, "run tools/setup"
    call = [bubblewrap, "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--ro-bind", ROOT, ROOT, "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent"]
    if subprocess.run([*map(str, call), "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("bubblewrap may make no namespaces here")
    with Service(*call, COMMAND, "run", "--watch") as service:
        pid = service.pid
        while (children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            pid = int(children[0])
        assert only_child(int(re.search(r"(?m)^PPid:\s+(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text())[1])) == pid
        with running.Process(pid) as process:
            assert process.inner_number != pid and report_of(process)["process"]["pid"] == process.inner_number
        assert HEAD.search(good(stats(pid)))
