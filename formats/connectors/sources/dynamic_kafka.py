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

from collections.abc import Iterator
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
from pyspark_savepoint.formats.connectors.sources.kafka import SPLIT_COLUMNS, KafkaEnumerator, KafkaSplit
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

NAME = "dynamic_kafka"
SPLIT_VERSION = 0


@dataclass(frozen=True, slots=True)
class DynamicKafkaSplit:
    """A Kafka split of a cluster; ``retained_until`` is the time until which it is kept if the cluster is removed."""

    cluster: str
    split: KafkaSplit
    retained_until: int | None = None

    @classmethod
    def read(cls, version: int, view: DataInputView) -> DynamicKafkaSplit:
        """Read cluster and split."""
        if version not in (1, 2):
            raise unknown_version(version, (1, 2))
        cluster, retained = read_text(view, "a cluster"), None
        if version == 2 and view.read_bool("whether a split is retained"):
            retained = view.read_i64("a time")
        view.read_constant(SPLIT_VERSION, "the version of a split")
        return cls(cluster, KafkaSplit.read(view), retained)

    def write(self, version: int, out: DataOutputView) -> None:
        """Write cluster and split."""
        out.write_utf(self.cluster)
        if version == 2:
            out.write_bool(self.retained_until is not None)
            if self.retained_until is not None:
                out.write_i64(self.retained_until)
        elif self.retained_until is not None:
            raise ValueError("version 1 cannot hold retained splits")
        out.write_i32(SPLIT_VERSION)
        self.split.write(out)

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


@dataclass(frozen=True, slots=True)
class ClusterOfStream:
    """The topics of a stream in one cluster, and initializers of offsets as Java objects (None: version 1)."""

    stream: str
    cluster: str
    topics: tuple[str, ...]
    servers: str
    initializers: tuple[bytes | None, bytes | None] | None = None


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

    @classmethod
    def read(cls, version: int, view: DataInputView) -> DynamicKafkaEnumerator:
        """Read streams, then the enumerators of their clusters."""
        if version not in (1, 2, 3):
            raise unknown_version(version, (1, 2, 3))
        streams = []
        for _ in range(view.read_count("streams", each=6)):
            stream = read_text(view, "a stream")
            count = view.read_count("clusters", each=8)
            streams.append((stream, tuple(_read_cluster(version, stream, view) for _ in range(count))))
        kafka = view.read_i32("the version of enumerators")
        count = view.read_count("clusters", each=6)
        clusters = tuple(_read_enumerator(kafka, False, view) for _ in range(count))
        count = view.read_count("retained clusters", each=14) if version == 3 else 0
        retained = tuple(_read_enumerator(kafka, True, view) for _ in range(count))
        return cls(tuple(streams), kafka, clusters, retained)

    def write(self, version: int, out: DataOutputView) -> None:
        """Write streams and enumerators."""
        out.write_i32(len(self.streams))
        for stream, clusters in self.streams:
            out.write_utf(stream)
            out.write_i32(len(clusters))
            for cluster in clusters:
                _write_cluster(version, cluster, out)
        out.write_i32(self.kafka_version)
        out.write_i32(len(self.clusters))
        for known in self.clusters:
            _write_enumerator(self.kafka_version, known, out)
        if version == 3:
            out.write_i32(len(self.retained))
            for known in self.retained:
                _write_enumerator(self.kafka_version, known, out)
        elif self.retained:
            raise ValueError("only version 3 can hold retained clusters")

    def rows(self) -> Iterator[Row]:
        """Yield a row for each topic of a stream in a cluster, then for each partition of a cluster."""
        for stream, clusters in self.streams:
            for known in clusters:
                for topic in known.topics:
                    yield {
                        "stream": stream,
                        "cluster": known.cluster,
                        "topic": topic,
                        "bootstrap_servers": known.servers,
                        "status": "subscribed",
                    }
        for enumerator in (*self.clusters, *self.retained):
            for row in enumerator.state.rows():
                split_id = f"{enumerator.cluster}-{row['split_id']}"
                retained = enumerator.retained_until
                yield {**row, "split_id": split_id, "cluster": enumerator.cluster, "retained_until": retained}


def _read_cluster(version: int, stream: str, view: DataInputView) -> ClusterOfStream:
    cluster = read_text(view, "a cluster")
    topics = tuple(read_text(view, "a topic") for _ in range(view.read_count("topics", each=2)))
    servers = read_text(view, "servers")
    initializers = (_read_object(view), _read_object(view)) if version >= 2 else None
    return ClusterOfStream(stream, cluster, topics, servers, initializers)


def _write_cluster(version: int, known: ClusterOfStream, out: DataOutputView) -> None:
    out.write_utf(known.cluster)
    out.write_i32(len(known.topics))
    for topic in known.topics:
        out.write_utf(topic)
    out.write_utf(known.servers)
    if (version >= 2) != (known.initializers is not None):
        raise ValueError("versions 2 and later need initializers of offsets, version 1 cannot hold them")
    for initializer in known.initializers or ():
        out.write_bool(initializer is not None)
        if initializer is not None:
            out.write_blob(initializer)


def _read_object(view: DataInputView) -> bytes | None:
    return view.read_blob("an initializer of offsets") if view.read_bool("whether offsets are set") else None


def _read_enumerator(version: int, retained: bool, view: DataInputView) -> ClusterEnumerator:
    cluster = read_text(view, "a cluster")
    until = view.read_i64("a time") if retained else None
    inner = view.sub_view(view.read_count("bytes of an enumerator"), "an enumerator")
    state = KafkaEnumerator.read(version, inner)
    inner.expect_end("an enumerator")
    return ClusterEnumerator(cluster, state, until)


def _write_enumerator(version: int, known: ClusterEnumerator, out: DataOutputView) -> None:
    out.write_utf(known.cluster)
    if known.retained_until is not None:
        out.write_i64(known.retained_until)
    inner = DataOutputView()
    known.state.write(version, inner)
    out.write_blob(inner.getvalue())


DYNAMIC_COLUMNS = pa.schema([*columns(cluster=pa.string()), *SPLIT_COLUMNS, *columns(retained_until=pa.int64())])
DYNAMIC_KAFKA_SPLITS = ConnectorKind[DynamicKafkaSplit](
    NAME,
    SPLITS,
    DYNAMIC_COLUMNS,
    DynamicKafkaSplit.read,
    lambda version, split, out: split.write(version, out),
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
    DynamicKafkaEnumerator.read,
    lambda version, enumerator, out: enumerator.write(version, out),
    DynamicKafkaEnumerator.rows,
    states=(),
)
