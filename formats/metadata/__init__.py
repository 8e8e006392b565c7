"""The ``_metadata`` file of a snapshot: its content (model), its bytes (codec), its kind (properties)."""

from __future__ import annotations

from pyspark_savepoint.formats.metadata.codec import VERSIONS, read_metadata, uids_beside, with_uids, write_metadata
from pyspark_savepoint.formats.metadata.model import (
    FINISHED_SUBTASK,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
)
from pyspark_savepoint.formats.metadata.properties import NULL_PROPERTIES, SnapshotKind, snapshot_kind

__all__ = [
    "FINISHED_SUBTASK",
    "NULL_PROPERTIES",
    "VERSIONS",
    "CheckpointMetadata",
    "MasterState",
    "OperatorState",
    "OperatorSubtaskState",
    "SnapshotKind",
    "read_metadata",
    "snapshot_kind",
    "uids_beside",
    "with_uids",
    "write_metadata",
]
