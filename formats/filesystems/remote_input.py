"""Read-ahead for files of object stores: requests have a high latency, so they are few and start early.

A read that continues at the end of the previous one starts a request for the following bytes: twice as many as the last
such request, and at least as many as the read itself, up to :data:`MAX_AHEAD`. A random read fetches only a little more
than it needs. Large ranges are fetched in parts, in parallel. A file keeps at most two fetched ranges in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark_savepoint.formats.errors import FileReplacedError
from pyspark_savepoint.formats.filesystems.remote_errors import CLIENT_ERRORS, storage_error
from pyspark_savepoint.formats.io.local_input import truncated

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
            found = self._range(position, stop)
            last = min(stop, found.end)
            found.copy(position, target[position - start : last - start])
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
    found = {name.lower(): value for name, value in (file.metadata() or {}).items()}
    version = found.get("etag")
    return None if version is None else f"{version.decode(errors='replace')} of {file.size()} bytes"
