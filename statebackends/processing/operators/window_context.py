"""Contexts of triggers and of window process functions, with their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark_savepoint.formats.errors import StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.processing.api.functions import ProcessWindowFunction
from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.api.state_descriptors import Descriptor
from pyspark_savepoint.statebackends.processing.api.timers import MIN_WATERMARK, now_millis
from pyspark_savepoint.statebackends.processing.operators.saved_timers import SavedTimers
from pyspark_savepoint.statebackends.processing.operators.state_registry import StateRegistry


class _States:
    """States by name; namespaced ones are those of the current window."""

    def __init__(
        self,
        registry: StateRegistry,
        descriptors: Sequence[Descriptor],
        namespace: TypeSerializer | None,
        declared: str,
    ) -> None:
        self._declared = declared
        self._backend = registry.backend
        self._namespaced = namespace is not None
        self.window: Any = None
        self._states = {each.name: registry.register(each, namespace) for each in descriptors}

    def find(self, descriptor: Descriptor | str) -> tuple[State, State]:
        """Return a state as its user sees it, and as the backend has it."""
        name = descriptor if isinstance(descriptor, str) else descriptor.name
        if name not in self._states:
            raise StateNotFoundError(
                f"state {name!r} is not among the descriptors that were declared",
                state=name,
                remedy=f"name it in {self._declared}(), for states must be known before the job starts ("
                f"{did_you_mean(name, self._states)})",
            )
        return self._states[name]

    def get(self, descriptor: Descriptor | str) -> Any:
        """Return a state, set to the current window."""
        seen, own = self.find(descriptor)
        if self._namespaced:
            self._backend.set_current_namespace(own, self.window)
        return seen

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get


class WindowTriggerContext:
    """Context of a trigger. Flink: ``Trigger.TriggerContext``, ``Trigger.OnMergeContext``."""

    def __init__(
        self, registry: StateRegistry, namespace: TypeSerializer, timers: SavedTimers, descriptors: Sequence[Descriptor]
    ) -> None:
        self.window: Any = None
        self.merged: list[Any] = []
        self._backend = registry.backend
        self._timers = timers
        self._states = _States(registry, descriptors, namespace, "state_descriptors")

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """Return the smallest watermark: no time passes while state is bootstrapped."""
        return self._timers.watermark

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event(time, self.window)

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing(time, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event(time, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing(time, self.window)

    def get_partitioned_state(self, descriptor: Descriptor) -> Any:
        self._states.window = self.window
        return self._states.get(descriptor)

    def merge_partitioned_state(self, descriptor: Descriptor) -> None:
        """Merge the states of the merged windows into that of the window."""
        _, own = self._states.find(descriptor)
        self._backend.merge_namespaces(own, self.window, iter(self.merged))


class FunctionContext:
    """Context of a process function, and its call, whose rows are discarded.

    Flink: ``ProcessWindowFunction.Context``.
    """

    def __init__(
        self, registry: StateRegistry, namespace: TypeSerializer, function: ProcessWindowFunction | None
    ) -> None:
        self._function = function
        self._window: Any = None
        windowed = function.window_state_descriptors() if function is not None else ()
        plain = function.global_state_descriptors() if function is not None else ()
        self._windowed = _States(registry, windowed, namespace, "window_state_descriptors")
        self._global = _States(registry, plain, None, "global_state_descriptors")

    def call(self, key: Any, window: Any, elements: list[Any]) -> None:
        if self._function is None:
            return
        self._window = self._windowed.window = window
        for _ in self._function.process(key, self, elements) or ():
            pass

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """Return the smallest watermark: no time passes while state is bootstrapped."""
        return MIN_WATERMARK

    def window_state(self) -> Any:
        """Return the state of the key and window."""
        return self._windowed

    def global_state(self) -> Any:
        """Return the state of the key."""
        return self._global
