"""Values of Apache Beam's coders: examples of Beam's own ``standard_coders.yaml``, and snapshots that name coders."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_versioned
from pyspark_savepoint.formats.serializers.beam.serializer import CODERS, NAMESPACE, TYPES, WINDOWS, BeamSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, snapshot_reader
from tests.formats.serializers.codec_checks import decode, encode

LEGACY = f"{TYPES}CoderTypeSerializer$LegacySnapshot"
UTIL = "org.apache.beam.sdk.util.WindowedValue"
VARINT, VARLONG, TEXT, DATA, BOOLEAN = (f"{CODERS}{name}Coder" for name in (
    "VarInt", "VarLong", "StringUtf8", "ByteArray", "Boolean",
))  # fmt: skip
GLOBAL, INTERVAL = f"{WINDOWS}GlobalWindow$Coder", f"{WINDOWS}IntervalWindow$IntervalWindowCoder"

#: A coder: its class, and the coders in its fields.
Coder = tuple[str, dict[str, Any]]


def utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def java_object(coder: Coder) -> bytes:
    """Return an object of Java's serialization: class description, and objects in its fields."""
    name, fields = coder
    described = b"\x72" + utf(name) + bytes(8) + b"\x02" + len(fields).to_bytes(2, "big")
    for field in fields:
        described += b"L" + utf(field) + b"\x74" + utf("Lorg/apache/beam/sdk/coders/Coder;")
    return b"\x73" + described + b"\x78\x70" + b"".join(java_object(value) for value in fields.values())


def stream(coder: Coder) -> bytes:
    """Return the serializer of a coder as a Java object stream."""
    return b"\xac\xed\x00\x05" + java_object((f"{TYPES}CoderTypeSerializer", {"coder": coder}))


def i32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def plain(name: str) -> Coder:
    return name, {}


def of(name: str, *parts: Coder) -> Coder:
    names = {"Kv": ("keyCoder", "valueCoder"), "Map": ("keyCoder", "valueCoder"), "Nullable": ("valueCoder",)}
    names["LengthPrefix"] = ("valueCoder",)
    fields = dict(zip(names.get(name, ("elementCoder",)), parts, strict=True))
    return f"{CODERS}{name}Coder", fields


def windowed(value: Coder, window: Coder) -> Coder:
    return f"{UTIL}$FullWindowedValueCoder", {"valueCoder": value, "windowCoder": window}


def legacy(coder: Coder) -> TypeSerializer:
    """Return the serializer of a snapshot as Beam for Flink 1.13 writes it."""
    data = stream(coder)
    return read(LEGACY, 0x7A53C4F0, i32(1) + i32(len(data)) + data + i32(1))


def read(name: str, version: int, payload: bytes) -> TypeSerializer:
    view = DataOutputView()
    view.write_utf(name)
    view.write_i32(version)
    view.write(payload)
    data = view.getvalue()
    serializer = snapshot_reader(DataInputView(data)).versioned()
    again = DataOutputView()
    write_versioned(serializer, again)
    assert again.getvalue() == data
    return serializer


NO_FIRING = {"is_first": True, "is_last": True, "timing": "UNKNOWN", "index": 0, "on_time_index": 0}
EXAMPLES: list[tuple[Coder, str, Any]] = [
    (plain(DATA), "\x03abc", b"abc"),
    (plain(DATA), "\x04ab\0c", b"ab\0c"),
    (plain(BOOLEAN), "\0", False),
    (plain(BOOLEAN), "\x01", True),
    (plain(TEXT), "\x02\xc3\xbf", "\xff"),
    (plain(TEXT), "\x06\xe5\x85\x89\xe7\xba\xbf", "光线"),
    (plain(TEXT), "\xc8\x01" + "x" * 200, "x" * 200),
    (plain(VARLONG), "\0", 0),
    (plain(VARLONG), "\xc8\x01", 200),
    (plain(VARLONG), "\xa9\x46", 9001),
    (plain(VARLONG), "\xff" * 9 + "\x01", -1),
    (plain(VARINT), "\xff\xff\xff\xff\x0f", -1),
    (of("Kv", plain(DATA), plain(VARLONG)), "\x04ab\0c\x0a", {"key": b"ab\0c", "value": 10}),
    (of("Kv", plain(DATA), plain(DATA)), "\x03abc\x03def", {"key": b"abc", "value": b"def"}),
    (plain(INTERVAL), "\x80\0\x01\x52\x9a\xa4\x9b\x68\x80\xdd\xdb\x01", {"end": 1454293425000, "length": 3600000}),
    (plain(INTERVAL), "\x7f\xdf\x3b\x64\x5a\x1c\xad\x76\xed\x02", {"end": -9223372036854410, "length": 365}),
    (of("Iterable", plain(VARLONG)), "\0\0\0\x04\x01\n\xc8\x01\xe8\x07", [1, 10, 200, 1000]),
    (of("List", plain(BOOLEAN)), "\0\0\0\x02\x01\0", [True, False]),
    (of("Iterable", plain(DATA)), "\xff\xff\xff\xff\0", []),
    (of("Iterable", plain(DATA)), "\xff\xff\xff\xff\x02\x04ab\0c\x04de\0f\0", [b"ab\0c", b"de\0f"]),
    (of("Iterable", plain(GLOBAL)), "\0\0\0\x01", [None]),
    (of("Map", plain(TEXT), plain(VARINT)), "\0\0\0\x01\x01a\x05", [("a", 5)]),
    (of("LengthPrefix", plain(VARLONG)), "\x02\xc8\x01", 200),
    (of("Nullable", plain(TEXT)), "\0", None),
    (of("Nullable", plain(TEXT)), "\x01\x01a", "a"),
    (
        windowed(plain(VARLONG), plain(GLOBAL)),
        "\x80\0\x01R\x9a\xa4\x9bh\0\0\0\x01\x0f\x02",
        {"timestamp": 1454293425000, "windows": [None], "pane": NO_FIRING, "value": 2},
    ),
    (
        windowed(plain(VARLONG), plain(INTERVAL)),
        "\x80\0\0\0\0\0\x03\xe8\0\0\0\x01\x80\0\0\0\0\0\0\x14\n&\x1e(\x02",
        {
            "timestamp": 1000,
            "windows": [{"end": 20, "length": 10}],
            "pane": {"is_first": False, "is_last": True, "timing": "ON_TIME", "index": 30, "on_time_index": 40},
            "value": 2,
        },
    ),
]


@pytest.mark.parametrize(("coder", "data", "value"), EXAMPLES)
def test_examples_of_beam(coder: Coder, data: str, value: Any) -> None:
    column = decode(legacy(coder), data.encode("latin-1"))
    assert column.to_pylist() == [value]


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31 - 1, -(2**31), -1])
def test_numbers_are_written_as_they_are_read(number: int) -> None:
    for name, kind in ((VARINT, pa.int32()), (VARLONG, pa.int64())):
        serializer = legacy(plain(name))
        (data,) = encode(serializer, pa.array([number], kind))
        assert decode(serializer, data).to_pylist() == [number]


def test_forms_of_the_snapshot() -> None:
    data = stream(of("Kv", plain(TEXT), plain(VARINT)))
    packed = cramjam.snappy.compress_raw(data)
    xerial = b"\x82SNAPPY\0" + i32(1) + i32(1) + i32(len(packed)) + bytes(packed)
    for name, version, payload in (
        (LEGACY, 0, i32(len(data)) + data + i32(0x7A53C4F0)),
        (LEGACY, 2, i32(len(data)) + data),
        (LEGACY, 2, utf(base64.b64encode(data).decode())),
        (f"{TYPES}UnversionedTypeSerializerSnapshot", 1, i32(len(xerial)) + xerial),
        (f"{TYPES}compat.UnversionedTypeSerializerSnapshot", 1, i32(1) + i32(len(xerial)) + xerial),
    ):
        serializer = read(name, version, payload)
        assert serializer.flink_type == "STRUCT<key BEAM_STRING_UTF8, value BEAM_VARINT>"
    namespaces = read(NAMESPACE, 0, b"\xac\xed\x00\x05" + java_object(plain(GLOBAL)))
    assert decode(namespaces, b"\x02/").to_pylist() == ["/"]


def test_coders_that_are_not_known_are_bytes() -> None:
    serializer = legacy(of("Kv", plain(TEXT), plain("com.shop.OrderCoder")))
    assert isinstance(serializer, OpaqueSerializer)
    assert serializer.flink_type == "UNKNOWN<org.apache.beam.sdk.coders.KvCoder>"
    packed = b"\x82SNAPPY\0" + i32(1) + i32(1) + i32(5) + b"\xff\xff\xff\xff\x07"
    assert read(f"{TYPES}UnversionedTypeSerializerSnapshot", 1, i32(len(packed)) + packed).opaque


def test_text_that_is_not_base64_is_a_class_or_nothing() -> None:
    """``rO0AB`` begins each Java object in Base64; a class may have such a name."""
    assert read("com.shop.Snapshot", 2, utf("rO0AB")).flink_type == "UNKNOWN<rO0AB>"
    assert read("com.shop.Snapshot", 2, utf("rO0AB.Order")).flink_type == "UNKNOWN<rO0AB.Order>"


def test_coders_within_one_another_many_times_are_bytes() -> None:
    """A stream of a few kilobytes in which each pair has the next one twice: two to the 30th coders."""
    described = b"\x72" + utf(f"{CODERS}KvCoder") + bytes(8) + b"\x02" + b"\0\2"
    for field in ("keyCoder", "valueCoder"):
        described += b"L" + utf(field) + b"\x74" + utf("Lorg/apache/beam/sdk/coders/Coder;")
    pairs = 30
    # Handles: the serializer's class, a text, its object; the class of pairs, two texts; then the pairs.
    data = b"\xac\xed\0\5\x73\x72" + utf(f"{TYPES}CoderTypeSerializer") + bytes(8) + b"\x02\0\1L" + utf("coder")
    data += b"\x74" + utf("Lx;") + b"\x78\x70\x73" + described + b"\x78\x70"
    data += (b"\x73\x71" + i32(0x7E0003)) * (pairs - 1) + b"\x70\x70"
    data += b"".join(b"\x71" + i32(0x7E0006 + pair) for pair in range(pairs - 1, 0, -1))
    serializer = read(LEGACY, 2, i32(len(data)) + data)
    assert serializer.flink_type == f"UNKNOWN<{CODERS}KvCoder>"


@pytest.mark.parametrize("data", [b"\xff" * 10 + b"\x01", b"\xff" * 11, b"\x80"])
def test_damage_is_an_error(data: bytes) -> None:
    for name in (VARLONG, TEXT):
        serializer = legacy(plain(name))
        end = np.array([len(data)], np.int64)
        with pytest.raises(CorruptStateError):
            serializer.decode(Cursors(np.frombuffer(data, np.uint8).copy(), np.zeros(1, np.int64), end))


@pytest.mark.parametrize("data", [b"\x03\xc8\x01\x00", b"\x01\xc8\x01", b"\x05\x01", b"\xff\xff\xff\xff\x0f\x01"])
def test_a_value_has_as_many_bytes_as_its_prefix_says(data: bytes) -> None:
    serializer = legacy(of("LengthPrefix", plain(VARLONG)))
    end = np.array([len(data)], np.int64)
    with pytest.raises(CorruptStateError):
        serializer.decode(Cursors(np.frombuffer(data, np.uint8).copy(), np.zeros(1, np.int64), end))


def test_keys_are_found_by_the_hash_of_their_buffer(tmp_path: Path) -> None:
    key, value = legacy(plain("org.apache.beam.runners.flink.translation.wrappers.streaming.FlinkKeyUtils"
                              "$ByteBufferCoder")), legacy(plain(VARINT))  # fmt: skip
    assert isinstance(key, BeamSerializer)
    assert key.java_hash(pa.array([b"abc", b"", b"\xff"], pa.binary())).tolist() == [128065, 1, 30]
    keys = [f"key-{number}".encode() for number in range(50)]
    rows = pa.table({"key": pa.array(keys, pa.binary()), "count": pa.array(range(50), pa.int32())})
    types = {"key": "BEAM_BYTES", "count": "BEAM_VARINT"}
    created = pyspark_savepoint.create().with_operator("beam", rows, key="key", types=types, serializers=[key, value])
    new = created.write(tmp_path / "new")
    read_back = pyspark_savepoint.open(new.path or "")
    assert {row["key"]: row["count"] for row in read_back.keyed_state("beam").rows()} == dict(
        zip(keys, range(50), strict=True)
    )
    assert [row["status"] for row in read_back.inspect.verify().rows() if row["status"] != "ok"] == []
    left = read_back.remove_keys("beam", [b"key-7".hex()]).write(tmp_path / "left")
    assert len(list(left.keyed_state("beam").rows())) == 49


def test_lists_and_maps_of_an_operator(tmp_path: Path) -> None:
    buffer = "org.apache.beam.runners.flink.translation.wrappers.streaming.FlinkKeyUtils$ByteBufferCoder"
    key, bag, hold = legacy(plain(buffer)), legacy(plain(TEXT)), legacy(plain(f"{CODERS}InstantCoder"))
    given = [key, bag, hold]
    keys = pa.array([b"a", b"bc", b""], pa.binary())
    holds = pa.array([[("/", 5)], [], [("w", -1)]], pa.map_(pa.string(), pa.int64()))
    rows = pa.table({"key": keys, "bag": pa.array([["x", ""], ["y"], ["z" * 300]]), "watermark-holds": holds})
    types = {"key": "BEAM_BYTES", "bag": "LIST<BEAM_STRING_UTF8>", "watermark-holds": "MAP<STRING, BEAM_INSTANT>"}
    states = {"bag": "LIST", "watermark-holds": "MAP"}
    created = pyspark_savepoint.create().with_operator(
        "beam", rows, key="key", types=types, states=states, serializers=given
    )
    new = created.write(tmp_path / "new")
    found = {row["key"]: row for row in pyspark_savepoint.open(new.path or "").keyed_state("beam").rows()}
    assert found[b"a"]["bag"] == ["x", ""]
    assert found[b""] == {"key": b"", "bag": ["z" * 300], "watermark-holds": [("w", -1)]}
