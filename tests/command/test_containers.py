"""A process in a container, with its own processes, mounts and users and a root that cannot be written, is asked from outside and
from inside (docs/containers.md#query-a-process-in-a-container)."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from test_running import HEAD, LIBRARY, ROOT, SERVICE, TIMEOUT_SECONDS, called, good

sys.path.insert(0, str(ROOT / "tests/preload"))
import environments  # noqa: E402

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who makes namespaces and mounts")
pytestmark = [pytest.mark.deep, is_root]
INSIDE = "/usr/bin/python3"
STATS = str(ROOT / "command/heap_stats.py")
OUTER = 100000  # the container's root, as the host numbers it


def until(seconds: float, find):
    """What `find` returns, when it is something."""
    end = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def descendants(pid: int) -> list[int]:
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *descendants(child))]


class Contained:
    """The service, in what `command` starts. Its words and its library are visible there."""

    def __init__(self, command: list[str], **environment: str):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment)

    def __enter__(self) -> "Contained":
        assert self.process.stdout.readline() == "ready\n"

        def service() -> list[int]:
            """The one under the library."""
            return [pid for pid in descendants(os.getpid()) if is_preloaded(pid)]

        (self.pid,) = until(TIMEOUT_SECONDS, service)
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        (self.inner,) = [line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:")]
        assert int(self.inner) != self.pid, "it has processes of its own"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()  # the service ends with its input
        self.process.wait(TIMEOUT_SECONDS)
        self.process.stdout.close()


def is_preloaded(pid: int) -> bool:
    try:
        return "/libhakozuna" in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


@pytest.fixture
def place():
    with environments.place(LIBRARY) as made:
        shutil.copytree(ROOT / "command", made.folder / "command")
        yield made


# ---- an OCI runtime --------------------------------------------------------------------------------


def container(place: environments.Place, name: str, users: bool) -> pathlib.Path:
    """As environments.bundle, with a writable /tmp, and on request with users of its own."""
    folder = environments.bundle(place, [INSIDE, "-c", SERVICE], name, hardened=False)
    config = json.loads((folder / "config.json").read_text())
    config["process"]["env"] += ["HAKOZUNA_STATS=listen", "HAKOZUNA_PROFILE=wait"]
    writable = {"source": "tmpfs", "destination": "/tmp", "type": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}
    config["mounts"].insert(len(environments.MOUNTS), writable)  # the folder with the library may be below /tmp
    if users:
        config["linux"]["namespaces"].append({"type": "user"})
        mapping = [{"containerID": 0, "hostID": OUTER, "size": 1000}]
        config["linux"] |= {"uidMappings": mapping, "gidMappings": mapping}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def runtime(place: environments.Place) -> list[str]:
    found = shutil.which("crun") or shutil.which("runc")
    if found is None:
        pytest.skip("needs crun or runc (tools/setup environments)")
    prefix = list(environments.ONLY_CGROUP2) if found.endswith("crun") else []
    return [*prefix, found, "--root", str(place.folder / "state")]


@pytest.mark.parametrize("users", [False, True], ids=["host's users", "own users"])
def test_an_oci_container(place, users):
    name = f"hz-ask-{os.getpid()}-{int(users)}"
    call = runtime(place)
    folder = container(place, name, users)
    command = str(place.folder / "command/heap_stats.py")
    with Contained([*call, "run", "--bundle", str(folder), name]) as service:
        outside = called("heap_stats.py", "stats", service.pid)
        if users:  # the container does not know the host's root
            assert outside.returncode == 2 and "only its user and root may ask" in outside.stderr
            enter = ["nsenter", "-t", str(service.pid), "-U", "-m", "-p"]
            inside = subprocess.run([*enter, INSIDE, command, "stats", service.inner], capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
            assert HEAD.search(good(inside))
        else:
            assert HEAD.search(good(outside))
            profile = called("heap_profile.py", service.pid, "--start")
            assert profile.returncode == 0 and "begins to sample" in profile.stderr
        inside = subprocess.run([*call, "exec", name, INSIDE, command, "stats", service.inner], capture_output=True, text=True, check=False,
                                timeout=TIMEOUT_SECONDS)  # fmt: skip
        assert inside.returncode == 0 and HEAD.search(inside.stdout), inside


# ---- namespaces alone ------------------------------------------------------------------------------


# All of the host's files, but that nothing can be written except below /mnt.
READ_ONLY = """
mount --rbind / "$0" && mount -t tmpfs none "$0/mnt" && mkdir "$0/mnt/run" && mount -t proc proc "$0/proc" && mount -o remount,bind,ro "$0" &&
exec chroot "$0" "$@"
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (util-linux)")
def test_namespaces_and_a_root_that_cannot_be_written():
    """The container's root is the host's, so the host's root may ask."""
    with tempfile.TemporaryDirectory(prefix="hz-") as root:
        call = ["unshare", "--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", READ_ONLY, root]
        if subprocess.run([*call, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip("no such namespaces here")
        command = [str(ROOT / "build/bin/hakozuna"), "run", "--watch", "python3", "-c", SERVICE]
        with Contained([*call, *command], XDG_RUNTIME_DIR="/mnt/run") as service:
            assert HEAD.search(good(called("heap_stats.py", "stats", service.pid)))
            enter = ["nsenter", "-t", str(service.pid), "-U", "-m", "-p", "-r", sys.executable, STATS, "stats", service.inner]
            done = subprocess.run(enter, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
            assert HEAD.search(good(done))
