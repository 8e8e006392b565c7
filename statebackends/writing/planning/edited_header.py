"""Keyed state of an operator before it is edited: its states over all files, with one registration of each.

A rewritten operator has the same header in all of its files. Subtasks of one job register the same states with the same
serializers. If subtasks met different subclasses of a POJO, the combined snapshot lists all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.runtime.timers_and_sinks import TimerSerializer
from pyspark_savepoint.statebackends.model.entry_bytes import is_timer
from pyspark_savepoint.statebackends.model.timer_queue import TimerQueue
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
    def of(cls, opened: OpenOperator) -> KeyedStates:
        """Combine the headers of all files."""
        headers, operator = opened.keyed, opened.operator
        metas = {state: _one(found, operator) for state, found in headers.metas().items()}
        queues = opened.raw_queues(DecodeOptions(timestamps="raw"))
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
    first = metas[0]
    for other in metas[1:]:
        if (other.kind, dict(other.options), set(other.serializers)) != (
            first.kind,
            dict(first.options),
            set(first.serializers),
        ):
            raise _differ(first.name, operator, first.state_type, other.state_type)
        joined = {
            role: _joined(serializer, other.serializers[role], first.name, operator)
            for role, serializer in first.serializers.items()
        }
        first = replace(first, serializers=joined)
    return first


def _one_key(keys: Sequence[TypeSerializer], operator: OperatorState) -> TypeSerializer:
    first = keys[0]
    for other in keys[1:]:
        first = _joined(first, other, "key", operator)
    return first


def _joined(one: TypeSerializer, other: TypeSerializer, state: str, operator: OperatorState) -> TypeSerializer:
    """Return the serializer that reads values of both."""
    if one == other:
        return one
    if isinstance(one, PojoSerializer) and isinstance(other, PojoSerializer):
        known = {member.name for member in one.others}
        more = tuple(member for member in other.others if member.name not in known)
        if replace(one, others=()) == replace(other, others=()):
            return replace(one, others=one.others + more)
    if isinstance(one, CompositeSerializer) and isinstance(other, CompositeSerializer):
        alike = replace(one, nested=()) == replace(other, nested=())
        if alike and len(one.nested) == len(other.nested):
            pairs = zip(one.nested, other.nested, strict=True)
            return replace(one, nested=tuple(_joined(a, b, state, operator) for a, b in pairs))
    raise _differ(state, operator, one.flink_type, other.flink_type)


def _differ(state: str, operator: OperatorState, one: str, other: str) -> UnsupportedStateError:
    return UnsupportedStateError(
        "subtasks of the operator recorded different serializers for one state, so its entries cannot be in one file",
        operator=operator.label,
        state=state,
        found=one if one == other else f"{one} and {other}",
        remedy="restore the job and take a savepoint of it, in which all subtasks register the same; "
        "operators that are not edited stay as they are",
    )
