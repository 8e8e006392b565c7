"""Keyed state in the heap format: hashmap checkpoints and native savepoints, and all its savepoints before 1.13.

    stream   := KeyedHeader  KeyGroup*                        every key group of the range has an offset
    KeyGroup := i32 keyGroup  (i16 stateId  Table)[states]    each (stateId, Table) snappy framed if compressed
    Table    := i32 n  (namespace  key  value)[n]             timers: i32 n  timer[n]

Entries have no lengths: values of unknown length cannot be told apart. The tables behind them are read where there is
one place from which they parse to the end of the key group (``_behind_unknown``). Here, a list is ``i32 n`` and its
elements, a map ``i32 n`` and its entries: the whole value is one entry.
Flink: ``HeapSnapshotStrategy``, ``HeapRestoreOperation``, ``StateTableByKeyGroupReaders``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Longs, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError, UndecodableStateError
from pyspark_savepoint.formats.keyed.key_group_reader import (
    Extent,
    Extents,
    KeyGroupContent,
    read_extent,
    whole_content,
)
from pyspark_savepoint.formats.keyed.keyed_block import HEAP, KeyedBlock, Runs
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.layout import locate, locate_some, program

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Number of entries of a window to locate at a time.
MAX_ENTRIES = 1 << 16
#: Number of states that an error names.
MAX_LISTED = 10
#: Places that are tried behind a table of unknown length: so many, and one more for so many bytes.
MAX_ATTEMPTS, BYTES_PER_ATTEMPT = 64, 1 << 12


@dataclass(slots=True)
class _Table:
    """Entries of one state in some key groups: spans per part, and the number of entries per key group."""

    state: int
    groups: Longs
    counts: Longs
    starts: Any
    stops: Any


@dataclass(slots=True)
class Budget:
    """Places that may still be tried."""

    left: int


class HeapKeyedStream:
    """An open stream in the heap format."""

    form = HEAP

    def __init__(
        self,
        source: ByteSource,
        header: KeyedBackendHeader,
        extents: Extents,
        origin: Origin,
        options: DecodeOptions,
    ) -> None:
        self.options = options
        self.source = source
        self.header = header
        self.extents = extents
        self.origin = origin

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups, in blocks of up to ``block_bytes`` bytes.

        A larger key group is split into several blocks, which are not complete.
        """
        # Compressed data usually expands fourfold; the window bounds the memory, not the bytes read.
        limit = block_bytes // 4 if self.header.compressed else block_bytes
        waiting: list[Extent] = []
        size = 0
        for extent in self.extents.among(key_groups):
            if waiting and size + extent.size > limit:
                yield self._block(waiting, selected, namespaced)
                waiting, size = [], 0
            if extent.size > limit:
                yield from self._partial(extent, selected, namespaced, block_bytes)
                continue
            waiting.append(extent)
            size += extent.size
        if waiting:
            yield self._block(waiting, selected, namespaced)

    rows_or_blocks = blocks

    def _content(self, extents: Sequence[Extent]) -> tuple[Bytes, Longs, Longs, Origin]:
        """Return the buffer, start (after its number) and end of every key group, and the position in the file."""
        compressed = self.header.compressed
        parts = []
        for extent in extents:
            self._check_number(extent)
            if compressed and self.header.states:
                parts.append(whole_content(self.source, extent.start + 4, extent.end, True))
            else:
                parts.append(read_extent(self.source, extent.start + 4, extent.end))
        ends = np.cumsum([len(part) for part in parts])
        starts = ends - np.array([len(part) for part in parts])
        # Only with a single uncompressed key group do positions translate to bytes of the file.
        base = extents[0].start + 4 if len(extents) == 1 else 0
        origin = Origin(self.source.path, base, self.origin.operator, None, compressed or len(extents) > 1)
        return np.concatenate(parts), starts, ends, origin

    def _check_number(self, extent: Extent) -> None:
        head = self.source.read(extent.start, 4) if extent.size >= 4 else b""
        if int.from_bytes(head, "big") != extent.key_group or len(head) < 4:
            raise CorruptStateError(
                f"key group {extent.key_group} does not match the format",
                path=self.source.path,
                offset=extent.start,
                operator=self.origin.operator,
                expected=f"the number of key group {extent.key_group}",
                found=head.hex(),
                remedy=UNREADABLE,
            )

    def _block(self, extents: Sequence[Extent], selected: set[int], namespaced: bool) -> KeyedBlock:
        buffer, start, end, origin = self._content(extents)
        at = Cursors(buffer, start.astype(np.int64), end.astype(np.int64), origin, self.options)
        tables = self._tables_in_either_form(at, selected)
        return self._assemble(buffer, origin, extents, tables, namespaced)

    def _partial(self, extent: Extent, selected: set[int], namespaced: bool, block_bytes: int) -> Iterator[KeyedBlock]:
        """Yield the tables of one key group in order, each in one piece per window that it spans."""
        self._check_number(extent)
        reader = _TableReader(self, extent, block_bytes)
        visited: set[int] = set()
        for _ in self.header.states:
            state, left = reader.head()
            if state in visited:
                reader.fail("every state once in a key group", f"state {state} twice")
            try:
                while left:
                    starts, stops = reader.entries(state, self._parts(state, reader.cursors(state)), left)
                    left -= starts.shape[1]
                    if state in selected:
                        table = _Table(state, np.zeros(1, np.int64), np.array([starts.shape[1]]), starts, stops)
                        block = self._assemble(reader.buffer, reader.origin, [extent], [table], namespaced)
                        yield replace(block, complete=False)
            except UndecodableStateError as error:
                if selected <= visited:
                    return  # the end of the key group is not verified, because no requested state follows
                if state in selected:
                    raise self._hidden(state, error, selected, visited) from None
                # What follows is found in the whole of it.
                yield replace(self._block([extent], selected - visited, namespaced), complete=False)
                return
            visited.add(state)
        reader.expect_end()

    def _tables_in_either_form(self, at: Cursors, selected: set[int]) -> list[_Table]:
        """Locate the tables, whichever fields of inner classes Kryo 2 wrote: no length tells the ends of values."""
        begin = at.position.copy()
        try:
            return self._tables(at, selected)
        except CorruptStateError as error:
            if self.options.kryo == 2:
                with suppress(SavepointError):
                    other = replace(at, position=begin, options=replace(self.options, synthetic=False))
                    return self._tables(other, selected)
            raise error from None

    def _tables(self, at: Cursors, selected: set[int]) -> list[_Table]:
        """Locate the tables of all key groups in parallel: the first table of each, then the second, and so on."""
        seen = np.zeros((len(at), len(self.header.states)), np.bool_)
        tables: list[_Table] = []
        while not seen.all():
            ids = self._next_states(at, seen)
            for state in np.unique(ids).tolist():
                rows = np.flatnonzero(ids == state)
                here = at.select(rows)
                here.origin = replace(at.origin, state=self.header.states[state].name)
                try:
                    table = self._table(here, state, rows)
                except UndecodableStateError as error:
                    others = seen.copy()
                    others[np.arange(len(at)), ids] = False
                    passed = set(np.flatnonzero(others.all(axis=0)).tolist())
                    if selected <= passed:
                        return tables  # the end of the key group is not verified, because no requested state follows
                    if not self._behind_unknown(here, seen[rows], state):
                        raise self._hidden(state, error, selected, passed) from None
                    if state in selected:
                        raise self._hidden(state, error, selected, selected - {state}) from None
                    table = None
                at.update(rows, here)
                if table is not None and state in selected:
                    tables.append(table)
        at.expect_end()
        return tables

    def _behind_unknown(self, at: Cursors, seen: Any, state: int) -> bool:
        """Move every cursor behind a table of unknown length: to the one place from which the others reach the end.

        Returns:
            False if a key group has no such place, or several.

        """
        budget = Budget(MAX_ATTEMPTS + int((at.end - at.position).sum()) // BYTES_PER_ATTEMPT)
        for row in range(len(at)):
            one = at.select(np.array([row]))
            places = []
            for place in self._places_behind(one, seen[row], state):
                if self._reaches_end(one, place, seen[row], budget):
                    places.append(place)
                if budget.left < 0 or len(places) > 1:
                    return False
            if not places:
                return False
            at.position[row] = places[0]
        return True

    def _places_behind(self, at: Cursors, seen: Any, state: int) -> list[int]:
        """Return where the next table may begin behind one of unknown length, or the end if it is the last."""
        begin, end = int(at.position[0]), int(at.end[0])
        if seen.all():
            return [end]
        count = int.from_bytes(at.buffer[begin - 4 : begin].tobytes(), "big")
        first = begin + count * sum(max(width, 0) for width in self._widths(state))
        return self._starts(at.buffer, first, end, np.flatnonzero(~seen))

    def _reaches_end(self, at: Cursors, place: int, seen: Any, budget: Budget) -> bool:
        """Return whether the tables of a key group that were not seen reach its end from a place."""
        budget.left -= 1
        if budget.left < 0:
            return False
        here, passed, state = at.at(np.array([place], np.int64), at.end), seen[np.newaxis].copy(), -1
        try:
            while not passed.all():
                state = int(self._next_states(here, passed)[0])
                self._table(here, state, np.zeros(1, np.int64))
            here.expect_end()
        except UndecodableStateError:
            behind = self._places_behind(here, passed[0], state)
            return any(self._reaches_end(at, place, passed[0], budget) for place in behind)
        except SavepointError:
            return False
        return True

    def _starts(self, buffer: Bytes, begin: int, end: int, states: Longs) -> list[int]:
        """Return where a table of one of some states can begin: an id, and a number of entries that there is room for.

        Where all entries have the same length, the next table begins behind them, or they end the key group.
        """
        content = buffer[begin:end].astype(np.int64)
        if len(content) < 6 * len(states):
            return []
        ids = (content[:-5] << 8) | content[1:-4]
        counts = (content[2:-3] << 24) | (content[3:-2] << 16) | (content[4:-1] << 8) | content[5:]
        found = np.zeros(len(ids), np.bool_)
        for state in states.tolist():
            widths = self._widths(state)
            least = sum(max(width, 0) for width in widths)
            place = np.flatnonzero(ids == state)
            count = counts[place]
            after = place + 6 + count * max(least, 1)
            place, count, after = (each[after <= len(content)] for each in (place, count, after))
            is_certain = count == 0 if min(widths) < 0 else np.ones(len(place), np.bool_)
            after = np.where(count == 0, place + 6, after)
            if len(states) == 1:
                fits = after == len(content)
            else:
                fits = (after < len(ids)) & np.isin(ids[np.minimum(after, len(ids) - 1)], states[states != state])
            found[place[fits | ~is_certain]] = True
        return (begin + np.flatnonzero(found)).tolist()

    def _widths(self, state: int) -> list[int]:
        """Return the bytes of each part of the entries of a state; -1 for one of which that varies."""
        meta = self.header.states[state]
        parts = [meta.value_serializer]
        if meta.kind is not BackendStateType.PRIORITY_QUEUE:
            parts += [meta.namespace_serializer, self.header.key_serializer]
        return program(*parts).widths

    def _next_states(self, at: Cursors, seen: Any) -> Any:
        """Read the state id of the next table of every key group."""
        before = at.position.copy()
        ids = read_numbers(at, "read_i16", np.int16, "a state id")
        wrong = np.flatnonzero((ids < 0) | (ids >= seen.shape[1]))
        if len(wrong):
            at.position[:] = before
            at.fail(int(wrong[0]), f"a state id below {seen.shape[1]}", int(ids[wrong[0]]))
        again = np.flatnonzero(seen[np.arange(len(at)), ids])
        if len(again):
            at.position[:] = before
            at.fail(int(again[0]), "every state once in a key group", f"state {int(ids[again[0]])} twice")
        seen[np.arange(len(at)), ids] = True
        return ids

    def _table(self, at: Cursors, state: int, rows: Longs) -> _Table:
        counts = read_numbers(at, "read_i32", np.int32, "a number of entries").astype(np.int64)
        wrong = np.flatnonzero((counts < 0) | (counts > at.end - at.position))
        if len(wrong):
            at.position -= 4
            at.fail(int(wrong[0]), "a number of entries that the key group has room for", int(counts[wrong[0]]))
        if not counts.any():
            nothing = np.empty((3, 0), np.int64)
            return _Table(state, rows, counts, nothing, nothing)
        starts, stops = locate(self._parts(state, at), at, counts)
        return _Table(state, rows, counts, starts, stops)

    def _parts(self, state: int, at: Cursors) -> list[TypeSerializer]:
        """Return the serializers of a table's entries in order; UndecodableStateError if one has no known length."""
        meta = self.header.states[state]
        if meta.kind is BackendStateType.PRIORITY_QUEUE:
            parts = [meta.value_serializer]
        else:
            parts = [meta.namespace_serializer, self.header.key_serializer, meta.value_serializer]
        opaque = [serializer for part in parts for serializer in part.opaque_parts()]
        if opaque:
            facts = at.origin.facts(int(at.position[0]))
            raise UndecodableStateError("", found=opaque[0].flink_type, **facts)
        return parts

    def _hidden(
        self, state: int, error: UndecodableStateError, selected: set[int], passed: set[int]
    ) -> UndecodableStateError:
        """Return the error for a state that hides those of the ``selected`` ones that have not ``passed``."""
        name = self.header.states[state].name
        hidden = sorted(selected - passed)
        state_names = ", ".join(self.header.states[other].name for other in hidden[:MAX_LISTED])
        state_names += f" and {len(hidden) - MAX_LISTED} more" if len(hidden) > MAX_LISTED else ""
        facts = {key: error.facts.get(key) for key in ("path", "offset", "operator", "found")}
        hiding = UndecodableStateError(
            f"state {name!r} has values that only the job's own serializer can delimit"
            + ("" if state in selected else f"; where the states behind them begin cannot be told, here {state_names}"),
            state=name,
            expected="values whose serializer delimits them",
            remedy="name the job's jar in option 'classes', which describes subclasses of POJOs and the classes of "
            "Kryo; take a canonical savepoint (it records lengths), read other states "
            "(option 'state'), or plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
            **facts,
        )
        hiding.readable = frozenset(passed)
        return hiding

    def _assemble(
        self, buffer: Bytes, origin: Origin, extents: Sequence[Extent], tables: list[_Table], namespaced: bool
    ) -> KeyedBlock:
        group_of = np.array([extent.key_group for extent in extents], np.int32)
        nothing = np.empty(0, np.int64)
        counts = np.concatenate([nothing, *(table.counts for table in tables)])
        stops, some = np.cumsum(counts), counts > 0
        place = np.concatenate([nothing, *(table.groups for table in tables)])[some]
        runs = Runs.in_any_order(group_of, place, (stops - counts)[some], stops[some])

        def spans(part: int, which: str) -> Longs:
            # A timer has one part: the whole entry is the key; namespace and value are empty.
            columns = [
                getattr(table, which)[part]
                if len(table.starts) == 3
                else (table.starts if (part, which) == (1, "starts") else table.stops)[0]
                for table in tables
            ]
            return np.concatenate([np.asarray(column, np.int64) for column in columns] or [np.empty(0, np.int64)])

        state = np.repeat([t.state for t in tables], [int(t.counts.sum()) for t in tables]).astype(np.int32)
        key_group = np.concatenate([np.repeat(group_of[t.groups], t.counts) for t in tables] or [np.empty(0, np.int32)])
        namespace_start, namespace_end = spans(0, "starts"), spans(0, "stops")
        key_start, key_end = spans(1, "starts"), spans(1, "stops")
        value_start, value_end = spans(2, "starts"), spans(2, "stops")
        return KeyedBlock(
            HEAP, self.header.states, buffer, origin, state, key_group,
            key_start, key_end, namespace_start, namespace_end, key_end, key_end, value_start, value_end,
            namespace_start if namespaced else key_start, key_end,
            runs, namespaced=namespaced,
        )  # fmt: skip


class _TableReader:
    """Forward reader of the tables of one key group: a window of its content, and the position in the window."""

    def __init__(self, stream: HeapKeyedStream, extent: Extent, block_bytes: int) -> None:
        self.stream = stream
        self.compressed = stream.header.compressed
        self.content = KeyGroupContent(stream.source, extent.start + 4, extent.end, self.compressed)
        self.start = 0 if self.compressed else extent.start + 4
        self.block_bytes = block_bytes
        self.buffer = np.empty(0, np.uint8)
        self.position = 0

    @property
    def origin(self) -> Origin:
        """Return the location of the window."""
        return Origin(self.stream.source.path, self.start, self.stream.origin.operator, None, self.compressed)

    def cursors(self, state: int | None = None) -> Cursors:
        """Return one cursor from the position to the end of the window."""
        name = None if state is None else self.stream.header.states[state].name
        end = np.array([len(self.buffer)], np.int64)
        origin = replace(self.origin, state=name)
        return Cursors(self.buffer, np.array([self.position], np.int64), end, origin, self.stream.options)

    def more(self, size: int) -> None:
        """Move the window: keep its unread rest, and read about ``size`` more bytes."""
        self.start += self.position
        self.buffer = self.content.window(self.buffer[self.position :].copy(), size)
        self.position = 0

    def head(self) -> tuple[int, int]:
        """Read the state id and the number of entries of a table."""
        while len(self.buffer) - self.position < 6 and not self.content.exhausted:
            self.more(self.block_bytes)
        at = self.cursors()
        state = int(read_numbers(at, "read_i16", np.int16, "a state id")[0])
        count = int(read_numbers(at, "read_i32", np.int32, "a number of entries")[0])
        if not 0 <= state < len(self.stream.header.states):
            self.fail(f"a state id below {len(self.stream.header.states)}", state)
        if count < 0:
            self.fail("a number of entries", count)
        self.position += 6
        return state, count

    def entries(self, state: int, parts: Sequence[TypeSerializer], most: int) -> tuple[Any, Any]:
        """Return the spans of the next entries of a table: those within the window, but at least one."""
        size = self.block_bytes
        while True:
            at = self.cursors(state)
            starts, stops = locate_some(parts, at, min(most, MAX_ENTRIES))
            if starts.shape[1]:
                self.position = int(at.position[0])
                return starts, stops
            if self.content.exhausted:
                locate(parts, at, np.ones(1, np.int64))
            self.more(size)
            size *= 2

    def expect_end(self) -> None:
        if self.position < len(self.buffer) or not self.content.exhausted:
            self.fail("the end of the key group")

    def fail(self, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError at the current position."""
        self.cursors().fail(0, expected, found)
