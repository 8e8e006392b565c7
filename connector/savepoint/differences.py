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

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import StateNotFoundError
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.local.compared_operators import ComparedOperators, OperatorInSnapshot
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.tables.entry_diff import AFTER, BEFORE, CHANGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pyspark_savepoint.verbs.face import Face

    Savepoint = Face[DataFrame, DataFrame]

SIDE = "side"
SIDES = (BEFORE, AFTER)
NO_STORAGE_OPTIONS = "{}"
LOSSLESS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


def differences(old: Savepoint, new: Savepoint, uid: str, table: str | None, state: str | None) -> DataFrame:
    """Return the rows of one operator that differ: in the given table, or in the first that the operator has."""
    both = ComparedOperators((_operator(old, uid), _operator(new, uid)))
    both.expect_one(uid, sorted({operator.label for each in (old, new) for operator in each.plan.operators}))
    chosen = both.table(table, state)
    if chosen == "timers":
        return _timers(old, both)
    if chosen == "operator_state":
        return _operator_state(old, both, state)
    states = both.states(chosen, state)
    options = compared(old, [side.having(chosen, states) for side in both.sides], states)
    return _read(old, {**options, "path": path_of(old)})


def _operator(savepoint: Savepoint, uid: str) -> OperatorInSnapshot:
    """Return the operator in a snapshot, with its states."""
    plan = savepoint.plan.find(uid)
    path = path_of(savepoint)
    if plan is None:
        return OperatorInSnapshot(path, savepoint.options, None)
    found = OperatorInSnapshot(path, savepoint.options, plan.identifier.operator_id.hex)
    listed = open_table(SavepointReadOptions.parse(found.options("states")).request())
    batches = (batch for partition in listed.partitions(1) for batch in partition.batches())
    return replace(found, states=[row for batch in batches for row in batch.to_pylist()])


def path_of(savepoint: Savepoint) -> str:
    """Return the path of a snapshot; raise OptionError if it is not written yet."""
    return savepoint._read_path()


def side_options(savepoint: Savepoint, options: Mapping[str, str]) -> dict[str, str]:
    """Return all options that read a table of a snapshot."""
    return inheriting(savepoint.options, {"path": path_of(savepoint), **options})


def compared(
    savepoint: Savepoint, sides: Sequence[dict[str, str] | None], states: Sequence[str] | None
) -> dict[str, str]:
    """Return the options that read the differences of two sides, each the options of a read."""
    held = {name: text for name, text in savepoint.options.items() if name in (OPTION, "memory")}
    own = held.get(OPTION, NO_STORAGE_OPTIONS)
    different = [side is not None and side.get(OPTION, NO_STORAGE_OPTIONS) != own for side in sides]
    # Storage options that both sides share are given once.
    sides_to_read = [
        None
        if side is None
        else {name: text for name, text in side.items() if name != OPTION}
        | ({OPTION: side.get(OPTION, NO_STORAGE_OPTIONS)} if differs else {})
        for side, differs in zip(sides, different, strict=True)
    ]
    return {**held, "plan": comparison_plan(sides_to_read, states)}


# -- timers and operator state -----------------------------------------------------------------------------------


def _read(savepoint: Savepoint, options: Mapping[str, str]) -> DataFrame:
    found: DataFrame = savepoint._engine.table(options)
    return found


def _timers(savepoint: Savepoint, both: ComparedOperators) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    before, after = (_read(savepoint, side.options("timers")) if side.has("timers") else None for side in both.sides)
    if before is None or after is None:
        only = after if before is None else before
        if only is None:
            raise StateNotFoundError("the operator has no timers in either snapshot")
        return only.select(F.lit("removed" if after is None else "added").alias(CHANGE), "*")
    removed = before.exceptAll(after).select(F.lit("removed").alias(CHANGE), "*")
    return removed.union(after.exceptAll(before).select(F.lit("added").alias(CHANGE), "*"))


def _operator_state(savepoint: Savepoint, both: ComparedOperators, state: str | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    chosen = both.operator_state(state)
    frames = [
        _read(savepoint, side.options("operator_state", [chosen])).select(F.lit(number).alias(SIDE), "*")
        for number, side in zip(SIDES, both.sides, strict=True)
        if chosen in side.names("operator_state")
    ]
    united = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    return _broadcast(united) if "key" in united.columns else _elements(united)


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
