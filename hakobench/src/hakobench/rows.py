"""The rows of a suite and the metrics they are judged by. Suites make rows, drivers run them."""

import dataclasses
import re

NAME = re.compile(r"[A-Za-z0-9_.+-]+")  # of rows and allocators, which become names of files


@dataclasses.dataclass(frozen=True)
class Metric:
    """The driver's figure divided by `divisor` is in `unit`. `of_process`: known without the program's output.
    `of_samples`: needs samples of the RSS. `is_neutral`: no allocator is better for it, so no row is judged by it.
    `of_work`: the rate or the time of a fixed amount of work, which CPU time can judge instead."""

    unit: str
    less_is_better: bool
    divisor: float = 1.0
    of_process: bool = False
    of_samples: bool = False
    is_neutral: bool = False
    of_work: bool = False


METRICS = {
    "ops_per_s": Metric("M ops/s", False, 1e6, of_work=True),
    "pairs_per_s": Metric("M pairs/s", False, 1e6, of_work=True),
    "frees_per_s": Metric("M frees/s", False, 1e6, of_work=True),
    "requests_per_s": Metric("k req/s", False, 1e3, of_work=True),
    "seconds": Metric("s", True, of_work=True),
    "median_seconds": Metric("s median", True),
    "slowest_ratio": Metric("x slowest", True),
    "wall_seconds": Metric("s", True, of_process=True, of_work=True),
    "cpu_seconds": Metric("s cpu", True, of_process=True, of_work=True),
    "p99_us": Metric("us p99", True),
    "p9999_us": Metric("us p99.99", True),
    "fork_us": Metric("us fork", True),
    "copied_kb": Metric("MiB copied", True, 1024),
    "peak_rss_kb": Metric("MiB peak", True, 1024),
    "final_rss_kb": Metric("MiB after", True, 1024),
    "idle_rss_kb": Metric("MiB idle", True, 1024),
    "trimmed_rss_kb": Metric("MiB trimmed", True, 1024),
    "rss_mib_s": Metric("MiB s", True, of_process=True, of_samples=True),
    "child_begin_rss_kb": Metric("MiB in the child at first", True, 1024),
    "child_rss_kb": Metric("MiB in the child", True, 1024),
    "started_rss_kb": Metric("MiB started", True, 1024),
    "during_rss_kb": Metric("MiB during", True, 1024),
    "end_rss_kb": Metric("MiB at the end", True, 1024),
    "after1_rss_kb": Metric("MiB 1 s later", True, 1024),
    "after5_rss_kb": Metric("MiB 5 s later", True, 1024),
    "table_kb": Metric("MiB tables", True, 1024, is_neutral=True),
    "live_kb": Metric("MiB live", True, 1024, is_neutral=True),
    "live_pages_kb": Metric("MiB live pages", True, 1024),
    "rss_kb": Metric("MiB in the last hour", True, 1024),
    "hour1_ratio": Metric("x live, hour 1", True),
    "hour24_ratio": Metric("x live, hour 24", True),
    "startup_us": Metric("us start", True),
    "startup_min_us": Metric("us shortest start", True),
    "start_rss_kb": Metric("MiB in main", True, 1024),
    "obtained_kb": Metric("MiB obtained", False, 1024),
    "filled_kb": Metric("MiB filled", False, 1024),
    "again_kb": Metric("MiB again", False, 1024),
    "us_per_mib": Metric("us/MiB", True),
    "faults_per_mib": Metric("faults/MiB", True),
    "read_ns": Metric("ns/read", True),
    "churn_seconds": Metric("s churn", True),
    "worst_us": Metric("us longest malloc", True),
    "malloc_p50_ns": Metric("ns malloc p50", True),
    "malloc_p99_ns": Metric("ns malloc p99", True),
    "malloc_p9999_ns": Metric("ns malloc p99.99", True),
    "malloc_max_ns": Metric("ns malloc max", True),
    "free_p50_ns": Metric("ns free p50", True),
    "free_p99_ns": Metric("ns free p99", True),
    "free_p9999_ns": Metric("ns free p99.99", True),
    "free_max_ns": Metric("ns free max", True),
}
JUDGING = tuple(name for name, metric in METRICS.items() if not metric.is_neutral)
BY_CPU, BY_FIGURE = "cpu", "figure"  # what judges a row: the CPU time of its process, or the row's own figure


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table. `work` is the amount of work at scale 1, 0 when the row has nothing to scale. `also` are
    the metrics shown beside `metric`. `judged_by` is BY_CPU or BY_FIGURE."""

    name: str
    about: str
    workload: str
    driver: str
    args: tuple[str, ...]
    metric: str
    work: int
    tags: tuple[str, ...]
    params: dict[str, str] = dataclasses.field(hash=False)
    also: tuple[str, ...] = ()
    discard_output: bool = False
    rss_every_ms: int = 0
    timeout: float = 120.0
    judged_by: str = BY_FIGURE

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit

    @property
    def less_is_better(self) -> bool:
        return METRICS[self.metric].less_is_better

    @property
    def threads(self) -> int:
        return int(self.params.get("threads", "1"))

    @property
    def default_judge(self) -> str:
        """CPU time where one thread does a fixed amount of work: it leaves out the time in which other processes or the
        host have the cpu. With several threads the figure, because a thread that waits for another uses no CPU time."""
        return BY_CPU if METRICS[self.metric].of_work and self.threads == 1 else BY_FIGURE

    def scaled_args(self, scale: float) -> list[str]:
        amount = str(max(1, round(self.work * scale / self.threads)))
        return [arg.replace("{work}", amount) for arg in self.args]
