"""Shapes of composite values, which serializers with different snapshots share.

    Fields    := part...                                 struct
    Repeated  := i32 n  part[n]                          list
    Entries   := i32 n  (key value)[n]                   map
    Flagged   := u8 flag  part, or padding where null    the part, nullable
    Choice    := u8 tag  the part of that tag            struct with exactly one field set

A shape is not a serializer: it has no snapshot. Serializers declare their shape (:class:`Shaped`), and shapes nest:
the values of a ``MapSerializer`` are ``MapEntries(key, Flagged(value))``.

A column of lists is a number of elements per row and one flat column of all elements: the functions convert between
the two forms, and between them and the bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    fixed_values,
    list_array,
    map_array,
    map_type,
    refuse_nulls,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import (
    BY_SNAPSHOT,
    NumberSerializer,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.basic.strings import RAW
from pyspark_savepoint.formats.serializers.layout import (
    Layout,
    Part,
    decode_elements,
    expect_few_empty,
    expect_room,
    locate,
    program,
    skip_rows,
)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a field to errors about values that cannot be written."""
    try:
        yield
    except (ValueRangeError, UnsupportedStateError) as error:
        inner = error.facts.get("state")
        error.facts["state"] = f"{name}.{inner}" if inner else name
        raise


def gather(kind: pa.DataType, parts: Sequence[tuple[Flags, pa.Array]], rows: int) -> pa.Array:
    """Combine columns of disjoint sets of rows into one column; null in rows that belong to none."""
    if not parts:
        return pa.nulls(rows, kind)
    if len(parts) == 1:
        return scatter(parts[0][1], parts[0][0])
    index = np.full(rows, -1, np.int64)
    before = 0
    for mask, array in parts:
        index[mask] = before + np.arange(len(array))
        before += len(array)
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(index, mask=index < 0))


def pick(column: pa.Array, rows: Flags) -> pa.Array:
    """Return the rows of a mask."""
    return column if rows.all() else column.filter(pa.array(rows))


def read_counts(whole: Part, parts: Sequence[Part], at: Cursors) -> Longs:
    """Read how often the parts of ``whole`` follow: at most as often as the remaining bytes can hold."""
    from pyspark_savepoint.formats.kernels import skip

    what = ", ".join(part.flink_type for part in parts)
    width = sum(map(abs, program(*parts).widths))
    if width:
        return bounded_counts(whole, what, at, lambda room: room // width)
    counts = bounded_counts(whole, what, at, lambda room: np.full_like(room, skip.MAX_EMPTY))
    expect_few_empty(what, at, counts)
    return counts


def bounded_counts(whole: Part, what: str, at: Cursors, limit: Callable[[Longs], Longs]) -> Longs:
    """Read an int per row, from 0 to the ``limit`` that the bytes after it allow."""
    walker = at.at(at.position.copy(), at.end)
    counts = read_numbers(at, "read_i32", np.int32, f"the number of {what}").astype(np.int64)
    most = limit(at.end - at.position)
    wrong = np.flatnonzero((counts < 0) | (counts > most))
    if len(wrong):
        row = int(wrong[0])
        at.fail(row, f"a number of {what} from 0 to {int(most[row])}", int(counts[row]))
    # Where rows share one end (heap tables), each count may be possible but not their sum: skip before allocating.
    if len(at) > 1 and counts.sum() > limit(np.array([len(at.buffer)]))[0] and program(whole).is_known:
        skip_rows(whole, walker)
    return counts


def encode_elements(parts: Sequence[Part], columns: Sequence[pa.Array], at: Cursors, counts: Longs) -> None:
    """Write ``counts`` repetitions of the parts at every cursor, from flat columns; ``locate`` finds them again."""
    widths = [part.sizes(column) for part, column in zip(parts, columns, strict=True)]
    stride: Longs = np.sum(widths, axis=0, dtype=np.int64)
    totals = sum_per_row(stride, counts)
    before = np.cumsum(totals) - totals
    starts = np.repeat(at.position - before, counts) + np.cumsum(stride) - stride
    for part, column, width in zip(parts, columns, widths, strict=True):
        cursors = at.at(starts, starts + width)
        part.encode(column, cursors)
        starts = cursors.position
    at.position[:] += totals


def write_zeros(at: Cursors, counts: Longs) -> None:
    """Write ``counts`` zero bytes at every cursor."""
    from pyspark_savepoint.formats.kernels import numbers

    offsets = np.concatenate(([0], np.cumsum(counts)))
    numbers.write_bytes(at.buffer, at.position, offsets, np.zeros(int(offsets[-1]), np.uint8))


def list_parts(column: pa.Array) -> tuple[Longs, pa.Array]:
    """Return lengths and flat elements of a list column."""
    offsets = _offsets(column)
    return np.diff(offsets), column.values.slice(offsets[0], offsets[-1] - offsets[0])


def map_parts(column: pa.Array) -> tuple[Longs, pa.Array, pa.Array]:
    """Return lengths, flat keys and flat values of a map column."""
    offsets = _offsets(column)
    first, count = offsets[0], offsets[-1] - offsets[0]
    return np.diff(offsets), column.keys.slice(first, count), column.items.slice(first, count)


def _offsets(column: pa.Array) -> Longs:
    if not len(column):
        return np.zeros(1, np.int64)
    return fixed_values(column.offsets, np.int32).astype(np.int64)


def sum_per_row(values: Any, counts: Longs) -> Any:
    """Sum consecutive groups of the given lengths, in the arithmetic of the values' dtype."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=sums[1:])
    ends = np.cumsum(counts)
    return sums[ends] - sums[ends - counts]


def hash_in_order(hashes: Ints, counts: Longs) -> Ints:
    """Return ``List.hashCode`` from the hashes of the elements: start with 1, then 31 * hash + element, in order."""
    powers = np.ones(int(counts.max(initial=0)) + 1, np.uint32)
    powers[1:] = np.cumprod(np.full(len(powers) - 1, 31, np.uint32), dtype=np.uint32)
    ends = np.cumsum(counts)
    exponents = np.repeat(ends, counts) - 1 - np.arange(len(hashes))
    sums = sum_per_row(hashes.astype(np.int32).view(np.uint32) * powers[exponents], counts)
    return np.asarray(sums + powers[counts], np.uint32).view(np.int32)


#: Serializers of numbers in composite values that the snapshot does not list.
BOOLEAN, INT, LONG, DOUBLE = (
    NumberSerializer.of(next(name for name, (known, _) in BY_SNAPSHOT.items() if known == stem))
    for stem in ("Boolean", "Int", "Long", "Double")
)


@dataclass(frozen=True)
class Shaped(TypeSerializer):
    """Serializer whose values are fully described by a shape."""

    @property
    @abstractmethod
    def shape(self) -> Part:
        """The shape of the values."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.shape.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        return self.shape.layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        return self.shape.decode(at)

    def sizes(self, column: pa.Array) -> Longs:
        return self.shape.sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.shape.encode(column, at)


@dataclass(frozen=True)
class WrappingSerializer(Shaped):
    """Serializer with the values of its only child, but its own snapshot."""

    @property
    def flink_type(self) -> str:
        return self.children[0].flink_type

    @property
    def length(self) -> int:
        return self.children[0].length

    @property
    def shape(self) -> Part:
        return self.children[0]


@dataclass(frozen=True)
class Fields:
    """Parts one after the other, with nothing between them."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def flink_type(self) -> str:
        fields = (f"{name} {part.flink_type}" for name, part in zip(self.names, self.parts, strict=True))
        return f"STRUCT<{', '.join(fields)}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return struct_type(self.names, self.parts, options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.SEQUENCE, parts=[part.layout(layout) for part in self.parts])

    def decode(self, at: Cursors) -> pa.Array:
        """Process the parts in order, each for all rows."""
        rows = len(at)
        columns = []
        for name, part in zip(self.names, self.parts, strict=True):
            with at.inside(name):
                columns.append(part.decode(at))
        return struct_array(self.arrow_type(at.options), columns, rows)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        total = np.zeros(len(column), np.int64)
        for index, (name, part) in enumerate(zip(self.names, self.parts, strict=True)):
            with naming(name):
                total += part.sizes(column.field(index))
        return total

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Process the parts in order, each for all rows."""
        for index, part in enumerate(self.parts):
            part.encode(column.field(index), at)


@dataclass(frozen=True)
class Repeated:
    """A count, then that many values of the part."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"LIST<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(pa.field("element", self.part.arrow_type(options)))

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.REPEAT, parts=[self.part.layout(layout)])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the elements of all rows as one column."""
        counts = read_counts(self, [self.part], at)
        with at.inside("element"):
            items = decode_elements(self.part, at, counts)
        return list_array(self.arrow_type(at.options), counts, items)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        counts, items = list_parts(column)
        with naming("element"):
            total: Longs = sum_per_row(self.part.sizes(items), counts) + 4
        return total

    def encode(self, column: pa.Array, at: Cursors) -> None:
        counts, items = list_parts(column)
        write_numbers(counts.astype(np.int32), at)
        encode_elements([self.part], [items], at, counts)


@dataclass(frozen=True)
class MapEntries:
    """A count, then that many pairs of key and value. Spark's maps have no null keys."""

    key: Part
    value: Part

    @property
    def flink_type(self) -> str:
        return f"MAP<{self.key.flink_type}, {self.value.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return map_type(self.key.arrow_type(options), self.value.arrow_type(options))

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.REPEAT, parts=[self.key.layout(layout), self.value.layout(layout)])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the keys and the values of all rows as two columns."""
        parts = [self.key, self.value]
        counts = read_counts(self, parts, at)
        expect_room(parts, at, int(counts.sum()))
        with at.inside("entry"):
            starts, stops = locate(parts, at, counts)
        columns = []
        for name, part, start, stop in zip(("key", "value"), parts, starts, stops, strict=True):
            cursors = at.at(start, stop)
            with cursors.inside(name):
                columns.append(part.decode(cursors))
                cursors.expect_end()
        if columns[0].null_count and at.options.ends:
            return pa.nulls(len(at), self.arrow_type(at.options))
        if columns[0].null_count:
            self._refuse_null_key(columns[0], at, counts)
        return map_array(self.arrow_type(at.options), counts, columns[0], columns[1])

    def _refuse_null_key(self, keys: pa.Array, at: Cursors, counts: Longs) -> None:
        entry = int(np.flatnonzero(~valid_rows(keys))[0])
        at.out_of_range(
            int(np.searchsorted(np.cumsum(counts), entry, side="right")),
            "a map has a null key, which Spark's maps cannot have",
            RAW,
        )

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        counts, keys, values = map_parts(column)
        with naming("key"):
            entries = self.key.sizes(keys)
        with naming("value"):
            entries = entries + self.value.sizes(values)
        total: Longs = sum_per_row(entries, counts) + 4
        return total

    def encode(self, column: pa.Array, at: Cursors) -> None:
        counts, keys, values = map_parts(column)
        write_numbers(counts.astype(np.int32), at)
        encode_elements([self.key, self.value], [keys, values], at, counts)


@dataclass(frozen=True)
class Flagged:
    """A flag byte, then the part, or padding where null. The ``null_flag`` of a null varies by serializer."""

    part: Part
    null_flag: int = 1
    padding: int = 0

    @property
    def flink_type(self) -> str:
        return f"NULLABLE<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FLAGGED, self.null_flag, self.padding, [self.part.layout(layout)])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the flags of all rows, then the part for the rows that are not null."""
        flags = read_numbers(at, "read_flags", np.bool_, f"the flag of a {self.flink_type}: 0 or 1")
        valid: Flags = flags != bool(self.null_flag)
        if valid.all():
            return self.part.decode(at)
        self._skip_padding(at, ~valid)
        present = at.select(valid)
        column = self.part.decode(present)
        at.update(valid, present)
        return scatter(column, valid)

    def _skip_padding(self, at: Cursors, absent: Flags) -> None:
        ends = at.position + self.padding
        beyond = np.flatnonzero(absent & (ends > at.end))
        if len(beyond):
            at.fail(int(beyond[0]), f"{self.padding} bytes in place of a null")
        at.position[absent] = ends[absent]

    def sizes(self, column: pa.Array) -> Longs:
        valid = valid_rows(column)
        sizes = np.full(len(column), 1 + self.padding, np.int64)
        sizes[valid] = self.part.sizes(pick(column, valid)) + 1
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        valid = valid_rows(column)
        write_numbers((valid != bool(self.null_flag)).astype(np.int8), at)
        present = at.select(valid)
        self.part.encode(pick(column, valid), present)
        at.update(valid, present)
        absent = at.select(~valid)
        write_zeros(absent, np.full(len(absent), self.padding, np.int64))
        at.update(~valid, absent)


@dataclass(frozen=True)
class Choice:
    """A tag byte, then the part of that tag."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]
    tags: tuple[int, ...]

    @property
    def flink_type(self) -> str:
        return f"ONE_OF<{', '.join(part.flink_type for part in self.parts)}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return struct_type(self.names, self.parts, options)

    def layout(self, layout: Layout) -> int:
        """Add a CHOICE node; the tags must be consecutive."""
        from pyspark_savepoint.formats.kernels import skip

        by_tag = [part for _, part in sorted(zip(self.tags, self.parts, strict=True), key=lambda pair: pair[0])]
        return layout.add(skip.CHOICE, min(self.tags), 1, [part.layout(layout) for part in by_tag])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the tags of all rows, then every part for its rows."""
        rows = len(at)
        tags = read_numbers(at, "read_i8", np.uint8, f"the tag of a {self.flink_type}")
        unknown = np.flatnonzero(~np.isin(tags, self.tags))
        if len(unknown):
            row = int(unknown[0])
            at.fail(row, f"a tag among {sorted(self.tags)}", int(tags[row]))
        columns = []
        for name, part, tag in zip(self.names, self.parts, self.tags, strict=True):
            chosen: Flags = tags == tag
            cursors = at.select(chosen)
            with cursors.inside(name):
                columns.append(scatter(part.decode(cursors), chosen))
            at.update(chosen, cursors)
        return struct_array(self.arrow_type(at.options), columns, rows)

    def sizes(self, column: pa.Array) -> Longs:
        sizes = np.ones(len(column), np.int64)
        for index, chosen in enumerate(self._chosen(column)):
            with naming(self.names[index]):
                sizes[chosen] += self.parts[index].sizes(pick(column.field(index), chosen))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        choices = self._chosen(column)
        tags = np.zeros(len(column), np.int8)
        for tag, choice in zip(self.tags, choices, strict=True):
            tags[choice] = tag
        write_numbers(tags, at)
        for index, choice in enumerate(choices):
            cursors = at.select(choice)
            self.parts[index].encode(pick(column.field(index), choice), cursors)
            at.update(choice, cursors)

    def _chosen(self, column: pa.Array) -> list[Flags]:
        """Return, per part, the rows where it is set; a part that is always null (Void) takes rows with none."""
        refuse_nulls(column, self.flink_type)
        result = [valid_rows(column.field(index)) for index in range(len(self.parts))]
        counts: Longs = np.add.reduce([rows.astype(np.int64) for rows in result])
        void = [index for index in range(len(self.parts)) if pa.types.is_null(column.field(index).type)]
        if len(void) == 1:
            result[void[0]] = counts == 0
            counts = np.maximum(counts, 1)
        wrong = np.flatnonzero(counts != 1)
        if len(wrong):
            raise ValueRangeError(
                f"a {self.flink_type} has exactly one of {', '.join(self.names)}",
                found=f"{int(counts[wrong[0]])} of them set in row {int(wrong[0])}",
                remedy="set exactly one of the fields, and leave the others null",
            )
        return result


def struct_type(names: Sequence[str], parts: Sequence[Part], options: DecodeOptions) -> pa.DataType:
    """Return the struct type of named parts."""
    return pa.struct([pa.field(name, part.arrow_type(options)) for name, part in zip(names, parts, strict=True)])
