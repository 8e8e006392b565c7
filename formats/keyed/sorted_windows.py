"""Rows of key groups larger than memory whose states are sorted, as RocksDB writes them.

A key group is read twice. The first pass finds the range of each state and checks its order. The second one reads all
ranges side by side, a window of each at a time, and merges their entries up to the smallest of the last keys of those
windows, as key groups in memory are merged. Nothing is copied per entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent

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
        from pyspark_savepoint.formats.kernels.entries import frames, walk

        found: dict[int, Range] = {}
        chosen = frozenset(self.columns)
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
                        return found if content.exhausted and position == len(buffer) else None
                    if state >= self.states or state in found:
                        return None
                    start, previous = before + position, -1
                tail = self.tail if state in chosen else -1
                why, position, previous = walk.scan_run(
                    buffer, position, len(buffer), extent.key_group, self.prefix, tail, previous
                )
                if why == frames.DAMAGED:
                    return None
                if why == frames.MORE:
                    break
                found[state] = start, before + position
                state = -1
            # The next window begins with the last entry, because the first key there is compared with its key.
            keep = previous if state >= 0 and previous >= 0 else position
            size = self.window if position > began else 2 * size
            rest = buffer[keep:].copy()
            before, position, previous = before + keep, position - keep, 0 if keep == previous else -1
        return None

    def rows(self, content: KeyGroupContent, ranges: Mapping[int, Range]) -> Iterator[tuple[Bytes, RowSpans]]:
        """Yield the rows of the columns, in pieces, each with its buffer; states without a range have no values."""
        from pyspark_savepoint.formats.kernels.entries import walk

        chosen = [(column, ranges[state]) for column, state in enumerate(self.columns) if state in ranges]
        share = max(1, self.window // max(1, len(chosen)))
        runs = [_Run(content, column, *found, share) for column, found in chosen]
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
            after = walk.merge_runs(buffer, at, stop, finished, column, self.prefix, self.tail, 0, *spans.arrays)
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
        wanted = min(self.share, self.left)
        while len(self.rest) < wanted and not self.content.exhausted:
            self.rest = self.content.window(self.rest, wanted - len(self.rest))

    def skip(self, size: int) -> None:
        """Remove merged entries."""
        self.rest = self.rest[size:].copy()
        self.left -= size
        self.share = self.usual
