"""Exceptions with a special meaning in Python: in user code they are errors that name function and key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import DuplicateKeyError, UserFunctionError, ValueRangeError
from pyspark_savepoint.statebackends.processing.api.functions import KeyedProcessFunction, KeyedStateBootstrapFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.windows import TumblingEventTimeWindows
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from tests.statebackends.processing.tasks import SORTED, batches_of, plan_of, run_plan


class Raises(KeyedStateBootstrapFunction):
    """Raises where two elements are reduced; counts what is called."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls: list[str] = []

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_reducing_state(ReducingStateDescriptor("state", "LONG", reduce=self.reduce))
        self.calls.append("open")

    def reduce(self, a: int, b: int) -> int:
        raise self.error

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.add(value.amount)

    def close(self) -> None:
        self.calls.append("close")
        raise AttributeError("closing failed too")


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize("error", [StopIteration("no"), SystemExit(0)])
@pytest.mark.parametrize("timed", [True, False])
def test_no_error_is_taken_for_an_end(backend: str, error: BaseException, timed: bool) -> None:
    raises = Raises(error)
    plan = plan_of(Quiet(raises), backend, SORTED if timed else RecordOrder())
    raises.calls.clear()
    with pytest.raises(UserFunctionError, match=f"failed in process_element: {type(error).__name__}") as caught:
        run_plan(plan, [("a", 1, 1), ("b", 1, 1), ("b", 2, 2)])
    assert caught.value.facts["key"] == "'b'"
    assert "raise self.error" in caught.value.facts["traceback"]
    assert raises.calls == ["open", "close"]


class Quiet(KeyedStateBootstrapFunction):
    """Another function, of which the driver's copy closes without an error."""

    def __init__(self, inner: Raises) -> None:
        self.inner = inner

    def open(self, ctx: Any) -> None:
        self.inner.open(ctx)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.inner.process_element(value, ctx)

    def close(self) -> None:
        if self.inner.state.get() is not None:
            self.inner.close()
        else:
            self.inner.calls.append("close")


def test_reducing_windows_stop_at_no_error() -> None:
    def reduce(a: Any, b: Any) -> Any:
        raise StopIteration("no")

    windows = TumblingEventTimeWindows.of(10)
    spec = WindowSpec(windows, "LONG", windows.default_trigger(), reduce=reduce)
    with pytest.raises(UserFunctionError, match="failed in a window: StopIteration: no"):
        run_plan(plan_of(spec, columns=("amount",)), [("a", 1, 1), ("a", 2, 2)])


class Stops(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        raise StopIteration("no")


def test_yielding_functions_stop_at_no_error() -> None:
    key = plan_of(Quiet(Raises(ValueError()))).key
    plan = ProcessPlan(Stops(), key, ("key",), pa.schema([("id", pa.int64())]), 16, SORTED)
    with pytest.raises(UserFunctionError, match="Stops failed in process_element: StopIteration: no"):
        list(ProcessTask(plan, 0).run(batches_of([("a", 1, 1)])))


class Updates(KeyedStateBootstrapFunction):
    """Of one key the value is another."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "TUPLE<LONG, STRING>"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(self.value if value.amount == 17 else (1, "x"))


@pytest.mark.parametrize("wrong", [(None, "x"), (1, 2)])
def test_what_a_serializer_refuses_has_its_own_key(wrong: Any) -> None:
    with pytest.raises(ValueRangeError) as caught:
        run_plan(plan_of(Updates(wrong)), [(f"key-{i}", i, i) for i in range(600)])
    assert caught.value.facts["key"] == "'key-17'"


class UserKeys(KeyedStateBootstrapFunction):
    """Two user keys for Python."""

    def __init__(self, kind: str, *keys: float) -> None:
        self.kind, self.keys = kind, keys

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state(MapStateDescriptor("map", self.kind, "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        for key in self.keys:
            self.map.put(key, 1)


def test_user_keys_that_are_one_in_their_type_are_refused() -> None:
    for function in (UserKeys("DOUBLE", float("nan"), -float("nan")), UserKeys("FLOAT", 0.1, 0.10000000149011612)):
        with pytest.raises(DuplicateKeyError, match="user keys that are equal in its type") as caught:
            run_plan(plan_of(function), [("a", 1, 1)])
        assert caught.value.facts["key"] == "'a'"
