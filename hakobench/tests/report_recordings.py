"""Made-up recordings for tests of the report: every feature of the format, from a seeded generator."""

import dataclasses
import datetime
import pathlib
import random

from hakobench import record
from hakobench.record import Run

# name, ours, speed, memory, and the loss of speed when all frees are remote
ALLOCATORS = (
    ("glibc", False, 0.45, 1.0, 0.8),
    ("jemalloc", False, 0.85, 1.5, 0.5),
    ("tcmalloc", False, 1.00, 2.4, 0.55),
    ("mimalloc", False, 0.95, 1.2, 0.75),
    ("snmalloc", False, 0.97, 1.1, 0.65),
    ("rpmalloc", False, 0.80, 1.3, 0.7),
    ("google-tcmalloc", False, 0.60, 3.1, 0.5),
    ("hz3_scale", True, 1.12, 1.25, 0.5),
    ("hz4", True, 0.90, 1.05, 0.55),
)
CONFIG = (
    "engine=hz3 lane=scale version=0.1.0 shards=63 HZ_BIN_BYTES=24576 HZ_BIN_COUNT=128 checks=0 compiler=gcc-12.2"
)
START = datetime.datetime(2026, 11, 21, 22, 0, tzinfo=datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class MadeRow:
    """One row to make runs for. `speed` is that of an allocator of speed 1.0 when all frees are local."""

    name: str
    about: str
    params: str
    metric: str = "ops_per_s"
    unit: str = "M ops/s"
    less_is_better: bool = False
    speed: float = 120.0
    memory_kb: int = 4000
    sampled: bool = False

    @property
    def remote(self) -> float:
        return float(record.words(self.params).get("remote", "0")) / 100


def rows() -> list[MadeRow]:
    """25 rows: single thread, ring over threads and remote share, times, and two with RSS samples."""
    made = [
        MadeRow("args-16-256", "1 thread, 400 live, uniform 16 to 256 bytes", "slots=400 low=16 high=256", speed=140),
        MadeRow("args-16-2048", "1 thread, 400 live, uniform 16 to 2048 bytes", "slots=400 low=16 high=2048", speed=90),
        MadeRow("app-16-32768", "1 thread, dist app", "slots=400 low=16 high=32768", speed=110),
    ]
    for threads in (1, 2, 4, 8, 16):
        for remote in (0, 50, 90):
            about = f"ring of {threads} threads, {remote} % of the frees by the next one, 16 to 2048 bytes"
            params = f"threads={threads} remote={remote} low=16 high=2048 ring=1024"
            speed = 60.0 * threads**0.45
            made.append(MadeRow(f"mt-t{threads}-r{remote}", about, params, speed=speed, memory_kb=3000 * threads))
    for threads in (4, 16):
        params = f"threads={threads} remote=90 low=16 high=65536 ring=1024"
        about = f"ring of {threads} threads, 90 % remote, 16 to 65536 bytes"
        made.append(MadeRow(f"mt-t{threads}-r90-64k", about, params, speed=9, memory_kb=200_000))
    made.append(MadeRow("xmalloc-2-2", "2 threads allocate, 2 free, 64 B", "", "frees_per_s", "M frees/s", speed=50))
    made.append(MadeRow("cache-thrash-2", "active false sharing", "threads=2", "wall_seconds", "s", True, 0.8))
    made.append(
        MadeRow("redis-set", "SET, pipeline of 16", "", "requests_per_s", "k req/s", speed=850, memory_kb=30_000)
    )
    made.append(MadeRow("phases", "grows, shrinks, grows", "", "seconds", "s", True, 2.0, 90_000, sampled=True))
    made.append(
        MadeRow("phases-mt", "the same with 4 threads", "threads=4", "seconds", "s", True, 1.1, 160_000, sampled=True)
    )
    return made


def _value(row: MadeRow, speed: float, loss: float, noise: random.Random) -> float:
    factor = speed * (1 - loss * row.remote) * noise.lognormvariate(0, 0.03)
    return row.speed / factor if row.less_is_better else row.speed * factor


def _samples(peak_kb: int, noise: random.Random) -> list[tuple[int, int]]:
    shape = [0.1, 0.5, 1.0, 0.95, 0.4, 0.3, 0.8, 0.9, 0.5, 0.35]
    return [(at * 20, int(peak_kb * shape[at // 12] * noise.uniform(0.97, 1.0))) for at in range(120)]


def make_run(row: MadeRow, row_index: int, name: str = "glibc", ours: bool = False, **changes: object) -> Run:
    """One good run with the fields of `changes`."""
    library = (
        "" if name == "glibc" else f"build/lib/libhakozuna_{name}.so" if ours else f".cache/peers/{name}/lib{name}.so"
    )
    preload = f"LD_PRELOAD={library} " if library else ""
    program = "build/release/bench/bench_random_mixed_mt_remote_malloc"
    fields: dict[str, object] = {
        "suite": "synthetic", "row_index": row_index, "row": row.name, "about": row.about, "tags": "made",
        "params": row.params,
        "allocator": name, "ours": ours, "round": 1, "position": 1, "failure": "", "marks": "", "metric": row.metric,
        "unit": row.unit, "less_is_better": row.less_is_better, "value": row.speed, "wall_seconds": 0.41,
        "cpu_seconds": 0.8, "peak_rss_kb": row.memory_kb, "final_rss_kb": row.memory_kb // 2, "other_cpu_share": 0.01,
        "figures": f"{row.metric}={row.speed:.0f} fallback_rate=0.00% result=77",
        "command": f"{preload}{program} {row.params}",
        "library": library, "library_sha256": f"{len(name) * 7919:064x}" if library else "", "library_version": "1.2.3",
        "config": CONFIG if ours else "", "program_sha256": "66" * 32, "commit": "71ce0b5", "cpu": "Made Processor",
        "cores": 2, "kernel": "6.1.0", "governor": "performance", "load": 0.31, "busy_share": 0.0, "seed": 42,
        "scale": 1.0, "started": START.isoformat(),
    }  # fmt: skip
    return Run(**(fields | changes))


@dataclasses.dataclass(frozen=True)
class Made:
    """What to make. `drift` multiplies the speed of ours, for histories. `names` are the rows to make, or all if empty."""

    commit: str = "71ce0b5"
    day: int = 0
    rounds: int = 5
    drift: float = 1.0
    with_failures: bool = True
    names: tuple[str, ...] = ()


def runs(made: Made) -> list[tuple[Run, list[tuple[int, int]]]]:
    """All runs with their RSS samples, in the shuffled order of a suite."""
    noise = random.Random(f"{made.commit}/{made.day}")
    taste = random.Random("how well an allocator likes a row")
    liking = {(row.name, one[0]): taste.lognormvariate(0, 0.17) for row in rows() for one in ALLOCATORS}
    found = []
    position = 0
    for at, row in enumerate(row for row in rows() if not made.names or row.name in made.names):
        for round_number in range(1, made.rounds + 1):
            for name, ours, speed, memory, loss in noise.sample(ALLOCATORS, len(ALLOCATORS)):
                position += 1
                started = START + datetime.timedelta(days=made.day, seconds=position)
                marks = "noisy" if noise.random() < 0.01 else ""
                peak = int(row.memory_kb * memory / liking[row.name, name] * noise.uniform(0.98, 1.02))
                liked = speed * liking[row.name, name] * (made.drift if ours else 1)
                value = _value(row, liked, loss, noise)
                run = make_run(
                    row, at, name, ours, round=round_number, position=position, value=value, marks=marks,
                    peak_rss_kb=peak, final_rss_kb=int(peak * 0.6), commit=made.commit,
                    started=started.isoformat(timespec="seconds"),
                )  # fmt: skip
                if row.metric == "requests_per_s":
                    run.figures += f" p50_us={41_000 / value:.0f} p99_us={140_000 / value:.0f}"
                if made.with_failures and (name, row.name) == ("glibc", "mt-t16-r90-64k"):
                    run = dataclasses.replace(run, failure="ended by signal 6: malloc(): corrupted top size", value=0.0)
                if made.with_failures and (name, row.name, round_number) == ("hz4", "mt-t16-r90", 2):
                    run = dataclasses.replace(run, failure="no end within 120 s", value=0.0)
                found.append((run, _samples(peak, noise) if row.sampled else []))
    return found


def write(path: pathlib.Path, made: list[tuple[Run, list[tuple[int, int]]]]) -> pathlib.Path:
    """Writes the runs as `hakobench run` does."""
    writer = record.Writer(path)
    for run, samples in made:
        writer.add(run, samples)
    writer.close()
    return path


def write_history(directory: pathlib.Path) -> list[pathlib.Path]:
    """Three commits, two days apart, and a file in the format of the first runner."""
    steps = (("2bb5072", 0, 0.88), ("64ec780", 2, 0.97), ("71ce0b5", 4, 1.0))
    made = [Made(commit, day, drift=drift) for commit, day, drift in steps]
    paths = [write(directory / f"synthetic-{one.day}.csv", runs(one)) for one in made]
    (directory / "compare-older.csv").write_text("row,allocator,round\nmt,glibc,1\n", encoding="utf-8")
    return paths
