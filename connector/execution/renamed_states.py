"""Operators whose keyed states only get other names: headers are rewritten, all other bytes are copied as they are.

A state is named in the header of each file alone; entries name it by its number. So a file needs a new header, and its
key groups begin as many bytes later as the header is longer.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.flink_releases import Release
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.snapshot.relocation import NewHeader, Relocation
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, Base, OperatorPlan
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.writing.planning.release_fit import operator_fit

#: New names of states, by old name and whether they are timers.
Names = dict[tuple[str, bool], str]


def renamed_state(plan: OperatorPlan, relocation: Relocation, release: Release | None) -> OperatorState | None:
    """Return the operator with its keyed state alone, in copies with new headers; None if more than names changes."""
    names = _names(plan)
    base = plan.base
    if names is None or base is None or (release is not None and operator_fit(base.opened, release).keyed_state):
        return None
    headers = _headers(base, names)
    if headers is None:
        return None
    subtasks = {}
    for index, subtask in base.operator.subtasks.items():
        handle = subtask.managed_keyed_state
        if isinstance(handle, KeyGroupsSavepointStateHandle):
            copy = relocation.with_header(base.snapshot, base.operator, handle, headers[handle.key_group_range])
            subtasks[index] = OperatorSubtaskState(managed_keyed_state=copy)
    return replace(base.operator, subtasks=subtasks, coordinator_state=None)


def _names(plan: OperatorPlan) -> Names | None:
    """Return the names of all keyed states of the base; None if there are other changes than names."""
    if plan.base is None or plan.deletions or plan.rehashes or plan.raw_timers or not plan.edits_keyed_state:
        return None
    planned = plan.of_kind(KEYED, TIMERS)
    names = {(state.origin, state.kind == TIMERS): state.name for state in planned}
    if any(state.put >= 0 for state in planned) or len(names) < len(planned):
        return None
    return names if names.keys() == plan.base.opened.keyed.metas().keys() else None


def _headers(base: Base, names: Names) -> dict[KeyGroupRange, NewHeader] | None:
    """Return the new header of each file by its key groups; None if a file is not canonical, or not understood."""
    subtasks = base.operator.subtasks.values()
    handles = [subtask.managed_keyed_state for subtask in subtasks if subtask.managed_keyed_state is not None]
    if not all(isinstance(handle, KeyGroupsSavepointStateHandle) and handle.key_group_range for handle in handles):
        return None
    found = {}
    keyed = base.opened.keyed
    for source, header in zip(keyed.sources, keyed.headers, strict=True):
        assert isinstance(source, KeyedSource)
        with source.location.open() as opened:
            if opened.read(0, header.size) != _bytes(header):
                return None
        states = tuple(replace(meta, name=names[meta.name, not is_key_value(meta)]) for meta in header.states)
        found[source.key_group_range] = NewHeader(_bytes(replace(header, states=states)), header.size)
    return found


def _bytes(header: KeyedBackendHeader) -> bytes:
    out = DataOutputView()
    header.write(out)
    return out.getvalue()
