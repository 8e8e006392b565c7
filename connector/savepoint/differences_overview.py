"""Counts of the differences between two snapshots: one row per operator, table and state.

Entries of keyed state are values, entries of maps, and timers, compared by their bytes; an operator in one snapshot
only is shown by ``operator_change``. If entries of an operator cannot be delimited (values in the heap format that only
user code can delimit), its row has no counts, and ``note`` gives the reason; other operators are not affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_savepoint.local.compared_operators import COUNTS, OPERATOR
from pyspark_savepoint.savepoint.differences import compared, path_of, side_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_savepoint.verbs.face import Face

    Savepoint = Face[DataFrame, DataFrame]


def overview(old: Savepoint, new: Savepoint) -> DataFrame:
    """Return one row per operator, table and state, with the numbers of entries and differences."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    options = compared(old, [side_options(savepoint, {}) for savepoint in (old, new)], None)
    parts: DataFrame = old._engine.table({**options, "path": path_of(old)})
    # A few rows per task: one partition is enough to add them up, and needs one exchange.
    grouped = parts.repartition(1).groupBy(*OPERATOR, "table", "state")
    counted = grouped.agg(*(F.sum(name).alias(name) for name in COUNTS), F.max("note").alias("note"))
    operator = Window.partitionBy("operator_uid_hash")
    is_keyed = F.col("table") != "operator_state"
    hidden = F.max(F.when(is_keyed, F.col("note"))).over(operator)
    shown = (
        counted.withColumn("hidden", hidden)
        .withColumn("tables", F.count("table").over(operator))
        .where((F.col("table") == "operator_state") | F.col("hidden").isNull() | F.col("note").isNotNull())
        .where(F.col("table").isNotNull() | (F.col("tables") == 0))
    )
    columns = [*OPERATOR, "table", "state", *COUNTS, "note"]
    return shown.select(*columns).orderBy("operator_uid", "operator_uid_hash", "table", "state")
