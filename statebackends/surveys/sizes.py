"""Table ``sizes``: entries and bytes of every state in every key group, without decoding values.

table             entries                                      bytes
keyed_state ...   values; entries of maps; lists count as 1    keys, namespaces, values, serialized as in that format
timers            timers                                       timers, serialized
operator_state    elements; entries of broadcast state         elements, serialized (compressed if the stream is)
raw and others    pieces                                       as stored in the file

``largest`` is the size of the largest entry in bytes. In the canonical format and in RocksDB every map entry contains
the key, so a map takes more bytes there than in the heap format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.io.byte_source import ByteSource, Read
from pyspark_savepoint.formats.io.run_ahead import AHEAD_FILES
from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
from pyspark_savepoint.formats.keyed.keyed_block import HEAP, MANY_STATES, KeyedBlock
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.python.python_state import name_of, names
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit, is_key_value, meets, table_of, vertices
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedStream, keyed_sources
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource, operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource, raw_timer_sources
from pyspark_savepoint.statebackends.surveys.survey import STATE_FIELDS, ManyRows, Row, Surveyed, SurveyPart

SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field("kind", pa.string()),
        pa.field("key_group", pa.int32()),
        pa.field("subtask", pa.int32()),
        pa.field("entries", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("largest", pa.int64()),
        pa.field("note", pa.string()),
    ]
)

#: Table, name and kind of a state.
Described = tuple[str, str, str]
#: Numbers of small streams that are kept before they are added up: 8 MB.
ROOM = 1 << 20


def plan_sizes(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Sequence[tuple[Surveyed, SurveyPart]]:
    """Return the parts of an operator: its key groups in ``count`` parts, and state without key groups."""
    surveyed = Surveyed.of(operator)
    parts: list[SurveyPart] = list(keyed_parts(savepoint, operator, request, count))
    if request.key_groups is None:
        parts += [OperatorStateSizes(surveyed, source) for source in operator_sources(savepoint, operator)]
        parts.append(OtherSizes(surveyed, tuple(_others(savepoint, operator))))
    return [(surveyed, part) for part in parts]


def keyed_parts(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Iterator[KeyedSizes]:
    """Yield parts with the keyed state and timers of some key groups."""
    surveyed = Surveyed.of(operator)
    sources = keyed_sources(savepoint, operator)
    timers = raw_timer_sources(savepoint, operator)
    for key_groups in vertices(operator, request, None, count):
        mine = tuple(source for source in sources if meets(source.key_group_range, key_groups))
        raw = tuple(source for source in timers if meets(source.offsets.key_group_range, key_groups))
        if mine or raw:
            yield KeyedSizes(surveyed, KeyedSplit(mine, key_groups), raw)


def requested_states(stream: KeyedStream, request: TableRequest) -> set[int]:
    """Return the states of a file that a request names, or all."""
    states = request.states
    return {i for i, meta in enumerate(stream.header.states) if states is None or names(meta) & set(states)}


def entry_counts(block: KeyedBlock, entries: Longs) -> Longs:
    """Return the count of every entry: 1, or for a map in the heap format its number of map entries."""
    counts = np.ones(len(entries), np.int64)
    if block.form != HEAP:
        return counts
    states = ((i, block.states[i]) for i in np.unique(block.state[entries]).tolist())
    maps = [i for i, meta in states if is_key_value(meta) and meta.state_type == "MAP"]
    room = block.value_end[entries] - block.value_start[entries] >= 4
    rows = np.flatnonzero(np.isin(block.state[entries], maps) & room)
    start = block.value_start[entries[rows]]
    digits = block.buffer[start[:, None] + np.arange(4)].astype(np.int64)
    counts[rows] = digits @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    return counts


def entry_bytes(block: KeyedBlock, entries: Longs) -> Longs:
    """Return the serialized bytes of every entry, without prefix, lengths and framing."""
    total = np.zeros(len(entries), np.int64)
    for start, end in (
        (block.key_start, block.key_end),
        (block.namespace_start, block.namespace_end),
        (block.user_start, block.user_end),
        (block.value_start, block.value_end),
    ):
        total += end[entries] - start[entries]
    return total


class _Sums:
    """Entries, bytes and the largest entry of every state in the key groups where it has entries."""

    def __init__(self) -> None:
        self.sums: dict[Described, list[tuple[Longs, Longs]]] = {}
        self.streams: list[tuple[Longs, Longs]] = []
        self.states: Mapping[int, Described] = {}
        self.room = ROOM

    def add(self, what: Described, key_group: Longs, counts: Longs, sizes: Longs) -> None:
        """Add some entries of a state, given as (table, state, kind)."""
        groups, at = np.unique(key_group, return_inverse=True)
        largest = np.zeros(len(groups), np.int64)
        np.maximum.at(largest, at, sizes)
        sums = [np.bincount(at, weights, len(groups)).astype(np.int64) for weights in (counts, sizes)]
        self._add_sums(what, groups, np.stack([*sums, largest], axis=1))

    def add_stream(self, states: Mapping[int, Described], key_groups: Longs, totals: Longs) -> None:
        """Add some key groups of a stream: totals are a row of entries, bytes and the largest entry for every state.

        Small streams are kept until there are many, or one of other states: a savepoint may have thousands.
        """
        if states is not self.states or self.room < totals.size:
            self._sum_up()
            self.states = states
        self.streams.append((key_groups, totals))
        self.room -= totals.size

    def _sum_up(self) -> None:
        if self.streams:
            key_groups, totals = (np.concatenate(each) for each in zip(*self.streams, strict=True))
            for state, what in self.states.items():
                self._add_sums(what, key_groups, totals[:, state])
        self.streams, self.room = [], ROOM

    def _add_sums(self, what: Described, key_groups: Longs, sums: Longs) -> None:
        """Add entries, bytes and the largest entry of a state in some key groups, a row for each."""
        some = sums[:, 0].nonzero()[0]
        if len(some):
            self.sums.setdefault(what, []).append((key_groups[some], sums[some]))

    def rows(self, operator: Surveyed) -> Iterator[ManyRows]:
        """Yield one row per state and key group that has entries."""
        self._sum_up()
        for (table, state, kind), found in self.sums.items():
            key_groups, (entries, size, largest) = _together(found)
            columns = {"entries": entries, "bytes": size, "largest": largest}
            subtasks = key_groups * operator.parallelism // operator.max_parallelism
            same = operator.row(table=table, state=state, kind=kind)
            yield ManyRows(same, {"key_group": key_groups, "subtask": subtasks, **columns})


def _together(sizes: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    """Return key groups, ascending, and their entries, bytes and largest entry."""
    key_groups, sums = sizes[0] if len(sizes) == 1 else (np.concatenate(each) for each in zip(*sizes, strict=True))
    if np.all(key_groups[1:] > key_groups[:-1]):
        return key_groups, sums.T
    ascending, at = np.unique(key_groups, return_inverse=True)
    total = np.zeros((3, len(ascending)), np.int64)
    for part in (0, 1):
        np.add.at(total[part], at, sums[:, part])
    np.maximum.at(total[2], at, sums[:, 2])
    return ascending, total


@dataclass(frozen=True, slots=True)
class KeyedSizes:
    """Sizes of keyed state and timers of some key groups of an operator."""

    operator: Surveyed
    split: KeyedSplit
    raw: tuple[RawTimerSource, ...]

    def reads(self) -> Iterator[Read]:
        """Yield what is read when the files are opened."""
        return self.split.reads()

    def rows(self, request: TableRequest) -> Iterator[ManyRows]:
        """Yield one row per state and key group."""
        sums, key_groups, options = _Sums(), set(self.split.key_groups), request.decode.undecoded()
        header, states = None, dict[int, Described]()
        with self.split.opened_ahead(AHEAD_FILES):
            for source in self.split.sources:
                with source.open(options) as stream:
                    if stream.header is not header:
                        header, wanted = stream.header, sorted(requested_states(stream, request))
                        states = {state: describe(header.states[state]) for state in wanted}
                    if states:
                        _add_stream(stream, key_groups, states, sums, request)
        for timers in self.raw:
            for queue, at, key_group in timers.timers(set(self.split.key_groups), request.decode):
                if request.state is None:
                    groups = np.full(len(at), key_group, np.int64)
                    what = ("timers", queue.state_name, "TIMER")
                    sums.add(what, groups, np.ones(len(at), np.int64), at.end - at.position)
        yield from sums.rows(self.operator)


def _add_stream(
    stream: KeyedStream,
    key_groups: set[int],
    states: Mapping[int, Described],
    sums: _Sums,
    request: TableRequest,
) -> None:
    if isinstance(stream, CanonicalKeyedStream) and len(stream.header.states) <= MANY_STATES:
        for groups, totals in stream.sizes(key_groups, request.block_bytes):
            sums.add_stream(states, groups, totals)
        return
    if isinstance(stream, RocksDBKeyedStream):
        stream.split_keys = False
    wanted = set(states)
    for block in stream.blocks(key_groups, wanted, False, request.block_bytes):
        for state, entries in block.entries_by_state(wanted):
            counts, sizes = entry_counts(block, entries), entry_bytes(block, entries)
            sums.add(states[state], block.key_group[entries].astype(np.int64), counts, sizes)


def describe(meta: StateMetaInfoSnapshot) -> Described:
    """Return table, name and kind of a state."""
    return table_of(meta), name_of(meta), meta.state_type


@dataclass(frozen=True, slots=True)
class OperatorStateSizes:
    """Sizes of the operator state that one subtask wrote."""

    operator: Surveyed
    source: OperatorSource

    def reads(self) -> Iterator[Read]:
        """Yield what is read: the header, and broadcast state."""
        return self.source.header_reads()

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per state, computed from offsets; only broadcast state is read, for its number of entries."""
        with self.source.location.open() as opened:
            stream = self.source.stream(opened)
            for state in self.source.states:
                if state.offsets and (request.states is None or state.name in request.states):
                    kind = state.mode.state_type
                    offsets = self.source.offsets(state.name)
                    sizes = stream.sizes(offsets)
                    entries = len(state.offsets) if kind != "BROADCAST" else self._entries(stream, offsets)
                    yield self.operator.row(
                        table="operator_state", state=state.name, kind=kind, subtask=self.source.subtask,
                        entries=entries, bytes=int(sizes.sum()), largest=int(sizes.max()),
                    )  # fmt: skip

    @staticmethod
    def _entries(stream: OperatorStream, offsets: Longs) -> int:
        """Return the number of entries at the beginning of a broadcast state."""
        if not stream.header.compressed:
            return int.from_bytes(stream.source.read(int(offsets[0]), 4), "big")
        buffer, pieces, _ = next(stream.windows(offsets, 1))
        return int.from_bytes(buffer[pieces.start[0] : pieces.start[0] + 4].tobytes(), "big")


@dataclass(frozen=True, slots=True)
class OtherSizes:
    """Sizes of state that is only bytes, computed on the driver."""

    operator: Surveyed
    sizes: tuple[tuple[tuple[str, str | int | None], ...], ...]

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per piece of state."""
        if request.state is None:
            for values in self.sizes:
                yield self.operator.row(**dict(values))


def _others(savepoint: Snapshot, operator: OperatorState) -> Iterator[tuple[tuple[str, str | int | None], ...]]:
    if operator.coordinator_state is not None:
        size = operator.coordinator_state_size
        yield _other("coordinator_state", "COORDINATOR", None, None, 1, size, size)
    for source in operator_sources(savepoint, operator, raw=True):
        starts = sorted(offset for state in source.states for offset in state.offsets)
        yield from _pieces("raw_operator_state", source.subtask, starts, source.location.open)
    timers = {source.location for source in raw_timer_sources(savepoint, operator)}
    for index in sorted(operator.subtasks):
        handle = operator.subtasks[index].raw_keyed_state
        if isinstance(handle, KeyGroupsStateHandle) and savepoint.resolve(handle.delegate, operator) not in timers:
            starts = sorted(offset for _, offset in handle.offsets if offset >= 0)
            yield from _pieces("raw_keyed_state", index, starts, savepoint.resolve(handle.delegate, operator).open)


def _pieces(
    table: str, subtask: int, starts: Sequence[int], opens: Callable[[], ByteSource]
) -> Iterator[tuple[tuple[str, str | int | None], ...]]:
    if starts:
        with opens() as opened:
            sizes = np.diff([*starts, opened.size])
        yield _other(table, "RAW", None, subtask, len(starts), int(sizes.sum()), int(sizes.max()))


def _other(
    table: str, kind: str, state: str | None, subtask: int | None, entries: int, size: int, largest: int
) -> tuple[tuple[str, str | int | None], ...]:
    return (
        ("table", table), ("kind", kind), ("state", state), ("subtask", subtask),
        ("entries", entries), ("bytes", size), ("largest", largest),
    )  # fmt: skip
