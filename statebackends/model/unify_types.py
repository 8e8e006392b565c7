"""Common type for a column whose files have slightly different types.

Subtasks write their own serializer snapshots, and subclasses of a POJO are recorded only in subtasks that used them.
The same state may thus have more fields in one file than in another. The column's type is the union; each file's arrays
are converted to it, with nulls for missing fields. Any other difference is an error, not a cast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Origin, list_array, map_array, struct_array, valid_rows
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UnsupportedStateError


def unify(types: Sequence[pa.DataType], state: str) -> pa.DataType:
    """Return the type that holds all of them."""
    result = types[0]
    for other in types[1:]:
        result = _unify(result, other, state)
    return result


def _unify(a: pa.DataType, b: pa.DataType, state: str) -> pa.DataType:
    if a.equals(b):
        return a
    if pa.types.is_struct(a) and pa.types.is_struct(b) and _distinct(a) and _distinct(b):
        names = list(dict.fromkeys([field.name for field in a] + [field.name for field in b]))
        # The class of a POJO is always the last field, even if one file adds fields.
        names.sort(key=lambda name: name == "__class")
        return pa.struct([_field(name, a, b, state) for name in names])
    if pa.types.is_map(a) and pa.types.is_map(b):
        return pa.map_(_unify(a.key_type, b.key_type, state), _unify(a.item_type, b.item_type, state))
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(pa.field(a.value_field.name, _unify(a.value_type, b.value_type, state)))
    raise UnsupportedStateError(
        f"subtasks wrote state {state!r} with different types",
        state=state,
        expected=str(a),
        found=str(b),
        remedy=f"option('raw', '{state}') reads it as BINARY",
    )


def _distinct(struct: pa.StructType) -> bool:
    """Return whether the field names are distinct."""
    names = [field.name for field in struct]
    return len(set(names)) == len(names)


def _field(name: str, a: pa.StructType, b: pa.StructType, state: str) -> pa.Field:
    there = [struct.field(name) for struct in (a, b) if struct.get_field_index(name) >= 0]
    if len(there) == 1:
        return there[0]
    return there[0].with_type(_unify(there[0].type, there[1].type, state))


def conform(array: pa.Array, target: pa.DataType, origin: Origin) -> pa.Array:
    """Convert an array to a target type that is the union, made by :func:`unify`, of the array's type and others.

    ``origin`` is the array's origin, for errors.
    """
    if array.type.equals(target):
        return array
    if not any(same(array.type) and same(target) for same in (pa.types.is_struct, pa.types.is_map, pa.types.is_list)):
        raise CorruptStateError(
            "a part of the snapshot holds values of another type than its header records",
            expected=str(target),
            found=str(array.type),
            remedy=UNREADABLE,
            **origin.facts(),
        )
    valid = valid_rows(array) if array.null_count else None
    if pa.types.is_struct(target):
        columns = []
        for field in target:
            index = array.type.get_field_index(field.name)
            column = array.field(index) if index >= 0 else pa.nulls(len(array), field.type)
            columns.append(conform(column, field.type, origin))
        return struct_array(target, columns, len(array), valid)
    offsets = np.asarray(array.offsets, np.int64)
    counts = offsets[1:] - offsets[:-1]
    low, high = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(target):
        keys = conform(array.keys[low:high], target.key_type, origin)
        items = conform(array.items[low:high], target.item_type, origin)
        return map_array(target, counts, keys, items, valid)
    return list_array(target, counts, conform(array.values[low:high], target.value_type, origin), valid)
