"""Serializer of Avro types: the snapshot holds the schema, values have Flink's own encoding.

    snapshot := version 1: utf schema    version 2: utf class  utf schema    version 3: string class  string schema
    value    := see ``leaves.py`` and ``parts.py``; this is not Avro's binary encoding

``string`` has the encoding of ``StringValue``, which has no limit of 64 KiB. Flink: ``AvroSerializer``,
``AvroSerializerSnapshot``.

The schema's JSON is parsed to the codecs of a value. It may be corrupt: nesting and the number of types are bounded,
and names must be defined. As in Avro, a logical type that does not fit its type is ignored. A record that contains
itself, or a schema of more than MAX_TYPES parts, has no struct: it becomes :class:`AvroOpaque`, whose values are shown
as bytes. Source: the Avro 1.12 specification.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import STRING_VALUE, UTF, Encoding, by_version
from pyspark_savepoint.formats.java import is_well_formed
from pyspark_savepoint.formats.serializers.avro.leaves import (
    TIMES,
    AvroBytes,
    AvroDecimal,
    AvroEnum,
    AvroNull,
    AvroTime,
)
from pyspark_savepoint.formats.serializers.avro.parts import AvroBlocks, AvroOpaque, AvroRecord, AvroUnion
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict

MAX_JSON_DEPTH = 256
MAX_DEPTH = 40
#: Limit of the characters of a namespace, which the full name of every type inside repeats.
MAX_NAMESPACE = 1000
MAX_TYPES = 10_000
MAX_DIGITS = 38


class SchemaError(ValueError):
    """Error for JSON that is not an Avro schema, with the reason."""


def _number(stem: str) -> Part:
    return NumberSerializer.of(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")


PRIMITIVES: Mapping[str, Part] = {
    "null": AvroNull(),
    "boolean": _number("Boolean"),
    "int": _number("Int"),
    "long": _number("Long"),
    "float": _number("Float"),
    "double": _number("Double"),
    "bytes": AvroBytes(),
    "string": AvroBytes(text=True),
}
NUMBER_OF_TIME = {4: PRIMITIVES["int"], 8: PRIMITIVES["long"]}


def read_schema(text: str) -> tuple[str, Part]:
    """Return name and codec of the type that a schema describes; SchemaError if it is not a schema."""
    _check_json_depth(text)
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {str(error)[:200]}") from None
    parser = _Parser()
    part, weight = parser.parse(schema, "", 0)
    name = parser.name_of(schema)
    if weight > MAX_TYPES:
        return name, AvroOpaque("", f"it has {weight} parts, at most {MAX_TYPES} are shown as columns")
    return name, part


def _check_json_depth(text: str) -> None:
    """Raise SchemaError if brackets outside strings are nested deeper than the JSON parser allows."""
    depth = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            if depth > MAX_JSON_DEPTH:
                raise SchemaError(f"JSON nested deeper than {MAX_JSON_DEPTH}")
        elif char in "]}":
            depth -= 1


@dataclass
class _Parser:
    """Parser that returns codecs with their weight: the number of parts with all references expanded."""

    named: dict[str, tuple[Part, int]] = field(default_factory=dict)
    #: Records that are being read, with the number of enclosing unions, arrays and maps.
    open: dict[str, int] = field(default_factory=dict)
    guards: int = 0

    def parse(self, schema: Any, space: str, depth: int) -> tuple[Part, int]:
        """Parse any schema inside a namespace."""
        if depth > MAX_DEPTH:
            raise SchemaError(f"types nested deeper than {MAX_DEPTH}")
        if isinstance(schema, str):
            return self._by_name(schema, space)
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        if not isinstance(schema, dict):
            raise SchemaError(f"{str(schema)[:40]!r} is not a type")
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, space, depth + 1)
        reader = READERS.get(kind)
        part, weight = reader(self, schema, space, depth) if reader else self._by_name(kind, space)
        return _logical(part, schema), weight

    def name_of(self, schema: Any) -> str:
        """Return the full name of a named type, else the kind of type."""
        if isinstance(schema, dict):
            return self._full_name(schema, "")[0] if "name" in schema else str(schema.get("type"))[:100]
        return schema if isinstance(schema, str) else "union"

    def _by_name(self, name: str, space: str) -> tuple[Part, int]:
        if name in PRIMITIVES:
            return PRIMITIVES[name], 1
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            if candidate in self.open:
                if self.open[candidate] == self.guards:
                    raise SchemaError(f"record {candidate} always contains itself")
                return AvroOpaque(candidate, f"record {candidate} contains itself"), 1
            if candidate in self.named:
                return self.named[candidate]
        raise SchemaError(f"no type is called {name[:100]!r}")

    def _full_name(self, schema: Mapping[str, Any], space: str) -> tuple[str, str]:
        """Return the full name, and the namespace of the types inside."""
        name = _text(schema, "name")
        if "." in name:
            return name, name.rpartition(".")[0]
        space = _text(schema, "namespace") if schema.get("namespace") is not None else space
        if len(space) > MAX_NAMESPACE:
            raise SchemaError(f"a namespace of more than {MAX_NAMESPACE} characters")
        return (f"{space}.{name}" if space else name), space

    def _define(self, name: str, part: Part, weight: int) -> tuple[Part, int]:
        if name in self.named:
            raise SchemaError(f"{name[:100]!r} is defined twice")
        self.named[name] = part, weight
        return part, weight

    def _record(self, schema: Mapping[str, Any], space: str, depth: int) -> tuple[Part, int]:
        name, inside = self._full_name(schema, space)
        if name in self.named or name in self.open:
            raise SchemaError(f"{name[:100]!r} is defined twice")
        self.open[name] = self.guards
        names: dict[str, None] = {}
        parts, weight = [], 1
        for entry in _list(schema, "fields"):
            if not isinstance(entry, dict):
                raise SchemaError("a field is not an object")
            part, more = self.parse(entry.get("type"), inside, depth + 1)
            names[_text(entry, "name")] = None
            parts.append(part)
            weight += more
        if len(names) != len(parts):
            raise SchemaError(f"two fields of {name[:100]!r} have the same name")
        del self.open[name]
        return self._define(name, AvroRecord(tuple(names), tuple(parts), name), weight)

    def _guarded(self, schema: Any, space: str, depth: int) -> tuple[Part, int]:
        """Parse a type that may be absent from a value: the member of a union, an item of an array or map."""
        self.guards += 1
        part = self.parse(schema, space, depth + 1)
        self.guards -= 1
        return part

    def _union(self, schemas: list[Any], space: str, depth: int) -> tuple[Part, int]:
        members = [self._guarded(schema, space, depth) for schema in schemas]
        parts = tuple(part for part, _ in members)
        if not parts or sum(isinstance(part, AvroNull) for part in parts) > 1:
            raise SchemaError("a union must have at least one type, and null at most once")
        if any(isinstance(part, AvroUnion) for part in parts):
            raise SchemaError("a union directly inside a union")
        return AvroUnion(parts), 1 + sum(weight for _, weight in members)

    def _array(self, schema: Mapping[str, Any], space: str, depth: int) -> tuple[Part, int]:
        part, weight = self._guarded(schema.get("items"), space, depth)
        return AvroBlocks(part), 1 + weight

    def _map(self, schema: Mapping[str, Any], space: str, depth: int) -> tuple[Part, int]:
        part, weight = self._guarded(schema.get("values"), space, depth)
        return AvroBlocks(part, keyed=True), 1 + weight

    def _enum(self, schema: Mapping[str, Any], space: str, depth: int) -> tuple[Part, int]:
        symbols = _list(schema, "symbols")
        texts = [_text({"symbol": symbol}, "symbol") for symbol in symbols]
        return self._define(self._full_name(schema, space)[0], AvroEnum(tuple(texts)), 1)

    def _fixed(self, schema: Mapping[str, Any], space: str, depth: int) -> tuple[Part, int]:
        size = schema.get("size")
        if type(size) is not int or not 0 <= size < 2**31:
            raise SchemaError("a fixed type without a size")
        return self._define(self._full_name(schema, space)[0], AvroBytes(size=size), 1)


READERS: Mapping[str, Callable[[_Parser, Mapping[str, Any], str, int], tuple[Part, int]]] = {
    "record": _Parser._record,
    "error": _Parser._record,
    "enum": _Parser._enum,
    "array": _Parser._array,
    "map": _Parser._map,
    "fixed": _Parser._fixed,
}


def _logical(part: Part, schema: Mapping[str, Any]) -> Part:
    """Return the codec of the logical type, if it is known and fits; else that of the type."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str):
        return part
    if logical in TIMES and part == NUMBER_OF_TIME[TIMES[logical][0]]:
        return AvroTime(logical)
    if logical == "decimal" and isinstance(part, AvroBytes) and not part.text:
        return _decimal(part, schema.get("precision"), schema.get("scale", 0))
    return part


def _decimal(part: AvroBytes, precision: Any, scale: Any) -> Part:
    if type(precision) is int and type(scale) is int and 0 <= scale <= precision and 0 < precision <= MAX_DIGITS:
        return AvroDecimal(part, precision, scale)
    return part


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    if not isinstance(value, str) or not is_well_formed(value):
        raise SchemaError(f"{key!r} is missing, or is not a text")
    return value


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    if not isinstance(value, list):
        raise SchemaError(f"{key!r} is missing, or is not a list")
    return value


TEXT_OR_NONE: Encoding[Any] = by_version({1: UTF, 3: STRING_VALUE})


def _check_texts(view: DataInputView, *texts: str | None) -> None:
    if None in texts:
        view.fail("an Avro class and schema", "a null")


AVRO = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
GENERIC_RECORD = "org.apache.avro.generic.GenericRecord"


@register(AVRO)
@struct_with_dict
class AvroSerializer(DeclaredSerializer):
    """Serializer of an Avro type; ``runtime_class`` is a GenericRecord, or a specific or reflected class."""

    runtime_class: str = part(TEXT_OR_NONE, "an Avro class", since=2, absent="")
    schema: str = part(TEXT_OR_NONE, "an Avro schema", check=_check_texts)
    name: str
    part: Part
    snapshot_versions: ClassVar[tuple[int, ...]] = (1, 2, 3)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read class and schema; values are opaque if the schema cannot be columns."""
        fields = cls.read_fields(name, version, reader)
        try:
            full_name, part = read_schema(fields["schema"])
        except SchemaError as error:
            reader.view.fail("an Avro schema", str(error))
        kind = OpaqueAvroSerializer if recursion(part) else cls
        return kind(name, version, **fields, name=full_name, part=part)

    @classmethod
    def of(cls, schema: str, runtime_class: str = GENERIC_RECORD) -> AvroSerializer:
        """Return an Avro type as this package writes it; SchemaError if ``schema`` is not a schema."""
        full_name, part = read_schema(schema)
        kind = OpaqueAvroSerializer if recursion(part) else cls
        return kind(AVRO, 3, runtime_class, schema, full_name, part)

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.name}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        return self.part.layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        return self.part.decode(at)

    def sizes(self, column: pa.Array) -> Longs:
        return self.part.sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.part.encode(column, at)


@dataclass(frozen=True)
class OpaqueAvroSerializer(AvroSerializer):
    """Serializer of an Avro type that contains itself or is too large for columns: values are BINARY."""

    opaque = True

    @property
    def reason(self) -> str:
        """The reason why the values cannot be a struct."""
        return recursion(self.part)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


def recursion(part: Part) -> str:
    """Return the reason why a type, or a part of it, cannot be a column; empty if it can."""
    if isinstance(part, AvroOpaque):
        return part.reason
    inner: tuple[Part, ...] = ()
    if isinstance(part, AvroRecord):
        inner = part.parts
    elif isinstance(part, AvroUnion):
        inner = part.members
    elif isinstance(part, AvroBlocks):
        inner = (part.item,)
    return next(filter(None, map(recursion, inner)), "")
