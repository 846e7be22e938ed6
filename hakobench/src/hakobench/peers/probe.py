"""Tests whether a preloaded library really replaces malloc."""

import os
import pathlib
import signal
import subprocess
import sys

from hakobench.peers import programs
from hakobench.peers.errors import PeerError

PROBE_SECONDS_MAX = 60.0

_SCRIPT = """
import ctypes, os, sys, threading
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
class Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("at", pointer)]
c = ctypes.CDLL(None)
for function in (c.malloc, c.calloc, c.realloc):
    function.restype = pointer
c.malloc.argtypes, c.calloc.argtypes = [size_t], [size_t, size_t]
c.realloc.argtypes, c.free.argtypes = [pointer, size_t], [pointer]
def require(fact, text):
    if not fact:
        sys.exit(text)
blocks = []
def allocate():
    for size in [0, 1, 8, 16, 100, 1000, 4096, 32768, 100000, 1 << 20, 5 << 20] * 20:
        block = c.malloc(size)
        require(block and block % 16 == 0 or size < 16, f"malloc({size}) gave {block}")
        ctypes.memset(block, 0xAB, size)
        blocks.append((block, size))
allocate()
other = threading.Thread(target=allocate)
other.start()
other.join()
for block, size in blocks:
    grown = c.realloc(block, size + 100)
    require(grown and ctypes.string_at(grown, size) == b"\\xab" * size, f"realloc of {size} bytes lost them")
    c.free(grown)
zeroed = c.calloc(1000, 7)
require(ctypes.string_at(zeroed, 7000) == bytes(7000), "calloc gave memory that is not zero")
c.free(zeroed)
aligned = pointer()
require(c.posix_memalign(ctypes.byref(aligned), size_t(4096), size_t(100)) == 0 and aligned.value % 4096 == 0,
        "posix_memalign failed")
c.free(aligned)
require(any(line.rstrip().endswith(sys.argv[1]) for line in open("/proc/self/maps")), "it was not loaded")
# Asks the library, not the process: a program that is not position independent has a malloc stub of its own.
library = ctypes.CDLL(sys.argv[1])
c.dladdr.argtypes = [pointer, ctypes.POINTER(Place)]
for name in ("malloc", "free"):
    place = Place()
    require(hasattr(library, name), f"it has no {name}")
    known = c.dladdr(ctypes.cast(getattr(library, name), pointer), ctypes.byref(place))
    file = place.file.decode() if known else "nowhere"
    require(os.path.realpath(file) == sys.argv[1], f"it has no {name} of its own, but that of {file}")
"""


def check(library: pathlib.Path, settings: dict[str, str]) -> None:
    """Runs a process under the library that allocates in two threads. Raises PeerError when that fails."""
    if any(character in str(library) for character in " :"):
        raise PeerError(f"'{library}' has a blank or colon, which LD_PRELOAD takes as a separator")
    environment = programs.environment(**settings, LD_PRELOAD=str(library))
    try:
        child = subprocess.run(
            [sys.executable, "-c", _SCRIPT, os.path.realpath(library)],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"a process under it did not end within {PROBE_SECONDS_MAX:g} s") from error
    words = (child.stderr.strip().splitlines() or ["no message"])[-1].replace(str(library), library.name)
    if child.returncode < 0:
        raise PeerError(f"a process under it died: {signal.Signals(-child.returncode).name}")
    if child.returncode > 0:
        raise PeerError(f"a process under it failed: {words}")
