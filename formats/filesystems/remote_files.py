"""Files of object stores and HDFS, opened by one request and read ahead.

Requests have a high latency, so reads are few and start early. The request that opens a file brings what is probably
wanted first: its beginning, its end, or all of it if it is small. A read that continues at the end of the previous one
starts requests for the following bytes, when most of the last ones were read: :data:`GROWTH` times as many as before,
and at least as many as the read itself, up to what the process may read ahead (``io.run_ahead``), which open files
share. A random read fetches only a little more than it needs. Large ranges are fetched in parts, in parallel. A file
keeps at most two fetched ranges in memory; what was read in order is let go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from pyspark_savepoint.formats.io.local_files import truncated
from pyspark_savepoint.formats.io.one_verb import in_context
from pyspark_savepoint.formats.io.run_ahead import LEAST, REFILL, BytesAhead
from pyspark_savepoint.formats.io.snapshot_files import BEGINNING, Opening

MIN_READ = LEAST
GROWTH = 4
#: Bytes that are read ahead of a file if others read ahead what all may.
LEAST_AHEAD = 1 << 20
#: Ranges up to this size are kept until they were read.
MAX_CACHED_RANGE = 1 << 25
#: A range is fetched in parts of this size.
PART = 1 << 22
FETCHERS = 32
#: Memory in bytes of a file without its bytes.
OBJECT = 1 << 10


class RemoteFile(Protocol):
    """A file of a store, of which ranges are requested, all of one version."""

    path: str
    size: int
    modified: float | None
    #: Whether it can be read by several readers, and after it was closed.
    is_lasting: bool

    def open(self, start: int | None, count: int) -> tuple[int, Any]:
        """Request the first range; return where it begins, and its bytes. Without ``start`` it is the end."""
        ...

    def read(self, start: int, count: int) -> Any:
        """Return some bytes: fewer only if the request was answered so."""
        ...

    def close(self) -> None:
        """Release the file; raise FileReplacedError if it was replaced after it was opened."""
        ...


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

    def __init__(self, file: RemoteFile, start: int, end: int) -> None:
        self.start, self.end = start, end
        pool, read = _Fetchers.get(), in_context(_read_part)
        self._parts: list[tuple[int, int, Future[Any]]] = []
        self._counted = 0
        for low in range(start, end, PART):
            size = min(PART, end - low)
            self._parts.append((low, size, pool.submit(read, file, low, size)))

    @classmethod
    def of(cls, start: int, data: Any) -> _Range:
        """Return a range that is there."""
        new = cls.__new__(cls)
        new._counted = 0
        new.start, new.end = start, start + len(data)
        future: Future[Any] = Future()
        future.set_result(data)
        new._parts = [(start, len(data), future)]
        return new

    def copy(self, start: int, target: memoryview) -> None:
        """Wait for the bytes from ``start`` on, and copy them into a buffer."""
        stop = start + len(target)
        for low, size, part in self._parts:
            first, last = max(start, low), min(stop, low + size)
            if first < last:
                target[first - start : last - start] = memoryview(part.result())[first - low : last - low]

    def parts(self) -> Iterator[Any]:
        """Wait for all bytes, and yield them in order."""
        for _, _, part in self._parts:
            yield part.result()

    def let_go(self, stop: int) -> None:
        """Forget the parts before a position."""
        self._parts = [part for part in self._parts if part[0] + part[1] > stop]
        self.start = self._parts[0][0] if self._parts else self.end
        if self._counted:
            self._count(self.end - self.start)

    def counted(self) -> _Range:
        """Count the bytes among those that are read ahead, until they are let go."""
        self._count(self.end - self.start)
        return self

    def __del__(self) -> None:
        self._count(0)

    def _count(self, now: int) -> None:
        BytesAhead.add(now - self._counted)
        self._counted = now

    def cancel(self) -> bool:
        """Cancel the remaining requests; return whether none is running."""
        self._count(0)
        idle = [part.cancel() or part.done() for _, _, part in self._parts]  # a list, to cancel every part
        return all(idle)


def fetched(file: RemoteFile, start: int, end: int) -> Iterator[Any]:
    """Yield the bytes of a range in order, requested in parallel."""
    return _Range(file, start, end).parts()


def _read_part(file: RemoteFile, start: int, size: int) -> Any:
    """Read ``size`` bytes of a file from ``start`` on."""
    parts: list[Any] = []
    read_so_far = 0
    while read_so_far < size:
        data = file.read(start + read_so_far, size - read_so_far)
        if not data:
            raise truncated(file.path, start + read_so_far, f"{size - read_so_far} more bytes")
        parts.append(data)
        read_so_far += len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class RemoteInputFile:
    """An open file of a store; not thread-safe."""

    def __init__(self, file: RemoteFile, opening: Opening = BEGINNING, first: tuple[int, Any] | None = None) -> None:
        start, data = first or file.open(*opening.range(MIN_READ, PART))
        self.path, self.size, self.modified = file.path, file.size, file.modified
        self._file = file
        self._first = (start, data) if len(data) <= MIN_READ else (0, b"")
        self._ranges: list[_Range] = [_Range.of(start, data)] if len(data) else []
        self._closed = False
        #: Where the last read began and ended.
        self._begin, self._last = 0, -1
        self._is_all = opening.is_all
        #: Where the reader will probably stop; -1 if it did not say so.
        self._stop = opening.stop or (opening.start + opening.count if opening.count and not opening.end else -1)
        self._ahead = MIN_READ
        if self._is_all and self._ranges and BytesAhead.total + LEAST_AHEAD <= BytesAhead.limit:
            self._fetch_ahead(0, 0)

    @property
    def kept_bytes(self) -> int:
        """Return the memory in bytes that it takes to open the file again; 0 if that is not possible."""
        return OBJECT + len(self._first[1]) if self._file.is_lasting else 0

    def again(self, opening: Opening) -> RemoteInputFile | None:
        """Return the file opened once more without a request; None if that has not brought what is read first.

        A large file that is read to its end needs no bytes for that: its version is known, so all parts come together.
        """
        first_start, data = self._first
        in_parts = (
            opening.is_all and self.size > opening.whole and not opening.start and not first_start and len(data) > 0
        )
        if opening.purpose != "size" and not in_parts:
            start, count = opening.range(MIN_READ, PART)
            low = max(0, self.size - count) if start is None else start
            if low < first_start or min(self.size, low + count) > first_start + len(data):
                return None
        return RemoteInputFile(self._file, opening, self._first)

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        target = memoryview(buffer).cast("B")
        stop = start + len(target)
        if stop > self.size:
            raise truncated(self.path, start, f"{len(target)} bytes", f"{self.size} bytes in all")
        # Who said where it stops reads all until there, and a block may have entries of two reads.
        overlaps = self._begin <= start < self._last < stop <= self._stop
        goes_on = start == self._last or overlaps or (self._is_all and self._known(start) is not None)
        if not goes_on:
            self._ahead = MIN_READ
        position = start
        while position < stop:
            fetched = self._range(position, stop)
            last = min(stop, fetched.end)
            fetched.copy(position, target[position - start : last - start])
            position = last
        self._begin, self._last = start, stop
        if goes_on and stop != self._stop:
            self._fetch_ahead(stop, len(target))

    def expect(self, start: int, count: int) -> None:
        """Start to fetch a range that will be read soon, unless it is known; its beginning, if much is read ahead."""
        stop = min(self.size, start + min(count, max(LEAST_AHEAD, BytesAhead.limit - BytesAhead.total)))
        if start < stop and self._known(start) is None:
            self._range(start, stop).counted()

    def _range(self, position: int, stop: int) -> _Range:
        """Return the range at a position: one already fetched, or a new request."""
        fetched = self._known(position)
        if fetched is not None:
            return fetched
        end = min(self.size, max(stop, position + MIN_READ))
        end = min([end, *(each.start for each in self._ranges if each.start > position)])
        new = _Range(self._file, position, end)
        return new if end - position > MAX_CACHED_RANGE else self._keep(new)

    def _known(self, position: int) -> _Range | None:
        return next((fetched for fetched in self._ranges if fetched.start <= position < fetched.end), None)

    def _fetch_ahead(self, position: int, step: int) -> None:
        """Start fetching the following bytes, once the reader has read most of the last fetched range."""
        if any(fetched.start <= position < fetched.end for fetched in self._ranges[:-1]):
            return
        for fetched in self._ranges:
            fetched.let_go(position)
        end = next((last.end for last in self._ranges[-1:] if last.start <= position <= last.end), position)
        limit, last_end = BytesAhead.limit, self._stop if position < self._stop else self.size
        length = limit if self._is_all else min(limit, max(GROWTH * self._ahead, step))
        if end < last_end and REFILL * (end - position) <= length:
            self._ahead = max(LEAST_AHEAD, min(length, limit - BytesAhead.total))
            self._keep(_Range(self._file, end, min(last_end, end + self._ahead)).counted())

    def _keep(self, new: _Range) -> _Range:
        for fetched in self._ranges[:-1]:
            fetched.cancel()
        self._ranges = [*self._ranges[-1:], new]
        return new

    def close(self) -> None:
        """Close the file; if a part of it is still being fetched, the file is closed after that."""
        ranges, self._ranges = self._ranges, []
        idle = [fetched.cancel() for fetched in ranges]
        if not self._closed and all(idle):
            self._file.close()
        self._closed = True
