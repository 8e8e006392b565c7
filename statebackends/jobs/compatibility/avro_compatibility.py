"""Compatibility of Avro schemas: the snapshot's schema wrote the values, the job's schema reads them.

Equal schemas are compatible as is; a reader's schema that resolves the writer's migrates; any other is incompatible.
Docs and aliases are not part of equality; aliases of the reader's types and fields count for resolution. Flink:
``AvroSerializerSnapshot``, Avro's ``Schema#equals`` and ``SchemaCompatibility``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    AS_IS,
    Resolution,
    Resolver,
    after_migration,
    incompatible,
)

Schema = Mapping[str, Any]
NAMED = ("record", "error", "enum", "fixed")
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
        if kind in NAMED:
            return self._named(schema, kind, space)
        inner = {key: self.normal(schema[key], space) for key in ("items", "values") if key in schema}
        return {**_plain(schema), **inner} if inner else {**self._by_name(kind, space), **_plain(schema, "type")}

    def _by_name(self, name: str, space: str) -> Schema:
        full = name if "." in name or not space else f"{space}.{name}"
        found = next((known for known in (full, name) if known in self.types), None)
        return {"type": "ref", "name": found} if found is not None else {"type": name}

    def _named(self, schema: Schema, kind: str, space: str) -> Schema:
        name = schema["name"]
        if "." not in name:
            space = schema.get("namespace", space) or ""
            name = f"{space}.{name}" if space else name
        else:
            space = name.rpartition(".")[0]
        made = {**_plain(schema, "namespace"), "type": kind, "name": name}
        self.types[name] = made  # before its fields, which may refer to it
        if "fields" in schema:
            made["fields"] = [{**_plain(part), "type": self.normal(part["type"], space)} for part in schema["fields"]]
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
        wanted, written = self.reader.types.get(str(reader.get("name")), reader), writer
        written = self.writer.types.get(str(writer.get("name")), writer)
        if written["type"] == "union":
            problems = (self.problem(reader, branch, where) for branch in written["of"])
            return next((problem for problem in problems if problem is not None), None)
        if wanted["type"] == "union":
            if any(self.problem(branch, writer, where) is None for branch in wanted["of"]):
                return None
            return f"{where}no branch of the union reads {written['type']}"
        if wanted["type"] != written["type"]:
            if written["type"] in PROMOTIONS.get(wanted["type"], ()):
                return None
            return f"{where}{written['type']} versus {wanted['type']}"
        return self._same_type(wanted, written, where)

    def _same_type(self, wanted: Schema, written: Schema, where: str) -> str | None:
        kind = wanted["type"]
        for inner in ("items", "values"):
            if inner in wanted:
                return self.problem(wanted[inner], written[inner], f"{where}{inner}: ")
        if kind not in NAMED:
            return None
        pair = (wanted["name"], written["name"])
        if pair in self.seen:
            return None
        self.seen.add(pair)
        if not _same_name(wanted, written):
            return f"{where}{kind} {written['name']} versus {wanted['name']}"
        if kind == "fixed":
            sizes = written["size"], wanted["size"]
            return None if sizes[0] == sizes[1] else f"{where}fixed of {sizes[0]} bytes versus {sizes[1]}"
        return self._symbols(wanted, written, where) if kind == "enum" else self._fields(wanted, written, where)

    def _symbols(self, wanted: Schema, written: Schema, where: str) -> str | None:
        gone = [symbol for symbol in written["symbols"] if symbol not in wanted["symbols"]]
        return f"{where}the enum has no {', '.join(gone)} any more" if gone and "default" not in wanted else None

    def _fields(self, wanted: Schema, written: Schema, where: str) -> str | None:
        there = {part["name"]: part for part in written["fields"]}
        for part in wanted["fields"]:
            names = [part["name"], *part.get("aliases", ())]
            found = next((there[name] for name in names if name in there), None)
            if found is None and "default" not in part:
                return f"{where}field {part['name']} is new, and has no default"
            if found is not None:
                problem = self.problem(part["type"], found["type"], f"{where}field {part['name']}: ")
                if problem is not None:
                    return problem
        return None


def _same_name(wanted: Schema, written: Schema) -> bool:
    """Compare names as Avro does: without namespaces, or by full alias."""
    full = str(written["name"])
    space = str(wanted["name"]).rpartition(".")[0]
    aliases = [name if "." in name or not space else f"{space}.{name}" for name in wanted.get("aliases", ())]
    return str(wanted["name"]).rpartition(".")[2] == full.rpartition(".")[2] or full in aliases
