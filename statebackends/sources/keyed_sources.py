"""Sources of an operator's keyed state: one per handle, by kind of handle.

Tables do not depend on the backend that wrote a handle: :data:`SOURCES_BY_HANDLE` maps each kind of handle to its
sources, and a source opens as a stream of :class:`~pyspark_savepoint.formats.keyed.keyed_block.KeyedBlock`.

A changelog that was not materialized yet has no header with the key serializer. Timers contain it, and other subtasks
may have it. Otherwise serializers are tried, and one is accepted only with proof: every change must parse to its end,
and the hash of every key must lead to the key group that the change was logged for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, binary_parts
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError
from pyspark_savepoint.formats.keyed.changelog import ChangeSource, FileChanges, InlineChanges
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, key_group_for_hash
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
)
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.serializers.basic.strings import StringSerializer
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers
from pyspark_savepoint.statebackends.sources.changelog_source import UNKNOWN_KEY, ChangelogSource
from pyspark_savepoint.statebackends.sources.changelog_source import KeyedStream as KeyedStream
from pyspark_savepoint.statebackends.sources.changelog_units import UNIT, UnitReader
from pyspark_savepoint.statebackends.sources.keyed_source import KeyedSource as KeyedSource
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

#: The sample: number of change sets, and bytes of each.
SAMPLES, SAMPLE = 16, 1 << 16
#: Required proof: a wrong serializer gives the right key groups by chance at most once in this many times.
CHANCE = 100.0
PLAIN = DecodeOptions(timestamps="raw", decimals="string")
PROVED = (
    "the type of keys is not recorded in a changelog without a materialized part: their key groups fit {} (a "
    "type with the same bytes and hashes would fit too)"
)
UNPROVED = (
    "the type of keys is not recorded in a changelog without a materialized part, and no built-in type fits: keys "
    "are BINARY. To do: take a canonical savepoint, or a checkpoint after the changelog was materialized."
)


def candidates() -> Iterator[TypeSerializer]:
    """Yield serializers of common key types, the most common first.

    A double or a date has the bytes and the hash of a long, so such keys are taken for longs.
    """
    numbers = [
        NumberSerializer.of(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")
        for stem in ("Long", "Int", "Short", "Byte", "Boolean")
    ]
    text = StringSerializer(f"{BASE}StringSerializer$StringSerializerSnapshot", 3)
    yield from [text, *numbers]
    common = [text, *numbers[:2]]
    for arity in (2, 3):
        for fields in product(common, repeat=arity):
            yield TupleSerializer.of(*fields)


def with_keys(sources: Sequence[ChangelogSource], key_serializer: TypeSerializer | None) -> list[ChangelogSource]:
    """Return sources without parts, with their key serializer, by default ``key_serializer`` of other subtasks."""
    headers = [source.header() for source in sources]
    key = key_serializer or next((h.key_serializer for h in headers if h.key_serializer is not UNKNOWN_KEY), None)
    if key is not None:
        return [replace(source, key=key) for source in sources]
    for candidate in candidates():
        if all(_fits(source, header, candidate) for source, header in zip(sources, headers, strict=True)):
            groups = {
                g for source, header in zip(sources, headers, strict=True) for g in _proof(source, header, candidate)
            }
            if float(sources[0].max_parallelism) ** min(len(groups), 32) < CHANCE:
                break
            note = PROVED.format(candidate.flink_type)
            return [replace(source, key=candidate, note=note) for source in sources]
    return [replace(source, key=UNKNOWN_KEY, note=UNPROVED) for source in sources]


def _fits(source: ChangelogSource, header: KeyedBackendHeader, key: TypeSerializer) -> bool:
    try:
        for _ in _proof(source, header, key):
            pass
    except SavepointError:
        return False
    return True


def _proof(source: ChangelogSource, header: KeyedBackendHeader, key: TypeSerializer) -> Iterator[bytes]:
    """Yield the bytes of keys whose hashes lead to their key groups; raise an error for a key where this fails."""
    states = frozenset(i for i, meta in enumerate(header.states) if _tells(meta))
    reader = UnitReader(header.states, key, frozenset(source.key_group_range), states, PLAIN)
    for changes_of in source.changes[:SAMPLES]:
        with closing(changes_of.read(SAMPLE, source.operator)) as parts:
            for changes in parts:
                for batch in reader.units(changes):
                    _check_rest(batch, header)
                    yield from _keys_of(batch, key, source.max_parallelism)
                if changes.key_group[-1] >= 0:
                    break


def _tells(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether the changes of a state can be parsed after their keys.

    Timers have no keys there, and opaque types hide where values end.
    """
    if meta.kind is BackendStateType.PRIORITY_QUEUE or meta.namespace_serializer.opaque_parts():
        return False
    return meta.state_type not in ("LIST", "MAP") or not meta.value_serializer.opaque_parts()


def _check_rest(batch: pa.RecordBatch, header: KeyedBackendHeader) -> None:
    """Raise an error if a namespace or a value after a key cannot be parsed."""
    from pyspark_savepoint.formats.kernels import changelog

    state = np.asarray(batch.column("state"))
    for i in np.unique(state).tolist():
        meta = header.states[i]
        rows = batch.filter(pa.array(state == i))
        at = _cursors(rows.column("namespace"))
        meta.namespace_serializer.decode(at)
        at.expect_end()
        value = unit_serializers(meta)[-1]
        put = pa.array([changelog.PUT, changelog.ADD], pa.int8())
        full = rows.filter(pc.is_in(rows.column(UNIT), value_set=put)).column("value")
        at = _cursors(full)
        if meta.state_type == "MAP":
            at.position += 1
            at = at.select(np.flatnonzero(at.buffer[at.position - 1] == 0))
        if not value.opaque_parts():
            skip_rows(value, at)
            at.expect_end()


def _cursors(column: pa.Array) -> Cursors:
    offsets, data = binary_parts(column)
    return Cursors(data.copy(), offsets[:-1].copy(), offsets[1:].copy(), options=PLAIN)


def _keys_of(batch: pa.RecordBatch, key: TypeSerializer, max_parallelism: int) -> list[bytes]:
    distinct = pa.Table.from_batches([batch]).group_by(["key", "key_group"]).aggregate([])
    column = distinct.column("key").combine_chunks()
    at = _cursors(column)
    hashes = key.java_hash(key.decode(at))
    at.expect_end()
    key_groups = [key_group_for_hash(value, max_parallelism) for value in hashes.tolist()]
    wrong = np.flatnonzero(np.array(key_groups) != np.asarray(distinct.column("key_group")))
    if len(wrong):
        at.fail(int(wrong[0]), "a key of its key group")
    kept: list[bytes] = column.to_pylist()
    return kept


AnyKeyedSource = KeyedSource | RocksDBSource | ChangelogSource


def keyed_sources(savepoint: Snapshot, operator: OperatorState) -> list[AnyKeyedSource]:
    """Return the sources of an operator's managed keyed state, in order of key groups."""
    sources: list[AnyKeyedSource] = []
    for index in sorted(operator.subtasks):
        handle = operator.subtasks[index].managed_keyed_state
        if handle is not None:
            sources += _sources(savepoint, operator, handle)
    sources = _with_keys_of_changes(sources)
    sources.sort(key=lambda source: source.key_group_range.start)
    refuse_overlaps(savepoint, operator, [source.key_group_range for source in sources])
    return sources


def _with_keys_of_changes(sources: list[AnyKeyedSource]) -> list[AnyKeyedSource]:
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
    changes = tuple(change for delta in handle.non_materialized for change in _changes(savepoint, operator, delta))
    size = sum(delta.state_size for delta in handle.non_materialized)
    owner = (handle.key_group_range, operator.max_parallelism, operator.label)
    return [ChangelogSource(savepoint.metadata_path, tuple(parts), changes, size, *owner)]


def _changes(savepoint: Snapshot, operator: OperatorState, delta: Any) -> list[ChangeSource]:
    if isinstance(delta, InMemoryChangelogStateHandle):
        changes = tuple((entry.key_group, entry.change) for entry in delta.changes)
        return [InlineChanges(f"{savepoint.metadata_path} (inline changes)", changes, savepoint.location.classes)]
    if not isinstance(delta, ChangelogStateHandleStreamImpl):
        _no_state(savepoint, operator, delta)
    sources: list[ChangeSource] = []
    for entry in delta.handles_and_offsets:
        sources.append(FileChanges(savepoint.resolve(entry.handle, operator), entry.offset))
    return sources


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
