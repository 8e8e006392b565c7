"""Merge of written rows with the entries of existing operators, for the file of one subtask.

The key groups of the subtask are read from the existing files as bytes, some at a time; deleted keys are dropped, and
the rest is written together with the rows. With another max parallelism, key groups are computed from the keys again:
those that can have keys of a new key group have the same remainder (``paired_chunks``), so a file may be read as often
as the new max parallelism is larger. A key group larger than memory is sorted through local disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Flags, Ints, Longs, binary_parts
from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.formats.io.byte_source import Read, opened_ahead
from pyspark_savepoint.formats.io.one_verb import cached_for_verb
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, read_only
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.merging.comparison import Runs
from pyspark_savepoint.statebackends.merging.entry_chunk import (
    EXPANDED,
    Division,
    EntryChunk,
    KeyNumbers,
    concat,
    together,
    total,
)
from pyspark_savepoint.statebackends.merging.keyed_input import KeyedInput, OpenInput, StateNumbers, open_inputs
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, VALUE, map_namespaces
from pyspark_savepoint.statebackends.rows.key_codec import entry_keys, groups_of_serialized, key_text
from pyspark_savepoint.statebackends.rows.sorting import KeyGroupCursor, RowSorter, SortedBatch
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.lost_state import LostState
from pyspark_savepoint.statebackends.sources.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.tables.keys import exact_options
from pyspark_savepoint.statebackends.writing.planning.write_request import DELETED, mark_of
from pyspark_savepoint.statebackends.writing.row_forms import DUPLICATE, EntryForm

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.requests.request import TableRequest
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan

#: Files are made so many at a time whose key groups are computed from the keys: that takes many times their bytes.
_REGROUPING = threading.BoundedSemaphore(4)
#: More key groups are written together if the last ones took less than a part of the memory.
GROWTH = 4


def merge_bases(
    plan: WritePlan,
    writer: CanonicalKeyedStreamWriter,
    key_groups: KeyGroupRange,
    rows: Iterable[SortedBatch],
    deleted: Iterable[SortedBatch],
) -> None:
    """Write the entries of the bases and the rows, all of a subtask's key groups; ``deleted`` are marks, sorted."""
    bases = _bases(plan)
    sizes = total([base.sizes for base in bases])
    own = range(key_groups.start, key_groups.end + 1)
    inputs = [(OpenInput(base.described, base.numbers), base.key_groups(own)) for base in bases]
    turn = _REGROUPING if any(base.rehashed for base in bases) else nullcontext()
    with turn, open_inputs(inputs) as opened:
        pairs = list(zip(bases, opened, strict=True))
        merge = _Merge(plan, writer, pairs, KeyGroupCursor(rows), KeyGroupCursor(deleted))
        left, most = own, len(own)
        while left:
            some = next(together(left, sizes, plan.request.sort_memory // EXPANDED))[:most]
            left = range(some.stop, left.stop)
            size = merge.write(some)
            if size > merge.limit:  # entries take more than their files, and those that follow probably do, too
                most = max(1, len(some) // 2)
            elif GROWTH * size < merge.limit:
                most = max(most, 2 * len(some))


def _bases(plan: WritePlan) -> list[BaseState]:
    """Return the bases of a write, which a process that writes many of its files opens once."""
    key = BaseState, plan.staging.token, plan.staging.part
    return cached_for_verb(key, lambda: [BaseState.of(plan, request) for request in plan.request.bases])


@contextmanager
def bases_ahead(plan: WritePlan, subtasks: Sequence[int]) -> Iterator[int]:
    """Open the files of all bases that are merged for some subtasks, in the background within the block.

    Yield their approximate bytes.
    """
    assert plan.parallelism is not None
    ranges = [range_for_operator_index(plan.max_parallelism, plan.parallelism, subtask) for subtask in subtasks]
    new = np.concatenate([np.arange(one.start, one.end + 1) for one in ranges])
    bases = _bases(plan)
    with opened_ahead(read for base in bases for read in base.first_reads(ranges)):
        yield sum(min(base.described.state_bytes, int(base.sizes[new].sum())) for base in bases)


@dataclass(frozen=True)
class BaseState:
    """Entries of the existing operator."""

    described: KeyedInput
    division: Division
    numbers: StateNumbers
    #: Numbers in the new file, by those in ``numbers``.
    places: Ints
    key: TypeSerializer
    rehashed: bool

    @classmethod
    def of(cls, plan: WritePlan, request: TableRequest) -> BaseState:
        savepoint = Snapshot.open(
            request.path, allow_outside=request.allow_outside, checksums=request.checksums, classes=request.classes
        )
        request = request.of_version(savepoint.metadata.version)
        entries = request.entries
        assert entries is not None
        entries.check_version(savepoint)
        lost = LostState.of(entries)
        operator = lost.left_of(savepoint.operator(uid_hash=request.uid_hash))
        sources = tuple(lost.without(keyed_sources(savepoint, operator)))
        raw = tuple(raw_timer_sources(savepoint, operator)) if entries.raw_timers else ()
        rehashed = entries.max_parallelism not in (None, operator.max_parallelism)
        limits = operator.max_parallelism, operator.state_size
        described = KeyedInput(sources, raw, *limits, request, serial=entries.keys or rehashed)
        division = Division((operator.max_parallelism, plan.max_parallelism))
        states = [(number, state) for number, state in enumerate(entries.states) if state is not None]
        places = np.array([number for number, _ in states], np.int32)
        key = plan.header().key_serializer
        return cls(described, division, StateNumbers([state for _, state in states]), places, key, rehashed)

    @cached_property
    def sizes(self) -> Longs:
        """Return the approximate bytes to read for every new key group."""
        limit = self.division.max_parallelisms[1] or 0
        of_remainder = self.division.sizes(0, self.described.sizes())
        return of_remainder[np.arange(limit) % self.division.modulus]

    def key_groups(self, new: range | Longs) -> set[int]:
        """Return the key groups that can have keys of some new key groups."""
        modulus, old = self.division.modulus, np.arange(self.division.max_parallelisms[0] or 0)
        is_selected = np.isin(old % modulus, np.asarray(new) % modulus)
        return set(old[is_selected].tolist())

    def first_reads(self, ranges: Iterable[KeyGroupRange]) -> Iterator[Read]:
        """Yield what is read first for several files, of some new key groups each.

        All of them together read all of a database: so its table files are opened once for their ends.
        """
        for one in ranges:
            key_groups = self.key_groups(range(one.start, one.end + 1))
            for source in self.described.meeting(key_groups):
                yield from source.reads(key_groups)
                if isinstance(source, RocksDBSource) and not key_groups.issuperset(source.key_group_range):
                    yield from source.end_reads(whole=False)

    def regrouped(self, chunk: EntryChunk, new: range) -> EntryChunk:
        """Return the entries with keys in some new key groups, computed from the keys if they are other ones."""
        if not self.rehashed:
            return chunk
        options = exact_options(self.described.request.decode)
        start, end = np.ascontiguousarray(chunk.serial_start), np.ascontiguousarray(chunk.serial_end)
        at = Cursors(chunk.keys.copy(), start.copy(), end, options=options)
        limit = self.division.max_parallelisms[1] or 0

        def path(row: int) -> str | None:
            return self.described.path_of(int(chunk.key_group[row]))

        moved = replace(chunk, key_group=groups_of_serialized(self.key, at, limit, path))
        return moved.take(np.flatnonzero((moved.key_group >= new.start) & (moved.key_group < new.stop)))


@dataclass(frozen=True)
class _Marks:
    """Keys that are deleted, by the numbers of states, and which key groups have some: others are not searched."""

    by_state: Mapping[int, KeyNumbers]
    key_groups: Flags


class _Merge:
    """The merge of one subtask."""

    def __init__(
        self,
        plan: WritePlan,
        writer: CanonicalKeyedStreamWriter,
        bases: Sequence[tuple[BaseState, OpenInput]],
        rows: KeyGroupCursor,
        deleted: KeyGroupCursor,
    ) -> None:
        self.plan, self.writer, self.bases = plan, writer, bases
        self.rows, self.deleted = rows, deleted
        self.states = [meta.name for meta in plan.header().states]
        self.maps = map_namespaces(plan.header().states)
        #: Most bytes of entries that are in memory.
        self.limit = 2 * plan.request.sort_memory // EXPANDED

    def write(self, new: range) -> int:
        """Write some key groups, and return the bytes of their entries; more than the limit if they are too many."""
        marks = concat([_entries(batch) for batch in self.deleted.up_to(new.stop - 1)])
        return self._write(new, self._marked(marks))

    def _marked(self, marks: EntryChunk) -> _Marks:
        """Return the keys of marks by the numbers of their states, and those that are deleted from all states.

        Raise DuplicateKeyError if the rows of a state have a key twice.
        """
        numbers = marks.state.astype(np.int16)
        by_state = {}
        for mark in np.unique(numbers).tolist():
            own = marks.take(np.flatnonzero(numbers == mark))
            own = replace(own, serial_start=own.key_start, serial_end=own.key_end)
            keys = by_state[mark if mark == DELETED else mark_of(mark)] = KeyNumbers.of(own)
            if mark != DELETED and keys.count < len(own):
                found = keys.find(own)
                self._refuse_row(own, int(np.flatnonzero(np.bincount(found)[found] > 1)[0]), mark_of(mark))
        key_groups = np.zeros(self.plan.max_parallelism, np.bool_)
        key_groups[marks.key_group] = True
        return _Marks(by_state, key_groups)

    def _refuse_row(self, marks: EntryChunk, row: int, state: int) -> None:
        key = marks.keys[marks.key_start[row] : marks.key_end[row]].tobytes()
        meta = self.plan.header().states[state]
        what = "key" if meta.namespace_serializer == NO_NAMESPACE else "key and window"
        text = key_text(self.plan.header().key_serializer, key, meta.name)
        raise DuplicateKeyError(
            f"more than one row has the same {what}",
            operator=self.plan.label,
            state=meta.name,
            expected=f"one row per {what}",
            found=f"{text} again, in key group {marks.key_group[row]}",
            remedy=DUPLICATE,
        )

    def _write(self, new: range, deleted: _Marks) -> int:
        held: list[EntryChunk] = []
        size = 0
        for chunk in self._chunks(new, deleted):
            held.append(chunk)
            size += chunk.nbytes
            if size > self.limit:
                self._large(new, deleted)
                return size
        rows = list(self.rows.up_to(new.stop - 1))
        with_rows = size + sum(batch.rows.nbytes + batch.key.nbytes for batch in rows)
        if with_rows > 2 * self.limit:
            self._by_sorting(held, rows)
        else:
            self._put(concat([*held, *(_entries(batch) for batch in rows)]), kept=not rows and len(self.bases) == 1)
        return size

    def _large(self, new: range, deleted: _Marks) -> None:
        """Write more than fits into memory: half of the key groups at a time, a single one through disk."""
        if len(new) == 1:
            self._by_sorting(self._chunks(new, deleted), self.rows.up_to(new.stop - 1))
            return
        middle = (new.start + new.stop) // 2
        self._write(range(new.start, middle), deleted)
        self._write(range(middle, new.stop), deleted)

    def _chunks(self, new: range, deleted: _Marks) -> Iterator[EntryChunk]:
        """Yield the remaining entries of the bases, with their state numbers in the new file."""
        for base, opened in self.bases:
            for base_chunk in opened.chunks(base.key_groups(new)):
                chunk = base.regrouped(base_chunk, new)
                if len(chunk):
                    chunk = self._kept(replace(chunk, state=base.places[chunk.state]), deleted)
                if len(chunk):
                    yield chunk

    def _kept(self, chunk: EntryChunk, deleted: _Marks) -> EntryChunk:
        """Return the entries whose keys have no mark."""
        near = np.flatnonzero(deleted.key_groups[chunk.key_group])
        if not len(near):
            return chunk
        is_removed = np.zeros(len(chunk), np.bool_)
        for number, keys in deleted.by_state.items():
            rows = near if number == DELETED else near[chunk.state[near] == number]
            if len(rows):
                some = chunk.take(rows)
                known = some if number == DELETED else placed(some, self.maps.get(number))
                is_removed[rows[keys.find(known) >= 0]] = True
        return chunk.take(np.flatnonzero(~is_removed)) if is_removed.any() else chunk

    def _put(self, chunk: EntryChunk, *, kept: bool) -> None:
        """Write entries that are in memory; those of a state that are not sorted are sorted.

        ``kept``: all are of one base. Equal keys are as Flink wrote them: on the heap, PyFlink's pickled keys of a map
        are byte arrays, which Java does not compare by their content.
        """
        if not len(chunk):
            return
        limit = self.plan.max_parallelism
        runs = Runs.of(chunk, limit)
        if runs.first_unordered() >= 0:
            runs = runs.sorted()
            repeated = runs.first_unordered()
            if repeated >= 0 and not kept:
                self._refuse(runs.chunk, repeated)
        runs.write(self.writer)

    def _by_sorting(self, chunks: Iterable[EntryChunk], rows: Iterable[SortedBatch]) -> None:
        """Write entries through an external sort."""
        form = EntryForm(self.plan)
        with RowSorter(form.schema, self.plan.request.sort_memory // 2) as sorter:
            for chunk in chunks:
                batch = chunk.entries()
                values = pa.record_batch([batch.column(VALUE)], schema=form.schema)
                sorter.add(chunk.key_group, entry_keys(chunk.state, batch.column(KEY)), values)
            for piece in rows:
                sorter.add(piece.key_group, piece.key, piece.rows)
            sink = form.sink(self.writer)
            for piece in sorter.sorted():
                sink.add(piece)

    def _refuse(self, chunk: EntryChunk, row: int) -> None:
        composite = chunk.keys[chunk.key_start[row] : chunk.key_end[row]].tobytes()
        state = self.states[int(chunk.state[row])]
        key = key_text(self.plan.header().key_serializer, composite, state)
        raise DuplicateKeyError(
            "a state has more than one entry, or timer, of the same key",
            operator=self.plan.label,
            state=state,
            expected="every composite key of a state once",
            found=f"{key} again, in key group {chunk.key_group[row]}",
            remedy=DUPLICATE,
        )


def _entries(batch: SortedBatch) -> EntryChunk:
    """Return sorted rows as entries; their keys begin with the state's number."""
    offsets, data = binary_parts(batch.key)
    start = offsets[:-1].copy()
    state = data[start].astype(np.int32) << 8 | data[start + 1]
    value, values = binary_parts(batch.rows.column(VALUE))
    return EntryChunk(
        read_only(data), read_only(values), state, np.array(batch.key_group, np.int32), start + 2, offsets[1:].copy(),
        value[:-1].copy(), value[1:].copy(), start, start,
    )  # fmt: skip


def placed(chunk: EntryChunk, namespace: int | None) -> EntryChunk:
    """Return entries of one state with the spans of key and namespace, which a mark has, in place of those of keys.

    ``namespace`` is the length of those of a map, whose entries have a user key after it; None for other states.
    """
    end = chunk.key_end if namespace is None else chunk.serial_end + namespace
    return replace(chunk, serial_start=chunk.key_start, serial_end=end)


def split_marks(batches: Iterable[SortedBatch], *, marks: bool) -> Iterator[SortedBatch]:
    """Yield the marks among sorted entries, or the others: the number of a mark has the highest bit."""
    for batch in batches:
        offsets, data = binary_parts(batch.key)
        has_mark = (data[offsets[:-1]] >= 0x80) == marks
        if has_mark.all():
            yield batch
        elif has_mark.any():
            rows = pa.array(has_mark)
            yield SortedBatch(batch.key_group[has_mark], batch.key.filter(rows), batch.rows.filter(rows))
