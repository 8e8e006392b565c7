"""Keyed state of an operator before it is edited: its states over all files, with one registration of each.

A rewritten operator has the same header in all of its files. Subtasks of one job register the same states with the same
serializers. If subtasks met different subclasses of a POJO, the combined snapshot lists all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.runtime.operators import TimerSerializer
from pyspark_savepoint.statebackends.rows.entry_bytes import is_timer
from pyspark_savepoint.statebackends.types.unify import merge_registrations, merge_serializers

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue
    from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

StateId = tuple[str, bool]


@dataclass(frozen=True)
class KeyedStates:
    """Keyed states and timers of an operator, by name and whether they are timers.

    ``raw_timers``: some timers are raw keyed state.
    """

    headers: OperatorHeaders
    metas: dict[StateId, StateMetaInfoSnapshot]
    key_serializer: TypeSerializer | None
    compressed: bool
    raw_timers: bool

    @classmethod
    def of(cls, opened: OpenOperator, queues: Sequence[TimerQueue] | None = None) -> KeyedStates:
        """Combine the headers of all files, and the ``queues`` of timers in raw keyed state, which are read if None."""
        headers, operator = opened.keyed, opened.operator
        metas = {state: _one(registrations, operator) for state, registrations in headers.metas().items()}
        queues = opened.raw_queues() if queues is None else queues
        for queue in queues:
            metas.setdefault((queue.state_name, True), timer_meta(queue))
        keys = headers.key_serializers or [queue.key for queue in queues]
        compressed = any(header.compressed for header in headers.headers)
        return cls(headers, metas, _one_key(keys, operator) if keys else None, compressed, bool(opened.raw_timers))


def timer_meta(queue: TimerQueue) -> StateMetaInfoSnapshot:
    """Return the registration that timers of raw keyed state get in a canonical savepoint."""
    serializer = TimerSerializer.of(queue.key, queue.namespace)
    values = {"VALUE_SERIALIZER": serializer}
    return StateMetaInfoSnapshot(queue.state_name, BackendStateType.PRIORITY_QUEUE, {}, values)


def header_of_states(
    key: TypeSerializer, metas: Sequence[StateMetaInfoSnapshot], compressed: bool, operator: str
) -> KeyedBackendHeader:
    """Return the header of files with these states; raise an error if two have the same name."""
    seen: set[StateId] = set()
    for meta in metas:
        state = (meta.name, is_timer(meta))
        if state in seen:
            raise UnsupportedStateError("two states have the same name", operator=operator, state=meta.name)
        seen.add(state)
    return KeyedBackendHeader(compressed, key, tuple(metas))


def _one(metas: Sequence[StateMetaInfoSnapshot], operator: OperatorState) -> StateMetaInfoSnapshot:
    common = merge_registrations(metas)
    if common is None:
        other = next(meta for meta in metas if merge_registrations((metas[0], meta)) is None)
        raise _differ(metas[0].name, operator, *map(_in_words, (metas[0], other)))
    return common


def _in_words(meta: StateMetaInfoSnapshot) -> str:
    return " ".join([meta.state_type, *(serializer.flink_type for serializer in meta.serializers.values())])


def _one_key(keys: Sequence[TypeSerializer], operator: OperatorState) -> TypeSerializer:
    common = merge_serializers(keys)
    if common is None:
        other = next(key for key in keys if merge_serializers((keys[0], key)) is None)
        raise _differ("key", operator, keys[0].flink_type, other.flink_type)
    return common


def _differ(state: str, operator: OperatorState, one: str, other: str) -> UnsupportedStateError:
    return UnsupportedStateError(
        "subtasks of the operator recorded different serializers for one state, so its entries cannot be in one file",
        operator=operator.label,
        state=state,
        found=one if one == other else f"{one} and {other}",
        remedy="read the state and write it to a new savepoint with one type (option 'types'); operators that are not "
        "edited stay as they are",
    )
