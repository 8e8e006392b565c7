"""Effects of another Flink version on a snapshot, independent of the job's types.

============================== =====================================================================================
metadata                       1.x reads versions up to 4, 2.0 up to 5, 2.1 and later up to 6
removed snapshot classes       2.x has no Scala API, no Gelly, and moved the sink of two-phase commits: streams that
                               name such a class cannot be read at all
Kryo                           1.x wrote with Kryo 2, and 2.x reads with Kryo 5: the snapshot passes, the bytes of many
                               classes differ
============================== =====================================================================================

Flink: ``MetadataSerializers``, ``TypeSerializerSnapshot#readVersionedSnapshot``, ``KryoSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark_savepoint.formats.flink_releases import last_with_metadata, release_of, why_unknown
from pyspark_savepoint.formats.metadata import CheckpointMetadata
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    Flink,
    Resolution,
    incompatible,
    unknown,
    worst,
)

SECOND: Flink = (2, 0)


def flink_of(metadata: CheckpointMetadata) -> Flink:
    """Return the newest Flink that may have written the snapshot."""
    return last_with_metadata(metadata.version).version


def metadata_problem(metadata: CheckpointMetadata, version: Flink) -> str | None:
    """Return why this Flink cannot open the snapshot, or None."""
    newest = release_of(version).metadata
    if metadata.version <= newest:
        return None
    return f"metadata version {metadata.version}; Flink {'.'.join(map(str, version))} reads versions up to {newest}"


def crosses(metadata: CheckpointMetadata, version: Flink) -> bool:
    """Return whether a job of Flink 2 restores a snapshot of Flink 1."""
    return flink_of(metadata) < SECOND <= version


def resolve_version(
    serializers: Iterable[TypeSerializer], metadata: CheckpointMetadata, version: Flink, kryo: bool = True
) -> Resolution:
    """Return the verdict of a newer Flink about an operator's serializers; about those of Kryo only if asked."""
    if not crosses(metadata, version):
        return worst(())
    return worst(found for serializer in serializers for found in _crossing(serializer, version, kryo))


def _crossing(serializer: TypeSerializer, version: Flink, kryo: bool) -> Iterator[Resolution]:
    problem = why_unknown(serializer.snapshot_class, version)
    if problem is not None:
        yield incompatible(f"{problem}, and cannot read the snapshot at all")
    if kryo and isinstance(serializer, KryoSerializer):
        yield unknown(
            f"{serializer.flink_type} was written by Kryo 2, and Flink 2 reads with Kryo 5: check_migration shows "
            "what becomes of the values"
        )
    for child in serializer.children:
        yield from _crossing(child, version, kryo)
