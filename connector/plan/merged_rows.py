"""Rows of one table that are merged with the remaining state of an operator as they are.

The engine moves the columns that were given, and the task that writes encodes them. All other edits are encoded
before they are moved (``keyed_edits``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.plan.engine import Rows
from pyspark_savepoint.plan.keyed_edits import base_options, can_merge
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, OperatorPlan, PlannedState
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.writing.planning.describe_state import described_entries, entry_columns
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES, KEYED_STATE, WriteSpec


@dataclass(frozen=True)
class RowsToMerge:
    """Rows, how they are written, and the options that read the entries with which they are merged."""

    rows: Rows
    spec: WriteSpec
    descriptor: KeyedDescriptor
    header: KeyedBackendHeader
    base: dict[str, str]


def merged_rows(plan: OperatorPlan) -> RowsToMerge | None:
    """Return the only edit of an operator's keyed state if it is a table of keyed state; None for all others."""
    states = plan.of_kind(KEYED, TIMERS)
    sources = {state.put for state in states}
    if len(sources) != 2 or -1 not in sources or plan.deletions or plan.key_serializer is None or not can_merge(plan):
        return None
    number = max(sources)
    put = plan.puts[number]
    if put.spec.table != KEYED_STATE or not isinstance(put.descriptor, KeyedDescriptor):
        return None
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, tuple(state.meta for state in states))
    given = put.descriptor
    spec = WriteSpec(
        table=ENTRIES,
        compression="snappy" if plan.compressed else "none",
        key=given.key_columns,
        key_group=given.key_group,
        composite_key=given.composite,
        entry_columns=entry_columns(given, {s.origin: i for i, s in enumerate(states) if s.put == number}),
        sort_memory=put.spec.sort_memory,
        serializers=put.spec.serializers,
    )
    if not _same(given, spec, header, states, number):
        return None
    columns = [*given.key_columns, *([given.key_group] if given.key_group is not None else [])]
    columns += [name for _, *names in spec.entry_columns for name in names if name is not None]
    return RowsToMerge(put.rows.select(*columns), spec, given, header, base_options(plan, states, with_keys=False))


def _same(
    given: KeyedDescriptor, spec: WriteSpec, header: KeyedBackendHeader, states: list[PlannedState], put: int
) -> bool:
    """Return whether the serializers of the header encode the rows exactly as those that were determined for them."""
    names = {state.origin: state.name for state in states if state.put == put}
    wanted = tuple(replace(state, name=names[state.name]) for state in given.states if state.name in names)
    try:
        return described_entries(spec, header) == replace(given, states=wanted)
    except ValueError:
        return False
