"""Channel state of unaligned checkpoints: its parts, and the elements in their buffers as rows, channel after channel.

A part is all channels of an input gate or of a result partition, named ``input 0`` or ``output 0``. A snapshot does not
record the edges of the job: a sender and a receiver belong together if the elements in which the receiver's buffers end
are completed by the sender's, in every channel, and no other two fit.

Length, kind and timestamp of an element need no serializer. The value is decoded by the serializer of the records: that
which the operator's own state has for its input (the queue of an asynchronous function, contents of windows), or a type
that option ``recordTypes`` gives. Otherwise, and where its bytes are not of that type, the row has the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Origin
from pyspark_savepoint.formats.connectors.payloads.kind import ASYNC_STATE
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, SavepointError
from pyspark_savepoint.formats.keyed.operator_streams import (
    Channel,
    ChannelElement,
    channels_of,
    completes,
    elements,
    frames,
    read_buffers,
)
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.runtime.stream_element import StreamElementSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_CONTENTS
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

INPUT, OUTPUT = "input", "output"
#: Pairs of senders and receivers above which elements in two buffers stay in two pieces.
MAX_PAIRS = 10_000
#: Subtask of the receiver and of the sender.
Place = tuple[int, int]


@dataclass(frozen=True)
class ChannelGroup:
    """The channels of an input gate or of a result partition of an operator, in order."""

    operator: OperatorState
    direction: str
    index: int
    channels: tuple[Channel, ...]

    @property
    def name(self) -> str:
        """The value of option ``state`` that selects the part."""
        return f"{self.direction} {self.index}"

    def place(self, channel: Channel) -> Place:
        """Return the subtasks that a channel connects, in an exchange of all with all."""
        ends = channel.subtask, channel.number
        return ends if self.direction == INPUT else (ends[1], ends[0])

    def buffers(self, savepoint: Snapshot) -> Iterator[tuple[Channel, bytes]]:
        """Yield the joined buffers of every channel."""
        for channel in self.channels:
            try:
                with savepoint.open_state(channel.delegate, self.operator) as opened:
                    yield channel, read_buffers(opened, channel.offsets)
            except SavepointError as error:
                raise error.with_facts(operator=self.operator.label) from None


def parts_of(operator: OperatorState) -> list[ChannelGroup]:
    """Return the parts of an operator that have buffers."""
    inputs = [handle for index in sorted(operator.subtasks) for handle in operator.subtasks[index].input_channel_state]
    outputs = [
        handle for index in sorted(operator.subtasks) for handle in operator.subtasks[index].result_subpartition_state
    ]
    return [*_parts(operator, INPUT, inputs), *_parts(operator, OUTPUT, outputs)]


def _parts(operator: OperatorState, direction: str, handles: Sequence[AnyChannelStateHandle]) -> Iterator[ChannelGroup]:
    by_index: dict[int, list[Channel]] = {}
    for channel in channels_of(handles):
        by_index.setdefault(channel.index, []).append(channel)
    for index in sorted(by_index):
        channels = sorted(by_index[index], key=lambda channel: (channel.subtask, channel.number))
        yield ChannelGroup(operator, direction, index, tuple(channels))


@dataclass
class Joins:
    """Elements that lie in the buffers of two subtasks."""

    #: By receiver and place: the bytes of the sender that complete the last element, and the sender.
    rests: dict[tuple[str, str, Place], tuple[bytes, str]] = field(default_factory=dict)
    #: By sender and place: how many bytes in front belong to an element of a receiver, and the receiver.
    fronts: dict[tuple[str, str, Place], tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Ends:
    """Of a receiver, the incomplete elements at the ends of its channels; of a sender, its buffers."""

    part: ChannelGroup
    data: Mapping[Place, bytes]


def joins_of(savepoint: Snapshot, parts: Sequence[ChannelGroup]) -> Joins:
    """Return which elements lie in the buffers of two subtasks; reads all buffers if any receiver's end within one."""
    receivers = [ends for part in parts if part.direction == INPUT and (ends := _tails(savepoint, part)) is not None]
    senders = [part for part in parts if part.direction == OUTPUT]
    if not receivers or len(receivers) * len(senders) > MAX_PAIRS:
        return Joins()
    pairs = []
    for part in senders:
        sender = _Ends(part, {part.place(channel): data for channel, data in part.buffers(savepoint)})
        pairs += [(sender, receiver, cut) for receiver in receivers if (cut := _cuts(sender, receiver)) is not None]
    joins = Joins()
    for sender, receiver, cut in pairs:
        alone = [(s, r) for s, r, _ in pairs if s is sender or r is receiver]
        if len(alone) > 1:
            continue
        for subtasks, size in cut.items():
            joins.rests[_key(receiver.part, subtasks)] = (sender.data[subtasks][:size], _label(sender.part))
            joins.fronts[_key(sender.part, subtasks)] = (size, _label(receiver.part))
    return joins


def _key(part: ChannelGroup, place: Place) -> tuple[str, str, Place]:
    return str(part.operator.operator_id), part.name, place


def rest_of(joins: Joins, part: ChannelGroup, channel: Channel) -> tuple[bytes, str] | None:
    """Return what completes the last element of a receiver's channel, and where it lies."""
    return joins.rests.get(_key(part, part.place(channel)))


def sender_of(
    joins: Joins, parts: Sequence[ChannelGroup], part: ChannelGroup, channel: Channel
) -> tuple[ChannelGroup, Channel]:
    """Return the part and channel that complete the last element of a receiver's channel, which :func:`rest_of` has."""
    subtasks = part.place(channel)
    _, label = joins.rests[_key(part, subtasks)]
    return next(
        (sender, one)
        for sender in parts
        if sender.direction == OUTPUT and _label(sender) == label
        for one in sender.channels
        if sender.place(one) == subtasks
    )


def front_of(joins: Joins, part: ChannelGroup, channel: Channel) -> tuple[int, str] | None:
    """Return how many bytes at the beginning of a sender's channel complete an element, and where that begins."""
    return joins.fronts.get(_key(part, part.place(channel)))


def _label(part: ChannelGroup) -> str:
    return f"{part.name} of operator {part.operator.label}"


def _tails(savepoint: Snapshot, part: ChannelGroup) -> _Ends | None:
    tails = {}
    for channel, data in part.buffers(savepoint):
        framed = frames(data)
        if framed is None:
            return None
        if framed[1] < len(data):
            tails[part.place(channel)] = data[framed[1] :]
    return _Ends(part, tails) if tails else None


def _cuts(sender: _Ends, receiver: _Ends) -> dict[Place, int] | None:
    """Return how many bytes complete each element, or None if they do not fit together."""
    if not receiver.data.keys() <= sender.data.keys():
        return None
    cuts = {}
    for subtasks, data in sender.data.items():
        tail = receiver.data.get(subtasks, b"")
        size = completes(tail, data)
        if size is None:
            return None
        if tail:
            cuts[subtasks] = size
    return cuts


RECORD, WATERMARK = "record", "watermark"
BEGINNING, REST, BUFFERS = "beginning_of_element", "rest_of_element", "buffers"
#: Kinds of keyed state whose values are input records.
OF_RECORDS = ("LIST", "REDUCING")


def serializer_of_records(opened: OpenOperator, part: ChannelGroup) -> TypeSerializer | None:
    """Return the serializer of the records of an input, if the operator has state of them; else None."""
    if part.direction != INPUT:
        return None
    metas = [meta for meta in opened.operator_states if meta.name == ASYNC_STATE]
    if not metas and any(subtask.managed_keyed_state is not None for subtask in opened.operator.subtasks.values()):
        states = opened.keyed.metas().items()
        contents = [state_metas for (name, timer), state_metas in states if name == WINDOW_CONTENTS[0] and not timer]
        metas = [meta for state_metas in contents for meta in state_metas if meta.state_type in OF_RECORDS]
    if not metas:
        return None
    serializer: TypeSerializer = metas[0].value_serializer
    if isinstance(serializer, ListSerializer):
        serializer = serializer.nested[0]
    if isinstance(serializer, StreamElementSerializer):
        serializer = serializer.nested[0]
    return None if serializer.opaque_parts() else serializer


@dataclass
class ChannelRows:
    """Rows of one channel, by column; ``value`` holds decoded records, at the rows of ``decoded``."""

    kind: list[str] = field(default_factory=list)
    timestamp: list[int | None] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    undecoded: list[bytes | None] = field(default_factory=list)
    note: list[str | None] = field(default_factory=list)
    value: pa.Array | None = None
    decoded: list[int] = field(default_factory=list)

    def add(self, kind: str, data: bytes, note: str | None) -> None:
        """Add bytes that are no whole element."""
        self.kind.append(kind)
        self.timestamp.append(None)
        self.length.append(len(data))
        self.undecoded.append(data)
        self.note.append(note)

    def columns(self, value: pa.DataType) -> dict[str, pa.Array]:
        """Return the columns of all rows."""
        columns: dict[str, Any] = {
            "kind": pa.array(self.kind, pa.string()),
            "timestamp": pa.array(self.timestamp, pa.int64()),
            "length": pa.array(self.length, pa.int64()),
            "bytes": pa.array(self.undecoded, pa.binary()),
            "note": pa.array(self.note, pa.string()),
        }
        if self.value is None:
            columns["value"] = pa.nulls(len(self.kind), value)
        else:
            places: list[int | None] = [None] * len(self.kind)
            for number, row in enumerate(self.decoded):
                places[row] = number
            columns["value"] = self.value.take(pa.array(places, pa.int64()))
        return columns


@dataclass(frozen=True)
class ChannelReader:
    """Reader of the channels of a part; ``named`` if option ``recordTypes`` gives the type of its records.

    Records of another type than ``value``, that of the table's column, are bytes.
    """

    savepoint: Snapshot
    part: ChannelGroup
    joins: Joins
    serializer: TypeSerializer | None
    named: bool
    options: DecodeOptions
    value: pa.DataType

    def rows(self) -> Iterator[tuple[Channel, ChannelRows]]:
        """Yield the rows of every channel."""
        for channel, data in self.part.buffers(self.savepoint):
            yield channel, self._channel(channel, data)

    def _channel(self, channel: Channel, data: bytes) -> ChannelRows:
        rows = ChannelRows()
        start, rest = 0, None
        front = front_of(self.joins, self.part, channel)
        if front is not None:
            start = front[0]
            rows.add(REST, data[:start], f"of the last element in {front[1]}")
        own = len(data)
        rest = rest_of(self.joins, self.part, channel)
        if rest is not None:
            data += rest[0]
        framed = frames(data, start)
        if framed is None or (self.part.direction == OUTPUT and framed[1] < len(data)):
            rows.add(BUFFERS, data[start:own], "begins inside an element whose first bytes are not in the snapshot")
            return rows
        spans, tail = framed
        stream_elements = elements(data, spans)
        if stream_elements is None:
            rows.add(BUFFERS, data[start:own], "not stream elements of Flink")
            return rows
        self._add(rows, data, stream_elements, [end - begin for begin, end in spans])
        if rest is not None:
            rows.note[-1] = f"its last {len(rest[0])} bytes are in {rest[1]}"
        if tail < len(data):
            rows.add(BEGINNING, data[tail:], "its other bytes are in buffers of the sender")
        return rows

    def _add(self, rows: ChannelRows, data: bytes, elements: list[ChannelElement], lengths: list[int]) -> None:
        first = len(rows.kind)
        records = [(row, element) for row, element in enumerate(elements, first) if element.kind == RECORD]
        note = self._why_bytes()
        if self.serializer is not None and note is None and records:
            try:
                rows.value = self._decode(self.serializer, data, [element for _, element in records])
                rows.decoded = [row for row, _ in records]
            except CorruptStateError as error:
                if self.named:
                    raise error.with_facts(operator=self.part.operator.label, state=self.part.name) from None
                note = f"not of type {self.serializer.flink_type}, which the state of the operator has"
        decoded = rows.value is not None
        for element, length in zip(elements, lengths, strict=True):
            is_row = element.kind == WATERMARK or (decoded and element.kind == RECORD)
            rows.kind.append(element.kind)
            rows.timestamp.append(element.timestamp)
            rows.length.append(length)
            rows.undecoded.append(None if is_row else data[element.start : element.end])
            rows.note.append(note if element.kind == RECORD and not is_row else None)

    def _why_bytes(self) -> str | None:
        if self.serializer is None:
            return "the snapshot does not have the type: see option 'recordTypes'"
        if self.serializer.arrow_type(self.options) == self.value:
            return None
        return f"of type {self.serializer.flink_type}: options 'uid' and 'state' show one type at a time"

    def _decode(self, serializer: TypeSerializer, data: bytes, records: list[ChannelElement]) -> pa.Array:
        starts = np.array([record.start for record in records], np.int64)
        ends = np.array([record.end for record in records], np.int64)
        buffer = np.frombuffer(bytearray(data), np.uint8)
        at = Cursors(buffer, starts, ends, Origin(state=self.part.name), self.options)
        column = serializer.decode(at)
        at.expect_end()
        return column


def expect_parts(types: Mapping[str, str], parts: list[ChannelGroup]) -> None:
    """Raise OptionError if option ``recordTypes`` names a part that does not exist."""
    part_names = [part.name for part in parts]
    for name in types:
        if name not in part_names:
            raise OptionError(
                f"option 'recordTypes' names {name!r}, which has no records in flight",
                found=", ".join(dict.fromkeys(part_names)) or "no channel state",
                remedy="""name inputs and outputs by number, such as {"input 0": "LONG"}""",
            )
