"""Merge of two operators: the entries of both, undecoded, as one table of entries of the target.

States are matched by name. A state of only one operator is taken over; a state of both must have the same type, and
gets the keys of both. A key that both have in one state is rejected when the savepoint is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.changes import has_channel_state
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.keyed_edits import (
    EditedState,
    all_rows,
    edited_state,
    entries_descriptor,
    has_updates,
    refuse_raw_state,
    renumbered,
    with_states,
)
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, TIMERS, OperatorPlan, PlannedState, StateInput, States
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES, is_timer
from pyspark_savepoint.statebackends.types.unify import merge_registrations, merge_serializers
from pyspark_savepoint.statebackends.writing.entry_encoder import RemapStateIds
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES as ENTRIES_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec


def merged_operator(engine: Engine, source: OperatorPlan, into: OperatorPlan) -> OperatorPlan:
    """Return the target with the keyed state and timers of the source added; no job runs yet."""
    source, into = with_states(source), with_states(into)
    _check(source, into)
    taken, own = edited_state(engine, source), edited_state(engine, into)
    if taken is None:
        return into
    metas = list(own.header.states) if own is not None else []
    for meta in taken.header.states:
        same = next((m for m in metas if _identity(m) == _identity(meta)), None)
        if same is None:
            metas.append(meta)
            continue
        both = merge_registrations((same, meta))
        if both is None:
            raise OptionError(
                "both operators have a state with this name, but of different types",
                operator=f"{source.label} and {into.label}",
                state=meta.name,
                remedy=f"rename one of them first: rename_state({source.label!r}, {meta.name!r}, ...)",
            )
        metas[metas.index(same)] = both
    header = KeyedBackendHeader(into.compressed, _key_of_both(source, into), tuple(metas))
    bases, rest = _merged(engine, (into, source), header)
    state_input = StateInput(
        all_rows([_renumbered(one, header) for one in (own, taken) if one is not None]),
        WriteSpec(table=ENTRIES_TABLE),
        entries_descriptor(header),
        header,
        bases,
        all_rows(rest) if rest else None,
    )
    planned = [PlannedState(TIMERS if is_timer(m) else KEYED, m, m.name, len(into.inputs)) for m in metas]
    states = States((*planned, *into.of_kind(OPERATOR)))
    return replace(
        into,
        states=states,
        inputs=(*into.inputs, state_input),
        key_serializer=header.key_serializer,
        edited=into.edited | {KEYED, TIMERS},
        checks=(*into.earlier_checks, *source.earlier_checks),
    )


def _check(source: OperatorPlan, into: OperatorPlan) -> None:
    both = f"{source.label} and {into.label}"
    if source.identifier.operator_id == into.identifier.operator_id:
        raise OptionError("an operator cannot be merged with itself", operator=source.label)
    if source.key_serializer is None:
        raise StateNotFoundError("the operator has no keyed state to merge", operator=source.label)
    if source.of_kind(OPERATOR):
        names = [state.name for state in source.of_kind(OPERATOR)]
        raise UnsupportedStateError(
            "the operator also has operator state, which a merge would lose: only keyed state and timers are merged",
            operator=source.label,
            found=", ".join(names),
            remedy="copy it with with_list_state, with_union_state or with_broadcast_state if it is needed, "
            f"then remove_state({source.label!r}, {names[0]!r})",
        )
    if source.base is not None:
        _refuse_rest(source, source.base.operator)
    _key_of_both(source, into)
    if source.max_parallelism != into.max_parallelism:
        raise OptionError(
            "the two operators have different max parallelisms",
            operator=both,
            expected=into.max_parallelism,
            found=source.max_parallelism,
            remedy="call with_max_parallelism(...) first: it gives all operators the same",
        )
    for plan in (source, into):
        refuse_raw_state(plan, "merged")
        if plan.base is not None and has_channel_state(plan.base.operator):
            raise UnsupportedStateError(
                "the checkpoint has in-flight records, which belong to channels of the original operators",
                path=plan.base.snapshot.path,
                operator=plan.label,
                remedy="start from a savepoint or an aligned checkpoint: they have no such records",
            )


def _refuse_rest(source: OperatorPlan, operator: OperatorState) -> None:
    """Raise an error if the source has state that is neither keyed nor operator state, which a merge would lose."""
    if operator.coordinator_state is not None:
        what, remedy = "coordinator state", f"with_coordinator_state({source.label!r}, None) drops it first"
    elif any(subtask.raw_operator_state for subtask in operator.subtasks.values()):
        what, remedy = (
            "raw operator state",
            "table raw_operator_state shows it; only the operator itself can restore it",
        )
    else:
        return
    raise UnsupportedStateError(
        f"the operator also has {what}, which a merge would lose: only keyed state and timers are merged",
        operator=source.label,
        remedy=remedy,
    )


def _key_of_both(source: OperatorPlan, into: OperatorPlan) -> TypeSerializer:
    assert source.key_serializer is not None
    if into.key_serializer is None:
        return source.key_serializer
    serializer = merge_serializers((into.key_serializer, source.key_serializer))
    if serializer is None:
        raise OptionError(
            "the two operators have keys of different types",
            operator=f"{source.label} and {into.label}",
            expected=into.key_serializer.flink_type,
            found=source.key_serializer.flink_type,
        )
    return serializer


def _identity(meta: StateMetaInfoSnapshot) -> tuple[str, bool]:
    return meta.name, is_timer(meta)


def _merged(
    engine: Engine, plans: Sequence[OperatorPlan], header: KeyedBackendHeader
) -> tuple[tuple[SavepointReadOptions, ...], list[Rows]]:
    """Return what writing tasks merge: reads of existing entries, and other rows; nothing if keys go."""
    if any(plan.deletions or has_updates(plan) for plan in plans):
        return (), []
    edits = [edited for plan in plans if (edited := edited_state(engine, plan, merges=True)) is not None]
    bases = [renumbered(base, _numbers(one, header), len(header.states)) for one in edits for base in one.bases]
    return tuple(bases), [_renumbered(one, header) for one in edits if one.rows is not None] if bases else []


def _numbers(edited: EditedState, header: KeyedBackendHeader) -> tuple[int, ...]:
    """Return the numbers that the states have in the common header."""
    numbers = {_identity(meta): number for number, meta in enumerate(header.states)}
    return tuple(numbers[_identity(meta)] for meta in edited.header.states)


def _renumbered(edited: EditedState, header: KeyedBackendHeader) -> Rows:
    """Return entries with the numbers that their states have in the common header."""
    task = RemapStateIds(entries_descriptor(edited.header), _numbers(edited, header), with_keys=False)
    assert edited.rows is not None
    return edited.rows.mapped(task, ENTRIES)
