"""Structs with a field that only the user's code can read: the others are columns, if the end of the value is known.

Fields before it are read as usual. The field itself becomes BINARY: its bytes and, unless it is null, all bytes after
it, because its end is unknown. The fields after it are then null. A VARIANT of a Kryo value in such a struct may have
the same effect: if it contains an object of a user's class, it becomes BINARY up to the end of the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.blobs import AfterRest, OpenPart, PartSerializer, Rest
from pyspark_savepoint.formats.serializers.basic.kinds import KindSerializer
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer, RowSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import (
    NullableSerializer,
)
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.formats.variant import VARIANT

STRUCTS = (FieldsSerializer, RowSerializer)
CHOICES = ("EITHER", "SCALA_EITHER", "FLINKX_EITHER", "TRY", "UNION", "OPTION", "FLINKX_OPTION")


@dataclass(frozen=True)
class WholeKryo(OpenPart):
    """Kryo value that becomes BINARY up to the end of the whole value if it contains an object of a user's class."""

    part: KryoSerializer

    def decode(self, at: Cursors) -> pa.Array:
        return self.part.decode(at, whole=True)


@lru_cache(maxsize=1024)
def open_ended(serializer: TypeSerializer) -> TypeSerializer | None:
    """Return the serializer of values that end with their spans; None if only the user's code can read any of it."""
    if not serializer.opaque_parts():
        return serializer
    opened = _opened(serializer)
    return None if isinstance(opened, PartSerializer) else opened


def _opened(serializer: TypeSerializer) -> TypeSerializer:
    if isinstance(serializer, KryoSerializer) and not serializer.opaque:
        typed = serializer.arrow_type(DecodeOptions()) != VARIANT
        return serializer if typed else PartSerializer.of(serializer, WholeKryo(serializer))
    if serializer.delimited:
        return serializer
    if isinstance(serializer, PojoSerializer) and not serializer.subclasses:
        parts = _fields([field.serializer for field in serializer.fields])
        fields = tuple(replace(field, serializer=part) for field, part in zip(serializer.fields, parts, strict=True))
        return replace(serializer, fields=fields)
    if isinstance(serializer, STRUCTS):
        return replace(serializer, nested=_fields(serializer.nested))
    if isinstance(serializer, TtlSerializer):
        return replace(serializer, nested=(serializer.nested[0], _opened(serializer.nested[1])))
    if isinstance(serializer, KindSerializer) and (serializer.kind.word in CHOICES or _is_unpadded(serializer)):
        return replace(serializer, nested=tuple(map(_opened, serializer.nested)))
    return PartSerializer.of(serializer, Rest(serializer)) if serializer.opaque_parts() else serializer


def _is_unpadded(serializer: TypeSerializer) -> bool:
    return isinstance(serializer, NullableSerializer) and not serializer.padding


def _fields(serializers: Sequence[TypeSerializer]) -> tuple[TypeSerializer, ...]:
    """Return the serializers of the fields of a struct: those after a field that may cut it may be null."""
    fields: list[TypeSerializer] = []
    cut = False
    for serializer in serializers:
        part = _opened(serializer)
        fields.append(PartSerializer.of(serializer, AfterRest(part)) if cut else part)
        cut = cut or _cuts(part)
    return tuple(fields)


def _cuts(serializer: TypeSerializer) -> bool:
    """Return whether a value may take all bytes that are left."""
    if isinstance(serializer, PartSerializer):
        part = serializer.part
        return not isinstance(part, AfterRest) or (isinstance(part.part, TypeSerializer) and _cuts(part.part))
    return any(map(_cuts, serializer.children))


@dataclass(frozen=True)
class Cut:
    """Paths of fields that are BINARY, of those after the first of them, and of VARIANTs that may be bytes as well."""

    binary: tuple[str, ...]
    null: tuple[str, ...]
    variants: tuple[str, ...]


def cut_of(serializer: TypeSerializer) -> Cut:
    """Return which fields of an open-ended value are not read, by their paths."""
    binary: list[str] = []
    null: list[str] = []
    variants: list[str] = []
    for path, part in _paths(serializer, ""):
        inner = part.part
        if isinstance(inner, AfterRest):
            if binary:
                null.append(path)
            inner = inner.part.part if isinstance(inner.part, PartSerializer) else inner
        if isinstance(inner, Rest):
            binary.append(path)
        elif isinstance(inner, WholeKryo):
            variants.append(path)
    return Cut(tuple(binary), tuple(null), tuple(variants))


def _paths(serializer: TypeSerializer, path: str) -> Iterator[tuple[str, PartSerializer]]:
    """Yield the parts of an open-ended value with the paths of their fields."""
    if isinstance(serializer, PartSerializer):
        yield path, serializer
        if isinstance(serializer.part, AfterRest) and not isinstance(serializer.part.part, PartSerializer):
            assert isinstance(serializer.part.part, TypeSerializer)
            yield from _paths(serializer.part.part, path)
        return
    names: Sequence[str] = [""] * len(serializer.children)
    if isinstance(serializer, PojoSerializer):
        names = [field.name for field in serializer.fields]
    elif isinstance(serializer, STRUCTS):
        names = serializer.names
    for name, child in zip(names, serializer.children, strict=True):
        yield from _paths(child, f"{path}.{name}".strip("."))
