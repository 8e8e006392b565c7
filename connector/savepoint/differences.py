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
decode are compared too. Timers and operator state are compared by their values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.local.compared_operators import ComparedOperators, OperatorInSnapshot
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.open_table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from pyspark_savepoint.verbs.face import Face

    Savepoint = Face[DataFrame, DataFrame]

NO_STORAGE_OPTIONS = "{}"


def differences(old: Savepoint, new: Savepoint, uid: str, table: str | None, state: str | None) -> DataFrame:
    """Return the rows of one operator that differ: in the given table, or in the first that the operator has."""
    both = ComparedOperators((_operator(old, uid), _operator(new, uid)))
    both.expect_one(uid, sorted({operator.label for each in (old, new) for operator in each.plan.operators}))
    chosen = both.table(table, state)
    options = compared(old, *both.options(chosen, state))
    found: DataFrame = old._engine.table({**options, "path": path_of(old)})
    return found


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
