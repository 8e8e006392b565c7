"""Collection of the rows that functions yield into batches of the declared schema, in sizes that bound memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from types import GeneratorType
from typing import Any, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError, ValueRangeError
from pyspark_savepoint.statebackends.processing.runtime.row import Row
from pyspark_savepoint.statebackends.processing.runtime.values import from_python

T = TypeVar("T")
#: First number of units, largest number of units, and target size of a batch in bytes.
FIRST, MOST, BYTES = 256, 8192, 16 << 20


class AdaptiveBatches:
    """Number of units per batch, updated after every batch from its size."""

    def __init__(self) -> None:
        self.units = FIRST

    def made(self, units: int, size: int) -> None:
        """Record that a number of units made a batch of ``size`` bytes."""
        self.units = max(1, min(MOST, BYTES * units // max(1, size)))

    def parts(self, units: list[T]) -> Iterator[list[T]]:
        """Yield units batch by batch; the caller reports each batch to :meth:`made`."""
        low = 0
        while low < len(units):
            part = units[low : low + self.units]
            low += len(part)
            yield part


#: Iterable types that are a single row or value, not a sequence of rows.
_NO_ROWS = (Row, Mapping, str, bytes)


def _check_rows(rows: Any) -> None:
    if isinstance(rows, _NO_ROWS) or not isinstance(rows, Iterable):
        raise TypeError(f"yield rows, or return a list of rows: the function returned one {type(rows).__name__}")


class Collector:
    """Collector of rows, with several thousand per batch; :meth:`of` sets their key, for errors."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._kind = pa.struct(list(schema))
        self._one = schema.names[0] if len(schema) == 1 else None
        self._rows: list[Any] = []
        self._batches = AdaptiveBatches()
        self._keys: list[Any] = []
        self._starts: list[int] = []

    def of(self, key: Any) -> None:
        """Set the key of the rows that follow."""
        start = len(self._rows)
        if self._starts and self._starts[-1] == start:
            self._keys[-1] = key
        else:
            self._keys.append(key)
            self._starts.append(start)

    def add(self, rows: Iterable[Any] | None) -> None:
        """Add the result of a function: rows, or None."""
        if rows is not None:
            if type(rows) is not GeneratorType and type(rows) is not list:
                _check_rows(rows)
            self._rows.extend(rows)

    def is_full(self) -> bool:
        """Return whether there are enough rows for a batch."""
        return len(self._rows) >= self._batches.units

    def full(self) -> Iterator[pa.RecordBatch]:
        """Yield a batch if there are enough rows for one."""
        if self.is_full():
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        rows, keys, starts, done = self._rows, self._keys, self._starts, 0
        # The last key may have more rows.
        self._rows, self._keys, self._starts = [], keys[-1:], [0] * len(keys[-1:])
        for part in self._batches.parts(rows):
            try:
                batch = self._batch(part)
            except SavepointError as error:
                index = bisect_right(starts, done + self._refused(part)) - 1
                raise error.with_facts(key=f"{keys[index]!r:.500}" if index >= 0 else None) from None
            self._batches.made(len(part), batch.nbytes)
            done += len(part)
            yield batch

    def _refused(self, rows: list[Any]) -> int:
        """Return the first row that does not fit the schema."""
        for index, row in enumerate(rows):
            try:
                self._batch([row])
            except SavepointError:
                return index
        return 0

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        if self._one is not None:
            column = from_python([self._value(row) for row in rows], self.schema.field(0).type, "column " + self._one)
            return pa.RecordBatch.from_arrays([column], schema=self.schema)
        table = from_python(rows, self._kind, "row")
        if table.null_count:
            raise ValueRangeError(
                "None is not a row",
                expected=str(self._kind),
                remedy="yield rows only; yield nothing if there is no row",
            )
        return pa.RecordBatch.from_arrays([table.field(i) for i in range(len(self.schema))], schema=self.schema)

    def _value(self, row: Any) -> Any:
        """Return the value of a row of a one-column schema: the row itself, or its only field."""
        if isinstance(row, Row) and row._fields == (self._one,):
            return row[0]
        if isinstance(row, Mapping) and row.keys() == {self._one}:
            return row[self._one]
        if isinstance(row, tuple) and len(row) == 1:
            return row[0]
        return row
