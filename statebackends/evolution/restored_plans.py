"""Whether Flink restores a savepoint into a compiled plan, and with rows of the same meaning where types agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.belongs import EMITS, early_operators
from pyspark_savepoint.statebackends.evolution.changes import REFUSING, Evolution, OperatorChange
from pyspark_savepoint.statebackends.evolution.changes import Verdict as Meaning
from pyspark_savepoint.statebackends.evolution.connector_parts import with_parts
from pyspark_savepoint.statebackends.evolution.expected import shapes_of
from pyspark_savepoint.statebackends.evolution.plans import Plan, read_plan, refusing
from pyspark_savepoint.statebackends.evolution.shapes import VOID_NAMESPACE, OperatorShape, StateShape
from pyspark_savepoint.statebackends.evolution.state_serializers import serializer_of
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import OperatorVerdict, RestoreCheck, Verdict
from pyspark_savepoint.statebackends.rows.state_sets import SESSIONS_OF

COMMITTERS = "the connectors of its sources and sinks still have {}, which no plan says"
TYPES_ONLY = "types that agree also mean the same (to check this, give the old plan: argument 'old_plan')"
WRONG_ROWS = "restores, with wrong rows: its types are the same, and what they mean is not"
EVOLVE = "evolve(old_plan, new_plan) writes a savepoint for it"


def is_compiled_plan(job: object) -> bool:
    """Return whether a job is given as a compiled plan, parsed."""
    nodes = job.get("nodes") if isinstance(job, Mapping) else None
    return isinstance(nodes, list) and any(
        isinstance(node, Mapping) and str(node.get("type")).startswith("stream-exec-") for node in nodes
    )


def described_plan(plan: Mapping[str, Any], savepoint: Snapshot) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the description of a job that runs a compiled plan: ids, keys and states of its operators; and notes.

    No plan says which committers a connector has, so that those of the savepoint are assumed to be there.
    """
    read = read_plan(plan, "job")
    with refusing("job"):
        shapes = with_parts(read, shapes_of(read), savepoint)
    operators = [one for each in shapes.values() for one in each if one.is_stateful]
    with_state = {one.operator_id for one in savepoint.operators if has_state(one)}
    assumed = [one for one in operators if not _is_always_there(one) and one.operator_id in with_state]
    operators = [one for one in operators if _is_always_there(one)]
    early = early_operators(savepoint, operators)
    notes: tuple[str, ...] = (COMMITTERS.format(", ".join(one.uid for one in assumed)),) if assumed else ()
    notes += tuple(EMITS.format(uid=one.uid) for one in operators if one.operator_id in early)
    return {"operators": [_described(one, read) for one in (*operators, *assumed)]}, notes


def _is_always_there(shape: OperatorShape) -> bool:
    """Return whether an operator is one that every job of the plan has: committers are those of some connectors."""
    return not shape.of_connector or shape.transformation in ("source", "sink")


def _described(shape: OperatorShape, plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {"uid": shape.uid, "name": shape.description[:200] or shape.uid}
    if shape.is_single and plan.is_since(1, 17):
        found["maxParallelism"] = 1
    states = dict(_states(shape, plan.says_time_to_live))
    if shape.known and not shape.of_connector and len(states) == len(shape.states):
        found |= {"key": shape.key_type, "states": states}
    return found


def _states(shape: OperatorShape, says_ttl: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the states whose types are known."""
    for state in shape.states:
        try:
            serializer = serializer_of(state)
        except SavepointError:
            continue
        namespace = VOID_NAMESPACE if state.name in SESSIONS_OF.values() else shape.namespace
        found = _state(state, serializer, namespace)
        yield state.name, found if says_ttl else {name: one for name, one in found.items() if name != "ttl"}


def _state(state: StateShape, serializer: TypeSerializer, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": serializer, "ttl": bool(state.ttl), "namespace": namespace}
    return {**found, "kind": "VALUE"} if state.kind == "value" else found


def with_meaning(check: RestoreCheck, evolution: Evolution) -> RestoreCheck:
    """Return a check in which operators that restore, and mean something else, are misread."""
    changes = {str(one.new.operator_id): one for one in evolution.operators if one.new is not None}
    rows = tuple(_meant(row, changes) for row in check.operators)
    return replace(check, operators=rows, notes=tuple(note for note in check.notes if note != TYPES_ONLY))


def _meant(row: OperatorVerdict, changes: Mapping[str, OperatorChange]) -> OperatorVerdict:
    change = changes.get(str(row.match.state.operator_id)) if row.match is not None else None
    if change is None:
        return row
    if row.verdict is Verdict.FAILS and change.old is not None and change.verdict not in REFUSING:
        return replace(row, remedy=EVOLVE)
    if row.verdict not in (Verdict.RESTORES, Verdict.MIGRATES):
        return row
    same_place = change.old is not None and change.new is not None and not change.moves
    if change.verdict is Meaning.AS_IS and same_place:
        return row
    reasons = [WRONG_ROWS]
    if not same_place and change.old is not None:
        reasons.append(f"it continues {change.old.uid}, not the operator whose id it has")
    reasons += change.reasons
    for state in change.states:
        reasons += [
            f"{field.name}: {field.verdict.value}" + (f" ({field.reason})" if field.reason else "")
            for field in state.fields
            if field.verdict is not Meaning.AS_IS
        ]
    return replace(row, verdict=Verdict.IS_MISREAD, reasons=tuple(reasons), remedy=EVOLVE)
