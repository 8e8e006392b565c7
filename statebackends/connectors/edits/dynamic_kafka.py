"""Changes of the dynamic Kafka source: positions of partitions, each of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from pyspark_savepoint.formats.connectors.sources.dynamic_kafka import (
    ClusterEnumerator,
    DynamicKafkaEnumerator,
    DynamicKafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.kafka import NONE, KafkaSplit
from pyspark_savepoint.statebackends.connectors.edits.kafka import KafkaEdits, kafka_position, position_row
from pyspark_savepoint.statebackends.connectors.edits.splits import Key, Row, Target
from pyspark_savepoint.statebackends.connectors.source_state import SourceState

KAFKA = KafkaEdits()
FOUND = "the source discovers the partitions of its clusters itself"


class DynamicKafkaEdits:
    """Edits of partitions: offsets are those of readers, of unassigned partitions those of their cluster's"""

    """enumerator."""

    key_columns = ("cluster", "topic", "partition")

    def key(self, value: DynamicKafkaSplit) -> Key:
        """Return cluster, topic and partition."""
        return value.cluster, *KAFKA.key(value.split)

    def target(self, target: Target) -> Row:
        """Return offset and marker."""
        return position_row(target)

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        cluster, _, topic = str(row["stream"]).partition("/")
        return {"cluster": cluster, **kafka_position({**row, "stream": topic})}

    def moved(self, value: DynamicKafkaSplit, by: int) -> DynamicKafkaSplit:
        """Return the split with its offset moved, at least to 0."""
        return replace(value, split=KAFKA.moved(value.split, by))

    def changed(self, value: DynamicKafkaSplit, row: Row) -> DynamicKafkaSplit:
        """Return the split with another offset or stopping offset."""
        return replace(value, split=KAFKA.changed(value.split, row))

    def goes_back(self, before: DynamicKafkaSplit, after: DynamicKafkaSplit) -> bool:
        """Return whether the offset is lower, or may be."""
        return KAFKA.goes_back(before.split, after.split)

    def pending(self, enumerator: DynamicKafkaEnumerator) -> Mapping[Key, DynamicKafkaSplit]:
        """Return the partitions that are not assigned."""
        found = (
            DynamicKafkaSplit(each.cluster, known.split or KafkaSplit(known.topic, known.partition, NONE))
            for each in enumerator.clusters
            for known in each.state.partitions
            if not known.assigned
        )
        return {self.key(split): split for split in found}

    def with_pending(self, source: SourceState, changed: Mapping[Key, DynamicKafkaSplit]) -> SourceState:
        """Return the source with offsets of partitions that are not assigned."""
        enumerator: DynamicKafkaEnumerator = source.enumerator
        if changed and enumerator.kafka_version < 3:
            raise ValueError("in this release of the connector, partitions without a reader have no offset")

        def of(each: ClusterEnumerator) -> ClusterEnumerator:
            partitions = (
                replace(known, split=changed[each.cluster, *KAFKA.key(known)].split)
                if not known.assigned and (each.cluster, *KAFKA.key(known)) in changed
                else known
                for known in each.state.partitions
            )
            return replace(each, state=replace(each.state, partitions=tuple(partitions)))

        return replace(source, enumerator=replace(enumerator, clusters=tuple(map(of, enumerator.clusters))))

    def added(self, source: SourceState, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(f"{FOUND}: none can be added")

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(f"{FOUND}: use with_offsets to 'latest' to skip records, or a stop_offset to end a partition")
