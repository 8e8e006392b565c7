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

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

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
from pyspark_savepoint.formats.structs import (
    BOOL,
    I32,
    I64,
    Encoding,
    Struct,
    at_least,
    by_version,
    constant,
    many,
    mapped,
    of,
    pair,
    part,
    sized,
    struct,
    valid,
)

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
STARTS = {
    OF_READER: _marked(START_MARKERS, "an offset"),
    OF_ENUMERATOR: _marked((*START_MARKERS, NONE), "an offset"),
}


@struct
class KafkaSplit(Struct):
    """A partition with the next offset to read and the first one not to be read, or markers of these."""

    topic: str = part(TOPIC, "a topic")
    partition: int = part(PARTITION, "a partition")
    offset: int = part(by_version(STARTS), "an offset")
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
        for known in self.partitions:
            if not known.assigned:
                split = known.split
                yield Position(known.topic, known.partition, None) if split is None else split.position()

    def rows(self) -> Iterator[Row]:
        """Yield a row for each partition."""
        for known in self.partitions:
            yield {**known.row(), "initial_discovery_finished": self.initial_discovery_finished}


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
    for known in enumerator.partitions:
        if known.split is None or known.reader not in by_reader:
            raise ValueError("version 0 needs a split and a reader for each partition")
        by_reader[known.reader].append(known.split)
    OF_READERS.write(out, tuple((reader, tuple(splits)) for reader, splits in by_reader.items()))


#: The state of an enumerator in versions 0 to 3.
ENUMERATOR = by_version({0: Encoding(_read_first, _write_first, 8), 1: of(KafkaEnumerator)})
ENUMERATOR_VERSIONS = range(4)


def _check_enumerators(enumerators: Iterable[KafkaEnumerator]) -> None:
    for enumerator in enumerators:
        known = {(partition.topic, partition.partition) for partition in enumerator.partitions}
        if len(known) < len(enumerator.partitions):
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
