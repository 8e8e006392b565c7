"""Values that a user gives by columns which are not the key: both sides are sorted by them, in bounded memory.

Each row of a state asks for a value: by columns of its own, under the key of NEW. The rows of the user, which have
these columns and the value, answer. What comes out are rows of the user with the key, which are found by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import struct_array
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.statebackends.evolution.changes import Expression, StateChange
from pyspark_savepoint.statebackends.evolution.exact import as_given, raw_type
from pyspark_savepoint.statebackends.evolution.rewriting.batches import of_each
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import EXACT
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, OldStates
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import missing_row, two_values
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values
from pyspark_savepoint.statebackends.evolution.shapes import Column
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.rows.sorting import RowSorter, SortedBatch

#: Types of columns that rows are sorted by.
SORTED = frozenset(
    {
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "BOOLEAN", "CHAR", "VARCHAR", "BINARY", "VARBINARY",
        "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    }
)  # fmt: skip
#: Columns of both sides: those that are compared, the key of a row that asks, and the value of one that answers.
BY, ASKS, VALUE = "__by", "__asks", "__value"


@dataclass(frozen=True)
class FoundTable:
    """A table of the user: its name, the columns that find a row, with where a state's row has the same, the value.

    ``state`` is the change of the state whose rows ask, ``key`` are the columns of NEW's key.
    """

    name: str
    by: tuple[tuple[Column, Expression], ...]
    value: Column
    state: StateChange
    key: tuple[Column, ...]

    @property
    def serializer(self) -> TypeSerializer:
        """The serializer of the columns that are compared."""
        serializer = parse_type(f"ROWDATA<{', '.join(str(_nullable(column).kind) for column, _ in self.by)}>")
        assert isinstance(serializer, RowDataSerializer)
        return serializer.as_key()

    @property
    def descriptor(self) -> KeyedDescriptor:
        """By what both sides are distributed and sorted."""
        return KeyedDescriptor((BY,), self.serializer, ())

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        key = pa.struct([pa.field(column.name, raw_type(column.kind)) for column in self.key])
        value = raw_type(_nullable(self.value).kind)
        return pa.schema([pa.field(BY, self.serializer.arrow_type(EXACT)), pa.field(ASKS, key), pa.field(VALUE, value)])

    @property
    def found_schema(self) -> pa.Schema:
        """The columns of the user's rows with the key."""
        names = {column.name for column in self.key}
        columns = [*self.key, *(_nullable(column) for column, _ in self.by if column.name not in names), self.value]
        return pa.schema([pa.field(column.name, raw_type(column.kind)) for column in columns])


def _nullable(column: Column) -> Column:
    return replace(column, kind=replace(column.kind, nullable=True))


@dataclass(frozen=True)
class AskingRows:
    """Function of batches: rows of OLD's states, under the keys of NEW, to what they ask for."""

    table: FoundTable
    old: OldStates
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each row of the state."""
        yield from of_each(self._of_batch, batches, self.label)

    def _of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self.table.state.old is not None
        keys = KeyRows(len(batch), tuple(batch.column(KEY).flatten()), self.old.rows(batch))
        rows = keys.states[self.table.state.old.name]
        values = Values(keys, rows, self.table.state.old.name)
        by = [values.of(source, _nullable(column).kind, column.name) for column, source in self.table.by]
        key = [one.take(pa.array(rows.owner)) for one in keys.key]
        return _rows(self.table.schema, len(rows), by, key, None)


@dataclass(frozen=True)
class AnsweringRows:
    """Function of batches: rows of the user to what they answer."""

    table: FoundTable

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each."""
        for batch in batches:
            *by, values = (
                as_given(batch.column(column.name), _nullable(column).kind, column.name, self.table.name)
                for column in (*(column for column, _ in self.table.by), self.table.value)
            )
            yield _rows(self.table.schema, len(batch), by, None, values)


def _rows(
    schema: pa.Schema, count: int, by: Sequence[pa.Array], key: Sequence[pa.Array] | None, value: pa.Array | None
) -> pa.RecordBatch:
    whole = struct_array(schema.field(BY).type, [pa.concat_arrays([one]) for one in by], count)
    asks = schema.field(ASKS).type
    keys = pa.nulls(count, asks) if key is None else struct_array(asks, [pa.concat_arrays([one]) for one in key], count)
    values = pa.nulls(count, schema.field(VALUE).type) if value is None else value
    return pa.RecordBatch.from_arrays([whole, keys, values], schema=schema)


@dataclass(frozen=True)
class FoundRows:
    """Function of batches that have all rows of the same columns: what is asked for with its answer, sorted on disk."""

    table: FoundTable
    max_parallelism: int
    memory: int
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each that asks; raise ValueRangeError for one without an answer, or with two."""
        codec = KeyCodec(self.table.descriptor, self.max_parallelism)
        last: SortedBatch | None = None
        with RowSorter(self.table.schema, self.memory) as sorter:
            for batch in batches:
                encoded = codec.encode(batch)
                # The bytes of no row begin with those of another, so that a byte behind them puts the answer first.
                sign = pc.if_else(batch.column(ASKS).is_valid(), pa.scalar(b"\1"), pa.scalar(b"\0"))
                sorter.add(encoded.key_group, pc.binary_join_element_wise(encoded.key, sign, b""), batch)
            for batch in sorter.sorted():
                if not len(batch):
                    continue
                try:
                    answered, last = self._answered(batch if last is None else _joined(last, batch))
                except SavepointError as error:
                    raise error.with_facts(operator=self.label) from None
                if len(answered):
                    yield answered

    def _answered(self, batch: SortedBatch) -> tuple[pa.RecordBatch, SortedBatch | None]:
        """Return what is asked for with its answer, and the answer for rows that may follow."""
        asks = np.asarray(batch.rows.column(ASKS).is_valid())
        same = pc.binary_slice(batch.key, 0, -1)
        begins = np.ones(len(batch), np.bool_)
        begins[1:] = np.asarray(pc.not_equal(same[1:], same[:-1])) | (np.diff(batch.key_group) != 0)
        number = np.cumsum(begins)
        twice = np.flatnonzero(~begins & ~asks)
        if len(twice):
            raise two_values(self.table.name, self._names, self._values(batch, int(twice[0])))
        answer = np.maximum.accumulate(np.where(asks, -1, np.arange(len(batch))))
        missing = np.flatnonzero(asks & ((answer < 0) | (number[answer] != number)))
        if len(missing):
            raise missing_row(self.table.name, self._names, self._values(batch, int(missing[0])))
        last = int(answer[-1])
        follows = last >= 0 and number[last] == number[-1]
        rows = self._found(batch.rows, np.flatnonzero(asks), answer[asks])
        return rows, batch.cut(last, last + 1) if follows else None

    def _found(self, rows: pa.RecordBatch, asking: np.ndarray, answer: np.ndarray) -> pa.RecordBatch:
        places = pa.array(asking)
        keys = rows.column(ASKS).take(places).flatten()
        by = dict(zip(self._names, rows.column(BY).take(places).flatten(), strict=True))
        columns = {column.name: values for column, values in zip(self.table.key, keys, strict=True)}
        columns = {**by, **columns, self.table.value.name: rows.column(VALUE).take(pa.array(answer))}
        schema = self.table.found_schema
        return pa.RecordBatch.from_arrays([columns[one.name] for one in schema], schema=schema)

    @property
    def _names(self) -> list[str]:
        return [column.name for column, _ in self.table.by]

    @staticmethod
    def _values(batch: SortedBatch, row: int) -> list[object]:
        return list(batch.rows.column(BY)[row].as_py().values())


def _joined(one: SortedBatch, other: SortedBatch) -> SortedBatch:
    rows = pa.concat_batches([one.rows, other.rows])
    groups = np.concatenate([one.key_group, other.key_group])
    return SortedBatch(groups, pa.concat_arrays([one.key, other.key]), rows)
