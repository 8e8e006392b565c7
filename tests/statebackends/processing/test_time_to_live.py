"""When values with a time to live are touched, and when they go, by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.processing.api.evictors import TimeEvictor
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    ListStateDescriptor,
    StateTtlConfig,
    StateVisibility,
    UpdateType,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from pyspark_savepoint.statebackends.processing.backends.adapters import TimeToLive, create_adapted
from pyspark_savepoint.statebackends.processing.operators.state_registry import create_backend
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import StateKind
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.processing.programs import STATES, Average, Collected, concatenate
from tests.statebackends.processing.tasks import plan_of, written

RETURNED = StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
#: How a state is written to, how it is read, and what is read after one write.
USES: dict[StateKind, tuple[Any, Any, Any]] = {
    StateKind.VALUE: (lambda state: state.update(7), lambda state: state.value(), 7),
    StateKind.MAP: (lambda state: state.put("a", 7), lambda state: state.get("a"), 7),
    StateKind.REDUCING: (lambda state: state.add("a"), lambda state: state.get(), "a"),
    StateKind.AGGREGATING: (lambda state: state.add(7), lambda state: state.get(), 7.0),
}


def last_access(kind: StateKind, output: Collected) -> int | None:
    """Of the one content that was left."""
    contents = list(output.found.values())
    if not contents:
        return None
    content = contents[0]["a"] if kind is StateKind.MAP else contents[0]
    return int(content[1])


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize("kind", list(USES))
@pytest.mark.parametrize(
    ("update", "visibility", "reads", "expected"),
    [
        # (times of reads, whether each sees the value, time of last access at the end); written at 100, lives for 50.
        (UpdateType.ON_CREATE_AND_WRITE, None, [(120, True), (149, True)], 100),
        (UpdateType.ON_READ_AND_WRITE, None, [(120, True), (169, True)], 169),
        (UpdateType.ON_READ_AND_WRITE, None, [(150, False), (151, False)], None),
        (UpdateType.ON_READ_AND_WRITE, RETURNED, [(150, True), (151, False)], None),
    ],
)
def test_reading_touches_and_removes(
    backend: str, kind: StateKind, update: UpdateType, visibility: Any, reads: list[Any], expected: int | None
) -> None:
    clock = 100
    config = StateTtlConfig(timedelta(milliseconds=50), update, visibility or StateVisibility.NEVER_RETURN_EXPIRED)
    holder, output = create_backend(backend), Collected()
    state, _ = create_adapted(holder, STATES[kind], output, [TimeToLive(config, lambda: clock)])
    write, read, value = USES[kind]
    holder.set_current_key("k", b"\0\0\1k")
    assert read(state) is None
    write(state)
    for clock, seen in reads:  # noqa: B007  # the clock reads it
        assert read(state) == (value if seen else None)
    for _ in holder.finish():
        pass
    holder.close()
    assert last_access(kind, output) == expected
    assert (concatenate("a", "b"), Average().get_result((7, 1))) == ("ab", 7.0)


@dataclass
class Clock:
    """What a test says it is."""

    now: int = 100


def aging(backend: str, kind: StateKind, config: StateTtlConfig) -> tuple[Any, Clock, Callable[[], Any]]:
    """A state, its clock, and what ends it: the one content that is left, or None."""
    clock, holder, output = Clock(), create_backend(backend), Collected()
    state, _ = create_adapted(holder, STATES[kind], output, [TimeToLive(config, lambda: clock.now)])
    holder.set_current_key("k", b"\0\0\1k")

    def left() -> Any:
        for _ in holder.finish():
            pass
        holder.close()
        contents = list(output.found.values())
        return None if not contents else contents[0]

    return state, clock, left


READ = UpdateType.ON_READ_AND_WRITE
#: At 150 what was written at 100 has expired, and what was written at 120 has not; at 170 both have.
AGES: list[tuple[StateTtlConfig, int, list[str], dict[str, int] | None]] = [
    (StateTtlConfig(50), 150, ["young"], {"young": 120}),
    (StateTtlConfig(50), 170, [], None),
    (StateTtlConfig(50, READ), 150, ["young"], {"young": 150}),
    (StateTtlConfig(50, READ, RETURNED), 150, ["old", "young"], {"young": 150}),
    (StateTtlConfig(50, READ, RETURNED), 170, ["old", "young"], None),
    (StateTtlConfig(50, visibility=RETURNED), 150, ["old", "young"], {"young": 120}),
    (StateTtlConfig(50, visibility=RETURNED), 170, ["old", "young"], None),
]


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize(("config", "now", "seen", "expected"), AGES)
def test_elements_age_one_by_one(
    backend: str, config: StateTtlConfig, now: int, seen: list[str], expected: dict[str, int] | None
) -> None:
    state, clock, left = aging(backend, StateKind.LIST, config)
    state.add("old")
    clock.now = 120
    state.add("young")
    clock.now = now
    assert state.get() == seen
    if expected is not None and config.update_type is not READ:
        expected = {"old": 100, **expected}  # elements expire together, or when the others are stored again
    found = left()
    assert (None if found is None else {each[0]: each[1] for each in found}) == expected


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize(("config", "now", "seen", "expected"), AGES)
def test_user_keys_age_one_by_one(
    backend: str, config: StateTtlConfig, now: int, seen: list[str], expected: dict[str, int] | None
) -> None:
    state, clock, left = aging(backend, StateKind.MAP, config)
    state.put("old", 1)
    clock.now = 120
    state.put("young", 2)
    clock.now = now
    assert not state.is_empty()
    assert list(state.keys()) == seen
    found = left()
    assert (None if found is None else {name: each[1] for name, each in found.items()}) == expected


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
def test_asking_for_a_user_key_touches_no_other(backend: str) -> None:
    state, clock, left = aging(backend, StateKind.MAP, StateTtlConfig(50, READ))
    state.put_all({"a": 1, "b": 2, "c": 3})
    clock.now = 120
    assert state.contains("a")
    assert not state.contains("x")
    assert state.get("b") == 2
    assert not state.is_empty()
    assert {name: each[1] for name, each in left().items()} == {"a": 120, "b": 120, "c": 100}


@pytest.mark.parametrize("backend", ["single_key", "heap", "rocksdb"])
@pytest.mark.parametrize("ages", [True, False])
def test_none_of_a_function_clears(backend: str, ages: bool) -> None:
    holder, output = create_backend(backend), Collected()
    adapters: list[Any] = [TimeToLive(StateTtlConfig(50), lambda: 100)] if ages else []
    reducing = replace(STATES[StateKind.REDUCING], reduce=lambda a, b: None)
    state, _ = create_adapted(holder, reducing, output, adapters)
    holder.set_current_key("k", b"\0\0\1k")
    state.add("a")  # type: ignore[attr-defined]
    state.add("b")  # type: ignore[attr-defined]
    assert state.get() is None  # type: ignore[attr-defined]
    for _ in holder.finish():
        pass
    holder.close()
    assert output.found == {}


def test_durations_are_timedeltas_too() -> None:
    assert TimeEvictor.of(timedelta(seconds=2)) == TimeEvictor.of(2_000)
    assert ContinuousEventTimeTrigger.of(timedelta(seconds=2)) == ContinuousEventTimeTrigger.of(2_000)
    assert ContinuousProcessingTimeTrigger.of(timedelta(seconds=2)) == ContinuousProcessingTimeTrigger.of(2_000)
    assert StateTtlConfig(timedelta(days=1)).ttl_millis == 86_400_000


NAMED = ListStateDescriptor("rows", "ROW<id LONG, at STRING>", ttl=StateTtlConfig(timedelta(hours=1)))
POINT = ValueStateDescriptor("point", "POJO<com.shop.Point>(x LONG, tag ROW<name STRING>)")


class Writes(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.rows, self.point = ctx.get_list_state(NAMED), ctx.get_state(POINT)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.rows.add({"id": value.amount, "at": value.key})
        self.point.update({"x": value.amount, "tag": {"name": value.key}})


class Reads(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.rows, self.point = ctx.get_list_state(NAMED), ctx.get_state(POINT)

    def read_key(self, key: str, ctx: Any) -> Any:
        yield key, [row[1] for row in self.rows.get()], self.point.value().x


def test_a_reader_takes_the_descriptor_that_wrote(tmp_path: Path) -> None:
    # A snapshot does not keep the names of a ROW's fields, so that they are no difference.
    written(tmp_path / "sp", plan_of(Writes()), [("a", 1, 1), ("a", 2, 2)])
    savepoint = Snapshot.open(str(tmp_path / "sp"))
    schema = pa.schema([("key", pa.string()), ("at", pa.list_(pa.string())), ("x", pa.int64())])
    plan = KeyedReaderPlan.of(
        Reads(),
        schema,
        OpenOperator(savepoint, savepoint.operator(uid="uid")),
        TableRequest(str(tmp_path / "sp"), uid="uid"),
        1,
    )
    (batch,) = KeyedReaderTask(plan, 0).run()
    assert batch.to_pylist() == [{"key": "a", "at": ["a", "a"], "x": 2}]
