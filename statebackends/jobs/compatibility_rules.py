"""Rules for serializers that compare more than their parts, each as in Flink's snapshot class of the same name.

A rule gets the serializers of the snapshot and of the job, both of one snapshot class. Flink: ``...Snapshot#
resolveOuterSchemaCompatibility`` and ``#resolveSchemaCompatibility`` of the classes named below.

Avro: equal schemas are compatible as is; a reader's schema that resolves the writer's migrates; any other is
incompatible. Docs and aliases are not part of equality; aliases of the reader's types and fields count for resolution.
Flink: ``AvroSerializerSnapshot``, Avro's ``Schema#equals`` and ``SchemaCompatibility``.

POJOs and records: fields may be added and removed, but the others must keep their types. Fields match by name and
declaring class. A type in notation does not name declaring classes; there only the name counts. Flink:
``PojoSerializerSnapshot``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK, Flink
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer, ScalaEnumSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import all_kinds
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member, OpaqueFrame
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.generic import GenericSerializer
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    BinaryRowDataSerializer,
    CollectionDataSerializer,
    RowDataSerializer,
)
from pyspark_savepoint.formats.serializers.sql.table_data import (
    DecimalDataSerializer,
    ExternalSerializer,
    TimestampDataSerializer,
)
from pyspark_savepoint.statebackends.jobs.compatibility import (
    AS_IS,
    Compatibility,
    Resolution,
    Resolver,
    Rule,
    after_migration,
    incompatible,
    misread,
    reconfigured,
    unknown,
    worst,
)

Schema = Mapping[str, Any]
NAMED_SCHEMAS = ("record", "error", "enum", "fixed")
#: Types that a reader of a type accepts in addition to the type itself.
PROMOTIONS: Mapping[str, frozenset[str]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}


def resolve_avro(old: AvroSerializer, new: AvroSerializer, _resolver: Resolver) -> Resolution:
    """Compare two schemas; the classes do not matter."""
    writer, reader = _Names(), _Names()
    written, wanted = writer.normal(json.loads(old.schema), ""), reader.normal(json.loads(new.schema), "")
    if written == wanted and _same_names(writer, reader):
        return AS_IS
    problem = _Resolver(writer, reader).problem(wanted, written, "")
    if problem is not None:
        return incompatible(f"Avro: {problem}")
    return after_migration("the Avro schema changed, and reads what the old one wrote")


def _same_names(writer: _Names, reader: _Names) -> bool:
    return {name: _without_aliases(kind) for name, kind in writer.types.items()} == {
        name: _without_aliases(kind) for name, kind in reader.types.items()
    }


def _without_aliases(kind: Schema) -> Schema:
    plain = {key: value for key, value in kind.items() if key != "aliases"}
    if "fields" in plain:
        plain["fields"] = [_without_aliases(part) for part in plain["fields"]]
    return plain


@dataclass
class _Names:
    """Named types by full name; elsewhere they are references ``{"type": "ref", "name": ...}``."""

    types: dict[str, dict[str, Any]] = field(default_factory=dict)

    def normal(self, schema: Any, space: str) -> Schema:
        """Return a schema with full names and without docs; unions are ``{"type": "union", "of": [...]}``."""
        if isinstance(schema, list):
            return {"type": "union", "of": [self.normal(branch, space) for branch in schema]}
        if isinstance(schema, str):
            return self._by_name(schema, space)
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.normal(kind, space)
        if kind in NAMED_SCHEMAS:
            return self._named(schema, kind, space)
        inner = {key: self.normal(schema[key], space) for key in ("items", "values") if key in schema}
        return {**_plain(schema), **inner} if inner else {**self._by_name(kind, space), **_plain(schema, "type")}

    def _by_name(self, name: str, space: str) -> Schema:
        full = name if "." in name or not space else f"{space}.{name}"
        reference = next((type_name for type_name in (full, name) if type_name in self.types), None)
        return {"type": "ref", "name": reference} if reference is not None else {"type": name}

    def _named(self, schema: Schema, kind: str, space: str) -> Schema:
        name = schema["name"]
        if "." not in name:
            space = schema.get("namespace", space) or ""
            name = f"{space}.{name}" if space else name
        else:
            space = name.rpartition(".")[0]
        normal_form = {**_plain(schema, "namespace"), "type": kind, "name": name}
        self.types[name] = normal_form  # before its fields, which may refer to it
        if "fields" in schema:
            normal_form["fields"] = [
                {**_plain(part), "type": self.normal(part["type"], space)} for part in schema["fields"]
            ]
        return {"type": "ref", "name": name}


def _plain(schema: Schema, *without: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("doc", *without)}


@dataclass
class _Resolver:
    """Avro's resolution of a writer's schema by a reader's; pairs under comparison count as resolved."""

    writer: _Names
    reader: _Names
    seen: set[tuple[str, str]] = field(default_factory=set)

    def problem(self, reader: Schema, writer: Schema, where: str) -> str | None:
        """Return why the reader cannot read the writer's values, or None."""
        expected, written = self.reader.types.get(str(reader.get("name")), reader), writer
        written = self.writer.types.get(str(writer.get("name")), writer)
        if written["type"] == "union":
            problems = (self.problem(reader, branch, where) for branch in written["of"])
            return next((problem for problem in problems if problem is not None), None)
        if expected["type"] == "union":
            if any(self.problem(branch, writer, where) is None for branch in expected["of"]):
                return None
            return f"{where}no branch of the union reads {written['type']}"
        if expected["type"] != written["type"]:
            if written["type"] in PROMOTIONS.get(expected["type"], ()):
                return None
            return f"{where}{written['type']} versus {expected['type']}"
        return self._same_type(expected, written, where)

    def _same_type(self, reader: Schema, written: Schema, where: str) -> str | None:
        kind = reader["type"]
        for inner in ("items", "values"):
            if inner in reader:
                return self.problem(reader[inner], written[inner], f"{where}{inner}: ")
        if kind not in NAMED_SCHEMAS:
            return None
        pair = (reader["name"], written["name"])
        if pair in self.seen:
            return None
        self.seen.add(pair)
        if not _same_name(reader, written):
            return f"{where}{kind} {written['name']} versus {reader['name']}"
        if kind == "fixed":
            sizes = written["size"], reader["size"]
            return None if sizes[0] == sizes[1] else f"{where}fixed of {sizes[0]} bytes versus {sizes[1]}"
        return self._symbols(reader, written, where) if kind == "enum" else self._fields(reader, written, where)

    def _symbols(self, reader: Schema, written: Schema, where: str) -> str | None:
        missing = [symbol for symbol in written["symbols"] if symbol not in reader["symbols"]]
        return f"{where}the enum has no {', '.join(missing)} any more" if missing and "default" not in reader else None

    def _fields(self, reader: Schema, written: Schema, where: str) -> str | None:
        others = {part["name"]: part for part in written["fields"]}
        for part in reader["fields"]:
            names = [part["name"], *part.get("aliases", ())]
            counterpart = next((others[name] for name in names if name in others), None)
            if counterpart is None and "default" not in part:
                return f"{where}field {part['name']} is new, and has no default"
            if counterpart is not None:
                problem = self.problem(part["type"], counterpart["type"], f"{where}field {part['name']}: ")
                if problem is not None:
                    return problem
        return None


def _same_name(reader: Schema, written: Schema) -> bool:
    """Compare names as Avro does: without namespaces, or by full alias."""
    full = str(written["name"])
    space = str(reader["name"]).rpartition(".")[0]
    aliases = [name if "." in name or not space else f"{space}.{name}" for name in reader.get("aliases", ())]
    return str(reader["name"]).rpartition(".")[2] == full.rpartition(".")[2] or full in aliases


def resolve_pojo(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Resolution:
    """Compare two POJOs; they are compatible as is with equal fields and registered subclasses in equal order."""
    if old.class_name != new.class_name:
        return incompatible(f"the class {old.class_name} versus {new.class_name}")
    for member in old.subclasses:
        if member.key is None or _is_absent(member):
            return incompatible(f"the subclass {member.name} could not be loaded when the snapshot was taken")
    resolution = worst([*_fields(old, new, resolver), *_subclasses(old, new, resolver)])
    if resolution.verdict.severity < Compatibility.AFTER_MIGRATION.severity and _names(old) != _names(new):
        return misread(f"the fields of {old.class_name} are in another order, which Flink does not notice")
    return resolution


def _names(serializer: PojoSerializer) -> list[str]:
    return [member.name for member in serializer.fields]


def _fields(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Iterator[Resolution]:
    others = {_identity(member, new): member for member in new.fields}
    before = [member for member in old.fields if not _is_absent(member)]
    kept = {key for member in before if (key := _match(member, others)) is not None}
    for member in before:
        key = _match(member, others)
        if key is None:
            yield after_migration(f"field {member.name} is gone, and its values with it")
        else:
            yield resolver.resolve(member.serializer, others[key].serializer).within(f"field {member.name}")
    for key, member in others.items():
        if key not in kept:
            yield after_migration(f"field {member.name} is new, and will have Java's default")


def _match(member: Member, others: Mapping[tuple[str | None, str], Member]) -> tuple[str | None, str] | None:
    """Return the job's field with the same name, declared by the same class or by an unknown one."""
    for key in ((_declaring_class(member), member.name), (None, member.name)):
        if key in others:
            return key
    return None


def _identity(member: Member, owner: PojoSerializer) -> tuple[str | None, str]:
    declaring = _declaring_class(member)
    return (None if declaring == owner.class_name else declaring, member.name)


def _declaring_class(member: Member) -> str | None:
    if member.key is None:
        return None
    try:
        return DataInputView(member.key).read_utf("the class of a field")
    except CorruptStateError:
        return None


def _is_absent(member: Member) -> bool:
    return isinstance(member.serializer, OpaqueFrame) and member.serializer.payload is None


def _subclasses(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Iterator[Resolution]:
    others = {member.name: member for member in new.registered}
    for member in old.registered:
        if member.name in others:
            yield resolver.resolve(member.serializer, others[member.name].serializer).within(f"subclass {member.name}")
    before, after = [member.name for member in old.registered], list(others)
    if after[: len(before)] != before:
        yield reconfigured(f"subclasses of {old.class_name} are registered in another order")
    if old.others:
        yield reconfigured(f"{old.class_name} has subclasses that were not registered")


def resolve_opaque(old: TypeSerializer, new: TypeSerializer) -> Resolution | None:
    """Compare serializers of which at least one is known only as bytes; return None if their rule still applies."""
    if isinstance(old, (KryoSerializer, AvroSerializer, GenericSerializer, SimpleSerializer)):
        return None
    if old == new:
        return AS_IS
    return unknown(f"the snapshot class {old.snapshot_class} is the user's own, and its content differs")


def _resolve_generic(old: GenericSerializer, new: GenericSerializer, _resolver: Resolver) -> Resolution:
    if old.type_class != new.type_class:
        return incompatible(f"values of {old.type_class} versus {new.type_class}")
    return AS_IS


def _resolve_enum(old: EnumSerializer, new: EnumSerializer, _resolver: Resolver) -> Resolution:
    if old.enum_class != new.enum_class:
        return incompatible(f"the enum {old.enum_class} versus {new.enum_class}")
    missing = [name for name in old.constants if name not in new.constants]
    if missing:
        return incompatible(
            f"the enum {old.enum_class} has no constant {', '.join(missing)} any more, so that Flink cannot read "
            "the snapshot at all: keep constants that were once there"
        )
    if old.constants == new.constants:
        return AS_IS
    return reconfigured(f"the enum {old.enum_class} has new constants, or another order of them")


def _resolve_scala_enum(old: ScalaEnumSerializer, new: ScalaEnumSerializer, _resolver: Resolver) -> Resolution:
    if old.enum_class != new.enum_class:
        return incompatible(f"the enumeration {old.enum_class} versus {new.enum_class}")
    ids = dict(zip(new.constants, new.ids, strict=True))
    for name, number in zip(old.constants, old.ids, strict=True):
        if ids.get(name) != number:
            return incompatible(f"{old.enum_class}.{name} was number {number}, and is {ids.get(name, 'gone')}")
    return AS_IS


def _resolve_kryo(old: KryoSerializer, new: KryoSerializer, _resolver: Resolver) -> Resolution:
    if old.type_class != new.type_class:
        return incompatible(f"KRYO<{old.type_class}> versus KRYO<{new.type_class}>")
    pairs = (
        (old.registrations, new.registrations),
        (old.defaults, new.defaults),
        (old.default_classes, new.default_classes),
    )
    for before, after in pairs:
        here = {name for name, key, _ in after if key is not None}
        missing = [name for name, key, _ in before if key is None and name not in here]
        if missing:
            return incompatible(f"classes that were registered with Kryo could not be loaded: {', '.join(missing)}")
    if all(_is_prefix([frame[0] for frame in before], [frame[0] for frame in after]) for before, after in pairs):
        return AS_IS
    return reconfigured("classes are registered with Kryo in another order")


def _is_prefix(before: Sequence[str], after: Sequence[str]) -> bool:
    return list(after[: len(before)]) == list(before)


def _resolve_row_data(old: RowDataSerializer, new: RowDataSerializer, resolver: Resolver) -> Resolution:
    if len(old.fields) != len(new.fields):
        return incompatible(f"fields of a row: {len(old.fields)} in the snapshot, {len(new.fields)} in the job")
    for index, (before, after) in enumerate(zip(old.fields, new.fields, strict=True)):
        if before.kind != after.kind:
            return incompatible(f"field f{index}: {before.kind} versus {after.kind}; SQL rows do not migrate")
    return resolver.resolve_parts(old, new)


def _resolve_collection_data(
    old: CollectionDataSerializer, new: CollectionDataSerializer, _resolver: Resolver
) -> Resolution:
    before, after = ([str(part.kind) for part in side.kinds] for side in (old, new))
    if [part.kind for part in old.kinds] != [part.kind for part in new.kinds]:
        return incompatible(f"{', '.join(before)} versus {', '.join(after)}")
    return AS_IS


def _equal(what: str, part: Callable[[Any], object]) -> Rule:
    """Return a rule: a property must be equal, else incompatible; then the nested serializers count."""

    def rule(old: TypeSerializer, new: TypeSerializer, resolver: Resolver) -> Resolution:
        before, after = part(old), part(new)
        if before == after:
            return resolver.resolve_parts(old, new)
        shown = "" if isinstance(before, (bytes, tuple)) else f": {before} versus {after}"
        return incompatible(f"{old.flink_type} has another {what}{shown}")

    return rule


def _migrates(what: str, part: Callable[[Any], object]) -> Rule:
    """Return a rule: if a property differs, values migrate, provided that the parts allow it."""

    def rule(old: TypeSerializer, new: TypeSerializer, resolver: Resolver) -> Resolution:
        parts = resolver.resolve_parts(old, new)
        if part(old) == part(new):
            return parts
        return worst([after_migration(f"{old.flink_type} is written {what} since"), parts])

    return rule


#: Rules by class of the job's serializer; the first match counts.
RULES: tuple[tuple[type[TypeSerializer], Rule], ...] = (
    (PojoSerializer, resolve_pojo),
    (ScalaEnumSerializer, _resolve_scala_enum),
    (EnumSerializer, _resolve_enum),
    (KryoSerializer, _resolve_kryo),
    (AvroSerializer, resolve_avro),
    (GenericSerializer, _resolve_generic),
    (RowDataSerializer, _resolve_row_data),
    (CollectionDataSerializer, _resolve_collection_data),
    (BinaryRowDataSerializer, _equal("number of fields", lambda row: row.fields)),
    (DecimalDataSerializer, _equal("precision or scale", lambda data: (data.precision, data.scale))),
    (TimestampDataSerializer, _equal("precision", lambda data: data.precision)),
    (ExternalSerializer, _equal("data type", lambda external: (external.data_type, external.internal_input))),
    *(
        (serializer, _equal(kind.equal, kind.compared) if kind.equal else _migrates(kind.migrates, kind.compared))
        for kind, serializer in all_kinds()
        if kind.compared is not None
    ),
)


def resolve(old: TypeSerializer, new: TypeSerializer, version: Flink = NEWEST_FLINK) -> Resolution:
    """Return the verdict of a Flink version for serializer ``old`` in a snapshot and ``new`` in the job."""
    return Resolver(version, RULES, resolve_opaque).resolve(old, new)
