"""Columns to what serializers encode: everything that was read can be written, and nothing else changes silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.writing.planning.exact_casts import check_writable, conform_column, form_of

NEWEST = (2, 3)
#: How a reader may have chosen to see values.
READERS = [
    DecodeOptions(),
    DecodeOptions(timestamps="raw", row_kind=True),
    DecodeOptions(decimals="string", ttl=True),
    DecodeOptions("raw", "string", row_kind=True, ttl=True),
]


def written(serializer: TypeSerializer, column: pa.Array) -> list[bytes]:
    buffer, start, end = encode_column(serializer, conform_column(column, serializer, "x"))
    return [buffer[low:high].tobytes() for low, high in zip(start, end, strict=True)]


def from_spark(column: pa.Array) -> pa.Array:
    """The column as Spark hands it over: times in the session's zone, long offsets where they were asked for."""
    return column.cast(spark_type_of(column.type)) if column.type.num_fields == 0 else column


def spark_type_of(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", tz="America/Los_Angeles")
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def values(folders: Path) -> Iterator[tuple[str, TypeSerializer, list[bytes]]]:
    """Serializers and the values that Flink wrote with each: all, or the one that its test resources have."""
    for folder in sorted(folders.iterdir()):
        serializer = read_serializer((folder / "serializer-snapshot").read_bytes())
        if not serializer.opaque_parts() and not folder.name.startswith("kryo-"):
            listed = folder / "values.json"
            data = [bytes.fromhex(value) for value, _ in json.loads(listed.read_text())] if listed.exists() else []
            yield folder.name, serializer, data or [(folder / "test-data").read_bytes()]


def check_all_written(folders: Path) -> int:
    """Every value is written as it was read, in whichever form it was shown; returns how many were."""
    seen = 0
    for name, serializer, data in values(folders):
        for options in READERS:
            # Without a column of last access, it is the current time.
            if name.startswith("ttl-serializer") and not options.ttl:
                continue
            try:
                column = serializer.decode(Cursors.over(data, options=options))
            except ValueRangeError:
                # finer than Spark's times, or beyond its years and digits
                assert options.timestamps == "micros" or options.decimals != "string", (name, options)
                continue
            assert written(serializer, from_spark(column)) == data, (name, options)
            seen += len(data)
    return seen


def test_every_value_is_written_as_it_was_read(corpus: Path) -> None:
    assert check_all_written(corpus / "serializers") > 4000


def test_every_value_of_the_resources_is_written_as_it_was_read(flink_resources: Path) -> None:
    assert check_all_written(flink_resources / "serializers") > 1000


def test_columns_that_fit_are_not_copied() -> None:
    column = pa.array([1, 2, 3])
    assert conform_column(column, parse_type("LONG"), "x") is column


# -- numbers -------------------------------------------------------------------------------------------------------

WIDTHS = {"BYTE": pa.int8(), "SHORT": pa.int16(), "INT": pa.int32(), "LONG": pa.int64()}


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.sampled_from(list(WIDTHS)))
def test_integers_fit_or_are_refused(values: list[int | None], name: str) -> None:
    target, serializer = WIDTHS[name], parse_type(name)
    bits = target.bit_width - 1
    beyond = [value for value in values if value is not None and not -(2**bits) <= value < 2**bits]
    column = pa.array(values, pa.int64())
    if not beyond:
        assert conform_column(column, serializer, "x").equals(pa.array(values, target))
        return
    with pytest.raises(ValueRangeError) as caught:
        conform_column(column, serializer, "amount")
    assert f"{beyond[0]} (bigint)" in str(caught.value)
    assert "column 'amount'" in str(caught.value)


def test_floats_keep_their_value() -> None:
    halves = pa.array([0.5, None, float("nan"), float("-inf"), -0.0])
    assert [str(x) for x in conform_column(halves, parse_type("FLOAT"), "x").to_pylist()] == [
        "0.5",
        "None",
        "nan",
        "-inf",
        "-0.0",
    ]
    with pytest.raises(ValueRangeError, match=r"0\.1 "):
        conform_column(pa.array([0.5, 0.1]), parse_type("FLOAT"), "x")
    assert conform_column(pa.array([2**53]), parse_type("DOUBLE"), "x").to_pylist() == [2.0**53]
    with pytest.raises(ValueRangeError, match=str(2**53 + 1)):
        conform_column(pa.array([1, 2**53 + 1]), parse_type("DOUBLE"), "x")


def test_decimals() -> None:
    column = pa.array([Decimal("12.30"), None], pa.decimal128(10, 2))
    assert conform_column(column, parse_type("BIG_DECIMAL"), "x") is column
    assert conform_column(column, parse_type("DECIMAL(12, 4)"), "x").type == pa.decimal128(12, 4)
    with pytest.raises(ValueRangeError, match=r"12\.30"):
        conform_column(column, parse_type("DECIMAL(10, 0)"), "x")
    assert conform_column(pa.array([5]), parse_type("BIG_INTEGER"), "x").to_pylist() == [Decimal(5)]
    assert conform_column(pa.array(["1E+3"]), parse_type("BIG_DECIMAL"), "x").to_pylist() == ["1E+3"]
    whole = pa.array([Decimal(7)], pa.decimal128(20, 0))
    assert conform_column(whole, parse_type("LONG"), "x").to_pylist() == [7]
    two = parse_type("TUPLE<BIG_DECIMAL, BIG_DECIMAL>")
    kinds = pa.struct([("f0", pa.decimal128(10, 2)), ("f1", pa.string())])
    assert form_of(kinds, two, "x") == kinds


# -- other leaves --------------------------------------------------------------------------------------------------

REFUSED: list[tuple[pa.DataType, str, str]] = [
    (pa.string(), "LONG", "found: string"),
    (pa.int64(), "STRING", "cast it to string"),
    (pa.float64(), "LONG", "cast it to bigint"),
    (pa.decimal128(10, 2), "LONG", "decimal"),
    (pa.timestamp("us"), "INSTANT", "timestamp_ntz"),
    (pa.timestamp("us", "UTC"), "LOCAL_DATE_TIME", "cast it to timestamp_ntz"),
    (pa.date32(), "SQL_DATE", "cast it to timestamp"),
    (pa.binary(), "STRING", "binary"),
    (pa.string(), "PRIMITIVE_ARRAY<BYTE>", "cast it to binary"),
    (pa.int32(), "BOOLEAN", "cast it to boolean"),
    (pa.int64(), "LIST<LONG>", "array<bigint>"),
    (pa.list_(pa.string()), "LIST<LONG>", "'x.element'"),
    (pa.map_(pa.string(), pa.string()), "MAP<STRING, LONG>", "'x.value'"),
    (pa.map_(pa.int64(), pa.string()), "MAP<STRING, STRING>", "'x.key'"),
    (pa.time64("ns"), "SQL_TIME", "cast it to bigint"),
    (pa.struct([("id", pa.int64()), ("nmae", pa.string())]), "POJO<A>(id LONG, name STRING)", "did you mean 'nmae'?"),
    (pa.struct([("id", pa.int64())]), "POJO<A>(id LONG, name STRING)", "CAST(NULL AS string)"),
    (pa.struct([("id", pa.int64()), ("x", pa.int64())]), "POJO<A>(id LONG)", "drop the field 'x'"),
    (pa.struct([("id", pa.int64())]), "TUPLE<LONG, STRING>", "2 fields, the column 1"),
    (pa.struct([("id", pa.struct([("a", pa.string())]))]), "ROW<id ROW<a INT>>", "'x.id.a'"),
]


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED)
def test_types_that_never_fit(kind: pa.DataType, text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        form_of(kind, parse_type(text), "x")
    assert message in str(caught.value)
    assert "column 'x" in str(caught.value)


def test_moments_keep_their_instant_in_any_zone() -> None:
    noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    column = pa.array([noon, None], pa.timestamp("us", "Asia/Tokyo"))
    for name in ("INSTANT", "DATE", "SQL_TIMESTAMP", "SQL_DATE"):
        assert conform_column(column, parse_type(name), "x").to_pylist() == [noon, None]
    with pytest.raises(ValueRangeError, match="does not fit"):
        conform_column(pa.array([1], pa.timestamp("ns", "UTC")), parse_type("INSTANT"), "x")
    assert conform_column(pa.array([1_000], pa.timestamp("ns", "UTC")), parse_type("INSTANT"), "x").type.unit == "us"
    assert conform_column(pa.array([123]), parse_type("DATE"), "x").to_pylist() == [123]  # milliseconds, as "raw" reads


def test_times_of_day() -> None:
    column = pa.array([1_000_000_007, None], pa.time64("ns"))
    assert [value.hex() for value in written(parse_type("LOCAL_TIME"), column)] == ["00000100000007", "80800080000000"]
    assert written(parse_type("LIST<LOCAL_TIME>"), pa.ListArray.from_arrays([0, 2], column))[0].hex() == (
        "00000002" + "00000100000007" + "80800080000000"
    )
    assert written(parse_type("TTL<LOCAL_TIME>"), column)[0][8:].hex() == "00000100000007"
    assert written(parse_type("LOCAL_TIME"), column) == written(parse_type("LOCAL_TIME"), column.cast(pa.int64()))
    assert written(parse_type("LOCAL_TIME"), pa.array([1], pa.time64("us")))[0].hex() == "000000000003e8"


def test_dictionaries_and_voids() -> None:
    column = pa.array(["a", None, "a"]).dictionary_encode()
    assert conform_column(column, parse_type("STRING"), "x").to_pylist() == ["a", None, "a"]
    assert conform_column(pa.nulls(2), parse_type("STRING"), "x").equals(pa.nulls(2, pa.string()))


# -- composites ----------------------------------------------------------------------------------------------------


def test_fields_by_name_or_by_position() -> None:
    column = pa.array([{"name": "a", "id": 1}], pa.struct([("name", pa.string()), ("id", pa.int32())]))
    for text in ("POJO<A>(id LONG, name STRING)", "ROW<id LONG, name STRING>", "ROWDATA<id BIGINT, name STRING>"):
        assert conform_column(column, parse_type(text), "x").to_pylist() == [{"id": 1, "name": "a"}]
    for text in ("TUPLE<STRING, INT>", "ROW<STRING, INT>", "ROWDATA<STRING, INT>"):
        assert conform_column(column, parse_type(text), "x").to_pylist() == [{"f0": "a", "f1": 1}]
    swapped = pa.array([{"f1": 1, "f0": "a"}], pa.struct([("f1", pa.int32()), ("f0", pa.string())]))
    assert conform_column(swapped, parse_type("TUPLE<STRING, INT>"), "x").to_pylist() == [{"f0": "a", "f1": 1}]
    shouted = pa.array([{"NAME": "a", "Id": 1}], pa.struct([("NAME", pa.string()), ("Id", pa.int64())]))
    assert conform_column(shouted, parse_type("POJO<A>(id LONG, name STRING)"), "x").to_pylist()[0]["name"] == "a"


def test_row_kinds_stay() -> None:
    inner = pa.struct([("a", pa.int64()), ("__row_kind", pa.string())])
    column = pa.array(
        [{"r": {"a": 1, "__row_kind": "-D"}, "l": [1]}], pa.struct([("r", inner), ("l", pa.list_(pa.int64()))])
    )
    serializer = parse_type("ROW<r ROW<a LONG>, l LIST<LONG>>")
    (data,) = written(serializer, column)
    at = Cursors.over([data], options=DecodeOptions(row_kind=True))
    assert serializer.decode(at).to_pylist()[0]["r"] == {"a": 1, "__row_kind": "-D"}


def test_what_nulls_hide_is_not_looked_at() -> None:
    """Arrow's child values below a null may have any content."""
    items = pa.array([1, 2, 2**40, 4])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3, 4], pa.int32()), items, mask=pa.array([False, True, False]))
    assert conform_column(lists, parse_type("LIST<INT>"), "x").to_pylist() == [[1, 2], None, [4]]
    structs = pa.StructArray.from_arrays([pa.array([1, 2**40])], ["a"], mask=pa.array([False, True]))
    assert conform_column(structs, parse_type("POJO<A>(a INT)"), "x").to_pylist() == [{"a": 1}, None]
    sliced = pa.array([[2**40], [1], [2]])[1:]
    assert conform_column(sliced, parse_type("LIST<INT>"), "x").to_pylist() == [[1], [2]]
    with pytest.raises(ValueRangeError, match=r"'x\.element'"):
        conform_column(pa.array([[1], [2**40]]), parse_type("LIST<INT>"), "x")


KINDS = st.recursive(
    st.sampled_from(["LONG", "INT", "STRING", "INSTANT", "LOCAL_DATE", "DOUBLE", "BOOLEAN"]),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"LIST<NULLABLE<{kind}>>"),
        inner.map(lambda kind: f"MAP<STRING, {kind}>"),
        st.tuples(inner, inner).map(lambda pair: f"TUPLE<NULLABLE<{pair[0]}>, NULLABLE<{pair[1]}>>"),
        st.tuples(inner, inner).map(lambda pair: f"POJO<A>(a {pair[0]}, b {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"ROW<{pair[0]}, {pair[1]}>"),
    ),
    max_leaves=4,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "string": st.text(max_size=3),
    "date32[day]": st.dates(),
    "double": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "timestamp[us, tz=UTC]": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
}


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.text(max_size=2), values_of(kind.item_type), max_size=3).map(
            lambda entries: list(entries.items())
        )
    return st.none() | VALUES[str(kind)]


@given(KINDS.flatmap(lambda text: st.tuples(st.just(text), st.lists(values_of(shape_of(text)), max_size=5))))
def test_any_column_comes_back(case: tuple[str, list[Any]]) -> None:
    text, values = case
    serializer = parse_type(f"NULLABLE<{text}>")
    column = pa.array(values, shape_of(text))
    data = written(serializer, column)
    at = Cursors.over(data)
    assert serializer.decode(at).equals(column)
    at.expect_end()


def shape_of(text: str) -> pa.DataType:
    return parse_type(text).arrow_type(DecodeOptions())


def test_user_code_is_refused_by_who_encodes() -> None:
    loop = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}'
    assert conform_column(pa.array([b""]), parse_type(f"AVRO<'{loop}'>"), "x").type == pa.binary()
    with pytest.raises(UndecodableStateError, match=r"column 'next'.*by the job's own serializer"):
        check_writable(pa.binary(), parse_type(f"AVRO<'{loop}'>"), "next")


def test_speed_of_what_fits() -> None:
    """Nothing is done per value where types are the same: the very buffers are kept."""
    column = pa.array(np.arange(10), pa.int64())
    kept = conform_column(pa.StructArray.from_arrays([column], ["f0"]), parse_type("TUPLE<LONG>"), "x")
    assert kept.field(0).buffers()[1].address == column.buffers()[1].address
