"""Search for the operator of a job that an operator of the snapshot has become, under another id."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_savepoint.formats.errors import SavepointError, nearest
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.restore.job_description import OperatorDescription, registered_states
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator


def moved_to(savepoint: Snapshot, state: OperatorState, empty: Sequence[OperatorDescription]) -> str | None:
    """Return how an operator gets the id of one of the job's that begin empty; None if it is none of them.

    It is one of these if it alone has states of the same names and kinds, the same type of key and timers of the same
    services, else if its uid or name is similar.
    """
    new = _of_same_states(savepoint, state, empty) or _of_similar_name(state, empty)
    if new is None:
        return None
    own = repr(state.uid or str(state.operator_id))
    other = repr(new.uid if new.uid is not None else new.ids.generated.hex)
    return f"if this is {new.label} of the job: change_operator_identifier({own}, {other})"


def _of_same_states(
    savepoint: Snapshot, state: OperatorState, empty: Sequence[OperatorDescription]
) -> OperatorDescription | None:
    described = [one for one in empty if one.keyed_states or one.operator_states]
    if not described:
        return None
    try:
        registered = registered_states(OpenOperator(savepoint, state))
    except SavepointError:
        return None
    keyed = {(name, metas[0].state_type) for name, metas in registered.keyed.items()}
    others = {(name, metas[0].state_type) for name, metas in registered.operator.items()}
    keys = {key.flink_type for key in registered.keys}
    alike = [
        one
        for one in described
        if {(new.name, new.kind) for new in (one.keyed_states or {}).values()} == keyed
        and {(new.name, new.kind) for new in (one.operator_states or {}).values()} == others
        and (one.key is None or one.key.flink_type in keys)
        and (one.timers is None or registered.timers in (None, one.timers))
    ]
    return alike[0] if len(alike) == 1 else None


def _of_similar_name(state: OperatorState, empty: Sequence[OperatorDescription]) -> OperatorDescription | None:
    by_name = {name: operator for operator in empty for name in (operator.name, operator.uid) if name}
    similar = [name for own in (state.uid, state.name) if own for name in nearest(own, by_name)]
    return by_name[similar[0]] if similar else None
