"""How a snapshot is damaged: bytes anywhere, or one part of a stream while everything around it stays consistent."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cramjam

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.snappy import IDENTIFIER, decompress
from pyspark_savepoint.formats.metadata import CheckpointMetadata, write_metadata
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.serializers.registry import known_serializers

Damage = Callable[[random.Random, bytearray], None]
INTS = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 1 << 20, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LONGS = (0, 1, 0xFFFF, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
VARINTS = tuple(bytes.fromhex(text) for text in ("ffffffff07", "ffffffff0f", "8080808001", "ffffffffffffffffff01"))


def _at(rng: random.Random, data: bytearray) -> int:
    return rng.randrange(len(data))


def flip(rng: random.Random, data: bytearray) -> None:
    """One bit."""
    data[_at(rng, data)] ^= 1 << rng.randrange(8)


def nudge(rng: random.Random, data: bytearray) -> None:
    """One byte, a little more or less."""
    at = _at(rng, data)
    data[at] = (data[at] + rng.choice((-2, -1, 1, 2))) % 256


def number(rng: random.Random, data: bytearray) -> None:
    """An extreme number of 1 to 8 bytes, in either order."""
    width = rng.choice((1, 2, 4, 4, 4, 8))
    value = rng.choice(LONGS if width == 8 else INTS) & ((1 << 8 * width) - 1)
    at = _at(rng, data)
    data[at : at + width] = value.to_bytes(width, rng.choice(("big", "big", "little")))


def varint(rng: random.Random, data: bytearray) -> None:
    """A varint that is too large or too long."""
    at = _at(rng, data)
    value = rng.choice(VARINTS)
    data[at : at + rng.choice((0, len(value)))] = value


def cut(rng: random.Random, data: bytearray) -> None:
    """Some bytes are gone."""
    at = _at(rng, data)
    del data[at : at + rng.choice((1, 1, 2, 4, 8, 64, len(data)))]


def repeat(rng: random.Random, data: bytearray) -> None:
    """Some bytes twice, or many times."""
    at = _at(rng, data)
    part = data[at : at + rng.choice((1, 4, 16, 256, 4096))]
    data[at:at] = part * rng.choice((1, 1, 1, 30))


def splice(rng: random.Random, data: bytearray) -> None:
    """Bytes from elsewhere."""
    a, b, size = _at(rng, data), _at(rng, data), rng.choice((1, 4, 16, 64, 512))
    data[a : a + rng.choice((0, size))] = data[b : b + size]


def fill(rng: random.Random, data: bytearray) -> None:
    """A stretch of one byte."""
    at, size = _at(rng, data), rng.choice((4, 16, 64))
    size = len(data[at : at + size])
    data[at : at + size] = bytes([rng.choice((0, 1, 0x2C, 0x7F, 0x80, 0xFF))]) * size


def another_serializer(rng: random.Random, data: bytearray) -> None:
    """The name of one serializer snapshot in the place of another's."""
    known = sorted(known_serializers())
    present = [name for name in known if name.encode() in data]
    if present:
        old, new = _utf(rng.choice(present)), _utf(rng.choice([*known, "com.example.Unknown"]))
        at = data.find(old)
        if at >= 0:
            data[at : at + len(old)] = new


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


DAMAGES: tuple[Damage, ...] = (flip, flip, nudge, number, number, varint, cut, repeat, splice, fill)


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, in one place or in a few."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if out:
            rng.choice(DAMAGES)(rng, out)
    return bytes(out)


def damage_gently(rng: random.Random, data: bytes) -> bytes:
    """Change one bit or one small number: most of the input still reads, so that bytes after the change are reached."""
    out = bytearray(data)
    if out:
        rng.choice((flip, nudge))(rng, out)
    return bytes(out)


def damaged(rng: random.Random, seed: CheckpointMetadata) -> bytes:
    """A ``_metadata`` file: one part of one stream changed, or bytes of the file anywhere."""
    streams = [
        (index, name)
        for index, subtask in seed.operators[0].subtasks.items()
        for name in ("managed_operator_state", "managed_keyed_state", "raw_keyed_state")
        if isinstance(getattr(getattr(subtask, name), "delegate", None), ByteStreamStateHandle)
    ]
    if not streams or rng.random() < 0.2:
        return _damage_file(rng, write_metadata(seed))
    index, name = rng.choice(streams)
    operator = seed.operators[0]
    subtask = operator.subtasks[index]
    changed = replace(subtask, **{name: _damage_stream(rng, getattr(subtask, name))})
    operator = replace(operator, subtasks={**operator.subtasks, index: changed})
    return write_metadata(replace(seed, operators=(operator,)))


def _damage_file(rng: random.Random, data: bytes) -> bytes:
    # Most of the file is state: the records around it are at its ends.
    low, high = rng.choice(((0, 300), (max(0, len(data) - 300), len(data)), (0, len(data))))
    return data[:low] + damage_bytes(rng, data[low:high]) + data[high:]


def _damage_stream(rng: random.Random, handle: Any) -> Any:
    data = handle.delegate.data
    offsets = _offsets(handle)
    if offsets and rng.random() < 0.1:
        extremes = (-1, 0, 1, len(data), len(data) + 1, (1 << 63) - 1, -(1 << 63), rng.choice(offsets))
        offsets[rng.randrange(len(offsets))] = rng.choice(extremes)
        return _with(handle, offsets, data)
    bounds = sorted({0, len(data), *(offset for offset in offsets if 0 <= offset <= len(data))})
    parts = list(pairwise(bounds))
    if not parts:
        return handle
    low, high = parts[0] if rng.random() < 0.4 else rng.choice(parts)
    part = _damage_part(rng, data[low:high], header=low == 0)
    shift = len(part) - (high - low)
    moved = [offset + shift if offset >= high else offset for offset in offsets]
    return _with(handle, moved, data[:low] + part + data[high:])


def _damage_part(rng: random.Random, part: bytes, header: bool) -> bytes:
    if header and rng.random() < 0.2:
        out = bytearray(part)
        another_serializer(rng, out)
        return bytes(out)
    at = part.find(IDENTIFIER)
    if 0 <= at <= 4 and rng.random() < 0.8:
        try:
            content = decompress(memoryview(part)[at:], None, 0).tobytes()
        except SavepointError:
            return damage_bytes(rng, part)
        return part[:at] + bytes(cramjam.snappy.compress(damage_bytes(rng, content)))
    return damage_bytes(rng, part)


def _offsets(handle: Any) -> list[int]:
    if isinstance(handle, OperatorStreamStateHandle):
        return [offset for state in handle.states for offset in state.offsets]
    return list(handle.offsets.offsets) if hasattr(handle, "offsets") else []


def _with(handle: Any, offsets: list[int], data: bytes) -> Any:
    delegate = replace(handle.delegate, data=data)
    if isinstance(handle, OperatorStreamStateHandle):
        rest = iter(offsets)
        states = tuple(replace(state, offsets=tuple(next(rest) for _ in state.offsets)) for state in handle.states)
        return replace(handle, states=states, delegate=delegate)
    if hasattr(handle, "offsets"):
        return replace(
            handle, offsets=KeyGroupRangeOffsets(handle.offsets.key_group_range, tuple(offsets)), delegate=delegate
        )
    return replace(handle, delegate=delegate)
