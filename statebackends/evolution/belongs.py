"""Whether a plan is the one that wrote a savepoint: its operators, and the names, kinds and types of their states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.one_verb import cached_for_verb
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.changes import OperatorChange, Verdict
from pyspark_savepoint.statebackends.evolution.connector_parts import is_keyed
from pyspark_savepoint.statebackends.evolution.plans import Plan
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape
from pyspark_savepoint.statebackends.jobs.restore.job_description import (
    JobDescription,
    OperatorDescription,
    from_snapshot,
    registered_states,
)
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

MAX_LISTED = 5
WITH_EXPLAIN = "if the job ran without a plan, also give the text of EXPLAIN JSON_EXECUTION_PLAN for its statements"
#: What OVER keeps to remove keys, where the job has a time to live.
OVER, CLEANUP = "over-aggregate", "OverCleanupTime"
#: The same of a temporal join: its own states have no time to live.
VERSIONED, VERSIONED_CLEANUP = "temporal-join", "cleanup-timestamp"
#: What windows of GROUP BY keep that emit results early, or late rows: a setting of the job that no plan has.
GROUP_WINDOWS, EARLY = "group-window-aggregate", ("previous-aggs", "processingTime-", "eventTime-")
EMITS = (
    "the windows of {uid} emit early or late results, which no plan says: the new job needs the same settings of "
    "table.exec.emit"
)
CHANGED_EARLY = "its windows have emitted early or late results, and what these become is not known"
FORST = (
    "this is a savepoint of ForSt, and changed state is written in the canonical format, which ForSt does not restore: "
    "write it portable, and run the new job on RocksDB or hashmap"
)
OF_CONNECTOR = ", which has no keyed state: a part of a connector, perhaps, with a name that is not known"
Shapes = Mapping[int, tuple[OperatorShape, ...]]


def _opened(savepoint: Snapshot) -> Mapping[OperatorID, OpenOperator]:
    """Return the operators of a savepoint; within a verb, the header of each of their files is read once."""
    return cached_for_verb(
        ("opened", savepoint.location, savepoint.digest),
        lambda: {operator.operator_id: OpenOperator(savepoint, operator) for operator in savepoint.operators},
    )


def _described(savepoint: Snapshot) -> JobDescription:
    return from_snapshot(savepoint, _opened(savepoint))


def as_it_ran(plan: Plan, savepoint: Snapshot) -> Plan:
    """Return a plan with the time to live of a savepoint's states, if it is one that does not say it."""
    if plan.says_time_to_live:
        return plan
    states = (state for one in _described(savepoint).operators for state in (one.keyed_states or {}).values())
    expires = any("TTL<" in (state.text or state.serializer.flink_type) for state in states)
    return plan.with_time_to_live() if expires else plan


def notes_of_over(shapes: Shapes, savepoint: Snapshot, new: Plan) -> Iterator[str]:
    """Yield sentences about OVER, whose time to live is a setting of the job that no plan has."""
    over = {one.operator_id: one.uid for each in shapes.values() for one in each if one.transformation == OVER}
    if not over:
        return
    expires = any(any(node.ttls) for node in new.nodes.values())
    for operator in _described(savepoint).operators:
        uid = over.get(operator.ids.generated)
        states = (operator.keyed_states or {}).values() if uid is not None else ()
        has = any("TTL<" in (state.text or state.serializer.flink_type) for state in states)
        if has:
            yield f"the state of {uid} has a time to live, which no plan says: the new job needs table.exec.state.ttl"
        elif states and (expires or not new.is_since(2, 0)):
            # A plan that has OVER alone does not say whether the job sets it.
            yield f"the state of {uid} has no time to live: Flink 1 does not restore it with table.exec.state.ttl"


def notes_of_forst(savepoint: Snapshot, changes: Sequence[OperatorChange]) -> Iterator[str]:
    """Yield a sentence about changed state of ForSt, which restores no files but its own.

    They are known by their form: that of states which are read without waiting. Flink 2.3 has no such state elsewhere.
    """
    changed = {one.old.operator_id for one in changes if one.old is not None and one.verdict is not Verdict.AS_IS}
    for operator in savepoint.operators:
        if operator.operator_id not in changed:
            continue
        keyed = _opened(savepoint)[operator.operator_id].keyed
        metas = (meta for header in keyed.headers for meta in header.states)
        if any(meta.kind is BackendStateType.KEY_VALUE_V2 for meta in metas):
            yield FORST
            return


def early_operators(savepoint: Snapshot, shapes: Iterable[OperatorShape]) -> frozenset[OperatorID]:
    """Return the operators whose windows emit results early, or late rows, as their states say.

    Only headers of operators with such windows are read.
    """
    windows = {one.operator_id for one in shapes if one.transformation == GROUP_WINDOWS}
    return frozenset(
        operator.operator_id
        for operator in savepoint.operators
        if operator.operator_id in windows
        and any(name.startswith(EARLY) for name in registered_states(_opened(savepoint)[operator.operator_id]).keyed)
    )


def with_early_results(
    changes: Sequence[OperatorChange], savepoint: Snapshot
) -> tuple[list[OperatorChange], tuple[str, ...]]:
    """Return changes, refused where windows have emitted early results and change, and sentences about these."""
    early = early_operators(savepoint, (change.old for change in changes if change.old is not None))
    found, notes = [], []
    for change in changes:
        old = change.old
        if old is not None and old.operator_id in early:
            if change.verdict is Verdict.AS_IS:
                notes.append(EMITS.format(uid=old.uid))
            elif change.new is not None:
                change = replace(change, verdict=Verdict.REFUSED, reasons=(CHANGED_EARLY,))
        found.append(change)
    return found, tuple(notes)


def check_belongs(
    shapes: Shapes,
    savepoint: Snapshot,
    argument: str = "old_plan",
    without_plan: str = f"{WITH_EXPLAIN}: argument 'old_explain'",
) -> None:
    """Raise OptionError unless every operator with state is an operator of the plan, with the states it expects.

    ``without_plan``: what to do about a job that ran without one.
    """
    differences = list(_differences(shapes, savepoint))
    if differences:
        more = len(differences) - MAX_LISTED
        shown = "; ".join(differences[:MAX_LISTED]) + (f"; and {more} more" if more > 0 else "")
        raise OptionError(
            f"argument '{argument}' is not the plan of this savepoint",
            found=shown,
            expected="the plan from which the job ran that wrote it: its ids and types are those of the operators",
            remedy=f"give that plan; plans that are compiled again have other ids. {without_plan}",
        )


def _differences(shapes: Shapes, savepoint: Snapshot) -> Iterator[str]:
    expected = {one.operator_id: one for operators in shapes.values() for one in operators}
    described = {one.ids.generated: one for one in _described(savepoint).operators}
    for operator in savepoint.operators:
        if not has_state(operator):
            continue
        shape = expected.get(operator.operator_id)
        if shape is None:
            yield f"no node has operator {_label(operator)}" + ("" if is_keyed(operator) else OF_CONNECTOR)
        elif shape.known and not shape.of_connector:
            yield from _different_states(shape, described[operator.operator_id])


def _label(operator: OperatorState) -> str:
    return str(operator.uid or operator.name or operator.operator_id)


def _different_states(shape: OperatorShape, found: OperatorDescription) -> Iterator[str]:
    keyed = found.keyed_states or {}
    if found.key is not None and found.key.flink_type != shape.key_type:
        yield f"{shape.uid} has keys {found.key.flink_type}, not {shape.key_type}"
    for state in shape.states if keyed else ():
        stored = keyed.get(state.name)
        if stored is None:
            yield f"{shape.uid} has no state {state.name}"
            continue
        text = stored.text or stored.serializer.flink_type
        if shape.transformation == OVER and text == f"TTL<{state.value_type}>":
            continue  # the time to live of OVER is a setting of the job, which its plan does not have
        if text != state.stored_type or stored.kind.lower() != state.kind:
            yield f"{shape.uid} has state {state.name} {stored.kind} {text}, not {state.kind} {state.stored_type}"
    for name in keyed.keys() - {state.name for state in shape.states}:
        if shape.transformation == OVER and name.endswith(CLEANUP):
            continue
        if shape.transformation == VERSIONED and name == VERSIONED_CLEANUP:
            continue
        if shape.transformation == GROUP_WINDOWS and name.startswith(EARLY):
            continue
        yield f"{shape.uid} has state {name}, which the plan does not"
