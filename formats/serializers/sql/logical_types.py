"""Logical types of SQL state: trees that snapshots embed as Java object streams.

    LogicalType := object of org.apache.flink.table.types.logical.XType
                   {Z isNullable, enum typeRoot, own fields (KINDS below), children}

A ``RowDataSerializer`` holds one stream per field. The type determines the slot of a value in a binary row, its Arrow
type, and how Flink prints it. Streams are kept as bytes for writing (:class:`EmbeddedType`); ``logical_streams``
writes new ones. Flink: ``LogicalType`` and its subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, map_type
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.java_stream import (
    JavaArray,
    JavaEnum,
    JavaObject,
    ObjectStreamClass,
    parse_java_object,
)
from pyspark_savepoint.formats.variant import VARIANT

PACKAGE = "org.apache.flink.table.types.logical."
MAX_LENGTH = 2147483647
MAX_DEPTH = 32
#: Limit of the types in one stream: at most MAX_TYPES, and at most FEW_TYPES plus one per byte. A shared object counts
#: wherever it is used, and names count as one type per CHARACTERS characters, so that sharing cannot inflate the tree
#: or its text.
MAX_TYPES = 20_000
FEW_TYPES = 256
CHARACTERS = 16

#: By Java class: the type root, and the attribute of :class:`LogicalType` for each field of the class.
KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "CharType": ("CHAR", {"length": "length"}),
    "VarCharType": ("VARCHAR", {"length": "length"}),
    "BooleanType": ("BOOLEAN", {}),
    "BinaryType": ("BINARY", {"length": "length"}),
    "VarBinaryType": ("VARBINARY", {"length": "length"}),
    "DecimalType": ("DECIMAL", {"precision": "precision", "scale": "scale"}),
    "TinyIntType": ("TINYINT", {}),
    "SmallIntType": ("SMALLINT", {}),
    "IntType": ("INTEGER", {}),
    "BigIntType": ("BIGINT", {}),
    "FloatType": ("FLOAT", {}),
    "DoubleType": ("DOUBLE", {}),
    "DateType": ("DATE", {}),
    "TimeType": ("TIME_WITHOUT_TIME_ZONE", {"precision": "precision"}),
    "TimestampType": ("TIMESTAMP_WITHOUT_TIME_ZONE", {"precision": "precision", "kind": "kind"}),
    "LocalZonedTimestampType": ("TIMESTAMP_WITH_LOCAL_TIME_ZONE", {"precision": "precision", "kind": "kind"}),
    "ZonedTimestampType": ("TIMESTAMP_WITH_TIME_ZONE", {"precision": "precision", "kind": "kind"}),
    "YearMonthIntervalType": ("INTERVAL_YEAR_MONTH", {"yearPrecision": "precision", "resolution": "kind"}),
    "DayTimeIntervalType": (
        "INTERVAL_DAY_TIME",
        {"dayPrecision": "precision", "fractionalPrecision": "scale", "resolution": "kind"},
    ),
    "ArrayType": ("ARRAY", {}),
    "MultisetType": ("MULTISET", {}),
    "MapType": ("MAP", {}),
    "RowType": ("ROW", {}),
    "StructuredType": ("STRUCTURED_TYPE", {}),
    "DistinctType": ("DISTINCT_TYPE", {}),
    "RawType": ("RAW", {}),
    "NullType": ("NULL", {}),
    "VariantType": ("VARIANT", {}),
    "BitmapType": ("BITMAP", {}),
}

STRINGS = ("CHAR", "VARCHAR")
BINARIES = ("BINARY", "VARBINARY")
TIMESTAMPS = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
ROWS = ("ROW", "STRUCTURED_TYPE")
#: Types that no binary row can hold.
NOT_STORED = ("TIMESTAMP_WITH_TIME_ZONE",)

ARROW: Mapping[str, pa.DataType] = {
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME_WITHOUT_TIME_ZONE": pa.int32(),
    "INTERVAL_YEAR_MONTH": pa.int32(),
    "RAW": pa.binary(),
    "BITMAP": pa.binary(),
    "NULL": pa.null(),
    "VARIANT": VARIANT,
}
RAW_TIMESTAMP = pa.struct([("millis", pa.int64()), ("nanos", pa.int32())])


@dataclass(frozen=True)
class LogicalType:
    """Node of the tree; ``root`` is Flink's ``LogicalTypeRoot``.

    ``precision`` and ``scale`` also hold the two precisions of an interval, ``kind`` a ``TimestampKind`` or the
    resolution of an interval, ``names`` the fields of rows, ``class_name`` the class or catalog name of a user's type.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    kind: str = ""
    class_name: str = ""
    names: tuple[str, ...] = ()
    children: tuple[LogicalType, ...] = ()

    def __str__(self) -> str:
        return _notation(self) + ("" if self.nullable else " NOT NULL") + KIND_NOTES.get(self.kind, "")

    @property
    def stored(self) -> bool:
        """Whether a binary row can hold this type and can be read: False for types of newer releases of Flink."""
        return self.root in STORED and all(child.stored for child in self.children)

    @property
    def compact(self) -> bool:
        """Whether a decimal (at most 18 digits) or timestamp (at most milliseconds) is stored as one long."""
        return self.precision <= (18 if self.root == "DECIMAL" else 3)


STORED = frozenset(root for root, _ in KINDS.values()) - frozenset(NOT_STORED)
KIND_NOTES = {"ROWTIME": " *ROWTIME*", "PROCTIME": " *PROCTIME*"}


def arrow_type(kind: LogicalType, options: DecodeOptions) -> pa.DataType:
    """Return the Arrow type of values of a logical type."""
    root = kind.root
    if root in ARROW:
        return ARROW[root]
    if root == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    if root in TIMESTAMPS:
        if options.timestamps == "raw":
            return pa.int64() if kind.compact else RAW_TIMESTAMP
        return pa.timestamp("us", tz=None if root == "TIMESTAMP_WITHOUT_TIME_ZONE" else "UTC")
    if root == "INTERVAL_DAY_TIME":
        return pa.int64() if options.timestamps == "raw" else pa.duration("us")
    children = [arrow_type(child, options) for child in kind.children]
    if root == "ARRAY":
        return pa.list_(pa.field("element", children[0]))
    if root == "MAP":
        return map_type(*children)
    if root == "MULTISET":
        return map_type(children[0], pa.int32())
    if root in ROWS:
        return pa.struct(list(zip(kind.names, children, strict=True)))
    if root == "DISTINCT_TYPE":
        return children[0]
    return pa.binary()


@dataclass(frozen=True)
class EmbeddedType:
    """Logical type with the stream that it was read from, which is written back unchanged."""

    kind: LogicalType
    stream: bytes

    @classmethod
    def read(cls, view: DataInputView) -> EmbeddedType:
        """Read one stream with one logical type."""
        start = view.position
        value = parse_java_object(view)
        reader = LogicalTypeReader(view, start)
        kind = reader.logical_type(value, 0)
        return cls(kind, bytes(view.data[start : view.position]))


class LogicalTypeReader:
    """Converter of parsed Java objects to logical types; errors point at the start of the stream."""

    def __init__(self, view: DataInputView, start: int) -> None:
        self.view = view
        self.start = start
        self.count = 0
        self.most = min(MAX_TYPES, FEW_TYPES + view.position - start)

    def fail(self, expected: str, found: object = None) -> NoReturn:
        self.view.position = self.start
        self.view.fail(expected, found)

    def logical_type(self, value: Any, depth: int) -> LogicalType:
        self.add(depth, 1)
        if not isinstance(value, JavaObject) or not value.class_name.startswith(PACKAGE):
            self.fail("a logical type", getattr(value, "class_name", type(value).__name__))
        root = self.field(value, "typeRoot", JavaEnum).constant
        nullable = self.field(value, "isNullable", bool)
        known, attributes = KINDS.get(value.class_name.removeprefix(PACKAGE), ("", {}))
        if not known:
            # An unknown class may have the root of a known one (LegacyTypeInformationType).
            name = value.class_name.removeprefix(PACKAGE)
            return self.counted(
                LogicalType(name if root in STORED else root, nullable, class_name=value.class_name), depth
            )
        if root != known:
            self.fail(f"{value.class_name} to be {known}", root)
        arguments: dict[str, Any] = {ours: self.attribute(value, theirs) for theirs, ours in attributes.items()}
        arguments |= self.parts(root, value, depth + 1)
        kind = LogicalType(root, nullable, **arguments)
        self.check(kind)
        return self.counted(kind, depth)

    def counted(self, kind: LogicalType, depth: int) -> LogicalType:
        """Count the texts of a type and return it."""
        self.add(depth, sum(map(len, (*kind.names, kind.class_name, kind.kind, kind.root))) // CHARACTERS)
        return kind

    def add(self, depth: int, types: int) -> None:
        """Add to the number of types and check it against the limit."""
        self.count += types
        if depth > MAX_DEPTH or self.count > self.most:
            self.fail(f"a logical type of at most {self.most} types, {MAX_DEPTH} deep")

    def field(self, value: JavaObject, name: str, kind: type[Any]) -> Any:
        """Return a field of an object, which must have the given type."""
        field = value.fields.get(name)
        if not isinstance(field, kind):
            self.fail(f"{value.class_name}.{name}", type(field).__name__)
        return field

    def attribute(self, value: JavaObject, name: str) -> int | str:
        """Return a field that is a number, or the name of an enum constant."""
        field = value.fields.get(name)
        if isinstance(field, JavaEnum):
            return field.constant
        return int(self.field(value, name, int))

    def check(self, kind: LogicalType) -> None:
        """Check that lengths, precisions and scales are within Flink's limits."""
        good = kind.length >= 0
        if kind.root == "DECIMAL":
            good = 1 <= kind.precision <= 38 and 0 <= kind.scale <= kind.precision
        elif "TIME" in kind.root:
            good = 0 <= kind.precision <= 9 and 0 <= kind.scale <= 9
        if not good:
            self.fail("a logical type with the numbers that Flink allows", str(kind))

    def parts(self, root: str, value: JavaObject, depth: int) -> dict[str, Any]:
        """Return children, names and class of a composite type, as arguments of :class:`LogicalType`."""
        children: list[Any] = []
        arguments: dict[str, Any] = {}
        if root in ("ARRAY", "MULTISET"):
            children = [value.fields.get("elementType")]
        elif root == "MAP":
            children = [value.fields.get("keyType"), value.fields.get("valueType")]
        elif root == "DISTINCT_TYPE":
            children = [value.fields.get("sourceType")]
            arguments["class_name"] = self.identifier(value)
        elif root == "RAW":
            arguments["class_name"] = self.field(value, "clazz", ObjectStreamClass).class_name
        elif root in ROWS:
            fields = self.row_fields(value, depth)
            arguments["names"] = tuple(self.field(member, "name", str) for member in fields)
            children = [member.fields.get("type") for member in fields]
            if root == "STRUCTURED_TYPE":
                arguments["class_name"] = self.identifier(value)
        arguments["children"] = tuple(self.logical_type(child, depth) for child in children)
        return arguments

    def row_fields(self, value: JavaObject, depth: int) -> list[JavaObject]:
        """Return the fields of a row, or the attributes of a structured type, inherited ones first."""
        fields: list[JavaObject] = []
        while True:
            members = self.elements(value.fields.get("fields", value.fields.get("attributes")))
            if not all(isinstance(member, JavaObject) for member in members):
                self.fail(f"the fields of {value.class_name}")
            fields = members + fields
            above = value.fields.get("superType")
            if not isinstance(above, JavaObject):
                return fields
            value, depth = above, depth + 1
            if depth > MAX_DEPTH or len(fields) > MAX_TYPES:
                self.fail(f"a structured type below at most {MAX_DEPTH} others")

    def elements(self, value: Any) -> list[Any]:
        """Return the elements of a ``java.util.List`` of any of the JDK's classes."""
        for _ in range(4):
            if isinstance(value, JavaArray):
                return value.elements
            if not isinstance(value, JavaObject):
                break
            kind = value.class_name.removeprefix("java.util.")
            if kind in ("Collections$UnmodifiableList", "Collections$UnmodifiableRandomAccessList"):
                value = value.fields.get("list")
            elif kind == "Arrays$ArrayList":
                value = value.fields.get("a")
            elif kind == "Collections$SingletonList":
                return [value.fields.get("element")]
            elif kind == "Collections$EmptyList":
                return []
            elif kind in ("ArrayList", "LinkedList", "CollSer"):
                return [element for element in value.annotations if not isinstance(element, bytes)]
            else:
                break
        return self.fail("a list", getattr(value, "class_name", type(value).__name__))

    def identifier(self, value: JavaObject) -> str:
        """Return the catalog name of a user's type, or its class."""
        name = value.fields.get("objectIdentifier")
        if isinstance(name, JavaObject):
            parts = (self.field(name, part, str) for part in ("catalogName", "databaseName", "objectName"))
            return ".".join(f"`{part}`" for part in parts)
        described = value.fields.get("implementationClass")
        if isinstance(described, ObjectStreamClass):
            return described.class_name
        return str(value.fields.get("className") or "")


NAMES: Mapping[str, str] = {
    "INTEGER": "INT",
    "CHAR": "CHAR({length})",
    "VARCHAR": "VARCHAR({length})",
    "BINARY": "BINARY({length})",
    "VARBINARY": "VARBINARY({length})",
    "DECIMAL": "DECIMAL({precision}, {scale})",
    "TIME_WITHOUT_TIME_ZONE": "TIME({precision})",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP({precision})",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ({precision})",
    "TIMESTAMP_WITH_TIME_ZONE": "TIMESTAMP({precision}) WITH TIME ZONE",
    "RAW": "RAW('{class_name}', '...')",
    "DISTINCT_TYPE": "{class_name}",
}


def _notation(kind: LogicalType) -> str:
    """Return the type as Flink prints it, without nullability."""
    root = kind.root
    if root in ("VARCHAR", "VARBINARY") and kind.length == MAX_LENGTH:
        return "STRING" if root == "VARCHAR" else "BYTES"
    if root in ("ARRAY", "MULTISET", "MAP"):
        return f"{root}<{', '.join(map(str, kind.children))}>"
    if root in ROWS:
        fields = [f"`{name}` {child}" for name, child in zip(kind.names, kind.children, strict=True)]
        if root == "ROW":
            return f"ROW<{', '.join(fields)}>"
        if kind.class_name.startswith("`"):
            return kind.class_name
        return "STRUCTURED<" + ", ".join([f"'{kind.class_name}'", *fields]) + ">"
    if root in ("INTERVAL_YEAR_MONTH", "INTERVAL_DAY_TIME"):
        return _interval(kind)
    if root not in NAMES:
        return root
    return NAMES[root].format(
        length=kind.length, precision=kind.precision, scale=kind.scale, class_name=kind.class_name
    )


def _interval(kind: LogicalType) -> str:
    """Return INTERVAL and its fields, with their precisions."""
    precisions = {"YEAR": kind.precision, "DAY": kind.precision, "SECOND": kind.scale}
    parts = kind.kind.split("_TO_")
    return "INTERVAL " + " TO ".join(f"{part}({precisions[part]})" if part in precisions else part for part in parts)
