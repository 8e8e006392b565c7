"""Plain pickles of a column, read together as variants; ``pickle_walker.py`` reads all others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Flags, spans_of, valid_rows
from pyspark_savepoint.formats.kernels import kryo_columns, one_by_one, pickles
from pyspark_savepoint.formats.kernels import kryo_kinds as kinds
from pyspark_savepoint.formats.variant_columns import VariantWriting

#: Nodes of the values that are in memory at once, values of a pickle that are on its stack, and in its memo.
MANY_NODES, MAX_NODES, MAX_STACK, MAX_MEMO = 1 << 16, 1 << 20, 4096, 4096
_KINDS = {
    pickles.STRING: kinds.TEXT,
    pickles.NUMBER: kinds.LONG,
    pickles.REAL: kinds.DOUBLE,
    pickles.FLAG: kinds.BOOLEAN,
    pickles.BINARY: kinds.BYTES,
    pickles.DICT: kinds.MAP,
    pickles.LIST: kinds.COLLECTION,
    pickles.TUPLE: kinds.COLLECTION,
}


class _Tables:
    """The kinds of the nodes, and what the parts of a dict's entries are called whose keys are no strings."""

    table: npt.NDArray[np.int64] = np.zeros((pickles.NODES, 8), np.int64)
    parts: npt.NDArray[np.int64] = np.array([[0, 0, 0, 0, 0, 3], [0, 0, 0, 1, 3, 5]], np.int64)
    texts: Bytes = np.frombuffer(bytearray(b"keyvalue"), np.uint8)


for _node, _kind in _KINDS.items():
    _Tables.table[_node, kinds.KIND] = _kind


def rows_one_by_one(rows: int) -> Iterator[slice]:
    """Yield the first rows that are to be read one by one, since that takes less than compiling."""
    return one_by_one.rows_one_by_one(rows, pickles.read_pickles, kryo_columns.variant_rows)


def read_together(column: pa.Array, framed: bool, most: int) -> tuple[Flags, pa.Array]:
    """Return which rows were read, null rows too, and their variants; ``most`` is the limit for the sizes of these.

    ``framed``: the length of a pickle may be before it.
    """
    buffer, start, end = spans_of(column)
    count, row = len(column), 0
    tree, roots = np.empty((MANY_NODES, 4), np.int64), np.empty(count, np.int64)
    stack, memo = np.empty(MAX_STACK, np.int64), np.empty(MAX_MEMO, np.int64)
    writing = VariantWriting(_Tables(), buffer, count, most)
    nulls = ~valid_rows(column)
    together = np.zeros(count, np.bool_)
    while row < count:
        first = row
        row = pickles.read_pickles(framed, buffer, start, end, first, tree, roots, stack, memo)
        if row == first:
            if len(tree) < MAX_NODES:
                tree = np.empty((4 * len(tree), 4), np.int64)
                continue
            roots[row] = kinds.LEFT_TO_CALLER
            row += 1
        roots[first:row][nulls[first:row]] = kinds.LEFT_TO_CALLER
        if not writing.write(tree, roots[first:row], first):
            return np.zeros(count, np.bool_), None
        together[first:row] = roots[first:row] >= 0
    together |= nulls
    return together, writing.array(together, nulls)
