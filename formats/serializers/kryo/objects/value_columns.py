"""Values of a column that are read together by ``kernels/kryo_values.py``; all others are left to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    Flags,
    Longs,
    binary_array,
    bool_array,
    doubled,
    fixed_array,
    list_array,
    map_array,
    struct_array,
)
from pyspark_savepoint.formats.kernels import kryo_columns, kryo_kinds, kryo_values
from pyspark_savepoint.formats.kernels.one_by_one import rows_one_by_one
from pyspark_savepoint.formats.serializers.kryo.objects import column_shapes as shapes
from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape
from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import MAX_NAME, ValueTables
from pyspark_savepoint.formats.variant_columns import VariantWriting

#: Rows from which on it is faster to read values together: lists of lists are read in columns of a few rows.
MANY = 32
#: Nodes of the values that are in memory at once, and the most of one value.
FEW_NODES, MANY_NODES, MAX_NODES = 1 << 8, 1 << 16, 1 << 22
#: Places in columns that are in memory at once.
MANY_PLACES = 1 << 22


@dataclass
class Trees:
    """Values of some rows as trees: ``roots`` are their places, from row ``first`` on."""

    tree: npt.NDArray[np.int64]
    roots: Longs
    first: int


@dataclass
class ValueReading:
    """The reading of the values of a column, from a row on: those before it are the caller's."""

    tables: ValueTables
    at: Cursors
    first: int
    nodes: int = MANY_NODES

    def __post_init__(self) -> None:
        self.start = self.at.position.copy()
        self.state = np.zeros(kryo_kinds.STATE, np.int64)
        self.state[kryo_kinds.TRUNCATES] = self.at.options.timestamps == "truncate"
        self.frames = np.zeros((kryo_kinds.MAX_OPEN, 11), np.int64)
        self.seen = np.zeros(kryo_kinds.MAX_NAMES, np.int64)
        self._allocate(FEW_NODES if len(self.at) < 4 * MANY else self.nodes)

    def _allocate(self, nodes: int) -> None:
        self.tree = np.empty((nodes, 4), np.int64)
        self.objects = np.empty(8 * nodes + 8, np.int64)

    def trees(self) -> Iterator[Trees]:
        """Yield the trees of the rows; each is overwritten by the next."""
        at, tables, state = self.at, self.tables, self.state
        kryo = self.tables.form.version
        top = np.array([kryo_kinds.VALUE, -1, 0], np.int64)
        roots = np.empty(len(at), np.int64)
        first = row = self.first
        state[kryo_kinds.USED] = 0
        while row < len(at):
            row = kryo_values.read_rows(
                *(kryo, tables.table, tables.parts, tables.types, tables.names, tables.texts, tables.ids),
                *(tables.zones, tables.offsets, tables.zone_texts, top),
                *(at.buffer, at.position, at.end, roots, row, self.tree, self.frames, self.seen, self.objects, state),
            )
            what = int(state[kryo_kinds.WHAT])
            if what == kryo_kinds.NO_ROOM and row == first:
                if len(self.tree) < MAX_NODES:
                    self._allocate(4 * len(self.tree))
                else:
                    roots[row] = kryo_kinds.LEFT_TO_CALLER
                    row += 1
                continue
            if what == kryo_kinds.NEW_ZONE:
                if tables.add_zone(self._name(), int(state[kryo_kinds.YEARS])):
                    continue
                roots[row] = kryo_kinds.LEFT_TO_CALLER
                row += 1
            if what in (kryo_kinds.NEW_NAME, kryo_kinds.NEW_ID):
                if tables.is_full or (what == kryo_kinds.NEW_NAME and state[kryo_kinds.SIZE] > MAX_NAME):
                    roots[row] = kryo_kinds.LEFT_TO_CALLER
                    row += 1
                elif what == kryo_kinds.NEW_ID:
                    tables.add_id(int(state[kryo_kinds.AT]))
                    tables.update()
                else:
                    tables.add_name(self._name())
                    tables.update()
                if row < len(at):
                    continue
            yield Trees(self.tree, roots[first:row], first)
            first = row
            state[kryo_kinds.USED] = 0

    def _name(self) -> bytes:
        place, size = int(self.state[kryo_kinds.AT]), int(self.state[kryo_kinds.SIZE])
        return (self.at.buffer[place : place + size] & 0x7F).tobytes()

    def give_up(self, rows: Flags | slice) -> None:
        """Leave rows to the caller, even if they were read."""
        self.at.position[rows] = self.start[rows]


def variants_one_by_one(rows: int) -> Iterator[slice]:
    """Yield the first rows that are to be read one by one, since that takes less than compiling."""
    return rows_one_by_one(rows, kryo_values.read_rows, kryo_columns.variant_rows)


def column_one_by_one(rows: int) -> Iterator[slice]:
    """Yield the first rows that are to be read one by one, since that takes less than compiling."""
    return rows_one_by_one(rows, kryo_values.read_rows, kryo_columns.fill_rows)


def read_variants(tables: ValueTables, at: Cursors, most: int, first: int = 0) -> tuple[Flags, pa.Array, int] | None:
    """Read what can be read together from a row on: whose rows, their variants, and the sum of the sizes of these.

    Cursors of these rows move past their values; those of all others stay. None if there are more bytes than ``most``.
    """
    reading = ValueReading(tables, at, first)
    writing = VariantWriting(tables, at.buffer, len(at), most)
    together: Flags = np.zeros(len(at), np.bool_)
    nulls: Flags = np.zeros(len(at), np.bool_)
    for trees in reading.trees():
        if not writing.write(trees.tree, trees.roots, trees.first):
            reading.give_up(slice(None))
            return None
        rows = slice(trees.first, trees.first + len(trees.roots))
        read = trees.roots >= 0
        together[rows] = read
        nulls[rows][read] = trees.tree[trees.roots[read], 0] < 0
    reading.give_up(~together)
    return together, writing.array(together, nulls), writing.size


# -- columns -------------------------------------------------------------------------------------------------------

_LISTS = (kryo_kinds.COLLECTION, kryo_kinds.NO_NULLS, kryo_kinds.AS_LIST, kryo_kinds.EMPTY, kryo_kinds.SINGLETON)
_KINDS = {
    shapes.TEXT: kryo_columns.PLACES,
    shapes.ENUM: kryo_columns.PLACES,
    shapes.BIG: kryo_columns.PLACES,
    shapes.VARIANT: kryo_columns.VARIANT,
    shapes.STRUCT: kryo_columns.STRUCT,
    shapes.LIST: kryo_columns.LIST,
    shapes.MAP: kryo_columns.ENTRIES,
    shapes.HELD: kryo_columns.HELD,
}
_NUMBERS = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.date32(): np.int32}


def read_column(
    shape: ColumnShape, tables: ValueTables, at: Cursors, whole: bool, most: int, first: int = 0
) -> tuple[Flags, pa.Array, int]:
    """Read what can be read together from a row on: whose rows, their column, about what it took of the room.

    Cursors of these rows move past their values; those of all others stay. ``whole``: values end where their cursors
    do. ``most`` is the limit for the sizes of variants.
    """
    filling = ColumnFilling(shape, tables, at, most)
    # A null takes a place in each column that is in its own.
    reading = ValueReading(tables, at, first, max(FEW_NODES, min(MANY_NODES, MANY_PLACES // len(filling.shapes))))
    together: Flags = np.zeros(len(at), np.bool_)
    columns = []
    for trees in reading.trees():
        rows = slice(trees.first, trees.first + len(trees.roots))
        if whole:
            trees.roots[at.position[rows] != at.end[rows]] = kryo_kinds.LEFT_TO_CALLER
        columns.append(filling.column(trees.tree, trees.roots))
        together[rows] = trees.roots >= 0
    reading.give_up(~together)
    return together, pa.concat_arrays(columns) if len(columns) > 1 else columns[0], filling.size


class ColumnFilling:
    """Columns of the trees of some rows."""

    def __init__(self, shape: ColumnShape, tables: ValueTables, at: Cursors, most: int) -> None:
        self.most = most
        self.tables = tables
        self.at = at
        self.size = 0
        #: The columns by their numbers; the parts of each have numbers that follow one another in ``members``.
        self.shapes = [shape]
        rows: list[list[int]] = []
        members: list[int] = []
        for number, each in enumerate(self.shapes):
            rows.append([_KINDS.get(each.kind, kryo_columns.SCALAR), number, len(members), len(each.parts)])
            members += range(len(self.shapes), len(self.shapes) + len(each.parts))
            self.shapes += each.parts
        self.columns, self.members = np.array(rows, np.int64), np.array([*members, 0], np.int64)
        self.accepts = np.zeros((0, 0), np.uint8)
        self.variants: dict[int, tuple[VariantWriting, Flags]] = {}

    def column(self, tree: npt.NDArray[np.int64], roots: Longs) -> pa.Array:
        """Return the column of some rows; roots of rows that are not in it become LEFT_TO_CALLER."""
        if self.accepts.shape[1] < len(self.tables.table):
            self.accepts = np.array([self._accepted(shape) for shape in self.shapes], np.uint8)
        tables = (self.columns, self.members, self.accepts, tree, roots)
        self.counts = np.zeros(len(self.shapes), np.int64)
        nothing = np.zeros((0, 3), np.int64)
        kryo_columns.fill_rows(*tables, np.zeros(len(self.shapes), np.int64), self.counts, nothing)
        while True:
            self.bases = np.cumsum(self.counts) - self.counts
            self.numbers = np.empty((int(self.counts.sum()) + 1, 3), np.int64)
            self.counts[:] = 0
            kryo_columns.fill_rows(*tables, self.bases, self.counts, self.numbers)
            if self._write_variants(tree, roots):
                break
        self.size += len(self.numbers)
        return self._array(0, tree)

    def _accepted(self, shape: ColumnShape) -> list[int]:
        """Return for each node whether a column holds its objects; 2 if constants of an enum."""
        form = self.tables.form
        accepted = []
        micros = pa.types.is_duration(shape.arrow) and self.at.options.timestamps != "truncate"
        for name, row in zip(self.tables.classes, self.tables.table.tolist(), strict=True):
            kind, read = row[kryo_kinds.KIND], row[kryo_kinds.READ]
            good = kind != kryo_kinds.OTHER and (not shape.classes or name in shape.classes)
            match shape.kind:
                case shapes.SCALAR | shapes.TEXT:
                    good = good and kind < kryo_kinds.CONTAINER
                case shapes.BIG:
                    good = good and kind == kryo_kinds.BIG_INTEGER
                case shapes.ENUM:
                    good = kind == kryo_kinds.ENUM
                case shapes.LIST:
                    good = good and kind in _LISTS
                    if read in (kryo_kinds.PRIMITIVES, kryo_kinds.BITS):
                        good = good and bool(shape.classes)
                    if read == kryo_kinds.ENUM_SET:
                        good = good and shape.parts[0].kind in (shapes.ENUM, shapes.TEXT)
                case shapes.MAP:
                    good = kind == kryo_kinds.MAP
                case shapes.HELD:
                    good = good and kind == kryo_kinds.OPTIONAL
                case shapes.STRUCT:
                    good = good and kind == kryo_kinds.FIELDS
                    if shape.keys:
                        good = (
                            good and tuple(each.key for each in form.classes.fields(name, form.version)) == shape.keys
                        )
                case shapes.OTHER:
                    good = False
            accepted.append((kryo_columns.WHOLE_MICROS if micros else kryo_columns.ACCEPTED) if good else 0)
        return accepted

    def _slot(self, number: int) -> tuple[Flags, Longs, Longs]:
        start = int(self.bases[number])
        slot = self.numbers[start : start + int(self.counts[number])]
        return slot[:, 0] == 1, np.ascontiguousarray(slot[:, 1]), np.ascontiguousarray(slot[:, 2])

    def _write_variants(self, tree: npt.NDArray[np.int64], roots: Longs) -> bool:
        """Write the variants; return whether that was possible: if not, some rows are left to the caller."""
        possible = True
        for number, shape in enumerate(self.shapes):
            if shape.kind != shapes.VARIANT:
                continue
            valid, places, rows = self._slot(number)
            writing = VariantWriting(self.tables, self.at.buffer, len(places), self.most - self.size)
            if not writing.write(tree, places, 0):
                places[:] = kryo_kinds.LEFT_TO_CALLER
            failed = valid & (places < 0)
            if failed.any():
                roots[rows[failed]] = kryo_kinds.LEFT_TO_CALLER
                possible = False
            self.variants[number] = writing, valid
        return possible

    def _array(self, number: int, tree: npt.NDArray[np.int64]) -> pa.Array:
        """Return a column."""
        shape = self.shapes[number]
        first = int(self.columns[number, kryo_columns.FIRST_PART])
        parts = [self._array(int(part), tree) for part in self.members[first : first + len(shape.parts)]]
        if shape.kind == shapes.HELD:
            return parts[0]
        valid, numbers, more = self._slot(number)
        match shape.kind:
            case shapes.STRUCT:
                return struct_array(shape.arrow, parts, len(valid), valid)
            case shapes.LIST:
                return list_array(shape.arrow, numbers, parts[0], valid)
            case shapes.MAP:
                return map_array(shape.arrow, numbers // 2, parts[0], parts[1], valid)
            case shapes.VARIANT:
                writing, _ = self.variants[number]
                self.size += writing.size
                return writing.array(np.ones(len(valid), np.bool_), ~valid)
        if not valid.any():
            return pa.nulls(len(valid), shape.arrow)
        match shape.kind:
            case shapes.TEXT | shapes.ENUM:
                return self._texts(shape.arrow, tree, valid, numbers)
            case shapes.BIG:
                words = np.empty((len(valid), 2), np.uint64)
                kryo_columns.big_rows(self.at.buffer, tree, valid, numbers, words)
                return fixed_array(shape.arrow, words, valid)
        return _scalars(shape.arrow, valid, numbers, more)

    def _texts(self, arrow: pa.DataType, tree: npt.NDArray[np.int64], valid: Flags, places: Longs) -> pa.Array:
        """Return strings or bytes."""
        tables, row = self.tables, 0
        offsets, data = np.zeros(len(valid) + 1, np.int64), np.empty(1024 + 48 * len(valid), np.uint8)
        while True:
            row = kryo_columns.text_rows(
                *(tables.table, tables.parts, tables.texts, self.at.buffer, tree, valid, places, row, data, offsets)
            )
            if row == len(valid):
                return binary_array(arrow, offsets, data[: int(offsets[-1])].copy(), valid)
            data = doubled(data)


def _scalars(kind: pa.DataType, valid: Flags, numbers: Longs, more: Longs) -> pa.Array:
    """Return numbers, and what numbers stand for."""
    if pa.types.is_boolean(kind):
        return bool_array(numbers == 1, valid)
    if pa.types.is_float32(kind):
        return fixed_array(kind, numbers.astype(np.uint32).view(np.float32), valid)
    if pa.types.is_struct(kind):
        parts = [_scalars(field.type, valid, each, each) for field, each in zip(kind, (numbers, more), strict=True)]
        return struct_array(kind, parts, len(valid), valid)
    if pa.types.is_duration(kind):
        numbers = np.where(valid, numbers * 1_000_000 + more // 1000, 0)
    return fixed_array(kind, numbers.astype(_NUMBERS.get(kind, np.int64)), valid)
