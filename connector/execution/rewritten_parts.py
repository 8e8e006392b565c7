"""Untouched parts of operators that must be rewritten: for an older release, or for any state backend.

Nothing runs here: the plans are changed so that the entries of such parts are read and written unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from types import NoneType
from typing import Any

from pyspark_savepoint.execution.operator_writer import without_edited
from pyspark_savepoint.formats.flink_releases import Release, last_with_metadata
from pyspark_savepoint.formats.metadata.keyed_handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import SegmentFileStateHandle
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import ROCKSDB, SavepointPlan
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


def for_release(plan: SavepointPlan, release: Release, copied: bool) -> SavepointPlan:
    """Rewrite state that a release cannot read as it is; raise UnsupportedVersionError for state that it cannot have.

    ``copied``: untouched files are copied, so that segments of merged files become separate files.
    """
    problems: list[tuple[str, Misfit]] = []
    operators = []
    for operator in plan.operators:
        fit = _fit(operator, release)
        problems += [(operator.label, problem) for problem in fit.problems]
        if not (copied or release.merged_files) and _has_segments(operator):
            why = "segments of merged files came with Flink 1.20: write with files='copy'"
            problems.append((operator.label, Misfit("files", why)))
        kinds = [KEYED] * bool(fit.keyed_state) + [OPERATOR] * bool(fit.operator_state)
        operators.append(with_states(operator).with_rewritten(*kinds) if kinds and not problems else operator)
    refuse_misfits(problems, release.version)
    return replace(plan, operators=tuple(operators))


def all_portable(plan: SavepointPlan, backend: str | None = None) -> SavepointPlan:
    """Rewrite keyed state that a state backend, by default any of them, cannot restore, so that it is canonical."""
    return replace(
        plan,
        operators=tuple(
            operator if is_portable(operator, backend) else with_states(operator).with_rewritten(KEYED)
            for operator in plan.operators
        ),
    )


def is_portable(plan: OperatorPlan, backend: str | None = None) -> bool:
    """Return whether a state backend, by default every one, can restore the keyed state of the planned operator.

    The files of a database are RocksDB's. Which backend wrote key groups that are not canonical is not recorded.
    """
    if plan.base is None or plan.edits_keyed_state:
        return True
    kinds: tuple[type[Any], ...] = (KeyGroupsSavepointStateHandle, NoneType)
    kinds += (IncrementalRemoteKeyedStateHandle,) * (backend == ROCKSDB)
    return all(isinstance(subtask.managed_keyed_state, kinds) for subtask in plan.base.operator.subtasks.values())


def _fit(plan: OperatorPlan, release: Release) -> OperatorFit:
    """Return what the release supports of the planned operator: of its remaining and of its added state."""
    fit = OperatorFit()
    kryo = release.kryo
    if plan.base is not None:
        base = plan.base
        edited = plan.edits_keyed_state or plan.edits_operator_state
        fit = operator_fit(OpenOperator(base.snapshot, without_edited(plan)) if edited else base.opened, release)
        kryo = last_with_metadata(base.snapshot.metadata.version).kryo
    changed = [state for state in plan.states or () if state.put >= 0 or _is_edited(plan, state.kind)]
    problems = [*fit.problems]
    for state in changed:
        # Entries keep the bytes of the base; columns are encoded for the release.
        as_bytes = state.put < 0 or plan.puts[state.put].spec.table in (ENTRIES, ELEMENTS)
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
