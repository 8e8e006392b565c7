"""Windows that are filled from records: contents, timers and trigger state, against plain models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from operator import add
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, ValueRangeError
from pyspark_savepoint.statebackends.processing.api.evictors import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    EvictorContext,
    Record,
    TimeEvictor,
)
from pyspark_savepoint.statebackends.processing.api.functions import ProcessWindowFunction
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    ListStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
)
from pyspark_savepoint.statebackends.processing.api.windows import (
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from pyspark_savepoint.statebackends.processing.operators import window_operator
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.processing.operators.window_operator import MergingWindowSet, WindowSpec
from tests.statebackends.processing.tasks import ARRIVED, MODES, plan_of, run_plan, states_after

ROW = "ROW<key STRING, amount LONG, ts LONG>"
EVENT, CONTENTS = "_timer_state/event_window-timers", "window-contents"
records = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(-60, 60)), max_size=20)


class Sum(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.amount)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def spec(assigner: WindowAssigner, **more: Any) -> WindowSpec:
    given_trigger: Trigger | None = more.pop("trigger", None)
    return WindowSpec(assigner, ROW, given_trigger or assigner.default_trigger(), **more)


def summed(assigner: WindowAssigner, **more: Any) -> WindowSpec:
    return spec(assigner, aggregate=Sum(), accumulator_type="LONG", **more)


def model(found: list[Any], windows_of: Any) -> dict[Any, int]:
    """Sums by key and window."""
    sums: dict[Any, int] = {}
    for key, amount, ts in found:
        for start, end in windows_of(ts):
            sums[key, start, end] = sums.get((key, start, end), 0) + amount
    return sums


def amount_of(row: dict[str, Any]) -> Any:
    """Of a row of key, amount and timestamp."""
    return list(row.values())[1]


def by_start(found: dict[Any, Any]) -> dict[Any, Any]:
    return {(key, start, end): content for (key, start, end), content in found.items()}


@settings(max_examples=40, deadline=None)
@given(records, st.integers(-3, 3))
def test_tumbling_and_sliding_windows(found: list[Any], offset: int) -> None:
    tumbling = states_after(plan_of(summed(TumblingEventTimeWindows.of(10, offset))), found)
    expected = model(found, lambda ts: [(start, start + 10) for start in [(ts - offset) // 10 * 10 + offset]])
    assert by_start(tumbling[CONTENTS]) == expected
    assert tumbling[EVENT] == {place: [place[2] - 1] for place in expected}
    sliding = states_after(plan_of(summed(SlidingEventTimeWindows.of(timedelta(milliseconds=10), 5))), found)
    expected = model(found, lambda ts: [(start, start + 10) for start in (ts // 5 * 5, ts // 5 * 5 - 5)])
    assert by_start(sliding[CONTENTS]) == expected


class Tens(WindowAssigner):
    """An assigner of the user's: tens, as a calendar of the user's might have them."""

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[Any]:
        return [TimeWindow(timestamp // 10 * 10, timestamp // 10 * 10 + 10)]


class Streaks(WindowAssigner):
    """One that merges, whose gaps are its own."""

    merges = True

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[Any]:
        return [TimeWindow(timestamp, timestamp + 7)]


@settings(max_examples=20, deadline=None)
@given(records)
def test_an_assigner_of_the_users_own(found: list[Any]) -> None:
    for own, flinks in (
        (Tens(), TumblingEventTimeWindows.of(10)),
        (Streaks(), EventTimeSessionWindows.with_gap(7)),
    ):
        assert states_after(plan_of(summed(own)), found) == states_after(plan_of(summed(flinks)), found)


def sessions(times: list[int], gap: int) -> list[tuple[int, int]]:
    """Sessions of some times: those that overlap or touch are one."""
    found: list[tuple[int, int]] = []
    for ts in sorted(times):
        if found and ts <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ts + gap))
        else:
            found.append((ts, ts + gap))
    return found


@settings(max_examples=60, deadline=None)
@given(records, st.integers(1, 20))
def test_sessions_merge_whatever_comes_first(found: list[Any], gap: int) -> None:
    # In the order of arrival on the heap, windows merge in any order.
    plan = plan_of(summed(EventTimeSessionWindows.with_gap(gap)), "heap", ARRIVED)
    states = states_after(plan, found)
    expected: dict[Any, int] = {}
    for key in {key for key, *_ in found}:
        for start, end in sessions([ts for other, _, ts in found if other == key], gap):
            expected[key, start, end] = sum(a for other, a, ts in found if other == key and start <= ts < end)
    merged = {}
    for key, pairs in states["merging-window-set"].items():
        for pair in pairs:
            window, state_window = pair["f0"], pair["f1"]
            place = (key, state_window["start"], state_window["end"])
            merged[key, window["start"], window["end"]] = states[CONTENTS].pop(place)
    assert merged == expected
    assert states[CONTENTS] == {}, "contents that no window has"
    assert states[EVENT] == {place: [place[2] - 1] for place in expected}


@settings(max_examples=15, deadline=None)
@given(records)
def test_backends_and_modes_agree(found: list[Any]) -> None:
    found = sorted(found, key=lambda record: record[2])
    for assigner in (SlidingEventTimeWindows.of(20, 10), EventTimeSessionWindows.with_gap(7)):
        for more in ({"reduce": keep_last}, {}, {"evictor": CountEvictor.of(2)}):
            expected = run_plan(plan_of(spec(assigner, **more)), found)
            assert run_plan(plan_of(spec(assigner, **more), "heap", ARRIVED), found) == expected
            for mode in MODES:
                assert run_plan(plan_of(spec(assigner, **more), reuse=mode), found) == expected


@settings(max_examples=5, deadline=None)
@given(records)
def test_rocksdb_agrees(found: list[Any]) -> None:
    found = sorted(found, key=lambda record: record[2])
    windows = spec(EventTimeSessionWindows.with_gap(7), trigger=CountTrigger.of(3))
    assert run_plan(plan_of(windows, "rocksdb", ARRIVED), found) == run_plan(plan_of(windows), found)


def test_elements_without_fields_are_values() -> None:
    found, modes = [("a", 3, 1), ("a", 4, 2), ("a", 5, 11)], MODES
    assigner = TumblingEventTimeWindows.of(10)
    for more in ({"reduce": add}, {}, {"evictor": CountEvictor.of(2)}):
        windows = WindowSpec(assigner, "LONG", assigner.default_trigger(), **more)  # type: ignore[arg-type]
        plan = plan_of(windows, columns=("amount",))
        expected: Any = {("a", 0, 10): [3, 4], ("a", 10, 20): [5]}
        for mode in modes:
            contents = states_after(replace(plan, reuse=mode), found)[CONTENTS]
            if "evictor" in more:
                contents = {place: [record["value"] for record in records] for place, records in contents.items()}
            assert contents == ({("a", 0, 10): 7, ("a", 10, 20): 5} if "reduce" in more else expected)
    with pytest.raises(OptionError, match="must be given as one column"):
        plan_of(WindowSpec(assigner, "LONG", assigner.default_trigger()))


def keep_last(a: Any, b: Any) -> Any:
    return b


def add_in_place(a: Any, b: Any) -> Any:
    """What Flink's documentation warns of: it changes what it was given."""
    a.amount += b.amount
    return a


def test_a_function_that_changes_its_argument_harms_others_unless_they_have_copies() -> None:
    found = [("a", 1, 12), ("a", 10, 17), ("a", 100, 22)]
    sums = {}
    for mode in MODES:
        windows = spec(SlidingEventTimeWindows.of(20, 10), reduce=add_in_place)
        states = states_after(plan_of(windows, reuse=mode), found)
        sums[mode] = {place[1]: amount_of(row) for place, row in states[CONTENTS].items()}
    assert sums[ObjectReuseMode.COPY_PER_OPERATOR] == {0: 11, 10: 111, 20: 100}
    # One object is in both windows of the first record: what is added in one is added in the other.
    assert sums[ObjectReuseMode.DEFAULT] == {0: 121, 10: 121, 20: 100}
    # The runtime copies the one row wherever it keeps it.
    assert sums[ObjectReuseMode.FULL_REUSE] == {0: 11, 10: 111, 20: 100}


def test_count_triggers_purge_and_count() -> None:
    found = [("a", i, i) for i in range(8)]
    purging = spec(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(3)))
    states = states_after(plan_of(purging), found)
    assert [amount_of(row) for row in states[CONTENTS]["a"]] == [6, 7]
    assert states["count"] == {"a": 2}
    assert states[EVENT] == {}
    counting = states_after(plan_of(spec(GlobalWindows.create(), trigger=CountTrigger.of(3))), found)
    assert len(counting[CONTENTS]["a"]) == 8


def close(a: Any, b: Any) -> float:
    return abs(float(a.amount - b.amount))


@pytest.mark.parametrize(
    ("evictor", "left"),
    [
        (CountEvictor.of(2), [4, 5, 6]),
        (CountEvictor.of(2, do_evict_after=True), [4, 5, 6]),
        (TimeEvictor.of(2), [4, 5, 6]),
        (DeltaEvictor.of(1.5, close), [4, 5, 6]),
        (CountEvictor.of(0), [6]),
    ],
)
def test_what_is_evicted_where_a_trigger_fires_is_gone(evictor: Evictor, left: list[int]) -> None:
    found = [("a", i, i) for i in range(7)]
    windows = spec(TumblingEventTimeWindows.of(100), trigger=CountTrigger.of(3), evictor=evictor)
    states = states_after(plan_of(windows), found)
    assert [amount_of(record["value"]) for record in states[CONTENTS]["a", 0, 100]] == left
    assert [record["timestamp"] for record in states[CONTENTS]["a", 0, 100]] == left


@pytest.mark.parametrize(("now", "following"), [(0, 10), (9, 10), (10, 20), (-1, 10), (-10, 0), (-11, 0), (97, 99)])
def test_intervals_are_counted_as_java_counts(now: int, following: int) -> None:
    windows = TumblingEventTimeWindows.of(200, offset=-100)
    states = states_after(plan_of(summed(windows, trigger=ContinuousEventTimeTrigger.of(10))), [("a", 1, now)])
    assert states["fire-time"] == {("a", -100, 100): following}


def test_continuous_triggers_know_their_next_time() -> None:
    found = [("a", 1, 3), ("a", 1, 17)]
    states = states_after(
        plan_of(summed(TumblingEventTimeWindows.of(100), trigger=ContinuousEventTimeTrigger.of(10))), found
    )
    assert states["fire-time"] == {("a", 0, 100): 10}
    assert states[EVENT] == {("a", 0, 100): [10, 99]}
    merged = states_after(
        plan_of(summed(EventTimeSessionWindows.with_gap(20), trigger=ContinuousEventTimeTrigger.of(10))), found
    )
    assert merged["fire-time"] == {("a", 3, 37): 10}
    # The timer of a window that is gone is left, as Flink's trigger leaves it: its state was merged before it clears.
    assert merged[EVENT] == {("a", 3, 37): [10, 36], ("a", 3, 23): [10]}


@pytest.mark.parametrize(
    ("count", "reset", "expected"),
    [
        # (count that fires, whether elements restart the time-out, remaining time-out and count), after three elements
        (4, False, (150, 3)),
        (4, True, (152, 3)),
        (3, False, None),
        (2, False, (151, 1)),
    ],
)
def test_a_time_out_begins_with_the_first_element_or_anew(
    count: int, reset: bool, expected: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100, 200))
    monkeypatch.setattr(window_operator.WindowTriggerContext, "current_processing_time", lambda _: next(clock))
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(count), timedelta(milliseconds=50), reset)
    found = [("a", 1, 1), ("a", 1, 2), ("a", 1, 3)]
    states = states_after(plan_of(spec(GlobalWindows.create(), trigger=trigger)), found)
    timers = states["_timer_state/processing_window-timers"]
    assert timers == ({"a": [expected[0]]} if expected else {})
    assert (states["timeout"], states["count"]) == (({"a": expected[0]}, {"a": expected[1]}) if expected else ({}, {}))
    assert not trigger.can_merge()


def test_delta_triggers_keep_their_last_element() -> None:
    trigger = DeltaTrigger.of(1.0, close, ROW)
    states = states_after(
        plan_of(spec(GlobalWindows.create(), trigger=trigger)), [("a", 1, 1), ("a", 2, 2), ("a", 5, 3)]
    )
    assert amount_of(states["last-element"]["a"]) == 5


def test_lateness_decides_when_windows_are_cleaned_up() -> None:
    states = states_after(plan_of(summed(TumblingEventTimeWindows.of(10), allowed_lateness=5)), [("a", 1, 3)])
    assert states[EVENT] == {("a", 0, 10): [9, 14]}


def test_windows_of_processing_time_have_its_timers() -> None:
    for assigner in (
        TumblingProcessingTimeWindows.of(3_600_000),
        SlidingProcessingTimeWindows.of(3_600_000, 3_600_000),
        ProcessingTimeSessionWindows.with_gap(3_600_000),
        ProcessingTimeSessionWindows.with_dynamic_gap(lambda element: timedelta(hours=element.amount)),
    ):
        states = states_after(plan_of(summed(assigner), order=RecordOrder()), [("a", 1, 3)])
        ((place, times),) = states["_timer_state/processing_window-timers"].items()
        assert times == [place[2] - 1]
        assert states[EVENT] == {}


class Remembering(ProcessWindowFunction):
    """Where it fires it writes into the states of the window and of the key."""

    WINDOW, KEY = ListStateDescriptor("sizes", "INT"), ValueStateDescriptor("fired", "INT")

    def window_state_descriptors(self) -> Any:
        return (self.WINDOW,)

    def global_state_descriptors(self) -> Any:
        return (self.KEY,)

    def process(self, key: str, ctx: Any, elements: list[Any]) -> Iterator[str]:
        ctx.window_state().get_list_state(self.WINDOW).add(len(elements))
        fired = ctx.global_state().get_state("fired")
        fired.update((fired.value() or 0) + 1)
        assert ctx.current_watermark() < ctx.current_processing_time()
        yield f"{key} {ctx.window()} goes nowhere"


def test_functions_of_windows_leave_their_state() -> None:
    windows = spec(TumblingEventTimeWindows.of(10), trigger=CountTrigger.of(2), function=Remembering())
    states = states_after(plan_of(windows), [("a", 1, 1), ("a", 1, 2), ("a", 1, 3), ("a", 1, 4), ("a", 1, 11)])
    assert states["sizes"] == {("a", 0, 10): [2, 4]}
    assert states["fired"] == {"a": 2}


class Given(ProcessWindowFunction):
    """Writes down what it is given."""

    ELEMENTS = ListStateDescriptor("given", "STRING")

    def global_state_descriptors(self) -> Any:
        return (self.ELEMENTS,)

    def process(self, key: str, ctx: Any, elements: list[Any]) -> None:
        ctx.global_state().get_list_state(self.ELEMENTS).add(str([plain(each) for each in elements]))


def plain(element: Any) -> Any:
    return element if isinstance(element, list | int | None) else element.amount


class Collect(Sum):
    """The accumulator is a list, and so is what it comes to."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value.amount]


def later(a: Any, b: Any) -> Any:
    return b


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["[1, 2]", "[1, 2, 3, 4]"]),
        ({"reduce": later}, ["[2]", "[4]"]),
        ({"aggregate": Sum(), "accumulator_type": "LONG"}, ["[3]", "[10]"]),
        ({"aggregate": Collect(), "accumulator_type": "LIST<LONG>"}, ["[[1, 2]]", "[[1, 2, 3, 4]]"]),
        ({"evictor": CountEvictor.of(3)}, ["[1, 2]", "[2, 3, 4]"]),
        ({"evictor": CountEvictor.of(3), "reduce": later}, ["[2]", "[4]"]),
        ({"evictor": CountEvictor.of(0), "reduce": later}, ["[None]", "[None]"]),
        ({"evictor": CountEvictor.of(3), "aggregate": Sum(), "accumulator_type": "LONG"}, ["[3]", "[9]"]),
        ({"evictor": CountEvictor.of(0), "aggregate": Sum(), "accumulator_type": "LONG"}, ["[0]", "[0]"]),
    ],
)
def test_functions_of_windows_are_given_what_elements_come_to(more: Any, expected: list[str]) -> None:
    windows = spec(TumblingEventTimeWindows.of(100), trigger=CountTrigger.of(2), function=Given(), **more)
    found = [("a", i, i) for i in range(1, 5)]
    for backend in ("single_key", "heap"):
        assert states_after(plan_of(windows, backend), found)["given"] == {"a": expected}


def test_records_without_timestamps_have_none_in_an_evictors_list() -> None:
    for evictor in (TimeEvictor.of(1), CountEvictor.of(2)):
        windows = spec(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=evictor)
        states = states_after(plan_of(windows, order=RecordOrder()), [("a", 1, 3), ("a", 2, 90)])
        assert [record["timestamp"] for record in states[CONTENTS]["a"]] == [None, None]


def test_a_difference_that_is_no_number_evicts_nothing() -> None:
    records = [Record(value, value) for value in (1, 2, 3)]
    assert DeltaEvictor.of(1.0, lambda a, b: float("nan")).evict_before(records, None, EvictorContext()) == records
    assert DeltaEvictor.of(1.0, lambda a, b: float(b - a)).evict_before(records, None, EvictorContext()) == records[2:]


class Undeclared(ProcessWindowFunction):
    def process(self, key: str, ctx: Any, elements: list[Any]) -> None:
        ctx.global_state().get_state("other")


def test_states_of_windows_must_be_declared() -> None:
    windows = spec(TumblingEventTimeWindows.of(10), trigger=CountTrigger.of(1), function=Undeclared())
    with pytest.raises(StateNotFoundError, match="before the job starts"):
        states_after(plan_of(windows), [("a", 1, 1)])


class NeverMerges(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        raise AssertionError


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="session windows merge"):
        summed(EventTimeSessionWindows.with_gap(5), trigger=NeverMerges()).check()
    with pytest.raises(OptionError, match="no per-window state"):
        summed(EventTimeSessionWindows.with_gap(5), function=Remembering()).check()
    with pytest.raises(OptionError, match="size and slide above 0"):
        TumblingEventTimeWindows.of(0)
    with pytest.raises(OptionError, match="whole number of milliseconds"):
        TumblingEventTimeWindows.of(timedelta(microseconds=1))
    with pytest.raises(OptionError, match="assign_timestamps"):
        states_after(plan_of(summed(TumblingEventTimeWindows.of(10)), order=RecordOrder()), [("a", 1, 1)])
    with pytest.raises(OptionError, match="gap of a session must be above 0"):
        states_after(plan_of(summed(EventTimeSessionWindows.with_dynamic_gap(lambda _: 0))), [("a", 1, 1)])
    with pytest.raises(NotImplementedError, match="has no merge"):
        AggregateFunction.merge(Sum(), 1, 2)


@pytest.mark.parametrize("ts", [2**63 - 2, -(2**63) + 1])
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(20, 10)])
def test_windows_have_bounds_that_are_longs(assigner: WindowAssigner, ts: int) -> None:
    with pytest.raises(ValueRangeError, match="out of the range of timestamps") as caught:
        states_after(plan_of(summed(assigner)), [("a", 1, ts)])
    assert caught.value.facts["key"] == "'a'"


def test_windows_are_what_their_bytes_say() -> None:
    window = TimeWindow(-5, 7)
    assert TimeWindow.from_bytes(window.to_bytes()) == window
    assert (window.max_timestamp(), GlobalWindow().max_timestamp()) == (6, 2**63 - 1)
    assert EventTimeTrigger.create() == EventTimeTrigger()


def test_a_key_may_have_many_sessions() -> None:
    class Pairs:
        calls: list[str]
        pairs: list[Any]

        def get(self) -> list[Any]:
            self.calls.append("get")
            return self.pairs

        def update(self, pairs: list[Any]) -> None:
            self.calls.append("update")
            self.pairs = pairs

    state = Pairs()
    state.calls, state.pairs = [], []
    windows = MergingWindowSet(state)
    windows.load()
    merges: list[Any] = []
    for start in (*range(0, 30_000, 10), *range(5, 30_000, 20)):
        windows.add(TimeWindow(start, start + 6), lambda *call: merges.append(call))
    windows.persist()
    assert state.calls == ["get", "update"]
    assert len(merges) == 1500
    assert sorted(state.pairs) == [((start, start + 16), (start, start + 6)) for start in range(0, 30_000, 20)]


def test_a_window_that_covers_a_new_one_is_left_as_it_is() -> None:
    class Pairs:
        def get(self) -> list[Any]:
            return [(TimeWindow(0, 20), TimeWindow(0, 10))]

        def update(self, pairs: list[Any]) -> None:
            raise AssertionError("nothing has changed")

    windows = MergingWindowSet(Pairs())
    windows.load()
    calls: list[Any] = []
    assert windows.add(TimeWindow(0, 20), lambda *call: calls.append(call)) == TimeWindow(0, 20)
    windows.persist()
    assert windows.add(TimeWindow(3, 13), lambda *call: calls.append(call)) == TimeWindow(0, 20)
    assert windows.state_window(TimeWindow(0, 20)) == TimeWindow(0, 10)
    assert calls == []


class ByTheClock(Evictor):
    """Flink's evictors are given the times and the watermark."""

    def evict_before(self, elements: list[Record], window: Any, ctx: Any) -> list[Record]:
        assert ctx.current_processing_time() > 1_600_000_000_000
        assert ctx.current_watermark() == -(2**63)
        return elements[-1:]

    def evict_after(self, elements: list[Record], window: Any, ctx: Any) -> list[Record]:
        return elements


def named(a: Any, b: Any) -> tuple[str, int, int]:
    """Fields by name of both, though the first is what was returned before."""
    return a.key, a.amount + b.amount, max(a.ts, b.ts)


class Counted(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> tuple[int, int]:
        return accumulator.total + value.amount, accumulator.number + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator.total / accumulator.number

    def merge(self, a: Any, b: Any) -> tuple[int, int]:
        return a.total + b.total, a.number + b.number


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
def test_tuples_become_what_the_type_is(backend: str) -> None:
    """What ``reduce`` and an aggregate return is of the declared type when they get it again."""
    element = "ROW<key STRING, amount LONG, ts LONG>"
    assigner = EventTimeSessionWindows.with_gap(10)
    records = [("a", 1, 1), ("a", 2, 30), ("a", 4, 2), ("a", 8, 16), ("a", 16, 9), ("a", 32, 24)]
    reduced = WindowSpec(assigner, element, assigner.default_trigger(), reduce=named)
    found = states_after(plan_of(reduced, backend), records)["window-contents"]
    assert [tuple(value.values()) for value in found.values()] == [("a", 63, 30)]
    aggregate = WindowSpec(
        assigner, element, assigner.default_trigger(), aggregate=Counted(),
        accumulator_type="ROW<total LONG, number LONG>",
    )  # fmt: skip
    found = states_after(plan_of(aggregate, backend), records)["window-contents"]
    assert list(found.values()) == [{"total": 63, "number": 6}]
    evicting = WindowSpec(assigner, element, CountTrigger.of(2), reduce=named, evictor=ByTheClock())
    found = states_after(plan_of(evicting, backend), records)["window-contents"]
    assert all(len(elements) <= 2 for elements in found.values())
