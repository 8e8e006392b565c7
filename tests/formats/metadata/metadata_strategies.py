"""Hypothesis: state handles and whole metadata, of every kind and version."""

from __future__ import annotations

from hypothesis import strategies as st

from pyspark_savepoint.formats.metadata import (
    FINISHED_SUBTASK,
    NULL_PROPERTIES,
    VERSIONS,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    StateChange,
    StreamAndOffset,
)
from pyspark_savepoint.formats.metadata.operator_handles import (
    ChannelStateHandle,
    FileMergingOperatorStreamStateHandle,
    MergedChannelStateHandle,
    Mode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
)

MAX_PARALLELISM = 16

names = st.text(max_size=8)  # with surrogates, NUL and everything else that modified UTF-8 carries
data = st.binary(max_size=8)
i32 = st.integers(-(1 << 31), (1 << 31) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
sizes = st.integers(-1, (1 << 63) - 1)
longs = st.lists(i64, max_size=3).map(tuple)


def tuples_of(elements: st.SearchStrategy, most: int = 2) -> st.SearchStrategy:
    return st.lists(elements, max_size=most).map(tuple)


@st.composite
def key_group_ranges(draw: st.DrawFn) -> KeyGroupRange:
    start = draw(st.integers(0, MAX_PARALLELISM - 1))
    return KeyGroupRange(start, draw(st.integers(start - 1, MAX_PARALLELISM - 1)))


@st.composite
def offsets(draw: st.DrawFn) -> KeyGroupRangeOffsets:
    key_groups = draw(key_group_ranges())
    return KeyGroupRangeOffsets(key_groups, tuple(draw(i64) for _ in key_groups))


segments = st.builds(
    SegmentFileStateHandle,
    names,
    st.integers(0, 1 << 62),
    st.integers(0, (1 << 62) - 1),
    st.sampled_from(CheckpointedStateScope),
    names,
)
empty_segments = st.builds(EmptySegmentFileStateHandle)
stream_handles = st.recursive(
    st.one_of(
        st.builds(ByteStreamStateHandle, names, data),
        st.builds(FileStateHandle, names, sizes),
        st.builds(RelativeFileStateHandle, names, sizes),
        segments,
        empty_segments,
    ),
    lambda inner: st.builds(KeyGroupsStreamStateHandle, offsets(), inner),
    max_leaves=2,
)
files = tuples_of(st.builds(HandleAndLocalPath, names, stream_handles))


@st.composite
def incremental_handles(draw: st.DrawFn) -> IncrementalRemoteKeyedStateHandle:
    state_handle_id = draw(st.none() | names)
    size = -1 if state_handle_id is None else draw(sizes)
    parts = draw(st.tuples(i64, names, key_group_ranges()))
    return IncrementalRemoteKeyedStateHandle(
        *parts, size, draw(stream_handles), draw(files), draw(files), state_handle_id
    )


keyed_handles = st.recursive(
    st.one_of(
        st.builds(KeyGroupsStateHandle, offsets(), stream_handles, st.none() | names),
        st.builds(KeyGroupsSavepointStateHandle, offsets(), stream_handles),
        incremental_handles(),
        st.builds(
            InMemoryChangelogStateHandle,
            key_group_ranges(),
            i64,
            i64,
            tuples_of(st.builds(StateChange, i32, data)),
            names,
        ),
        st.builds(
            ChangelogStateHandleStreamImpl,
            key_group_ranges(),
            tuples_of(st.builds(StreamAndOffset, i64, stream_handles)),
            sizes,
            sizes,
            names,
            st.none() | names,
        ),
    ),
    lambda inner: st.builds(
        ChangelogStateBackendHandle,
        key_group_ranges(),
        sizes,
        tuples_of(inner),
        tuples_of(inner),
        i64,
        st.none() | i64,
        names,
    ),
    max_leaves=3,
)
states = st.lists(
    st.builds(StateMetaInfo, names, st.sampled_from(Mode), longs), max_size=3, unique_by=lambda state: state.name
).map(tuple)
operator_handles = st.one_of(
    st.builds(OperatorStreamStateHandle, states, stream_handles),
    st.builds(FileMergingOperatorStreamStateHandle, states, names, names, st.booleans(), segments | empty_segments),
)
single_channel_handles = st.builds(ChannelStateHandle, i32, st.tuples(i32, i32), longs, sizes, stream_handles)
merged_channel_handles = st.builds(MergedChannelStateHandle, i32, sizes, stream_handles, data)


@st.composite
def subtask_states(draw: st.DrawFn, version: int) -> OperatorSubtaskState:
    if version > 2 and draw(st.booleans()):
        return FINISHED_SUBTASK
    channels = single_channel_handles | merged_channel_handles if version >= 6 else single_channel_handles
    return OperatorSubtaskState(
        draw(st.none() | operator_handles),
        draw(st.none() | operator_handles),
        draw(st.none() | keyed_handles),
        draw(st.none() | keyed_handles),
        draw(tuples_of(channels)) if version > 2 else (),
        draw(tuples_of(channels)) if version > 2 else (),
    )


@st.composite
def operator_states(draw: st.DrawFn, version: int) -> OperatorState:
    parallelism = draw(st.integers(1, 4))
    finished = version > 2 and draw(st.booleans())
    named = st.none() | st.text(min_size=1, max_size=5) if version >= 5 else st.none()
    inline = st.none() | st.builds(ByteStreamStateHandle, names, data)
    indices = draw(st.permutations(range(parallelism)).map(lambda all_: all_[: draw(st.integers(0, parallelism))]))
    return OperatorState(
        OperatorID(draw(st.binary(min_size=16, max_size=16))),
        parallelism,
        MAX_PARALLELISM,
        name=draw(named),
        uid=draw(named),
        coordinator_state=None if version == 2 or finished else draw(inline),
        subtasks={} if finished else {index: draw(subtask_states(version)) for index in indices},
        is_fully_finished=finished,
        chain_length=draw(i32) if version == 2 else 1,
    )


@st.composite
def metadata(draw: st.DrawFn) -> CheckpointMetadata:
    version = draw(st.sampled_from(sorted(VERSIONS)))
    return CheckpointMetadata(
        version,
        draw(st.integers(0, (1 << 63) - 1)),
        draw(tuples_of(st.builds(MasterState, i32, names, data))),
        draw(tuples_of(operator_states(version))),
        NULL_PROPERTIES if version >= 4 else b"",
    )
