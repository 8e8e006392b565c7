"""One table from all snapshots below a folder, such as the retained checkpoints of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.local.local_history import CHECKPOINT_ID, SNAPSHOT, expect_last, listed, none_has_it
from pyspark_savepoint.options.option_values import option_name, to_options
from pyspark_savepoint.options.paths import located
from pyspark_savepoint.options.worker_python import expect_session
from pyspark_savepoint.savepoint.savepoint import Savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_savepoint.options.keywords import SnapshotOptions


def history(
    spark: SparkSession,
    folder: str | PathLike[str],
    uid: str | None = None,
    *,
    last: int | None = None,
    changes: bool = False,
    **options: Unpack[SnapshotOptions],
) -> DataFrame:
    """Return the union of one table over all snapshots below a folder, with columns ``checkpoint_id`` and ``snapshot``.

    Snapshots that do not have the operator, or cannot be read, are skipped. A state that only some snapshots have is
    NULL in the rows of the others.

    Args:
        spark: The session, classic or Connect.
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator; None for a table about all operators.
        last: The number of newest snapshots to read; all by default.
        changes: Return what :meth:`Savepoint.diff` counts between each snapshot and the one before it, by operator and
            state, instead of a table.
        **options: Options of a read, such as ``table``, ``state``. Without ``uid``, ``table`` is ``metadata`` by
        default.

    Returns:
        ``checkpoint_id``, ``snapshot`` (its path), and the columns of the table; oldest snapshots first.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        OperatorNotFoundError: If none of them has the operator.
        OptionError: If ``last`` is below 1, an option is invalid, or ``changes`` has options.

    Example::

        pyspark_savepoint.history(spark, "/checkpoints/7d2e", "accounts").groupBy("checkpoint_id").sum("total").show()

    """
    expect_session(spark, "pyspark_savepoint.history(spark, folder)")
    expect_last(last)
    storage: dict[str, Any] = {name: text for name, text in to_options(options).items() if name == OPTION}
    chosen_options = {name: value for name, value in options.items() if option_name(name) != OPTION}
    found = listed(located(spark, folder), storage)
    loaded = [(number, Savepoint.load(spark, path, **storage)) for number, path in found]
    if uid is not None:
        having = [(number, sp) for number, sp in loaded if sp.plan.find(uid) is not None]
        if not having:
            known = sorted({plan.label for _, sp in loaded for plan in sp.plan.operators})
            raise none_has_it(len(loaded), str(folder), uid, did_you_mean(uid, known))
        loaded = having
    else:
        chosen_options = {"table": "metadata", **chosen_options}
    chosen = loaded if last is None else loaded[-last:]
    if changes:
        return _changes(chosen, uid, options)
    frames = [_of_snapshot(sp, number, uid, chosen_options) for number, sp in chosen]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _changes(chosen: Sequence[tuple[int, Savepoint]], uid: str | None, options: Mapping[str, Any]) -> DataFrame:
    """Return the numbers of differences between each snapshot and the one before it."""
    from pyspark.sql import functions as F  # noqa: N812

    given = [name for name in options if option_name(name) != OPTION]
    if given:
        raise OptionError(
            "changes are counted of all states, without options",
            found=", ".join(given),
            remedy="rows that differ between two snapshots: Savepoint.diff(other, uid, table=..., state=...)",
        )
    frames = []
    # One snapshot has no changes; its columns are those of a comparison with itself.
    for (_, before), (number, after) in list(pairwise(chosen)) or [(chosen[0], chosen[0])]:
        counts = before.diff(after) if len(chosen) > 1 else before.diff(after).limit(0)
        if uid is not None:
            counts = counts.where(F.col("operator_uid_hash") == after.plan.operator(uid).identifier.operator_id.hex)
        frames.append(
            counts.select(F.lit(number).cast("bigint").alias(CHECKPOINT_ID), F.lit(after.path).alias(SNAPSHOT), "*")
        )
    return reduce(lambda left, right: left.unionByName(right), frames)


def _of_snapshot(savepoint: Savepoint, number: int, uid: str | None, options: dict[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    named: dict[str, Any] = {} if uid is None else {"uid_hash": savepoint.plan.operator(uid).identifier.operator_id.hex}
    table = savepoint.table(**named, **options)
    values = {CHECKPOINT_ID: F.lit(number).cast("bigint"), SNAPSHOT: F.lit(savepoint.path)}
    # Table "metadata" has the column already.
    return table.select(*(value.alias(name) for name, value in values.items() if name not in table.columns), "*")
