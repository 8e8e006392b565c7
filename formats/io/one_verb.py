"""What a verb keeps of stores while it runs: what it has read of them, and for how long their requests have failed.

All of it is forgotten at the end of the verb. Threads have it if their context is a copy of the verb's
(:func:`in_context`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, Self, TypeVar, runtime_checkable

from pyspark_savepoint.formats.io.snapshot_files import InputFile, Opening

P = ParamSpec("P")
T = TypeVar("T")
#: Bytes of the beginnings and ends of files that a verb keeps.
CACHE_BYTES = 32 << 20


@runtime_checkable
class Reopened(InputFile, Protocol):
    """A file that can be opened again without a request."""

    @property
    def kept_bytes(self) -> int:
        """Return the memory in bytes that it takes to open the file again; 0 if that is not possible."""
        ...

    def again(self, opening: Opening) -> Self | None:
        """Return the file opened once more; None if other bytes are read first."""
        ...


class Failing:
    """For how long requests have failed: the seconds in which at least one was waiting to be made again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = 0.0
        self._before = 0.0

    @contextlib.contextmanager
    def since(self, begin: float) -> Iterator[None]:
        """Count the time from ``begin`` (``time.monotonic()``) to the end of the block."""
        with self._lock:
            self._since = min(self._since, begin) if self._waiting else begin
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._before += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """Return how long it has been until now."""
        with self._lock:
            return self._before + (time.monotonic() - self._since if self._waiting else 0.0)


@dataclass
class _Verb:
    """What is kept: values by their keys, and opened files of stores by their URIs."""

    values: dict[object, Any] = field(default_factory=dict)
    files: OrderedDict[str, list[Reopened]] = field(default_factory=OrderedDict)
    bytes: int = 0
    failing: Failing = field(default_factory=Failing)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Begun(Future[Any]):
    """What is being found in the background."""


_RUNNING: ContextVar[_Verb | None] = ContextVar("running", default=None)


@contextlib.contextmanager
def one_verb() -> Iterator[None]:
    """Within the block, what is read of stores is read once, and is then what it was; blocks may be nested."""
    if _RUNNING.get() is not None:
        yield
        return
    token = _RUNNING.set(_Verb())
    try:
        yield
    finally:
        _RUNNING.reset(token)


def in_context(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function for another thread, in which it belongs to the verb that is running here."""
    context = copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.copy().run(function, *args, **kwargs)

    return run


def look_again(*, anew: bool = False) -> None:
    """Forget what the running verb has read, because it has written something, or others have.

    ``anew``: also for how long requests have failed, since the verb begins a piece of work that is not the same.
    """
    verb = _RUNNING.get()
    if verb is not None:
        with verb.lock:
            if anew:
                verb.failing = Failing()
            verb.values.clear()
            verb.files.clear()
            verb.bytes = 0


def cached_for_verb(key: object, compute: Callable[[], T]) -> T:
    """Return what the running verb has found before under a key, or find it."""
    verb = _RUNNING.get()
    if verb is None:
        return compute()
    if key not in verb.values:
        verb.values[key] = compute()
    known = verb.values[key]
    result: T = known.result() if isinstance(known, _Begun) else known
    return result


def begin_for_verb(key: object, compute: Callable[[], object]) -> None:
    """Begin to find in the background what :func:`cached_for_verb` will be asked for, which raises what was raised."""
    verb = _RUNNING.get()
    if verb is None or key in verb.values:
        return
    begun = verb.values[key] = _Begun()
    find = in_context(compute)

    def run() -> None:
        try:
            begun.set_result(find())
        except BaseException as error:
            begun.set_exception(error)

    # A verb that fails before it asks does not wait for this.
    threading.Thread(target=run, name="savepoint-begun", daemon=True).start()


def cached_by_verb(key: object) -> Any:
    """Return what the running verb keeps under a key; None if there is nothing."""
    verb = _RUNNING.get()
    return None if verb is None else verb.values.get(key)


def failing() -> Failing:
    """Return for how long requests of the running verb have failed; of this request alone, if there is no verb."""
    verb = _RUNNING.get()
    return Failing() if verb is None else verb.failing


def opened_before(uri: str, opening: Opening) -> InputFile | None:
    """Return a file of a store that the verb has opened before, if that has brought what is read first."""
    verb = _RUNNING.get()
    if verb is None:
        return None
    with verb.lock:
        known = verb.files.get(uri, ())
        return next((again for each in known if (again := each.again(opening)) is not None), None)


def keep_opened(uri: str, file: Reopened) -> None:
    """Keep the beginning or the end of a file of a store, if it is small, for the verb that is running."""
    verb = _RUNNING.get()
    size = file.kept_bytes
    if verb is None or not size:
        return
    with verb.lock:
        verb.files.setdefault(uri, []).append(file)
        verb.bytes += size
        while verb.bytes > CACHE_BYTES:
            verb.bytes -= sum(each.kept_bytes for each in verb.files.popitem(last=False)[1])
