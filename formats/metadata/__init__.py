"""The ``_metadata`` file of a snapshot: its content, its bytes, its kind (properties).

A handle is frozen and describes where bytes are, without opening them. Writing it gives the bytes that were read.

=====================  ===========================================================  ======================
family                 type bytes                                                   module
=====================  ===========================================================  ======================
streams                1, 2, 3, 6, 15, 16                                           ``stream_handles``
keyed state            3, 5, 7, 8, 9, 10, 11, 12, 13, 14                            ``keyed_handles``
operator state         4, 17                                                        ``operator_handles``
channel state          none up to metadata version 5; 1, 2, 3, 4 from 6 on          ``operator_handles``
=====================  ===========================================================  ======================
"""

from __future__ import annotations

from pyspark_savepoint.formats.metadata.codec import (
    FINISHED_SUBTASK,
    NULL_PROPERTIES,
    VERSIONS,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    SnapshotKind,
    as_canonical,
    read_metadata,
    snapshot_kind,
    uids_beside,
    with_uids,
    write_metadata,
    write_published,
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
    "as_canonical",
    "read_metadata",
    "snapshot_kind",
    "uids_beside",
    "with_uids",
    "write_metadata",
    "write_published",
]
