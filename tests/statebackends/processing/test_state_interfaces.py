"""States and contexts as user functions use them: changes while iterating, defaults, optional states, task info."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import CountTrigger, ProcessingTimeoutTrigger
from pyspark_savepoint.statebackends.processing.api.windows import (
    GlobalWindow,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from tests.statebackends.processing.tasks import plan_of, states_after
from tests.statebackends.processing.test_readers import keyed

BACKENDS = ["single_key", "heap", "rocksdb"]
RECORDS = [("a", 1, 0), ("a", 2, 0), ("a", 3, 0), ("b", 2, 0)]
TTLS = [None, StateTtlConfig(1_000_000)]


class KeepsOdd(KeyedStateBootstrapFunction):
    """Removes even amounts from its map while it iterates over it."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl = ttl

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", "LONG", "LONG", ttl=self.ttl))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen[value.amount] = 0
        for amount, times in self.seen.items():
            self.seen.put(amount, times + 1)
        for amount in self.seen:
            if amount % 2 == 0:
                del self.seen[amount]
                assert amount not in self.seen
        assert [key for key, _ in self.seen.entries()] == list(self.seen.keys())
        for times in self.seen.values():
            self.seen.put(-times, times)
            self.seen.remove(-times)


@pytest.mark.parametrize("ttl", TTLS, ids=["plain", "ttl"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_may_change_while_they_are_iterated_over(backend: str, ttl: StateTtlConfig | None) -> None:
    found = states_after(plan_of(KeepsOdd(ttl), backend), RECORDS)["seen"]
    assert set(found) == {"a"}
    assert set(found["a"]) == {1, 3}


class Totals(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "LONG", default=100))
        self.seen = ctx.get_state(ValueStateDescriptor("seen", "LIST<LONG>", default=[]))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(self.total.value() + value.amount)
        if value.amount > 1:
            seen = self.seen.value()
            seen.append(value.amount)
            self.seen.update(seen)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_default_is_what_keys_without_value_see_and_is_not_stored(backend: str) -> None:
    found = states_after(plan_of(Totals(), backend), [*RECORDS, ("c", 1, 0)])
    assert found["total"] == {"a": 106, "b": 102, "c": 101}
    assert found["seen"] == {"a": [2, 3], "b": [2]}


@dataclass(frozen=True)
class Position(KeyedStateBootstrapFunction):
    """A frozen dataclass that needs its task's position behind ``open``."""

    def process_element(self, value: Any, ctx: Any) -> None:
        task = self.get_runtime_context()
        state = task.get_state(ValueStateDescriptor("task", "LONG"))
        info = task.get_task_info()
        state.update(10 * info.get_index_of_this_subtask() + info.get_number_of_parallel_subtasks())

    def open(self, ctx: Any) -> None:
        assert ctx is self.get_runtime_context()
        ctx.get_state(ValueStateDescriptor("task", "LONG"))


def test_functions_have_a_runtime_context_from_open_on() -> None:
    assert states_after(plan_of(Position()), RECORDS)["task"] == {"a": 1, "b": 1}
    with pytest.raises(OptionError, match="only in tasks"):
        Position().get_runtime_context()


class Lenient(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state("total")
        self.count = ctx.get_state(ValueStateDescriptor("no-count", default=7), optional=True)
        self.items = ctx.get_list_state(ListStateDescriptor("no-items"), optional=True)
        self.named = ctx.get_map_state("no-map", optional=True)

    def read_key(self, key: Any, ctx: Any) -> Iterator[Any]:
        yield self.count.value() + len(self.items.get()) + len(list(self.named)) + self.named.is_empty()


def test_an_optional_state_that_the_savepoint_lacks_is_empty() -> None:
    class Strict(Lenient):
        def open(self, ctx: Any) -> None:
            ctx.get_list_state("no-items")

    found = keyed(Lenient(), pa.schema([("n", pa.int64())]))
    assert found
    assert {row["n"] for row in found} == {8}
    with pytest.raises(StateNotFoundError, match="no such state 'no-items'"):
        keyed(Strict(), pa.schema([("n", pa.int64())]))


def test_a_state_that_is_written_cannot_be_optional() -> None:
    class Unsure(Totals):
        def open(self, ctx: Any) -> None:
            ctx.get_state(ValueStateDescriptor("total", "LONG"), optional=True)

    with pytest.raises(OptionError, match="cannot be optional"):
        plan_of(Unsure())


# -- windows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows, TumblingProcessingTimeWindows])
def test_staggered_windows(assigner: Any) -> None:
    natural = assigner.of(100, 10, WindowStagger.NATURAL)
    # The first element comes 42 ms into a window: all windows of this task start at 42 + 10.
    assert natural.assign_windows(None, 1042, 1042) == [TimeWindow(952, 1052)]
    assert natural.assign_windows(None, 1052, 1052) == [TimeWindow(1052, 1152)]

    random = assigner.of(100, stagger=WindowStagger.RANDOM)
    (first,), (later,) = random.assign_windows(None, 5000, 5000), random.assign_windows(None, 9999, 9999)
    assert first.start <= 5000 < first.end == first.start + 100
    assert (later.start - first.start) % 100 == 0

    assert assigner.of(100, 10, WindowStagger.ALIGNED) == assigner.of(100, 10)
    assert assigner.of(100, 10).assign_windows(None, 1042, 1042) == [TimeWindow(1010, 1110)]
    with pytest.raises(OptionError, match="must be a WindowStagger"):
        assigner.of(100, 10, "NATURAL")


def test_global_windows_that_end_with_the_input_keep_a_timer() -> None:
    assigner = GlobalWindows.create_with_end_of_stream_trigger()
    spec = WindowSpec(assigner, "ROW<key STRING, amount LONG, ts LONG>", assigner.default_trigger())
    timers = states_after(plan_of(spec), RECORDS)["_timer_state/event_window-timers"]
    assert set(timers) == {"a", "b"}
    assert all(times == [GlobalWindow().max_timestamp()] for times in timers.values())
    assert GlobalWindows.create().default_trigger() != assigner.default_trigger()


def test_a_timeout_trigger_takes_four_arguments() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(2), 1000, True, False)
    assert (trigger.reset_timer_on_new_record, trigger.should_clear_on_timeout) == (True, False)


# -- identifiers ---------------------------------------------------------------------------------------------


def test_identifiers_of_the_same_operator_are_equal() -> None:
    by_uid = OperatorIdentifier.for_uid("accounts")
    by_hash = OperatorIdentifier.for_uid_hash(by_uid.operator_id.hex)
    assert by_uid == by_hash
    assert len({by_uid, by_hash}) == 1
    assert by_uid != OperatorIdentifier.for_uid("orders")
