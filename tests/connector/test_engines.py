"""The same edits by both engines give savepoints with the same content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import StructType

import pyspark_savepoint
from pyspark_savepoint import (
    BroadcastStateBootstrapFunction,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    ListStateDescriptor,
    LocalSavepoint,
    MapStateDescriptor,
    OperatorIdentifier,
    OperatorTransformation,
    Savepoint,
    StateBootstrapFunction,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowReaderFunction,
)
from pyspark_savepoint.errors import OptionError, UserFunctionError, ValueRangeError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.options.ddl import arrow_columns
from pyspark_savepoint.options.schema import spark_schema
from tests.shop_edits import EDITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Content = dict[str, dict[tuple[str, str | None], list[str]]]


def content(savepoint: LocalSavepoint) -> Content:
    """All rows of all tables of state, by operator, table and operator state."""
    found: Content = {}
    for row in savepoint.states().rows():
        table = row["table"]
        operator = found.setdefault(row["operator_uid"] or row["operator_uid_hash"], {})
        if table not in ("keyed_state", "window_state", "timers", "operator_state"):
            continue
        state = row["state"] if table == "operator_state" else None
        if (table, state) not in operator:
            given = {name: text for name, text in dict(row["options"]).items() if name != "state" or state is not None}
            rows = savepoint.table(given.pop("table", table), **given).rows()  # type: ignore[arg-type]
            operator[table, state] = sorted(repr(sorted(one.items())) for one in rows)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("name", EDITS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_engines_write_the_same(name: str, spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    with_spark, without = Savepoint.load(spark, str(shop)), pyspark_savepoint.open(shop)
    EDITS[name](with_spark, with_spark).write(str(tmp_path / "spark"))
    written = EDITS[name](without, without).write(tmp_path / "local")
    other = pyspark_savepoint.open(tmp_path / "spark")
    assert content(written) == content(other)
    rows = [sorted(map(repr, each.states().rows())) for each in (written, other)]
    assert rows[0] == rows[1]


# -- reads ----------------------------------------------------------------------------------------------------------


class Totals(KeyedStateReaderFunction):
    """Yields key and total, and the times of the timers."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state("total")

    def read_key(self, key: int, ctx: Any) -> Any:
        yield key, self.total.value(), sorted(ctx.event_time_timers())


class Counts(WindowReaderFunction):
    """Yields the number of elements of each window."""

    def read_window(self, key: Any, ctx: Any, elements: Any) -> Any:
        yield str(key), ctx.window().start, len(list(elements))


TOTALS = "key long not null, n long, at array<long>"
READS: dict[str, Callable[[Any], Any]] = {
    "table": lambda sp: sp.table("timers", "accounts"),
    "operator_state": lambda sp: sp.operator_state("currency-converter", "rates"),
    "list_state": lambda sp: sp.read_list_state("warehouse-export", "pending_orders"),
    "union_state": lambda sp: sp.union_state("warehouse-export", "exported_until", "TUPLE<STRING, LONG>"),
    "broadcast_state": lambda sp: sp.broadcast_state("currency-converter", "rates", "STRING", "DOUBLE"),
    "sizes": lambda sp: sp.inspect.sizes("accounts"),
    "verify": lambda sp: sp.inspect.verify(),
    "heaviest_keys": lambda sp: sp.inspect.heaviest_keys(top=3),
    "find_keys": lambda sp: sp.find_keys([1042, "USD"]),
    "timers of all operators": lambda sp: sp.timers(),
    "ttl_ages": lambda sp: sp.inspect.ttl_ages(),
    "doctor": lambda sp: sp.inspect.doctor("size=1KB"),
    "check_migration": lambda sp: sp.check_migration("2.3"),
    "read_keyed_state": lambda sp: sp.read_keyed_state("accounts", Totals(), TOTALS),
    "read_window": lambda sp: sp.read_window("orders-per-minute", Counts(), "key string, start long, n int"),
}
#: Whose rows have an order.
ORDERED = ("verify", "heaviest_keys", "ttl_ages", "doctor", "check_migration")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_engines_read_the_same(spark: SparkSession, shop: Path) -> None:
    with_spark, without = Savepoint.load(spark, str(shop)), pyspark_savepoint.open(shop)
    for name, read in READS.items():
        frame, table = read(with_spark), read(without)
        assert frame.columns == table.schema.names, name
        rows = [list(map(repr, each.to_pylist())) for each in (frame.toArrow(), table.to_arrow())]
        assert rows[1], name
        assert rows[0] == rows[1] if name in ORDERED else sorted(rows[0]) == sorted(rows[1]), name
    assert not read_keys(with_spark).schema["key"].nullable  # NOT NULL of the schema stays


def read_keys(savepoint: Any) -> Any:
    return READS["read_keyed_state"](savepoint)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_engines_find_the_same_differences(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    old = pyspark_savepoint.open(shop)
    edited = old.remove_keys("accounts", [1042, 1043]).remove_state("warehouse-export", "pending_orders")
    edited.remove_operator("currency-converter").write(tmp_path / "new")
    for arguments in (
        {},
        {"uid": "accounts"},
        {"uid": "accounts", "table": "timers"},
        {"uid": "currency-converter"},
        {"uid": "warehouse-export", "state": "pending_orders"},
    ):
        frame = Savepoint.load(spark, str(shop)).diff(str(tmp_path / "new"), **arguments)
        table = old.diff(tmp_path / "new", **arguments)
        assert frame.columns == table.schema.names, arguments
        rows = [sorted(map(repr, each.to_pylist())) for each in (frame.toArrow(), table.to_arrow())]
        assert rows[0] == rows[1], arguments
        assert rows[0], arguments


@pytest.fixture(scope="module")
def folder(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three snapshots of a job; one operator is in the last two only."""
    folder = tmp_path_factory.mktemp("history")
    base = pyspark_savepoint.open(shop)
    first = base.remove_operator("currency-converter").write(folder / "chk-1", checkpoint_id=1)
    second = first.remove_keys("accounts", [1042]).with_operator("currency-converter", base)
    second.write(folder / "chk-2", checkpoint_id=2).remove_keys("accounts", [1043]).write(
        folder / "chk-3", checkpoint_id=3
    )
    return folder


HISTORIES: list[dict[str, Any]] = [
    {},
    {"last": 2},
    {"uid": "accounts", "state": "total"},
    {"uid": "currency-converter", "table": "operator_state", "state": "rates"},
    {"changes": True},
    {"changes": True, "uid": "accounts"},
    {"changes": True, "last": 1},
]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_history_without_spark(folder: Path) -> None:
    def history(**given: Any) -> list[dict[str, Any]]:
        return pyspark_savepoint.open_history(folder, **given).to_arrow().to_pylist()

    assert [row["checkpoint_id"] for row in history(uid="currency-converter", last=1, table="states")] == [3] * 1
    removed = {
        (row["checkpoint_id"], row["removed"]) for row in history(changes=True, uid="accounts") if row["removed"]
    }
    assert {number for number, _ in removed} == {2, 3}
    assert history(changes=True, last=1) == []
    with pytest.raises(OptionError, match="without options"):
        history(changes=True, state="total")


@pytest.mark.spark
@pytest.mark.parametrize("given", HISTORIES, ids=repr)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_engines_have_the_same_history(spark: SparkSession, folder: Path, given: dict[str, Any]) -> None:
    frame = pyspark_savepoint.history(spark, str(folder), **given)
    table = pyspark_savepoint.open_history(folder, **given)
    assert frame.columns == table.schema.names
    rows = [sorted(map(repr, each.to_pylist())) for each in (frame.toArrow(), table.to_arrow())]
    assert rows[0] == rows[1]
    assert bool(rows[0]) == (given != {"changes": True, "last": 1})


# -- functions without Spark ------------------------------------------------------------------------------------------


def test_reader_functions_run_in_this_process(shop: Path) -> None:
    savepoint = pyspark_savepoint.open(shop)
    totals = read_keys(savepoint)
    known = savepoint.keyed_state("accounts", state="total").to_arrow().to_pylist()
    assert {row["key"]: row["n"] for row in totals.rows()} == {row["key"]: row["total"] for row in known}
    assert totals.to_arrow() == totals.to_arrow()  # a copy of the function for each read
    assert savepoint.read_keyed_state("accounts", Totals(), totals.schema, keys=[1042]).to_arrow().num_rows == 1

    class Nothing(Totals):
        def read_key(self, key: int, ctx: Any) -> Any:
            yield None, 1, []

    with pytest.raises(ValueRangeError, match="NOT NULL"):
        savepoint.read_keyed_state("accounts", Nothing(), totals.schema).to_arrow()

    class Failing(Totals):
        def read_key(self, key: int, ctx: Any) -> Any:
            raise LookupError(key)

    with pytest.raises(UserFunctionError, match="LookupError"):
        savepoint.read_keyed_state("accounts", Failing(), totals.schema).to_arrow()


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("", "a schema for the rows"),
        (5, "a schema for the rows"),
        ("key", "expected: a type"),
        ("key lnog", "did you mean 'long'"),
        ("key array<int", "the end"),
        ("key int value int", "expected: ','"),
        ("key decimal(39)", "1 to 38 digits"),
        ("key " + "array<" * 100, "nested too deeply"),
    ],
)
def test_schemas_that_cannot_be_read(shop: Path, schema: Any, told: str) -> None:
    with pytest.raises(OptionError) as refused:
        pyspark_savepoint.open(shop).read_keyed_state("accounts", Totals(), schema)
    assert told in str(refused.value)


@pytest.mark.spark
def test_schemas_in_words_are_those_of_spark(spark: SparkSession) -> None:
    words = (
        "a BOOLEAN, b tinyint, c SMALLINT, d int, e bigint, f float, g double, h string, i binary, j date, "
        "k timestamp, l timestamp_ntz, m decimal, n decimal(12, 3), o array<map<string, int>>, "
        "p struct<x: int, y: struct<z: date>>, `q r` byte, s long"
    )
    assert spark_schema(arrow_columns(words)) == StructType.fromDDL(words)


# -- functions that make state ----------------------------------------------------------------------------------------


#: Records without an order, of ten customers: ``ts`` in milliseconds, and as a time.
def hash_of_text(text: str) -> int:
    """Java's hash of a text of ASCII characters."""
    return (reduce(lambda code, character: code * 31 + ord(character), text, 0) + 2**31) % 2**32 - 2**31


ORDERS = pa.table(
    {
        "customer": pa.array([f"c{(i * 7) % 10}" for i in range(60)]),
        "cents": pa.array([i * 100 for i in range(60)], pa.int64()),
        "ts": pa.array([1_000_000 - i * 997 for i in range(60)], pa.int64()),
        "at": pa.array([(1_000_000 - i * 997) * 1000 for i in range(60)], pa.timestamp("us", "UTC")),
        "hash": pa.array([i % 5 for i in range(60)], pa.int32()),
    }
)
GROUPS = pa.array([key_group_for_hash(hash_of_text(name), 16) for name in ORDERS["customer"].to_pylist()], pa.int32())
ORDERS = ORDERS.append_column("group", GROUPS)
RATES = pa.table({"currency": ["EUR", "USD", "EUR"], "rate": [1.1, 1.0, 1.2]})
Given = Callable[[pa.Table], Any]


def orders(given: Given, parallelism: int = 1) -> Any:
    return OperatorTransformation.bootstrap_with(given(ORDERS)).option("parallelism", parallelism)


def keyed(given: Given, parallelism: int = 1) -> Any:
    return orders(given, parallelism).assign_timestamps("ts").key_by("customer")


#: Operators by the way in which their state is made; ``given`` makes records of either engine.
MADE: dict[str, Callable[[Given], Any]] = {
    "keyed": lambda given: keyed(given).transform(Spent()),
    "keyed, parts": lambda given: keyed(given, 3).transform(Spent()),
    "heap": lambda given: keyed(given).options(sorted=False).transform(Spent()),
    "rocksdb": lambda given: keyed(given).options(sorted=False, state_backend="rocksdb").transform(Spent()),
    "small memory": lambda given: keyed(given).option("sort_memory", "1m").transform(Spent()),
    "times": lambda given: orders(given).assign_timestamps("at").key_by("customer", "hash").transform(Spent()),
    "hash_code": lambda given: orders(given).key_by("customer", hash_code=hash_of_text).transform(Spent()),
    "key_group": lambda given: orders(given).key_by("customer", key_group="group").transform(Spent()),
    "windows": lambda given: keyed(given).window(TumblingEventTimeWindows.of(10_000)).process(),
    "sessions": lambda given: keyed(given).window(EventTimeSessionWindows.with_gap(12_000)).reduce(larger),
    "one column": lambda given: (
        orders(given)
        .assign_timestamps("ts")
        .select("cents")
        .key_by("customer")
        .window(TumblingEventTimeWindows.of(10_000))
        .element("LONG")
        .reduce(max)
    ),
    "list": lambda given: orders(given).transform(Listed()),
    "broadcast": lambda given: OperatorTransformation.bootstrap_with(given(RATES)).transform(Broadcast()),
    "connected": lambda given: keyed(given, 2).connect(keyed(given, 2)).transform(Both()),
    "connected, broadcast": lambda given: (
        keyed(given, 2)
        .connect(OperatorTransformation.bootstrap_with(given(RATES)).broadcast(CURRENCIES))
        .transform(Rated())
    ),
}
SPENT = ValueStateDescriptor("spent", "LONG")
CURRENCIES = MapStateDescriptor("currencies", "STRING", "DOUBLE")


class Spent(KeyedStateBootstrapFunction):
    """The sum of each key, the last record, and a timer for each."""

    def open(self, ctx: Any) -> None:
        self.spent = ctx.get_state(SPENT)
        self.last = ctx.get_state(ValueStateDescriptor("last", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.spent.update((self.spent.value() or 0) + value.cents)
        self.last.update(value.cents)
        ctx.timer_service().register_event_time_timer(value.ts)


class Listed(StateBootstrapFunction):
    def initialize_state(self, ctx: Any) -> None:
        self.state = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("cents", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.add(value.cents)


class Broadcast(BroadcastStateBootstrapFunction):
    currencies = CURRENCIES

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(CURRENCIES).put(value.currency, value.rate)


class Both(KeyedCoProcessFunction):
    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "LONG"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.seen.add(value.cents)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.seen.add(-value.cents)


class Rated(KeyedBroadcastProcessFunction):
    def open(self, ctx: Any) -> None:
        self.paid = ctx.get_state(ValueStateDescriptor("paid", "DOUBLE"))

    def process_element(self, value: Any, ctx: Any) -> None:
        rate = ctx.get_broadcast_state(CURRENCIES).get("EUR")
        self.paid.update((self.paid.value() or 0.0) + value.cents * rate)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(CURRENCIES).put(value.currency, value.rate)


class Sums(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.spent = ctx.get_state(SPENT)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.spent.update((self.spent.value() or 0) + value.cents)
        yield value.customer, self.spent.value()


def larger(left: Any, right: Any) -> Any:
    return left if left.cents >= right.cents else right


def digests(folder: Path) -> list[str]:
    """The digests of all state files."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "_metadata"]
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


@pytest.mark.spark
def test_functions_make_the_same_state_with_and_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Byte for byte: Spark has the records in one partition, so that their order is the same."""
    with_spark, without = Savepoint.create(spark, max_parallelism=16), pyspark_savepoint.create(max_parallelism=16)
    for uid, made in MADE.items():
        with_spark = with_spark.with_operator(uid, made(lambda table: spark.createDataFrame(table).coalesce(1)))
        without = without.with_operator(uid, made(lambda table: table))
    with_spark.write(f"{tmp_path}/spark")
    written, other = without.write(tmp_path / "local"), pyspark_savepoint.open(tmp_path / "spark")
    assert content(written) == content(other)
    found = digests(tmp_path / "local")
    assert found == digests(tmp_path / "spark")
    assert len(found) > len(MADE)
    assert written.inspect.verify().to_arrow().column("status").unique().to_pylist() == ["ok"]


def test_functions_run_in_this_process(tmp_path: Path) -> None:
    """With readers and pandas, presorted, in several parts, and rows that a function yields."""
    pandas = pytest.importorskip("pandas")
    by_key = ORDERS.sort_by([("customer", "ascending"), ("ts", "ascending")])
    reader = pa.RecordBatchReader.from_batches(ORDERS.schema, ORDERS.to_batches(max_chunksize=7))
    frame = pandas.DataFrame({name: ORDERS.column(name).to_numpy() for name in ("customer", "cents", "ts")})

    def from_start(batch: pa.RecordBatch) -> pa.Array:
        return pc.multiply(batch["ts"], 1)

    made = {
        "table": keyed(lambda table: table),
        "reader": keyed(lambda _: reader),
        "pandas": keyed(lambda _: frame),
        "presorted": keyed(lambda _: by_key).option("presorted", True),
        "presorted, parts": keyed(lambda _: by_key, 4).option("presorted", True),
        "function": (
            OperatorTransformation.bootstrap_with(ORDERS)
            .assign_timestamps(from_start)
            .key_by(lambda batch: pc.utf8_lower(batch["customer"]))
        ),
    }
    savepoint = pyspark_savepoint.create(max_parallelism=16)
    for uid, records in made.items():
        savepoint = savepoint.with_operator(uid, records.transform(Spent()))
    savepoint = savepoint.with_operator("listed", orders(lambda table: table, 4).transform(Listed()))
    written = savepoint.write(tmp_path / "sp")
    expected = sorted(written.keyed_state("table").rows(), key=repr)
    assert len(expected) == 10
    for uid in made:
        assert sorted(written.keyed_state(uid).rows(), key=repr) == expected, uid
        timers = written.timers(uid).to_arrow().sort_by([("key", "ascending"), ("timestamp", "ascending")])
        assert timers.num_rows == 60, uid
    assert sorted(row["value"] for row in written.list_state("listed", "cents").rows()) == ORDERS["cents"].to_pylist()
    tasks = {row["operator_uid_hash"]: row["operator_parallelism"] for row in written.metadata().rows()}
    uids = ("listed", "presorted, parts", "table")
    assert [tasks[OperatorIdentifier.for_uid(uid).operator_id.hex] for uid in uids] == [4, 4, 1]
    with pytest.raises(OptionError, match="read already"):
        savepoint.write(tmp_path / "again")
    sums = keyed(lambda table: table).process(Sums(), "customer string, cents long")
    assert sums.to_arrow().num_rows == 60
    assert sums.to_arrow() == sums.to_arrow()  # a copy of the function for each read
    # Beside other state, whose keys are merged with those that the function made.
    more = pa.table({"key": ["c1", "new"], "name": ["one", "other"]})
    both = pyspark_savepoint.create(max_parallelism=16).with_operator("x", made["table"].transform(Spent()))
    found = both.with_state("x", "name", more).remove_keys("x", ["c2"]).write(tmp_path / "both").keyed_state("x")
    names = {row["key"]: row["name"] for row in found.rows()}
    assert names == {**{f"c{i}": None for i in range(10) if i != 2}, "c1": "one", "new": "other"}


def test_records_of_functions_that_do_not_fit(tmp_path: Path) -> None:
    for given in ([{"id": 1}], "records", None):
        with pytest.raises(OptionError, match="records must be given as"):
            OperatorTransformation.bootstrap_with(given)  # type: ignore[call-overload]
    records = OperatorTransformation.bootstrap_with(ORDERS)
    with pytest.raises(OptionError, match=r"(?s)no column 'custmer'.*did you mean 'customer'"):
        records.key_by("custmer")
    with pytest.raises(OptionError, match="cannot give timestamps"):
        records.assign_timestamps("customer")
    for wrong in (lambda batch: 5, lambda batch: pa.array([1]), 7):
        with pytest.raises(OptionError, match="a column must be a name, or a function of a batch"):
            records.key_by(wrong)
    with pytest.raises(UserFunctionError, match="KeyError"):
        records.key_by(lambda batch: batch["nothing"])
    with pytest.raises(ValueRangeError, match="not in the order of their keys"):
        (
            pyspark_savepoint.create()
            .with_operator("x", records.option("presorted", True).key_by("customer").transform(Spent()))
            .write(tmp_path / "sp")
        )


@pytest.mark.spark
def test_records_of_the_other_engine_are_refused(spark: SparkSession) -> None:
    local, frames = keyed(lambda table: table), keyed(spark.createDataFrame)
    with pytest.raises(OptionError, match="given in another way"):
        pyspark_savepoint.create().with_operator("x", frames.transform(Spent()))
    with pytest.raises(OptionError, match="given in another way"):
        Savepoint.create(spark).with_operator("x", local.transform(Spent()))
    with pytest.raises(OptionError, match="given in another way"):
        local.connect(frames).transform(Both())


# -- columns of any name --------------------------------------------------------------------------------------------


class SumOf(KeyedStateBootstrapFunction):
    """Adds the values of a column up, in a state whose name has a dot."""

    def __init__(self, column: str) -> None:
        self.column = column

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum.of", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + value[self.column])


class ListOf(StateBootstrapFunction):
    """Keeps the values of a column."""

    def __init__(self, column: str) -> None:
        self.column, self.kept = column, []  # type: ignore[var-annotated]

    def process_element(self, value: Any, ctx: Any) -> None:
        self.kept.append(value[self.column])

    def initialize_state(self, ctx: Any) -> None:
        self.list = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("list.of", "LONG"))

    def snapshot_state(self, ctx: Any) -> None:
        self.list.update(self.kept)


def with_columns_named(sp: Any, rows: Callable[[pa.Table], Any], one: str, two: str) -> Any:
    """All ways to add rows, with columns and fields of these names: two states of an operator are one plan of Spark."""
    numbers = pa.array(range(40), pa.int64())

    def table(*names: str, count: int = 40) -> Any:
        return rows(pa.table([numbers[:count]] * len(names), names=list(names)))

    fields = pa.StructArray.from_arrays([numbers, numbers.cast(pa.string())], [one, two])
    both = (one, two)
    sp = sp.with_operator("single", table(one, two), key=one).with_state("single", "more.of", table(one, "m"), key=one)
    sp = sp.with_state("single", f"in.{one}", rows(pa.table([numbers, fields], names=[one, two])), key=one)
    pairs = table(*both, f"of {one}")
    sp = sp.with_operator("pair", table(*both, "v.w"), key=both).with_state("pair", f"of {one}", pairs, key=both)
    sp = sp.remove_keys("pair", table(one, two, count=3)).remove_keys("single", [5, 6])
    timers = pa.table([numbers, numbers, numbers, ["event"] * 40], names=[one, two, "timestamp", "domain"])
    sp = sp.with_timers("pair", rows(timers), key=both)
    sp = sp.with_operator("listed").with_list_state("listed", f"l.{one}", rows(pa.table([fields], names=[two])))
    sp = sp.with_union_state("listed", two, table(one)).with_broadcast_state("listed", one, table("key", "value"))
    sp = sp.with_state("accounts", one, table("key", one)).with_state("accounts", two, table("key", two))
    records = OperatorTransformation.bootstrap_with(table(one, two))
    sp = sp.with_operator("summed", records.key_by(one).transform(SumOf(two)))
    sp = sp.with_operator("of pairs", records.key_by(*both).transform(SumOf(two)))
    return sp.with_operator("kept", records.transform(ListOf(two)))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("one", "two"), [("order.id", "a.b.c"), ("tick`s", "`x`.y z"), ("*", "a.*")])
def test_columns_of_any_name(spark: SparkSession, shop: Path, tmp_path: Path, one: str, two: str) -> None:
    with_spark, without = Savepoint.load(spark, str(shop)), pyspark_savepoint.open(shop)
    with_columns_named(with_spark, spark.createDataFrame, one, two).write(str(tmp_path / "spark"))
    written = with_columns_named(without, lambda table: table, one, two).write(tmp_path / "local")
    found = content(written)
    assert content(pyspark_savepoint.open(tmp_path / "spark")) == found
    assert len(found["pair"]["keyed_state", None]) == 37
    assert len(found["single"]["keyed_state", None]) == 38
    assert len(found["of pairs"]["keyed_state", None]) == len(found["pair"]["timers", None]) == 40
    frame = Savepoint.load(spark, str(tmp_path / "spark")).keyed_state("pair").toArrow()
    assert sorted(repr(sorted(row.items())) for row in frame.to_pylist()) == found["pair"]["keyed_state", None]
