"""Columns of variants, made together of trees of numbers (``kernels/kryo_columns.py``)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Flags, Longs, binary_array, doubled, struct_array
from pyspark_savepoint.formats.kernels import kryo_columns, kryo_kinds
from pyspark_savepoint.formats.variant import VARIANT


class Tables(Protocol):
    """What the nodes of trees are: see ``kernels/kryo_values.py``."""

    table: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]
    texts: Bytes


class VariantWriting:
    """The variants of the trees of rows, written by a kernel."""

    def __init__(self, tables: Tables, buffer: Bytes, rows: int, most: int) -> None:
        self.tables = tables
        self.buffer = buffer
        self.most = most
        self.state = np.zeros(kryo_kinds.STATE, np.int64)
        self.values, self.metadata = (np.empty(min(most, 1 << 10) + 64 * rows, np.uint8) for _ in range(2))
        self.ends, self.metadata_ends = (np.zeros(rows + 1, np.int64) for _ in range(2))
        self.keys = np.zeros((kryo_kinds.MAX_KEYS, 3), np.int64)
        self.slots = np.zeros(kryo_kinds.SLOTS, np.int64)
        self.work = np.empty((0, 4), np.int64)

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return int(self.state[kryo_kinds.OUT] + self.state[kryo_kinds.METADATA])

    def write(self, tree: npt.NDArray[np.int64], roots: Longs, first: int) -> bool:
        """Write the variants of some rows, the next ones; return whether there are not too many bytes."""
        tables, row = self.tables, 0
        if len(self.work) < len(tree):
            self.work = np.empty((len(tree), 4), np.int64)
        rows = slice(first + 1, first + 1 + len(roots))
        while True:
            row = kryo_columns.variant_rows(
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
            self.values, self.metadata = (doubled(array) for array in (self.values, self.metadata))

    def array(self, together: Flags, nulls: Flags) -> pa.Array:
        """Return the column of the rows that were written; ``nulls`` of all rows."""
        parts = []
        for ends, data in ((self.ends, self.values), (self.metadata_ends, self.metadata)):
            offsets = ends if together.all() else np.append(np.int64(0), ends[1:][together])
            parts.append(binary_array(pa.binary(), offsets, data[: int(ends[-1])].copy()))
        valid = ~nulls[together]
        return struct_array(VARIANT, parts, len(valid), valid)
