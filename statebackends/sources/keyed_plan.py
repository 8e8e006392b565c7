"""What a table of keyed state reads from each file: states chosen, types unified, keys looked up.

On the driver the headers of all files of an operator are read, for a column's type is the union over them. On the
executors each file's own header is read again: state ids, and sometimes serializers, are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import StateNotFoundError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, SortedRows
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.model.request import TableRequest, choose_states
from pyspark_savepoint.statebackends.model.state_column import StateColumn
from pyspark_savepoint.statebackends.model.unify_types import unify
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedStream, keyed_sources

HEADER_READERS = 16
#: Keys and their key groups; None: whoever asks does not know them.
Places = Sequence[tuple[int, bytes]] | None


def is_namespaced(meta: StateMetaInfoSnapshot) -> bool:
    """Whether the state has a value per namespace (window), not just per key."""
    return meta.namespace_serializer.flink_type != "VOID_NAMESPACE"


def is_key_value(meta: StateMetaInfoSnapshot) -> bool:
    """Keyed state other than timers."""
    return meta.kind in (BackendStateType.KEY_VALUE, BackendStateType.KEY_VALUE_V2)


@dataclass(frozen=True)
class OperatorHeaders:
    """All headers of an operator's keyed state."""

    operator: OperatorState
    sources: tuple[AnyKeyedSource, ...]
    headers: tuple[KeyedBackendHeader, ...]

    @classmethod
    def read(cls, savepoint: Savepoint, operator: OperatorState) -> OperatorHeaders:
        """Every file's head, some at a time."""
        sources = keyed_sources(savepoint, operator)
        if len(sources) <= 1:
            return cls(operator, tuple(sources), tuple(source.header() for source in sources))
        with ThreadPoolExecutor(HEADER_READERS) as pool:
            return cls(operator, tuple(sources), tuple(pool.map(lambda source: source.header(), sources)))

    def metas(self) -> dict[tuple[str, bool], list[StateMetaInfoSnapshot]]:
        """The registrations of every state over all files, by name and whether it is a timer queue."""
        found: dict[tuple[str, bool], list[StateMetaInfoSnapshot]] = {}
        for header in self.headers:
            for meta in header.states:
                found.setdefault((meta.name, not is_key_value(meta)), []).append(meta)
        return found

    @property
    def notes(self) -> list[str]:
        """What users should know of how the keys are read."""
        found = [source.note for source in self.sources if isinstance(source, ChangelogSource) and source.note]
        return list(dict.fromkeys(found))

    @property
    def key_serializers(self) -> list[TypeSerializer]:
        """The key serializer of every file."""
        return [header.key_serializer for header in self.headers]

    def split(self, key_groups: tuple[int, ...]) -> KeyedSplit:
        """What the task of some key groups reads."""
        sources = tuple(source for source in self.sources if meets(source.key_group_range, key_groups))
        return KeyedSplit(sources, key_groups)

    def choose(self, namespaced: bool, wanted: tuple[str, ...] | None) -> dict[str, list[StateMetaInfoSnapshot]]:
        """The key-value states of a table, by name."""
        all_states = {name: metas for (name, timer), metas in self.metas().items() if not timer}
        fitting = {name: metas for name, metas in all_states.items() if is_namespaced(metas[0]) == namespaced}
        table, other = ("window_state", "keyed_state") if namespaced else ("keyed_state", "window_state")
        label = self.operator.label
        if wanted is not None:
            misplaced = [name for name in wanted if name in all_states and name not in fitting]
            if misplaced:
                raise StateNotFoundError(
                    f"state {misplaced[0]!r} is not in {table}",
                    operator=label,
                    remedy=f"option('table', '{other}') has it",
                )
        if not fitting:
            raise StateNotFoundError(
                f"the operator has no {table}",
                operator=label,
                remedy=f"option('table', '{other}') has its states"
                if all_states
                else "load the path without options to see what the snapshot has",
            )
        return {name: fitting[name] for name in choose_states(list(fitting), wanted, "state", label)}


@dataclass(frozen=True, slots=True)
class KeyedSpec:
    """What tasks need to know of a table of keyed state."""

    states: tuple[str, ...]
    namespaced: bool
    raw: frozenset[str]
    options: DecodeOptions
    batch_rows: int
    block_bytes: int

    def bind(self, header: KeyedBackendHeader, form: str) -> dict[str, tuple[int, StateColumn]]:
        """The states that a file has: id and column by name."""
        return {
            meta.name: (i, StateColumn(meta, form, self.options, meta.name in self.raw))
            for i, meta in enumerate(header.states)
            if meta.name in self.states and is_key_value(meta)
        }


@dataclass(frozen=True, slots=True)
class KeyedSplit:
    """What one task reads: the sources that meet its key groups."""

    sources: tuple[AnyKeyedSource, ...]
    key_groups: tuple[int, ...]

    def blocks(self, spec: KeyedSpec, keys: Places = None) -> Iterator[tuple[KeyedBlock, KeyedBackendHeader]]:
        """The entries of all sources, each block with its file's header.

        ``keys`` with their key groups: at least the entries of these, where a file has an order to find them by.
        """
        for stream, selected in self._streams(spec):
            for block in self._looked_up(stream, selected, spec, keys) or stream.blocks(
                set(self.key_groups), selected, spec.namespaced, spec.block_bytes
            ):
                yield block, stream.header

    def rows_or_blocks(
        self, spec: KeyedSpec, keys: Places = None
    ) -> Iterator[tuple[KeyedBlock | SortedRows, KeyedBackendHeader]]:
        """The same, but rows where they come out of the file joined."""
        for stream, selected in self._streams(spec):
            for block in self._looked_up(stream, selected, spec, keys) or stream.rows_or_blocks(
                set(self.key_groups), selected, spec.namespaced, spec.block_bytes
            ):
                yield block, stream.header

    @staticmethod
    def _looked_up(
        stream: KeyedStream, selected: set[int], spec: KeyedSpec, keys: Places
    ) -> Iterator[KeyedBlock] | None:
        if keys is None or not isinstance(stream, RocksDBKeyedStream):
            return None
        return stream.look_up(keys, selected, spec.namespaced, spec.block_bytes)

    def _streams(self, spec: KeyedSpec) -> Iterator[tuple[KeyedStream, set[int]]]:
        for source in self.sources:
            with source.open(spec.options) as stream:
                selected = {state for state, _ in spec.bind(stream.header, stream.form).values()}
                if selected:
                    yield stream, selected


def vertices(
    operator: OperatorState, request: TableRequest, only: set[int] | None, parallelism: int
) -> Iterator[tuple[int, ...]]:
    """The key groups of every execution vertex, as far as the request (and a look-up of keys) wants them."""
    for index in range(parallelism):
        owned = range_for_operator_index(operator.max_parallelism, parallelism, index)
        yield tuple(group for group in owned if request.wants(group) and (only is None or group in only))


def meets(key_group_range: KeyGroupRange, key_groups: Sequence[int]) -> bool:
    """Whether a handle has one of some key groups."""
    return any(group in key_group_range for group in key_groups)


def state_type(metas: Sequence[StateMetaInfoSnapshot], options: DecodeOptions, raw: bool) -> pa.DataType:
    """The type of a state's column over all files."""
    return unify([StateColumn(meta, CANONICAL, options, raw).arrow_type() for meta in metas], metas[0].name)


def check_decodable(metas: Sequence[StateMetaInfoSnapshot], undecodable: str, operator: str) -> str | None:
    """A warning where a state is (partly) BINARY because nobody can decode it; an error where that was declined."""
    opaque = StateColumn(metas[0], CANONICAL, DecodeOptions()).opaque
    if not opaque:
        return None
    name = metas[0].name
    what = f"state {name!r} has values of {opaque[0].flink_type} ({opaque[0].snapshot_class})"
    remedy = "plug in a serializer (entry point group 'pyspark_savepoint.serializers')"
    if undecodable == "error":
        raise UndecodableStateError(
            f"{what}, which only the user's code can decode",
            operator=operator,
            state=name,
            remedy=f"{remedy}, choose other states (option 'state'), or option('undecodable', 'binary')",
        )
    return f"{what}, which only the user's code can decode: it is BINARY. To do: {remedy}."


def check_decodable_key(serializers: Iterable[TypeSerializer], undecodable: str, operator: str, what: str) -> None:
    """UndecodableStateError where keys (or namespaces) would be BINARY, and that was declined."""
    opaque = [part for serializer in serializers for part in serializer.opaque_parts()]
    if opaque and undecodable == "error":
        raise UndecodableStateError(
            f"the {what} are of {opaque[0].flink_type} ({opaque[0].snapshot_class}), which only the user's code can "
            "decode",
            operator=operator,
            remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers'), or "
            "option('undecodable', 'binary')",
        )


def key_type(serializers: Sequence[TypeSerializer], options: DecodeOptions, raw: bool = False) -> pa.DataType:
    """The type of the key column over all files; BINARY where the user wants, or nobody can decode keys."""
    if raw or any(serializer.opaque_parts() for serializer in serializers):
        return pa.binary()
    return unify([serializer.arrow_type(options) for serializer in serializers], "key")
