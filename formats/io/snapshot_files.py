"""What a file system of snapshots is: files by path, found, listed, read at any position, written.

``filesystem`` has the ones that there are.
"""

from __future__ import annotations

import posixpath
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file or folder that is there; ``modified`` in seconds since 1970, where it is known."""

    path: str
    is_directory: bool
    size: int
    modified: float | None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A folder that a file must be in after links are resolved: below ``folder`` of ``base``, or in ``base`` itself.

    Links are resolved in ``base``, which the user named; ``folder`` itself may not be one.
    """

    base: str
    folder: str = ""

    def __str__(self) -> str:
        return posixpath.join(self.base, self.folder) if self.folder else self.base


@dataclass(frozen=True, slots=True)
class Published:
    """A published file as it was read: its bytes, and what the store calls this version of it, if it does."""

    data: bytes
    version: tuple[tuple[str, str], ...] = ()


class InputFile(Protocol):
    """An open file, read at any position."""

    path: str
    size: int

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        ...

    def close(self) -> None: ...


class OutputFile(Protocol):
    """A new file, written from the front; ``size`` is the bytes so far, so the offset of what comes next."""

    path: str
    size: int

    def write(self, buffer: Any) -> None:
        """All bytes of a buffer."""
        ...

    def close(self) -> None:
        """Make the file last."""
        ...

    def abort(self) -> None:
        """Leave nothing; harmless where the file was closed or aborted already."""
        ...


class SnapshotFileSystem(Protocol):
    """A file system by description: frozen, picklable, nothing open."""

    def info(self, path: str) -> FileInfo | None:
        """What is at the path; None if nothing is."""
        ...

    def list(self, path: str) -> list[FileInfo]:
        """What a folder holds, by name; links to folders are not followed."""
        ...

    def open_input(self, path: str, anchor: Anchor | None = None) -> InputFile:
        """Open a file for reading; with an anchor, only if it lies there."""
        ...

    def uri(self, path: str) -> str:
        """The path as a user would write it."""
        ...

    def absence(self, path: str) -> str | None:
        """Why there may be nothing at a path, where more is to be said."""
        ...

    @property
    def renames(self) -> bool:
        """Whether :meth:`move` costs nothing."""
        ...

    def open_output(self, path: str, *, durable: bool = True) -> OutputFile:
        """A new file; only a durable one need outlive a power failure."""
        ...

    def create_directory(self, path: str) -> None:
        """The folder, and those above it that are missing."""
        ...

    def delete_file(self, path: str) -> None:
        """The file, where it is there."""
        ...

    def delete_directory(self, path: str) -> None:
        """The folder and all in it, where it is there."""
        ...

    def delete_empty_directory(self, path: str) -> None:
        """The folder, where it is there and empty."""
        ...

    def move(self, source: str, target: str) -> None:
        """Give a file another name, which nothing has."""
        ...

    def read_published(self, path: str) -> Published | None:
        """A published file as it is now, whole; None where there is none."""
        ...

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """A file that appears whole where nothing is, or over what was read.

        Raises ConcurrentWriteError where something else is there, and UncertainOutcomeError where it may have appeared
        nevertheless, or may yet.
        """
        ...

    def lock(self, directory: str) -> AbstractContextManager[None]:
        """Hold a folder against other writers of this package, where that can be."""
        ...
