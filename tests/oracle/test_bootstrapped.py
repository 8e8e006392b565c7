"""Real Flink restores what functions bootstrapped: timers fire with the state of their keys, windows with theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cloudpickle import register_pickle_by_value

from pyspark_savepoint import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    OperatorTransformation,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    Savepoint,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.oracle import functions_of_bootstrap
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.flink import BACKENDS, run
from tests.oracle.functions_of_bootstrap import RECORD, RULES, Accounts, Merged, Ruled, SumAndCount, add_amounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.flink, pytest.mark.spark]
register_pickle_by_value(functions_of_bootstrap)
GAP, INTERVAL = 3_000, 4_000
#: The other assigners; records are in windows of processing time when they are bootstrapped, and those are over then.
ASSIGNERS = {
    "dynamic-event": EventTimeSessionWindows.with_dynamic_gap(lambda _element: GAP),
    "tumbling-processing": TumblingProcessingTimeWindows.of(1_000),
    "sliding-processing": SlidingProcessingTimeWindows.of(2_000, 1_000),
    "session-processing": ProcessingTimeSessionWindows.with_gap(1_000),
    "dynamic-processing": ProcessingTimeSessionWindows.with_dynamic_gap(lambda element: 500 + element[1]),
}
#: (key, amount, timestamp): sessions that merge out of order, windows before 1970.
RECORDS = [(i % 7, i * i % 101, (i * 7919 % 60) * 1_000 - 20_000) for i in range(200)]


@pytest.fixture(scope="module")
def bootstrapped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of timers and of every kind of window."""
    df = spark.createDataFrame(RECORDS, "key long, amount long, ts long").repartition(3)
    keyed = OperatorTransformation.bootstrap_with(df).assign_timestamps("ts").key_by("key")
    # Elements in windows have no separate timestamp: they are the job's records.
    pairs = OperatorTransformation.bootstrap_with(df).assign_timestamps("ts").select("key", "amount")
    windows = pairs.key_by("key")
    tumbling, session = TumblingEventTimeWindows.of(10_000), EventTimeSessionWindows.with_gap(GAP)
    sliding = SlidingEventTimeWindows.of(10_000, 5_000)
    rows = {
        "timers": keyed.transform(Accounts()),
        "tumbling-reduce": windows.window(tumbling).element(RECORD).reduce(add_amounts),
        "session-reduce": windows.window(session).element(RECORD).reduce(add_amounts),
        "sliding-aggregate": windows.window(sliding).aggregate(SumAndCount(), RECORD),
        "session-aggregate": windows.window(session).aggregate(SumAndCount(), RECORD),
        "tumbling-process": windows.window(tumbling).element(RECORD).process(),
        "session-process": windows.window(session).element(RECORD).process(),
        "tumbling-evictor": windows.window(tumbling).element(RECORD).evictor(CountEvictor.of(2)).process(),
        "session-evictor": windows.window(session).element(RECORD).evictor(CountEvictor.of(2)).process(),
        "tumbling-continuous": windows.window(tumbling)
        .trigger(ContinuousEventTimeTrigger.of(INTERVAL))
        .element(RECORD)
        .reduce(add_amounts),
        # The time-out is a day away: its timer and its state wait beside the windows that fire.
        "tumbling-timeout": windows.window(tumbling)
        .trigger(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(days=1)))
        .element(RECORD)
        .reduce(add_amounts),
        "global": windows.window(GlobalWindows.create())
        .trigger(EventTimeTrigger.create())
        .element(RECORD)
        .reduce(add_amounts),
    }
    rules = spark.createDataFrame([("factor", 1), ("other", 5), ("factor", 3)], "name string, number long").coalesce(1)
    broadcast = OperatorTransformation.bootstrap_with(rules).broadcast(RULES)
    rows["two-inputs"] = keyed.connect(keyed).transform(Merged())
    rows["broadcast"] = keyed.connect(broadcast).transform(Ruled())
    for uid, assigner in ASSIGNERS.items():
        rows[uid] = windows.window(assigner).element(RECORD).reduce(add_amounts)
    savepoint = Savepoint.create(spark, max_parallelism=128)
    for uid, source in rows.items():
        savepoint = savepoint.with_operator(uid, source)
    path = tmp_path_factory.mktemp("bootstrapped") / "savepoint"
    savepoint.write(str(path))
    return path


def in_windows(assign: Any) -> dict[tuple[int, int, int], list[int]]:
    """Amounts by key and window, in the order of time."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for key, amount, time in sorted(RECORDS, key=lambda record: record[2]):
        for start, end in assign(time):
            found.setdefault((key, start, end), []).append(amount)
    return found


def in_sessions() -> dict[tuple[int, int, int], list[int]]:
    """Amounts by key and session."""
    found = {}
    for key, records in groupby(sorted(RECORDS, key=lambda record: (record[0], record[2])), lambda record: record[0]):
        for session in _sessions(list(records)):
            times = [time for _, _, time in session]
            found[key, times[0], times[-1] + GAP] = [amount for _, amount, _ in session]
    return found


def _sessions(records: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    session = records[:1]
    for record in records[1:]:
        # Windows that touch merge too.
        if record[2] <= session[-1][2] + GAP:
            session.append(record)
        else:
            yield session
            session = [record]
    yield session


def expected() -> dict[str, list[Any]]:
    """Return the results of a job over the same records after the final watermark."""
    tumbling = in_windows(lambda time: [(time // 10_000 * 10_000, time // 10_000 * 10_000 + 10_000)])
    sliding = in_windows(
        lambda time: [(at, at + 10_000) for at in (time // 5_000 * 5_000, time // 5_000 * 5_000 - 5_000)]
    )
    sessions = in_sessions()

    def reduced(windows: Any) -> list[Any]:
        return [[*window, [[window[0], sum(amounts)]]] for window, amounts in windows.items()]

    def aggregated(windows: Any) -> list[Any]:
        return [[*window, [[sum(amounts), len(amounts)]]] for window, amounts in windows.items()]

    def everything(windows: Any) -> list[Any]:
        return [[*window, sorted([window[0], amount] for amount in amounts)] for window, amounts in windows.items()]

    return {
        "tumbling-continuous": [each for each in reduced(tumbling) for _ in range(firings(*each[:3]))],
        "tumbling-reduce": reduced(tumbling),
        "tumbling-timeout": reduced(tumbling),
        "session-reduce": reduced(sessions),
        "dynamic-event": reduced(sessions),
        "sliding-aggregate": aggregated(sliding),
        "session-aggregate": aggregated(sessions),
        "tumbling-process": everything(tumbling),
        "session-process": everything(sessions),
    }


def firings(key: int, start: int, end: int) -> int:
    """How often a continuous trigger fires: from the first record on at every interval, and at the end.

    Flink counts intervals before 1970 from their other end.
    """
    first = min(time for other, _, time in RECORDS if other == key and start <= time < end)
    time, fired = int(first / INTERVAL) * INTERVAL + INTERVAL, 1
    while time < end - 1:
        time, fired = time + INTERVAL, fired + 1
    return fired


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_fires_what_was_bootstrapped(
    flink_version: str, backend: str, bootstrapped: Path, tmp_path: Path
) -> None:
    arguments = [f"--out={tmp_path}", f"--snapshot={bootstrapped.as_uri()}", "--parallelism=2"]
    arguments += [f"--conf={key}={value}" for key, value in BACKENDS[backend].items()]
    with failing_in_one_line():
        run(flink_version, "oracle.Bootstrapped", arguments)
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    for uid, windows in expected().items():
        fired = [[*window, sorted(elements)] for *window, elements in found[uid]["windows"]]
        assert sorted(fired) == sorted([[*window, sorted(elements)] for *window, elements in windows]), uid
    # Two records of each window are left, whichever came last among those of the same time.
    for kind in ("tumbling", "session"):
        kept = {tuple(window): elements for *window, elements in found[f"{kind}-evictor"]["windows"]}
        whole = {tuple(window): elements for *window, elements in expected()[f"{kind}-process"]}
        assert kept.keys() == whole.keys()
        assert all(len(elements) == min(2, len(whole[window])) for window, elements in kept.items())
    assert sorted(found["timers"]["fired"]) == sorted(fired_timers())
    assert sorted(found["two-inputs"]["fired"]) == sorted(fired_of_two_inputs())
    times = {(key, time + 500) for key, _, time in RECORDS}
    sums = {key: 3 * sum(amount for other, amount, _ in RECORDS if other == key) for key in range(7)}
    expected_rules = [["factor", 3], ["other", 5]]
    assert sorted(found["broadcast"]["fired"]) == sorted([key, time, sums[key], expected_rules] for key, time in times)
    totals = {key: sum(amount for other, amount, _ in RECORDS if other == key) for key in range(7)}
    for uid, times in (("tumbling", 1), ("sliding", 2), ("session", 1), ("dynamic", 1)):
        windows_of = found[f"{uid}-processing"]["windows"]
        assert all(start < end for _, start, end, _ in windows_of), uid
        assert summed(windows_of) == {key: total * times for key, total in totals.items()}, uid
    assert {end for _, end, _ in found["global"]["windows"]} == {(1 << 63) - 1}
    assert summed(found["global"]["windows"]) == totals


def summed(windows: list[Any]) -> dict[int, int]:
    """The amounts of all windows of a key."""
    totals: dict[int, int] = {}
    for key, *_, elements in windows:
        totals[key] = totals.get(key, 0) + sum(amount for _, amount in elements)
    return totals


def fired_of_two_inputs() -> list[Any]:
    """Every key's timers, with the amounts of both inputs by time."""
    fired = []
    for key in range(7):
        events = sorted((time, number, i) for i, (other, _, time) in enumerate(RECORDS) if other == key
                        for number in (1, -1))  # fmt: skip
        events.sort(key=lambda event: (event[0], -event[1]))
        fired += [[key, time, sorted(number * RECORDS[i][1] for _, number, i in events)]
                  for time in sorted({at + behind for at, _, _ in events for behind in (500, 700)})]  # fmt: skip
    return fired


def fired_timers() -> list[Any]:
    """Every key's timers, with its total and the times of its records."""
    fired = []
    for key, records in groupby(sorted(RECORDS, key=lambda record: (record[0], record[2])), lambda record: record[0]):
        times = [(amount, time) for _, amount, time in records]
        total, seen = float(sum(amount for amount, _ in times)), [time for _, time in times]
        fired += [[key, time + 500, "EVENT_TIME", total, seen] for time in sorted(set(seen))]
    return fired
