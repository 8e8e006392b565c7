"""The same edits by both engines give savepoints with the same content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

import pyspark_savepoint
from pyspark_savepoint import KeyedStateReaderFunction, LocalSavepoint, Savepoint, WindowReaderFunction
from pyspark_savepoint.errors import OptionError, UserFunctionError, ValueRangeError
from pyspark_savepoint.options.ddl import arrow_columns
from pyspark_savepoint.options.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Content = dict[str, dict[tuple[str, str | None], list[str]]]
#: An edit of either face, which gets rows of the base as that face has them.
Edit = Callable[[Any, Any], Any]


def content(savepoint: LocalSavepoint) -> Content:
    """All rows of all tables of state, by operator, table and operator state."""
    found: Content = {}
    for row in savepoint.states().rows():
        uid, options = row["operator_uid"] or row["operator_uid_hash"], dict(row["options"])
        table = row["table"]
        operator = found.setdefault(uid, {})
        if table not in ("keyed_state", "window_state", "timers", "operator_state"):
            continue
        state = row["state"] if table == "operator_state" else None
        if (table, state) not in operator:
            given = {name: text for name, text in options.items() if name != "state" or state is not None}
            rows = savepoint.table(given.pop("table", table), **given).rows()  # type: ignore[arg-type]
            operator[table, state] = sorted(repr(sorted(one.items())) for one in rows)
    return found


def only(savepoint: Any, uid: str) -> Any:
    """The savepoint with one of its operators."""
    for operator in savepoint.plan.operators:
        if operator.identifier.uid != uid:
            savepoint = savepoint.remove_operator(operator.identifier)
    return savepoint


EDITS: dict[str, Edit] = {
    "rename_state": lambda sp, _: sp.rename_state("accounts", "total", "sum").rename_state(
        "warehouse-export", "pending_orders", "pending"
    ),
    "remove_state": lambda sp, _: sp.remove_state("accounts", "profile").remove_state("currency-converter", "rates"),
    "remove_keys": lambda sp, _: sp.remove_keys("accounts", [1042, 1043]),
    "with_state": lambda sp, base: sp.with_state("accounts", "more", base.keyed_state("accounts", state="coupon")),
    "with_state, windows": lambda sp, base: sp.with_state(
        "orders-per-minute", "window-contents", base.window_state("orders-per-minute")
    ),
    "with_state, types": lambda sp, base: sp.with_state(
        "accounts", "coupon", base.keyed_state("accounts", state="coupon"), types={"coupon": "STRING"}
    ),
    "with_window_state": lambda sp, base: sp.with_operator("new").with_window_state(
        "new", base.window_state("orders-per-minute").select("key", "window", "window-contents")
    ),
    "with_timers": lambda sp, base: sp.with_operator("new").with_timers("new", base.timers("accounts")),
    "operator state": lambda sp, base: (
        sp.with_operator("new")
        .with_list_state("new", "a", base.table(uid="warehouse-export", table="operator_state", state="pending_orders"))
        .with_union_state(
            "new", "b", base.table(uid="warehouse-export", table="operator_state", state="exported_until")
        )
        .with_broadcast_state("new", "c", base.table(uid="currency-converter", table="operator_state", state="rates"))
    ),
    "operators": lambda sp, _: (
        sp.remove_operator("rates-source").change_operator_identifier("accounts", "moved").copy_operator("moved", "two")
    ),
    "split by keys": lambda sp, _: (
        sp.copy_operator("accounts", "two").remove_keys("accounts", [1042]).remove_keys("two", list(range(1043, 3000)))
    ),
    "merge_operator": lambda sp, _: (
        sp.copy_operator("accounts", "two")
        .remove_keys("accounts", list(range(1000, 1100)))
        .remove_keys("two", list(range(1100, 3000)))
        .merge_operator("two", into="accounts")
    ),
    "merge": lambda sp, base: sp.remove_operator("accounts").merge(only(base, "accounts")),
    "with_max_parallelism": lambda sp, _: sp.with_max_parallelism(512),
    "with_operator": lambda sp, base: sp.with_operator(
        "totals", base.keyed_state("accounts", state="total"), key="key", types={"total": "DOUBLE"}
    ),
    "with_coordinator_state": lambda sp, _: sp.remove_operator("rates-source").with_coordinator_state(
        "orders-source", None
    ),
}


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
    "sizes": lambda sp: sp.sizes("accounts"),
    "verify": lambda sp: sp.verify(),
    "heaviest_keys": lambda sp: sp.heaviest_keys(top=3),
    "ttl_ages": lambda sp: sp.ttl_ages(),
    "doctor": lambda sp: sp.doctor("size=1KB"),
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
