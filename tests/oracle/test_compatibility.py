"""Compatibility of serializers: every pair of many types, decided by real Flink's snapshots and by ours."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.fields import RowSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.jobs.compatibility import Compatibility
from pyspark_savepoint.statebackends.jobs.compatibility_rules import resolve
from tests.oracle.flink import FlinkError, Oracle

pytestmark = pytest.mark.flink

POJO = "POJO<oracle.Model$Everything>"
#: Families within which there is something to decide; pairs across them differ by class alone.
FAMILIES: dict[str, list[str]] = {
    "simple": ["LONG", "INT", "STRING", "BOOLEAN", "DOUBLE", "BIG_DECIMAL", "INSTANT", "LOCAL_DATE", "VOID_NAMESPACE"],
    "windows": ["TIME_WINDOW", "GLOBAL_WINDOW", "LONG", "TUPLE<TIME_WINDOW, TIME_WINDOW>"],
    "arrays": [
        "PRIMITIVE_ARRAY<LONG>",
        "PRIMITIVE_ARRAY<INT>",
        "BASIC_ARRAY<STRING>",
        "OBJECT_ARRAY<LONG>",
        "OBJECT_ARRAY<INT>",
        "OBJECT_ARRAY<java.lang.Number>(LONG)",
    ],
    "tuples": [
        "TUPLE<LONG, STRING>",
        "TUPLE<LONG, INT>",
        "TUPLE<LONG>",
        "TUPLE<LONG, STRING, INT>",
        "TUPLE<>",
        f"TUPLE<LONG, {POJO}(number INT)>",
        f"TUPLE<LONG, {POJO}(number INT, large LONG)>",
        "TUPLE<LONG, ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS)>",
        "TUPLE<LONG, ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES)>",
    ],
    "rows": [
        "ROW<LONG, STRING>",
        "ROW<LONG, INT>",
        "ROW<LONG>",
        f"ROW<LONG, {POJO}(number INT)>",
        f"ROW<LONG, {POJO}(number INT, large LONG)>",
    ],
    "collections": [
        "LIST<LONG>",
        "LIST<INT>",
        "LIST<TTL<LONG>>",
        "MAP<STRING, LONG>",
        "MAP<STRING, INT>",
        "MAP<LONG, LONG>",
        f"MAP<STRING, {POJO}(number INT)>",
        f"MAP<STRING, {POJO}(number INT, large LONG)>",
        f"LIST<{POJO}(number INT)>",
        f"LIST<{POJO}(number INT, large LONG)>",
        "LIST<ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS)>",
        "LIST<ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES)>",
    ],
    "wrappers": [
        "NULLABLE<LONG>",
        "NULLABLE<LONG>(PADDED)",
        "NULLABLE<INT>(PADDED)",
        "NULLABLE<INT>",
        "EITHER<LONG, STRING>",
        "EITHER<STRING, LONG>",
        "TTL<LONG>",
        "TTL<STRING>",
        "LONG",
    ],
    "composites": [
        *("TUPLE<LONG, LONG>", "MAP<LONG, LONG>", "EITHER<LONG, LONG>", "TTL<LONG>", "ROW<LONG, LONG>", "TUPLE<LONG>"),
        *("ROW<LONG>", "LIST<LONG>", "NULLABLE<LONG>", "OBJECT_ARRAY<LONG>", "LONG", "MAP<LONG, STRING>"),
    ],
    "enums": [
        "ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES)",
        "ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS)",
        "ENUM<oracle.Model$Suit>(SPADES, DIAMONDS, HEARTS, CLUBS)",
        "ENUM<oracle.Model$Operation>(PLUS, TIMES)",
    ],
    "POJOs": [
        f"{POJO}(number INT, large LONG)",
        f"{POJO}(number INT)",
        f"{POJO}(large LONG, number INT, text STRING)",
        f"{POJO}(number LONG)",
        f"{POJO}(number INT, text ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS))",
        f"{POJO}(number INT, text ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES))",
        f"{POJO}(text {POJO}(number INT))",
        f"{POJO}(text {POJO}(number INT, large LONG))",
        f"{POJO}(text TUPLE<LONG>)",
        f"{POJO}()",
        f"{POJO}(ghost LONG, number INT)",
        f"{POJO}(number INT) REGISTERED(java.lang.Long LONG, java.lang.String STRING)",
        f"{POJO}(number INT) REGISTERED(java.lang.String STRING, java.lang.Long LONG)",
        f"{POJO}(number INT) REGISTERED(java.lang.Long LONG)",
        f"{POJO}(number INT) SUBCLASSES(java.lang.Long LONG)",
        "POJO<oracle.Model$Cat>()",
    ],
}


#: A snapshot becomes a serializer of the classes as they are: with all constants, and with fields that are there.
CONSTANTS = ("CLUBS", "DIAMONDS", "HEARTS", "SPADES")


def snapshot(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def types_of(family: str) -> list[TypeSerializer]:
    """The family's types; rows also as they were written before they had a kind."""
    types = [parse_type(text) for text in FAMILIES[family]]
    return types + [replace(row, supports_row_kind=False) for row in types[:2] if isinstance(row, RowSerializer)]


def can_be_the_jobs(old: TypeSerializer, new: TypeSerializer) -> bool:
    """Whether the classes of the harness allow for a job with the new serializer."""
    if isinstance(new, EnumSerializer) and new.enum_class.endswith("Suit") and new.constants != CONSTANTS:
        return False
    if isinstance(new, PojoSerializer) and isinstance(old, PojoSerializer):
        gone = {field.name for field in old.fields} - {field.name for field in new.fields}
        if gone - {"ghost"} or any(field.name == "ghost" for field in new.fields):
            return False
    theirs = dict(enumerate(old.children))
    return all(can_be_the_jobs(theirs.get(place, child), child) for place, child in enumerate(new.children))


@pytest.mark.parametrize("family", FAMILIES)
def test_flink_decides_the_same(flink_oracle: Oracle, family: str) -> None:
    version = (int(flink_oracle.version.split(".")[0]), int(flink_oracle.version.split(".")[1]))
    differences, compared = [], 0
    for old, new in itertools.product(types_of(family), repeat=2):
        if not can_be_the_jobs(old, new):
            continue
        compared += 1
        ours = resolve(old, new, version).verdict
        try:
            flinks = flink_oracle.compatibility(snapshot(old), snapshot(new))
        except FlinkError as error:
            flinks = f"error: {error}"
        # Flink reports state that it misreads as compatible.
        same = flinks != "incompatible" if ours is Compatibility.MISREAD else ours.value == flinks
        if not same:
            differences.append(f"{old.flink_type} -> {new.flink_type}: {ours}, Flink says {flinks}")
    assert not differences, "\n".join(differences)
    assert compared >= len(FAMILIES[family])
