"""Entries of keyed state in memory: spans in one buffer, independent of the file format.

An entry consists of a key, a namespace, a user key (in map states of the canonical format), and a value. Entries of
different states belong to the same row if their ``span`` is equal: the key, or the key together with the namespace
(which are adjacent in both formats).

Spilling and merging exchange entries as RecordBatches of (state, key group, namespace, key, user key, value): the
four parts are binary columns (``SCHEMA``). Such entries can be converted back to blocks.

Composite keys of the canonical format and of RocksDB are split into key, namespace and user key:

    compositeKey := prefix  key  [vlen]  namespace  [vlen]  [userKey]        timers: prefix  timer
    vlen         := length of the part before it, little-endian base 256; present only if key and namespace are variable

Flink: ``CompositeKeySerializationUtils``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    Origin,
    binary_array,
    binary_parts,
    fixed_array,
    fixed_values,
)
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.unknown_keys import skip_unknown_keys
from pyspark_savepoint.formats.serializers.layout import program, skip_rows

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

CANONICAL, HEAP = "canonical", "heap"
#: In blocks of more states, the entries of a state are looked up: else each state would look at all entries.
FEW_STATES = 8
#: Merging so many runs, or as many columns in all rows, takes too long where most keys are in few states.
MANY_STATES = 64
NO_ENTRIES: Longs = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a block: the selected entries of one state in one key group.

    Runs ``bounds[i]`` to ``bounds[i + 1]``, each the entries from ``low`` to ``high``, are those of ``key_group[i]``,
    which may have none. Arrays, since there may be 32,768 key groups.
    """

    key_group: Ints
    bounds: Longs
    low: Longs
    high: Longs

    @classmethod
    def of(cls, state: Ints, key_group: Ints, bounds: Longs) -> Runs:
        """Return the runs of equal state of key groups whose entries lie between neighbouring bounds, which ascend."""
        cut_at = np.zeros(len(state) + 1, np.bool_)
        cut_at[1:-1] = state[1:] != state[:-1]
        cut_at[bounds] = True
        cuts = np.flatnonzero(cut_at)
        return cls(key_group, np.searchsorted(cuts, bounds), cuts[:-1], cuts[1:])

    @classmethod
    def of_sorted(cls, state: Ints, key_group: Ints) -> Runs:
        """Return the runs of entries that are ordered by key group and state."""
        starts = np.flatnonzero(np.concatenate([[True], key_group[1:] != key_group[:-1]])[: len(key_group)])
        return cls.of(state, key_group[starts], np.concatenate([starts, [len(key_group)]]))

    @classmethod
    def in_any_order(cls, key_group: Ints, place: Longs, low: Longs, high: Longs) -> Runs:
        """Return runs whose key groups are given by their places in ``key_group``."""
        order = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[order], np.arange(len(key_group) + 1))
        return cls(key_group, bounds, low[order], high[order])

    @property
    def place(self) -> Longs:
        """Return the place in ``key_group`` of each run."""
        place: Longs = np.repeat(np.arange(len(self.key_group)), np.diff(self.bounds))
        return place

    def select(self, flags: Flags) -> Runs:
        """Return some runs; those without any keep their key group."""
        before = np.concatenate([[0], np.cumsum(flags)])
        return Runs(self.key_group, before[self.bounds], self.low[flags], self.high[flags])

    def entries(self) -> Longs:
        """Return the indices of the entries of all runs."""
        counts = self.high - self.low
        stops = np.cumsum(counts)
        entries: Longs = np.arange(counts.sum()) + np.repeat(self.low - (stops - counts), counts)
        return entries


NO_RUNS = Runs(np.empty(0, np.int32), np.zeros(1, np.int64), NO_ENTRIES, NO_ENTRIES)


@dataclass(slots=True)
class KeyedBlock:
    """Entries of one file. All arrays have one element per entry; ``state`` is an index into ``states``.

    ``complete`` means that no other block contains entries of these key groups, ``namespaced`` that spans include the
    namespace, ``ascending`` that spans are known to ascend strictly in every run.
    """

    form: str
    states: Sequence[StateMetaInfoSnapshot]
    buffer: Bytes
    origin: Origin
    state: Ints
    key_group: Ints
    key_start: Longs
    key_end: Longs
    namespace_start: Longs
    namespace_end: Longs
    user_start: Longs
    user_end: Longs
    value_start: Longs
    value_end: Longs
    span_start: Longs
    span_end: Longs
    runs: Runs = NO_RUNS
    complete: bool = True
    namespaced: bool = False
    ascending: bool = False
    #: The entries of each state, once they were asked for.
    _entries: dict[int, Longs] | None = field(default=None, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.state)

    def entries_of(self, state: int) -> Longs:
        """Return the indices of the entries of a state, ascending."""
        if len(self.states) <= FEW_STATES:
            return np.flatnonzero(self.state == state)
        return self._by_state().get(state, NO_ENTRIES)

    def entries_by_state(self, state_ids: Collection[int]) -> Iterator[tuple[int, Longs]]:
        """Yield the wanted states that have entries, ascending, with their entries."""
        for state, entries in self._by_state().items():
            if state in state_ids:
                yield state, entries

    def _by_state(self) -> dict[int, Longs]:
        """Return the entries of all states that have any: one sort, however many states there are."""
        if self._entries is None:
            order = np.argsort(self.state, kind="stable")
            ordered = self.state[order]
            cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
            self._entries = {int(ordered[low]): order[low:high] for low, high in pairwise(cuts) if high > low}
        return self._entries


@dataclass(slots=True)
class SortedRows:
    """Rows of some key groups whose states are sorted and have one entry per key, joined while reading.

    ``value_start[i]`` and ``value_end[i]`` are the spans of state ``columns[i]``; the start is -1 in rows without it.
    """

    form: str
    states: Sequence[StateMetaInfoSnapshot]
    buffer: Bytes
    origin: Origin
    columns: Sequence[int]
    key_group: Ints
    key_start: Longs
    key_end: Longs
    namespace_end: Longs
    value_start: Longs
    value_end: Longs

    def __len__(self) -> int:
        return len(self.key_start)


#: Largest offset in a column with 32-bit offsets.
MAX_BINARY = (1 << 31) - 1
PARTS = ("namespace", "key", "user", "value")
SCHEMA = pa.schema(
    [pa.field("state", pa.int32()), pa.field("key_group", pa.int32()), *(pa.field(part, pa.binary()) for part in PARTS)]
)


def binary_column(buffer: Bytes, start: Longs, end: Longs) -> pa.Array:
    """Return the spans of a buffer as a binary column."""
    from pyspark_savepoint.formats.kernels import numbers

    offsets = np.zeros(len(start) + 1, np.int64)
    np.cumsum(end - start, out=offsets[1:])
    if offsets[-1] > MAX_BINARY:
        raise ValueRangeError(
            "a batch has more than 2 GiB of bytes in one column",
            found=f"{offsets[-1]} bytes in {len(start)} rows",
            remedy="option('batchSize', ...) with fewer rows",
        )
    data = np.empty(int(offsets[-1]), np.uint8)
    numbers.copy_spans(buffer, np.ascontiguousarray(start), offsets, data)
    return binary_array(pa.binary(), offsets.astype(np.int32), data)


def take_entries(block: KeyedBlock, entries: Longs | slice) -> pa.RecordBatch:
    """Return some entries of a block as a RecordBatch."""
    # pa.array of numpy's arrays would import pandas.
    columns = [
        fixed_array(pa.int32(), np.ascontiguousarray(of_entry[entries], np.int32))
        for of_entry in (block.state, block.key_group)
    ]
    for part in PARTS:
        start, end = getattr(block, f"{part}_start")[entries], getattr(block, f"{part}_end")[entries]
        columns.append(binary_column(block.buffer, start, end))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def block_of(batches: Sequence[pa.RecordBatch], template: KeyedBlock, complete: bool = True) -> KeyedBlock:
    """Return a block of entries, in their order within a key group and state; ``template`` is a block of their file."""
    table = pa.Table.from_batches(batches)
    # np.asarray of Arrow's arrays would import pandas, too.
    state, key_group = (
        np.concatenate([fixed_values(chunk, np.int32) for chunk in table.column(name).chunks])
        for name in ("state", "key_group")
    )
    # Runs are the entries of one state in one key group: sort them together.
    runs = key_group.astype(np.int64) << 32 | state
    order: Longs | slice = slice(None)
    if np.any(runs[1:] < runs[:-1]):
        order = np.argsort(runs, kind="stable")
        state, key_group = state[order], key_group[order]
    buffers, start, end, base = [], {}, {}, 0
    for part in PARTS:
        column = table.column(part).cast(pa.large_binary()).combine_chunks()
        offsets, data = binary_parts(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
        low, high = int(offsets[0]), int(offsets[-1])
        buffers.append(data[low:high])
        start[part], end[part] = offsets[:-1][order] + (base - low), offsets[1:][order] + (base - low)
        base += high - low
    return _assemble(template, state, key_group, np.concatenate(buffers), start, end, complete)


def _assemble(
    template: KeyedBlock,
    state: Any,
    key_group: Any,
    buffer: Bytes,
    start: dict[str, Longs],
    end: dict[str, Longs],
    complete: bool,
) -> KeyedBlock:
    block = KeyedBlock(
        template.form, template.states, buffer, Origin(template.origin.path, 0, template.origin.operator, None, True),
        state, key_group,
        start["key"], end["key"], start["namespace"], end["namespace"], start["user"], end["user"],
        start["value"], end["value"], start["key"], end["key"],
        Runs.of_sorted(state, key_group), complete=complete, namespaced=template.namespaced,
    )  # fmt: skip
    return _join_spans(block) if template.namespaced else block


def _join_spans(block: KeyedBlock) -> KeyedBlock:
    """Concatenate key and namespace of each entry, as in a file, so that one span covers both."""
    keys = binary_column(block.buffer, block.key_start, block.key_end)
    namespaces = binary_column(block.buffer, block.namespace_start, block.namespace_end)
    joined = pc.binary_join_element_wise(keys, namespaces, pa.scalar(b"", pa.binary()))
    offsets, data = binary_parts(joined)
    base = len(block.buffer)
    block.buffer = np.concatenate([block.buffer, data[: offsets[-1]]])
    block.span_start, block.span_end = base + offsets[:-1], base + offsets[1:]
    return block


def constant_width(serializer: TypeSerializer) -> int:
    """Return the bytes of every value, or -1 if that varies; ``getLength`` may be 0 for a namespace of one byte."""
    return program(serializer).widths[0]


def is_map(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether entries have a user key."""
    return meta.kind is not BackendStateType.PRIORITY_QUEUE and meta.state_type == "MAP"


def split_composite_keys(block: KeyedBlock, key: TypeSerializer, selected: set[int], options: DecodeOptions) -> None:
    """Compute the ends of key and namespace, and the start of the user key, for the entries of the selected states."""
    metas = [
        (i, meta)
        for i, meta in enumerate(block.states)
        if i in selected and meta.kind is not BackendStateType.PRIORITY_QUEUE
    ]
    widths = {constant_width(meta.namespace_serializer) for _, meta in metas}
    easy = len(widths) == 1 and -1 not in widths and not any(is_map(meta) for _, meta in metas)
    if easy:
        block.namespace_end = block.key_end
        width: int | Longs = widths.pop()
        timers = [i for i in selected if block.states[i].kind is BackendStateType.PRIORITY_QUEUE]
        if timers:  # the whole timer is the key
            width = np.where(np.isin(block.state, timers), 0, width)
        block.key_end = block.namespace_start = block.key_end - width
        # Entries of other states may have shorter namespaces; their keys are not used.
        short = np.flatnonzero(block.key_end < block.key_start)
        _check_order(block, short[np.isin(block.state[short], list(selected))])
        return
    composite_end = block.key_end
    block.key_end, block.namespace_start = composite_end.copy(), composite_end.copy()
    block.namespace_end, block.user_start = composite_end.copy(), composite_end.copy()
    for i, meta in metas:
        rows = block.entries_of(i)
        if len(rows):
            _split_state(block, rows, key, meta, composite_end[rows], options)


def _split_state(
    block: KeyedBlock,
    rows: Longs,
    key: TypeSerializer,
    meta: StateMetaInfoSnapshot,
    end: Longs,
    options: DecodeOptions,
) -> None:
    namespace = meta.namespace_serializer
    width = constant_width(namespace)
    variable = key.length < 0 and namespace.length < 0
    start = block.key_start[rows]
    origin = block.origin.of_state(meta.name)
    if not is_map(meta) and width >= 0:
        key_end, user = end - width, end
        namespace_start = key_end
        namespace_end = end
    else:
        at = Cursors(block.buffer, start.copy(), end, origin, options)
        _require_delimited(namespace, meta, origin)
        behind = _behind_key(meta)
        if not key.opaque_parts():
            skip_rows(key, at)
        elif variable or behind is None or not skip_unknown_keys(at, behind):
            _require_delimited(key, meta, origin)
        key_end = at.position.copy()
        if variable:
            _skip_length(at, key_end - start)
        namespace_start = at.position.copy()
        skip_rows(namespace, at)
        namespace_end = at.position.copy()
        if variable:
            _skip_length(at, namespace_end - namespace_start)
        if not is_map(meta):
            at.expect_end()
        user = at.position
    block.key_end[rows], block.namespace_start[rows] = key_end, namespace_start
    block.namespace_end[rows], block.user_start[rows] = namespace_end, user
    _check_order(block, rows[key_end < start])


def _behind_key(meta: StateMetaInfoSnapshot) -> tuple[TypeSerializer, ...] | None:
    """Return what composite keys have behind the key; None for a map whose keys and values cannot be told apart."""
    if not is_map(meta):
        return (meta.namespace_serializer,)
    given, value = meta.serializers.get("USER_KEY_SERIALIZER"), meta.value_serializer
    while given is None and len(value.children) == 1:
        value = value.children[0]
    if given is None and len(value.children) != 2:
        return None
    return meta.namespace_serializer, given or value.children[0]


def _require_delimited(part: TypeSerializer, meta: StateMetaInfoSnapshot, origin: Origin) -> None:
    opaque = part.opaque_parts()
    if opaque:
        raise UndecodableStateError(
            f"the keys of state {meta.name!r} cannot be split into their parts: only the job's own serializer can "
            f"delimit them",
            expected="a key whose serializer delimits it",
            found=opaque[0].flink_type,
            remedy=f"read other states of the operator (option 'state'), or {opaque[0].remedy}",
            **origin.facts(),
        )


def _skip_length(at: Cursors, lengths: Longs) -> None:
    """Skip the little-endian length after a value, and check it."""
    digits = np.maximum(1, (np.ceil(np.log2(lengths.astype(np.float64) + 1) / 8)).astype(np.int64))
    beyond = np.flatnonzero(at.position + digits > at.end)
    if len(beyond):
        at.fail(int(beyond[0]), "the length after a variable key or namespace")
    value = np.zeros(len(at), np.int64)
    for digit in range(int(digits.max(initial=0))):
        here = digits > digit
        value[here] |= at.buffer[at.position[here] + digit].astype(np.int64) << (8 * digit)
    wrong = np.flatnonzero(value != lengths)
    if len(wrong):
        at.fail(int(wrong[0]), f"the length {int(lengths[wrong[0]])} after a variable key or namespace")
    at.position += digits


def _check_order(block: KeyedBlock, short: Longs) -> None:
    """Raise a CorruptStateError if any of the entries has a key shorter than its namespace."""
    if len(short):
        raise CorruptStateError(
            "a composite key is shorter than its namespace",
            remedy=UNREADABLE,
            **block.origin.facts(int(block.key_start[short[0]])),
        )
