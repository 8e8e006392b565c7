"""Several inputs of one function, for the bootstrap and the process operator: their records, calls and contexts.

The rows of all inputs are one table: a number per row, the key, and for each input a struct column with its rows and,
if it has timestamps, a column with them. One sort of this table does what sorting each input and merging them would.
Records of a key are in the order of their timestamps; those without a timestamp come first, and of equal timestamps
those of the first input (FLIP-140).

    input   0 for the broadcast input, from 1 for keyed inputs
    order   of broadcast rows their number, so that they come in the same order in every task

Flink: ``KeyedCoProcessOperator``, ``BatchCoBroadcastWithKeyedOperator``, ``MultiInputSortingDataInput``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
)
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor
from pyspark_savepoint.statebackends.processing.api.timers import MIN_WATERMARK, Timers
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.operators.entry_output import OUTSIDE
from pyspark_savepoint.statebackends.processing.operators.operator_state import (
    BroadcastSideContext,
    KeyedBroadcastElementContext,
    OperatorStates,
)
from pyspark_savepoint.statebackends.processing.operators.records import (
    CHUNK,
    Chunk,
    RecordOrder,
    Records,
    serialized_numbers,
    sortable,
    timestamps_of,
    values_of,
    without_suffix,
)
from pyspark_savepoint.statebackends.processing.operators.state_registry import KeyedElementContext, Unshared
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.rows.sorting import RowSorter, SortedBatch

INPUT, ORDER = "__savepoint_input", "__savepoint_order"
BROADCAST = 0


@dataclass(frozen=True)
class RecordInput:
    """One of several inputs: the struct column with its rows, their fields, and the column of its timestamps."""

    column: str
    fields: tuple[str, ...]
    timestamp: str | None

    def values(self, rows: pa.RecordBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Iterable[Any]:
        """Return rows of this input alone as functions get them."""
        structs = rows.column(self.column)
        whole = pa.RecordBatch.from_arrays(structs.flatten(), names=list(self.fields))
        return values_of(whole, self.fields, reuse, unshared)


@dataclass(frozen=True)
class Inputs:
    """Inputs of one function: keyed ones by number from 1, and the broadcast one with the states that it fills."""

    keyed: tuple[RecordInput, ...]
    broadcast: RecordInput | None = None
    descriptors: tuple[MapStateDescriptor, ...] = ()


class ConnectedRecords(Records):
    """Records of one task from several inputs."""

    def __init__(self, codec: KeyCodec, order: RecordOrder, inputs: Inputs) -> None:
        super().__init__(codec, order, ())
        self.inputs = inputs

    def sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SortedBatch]:
        """Yield all broadcast records, then all keyed records in order."""
        if self.inputs.broadcast is None:
            yield from super().sorted(batches)
            return
        memory = self.order.sort_memory // 2
        with ExitStack() as stack:
            sorters: list[RowSorter] = []
            width = 0
            for batch in batches:
                if not batch.num_rows:
                    continue
                if not sorters:
                    sorters = [stack.enter_context(RowSorter(batch.schema, memory)) for _ in range(2)]
                first = _numbers(batch) == BROADCAST
                rest = batch.filter(pa.array(~first))
                if rest.num_rows:
                    suffix = self._suffix(rest)
                    width = suffix.shape[1]
                    keyed = self._keyed(rest, suffix)
                    sorters[1].add(keyed.key_group, keyed.key, keyed.rows)
                broadcast = batch.filter(pa.array(first))
                if broadcast.num_rows:
                    order = np.asarray(broadcast.column(ORDER), np.int64)
                    sorters[0].add(np.zeros(len(order), np.int32), serialized_numbers(order), broadcast)
            if sorters:
                yield from sorters[0].sorted()
                yield from without_suffix(sorters[1].sorted(), width)

    def is_broadcast(self, batch: SortedBatch) -> bool:
        """Return whether the records of a batch are those of the broadcast input."""
        return self.inputs.broadcast is not None and bool(_numbers(batch.rows)[0] == BROADCAST)

    def broadcast_values(
        self, batch: SortedBatch, reuse: ObjectReuseMode, unshared: Unshared
    ) -> Iterator[tuple[Any, int | None]]:
        """Yield broadcast records with their timestamps."""
        given = self.inputs.broadcast
        assert given is not None
        for low in range(0, len(batch), CHUNK):
            rows = batch.cut(low, min(low + CHUNK, len(batch))).rows
            none = [None] * rows.num_rows
            times = none if given.timestamp is None else timestamps_of(rows, given.timestamp).tolist()
            yield from zip(given.values(rows, reuse, unshared), times, strict=False)

    def _suffix(self, batch: pa.RecordBatch) -> Bytes:
        times = np.full(batch.num_rows, MIN_WATERMARK, np.int64)
        numbers = _numbers(batch)
        for number, given in enumerate(self.inputs.keyed, 1):
            if given.timestamp is not None:
                own = numbers == number
                times[own] = timestamps_of(batch.filter(pa.array(own)), given.timestamp)
        return np.concatenate([sortable(times), numbers.astype(np.uint8)[:, None]], axis=1)

    def _filled(self, chunk: Chunk, rows: pa.RecordBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Chunk:
        numbers = _numbers(rows)
        times: list[int | None] = [None] * rows.num_rows
        parts: list[Iterator[Any]] = []
        for number, given in enumerate(self.inputs.keyed, 1):
            own = numbers == number
            mine = rows.filter(pa.array(own))
            parts.append(iter(given.values(mine, reuse, unshared)))
            if given.timestamp is not None:
                own_times = timestamps_of(mine, given.timestamp).tolist()
                for row, time in zip(np.flatnonzero(own).tolist(), own_times, strict=True):
                    times[row] = time
        inputs = (numbers - 1).tolist()
        values = (next(parts[number]) for number in inputs)
        return replace(chunk, values=values, timestamps=times, inputs=inputs)


def _numbers(batch: pa.RecordBatch) -> Longs:
    return np.asarray(batch.column(INPUT), np.int64)


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
