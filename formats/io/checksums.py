"""Checksums of state files: computed while writing, verified while reading.

A task verifies each block that it reads, without reading the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xxhash

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.snapshot_files import InputFile, OutputFile
from pyspark_savepoint.formats.metadata.manifest import BLOCK, FileChecksums


class ChecksummedOutput:
    """A new file that passes its checksums to ``done`` when it is closed."""

    def __init__(self, file: OutputFile, done: Callable[[FileChecksums], None]) -> None:
        self._file = file
        self._done = done
        self._whole = xxhash.xxh3_128()
        self._block = xxhash.xxh3_64()
        self._blocks = bytearray()
        self.path = file.path
        self.size = 0

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        self._file.write(buffer)
        rest = memoryview(buffer).cast("B")
        self._whole.update(rest)
        while rest:
            part = rest[: BLOCK - self.size % BLOCK]
            self._block.update(part)
            self.size += len(part)
            rest = rest[len(part) :]
            if self.size % BLOCK == 0:
                self._end_block()

    def _end_block(self) -> None:
        self._blocks += self._block.digest()
        self._block.reset()

    def close(self) -> None:
        """Close the file, then pass on its checksums."""
        self._file.close()
        if self.size % BLOCK:
            self._end_block()
        self._done(FileChecksums(self.size, self._whole.digest(), bytes(self._blocks)))

    def abort(self) -> None:
        """Delete the file; does nothing if it is already closed or aborted."""
        self._file.abort()


class CheckedInput:
    """An open file that is read in whole blocks, each verified against its checksum."""

    def __init__(self, file: InputFile, checksums: FileChecksums) -> None:
        self._file = file
        self._checksums = checksums
        self.path = file.path
        self.size = file.size
        self._number = -1
        self._last = memoryview(b"")
        if file.size != checksums.size:
            file.close()
            raise damaged(self.path, None, f"{checksums.size} bytes", f"{file.size} bytes")

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        target = memoryview(buffer).cast("B")
        done = 0
        while done < len(target):
            number, at = divmod(start + done, BLOCK)
            part = self._block(number)[at : at + len(target) - done]
            target[done : done + len(part)] = part
            done += len(part)

    def _block(self, number: int) -> memoryview:
        if number != self._number:
            start = number * BLOCK
            data = memoryview(bytearray(min(BLOCK, self.size - start)))
            self._file.read_into(start, data)
            expected, found = self._checksums.block(number), xxhash.xxh3_64_digest(data)
            if found != expected:
                raise damaged(self.path, start, f"checksum {expected.hex()} of {len(data)} bytes", found.hex())
            self._number, self._last = number, data
        return self._last

    def close(self) -> None:
        self._file.close()


def damaged(path: str, offset: int | None, expected: str, found: str) -> CorruptStateError:
    """Return the error for a file whose content does not match its checksum."""
    return CorruptStateError(
        "a file of the savepoint has changed since it was written: its checksum differs",
        path=path,
        offset=offset,
        expected=expected,
        found=found,
        remedy="the file was damaged or replaced: copy it from its origin again; option('checksums', 'ignore') reads "
        "the file as it is",
    )
