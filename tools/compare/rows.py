"""The rows of the comparison: a workload, its arguments, and the figure it is judged by.

Every row is a fixed amount of work, so that all allocators do the same; the mt-* rows use --full=wait for that
reason. One of the arguments is the amount of work, `--scale` multiplies it.
"""

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table. `args[work]` is the amount of work."""

    name: str
    workload: str
    args: tuple[str, ...]
    work: int
    figure: str
    about: str

    @property
    def less_is_better(self) -> bool:
        return self.figure == "seconds"

    @property
    def unit(self) -> str:
        return {"seconds": "s", "ops_per_s": "M ops/s", "pairs_per_s": "M pairs/s", "frees_per_s": "M frees/s"}[
            self.figure
        ]

    @property
    def divisor(self) -> float:
        """From the workload's figure to `unit`."""
        return 1.0 if self.less_is_better else 1e6

    def scaled_args(self, scale: float) -> list[str]:
        args = list(self.args)
        args[self.work] = str(max(1, round(int(args[self.work]) * scale)))
        return args


ARGS = "bench_random_mixed_malloc_args"
DIST = "bench_random_mixed_malloc_dist"
REMOTE = "bench_random_mixed_mt_remote_malloc"


def _pairs(name: str, steps: int, slots: int, low: int, high: int, about: str) -> Row:
    return Row(name, ARGS, (str(steps), str(slots), str(low), str(high), "--pair"), 0, "pairs_per_s", about)


def _ring(name: str, threads: int, iters: int, percent: int, about: str, high: int = 2048, ring: int = 1024) -> Row:
    args = (str(threads), str(iters), "400", "16", str(high), str(percent), str(ring), "--full=wait")
    return Row(name, REMOTE, args, 1, "ops_per_s", about)


ROWS: tuple[Row, ...] = (
    _pairs("args-16-256", 60_000_000, 400, 16, 256, "1 thread, 400 live"),
    _pairs("args-16-2048", 40_000_000, 400, 16, 2048, "1 thread, 400 live"),
    Row("dist-app", DIST, ("30000000", "400", "16", "32768", "0x12345678", "app", "--pair"), 0, "pairs_per_s",
        "1 thread, 400 live, 80 % up to 256 B, 5 % up to 32 KiB"),
    _pairs("args-200k-live", 10_000_000, 200_000, 16, 1024, "1 thread, 16-1024, 200,000 live"),
    _pairs("args-2k-64k", 4_000_000, 400, 2048, 65536, "1 thread, 2-64 KiB, 400 live"),
    _ring("mt-t2-r0", 2, 20_000_000, 0, "2 threads, all frees local"),
    _ring("mt-t2-r50", 2, 10_000_000, 50, "2 threads, 50 % of the frees by the other"),
    _ring("mt-t2-r90", 2, 8_000_000, 90, "2 threads, 90 %"),
    _ring("mt-t4-r90", 4, 4_000_000, 90, "4 threads, 90 %"),
    _ring("mt-t16-r90", 16, 1_000_000, 90, "16 threads, 90 %"),
    _ring("mt-t16-r90-ring64k", 16, 1_000_000, 90, "16 threads, 90 %, ring of 65536", ring=65536),
    _ring("mt-t16-r90-32k", 16, 300_000, 90, "16 threads, 90 %, 16-32768", high=32768),
    _ring("mt-t64-r90", 64, 250_000, 90, "64 threads, 90 %"),
    Row("xmalloc-2-2", "xmalloc_test", ("2", "2", "3000"), 2, "frees_per_s", "2 threads allocate, 2 free, 64 B"),
    Row("larson-2", "larson", ("2", "8", "1000", "1000", "2000"), 4, "pairs_per_s",
        "2 threads, 8-1000, blocks handed to successors"),
    Row("cache-scratch-2", "cache_scratch", ("2", "1000", "300000"), 2, "seconds", "2 threads, passive false sharing"),
    Row("cache-thrash-2", "cache_thrash", ("2", "1000", "300000"), 2, "seconds", "2 threads, active false sharing"),
)  # fmt: skip


def select(patterns: str | None) -> list[Row]:
    """Rows whose name matches one of the comma-separated names or shell patterns, in the table's order.

    Raises ValueError that names the pattern which matches nothing, and all rows.
    """
    if patterns is None:
        return list(ROWS)
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    for pattern in wanted:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in ROWS):
            names = ", ".join(row.name for row in ROWS)
            raise ValueError(f"no row is called '{pattern}'; rows: {names}")
    return [row for row in ROWS if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in wanted)]
