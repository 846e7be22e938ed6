"""Writes a heap profile for pprof: its message Profile (github.com/google/pprof, proto/profile.proto), packed by gzip.

The format has numbers, and texts and messages with their length in front, so the few lines here need no package. Used by
heap_profile.py."""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Iterable

MASK = 2**64 - 1  # negative numbers are written as 64 bits


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    value &= MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(at: int, value: int | bytes | str | Iterable[int]) -> bytes:
    """A field of a message by its number: an integer, which is left out if it is 0; a text or message; or packed integers."""
    if isinstance(value, int):
        return number(at << 3) + number(value) if value else b""
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes):
        value = b"".join(map(number, value))
    return number(at << 3 | 2) + number(len(value)) + value


class Writer:
    """Profile `profile` with the names of `symbols`; `types` are those of its values, `own` a pattern of the allocator's functions."""

    def __init__(self, profile, symbols, types: tuple[str, ...], own: str) -> None:
        self.profile, self.symbols, self.types, self.own = profile, symbols, types, own
        self.strings: dict[str, int] = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[int, int] = {}
        self.function_messages: list[bytes] = []
        self.location_messages: list[bytes] = []
        self.unnamed: set[int] = set()  # numbers of mappings with calls whose functions are not known

    def text(self, value: str) -> int:
        return self.strings.setdefault(value, len(self.strings))

    def value_type(self, name: str, unit: str) -> bytes:
        return field(1, self.text(name)) + field(2, self.text(unit))

    def function(self, name: str, file: str) -> int:
        if (name, file) not in self.functions:
            self.functions[name, file] = len(self.functions) + 1
            text = self.text(name)
            self.function_messages.append(field(1, self.functions[name, file]) + field(2, text) + field(3, text) + field(4, self.text(file)))
        return self.functions[name, file]

    def location(self, address: int) -> int:
        if address not in self.locations:
            self.locations[address] = len(self.locations) + 1
            mapping = self.profile.mapping_of(address)
            at = 0 if mapping is None else self.profile.moment.mappings.index(mapping) + 1
            frames = self.symbols.known(address)
            lines = [field(4, field(1, self.function(frame.function, frame.file)) + field(2, frame.line)) for frame in frames]
            self.location_messages.append(field(1, self.locations[address]) + field(2, at) + field(3, address) + b"".join(lines))
            if mapping is not None and not lines:
                self.unnamed.add(at)
        return self.locations[address]

    def sample(self, weight: int, stack: tuple[int, ...], values: tuple[float, ...]) -> bytes:
        label = field(1, self.text("bytes")) + field(3, weight) + field(4, self.text("bytes"))
        return field(1, [self.location(call - 1) for call in stack]) + field(2, [round(value) for value in values]) + field(3, label)

    def mapping(self, at: int, mapping) -> bytes:
        named = int(at not in self.unnamed and bool(self.functions))
        places = field(1, at) + field(2, mapping.start) + field(3, mapping.start + mapping.size) + field(4, mapping.offset)
        return places + field(5, self.text(mapping.path)) + field(6, self.text(mapping.build_id)) + b"".join(field(flag, named) for flag in (7, 8, 9, 10))

    def message(self) -> bytes:
        moment, since = self.profile.moment, self.profile.since
        types = [self.value_type(name, "count" if name.endswith("objects") else "bytes") for name in self.types]
        samples = [self.sample(weight, stack, values) for (weight, stack), values in self.profile.values.items()]
        mappings = [self.mapping(at, mapping) for at, mapping in enumerate(moment.mappings, 1)]
        period = self.value_type("space", "bytes")
        duration = 0 if since is None else max(moment.time_ns - since.time_ns, 0)
        default, drop = self.text("inuse_space"), self.text(self.own)
        parts = ((1, types), (2, samples), (3, mappings), (4, self.location_messages), (5, self.function_messages), (6, self.strings))
        whole = b"".join(field(at, each) for at, messages in parts for each in messages)
        return whole + field(7, drop) + field(9, moment.time_ns) + field(10, duration) + field(11, period) + field(12, moment.rate) + field(14, default)

    def write(self, path: pathlib.Path) -> None:
        data = self.message()
        with open(path, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            packed.write(data)
