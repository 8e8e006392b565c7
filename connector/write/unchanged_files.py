"""Files of an edited operator that stay as they are: canonical ones in whose key groups no key is added or removed.

They are copied as the files of untouched operators are, within an object store by it, and not read, merged and written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import xxhash

from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle, RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, OperatorPlan
from pyspark_savepoint.statebackends.sources.lost_state import NOTHING


def unchanged_subtasks(plan: OperatorPlan) -> frozenset[int]:
    """Return the subtasks whose files stay as they are if no rows and no deleted keys are of their key groups.

    All states must be those of the base, under their names, and the header of the new files that of the old ones.
    """
    base = plan.base
    if base is None or not plan.edits_keyed_state or plan.rehashes or plan.raw_timers or base.lost != NOTHING:
        return frozenset()
    states = plan.of_kind(KEYED, TIMERS)
    if not states or plan.key_serializer is None:
        return frozenset()
    if any(state.from_input >= 0 or state.origin != state.name for state in states):
        return frozenset()
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, tuple(state.meta for state in states))
    digest = xxhash.xxh3_128_digest(header.to_bytes())
    opened = base.opened.keyed
    same = {
        source.key_group_range
        for source, old in zip(opened.sources, opened.headers, strict=True)
        if old.digest == digest
    }
    operator = base.operator
    subtasks = set()
    for index, subtask in operator.subtasks.items():
        handle = subtask.managed_keyed_state
        if (
            isinstance(handle, KeyGroupsSavepointStateHandle)
            and isinstance(handle.delegate, FileStateHandle | RelativeFileStateHandle)
            and handle.key_group_range in same
            and handle.key_group_range
            == range_for_operator_index(operator.max_parallelism, operator.parallelism, index)
        ):
            subtasks.add(index)
    return frozenset(subtasks)


def copies_of(
    plan: OperatorPlan, subtasks: Collection[int], relocation: Relocation
) -> Mapping[int, OperatorSubtaskState]:
    """Return the keyed state of some subtasks in copies of its files."""
    if plan.base is None or not subtasks:
        return {}
    of_base = plan.base.operator
    kept = {
        index: OperatorSubtaskState(managed_keyed_state=of_base.subtasks[index].managed_keyed_state)
        for index in sorted(subtasks)
    }
    return relocation.copied(plan.base.snapshot, replace(of_base, subtasks=kept, coordinator_state=None)).subtasks


def with_unchanged(
    operator: OperatorState, plan: OperatorPlan, unchanged: Collection[int], relocation: Relocation
) -> OperatorState:
    """Return a written operator with copies of the files of those subtasks for which none was written."""
    left = [index for index in unchanged if _is_left(operator, index)]
    subtasks = dict(operator.subtasks)
    for index, subtask in copies_of(plan, left, relocation).items():
        own = subtasks.get(index, OperatorSubtaskState())
        subtasks[index] = replace(own, managed_keyed_state=subtask.managed_keyed_state)
    return replace(operator, subtasks=dict(sorted(subtasks.items())))


def _is_left(operator: OperatorState, index: int) -> bool:
    subtask = operator.subtasks.get(index)
    return subtask is None or subtask.managed_keyed_state is None
