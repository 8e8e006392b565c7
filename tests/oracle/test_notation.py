"""Types named by text: Flink takes the snapshots as its own, and reads the values that columns become."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import TypeNotationError, UndecodableStateError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.exact_casts import conform_column
from tests.oracle.flink import FlinkError, Oracle, SavepointOf

pytestmark = pytest.mark.flink

NOON = datetime(2024, 2, 29, 12, 0, 0, 123000, UTC)
MILLIS = int(NOON.timestamp() * 1000)
MOMENT = pa.timestamp("us", tz="America/New_York")
#: Those at which the encoding of a text takes one more byte, and Java's first and last.
CHARACTERS = "\x00\x7f\x80\xff\u3fff\u4000\uffff"
PERSON = pa.struct([("name", pa.string()), ("id", pa.int64())])
ANIMALS = (
    "POJO<oracle.Model$Animal>(legs INT, name STRING) REGISTERED(oracle.Model$Cat "
    "POJO<oracle.Model$Cat>(legs INT, lives INT, name STRING)) "
    "SUBCLASSES(oracle.Model$Dog POJO<oracle.Model$Dog>(barks BOOLEAN, legs INT, name STRING))"
)
LEAF = "POJO<oracle.Model$Leaf>(suit ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES), weight LONG)"


def fields(name: str, /, **values: Any) -> dict[str, Any]:
    return {"class": f"oracle.Model${name}", "fields": values}


#: Notation, column, what Flink must read.
CASES: list[tuple[str, pa.Array, list[Any]]] = [
    ("boolean", pa.array([True, False]), [True, False]),
    ("BYTE", pa.array([-128, 7]), [-128, 7]),
    ("SHORT", pa.array([-300], pa.int64()), [-300]),
    ("INT", pa.array([1 << 30], pa.int64()), [1 << 30]),
    ("LONG", pa.array([-1, 1 << 40]), [-1, 1 << 40]),
    ("FLOAT", pa.array([0.5, float("nan")], pa.float64()), [0.5, "NaN"]),
    ("DOUBLE", pa.array([3, 4], pa.int32()), [3.0, 4.0]),
    ("STRING", pa.array(["hé😀", "", None], pa.large_string()), ["hé😀", "", None]),
    ("CHAR", pa.array(["é"]), ["é"]),
    ("BIG_DECIMAL", pa.array([Decimal("12.30"), None], pa.decimal128(10, 2)), ["12.30", None]),
    ("BIG_INT", pa.array([10, -(1 << 60)]), ["10", str(-(1 << 60))]),
    ("DATE", pa.array([NOON], MOMENT), [{"ms": MILLIS}]),
    ("SQL_TIMESTAMP", pa.array([NOON], MOMENT), [{"ms": MILLIS, "nanos": 123000000}]),
    ("SQL_TIME", pa.array([1000]), [{"ms": 1000}]),
    ("INSTANT", pa.array([NOON, None], MOMENT), ["2024-02-29T12:00:00.123Z", None]),
    ("LOCAL_DATE", pa.array([date(2024, 2, 29)]), ["2024-02-29"]),
    ("LOCAL_TIME", pa.array([3_723_000_000_004], pa.time64("ns")), ["01:02:03.000000004"]),
    ("LOCAL_DATE_TIME", pa.array([NOON.replace(tzinfo=None)]), ["2024-02-29T12:00:00.123"]),
    ("VOID", pa.nulls(1), [None]),
    (
        "DOUBLE",
        pa.array([-0.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308]),
        [-0.0, "Infinity", "-Infinity", "NaN", 5e-324, 1.7976931348623157e308],
    ),
    ("PRIMITIVE_ARRAY<FLOAT>", pa.array([[-0.0, float("nan")]], pa.list_(pa.float32())), [[-0.0, "NaN"]]),
    ("STRING", pa.array([*CHARACTERS, "b" * 128]), [*CHARACTERS, "b" * 128]),
    ("CHAR", pa.array([*CHARACTERS]), [*CHARACTERS]),
    ("BIG_DECIMAL", pa.array([Decimal("0.00"), Decimal("-0.01")]), ["0.00", "-0.01"]),
    ("BIG_INT", pa.array([127, 128, -128, -129, -(1 << 63)]), ["127", "128", "-128", "-129", str(-(1 << 63))]),
    ("LOCAL_DATE", pa.array([date(1, 1, 1), date(9999, 12, 31), None]), ["0001-01-01", "9999-12-31", None]),
    ("LOCAL_TIME", pa.array([0, 86_399_999_999_999], pa.time64("ns")), ["00:00", "23:59:59.999999999"]),
    ("MAP<STRING, STRING>", pa.array([[("", None)]], pa.map_(pa.string(), pa.string())), [{"map": [["", None]]}]),
    ("BASIC_ARRAY<DOUBLE>", pa.array([[-0.0, None, float("nan")]]), [[-0.0, None, "NaN"]]),
    ("PRIMITIVE_ARRAY<BYTE>", pa.array([b"\x01\xff"]), [{"hex": "01ff"}]),
    ("PRIMITIVE_ARRAY<LONG>", pa.array([[1, 2], []], pa.list_(pa.int32())), [[1, 2], []]),
    ("BASIC_ARRAY<STRING>", pa.array([["a", None]]), [["a", None]]),
    ("OBJECT_ARRAY<LONG>", pa.array([[1, None]]), [[1, None]]),
    (
        f"OBJECT_ARRAY<{LEAF}>",
        pa.array([[{"weight": 1, "suit": "HEARTS"}]]),
        [[fields("Leaf", weight=1, suit="HEARTS")]],
    ),
    ("LIST<LONG>", pa.array([[1, 2], []], pa.list_(pa.int64())), [[1, 2], []]),
    ("LIST<NULLABLE<LONG>>", pa.array([[1, None]]), [[1, None]]),
    ("NULLABLE<LONG>(PADDED)", pa.array([1, None]), [1, None]),
    (
        "MAP<STRING, LIST<INT>>",
        pa.array([[("a", [1]), ("b", None)]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        [{"map": [["a", [1]], ["b", None]]}],
    ),
    (
        "TUPLE<LONG, STRING>",
        pa.array([{"id": 7, "name": "a"}], pa.struct([("id", pa.int64()), ("name", pa.string())])),
        [[7, "a"]],
    ),
    ("TUPLE<>", pa.array([{}], pa.struct([])), [[]]),
    ("ROW<id LONG, name STRING>", pa.array([{"name": "a", "id": None}], PERSON), [{"kind": "+I", "row": [None, "a"]}]),
    (
        "EITHER<LONG, STRING>",
        pa.array([{"left": None, "right": "x"}, {"left": 1, "right": None}]),
        [{"right": "x"}, {"left": 1}],
    ),
    ("ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES)", pa.array(["SPADES"]), ["SPADES"]),
    (
        LEAF,
        pa.array([{"weight": 5, "suit": None}], pa.struct([("weight", pa.int64()), ("suit", pa.string())])),
        [fields("Leaf", weight=5, suit=None)],
    ),
    (
        "POJO<oracle.Model$Dog>(name STRING, legs INT, barks BOOLEAN)",
        pa.array([{"barks": True, "legs": 4, "name": "Rex"}]),
        [fields("Dog", name="Rex", legs=4, barks=True)],
    ),
    (
        "TIME_WINDOW",
        pa.array([{"start": NOON, "end": NOON}], pa.struct([("start", MOMENT), ("end", MOMENT)])),
        [[MILLIS, MILLIS]],
    ),
    ("GLOBAL_WINDOW", pa.nulls(1), ["GLOBAL"]),
    ("VOID_NAMESPACE", pa.nulls(1), [None]),
    ("LONG_VALUE", pa.array([5]), [None]),
]
#: What Flink prints for its own objects that the harness does not format.
AS_TEXT = {"LONG_VALUE": ["5"]}
SINCE_2 = [("SET<STRING>", pa.array([["a"]]), [{"set": ["a"]}])]


def encode(serializer: TypeSerializer, column: pa.Array) -> list[bytes]:
    buffer, start, end = encode_column(serializer, column)
    return [buffer[low:high].tobytes() for low, high in zip(start, end, strict=True)]


def snapshot_of(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return bytes(view.getvalue())


def test_flink_reads_what_columns_become(flink_version: str, flink_oracle: Oracle) -> None:
    major, minor = (int(part) for part in flink_version.split(".")[:2])
    for text, column, expected in CASES + (SINCE_2 if major > 1 else []):
        serializer = parse_type(text, (major, minor))
        conformed = conform_column(column, serializer, "x")
        values = encode(serializer, conformed)
        answer = flink_oracle.serializer(snapshot_of(serializer), values)
        if "$Dog" not in text:  # Flink finds inherited fields by the class's own name, and writes their class's
            assert answer["snapshot"] == snapshot_of(serializer), text
        assert [value["again"] for value in answer["values"]] == values, text
        if text in AS_TEXT:
            assert [value["text"] for value in answer["values"]] == AS_TEXT[text], text
        else:
            assert [value["json"] for value in answer["values"]] == expected, text
        try:
            hashes = serializer.java_hash(conformed).tolist()
        except UndecodableStateError:
            continue
        if "ARRAY" not in text:
            assert [value["hash"] for value in answer["values"]] == hashes, text


def test_subclasses_of_pojos(flink_oracle: Oracle) -> None:
    serializer = parse_type(ANIMALS)
    kind = pa.struct(
        [
            ("legs", pa.int32()),
            ("name", pa.string()),
            ("lives", pa.int32()),
            ("barks", pa.bool_()),
            ("__class", pa.string()),
        ]
    )
    animals = [
        {"legs": 4, "name": "Rex", "barks": True, "__class": "oracle.Model$Dog"},
        {"legs": 4, "name": "Tom", "lives": 9, "__class": "oracle.Model$Cat"},
        {"legs": 6, "name": "Ant", "__class": "oracle.Model$Animal"},
    ]
    values = encode(serializer, conform_column(pa.array(animals, kind), serializer, "x"))
    read = flink_oracle.serializer(snapshot_of(serializer), values)["values"]
    assert [value["json"]["fields"]["name"] for value in read] == ["Rex", "Tom", "Ant"]
    assert [value["json"]["class"] for value in read] == [animal["__class"] for animal in animals]


def test_enums_that_flink_would_not_read(flink_oracle: Oracle) -> None:
    serializer = parse_type("ENUM<oracle.Model$Suit>(CLUBS, STARS)")
    with pytest.raises(FlinkError, match="enum value was removed"):
        flink_oracle.serializer(snapshot_of(serializer), [])


#: Types that no text describes, and those whose text is incomplete: a class of 2.0's async state.
WITHOUT_TEXT = ("KRYO", "VALUE", "JAVA", "WRITABLE", "UNKNOWN")


def test_what_is_shown_of_a_savepoint_can_be_pasted(flink_version: str, savepoint_of: SavepointOf) -> None:
    major, minor = (int(part) for part in flink_version.split(".")[:2])
    savepoint = Snapshot.open(str(savepoint_of(flink_version, "types").path))
    metas: dict[str, StateMetaInfoSnapshot] = {}
    for operator in savepoint.operators:
        for header in OpenOperator(savepoint, operator).keyed.headers:
            metas |= {f"{operator.label}/{meta.name}": meta for meta in header.states}
    parsed = 0
    for name, meta in metas.items():
        for serializer in meta.serializers.values():
            shown = serializer.flink_type
            try:
                again = parse_type(shown, (major, minor))
            except TypeNotationError:
                assert any(word in shown for word in WITHOUT_TEXT), (name, shown)
                continue
            parsed += 1
            assert again.flink_type == shown
            if "$Dog" not in shown and "$Cat" not in shown:  # inherited fields: told to be the class's own
                assert snapshot_of(again) == snapshot_of(serializer), (name, shown)
    assert parsed > 60
