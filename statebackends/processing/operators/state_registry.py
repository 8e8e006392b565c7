"""What a function has in a task: its states, its timers to save, and the context of each element.

On the driver, registration determines the states, because the header of all state files is fixed before the Spark job
starts. In tasks the same functions register the same states again, backed by a state backend. Timers to save are map
states of the key in every backend, from timestamp to True.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, SavepointError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.statebackends.processing.api.contexts import HasTaskInfo
from pyspark_savepoint.statebackends.processing.api.state import INTERFACES, MapState, ObjectReuseMode, State
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregatingStateDescriptor,
    Descriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
    serializer_of,
    with_default,
)
from pyspark_savepoint.statebackends.processing.api.timers import Timers, TimerService, check_time, now_millis
from pyspark_savepoint.statebackends.processing.backends.adapters import (
    Adapter,
    Copies,
    TimeToLive,
    copied,
    create_adapted,
)
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.heap import HeapStateBackend
from pyspark_savepoint.statebackends.processing.backends.rocksdb_backend import RocksDBStateBackend
from pyspark_savepoint.statebackends.processing.backends.single_key import (
    DroppingSingleKeyStateBackend,
    SingleKeyStateBackend,
)
from pyspark_savepoint.statebackends.processing.operators.entry_output import (
    PLAIN,
    EntryOutput,
    TimerOutput,
    unit_types,
)
from pyspark_savepoint.statebackends.processing.runtime.row import Row, make_row
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE, StateDescriptor, StateKind, timer_states


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


BACKENDS: dict[str, type[KeyedStateBackend]] = {
    "single_key": SingleKeyStateBackend,
    "heap": HeapStateBackend,
    "rocksdb": RocksDBStateBackend,
}


def create_backend(name: str, drops: bool = False) -> KeyedStateBackend:
    """Return a new, empty backend; ``drops``: the state of a key is not needed when the key is done."""
    if name not in BACKENDS:
        raise OptionError(f"there is no state backend {name!r}", remedy=did_you_mean(name, BACKENDS))
    kind = BACKENDS[name]
    return DroppingSingleKeyStateBackend() if drops and kind is SingleKeyStateBackend else kind()


class Unshared:
    """Adapter that copies the reused rows of FULL_REUSE when they are stored; inputs with the same fields share one."""

    expires = touches = False

    def __init__(self) -> None:
        self.rows: dict[tuple[str, ...], Row] = {}

    def row_of(self, fields: tuple[str, ...]) -> Row:
        """Return the row that is refilled for records of some fields."""
        if fields not in self.rows:
            self.rows[fields] = make_row(fields, (None,) * len(fields))
        return self.rows[fields]

    def expired(self, stored: Any) -> bool:
        return False

    def into(self, value: Any) -> Any:
        """Return a copy of a reused row; any other value unchanged."""
        for row in self.rows.values():
            if value is row:
                return copied(value)
        return value

    def out(self, stored: Any) -> Any:
        return stored


@dataclass
class StateRegistry(HasTaskInfo):
    """States of one operator in one task; ``descriptors`` were registered on the driver, None on the driver itself."""

    backend: KeyedStateBackend
    key_serializer: TypeSerializer
    flink_version: tuple[int, int] = DEFAULT_VERSION
    reuse: ObjectReuseMode = ObjectReuseMode.DEFAULT
    descriptors: tuple[StateDescriptor, ...] | None = None
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1
    states: list[StateDescriptor] = field(default_factory=list)
    done: deque[pa.RecordBatch] = field(default_factory=deque)
    outputs: list[EntryOutput | TimerOutput] = field(default_factory=list)
    unshared: Unshared = field(default_factory=Unshared)
    closed: bool = False
    _given: dict[str, tuple[Descriptor, State, State]] = field(default_factory=dict)

    # -- for functions ------------------------------------------------------------------------------------------

    def get_state(self, descriptor: ValueStateDescriptor | str, *, optional: bool = False) -> Any:
        return self.state(descriptor, StateKind.VALUE, optional)

    def get_list_state(self, descriptor: ListStateDescriptor | str, *, optional: bool = False) -> Any:
        return self.state(descriptor, StateKind.LIST, optional)

    def get_map_state(self, descriptor: MapStateDescriptor | str, *, optional: bool = False) -> Any:
        return self.state(descriptor, StateKind.MAP, optional)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor | str, *, optional: bool = False) -> Any:
        return self.state(descriptor, StateKind.REDUCING, optional)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor | str, *, optional: bool = False) -> Any:
        return self.state(descriptor, StateKind.AGGREGATING, optional)

    def state(self, descriptor: Descriptor | str, kind: StateKind, optional: bool = False) -> State:
        """Return the state of a descriptor, which must be of the requested kind."""
        if optional:
            raise OptionError(
                "a state that is written cannot be optional",
                state=descriptor if isinstance(descriptor, str) else descriptor.name,
                remedy="leave optional out: it is for reader functions, whose snapshot may lack a state",
            )
        if isinstance(descriptor, str) or descriptor.kind is not kind:
            wanted = INTERFACES[kind] + "Descriptor"
            raise OptionError(
                "a state that is written needs a descriptor of its kind",
                state=descriptor if isinstance(descriptor, str) else descriptor.name,
                expected=wanted,
                found=type(descriptor).__name__,
                remedy=f"give {wanted}(name, type), or call the method for the descriptor that you have",
            )
        return self.register(descriptor)[0]

    # -- for operators ------------------------------------------------------------------------------------------

    def register(
        self, descriptor: Descriptor, namespace: TypeSerializer | None = None, options: DecodeOptions = PLAIN
    ) -> tuple[State, State]:
        """Return a state as its user sees it, and as the backend has it; each name has one state."""
        if descriptor.name in self._given:
            before, seen, own = self._given[descriptor.name]
            if before != descriptor:
                raise OptionError(
                    "a state is registered twice, with different descriptors",
                    state=descriptor.name,
                    expected=f"{before}",
                    found=f"{descriptor}",
                    remedy="give one of them another name",
                )
            return seen, own
        if self.closed:
            raise OptionError(
                "a state must be registered before the first element",
                state=descriptor.name,
                remedy="register it in open",
            )
        state = StateDescriptor(
            descriptor.name, descriptor.kind, self._serializer(descriptor), namespace or NO_NAMESPACE
        )
        output = EntryOutput(self._number(state), state, self.done, options, self.key_serializer)
        self.outputs.append(output)
        adapters: list[Adapter] = []
        units = unit_types(state, options)
        if descriptor.ttl is not None:
            adapters.append(TimeToLive(descriptor.ttl, now_millis))
            value = state.units[-1]
            assert isinstance(value, TtlSerializer)
            units = (*units[:-1], value.value.arrow_type(options))
        # Immutable values are shared in every mode, as in Flink.
        if any(pa.types.is_nested(unit) for unit in units):
            if self.reuse is ObjectReuseMode.COPY_PER_OPERATOR:
                adapters.append(Copies())
            elif self.reuse is ObjectReuseMode.FULL_REUSE:
                adapters.append(self.unshared)
        registered = RegisteredState.of(descriptor, units, namespace is not None)
        adapted, own = create_adapted(self.backend, registered, output, adapters)
        seen = with_default(adapted, descriptor)
        self._given[descriptor.name] = (descriptor, seen, own)
        return seen, own

    def timers(self, service: str, namespace: TypeSerializer | None = None) -> SavedTimers:
        """Return both queues of a timer service."""
        states = timer_states(self.key_serializer, namespace or NO_NAMESPACE, (service,))
        event, processing = (TimerOutput(self._number(state), self.done) for state in states)
        self.outputs += [event, processing]
        return SavedTimers(self.backend, event, processing, namespace is not None)

    def discard(self) -> None:
        """Drop the states at the end of their keys, without output."""
        self.closed = True
        for output in self.outputs:
            output.discards = True

    def flush(self) -> None:
        """Move the remaining contents of the outputs to ``done``."""
        for output in self.outputs:
            output.flush()

    def _number(self, state: StateDescriptor) -> int:
        number = len(self.states)
        self.states.append(state)
        if self.descriptors is not None and self.descriptors[number : number + 1] != (state,):
            raise OptionError(
                "the function registers other states in a task than on the driver",
                state=state.name,
                expected=", ".join(descriptor.name for descriptor in self.descriptors),
                remedy="register the same states in the same order in every call of open",
            )
        return number

    def _serializer(self, descriptor: Descriptor) -> TypeSerializer:
        units = [self._unit(descriptor, text) for text in descriptor.types]
        if descriptor.ttl is not None:
            units[-1] = TtlSerializer.of(units[-1])
        if descriptor.kind is StateKind.LIST:
            return ListSerializer.of(units[0])
        return MapSerializer.of(*units) if descriptor.kind is StateKind.MAP else units[0]

    def _unit(self, descriptor: Descriptor, text: str | TypeSerializer | None) -> TypeSerializer:
        if text is None:
            types = '"STRING", "LONG"' if descriptor.kind is StateKind.MAP else '"LONG"'
            raise OptionError(
                "the type of a state that is written is missing",
                state=descriptor.name,
                remedy=f"for example {type(descriptor).__name__}({descriptor.name!r}, {types})",
            )
        try:
            return serializer_of(text, self.flink_version)
        except SavepointError as error:
            raise error.with_facts(state=descriptor.name) from None


class KeyedElementContext:
    """Time and key of an element; the operator sets ``time``."""

    __slots__ = ("_backend", "_domain", "_service", "time")

    def __init__(self, backend: KeyedStateBackend, timers: Timers) -> None:
        self.time: int | None = None
        self._backend = backend
        self._service = TimerService(timers)
        self._domain = ""

    def timestamp(self) -> int | None:
        """Return the element's milliseconds from ``assign_timestamps`` (a timer's own time), or None."""
        return self.time

    def timer_service(self) -> TimerService:
        """Return the timers of the key."""
        return self._service

    def get_current_key(self) -> Any:
        return self._backend.key

    def time_domain(self) -> str:
        """Return the domain of a firing timer: ``event`` or ``processing``."""
        return self._domain

    def firing(self, timestamp: int, domain: str) -> None:
        self.time, self._domain = timestamp, domain


class PlainContext:
    """Context of functions without key."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time: int | None = None

    def timestamp(self) -> int | None:
        """Return the element's milliseconds from ``assign_timestamps``, or None without it."""
        return self.time

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return now_millis()
