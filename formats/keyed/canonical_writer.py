"""Writer of keyed state in the canonical format, the counterpart of ``canonical_stream``.

    add(key group, state, entries)  in ascending key groups; states of one key group in any order, and repeatedly
    first state   directly to the file       other states   framed, and buffered (``EntrySpool``) until their turn

The last entry of a state in a key group has the flag bit, and only the following data shows which entry is the last.
Therefore the last entry so far is always held back. Flink: ``FullSnapshotAsyncWriter``, ``FullSnapshotUtil``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspark_savepoint.formats.io.local_files import discard, local_directory, spilling, temporary_file
from pyspark_savepoint.formats.io.snappy import ByteOutput, FramedOutput
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Bytes, Ints, Longs
    from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader

END_OF_KEY_GROUP = b"\xff\xff"
FLAG = 0x80


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of one state: spans of composite keys without the key-group prefix, and spans of values.

    A composite key is ``key [vlen] namespace [vlen] [userKey]``, or the serialized timer; all spans are int64 arrays of
    the same length, and the values of timers are empty.
    """

    buffer: Bytes
    key_start: Longs
    key_end: Longs
    value_buffer: Bytes
    value_start: Longs
    value_end: Longs

    def __len__(self) -> int:
        return len(self.key_start)


class CanonicalKeyedStreamWriter:
    """Writer of the header, then of key groups; ``memory`` bounds the buffer for all states but the first.

    Offsets count from the first byte of the file, where the header begins.
    """

    def __init__(
        self,
        file: ByteOutput,
        header: KeyedBackendHeader,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        memory: int,
        spill_directory: str | None = None,
    ) -> None:
        first = header.to_bytes()
        file.write(first)
        self.key_group_range = key_group_range
        self.prefix = 2 if max_parallelism > 128 else 1
        self.states = len(header.states)
        self._out = FramedOutput(file, len(first), header.compressed)
        self._offsets = np.zeros(len(key_group_range), np.int64)
        #: Number of entries so far, by key group.
        self.entries = np.zeros(len(key_group_range), np.int64)
        self._spool = EntrySpool(memory, spill_directory)
        self._key_group = -1
        #: The last entry so far of each state of the open key group.
        self._last: dict[int, Bytes] = {}

    def add(self, key_group: int, state: int, entries: Entries) -> None:
        """Add entries of one state in one key group, which is the current one or a later one."""
        if not 0 <= state < self.states:
            raise ValueError(f"there is no state {state} among {self.states}")
        if not len(entries):
            return
        self._open(key_group)
        self.entries[key_group - self.key_group_range.start] += len(entries)
        frames, last = self._frame(entries, np.array([0, len(entries)]), np.array([key_group], np.int32))
        before = self._last.get(state)
        if before is not None:
            self._put(state, before)
        elif state == 0:
            self._out.write(bytes(2))
        cut = int(last[0])
        if cut:
            self._put(state, frames[:cut])
        self._last[state] = frames[cut:].copy() if cut else frames

    def add_groups(self, key_groups: Ints, parts: Sequence[tuple[int, Entries, Longs]]) -> None:
        """Add entries of several ascending key groups.

        ``parts`` are (state, entries, bounds): the entries of ``key_groups[i]`` are [bounds[i], bounds[i + 1]). The
        first key group may be the open one, and the last one stays open.
        """
        count = len(key_groups)
        self._add_one(key_groups, parts, 0)
        if count > 2:
            self._add_inner(key_groups[1:-1], [(s, entries, bounds[1:-1]) for s, entries, bounds in parts])
        if count > 1:
            self._add_one(key_groups, parts, count - 1)

    def _add_one(self, key_groups: Ints, parts: Sequence[tuple[int, Entries, Longs]], i: int) -> None:
        for state, entries, bounds in parts:
            self.add(int(key_groups[i]), state, _part(entries, int(bounds[i]), int(bounds[i + 1])))

    def _add_inner(self, key_groups: Ints, parts: Sequence[tuple[int, Entries, Longs]]) -> None:
        """Write whole key groups through one buffer."""
        from pyspark_savepoint.formats.kernels import frames

        self._close()
        self._check(int(key_groups[0]), int(key_groups[-1]))
        parts = sorted(parts, key=lambda part: part[0])
        for _, _, bounds in parts:
            self.entries[np.asarray(key_groups, np.int64) - self.key_group_range.start] += np.diff(bounds)
        sizes = np.array([self._sizes(entries, bounds) for _, entries, bounds in parts])
        # A state id precedes its entries, and the end mark follows the last entry.
        sizes += 2 * (sizes > 0)
        totals = sizes.sum(axis=0)
        totals += 2 * (totals > 0)
        ends = np.cumsum(totals)
        at = ends - totals
        framed = np.empty(int(ends[-1]), np.uint8)
        for marks in (ends[totals > 0] - 2, ends[totals > 0] - 1):
            framed[marks] = 0xFF
        starts = at.copy()
        last = np.empty(len(key_groups), np.int64)
        for (state, entries, bounds), size in zip(parts, sizes, strict=True):
            filled = size > 0
            framed[starts[filled]], framed[starts[filled] + 1] = state >> 8, state & 0xFF
            frames.put_frames(
                framed, starts + 2, starts + size, bounds, key_groups, self.prefix, *_spans(entries), last
            )
            framed[last[filled] + 4] |= FLAG
            starts = starts + size
        self._write_groups(key_groups, framed, at, ends)

    def _write_groups(self, key_groups: Ints, framed: Bytes, at: Longs, ends: Longs) -> None:
        filled = ends > at
        if not self._out.compressed:
            first = self._out.begin()
            self._offsets[key_groups[filled] - self.key_group_range.start] = first + at[filled]
            self._out.write(framed.data)
            self._out.end()
            self._key_group = int(key_groups[-1])
            return
        for key_group, low, high in zip(key_groups.tolist(), at.tolist(), ends.tolist(), strict=True):
            if high > low:
                self._offsets[key_group - self.key_group_range.start] = self._out.begin()
                self._out.write(framed[low:high].data)
                self._out.end()
        self._key_group = int(key_groups[-1])

    def _sizes(self, entries: Entries, bounds: Longs) -> Longs:
        from pyspark_savepoint.formats.kernels import frames

        sizes = np.empty(len(bounds) - 1, np.int64)
        spans = (entries.key_start, entries.key_end, entries.value_start, entries.value_end)
        frames.frame_sizes(bounds, *spans, 8 + self.prefix, sizes)
        return sizes

    def _frame(self, entries: Entries, bounds: Longs, key_groups: Ints) -> tuple[Bytes, Longs]:
        from pyspark_savepoint.formats.kernels import frames

        sizes = self._sizes(entries, bounds)
        framed = np.empty(int(sizes.sum()), np.uint8)
        last = np.empty(len(sizes), np.int64)
        ends = np.cumsum(sizes)
        frames.put_frames(framed, ends - sizes, ends, bounds, key_groups, self.prefix, *_spans(entries), last)
        return framed, last

    def _open(self, key_group: int) -> None:
        if key_group == self._key_group and self._last:
            return
        self._close()
        self._check(key_group, key_group)
        self._key_group = key_group
        self._offsets[key_group - self.key_group_range.start] = self._out.begin()

    def _check(self, first: int, last: int) -> None:
        if first <= self._key_group:
            raise ValueError(f"key group {first} is added after key group {self._key_group}: they must ascend")
        if first not in self.key_group_range or last not in self.key_group_range:
            raise ValueError(f"key groups {first} to {last} are not among {self.key_group_range}")

    def _put(self, state: int, frames: Bytes) -> None:
        if state == 0:
            self._out.write(frames.data)
        else:
            self._spool.append(state, frames)

    def _close(self) -> None:
        """Write the buffered entries of the open key group, and its end."""
        if not self._last:
            return
        for state in sorted(self._last):
            if state:
                self._out.write(state.to_bytes(2, "big"))
                for frames in self._spool.drain(state):
                    self._out.write(frames)
            last = self._last[state]
            last[4] |= FLAG
            self._out.write(last.data)
        self._out.write(END_OF_KEY_GROUP)
        self._out.end()
        self._spool.clear()
        self._last.clear()

    def finish(self) -> KeyGroupRangeOffsets:
        """End the last key group; return the offset of every key group, 0 if it has no entry. The file stays open."""
        self._close()
        self._spool.close()
        self._out.flush()
        return KeyGroupRangeOffsets(self.key_group_range, tuple(self._offsets.tolist()))

    def close(self) -> None:
        """Release temporary files; nothing more is written."""
        self._spool.close()

    def __enter__(self) -> CanonicalKeyedStreamWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _part(entries: Entries, low: int, high: int) -> Entries:
    rows = slice(low, high)
    return Entries(
        entries.buffer, entries.key_start[rows], entries.key_end[rows],
        entries.value_buffer, entries.value_start[rows], entries.value_end[rows],
    )  # fmt: skip


def _spans(entries: Entries) -> tuple[Bytes, Longs, Longs, Bytes, Longs, Longs]:
    """Return the arguments of kernels, with read-only buffers so that kernels are compiled for one type only."""
    return (
        read_only(entries.buffer), entries.key_start, entries.key_end,
        read_only(entries.value_buffer), entries.value_start, entries.value_end,
    )  # fmt: skip


def read_only(buffer: Bytes) -> Bytes:
    """Return a read-only view."""
    view = buffer.view()
    view.flags.writeable = False
    return view


# -- buffer for framed entries, by state: in memory up to a limit, then in one unnamed temporary file -----------------
# Within a key group, states must be written one after another, but rows contain all their states at once. The buffer
# holds at most one key group; a large one is spilled to local disk.

READ = 1 << 20


class EntrySpool:
    """Bytes per state, drained in insertion order."""

    def __init__(self, memory: int, directory: str | None = None) -> None:
        self.memory = memory
        self.directory = directory or local_directory()
        self._pieces: dict[int, list[Bytes]] = {}
        self._size = 0
        self._file: Any = None
        self._end = 0
        self._extents: dict[int, list[tuple[int, int]]] = {}

    def append(self, state: int, data: Bytes) -> None:
        """Add bytes of a state; they must not change afterwards."""
        self._pieces.setdefault(state, []).append(data)
        self._size += len(data)
        if self._size > self.memory:
            self._spill()

    def _spill(self) -> None:
        with spilling(self.directory):
            if self._file is None:
                self._file = temporary_file("spool", self.directory)
            for state, pieces in self._pieces.items():
                size = sum(len(piece) for piece in pieces)
                self._extents.setdefault(state, []).append((self._end, size))
                for piece in pieces:
                    self._file.write(piece.data)
                self._end += size
            self._file.flush()
        self._pieces.clear()
        self._size = 0

    def drain(self, state: int) -> Iterator[memoryview | bytes]:
        """Yield all bytes of a state."""
        for start, size in self._extents.get(state, ()):
            self._file.seek(start)
            left = size
            while left:
                data = self._file.read(min(left, READ))
                left -= len(data)
                yield data
            self._file.seek(self._end)
        for piece in self._pieces.get(state, ()):
            yield piece.data

    def clear(self) -> None:
        """Remove everything and truncate the file."""
        self._pieces.clear()
        self._extents.clear()
        self._size = 0
        if self._end:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def close(self) -> None:
        self._pieces.clear()
        self._extents.clear()
        if self._file is not None:
            discard(self._file)
            self._file = None
