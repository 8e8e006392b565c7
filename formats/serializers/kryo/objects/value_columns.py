"""Values of a column that are read together by ``kernels/kryo_values.py``; all others are left to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Flags, Longs, binary_array, struct_array
from pyspark_savepoint.formats.kernels import kryo_values as kernels
from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables
from pyspark_savepoint.formats.variant import VARIANT

#: Rows from which on it is faster to read values together: lists of lists are read in columns of a few rows.
MANY = 32
#: Nodes of the values that are in memory at once, and the most of one value.
FEW_NODES, MANY_NODES, MAX_NODES = 1 << 8, 1 << 16, 1 << 22
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

    def __post_init__(self) -> None:
        self.start = self.at.position.copy()
        self.state = np.zeros(STATE, np.int64)
        self.state[kernels.TRUNCATES] = self.at.options.timestamps == "truncate"
        self.frames = np.zeros((kernels.MAX_OPEN, 10), np.int64)
        self.seen = np.zeros(kernels.MAX_NAMES, np.int64)
        self._allocate(FEW_NODES if len(self.at) < 4 * MANY else MANY_NODES)

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
                if tables.is_full:
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
