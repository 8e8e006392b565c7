"""Catalog tables by name: their columns, and rows that are read in one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.snapshot.savepoint import Savepoint, find_snapshots
from pyspark_savepoint.statebackends.catalog import raw
from pyspark_savepoint.statebackends.catalog.rows import INT, LONG, TEXT, Row, channels, identity, operators, schema
from pyspark_savepoint.statebackends.catalog.statements import create_statements, drop_statements, name_tables
from pyspark_savepoint.statebackends.catalog.states import STATES, states
from pyspark_savepoint.statebackends.model.request import TablePartition, TableRequest, choose_columns

SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "states": STATES,
        "metadata": schema(
            checkpoint_id=LONG,
            operator_name=TEXT,
            operator_uid=TEXT,
            operator_uid_hash=TEXT,
            operator_parallelism=INT,
            operator_max_parallelism=INT,
            operator_subtask_state_count=INT,
            operator_coordinator_state_size_in_bytes=LONG,
            operator_total_size_in_bytes=LONG,
            operator_channel_state_count=INT,
            operator_input_channel_state_size_in_bytes=LONG,
            operator_output_channel_state_size_in_bytes=LONG,
        ),
        "snapshots": schema(
            path=TEXT,
            checkpoint_id=LONG,
            time=pa.timestamp("us", tz="UTC"),
            kind=TEXT,
            size_in_bytes=LONG,
            problem=TEXT,
        ),
        "statements": schema(action=TEXT, position=INT, namespace=TEXT, statement=TEXT),
        "coordinator_state": raw.COORDINATOR_STATE,
        "master_state": raw.MASTER_STATE,
        "raw_operator_state": raw.RAW_OPERATOR_STATE,
        "raw_keyed_state": raw.RAW_KEYED_STATE,
    }
)


def _metadata(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in operators(savepoint, request):
        inputs, outputs = channels(operator)
        yield {
            "checkpoint_id": savepoint.metadata.checkpoint_id,
            **identity(operator),
            "operator_parallelism": operator.parallelism,
            "operator_max_parallelism": operator.max_parallelism,
            "operator_subtask_state_count": len(operator.subtasks),
            "operator_coordinator_state_size_in_bytes": operator.coordinator_state_size,
            "operator_total_size_in_bytes": operator.state_size,
            "operator_channel_state_count": len(inputs) + len(outputs),
            "operator_input_channel_state_size_in_bytes": sum(max(0, handle.state_size) for handle in inputs),
            "operator_output_channel_state_size_in_bytes": sum(max(0, handle.state_size) for handle in outputs),
        }


def _statements(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    tables = name_tables(list(states(savepoint, request)))
    created = enumerate(create_statements(tables, request.path, {}))
    dropped = enumerate(drop_statements(tables))
    for action, numbered in (("create", created), ("drop", dropped)):
        for position, (namespace, statement) in numbered:
            yield {"action": action, "position": position, "namespace": namespace, "statement": statement}


READERS: Mapping[str, Callable[[Savepoint, TableRequest], Iterator[Row]]] = MappingProxyType(
    {
        "states": states,
        "metadata": _metadata,
        "statements": _statements,
        "coordinator_state": raw.coordinator_state,
        "master_state": raw.master_state,
        "raw_operator_state": raw.raw_operator_state,
        "raw_keyed_state": raw.raw_keyed_state,
    }
)


@dataclass(frozen=True)
class CatalogTable:
    """Table about a snapshot, with one partition."""

    request: TableRequest
    name: str
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None
    state_bytes: int = 0

    @classmethod
    def of(cls, request: TableRequest, name: str) -> CatalogTable:
        """Return the table of a name; raise an error if the snapshot does not exist."""
        if name != "snapshots":
            found = operators(opened(request), request)
            if request.key_groups is not None and found:
                request.check_key_groups(max(operator.max_parallelism for operator in found))
        return cls(request, name, SCHEMAS[name])

    def select(self, columns: Sequence[str]) -> CatalogTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        return [CatalogPartition(self.request, self.name, self.schema)]


@dataclass(frozen=True)
class CatalogPartition:
    """All rows of a catalog table."""

    request: TableRequest
    name: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        rows: list[Row] = []
        for row in self.rows():
            rows.append(row)
            # Bytes can be large: use small batches.
            if len(rows) >= min(64 if "value" in row else self.request.batch_rows, self.request.batch_rows):
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def rows(self) -> Iterator[Row]:
        """Yield the rows, with the values that they have."""
        if self.name == "snapshots":
            for found in find_snapshots(self.request.path):
                yield {
                    "path": found.path,
                    "checkpoint_id": found.checkpoint_id,
                    "time": None if found.modified is None else datetime.fromtimestamp(found.modified, UTC),
                    "kind": found.kind.value,
                    "size_in_bytes": found.size,
                    "problem": found.problem,
                }
            return
        savepoint = opened(self.request)
        yield from READERS[self.name](savepoint, self.request.of_version(savepoint.metadata.version))

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = []
        for field in self.schema:
            values = [row.get(field.name) for row in rows]
            if pa.types.is_map(field.type):
                values = [list(value.items()) if value is not None else None for value in values]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def opened(request: TableRequest) -> Savepoint:
    """Open the snapshot of a request."""
    return Savepoint.open(request.path, allow_outside=request.allow_outside, checksums=request.checksums)
