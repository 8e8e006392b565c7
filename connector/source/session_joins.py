"""State windows of sessions, found by a join in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from pyspark_savepoint.statebackends.model.descriptors import STATE_WINDOW, WINDOW_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_savepoint.plan.engine import SessionLookup

SESSION_KEY, SESSION = "__session_key", "__session"


def joined_state_windows(frame: DataFrame, sets: DataFrame, lookup: SessionLookup) -> DataFrame:
    """Return rows of sessions with column ``state_window``; ``sets`` are the merging window sets of all keys."""
    sessions = _sessions(sets, lookup)
    key = F.col(SESSION_KEY)
    parts = [key] if len(lookup.keys) == 1 else [key[name] for name in _fields(sessions)]
    same = F.lit(True)
    for name, part in zip(lookup.keys, parts, strict=True):
        same = same & frame[name].eqNullSafe(part)
    joined = frame.join(sessions, same & (frame[WINDOW_COLUMN] == F.col(SESSION)), "left")
    unknown = F.concat(
        F.lit(lookup.unknown),
        F.to_json(F.struct(WINDOW_COLUMN)),
        F.lit(f". Write the session there first, or give column {STATE_WINDOW}."),
    )
    return joined.withColumn(STATE_WINDOW, F.coalesce(STATE_WINDOW, F.raise_error(unknown))).drop(SESSION_KEY, SESSION)


def _fields(sessions: DataFrame) -> list[str]:
    kind = sessions.schema[SESSION_KEY].dataType
    return kind.fieldNames() if isinstance(kind, StructType) else []


def _sessions(sets: DataFrame, lookup: SessionLookup) -> DataFrame:
    """Return the key, session and state window of every session, and of every state window itself."""
    pairs = F.col(f"`{lookup.state}`")
    if lookup.is_map:
        pairs = F.map_entries(pairs)

    def both(pair: Column) -> Column:
        names = ("key", "value") if lookup.is_map else ("f0", "f1")
        session, state_window = (pair[name] for name in names)
        return F.array(
            F.struct(session.alias(SESSION), state_window.alias(STATE_WINDOW)),
            F.struct(state_window.alias(SESSION), state_window.alias(STATE_WINDOW)),
        )

    every = F.array_distinct(F.flatten(F.transform(pairs, both)))
    return sets.select(F.col("key").alias(SESSION_KEY), F.inline(every))
