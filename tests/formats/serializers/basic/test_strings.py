"""Strings and characters against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Origin
from pyspark_savepoint.formats.errors import CorruptStateError, ValueRangeError
from pyspark_savepoint.formats.java import string_hash
from pyspark_savepoint.formats.serializers.basic.strings import column_text, java_text
from tests.formats.serializers.codec_checks import (
    base,
    check_column,
    check_prefixes,
    check_resources,
    check_value,
    decode,
    encode,
)

DIGITS = "123456789012345678901234567890123456"
TEXTS = [
    "",
    "a",
    "ASCII of more than eight",
    "h\u00e9\U0001f600",
    "\0",
    "\u6f22\u5b57\u304b\u306a",
    "\uffff",
    "x" * 300,
]


@pytest.mark.parametrize(
    ("stem", "expected", "flink_type", "length"),
    [
        ("string", DIGITS, "STRING", -1),
        ("string-value", DIGITS, "STRING_VALUE", -1),
        ("char", "\uffff", "CHAR", 2),
        ("char-value", "*", "CHAR_VALUE", 2),
    ],
)
def test_values_of_real_flink(flink_resources: Path, stem: str, expected: str, flink_type: str, length: int) -> None:
    serializer = check_resources(flink_resources, f"{stem}-serializer", expected, 5)
    assert serializer.flink_type == flink_type
    assert serializer.length == length


@pytest.mark.parametrize(
    ("stem", "data", "expected"),
    [
        ("String", "00", None),
        ("String", "01", ""),
        ("String", "0568e901bdb00380bc03", "h\u00e9\U0001f600"),
        ("String", "0200", "\0"),
        ("StringValue", "00", ""),
        ("StringValue", "0468e901bdb00380bc03", "h\u00e9\U0001f600"),
        ("Char", "6f22", "\u6f22"),
        ("Char", "0000", "\0"),
        ("CharValue", "00e9", "\u00e9"),
    ],
)
def test_bytes(stem: str, data: str, expected: str | None) -> None:
    check_value(base(stem), bytes.fromhex(data), expected)


def test_columns() -> None:
    strings = pa.array([(TEXTS * 100)[i] if i % 7 else None for i in range(500)])
    check_column(base("String"), strings)
    check_column(base("StringValue"), strings.fill_null("null"))
    characters = pa.array([chr(i * 131 % 0xD800) for i in range(500)])
    check_column(base("Char"), characters)


@given(st.lists(st.one_of(st.none(), st.text()), max_size=20))
@settings(max_examples=50, deadline=None)
def test_any_text(texts: list[str | None]) -> None:
    check_column(base("String"), pa.array(texts, pa.string()))


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=4), st.sampled_from(["String", "StringValue", "Char"]))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(values: list[bytes], stem: str) -> None:
    try:
        column = base(stem).decode(Cursors.over(values))
    except (CorruptStateError, ValueRangeError):
        return
    column.validate(full=True)


def test_nulls_under_which_text_stands() -> None:
    column = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"abc")]
    )
    assert encode(base("String"), column) == [b"\0", b"\x02c"]


def test_hashes() -> None:
    column = pa.array([*TEXTS, None])
    expected = [*map(string_hash, TEXTS), 0]
    assert base("String").java_hash(column).tolist() == expected
    assert base("StringValue").java_hash(pa.array(["h\u00e9\U0001f600"])).tolist() == [5095076]
    assert base("Char").java_hash(pa.array(["\uffff", "a"])).tolist() == [65535, 97]


@pytest.mark.parametrize(("stem", "data"), [("String", "0480bc03bdb00361"), ("String", "02bdb003"), ("Char", "dc00")])
def test_half_a_surrogate_pair_is_refused(stem: str, data: str) -> None:
    with pytest.raises(ValueRangeError, match="half of a surrogate pair") as caught:
        decode(base(stem), bytes.fromhex("0100") if stem == "Char" else b"\x01", bytes.fromhex(data), text="error")
    assert 'option("raw", "<state>")' in str(caught.value)
    assert caught.value.facts["offset"] == (2 if stem == "Char" else 1)


#: Texts in Java, and as columns have them: lone surrogates, pairs of two wrong ones, and the escape itself, which is
#: shown as it is where nothing after it could be taken for its digits.
LONE = {
    "a\ud83d": "a\U0010ffffd83d",
    "\udc00\ud800b": "\U0010ffffdc00\U0010ffffd800b",
    "\ud83d\ud83d\ude00": "\U0010ffffd83d\U0001f600",
    "\U0010ffff": "\U0010ffff",
    "\U0010ffff" * 30: "\U0010ffff" * 30,
    "\U0010ffff\ud83d": "\U0010ffff\U0010ffffd83d",
    "\U0010ffff\U0010ffffd83dx": "\U0010ffff\U0010ffffffffd83dx",
    "\U0010ffffd83d": "\U0010ffffffffd83d",
    "\U0010ffffffff": "\U0010ffffffffffff",
    "a\U0010ffffd7ff\U0010ffffD83D\U0010ffffd83": "a\U0010ffffd7ff\U0010ffffD83D\U0010ffffd83",
    "\ud83d" * 50: "\U0010ffffd83d" * 50,
}


def java_bytes(text: str, extra: int) -> bytes:
    """Return a string as Flink writes it."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H").tolist()
    data = bytearray()
    for number in [len(units) + extra, *units]:
        while number >= 0x80:
            data.append(number & 0x7F | 0x80)
            number >>= 7
        data.append(number)
    return bytes(data)


@pytest.mark.parametrize(("stem", "extra"), [("String", 1), ("StringValue", 0)])
def test_half_a_surrogate_pair_is_escaped_and_written_back(stem: str, extra: int) -> None:
    data = [java_bytes(text, extra) for text in ("plain", *LONE)]
    column = decode(base(stem), *data)
    assert column.to_pylist() == ["plain", *LONE.values()]
    assert encode(base(stem), column) == data
    assert base(stem).java_hash(column).tolist() == [string_hash(text) for text in ("plain", *LONE)]
    assert decode(base(stem), data[1], data[3], text="replace").to_pylist() == ["a\ufffd", "\ufffd\U0001f600"]


def test_half_a_surrogate_pair_is_a_character() -> None:
    column = decode(base("Char"), bytes.fromhex("0041"), bytes.fromhex("dc00"))
    assert column.to_pylist() == ["A", "\U0010ffffdc00"]
    assert encode(base("Char"), column) == [bytes.fromhex("0041"), bytes.fromhex("dc00")]


#: Code units of which a text and what escapes are made.
UNITS = st.text(st.sampled_from(["\U0010ffff", "\ud83d", "\ude00", "d", "8", "3", "f", "x"]), max_size=24)


@given(st.lists(UNITS, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_every_java_string_is_a_text_of_its_own(texts: list[str]) -> None:
    data = [java_bytes(text, 1) for text in texts]
    column = decode(base("String"), *data)
    assert encode(base("String"), column) == data
    joined = [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") for text in texts]
    assert column.to_pylist() == [column_text(text) for text in joined]
    assert [java_text(text) for text in column.to_pylist()] == joined
    replaced = decode(base("String"), *data, text="replace")
    assert replaced.to_pylist() == [column_text(text, "replace") for text in joined]


def test_the_way_out_of_an_error_names_the_whole_state() -> None:
    at = Cursors.over([bytes.fromhex("0280b003")], origin=Origin(state="a.b"), options=DecodeOptions(text="error"))
    with pytest.raises(ValueRangeError, match=r'option\("raw", "a\.b"\)'), at.inside("field"):
        base("String").decode(at)


@pytest.mark.parametrize("data", ["8080808080", "ffffffffff7f", "02808004", "028080808001", "ffffffff0f41"])
def test_damaged_varints(data: str) -> None:
    with pytest.raises(CorruptStateError):
        decode(base("String"), bytes.fromhex(data))


def test_what_cannot_be_written() -> None:
    with pytest.raises(ValueRangeError, match="STRING_VALUE cannot be null"):
        base("StringValue").sizes(pa.array(["a", None]))
    with pytest.raises(ValueRangeError, match="CHAR cannot be null"):
        base("Char").sizes(pa.array([None], pa.string()))
    for text in ("", "ab", "\U0001f600"):
        with pytest.raises(ValueRangeError, match="one UTF-16 code unit"):
            encode(base("Char"), pa.array(["x", text]))
    torn = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xf0")]
    )
    with pytest.raises(ValueRangeError, match="not valid UTF-8"):
        base("String").sizes(torn)


def test_prefixes_of_long_strings() -> None:
    check_prefixes(base("String"), encode(base("String"), pa.array(["0123456789" + TEXTS[3] * 4]))[0])
