"""Sources of an operator's keyed state: one per handle, by kind of handle.

Tables do not depend on the backend that wrote a handle: :data:`SOURCES_BY_HANDLE` maps each kind of handle to its
sources, and a source opens as a stream of :class:`~pyspark_savepoint.formats.keyed.keyed_block.KeyedBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation, StateLocation
from pyspark_savepoint.formats.keyed.changelog import ChangeSource, FileChanges, InlineChanges
from pyspark_savepoint.formats.keyed.headers import read_header
from pyspark_savepoint.formats.keyed.key_group_reader import Extent
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.sources.changelog_keys import with_keys
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.rocksdb_source import RocksDBSource

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
    from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream
    from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
    from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogKeyedStream

#: Streams are imported where one is opened: headers are read without them.
KeyedStream: TypeAlias = "CanonicalKeyedStream | HeapKeyedStream | RocksDBKeyedStream | ChangelogKeyedStream"
FRAMING_WINDOW = 1 << 24


@dataclass(frozen=True, slots=True)
class KeyedSource:
    """Description of a stream of key groups: frozen, picklable, without open files."""

    location: StateLocation
    offsets: KeyGroupRangeOffsets
    canonical: bool
    max_parallelism: int
    operator: str

    @property
    def key_group_range(self) -> KeyGroupRange:
        """Return the key groups of the handle."""
        return self.offsets.key_group_range

    def header(self) -> KeyedBackendHeader:
        """Read the descriptions of the states from the stream."""
        try:
            with self.location.open() as source:
                return self._read_header(source)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    @contextmanager
    def open(self, options: DecodeOptions) -> Iterator[KeyedStream]:
        """Open the stream; errors get the operator's name."""
        from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
        from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream

        # Decoding that only finds where values end must not fail on values that no column can hold.
        options = replace(options, timestamps="raw", decimals="string")
        try:
            with self.location.open() as source:
                header = self._read_header(source)
                extents = self._extents(source, header)
                origin = Origin(source.path, 0, self.operator)
                full = CanonicalKeyedStream(source, header, extents, self.max_parallelism, origin, options)
                if not self.canonical and is_heap_format(full, self.offsets):
                    yield HeapKeyedStream(source, header, extents, origin, options)
                else:
                    yield full
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def _read_header(self, source: ByteSource) -> KeyedBackendHeader:
        first = min((offset for offset in self.offsets.offsets if offset > 0), default=source.size)
        return read_header(KeyedBackendHeader, source, first)

    def _extents(self, source: ByteSource, header: KeyedBackendHeader) -> list[Extent]:
        """Return the key groups that have bytes, in the order of the file; each ends where the next begins."""
        placed = sorted((offset, key_group) for key_group, offset in self.offsets if offset != 0)
        ends = [*(offset for offset, _ in placed), source.size][1:]
        extents = []
        for (start, key_group), end in zip(placed, ends, strict=True):
            if not header.size <= start < end:
                raise CorruptStateError(
                    f"key group {key_group} cannot begin where its handle says",
                    path=source.path,
                    offset=start,
                    operator=self.operator,
                    expected=f"an offset from {header.size} to {source.size - 1}, of its own",
                    found=start,
                    remedy=UNREADABLE,
                )
            extents.append(Extent(key_group, start, end))
        return extents


def is_heap_format(stream: CanonicalKeyedStream, offsets: KeyGroupRangeOffsets) -> bool:
    """Return whether key groups are in the heap format: each has an offset, and begins with its own number.

    Key group 0 alone proves nothing, because the canonical format may begin with four zero bytes too. In this case the
    stream is in the heap format if it cannot be parsed as the canonical format.
    """
    extents = stream.extents
    if len(extents) < len(offsets.offsets) or not extents:
        return False
    step = max(1, len(extents) // 8)
    for extent in [*extents[::step], extents[-1]]:
        if extent.size < 4 or int.from_bytes(stream.source.read(extent.start, 4), "big") != extent.key_group:
            return False
    if any(extent.key_group for extent in extents):
        return True
    try:
        for _ in stream.blocks({0}, set(), False, FRAMING_WINDOW):
            pass
    except CorruptStateError:
        return True
    return False


AnyKeyedSource = KeyedSource | RocksDBSource | ChangelogSource


def keyed_sources(savepoint: Savepoint, operator: OperatorState) -> list[AnyKeyedSource]:
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


def refuse_overlaps(savepoint: Savepoint, operator: OperatorState, ranges: list[KeyGroupRange]) -> None:
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


def _sources(savepoint: Savepoint, operator: OperatorState, handle: Any) -> list[AnyKeyedSource]:
    return SOURCES_BY_HANDLE[type(handle)](savepoint, operator, handle)


def _key_groups(
    savepoint: Savepoint, operator: OperatorState, handle: KeyGroupsStateHandle | KeyGroupsSavepointStateHandle
) -> list[AnyKeyedSource]:
    location = savepoint.resolve(handle.delegate, operator)
    canonical = isinstance(handle, KeyGroupsSavepointStateHandle)
    return [KeyedSource(location, handle.offsets, canonical, operator.max_parallelism, operator.label)]


def _files(
    savepoint: Savepoint, operator: OperatorState, handle: IncrementalRemoteKeyedStateHandle
) -> list[AnyKeyedSource]:
    return [RocksDBSource.of(savepoint, operator, handle)]


def _changelog(
    savepoint: Savepoint, operator: OperatorState, handle: ChangelogStateBackendHandle
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


def _changes(savepoint: Savepoint, operator: OperatorState, delta: Any) -> list[ChangeSource]:
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


def _no_state(savepoint: Savepoint, operator: OperatorState, handle: Any) -> NoReturn:
    raise CorruptStateError(
        "a handle is where its kind cannot be: changes are part of a changelog, and a changelog has nothing else",
        path=savepoint.metadata_path,
        operator=operator.label,
        found=type(handle).__name__,
        remedy=UNREADABLE,
    )


SOURCES_BY_HANDLE: Mapping[type, Callable[[Savepoint, OperatorState, Any], list[AnyKeyedSource]]] = MappingProxyType(
    {
        KeyGroupsStateHandle: _key_groups,
        KeyGroupsSavepointStateHandle: _key_groups,
        ChangelogStateBackendHandle: _changelog,
        IncrementalRemoteKeyedStateHandle: _files,
        InMemoryChangelogStateHandle: _no_state,
        ChangelogStateHandleStreamImpl: _no_state,
    }
)
