"""Files of stores that are opened before they are needed: many at a time, bounded in number and bytes.

Who reads many files announces them in about the order in which they will be opened. The first ones are opened in the
background at once; when most of them were taken, further ones, so that requests are made together. A file that is
announced and not taken is given up when much later ones are taken. Local files are not announced: the operating system
is faster.

Bytes that are read ahead, of files that are not open yet and inside of open ones (``filesystems.remote_files``), have
one limit in a process, which a task has from option ``memory``.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from itertools import groupby
from typing import ClassVar, TypeVar

from pyspark_savepoint.formats.io.one_verb import in_context
from pyspark_savepoint.formats.io.snapshot_files import InputFile

S = TypeVar("S")
T = TypeVar("T")
#: Number of requests at a time across files; number of the files that are open ahead of their reader.
AHEAD, AHEAD_FILES = 64, 256
#: Most bytes that are read ahead. Inside of a file more are read when fewer than a part of the limit are left.
AHEAD_BYTES, REFILL = 64 << 20, 4
#: Further files are opened when fewer than a part of the files, or of the bytes, that may be ahead are left.
REFILL_FILES = 2
#: Least bytes of a request, since fewer take as long: a file with no more can be opened again without one.
LEAST = 1 << 18
#: Seconds for which a file that another reader opens is waited for, before it is requested once more.
LONGEST_WAIT = 5.0
#: The purpose of opening a file that every other purpose serves too.
SIZE_ALONE = "size"
#: Number of files that are opened ahead at first by readers that may stop soon, and by how much that grows.
FEW_AHEAD, GROWTH = 2, 16
#: The same of a task of Spark, which seldom stops soon, and the bytes of these files.
TASK_AHEAD, TASK_BYTES = 32, 16 << 20
#: Bytes of what reads its own files ahead, so that little is won if they are opened while something else is read.
LARGE = 16 << 20

_TO_THE_END: ContextVar[bool] = ContextVar("to_the_end", default=False)


@contextlib.contextmanager
def read_to_the_end(whole: bool = True) -> Iterator[None]:
    """If ``whole``, readers take all that they announce within the block: many files are opened ahead at once."""
    token = _TO_THE_END.set(whole or _TO_THE_END.get())
    try:
        yield
    finally:
        _TO_THE_END.reset(token)


class Announcement:
    """One file to open: its place and what for, its bytes, and how it is opened."""

    __slots__ = ("file", "key", "number", "open", "size")

    def __init__(self, key: tuple[object, str], size: int, open_file: Callable[[], InputFile]) -> None:
        self.key, self.size, self.open = key, size, open_file
        self.file: Future[InputFile] | None = None
        self.number = 0

    def give_up(self) -> None:
        """Close the file as soon as it is open, if it is opened at all."""

        def close(file: Future[InputFile]) -> None:
            if not file.cancelled() and file.exception() is None:
                file.result().close()

        if self.file is not None and not self.file.cancel():
            self.file.add_done_callback(close)


class BytesAhead:
    """The bytes that are read ahead in this process, and how many may be."""

    _lock = threading.Lock()
    _counts: ClassVar[deque[int]] = deque()
    total = 0
    limit = AHEAD_BYTES
    #: Files that are opened ahead at first, and the most bytes of them.
    first, first_bytes = 1, AHEAD_BYTES

    @classmethod
    def add(cls, count: int) -> None:
        """Count bytes that are requested ahead, or no longer; also where an object is collected, at any time."""
        cls._counts.append(count)
        while cls._counts and cls._lock.acquire(blocking=False):
            try:
                while cls._counts:
                    cls.total += cls._counts.popleft()
            finally:
                cls._lock.release()

    @classmethod
    def within(cls, memory: int, *, task: bool = False) -> None:
        """Let a read begin with option ``memory``, which is a limit below the default one; ``task``: one of Spark."""
        cls.limit = min(memory, AHEAD_BYTES)
        cls.first, cls.first_bytes = (TASK_AHEAD, TASK_BYTES) if task else (1, AHEAD_BYTES)


class Readers:
    """Readers that read side by side: each announces what it opens, and has a share of the bytes that may be ahead."""

    def __init__(self, count: int) -> None:
        self.count = count
        #: Bytes that all of them read ahead.
        self.bytes = 0


class _Queue:
    """Files in about the order in which they will be taken; ``width`` of them are opened ahead, later more.

    Readers of a ``group`` each have a queue: each opens its files, also those of others, within a part of the bytes.
    """

    def __init__(self, files: Iterator[Announcement], width: int, group: Readers | None) -> None:
        self._waiting = files
        self._width = width
        #: The most bytes of its files, as long as the reader may stop soon.
        self._most = AHEAD_BYTES if width >= AHEAD_FILES else BytesAhead.first_bytes
        self.group = group
        self._bytes = 0
        self._started: deque[Announcement] = deque()
        self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="savepoint-ahead")
        self._count = 0
        self._places = set[object]()
        #: Files that were opened before it was their turn.
        self.passed = set[object]()
        self._top_up()

    def _bytes_left(self) -> tuple[int, int]:
        """Return how many bytes may be read ahead in all, and how many more of them."""
        if self.group is None:
            return BytesAhead.limit, BytesAhead.limit - BytesAhead.total
        others = BytesAhead.total - self.group.bytes
        share = max(0, BytesAhead.limit - others) // self.group.count
        return share, share - self._bytes

    def _top_up(self) -> None:
        limit, left = self._bytes_left()
        if self._started and (REFILL_FILES * len(self._started) > self._width or REFILL_FILES * left < limit):
            return
        while not self._started or (
            len(self._started) < self._width and self._bytes < self._most and self._bytes_left()[1] > 0
        ):
            file = next(self._waiting, None)
            if file is None:
                return
            place, purpose = file.key
            others = _OPENING.get(file.key, ())
            if any(queue is self or not self.is_beside(queue) for queue, _ in others):
                continue
            if purpose == SIZE_ALONE and place in self._places:
                continue
            if file.key in self.passed:
                self.passed.remove(file.key)
                continue
            self._places.add(place)
            open_file = _after(others[-1][1].file, file.open) if others and file.size <= LEAST else file.open
            file.file = self._pool.submit(in_context(open_file))
            file.number = self._count = self._count + 1
            _OPENING.setdefault(file.key, deque()).append((self, file))
            self._started.append(file)
            self._count_bytes(file.size)

    def is_beside(self, other: _Queue) -> bool:
        """Return whether another queue is that of a reader of the same group."""
        return self.group is not None and self.group is other.group

    def _count_bytes(self, count: int) -> None:
        self._bytes += count
        if self.group is not None:
            self.group.bytes += count
        BytesAhead.add(count)

    def take(self, announcement: Announcement) -> Future[InputFile]:
        """Return a file that is being opened, give up those long before it, and open further ones."""
        self._drop(announcement)
        while self._started and self._started[0].number < announcement.number - AHEAD:
            self._drop(self._started[0]).give_up()
        if announcement.number > 1:  # a reader that stops soon takes one
            self._width, self._most = min(GROWTH * self._width, AHEAD_FILES), AHEAD_BYTES
        self._top_up()
        assert announcement.file is not None
        return announcement.file

    def _drop(self, file: Announcement) -> Announcement:
        self._started.remove(file)
        same = _OPENING[file.key]
        same.remove((self, file))
        if not same:
            del _OPENING[file.key]
        self._count_bytes(-file.size)
        return file

    def end(self) -> None:
        """Give up all files that were not taken."""
        _QUEUES.remove(self)
        self._waiting = iter(())
        while self._started:
            self._drop(self._started[0]).give_up()
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Lock:
    """The lock of the queues, which ends them, too.

    A reader that is not read to its end is collected at any time, also while its thread holds the lock and changes
    another queue. Then its queue ends when the lock is let go.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._ended = deque[_Queue]()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        while self._depth == 1 and self._ended:
            self._ended.popleft().end()
        self._depth -= 1
        self._lock.release()

    def end(self, queue: _Queue) -> None:
        """End a queue, as soon as nothing else changes queues."""
        self._ended.append(queue)
        with self:
            pass


def _after(first: Future[InputFile] | None, open_file: Callable[[], InputFile]) -> Callable[[], InputFile]:
    """Return how a file is opened that is being opened for another reader: a small one needs no second request."""

    def opened() -> InputFile:
        if first is not None:
            done = threading.Event()  # also set if the other reader ends, which wait() would not notice
            first.add_done_callback(lambda _: done.set())
            done.wait(LONGEST_WAIT)
        return open_file()

    return opened


#: All queues; files that are being opened, by their keys, those of one key in their order; and the lock of both.
_QUEUES: list[_Queue] = []
_OPENING: dict[object, deque[tuple[_Queue, Announcement]]] = {}
_LOCK = _Lock()


@contextlib.contextmanager
def announced(files: Iterable[Announcement], width: int = AHEAD_FILES, group: Readers | None = None) -> Iterator[None]:
    """Open files in the background within the block, in their order; ``files`` are of stores only.

    ``width`` is how many are opened ahead at first, each time one is taken more; all if they are read to the end.
    ``group``: there are others that read side by side.
    """
    waiting = iter(files)
    first = next(waiting, None)
    if first is None:
        yield
        return

    def all_files() -> Iterator[Announcement]:
        yield first
        yield from waiting

    with _LOCK:
        queue = _Queue(all_files(), AHEAD_FILES if _TO_THE_END.get() else max(width, BytesAhead.first), group)
        _QUEUES.append(queue)
    try:
        yield
    finally:
        _LOCK.end(queue)


def announced_file(key: object) -> InputFile | None:
    """Return the file of a key that was announced, as soon as it is open; None if it was not."""
    if not _QUEUES:
        return None
    with _LOCK:
        found = next(iter(_OPENING.get(key, ())), None)
        for queue in _QUEUES:
            if found is None or not (queue is found[0] or queue.is_beside(found[0])):
                queue.passed.add(key)
        file = None if found is None else found[0].take(found[1])
    return None if file is None else file.result()


def small_together(items: Iterable[S], size: Callable[[S], int]) -> Iterator[list[S]]:
    """Yield consecutive small items together, whose files can be opened ahead of all; a large one comes alone."""
    for is_large, several in groupby(items, lambda item: size(item) >= LARGE):
        if is_large:
            yield from ([item] for item in several)
        else:
            yield list(several)


def ahead(
    function: Callable[[S], T],
    items: Iterable[S],
    *,
    remote: bool,
    width: int = AHEAD,
    size: Callable[[S], int] = lambda _: 0,
    limit: int = AHEAD_BYTES,
) -> Iterator[T]:
    """Yield a function's results in the order of the items; those of stores are worked out many at a time.

    Args:
        function: Called with each item, in threads if ``remote``.
        items: What it is called with.
        remote: Whether each call waits for a store.
        width: How many calls run at a time, or have results that were not taken yet.
        size: The bytes of an item.
        limit: The most bytes of all that run at a time; one that has more runs alone.

    """
    if not remote:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(width, thread_name_prefix="savepoint-ahead") as pool:
        started: deque[tuple[int, Future[T]]] = deque()
        try:
            for item in items:
                count = size(item)
                while started and (
                    len(started) >= width or sum(started_bytes for started_bytes, _ in started) + count > limit
                ):
                    yield started.popleft()[1].result()
                started.append((count, pool.submit(in_context(function), item)))
            while started:
                yield started.popleft()[1].result()
        finally:
            for _, each in started:
                each.cancel()
