"""Tables of the state of connectors: splits, source_coordinator, committables, in_flight and offsets.

    operator_uid, operator_uid_hash, operator_name, subtask, connector, [split_id], ...  version

``offsets`` are the positions of all sources, of whatever kind:

    operator_uid, operator_uid_hash, operator_name, subtask, connector, stream, partition, offset, position

``committables`` has ``state`` before the subtask, and ``note`` after the version. If all rows of a query are of one
connector, the other columns are those of the connector. Otherwise they are ``fields``, a map from column names to
texts, and for payloads that no kind reads ``length``, ``payload`` and ``reason``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    COMMITTABLES,
    OFFSETS,
    SOURCE_COORDINATOR,
    SPLIT_ID,
    SPLITS,
    ConnectorKind,
)
from pyspark_savepoint.formats.connectors.registry import kinds_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.catalog.rows import (
    BYTES,
    INT,
    LONG,
    OPERATOR,
    TEXT,
    Row,
    identity,
    operators,
    schema,
)
from pyspark_savepoint.statebackends.catalog.table import opened, to_batches
from pyspark_savepoint.statebackends.connectors.connector_states import ConnectorState, connector_states
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_columns

COMMON = schema(**OPERATOR, subtask=INT, connector=TEXT)
#: Column of sinks, which have several states: the operator state.
STATE = "state"
VERSION = pa.field("version", INT)
#: Column of sinks: other kinds that may write the same bytes.
NOTE = "note"
ANY_KIND = schema(fields=pa.map_(TEXT, TEXT), length=LONG, payload=BYTES, reason=TEXT)
#: ``offset`` is null where the position is not one number.
OFFSET_COLUMNS = schema(stream=TEXT, partition=TEXT, offset=LONG, position=TEXT)
#: Tables whose rows are splits, with their ids.
OF_SPLITS = (SPLITS, SOURCE_COORDINATOR)


@dataclass(frozen=True)
class ConnectorTable:
    """Table of the state of connectors, of one operator or all; ``handles`` are the operators that have such state."""

    request: TableRequest
    name: str
    schema: pa.Schema
    handles: tuple[OperatorID, ...]
    state_bytes: int
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @classmethod
    def of(cls, request: TableRequest, name: str) -> ConnectorTable:
        """Return a table by its name; its columns follow from the kinds that are found."""
        kinds_of(SPLITS if name == OFFSETS else name, request.connector)
        savepoint = opened(request)
        kinds: set[ConnectorKind[Any] | None] = set()
        handles, size = [], 0
        for operator in operators(savepoint, request):
            for state in _states(savepoint, operator, name, request):
                kinds.add(state.recognition.kind)
                handles.append(operator.operator_id)
                size += sum(len(payload.data) for payload in state.recognition.payloads)
        columns = _columns(name, kinds)
        return cls(request, name, columns, tuple(dict.fromkeys(handles)), size)

    def select(self, columns: Sequence[str]) -> ConnectorTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, _parallelism: int | None) -> list[TablePartition]:
        """Return one partition for each operator, as the elements of one are of one kind together."""
        return [ConnectorPartition(self.request, self.name, self.schema, operator) for operator in self.handles]


@dataclass(frozen=True)
class ConnectorPartition:
    """Rows of one operator, read from the snapshot that is there now: views are planned once, before changes."""

    request: TableRequest
    name: str
    schema: pa.Schema
    operator: OperatorID

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        return to_batches(self.rows(), self.schema, self.request.batch_rows)

    def rows(self) -> Iterator[Row]:
        """Yield a row for each split, partition, committable or record."""
        savepoint = opened(self.request)
        for operator in operators(savepoint, self.request):
            if operator.operator_id == self.operator:
                if self.name == OFFSETS:
                    yield from positions_of(savepoint, operator, self.request)
                    continue
                for state in _states(savepoint, operator, self.name, self.request):
                    yield from rows_of(state)


def positions_of(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    """Yield the rows of table ``offsets`` of one operator, also of one that is changed and not written yet."""
    for state in _states(savepoint, operator, OFFSETS, request):
        yield from offsets_of(state)


def offsets_of(connector_state: ConnectorState) -> Iterator[Row]:
    """Yield the positions of a state's splits, if its kind has positions."""
    kind = connector_state.recognition.kind
    if kind is None or kind.positions is None:
        return
    common = {**identity(connector_state.operator), "connector": kind.name}
    for subtask, value in zip(connector_state.subtasks, connector_state.recognition.values, strict=True):
        for position in kind.positions(value):
            words = [str(part) for part in (position.next, position.marker) if part is not None]
            number = position.next if isinstance(position.next, int) else None
            yield {
                **common,
                "subtask": subtask,
                "stream": position.stream,
                "partition": None if position.partition is None else str(position.partition),
                "offset": number,
                "position": " ".join(words) or None,
            }


def rows_of(connector_state: ConnectorState) -> Iterator[Row]:
    """Yield the rows of one state of an operator, with the columns of its kind and those of any kind."""
    recognition = connector_state.recognition
    kind = recognition.kind
    for number, (subtask, payload) in enumerate(zip(connector_state.subtasks, recognition.payloads, strict=True)):
        common: Row = {
            **identity(connector_state.operator),
            STATE: connector_state.state,
            "subtask": subtask,
            "version": payload.version,
        }
        if recognition.doubt is not None:
            common[NOTE] = f"the bytes fit {recognition.doubt} too: name the connector with option 'connector'"
        if kind is None:
            common |= {"length": len(payload.data), "payload": payload.data, "reason": recognition.reason}
            yield common
            continue
        for row in kind.rows(recognition.values[number]):
            fields = {name: _text(row.get(name)) for name in kind.columns.names}
            yield {**common, "connector": kind.name, "fields": fields, **row}


def _states(
    savepoint: Snapshot, operator: OperatorState, table: str, request: TableRequest
) -> Iterator[ConnectorState]:
    try:
        for shown in OF_SPLITS if table == OFFSETS else (table,):
            yield from connector_states(savepoint, operator, shown, request)
    except SavepointError as error:
        raise error.with_facts(path=savepoint.path, operator=operator.label) from None


def _columns(table: str, kinds: Iterable[ConnectorKind[Any] | None]) -> pa.Schema:
    if table == OFFSETS:
        return pa.schema([*COMMON, *OFFSET_COLUMNS])
    fields = [*COMMON, *([pa.field(SPLIT_ID, TEXT)] if table in OF_SPLITS else [])]
    if table == COMMITTABLES:
        fields.insert(len(OPERATOR), pa.field(STATE, TEXT))
    behind = [VERSION, *([pa.field(NOTE, TEXT)] if table == COMMITTABLES else [])]
    connector_kinds = [kind for kind in kinds if kind is not None]
    merged = _merged(connector_kinds) if len(connector_kinds) == len(set(kinds)) else None
    if merged is not None:
        return pa.schema([*fields, *merged, *behind])
    return pa.schema([*fields, *behind, *ANY_KIND])


def _merged(kinds: Sequence[ConnectorKind[Any]]) -> list[pa.Field] | None:
    """Return the columns of kinds of one connector together, such as a sink's writer and committer; else None."""
    columns: dict[str, pa.Field] = {}
    for field in (field for kind in sorted(kinds, key=lambda kind: kind.states) for field in kind.columns):
        if columns.setdefault(field.name, field).type != field.type:
            return None
    return list(columns.values()) if len({kind.name for kind in kinds}) == 1 else None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
