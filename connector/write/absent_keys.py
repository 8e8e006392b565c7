"""Keys that were asked for and are not there: they are told, and not left out in silence."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError, SavepointWarning, StateNotFoundError
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.keyed_edits import read_options
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.applicability import KEYED_TABLES
from pyspark_savepoint.statebackends.rows.absent_keys import absent, named
from pyspark_savepoint.text.texts import numbered

#: Lists that are looked up; longer ones are removed without.
MAX_LOOKED_UP = 10_000


def warn_of_absent_keys(plan: OperatorPlan, keys: Collection[Any]) -> None:
    """Warn of keys that an operator has in none of its keyed states, windows and timers; these keys alone are read.

    Args:
        plan: The operator, before the keys are removed. One with rows of its own, which were not written yet, is not
            looked up.
        keys: The keys.

    """
    base = plan.base
    if base is None or plan.inputs or plan.deletions or not 0 < len(keys) <= MAX_LOOKED_UP:
        return
    left = list({repr(key): key for key in keys}.values())
    every = len(left)
    # What cannot be read is an error where the savepoint is written.
    with suppress(SavepointError):
        own = read_options(base)
        own |= {"path": base.snapshot.path, "uidHash": base.operator.operator_id.hex, **to_options({"keys": left})}
        for name in KEYED_TABLES:
            try:
                table = open_table(SavepointReadOptions.parse({**own, "table": name}).request()).select(["key"])
            except StateNotFoundError:
                continue
            batches = (batch for partition in table.partitions(1) for batch in partition.batches())
            found = (key for batch in batches for key in batch.column("key").to_pylist())
            left = absent(left, table.schema.field("key").type, found)
        if left:
            warnings.warn(
                f"{plan.label}: {len(left)} of {numbered(every, 'key')} {'has' if len(left) == 1 else 'have'} no "
                f"state: {named(left)}",
                SavepointWarning,
                stacklevel=4,
            )
