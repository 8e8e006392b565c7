"""Bytes that keys have in state, and a search for many of them at once.

==========================  ===========================================================================================
text                        UTF-8, Java's modified UTF-8, Latin-1 (Java's compressed strings), UTF-16; with the length
                            before it as Flink (``StringValue``), ``DataOutput.writeUTF``, and serializers of SQL and
                            Python write it; Kryo's ASCII, whose last byte has its high bit set
whole number                big-endian and little-endian in 8, 4 and 2 bytes; variable-length, plain and zigzag (Kryo,
                            Avro); its decimal digits as text
UUID                        16 bytes, big-endian, and its text
bytes                       as they are
any key                     what the key serializer of each operator writes
==========================  ===========================================================================================

A text without its length is found only where no letter, digit or ``_`` stands beside it: ``user-1`` is not in
``user-10``. A hit of a short pattern may be chance: it is certain if at least :data:`CERTAIN` of its bytes are neither
00 nor FF, else possible. Patterns of fewer than :data:`SHORTEST` bytes are not searched, but counted.

The search looks at every position of the bytes once per width of its windows (8, 4 and 2 bytes), whatever the number of
patterns. Of a few windows two bytes of each are compared first; of more, a table of bits drops what is none of them.
What is left is compared whole.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs

#: Number of bytes other than 00 and FF from which on a hit is no chance.
CERTAIN = 6
#: The length in bytes of the shortest pattern that is searched.
SHORTEST = 3
WIDTHS = (8, 4, 2)
#: Bytes that are searched at once: what is computed of them stays in a processor's cache.
PIECE = 1 << 17
#: Windows of one width up to which two bytes of each are compared with all bytes.
FEW = 12
#: Windows whose patterns are compared at once.
AT_ONCE = 1 << 16
#: Bits of the smallest and the greatest table that drops windows, its places for each pattern, and the multiplier that
#: spreads them.
TABLE_BITS = 16, 24
PLACES = 32
SPREAD = np.uint64(0x9E3779B97F4A7C15)
AS_STORED = "as the operator stores its keys"
WORD = np.zeros(256, bool)
WORD[[*b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"]] = True


@dataclass(frozen=True, slots=True)
class Encoding:
    """How bytes were made. ``before`` and ``after``: distances of the bytes beside that may not be of a word."""

    name: str
    before: int = 0
    after: int = 0


#: Encoding, whether hits are certain, length in bytes of the pattern.
Kind = tuple[str, bool, int]
#: Number of hits of each kind.
Hits = Counter[Kind]


def is_certain(pattern: bytes) -> bool:
    """Return whether a hit of a pattern is no chance.

    >>> is_certain(b"alice@shop"), is_certain((1042).to_bytes(8, "big"))
    (True, False)
    """
    return len(pattern) - pattern.count(0x00) - pattern.count(0xFF) >= CERTAIN


def varint(number: int) -> bytes:
    """Return a number from 0 in groups of 7 bits, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _units(text: str) -> list[int]:
    """Return the UTF-16 units of a text, Java's chars."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def modified_utf8(text: str) -> bytes:
    """Return a text as ``DataOutput.writeUTF`` writes its characters.

    >>> modified_utf8("a" + chr(0)).hex()
    '61c080'
    """
    out = bytearray()
    for unit in _units(text):
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
        else:
            out += bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])
    return bytes(out)


def encodings_of(value: Any) -> Iterator[tuple[bytes, Encoding]]:
    """Yield the bytes that a key may have, except those of an operator's own serializer; a key may be any value."""
    if isinstance(value, str):
        yield from _of_text(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _of_number(value)
    elif isinstance(value, bytes):
        yield value, Encoding("bytes")
    elif isinstance(value, uuid.UUID):
        yield from _of_text(str(value))


def _of_text(text: str) -> Iterator[tuple[bytes, Encoding]]:
    utf8, java, units = text.encode("utf-8", "surrogatepass"), modified_utf8(text), _units(text)
    yield utf8, Encoding("UTF-8", 1, 1)
    yield java, Encoding("modified UTF-8", 1, 1)
    values = b"".join(map(varint, units))
    yield values, Encoding("StringValue", 1, 1)
    yield varint(len(units) + 1) + values, Encoding("StringValue with its length")
    if len(java) < 1 << 16:
        yield len(java).to_bytes(2, "big") + java, Encoding("writeUTF")
    yield len(utf8).to_bytes(4, "big") + utf8, Encoding("UTF-8 with its length")
    yield text.encode("utf-16-be", "surrogatepass"), Encoding("UTF-16 big-endian", 1, 2)
    yield text.encode("utf-16-le", "surrogatepass"), Encoding("UTF-16 little-endian", 2, 1)
    if text.isascii():
        if len(text) > 1:
            yield utf8[:-1] + bytes([utf8[-1] | 0x80]), Encoding("Kryo ASCII", 1)
    elif all(unit < 0x100 for unit in units):
        yield bytes(units), Encoding("Latin-1", 1, 1)
    with suppress(ValueError):
        yield uuid.UUID(text).bytes, Encoding("UUID")


def _of_number(number: int) -> Iterator[tuple[bytes, Encoding]]:
    for width in (8, 4, 2):
        if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
            yield number.to_bytes(width, "big", signed=True), Encoding(f"{width} bytes big-endian")
            yield number.to_bytes(width, "little", signed=True), Encoding(f"{width} bytes little-endian")
            if width > 2:
                yield varint(number % (1 << 8 * width)), Encoding("variable-length")
    if -(1 << 63) <= number < 1 << 63:
        yield varint((number << 1) ^ (number >> 63)), Encoding("variable-length zigzag")
    yield str(number).encode(), Encoding("decimal text", 1, 1)


@dataclass
class Patterns:
    """Patterns of keys, each once, with its encoding; ``too_short``: how many are not searched, by encoding."""

    encodings: dict[bytes, Encoding] = field(default_factory=dict)
    too_short: Counter[str] = field(default_factory=Counter)

    def add(self, pairs: Iterable[tuple[bytes, Encoding]]) -> None:
        """Add the bytes of a key; the first encoding of the same bytes names them."""
        for pattern, encoding in pairs:
            if len(pattern) < SHORTEST:
                self.too_short[encoding.name] += 1
            else:
                self.encodings.setdefault(pattern, encoding)

    def include(self, others: Patterns) -> None:
        """Add other patterns."""
        self.add(others.encodings.items())
        self.too_short |= others.too_short


class _Windows:
    """The patterns that are found by windows of one width; arrays have an entry for each, in order of their windows."""

    def __init__(self, width: int, patterns: dict[bytes, Encoding]) -> None:
        self.width = width
        length = np.array([len(pattern) for pattern in patterns], np.int64)
        data = np.frombuffer(b"".join(patterns), np.uint8)
        start = np.cumsum(length) - length
        window, value = _rarest(data, start, length, width)
        order = np.argsort(value, kind="stable")
        kinds: dict[Kind, int] = {}
        kind = [
            kinds.setdefault((encoding.name, is_certain(pattern), len(pattern)), len(kinds))
            for pattern, encoding in patterns.items()
        ]
        self.kinds = list(kinds)
        self.kind = np.array(kind, np.int64)[order]
        self.before = np.array([encoding.before for encoding in patterns.values()], np.int64)[order]
        self.after = np.array([encoding.after for encoding in patterns.values()], np.int64)[order]
        self.data, self.start, self.length, self.window = data, start[order], length[order], window[order]
        self.values, self.first, self.count = np.unique(value[order], return_index=True, return_counts=True)
        self.probes = [_probes(one.to_bytes(width, "little")) for one in self.values[: FEW + 1].tolist()]
        self.bits = max(TABLE_BITS[0], min(TABLE_BITS[1], (PLACES * len(self.values)).bit_length()))
        self.table = np.zeros(1 << self.bits, bool)
        self.table[self._places(self.values)] = True

    def _places(self, values: Any) -> Any:
        places = values * SPREAD
        places >>= np.uint64(64 - self.bits)
        return places.view(np.int64)

    def _near(self, data: Bytes, start: int, stop: int, windows: Any) -> Longs:
        """Return which windows that begin in [start, stop) may be those of patterns."""
        if len(self.probes) > FEW:
            result: Longs = np.flatnonzero(self.table.take(self._places(windows)))
            return result
        near = np.zeros(stop - start, np.bool_)
        for (first, byte), (second, other) in self.probes:
            both = data[start + first : stop + first] == byte
            both &= data[start + second : stop + second] == other
            near |= both
        rows: Longs = np.flatnonzero(near)
        kept: Longs = rows[self.table.take(self._places(windows[rows]))]
        return kept

    def hits(self, data: Bytes, start: int, stop: int) -> Iterator[tuple[Longs, Longs]]:
        """Yield positions of hits whose windows begin in [start, stop), and the pattern of each."""
        stop = min(stop, len(data) - self.width + 1)
        if stop <= start:
            return
        windows = np.ndarray((stop - start,), f"<u{self.width}", data, start, (1,))
        near = self._near(data, start, stop, windows)
        values = windows[near].astype(np.uint64)
        places = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        matched = self.values[places] == values
        near, places = near[matched] + start, places[matched]
        for low in range(0, len(near), AT_ONCE):
            some, counts = places[low : low + AT_ONCE], self.count[places[low : low + AT_ONCE]]
            within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            pattern = np.repeat(self.first[some], counts) + within
            at = np.repeat(near[low : low + AT_ONCE], counts) - self.window[pattern]
            yield self._whole(data, at, pattern)

    def _whole(self, data: Bytes, at: Longs, pattern: Longs) -> tuple[Longs, Longs]:
        """Return the positions at which the whole pattern stands, and no word goes on beside it."""
        kept = (at >= 0) & (at + self.length[pattern] <= len(data))
        at, pattern = at[kept], pattern[kept]
        offset = 0
        checked = np.flatnonzero(self.length[pattern] > offset)
        same = np.ones(len(at), bool)
        while len(checked):
            equal = data[at[checked] + offset] == self.data[self.start[pattern[checked]] + offset]
            same[checked[~equal]] = False
            offset += 1
            checked = checked[equal]
            checked = checked[self.length[pattern[checked]] > offset]
        at, pattern = at[same], pattern[same]
        beside = at - self.before[pattern]
        goes_on = (self.before[pattern] > 0) & (beside >= 0) & WORD[data[np.maximum(beside, 0)]]
        beside = at + self.length[pattern] - 1 + self.after[pattern]
        goes_on |= (self.after[pattern] > 0) & (beside < len(data)) & WORD[data[np.minimum(beside, len(data) - 1)]]
        return at[~goes_on], pattern[~goes_on]


def _probes(window: bytes) -> list[tuple[int, int]]:
    """Return the two bytes of a window that data has least often, as far as one can tell, with their places."""
    return sorted(enumerate(window), key=lambda one: (one[1] in (0x00, 0xFF), WORD[one[1]]))[:2]


def _rarest(data: Bytes, start: Longs, length: Longs, width: int) -> tuple[Longs, Any]:
    """Return for each pattern the place of one of its windows, and its value.

    It is that with the fewest bytes 00 and FF, and of these the one that the fewest patterns have: keys may have
    beginnings and ends in common.
    """
    count = length - width + 1
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(start, count) + within
    windows = np.ndarray((len(data) - width + 1,), f"<u{width}", data, 0, (1,))[at].astype(np.uint64)
    plain = np.concatenate([[0], np.cumsum((data == 0x00) | (data == 0xFF))])
    _, same, often = np.unique(windows, return_inverse=True, return_counts=True)
    owner = np.repeat(np.arange(len(length)), count)
    order = np.lexsort((often[same], plain[at + width] - plain[at], owner))
    rarest = order[np.cumsum(count) - count]
    return within[rarest], windows[rarest]


class Search:
    """A search for patterns in bytes."""

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns.encodings
        by_width: dict[int, dict[bytes, Encoding]] = {}
        for pattern, encoding in patterns.encodings.items():
            width = next(width for width in WIDTHS if width <= len(pattern))
            by_width.setdefault(width, {})[pattern] = encoding
        self._windows = [_Windows(width, encodings) for width, encodings in by_width.items()]
        #: How many bytes of the next part of a stream must follow those of a part.
        self.overlap = max(map(len, patterns.encodings), default=0) + 2

    def positions(self, data: Bytes, begin: int = 0, end: int | None = None) -> Iterator[tuple[Kind, Longs]]:
        """Yield kind and positions of the hits that begin in [begin, end) of the bytes."""
        for windows, at, kinds in self._hits(data, begin, end):
            for kind in np.flatnonzero(np.bincount(kinds)).tolist():
                yield windows.kinds[kind], at[kinds == kind]

    def count(self, data: Bytes, begin: int = 0, end: int | None = None) -> Hits:
        """Return the number of hits of each kind that begin in [begin, end) of the bytes."""
        hits: Hits = Counter()
        for windows, _, kinds in self._hits(data, begin, end):
            for kind, count in enumerate(np.bincount(kinds).tolist()):
                if count:
                    hits[windows.kinds[kind]] += count
        return hits

    def _hits(self, data: Bytes, begin: int, end: int | None) -> Iterator[tuple[_Windows, Longs, Longs]]:
        """Yield windows, and positions of their hits in [begin, end) of the bytes with the kind of each."""
        end = len(data) if end is None else end
        for start in range(0, len(data), PIECE):
            for windows in self._windows:
                for at, pattern in windows.hits(data, start, start + PIECE):
                    kept = (at >= begin) & (at < end)
                    if kept.any():
                        yield windows, at[kept], windows.kind[pattern[kept]]


def certain_of(hits: Hits) -> int:
    """Return the number of certain hits."""
    return sum(count for (_, certain, _), count in hits.items() if certain)


def described(hits: Hits) -> list[dict[str, Any]]:
    """Return hits as rows: encoding, length in bytes of the pattern, number, and whether they are certain."""
    return [
        {"encoding": name, "bytes": size, "hits": count, "certain": certain}
        for (name, certain, size), count in sorted(hits.items())
        if count
    ]
