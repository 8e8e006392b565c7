"""Types of columns, checked on the driver: what a text names, whether a column fits it, whether it can be written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, TypeNotationError, UndecodableStateError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation import parse_type
from pyspark_savepoint.formats.serializers.rowdata import SizedSerializer
from pyspark_savepoint.statebackends.lossless import form_of


def type_of(text: str, column: str, version: tuple[int, int]) -> TypeSerializer:
    """The type that option ``types`` names for a column."""
    try:
        return parse_type(text, version)
    except TypeNotationError as error:
        error.message = f"option 'types', column {column!r}: {error.message}"
        raise error from None


def fits(kind: pa.DataType, serializer: TypeSerializer) -> bool:
    """Whether columns of a type may be written by a serializer."""
    try:
        form_of(kind, serializer, "value")
    except OptionError:
        return False
    return True


def check_writable(kind: pa.DataType, serializer: TypeSerializer, column: str) -> None:
    """The column's type fits, and values of the serializer can be written at all: those of user code cannot."""
    form = form_of(kind, serializer, column)
    opaque = serializer.opaque_parts() or _unwritable(serializer, form)
    if not opaque:
        return
    raise UndecodableStateError(
        f"column {column!r}: values of {opaque[0].flink_type} can be written by the user's code alone",
        state=column,
        found=opaque[0].snapshot_class,
        remedy="leave the column out, name another type in option 'types', or keep the operator's state as it is: "
        "Savepoint.load(...) passes states that it does not change through as bytes",
    )


def _unwritable(serializer: TypeSerializer, form: pa.DataType) -> list[TypeSerializer]:
    """The serializers in a tree that refuse to write even nothing."""
    at = Cursors(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    nothing = pa.array([], form)
    try:
        serializer.sizes(nothing)
        serializer.encode(nothing, at)
    except UndecodableStateError:
        return [serializer]
    # SQL's rows are written by their logical types, and their raw values are bytes whatever is inside.
    inner = () if isinstance(serializer, SizedSerializer) else serializer.children
    return [found for child in inner for found in _unwritable(child, child.arrow_type(DecodeOptions()))]


def expect_column(schema: pa.Schema, column: str, what: str) -> None:
    """A column that must be there."""
    if column not in schema.names:
        raise OptionError(f"there is no column {column!r}", expected=what, remedy=did_you_mean(column, schema.names))
