"""Keyed state of the changelog state backend: materialized state and the changes since, replayed.

    handle := materialized parts (of the backend below)  changes in order  key groups

The key groups of the handle are authoritative; the parts may contain more. Flink:
``ChangelogBackendRestoreOperation``, ``ChangelogKeyedStateBackend``.

Units are replayed in bounded memory: they are partitioned by key on local disk and replayed part by part. All units of
a key are in one part, in the order of the log, so each part can be replayed on its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Bytes, DecodeOptions, Longs, Origin, binary_array, binary_parts
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.changelog import ChangeSource, not_replayed, registrations
from pyspark_savepoint.formats.keyed.key_partitions import FANOUT, KeyedRows, KeyPartitions, Parts
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, PARTS, SCHEMA, KeyedBlock, binary_column, block_of
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.statebackends.sources.changelog_units import UNIT, UNITS, UnitReader, entry_units

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import Read
    from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
    from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream
    from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
    from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.serializers.composite.optional_map import Member
    from pyspark_savepoint.statebackends.sources.keyed_source import KeyedSource, RocksDBSource

#: Serializer of keys whose type is not recorded in the snapshot.
UNKNOWN_KEY = OpaqueSerializer("KeyOfNoRecordedType", 0)


class Replay:
    """Context manager that collects all units of some keys and replays them as ``blocks``, then removes its files."""

    def __init__(self, template: KeyedBlock, block_bytes: int) -> None:
        self.template = template
        self.block_bytes = block_bytes
        self.waiting: list[pa.RecordBatch] = []
        self.size = 0
        self.divided: KeyPartitions | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.divided is not None:
            self.divided.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add units, in the order of the log."""
        if self.divided is not None:
            self.divided.add(_keyed(batch))
            return
        self.waiting.append(batch)
        self.size += batch.nbytes
        if self.size > self.block_bytes:
            size = self.block_bytes
            self.divided = KeyPartitions(UNITS, _keyed, piece=size, limit=size, capacity=size)
            for earlier in self.waiting:
                self.divided.add(_keyed(earlier))
            self.waiting = []

    def blocks(self) -> Iterator[KeyedBlock]:
        """Yield the remaining entries as complete blocks."""
        for (units,) in self.divided.pieces() if self.divided is not None else [[self.waiting]]:
            yield from replayed(units, self.template)


def _keyed(batch: pa.RecordBatch) -> KeyedRows:
    offsets, data = binary_parts(batch.column("key"))
    return KeyedRows(_owned(data), offsets[:-1].copy(), offsets[1:].copy(), lambda rows: batch.take(pa.array(rows)))


def _owned(data: Bytes) -> Bytes:
    """Return writable bytes, which the kernels' signatures require although they do not write."""
    return data if data.flags.writeable else data.copy()


def replayed(batches: Sequence[pa.RecordBatch], template: KeyedBlock) -> Iterator[KeyedBlock]:
    """Replay units in order: yield one block of the remaining entries, or none."""
    table = pa.Table.from_batches(batches, UNITS)
    if table.num_rows:
        left = _Cells(table, template).left()
        if left.num_rows:
            yield block_of([left], template)


class _Cells:
    """Units, and the value (cell) that each belongs to."""

    def __init__(self, table: pa.Table, template: KeyedBlock) -> None:
        self.template = template
        self.state = np.array(table.column("state"), np.int32)
        self.key_group = np.array(table.column("key_group"), np.int32)
        self.unit = np.array(table.column(UNIT), np.int8)
        self.offsets: dict[str, Longs] = {}
        self.data: dict[str, Bytes] = {}
        for part in PARTS:
            column = table.column(part).cast(pa.large_binary()).combine_chunks()
            offsets, data = binary_parts(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
            self.offsets[part], self.data[part] = offsets, _owned(data)

    def _number(self, buffer: Bytes, start: Longs, end: Longs) -> tuple[Any, Longs]:
        """Number the spans so that equal ones share a number; return the numbers and the first unit of each."""
        from pyspark_savepoint.formats.kernels import frames, hashing

        n = len(start)
        number, first = np.empty(n, np.int32), np.empty(n, np.int64)
        table = np.empty(1 << max(4, (2 * n).bit_length()), np.int32)
        bounds = np.zeros(1, np.int64), np.full(1, n, np.int64)
        count = frames.hash_rows(buffer, start, end, *bounds, 0, number, first, table, hashing.SECRET)
        return number, first[:count]

    def left(self) -> pa.RecordBatch:
        """Return the entries that remain, without their units."""
        from pyspark_savepoint.formats.kernels import changelog

        n = len(self.unit)
        sizes = np.full(n, changelog.HEAD, np.int64)
        for part in ("key", "namespace", "user"):
            sizes += np.diff(self.offsets[part])
        end = np.cumsum(sizes)
        start, row_end = end - sizes, np.empty(n, np.int64)
        names = np.empty(int(end[-1]), np.uint8)
        key, namespace, user = ((self.offsets[part], self.data[part]) for part in ("key", "namespace", "user"))
        changelog.identities(self.state, *key, *namespace, *user, start, names, row_end)
        cell, first = self._number(names, start, end)
        clears = bool(np.any(self.unit == changelog.CLEAR))
        row, rows = self._number(names, start, row_end) if clears else (np.zeros(n, np.int32), first[:1])
        head, tail, last = (np.full(len(first), -1, np.int64) for _ in range(3))
        torn = np.zeros(len(first), np.bool_)
        following, cleared = np.full(n, -1, np.int64), np.full(len(rows), -1, np.int64)
        lists = [i for i, meta in enumerate(self.template.states) if meta.state_type == "LIST"]
        changelog.replay(self.unit, cell, row, np.isin(self.state, lists), head, tail, last, following, cleared, torn)
        alive = (head >= 0) & (last > cleared[row[first]])
        self._refuse_torn(first[alive & torn])
        return self._entries(first[alive], head[alive], following)

    def _refuse_torn(self, units: Longs) -> None:
        if len(units):
            meta = self.template.states[int(self.state[units[0]])]
            raise _torn(meta, self.template.origin)

    def _entries(self, first: Longs, head: Longs, following: Longs) -> pa.RecordBatch:
        from pyspark_savepoint.formats.kernels import changelog

        sizes = np.empty(len(head), np.int64)
        changelog.chain_sizes(head, following, self.offsets["value"], sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        values = np.empty(int(offsets[-1]), np.uint8)
        changelog.join_chains(head, following, self.offsets["value"], self.data["value"], offsets[:-1].copy(), values)
        columns = [pa.array(self.state[first]), pa.array(self.key_group[first])]
        for part in PARTS[:-1]:
            columns.append(binary_column(self.data[part], self.offsets[part][first], self.offsets[part][first + 1]))
        columns.append(binary_array(pa.binary(), offsets, values))
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _torn(meta: StateMetaInfoSnapshot, origin: Origin) -> UnsupportedStateError:
    return not_replayed(
        f"windows of state {meta.name!r} were merged, and only the job's own function can merge their values",
        origin.path,
        origin.operator,
        state=meta.name,
        found=f"{meta.state_type} values of two namespaces",
    )


def of_key_groups(table: pa.Table, key_groups: Sequence[int]) -> list[pa.RecordBatch]:
    """Return the units of some key groups, in order."""
    is_selected: Any = pc.is_in(table.column("key_group"), value_set=pa.array(key_groups, pa.int32()))
    return [batch for batch in table.filter(is_selected).to_batches() if batch.num_rows]


#: An opened source.
KeyedStream: TypeAlias = "CanonicalKeyedStream | HeapKeyedStream | RocksDBKeyedStream | ChangelogKeyedStream"
StateName = tuple[str, bool]


def name_of(meta: StateMetaInfoSnapshot) -> StateName:
    """Return the identity of a state: its name, and whether it is a timer queue."""
    return meta.name, meta.kind is BackendStateType.PRIORITY_QUEUE


@redacted
@dataclass(frozen=True, slots=True)
class ChangelogSource:
    """Description of materialized parts and changes: frozen, picklable, without open files.

    ``key`` is the key serializer where no part records it; ``note`` tells users how it was determined.
    """

    path: str
    parts: tuple[KeyedSource | RocksDBSource | ChangelogSource, ...]
    changes: tuple[ChangeSource, ...]
    change_bytes: int
    key_group_range: KeyGroupRange
    max_parallelism: int
    operator: str
    key: TypeSerializer | None = None
    note: str | None = None
    #: Key groups that are left out, because they are damaged.
    lost: frozenset[int] = frozenset()

    def header(self) -> KeyedBackendHeader:
        """Return the states of all parts, and those that the changes register."""
        try:
            return self._combine([part.header() for part in self.parts])[0]
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def header_reads(self) -> Iterator[Read]:
        """Yield what :meth:`header` reads of the parts."""
        for part in self.parts:
            yield from part.header_reads()

    def reads(self, key_groups: Collection[int]) -> Iterator[Read]:
        """Yield what is read when the source is opened for some key groups."""
        for part in self.parts:
            yield from part.reads(key_groups)

    def _combine(self, headers: Sequence[KeyedBackendHeader]) -> tuple[KeyedBackendHeader, set[StateName]]:
        """Return the combined header, and the states whose type changed while changes were logged."""
        states: dict[StateName, StateMetaInfoSnapshot] = {}
        changed: set[StateName] = set()
        metas = [meta for header in headers for meta in header.states]
        metas += [registration.meta for registration in registrations(self.changes, self.operator)]
        for meta in metas:
            name = name_of(meta)
            existing = states.setdefault(name, meta)
            if _covers_state(meta, existing):
                states[name] = meta
            elif not _covers_state(existing, meta):
                changed.add(name)
        key = self.key or key_of(headers, states.values()) or UNKNOWN_KEY
        return KeyedBackendHeader(False, key, tuple(states.values())), changed

    @contextmanager
    def open(self, options: DecodeOptions) -> Iterator[ChangelogKeyedStream]:
        """Open parts and changes as one stream; errors get the operator's name."""
        # Decoding that only finds where values end must not fail on values that no column can hold.
        plain = options.undecoded()
        try:
            with ExitStack() as stack:
                streams = [stack.enter_context(part.open(options)) for part in self.parts]
                header, changed = self._combine([stream.header for stream in streams])
                yield ChangelogKeyedStream(self, header, streams, plain, changed)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None


def key_of(
    headers: Sequence[KeyedBackendHeader], states: Sequence[StateMetaInfoSnapshot] | Any
) -> TypeSerializer | None:
    """Return the key serializer of a part, or of timers, whose serializer contains it."""
    if headers:
        return headers[0].key_serializer
    for meta in states:
        if meta.kind is BackendStateType.PRIORITY_QUEUE and len(meta.value_serializer.children) == 2:
            return meta.value_serializer.children[0]
    return None


def _covers_state(wide: StateMetaInfoSnapshot, narrow: StateMetaInfoSnapshot) -> bool:
    if wide is narrow:
        return True
    roles = wide.serializers.keys() == narrow.serializers.keys() and wide.state_type == narrow.state_type
    return roles and all(_covers(wide.serializers[role], narrow.serializers[role]) for role in wide.serializers)


def _covers(wide: TypeSerializer, narrow: TypeSerializer) -> bool:
    """Return whether serializer ``wide`` reads everything that ``narrow`` wrote.

    They differ where subclasses of a POJO were registered later, on first use.
    """
    if type(wide) is not type(narrow) or wide.snapshot_class != narrow.snapshot_class:
        return False
    if wide.flink_type == narrow.flink_type:
        return True
    if isinstance(wide, PojoSerializer) and isinstance(narrow, PojoSerializer):
        others = {member.name: member for member in wide.others}
        pairs = [*_pairs(wide.fields, narrow.fields), *_pairs(wide.registered, narrow.registered)]
        pairs += [(others.get(member.name), member) for member in narrow.others]
        return wide.class_name == narrow.class_name and all(_covers_member(*pair) for pair in pairs)
    children = list(zip_longest(wide.children, narrow.children))
    return bool(children) and all(one and other and _covers(one, other) for one, other in children)


def _pairs(wide: Sequence[Member], narrow: Sequence[Member]) -> list[tuple[Member | None, Member | None]]:
    return list(zip_longest(wide, narrow))


def _covers_member(wide: Member | None, narrow: Member | None) -> bool:
    if wide is None or narrow is None or wide.name != narrow.name:
        return False
    return _covers(wide.serializer, narrow.serializer)


@dataclass(slots=True)
class ChangelogKeyedStream:
    """Open parts and changes, as one stream of entries in the canonical format."""

    source: ChangelogSource
    header: KeyedBackendHeader
    streams: list[KeyedStream]
    options: DecodeOptions
    changed: set[StateName] = field(default_factory=set)
    form: str = field(default=CANONICAL, init=False)

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups in complete blocks.

        With ``namespaced``, rows are identified by key and namespace.
        """
        selected_groups = sorted(
            group for group in key_groups - self.source.lost if group in self.source.key_group_range
        )
        if not selected_groups:
            return
        for meta in (self.header.states[state] for state in sorted(selected)):
            if name_of(meta) in self.changed:
                raise not_replayed(
                    f"state {meta.name!r} changed its type while its changes were logged",
                    self.source.path,
                    self.source.operator,
                    state=meta.name,
                )
        try:
            yield from _Reading(self, selected, namespaced, block_bytes).blocks(selected_groups)
        except SavepointError as error:
            raise error.with_facts(operator=self.source.operator) from None

    rows_or_blocks = blocks


class _Reading:
    """One pass over a stream: the log is divided by key groups, and each share replayed over their entries."""

    def __init__(self, stream: ChangelogKeyedStream, selected: set[int], namespaced: bool, block_bytes: int) -> None:
        self.source = stream.source
        self.header = stream.header
        self.options = stream.options
        self.selected = frozenset(selected)
        self.namespaced = namespaced
        self.block_bytes = block_bytes
        here = {name_of(meta): i for i, meta in enumerate(stream.header.states)}
        ids = [{i: here[name_of(meta)] for i, meta in enumerate(part.header.states)} for part in stream.streams]
        self.streams = [
            (part, {theirs: mine for theirs, mine in places.items() if mine in selected})
            for part, places in zip(stream.streams, ids, strict=True)
        ]
        self.template = self._template()

    def _template(self) -> KeyedBlock:
        spans, numbers, nothing = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
        origin = Origin(self.source.path, 0, self.source.operator, None, True)
        return KeyedBlock(
            CANONICAL, self.header.states, nothing, origin, numbers, numbers, spans, spans, spans, spans, spans, spans,
            spans, spans, spans, spans, namespaced=self.namespaced,
        )  # fmt: skip

    def blocks(self, key_groups: Sequence[int]) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups."""
        share = self.source.change_bytes * len(key_groups) // max(1, len(self.source.key_group_range))
        count = max(1, min(FANOUT, len(key_groups), -(-2 * share // self.block_bytes)))
        part_numbers = np.full(max(key_groups) + 1, 0, np.int64)
        part_numbers[key_groups] = np.arange(len(key_groups)) * count // len(key_groups)
        with Parts(UNITS, count, self.block_bytes) as parts:
            self._read_log(parts, part_numbers, frozenset(key_groups))
            parts.finish()
            for i, size in enumerate(parts.sizes.tolist()):
                groups = [group for group in key_groups if part_numbers[group] == i]
                if size > self.block_bytes:
                    yield from self._by_key(groups, parts.batches(i))
                else:
                    yield from self._by_key_group(groups, pa.Table.from_batches(parts.batches(i), UNITS))

    def _read_log(self, parts: Parts, place: Any, key_groups: frozenset[int]) -> None:
        def add(batch: pa.RecordBatch) -> None:
            part = place[np.asarray(batch.column("key_group"))]
            parts.add(part, lambda rows: batch.take(pa.array(rows)) if parts.count > 1 else batch)

        reader = UnitReader(self.header.states, self.header.key_serializer, key_groups, self.selected, self.options)
        for source in self.source.changes:
            for changes in source.read(max(1 << 16, self.block_bytes // 4), self.source.operator):
                for batch in reader.units(changes):
                    add(batch)

    def _entries(self, key_groups: Sequence[int]) -> Iterator[tuple[KeyedBlock, dict[int, int]]]:
        """Yield the blocks of the parts, each with a map from its state ids to those of the table."""
        for stream, ids in self.streams:
            if ids:
                for block in stream.blocks(set(key_groups), set(ids), self.namespaced, self.block_bytes):
                    yield block, ids

    def _by_key(self, groups: Sequence[int], log: Iterator[pa.RecordBatch]) -> Iterator[KeyedBlock]:
        """Replay entries and changes partitioned by key, if the changes exceed the memory."""
        with Replay(self.template, self.block_bytes) as replay:
            for block, ids in self._entries(groups):
                replay.add(entry_units(block, ids, self.header.states))
            for batch in log:
                replay.add(batch)
            yield from replay.blocks()

    def _by_key_group(self, groups: Sequence[int], log: pa.Table) -> Iterator[KeyedBlock]:
        """Replay block by block with the changes of its key groups, then key groups that have only changes."""
        rest = set(groups)
        changed = set(log.column("key_group").unique().to_pylist())
        for (complete, _), blocks in groupby(enumerate(self._entries(groups)), _together):
            if complete:
                for _, (block, ids) in blocks:
                    mine = block.runs.key_group.tolist()
                    rest.difference_update(mine)
                    yield from self._complete(block, ids, of_key_groups(log, mine) if changed & {*mine} else [])
                continue
            with Replay(self.template, self.block_bytes) as replay:
                for _, (block, ids) in blocks:
                    replay.add(entry_units(block, ids, self.header.states))
                    mine = block.runs.key_group.tolist()
                rest.difference_update(mine)
                for batch in of_key_groups(log, mine):
                    replay.add(batch)
                yield from replay.blocks()
        if changed & rest:
            yield from replayed(of_key_groups(log, sorted(rest)), self.template)

    def _complete(self, block: KeyedBlock, ids: dict[int, int], log: list[pa.RecordBatch]) -> Iterator[KeyedBlock]:
        if log or block.form != CANONICAL:
            yield from replayed([entry_units(block, ids, self.header.states), *log], self.template)
            return
        table_ids = np.full(len(block.states) + 1, -1, np.int32)
        table_ids[list(ids)] = list(ids.values())
        yield replace(block, states=self.header.states, state=table_ids[block.state])


def _together(numbered: tuple[int, tuple[KeyedBlock, dict[int, int]]]) -> tuple[bool, int]:
    """Group blocks to replay together: all blocks of an incomplete key group; each complete block alone."""
    number, (block, _) = numbered
    return (True, number) if block.complete else (False, int(block.runs.key_group[0]))
