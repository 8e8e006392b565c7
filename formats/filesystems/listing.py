"""Lists of object stores, bounded: a store decides how many pages a list has, and some never end.

A folder is listed with its folders' names alone, in one request for each thousand of them. The client follows the pages
by itself and tells nothing of them, so that it gets some seconds. A list that takes longer is read again page by page,
all files below the folder: names that come again end it, and so does a number of files that no folder has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark_savepoint.formats.errors import StorageError

T = TypeVar("T")
#: Seconds for a list of a folder whose pages are not seen.
UNSEEN_SECONDS = 10.0
#: Names in a page, as stores send them, and names below one folder.
PAGE, MAX_NAMES = 1000, 10_000_000
REMEDY = "look at the store, or at the proxy or gateway before it; name the snapshot's own folder"


@dataclass(frozen=True)
class Listing:
    """Lists of one client; ``page_seconds`` is how long it may take to one page that has names."""

    client: Any
    uri: str = field(repr=False)
    page_seconds: float

    def folder(self, prefix: str) -> tuple[list[str], list[Any]]:
        """Return the folders and the files of a folder: names, and the client's descriptions."""
        return _waited_for(self._folder(prefix))

    def below(self, prefix: str) -> list[str]:
        """Return the names of all files below a folder."""
        return _waited_for(self._below(prefix))

    def first(self, prefix: str, limit: int) -> list[Any]:
        """Return at most this many files below a folder."""
        return _waited_for(self._first(prefix, limit))

    async def _folder(self, prefix: str) -> tuple[list[str], list[Any]]:
        whole = asyncio.ensure_future(self.client.list_with_delimiter_async(prefix or None))
        done, _ = await asyncio.wait([whole], timeout=UNSEEN_SECONDS)
        if done:
            found = whole.result()
            return list(found["common_prefixes"]), list(found["objects"])
        whole.cancel()
        start = len(prefix) + 1 if prefix else 0
        folders: dict[str, None] = {}
        files = []
        async for page in self._pages(prefix, PAGE):
            for one in page:
                name, slash, _ = one["path"][start:].partition("/")
                if slash:
                    folders[one["path"][:start] + name] = None
                else:
                    files.append(one)
        return list(folders), files

    async def _below(self, prefix: str) -> list[str]:
        return [one["path"] async for page in self._pages(prefix, PAGE) for one in page]

    async def _first(self, prefix: str, limit: int) -> list[Any]:
        async for page in self._pages(prefix, limit):
            return list(page[:limit])
        return []

    async def _pages(self, prefix: str, size: int) -> AsyncIterator[list[Any]]:
        """Yield the pages of a list; StorageError for one that comes again or does not end."""
        pages = self.client.list(prefix or None, chunk_size=size).__aiter__()
        count, begun = 0, set()
        while True:
            try:
                page = await asyncio.wait_for(anext(pages), self.page_seconds)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise self._endless("pages without names", f"a name within {self.page_seconds:g} s") from None
            names = [one["path"] for one in page]
            again = next((name for name in names if name in begun), None)
            if again is not None or len(set(names)) < len(names):
                twice = again if again is not None else next(n for i, n in enumerate(names) if n in names[:i])
                raise self._endless(f"{twice!r} again", "each name once")
            count += len(names)
            if count > MAX_NAMES:
                raise self._endless(f"more than {MAX_NAMES:,} names", f"{MAX_NAMES:,} at most")
            begun.add(names[0])
            yield page

    def _endless(self, found: str, expected: str) -> StorageError:
        return StorageError(
            "the store's list does not end", path=self.uri, expected=expected, found=found, remedy=REMEDY
        )


def _waited_for(work: Coroutine[Any, Any, T]) -> T:
    """Return what comes of the work, in a thread of its own: this one may have an event loop, as in a notebook."""
    run: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run
    with ThreadPoolExecutor(1, thread_name_prefix="savepoint-list") as thread:
        return thread.submit(run, work).result()
