"""What a planned savepoint needs for a release of Flink: state to rewrite, and state that the release cannot have.

Every way to write asks here. A write to a new path rewrites what must be; one to its own base refuses what its tasks do
not write (``in_place``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark_savepoint.formats.flink_releases import Release, last_with_metadata
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.stream_handles import SegmentFileStateHandle
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import Operators, SavepointPlan
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.release_fit import (
    Misfit,
    OperatorFit,
    key_problems,
    meta_problems,
    operator_fit,
    refuse_misfits,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS, ENTRIES


def without_edited(plan: OperatorPlan) -> OperatorState:
    """Return the base's operator without the state that is rewritten."""
    assert plan.base is not None
    operator = plan.base.operator
    subtasks = dict(operator.subtasks)
    for index, subtask in subtasks.items():
        if plan.edits_keyed_state:
            raw = None if plan.raw_timers else subtask.raw_keyed_state
            subtask = replace(subtask, managed_keyed_state=None, raw_keyed_state=raw)
        if plan.edits_operator_state:
            subtask = replace(subtask, managed_operator_state=None)
        subtasks[index] = subtask
    return replace(operator, subtasks=subtasks)


def for_release(plan: SavepointPlan, release: Release, copied: bool) -> SavepointPlan:
    """Rewrite state that a release cannot read as it is; raise UnsupportedVersionError for state that it cannot have.

    ``copied``: untouched files are copied, so that segments of merged files become separate files.
    """
    operators = []
    found = list(fits(plan, release, copied))
    refuse_misfits(((plan.label, problem) for plan, fit in found for problem in fit.problems), release.version)
    for operator, fit in found:
        kinds = [KEYED] * bool(fit.keyed_state) + [OPERATOR] * bool(fit.operator_state)
        operators.append(with_states(operator).with_rewritten(*kinds) if kinds else operator)
    return replace(plan, operators=Operators(operators))


def fits(plan: SavepointPlan, release: Release, copied: bool) -> Iterator[tuple[OperatorPlan, OperatorFit]]:
    """Yield the operators with what a release cannot read of them."""
    for operator in plan.operators:
        fit = _fit(operator, release)
        if not (copied or release.merged_files) and _has_segments(operator):
            why = "segments of merged files came with Flink 1.20: write a new savepoint with files='copy'"
            fit = replace(fit, problems=(*fit.problems, Misfit("files", why)))
        yield operator, fit


def _fit(plan: OperatorPlan, release: Release) -> OperatorFit:
    """Return what the release supports of the planned operator: of its remaining and of its added state."""
    fit = OperatorFit()
    kryo = release.kryo
    if plan.base is not None:
        base = plan.base
        edited = plan.edits_keyed_state or plan.edits_operator_state
        fit = operator_fit(OpenOperator(base.snapshot, without_edited(plan)) if edited else base.opened, release)
        kryo = last_with_metadata(base.snapshot.metadata.version).kryo
    changed = [state for state in plan.states or () if state.inputs or _is_edited(plan, state.kind)]
    problems = [*fit.problems]
    for state in changed:
        # Entries keep the bytes of the base; columns are encoded for the release.
        as_bytes = state.from_input < 0 or plan.inputs[state.from_input].spec.table in (ENTRIES, ELEMENTS)
        problems += meta_problems([state.meta], release, kryo if as_bytes else release.kryo)
    if plan.key_serializer is not None and plan.edits_keyed_state:
        problems += key_problems(plan.key_serializer, release, kryo)
    return replace(fit, problems=tuple(dict.fromkeys(problems)))


def _has_segments(plan: OperatorPlan) -> bool:
    if plan.base is None:
        return False
    return any(isinstance(handle, SegmentFileStateHandle) for handle in streams_of(without_edited(plan)))


def _is_edited(plan: OperatorPlan, kind: str) -> bool:
    return plan.edits_operator_state if kind == OPERATOR else plan.edits_keyed_state
