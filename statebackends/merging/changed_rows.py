"""Table of the rows of an operator's keyed state that differ in two snapshots.

Partitions are key groups of both, so nothing is shuffled: each task compares their entries as bytes, and decodes all
entries of the keys that have one that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Flags, Longs
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.statebackends.merging.comparison import Compared, compare
from pyspark_savepoint.statebackends.merging.entry_chunk import (
    Division,
    EntryChunk,
    KeyNumbers,
    Pair,
    concat,
    nothing,
    paired_chunks,
    total,
)
from pyspark_savepoint.statebackends.merging.keyed_input import (
    KeyedInput,
    Merged,
    OpenInput,
    SharedInput,
    StateNumbers,
    described,
    divided,
    open_inputs,
    starts_of,
)
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, consecutive, with_columns
from pyspark_savepoint.statebackends.sources.keyed_plan import meets
from pyspark_savepoint.statebackends.tables.entry_diff import EntryDiff
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable

Tables = tuple[KeyedTable | None, KeyedTable | None]
Inputs = tuple[KeyedInput | None, KeyedInput | None]


class ChangedRows:
    """Rows that differ. ``tables`` are those of both snapshots; None where a snapshot does not have one.

    ``compared`` decodes and shows them, by default as a difference.
    """

    def __init__(
        self, tables: Tables, states: Sequence[str], request: TableRequest, compared: EntryDiff | None = None
    ) -> None:
        _refuse_other_keys(tables)
        self.compared = compared or EntryDiff.of(*tables, states)
        self.schema = self.compared.schema
        self.request = request
        self.inputs: Inputs = (_input(tables[0]), _input(tables[1]))
        before, after = (() if side is None else side.sources for side in self.inputs)
        self.shared = SharedInput.among(before, after)
        moduli = (side.max_parallelism if side is not None else None for side in self.inputs)
        self.division = Division((next(moduli), next(moduli)))
        self.warnings: tuple[str, ...] = ()
        self.max_parallelism: int | None = self.division.modulus
        self.state_bytes = sum(side.state_bytes for side in self.inputs if side is not None)

    @property
    def description(self) -> str:
        """Return how many bytes of files are read, if not all."""
        return described(self.shared)

    def select(self, columns: Sequence[str]) -> ChangedRows:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per share of the key groups."""
        sizes = total(
            [
                self.division.sizes(i, keyed_input.sizes())
                for i, keyed_input in enumerate(self.inputs)
                if keyed_input is not None
            ]
        )
        return [
            ChangedRowsPartition(
                (self._restricted(0, share), self._restricted(1, share)),
                tuple(keyed_input for keyed_input in self.shared if meets(keyed_input.after.key_group_range, share)),
                self.division,
                share,
                sizes,
                self.compared,
                self.schema.names,
                self.request,
            )
            for share in self._shares(parallelism or 1)
        ]

    def _shares(self, count: int) -> Iterator[range]:
        """Yield the remainders of each task: those of the key groups that the request names, if it names any."""
        for share in self.division.shares(count):
            yield from (range(first, last + 1) for first, last in consecutive(self.request.select_key_groups(share)))

    def _restricted(self, side: int, share: range) -> KeyedInput | None:
        described = self.inputs[side]
        if described is None:
            return None
        groups = sorted(self.division.key_groups(side, share))
        return replace(
            described, sources=tuple(source for source in described.sources if meets(source.key_group_range, groups))
        )


def _input(table: KeyedTable | None) -> KeyedInput | None:
    if table is None:
        return None
    operator, request = table.headers.operator, replace(table.request, decode=table.spec.options)
    return KeyedInput(table.headers.sources, (), operator.max_parallelism, operator.state_size, request, serial=True)


def _refuse_other_keys(tables: Tables) -> None:
    kinds = {str(table.schema.field("key").type) for table in tables if table is not None}
    if len(kinds) > 1:
        raise UnsupportedStateError(
            "the type of the keys has changed, so rows cannot be compared", found=" and ".join(sorted(kinds))
        )


@dataclass(frozen=True)
class ChangedRowsPartition:
    """Rows of some key groups."""

    inputs: Inputs
    shared: tuple[SharedInput, ...]
    division: Division
    share: range
    sizes: Longs
    compared: EntryDiff
    columns: list[str]
    request: TableRequest

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ."""
        numbers = StateNumbers([(name, False) for name in self.compared.states])
        opened = [None if side is None else OpenInput(side, numbers) for side in self.inputs]
        with open_inputs(self.division.parts(opened, self.share)):
            before, after = (nothing if side is None else side.chunks for side in opened)

            starts, memory = starts_of(self.inputs), self.request.memory

            def merged(share: range) -> Iterator[Pair]:
                read = before, after
                return paired_chunks(read, self.division, share, self.sizes, memory, serial=True, starts=starts)

            for pair in self._pairs(numbers, merged):
                comparison = compare(*pair, self.division.modulus, numbers.maps)
                for batch in changed_rows(comparison, self.compared, self.request.batch_rows):
                    yield batch.select(self.columns)

    def _pairs(self, numbers: StateNumbers, merged: Merged) -> Iterator[Pair]:
        """Yield the entries of all keys, or only of those that can differ where files are common to both."""
        requests = [keyed_input.request for keyed_input in self.inputs if keyed_input is not None]
        for key_groups, database in divided(self.share, self.shared):
            if database is None:
                yield from merged(key_groups)
            else:
                yield from database.pairs(key_groups, numbers, requests, merged)


def changed_rows(compared: Compared, decoder: EntryDiff, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all keys with an entry that differs, a limited number of keys at a time."""
    keys = concat([_some(compared.before, compared.before_differs), _some(compared.after, compared.after_differs)])
    if not len(keys):
        return
    key_numbers = KeyNumbers.of(keys)
    numbers, count = [key_numbers.find(chunk) for chunk in (compared.before, compared.after)], key_numbers.count
    flags = compared.before_differs, compared.after_differs
    sides = []
    for chunk, differs, number in zip((compared.before, compared.after), flags, numbers, strict=True):
        rows = np.flatnonzero(number >= 0)
        rows = rows[np.argsort(number[rows], kind="stable")]
        sides.append((chunk, differs, rows, number[rows]))
    for low in range(0, count, batch_rows):
        halves = []
        for chunk, differs, rows, number in sides:
            start, stop = np.searchsorted(number, [low, low + batch_rows])
            some = rows[start:stop]
            halves.append((chunk.take(some).entries(), differs[some]))
        batch = decoder.decoded((halves[0], halves[1]))
        for at in range(0, len(batch), batch_rows):
            yield batch.slice(at, batch_rows)


def _some(chunk: EntryChunk, flags: Flags) -> EntryChunk:
    """Return a copy of the keys alone of some entries, as keys of entries without values."""
    rows = np.flatnonzero(flags)
    return EntryChunk.of_batch(chunk.take(rows).entries())
