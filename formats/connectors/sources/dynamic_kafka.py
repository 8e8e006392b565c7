"""Dynamic Kafka source: splits of several clusters, and the enumerator's streams and clusters.

    split 1      := utf cluster  i32 split version  Kafka split
    split 2      := utf cluster  bool [i64 retained until]  i32 split version  Kafka split
    enumerator   := i32 n { utf stream  i32 n { utf cluster  i32 n utf[n] topics  utf servers  offsets } }
                    i32 enumerator version  i32 n { utf cluster  blob Kafka enumerator }
                    i32 n { utf cluster  i64 retained until  blob Kafka enumerator }                 version 3 only
    offsets      := nothing (version 1), or twice bool [blob Java object], which stay bytes

Layout from source code. Flink: ``DynamicKafkaSourceSplitSerializer``, ``DynamicKafkaSourceEnumStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Key,
    S,
    SplitEdits,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
    unknown_version,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF, payloads
from pyspark_savepoint.formats.connectors.sources.kafka import (
    ENUMERATOR,
    ENUMERATOR_VERSIONS,
    NONE,
    OF_READER,
    SPLIT_COLUMNS,
    KafkaEdits,
    KafkaEnumerator,
    KafkaSplit,
    kafka_position,
    position_row,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    BLOB,
    I32,
    I64,
    Encoding,
    after,
    constant,
    many,
    optional,
    pair,
    sized,
    versioned,
)
from pyspark_savepoint.formats.structs import Struct, of, part, struct

NAME = "dynamic_kafka"
SPLIT_VERSION = 0
#: The first version of enumerators with retained clusters.
RETAINED = 3


@struct
class DynamicKafkaSplit(Struct):
    """A Kafka split of a cluster; ``retained_until`` is the time until which it is kept if the cluster is removed."""

    order = ("cluster", "retained_until", "split")
    cluster: str = part(UTF, "a cluster")
    split: KafkaSplit = part(
        after([constant(I32, SPLIT_VERSION, "the version of a split")], of(KafkaSplit).at(OF_READER))
    )
    retained_until: int | None = part(
        optional(I64, asked="whether a split is retained"), "a time", since=2, default=None
    )

    def row(self) -> Row:
        """Return the columns of a split."""
        row = self.split.row()
        return {
            **row,
            "split_id": f"{self.cluster}-{row['split_id']}",
            "cluster": self.cluster,
            "retained_until": self.retained_until,
        }

    def position(self) -> Position:
        """Return the position at which reading continues."""
        position = self.split.position()
        return Position(f"{self.cluster}/{position.stream}", position.partition, position.next, position.marker)


INITIALIZER = optional(BLOB, asked="whether offsets are set")


@struct
class ClusterOfStream(Struct):
    """The topics of a stream in one cluster, and initializers of offsets as Java objects (None: version 1)."""

    cluster: str = part(UTF, "a cluster")
    topics: tuple[str, ...] = part(many(UTF), "topics")
    servers: str = part(UTF, "servers")
    initializers: tuple[bytes | None, bytes | None] | None = part(
        pair(INITIALIZER, "an initializer of offsets", INITIALIZER, "an initializer of offsets"), since=2, default=None
    )


#: Streams, each with its clusters.
STREAMS = many(pair(UTF, "a stream", many(of(ClusterOfStream)), "clusters"))


@dataclass(frozen=True, slots=True)
class ClusterEnumerator:
    """The Kafka enumerator of a cluster."""

    cluster: str
    state: KafkaEnumerator
    retained_until: int | None = None


@dataclass(frozen=True, slots=True)
class DynamicKafkaEnumerator:
    """Streams in the order of the file, each with the number of its clusters, and the enumerators of clusters."""

    streams: tuple[tuple[str, tuple[ClusterOfStream, ...]], ...]
    kafka_version: int
    clusters: tuple[ClusterEnumerator, ...]
    retained: tuple[ClusterEnumerator, ...] = ()

    def rows(self) -> Iterator[Row]:
        """Yield a row for each topic of a stream in a cluster, then for each partition of a cluster."""
        for stream, clusters in self.streams:
            for cluster in clusters:
                for topic in cluster.topics:
                    yield {
                        "stream": stream,
                        "cluster": cluster.cluster,
                        "topic": topic,
                        "bootstrap_servers": cluster.servers,
                        "status": "subscribed",
                    }
        for enumerator in (*self.clusters, *self.retained):
            for row in enumerator.state.rows():
                split_id = f"{enumerator.cluster}-{row['split_id']}"
                retained = enumerator.retained_until
                yield {**row, "split_id": split_id, "cluster": enumerator.cluster, "retained_until": retained}


def _clusters(kafka_version: int, retained: bool) -> Encoding[tuple[ClusterEnumerator, ...]]:
    """Return the encoding of the enumerators of clusters, all of one version."""
    is_known = kafka_version in ENUMERATOR_VERSIONS
    enumerator = sized(ENUMERATOR.at(kafka_version if is_known else 0), "an enumerator")

    def read(view: DataInputView, _: str) -> ClusterEnumerator:
        cluster = UTF.read(view, "a cluster")
        until = view.read_i64("a time") if retained else None
        if not is_known:
            raise unknown_version(kafka_version, ENUMERATOR_VERSIONS)
        return ClusterEnumerator(cluster, enumerator.read(view, ""), until)

    def write(out: DataOutputView, one: ClusterEnumerator) -> None:
        out.write_utf(one.cluster)
        if one.retained_until is not None:
            out.write_i64(one.retained_until)
        enumerator.write(out, one.state)

    return many(Encoding(read, write, 14 if retained else 6))


def _read_enumerator(view: DataInputView, version: int) -> DynamicKafkaEnumerator:
    streams, kafka = STREAMS.at(version).read(view, "streams"), view.read_i32("the version of enumerators")
    clusters = _clusters(kafka, retained=False).read(view, "clusters")
    retained = _clusters(kafka, retained=True).read(view, "retained clusters") if version >= RETAINED else ()
    return DynamicKafkaEnumerator(streams, kafka, clusters, retained)


def _write_enumerator(out: DataOutputView, value: DynamicKafkaEnumerator, version: int) -> None:
    STREAMS.at(version).write(out, value.streams)
    out.write_i32(value.kafka_version)
    _clusters(value.kafka_version, retained=False).write(out, value.clusters)
    if version >= RETAINED:
        _clusters(value.kafka_version, retained=True).write(out, value.retained)
    elif value.retained:
        raise ValueError("only version 3 can hold retained clusters")


DYNAMIC_COLUMNS = pa.schema([*columns(cluster=pa.string()), *SPLIT_COLUMNS, *columns(retained_until=pa.int64())])
DYNAMIC_KAFKA_SPLITS = ConnectorKind[DynamicKafkaSplit](
    NAME,
    SPLITS,
    DYNAMIC_COLUMNS,
    *payloads(of(DynamicKafkaSplit), (1, 2)),
    lambda split: [split.row()],
    positions=lambda split: [split.position()],
)
DYNAMIC_KAFKA_ENUMERATOR = ConnectorKind[DynamicKafkaEnumerator](
    NAME,
    SOURCE_COORDINATOR,
    pa.schema(
        [
            *DYNAMIC_COLUMNS,
            *columns(
                status=pa.string(),
                reader=pa.int32(),
                initial_discovery_finished=pa.bool_(),
                stream=pa.string(),
                bootstrap_servers=pa.string(),
            ),
        ]
    ),
    *payloads(versioned(_read_enumerator, _write_enumerator, 8), (1, 2, RETAINED)),
    DynamicKafkaEnumerator.rows,
    states=(),
)


KAFKA = KafkaEdits()
DISCOVERED = "the source discovers the partitions of its clusters itself"


class DynamicKafkaEdits(SplitEdits):
    """Edits of partitions: offsets are those of readers, of unassigned ones those of their cluster's enumerator."""

    key_columns = ("cluster", "topic", "partition")

    def key(self, value: DynamicKafkaSplit) -> Key:
        """Return cluster, topic and partition."""
        return value.cluster, *KAFKA.key(value.split)

    def target(self, target: int | str) -> Row:
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
            DynamicKafkaSplit(
                cluster.cluster, partition.split or KafkaSplit(partition.topic, partition.partition, NONE)
            )
            for cluster in enumerator.clusters
            for partition in cluster.state.partitions
            if not partition.assigned
        )
        return {self.key(split): split for split in splits}

    def with_pending(self, source: S, changed: Mapping[Key, DynamicKafkaSplit]) -> S:
        """Return the source with offsets of partitions that are not assigned."""
        enumerator: DynamicKafkaEnumerator = source.enumerator
        if changed and enumerator.kafka_version < 3:
            raise ValueError("in this release of the connector, partitions without a reader have no offset")

        def of(enumerator: ClusterEnumerator) -> ClusterEnumerator:
            partitions = (
                replace(partition, split=changed[enumerator.cluster, *KAFKA.key(partition)].split)
                if not partition.assigned and (enumerator.cluster, *KAFKA.key(partition)) in changed
                else partition
                for partition in enumerator.state.partitions
            )
            return replace(enumerator, state=replace(enumerator.state, partitions=tuple(partitions)))

        return replace(source, enumerator=replace(enumerator, clusters=tuple(map(of, enumerator.clusters))))

    def added(self, source: S, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(f"{DISCOVERED}: none can be added")

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError(
            f"{DISCOVERED}: use with_offsets to 'latest' to skip records, or a stop_offset to end a partition"
        )


CONNECTORS = (
    Connector(
        NAME,
        (DYNAMIC_KAFKA_SPLITS, DYNAMIC_KAFKA_ENUMERATOR),
        rank=3,
        versions="1, 2",
        changes="`with_offsets`",
        proof="source",
        edits=DynamicKafkaEdits(),
        effects=(
            Effect(
                "dynamic Kafka: `with_offsets`",
                "the offset, or a marker",
                "of partitions not assigned, in version 3",
                "reads from there (not tried)",
            ),
        ),
    ),
)
