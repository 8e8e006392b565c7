"""Damage that keeps the structure: parts with a length are repeated, removed, exchanged, or put into themselves.

A number at any offset is taken as the length of the bytes after it, as in all formats of a snapshot: big-endian of two
or four bytes, or a varint. A part is changed together with its length, so that the bytes after it still read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.damage import INTS, damage_bytes

LARGEST = 1 << 18


@dataclass(frozen=True)
class Part:
    """A part of some bytes: where its length is, and where it begins and ends."""

    head: int
    start: int
    end: int
    form: str

    def with_content(self, content: bytes) -> bytes:
        """Length and content, as the part has them."""
        size = len(content)
        if self.form == "varint":
            return _varint(size) + content
        width = self.start - self.head
        return (size & ((1 << 8 * width) - 1)).to_bytes(width, "big") + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def some_part(rng: random.Random, data: bytes) -> Part | None:
    """A place that may be the length of what follows."""
    for _ in range(20):
        head = rng.randrange(len(data)) if data else 0
        form = rng.choice(("short", "int", "varint"))
        width = {"short": 2, "int": 4, "varint": 1}[form]
        size = int.from_bytes(data[head : head + width], "big")
        if form == "varint" and size >= 0x80:
            width, size = 2, size & 0x7F | data[head + 1 : head + 2].ljust(1, b"\0")[0] << 7
        if 0 < size <= len(data) - head - width:
            return Part(head, head + width, head + width + size, form)
    return None


def double(rng: random.Random, data: bytes, part: Part) -> bytes:
    """A part once more, or many times."""
    times = rng.choice((2, 2, 3, 50, 1000))
    return data[: part.head] + data[part.head : part.end] * times + data[part.end :]


def remove(rng: random.Random, data: bytes, part: Part) -> bytes:
    """A part is gone, or empty."""
    return data[: part.head] + rng.choice((b"", part.with_content(b""))) + data[part.end :]


def exchange(rng: random.Random, data: bytes, part: Part) -> bytes:
    """Two parts change places."""
    other = some_part(rng, data)
    if other is None or other.head < part.end:
        return remove(rng, data, part)
    middle = data[part.end : other.head]
    return data[: part.head] + data[other.head : other.end] + middle + data[part.head : part.end] + data[other.end :]


def nest(rng: random.Random, data: bytes, part: Part) -> bytes:
    """A part inside itself, and so on."""
    content = data[part.start : part.end]
    at = rng.randrange(len(content) + 1)
    for _ in range(rng.choice((1, 2, 10, 200))):
        content = content[:at] + part.with_content(content) + content[at:]
        if len(content) > 4096:
            break
    return data[: part.head] + part.with_content(content) + data[part.end :]


def fill(rng: random.Random, data: bytes, part: Part) -> bytes:
    """Another content, of another length."""
    content = damage_bytes(rng, data[part.start : part.end])
    return data[: part.head] + part.with_content(content) + data[part.end :]


def claim(rng: random.Random, data: bytes, part: Part) -> bytes:
    """Another length over the same content."""
    width = part.start - part.head
    size = part.end - part.start
    value = rng.choice((size - 1, size + 1, 2 * size, *INTS))
    number = _varint(value) if part.form == "varint" else (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    return data[: part.head] + number + data[part.start :]


def repeat_to_the_end(rng: random.Random, data: bytes, part: Part) -> bytes:
    """What leads to a part, again and again: nesting without end."""
    begin = rng.randrange(part.start)
    leading = data[begin : part.start]
    times = min(rng.choice((10, 100, 2000)), LARGEST // len(leading))
    return data[: part.start] + leading * times + data[part.start :]


CHANGES: tuple[Callable[[random.Random, bytes, Part], bytes], ...] = (
    double, remove, exchange, nest, fill, claim, repeat_to_the_end,
)  # fmt: skip


def restructured(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to three parts changed, or damaged anywhere."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        part = some_part(rng, data) if rng.random() < 0.7 else None
        changed = damage_bytes(rng, data) if part is None else rng.choice(CHANGES)(rng, data, part)
        data = changed if len(changed) <= LARGEST else data
    return data
