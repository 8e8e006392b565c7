"""Reader functions over snapshots that Flink wrote: they get the values of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import (
    OptionError,
    StateNotFoundError,
    UnsupportedStateError,
    UserFunctionError,
    ValueRangeError,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.processing.api.evictors import CountEvictor
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateReaderFunction,
    ProcessWindowFunction,
    WindowReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import CountTrigger
from pyspark_savepoint.statebackends.processing.api.windows import GlobalWindow, TimeWindow, TumblingEventTimeWindows
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.processing.readers.window_reader import WindowReaderPlan, WindowReaderTask
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.processing.tasks import plan_of, written

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
LONGS = pa.list_(pa.int64())


def opened(path: Path, **named: Any) -> tuple[OpenOperator, TableRequest]:
    savepoint = Snapshot.open(str(path))
    request = TableRequest(str(path), **named).of_version(savepoint.metadata.version)
    return OpenOperator(savepoint, savepoint.operator(uid=request.uid, uid_hash=request.uid_hash)), request


def keyed(function: Any, schema: pa.Schema, parallelism: int = 3, slices: int | None = None, **named: Any) -> list[Any]:
    """The rows that a function yields of the accounts of the shop."""
    plan = KeyedReaderPlan.of(function, schema, *opened(SHOP, **{"uid": "accounts", **named}), parallelism)
    plan = plan if slices is None else replace(plan, slices=slices)
    return [row for i in range(len(plan.vertices)) for b in KeyedReaderTask(plan, i).run() for row in b.to_pylist()]


def table(path: Path, **named: Any) -> list[dict[str, Any]]:
    found = open_table(TableRequest(str(path), **named))
    return [row for part in found.partitions(2) for batch in part.batches() for row in batch.to_pylist()]


class Accounts(KeyedStateReaderFunction):
    """Everything that an account has."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))
        self.profile = ctx.get_state("profile")
        self.amounts = ctx.get_list_state(ListStateDescriptor("recent_amounts", "DOUBLE"))
        self.spent = ctx.get_map_state(MapStateDescriptor("spent_by_currency", "STRING", "LONG"))
        self.coupon = ctx.get_state(ValueStateDescriptor("coupon", "STRING"))

    def read_key(self, key: int, ctx: Any) -> Iterator[Any]:
        assert dict(self.spent.items()) == dict(zip(self.spent.keys(), self.spent.values(), strict=True))
        assert all(self.spent.contains(name) and self.spent.get(name) for name in self.spent.keys())  # noqa: SIM118
        assert self.spent.is_empty() == (not self.spent.items())
        profile = self.profile.value()
        yield {
            "key": key,
            "total": self.total.value(),
            "city": None if profile is None else profile.city,
            "amounts": self.amounts.get(),
            "spent": dict(self.spent.items()),
            "coupon": self.coupon.value(),
            "event": ctx.event_time_timers(),
            "processing": ctx.processing_time_timers(),
        }


SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("total", pa.int64()),
        ("city", pa.string()),
        ("amounts", pa.list_(pa.float64())),
        ("spent", pa.map_(pa.string(), pa.int64())),
        ("coupon", pa.string()),
        ("event", LONGS),
        ("processing", LONGS),
    ]
)


@pytest.fixture(scope="module")
def accounts() -> list[dict[str, Any]]:
    """Return the values of every account in the tables."""
    timers: dict[tuple[int, str], list[int]] = {}
    for row in table(SHOP, uid="accounts", table="timers"):
        timers.setdefault((row["key"], row["domain"]), []).append(row["timestamp"])
    return [
        {
            "key": row["key"],
            "total": row["total"],
            "city": None if row["profile"] is None else row["profile"]["city"],
            "amounts": row["recent_amounts"] or [],
            "spent": row["spent_by_currency"] or [],
            "coupon": row["coupon"],
            "event": sorted(timers.get((row["key"], "event"), [])),
            "processing": sorted(timers.get((row["key"], "processing"), [])),
        }
        for row in sorted(table(SHOP, uid="accounts", table="keyed_state"), key=lambda row: row["key"])
    ]


@pytest.mark.parametrize(("parallelism", "slices"), [(1, None), (3, None), (2, 1000), (1, 5)])
def test_a_reader_sees_what_the_tables_say(accounts: list[Any], parallelism: int, slices: int | None) -> None:
    found = keyed(Accounts(), SCHEMA, parallelism, slices)
    assert sorted(found, key=lambda row: row["key"]) == accounts


def test_keys_and_key_groups_are_chosen_by_options(accounts: list[Any]) -> None:
    assert keyed(Accounts(), SCHEMA, keys="[1042]") == [row for row in accounts if row["key"] == 1042]
    some = keyed(Accounts(), SCHEMA, key_groups=((0, 40),))
    assert 0 < len(some) < len(accounts)


class Coupons(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.coupon = ctx.get_state("coupon")

    def read_key(self, key: int, ctx: Any) -> Iterator[str]:
        yield self.coupon.value()


def test_only_keys_with_one_of_the_states_are_read(accounts: list[Any]) -> None:
    schema = pa.schema([("coupon", pa.string())])
    coupons = [row["coupon"] for row in accounts if row["coupon"] is not None]
    assert sorted(row["coupon"] for row in keyed(Coupons(), schema)) == sorted(coupons)
    assert 0 < len(coupons) < len(accounts)


class Does(KeyedStateReaderFunction):
    """Function that calls ``register`` in open() and ``read`` for each key."""

    def __init__(self, register: Any, read: Any = None) -> None:
        self.register, self.read = register, read

    def open(self, ctx: Any) -> None:
        self.ctx = ctx
        self.state = self.register(ctx)

    def read_key(self, key: int, ctx: Any) -> Any:
        return self.read(self)


@pytest.mark.parametrize(
    ("register", "error", "message"),
    [
        (lambda ctx: None, OptionError, "registers no state"),
        (lambda ctx: ctx.get_state("totl"), StateNotFoundError, "did you mean 'total'"),
        (lambda ctx: ctx.get_list_state("total"), OptionError, "ask for it with get_state"),
        (lambda ctx: ctx.get_state("spent_by_currency"), OptionError, "ask for it with get_map_state"),
        (lambda ctx: ctx.get_state(ValueStateDescriptor("total", "INT")), OptionError, "leave the type out"),
        (lambda ctx: ctx.get_map_state(MapStateDescriptor("spent_by_currency", "STRING", "INT")), OptionError, "INT"),
        (lambda ctx: {}["x"], UserFunctionError, "Does failed in open: KeyError"),
    ],
)
def test_what_is_asked_for_must_be_there(register: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        keyed(Does(register), SCHEMA)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("get_state total", lambda state: state.update(1)),
        ("get_state total", lambda state: state.clear()),
        ("get_list_state recent_amounts", lambda state: state.add(1.0)),
        ("get_list_state recent_amounts", lambda state: state.add_all([1.0])),
        ("get_list_state recent_amounts", lambda state: state.update([])),
        ("get_map_state spent_by_currency", lambda state: state.put("EUR", 1)),
        ("get_map_state spent_by_currency", lambda state: state.put_all({})),
        ("get_map_state spent_by_currency", lambda state: state.remove("EUR")),
    ],
)
def test_readers_change_nothing(name: str, write: Any) -> None:
    method, state = name.split()
    function = Does(lambda ctx: getattr(ctx, method)(state), lambda self: write(self.state))
    with pytest.raises(UnsupportedStateError, match="cannot change state") as caught:
        keyed(function, SCHEMA)
    assert caught.value.facts["key"]


def test_states_are_registered_in_open() -> None:
    function = Does(lambda ctx: ctx.get_state("total"), lambda self: self.ctx.get_state("coupon"))
    with pytest.raises(OptionError, match="before the first key, as Flink requires"):
        keyed(function, SCHEMA)


def test_rows_are_of_the_declared_schema() -> None:
    function = Does(lambda ctx: ctx.get_state("total"), lambda self: [("x",)])
    with pytest.raises(ValueRangeError, match="column key cannot hold a value that the function returned"):
        keyed(function, pa.schema([("key", pa.int64())]))
    with pytest.raises(ValueRangeError, match=r"row cannot hold a value"):
        keyed(function, pa.schema([("key", pa.int64()), ("b", pa.int64())]))


# -- windows -------------------------------------------------------------------------------------------------


class Windows(WindowReaderFunction):
    """Function that yields everything that a window has, and the value of ``extra``."""

    def __init__(self, extra: Any = lambda ctx: None) -> None:
        self.extra = extra

    def read_window(self, key: Any, ctx: Any, elements: list[Any]) -> Iterator[Any]:
        window = ctx.window()
        bounds = [window.start, window.end] if isinstance(window, TimeWindow) else None
        assert bounds is not None or window == GlobalWindow()
        yield str(key), bounds, str(elements), ctx.event_time_timers(), ctx.processing_time_timers(), self.extra(ctx)


WINDOWS = pa.schema(
    [("key", pa.string()), ("bounds", LONGS), ("elements", pa.string()), ("event", LONGS), ("processing", LONGS),
     ("extra", pa.int64())]
)  # fmt: skip


def windows_of(path: Path, function: Any, aggregate: Any = None, reduce: Any = None, **named: Any) -> list[Any]:
    plan = WindowReaderPlan.of(function, WINDOWS, *opened(path, **named), 2, aggregate, reduce)
    plan = replace(plan, slices=3)
    return [row for i in range(len(plan.vertices)) for b in WindowReaderTask(plan, i).run() for row in b.to_pylist()]


class CountOfOrders(AggregateFunction[Any, Any, int]):
    def create_accumulator(self) -> Any:
        raise AssertionError("a reader adds nothing")

    def add(self, value: Any, accumulator: Any) -> Any:
        raise AssertionError("a reader adds nothing")

    def get_result(self, accumulator: Any) -> int:
        return int(accumulator[0])


def test_aggregated_windows_and_their_timers() -> None:
    found = windows_of(SHOP, Windows(), CountOfOrders(), uid="orders-per-minute")
    raw = replace(TableRequest(str(SHOP)).decode, timestamps="raw")
    expected = table(SHOP, uid="orders-per-minute", table="window_state", decode=raw)
    assert sorted((row["key"], row["bounds"], row["elements"]) for row in found) == sorted(
        (row["key"], list(row["window"].values()), str([row["window-contents"]["f0"]])) for row in expected
    )
    # Each has its trigger's timer, at its last millisecond.
    assert all(row["event"] == [row["bounds"][1] - 1] and row["processing"] == [] for row in found)
    (accumulators,) = {type(row["elements"]) for row in windows_of(SHOP, Windows(), uid="orders-per-minute")}
    assert accumulators is str


def operators_with(path: Path, kind: str, namespace: str) -> Iterator[str]:
    """The uid hashes of operators whose windows are of a kind."""
    savepoint = Snapshot.open(str(path))
    for operator in savepoint.operators:
        metas = OpenOperator(savepoint, operator).keyed.metas()
        found = metas.get(("window-contents", False))
        if found and (found[0].state_type, found[0].namespace_serializer.flink_type) == (kind, namespace):
            yield operator.operator_id.hex


@pytest.mark.parametrize(
    ("kind", "space"), [("LIST", "TIME_WINDOW"), ("REDUCING", "GLOBAL_WINDOW"), ("REDUCING", "TIME_WINDOW")]
)
def test_windows_of_every_kind(corpus: Path, kind: str, space: str) -> None:
    path = corpus / "lab" / "1.18.1-rocksdb-canonical" / "savepoint"
    hashes = list(operators_with(path, kind, space))
    assert hashes
    for uid_hash in hashes:
        rows = table(path, uid_hash=uid_hash, table="window_state", state="window-contents")
        found = windows_of(path, Windows(), uid_hash=uid_hash)
        assert len(found) == len(rows) > 0
        assert all((row["bounds"] is None) == (space == "GLOBAL_WINDOW") for row in found)
        sizes = sorted(row["elements"].count("Row(") for row in found)
        assert sizes == sorted(len(row["window-contents"]) if kind == "LIST" else 1 for row in rows)


def test_windows_that_merge_are_sessions(corpus: Path) -> None:
    """With the timers of the session, which Flink does not keep under the window that holds the contents."""
    path = corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb"
    found = windows_of(path, Windows(), uid_hash="1f83829584986280f4ed1ab082e6c666")
    bounds = {row["key"]: row["bounds"] for row in found}
    assert bounds == {f"u{user}": [user * 1000, (285 + user + 16) * 1000] for user in range(15)}
    assert all(row["event"] == [row["bounds"][1] - 1] for row in found)


class Sizes(ProcessWindowFunction):
    """Leaves state of the window and of the key where it fires."""

    def window_state_descriptors(self) -> Any:
        return (ListStateDescriptor("sizes", "INT"),)

    def global_state_descriptors(self) -> Any:
        return (ValueStateDescriptor("fired", "LONG"),)

    def process(self, key: str, ctx: Any, elements: list[Any]) -> None:
        ctx.window_state().get_list_state("sizes").add(len(elements))
        fired = ctx.global_state().get_state("fired")
        fired.update((fired.value() or 0) + 1)


@pytest.mark.parametrize("evictor", [None, CountEvictor.of(3)])
def test_trigger_state_and_state_of_the_key(tmp_path: Path, evictor: Any) -> None:
    trigger = CountTrigger.of(2)
    windows = WindowSpec(
        TumblingEventTimeWindows.of(10),
        "ROW<key STRING, amount LONG, ts LONG>",
        trigger,
        function=Sizes(),
        evictor=evictor,
    )
    found = [("a", i, i) for i in range(5)] + [("b", 7, 70)]
    written(tmp_path / "sp", plan_of(windows), found)

    def more(ctx: Any) -> int:
        sizes = ctx.window_state().get_list_state("sizes").get()
        fired = ctx.global_state().get_state("fired").value()
        return int(f"{ctx.trigger_state('count').get()}{len(sizes)}{fired or 0}")

    rows = windows_of(tmp_path / "sp", Windows(more), uid="uid")
    by_key = {row["key"]: row for row in rows}
    assert {key: row["bounds"] for key, row in by_key.items()} == {"a": [0, 10], "b": [70, 80]}
    # One of two is counted; it fired twice, and never for the other key.
    assert {key: row["extra"] for key, row in by_key.items()} == {"a": 122, "b": 100}
    assert by_key["a"]["elements"].count("Row(") == (5 if evictor is None else 4)
    assert [row["event"] for row in by_key.values()] == [[9], [79]]
    with pytest.raises(StateNotFoundError, match="no such state 'nothing'"):
        windows_of(tmp_path / "sp", Windows(lambda ctx: ctx.global_state().get_state("nothing")), uid="uid")


class Amounts(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.f1)

    def get_result(self, accumulator: int) -> int:
        return accumulator


def test_elements_that_windows_keep_are_aggregated_and_reduced(tmp_path: Path) -> None:
    """Flink: ``WindowSavepointReader.evictor()`` with ``aggregate`` and ``reduce``."""
    element = "ROW<key STRING, amount LONG, ts LONG>"
    windows = WindowSpec(TumblingEventTimeWindows.of(10), element, CountTrigger.of(9), evictor=CountEvictor.of(9))
    written(tmp_path / "sp", plan_of(windows), [("a", i, i) for i in range(5)] + [("b", 7, 70)])

    def elements(**given: Any) -> dict[str, str]:
        return {row["key"]: row["elements"] for row in windows_of(tmp_path / "sp", Windows(), uid="uid", **given)}

    assert elements()["a"].count("Row(") == 5
    assert elements(aggregate=Amounts()) == {"a": "[10]", "b": "[7]"}
    most = elements(reduce=lambda one, other: other if other.f1 > one.f1 else one)
    assert {key: (text.count("Row("), "f1=4" in text) for key, text in most.items()} == {
        "a": (1, True),
        "b": (1, False),
    }
    with pytest.raises(OptionError, match="'reduce' cannot apply"):
        windows_of(SHOP, Windows(), reduce=max, uid="orders-per-minute")
    with pytest.raises(OptionError, match="'reduce' cannot apply"):
        elements(reduce=max, aggregate=Amounts())


def test_a_reader_of_windows_needs_windows() -> None:
    with pytest.raises(StateNotFoundError, match="read_keyed_state reads states without window"):
        windows_of(SHOP, Windows(), uid="accounts")


def test_an_accumulator_is_what_its_function_makes_of_it(corpus: Path) -> None:
    class Sums(KeyedStateReaderFunction):
        def open(self, ctx: Any) -> None:
            self.sum = ctx.get_aggregating_state(AggregatingStateDescriptor(name, aggregate=Twice()))

        def read_key(self, key: Any, ctx: Any) -> Iterator[str]:
            yield self.sum.get()

    class Twice(CountOfOrders):
        def get_result(self, accumulator: Any) -> Any:
            return f"of {accumulator!r}"

    path = corpus / "lab" / "1.18.1-rocksdb-canonical" / "savepoint"
    savepoint = Snapshot.open(str(path))
    places = [
        (operator.operator_id.hex, state)
        for operator in savepoint.operators
        for (state, timer), metas in OpenOperator(savepoint, operator).keyed.metas().items()
        if not timer
        and metas[0].state_type == "AGGREGATING"
        and metas[0].namespace_serializer.flink_type == "VOID_NAMESPACE"
    ]
    uid_hash, name = places[0]
    plan = KeyedReaderPlan.of(Sums(), pa.schema([("x", pa.string())]), *opened(path, uid_hash=uid_hash), 1)
    found = [row["x"] for batch in KeyedReaderTask(plan, 0).run() for row in batch.to_pylist()]
    assert found
    assert all(text.startswith("of ") for text in found)
