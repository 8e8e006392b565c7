"""Rewriting of operator state: states of several streams combined in one, with new names.

Elements are copied as bytes, without decoding. Compressed state is written uncompressed, because not every release
supports offsets of compressed elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import DecodeOptions, binary_parts
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream, entries_of_broadcast
from pyspark_savepoint.formats.metadata.operator_handles import Mode, OperatorStreamStateHandle, StateMetaInfo
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.serializers.layout import locate

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource
    from pyspark_savepoint.formats.io.snapshot_files import OutputFile
    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource

#: The header version that every release since 1.8 reads.
VERSION = 5
WINDOW = 16 << 20


@dataclass(frozen=True)
class OperatorPart:
    """Selected states of one stream: their names in it, mapped to new names.

    ``metas`` are registrations of states, by their names there, that are written in place of those of the stream.
    ``updates``: its entries are laid over those that earlier parts have of a broadcast state.
    """

    source: OperatorSource
    names: Mapping[str, str]
    header: OperatorBackendHeader
    metas: Mapping[str, StateMetaInfoSnapshot] = field(default_factory=dict)
    updates: bool = False

    @classmethod
    def of(cls, source: OperatorSource, names: Mapping[str, str], *, updates: bool = False) -> OperatorPart:
        """Return the part of a stream whose header has not been read yet."""
        return cls(source, names, source.header(), updates=updates)


def write_operator_streams(
    operator_parts: Iterable[OperatorPart], staging: Staging, prefix: str, places: Mapping[int, int] | None = None
) -> dict[int, OperatorStreamStateHandle | None]:
    """Write the parts of each subtask to one file; ``prefix`` begins the file names.

    ``places`` are other subtasks that get the parts of some.
    """
    by_subtask: dict[int, list[OperatorPart]] = {}
    for part in operator_parts:
        subtask = part.source.subtask
        by_subtask.setdefault((places or {}).get(subtask, subtask), []).append(part)
    handles: dict[int, OperatorStreamStateHandle | None] = {}
    for index, parts in sorted(by_subtask.items()):
        name = staging.unique(f"{prefix}{index}")
        file = staging.create_state(name)
        try:
            states = write_operator_state(parts, file)
            file.close()
        finally:
            file.abort()
        handles[index] = OperatorStreamStateHandle(states, RelativeFileStateHandle(name, file.size))
    return handles


def whole_parts(sources: Iterable[OperatorSource]) -> Iterator[OperatorPart]:
    """Yield all states of some streams under their own names."""
    for source in sources:
        header = source.header()
        yield OperatorPart(source, {meta.name: meta.name for meta in header.states}, header)


def write_operator_state(parts: Sequence[OperatorPart], file: OutputFile) -> tuple[StateMetaInfo, ...]:
    """Write the selected states of the parts to one stream, which stays open; return their handle entries.

    Elements of a list that several parts have are written one after the other. A broadcast state is the same in all,
    but for parts that update it: it gets their entries, of the last one where keys are equal.
    """
    metas: dict[str, tuple[list[OperatorPart], StateMetaInfoSnapshot]] = {}
    for part in parts:
        for meta in part.header.states:
            if meta.name in part.names:
                name = part.names[meta.name]
                having, _ = metas.setdefault(name, ([], replace(part.metas.get(meta.name, meta), name=name)))
                if not having or part.updates or meta.kind is not BackendStateType.BROADCAST:
                    having.append(part)
    by_kind = {kind: [(own, meta) for own, meta in metas.values() if meta.kind is kind] for kind in BackendStateType}
    lists, broadcasts = by_kind[BackendStateType.OPERATOR], by_kind[BackendStateType.BROADCAST]
    view = DataOutputView()
    listed, broadcast = tuple(meta for _, meta in lists), tuple(meta for _, meta in broadcasts)
    OperatorBackendHeader(VERSION, False, listed, broadcast).write(view)
    file.write(view.getvalue())
    written = []
    for having, meta in lists + broadcasts:
        try:
            if len(having) > 1 and meta.kind is BackendStateType.BROADCAST:
                offsets: tuple[int, ...] = (_lay_over(having, meta, file),)
            else:
                offsets = tuple(offset for part in having for some in _copy(part, meta, file) for offset in some)
        except SavepointError as error:
            raise error.with_facts(operator=having[0].source.operator, state=meta.name) from None
        written.append(StateMetaInfo(meta.name, Mode.of(meta.state_type), offsets))
    return tuple(written)


def _lay_over(parts: Sequence[OperatorPart], meta: StateMetaInfoSnapshot, file: OutputFile) -> int:
    """Append a broadcast state with the entries of several parts, and return its offset."""
    later = pa.array([], pa.binary())
    entries = []
    for part in reversed(parts):
        keys, whole = _entries(part, meta)
        entries.append(whole.filter(pc.invert(pc.is_in(keys, value_set=later))))
        later = pa.concat_arrays([later, keys])
    places, data = binary_parts(pa.concat_arrays(entries[::-1]))
    offset = file.size
    file.write((len(places) - 1).to_bytes(4, "big"))
    file.write(data[places[0] : places[-1]].data)
    return offset


def _entries(part: OperatorPart, meta: StateMetaInfoSnapshot) -> tuple[pa.Array, pa.Array]:
    """Return the bytes of the keys of a broadcast state, and of its whole entries."""
    old = next(old for old, new in part.names.items() if new == meta.name)
    keys, entries = [pa.array([], pa.binary())], [pa.array([], pa.binary())]
    with part.source.location.open() as opened:
        stream = _stream(opened, part)
        for buffer, pieces, base in stream.windows(np.sort(part.source.offsets(old)), WINDOW):
            at = stream.cursors(buffer, pieces, base, old, DecodeOptions(timestamps="raw", decimals="string"))
            (key_start, _), (key_end, value_end) = entries_of_broadcast(meta, at)
            keys.append(binary_column(buffer, key_start, key_end))
            entries.append(binary_column(buffer, key_start, value_end))
    return pa.concat_arrays(keys), pa.concat_arrays(entries)


def _copy(part: OperatorPart, meta: StateMetaInfoSnapshot, file: OutputFile) -> Iterator[list[int]]:
    """Append the elements of a state, and yield their new offsets, some at a time."""
    old = next(old for old, new in part.names.items() if new == meta.name)
    offsets = np.sort(part.source.offsets(old))
    with part.source.location.open() as opened:
        stream = _stream(opened, part)
        for buffer, pieces, base in stream.windows(offsets, WINDOW):
            start, end = pieces.start, pieces.end
            if (pieces.count > 1).any():
                options = DecodeOptions(timestamps="raw", decimals="string")
                at = stream.cursors(buffer, pieces, base, old, options)
                try:
                    (start,), (end,) = locate([meta.value_serializer], at, pieces.count)
                except UndecodableStateError as error:
                    raise _no_ends(old, meta) from error
            places, data = binary_parts(binary_column(buffer, start, end))
            yield (file.size + places[:-1]).tolist()
            file.write(data[: places[-1]].data)


def _no_ends(state: str, meta: StateMetaInfoSnapshot) -> UndecodableStateError:
    """Return the error for a stream with one offset for all elements, whose ends only user code can find."""
    return UndecodableStateError(
        f"this release of Flink compressed operator state without recording where its elements end, so {state!r} "
        f"cannot "
        "be written to another file",
        expected="elements whose serializer delimits them",
        found=meta.value_serializer.flink_type,
        remedy="leave this operator's operator state as it is, remove_state this state, or have the savepoint written "
        "without snapshot compression or by a later Flink; or plug in a serializer (entry point group "
        "'pyspark_savepoint.serializers')",
    )


def _stream(opened: ByteSource, part: OperatorPart) -> OperatorStream:
    return part.source.stream(opened, part.header)
