"""Bootstrapping of state without keys: list and union state from every task, broadcast state from one.

One run produces the rows of one state: ``value``, or ``key`` and ``value``. Flink: ``StateBootstrapOperator``,
``BroadcastStateBootstrapOperator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION, parse_type
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor, OperatorStateMode, StateKind
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    HasTaskInfo,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import ListStateDescriptor, MapStateDescriptor
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState
from pyspark_savepoint.statebackends.processing.backends.single_key_states import SingleKeyListState, SingleKeyMapState
from pyspark_savepoint.statebackends.processing.operators.contexts import PlainContext
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN
from pyspark_savepoint.statebackends.processing.operators.records import plain_values
from pyspark_savepoint.statebackends.processing.operators.state_registry import ObjectReuse, Unshared
from pyspark_savepoint.statebackends.processing.runtime.adaptive_batches import AdaptiveBatches
from pyspark_savepoint.statebackends.processing.runtime.user_code import (
    Closing,
    UserCode,
    name_of,
    open_function,
    yields_nothing,
)
from pyspark_savepoint.statebackends.processing.runtime.values import from_python

#: Decode options of the columns sent to Spark; functions use PLAIN.
SENT = DecodeOptions()


@dataclass(frozen=True)
class OperatorStatePlan:
    """Plan of the tasks; ``state`` is the one whose rows are produced."""

    function: StateBootstrapFunction | BroadcastStateBootstrapFunction
    columns: tuple[str, ...]
    timestamp: str | None = None
    reuse: ObjectReuse = ObjectReuse.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    state: str = ""

    def describe(self) -> tuple[OperatorStateDescriptor, ...]:
        """Return all states; runs on the driver with a copy of the function."""
        task = OperatorStateTask(self, 0)
        with Closing(self.function):
            task.open()
        if not task.store.descriptors:
            how = "initialize_state" if isinstance(self.function, StateBootstrapFunction) else "state_descriptors"
            remedy = (
                "ctx.get_operator_state_store().get_list_state(ListStateDescriptor('state', 'LONG')) in it"
                if isinstance(self.function, StateBootstrapFunction)
                else "make the MapStateDescriptor an attribute of the function's class, or name it in state_descriptors"
            )
            raise OptionError(
                f"the function has no state: its {how} names none", function=name_of(self.function), remedy=remedy
            )
        return tuple(task.store.descriptors.values())


def state_schema(state: OperatorStateDescriptor, options: DecodeOptions = SENT) -> pa.Schema:
    """Return the columns of a state's rows."""
    value = pa.field("value", state.element.arrow_type(options))
    return pa.schema([value] if state.key is None else [pa.field("key", state.key.arrow_type(options)), value])


@dataclass
class _Store(HasTaskInfo):
    """Operator state and broadcast states of one task. Flink: ``OperatorStateStore``."""

    version: tuple[int, int]
    descriptors: dict[str, OperatorStateDescriptor] = field(default_factory=dict)
    states: dict[str, SingleKeyListState | SingleKeyMapState] = field(default_factory=dict)
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1

    def get_operator_state_store(self) -> _Store:
        return self

    get_operator_state = get_operator_state_store

    def get_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that is split over subtasks."""
        return self._list(descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that every subtask gets as a whole."""
        return self._list(descriptor, OperatorStateMode.UNION)

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> SingleKeyListState:
        element = self._type(descriptor.name, descriptor.type)
        self._add(OperatorStateDescriptor(descriptor.name, mode, element))
        units = (element.arrow_type(PLAIN),)
        state = SingleKeyListState(RegisteredState(descriptor.name, StateKind.LIST, units))
        self.states[descriptor.name] = state
        return state

    def add_broadcast(self, descriptor: MapStateDescriptor) -> None:
        """Add a map of which every subtask has a copy."""
        key, value = (self._type(descriptor.name, text) for text in descriptor.types)
        mode = OperatorStateMode.BROADCAST
        self._add(OperatorStateDescriptor(descriptor.name, mode, value, key, ("key", "value")))
        units = (key.arrow_type(PLAIN), value.arrow_type(PLAIN))
        self.states[descriptor.name] = SingleKeyMapState(RegisteredState(descriptor.name, StateKind.MAP, units))

    def _add(self, descriptor: OperatorStateDescriptor) -> None:
        if descriptor.name in self.descriptors:
            raise OptionError("a state is registered twice", state=descriptor.name)
        self.descriptors[descriptor.name] = descriptor

    def _type(self, state: str, text: str | None) -> Any:
        if text is None:
            raise OptionError(
                "a state that is written needs its type",
                state=state,
                remedy="its descriptor says it in Flink's words: 'LONG', of a map 'STRING', 'LONG'",
            )
        try:
            return parse_type(text, self.version)
        except SavepointError as error:
            raise error.with_facts(state=state) from None


class _BroadcastContext(PlainContext):
    """Context of a broadcast function. Flink: ``BroadcastStateBootstrapFunction.Context``."""

    __slots__ = ("_store",)

    def __init__(self, store: _Store) -> None:
        super().__init__()
        self._store = store

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> SingleKeyMapState:
        """Return a broadcast state, given by one of the function's descriptors."""
        state = self._store.states.get(descriptor.name)
        if not isinstance(state, SingleKeyMapState):
            raise OptionError(
                "the broadcast state is not among the descriptors of the function",
                state=descriptor.name,
                remedy="make the descriptor an attribute of the function's class, or give it in state_descriptors()",
            )
        return state


class OperatorStateTask:
    """One task of a plan."""

    def __init__(self, plan: OperatorStatePlan, index: int) -> None:
        self.plan = plan
        self.store = _Store(plan.flink_version, index_of_this_subtask=index)

    def open(self) -> None:
        function = self.plan.function
        yields_nothing(function.process_element)
        with UserCode(function, "open"):
            open_function(function, self.store)
            if isinstance(function, StateBootstrapFunction):
                function.initialize_state(self.store)
            else:
                for descriptor in function.state_descriptors():
                    self.store.add_broadcast(descriptor)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the selected state."""
        function = self.plan.function
        with Closing(function):
            self.open()
            with UserCode(function, "process_element"):
                for batch in batches:
                    self._process(batch)
            if isinstance(function, StateBootstrapFunction):
                with UserCode(function, "snapshot_state"):
                    function.snapshot_state()
            yield from self._rows()

    def _process(self, batch: pa.RecordBatch) -> None:
        ctx: Any = PlainContext() if isinstance(self.plan.function, StateBootstrapFunction) else None
        if ctx is None:
            ctx = _BroadcastContext(self.store)
        process = self.plan.function.process_element
        for value, ctx.time in plain_values(batch, self.plan.columns, self.plan.timestamp, self.plan.reuse, Unshared()):
            process(value, ctx)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        state, descriptor = self.store.states[self.plan.state], self.store.descriptors[self.plan.state]
        name, schema, sent = f"state {self.plan.state!r}", state_schema(descriptor, PLAIN), state_schema(descriptor)
        rows: list[tuple[Any, ...]] = (
            [(each,) for each in state.get()] if isinstance(state, SingleKeyListState) else list(state.items())
        )
        pace = AdaptiveBatches()
        for part in pace.parts(rows):
            columns = zip(zip(*part, strict=True), schema, strict=True)
            arrays = [from_python(column, field.type, name) for column, field in columns]
            batch = pa.RecordBatch.from_arrays(
                [array.cast(field.type) for array, field in zip(arrays, sent, strict=True)], schema=sent
            )
            pace.made(len(part), batch.nbytes)
            yield batch
