"""Serializers of fields one after another: tuples and Scala's case classes, and rows.

    tuples    snapshot := Composite 2, outer part utf class, the fields nested; Tuple0 has a simple snapshot
              value    := field...; of Tuple0 the byte 2A
    rows      snapshot := Composite, the fields nested
                          outer version 2 (to Flink 1.10)   no kind bits in values
                          outer version 3 (1.11 to 1.14)    kind bits
                          outer version 4 (since 1.15)      outer part: bool supportsRowKind
              value    := mask  field unless null...
              mask     := bits, most significant first: 2 kind bits (the low one first) if supported, then one bit per
                          field

A field of a tuple can be null only if its own serializer encodes null; a row has a mask of nulls. Snapshots have no
field names: fields are called ``f0, f1...`` as in Flink, ``_1, _2...`` as in Scala. Nor do they record whether rows
were built by names or by positions.
Flink: ``TupleSerializer``, ``Tuple0Serializer``, ``ScalaCaseClassSerializer``, ``RowSerializer``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    filled_values,
    refuse_nulls,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.encodings import BOOL, UTF, by_version, implied
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.base import (
    TypeSerializer,
    flink_fields,
    flink_types,
    zeros,
)
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, KindSerializer, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    Fields,
    hash_in_order,
    list_parts,
    map_parts,
    naming,
    pick,
    struct_type,
    sum_per_row,
)
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    LinkedListSerializer,
    ListSerializer,
    MapSerializer,
    mask_hashes,
)
from pyspark_savepoint.formats.serializers.composite.wrappers import RUNTIME, NullableSerializer, scala
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part

TUPLE0 = RUNTIME + "Tuple0SerializerSnapshot"
TUPLE0_BYTE = 42


def tuple_class(arity: int) -> str:
    """Return Flink's tuple class with that many fields.

    >>> tuple_class(2)
    'org.apache.flink.api.java.tuple.Tuple2'
    """
    return f"org.apache.flink.api.java.tuple.Tuple{arity}"


@dataclass(frozen=True)
class FieldsSerializer(ShapedKindSerializer):
    """Base class of tuples and case classes."""

    #: Flink does not check it against the number of fields.
    class_name: str = part(UTF, "the class of a tuple", default="")

    @property
    def length(self) -> int:
        """The sum of the fields' lengths; -1 if one of them is 0 or variable."""
        lengths = [field.length for field in self.nested]
        return sum(lengths) if all(length > 0 for length in lengths) else -1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"f{index}" for index in range(len(self.nested)))

    @property
    def shape(self) -> Part:
        return Fields(self.names, self.nested)


@of_kind(Kind("TUPLE", (RUNTIME + "TupleSerializerSnapshot",), None, versions=(2,), has_own_notation=True))
@dataclass(frozen=True)
class TupleSerializer(FieldsSerializer):
    """Serializer of TUPLE<A, B>: Tuple1 to Tuple25, or a user's subclass."""

    @property
    def java_class(self) -> str | None:
        return self.class_name

    @property
    def flink_type(self) -> str:
        """TUPLE<A, B>, or TUPLE<com.shop.Pair>(A, B) for a user's subclass."""
        arguments = flink_types(self.nested)
        own = self.class_name == tuple_class(len(self.nested))
        return f"TUPLE<{arguments}>" if own else f"TUPLE<{self.class_name}>({arguments})"

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``TupleN.hashCode``: start with 0, then 31 * hash + field, in order."""
        result = np.zeros(len(column), np.uint32)
        for index, field in enumerate(self.nested):
            result = result * np.uint32(31) + field.java_hash(column.field(index)).view(np.uint32)
        return np.where(valid_rows(column), result.view(np.int32), 0).astype(np.int32)

    @classmethod
    def of(cls, *fields: TypeSerializer, class_name: str | None = None) -> TupleSerializer:
        """Return a tuple as this package writes it."""
        return cls(RUNTIME + "TupleSerializerSnapshot", 3, 2, fields, class_name or tuple_class(len(fields)))


@of_kind(
    Kind(
        "CASE_CLASS",
        scala("ScalaCaseClassSerializerSnapshot", "Tuple2CaseClassSerializerSnapshot"),
        None,
        versions=(2,),
        has_own_notation=True,
        compared=attrgetter("class_name"),
        equal="class",
    )
)
@dataclass(frozen=True)
class CaseClassSerializer(FieldsSerializer):
    """Serializer of CASE_CLASS<cls>(_1 A, _2 B). The hash is unknown: it depends on the version of Scala."""

    @property
    def flink_type(self) -> str:
        fields = (f"{name} {field.flink_type}" for name, field in zip(self.names, self.nested, strict=True))
        return f"CASE_CLASS<{self.class_name}>({', '.join(fields)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Field names as in Scala's ``Product``, because those of the source are not in the file."""
        return tuple(f"_{index + 1}" for index in range(len(self.nested)))


@register(TUPLE0)
@dataclass(frozen=True)
class Tuple0Serializer(SimpleSerializer):
    """Serializer of TUPLE<>: one possible value, one byte."""

    @property
    def flink_type(self) -> str:
        return "TUPLE<>"

    @property
    def length(self) -> int:
        return 1

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([])

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 1)

    def decode(self, at: Cursors) -> pa.Array:
        """Check that every value is the byte 2A."""
        start = at.position.copy()
        markers = read_numbers(at, "read_i8", np.uint8, "the byte of a Tuple0")
        wrong = np.flatnonzero(markers != TUPLE0_BYTE)
        at.at(start, at.end).check(int(wrong[0]) if len(wrong) else -1, f"the byte {TUPLE0_BYTE:#x} of a Tuple0")
        return struct_array(pa.struct([]), [], len(at))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.ones(len(column), np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(np.full(len(column), TUPLE0_BYTE, np.int8), at)

    def java_hash(self, column: pa.Array) -> Ints:
        return zeros(column)


ROW = RUNTIME + "RowSerializer$RowSerializerSnapshot"
ROW_KIND = "__row_kind"
STRING_ARRAY = BASE + "array.StringArraySerializer$StringArraySerializerSnapshot"
#: ``RowKind`` by its number in the file.
ROW_KINDS = ("+I", "-U", "+U", "-D")


@of_kind(
    Kind(
        "ROW",
        (ROW,),
        None,
        versions=(2, 3, 4),
        has_own_notation=True,
        compared=attrgetter("supports_row_kind"),
        migrates="with or without a row kind",
    )
)
@dataclass(frozen=True)
class RowSerializer(KindSerializer):
    """Serializer of ROW<A, B>; with the option ``row_kind`` the kind is the last field of the struct."""

    #: Whether values have kind bits; versions below 4 imply it.
    supports_row_kind: bool = part(
        by_version({2: implied(False), 3: implied(True), 4: BOOL}), "supports row kinds", default=True
    )
    #: Field names set by the user; not part of the snapshot.
    field_names: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @classmethod
    def of(cls, *fields: TypeSerializer, names: tuple[str, ...] = ()) -> RowSerializer:
        """Return a row as this package writes it."""
        return cls(ROW, 3, 4, fields, field_names=names)

    @property
    def java_class(self) -> str | None:
        return "org.apache.flink.types.Row"

    @property
    def flink_type(self) -> str:
        """ROW<A, B>, or ROW<id A, name B> if the user set names."""
        if self.field_names:
            return f"ROW<{flink_fields(self.field_names, self.nested)}>"
        return f"ROW<{flink_types(self.nested)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Field names: f0, f1... unless the user set others."""
        return self.field_names or tuple(f"f{index}" for index in range(len(self.nested)))

    @property
    def kind_bits(self) -> int:
        """Bits of the mask before those of the fields."""
        return 2 if self.supports_row_kind else 0

    @property
    def mask_bytes(self) -> int:
        """Bytes of the mask."""
        return (self.kind_bits + len(self.nested) + 7) >> 3

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        kind = struct_type(self.names, self.nested, options)
        return pa.struct([*kind, pa.field(ROW_KIND, pa.string())]) if options.row_kind else kind

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.MASKED, self.kind_bits, 0, [field.layout(layout) for field in self.nested])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the masks of all rows, then every field for the rows where it is not null."""
        rows = len(at)
        bits = self._read_mask(at)
        columns = [
            self._decode_field(name, field, bits[:, self.kind_bits + index] == 0, at)
            for index, (name, field) in enumerate(zip(self.names, self.nested, strict=True))
        ]
        if at.options.row_kind:
            kinds = bits[:, 0] + 2 * bits[:, 1] if self.supports_row_kind else np.zeros(rows, np.uint8)
            columns.append(pa.array(ROW_KINDS, pa.string()).take(pa.array(kinds)))
        return struct_array(self.arrow_type(at.options), columns, rows)

    def _read_mask(self, at: Cursors) -> npt.NDArray[np.uint8]:
        beyond = np.flatnonzero(at.position + self.mask_bytes > at.end)
        at.check(int(beyond[0]) if len(beyond) else -1, f"the mask of a {self.flink_type}")
        masks = at.buffer[at.position[:, None] + np.arange(self.mask_bytes)]
        at.position[:] += self.mask_bytes
        return np.unpackbits(masks, axis=1)

    @staticmethod
    def _decode_field(name: str, field: TypeSerializer, valid: Flags, at: Cursors) -> pa.Array:
        with at.inside(name):
            if valid.all():
                return field.decode(at)
            present = at.select(valid)
            column = field.decode(present)
            at.update(valid, present)
            return scatter(column, valid)

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the mask and of the fields that are not null."""
        refuse_nulls(column, self.flink_type)
        row_kinds(self, column)
        sizes = np.full(len(column), self.mask_bytes, np.int64)
        for index, (name, field) in enumerate(zip(self.names, self.nested, strict=True)):
            part = column.field(index)
            valid = valid_rows(part)
            with naming(name):
                sizes[valid] += field.sizes(pick(part, valid))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        valid = [valid_rows(column.field(index)) for index in range(len(self.nested))]
        self._write_mask(row_kinds(self, column), valid, at)
        for index, field in enumerate(self.nested):
            present = at.select(valid[index])
            field.encode(pick(column.field(index), valid[index]), present)
            at.update(valid[index], present)

    def _write_mask(self, kinds: npt.NDArray[np.uint8], valid: list[Flags], at: Cursors) -> None:
        bits = np.zeros((len(at), self.mask_bytes * 8), np.uint8)
        if self.supports_row_kind:
            bits[:, 0], bits[:, 1] = kinds & 1, kinds >> 1
        for index, rows in enumerate(valid):
            bits[:, self.kind_bits + index] = ~rows
        at.buffer[at.position[:, None] + np.arange(self.mask_bytes)] = np.packbits(bits, axis=1)
        at.position[:] += self.mask_bytes

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Row.hashCode`` of rows built by positions: the hash of the fields as of a list, then the kind."""
        result = np.ones(len(column), np.uint32)
        for index, field in enumerate(self.nested):
            result = result * np.uint32(31) + deep_hash(field, column.field(index)).view(np.uint32)
        result += row_kinds(self, column).astype(np.uint32) * np.uint32(31)
        return np.where(valid_rows(column), result.view(np.int32), 0).astype(np.int32)


def row_kinds(row: RowSerializer, column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the number of every row's kind; +I if the column has no kinds."""
    if column.type.num_fields == len(row.nested):
        return np.zeros(len(column), np.uint8)
    names = column.field(len(row.nested))
    kinds = filled_values(pc.index_in(names, pa.array(ROW_KINDS, pa.string())), np.int32, -1)
    most = len(ROW_KINDS) if row.supports_row_kind else 1
    wrong = np.flatnonzero(((kinds < 0) | (kinds >= most)) & valid_rows(column))
    if len(wrong):
        raise ValueRangeError(
            f"a {row.flink_type} cannot have this row kind",
            state=ROW_KIND,
            expected=f"one of {', '.join(ROW_KINDS[:most])}",
            found=f"{names[int(wrong[0])].as_py()} in row {int(wrong[0])}",
            remedy=f"set {ROW_KIND} to {ROW_KINDS[0]}, or leave it out",
        )
    return np.asarray(np.maximum(kinds, 0), np.uint8)


def deep_hash(field: TypeSerializer, column: pa.Array) -> Ints:
    """Return the hash of a field as part of its row: ``RowUtils`` hashes the content of lists, arrays and maps."""
    if isinstance(field, NullableSerializer):
        return deep_hash(field.nested[0], column)
    if isinstance(field, MapSerializer):
        counts, keys, values = map_parts(column)
        entries = (deep_hash(field.key, keys) ^ deep_hash(field.value, values)).view(np.uint32)
        hashes = (sum_per_row(entries, counts) + np.uint32(1)).view(np.int32)
    elif isinstance(field, ListSerializer | LinkedListSerializer | GenericArraySerializer):
        counts, items = list_parts(column)
        hashes = hash_in_order(deep_hash(field.element, items), counts)
    elif field.snapshot_class == STRING_ARRAY:
        counts, items = list_parts(column)
        hashes = hash_in_order(scalar_hash(StringSerializer.of(STRING), items), counts)
    else:
        return scalar_hash(field, column)
    return mask_hashes(hashes, column)


def scalar_hash(field: TypeSerializer, column: pa.Array) -> Ints:
    """Return ``Arrays.deepHashCode`` of an array with one element; 0 for null."""
    return mask_hashes((field.java_hash(column).view(np.uint32) + np.uint32(31)).view(np.int32), column)
