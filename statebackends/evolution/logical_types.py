"""Logical types of compiled plans, as texts and as JSON objects. Flink: ``LogicalTypeJsonDeserializer``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyspark_savepoint.formats.errors import TypeNotationError
from pyspark_savepoint.formats.serializers.notation.lexer import Tokens
from pyspark_savepoint.formats.serializers.notation.sql import logical_type
from pyspark_savepoint.formats.serializers.sql.logical_types import MAX_DEPTH, MAX_LENGTH, LogicalType

TIMES = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "TIMESTAMP_WITH_TIME_ZONE")
#: Types of a plan that the notation of types does not have: kept by their text, so that equal ones are equal.
OTHER = "OTHER"
#: Texts, names and letters of a type; and a field with its name.
PARTS = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|.", re.DOTALL)
NAMED = re.compile(r"`((?:[^`]|``)*)` (.*)", re.DOTALL)


def logical_type_of(given: Any, depth: int = 0) -> LogicalType:
    """Return the type that a text or an object describes.

    >>> str(logical_type_of("VARCHAR(2147483647) NOT NULL"))
    'STRING NOT NULL'
    >>> str(logical_type_of({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}))
    'TIMESTAMP(3) *ROWTIME*'
    """
    if depth > MAX_DEPTH:
        raise ValueError("a type that is nested too deep")
    if isinstance(given, str):
        return _of_text(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r:.100} instead of a type")
    return _of_object(given, depth + 1)


@lru_cache(4096)
def _of_text(text: str) -> LogicalType:
    try:
        tokens = Tokens(text)
        kind = logical_type(tokens)
        if tokens.next.kind != "end":
            tokens.fail("the end of the type")
        return kind
    except TypeNotationError as error:
        words = text.removesuffix(" NOT NULL")
        if words == "NULL":
            return LogicalType("NULL")
        if words.startswith(("RAW(", "STRUCTURED<", "VARIANT", "DESCRIPTOR", "BITMAP", "`")):
            return LogicalType(OTHER, nullable=words == text, class_name=words)
        if words.startswith("ROW<") and words.endswith(">"):
            return _of_fields(words.removeprefix("ROW<").removesuffix(">"), nullable=words == text)
        raise ValueError(error.message) from None


def _of_fields(text: str, *, nullable: bool) -> LogicalType:
    """Return a ROW of fields, some of which have a type that the notation of types does not have."""
    fields: list[str] = [""]
    depth = 0
    for part in PARTS.findall(text):
        depth += (part in "<(") - (part in ">)")
        if part == "," and not depth:
            fields.append("")
        else:
            fields[-1] += part
    found = [NAMED.fullmatch(field.strip()) for field in fields]
    if None in found:
        raise ValueError(f"{text!r:.100} instead of fields")
    names = tuple(one[1].replace("``", "`") for one in found if one)
    return LogicalType("ROW", nullable, names=names, children=tuple(_of_text(one[2]) for one in found if one))


def _of_object(given: Mapping[str, Any], depth: int) -> LogicalType:
    root, nullable = str(given["type"]), bool(given.get("nullable", True))
    if root in TIMES:
        kind = str(given.get("kind", "REGULAR"))
        return LogicalType(root, nullable, precision=_number(given.get("precision", 6)), kind=kind)
    if root == "ROW":
        fields = given["fields"]
        children = tuple(logical_type_of(field["fieldType"], depth) for field in fields)
        return LogicalType(root, nullable, names=tuple(str(field["name"]) for field in fields), children=children)
    if root == "MAP":
        parts = (logical_type_of(given["keyType"], depth), logical_type_of(given["valueType"], depth))
        return LogicalType(root, nullable, children=parts)
    if root in ("ARRAY", "MULTISET"):
        return LogicalType(root, nullable, children=(logical_type_of(given["elementType"], depth),))
    if root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return LogicalType(root, nullable, length=_number(given.get("length", MAX_LENGTH)))
    if root == "NULL":
        return LogicalType(root)
    return LogicalType(OTHER, nullable, class_name=json.dumps(given, sort_keys=True))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} instead of a number")
    return value
