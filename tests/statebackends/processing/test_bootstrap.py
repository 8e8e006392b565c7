"""Bootstrap functions over records: the same state on every backend, in every order, in every mode of object reuse."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError, UserFunctionError, ValueRangeError
from pyspark_savepoint.formats.larger_batches import gathered
from pyspark_savepoint.statebackends.processing.api.functions import KeyedProcessFunction, KeyedStateBootstrapFunction
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.processing.runtime import collector
from tests.statebackends.processing.tasks import ARRIVED, MODES, SORTED, batches_of, plan_of, run_plan, states_after

records = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "ab", "ü"]), st.integers(-50, 50), st.integers(-(10**6), 10**6)),
    max_size=25,
)


class Mean(AggregateFunction[int, Any, float]):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])


class Everything(KeyedStateBootstrapFunction):
    """Every kind of state, read and written, and timers set and deleted."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "TUPLE<LONG, STRING>"))
        self.amounts = ctx.get_list_state(ListStateDescriptor("amounts", "LONG"))
        self.by_sign = ctx.get_map_state(MapStateDescriptor("by-sign", "STRING", "LONG"))
        self.total = ctx.get_reducing_state(ReducingStateDescriptor("total", "LONG", reduce=lambda a, b: a + b))
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", "TUPLE<LONG, LONG>", aggregate=Mean()))

    def process_element(self, value: Any, ctx: Any) -> None:
        assert ctx.get_current_key() == value.key
        assert ctx.timestamp() == value.ts
        before = self.last.value()
        self.last.update((value.amount, f"{before[0]}" if before is not None else "none"))
        if value.amount == 0:
            self.last.clear()
            self.amounts.clear()
            self.by_sign.remove("-")
        self.amounts.add(value.amount)
        if value.amount % 7 == 0:
            self.amounts.update([*self.amounts.get()[-2:], value.amount])
        sign = "-" if value.amount < 0 else "+"
        self.by_sign.put(sign, (self.by_sign.get(sign) or 0) + 1)
        if value.amount == 13:
            self.by_sign.put("none", None)
        self.total.add(value.amount)
        self.mean.add(value.amount)
        self.by_sign.put("mean", round(self.mean.get()))
        timers = ctx.timer_service()
        timers.register_event_time_timer(value.ts + 5)
        timers.register_processing_time_timer(value.amount)
        if value.amount == 1:
            timers.delete_event_time_timer(value.ts + 5)


@settings(max_examples=60, deadline=None)
@given(records)
def test_arrival_on_the_heap_and_sorted_single_keys_agree(found: list[Any]) -> None:
    # In arrival order each key's records come by timestamp too, so that both see the same history.
    found = sorted(found, key=lambda record: record[2])
    expected = run_plan(plan_of(Everything()), found)
    assert run_plan(plan_of(Everything(), "heap", ARRIVED), found) == expected
    assert run_plan(plan_of(Everything(), "heap", SORTED), found) == expected
    for mode in MODES:
        assert run_plan(plan_of(Everything(), reuse=mode), found) == expected


@settings(max_examples=12, deadline=None)
@given(records)
def test_rocksdb_agrees(found: list[Any]) -> None:
    found = sorted(found, key=lambda record: record[2])
    assert run_plan(plan_of(Everything(), "rocksdb", ARRIVED), found) == run_plan(plan_of(Everything()), found)


@settings(max_examples=40, deadline=None)
@given(records)
def test_state_is_what_plain_python_says(found: list[Any]) -> None:
    states = states_after(plan_of(Everything()), found)
    totals: dict[str, int] = {}
    timers: dict[str, set[int]] = {}
    for key, amount, ts in sorted(found, key=lambda record: record[2]):
        totals[key] = totals.get(key, 0) + amount
        (timers.setdefault(key, set()).discard if amount == 1 else timers.setdefault(key, set()).add)(ts + 5)
    assert states["total"] == totals
    assert states["_timer_state/event_user-timers"] == {key: sorted(times) for key, times in timers.items() if times}
    assert {key: sorted(set(times)) for key, times in states["_timer_state/processing_user-timers"].items()} == {
        key: sorted({amount for other, amount, _ in found if other == key}) for key in totals
    }
    counts = {key: [r[0] for r in found].count(key) for key in totals}
    assert {key: content["f1"] for key, content in states["mean"].items()} == counts


def test_records_beyond_memory_are_sorted_on_disk() -> None:
    found = [(f"{i * 7919 % 500}", i, i) for i in range(6000)]
    small = RecordOrder(sort_memory=1 << 14, timestamp="ts")
    assert run_plan(plan_of(Everything(), order=small), found) == run_plan(plan_of(Everything()), found)


PRESORTED = RecordOrder(presorted=True, timestamp="ts")


@settings(max_examples=20, deadline=None)
@given(records)
def test_records_that_spark_has_sorted_are_taken_as_they_are(found: list[Any]) -> None:
    found = sorted(found, key=lambda record: (record[0].encode(), record[2]))
    assert run_plan(plan_of(Everything(), order=PRESORTED), found) == run_plan(plan_of(Everything()), found)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(
    ("wrong", "places"),
    [
        ([("a", 1, 6), ("a", 2, 5)], "key 'a' after key 'a'"),
        ([("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("a", 1, 2)], "key 'a' after key 'c'"),
    ],
)
def test_what_is_not_presorted_is_refused(wrong: list[Any], places: str, size: int) -> None:
    task = BootstrapTask(plan_of(Everything(), order=PRESORTED), 0)
    with pytest.raises(ValueRangeError, match=places):
        list(task.run(batches_of(wrong, size)))


def test_the_order_of_some_keys_proves_nothing() -> None:
    task = BootstrapTask(plan_of(Everything(), order=PRESORTED, key="DOUBLE"), 0)
    batch = pa.record_batch({"key": [0.5], "amount": pa.array([1], pa.int64()), "ts": pa.array([1], pa.int64())})
    with pytest.raises(OptionError, match="leave presorted out"):
        list(task.run([batch]))


class Expiring(KeyedStateBootstrapFunction):
    """State with a time to live."""

    def __init__(self, ttl: int, update: UpdateType = UpdateType.ON_CREATE_AND_WRITE) -> None:
        self.config = StateTtlConfig(ttl, update)

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "LONG", ttl=self.config))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "LONG", ttl=self.config))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "LONG", "LONG", ttl=self.config))
        self.sum = ctx.get_reducing_state(
            ReducingStateDescriptor("sum", "LONG", reduce=lambda a, b: a + b, ttl=self.config)
        )
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", "TUPLE<LONG, LONG>", aggregate=Mean(), ttl=self.config)
        )

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen = (self.value.value(), self.list.get(), dict(self.map.items()), self.sum.get(), self.mean.get())
        assert self.map.contains(value.amount) == (value.amount in self.seen[2])
        assert self.map.is_empty() == (not self.seen[2])
        self.value.update(value.amount)
        self.list.add(value.amount)
        self.map.put(value.amount, value.amount)
        self.sum.add(value.amount)
        self.mean.add(value.amount)


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize("update", list(UpdateType))
def test_values_with_a_time_to_live_have_their_last_access(backend: str, update: UpdateType) -> None:
    before = time.time_ns() // 1_000_000
    function = Expiring(60_000, update)
    order = SORTED if backend == "single_key" else ARRIVED
    states = states_after(plan_of(function, backend, order), [("a", 1, 1), ("a", 2, 2)])
    now = time.time_ns() // 1_000_000
    assert function.seen == (1, [1], {1: 1}, 1, 1.0)
    assert states["value"]["a"]["value"] == 2
    assert [each["value"] for each in states["list"]["a"]] == [1, 2]
    assert {key: each["value"] for key, each in states["map"]["a"].items()} == {1: 1, 2: 2}
    assert states["sum"]["a"]["value"] == 3
    assert states["mean"]["a"]["value"] == {"f0": 3, "f1": 2}
    accesses = [states[name]["a"]["last_access"] for name in ("value", "sum", "mean")]
    assert all(before <= each <= now for each in accesses)


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
def test_what_has_expired_is_not_seen(backend: str) -> None:
    function = Expiring(0)
    order = SORTED if backend == "single_key" else ARRIVED
    states = states_after(plan_of(function, backend, order), [("a", 1, 1), ("a", 2, 2)])
    assert function.seen == (None, [], {}, None, None)
    assert [each["value"] for each in states["list"]["a"]] == [2]
    assert (states["sum"]["a"]["value"], states["mean"]["a"]["value"]) == (2, {"f0": 2, "f1": 1})


class Heavy(KeyedStateBootstrapFunction):
    """Values of a few kilobytes, of which none is in the records."""

    def open(self, ctx: Any) -> None:
        self.text = ctx.get_state(ValueStateDescriptor("text", "STRING"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.text.update("x" * 4096)


class HeavyRows(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield "x" * 4096


@pytest.mark.parametrize("backend", ["single_key", "heap"])
def test_values_are_let_go_as_soon_as_they_are_a_batch(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "BYTES", 1 << 16)
    found = [(f"{i:04}", i, i) for i in range(2000)]
    sizes = [batch.num_rows for batch in BootstrapTask(plan_of(Heavy(), backend), 0).run(batches_of(found, 2000))]
    assert (sizes[0], sum(sizes)) == (collector.FIRST, 2000)
    assert set(sizes[1:-1]) == {(1 << 16) // 4115}, "entries of 4 kB and a key"
    plan = ProcessPlan(HeavyRows(), plan_of(Heavy()).key, ("key",), pa.schema([("text", pa.string())]), 16, SORTED)
    sizes = [batch.num_rows for batch in ProcessTask(plan, 0).run(batches_of(found, 2000))]
    assert (sizes[0], sum(sizes)) == (collector.FIRST, 2000)
    assert max(sizes[1:]) < 17


# -- what is refused -----------------------------------------------------------------------------------------


class Opened(KeyedStateBootstrapFunction):
    """Function that registers the given states in open(), or if ``late`` for each element."""

    def __init__(self, register: Any, late: bool = False) -> None:
        self.register, self.late = register, late

    def open(self, ctx: Any) -> None:
        self.ctx = ctx
        if not self.late:
            self.register(ctx)

    def process_element(self, value: Any, ctx: Any) -> None:
        if self.late:
            self.register(self.ctx)


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda ctx: ctx.get_state(ValueStateDescriptor("s")), r"ValueStateDescriptor\('s', \"LONG\"\)"),
        (lambda ctx: ctx.get_state("s"), "needs a descriptor of its kind"),
        (lambda ctx: ctx.get_list_state(ValueStateDescriptor("s", "LONG")), "expected: ListStateDescriptor"),
        (lambda ctx: ctx.get_state(ValueStateDescriptor("s", "LNG")), "LNG"),
        (
            lambda ctx: (
                ctx.get_state(ValueStateDescriptor("s", "LONG")),
                ctx.get_state(ValueStateDescriptor("s", "INT")),
            ),
            "registered twice",
        ),
        (lambda ctx: ctx.get_reducing_state(ReducingStateDescriptor("s", "LONG")), "give its descriptor reduce="),
        (lambda ctx: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_registered_is_refused_on_the_driver(register: Any, message: str) -> None:
    with pytest.raises((OptionError, UserFunctionError, ValueError), match=message):
        plan_of(Opened(register))


def test_states_are_known_before_the_first_element() -> None:
    late = Opened(lambda ctx: ctx.get_state(ValueStateDescriptor("late", "LONG")), late=True)
    with pytest.raises(OptionError, match="register it in open"):
        run_plan(plan_of(late), [("a", 1, 1)])


def test_tasks_register_what_the_driver_has_seen() -> None:
    names = iter(["one", "two"])
    changing = Opened(lambda ctx: ctx.get_state(ValueStateDescriptor(next(names), "LONG")))
    plan = plan_of(changing)
    with pytest.raises(OptionError, match="registers other states in a task than on the driver"):
        run_plan(plan, [("a", 1, 1)])


def test_a_null_timestamp_is_refused() -> None:
    batch = pa.record_batch({"key": ["a"], "amount": pa.array([1], pa.int64()), "ts": pa.array([None], pa.int64())})
    with pytest.raises(ValueRangeError, match="column 'ts' is NULL in some rows"):
        list(BootstrapTask(plan_of(Everything()), 0).run([batch]))


def test_a_timer_is_a_long() -> None:
    class Wrong(KeyedStateBootstrapFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(1.5)

    with pytest.raises(UserFunctionError, match=r"a timer's timestamp is a long \(milliseconds\), not 1.5") as caught:
        run_plan(plan_of(Wrong()), [("a", 1, 1)])
    assert caught.value.facts["key"] == "'a'"


# -- timers that fire ----------------------------------------------------------------------------------------


class Firing(KeyedProcessFunction):
    """Function that yields the timers that fire; a timer deletes the next one, and no new timer of it fires."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value.amount)
        ctx.timer_service().register_processing_time_timer(-value.amount)
        yield ctx.get_current_key(), "element", ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().delete_event_time_timer(timestamp + 1)
        ctx.timer_service().register_event_time_timer(timestamp + 1000)
        return [(ctx.get_current_key(), ctx.time_domain(), timestamp)]


@settings(max_examples=50, deadline=None)
@given(records)
def test_timers_fire_key_by_key_in_the_order_of_time(found: list[Any]) -> None:
    schema = pa.schema([("key", pa.string()), ("what", pa.string()), ("time", pa.int64())])
    bootstrap = plan_of(Everything())
    plan = ProcessPlan(Firing(), bootstrap.key, ("key", "amount", "ts"), schema, 16, SORTED)
    seen = [tuple(row.values()) for batch in ProcessTask(plan, 0).run(batches_of(found)) for row in batch.to_pylist()]
    runs: list[str] = []
    for key, *_ in seen:
        if not runs or runs[-1] != key:
            runs.append(key)
    assert len(runs) == len(set(runs)), "a key came back"
    for key in runs:
        amounts = {amount for other, amount, _ in found if other == key}
        fired: list[int] = []
        for amount in sorted(amounts):
            if amount - 1 not in fired:
                fired.append(amount)
        expected = [("element", ts) for ts in sorted(ts for other, _, ts in found if other == key)]
        expected += [("event", amount) for amount in fired]
        expected += [("processing", -amount) for amount in sorted(amounts, reverse=True)]
        assert [row[1:] for row in seen if row[0] == key] == expected


def test_modes_have_their_names() -> None:
    assert [mode.value for mode in ObjectReuseMode] == ["DEFAULT", "COPY_PER_OPERATOR", "FULL_REUSE"]


class Keeping(KeyedStateBootstrapFunction):
    """All records of a key, in a list that is the value."""

    def __init__(self, keep: Any) -> None:
        self.keep = keep

    def open(self, ctx: Any) -> None:
        self.rows = ctx.get_state(ValueStateDescriptor("rows", "LIST<ROW<key STRING, amount LONG, ts LONG>>"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.rows.update([*(self.rows.value() or []), self.keep(value)])


@pytest.mark.parametrize(
    ("reuse", "keep", "amounts"),
    [
        (ObjectReuseMode.DEFAULT, lambda row: row, [1, 2, 3]),
        (ObjectReuseMode.COPY_PER_OPERATOR, lambda row: row, [1, 2, 3]),
        (ObjectReuseMode.FULL_REUSE, lambda row: row, [3, 3, 3]),
        (ObjectReuseMode.FULL_REUSE, copy.copy, [1, 2, 3]),
    ],
)
def test_rows_inside_of_what_is_kept_are_copied_by_users(reuse: ObjectReuseMode, keep: Any, amounts: list[int]) -> None:
    """FLIP-21, and the README: FULL_REUSE copies its one row where it is put as it is, and nowhere else."""
    found = states_after(plan_of(Keeping(keep), reuse=reuse), [("a", amount, amount) for amount in (1, 2, 3)])
    assert [row["f1"] if "f1" in row else row["amount"] for row in found["rows"]["a"]] == amounts


def test_unsorted_records_are_gathered_in_order() -> None:
    batches = [pa.record_batch({"number": pa.array(range(low, low + 10_000))}) for low in range(0, 70_000, 10_000)]
    found = list(gathered(batches))
    assert [batch.num_rows for batch in found] == [40_000, 30_000]
    assert pa.Table.from_batches(found)["number"].to_pylist() == list(range(70_000))
    large = pa.record_batch({"text": pa.array(["x" * (9 << 20)])})
    assert [batch.num_rows for batch in gathered([large, large])] == [1, 1]
    assert list(gathered([])) == []
