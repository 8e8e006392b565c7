"""Entries of existing operators, merged with written rows into the state file of a subtask.

The key groups of the subtask are read from the existing files as bytes, some at a time; deleted keys are dropped, and
the rest is written together with the rows. With another max parallelism, key groups are computed from the keys again:
those that can have keys of a new key group have the same remainder (``paired_chunks``), so a file may be read as often
as the new max parallelism is larger. A key group larger than memory is sorted through local disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Cursors, Ints, Longs, binary_parts
from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, read_only
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, key_groups_for_hashes
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk, KeyNumbers, concat
from pyspark_savepoint.statebackends.merging.keyed_input import KeyedInput, OpenInput, StateNumbers
from pyspark_savepoint.statebackends.merging.paired_chunks import Division, together, total
from pyspark_savepoint.statebackends.merging.runs import Runs
from pyspark_savepoint.statebackends.model.entry_bytes import KEY, VALUE
from pyspark_savepoint.statebackends.model.key_codec import entry_keys
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.sorting.row_sorter import RowSorter
from pyspark_savepoint.statebackends.sorting.sort_runs import SortedBatch
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.tables.key_check import exact_options
from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
from pyspark_savepoint.statebackends.writing.rows.keyed_sink import DUPLICATE
from pyspark_savepoint.statebackends.writing.rows.row_forms import EntryForm

#: Memory for the entries that are merged at a time, with their spans and copies, as a multiple of their bytes.
EXPANDED = 16


def merge_bases(
    plan: WritePlan,
    writer: CanonicalKeyedStreamWriter,
    key_groups: KeyGroupRange,
    rows: Iterable[SortedBatch],
    deleted: Iterable[SortedBatch],
) -> None:
    """Write the entries of the bases and the rows, all of a subtask's key groups; ``deleted`` are keys, sorted."""
    bases = [BaseState.of(plan, request) for request in plan.request.bases]
    sizes = total([base.sizes() for base in bases])
    with ExitStack() as stack:
        opened = [(base, stack.enter_context(OpenInput(base.described, base.numbers))) for base in bases]
        merge = _Merge(plan, writer, opened, KeyGroupCursor(rows), KeyGroupCursor(deleted))
        for some in together(range(key_groups.start, key_groups.end + 1), sizes, plan.request.sort_memory // EXPANDED):
            merge.write(some)


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
        wanted = request.entries
        assert wanted is not None
        wanted.check_version(savepoint)
        operator = savepoint.operator(uid_hash=request.uid_hash)
        sources = tuple(keyed_sources(savepoint, operator))
        raw = tuple(raw_timer_sources(savepoint, operator)) if wanted.raw_timers else ()
        rehashed = wanted.max_parallelism not in (None, operator.max_parallelism)
        limits = operator.max_parallelism, operator.state_size
        described = KeyedInput(sources, raw, *limits, request, serial=wanted.keys or rehashed)
        division = Division((operator.max_parallelism, plan.max_parallelism))
        states = [(number, state) for number, state in enumerate(wanted.states) if state is not None]
        places = np.array([number for number, _ in states], np.int32)
        key = plan.header().key_serializer
        return cls(described, division, StateNumbers([state for _, state in states]), places, key, rehashed)

    def sizes(self) -> Longs:
        """Return the approximate bytes to read for every new key group."""
        limit = self.division.max_parallelisms[1] or 0
        of_remainder = self.division.sizes(0, self.described.sizes())
        return of_remainder[np.arange(limit) % self.division.modulus]

    def key_groups(self, new: range) -> set[int]:
        """Return the key groups that can have keys of some new key groups."""
        remainders = {group % self.division.modulus for group in new}
        return {group for one in remainders for group in self.division.key_groups(0, range(one, one + 1))}

    def regrouped(self, chunk: EntryChunk, new: range) -> EntryChunk:
        """Return the entries with keys in some new key groups, computed from the keys if they are other ones."""
        if not self.rehashed:
            return chunk
        options = exact_options(self.described.request.decode)
        start, end = np.ascontiguousarray(chunk.serial_start), np.ascontiguousarray(chunk.serial_end)
        at = Cursors(chunk.keys.copy(), start.copy(), end, options=options)
        hashes = self.key.java_hash(self.key.decode(at))
        limit = self.division.max_parallelisms[1] or 0
        moved = replace(chunk, key_group=key_groups_for_hashes(hashes, limit).astype(np.int32))
        return moved.take(np.flatnonzero((moved.key_group >= new.start) & (moved.key_group < new.stop)))


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

    def write(self, new: range) -> None:
        """Write some key groups."""
        keys = concat([_keys(batch) for batch in self.deleted.up_to(new.stop - 1)])
        self._write(new, KeyNumbers.of(keys) if len(keys) else None)

    def _write(self, new: range, deleted: KeyNumbers | None) -> None:
        held: list[EntryChunk] = []
        size = 0
        for chunk in self._chunks(new, deleted):
            held.append(chunk)
            size += chunk.nbytes
            if size > 2 * self.plan.request.sort_memory // EXPANDED:
                self._large(new, deleted)
                return
        rows = []
        for batch in self.rows.up_to(new.stop - 1):
            rows.append(batch)
            size += batch.rows.nbytes + batch.key.nbytes
        if size > 4 * self.plan.request.sort_memory // EXPANDED:
            self._by_sorting(held, rows)
            return
        self._put(concat([*held, *(_entries(batch) for batch in rows)]))

    def _large(self, new: range, deleted: KeyNumbers | None) -> None:
        """Write more than fits into memory: half of the key groups after the other, or a single one through disk."""
        if len(new) == 1:
            self._by_sorting(self._chunks(new, deleted), self.rows.up_to(new.stop - 1))
            return
        middle = (new.start + new.stop) // 2
        self._write(range(new.start, middle), deleted)
        self._write(range(middle, new.stop), deleted)

    def _chunks(self, new: range, deleted: KeyNumbers | None) -> Iterator[EntryChunk]:
        """Yield the remaining entries of the bases, with their state numbers in the new file."""
        for base, opened in self.bases:
            for found in opened.chunks(base.key_groups(new)):
                chunk = base.regrouped(found, new)
                if deleted is not None:
                    gone = deleted.find(chunk) >= 0
                    chunk = chunk.take(np.flatnonzero(~gone)) if gone.any() else chunk
                if len(chunk):
                    yield replace(chunk, state=base.places[chunk.state])

    def _put(self, chunk: EntryChunk) -> None:
        """Write entries that are in memory; those of a state that are not sorted are sorted."""
        if not len(chunk):
            return
        limit = self.plan.max_parallelism
        runs = Runs.of(chunk, limit)
        if runs.first_unordered() >= 0:
            runs = runs.sorted()
            repeated = runs.first_unordered()
            if repeated >= 0:
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
        key = chunk.keys[chunk.key_start[row] : chunk.key_end[row]].tobytes()
        raise DuplicateKeyError(
            "a state has more than one entry, or timer, of the same key",
            operator=self.plan.label,
            state=self.states[int(chunk.state[row])],
            expected="every composite key of a state once",
            found=f"bytes {key.hex()} again, in key group {chunk.key_group[row]}",
            remedy=DUPLICATE,
        )


class KeyGroupCursor:
    """Sorted batches, taken key group by key group."""

    def __init__(self, batches: Iterable[SortedBatch]) -> None:
        self.batches = iter(batches)
        self.rest: SortedBatch | None = None

    def up_to(self, key_group: int) -> Iterator[SortedBatch]:
        """Yield the remaining rows up to and including a key group."""
        while True:
            batch = self.rest if self.rest is not None else next(self.batches, None)
            self.rest = None
            if batch is None:
                return
            cut = int(np.searchsorted(batch.key_group, key_group, "right"))
            if cut < len(batch):
                self.rest = batch.slice(cut, len(batch))
            if cut:
                yield batch.slice(0, cut)
            if cut < len(batch):
                return


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


def _keys(batch: SortedBatch) -> EntryChunk:
    """Return deleted keys as entries."""
    column = pc.cast(batch.key, pa.binary())
    offsets, data = binary_parts(column)
    start, end = offsets[:-1].copy(), offsets[1:].copy()
    group = np.array(batch.key_group, np.int32)
    return EntryChunk(read_only(data), read_only(data), group, group, start, end, end, end, start, end)
