"""Rows of channel state: the elements in the buffers of unaligned checkpoints, channel after channel.

Length, kind and timestamp of an element need no serializer. The value is decoded by the serializer of the records: that
which the operator's own state has for its input (the queue of an asynchronous function, contents of windows), or a type
that option ``recordTypes`` gives. Otherwise, and where its bytes are not of that type, the row has the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Origin
from pyspark_savepoint.formats.connectors.payloads.kind import ASYNC_STATE
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError
from pyspark_savepoint.formats.keyed.operator_streams import Channel, ChannelElement, elements, frames
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.runtime.stream_element import StreamElementSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.channel_parts import (
    INPUT,
    OUTPUT,
    ChannelGroup,
    Joins,
    front_of,
    rest_of,
)
from pyspark_savepoint.statebackends.model.descriptors import WINDOW_CONTENTS
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

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
        found = [each for (name, timer), each in states if name == WINDOW_CONTENTS[0] and not timer]
        metas = [meta for each in found for meta in each if meta.state_type in OF_RECORDS]
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
        found = elements(data, spans)
        if found is None:
            rows.add(BUFFERS, data[start:own], "not stream elements of Flink")
            return rows
        self._add(rows, data, found, [end - begin for begin, end in spans])
        if rest is not None:
            rows.note[-1] = f"its last {len(rest[0])} bytes are in {rest[1]}"
        if tail < len(data):
            rows.add(BEGINNING, data[tail:], "its other bytes are in buffers of the sender")
        return rows

    def _add(self, rows: ChannelRows, data: bytes, found: list[ChannelElement], lengths: list[int]) -> None:
        first = len(rows.kind)
        records = [(row, each) for row, each in enumerate(found, first) if each.kind == RECORD]
        note = self._why_bytes()
        if self.serializer is not None and note is None and records:
            try:
                rows.value = self._decode(self.serializer, data, [each for _, each in records])
                rows.decoded = [row for row, _ in records]
            except CorruptStateError as error:
                if self.named:
                    raise error.with_facts(operator=self.part.operator.label, state=self.part.name) from None
                note = f"not of type {self.serializer.flink_type}, which the state of the operator has"
        decoded = rows.value is not None
        for each, length in zip(found, lengths, strict=True):
            shown = each.kind == WATERMARK or (decoded and each.kind == RECORD)
            rows.kind.append(each.kind)
            rows.timestamp.append(each.timestamp)
            rows.length.append(length)
            rows.undecoded.append(None if shown else data[each.start : each.end])
            rows.note.append(note if each.kind == RECORD and not shown else None)

    def _why_bytes(self) -> str | None:
        if self.serializer is None:
            return "the snapshot does not have the type: see option 'recordTypes'"
        if self.serializer.arrow_type(self.options) == self.value:
            return None
        return f"of type {self.serializer.flink_type}: options 'uid' and 'state' show one type at a time"

    def _decode(self, serializer: TypeSerializer, data: bytes, records: list[ChannelElement]) -> pa.Array:
        starts = np.array([each.start for each in records], np.int64)
        ends = np.array([each.end for each in records], np.int64)
        buffer = np.frombuffer(bytearray(data), np.uint8)
        at = Cursors(buffer, starts, ends, Origin(state=self.part.name), self.options)
        column = serializer.decode(at)
        at.expect_end()
        return column


def expect_parts(types: Mapping[str, str], parts: list[ChannelGroup]) -> None:
    """Raise OptionError if option ``recordTypes`` names a part that does not exist."""
    known = [part.name for part in parts]
    for name in types:
        if name not in known:
            raise OptionError(
                f"option 'recordTypes' names {name!r}, which has no records in flight",
                found=", ".join(dict.fromkeys(known)) or "no channel state",
                remedy="""name inputs and outputs by number, such as {"input 0": "LONG"}""",
            )
