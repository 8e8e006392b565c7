"""Assignment of keys to key groups, and of key groups to subtasks.

::

    key group of a key   = murmur mix of the key's Java hashCode, modulo max parallelism
    subtask of a group   = key group * parallelism // max parallelism
    range of a subtask   = [(i * max + p - 1) // p, ((i + 1) * max - 1) // p]        both inclusive
    KeyGroupRange        := i32 start  i32 count                                     a count, not the end

Flink: ``KeyGroupRange``, ``KeyGroupRangeOffsets``, ``KeyGroupRangeAssignment``,
``MathUtils#murmurHash``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Ints
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import Encoding
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.kernels import array_forms

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Key groups from ``start`` to ``end``, both inclusive; ``end == start - 1`` is empty."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end + 1 <= UPPER_BOUND_MAX_PARALLELISM:
            raise ValueError(f"there is no key-group range from {self.start} to {self.end}")

    @classmethod
    def read(cls, view: DataInputView, each: int = 0) -> KeyGroupRange:
        """Read start and count; ``each`` is the number of following bytes per key group, to bound the count."""
        start = view.read_count("the first key group", each=0, limit=UPPER_BOUND_MAX_PARALLELISM)
        limit = UPPER_BOUND_MAX_PARALLELISM - start
        count = view.read_count("key groups", each=each, limit=limit)
        return cls(start, start + count - 1)

    def write(self, out: DataOutputView) -> None:
        out.write_i32(self.start)
        out.write_i32(len(self))

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        """Return the key groups in both ranges; :data:`EMPTY_KEY_GROUP_RANGE` if there is none."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return KeyGroupRange(start, end) if start <= end else EMPTY_KEY_GROUP_RANGE

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end + 1))

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __str__(self) -> str:
        return f"key groups {self.start} to {self.end}" if self else "no key group"


EMPTY_KEY_GROUP_RANGE = KeyGroupRange(0, -1)


@dataclass(frozen=True, slots=True)
class KeyGroupRangeOffsets:
    """Stream offsets of the key groups in a range: a range and one i64 per key group."""

    key_group_range: KeyGroupRange
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.key_group_range):
            raise ValueError(f"{len(self.offsets)} offsets for {len(self.key_group_range)} key groups")

    @classmethod
    def read(cls, view: DataInputView, _: str = "") -> KeyGroupRangeOffsets:
        """Read start, count, offsets."""
        key_groups = KeyGroupRange.read(view, each=8)
        count = len(key_groups)
        return cls(key_groups, struct.unpack(f">{count}q", view.read(8 * count, "offsets of key groups")))

    def write(self, out: DataOutputView) -> None:
        """Write start, count, offsets."""
        count = len(self.offsets)
        out.write(struct.pack(f">ii{count}q", self.key_group_range.start, count, *self.offsets))

    def offset(self, key_group: int) -> int:
        """Return the offset of a key group of the range."""
        if key_group not in self.key_group_range:
            raise KeyError(f"key group {key_group} is not among {self.key_group_range}")
        return self.offsets[key_group - self.key_group_range.start]

    def intersection(self, key_groups: KeyGroupRange) -> KeyGroupRangeOffsets:
        """Return the offsets of the key groups in both ranges."""
        both = self.key_group_range.intersection(key_groups)
        first = both.start - self.key_group_range.start
        return KeyGroupRangeOffsets(both, self.offsets[first : first + len(both)] if both else ())

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.key_group_range, self.offsets, strict=True)


RANGE = Encoding(lambda view, _: KeyGroupRange.read(view), lambda out, value: value.write(out), 8)
OFFSETS = Encoding(KeyGroupRangeOffsets.read, lambda out, value: value.write(out), 8)


def key_group_for_hash(java_hash: int, max_parallelism: int) -> int:
    """Return the key group of a key with this Java ``hashCode``.

    >>> key_group_for_hash(99162322, 128)  # "hello"
    35
    >>> key_group_for_hash(42, 32768)
    28189
    """
    code = java_hash * 0xCC9E2D51 & _MASK
    code = _rotate_left(code, 15) * 0x1B873593 & _MASK
    code = _rotate_left(code, 13) * 5 + 0xE6546B64 & _MASK
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    # Absolute value of a signed int; the smallest int has none and becomes 0, as in Flink.
    magnitude = code if code < 0x80000000 else (-code) & 0x7FFFFFFF
    return magnitude % max_parallelism


def key_groups_for_hashes(java_hashes: Ints, max_parallelism: int) -> Ints:
    """Return the key groups of a column of keys, from their Java ``hashCode``s; see :func:`key_group_for_hash`.

    >>> key_groups_for_hashes(np.array([99162322, -1], np.int32), 128).tolist()
    [35, 80]
    """
    groups = np.empty(len(java_hashes), np.int32)
    array_forms.key_groups(java_hashes, max_parallelism, groups)
    return groups


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


def operator_index_for_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Return the subtask that owns a key group.

    >>> operator_index_for_key_group(128, 3, 43)
    1
    """
    return key_group * parallelism // max_parallelism


def range_for_operator_index(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    """Return the key groups that a subtask owns.

    >>> range_for_operator_index(128, 3, 1)
    KeyGroupRange(start=43, end=85)
    """
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise ValueError(f"there is no subtask {index} of {parallelism}")
    start = (index * max_parallelism + parallelism - 1) // parallelism
    return KeyGroupRange(start, ((index + 1) * max_parallelism - 1) // parallelism)


def default_max_parallelism(parallelism: int) -> int:
    """Return the max parallelism that Flink chooses for an operator where the job does not set it.

    >>> default_max_parallelism(4), default_max_parallelism(100)
    (128, 256)
    """
    check_parallelism(UPPER_BOUND_MAX_PARALLELISM, parallelism)
    wanted = parallelism + parallelism // 2
    power = 1 << (wanted - 1).bit_length()
    return min(max(power, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def check_parallelism(max_parallelism: int, parallelism: int) -> None:
    """Raise OptionError unless 1 <= parallelism <= max parallelism <= 32768."""
    if type(max_parallelism) is not int:
        raise OptionError("max parallelism is a whole number", expected="such as 256", found=repr(max_parallelism))
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise OptionError(
            "the max parallelism is out of range",
            expected=f"1 to {UPPER_BOUND_MAX_PARALLELISM}",
            found=max_parallelism,
        )
    if not 1 <= parallelism <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise OptionError(
            "the parallelism is out of range",
            expected=f"1 <= parallelism <= max parallelism <= {UPPER_BOUND_MAX_PARALLELISM}",
            found=f"parallelism {parallelism}, max parallelism {max_parallelism}",
        )
