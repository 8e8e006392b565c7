"""Table ``heaviest_keys``: the keys (and windows) of every state that take the most bytes.

Entries of one key and window are adjacent in every format, so one pass over their lengths finds them. Only the keys
that are shown are decoded, to JSON that option ``keys`` accepts. Every partition of the key groups has its own ``top``
keys: the heaviest of all are the first in the order of ``bytes``.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.io.byte_source import Read
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, binary_column
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.python.python_state import display_keys, is_python, name_of, unwrapped
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.json_values import to_json
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit, is_key_value, table_of
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedStream
from pyspark_savepoint.statebackends.surveys.sizes import (
    entry_bytes,
    entry_counts,
    keyed_parts,
    requested_states,
)
from pyspark_savepoint.statebackends.surveys.survey import STATE_FIELDS, Row, Surveyed, SurveyPart

SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field(
            "key", pa.string(), metadata={b"comment": b"JSON, as option keys takes it; undecodable ones as bytes"}
        ),
        pa.field("window", pa.string(), metadata={b"comment": b"JSON"}),
        pa.field("key_group", pa.int32()),
        pa.field("subtask", pa.int32()),
        pa.field("entries", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("note", pa.string()),
    ]
)


def plan_heaviest_keys(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Sequence[tuple[Surveyed, SurveyPart]]:
    """Return the key groups of an operator in ``count`` parts."""
    parts = keyed_parts(savepoint, operator, request, count)
    return [(part.operator, HeaviestKeys(part.operator, part.split)) for part in parts if part.split.sources]


@dataclass(frozen=True, order=True, slots=True)
class _Heavy:
    """A key and window, with its size in bytes and number of entries."""

    size: int
    entries: int
    key_group: int
    key: bytes = field(compare=False)
    namespace: bytes = field(compare=False)


@dataclass(slots=True)
class _Top:
    """The heaviest keys of one state of one file, and the last run of entries, which may continue in the next block."""

    most: int
    kept: list[_Heavy] = field(default_factory=list)
    last: _Heavy | None = None

    def offer(self, heavy: _Heavy) -> None:
        """Keep a key if it is among the heaviest."""
        if len(self.kept) < self.most:
            heapq.heappush(self.kept, heavy)
        elif self.kept[0] < heavy:
            heapq.heapreplace(self.kept, heavy)

    def go_on(self, heavy: _Heavy) -> _Heavy:
        """Return the first run of a block, joined with the last run of the block before if it has the same key."""
        before, self.last = self.last, None
        if before is None:
            return heavy
        if (before.key_group, before.key, before.namespace) != (heavy.key_group, heavy.key, heavy.namespace):
            self.offer(before)
            return heavy
        return replace(heavy, size=before.size + heavy.size, entries=before.entries + heavy.entries)

    def finish(self) -> list[_Heavy]:
        """Return the heaviest keys, heaviest first."""
        if self.last is not None:
            self.offer(self.last)
        return sorted(self.kept, reverse=True)


@dataclass(frozen=True, slots=True)
class HeaviestKeys:
    """Heaviest keys of some key groups of an operator."""

    operator: Surveyed
    split: KeyedSplit

    def reads(self) -> Iterator[Read]:
        """Yield what is read when the files are opened."""
        return self.split.reads()

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield the ``top`` heaviest rows of every state of each file."""

        def selected(stream: KeyedStream) -> set[int]:
            return {i for i in requested_states(stream, request) if is_key_value(stream.header.states[i])}

        for stream, wanted in self.split.streams(request.decode, selected):
            header = stream.header
            pickled = any(map(is_python, header.states))
            tops = {state: _Top(request.top) for state in wanted}
            if wanted:
                for block in stream.blocks(set(self.split.key_groups), wanted, True, request.block_bytes):
                    for state, entries in block.entries_by_state(wanted):
                        _weigh(block, entries, tops[state])
            for state, top in tops.items():
                yield from self._rows(header, header.states[state], top.finish(), request.decode, pickled)

    def _rows(
        self,
        header: KeyedBackendHeader,
        meta: StateMetaInfoSnapshot,
        heaviest: list[_Heavy],
        options: DecodeOptions,
        pickled: bool,
    ) -> Iterator[Row]:
        keys = _texts(header.key_serializer, [heavy.key for heavy in heaviest], options, pickled)
        windows: Sequence[str | None] = [None] * len(heaviest)
        if table_of(meta) == "window_state":
            windows = _texts(meta.namespace_serializer, [heavy.namespace for heavy in heaviest], options)
        for heavy, key, window in zip(heaviest, keys, windows, strict=True):
            assignment = {"key_group": heavy.key_group, "subtask": self.operator.subtask(heavy.key_group)}
            what = {"table": table_of(meta), "state": name_of(meta), "key": key, "window": window}
            yield self.operator.row(**what, **assignment, entries=heavy.entries, bytes=heavy.size)


def _weigh(block: KeyedBlock, entries: Longs, top: _Top) -> None:
    """Offer each run of entries with the same key and window."""
    if not len(entries):
        return
    first = _run_starts(block, entries)
    sizes = np.add.reduceat(entry_bytes(block, entries), first)
    counts = np.add.reduceat(entry_counts(block, entries), first)
    starts = entries[first]

    def heavy(at: int) -> _Heavy:
        entry = int(starts[at])
        key = block.buffer[int(block.key_start[entry]) : int(block.key_end[entry])].tobytes()
        namespace = block.buffer[int(block.namespace_start[entry]) : int(block.namespace_end[entry])].tobytes()
        return _Heavy(int(sizes[at]), int(counts[at]), int(block.key_group[entry]), key, namespace)

    last = len(first) - 1
    head = top.go_on(heavy(0))
    if last == 0:
        top.last = head
        return
    top.offer(head)
    middle = np.arange(1, last)
    if len(middle) > top.most:
        middle = middle[np.argpartition(sizes[1:last], len(middle) - top.most)[len(middle) - top.most :]]
    for at in middle.tolist():
        top.offer(heavy(at))
    top.last = heavy(last)


def _run_starts(block: KeyedBlock, entries: Longs) -> Longs:
    """Return where each key or window begins; only maps in the canonical format have several entries of one."""
    state = int(block.state[entries[0]])
    if block.form != CANONICAL or block.states[state].state_type != "MAP" or len(entries) < 2:
        return np.arange(len(entries))
    spans = binary_column(block.buffer, block.span_start[entries], block.span_end[entries])
    other = pc.not_equal(spans[1:], spans[:-1])
    return np.concatenate([[0], 1 + np.flatnonzero(other.to_numpy(zero_copy_only=False))])


def _texts(
    serializer: TypeSerializer, values: list[bytes], options: DecodeOptions, is_python: bool = False
) -> list[str]:
    """Return serialized values as JSON; as hexadecimal digits if they cannot be decoded or Spark has no such value."""
    if not serializer.opaque_parts():
        at = Cursors.over(values, options=options)
        try:
            column = serializer.decode(at)
            at.expect_end()
            if is_python and unwrapped(serializer) is not None:
                column = display_keys(column.field(0))
            return [json.dumps(to_json(value), ensure_ascii=False) for value in column.to_pylist()]
        except ValueRangeError:
            pass  # a time beyond Spark's microseconds, for example
    return [json.dumps(value.hex()) for value in values]
