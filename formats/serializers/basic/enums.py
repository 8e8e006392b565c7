"""Serializers of enums: values are numbers, the snapshot holds the names of the constants.

    snapshot (Java)    utf class  i32 n  utf name[n]             value  i32 index into this list, not ordinal()
    snapshot (Scala)   utf class  i32 n  (utf name  i32 id)[n]   value  i32 id

After the class has changed, the list keeps the old order and new constants follow it. Flink: ``EnumSerializer``,
``EnumValueSerializer`` of Flink's Scala API.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    binary_array,
    fixed_array,
    fixed_values,
    refuse_nulls,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import COLUMN_TEXT, I32, UTF, many, pair
from pyspark_savepoint.formats.errors import ValueRangeError, did_you_mean
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, expect_version, quoted
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict

ENUM = f"{BASE}EnumSerializer$EnumSerializerSnapshot"


CONSTANT = "the name of an enum constant"
CONSTANTS_WITH_IDS = many(pair(COLUMN_TEXT, CONSTANT, I32, "the id of an enum constant"))


@register(ENUM)
@struct_with_dict
class EnumSerializer(DeclaredSerializer):
    """Serializer of ENUM<com.shop.Color>(RED, GREEN), which becomes STRING."""

    enum_class: str = part(UTF, "an enum class")
    constants: tuple[str, ...] = part(many(COLUMN_TEXT, each=CONSTANT), "enum constants")

    @property
    def java_class(self) -> str | None:
        return self.enum_class if type(self) is EnumSerializer else None

    @property
    def flink_type(self) -> str:
        return f"ENUM<{self.enum_class}>({', '.join(map(quoted, self.constants))})"

    @classmethod
    def of(cls, enum_class: str, constants: Iterable[str]) -> EnumSerializer:
        """Return an enum as this package writes it, with the constants in the order of their declaration."""
        return cls(ENUM, 3, enum_class, tuple(constants))

    @property
    def codes(self) -> Ints:
        """The number of every constant."""
        return np.arange(len(self.constants), dtype=np.int32)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    @property
    def length(self) -> int:
        return 4

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 4)

    def decode(self, at: Cursors) -> pa.Array:
        """Read one number per row and look up its constant."""
        start = at.at(at.position.copy(), at.end)
        numbers = read_numbers(at, "read_i32", np.int32, self.flink_type)
        codes = self.codes
        order = np.argsort(codes, kind="stable")
        position = np.searchsorted(codes[order], numbers)
        # A number above all codes is compared with the last code, from which it differs.
        index = order[np.minimum(position, len(order) - 1)] if len(order) else position
        unknown = codes[index] != numbers if len(order) else np.ones(len(at), np.bool_)
        if unknown.any():
            row = int(unknown.argmax())
            start.fail(row, f"the number of one of the {len(codes)} constants of {self.enum_class}", int(numbers[row]))
        # pa.array would import pandas, which takes longer than to read small state.
        names = [name.encode() for name in self.constants]
        offsets = np.cumsum([0, *map(len, names)])
        known = binary_array(pa.string(), offsets, np.array(bytearray(b"".join(names)), np.uint8))
        return known.take(fixed_array(pa.int64(), index.astype(np.int64)))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), 4, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        index = pc.index_in(column, value_set=pa.array(self.constants, pa.string()))
        if index.null_count:
            constant = column[index.is_null().index(True).as_py()].as_py()
            raise ValueRangeError(
                f"{constant!r} is not a constant of {self.enum_class}",
                remedy=did_you_mean(str(constant), self.constants),
            )
        write_numbers(self.codes[fixed_values(index, np.int32)], at)


@register(
    "org.apache.flink.api.scala.typeutils.ScalaEnumSerializerSnapshot",
    "org.apache.flink.table.api.typeutils.ScalaEnumSerializerSnapshot",
)
@dataclass(frozen=True)
class ScalaEnumSerializer(EnumSerializer):
    """Serializer of SCALA_ENUM<com.shop.Color>, whose constants have their own ids."""

    ids: tuple[int, ...] = ()

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the class, its constants and their ids."""
        expect_version(name, version, (3,), reader)
        enum_class = reader.view.read_utf("an enumeration")
        pairs = CONSTANTS_WITH_IDS.read(reader.view, "enum constants")
        return cls(name, version, enum_class, tuple(name for name, _ in pairs), tuple(number for _, number in pairs))

    def write_payload(self, view: DataOutputView) -> None:
        view.write_utf(self.enum_class)
        CONSTANTS_WITH_IDS.write(view, tuple(zip(self.constants, self.ids, strict=True)))

    @property
    def flink_type(self) -> str:
        """SCALA_ENUM<com.shop.Color>(RED = 0, GREEN = 5)."""
        pairs = zip(self.constants, self.ids, strict=True)
        return f"SCALA_ENUM<{self.enum_class}>({', '.join(f'{quoted(name)} = {number}' for name, number in pairs)})"

    @property
    def codes(self) -> Ints:
        return np.array(self.ids, np.int32)
