"""The facts about the machine that results record, and whether the machine is quiet enough."""

import dataclasses
import os
import pathlib
import platform
import subprocess
import sys
import time

from hakobench.project import IN_CHECKOUT, ROOT, version

MEASURABLE_SECONDS = 0.5  # of cpu time, summed over the cpus
BUSY_SHARE_MAX = 0.10  # of the cpus in use before the start; above it only --force runs anything


@dataclasses.dataclass(frozen=True)
class Machine:
    """Facts that stay the same during a run of a suite. The load is that of the start."""

    cpu: str
    cores: int
    kernel: str
    governor: str
    commit: str
    load: float
    busy_share: float

    @property
    def is_busy(self) -> bool:
        return self.busy_share > BUSY_SHARE_MAX


@dataclasses.dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot, summed over the cpus: those that were busy (stolen ones too), those that the host stole (it
    ran something else while a cpu of this machine wanted to work), and all."""

    busy: float
    total: float
    stolen: float = 0.0

    @classmethod
    def now(cls) -> "CpuTimes":
        return cls.of(pathlib.Path("/proc/stat").read_text())

    @classmethod
    def of(cls, stat: str) -> "CpuTimes":
        """From the text of /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal, in ticks."""
        fields = [int(word) for word in stat.split("\n", 1)[0].split()[1:9]]
        tick = os.sysconf("SC_CLK_TCK")
        idle = fields[3] + fields[4]  # idle, iowait
        return cls((sum(fields) - idle) / tick, sum(fields) / tick, fields[7] / tick)

    def share_since(self, before: "CpuTimes", own_seconds: float = 0.0) -> float | None:
        """The share of the machine (0..1) that was busy since `before`, minus `own_seconds` of cpu time. None when
        too little time passed, because the kernel counts in ticks of 10 ms."""
        return self._share(self.busy - before.busy - own_seconds, before)

    def others_since(self, before: "CpuTimes", own_seconds: float) -> float | None:
        """As share_since, without what the host stole."""
        return self._share(self.busy - before.busy - (self.stolen - before.stolen) - own_seconds, before)

    def stolen_since(self, before: "CpuTimes") -> float | None:
        """The share of the machine (0..1) that the host stole since `before`; None as in share_since."""
        return self._share(self.stolen - before.stolen, before)

    def _share(self, seconds: float, before: "CpuTimes") -> float | None:
        total = self.total - before.total
        return None if total < MEASURABLE_SECONDS else min(1.0, max(0.0, seconds) / total)


def _cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _governor() -> str:
    """The frequency governor of the first cpu; "none" without frequency scaling, as on most virtual machines."""
    try:
        return pathlib.Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return "none"


def commit() -> str:
    """`git describe` of the project, with "-dirty" for uncommitted changes; "unknown" without git. An installed
    hakobench names its version: the folder that it runs in may be a checkout of something else."""
    if not IN_CHECKOUT:
        return f"hakobench-{version()}"
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return "unknown"
    return asked.stdout.strip() if asked.returncode == 0 else "unknown"


def look(sample_seconds: float = 0.5) -> Machine:
    """Observes the machine for `sample_seconds`. The load average still contains a build that ended a
    minute ago, so the cpu times of these seconds decide whether the machine is busy."""
    before = CpuTimes.now()
    time.sleep(sample_seconds)
    busy_share = CpuTimes.now().share_since(before) or 0.0
    cores = len(os.sched_getaffinity(0))
    return Machine(_cpu_model(), cores, platform.release(), _governor(), commit(), os.getloadavg()[0], busy_share)


def busy_text(seen: Machine) -> str:
    """Why nothing is measured on a busy machine."""
    return (
        f"the machine is busy: {seen.busy_share:.0%} of its cpus are in use, allowed are {BUSY_SHARE_MAX:.0%}; "
        "wait, or use --force, which marks the results"
    )


def main(arguments: list[str]) -> int:
    """For make: says whether the machine is quiet, before anything is built. `--force` allows a busy one. Exit code 2:
    busy."""
    seen = look()
    if seen.is_busy and "--force" not in arguments:
        print(f"Error: {busy_text(seen)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
