"""Types that have only one value, which becomes null: one byte 00, or no bytes.

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

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints
from pyspark_savepoint.formats.serializers.basic.fixed_width import FixedWidthSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.registry import register

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
            found = read_numbers(at, "read_i8", np.int8, f"a value of {self.flink_type}")
            if found.any():
                row = int((found != 0).argmax())
                start.fail(row, f"a zero for {self.flink_type}", int(found[row]))
        return pa.nulls(len(at))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write a byte 00 per row, or nothing."""
        if self.width:
            write_numbers(np.zeros(len(column), np.int8), at)

    def java_hash(self, column: pa.Array) -> Ints:
        return np.full(len(column), self.constant.java_hash, np.int32)
