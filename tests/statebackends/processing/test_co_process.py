"""Flink's ``KeyedCoProcessOperatorTest``, ``CoBroadcastWithKeyedOperatorTest`` and ``SortingBoundedInputITCase``.

Carried over in meaning to bounded input: the watermark is -2^63 while a key has records; timers fire at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
    KeyedProcessFunction,
    ValueStateDescriptor,
)
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.processing.api.timers import MAX_WATERMARK, MIN_WATERMARK
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from tests.statebackends.processing.test_two_inputs import RATES, inputs_of, processed

SAID = pa.schema([("said", pa.string())])
#: (input, key, value, timestamp)
TWO = [(1, 17, 17, 12), (2, 18, 18, 13), (2, 17, 27, 14), (1, 18, 28, 11)]


def said(function: Any, records: Any, inputs: Any) -> dict[int, list[str]]:
    """Return the rows of a function, by key, in order."""
    found: dict[int, list[str]] = {}
    for (text,) in processed(function, records, inputs, SAID):
        key, _, rest = text.partition(" ")
        found.setdefault(int(key), []).append(rest)
    return found


class WatermarkQuerying(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        watermark = ctx.timer_service().current_watermark()
        yield f"{ctx.get_current_key()} {value.value}WM:{watermark} TS:{ctx.timestamp()}"

    process_element2 = process_element1


@pytest.mark.parametrize(("timed", "times"), [((1, 2), (12, 13, 14, 11)), ((), (None,) * 4)])
def test_timestamp_and_watermark_querying(timed: tuple[int, ...], times: tuple[Any, ...]) -> None:
    found = said(WatermarkQuerying(), TWO, inputs_of(2, timed))
    first, second, third, fourth = (f"WM:{MIN_WATERMARK} TS:{time}" for time in times)
    eighteen = [f"28{fourth}", f"18{second}"]
    assert found == {17: [f"17{first}", f"27{third}"], 18: eighteen}


class TimersWithState(KeyedCoProcessFunction):
    """The second input deletes the later timer; the state exists when the earlier one fires, and is removed by it."""

    def __init__(self, domain: str) -> None:
        self.domain = domain

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("any", "STRING"))

    def call(self, ctx: Any, verb: str, time: int) -> None:
        getattr(ctx.timer_service(), f"{verb}_{self.domain}_time_timer")(time)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield f"{ctx.get_current_key()} INPUT1:{value.value}"
        self.state.update(f"INPUT1:{value.value}")
        for time in (9, 5, 5):
            self.call(ctx, "register", time)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield f"{ctx.get_current_key()} INPUT2:{value.value}"
        self.state.update(f"INPUT2:{value.value}")
        self.call(ctx, "register", 6)
        self.call(ctx, "delete", 9)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.timer_service().current_watermark() == MAX_WATERMARK
        yield f"{ctx.get_current_key()} {ctx.time_domain()}@{timestamp} STATE:{self.state.value()}"
        self.state.clear()


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_timers_with_state_and_deletion(domain: str) -> None:
    """``testEventTimeTimerWithState``, ``testProcessingTimeTimerWithState``, ``test...TimerDeletion``."""
    found = said(TimersWithState(domain), TWO, inputs_of(2, (1, 2)))
    # The last element of 17 is of the second input, that of 18 as well.
    assert found == {
        17: ["INPUT1:17", "INPUT2:27", f"{domain}@5 STATE:INPUT2:27", f"{domain}@6 STATE:None"],
        18: ["INPUT1:28", "INPUT2:18", f"{domain}@5 STATE:INPUT2:18", f"{domain}@6 STATE:None"],
    }
    only_first = said(TimersWithState(domain), [record for record in TWO if record[0] == 1], inputs_of(2, (1, 2)))
    assert only_first[17] == ["INPUT1:17", f"{domain}@5 STATE:INPUT1:17", f"{domain}@9 STATE:None"]


class BroadcastState(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RATES).put(f"{value.value}.key", value.value)

    def process_element(self, value: Any, ctx: Any) -> Any:
        entries = sorted(ctx.get_broadcast_state(RATES).items())
        yield f"{ctx.get_current_key()} {value.value}:{entries}"
        ctx.timer_service().register_event_time_timer(value.value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield f"{ctx.get_current_key()} timer:{timestamp} sees {len(dict(ctx.get_broadcast_state(RATES).items()))}"


def test_function_with_broadcast_state_and_timer() -> None:
    """``testFunctionWithBroadcastState``, ``testFunctionWithTimer``, ``testKeyQuerying``."""
    records = [(1, 17, 12, 12), (0, None, 3, 1), (1, 18, 13, 13), (0, None, 5, 1), (1, 17, 14, 14)]
    found = said(BroadcastState(), records, inputs_of(1, (0, 1), broadcast=True))
    entries = "[('3.key', 3), ('5.key', 5)]"
    assert found == {
        17: [f"12:{entries}", f"14:{entries}", "timer:12 sees 2", "timer:14 sees 2"],
        18: [f"13:{entries}", "timer:13 sees 2"],
    }
    # No broadcast elements at all, and no keyed ones.
    keyed = [record for record in records if record[0]]
    assert said(BroadcastState(), keyed, inputs_of(1, (0, 1), broadcast=True))[18] == ["13:[]", "timer:13 sees 0"]
    assert said(BroadcastState(), records[1:2], inputs_of(1, (0, 1), broadcast=True)) == {}


class Asserting(KeyedMultipleInputFunction):
    """Every key's records come together, whichever input has them."""

    def open(self, ctx: Any) -> None:
        self.seen: set[Any] = set()
        self.current: Any = None

    def process_element(self, input_id: int, value: Any, ctx: Any) -> Any:
        key = ctx.get_current_key()
        if key != self.current:
            assert key not in self.seen, "keys come in groups"
            self.seen.add(key)
            self.current = key
        yield f"{key} {input_id}"


class AssertingOne(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.inner = Asserting()
        self.inner.open(ctx)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield from self.inner.process_element(1, value, ctx)


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_n_input_operator(inputs: int) -> None:
    """``SortingBoundedInputITCase``: ``testOneInputOperator``, ``testTwoInputOperator``, ``testThreeInputOperator``.

    Records are sorted on disk, and every input has all keys.
    """
    rng = np.random.default_rng(inputs)
    count = 6000
    keys = rng.permutation(count).reshape(-1) % 100
    records = [(1 + i % inputs, int(key), i, i) for i, key in enumerate(keys)]
    order = RecordOrder(sort_memory=16 << 10)
    if inputs == 1:
        key = KeyedDescriptor(("key",), parse_type("LONG"), ())
        plan = ProcessPlan(AssertingOne(), key, ("key", "value"), SAID, 128, order)
        batch = pa.record_batch({"key": [r[1] for r in records], "value": [r[2] for r in records]})
        found = [row["said"] for each in ProcessTask(plan, 0).run([batch]) for row in each.to_pylist()]
    else:
        given = inputs_of(inputs, tuple(range(1, inputs + 1)))
        found = [text for (text,) in processed(Asserting(), records, given, SAID, order=order)]
    assert sorted(found) == sorted(f"{key} {number}" for number, key, *_ in records)
