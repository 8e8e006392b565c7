"""The README's section about changes, for evolving jobs: new types, operators that are split and merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from tests.connector.api.spark.test_savepoint_changes import Entries, entries

pytestmark = [pytest.mark.spark, pytest.mark.slow("long chains of changes")]

GOLD = "profile.tier <=> 'GOLD'"


@pytest.fixture
def base(spark: SparkSession, shop: Path) -> Savepoint:
    """The savepoint that ships with the project."""
    return Savepoint.load(spark, str(shop))


def by_key(of_operator: dict[str, Entries]) -> dict[str, dict[tuple[int, bytes], bytes]]:
    """Entries by state name, key group and key."""
    return {name: {place[1:]: value for place, value in found.items()} for name, found in of_operator.items()}


def test_a_state_gets_another_type(base: Savepoint, shop: Path, tmp_path: Path) -> None:
    totals = base.keyed_state("accounts").selectExpr("key", "CAST(total AS DECIMAL(12, 2)) / 100 AS total")
    amounts = base.keyed_state("accounts").selectExpr(
        "key", "transform(recent_amounts, a -> CAST(a AS STRING)) AS recent_amounts"
    )
    new = base.with_state("accounts", "total", totals, types={"total": "BIG_DECIMAL"})
    new = new.with_state("accounts", "recent_amounts", amounts, types={"recent_amounts": "LIST<STRING>"})
    written = new.write(str(tmp_path / "new"))
    types = {row.state: row.value_type for row in written.states().where("operator_uid = 'accounts'").collect()}
    assert (types["total"], types["recent_amounts"]) == ("BIG_DECIMAL", "LIST<STRING>")
    found = {row.key: row for row in written.keyed_state("accounts", decimals="38,18").collect()}
    for row in base.keyed_state("accounts").collect():
        assert found[row.key].total * 100 == row.total
        assert (found[row.key].recent_amounts or []) == [str(amount) for amount in row.recent_amounts or []]
    before, after = entries(shop, "accounts"), entries(tmp_path / "new", "accounts")
    changed = {"total", "recent_amounts"}
    assert {name: after[name] for name in after.keys() - changed} == {
        name: before[name] for name in before.keys() - changed
    }


def test_an_operator_is_split_by_states_and_merged_again(base: Savepoint, shop: Path, tmp_path: Path) -> None:
    moved, stay = ("coupon", "profile"), ("total", "recent_amounts", "spent_by_currency", "user-timers")
    split = base.copy_operator("accounts", "loyalty")
    for state in moved:
        split = split.remove_state("accounts", state)
    for state in stay:
        split = split.remove_state("loyalty", state)
    written = split.write(str(tmp_path / "split"))
    before, kept = (by_key(entries(path, "accounts")) for path in (shop, tmp_path / "split"))
    loyalty = by_key(entries(tmp_path / "split", "loyalty"))
    assert set(loyalty) == set(moved)
    assert kept | loyalty == before

    merged = written.rename_state("loyalty", "coupon", "voucher").merge_operator("loyalty", into="accounts")
    again = merged.write(str(tmp_path / "merged"))
    found = by_key(entries(tmp_path / "merged", "accounts"))
    found["coupon"] = found.pop("voucher")
    assert found == before
    assert "loyalty" not in {row.operator_uid for row in again.metadata().collect()}


def test_an_operator_is_split_by_keys_and_merged_again(base: Savepoint, shop: Path, tmp_path: Path) -> None:
    keys = base.keyed_state("accounts").selectExpr("key", f"{GOLD} AS gold")
    split = base.copy_operator("accounts", "gold")
    split = split.remove_keys("accounts", keys.where("gold").select("key"))
    split = split.remove_keys("gold", keys.where("NOT gold").select("key"))
    written = split.write(str(tmp_path / "split"))
    assert written.keyed_state("gold").count() == keys.where("gold").count() > 0
    assert written.keyed_state("accounts").where(GOLD).count() == 0
    assert {row.key for row in written.timers("gold").collect()} <= {row.key for row in keys.where("gold").collect()}
    # Both have the same states with other keys: the result has all keys. Later edits apply to all of them.
    merged = written.merge_operator("gold", into="accounts").rename_state("accounts", "total", "sum")
    merged.write(str(tmp_path / "merged"))
    before = by_key(entries(shop, "accounts"))
    before["sum"] = before.pop("total")
    assert by_key(entries(tmp_path / "merged", "accounts")) == before


def test_a_key_that_both_operators_have_is_refused(base: Savepoint, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="more than one entry"):
        base.copy_operator("accounts", "twin").merge_operator("twin", into="accounts").write(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


REFUSED: list[tuple[Callable[[Savepoint], object], type[Exception], str]] = [
    (lambda sp: sp.merge_operator("accounts", into="accounts"), OptionError, "cannot be merged with itself"),
    (lambda sp: sp.merge_operator("orders-per-minute", into="accounts"), OptionError, "different types"),
    (lambda sp: sp.merge_operator("rates-source", into="accounts"), StateNotFoundError, "no keyed state"),
    (
        lambda sp: sp.with_list_state("accounts", "numbers", sp.spark.range(2)).merge_operator(
            "accounts", into="warehouse-export"
        ),
        UnsupportedStateError,
        "which a merge would lose",
    ),
    (
        lambda sp: sp.with_operator("new", sp.spark.sql("SELECT 1L key, 'a' total")).merge_operator(
            "new", into="accounts"
        ),
        OptionError,
        "both operators have a state with this name",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_merged_is_refused_at_once(base: Savepoint, number: int) -> None:
    call, kind, message = REFUSED[number]
    with pytest.raises(kind) as raised:
        call(base)
    assert message in str(raised.value)


def registered(written: Savepoint, operator: str) -> dict[str, tuple[str, str, str]]:
    """Kind, value type and namespace of an operator's states, as their registrations in the files have them."""
    found = written.plan.operator(operator).base
    assert found is not None
    metas = KeyedStates.of(found.opened).metas
    return {
        name: (meta.state_type, meta.value_serializer.flink_type, meta.namespace_serializer.flink_type)
        for (name, timers), meta in metas.items()
        if not timers
    }


def test_types_change_the_value_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    """Kind, time to live and namespace stay unless options change them."""
    rows = spark.sql("SELECT id AS key, id AS a, id AS b, array(id) AS l, map(id, id) AS m FROM range(4)")
    windows = spark.sql("SELECT id AS key, CAST(NULL AS VOID) AS window, id AS w FROM range(4)")
    new = Savepoint.create(spark).with_operator(
        "op", rows, states={"a": "reducing", "l": "list", "b": "aggregating"}, ttl=("b", "l", "m")
    )
    new = new.with_operator("win").with_window_state("win", windows, states={"w": "reducing"})
    base = new.write(str(tmp_path / "base"))
    texts = rows.selectExpr(
        "key", "CAST(a AS STRING) AS a", "CAST(b AS STRING) AS b", "array('x') AS l", "map(1, 'y') AS m"
    )
    changed = base.with_state("op", "a", texts.select("key", "a"), types={"a": "STRING"})
    changed = changed.with_state("op", "b", texts.selectExpr("key", "b AS v"), types={"v": "STRING"})
    changed = changed.with_state("op", "l", texts.select("key", "l"), types={"l": "STRING"})
    changed = changed.with_state("op", "m", texts.select("key", "m"), types={"m": "MAP<INT, STRING>"})
    sums = windows.selectExpr("key", "window", "CAST(w AS STRING) AS w")
    changed = changed.with_state("win", "w", sums, types={"w": "STRING"})
    first = changed.write(str(tmp_path / "first"))
    assert registered(first, "op") == {
        "a": ("REDUCING", "STRING", "VOID_NAMESPACE"),
        "b": ("AGGREGATING", "TTL<STRING>", "VOID_NAMESPACE"),
        "l": ("LIST", "LIST<TTL<STRING>>", "VOID_NAMESPACE"),
        "m": ("MAP", "MAP<INT, TTL<STRING>>", "VOID_NAMESPACE"),
    }
    assert registered(first, "win") == {"w": ("REDUCING", "STRING", "GLOBAL_WINDOW")}
    assert first.keyed_state("op").where("key = 1").first()[1:] == ("1", "1", ["x"], {1: "y"})

    # The user's options take precedence; state added earlier in the same plan is changed like state in files.
    again = base.rename_state("op", "a", "total").with_state(
        "op", "total", texts.selectExpr("key", "a AS total"), types={"total": "STRING"}, states={"total": "value"}
    )
    again = again.with_state("op", "b", texts.select("key", "b"), types={"b": "STRING"}, ttl=False)
    again = again.with_state("op", "m", rows.select("key", "m"), types={"m": "MAP<LONG, LONG>"})
    again = again.with_state("op", "m", texts.select("key", "m"), types={"m": "MAP<INT, STRING>"})
    again = again.with_state("op", "l", rows.select("key", "l"), ttl=True)
    second = again.write(str(tmp_path / "second"))
    assert registered(second, "op") == {
        "total": ("VALUE", "STRING", "VOID_NAMESPACE"),
        "b": ("AGGREGATING", "STRING", "VOID_NAMESPACE"),
        "l": ("LIST", "LIST<TTL<LONG>>", "VOID_NAMESPACE"),
        "m": ("MAP", "MAP<INT, TTL<STRING>>", "VOID_NAMESPACE"),
    }
    made = Savepoint.create(spark).with_operator("op", rows, types={"a": "INT", "b": "LONG"}, states={"a": "reducing"})
    made = made.with_state("op", "a", rows.selectExpr("key", "CAST(a + 1 AS INT) AS a")).write(str(tmp_path / "third"))
    assert registered(made, "op")["a"] == ("REDUCING", "INT", "VOID_NAMESPACE")
    plain = base.with_state("op", "b", rows.select("key", "b"), ttl=False).write(str(tmp_path / "fourth"))
    assert registered(plain, "op")["b"] == ("AGGREGATING", "LONG", "VOID_NAMESPACE")
