"""Sources of an operator's keyed state: one per handle, by kind of handle.

Tables do not depend on the backend that wrote a handle: :data:`SOURCES_BY_HANDLE` maps each kind of handle to its
sources, and a source opens as a stream of :class:`~pyspark_savepoint.formats.keyed.keyed_block.KeyedBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.keyed.changelog import ChangeSource, FileChanges, InlineChanges
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.changelog_keys import with_keys
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.changelog_source import KeyedStream as KeyedStream
from pyspark_savepoint.statebackends.sources.keyed_source import KeyedSource as KeyedSource
from pyspark_savepoint.statebackends.sources.rocksdb_source import RocksDBSource

AnyKeyedSource = KeyedSource | RocksDBSource | ChangelogSource


def keyed_sources(savepoint: Snapshot, operator: OperatorState) -> list[AnyKeyedSource]:
    """Return the sources of an operator's managed keyed state, in order of key groups."""
    sources: list[AnyKeyedSource] = []
    for index in sorted(operator.subtasks):
        handle = operator.subtasks[index].managed_keyed_state
        if handle is not None:
            sources += _sources(savepoint, operator, handle)
    sources = _with_keys(sources)
    sources.sort(key=lambda source: source.key_group_range.start)
    refuse_overlaps(savepoint, operator, [source.key_group_range for source in sources])
    return sources


def _with_keys(sources: list[AnyKeyedSource]) -> list[AnyKeyedSource]:
    """Return the sources, with the key type added to those that consist only of changes."""
    bare = [source for source in sources if isinstance(source, ChangelogSource) and not source.parts]
    if not bare:
        return sources
    others = [source for source in sources if not (isinstance(source, ChangelogSource) and not source.parts)]
    known = others[0].header().key_serializer if others else None
    return [*others, *with_keys(bare, known)]


def refuse_overlaps(savepoint: Snapshot, operator: OperatorState, ranges: list[KeyGroupRange]) -> None:
    """Raise an error if two handles have the same key group, whose keys would be read twice."""
    present = [key_groups for key_groups in ranges if key_groups]
    for before, after in pairwise(sorted(present, key=lambda key_groups: key_groups.start)):
        if after.start <= before.end:
            raise CorruptStateError(
                "two handles of the operator have the same key group",
                path=savepoint.metadata_path,
                operator=operator.label,
                expected="every key group once",
                found=f"{before} and {after}",
                remedy=UNREADABLE,
            )


def _sources(savepoint: Snapshot, operator: OperatorState, handle: Any) -> list[AnyKeyedSource]:
    return SOURCES_BY_HANDLE[type(handle)](savepoint, operator, handle)


def _key_groups(
    savepoint: Snapshot, operator: OperatorState, handle: KeyGroupsStateHandle | KeyGroupsSavepointStateHandle
) -> list[AnyKeyedSource]:
    location = savepoint.resolve(handle.delegate, operator)
    canonical = isinstance(handle, KeyGroupsSavepointStateHandle)
    return [KeyedSource(location, handle.offsets, canonical, operator.max_parallelism, operator.label)]


def _files(
    savepoint: Snapshot, operator: OperatorState, handle: IncrementalRemoteKeyedStateHandle
) -> list[AnyKeyedSource]:
    return [RocksDBSource.of(savepoint, operator, handle)]


def _changelog(
    savepoint: Snapshot, operator: OperatorState, handle: ChangelogStateBackendHandle
) -> list[AnyKeyedSource]:
    parts = [source for part in handle.materialized for source in _sources(savepoint, operator, part)]
    # A native savepoint materializes everything: then the wrapped handles are the whole state.
    if not handle.non_materialized:
        return parts
    refuse_overlaps(savepoint, operator, [part.key_group_range for part in parts])
    changes = tuple(each for delta in handle.non_materialized for each in _changes(savepoint, operator, delta))
    size = sum(delta.state_size for delta in handle.non_materialized)
    place = (handle.key_group_range, operator.max_parallelism, operator.label)
    return [ChangelogSource(savepoint.metadata_path, tuple(parts), changes, size, *place)]


def _changes(savepoint: Snapshot, operator: OperatorState, delta: Any) -> list[ChangeSource]:
    if isinstance(delta, InMemoryChangelogStateHandle):
        changes = tuple((each.key_group, each.change) for each in delta.changes)
        return [InlineChanges(f"{savepoint.metadata_path} (inline changes)", changes)]
    if not isinstance(delta, ChangelogStateHandleStreamImpl):
        _no_state(savepoint, operator, delta)
    found: list[ChangeSource] = []
    for each in delta.handles_and_offsets:
        location = savepoint.resolve(each.handle, operator)
        if isinstance(location, FileLocation) and not location.segment:
            # The handle of a compressed file records the size of the uncompressed content.
            location = replace(location, size=UNKNOWN_SIZE)
        found.append(FileChanges(location, each.offset))
    return found


def _no_state(savepoint: Snapshot, operator: OperatorState, handle: Any) -> NoReturn:
    raise CorruptStateError(
        "a keyed state handle has a wrong type: changelog handles contain only changes, and other handles none",
        path=savepoint.metadata_path,
        operator=operator.label,
        found=type(handle).__name__,
        remedy=UNREADABLE,
    )


SOURCES_BY_HANDLE: Mapping[type, Callable[[Snapshot, OperatorState, Any], list[AnyKeyedSource]]] = MappingProxyType(
    {
        KeyGroupsStateHandle: _key_groups,
        KeyGroupsSavepointStateHandle: _key_groups,
        ChangelogStateBackendHandle: _changelog,
        IncrementalRemoteKeyedStateHandle: _files,
        InMemoryChangelogStateHandle: _no_state,
        ChangelogStateHandleStreamImpl: _no_state,
    }
)
