"""Patterns of keys: what Flink's own serializers write is among them, and the search finds each where it stands."""

from __future__ import annotations

import io
import random
import uuid
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.erasure.patterns import (
    PIECE,
    SHORTEST,
    Encoding,
    Patterns,
    Search,
    described,
    encodings_of,
    is_certain,
    modified_utf8,
)
from tests.formats.serializers.codec_checks import encode, simple

pytestmark = pytest.mark.many_sets

BASIC = "org.apache.flink.api.common.typeutils.base."


def of_serializer(name: str, value: object) -> bytes:
    """What the serializer of a basic type writes."""
    return encode(simple(f"{BASIC}{name}Serializer${name}SerializerSnapshot"), pa.array([value]))[0]


def patterns_of(value: object) -> dict[bytes, str]:
    """The patterns of a key, with the names of their encodings."""
    return {pattern: encoding.name for pattern, encoding in encodings_of(value)}


def hits(data: bytes, *values: object) -> set[tuple[str, bool]]:
    """The encodings in which keys are found in bytes, and whether they are certain."""
    patterns = Patterns()
    for value in values:
        patterns.add(encodings_of(value))
    return {(name, certain) for name, certain, _ in Search(patterns).count(np.frombuffer(data, np.uint8))}


@given(st.text(min_size=1))
def test_texts_have_the_bytes_of_flink(text: str) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        return
    assert of_serializer("String", text) in patterns_of(text)
    assert text.encode() in patterns_of(text)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_have_the_bytes_of_flink(number: int) -> None:
    assert of_serializer("Long", number) in patterns_of(number)
    if -(1 << 31) <= number < 1 << 31:
        assert encode(simple(f"{BASIC}IntSerializer$IntSerializerSnapshot"), pa.array([number], pa.int32()))[
            0
        ] in patterns_of(number)


def test_java_and_kryo_forms() -> None:
    assert modified_utf8("a\0\U0001f600").hex() == "61c080eda0bdedb880"
    assert patterns_of("alice")[b"alic\xe5"] == "Kryo ASCII"
    assert patterns_of("alice")[b"\x00\x05alice"] == "writeUTF"
    assert patterns_of("été")["été".encode("latin-1")] == "Latin-1"
    assert patterns_of(300)[b"\xac\x02"] == "variable-length"
    assert patterns_of(-1)[b"\x01"] == "variable-length zigzag"
    name = "123e4567-e89b-12d3-a456-426614174000"
    assert patterns_of(name)[uuid.UUID(name).bytes] == "UUID"
    assert uuid.UUID(name).bytes in patterns_of(uuid.UUID(name))


@pytest.mark.parametrize(
    ("data", "keys", "found"),
    [
        (b"user-1", ("user-1",), {("UTF-8", True)}),
        (b"user-10", ("user-1",), set()),
        (b"super_user-1", ("user-1",), set()),
        (b'{"id": "user-1"}', ("user-1",), {("UTF-8", True)}),
        (b"ab", ("a",), set()),
        (b"\x07user-10", ("user-1",), {("StringValue with its length", True)}),  # the length is that of user-1
        (b"\x08user-10", ("user-1",), set()),
        ("user-10".encode("utf-16-le"), ("user-1",), set()),
        ("user-1 ".encode("utf-16-le"), ("user-1",), {("UTF-16 little-endian", True)}),
        ("user-10".encode("utf-16-be"), ("user-1",), set()),
        (b"order 1042 of", (1042,), {("decimal text", False)}),
        (b"order 10421 of", (1042,), set()),
        ((1042).to_bytes(8, "big"), (1042,), {("4 bytes big-endian", False), ("8 bytes big-endian", False)}),
        ((1042).to_bytes(8, "big"), ("1042",), set()),
    ],
)
def test_keys_that_look_alike_are_not_confused(data: bytes, keys: tuple[object, ...], found: set[object]) -> None:
    assert hits(data, *keys) == found


def test_short_patterns_are_counted_and_not_searched() -> None:
    patterns = Patterns()
    patterns.add(encodings_of("a"))
    assert all(len(pattern) >= SHORTEST for pattern in patterns.encodings)
    assert patterns.too_short["UTF-8"] == 1
    assert not is_certain(bytes(20))


@given(st.lists(st.binary(min_size=SHORTEST, max_size=12), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_search_finds_what_a_naive_one_finds(texts: list[bytes], chance: random.Random) -> None:
    patterns = Patterns()
    patterns.add((text, Encoding(text.hex())) for text in texts)
    data = b"".join(chance.choice([*texts, b"\0", b"\xff", chance.randbytes(3)]) for _ in range(200))

    found = {name: count for (name, _, _), count in Search(patterns).count(np.frombuffer(data, np.uint8)).items()}

    naive = Counter({text.hex(): sum(data.startswith(text, at) for at in range(len(data))) for text in texts})
    assert found == dict(+naive)


def test_hits_across_pieces_are_found_once() -> None:
    patterns = Patterns()
    patterns.add([(b"a pattern of the person", Encoding("text"))])
    out = io.BytesIO(bytes(3 * PIECE))
    for place in (0, PIECE - 5, 2 * PIECE - 1, 3 * PIECE - 23):
        out.seek(place)
        out.write(b"a pattern of the person")
    data = np.frombuffer(out.getvalue(), np.uint8)

    assert described(Search(patterns).count(data)) == [{"encoding": "text", "bytes": 23, "hits": 4, "certain": True}]
    assert sum(Search(patterns).count(data, 0, PIECE - 5).values()) == 1
    assert not Search(Patterns()).count(data)


@pytest.mark.parametrize("form", ["customer-{}", "{}@example.org", "tenant/{}/user"])
def test_keys_that_have_much_in_common_are_found_by_windows_of_their_own(form: str) -> None:
    patterns = Patterns()
    for number in range(1000, 3000):
        patterns.add(encodings_of(form.format(number)))

    # Else each place where one of the keys stands would be compared with all of them.
    assert max(windows.count.max() for windows in Search(patterns)._windows) < 100
