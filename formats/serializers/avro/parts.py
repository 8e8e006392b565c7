"""Codecs of composite Avro values: records, unions, arrays and maps.

    record  the fields in order          union  i32 index, then that member
    array   blocks of (varint n, n items), then 0          map  blocks of (varint n, n times string and value), then 0

A union of null and one other type becomes that type, nullable; a union of more types becomes a struct
``member0, member1, ...`` with one field set. Flink writes arrays and maps as one block; more blocks are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    list_array,
    map_array,
    refuse_nulls,
    refuse_where,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.serializers.avro.leaves import AvroBytes, AvroNull
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    Fields,
    encode_elements,
    list_parts,
    map_parts,
    naming,
    pick,
    sum_per_row,
)
from pyspark_savepoint.formats.serializers.layout import (
    UNKNOWN,
    Layout,
    Part,
    expect_few_empty,
    expect_room,
    locate,
    program,
    skip_rows,
)

MAX_BLOCKS = 64


@dataclass(frozen=True)
class AvroRecord(Fields):
    """Record of named fields; ``name`` is the full name, to which :class:`AvroOpaque` refers."""

    name: str = ""

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.name}>"

    def layout(self, layout: Layout) -> int:
        return layout_of(self, layout, {})


@dataclass(frozen=True)
class AvroOpaque:
    """Type that cannot be a column: record ``name`` inside itself, or a schema that is too large."""

    name: str
    reason: str

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.name}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def layout(self, layout: Layout) -> int:
        """Return UNKNOWN: there is a layout only inside the record that it refers to (:func:`layout_of`)."""
        return UNKNOWN

    def _refuse(self) -> UndecodableStateError:
        remedy = 'read the state as bytes: option("raw", "<state>")'
        return UndecodableStateError(f"{self.flink_type} cannot be a column: {self.reason}", remedy=remedy)

    def decode(self, at: Cursors) -> pa.Array:
        raise self._refuse().with_facts(**at.origin.facts())

    def sizes(self, column: pa.Array) -> Longs:
        raise self._refuse()

    def encode(self, column: pa.Array, at: Cursors) -> None:
        raise self._refuse()


@dataclass(frozen=True)
class AvroUnion:
    """Union: one of several types, by its index."""

    members: tuple[Part, ...]

    @property
    def flink_type(self) -> str:
        return f"AVRO<[{', '.join(member.flink_type for member in self.members)}]>"

    @property
    def null(self) -> int:
        """The index of null, or -1."""
        return next((i for i, member in enumerate(self.members) if isinstance(member, AvroNull)), -1)

    @property
    def values(self) -> tuple[tuple[int, Part], ...]:
        """Index and type of the members that are not null."""
        return tuple((i, member) for i, member in enumerate(self.members) if i != self.null)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the only member that is not null, or a struct of all such members."""
        kinds = [member.arrow_type(options) for _, member in self.values]
        if len(kinds) < 2:
            return kinds[0] if kinds else pa.null()
        return pa.struct([pa.field(f"member{number}", kind) for number, kind in enumerate(kinds)])

    def layout(self, layout: Layout) -> int:
        return layout_of(self, layout, {})

    def decode(self, at: Cursors) -> pa.Array:
        """Read the indices of all rows, then every member for its rows."""
        return self.decode_members(at, read_numbers(at, "read_i32", np.int32, f"the index of {self.flink_type}"))

    def decode_members(self, at: Cursors, index: Ints | Longs) -> pa.Array:
        """Read the members whose indices were read."""
        wrong = np.flatnonzero((index < 0) | (index >= len(self.members)))
        if len(wrong):
            at.fail(int(wrong[0]), f"the index of one of {len(self.members)} types", int(index[wrong[0]]))
        columns = [self._decode_member(member, index == i, at) for i, member in self.values]
        if len(columns) < 2:
            return columns[0] if columns else pa.nulls(len(at))
        return struct_array(self.arrow_type(at.options), columns, len(at), index != self.null)

    def _decode_member(self, member: Part, rows: Flags, at: Cursors) -> pa.Array:
        cursors = at.select(rows)
        column = member.decode(cursors)
        at.update(rows, cursors)
        return scatter(column, rows)

    def _chosen(self, column: pa.Array) -> tuple[Longs, list[pa.Array]]:
        """Return the index of every row, and a column for each member that is not null."""
        valid = valid_rows(column)
        if self.null < 0:
            refuse_nulls(column, self.flink_type)
        chosen = np.full(len(column), self.null, np.int64)
        if len(self.values) < 2:
            chosen[valid] = self.values[0][0] if self.values else self.null
            return chosen, [column] if self.values else []
        parts = [column.field(number) for number in range(len(self.values))]
        masks = [valid & valid_rows(part) for part in parts]
        bad = valid & (np.sum(masks, axis=0) != 1)
        refuse_where(bad, column, "exactly one member that is set", "leave the other members null")
        for (i, _), rows in zip(self.values, masks, strict=True):
            chosen[rows] = i
        return chosen, parts

    def sizes(self, column: pa.Array) -> Longs:
        chosen, parts = self._chosen(column)
        sizes = np.full(len(column), 4, np.int64)
        for (i, member), part in zip(self.values, parts, strict=True):
            sizes[chosen == i] += member.sizes(pick(part, chosen == i))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        chosen, parts = self._chosen(column)
        write_numbers(chosen.astype(np.int32), at)
        for (i, member), part in zip(self.values, parts, strict=True):
            cursors = at.select(chosen == i)
            member.encode(pick(part, chosen == i), cursors)
            at.update(chosen == i, cursors)


@dataclass(frozen=True)
class AvroBlocks:
    """Array of items, or with ``keyed`` a map from strings to items."""

    item: Part
    keyed: bool = False

    @property
    def flink_type(self) -> str:
        return f"AVRO<{'map' if self.keyed else 'array'}({self.item.flink_type})>"

    @property
    def parts(self) -> tuple[Part, ...]:
        return (AvroBytes(text=True), self.item) if self.keyed else (self.item,)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        item = self.item.arrow_type(options)
        return pa.map_(pa.string(), item) if self.keyed else pa.list_(pa.field("element", item))

    def layout(self, layout: Layout) -> int:
        return layout_of(self, layout, {})

    def decode(self, at: Cursors) -> pa.Array:
        """Find the items of all rows, then decode them as columns."""
        counts, starts, stops = self._locate(at)
        expect_room(self.parts, at, int(counts.sum()))
        columns = []
        for name, part, start, stop in zip(("key", "value")[-len(starts) :], self.parts, starts, stops, strict=True):
            cursors = at.at(start, stop)
            with cursors.inside(name if self.keyed else "element"):
                columns.append(part.decode(cursors))
                cursors.expect_end()
        kind = self.arrow_type(at.options)
        return map_array(kind, counts, *columns) if self.keyed else list_array(kind, counts, columns[0])

    def _locate(self, at: Cursors) -> tuple[Longs, Any, Any]:
        """Return items per row, and their spans in row order; each round reads one block of the rows that have more."""
        total = np.zeros(len(at), np.int64)
        rows = np.arange(len(at))
        owners: list[Longs] = []
        starts: list[Any] = []
        stops: list[Any] = []
        while len(rows):
            if len(owners) == MAX_BLOCKS:
                at.fail(int(rows[0]), f"at most {MAX_BLOCKS} blocks in {self.flink_type}")
            cursors = at.select(rows)
            counts = self._read_counts(cursors)
            spans = locate(self.parts, cursors, counts)
            at.update(rows, cursors)
            total[rows] += counts
            owners.append(np.repeat(rows, counts))
            starts.append(spans[0])
            stops.append(spans[1])
            rows = rows[counts > 0]
        if not owners:
            return (total, *locate(self.parts, at, total))
        order = np.argsort(np.concatenate(owners), kind="stable")
        return total, np.hstack(starts)[:, order], np.hstack(stops)[:, order]

    def _read_counts(self, at: Cursors) -> Longs:
        from pyspark_savepoint.formats.kernels import numbers, skip

        walker = at.at(at.position.copy(), at.end)
        counts = np.zeros(len(at), np.int64)
        at.check(numbers.read_varints(at.buffer, at.position, at.end, counts), f"the items of {self.flink_type}")
        width = sum(abs(width) for width in program(*self.parts).widths)
        most = (at.end - at.position) // width if width else np.full_like(counts, skip.MAX_EMPTY)
        wrong = np.flatnonzero(counts > most)
        if len(wrong):
            row = int(wrong[0])
            at.fail(row, f"at most {int(most[row])} items of {self.flink_type}", int(counts[row]))
        if not width:
            expect_few_empty(self.item.flink_type, at, counts)
        # Where rows share one end, each count may be possible but not their sum: skip before allocating.
        if len(at) > 1 and counts.sum() > len(at.buffer) and program(self).is_known:
            skip_rows(self, walker)
        return counts

    def _items(self, column: pa.Array) -> tuple[Longs, list[pa.Array]]:
        counts, *columns = map_parts(column) if self.keyed else list_parts(column)
        return counts, columns

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of one block, if there are items, and of the end."""
        refuse_nulls(column, self.flink_type)
        counts, columns = self._items(column)
        with naming("value" if self.keyed else "element"):
            sizes: Longs = np.sum(
                [sum_per_row(part.sizes(items), counts) for part, items in zip(self.parts, columns, strict=True)],
                axis=0,
                dtype=np.int64,
            )
        for bits in (0, 7, 14, 21, 28):
            sizes += counts >= max(1, 1 << bits)
        return sizes + 1

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        counts, columns = self._items(column)
        full = counts > 0
        cursors = at.select(full)
        numbers.write_varints(cursors.buffer, cursors.position, counts[full])
        at.update(full, cursors)
        encode_elements(self.parts, columns, at, counts)
        write_numbers(np.zeros(len(column), np.int8), at)


def layout_of(part: Part, layout: Layout, records: Mapping[str, int]) -> int:
    """Return the layout of a type, given the nodes of the enclosing ``records``, to which it may refer by name."""
    from pyspark_savepoint.formats.kernels import skip

    if isinstance(part, AvroRecord):
        node = layout.reserve(len(part.parts), skip.SEQUENCE)
        inside = {**records, part.name: node}
        nodes = [layout_of(field, layout, inside) for field in part.parts]
        if UNKNOWN in nodes:
            return UNKNOWN
        layout.fill(node, nodes)
        return node
    if isinstance(part, AvroUnion):
        return layout.add(skip.CHOICE, 0, 4, [layout_of(member, layout, records) for member in part.members])
    if isinstance(part, AvroBlocks):
        return layout.add(skip.AVRO_BLOCKS, parts=[layout_of(inner, layout, records) for inner in part.parts])
    if isinstance(part, AvroOpaque):
        return records.get(part.name, UNKNOWN)
    return part.layout(layout)
