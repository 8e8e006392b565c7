"""Assignment of state to execution vertices when an operator is restored with a given parallelism.

Keyed state: vertex i of n owns a range of key groups and gets every old handle that overlaps it, restricted to the
overlap. Flink passes old handles on unrestricted if the parallelism did not change; the restricted ones hold the same
keys, each once.

Operator state, per state name:

================  =================================================================================================
SPLIT_DISTRIBUTE  unchanged parallelism: stays; else all elements, in the order of the old subtasks, are handed out in
                  runs of ``total // n``, the first ``total % n`` receivers one more; the next state starts with the
                  receiver after those
UNION             every element to every vertex
BROADCAST         unchanged parallelism: stays; else, or for a vertex whose subtask had finished, the copy of old
                  reporting subtask ``i % (number of them)``
================  =================================================================================================

Flink: ``StateAssignmentOperation``, ``RoundRobinOperatorStateRepartitioner``, ``KeyGroupRangeAssignment``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.java import hash_map_order, spread, string_hash
from pyspark_savepoint.formats.metadata.key_groups import (
    KeyGroupRange,
    operator_index_for_key_group,
    range_for_operator_index,
)
from pyspark_savepoint.formats.metadata.operator_handles import Mode, OperatorStateHandle, StateMetaInfo

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.metadata.identifiers import OperatorID
    from pyspark_savepoint.formats.metadata.keyed_handles import KeyedStateHandle

DEFAULT_HASH_MAP_CAPACITY = 16


@dataclass(frozen=True, slots=True)
class AssignedKeyedState:
    """Keyed handle, restricted to the key groups of a vertex, and the subtask that wrote it."""

    subtask_index: int
    handle: KeyedStateHandle


@dataclass(frozen=True, slots=True)
class AssignedOperatorState:
    """Operator state handle with only the elements that a vertex gets, and the subtask that wrote it."""

    subtask_index: int
    handle: OperatorStateHandle


@dataclass(frozen=True, slots=True)
class StateAssignment:
    """State of one operator that execution vertex ``index`` of ``parallelism`` restores."""

    operator_id: OperatorID
    index: int
    parallelism: int
    max_parallelism: int
    key_group_range: KeyGroupRange
    managed_keyed_state: tuple[AssignedKeyedState, ...] = ()
    raw_keyed_state: tuple[AssignedKeyedState, ...] = ()
    managed_operator_state: tuple[AssignedOperatorState, ...] = ()
    raw_operator_state: tuple[AssignedOperatorState, ...] = ()


def assign_state(operator: OperatorState, parallelism: int) -> tuple[StateAssignment, ...]:
    """Return the state that each of ``parallelism`` execution vertices restores of an operator."""
    if not 1 <= parallelism <= operator.max_parallelism:
        raise OptionError(
            "the parallelism is out of range for the operator",
            operator=operator.label,
            expected=f"1 to {operator.max_parallelism}, its max parallelism",
            found=parallelism,
        )
    subtasks = sorted(operator.subtasks.items())
    managed_keyed = [(i, s.managed_keyed_state) for i, s in subtasks if s.managed_keyed_state is not None]
    raw_keyed = [(i, s.raw_keyed_state) for i, s in subtasks if s.raw_keyed_state is not None]
    managed = [(i, s.managed_operator_state) for i, s in subtasks if s.managed_operator_state is not None]
    raw = [(i, s.raw_operator_state) for i, s in subtasks if s.raw_operator_state is not None]
    parts = zip(
        _assign_keyed(managed_keyed, operator.max_parallelism, parallelism),
        _assign_keyed(raw_keyed, operator.max_parallelism, parallelism),
        repartition_state(managed, operator.parallelism, parallelism),
        repartition_state(raw, operator.parallelism, parallelism),
        strict=True,
    )
    return tuple(
        StateAssignment(
            operator.operator_id,
            index,
            parallelism,
            operator.max_parallelism,
            range_for_operator_index(operator.max_parallelism, parallelism, index),
            *part,
        )
        for index, part in enumerate(parts)
    )


def _assign_keyed(
    handles: Iterable[tuple[int, KeyedStateHandle]], max_parallelism: int, parallelism: int
) -> list[tuple[AssignedKeyedState, ...]]:
    assigned: list[list[AssignedKeyedState]] = [[] for _ in range(parallelism)]
    for subtask_index, handle in handles:
        key_groups = handle.key_group_range
        if not key_groups:
            continue
        first = operator_index_for_key_group(max_parallelism, parallelism, key_groups.start)
        last = operator_index_for_key_group(max_parallelism, parallelism, key_groups.end)
        for index in range(first, last + 1):
            cut = handle.intersection(range_for_operator_index(max_parallelism, parallelism, index))
            assigned[index].append(AssignedKeyedState(subtask_index, cut))
    return [tuple(states) for states in assigned]


# -- operator state -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """One named state of one old subtask: some or all of its elements."""

    subtask_index: int
    state: StateMetaInfo


# The states of each vertex, by (old subtask, state name).
_Dealt = list[dict[tuple[int, str], StateMetaInfo]]


def repartition_state(
    handles: list[tuple[int, OperatorStateHandle]], old_parallelism: int, parallelism: int
) -> list[tuple[AssignedOperatorState, ...]]:
    """Distribute the operator state of old subtasks over new ones as Flink does."""
    dealt: _Dealt = [{} for _ in range(parallelism)]
    if parallelism == old_parallelism:
        _keep(handles, dealt)
        # Flink distributes a broadcast state again if some subtasks, already finished, did not report it.
        _deal_broadcast(_by_name(handles, Mode.BROADCAST), dealt)
    else:
        _deal_split(_by_name(handles, Mode.SPLIT_DISTRIBUTE), dealt)
        _deal_broadcast(_by_name(handles, Mode.BROADCAST), dealt)
    _deal_union(_by_name(handles, Mode.UNION), dealt)
    return [_assemble(states, handles) for states in dealt]


def _keep(handles: list[tuple[int, OperatorStateHandle]], dealt: _Dealt) -> None:
    for subtask_index, handle in handles:
        for state in handle.states:
            dealt[subtask_index][subtask_index, state.name] = state


def _by_name(handles: list[tuple[int, OperatorStateHandle]], mode: Mode) -> dict[str, list[_Part]]:
    """Return the parts of each state of a mode in the iteration order of Flink's hash maps.

    The order decides which vertices receive the extra elements.
    """
    parts: dict[str, list[_Part]] = {}
    calls: list[str] = []
    for subtask_index, handle in handles:
        names = {state.name: state for state in handle.states}
        for name in _order_of_puts(names, len(names)):
            if names[name].mode == mode:
                calls.append(name)
                parts.setdefault(name, []).append(_Part(subtask_index, names[name]))
    return {name: parts[name] for name in _order_of_computes(calls)}


def _deal_split(parts_by_name: dict[str, list[_Part]], dealt: _Dealt) -> None:
    start = 0
    for name, parts in parts_by_name.items():
        elements = [(part.subtask_index, offset) for part in parts for offset in part.state.offsets]
        share, rest = divmod(len(elements), len(dealt))
        position = 0
        for i in range(len(dealt)):
            receiver = dealt[(start + i) % len(dealt)]
            count = share + (1 if i < rest else 0)
            _give_split(name, elements[position : position + count], receiver)
            position += count
        start = (start + rest) % len(dealt)


def _give_split(name: str, elements: list[tuple[int, int]], receiver: dict[tuple[int, str], StateMetaInfo]) -> None:
    offsets: dict[int, list[int]] = {}
    for subtask_index, offset in elements:
        offsets.setdefault(subtask_index, []).append(offset)
    for subtask_index, chosen in offsets.items():
        receiver[subtask_index, name] = StateMetaInfo(name, Mode.SPLIT_DISTRIBUTE, tuple(chosen))


def _deal_union(parts_by_name: dict[str, list[_Part]], dealt: _Dealt) -> None:
    for receiver in dealt:
        for name, parts in parts_by_name.items():
            receiver.update({(part.subtask_index, name): part.state for part in parts})


def _deal_broadcast(parts_by_name: dict[str, list[_Part]], dealt: _Dealt) -> None:
    names_by_receiver = [{name for _, name in receiver} for receiver in dealt]
    for name, parts in parts_by_name.items():
        for index, receiver in enumerate(dealt):
            if name in names_by_receiver[index]:
                continue  # unchanged parallelism, and this subtask reported its own copy
            part = parts[index % len(parts)]
            receiver[part.subtask_index, name] = part.state


def _assemble(
    states: dict[tuple[int, str], StateMetaInfo], handles: list[tuple[int, OperatorStateHandle]]
) -> tuple[AssignedOperatorState, ...]:
    """Return the states of a vertex as handles, one per old subtask, in the order of the subtasks."""
    by_subtask: dict[int, list[StateMetaInfo]] = {}
    for (subtask_index, _), state in states.items():
        by_subtask.setdefault(subtask_index, []).append(state)
    return tuple(
        AssignedOperatorState(subtask_index, replace(handle, states=tuple(by_subtask[subtask_index])))
        for subtask_index, handle in handles
        if subtask_index in by_subtask
    )


def _order_of_puts(names: Iterable[str], capacity: int) -> list[str]:
    """Return names in the order of a ``java.util.HashMap`` filled by ``put``: by bucket, then by insertion."""
    name_list = list(names)
    return [name_list[number] for number in hash_map_order([string_hash(name) for name in name_list], capacity)]


def _order_of_computes(calls: list[str]) -> list[str]:
    """Return names in the order of a ``java.util.HashMap`` filled by these calls of ``computeIfAbsent``.

    Such a call inserts a new name at the head of its bucket, and resizes the map for the names of the calls before it.
    """
    size = DEFAULT_HASH_MAP_CAPACITY
    while len(set(calls[:-1])) > size * 3 // 4:
        size *= 2
    newest_first = list(dict.fromkeys(calls))[::-1]
    return sorted(newest_first, key=lambda name: spread(string_hash(name)) & size - 1)
