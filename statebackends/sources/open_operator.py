"""An operator of an opened savepoint, with the headers of its streams.

It is opened once per query and passed down. Headers are read when they are first needed, and then kept: a table, the
decision which table it is, checks of options and user functions all see the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, Protocol, TypeVar

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import StateFileNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.io.byte_source import FileLocation, StateLocation
from pyspark_savepoint.formats.keyed.changelog import FileChanges
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.model.timer_queue import TimerQueue
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedSource, keyed_sources
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource, operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource, raw_timer_sources
from pyspark_savepoint.statebackends.sources.rocksdb_source import RocksDBSource

HEADER_READERS = 16
#: Seconds above which headers are read by several threads: an object store or a mounted one, not a local disk.
SLOW_HEADER = 0.002
H = TypeVar("H", covariant=True)


class _Stream(Protocol[H]):
    def header(self) -> H: ...


@dataclass(frozen=True)
class OpenOperator:
    """One operator of a savepoint; every header of its streams is read at most once."""

    savepoint: Snapshot
    operator: OperatorState
    #: The local files whose headers were read, each with its identity before that.
    identities: dict[str, str | None] = field(default_factory=dict, init=False, compare=False)
    #: Facts found in the values, by name.
    derived: dict[object, Any] = field(default_factory=dict, init=False, compare=False)
    _raw_queues: dict[DecodeOptions, list[TimerQueue]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def keyed(self) -> OperatorHeaders:
        """The sources of keyed state, each with its header."""
        sources = keyed_sources(self.savepoint, self.operator)
        self._identify(location for source in sources for location in _locations(source))
        return OperatorHeaders(self.operator, tuple(sources), _headers(sources))

    def keyed_that_is_there(self) -> OperatorHeaders:
        """Return the sources of keyed state whose files are there, for a listing; :attr:`keyed` needs all of them."""
        found: list[tuple[AnyKeyedSource, Any]] = []
        for source in keyed_sources(self.savepoint, self.operator):
            with suppress(StateFileNotFoundError):
                found.append((source, source.header()))
        sources, headers = zip(*found, strict=True) if found else ((), ())
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
        found: dict[str, list[StateMetaInfoSnapshot]] = {}
        for meta in self.operator_states:
            found.setdefault(meta.name, []).append(meta)
        return found

    @property
    def operator_state_names(self) -> list[str]:
        """The names of operator states."""
        return list(self.operator_states_by_name)


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
    found = [stream.header() for stream in streams[:1]]  # to parse it may take longer than to open its file
    start = perf_counter()
    found += [stream.header() for stream in streams[1:2]]
    if perf_counter() - start < SLOW_HEADER:
        found += [stream.header() for stream in streams[2:]]
    else:
        with ThreadPoolExecutor(HEADER_READERS) as pool:
            found += pool.map(lambda stream: stream.header(), streams[2:])
    return tuple(found[0] if header == found[0] else header for header in found)
