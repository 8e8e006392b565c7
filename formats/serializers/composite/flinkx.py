"""Serializers of flink-extended's flink-scala-api, which jobs in Scala use on Flink 2 (package ``flinkx``).

    CaseClass   := Composite, outer version 2: utf class; 3: utf class, bool isImmutable; the fields nested
    Option, Either := Composite, empty outer part (Option version 1 or 2)
    Collection 2 := utf serializerClass  utf elementClass  Versioned
    Map 2, MutableMap 1 := Versioned key, Versioned value
    Mapped 2    := utf mapperClass  Versioned
    CaseObject 1 := utf class
    Coproduct 2 := i32 n  utf class[n]  Versioned[n];  3: Composite 3, outer part string array of classes
    values:
    CaseClass   := i32 n  field[n], nothing where the class has no fields; n is smaller in values that were written
                   before fields were added at the end
    Option      := 01 value | 00
    Either      := 01 left | 00 right
    Collection  := i32 n  element[n]; of mutable ones i32 -2^31 for null
    Map         := i32 n  (key value)[n]; of the mutable one i32 -2^31 for null
    Mapped      := the mapper's result for the value
    CaseObject  := nothing
    Coproduct   := u8 number of the subtype  its value

A job with the environment variable ``DISABLE_CASE_CLASS_ARITY_USAGE``, and releases before 1.1.5, do not write the
number of fields; snapshots do not record that, and such values are errors. Collections and maps of version 1 have
nested snapshots without versions; these and all other serializers of the package are not supported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Longs,
    refuse_nulls,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import BOOL, UTF, Encoding, FromSource, by_version, many
from pyspark_savepoint.formats.serializers.base import (
    CompositeSerializer,
    SnapshotReader,
    TypeSerializer,
    flink_types,
    write_versioned,
)
from pyspark_savepoint.formats.serializers.basic.declared import SNAPSHOT, DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    Choice,
    Fields,
    MapEntries,
    Repeated,
    Shaped,
    WrappingSerializer,
    pick,
)
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import SIDES, either_of, nullable_of
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, register
from pyspark_savepoint.formats.structs import part, struct_with_dict

FLINKX = "org.apache.flinkx.api.serializer."
#: Collections by the names of their serializers.
COLLECTIONS = {
    f"{FLINKX}{name}Serializer": word
    for name, word in (
        *(("List", "LIST"), ("ListCC", "LIST_CC"), ("Seq", "SEQ"), ("Vector", "VECTOR"), ("Set", "SET")),
        *(("Array", "ARRAY"), ("MutableBuffer", "BUFFER"), ("MutableQueue", "QUEUE")),
        *(("MutableArrayDeque", "ARRAY_DEQUE"), ("MutableSet", "MUTABLE_SET")),
    )
}
#: Why no text can describe a type.
OF_THE_JOB = "its serializer snapshot names classes of the job"
MUTABLE = f"{FLINKX}Mutable"
#: The count that means a null collection.
NULL_COUNT = -(1 << 31)
#: Case classes with at most this many fields may have values with fewer fields.
MAX_EVOLVED = 32
#: Subtypes that the tag of a coproduct can tell apart.
MAX_SUBTYPES = 128


@dataclass(frozen=True)
class CountedFields:
    """Shape of ``i32 n`` and the first n of some fields, nothing if there are none; the others are null."""

    fields: Fields

    @property
    def flink_type(self) -> str:
        return self.fields.flink_type

    @property
    def fewest(self) -> int:
        """The smallest number of fields that a value may have."""
        count = len(self.fields.parts)
        return 1 if count <= MAX_EVOLVED else count

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.fields.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        if not self.fields.parts:
            return self.fields.layout(layout)
        parts = [part.layout(layout) for part in self.fields.parts]
        prefixes = [
            layout.add(skip.SEQUENCE, parts=parts[:count]) for count in range(self.fewest, len(self.fields.parts) + 1)
        ]
        return layout.add(skip.CHOICE, self.fewest, 4, prefixes)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the numbers of all rows, then every field for the rows that have it."""
        count = len(self.fields.parts)
        if not count:
            return self.fields.decode(at)
        start = at.at(at.position.copy(), at.end)
        counts = read_numbers(at, "read_i32", np.int32, "the number of fields of a case class")
        wrong = np.flatnonzero((counts < self.fewest) | (counts > count))
        if len(wrong):
            row = int(wrong[0])
            start.fail(row, f"a number of fields from {self.fewest} to {count}", int(counts[row]))
        if (counts == count).all():
            return self.fields.decode(at)
        columns = []
        for index, (name, field) in enumerate(zip(self.fields.names, self.fields.parts, strict=True)):
            present: Flags = counts > index
            some = at.select(present)
            with some.inside(name):
                columns.append(scatter(field.decode(some), present))
            at.update(present, some)
        return struct_array(self.arrow_type(at.options), columns, len(at))

    def sizes(self, column: pa.Array) -> Longs:
        return self.fields.sizes(column) + (4 if self.fields.parts else 0)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write all fields."""
        if self.fields.parts:
            write_numbers(np.full(len(column), len(self.fields.parts), np.int32), at)
        self.fields.encode(column, at)


@dataclass(frozen=True)
class NullCounted:
    """Shape of a collection that may be null; the count of a null collection is ``NULL_COUNT``."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"NULLABLE<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        """Return UNKNOWN: no layout node supports such a count."""
        return UNKNOWN

    def decode(self, at: Cursors) -> pa.Array:
        """Look at the counts of all rows, then read the collections that are not null."""
        counts = read_numbers(at.at(at.position.copy(), at.end), "read_i32", np.int32, "a number of elements")
        valid: Flags = counts != NULL_COUNT
        at.position[~valid] += 4
        selected = at.select(valid)
        column = self.part.decode(selected)
        at.update(valid, selected)
        return scatter(column, valid)

    def sizes(self, column: pa.Array) -> Longs:
        valid = valid_rows(column)
        sizes = np.full(len(column), 4, np.int64)
        sizes[valid] = self.part.sizes(pick(column, valid))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        valid = valid_rows(column)
        for rows, encode in ((valid, self._present), (~valid, self._absent)):
            some = at.select(rows)
            encode(pick(column, rows), some)
            at.update(rows, some)

    def _present(self, column: pa.Array, at: Cursors) -> None:
        self.part.encode(column, at)

    def _absent(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(np.full(len(column), NULL_COUNT, np.int32), at)


@of_kind(
    Kind("FLINKX_CASE_CLASS", (f"{FLINKX}ScalaCaseClassSerializerSnapshot",), None, versions=(2, 3), no_text=OF_THE_JOB)
)
@dataclass(frozen=True)
class FlinkxCaseClassSerializer(FieldsSerializer):
    """Serializer of FLINKX_CASE_CLASS<cls>(_1 A, _2 B); snapshots do not name the fields."""

    is_immutable: bool = part(BOOL, "is immutable", since=3, absent=False, default=False)

    @property
    def flink_type(self) -> str:
        fields = (f"{name} {field.flink_type}" for name, field in zip(self.names, self.nested, strict=True))
        return f"FLINKX_CASE_CLASS<{self.class_name}>({', '.join(fields)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"_{index + 1}" for index in range(len(self.nested)))

    @property
    def length(self) -> int:
        """The sum of the fields' lengths and that of their number; -1 if one of them is 0 or variable."""
        return super().length + 4 if super().length > 0 else super().length

    @property
    def shape(self) -> Part:
        return CountedFields(Fields(self.names, self.nested))


of_kind(
    Kind(
        "FLINKX_OPTION",
        (f"{FLINKX}ScalaOptionSerializerSnapshot",),
        versions=(1, 2),
        shape=nullable_of,
        no_text=OF_THE_JOB,
    ),
    Kind("FLINKX_EITHER", (f"{FLINKX}ScalaEitherSerializerSnapshot",), SIDES, shape=either_of, no_text=OF_THE_JOB),
)(ShapedKindSerializer)


@dataclass(frozen=True)
class _OneVersionSerializer(DeclaredSerializer):
    """Base class of serializers of which one version of the snapshot is known; others stay unknown."""

    snapshot_versions: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        if version not in cls.snapshot_versions:
            return OpaqueSerializer.read_snapshot(name, version, reader)
        return super().read_snapshot(name, version, reader)


def snapshots(count: int) -> FromSource[tuple[TypeSerializer, ...]]:
    """Return the encoding of nested snapshots, one after another."""
    return FromSource(lambda reader: tuple(reader.versioned() for _ in range(count)), _write_snapshots)


def _write_snapshots(view: DataOutputView, serializers: tuple[TypeSerializer, ...]) -> None:
    for serializer in serializers:
        write_versioned(serializer, view)


@register(f"{FLINKX}CollectionSerializerSnapshot")
@struct_with_dict
class FlinkxCollectionSerializer(Shaped, _OneVersionSerializer):
    """Serializer of FLINKX_LIST<T>, SEQ, VECTOR, SET, ARRAY and mutable ones, which become ARRAY."""

    serializer_class: str = part(UTF, "the serializer of a collection")
    element_class: str = part(UTF, "the class of the elements")
    element: TypeSerializer = part(SNAPSHOT)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the names of classes, then the serializer of the elements; other collections stay unknown."""
        view, start = reader.view, reader.view.position
        snapshot = super().read_snapshot(name, version, reader)
        if isinstance(snapshot, cls) and snapshot.serializer_class not in COLLECTIONS:
            return OpaqueSerializer(name, version, bytes(view.data[start : view.position]), snapshot.serializer_class)
        return snapshot

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return (self.element,)

    @property
    def flink_type(self) -> str:
        return f"FLINKX_{COLLECTIONS[self.serializer_class]}<{self.element.flink_type}>"

    @property
    def shape(self) -> Part:
        elements = Repeated(self.element)
        return NullCounted(elements) if self.serializer_class.startswith(MUTABLE) else elements


MUTABLE_MAP = f"{FLINKX}MutableMapSerializerSnapshot"


@register(f"{FLINKX}MapSerializer$MapSerializerSnapshot")
@struct_with_dict
class FlinkxMapSerializer(Shaped, _OneVersionSerializer):
    """Serializer of FLINKX_MAP<K, V>: neither keys nor values have flags."""

    nested: tuple[TypeSerializer, ...] = part(snapshots(2))

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return self.nested

    @property
    def flink_type(self) -> str:
        return f"FLINKX_MAP<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return MapEntries(*self.nested)


@register(MUTABLE_MAP)
@dataclass(frozen=True)
class FlinkxMutableMapSerializer(FlinkxMapSerializer):
    """Serializer of FLINKX_MUTABLE_MAP<K, V>, which may be null."""

    snapshot_versions: ClassVar[tuple[int, ...]] = (1,)

    @property
    def flink_type(self) -> str:
        return f"FLINKX_MUTABLE_MAP<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return NullCounted(super().shape)


@register(f"{FLINKX}MappedSerializer$MappedSerializerSnapshot")
@struct_with_dict
class FlinkxMappedSerializer(WrappingSerializer, _OneVersionSerializer):
    """Serializer of FLINKX_MAPPED<mapper>(T): a class of the job maps its values to T; they are shown as T."""

    mapper_class: str = part(UTF, "the mapper of a type")
    mapped: TypeSerializer = part(SNAPSHOT)

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return (self.mapped,)

    @property
    def flink_type(self) -> str:
        return f"FLINKX_MAPPED<{self.mapper_class}>({self.mapped.flink_type})"


@register(f"{FLINKX}ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot")
@struct_with_dict
class FlinkxCaseObjectSerializer(_OneVersionSerializer):
    """Serializer of FLINKX_CASE_OBJECT<cls>: the only object takes no bytes, and is shown as true."""

    class_name: str = part(UTF, "the class of a case object")
    snapshot_versions: ClassVar[tuple[int, ...]] = (1,)

    @property
    def flink_type(self) -> str:
        return f"FLINKX_CASE_OBJECT<{self.class_name}>"

    @property
    def length(self) -> int:
        return 0

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.bool_()

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 0)

    def decode(self, at: Cursors) -> pa.Array:
        return pa.array(np.ones(len(at), np.bool_))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.zeros(len(column), np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write nothing."""


SUBTYPE = "the class of a subtype"
NAME = Encoding(lambda view, what: view.read_string_value(what) or "", DataOutputView.write_string_value, 1)
COPRODUCT = f"{FLINKX}CoproductSerializer$CoproductSerializerSnapshot"


@register(COPRODUCT)
@struct_with_dict
class FlinkxCoproductSerializer(Shaped, CompositeSerializer):
    """Serializer of FLINKX_COPRODUCT<A, B>: a sealed trait, which becomes a struct with one field per subtype."""

    classes: tuple[str, ...] = part(by_version({2: many(UTF, each=SUBTYPE), 3: many(NAME, each=SUBTYPE)}), "subtypes")
    arity: ClassVar[int | None] = None
    outer_versions: ClassVar[tuple[int, ...]] = (3,)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the classes and serializers of the subtypes."""
        view = reader.view
        start = view.position
        if version == 2:
            outer = cls.read_outer(version, reader)
            made = cls(name, version, version, tuple(reader.versioned() for _ in outer["classes"]), **outer)
        else:
            read = super().read_snapshot(name, version, reader)
            assert isinstance(read, cls)
            made = read
        if len(made.classes) != len(made.nested):
            view.fail(f"{len(made.nested)} classes of subtypes", len(made.classes))
        if len(made.classes) > MAX_SUBTYPES:
            return OpaqueSerializer(name, version, bytes(view.data[start : view.position]), "a sealed trait")
        return made

    def write_payload(self, view: DataOutputView) -> None:
        if self.snapshot_version != 2:
            super().write_payload(view)
            return
        self.write_outer(view)
        _write_snapshots(view, self.nested)

    @property
    def flink_type(self) -> str:
        return f"FLINKX_COPRODUCT<{flink_types(self.nested)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes without package and outer class, unless that makes two of them equal."""
        short: Callable[[str], str] = lambda name: name.rstrip("$").replace("$", ".").rpartition(".")[2]  # noqa: E731
        counter = Counter(map(short, self.classes))
        return tuple(short(name) if counter[short(name)] == 1 else name for name in self.classes)

    @property
    def length(self) -> int:
        """``getLength``: that of the subtypes if it is the same for all, without the tag."""
        lengths = {part.length for part in self.nested}
        return lengths.pop() if len(lengths) == 1 else -1

    @property
    def shape(self) -> Part:
        return Choice(self.names, self.nested, tuple(range(len(self.nested))))
