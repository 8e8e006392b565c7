"""The same edits by both engines give savepoints with the same content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint

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
