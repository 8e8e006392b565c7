"""Inputs of one key, merged by key and time, and broadcast ones before them: Flink's tests of sorted inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    UserFunctionError,
    ValueStateDescriptor,
)
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.timers import MAX_WATERMARK, MIN_WATERMARK
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import INPUT, ORDER, Inputs, RecordInput
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor

RATES = MapStateDescriptor("rates", "STRING", "LONG")
FIELDS = ("key", "value", "ts")
#: (input, key, value, timestamp); input 0 is broadcast.
Record = tuple[int, Any, int, int]


def batches(records: Sequence[Record], inputs: Inputs, kind: pa.DataType, size: int = 3) -> Iterator[pa.RecordBatch]:
    """The table of all inputs, some rows at a time."""
    every = [(number, each) for number, each in enumerate(inputs.keyed, 1)]
    every += [(0, inputs.broadcast)] if inputs.broadcast is not None else []
    struct = pa.struct([("key", kind), ("value", pa.int64()), ("ts", pa.int64())])
    for low in range(0, len(records), size):
        part = records[low : low + size]
        columns = {
            INPUT: pa.array([number for number, *_ in part], pa.int32()),
            ORDER: pa.array(range(low, low + len(part)), pa.int64()),
            "k": pa.array([key if number else None for number, key, *_ in part], kind),
        }
        for number, each in every:
            rows = [dict(zip(FIELDS, record[1:], strict=True)) if record[0] == number else None for record in part]
            columns[each.column] = pa.array(rows, struct)
            if each.timestamp is not None:
                columns[each.timestamp] = pa.array([r[3] if r[0] == number else None for r in part], pa.int64())
        yield pa.record_batch(columns)


def inputs_of(count: int, timed: Sequence[int], broadcast: bool = False) -> Inputs:
    """Inputs by number, of which some have timestamps."""
    made = [RecordInput(f"rows{i}", FIELDS, f"time{i}" if i in timed else None) for i in range(count + 1)]
    return Inputs(tuple(made[1:]), made[0], (RATES,)) if broadcast else Inputs(tuple(made[1:]))


def processed(
    function: Any, records: Sequence[Record], inputs: Inputs, schema: pa.Schema, key: str = "LONG", **more: Any
) -> list[Any]:
    """The rows that a function yields, by one task."""
    described = KeyedDescriptor(("k",), parse_type(key), ())
    plan = ProcessPlan(function, described, (), schema, 128, inputs=inputs, **more)
    kind = pa.string() if key == "STRING" else pa.int64()
    found = [b.to_pylist() for b in ProcessTask(plan, 0).run(batches(records, inputs, kind))]
    return [tuple(row.values()) for rows in found for row in rows]


class Trace(KeyedMultipleInputFunction):
    """Function that yields the records of all inputs in their order."""

    def process_element(self, input_id: int, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), input_id, value.value, ctx.timestamp()


TRACE = pa.schema([("key", pa.int64()), ("input", pa.int64()), ("value", pa.int64()), ("time", pa.int64())])
KEYED_TEXT = pa.schema([("key", pa.string()), *list(TRACE)[1:]])


def test_simple_fixed_length_key_sorting() -> None:
    """Flink: ``MultiInputSortingDataInputsTest``: by key, then by time over all inputs; equal times by input."""
    records = [(1, 2, 1, 3), (2, 1, 2, 5), (1, 1, 3, 7), (2, 2, 4, 1), (1, 1, 5, 5), (2, 1, 6, 1), (1, 2, 7, 1)]
    found = processed(Trace(), records, inputs_of(2, (1, 2)), TRACE)
    by_key = {key: [row[1:] for row in found if row[0] == key] for key in (1, 2)}
    assert by_key == {1: [(2, 6, 1), (1, 5, 5), (2, 2, 5), (1, 3, 7)], 2: [(1, 7, 1), (2, 4, 1), (1, 1, 3)]}
    keys = [row[0] for row in found]
    assert keys in ([1] * 4 + [2] * 3, [2] * 3 + [1] * 4)


@pytest.mark.parametrize("reuse", list(ObjectReuseMode))
def test_simple_variable_length_key_sorting(reuse: ObjectReuseMode) -> None:
    """Keys of any length, three inputs; records without timestamps come first, in the order of their arrival."""
    rng = np.random.default_rng(7)
    records = [
        (int(rng.integers(1, 4)), "a" * int(rng.integers(0, 9)), n, int(rng.integers(-50, 50))) for n in range(400)
    ]
    inputs = inputs_of(3, (1, 3))
    found = processed(Trace(), records, inputs, KEYED_TEXT, "STRING", reuse=reuse, order=RecordOrder(sort_memory=4096))
    assert len(found) == len(records)
    whole = {key: sorted(
        (r for r in records if r[1] == key), key=lambda r: (MIN_WATERMARK if r[0] == 2 else r[3], r[0], r[2])
    ) for key in {r[1] for r in records}}  # fmt: skip
    keys = list(dict.fromkeys(row[0] for row in found))
    assert len(keys) == len(whole)
    expected = [(k, n, value, None if n == 2 else time) for key in keys for n, k, value, time in whole[key]]
    assert found == expected


class Tens(KeyedCoProcessFunction):
    """Function that counts in buckets of ten, and yields the counts when their timers fire."""

    def open(self, ctx: Any) -> None:
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", "LONG", "LONG"))
        self.previous = ctx.get_state(ValueStateDescriptor("previous", "LONG", default=MIN_WATERMARK))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        service = ctx.timer_service()
        assert service.current_watermark() == MIN_WATERMARK
        assert self.previous.value() <= ctx.timestamp()
        self.previous.update(ctx.timestamp())
        ten = (ctx.timestamp() + 10) // 10 * 10
        service.register_event_time_timer(ten)
        self.counts.put(ten, (self.counts.get(ten) or 0) + 1)

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.timer_service().current_watermark() == MAX_WATERMARK
        yield ctx.get_current_key(), timestamp, self.counts.get(timestamp), None


ELEMENTS = [(1, 3), (1, 1), (2, 1), (1, 4), (2, 3), (1, 2), (1, 13), (1, 11), (2, 14), (1, 11)]


def test_batch_execution_with_timers_two_input() -> None:
    """Flink: ``SortingBoundedInputITCase#testBatchExecutionWithTimersTwoInput``."""
    records = [(number, key, 0, time) for number in (1, 2) for key, time in ELEMENTS]
    found = processed(Tens(), records, inputs_of(2, (1, 2)), TRACE)
    assert sorted(row[:3] for row in found) == [(1, 10, 8), (1, 20, 6), (2, 10, 4), (2, 20, 2)]
    plan = BootstrapPlan(
        Tens(), KeyedDescriptor(("k",), parse_type("LONG"), ()), (), 128, inputs=inputs_of(2, (1, 2))
    ).describe()
    entries = [row for batch in BootstrapTask(plan, 0).run(batches(records, plan.inputs, pa.int64()))
               for row in batch.to_pylist()]  # fmt: skip
    # Both states, and the timers instead of their rows.
    states = [state.name for state in plan.states or ()]
    counted = {name: sum(states[row["state"]] == name for row in entries) for name in states}
    assert counted == {
        "counts": 4, "previous": 2, "_timer_state/event_user-timers": 4, "_timer_state/processing_user-timers": 0
    }  # fmt: skip


class Rated(KeyedBroadcastProcessFunction):
    """Values by the rates that came before."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "LONG", default=0))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        assert ctx.current_watermark() == MIN_WATERMARK
        state = ctx.get_broadcast_state(RATES)
        state.put("rate", value.value)
        state.put("seen", (state.get("seen") or 0) + 1)
        yield 0, state.get("seen"), value.value, ctx.timestamp()

    def process_element(self, value: Any, ctx: Any) -> None:
        rate = ctx.get_broadcast_state(RATES).get("rate")
        self.total.update(self.total.value() + rate * value.value)
        ctx.timer_service().register_processing_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), ctx.get_broadcast_state(RATES)["seen"], self.total.value(), None


def test_pass_through_then_sorted_input() -> None:
    """Flink: ``MultiInputSortingDataInputsTest#passThroughThenSortedInput``: all of the broadcast input comes first."""
    records = [(1, 1, 1, 0), (0, None, 10, 9), (1, 2, 2, 0), (0, None, 20, 8), (1, 1, 3, 0), (0, None, 100, 7)]
    found = processed(Rated(), records, inputs_of(1, (0, 1), broadcast=True), TRACE)
    assert found[:3] == [(0, 1, 10, 9), (0, 2, 20, 8), (0, 3, 100, 7)]
    assert sorted(found[3:], key=lambda row: row[0]) == [(1, 3, 400, None), (2, 3, 200, None)]


class Trespassing(Rated):
    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        self.total.update(1)


class Writing(Rated):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RATES).put("rate", 1)


class Applying(Rated):
    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.apply_to_keyed_state(ValueStateDescriptor("total", "LONG"), lambda key, state: None)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Trespassing(), "state of a key cannot be changed by a broadcast element"),
        (Applying(), "no keyed state to apply a function to"),
        (Writing(), "keyed elements can only read broadcast state"),
    ],
)
def test_each_side_changes_its_own_state(function: Any, message: str) -> None:
    records = [(0, None, 10, 9), (1, 1, 1, 0)]
    with pytest.raises((OptionError, UserFunctionError), match=message):
        processed(function, records, inputs_of(1, (), broadcast=True), TRACE)
    if isinstance(function, Trespassing):
        plan = BootstrapPlan(
            function, KeyedDescriptor(("k",), parse_type("LONG"), ()), (), 128, inputs=inputs_of(1, (), broadcast=True)
        ).describe()
        with pytest.raises(OptionError, match=message):
            list(BootstrapTask(plan, 0).run(batches(records, plan.inputs, pa.int64())))


class Fires(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value.amount)
        ctx.timer_service().register_event_time_timer(value.amount)
        ctx.timer_service().delete_event_time_timer(2)
        yield ctx.get_current_key(), "element", value.amount

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"timer {timestamp}", self.last.value()


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_sorted_inputs_disabled(backend: str) -> None:
    """FLIP-140: with sorting switched off records come as they arrive; all timers fire at the end, by time."""
    schema = pa.schema([("key", pa.int64()), ("what", pa.string()), ("last", pa.int64())])
    key = KeyedDescriptor(("key",), parse_type("LONG"), ())
    order = RecordOrder(sort=False)
    plan = ProcessPlan(Fires(), key, ("key", "amount"), schema, 128, order, backend=backend)
    batch = pa.record_batch({"key": [2, 1, 2, 1], "amount": [7, 5, 3, 2]})
    rows = [tuple(row.values()) for found in ProcessTask(plan, 0).run([batch]) for row in found.to_pylist()]
    elements = [(2, "element", 7), (1, "element", 5), (2, "element", 3), (1, "element", 2)]
    assert rows == [*elements, (2, "timer 3", 3), (1, "timer 5", 2), (2, "timer 7", 3)]
