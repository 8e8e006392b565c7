"""Java object streams: those of real snapshots to the last byte, small ones by hand, hostile ones refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.java_stream import (
    MAX_LINEAGE,
    JavaArray,
    JavaEnum,
    JavaObject,
    ObjectStreamClass,
    parse_java_object,
    skip_java_object,
)
from tests.data import every_metadata

HEADER = bytes.fromhex("aced0005")


def utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def described(name: str, flags: int = 2, fields: bytes = b"\0\0", superclass: bytes = b"\x70") -> bytes:
    return b"\x72" + utf(name) + bytes(8) + bytes([flags]) + fields + b"\x78" + superclass


def parse(content: bytes) -> object:
    view = DataInputView(HEADER + content)
    value = parse_java_object(view)
    view.expect_end("the stream")
    return value


def refuse(content: bytes) -> None:
    with pytest.raises(CorruptStateError):
        parse_java_object(DataInputView(HEADER + content))


def streams(path: Path) -> list[bytes]:
    """Every stream in a file, found by its header."""
    data, found, at = path.read_bytes(), [], 0
    while (at := data.find(HEADER, at)) >= 0:
        view = DataInputView(data[at:], str(path))
        found.append(skip_java_object(view))
        at += len(found[-1])
    return found


def test_properties_of_all_snapshots() -> None:
    count = 0
    for path in every_metadata():
        data = path.read_bytes()
        if int.from_bytes(data[4:8], "big") < 4:
            continue
        properties = streams(path)[-1]
        assert data.endswith(properties), path
        value = parse_java_object(DataInputView(properties))
        assert isinstance(value, JavaObject)
        assert value.class_name == "org.apache.flink.runtime.checkpoint.CheckpointProperties"
        assert {"forced", "discardSubsumed", "checkpointType"} & value.fields.keys()
        count += 1
    assert count > 100


def test_values_of_java_serializer(flink_resources: Path) -> None:
    paths = sorted(flink_resources.glob("serializers/java-serializer-*/test-data"))
    assert paths
    for path in paths:
        (stream,) = streams(path)
        value = parse_java_object(DataInputView(stream))
        assert isinstance(value, JavaObject)
        assert value.class_name == "java.lang.Integer"
        assert value.fields == {"value": 26}


def test_every_prefix_is_refused(corpus: Path) -> None:
    path = corpus / "sql/over-aggregate-lag-1.20/_metadata"
    for stream in {stream for stream in streams(path) if len(stream) < 4000}:
        for length in range(len(stream)):
            with pytest.raises(CorruptStateError):
                parse_java_object(DataInputView(stream[:length]))


def test_small_contents() -> None:
    assert parse(b"\x70") is None
    assert parse(b"\x74" + utf("a")) == "a"
    assert parse(b"\x7c" + (2).to_bytes(8, "big") + b"\xc0\x80") == "\0"
    color = parse(b"\x7e" + described("Color", 0x12) + b"\x74" + utf("RED"))
    assert isinstance(color, JavaEnum)
    assert (color.class_name, color.constant) == ("Color", "RED")
    numbers = parse(b"\x75" + described("[I") + bytes.fromhex("00000002 00000001 ffffffff"))
    assert isinstance(numbers, JavaArray)
    assert numbers.elements == [1, -1]
    kind = parse(b"\x76" + described("X", 0))
    assert isinstance(kind, ObjectStreamClass)
    assert kind.class_name == "X"
    proxy = parse(b"\x73\x7d" + bytes.fromhex("00000001") + utf("I") + b"\x78\x70")
    assert isinstance(proxy, JavaObject)
    assert proxy.class_name == "proxy(I)"


def test_superclass_data_comes_first_and_annotations_are_kept() -> None:
    top = described("Top", 2, b"\0\1" + b"I" + utf("a"))
    bottom = described("Bottom", 3, b"\0\2" + b"Z" + utf("b") + b"L" + utf("c") + b"\x74" + utf("LX;"), top)
    value = parse(b"\x73" + bottom + bytes.fromhex("00000007 01 70") + bytes.fromhex("7702beef 71007e0001 78"))
    assert isinstance(value, JavaObject)
    assert value.fields == {"a": 7, "b": True, "c": None}
    assert value.annotations == [b"\xbe\xef", "LX;"]


def test_externalizable_is_its_block_data() -> None:
    value = parse(b"\x73" + described("E", 0x0C) + bytes.fromhex("7701aa 7a00000001bb 78"))
    assert isinstance(value, JavaObject)
    assert value.annotations == [b"\xaa", b"\xbb"]
    refuse(b"\x73" + described("E", 0x04) + b"\x78")


def test_object_that_holds_itself() -> None:
    node = described("Node", 2, b"\0\1" + b"L" + utf("next") + b"\x74" + utf("LNode;"))
    value = parse(b"\x73" + node + bytes.fromhex("71007e0002"))
    assert isinstance(value, JavaObject)
    assert value.fields["next"] is value
    assert repr(value) == "JavaObject(class_name='Node')"


def test_references_are_shared_not_copied() -> None:
    # Each array holds the next one twice: as a tree it would have 2**60 leaves.
    data = b"\x70"
    for level in reversed(range(60)):
        again = b"\x71" + (0x7E0000 + 2 * level + 3).to_bytes(4, "big") if level < 59 else b"\x70"
        data = b"\x75" + described("[L") + bytes.fromhex("00000002") + data + again
    value = parse(data)
    for _ in range(59):
        assert isinstance(value, JavaArray)
        assert value.elements[0] is value.elements[1]
        value = value.elements[0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x6f",
        b"\x78",
        b"\x79",
        b"\x7b",
        b"\x7701",
        bytes.fromhex("71007e0000"),
        bytes.fromhex("7100000000"),
        b"\x73\x70",
        b"\x73\x74" + utf("X"),
        b"\x73" + described("X", 6),
        b"\x73" + described("X", 0),
        b"\x73" + described("X", 0x12),
        b"\x7e" + described("X", 2) + b"\x74" + utf("A"),
        b"\x7e" + described("X", 0x12) + b"\x70",
        b"\x75" + described("X") + bytes(4),
        b"\x75" + described("[Q") + bytes(4),
        b"\x75" + described("[J") + bytes.fromhex("7fffffff"),
        b"\x75" + described("[L") + bytes.fromhex("ffffffff"),
        b"\x7c" + bytes.fromhex("7fffffffffffffff"),
        b"\x7c" + (2).to_bytes(8, "big") + b"\xff\xff",
        b"\x73" + described("X", 2, b"\0\1" + b"Q" + utf("a")),
        b"\x73" + described("X", 2, superclass=bytes.fromhex("71007e0000")),
        b"\x7e" + described("X", 0x12) + bytes.fromhex("71007e0001"),
    ],
)
def test_refused(content: bytes) -> None:
    refuse(content)


def test_depth_and_lineage_are_bounded() -> None:
    array = described("[L") + bytes.fromhex("00000001")
    refuse((b"\x75" + array) * 5000)
    superclass = b"\x70"
    for _ in range(MAX_LINEAGE + 2):
        superclass = described("S", 2, superclass=superclass)
    refuse(b"\x73" + superclass)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 2**32))
def test_mutations_never_escape(tail: bytes, seed: int) -> None:
    """Random bytes, and a sound object with one byte changed: a value or a CorruptStateError, nothing else."""
    node = described("Node", 3, b"\0\2" + b"L" + utf("next") + b"\x74" + utf("LNode;") + b"I" + utf("n"))
    sound = bytearray(b"\x73" + node + bytes.fromhex("71007e0002 00000001 7702aabb 78"))
    sound[seed % len(sound)] = seed >> 16 & 0xFF
    for content in (tail, bytes(sound)):
        view = DataInputView(HEADER + content)
        with suppress(CorruptStateError):
            parse_java_object(view)
        assert 0 <= view.position <= view.end
