"""The engine of this process: tables are Arrow, in batches. Rows are distributed through files of a temporary folder.

A table has one part, or a part per subtask after its rows were distributed. The writer of a part is the one that a task
of Spark runs, so rows are sorted in bounded memory and spill in the same way.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.engines.arrow.byte_index import ByteIndex
from pyspark_savepoint.engines.arrow.local_table import (
    ComputedTable,
    LocalHistory,
    LocalTable,
    SnapshotOf,
    SnapshotTable,
)
from pyspark_savepoint.engines.function_pickles import copy_of
from pyspark_savepoint.formats.columns import fixed_array, fixed_values
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, ValueRangeError, type_name
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.io.local_files import local_directory
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.formats.larger_batches import gathered
from pyspark_savepoint.options.ddl import arrow_columns
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.plan.engine import HASHED
from pyspark_savepoint.plan.key_hashes import KeyHashing, key_groups, keys_of
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW, WINDOW_COLUMN
from pyspark_savepoint.statebackends.rows.groups import group_numbers
from pyspark_savepoint.statebackends.writing.assemble import merge_notes
from pyspark_savepoint.statebackends.writing.committer import abort, commit
from pyspark_savepoint.statebackends.writing.merged_bases import bases_ahead
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, WritePlan
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.text import progress
from pyspark_savepoint.text.conditions import with_expression
from pyspark_savepoint.write.copying import copy_files

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.relocation import FileCopy
    from pyspark_savepoint.plan.engine import Cell, PartTask, Pieces, ReadOptions, SessionLookup
    from pyspark_savepoint.statebackends.requests.request import BatchFunction
    from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
    from pyspark_savepoint.statebackends.writing.planning.planned_write import PartOfWrite
    from pyspark_savepoint.statebackends.writing.task_outputs import TaskOutput

A = TypeVar("A")
B = TypeVar("B")
#: Yields the batches of one part of a table.
Part = Callable[[], Iterator[pa.RecordBatch]]
KEY_GROUP = "__savepoint_key_group"
#: Rows of a batch of a dataset.
DATASET_ROWS = 1 << 14


class ArrowStream(Protocol):
    """Rows that users give: whatever exports an Arrow stream, such as a ``pyarrow.Table`` or a table of a snapshot."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows."""


@dataclass(frozen=True)
class _Together:
    """Several parts as one. It has no other such one inside, or hundreds of tables would be as many nested calls."""

    parts: tuple[Part, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            yield from part()


@dataclass(frozen=True, eq=False)
class LocalRows:
    """Batches of Arrow as the rows of a plan (``plan.engine.Rows``). ``layout`` says how parts were distributed."""

    schema: pa.Schema
    parts: tuple[Part, ...]
    layout: Distribution | None = None
    #: Users cannot distribute rows here; those that functions make are.
    laid_out: bool = False
    #: Returns the bytes of the files that the parts are read from, each of which has one: they may be read together.
    file_bytes: Callable[[], int] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all parts."""
        for part in self.parts:
            yield from part()

    def select(self, *names: str) -> LocalRows:
        """Return some columns."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return self._each(schema, lambda batches: (batch.select(list(names)) for batch in batches))

    def renamed(self, names: Mapping[str, str]) -> LocalRows:
        """Return the rows with new names of columns."""
        schema = pa.schema([field.with_name(names.get(field.name, field.name)) for field in self.schema])
        return self._each(
            schema, lambda batches: (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
        )

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> LocalRows:
        """Return what a function makes of the batches of each part."""
        return self._each(schema, function)

    def union(self, other: LocalRows) -> LocalRows:
        """Return the rows of both, as one part."""
        parts = (*self.parts, *other.select(*self.schema.names).parts)
        together = [one for part in parts for one in (part.parts if isinstance(part, _Together) else (part,))]
        return LocalRows(self.schema, (_Together(tuple(together)),))

    def without(self, keys: LocalRows, column: str) -> LocalRows:
        """Return the rows whose value of a column is not in another table, whose values are held in memory."""
        index = cache(lambda: ByteIndex(keys.select(column).table().column(column).combine_chunks()))

        def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(index().places(batch.column(column)).is_null())

        return self._each(self.schema, kept)

    def joined(self, other: LocalRows, column: str) -> LocalRows:
        """Return the rows with the columns of another table, which is held in memory."""
        more = [field for field in other.schema if field.name != column]
        schema = pa.schema([*self.schema, *more])

        @cache
        def found_in() -> tuple[pa.Table, ByteIndex]:
            table = other.table().combine_chunks()
            return table, ByteIndex(table.column(column).combine_chunks())

        def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table, index = found_in()
            for batch in batches:
                places = index.places(batch.column(column))
                columns = [table.column(field.name).combine_chunks().take(places) for field in more]
                yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)

        return self._each(schema, found)

    def held(self) -> LocalRows:
        """Return the same rows, which are held in memory as soon as one is read."""
        table = cache(lambda: self.table().combine_chunks())
        return LocalRows(self.schema, (lambda: iter(table().to_batches()),))

    def table(self) -> pa.Table:
        """Return all rows in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def collected(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table().to_pylist()
        return rows

    def first(self) -> dict[str, Any] | None:
        """Return one of the rows as a dictionary, or None if there is none."""
        return next((row for batch in self.batches() for row in batch.slice(0, 1).to_pylist()), None)

    def _each(self, schema: pa.Schema, function: BatchFunction) -> LocalRows:
        parts = tuple(partial(_applied, function, part) for part in self.parts)
        return LocalRows(schema, parts, self.layout, file_bytes=self.file_bytes)


@dataclass(frozen=True)
class LocalEngine:
    """Reads and writes in this process (``plan.engine.Engine``)."""

    rows_are: str = "rows of Arrow (pyarrow.Table, RecordBatchReader, Dataset, pandas, or a table of a snapshot)"
    make_rows: str = "pyarrow.Table.from_pylist([...]), or a table of the savepoint: sp.keyed_state(uid)"

    def rows(self, source: object) -> LocalRows | None:
        """Return rows that export an Arrow stream or are in files, and rows as they are. None for anything else."""
        if isinstance(source, LocalRows):
            return source
        if isinstance(source, SnapshotTable):
            exact = source.exact()
            return LocalRows(exact.schema, (exact.batches,))
        if isinstance(source, LocalTable):
            return _of_stream(source.schema, source.batches)
        if isinstance(source, pa.RecordBatchReader):
            return _of_stream(source.schema, _once(source))
        if type(source).__module__ == "pyarrow._dataset" and hasattr(source, "to_batches"):
            files: Any = source
            return _of_stream(files.schema, partial(_batches_of, files))
        if type(source).__module__.partition(".")[0] == "pandas":
            source = _of_pandas(source)
        if isinstance(source, pa.RecordBatch):
            source = pa.Table.from_batches([source])
        if isinstance(source, pa.Table):
            table = source
            return _of_stream(table.schema, lambda: iter(table.to_batches()))
        if not hasattr(source, "__arrow_c_stream__"):
            return None
        stream = source
        schema = pa.RecordBatchReader.from_stream(stream).schema
        return _of_stream(schema, lambda: iter(pa.RecordBatchReader.from_stream(stream)))

    def of_arrow(self, table: pa.Table) -> LocalRows:
        """Return the rows of a small Arrow table."""
        return LocalRows(table.schema, (lambda: iter(table.to_batches()),))

    def with_column(self, rows: LocalRows, name: str, expression: object) -> LocalRows | None:
        """Return a few rows with the value of an expression of Arrow as another column. None for anything else."""
        table = with_expression(rows.table(), name, expression)
        return None if table is None else self.of_arrow(table)

    def in_order(self, rows: LocalRows, name: str) -> LocalRows:
        """Return rows with their numbers."""
        schema = rows.schema.append(pa.field(name, pa.int64()))

        def numbered() -> Iterator[pa.RecordBatch]:
            begin = 0
            for batch in rows.batches():
                numbers = pa.array(np.arange(begin, begin + batch.num_rows, dtype=np.int64))
                begin += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)

        return LocalRows(schema, (numbered,))

    def worded(self, condition: object) -> object:
        """Return a condition as it is: the engine has none of its own."""
        return condition

    def read(self, options: ReadOptions) -> LocalRows:
        """Return the table that options select."""
        table = SnapshotTable.of(_parsed(options), variants="variant")
        return LocalRows(table.schema, (table.batches,))

    def table(self, options: ReadOptions) -> SnapshotTable:
        """Return the table that options select, and warn of what it cannot show."""
        table = SnapshotTable.of(_parsed(options))
        for warning in table.warnings:
            warnings.warn(warning, SavepointWarning, stacklevel=5)  # the caller of a verb
        return table

    def opened(self, options: Mapping[str, str]) -> SnapshotTable:
        """Return the table that options select."""
        return SnapshotTable.of(SavepointReadOptions.parse(dict(options)))

    def where(self, table: LocalTable, column: str, value: str) -> LocalTable:
        """Return the rows whose column has a value."""

        def kept() -> Iterator[pa.RecordBatch]:
            return (batch.filter(pc.equal(batch.column(column), value)) for batch in table.batches())

        return ComputedTable(table.schema, kept, table.warnings)

    def joined(self, parts: Sequence[tuple[int, str, LocalTable]]) -> LocalHistory:
        """Return one table of tables of several snapshots."""
        return LocalHistory.of(tuple(SnapshotOf(*part) for part in parts))

    def shown(self, table: pa.Table) -> LocalTable:
        """Return an Arrow table as users get tables."""
        return ComputedTable.of(table)

    def listed(self, rows: Callable[[], Iterator[dict[str, Any]]], schema: pa.Schema) -> LocalTable:
        """Return rows that are read on demand as users get tables."""
        return ComputedTable.of_rows(rows, schema)

    def as_table(self, rows: LocalRows) -> LocalTable:
        """Return rows as users get tables."""
        return ComputedTable(rows.schema, rows.batches)

    def schema(self, table: LocalTable) -> pa.Schema:
        """Return the columns of a table."""
        return table.schema

    def gathered(self, table: Callable[[], LocalTable | LocalRows]) -> pa.Table:
        """Return all rows of a small table."""
        rows = self.rows(table())
        assert rows is not None
        return rows.table()

    def at_most(self, rows: LocalRows, count: int) -> tuple[pa.Table | None, LocalRows]:
        """Return rows in memory if they are few. The batches that were read to see it are the first of the rows."""
        batches, first, row_count = rows.batches(), list[pa.RecordBatch](), 0
        while row_count <= count:
            batch = next(batches, None)
            if batch is None:
                return pa.Table.from_batches(first, rows.schema), rows
            first.append(batch)
            row_count += len(batch)
        read = [chain(first, batches)]

        def again() -> Iterator[pa.RecordBatch]:
            yield from read.pop() if read else rows.batches()

        return None, LocalRows(rows.schema, (again,))

    def summed(self, table: LocalTable, function: BatchFunction, schema: pa.Schema) -> LocalTable:
        """Return what a function makes of all batches."""
        return ComputedTable(schema, lambda: iter(function(table.batches())), table.warnings)

    def function_schema(self, columns: object) -> pa.Schema:
        """Return the columns of a text or an Arrow schema."""
        return arrow_columns(columns)

    def numbered(self, function: BatchFunction, count: int, columns: object) -> LocalTable:
        """Return what copies of a function yield for each number."""
        schema = arrow_columns(columns)

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(count):
                ids = pa.RecordBatch.from_pydict({"id": pa.array([number], pa.int64())})
                yield from map(_without_nulls, copy_of(function)(iter([ids])))

        return ComputedTable(schema, batches)

    def with_state_windows(self, rows: LocalRows, lookup: SessionLookup) -> LocalRows:
        """Return rows of sessions with their state windows. Those of all keys are held in memory."""
        has_state_window = STATE_WINDOW in rows.schema.names
        schema = rows.schema
        if not has_state_window:
            schema = schema.append(pa.field(STATE_WINDOW, schema.field(WINDOW_COLUMN).type))

        def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            windows = _state_windows(self.read(lookup.options), lookup)
            for batch in batches:
                keys = zip(*(batch.column(name).to_pylist() for name in lookup.keys), strict=True)
                sessions = batch.column(WINDOW_COLUMN).to_pylist()
                states = []
                for key, session in zip(keys, sessions, strict=True):
                    session_key = repr((key, session))
                    if session_key not in windows:
                        raise ValueRangeError(f"{lookup.unknown}{session}. {lookup.remedy(has_state_window)}")
                    states.append(windows[session_key])
                if has_state_window:
                    _expect_same(sessions, states, batch.column(STATE_WINDOW).to_pylist(), lookup)
                    yield batch
                    continue
                column = pa.array(states, schema.field(STATE_WINDOW).type)
                yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

        return rows.mapped(found, schema)

    def sessions(self, rows: LocalRows, keys: Sequence[str], name: str, *, is_map: bool) -> LocalRows:
        """Return the sessions of each key. Those of all keys are held in memory."""
        window = rows.schema.field(WINDOW_COLUMN).type
        under = STATE_WINDOW if STATE_WINDOW in rows.schema.names else WINDOW_COLUMN
        pair = pa.struct([pa.field("f0", window), pa.field("f1", window)])
        kind = pa.map_(window, window) if is_map else pa.list_(pair)
        schema = pa.schema([*(rows.schema.field(key) for key in keys), pa.field(name, kind)])

        def grouped() -> Iterator[pa.RecordBatch]:
            table = rows.table().combine_chunks()
            is_complete = pc.and_(table.column(WINDOW_COLUMN).is_valid(), table.column(under).is_valid())
            table = table.filter(is_complete).combine_chunks()
            owner = group_numbers([table.column(key).combine_chunks() for key in keys], len(table))
            order = np.argsort(owner, kind="stable")
            starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
            offsets = pa.array(np.append(starts, len(order)), pa.int32())
            windows = [table.column(column).combine_chunks().take(pa.array(order)) for column in (WINDOW_COLUMN, under)]
            if is_map:
                pairs = pa.MapArray.from_arrays(offsets, *windows)
            else:
                pairs = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(windows, fields=list(pair)))
            first = pa.array(order[starts])
            columns = [table.column(key).combine_chunks().take(first) for key in keys]
            yield pa.RecordBatch.from_arrays([*columns, pairs.cast(kind)], schema=schema)

        return LocalRows(schema, (grouped,))

    def located(self, path: str | PathLike[str]) -> str:
        """Return the absolute form of a user's path."""
        return absolute(path_text(path))

    def by_key(self, rows: LocalRows, descriptor: KeyedDescriptor, limit: int, parallelism: int | None) -> LocalRows:
        """Distribute rows by their key."""
        hashing = KeyHashing.described(descriptor, limit)
        names = descriptor.key_columns

        def groups(batch: pa.RecordBatch) -> pa.Array:
            if descriptor.key_group is not None:
                return batch.column(descriptor.key_group).cast(pa.int32())
            return hashing.key_groups([batch.column(name) for name in names])

        return _distributed(rows, groups, limit, parallelism or 1)

    def by_key_group(self, rows: LocalRows, column: str, key: str, limit: int, parallelism: int | None) -> LocalRows:
        """Distribute rows by a column of key groups."""
        return _distributed(rows, lambda batch: batch.column(column), limit, parallelism or 1)

    def no_rows(self, schema: pa.Schema, limit: int, parallelism: int) -> LocalRows:
        """Return a table without rows, with a part for each subtask."""
        return LocalRows(schema, (lambda: iter(()),) * parallelism, Distribution(limit, parallelism))

    def write(self, rows: LocalRows, part: PartOfWrite) -> None:
        """Write a table by the writer that tasks of Spark run, part by part."""
        plan = part.plan(rows.schema, rows.layout).with_near_files()
        plan = replace(plan, staging=plan.staging.here())
        published = False
        try:
            progress.parts(len(rows.parts))
            outputs = _written(plan, rows.parts, rows.file_bytes, part.stay)
            for note in merge_notes(outputs):
                _warn(note)
            commit(plan, outputs)
            published = True
        finally:
            if not published:
                abort(plan)

    def run(self, work: Pieces, parallelism: int | None) -> dict[int, bytes]:
        """Run the pieces of some work in processes of this machine."""
        from pyspark_savepoint.engines.migrating import run_here

        return run_here(work, parallelism)

    def copy(self, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> Mapping[str, int]:
        """Copy untouched files, several at a time."""
        return copy_files(copies, staging)

    def written(
        self, write: Callable[[A], B], operators: Sequence[A], size: Callable[[A], int], *, together: bool
    ) -> list[B]:
        """Write the operators one after the other; ``together``, while others wait for their files, or send them."""

        def within(operator: A) -> B:
            _LANES.set(min(MOST_OPERATORS, -(-OPERATOR_BYTES // max(1, size(operator)))))
            return write(operator)

        if not together or sum(size(operator) > 0 for operator in operators) < 2:
            return list(map(write, operators))
        return list(ahead(within, operators, remote=True, width=MOST_OPERATORS, size=size, limit=OPERATOR_BYTES))

    def with_selected(self, rows: LocalRows, selector: object, name: str) -> LocalRows:
        """Return rows with the column that a function makes of each batch."""
        if isinstance(selector, str):
            raise OptionError(
                "an expression as text needs Spark",
                found=repr(selector),
                remedy="give a function of an Arrow batch that returns an array, such as "
                "lambda batch: pyarrow.compute.add(batch['key'], 1); or Savepoint.load(spark, path)",
            )

        def column(batch: pa.RecordBatch) -> pa.Array:
            with UserCode(selector, "a column"):
                values = selector(batch) if callable(selector) else selector
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            if not isinstance(values, pa.Array) or len(values) != batch.num_rows:
                raise OptionError(
                    "a column must be a name, or a function of a batch of records that returns an array of as many",
                    found=f"{len(values)} values of {batch.num_rows}"
                    if isinstance(values, pa.Array)
                    else type_name(values),
                    remedy="for example key_by('id', 'day'), or key_by(lambda batch: pyarrow.compute.add(batch['id'], "
                    "1)): it is called for each batch, not for every record",
                )
            return values

        kind = column(_empty(rows.schema)).type
        schema = rows.schema.append(pa.field(name, _plain(kind, name)))

        def selected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, column(batch).cast(schema.field(name).type)], schema=schema
                )

        return rows.mapped(selected, schema)

    def with_hashed(
        self, rows: LocalRows, keys: Sequence[str], hash_code: Callable[[Any], int], limit: int
    ) -> LocalRows:
        """Return rows with the key groups that a function leads to."""
        schema = rows.schema.append(pa.field(HASHED, pa.int32()))

        def hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                groups = key_groups(keys_of(batch, keys), hash_code, limit)
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(groups, pa.int32())], schema=schema)

        return rows.mapped(hashed, schema)

    def tasks(self, rows: LocalRows, limit: int) -> int:
        """Return one: this process."""
        return 1

    def presorted(
        self, rows: LocalRows, descriptor: KeyedDescriptor, limit: int, parallelism: int | None
    ) -> tuple[LocalRows, int]:
        """Distribute rows by their key, in the order in which they come."""
        return self.by_key(rows, descriptor, limit, parallelism), parallelism or 1

    def spread(self, rows: LocalRows, parallelism: int | None, limit: int) -> LocalRows:
        """Return rows in one part, or one after the other in several."""
        count = min(parallelism or 1, limit)
        before = 0

        def in_turn(batch: pa.RecordBatch) -> pa.Array:
            nonlocal before
            numbers = (np.arange(batch.num_rows) + before) % count
            before = (before + batch.num_rows) % count
            return pa.array(numbers, pa.int32())

        return replace(_distributed(rows, in_turn, count, count), layout=None)

    def packed(self, rows: LocalRows, input_column: str, number: int, cells: Sequence[Cell]) -> LocalRows:
        """Return the rows of one input, with NULL in the columns of the others."""
        fields = [pa.field(cell.name, _packed_type(cell)) for cell in cells]
        schema = pa.schema([pa.field(input_column, pa.int32()), *fields])

        def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = [fixed_array(pa.int32(), np.full(batch.num_rows, number, np.int32))]
                for cell, field in zip(cells, fields, strict=True):
                    columns.append(_packed(batch, cell, field.type))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return rows.mapped(packed, schema)

    def connected(
        self,
        keyed: LocalRows,
        broadcast: LocalRows | None,
        order: str,
        descriptor: KeyedDescriptor,
        limit: int,
        parallelism: int,
    ) -> LocalRows:
        """Distribute rows by key. Broadcast ones come before those of every part."""
        placed = self.by_key(keyed, descriptor, limit, parallelism)
        if broadcast is None:
            return placed
        schema = keyed.schema.append(pa.field(order, pa.int64()))
        every = broadcast

        def part(own: Part) -> Iterator[pa.RecordBatch]:
            begin = 0
            for batch in every.batches():
                numbers = pa.array(np.arange(begin, begin + batch.num_rows, dtype=np.int64))
                begin += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)
            for batch in own():
                none = pa.nulls(batch.num_rows, pa.int64())
                yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)

        return LocalRows(schema, tuple(partial(part, own) for own in placed.parts), placed.layout)

    def made(self, rows: LocalRows, task: PartTask, schema: pa.Schema, layout: Distribution | None) -> LocalRows:
        """Return what copies of a task make of the parts, one after the other."""
        parts = tuple(partial(_run, task, number, part) for number, part in enumerate(rows.parts))
        return LocalRows(schema, parts, layout, laid_out=layout is not None)

    def yielded(self, rows: LocalRows, task: PartTask, columns: object) -> LocalTable:
        """Return what copies of a task yield for the parts."""
        schema = arrow_columns(columns)
        output = self.made(rows, task, schema, None)
        return ComputedTable(schema, lambda: map(_without_nulls, output.batches()))

    def explaining(self) -> AbstractContextManager[None]:
        """Explain nothing: there is one Python."""
        return nullcontext()

    def showing(self, what: str) -> AbstractContextManager[None]:
        """Show the progress of the work."""
        return progress.showing(what)


def _without_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch, or raise ValueRangeError for a NULL in a column that is NOT NULL."""
    for column, field in zip(batch.columns, batch.schema, strict=True):
        if column.null_count and not field.nullable:
            raise ValueRangeError(
                f"column {field.name!r} has NULLs, but the given schema says NOT NULL",
                remedy="leave NOT NULL out of the schema",
            )
    return batch


#: Parts that are written to a store at a time, while one is sent, others are read and merged: at least and at most, and
#: the bytes of state that all of them may have.
LANES, MOST_LANES, LANE_BYTES = 3, 64, 64 << 20
#: Operators that are written at a time at most, and the bytes of their state: what is read and what is sent are in
#: memory. The lanes are those by which the memory of one of them is divided.
MOST_OPERATORS, OPERATOR_BYTES = 32, 32 << 20
_LANES: ContextVar[int] = ContextVar("lanes", default=1)


def _written(
    plan: WritePlan,
    parts: Sequence[Part],
    file_bytes: Callable[[], int] | None,
    stay: Callable[[Collection[int]], None] | None,
) -> list[TaskOutput]:
    """Write the parts one after the other, to a store several at a time: entries of existing operators, or of files.

    Parts without rows are left out if the files of their subtasks stay as they are, which ``stay`` is told.
    """
    numbers = [number for number, part in enumerate(parts) if number not in plan.unchanged or _has_rows(part)]
    left_out = frozenset(range(len(parts))).difference(numbers)
    if stay is not None:
        stay(left_out)
    for _ in left_out:
        progress.part_done()
    operators = _LANES.get()
    if plan.staging.filesystem.is_remote and len(numbers) * operators > 1:
        some = [(number, parts[number]) for number in numbers]
        if plan.request.bases:
            with bases_ahead(plan, numbers) as size:
                return _written_together(plan, some, size)
        if file_bytes is not None:
            return _written_together(plan, some, file_bytes())
    plan = _in_lanes(plan, operators)
    return [write_rows(plan, number, _counted(parts[number])) for number in numbers]


def _has_rows(part: Part) -> bool:
    return any(batch.num_rows for batch in part())


def _in_lanes(plan: WritePlan, lanes: int) -> WritePlan:
    """Return the plan of a write that has a part of the memory."""
    return replace(plan, request=replace(plan.request, sort_memory=plan.request.sort_memory // lanes))


def _written_together(plan: WritePlan, parts: Sequence[tuple[int, Part]], size: int) -> list[TaskOutput]:
    """Write as many of the numbered parts at a time as their bytes allow."""
    lanes = max(LANES, min(MOST_LANES, LANE_BYTES * len(parts) // max(size, 1)))
    plan = _in_lanes(plan, min(lanes, len(parts) * _LANES.get()))
    context = copy_context()

    def write(number: int, part: Part) -> TaskOutput:
        return context.copy().run(write_rows, plan, number, _counted(part))

    with ThreadPoolExecutor(lanes) as pool:
        written = [pool.submit(write, *part) for part in parts]
        try:
            return [future.result() for future in written]
        finally:
            pool.shutdown(cancel_futures=True)


def _counted(part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a part that is written, and count them."""
    for batch in part():
        progress.rows(batch.num_rows)
        yield batch
    progress.part_done()


def _run(task: PartTask, number: int, part: Part) -> Iterator[pa.RecordBatch]:
    yield from copy_of(task).run(number, part())


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _packed_type(cell: Cell) -> pa.DataType:
    """Return the type of a cell: that of one column, or a struct of several."""
    fields = [cell.typed.schema.field(name) for name in cell.like]
    return pa.struct(fields) if cell.is_struct else fields[0].type


def _packed(batch: pa.RecordBatch, cell: Cell, kind: pa.DataType) -> pa.Array:
    if cell.columns is None:
        return pa.nulls(batch.num_rows, kind)
    columns = [batch.column(name) for name in cell.columns]
    return pa.StructArray.from_arrays(columns, fields=list(kind)) if cell.is_struct else columns[0].cast(kind)


def _applied(function: BatchFunction, part: Part) -> Iterator[pa.RecordBatch]:
    return iter(function(part()))


def _warn(note: str) -> None:
    warnings.warn(note, SavepointWarning, stacklevel=2)


def _of_pandas(frame: Any) -> pa.Table:
    """Return the rows of a DataFrame; what is missing in it, such as NaN, is NULL."""
    names = list(map(str, getattr(frame, "columns", ())))
    if len(set(names)) == len(names):  # else from_pandas raises an error of its own words
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
            raise OptionError(
                "rows of pandas cannot be taken as Arrow",
                expected="a pandas.DataFrame whose columns have values of one type each",
                found=": ".join(map(str, reversed(error.args))) or type_name(frame),
                remedy="cast the column, such as with astype('string'), or give a pyarrow.Table",
            ) from None
    raise OptionError(
        "several columns have the same name",
        found=", ".join(repr(name) for name, count in Counter(names).items() if count > 1),
        remedy="drop or rename all but one of them",
    )


#: Readers of users whose rows were read.
_READ: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()


def _once(reader: pa.RecordBatchReader) -> Part:
    """Return the batches of a reader, which can be read once."""

    def batches() -> Iterator[pa.RecordBatch]:
        if reader in _READ:
            raise OptionError(
                "the rows of a RecordBatchReader were read already",
                remedy="give a pyarrow.Table, or a new reader to each savepoint that is written; "
                "with_state compares keys, and reads them twice unless replace=True",
            )
        _READ.add(reader)
        return iter(reader)

    return batches


def _batches_of(dataset: Any) -> Iterator[pa.RecordBatch]:
    """Return the rows of files in their order, a few batches at a time, as often as they are asked for."""
    batches: Iterator[pa.RecordBatch] = dataset.to_batches(
        batch_size=DATASET_ROWS, batch_readahead=1, fragment_readahead=1
    )
    return batches


def _of_stream(stream_schema: pa.Schema, part: Part) -> LocalRows:
    """Return rows of a user with types that Flink's can be derived from, which are those that Spark would give."""
    schema = pa.schema([pa.field(field.name, _plain(field.type, field.name)) for field in stream_schema])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in part():
            columns = []
            for column, field in zip(batch.columns, schema, strict=True):
                try:
                    columns.append(column if column.type == field.type else column.cast(field.type))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise ValueRangeError(
                        f"column {field.name!r} has values that cannot be written as {field.type}",
                        found=str(error).splitlines()[0],
                        remedy="cast the column, such as to microseconds",
                    ) from None
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return LocalRows(schema, (batches,))


def _parsed(options: ReadOptions) -> SavepointReadOptions:
    return options if isinstance(options, SavepointReadOptions) else SavepointReadOptions.parse(dict(options))


_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def _plain(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type that a column of a user is written from."""
    types = pa.types
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_dictionary(kind):
        return _plain(kind.value_type, name)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type, f"{name}.{field.name}")) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type, name), _plain(kind.item_type, name))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type, name))
    plain_types = (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())
    others = (pa.binary(), pa.date32(), pa.null())
    if kind in (*plain_types, *others) or types.is_decimal128(kind) or types.is_duration(kind):
        return kind
    raise OptionError(
        "a column has an Arrow type that state of Flink is not written from",
        found=f"{name} {kind}",
        remedy=_cast_of(kind),
    )


def _cast_of(kind: pa.DataType) -> str:
    """Return how a column becomes one that is written."""
    types = pa.types
    if isinstance(kind, pa.ListViewType | pa.LargeListViewType):
        return f"cast it: column.cast(pyarrow.list_({kind.value_type}))"
    if types.is_run_end_encoded(kind):
        return "decode it: pyarrow.compute.run_end_decode(column)"
    if isinstance(kind, pa.BaseExtensionType):
        return f"take its storage: column.cast({kind.storage_type}), or cast it to string"
    return "cast it, such as to int64 or string"


def _distributed(
    rows: LocalRows, key_groups: Callable[[pa.RecordBatch], pa.Array], limit: int, parallelism: int
) -> LocalRows:
    """Return the rows with a part for each subtask. Those of several are kept in files until they are written."""
    layout = Distribution(limit, parallelism)
    if parallelism == 1:
        return LocalRows(rows.schema, (rows.batches,), layout)
    spilled: list[_SpillFolder] = []
    once = threading.Lock()  # parts may be written by several threads

    def folder() -> Path:
        with once:
            if not spilled:
                new = _SpillFolder()
                _spill(rows, key_groups, layout, new.path)
                spilled.append(new)
        return spilled[0].path

    def part(number: int) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(folder() / str(number))) as file, pa.ipc.open_stream(file) as stream:
            yield from stream

    parts = tuple(partial(part, number) for number in range(parallelism))
    return LocalRows(
        rows.schema, parts, layout, file_bytes=lambda: sum(file.stat().st_size for file in folder().iterdir())
    )


class _SpillFolder:
    """A temporary folder that is removed with the rows whose files it has, or when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="savepoint-", dir=local_directory()))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _spill(
    rows: LocalRows, key_groups: Callable[[pa.RecordBatch], pa.Array], layout: Distribution, folder: Path
) -> None:
    """Write the rows of each subtask to a file of its own, which gets a piece of each batch."""
    with ExitStack() as stack:
        sinks = []
        for number in range(layout.parallelism):
            file = stack.enter_context(pa.OSFile(str(folder / str(number)), "wb"))
            sinks.append(stack.enter_context(pa.ipc.new_stream(file, rows.schema)))
        for batch in gathered(rows.batches()):
            groups = fixed_values(key_groups(batch), np.int32).astype(np.int64)
            subtasks = groups * layout.parallelism // layout.max_parallelism
            order = np.argsort(subtasks, kind="stable")
            sorted_batch = batch.take(pa.array(order))
            ends = np.searchsorted(subtasks[order], np.arange(layout.parallelism + 1))
            for number in np.unique(subtasks).tolist():
                start, end = int(ends[number]), int(ends[number + 1])
                sinks[number].write_batch(sorted_batch.slice(start, end - start))


def _state_windows(sets: LocalRows, lookup: SessionLookup) -> dict[str, Any]:
    """Return the state window of every session, and of every state window itself, by key and window as text."""
    windows: dict[str, Any] = {}
    for batch in sets.batches():
        keys, pairs = batch.column("key").to_pylist(), batch.column(lookup.state).to_pylist()
        for key_column, sessions in zip(keys, pairs, strict=True):
            key = tuple(key_column.values()) if len(lookup.keys) > 1 else (key_column,)
            for pair in sessions or ():
                session, window = pair if lookup.is_map else (pair["f0"], pair["f1"])
                windows.setdefault(repr((key, window)), window)
                windows[repr((key, session))] = window
    return windows


def _expect_same(sessions: list[Any], expected: list[Any], actual: list[Any], lookup: SessionLookup) -> None:
    """Raise ValueRangeError for a row that names another state window than its session has."""
    for session, state_window, actual_window in zip(sessions, expected, actual, strict=True):
        if state_window != actual_window:
            raise ValueRangeError(
                f"{lookup.other}{session} is stored under {state_window}, not under {actual_window}. {lookup.drop}"
            )
