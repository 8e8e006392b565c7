"""All state handles of ``_metadata`` in one module to import from.

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

from pyspark_savepoint.formats.metadata.keyed_handles import (
    KEYED_HANDLES,
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    StateChange,
    StreamAndOffset,
    intersect_handles,
    read_keyed_handle,
    write_keyed_handle,
)
from pyspark_savepoint.formats.metadata.operator_handles import (
    OPERATOR_HANDLES,
    AnyChannelStateHandle,
    ChannelStateHandle,
    FileMergingOperatorStreamStateHandle,
    MergedChannelStateHandle,
    Mode,
    OperatorStateHandle,
    OperatorStreamStateHandle,
    StateMetaInfo,
    read_operator_handle,
    write_operator_handle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    STREAM_HANDLES,
    ByteStreamStateHandle,
    CheckpointedStateScope,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
    read_stream_handle,
    write_stream_handle,
)

StateHandle = StreamStateHandle | KeyedStateHandle | OperatorStateHandle | AnyChannelStateHandle

__all__ = [
    "KEYED_HANDLES",
    "OPERATOR_HANDLES",
    "STREAM_HANDLES",
    "AnyChannelStateHandle",
    "ByteStreamStateHandle",
    "ChangelogStateBackendHandle",
    "ChangelogStateHandleStreamImpl",
    "ChannelStateHandle",
    "CheckpointedStateScope",
    "EmptySegmentFileStateHandle",
    "FileMergingOperatorStreamStateHandle",
    "FileStateHandle",
    "HandleAndLocalPath",
    "InMemoryChangelogStateHandle",
    "IncrementalRemoteKeyedStateHandle",
    "KeyGroupsSavepointStateHandle",
    "KeyGroupsStateHandle",
    "KeyGroupsStreamStateHandle",
    "KeyedStateHandle",
    "MergedChannelStateHandle",
    "Mode",
    "OperatorStateHandle",
    "OperatorStreamStateHandle",
    "RelativeFileStateHandle",
    "SegmentFileStateHandle",
    "StateChange",
    "StateHandle",
    "StateMetaInfo",
    "StreamAndOffset",
    "StreamStateHandle",
    "intersect_handles",
    "read_keyed_handle",
    "read_operator_handle",
    "read_stream_handle",
    "write_keyed_handle",
    "write_operator_handle",
    "write_stream_handle",
]
