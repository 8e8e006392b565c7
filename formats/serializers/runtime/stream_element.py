"""Serializer of stream elements as state, which windows with an evictor keep; nearly all are records.

    snapshot := Composite 2, the serializer of the records' values nested
    value := 00 i64 timestamp  value          a record
           | 01 value                         a record without timestamp
           | 02 i64 timestamp                 a watermark
           | 03 i64 time  u8[16] operator  i32 subtask   a latency marker
           | 04 i32 status                    idle or active
           | 05 u8 isBacklog                  attributes of the records that follow (since 1.19)
           | 06 i32 subpartition  i64 timestamp   a watermark of a subpartition (since 1.20)

Flink: ``StreamElementSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Longs,
    binary_array,
    binary_parts,
    refuse_nulls,
    refuse_where,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, KindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    BOOLEAN,
    INT,
    LONG,
    gather,
    naming,
    pick,
    struct_type,
)
from pyspark_savepoint.formats.serializers.layout import Layout, Part

OPERATOR_ID_BYTES = 16


@dataclass(frozen=True)
class OperatorIdBytes:
    """16 bytes of an operator id, as BINARY."""

    flink_type: ClassVar[str] = "OPERATOR_ID"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, OPERATOR_ID_BYTES)

    def decode(self, at: Cursors) -> pa.Array:
        short = np.flatnonzero(at.end - at.position < OPERATOR_ID_BYTES)
        at.check(int(short[0]) if len(short) else -1, f"{OPERATOR_ID_BYTES} bytes of an operator id")
        data = at.buffer[at.position[:, None] + np.arange(OPERATOR_ID_BYTES)]
        at.position[:] += OPERATOR_ID_BYTES
        offsets = np.arange(len(at) + 1, dtype=np.int32) * np.int32(OPERATOR_ID_BYTES)
        return binary_array(pa.binary(), offsets, np.ascontiguousarray(data).reshape(-1))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        sizes: Longs = np.diff(binary_parts(column)[0])
        refuse_where(sizes != OPERATOR_ID_BYTES, column, f"{OPERATOR_ID_BYTES} bytes", "write an operator's id")
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        numbers.write_bytes(at.buffer, at.position, *binary_parts(column))


#: Kind and fields by tag, in the order of the bytes. The two tags of records differ in the timestamp.
ELEMENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("record", ("timestamp", "value")),
    ("record", ("value",)),
    ("watermark", ("timestamp",)),
    ("latency_marker", ("timestamp", "operator_id", "index")),
    ("watermark_status", ("status",)),
    ("record_attributes", ("is_backlog",)),
    ("internal_watermark", ("index", "timestamp")),
)
KINDS = tuple(dict.fromkeys(kind for kind, _ in ELEMENTS))
WITHOUT_TIMESTAMP = 1
#: The fields of a record, without those of other elements.
RECORD = ("value", "timestamp")


@of_kind(
    Kind(
        "STREAM_ELEMENT",
        ("org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot",),
        versions=(2,),
    )
)
@dataclass(frozen=True)
class StreamElementSerializer(KindSerializer):
    """Serializer of STREAM_ELEMENT<T>, which becomes a struct whose ``kind`` determines which fields are set.

    Without ``DecodeOptions.internal`` it is a struct of a record's value and timestamp. Both forms are encoded.
    """

    @property
    def parts(self) -> dict[str, Part]:
        """The fields except the kind. ``index`` is that of a subtask or of a subpartition."""
        return {
            "timestamp": LONG,
            "value": self.nested[0],
            "operator_id": OperatorIdBytes(),
            "index": INT,
            "status": INT,
            "is_backlog": BOOLEAN,
        }

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        parts = self.parts
        if not options.internal:
            parts = {name: parts[name] for name in RECORD}
            return struct_type(tuple(parts), tuple(parts.values()), options)
        return pa.struct([pa.field("kind", pa.string()), *struct_type(tuple(parts), tuple(parts.values()), options)])

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        parts = {name: part.layout(layout) for name, part in self.parts.items()}
        variants = [layout.add(skip.SEQUENCE, parts=[parts[name] for name in names]) for _, names in ELEMENTS]
        return layout.add(skip.CHOICE, 0, 1, variants)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the tags of all rows, then the fields of every tag."""
        tags = read_numbers(at, "read_i8", np.uint8, f"the tag of a {self.flink_type}")
        unknown = np.flatnonzero(tags >= len(ELEMENTS))
        if len(unknown):
            at.fail(int(unknown[0]), f"a tag from 0 to {len(ELEMENTS) - 1}", int(tags[unknown[0]]))
        if not at.options.internal:
            others = np.flatnonzero(tags > WITHOUT_TIMESTAMP)
            if len(others):
                kind = ELEMENTS[int(tags[others[0]])][0]
                at.fail(int(others[0]), "a record: option 'includeInternal' shows other elements too", kind)
        pieces: dict[str, list[tuple[Flags, pa.Array]]] = {name: [] for name in self.parts}
        for tag in np.unique(tags):
            rows: Flags = tags == tag
            cursors = at.select(rows)
            for name in ELEMENTS[tag][1]:
                with cursors.inside(name):
                    pieces[name].append((rows, self.parts[name].decode(cursors)))
            at.update(rows, cursors)
        kinds = pa.array([kind for kind, _ in ELEMENTS], pa.string()).take(pa.array(tags))
        kind = self.arrow_type(at.options)
        if not at.options.internal:
            columns = [gather(kind.field(name).type, pieces[name], len(at)) for name in RECORD]
            return struct_array(kind, columns, len(at))
        columns = [gather(kind.field(name).type, parts, len(at)) for name, parts in pieces.items()]
        return struct_array(kind, [kinds, *columns], len(at))

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the tag and the fields of every row."""
        refuse_nulls(column, self.flink_type)
        column = self._whole(column)
        tags = self._tags(column)
        sizes = np.ones(len(column), np.int64)
        for rows, fields in self._by_tag(column, tags):
            for name, part in fields.items():
                with naming(name):
                    sizes[rows] += self.parts[name].sizes(part)
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        column = self._whole(column)
        tags = self._tags(column)
        write_numbers(tags, at)
        for rows, fields in self._by_tag(column, tags):
            cursors = at.select(rows)
            for name, part in fields.items():
                self.parts[name].encode(part, cursors)
            at.update(rows, cursors)

    def _whole(self, column: pa.Array) -> pa.Array:
        """Return records that are given as value and timestamp with all fields."""
        if column.type.num_fields != len(RECORD):
            return column
        given = dict(zip(RECORD, column.flatten(), strict=True))
        kinds = {"kind": pa.array([ELEMENTS[0][0]], pa.string()).take(pa.array(np.zeros(len(column), np.int8)))}
        kind = self.arrow_type(DecodeOptions())
        fields = kinds | {name: given.get(name, pa.nulls(len(column), kind.field(name).type)) for name in self.parts}
        named = [pa.field(name, part.type) for name, part in fields.items()]
        return struct_array(pa.struct(named), list(fields.values()), len(column))

    def _tags(self, column: pa.Array) -> npt.NDArray[np.int8]:
        kinds = column.field(0)
        first = pa.array([kind for kind, _ in ELEMENTS], pa.string())
        indices = pc.index_in(kinds, first).fill_null(-1)
        tags = np.array(indices, np.int8)
        refuse_where(tags < 0, kinds, f"a kind of {', '.join(KINDS)}", "set the field kind")
        tags[(tags == 0) & ~valid_rows(column.field(1))] = WITHOUT_TIMESTAMP
        return tags

    def _by_tag(self, column: pa.Array, tags: npt.NDArray[np.int8]) -> Iterator[tuple[Flags, dict[str, pa.Array]]]:
        """Yield the rows and the fields of every tag that occurs; all other fields must be null."""
        for tag in np.unique(tags):
            rows: Flags = tags == tag
            kind, names = ELEMENTS[tag]
            fields = {name: pick(column.field(index), rows) for index, name in enumerate(self.parts, 1)}
            for name, part in fields.items():
                if name not in names and part.null_count < len(part):
                    raise ValueRangeError(
                        f"a {kind} has no {name}", expected="NULL", state=name, remedy=f"leave {name} null for a {kind}"
                    )
            yield rows, {name: fields[name] for name in names}
