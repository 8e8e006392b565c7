"""Sources of an operator's operator state: one per subtask that has some."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import StateLocation
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader, read_header
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle, StateMetaInfo
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot


@dataclass(frozen=True, slots=True)
class OperatorSource:
    """Description of the operator state that one subtask wrote: frozen and picklable."""

    location: StateLocation
    states: tuple[StateMetaInfo, ...]
    subtask: int
    operator: str

    def header(self) -> OperatorBackendHeader:
        """Read the descriptions of the states from the stream."""
        try:
            with self.location.open() as source:
                return read_header(OperatorBackendHeader, source, min(self._boundaries(), default=source.size))
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def _boundaries(self) -> list[int]:
        return [offset for state in self.states for offset in state.offsets]

    def offsets(self, name: str) -> tuple[int, ...]:
        """Return the offsets of the elements of a state."""
        return next((state.offsets for state in self.states if state.name == name), ())


def operator_sources(savepoint: Snapshot, operator: OperatorState, raw: bool = False) -> list[OperatorSource]:
    """Return the managed (or raw) operator state of every subtask that has some."""
    found = []
    for index in sorted(operator.subtasks):
        subtask = operator.subtasks[index]
        handle = subtask.raw_operator_state if raw else subtask.managed_operator_state
        if handle is None or (not isinstance(handle, OperatorStreamStateHandle) and handle.is_empty):
            continue
        location = savepoint.resolve(handle.delegate, operator)
        found.append(OperatorSource(location, handle.states, index, operator.label))
    return found
