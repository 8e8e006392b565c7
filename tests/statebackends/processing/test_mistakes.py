"""Errors in user code name the function, the key, and the first failure."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateNotFoundError,
    UserFunctionError,
    ValueRangeError,
)
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.timers import FiringTimers
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger, TriggerResult
from pyspark_savepoint.statebackends.processing.api.windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
)
from pyspark_savepoint.statebackends.processing.backends.rocksdb_codec import codec
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN
from pyspark_savepoint.statebackends.processing.operators.operator_state import OperatorStatePlan
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.state_registry import create_backend
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.runtime.collector import Collector
from pyspark_savepoint.statebackends.processing.runtime.row import make_row
from pyspark_savepoint.statebackends.processing.runtime.user_code import Closing, expect_function
from pyspark_savepoint.statebackends.processing.runtime.values import from_python
from tests.statebackends.processing.tasks import SORTED, batches_of, plan_of, run_plan, states_after


class Broken(KeyedStateBootstrapFunction):
    """Function that fails at the given point; its close() fails too, unless this is ``nowhere``."""

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
    with pytest.raises(OptionError, match="process_element of a bootstrap function must not yield") as caught:
        plan_of(Yields())
    assert "remove yield" in str(caught.value)
    with pytest.raises(OptionError, match="process_element of a bootstrap function must not yield"):
        OperatorStatePlan(YieldsToo(), ("key",)).describe()


class Texts(KeyedStateBootstrapFunction):
    """Of one key the value is not a number."""

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update("text" if value.amount == 17 else value.amount)


@pytest.mark.parametrize("count", [20, 9000])
def test_a_value_of_another_type_has_its_own_key(count: int) -> None:
    records = [(f"key-{i}", i, i) for i in range(count)]
    with pytest.raises(ValueRangeError, match="cannot hold a value that the function returned") as caught:
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
    with pytest.raises(OptionError, match="must be given as one column"):
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
    with pytest.raises(
        TypeError, match=f"yield rows, or return a list of rows: the function returned one {type(one).__name__}"
    ):
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
        ends_first = min(("a", "b")[: len(records)], key=lambda each: grouped_key_of(plan, each))
        assert caught.value.facts["key"] == repr(ends_first)


def grouped_key_of(plan: ProcessPlan, key: str) -> Any:
    task = ProcessTask(plan, 0)
    (batch,) = task.records.sorted(batches_of([(key, 1, 1)]))
    return next(iter(task.records.chunks(batch, plan.reuse, task.registry.unshared))).grouped_keys


class Again(KeyedStateBootstrapFunction):
    """Function that gets its state again for every element, as triggers of Flink do."""

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
    with pytest.raises(OptionError, match="this aggregate function has no merge"):
        spec.check()


def test_a_function_is_of_its_kind_and_no_class() -> None:
    with pytest.raises(OptionError, match=r"to do: Yields\(\.\.\.\)") as caught:
        expect_function(Yields, KeyedStateBootstrapFunction)
    assert "Yields itself" in str(caught.value)
    with pytest.raises(SavepointError, match="derive it from KeyedStateReaderFunction"):
        expect_function(Yields(), KeyedStateReaderFunction)


class Collects(KeyedStateReaderFunction):
    """As in Java."""

    def read_key(self, key: Any, ctx: Any, out: Any) -> Any:  # type: ignore[override]
        out.collect(key)


class Snapshots(StateBootstrapFunction):
    def initialize_state(self, ctx: Any) -> None: ...

    def process_element(self, value: Any, ctx: Any) -> None: ...

    def snapshot_state(self, context: Any) -> None:  # type: ignore[override]
        """As in Java."""


class SnapshotsOfNothing(Snapshots):
    def snapshot_state(self) -> None:  # type: ignore[override]
        """Without the argument that it does not need."""


class SnapshotsOfMuch(Snapshots):
    def snapshot_state(self, context: Any, out: Any) -> None:  # type: ignore[override]
        """With an argument that nobody has."""


def test_methods_take_the_arguments_that_they_are_given() -> None:
    with pytest.raises(OptionError, match="read_key does not accept the arguments that it is called with") as caught:
        expect_function(Collects(), KeyedStateReaderFunction)
    assert "expected: read_key(self, key, ctx)" in str(caught.value)
    assert "found: read_key(self, key, ctx, out)" in str(caught.value)
    assert "there is no Collector: yield rows" in str(caught.value)
    expect_function(Snapshots(), StateBootstrapFunction)
    expect_function(SnapshotsOfNothing(), StateBootstrapFunction)
    with pytest.raises(OptionError, match="snapshot_state") as caught:
        expect_function(SnapshotsOfMuch(), StateBootstrapFunction)
    assert "expected: snapshot_state(self, ctx)" in str(caught.value)


@pytest.mark.parametrize(
    ("descriptor", "part", "found"),
    [
        (lambda: ValueStateDescriptor("s", int), "type", "int"),  # type: ignore[arg-type]
        (lambda: MapStateDescriptor("s", "LONG", pa.int64()), "value_type", "int64"),  # type: ignore[arg-type]
        (lambda: ReducingStateDescriptor("s", min, "LONG"), "type", "min"),  # type: ignore[arg-type, call-arg]
        (lambda: ReducingStateDescriptor("s", "LONG", reduce=5), "reduce", "5"),  # type: ignore[arg-type]
        (lambda: AggregatingStateDescriptor("s", "LONG", aggregate=Unmerged), "aggregate", "Unmerged"),  # type: ignore[arg-type]
        (lambda: ValueStateDescriptor("s", "LONG", ttl=timedelta(days=1)), "ttl", "timedelta"),  # type: ignore[arg-type]
    ],
)
def test_what_a_descriptor_cannot_be_is_said_where_it_is_made(descriptor: Any, part: str, found: str) -> None:
    with pytest.raises(OptionError, match=f"argument '{part}' of ") as caught:
        descriptor()
    assert caught.value.facts["state"] == "s"
    assert found in caught.value.facts["found"]


@pytest.mark.parametrize("duration", ["1 minute", 60_000.0, True, None])
def test_a_duration_is_whole_milliseconds_or_a_timedelta(duration: Any) -> None:
    with pytest.raises(OptionError, match="not a duration") as caught:
        TumblingEventTimeWindows.of(duration)
    assert caught.value.facts["found"] == repr(duration)


class NoResult(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return None


class Undeclared(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(ValueStateDescriptor("mine", "LONG")).update(1)
        return TriggerResult.CONTINUE


def test_triggers_are_told_what_they_forget() -> None:
    def run(trigger: Trigger) -> None:
        run_plan(
            plan_of(WindowSpec(TumblingEventTimeWindows.of(5), "TUPLE<STRING, LONG, LONG>", trigger)), [("a", 1, 1)]
        )

    with pytest.raises(
        UserFunctionError, match="NoResult failed in a window: TypeError: on_element of a trigger returns"
    ):
        run(NoResult())
    with pytest.raises(StateNotFoundError, match="'mine' is not among the descriptors") as caught:
        run(Undeclared())
    assert "name it in state_descriptors()" in str(caught.value)
    assert caught.value.facts["key"] == "'a'"


def test_a_wrong_type_of_windows_is_not_blamed_on_their_trigger() -> None:
    assigner = TumblingEventTimeWindows.of(5)
    spec = WindowSpec(assigner, "LONG", assigner.default_trigger(), aggregate=Unmerged(), accumulator_type="INTEGER")
    with pytest.raises(SavepointError, match="not a type") as caught:
        plan_of(spec, columns=("amount",))
    assert caught.value.facts["function"].endswith("Unmerged")


class NoState(BroadcastStateBootstrapFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...


def test_operator_state_that_nobody_declared() -> None:
    with pytest.raises(OptionError, match="its state_descriptors does not register any") as caught:
        OperatorStatePlan(NoState(), ("key",)).describe()
    assert caught.value.facts["function"].endswith("NoState")
    assert "attribute of the function's class" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        (5, "a tuple, dict, Row, dataclass or object"),
        ({"id": 1, "nam": "n"}, "there is no field 'nam'"),
        ((1, "n", 2), "there are 2 fields, not 3"),
    ],
)
def test_what_is_no_row_of_the_schema_is_shown_as_it_is(row: Any, remedy: str) -> None:
    kind = pa.struct([("id", pa.int64()), ("name", pa.string())])
    with pytest.raises(ValueRangeError) as caught:
        from_python([row], kind, "row")
    assert caught.value.facts["found"].startswith(repr(row))
    assert remedy in caught.value.facts["remedy"]


def test_rows_say_which_fields_they_have() -> None:
    row = make_row(("id", "amount"), (1, 2.5))
    with pytest.raises(AttributeError, match="a row has no field 'amont': there are id, amount"):
        _ = row.amont
    assert row.asDict() == {"id": 1, "amount": 2.5}
    assert copy.deepcopy(row) == pickle.loads(pickle.dumps(row)) == row


@pytest.mark.parametrize("wrong", [(1, 2, 3), None, "text"])
def test_rows_have_their_own_key_in_errors(wrong: Any) -> None:
    collector = Collector(pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    batches = []
    for key in range(3000):
        collector.of(f"key-{key}")
        collector.add([(key, n) for n in range(key % 3)])
        collector.add([wrong] if key == 2345 else None)
        if key == 700:
            batches += list(collector.full())
    with pytest.raises(ValueRangeError) as caught:
        batches += list(collector.rest())
    assert caught.value.facts["key"] == "'key-2345'"
    assert sum(len(batch) for batch in batches) > 500


def test_keys_without_rows_are_not_kept() -> None:
    class Key:
        """A key that can be referred to weakly."""

    collector = Collector(pa.schema([("n", pa.int64())]))
    known: WeakSet[Key] = WeakSet()
    for _ in range(100):
        key = Key()
        known.add(key)
        collector.of(key)
    assert list(known) == [key]


@pytest.mark.parametrize("assigner", [EventTimeSessionWindows, ProcessingTimeSessionWindows])
@pytest.mark.parametrize("gap", [0, -1])
def test_a_session_without_a_gap_is_refused_where_it_is_given(assigner: Any, gap: int) -> None:
    with pytest.raises(OptionError, match="the gap of a session must be above 0"):
        assigner.with_gap(gap)
