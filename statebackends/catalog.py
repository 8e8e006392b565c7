"""Tables about a snapshot: what is inside (``states``), ``metadata``, ``snapshots``, and state that is only bytes.

states             one row per state: where it is, what it is, and the options that read it
metadata           one row per operator (FLIP-512's columns, and what is in flight of unaligned checkpoints)
snapshots          one row per snapshot below a folder
statements         the SQL that makes a database of the snapshot, and that which drops it (see module statements)
coordinator_state  operator, value                        raw_operator_state   operator, subtask, name, value
master_state       name, version, value                   raw_keyed_state      operator, subtask, key_group, value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.byte_source import ByteSource
from pyspark_savepoint.formats.channel_handles import AnyChannelStateHandle
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.savepoint import Savepoint, find_snapshots
from pyspark_savepoint.statebackends.changelog.source import ChangelogSource
from pyspark_savepoint.statebackends.keyed_plan import is_key_value, is_namespaced, key_type, state_type
from pyspark_savepoint.statebackends.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.operator_table import operator_sources
from pyspark_savepoint.statebackends.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.request import TablePartition, TableRequest, choose_columns
from pyspark_savepoint.statebackends.state_column import has_ttl
from pyspark_savepoint.statebackends.statements import create_statements, drop_statements, name_tables
from pyspark_savepoint.statebackends.timer_queue import service_of
from pyspark_savepoint.statebackends.type_names import spark_type

Row = dict[str, Any]


def _schema(**fields: Any) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


TEXT, LONG, INT, FLAG, BYTES = pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.binary()
OPERATOR = {"operator_uid": TEXT, "operator_uid_hash": TEXT, "operator_name": TEXT}

SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "states": _schema(
            **OPERATOR,
            table=TEXT,
            state=TEXT,
            kind=TEXT,
            key_type=TEXT,
            namespace_type=TEXT,
            value_type=TEXT,
            spark_key_type=TEXT,
            spark_namespace_type=TEXT,
            spark_value_type=TEXT,
            ttl=FLAG,
            serializer=TEXT,
            options=pa.map_(TEXT, TEXT),
            note=TEXT,
        ),
        "metadata": _schema(
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
        "snapshots": _schema(
            path=TEXT,
            checkpoint_id=LONG,
            time=pa.timestamp("us", tz="UTC"),
            kind=TEXT,
            size_in_bytes=LONG,
            problem=TEXT,
        ),
        "statements": _schema(action=TEXT, position=INT, namespace=TEXT, statement=TEXT),
        "coordinator_state": _schema(**OPERATOR, value=BYTES),
        "master_state": _schema(name=TEXT, version=INT, value=BYTES),
        "raw_operator_state": _schema(**OPERATOR, subtask=INT, name=TEXT, value=BYTES),
        "raw_keyed_state": _schema(**OPERATOR, subtask=INT, key_group=INT, value=BYTES),
    }
)


def _identity(operator: OperatorState) -> Row:
    return {
        "operator_uid": operator.uid,
        "operator_uid_hash": str(operator.operator_id),
        "operator_name": operator.name,
    }


def _operators(savepoint: Savepoint, request: TableRequest) -> list[OperatorState]:
    named = (request.uid, request.uid_hash, request.operator_name)
    if any(name is not None for name in named):
        return [savepoint.operator(uid=named[0], uid_hash=named[1], name=named[2])]
    return list(savepoint.operators)


# -- states --------------------------------------------------------------------------------------------------


def _states(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in _operators(savepoint, request):
        reads = {"uid": operator.uid} if operator.uid else {"uidHash": str(operator.operator_id)}
        for part in (_keyed, _timers_on_the_heap, _operator_states, _bytes_only):
            try:
                for row in part(savepoint, operator, request):
                    row["options"] = {**reads, **row.get("options", {})}
                    yield {**_identity(operator), **row}
            except SavepointError as error:
                # One operator that cannot be read does not hide the others.
                yield {**_identity(operator), "note": str(error)}
    for master in savepoint.metadata.master_states:
        yield {"table": "master_state", "state": master.name, "kind": "MASTER", "options": {"table": "master_state"}}


def _keyed(savepoint: Savepoint, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    sources = keyed_sources(savepoint, operator)
    headers = [source.header() for source in sources]
    notes = [source.note for source in sources if isinstance(source, ChangelogSource) and source.note]
    metas: dict[tuple[str, bool], list[StateMetaInfoSnapshot]] = {}
    for header in headers:
        for meta in header.states:
            metas.setdefault((meta.name, is_key_value(meta)), []).append(meta)
    for (name, key_value), registered in metas.items():
        key = headers[0].key_serializer
        row = {
            "state": name,
            "key_type": key.flink_type,
            "spark_key_type": spark_type(
                key_type([h.key_serializer for h in headers], request.decode, "key" in request.raw)
            ),
            "kind": registered[0].state_type,
            "note": notes[0] if notes else None,
        }
        yield row | (_key_value(registered, request) if key_value else _timer(registered[0], request))


def _key_value(metas: list[StateMetaInfoSnapshot], request: TableRequest) -> Row:
    meta = metas[0]
    table = "window_state" if is_namespaced(meta) else "keyed_state"
    namespace = meta.namespace_serializer
    return {
        "table": table,
        "namespace_type": namespace.flink_type,
        "spark_namespace_type": spark_type(namespace.arrow_type(request.decode)),
        "value_type": meta.value_serializer.flink_type,
        "spark_value_type": spark_type(state_type(metas, request.decode, meta.name in request.raw)),
        "ttl": has_ttl(meta),
        "serializer": meta.value_serializer.snapshot_class,
        "options": {"table": table, "state": meta.name},
    }


def _timer(meta: StateMetaInfoSnapshot, request: TableRequest) -> Row:
    _, service = service_of(meta.name)
    parts = meta.value_serializer.children
    namespace = parts[1] if len(parts) == 2 else None
    return {
        "table": "timers",
        "namespace_type": namespace.flink_type if namespace else None,
        "spark_namespace_type": spark_type(namespace.arrow_type(request.decode)) if namespace else None,
        "value_type": "TIMER",
        "spark_value_type": "bigint",
        "ttl": False,
        "serializer": meta.value_serializer.snapshot_class,
        "options": {"table": "timers", "state": service},
    }


def _timers_on_the_heap(savepoint: Savepoint, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    seen = set()
    for source in raw_timer_sources(savepoint, operator):
        for queue in source.queues(request.decode):
            if (queue.domain, queue.service) in seen:
                continue
            seen.add((queue.domain, queue.service))
            yield {
                "table": "timers",
                "state": f"{queue.domain} {queue.service}",
                "kind": "TIMER",
                "key_type": queue.key.flink_type,
                "spark_key_type": spark_type(queue.key.arrow_type(request.decode)),
                "namespace_type": queue.namespace.flink_type,
                "spark_namespace_type": spark_type(queue.namespace.arrow_type(request.decode)),
                "value_type": "TIMER",
                "spark_value_type": "bigint",
                "ttl": False,
                "options": {"table": "timers", "state": queue.service},
                "note": "raw keyed state",
            }


def _operator_states(savepoint: Savepoint, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    seen = set()
    for source in operator_sources(savepoint, operator):
        for meta in source.header().states:
            if meta.name in seen:
                continue
            seen.add(meta.name)
            key = meta.serializers.get("KEY_SERIALIZER")
            value = meta.value_serializer
            kind = pa.binary() if value.opaque_parts() else value.arrow_type(request.decode)
            yield {
                "table": "operator_state",
                "state": meta.name,
                "kind": meta.state_type,
                "key_type": key.flink_type if key else None,
                "spark_key_type": spark_type(key.arrow_type(request.decode)) if key else None,
                "value_type": value.flink_type,
                "spark_value_type": spark_type(kind),
                "ttl": False,
                "serializer": value.snapshot_class,
                "options": {"state": meta.name},
            }


def _bytes_only(_savepoint: Savepoint, operator: OperatorState, _request: TableRequest) -> Iterator[Row]:
    binary = {"value_type": "BYTES", "spark_value_type": "binary"}
    if operator.coordinator_state is not None:
        yield {"table": "coordinator_state", "kind": "COORDINATOR", "options": {"table": "coordinator_state"}, **binary}
    if any(subtask.raw_operator_state for subtask in operator.subtasks.values()):
        yield {"table": "raw_operator_state", "kind": "RAW", "options": {"table": "raw_operator_state"}, **binary}
    if any(subtask.raw_keyed_state for subtask in operator.subtasks.values()):
        yield {"table": "raw_keyed_state", "kind": "RAW", "options": {"table": "raw_keyed_state"}, **binary}
    channels = sum(map(len, _channels(operator)))
    if channels:
        yield {"kind": "CHANNEL", "note": f"{channels} handles of in-flight records of an unaligned checkpoint"}


def _channels(operator: OperatorState) -> tuple[list[AnyChannelStateHandle], list[AnyChannelStateHandle]]:
    """Records in flight, which are no state: handles of input channels, and of results."""
    subtasks = [operator.subtasks[index] for index in sorted(operator.subtasks)]
    inputs = [handle for subtask in subtasks for handle in subtask.input_channel_state]
    return inputs, [handle for subtask in subtasks for handle in subtask.result_subpartition_state]


# -- the others ----------------------------------------------------------------------------------------------


def _metadata(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in _operators(savepoint, request):
        inputs, outputs = _channels(operator)
        yield {
            "checkpoint_id": savepoint.metadata.checkpoint_id,
            **_identity(operator),
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
    tables = name_tables(list(_states(savepoint, request)))
    created = enumerate(create_statements(tables, request.path, {}))
    dropped = enumerate(drop_statements(tables))
    for action, numbered in (("create", created), ("drop", dropped)):
        for position, (namespace, statement) in numbered:
            yield {"action": action, "position": position, "namespace": namespace, "statement": statement}


def _coordinator_state(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in _operators(savepoint, request):
        if operator.coordinator_state is not None:
            yield {**_identity(operator), "value": operator.coordinator_state.data}


def _master_state(savepoint: Savepoint, _request: TableRequest) -> Iterator[Row]:
    for master in savepoint.metadata.master_states:
        yield {"name": master.name, "version": master.version, "value": master.data}


def _raw_operator_state(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in _operators(savepoint, request):
        for source in operator_sources(savepoint, operator, raw=True):
            places = sorted((offset, state.name) for state in source.states for offset in state.offsets)
            with source.location.open() as opened:
                for (start, name), end in zip(places, [*(p for p, _ in places), opened.size][1:], strict=True):
                    value = _piece(opened, start, end, operator)
                    yield {**_identity(operator), "subtask": source.subtask, "name": name, "value": value}


def _raw_keyed_state(savepoint: Savepoint, request: TableRequest) -> Iterator[Row]:
    for operator in _operators(savepoint, request):
        for index in sorted(operator.subtasks):
            handle = operator.subtasks[index].raw_keyed_state
            if not isinstance(handle, KeyGroupsStateHandle):
                continue
            places = sorted((offset, group) for group, offset in handle.offsets if offset >= 0)
            with savepoint.open_state(handle.delegate, operator) as opened:
                for (start, group), end in zip(places, [*(p for p, _ in places), opened.size][1:], strict=True):
                    if request.wants(group):
                        value = _piece(opened, start, end, operator)
                        yield {**_identity(operator), "subtask": index, "key_group": group, "value": value}


def _piece(opened: ByteSource, start: int, end: int, operator: OperatorState) -> bytes:
    try:
        return opened.read(start, max(0, end - start))
    except SavepointError as error:
        raise error.with_facts(operator=operator.label) from None


READERS: Mapping[str, Callable[[Savepoint, TableRequest], Iterator[Row]]] = MappingProxyType(
    {
        "states": _states,
        "metadata": _metadata,
        "statements": _statements,
        "coordinator_state": _coordinator_state,
        "master_state": _master_state,
        "raw_operator_state": _raw_operator_state,
        "raw_keyed_state": _raw_keyed_state,
    }
)


@dataclass(frozen=True)
class CatalogTable:
    """A table about a snapshot: one partition, read where it is needed."""

    request: TableRequest
    name: str
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None
    state_bytes: int = 0

    @classmethod
    def of(cls, request: TableRequest, name: str) -> CatalogTable:
        """The table of a name; the snapshot must be there."""
        if name != "snapshots":
            _operators(Savepoint.open(request.path, allow_outside=request.allow_outside), request)
        return cls(request, name, SCHEMAS[name])

    def select(self, columns: Sequence[str]) -> CatalogTable:
        """The same table with some of its columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """One."""
        return [CatalogPartition(self.request, self.name, self.schema)]


@dataclass(frozen=True)
class CatalogPartition:
    """All rows of a catalog table."""

    request: TableRequest
    name: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows, some at a time."""
        rows: list[Row] = []
        for row in self._rows():
            rows.append(row)
            # Bytes can be large: few at a time.
            if len(rows) >= (64 if "value" in row else self.request.batch_rows):
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _rows(self) -> Iterator[Row]:
        if self.name == "snapshots":
            for found in find_snapshots(self.request.path):
                yield {
                    "path": found.path,
                    "checkpoint_id": found.checkpoint_id,
                    "time": None if found.modified is None else int(found.modified * 1_000_000),
                    "kind": found.kind.value,
                    "size_in_bytes": found.size,
                    "problem": found.problem,
                }
            return
        savepoint = Savepoint.open(self.request.path, allow_outside=self.request.allow_outside)
        yield from READERS[self.name](savepoint, self.request.of_version(savepoint.metadata.version))

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = []
        for field in self.schema:
            values = [row.get(field.name) for row in rows]
            if pa.types.is_map(field.type):
                values = [list(value.items()) if value is not None else None for value in values]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
