"""Kinesis streams: splits and enumerator of the source, and the state of the older FlinkKinesisConsumer.

    split      := utf streamArn  utf shardId  utf iteratorType
                  bool [bool isInstant [i64 ms]  bool isText [utf sequenceNumber]]
                  [version 1, 2: i32 n utf parent[n]  utf startHashKey  utf endHashKey]  [version 2: bool finished]
    enumerator := bool [utf lastSeenShardId]  i32 n  i32 splitVersion  {blob split  [version 1: i32 status]}[n]
    consumer   := u8 2  {bool isNull  StringValue}[8]  varint 57  u8 1  varint hash  u8 1  string number  varlong sub

Layout from source code. Connector: ``KinesisShardSplitSerializer``, ``KinesisStreamsSourceEnumeratorStateSerializer``.
The consumer's elements are tuples of ``StreamShardMetadata``, a POJO, and ``SequenceNumber`` in Kryo 2, which is kept
as bytes except for the sequence number itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    KINESIS_CONSUMER_STATE,
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    STRING_VALUE,
    UTF,
    Layouts,
    Record,
    reader,
    words,
    writer,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.java import is_well_formed, signed32, string_hash
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, KryoInput, KryoOutput
from pyspark_savepoint.formats.structs import BOOL, I64, Encoding, many, optional, sized

CONSUMER_STATE = KINESIS_CONSUMER_STATE
ITERATOR_TYPES = ("TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
STATUS = MappingProxyType({0: "assigned", 1: "unassigned", 2: "finished"})
#: Sequence numbers of the consumer that are markers of a position.
SENTINELS = MappingProxyType(
    {
        "LATEST_SEQUENCE_NUM": "latest",
        "EARLIEST_SEQUENCE_NUM": "earliest",
        "AT_TIMESTAMP_SEQUENCE_NUM": "timestamp",
        "SHARD_ENDING_SEQUENCE_NUM": "finished",
    }
)
#: Fields of ``StreamShardMetadata``, in the order of a POJO.
METADATA = (
    "adjacentParentShardId",
    "endingHashKeyRange",
    "endingSequenceNumber",
    "parentShardId",
    "shardId",
    "startingHashKeyRange",
    "startingSequenceNumber",
    "streamName",
)
NO_SUBCLASS = 2
STRING = STRING_VALUE

_FIRST = Record(
    stream=UTF,
    shard=UTF,
    iterator_type=UTF,
    marker=optional(Record(timestamp=optional(I64), sequence_number=optional(UTF))),
)
_SECOND = _FIRST.with_parts(parents=many(UTF), starting_hash_key=UTF, ending_hash_key=UTF)
SPLIT: Layouts = MappingProxyType({0: _FIRST, 1: _SECOND, 2: _SECOND.with_parts(finished=BOOL)})


def _enumerator(version: int) -> Encoding[Row]:
    """Return the layout of an enumerator's state in a version: the last shard seen, and splits of one version."""
    status = {"status": words(STATUS)} if version >= 1 else {}
    entries = {split_version: Record(split=sized(one), **status) for split_version, one in SPLIT.items()}
    last_seen = optional(UTF)

    def read(view: DataInputView, what: str) -> Row:
        last = last_seen.read(view, "a last shard")
        count = view.read_count("splits", each=4)
        split_version = view.read_i32("the version of splits")
        if split_version not in entries:
            view.fail(f"version {', '.join(map(str, entries))} of a split", split_version)
        splits = [_checked(entries[split_version].read(view, what), view) for _ in range(count)]
        return {"last_seen": last, "split_version": split_version, "splits": splits}

    def write(out: DataOutputView, value: Row) -> None:
        last_seen.write(out, value["last_seen"])
        out.write_i32(len(value["splits"]))
        out.write_i32(value["split_version"])
        for split in value["splits"]:
            entries[value["split_version"]].write(out, split)

    return Encoding(read, write, 9)


def _checked(value: Row, view: DataInputView) -> Row:
    split = value["split"]
    if not split["stream"].startswith("arn:") or split["iterator_type"] not in ITERATOR_TYPES:
        view.fail("a stream's ARN and a type of iterator", f"{split['stream']!r}, {split['iterator_type']!r}")
    return value


def _read_split(version: int, view: DataInputView) -> Row:
    return _checked({"split": reader(SPLIT, "a split")(version, view)}, view)["split"]  # type: ignore[no-any-return]


def split_row(split: Mapping[str, Any]) -> Row:
    marker = split["marker"] or {}
    return {
        "split_id": split["shard"],
        "stream": split["stream"],
        "shard": split["shard"],
        "iterator_type": split["iterator_type"],
        "sequence_number": marker.get("sequence_number"),
        "timestamp": marker.get("timestamp"),
        "finished": split.get("finished"),
    }


def _position(split: Row) -> Position:
    number = (split["marker"] or {}).get("sequence_number")
    return Position(split["stream"], split["shard"], number, split["iterator_type"])


def _enumerator_rows(value: Row) -> Iterator[Row]:
    for entry in value["splits"]:
        yield {**split_row(entry["split"]), "status": entry.get("status"), "last_seen_shard": value["last_seen"]}


class ConsumerElement:
    """One shard of the older consumer."""

    def read(self, view: DataInputView, what: str) -> Row:
        """Read the fields of the shard, and the sequence number."""
        if view.read_u8(what) != NO_SUBCLASS:
            view.fail(f"{what}: a POJO of its own class")
        row: Row = {}
        for name in METADATA:
            row[name] = None if view.read_bool(f"whether {name} is null") else STRING.read(view, name)
        if not row["streamName"] or not row["shardId"]:
            view.fail(f"{what} of a stream")
        start = view.position
        kryo = KryoInput(view.data, start, view.end, 2)
        try:
            kryo.varint()
            first = kryo.byte()
            kryo.signed()
            second, number, _ = kryo.byte(), kryo.text(), kryo.signed_long()
        except DamagedError as error:
            view.fail(*map(str, error.args))
        if (first, second) != (1, 1) or not number or not is_well_formed(number):
            view.fail(f"a sequence number of {what}")
        row |= {"number": number, "kryo": bytes(view.data[start : kryo.position])}
        view.position = kryo.position
        return row

    def write(self, view: DataOutputView, value: Row) -> None:
        """Write the element; the sequence number is written as it was read."""
        view.write_u8(NO_SUBCLASS)
        for name in METADATA:
            view.write_bool(value[name] is None)
            if value[name] is not None:
                view.write_string_value(value[name])
        view.write(value["kryo"])


def with_sequence_number(value: Mapping[str, Any], number: str) -> Row:
    """Return a shard of the older consumer that continues after the record of this number, or at a marker.

    The sub-sequence number is -1: reading does not start within an aggregated record.
    """
    kryo = KryoInput(memoryview(value["kryo"]), 0, len(value["kryo"]), 2)
    out = KryoOutput(2)
    out.varint(kryo.varint())
    out.byte(1)
    out.signed(signed32(37 * string_hash(number)))
    out.byte(1)
    out.text(number)
    out.signed_long(-1)
    return {**value, "number": number, "kryo": bytes(out.data)}


def _consumer_rows(value: Row) -> list[Row]:
    word = SENTINELS.get(value["number"])
    shard = {"split_id": value["shardId"], "stream": value["streamName"], "shard": value["shardId"]}
    return [{**shard, "sequence_number": None if word else value["number"], "marker": word}]


def _consumer_positions(value: Row) -> list[Position]:
    word = SENTINELS.get(value["number"])
    return [Position(value["streamName"], value["shardId"], None if word else value["number"], word)]


SPLIT_COLUMNS = columns(
    stream=pa.string(),
    shard=pa.string(),
    iterator_type=pa.string(),
    sequence_number=pa.string(),
    timestamp=pa.int64(),
    finished=pa.bool_(),
)
KINESIS_SPLITS = ConnectorKind[Row](
    "kinesis",
    SPLITS,
    SPLIT_COLUMNS,
    _read_split,
    writer(SPLIT),
    lambda split: [split_row(split)],
    positions=lambda split: [_position(split)],
)
ENUMERATOR = MappingProxyType({version: _enumerator(version) for version in (0, 1)})
KINESIS_ENUMERATOR = ConnectorKind[Row](
    "kinesis",
    SOURCE_COORDINATOR,
    pa.schema([*SPLIT_COLUMNS, *columns(status=pa.string(), last_seen_shard=pa.string())]),
    reader(ENUMERATOR, "an enumerator"),
    writer(ENUMERATOR),
    _enumerator_rows,
    states=(),
)
CONSUMER_ELEMENT = ConsumerElement()
KINESIS_CONSUMER = ConnectorKind[Row](
    "kinesis_consumer",
    SPLITS,
    columns(stream=pa.string(), shard=pa.string(), sequence_number=pa.string(), marker=pa.string()),
    lambda _, view: CONSUMER_ELEMENT.read(view, "a shard"),
    lambda _, value, out: CONSUMER_ELEMENT.write(out, value),
    _consumer_rows,
    (CONSUMER_STATE,),
    framed=False,
    positions=_consumer_positions,
)
