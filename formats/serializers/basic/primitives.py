"""Serializers of numbers and booleans: values of fixed width, big-endian.

    snapshot  := SimpleTypeSerializerSnapshot: version 3 nothing, version 2 (early 1.7) utf serializerClass
    value     := boolean u8 | byte i8 | short i16 | int i32 | long i64 | float f32 | double f64 | char u16 | void 00

One class with a table of types. Flink: ``BooleanSerializer`` ... ``DoubleSerializer``, ``CharSerializer``,
``VoidSerializer`` and the same of ``org.apache.flink.types.*Value``.

Types that have only one value become null: one byte 00, or no bytes.

    Void, table Null, Unit             00     Len 1    no value; Scala's ()
    Unit of flink-scala-api            -      Len 0
    VoidNamespace                      00     Len 0    one byte, although its length is 0
    GlobalWindow                       00     Len 1
    NullValue                          -      Len 0
    NullValue in a ValueSerializer     00

Len is ``getLength``, which decides the form of composite keys. Flink: ``VoidSerializer``, ``NullSerializer``,
``UnitSerializer``, ``VoidNamespaceSerializer``, ``GlobalWindow.Serializer``, ``NullValueSerializer``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    bool_array,
    fixed_array,
    fixed_values,
    refuse_nulls,
    true_rows,
    valid_rows,
)
from pyspark_savepoint.formats.encodings import UTF
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part

BASE = "org.apache.flink.api.common.typeutils.base."


@dataclass(frozen=True)
class SimpleSerializer(DeclaredSerializer):
    """Serializer without parameters: SimpleTypeSerializerSnapshot. Only version 2 stores ``serializer_class``."""

    serializer_class: str = part(UTF, "a serializer class", until=2, absent="", default="")
    snapshot_versions: ClassVar[tuple[int, ...]] = (2, 3)

    @classmethod
    def of(cls, name: str) -> TypeSerializer:
        """Return the serializer as this package writes it."""
        return cls(name, 3)


def fold_long(values: npt.NDArray[Any]) -> Ints:
    """Return ``Long.hashCode``: both halves, combined with exclusive or."""
    bits = values.view(np.uint64)
    return (bits ^ (bits >> np.uint64(32))).astype(np.uint32).view(np.int32)


def hash_boolean(values: npt.NDArray[Any]) -> Ints:
    """Return ``Boolean.hashCode``."""
    return np.where(values != 0, 1231, 1237).astype(np.int32)


def float_bits(values: npt.NDArray[Any]) -> Ints:
    """Return ``Float.floatToIntBits``: all NaNs have the same bits."""
    return np.where(np.isnan(values), np.int32(0x7FC00000), values.view(np.int32)).astype(np.int32)


def double_bits(values: npt.NDArray[Any]) -> Longs:
    """Return ``Double.doubleToLongBits``: all NaNs have the same bits."""
    return np.where(np.isnan(values), np.int64(0x7FF8000000000000), values.view(np.int64)).astype(np.int64)


@dataclass(frozen=True)
class NumberType:
    """Type of number: the kernel that reads it, the NumPy type of its output, the Arrow type, and the Java hash."""

    flink_type: str
    kernel: str
    dtype: Any
    arrow: pa.DataType
    java_hash: Callable[[npt.NDArray[Any]], Ints]


def _same(values: npt.NDArray[Any]) -> Ints:
    return values.astype(np.int32)


BOOLEAN = NumberType("BOOLEAN", "read_flags", np.bool_, pa.bool_(), hash_boolean)
BYTE = NumberType("BYTE", "read_i8", np.int8, pa.int8(), _same)
SHORT = NumberType("SHORT", "read_i16", np.int16, pa.int16(), _same)
INT = NumberType("INT", "read_i32", np.int32, pa.int32(), _same)
LONG = NumberType("LONG", "read_i64", np.int64, pa.int64(), fold_long)
FLOAT = NumberType("FLOAT", "read_i32", np.float32, pa.float32(), float_bits)
DOUBLE = NumberType("DOUBLE", "read_i64", np.float64, pa.float64(), lambda values: fold_long(double_bits(values)))

KINDS = {
    "Boolean": BOOLEAN,
    "Byte": BYTE,
    "Short": SHORT,
    "Int": INT,
    "Long": LONG,
    "Float": FLOAT,
    "Double": DOUBLE,
}
#: Hashes of the mutable wrappers of ``org.apache.flink.types``, where they differ from those of Java's boxes.
VALUE_HASHES: dict[str, Callable[[npt.NDArray[Any]], Ints]] = {
    "Boolean": lambda values: (values != 0).astype(np.int32),
    "Long": lambda values: fold_long(values) + np.int32(43),
    "Double": lambda values: fold_long(double_bits(values)) + np.int32(31),
}


def _snapshot(stem: str) -> str:
    return f"{BASE}{stem}Serializer${stem}SerializerSnapshot"


BY_SNAPSHOT = {_snapshot(stem): (stem, kind) for stem, kind in KINDS.items()} | {
    _snapshot(stem + "Value"): (stem + "Value", kind) for stem, kind in KINDS.items()
}
FLINK_TYPES = {
    snapshot: kind.flink_type + ("_VALUE" if stem.endswith("Value") else "")
    for snapshot, (stem, kind) in BY_SNAPSHOT.items()
}


def read_numbers(at: Cursors, kernel: str, dtype: Any, what: str) -> npt.NDArray[Any]:
    """Read one number per cursor with a kernel of ``kernels.numbers``."""
    from pyspark_savepoint.formats.kernels import numbers

    out = np.empty(at.position.size, dtype)
    # Kernels store bits; the dtype decides whether they are signed.
    bits = out if out.dtype.kind == "b" else out.view("i8" if out.itemsize == 8 else f"u{out.itemsize}")
    row = getattr(numbers, kernel)(at.buffer, at.position, at.end, bits)
    if row >= 0:
        at.fail(row, what)
    return out


def write_numbers(values: npt.NDArray[Any], at: Cursors) -> None:
    """Write one number per cursor, big-endian, in the width of its dtype."""
    from pyspark_savepoint.formats.kernels import numbers

    width = values.itemsize
    bits = values.view(f"i{width}") if values.dtype.kind == "f" else values
    numbers.write_fixed(at.buffer, at.position, bits.astype(np.int64), width)


@register(*BY_SNAPSHOT)
@dataclass(frozen=True)
class NumberSerializer(SimpleSerializer):
    """Serializer of BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, and of their ``*Value`` classes."""

    @property
    def kind(self) -> NumberType:
        """The type of number that the snapshot class names."""
        return BY_SNAPSHOT[self.snapshot_class][1]

    @property
    def flink_type(self) -> str:
        """LONG, or LONG_VALUE for the ``*Value`` class, and so on."""
        return FLINK_TYPES[self.snapshot_class]

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.kind.arrow

    @property
    def length(self) -> int:
        return int(np.dtype(self.kind.dtype).itemsize)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, self.length)

    def decode(self, at: Cursors) -> pa.Array:
        values = read_numbers(at, self.kind.kernel, self.kind.dtype, self.flink_type)
        return bool_array(values) if values.dtype == np.bool_ else fixed_array(self.kind.arrow, values)

    def _values(self, column: pa.Array) -> npt.NDArray[Any]:
        if self.kind is BOOLEAN:
            return true_rows(column).view(np.uint8)
        return fixed_values(column, self.kind.dtype)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), self.length, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one number per row; NaNs as Java's canonical NaN."""
        values = self._values(column)
        if values.dtype == np.float32:
            values = float_bits(values)
        elif values.dtype == np.float64:
            values = double_bits(values)
        write_numbers(values, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``hashCode`` of the boxed value or of the ``*Value`` object."""
        stem = BY_SNAPSHOT[self.snapshot_class][0]
        law = VALUE_HASHES.get(stem.removesuffix("Value")) if stem.endswith("Value") else None
        hashes = (law or self.kind.java_hash)(self._values(column))
        return np.where(valid_rows(column), hashes, 0).astype(np.int32)


@dataclass(frozen=True)
class FixedWidthSerializer(SimpleSerializer):
    """Serializer of values of ``width`` bytes. ``length`` is Flink's ``getLength``: the width, but for a few."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes of every value."""

    @property
    def length(self) -> int:
        return self.width

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, self.width)

    def sizes(self, column: pa.Array) -> Longs:
        """Return the width for all rows, null ones included."""
        return np.full(len(column), self.width, np.int64)


NULL_VALUE = "org.apache.flink.types.NullValue"


@dataclass(frozen=True)
class Constant:
    """Row of the table above; ``java_hash`` is the hashCode of the only object, 0 where there is no object."""

    flink_type: str
    width: int
    length: int
    java_hash: int = 0


VOID = Constant("VOID", 1, 1)
GLOBAL_WINDOW = Constant("GLOBAL_WINDOW", 1, 1)
VOID_NAMESPACE = Constant("VOID_NAMESPACE", 1, 0, 99)
UNIT = Constant("UNIT", 1, 1)

CONSTANTS = {
    f"{BASE}VoidSerializer$VoidSerializerSnapshot": VOID,
    "org.apache.flink.table.dataview.NullSerializer$NullSerializerSnapshot": Constant("NULL", 1, 1),
    "org.apache.flink.api.scala.typeutils.UnitSerializer$UnitSerializerSnapshot": UNIT,
    "org.apache.flink.table.api.typeutils.UnitSerializer$UnitSerializerSnapshot": UNIT,
    "org.apache.flinkx.api.serializer.UnitSerializer$UnitSerializerSnapshot": Constant("FLINKX_UNIT", 0, 0),
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": VOID_NAMESPACE,
    "org.apache.flink.queryablestate.client.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot": VOID_NAMESPACE,
    "org.apache.flink.streaming.api.windowing.windows.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": (
        GLOBAL_WINDOW
    ),
    "org.apache.flink.table.runtime.operators.window.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": (
        Constant("TABLE_GLOBAL_WINDOW", 1, 1)
    ),
    f"{BASE}NullValueSerializer$NullValueSerializerSnapshot": Constant("NULL_VALUE", 0, 0, 53),
    # Not a snapshot class: the bytes of NullValue.write, for serializers that call it.
    NULL_VALUE: Constant("NULL_VALUE", 1, 1, 53),
}


@register(*(name for name in CONSTANTS if name != NULL_VALUE))
@dataclass(frozen=True)
class ConstantSerializer(FixedWidthSerializer):
    """Serializer of a type of the table above."""

    @property
    def constant(self) -> Constant:
        """The row of the snapshot class."""
        return CONSTANTS[self.snapshot_class]

    @property
    def flink_type(self) -> str:
        return self.constant.flink_type

    @property
    def width(self) -> int:
        return self.constant.width

    @property
    def length(self) -> int:
        """``getLength``: 0 or 1, which is not always the width."""
        return self.constant.length

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def decode(self, at: Cursors) -> pa.Array:
        """Check the byte 00 of every row, if the type has a byte, and return nulls."""
        if self.width:
            start = at.at(at.position.copy(), at.end)
            values = read_numbers(at, "read_i8", np.int8, f"a value of {self.flink_type}")
            if values.any():
                row = int((values != 0).argmax())
                start.fail(row, f"a zero for {self.flink_type}", int(values[row]))
        return pa.nulls(len(at))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write a byte 00 per row, or nothing."""
        if self.width:
            write_numbers(np.zeros(len(column), np.int8), at)

    def java_hash(self, column: pa.Array) -> Ints:
        return np.full(len(column), self.constant.java_hash, np.int32)
