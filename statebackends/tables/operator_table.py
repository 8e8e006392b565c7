"""Tables of operator state: the elements of a list or union state, or the entries of a broadcast state.

list        value                 distributed over the vertices as Flink does on restore
union       value                 the elements of every subtask once
broadcast   key, value            the copy of one subtask, because all are equal
extra       subtask               the subtask that wrote the element
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Longs, Origin, fixed_array
from pyspark_savepoint.formats.errors import (
    UNREADABLE,
    CorruptStateError,
    OptionError,
    SavepointError,
    StateNotFoundError,
    UndecodableStateError,
)
from pyspark_savepoint.formats.io.byte_source import opened_ahead
from pyspark_savepoint.formats.io.run_ahead import FEW_AHEAD
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream, Pieces, entries_of_broadcast
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import decode_elements, locate
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_states, with_columns
from pyspark_savepoint.statebackends.rows.state_column import decode_either
from pyspark_savepoint.statebackends.sources.assignment import repartition_state
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource
from pyspark_savepoint.statebackends.types.unify import conform, merge_registrations, unify

KEY, VALUE, SUBTASK = "key", "value", "subtask"
NOWHERE = ByteStreamStateHandle("", b"")


class OperatorTable:
    """One operator state, selected by name."""

    def __init__(self, opened: OpenOperator, request: TableRequest, state: str) -> None:
        self.request = request
        self.operator = operator = opened.operator
        self.state = state
        self.max_parallelism: int | None = operator.max_parallelism
        self.state_bytes = operator.state_size
        self.sources = opened.streams
        metas = opened.operator_states_by_name.get(state, [])
        if not metas:
            if any(meta.name == state for header in opened.keyed.headers for meta in header.states):
                raise StateNotFoundError(
                    f"state {state!r} is keyed state, and no operator state",
                    operator=operator.label,
                    remedy=f"read table 'keyed_state' with option 'state' = {state!r}",
                )
            choose_states(opened.operator_state_names, (state,), "operator state", operator.label)
        self.united = merge_registrations(metas)
        self.mode = metas[0].state_type
        self.raw = state in request.raw
        if self.mode == "BROADCAST" and "parallelism" in request.explicit_options:
            raise OptionError(
                "option 'parallelism' cannot apply to broadcast state: all subtasks have the same elements, and those "
                "of one are read",
                operator=operator.label,
                state=state,
                remedy="leave the option out",
            )
        self.warnings = tuple(self._warnings(metas[0]))
        self.schema = pa.schema(list(self._fields(metas)))

    def _warnings(self, meta: StateMetaInfoSnapshot) -> Iterator[str]:
        for role, serializer in meta.serializers.items():
            opaque = serializer.opaque_parts()
            # Entries of a broadcast state are contiguous: one of unknown length hides those after it.
            if not opaque or (self.raw and self.mode != "BROADCAST"):
                continue
            kind = printable(f"{opaque[0].flink_type} ({opaque[0].snapshot_class})", line=True)
            what = f"operator state {self.state!r} has values of {kind}"
            if self.request.undecodable == "error" or self.mode == "BROADCAST":
                raise UndecodableStateError(
                    f"{what}, which only the job's own serializer can decode",
                    operator=self.operator.label,
                    state=self.state,
                    remedy=opaque[0].remedy,
                )
            remedy = opaque[0].remedy
            yield f"{what}, which only the job's own serializer can decode: it is BINARY ({role}). To do: {remedy}."

    def _fields(self, metas: Sequence[StateMetaInfoSnapshot]) -> Iterator[pa.Field]:
        metas = metas if self.united is None else [self.united]
        if self.mode == "BROADCAST":
            yield self._field(KEY, [meta.serializers["KEY_SERIALIZER"] for meta in metas])
        yield self._field(VALUE, [meta.value_serializer for meta in metas])
        if self.request.include_key_group:
            yield pa.field(SUBTASK, pa.int32())

    def _field(self, name: str, serializers: list[TypeSerializer]) -> pa.Field:
        comment = {b"comment": f"{self.mode} {serializers[0].flink_type}".encode()}
        if self.raw or serializers[0].opaque_parts():
            return pa.field(name, pa.binary(), metadata=comment)
        kinds = [serializer.arrow_type(self.request.decode) for serializer in serializers]
        return pa.field(name, unify(kinds, self.state), metadata=comment)

    def select(self, columns: Sequence[str]) -> OperatorTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions: one per vertex for list state, equal shares for union state, one for broadcast state.

        List state is distributed as on restore. Of union state, which Flink gives every vertex in full, each element is
        read once; of broadcast state, one subtask's copy.
        """
        if self.mode == "BROADCAST":
            shares = [[(source, 0, 1)] for source in self._with_state()[:1]]
        elif self.mode == "UNION":
            shares = self._split(min(parallelism or 1, self.operator.max_parallelism))
        else:
            shares = self._dealt(min(parallelism or 1, self.operator.max_parallelism))
        return [
            OperatorPartition(tuple(share), self.state, self.mode, self.raw, self.schema, self.request, self.united)
            for share in shares
            if share
        ]

    def _split(self, parallelism: int) -> list[list[tuple[OperatorSource, int, int]]]:
        """Split all elements of union state into ``parallelism`` shares of about the same size."""
        sizes = [(source, len(source.offsets(self.state))) for source in self._with_state()]
        total = sum(size for _, size in sizes)
        shares: list[list[tuple[OperatorSource, int, int]]] = []
        for part in range(parallelism):
            low, high = total * part // parallelism, total * (part + 1) // parallelism
            share, begin = [], 0
            for source, size in sizes:
                first, last = max(low - begin, 0), min(high - begin, size)
                if first < last:
                    share.append((source, first, last - first))
                begin += size
            shares.append(share)
        return shares

    def _with_state(self) -> list[OperatorSource]:
        return [source for source in self.sources if len(source.offsets(self.state))]

    def _dealt(self, parallelism: int) -> list[list[tuple[OperatorSource, int, int]]]:
        """Return per vertex the sources, each with its first element and the number of elements to read."""
        if parallelism == 1:
            return [[(source, 0, len(source.offsets(self.state))) for source in self._with_state()]]
        by_subtask = {source.subtask: source for source in self.sources}
        # Elements are distributed by number, because several can have the same offset.
        numbered = [
            (
                source.subtask,
                OperatorStreamStateHandle(
                    tuple(replace(s, offsets=tuple(range(len(s.offsets)))) for s in source.states),
                    NOWHERE,
                ),
            )
            for source in self.sources
        ]
        shares = []
        for vertex in repartition_state(list(numbered), self.operator.parallelism, parallelism):
            share = []
            for assigned in vertex:
                for state in assigned.handle.states:
                    if state.name == self.state and state.offsets:
                        share.append((by_subtask[assigned.subtask_index], state.offsets[0], len(state.offsets)))
            shares.append(share)
        return shares


@dataclass(frozen=True)
class OperatorPartition:
    """Elements of the streams of some subtasks."""

    shares: tuple[tuple[OperatorSource, int, int], ...]
    state: str
    mode: str
    raw: bool
    schema: pa.Schema
    request: TableRequest
    #: The registration that reads the values of all streams, if there is one.
    united: StateMetaInfoSnapshot | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield elements in stream order."""
        with opened_ahead((read for source, _, _ in self.shares for read in source.header_reads()), FEW_AHEAD):
            for source, first, count in self.shares:
                try:
                    with source.location.open() as opened:
                        stream = source.stream(opened)
                        meta = next((meta for meta in stream.header.states if meta.name == self.state), None)
                        offsets = source.offsets(self.state)
                        yield from self.elements(stream, meta, offsets, source.subtask, first, count)
                except SavepointError as error:
                    raise error.with_facts(operator=source.operator, state=self.state) from None

    def elements(
        self,
        stream: OperatorStream,
        meta: StateMetaInfoSnapshot | None,
        offsets: Longs,
        subtask: int,
        first: int,
        count: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield some elements of a stream that is open, whose header registers the state as ``meta``."""
        if meta is None:
            raise CorruptStateError(
                "a handle has elements of a state that is missing in the header of its stream",
                path=stream.source.path,
                found=self.state,
                remedy=UNREADABLE,
            )
        meta = self.united or meta
        if (np.diff(offsets) < 0).any():
            raise CorruptStateError(
                "the offsets of an operator state are not in ascending order",
                path=stream.source.path,
                remedy=UNREADABLE,
            )
        # Whole runs of equal offsets are read, and elements of other vertices are cut off. (The single element of a
        # broadcast state consists of all its entries.)
        start = int(np.searchsorted(offsets, offsets[first]))
        stop = int(np.searchsorted(offsets, offsets[first + count - 1], side="right"))
        skip, left = first - start, count
        for buffer, pieces, base in stream.windows(offsets[start:stop], self.request.block_bytes):
            for columns in self._columns(stream, meta, buffer, pieces, base):
                if self.mode != "BROADCAST":
                    rows = len(columns[VALUE])
                    low, high = min(skip, rows), min(rows, skip + left)
                    skip, left = skip - low, left - (high - low)
                    columns = {name: column.slice(low, high - low) for name, column in columns.items()}
                yield from self._batches(columns, subtask, Origin(stream.source.path))

    def _columns(
        self, stream: OperatorStream, meta: StateMetaInfoSnapshot, buffer: Bytes, pieces: Pieces, base: int
    ) -> Iterator[dict[str, pa.Array]]:
        at, counts = stream.cursors(buffer, pieces, base, self.state, self.request.decode), pieces.count
        if self.mode == "BROADCAST":
            yield from self._broadcast(meta, at)
            return
        serializer = meta.value_serializer
        if self.raw or serializer.opaque_parts():
            yield {VALUE: self._bytes(serializer, at, counts)}
            return
        step = self.request.batch_rows
        for low in range(0, len(at), step):
            part = at.at(at.position[low : low + step].copy(), at.end[low : low + step])
            some = counts[low : low + step]
            yield {VALUE: decode_either(serializer, part, lambda at: decode_elements(serializer, at, some))}  # noqa: B023

    def _bytes(self, serializer: TypeSerializer, at: Cursors, counts: Longs) -> pa.Array:
        if (counts == 1).all():
            return binary_column(at.buffer, at.position, at.end)
        starts, stops = locate([serializer], at, counts)
        at.expect_end()
        return binary_column(at.buffer, starts[0], stops[0])

    def _broadcast(self, meta: StateMetaInfoSnapshot, at: Cursors) -> Iterator[dict[str, pa.Array]]:
        serializers = [meta.serializers["KEY_SERIALIZER"], meta.value_serializer]
        starts, stops = entries_of_broadcast(meta, at)
        step = self.request.batch_rows
        for low in range(0, max(1, len(starts[0])), step):
            columns = {}
            for i, name in enumerate((KEY, VALUE)):
                spans = starts[i][low : low + step], stops[i][low : low + step]
                if self.raw:
                    columns[name] = binary_column(at.buffer, *spans)
                    continue
                part = at.at(spans[0].copy(), spans[1])
                columns[name] = decode_either(serializers[i], part, serializers[i].decode)
            yield columns

    def _batches(self, columns: dict[str, pa.Array], subtask: int, origin: Origin) -> Iterator[pa.RecordBatch]:
        rows = len(columns[VALUE])
        columns[SUBTASK] = fixed_array(pa.int32(), np.full(rows, subtask, np.int32))
        for low in range(0, rows, self.request.batch_rows):
            arrays = [
                conform(columns[field.name].slice(low, self.request.batch_rows), field.type, origin)
                for field in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
