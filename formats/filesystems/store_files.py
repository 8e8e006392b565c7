"""Files of object stores: opened by one GET and read in one version, or made of one upload."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pyspark_savepoint.formats.errors import CorruptStateError, FileReplacedError, SavepointError
from pyspark_savepoint.formats.filesystems.remote import StoreTarget, refuse, storage_error
from pyspark_savepoint.formats.filesystems.store_answers import (
    NO_RANGE,
    NO_RANGES,
    Answer,
    RefusedError,
    described,
    errors,
)

#: Files up to this size are uploaded in one request, which is repeated as a whole.
SINGLE = 16 << 20
#: The size of the parts of larger ones, and how many of them are sent at a time: as much memory again.
UPLOAD, UPLOADERS = 8 << 20, 3
#: Schemes of stores without ranges that are counted from the end.
NO_SUFFIXES = frozenset({"abfs", "abfss"})


class Store(Protocol):
    """The store of a file (``object_store.ObjectStore``)."""

    uri: str
    target: StoreTarget

    def get(self, path: str, byte_range: Any, version: str | None = None, unless: str | None = None) -> Answer:
        """Return a range of an object in one request."""
        ...

    def size(self, path: str) -> int:
        """Return the size of a file."""
        ...

    def put_file(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file in one request."""
        ...

    def writer(self, path: str) -> Any:
        """Return an upload in parts."""
        ...

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files if they exist."""
        ...


class ObjectFile:
    """A file in an object store, of which all ranges are of the version that was opened."""

    is_lasting = True

    def __init__(self, store: Store, path: str, answer: Answer | None = None) -> None:
        self._store, self._path = store, path
        self.path = store.uri + path
        self.size = -1
        self.modified: float | None = None
        self._e_tag: str | None = None
        if answer is not None:
            self._know(answer)

    def _know(self, answer: Answer) -> None:
        self.size, self.modified, self._e_tag = answer.size, answer.modified, answer.e_tag

    def open(self, start: int | None, count: int) -> tuple[int, Any]:
        """Request the first range, which tells size and version."""
        wanted: Any = {"suffix": count} if start is None else (start, start + count)
        try:
            if start is None and self._store.target.scheme in NO_SUFFIXES:
                size = self._store.size(self._path)
                wanted = (max(0, size - count), max(size, 1))
            answer = self._store.get(self._path, wanted)
        except FileNotFoundError as error:
            raise storage_error(error, self.path) from None
        except RefusedError as refused:
            if refused.args != (NO_RANGES,):
                self.size = self._store.size(self._path)  # empty, or shorter than it should be
                return 0, b""
            answer = self._store.get(self._path, None)
        self._know(answer)
        return answer.start, answer.data

    def read(self, start: int, count: int) -> Any:
        """Return some bytes of the version that was opened."""
        try:
            answer = self._store.get(self._path, (start, start + count), version=self._e_tag)
        except FileNotFoundError as error:
            raise storage_error(error, self.path) from None
        except RefusedError as refused:
            if refused.args == (NO_RANGES,):
                answer = self._store.get(self._path, None)
                answer.data = answer.data[start : start + count]
            elif refused.args == (NO_RANGE,):
                raise CorruptStateError(
                    "the file is shorter than it was when it was opened",
                    path=self.path,
                    remedy="it was replaced while it was read: read the snapshot again",
                ) from None
            else:
                raise self._replaced(None) from None
        if answer.e_tag != self._e_tag or answer.size != self.size:
            raise self._replaced(answer)
        return answer.data

    def _replaced(self, now: Answer | None) -> FileReplacedError:
        return FileReplacedError(
            "the file was replaced while it was read",
            path=self.path,
            expected=f"version {self._e_tag} of {self.size} bytes",
            found=None if now is None else f"version {now.e_tag} of {now.size} bytes",
            remedy="read the snapshot again: the new version is complete",
        )

    def close(self) -> None:
        """Do nothing: each answer was of the version that was opened."""


class ObjectOutputFile:
    """A new object: of one request if it is small, else of parts; the store shows it when it is closed.

    Bytes of a small one wait in blocks that are sent as they are. When it turns out to be large, each block is released
    as soon as it is handed over, so that an upload never takes more memory than its parts and one block.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.path = store.uri + path
        self.size = 0
        self._store, self._path = store, path
        self._waiting: deque[bytearray] | None = deque()
        self._writer: Any = None

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        data = memoryview(buffer).cast("B")
        self.size += len(data)
        if self._waiting is not None and self.size <= SINGLE:
            if self._waiting and len(self._waiting[-1]) + len(data) <= UPLOAD:
                self._waiting[-1].extend(data)
            else:
                self._waiting.append(bytearray(data))
            return
        with self._failing():
            if self._waiting is not None:
                self._writer = self._store.writer(self._path)
                waiting, self._waiting = self._waiting, None
                while waiting:
                    self._writer.write(waiting.popleft())
            self._writer.write(data)

    def close(self) -> None:
        """Finish the object; where an answer is lost or forgotten, its size tells whether the store has it."""
        waiting, self._waiting = self._waiting, None
        writer, self._writer = self._writer, None
        if waiting is not None:
            self._store.put_file(self._path, waiting)
            return
        with self._failing():
            try:
                writer.close()
            except errors():
                if not self._is_complete():
                    raise

    def _is_complete(self) -> bool:
        try:
            return self._store.size(self._path) == self.size
        except (SavepointError, OSError):
            return False

    def abort(self) -> None:
        """End and delete an upload, because it cannot be cancelled; a small file was not sent yet."""
        self._waiting = None
        writer, self._writer = self._writer, None
        if writer is not None:
            # A file that cannot be deleted can be found by its name: report the original error instead.
            with contextlib.suppress(*errors(), SavepointError):
                writer.close()
            with contextlib.suppress(SavepointError):
                self._store.delete_files([self._path])

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except errors() as error:
            if isinstance(error, SavepointError):
                raise
            refuse(OSError(described(error)), self.path)
