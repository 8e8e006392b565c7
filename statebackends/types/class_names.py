"""Names of classes in the snapshots of serializers, and their change; values stay as they are.

A POJO records its class, the declaring class of each field and its subclasses; Kryo the class of the values, and the
registered classes with their serializers; enums, case classes, tuples, arrays and Avro types their class. Each of them
records its snapshot class. Inner classes (``Order$Line``) go with the class around them. The schema of an Avro
class names it, too: all names in it become full ones, since others inherit the namespace of the type around them.

Values name classes where Kryo writes one that is not registered, in POJOs of subclasses that are not registered, and in
Java's object streams. :func:`traces_of` are the bytes by which such values are found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.java import decode_modified_utf8, encode_modified_utf8
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer, read_schema
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.statebackends.types.serializer_parts import Path, with_parts

#: Attributes of serializers that are names of classes.
NAMES = frozenset(
    {
        "snapshot_class", "class_name", "enum_class", "type_class", "component_class", "element_class", "mapper_class",
        "serializer_class", "runtime_class",
    }
)  # fmt: skip
#: Attributes that are several.
LISTS = frozenset({"classes"})
#: The kind of a registration at Kryo whose serializer is named by its class.
OF_CLASS = (1).to_bytes(4, "big")
NAMED_SCHEMAS = ("record", "error", "enum", "fixed")


@dataclass
class _Walk:
    """Walk over a serializer; ``name`` gets every name of a class, and returns the new one."""

    name: Callable[[str], str]
    frame: Callable[[bytes], bytes] = field(default=lambda data: data)

    def changed(self, serializer: TypeSerializer, path: Path = ()) -> TypeSerializer:
        """Return the serializer with the new names, also in its parts."""
        serializer = with_parts(serializer, self.changed, path)
        values = {one.name: getattr(serializer, one.name) for one in fields(serializer)}
        new: dict[str, Any] = {name: self.name(value) for name, value in values.items() if name in NAMES and value}
        new |= {name: tuple(map(self.name, value)) for name, value in values.items() if name in LISTS}
        if isinstance(serializer, PojoSerializer):
            new["fields"] = tuple(self._member(one, names_class=False) for one in serializer.fields)
            for name in ("registered", "others", "inferred"):
                new[name] = tuple(self._member(one, names_class=True) for one in values[name])
        if isinstance(serializer, KryoSerializer):
            for name in ("registrations", "defaults", "default_classes"):
                new[name] = tuple(
                    (self.name(one), self._framed(key), self._framed(value)) for one, key, value in values[name]
                )
        if isinstance(serializer, OpaqueSerializer) and serializer.payload == _utf(serializer.detail):
            new["detail"] = self.name(serializer.detail)
            new["payload"] = _utf(new["detail"])
        if isinstance(serializer, AvroSerializer):
            new["schema"] = _schema(serializer.schema, self.name)
        if all(values[name] == value for name, value in new.items()):
            return serializer
        if "schema" in new:
            new["name"], new["part"] = read_schema(new["schema"])
        return replace(serializer, **new)

    def _member(self, member: Member, *, names_class: bool) -> Member:
        name = self.name(member.name) if names_class else member.name
        return replace(member, name=name, key=self._framed(member.key))

    def _framed(self, data: bytes | None) -> bytes | None:
        return None if data is None else self.frame(data)


def _utf(text: str) -> bytes:
    data = encode_modified_utf8(text)
    return len(data).to_bytes(2, "big") + data


def names_in(serializer: TypeSerializer) -> frozenset[str]:
    """Return the names of all classes that the snapshot of a serializer has, but for those of arrays."""
    found: set[str] = set()

    def seen(name: str) -> str:
        found.add(name.lstrip("[").removeprefix("L").removesuffix(";") if name.startswith("[") else name)
        return name

    _Walk(seen).changed(serializer)
    return frozenset(found)


@dataclass(frozen=True)
class ClassRename:
    """Another name for a class, and for the classes inside of it."""

    old: str
    new: str

    def name(self, text: str) -> str:
        """Return the new name of a class, or the name as it is; arrays have it inside.

        >>> rename = ClassRename("a.Order", "b.Order")
        >>> [rename.name(text) for text in ("a.Order", "a.Order$Line", "a.Orders", "[La.Order;")]
        ['b.Order', 'b.Order$Line', 'a.Orders', '[Lb.Order;']
        """
        depth = len(text) - len(text.lstrip("["))
        if depth and text[depth : depth + 1] == "L" and text.endswith(";"):
            return f"{text[: depth + 1]}{self.name(text[depth + 1 : -1])};"
        if text == self.old or text.startswith(f"{self.old}$"):
            return self.new + text[len(self.old) :]
        return text

    def serializer(self, serializer: TypeSerializer) -> TypeSerializer:
        """Return a serializer with the new name; the same if it does not have the old one.

        Raise UnsupportedStateError if the old name is where only the job's code can change it.
        """
        new = _Walk(self.name, self._frame).changed(serializer)
        view = DataOutputView()
        write_enveloped(new, view)
        if self._stays_in(view.getvalue()):
            raise UnsupportedStateError(
                f"a serializer snapshot names {self.old!r} in a part that only the job's own code reads",
                found=serializer.flink_type,
                remedy="write the state anew with its type: with_state(uid, name, rows, types={...})",
            )
        return new

    def _stays_in(self, snapshot: bytes) -> bool:
        """Return whether bytes have the old name, or that of a class inside of it, as Java's UTF."""
        old = encode_modified_utf8(self.old)
        names = re.finditer(re.escape(old) + rb"(\$[\w$]*)?", snapshot)
        return any(snapshot[one.start() - 2 : one.start()] == len(one[0]).to_bytes(2, "big") for one in names)

    def _frame(self, data: bytes) -> bytes:
        """Return a frame that begins with the name of a class, and may have that of a serializer after its kind.

        Anything else stays, such as Java's object streams, and is refused afterwards if it has the old name.
        """
        size = int.from_bytes(data[:2], "big")
        try:
            name, rest = decode_modified_utf8(data[2 : 2 + size]), data[2 + size :]
            if rest[:4] == OF_CLASS and int.from_bytes(rest[4:6], "big") == len(rest) - 6:
                rest = OF_CLASS + _utf(self.name(decode_modified_utf8(rest[6:])))
        except ValueError:
            return data
        return _utf(self.name(name)) + rest if len(data) >= 2 + size else data


def traces_of(name: str) -> tuple[bytes, ...]:
    """Return what values contain that name a class: of Java's UTF, of Kryo's ASCII, of arrays, and of inner classes."""
    data = encode_modified_utf8(name)
    kryo = data[:-1] + bytes([data[-1] | 0x80])
    return _utf(name), kryo, b"L" + data + b";", data + b"$"


def may_name_classes(serializer: TypeSerializer) -> bool:
    """Return whether values may have names of classes that the snapshot does not have."""
    return any(isinstance(part, KryoSerializer) or part.opaque_parts() for part in serializer.all_parts())


# -- schemas of Avro -----------------------------------------------------------------------------------------------


def _schema(text: str, name: Callable[[str], str]) -> str:
    """Return a schema with the new names of its types; the text itself if none changes."""
    parsed = json.loads(text)
    changes: list[bool] = []

    def renamed(full: str) -> str:
        new = name(full)
        changes.append(new != full)
        return new

    whole = _Schema(renamed).whole(parsed, "")
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")) if any(changes) else text


@dataclass
class _Schema:
    """A schema whose named types get full names."""

    name: Callable[[str], str]
    full_names: dict[str, str] = field(default_factory=dict)

    def whole(self, schema: Any, space: str) -> Any:
        """Return a schema inside a namespace, with full names."""
        if isinstance(schema, list):
            return [self.whole(branch, space) for branch in schema]
        if isinstance(schema, str):
            full = schema if "." in schema or not space else f"{space}.{schema}"
            return self.full_names.get(full, self.full_names.get(schema, schema))
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        if kind in NAMED_SCHEMAS and isinstance(schema.get("name"), str):
            return self._named(schema, space)
        return {key: self.whole(value, space) if key in ("type", "items", "values") else value
                for key, value in schema.items()}  # fmt: skip

    def _named(self, schema: dict[str, Any], space: str) -> dict[str, Any]:
        old_name = schema["name"]
        inside = schema.get("namespace", space) if "." not in old_name else old_name.rpartition(".")[0]
        full = old_name if "." in old_name or not inside else f"{inside}.{old_name}"
        self.full_names[full] = new = self.name(full)
        renamed = {key: value for key, value in schema.items() if key != "namespace"} | {"name": new}
        if "fields" in renamed:
            renamed["fields"] = [{**part, "type": self.whole(part["type"], inside)} for part in schema["fields"]]
        if "." not in new:
            renamed["namespace"] = ""
        return renamed
