"""Search for the operator of a job that an operator of the snapshot has become, under another id."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTER_STATE, READER_STATE, WRITER_STATE
from pyspark_savepoint.formats.errors import SavepointError, nearest
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.restore.job_description import (
    OperatorDescription,
    RegisteredStates,
    registered_states,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: Names and kinds of states.
Names = set[tuple[str, str]]
#: States that operators of all connectors have.
OF_CONNECTORS = (READER_STATE, WRITER_STATE, COMMITTER_STATE)


def moved_to(savepoint: Snapshot, state: OperatorState, empty: Sequence[OperatorDescription]) -> str | None:
    """Return how an operator gets the id of one of the job's that begin empty; None if it is none of them.

    It is one of these if it alone has states of the same names and kinds, the same type of key and timers of the same
    services, else if its uid or name is similar, else if it shares more states by name and kind than any other: it
    moved and changed at once.
    """
    registered = _registered(savepoint, state)
    new = _of_same_states(registered, empty) or _of_similar_name(state, empty) or _of_shared_states(registered, empty)
    if new is None:
        return None
    own = repr(state.uid or str(state.operator_id))
    other = repr(new.uid if new.uid is not None else new.ids.generated.hex)
    return f"if this is {new.label} of the job: change_operator_identifier({own}, {other})"


def _registered(savepoint: Snapshot, state: OperatorState) -> RegisteredStates | None:
    """Return the states of an operator of the snapshot; None if they cannot be read."""
    try:
        return registered_states(OpenOperator(savepoint, state))
    except SavepointError:
        return None


def _of_same_states(
    registered: RegisteredStates | None, empty: Sequence[OperatorDescription]
) -> OperatorDescription | None:
    if registered is None:
        return None
    keyed, others = _names(registered)
    keys = {key.flink_type for key in registered.keys}
    alike = [
        one
        for one in empty
        if (one.keyed_states or one.operator_states)
        and _described(one) == (keyed, others)
        and (one.key is None or one.key.flink_type in keys)
        and (one.timers is None or registered.timers in (None, one.timers))
    ]
    return alike[0] if len(alike) == 1 else None


def _of_shared_states(
    registered: RegisteredStates | None, empty: Sequence[OperatorDescription]
) -> OperatorDescription | None:
    if registered is None:
        return None
    keyed, others = _names(registered)
    others = {one for one in others if one[0] not in OF_CONNECTORS}
    described = [_described(new) for new in empty]
    shared = [len(keyed & of_key) + len(others & of_operator) for of_key, of_operator in described]
    most = max(shared, default=0)
    return empty[shared.index(most)] if most and shared.count(most) == 1 else None


def _names(registered: RegisteredStates) -> tuple[Names, Names]:
    """Return names and kinds of keyed states, and of operator states, of the snapshot."""
    keyed = {(name, metas[0].state_type) for name, metas in registered.keyed.items()}
    return keyed, {(name, metas[0].state_type) for name, metas in registered.operator.items()}


def _described(one: OperatorDescription) -> tuple[Names, Names]:
    """Return names and kinds of keyed states, and of operator states, of the job."""
    keyed = {(new.name, new.kind) for new in (one.keyed_states or {}).values()}
    return keyed, {(new.name, new.kind) for new in (one.operator_states or {}).values()}


def _of_similar_name(state: OperatorState, empty: Sequence[OperatorDescription]) -> OperatorDescription | None:
    by_name = {name: operator for operator in empty for name in (operator.name, operator.uid) if name}
    similar = [name for own in (state.uid, state.name) if own for name in nearest(own, by_name)]
    return by_name[similar[0]] if similar else None
