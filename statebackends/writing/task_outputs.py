"""What the tasks of a write leave for its commit: messages, and work files in the pending folder.

Rows of operator state are in Arrow files, in row order.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Flags
    from pyspark_savepoint.formats.io.snapshot_files import InputFile, OutputFile
    from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
    from pyspark_savepoint.formats.snapshot.publication import Staging


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
    #: Names of the final files with their checksums, as bytes.
    checksums: tuple[tuple[str, bytes], ...] = ()


class _Reader(io.RawIOBase):
    """Sequential reader of a file of any file system."""

    def __init__(self, file: InputFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as are left and fit."""
        target = memoryview(buffer).cast("B")
        count = min(len(target), self._file.size - self._at)
        if count:
            self._file.read_into(self._at, target[:count])
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Writer:
    """Adapter from a new file to the file object that pyarrow expects."""

    closed = False

    def __init__(self, file: OutputFile) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Write all bytes."""
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the file has no buffer."""

    def close(self) -> None:
        """Do nothing: the opener closes the file."""


def open_work(staging: Staging, name: str) -> io.BufferedReader:
    """Open a file that a task of the write left for the commit."""
    return io.BufferedReader(_Reader(staging.open_work(name)), 1 << 20)


@contextmanager
def created_work(staging: Staging, name: str) -> Iterator[OutputFile]:
    """Create a file for the commit; it is removed if the caller's block fails."""
    file = staging.create_work(name)
    try:
        yield file
        file.close()
    finally:
        file.abort()


def write_elements(staging: Staging, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows of a schema to a file; return the number of rows."""
    count = 0
    with created_work(staging, name) as file, ipc.new_stream(pa.PythonFile(_Writer(file), mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def read_elements(staging: Staging, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of :func:`write_elements`."""
    with open_work(staging, name) as file, ipc.open_stream(file) as reader:
        yield from reader
