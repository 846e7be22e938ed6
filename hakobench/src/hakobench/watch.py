"""Watches a process while it runs: whether the preloaded library is mapped, and how large the RSS is."""

import os
import pathlib
import threading
import time

LOOK_SECONDS = 0.002  # between looks for the library, until it is seen
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class Watcher:
    """Watches one run. The runner calls `start` with the pid right after the start of the program, and `stop` after its
    end.

    `seen`: the library was in /proc/PID/maps. `looked`: the maps were read when the C library was already there.
    The preloaded library would then be there too, because the loader maps preloaded libraries first. `samples`: pairs
    of milliseconds since the start and RSS in KiB.
    """

    def __init__(self, library: pathlib.Path | None, rss_every_ms: int):
        self._library = str(library.resolve()) if library else None
        self._every = rss_every_ms / 1000
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.seen = False
        self.looked = False
        self.samples: list[tuple[int, int]] = []

    def start(self, pid: int) -> None:
        if self._thread is None and (self._library or self._every):
            self._thread = threading.Thread(target=self._watch, args=(pid, time.monotonic()), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, pid: int, began: float) -> None:
        try:
            while self._library and not self.seen and not self._ended.is_set():
                self._look(pid)
                self._ended.wait(LOOK_SECONDS)
            while self._every and not self._ended.is_set():
                resident = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KB
                self.samples.append((round((time.monotonic() - began) * 1000), resident))
                self._ended.wait(self._every)
        except (OSError, IndexError):
            return  # the process has ended

    def _look(self, pid: int) -> None:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace")
        self.looked = self.looked or "/libc.so" in maps
        self.seen = any(line.endswith(self._library) for line in maps.splitlines())
