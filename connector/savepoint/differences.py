"""Differences between two snapshots as DataFrames.

==================  =================================================================================================
all operators       one row per operator, table and state: entries before and after; added, removed, changed
keyed, window       one row per key (and window) that differs: change, changed_states, each state before and after
timers              one row per timer that is on one side only: change, and the timer
list, union         change, value, count: how many more of that value there are on that side
broadcast           key, change, value_before, value_after
==================  =================================================================================================

Keyed state is compared by the bytes of its entries, whatever state backends wrote the snapshots: tasks merge the same
key groups of both (``statebackends/merging``), equal entries are never decoded, and values that only the job's code can
decode are compared too.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    StateNotFoundError,
    did_you_mean,
)
from pyspark_savepoint.formats.io.storage_options import OPTION
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.model.applicability import DECODED, ROWS_OF_KEYS
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.tables.entry_diff import AFTER, BEFORE, CHANGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pyspark_savepoint.savepoint.context import SavepointContext

SIDE = "side"
SIDES = (BEFORE, AFTER)
NO_STORAGE_OPTIONS = "{}"
LOSSLESS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


def differences(
    old: SavepointContext, new: SavepointContext, uid: str, table: str | None, state: str | None
) -> DataFrame:
    """Return the rows of one operator that differ, in a table that is given or the first that the operator has."""
    sides = (_Operator(old, uid), _Operator(new, uid))
    if not any(side.hash for side in sides):
        known = sorted({name for side in sides for name in side.known})
        raise OperatorNotFoundError(
            "neither snapshot has such an operator", operator=uid, remedy=did_you_mean(uid, known)
        )
    chosen = table or _default_table(sides, state)
    if chosen in ROWS_OF_KEYS:
        return _keyed(sides, chosen, state)
    if chosen == "timers":
        return _timers(sides)
    if chosen == "operator_state":
        return _operator_state(sides, state)
    raise OptionError(
        f"table {chosen!r} cannot be compared", expected="keyed_state, window_state, timers or operator_state"
    )


class _Operator:
    """The operator in one of the two snapshots; ``hash`` is None if that snapshot does not contain it."""

    def __init__(self, savepoint: SavepointContext, uid: str) -> None:
        plan = savepoint.plan.find(uid)
        self.savepoint = savepoint
        self.hash = None if plan is None else plan.identifier.operator_id.hex
        self.known = [operator.label for operator in savepoint.plan.operators]
        self.states: list[dict[str, Any]] = []
        if plan is not None:
            listed = open_table(SavepointReadOptions.parse(side_options(savepoint, self.options("states"))).request())
            batches = (batch for partition in listed.partitions(1) for batch in partition.batches())
            self.states = [row for batch in batches for row in batch.to_pylist()]

    def table(self, **options: str) -> DataFrame:
        return self.savepoint.read({"uidHash": self.hash or "", **options})

    def names(self, table: str) -> list[str]:
        """Return the names of the states of a table."""
        return [row["state"] for row in self.states if row["table"] == table]

    def options(self, table: str, state: str | None = None) -> dict[str, str]:
        """Return the options that read a table of the operator."""
        chosen = {} if state is None else {"state": state}
        return {"uidHash": self.hash or "", "table": table, **chosen}

    def compared(self, table: str, states: list[str]) -> dict[str, str] | None:
        """Return the options that read these states; None if this side has none of them."""
        mine = [name for name in self.names(table) if name in states]
        return side_options(self.savepoint, self.options(table, ",".join(mine))) if mine else None


def path_of(savepoint: SavepointContext) -> str:
    """Return the path of a snapshot; raise OptionError if it is not written yet."""
    return savepoint.written_path("there is nothing to compare", "compare what write(path) returns")


def side_options(savepoint: SavepointContext, options: Mapping[str, str]) -> dict[str, str]:
    """Return all options that read a table of a snapshot."""
    return inheriting(savepoint.options, {"path": path_of(savepoint), **options})


def compared(
    savepoint: SavepointContext, sides: Sequence[dict[str, str] | None], states: Sequence[str] | None
) -> dict[str, str]:
    """Return the options that read the differences of two sides, each the options of a read."""
    held = {name: text for name, text in savepoint.options.items() if name in (OPTION, "memory")}
    own = held.get(OPTION, NO_STORAGE_OPTIONS)
    different = [side is not None and side.get(OPTION, NO_STORAGE_OPTIONS) != own for side in sides]
    # What is the same for both is not repeated.
    told = [
        None
        if side is None
        else {name: text for name, text in side.items() if name != OPTION}
        | ({OPTION: side.get(OPTION, NO_STORAGE_OPTIONS)} if differs else {})
        for side, differs in zip(sides, different, strict=True)
    ]
    return {**held, "plan": comparison_plan(told, states)}


def _default_table(sides: tuple[_Operator, _Operator], state: str | None) -> str:
    tables = {row["table"] for side in sides for row in side.states if state in (None, row["state"])}
    for table in DECODED:
        if table in tables:
            return table
    names = [row["state"] for side in sides for row in side.states if row["state"]]
    remedy = did_you_mean(state, names) if state else "it has no state that can be compared"
    raise StateNotFoundError("the operator has no such state", state=state, remedy=remedy)


# -- keyed state -----------------------------------------------------------------------------------------------


def _keyed(sides: tuple[_Operator, _Operator], table: str, state: str | None) -> DataFrame:
    states = list(dict.fromkeys(name for side in sides for name in side.names(table) if state in (None, name)))
    if not states:
        names = [name for side in sides for name in side.names(table)]
        raise StateNotFoundError(f"{table} has no such state", state=state, remedy=did_you_mean(state or "", names))
    options = compared(sides[0].savepoint, [side.compared(table, states) for side in sides], states)
    path = path_of(sides[0].savepoint)
    return sides[0].savepoint.spark.read.format("savepoint").options(**options).load(path)


# -- timers and operator state -----------------------------------------------------------------------------------


def _timers(sides: tuple[_Operator, _Operator]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frames = [side.table(table="timers") if "timers" in {r["table"] for r in side.states} else None for side in sides]
    before, after = frames
    if before is None or after is None:
        only = after if before is None else before
        if only is None:
            raise StateNotFoundError("the operator has no timers in either snapshot")
        return only.select(F.lit("removed" if after is None else "added").alias(CHANGE), "*")
    removed = before.exceptAll(after).select(F.lit("removed").alias(CHANGE), "*")
    return removed.union(after.exceptAll(before).select(F.lit("added").alias(CHANGE), "*"))


def _operator_state(sides: tuple[_Operator, _Operator], state: str | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    names = list(dict.fromkeys(name for side in sides for name in side.names("operator_state")))
    if state is None and len(names) != 1:
        raise OptionError("'state' is missing: the operator has several operator states", found=", ".join(names))
    state = state or names[0]
    if state not in names:
        raise StateNotFoundError("the operator has no such state", state=state, remedy=did_you_mean(state, names))
    frames = [
        side.table(state=state, table="operator_state").select(F.lit(number).alias(SIDE), "*")
        for number, side in zip(SIDES, sides, strict=True)
        if state in side.names("operator_state")
    ]
    both = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    return _broadcast(both) if "key" in both.columns else _elements(both)


def as_text(column: str) -> Column:
    """Return a value as JSON text that is equal only for equal values, since Spark cannot compare maps."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(F.struct(column), LOSSLESS)


def on_side(number: int, value: Column) -> Column:
    """Return the value in rows of one side, NULL in the others."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(F.col(SIDE) == number, value)


def _elements(both: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    counted = both.groupBy(as_text("value").alias("text")).agg(
        F.first("value").alias("value"),
        F.sum(F.when(F.col(SIDE) == AFTER, 1).otherwise(-1)).alias("more"),
    )
    change = F.when(F.col("more") > 0, "added").otherwise("removed").alias(CHANGE)
    return counted.where("more <> 0").select(change, "value", F.abs("more").alias("count"))


def _broadcast(both: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    packed = F.struct("value", as_text("value").alias("text"))
    sides = [F.first(on_side(number, packed), ignorenulls=True) for number in SIDES]
    grouped = both.groupBy(as_text("key").alias("text")).agg(
        F.first("key").alias("key"), sides[0].alias("before"), sides[1].alias("after")
    )
    change = F.when(F.col("before").isNull(), "added").when(F.col("after").isNull(), "removed").otherwise("changed")
    found = grouped.where(~F.col("before.text").eqNullSafe(F.col("after.text")))
    values = (F.col("before.value").alias("value_before"), F.col("after.value").alias("value_after"))
    return found.select("key", change.alias(CHANGE), *values)
