"""Values of a column that are read together by ``kernels/kryo_values.py``; all others are left to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    Flags,
    Longs,
    binary_array,
    bool_array,
    fixed_array,
    list_array,
    map_array,
    struct_array,
)
from pyspark_savepoint.formats.kernels import kryo_values as kernels
from pyspark_savepoint.formats.kernels import strings
from pyspark_savepoint.formats.serializers.kryo.objects import column_shapes as shapes
from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape
from pyspark_savepoint.formats.serializers.kryo.objects.uuid_columns import uuid_texts
from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import MAX_NAME, ValueTables
from pyspark_savepoint.formats.variant import VARIANT

#: Rows from which on it is faster to read values together: lists of lists are read in columns of a few rows.
MANY = 32
#: Nodes of the values that are in memory at once, and the most of one value.
FEW_NODES, MANY_NODES, MAX_NODES = 1 << 8, 1 << 16, 1 << 22
#: Places in columns that are in memory at once.
MANY_PLACES = 1 << 22
STATE = 16


@dataclass
class Trees:
    """Values of some rows as trees: ``roots`` are their places, from row ``first`` on."""

    tree: npt.NDArray[np.int64]
    roots: Longs
    first: int


@dataclass
class ValueReading:
    """The reading of the values of a column."""

    tables: ValueTables
    at: Cursors
    nodes: int = MANY_NODES

    def __post_init__(self) -> None:
        self.start = self.at.position.copy()
        self.state = np.zeros(STATE, np.int64)
        self.state[kernels.TRUNCATES] = self.at.options.timestamps == "truncate"
        self.frames = np.zeros((kernels.MAX_OPEN, 10), np.int64)
        self.seen = np.zeros(kernels.MAX_NAMES, np.int64)
        self._allocate(FEW_NODES if len(self.at) < 4 * MANY else self.nodes)

    def _allocate(self, nodes: int) -> None:
        self.tree = np.empty((nodes, 4), np.int64)
        self.objects = np.empty(3 * nodes + 3, np.int64)

    def trees(self) -> Iterator[Trees]:
        """Yield the trees of all rows; each is overwritten by the next."""
        at, tables, state = self.at, self.tables, self.state
        kryo = self.tables.form.version
        top = np.array([kernels.VALUE, -1, 0], np.int64)
        roots = np.empty(len(at), np.int64)
        first = row = 0
        state[kernels.USED] = 0
        while row < len(at):
            row = kernels.read_rows(
                *(kryo, tables.table, tables.parts, tables.types, tables.names, tables.texts, tables.ids, top),
                *(at.buffer, at.position, at.end, roots, row, self.tree, self.frames, self.seen, self.objects, state),
            )
            what = int(state[kernels.WHAT])
            if what == kernels.NO_ROOM and row == first:
                if len(self.tree) < MAX_NODES:
                    self._allocate(4 * len(self.tree))
                else:
                    roots[row] = kernels.LEFT_TO_CALLER
                    row += 1
                continue
            if what in (kernels.NEW_NAME, kernels.NEW_ID):
                if tables.is_full or (what == kernels.NEW_NAME and state[kernels.SIZE] > MAX_NAME):
                    roots[row] = kernels.LEFT_TO_CALLER
                    row += 1
                elif what == kernels.NEW_ID:
                    tables.add_id(int(state[kernels.AT]))
                    tables.update()
                else:
                    place, size = int(state[kernels.AT]), int(state[kernels.SIZE])
                    tables.add_name((at.buffer[place : place + size] & 0x7F).tobytes())
                    tables.update()
                if row < len(at):
                    continue
            yield Trees(self.tree, roots[first:row], first)
            first = row
            state[kernels.USED] = 0

    def give_up(self, rows: Flags | slice) -> None:
        """Leave rows to the caller, even if they were read."""
        self.at.position[rows] = self.start[rows]


def read_variants(tables: ValueTables, at: Cursors, most: int) -> tuple[Flags, pa.Array, int] | None:
    """Read what can be read together: whose rows, their variants, and the sum of the sizes of these.

    Cursors of these rows move past their values; those of all others stay. None if there are more bytes than ``most``.
    """
    reading = ValueReading(tables, at)
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


class VariantWriting:
    """The variants of rows, written by kernels."""

    def __init__(self, tables: ValueTables, buffer: Bytes, rows: int, most: int) -> None:
        self.tables = tables
        self.buffer = buffer
        self.most = most
        self.state = np.zeros(STATE, np.int64)
        self.values, self.metadata = (np.empty(min(most, 1 << 10) + 64 * rows, np.uint8) for _ in range(2))
        self.ends, self.metadata_ends = (np.zeros(rows + 1, np.int64) for _ in range(2))
        self.keys = np.zeros((kernels.MAX_KEYS, 3), np.int64)
        self.slots = np.zeros(kernels.SLOTS, np.int64)
        self.work = np.empty((0, 4), np.int64)

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return int(self.state[kernels.OUT] + self.state[kernels.METADATA])

    def write(self, tree: npt.NDArray[np.int64], roots: Longs, first: int) -> bool:
        """Write the variants of some rows, the next ones; return whether there are not too many bytes."""
        tables, row = self.tables, 0
        if len(self.work) < len(tree):
            self.work = np.empty((len(tree), 4), np.int64)
        rows = slice(first + 1, first + 1 + len(roots))
        while True:
            row = kernels.variant_rows(
                *(tables.table, tables.parts, tables.texts, self.buffer, tree, roots, row, self.values),
                *(self.ends[rows], self.metadata, self.metadata_ends[rows], self.work, self.keys, self.slots),
                self.state,
            )
            if self.size > self.most:
                return False
            if row == len(roots):
                return True
            if max(len(self.values), len(self.metadata)) > 4 * self.most + (1 << 20):
                return False
            self.values, self.metadata = (_doubled(array) for array in (self.values, self.metadata))

    def array(self, together: Flags, nulls: Flags) -> pa.Array:
        """Return the column of the rows that were written; ``nulls`` of all rows."""
        parts = []
        for ends, data in ((self.ends, self.values), (self.metadata_ends, self.metadata)):
            offsets = ends if together.all() else np.append(np.int64(0), ends[1:][together])
            parts.append(binary_array(pa.binary(), offsets, data[: int(ends[-1])].copy()))
        valid = ~nulls[together]
        return struct_array(VARIANT, parts, len(valid), valid)


def _doubled(array: Bytes) -> Bytes:
    more = np.empty(2 * len(array), np.uint8)
    more[: len(array)] = array
    return more


# -- columns -------------------------------------------------------------------------------------------------------

_LISTS = (kernels.COLLECTION, kernels.NO_NULLS, kernels.AS_LIST, kernels.EMPTY, kernels.SINGLETON)
_KINDS = {
    shapes.VARIANT: kernels.VARIANT,
    shapes.STRUCT: kernels.STRUCT,
    shapes.LIST: kernels.LIST,
    shapes.MAP: kernels.ENTRIES,
    shapes.HELD: kernels.HELD,
}
_NUMBERS = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.date32(): np.int32}


def read_column(
    shape: ColumnShape, tables: ValueTables, at: Cursors, whole: bool, most: int
) -> tuple[Flags, pa.Array, int]:
    """Read what can be read together: whose rows, their column, and about what it took of the room for columns.

    Cursors of these rows move past their values; those of all others stay. ``whole``: values end where their cursors
    do. ``most`` is the limit for the sizes of variants.
    """
    filling = ColumnFilling(shape, tables, at, most)
    # A null takes a place in each column that is in its own.
    reading = ValueReading(tables, at, max(FEW_NODES, min(MANY_NODES, MANY_PLACES // len(filling.shapes))))
    together: Flags = np.zeros(len(at), np.bool_)
    columns = []
    for trees in reading.trees():
        rows = slice(trees.first, trees.first + len(trees.roots))
        if whole:
            trees.roots[at.position[rows] != at.end[rows]] = kernels.LEFT_TO_CALLER
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
            rows.append([_KINDS.get(each.kind, kernels.SCALAR), number, len(members), len(each.parts)])
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
        kernels.fill_rows(*tables, np.zeros(len(self.shapes), np.int64), self.counts, nothing)
        while True:
            self.bases = np.cumsum(self.counts) - self.counts
            self.numbers = np.empty((int(self.counts.sum()) + 1, 3), np.int64)
            self.counts[:] = 0
            kernels.fill_rows(*tables, self.bases, self.counts, self.numbers)
            if self._write_variants(tree, roots):
                break
        self.size += len(self.numbers)
        return self._array(0)

    def _accepted(self, shape: ColumnShape) -> list[int]:
        """Return for each node whether a column holds its objects; 2 if constants of an enum."""
        form = self.tables.form
        accepted = []
        for name, row in zip(self.tables.classes, self.tables.table[:, kernels.KIND].tolist(), strict=True):
            good = row != kernels.OTHER and (not shape.classes or name in shape.classes)
            match shape.kind:
                case shapes.SCALAR:
                    good = good and row < kernels.CONTAINER
                case shapes.ENUM:
                    good = row == kernels.ENUM
                case shapes.LIST:
                    good = row in _LISTS
                case shapes.MAP:
                    good = row == kernels.MAP
                case shapes.HELD:
                    good = good and row == kernels.OPTIONAL
                case shapes.STRUCT:
                    good = good and row == kernels.FIELDS
                    good = good and tuple(each.key for each in form.classes.fields(name, form.version)) == shape.keys
                case shapes.OTHER:
                    good = False
            accepted.append((2 if row == kernels.ENUM else 1) if good else 0)
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
                places[:] = kernels.LEFT_TO_CALLER
            failed = valid & (places < 0)
            if failed.any():
                roots[rows[failed]] = kernels.LEFT_TO_CALLER
                possible = False
            self.variants[number] = writing, valid
        return possible

    def _array(self, number: int) -> pa.Array:
        """Return a column."""
        shape = self.shapes[number]
        first = int(self.columns[number, kernels.FIRST_PART])
        parts = [self._array(int(part)) for part in self.members[first : first + len(shape.parts)]]
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
        return self._scalars(shape, valid, numbers, more)

    def _scalars(self, shape: ColumnShape, valid: Flags, numbers: Longs, more: Longs) -> pa.Array:
        kind = shape.arrow
        if pa.types.is_boolean(kind):
            return bool_array(numbers == 1, valid)
        if pa.types.is_float32(kind):
            return fixed_array(kind, numbers.astype(np.uint32).view(np.float32), valid)
        if not pa.types.is_string(kind):
            return fixed_array(kind, numbers.astype(_NUMBERS.get(kind, np.int64)), valid)
        table = self.tables.table
        node = next(node for node, name in enumerate(self.tables.classes) if self.accepts[self._of(shape), node])
        what = int(table[node, kernels.KIND])
        if what == kernels.ENUM:
            return self._constants(valid, numbers, more)
        offsets = np.zeros(len(valid) + 1, np.int64)
        if what == kernels.UUID:
            texts = uuid_texts(numbers.view(np.uint64), more.view(np.uint64))
            return binary_array(kind, *_parts_of(texts), valid)
        if what == kernels.CHAR:
            data = np.empty(3 * len(valid), np.uint8)
            strings.units_to_utf8(np.where(valid, numbers, 0).astype(np.uint16), offsets, data)
        else:
            data = np.empty(3 * int((more[valid] >> 2).sum()) + 8, np.uint8)
            kernels.write_texts(self.at.buffer, valid, numbers, more, offsets, data)
        return binary_array(kind, offsets, data[: int(offsets[-1])].copy(), valid)

    def _of(self, shape: ColumnShape) -> int:
        return next(number for number, each in enumerate(self.shapes) if each is shape)

    def _constants(self, valid: Flags, ordinals: Longs, nodes: Longs) -> pa.Array:
        """Return the names of constants of enums."""
        parts = self.tables.parts
        places = np.where(valid, self.tables.table[np.where(valid, nodes, 0), kernels.FIRST] + ordinals, -1)
        known, index = np.unique(places, return_inverse=True)
        names = [
            None if place < 0 else self.tables.texts[start : start + size].tobytes().decode()
            for place, (start, size) in zip(known.tolist(), parts[known, kernels.KEY : kernels.KEY + 2], strict=True)
        ]
        return pa.array(names, pa.string()).take(pa.array(index.ravel()))


def _parts_of(texts: pa.Array) -> tuple[Longs, Bytes]:
    _, offsets, data = texts.buffers()
    return np.frombuffer(offsets, np.int32)[: len(texts) + 1].astype(np.int64), np.frombuffer(data, np.uint8)
