"""States that are each sorted, as complete blocks of bounded size: rows of huge key groups without a spill.

Every state comes as a stream of blocks in the order of (key group, span). Entries below the smallest last-read key of
the streams that are not at their end are complete: that much of every state is one complete block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, block_of, take_entries

Key = tuple[int, bytes]


class _Run:
    """One state's blocks: those that are at hand, and whether more will come."""

    def __init__(self, blocks: Iterator[KeyedBlock]) -> None:
        self.blocks = blocks
        self.pieces: list[tuple[KeyedBlock, int]] = []
        self.ahead = self._next()

    def _next(self) -> KeyedBlock | None:
        return next((block for block in self.blocks if len(block)), None)

    def advance(self) -> None:
        """Take the next block."""
        if self.ahead is not None:
            self.pieces.append((self.ahead, 0))
            self.ahead = self._next()

    @property
    def last(self) -> Key:
        """The last entry at hand."""
        block, _ = self.pieces[-1]
        return key_of(block, len(block) - 1)

    def take_before(self, boundary: Key | None) -> list[pa.RecordBatch]:
        """Remove the entries before a boundary, or all."""
        taken, kept = [], []
        for block, low in self.pieces:
            high = len(block) if boundary is None else first_not_before(block, low, boundary)
            if high > low:
                taken.append(take_entries(block, np.arange(low, high)))
            if high < len(block):
                kept.append((block, high))
        self.pieces = kept
        return taken


def key_of(block: KeyedBlock, entry: int) -> Key:
    """Where an entry stands in the order."""
    span = block.buffer[int(block.span_start[entry]) : int(block.span_end[entry])]
    return int(block.key_group[entry]), span.tobytes()


def first_not_before(block: KeyedBlock, low: int, boundary: Key) -> int:
    """The first entry from ``low`` on that does not stand before a boundary."""
    high = len(block)
    while low < high:
        middle = (low + high) // 2
        if key_of(block, middle) < boundary:
            low = middle + 1
        else:
            high = middle
    return low


def merge_sorted(streams: Sequence[Iterator[KeyedBlock]]) -> Iterator[KeyedBlock]:
    """Complete blocks with the entries of all streams, in order. Each stream is one state, sorted by key."""
    runs = [_Run(blocks) for blocks in streams]
    while True:
        for run in runs:
            if not run.pieces:
                run.advance()
        live = [run for run in runs if run.pieces]
        if not live:
            return
        like = live[0].pieces[0][0]
        boundary = min((run.last for run in live if run.ahead is not None), default=None)
        taken = [batch for run in live for batch in run.take_before(boundary)]
        if taken:
            yield block_of(taken, like)
            continue
        # All that is at hand belongs to one key, which goes on: more of it is needed.
        for run in live:
            if run.ahead is not None and run.last == boundary:
                run.advance()
