"""Values per second and core of a migration from Flink 1 to 2, by processor time.

    pytest tests/benchmarks/test_migration.py -s                        20,000 values, as a test
    BENCH_VALUES=1000000 pytest tests/benchmarks/test_migration.py -s

POJO with an int, a string, a list of three strings and a map of three longs, which 1.20 left to Kryo: value by value,
which is how the bytes are proved, and by the compiled program. And a class that both releases leave to Kryo, with these
fields and an object of another class: by objects, and without.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    DescribedClasses,
    DirectConversion,
    KryoObject,
    convert_kryo,
    list_of,
    map_of,
    object_format,
    write_object,
)
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import RoleProgram
from tests.processor_time import processor_seconds
from tests.statebackends.migration.test_compiled_programs import CHANGE, KNOWLEDGE, KRYO_2, LIST, MAP

VALUES = int(os.environ.get("BENCH_VALUES", "20000"))
PLAIN = {"a": parse_type("INT"), "z": parse_type("STRING")}
OLD = PojoSerializer.of("P", {"a": PLAIN["a"], "b": LIST, "d": MAP, "z": PLAIN["z"]})
NEW = PojoSerializer.of(
    "P",
    {
        "a": PLAIN["a"],
        "b": parse_type("NULLABLE<LIST<NULLABLE<STRING>>>"),
        "d": parse_type("NULLABLE<MAP<NULLABLE<STRING>, LONG>>"),
        "z": PLAIN["z"],
    },
)


def value(number: int) -> bytes:
    """A value as 1.20 writes it."""
    tags = [KryoObject(STRING, f"tag-{number}-{place}") for place in range(3)]
    counts = [(KryoObject(STRING, f"k{place}"), KryoObject("long", number * place)) for place in range(3)]
    kryo = [
        write_object(KryoObject(f"java.util.{name}", content), KRYO_2)
        for name, content in (("ArrayList", tags), ("HashMap", counts))
    ]
    text = f"name{number}".encode()
    parts = [number.to_bytes(4, "big"), *kryo, bytes([len(text) + 1]) + text]
    return b"\2" + b"".join(b"\0" + part for part in parts)


def test_pojo_with_a_list_and_a_map() -> None:
    role = RoleProgram.of(KNOWLEDGE.targets.of(OLD, NEW), CHANGE)
    program = role.program(OLD)
    compiled: Any = role.compiled(program)
    few = list(map(value, range(2000)))
    values = few * (VALUES // len(few))
    buffer = np.frombuffer(bytearray(b"".join(values)), np.uint8)
    end = np.cumsum(list(map(len, values))).astype(np.int64)
    start = np.concatenate([[0], end[:-1]]).astype(np.int64)
    out, low, high = compiled.run(buffer, start, end)
    whole = list(map(program.whole, few))
    assert [out[a:b].tobytes() for a, b in zip(low[: len(few)], high[: len(few)], strict=True)] == whole
    before = len(few) / processor_seconds(lambda: [program.whole(each) for each in few])
    after = len(values) / processor_seconds(lambda: compiled.run(buffer, start, end))
    print(f"\nPOJO: {before:,.0f} values/s value by value, {after:,.0f} compiled, {after / before:.0f} times as many")
    assert after > 15 * before


def test_class_that_stays_with_kryo() -> None:
    words = "Order(id LONG, cur STRING, qty INT, tags ArrayList<STRING>, counts Map<STRING, LONG>, money Money); "
    words += "Money(cents LONG)"
    classes = DescribedClasses([WordClasses.parse(words)])
    registered = KryoSerializer.of("Order").classes
    old, new = object_format(2, registered, classes), object_format(5, registered, classes)

    def order(number: int) -> bytes:
        amount = KryoObject("long", number)
        fields = {
            "id": amount,
            "cur": KryoObject(STRING, "EUR"),
            "qty": KryoObject("int", number % 7),
            "tags": list_of([KryoObject(STRING, f"tag-{number}-{place}") for place in range(3)]),
            "counts": map_of([(KryoObject(STRING, f"k{place}"), amount) for place in range(3)]),
            "money": KryoObject("Money", {("Money", "cents"): amount}),
        }
        return write_object(KryoObject("Order", {("Order", name): each for name, each in fields.items()}), old)

    values = list(map(order, range(2000)))
    direct = DirectConversion(old, new)

    def converted() -> list[bytes]:
        found = []
        for each in values:
            out = bytearray()
            assert direct.append(each, 0, out) == len(each)
            found.append(bytes(out))
        return found

    assert converted() == [convert_kryo(each, old, new) for each in values]
    before = len(values) / processor_seconds(lambda: [convert_kryo(each, old, new) for each in values])
    after = len(values) / processor_seconds(converted)
    print(f"\nKryo: {before:,.0f} values/s by objects, {after:,.0f} without, {after / before:.1f} times as many")
    assert after > 2 * before
