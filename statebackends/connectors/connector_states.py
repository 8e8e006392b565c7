"""The states of one operator that belong to connectors: their elements, and the kind that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.connectors.payloads.kind import SOURCE_COORDINATOR, SPLITS
from pyspark_savepoint.formats.connectors.registry import (
    Recognition,
    recognise_coordinator,
    recognise_elements,
    states_of,
)
from pyspark_savepoint.formats.connectors.sinks.kafka_producer import STATE as KAFKA_PRODUCER_STATE
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.serializers.runtime.timers_and_sinks import TwoPhaseCommitSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.operator_table import SUBTASK, VALUE, OperatorTable

#: State names that other functions may use too, with the serializer of the connector's state: elements with another
#: serializer, which may be many, are not read.
ANYONES = {KAFKA_PRODUCER_STATE: TwoPhaseCommitSerializer}


@dataclass(frozen=True)
class ConnectorState:
    """One state of an operator that a connector keeps: its payloads, each with its subtask (None: the coordinator)."""

    operator: OperatorState
    state: str | None
    subtasks: tuple[int | None, ...]
    recognition: Recognition


def connector_states(
    savepoint: Snapshot, operator: OperatorState, table: str, request: TableRequest
) -> Iterator[ConnectorState]:
    """Yield the states of an operator that a table shows, with their kinds; ``request`` may name the connector."""
    if table == SOURCE_COORDINATOR:
        yield from _coordinator(savepoint, operator, request)
        return
    opened = OpenOperator(savepoint, operator)
    there = opened.operator_state_names
    for state in states_of(table, there):
        if state not in list_states(operator) or not _may_be_a_connectors(opened, state):
            continue
        elements = state_elements(opened, state, request)
        recognition = recognise_elements(table, state, [data for _, data in elements], request.connector, there)
        if recognition.kind is None and state in ANYONES:
            continue
        yield ConnectorState(operator, state, tuple(subtask for subtask, _ in elements), recognition)


def _may_be_a_connectors(opened: OpenOperator, state: str) -> bool:
    expected = ANYONES.get(state)
    return expected is None or any(
        isinstance(meta.value_serializer, expected) for meta in opened.operator_states if meta.name == state
    )


def state_elements(opened: OpenOperator, state: str, request: TableRequest) -> list[tuple[int, bytes]]:
    """Return the elements of a list or union state as bytes, each with its subtask, in order."""
    raw = TableRequest(
        request.path,
        state=state,
        raw=(state,),
        include_key_group=True,
        memory=request.memory,
        batch_rows=request.batch_rows,
        decode=request.decode,
    )
    found: list[tuple[int, bytes]] = []
    for partition in OperatorTable(opened, raw, state).partitions(1):
        for batch in partition.batches():
            found += zip(batch.column(SUBTASK).to_pylist(), batch.column(VALUE).to_pylist(), strict=True)
    return sorted(found, key=lambda element: element[0])


def _coordinator(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[ConnectorState]:
    if operator.coordinator_state is None:
        return
    # The state of a coordinator without splits is the same for several sources: the readers' splits decide.
    unnamed = replace(request, connector=None)
    kinds = [found.recognition.kind for found in connector_states(savepoint, operator, SPLITS, unnamed)]
    splits = None if not kinds else "" if kinds[0] is None else kinds[0].name
    recognition = recognise_coordinator(operator.coordinator_state.data, request.connector, splits)
    yield ConnectorState(operator, None, (None,), recognition)


def list_states(operator: OperatorState) -> set[str]:
    """Return the names of list and union states that have elements."""
    return {
        state.name
        for subtask in operator.subtasks.values()
        if subtask.managed_operator_state is not None
        for state in subtask.managed_operator_state.states
        if state.offsets and state.mode is not Mode.BROADCAST
    }
