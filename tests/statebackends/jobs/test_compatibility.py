"""Rules of compatibility that are not compared with real Flink, as the harness lacks its SQL and Avro classes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer
from pyspark_savepoint.formats.serializers.composite.collections import LinkedListSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import OpaqueFrame
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.statebackends.jobs.compatibility import AS_IS, Compatibility
from pyspark_savepoint.statebackends.jobs.compatibility_rules import resolve


def verdict(old: str, new: str) -> str:
    return resolve(parse_type(old), parse_type(new)).verdict.value


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ROWDATA<a INT, b STRING>", "ROWDATA<a INT, b STRING>", "as is"),
        ("ROWDATA<a INT, b STRING>", "ROWDATA<x INT, y STRING>", "as is"),
        ("ROWDATA<a INT>", "ROWDATA<a INT NOT NULL>", "incompatible"),
        ("ROWDATA<a VARCHAR(10)>", "ROWDATA<a VARCHAR(11)>", "incompatible"),
        ("ROWDATA<a INT>", "ROWDATA<a INT, b INT>", "incompatible"),
        ("ROWDATA<a ROW<x INT>>", "ROWDATA<a ROW<y INT>>", "incompatible"),
        ("ROWDATA<a DECIMAL(10, 2)>", "ROWDATA<a DECIMAL(10, 3)>", "incompatible"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)", "as is"),
        ("DECIMAL(10, 2)", "DECIMAL(11, 2)", "incompatible"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", "incompatible"),
        ("CASE_CLASS<a.B>(_1 LONG)", "CASE_CLASS<a.B>(_1 LONG)", "as is"),
        ("CASE_CLASS<a.B>(_1 LONG)", "CASE_CLASS<a.C>(_1 LONG)", "incompatible"),
        ("SCALA_ENUM<a.E>(A=0, B=1)", "SCALA_ENUM<a.E>(A=0, B=1, C=2)", "as is"),
        ("SCALA_ENUM<a.E>(A=0, B=1)", "SCALA_ENUM<a.E>(A=0, B=2)", "incompatible"),
        ("SCALA_ENUM<a.E>(A=0, B=1)", "SCALA_ENUM<a.E>(A=0)", "incompatible"),
        ("SCALA_ENUM<a.E>(A=0)", "SCALA_ENUM<a.F>(A=0)", "incompatible"),
        ("ENUM<a.E>(A, B)", "ENUM<a.E>(B)", "incompatible"),
        ("ENUM<a.E>(A)", "ENUM<a.F>(A)", "incompatible"),
        ("POJO<a.B>(x LONG)", "POJO<a.C>(x LONG)", "incompatible"),
    ],
)
def test_types_whose_class_is_not_at_hand(old: str, new: str, expected: str) -> None:
    assert verdict(old, new) == expected


def test_reasons_say_where() -> None:
    old = parse_type("MAP<STRING, TUPLE<LONG, POJO<a.B>(x LONG, y INT)>>")
    new = parse_type("MAP<STRING, TUPLE<LONG, POJO<a.B>(x STRING, z INT)>>")
    assert resolve(old, new).reasons == ("the map's value: field f1: field x: LONG versus STRING",)
    old, new = parse_type("LIST<POJO<a.B>(x LONG, y INT)>"), parse_type("LIST<POJO<a.B>(x LONG, z INT)>")
    assert resolve(old, new).reasons == (
        "inside list: field y is gone, and its values with it",
        "inside list: field z is new, and will have Java's default",
    )


def test_other_forms_of_a_linked_list_migrate() -> None:
    masked = LinkedListSerializer(
        "org.apache.flink.table.runtime.typeutils.LinkedListSerializer$LinkedListSerializerSnapshot",
        3,
        3,
        (parse_type("LONG"),),
    )
    assert resolve(replace(masked, has_null_mask=False), masked).verdict is Compatibility.AFTER_MIGRATION
    assert resolve(masked, masked) == AS_IS


# -- POJOs ----------------------------------------------------------------------------------------------------


def pojo(text: str) -> PojoSerializer:
    made = parse_type(text)
    assert isinstance(made, PojoSerializer)
    return made


def declared_by(serializer: PojoSerializer, class_name: str) -> PojoSerializer:
    """The same with fields of a superclass."""
    keys = {field.name: field.key for field in pojo(f"POJO<{class_name}>(x LONG)").fields}
    return replace(serializer, fields=tuple(replace(field, key=keys[field.name]) for field in serializer.fields))


def test_a_field_that_moves_to_a_superclass_is_another_field() -> None:
    own = pojo("POJO<a.B>(x LONG)")
    inherited = declared_by(own, "a.Base")
    assert resolve(own, inherited).verdict is Compatibility.AFTER_MIGRATION
    assert resolve(inherited, inherited) == AS_IS
    # The notation of a type does not show which class declares a field.
    assert resolve(inherited, own) == AS_IS


def test_fields_in_another_order_are_misread() -> None:
    first = pojo("POJO<a.B>(x LONG, y LONG)")
    second = replace(first, fields=first.fields[::-1])
    assert resolve(first, second).verdict is Compatibility.MISREAD
    # Where values migrate they are read by name.
    third = pojo("POJO<a.B>(w LONG, x LONG, y LONG)")
    assert resolve(second, third).verdict is Compatibility.AFTER_MIGRATION


def test_a_subclass_that_was_lost_is_incompatible() -> None:
    old = pojo("POJO<a.B>(x LONG) REGISTERED(a.C POJO<a.C>(x LONG))")
    lost = replace(old, registered=(replace(old.registered[0], key=None, serializer=OpaqueFrame("", 0)),))
    assert resolve(lost, old).verdict is Compatibility.INCOMPATIBLE


# -- Kryo and serializers of the user's own ---------------------------------------------------------------------


def kryo(*registered: str, gone: tuple[str, ...] = (), type_class: str = "a.B") -> KryoSerializer:
    frames = tuple((name, None if name in gone else b"key", None if name in gone else b"value") for name in registered)
    name = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
    return KryoSerializer(name, 2, type_class, frames)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (kryo("a", "b"), kryo("a", "b"), "as is"),
        (kryo("a"), kryo("a", "b"), "as is"),
        (kryo("a", "b"), kryo("b", "a"), "reconfigured"),
        (kryo("a", "b"), kryo("a"), "reconfigured"),
        (kryo("a", gone=("a",)), kryo("b"), "incompatible"),
        (kryo("a", gone=("a",)), kryo("a"), "as is"),
        (kryo("a"), kryo("a", type_class="a.C"), "incompatible"),
    ],
)
def test_classes_registered_with_kryo(old: KryoSerializer, new: KryoSerializer, expected: str) -> None:
    assert resolve(old, new).verdict.value == expected


def test_only_the_users_own_snapshot_class_can_tell() -> None:
    own = OpaqueSerializer("com.shop.MoneySerializer$Snapshot", 1, b"a")
    assert resolve(own, own) == AS_IS
    assert resolve(own, replace(own, payload=b"b")).verdict is Compatibility.UNKNOWN
    assert resolve(own, parse_type("LONG")).verdict is Compatibility.INCOMPATIBLE


# -- Avro -----------------------------------------------------------------------------------------------------


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ENUM = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}
FIXED = {"type": "fixed", "name": "Id", "size": 4}
TREE = record(field("left", ["null", "Order"]), field("value", "int"))


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (record(field("a", "int")), record(field("a", "int", doc="a number"), doc="an order"), "as is"),
        (record(field("a", "int")), record(field("a", "long")), "after migration"),
        (record(field("a", "long")), record(field("a", "int")), "incompatible"),
        (record(field("a", "string")), record(field("a", "bytes")), "after migration"),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), "incompatible"),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int", default=0)), "after migration"),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), "after migration"),
        (record(field("a", "int")), record(field("z", "int", aliases=["a"])), "after migration"),
        (record(field("a", "int")), record(field("a", ["null", "int"])), "after migration"),
        (record(field("a", ["null", "int"])), record(field("a", "int")), "incompatible"),
        (record(field("a", ["null", "int"])), record(field("a", ["long", "null"])), "after migration"),
        (record(field("a", ENUM)), record(field("a", {**ENUM, "symbols": ["RED"]})), "incompatible"),
        (
            record(field("a", ENUM)),
            record(field("a", {**ENUM, "symbols": ["RED"], "default": "RED"})),
            "after migration",
        ),
        (record(field("a", FIXED)), record(field("a", {**FIXED, "size": 5})), "incompatible"),
        (record(field("a", FIXED)), record(field("a", {**FIXED, "name": "Other"})), "incompatible"),
        (record(), record(name="Purchase"), "incompatible"),
        (record(), record(name="Purchase", aliases=["Order"]), "after migration"),
        (record(namespace="a"), record(namespace="b"), "after migration"),
        (
            record(field("a", {"type": "array", "items": "int"})),
            record(field("a", {"type": "array", "items": "long"})),
            "after migration",
        ),
        (
            record(field("a", {"type": "map", "values": "long"})),
            record(field("a", {"type": "map", "values": "int"})),
            "incompatible",
        ),
        (TREE, TREE, "as is"),
        (TREE, record(field("left", ["null", "Order"]), field("value", "long")), "after migration"),
        (TREE, record(field("left", ["null", "Order"]), field("value", "string")), "incompatible"),
        (
            record(field("a", {"type": "long", "logicalType": "timestamp-millis"})),
            record(field("a", {"type": "long", "logicalType": "timestamp-micros"})),
            "after migration",
        ),
    ],
)
def test_avro_schemas_resolve_as_avro_says(writer: Any, reader: Any, expected: str) -> None:
    old, new = AvroSerializer.of(json.dumps(writer)), AvroSerializer.of(json.dumps(reader))
    assert resolve(old, new).verdict.value == expected


def test_avro_names_the_field() -> None:
    old = AvroSerializer.of(json.dumps(record(field("a", record(field("b", "long"), name="Inner")))))
    new = AvroSerializer.of(json.dumps(record(field("a", record(field("b", "int"), name="Inner")))))
    assert resolve(old, new).reasons == ("Avro: field a: field b: long versus int",)
