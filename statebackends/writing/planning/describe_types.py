"""Checks of column types on the driver: whether a column fits a type, and whether its values can be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, fixed_array
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.calendar import millis_of
from pyspark_savepoint.formats.serializers.basic.elements import naming
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.formats.serializers.basic.strings import StringSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.formats.serializers.sql.rowdata import SizedSerializer
from pyspark_savepoint.statebackends.model.descriptors import StateDescriptor, StateKind
from pyspark_savepoint.statebackends.writing.planning.exact_casts import conform_column, form_of

#: Type of any point in time: a TIMESTAMP, or a long of milliseconds.
MOMENT = parse_type("DATE")
TIMESTAMP = "timestamp"


def expect_each_name_once(schema: pa.Schema) -> None:
    """Raise OptionError for names that several columns have."""
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise OptionError(
            "several columns have the same name",
            found=", ".join(map(repr, twice)),
            remedy="drop or rename all but one of them",
        )


def fits(kind: pa.DataType, serializer: TypeSerializer) -> bool:
    """Return whether a serializer can write columns of a type."""
    try:
        form_of(kind, serializer, "value")
    except OptionError:
        return False
    return True


def check_writable(kind: pa.DataType, serializer: TypeSerializer, column: str) -> None:
    """Raise an error if the column's type does not fit, or only the user's code can write such values."""
    opaque = serializer.opaque_parts() or _unwritable(serializer, form_of(kind, serializer, column))
    if not opaque:
        return
    raise UndecodableStateError(
        f"column {column!r}: values of {opaque[0].flink_type} can only be written by the job's own serializer",
        state=column,
        found=opaque[0].snapshot_class,
        remedy="leave the column out, name another type in option 'types', or keep the operator's state as it is: "
        "Savepoint.load(...) passes states that it does not change through as bytes",
    )


def _unwritable(serializer: TypeSerializer, form: pa.DataType) -> list[TypeSerializer]:
    """Return the serializers in a tree that cannot write even an empty column."""
    if is_plain(serializer):
        return []
    at = Cursors(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    nothing = pa.array([], form)
    try:
        serializer.sizes(nothing)
        serializer.encode(nothing, at)
    except UndecodableStateError:
        return [serializer]
    # Rows of SQL are written by their logical types; their RAW values are opaque bytes.
    inner = () if isinstance(serializer, SizedSerializer) else serializer.children
    return [found for child in inner for found in _unwritable(child, child.arrow_type(DecodeOptions()))]


def is_plain(serializer: TypeSerializer) -> bool:
    """Return whether a serializer is of numbers, text, or lists and maps of these: writable without loading kernels."""
    if type(serializer) in (NumberSerializer, StringSerializer):
        return True
    return type(serializer) in (ListSerializer, MapSerializer) and all(map(is_plain, serializer.children))


def expect_column(schema: pa.Schema, column: str, what: str) -> None:
    """Raise an error if a column is missing."""
    if column not in schema.names:
        raise OptionError(f"there is no column {column!r}", expected=what, remedy=did_you_mean(column, schema.names))


def timer_millis(column: pa.Array) -> pa.Array:
    """Return the times of timers as Flink has them, int64: a long unchanged, a TIMESTAMP in milliseconds."""
    with naming(TIMESTAMP):
        return fixed_array(pa.int64(), millis_of(conform_column(column, MOMENT, TIMESTAMP), "timer")[0])


def expect_names(option: str, names: Iterable[str], known: Sequence[str], hint: str = "") -> None:
    """Raise an error if an option names a column that does not exist."""
    for name in names:
        if name not in known:
            raise OptionError(
                f"option {option!r} names column {name!r}, which does not exist",
                remedy=hint + did_you_mean(name, known),
            )


def with_ttl(kind: StateKind, serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of a state with a time to live: every unit is wrapped, once."""
    if kind is StateKind.LIST and isinstance(serializer, ListSerializer):
        return ListSerializer.of(_timed(serializer.element))
    if kind is StateKind.MAP and isinstance(serializer, MapSerializer):
        return MapSerializer.of(serializer.key, _timed(serializer.value))
    return _timed(serializer)


def _timed(serializer: TypeSerializer) -> TypeSerializer:
    return serializer if isinstance(serializer, TtlSerializer) else TtlSerializer.of(serializer)


def access_serializer(state: StateDescriptor) -> TypeSerializer:
    """Return the type of the column of last accesses: a point in time for every unit of the state."""
    if state.kind is StateKind.LIST:
        return ListSerializer.of(MOMENT)
    return MapSerializer.of(state.units[0], MOMENT) if state.kind is StateKind.MAP else MOMENT
