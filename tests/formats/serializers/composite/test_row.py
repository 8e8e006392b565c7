"""Rows against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedVersionError, ValueRangeError
from pyspark_savepoint.formats.serializers.composite.fields import ROW, RowSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from tests.formats.serializers.codec_checks import base, check_column, decode, encode
from tests.formats.serializers.composite_zoo import check_zoo, values_of

LONG, STRING, INT = base("Long"), base("String"), base("Int")
ROWS = [
    {"f0": "x", "f1": 3, "__row_kind": "+I"},
    {"f0": "x", "f1": None, "__row_kind": "+I"},
    {"f0": "x", "f1": None, "__row_kind": "+U"},
    {"f0": None, "f1": 5, "__row_kind": "-D"},
    {"f0": "y", "f1": 1, "__row_kind": "-U"},
]


def test_values_of_real_flink() -> None:
    check_zoo("row", "ROW<STRING, INT>", ROWS, row_kind=True)
    check_zoo("rownokind", "ROW<STRING, INT>", ROWS[:2], row_kind=True)
    nine = dict(zip((f"f{n}" for n in range(9)), [1, None, 3, None, 5, None, 7, 8, None], strict=True))
    check_zoo("row9", "ROW<" + ", ".join(["INT"] * 9) + ">", [nine])


def test_hashes_look_into_lists_arrays_and_maps() -> None:
    full = {
        "f0": [1, 2],
        "f1": [("b", 2), ("a", 1)],
        "f2": [7, None],
        "f3": {"f0": "q", "f1": 2},
        "f4": {"f0": 1, "f1": "z"},
        "f5": True,
        "f6": 2.5,
        "f7": [6],
        "f8": [[1, 2], [3]],
    }
    check_zoo(
        "rowdeep",
        "ROW<LIST<INT>, MAP<STRING, LONG>, OBJECT_ARRAY<INT>, ROW<STRING, INT>, TUPLE<INT, STRING>, BOOLEAN, DOUBLE, "
        "NULLABLE<LIST<LONG>>, LIST<LIST<INT>>>",
        [full, dict.fromkeys(full)],
    )


def test_hashes_of_arrays_by_content() -> None:
    rows = [{"f0": ["s", None, "t"], "f1": b"\1\2\3"}, {"f0": None, "f1": b""}]
    serializer, values = values_of("rowarrays")
    column = decode(serializer, *values)
    assert column.to_pylist() == rows
    assert serializer.java_hash(column[:0]).tolist() == []
    check_zoo("rowarrays", serializer.flink_type, rows)


def test_kinds_are_not_shown_unless_asked_for() -> None:
    serializer, values = values_of("row")
    column = decode(serializer, *values)
    assert column.to_pylist() == [{"f0": row["f0"], "f1": row["f1"]} for row in ROWS]
    assert encode(serializer, column)[:2] == values[:2]


def snapshot(outer: str) -> bytes:
    nested = bytes.fromhex("001457fd0000000100000001") + len(INT.snapshot_class).to_bytes(2, "big")
    return bytes.fromhex("000de704" + outer) + nested + INT.snapshot_class.encode() + b"\0\0\0\3"


@pytest.mark.parametrize(
    ("outer", "value"),
    [
        ("00000002", "0000000007"),
        ("00000003", "c000000007"),
        ("0000000400", "0000000007"),
        ("0000000401", "c000000007"),
    ],
)
def test_versions(outer: str, value: str) -> None:
    payload = snapshot(outer)
    serializer = RowSerializer.read_snapshot(ROW, 3, snapshot_reader(DataInputView(payload)))
    view = DataOutputView()
    serializer.write_payload(view)
    assert view.getvalue() == payload
    column = decode(serializer, bytes.fromhex(value), row_kind=True)
    assert column.to_pylist() == [{"f0": 7, "__row_kind": "-D" if value[0] == "c" else "+I"}]
    assert encode(serializer, column) == [bytes.fromhex(value)]


@pytest.mark.parametrize("outer", ["00000001", "00000005"])
def test_other_versions_are_refused(outer: str) -> None:
    with pytest.raises(UnsupportedVersionError):
        RowSerializer.read_snapshot(ROW, 3, snapshot_reader(DataInputView(snapshot(outer))))


def test_columns() -> None:
    serializer = RowSerializer.of(STRING, LONG, RowSerializer.of(STRING, INT), LONG, LONG, LONG, LONG, INT)
    kinds = ("+I", "-U", "+U", "-D")

    def row(n: int) -> dict[str, Any]:
        return {
            "f0": None if n % 3 == 0 else f"{n}\u00e9\U0001f600",
            "f1": None if n % 5 == 0 else n,
            "f2": None if n % 2 else {"f0": "" if n % 4 else None, "f1": n, "__row_kind": kinds[n % 3]},
            "f7": -n,
            "__row_kind": kinds[n % 4],
        }

    column = pa.array([row(n) for n in range(500)], serializer.arrow_type(DecodeOptions(row_kind=True)))
    check_column(serializer, column, row_kind=True)
    hashes = serializer.java_hash(column)
    assert serializer.java_hash(column[100:200]).tolist() == hashes[100:200].tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 20), st.data())
def test_masks(fields: int, data: st.DataObject) -> None:
    serializer = RowSerializer.of(*[INT] * fields)
    one = st.tuples(*[st.none() | st.integers(-9, 9)] * fields)
    rows = [{f"f{n}": value for n, value in enumerate(row)} for row in data.draw(st.lists(one, max_size=10))]
    check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions())))


def test_rows_of_no_bytes() -> None:
    serializer = RowSerializer(ROW, 3, 4, (), supports_row_kind=False)
    column = decode(serializer, b"", b"")
    assert column.to_pylist() == [{}, {}]
    assert encode(serializer, column) == [b"", b""]


def test_a_row_itself_cannot_be_null() -> None:
    serializer = RowSerializer.of(INT)
    column = pa.array([{"f0": 1}, None], serializer.arrow_type(DecodeOptions()))
    with pytest.raises(ValueRangeError, match="cannot be null"):
        serializer.sizes(column)
    assert serializer.java_hash(column).tolist() == [31 + 31 + 1, 0]


@pytest.mark.parametrize(("kind", "supported"), [("+X", True), (None, True), ("-D", False)])
def test_kinds_that_cannot_be(kind: str | None, supported: bool) -> None:
    serializer = RowSerializer(ROW, 3, 4, (INT,), supports_row_kind=supported)
    column = pa.array([{"f0": 1, "__row_kind": kind}], serializer.arrow_type(DecodeOptions(row_kind=True)))
    with pytest.raises(ValueRangeError, match="row kind"):
        serializer.sizes(column)


def test_errors_name_the_field() -> None:
    with pytest.raises(CorruptStateError) as caught:
        decode(RowSerializer.of(INT, LONG), bytes.fromhex("200000000100"))
    assert caught.value.facts["state"] == "value.f1"


def test_the_mask_must_be_there(corpus: Path) -> None:
    with pytest.raises(CorruptStateError, match="mask"):
        decode(RowSerializer.of(*[INT] * 7), b"\0")
