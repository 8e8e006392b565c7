"""The rows of a snapshot's tables as an Avro schema and as JSON Schema, from their Arrow types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.statebackends.requests.applicability import DECODED

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def tables_of(savepoint: LocalSavepoint, uid: str | None = None) -> Iterator[tuple[str, pa.Schema]]:
    """Yield every table of state, named by operator and table (or operator state), with its columns."""
    uid_hash = identifier_of(uid).operator_id.hex if uid is not None else None
    names = set()
    for row in savepoint.states().rows():
        if row["table"] not in DECODED:
            continue
        if uid_hash is not None and row["operator_uid_hash"] != uid_hash:
            continue
        options = dict(row["options"])
        name = row["table"]
        if name == "operator_state":
            name = row["state"]
        else:
            options.pop("state", None)
        operator = row["operator_uid"] or row["operator_uid_hash"]
        if (operator, name) not in names:
            names.add((operator, name))
            yield f"{operator}.{name}", savepoint.table(options.pop("table", None), **options).schema


# -- Avro ---------------------------------------------------------------------------------------------------

_AVRO = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


def avro_schemas(savepoint: LocalSavepoint, uid: str | None = None) -> list[Any]:
    """Return a record per table. All fields are nullable, as they are in the tables."""
    return [_record(_avro_name(name), schema, name) for name, schema in tables_of(savepoint, uid)]


def _record(name: str, fields: pa.Schema | pa.StructType, doc: str | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "record", "name": name, "fields": []}
    if doc is not None:
        result["doc"] = doc
    names = unique([_avro_name(field.name) for field in fields])
    for field, own in zip(fields, names, strict=True):
        one: dict[str, Any] = {"name": own, "type": ["null", _avro(f"{name}_{own}", field.type)], "default": None}
        result["fields"].append(one | ({"doc": field.name} if own != field.name else {}))
    return result


def _avro(name: str, kind: pa.DataType) -> Any:
    types = pa.types
    if kind in _AVRO:
        return _AVRO[kind]
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_struct(kind):
        return _record(name, kind)
    if types.is_map(kind):
        if types.is_string(kind.key_type):
            return {"type": "map", "values": ["null", _avro(f"{name}_value", kind.item_type)]}
        entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        return {"type": "array", "items": _record(f"{name}_entry", entry)}
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(f"{name}_item", kind.value_type)]}
    raise OptionError(f"Avro has no type for {kind}", found=name)


def _avro_name(name: str) -> str:
    avro_name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{avro_name}" if avro_name[0].isdigit() else avro_name


def unique(names: list[str]) -> list[str]:
    """Return the names, with a number where one is taken.

    >>> unique(["a", "b", "a"])
    ['a', 'b', 'a_2']
    """
    counts: dict[str, int] = {}
    result = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        result.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return result


# -- JSON Schema --------------------------------------------------------------------------------------------


def json_schema(savepoint: LocalSavepoint, uid: str | None = None) -> dict[str, Any]:
    """Return the schema of the rows that ``show --json`` and ``export --format json`` print, by table."""
    return {"$schema": DIALECT, "$defs": {name: _object(schema) for name, schema in tables_of(savepoint, uid)}}


def _object(fields: pa.Schema | pa.StructType) -> dict[str, Any]:
    properties = {field.name: {"anyOf": [{"type": "null"}, _json(field.type)]} for field in fields}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _json(kind: pa.DataType) -> dict[str, Any]:
    types = pa.types
    if types.is_boolean(kind):
        return {"type": "boolean"}
    if types.is_integer(kind):
        return {"type": "integer"}
    if types.is_floating(kind):
        return {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
    if types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if types.is_date(kind):
        return {"type": "string", "format": "date"}
    if types.is_binary(kind):
        return {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
    if types.is_struct(kind):
        return _object(kind)
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _nullable(kind.item_type)}
    if types.is_map(kind):
        pair = {"type": "array", "prefixItems": [_json(kind.key_type), _nullable(kind.item_type)], "items": False}
        return {"type": "array", "items": pair}
    if types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type)}
    return {"type": "string"}


def _nullable(kind: pa.DataType) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, _json(kind)]}
