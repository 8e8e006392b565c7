"""Kafka source (FLIP-27): splits of readers, and the enumerator's partitions.

    split            := utf topic  i32 partition  i64 offset  i64 stop                                    version 0
    enumerator 0     := i32 readers  i32 0  { i32 reader  i32 n  blob split[n] }[readers]                  Flink 1.12
    enumerator 1     := i32 n { utf topic  i32 partition }[n]                                  1.13 to 1.17, Kafka 3.0
    enumerator 2     := i32 n { utf topic  i32 partition  i32 status }[n]  bool finished              Kafka 3.1 to 4.0
    enumerator 3     := i32 n  i32 0  { blob split  i32 status }[n]  bool finished                           Kafka 5.0

``offset`` is the next one to read, or a marker: -1 latest, -2 earliest, -3 committed, the smallest long migrated (only
in enumerators). ``stop`` is the first one not to be read; the smallest long means none. Status 0 is assigned, 1 not
yet; ``finished``: the first discovery of partitions is over, so that new ones are read from their beginning.
Flink: ``KafkaPartitionSplitSerializer``, ``KafkaSourceEnumStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    moved_from,
    named_in_source,
    refuse_repeated,
    split_text,
    split_texts,
    whole,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF, payloads
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    BOOL,
    I32,
    I64,
    Encoding,
    at_least,
    by_version,
    constant,
    many,
    mapped,
    pair,
    sized,
    valid,
)
from pyspark_savepoint.formats.structs import Struct, of, part, struct

LATEST, EARLIEST, COMMITTED, NONE = -1, -2, -3, -(1 << 63)
START_MARKERS = {LATEST: "latest", EARLIEST: "earliest", COMMITTED: "committed"}
STOP_MARKERS = {LATEST: "latest", COMMITTED: "committed", NONE: "none"}
MIGRATED = "migrated"
ASSIGNED, UNASSIGNED = "assigned", "unassigned"
STATUS = (ASSIGNED, UNASSIGNED)


TOPIC, PARTITION = valid(UTF, bool, "a topic"), at_least(I32, 0, "{} from 0 on")


def _marked(markers: Collection[int], what: str) -> Encoding[int]:
    return valid(I64, lambda offset: offset >= 0 or offset in markers, f"{what}, or a marker of one")


#: The versions of a split: in the state of a reader, and in that of an enumerator.
OF_READER, OF_ENUMERATOR = 0, 1
FIRST_OFFSETS = {
    OF_READER: _marked(START_MARKERS, "an offset"),
    OF_ENUMERATOR: _marked((*START_MARKERS, NONE), "an offset"),
}


@struct
class KafkaSplit(Struct):
    """A partition with the next offset to read and the first one not to be read, or markers of these."""

    topic: str = part(TOPIC, "a topic")
    partition: int = part(PARTITION, "a partition")
    offset: int = part(by_version(FIRST_OFFSETS), "an offset")
    stop: int = part(_marked(STOP_MARKERS, "a stopping offset"), "a stopping offset", default=NONE)

    @property
    def split_id(self) -> str:
        """The id of the split in Flink."""
        return f"{self.topic}-{self.partition}"

    def row(self) -> Row:
        """Return the columns of a split; NULL where a marker is in place of an offset."""
        return {
            "split_id": self.split_id,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset if self.offset >= 0 else None,
            "marker": None if self.offset >= 0 else START_MARKERS.get(self.offset, MIGRATED),
            "stop_offset": self.stop if self.stop >= 0 else None,
            "stop_marker": None if self.stop >= 0 else STOP_MARKERS[self.stop],
        }

    def position(self) -> Position:
        """Return the position at which reading continues."""
        row = self.row()
        return Position(self.topic, self.partition, row["offset"], row["marker"])


SPLIT_OF_ENUMERATOR = sized(of(KafkaSplit).at(OF_ENUMERATOR), "a split")
STATUS_CODE = valid(I32, range(len(STATUS)).__contains__, "status 0 or 1")
IS_ASSIGNED = Encoding(
    lambda view, what: not STATUS_CODE.read(view, what), lambda out, assigned: out.write_i32(not assigned), 4
)


@struct
class KafkaPartition(Struct):
    """A partition in the enumerator: versions 1 and 2 have no offsets, version 0 has the reader it is assigned to."""

    order = ("split", "topic", "partition", "assigned")
    topic: str = part(TOPIC, "a topic", until=2, droppable=True)
    partition: int = part(PARTITION, "a partition", until=2, droppable=True)
    assigned: bool = part(IS_ASSIGNED, "a status", since=2, absent=True, default=True)
    split: KafkaSplit | None = part(SPLIT_OF_ENUMERATOR, "a split", since=3, droppable=True, default=None)
    reader: int | None = None

    def row(self) -> Row:
        """Return the columns of a partition."""
        return {
            **(self.split.row() if self.split is not None else {}),
            "split_id": f"{self.topic}-{self.partition}",
            "topic": self.topic,
            "partition": self.partition,
            "status": STATUS[not self.assigned],
            "reader": self.reader,
        }


def _with_topic(one: KafkaPartition) -> KafkaPartition:
    """Return a partition of version 3 with the topic and the number of its split."""
    assert one.split is not None
    return replace(one, topic=one.split.topic, partition=one.split.partition)


VERSION_OF_SPLITS = constant(I32, 0, "the version of splits")
PARTITIONS = by_version(
    {1: many(of(KafkaPartition)), 3: many(mapped(of(KafkaPartition), _with_topic), behind=VERSION_OF_SPLITS)}
)


@struct
class KafkaEnumerator(Struct):
    """The partitions that the enumerator has found, and whether its first discovery is over."""

    partitions: tuple[KafkaPartition, ...] = part(PARTITIONS, "partitions")
    initial_discovery_finished: bool = part(BOOL, "whether discovery is over", since=2, absent=True, default=True)
    #: Only version 0: the readers in order, because some may have no splits.
    readers: tuple[int, ...] = ()

    def unassigned(self) -> Iterator[Position]:
        """Yield the positions of partitions that are not assigned to a reader."""
        for partition in self.partitions:
            if not partition.assigned:
                split = partition.split
                yield Position(partition.topic, partition.partition, None) if split is None else split.position()

    def rows(self) -> Iterator[Row]:
        """Yield a row for each partition."""
        for partition in self.partitions:
            yield {**partition.row(), "initial_discovery_finished": self.initial_discovery_finished}


OF_READERS = many(pair(I32, "a reader", many(SPLIT_OF_ENUMERATOR), "splits"), behind=VERSION_OF_SPLITS)


def _read_first(view: DataInputView, _: str) -> KafkaEnumerator:
    """Read version 0, which has the splits of each reader."""
    of_readers = OF_READERS.read(view, "readers")
    partitions = (
        KafkaPartition(split.topic, split.partition, True, split, reader)
        for reader, splits in of_readers
        for split in splits
    )
    return KafkaEnumerator(tuple(partitions), True, tuple(reader for reader, _ in of_readers))


def _write_first(out: DataOutputView, enumerator: KafkaEnumerator) -> None:
    if not enumerator.initial_discovery_finished:
        raise ValueError("version 0 cannot record that the first discovery is not over")
    by_reader: dict[int, list[KafkaSplit]] = {reader: [] for reader in enumerator.readers}
    for partition in enumerator.partitions:
        if partition.split is None or partition.reader not in by_reader:
            raise ValueError("version 0 needs a split and a reader for each partition")
        by_reader[partition.reader].append(partition.split)
    OF_READERS.write(out, tuple((reader, tuple(splits)) for reader, splits in by_reader.items()))


#: The state of an enumerator in versions 0 to 3.
ENUMERATOR = by_version({0: Encoding(_read_first, _write_first, 8), 1: of(KafkaEnumerator)})
ENUMERATOR_VERSIONS = range(4)


def _check_enumerators(enumerators: Iterable[KafkaEnumerator]) -> None:
    for enumerator in enumerators:
        partition_keys = {(partition.topic, partition.partition) for partition in enumerator.partitions}
        if len(partition_keys) < len(enumerator.partitions):
            raise ValueError("a partition exists twice")


SPLIT_COLUMNS = columns(
    topic=pa.string(),
    partition=pa.int32(),
    offset=pa.int64(),
    marker=pa.string(),
    stop_offset=pa.int64(),
    stop_marker=pa.string(),
)
KAFKA_SPLITS = ConnectorKind[KafkaSplit](
    "kafka",
    SPLITS,
    SPLIT_COLUMNS,
    *payloads(of(KafkaSplit), (OF_READER,)),
    lambda split: [split.row()],
    positions=lambda split: [split.position()],
)
KAFKA_ENUMERATOR = ConnectorKind[KafkaEnumerator](
    "kafka",
    SOURCE_COORDINATOR,
    pa.schema([*SPLIT_COLUMNS, *columns(status=pa.string(), reader=pa.int32(), initial_discovery_finished=pa.bool_())]),
    *payloads(ENUMERATOR, ENUMERATOR_VERSIONS),
    KafkaEnumerator.rows,
    states=(),
    check=_check_enumerators,
    positions=lambda enumerator: enumerator.unassigned(),
)


STARTS = {word: marker for marker, word in START_MARKERS.items()}
STOPS = {word: marker for marker, word in STOP_MARKERS.items()}


class KafkaEdits(SplitEdits):
    """Edits of partitions: offsets are those of readers, of unassigned partitions those of the enumerator."""

    key_columns = ("topic", "partition")

    def key(self, value: KafkaSplit | KafkaPartition) -> Key:
        """Return topic and partition."""
        return value.topic, value.partition

    def target(self, target: int | str) -> Row:
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
            self.key(partition): partition.split or KafkaSplit(partition.topic, partition.partition, NONE)
            for partition in enumerator.partitions
            if not partition.assigned
        }

    def with_pending(self, source: S, changed: Mapping[Key, KafkaSplit]) -> S:
        """Return the source with offsets of unassigned partitions; before version 3 they are assigned to readers."""
        if source.enumerator_version >= 3:
            partitions = (
                replace(partition, split=changed[self.key(partition)])
                if self.key(partition) in changed and not partition.assigned
                else partition
                for partition in source.enumerator.partitions
            )
            source = replace(source, enumerator=replace(source.enumerator, partitions=tuple(partitions)))
            return self._known(source)
        return self._known(self._read_by(source, changed.values()))

    def added(self, source: S, rows: Sequence[Row]) -> S:
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

    def fresh(self, version: int) -> KafkaEnumerator | None:
        """Return an enumerator whose first discovery is not over, which older versions cannot say."""
        return KafkaEnumerator((), False) if version >= 2 else None

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without partitions; ``forget``: a job that subscribes to them finds them as new ones."""
        if forget is None:
            raise ValueError(
                "give forget: with forget=False the partitions are never read again; with forget=True a "
                "job that still subscribes to them discovers them as new and reads them from their beginning"
            )
        enumerator: KafkaEnumerator = source.enumerator
        removed_keys = named_in_source(self, source, keys, dict.fromkeys(map(self.key, enumerator.partitions)))
        if forget:
            partitions = tuple(one for one in enumerator.partitions if self.key(one) not in removed_keys)
        else:
            partitions = tuple(
                replace(one, assigned=True) if self.key(one) in removed_keys else one for one in enumerator.partitions
            )
        changed = replace(self.without(source, removed_keys), enumerator=replace(enumerator, partitions=partitions))
        note = f"a job that still subscribes to {split_texts(removed_keys)} reads it from its beginning"
        if forget:
            return Edited(changed, (note,))
        return Edited(self._known(changed, removed_keys))

    def _read_by(self, source: S, splits: Iterable[KafkaSplit]) -> S:
        """Return the source with splits that readers have from now on."""
        for split in splits:
            partitions = tuple(
                replace(partition, assigned=True) if self.key(partition) == self.key(split) else partition
                for partition in source.enumerator.partitions
            )
            enumerator = replace(source.enumerator, partitions=partitions)
            source = replace(source.with_split(0, split), enumerator=enumerator)
        return source

    def _left(self, source: S, splits: Sequence[KafkaSplit]) -> S:
        """Return the source with partitions that the enumerator will assign, from where the job's settings start."""
        if splits and source.enumerator_version < 2:
            raise ValueError(
                f"version {source.enumerator_version} of the enumerator has assigned partitions only: give "
                f"{splits[0].split_id} an offset, or one of {', '.join(STARTS)}"
            )
        split_keys = {self.key(split) for split in splits}
        kept = tuple(partition for partition in source.enumerator.partitions if self.key(partition) not in split_keys)
        new = tuple(
            KafkaPartition(split.topic, split.partition, False, split if source.enumerator_version >= 3 else None)
            for split in splits
        )
        return replace(source, enumerator=replace(source.enumerator, partitions=(*kept, *new)))

    def _known(self, source: S, also: Iterable[Key] = ()) -> S:
        """Return the source with all partitions of readers known to the enumerator, which would find them as new."""
        enumerator: KafkaEnumerator = source.enumerator
        partition_keys = {self.key(one) for one in enumerator.partitions}
        version = source.enumerator_version
        new, readers = [], list(enumerator.readers)
        for split in source.splits:
            if self.key(split.value) in partition_keys:
                continue
            value = split.value if version in (0, 3) else None
            reader = split.subtask if version == 0 else None
            if reader is not None and reader not in readers:
                readers.append(reader)
            new.append(KafkaPartition(split.value.topic, split.value.partition, True, value, reader))
            partition_keys.add(self.key(split.value))
        missing = [key for key in also if key not in partition_keys]
        if missing:
            raise ValueError(
                f"the enumerator does not know {split_text(missing[0])}, and would read it from its beginning"
            )
        if not new:
            return source
        extended = replace(enumerator, partitions=(*enumerator.partitions, *new), readers=tuple(readers))
        return replace(source, enumerator=extended)


def position_row(target: int | str) -> Row:
    """Return the columns that a position of a Kafka partition sets."""
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


CONNECTORS = (
    Connector(
        "kafka",
        (KAFKA_SPLITS, KAFKA_ENUMERATOR),
        rank=2,
        versions="split 0, enumerator 0 to 3",
        changes="splits",
        proof="edited",
        edits=KafkaEdits(),
        new_enumerator=KafkaEnumerator(()),
        effects=(
            Effect(
                "`with_offsets` of Kafka",
                "the offset, or a marker",
                "unchanged for assigned partitions. Unassigned ones keep the offset here (version 3), or are assigned "
                "to a reader (before version 3)",
                "reads from there",
            ),
            Effect(
                "`add_splits` of Kafka, with an offset",
                "in the subtask with the fewest",
                "assigned",
                "reads from there",
            ),
            Effect("the same without one", "", "not assigned", "reads from where the job's settings start"),
            Effect("`remove_splits(forget=False)` of Kafka", "removed", "stays assigned", "never reads it again"),
            Effect(
                "`remove_splits(forget=True)` of Kafka",
                "removed",
                "removed",
                "discovers it as new, if the job subscribes to it: reads it from its beginning, whatever the settings",
            ),
            Effect(
                "`start_over` of Kafka, versions 2 and 3",
                "removed",
                "empty, with the initial discovery marked as unfinished",
                "a first start",
            ),
        ),
    ),
)
