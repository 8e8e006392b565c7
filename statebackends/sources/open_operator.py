"""An operator of an opened savepoint, with the headers of its streams.

It is opened once per query and passed down. Headers are read when they are first needed, and then kept: a table, the
decision which table it is, checks of options and user functions all see the same ones.

Operators that are open are kept from one query to the next, as long as their files are the same. Spark asks one process
for the schema of a table and another one for its partitions, again for every query. An operator that was opened for the
schema is sent to the process that plans partitions (:meth:`OpenedOperators.shared`), and both keep the operators that
they opened last. Before one is used again, the identity of ``_metadata`` and, on a local file system, of every file
whose header was read is compared, without reading them. In object stores files of state have unique names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyspark_savepoint.formats.errors import FileReplacedError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.byte_source import FileLocation, Read, StateLocation, opened_ahead
from pyspark_savepoint.formats.io.one_verb import in_context
from pyspark_savepoint.formats.keyed.changelog import FileChanges
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.metadata_reading import is_version, load, version_read
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedSource, keyed_sources
from pyspark_savepoint.statebackends.sources.lost_state import NOTHING, LostState
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource, operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource, raw_timer_sources

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import DecodeOptions
    from pyspark_savepoint.formats.io.snapshot_files import Published, SnapshotFileSystem
    from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader, StateMetaInfoSnapshot
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue

HEADER_READERS = 16
#: Seconds above which headers are read by several threads: an object store or a mounted one, not a local disk.
SLOW_HEADER = 0.002
H = TypeVar("H", covariant=True)
#: Operators that a process keeps, and what a kept one may have: files with headers, bytes in ``_metadata``.
KEPT, MAX_FILES, MAX_INLINE = 8, 1024, 1 << 20


class _Stream(Protocol[H]):
    def header(self) -> H: ...
    def header_reads(self) -> Iterator[Read]: ...


@dataclass(frozen=True)
class OpenOperator:
    """One operator of a savepoint; every header of its streams is read at most once."""

    savepoint: Snapshot
    operator: OperatorState
    #: Keyed state that is left out, because it is damaged.
    lost: LostState = NOTHING
    #: The local files whose headers were read, each with its identity before that.
    identities: dict[str, str | None] = field(default_factory=dict, init=False, compare=False)
    #: Facts found in the values, by name.
    derived: dict[object, Any] = field(default_factory=dict, init=False, compare=False)
    _raw_queues: dict[DecodeOptions, list[TimerQueue]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def keyed(self) -> OperatorHeaders:
        """The sources of keyed state, each with its header."""
        sources = self.lost.without(keyed_sources(self.savepoint, self.operator))
        self._identify(location for source in sources for location in _locations(source))
        return OperatorHeaders(self.operator, tuple(sources), _headers(sources))

    def keyed_that_is_there(self) -> OperatorHeaders:
        """Return the sources of keyed state whose files are there, for a listing; :attr:`keyed` needs all of them."""
        readable: list[tuple[AnyKeyedSource, Any]] = []
        found = keyed_sources(self.savepoint, self.operator)
        with opened_ahead(read for source in found for read in source.header_reads()):
            for source in found:
                with suppress(StateFileNotFoundError):
                    readable.append((source, source.header()))
        sources, headers = zip(*readable, strict=True) if readable else ((), ())
        return OperatorHeaders(self.operator, sources, headers)

    @cached_property
    def raw_timers(self) -> tuple[RawTimerSource, ...]:
        """The sources of timers in raw keyed state."""
        sources = tuple(raw_timer_sources(self.savepoint, self.operator))
        self._identify(source.location for source in sources)
        return sources

    def raw_queues(self, options: DecodeOptions | None = None) -> list[TimerQueue]:
        """Return the timer queues of raw keyed state.

        ``options`` are those by which timers are skipped; by default no more than their ends is read.
        """
        options = options or self._request.decode.undecoded()
        if options not in self._raw_queues:
            self._raw_queues[options] = [queue for source in self.raw_timers for queue in source.queues(options)]
        return self._raw_queues[options]

    @property
    def _request(self) -> TableRequest:
        return TableRequest(self.savepoint.path).of_version(self.savepoint.metadata.version)

    @cached_property
    def streams(self) -> tuple[OperatorSource, ...]:
        """The sources of operator state, in order of subtasks."""
        return tuple(operator_sources(self.savepoint, self.operator))

    @cached_property
    def stream_headers(self) -> tuple[OperatorBackendHeader, ...]:
        """The header of each of :attr:`streams`."""
        self._identify(source.location for source in self.streams)
        return _headers(self.streams)

    def _identify(self, locations: Iterable[StateLocation]) -> None:
        for location in locations:
            if isinstance(location, FileLocation) and isinstance(location.filesystem, LocalFileSystem):
                self.identities.setdefault(location.path, location.filesystem.identity(location.path))

    @property
    def operator_states(self) -> list[StateMetaInfoSnapshot]:
        """The registrations of operator states in all streams."""
        return [meta for header in self.stream_headers for meta in header.states]

    @cached_property
    def operator_states_by_name(self) -> dict[str, list[StateMetaInfoSnapshot]]:
        """:attr:`operator_states` by their names."""
        by_name: dict[str, list[StateMetaInfoSnapshot]] = {}
        for meta in self.operator_states:
            by_name.setdefault(meta.name, []).append(meta)
        return by_name

    @property
    def operator_state_names(self) -> list[str]:
        """The names of operator states."""
        return list(self.operator_states_by_name)


def headers_ahead(savepoint: Snapshot, operators: Iterable[OperatorState]) -> AbstractContextManager[None]:
    """Return a block within which the headers of all these operators are opened in the background, in this order.

    Each operator opens its own headers together. Who opens many operators one after the other would wait for each.
    """
    if not savepoint.location.filesystem.is_remote:
        return nullcontext()

    def reads() -> Iterator[Read]:
        for operator in operators:
            for found in (keyed_sources, operator_sources):
                with suppress(SavepointError):  # who opens the operator says it
                    for stream in found(savepoint, operator):
                        yield from stream.header_reads()

    return opened_ahead(reads())


def _locations(source: AnyKeyedSource) -> Iterator[StateLocation]:
    """Yield the streams from which the header of a source is read."""
    if isinstance(source, KeyedSource):
        yield source.location
    elif isinstance(source, RocksDBSource):
        yield source.meta
    else:
        for part in source.parts:
            yield from _locations(part)
        yield from (changes.location for changes in source.changes if isinstance(changes, FileChanges))


def _headers(sources: Iterable[_Stream[H]]) -> tuple[H, ...]:
    """Read the headers, several at a time if a stream takes long to open, and keep equal ones once."""
    streams = list(sources)
    with opened_ahead(read for stream in streams for read in stream.header_reads()):
        return _headers_of(streams)


def _headers_of(streams: Sequence[_Stream[H]]) -> tuple[H, ...]:
    headers = [stream.header() for stream in streams[:1]]  # to parse it may take longer than to open its file
    start = perf_counter()
    headers += [stream.header() for stream in streams[1:2]]
    if perf_counter() - start < SLOW_HEADER:
        headers += [stream.header() for stream in streams[2:]]
    else:
        with ThreadPoolExecutor(HEADER_READERS) as pool:
            headers += pool.map(lambda stream: stream.header(), streams[2:])
    return tuple(headers[0] if _is_same(header, headers[0]) else header for header in headers)


def _is_same(header: object, first: object) -> bool:
    """Return whether two headers are equal, also as bytes."""
    if header is first or header != first:
        return header is first
    return getattr(header, "digest", None) == getattr(first, "digest", None)


@redacted
@dataclass(frozen=True, slots=True)
class _Key:
    """What names an operator in a request, and how its snapshot is opened."""

    path: str
    storage: StorageOptions
    allow_outside: bool
    checksums: str
    classes: JobClasses | None
    uid: str | None
    uid_hash: str | None
    name: str | None

    @classmethod
    def of(cls, request: TableRequest) -> _Key:
        opening = request.allow_outside, request.checksums, request.classes
        naming = request.uid, request.uid_hash, request.operator_name
        return cls(str(request.path), StoragePath.options_of(request.path), *opening, *naming)


@dataclass(frozen=True)
class Shared:
    """An open operator with the identities of its files when it was opened; pickles."""

    key: _Key
    opened: OpenOperator
    metadata: tuple[SnapshotFileSystem, str, str]
    #: The version of the metadata file in its store.
    version: Published | None = None

    @property
    def is_remote(self) -> bool:
        """Return whether the snapshot is in a store."""
        return self.metadata[0].is_remote

    def is_current(self) -> bool:
        """Return whether the files still are those that were read."""
        filesystem, path, identity = self.metadata
        if self.version is not None and version_read(filesystem, path, identity) is None:
            is_same = is_version(filesystem, path, self.version)
        else:
            now = load(filesystem, path).identity if filesystem.is_remote else filesystem.identity(path)
            is_same = now == identity
        return is_same and all(
            known is not None and LocalFileSystem().identity(name) == known
            for name, known in self.opened.identities.items()
        )


class OpenedOperators:
    """The operators that this process opened last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, Shared] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, request: TableRequest) -> OpenOperator:
        """Return the operator that a request names: a kept one, if its files are the same, or a new one."""
        key = _Key.of(request)
        with self._lock:
            known = self._kept.get(key)
        if known is not None and (self._will_be_proved(known) or known.is_current()):
            return known.opened
        filesystem, path = location = Snapshot.find(request.path)
        # Taken before the file is read: if it is replaced meanwhile, it is read again the next time.
        identity = None if filesystem.is_remote else filesystem.identity(path)
        savepoint = Snapshot.open(
            request.path,
            allow_outside=request.allow_outside,
            checksums=request.checksums,
            located=location,
            classes=request.classes,
        )
        identity = savepoint.identity or identity
        operator = savepoint.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
        alone = replace(savepoint, metadata=replace(savepoint.metadata, operators=(operator,), master_states=()))
        opened = OpenOperator(alone, operator)
        if identity is not None:
            version = version_read(filesystem, path, identity) if filesystem.is_remote else None
            self.keep(Shared(key, opened, (filesystem, path, identity), version))
        return opened

    def _will_be_proved(self, known: Shared) -> bool:
        """Return whether a store is being asked if an operator is current, of which the block that runs waits."""
        proofs = _PROOFS.get()
        if proofs is None or not known.is_remote:
            return False

        def prove() -> bool:
            is_current = known.is_current()
            with self._lock:
                if not is_current and self._kept.get(known.key) is known:
                    del self._kept[known.key]
            return is_current

        pool = ThreadPoolExecutor(1, thread_name_prefix="savepoint-proof")
        proofs.append(pool.submit(in_context(prove)))
        pool.shutdown(wait=False)
        return True

    def keep(self, shared: Shared) -> None:
        """Keep an operator for later queries of this process, in place of the one that was used least recently."""
        with self._lock:
            self._kept[shared.key] = shared
            self._kept.move_to_end(shared.key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def shared(self, request: TableRequest) -> Shared | None:
        """Return what another process may keep of the operator of a request; None if that would be large."""
        with self._lock:
            known = self._kept.get(_Key.of(request))
        return known if known is not None and is_small(known.opened) else None


def is_small(opened: OpenOperator) -> bool:
    """Return whether an operator has few files, and little state in ``_metadata``."""
    inline = sum(
        len(handle.data) for handle in streams_of(opened.operator) if isinstance(handle, ByteStreamStateHandle)
    )
    return len(opened.operator.subtasks) <= MAX_FILES and inline <= MAX_INLINE


#: What the running block waits for at its end; None if there is no such block.
_PROOFS: ContextVar[list[Future[bool]] | None] = ContextVar("proofs", default=None)


@contextmanager
def proved_meanwhile() -> Iterator[None]:
    """Within the block, use operators that are kept of stores while these are asked whether they are current.

    Raises:
        FileReplacedError: At the end, if one was not: nothing of the block is believed, neither results nor errors.

    """
    proofs: list[Future[bool]] = []
    token = _PROOFS.set(proofs)
    try:
        yield
    except SavepointError:
        if _all_hold(proofs):
            raise
    finally:
        _PROOFS.reset(token)
    if not _all_hold(proofs):
        raise FileReplacedError("the savepoint was replaced while a query of it was planned", remedy="run it again")


def _all_hold(proofs: Iterable[Future[bool]]) -> bool:
    return all(proof.result() for proof in proofs)


#: The open operators of this process.
OPENED = OpenedOperators()
