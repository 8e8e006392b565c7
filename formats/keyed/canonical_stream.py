"""Keyed state in the canonical format: canonical savepoints of all backends, and full snapshots of RocksDB up to 1.15.

    stream       := KeyedHeader  KeyGroup*               contiguous; offset 0 in the handle: no entries
    KeyGroup     := u16 stateId  Entry+ ... u16 0xFFFF   framing: kernels/frames.py; snappy framed if compressed
    Entry        := blob compositeKey  blob value
    compositeKey := prefix  rest                         composite_key.py; highest bit: last entry of its run
    prefix       := key group, one byte up to max parallelism 128, else two

Flink: ``FullSnapshotAsyncWriter``, ``FullSnapshotRestoreOperation``.

A sorted key group larger than memory is read twice (``sorted_windows``, or ``sorted_merge`` with maps). The first pass
finds the range of each state's run and checks that it is sorted; the second reads all runs in parallel, each through
its own window, and merges them. Unsorted key groups are partitioned by the hash of their keys (``partitioned_rows``);
those with maps are joined by ``statebackends.tables``. Both use local disk if the entries do not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, DecodeOptions, Ints, Longs, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.keyed.key_group_reader import (
    Extent,
    Extents,
    KeyGroupContent,
    read_extent,
    whole_content,
)
from pyspark_savepoint.formats.keyed.keyed_block import (
    CANONICAL,
    MANY_STATES,
    KeyedBlock,
    Runs,
    SortedRows,
    constant_width,
    is_map,
    split_composite_keys,
)
from pyspark_savepoint.formats.keyed.large_key_groups import PartitionedStates, RowSpans, SortedStates, merge_sorted

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource
    from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader


class FrameSpans:
    """Output arrays of the framing kernel: entries of ``states`` states, whose keys follow a prefix."""

    def __init__(self, capacity: int, prefix: int, states: int) -> None:
        from pyspark_savepoint.formats.kernels import frames

        self.kernel = frames.split_frames
        self.prefix, self.states = prefix, states
        self.done, self.more = frames.DONE, frames.MORE
        self.key_start, self.key_end = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self.value_start, self.value_end = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self.state = np.empty(capacity, np.int32)
        self.count = 0

    def split(self, buffer: Bytes, start: int, end: int, key_group: int, state: int) -> tuple[int, int, int]:
        """Append the entries of a key group; return the reason for stopping, the position, and the unfinished state."""
        why, position, state, self.count = self.kernel(
            buffer, start, end, state, key_group, self.prefix, self.states,
            self.key_start, self.key_end, self.value_start, self.value_end, self.state, self.count,
        )  # fmt: skip
        return why, position, state

    def split_all(self, buffer: Bytes, ends: Longs, key_groups: Longs) -> tuple[int, int, int, Longs]:
        """Find the entries of adjacent key groups.

        Return what :func:`frames.split_key_groups` returns, and the number of entries before each key group and in all.
        """
        from pyspark_savepoint.formats.kernels import frames

        bounds = np.zeros(len(ends) + 1, np.int64)
        why, position, wrong = frames.split_key_groups(
            buffer, ends, key_groups, self.prefix, self.states,
            self.key_start, self.key_end, self.value_start, self.value_end, self.state, bounds,
        )  # fmt: skip
        self.count = int(bounds[-1])
        return why, position, wrong, bounds


#: Number of windows up to which a key group is read whole and joined in one pass.
WHOLE = 16
#: Bytes of the span of a key or value in a row, and the maximum bytes of all spans per byte of a large key group.
ROW_BYTES = 16
SPANS_PER_BYTE = 6
#: Size of the smallest entry in bytes: two lengths and one byte of key.
MIN_FRAME = 9
#: Size of the smallest run of a state: its number, and one entry.
MIN_RUN = 2 + MIN_FRAME
#: Number of entries whose spans are computed at a time when only their sizes are needed.
SOME_FRAMES = 1 << 12


class CanonicalKeyedStream:
    """An open stream in the canonical format. The ids of the requested states are called ``selected``."""

    form = CANONICAL

    def __init__(
        self,
        source: ByteSource,
        header: KeyedBackendHeader,
        extents: Extents,
        max_parallelism: int,
        origin: Origin,
        options: DecodeOptions,
    ) -> None:
        self.source = source
        self.options = options
        self.header = header
        self.extents = extents
        self.prefix = 2 if max_parallelism > 128 else 1
        self.origin = origin
        self._sorted = True

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups; the rows of ``namespaced`` states consist of a key and a namespace.

        A key group larger than ``block_bytes`` bytes is split into several blocks, which are not complete.
        """
        for block in self._read(key_groups, selected, namespaced, block_bytes, join=False):
            assert isinstance(block, KeyedBlock)
            yield block

    def rows_or_blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock | SortedRows]:
        """Yield blocks as :meth:`blocks` does, with rows already joined where the order of the file allows it."""
        yield from self._read(key_groups, selected, namespaced, block_bytes, join=True)

    def _read(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int, join: bool
    ) -> Iterator[KeyedBlock | SortedRows]:
        join = join and len(selected) <= MANY_STATES
        rows = join and self._tail(selected) >= 0
        # Compressed data usually expands fourfold; the window bounds the memory, not the bytes read.
        limit = block_bytes // 4 if self.header.compressed else block_bytes
        for extents in self._adjacent(key_groups, limit):
            extent = extents[0]
            if extent.size <= limit:
                yield self._complete(extents, selected, namespaced, rows)
                continue
            fits = rows and self._sorted and extent.size <= WHOLE * limit
            joined = self._joined(extent, selected, namespaced) if fits else None
            if joined is not None:
                yield joined
                continue
            wanted = (selected, namespaced, block_bytes)
            merged: Iterator[KeyedBlock | SortedRows] | None = None
            if rows:
                merged = self._by_windows(extent, *wanted) if self._sorted else None
                merged = merged or self._by_parts(extent, *wanted)
            elif join:
                merged = merge_large_key_group(self, extent, wanted)
            yield from merged or self._partial(extent, *wanted)

    def _adjacent(self, key_groups: set[int], limit: int) -> Iterator[Extents]:
        """Yield adjacent key groups of ``limit`` bytes together, and each larger one by itself."""
        wanted = self.extents.among(key_groups)
        apart = 1 + (wanted.start[1:] != wanted.end[:-1]).nonzero()[0]
        for first, last in pairwise([0, *apart.tolist(), len(wanted)]):
            while first < last:
                fit = int(wanted.end[first:last].searchsorted(wanted.start[first] + limit, "right"))
                yield wanted.take(slice(first, first := first + max(fit, 1)))

    def counts(self, block_bytes: int) -> Iterator[tuple[Longs, Longs]]:
        """Yield key groups, and the entries of each; damaged ones are read with full checks, which raise errors."""
        from pyspark_savepoint.formats.kernels import walk

        states = range(len(self.header.states))
        key_groups = set(self.extents.key_group.tolist())
        for extents in self._adjacent(key_groups, block_bytes):
            count = -1
            if extents[0].size <= block_bytes:
                buffer, ends, _ = self._content(extents)
                count, runs, bounds = self._runs(buffer, ends, extents, states)
            if count >= 0:
                before = np.concatenate([[0], np.cumsum(runs[: bounds[-1], walk.COUNT])])
                yield extents.key_group, np.diff(before[bounds])
            else:
                for extent in extents:
                    blocks = self._partial(extent, set(states), False, block_bytes)
                    yield np.array([extent.key_group]), np.array([sum(map(len, blocks))])

    def sizes(self, key_groups: set[int], block_bytes: int) -> Iterator[tuple[Longs, Longs]]:
        """Yield some key groups, and for each the entries, bytes and largest entry of every state, a row per state.

        Bytes are those of keys, namespaces and values, without the prefix and lengths.
        """
        from pyspark_savepoint.formats.kernels import frames

        limit = block_bytes // 4 if self.header.compressed else block_bytes
        states = len(self.header.states)
        for extents in self._adjacent(key_groups, limit):
            if extents[0].size > limit:
                alone = self._sizes_by_windows(extents[0], block_bytes)
                yield np.array([extents[0].key_group], np.int64), alone[np.newaxis]
                continue
            buffer, ends, origin = self._content(extents)
            some = FrameSpans(min(SOME_FRAMES, len(buffer) // MIN_FRAME + 1), self.prefix, states)
            spans = (some.key_start, some.key_end, some.value_start, some.value_end, some.state)
            sums = np.zeros((len(extents), states, 3), np.int64)
            why, position, wrong = frames.sum_key_groups(buffer, ends, extents.key_group, self.prefix, *spans, sums)
            if wrong >= 0:
                self._unreadable(origin, position, extents[wrong].key_group, why, some)
            yield extents.key_group, sums

    def _sizes_by_windows(self, extent: Extent, block_bytes: int) -> Longs:
        states = len(self.header.states)
        sums = np.zeros((states, 3), np.int64)
        for block in self._partial(extent, set(), False, block_bytes):
            sizes = block.key_end - block.key_start + block.value_end - block.value_start
            sums[:, 0] += np.bincount(block.state, minlength=states)
            sums[:, 1] += np.bincount(block.state, sizes, states).astype(np.int64)
            np.maximum.at(sums[:, 2], block.state, sizes)
        return sums

    def _tail(self, selected: set[int]) -> int:
        """Return the byte width of the namespace if all selected states share it and none is a map; else -1."""
        metas = [self.header.states[state] for state in selected]
        widths = {-1 if is_map(meta) else constant_width(meta.namespace_serializer) for meta in metas}
        return widths.pop() if len(widths) == 1 else -1

    def _complete(self, extents: Extents, selected: set[int], namespaced: bool, rows: bool) -> KeyedBlock | SortedRows:
        buffer, ends, origin = self._content(extents)
        if rows:
            merged = self._merge(buffer, origin, extents, ends, sorted(selected), namespaced)
            if merged is not None:
                return merged
            # The merge has cleared flag bits that the general method needs.
            buffer, ends, origin = self._content(extents)
        frames = self._frames(len(buffer))
        why, position, wrong, bounds = frames.split_all(buffer, ends, extents.key_group)
        if wrong >= 0:
            self._unreadable(origin, position, extents[wrong].key_group, why, frames)
        return self._block(buffer, origin, frames, extents, bounds, selected, namespaced, complete=True)

    def _joined(self, extent: Extent, selected: set[int], namespaced: bool) -> SortedRows | None:
        """Return the rows of a sorted key group larger than a window.

        Return None if it is not sorted, has errors, or rows take too much memory.
        """
        alone = Extents.of([extent])
        buffer, ends, origin = self._content(alone)
        most = len(buffer) * SPANS_PER_BYTE
        return self._merge(buffer, origin, alone, ends, sorted(selected), namespaced, most)

    def _by_windows(
        self, extent: Extent, selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[SortedRows] | None:
        """Return the rows of a key group larger than memory, piece by piece; None if its states are not sorted."""
        content, columns, tail = self.content_of(extent), sorted(selected), self._tail(selected)
        states = len(self.header.states)
        sorted_states = SortedStates(columns, states, self.prefix, 0 if namespaced else tail, block_bytes)
        ranges = sorted_states.ranges(content, extent)
        if ranges is None:
            return None
        pieces = sorted_states.rows(content, ranges)
        alone = Extents.of([extent])
        return (self._rows(buffer, self._origin(0), columns, tail, alone, rows) for buffer, rows in pieces)

    def _by_parts(
        self, extent: Extent, selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[SortedRows] | None:
        """Return the rows of a large key group that is not sorted, piece by piece; None if it has errors."""
        content, columns, tail = self.content_of(extent), sorted(selected), self._tail(selected)
        states, compared = len(self.header.states), 0 if namespaced else tail
        parted = PartitionedStates(columns, states, self.prefix, compared, block_bytes, WHOLE * block_bytes)
        if not parted.divide(content, extent, extent.size * (4 if self.header.compressed else 1)):
            return None
        origin, alone = self._origin(extent.start), Extents.of([extent])
        return (self._rows(buffer, origin, columns, tail, alone, rows) for buffer, rows in parted.rows(origin))

    def _frames(self, size: int) -> FrameSpans:
        """Return output arrays for the entries of ``size`` bytes."""
        return FrameSpans(size // MIN_FRAME + 1, self.prefix, len(self.header.states))

    def _content(self, extents: Extents) -> tuple[Bytes, Longs, Origin]:
        """Return the content of contiguous key groups, the end of each, and its position in the file."""
        first = extents[0].start
        if not self.header.compressed:
            return read_extent(self.source, first, extents[-1].end), extents.end - first, self._origin(first)
        parts = [whole_content(self.source, extent.start, extent.end, True) for extent in extents]
        buffer = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return buffer, np.cumsum([len(part) for part in parts]), self._origin(0)

    def _merge(
        self,
        buffer: Bytes,
        origin: Origin,
        extents: Extents,
        ends: Longs,
        columns: list[int],
        namespaced: bool,
        most: int | None = None,
    ) -> SortedRows | None:
        """Join whole key groups in one pass; return None on any error, because the general method reports it.

        Return None also if the spans of rows would take more than ``most`` bytes.
        """
        from pyspark_savepoint.formats.kernels import walk

        tail = self._tail(set(columns))
        compared = 0 if namespaced else tail
        entries, runs, bounds = self._runs(buffer, ends, extents, columns)
        if entries < 0 or (most is not None and entries * ROW_BYTES * (1 + len(columns)) > most):
            return None
        rows = RowSpans(entries, len(columns))
        row_bounds = np.zeros(len(bounds), np.int64)
        unsorted = 0
        if self._sorted:
            unsorted = walk.merge_key_groups(
                buffer, runs, bounds, self.prefix, compared, *rows.arrays, row_bounds,
                np.ones(len(columns), np.bool_), np.empty(4 * len(columns), np.int64),
            )  # fmt: skip
            # If a writer did not sort one key group, it will not have sorted the next.
            self._sorted = unsorted < 0
        if not self._sorted:
            if most is not None:
                return None
            for group in range(unsorted, len(extents)):
                some = runs[bounds[group] : bounds[group + 1]]
                after = self._hash(buffer, some, compared, rows, int(row_bounds[group]))
                if after < 0:
                    return None
                row_bounds[group + 1] = after
        rows.bounds = row_bounds.tolist()
        return self._rows(buffer, origin, columns, tail, extents, rows)

    def _runs(self, buffer: Bytes, ends: Longs, extents: Extents, columns: Sequence[int]) -> tuple[int, Longs, Longs]:
        """Return the entries of some states in whole key groups, their runs, and where those of each key group begin.

        The number of entries is -1 if the bytes are not in the format.
        """
        from pyspark_savepoint.formats.kernels import walk

        column_of = np.full(len(self.header.states), -1, np.int64)
        column_of[columns] = np.arange(len(columns))
        runs = np.empty((min(len(ends) * len(columns), len(buffer) // MIN_RUN + 1), 4), np.int64)
        bounds = np.zeros(len(ends) + 1, np.int64)
        in_group = np.empty((len(self.header.states), 4), np.int64)
        entries = walk.find_key_group_runs(
            buffer, ends, extents.key_group, self.prefix, column_of, runs, bounds, in_group
        )
        return int(entries), runs, bounds

    def _rows(
        self, buffer: Bytes, origin: Origin, columns: list[int], tail: int, extents: Extents, rows: RowSpans
    ) -> SortedRows:
        n = rows.count
        key_group = np.repeat(extents.key_group.astype(np.int32), np.diff(rows.bounds))
        composite_end = rows.key_end[:n]
        return SortedRows(
            CANONICAL, self.header.states, buffer, origin, columns, key_group,
            rows.key_start[:n], composite_end - tail, composite_end, rows.value_start[:, :n], rows.value_end[:, :n],
        )  # fmt: skip

    def _hash(self, buffer: Bytes, runs: Longs, tail: int, rows: RowSpans, row: int) -> int:
        """Join states of one key group that are not sorted, from a row on; return the next row, or -1 on error."""
        from pyspark_savepoint.formats.kernels import hashing, walk

        column, start, stop = (runs[:, part].copy() for part in (walk.STATE, walk.START, walk.STOP))
        table = np.empty(1 << (2 * int(runs[:, walk.COUNT].sum())).bit_length(), np.int32)
        after = walk.hash_runs(buffer, start, stop, column, self.prefix, tail, row, *rows.arrays, table, hashing.SECRET)
        return int(after)

    def _partial(self, extent: Extent, selected: set[int], namespaced: bool, block_bytes: int) -> Iterator[KeyedBlock]:
        content = self.content_of(extent)
        for block, _ in self.windows(content, extent, (selected, namespaced, block_bytes)):
            yield block

    def content_of(self, extent: Extent) -> KeyGroupContent:
        """Return a reader of one key group."""
        return KeyGroupContent(self.source, extent.start, extent.end, self.header.compressed)

    def windows(
        self,
        content: KeyGroupContent,
        extent: Extent,
        selection: tuple[set[int], bool, int],
        run: tuple[int, int, int] | None = None,
        rest: Bytes | None = None,
    ) -> Iterator[tuple[KeyedBlock, int]]:
        """Yield blocks of a key group that is read in windows, each with the content offset of its buffer.

        ``selection``: states, whether spans cover namespaces, and the size of a window in bytes. ``run`` restricts this
        to the entries of one state between two content offsets; then ``rest`` is the content that was already read.
        """
        selected, namespaced, block_bytes = selection
        state, before, stop = run if run is not None else (-1, 0, None)
        rest = np.empty(0, np.uint8) if rest is None else rest
        size = block_bytes
        while stop is None or before < stop:
            buffer = content.window(rest, size)
            origin = self._origin(before if self.header.compressed else extent.start + before)
            # The two bytes after a run terminate its last entry, which is flagged.
            end = len(buffer) if stop is None else min(len(buffer), stop + 2 - before)
            frames = self._frames(end)
            why, position, state = frames.split(buffer, 0, end, extent.key_group, state)
            if not self._ended_correctly(content, why, frames, position, len(buffer), stop is not None):
                self._unreadable(origin, position, extent.key_group, why, frames)
            if frames.count:
                bounds, alone = np.array([0, frames.count]), Extents.of([extent])
                block = self._block(buffer, origin, frames, alone, bounds, selected, namespaced, complete=False)
                yield block, before
            if why == frames.done:
                return
            size = block_bytes if frames.count else 2 * size
            before += position
            rest = buffer[position:].copy()

    def _ended_correctly(
        self, content: KeyGroupContent, why: int, frames: FrameSpans, position: int, size: int, part: bool
    ) -> bool:
        """Return whether a window ended correctly: within an entry, or with the end mark at the very end."""
        if why == frames.more:
            return not content.exhausted or (part and frames.count > 0)
        return why == frames.done and (part or (position == size and content.exhausted))

    def _origin(self, base: int) -> Origin:
        return Origin(self.source.path, base, self.origin.operator, None, self.header.compressed)

    def _unreadable(self, origin: Origin, position: int, key_group: int, why: int, frames: FrameSpans) -> NoReturn:
        reasons = {frames.done: "the end mark before the end", frames.more: "the end of the bytes within an entry"}
        raise CorruptStateError(
            f"key group {key_group} does not match the format",
            expected="entries of known states, each with its key group, up to an end mark at the key group's end",
            found=reasons.get(why, "an impossible length, state id or key group"),
            remedy=UNREADABLE,
            **origin.facts(position),
        )

    def _block(
        self,
        buffer: Bytes,
        origin: Origin,
        frames: FrameSpans,
        extents: Extents,
        bounds: Longs,
        selected: set[int],
        namespaced: bool,
        complete: bool,
    ) -> KeyedBlock:
        n = frames.count
        state, key_start, end = frames.state[:n], frames.key_start[:n], frames.key_end[:n]
        key_groups = extents.key_group.astype(np.int32)
        key_group = np.repeat(key_groups, np.diff(bounds))
        runs = Runs.of(state, key_groups, bounds)
        if not selected.issuperset(range(len(self.header.states))):
            runs = runs.select(np.isin(state[runs.low], [*selected]))
        twice = _first_of_two(runs.place, state[runs.low])
        if twice >= 0:
            first = runs.low[runs.bounds[twice]]
            self._unreadable(origin, int(key_start[first]), extents[twice].key_group, -1, frames)
        block = KeyedBlock(
            CANONICAL, self.header.states, buffer, origin, state, key_group, key_start, end, end, end, end, end,
            frames.value_start[:n], frames.value_end[:n], key_start, end, runs, complete, namespaced,
        )  # fmt: skip
        split_composite_keys(block, self.header.key_serializer, selected, self.options)
        block.span_end = block.namespace_end if namespaced else block.key_end
        return block


def _first_of_two(place: Longs, state: Ints) -> int:
    """Return the place of the first key group that has two runs of a state, or -1; places ascend."""
    marks = place << 32 | state
    if np.any(marks[1:] <= marks[:-1]):
        marks = np.sort(marks)
        same = np.flatnonzero(marks[1:] == marks[:-1])
        return int(marks[same[0]] >> 32) if len(same) else -1
    return -1


Selection = tuple[set[int], bool, int]
# A window must hold at least a few entries; smaller windows are inefficient.
MIN_WINDOW = 1 << 16


class _Scan:
    """The range and the last key of one state in the first pass."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.stop = start
        self.last = b""


def merge_large_key_group(
    stream: CanonicalKeyedStream, extent: Extent, selection: Selection
) -> Iterator[KeyedBlock] | None:
    """Yield complete blocks of a key group, or return None if its states are not sorted."""
    content = stream.content_of(extent)
    runs = _scan(stream, content, extent, selection)
    if runs is None:
        return None
    _, namespaced, block_bytes = selection
    share = max(MIN_WINDOW, block_bytes // max(1, len(runs)))
    return merge_sorted(
        [_run(stream, content, extent, ({state}, namespaced, share), scan) for state, scan in runs.items()]
    )


def _scan(
    stream: CanonicalKeyedStream, content: KeyGroupContent, extent: Extent, selection: Selection
) -> dict[int, _Scan] | None:
    from pyspark_savepoint.formats.kernels import frames

    runs: dict[int, _Scan] = {}
    for block, before in stream.windows(content, extent, selection):
        for low, high in zip(block.runs.low.tolist(), block.runs.high.tolist(), strict=True):
            if frames.ascending(block.buffer, block.span_start, block.span_end, low, high) == frames.UNSORTED:
                return None
            state = int(block.state[low])
            scan = runs.setdefault(state, _Scan(before + int(block.key_start[low]) - stream.prefix - 4))
            first = block.buffer[int(block.span_start[low]) : int(block.span_end[low])].tobytes()
            if first < scan.last:
                return None
            scan.last = block.buffer[int(block.span_start[high - 1]) : int(block.span_end[high - 1])].tobytes()
            scan.stop = before + int(block.value_end[high - 1])
    return runs


def _run(
    stream: CanonicalKeyedStream, content: KeyGroupContent, extent: Extent, selection: Selection, scan: _Scan
) -> Iterator[KeyedBlock]:
    (state,) = selection[0]
    again, rest = content.from_content(scan.start)
    for block, _ in stream.windows(again, extent, selection, (state, scan.start, scan.stop), rest):
        yield block
