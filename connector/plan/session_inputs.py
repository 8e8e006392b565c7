"""Contents of sessions as they are written: under the state windows that the savepoint has for them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructType

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.plan.keyed_edits import READ_OPTIONS
from pyspark_savepoint.plan.operator_plan import KEYED, OperatorPlan, PlannedState
from pyspark_savepoint.source.given_source import format_of
from pyspark_savepoint.statebackends.model.descriptors import STATE_WINDOW, WINDOW_COLUMN
from pyspark_savepoint.statebackends.tables.session_windows import MERGING

SESSION_KEY, SESSION = "__session_key", "__session"


def with_state_windows(plan: OperatorPlan, frame: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return the rows with their state windows, if the operator's windows merge.

    A row is found by its key and session, or by its state window. A row of another window fails the write.
    """
    merging = [state for state in plan.states or () if state.kind == KEYED and state.name in MERGING]
    if not merging or {STATE_WINDOW, WINDOW_COLUMN} & set(frame.columns) != {WINDOW_COLUMN}:
        return frame
    if merging[0].put >= 0:
        raise OptionError(
            f"state {merging[0].name!r} was changed, so the state windows of the sessions are not known",
            operator=plan.label,
            expected=f"column {STATE_WINDOW!r}",
            remedy="add the column, or change the contents first",
        )
    sessions = _sessions(plan, merging[0], frame)
    key = F.col(SESSION_KEY)
    parts = [key] if len(keys) == 1 else [key[name] for name in _fields(sessions)]
    same = F.lit(True)
    for name, part in zip(keys, parts, strict=True):
        same = same & frame[name].eqNullSafe(part)
    joined = frame.join(sessions, same & (frame[WINDOW_COLUMN] == F.col(SESSION)), "left")
    unknown = F.concat(
        F.lit(f"with_state: {merging[0].name} of {plan.label} has no session of the window "),
        F.to_json(F.struct(WINDOW_COLUMN)),
        F.lit(f". Write the session there first, or give column {STATE_WINDOW}."),
    )
    return joined.withColumn(STATE_WINDOW, F.coalesce(STATE_WINDOW, F.raise_error(unknown))).drop(SESSION_KEY, SESSION)


def _fields(sessions: DataFrame) -> list[str]:
    kind = sessions.schema[SESSION_KEY].dataType
    return kind.fieldNames() if isinstance(kind, StructType) else []


def _sessions(plan: OperatorPlan, state: PlannedState, frame: DataFrame) -> DataFrame:
    """Return the key, session and state window of every session, and of every state window itself."""
    assert plan.base is not None, "the state was read from there"
    base = plan.base
    options = {name: text for name, text in base.options.items() if name in READ_OPTIONS}
    options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "state": state.origin}
    window = frame.schema[WINDOW_COLUMN].dataType
    if isinstance(window, StructType) and any(isinstance(field.dataType, LongType) for field in window):
        options["timestamps"] = "raw"
    spark = frame.sparkSession
    sets = spark.read.format(format_of(spark, options)).options(table="keyed_state", **options).load()
    pairs = F.col(f"`{state.origin}`")
    if state.meta.state_type == "MAP":
        pairs = F.map_entries(pairs)

    def both(pair: Column) -> Column:
        names = ("key", "value") if state.meta.state_type == "MAP" else ("f0", "f1")
        session, state_window = (pair[name] for name in names)
        return F.array(
            F.struct(session.alias(SESSION), state_window.alias(STATE_WINDOW)),
            F.struct(state_window.alias(SESSION), state_window.alias(STATE_WINDOW)),
        )

    every = F.array_distinct(F.flatten(F.transform(pairs, both)))
    return sets.select(F.col("key").alias(SESSION_KEY), F.inline(every))
