"""Compiled programs give the same results as conversion value by value: random lists, sets and maps in a POJO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import STRING, KryoObject, object_format, write_object
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge
from pyspark_savepoint.statebackends.migration.rewriting.compiled_programs import CompiledProgram
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import KryoChange
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import RoleProgram
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease

LIST, MAP, SET = (KryoSerializer.of(f"java.util.{name}") for name in ("List", "Map", "Set"))
KRYO_2 = object_format(2, LIST.classes)
KNOWLEDGE = Knowledge(ExtractionRelease.parse("2.3"))
CHANGE = KryoChange(2, 5, KNOWLEDGE.described, KNOWLEDGE.targets.pojo, KNOWLEDGE.subclass)
TEXTS = st.text(max_size=70)
NUMBERS = {
    "INT": ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    "LONG": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "SHORT": ("short", st.integers(-(1 << 15), (1 << 15) - 1)),
    "BYTE": ("byte", st.integers(-128, 127)),
    "BOOLEAN": ("boolean", st.booleans()),
    "FLOAT": ("float", st.floats(width=32, allow_nan=False)),
    "DOUBLE": ("double", st.floats(allow_nan=False)),
    "STRING": (STRING, TEXTS),
}


def items(kind: str) -> st.SearchStrategy[KryoObject | None]:
    name, values = NUMBERS[kind]
    return st.none() | values.map(lambda value: KryoObject(name, value))


def programs(kind: str) -> tuple[Any, CompiledProgram]:
    """A POJO of an int, a list, a string, a map, a set."""
    plain = {"a": parse_type("INT"), "c": parse_type("STRING")}
    old = PojoSerializer.of("P", {**plain, "b": LIST, "d": MAP, "e": SET})
    new: dict[str, TypeSerializer] = {
        **plain,
        "b": parse_type(f"NULLABLE<LIST<NULLABLE<{kind}>>>"),
        "d": parse_type(f"NULLABLE<MAP<NULLABLE<STRING>, {kind}>>"),
        "e": parse_type(f"NULLABLE<SET<{kind}>>", (2, 3)),
    }
    role = RoleProgram.of(KNOWLEDGE.targets.of(old, PojoSerializer.of("P", new)), CHANGE)
    program = role.program(old)
    compiled = role.compiled(program)
    assert compiled is not None
    return program, compiled


@pytest.mark.parametrize("kind", NUMBERS)
def test_both_write_the_same(kind: str) -> None:
    program, compiled = programs(kind)
    field = st.none() | st.lists(items(kind), max_size=4)

    @settings(max_examples=15)
    @given(
        st.lists(
            st.tuples(TEXTS, field, st.none() | st.lists(st.tuples(items("STRING"), items(kind))), field), max_size=4
        )
    )
    def same(rows: list[Any]) -> None:
        values = [value(*row) for row in rows]
        ends = np.cumsum([len(each) for each in values]).astype(np.int64)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(values)]
        out, low, high = compiled.run(np.frombuffer(bytearray(b"".join(values)), np.uint8), starts, ends)
        found = [out[a:b].tobytes() for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        assert found == [program.whole(each) for each in values]

    same()


def value(text: str, listed: list[Any] | None, mapped: list[Any] | None, held: list[Any] | None) -> bytes:
    """The bytes of a POJO: flags, and every field behind its null flag, in the order of names."""
    classes = [
        ("java.util.ArrayList", listed),
        ("java.util.TreeMap" if text == "tree" else "java.util.HashMap", mapped),
    ]
    kryo = [
        b"\1" if content is None else b"\0" + write_object(KryoObject(name, content), KRYO_2)
        for name, content in (*classes, ("java.util.LinkedHashSet", held))
    ]
    units = text.encode("utf-16-le")
    encoded = bytearray([0])
    numbers = [len(units) // 2 + 1, *(int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2))]
    for number in numbers:
        while number > 0x7F:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
    return b"\2\0\0\0\0\7" + kryo[0] + bytes(encoded) + kryo[1] + kryo[2]


def test_what_is_not_simple_is_left_to_the_other() -> None:
    program, compiled = programs("STRING")
    shared = KryoObject(STRING, "twice")
    values = [value("", [shared, shared], [], []), value("", [KryoObject(STRING, "x")], None, None), b"\1"]
    ends = np.cumsum([len(each) for each in values]).astype(np.int64)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    out, low, high = compiled.run(np.frombuffer(bytearray(b"".join(values)), np.uint8), starts, ends)
    assert [out[a:b].tobytes() for a, b in zip(low, high, strict=True)] == [program.whole(each) for each in values]
