"""What users get wrong is said to them: which function, which key, and what failed first."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tasks import SORTED, batches_of, plan_of, run_plan, states_after

from pyspark_savepoint.formats.errors import OptionError, SavepointError, UserFunctionError, ValueRangeError
from pyspark_savepoint.formats.serializers.notation import parse_type
from pyspark_savepoint.statebackends.processing.backends import create_backend
from pyspark_savepoint.statebackends.processing.bootstrap import BootstrapTask
from pyspark_savepoint.statebackends.processing.codec import codec
from pyspark_savepoint.statebackends.processing.collector import Collector
from pyspark_savepoint.statebackends.processing.entry_output import PLAIN
from pyspark_savepoint.statebackends.processing.functions import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.guard import Closing, expect_function
from pyspark_savepoint.statebackends.processing.operator_state import OperatorStatePlan
from pyspark_savepoint.statebackends.processing.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.state import (
    AggregateFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.timers import FiringTimers
from pyspark_savepoint.statebackends.processing.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.windows import EventTimeSessionWindows


class Broken(KeyedStateBootstrapFunction):
    """Fails where it is told to, and cannot close what it has not opened."""

    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "LONG"))
        self._fail("open")

    def process_element(self, value: Any, ctx: Any) -> None:
        self._fail("process_element")

    def close(self) -> None:
        self._fail("close")
        if self.where != "nowhere":
            raise AttributeError("nothing to close")

    def _fail(self, here: str) -> None:
        if self.where == here:
            raise ValueError(f"in {here}")


@pytest.mark.parametrize("where", ["open", "process_element", "close"])
def test_what_failed_first_is_told(where: str) -> None:
    plan = plan_of(Broken("nowhere"))
    plan.function.where = where  # type: ignore[union-attr]
    with pytest.raises(UserFunctionError, match=f"failed in {where}: ValueError: in {where}"):
        run_plan(plan, [("a", 1, 1)])


def test_a_function_that_cannot_open_is_closed() -> None:
    class Counted(Broken):
        closed = 0

        def close(self) -> None:
            Counted.closed += 1

    with pytest.raises(UserFunctionError, match="in open"):
        plan_of(Counted("open"))
    assert Counted.closed == 1


def test_whoever_stops_reading_hears_of_what_cannot_close() -> None:
    def rows() -> Iterator[int]:
        with Closing(Broken("close")):
            yield 1

    going = rows()
    next(going)
    with pytest.raises(UserFunctionError, match="in close"):
        going.close()  # type: ignore[attr-defined]


class Yields(KeyedStateBootstrapFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class YieldsToo(BroadcastStateBootstrapFunction):
    descriptor = MapStateDescriptor("m", "LONG", "LONG")

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_bootstrap_functions_yield_nothing() -> None:
    with pytest.raises(OptionError, match="process_element yields") as caught:
        plan_of(Yields())
    assert "leave yield out" in str(caught.value)
    with pytest.raises(OptionError, match="process_element yields"):
        OperatorStatePlan(YieldsToo(), ("key",)).describe()


class Texts(KeyedStateBootstrapFunction):
    """Of one key the value is no number."""

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update("text" if value.amount == 17 else value.amount)


@pytest.mark.parametrize("count", [20, 9000])
def test_a_value_of_another_type_has_its_own_key(count: int) -> None:
    records = [(f"key-{i}", i, i) for i in range(count)]
    with pytest.raises(ValueRangeError, match="cannot hold a value that the function gave") as caught:
        run_plan(plan_of(Texts()), records)
    assert caught.value.facts["key"] == "'key-17'"
    assert caught.value.facts["state"] == "state"
    assert caught.value.facts["function"].endswith("Texts")


class Updates(KeyedStateBootstrapFunction):
    """A value of some type."""

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value = kind, value

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", self.kind))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(self.value)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("BOOLEAN", 1),
        ("LONG", True),
        ("LONG", 1.0),
        ("LONG", 2**63),
        ("INT", 2**31),
        ("DOUBLE", 2**60 + 1),
        ("DOUBLE", "1"),
        ("STRING", b"a"),
        ("PRIMITIVE_ARRAY<BYTE>", 5),
        ("PRIMITIVE_ARRAY<BYTE>", [1, 2]),
        ("BIG_INTEGER", 1.5),
        ("LOCAL_DATE", datetime.datetime(2024, 1, 1)),
        ("INSTANT", datetime.date(2024, 1, 1)),
        ("LIST<STRING>", "text"),
        ("LIST<STRING>", {"a": 1}),
        ("MAP<STRING, LONG>", [("a", 1)]),
        ("MAP<STRING, LONG>", {"a": True}),
        ("TUPLE<LONG, STRING>", (1,)),
        ("TUPLE<LONG, STRING>", (1, 2)),
    ],
)
def test_no_backend_casts(kind: str, wrong: Any) -> None:
    with pytest.raises(ValueRangeError) as caught:
        run_plan(plan_of(Updates(kind, wrong)), [("a", 1, 1)])
    assert caught.value.facts["key"] == "'a'"
    if (kind, wrong) != ("INT", 2**31):  # which RocksDB holds too, until it is written
        with pytest.raises((ValueRangeError, TypeError)):
            codec(parse_type(kind).arrow_type(PLAIN))[0](wrong)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("DOUBLE", 3, 3.0),
        ("LONG", np.int32(3), 3),
        ("PRIMITIVE_ARRAY<BYTE>", bytearray(b"ab"), b"ab"),
        ("BIG_INTEGER", 3, 3),
        ("LIST<LONG>", (1, 2), [1, 2]),
        ("LIST<LONG>", deque([1, 2]), [1, 2]),
        ("MAP<STRING, LONG>", MappingProxyType({"a": 1}), [("a", 1)]),
    ],
)
def test_what_every_backend_takes(kind: str, value: Any, expected: Any) -> None:
    assert states_after(plan_of(Updates(kind, value)), [("a", 1, 1)])["state"] == {"a": expected}
    encode, decode = codec(parse_type(kind).arrow_type(PLAIN))
    assert decode(encode(value)) == (dict(value) if isinstance(value, MappingProxyType) else expected)


class Timers(KeyedStateBootstrapFunction):
    def __init__(self, method: str, time: Any) -> None:
        self.method, self.time = method, time

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)
        getattr(ctx.timer_service(), self.method)(self.time)


@pytest.mark.parametrize("method", ["register", "delete"])
@pytest.mark.parametrize("domain", ["event", "processing"])
@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 1.0, True, None])
def test_times_of_timers_are_longs(method: str, domain: str, time: Any) -> None:
    with pytest.raises(UserFunctionError, match="a timer's timestamp is a long"):
        run_plan(plan_of(Timers(f"{method}_{domain}_time_timer", time)), [("a", 1, 1)])
    with pytest.raises(TypeError, match="a timer's timestamp is a long"):
        getattr(FiringTimers(), f"{method}_{domain}")(time)


def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    failing = plan_of(Broken("nowhere"), "rocksdb")
    failing.function.where = "process_element"  # type: ignore[union-attr]
    with pytest.raises(UserFunctionError):
        run_plan(failing, [("a", 1, 1)])
    assigner = EventTimeSessionWindows.with_gap(5)
    with pytest.raises(OptionError, match="values of one column"):
        plan_of(WindowSpec(assigner, "LONG", assigner.default_trigger()), "rocksdb")
    records = [(f"{i}", i, i) for i in range(20, 99)]
    going = BootstrapTask(plan_of(Texts(), "rocksdb"), 0).run(batches_of(records))
    assert next(going).num_rows
    assert list(tmp_path.iterdir())
    going.close()  # type: ignore[attr-defined]
    monkeypatch.setattr("rocksdict.Rdict", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        create_backend("rocksdb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("one", [{"id": 1}, "text", b"bytes", 5, object()])
def test_one_row_is_not_rows(one: Any) -> None:
    with pytest.raises(TypeError, match=f"yielded, or returned in a list: what came is one {type(one).__name__}"):
        Collector(pa.schema([("id", pa.int64())])).add(one)


def test_rows_come_from_anything_that_has_them() -> None:
    collector = Collector(pa.schema([("id", pa.int64())]))
    for rows in ([1], (2, 3), {4}, range(5, 7), iter([7]), None, (each for each in [8])):
        collector.add(rows)
    assert [row["id"] for batch in collector.rest() for row in batch.to_pylist()] == list(range(1, 9))


class FailingTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        raise ValueError("no time")


def test_a_timer_that_fails_has_the_key_that_ends() -> None:
    key = plan_of(Broken("nowhere")).key
    plan = ProcessPlan(FailingTimer(), key, ("key", "amount", "ts"), pa.schema([("id", pa.int64())]), 16, SORTED)
    for records in ([("a", 1, 1)], [("a", 1, 1), ("b", 1, 1)]):
        with pytest.raises(UserFunctionError, match="FailingTimer failed in on_timer") as caught:
            list(ProcessTask(plan, 0).run(batches_of(records)))
        ends_first = min(("a", "b")[: len(records)], key=lambda each: key_place(plan, each))
        assert caught.value.facts["key"] == repr(ends_first)


def key_place(plan: ProcessPlan, key: str) -> Any:
    task = ProcessTask(plan, 0)
    (batch,) = task.records.sorted(batches_of([(key, 1, 1)]))
    return next(iter(task.records.chunks(batch, plan.reuse, task.registry.unshared))).places


class Again(KeyedStateBootstrapFunction):
    """Asks for its state with every element, as triggers of Flink do."""

    def open(self, ctx: Any) -> None:
        self.states = ctx
        self._total()

    def _total(self) -> Any:
        return self.states.get_reducing_state(ReducingStateDescriptor("t", "LONG", reduce=lambda a, b: a + b))

    def process_element(self, value: Any, ctx: Any) -> None:
        self._total().add(value.amount)


def test_a_descriptor_is_the_same_when_its_line_runs_again() -> None:
    assert len(run_plan(plan_of(Again()), [("a", 1, 1), ("a", 2, 2), ("b", 3, 1)])) == 2


class Unmerged(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


def test_sessions_need_what_merges() -> None:
    assigner = EventTimeSessionWindows.with_gap(5)
    spec = WindowSpec(assigner, "LONG", assigner.default_trigger(), aggregate=Unmerged(), accumulator_type="INT")
    with pytest.raises(OptionError, match="this aggregate cannot merge windows"):
        spec.check()


def test_a_function_is_of_its_kind_and_no_class() -> None:
    with pytest.raises(OptionError, match=r"to do: Yields\(\.\.\.\)") as caught:
        expect_function(Yields, KeyedStateBootstrapFunction)
    assert "Yields itself" in str(caught.value)
    with pytest.raises(SavepointError, match="derive it from KeyedStateReaderFunction"):
        expect_function(Yields(), KeyedStateReaderFunction)
