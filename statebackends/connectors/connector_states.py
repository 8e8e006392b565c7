"""The states of one operator that belong to connectors: their elements, and the kind that reads them.

Those of a source, the splits of its readers and its enumerator, are changed together (:class:`SourceState`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.connectors.payloads.edits import ReaderSplit, Source
from pyspark_savepoint.formats.connectors.payloads.kind import (
    READER_STATE,
    SOURCE_COORDINATOR,
    SPLITS,
    CoordinatorFrame,
    Payload,
    write_element,
)
from pyspark_savepoint.formats.connectors.registry import (
    MAX_REASON,
    Recognition,
    kinds_of,
    recognise_coordinator,
    recognise_elements,
    states_of,
)
from pyspark_savepoint.formats.connectors.sinks.committer import two_phase_commit
from pyspark_savepoint.formats.connectors.sinks.kafka_sinks import STATE as KAFKA_PRODUCER_STATE
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.runtime.operators import TwoPhaseCommitSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.operator_table import SUBTASK, VALUE, OperatorTable

#: State names that other functions may use too, with the serializer of the connector's state: elements with another
#: serializer, which may be many, are not read.
AMBIGUOUS_STATE_NAMES = {KAFKA_PRODUCER_STATE: TwoPhaseCommitSerializer}


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
    names = opened.operator_state_names
    for state in states_of(table, names):
        if state not in list_states(operator) or not _may_be_a_connectors(opened, state):
            continue
        elements = state_elements(opened, state, request)
        recognition = recognise_elements(table, state, [data for _, data in elements], request.connector, names)
        if table == SPLITS and request.connector is None:
            recognition = _beside_coordinator(recognition, operator)
        if recognition.kind is None and state in AMBIGUOUS_STATE_NAMES:
            if request.connector is not None and kinds_of(table, request.connector):
                continue
            meta = next(meta for meta in opened.operator_states if meta.name == state)
            recognition = transactions_of(meta.value_serializer, recognition.payloads, request)
        yield ConnectorState(operator, state, tuple(subtask for subtask, _ in elements), recognition)


def _beside_coordinator(recognition: Recognition, operator: OperatorState) -> Recognition:
    """Return the splits of a source as they are, or as bytes if the state of its coordinator is of another source.

    Splits of the job's own may have the bytes of a connector's; the enumerator's state hardly has, too.
    """
    kind, coordinator = recognition.kind, operator.coordinator_state
    if kind is None or coordinator is None or READER_STATE not in kind.states:
        return recognition
    if all(candidate.name != kind.name for candidate in kinds_of(SOURCE_COORDINATOR)):
        return recognition
    recognised = recognise_coordinator(coordinator.data, None, kind.name)
    if recognised.kind is not None:
        return recognition
    reason = (
        f"its splits fit {kind.name}, but not the state of the source's coordinator ({recognised.reason}): if it is "
        f"{kind.name}, name it in option 'connector'"
    )
    return Recognition(recognition.payloads, reason=elide(reason, MAX_REASON))


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
    expected = AMBIGUOUS_STATE_NAMES.get(state)
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
    elements: list[tuple[int, bytes]] = []
    for partition in OperatorTable(opened, raw, state).partitions(1):
        for batch in partition.batches():
            elements += zip(batch.column(SUBTASK).to_pylist(), batch.column(VALUE).to_pylist(), strict=True)
    return sorted(elements, key=lambda element: element[0])


def _coordinator(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[ConnectorState]:
    if operator.coordinator_state is None:
        return
    # The state of a coordinator without splits is the same for several sources: the readers' splits decide.
    unnamed = replace(request, connector=None)
    kinds = [state.recognition.kind for state in connector_states(savepoint, operator, SPLITS, unnamed)]
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


def union_states() -> dict[str, str]:
    """Return the union states of consumers before FLIP-27, which have no coordinator, with their kinds."""
    return {state: kind.name for kind in kinds_of(SPLITS) for state in kind.states if state != READER_STATE}


@dataclass(frozen=True)
class SourceState(Source):
    """The state of a source of an operator, which is read and written."""

    opened: OpenOperator
    state: str = READER_STATE

    @classmethod
    def read(cls, opened: OpenOperator, connector: str | None = None) -> SourceState:
        """Return the state of an operator's source; raise an error if it has none, or none of a known kind."""
        operator = opened.operator
        for state, name in union_states().items():
            if state in list_states(operator):
                return cls._consumer(opened, state, name, connector)
        elements = []
        if READER_STATE in list_states(operator):
            elements = state_elements(opened, READER_STATE, TableRequest(opened.savepoint.path))
        coordinator = operator.coordinator_state
        if coordinator is None and not elements:
            raise StateNotFoundError(
                "the operator is not a source with splits",
                operator=operator.label,
                expected=f"operator state {READER_STATE!r}, or the state of a coordinator",
                remedy="table 'offsets' lists the sources that the savepoint has",
            )
        recognition = recognise_elements(SPLITS, READER_STATE, [data for _, data in elements], connector)
        connector_name = recognition.kind.name if elements and recognition.kind is not None else connector
        if elements and recognition.kind is None:
            raise _unknown(operator, "splits", recognition, connector)
        if coordinator is None:
            raise UnsupportedStateError(
                "the source's readers have splits, but its coordinator has no state: Flink would assign all splits "
                "again",
                operator=operator.label,
                remedy="sources.start_over removes the splits of the readers too",
            )
        enumerator = recognise_coordinator(coordinator.data, connector, connector_name)
        if enumerator.kind is None:
            raise _unknown(operator, "coordinator", enumerator, connector)
        kind = kinds_of(SPLITS, enumerator.kind.name)[0]
        splits = tuple(
            ReaderSplit(subtask, payload.version or 0, value)
            for (subtask, _), payload, value in zip(elements, recognition.payloads, recognition.values, strict=True)
        )
        frame = CoordinatorFrame.read(coordinator.data)
        return cls(subtasks_of(opened), kind, splits, enumerator.kind, frame, enumerator.values[0], opened)

    @classmethod
    def _consumer(cls, opened: OpenOperator, state: str, kind: str, connector: str | None) -> SourceState:
        """Return the state of a consumer that has all in union state, and no coordinator."""
        if connector not in (None, kind):
            raise OptionError(
                "the operator's source is of another connector",
                operator=opened.operator.label,
                expected=connector,
                found=kind,
            )
        elements = state_elements(opened, state, TableRequest(opened.savepoint.path))
        recognition = recognise_elements(SPLITS, state, [data for _, data in elements], kind)
        if recognition.kind is None:
            raise _unknown(opened.operator, "partitions", recognition, kind)
        splits = (
            ReaderSplit(subtask, None, value) for (subtask, _), value in zip(elements, recognition.values, strict=True)
        )
        return cls(subtasks_of(opened), recognition.kind, tuple(splits), None, None, None, opened, state)

    @property
    def label(self) -> str:
        """The operator's name for messages."""
        return self.opened.operator.label

    def written(self) -> OperatorState:
        """Return the operator with this state; raise OptionError for state that the connector could not read."""
        elements: dict[int, list[bytes]] = {}
        try:
            for split in self.splits:
                payload = self.kind.write(split.version, split.value)
                self.kind.read(payload)
                elements.setdefault(split.subtask, []).append(
                    write_element(payload) if self.kind.framed else payload.data
                )
            coordinator = self._coordinator()
        except (CorruptStateError, ValueError) as error:
            why = f"expected {error.facts['expected']}" if isinstance(error, CorruptStateError) else str(error)
            raise OptionError(f"the {self.kind.name} source cannot have this: {why}", operator=self.label) from None
        operator = with_elements(self.opened, self.state, elements)
        return replace(operator, coordinator_state=coordinator)

    def _coordinator(self) -> ByteStreamStateHandle | None:
        before = self.opened.operator.coordinator_state
        if self.coordinator is None or self.enumerator_kind is None:
            return before if self.enumerator_kind is None else None
        payload = self.enumerator_kind.write(self.enumerator_version, self.enumerator)
        self.enumerator_kind.read_all([payload])
        data = replace(self.coordinator, payload=Payload(self.coordinator.payload.version, payload.data)).bytes()
        if before is not None and before.data == data:
            return before
        return ByteStreamStateHandle(before.handle_name if before is not None else SOURCE_COORDINATOR, data)


def subtasks_of(opened: OpenOperator) -> tuple[int, ...]:
    """Return the subtasks of an operator that have operator state."""
    return tuple(dict.fromkeys(stream.subtask for stream in opened.streams))


def _unknown(operator: OperatorState, what: str, recognition: Recognition, named: str | None) -> UnsupportedStateError:
    """Return the error for bytes of no known connector; with one that was named, why they are not of that one."""
    return UnsupportedStateError(
        f"the {what} of the source: the format is unknown, so it cannot be changed",
        operator=operator.label,
        found="bytes that none of the known connectors writes" if named is None else recognition.reason,
        remedy="name the connector, if it is a known one: connector='kafka'; else the splits stay as they are",
    )
