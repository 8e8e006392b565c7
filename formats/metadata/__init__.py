"""The ``_metadata`` file of a snapshot: its content (model), its bytes (codec), its kind (properties)."""

from __future__ import annotations

from pyspark_savepoint.formats.metadata.codec import (
    NULL_PROPERTIES,
    VERSIONS,
    SnapshotKind,
    read_metadata,
    snapshot_kind,
    uids_beside,
    with_uids,
    write_metadata,
)
from pyspark_savepoint.formats.metadata.model import (
    FINISHED_SUBTASK,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
)

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
