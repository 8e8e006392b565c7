"""Changes of the Kafka sources.

KafkaSource           splits of readers and state of the enumerator, kept consistent
FlinkKafkaConsumer    the source before it: its union state has no enumerator. Every subtask sees all elements and keeps
                      its own; partitions that are not among them are read from their beginning
DynamicKafkaSource    positions of partitions, each of a cluster
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from pyspark_savepoint.formats.connectors.sources.dynamic_kafka import (
    ClusterEnumerator,
    DynamicKafkaEnumerator,
    DynamicKafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.kafka import (
    MIGRATED,
    NONE,
    START_MARKERS,
    STOP_MARKERS,
    KafkaEnumerator,
    KafkaPartition,
    KafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import last_offset, next_offset
from pyspark_savepoint.statebackends.connectors.connector_states import ReaderSplit, SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import (
    Edited,
    Key,
    Row,
    Target,
    matching_splits,
    moved_from,
    named_in_source,
    refuse_repeated,
    split_text,
    whole,
)

STARTS = {word: marker for marker, word in START_MARKERS.items()}
STOPS = {word: marker for marker, word in STOP_MARKERS.items()}


class KafkaEdits:
    """Edits of partitions: offsets are those of readers, of unassigned partitions those of the enumerator."""

    key_columns = ("topic", "partition")

    def key(self, value: KafkaSplit | KafkaPartition) -> Key:
        """Return topic and partition."""
        return value.topic, value.partition

    def target(self, target: Target) -> Row:
        """Return offset and marker."""
        return position_row(target)

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return kafka_position(row)

    def moved(self, value: KafkaSplit, by: int, clamp: bool) -> KafkaSplit:
        """Return the split with its offset moved."""
        if value.offset < 0:
            raise ValueError(f"{value.split_id} has no offset yet, so it cannot be moved by {by}")
        return replace(value, offset=moved_from(value.offset, by, clamp, value.split_id))

    def changed(self, value: KafkaSplit, row: Row) -> KafkaSplit:
        """Return the split with another offset or stopping offset."""
        offset = marked(row, "offset", "marker", STARTS, value.offset)
        stop = marked(row, "stop_offset", "stop_marker", STOPS, value.stop)
        if offset == NONE:
            raise ValueError(f"{value.split_id} needs an offset, or one of {', '.join(STARTS)}")
        return replace(value, offset=offset, stop=stop)

    def goes_back(self, before: KafkaSplit, after: KafkaSplit) -> bool:
        """Return whether the offset is lower, or may be."""
        return before.offset >= 0 and after.offset < before.offset and after.offset != STARTS["latest"]

    def pending(self, enumerator: KafkaEnumerator) -> Mapping[Key, KafkaSplit]:
        """Return the partitions that are not assigned; only version 3 has offsets of them."""
        return {
            self.key(known): known.split or KafkaSplit(known.topic, known.partition, NONE)
            for known in enumerator.partitions
            if not known.assigned
        }

    def with_pending(self, source: SourceState, changed: Mapping[Key, KafkaSplit]) -> SourceState:
        """Return the source with offsets of unassigned partitions; before version 3 they are assigned to readers."""
        if source.enumerator_version >= 3:
            partitions = (
                replace(known, split=changed[self.key(known)])
                if self.key(known) in changed and not known.assigned
                else known
                for known in source.enumerator.partitions
            )
            source = replace(source, enumerator=replace(source.enumerator, partitions=tuple(partitions)))
            return self._known(source)
        return self._known(self._read_by(source, changed.values()))

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with partitions at offsets in readers; without one, where the job's settings start."""
        read, left = [], []
        for row in rows:
            split = KafkaSplit(str(row["topic"]), int(row["partition"]), NONE)
            known_keys = [self.key(known.value) for known in source.splits]
            if self.key(split) in known_keys or self.key(split) in self.pending(source.enumerator):
                raise ValueError(f"{split.split_id} exists already: with_offsets changes its position")
            if all(row.get(name) is None for name in ("offset", "marker")) or row.get("marker") == MIGRATED:
                left.append(split)
            else:
                read.append(self.changed(split, row))
        refuse_repeated(self.key(split) for split in (*read, *left))
        return self._known(self._left(self._read_by(source, read), left))

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without partitions; ``forget``: a job that subscribes to them finds them as new ones."""
        if forget is None:
            raise ValueError(
                "give forget: with forget=False the partitions are never read again; with forget=True a "
                "job that still subscribes to them discovers them as new and reads them from their beginning"
            )
        enumerator: KafkaEnumerator = source.enumerator
        known = {self.key(split.value): None for split in source.splits}
        known |= dict.fromkeys(map(self.key, enumerator.partitions))
        gone = {key for given in keys for key in matching_splits(self, given, known)}
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        if forget:
            partitions = tuple(one for one in enumerator.partitions if self.key(one) not in gone)
        else:
            partitions = tuple(
                replace(one, assigned=True) if self.key(one) in gone else one for one in enumerator.partitions
            )
        changed = replace(source, splits=splits, enumerator=replace(enumerator, partitions=partitions))
        note = f"a job that still subscribes to {', '.join(sorted(map(split_text, gone)))} reads it from its beginning"
        if forget:
            return Edited(changed, (note,))
        return Edited(self._known(changed, gone))

    def _read_by(self, source: SourceState, splits: Iterable[KafkaSplit]) -> SourceState:
        """Return the source with splits that readers have from now on."""
        for split in splits:
            reader = ReaderSplit(source.emptiest_subtask(), 0, split)
            partitions = tuple(
                replace(known, assigned=True) if self.key(known) == self.key(split) else known
                for known in source.enumerator.partitions
            )
            enumerator = replace(source.enumerator, partitions=partitions)
            source = replace(source, splits=(*source.splits, reader), enumerator=enumerator)
        return source

    def _left(self, source: SourceState, splits: Sequence[KafkaSplit]) -> SourceState:
        """Return the source with partitions that the enumerator will assign, from where the job's settings start."""
        if splits and source.enumerator_version < 2:
            raise ValueError(
                f"version {source.enumerator_version} of the enumerator has assigned partitions only: give "
                f"{splits[0].split_id} an offset, or one of {', '.join(STARTS)}"
            )
        gone = {self.key(split) for split in splits}
        kept = tuple(known for known in source.enumerator.partitions if self.key(known) not in gone)
        new = tuple(
            KafkaPartition(split.topic, split.partition, False, split if source.enumerator_version >= 3 else None)
            for split in splits
        )
        return replace(source, enumerator=replace(source.enumerator, partitions=(*kept, *new)))

    def _known(self, source: SourceState, also: Iterable[Key] = ()) -> SourceState:
        """Return the source with all partitions of readers known to the enumerator, which would find them as new."""
        enumerator: KafkaEnumerator = source.enumerator
        known = {self.key(one) for one in enumerator.partitions}
        version = source.enumerator_version
        new, readers = [], list(enumerator.readers)
        for split in source.splits:
            if self.key(split.value) in known:
                continue
            value = split.value if version in (0, 3) else None
            reader = split.subtask if version == 0 else None
            if reader is not None and reader not in readers:
                readers.append(reader)
            new.append(KafkaPartition(split.value.topic, split.value.partition, True, value, reader))
            known.add(self.key(split.value))
        missing = [key for key in also if key not in known]
        if missing:
            raise ValueError(
                f"the enumerator does not know {split_text(missing[0])}, and would read it from its beginning"
            )
        if not new:
            return source
        extended = replace(enumerator, partitions=(*enumerator.partitions, *new), readers=tuple(readers))
        return replace(source, enumerator=extended)


def position_row(target: Target) -> Row:
    """Return the columns that a position of a Kafka partition sets."""
    if isinstance(target, Mapping):
        return target
    if isinstance(target, str):
        return {"offset": None, "marker": target}
    return {"offset": target, "marker": None}


def kafka_position(row: Row) -> Row:
    """Return the columns of a Kafka partition from a row of table offsets."""
    offset = row.get("offset")
    position = {"offset": offset, "marker": None if offset is not None else row.get("position")}
    return {"topic": row["stream"], "partition": int(row["partition"]), **position}


def marked(row: Row, number: str, word: str, markers: Mapping[str, int], before: int) -> int:
    """Return an offset or a marker from two columns; none of them: as before."""
    offset, marker = row.get(number), row.get(word)
    if offset is not None and marker is not None:
        raise ValueError(f"give {number} or {word}, not both: {offset} and {marker}")
    if marker is not None:
        folded = str(marker).strip().casefold()
        if folded not in markers:
            raise ValueError(f"{word} is one of {', '.join(markers)}, not {marker!r}")
        return markers[folded]
    return before if offset is None else whole(offset, number)


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
                raise ValueError(f"{split_text(self.key(value))} exists already: with_offsets changes its position")
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
        note = f"a job that still subscribes to {', '.join(sorted(map(split_text, gone)))} reads it from its beginning"
        return Edited(replace(source, splits=splits), (note,))


KAFKA = KafkaEdits()
DISCOVERED = "the source discovers the partitions of its clusters itself"


class DynamicKafkaEdits:
    """Edits of partitions: offsets are those of readers, of unassigned ones those of their cluster's enumerator."""

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

    def moved(self, value: DynamicKafkaSplit, by: int, clamp: bool) -> DynamicKafkaSplit:
        """Return the split with its offset moved."""
        return replace(value, split=KAFKA.moved(value.split, by, clamp))

    def changed(self, value: DynamicKafkaSplit, row: Row) -> DynamicKafkaSplit:
        """Return the split with another offset or stopping offset."""
        return replace(value, split=KAFKA.changed(value.split, row))

    def goes_back(self, before: DynamicKafkaSplit, after: DynamicKafkaSplit) -> bool:
        """Return whether the offset is lower, or may be."""
        return KAFKA.goes_back(before.split, after.split)

    def pending(self, enumerator: DynamicKafkaEnumerator) -> Mapping[Key, DynamicKafkaSplit]:
        """Return the partitions that are not assigned."""
        splits = (
            DynamicKafkaSplit(cluster.cluster, known.split or KafkaSplit(known.topic, known.partition, NONE))
            for cluster in enumerator.clusters
            for known in cluster.state.partitions
            if not known.assigned
        )
        return {self.key(split): split for split in splits}

    def with_pending(self, source: SourceState, changed: Mapping[Key, DynamicKafkaSplit]) -> SourceState:
        """Return the source with offsets of partitions that are not assigned."""
        enumerator: DynamicKafkaEnumerator = source.enumerator
        if changed and enumerator.kafka_version < 3:
            raise ValueError("in this release of the connector, partitions without a reader have no offset")

        def of(enumerator: ClusterEnumerator) -> ClusterEnumerator:
            partitions = (
                replace(known, split=changed[enumerator.cluster, *KAFKA.key(known)].split)
                if not known.assigned and (enumerator.cluster, *KAFKA.key(known)) in changed
                else known
                for known in enumerator.state.partitions
            )
            return replace(enumerator, state=replace(enumerator.state, partitions=tuple(partitions)))

        return replace(source, enumerator=replace(enumerator, clusters=tuple(map(of, enumerator.clusters))))

    def added(self, source: SourceState, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(f"{DISCOVERED}: none can be added")

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(
            f"{DISCOVERED}: use with_offsets to 'latest' to skip records, or a stop_offset to end a partition"
        )
