"""Comparisons of savepoints, and one table of many snapshots: their state, or the numbers of their differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.api.tables import Tables
from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointWarning,
    did_you_mean,
    type_name,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.snapshot.as_of import newest_of, readable_snapshots
from pyspark_savepoint.insight.comparisons import changed_rows, overview
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    pass


class Summaries(Tables[R, T]):
    """Differences from another savepoint."""

    def diff(
        self,
        newer: Face[R, T] | str | PathLike[str],
        uid: str | None = None,
        *,
        table: str | None = None,
        state: str | None = None,
    ) -> T:
        """Return the differences between this snapshot and a newer one: counts of all operators, or the rows of one.

        Args:
            newer: The newer savepoint, or the path of one, which is loaded with the options of this one.
            uid: The operator to compare row by row. None to count the differences of all operators.
            table: The table to compare, as in :func:`pyspark_savepoint.diff`.
            state: The state to compare, as in :func:`pyspark_savepoint.diff`.

        Returns:
            The differences, as in :func:`pyspark_savepoint.diff`.

        Raises:
            OperatorNotFoundError: If neither snapshot has the operator.
            StateNotFoundError: If neither operator has the state.

        Example::

            sp.diff("/savepoints/fixed", "accounts")

        """
        other = self._other(newer)
        if uid is None:
            return overview(self, other)
        return changed_rows(self, other, uid, table, state)


@own_arguments
def diff(
    old: Summaries[R, T],
    new: Summaries[R, T] | str | PathLike[str],
    uid: str | None = None,
    *,
    table: str | None = None,
    state: str | None = None,
) -> T:
    """Return the differences between two snapshots: counts of all operators, or the rows of one operator that differ.

    Args:
        old: The older snapshot, with or without Spark.
        new: The newer snapshot, or the path of one, which is loaded with the options of ``old``.
        uid: The operator to compare row by row. None to count the differences of all operators.
        table: ``keyed_state``, ``window_state``, ``timers`` or ``operator_state``. By default the first of these that
            the operator has.
        state: The state to compare. All keyed states by default, required if the operator has several operator states.

    Returns:
        Without ``uid`` one row per operator, table and state: entries before, after, added, removed, changed. With
        ``uid`` one row per difference: ``change`` (``added``, ``removed``, ``changed``), the key or element, and the
        state before and after. ``window`` of a session is the window under which Flink keeps its contents, which stays
        the same while the session grows.

    Raises:
        OperatorNotFoundError: If neither snapshot has the operator. The error names the nearest.
        StateNotFoundError: If neither operator has the state. The error names the nearest.
        UnsupportedStateError: If the type of the keys differs.
        OptionError: If ``table`` cannot be compared, or ``state`` is required.

    Example::

        old, new = Savepoint.load(spark, "/savepoints/a"), Savepoint.load(spark, "/savepoints/b")
        pyspark_savepoint.diff(old, new).show()
        pyspark_savepoint.diff(old, new, "accounts", state="total").show()

    """
    if not isinstance(old, Summaries):
        raise OptionError(
            "the older snapshot must be a Savepoint",
            found=type_name(old),
            remedy="Savepoint.load(spark, path) gives it; without Spark: pyspark_savepoint.open(path)",
        )
    return old.diff(new, uid, table=table, state=state)


def history_of(
    engine: Engine,
    opened: Callable[[str], Summaries[Any, T]],
    at: str,
    folder: str,
    uid: OperatorRef | None,
    last: int | None,
    changes: bool,
    options: Mapping[str, str],
) -> Any:
    """Return one table of snapshots as the engine has such, oldest first.

    ``at`` is the absolute path of the folder, ``folder`` what the user gave. ``opened`` opens a snapshot by its path.
    """
    expect_last(last)
    names = [name for name in options if name != OPTION]
    if changes and names:
        raise OptionError(
            "changes are counted of all states, without options",
            found=", ".join(names),
            remedy="rows that differ between two snapshots: diff(other, uid, table=..., state=...)",
        )
    located = reached(at, options)
    # Differences are those within one history; a table is of all snapshots.
    newest = newest_of(located) if changes else None
    for warning in () if newest is None else newest.warnings:
        warnings.warn(warning, SavepointWarning, stacklevel=3)
    readable = readable_snapshots(located) if newest is None else newest.history
    snapshots = [(candidate.number, candidate.path) for candidate in readable]
    chosen: list[tuple[int, str, str | None]] = []
    labels: set[str] = set()
    for number, path in reversed(snapshots):
        operator = None
        if uid is not None:
            plan = opened(path).plan
            found_operator = plan.find(uid)
            if found_operator is None:
                labels |= {candidate.label for candidate in plan.operators}
                continue
            operator = found_operator.identifier.operator_id.hex
        chosen.insert(0, (number, path, operator))
        if len(chosen) == last:
            break
    if not chosen:
        raise OperatorNotFoundError(
            f"none of {len(snapshots)} snapshots has such an operator",
            path=folder,
            operator=str(uid),
            remedy=did_you_mean(str(uid), sorted(labels)),
        )
    parts = []
    if changes:
        # One snapshot has no changes; its columns are those of a comparison with itself.
        for (_, before, _), (number, path, operator) in list(pairwise(chosen)) or [(chosen[0], chosen[0])]:
            counts = opened(before).diff(opened(path))
            column = operator if len(chosen) > 1 else ""
            parts.append(
                (number, path, counts if column is None else engine.where(counts, "operator_uid_hash", column))
            )
    else:
        texts = dict(options) if uid is not None else {"table": "metadata", **options}
        for number, path, operator in chosen:
            own = {} if operator is None else {"uidHash": operator}
            parts.append((number, path, engine.opened({**texts, **own, "path": path})))
    return engine.joined(parts)


def expect_last(last: int | None) -> None:
    """Raise OptionError unless the number of newest snapshots is at least 1."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise OptionError(
            "argument 'last' must be at least 1: it is the number of newest snapshots to read", found=repr(last)
        )
