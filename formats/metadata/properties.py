"""The properties of a snapshot: a Java object stream at the end of ``_metadata``, from version 4 on.

::

    Properties := AC ED 00 05 ...      an object of class CheckpointProperties, or null (70)

    CheckpointProperties { boolean discard..., forced, unclaimed; SnapshotType checkpointType }
    SavepointType        { enum formatType CANONICAL | NATIVE; String name; enum postCheckpointAction }
    CheckpointType       { String name; enum sharingFilesStrategy }

It is parsed into plain records without loading classes, and kept as bytes. Nothing else in ``_metadata`` records the
kind of a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject, parse_java_object

NULL_PROPERTIES = bytes.fromhex("aced000570")
SAVEPOINT_TYPE = "org.apache.flink.runtime.checkpoint.SavepointType"
CHECKPOINT_TYPE = "org.apache.flink.runtime.checkpoint.CheckpointType"


class SnapshotKind(StrEnum):
    CANONICAL_SAVEPOINT = "canonical savepoint"
    NATIVE_SAVEPOINT = "native savepoint"
    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"


SAVEPOINT_FORMATS: Mapping[str, SnapshotKind] = MappingProxyType(
    {"CANONICAL": SnapshotKind.CANONICAL_SAVEPOINT, "NATIVE": SnapshotKind.NATIVE_SAVEPOINT}
)


def snapshot_kind(properties: bytes) -> SnapshotKind:
    """Return the kind of snapshot that these properties belong to; unknown if they do not contain it.

    >>> snapshot_kind(NULL_PROPERTIES)
    <SnapshotKind.UNKNOWN: 'unknown'>
    """
    if not properties:
        return SnapshotKind.UNKNOWN
    parsed = parse_java_object(DataInputView(properties))
    snapshot_type = parsed.fields.get("checkpointType") if isinstance(parsed, JavaObject) else None
    if not isinstance(snapshot_type, JavaObject):
        return SnapshotKind.UNKNOWN
    if snapshot_type.class_name == CHECKPOINT_TYPE:
        return SnapshotKind.CHECKPOINT
    if snapshot_type.class_name != SAVEPOINT_TYPE:
        return SnapshotKind.UNKNOWN
    form = snapshot_type.fields.get("formatType")
    constant = form.constant if isinstance(form, JavaEnum) else ""
    return SAVEPOINT_FORMATS.get(constant, SnapshotKind.SAVEPOINT)
