"""Messages from the tasks of a write to its commit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Flags
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle


@dataclass(frozen=True, slots=True)
class StateFile:
    """Finished file of a subtask.

    ``offsets`` and ``entries`` are int64 arrays as bytes, one value per key group of the subtask. All files of a write
    together have as many key groups as the operator, so messages stay small.
    """

    name: str
    size: int
    subtask: int
    offsets: bytes
    entries: bytes

    def handle(self, key_groups: KeyGroupRange) -> KeyGroupsSavepointStateHandle:
        """Return the handle for ``_metadata``."""
        offsets = KeyGroupRangeOffsets(key_groups, tuple(np.frombuffer(self.offsets, np.int64).tolist()))
        return KeyGroupsSavepointStateHandle(offsets, RelativeFileStateHandle(self.name, self.size))


@dataclass(frozen=True, slots=True)
class RunFile:
    """File of sorted rows, internal to a write; ``key_groups`` has one bit per key group, set if it has rows."""

    name: str
    size: int
    key_groups: bytes

    def has(self, max_parallelism: int) -> Flags:
        """Return whether each key group has rows."""
        return np.unpackbits(np.frombuffer(self.key_groups, np.uint8), count=max_parallelism).astype(bool)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """Result of a task for the commit: a few hundred bytes, plus the offsets of key groups or elements of a final file.

    ``elements`` is a file of rows of operator state, ``operator_state`` the final file of one subtask.
    """

    partition: int
    rows: int
    file: StateFile | None = None
    run: RunFile | None = None
    elements: str | None = None
    operator_state: OperatorStreamStateHandle | None = None
