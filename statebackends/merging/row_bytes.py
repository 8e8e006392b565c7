"""Bytes of rows: equal for equal rows and for no others, whatever their types.

::

    row   := Value for each column
    Value := 00, or 01 and: the bytes of a number, time or decimal; i64 length and bytes; the values of a struct's
             fields; i64 count and elements. Entries of maps are in the order of their bytes: a map has none of its own.

Nulls have as many bytes as other values of a type of fixed width, zeros. Numbers are compared by their bits: NaNs of
the same bits are equal (Java writes them all alike), and -0.0 is not 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Bytes, Flags, Longs, binary_parts
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk

#: What joined parts have between them; made of buffers, for making it of a value would import pandas.
NOTHING = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])[0]


def row_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes of the rows of some columns, as large binary without nulls."""
    return _joined([_encoded(column) for column in columns])


def chunk_of_rows(columns: Sequence[pa.Array], first: int) -> EntryChunk:
    """Return rows as entries without values, whose key groups are the numbers of the rows from ``first`` on."""
    offsets, data = binary_parts(row_bytes(columns))
    buffer, rows = read_only(data), len(offsets) - 1
    numbers = np.arange(first, first + rows, dtype=np.int32)
    start, end = offsets[:-1], offsets[1:]
    return EntryChunk(buffer, buffer, np.zeros(rows, np.int32), numbers, start, end, start, start, start, end)


def _encoded(array: pa.Array) -> pa.Array:
    kind, rows = array.type, len(array)
    valid = np.asarray(array.is_valid()) if array.null_count else np.ones(rows, np.bool_)
    if pa.types.is_null(kind):
        return _fixed(np.zeros((rows, 1), np.uint8))
    if pa.types.is_struct(kind):
        return _joined([_fixed(_flags(valid)), *(_encoded(child) for child in array.flatten())])
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _elements(array, valid)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _sized(valid, np.diff(binary_parts(array)[0]), array.cast(pa.binary()).cast(pa.large_binary()))
    if pa.types.is_boolean(kind):
        return _encoded(array.cast(pa.uint8()))
    try:
        width = kind.bit_width // 8
    except ValueError:
        raise UnsupportedStateError("rows with this type cannot be compared", found=str(kind)) from None
    values = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width : (array.offset + rows) * width]
    matrix = np.concatenate([_flags(valid), values.reshape(rows, width)], axis=1)
    matrix[~valid] = 0
    return _fixed(matrix)


def _elements(array: pa.Array, valid: Flags) -> pa.Array:
    """Return the bytes of lists or maps."""
    offsets = np.frombuffer(array.buffers()[1] or b"\0" * 4, np.int32)[array.offset : array.offset + len(array) + 1]
    counts = np.where(valid, np.diff(offsets), 0).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.repeat(np.arange(len(array)), counts)
    # Null lists may have elements, and slices others before and after them.
    inner = pa.array(offsets[:-1].astype(np.int64)[rows] + np.arange(len(rows)) - bounds[:-1][rows])
    if pa.types.is_map(array.type):
        encoded = _joined([_encoded(child.take(inner)) for child in (array.keys, array.items)])
        order = pc.sort_indices(
            pa.table({"row": rows, "entry": encoded}), sort_keys=[("row", "ascending"), ("entry", "ascending")]
        )
        encoded = encoded.take(order)
    else:
        encoded = _encoded(array.values.take(inner))
    places, data = binary_parts(encoded)
    parts = pa.Array.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(places[bounds].copy()), pa.py_buffer(data)]
    )
    return _sized(valid, counts, parts)


def _sized(valid: Flags, sizes: Longs, parts: pa.Array) -> pa.Array:
    """Return flags, sizes and bytes of some values, joined."""
    length_bytes = np.where(valid, sizes, 0).astype(np.int64).view(np.uint8).reshape(len(valid), 8)
    return _joined([_fixed(np.concatenate([_flags(valid), length_bytes], axis=1)), parts])


def _flags(valid: Flags) -> Bytes:
    return valid.astype(np.uint8)[:, None]


def _fixed(matrix: Bytes) -> pa.Array:
    """Return each row of a matrix as bytes."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), data])


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, NOTHING, null_handling="replace", null_replacement="")
