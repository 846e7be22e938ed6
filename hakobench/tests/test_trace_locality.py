"""`hakobench locality`: where real allocators place the blocks of recordings, against answers by hand and plain counts."""

import json
import pathlib
import subprocess

import numpy
import pytest
from click.testing import CliRunner, Result
from trace_programs import build_program, build_tools, only, record, run_replay
from trace_samples import MALLOC, REALLOC, random_rows, trace_of
from workload_programs import build_library

from hakobench.allocators import Allocator
from hakobench.cli import main
from hakobench.project import LIB_DIR, ROOT
from hakobench.trace import events, locality, placement, plan, replays, store
from hakobench.trace.events import Trace

OURS = LIB_DIR / "libhakozuna.so"
SIZE = 48  # of every block whose place is known
COUNT = 5000
# N blocks one after another, and then freed from the last to the first.
PROGRAM = f"""
static void *blocks[{COUNT}];
int main(void) {{
    for (int i = 0; i < {COUNT}; i++) MUST(blocks[i] = keep(malloc({SIZE})));
    for (int i = {COUNT}; i-- > 0;) free(blocks[i]);
    return 0;
}}
"""
# Serves those blocks from an array of its own, STEP bytes apart; all else comes from glibc.
SPACED = f"""
#include "next.h"
static _Alignas(4096) char array[{COUNT} * STEP];
static size_t used;
void *malloc(size_t size) {{ return size == {SIZE} ? &array[used++ * STEP] : next_malloc(size); }}
void free(void *block) {{
    size_t place = (size_t)((char *)block - array);
    if (place >= sizeof array) next_free(block);
}}
"""
# Serves them all from one place: only one is live at a time.
ONE_PLACE = f"""
#include "next.h"
static _Alignas(64) char place[64];
void *malloc(size_t size) {{ return size == {SIZE} ? place : next_malloc(size); }}
void free(void *block) {{ if (block != place) next_free(block); }}
"""
NOTHING = f"""
#include "next.h"
void *malloc(size_t size) {{ return size == {SIZE} ? NULL : next_malloc(size); }}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = build_tools(tmp_path_factory.mktemp("tools"))
    build_program(directory / "program", PROGRAM)
    codes = {f"step{step}": SPACED.replace("STEP", str(step)) for step in (48, 64, 4096)}
    for name, code in (codes | {"one": ONE_PLACE, "nothing": NOTHING}).items():
        build_library(directory / f"{name}.so", code)
    return directory


@pytest.fixture(scope="module")
def recording(built: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The program as recorded, without the C library's own calls."""
    return only(record(built, tmp_path_factory.mktemp("recording") / "raw", built / "program"))


@pytest.fixture
def cli(tmp_path: pathlib.Path, built: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Calls hakobench in tmp_path, with the tools of this test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(replays, "BIN_DIR", built)
    monkeypatch.setattr(replays, "DIRECTORY", tmp_path / "plans")
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def _ok(result: Result, code: int = 0) -> Result:
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def _addresses(built: pathlib.Path, trace: Trace, tmp_path: pathlib.Path, library: pathlib.Path | None = None) -> numpy.ndarray:
    plan.write(tmp_path / "plan", trace)
    done = run_replay(built, tmp_path / "plan", str(tmp_path / "addresses"), "--addresses", library=library)
    assert (done.returncode, done.stderr) == (0, "")
    return placement.read(tmp_path / "addresses", trace)


# ---- known places ---------------------------------------------------------------------------------------------------


def _units(step: int, window: int, unit: int) -> list[int]:
    """How many units the blocks of each window lie on, if block i lies at i * step: each block lists its own."""
    blocks = [range(place * step // unit, (place * step + SIZE - 1) // unit + 1) for place in range(COUNT)]
    return [len(set().union(*blocks[at : at + window])) for at in range(0, COUNT, window)]


@pytest.mark.parametrize("step", [48, 64, 4096])
def test_blocks_at_known_places(built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path, step: int) -> None:
    addresses = _addresses(built, recording, tmp_path, built / f"step{step}.so")
    found = locality.measure(recording, addresses, events.ALLOCATE, 1000)
    assert list(found.bytes) == [1000 * SIZE] * 5
    assert list(found.lines) == _units(step, 1000, 64)
    assert list(found.pages) == _units(step, 1000, 4096)
    freed = locality.measure(recording, addresses, events.RELEASE, 1000)
    assert list(freed.lines) == list(found.lines[::-1])
    assert list(freed.pages) == list(found.pages[::-1])


def test_the_known_answers_themselves() -> None:
    """By hand: 1000 blocks of 48 bytes fill 750 lines; 64 bytes apart they lie on 1000; a page apart, on 1000 pages."""
    assert _units(48, 1000, 64) == [750] * 5
    assert (_units(64, 1000, 64), _units(64, 1000, 4096)) == ([1000] * 5, [16, 17, 16, 17, 17])
    assert (_units(4096, 1000, 64), _units(4096, 1000, 4096)) == ([1000] * 5, [1000] * 5)


def test_memory_used_again_counts_once(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = []
    for block in range(100):
        rows += [(MALLOC, events.ALLOCATE, 0, block, SIZE, 0), (events.FREE, events.RELEASE, 0, block, 0, 0)]
    trace = trace_of(rows)
    addresses = _addresses(built, trace, tmp_path, built / "one.so")
    for kind in (events.ALLOCATE, events.RELEASE):
        found = locality.measure(trace, addresses, kind, 50)
        assert (list(found.lines), list(found.pages), list(found.bytes)) == ([1, 1], [1, 1], [50 * SIZE] * 2)
        assert list(found.lines_to_packed) == [64 / (50 * SIZE)] * 2


@pytest.mark.parametrize("library", [None, OURS], ids=["glibc", "hakozuna"])
def test_blocks_of_one_size_lie_side_by_side(
    built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path, library: pathlib.Path | None
) -> None:
    """glibc gives a block of 48 bytes 64, 16 of which precede it; hakozuna gives it 48."""
    if library is not None and not library.exists():
        pytest.skip("no libhakozuna.so; 'make libs' builds it")
    found = locality.measure(recording, _addresses(built, recording, tmp_path, library), events.ALLOCATE, 1000)
    apart = 48 if library else 64
    assert numpy.median(found.lines) == pytest.approx(1000 * apart / 64, rel=0.35 if library is None else 0.05)
    assert numpy.median(found.pages) <= 1000 * apart / 4096 + 3


# ---- any recording --------------------------------------------------------------------------------------------------


def _count_plainly(trace: Trace, addresses: numpy.ndarray, kind: int, window: int) -> list[tuple[int, int, int]]:
    """Lines, pages and bytes of each window, event by event."""
    sizes: dict[int, int] = {}
    blocks: dict[int, list[tuple[int, int]]] = {}
    for at in range(len(trace)):
        block = int(trace.block[at])
        if trace.kind[at] in (events.ALLOCATE, events.RESIZE, events.MOVE):
            sizes[block] = int(trace.size[at])
        if trace.kind[at] == kind:
            blocks.setdefault(int(trace.thread[at]), []).append((int(addresses[at]), sizes[block]))
    found = []
    for thread in sorted(blocks):
        own = blocks[thread]
        for start in range(0, len(own) // window * window, window):
            part = own[start : start + window]
            touched = [address + byte for address, size in part for byte in range(size)]
            found.append((len({at // 64 for at in touched}), len({at // 4096 for at in touched}), sum(size for _, size in part)))
    return found


@pytest.mark.parametrize(("threads", "size_max"), [(1, 200), (5, 3000)])
def test_figures_are_those_of_a_plain_count(built: pathlib.Path, tmp_path: pathlib.Path, threads: int, size_max: int) -> None:
    trace = trace_of(random_rows(23, 6000, threads=threads, size_max=size_max))
    addresses = _addresses(built, trace, tmp_path)
    for kind in (events.ALLOCATE, events.RELEASE):
        found = locality.measure(trace, addresses, kind, 100)
        assert list(zip(found.lines, found.pages, found.bytes, strict=True)) == _count_plainly(trace, addresses, kind, 100)
        assert len(found) > 10


def test_addresses_belong_to_their_events(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A block is given back where it was last; failed calls and free(NULL), which have no address, shift nothing."""
    rows = [(MALLOC, events.FAILED, 0, 0, 1 << 62, 0), *[(f, k, t + 1, b, s, a) for f, k, t, b, s, a in random_rows(5, 8000)]]
    trace = trace_of(rows)
    addresses = _addresses(built, trace, tmp_path)
    places: dict[int, int] = {}
    seen = 0
    for at, (_, kind, _, block, size, align) in enumerate(rows):
        address = int(addresses[at])
        if kind in (events.FAILED, events.FREE_NULL):
            assert address == 0
        elif kind == events.RELEASE:
            assert address == places.pop(block)
            seen += 1
        else:
            assert address % (1 << align) == 0
            assert address > 0 or size == 0
            places[block] = address
    assert seen > 2000


def test_a_file_of_another_recording_is_refused(built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path) -> None:
    _addresses(built, recording, tmp_path)
    other = trace_of(random_rows(1, 100))
    with pytest.raises(ValueError, match=f"addresses has {2 * COUNT} addresses, the recording has"):
        placement.read(tmp_path / "addresses", other)


def test_sizes_of_blocks_that_change() -> None:
    rows = [
        (MALLOC, events.ALLOCATE, 0, 0, 10, 0), (MALLOC, events.ALLOCATE, 0, 1, 20, 0), (REALLOC, events.RESIZE, 0, 0, 30, 0),
        (events.FREE, events.FREE_NULL, 0, 0, 0, 0), (REALLOC, events.MOVE, 0, 1, 5, 0), (events.FREE, events.RELEASE, 0, 1, 0, 0),
        (events.FREE, events.RELEASE, 0, 0, 0, 0),
    ]  # fmt: skip
    assert list(locality.sizes(trace_of(rows))) == [10, 20, 30, 0, 5, 5, 30]


# ---- the command ----------------------------------------------------------------------------------------------------


def test_from_a_recording_to_a_table(cli, built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path) -> None:
    store.write(tmp_path / "x.hakotrace", recording)
    libraries = [word for step in (48, 64, 4096) for word in ("--lib", f"step{step}={built}/step{step}.so")]
    printed = _ok(cli("locality", "x.hakotrace", "--allocators", "glibc", *libraries, "--export-json", "x.json")).output
    lines = [line.split() for line in printed.splitlines()]
    assert "5 windows of 1000 allocations; packed, their bytes fill 750 lines, 11.7 pages (median)" in printed
    assert ["step48", "750", "1.00", "1.00", "13", "1.11", "1.11"] in lines
    assert ["step64", "1000", "1.33", "1.33", "17", "1.45", "1.45"] in lines
    assert ["step4096", "1000", "1.33", "1.33", "1000", "85.3", "85.3"] in lines
    exported = json.loads((tmp_path / "x.json").read_text())
    assert (exported["program"], exported["calls"], exported["line_bytes"]) == ("program", 2 * COUNT, 64)
    found = {(one["name"], part["of"], part["window"]): part for one in exported["allocators"] for part in one["figures"]}
    assert len(found) == 8
    assert found["step64", "allocations", 1000]["windows"] == 5
    assert found["step64", "allocations", 1000]["lines"] == {"mean": 1000, **dict.fromkeys(locality.QUANTILES, 1000)}
    assert found["step4096", "frees", 1000]["pages_to_packed"]["p50"] == pytest.approx(4096 / SIZE)
    assert str(ROOT) not in json.dumps(exported)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plans", "x.hakotrace", "x.json"]
    assert not [*(tmp_path / "plans").iterdir()]


def test_several_windows_of_one_replay(cli, built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path) -> None:
    store.write(tmp_path / "x.hakotrace", recording)
    words = ["--lib", f"step64={built}/step64.so", "--allocators", "", "--window", "4", "--window", "500", "--window", "4"]
    printed = _ok(cli("locality", "x.hakotrace", *words)).output
    lines = [line.split() for line in printed.splitlines()]
    assert "1250 windows of 4 frees; packed, their bytes fill 3.00 lines, 0.0469 pages (median)" in printed
    assert lines.count(["step64", "4", "1.33", "1.33", "1", "21.3", "21.3"]) == 2
    assert [line[:4] for line in lines].count(["step64", "500", "1.33", "1.33"]) == 2


def test_the_same_figures_each_time(cli, recording: Trace, tmp_path: pathlib.Path) -> None:
    """hakozuna's blocks begin at a place in their page that depends on its address."""
    if subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("addresses cannot be kept from being randomized here")
    store.write(tmp_path / "x.hakotrace", recording)
    names = ["--allocators", "glibc", *(["--lib", f"ours={OURS}"] if OURS.exists() else [])]
    for name in ("one.json", "two.json"):
        _ok(cli("locality", "x.hakotrace", *names, "--window", "50", "--export-json", name))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_replay_that_fails_is_named(cli, built: pathlib.Path, recording: Trace, tmp_path: pathlib.Path) -> None:
    store.write(tmp_path / "x.hakotrace", recording)
    words = ["--allocators", "glibc", "--lib", f"nothing={built}/nothing.so", "--export-json", "x.json"]
    printed = _ok(cli("locality", "x.hakotrace", *words), 1).output
    assert f"FAILED: nothing: exit code 1: hakoreplay: no memory for {SIZE} bytes" in printed
    good, bad = json.loads((tmp_path / "x.json").read_text())["allocators"]
    assert (good["name"], bad["name"], "failure" in good, "failure" in bad) == ("glibc", "nothing", False, True)


def test_a_program_that_frees_little(cli, tmp_path: pathlib.Path) -> None:
    rows = [(MALLOC, events.ALLOCATE, 0, block, 8, 0) for block in range(20)]
    store.write(tmp_path / "x", trace_of(rows))
    printed = _ok(cli("locality", "x", "--allocators", "glibc", "--window", "20", "--export-json", "x.json")).output
    assert "1 window of 20 allocations" in printed
    assert "No thread makes 20 frees." in printed
    assert json.loads((tmp_path / "x.json").read_text())["allocators"][0]["figures"][0]["of"] == "allocations"
    assert len(json.loads((tmp_path / "x.json").read_text())["allocators"][0]["figures"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing"], "'missing' does not exist"),
        (["text"], "text: offset 0: not a recording"),
        (["good"], "--window=1000: a window has the allocations of one thread, and no thread of this recording makes more than"),
        (["good", "--window", "0"], "0 is not in the range"),
        (["good", "--window", "ten"], "'ten' is not a valid integer range"),
        (["good", "--window", "5", "--allocators", "nobody"], "no allocator is called 'nobody'"),
        (["good", "--window", "5", "--lib", "x=missing.so"], "cannot read"),
        (["good", "--export-json", "no/directory/x"], "--export-json: there is no directory"),
        (["failed-only", "--window", "1"], "no thread of this recording makes more than 0"),
    ],
)
def test_bad_arguments(cli, tmp_path: pathlib.Path, words: list[str], message: str) -> None:
    (tmp_path / "text").write_text("This is no recording at all, but long enough for a header.\n")
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    store.write(tmp_path / "failed-only", trace_of([(MALLOC, events.FAILED, 0, 0, 1 << 62, 0)]))
    before = sorted(tmp_path.iterdir())
    printed = " ".join(_ok(cli("locality", *words), 2).output.split())
    assert message in printed
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_program_is_reported(cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    monkeypatch.setattr(replays, "BIN_DIR", tmp_path)
    assert "no program" in _ok(cli("locality", "good", "--window", "5"), 2).output


def test_an_interrupt_leaves_nothing(cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(placement, "of", interrupt)
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    assert "interrupted; nothing is kept" in _ok(cli("locality", "good", "--window", "5", "--allocators", "glibc"), 130).output
    assert not [*(tmp_path / "plans").iterdir()]


def test_a_library_that_takes_no_effect(built: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "BIN_DIR", built)
    trace = trace_of(random_rows(1, 100))
    plan.write(tmp_path / "x.plan", trace)
    library = build_library(tmp_path / "nothing.so", "int nothing_to_see_here(void) { return 1; }\n")
    with pytest.raises(placement.FailedError, match="the preload took no effect: malloc comes from libc"):
        placement.of(trace, tmp_path / "x.plan", Allocator("nothing", library), 60.0)
    assert not (tmp_path / "x.addresses").exists()
