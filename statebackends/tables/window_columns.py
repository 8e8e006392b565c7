"""Tables of SQL's windows with columns for their starts and ends, besides the number that Flink keeps.

window_state   key, window, window_start, window_end, state...        slices: slice_start, slice_end
timers         key, namespace, window_start, window_end, timestamp...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import fixed_values
from pyspark_savepoint.statebackends.model.descriptors import NAMESPACE_COLUMN, WINDOW_COLUMN
from pyspark_savepoint.statebackends.model.request import Table, TablePartition, choose_columns
from pyspark_savepoint.statebackends.model.sql.window_spans import WindowSpan

#: A time as in SQL, which has no zone.
TIME = pa.timestamp("us")
MICROS = 1_000
#: Milliseconds beyond these are no microseconds of 64 bits.
LIMIT = (2**63 - 1) // MICROS
COMMENTS = {
    "window_start": b"start of the window",
    "window_end": b"end of the window, exclusive",
    "slice_start": b"start of the slice of windows",
    "slice_end": b"end of the slice of windows, exclusive",
}


@dataclass(frozen=True)
class WindowColumns:
    """Starts and ends of windows, from the numbers in another column."""

    span: WindowSpan
    source: str
    schema: pa.Schema

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the columns of the schema."""
        ends = batch.column(self.source)
        valid = np.asarray(ends.is_valid())
        numbers = fixed_values(ends.fill_null(0), np.int64)
        starts = numbers - self.span.size
        if self.span.cumulates:
            before = numbers - self.span.offset - 1
            starts = before - before % self.span.size + self.span.offset
        made = dict(zip(self.span.columns, (starts, numbers), strict=True))
        columns = [
            _times(made[field.name], valid) if field.name in made else batch.column(field.name) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _times(millis: np.ndarray, valid: np.ndarray) -> pa.Array:
    fits = valid & (millis > -LIMIT) & (millis < LIMIT)
    return pa.array(np.where(fits, millis, 0) * MICROS, pa.int64(), mask=~fits).cast(TIME)


@dataclass(frozen=True)
class PartitionOfWindows:
    """Partition whose batches get the columns."""

    inner: TablePartition
    columns: WindowColumns

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the partition."""
        for batch in self.inner.batches():
            yield self.columns.added(batch)


class TableOfWindows:
    """Table with columns for starts and ends of its windows."""

    def __init__(self, inner: Table, columns: WindowColumns) -> None:
        self.inner = inner
        self.columns = columns
        self.schema = columns.schema
        self.warnings = inner.warnings
        self.max_parallelism = inner.max_parallelism
        self.state_bytes = inner.state_bytes

    def select(self, columns: Sequence[str]) -> Table:
        """Return this table restricted to some columns."""
        chosen = choose_columns(self.schema, columns)
        own = self.columns.span.columns
        if not set(columns) & set(own):
            return self.inner.select(columns)
        stored = [name for name in columns if name not in own]
        needed = stored if self.columns.source in stored else [*stored, self.columns.source]
        return TableOfWindows(self.inner.select(needed), replace(self.columns, schema=chosen))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions."""
        return [PartitionOfWindows(partition, self.columns) for partition in self.inner.partitions(parallelism)]


def with_window_columns(table: Table, span: WindowSpan | None) -> Table:
    """Return the table with starts and ends of windows, if it has numbers for windows and no columns of that name."""
    source = next((name for name in (WINDOW_COLUMN, NAMESPACE_COLUMN) if name in table.schema.names), None)
    taken = {name.lower() for name in table.schema.names}
    if span is None or source is None or taken & set(span.columns):
        return table
    if table.schema.field(source).type != pa.int64():
        return table
    fields = list(table.schema)
    behind = table.schema.get_field_index(source) + 1
    fields[behind:behind] = [pa.field(name, TIME, metadata={b"comment": COMMENTS[name]}) for name in span.columns]
    return TableOfWindows(table, WindowColumns(span, source, pa.schema(fields)))
