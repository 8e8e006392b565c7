"""Interface of snapshot file systems: find, list, read and write files by path.

``filesystem`` has the implementations.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark_savepoint.formats.redaction import redacted

#: Maximum size of a published file, in bytes: Flink reads ``_metadata`` into one array.
MAX_PUBLISHED = (1 << 31) - 1


@redacted
@dataclass(frozen=True, slots=True)
class FileInfo:
    """An existing file or folder; ``modified`` in seconds since 1970, None if unknown.

    ``is_link``: a symbolic link in a list of a folder, which is not followed there.
    """

    path: str
    is_directory: bool
    size: int
    modified: float | None
    is_link: bool = False

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return posixpath.basename(self.path)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A folder that must contain a file after links are resolved: ``folder`` below ``base``, or ``base`` itself.

    Links are resolved in ``base``, the user's path; ``folder`` itself must not be a link.
    """

    base: str
    folder: str = ""

    def __str__(self) -> str:
        return posixpath.join(self.base, self.folder) if self.folder else self.base


@dataclass(frozen=True, slots=True)
class Opening:
    """What is probably read first of a file, so that the request that opens it brings that; local files ignore it.

    ``size`` is that of the file, if it is known: files of at most ``whole`` bytes come whole. Else ``count`` bytes from
    ``start`` on, or at the end; without ``count`` as many as take no longer than one. ``stop`` is where the reader will
    probably stop, if that is not at their end.
    """

    size: int = -1
    start: int = 0
    count: int = 0
    end: bool = False
    whole: int = 0
    stop: int = 0

    @property
    def purpose(self) -> str:
        """Return what the file is opened for: its end, its size, or its data."""
        return "end" if self.end else "size" if self.count == 1 else "data"

    @property
    def is_all(self) -> bool:
        """Return whether a file that does not come whole is read from its beginning to its end."""
        return self.whole > 0 and not self.count

    def range(self, least: int, part: int) -> tuple[int | None, int]:
        """Return the start of the first request, None for the end, and its bytes.

        If nothing else is said: ``least``, or a ``part`` of a large file that is read to its end.
        """
        if 0 <= self.size <= (self.whole or (0 if self.count else least)):
            return 0, max(self.size, 1)
        count = self.count or (part if self.is_all else least)
        if not self.end:
            return self.start, count
        return (None, count) if self.size < 0 else (max(0, self.size - count), count)


BEGINNING = Opening()
#: A file of which only the size is wanted, and one that is read from its beginning to its end.
SIZE, WHOLE = Opening(count=1), Opening(whole=8 << 20)


@dataclass(frozen=True, slots=True)
class Published:
    """A published file at the time of reading: its bytes, and version and time if the store tells them."""

    data: bytes
    version: tuple[tuple[str, str], ...] = ()
    modified: float | None = field(default=None, compare=False)


class InputFile(Protocol):
    """An open file that can be read at any position."""

    path: str
    size: int
    #: Seconds since 1970, None if unknown.
    modified: float | None

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        ...

    def expect(self, start: int, count: int) -> None:
        """Say that a range will be read soon: files of stores begin to fetch it."""
        ...

    def close(self) -> None: ...


class OutputFile(Protocol):
    """A new file, written sequentially; ``size`` is the number of bytes so far, and the offset of the next byte."""

    path: str
    size: int

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        ...

    def close(self) -> None:
        """Make the file durable."""
        ...

    def abort(self) -> None:
        """Delete the file; does nothing if it is already closed or aborted."""
        ...


class SnapshotFileSystem(Protocol):
    """Description of a file system: frozen and picklable, without open resources."""

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        ...

    def is_file(self, path: str) -> bool:
        """Return whether there is a file at the path, and no folder."""
        ...

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name; links to folders are not followed."""
        ...

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder, relative to it; those of folders have a slash.

        Object stores answer with one page, in which a name with a slash may go on.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """Return whether each request takes long, so that many are made at a time."""
        ...

    def open_input(self, path: str, anchor: Anchor | None = None, opening: Opening = BEGINNING) -> InputFile:
        """Open a file for reading; with an anchor, only if it lies there."""
        ...

    def identity(self, path: str) -> str | None:
        """Return a text that changes whenever the content of a file does; None if only reading it would show that."""
        ...

    def uri(self, path: str) -> str:
        """Return the path in the form in which a user would write it."""
        ...

    def absence(self, path: str) -> str | None:
        """Return a hint why a path may not exist, where the file system has one."""
        ...

    @property
    def renames(self) -> bool:
        """Return whether :meth:`move` is a cheap rename."""
        ...

    def open_output(self, path: str, *, durable: bool = True) -> OutputFile:
        """Create a file; only a durable one needs to survive a power failure."""
        ...

    def create_directory(self, path: str) -> None:
        """Create the folder and its missing parents."""
        ...

    def delete_file(self, path: str) -> None:
        """Delete the file if it exists."""
        ...

    def delete_directory(self, path: str) -> None:
        """Delete the folder and its content if it exists."""
        ...

    def deletion(self, path: str) -> Callable[[], None]:
        """Return what deletes the folder if it exists; a store looks now what is in it, and deletes that."""
        ...

    def delete_empty_directory(self, path: str) -> None:
        """Delete the folder if it exists and is empty."""
        ...

    def move(self, source: str, target: str) -> None:
        """Rename a file; the new name must not exist."""
        ...

    def holds(self, source: SnapshotFileSystem) -> bool:
        """Return whether :meth:`hold` may be possible for files of another file system."""
        ...

    def hold(self, source: SnapshotFileSystem, path: str, anchor: Anchor | None, target: str, size: int) -> bool:
        """Give a file of this size a name here whose bytes do not pass this process: a hard link, or the store's copy.

        Return whether that is possible. The new name must not exist; deleting the old one leaves the new one.
        """
        ...

    def read_published(
        self, path: str, limit: int = MAX_PUBLISHED, unless: Published | None = None
    ) -> Published | None:
        """Return the whole content of a published file, of at most ``limit`` bytes; None if it does not exist.

        ``unless`` itself is returned if the store says that the file still has its version.
        """
        ...

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """Write a file that appears as a whole: a new one, or over the version that was read.

        Raises ConcurrentWriteError if the current version is another, and UncertainOutcomeError if the file may have
        been written despite an error, or may still be.
        """
        ...

    @property
    def retry_seconds(self) -> float:
        """Return for how long a request that fails is made again; 0 where that is not for the caller to say."""
        ...

    @property
    def verifies_uploads(self) -> bool:
        """Return whether the store itself compares the bytes of an upload with a checksum that is sent along."""
        ...

    @property
    def requires_conditions(self) -> bool:
        """Return whether the user demands that the store compares versions when a file is published."""
        ...

    def lacks_conditions(self, path: str, probe: str, replacing: bool) -> bool:
        """Return, after a warning, whether :meth:`publish` cannot see other writers; an error if the user demands it.

        ``path`` is the file to publish, ``replacing`` whether there is one before it; ``probe`` is an empty file of
        this write, with which the conditions are tried.
        """
        ...

    def try_conditions(self, probe: str, replacing: bool) -> None:
        """Find out ahead what :meth:`lacks_conditions` will ask a store, without errors; ``probe`` is a new file."""
        ...

    def lock(self, directory: str) -> AbstractContextManager[None]:
        """Lock a folder against other writers of this package, where the file system has locks."""
        ...
