"""Timers to save in a savepoint, kept by every backend as map states of the key, from timestamp to True."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.state import MapState
from pyspark_savepoint.statebackends.processing.api.timers import Timers, check_time
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput


class SavedTimers(Timers):
    """Timers to save in a savepoint."""

    def __init__(
        self, backend: KeyedStateBackend, event: StateOutput, processing: StateOutput, namespaced: bool = False
    ) -> None:
        super().__init__()
        self._backend = backend
        self._namespaced = namespaced
        self._event = self._create("event", event)
        self._processing = self._create("processing", processing)

    def _create(self, domain: str, output: StateOutput) -> MapState[int, bool]:
        units = (pa.int64(), pa.bool_())
        state = RegisteredState(f"{domain} timers", StateKind.MAP, units, self._namespaced)
        created = self._backend.create(state, output)
        assert isinstance(created, MapState)
        return created

    def _of(self, state: MapState[int, bool], namespace: Any) -> MapState[int, bool]:
        if self._namespaced:
            self._backend.set_current_namespace(state, namespace)
        return state

    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """Register an event time timer."""
        self._of(self._event, namespace).put(check_time(timestamp), True)

    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Register a processing time timer."""
        self._of(self._processing, namespace).put(check_time(timestamp), True)

    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Delete an event time timer if it exists."""
        self._of(self._event, namespace).remove(check_time(timestamp))

    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Delete a processing time timer if it exists."""
        self._of(self._processing, namespace).remove(check_time(timestamp))
