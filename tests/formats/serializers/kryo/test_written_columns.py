"""Columns of Kryo's classes that a kernel writes: the bytes of the writer of single objects, and its errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.kryo.described import job_classes
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import DescribedKryoSerializer, JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import MANY, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import written_columns
from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape
from pyspark_savepoint.statebackends.rows.state_column import decode_whole
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from tests.formats.serializers.kryo.test_value_columns import recorded


def encoded(serializer: DescribedKryoSerializer, column: pa.Array) -> object:
    """Return the bytes of the values, or the error."""
    try:
        buffer, start, end = encode_column(serializer, column)
    except SavepointError as error:
        return type(error), str(error), error.facts
    return [buffer[low:high].tobytes() for low, high in zip(start, end, strict=True)]


def expect_same(serializer: DescribedKryoSerializer, column: pa.Array) -> int:
    """Compare what is written together with what is written one by one; return the rows that are written together.

    And with the first rows one by one, the others together.
    """
    together = encoded(serializer, column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(written_columns, "rows_one_by_one", lambda rows, _: iter([slice(0, 3), slice(3, rows // 2)]))
        assert together == encoded(serializer, column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_classes, "MANY", len(column) + 1)
        assert together == encoded(serializer, column)
    writing = job_classes._writing(serializer, serializer._column(DecodeOptions()).shape)
    written = None if writing is None else writing.write(column)
    return 0 if written is None else len(column) - int(written[0].sum())


#: What is written one by one: texts with a length, and a class without the fields of the compiler.
ALONE = {(2, "java.lang.StringBuilder"), (2, "java.lang.StringBuffer"), (5, "miglab.Model$KInner$In")}


def test_what_flink_wrote(corpus: Path) -> None:
    job = JobClasses((str(corpus / "migration" / "classes"),))
    counts: Counter[str] = Counter()
    alone = set()
    jobs = [replace(job, kryo=kryo) for kryo in (2, 5)]
    for serializer, values, version in recorded(corpus, *jobs):
        if not isinstance(serializer, DescribedKryoSerializer) or serializer.job.kryo != version:
            continue
        for timestamps in ("raw", "truncate"):
            options = DecodeOptions(kryo=version, timestamps=timestamps)
            columns = []
            for value in values:
                try:
                    columns.append(decode_whole(serializer, Cursors.over([value], options=options)))
                except SavepointError:
                    counts["not read"] += 1
            if not columns:
                continue
            column = pa.concat_arrays(columns * MANY)
            together = expect_same(serializer, column)
            counts["columns" if together else "one by one"] += 1
            is_refused = isinstance(encoded(serializer, column), tuple)
            if together < len(column) and not is_refused and timestamps == "truncate":
                alone.add((version, serializer.type_class))
    assert alone == ALONE
    assert counts["columns"] > 150


#: A class with fields of all that is written together.
WORDS = """
    Order(id LONG, at ZonedDateTime, color Color, other Color, lines List<Line>, tags Set<String>,
        counts Map<String, Long>, maybe Optional<String>, money Money, nested Map<String, List<Line>>, due LocalDate,
        big BigInteger, price BigDecimal, zone ZoneOffset, far OffsetTime, key UUID, took Duration,
        moment Instant, moved java.util.Date, ints int[], texts String[], moneys Money[], deque ArrayDeque<Long>,
        colors LinkedList<Color>, opt Optional<Line>, held java.util.concurrent.atomic.AtomicReference<String>,
        local LocalDateTime, day DayOfWeek, c Character, stamp java.sql.Timestamp, clock LocalTime, period Period,
        ym YearMonth, md MonthDay, year Year, bits BitSet, flag java.util.concurrent.atomic.AtomicBoolean, f FLOAT,
        d double, bytes byte[], odt OffsetDateTime, empty Empty, colored Map<Color, ZoneOffset>);
    final Line(name STRING, color Color, zone ZoneOffset, f FLOAT, d Double, at OffsetDateTime);
    Color ENUM(RED, GREEN, BLUE);
    Money(cents LONG, cur STRING, at ZonedDateTime);
    Empty(maybe Optional<Long>)
"""
TEXTS = st.text(max_size=70) | st.sampled_from(
    ["", "a", "ab", "x" * 64, "\U0010ffffd83d", "\U0010ffffffff", "\U0001f600"]
)
OFFSETS = st.sampled_from(["Z", "+01:00", "-03:30", "+05:45:10", "+00:00", "-18:00", "+19:00"])
ZONES = st.sampled_from(["Europe/Berlin", "UTC", "Nowhere/At_All", "+01:00", "Z", ""])
CLOCKS = st.sampled_from(["10:30", "00:00", "23:59:59", "10:30:00.5", "01:02:03.000000001", "24:00"])
DATES = st.sampled_from(["2024-02-29", "0001-01-01", "9999-12-31", "2023-02-29", "12024-01-01", "-0005-03-01"])
#: The texts of classes that are shown as texts.
AS_TEXT: dict[str, st.SearchStrategy[str]] = {
    "java.time.ZoneOffset": OFFSETS,
    "java.time.OffsetTime": st.builds(str.__add__, CLOCKS, OFFSETS),
    "java.time.OffsetDateTime": st.builds("{}T{}{}".format, DATES, CLOCKS, OFFSETS),
    "java.time.ZonedDateTime": st.builds(
        lambda *parts: "{}T{}{}".format(*parts) + (f"[{parts[3]}]" if parts[3] else ""),
        *(DATES, CLOCKS, OFFSETS, ZONES),
    ),
    "java.time.Period": st.sampled_from(["P0D", "P1Y2M3D", "P-1M", "P5D", "P1Y-3D"]),
    "java.time.YearMonth": st.sampled_from(["2024-01", "1999-12", "0001-10"]),
    "java.time.MonthDay": st.sampled_from(["--02-29", "--12-31"]),
    "java.time.DayOfWeek": st.sampled_from(["MONDAY", "SUNDAY"]),
    "java.util.UUID": st.uuids().map(str)
    | st.uuids().map(lambda each: str(each).upper())
    | st.uuids().map("{%s}".__mod__),
    "java.math.BigDecimal": st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.sampled_from(["1.50", "-0.00", "1E+5", "-1.5E-7", "9" * 40, "+1", "-9999999999999999999999999.9"]),
    "char": st.sampled_from(["a", "é", "€", "\U0010ffffd83d"]),
    "Color": st.sampled_from(["RED", "GREEN", "BLUE"]),
}
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def values_of(shape: ColumnShape) -> st.SearchStrategy[Any]:
    """Return values of a column, or null."""
    kind, name = shape.arrow, shape.written
    if shape.kind == "held":
        return values_of(shape.parts[0])
    if shape.kind == "struct":
        fields = {field.name: values_of(part) for field, part in zip(kind, shape.parts, strict=True)}
        return st.none() | st.fixed_dictionaries(fields)
    if shape.kind == "map":
        keys = values_of(shape.parts[0]).filter(lambda key: key is not None)
        return st.none() | st.lists(st.tuples(keys, values_of(shape.parts[1])), max_size=3)
    if shape.kind == "list":
        elements = values_of(shape.parts[0])
        if name in ("java.util.BitSet", "[I"):
            elements = st.integers(0, 200)
        return (
            st.none() | st.lists(elements, max_size=4) | st.lists(st.none() if name[0] != "[" else elements, max_size=1)
        )
    if name in AS_TEXT:
        return st.none() | AS_TEXT[name]
    numbers: Any = MICROS
    if pa.types.is_string(kind):
        return st.none() | TEXTS
    if pa.types.is_binary(kind):
        return st.none() | st.binary(max_size=80)
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_floating(kind):
        numbers = st.floats(width=kind.bit_width)
    elif pa.types.is_decimal(kind):
        return st.none() | st.decimals(-(10**38) + 1, 10**38 - 1, places=0, allow_nan=False)
    elif name == "java.util.Date":
        numbers = MICROS.map(lambda each: each // 1000 * 1000)
    elif name == "java.time.LocalTime":
        numbers = st.integers(0, 86_400 * 10**9 - 1)
    elif pa.types.is_date(kind):
        numbers = st.integers(-719_162, 2_932_896)
    elif pa.types.is_integer(kind):
        size = kind.bit_width - 1
        numbers = st.integers(-(1 << size), (1 << size) - 1)
    return numbers if name in ("long", "float", "double") else st.none() | numbers


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column, whose times are given as numbers."""
    if pa.types.is_struct(kind):
        parts = [column_of([each and each[field.name] for each in values], field.type) for field in kind]
        return pa.StructArray.from_arrays(
            parts, fields=list(kind), mask=pa.array([each is None for each in values], pa.bool_())
        )
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        mask = pa.array([each is None for each in values], pa.bool_())
        offsets = pa.array([0, *np.cumsum([len(each or ()) for each in values]).tolist()], pa.int32())
        flat = [part for each in values for part in each or ()]
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, column_of(flat, kind.value_type), kind, mask=mask)
        pairs = [
            column_of([pair[place] for pair in flat], each)
            for place, each in enumerate((kind.key_type, kind.item_type))
        ]
        return pa.MapArray.from_arrays(offsets, *pairs, kind, mask=mask)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, pa.int32()).cast(kind) if pa.types.is_date(kind) else pa.array(values, kind)


@pytest.mark.parametrize("kryo", [2, 5])
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_any_columns(kryo: int, data: Any) -> None:
    serializer = JobClasses(words=WORDS, kryo=kryo).described(KryoSerializer.of("Order"))
    assert isinstance(serializer, DescribedKryoSerializer)
    shape = serializer._column(DecodeOptions()).shape
    if data.draw(st.booleans()):
        # A column of one of the fields, for errors are those of the first field that has one.
        place = data.draw(st.integers(0, len(shape.parts) - 1))
        name = shape.arrow[place].name
        whole = data.draw(st.fixed_dictionaries({each.name: st.just(None) for each in shape.arrow}))
        values = data.draw(st.lists(values_of(shape.parts[place]), min_size=2, max_size=6))
        rows = [{**whole, "id": 1, "f": 0.5, "d": 1.5, name: value} for value in values]
    else:
        rows = data.draw(st.lists(values_of(shape), min_size=2, max_size=5))
    column = column_of(rows * MANY, shape.arrow)
    start = data.draw(st.integers(0, 5))
    expect_same(serializer, column[start:])


@pytest.mark.parametrize("kryo", [2, 5])
def test_all_are_written_together(kryo: int) -> None:
    """No value is left over, constants that repeat in a value too."""
    serializer = JobClasses(words=WORDS, kryo=kryo).described(KryoSerializer.of("Order"))
    assert isinstance(serializer, DescribedKryoSerializer)
    zoned = "2024-02-29T10:30+01:00[Europe/Berlin]"
    line = {"name": "a", "color": "RED", "zone": "+01:00", "f": 1.0, "d": None, "at": "2024-02-29T10:30+01:00"}
    values = {
        "id": 1,
        "at": zoned,
        "color": "RED",
        "other": "RED",
        "zone": "+01:00",
        "far": "10:30+01:00",
        "lines": [line, None, line],
        "tags": ["é", "x"],
        "counts": [("a", 1), ("b", None)],
        "maybe": None,
        "money": {"cents": 1, "cur": None, "at": zoned},
        "nested": [("k", [line])],
        "f": 0.0,
        "d": 0.0,
        "colors": ["BLUE", "RED", "BLUE"],
        "deque": [1, 2],
        "colored": [("RED", "Z"), ("GREEN", "+01:00")],
    }
    shape = serializer._column(DecodeOptions()).shape
    rows = [{**{field.name: None for field in shape.arrow}, **values}, None] * MANY
    assert expect_same(serializer, column_of(rows, shape.arrow)) == len(rows)


@pytest.mark.parametrize("kryo", [2, 5])
def test_generic_classes(corpus: Path, kryo: int) -> None:
    """What precedes an object depends on type arguments of the fields around it."""
    model = "miglab.Model$"
    job = JobClasses(
        (str(corpus / "migration" / "classes"),),
        f"A(s {model}KGen<String>, c {model}KGen<{model}Color>, g {model}KGen<List<Long>>, "
        f"l List<{model}KGen<List<String>>>, m Map<{model}Color, Map<String, {model}KGen<Long>>>)",
        kryo=kryo,
    )
    serializer = job.described(KryoSerializer.of("A"))
    assert isinstance(serializer, DescribedKryoSerializer)
    shape = serializer._column(DecodeOptions()).shape

    def of(value: Any) -> dict[str, Any]:
        return {"t": value, "ts": [value, None], "mt": [("k", value)]}

    row = {
        "s": of("a"),
        "c": of("RED"),
        "g": of([1]),
        "l": [of(["x"]), of([])],
        "m": [("RED", [("k", of(2))]), ("BLUE", [])],
    }
    rows = [row, {**row, "s": None, "l": []}, None] * MANY
    assert expect_same(serializer, column_of(rows, shape.arrow)) == len(rows)
