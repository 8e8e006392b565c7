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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    named_in_source,
    refuse_changes,
    removed_from_list,
    whole,
)
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
from pyspark_savepoint.formats.encodings import BOOL, I64, Encoding, many, optional, sized, valid
from pyspark_savepoint.formats.java import is_well_formed, signed32, string_hash
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, KryoInput, KryoOutput

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


def iterator_type(types: Collection[str]) -> Encoding[str]:
    """Return the encoding of a type of iterator, one of these."""
    return valid(UTF, types.__contains__, "a type of iterator")


def splits_of_one_version(splits: Layouts, **status: Encoding[str]) -> Encoding[Row]:
    """Return the encoding of the splits of an enumerator: their number and version, and each with its ``status``."""
    lists = {version: Record(split=sized(layout), **status) for version, layout in splits.items()}

    def read(view: DataInputView, what: str) -> Row:
        count = view.read_count(what, each=4)
        version = view.read_i32(f"the version of {what}")
        if version not in lists:
            view.fail(f"version {', '.join(map(str, lists))} of {what}", version)
        return {"version": version, "items": [lists[version].read(view, "a split") for _ in range(count)]}

    def write(out: DataOutputView, value: Row) -> None:
        out.write_i32(len(value["items"]))
        out.write_i32(value["version"])
        for split in value["items"]:
            lists[value["version"]].write(out, split)

    return Encoding(read, write, 8)


_FIRST = Record(
    stream=valid(UTF, lambda stream: stream.startswith("arn:"), "the ARN of a stream"),
    shard=UTF,
    iterator_type=iterator_type(ITERATOR_TYPES),
    marker=optional(Record(timestamp=optional(I64), sequence_number=optional(UTF))),
)
_SECOND = _FIRST.with_parts(parents=many(UTF), starting_hash_key=UTF, ending_hash_key=UTF)
SPLIT: Layouts = MappingProxyType({0: _FIRST, 1: _SECOND, 2: _SECOND.with_parts(finished=BOOL)})
ENUMERATOR: Layouts = MappingProxyType(
    {
        0: Record(last_seen=optional(UTF), splits=splits_of_one_version(SPLIT)),
        1: Record(last_seen=optional(UTF), splits=splits_of_one_version(SPLIT, status=words(STATUS))),
    }
)


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


def split_position(split: Row) -> Position:
    number = (split["marker"] or {}).get("sequence_number")
    return Position(split["stream"], split["shard"], number, split["iterator_type"])


def _enumerator_rows(value: Row) -> Iterator[Row]:
    for entry in value["splits"]["items"]:
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
    reader(SPLIT, "a split"),
    writer(SPLIT),
    lambda split: [split_row(split)],
    positions=lambda split: [split_position(split)],
)
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


HORIZON, LATEST, TIMESTAMP, AT_NUMBER, AFTER_NUMBER = ITERATOR_TYPES
WORDS = {"earliest": HORIZON, "latest": LATEST}
SENTINEL_WORDS = {word: number for number, word in SENTINELS.items() if word in WORDS}
DISCOVERED = "the source finds shards itself, with their parents and hash keys"


class _ShardEdits(SplitEdits):
    """What both sources have in common: a shard is named by its id."""

    key_columns = ("shard",)

    def moved(self, value: Row, by: int, clamp: bool) -> NoReturn:
        """Raise ValueError: sequence numbers are not consecutive."""
        raise ValueError(f"sequence numbers are not consecutive, so that no shard can be moved by {by}")

    def added(self, source: S, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: shards are found."""
        raise ValueError(f"{DISCOVERED}: none can be added")


class KinesisEdits(_ShardEdits):
    """Edits of shards of KinesisStreamsSource: positions are those of readers, of unassigned ones the enumerator's."""

    iterator_types: tuple[str, ...] = ITERATOR_TYPES
    #: The fields of a marker, which has one of them.
    empty_marker: Mapping[str, Any] = MappingProxyType({"timestamp": None, "sequence_number": None})

    def key(self, value: Row) -> Key:
        """Return the shard."""
        return (value["shard"],)

    def target(self, target: int | str) -> Row:
        """Return type of iterator and sequence number: a number is that of the last record read."""
        word = str(target).strip().casefold()
        if word in WORDS:
            return {"iterator_type": WORDS[word]}
        return {"iterator_type": AFTER_NUMBER, "sequence_number": _number(target)}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        *number, word = str(row["position"]).split(" ")
        return {"shard": row["partition"], "iterator_type": word, "sequence_number": number[0] if number else None}

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split with another position."""
        before = split_row(value)
        refuse_changes(row, before, ("stream", "finished"))
        names = ("iterator_type", "sequence_number", "timestamp")
        if all(row.get(name) == before[name] for name in names) or not any(name in row for name in names):
            return value
        if value.get("finished"):
            raise ValueError(f"shard {value['shard']} was read to its end, and its child shards are read")
        number, time = row.get("sequence_number"), row.get("timestamp")
        kind = row.get("iterator_type") or (AFTER_NUMBER if number is not None else TIMESTAMP if time else None)
        if kind not in self.iterator_types:
            raise ValueError(f"iterator_type is one of {', '.join(self.iterator_types)}, not {kind!r}")
        if (number is not None) != (kind in (AT_NUMBER, AFTER_NUMBER)):
            raise ValueError(f"{AT_NUMBER} and {AFTER_NUMBER} have a sequence_number, others have none")
        if (time is not None) != (kind == TIMESTAMP):
            raise ValueError(f"{TIMESTAMP} has a timestamp in ms, others have none")
        marker = None
        if number is not None:
            marker = {**self.empty_marker, "sequence_number": _number(number)}
        elif time is not None:
            marker = {**self.empty_marker, "timestamp": whole(time, "timestamp")}
        return {**value, "iterator_type": kind, "marker": marker}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be."""
        first, second = split_row(before), split_row(after)
        if first == second or second["iterator_type"] == LATEST or first["iterator_type"] == HORIZON:
            return False
        numbers = first["sequence_number"], second["sequence_number"]
        return None in numbers or _is_lower(numbers[1], numbers[0])

    def pending(self, enumerator: Row) -> Mapping[Key, Row]:
        """Return the shards that are not assigned: in version 0 all that the enumerator keeps."""
        return {
            self.key(entry["split"]): entry["split"]
            for entry in enumerator["splits"]["items"]
            if entry.get("status") in (None, "unassigned")
        }

    def with_pending(self, source: S, changed: Mapping[Key, Row]) -> S:
        """Return the source with other positions of shards that are not assigned."""
        splits = [
            {**entry, "split": changed.get(self.key(entry["split"]), entry["split"])}
            if entry.get("status") in (None, "unassigned")
            else entry
            for entry in source.enumerator["splits"]["items"]
        ]
        changed_splits = {**source.enumerator["splits"], "items": splits}
        return replace(source, enumerator={**source.enumerator, "splits": changed_splits})

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: nothing would read the shard or its children."""
        named_in_source(self, source, keys, self.pending(source.enumerator))
        raise ValueError(
            "a removed shard is never found again, and its child shards wait for its end: use "
            "with_offsets to 'latest' to skip its records"
        )


class KinesisConsumerEdits(_ShardEdits):
    """Shards of FlinkKinesisConsumer: union state, and no enumerator."""

    def key(self, value: Row) -> Key:
        """Return the shard."""
        return (value["shardId"],)

    def target(self, target: int | str) -> Row:
        """Return sequence number, that of the last record read, or word."""
        word = str(target).strip().casefold()
        if word in SENTINEL_WORDS:
            return {"marker": word}
        return {"sequence_number": _number(target)}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        position = str(row["position"])
        return {
            "shard": row["partition"],
            "sequence_number" if position.isascii() and position.isdigit() else "marker": position,
        }

    def changed(self, value: Row, row: Row) -> Row:
        """Return the shard with another sequence number."""
        refuse_changes(row, {"stream": value["streamName"]}, ("stream",))
        number, marker = row.get("sequence_number"), row.get("marker")
        if number is not None and marker is not None:
            raise ValueError(f"give sequence_number or marker, not both: {number} and {marker}")
        if marker is not None and marker != SENTINELS.get(value["number"]):
            if marker not in SENTINEL_WORDS:
                raise ValueError(f"marker is one of {', '.join(SENTINEL_WORDS)}, not {marker!r}")
            number = SENTINEL_WORDS[marker]
        elif number is not None:
            number = _number(number)
        if number is None or number == value["number"]:
            return value
        if SENTINELS.get(value["number"]) == "finished":
            raise ValueError(f"shard {value['shardId']} was read to its end, and its child shards are read")
        return with_sequence_number(value, number)

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be."""
        first, second = before["number"], after["number"]
        if first == second or SENTINELS.get(second) == "latest" or SENTINELS.get(first) == "earliest":
            return False
        return not (first.isdigit() and second.isdigit()) or _is_lower(second, first)

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without shards, which are read from their beginning as long as the stream has them."""
        note = "{} is read from its beginning, if the stream still has it"
        return removed_from_list(self, source, keys, forget, "FlinkKinesisConsumer", "shard", note)


def _is_lower(number: str, other: str) -> bool:
    """Return whether a sequence number is lower: their digits are compared, which may be more than ``int`` takes."""
    first, second = number.lstrip("0"), other.lstrip("0")
    return (len(first), first) < (len(second), second)


def _number(given: object) -> str:
    text = str(given).strip()
    if isinstance(given, bool) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"a position in a shard is the sequence number of a record, earliest or latest, not {given!r}")
    return text


CONNECTORS = (
    Connector(
        "kinesis",
        (KINESIS_SPLITS, KINESIS_ENUMERATOR),
        rank=5,
        versions="split 0 to 2, enumerator 0, 1",
        changes="`with_offsets`",
        proof="source",
        edits=KinesisEdits(),
        effects=(
            Effect(
                "Kinesis: `with_offsets`",
                "type of iterator with sequence number or time",
                "of shards not assigned",
                "continues after the record, or at the time (not tried)",
            ),
        ),
        refusals=(Refusal("Kinesis: shards that are added or removed", "Children wait for their parents' end."),),
    ),
    Connector(
        "kinesis_consumer",
        (KINESIS_CONSUMER,),
        about="FlinkKinesisConsumer",
        versions="union state",
        changes="`with_offsets`, `remove_splits`",
        proof="source",
        edits=KinesisConsumerEdits(),
        effects=(
            Effect(
                "FlinkKinesisConsumer: `with_offsets`",
                "sequence number of the last record read, or a sentinel",
                "there is none",
                "continues after it (not tried)",
            ),
        ),
    ),
)
