"""docs/diagnose.md: its commands answer for programs in Go, C++, Python, node and Java, in namespaces of their own."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/diagnose.md").read_text()
TIMEOUT_SECONDS = 120
NAMESPACES = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
has_namespaces = subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
pytestmark = [pytest.mark.deep, pytest.mark.skipif(not has_namespaces, reason="this user may make no namespaces")]

# Each keeps 20 MB in blocks of 3000 bytes from malloc, says that, and goes on to allocate and free until its input ends.
PROGRAMS = {
    "c++": ("service.cc", """
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
int main() {
    std::vector<std::vector<char>> kept;
    std::thread([&] { for (int i = 0; i < 7000; i++) kept.emplace_back(3000, 'x'); }).join();
    std::puts("ready");
    std::fflush(stdout);
    std::thread([] { for (;;) std::vector<char>(5000, 'y'); }).detach();
    std::getchar();
    std::quick_exit(0);
}
"""),
    "go": ("service.go", """
package main

// #include <stdlib.h>
// static void *volatile kept[7000];
// static void keep(int i) { kept[i] = calloc(1, 3000); }
// static void *volatile passing;
// static void pass(void) { passing = malloc(5000); free(passing); }
import "C"
import ("fmt"; "io"; "os")

func main() {
    for i := 0; i < 7000; i++ { C.keep(C.int(i)) }
    fmt.Println("ready")
    go func() { for { C.pass() } }()
    io.ReadAll(os.Stdin)
}
"""),
    "python": ("service.py", """
import sys, threading
kept = [bytearray(3000) for _ in range(7000)]
def work():
    while True:
        bytearray(5000)
threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""),
    "node": ("service.js", """
const kept = Array.from({length: 7000}, () => Buffer.allocUnsafeSlow(3000).fill(1));
setInterval(() => Buffer.allocUnsafeSlow(5000).fill(1), 1);
process.stdin.on("end", () => process.exit(0)).resume();
console.log("ready");
"""),
    "java": ("Service.java", """
import java.nio.ByteBuffer;
public class Service {
    static ByteBuffer[] kept = new ByteBuffer[7000];
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < kept.length; i++) kept[i] = ByteBuffer.allocateDirect(3000);
        System.out.println("ready");
        Thread worker = new Thread(() -> { for (;;) ByteBuffer.allocateDirect(5000); });
        worker.setDaemon(true);
        worker.start();
        while (System.in.read() >= 0) { }
    }
}
"""),
}  # fmt: skip


def built(kind: str, folder: pathlib.Path) -> list[str]:
    """The command that runs it. Skips the test where the runtime is missing."""
    file, text = PROGRAMS[kind]
    needed = {"c++": "c++", "go": "go", "python": "python3", "node": "node", "java": "java"}[kind]
    if shutil.which(needed) is None:
        pytest.skip(f"needs {needed} (tools/setup apps)")
    path = folder / file
    path.write_text(text)
    if kind == "c++":
        subprocess.run(["c++", "-O1", "-g", path, "-o", folder / "service", "-pthread"], check=True)
        return [str(folder / "service")]
    if kind == "go":
        variables = os.environ | {"CGO_ENABLED": "1", "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "build", "-o", folder / "service", path], check=True, cwd=folder, env=variables)
        return [str(folder / "service")]
    return {"python": ["python3", str(path)], "node": ["node", str(path)], "java": ["java", "-Xmx64m", str(path)]}[kind]


def service_of(pid: int) -> int:
    """Below unshare: the first process of the namespace."""
    (child,) = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def asked(*words: object) -> str:
    done = subprocess.run([ROOT / "build/bin/hakozuna", *map(str, words)], capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


# A command of the page, by its words behind the number of the process, and what its answer has.
ANSWERS = {
    "stats --part sizes --part classes": [r"^sizes +live MiB ", r"^small, up to 2 KiB +\d", r"^classes that hold most", r"^3072 B +\d+\.\d\d "],
    "top --once --interval 1": [r"^live +\d+\.\d\d MiB .*MiB/s", r"^each second: "],
    "stats --part threads": [r"^ +thread  name.* cached MiB", r"^ +\d+  \S.* \d+\.\d\d "],
    "stats --part totals": [r"^live +\d+\.\d\d MiB", r"^cached ", r"^free ", r"^held .* a trim returns at most \d"],
    "stats --part process": [r"^RSS +\d", r"^hakozuna +\d", r"^files +\d", r"^other +\d"],
    "stats --part limits": [r"^memory of the machine +\d"],
    "profile": [r", process 1: live: \d+\.\d\d MiB ±\d+ %, \d+ samples, in about \d+ blocks of \d+ stack traces?$", r"^ +\d+\.\d\d MiB ±\d+ %, "],
    "profile --threads": [r"^ +live MiB +share +blocks +samples +thread  name$", r"^ +\d+\.\d\d +\d+\.\d % +\d+ +\d+ +\d+  "],
    "profile --allocated --count 1": [r", process 1: allocated: \d"],
    "profile --over 1 --count 1": [r", process 1: grew: "],
    "profile --flow --count 1": [r"were freed by another thread \(\d+ samples?\)$", r"^ +MiB, thread +allocated +samples "],
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_commands_of_the_page(kind, tmp_path):
    command = built(kind, tmp_path)
    (tmp_path / "run").mkdir()
    # so often that chance leaves out nothing
    variables = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "HAKOZUNA_PROFILE": "listen,rate=16384"}
    call = [*NAMESPACES, str(ROOT / "build/bin/hakozuna"), "run", "--watch", *command]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            pid = service_of(process.pid)
            for words, patterns in ANSWERS.items():
                tool, *options = words.split()
                text = asked(tool, pid, *options)
                assert [pattern for pattern in patterns if not re.search(pattern, text, re.MULTILINE)] == [], f"{words}:\n{text}"
        finally:
            process.stdin.close()
            process.wait(TIMEOUT_SECONDS)


def test_the_page_has_these_commands():
    """All of its kinds of questions but those that need redis or another allocator."""
    for words in ANSWERS:
        tool, *options = words.split()
        known = [line for line in re.findall(r"(?m)^\$ (hakozuna .*)$", PAGE) if line.startswith(f"hakozuna {tool} ")]
        assert known, tool
        flags = [option for option in options if option.startswith("--") and option not in ("--interval", "--flow")]
        assert all(any(flag in line for line in known) for flag in flags), words


