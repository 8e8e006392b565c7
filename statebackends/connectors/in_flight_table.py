"""Table ``in_flight``: the records and watermarks that wait in the queue of an asynchronous function for its answer.

    operator_uid, operator_uid_hash, operator_name, subtask, position, kind, timestamp, value

On restore Flink sends every record to the function again, in this order. The type of ``value`` stands in the savepoint;
a value that only the user's code reads is BINARY, with the bytes of the whole element, and no kind and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.connectors.kind import ASYNC_STATE
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.catalog.rows import INT, LONG, OPERATOR, TEXT, identity, operators, schema
from pyspark_savepoint.statebackends.catalog.table import opened
from pyspark_savepoint.statebackends.connectors.connector_states import list_states
from pyspark_savepoint.statebackends.model.request import TablePartition, TableRequest, choose_columns
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.operator_table import SUBTASK, VALUE, OperatorTable

KIND, TIMESTAMP, POSITION = "kind", "timestamp", "position"
COMMON = schema(**OPERATOR, subtask=INT, position=LONG, kind=TEXT, timestamp=LONG)


@dataclass(frozen=True)
class InFlightTable:
    """Queues of asynchronous functions, of one operator or of all; ``handles`` are the operators that have one."""

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    handles: tuple[int, ...]
    state_bytes: int
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @classmethod
    def of(cls, request: TableRequest) -> InFlightTable:
        """Return the table; the type of its values is that of the queues."""
        savepoint = opened(request)
        tables: dict[int, OperatorTable] = {}
        for index, operator in enumerate(operators(savepoint, request)):
            if ASYNC_STATE in list_states(operator):
                tables[index] = _queue(savepoint, request, index)
        kinds = {index: _value_type(table) for index, table in tables.items()}
        if len(set(kinds.values())) > 1:
            raise OptionError(
                "the queues of several operators have records of different types",
                path=savepoint.path,
                found=", ".join(f"{tables[index].operator.label}: {kind}" for index, kind in kinds.items()),
                remedy="name one operator with 'uid'",
            )
        value = next(iter(kinds.values()), pa.null())
        return cls(
            request,
            pa.schema([*COMMON, pa.field(VALUE, value)]),
            savepoint.digest,
            tuple(tables),
            sum(table.state_bytes for table in tables.values()),
            tuple(warning for table in tables.values() for warning in table.warnings),
        )

    def select(self, columns: Sequence[str]) -> InFlightTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, _parallelism: int | None) -> list[TablePartition]:
        """Return one partition for each operator."""
        return [InFlightPartition(self.request, self.schema, self.digest, index) for index in self.handles]


@dataclass(frozen=True)
class InFlightPartition:
    """The queue of one operator."""

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    index: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the elements, subtask after subtask, in the order of the queue."""
        savepoint = opened(self.request)
        savepoint.expect_version(self.digest)
        operator = operators(savepoint, self.request)[self.index]
        counts: dict[int, int] = {}
        for partition in _queue(savepoint, self.request, self.index).partitions(1):
            for batch in partition.batches():
                columns = {name: _repeated(text, len(batch)) for name, text in identity(operator).items()}
                columns[SUBTASK] = batch.column(SUBTASK)
                columns[POSITION] = _positions(batch.column(SUBTASK).to_numpy(), counts)
                columns |= _elements(batch.column(VALUE))
                arrays = [columns[field.name] for field in self.schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _queue(savepoint: Savepoint, request: TableRequest, index: int) -> OperatorTable:
    """Return the elements of an operator's queue as operator state."""
    wanted = replace(
        request.of_version(savepoint.metadata.version), state=ASYNC_STATE, include_key_group=True, given=frozenset()
    )
    return OperatorTable(OpenOperator(savepoint, operators(savepoint, request)[index]), wanted, ASYNC_STATE)


def _value_type(table: OperatorTable) -> pa.DataType:
    kind = table.schema.field(VALUE).type
    return kind.field(VALUE).type if pa.types.is_struct(kind) else kind


def _elements(elements: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(elements.type):
        return {KIND: pa.nulls(len(elements), TEXT), TIMESTAMP: pa.nulls(len(elements), LONG), VALUE: elements}
    return {name: elements.field(name) for name in (KIND, TIMESTAMP, VALUE)}


def _positions(subtasks: np.ndarray, counts: dict[int, int]) -> pa.Array:
    """Return the number of each element in the queue of its subtask; ``counts`` are those of earlier batches."""
    places = np.empty(len(subtasks), np.int64)
    for subtask in np.unique(subtasks).tolist():
        own = subtasks == subtask
        start = counts.get(subtask, 0)
        places[own] = start + np.arange(int(own.sum()))
        counts[subtask] = start + int(own.sum())
    return pa.array(places)


def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.array([text] * count, TEXT)
