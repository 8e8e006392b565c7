"""Replay of change units in bounded memory: units are partitioned by key on local disk and replayed part by part.

All units of a key are in one part, in the order of the log, so each part can be replayed on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Bytes, Longs, Origin, binary_array, binary_parts
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.keyed.changelog import not_replayed
from pyspark_savepoint.formats.keyed.key_partitions import KeyedRows, KeyPartitions
from pyspark_savepoint.formats.keyed.keyed_block import PARTS, SCHEMA, KeyedBlock, binary_column, block_of
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.statebackends.sources.changelog.entries import UNIT, UNITS


class Replay:
    """Context manager that collects all units of some keys and replays them as ``blocks``, then removes its files."""

    def __init__(self, template: KeyedBlock, block_bytes: int) -> None:
        self.template = template
        self.block_bytes = block_bytes
        self.waiting: list[pa.RecordBatch] = []
        self.size = 0
        self.divided: KeyPartitions | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.divided is not None:
            self.divided.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add units, in the order of the log."""
        if self.divided is not None:
            self.divided.add(_keyed(batch))
            return
        self.waiting.append(batch)
        self.size += batch.nbytes
        if self.size > self.block_bytes:
            size = self.block_bytes
            self.divided = KeyPartitions(UNITS, _keyed, piece=size, limit=size, held=size)
            for each in self.waiting:
                self.divided.add(_keyed(each))
            self.waiting = []

    def blocks(self) -> Iterator[KeyedBlock]:
        """Yield the remaining entries as complete blocks."""
        for (units,) in self.divided.pieces() if self.divided is not None else [[self.waiting]]:
            yield from replayed(units, self.template)


def _keyed(batch: pa.RecordBatch) -> KeyedRows:
    offsets, data = binary_parts(batch.column("key"))
    return KeyedRows(_owned(data), offsets[:-1].copy(), offsets[1:].copy(), lambda rows: batch.take(pa.array(rows)))


def _owned(data: Bytes) -> Bytes:
    """Return writable bytes, which the kernels' signatures require although they do not write."""
    return data if data.flags.writeable else data.copy()


def replayed(batches: Sequence[pa.RecordBatch], template: KeyedBlock) -> Iterator[KeyedBlock]:
    """Replay units in order: yield one block of the remaining entries, or none."""
    table = pa.Table.from_batches(batches, UNITS)
    if table.num_rows:
        left = _Cells(table, template).left()
        if left.num_rows:
            yield block_of([left], template)


class _Cells:
    """Units, and the value (cell) that each belongs to."""

    def __init__(self, table: pa.Table, template: KeyedBlock) -> None:
        self.template = template
        self.state = np.array(table.column("state"), np.int32)
        self.key_group = np.array(table.column("key_group"), np.int32)
        self.unit = np.array(table.column(UNIT), np.int8)
        self.offsets: dict[str, Longs] = {}
        self.data: dict[str, Bytes] = {}
        for part in PARTS:
            column = table.column(part).cast(pa.large_binary()).combine_chunks()
            offsets, data = binary_parts(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
            self.offsets[part], self.data[part] = offsets, _owned(data)

    def _number(self, buffer: Bytes, start: Longs, end: Longs) -> tuple[Any, Longs]:
        """Number the spans so that equal ones share a number; return the numbers and the first unit of each."""
        from pyspark_savepoint.formats.kernels import frames, hashing

        n = len(start)
        number, first = np.empty(n, np.int32), np.empty(n, np.int64)
        table = np.empty(1 << max(4, (2 * n).bit_length()), np.int32)
        bounds = np.zeros(1, np.int64), np.full(1, n, np.int64)
        count = frames.hash_rows(buffer, start, end, *bounds, 0, number, first, table, hashing.SECRET)
        return number, first[:count]

    def left(self) -> pa.RecordBatch:
        """Return the entries that remain, without their units."""
        from pyspark_savepoint.formats.kernels import changelog

        n = len(self.unit)
        sizes = np.full(n, changelog.HEAD, np.int64)
        for part in ("key", "namespace", "user"):
            sizes += np.diff(self.offsets[part])
        end = np.cumsum(sizes)
        start, row_end = end - sizes, np.empty(n, np.int64)
        names = np.empty(int(end[-1]), np.uint8)
        key, namespace, user = ((self.offsets[part], self.data[part]) for part in ("key", "namespace", "user"))
        changelog.identities(self.state, *key, *namespace, *user, start, names, row_end)
        cell, first = self._number(names, start, end)
        clears = bool(np.any(self.unit == changelog.CLEAR))
        row, rows = self._number(names, start, row_end) if clears else (np.zeros(n, np.int32), first[:1])
        head, tail, last = (np.full(len(first), -1, np.int64) for _ in range(3))
        torn = np.zeros(len(first), np.bool_)
        following, cleared = np.full(n, -1, np.int64), np.full(len(rows), -1, np.int64)
        lists = [i for i, meta in enumerate(self.template.states) if meta.state_type == "LIST"]
        changelog.replay(self.unit, cell, row, np.isin(self.state, lists), head, tail, last, following, cleared, torn)
        alive = (head >= 0) & (last > cleared[row[first]])
        self._refuse_torn(first[alive & torn])
        return self._entries(first[alive], head[alive], following)

    def _refuse_torn(self, units: Longs) -> None:
        if len(units):
            meta = self.template.states[int(self.state[units[0]])]
            raise _torn(meta, self.template.origin)

    def _entries(self, first: Longs, head: Longs, following: Longs) -> pa.RecordBatch:
        from pyspark_savepoint.formats.kernels import changelog

        sizes = np.empty(len(head), np.int64)
        changelog.chain_sizes(head, following, self.offsets["value"], sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        values = np.empty(int(offsets[-1]), np.uint8)
        changelog.join_chains(head, following, self.offsets["value"], self.data["value"], offsets[:-1].copy(), values)
        columns = [pa.array(self.state[first]), pa.array(self.key_group[first])]
        for part in PARTS[:-1]:
            columns.append(binary_column(self.data[part], self.offsets[part][first], self.offsets[part][first + 1]))
        columns.append(binary_array(pa.binary(), offsets, values))
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _torn(meta: StateMetaInfoSnapshot, origin: Origin) -> UnsupportedStateError:
    return not_replayed(
        f"windows of state {meta.name!r} were merged, and only the job's own function can merge their values",
        origin.path,
        origin.operator,
        state=meta.name,
        found=f"{meta.state_type} values of two namespaces",
    )


def of_key_groups(table: pa.Table, key_groups: Sequence[int]) -> list[pa.RecordBatch]:
    """Return the units of some key groups, in order."""
    chosen: Any = pc.is_in(table.column("key_group"), value_set=pa.array(key_groups, pa.int32()))
    return [batch for batch in table.filter(chosen).to_batches() if batch.num_rows]
