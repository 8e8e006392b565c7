"""Catalog tables by name: their columns and rows; ``states`` of many operators is read in several partitions.

State that only its owner can read is bytes: of coordinators and master hooks, and raw state of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import ByteSource
from pyspark_savepoint.formats.metadata import VERSIONS, OperatorState, with_uids
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.formats.snapshot.needed_files import needed_files, parts_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.catalog.rows import (
    BYTES,
    INT,
    LONG,
    OPERATOR,
    TEXT,
    Row,
    channels,
    identity,
    operators,
    schema,
)
from pyspark_savepoint.statebackends.catalog.statements import create_statements, drop_statements, name_tables
from pyspark_savepoint.statebackends.catalog.states import STATES, master_states, operator_states, states
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_columns
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources

COORDINATOR_STATE = schema(**OPERATOR, value=BYTES)
MASTER_STATE = schema(name=TEXT, version=INT, value=BYTES)
RAW_OPERATOR_STATE = schema(**OPERATOR, subtask=INT, name=TEXT, value=BYTES)
RAW_KEYED_STATE = schema(**OPERATOR, subtask=INT, key_group=INT, value=BYTES)
#: Size in bytes of state whose reading takes about as long as opening a file and reading its header.
BYTES_PER_HEADER = 1 << 10


def coordinator_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield the state of each operator's coordinator."""
    for operator in operators(savepoint, request):
        if operator.coordinator_state is not None:
            yield {**identity(operator), "value": operator.coordinator_state.data}


def master_state(savepoint: Snapshot, _request: TableRequest) -> Iterator[Row]:
    """Yield the state of master hooks."""
    for master in savepoint.metadata.master_states:
        yield {"name": master.name, "version": master.version, "value": master.data}


def raw_operator_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield each piece of an operator's raw streams, with the name of its list."""
    for operator in operators(savepoint, request):
        for source in operator_sources(savepoint, operator, raw=True):
            places = sorted((offset, state.name) for state in source.states for offset in state.offsets)
            with source.location.open() as stream:
                for (start, name), end in zip(places, [*(p for p, _ in places), stream.size][1:], strict=True):
                    value = _piece(stream, start, end, operator)
                    yield {**identity(operator), "subtask": source.subtask, "name": name, "value": value}


def raw_keyed_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield each key group of an operator's raw keyed state."""
    for operator in operators(savepoint, request):
        for index in sorted(operator.subtasks):
            handle = operator.subtasks[index].raw_keyed_state
            if not isinstance(handle, KeyGroupsStateHandle):
                continue
            places = sorted((offset, group) for group, offset in handle.offsets if offset >= 0)
            with savepoint.open_state(handle.delegate, operator) as stream:
                for (start, group), end in zip(places, [*(p for p, _ in places), stream.size][1:], strict=True):
                    if request.select_key_groups((group,)):
                        value = _piece(stream, start, end, operator)
                        yield {**identity(operator), "subtask": index, "key_group": group, "value": value}


def _piece(stream: ByteSource, start: int, end: int, operator: OperatorState) -> bytes:
    try:
        return stream.read(start, max(0, end - start))
    except SavepointError as error:
        raise error.with_facts(operator=operator.label) from None


def _metadata(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    for operator in operators(savepoint, request):
        inputs, outputs = channels(operator)
        yield {
            "checkpoint_id": savepoint.metadata.checkpoint_id,
            **identity(operator),
            "operator_parallelism": operator.parallelism,
            "operator_max_parallelism": operator.max_parallelism,
            "operator_subtask_state_count": len(operator.subtasks),
            "operator_finished_subtask_count": len(finished_subtasks(operator)),
            "operator_coordinator_state_size_in_bytes": operator.coordinator_state_size,
            "operator_total_size_in_bytes": operator.state_size,
            "operator_channel_state_count": len(inputs) + len(outputs),
            "operator_input_channel_state_size_in_bytes": sum(max(0, handle.state_size) for handle in inputs),
            "operator_output_channel_state_size_in_bytes": sum(max(0, handle.state_size) for handle in outputs),
        }


def _statements(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    tables = name_tables(list(states(savepoint, request)))
    created = enumerate(create_statements(tables, request.path, {}))
    dropped = enumerate(drop_statements(tables))
    for action, numbered in (("create", created), ("drop", dropped)):
        for position, (namespace, statement) in numbered:
            yield {"action": action, "position": position, "namespace": namespace, "statement": statement}


def _files(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    for operator in operators(savepoint, request):
        for subtask, part, names, handles in parts_of(operator):
            for file in needed_files(savepoint, handles):
                yield {
                    **identity(operator),
                    "subtask": subtask,
                    "part": part,
                    "states": list(names) or None,
                    "folder": file.folder,
                    "bytes": file.size,
                    "path": file.path,
                }


class Entry(NamedTuple):
    """What a catalog table is: its columns, and what reads its rows."""

    schema: pa.Schema
    rows: Callable[[Snapshot, TableRequest], Iterator[Row]] | None


#: All catalog tables; ``snapshots`` is of a folder, not of a snapshot.
ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "states": Entry(STATES, states),
        "metadata": Entry(
            schema(
                checkpoint_id=LONG,
                operator_name=TEXT,
                operator_uid=TEXT,
                operator_uid_hash=TEXT,
                operator_parallelism=INT,
                operator_max_parallelism=INT,
                operator_subtask_state_count=INT,
                operator_finished_subtask_count=INT,
                operator_coordinator_state_size_in_bytes=LONG,
                operator_total_size_in_bytes=LONG,
                operator_channel_state_count=INT,
                operator_input_channel_state_size_in_bytes=LONG,
                operator_output_channel_state_size_in_bytes=LONG,
            ),
            _metadata,
        ),
        "files": Entry(
            schema(**OPERATOR, subtask=INT, part=TEXT, states=pa.list_(TEXT), folder=TEXT, bytes=LONG, path=TEXT),
            _files,
        ),
        "snapshots": Entry(
            schema(
                path=TEXT,
                checkpoint_id=LONG,
                time=pa.timestamp("us", tz="UTC"),
                kind=TEXT,
                size_in_bytes=LONG,
                problem=TEXT,
            ),
            None,
        ),
        "statements": Entry(schema(action=TEXT, position=INT, namespace=TEXT, statement=TEXT), _statements),
        "coordinator_state": Entry(COORDINATOR_STATE, coordinator_state),
        "master_state": Entry(MASTER_STATE, master_state),
        "raw_operator_state": Entry(RAW_OPERATOR_STATE, raw_operator_state),
        "raw_keyed_state": Entry(RAW_KEYED_STATE, raw_keyed_state),
    }
)
SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType({name: entry.schema for name, entry in ENTRIES.items()})


@dataclass(frozen=True)
class CatalogTable:
    """Table about a snapshot; only ``states``, which reads a header per handle, has several partitions.

    ``digest`` is that of the metadata, ``handles`` has the number of handles of each operator.
    """

    request: TableRequest
    name: str
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None
    digest: bytes = b""
    handles: tuple[int, ...] = ()

    @classmethod
    def of(cls, request: TableRequest, name: str) -> CatalogTable:
        """Return the table of a name; raise an error if the snapshot does not exist."""
        if name == "snapshots":
            return cls(request, name, SCHEMAS[name])
        savepoint = opened(request)
        selected = operators(savepoint, request)
        if request.key_groups is not None and selected:
            request.check_key_groups(max(operator.max_parallelism for operator in selected))
        handles = tuple(len(operator.subtasks) for operator in selected) if name == "states" else ()
        warnings = _without_uids(savepoint, selected) if name in ("states", "metadata") else ()
        return cls(request, name, SCHEMAS[name], warnings, digest=savepoint.digest, handles=handles)

    @property
    def state_bytes(self) -> int:
        """Return the bytes whose reading takes about as long as reading the headers."""
        return BYTES_PER_HEADER * sum(self.handles)

    def select(self, columns: Sequence[str]) -> CatalogTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition; of ``states`` as many as wanted, of about as many handles each."""
        partitions: list[TablePartition] = []
        share = max(1, -(-sum(self.handles) // (parallelism or 1)))  # operators without handles take no partition
        start = waiting = 0
        for index, count in enumerate(self.handles):
            waiting += count
            if waiting >= share and index + 1 < len(self.handles):
                partitions.append(StatesPartition(self.request, self.schema, self.digest, start, index + 1))
                start, waiting = index + 1, 0
        if partitions:
            return [*partitions, StatesPartition(self.request, self.schema, self.digest, start, None)]
        return [CatalogPartition(self.request, self.name, self.schema)]


@dataclass(frozen=True)
class CatalogPartition:
    """All rows of a catalog table."""

    request: TableRequest
    name: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        return to_batches(self.rows(), self.schema, self.request.batch_rows)

    def rows(self) -> Iterator[Row]:
        """Yield the rows, with the values that they have."""
        read = ENTRIES[self.name].rows
        if read is None:
            for snapshot in find_snapshots(self.request.path):
                yield {
                    "path": snapshot.path,
                    "checkpoint_id": snapshot.checkpoint_id,
                    "time": None if snapshot.modified is None else datetime.fromtimestamp(snapshot.modified, UTC),
                    "kind": snapshot.kind.value,
                    "size_in_bytes": snapshot.size,
                    "problem": snapshot.problem,
                }
            return
        savepoint = opened(self.request)
        yield from read(savepoint, self.request.of_version(savepoint.metadata.version))


@dataclass(frozen=True)
class StatesPartition:
    """Rows of table ``states``: those of some operators; the last partition also has those of master hooks."""

    request: TableRequest
    schema: pa.Schema
    digest: bytes
    start: int
    end: int | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        return to_batches(self.rows(), self.schema, self.request.batch_rows)

    def rows(self) -> Iterator[Row]:
        """Yield the rows, with the values that they have."""
        savepoint = opened(self.request)
        savepoint.expect_version(self.digest)
        request = self.request.of_version(savepoint.metadata.version)
        yield from operator_states(savepoint, operators(savepoint, request)[self.start : self.end], request)
        if self.end is None:
            yield from master_states(savepoint)


def to_batches(rows: Iterator[Row], schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches."""
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        # Bytes can be large: use small batches.
        if len(waiting) >= min(64 if "value" in row else batch_rows, batch_rows):
            yield _batch(waiting, schema)
            waiting = []
    if waiting:
        yield _batch(waiting, schema)


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_map(field.type):
            values = [list(value.items()) if value is not None else None for value in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _without_uids(savepoint: Snapshot, operators: Sequence[OperatorState]) -> tuple[str, ...]:
    """Return a warning if operators have no uid, with the reason and a remedy."""
    count = sum(operator.uid is None for operator in operators)
    if not count:
        return ()
    version = savepoint.metadata.version
    many = f"{count} of {len(operators)} operators have no uid here"
    if not VERSIONS[version].has_names:
        why = f"metadata of version {version} (Flink {VERSIONS[version].releases}) has hashes of uids alone"
        return (f"{many}: {why}; option 'uids' takes the uids of the job's code, and finds their operators",)
    return (
        f"{many}: the job sets none, so their ids depend on its graph; option 'node' selects them by their node in it",
    )


def opened(request: TableRequest) -> Snapshot:
    """Open the snapshot of a request; operators get the uids that the request names."""
    snapshot = Snapshot.open(
        request.path, allow_outside=request.allow_outside, checksums=request.checksums, classes=request.classes
    )
    return replace(snapshot, metadata=with_uids(snapshot.metadata, request.uids)) if request.uids else snapshot
