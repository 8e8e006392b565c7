"""Window operator for bootstrapping: adds elements to the state of their windows, and saves triggers and timers.

    window-contents      reduced value, accumulator, or list of elements (with evictor: of records with timestamps)
    merging-window-set   of sessions: pairs of a window and the window under which its contents are kept
    window-timers        both time domains, by window
    states of the trigger and of the process function, which they reach by their contexts

Flink: ``WindowOperator``, ``EvictingWindowOperator``, ``MergingWindowSet``, ``WindowOperatorBuilder``.

When windows merge, the contents of the earliest stay in place, and only those of the other windows are moved.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.processing.api.evictors import Evictor, EvictorContext, Record
from pyspark_savepoint.statebackends.processing.api.functions import ProcessWindowFunction
from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Descriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.timers import MAX_WATERMARK, MIN_WATERMARK, now_millis
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger, TriggerResult
from pyspark_savepoint.statebackends.processing.api.windows import TimeWindow, WindowAssigner
from pyspark_savepoint.statebackends.processing.backends.backend import reducing_to
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN
from pyspark_savepoint.statebackends.processing.operators.state_registry import SavedTimers, StateRegistry
from pyspark_savepoint.statebackends.processing.runtime.row import rows_of_tuples

#: Called with the merged window, its parts, the state window that keeps the contents, and the other state windows.
OnMerge = Callable[[TimeWindow, list[TimeWindow], TimeWindow, list[TimeWindow]], None]


class MergingWindowSet:
    """Windows of the current key, mapped to state windows; the state is a list of pairs.

    It is read and stored once for consecutive records of a key, because a key may have as many sessions as records.
    Windows of a key are disjoint, so those that intersect a new one are adjacent.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._mapping: dict[TimeWindow, TimeWindow] = {}
        self._sorted: list[TimeWindow] = []
        self._changed = False

    def load(self) -> None:
        """Load the windows of the current key from its state."""
        self._mapping = {TimeWindow(*pair[0]): TimeWindow(*pair[1]) for pair in self._state.get()}
        self._sorted = sorted(self._mapping)
        self._changed = False

    def add(self, window: TimeWindow, on_merge: OnMerge) -> TimeWindow:
        """Add a window of the current key, and return the window that it is now part of."""
        first = bisect_left(self._sorted, window)
        if first and self._sorted[first - 1].intersects(window):
            first -= 1
        cover, last = window, first
        while last < len(self._sorted) and self._sorted[last].intersects(cover):
            cover, last = cover.cover(self._sorted[last]), last + 1
        parts = self._sorted[first:last]
        if parts != [cover]:  # A single window that covers the new one stays unchanged.
            self._changed = True
            self._sorted[first:last] = [cover]
            if parts:
                self._merge(cover, parts, on_merge)
            else:
                self._mapping[window] = window
        return cover

    def _merge(self, cover: TimeWindow, parts: list[TimeWindow], on_merge: OnMerge) -> None:
        state_windows = [self._mapping.pop(part) for part in parts]
        self._mapping[cover] = state_windows[0]
        on_merge(cover, parts, state_windows[0], state_windows[1:])

    def state_window(self, window: TimeWindow) -> TimeWindow:
        """Return the window that has the contents of a window."""
        return self._mapping[window]

    def persist(self) -> None:
        """Store the windows of the current key in its state."""
        if self._changed:
            self._state.update(list(self._mapping.items()))
            self._changed = False


EVICTING = EvictorContext()
CONTENTS, MERGING, TIMERS = "window-contents", "merging-window-set", "window-timers"


@dataclass(frozen=True)
class WindowSpec:
    """Settings of ``window(...)`` and its methods; with neither reduce nor aggregate, windows keep all elements."""

    assigner: WindowAssigner
    element_type: str
    trigger: Trigger
    reduce: Callable[[Any, Any], Any] | None = None
    aggregate: AggregateFunction[Any, Any, Any] | None = None
    accumulator_type: str | None = None
    function: ProcessWindowFunction | None = None
    evictor: Evictor | None = None
    allowed_lateness: int = 0

    def contents(self) -> Descriptor:
        """Return the descriptor of the windows' contents."""
        if self.evictor is not None:
            return ListStateDescriptor(CONTENTS, f"STREAM_ELEMENT<{self.element_type}>")
        if self.reduce is not None:
            return ReducingStateDescriptor(CONTENTS, self.element_type, reduce=self.reduce)
        if self.aggregate is not None:
            return AggregatingStateDescriptor(CONTENTS, self.accumulator_type, aggregate=self.aggregate)
        return ListStateDescriptor(CONTENTS, self.element_type)

    @property
    def keeps_elements(self) -> bool:
        """Return whether the contents are all elements, rather than one combined value."""
        return self.evictor is not None or (self.reduce is None and self.aggregate is None)

    def combined(self, elements: list[Any]) -> list[Any]:
        """Return the arguments for the process function from the elements that an evictor has left."""
        if self.reduce is not None:
            return [functools.reduce(self.reduce, elements) if elements else None]
        if self.aggregate is not None:
            accumulator = self.aggregate.create_accumulator()
            for element in elements:
                accumulator = self.aggregate.add(element, accumulator)
            return [self.aggregate.get_result(accumulator)]
        return elements

    def check(self) -> None:
        """Raise OptionError for sessions whose trigger or aggregate cannot merge, or that use state of a window."""
        if self.assigner.merges and self.function is not None and self.function.window_state_descriptors():
            raise OptionError(
                "merging windows have no per-window state, as in Flink",
                found=type(self.function).__name__,
                remedy="use state per key: global_state_descriptors()",
            )
        aggregate = self.aggregate if self.evictor is None else None
        if self.assigner.merges and aggregate is not None and type(aggregate).merge is AggregateFunction.merge:
            raise OptionError(
                "session windows merge, but this aggregate function has no merge()",
                found=type(aggregate).__name__,
                remedy="implement merge(a, b), which returns one accumulator of two",
            )
        if self.assigner.merges and not self.trigger.can_merge():
            raise OptionError(
                "session windows merge, but this trigger cannot",
                found=type(self.trigger).__name__,
                remedy="use a trigger whose can_merge() is true, for example EventTimeTrigger",
            )


def _stored(record: Record) -> dict[str, Any]:
    """Return a record as in an evictor's list: a StreamRecord, which may have no timestamp."""
    return {"kind": "record", "timestamp": record.timestamp, "value": record.value}


class WindowOperator:
    """Operator that adds elements of the current key to windows."""

    def __init__(self, spec: WindowSpec, registry: StateRegistry) -> None:
        self.spec = spec = self._typed(spec, registry)
        self.backend = registry.backend
        self._unshared = registry.unshared
        namespace = parse_type(spec.assigner.window_type, registry.flink_version)
        self.timers = registry.timers(TIMERS, namespace)
        self._contents, self._own = registry.register(spec.contents(), namespace)
        self._merging: MergingWindowSet | None = None
        if spec.assigner.merges:
            window = spec.assigner.window_type
            pairs = ListStateDescriptor(MERGING, f"TUPLE<{window}, {window}>")
            state, _ = registry.register(pairs, options=DecodeOptions(timestamps="raw"))
            self._merging = MergingWindowSet(state)
        self._trigger = WindowTriggerContext(registry, namespace, self.timers, spec.trigger.state_descriptors())
        self._function = FunctionContext(registry, namespace, spec.function)

    def _typed(self, spec: WindowSpec, registry: StateRegistry) -> WindowSpec:
        """Return the settings with a reduce function for evicted elements whose tuples become elements."""
        if spec.evictor is None or spec.reduce is None:
            return spec
        kind = parse_type(spec.element_type, registry.flink_version).arrow_type(PLAIN)
        if not pa.types.is_struct(kind):
            return spec
        row_of = rows_of_tuples(tuple(field.name for field in kind))
        return replace(spec, reduce=reducing_to(row_of, spec.reduce))

    def begin(self) -> None:
        """Start a run of elements of the current key."""
        if self._merging is not None:
            self._merging.load()

    def end(self) -> None:
        """End the run of elements of the current key."""
        if self._merging is not None:
            self._merging.persist()

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Process one element of the current key, between :meth:`begin` and :meth:`end`."""
        time = MIN_WATERMARK if timestamp is None else timestamp
        windows = self.spec.assigner.assign_windows(value, time, now_millis())
        if self._merging is not None:
            for window in windows:
                actual = self._merging.add(window, self._on_merge)
                self._fill(value, time, actual, self._merging.state_window(actual))
            return
        for window in windows:
            self._fill(value, time, window, window)

    def _fill(self, value: Any, time: int, window: Any, state_window: Any) -> None:
        contents: Any = self._contents
        self.backend.set_current_namespace(self._own, state_window)
        if self.spec.evictor is not None:
            contents.add(_stored(Record(self._unshared.into(value), None if time == MIN_WATERMARK else time)))
        else:
            contents.add(value)
        self._trigger.window = window
        result = self.spec.trigger.on_element(value, time, window, self._trigger)
        if type(result) is not TriggerResult:
            raise TypeError(f"on_element of a trigger returns a TriggerResult, such as CONTINUE, not {result!r}")
        if result.is_fire:
            self._fire(window, state_window)
        if result.is_purge:
            self.backend.set_current_namespace(self._own, state_window)
            contents.clear()
        self._register_cleanup(window)

    def _fire(self, window: Any, state_window: Any) -> None:
        """Fire a window: state keeps the elements that evictors leave and the writes of the process function."""
        self.backend.set_current_namespace(self._own, state_window)
        contents: Any = self._contents
        stored = contents.get()
        if stored is None or (self.spec.keeps_elements and not stored):
            return
        if self.spec.evictor is None:
            self._function.call(self.backend.key, window, list(stored) if self.spec.keeps_elements else [stored])
            return
        records = [Record(element["value"], element["timestamp"]) for element in stored]
        kept = self.spec.evictor.evict_before(records, window, EVICTING)
        self._function.call(self.backend.key, window, self.spec.combined([record.value for record in kept]))
        kept = self.spec.evictor.evict_after(kept, window, EVICTING)
        self.backend.set_current_namespace(self._own, state_window)
        contents.update([_stored(record) for record in kept])

    def _on_merge(self, merged: Any, windows: list[Any], state_window: Any, state_windows: list[Any]) -> None:
        self._trigger.window = merged
        self._trigger.merged = windows
        self.spec.trigger.on_merge(merged, self._trigger)
        for window in windows:
            self._trigger.window = window
            self.spec.trigger.clear(window, self._trigger)
            self._delete_cleanup(window)
        self.backend.merge_namespaces(self._own, state_window, iter(state_windows))

    def _cleanup_time(self, window: Any) -> int:
        end: int = window.max_timestamp()
        if not self.spec.assigner.is_event_time:
            return end
        return min(end + self.spec.allowed_lateness, MAX_WATERMARK)

    def _register_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_WATERMARK:
            return
        if self.spec.assigner.is_event_time:
            self.timers.register_event(time, window)
        else:
            self.timers.register_processing(time, window)

    def _delete_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_WATERMARK:
            return
        if self.spec.assigner.is_event_time:
            self.timers.delete_event(time, window)
        else:
            self.timers.delete_processing(time, window)


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
        self._states = {descriptor.name: registry.register(descriptor, namespace) for descriptor in descriptors}

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
