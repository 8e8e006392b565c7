"""Slots: where the values of binary rows and arrays stand, and what every codec of them does.

A slot lies in a container, a row or an array, at whose start its offsets count and to whose variable part they point.
Lengths and offsets are checked against the container. Slots of null values are neither read nor trusted.
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
    """Slots to read: one per row, in containers that ``at`` spans. ``place`` lies within the container.

    ``budget[owner]`` is what is left of the bytes that all slots of one container may point to.
    """

    at: Cursors
    place: Longs
    valid: Flags
    owner: Longs
    budget: Longs

    def extents(self, in_place: bool = False) -> tuple[Longs, Longs]:
        """Where the bytes of every value start and stop; empty where not valid."""
        from pyspark_savepoint.formats.kernels import binaryrow

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
        """Signed numbers; 0 where not valid."""
        from pyspark_savepoint.formats.kernels import binaryrow

        out = np.empty(len(self.place), np.int64)
        binaryrow.read_le(self.at.buffer, self.place, self.valid, width, out)
        return out

    def first(self, bad: Flags) -> int:
        """The first valid row that is bad, or -1."""
        return first_row(bad & self.valid)


@dataclass(slots=True)
class Target:
    """Slots to write: ``free`` is the next byte of each container's variable part, ``present`` whether there is one.

    ``generated``: as code that Flink generates writes rows (all keys), which reserves the bytes of null values.
    """

    buffer: Bytes
    place: Longs
    base: Longs
    free: Longs
    valid: Flags
    present: Flags
    generated: bool = False

    def put(self, values: npt.NDArray[Any], width: int = 8, place: Longs | None = None) -> None:
        """Little-endian numbers in the slots, or elsewhere."""
        from pyspark_savepoint.formats.kernels import binaryrow

        where = self.place if place is None else place
        binaryrow.put_le(self.buffer, where, values.astype(np.int64), width, self.valid)

    def put_extent(self, low: npt.NDArray[Any], rows: Flags) -> None:
        """``low`` and the offset of the variable part."""
        from pyspark_savepoint.formats.kernels import binaryrow

        binaryrow.put_le(self.buffer, self.place, low | (self.free - self.base) << 32, 8, rows)


class SlotCodec(Protocol):
    """How values of a few type roots stand in slots. ``width`` is that of a slot in an array; in a row it is 8."""

    def width(self, kind: LogicalType) -> int:
        """Bytes of a slot in an array."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """A column."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Bytes of the variable part, before padding."""

    def write(self, kind: LogicalType, column: pa.Array, target: Target) -> None:
        """The mirror of :meth:`read`."""


@dataclass(slots=True)
class RowWriter:
    """Which rows of a column to write stand in a container, and which of those have a value."""

    present: Flags
    valid: Flags
    generated: bool


class Wide:
    """A slot of eight bytes."""

    def width(self, kind: LogicalType) -> int:
        return 8


class InSlot:
    """Values that fit their slots."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        return np.zeros(len(column), np.int64)


def first_row(bad: Flags) -> int:
    """The first marked row, or -1."""
    rows = np.flatnonzero(bad)
    return int(rows[0]) if len(rows) else -1
