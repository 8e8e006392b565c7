"""Columns to operator state: elements of list and union states, entries of broadcast states.

Flink: ``PartitionableListState``, ``HeapBroadcastState``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Longs
from pyspark_savepoint.formats.errors import DuplicateKeyError, SavepointError
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.operator.operator_writer import OperatorStreamWriter
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor
from pyspark_savepoint.statebackends.model.sort_order import order_within
from pyspark_savepoint.statebackends.model.state_entries import encode_column


def add_elements(descriptor: OperatorStateDescriptor, column: pa.Array, writer: OperatorStreamWriter) -> None:
    """More elements of a list or union state, from a column of the element's Arrow type."""
    try:
        buffer, start, end = encode_column(descriptor.element, column)
    except SavepointError as error:
        raise error.with_facts(state=descriptor.name) from None
    writer.add_list(descriptor.name, buffer, np.concatenate([start, end[-1:]]))


def add_entries(
    descriptor: OperatorStateDescriptor, batches: Sequence[tuple[pa.Array, pa.Array]], writer: OperatorStreamWriter
) -> None:
    """The whole of a broadcast state, from columns of its keys and values; equal keys are refused."""
    if not sum(len(key) for key, _ in batches):
        writer.add_broadcast(descriptor.name, 0, np.zeros(0, np.uint8))
        return
    keys = pa.concat_arrays([key for key, _ in batches])
    values = pa.concat_arrays([value for _, value in batches])
    assert descriptor.key is not None
    try:
        sizes = descriptor.key.sizes(keys) + descriptor.element.sizes(values)
        end = np.cumsum(sizes)
        start = end - sizes
        at = Cursors(np.empty(int(end[-1]), np.uint8), start.copy(), end)
        descriptor.key.encode(keys, at)
        key_end = at.position.copy()
        descriptor.element.encode(values, at)
        at.expect_end()
    except SavepointError as error:
        raise error.with_facts(state=descriptor.name) from None
    repeated = _repeated(at.buffer, start, key_end)
    if repeated is not None:
        raise DuplicateKeyError(
            "a broadcast state has more than one value for a key",
            state=descriptor.name,
            expected="every key once",
            found=f"key {keys[repeated].as_py()!r} again",
            remedy="one row per key: aggregate, or drop duplicates (df.dropDuplicates) before writing",
        )
    writer.add_broadcast(descriptor.name, len(keys), at.buffer)


def _repeated(buffer: Bytes, start: Longs, end: Longs) -> int | None:
    """A row whose key has the bytes of another's."""
    from pyspark_savepoint.formats.kernels import keys

    order = order_within(np.array([0, len(start)], np.int64), buffer, start, end)
    found = keys.first_repeated_span(np.zeros(len(order), np.int32), read_only(buffer), start[order], end[order])
    return int(order[found]) if found >= 0 else None
