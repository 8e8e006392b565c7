"""Binary rows, arrays and maps of SQL: containers of slots, which can be nested.

    row   := u8 kind, null bits (field i: bit i + 8), padded to 8    a slot of 8 bytes per field    variable part
    array := i32 n, null bits (element i: bit i) in words of 32    n slots, padded to 8    variable part
    map   := i32 bytes of keys    array of keys    array of values

All numbers are little-endian, bits least significant first. Slots of arrays are as wide as their type, entries of the
variable part are padded to 8 bytes. A container inside another one is an entry of its variable part, and its own
offsets count from its own start. All rows of a batch are decoded together, field by field. Flink: ``BinaryRowData``,
``BinaryArrayData``, ``BinaryMapData`` and their writers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    Flags,
    Longs,
    fixed_values,
    list_array,
    map_array,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.basic.shapes import naming
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.slots import (
    BooleanCodec,
    BytesCodec,
    DayTimeIntervalCodec,
    DecimalCodec,
    NullCodec,
    NumberCodec,
    RowWriter,
    SlotCodec,
    SlotOutput,
    Slots,
    TimestampCodec,
    VariantCodec,
    Wide,
    first_row,
)

RAW_STATE = 'read the state as bytes: option("raw", "<state>")'
COUNT = LogicalType("INTEGER", nullable=False)


def row_header(fields: int) -> int:
    """Return the bytes of the row kind and the null bits."""
    return (fields + 63 + 8) // 64 * 8


def padded(sizes: Longs) -> Longs:
    """Round up to words of 8 bytes."""
    return (sizes + 7) & ~np.int64(7)


def read_fields(kinds: Sequence[LogicalType], names: Sequence[str], at: Cursors, valid: Flags) -> list[pa.Array]:
    """Return the fields of the rows that the cursors span, as columns; the cursors do not move."""
    from pyspark_savepoint.formats.kernels import binaryrow

    header = row_header(len(kinds))
    _check(at, valid & (at.end - at.position < header + 8 * len(kinds)), f"a binary row of {len(kinds)} fields")
    _check(at, row_kinds(at, valid) > 3, "the kind of a row: 0 to 3")
    owner, budget = np.arange(len(at)), at.end - at.position
    columns = []
    for index, (kind, name) in enumerate(zip(kinds, names, strict=True)):
        present = np.empty(len(at), np.bool_)
        binaryrow.read_bits(at.buffer, at.position * 8 + 8 + index, valid, present)
        with at.inside(name):
            slots = Slots(at, at.position + header + 8 * index, present, owner, budget)
            columns.append(CODECS[kind.root].read(kind, slots))
    return columns


def row_kinds(at: Cursors, valid: Flags) -> Longs:
    """Return the kind of every row, 0 where not valid."""
    from pyspark_savepoint.formats.kernels import binaryrow

    kinds = np.empty(len(at), np.int64)
    binaryrow.read_le(at.buffer, at.position, valid, 1, kinds)
    return kinds & 0xFF


def row_sizes(
    kinds: Sequence[LogicalType],
    names: Sequence[str],
    columns: Sequence[pa.Array],
    present: Flags,
    generated: bool = False,
) -> Longs:
    """Return the bytes of the rows that :func:`write_fields` writes."""
    total = np.full(len(present), row_header(len(kinds)) + 8 * len(kinds), np.int64)
    for kind, name, column in zip(kinds, names, columns, strict=True):
        with naming(name):
            total += variable_sizes(kind, column, present, generated)
    return np.where(present, total, 0)


def variable_sizes(kind: LogicalType, column: pa.Array, present: Flags, generated: bool = False) -> Longs:
    """Return the padded bytes of the variable part; raise ValueRangeError for a null of a type that is NOT NULL."""
    valid = present & valid_rows(column)
    # Flink stores processing time as null, even in a type that is NOT NULL: it is computed when a row is read.
    if not kind.nullable and kind.kind != "PROCTIME" and (present & ~valid).any():
        row = int(np.flatnonzero(present & ~valid)[0])
        raise ValueRangeError(
            f"a value of {kind} cannot be null",
            found=f"null in row {row} of a column of {len(column)}",
            remedy="filter these rows, or give them a value",
        )
    return padded(CODECS[kind.root].variable(kind, column, RowWriter(present, valid, generated)))


def write_fields(
    kinds: Sequence[LogicalType],
    columns: Sequence[pa.Array],
    buffer: Bytes,
    base: Longs,
    present: Flags,
    generated: bool = False,
) -> None:
    """Write rows, as :func:`read_fields` reads them, into zeroed bytes.

    ``generated``: write as Flink's generated code does. Nested containers are written by serializers in both cases.
    """
    from pyspark_savepoint.formats.kernels import binaryrow

    header = row_header(len(kinds))
    free = base + header + 8 * len(kinds)
    for index, (kind, column) in enumerate(zip(kinds, columns, strict=True)):
        valid = present & valid_rows(column)
        binaryrow.put_bits(buffer, base * 8 + 8 + index, valid | ~present)
        target = SlotOutput(buffer, base + header + 8 * index, base, free, valid, present, generated)
        CODECS[kind.root].write(kind, column, target)
        free = free + variable_sizes(kind, column, present, generated)


def read_elements(kind: LogicalType, at: Cursors, valid: Flags) -> tuple[Longs, pa.Array]:
    """Return lengths and flat elements of the arrays that the cursors span."""
    from pyspark_savepoint.formats.kernels import binaryrow

    room = at.end - at.position
    _check(at, valid & (room < 4), "a binary array")
    counts = np.empty(len(at), np.int64)
    binaryrow.read_le(at.buffer, at.position, valid, 4, counts)
    width = CODECS[kind.root].width(kind)
    header = array_header(counts)
    _check(at, valid & ((counts < 0) | (header + width * counts > room)), "a binary array of as many elements")
    owner = np.repeat(np.arange(len(at)), counts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    base = at.position[owner]
    present = np.empty(len(owner), np.bool_)
    binaryrow.read_bits(at.buffer, (base + 4) * 8 + nth, np.ones(len(owner), np.bool_), present)
    elements = at.at(base, at.end[owner])
    slots = Slots(elements, base + header[owner] + width * nth, present, owner, np.where(valid, room, 0))
    with elements.inside("element"):
        return counts, CODECS[kind.root].read(kind, slots)


def array_header(counts: Longs) -> Longs:
    """Return the bytes of the count and the null bits."""
    return 4 + (counts + 31) // 32 * 4


def array_sizes(kind: LogicalType, counts: Longs, items: pa.Array) -> Longs:
    """Return the bytes of the arrays that :func:`write_elements` writes."""
    with naming("element"):
        extra = variable_sizes(kind, items, np.ones(len(items), np.bool_))
    return padded(array_header(counts) + CODECS[kind.root].width(kind) * counts) + _sums(extra, counts)


def write_elements(
    kind: LogicalType,
    counts: Longs,
    items: pa.Array,
    buffer: Bytes,
    base: Longs,
    present: Flags,
) -> None:
    """Write arrays, as :func:`read_elements` reads them, into zeroed bytes."""
    from pyspark_savepoint.formats.kernels import binaryrow

    width = CODECS[kind.root].width(kind)
    binaryrow.put_le(buffer, base, counts, 4, present)
    owner = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    nth = np.arange(len(owner)) - before[owner]
    valid, everything = valid_rows(items), np.ones(len(items), np.bool_)
    header = array_header(counts)
    binaryrow.put_bits(buffer, (base[owner] + 4) * 8 + nth, valid)
    extra = variable_sizes(kind, items, everything)
    running = np.concatenate(([0], np.cumsum(extra)))
    free = (base + padded(header + width * counts))[owner] + running[:-1] - running[before][owner]
    slots = base[owner] + header[owner] + width * nth
    target = SlotOutput(buffer, slots, base[owner], free, valid, everything)
    CODECS[kind.root].write(kind, items, target)


def _sums(values: Longs, counts: Longs) -> Longs:
    """Sum consecutive groups of the given lengths."""
    running = np.concatenate(([0], np.cumsum(values)))
    ends = np.cumsum(counts)
    return np.asarray(running[ends] - running[ends - counts], np.int64)


def _check(at: Cursors, bad: Flags, expected: str) -> None:
    at.check(first_row(bad), expected)


class Container(Wide, ABC):
    """Codec of containers in the variable part of others: the slot holds length and offset."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read the containers that the slots point to."""
        starts, stops = slots.extents()
        return self.read_column(kind, slots.at.at(starts, stops), slots.valid)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        return self.sizes(kind, column, target.valid)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        target.put_extent(self.sizes(kind, column, target.valid), target.valid)
        self.write_column(kind, column, target.buffer, target.free, target.valid)

    @abstractmethod
    def read_column(self, kind: LogicalType, at: Cursors, valid: Flags) -> pa.Array:
        """Read the containers that the cursors span."""

    @abstractmethod
    def sizes(self, kind: LogicalType, column: pa.Array, valid: Flags) -> Longs:
        """Return the bytes of the containers, 0 where not valid."""

    @abstractmethod
    def write_column(self, kind: LogicalType, column: pa.Array, buffer: Bytes, base: Longs, valid: Flags) -> None:
        """Write the containers into zeroed bytes that start at ``base``."""


class RowCodec(Container):
    """Codec of rows and structured types."""

    def read_column(self, kind: LogicalType, at: Cursors, valid: Flags) -> pa.Array:
        columns = read_fields(kind.children, kind.names, at, valid)
        return struct_array(arrow_type(kind, at.options), columns, len(at), valid)

    def sizes(self, kind: LogicalType, column: pa.Array, valid: Flags) -> Longs:
        return row_sizes(kind.children, kind.names, column.flatten(), valid)

    def write_column(self, kind: LogicalType, column: pa.Array, buffer: Bytes, base: Longs, valid: Flags) -> None:
        write_fields(kind.children, column.flatten(), buffer, base, valid)


class ArrayCodec(Container):
    def read_column(self, kind: LogicalType, at: Cursors, valid: Flags) -> pa.Array:
        counts, items = read_elements(kind.children[0], at, valid)
        return list_array(arrow_type(kind, at.options), counts, items, valid)

    def sizes(self, kind: LogicalType, column: pa.Array, valid: Flags) -> Longs:
        counts, items = list_parts(column)
        return np.where(valid, array_sizes(kind.children[0], counts, items), 0)

    def write_column(self, kind: LogicalType, column: pa.Array, buffer: Bytes, base: Longs, valid: Flags) -> None:
        counts, items = list_parts(column)
        write_elements(kind.children[0], counts, items, buffer, base, valid)


class MapCodec(Container):
    """Codec of maps, and of multisets as maps from element to count."""

    def _parts(self, kind: LogicalType) -> tuple[LogicalType, LogicalType]:
        return kind.children[0], kind.children[1] if kind.root == "MAP" else COUNT

    def read_column(self, kind: LogicalType, at: Cursors, valid: Flags) -> pa.Array:
        """Read maps; a null key is an error, because Spark's maps cannot have one."""
        from pyspark_savepoint.formats.kernels import binaryrow

        room = at.end - at.position
        _check(at, valid & (room < 4), "a binary map")
        size = np.empty(len(at), np.int64)
        binaryrow.read_le(at.buffer, at.position, valid, 4, size)
        _check(at, valid & ((size < 0) | (size > room - 4)), "the bytes of the keys of a binary map")
        start = np.where(valid, at.position + 4, at.position)
        key, value = self._parts(kind)
        with at.inside("key"):
            counts, keys = read_elements(key, at.at(start, start + size), valid)
        with at.inside("value"):
            others, values = read_elements(value, at.at(start + size, at.end), valid)
        _check(at, counts != others, "as many keys as values")
        if keys.null_count:
            entry = int(np.flatnonzero(~valid_rows(keys))[0])
            row = int(np.searchsorted(np.cumsum(counts), entry, side="right"))
            at.out_of_range(row, "a map has a null key, which Spark's maps cannot have", RAW_STATE)
        return map_array(arrow_type(kind, at.options), counts, keys, values, valid)

    def sizes(self, kind: LogicalType, column: pa.Array, valid: Flags) -> Longs:
        key, value = self._parts(kind)
        counts, keys, values = map_parts(column)
        sizes = 4 + array_sizes(key, counts, keys) + array_sizes(value, counts, values)
        return np.where(valid, sizes, 0)

    def write_column(self, kind: LogicalType, column: pa.Array, buffer: Bytes, base: Longs, valid: Flags) -> None:
        from pyspark_savepoint.formats.kernels import binaryrow

        key, value = self._parts(kind)
        counts, keys, values = map_parts(column)
        size = array_sizes(key, counts, keys)
        binaryrow.put_le(buffer, base, size, 4, valid)
        write_elements(key, counts, keys, buffer, base + 4, valid)
        write_elements(value, counts, values, buffer, base + 4 + size, valid)


class DistinctCodec:
    """Codec of distinct types, which are another type under a user's name; delegates to the codec of that type."""

    def width(self, kind: LogicalType) -> int:
        return self._source(kind).width(kind.children[0])

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        return self._source(kind).read(kind.children[0], slots)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        return self._source(kind).variable(kind.children[0], column, target)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        self._source(kind).write(kind.children[0], column, target)

    def _source(self, kind: LogicalType) -> SlotCodec:
        return CODECS[kind.children[0].root]


def list_parts(column: pa.Array) -> tuple[Longs, pa.Array]:
    """Return lengths (0 where null) and flat elements of a list column."""
    counts, first, kept = _entries(column)
    return counts, _pick(column.values, first, kept)


def map_parts(column: pa.Array) -> tuple[Longs, pa.Array, pa.Array]:
    """Return lengths (0 where null), flat keys and flat values of a map column."""
    counts, first, kept = _entries(column)
    return counts, _pick(column.keys, first, kept), _pick(column.items, first, kept)


def _entries(column: pa.Array) -> tuple[Longs, int, Flags]:
    """Return lengths, the first entry, and a mask of the entries from there on in rows that are not null."""
    if not len(column):
        return np.zeros(0, np.int64), 0, np.zeros(0, np.bool_)
    offsets = fixed_values(column.offsets, np.int32).astype(np.int64)
    counts, valid = np.diff(offsets), valid_rows(column)
    return np.where(valid, counts, 0), int(offsets[0]), np.repeat(valid, counts)


def _pick(entries: pa.Array, first: int, kept: Flags) -> pa.Array:
    part = entries.slice(first, len(kept))
    return part if kept.all() else part.filter(pa.array(kept))


SCALARS: Mapping[str, SlotCodec] = {
    "BOOLEAN": BooleanCodec(),
    "TINYINT": NumberCodec(np.int8),
    "SMALLINT": NumberCodec(np.int16),
    "INTEGER": NumberCodec(np.int32),
    "BIGINT": NumberCodec(np.int64),
    "FLOAT": NumberCodec(np.float32),
    "DOUBLE": NumberCodec(np.float64),
    "DATE": NumberCodec(np.int32),
    "TIME_WITHOUT_TIME_ZONE": NumberCodec(np.int32),
    "INTERVAL_YEAR_MONTH": NumberCodec(np.int32),
    "INTERVAL_DAY_TIME": DayTimeIntervalCodec(),
    "TIMESTAMP_WITHOUT_TIME_ZONE": TimestampCodec(),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": TimestampCodec(),
    "DECIMAL": DecimalCodec(),
    "CHAR": BytesCodec(text=True),
    "VARCHAR": BytesCodec(text=True),
    "BINARY": BytesCodec(),
    "VARBINARY": BytesCodec(),
    "RAW": BytesCodec(in_place=False),
    "BITMAP": BytesCodec(in_place=False),
    "VARIANT": VariantCodec(),
    "NULL": NullCodec(),
}
CONTAINERS: Mapping[str, Container] = {
    "ROW": RowCodec(),
    "STRUCTURED_TYPE": RowCodec(),
    "ARRAY": ArrayCodec(),
    "MAP": MapCodec(),
    "MULTISET": MapCodec(),
}
CODECS: Mapping[str, SlotCodec] = {**SCALARS, **CONTAINERS, "DISTINCT_TYPE": DistinctCodec()}
