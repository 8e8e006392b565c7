"""Rows of operator state on their way from tasks to the commit: Arrow files in the pending folder, in order of rows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.io.snapshot_files import InputFile, OutputFile
from pyspark_savepoint.formats.snapshot.publication import Staging


class _Reader(io.RawIOBase):
    """A file of any file system, read from the front."""

    def __init__(self, file: InputFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """As many bytes as are left, and fit."""
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
    """A new file as pyarrow wants one."""

    closed = False

    def __init__(self, file: OutputFile) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """All bytes."""
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """The file has no buffer."""

    def close(self) -> None:
        """Whoever opened the file closes it."""


def open_work(staging: Staging, name: str) -> io.BufferedReader:
    """A file that a task of the write has left for the commit."""
    return io.BufferedReader(_Reader(staging.filesystem.open_input(staging.work_path(name))), 1 << 20)


@contextmanager
def created_work(staging: Staging, name: str) -> Iterator[OutputFile]:
    """A new file for the commit; nothing is left of it where what is done with it fails."""
    file = staging.create_work(name)
    try:
        yield file
        file.close()
    finally:
        file.abort()


def write_elements(staging: Staging, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Rows of a schema as a file: how many there were."""
    count = 0
    with created_work(staging, name) as file, ipc.new_stream(pa.PythonFile(_Writer(file), mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def read_elements(staging: Staging, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of such a file."""
    with open_work(staging, name) as file, ipc.open_stream(file) as reader:
        yield from reader
