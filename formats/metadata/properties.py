"""The properties of a snapshot: a Java object stream at the end of ``_metadata``, from version 4 on.

::

    Properties := AC ED 00 05 ...      an object of class CheckpointProperties, or null (70)

It is parsed into inert data, never instantiated, and kept as bytes. It alone says what kind of snapshot this is.
Flink's twins: ``CheckpointProperties``, ``SnapshotType``, ``SavepointType``.
"""

from __future__ import annotations

from enum import StrEnum

from pyspark_savepoint.formats.data_view import DataInputView

STREAM_HEADER = bytes.fromhex("aced0005")
NULL_PROPERTIES = bytes.fromhex("aced000570")


class SnapshotKind(StrEnum):
    """What was taken."""

    CANONICAL_SAVEPOINT = "canonical savepoint"
    NATIVE_SAVEPOINT = "native savepoint"
    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"


def check_properties(properties: bytes, path: str | None = None, base: int = 0) -> None:
    """CorruptStateError unless this is one Java object stream."""
    view = DataInputView(properties, path, base)
    if view.read(len(STREAM_HEADER), "properties") != STREAM_HEADER:
        view.position = 0
        view.fail("a Java object stream (ac ed 00 05)", properties[:4].hex(" "))


def snapshot_kind(properties: bytes) -> SnapshotKind:
    """What kind of snapshot these properties belong to; unknown where they say nothing."""
    if b"checkpoint.CheckpointType\xd6" in properties:
        return SnapshotKind.CHECKPOINT
    if b"t\x00\x06NATIVE" in properties:
        return SnapshotKind.NATIVE_SAVEPOINT
    if b"t\x00\x09CANONICAL" in properties:
        return SnapshotKind.CANONICAL_SAVEPOINT
    return SnapshotKind.UNKNOWN
