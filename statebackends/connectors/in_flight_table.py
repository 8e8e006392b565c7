"""Table ``in_flight``: records and watermarks on their way.

    operator_uid, operator_uid_hash, operator_name, subtask, state, channel, position, kind, timestamp, value,
    length, bytes, note

``state`` is ``_async_wait_operator_state_`` for the queue of an asynchronous function: after a restore Flink sends
every record to the function again. A value that only the user's code reads is BINARY there, with the bytes of the whole
element, and no kind and timestamp.

``input 0``, ``output 0`` and so on are channel state of unaligned checkpoints: buffers of an input gate and of a result
partition, with ``length``, the bytes of each element, and ``bytes`` where the value is not decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.connectors.payloads.kind import ASYNC_STATE
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.keyed.operator_streams import Channel
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import NEWEST_VERSION, parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.catalog.rows import BYTES, INT, LONG, OPERATOR, TEXT, identity, operators, schema
from pyspark_savepoint.statebackends.catalog.table import opened
from pyspark_savepoint.statebackends.connectors.channel_records import (
    ChannelGroup,
    ChannelReader,
    ChannelRows,
    expect_parts,
    joins_of,
    parts_of,
    serializer_of_records,
)
from pyspark_savepoint.statebackends.connectors.connector_states import list_states
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_columns
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.operator_table import SUBTASK, VALUE, OperatorTable

KIND, TIMESTAMP, POSITION = "kind", "timestamp", "position"
STATE, CHANNEL = "state", "channel"
COMMON = schema(**OPERATOR, subtask=INT, state=TEXT, channel=INT, position=LONG, kind=TEXT, timestamp=LONG)
OF_CHANNELS = schema(length=LONG, bytes=BYTES, note=TEXT)


@dataclass(frozen=True)
class InFlightTable:
    """What is in flight of one operator or of all; ``queues`` are the operators that have the queue of a function.

    ``channels``: whether any has channel state; ``value``: the type of values, others are bytes.
    """

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    queues: tuple[int, ...]
    channels: bool
    value: pa.DataType
    state_bytes: int
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @classmethod
    def of(cls, request: TableRequest) -> InFlightTable:
        """Return the table; the type of its values is that of the queues."""
        savepoint = opened(request)
        tables: dict[int, OperatorTable] = {}
        parts: list[ChannelGroup] = []
        kinds: dict[str, pa.DataType] = {}
        inferred: list[pa.DataType] = []
        for index, operator in enumerate(operators(savepoint, request)):
            if ASYNC_STATE in list_states(operator) and _is_requested(request, ASYNC_STATE):
                tables[index] = _queue(savepoint, request, index)
                kinds[operator.label] = _value_type(tables[index])
            own = [part for part in parts_of(operator) if _is_requested(request, part.name)]
            parts += own
            for part, serializer in _serializers(savepoint, request, own):
                if serializer is None:
                    continue
                kind = serializer.arrow_type(_decode(savepoint, request))
                if part.name in _types(request):
                    kinds[f"{part.name} of {operator.label}"] = kind
                inferred.append(kind)
        expect_parts(_types(request), parts)
        if len(set(kinds.values())) > 1:
            raise OptionError(
                "records in flight of different types",
                path=savepoint.path,
                found=", ".join(f"{label}: {kind}" for label, kind in kinds.items()),
                remedy="name one operator with 'uid', and where it has several types one of them with 'state', such as "
                "'input 0'",
            )
        value = next(iter([*kinds.values(), *inferred]), pa.null())
        return cls(
            request,
            pa.schema([*COMMON, pa.field(VALUE, value), *OF_CHANNELS]),
            savepoint.digest,
            tuple(tables),
            bool(parts),
            value,
            sum(table.state_bytes for table in tables.values()),
            tuple(warning for table in tables.values() for warning in table.warnings),
        )

    def select(self, columns: Sequence[str]) -> InFlightTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, _parallelism: int | None) -> list[TablePartition]:
        """Return a partition for each queue, and one for all channels, whose elements lie in buffers of several."""
        queues = [InFlightPartition(self.request, self.schema, self.digest, index) for index in self.queues]
        return [
            *queues,
            *([ChannelsPartition(self.request, self.schema, self.digest, self.value)] if self.channels else []),
        ]


@dataclass(frozen=True)
class InFlightPartition:
    """The queue of one operator."""

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    index: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the elements, subtask after subtask, in the order of the queue."""
        savepoint = opened(self.request)
        savepoint.expect_version(self.digest)
        operator = operators(savepoint, self.request)[self.index]
        counts: dict[int, int] = {}
        for partition in _queue(savepoint, self.request, self.index).partitions(1):
            for batch in partition.batches():
                columns = {name: _repeated(text, len(batch)) for name, text in identity(operator).items()}
                columns[SUBTASK] = batch.column(SUBTASK)
                columns[POSITION] = _positions(batch.column(SUBTASK).to_numpy(), counts)
                columns[STATE] = _repeated(ASYNC_STATE, len(batch))
                columns |= {CHANNEL: pa.nulls(len(batch), INT)}
                columns |= {field.name: pa.nulls(len(batch), field.type) for field in OF_CHANNELS}
                columns |= _elements(batch.column(VALUE))
                arrays = [columns[field.name] for field in self.schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class ChannelsPartition:
    """The channel state of all operators that the request names."""

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    value: pa.DataType

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the elements, channel after channel."""
        savepoint = opened(self.request)
        savepoint.expect_version(self.digest)
        everything = [part for operator in savepoint.operators for part in parts_of(operator)]
        joins = joins_of(savepoint, everything)
        for operator in operators(savepoint, self.request):
            own = [part for part in parts_of(operator) if _is_requested(self.request, part.name)]
            for part, serializer in _serializers(savepoint, self.request, own):
                named = part.name in _types(self.request)
                decode = _decode(savepoint, self.request)
                reader = ChannelReader(savepoint, part, joins, serializer, named, decode, self.value)
                for channel, rows in reader.rows():
                    yield from self._batches(operator, part, channel, rows)

    def _batches(
        self, operator: OperatorState, part: ChannelGroup, channel: Channel, rows: ChannelRows
    ) -> Iterator[pa.RecordBatch]:
        count = len(rows.kind)
        columns = {name: _repeated(text, count) for name, text in identity(operator).items()}
        columns[SUBTASK] = pa.array([channel.subtask] * count, INT)
        columns[STATE] = _repeated(part.name, count)
        columns[CHANNEL] = pa.array([channel.number] * count, INT)
        columns[POSITION] = pa.array(range(count), LONG)
        columns |= rows.columns(self.value)
        batch = pa.RecordBatch.from_arrays([columns[field.name] for field in self.schema], schema=self.schema)
        for low in range(0, count, self.request.batch_rows):
            yield batch.slice(low, self.request.batch_rows)


def _is_requested(request: TableRequest, state: str) -> bool:
    return request.states is None or state in request.states


def _types(request: TableRequest) -> dict[str, str]:
    types: dict[str, str] = json.loads(request.record_types or "{}")
    return types


def _decode(savepoint: Snapshot, request: TableRequest) -> DecodeOptions:
    return request.of_version(savepoint.metadata.version).decode


def _serializers(
    savepoint: Snapshot, request: TableRequest, parts: Sequence[ChannelGroup]
) -> list[tuple[ChannelGroup, TypeSerializer | None]]:
    """Return the parts of an operator, each with the serializer of its records."""
    types = _types(request)
    return [
        (part, parse_type(types[part.name], NEWEST_VERSION))
        if part.name in types
        else (part, serializer_of_records(OpenOperator(savepoint, part.operator), part))
        for part in parts
    ]


def _queue(savepoint: Snapshot, request: TableRequest, index: int) -> OperatorTable:
    """Return the elements of an operator's queue as operator state."""
    channel_request = replace(
        request.of_version(savepoint.metadata.version), state=ASYNC_STATE, include_key_group=True, explicit_options={}
    )
    return OperatorTable(OpenOperator(savepoint, operators(savepoint, request)[index]), channel_request, ASYNC_STATE)


def _value_type(table: OperatorTable) -> pa.DataType:
    kind = table.schema.field(VALUE).type
    return kind.field(VALUE).type if pa.types.is_struct(kind) else kind


def _elements(elements: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(elements.type):
        return {KIND: pa.nulls(len(elements), TEXT), TIMESTAMP: pa.nulls(len(elements), LONG), VALUE: elements}
    return {name: elements.field(name) for name in (KIND, TIMESTAMP, VALUE)}


def _positions(subtasks: np.ndarray, counts: dict[int, int]) -> pa.Array:
    """Return the number of each element in the queue of its subtask; ``counts`` are those of earlier batches."""
    places = np.empty(len(subtasks), np.int64)
    for subtask in np.unique(subtasks).tolist():
        own = subtasks == subtask
        start = counts.get(subtask, 0)
        places[own] = start + np.arange(int(own.sum()))
        counts[subtask] = start + int(own.sum())
    return pa.array(places)


def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.array([text] * count, TEXT)
