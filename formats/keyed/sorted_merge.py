"""Merge of sorted states into complete blocks of bounded size, to build rows of huge key groups without spilling.

The input is one stream of blocks per state, in the order of (key group, span). Entries below the smallest last-read key
of the unfinished streams are complete: those of all states form one complete block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, block_of, take_entries

Key = tuple[int, bytes]


class _Run:
    """Blocks of one state: those read so far, and the next one."""

    def __init__(self, blocks: Iterator[KeyedBlock]) -> None:
        self.blocks = blocks
        self.pieces: list[tuple[KeyedBlock, int]] = []
        self.ahead = self._next()

    def _next(self) -> KeyedBlock | None:
        return next((block for block in self.blocks if len(block)), None)

    def advance(self) -> None:
        """Read the next block."""
        if self.ahead is not None:
            self.pieces.append((self.ahead, 0))
            self.ahead = self._next()

    @property
    def last(self) -> Key:
        """Return the key of the last entry read so far."""
        block, _ = self.pieces[-1]
        return key_of(block, len(block) - 1)

    def take_before(self, boundary: Key | None) -> list[pa.RecordBatch]:
        """Remove and return the entries before a boundary, or all."""
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
    """Return the sort key of an entry."""
    span = block.buffer[int(block.span_start[entry]) : int(block.span_end[entry])]
    return int(block.key_group[entry]), span.tobytes()


def first_not_before(block: KeyedBlock, low: int, boundary: Key) -> int:
    """Return the first entry from ``low`` on whose sort key is not less than ``boundary``."""
    high = len(block)
    while low < high:
        middle = (low + high) // 2
        if key_of(block, middle) < boundary:
            low = middle + 1
        else:
            high = middle
    return low


def merge_sorted(streams: Sequence[Iterator[KeyedBlock]]) -> Iterator[KeyedBlock]:
    """Yield complete blocks with the entries of all streams, in order. Each stream is one state, sorted by key."""
    runs = [_Run(blocks) for blocks in streams]
    while True:
        for run in runs:
            if not run.pieces:
                run.advance()
        live = [run for run in runs if run.pieces]
        if not live:
            return
        template = live[0].pieces[0][0]
        boundary = min((run.last for run in live if run.ahead is not None), default=None)
        taken = [batch for run in live for batch in run.take_before(boundary)]
        if taken:
            yield block_of(taken, template)
            continue
        # All entries read so far belong to one key with more entries to come: read on.
        for run in live:
            if run.ahead is not None and run.last == boundary:
                run.advance()
