"""HAKOZUNA_PROFILE: a heap profile that is sampled, written while the program runs or ends, and read by command/heap_profile.py."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TIMEOUT_SECONDS, Preload, clean_environment, describe, required
from servers import RedisClient, fill_redis, server
from test_servers import redis_command

sys.path[:0] = [str(ROOT / "command"), str(ROOT / "tests/command")]
import heap_profile  # noqa: E402 - after the line above
import pprof_message  # noqa: E402

pytestmark = pytest.mark.usefixtures("ours_only")

PROGRAM = Path(__file__).parent / "programs/profiled.cc"
SITES = 7


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("profiled") / "profiled"
    flags = ["-std=c++17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run([required("g++"), *flags, PROGRAM, "-o", output], check=True)
    return output


def profile(preload: Preload, words: str, directory: Path, *command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return preload.run(*command, variables={"HAKOZUNA_PROFILE": words}, cwd=directory, **options)


def only(directory: Path, pattern: str = "*.heap") -> Path:
    (file,) = directory.glob(pattern)
    return file


def tool(*words: str | Path) -> str:
    command = [sys.executable, ROOT / "command/heap_profile.py", *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.returncode == 0, describe(result)
    return result.stdout


def by_function(file: Path, value: str) -> dict[str, int]:
    """The estimate for each function of the program that allocates by itself: by the innermost call."""
    found: dict[str, int] = {}
    for line in tool("folded", file, "--value", value).splitlines():
        stack, _, count = line.rpartition(" ")
        name = stack.split(";")[-1].rpartition("::")[2].partition("(")[0]
        found[name] = found.get(name, 0) + int(count)
    return found


# ---- the figures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 4])
def test_totals_are_within_3_percent_of_the_exact_ones(preload: Preload, profiled: Path, tmp_path: Path, threads: int) -> None:
    """1 GiB; at this rate the standard deviation of the total is below 0.5 %, that of a site below 1.5 %."""
    result = profile(preload, "rate=16K", tmp_path, profiled, "mix", str(1024 // threads), str(threads))
    exact = {name: [int(number) for number in numbers] for name, *numbers in map(str.split, result.stdout.splitlines())}
    assert len(exact) == SITES
    names = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
    for index, value in enumerate(names):
        found = by_function(only(tmp_path), value)
        for site, numbers in exact.items():
            chance = heap_profile.math.expm1(-max(numbers[1] // numbers[0], 16) / 16384) * -1
            slack = 6 * ((1 - chance) / chance / numbers[index // 2 * 2]) ** 0.5 + 0.002
            assert abs(found[site] / numbers[index] - 1) < slack, (value, site, found[site], numbers[index])
    found = by_function(only(tmp_path), "alloc_space")
    assert abs(sum(found[site] for site in exact) / sum(each[1] for each in exact.values()) - 1) < 0.03


def test_the_planted_leak_is_the_top_site(preload: Preload, profiled: Path, tmp_path: Path) -> None:
    """10000 sessions of 3000 bytes and a little: 29.5 MiB, here with a standard deviation of 1 %."""
    result = profile(preload, "exit,leak,rate=3K", tmp_path, profiled, "leak")
    assert result.stdout == "10000\n"
    report = tool("leaks", only(tmp_path)).splitlines()
    live = re.match(r"profiled, process \d+: live: (\d+\.\d\d) MiB", report[0])
    assert 27.5 < float(live[1]) < 31.5, report[0]
    top = "\n".join(report[1 : next(i for i, line in enumerate(report[2:], 2) if not line.startswith("    ") or i + 1 == len(report))])
    assert "leak_a_session" in top, report
    assert float(re.search(r"([\d.]+) % of all", report[1])[1]) > 70, report[1]
    assert len(top.splitlines()) > 3
    # what the library itself writes: files and offsets, of the same call
    assert result.stderr.startswith("hakozuna: leaks: about "), result.stderr
    first = re.search(r"allocated by:\n((    .*\n)+)", result.stderr)[1]
    offsets = re.findall(rf"{profiled}\+(0x[0-9a-f]+)", first)
    named = subprocess.run([required("addr2line"), "-f", "-C", "-i", "-e", profiled, *offsets], capture_output=True, text=True, check=True)
    assert "leak_a_session" in named.stdout


def test_the_difference_of_two_moments(preload: Preload, profiled: Path, tmp_path: Path) -> None:
    words = {"HAKOZUNA_PROFILE": f"rate=1,signal=USR2,file={tmp_path}/%e.%p"}
    pipe = subprocess.PIPE
    with subprocess.Popen([profiled, "step"], env=preload.environment(**words), stdin=pipe, stdout=pipe, text=True) as process:
        pid = int(process.stdout.readline())
        file = tmp_path / f"profiled.{pid}"
        for number in (1, 2, 3):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "grown\n"
            os.kill(pid, signal.SIGUSR2)
            wait_for_moments(file, number)
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
    assert [line.split()[0] for line in tool("list", file).splitlines()] == ["snapshot", "1", "2", "3"]
    for since, blocks in ((None, 300), (1, 200), (2, 100)):
        words = [] if since is None else ["--since", str(since)]
        lines = tool("folded", file, "--value", "inuse_objects", *words).splitlines()
        (line,) = (line for line in lines if "by_malloc_medium" in line)
        assert line.endswith(f" {blocks}")
    assert re.search(r"grew: 0\.48 MiB .*, in about 100 blocks", tool("leaks", file, "--since", "2"))


def test_the_flow_between_threads(preload: Preload, profiled: Path, tmp_path: Path) -> None:
    """In each turn 20 MB pass to one thread and 80 MB to the other. At this rate 1300 of the first are sampled: 6 times 2.8 %."""
    words = {"HAKOZUNA_PROFILE": f"rate=16K,signal=USR2,file={tmp_path}/%e.%p"}
    pipe = subprocess.PIPE
    with subprocess.Popen([profiled, "pass"], env=preload.environment(**words), stdin=pipe, stdout=pipe, text=True) as process:
        producer, first, second = process.stdout.readline().split()
        file = tmp_path / f"profiled.{process.pid}"
        for number in (1, 2):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "passed\n"
            os.kill(process.pid, signal.SIGUSR2)
            wait_for_moments(file, number)
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
    for since in ([], ["--since", "1"]):
        lines = tool("flow", file, *since).splitlines()
        assert ("MiB/s" in lines[0]) == bool(since)
        rows = {tuple(words[:2]): words for words in map(str.split, lines)}
        for consumer, size in ((first, 20e6), (second, 80e6)):
            passed = float(rows[producer, consumer][2]) * 2**20
            assert abs(passed / size / (1 if since else 2) - 1) < 0.17, (since, lines)
        crossed = rows[producer, second]
        assert rows[second, "0.00"][6:] == [crossed[2], crossed[-1], "profiled"], "it frees what others allocated, and has a name"
        crossing = sum(float(words[2]) for pair, words in rows.items() if pair[1:] in ((first,), (second,)))
        assert float(re.search(rf"process {process.pid}: (\S+) MiB of", lines[0])[1]) == pytest.approx(crossing, abs=0.1)
        sizes = [line.split()[0] for line in lines[lines.index(next(line for line in lines if "block bytes" in line)) + 1 :][:2]]
        assert [5000 <= int(sizes[0]) < 6000, 100 <= int(sizes[1]) < 130] == [True, True]
        sites = [line.rpartition("  ")[0].rpartition("::")[2] for line in lines if line.startswith("    ") and "by_" in line]
        assert sites == ["by_malloc_medium", "by_malloc_small"], "and not what the producer frees itself"


GROWS = """
import sys
kept = []
for line in sys.stdin:
    kept += [bytearray(100_000) for _ in range(int(line))]
    if int(line) == 0:
        kept.clear()
    print("done", flush=True)
"""


def live_of(file: Path) -> list[int]:
    """What each moment says is live, in bytes; none if there is no whole file yet."""
    try:
        count = len(heap_profile.read_moments(file))
    except heap_profile.BadInput:
        return []
    listed = tool("list", file).splitlines()[1:]
    assert len(listed) >= count
    return [float(re.search(r"(\S+) MiB", line)[1]) * 2**20 for line in listed]


def test_a_moment_at_each_peak(preload: Preload, tmp_path: Path) -> None:
    """The file says what was live when the program held most, although it has freed it before it ends."""
    environment = preload.environment(HAKOZUNA_PROFILE=f"rate=16K,peak,file={tmp_path}/profile")
    command = ["/usr/bin/python3", "-I", "-S", "-c", GROWS]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        peak = 0
        for step in (100, 100, 0, 50):  # 10 MB, 20 MB, nothing, 5 MB
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            peak += step * 100_000 if step == 100 else 0
            while max(live_of(tmp_path / "profile"), default=0) < 0.8 * peak:
                pass  # the library writes it soon; the test's timeout ends this
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
    live = live_of(tmp_path / "profile")
    assert len(live) >= 2 and 0.8 * peak < max(live) < 1.2 * peak


LIMITED = """
import ctypes, sys
library = ctypes.CDLL(None)
library.hz_limit_set(ctypes.c_size_t(20_000_000), ctypes.c_size_t(0))
kept = []
for line in sys.stdin:
    kept += [bytearray(1000) for _ in range(int(line))]
    print("done", flush=True)
"""


def test_a_moment_at_the_limit(preload: Preload, tmp_path: Path) -> None:
    environment = preload.environment(HAKOZUNA_PROFILE=f"rate=16K,limit,file={tmp_path}/profile")
    command = ["/usr/bin/python3", "-I", "-c", LIMITED]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def grow(blocks: int) -> None:
            process.stdin.write(f"{blocks}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        grow(5000)
        assert not (tmp_path / "profile").exists(), "5 MB are below it"
        grow(20000)
        wait_for_moments(tmp_path / "profile", 1)
        grow(20000)
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
    (live,) = live_of(tmp_path / "profile")
    assert live > 15e6, "once, until the heap has been below it"


def wait_for_moments(file: Path, count: int) -> None:
    """The library writes a moment to its end before it begins the next; a part of one is not a moment."""
    while True:
        try:
            if len(heap_profile.read_moments(file)) == count:
                return
        except heap_profile.BadInput:
            pass  # not there yet, or not yet whole; the test's timeout ends this
        os.sched_yield()


# ---- unwinding -------------------------------------------------------------------------------------

FRAMED = Path(__file__).parent / "programs/framed.c"


@pytest.fixture(scope="module")
def framed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("framed") / "framed"
    flags = ["-std=c11", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wall", "-Wextra", "-Werror", "-pthread"]
    sources = [FRAMED, FRAMED.with_name("framed_x86_64.s")] if platform.machine() == "x86_64" else [FRAMED]
    subprocess.run([required("gcc"), *flags, *sources, "-o", output], check=True)
    return output


def stacks(preload: Preload, directory: Path, unwind: str, *command: str | Path) -> str:
    result = profile(preload, f"rate=1,unwind={unwind},file={directory}/{unwind}", directory, *command)
    assert result.stderr == ""
    return tool("folded", directory / unwind, "--value", "alloc_space")


def test_frame_pointers_give_the_same_call_stacks_as_the_tables(preload: Preload, framed: Path, tmp_path: Path) -> None:
    by_tables = stacks(preload, tmp_path, "tables", framed, "equal")
    assert by_tables.count("deeper;deeper;keep") > 100
    assert stacks(preload, tmp_path, "frame-pointer", framed, "equal") == by_tables


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program has a function in the language of x86-64")
def test_frame_pointers_lead_through_code_without_tables(preload: Preload, framed: Path, tmp_path: Path) -> None:
    """As programs generate it. It also shows that frame pointers are used at all."""
    (line,) = (each for each in stacks(preload, tmp_path, "frame-pointer", framed, "generated").splitlines() if each.endswith(" 7777"))
    assert ";main;under_generated;generated" in line
    (line,) = (each for each in stacks(preload, tmp_path, "tables", framed, "generated").splitlines() if each.endswith(" 7777"))
    assert "main" not in line


def test_frame_pointers_under_a_program_that_has_none(preload: Preload, tmp_path: Path) -> None:
    script = "import threading\nkept = []\n" + "threading.Thread(target=lambda: kept.extend(bytearray(3000) for _ in range(200))).start()\n" * 2
    command = ["/usr/bin/python3", "-I", "-S", "-c", script]
    found = stacks(preload, tmp_path, "frame-pointer", *command)
    assert sum(int(line.rpartition(" ")[2]) for line in found.splitlines() if "PyByteArray_Resize" in line) > 1_000_000


# ---- real programs ---------------------------------------------------------------------------------


def check_pprof(file: Path, value: str, words: list[str]) -> heap_profile.Profile:
    """The profile for pprof has what the stream has; pprof opens it, and finds a word among the names."""
    output = Path(tool("pprof", file).strip())
    assert output == file.with_name(file.name + ".pb.gz")
    message = pprof_message.profile_message()()
    message.ParseFromString(gzip.decompress(output.read_bytes()))
    strings = message.string_table
    assert strings[0] == ""
    assert [strings[each.type] for each in message.sample_type] == list(heap_profile.TYPES)
    profile = heap_profile.profile_of(file, None, None)
    assert [sum(sample.value[i] for sample in message.sample) for i in range(len(heap_profile.TYPES))] == [
        sum(round(values[i]) for values in profile.values.values()) for i in range(len(heap_profile.TYPES))
    ]
    numbers = {location.id for location in message.location}
    assert all(set(sample.location_id) <= numbers for sample in message.sample)
    mapped = {mapping.id: mapping for mapping in message.mapping}
    for location in message.location:
        if location.mapping_id:
            mapping = mapped[location.mapping_id]
            assert mapping.memory_start <= location.address < mapping.memory_limit
    ids = {strings[mapping.filename]: strings[mapping.build_id] for mapping in message.mapping}
    libc = next(path for path in ids if "libc.so" in path)
    notes = subprocess.run([required("readelf"), "-n", libc], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {ids[libc]}\n" in notes
    text = "\n".join(strings)
    assert all(word in text for word in words), words
    if shutil.which("go"):
        check_go_pprof(output, value, words)
    return profile


def check_go_pprof(output: Path, value: str, words: list[str]) -> None:
    command = ["go", "tool", "pprof", f"-sample_index={value}", "-symbolize=none", "-nodecount=1000000", "-nodefraction=0", "-top", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.returncode == 0, describe(result)
    assert f"Type: {value}" in result.stdout
    assert all(word in result.stdout for word in words), describe(result)


@pytest.mark.deep
def test_python(preload: Preload, tmp_path: Path) -> None:
    script = "kept = [bytearray(3000) for i in range(20000)]; words = [str(i) * 200 for i in range(20000)]"
    profile(preload, "rate=64K", tmp_path, "/usr/bin/python3", "-I", "-S", "-c", script)
    result = check_pprof(only(tmp_path), "alloc_space", ["PyByteArray_"])
    assert 60e6 < sum(values[1] for values in result.values.values()) < 200e6
    assert result.moment.lost == 0


def test_redis(preload: Preload, tmp_path: Path) -> None:
    preload.variables["HAKOZUNA_PROFILE"] = f"rate=16K,exit,signal=USR2,file={tmp_path}/%e.%p"
    address = tmp_path / "redis.sock"
    with server(preload, redis_command(address, tmp_path), address) as process:
        client = RedisClient(address)
        fill_redis(client)
        file = tmp_path / f"redis-server.{process.pid}"
        os.kill(process.pid, signal.SIGUSR2)
        wait_for_moments(file, 1)
        assert client("BGSAVE") == "Background saving started"  # its child writes no profile
        assert client("DBSIZE") > 0
    assert len(heap_profile.read_moments(file)) == 2
    assert list(tmp_path.glob("redis-server.*")) == [file]
    check_pprof(file, "inuse_space", ["zmalloc", "createStringObject"])
    assert "redis-server" in tool("leaks", file, "--at", "1")


# ---- processes and signals -------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["rate=1", "rate=1,children"])
def test_fork(preload: Preload, profiled: Path, tmp_path: Path, words: str) -> None:
    child = int(profile(preload, words, tmp_path, profiled, "fork").stdout)
    files = sorted(tmp_path.glob("*.heap"))
    assert len(files) == (2 if "children" in words else 1)
    own = [file for file in files if f".{child}." in file.name]
    for file in files:
        live = by_function(file, "inuse_space")
        assert live["by_malloc_medium"] == 50000, "from before the fork"
        assert (live.get("by_calloc"), live.get("by_new")) == ((60000, None) if file in own else (None, 60000))


def test_programs_that_it_starts_are_not_profiled(preload: Preload, tmp_path: Path) -> None:
    profile(preload, "1", tmp_path, "bash", "-c", "/bin/true; /bin/true; exit 0")
    assert re.match(r"bash\.\d+\.heap$", only(tmp_path).name)


def test_another_request_in_a_process_that_is_profiled(preload: Preload, tmp_path: Path) -> None:
    """Each variable has an owner of its own: the same words of HAKOZUNA_STATS stay those of bash."""
    preload.variables["HAKOZUNA_STATS"] = "json"
    python = "/usr/bin/python3 -I -S -c pass"
    command = f"HAKOZUNA_PROFILE=rate=4K {python}; {python}; exit 0"
    result = profile(preload, "1", tmp_path, "bash", "-c", command)
    assert [re.sub(r"\d+", "N", path.name) for path in sorted(tmp_path.iterdir())] == ["bash.N.heap", "pythonN.N.heap"]
    assert [json.loads(line)["process"]["program"] for line in result.stderr.splitlines()] == ["bash"]


def test_a_limit_of_the_address_space(preload: Preload, profiled: Path, tmp_path: Path) -> None:
    """The tables are then as small as they can be; none of them may touch what is mapped behind it."""
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))}
    for number in range(4):  # what lies behind a table differs from run to run
        profile(preload, f"rate=4K,file={tmp_path}/{number}", tmp_path, profiled, "leak", **limits)
        (moment,) = heap_profile.read_moments(tmp_path / str(number))
        assert (moment.lost, len(moment.sites) > 0) == (0, True)


def test_a_signal_while_all_threads_sample(preload: Preload, profiled: Path, tmp_path: Path) -> None:
    words = {"HAKOZUNA_PROFILE": f"rate=64,signal=USR1,exit,file={tmp_path}/profile"}
    command = [profiled, "mix", "40", "3"]
    with subprocess.Popen(command, env=preload.environment(**words), stdout=subprocess.PIPE, text=True) as process:
        mapped = Path(f"/proc/{process.pid}/maps")
        while "libgcc_s" not in mapped.read_text():  # until the handler is there: the profile has begun
            os.sched_yield()
        while process.poll() is None and not (tmp_path / "profile").exists():
            with_handler = int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1], 16)
            if with_handler >> (signal.SIGUSR1 - 1) & 1:
                os.kill(process.pid, signal.SIGUSR1)
        output = process.communicate(timeout=TIMEOUT_SECONDS)[0]
    assert (process.returncode, len(output.splitlines())) == (0, SITES)
    moments = heap_profile.read_moments(tmp_path / "profile")
    assert len(moments) >= 2
    assert moments[-1].lost == 0


@pytest.mark.parametrize("words", ["exit", "leak"])
def test_sigterm_writes_the_profile_and_ends_the_program(preload: Preload, profiled: Path, tmp_path: Path, words: str) -> None:
    """The signal often finds the program inside the profile, whose lock the report needs."""
    environment = preload.environment(HAKOZUNA_PROFILE=f"{words},rate=1,file={tmp_path}/%p")
    pipe = subprocess.PIPE
    for _ in range(25):
        with subprocess.Popen([profiled, "ask"], env=environment, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout.readline() == "asking\n"
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (process.returncode, output) == (-signal.SIGTERM, "")
        if words == "exit":
            assert (len(heap_profile.read_moments(tmp_path / str(process.pid))), errors) == (1, "")
        else:
            assert errors.startswith("hakozuna: leaks: about "), errors


# ---- the variable ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [None, "", "0"])
def test_off_unless_asked_for(preload: Preload, tmp_path: Path, words: str | None) -> None:
    variables = {} if words is None else {"HAKOZUNA_PROFILE": words}
    result = preload.run("cat", "/proc/self/maps", variables=variables, cwd=tmp_path)
    assert (result.stderr, "libgcc_s" in result.stdout, list(tmp_path.iterdir())) == ("", False, [])


def test_words_that_are_not_allowed(preload: Preload, tmp_path: Path) -> None:
    result = profile(preload, "rate=0,every=0,json", tmp_path, "bash", "-c", "/bin/true; exit 0")
    assert [line.split(": allowed")[0] for line in result.stderr.splitlines()] == [
        f"hakozuna: HAKOZUNA_PROFILE: '{word}'" for word in ("rate=0", "every=0", "json")
    ]
    assert "1 to 1073741824 bytes" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_beside_the_sampling_guard(preload: Preload, tmp_path: Path) -> None:
    variables = {"HAKOZUNA_PROFILE": "1", "HAKOZUNA_SAMPLE_GUARD": "1000"}
    result = preload.run("/bin/true", variables=variables, cwd=tmp_path)
    assert result.stderr == "hakozuna: HAKOZUNA_PROFILE=1: no effect beside HAKOZUNA_SAMPLE_GUARD\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written(preload: Preload, tmp_path: Path) -> None:
    result = profile(preload, f"file={tmp_path}/none/x", tmp_path, "/bin/true")
    assert result.stderr == f"hakozuna: HAKOZUNA_PROFILE: cannot write {tmp_path}/none/x: error 2\n"


def test_a_fifo_that_nobody_reads(preload: Preload, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    result = profile(preload, f"file={tmp_path}/fifo", tmp_path, "/bin/true")
    assert result.stderr == f"hakozuna: HAKOZUNA_PROFILE: cannot write {tmp_path}/fifo: error 6\n"


def test_a_copy_of_stderr_only_for_a_list_of_leaks(preload: Preload, tmp_path: Path) -> None:
    script = "import os; print(sum(int(number) > 9 for number in os.listdir('/proc/self/fd')))"
    for words, copies in (("exit", "0\n"), ("leak", "1\n")):
        assert profile(preload, words, tmp_path, "/usr/bin/python3", "-I", "-S", "-c", script).stdout == copies


def test_beside_statistics(library: Path, profiled: Path, tmp_path: Path) -> None:
    """Both variables at once, each at exit. Sampled blocks are a range of sizes of their own."""
    variables = {"LD_PRELOAD": str(library), "HAKOZUNA_STATS": "1", "HAKOZUNA_PROFILE": "rate=4K"}
    result = subprocess.run([profiled, "mix", "64"], env=clean_environment() | variables, cwd=tmp_path, capture_output=True, text=True,
                            timeout=TIMEOUT_SECONDS, check=True)  # fmt: skip
    assert re.search(r"^live .*, profiled \d+\.\d\d$", result.stderr, re.MULTILINE), result.stderr
    assert re.search(r"^sampled for the profile ", result.stderr, re.MULTILINE)
    assert len(heap_profile.read_moments(only(tmp_path))) == 1


@pytest.mark.parametrize("words", [{"HAKOZUNA_PROFILE": "rate=9K"}, {"HAKOZUNA_SAMPLE_GUARD": "2"}], ids=["profile", "guard"])
def test_what_the_unwinder_allocates(preload: Preload, tmp_path: Path, words: dict[str, str]) -> None:
    """It may hold the lock that a call stack takes. Each of 20 exceptions had a chance of about 1/2 to hang."""
    if platform.machine() != "x86_64":
        pytest.skip("the program's tables are for x86-64")
    program = tmp_path / "unwinding"
    subprocess.run([required("g++"), "-std=c++17", "-O1", PROGRAM.with_name("unwinding.cc"), "-o", program], check=True)
    assert preload.run(program, variables=words, cwd=tmp_path).stdout == "20\n"
