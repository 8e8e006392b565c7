"""Pickles as CPython writes them: plain values, and objects as data; nothing is run."""

from __future__ import annotations

import datetime
import decimal
import enum
import pickle
import tracemalloc
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    UndecodableStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary, decode_pyflink, read_pickle
from pyspark_savepoint.formats.serializers.basic.blobs import BYTES, BytesSerializer
from pyspark_savepoint.formats.variant import Date, Timestamp

SHARED = ["x"]
VALUES = [
    None,
    True,
    False,
    0,
    -1,
    255,
    256,
    65536,
    -(2**31),
    2**31,
    2**63,
    -(2**100),
    2**2100,
    0.0,
    -2.25,
    1e300,
    float("inf"),
    "",
    "text",
    "hé\n\\u😀",
    "x" * 300,
    "y" * 70_000,
    [],
    {},
    [1, [2, ["a"]], None],
    {"a": 1, "b": {"c": []}},
    list(range(2500)),
    {str(i): i for i in range(2500)},
    [SHARED, SHARED],
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_plain_values(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
def test_tuples_are_lists(protocol: int) -> None:
    value = ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, (4,)))
    assert read_pickle(pickle.dumps(value, protocol)) == [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, [4]]]


@pytest.mark.parametrize("protocol", range(3, 6))
def test_bytes_and_sets(protocol: int) -> None:
    assert read_pickle(pickle.dumps([b"", b"\0\xff", b"z" * 300], protocol)) == [b"", b"\0\xff", b"z" * 300]
    if protocol > 3:
        assert sorted(read_pickle(pickle.dumps({1, 2}, protocol))) == [1, 2]
        assert read_pickle(pickle.dumps(frozenset([3]), protocol)) == [3]
    if protocol > 4:
        assert read_pickle(pickle.dumps(bytearray(b"ab"), protocol)) == b"ab"


def test_keys_that_are_no_texts() -> None:
    assert read_pickle(pickle.dumps({1: "a", (2, "b"): None})) == [
        {"key": 1, "value": "a"},
        {"key": [2, "b"], "value": None},
    ]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None, max_examples=50)
@given(plain, st.integers(3, 5))
def test_anything_plain(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)) == value


@settings(deadline=None, max_examples=50)
@given(plain, st.data())
def test_damaged_pickles(value: Any, data: st.DataObject) -> None:
    content = bytearray(pickle.dumps(value))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(content[:place]), bytes(content)):
        try:
            read_pickle(damaged)
        except SavepointError:
            continue


class Custom:
    """A class of somebody."""

    ran = False

    def __setstate__(self, state: Any) -> None:
        Custom.ran = True


class Colour(enum.Enum):
    RED = 1


Point = namedtuple("Point", "x y")


@dataclass
class Item:
    name: str
    parts: list[int]


@dataclass(slots=True)
class Slotted:
    x: int


BERLIN = datetime.timezone(datetime.timedelta(hours=2), "CEST")
DAY = datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
MICROS = 1577934245000006
HERE = __name__
OBJECTS: list[tuple[Any, Any]] = [
    (DAY, Timestamp(MICROS, zoned=False)),
    (DAY.replace(tzinfo=datetime.timezone.utc), Timestamp(MICROS)),  # noqa: UP017
    (DAY.replace(tzinfo=BERLIN), Timestamp(MICROS - 7200 * 10**6)),
    (DAY.replace(tzinfo=ZoneInfo("UTC")), Timestamp(MICROS)),
    (DAY.replace(tzinfo=ZoneInfo("Asia/Tokyo")), {"local": Timestamp(MICROS, zoned=False), "zone": "Asia/Tokyo"}),
    (DAY.date(), Date(18263)),
    (DAY.time(), "03:04:05.000006"),
    (datetime.timedelta(1, 2, 3), decimal.Decimal("86402.000003")),
    (decimal.Decimal("-1.50"), decimal.Decimal("-1.50")),
    (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (Fraction(1, 3), "1/3"),
    (1j, "0.0+1.0j"),
    (OrderedDict(a=1), {"a": 1}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (defaultdict(int, {"x": 2}), {"x": 2}),
    (deque([1, 2]), [1, 2]),
    ({1}, [1]),
    (bytearray(b"ab"), b"ab"),
    (Colour.RED, {"__class": f"{HERE}.Colour", "__args": [1]}),
    (Point(1, "y"), {"__class": f"{HERE}.Point", "__args": [1, "y"]}),
    (Item("a", [1]), {"__class": f"{HERE}.Item", "name": "a", "parts": [1]}),
    (Custom(), {"__class": f"{HERE}.Custom"}),
    (print, {"__name": "builtins.print"}),
    ([1, {"a": Item("b", [])}], [1, {"a": {"__class": f"{HERE}.Item", "name": "b", "parts": []}}]),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(("value", "expected"), OBJECTS, ids=lambda value: repr(value)[:30])
def test_objects_are_data(value: Any, expected: Any, protocol: int) -> None:
    Custom.ran = False
    assert read_pickle(pickle.dumps(value, protocol)) == expected
    assert not Custom.ran


def test_slots_and_classes_of_cloudpickle() -> None:
    assert read_pickle(pickle.dumps(Slotted(4))) == {"__class": f"{HERE}.Slotted", "x": 4}
    made = type("Made", (), {"__module__": "__main__", "__reduce__": lambda self: (type(self), (1,))})()
    assert read_pickle(cloudpickle.dumps(made)) == {"__class": "__main__.Made", "__args": [1]}


@pytest.mark.parametrize(
    "data",
    [
        b"cdatetime\ndate\n(V2020\ntR.",
        b"cdatetime\ndatetime\n(C\x02ab\x85R.",
        b"cdecimal\nDecimal\n(VsNaN1x\ntR.",
        b"cdatetime\ntimezone\n(I1\ntR.",
        b"cos\nsystem\nNR.",
        b"c" + b"x" * 2000 + b"\ny\n.",
        b"NN\x93.",
        b"b.",
        b"Nb.",
        b"(o.",
    ],
)
def test_calls_that_cpython_does_not_write(data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        read_pickle(data)


def test_a_call_of_anything_is_its_description_only(tmp_path: Path) -> None:
    command = f"touch {tmp_path / 'ran'}"
    data = b"cos\nsystem\n(V" + command.encode() + b"\ntR."
    assert read_pickle(data) == {"__class": "os.system", "__args": [command]}
    assert read_pickle(b"(ios\nsystem\n.") == {"__class": "os.system"}
    assert not (tmp_path / "ran").exists()


def test_shared_state_is_not_copied_without_bound() -> None:
    fields = b"}(" + b"".join(b"V%d\nN" % index for index in range(4000)) + b"uq\0"
    objects = b"".join(b"cm\nC\n)\x81h\0b" for _ in range(20_000))
    with pytest.raises(ValueRangeError, match="elements per byte"):
        read_pickle(b"(" + fields + objects + b"l.")
    text = b"X" + (1 << 16).to_bytes(4, "little") + b"x" * (1 << 16) + b"q\0"
    calls = b"".join(b"c_codecs\nencode\n(h\0Vlatin1\ntR" for _ in range(20_000))
    with pytest.raises(ValueRangeError, match="elements per byte"):
        read_pickle(b"(" + text + calls + b"l.")


@pytest.mark.parametrize(
    "data",
    [b"cos\nsystem\n(S'false'\ntR.", b"Pid\n.", b"NQ.", b"\x82\1.", b"S'a'\n.", b"\x97.", b"2."],
)
def test_other_opcodes_are_refused(data: bytes) -> None:
    with pytest.raises(UndecodableStateError):
        read_pickle(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"N",
        b"NN.",
        b"N.N",
        b"(.",
        b"\x80\x06N.",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
        b"X\xff\xff\xff\xff.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8c\1\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"I1_0\n.",
        b"Inan\n.",
        b"F0x1\n.",
        b"L" + b"9" * 5000 + b"L\n.",
        b"V\\ud8\n.",
        b"I1",
        b"h\0.",
        b"q\0.",
        b"(q\0.",
        b"e.",
        b"a.",
        b"Na.",
        b"NNa.",
        b"(Nd.",
        b"(Nu.",
        b"](Nu.",
        b"](NNu.",
        b"1.",
        b"0.",
        b"\x87.",
    ],
)
def test_what_cpython_does_not_write(data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        read_pickle(data)


def test_values_without_end() -> None:
    inside_itself: list[Any] = []
    inside_itself.append(inside_itself)
    with pytest.raises(ValueRangeError, match="contains itself"):
        read_pickle(pickle.dumps(inside_itself))
    laughs = b"]q\0"
    for level in range(60):
        laughs += b"]q" + bytes([level + 1]) + b"(h" + bytes([level]) + b"h" + bytes([level]) + b"e"
    data = b"(" + laughs + b"l."
    assert values_of(decode_pickled_or_binary(pa.array([data]))) == [data]


def test_columns() -> None:
    column = pa.array([pickle.dumps({"a": 1}), b"no pickle", pickle.dumps("x")], pa.binary())
    assert values_of(decode_pickled_or_binary(column)) == [{"a": 1}, b"no pickle", "x"]


def values_of(variants: pa.Array) -> list[Any]:
    return [VariantUtils.to_python(row["value"], row["metadata"]) for row in variants.to_pylist()]


def framed(*values: Any) -> bytes:
    """Values as PyFlink's coder writes them: a length and a pickle each."""
    pickles = [pickle.dumps(value) for value in values]
    return b"".join(len(data).to_bytes(4, "big") + data for data in pickles)


def test_pyflinks_values_are_decoded_and_other_bytes_stay() -> None:
    rows = [
        (framed({"a": [1, "x", None]}), {"a": [1, "x", None]}),
        (framed(1, 2), [1, 2]),
        (pickle.dumps("plain"), "plain"),
        (None, None),
        (b"\0\0\0\1", b"\0\0\0\1"),
        (framed(datetime.date(2024, 1, 1)), datetime.date(2024, 1, 1)),
        (framed(5)[:-1], framed(5)[:-1]),
    ]
    found = decode_pyflink(pa.array([data for data, _ in rows], pa.binary())).to_pylist()
    for (_, expected), variant in zip(rows, found, strict=True):
        value = None if variant is None else VariantUtils.to_python(variant["value"], variant["metadata"])
        assert value == expected


def test_the_option_turns_bytes_of_states_into_variants() -> None:
    serializer = BytesSerializer(BYTES, 3)
    data = framed((1, 2.5))
    at = Cursors.over([len(data).to_bytes(4, "big") + data], options=DecodeOptions(pickle=True))
    (variant,) = serializer.decode(at).to_pylist()
    assert VariantUtils.to_python(variant["value"], variant["metadata"]) == [1, 2.5]
    assert serializer.arrow_type(DecodeOptions()) == pa.binary()


def test_values_that_share_their_parts_do_not_grow_without_bound() -> None:
    value: list[Any] = ["a"]
    for _ in range(18):
        value = [value, value]
    data = pickle.dumps(value, 4)
    assert len(data) < 200
    assert len(decode_pickled_or_binary(pa.array([data])).field(0)[0].as_py()) > 1 << 20
    tracemalloc.start()
    with pytest.raises(ValueRangeError, match="times as large as their source"):
        decode_pickled_or_binary(pa.array([data] * 1000))
    assert tracemalloc.get_traced_memory()[1] < 256 << 20
    tracemalloc.stop()
    framed = len(data).to_bytes(4, "big") + data
    with pytest.raises(ValueRangeError, match="times as large as their source"):
        decode_pyflink(pa.array([framed] * 1000))
