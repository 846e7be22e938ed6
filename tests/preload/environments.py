"""The environments in which people run programs, each as this machine has it, and what a program does there.

An environment is a list of seccomp profiles that are installed before exec, a command that is put before the program's
own, or both. The program is programs/returns.c: its threads work and then sleep, and it is looked at from outside, in
the /proc of this machine, since not every environment has one of its own. tools/environments_table.py makes a table of all of
them, test_environments.py a test of each that any machine can have.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.append(str(TESTS.parents[1] / "hakobench/src"))  # seccomp.py needs none of the packages that hakobench needs

from hakobench import seccomp  # noqa: E402 - after the line above

WORKERS = 9  # threads that returns.c starts
KEEPER = "hakozuna"
SLEEP_SECONDS = 3
START_SECONDS = 60
LATEST_SECONDS = 10  # after the sleep, on a busy machine
NOBODY = 65534
UNIT_FAILED = 255
FAULT = 3  # exit code of returns.c: a block has lost its contents
# What the library can use beyond what glibc's malloc and threads need, as returns.c names it.
CALLS = (
    "membarrier", "prctl", "sched_getaffinity", "sched_setscheduler", "setpriority", "tgkill", "close_range", "getrusage",
    "mincore", "/proc", "/sys/fs/cgroup",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A folder with the program, the library, and a root folder for containers. All users can enter it."""

    folder: Path
    program: Path
    library: Path | None  # None: glibc's malloc

    @property
    def root(self) -> Path:
        """A root folder in which the system's programs and libraries are to be mounted."""
        return self.folder / "root"

    def preloaded(self, command: list[str]) -> list[str]:
        """The command, with the library preloaded into it and not into what starts it."""
        return command if self.library is None else ["/usr/bin/env", f"LD_PRELOAD={self.library}", *command]


@contextlib.contextmanager
def place(library: Path | None) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="hz-environments-"))
    folder.chmod(0o755)
    program = folder / "returns"
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fno-builtin", str(TESTS / "programs/returns.c"), "-o", program, "-pthread"],
        check=True,
    )
    copied = Path(shutil.copy(library, folder)) if library is not None else None
    made = Place(folder, program, copied)
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", str(folder).lstrip("/")):
        (made.root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (made.root / name).symlink_to(f"usr/{name}")
    (made.root / "etc/os-release").write_text("ID=hakozuna-test\n")  # systemd-nspawn wants one
    (made.root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    try:
        yield made
    finally:
        # each environment mounts in a namespace of its own; were it not so, this would remove the machine's programs
        assert str(folder) not in Path("/proc/self/mounts").read_text(), f"something is still mounted below {folder}"
        shutil.rmtree(folder, ignore_errors=True)


# ---- what puts a program into an environment -------------------------------------------------------------


def plain(_: Place, command: list[str]) -> list[str]:
    return command


def after(*words: str) -> Callable[[Place, list[str]], list[str]]:
    """`words`, then the command."""
    return lambda place, command: [*words, *place.preloaded(command)]


def bubblewrap(*options: str) -> Callable[[Place, list[str]], list[str]]:
    return after("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", *options, "--")


def bubblewrap_flatpak(place: Place, command: list[str]) -> list[str]:
    """As flatpak starts an application: bubblewrap gets the filter as a file, and installs it last."""
    code = place.folder / "flatpak.bpf"
    code.write_bytes(seccomp.compiled(seccomp.read("flatpak")))
    inner = bubblewrap("--seccomp", "9")(place, command)
    return ["sh", "-c", 'exec "$@" 9<"$0"', str(code), *inner]


def no_proc(place: Place, command: list[str]) -> list[str]:
    """In a root folder that has the system's programs but no /proc and no /sys."""
    binds = ["--ro-bind", "/usr", "/usr", "--dev", "/dev", "--ro-bind", str(place.folder), str(place.folder)]
    links = [word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    return ["bwrap", *binds, *links, "--unshare-pid", "--die-with-parent", "--", *place.preloaded(command)]


MOUNTS = (
    ("/usr", "/usr", "none", ("bind", "ro")),
    ("proc", "/proc", "proc", ()),
    ("tmpfs", "/dev", "tmpfs", ("nosuid", "mode=755")),
    ("sysfs", "/sys", "sysfs", ("nosuid", "noexec", "nodev", "ro")),
)
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip


def bundle(place: Place, command: list[str], name: str, hardened: bool) -> Path:
    """A container for an OCI runtime: a folder with its config.json, with the seccomp profile of Docker and containerd.
    `hardened`: another user, no capability, no new privileges, a limit for memory and threads."""
    profile = {key: value for key, value in seccomp.read("container").items() if key != "comment"}
    capabilities = [] if hardened else [f"CAP_{word}" for word in CAPABILITIES]
    mounts = [*MOUNTS, (str(place.folder), str(place.folder), "none", ("bind", "ro"))]
    environment = ["PATH=/usr/bin", *([f"LD_PRELOAD={place.library}"] if place.library else [])]
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": NOBODY, "gid": NOBODY} if hardened else {"uid": 0, "gid": 0},
            "args": command,
            "env": environment,
            "cwd": "/",
            "capabilities": {key: capabilities for key in ("bounding", "effective", "permitted")},
            "noNewPrivileges": hardened,
        },
        "root": {"path": str(place.root), "readonly": True},
        "mounts": [
            {"source": source, "destination": target, "type": kind, "options": list(options)} for source, target, kind, options in mounts
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
            "seccomp": profile,
            "cgroupsPath": f"/{name}",
            "resources": {"memory": {"limit": 512 << 20}, "pids": {"limit": 64}} if hardened else {},
        },
    }
    folder = place.folder / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def oci(*runtime: str, hardened: bool = False) -> Callable[[Place, list[str]], list[str]]:
    def command_of(place: Place, command: list[str]) -> list[str]:
        name = f"hz-{uuid.uuid4().hex[:12]}"
        folder = bundle(place, command, name, hardened)
        return [*runtime, "--root", str(place.folder / "state"), "run", "--bundle", str(folder), name]

    return command_of


# crun starts only where /sys/fs/cgroup has one version of cgroups; on a machine with both it gets version 2 there.
ONLY_CGROUP2 = (
    "unshare", "--mount", "sh", "-c",
    '[ -f /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"', "sh",
)  # fmt: skip


def podman(place: Place, command: list[str]) -> list[str]:
    """Under runc, and with limits that no machine refuses: root may not raise them everywhere."""
    storage = place.folder / "podman"
    volumes = ["-v", "/usr:/usr:ro", "-v", f"{place.folder}:{place.folder}:ro"]
    variables = ["--env", f"LD_PRELOAD={place.library}"] if place.library else []
    return [
        "podman", "--root", str(storage / "root"), "--runroot", str(storage / "run"), "--storage-driver", "vfs", "--cgroup-manager",
        "cgroupfs", "--events-backend", "none", "--runtime", "runc", "run", "--rm", "-i", "--network", "none",
        "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", *volumes, *variables, "--rootfs", str(place.root), *command,
    ]  # fmt: skip


def nspawn(place: Place, command: list[str]) -> list[str]:
    variables = [f"--setenv=LD_PRELOAD={place.library}"] if place.library else []
    return [
        "systemd-nspawn", "--quiet", "--pipe", "--register=no", "--keep-unit", "--as-pid2", f"--directory={place.root}",
        "--bind-ro=/usr", f"--bind-ro={place.folder}", *variables, *command,
    ]  # fmt: skip


UNIT = """[Unit]
DefaultDependencies=no
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
NoNewPrivileges=yes
MemoryDenyWriteExecute=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallFilter=@system-service
{more}
Environment={preload}
ExecStart={command}
StandardInput=file:{folder}/in
StandardOutput=file:{folder}/out
StandardError=file:{folder}/err
"""
# The unit's standard streams are FIFOs, since systemd starts it, not this process.
BOOT = """mkfifo "$0/in" "$0/out"
exec 3<&0
cat <&3 >"$0/in" 2>/dev/null &
cat "$0/out" 2>/dev/null &
"$@" </dev/null >/dev/null 2>"$0/boot.log" || { code=$?; cat "$0/err" "$0/boot.log" >&2; exit $code; }
"""


def systemd_unit(*lines: str) -> Callable[[Place, list[str]], list[str]]:
    """systemd itself, which systemd-nspawn boots into one unit with the usual hardening options, and `lines` besides."""

    def command_of(place: Place, command: list[str]) -> list[str]:
        folder = place.folder / f"systemd-{uuid.uuid4().hex[:12]}"
        shutil.copytree(place.root, folder / "root", symlinks=True)  # systemd-nspawn lets one container at a time use a root folder
        units = folder / "root/etc/systemd/system"
        units.mkdir(parents=True)
        preload = f"LD_PRELOAD={place.library}" if place.library else ""
        unit = UNIT.format(more="\n".join(lines), preload=preload, command=" ".join(command), folder=folder)
        (units / "environment.service").write_text(unit)
        boot = [
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={folder}/root", "--bind-ro=/usr",
            f"--bind={place.folder}", "--boot", "--", "--unit=environment.service",
        ]  # fmt: skip
        return ["sh", "-c", BOOT, str(folder), *boot]

    return command_of


def lxc(place: Place, command: list[str]) -> list[str]:
    """A container of LXC without a boot, with Debian's common configuration, which has its seccomp list."""
    name = f"hz-{uuid.uuid4().hex[:12]}"
    lines = [
        "lxc.include = /usr/share/lxc/config/common.conf",
        f"lxc.rootfs.path = dir:{place.root}",
        f"lxc.uts.name = {name}",
        "lxc.net.0.type = none",
        "lxc.apparmor.profile = unconfined",
        "lxc.mount.entry = /usr usr none bind,ro 0 0",
        f"lxc.mount.entry = {place.folder} {str(place.folder).lstrip('/')} none bind,ro 0 0",
        *([f"lxc.environment = LD_PRELOAD={place.library}"] if place.library else []),
    ]
    config = place.folder / f"{name}.conf"
    config.write_text("\n".join(lines) + "\n")
    return ["lxc-execute", "-P", str(place.folder), "-n", name, "-f", str(config), "--", *command]


CGROUP_LIMITS = """set -e
name=hz-$$
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir /sys/fs/cgroup/$name; echo 268435456 >/sys/fs/cgroup/$name/memory.max; echo 32 >/sys/fs/cgroup/$name/pids.max
    echo $$ >/sys/fs/cgroup/$name/cgroup.procs
else
    mkdir /sys/fs/cgroup/memory/$name /sys/fs/cgroup/pids/$name
    echo 536870912 >/sys/fs/cgroup/memory/$name/memory.limit_in_bytes; echo 32 >/sys/fs/cgroup/pids/$name/pids.max
    echo $$ >/sys/fs/cgroup/memory/$name/cgroup.procs; echo $$ >/sys/fs/cgroup/pids/$name/cgroup.procs
fi
exec "$@"
"""


def refusing(call: str, error: int) -> dict:
    """A profile that allows everything but one call."""
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [call], "action": "SCMP_ACT_ERRNO", "errnoRet": error}]}


def killing(call: str) -> dict:
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [call], "action": "SCMP_ACT_KILL_PROCESS"}]}


@dataclass(frozen=True)
class Environment:
    """`programs`: what must be installed. `portable`: any machine can have it, so it has a test of its own."""

    name: str
    does: str
    profiles: tuple[str | dict, ...] = ()
    wrap: Callable[[Place, list[str]], list[str]] = plain
    programs: tuple[str, ...] = ()
    portable: bool = False

    def missing(self) -> str:
        """Why this machine cannot have the environment; empty when it may."""
        absent = [name for name in self.programs if shutil.which(name) is None]
        if absent:
            return f"not installed: {', '.join(absent)}"
        return "wants root" if self.wrap is not plain and os.geteuid() != 0 else ""


def filtered(name: str, does: str, *profiles: str | dict) -> Environment:
    return Environment(name, does, profiles, portable=True)


def started(name: str, does: str, wrap: Callable[[Place, list[str]], list[str]], program: str, portable: bool = False) -> Environment:
    return Environment(name, does, (), wrap, (program,), portable)


SETPRIV = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", "--bounding-set=-all")
ENVIRONMENTS = (
    filtered("none", "no filter, no namespace"),
    filtered("container", "the seccomp profile of Docker, Podman, containerd", "container"),
    filtered("allow", "a filter that allows everything", "allow"),
    filtered("systemd", "`SystemCallFilter=@system-service`, which kills", "systemd-service"),
    filtered("systemd-hardened", "the same with the usual hardening options", "systemd-service", "systemd-hardening"),
    filtered("systemd-tight", "these without @privileged and @resources, as redis's unit", "systemd-tight", "systemd-hardening"),
    filtered("flatpak-list", "flatpak's list", "flatpak"),
    filtered("snap-list", "a list as snapd's default template", "snap"),
    filtered("lxc-list", "LXC's list", "lxc"),
    filtered("strict", "kills all but what glibc's loader, malloc, threads use", "strict"),
    filtered("kill-membarrier", "kills at membarrier", killing("membarrier")),
    filtered("kill-prctl", "kills at prctl", killing("prctl")),
    *(
        filtered(f"no-{call.replace('_', '-')}", f"ENOSYS for {call}", refusing(call, errno.ENOSYS))
        for call in ("membarrier", "close_range", "sched_getaffinity", "tgkill", "prctl")
    ),
    filtered("three-filters", "three filters on top of each other", "flatpak", "container", "allow"),
    started("nobody", "another user, no capability, no new privileges", after(*SETPRIV), "setpriv", portable=True),
    started("user-namespace", "`unshare --user --map-root-user`", after("unshare", "--user", "--map-root-user"), "unshare"),
    started("pid-namespace", "pid 1 of its own namespace", after("unshare", "--pid", "--fork", "--mount-proc"), "unshare", portable=True),
    started("cgroup", "a cgroup with limits for memory and tasks", after("sh", "-c", CGROUP_LIMITS, "sh"), "sh"),
    started("no-proc", "neither /proc nor /sys", no_proc, "bwrap", portable=True),
    started("bubblewrap", "read-only root, all namespaces", bubblewrap(), "bwrap", portable=True),
    started("bubblewrap-flatpak", "the same with flatpak's list, as flatpak does", bubblewrap_flatpak, "bwrap", portable=True),
    started("firejail-seccomp", "`firejail --noprofile --seccomp`", after("firejail", "--quiet", "--noprofile", "--seccomp", "--"), "firejail"),
    started("firejail", "firejail with its default profile", after("firejail", "--quiet", "--profile=default", "--"), "firejail"),
    started("crun", "crun, the container profile, read-only root", oci(*ONLY_CGROUP2, "crun", "--cgroup-manager=disabled"), "crun", portable=True),
    started("runc", "runc, the same", oci("runc"), "runc"),
    started("runc-hardened", "the same as another user, without capabilities, with limits", oci("runc", hardened=True), "runc"),
    started("podman", "`podman run` with its own profile", podman, "podman"),
    started("nspawn", "systemd-nspawn, whose own list refuses", nspawn, "systemd-nspawn"),
    started("systemd-unit", "systemd itself in systemd-nspawn, a hardened unit", systemd_unit(), "systemd-nspawn"),
    started("systemd-unit-tight", "the same without @privileged and @resources",
            systemd_unit("SystemCallFilter=~@privileged @resources"), "systemd-nspawn"),
    started("lxc", "lxc-execute with Debian's common.conf", lxc, "lxc-execute"),
)
BY_NAME = {environment.name: environment for environment in ENVIRONMENTS}


# ---- what a program does there ---------------------------------------------------------------------------


@dataclass
class Seen:
    """What a run of returns.c showed. `failure` is why the environment did not start it, `killed` how it ended before its
    time."""

    keeper: bool = False
    keeper_name: str = ""
    resident_mb: float = 0.0
    killed: str = ""
    failure: str = ""
    said: str = ""
    refused: dict[str, str] = field(default_factory=dict)


def start(environment: Environment, place: Place, command: list[str]) -> subprocess.Popen[str]:
    """Starts the command in the environment, with pipes."""
    codes = [seccomp.compiled(seccomp.read(one) if isinstance(one, str) else one) for one in environment.profiles]
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "HAKOZUNA_"))}
    if environment.wrap is plain and place.library is not None:
        variables["LD_PRELOAD"] = str(place.library)
    return subprocess.Popen(
        environment.wrap(place, command), env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", cwd="/", preexec_fn=seccomp.installer(codes) if codes else None,
        start_new_session=True, close_fds=False,  # a strict profile forbids to close them, and all of them are closed at exec
    )  # fmt: skip


def process_of(word: str) -> int:
    """The process whose last argument is the word, as the kernel's first pid namespace numbers it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
            if words[0].endswith(b"/returns") and words[-1] == word.encode():
                return int(path.parent.name)
    raise AssertionError(f"no process has the argument {word}; is /proc mounted?")


def look(pid: int, seen: Seen) -> None:
    """What a keeper is: one thread more than the program has started. Where prctl is refused it has no name of its own."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    seen.resident_mb = int(status["VmRSS"].split()[0]) / 1024
    threads = [(path / "comm").read_text().strip() for path in Path(f"/proc/{pid}/task").iterdir()]
    seen.keeper = len(threads) == WORKERS + 2
    seen.keeper_name = KEEPER if KEEPER in threads else ""


def ending(process: subprocess.Popen[str], said: str) -> Seen:
    """A process that ended too early: by a signal, as a shell and a container engine say it too; by itself; or because the
    environment could not start it."""
    code = process.wait(timeout=START_SECONDS)
    words = f"{said}{process.stderr.read()}".strip()
    if code < 0 or 128 < code <= 128 + signal.SIGRTMAX:
        return Seen(killed=f"signal {-code if code < 0 else code - 128}", said=words)
    if code == UNIT_FAILED:
        return Seen(killed="systemd's exit code for a unit that failed", said=words)
    if code == FAULT:
        return Seen(killed=words, said=words)
    return Seen(failure=f"exit code {code}: {words.splitlines()[-1] if words else 'no word'}")


def finish(process: subprocess.Popen[str], seen: Seen) -> None:
    """Has the program work once more, and waits for its end."""
    out, seen.said = process.communicate(timeout=START_SECONDS)  # closes stdin, which it waits for
    if process.returncode != 0 or "done" not in out:
        seen.killed = f"at its end: exit code {process.returncode} {seen.said.strip()}"


def run(environments: list[Environment], place: Place, enough_mb: float | None = None) -> dict[str, Seen]:
    """Runs returns.c in all of the environments at once, and looks at each after its threads have slept. With `enough_mb` it
    goes on to look while one holds more, since a busy machine may keep the keeper waiting."""
    found: dict[str, Seen] = {}
    words = {environment.name: uuid.uuid4().hex for environment in environments}
    with contextlib.ExitStack() as opened:
        running = {}
        for environment in environments:
            process = start(environment, place, [str(place.program), "work", words[environment.name]])
            opened.callback(discard, process)
            running[environment.name] = process
        for name, process in list(running.items()):
            line = process.stdout.readline()
            if line != "asleep\n":
                found[name] = ending(process, line)
                del running[name]
        time.sleep(SLEEP_SECONDS)  # not for synchronisation: the memory after so long is what is asked
        late = time.monotonic() + LATEST_SECONDS
        for name in running:
            found[name] = Seen()
            pid = process_of(words[name])
            look(pid, found[name])
            while enough_mb is not None and found[name].resident_mb > enough_mb and time.monotonic() < late:
                time.sleep(0.2)
                look(pid, found[name])
        for name, process in running.items():
            finish(process, found[name])
    return found


def discard(process: subprocess.Popen[str]) -> None:
    """Kills it with all that it has started in its session; a program elsewhere ends at the end of its stdin."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def refused(environment: Environment, place: Place) -> dict[str, str]:
    """The calls that the environment does not allow, each with its error, or `kills`."""
    found = {}
    for call in CALLS:
        with start(environment, Place(place.folder, place.program, None), [str(place.program), "try", call]) as process:
            out, _ = process.communicate(timeout=START_SECONDS)
        error = out.strip()
        if not error.isdecimal():
            found[call] = "kills"
        elif int(error) != 0:
            found[call] = errno.errorcode.get(int(error), error)
    return found
