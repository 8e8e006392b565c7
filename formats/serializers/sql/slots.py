"""Slots of binary rows and arrays, and the protocol of the codecs that read and write them.

A slot is in a container, which is a row or an array. Offsets in slots count from the start of the container and
point to its variable part; lengths and offsets are checked against the container. Slots of nulls are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Flags, Longs
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType


@dataclass(slots=True)
class Slots:
    """Slots to read: one per row at ``place``, in containers that ``at`` spans.

    ``budget[owner]`` is the number of bytes that the slots of container ``owner`` may still point to.
    """

    at: Cursors
    place: Longs
    valid: Flags
    owner: Longs
    budget: Longs

    def extents(self, in_place: bool = False) -> tuple[Longs, Longs]:
        """Return start and end of the bytes of every value; empty where not valid."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        at = self.at
        starts, stops = np.empty_like(self.place), np.empty_like(self.place)
        row = binaryrow.read_extents(
            at.buffer,
            self.place,
            at.position,
            at.end,
            self.valid,
            in_place,
            self.owner,
            self.budget,
            starts,
            stops,
        )
        at.check(row, "a length and an offset within the binary row")
        return starts, stops

    def numbers(self, width: int) -> Longs:
        """Return the slots as signed numbers; 0 where not valid."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        out = np.empty(len(self.place), np.int64)
        binaryrow.read_le(self.at.buffer, self.place, self.valid, width, out)
        return out

    def first(self, bad: Flags) -> int:
        """Return the first row that is valid and marked, or -1."""
        return first_row(bad & self.valid)


@dataclass(slots=True)
class SlotOutput:
    """Slots to write: ``free`` is the next byte of each container's variable part, ``present`` whether it exists.

    ``generated``: write as Flink's generated code does (all keys), which reserves the bytes of null values.
    """

    buffer: Bytes
    place: Longs
    base: Longs
    free: Longs
    valid: Flags
    present: Flags
    generated: bool = False

    def put(self, values: npt.NDArray[Any], width: int = 8, place: Longs | None = None) -> None:
        """Write little-endian numbers into the slots, or at ``place``."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        where = self.place if place is None else place
        binaryrow.put_le(self.buffer, where, values.astype(np.int64), width, self.valid)

    def put_extent(self, low: npt.NDArray[Any], rows: Flags) -> None:
        """Write ``low`` and the offset of the variable part into the slots."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        binaryrow.put_le(self.buffer, self.place, low | (self.free - self.base) << 32, 8, rows)


class SlotCodec(Protocol):
    """Codec of the slots of some type roots. ``width`` applies to arrays; in a row all slots have 8 bytes."""

    def width(self, kind: LogicalType) -> int:
        """Return the bytes of a slot in an array."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read a column."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return the bytes of the variable part, before padding."""

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        """Write a column."""


@dataclass(slots=True)
class RowWriter:
    """Rows of a column to write: those that are in a container, and those of them that are not null."""

    present: Flags
    valid: Flags
    generated: bool


class Wide:
    """Mixin of codecs whose slots have eight bytes in arrays too."""

    def width(self, kind: LogicalType) -> int:
        return 8


class InSlot:
    """Mixin of codecs whose values fit their slots."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        return np.zeros(len(column), np.int64)


def first_row(bad: Flags) -> int:
    """Return the first marked row, or -1."""
    rows = np.flatnonzero(bad)
    return int(rows[0]) if len(rows) else -1
