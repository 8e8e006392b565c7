"""What the tasks of a write tell its commit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Flags
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle


@dataclass(frozen=True, slots=True)
class StateFile:
    """A finished file of a subtask; offsets and numbers of entries of its key groups are int64 arrays as bytes.

    All files of a write have as many key groups together as the operator: messages stay small.
    """

    name: str
    size: int
    subtask: int
    offsets: bytes
    entries: bytes

    def handle(self, key_groups: KeyGroupRange) -> KeyGroupsSavepointStateHandle:
        """As ``_metadata`` names it."""
        offsets = KeyGroupRangeOffsets(key_groups, tuple(np.frombuffer(self.offsets, np.int64).tolist()))
        return KeyGroupsSavepointStateHandle(offsets, RelativeFileStateHandle(self.name, self.size))


@dataclass(frozen=True, slots=True)
class RunFile:
    """Sorted rows in a file that only this write needs; ``key_groups`` is a bit for every key group that has rows."""

    name: str
    size: int
    key_groups: bytes

    def has(self, max_parallelism: int) -> Flags:
        """Whether every key group has rows."""
        return np.unpackbits(np.frombuffer(self.key_groups, np.uint8), count=max_parallelism).astype(bool)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What a task tells the commit: a few hundred bytes, and the places of key groups in a final file."""

    partition: int
    rows: int
    file: StateFile | None = None
    run: RunFile | None = None
    elements: str | None = None
