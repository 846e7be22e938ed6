"""Colours: roles with a light and a dark value, and the role of each allocator.

Figures are drawn in placeholder colours, one for each role. svg.py replaces them by CSS classes (`f-ink` fills, `s-ink`
strokes), so that one drawing serves both themes.
"""

import dataclasses
from collections.abc import Sequence

# role -> (light, dark). Text has a contrast of at least 4.5 to page and card, marks of at least 3.
BASE = {
    "page": ("#f7f7f5", "#101215"),
    "card": ("#ffffff", "#181b1f"),
    "ink": ("#1d2125", "#e6e8eb"),
    "muted": ("#5c646d", "#a2a9b2"),
    "line": ("#e2e4e6", "#2c3137"),
    "axis": ("#9aa1a8", "#5b636c"),
    "link": ("#1a5fa8", "#79b6f2"),
    "win": ("#2166ac", "#5ea7e0"),
    "loss": ("#b35806", "#f0964a"),
}
PEERS = (
    ("#6b747d", "#9aa4af"),  # grey
    ("#0b8273", "#3fc1ad"),  # teal
    ("#4b3fa8", "#a198f2"),  # indigo
    ("#3f7d20", "#86c65a"),  # green
    ("#b0436e", "#ee86ad"),  # rose
    ("#857000", "#d0b53f"),  # olive
    ("#1b7fb5", "#5bbcf0"),  # sky
    ("#4f6f92", "#8fb0d4"),  # slate
    ("#6b7d2a", "#b5c96a"),  # moss
    ("#8a5a44", "#cf9f88"),  # brown
)
OURS = (
    ("#d1440c", "#ff8048"),  # vermilion
    ("#8e24aa", "#d48be4"),  # purple
    ("#a86200", "#ffb74d"),  # amber
    ("#1d2125", "#f4f5f6"),  # ink
)
# Fixed slots of the usual allocators, so that pages of different suites agree.
OWN_SLOTS = {"hz3_scale": 0, "hz4": 1, "hz4_pageq": 2}
PEER_SLOTS = {
    "glibc": 0,
    "jemalloc": 1,
    "tcmalloc": 2,
    "mimalloc": 3,
    "snmalloc": 4,
    "rpmalloc": 5,
    "google-tcmalloc": 6,
    "jemalloc-debian": 7,
    "mimalloc-debian": 8,
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")

# From much worse to much better: background and text, light and dark.
HEAT = (
    (("#b35806", "#ffffff"), ("#b45508", "#ffffff")),
    (("#e08214", "#1d1206"), ("#864611", "#ffffff")),
    (("#fdb863", "#1d1206"), ("#5f3813", "#ffffff")),
    (("#fee0b6", "#1d1206"), ("#402e1b", "#f1e4d6")),
    (("#efefed", "#1d2125"), ("#26292e", "#e6e8eb")),
    (("#d1e5f0", "#0b1a26"), ("#1a3242", "#dcebf5")),
    (("#92c5de", "#0b1a26"), ("#1a4763", "#ffffff")),
    (("#4f9bc8", "#05131d"), ("#1c5f8c", "#ffffff")),
    (("#2166ac", "#ffffff"), ("#2273b3", "#ffffff")),
)
# A ratio belongs to the first bucket whose edge is above it. Above 1 is better.
HEAT_EDGES = (0.25, 0.5, 0.8, 0.95, 1.05, 1.25, 1.5, 2.0)
SPEED_LEGEND = ("< 0.25", "0.25–0.5", "0.5–0.8", "0.8–0.95", "equal ±5 %", "1.05–1.25", "1.25–1.5", "1.5–2", "≥ 2")
RSS_LEGEND = (
    "> 4 ×",
    "2–4 ×",
    "1.25–2 ×",
    "1.05–1.25 ×",
    "equal ±5 %",
    "0.8–0.95 ×",
    "0.67–0.8 ×",
    "0.5–0.67 ×",
    "≤ 0.5 ×",
)


def heat_bucket(goodness: float) -> int:
    """0 (much worse) to 8 (much better)."""
    return sum(goodness >= edge for edge in HEAT_EDGES)


def roles() -> dict[str, tuple[str, str]]:
    """All roles with their light and dark colour."""
    found = dict(BASE)
    found |= {f"peer{at}": pair for at, pair in enumerate(PEERS)}
    found |= {f"own{at}": pair for at, pair in enumerate(OURS)}
    for at, (light, dark) in enumerate(HEAT):
        found[f"heat{at}"] = (light[0], dark[0])
        found[f"heattext{at}"] = (light[1], dark[1])
    return found


_ORDER = tuple(roles())


def placeholder(role: str) -> str:
    """The colour that stands for `role` in a figure."""
    return f"#{0xA00000 + _ORDER.index(role):06x}"


def role_of(colour: str) -> str:
    """The role of a placeholder. Raises ValueError for any other colour: it would be wrong in one of the themes."""
    at = int(colour.removeprefix("#"), 16) - 0xA00000
    if not 0 <= at < len(_ORDER):
        raise ValueError(f"{colour} is not the colour of a role")
    return _ORDER[at]


def page_variables(theme: int) -> str:
    """CSS custom properties of all roles; `theme` 0 is light, 1 dark."""
    return "".join(f"--{role}:{pair[theme]};" for role, pair in roles().items())


def page_classes() -> str:
    """CSS classes that fill or stroke in a role."""
    return "".join(f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in roles())


def file_style(used: Sequence[str]) -> str:
    """The style of an SVG file. Its colours are literal, because not every viewer knows custom properties. `used`:
    classes."""

    def rules(theme: int) -> str:
        found = roles()
        kinds = {"f": "fill", "s": "stroke"}
        split = [name.split("-", 1) for name in sorted(used)]
        return "".join(f".{kind}-{role}{{{kinds[kind]}:{found[role][theme]}}}" for kind, role in split)

    return f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"


@dataclasses.dataclass(frozen=True)
class Look:
    """How all pictures draw an allocator."""

    role: str
    marker: str
    ours: bool

    @property
    def colour(self) -> str:
        return placeholder(self.role)

    @property
    def weight(self) -> str:
        return "bold" if self.ours else "normal"

    @property
    def line_width(self) -> float:
        return 2.4 if self.ours else 1.3


def _slots(names: Sequence[str], known: dict[str, int], count: int) -> dict[str, int]:
    """Known names have their slot. Other names take the free slots in order, and start again when all are taken: a slot
    of the n-th turn is the slot plus n times `count`."""
    taken = {known[name] for name in names if name in known}
    free = (at for at in range(count * (len(names) + 1)) if at not in taken)
    return {name: known[name] if name in known else next(free) for name in sorted(names)}


def looks(allocators: dict[str, bool]) -> dict[str, Look]:
    """The look of each allocator. `allocators` says whether a name is ours. Those with the same colour have different
    markers."""
    found = {}
    for ours, known, colours in ((True, OWN_SLOTS, OURS), (False, PEER_SLOTS, PEERS)):
        names = [name for name, is_ours in allocators.items() if is_ours is ours]
        role = "own" if ours else "peer"
        for name, slot in _slots(names, known, len(colours)).items():
            turn, colour = divmod(slot, len(colours))
            found[name] = Look(f"{role}{colour}", MARKERS[(colour + turn) % len(MARKERS)], ours)
    return found
