"""Spans of entries and rows in a buffer of the canonical format: the arrays that kernels fill for ``keyed_stream``."""

from __future__ import annotations

import numpy as np

from pyspark_savepoint.formats.columns import Bytes


class RowSpans:
    """The arrays that the merging kernel fills."""

    def __init__(self, capacity: int, columns: int) -> None:
        self.key_start, self.key_end = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self.value_start = np.empty((columns, capacity), np.int64)
        self.value_end = np.empty((columns, capacity), np.int64)
        self.bounds = [0]

    @property
    def count(self) -> int:
        """Rows so far."""
        return self.bounds[-1]


class FrameSpans:
    """The arrays that the framing kernel fills: entries of ``states`` states, with keys behind a prefix."""

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
        """Append the entries of a key group: why it stopped, the position, and the state that goes on."""
        why, position, state, self.count = self.kernel(
            buffer, start, end, state, key_group, self.prefix, self.states,
            self.key_start, self.key_end, self.value_start, self.value_end, self.state, self.count,
        )  # fmt: skip
        return why, position, state
