"""One registered keyed state as a column: from the entries of a block to an Arrow array.

kind                       canonical format                         heap format
VALUE, REDUCING, ...       one entry, the value                     the same
LIST                       one entry, elements joined by one ','    one entry, the whole list
MAP                        one entry per user key: null flag value  one entry, the whole map

Lists and maps are also taken apart: the number of elements of each entry, and the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Longs,
    fixed_array,
    list_array,
    map_array,
    map_type,
    placed,
    scatter,
)
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, SortedRows, binary_column
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged
from pyspark_savepoint.formats.serializers.layout import count_until_end, decode_elements, locate
from pyspark_savepoint.statebackends.rows.rows import Rows, RowsOfBlock
from pyspark_savepoint.statebackends.types.unify import conform

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

Block = KeyedBlock | SortedRows
#: Bytes between two elements of a list in the canonical format.
DELIMITER = 1
LAST_ACCESS = "__last_access"
TTL_SNAPSHOT = "TtlStateFactory$TtlSerializerSnapshot"
TTL_AWARE_SNAPSHOT = "TtlAwareSerializerSnapshot"
LIST_INDEX, LIST_VALUE, MAP_KEY, MAP_VALUE = "list_index", "list_value", "map_key", "map_value"


def unwrap(serializer: TypeSerializer) -> TypeSerializer:
    """Return the serializer inside TtlAwareSerializer, which adds nothing to the bytes."""
    while serializer.snapshot_class.endswith(TTL_AWARE_SNAPSHOT) and serializer.children:
        serializer = serializer.children[0]
    return serializer


def unit_serializers(meta: StateMetaInfoSnapshot) -> tuple[TypeSerializer, ...]:
    """Return the serializers of one unit of the state: the value; a list's element; a map's user key and value."""
    value = unwrap(meta.value_serializer)
    if meta.state_type == "LIST":
        if meta.kind is BackendStateType.KEY_VALUE_V2:
            return (value,)
        children = value.children
        return (unwrap(children[0]),) if len(children) == 1 else (value,)
    if meta.state_type == "MAP":
        if "USER_KEY_SERIALIZER" in meta.serializers:
            return unwrap(meta.serializers["USER_KEY_SERIALIZER"]), value
        children = value.children
        if len(children) == 2:
            return unwrap(children[0]), unwrap(children[1])
        raise UndecodableStateError(
            f"map state {meta.name!r} has a serializer from which its keys and values cannot be separated",
            state=meta.name,
            found=value.flink_type,
            remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
        )
    return (value,)


def value_type_of(meta: StateMetaInfoSnapshot) -> str:
    """Return the type of a state's values; states of Flink's asynchronous API register their parts alone."""
    if meta.kind is not BackendStateType.KEY_VALUE_V2 or meta.state_type not in ("LIST", "MAP"):
        return meta.value_serializer.flink_type
    return f"{meta.state_type}<{', '.join(unit.flink_type for unit in unit_serializers(meta))}>"


def has_ttl(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether every unit carries the time of its last access."""
    return unit_serializers(meta)[-1].snapshot_class.endswith(TTL_SNAPSHOT)


def binary_spans(block: Block, start: Longs, end: Longs) -> pa.Array:
    """Return spans of a block as BINARY."""
    return binary_column(block.buffer, start, end)


def decode_whole(serializer: TypeSerializer, at: Cursors) -> pa.Array:
    """Decode values that fill their spans, so that Kryo can return opaque ones as bytes."""
    from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

    if isinstance(serializer, KryoSerializer):
        return serializer.decode(at, whole=True)
    return serializer.decode(at)


@lru_cache(maxsize=1024)
def _kryo_parts(serializer: TypeSerializer) -> tuple[KryoSerializer, ...]:
    from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

    return tuple(part for part in serializer.all_parts() if isinstance(part, KryoSerializer))


def decode_either(serializer: TypeSerializer, at: Cursors, decode: Callable[[Cursors], pa.Array]) -> pa.Array:
    """Decode values that fill their spans, whichever fields of inner classes Kryo 2 wrote.

    The form in which all values take all of their bytes is right. They are decoded in the other form too, unless each
    part shows its own: by an outer object, or by its first object that is none of the first form. If both are right,
    and differ, it is unknown.
    """
    parts = _kryo_parts(serializer) if at.options.kryo == 2 else ()

    def of_form(synthetic: bool) -> tuple[pa.Array, bool]:
        shown: list[bool] = []
        here = replace(at, position=at.position.copy(), options=replace(at.options, synthetic=synthetic, shown=shown))
        column = decode(here)
        here.expect_end()
        return column, all(shown)

    try:
        decoded, is_shown = of_form(True)
    except (CorruptStateError, UndecodableStateError) as error:
        if any(part.has_forms for part in parts):
            try:
                return of_form(False)[0]
            except SavepointError:
                raise error from None
        raise
    if not is_shown and any(part.has_forms for part in parts):
        try:
            other, _ = of_form(False)
        except SavepointError:
            return decoded
        if not decoded.equals(other) and str(decoded.to_pylist()) != str(other.to_pylist()):
            raise UndecodableStateError(
                "Kryo wrote objects of inner classes with their outer objects, or without: both readings are possible",
                **at.origin.facts(int(at.position[0])),
                found=serializer.flink_type,
                remedy="read more values at a time: option('batchSize', ...); or as bytes: option('raw', '<state>')",
            )
    return decoded


@dataclass(frozen=True)
class StateColumn:
    """State of one file and the way it is shown.

    ``raw`` shows it as BINARY, because the user asked for it or it cannot be decoded.
    """

    meta: StateMetaInfoSnapshot
    form: str
    options: DecodeOptions
    raw: bool = False

    @cached_property
    def many(self) -> bool:
        """Return whether a row has many entries."""
        return self.meta.state_type == "MAP" and self.form == CANONICAL

    @cached_property
    def opaque(self) -> list[TypeSerializer]:
        """Return the serializers that make (a part of) the column BINARY."""
        return [part for unit in unit_serializers(self.meta) for part in unit.opaque_parts()]

    @cached_property
    def units(self) -> tuple[TypeSerializer, ...]:
        """Return the serializers of one unit; of values with an opaque part, one that reads what is around it."""
        units = unit_serializers(self.meta)
        if self.form != CANONICAL or self.meta.state_type == "LIST":
            return units
        from pyspark_savepoint.formats.serializers.kryo.described.open_ended import open_ended

        return *units[:-1], open_ended(units[-1]) or units[-1]

    @cached_property
    def is_bytes(self) -> bool:
        """Return whether values are BINARY as a whole."""
        return bool(self._binary)

    @cached_property
    def _binary(self) -> tuple[TypeSerializer, ...]:
        """Return the units whose values are BINARY as a whole: all if asked for, else those whose end is unknown."""
        return tuple(unit for unit in self.units if self.raw or any(not part.delimited for part in unit.opaque_parts()))

    def arrow_type(self) -> pa.DataType:
        """Return the column's type; TTL values are structs if the option `ttl` is set."""
        units = self.units
        types = [pa.binary() if self._as_bytes(unit) else unit.arrow_type(self.options) for unit in units]
        if self.meta.state_type == "MAP" and (self.many or self.raw):
            return map_type(*types)
        if self._binary:
            return pa.binary()
        if self.meta.state_type == "LIST":
            return pa.list_(pa.field("element", types[0]))
        return map_type(*types) if self.meta.state_type == "MAP" else types[0]

    def _as_bytes(self, unit: TypeSerializer) -> bool:
        return bool(self._binary) and any(unit is binary for binary in self._binary)

    def cursors(self, block: Block, start: Longs, end: Longs) -> Cursors:
        """Return cursors over spans of the block; their errors name this state."""
        origin = block.origin.of_state(self.meta.name)
        return Cursors(block.buffer, start.astype(np.int64), end.astype(np.int64), origin, self.options)

    def decode_spans(self, serializer: TypeSerializer, block: Block, start: Longs, end: Longs) -> pa.Array:
        """Decode values that fill their spans."""
        if self._as_bytes(serializer):
            return binary_spans(block, start, end)
        return decode_either(serializer, self.cursors(block, start, end), lambda at: decode_whole(serializer, at))

    def decode_values(self, block: Block, start: Longs, end: Longs) -> pa.Array:
        """Decode values that are one row each."""
        units = self.units
        if self.raw and self.meta.state_type == "MAP":
            return self._raw_maps(block, start, end)
        if self._binary:
            return binary_column(block.buffer, start, end)
        if self.meta.state_type == "LIST" and self.form == CANONICAL:
            counts, elements = self.decode_list(block, start, end)
            return list_array(self.arrow_type(), counts, elements)
        whole = len(units) == 1 and (self.meta.kind is BackendStateType.KEY_VALUE_V2 or self.meta.state_type != "LIST")
        value = units[0] if whole else unwrap(self.meta.value_serializer)
        column = self.decode_spans(value, block, start, end)
        return column if column.type.equals(self.arrow_type()) else conform(column, self.arrow_type(), block.origin)

    def _raw_maps(self, block: Block, start: Longs, end: Longs) -> pa.Array:
        """Return whole maps as BINARY to BINARY, as the entries of the canonical format give them."""
        key, value = unit_serializers(self.meta)
        at = self.cursors(block, start, end)
        counts = read_numbers(at, "read_i32", np.int32, "the number of a map's entries").astype(np.int64)
        wrong = np.flatnonzero((counts < 0) | (counts > at.end - at.position))
        if len(wrong):
            at.fail(int(wrong[0]), "a number of entries that there is room for", int(counts[wrong[0]]))
        starts, stops = locate([key, Flagged(value)], at, counts)
        at.expect_end()
        null = block.buffer[starts[1]] != 0
        present = np.flatnonzero(~null)
        values = scatter(binary_spans(block, starts[1][present] + 1, stops[1][present]), ~null)
        return map_array(self.arrow_type(), counts, binary_spans(block, starts[0], stops[0]), values)

    def decode_list(self, block: Block, start: Longs, end: Longs) -> tuple[Longs, pa.Array]:
        """Decode lists in the canonical format: return the number of elements per list, and all elements."""
        (element,) = unit_serializers(self.meta)

        def decode(at: Cursors) -> pa.Array:
            counts = count_until_end(element, at, DELIMITER)
            self._check_delimiters(at, counts)
            elements = decode_elements(element, at, counts, DELIMITER)
            return list_array(pa.list_(elements.type), counts, elements)

        lists = decode_either(element, self.cursors(block, start, end), decode)
        # Not by pyarrow's conversion to numpy, which imports pandas.
        offsets = np.frombuffer(lists.buffers()[1], np.int32)[: len(lists) + 1].astype(np.int64)
        return np.diff(offsets), lists.values

    def _check_delimiters(self, at: Cursors, counts: Longs) -> None:
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            at.fail(int(empty[0]), "at least one element, for an empty list has no entry")

    def decode_map_entries(self, block: KeyedBlock, entries: Longs) -> tuple[pa.Array, pa.Array]:
        """Decode user keys and values of a map's entries in the canonical format."""
        key, value = self.units
        keys = self.decode_spans(key, block, block.user_start[entries], block.user_end[entries])
        at = self.cursors(block, block.value_start[entries], block.value_end[entries])
        # After the flag of a null, writers may append the serializer's own form of null.
        null = read_numbers(at, "read_flags", np.bool_, "the null flag of a map value")
        present = np.flatnonzero(~null)
        values = self.decode_spans(value, block, at.position[present], at.end[present])
        return keys, scatter(values, ~null)

    def has_values(self, rows: RowsOfBlock, state: int, plan: Any, low: int, high: int) -> bool:
        """Return whether rows [low, high) have any value; ``plan`` is the result of :meth:`plan` for the block."""
        return len(rows.values(state, low, high)[0]) > 0 if plan is None else bool(plan[1][low:high].any())

    def decode(self, rows: RowsOfBlock, state: int, plan: Any, low: int, high: int) -> pa.Array:
        """Return the column of rows [low, high); ``plan`` is the result of :meth:`plan` for the block."""
        if plan is None:
            start, end, there = rows.values(state, low, high)
            column = self.decode_values(rows.block, start, end)
            return column if there is None else placed(column, there, high - low)
        entries, counts, ends = plan
        assert isinstance(rows.block, KeyedBlock)
        here = counts[low:high]
        first = int(ends[low] - counts[low]) if high > low else 0
        keys, values = self.decode_map_entries(rows.block, entries[first : first + int(here.sum())])
        self._refuse_null_keys(rows.block, keys)
        return map_array(self.arrow_type(), here, keys, values, here > 0)

    def _refuse_null_keys(self, block: Block, keys: pa.Array) -> None:
        if keys.null_count:
            at = self.cursors(block, np.zeros(1, np.int64), np.zeros(1, np.int64))
            at.out_of_range(
                0,
                "a map has a null key, which a MAP column cannot hold",
                "option('flatten', 'true') reads its entries as rows",
            )

    def plan(self, rows: RowsOfBlock, state: int) -> Any:
        """Map entries to rows for the whole block; None if a row has at most one entry."""
        if not self.many:
            return None
        assert isinstance(rows, Rows), "entries of maps are never merged while they are read"
        entries, counts = rows.grouped_entries(state)
        return entries, counts, np.cumsum(counts)


def split_ttl(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Split TTL structs into values and last accesses; lists and maps become two columns of the same shape."""
    kind = column.type
    if pa.types.is_struct(kind):
        value, time = column.flatten()
        return value, time
    offsets = np.asarray(column.offsets, np.int64)
    counts = offsets[1:] - offsets[:-1]
    low, high = int(offsets[0]), int(offsets[-1])
    valid = np.asarray(column.is_valid())
    if pa.types.is_map(kind):
        keys = column.keys[low:high]
        value, time = column.items[low:high].flatten()
        maps = [map_array(map_type(kind.key_type, part.type), counts, keys, part, valid) for part in (value, time)]
        return maps[0], maps[1]
    value, time = column.values[low:high].flatten()
    lists = [list_array(pa.list_(pa.field("element", part.type)), counts, part, valid) for part in (value, time)]
    return lists[0], lists[1]


def split_ttl_type(kind: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of :func:`split_ttl`."""
    if pa.types.is_struct(kind):
        return kind.field(0).type, kind.field(1).type
    if pa.types.is_map(kind):
        value, time = kind.item_type.field(0).type, kind.item_type.field(1).type
        return map_type(kind.key_type, value), map_type(kind.key_type, time)
    value, time = kind.value_type.field(0).type, kind.value_type.field(1).type
    return pa.list_(pa.field("element", value)), pa.list_(pa.field("element", time))


def repeat_index(counts: Longs) -> pa.Array:
    """Return 0, 1, ... within every repetition: the list_index of flattened lists."""
    total = int(counts.sum())
    nth = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return fixed_array(pa.int32(), nth.astype(np.int32))


def elements_of(block: KeyedBlock, column: StateColumn, entries: Longs) -> tuple[Longs, dict[str, pa.Array]]:
    """Return the number of elements of each entry, and the elements."""
    if column.many:
        keys, values = column.decode_map_entries(block, entries)
        return np.ones(len(entries), np.int64), {MAP_KEY: keys, MAP_VALUE: values}
    if column.meta.state_type == "LIST" and block.form == CANONICAL:
        counts, values = column.decode_list(block, block.value_start[entries], block.value_end[entries])
        return counts, {LIST_INDEX: repeat_index(counts), LIST_VALUE: values}
    whole = column.decode_values(block, block.value_start[entries], block.value_end[entries])
    offsets = np.asarray(whole.offsets, np.int64)
    counts = offsets[1:] - offsets[:-1]
    low, high = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(whole.type):
        return counts, {MAP_KEY: whole.keys[low:high], MAP_VALUE: whole.items[low:high]}
    return counts, {LIST_INDEX: repeat_index(counts), LIST_VALUE: whole.values[low:high]}
