"""Descriptor of rows that are written as entries: their columns, and the serializers of the states that they go to."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.statebackends.model.descriptors import (
    NO_NAMESPACE,
    KeyedDescriptor,
    StateDescriptor,
    StateKind,
)
from pyspark_savepoint.statebackends.model.state_column import unwrap
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec


def entry_columns(descriptor: KeyedDescriptor, numbers: Mapping[str, int]) -> tuple[tuple[int, str, str | None], ...]:
    """Return the columns of the states that have a number, as ``WriteSpec.entry_columns`` has them."""
    states = [(numbers[state.name], state) for state in descriptor.states if state.name in numbers]
    return tuple((number, state.column, state.last_access) for number, state in states)


def described_entries(spec: WriteSpec, header: KeyedBackendHeader) -> KeyedDescriptor:
    """Return the descriptor of rows whose columns are those of ``spec.entry_columns``, with the header's serializers.

    Raises:
        ValueError: If one of the states is of a kind that rows are not written to.

    """
    states = []
    for number, column, last_access in spec.entry_columns:
        meta = header.states[number]
        kind, serializer = StateKind(meta.state_type), unwrap(meta.value_serializer)
        states.append(StateDescriptor(meta.name, kind, serializer, NO_NAMESPACE, column, last_access))
    return KeyedDescriptor(
        spec.key, header.key_serializer, tuple(states), key_group=spec.key_group, composite=spec.composite_key
    )
