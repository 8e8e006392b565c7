"""Descriptors of list, union and broadcast state from a DataFrame's schema and options: all checks without data."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor
from pyspark_savepoint.statebackends.model.state_column import unwrap
from pyspark_savepoint.statebackends.writing.planning.describe_types import (
    check_writable,
    expect_column,
    expect_each_name_once,
    expect_names,
)
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer, parts_of
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes, inference_of
from pyspark_savepoint.statebackends.writing.planning.write_request import BROADCAST, LIST, WriteSpec

KEY, VALUE = "key", "value"


def describe_operator_state(
    schema: pa.Schema, request: WriteSpec, types: OperatorTypes | None = None
) -> OperatorStateDescriptor:
    """Describe list, union or broadcast state; ``types`` are those to keep, else those of option ``typesFrom``."""
    name = request.state
    if not name:
        raise OptionError(
            "the name of the operator state is missing",
            remedy="set option('state', ...) to the name in the job's state descriptor",
        )
    expect_each_name_once(schema)
    types = types or OperatorTypes.named_by(request)
    types = types.described(request.job_classes) if types is not None else None
    there = types.operator_states.get(name) if types is not None else None
    state_kind = request.kind or (there.state_type.lower() if there is not None else kind_by_columns(schema.names))
    columns = (KEY, VALUE) if state_kind == BROADCAST else _only_column(schema, state_kind)
    for column in columns:
        expect_column(schema, column, "key and value of a broadcast state" if len(columns) == 2 else "the elements")
    others = [column for column in schema.names if column not in columns]
    if others:
        raise OptionError(
            f"column {others[0]!r} does not belong to a {state_kind} state",
            expected=f"columns {', '.join(columns)}",
            remedy="drop it, or put all columns into one: struct(*)",
        )
    expect_names("types", request.types, [path for field in schema for path in parts_of(field.type, field.name)])
    roles = {KEY: "KEY_SERIALIZER", VALUE: "VALUE_SERIALIZER"}
    found = {}
    for column in columns:
        kind = schema.field(column).type
        role = roles[column if len(columns) == 2 else VALUE]
        if types is None or any(path in request.types for path in parts_of(kind, column)):
            serializer = default_serializer(
                kind, column, request.restoring_flink, request.types, inference_of(request), request.serializers
            )
        else:
            serializer = unwrap(types.operator_state(name).serializers[role])
        check_writable(kind, serializer, column)
        found[role] = serializer
    return OperatorStateDescriptor(
        name,
        Mode.of(state_kind.upper()),
        found["VALUE_SERIALIZER"],
        found.get("KEY_SERIALIZER"),
        columns,
    )


def kind_by_columns(columns: Collection[str]) -> str:
    """Return the kind of an operator state by its columns as they are read.

    >>> kind_by_columns(["key", "value"]), kind_by_columns(["value"])
    ('broadcast', 'list')
    """
    return BROADCAST if set(columns) == {KEY, VALUE} else LIST


def _only_column(schema: pa.Schema, kind: str) -> tuple[str, ...]:
    if len(schema.names) == 1:
        return (schema.names[0],)
    if VALUE in schema.names:
        return (VALUE,)
    raise OptionError(
        f"a {kind} state is written from one column",
        found=f"columns {', '.join(map(repr, schema.names))}",
        remedy="df.select('x'), or df.select(struct('*').alias('value')) for elements of several fields",
    )
