"""Bytes of one state: described on the driver, opened on the executor that reads them.

A :data:`StateLocation` is frozen and pickles: inline bytes, or a range of a file and the folder that must contain it.
Its ``open()`` returns a :class:`ByteSource`, which has a size, checks every range against it, and reads into the
caller's buffer without another copy.

Checksums of files are computed while writing, and verified while reading: a task verifies each block that it reads,
without reading the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import xxhash

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.io.one_verb import Reopened, keep_opened, opened_before
from pyspark_savepoint.formats.io.run_ahead import AHEAD_FILES, Announcement, Readers, announced, announced_file
from pyspark_savepoint.formats.io.snapshot_files import (
    BEGINNING,
    Anchor,
    InputFile,
    Opening,
    OutputFile,
    SnapshotFileSystem,
)
from pyspark_savepoint.formats.metadata.manifest import BLOCK, FileChecksums
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE
from pyspark_savepoint.formats.redaction import redacted


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


class VerifiedBlocks:
    """The blocks of files that were read and match their checksums, so that nobody reads them for that alone."""

    def __init__(self) -> None:
        self._blocks: dict[object, set[int]] = {}

    def of(self, key: object) -> set[int]:
        """Return the numbers of the blocks of a file, to which others are added."""
        return self._blocks.setdefault(key, set())

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Add the blocks that are read within the block."""
        token = _VERIFIED.set(self)
        try:
            yield
        finally:
            _VERIFIED.reset(token)


_VERIFIED: ContextVar[VerifiedBlocks | None] = ContextVar("verified", default=None)


class CheckedInput:
    """An open file that is read in whole blocks, each verified against its checksum, and then added to ``verified``.

    Without ``is_strict`` other blocks are no error.
    """

    def __init__(self, file: InputFile, checksums: FileChecksums, verified: set[int], is_strict: bool = True) -> None:
        self._file = file
        self._checksums = checksums
        self._verified = verified
        self._is_strict = is_strict
        self.path = file.path
        self.size = file.size
        self.modified = file.modified
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
            expected, actual = self._checksums.block(number), xxhash.xxh3_64_digest(data)
            if actual == expected:
                self._verified.add(number)
            elif self._is_strict:
                raise damaged(self.path, start, f"checksum {expected.hex()} of {len(data)} bytes", actual.hex())
            self._number, self._last = number, data
        return self._last

    def expect(self, start: int, count: int) -> None:
        """Say that the blocks of a range will be read soon."""
        low, high = start // BLOCK * BLOCK, -(-(start + count) // BLOCK) * BLOCK
        self._file.expect(low, high - low)

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


class ByteSource:
    """Open bytes, from 0 to ``size``; ``path`` names them in errors. It is a context manager."""

    path: str
    size: int
    #: Descriptions of the user's classes, for parsers of the bytes.
    classes: Any = None

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on."""
        self._check(start, count)
        buffer = bytearray(count)
        self._fill(start, buffer)
        return bytes(buffer)

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill a writable buffer (bytearray, memoryview, contiguous array) with the bytes from ``start`` on."""
        target = memoryview(buffer).cast("B")
        self._check(start, len(target))
        self._fill(start, target)

    def expect(self, start: int, count: int) -> None:
        """Say that a range will be read soon, so that a file of a store begins to fetch it."""

    def close(self) -> None:
        """Release open resources."""

    def _fill(self, start: int, buffer: Any) -> None:
        raise NotImplementedError

    def _check(self, start: int, count: int) -> None:
        if start < 0 or count < 0 or start + count > self.size:
            raise CorruptStateError(
                "a range ends after the end of the state",
                path=self.path,
                offset=start,
                expected=f"{count} bytes",
                found=f"{self.size} bytes in all",
                remedy=UNREADABLE,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class InlineByteSource(ByteSource):
    def __init__(self, path: str, data: bytes, classes: Any = None) -> None:
        self.path = path
        self.classes = classes
        self.size = len(data)
        self._data = memoryview(data)

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on."""
        self._check(start, count)
        return bytes(self._data[start : start + count])

    def _fill(self, start: int, buffer: Any) -> None:
        target = memoryview(buffer)
        target[:] = self._data[start : start + len(target)]


class FileByteSource(ByteSource):
    """A range of an open file."""

    def __init__(self, file: InputFile, start: int, size: int, classes: Any = None) -> None:
        self.path = file.path
        self.classes = classes
        self.size = size
        self._file = file
        self._start = start

    def _fill(self, start: int, buffer: Any) -> None:
        self._file.read_into(self._start + start, buffer)

    def expect(self, start: int, count: int) -> None:
        """Say that a range will be read soon, so that a file of a store begins to fetch it."""
        self._file.expect(self._start + start, count)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class InlineLocation:
    """State stored inline in ``_metadata``."""

    name: str
    data: bytes = field(repr=False)
    classes: Any = None

    @property
    def path(self) -> str:
        """Return the name of the state in errors."""
        return self.name

    @property
    def shown_path(self) -> str:
        """Return the name of the state in errors."""
        return self.name

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return len(self.data)

    @property
    def identity(self) -> object:
        """Return what no other bytes have."""
        return self.name, self.data

    def open(self, opening: Opening = BEGINNING) -> ByteSource:
        """Return a source of the bytes."""
        return InlineByteSource(self.name, self.data, self.classes)


class Elsewhere(Protocol):
    """What finds a file that is not where its path says; ``path`` is the one in its handle."""

    @property
    def path(self) -> str: ...

    def find(self) -> tuple[SnapshotFileSystem, str, Anchor | None]:
        """Return where it is, or where it is missed; raise a SavepointError if there is no such place."""
        ...


@redacted
@dataclass(frozen=True, slots=True)
class FileLocation:
    """State in a file: ``size`` is the size in the handle, and ``segment`` marks a part of the file.

    A whole file may be longer than the size in its handle (a changelog file has one byte more), but never shorter.
    ``checksums`` are those of the whole file; all data that is read is verified against them. Without
    ``refuses_damage`` what matches is noted (:class:`VerifiedBlocks`), and the rest is no error.
    """

    filesystem: SnapshotFileSystem
    path: str
    anchor: Anchor | None = None
    size: int = UNKNOWN_SIZE
    start: int = 0
    segment: bool = False
    operator: str | None = None
    checksums: FileChecksums | None = None
    refuses_damage: bool = True
    classes: Any = None
    #: The identity of the file that this one is a copy of.
    copy_of: bytes | None = None
    #: Finds a file of a store that is not at its path.
    elsewhere: Elsewhere | None = field(default=None, compare=False, repr=False)

    @property
    def shown_path(self) -> str:
        """Return the path as errors show it: a URI, if it is not local."""
        return self.filesystem.uri(self.path) if self.filesystem.is_remote else self.path

    @property
    def identity(self) -> bytes:
        """Return what no other bytes have: Flink never writes a file again. Copies have that of their original."""
        identifier = f"{self.filesystem.uri(self.path)}\0{self.start}\0{self.size}"
        return self.copy_of or xxhash.xxh3_128_digest(identifier.encode("utf-8", "surrogatepass"))

    def found(self) -> FileLocation:
        """Return where the file is, for who does not open it; a store is asked if its handle names another path."""
        if self.elsewhere is None or self.elsewhere.path == self.filesystem.uri(self.path):
            return self
        filesystem, path, anchor = self.elsewhere.find()
        return replace(self, filesystem=filesystem, path=path, anchor=anchor, elsewhere=None)

    def open(self, opening: Opening = BEGINNING) -> ByteSource:
        """Open the file and check its size; errors name the operator. ``opening`` is what is read first."""
        try:
            file: InputFile = self._reopened(opening) or self._taken(opening) or self._opened(opening)
            if self.checksums is not None and (self.refuses_damage or file.size == self.checksums.size):
                verified = self._verified_blocks(self.checksums)
                file = CheckedInput(file, self.checksums, verified, self.refuses_damage)
            if file.size < self.start + max(self.size, 0):
                self._truncated(file)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None
        size = self.size if self.segment else file.size - self.start
        return FileByteSource(file, self.start, size, self.classes)

    @property
    def is_verified(self) -> bool:
        """Return whether the whole file was read before, where that is noted, and matches its checksums."""
        checksums = self.checksums
        return checksums is not None and len(self._verified_blocks(checksums)) == -(-checksums.size // BLOCK)

    def _verified_blocks(self, checksums: FileChecksums) -> set[int]:
        verified = _VERIFIED.get()
        return set() if verified is None else verified.of((self.filesystem.uri(self.path), checksums.digest))

    def _taken(self, opening: Opening) -> InputFile | None:
        return announced_file(self._key(opening)) if self.filesystem.is_remote else None

    def _key(self, opening: Opening) -> tuple[tuple[str, int], str]:
        return (self.filesystem.uri(self.path), self.start + opening.start), opening.purpose

    def _reopened(self, opening: Opening) -> InputFile | None:
        """Return the file with a range that was read before: what is announced of it is for who reads more."""
        if not (opening.count and self.filesystem.is_remote):
            return None
        return opened_before(self.filesystem.uri(self.path), self._in_file(opening))

    def _in_file(self, opening: Opening) -> Opening:
        file_size = -1 if self.size < 0 or self.segment else self.start + self.size
        stop = self.start + opening.stop if opening.stop else 0
        return replace(opening, size=file_size, start=self.start + opening.start, stop=stop)

    def _opened(self, opening: Opening) -> InputFile:
        """Open the file, unless the running verb has read the same of it before."""
        if not self.filesystem.is_remote:
            return self._found(opening)
        opening = self._in_file(opening)
        uri = self.filesystem.uri(self.path)
        file = opened_before(uri, opening)
        if file is None:
            file = self._found(opening)
            if isinstance(file, Reopened):
                keep_opened(uri, file)
        return file

    def _found(self, opening: Opening) -> InputFile:
        """Open the file where it is: as its path says, or else where the snapshot has it."""
        try:
            return self.filesystem.open_input(self.path, self.anchor, opening)
        except StateFileNotFoundError:
            if self.elsewhere is None:
                raise
            filesystem, path, anchor = self.elsewhere.find()
            return filesystem.open_input(path, anchor, opening)

    def announcement(self, opening: Opening) -> Announcement | None:
        """Return how a file of a store is opened ahead; None for a local one."""
        if not self.filesystem.is_remote:
            return None
        expected = opening.count or EXPECTED
        size = self.size if 0 <= self.size <= max(opening.whole, expected) else expected
        return Announcement(self._key(opening), size, lambda: self._opened(opening))

    def _truncated(self, file: InputFile) -> NoReturn:
        file.close()
        raise CorruptStateError(
            "a file of the snapshot is shorter than the size in its handle",
            path=file.path,
            expected=f"{self.start + self.size} bytes",
            found=f"{file.size} bytes",
            remedy="copy the file from its origin again",
        )


#: Bytes that the request brings which opens a large file, or one of unknown size, as far as they are counted.
EXPECTED = 2 << 20

StateLocation = InlineLocation | FileLocation


#: What is read: where it is, and what is read of it first.
Read = tuple[StateLocation, Opening]


def opened_ahead(
    reads: Iterable[Read], width: int = AHEAD_FILES, group: Readers | None = None
) -> AbstractContextManager[None]:
    """Return a block within which files of stores are opened in the background, in this order; inline state is not.

    ``width`` is how many are opened ahead at first: few if the reader may stop soon. ``group``: there are others
    that read side by side.
    """
    files = (location.announcement(opening) for location, opening in reads if isinstance(location, FileLocation))
    block: AbstractContextManager[None] = announced((file for file in files if file is not None), width, group)
    return block
