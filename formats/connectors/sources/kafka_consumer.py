"""FlinkKafkaConsumer, the source before KafkaSource: union state ``topic-partition-offset-states``.

    element := varint 57  u8 1  varint zigzag(cachedHash)  varint zigzag(partition)  u8 1  string topic  i64 offset

A tuple of a ``KafkaTopicPartition`` in Kryo 2 and a long. The first number is the class id (85 in a job that registers
no further classes) plus 2. The offset is that of the last record read; reading continues after it.
Connector: ``FlinkKafkaConsumerBase``. Written by the real class with Flink 1.10, 1.13, 1.17 and 1.20, the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    moved_from,
    removed_from_list,
    split_text,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    KAFKA_CONSUMER_STATE,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.sources.kafka import (
    KAFKA_SPLITS,
    STARTS,
    kafka_position,
    marked,
    position_row,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.java import is_well_formed, signed32, string_hash
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, KryoInput, KryoOutput

STATE = KAFKA_CONSUMER_STATE
MAX_LONG = (1 << 63) - 1
#: Offsets that are markers of a position, and the words for them.
NOT_SET, EARLIEST, LATEST, COMMITTED = "not set", "earliest", "latest", "committed"
SENTINELS = MappingProxyType(
    {-915623761776: NOT_SET, -915623761775: EARLIEST, -915623761774: LATEST, -915623761773: COMMITTED}
)


class PartitionElement:
    """One element of the state."""

    def read(self, view: DataInputView, what: str) -> Row:
        """Read class id, topic, partition, and the offset of the last record read."""
        kryo = KryoInput(view.data, view.position, view.end, 2)
        try:
            class_id = kryo.varint()
            if kryo.byte() != 1:
                view.fail(f"{what} that is not null")
            hash_code, partition = kryo.signed(), kryo.signed()
            if kryo.byte() != 1:
                view.fail(f"a topic of {what} that is not null")
            topic = kryo.text()
        except DamagedError as error:
            view.fail(*map(str, error.args))
        if (
            not topic
            or not is_well_formed(topic)
            or partition < 0
            or hash_code != topic_partition_hash(topic, partition)
        ):
            view.fail(f"{what} whose hash code is that of its topic and partition", hash_code)
        view.position = kryo.position
        offset = view.read_i64(f"an offset of {what}")
        # Reading continues after this offset; after -1, it starts at 0.
        if not -1 <= offset < MAX_LONG and offset not in SENTINELS:
            view.fail("an offset, or a marker of one", offset)
        return {"class_id": class_id, "topic": topic, "partition": partition, "offset": offset}

    def write(self, view: DataOutputView, value: Mapping[str, Any]) -> None:
        """Write the element as Kryo 2 does."""
        topic, partition = value["topic"], value["partition"]
        kryo = KryoOutput(2)
        kryo.varint(value["class_id"])
        kryo.byte(1)
        for number in (topic_partition_hash(topic, partition), partition):
            kryo.signed(number)
        kryo.byte(1)
        kryo.text(topic)
        view.write(kryo.data)
        view.write_i64(value["offset"])


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return ``KafkaTopicPartition#hashCode``.

    >>> topic_partition_hash("o", 0)
    3441
    """
    return signed32(31 * string_hash(topic) + partition)


def next_offset(offset: int) -> tuple[int | None, str | None]:
    """Return the offset of the next record to read, or None and the word of a sentinel.

    >>> next_offset(41), next_offset(-915623761775)
    ((42, None), (None, 'earliest'))
    """
    word = SENTINELS.get(offset)
    return (None, word) if word is not None else (offset + 1, None)


def last_offset(following: int | str) -> int:
    """Return the offset that is stored for the next record to read, or for the word of a sentinel."""
    if isinstance(following, str):
        known = {word: offset for offset, word in SENTINELS.items()}
        if following not in known:
            raise OptionError("a position in a partition is not valid", expected=", ".join(known), found=following)
        return known[following]
    return following - 1


def _rows(value: Row) -> list[Row]:
    following, marker = next_offset(value["offset"])
    row = {
        "split_id": f"{value['topic']}-{value['partition']}",
        "topic": value["topic"],
        "partition": value["partition"],
    }
    return [{**row, "offset": following, "marker": marker, "last_offset": None if marker else value["offset"]}]


def _positions(value: Row) -> list[Position]:
    following, marker = next_offset(value["offset"])
    return [Position(value["topic"], value["partition"], following, marker)]


ELEMENT = PartitionElement()
KAFKA_CONSUMER = ConnectorKind[Row](
    "kafka_consumer",
    SPLITS,
    columns(topic=pa.string(), partition=pa.int32(), offset=pa.int64(), marker=pa.string(), last_offset=pa.int64()),
    lambda _, view: ELEMENT.read(view, "a partition"),
    lambda _, value, out: ELEMENT.write(out, value),
    _rows,
    (STATE,),
    framed=False,
    positions=_positions,
)


#: The class id of a job that registers no classes with Kryo itself.
CLASS_ID = 87
WORDS = {number: word for word, number in STARTS.items()}
#: In place of an offset that is not known.
UNKNOWN = -(1 << 63)


class ConsumerEdits(SplitEdits):
    """Partitions of FlinkKafkaConsumer; positions are those of the next record, as in the table."""

    key_columns = ("topic", "partition")

    def key(self, value: Row) -> Key:
        """Return topic and partition."""
        return value["topic"], value["partition"]

    def target(self, target: int | str) -> Row:
        """Return offset and marker."""
        return position_row(target)

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return kafka_position(row)

    def moved(self, value: Row, by: int, clamp: bool) -> Row:
        """Return the partition with its offset moved."""
        following, word = next_offset(value["offset"])
        if following is None:
            raise ValueError(f"{split_text(self.key(value))} is at {word}, so it cannot be moved by {by}")
        return {**value, "offset": last_offset(moved_from(following, by, clamp, split_text(self.key(value))))}

    def changed(self, value: Row, row: Row) -> Row:
        """Return the partition with another offset."""
        if row.get("stop_offset") is not None or row.get("stop_marker") not in (None, "none"):
            raise ValueError("FlinkKafkaConsumer has no stopping offsets: leave stop_offset and stop_marker out")
        number = marked(row, "offset", "marker", STARTS, UNKNOWN)
        if number == UNKNOWN:
            return value
        return {**value, "offset": last_offset(WORDS.get(number, number))}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether the offset is lower, or may be."""
        first, _ = next_offset(before["offset"])
        second, word = next_offset(after["offset"])
        return first is not None and word != "latest" and (second is None or second < first)

    def added(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source with more partitions."""
        existing_keys = {self.key(split.value) for split in source.splits}
        for row in rows:
            value = {
                "class_id": source.splits[0].value["class_id"] if source.splits else CLASS_ID,
                "topic": str(row["topic"]),
                "partition": int(row["partition"]),
                "offset": last_offset("earliest"),
            }
            if self.key(value) in existing_keys:
                raise ValueError(f"{split_text(self.key(value))} exists already: with_offsets changes its position")
            existing_keys.add(self.key(value))
            source = source.with_split(None, self.changed(value, row))
        return source

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without partitions, which are read from their beginning if the job subscribes to them."""
        note = "a job that still subscribes to {} reads it from its beginning"
        return removed_from_list(self, source, keys, forget, "FlinkKafkaConsumer", "partition", note)


CONNECTORS = (
    Connector(
        "kafka_consumer",
        (KAFKA_CONSUMER,),
        about="FlinkKafkaConsumer",
        versions="union state, next and last offset",
        changes="splits, `migrate_source`",
        proof="measured",
        edits=ConsumerEdits(),
        extra_columns=tuple(KAFKA_SPLITS.columns.names),
        effects=(
            Effect(
                "FlinkKafkaConsumer: `with_offsets`, `add_splits`",
                "union state: the offset of the last record read",
                "there is none",
                "continues after it. Partitions that are missing in the state are read from their beginning, so "
                "`remove_splits` needs `forget=True`",
            ),
        ),
    ),
)
