"""One state's column as entries of the canonical format: composite keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    Flags,
    Longs,
    as_python,
    bool_array,
    filled_values,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import DuplicateKeyError, SavepointError, ValueRangeError
from pyspark_savepoint.formats.keyed.canonical_writer import Entries, read_only
from pyspark_savepoint.formats.serializers.basic.shapes import list_parts, map_parts, pick
from pyspark_savepoint.formats.serializers.runtime.ttl import TTL_FIELDS
from pyspark_savepoint.statebackends.rows.descriptors import StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.sorting import order_within

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

DELIMITER = ord(",")
#: Buffer, starts and ends of the rows' sort keys.
KeySpans = tuple[Bytes, Longs, Longs]


class RefusedRow(Exception):  # noqa: N818  (callers that know the keys add the row's key and raise the error)
    """Row whose value cannot be written, with the error."""

    def __init__(self, row: int, error: SavepointError) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error


class RepeatedUserKey(RefusedRow):
    """Map with a repeated user key: the row, and the user key as text."""

    def __init__(self, row: int, user_key: str) -> None:
        error = DuplicateKeyError(
            "a map contains a key twice",
            expected="every key of a map once",
            found=f"{user_key} again",
            remedy="build the map without repeated keys",
        )
        super().__init__(row, error)
        self.user_key = user_key


@dataclass(frozen=True, slots=True)
class StateEntries:
    """Entries in the order of the rows; ``row`` has the row of each, None if every row has exactly one."""

    entries: Entries
    row: Longs | None


def state_entries(state: StateDescriptor, column: pa.Array, access: pa.Array | None, keys: KeySpans) -> StateEntries:
    """Return the entries of a state's column; ``access`` has the last accesses of its values, or is None."""
    if state.kind is StateKind.LIST:
        return _list_entries(state, column, access, keys)
    if state.kind is StateKind.MAP:
        return _map_entries(state, column, access, keys)
    valid = valid_rows(column)
    everywhere = bool(valid.all())
    values = column if everywhere else column.filter(bool_array(valid))
    if access is not None:
        values = with_access(values, pick(access, valid))
    buffer, start, end = encode_column(state.units[0], values)
    if everywhere:
        return StateEntries(Entries(*keys, buffer, start, end), None)
    rows = np.flatnonzero(valid)
    return StateEntries(Entries(keys[0], keys[1][rows], keys[2][rows], buffer, start, end), rows)


def encode_column(
    serializer: TypeSerializer, column: pa.Array, before: int = 0, behind: int = 0
) -> tuple[Bytes, Longs, Longs]:
    """Serialize every row's value with room before and after each; return the buffer and the spans of values."""
    sizes = serializer.sizes(column)
    ends = np.cumsum(sizes + (before + behind)) - behind
    start = ends - sizes
    at = Cursors(np.empty(int(sizes.sum()) + (before + behind) * len(sizes), np.uint8), start.copy(), ends)
    serializer.encode(column, at)
    at.expect_end()
    return at.buffer, start, ends


def with_access(values: pa.Array, access: pa.Array) -> pa.Array:
    """Combine values with their times of last access in the struct that a TTL serializer encodes."""
    fields = [pa.field(name, part.type) for name, part in zip(TTL_FIELDS, (values, access), strict=True)]
    # The offset of a slice would be applied twice in the struct.
    children = [pa.concat_arrays([part]) if part.offset else part for part in (values, access)]
    return struct_array(pa.struct(fields), children, len(values))


def _list_entries(state: StateDescriptor, column: pa.Array, access: pa.Array | None, keys: KeySpans) -> StateEntries:
    nonempty = filled_values(pc.list_value_length(column), np.int32, 0) > 0
    counts, items = list_parts(_present(column, nonempty))
    if access is not None:
        lengths = filled_values(pc.list_value_length(_present(access, nonempty)), np.int32, 0)
        _refuse_unequal(np.flatnonzero(nonempty), counts, lengths)
        items = with_access(items, list_parts(_present(access, nonempty))[1])
    # Every element has room for a comma after it; the one after a list's last element is outside the list's span.
    buffer, start, end = encode_column(state.units[0], items, behind=1)
    buffer[end] = DELIMITER
    last = np.cumsum(counts) - 1
    rows = np.flatnonzero(nonempty)
    spans = (start[last - counts + 1], end[last])
    return StateEntries(Entries(keys[0], keys[1][rows], keys[2][rows], buffer, *spans), rows)


def _present(column: pa.Array, present: Flags) -> pa.Array:
    """Return the lists or maps of some rows; the filter also drops child values hidden under null rows."""
    return column if present.all() else column.filter(bool_array(present))


def _map_entries(state: StateDescriptor, column: pa.Array, access: pa.Array | None, keys: KeySpans) -> StateEntries:
    from pyspark_savepoint.formats.kernels import frames
    from pyspark_savepoint.formats.kernels import keys as kernels

    key_serializer, value_serializer = state.units
    valid = valid_rows(column)
    counts, user_keys, values = map_parts(_present(column, valid))
    if access is not None:
        values = with_access(values, _aligned(access, valid, user_keys, counts))
    row = np.repeat(np.flatnonzero(valid), counts)
    user, user_start, user_end = encode_column(key_serializer, user_keys)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    order = order_within(bounds, user, user_start, user_end)
    user_start, user_end = user_start[order], user_end[order]
    twice = kernels.first_repeated_span(row.astype(np.int32), read_only(user), user_start, user_end)
    if twice >= 0:
        raise RepeatedUserKey(int(row[twice]), repr(as_python(user_keys[int(order[twice])])))
    widths = keys[2][row] - keys[1][row] + user_end - user_start
    key_end = np.cumsum(widths)
    composite = np.empty(int(widths.sum()), np.uint8)
    key_start = key_end - widths
    frames.join_spans(
        read_only(keys[0]), keys[1][row], keys[2][row], read_only(user), user_start, user_end, key_start, composite
    )
    buffer, value_start, value_end = _flagged(value_serializer, values, state.has_ttl)
    spans = (value_start[order], value_end[order])
    return StateEntries(Entries(composite, key_start, key_end, buffer, *spans), row)


def _flagged(serializer: TypeSerializer, values: pa.Array, ttl: bool) -> tuple[Bytes, Longs, Longs]:
    """Serialize values after a null flag; as in Flink, a null is followed by the serializer's form of null, if any.

    With a time to live no value is null: the serializer of the values inside must be able to encode null.
    """
    if ttl or not values.null_count:
        buffer, start, end = encode_column(serializer, values, before=1)
        buffer[start - 1] = 0
        return buffer, start - 1, end
    valid = valid_rows(values)
    buffer, start, end = encode_column(serializer, values.filter(pa.array(valid)), before=1)
    buffer[start - 1] = 0
    null, none = len(buffer), null_value(serializer, values.type)
    starts, ends = np.full(len(values), null, np.int64), np.full(len(values), null + len(none), np.int64)
    starts[valid], ends[valid] = start - 1, end
    return np.concatenate([buffer, none]), starts, ends


def null_value(serializer: TypeSerializer, kind: pa.DataType) -> Bytes:
    """Return a null in a map: the flag, and the serializer's form of null if it has one."""
    try:
        return np.concatenate([np.ones(1, np.uint8), encode_column(serializer, pa.nulls(1, kind))[0]])
    except SavepointError:
        return np.ones(1, np.uint8)


def _refuse_unequal(rows: Longs, values: Longs, times: Longs) -> None:
    """Raise an error if a list has more or fewer times of last access than elements; a NULL has none."""
    unequal = np.flatnonzero(values != times)
    if not len(unequal):
        return
    row = int(unequal[0])
    error = ValueRangeError(
        "the number of last accesses differs from the number of values",
        expected=f"{values[row]}",
        found=f"{times[row]}",
        remedy="give a time for each value, element or map entry, or leave the column out: then the time of writing "
        "is used",
    )
    raise RefusedRow(int(rows[row]), error)


def _aligned(access: pa.Array, present: Flags, user_keys: pa.Array, counts: Longs) -> pa.Array:
    """Return the times of a map of last accesses, which must have the same keys in the same order."""
    given = _present(access, present)
    rows = np.flatnonzero(present)
    lengths, keys, times = map_parts(given)
    _refuse_unequal(rows, counts, np.where(valid_rows(given), lengths, 0))
    if not keys.equals(user_keys):
        pairs = enumerate(zip(keys, user_keys, strict=False))
        first = next((index for index, (given_key, key) in pairs if given_key != key), 0)
        error = ValueRangeError(
            "a map of last accesses has other keys than its map",
            expected="the same keys in the same order",
            remedy="keep both columns as they were read, or leave the last accesses out: then the time of writing is "
            "used",
        )
        raise RefusedRow(int(np.repeat(rows, counts)[first]), error)
    return times
