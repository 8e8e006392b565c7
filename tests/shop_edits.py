"""Every verb that edits, called on the shop: both engines write each, and README's install is tried with it.

A verb that :data:`EDITS` does not call is called as in the example of its docstring.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark_savepoint.api.operator_edits import OperatorEdits
from pyspark_savepoint.api.state_edits import StateEdits

#: An edit of either face, which gets rows of the base as that face has them.
Edit = Callable[[Any, Any], Any]
#: The id of an operator without a uid.
NAMELESS = "0123456789abcdef" * 2


def only(savepoint: Any, uid: str) -> Any:
    """The savepoint with one of its operators."""
    for operator in savepoint.plan.operators:
        if operator.identifier.uid != uid:
            savepoint = savepoint.remove_operator(operator.identifier)
    return savepoint


def renamed(table: Any, **names: str) -> Any:
    """A table of either face with other names of its columns."""
    if hasattr(table, "withColumnsRenamed"):
        return table.withColumnsRenamed(names)
    arrow = table.to_arrow()
    return arrow.rename_columns([names.get(name, name) for name in arrow.column_names])


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
    "update_state": lambda sp, base: (
        sp.update_state("accounts", "total", base.keyed_state("accounts", state="total", keys=[1042, 1043]))
        .update_state(
            "accounts",
            "spent_by_currency",
            base.keyed_state("accounts", keys=[1042]).select("key", "spent_by_currency"),
        )
        .update_state("currency-converter", "rates", base.broadcast_state("currency-converter", "rates"))
    ),
    "update_state, twice": lambda sp, base: (
        sp.update_state("accounts", "total", base.keyed_state("accounts", state="total", keys=[1042, 1043]))
        .update_state("accounts", "total", base.keyed_state("accounts", state="total", keys=[1043]))
        .remove_keys("accounts", [1044])
    ),
    "update_state, windows": lambda sp, base: sp.update_state(
        "orders-per-minute", "window-contents", base.window_state("orders-per-minute")
    ),
    "rename_class": lambda sp, _: sp.rename_class("oracle.Shop", "com.shop.Shop"),
    "rekey": lambda sp, _: sp.rekey("accounts", types={"key": "STRING"}).rekey(
        "orders-per-minute", types={"key": "TUPLE<STRING>"}
    ),
    "rekey, rows": lambda sp, base: sp.rekey(
        "accounts", renamed(base.keyed_state("accounts", state="total", keys=[1042, 1043]), key="new_key", total="key")
    ),
    "with_window_state": lambda sp, base: (
        sp.with_operator("new")
        .with_window_state("new", base.window_state("orders-per-minute").select("key", "window", "window-contents"))
        .with_timers("new", base.timers("orders-per-minute"))
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
    "assign_uid": lambda sp, _: sp.change_operator_identifier("currency-converter", NAMELESS).assign_uid(
        NAMELESS, "converter"
    ),
    "assign_uids": lambda sp, _: sp.change_operator_identifier("currency-converter", NAMELESS).assign_uids(
        {NAMELESS: "converter"}
    ),
}


def example(verb: Callable[..., Any]) -> Edit:
    """The edit that the example of a docstring shows last: ``sp`` is the savepoint, and it is not written."""
    code = re.findall(r"^ *Example::\n\n(.*?)\n\n", inspect.cleandoc(verb.__doc__ or "") + "\n\n", re.M | re.S)[-1]
    shown = ast.parse(inspect.cleandoc(code)).body[-1].value  # type: ignore[attr-defined]
    if isinstance(shown.func, ast.Attribute) and shown.func.attr == "write":
        shown = shown.func.value
    compiled = compile(ast.Expression(shown), f"example of {verb.__name__}", "eval")
    return lambda sp, _: eval(compiled, {"sp": sp})


def uncalled() -> dict[str, Callable[..., Any]]:
    """The verbs that no edit here calls."""
    text = Path(__file__).read_text("utf-8")
    verbs = {name: verb for edits in (StateEdits, OperatorEdits) for name, verb in vars(edits).items()}
    return {name: verb for name, verb in verbs.items() if not name.startswith("_") and f".{name}(" not in text}


EDITS |= {name: example(verb) for name, verb in uncalled().items()}
