"""Columns whose values are written together by ``kernels/kryo_objects.py``; all others are left to the caller.

What precedes an object, its class or a byte 0 or 1, depends on the fields, lists and maps around it and on their type
arguments. It is the same for all values of a column, so it is asked of :class:`ObjectWriter`, which has these rules: it
writes one object with one element in each list and map, and :class:`_Precedence` notes what it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import (
    Bytes,
    DecodeOptions,
    Flags,
    Longs,
    binary_parts,
    doubled,
    fixed_values,
    valid_rows,
)
from pyspark_savepoint.formats.kernels import kryo_kinds as kinds
from pyspark_savepoint.formats.kernels import kryo_objects
from pyspark_savepoint.formats.kernels.one_by_one import rows_one_by_one
from pyspark_savepoint.formats.serializers.basic.shapes import list_parts, map_parts
from pyspark_savepoint.formats.serializers.basic.temporal import MOMENT
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import BUILDER, TIME, KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError, KryoOutput
from pyspark_savepoint.formats.serializers.kryo.objects import column_shapes as shapes
from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import BOXES, Arguments, ObjectWriter
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import ObjectFormat
from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables

Cells = npt.NDArray[np.int64]
#: Ways to read the objects of the containers that are written, by the kinds of their columns.
_CONTAINERS = {
    shapes.STRUCT: {kinds.FIELDS},
    shapes.HELD: {kinds.OPTIONAL, kinds.REFERENCE},
    shapes.LIST: {kinds.COLLECTION, kinds.NO_NULLS, kinds.ARRAY, kinds.PRIMITIVES, kinds.BITS},
    shapes.MAP: {kinds.MAP},
}
_MOMENTS = (kinds.INSTANT, kinds.SQL_TIMESTAMP, kinds.DURATION)
#: What is parsed, or written as it is.
_TEXTS = {
    *(kinds.TEXT, kinds.BYTES, kinds.CHAR, kinds.UUID, kinds.BIG_DECIMAL, kinds.ZONED, kinds.OFFSET_DATE_TIME),
    *(kinds.OFFSET_TIME, kinds.ZONE_OFFSET, kinds.PERIOD, kinds.YEAR_MONTH, kinds.MONTH_DAY),
}
_LEAVES = {
    *(kinds.INT, kinds.LONG, kinds.SHORT, kinds.BYTE, kinds.YEAR, kinds.CLOCK, kinds.SQL_TIME, kinds.DATE, kinds.FLAG),
    *(kinds.BOOLEAN, kinds.FLOAT, kinds.DOUBLE, kinds.MILLIS, kinds.DATE_TIME, kinds.BIG_INTEGER, kinds.ENUM),
    *(*_MOMENTS, *_TEXTS),
}
_HALVES = np.dtype([("low", np.int64), ("high", np.int64)])
_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class _NotTogetherError(Exception):
    """A column that is written object by object."""


class _Precedence(ObjectWriter):
    """Notes what precedes the objects of columns: their class, or a byte 0 or 1."""

    def __init__(self, form: ObjectFormat, columns: dict[int, int], rows: list[list[int]]) -> None:
        super().__init__(form)
        self.columns = columns
        self.rows = rows
        self.named: str | None = None

    def class_name(self, name: str | None) -> None:
        self.named = name
        super().class_name(name)

    def object(
        self, kryo_object: KryoObject | None, nullable: bool = False, arguments: Arguments | None = None
    ) -> None:
        column = self.columns.get(id(kryo_object))
        if column is not None and kryo_object is not None:
            is_named = self.named == kryo_object.class_name
            self.rows[column][kryo_objects.PRECEDED] = kinds.VALUE if is_named else kinds.NULLABLE
        self.named = None
        if column is None or self.rows[column][kryo_objects.HOW_READ] in kryo_objects.OPENED:
            super().object(kryo_object, nullable, arguments)


@dataclass(frozen=True)
class ColumnWriting:
    """The tables of a column, from which its values are written."""

    kryo: int
    shapes: list[ColumnShape]
    columns: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    names: Bytes
    #: The constants of enums, by column.
    constants: dict[int, tuple[str, ...]]

    @staticmethod
    def of(shape: ColumnShape, form: ObjectFormat) -> ColumnWriting | None:
        """Return the writing of the columns of a shape, None if they are written object by object."""
        try:
            return _writing(shape, form)
        except (_NotTogetherError, ForeignError, DamagedError):
            return None

    def one_by_one(self, rows: int) -> Iterator[slice]:
        """Yield the first rows that are to be written one by one, since that takes less than compiling."""
        return rows_one_by_one(rows, kryo_objects.write_rows)

    def write(self, column: pa.Array) -> tuple[Flags, Longs, Bytes] | None:
        """Return which rows were not written, the ends of all from 0 on, and the bytes; None for another type."""
        filling = _Filling(self)
        try:
            filling.fill(column)
        except _NotTogetherError:
            return None
        rows, row, classes = len(column), 0, self.classes.copy()
        state = np.zeros(kinds.STATE, np.int64)
        state[kryo_objects.ROOM] = 256 + int(self.classes[:, kryo_objects.NAME_SIZE].max())
        ends, left = np.zeros(rows + 1, np.int64), np.zeros(rows, np.bool_)
        constants = np.zeros((kryo_objects.MAX_CONSTANTS, 4), np.int64)
        out: Bytes = np.empty(1024 + 16 * rows * len(self.shapes), np.uint8)
        while True:
            row = kryo_objects.write_rows(
                *(self.kryo, filling.columns, classes, self.names, filling.cells, filling.data),
                *(row, out, ends, left, constants, state),
            )
            if row == rows:
                return left, ends, out[: int(ends[-1])]
            out = doubled(out)


def _writing(shape: ColumnShape, form: ObjectFormat) -> ColumnWriting:
    found, tables = [shape], ValueTables(form, DecodeOptions())
    for each in found:
        if not each.written:
            raise _NotTogetherError
        tables.node(each.written)
        found += each.parts
    tables.update()
    rows: list[list[int]] = []
    #: Of the table of classes; those of time zones are always there.
    names = {TIME + "ZoneOffset": kryo_objects.OFFSET_CLASS, TIME + "ZoneRegion": kryo_objects.REGION_CLASS}
    constants: dict[int, tuple[str, ...]] = {}
    first = 1
    for number, each in enumerate(found):
        read = _read_of(each, form, tables)
        if read == kinds.ENUM:
            constants[number] = tables.constants(each.written)
        plain, of_class = form.body(each.written).plain, names.setdefault(each.written, len(names))
        rows.append([read, int(plain), kinds.SURE, of_class, first, len(each.parts), 0])
        first += len(each.parts)
    columns: dict[int, int] = {}
    _Precedence(form, columns, rows).value(_example(0, found, rows, columns))
    classes, texts = [], KryoOutput(form.version)
    for name in names:
        start = len(texts.data)
        texts.name_of_class(BOXES.get(name, name))
        classes.append([form.numbers.get(name, -1), start, len(texts.data) - start, -1])
    return ColumnWriting(
        *(form.version, found, np.array(rows, np.int64), np.array(classes, np.int64)),
        *(np.frombuffer(bytes(texts.data), np.uint8).copy(), constants),
    )


def _read_of(shape: ColumnShape, form: ObjectFormat, tables: ValueTables) -> int:
    """Return how the objects of a column are read, which are written in this way."""
    name = shape.written
    row = tables.table[tables.node(name)]
    read = int(row[kinds.READ])
    keys = tuple(each.key for each in form.classes.fields(name, form.version)) if shape.keys else ()
    # Kryo 2 always writes the length of a StringBuilder.
    has_length = form.version == 2 and form.body(name) is form.bodies[BUILDER]
    if read not in _CONTAINERS.get(shape.kind, _LEAVES) or row[kinds.SORTED] or keys != shape.keys or has_length:
        raise _NotTogetherError
    return read


def _example(number: int, found: list[ColumnShape], rows: list[list[int]], columns: dict[int, int]) -> KryoObject:
    """Return an object of a column; ``columns`` are those of all objects in it."""
    shape, first, count = found[number], rows[number][kryo_objects.FIRST_COLUMN], rows[number][kryo_objects.COLUMNS]
    parts = [_example(part, found, rows, columns) for part in range(first, first + count)]
    example = KryoObject(shape.written, parts or ("a" if shape.written == "char" else 0))
    if shape.kind == shapes.STRUCT:
        example.content = dict(zip(shape.keys, parts, strict=True))
    elif shape.kind == shapes.HELD:
        example.content = {(shape.written, "value"): parts[0]}
    elif shape.kind == shapes.MAP:
        example.content = [tuple(parts)]
    columns[id(example)] = number
    return example


class _Filling:
    """The cells of all columns of a column."""

    def __init__(self, writing: ColumnWriting) -> None:
        self.writing = writing
        self.texts: list[Bytes] = []
        self.size = 0

    def fill(self, column: pa.Array) -> None:
        """Fill the cells from a column and the columns in it."""
        writing, arrays, cells = self.writing, [column], []
        for number, shape in enumerate(writing.shapes):
            array = arrays[number]
            each = np.zeros((len(array), 3), np.int64)
            each[:, 0] = 1 if shape.kind == shapes.HELD else valid_rows(array)
            arrays += self._parts(number, shape, array, each)
            cells.append(each)
            arrays[number] = None
        self.columns = writing.columns.copy()
        self.columns[:, kryo_objects.BASE] = np.cumsum([0, *map(len, cells)])[:-1]
        self.cells: Cells = np.concatenate(cells)
        self.data = np.concatenate([*self.texts, np.zeros(8, np.uint8)])

    def _parts(self, number: int, shape: ColumnShape, array: pa.Array, cells: Cells) -> list[pa.Array]:
        """Fill the cells of a column; return the columns of its parts."""
        kind = array.type
        if shape.kind == shapes.HELD:
            return [array]
        if shape.kind == shapes.STRUCT and pa.types.is_struct(kind) and kind.num_fields == len(shape.parts):
            return list(array.flatten())
        if shape.kind == shapes.LIST and pa.types.is_list(kind):
            counts, items = list_parts(array)
            cells[:, 1], cells[:, 2] = np.cumsum(counts) - counts, counts
            return [items]
        if shape.kind == shapes.MAP and pa.types.is_map(kind):
            counts, keys, values = map_parts(array)
            cells[:, 1], cells[:, 2] = np.cumsum(counts) - counts, counts
            return [keys, values]
        read = int(self.writing.columns[number, kryo_objects.HOW_READ])
        if not _fill_raw(read, array, cells):
            if kind != shape.arrow:
                raise _NotTogetherError
            self._fill_leaf(number, read, array, cells)
        return []

    def _fill_leaf(self, number: int, read: int, array: pa.Array, cells: Cells) -> None:
        kind = array.type
        if read == kinds.ENUM:
            places = pc.index_in(array, value_set=pa.array(self.writing.constants[number], pa.string()))
            cells[(cells[:, 0] == 1) & ~valid_rows(places), 0] = kryo_objects.LEFT_OUT
            cells[:, 1] = fixed_values(places, np.int32)
        elif read in _TEXTS:
            offsets, data = binary_parts(array)
            first, last = int(offsets[0]), int(offsets[-1])
            self.texts.append(data[first:last])
            cells[:, 1], cells[:, 2] = offsets[:-1] - first + self.size, np.diff(offsets)
            self.size += last - first
        elif pa.types.is_boolean(kind):
            cells[:, 1] = fixed_values(array.cast(pa.uint8()), np.uint8)
        elif read == kinds.FLOAT:
            bits = fixed_values(array, np.uint32)
            # A NaN that signals is made a quiet one on its way through other types.
            signals = ((bits & 0x7FC00000) == 0x7F800000) & ((bits & 0x3FFFFF) != 0)
            cells[signals & (cells[:, 0] == 1), 0] = kryo_objects.LEFT_OUT
            cells[:, 1] = bits
        elif read == kinds.BIG_INTEGER:
            halves = fixed_values(array, _HALVES)
            cells[:, 1], cells[:, 2] = halves["low"], halves["high"]
        elif read in (*_MOMENTS, kinds.MILLIS):
            unit = 1000 if read == kinds.MILLIS else 1_000_000
            cells[:, 1], rest = np.divmod(fixed_values(array, np.int64), unit)
            cells[:, 2] = rest * 1000
            if read == kinds.MILLIS:
                cells[(cells[:, 0] == 1) & (rest != 0), 0] = kryo_objects.LEFT_OUT
        else:
            cells[:, 1] = fixed_values(array, _WIDTHS[kind.bit_width])


def _fill_raw(read: int, array: pa.Array, cells: Cells) -> bool:
    """Fill cells with Flink's own numbers of a time, if the column has these (option ``timestamps=raw``)."""
    if read == kinds.MILLIS and pa.types.is_int64(array.type):
        cells[:, 1] = fixed_values(array, np.int64)
        return True
    if read not in _MOMENTS or array.type != MOMENT:
        return False
    for place, (part, width) in enumerate(zip(array.flatten(), (np.int64, np.int32), strict=True), 1):
        cells[(cells[:, 0] == 1) & ~valid_rows(part), 0] = kryo_objects.LEFT_OUT
        cells[:, place] = fixed_values(part, width)
    return True
