"""Lossless conversion of DataFrame columns to the types that a serializer encodes, or an error with column and value.

Most serializers accept a column in several forms: times as timestamps or as the numbers that Flink stores, big numbers
as decimals or as text, rows with or without their kind. These are the forms that the reader returns, so everything that
was read can be written. The form is chosen on the driver by the column's type (:func:`form_of`); values are checked in
the tasks (:func:`conform_column`).

=================================  ==============================================================================
to a                               from
=================================  ==============================================================================
number                             integers of any width, decimals without digits after the point: every value
                                   must fit. FLOAT, DOUBLE: any number that they hold exactly
decimal                            decimals and integers that fit exactly
text, bytes, boolean               the same
timestamp, date, interval          the same; a time zone is that of the session, and does not change the moment
struct with names of its own       structs with the same names, in any order
struct f0, f1, ... (or _1, _2 ..)  structs with these names; any other struct with as many fields, by position
list, map                          lists and maps of types that fit
=================================  ==============================================================================

Checks on the driver, whether a column fits a type and whether its values can be written, are at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    as_python,
    fixed_array,
    list_array,
    map_array,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError, ValueRangeError, did_you_mean
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import naming
from pyspark_savepoint.formats.serializers.basic.strings import StringSerializer
from pyspark_savepoint.formats.serializers.basic.temporal import DATE, DateSerializer, millis_of
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.statebackends.rows.descriptors import StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS, unwrap
from pyspark_savepoint.statebackends.types.type_names import is_variant, spark_type

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

POSITIONAL = re.compile(r"f\d+|_\d+")


def conform_column(column: pa.Array, serializer: TypeSerializer, name: str) -> pa.Array:
    """Convert the column to a form that the serializer encodes; ``name`` is the column's, for errors.

    Raise OptionError if its type never fits, ValueRangeError if one of its values does not.
    """
    kind = form_of(column.type, serializer, name)
    return column if column.type == kind else _cast(column, kind, name)


@lru_cache(maxsize=1024)
def form_of(source: pa.DataType, serializer: TypeSerializer, name: str) -> pa.DataType:
    """Return the form of the serializer's columns to convert a type to; raise OptionError if there is none."""
    return _Choice(serializer.flink_type).choose(source, forms(serializer, source), name)


def forms(serializer: TypeSerializer, source: pa.DataType) -> list[pa.DataType]:
    """Return every column type that the serializer encodes, the reader's default first."""
    decimals = ["auto", "string", *(f"{kind.precision},{kind.scale}" for kind in _decimals(source))]
    types: dict[pa.DataType, None] = {}
    flags = (False, True)
    elements = (True, False) if "STREAM_ELEMENT<" in serializer.flink_type else (True,)
    for internal, times, number, moments, kinds, ttl in product(
        elements, flags, decimals, ("micros", "raw"), flags, flags
    ):
        options = DecodeOptions(moments, number, kinds, ttl=ttl, times=times, internal=internal)
        types[serializer.arrow_type(options)] = None
    return list(types)


def _decimals(kind: pa.DataType) -> list[pa.DataType]:
    """Return the decimal types inside a type."""
    if pa.types.is_decimal128(kind):
        return [kind]
    children = (kind.field(i).type for i in range(kind.num_fields))
    return list(dict.fromkeys(decimal for child in children for decimal in _decimals(child)))


class _Choice:
    """Choice of a type's form among several, part by part."""

    def __init__(self, flink_type: str) -> None:
        self.flink_type = flink_type

    def choose(self, source: pa.DataType, among: list[pa.DataType], path: str) -> pa.DataType:
        """Return the form of one part."""
        if pa.types.is_dictionary(source):
            source = source.value_type
        if pa.types.is_null(source):
            return among[0]
        if source in among:
            return source
        alike = [kind for kind in among if any(of(source) and of(kind) for of in (_is_struct, _is_list, _is_map))]
        if not alike:
            fitting = [kind for kind in among if _fits(source, kind)]
            return fitting[0] if fitting else self.refuse(source, among, path)
        if _is_struct(source):
            return self._struct(source, alike, path)
        if _is_list(source):
            item = self.choose(source.value_type, [kind.value_type for kind in alike], f"{path}.element")
            return pa.list_(pa.field("element", item))
        key = self.choose(source.key_type, [kind.key_type for kind in alike], f"{path}.key")
        return pa.map_(key, self.choose(source.item_type, [kind.item_type for kind in alike], f"{path}.value"))

    def _struct(self, source: pa.StructType, among: list[pa.StructType], path: str) -> pa.DataType:
        matched = [kind for kind in among if places_of(source, kind) is not None]
        if not matched:
            self._refuse_fields(source, among[0], path)
        struct_type = matched[0]
        fields = []
        for field, index in zip(struct_type, places_of(source, struct_type) or [], strict=True):
            kinds = [kind.field(field.name).type for kind in among if kind.get_field_index(field.name) >= 0]
            kind = self.choose(source.field(index).type, kinds, f"{path}.{field.name}")
            fields.append(pa.field(field.name, kind))
        return pa.struct(fields)

    def _refuse_fields(self, source: pa.StructType, target: pa.StructType, path: str) -> NoReturn:
        target_names, source_names = [field.name for field in target], [field.name for field in source]
        missing = [name for name in target_names if name not in source_names]
        strange = [name for name in source_names if name not in target_names]
        if _is_positional(target) or not (missing or strange):
            remedy = f"the type has {len(target_names)} fields, the column {len(source_names)}"
        elif missing and strange:
            remedy = f"field {missing[0]!r} is missing: {did_you_mean(missing[0], strange)}"
        elif missing:
            kind = spark_type(target.field(missing[0]).type)
            remedy = f"field {missing[0]!r} is missing: add it, as CAST(NULL AS {kind}) where there is no value"
        else:
            remedy = f"drop the field {strange[0]!r}, which the type does not have"
        raise OptionError(
            f"the fields of column {path!r} are not those of its type in Flink",
            expected=f"{', '.join(target_names)}  ({self.flink_type})",
            found=", ".join(source_names),
            remedy=remedy,
        )

    def refuse(self, source: pa.DataType, among: list[pa.DataType], path: str) -> NoReturn:
        type_names = list(dict.fromkeys(spark_type(kind) for kind in among))
        column = path.partition(".")[0]
        if any(map(is_variant, among)):
            raise OptionError(
                f"column {path!r} is no VARIANT, which is not written from JSON: that does not tell its types apart",
                expected="variant",
                found=spark_type(source),
                remedy="read the column with option 'variants' = 'variant', and write that",
            )
        raise OptionError(
            f"column {path!r} cannot be written as {self.flink_type}: its type does not fit",
            expected=" or ".join(type_names),
            found=spark_type(source),
            remedy=f"cast it to {type_names[0]}"
            + ("" if column.endswith(LAST_ACCESS) else f", or name another type for {column!r} in option 'types'"),
        )


def places_of(source: pa.StructType, target: pa.StructType) -> list[int] | None:
    """Return the source positions of the target's fields: by name, else by position if names are positional."""
    names = [field.name for field in source]
    target_names = [field.name for field in target]
    if len(names) != len(target_names):
        return None
    for fold in (str, str.casefold):
        folded_names = [fold(name) for name in names]
        if len(set(folded_names)) == len(folded_names) and {fold(name) for name in target_names} == set(folded_names):
            return [folded_names.index(fold(name)) for name in target_names]
    own = [name for name in target_names if not POSITIONAL.fullmatch(name)]
    if not _is_positional(target) or not set(own) <= set(names):
        return None
    rest = (index for index, name in enumerate(names) if name not in own)
    return [names.index(name) if name in own else next(rest) for name in target_names]


def _is_positional(kind: pa.StructType) -> bool:
    """Return whether the names are field numbers, which Flink does not record either; a row's kind has its own."""
    return kind.num_fields > 0 and kind.field(0).name in ("f0", "_1")


def _is(kind: pa.DataType, *ids: int) -> bool:
    return kind.id in ids


def _is_struct(kind: pa.DataType) -> bool:
    return _is(kind, pa.lib.Type_STRUCT)


def _is_map(kind: pa.DataType) -> bool:
    return _is(kind, pa.lib.Type_MAP)


def _is_list(kind: pa.DataType) -> bool:
    return _is(kind, pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST)


def _is_text(kind: pa.DataType) -> bool:
    return _is(kind, pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING, pa.lib.Type_STRING_VIEW)


def _is_bytes(kind: pa.DataType) -> bool:
    return _is(kind, pa.lib.Type_BINARY, pa.lib.Type_LARGE_BINARY, pa.lib.Type_BINARY_VIEW)


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of a type may fit into another."""
    types = pa.types
    if types.is_integer(target):
        return bool(types.is_integer(source) or (types.is_decimal(source) and source.scale <= 0))
    if types.is_floating(target):
        return bool(types.is_floating(source) or types.is_integer(source))
    if types.is_decimal(target):
        return bool(types.is_decimal(source) or types.is_integer(source))
    if types.is_timestamp(target):
        return bool(types.is_timestamp(source)) and (source.tz is None) == (target.tz is None)
    same = (types.is_boolean, _is_text, _is_bytes, types.is_duration, types.is_date, types.is_time)
    return any(is_kind(source) and is_kind(target) for is_kind in same)


def _cast(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """Convert values to another type; raise ValueRangeError for a value that would change."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        return _cast(column.dictionary_decode(), kind, path)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_struct(kind):
        places = places_of(column.type, kind)
        assert places is not None, "the form was chosen for this type"
        children = column.flatten()
        columns = [
            _cast(children[index], field.type, f"{path}.{field.name}")
            for index, field in zip(places, kind, strict=True)
        ]
        return struct_array(kind, columns, len(column), valid_rows(column) if column.null_count else None)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _cast_elements(column, kind, path)
    return _cast_leaf(column, kind, path)


def _cast_elements(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    if not len(column):
        return pa.array([], kind)
    offsets = np.asarray(column.offsets, np.int64)
    counts, low, high = np.diff(offsets), int(offsets[0]), int(offsets[-1])
    valid = valid_rows(column) if column.null_count else None
    if valid is not None and counts[~valid].any():
        # Values hidden under nulls must not be checked.
        return _cast_elements(pa.concat_arrays([column.take(pa.array(np.arange(len(column))))]), kind, path)
    if pa.types.is_list(kind):
        return list_array(kind, counts, _cast(column.values[low:high], kind.value_type, f"{path}.element"), valid)
    keys = _cast(column.keys[low:high], kind.key_type, f"{path}.key")
    items = _cast(column.items[low:high], kind.item_type, f"{path}.value")
    return map_array(kind, counts, keys, items, valid)


def _cast_leaf(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    try:
        result = column.cast(kind)
    except pa.ArrowInvalid as error:
        raise _does_not_fit(column, kind, path, _first_refused(column, kind)) from error
    if pa.types.is_float32(kind) and pa.types.is_float64(column.type):
        changed = pc.and_kleene(pc.not_equal(result.cast(column.type), column), pc.invert(pc.is_nan(column)))
        if pc.any(changed).as_py():
            raise _does_not_fit(column, kind, path, changed.index(True).as_py())
    return result


def _first_refused(column: pa.Array, kind: pa.DataType) -> int:
    """Return the first row whose value cannot be cast, by bisection."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column[low:middle].cast(kind)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _does_not_fit(column: pa.Array, kind: pa.DataType, path: str, row: int) -> ValueRangeError:
    name = path.partition(".")[0]
    return ValueRangeError(
        f"a value of column {path!r} does not fit exactly",
        state=path,
        expected=f"values of {spark_type(kind)}",
        found=f"{as_python(column[row])!r} ({spark_type(column.type)})",
        remedy=f"round or filter such values, or name a wider type for {name!r} in option 'types'",
    )


#: Type of any point in time: a TIMESTAMP, or a long of milliseconds.
MOMENT = DateSerializer.of(DATE)
TIMESTAMP = "timestamp"


def expect_each_name_once(schema: pa.Schema) -> None:
    """Raise OptionError for names that several columns have, or several fields of a struct."""
    _expect_once("several columns have the same name", schema.names)
    for field in schema:
        _expect_each_field_once(field.type, field.name)


def _expect_each_field_once(kind: pa.DataType, path: str) -> None:
    if _is_struct(kind):
        _expect_once(f"several fields of column {path!r} have the same name", [field.name for field in kind])
    for number in range(kind.num_fields):
        part = kind.field(number)
        _expect_each_field_once(part.type, f"{path}.{part.name}" if _is_struct(kind) else path)


def _expect_once(wrong: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise OptionError(
            wrong,
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
    nothing = pa.nulls(1, form).take(pa.nulls(0, pa.int64()))  # pa.array would import pandas
    try:
        serializer.sizes(nothing)
        serializer.encode(nothing, at)
    except UndecodableStateError:
        return [serializer]
    from pyspark_savepoint.formats.serializers.sql.rowdata import SizedSerializer

    # Rows of SQL are written by their logical types; their RAW values are opaque bytes.
    inner = () if isinstance(serializer, SizedSerializer) else serializer.children
    return [part for child in inner for part in _unwritable(child, child.arrow_type(DecodeOptions()))]


def is_plain(serializer: TypeSerializer) -> bool:
    """Return whether a serializer is of numbers, text, or lists and maps of these: writable without loading kernels."""
    return serializer.fold(
        lambda part, inner: (
            type(part) in (NumberSerializer, StringSerializer)
            or (type(part) in (ListSerializer, MapSerializer) and all(inner))
        )
    )


def expect_column(schema: pa.Schema, column: str, what: str) -> None:
    """Raise an error if a column is missing."""
    if column not in schema.names:
        raise OptionError(f"there is no column {column!r}", expected=what, remedy=did_you_mean(column, schema.names))


def timer_millis(column: pa.Array) -> pa.Array:
    """Return the times of timers as Flink has them, int64: a long unchanged, a TIMESTAMP in milliseconds."""
    with naming(TIMESTAMP):
        return fixed_array(pa.int64(), millis_of(conform_column(column, MOMENT, TIMESTAMP), "timer")[0])


def expect_names(option: str, names: Iterable[str], columns: Sequence[str], hint: str = "") -> None:
    """Raise an error if an option names a column that does not exist."""
    for name in names:
        if name not in columns:
            raise OptionError(
                f"option {option!r} names column {name!r}, which does not exist",
                remedy=hint + did_you_mean(name, columns),
            )


def with_ttl(kind: StateKind, serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of a state with a time to live: every unit is wrapped, once."""
    unit = _unit(kind, serializer)
    return serializer if isinstance(unwrap(unit), TtlSerializer) else _of_unit(kind, serializer, TtlSerializer.of(unit))


def without_ttl(kind: StateKind, serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of a state without a time to live: no unit is wrapped."""
    timed = unwrap(_unit(kind, serializer))
    return _of_unit(kind, serializer, timed.value) if isinstance(timed, TtlSerializer) else serializer


def _unit(kind: StateKind, serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer of what has a time to live of its own: an element, the value of an entry, or the value."""
    if kind is StateKind.LIST and isinstance(serializer, ListSerializer):
        return serializer.element
    if kind is StateKind.MAP and isinstance(serializer, MapSerializer):
        return serializer.value
    return serializer


def _of_unit(kind: StateKind, serializer: TypeSerializer, unit: TypeSerializer) -> TypeSerializer:
    if kind is StateKind.LIST and isinstance(serializer, ListSerializer):
        return ListSerializer.of(unit)
    if kind is StateKind.MAP and isinstance(serializer, MapSerializer):
        return MapSerializer.of(serializer.key, unit)
    return unit


def access_serializer(state: StateDescriptor) -> TypeSerializer:
    """Return the type of the column of last accesses: a point in time for every unit of the state."""
    if state.kind is StateKind.LIST:
        return ListSerializer.of(MOMENT)
    return MapSerializer.of(state.units[0], MOMENT) if state.kind is StateKind.MAP else MOMENT
