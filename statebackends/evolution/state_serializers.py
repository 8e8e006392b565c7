"""Serializers of the states of a plan, as Flink makes them from its types."""

from __future__ import annotations

from dataclasses import replace

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import MapSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.external import COUNTS, external_serializer
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.shapes import Layout, StateShape


def serializer_of(state: StateShape) -> TypeSerializer:
    """Return the serializer of a state's values: in views of aggregates, keys and values have serializers of their own.

    A set of DISTINCT values has a number for each, which is never NULL; a view that counts values has no NULL.
    """
    number = LogicalType("BIGINT", nullable=state.layout is Layout.VALUE_COUNTS)
    if state.layout in (Layout.DISTINCT_COUNTS, Layout.DISTINCT_NULL_COUNTS):
        number = COUNTS
    if state.layout in (Layout.DISTINCT_NULLS, Layout.DISTINCT_NULL_COUNTS):
        return external_serializer(number)
    if state.layout not in (Layout.DISTINCT_VALUES, Layout.DISTINCT_COUNTS, Layout.VALUE_COUNTS):
        return parse_type(state.value_type)
    if len(state.columns) != 1:
        raise UnsupportedStateError(
            "a set of DISTINCT values of several columns cannot be made",
            state=state.name,
            remedy="leave the aggregate out of the new query",
        )
    value = state.columns[0].kind
    if state.layout is Layout.VALUE_COUNTS:
        value = replace(value, nullable=False)
    return MapSerializer.of(external_serializer(value), external_serializer(number))
