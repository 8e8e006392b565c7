"""Differences between two snapshots, as a function."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.savepoint.savepoint import Savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def diff(
    old: Savepoint,
    new: Savepoint | str | PathLike[str],
    uid: str | None = None,
    *,
    table: str | None = None,
    state: str | None = None,
) -> DataFrame:
    """Return the differences between two snapshots: counts of all operators, or the rows of one operator that differ.

    Args:
        old: The older snapshot.
        new: The newer snapshot, or the path of one, which is loaded with the options of ``old``.
        uid: The operator to compare row by row; None to count the differences of all operators.
        table: ``keyed_state``, ``window_state``, ``timers`` or ``operator_state``; by default the first of these that
            the operator has.
        state: The state to compare; all keyed states by default, required if the operator has several operator states.

    Returns:
        Without ``uid`` one row per operator, table and state: entries before and after; added, removed, changed. With
        ``uid`` one row per difference: ``change`` (``added``, ``removed``, ``changed``), the key or element, and the
        state before and after. ``window`` of a session is the window under which Flink keeps its contents, which stays
        the same while the session grows.

    Raises:
        OperatorNotFoundError: If neither snapshot has the operator; the error names the nearest.
        StateNotFoundError: If neither operator has the state; the error names the nearest.
        UnsupportedStateError: If the type of the keys differs.
        OptionError: If ``table`` cannot be compared, or ``state`` is required.

    Example::

        old, new = Savepoint.load(spark, "/savepoints/a"), Savepoint.load(spark, "/savepoints/b")
        pyspark_savepoint.diff(old, new).show()
        pyspark_savepoint.diff(old, new, "accounts", state="total").show()

    """
    if not isinstance(old, Savepoint):
        raise OptionError(
            "the older snapshot must be a Savepoint",
            found=type_name(old),
            remedy="Savepoint.load(spark, path) gives it; without Spark: pyspark-savepoint diff OLD NEW",
        )
    return old.diff(new, uid, table=table, state=state)
