"""Plan of a keyed state table: which states, types and keys to read from each file.

The driver reads the headers of all files of an operator, because a column's type is the union over them. Executors read
each file's own header again: state ids, and sometimes serializers, differ between files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import StateNotFoundError, UndecodableStateError
from pyspark_savepoint.formats.io.byte_source import Read, opened_ahead
from pyspark_savepoint.formats.io.run_ahead import FEW_AHEAD
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, SortedRows
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.formats.serializers.kryo.described.open_ended import cut_of
from pyspark_savepoint.statebackends.requests.request import TableRequest, choose_states
from pyspark_savepoint.statebackends.rows.state_column import StateColumn
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedStream
from pyspark_savepoint.statebackends.types.unify import unify

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Key groups and serialized keys to look up; None: read everything.
Places = Sequence[tuple[int, bytes]] | None
#: Function that returns the ids of the states that are read of a stream.
Selecting = Callable[[KeyedStream], set[int]]
#: How many databases of a store are opened together: at first, since the reader may stop soon, and later.
FIRST_DATABASES, DATABASES = 2, 32
#: Most databases of a store whose catalogs the driver reads for all tasks, and the bytes of these.
CARRIED_DATABASES, CARRIED_BYTES = 64, 4 << 20


def is_namespaced(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether the state has a value per namespace (window), not just per key."""
    return meta.namespace_serializer.flink_type != "VOID_NAMESPACE"


def is_key_value(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether the state is keyed state other than timers."""
    return meta.kind in (BackendStateType.KEY_VALUE, BackendStateType.KEY_VALUE_V2)


def table_of(meta: StateMetaInfoSnapshot) -> str:
    """Return the table that shows a state."""
    if not is_key_value(meta):
        return "timers"
    return "window_state" if is_namespaced(meta) else "keyed_state"


def distinct(headers: Iterable[KeyedBackendHeader]) -> list[KeyedBackendHeader]:
    """Return the headers without repetitions of the same object, which equal bytes give."""
    return list({id(header): header for header in headers}.values())


@dataclass(frozen=True)
class OperatorHeaders:
    """All headers of an operator's keyed state."""

    operator: OperatorState
    sources: tuple[AnyKeyedSource, ...]
    headers: tuple[KeyedBackendHeader, ...]

    def metas(self) -> Mapping[tuple[str, bool], list[StateMetaInfoSnapshot]]:
        """Return the registrations of every state in all files, by name and whether it is a timer queue."""
        return self._registrations

    @cached_property
    def _registrations(self) -> dict[tuple[str, bool], list[StateMetaInfoSnapshot]]:
        registrations: dict[tuple[str, bool], list[StateMetaInfoSnapshot]] = {}
        for header in distinct(self.headers):
            for meta in header.states:
                registrations.setdefault((meta.name, not is_key_value(meta)), []).append(meta)
        return registrations

    @cached_property
    def tables(self) -> dict[str, str]:
        """Return the table of each state that is not a timer queue, by name."""
        return {name: table_of(metas[0]) for (name, timer), metas in self.metas().items() if not timer}

    @property
    def default_table(self) -> str:
        """Return keyed state; windows if there is no keyed state; timers if there is neither."""
        tables = set(self.tables.values())
        return next((table for table in ("keyed_state", "window_state") if table in tables), "timers")

    @property
    def notes(self) -> list[str]:
        """Return notes for the user on how the key type was determined."""
        notes = [source.note for source in self.sources if isinstance(source, ChangelogSource) and source.note]
        return list(dict.fromkeys(notes))

    @property
    def key_serializers(self) -> list[TypeSerializer]:
        """Return the key serializer of every file."""
        return [header.key_serializer for header in self.headers]

    def split(self, key_groups: tuple[int, ...]) -> KeyedSplit:
        """Return the sources that the task of some key groups reads."""
        sources = tuple(source for source in self.sources if meets(source.key_group_range, key_groups))
        return KeyedSplit(sources, key_groups)

    def choose(self, namespaced: bool, names: tuple[str, ...] | None) -> dict[str, list[StateMetaInfoSnapshot]]:
        """Return the key-value states of a table, by name."""
        table, other = ("window_state", "keyed_state") if namespaced else ("keyed_state", "window_state")
        all_states = self.tables
        fitting = [name for name in all_states if all_states[name] == table]
        label = self.operator.label
        if names is not None:
            misplaced = [name for name in names if name in all_states and name not in fitting]
            if misplaced:
                raise StateNotFoundError(
                    f"state {misplaced[0]!r} is not in {table}",
                    operator=label,
                    remedy=f"option('table', '{other}') has it",
                )
        if not fitting:
            subtasks = self.operator.subtasks.values()
            has_more = bool(all_states) or any(subtask.managed_operator_state for subtask in subtasks)
            raise StateNotFoundError(
                f"the operator has no {table}",
                operator=label,
                remedy=f"option('table', '{other if all_states else 'operator_state'}') has its states"
                if has_more
                else "the path without options lists what the snapshot has",
            )
        metas = self.metas()
        return {name: metas[name, False] for name in choose_states(fitting, names, "state", label)}


@dataclass(frozen=True, slots=True)
class KeyedSpec:
    """Settings of a keyed state table that its tasks need."""

    states: tuple[str, ...]
    namespaced: bool
    raw: frozenset[str]
    options: DecodeOptions
    batch_rows: int
    block_bytes: int
    #: States of which files record different serializers, each with one that reads the values of all.
    united: tuple[StateMetaInfoSnapshot, ...] = ()

    def bind(self, header: KeyedBackendHeader, form: str) -> dict[str, tuple[int, StateColumn]]:
        """Return the selected states of a file: id and column by name."""
        united = {meta.name: meta for meta in self.united}
        state_names = frozenset(self.states)
        return {
            meta.name: (i, StateColumn(united.get(meta.name, meta), form, self.options, meta.name in self.raw))
            for i, meta in enumerate(header.states)
            if meta.name in state_names and is_key_value(meta)
        }


@dataclass(frozen=True, slots=True)
class KeyedSplit:
    """Input of one task: the sources that overlap its key groups."""

    sources: tuple[AnyKeyedSource, ...]
    key_groups: tuple[int, ...]

    def blocks(self, spec: KeyedSpec, keys: Places = None) -> Iterator[tuple[KeyedBlock, KeyedBackendHeader]]:
        """Yield the entries of all sources, each block with its file's header.

        With ``keys`` (and their key groups), files that are sorted by key may return only these keys' entries; other
        files return all entries.
        """
        for stream, selected in self._streams(spec, keys):
            for block in self._looked_up(stream, selected, spec, keys) or stream.blocks(
                set(self.key_groups), selected, spec.namespaced, spec.block_bytes
            ):
                yield block, stream.header

    def rows_or_blocks(
        self, spec: KeyedSpec, keys: Places = None
    ) -> Iterator[tuple[KeyedBlock | SortedRows, KeyedBackendHeader]]:
        """Yield entries as :meth:`blocks` does, or rows from files that return them joined."""
        for stream, selected in self._streams(spec, keys):
            for block in self._looked_up(stream, selected, spec, keys) or stream.rows_or_blocks(
                set(self.key_groups), selected, spec.namespaced, spec.block_bytes
            ):
                yield block, stream.header

    @staticmethod
    def _looked_up(
        stream: KeyedStream, selected: set[int], spec: KeyedSpec, keys: Places
    ) -> Iterator[KeyedBlock] | None:
        if keys is None:
            return None
        from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream

        if not isinstance(stream, RocksDBKeyedStream):
            return None
        return stream.look_up(keys, selected, spec.namespaced, spec.block_bytes)

    def _streams(self, spec: KeyedSpec, keys: Places) -> Iterator[tuple[KeyedStream, set[int]]]:
        def selected(stream: KeyedStream) -> set[int]:
            return {state for state, _ in spec.bind(stream.header, stream.form).values()}

        return ((stream, states) for stream, states in self.streams(spec.options, selected, keys) if states)

    def streams(
        self, options: DecodeOptions, selected: Selecting, keys: Places = None
    ) -> Iterator[tuple[KeyedStream, set[int]]]:
        """Yield the streams of all sources one after the other, each with the ids of the states that are read of it.

        Files of stores are opened before it is their turn: of databases, those of the states that are read.
        """
        together = list(_together(self.sources))
        with self.opened_ahead() if len(together) == len(self.sources) else nullcontext():
            for sources in together:
                yield from self._opened(sources, options, selected, keys is None)

    def _opened(
        self, sources: Sequence[AnyKeyedSource], options: DecodeOptions, selected: Selecting, scanned: bool
    ) -> Iterator[tuple[KeyedStream, set[int]]]:
        """Open some sources together, and yield their streams; ``scanned``: all of their key groups are read."""
        databases = [source for source in sources if isinstance(source, RocksDBSource)]
        with ExitStack() as stack:
            stack.enter_context(opened_ahead(read for source in databases for read in source.catalog_reads()))
            streams = []
            for source in sources:
                own = stack.enter_context(ExitStack())
                stream = own.enter_context(source.open(options))
                streams.append((own, stream, selected(stream)))
            reads = (
                read
                for stream, states in _of_databases(streams if databases and scanned else ())
                for read in stream.reads(self.key_groups, states)
            )
            stack.enter_context(opened_ahead(reads, FEW_AHEAD))
            for own, stream, states in streams:
                with own:
                    yield stream, states

    def opened_ahead(self, width: int = FEW_AHEAD) -> AbstractContextManager[None]:
        """Return a block within which the sources are opened in the background; at first a few, by default."""
        return opened_ahead(self.reads(), width)

    def reads(self) -> Iterator[Read]:
        """Yield what is read when the sources are opened."""
        key_groups = set(self.key_groups)
        return (read for source in self.sources for read in source.reads(key_groups))


def with_catalogs(splits: Sequence[KeyedSplit]) -> list[KeyedSplit]:
    """Return the splits with the catalogs of their databases in a store, if these are few and small.

    They are read together, so that tasks begin with table files.
    """
    found = (source for split in splits for source in split.sources)
    databases = {id(one): one for one in found if type(one) is RocksDBSource and one.is_remote}
    reads = [read for one in databases.values() for read in one.catalog_reads()]
    size = sum(max(location.size, 0) for location, _ in reads)
    if len(databases) > CARRIED_DATABASES or size > CARRIED_BYTES:
        return list(splits)
    with opened_ahead(reads):
        known = {key: one.with_catalog() for key, one in databases.items()}
    return [replace(split, sources=tuple(known.get(id(one), one) for one in split.sources)) for split in splits]


def _of_databases(
    streams: Iterable[tuple[ExitStack, KeyedStream, set[int]]],
) -> Iterator[tuple[RocksDBKeyedStream, set[int]]]:
    """Yield the streams of RocksDB databases, whose code is imported once there are some."""
    for _, stream, states in streams:
        from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream

        if isinstance(stream, RocksDBKeyedStream):
            yield stream, states


def _together(sources: Sequence[AnyKeyedSource]) -> Iterator[Sequence[AnyKeyedSource]]:
    """Yield the sources that are opened together: databases of stores several at a time, others alone."""
    if not (sources and all(isinstance(source, RocksDBSource) and source.is_remote for source in sources)):
        yield from ((source,) for source in sources)
        return
    known = all(isinstance(source, RocksDBSource) and source.has_catalog for source in sources)
    first = DATABASES if known else FIRST_DATABASES
    yield sources[:first]
    for low in range(first, len(sources), DATABASES):
        yield sources[low : low + DATABASES]


def vertices(
    operator: OperatorState, request: TableRequest, only: set[int] | None, parallelism: int
) -> Iterator[tuple[int, ...]]:
    """Yield the key groups of every execution vertex, limited to those of the request and of a key look-up."""
    for index in range(parallelism):
        owned = range_for_operator_index(operator.max_parallelism, parallelism, index)
        yield tuple(group for group in request.select_key_groups(owned) if only is None or group in only)


def meets(key_group_range: KeyGroupRange, key_groups: Sequence[int]) -> bool:
    """Return whether a handle has one of some key groups, given in ascending order."""
    at = bisect_left(key_groups, key_group_range.start)
    return at < len(key_groups) and key_groups[at] <= key_group_range.end


def state_type(
    metas: Sequence[StateMetaInfoSnapshot], common: StateMetaInfoSnapshot | None, options: DecodeOptions, raw: bool
) -> pa.DataType:
    """Return the type of a state's column over all files; ``common`` is what :func:`merge_registrations` returned."""
    metas = metas if common is None else [common]
    return unify([StateColumn(meta, CANONICAL, options, raw).arrow_type() for meta in metas], metas[0].name)


def united_states(
    chosen: Mapping[str, Sequence[StateMetaInfoSnapshot]], common: Mapping[str, StateMetaInfoSnapshot | None]
) -> tuple[StateMetaInfoSnapshot, ...]:
    """Return the common registration of each state of which not all files record that one."""
    pairs = [(metas, common[name]) for name, metas in chosen.items()]
    return tuple(
        one for metas, one in pairs if one is not None and any(meta is not one and meta != one for meta in metas)
    )


def check_decodable(metas: Sequence[StateMetaInfoSnapshot], undecodable: str, operator: str) -> str | None:
    """Return a warning if a state is (partly) BINARY because only the user's code can decode it.

    With option ``undecodable`` set to ``error``, raise an error instead.
    """
    column = StateColumn(metas[0], CANONICAL, DecodeOptions())
    opaque = column.opaque
    if not opaque:
        return None
    name = metas[0].name
    kind = printable(f"{opaque[0].flink_type} ({opaque[0].snapshot_class})", line=True)
    what = f"state {name!r} has values of {kind}"
    remedy = opaque[0].remedy
    if undecodable == "error":
        raise UndecodableStateError(
            f"{what}, which only the job's own serializer can decode",
            operator=operator,
            state=name,
            remedy=f"{remedy}, choose other states (option 'state'), or option('undecodable', 'binary')",
        )
    shown = "it is BINARY" if column.is_bytes else _open_ended_note(column)
    return f"{what}, which only the job's own serializer can decode: {shown}. To do: {remedy}."


def _open_ended_note(column: StateColumn) -> str:
    """Return which fields of values that are open-ended are bytes or NULL, and why."""
    cut = cut_of(column.units[-1])
    if not cut.binary:
        return "it is BINARY"
    text = f"{_some(cut.binary)} {'is' if len(cut.binary) == 1 else 'are'} BINARY"
    if cut.null:
        text += (
            f", with all bytes after them, because their end is unknown; {_some(cut.null)} "
            f"{'is' if len(cut.null) == 1 else 'are'} NULL where these bytes contain them"
        )
    if cut.variants:
        text += f"; {_some(cut.variants)}, where an object of a user's class is inside, in the same way"
    return text


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(f"`{name}`" for name in names[:20]) + more


def check_decodable_key(serializers: Iterable[TypeSerializer], undecodable: str, operator: str, what: str) -> None:
    """Raise UndecodableStateError if keys (or namespaces) would be BINARY and ``undecodable`` is ``error``."""
    opaque = [part for serializer in serializers for part in serializer.opaque_parts()]
    if opaque and undecodable == "error":
        raise UndecodableStateError(
            f"the {what} are of {opaque[0].flink_type} ({opaque[0].snapshot_class}), which only the user's code can "
            "decode",
            operator=operator,
            remedy=f"{opaque[0].remedy}, or option('undecodable', 'binary')",
        )


def key_type(serializers: Sequence[TypeSerializer], options: DecodeOptions, raw: bool = False) -> pa.DataType:
    """Return the type of the key column over all files; BINARY if requested, or if keys cannot be decoded."""
    if raw or any(serializer.opaque_parts() for serializer in serializers):
        return pa.binary()
    return unify([serializer.arrow_type(options) for serializer in serializers], "key")
