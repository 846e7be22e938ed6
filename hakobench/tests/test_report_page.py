"""The page: its contents, links that all lead to places in the page, and unusual recordings."""

import dataclasses
import html.parser
import math
import pathlib
import re

import pytest
from click.testing import CliRunner

import report_recordings
from hakobench import record
from hakobench.commands.report import command
from hakobench.report import canvas, facts, history, page, plots, svg, theme
from report_recordings import MadeRow, make_run

SPEED = MadeRow("mt-t2-r90", "two threads", "threads=2 remote=90")
TIME = MadeRow("compile", "a compiler", "", "wall_seconds", "s", True, 2.0)


class Elements(html.parser.HTMLParser):
    """Collects the parts of a page that tests look at."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [found[name] for name in ("href", "src", "xlink:href") if found.get(name)]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _recording(*runs: record.Run) -> record.Recording:
    numbered = [dataclasses.replace(run, position=at + 1) for at, run in enumerate(runs)]
    return record.Recording(pathlib.Path("made.csv"), numbered, [])


def _render(*runs: record.Run) -> str:
    recording = _recording(*runs)
    return page.render(recording, history.collect(recording, []))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("results")
    report_recordings.write_history(folder)
    return folder


@pytest.fixture(scope="module")
def full_page(made: pathlib.Path) -> str:
    done = CliRunner().invoke(command, ["--results-dir", str(made), "--output", str(made / "page.html")])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{made / 'page.html'}\n"
    assert "compare-older.csv:1" in done.stderr
    return (made / "page.html").read_text(encoding="utf-8")


def test_every_link_leads_to_something_on_the_page(full_page: str) -> None:
    found = Elements(full_page)
    inner = {link[1:] for link in found.links if link.startswith("#")}
    assert len(found.ids) == len(set(found.ids))
    assert len(inner) > 25 * 9
    assert inner <= set(found.ids)


def test_the_page_loads_nothing(full_page: str) -> None:
    found = Elements(full_page)
    assert [link for link in found.links if not link.startswith("#")] == ["data:,"]
    assert not re.search(r"https?://|@import|url\((?!#)", full_page)
    assert "default-src 'none'" in full_page


def test_no_path_of_the_machine_is_reported(made: pathlib.Path, full_page: str) -> None:
    assert str(made) not in full_page and str(made.parent.name) not in full_page
    assert "left out: compare-older.csv:1" in full_page


def test_every_run_is_there_and_the_page_is_not_too_large(full_page: str) -> None:
    runs = [name for name in Elements(full_page).ids if name.startswith("run.")]
    assert len(runs) == 25 * 9 * 5
    assert len(full_page) < 3_000_000


def test_the_newest_results_are_taken_and_all_commits_are_in_the_history(full_page: str) -> None:
    assert "rows of all commits, geometric mean" in full_page
    places = [full_page.index(f"<li>{commit}, 2026") for commit in ("2bb5072", "64ec780", "71ce0b5")]
    assert places == sorted(places)
    header = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", full_page))
    assert header["commit"] == "71ce0b5"
    assert header["machine"] == "Made Processor, 2 cores"
    assert header["seed"] == "42"


def test_the_same_results_give_the_same_bytes(made: pathlib.Path, full_page: str) -> None:
    done = CliRunner().invoke(
        command, [str(made / "synthetic-4.csv"), "--results-dir", str(made), "--output", str(made / "2.html")]
    )
    assert done.exit_code == 0, done.output
    assert (made / "2.html").read_text(encoding="utf-8") == full_page


def test_names_and_failures_do_not_break_out() -> None:
    evil = '</title><script>alert("x")</script><b a=\'&amp;'
    row = dataclasses.replace(SPEED, name=f"row{evil}", about=f"about{evil}", params=f"threads=2 k={evil.split()[0]}")
    runs = [
        make_run(row, 0, f"peer{evil}$x^2$", value=10.0),
        make_run(
            row, 0, f"ours{evil}", True, value=11.0, commit=evil, config=evil, figures=f"a={evil}", marks="odd<mark>"
        ),
        make_run(row, 0, "broken", failure=f"died{evil}\nline", command=evil),
    ]
    text = _render(*runs)
    found = Elements(text)
    assert found.tags.count("script") == 1
    assert "mark" not in found.tags
    assert found.tags.count("title") > 1  # those of the pictures
    assert any(f"died{evil}" in words.replace("\n", " ") or f"died{evil}\nline" in words for words in found.text)
    assert "$x^2$" in text


def test_ratios_and_losses_of_a_known_recording() -> None:
    runs = [
        make_run(SPEED, 0, "glibc", value=10.0, peak_rss_kb=2048),
        make_run(SPEED, 0, "hz3", True, value=8.0, peak_rss_kb=4096),
        make_run(TIME, 1, "glibc", value=3.0, peak_rss_kb=2048),
        make_run(TIME, 1, "hz3", True, value=2.0, peak_rss_kb=1024),
    ]
    found = facts.collect(_recording(*runs))
    (verdict,) = found.verdicts
    assert verdict.ratios == pytest.approx({"mt-t2-r90": 0.8, "compile": 1.5})
    assert verdict.mean == pytest.approx((0.8 * 1.5) ** 0.5)
    assert (verdict.wins, verdict.losses, verdict.worst, verdict.best) == (
        ["compile"],
        ["mt-t2-r90"],
        "mt-t2-r90",
        "compile",
    )
    assert [facts.rss_goodness(line, "hz3") for line in found.table] == [0.5, 2.0]
    text = _render(*runs)
    few = "<small>not decided (pairs: 1)</small>"
    assert re.search(rf'<td class="num" data-value="0.8[0-9]*"><a href="#row.mt-t2-r90">0.80</a> {re.escape(few)}</td>', text)
    assert re.search(rf'<td class="num" data-value="1.5[0-9]*"><a href="#row.compile">1.50</a> {re.escape(few)}</td>', text)


def _paired(*mine: float) -> list[record.Run]:
    """Three rounds of a peer, and of ours."""
    peers = [make_run(SPEED, 0, "glibc", value=value, round=turn) for turn, value in enumerate((10.0, 11.0, 12.0))]
    return [*peers, *(make_run(SPEED, 0, "hz3", True, value=value, round=turn) for turn, value in enumerate(mine))]


def test_rounds_that_overlap_can_differ() -> None:
    def word(*mine: float) -> str:
        (verdict,) = facts.collect(_recording(*_paired(*mine))).verdicts
        return verdict.standings["mt-t2-r90"].word

    assert word(9.0, 9.9, 10.8) == "behind"  # each 10 % slower than the peer in the same round
    assert word(9.0, 9.5, 14.0) == "not decided"
    assert word(10.1, 11.1, 12.1) == "level within 2 %"


def test_only_a_row_that_is_behind_is_a_loss() -> None:

    def counts(text: str) -> list[str]:
        verdict = text[text.index('class="counts"') :]
        found = re.findall(r"<b[^>]*>(\d+)</b> ([a-z0-9 %]+)<", verdict[: verdict.index("</ul>")])
        return [f"{number} {what}" for number, what in found]

    level = _render(*_paired(9.95, 10.9, 11.9))
    assert counts(level) == ["0 ahead", "0 not decided", "1 level within 2 %", "0 behind"]
    assert 'class="num loss"' not in level
    open_ = _render(*_paired(9.0, 9.5, 13.0))
    assert counts(open_) == ["0 ahead", "1 not decided", "0 level within 2 %", "0 behind"]
    assert 'class="num loss"' not in open_
    slower = _render(*_paired(9.0, 9.9, 10.8))
    assert counts(slower) == ["0 ahead", "0 not decided", "0 level within 2 %", "1 behind"]
    assert 'class="num loss"' in slower
    assert "<small>behind (0.900 .. 0.900)</small>" in slower
    assert SPEED.about in level[level.index('id="speed"') :]


def test_the_page_says_what_judges_a_row_and_what_the_host_took() -> None:
    runs = [dataclasses.replace(run, judged_by="cpu", stolen_share=0.25) for run in _paired(9.0, 9.9, 10.8)]
    text = _render(*runs)
    assert "of CPU time in the rows that it judges (1 of 1)" in text
    assert "noisy: others used 1%, the host took 25% of the machine" in text
    assert "judged by CPU time" in text
    assert '<td class="num">25.0</td>' in text
    assert "the spread" not in text


def test_rows_are_grouped_when_they_differ_in_one_parameter_only() -> None:
    rows = report_recordings.rows()
    runs = [make_run(row, at, "glibc") for at, row in enumerate(rows)]
    groups = [(one.axis, one.title, list(one.rows)) for one in facts.collect(_recording(*runs)).scaling]
    assert ("threads", "mt-t*-r90", [1, 2, 4, 8, 16]) in groups
    assert ("threads", "mt-t*-r90-64k", [4, 16]) in groups
    assert ("remote", "mt-t16-r*", [0, 50, 90]) in groups
    assert len(groups) == 4 + 5


def test_groups_of_the_same_name_say_what_differs() -> None:
    rows = [
        MadeRow(f"mt-t{n}-r90", "", f"threads={n} remote=90 ring={ring}")
        for n, ring in ((4, 1), (8, 1), (16, 2), (32, 2))
    ]
    runs = [make_run(row, at, "glibc") for at, row in enumerate(rows)]
    titles = [one.title for one in facts.collect(_recording(*runs)).scaling]
    assert titles == ["mt-t*-r90 (ring=1)", "mt-t*-r90 (ring=2)"]


ODD = {
    "one allocator, one round": [make_run(SPEED, 0, "glibc")],
    "ours alone": [make_run(SPEED, 0, "hz3", True)],
    "all failed": [
        make_run(SPEED, 0, "glibc", failure="no end", value=0.0),
        make_run(SPEED, 0, "hz3", True, failure="no end", value=0.0),
    ],
    "a value of zero": [
        make_run(SPEED, 0, "glibc", value=0.0, peak_rss_kb=0),
        make_run(SPEED, 0, "hz3", True, value=0.0),
    ],
    "rows with different allocators": [make_run(SPEED, 0, "glibc"), make_run(TIME, 1, "hz3", True)],
    "one round of several failed": [make_run(SPEED, 0, "glibc"), make_run(SPEED, 0, "glibc", failure="x", value=0.0)],
    "odd parameters": [make_run(dataclasses.replace(SPEED, params="threads=many remote=nan"), 0, "glibc")],
    "odd date": [make_run(SPEED, 0, "glibc", started="yesterday")],
    "scaling of failures": [
        make_run(MadeRow(f"mt-t{n}-r90", "", f"threads={n} remote=90"), n, "glibc", failure="x")
        for n in (1, 2)
    ],
    "letters of other scripts": [make_run(dataclasses.replace(SPEED, name="箱\n白菜"), 0, "箱")],
    "many allocators": [make_run(SPEED, 0, f"peer{at}", value=1.0 + at) for at in range(30)],
    "the same letters": [make_run(MadeRow(name, "", ""), at, "glibc") for at, name in enumerate(("a b", "a-b", "+"))],
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ODD)
def test_odd_recordings_give_a_page(name: str) -> None:
    found = Elements(_render(*ODD[name]))
    inner = {link[1:] for link in found.links if link.startswith("#")}
    assert len(found.ids) == len(set(found.ids))
    assert inner <= set(found.ids)
    assert "svg" in found.tags


def test_missing_parts_are_named() -> None:
    assert "No peer was measured" in _render(*ODD["ours alone"])
    assert "None of the project's own libraries" in _render(*ODD["one allocator, one round"])
    assert "Only 1 round:" in _render(*ODD["one allocator, one round"])
    assert "no end" in _render(*ODD["all failed"])
    assert "others used more than 5%" in _render(make_run(SPEED, 0, "glibc", marks="noisy"))


def test_unreadable_results_are_named(tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(",".join(record.COLUMNS) + "\n", encoding="utf-8")
    for arguments in ([str(empty)], ["--results-dir", str(tmp_path)]):
        done = CliRunner().invoke(command, [*arguments, "--output", str(tmp_path / "x.html")])
        assert done.exit_code == 2
        assert "empty.csv:1: no runs in it" in done.stderr
        assert not (tmp_path / "x.html").exists()
    done = CliRunner().invoke(command, [str(tmp_path / "none.csv")])
    assert (done.exit_code, "none.csv" in done.stderr) == (2, True)
    done = CliRunner().invoke(command, [str(empty), str(empty), "--output", str(tmp_path / "x.html")])
    assert (done.exit_code, "--output is for one HTML page" in done.stderr) == (2, True)


def test_results_of_other_machines_stay_out_of_the_history() -> None:
    current = _recording(make_run(SPEED, 0, "glibc"), make_run(SPEED, 0, "hz3", True))
    older = [dataclasses.replace(run, commit="0000001", started="2026-01-01T00:00:00+00:00") for run in current.runs]
    same = record.Recording(pathlib.Path("same.csv"), older, [])
    other = record.Recording(pathlib.Path("other.csv"), [dataclasses.replace(run, cpu="Other") for run in older], [])
    found = history.collect(current, [same, other])
    assert [commit.name for commit in found.commits] == ["0000001", "71ce0b5"]
    assert [remark for remark in found.remarks if "other.csv" in remark] == found.remarks != []


def test_rss_lines_keep_their_peaks() -> None:
    points = [(at, 1000 - abs(at - 501)) for at in range(1003)]
    thinned = page.thinned(points)
    assert len(thinned) <= page.RSS_POINTS
    assert max(rss for _, rss in thinned) == 1000
    assert [at for at, _ in thinned] == sorted(at for at, _ in thinned)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    """The contrast as WCAG 2 defines it."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("at", [0, 1], ids=["light", "dark"])
def test_contrast(at: int) -> None:
    colours = {role: pair[at] for role, pair in theme.roles().items()}
    for ground in ("page", "card"):
        for text in ("ink", "muted", "link", "win", "loss"):
            assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for role in colours:
        if role.startswith(("peer", "own")):
            assert _contrast(colours[role], colours["card"]) >= 3, role
    for bucket in range(len(theme.HEAT)):
        assert _contrast(colours[f"heat{bucket}"], colours[f"heattext{bucket}"]) >= 4.5, bucket


def test_the_look_of_an_allocator_does_not_depend_on_the_others() -> None:
    few = theme.looks({"glibc": False, "tcmalloc": False, "hz3_scale": True})
    many = theme.looks({"glibc": False, "aaa": False, "jemalloc": False, "tcmalloc": False, "hz3_scale": True})
    assert all(many[name] == few[name] for name in few)
    assert len({(look.role, look.marker) for look in theme.looks({f"p{at}": False for at in range(20)}).values()}) == 20


@pytest.mark.parametrize(
    ("goodness", "bucket"),
    [(0.1, 0), (0.25, 1), (0.949, 3), (0.95, 4), (1.0, 4), (1.049, 4), (1.05, 5), (2.0, 8), (9, 8)],
)
def test_heat_buckets(goodness: float, bucket: int) -> None:
    assert theme.heat_bucket(goodness) == bucket
    assert len(theme.SPEED_LEGEND) == len(theme.RSS_LEGEND) == len(theme.HEAT) == len(theme.HEAT_EDGES) + 1


def test_a_colour_without_a_role_is_refused() -> None:
    figure = canvas.figure(50, 50)
    axes = canvas.axes(figure, 5, 5, 5, 5)
    axes.plot([0, 1], [0, 1], color="red")
    with pytest.raises(ValueError, match="#ff0000 is not the colour of a role"):
        svg.inline(figure, "x", "red line")


def test_labels_are_pushed_apart_and_stay_within() -> None:
    placed = canvas.spread_out([50, 50, 51, 90, 10], 12, 0, 100)
    ordered = sorted(placed)
    assert all(second - first >= 12 - 1e-9 for first, second in zip(ordered, ordered[1:], strict=False))
    assert min(placed) >= 0 and max(placed) <= 100
    assert canvas.spread_out([10.0, 60.0], 12, 0, 100) == [10.0, 60.0]


def test_labels_beside_points_do_not_hide_each_other() -> None:
    points = [(100.0, 100.0), (106.0, 103.0), (112.0, 98.0), (104.0, 92.0)]
    widths = [60.0, 50.0, 70.0, 40.0]
    placed = canvas.place_labels(points, widths, (0, 0, 400, 200))
    boxes = [(x, y - 6, x + width, y + 6) for (x, y), width in zip(placed, widths, strict=True)]
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 137.5), (0, 0.003), (5, 5), (0.8, 1.3)])
def test_linear_ticks_are_within(low: float, high: float) -> None:
    ticks = canvas.linear_ticks(low, high)
    assert 1 <= len(ticks) <= 6
    assert all(low - 1e-9 <= tick <= high * (1 + 1e-9) for tick in ticks)


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (1, 1000), (0.001, 1e9), (42, 90)])
def test_log_ticks_are_within(low: float, high: float) -> None:
    ticks = canvas.log_ticks(low, high)
    assert 2 <= len(ticks) <= 14
    assert all(low * 0.998 <= tick <= high * 1.002 for tick in ticks)


def test_figures_side_by_side_are_on_the_page() -> None:
    row = dataclasses.replace(TIME, name="idle")
    runs = [
        make_run(row, 0, name, value=2.0, also="after5_rss_kb", figures=f"after5_rss_kb={kb}")
        for name, kb in (("glibc", 2048), ("jemalloc", 31_744))
    ]
    page = _render(*runs)
    assert "idle: all figures" in page
    assert re.search(r'<td class="num best" data-value="2.0">2.00</td>', page)
    assert re.search(r'<td class="num" data-value="31.0">31.0</td>', page)
    assert "idle: all figures" not in _render(make_run(row, 0))

def test_a_label_away_from_its_point_has_a_leader() -> None:
    point, height = (100.0, 50.0), 12.0
    assert canvas.leader(point, (108, 50), 40, height) == canvas.leader(point, (52, 50), 40, height) == []
    (start, end) = canvas.leader(point, (108, 90), 40, height)
    assert end == (106, 85) and math.dist(point, start) == pytest.approx(canvas.MARK_RADIUS)
    assert math.dist(point, start) + math.dist(start, end) == pytest.approx(math.dist(point, end)), "it points at the middle of the mark"
    (start, end) = canvas.leader(point, (80, 20), 40, height)
    assert start == (100, 50 - canvas.MARK_RADIUS) and end == (100, 25), "under a wide label, straight down"


def test_crowded_points_have_leaders() -> None:
    names = [f"name{number}" for number in range(8)]
    looks = {name: theme.Look("muted", "o", False) for name in names}
    near = [plots.Point(name, 10 + number / 1000, 10, name) for number, name in enumerate(names)]
    far = [plots.Point(name, 2.0**number, 2.0**number, name) for number, name in enumerate(names)]
    drawn = [len(plots.scatter(points, looks, "x", "y").axes[0].lines) for points in (near, far)]
    assert drawn[1] == len(names) and drawn[0] >= 2 * len(names) - 4


def test_files_that_are_left_out_of_the_history_are_folded() -> None:
    recording = _recording(make_run(SPEED, 0), make_run(SPEED, 0, "hz3_scale", ours=True))
    for remarks, words in (([], 0), (["a is not a CSV"], 1), (["a", "b"], 1)):
        text = page.render(recording, history.collect(recording, [], remarks))
        assert len(re.findall(r"<summary>\d files? (?:is|are) left out</summary>", text)) == words
