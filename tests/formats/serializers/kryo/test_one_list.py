"""One list of classes: each is read as the type of a state, inside other objects, and as an object, with one value."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.variant_utils import VariantUtils

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ARRAY,
    ENUMS,
    FIELDS_OF,
    LAYOUTS,
    is_final_class,
    struct_of,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.object_columns import ObjectValues
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KINDS, MANY, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    KryoObject,
    list_of,
    object_format,
    read_whole,
    write_object,
)
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import Budget, ValueReader
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Rendering, Version
from pyspark_savepoint.formats.variant import VARIANT
from tests.formats.serializers.codec_checks import encode
from tests.formats.serializers.kryo.test_kryo import ROWS

VERSIONS: tuple[Version, Version] = (2, 5)
UTIL, TIME = "java.util.", "java.time."


def made(name: str, *parts: KryoObject | None) -> KryoObject:
    """Return an object with the fields of the list, in their order."""
    names = [each.partition(":")[0] for each in FIELDS_OF[name].split()]
    return KryoObject(name, {(name, field): part for field, part in zip(names, parts, strict=True)})


def number(value: float, kind: str = "int") -> KryoObject:
    return KryoObject(kind, value)


def text(value: str) -> KryoObject:
    return KryoObject(STRING, value)


DATE = made(TIME + "LocalDate", number(29, "short"), number(2, "short"), number(2024))
CLOCK = made(TIME + "LocalTime", number(1, "byte"), number(2, "byte"), number(5000), number(3, "byte"))
DATE_TIME = made(TIME + "LocalDateTime", DATE, CLOCK)
OFFSET = made(TIME + "ZoneOffset", number(3600))
CONTEXT = made("java.math.MathContext", number(7), KryoObject("java.math.RoundingMode", 4))
DECIMAL = KryoObject("java.math.BigDecimal", (1250, 2))
#: Objects by the layouts of their classes, and their values in VARIANT.
BY_LAYOUT: dict[str, tuple[Any, Any]] = {
    "collection": ([text("a"), number(5), None], ["a", 5, None]),
    "collection without nulls": ([text("a"), text("b")], ["a", "b"]),
    "sorted collection": ([text("a"), text("b")], ["a", "b"]),
    "map": ([(text("k"), number(1)), (text("l"), None)], {"k": 1, "l": None}),
    "sorted map": ([(number(1), text("v"))], [{"key": 1, "value": "v"}]),
    "java.util.concurrent.ConcurrentSkipListMap": ([(text("k"), number(1))], {"k": 1}),
    "java.util.Arrays$ArrayList": ([text("a"), None, number(7, "long")], ["a", None, 7]),
    "nothing": ([], []),
    "no entries": ([], {}),
    "one element": ([text("a")], ["a"]),
    "one entry": ([(text("k"), None)], {"k": None}),
    "text": ("x:y", "x:y"),
    "text with its length": ("abc", "abc"),
    "milliseconds": (1500, "1970-01-01 00:00:01.500000+00:00"),
    "calendar": (("UTC", 5, True, 1, 1, 7), ["UTC", 5, True, 1, 1, 7]),
    "charset": ("UTF-8", "UTF-8"),
    "[Z": ([True, False], [True, False]),
    "[B": (b"ab", b"ab"),
    "[S": ([-2, 3], [-2, 3]),
    "[C": (["a", "b"], ["a", "b"]),
    "[I": ([-2, 3], [-2, 3]),
    "[J": ([-2, 3], [-2, 3]),
    "[F": ([0.5], [0.5]),
    "[D": ([0.5], [0.5]),
    "int": (5, 5),
    "long": (5, 5),
    "short": (5, 5),
    "byte": (-5, -5),
    "boolean": (True, True),
    "char": ("a", "a"),
    "float": (0.5, 0.5),
    "double": (0.5, 0.5),
    "java.math.BigInteger": (-300, Decimal(-300)),
    "java.math.BigDecimal": ((1250, 2), Decimal("12.50")),
    "java.sql.Time": (5, 5),
    "java.sql.Timestamp": ((1500, 500_000_000), "1970-01-01 00:00:01.500000+00:00"),
    "java.net.InetSocketAddress": (("host", 80), ["host", 80]),
    "java.lang.Class": ((UTIL + "UUID", False), [UTIL + "UUID", False]),
    UTIL + "UUID": ((1, -2), "00000000-0000-0001-ffff-fffffffffffe"),
    UTIL + "BitSet": (0b1001 | 1 << 70, [0, 3, 70]),
    UTIL + "Locale": (("de", "CH", "", "", ""), "de_CH"),
    UTIL + "regex.Pattern": ("a+", "a+"),
}
#: Objects with fields and their values.
BY_CLASS: dict[str, tuple[KryoObject, Any]] = {
    TIME + "LocalDate": (DATE, "2024-02-29"),
    TIME + "LocalTime": (CLOCK, "01:02:03.000005"),
    TIME + "LocalDateTime": (DATE_TIME, "2024-02-29 01:02:03.000005"),
    TIME + "Instant": (made(TIME + "Instant", number(0), number(1, "long")), "1970-01-01 00:00:01+00:00"),
    TIME + "Duration": (made(TIME + "Duration", number(0), number(90, "long")), "PT1M30S"),
    TIME + "Period": (made(TIME + "Period", number(3), number(2), number(1)), "P1Y2M3D"),
    TIME + "Year": (made(TIME + "Year", number(2024)), 2024),
    TIME + "YearMonth": (made(TIME + "YearMonth", number(2), number(2024)), "2024-02"),
    TIME + "MonthDay": (made(TIME + "MonthDay", number(29), number(2)), "--02-29"),
    TIME + "ZoneOffset": (OFFSET, "+01:00"),
    TIME + "ZoneRegion": (made(TIME + "ZoneRegion", text("Europe/Berlin")), "Europe/Berlin"),
    TIME + "ZonedDateTime": (
        made(TIME + "ZonedDateTime", DATE_TIME, OFFSET, made(TIME + "ZoneRegion", text("Europe/Berlin"))),
        "2024-02-29T01:02:03.000005+01:00[Europe/Berlin]",
    ),
    TIME + "OffsetDateTime": (
        made(TIME + "OffsetDateTime", DATE_TIME, OFFSET),
        "2024-02-29T01:02:03.000005+01:00",
    ),
    TIME + "OffsetTime": (made(TIME + "OffsetTime", OFFSET, CLOCK), "01:02:03.000005+01:00"),
    UTIL + "Optional": (made(UTIL + "Optional", text("a")), "a"),
    UTIL + "OptionalInt": (made(UTIL + "OptionalInt", KryoObject("boolean", True), number(5)), 5),
    UTIL + "OptionalLong": (made(UTIL + "OptionalLong", KryoObject("boolean", False), number(0, "long")), None),
    UTIL + "OptionalDouble": (
        made(UTIL + "OptionalDouble", KryoObject("boolean", True), number(0.5, "double")),
        0.5,
    ),
    UTIL + "concurrent.atomic.AtomicInteger": (made(UTIL + "concurrent.atomic.AtomicInteger", number(5)), 5),
    UTIL + "concurrent.atomic.AtomicLong": (made(UTIL + "concurrent.atomic.AtomicLong", number(5, "long")), 5),
    UTIL + "concurrent.atomic.AtomicBoolean": (made(UTIL + "concurrent.atomic.AtomicBoolean", number(1)), True),
    UTIL + "concurrent.atomic.AtomicReference": (made(UTIL + "concurrent.atomic.AtomicReference", text("a")), "a"),
    UTIL + "concurrent.atomic.AtomicLongArray": (
        made(UTIL + "concurrent.atomic.AtomicLongArray", KryoObject("[J", [1, 2])),
        [1, 2],
    ),
    UTIL + "concurrent.atomic.AtomicIntegerArray": (
        made(UTIL + "concurrent.atomic.AtomicIntegerArray", KryoObject("[I", [1, 2])),
        [1, 2],
    ),
    UTIL + "Random": (
        made(
            UTIL + "Random",
            KryoObject("boolean", False),
            number(0.5, "double"),
            made(UTIL + "concurrent.atomic.AtomicLong", number(9, "long")),
        ),
        {"haveNextNextGaussian": False, "nextNextGaussian": 0.5, "seed": 9},
    ),
    **{
        UTIL + f"AbstractMap$Simple{kind}": (
            made(UTIL + f"AbstractMap$Simple{kind}", text("k"), number(1)),
            {"key": "k", "value": 1},
        )
        for kind in ("Entry", "ImmutableEntry")
    },
    "java.io.File": (made("java.io.File", text("/dat")), "/dat"),
    "java.math.MathContext": (CONTEXT, {"precision": 7, "roundingMode": "HALF_UP"}),
    "scala.math.BigDecimal": (made("scala.math.BigDecimal", DECIMAL, number(0), CONTEXT), Decimal("12.50")),
    "scala.math.BigInt": (made("scala.math.BigInt", KryoObject("java.math.BigInteger", 5)), 5),
    "java.net.URL": (
        made(
            "java.net.URL",
            *(text("a.b:80"), text("/c?d"), number(-1), text("a.b"), number(80), text("http"), text("e")),
        ),
        "http://a.b:80/c?d#e",
    ),
}
PRIMITIVES_OF = {"I": "int", "J": "long", "S": "short", "B": "byte", "Z": "boolean", "F": "float", "D": "double"}
#: A Java object stream that cannot be made of a value here: the tests of values of real Kryo have it.
STREAMS = {"java.text.SimpleDateFormat", "void"}


def example(name: str) -> tuple[KryoObject, Any]:
    """Return an object of a class of the list and its value in VARIANT."""
    layout = LAYOUTS[name]
    if name in BY_CLASS:
        return BY_CLASS[name]
    if layout in BY_LAYOUT:
        content, value = BY_LAYOUT[layout]
        return KryoObject(name, content), value
    if layout == "enum":
        return KryoObject(name, 2), ENUMS[name][2]
    if layout == "enum set":
        return KryoObject(name, [0, 2], TIME + "DayOfWeek"), ["MONDAY", "WEDNESDAY"]
    row = FIELD_CLASSES[name]
    parts = {field: of_type(kind) for field, _, kind in (each.partition(":") for each in row.fields.split())}
    values = {field: value for field, (_, value) in parts.items()}
    found = made(name, *(part for part, _ in parts.values()))
    return found, values if row.shown is None else values.get(row.shown)


def of_type(descriptor: str) -> tuple[KryoObject | None, Any]:
    """Return an object of the type of a field, and its value."""
    if descriptor in PRIMITIVES_OF:
        kind = PRIMITIVES_OF[descriptor]
        return KryoObject(kind, BY_LAYOUT[kind][0]), BY_LAYOUT[kind][1]
    if descriptor == "Ljava/lang/String;" or descriptor[0] == "T":
        return text("t"), "t"
    if descriptor in BY_LAYOUT:
        return KryoObject(descriptor, BY_LAYOUT[descriptor][0]), BY_LAYOUT[descriptor][1]
    if descriptor[0] == "[":
        return KryoObject(descriptor.replace("/", "."), [text("t"), None]), ["t", None]
    name = descriptor[1:-1].replace("/", ".")
    return example(name) if name in LAYOUTS else (None, None)


CLASSES = sorted(LAYOUTS.keys() - STREAMS)


def shown(column: pa.Array) -> Any:
    (value,) = column.to_pylist()
    found = VariantUtils.to_python(value["value"], value["metadata"]) if isinstance(value, dict) else value
    return normal(found)


def normal(value: Any) -> Any:
    """Return a value with times as text."""
    if isinstance(value, datetime.date | datetime.datetime):
        return str(value)
    if isinstance(value, list):
        return [normal(each) for each in value]
    return {key: normal(each) for key, each in value.items()} if isinstance(value, dict) else value


def decode(serializer: Any, data: bytes, version: int) -> pa.Array:
    at = Cursors.over([data], options=DecodeOptions(kryo=version))
    column = serializer.decode(at)
    at.expect_end()
    return column


def test_every_layout_has_a_body_in_both_versions() -> None:
    assert BODIES_2.keys() == BODIES_5.keys()
    assert {*LAYOUTS.values(), ARRAY} <= BODIES_2.keys()


def test_every_class_is_final_or_not() -> None:
    assert [name for name in LAYOUTS if name[0] != "[" and is_final_class(name) is None] == []
    assert [name for name in KINDS if name not in LAYOUTS and name[:2] != "[L"] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_read_in_every_position(name: str, version: Version) -> None:
    """As the type of a state, in an Object, in a list, and in the field of a class of the job."""
    found, wanted = example(name)
    form = object_format(version)
    data = write_object(found, form)
    assert write_object(read_whole(data, form), form) == data
    own = KryoSerializer.of(name)
    assert not own.opaque_parts()
    column = decode(own, data, version)
    assert decode(own, b"\0", version).to_pylist() == [None]
    if column.type == VARIANT:
        assert shown(column) == wanted
    elif name in FIELD_CLASSES and struct_of(name) is not None:
        assert column.to_pylist() == [wanted]
        written = JobClasses(kryo=version).described(own)
        assert encode(written, column) == [write_object(found, object_format(version, own.classes))]
        many = Cursors.over([data] * MANY, options=DecodeOptions(kryo=version))
        assert own.decode(many).to_pylist() == [wanted] * MANY
    assert shown(decode(KryoSerializer.of("java.lang.Object"), data, version)) == wanted
    listed = write_object(list_of([found, None, found]), form)
    in_list = [wanted, None, wanted]
    assert shown(decode(KryoSerializer.of(UTIL + "ArrayList"), listed, version)) == in_list
    job = JobClasses.of(words="com.shop.Held(any Object, list List)")
    assert job is not None
    held = KryoObject(
        "com.shop.Held", {("com.shop.Held", "any"): found, ("com.shop.Held", "list"): list_of([found, None, found])}
    )
    serializer = job.described(KryoSerializer.of("com.shop.Held"))
    described = object_format(version, serializer.classes, serializer._form(version).classes)  # type: ignore[attr-defined]
    row = decode(serializer, write_object(held, described), version)
    assert shown(row.field("any")) == wanted
    assert shown(row.field("list")) == in_list


@pytest.mark.parametrize("version", VERSIONS)
def test_values_without_objects_are_those_of_objects(version: Version) -> None:
    """What is read fast, without objects, is what is made of objects: for all bytes of real Kryo, damaged too."""
    random = np.random.default_rng(7)
    same = 0
    for _, kind, *both, _ in ROWS:
        data = bytes.fromhex(both[VERSIONS.index(version)].replace("-", ""))
        form = object_format(version, KryoSerializer.of(kind).classes)
        for damaged in range(8):
            mutable = bytearray(data)
            if damaged and mutable:
                mutable[random.integers(len(mutable))] = random.integers(256)
            for typed in (False, True):
                options = DecodeOptions(timestamps=("raw", "truncate")[damaged % 2])
                rendering = Rendering(form, options, typed)
                values = ObjectValues(form, options, 1 << 20)
                results = [
                    outcome(lambda: read_value(bytes(mutable), rendering)),  # noqa: B023
                    outcome(lambda: (values.typed if typed else values.variant)(read_whole(bytes(mutable), form))),  # noqa: B023
                ]
                if b"EnumMa" in mutable and results[1] is DamagedError:
                    continue  # keys of an enum that is not described are read, but are no objects
                assert repr(results[0]) == repr(results[1]), (kind, mutable.hex())
                same += 1
    assert same > 4000


def read_value(data: bytes, rendering: Rendering) -> Any:
    reader = ValueReader(memoryview(data), rendering, Budget())
    reader.begin(0, len(data))
    value = reader.value()
    if reader.remaining:
        raise DamagedError("the end of a value", f"{reader.remaining} more bytes")
    return value


def outcome(read: Any) -> Any:
    """Return a value, or that there is none."""
    try:
        return read()
    except (DamagedError, ForeignError, BeyondError):
        return DamagedError


def test_constants_of_time_units_are_text() -> None:
    for name, wanted in (("ChronoUnit", "MILLIS"), ("ChronoField", "MICRO_OF_SECOND")):
        serializer = KryoSerializer.of(f"java.time.temporal.{name}")
        assert serializer.arrow_type(DecodeOptions()) == pa.string()
        for version in VERSIONS:
            data = write_object(KryoObject(f"java.time.temporal.{name}", 2), object_format(version))
            assert decode(serializer, data, version).to_pylist() == [wanted]
            with pytest.raises(UndecodableStateError, match="UUID"):
                decode(serializer, write_object(KryoObject(UTIL + "UUID", (1, 2)), object_format(version)), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_an_enum_map_need_no_description(version: Version) -> None:
    """Only constants of an enum can be its keys, so the class and the position are known without class files."""
    form = object_format(version)
    name = UTIL + "EnumMap"
    found = KryoObject(name, [(KryoObject("java.time.temporal.ChronoUnit", 0), KryoObject("int", 7))])
    described = with_another_enum(write_object(found, form))
    assert shown(decode(KryoSerializer.of(name), described, version)) == {"java.time.temporal.ChronoUnix#0": 7}


def with_another_enum(data: bytes) -> bytes:
    """Name an enum that nobody describes; the last letter of a text has its high bit set."""
    last = bytes([ord("t") | 0x80])
    assert data.count(b"ChronoUni" + last) == 1
    return data.replace(b"ChronoUni" + last, b"ChronoUni" + bytes([ord("x") | 0x80]))
