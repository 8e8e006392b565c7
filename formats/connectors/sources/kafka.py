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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
    read_text,
    unknown_version,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

LATEST, EARLIEST, COMMITTED, NONE = -1, -2, -3, -(1 << 63)
START_MARKERS = {LATEST: "latest", EARLIEST: "earliest", COMMITTED: "committed"}
STOP_MARKERS = {LATEST: "latest", COMMITTED: "committed", NONE: "none"}
MIGRATED = "migrated"
ASSIGNED, UNASSIGNED = "assigned", "unassigned"
STATUS = (ASSIGNED, UNASSIGNED)


@dataclass(frozen=True, slots=True)
class KafkaSplit:
    """A partition with the next offset to read and the first one not to be read, or markers of these."""

    topic: str
    partition: int
    offset: int
    stop: int = NONE

    @classmethod
    def read(cls, view: DataInputView, starts: Iterable[int] = START_MARKERS) -> KafkaSplit:
        """Read a split; ``starts`` are the markers that may be in place of its offset."""
        topic, partition = _partition(view)
        offset, stop = view.read_i64("an offset"), view.read_i64("a stopping offset")
        if offset < 0 and offset not in starts:
            view.fail("an offset, or a marker of one", offset)
        if stop < 0 and stop not in STOP_MARKERS:
            view.fail("a stopping offset, or a marker of one", stop)
        return cls(topic, partition, offset, stop)

    def write(self, out: DataOutputView) -> None:
        """Write topic, partition, offset, stopping offset."""
        out.write_utf(self.topic)
        out.write_i32(self.partition)
        out.write_i64(self.offset)
        out.write_i64(self.stop)

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


@dataclass(frozen=True, slots=True)
class KafkaPartition:
    """A partition in the enumerator: versions 1 and 2 have no offsets, version 0 has the reader it is assigned to."""

    topic: str
    partition: int
    assigned: bool = True
    split: KafkaSplit | None = None
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


@dataclass(frozen=True, slots=True)
class KafkaEnumerator:
    """The partitions that the enumerator has found, and whether its first discovery is over."""

    partitions: tuple[KafkaPartition, ...]
    initial_discovery_finished: bool = True
    #: Only version 0: the readers in order, because some may have no splits.
    readers: tuple[int, ...] = ()

    @classmethod
    def read(cls, version: int, view: DataInputView) -> KafkaEnumerator:
        """Read the state of an enumerator in one of the versions 0 to 3."""
        if version == 0:
            return cls._read_0(view)
        if version not in (1, 2, 3):
            raise unknown_version(version, range(4))
        count = view.read_count("partitions", each=6)
        if version == 3:
            view.read_constant(0, "the version of splits")
        partitions = tuple(_read_partition(version, view) for _ in range(count))
        return cls(partitions, view.read_bool("whether discovery is over") if version >= 2 else True)

    @classmethod
    def _read_0(cls, view: DataInputView) -> KafkaEnumerator:
        count = view.read_count("readers", each=8)
        view.read_constant(0, "the version of splits")
        partitions: list[KafkaPartition] = []
        readers = []
        for _ in range(count):
            reader = view.read_i32("a reader")
            readers.append(reader)
            for _ in range(view.read_count("splits", each=26)):
                split = _read_split(view)
                partitions.append(KafkaPartition(split.topic, split.partition, True, split, reader))
        return cls(tuple(partitions), True, tuple(readers))

    def write(self, version: int, out: DataOutputView) -> None:
        """Write the state in a version; raise ValueError if this version cannot hold it."""
        if version == 0:
            self._write_0(out)
            return
        if version not in (1, 2, 3):
            raise unknown_version(version, range(4))
        out.write_i32(len(self.partitions))
        if version == 3:
            out.write_i32(0)
        for known in self.partitions:
            if version == 3:
                if known.split is None:
                    raise ValueError("version 3 needs a split for each partition")
                _write_split(known.split, out)
            else:
                out.write_utf(known.topic)
                out.write_i32(known.partition)
            if version >= 2:
                out.write_i32(STATUS.index(ASSIGNED if known.assigned else UNASSIGNED))
            elif not known.assigned:
                raise ValueError("version 1 cannot hold unassigned partitions")
        if version >= 2:
            out.write_bool(self.initial_discovery_finished)
        elif not self.initial_discovery_finished:
            raise ValueError("version 1 cannot record that the first discovery is not over")

    def _write_0(self, out: DataOutputView) -> None:
        if not self.initial_discovery_finished:
            raise ValueError("version 0 cannot record that the first discovery is not over")
        by_reader: dict[int, list[KafkaSplit]] = {reader: [] for reader in self.readers}
        for known in self.partitions:
            if known.split is None or known.reader not in by_reader:
                raise ValueError("version 0 needs a split and a reader for each partition")
            by_reader[known.reader].append(known.split)
        out.write_i32(len(self.readers))
        out.write_i32(0)
        for reader, splits in by_reader.items():
            out.write_i32(reader)
            out.write_i32(len(splits))
            for split in splits:
                _write_split(split, out)

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


def _partition(view: DataInputView) -> tuple[str, int]:
    topic, partition = read_text(view, "a topic"), view.read_i32("a partition")
    if not topic or partition < 0:
        view.fail("a topic and a partition", f"{topic!r}, {partition}")
    return topic, partition


def _read_partition(version: int, view: DataInputView) -> KafkaPartition:
    split = _read_split(view) if version == 3 else None
    topic, partition = (split.topic, split.partition) if split is not None else _partition(view)
    status = view.read_i32("a status") if version >= 2 else 0
    if status not in (0, 1):
        view.fail("status 0 or 1", status)
    return KafkaPartition(topic, partition, status == 0, split)


def _read_split(view: DataInputView) -> KafkaSplit:
    inner = view.sub_view(view.read_count("bytes of a split"), "a split")
    split = KafkaSplit.read(inner, (*START_MARKERS, NONE))
    inner.expect_end("a split")
    return split


def _write_split(split: KafkaSplit, out: DataOutputView) -> None:
    inner = DataOutputView()
    split.write(inner)
    out.write_blob(inner.getvalue())


def _decode_split(version: int, view: DataInputView) -> KafkaSplit:
    if version != 0:
        raise unknown_version(version, (0,))
    return KafkaSplit.read(view)


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
    _decode_split,
    lambda _, split, out: split.write(out),
    lambda split: [split.row()],
    positions=lambda split: [split.position()],
)
KAFKA_ENUMERATOR = ConnectorKind[KafkaEnumerator](
    "kafka",
    SOURCE_COORDINATOR,
    pa.schema([*SPLIT_COLUMNS, *columns(status=pa.string(), reader=pa.int32(), initial_discovery_finished=pa.bool_())]),
    KafkaEnumerator.read,
    lambda version, enumerator, out: enumerator.write(version, out),
    KafkaEnumerator.rows,
    states=(),
    check=_check_enumerators,
    positions=lambda enumerator: enumerator.unassigned(),
)
