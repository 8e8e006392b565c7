"""Changes of FlinkKafkaConsumer, the source before KafkaSource: its union state has no enumerator.

Every subtask sees all elements and keeps its own; partitions that are not among them are read from their beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.connectors.sources.kafka_consumer import last_offset, next_offset
from pyspark_savepoint.statebackends.connectors.edits.kafka import STARTS, kafka_position, marked, position_row
from pyspark_savepoint.statebackends.connectors.edits.splits import (
    Edited,
    Key,
    Row,
    Target,
    named_in_source,
    shown,
)
from pyspark_savepoint.statebackends.connectors.source_state import ReaderSplit, SourceState

#: The class id of a job that registers no classes with Kryo itself.
CLASS_ID = 87
WORDS = {number: word for word, number in STARTS.items()}
#: In place of an offset that is not known.
UNKNOWN = -(1 << 63)


class ConsumerEdits:
    """Partitions of FlinkKafkaConsumer; positions are those of the next record, as in the table."""

    key_columns = ("topic", "partition")

    def key(self, value: Row) -> Key:
        """Return topic and partition."""
        return value["topic"], value["partition"]

    def target(self, target: Target) -> Row:
        """Return offset and marker."""
        return position_row(target)

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return kafka_position(row)

    def moved(self, value: Row, by: int) -> Row:
        """Return the partition with its offset moved, at least to 0."""
        following, word = next_offset(value["offset"])
        if following is None:
            raise ValueError(f"{shown(self.key(value))} is at {word}, so it cannot be moved by {by}")
        return {**value, "offset": last_offset(max(0, following + by))}

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

    def pending(self, enumerator: object) -> Mapping[Key, Row]:
        """Return nothing: there is no enumerator."""
        return {}

    def with_pending(self, source: SourceState, changed: Mapping[Key, Row]) -> SourceState:
        """Return the source: there is no enumerator."""
        return source

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with more partitions."""
        known = {self.key(split.value) for split in source.splits}
        for row in rows:
            value = {
                "class_id": source.splits[0].value["class_id"] if source.splits else CLASS_ID,
                "topic": str(row["topic"]),
                "partition": int(row["partition"]),
                "offset": last_offset("earliest"),
            }
            if self.key(value) in known:
                raise ValueError(f"{shown(self.key(value))} exists already: with_offsets changes its position")
            known.add(self.key(value))
            reader = ReaderSplit(source.emptiest_subtask(), None, self.changed(value, row))
            source = replace(source, splits=(*source.splits, reader))
        return source

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without partitions, which are read from their beginning if the job subscribes to them."""
        if not forget:
            raise ValueError(
                "FlinkKafkaConsumer reads a partition that is not in its state from the beginning: use with_offsets to "
                "'latest' to skip its records, or forget=True to remove it anyway"
            )
        gone = named_in_source(self, source, keys, {})
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        note = f"a job that still subscribes to {', '.join(sorted(map(shown, gone)))} reads it from its beginning"
        return Edited(replace(source, splits=splits), (note,))
