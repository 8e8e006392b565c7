"""Sources of an operator's operator state: one per subtask that has some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspark_savepoint.formats.columns import Longs, distinct
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.snapshot_files import BEGINNING, WHOLE
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader, read_header
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle, StateMetaInfo

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource, Read, StateLocation
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

NONE: Longs = np.zeros(0, np.int64)


@dataclass(frozen=True)
class OperatorSource:
    """Description of the operator state that one subtask wrote: frozen and picklable.

    It can have very many states: what all of them share is computed once.
    """

    location: StateLocation
    states: tuple[StateMetaInfo, ...]
    subtask: int
    operator: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what was computed."""
        return OperatorSource, (self.location, self.states, self.subtask, self.operator)

    def header(self) -> OperatorBackendHeader:
        """Read the descriptions of the states from the stream."""
        try:
            with self.location.open() as source:
                return self._header(source)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def header_reads(self) -> Iterator[Read]:
        """Yield what :meth:`header` reads."""
        yield self.location, BEGINNING

    def reads(self) -> Iterator[Read]:
        """Yield what is read when the stream is opened."""
        yield self.location, WHOLE

    def stream(self, opened: ByteSource, header: OperatorBackendHeader | None = None) -> OperatorStream:
        """Return the open stream, with its header, which is read unless it is known."""
        return OperatorStream(opened, header or self._header(opened), self._boundaries)

    def offsets(self, name: str) -> Longs:
        """Return the offsets of the elements of a state."""
        return self._offsets.get(name, NONE)

    def _header(self, source: ByteSource) -> OperatorBackendHeader:
        return read_header(
            OperatorBackendHeader, source, int(self._boundaries[0]) if len(self._boundaries) else source.size
        )

    @cached_property
    def _boundaries(self) -> Longs:
        return distinct(np.concatenate([NONE, *self._offsets.values()]))

    @cached_property
    def _offsets(self) -> dict[str, Longs]:
        return {state.name: state.places for state in self.states}


def operator_sources(savepoint: Snapshot, operator: OperatorState, raw: bool = False) -> list[OperatorSource]:
    """Return the managed (or raw) operator state of every subtask that has some."""
    sources = []
    for index in sorted(operator.subtasks):
        subtask = operator.subtasks[index]
        handle = subtask.raw_operator_state if raw else subtask.managed_operator_state
        if handle is None or (not isinstance(handle, OperatorStreamStateHandle) and handle.is_empty):
            continue
        location = savepoint.resolve(handle.delegate, operator)
        sources.append(OperatorSource(location, handle.states, index, operator.label))
    return sources
