"""One input of a merge: the keyed state and timers of an operator in one snapshot, read as chunks of entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from pyspark_savepoint.formats.columns import DecodeOptions, Longs
from pyspark_savepoint.formats.io.byte_source import Read, opened_ahead
from pyspark_savepoint.formats.io.run_ahead import FEW_AHEAD, Readers
from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
from pyspark_savepoint.formats.keyed.key_group_reader import Extents
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk, concat
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.entry_bytes import EntryReader, is_timer
from pyspark_savepoint.statebackends.sources.keyed_plan import table_of
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedSource, KeyedStream
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource
from pyspark_savepoint.statebackends.tables.entries_table import timer_entries

#: A state's name, and whether it is a queue of timers.
StateName = tuple[str, bool]
#: Function that merges all entries of some key groups of both inputs.
Merged = Callable[[range], Iterator[tuple[EntryChunk, EntryChunk]]]
TIMERS, MAP = "timers", "MAP"


@dataclass
class StateNumbers:
    """Numbers of states by name, the same for all inputs: those ``selection``, else all in the order of appearance."""

    selection: Sequence[StateName] | None = None
    numbers: dict[StateName, int] = field(default_factory=dict)
    #: By number: the table that shows a state, and its name.
    names: list[tuple[str, str]] = field(default_factory=list)
    maps: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, timer in self.selection or ():
            self._number((name, timer), TIMERS if timer else "")

    def of(self, meta: StateMetaInfoSnapshot) -> int:
        """Return the number of a state, -1 if it is not wanted."""
        number = self._number((meta.name, is_timer(meta)), table_of(meta))
        if number >= 0 and not is_timer(meta) and meta.state_type == MAP:
            self.maps.add(number)
        return number

    def of_timers(self, name: str) -> int:
        """Return the number of a queue of timers, -1 if it is not wanted."""
        return self._number((name, True), TIMERS)

    def _number(self, name: StateName, table: str) -> int:
        if name not in self.numbers:
            if self.selection is not None and name not in self.selection:
                return -1
            self.numbers[name] = len(self.numbers)
            self.names.append((table, name[0]))
        return self.numbers[name]


@dataclass(frozen=True)
class KeyedInput:
    """Description of an input: frozen, picklable, without open files. ``serial``: also locate the keys alone."""

    sources: tuple[AnyKeyedSource, ...]
    raw: tuple[RawTimerSource, ...]
    max_parallelism: int
    state_bytes: int
    request: TableRequest
    serial: bool

    def meeting(self, key_groups: Collection[int]) -> list[AnyKeyedSource]:
        """Return the sources that have some of the key groups, in their order."""
        starts, ends = self._bounds
        near = np.flatnonzero((starts <= max(key_groups, default=-1)) & (ends >= min(key_groups, default=0)))
        sources = [self.sources[place] for place in near.tolist()]
        return [source for source in sources if not frozenset(source.key_group_range).isdisjoint(key_groups)]

    def path_of(self, key_group: int) -> str | None:
        """Return the file that has a key group, or the catalog of its database; None if it is among raw keyed state."""
        return next((source.path for source in self.meeting({key_group})), None)

    def reads(self, key_groups: Collection[int]) -> Iterator[Read]:
        """Yield what is read first of the sources that have some of the key groups, which are read as a whole."""
        for source in self.meeting(key_groups):
            yield from source.reads(source.key_group_range)

    @cached_property
    def _bounds(self) -> tuple[Longs, Longs]:
        """Return the first and last key groups of the sources, of which a process asks for each of its files."""
        ranges = [source.key_group_range for source in self.sources]
        return np.array([one.start for one in ranges], np.int64), np.array([one.end for one in ranges], np.int64)

    def sizes(self) -> Longs:
        """Return the approximate bytes of every key group."""
        sizes = np.full(self.max_parallelism, self.state_bytes // self.max_parallelism, np.int64)
        for source in self.sources:
            if isinstance(source, KeyedSource):
                placed = Extents.placed(source.offsets, 0)
                sizes[source.key_group_range.start : source.key_group_range.end + 1] = 0
                if len(placed):  # the size of the file is not known
                    lengths = placed.end[:-1] - placed.start[:-1]
                    sizes[placed.key_group[:-1]] = lengths
                    sizes[placed.key_group[-1]] = lengths.max(initial=0)
        return sizes


#: Streams that stay open from some key groups to the next ones.
MOST_OPEN = 8


@dataclass(eq=False)
class _Piece:
    """Consecutive key groups that are read of a source: from first to last, those that are left, and their stream."""

    source: AnyKeyedSource
    first: int
    last: int
    left: set[int]
    stack: ExitStack = field(default_factory=ExitStack)
    stream: KeyedStream | None = None

    @classmethod
    def all_of(cls, source: AnyKeyedSource, owned: Collection[int]) -> list[_Piece]:
        """Return the pieces of a source; all of it as one if it has many."""
        read = sorted(group for group in source.key_group_range if group in owned)
        breaks = [at for at in range(1, len(read)) if read[at] > read[at - 1] + 1]
        bounds = [0, *(breaks if len(breaks) < MOST_OPEN else ()), len(read)]
        parts = [read[low:high] for low, high in pairwise(bounds) if low < high]
        return [cls(source, part[0], part[-1], set(part)) for part in parts]

    def among(self, key_groups: Collection[int]) -> set[int]:
        """Return those of some key groups that are between the first and the last."""
        return {group for group in key_groups if self.first <= group <= self.last}

    def opened(self, options: DecodeOptions, *, stays: bool = True) -> KeyedStream:
        """Return the stream, which is opened unless it is open; ``stays``: for all that is left."""
        if self.stream is None:
            self.stream = self.stack.enter_context(self.source.open(options))
            if stays and self.left and isinstance(self.stream, RocksDBKeyedStream):
                self.stream.bounds = self.first, self.last
        return self.stream

    def close(self) -> None:
        """Close the stream."""
        self.stream = None
        self.stack.close()


class OpenInput:
    """The streams of an input, each of which is opened when it is read; see :func:`open_inputs`.

    A source has a stream for each of its pieces: with another max parallelism, key groups that are far apart are read
    by turns, and each stream reads its own in order.
    """

    def __init__(self, described: KeyedInput, numbers: StateNumbers) -> None:
        self.described = described
        self.numbers = numbers
        #: Key groups that are read, in one pass or several.
        self.owned: frozenset[int] = frozenset()
        #: The pieces of a source, by its identity.
        self._pieces: dict[int, list[_Piece]] = {}

    def close(self) -> None:
        """Close the streams that are open."""
        for piece in chain(*self._pieces.values()):
            piece.close()

    def chunks(self, key_groups: set[int]) -> Iterator[EntryChunk]:
        """Yield the entries of some key groups, in the order of the files."""
        if not key_groups:
            return
        request = self.described.request
        pieces = [piece for source in self.described.meeting(key_groups) for piece in self._pieces_of(source)]
        near = [(piece, some) for piece in pieces if (some := piece.among(key_groups))]
        stay = len(near) <= MOST_OPEN
        if stay:
            for piece, _ in near:
                self._begin(piece.opened(request.decode))
        for piece, some in near:
            yield from self._of_stream(piece.opened(request.decode, stays=stay), some)
            piece.left -= some
            if not (piece.left and stay):
                piece.close()
        for raw in self.described.raw:
            if raw.offsets.key_group_range.end < min(key_groups):
                continue
            for queue, at, key_group in raw.timers(key_groups, request.decode):
                number = self.numbers.of_timers(queue.state_name)
                if number >= 0 and len(at):
                    yield EntryChunk.of_batch(timer_entries(queue, at, key_group, number)).behind_timestamps()

    def stream(self, source: AnyKeyedSource) -> KeyedStream:
        """Return the open stream of a source that is read as one piece."""
        (piece,) = self._pieces_of(source)
        return piece.opened(self.described.request.decode)

    def _pieces_of(self, source: AnyKeyedSource) -> list[_Piece]:
        if id(source) not in self._pieces:
            self._pieces[id(source)] = _Piece.all_of(source, self.owned)
        return self._pieces[id(source)]

    def _begin(self, stream: KeyedStream) -> None:
        """Let a database begin to read, while others are read."""
        if isinstance(stream, RocksDBKeyedStream):
            stream.begin({state for state, meta in enumerate(stream.header.states) if self.numbers.of(meta) >= 0})

    def _of_stream(self, stream: KeyedStream, key_groups: set[int]) -> Iterator[EntryChunk]:
        request, serial = self.described.request, self.described.serial
        numbers = np.array([self.numbers.of(meta) for meta in stream.header.states], np.int32)
        selected = set(np.flatnonzero(numbers >= 0).tolist())
        if not selected:
            return
        contiguous = isinstance(stream, CanonicalKeyedStream | RocksDBKeyedStream)
        reader = EntryReader(stream.header, numbers, serial, contiguous, request.decode, request.batch_rows)
        if isinstance(stream, RocksDBKeyedStream):
            stream.split_keys = serial
        elif isinstance(stream, CanonicalKeyedStream) and not serial:
            selected = set()  # all entries are returned, without splitting their composite keys
        for block in stream.blocks(key_groups, selected, False, request.block_bytes):
            if contiguous:
                yield EntryChunk.of_block(block, numbers, reader.serial_keys(block) if serial else None)
                continue
            for batch in reader.batches(block):
                chunk = EntryChunk.of_batch(batch)
                timers = self.numbers.names[int(chunk.state[0])][0] == TIMERS if len(chunk) else False
                yield chunk.behind_timestamps() if serial and timers else chunk


def starts_of(inputs: Iterable[KeyedInput | None]) -> list[int]:
    """Return the key groups with which files begin, ascending."""
    return sorted({source.key_group_range.start for one in inputs if one is not None for source in one.sources})


@contextmanager
def open_inputs(wanted: Iterable[tuple[OpenInput, Iterable[int]]]) -> Iterator[list[OpenInput]]:
    """Return a block within which inputs are read side by side, each in some key groups, which ascend.

    Files of stores are opened before it is their turn.
    """
    pairs = [(one, frozenset(key_groups)) for one, key_groups in wanted]
    group = Readers(len(pairs))
    with ExitStack() as stack:
        for one, owned in pairs:
            one.owned = owned
            stack.enter_context(opened_ahead(one.described.reads(owned), FEW_AHEAD, group))
            stack.callback(one.close)
        yield [one for one, _ in pairs]


#: Files are compared alone only if common ones have at least this part of the bytes of the others: 1 / LEAST_COMMON.
LEAST_COMMON = 4
#: The same where the entries of one side are counted besides, for which all of its files are read.
LEAST_COMMON_COUNTED = 0.25


@dataclass(frozen=True)
class SharedInput:
    """The databases of one subtask in two snapshots that have files in common: ``common`` and ``changed`` bytes.

    Files are the same by their place; those that only one snapshot has are changed.
    """

    before: RocksDBSource
    after: RocksDBSource
    common: int
    changed: int

    @classmethod
    def among(
        cls, before: Sequence[AnyKeyedSource], after: Sequence[AnyKeyedSource], *, least: float | None = None
    ) -> list[SharedInput]:
        """Return those of two snapshots for which it is worthwhile, in the order of their key groups.

        Merging both sides reads common files twice; so this reads at most as much. Where there are few of them, it does
        more work than that saves: ``least`` is in place of ``LEAST_COMMON``.
        """
        least = LEAST_COMMON if least is None else least
        # A subtask has one database.
        known, others = (
            {database.key_group_range: database for database in sources if isinstance(database, RocksDBSource)}
            for sources in (before, after)
        )
        shared: list[SharedInput] = []
        if len(known) < len(before) or len(others) < len(after):
            return shared
        for key_group_range, source in others.items():
            other = known.get(key_group_range)
            if other is None:
                continue
            sizes = [database.table_files for database in (other, source)]
            common = sum(size for identity, size in sizes[1].items() if identity in sizes[0])
            changed = sum(size for side in sizes for size in side.values()) - 2 * common
            same = other.max_parallelism == source.max_parallelism
            if same and common and common * least >= changed:
                shared.append(cls(other, source, common, changed))
        return sorted(shared, key=lambda database: database.after.key_group_range.start)

    def reads(self) -> Iterator[Read]:
        """Yield what is read first: all of the newer database, and the files that the older one has alone."""
        yield from self.after.reads(self.after.key_group_range)
        yield from self.before.catalog_reads()
        table_files = self.after.table_files
        for location, opening in self.before.reads(self.before.key_group_range):
            if opening.end and location.identity not in table_files:
                yield location, opening

    def pairs(
        self,
        key_groups: range,
        numbers: StateNumbers,
        requests: Sequence[TableRequest],
        merged: Merged,
        passed_over: Callable[[range], None] | None = None,
        opened: OpenInput | None = None,
    ) -> Iterator[tuple[EntryChunk, EntryChunk]]:
        """Yield all entries of the keys that can differ; those of key groups with too many are ``merged`` instead.

        With ``passed_over``, which gets the others, those of a key and namespace alone: keys are not split from them.
        ``opened`` has the newer database open.
        """
        from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream, SharedFiles

        older, newer = requests
        with self.before.open(older.decode) as before, ExitStack() as stack:
            after = stack.enter_context(self.after.open(newer.decode)) if opened is None else opened.stream(self.after)
            assert isinstance(after, RocksDBKeyedStream)
            numbered = [
                np.array([numbers.of(meta) for meta in stream.header.states], np.int32) for stream in (before, after)
            ]
            before.split_keys = after.split_keys = passed_over is None
            shared = SharedFiles((before, after), [name for name, _ in numbers.numbers], key_groups)
            if shared.deletes_ranges:
                yield from merged(key_groups)
                return
            limit = newer.memory // 8
            for window, size in shared.windows(limit):
                if size > limit:
                    yield from merged(window)
                    continue
                if passed_over is not None:
                    passed_over(window)
                for pair in shared.pairs(window, limit):
                    one, other = (
                        concat(
                            [] if block is None else [EntryChunk.of_block(block, ids, (block.key_start, block.key_end))]
                        )
                        for block, ids in zip(pair, numbered, strict=True)
                    )
                    yield one, other


def divided(share: range, shared: Iterable[SharedInput]) -> Iterator[tuple[range, SharedInput | None]]:
    """Yield some key groups in parts, in their order: those of each database, and those of none with None."""
    at = share.start
    for keyed_input in shared:
        owned = keyed_input.after.key_group_range
        key_groups = range(max(at, owned.start), min(share.stop, owned.end + 1))
        if at < key_groups.start:
            yield range(at, key_groups.start), None
        yield key_groups, keyed_input
        at = key_groups.stop
    if at < share.stop:
        yield range(at, share.stop), None


def described(shared: Sequence[SharedInput]) -> str:
    """Return for the user how many bytes are read to compare databases that have files in common."""
    if not shared:
        return ""
    changed, common = (
        sum(shared_input.changed for shared_input in shared),
        sum(shared_input.common for shared_input in shared),
    )
    return (
        f"{changed / 1e6:.1f} MB of table files that only one of the two snapshots has are read, and of "
        f"{common / 1e6:.1f} MB that both have, only the blocks with the keys found there"
    )
