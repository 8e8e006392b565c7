"""The state of one source: the splits of its readers and its enumerator, which are changed together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.frames import CoordinatorFrame, Payload, write_element
from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, SOURCE_COORDINATOR, SPLITS, ConnectorKind
from pyspark_savepoint.formats.connectors.registry import (
    Recognition,
    kinds_of,
    recognise_coordinator,
    recognise_elements,
)
from pyspark_savepoint.formats.connectors.sources import kafka_consumer, kinesis
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.statebackends.connectors.connector_states import list_states, state_elements
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: Union states of consumers before FLIP-27, which have no coordinator, with their kinds.
UNION_STATES = {
    kafka_consumer.STATE: kafka_consumer.KAFKA_CONSUMER.name,
    kinesis.CONSUMER_STATE: kinesis.KINESIS_CONSUMER.name,
}


@dataclass(frozen=True)
class ReaderSplit:
    """A split of a reader: its subtask, the version of its serializer, and its value."""

    subtask: int
    version: int | None
    value: Any


@dataclass(frozen=True)
class SourceState:
    """The state of a source (FLIP-27) of a known kind; without ``coordinator`` its enumerator starts from scratch."""

    opened: OpenOperator
    kind: ConnectorKind[Any]
    splits: tuple[ReaderSplit, ...]
    enumerator_kind: ConnectorKind[Any] | None
    coordinator: CoordinatorFrame | None
    enumerator: Any
    state: str = READER_STATE

    @classmethod
    def read(cls, opened: OpenOperator, connector: str | None = None) -> SourceState:
        """Return the state of an operator's source; raise an error if it has none, or none of a known kind."""
        operator = opened.operator
        for state, name in UNION_STATES.items():
            if state in list_states(operator):
                return cls._consumer(opened, state, name, connector)
        elements = []
        if READER_STATE in list_states(operator):
            elements = state_elements(opened, READER_STATE, TableRequest(opened.savepoint.path))
        coordinator = operator.coordinator_state
        if coordinator is None and not elements:
            raise StateNotFoundError(
                "the operator is no source with splits",
                operator=operator.label,
                expected=f"operator state {READER_STATE!r}, or the state of a coordinator",
                remedy="table 'offsets' lists the sources that the savepoint has",
            )
        found = recognise_elements(SPLITS, READER_STATE, [data for _, data in elements], connector)
        known = found.kind.name if elements and found.kind is not None else connector
        if elements and found.kind is None:
            raise _unknown(operator, "splits", found, connector)
        if coordinator is None:
            raise UnsupportedStateError(
                "the source's readers have splits, but its coordinator has no state: Flink would assign all splits "
                "again",
                operator=operator.label,
                remedy="start_over removes the splits of the readers too",
            )
        enumerator = recognise_coordinator(coordinator.data, connector, known)
        if enumerator.kind is None:
            raise _unknown(operator, "coordinator", enumerator, connector)
        kind = kinds_of(SPLITS, enumerator.kind.name)[0]
        splits = tuple(
            ReaderSplit(subtask, payload.version or 0, value)
            for (subtask, _), payload, value in zip(elements, found.payloads, found.values, strict=True)
        )
        frame = CoordinatorFrame.read(coordinator.data)
        return cls(opened, kind, splits, enumerator.kind, frame, enumerator.values[0])

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
        found = recognise_elements(SPLITS, state, [data for _, data in elements], kind)
        if found.kind is None:
            raise _unknown(opened.operator, "partitions", found, kind)
        splits = (ReaderSplit(subtask, None, value) for (subtask, _), value in zip(elements, found.values, strict=True))
        return cls(opened, found.kind, tuple(splits), None, None, None, state)

    @property
    def label(self) -> str:
        """The operator's name for messages."""
        return self.opened.operator.label

    @property
    def enumerator_version(self) -> int:
        """The version of the enumerator's state, which an edit keeps."""
        assert self.coordinator is not None
        return self.coordinator.payload.version or 0

    def emptiest_subtask(self) -> int:
        """Return the subtask with the fewest splits: at a restore any subtask may have a split."""
        counts = {source.subtask: 0 for source in self.opened.streams} or {0: 0}
        for split in self.splits:
            counts[split.subtask] += 1
        return min(counts, key=lambda subtask: (counts[subtask], subtask))

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


def _unknown(operator: OperatorState, what: str, found: Recognition, named: str | None) -> UnsupportedStateError:
    """Return the error for bytes of no known connector; with one that was named, why they are not of that one."""
    return UnsupportedStateError(
        f"the {what} of the source: the format is unknown, so it cannot be changed",
        operator=operator.label,
        found="bytes that none of the known connectors writes" if named is None else found.reason,
        remedy="name the connector, if it is a known one: connector='kafka'; else the splits stay as they are",
    )
