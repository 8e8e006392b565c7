"""The states of one operator that belong to connectors: their elements, and the kind that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.connectors.payloads.frames import Payload
from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, SOURCE_COORDINATOR, SPLITS
from pyspark_savepoint.formats.connectors.registry import (
    MAX_REASON,
    Recognition,
    kinds_of,
    recognise_coordinator,
    recognise_elements,
    states_of,
)
from pyspark_savepoint.formats.connectors.sinks.kafka_producer import STATE as KAFKA_PRODUCER_STATE
from pyspark_savepoint.formats.connectors.sinks.two_phase_commit import two_phase_commit
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.formats.serializers.base import TypeSerializer
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
        if table == SPLITS and request.connector is None:
            recognition = _beside_coordinator(recognition, operator)
        if recognition.kind is None and state in ANYONES:
            if request.connector is not None and kinds_of(table, request.connector):
                continue
            meta = next(meta for meta in opened.operator_states if meta.name == state)
            recognition = transactions_of(meta.value_serializer, recognition.payloads, request)
        yield ConnectorState(operator, state, tuple(subtask for subtask, _ in elements), recognition)


def _beside_coordinator(found: Recognition, operator: OperatorState) -> Recognition:
    """Return the splits of a source as they are, or as bytes if the state of its coordinator is of another source.

    Splits of the job's own may have the bytes of a connector's; the enumerator's state hardly has, too.
    """
    kind, coordinator = found.kind, operator.coordinator_state
    if kind is None or coordinator is None or READER_STATE not in kind.states:
        return found
    if all(each.name != kind.name for each in kinds_of(SOURCE_COORDINATOR)):
        return found
    recognised = recognise_coordinator(coordinator.data, None, kind.name)
    if recognised.kind is not None:
        return found
    reason = (
        f"its splits fit {kind.name}, but not the state of the source's coordinator ({recognised.reason}): if it is "
        f"{kind.name}, name it in option 'connector'"
    )
    return Recognition(found.payloads, reason=elide(reason, MAX_REASON))


def transactions_of(serializer: TypeSerializer, payloads: tuple[Payload, ...], request: TableRequest) -> Recognition:
    """Return the transactions of a two-phase sink of the job's own, which the serializer of its state reads."""
    if not isinstance(serializer, TwoPhaseCommitSerializer):
        return Recognition(payloads, reason=f"its subtasks have other types: {serializer.flink_type}")
    opaque = serializer.opaque_parts()
    if opaque:
        reason = f"only the job's own serializer reads {opaque[0].flink_type}: {opaque[0].remedy}"
        return Recognition(payloads, reason=elide(reason, MAX_REASON))
    kind = two_phase_commit(serializer, request.decode)
    return Recognition(payloads, kind, tuple(kind.read_all(payloads)))


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
