"""What another version of Flink makes of a snapshot, whatever the job's types are.

============================== =====================================================================================
metadata                       1.x reads versions up to 4, 2.0 up to 5, 2.1 and later up to 6
snapshot classes that are gone 2.x has no Scala API, no Gelly, and moved the sink of two-phase commits: streams that
                               name such a class cannot be read at all
Kryo                           1.x wrote with Kryo 2, and 2.x reads with Kryo 5: the snapshot passes, the bytes of many
                               classes differ
============================== =====================================================================================

Flink: ``MetadataSerializers``, ``TypeSerializerSnapshot#readVersionedSnapshot``, ``KryoSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark_savepoint.formats.metadata import CheckpointMetadata
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.serializer import KryoSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    Flink,
    Resolution,
    incompatible,
    unknown,
    worst,
)

#: The newest version of metadata by the Flink since which it is read.
METADATA: tuple[tuple[Flink, int], ...] = (((2, 1), 6), ((2, 0), 5), ((1, 0), 4))
#: The last Flink that wrote a version of metadata, for jobs that do not say which they have.
LAST_WRITER: tuple[tuple[int, Flink], ...] = ((6, (2, 3)), (5, (2, 0)), (0, (1, 20)))
SECOND: Flink = (2, 0)
GONE_IN_2 = (
    "org.apache.flink.api.scala.",
    "org.apache.flink.graph.",
    "org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction",
    "org.apache.flink.api.java.typeutils.runtime.EitherSerializerSnapshot",
)


def flink_of(metadata: CheckpointMetadata) -> Flink:
    """The newest Flink that may have written the snapshot."""
    return next(flink for version, flink in LAST_WRITER if metadata.version >= version)


def metadata_problem(metadata: CheckpointMetadata, version: Flink) -> str | None:
    """Why this Flink cannot open the snapshot, or None."""
    newest = next(newest for since, newest in METADATA if version >= since)
    if metadata.version <= newest:
        return None
    return (
        f"metadata version {metadata.version}, of which Flink {'.'.join(map(str, version))} knows those up to {newest}"
    )


def crosses(metadata: CheckpointMetadata, version: Flink) -> bool:
    """Whether a job of Flink 2 takes over from Flink 1."""
    return flink_of(metadata) < SECOND <= version


def resolve_version(serializers: Iterable[TypeSerializer], metadata: CheckpointMetadata, version: Flink) -> Resolution:
    """What a newer Flink can read of an operator's serializers."""
    if not crosses(metadata, version):
        return worst(())
    return worst(found for serializer in serializers for found in _crossing(serializer))


def _crossing(serializer: TypeSerializer) -> Iterator[Resolution]:
    if serializer.snapshot_class.startswith(GONE_IN_2):
        yield incompatible(f"Flink 2 has no class {serializer.snapshot_class}, and cannot read the snapshot at all")
    if isinstance(serializer, KryoSerializer):
        yield unknown(f"{serializer.flink_type} was written by Kryo 2, and Flink 2 reads with Kryo 5")
    for child in serializer.children:
        yield from _crossing(child)
