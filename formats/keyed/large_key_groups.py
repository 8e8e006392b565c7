"""Rows of key groups larger than memory.

States are sorted, as RocksDB writes them. A key group is read twice. The first pass finds the range of each state and
checks its order. The second one reads all ranges side by side, a window of each at a time, and merges their entries up
to the smallest of the last keys of those windows, as key groups in memory are merged. Nothing is copied per entry.

Sorted states can also be merged as blocks (``merge_sorted``): the input is one stream of blocks per state, in the order
of (key group, span). Entries below the smallest last-read key of the unfinished streams are complete: those of all
states form one complete block.

States are not sorted, as the hashmap backend writes them. The entries of a window are divided by the hash of their keys
into parts that fit into a processor's cache, and copied as they are. Windows that do not fit into memory go to one
temporary file, each with one write:

    file   := window*          window := run*          run := part[n]          part := Entry*

Then all runs of a part are joined with a hash table. Adjacent parts are read at once, since they are adjacent in every
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io.local_files import discard, spilling, temporary_file
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, block_of, take_entries
from pyspark_savepoint.formats.sorted_runs import join_runs

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Bytes, Longs, Origin
    from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent


@dataclass(frozen=True, slots=True)
class _Entries:
    """Entries [low, high) of a block, as a part of a sorted run."""

    block: KeyedBlock
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low

    def place(self, entry: int) -> tuple[int, bytes]:
        """Return the key group and the key of an entry."""
        block, entry = self.block, self.low + entry
        span = block.buffer[int(block.span_start[entry]) : int(block.span_end[entry])]
        return int(block.key_group[entry]), span.tobytes()

    def cut(self, low: int, high: int) -> _Entries:
        """Return entries [low, high) of these."""
        return _Entries(self.block, self.low + low, self.low + high)


def merge_sorted(streams: Sequence[Iterator[KeyedBlock]]) -> Iterator[KeyedBlock]:
    """Yield complete blocks with the entries of all streams, in order. Each stream is one state, sorted by key."""
    runs = [(_Entries(block, 0, len(block)) for block in blocks) for blocks in streams]
    for joined in join_runs(runs, whole_keys=True):
        parts = [part for run in joined for part in run]
        yield block_of([take_entries(part.block, slice(part.low, part.high)) for part in parts], parts[0].block)


#: Content offsets of the start and of the end of a state's entries.
Range = tuple[int, int]


class RowSpans:
    """Output arrays of the merging kernel."""

    def __init__(self, capacity: int, columns: int) -> None:
        self.key_start, self.key_end = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self.value_start = np.empty((columns, capacity), np.int64)
        self.value_end = np.empty((columns, capacity), np.int64)
        self.bounds = [0]

    @property
    def count(self) -> int:
        return self.bounds[-1]

    @property
    def arrays(self) -> tuple[Longs, Longs, Longs, Longs]:
        """Return the arrays in the order of the kernels' arguments."""
        return self.key_start, self.key_end, self.value_start, self.value_end


@dataclass(frozen=True, slots=True)
class SortedStates:
    """States of a key group to merge: ``columns`` are their ids; keys are compared without the last ``tail`` bytes."""

    columns: Sequence[int]
    states: int
    prefix: int
    tail: int
    window: int

    def ranges(self, content: KeyGroupContent, extent: Extent) -> Mapping[int, Range] | None:
        """Return the range of each state; None if one is not sorted, occurs twice, or the bytes are damaged."""
        from pyspark_savepoint.formats.kernels import frames, walk

        ranges: dict[int, Range] = {}
        state_indices = frozenset(self.columns)
        rest = np.empty(0, np.uint8)
        before, position, state, start, previous, size = 0, 0, -1, 0, -1, self.window
        while content.position < content.end:
            buffer = content.window(rest, size)
            began = position
            while True:
                if state < 0:
                    if position + 2 > len(buffer):
                        break
                    state = int(buffer[position]) << 8 | int(buffer[position + 1])
                    position += 2
                    if state == frames.END_OF_KEY_GROUP:
                        return ranges if content.exhausted and position == len(buffer) else None
                    if state >= self.states or state in ranges:
                        return None
                    start, previous = before + position, -1
                tail = self.tail if state in state_indices else -1
                why, position, previous = walk.scan_run(
                    buffer, position, len(buffer), extent.key_group, self.prefix, tail, previous
                )
                if why == frames.DAMAGED:
                    return None
                if why == frames.MORE:
                    break
                ranges[state] = start, before + position
                state = -1
            # The next window begins with the last entry, because the first key there is compared with its key.
            keep = previous if state >= 0 and previous >= 0 else position
            size = self.window if position > began else 2 * size
            rest = buffer[keep:].copy()
            before, position, previous = before + keep, position - keep, 0 if keep == previous else -1
        return None

    def rows(self, content: KeyGroupContent, ranges: Mapping[int, Range]) -> Iterator[tuple[Bytes, RowSpans]]:
        """Yield the rows of the columns, in pieces, each with its buffer; states without a range have no values."""
        from pyspark_savepoint.formats.kernels import walk

        columns_with_ranges = [(column, ranges[state]) for column, state in enumerate(self.columns) if state in ranges]
        share = max(1, self.window // max(1, len(columns_with_ranges)))
        runs = [_Run(content, column, *bounds, share) for column, bounds in columns_with_ranges]
        while runs:
            for run in runs:
                run.fill()
            buffer = np.concatenate([run.rest for run in runs])
            at = np.cumsum([0, *(len(run.rest) for run in runs[:-1])], dtype=np.int64)
            stop = at.copy()
            entries = 0
            for i, run in enumerate(runs):
                end = int(at[i]) + run.available
                stop[i], count = walk.complete_entries(buffer, int(at[i]), end, self.prefix + self.tail)
                if stop[i] < 0 or (run.finished and stop[i] != end):
                    _refuse(content)
                run.share *= 1 if count or run.finished else 2
                entries += count
            finished = np.array([run.finished for run in runs])
            if np.any((stop == at) & ~finished):
                continue
            spans = RowSpans(entries, len(self.columns))
            column = np.array([run.column for run in runs], np.int64)
            spans.value_start[np.setdiff1d(np.arange(len(self.columns)), column)] = -1
            begin = at.copy()
            after = walk.merge_runs(
                buffer, at, stop, finished, column, self.prefix, self.tail, 0, *spans.arrays, np.empty_like(at)
            )
            if after < 0:
                _refuse(content)
            for run, size in zip(runs, (at - begin).tolist(), strict=True):
                run.skip(size)
            runs = [run for run in runs if run.left]
            spans.bounds.append(after)
            yield buffer, spans


def _refuse(content: KeyGroupContent) -> NoReturn:
    raise CorruptStateError("a key group changed while it was read", path=content.source.path, remedy=UNREADABLE)


class _Run:
    """Entries of one state that are not merged yet: those in ``rest``, and those after it."""

    def __init__(self, content: KeyGroupContent, column: int, start: int, stop: int, share: int) -> None:
        self.column = column
        self.left = stop - start
        self.share = self.usual = share
        self.content, self.rest = content.from_content(start)

    @property
    def available(self) -> int:
        return min(len(self.rest), self.left)

    @property
    def finished(self) -> bool:
        return len(self.rest) >= self.left

    def fill(self) -> None:
        """Read until a whole window is in memory, or all that is left."""
        window = min(self.share, self.left)
        while len(self.rest) < window and not self.content.exhausted:
            self.rest = self.content.window(self.rest, window - len(self.rest))

    def skip(self, size: int) -> None:
        """Remove merged entries."""
        self.rest = self.rest[size:].copy()
        self.left -= size
        self.share = self.usual


#: Bytes of a part's entries, such that its hash table and rows fit into the cache of a core; maximum number of parts.
PART_BYTES = 1 << 19
MOST_PARTS = 1 << 12
#: Size of a window of entries, as a multiple of the size of a piece of rows.
WINDOW = 4
#: Size of the smallest entry in bytes: two lengths and one byte of key.
MIN_ENTRY = 9


@dataclass(slots=True)
class _DividedRun:
    """Divided entries of one state in one window: part i is at [bounds[i], bounds[i + 1]) of ``data`` or of the file.

    ``offset`` is the position in the file, once it is there.
    """

    column: int
    bounds: Longs
    data: Bytes | None
    offset: int = 0


@dataclass(slots=True)
class PartitionedStates:
    """States of a key group to join: ``columns`` are their ids; keys are compared without their last ``tail`` bytes.

    Rows come in pieces of about ``piece`` bytes; up to ``capacity`` bytes of entries stay in memory.
    """

    columns: Sequence[int]
    states: int
    prefix: int
    tail: int
    piece: int
    capacity: int
    runs: list[_DividedRun] = field(default_factory=list)
    file: Any = None
    parts: int = 1
    entries: Longs = field(default_factory=lambda: np.zeros(1, np.int64))
    in_memory: int = 0
    _column_of: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._column_of = {state: column for column, state in enumerate(self.columns)}

    def divide(self, content: KeyGroupContent, extent: Extent, size: int) -> bool:
        """Divide the entries of a key group of about ``size`` bytes; return whether its bytes are undamaged."""
        from pyspark_savepoint.formats.kernels import frames, walk

        self.parts = min(MOST_PARTS, 1 << max(0, (size - 1) // PART_BYTES).bit_length())
        self.entries = np.zeros(self.parts, np.int64)
        part_of = np.empty(0, np.uint16)
        rest, state, seen = np.empty(0, np.uint8), -1, set[int]()
        usual = wanted = WINDOW * self.piece
        while content.position < content.end:
            buffer = content.window(rest, wanted)
            position = 0
            if len(part_of) < len(buffer) // MIN_ENTRY:
                part_of = np.empty(len(buffer) // MIN_ENTRY, np.uint16)
            while True:
                if state < 0:
                    if position + 2 > len(buffer):
                        break
                    state = int(buffer[position]) << 8 | int(buffer[position + 1])
                    position += 2
                    if state == frames.END_OF_KEY_GROUP:
                        return content.exhausted and position == len(buffer)
                    if state >= self.states or state in seen:
                        return False
                    seen.add(state)
                start = position
                why, position, _ = walk.scan_run(buffer, start, len(buffer), extent.key_group, self.prefix, -1, -1)
                if why == frames.DAMAGED:
                    return False
                if (
                    state in self._column_of
                    and position > start
                    and not self._add(buffer, start, position, state, part_of)
                ):
                    return False
                if why == frames.MORE:
                    break
                state = -1
            wanted = usual if position else 2 * wanted
            rest = buffer[position:].copy()
        return False

    def _add(self, buffer: Bytes, start: int, stop: int, state: int, part_of: Any) -> bool:
        """Divide entries of one state; return whether all keys are long enough."""
        from pyspark_savepoint.formats.kernels import frames, hashing

        bounds = np.zeros(self.parts + 1, np.int64)
        secret = hashing.secret_of(1)
        short = frames.parts_of(
            buffer, start, stop, self.prefix, self.tail, secret, self.parts, part_of, bounds[1:], self.entries
        )
        if short >= 0:
            return False
        np.cumsum(bounds, out=bounds)
        data = np.empty(stop - start, np.uint8)
        frames.divide(buffer, start, stop, part_of, bounds[:-1].copy(), data)
        self.runs.append(_DividedRun(self._column_of[state], bounds, data))
        self.in_memory += len(data)
        if self.in_memory > self.capacity:
            self._write()
        return True

    def _write(self) -> None:
        with spilling():
            if self.file is None:
                self.file = temporary_file("spill")
            for run in self.runs:
                if run.data is not None:
                    run.offset = self.file.tell()
                    self.file.write(run.data.data)
                    run.data = None
        self.in_memory = 0

    def rows(self, origin: Origin) -> Iterator[tuple[Bytes, RowSpans]]:
        """Yield the rows of the columns, in pieces, each with its buffer."""
        try:
            sizes = np.sum([np.diff(run.bounds) for run in self.runs] or [np.zeros(self.parts, np.int64)], axis=0)
            low = 0
            while low < self.parts:
                # As many parts as fit into a piece, and at least one.
                total = np.cumsum(sizes[low:])
                high = low + max(1, int(np.searchsorted(total, self.piece, "right")))
                if total[high - low - 1]:
                    yield self._joined(low, high, int(total[high - low - 1]), origin)
                low = high
        finally:
            if self.file is not None:
                discard(self.file)

    def _joined(self, low: int, high: int, size: int, origin: Origin) -> tuple[Bytes, RowSpans]:
        from pyspark_savepoint.formats.kernels import hashing, walk

        buffer = np.empty(size, np.uint8)
        at = np.zeros((len(self.runs), high - low + 1), np.int64)
        position = 0
        for i, run in enumerate(self.runs):
            start, stop = int(run.bounds[low]), int(run.bounds[high])
            at[i] = run.bounds[low : high + 1] + (position - start)
            target = buffer[position : position + stop - start]
            if run.data is not None:
                target[:] = run.data[start:stop]
            else:
                self._read(run.offset + start, target)
            position += stop - start
        column = np.array([run.column for run in self.runs], np.int64)
        entries = self.entries[low:high]
        spans = RowSpans(int(entries.sum()), len(self.columns))
        table = np.empty(1 << (2 * int(entries.max())).bit_length(), np.int32)
        after = 0
        for part in range(high - low):
            mine = table[: 1 << (2 * int(entries[part])).bit_length()]
            begin, stop_at = np.ascontiguousarray(at[:, part]), np.ascontiguousarray(at[:, part + 1])
            after = walk.hash_runs(
                buffer, begin, stop_at, column, self.prefix, self.tail, after, *spans.arrays, mine, hashing.SECRET
            )
            if after < 0:
                raise CorruptStateError(
                    "a key has two values in a state that holds one value per key",
                    expected="every key once",
                    remedy=UNREADABLE,
                    **origin.facts(),
                )
        spans.bounds.append(after)
        return buffer, spans

    def _read(self, offset: int, target: Bytes) -> None:
        with spilling():
            self.file.seek(offset)
            if self.file.readinto(target.data) != len(target):
                raise OSError("a temporary file is shorter than the data written to it")
