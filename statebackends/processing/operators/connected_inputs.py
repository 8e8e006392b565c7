"""Several inputs of one function, for the bootstrap and the process operator: calls, contexts, broadcast elements.

Flink: ``KeyedCoProcessOperator``, ``BatchCoBroadcastWithKeyedOperator``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark_savepoint.statebackends.model.key_codec import KeyCodec
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
)
from pyspark_savepoint.statebackends.processing.api.object_reuse import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.timers import Timers
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.operators.connected_records import ConnectedRecords, Inputs
from pyspark_savepoint.statebackends.processing.operators.contexts import KeyedElementContext
from pyspark_savepoint.statebackends.processing.operators.entry_output import OUTSIDE
from pyspark_savepoint.statebackends.processing.operators.operator_states import (
    BroadcastSideContext,
    KeyedBroadcastElementContext,
    OperatorStates,
)
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder, Records
from pyspark_savepoint.statebackends.processing.operators.state_registry import Unshared
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.sorting.sort_runs import SortedBatch

ConnectedFunction = KeyedCoProcessFunction | KeyedMultipleInputFunction | KeyedBroadcastProcessFunction


def records_of(
    codec: KeyCodec, order: RecordOrder, columns: tuple[str, ...], plain: bool, inputs: Inputs | None
) -> Records:
    """Return the records of one input, or of several."""
    return Records(codec, order, columns, plain) if inputs is None else ConnectedRecords(codec, order, inputs)


class ConnectedInputs:
    """Inputs of a function in one task."""

    def __init__(self, function: ConnectedFunction, inputs: Inputs, version: tuple[int, int]) -> None:
        self.function = function
        self.store = OperatorStates(version)
        for descriptor in inputs.descriptors:
            self.store.add_broadcast(descriptor)
        self.calls = self._calls(len(inputs.keyed))

    def _calls(self, count: int) -> list[Callable[[Any, Any], Any]]:
        """Return the methods for the records of each keyed input."""
        function = self.function
        if isinstance(function, KeyedCoProcessFunction):
            return [function.process_element1, function.process_element2]
        if isinstance(function, KeyedMultipleInputFunction):
            return [partial(function.process_element, number) for number in range(1, count + 1)]
        return [function.process_element]

    def context(self, backend: KeyedStateBackend, timers: Timers) -> KeyedElementContext:
        """Return the context of keyed elements."""
        if isinstance(self.function, KeyedBroadcastProcessFunction):
            return KeyedBroadcastElementContext(backend, timers, self.store)
        return KeyedElementContext(backend, timers)

    def broadcast(
        self,
        batch: SortedBatch,
        records: Records,
        backend: KeyedStateBackend,
        reuse: ObjectReuseMode,
        unshared: Unshared,
        take: Callable[[Any], None],
    ) -> None:
        """Process a batch of broadcast elements; ``take`` is called with what the function returns for each."""
        function = self.function
        assert isinstance(function, KeyedBroadcastProcessFunction)
        assert isinstance(records, ConnectedRecords)
        ctx = BroadcastSideContext(self.store)
        with UserCode(function, "process_broadcast_element"):
            backend.set_current_key(None, OUTSIDE)
            for value, ctx.time in records.broadcast_values(batch, reuse, unshared):
                take(function.process_broadcast_element(value, ctx))
            backend.set_current_key(None, b"")
