"""Rows of large key groups whose states are not sorted, as the hashmap backend writes them.

The entries of a window are divided by the hash of their keys into parts that fit into a processor's cache, and copied
as they are. Windows that do not fit into memory go to one temporary file, each with one write:

    file   := window*          window := run*          run := part[n]          part := Entry*

Then all runs of a part are joined with a hash table. Adjacent parts are read at once, since they are adjacent in every
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io.local_files import discard, spilling, temporary_file
from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent
from pyspark_savepoint.formats.keyed.sorted_windows import RowSpans

#: Bytes of a part's entries, such that its hash table and rows fit into the cache of a core; maximum number of parts.
PART_BYTES = 1 << 19
MOST_PARTS = 1 << 12
#: Size of a window of entries, as a multiple of the size of a piece of rows.
WINDOW = 4
#: Size of the smallest entry in bytes: two lengths and one byte of key.
MIN_ENTRY = 9


@dataclass(slots=True)
class _Run:
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

    Rows come in pieces of about ``piece`` bytes; up to ``held`` bytes of entries stay in memory.
    """

    columns: Sequence[int]
    states: int
    prefix: int
    tail: int
    piece: int
    held: int
    runs: list[_Run] = field(default_factory=list)
    file: Any = None
    parts: int = 1
    entries: Longs = field(default_factory=lambda: np.zeros(1, np.int64))
    in_memory: int = 0
    _column_of: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._column_of = {state: column for column, state in enumerate(self.columns)}

    def divide(self, content: KeyGroupContent, extent: Extent, size: int) -> bool:
        """Divide the entries of a key group of about ``size`` bytes; return whether its bytes are undamaged."""
        from pyspark_savepoint.formats.kernels.entries import frames, walk

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
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import partition

        bounds = np.zeros(self.parts + 1, np.int64)
        secret = hashing.secret_of(1)
        short = partition.parts_of(
            buffer, start, stop, self.prefix, self.tail, secret, self.parts, part_of, bounds[1:], self.entries
        )
        if short >= 0:
            return False
        np.cumsum(bounds, out=bounds)
        data = np.empty(stop - start, np.uint8)
        partition.divide(buffer, start, stop, part_of, bounds[:-1].copy(), data)
        self.runs.append(_Run(self._column_of[state], bounds, data))
        self.in_memory += len(data)
        if self.in_memory > self.held:
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
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import walk

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
