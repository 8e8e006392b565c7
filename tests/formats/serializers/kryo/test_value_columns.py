"""Values of Kryo that kernels read together: as those that are read one by one, damaged bytes too."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, UnknownPayloads
from pyspark_savepoint.formats.serializers.kryo.described.jdk_objects import jdk_objects
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import DescribedKryoSerializer, JobClasses, load
from pyspark_savepoint.formats.serializers.kryo.described.serializer import MANY, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import KryoObject, object_format, write_object
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Version
from pyspark_savepoint.formats.serializers.kryo.objects.times import offset_at, time_object
from pyspark_savepoint.formats.serializers.kryo.objects.value_columns import read_column
from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables, offsets_of
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from tests.formats.serializers.kryo.test_direct_conversion import ORDER, WORDS, orders

MODULE = "pyspark_savepoint.formats.serializers.kryo.described.{}.MANY"
COLUMNS = "pyspark_savepoint.formats.serializers.kryo.objects.value_columns.rows_one_by_one"
RELEASES = {2: "1.20.5", 5: "2.3.0"}


def read(serializer: TypeSerializer, values: list[bytes], version: int, **options: Any) -> tuple[object, ...]:
    """Return the column and the positions after its values, or the error and where it was met."""
    at = Cursors.over(values, options=DecodeOptions(kryo=version, **options))
    try:
        column = serializer.decode(at)
    except SavepointError as error:
        return type(error), str(error), error.facts
    column.validate(full=True)
    return column.type, repr(column.to_pylist()), at.position.tolist()


def expect_same(serializer: TypeSerializer, values: list[bytes], version: int, **options: Any) -> bool:
    """Compare what is read together with what is read one by one; return whether that is a column.

    And with the first rows one by one, the others together.
    """
    values = values * -(-MANY // len(values))
    together = read(serializer, values, version, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COLUMNS, lambda rows, *_: iter([slice(0, 3), slice(3, rows // 2)]))
        assert together == read(serializer, values, version, **options)
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(MODULE.format(module), len(values) + 1)
        assert together == read(serializer, values, version, **options)
    return isinstance(together[0], pa.DataType)


MODULES = ("serializer", "job_classes")


def recorded(corpus: Path, *jobs: JobClasses | None) -> Iterator[tuple[TypeSerializer, list[bytes], int]]:
    """Yield what real Flink wrote with Kryo: serializer, values, version of Kryo."""
    for version, release in RELEASES.items():
        for each in json.loads((corpus / "migration" / f"bytes-{release}.json").read_text()).values():
            values = [bytes.fromhex(value) for value in each.get("values", ()) if not value.startswith("!")]
            for job in jobs if "snapshot" in each and values else ():
                snapshot = DataInputView(bytes.fromhex(each["snapshot"]))
                serializer = snapshot_reader(snapshot, UnknownPayloads(classes=job)).versioned()
                if isinstance(serializer, KryoSerializer) and not serializer.opaque:
                    yield serializer, values, version


@pytest.mark.thorough  # all kernels of Kryo are compiled
def test_what_flink_wrote(corpus: Path) -> None:
    job = JobClasses((str(corpus / "migration" / "classes"),))
    columns = 0
    for serializer, values, version in recorded(corpus, None, job):
        columns += expect_same(serializer, values, version)
        for value in values[1:3]:
            columns += expect_same(serializer, [value], version, timestamps="truncate")
        columns += expect_same(serializer, values[-1:], version, timestamps="raw", decimals="string")
    assert columns > 500


#: Types of which all recorded values are read together: none has objects that it refers to again, or a comparator.
TOGETHER = """optional-long period zoned-date-time zoned-overlap offset-date-time offset-time zone-id zone-offset year
    year-month month-day big-decimal big-integer bit-set enum-set enum-map skip-list-map singleton-map empty-map
    int-array long-array double-array byte-array char-array boolean-array string-array object-array integer-array
    int-array-2 list-array string-builder atomic-long atomic-integer atomic-boolean atomic-reference simple-entry
    tuple"""


def test_none_is_left_over(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, row: int, *__: object) -> None:
        raise AssertionError(f"row {row} is read alone")

    for method in ("serializer._Rows._read", "job_classes._Rows._row"):
        monkeypatch.setattr(f"pyspark_savepoint.formats.serializers.kryo.described.{method}", refuse)
    job = JobClasses((str(corpus / "migration" / "classes"),))
    for version, release in RELEASES.items():
        cases = json.loads((corpus / "migration" / f"bytes-{release}.json").read_text())
        for name in TOGETHER.split():
            snapshot = DataInputView(bytes.fromhex(cases[f"kryo-{name}"]["snapshot"]))
            serializer = snapshot_reader(snapshot, UnknownPayloads(classes=job)).versioned()
            values = [bytes.fromhex(value) for value in cases[f"kryo-{name}"]["values"] if not value.startswith("!")]
            assert read(serializer, values * MANY, version)[2] == list(accumulate(map(len, values * MANY)))


ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Africa/Monrovia",
    "UTC",
    "Nowhere/At_All",
    "+01:30",
    "Z",
)


@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
@given(st.lists(st.tuples(st.datetimes(), st.integers(0, 999), st.sampled_from(ZONES)), min_size=1), st.data())
def test_zones(times: list[tuple[datetime.datetime, int, str]], data: Any) -> None:
    """Kryo 5 does not write offsets; Kryo 2 writes an offset that is the zone as a reference."""
    serializer = KryoSerializer.of("java.time.ZonedDateTime")
    for version in (2, 5):
        form, values = object_format(version), [b"\0"]
        for at, nanos, zone in times:
            local = (at.day, at.month, at.year), (at.hour, at.minute, at.microsecond * 1000 + nanos, at.second)
            offset = None if version == 5 or zone[0] in "+Z" else (data.draw(st.integers(-64_800, 64_800)),)
            values.append(write_object(time_object("java.time.ZonedDateTime", (local, offset, zone)), form))
        assert expect_same(serializer, values, version)
        damaged = bytearray(values[-1])
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        expect_same(serializer, [bytes(damaged)], version)


def test_no_zone_changes_its_offset_twice_in_a_day() -> None:
    """Changes are found by a look at each day: all of them are, of zones with many changes."""
    for zone in ("Africa/Freetown", "Africa/Casablanca", "America/Boa_Vista", "Asia/Gaza", "Antarctica/Troll"):
        for year in (1939, 1999, 2024, 2100):
            changes = dict(offsets_of(zone, year))
            offset = next(iter(changes.values()))
            for hour in range(366 * 24):
                when = datetime.datetime(year, 1, 1) + datetime.timedelta(hours=hour)
                seconds = (when - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
                passed = [change for start, change in changes.items() if start <= seconds]
                offset = passed[-1]
                expected = offset_at(zone, ((when.day, when.month, when.year), (when.hour, 0, 0, 0)))
                if when.year == year:
                    assert offset == expected, (zone, when)


def test_damaged_values(corpus: Path) -> None:
    """Any cut, and other bytes at random places: the same values, or the same errors."""
    job = JobClasses((str(corpus / "migration" / "classes"),))
    chance = random.Random(5)
    for serializer, values, version in recorded(corpus, job):
        value = chance.choice(values)
        damaged = bytearray(value)
        place = chance.randrange(len(value))
        damaged[place] = chance.choice([0, 1, 2, 0x80, damaged[place] ^ 1 << chance.randrange(8)])
        expect_same(serializer, [bytes(damaged), value], version)
        expect_same(serializer, [value[:place]], version)


def objects(chance: random.Random, depth: int) -> KryoObject | None:
    """Return any object of the classes that kernels read, or of others."""
    kind = chance.randrange(14 if depth < 4 else 9)
    size = chance.choice([0, 1, 2, 5, 70])
    text = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz 0-") for _ in range(size))
    match kind:
        case 0:
            return chance.choice([None, KryoObject("boolean", True), KryoObject("float", 1.5)])
        case 1 | 2:
            return KryoObject("java.lang.String", text)
        case 3:
            return KryoObject(
                "java.lang.String", text + chance.choice(["é", "€", "\U0001f600", "\U0010ffff", "\ud83d"])
            )
        case 4:
            return KryoObject(chance.choice(["int", "short", "byte"]), chance.randint(-128, 127))
        case 5:
            return KryoObject("long", chance.choice([0, -1, 1 << 40, -(1 << 63), 300, 40_000]))
        case 6:
            return KryoObject("double", chance.choice([0.0, -1.5, float("inf")]))
        case 7:
            return KryoObject("java.util.UUID", (chance.getrandbits(63), -chance.getrandbits(63)))
        case 8:
            number = chance.randint(-(10**size), 10**size)
            return chance.choice(
                [
                    KryoObject("char", "x"),
                    KryoObject("java.math.BigInteger", number),
                    KryoObject("java.math.BigDecimal", (number, chance.choice([0, 2, 5, 38, 39, -3, 2000]))),
                    KryoObject("java.util.BitSet", abs(number)),
                    KryoObject("[I", [number % 1000] * size),
                    KryoObject("[D", [0.5] * size),
                    KryoObject("[B", bytes(size)),
                    time_object("java.time.Duration", (chance.randrange(10**9), chance.randint(-(10**6), 10**14))),
                    time_object("java.time.Period", (number % 40, -3 * (size % 2), size)),
                    time_object("java.time.Year", (number % 3000,)),
                    time_object("java.time.ZoneOffset", (chance.randint(-64_800, 64_800),)),
                    time_object("java.time.LocalTime", (size % 24, 0, chance.choice([0, 10**6, 999]), size % 60)),
                    KryoObject("java.util.TreeSet", [KryoObject("int", each) for each in range(size)]),
                    KryoObject("[Ljava.lang.String;", [KryoObject("java.lang.String", text), None]),
                ]
            )
        case 9:
            name = chance.choice(["HashMap", "LinkedHashMap"])
            pairs = [(objects(chance, 4), objects(chance, depth + 1)) for _ in range(chance.choice([0, 1, 3]))]
            return KryoObject(f"java.util.{name}", pairs)
        case 10 | 11:
            # Keys are texts, mostly: then the map is an object of VARIANT.
            keys = [
                KryoObject("java.lang.String", f"k{chance.randrange(20)}") for _ in range(chance.choice([1, 2, 4, 4]))
            ]
            return KryoObject("java.util.HashMap", [(key, objects(chance, depth + 2)) for key in keys])
        case 12:
            name = chance.choice(["LinkedList", "HashSet", "Arrays$ArrayList"])
            return KryoObject(
                f"java.util.{name}", [objects(chance, depth + 1) for _ in range(chance.choice([0, 2, 6]))]
            )
        case _:
            # Of one class, which Kryo 5 writes once; the same object again is a reference.
            shared = KryoObject("java.lang.String", text)
            elements = [chance.choice([shared, KryoObject("java.lang.String", text)]) for _ in range(3)]
            return KryoObject("java.util.ArrayList", elements)


@pytest.mark.parametrize("version", [2, 5])
def test_any_values(version: Version) -> None:
    chance = random.Random(version)
    serializer, form = KryoSerializer.of("java.lang.Object"), object_format(version)
    for text in ("escape", "error"):
        values = [write_object(objects(chance, 0), form) for _ in range(96)]
        for start in range(0, len(values), MANY):
            expect_same(serializer, values[start : start + MANY], version, text=text)
        for value in values[:24]:
            damaged = bytearray(value)
            for _ in range(chance.randint(1, 2)):
                damaged[chance.randrange(len(value))] = chance.choice([0, 1, 2, 3, 0x81, chance.randrange(256)])
            expect_same(serializer, [bytes(damaged), value], version, text=text)


def test_many_and_long_names_of_classes_are_not_learned() -> None:
    serializer, form = KryoSerializer.of("java.lang.Object"), object_format(5)
    known = write_object(KryoObject("java.util.LinkedList", []), form)
    name = b"java.util.LinkedLis"
    for size in (20, 2000):
        others = [known.replace(name, f"job.Class{number:06}".encode().ljust(size, b"x")) for number in range(600)]
        expect_same(serializer, [known, *others], 5)
        expect_same(serializer, [*others, known], 5)


def test_large_columns() -> None:
    """More values than are in memory at once, and long ones."""
    serializer, form = KryoSerializer.of("java.lang.Object"), object_format(5)
    texts = [KryoObject("java.lang.String", f"text {number}" * 50) for number in range(300)]
    lists = [KryoObject("java.util.ArrayList", texts[:size]) for size in (1, 255, 256, 300)]
    lists += [KryoObject("java.util.HashMap", [(text, None) for text in texts[:size]]) for size in (2, 255, 256, 300)]
    values = [write_object(each, form) for each in (*texts[:20], *lists)]
    assert expect_same(serializer, values * 20, 5)


TIMES = f"""{ORDER}(at Instant, day LocalDate, clock LocalTime, local LocalDateTime, took Duration, date java.util.Date,
    id UUID, maybe Optional<STRING>, moneys List<Money>, names Map<STRING, List<LONG>>, any Object);
    Money(cents LONG, cur STRING)"""


@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
@given(st.lists(orders(), min_size=1, max_size=4), st.sampled_from([2, 5]), st.data())
def test_columns_of_a_class(values: list[KryoObject], version: Version, data: Any) -> None:
    job = JobClasses(words=WORDS)
    serializer = job.described(KryoSerializer.of(ORDER))
    form = object_format(version, KryoSerializer.of(ORDER).classes, load(job)[0])
    written = [write_object(value, form) for value in values]
    expect_same(serializer, [*written, b"\0"], version)
    value = written[0]
    place = data.draw(st.integers(0, len(value) - 1))
    expect_same(serializer, [value[:place] + bytes([data.draw(st.integers(0, 255))]) + value[place + 1 :]], version)
    expect_same(serializer, [value[:place]], version)


@pytest.mark.parametrize("version", [2, 5])
def test_fields_of_times_and_collections(version: Version) -> None:
    """All of their values are read together."""
    job = JobClasses(words=TIMES, kryo=version)
    serializer = job.described(KryoSerializer.of(ORDER))
    assert isinstance(serializer, DescribedKryoSerializer)
    options, form = DecodeOptions(kryo=version), object_format(version, serializer.classes, load(job)[0])
    now = datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999, datetime.UTC)
    text, numbers = KryoObject("java.lang.String", "é"), [KryoObject("long", number) for number in (1, -1)]
    money = KryoObject("Money", {("Money", "cents"): numbers[0], ("Money", "cur"): text})
    fields = {
        "at": now,
        "day": now.date(),
        "clock": 86_399_000_000_001,
        "local": now.replace(tzinfo=None),
        "took": datetime.timedelta(days=-1, microseconds=1),
        "date": now.replace(microsecond=999_000),
        "id": "00000000-0000-0001-ffff-fffffffffffe",
    }
    columns = serializer._column(options)
    objects: dict[Any, KryoObject | None] = {
        (ORDER, "maybe"): KryoObject("java.util.Optional", {("java.util.Optional", "value"): text}),
        (ORDER, "moneys"): KryoObject("java.util.LinkedList", [money, None]),
        (ORDER, "names"): KryoObject("java.util.HashMap", [(text, KryoObject("java.util.ArrayList", numbers))]),
        (ORDER, "any"): KryoObject("java.util.HashMap", [(numbers[0], text), (numbers[1], None)]),
    }
    for name, value in fields.items():
        ((_, kind),) = [(each.name, each.type) for each in columns.arrow if each.name == name]
        (java,) = [each.erased for each in load(job)[0].fields(ORDER, version) if each.key[1] == name]
        (objects[ORDER, name],) = jdk_objects(java, pa.array([value], kind), {})
    value = write_object(KryoObject(ORDER, objects), form)
    at = Cursors.over([value, b"\0"] * MANY, options=options)
    together, column, _ = read_column(columns.shape, ValueTables(form, options), at, True, 1 << 20)
    assert together.all() or version == 2
    assert expect_same(serializer, [value, b"\0"], version)
    for name, value_of in fields.items():
        assert not together[0] or column.to_pylist()[0][name] == value_of


def test_a_class_with_many_columns() -> None:
    """A null of it has a place in each of them."""
    job = JobClasses(words=f"A({', '.join(f'f{number} LONG' for number in range(2000))})")
    assert expect_same(job.described(KryoSerializer.of("A")), [b"\0"] * 200, 5)


def test_values_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for their sizes, and again for their bytes."""
    written = []

    def count(value: KryoObject | None, form: Any) -> bytes:
        written.append(value)
        return write_object(value, form)

    monkeypatch.setattr("pyspark_savepoint.formats.serializers.kryo.described.job_classes.write_object", count)
    serializer = JobClasses(kryo=5).described(KryoSerializer.of("java.time.Year"))
    for years in ([1, 2], [3, None]):
        column = pa.array(years, pa.int32())
        sizes = serializer.sizes(column)
        at = Cursors.over([bytes(size) for size in sizes.tolist()], options=DecodeOptions(kryo=5))
        at.buffer = np.zeros(len(at.buffer), np.uint8)
        starts = at.position.copy()
        serializer.encode(column, at)
        at.position[:] = starts
        assert serializer.decode(at).to_pylist() == years
    assert len(written) == 4
