"""States of a plan as they are written: serializers from the plan's types, and the columns of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.statebackends.evolution.shapes import VOID_NAMESPACE, OperatorShape, StateShape
from pyspark_savepoint.statebackends.evolution.state_serializers import serializer_of
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.writing.planning.exact_casts import with_ttl

#: How values are read and written: times as Flink stores them, so that none is lost.
EXACT = DecodeOptions(timestamps="raw")


def key_serializer_of(shape: OperatorShape) -> TypeSerializer:
    """Return the serializer of an operator's keys, which generated code of Flink writes."""
    serializer = parse_type(shape.key_type)
    assert isinstance(serializer, RowDataSerializer)
    return serializer.as_key()


def namespace_of(shape: OperatorShape) -> TypeSerializer:
    """Return the serializer of the namespaces of an operator's states and timers."""
    return NO_NAMESPACE if shape.namespace == VOID_NAMESPACE else parse_type(shape.namespace)


def descriptor_of(state: StateShape, namespace: TypeSerializer, *, timed: bool) -> StateDescriptor:
    """Return the descriptor of a state; ``timed``: rows have times of last access, which a time to live needs."""
    kind = StateKind(state.kind.upper())
    serializer = serializer_of(state)
    if state.ttl:
        serializer = with_ttl(kind, serializer)
    access = state.name + LAST_ACCESS if state.ttl and timed else None
    return StateDescriptor(state.name, kind, serializer, namespace, state.name, access)


@dataclass(frozen=True)
class StateColumns:
    """The columns of a state that is written: its values, and its times of last access."""

    name: str
    kind: pa.DataType
    access: pa.DataType | None = None

    @classmethod
    def of(cls, descriptor: StateDescriptor, shape: StateShape) -> StateColumns:
        """Return the columns of a descriptor."""
        # A sorted map has the rows of a map, and a comparator that no text describes.
        kind = parse_type(shape.value_type.removeprefix("SORTED_")).arrow_type(EXACT)
        if descriptor.last_access is None:
            return cls(descriptor.name, kind)
        access: pa.DataType = pa.int64()
        if descriptor.kind is StateKind.MAP:
            access = pa.map_(kind.key_type, access)
        elif descriptor.kind is StateKind.LIST:
            access = pa.list_(access)
        return cls(descriptor.name, kind, access)

    @property
    def fields(self) -> list[pa.Field]:
        """The columns as fields of a schema."""
        fields = [pa.field(self.name, self.kind)]
        return fields if self.access is None else [*fields, pa.field(self.name + LAST_ACCESS, self.access)]
