"""Rows as Beam's ``RowCoder`` and ``SchemaCoder`` write them, whose schema is in the coder's Java object.

    row    varint n    varint m  bits of null fields [m bytes]    each of the first n fields that is not null

A field is written by the coder of its type; an element or a value of a map that may be null has a flag before it. Rows
that an older schema wrote have fewer fields; the others are null, as Beam reads them. A schema whose fields are written
in another order, which has options (one leaves out ``n`` and ``m``), or a logical type that is not here, is not known.
Beam: ``RowCoderGenerator``, ``SchemaCoderHelpers``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Flags, scatter, struct_array
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject
from pyspark_savepoint.formats.serializers.basic.shapes import MapEntries, struct_type
from pyspark_savepoint.formats.serializers.beam.parts import (
    DATA,
    INSTANT,
    LONG_,
    NUMBERS,
    TEXT,
    Big,
    Elements,
    Nullable,
    ReadOnly,
    VarLong,
    read_size,
    read_varints,
)
from pyspark_savepoint.formats.serializers.layout import Part

SCHEMAS = "org.apache.beam.sdk.schemas."
#: Fields of a type; ``metadata`` is of some versions.
OF_TYPE = {"collectionElementType", "logicalType", "mapKeyType", "mapValueType", "nullable", "rowSchema", "typeName"}
PRIMITIVES: Mapping[str, Part] = {
    "BYTE": NUMBERS["BYTE"],
    "INT16": NUMBERS["SHORT"],
    "INT32": VarLong(int_=True),
    "INT64": LONG_,
    "DECIMAL": Big(scaled=True),
    "FLOAT": NUMBERS["FLOAT"],
    "DOUBLE": NUMBERS["DOUBLE"],
    "STRING": TEXT,
    "DATETIME": INSTANT,
    "BOOLEAN": NUMBERS["BOOLEAN"],
    "BYTES": DATA,
}
#: Logical types whose values are those of another type: days, nanoseconds of a day.
LOGICAL: Mapping[str, Part] = {f"{SCHEMAS}logicaltypes.Date": LONG_, f"{SCHEMAS}logicaltypes.Time": LONG_}


@dataclass(frozen=True)
class Row(ReadOnly):
    """A row of a schema."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def flink_type(self) -> str:
        fields = (f"{name} {part.flink_type}" for name, part in zip(self.names, self.parts, strict=True))
        return f"BEAM_ROW<{', '.join(fields)}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return struct_type(self.names, self.parts, options)

    def decode(self, at: Cursors) -> pa.Array:
        """Read which fields are there, then each field of all rows."""
        rows, most = len(at), len(self.parts)
        start = at.at(at.position.copy(), at.end)
        counts = read_varints(at, "the number of fields")
        wrong = np.flatnonzero((counts < 0) | (counts > most))
        start.check(int(wrong[0]) if len(wrong) else -1, f"0 to {most} fields")
        present = (np.arange(most) < counts[:, None]) & ~self._nulls(at)
        columns = []
        for index, (name, part) in enumerate(zip(self.names, self.parts, strict=True)):
            here = at.select(present[:, index])
            with here.inside(name):
                column = part.decode(here)
            at.update(present[:, index], here)
            columns.append(scatter(column, present[:, index]))
        return struct_array(self.arrow_type(at.options), columns, rows)

    def _nulls(self, at: Cursors) -> Flags:
        """Read the bits of the fields that are null, the lowest first."""
        start = at.at(at.position.copy(), at.end)
        most = len(self.parts)
        sizes = read_size(at, "the bits of null fields")
        wrong = np.flatnonzero(sizes > -(-most // 8))
        start.check(int(wrong[0]) if len(wrong) else -1, f"bits of {most} fields")
        widest = int(sizes.max(initial=0))
        octets = np.zeros((len(at), max(widest, -(-most // 8))), np.uint8)
        for place in range(widest):
            rows = sizes > place
            octets[rows, place] = at.buffer[at.position[rows] + place]
        at.position += sizes
        bits = np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)
        beyond = np.flatnonzero(bits[:, most:].any(axis=1))
        start.check(int(beyond[0]) if len(beyond) else -1, f"bits of {most} fields")
        return bits[:, :most]


def row_of(coder: JavaObject, depth: int, room: list[int]) -> Part | None:
    """Return the rows that a coder writes; None if its schema is not known, or has more than ``room`` types."""
    return _row(coder.fields.get("schema"), depth, room)


def _row(schema: object, depth: int, room: list[int]) -> Part | None:
    if not isinstance(schema, JavaObject) or schema.class_name != f"{SCHEMAS}Schema" or depth < 0:
        return None
    fields = _list(schema.fields.get("fields"))
    if fields is None or not _has_no_options(schema.fields.get("options")):
        return None
    names, parts = [], []
    for field in fields:
        if not isinstance(field, JavaObject) or not isinstance(field.fields.get("name"), str):
            return None
        part = _type(field.fields.get("type"), depth - 1, room, nullable=False)
        if part is None:
            return None
        names.append(field.fields["name"])
        parts.append(part)
    if len({*names}) != len(names) or _positions(schema.fields.get("encodingPositions")) != _numbered(names):
        return None
    return Row(tuple(names), tuple(parts))


def _type(kind: object, depth: int, room: list[int], nullable: bool = True) -> Part | None:
    """Return the part of a field's type; a null field has no bytes, so that only other places have flags."""
    room[0] -= 1
    if room[0] < 0 or depth < 0 or not isinstance(kind, JavaObject) or {*kind.fields} - {"metadata"} != OF_TYPE:
        return None
    name, flag = kind.fields["typeName"], kind.fields["nullable"]
    if not isinstance(name, JavaEnum) or not isinstance(flag, JavaObject):
        return None
    part = _part(name.constant, kind, depth, room)
    return Nullable(part) if part is not None and nullable and flag.fields.get("value") else part


def _part(name: str, kind: JavaObject, depth: int, room: list[int]) -> Part | None:
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    if name == "LOGICAL_TYPE":
        logical = kind.fields["logicalType"]
        return LOGICAL.get(logical.class_name) if isinstance(logical, JavaObject) else None
    if name == "ROW":
        return _row(kind.fields["rowSchema"], depth - 1, room)
    if name not in COMPOSITES:
        return None
    of, build = COMPOSITES[name]
    parts = [_type(kind.fields[one], depth - 1, room) for one in of]
    return None if None in parts else build(*parts)


COMPOSITES: Mapping[str, tuple[tuple[str, ...], Callable[..., Part]]] = {
    "ARRAY": (("collectionElementType",), Elements),
    "ITERABLE": (("collectionElementType",), Elements),
    "MAP": (("mapKeyType", "mapValueType"), MapEntries),
}


def _numbered(names: list[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _list(value: object) -> list[object] | None:
    """Return the elements of an ArrayList, behind the block with its capacity."""
    if not isinstance(value, JavaObject) or value.class_name != "java.util.ArrayList":
        return None
    return value.annotations[1:]


def _positions(value: object) -> dict[str, int] | None:
    """Return the numbers of a HashMap, behind the block with its size."""
    entries = _entries(value)
    if entries is None:
        return None
    return {
        name: number.fields.get("value", -1)
        for name, number in zip(entries[::2], entries[1::2], strict=True)
        if isinstance(name, str) and isinstance(number, JavaObject)
    }


def _entries(value: object) -> list[object] | None:
    if not isinstance(value, JavaObject) or value.class_name != "java.util.HashMap" or not len(value.annotations) % 2:
        return None
    return value.annotations[1:]


def _has_no_options(options: object) -> bool:
    """Return whether a schema has no options; older ones have no place for any."""
    return options is None or (isinstance(options, JavaObject) and _entries(options.fields.get("options")) == [])
