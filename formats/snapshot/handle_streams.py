"""Replacement of all streams in an operator's handles, the common part of copying, moving and referencing files.

Only the *location* of bytes changes; ranges, offsets, sizes and ids stay. A copied file belongs to the snapshot:
shared files of an incremental checkpoint become private, as in a native savepoint, and a segment of a merged file
becomes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
)
from pyspark_savepoint.formats.metadata.operator_handles import (
    AnyChannelStateHandle,
    OperatorStateHandle,
    OperatorStreamStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)

Replace = Callable[[StreamStateHandle], StreamStateHandle]


def replace_streams(operator: OperatorState, moved: Replace) -> OperatorState:
    """Return the operator with every stream handle replaced; coordinator state is always inline and does not change."""
    subtasks = {index: _subtask(subtask, moved) for index, subtask in operator.subtasks.items()}
    return replace(operator, subtasks=subtasks)


def streams_of(operator: OperatorState) -> Iterator[StreamStateHandle]:
    """Yield all stream handles of an operator."""
    found: list[StreamStateHandle] = []

    def keep(handle: StreamStateHandle) -> StreamStateHandle:
        found.append(handle)
        return handle

    replace_streams(operator, keep)
    yield from found


def _subtask(subtask: OperatorSubtaskState, moved: Replace) -> OperatorSubtaskState:
    return replace(
        subtask,
        managed_operator_state=_operator_handle(subtask.managed_operator_state, moved),
        raw_operator_state=_operator_handle(subtask.raw_operator_state, moved),
        managed_keyed_state=_keyed_handle(subtask.managed_keyed_state, moved) if subtask.managed_keyed_state else None,
        raw_keyed_state=_keyed_handle(subtask.raw_keyed_state, moved) if subtask.raw_keyed_state else None,
        input_channel_state=tuple(_channel(handle, moved) for handle in subtask.input_channel_state),
        result_subpartition_state=tuple(_channel(handle, moved) for handle in subtask.result_subpartition_state),
    )


def _operator_handle(handle: OperatorStateHandle | None, moved: Replace) -> OperatorStateHandle | None:
    if handle is None:
        return None
    if isinstance(handle, OperatorStreamStateHandle):
        return replace(handle, delegate=_stream(handle.delegate, moved))
    delegate = _stream(handle.delegate, moved)
    if isinstance(delegate, SegmentFileStateHandle | EmptySegmentFileStateHandle):
        return replace(handle, delegate=delegate)
    return OperatorStreamStateHandle(handle.states, delegate)


def _keyed_handle(handle: KeyedStateHandle, moved: Replace) -> KeyedStateHandle:
    match handle:
        case IncrementalRemoteKeyedStateHandle():
            return _database(handle, moved)
        case ChangelogStateBackendHandle():
            return replace(
                handle,
                materialized=tuple(_keyed_handle(part, moved) for part in handle.materialized),
                non_materialized=tuple(_keyed_handle(part, moved) for part in handle.non_materialized),
            )
        case ChangelogStateHandleStreamImpl():
            streams = (replace(part, handle=_stream(part.handle, moved)) for part in handle.handles_and_offsets)
            return replace(handle, handles_and_offsets=tuple(streams))
        case InMemoryChangelogStateHandle():
            return handle
    return replace(handle, delegate=_stream(handle.delegate, moved))


def _database(handle: IncrementalRemoteKeyedStateHandle, moved: Replace) -> IncrementalRemoteKeyedStateHandle:
    def files(listed: tuple[HandleAndLocalPath, ...]) -> tuple[HandleAndLocalPath, ...]:
        return tuple(replace(file, handle=_stream(file.handle, moved)) for file in listed)

    shared, private = files(handle.shared_state), files(handle.private_state)
    # Files in the snapshot's own folder are not shared.
    others = tuple(file for file in shared if isinstance(file.handle, FileStateHandle | SegmentFileStateHandle))
    own = tuple(file for file in shared if file not in others)
    meta = _stream(handle.meta_state, moved)
    return replace(handle, meta_state=meta, shared_state=others, private_state=private + own)


def _channel(handle: AnyChannelStateHandle, moved: Replace) -> AnyChannelStateHandle:
    return replace(handle, delegate=_stream(handle.delegate, moved))


def _stream(handle: StreamStateHandle, moved: Replace) -> StreamStateHandle:
    if isinstance(handle, KeyGroupsStreamStateHandle):
        return replace(handle, delegate=_stream(handle.delegate, moved))
    return moved(handle)
