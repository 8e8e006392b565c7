"""Values of Kryo 2 that become those of Kryo 5 without objects in between: the same bytes as with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.class_files import ClassPath
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
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
from tests.formats.serializers.kryo.test_described import serializer_of

#: A float that is not a number and signals it: Python's floats, and so objects, make it a quiet one.
SIGNALLING = re.compile(rb"[\x7f\xff][\x80-\xbf]")
ORDER = "com.shop.Order"
WORDS = f"""
    {ORDER}(id LONG, cur STRING, qty INT, price double, ratio float, tags List<STRING>, counts Map<STRING, LONG>,
        any Object, money Money, status Status, statuses List<Status>, boxes List<Integer>, h SHORT, c CHAR, y BYTE,
        b BOOLEAN);
    Money(cents LONG, cur STRING); Status ENUM(NEW, PAID)"""
SERIALIZER = KryoSerializer.of(ORDER)
CLASSES = DescribedClasses([WordClasses.parse(WORDS)])
OLD, NEW = (object_format(version, SERIALIZER.classes, CLASSES) for version in (2, 5))
TEXTS = st.text(max_size=70).map(lambda text: KryoObject(STRING, text))
INTS, LONGS = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
MONEY = st.tuples(LONGS, TEXTS).map(lambda each: record("Money", cents=KryoObject("long", each[0]), cur=each[1]))
STATUS = st.integers(0, 1).map(lambda ordinal: KryoObject("Status", ordinal))


def record(name: str, **fields: KryoObject | None) -> KryoObject:
    return KryoObject(name, {(name, field): value for field, value in fields.items()})


def lists(elements: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[KryoObject | None]:
    return st.none() | st.lists(elements, max_size=most).map(list_of)


@st.composite
def orders(draw: Any) -> KryoObject:
    boxes = INTS.map(lambda number: KryoObject("int", number))
    entries = st.lists(st.tuples(TEXTS | st.none(), LONGS.map(lambda number: KryoObject("long", number))), max_size=3)
    return record(
        ORDER,
        id=KryoObject("long", draw(LONGS)),
        cur=draw(TEXTS | st.none()),
        qty=KryoObject("int", draw(INTS)),
        price=KryoObject("double", draw(st.floats(allow_nan=False))),
        ratio=KryoObject("float", draw(st.floats(width=32, allow_nan=False))),
        tags=draw(lists(TEXTS | st.none())),
        counts=draw(st.none() | entries.map(map_of)),
        any=draw(st.none() | MONEY | lists(MONEY) | boxes | TEXTS | lists(boxes | TEXTS) | STATUS),
        money=draw(MONEY | st.none()),
        status=draw(STATUS | st.none()),
        statuses=draw(lists(STATUS | st.none(), 2)),
        boxes=draw(lists(boxes | st.none())),
        h=KryoObject("short", draw(st.integers(-(1 << 15), (1 << 15) - 1))),
        c=KryoObject("char", chr(draw(st.integers(0, 0xFFFF)))),
        y=KryoObject("byte", draw(st.integers(-128, 127))),
        b=KryoObject("boolean", draw(st.booleans())),
    )


@settings(max_examples=150)
@given(orders(), st.data())
def test_the_same_bytes(order: KryoObject, data: Any) -> None:
    direct = DirectConversion(OLD, NEW)
    value = write_object(order, OLD)
    expect_same(direct, value)
    place = data.draw(st.integers(0, len(value) - 1))
    expect_same(direct, value[:place] + bytes([data.draw(st.integers(0, 255))]) + value[place + 1 :])
    expect_same(direct, value[:place])


def expect_same(direct: DirectConversion, value: bytes) -> bool:
    """The same as with objects, or nothing; damaged values are left to the reader of objects, whose errors say why."""
    out = bytearray(b"before")
    end = direct.append(b"##" + value, 2, out)
    if end != len(value) + 2:
        assert end >= 0 or out == b"before"
        return False
    if SIGNALLING.search(value):
        return False
    try:
        assert out[6:] == convert_kryo(value, direct.old, direct.new)
    except (DamagedError, ForeignError, BeyondError, SavepointError) as error:
        raise AssertionError(f"{value.hex()} is converted, but not read: {error!r}") from error
    return True


def test_what_is_common_is_converted_directly() -> None:
    """They are not converted through objects, which would be slower."""
    money = record("Money", cents=KryoObject("long", -5), cur=KryoObject(STRING, "EUR"))
    number = KryoObject("int", 7)
    plain = {name: KryoObject(name, 0) for name in ("long", "int", "double", "float", "short", "byte", "boolean")}
    fields: dict[str, KryoObject | None] = {
        "id": plain["long"],
        "qty": plain["int"],
        "price": plain["double"],
        "ratio": plain["float"],
        "h": plain["short"],
        "y": plain["byte"],
        "b": plain["boolean"],
        "c": KryoObject("char", "x"),
        "cur": KryoObject(STRING, "é"),
        "tags": list_of([KryoObject(STRING, "ab"), None]),
        "counts": map_of([(KryoObject(STRING, "key"), KryoObject("long", 1 << 62))]),
        "money": money,
        "any": list_of([number, number]),
        "status": KryoObject("Status", 1),
        "boxes": list_of([number]),
    }
    assert expect_same(DirectConversion(OLD, NEW), write_object(record(ORDER, **fields), OLD))
    fields["cur"] = KryoObject(STRING, "ascii text")
    fields["statuses"] = list_of([KryoObject("Status", 0)])
    fields["any"] = list_of([record("Money", cents=number, cur=None), record("Money", cents=number, cur=None)])
    assert expect_same(DirectConversion(OLD, NEW), write_object(record(ORDER, **fields), OLD))


def test_what_flink_wrote(corpus: Path) -> None:
    """All values of the corpus; those of plain classes are converted directly."""
    classes = DescribedClasses([ClassPath([str(corpus / "migration" / "classes")])])
    converted = left = 0
    for each in json.loads((corpus / "migration" / "bytes-1.20.5.json").read_text()).values():
        serializer = serializer_of(each["snapshot"], None) if "snapshot" in each else None
        if not isinstance(serializer, KryoSerializer):
            continue
        forms = [object_format(version, serializer.classes, classes) for version in (2, 5)]
        direct = DirectConversion(*forms)
        for value in each["values"]:
            if not value.startswith("!"):
                same = expect_same(direct, bytes.fromhex(value))
                converted, left = converted + same, left + (not same)
    assert converted > 60
    assert left > 0
