"""Files of object stores and HDFS, read and written through pyarrow.

Requests have a high latency, so reads are few and start early. A read that continues at the end of the previous one
starts a request for the following bytes: twice as many as the last such request, and at least as many as the read
itself, up to :data:`MAX_AHEAD`. A random read fetches only a little more than it needs. Large ranges are fetched in
parts, in parallel. A file keeps at most two fetched ranges in memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    FileReplacedError,
    OutputError,
    SavepointWarning,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.conditional_store import ConditionalStore
from pyspark_savepoint.formats.filesystems.remote import CLIENT_ERRORS, storage_error
from pyspark_savepoint.formats.filesystems.storage_options import REQUIRE
from pyspark_savepoint.formats.io.local_files import too_large, truncated
from pyspark_savepoint.formats.io.outputs import already_there
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, Anchor, Published, SnapshotFileSystem

#: A smaller request takes as long.
MIN_READ = 1 << 18
MAX_AHEAD = 1 << 22
#: A range is fetched in parts of this size.
PART = 1 << 21
FETCHERS = 8


class _Fetchers:
    """The pool of fetching threads, one per process."""

    pool: ThreadPoolExecutor | None = None

    @classmethod
    def get(cls) -> ThreadPoolExecutor:
        if cls.pool is None:
            cls.pool = ThreadPoolExecutor(FETCHERS, thread_name_prefix="savepoint-fetch")
        return cls.pool

    @classmethod
    def forget(cls) -> None:
        cls.pool = None


# A forked child process does not have its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Fetchers.forget)


class _Range:
    """Bytes from ``start`` to ``end`` that are being fetched."""

    def __init__(self, file: Any, path: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        pool = _Fetchers.get()
        self._parts: list[tuple[int, int, Future[bytes]]] = []
        for low in range(start, end, PART):
            size = min(PART, end - low)
            self._parts.append((low, size, pool.submit(_read_part, file, path, low, size)))

    def copy(self, start: int, target: memoryview) -> None:
        """Wait for the bytes from ``start`` on, and copy them into a buffer."""
        stop = start + len(target)
        for low, size, part in self._parts:
            first, last = max(start, low), min(stop, low + size)
            if first < last:
                target[first - start : last - start] = part.result()[first - low : last - low]

    def cancel(self) -> bool:
        """Cancel the remaining requests; return whether none is running."""
        idle = [part.cancel() or part.done() for _, _, part in self._parts]  # a list, to cancel every part
        return all(idle)


def _read_part(file: Any, path: str, start: int, size: int) -> bytes:
    """Read ``size`` bytes of a file from ``start`` on."""
    parts: list[bytes] = []
    done = 0
    while done < size:
        try:
            data = file.read_at(size - done, start + done)
        except CLIENT_ERRORS as error:
            raise storage_error(error, path) from None
        if not data:
            raise truncated(path, start + done, f"{size - done} more bytes")
        parts.append(data)
        done += len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class RemoteInputFile:
    """A file that ``open_file`` opens with pyarrow; not thread-safe.

    Its ranges are fetched by separate requests. To ensure that all of them are of one version, :meth:`close` requests
    the version again and raises FileReplacedError if it has changed since the file was opened.
    """

    def __init__(self, open_file: Callable[[], Any], path: str) -> None:
        file = open_file()
        self.path = path
        self._open_file, self._version = open_file, version_of(file)
        self.size = int(file.size())
        self._file = file
        self._ranges: list[_Range] = []
        self._last = -1
        self._was_read = False
        self._ahead = MIN_READ

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        target = memoryview(buffer).cast("B")
        stop = start + len(target)
        if stop > self.size:
            raise truncated(self.path, start, f"{len(target)} bytes", f"{self.size} bytes in all")
        goes_on = start == self._last
        if not goes_on:
            self._ahead = MIN_READ
        self._was_read = True
        position = start
        while position < stop:
            fetched = self._range(position, stop)
            last = min(stop, fetched.end)
            fetched.copy(position, target[position - start : last - start])
            position = last
        self._last = stop
        if goes_on:
            self._fetch_ahead(stop, len(target))

    def _range(self, position: int, stop: int) -> _Range:
        """Return the range at a position: one already fetched, or a new request."""
        for known in self._ranges:
            if known.start <= position < known.end:
                return known
        end = min(self.size, max(stop, position + MIN_READ))
        new = _Range(self._file, self.path, position, end)
        return new if end - position > MAX_AHEAD else self._keep(new)

    def _fetch_ahead(self, position: int, step: int) -> None:
        """Start fetching the following bytes, once the reader has reached the last fetched range."""
        if any(known.start <= position < known.end for known in self._ranges[:-1]):
            return
        end = next((last.end for last in self._ranges[-1:] if last.start <= position <= last.end), position)
        if end < self.size:
            self._ahead = min(MAX_AHEAD, max(2 * self._ahead, step))
            self._keep(_Range(self._file, self.path, end, min(self.size, end + self._ahead)))

    def _keep(self, new: _Range) -> _Range:
        for known in self._ranges[:-1]:
            known.cancel()
        self._ranges = [*self._ranges[-1:], new]
        return new

    def close(self) -> None:
        """Close the file; if a part of it is still being fetched, the file is closed after that."""
        ranges, self._ranges = self._ranges, []
        file, self._file = self._file, None
        idle = [known.cancel() for known in ranges]
        if file is not None and all(idle):
            file.close()
        if file is not None and self._was_read and self._version is not None:
            self._check()

    def _check(self) -> None:
        """Raise FileReplacedError if the store now has another version; a file deleted since then is not an error."""
        try:
            again = self._open_file()
        except FileNotFoundError:
            return
        except CLIENT_ERRORS as error:
            raise storage_error(error, self.path) from None
        now = version_of(again)
        again.close()
        if now != self._version:
            raise FileReplacedError(
                "the file was replaced while it was read",
                path=self.path,
                expected=f"version {self._version}",
                found=f"version {now}",
                remedy="read the snapshot again: the new version is complete",
            )


def version_of(file: Any) -> str | None:
    """Return the version of the open file as the store names it; None if the store has no versions."""
    metadata = {name.lower(): value for name, value in (file.metadata() or {}).items()}
    version = metadata.get("etag")
    return None if version is None else f"{version.decode(errors='replace')} of {file.size()} bytes"


#: Stores of pyarrow that copy an object of theirs by themselves; HDFS does not.
COPYING = frozenset({"s3", "gcs", "abfs"})


def refuse(error: Exception, path: str, uncertain: bool = False) -> NoReturn:
    """Raise an error of the client as an OutputError with a remedy.

    With ``uncertain``, the file may have been written: then raise an UncertainOutcomeError unless access was denied.
    """
    meaning = storage_error(error, path)
    kind = UncertainOutcomeError if uncertain and not isinstance(meaning, AccessDeniedError) else OutputError
    raise kind(
        "a file of the savepoint cannot be written",
        path=path,
        found=f"{meaning.message}: {meaning.facts.get('found', error)}",
        remedy=meaning.facts.get("remedy"),
    ) from None


@contextlib.contextmanager
def refusing(path: str) -> Iterator[None]:
    """Raise the file system's write errors as :class:`OutputError`."""
    try:
        yield
    except CLIENT_ERRORS as error:
        refuse(error, path)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise the file system's read errors as :class:`SavepointError`."""
    try:
        yield
    except CLIENT_ERRORS as error:
        raise storage_error(error, path) from None


def keep_silent(filesystem: arrow_fs.FileSystem, file: Any) -> None:
    """Keep a failed Azure stream alive, so that it is not closed again, not even at the end of the process.

    When Arrow destroys such a stream, it writes the error to standard error, with the URL and the whole token in it.
    """
    if filesystem.type_name == "abfs" and not file.closed:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))


class ArrowOutputFile:
    """A new file opened by pyarrow; object stores show it only when it is closed."""

    def __init__(self, filesystem: arrow_fs.FileSystem, located: str, path: str) -> None:
        self.path = path
        self.size = 0
        self._filesystem, self._located = filesystem, located
        try:
            self._file: Any = filesystem.open_output_stream(located)
        except CLIENT_ERRORS as error:
            refuse(error, path)

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        data = memoryview(buffer).cast("B")
        try:
            self._file.write(data)
        except CLIENT_ERRORS as error:
            refuse(error, self.path)
        self.size += len(data)

    def close(self) -> None:
        file, self._file = self._file, None
        try:
            file.close()
        except CLIENT_ERRORS as error:
            keep_silent(self._filesystem, file)
            refuse(error, self.path)

    def abort(self) -> None:
        """Close and delete the file, because an upload cannot be cancelled."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except CLIENT_ERRORS:
                keep_silent(self._filesystem, file)
            # A file that cannot be deleted can be found by its name: report the original error instead.
            with contextlib.suppress(*CLIENT_ERRORS):
                self._filesystem.delete_file(self._located)


class ArrowOutputs:
    """Write operations of a pyarrow file system; published files go through a store with conditional writes."""

    __slots__ = ()

    def connected(self) -> tuple[arrow_fs.FileSystem, str]:
        """Return the live file system and the prefix of its paths."""
        raise NotImplementedError

    def uri(self, path: str) -> str:
        """Return the path in the form in which a user would write it."""
        raise NotImplementedError

    @property
    def renames(self) -> bool:
        """Return whether :meth:`move` is a cheap rename: object stores copy."""
        return isinstance(self.connected()[0], arrow_fs.HadoopFileSystem)

    def open_output(self, path: str, *, durable: bool = True) -> ArrowOutputFile:
        filesystem, prefix = self.connected()
        return ArrowOutputFile(filesystem, prefix + path, self.uri(path))

    def create_directory(self, path: str) -> None:
        """Create the folder in HDFS; in object stores do nothing.

        Object stores need no folders. pyarrow would first request the properties of the bucket or container, which
        credentials limited to its objects do not allow: Azure's shared access signatures never do.
        """
        if self.renames:
            filesystem, prefix = self.connected()
            with refusing(self.uri(path)):
                filesystem.create_dir(prefix + path, recursive=True)

    def delete_file(self, path: str) -> None:
        """Delete the file if it exists."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(path)), contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(prefix + path)

    def delete_directory(self, path: str) -> None:
        """Delete the folder and its content if it exists."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(path)), contextlib.suppress(FileNotFoundError):
            filesystem.delete_dir(prefix + path)

    def delete_empty_directory(self, path: str) -> None:
        """Delete the folder if it exists and is empty."""
        filesystem, prefix = self.connected()
        with contextlib.suppress(*CLIENT_ERRORS):
            if not filesystem.get_file_info(arrow_fs.FileSelector(prefix + path)):
                filesystem.delete_dir(prefix + path)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        filesystem, prefix = self.connected()
        with refusing(self.uri(source)):
            filesystem.move(prefix + source, prefix + target)

    def hold(self, source: SnapshotFileSystem, path: str, anchor: Anchor | None, target: str) -> bool:
        """Have the store copy an object of its own; return whether it did, completely.

        Stores limit the sizes that they copy in one request (S3: 5 GB, Azure: 256 MB), so that a refusal is no error.
        """
        filesystem, prefix = self.connected()
        if filesystem.type_name not in COPYING or not isinstance(source, ArrowOutputs):
            return False
        other, from_prefix = source.connected()
        if not filesystem.equals(other):
            return False
        try:
            filesystem.copy_file(from_prefix + path, prefix + target)
            sizes = [info.size for info in filesystem.get_file_info([from_prefix + path, prefix + target])]
        except CLIENT_ERRORS:
            return False
        return sizes[0] is not None and sizes[0] == sizes[1]

    def conditional(self) -> ConditionalStore:
        """Return the same location as a store with conditional writes; LookupError explains why there is none."""
        raise NotImplementedError

    def read_published(self, path: str, limit: int = MAX_PUBLISHED) -> Published | None:
        """Return the whole current content of a published file; None if it does not exist."""
        try:
            return self.conditional().get(path, limit)
        except LookupError:
            filesystem, prefix = self.connected()
            with reading(self.uri(path)):
                info = filesystem.get_file_info(prefix + path)
            if info.type == arrow_fs.FileType.NotFound:
                return None
            if (info.size or 0) > limit:
                raise too_large(self.uri(path), info.size, limit) from None
            with reading(self.uri(path)), filesystem.open_input_stream(prefix + path) as stream:
                return Published(stream.read())

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """Write a file that appears as a whole, if the current version is still ``over``.

        Raises ConcurrentWriteError if the current version is another, and UncertainOutcomeError if the file may have
        been written despite an error. Without conditional writes, the current version is read and compared just before.
        """
        try:
            self.conditional().put(path, data, over)
        except (LookupError, NotImplementedError) as why:
            self._warn_of_last(path, str(why))
            self._publish_unseen(path, data, over)

    def lacks_conditions(self, path: str, probe: str, replacing: bool) -> bool:
        """Return, after a warning, whether :meth:`publish` cannot see other writers; OutputError if that is required.

        A store may accept conditions and ignore them, such as a gateway that drops headers which it does not know: it
        is tried once per process and store.
        """
        try:
            if self.conditional().honours(probe, replacing):
                return False
        except (LookupError, NotImplementedError) as why:
            self._refuse_if_required(path, str(why))
        else:
            self._warn_of_last(path, "the store ignores the conditions of requests, If-Match and If-None-Match")
        return True

    @property
    def requires_conditions(self) -> bool:
        return self.conditional_writes == REQUIRE

    @property
    def conditional_writes(self) -> str | None:
        """Return the storage option ``conditionalWrites``."""
        raise NotImplementedError

    def _publish_unseen(self, path: str, data: bytes, over: Published | None) -> None:
        filesystem, prefix = self.connected()
        current = self.read_published(path)
        if (current and current.data) != (over and over.data):
            raise already_there(self.uri(path))
        stream = None
        try:
            stream = filesystem.open_output_stream(prefix + path)
            with stream:
                stream.write(data)
        except CLIENT_ERRORS as error:
            if stream is not None:
                keep_silent(filesystem, stream)
            refuse(error, self.uri(path), uncertain=True)

    def _warn_of_last(self, path: str, why: str) -> None:
        self._refuse_if_required(path, why)
        others = (
            "if two write at the same time"  # marks of writers are in object stores only
            if self.renames
            else "writers of this package wait for each other, but if another tool writes at the same time"
        )
        warnings.warn(
            f"{self.uri(path)} is published without a conditional write ({why}): {others}, the last one wins and the "
            "data of the other is lost; "
            f"the storage option 'conditionalWrites' = '{REQUIRE}' refuses such writes",
            SavepointWarning,
            stacklevel=2,
        )

    def _refuse_if_required(self, path: str, why: str) -> None:
        if self.requires_conditions:
            raise OutputError(
                "this would be published without a conditional write, which option 'conditionalWrites' requires",
                path=self.uri(path),
                found=why,
                remedy="nothing was published: write to a store with conditional writes, with credentials of this "
                "process, or let only one process write at a time and set the option to 'warn'",
            )

    @contextlib.contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        """Do nothing: object stores have no locks."""
        yield
