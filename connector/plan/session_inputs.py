"""Contents of sessions as they are written: under the state windows that the savepoint has for them."""

from __future__ import annotations

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.plan.engine import Engine, Rows, SessionLookup
from pyspark_savepoint.plan.keyed_edits import READ_OPTIONS
from pyspark_savepoint.plan.operator_plan import KEYED, OperatorPlan
from pyspark_savepoint.statebackends.model.descriptors import STATE_WINDOW, WINDOW_COLUMN
from pyspark_savepoint.statebackends.tables.session_windows import MERGING


def with_state_windows(engine: Engine, plan: OperatorPlan, rows: Rows, keys: tuple[str, ...]) -> Rows:
    """Return the rows with their state windows, if the operator's windows merge.

    A row is found by its key and session, or by its state window. A row of another window fails the write.
    """
    merging = [state for state in plan.states or () if state.kind == KEYED and state.name in MERGING]
    if not merging or {STATE_WINDOW, WINDOW_COLUMN} & set(rows.schema.names) != {WINDOW_COLUMN}:
        return rows
    state = merging[0]
    if state.put >= 0:
        raise OptionError(
            f"state {state.name!r} was changed, so the state windows of the sessions are not known",
            operator=plan.label,
            expected=f"column {STATE_WINDOW!r}",
            remedy="add the column, or change the contents first",
        )
    assert plan.base is not None, "the state was read from there"
    base = plan.base
    options = {name: text for name, text in base.options.items() if name in READ_OPTIONS}
    options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "table": "keyed_state"}
    options |= {"state": state.origin}
    window = rows.schema.field(WINDOW_COLUMN).type
    if pa.types.is_struct(window) and any(pa.types.is_int64(field.type) for field in window):
        options["timestamps"] = "raw"
    unknown = f"with_state: {state.name} of {plan.label} has no session of the window "
    lookup = SessionLookup(options, state.origin, state.meta.state_type == "MAP", keys, unknown)
    return engine.with_state_windows(rows, lookup)
