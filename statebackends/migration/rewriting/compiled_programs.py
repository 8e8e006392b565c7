"""Compiled programs for values whose parts of Kryo's are lists, sets and maps of strings and numbers.

Most values of jobs are like this. A compiled program does the same as its :class:`ValueProgram`, for a batch of values;
values with other contents are left to the :class:`ValueProgram`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer, SetSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import KryoStatePart
from pyspark_savepoint.statebackends.migration.rewriting.value_program import ValueProgram, marked_layout
from pyspark_savepoint.statebackends.types.serializer_parts import Path

#: Kinds of items in the kernel, by their types.
ITEMS = ("INT", "STRING", "FLOAT", "BOOLEAN", "BYTE", "SHORT", "LONG", "DOUBLE")
#: Classes that Kryo 2 writes as their size and their items.
CLASSES = tuple(
    f"java.util.{name}"
    for name in (
        *("ArrayList", "LinkedList", "Vector", "HashSet", "LinkedHashSet", "concurrent.CopyOnWriteArrayList"),
        *("HashMap", "LinkedHashMap", "Hashtable", "concurrent.ConcurrentHashMap"),
    )
)
#: Classes of items, as registrations name them.
PLAIN = ("java.lang.String", "int", "float", "boolean", "byte", "short", "long", "double")


@dataclass(frozen=True)
class CompiledProgram:
    """Arrays of a layout, for the kernel."""

    program: ValueProgram
    tables: tuple[Any, Any, Any]
    touched: Any
    node: int
    #: Rewrites values of other contents.
    others: Callable[[bytes], bytes]

    @classmethod
    def of(cls, program: ValueProgram, parts: Mapping[Path, KryoStatePart]) -> CompiledProgram | None:
        """Return the compiled program of a program; None if a part is not of the simple forms."""
        from pyspark_savepoint.formats.kernels import kryo_collections

        if not program.rewrites or not all(path in parts for path in program.rewrites):
            return None
        kinds = [_items(parts[path]) for path in program.rewrites]
        if None in kinds:
            return None
        layout, node, places = marked_layout(program.serializer, tuple(program.rewrites))
        if node < 0:
            return None
        for index, number in places.items():
            key, value = kinds[number] or (0, 0)
            layout.nodes[index] = (kryo_collections.COLLECTION, key, value, 0, 0)
        touched = _touched(layout, set(places))
        return cls(program, layout.tables(), touched, node, program.whole)

    def run(self, values: Bytes, start: Longs, end: Longs) -> tuple[Bytes, Longs, Longs]:
        """Return the new bytes of some values, and their spans."""
        from pyspark_savepoint.formats.kernels import kryo_collections

        total = int((end - start).sum())
        out = np.empty(total * kryo_collections.GROWTH + 64 * len(start), np.uint8)
        ends = np.empty(len(start), np.int64)
        start, end = np.ascontiguousarray(start), np.ascontiguousarray(end)
        size = kryo_collections.rewrite_rows(
            *self.tables, self.touched, _CLASS_NAMES, self.node, read_only(values), start, end, out, ends,
            np.zeros(3, np.int64),
        )  # fmt: skip
        left = np.flatnonzero(ends < 0)
        done = np.where(ends < 0, 0, ends)
        stops = np.maximum.accumulate(done) if len(done) else done
        starts = np.concatenate([[0], stops]).astype(np.int64)[:-1]
        if not len(left):
            return read_only(out[: int(size)].copy()), starts, stops
        others = [
            self.others(values[low:high].tobytes())
            for low, high in zip(start[left].tolist(), end[left].tolist(), strict=True)
        ]
        bounds = int(size) + np.cumsum([0, *map(len, others)])
        starts[left], stops[left] = bounds[:-1], bounds[1:]
        rest = np.frombuffer(b"".join(others), np.uint8)
        return read_only(np.concatenate([out[: int(size)], rest])), starts, stops


def _items(part: KryoStatePart) -> tuple[int, int] | None:
    """Return the kinds of the items of a part; None if one of them is neither a string nor a number."""
    old, new = part.part.old, part.part.new
    if not isinstance(old, KryoSerializer) or any(map(old.classes.is_custom, (*CLASSES, *PLAIN))):
        return None
    if not isinstance(new, NullableSerializer) or new.padding:
        return None
    inner = new.nested[0]
    if type(inner) is MapSerializer:
        key, value = _nullable(inner.key), _kind(inner.value)
        return (key, value) if key is not None and value is not None else None
    if type(inner) is ListSerializer:
        item = _nullable(inner.element)
    elif isinstance(inner, SetSerializer):
        item = _kind(inner.element)
    else:
        item = None
    return (item, -1) if item is not None else None


def _nullable(serializer: TypeSerializer) -> int | None:
    if not isinstance(serializer, NullableSerializer) or serializer.padding:
        return None
    return _kind(serializer.nested[0])


def _kind(serializer: TypeSerializer) -> int | None:
    from pyspark_savepoint.formats.kernels import kryo_collections as kernel

    codes = (
        kernel.INT, kernel.STRING, kernel.FLOAT, kernel.BOOLEAN, kernel.BYTE, kernel.SHORT, kernel.LONG, kernel.DOUBLE,
    )  # fmt: skip
    return dict(zip(ITEMS, codes, strict=True)).get(serializer.flink_type)


def _touched(layout: Layout, marked: set[int]) -> Any:
    """Return for each node whether a marked one is in it; parts come before the nodes that contain them."""
    touched = np.zeros(len(layout.nodes), np.bool_)
    for number, (_, _, _, first, count) in enumerate(layout.nodes):
        touched[number] = number in marked or any(
            touched[child] for child in layout.children[first : first + count] if child < number
        )
    return touched


def _class_names() -> Any:
    """Return the names as Kryo writes them, bit 0x80 on the last character, padded with zeros."""
    table = np.zeros((len(CLASSES), max(map(len, CLASSES)) + 2), np.uint8)
    for row, name in enumerate(CLASSES):
        data = bytearray(name.encode())
        data[-1] |= 0x80
        table[row, : len(data)] = np.frombuffer(data, np.uint8)
    return table


_CLASS_NAMES = _class_names()
