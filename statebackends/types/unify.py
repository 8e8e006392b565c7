"""One serializer for the values of a state, and one type for its column, where subtasks recorded others.

A subtask records a subclass of a POJO that is not registered only if it wrote a value of it, so that lists of
subclasses differ between subtasks, at any depth. Values name such a subclass, so the serializer with the subclasses of
all reads the values of each. Reads, edits, checks and merges of operators use the same one.
Flink: ``PojoSerializer#getSubclassSerializer``, ``PojoSerializerSnapshot``.

Where serializers differ in more than that, the same state may have more fields in one file than in another. The
column's type is the union; each file's arrays are converted to it, with nulls for missing fields. Any other difference
is an error, not a cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Origin, list_array, map_array, struct_array, valid_rows
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.statebackends.types.serializer_parts import with_parts


def merge_serializers(serializers: Iterable[TypeSerializer]) -> TypeSerializer | None:
    """Return the serializer that reads the values of all; None if they differ in more than POJO subclasses.

    Args:
        serializers: At least one serializer of the same values.

    Returns:
        The serializer, the first one if all are equal.

    Example::

        merge_serializers([header.key_serializer for header in headers])

    """
    first, *others = serializers
    common: TypeSerializer | None = first
    for other in others:
        common = None if common is None else _united(common, other)
    return None if common is None else _normalized(common)


def merge_registrations(metas: Sequence[StateMetaInfoSnapshot]) -> StateMetaInfoSnapshot | None:
    """Return one registration for those of several subtasks; None if they differ in more than POJO subclasses.

    Args:
        metas: The registrations of a state, at least one.

    Returns:
        The registration, the first one if all are equal.

    """
    first = metas[0]
    # There may be 2,000 states, each of which all subtasks register in the same way.
    different = [first, *(meta for meta in metas if meta is not first and meta != first)]
    if any(_outside(meta) != _outside(first) for meta in different[1:]):
        return None
    serializers: dict[str, TypeSerializer] = {}
    for role in first.serializers:
        one = merge_serializers([meta.serializers[role] for meta in different])
        if one is None:
            return None
        if one is not first.serializers[role]:
            serializers[role] = one
    return replace(first, serializers={**first.serializers, **serializers}) if serializers else first


def _outside(meta: StateMetaInfoSnapshot) -> Any:
    return meta.name, meta.kind, dict(meta.options), set(meta.serializers)


def _united(one: Any, other: Any) -> Any:
    """Return the part of a serializer that both stand for, or None."""
    if one == other:
        return one
    if isinstance(one, tuple) and isinstance(other, tuple):
        return _all(_united(*pair) for pair in zip(one, other, strict=True)) if len(one) == len(other) else None
    if type(one) is not type(other):
        return None
    if isinstance(one, PojoSerializer):
        return _united_pojo(one, other)
    if isinstance(one, Member):
        serializer = _united(one.serializer, other.serializer)
        alike = (one.name, one.key) == (other.name, other.key)
        return replace(one, serializer=serializer) if alike and serializer is not None else None
    if not isinstance(one, TypeSerializer):
        return None
    parts = {
        attribute.name: _united(getattr(one, attribute.name), getattr(other, attribute.name))
        for attribute in fields(one)
    }
    changed = {name: value for name, value in parts.items() if value != getattr(one, name)}
    return None if None in changed.values() else replace(one, **changed)


def _united_pojo(one: PojoSerializer, other: PojoSerializer) -> PojoSerializer | None:
    if one.class_name != other.class_name:
        return None
    own = _united(one.fields, other.fields)
    # Values refer to registered subclasses by their positions.
    count = min(len(one.registered), len(other.registered))
    registered = _united(one.registered[:count], other.registered[:count])
    others = _united_subclasses(one.others, other.others)
    inferred = _united_subclasses(one.inferred, other.inferred)
    if own is None or registered is None or others is None or inferred is None:
        return None
    more = one.registered[count:] + other.registered[count:]
    described = {member.name for member in (*registered, *more, *others)}
    inferred = tuple(member for member in inferred if member.name not in described)
    return replace(one, fields=own, registered=registered + more, others=others, inferred=inferred)


def _united_subclasses(one: tuple[Member, ...], other: tuple[Member, ...]) -> tuple[Member, ...] | None:
    """Return subclasses by their names, in the order of first appearance."""
    by_name = {member.name: member for member in one}
    for member in other:
        by_name[member.name] = _united(by_name.get(member.name, member), member)
    return _all(by_name.values())


def _all(parts: Iterable[Any]) -> tuple[Any, ...] | None:
    collected = tuple(parts)
    return None if any(part is None for part in collected) else collected


def _normalized(serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer with one serializer for each field that the classes of a POJO inherit.

    Every class records the subclasses that it met in a field of its superclass, so that the same field would be two
    columns.
    """
    evened = with_parts(serializer, lambda part, _: _normalized(part))
    if not isinstance(evened, PojoSerializer) or not evened.subclasses:
        return evened
    same: dict[tuple[str, bytes | None], Any] = {}
    for member in _all_fields(evened):
        if member.key is None:
            continue
        key = (member.name, member.key)
        replacement = same.get(key, member)
        same[key] = None if replacement is None else _united(replacement, member)
    return _with_fields(evened, {key: member for key, member in same.items() if member is not None})


def _all_fields(pojo: PojoSerializer) -> Iterator[Member]:
    yield from pojo.fields
    for member in pojo.subclasses:
        if isinstance(member.serializer, PojoSerializer):
            yield from _all_fields(member.serializer)


def _with_fields(pojo: PojoSerializer, same: dict[tuple[str, bytes | None], Member]) -> PojoSerializer:
    def subclass(member: Member) -> Member:
        if not isinstance(member.serializer, PojoSerializer):
            return member
        inner = _with_fields(member.serializer, same)
        return member if inner is member.serializer else replace(member, serializer=inner)

    own = tuple(same.get((member.name, member.key), member) for member in pojo.fields)
    parts = (pojo.registered, pojo.others, pojo.inferred)
    registered, others, inferred = (tuple(map(subclass, members)) for members in parts)
    if (own, registered, others, inferred) == (pojo.fields, *parts):
        return pojo
    return replace(pojo, fields=own, registered=registered, others=others, inferred=inferred)


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
    existing = [struct.field(name) for struct in (a, b) if struct.get_field_index(name) >= 0]
    if len(existing) == 1:
        return existing[0]
    return existing[0].with_type(_unify(existing[0].type, existing[1].type, state))


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
