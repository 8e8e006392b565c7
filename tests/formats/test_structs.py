"""Structures of bytes: what is declared once is read and written in every version, and hostile bytes are refused."""

from __future__ import annotations

from enum import IntEnum

import pytest

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import (
    BLOB,
    BOOL,
    COLUMN_TEXT,
    I32,
    I64,
    U8,
    UTF,
    VERSION,
    Encoding,
    after,
    at_least,
    by_version,
    codes,
    constant,
    distinct,
    many,
    optional,
    row,
    sized,
)
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.structs import OneOf, Struct, of, part, struct


class Colour(IntEnum):
    RED = 1
    BLUE = 4


@struct
class Leaf(Struct):
    types = (1, 2)
    order = ("size", "name", "colour")
    name: str = part(UTF, "a name")
    size: int = part(at_least(I64, 0, "{} from 0 on"), "a size")
    colour: Colour | None = part(codes(Colour, U8), "a colour", since=2)


NODE: OneOf[Leaf | Branch] = OneOf("a node", lambda: (Leaf, Branch))


@struct
class Branch(Struct):
    types = (3,)
    children: tuple[Leaf | Branch, ...] = part(many(NODE), "children")


@struct
class Versions(Struct):
    version: int = part(VERSION)
    old: int = part(I32, "an old number", until=1, absent=7)
    both: bool = part(BOOL, "a flag")
    new: bytes | None = part(optional(BLOB), "a blob", since=2)
    more: str = part(by_version({1: UTF, 3: sized(UTF, "a sized text")}), "a text")


def read(encoding: Encoding[Leaf | Branch], data: str) -> Leaf | Branch:
    return encoding.read(DataInputView(bytes.fromhex(data), "file", 100), "")


LEAF = "01" + "0000000000000005" + "0001" + "61"


def test_order_and_type_bytes() -> None:
    assert read(NODE, LEAF) == Leaf("a", 5, None)
    blue = Leaf("a", 5, Colour.BLUE)
    assert read(NODE, "02" + LEAF[2:] + "04") == blue
    assert NODE.bytes(Branch((Leaf("a", 5, None), blue))).hex() == "03" + "00000002" + LEAF + "02" + LEAF[2:] + "04"
    assert NODE.optional.bytes(None) == b"\0"


@pytest.mark.parametrize(
    ("data", "offset", "expected", "found"),
    [
        ("00", 100, "a node", "none (type 0)"),
        ("09", 100, "a node: type 0 or one of [1, 2, 3]", 9),
        ("01" + "ff" * 8, 101, "a size from 0 on", -1),
        ("02" + LEAF[2:] + "02", 112, "a colour: one of [1, 4]", 2),
        ("01" + "00" * 8 + "0003" + "61", 111, "3 bytes of a name", "1 bytes until the end"),
        # Each child has at least a type byte and a count of children, so that two do not fit into nine bytes.
        ("03" + "00000002" + "00" * 9, 101, "a number of children from 0 to 1", 2),
        ("03" + "7fffffff", 101, "a number of children from 0 to 0", 2**31 - 1),
        (("03" + "00000001") * 40 + LEAF, 185, "handles nested at most 16 deep", None),
    ],
)
def test_errors_say_where_what_was_expected_and_found(data: str, offset: int, expected: str, found: object) -> None:
    with pytest.raises(CorruptStateError) as raised:
        read(NODE, data)
    facts = raised.value.facts
    assert (facts["path"], facts["offset"], facts["expected"], facts.get("found")) == ("file", offset, expected, found)


def test_versions_have_the_fields_that_they_declare() -> None:
    first, third = Versions(1, 9, True, None, "x"), Versions(3, 7, True, b"b", "x")
    assert of(Versions).at(1).bytes(first).hex() == "00000009" + "01" + "000178"
    assert of(Versions).at(3).bytes(third).hex() == "01" + "01" + "00000001" + "62" + "00000003" + "000178"
    for one in (first, third):
        encoding = of(Versions).at(one.version)
        assert encoding.read(DataInputView(encoding.bytes(one)), "") == one
    with pytest.raises(ValueError, match="version 1 cannot hold new"):
        of(Versions).at(1).bytes(third)
    with pytest.raises(ValueError, match="version 3 cannot hold old"):
        of(Versions).at(3).bytes(first)


def test_constants_and_distinct_values() -> None:
    encoding = after([constant(I32, 0x0BADCAFE, "a magic number")], distinct(many(UTF), str.lower, "each name once"))
    data = encoding.bytes(("a", "b"))
    assert encoding.read(DataInputView(data), "names") == ("a", "b")
    with pytest.raises(CorruptStateError, match="a magic number 0x0badcafe\n  found: 0x0badca00"):
        encoding.read(DataInputView(bytes.fromhex("0badca00") + data[4:]), "names")
    with pytest.raises(CorruptStateError, match="each name once\n  found: a"):
        encoding.read(DataInputView(encoding.bytes(("A", "b", "a"))), "names")


def test_tuples_of_numbers_and_of_others() -> None:
    numbers = row((I32, "a first number"), (I64, "a second number"))
    assert numbers.bytes((1, -1)).hex() == "00000001" + "ff" * 8
    assert numbers.read(DataInputView(numbers.bytes((1, -1))), "") == (1, -1)
    with pytest.raises(CorruptStateError, match="8 bytes of a second number\n  found: 7 bytes until the end"):
        numbers.read(DataInputView(bytes(11)), "")
    named = many(row((COLUMN_TEXT, "a name"), (I32, "a number")))
    assert named.read(DataInputView(named.bytes((("a", 1), ("b", 2)))), "names") == (("a", 1), ("b", 2))
    with pytest.raises(CorruptStateError, match="a name without lone surrogates"):
        named.read(DataInputView(named.bytes((("\ud800", 1),))), "names")


def test_a_sized_value_takes_all_of_its_bytes() -> None:
    with pytest.raises(CorruptStateError, match="the end of a text"):
        sized(UTF, "a text").read(DataInputView(bytes.fromhex("00000004" + "000178" + "00")), "")
