"""Values that write themselves: known classes are columns, unknown ones opaque, Java objects are delimited."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.layout import decode_elements
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.formats.serializers.runtime.generic import COPYABLE, RUNTIME, WRITABLE
from tests.formats.serializers.codec_checks import (
    check_column,
    check_prefixes,
    check_value,
    decode,
    read_and_written_again,
    simple,
)

VALUE = f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot"
JAVA = "org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot"


def generic(snapshot: str, type_class: str) -> TypeSerializer:
    view = DataOutputView()
    view.write_i32(2)
    view.write_utf(snapshot)
    view.write_i32(2)
    view.write_utf(type_class)
    return read_and_written_again(view.getvalue())


@pytest.mark.parametrize(
    ("stem", "flink_type"),
    [
        ("value", f"VALUE<{RUNTIME}ValueSerializerUpgradeTest$NameValue>"),
        ("copyable-value", f"VALUE<{RUNTIME}CopyableSerializerUpgradeTest$SimpleCopyable>"),
        ("writeable", f"WRITABLE<{RUNTIME}WritableSerializerUpgradeTest$WritableName>"),
    ],
)
def test_classes_that_are_not_known(flink_resources: Path, stem: str, flink_type: str) -> None:
    folders = list((flink_resources / "serializers").glob(f"{stem}-serializer-*"))
    assert len(folders) == 5
    for folder in folders:
        snapshot = (folder / "serializer-snapshot").read_bytes()
        serializer = read_serializer(snapshot)
        assert serializer.flink_type == flink_type
        assert serializer.opaque_parts() == [serializer]
        with pytest.raises(UndecodableStateError):
            serializer.decode(Cursors.over([(folder / "test-data").read_bytes()]))
        view = DataOutputView()
        write_enveloped(serializer, view)
        assert view.getvalue() == snapshot


# Bytes, lengths and hashes from Flink 1.16.3 and 2.3.0.
@pytest.mark.parametrize(
    ("snapshot", "stem", "data", "value", "length", "java_hash"),
    [
        (VALUE, "Int", "00000005", 5, -1, 5),
        (VALUE, "String", "0268e901", "h\u00e9", -1, 3457),
        (VALUE, "Null", "00", None, -1, 53),
        (COPYABLE, "Long", "0000010000000000", 2**40, 8, 299),
        (COPYABLE, "Boolean", "01", True, 1, 1),
        (COPYABLE, "Char", "00e9", "\u00e9", 2, 233),
        (COPYABLE, "Null", "00", None, 1, 53),
    ],
)
def test_values_of_flink(snapshot: str, stem: str, data: str, value: object, length: int, java_hash: int) -> None:
    serializer = generic(snapshot, f"org.apache.flink.types.{stem}Value")
    assert (serializer.length, serializer.opaque_parts()) == (length, [])
    assert serializer.flink_type == f"VALUE<org.apache.flink.types.{stem}Value>"
    check_value(serializer, bytes.fromhex(data), value)
    assert serializer.java_hash(decode(serializer, bytes.fromhex(data))).tolist() == [java_hash]


@pytest.mark.parametrize(
    ("stem", "data", "value"),
    [
        ("IntWritable", "fffffffe", -2),
        ("LongWritable", "0000000000000007", 7),
        ("BooleanWritable", "01", True),
        ("DoubleWritable", "3ff0000000000000", 1.0),
        ("BytesWritable", "000000020102", b"\1\2"),
        ("NullWritable", "", None),
        ("Text", "00", ""),
        ("Text", "0368c3a9", "h\u00e9"),
    ],
)
def test_writables_of_hadoop(stem: str, data: str, value: object) -> None:
    serializer = generic(WRITABLE, f"org.apache.hadoop.io.{stem}")
    assert (serializer.length, serializer.opaque_parts()) == (-1, [])
    check_value(serializer, bytes.fromhex(data), value)
    with pytest.raises(UndecodableStateError):
        serializer.java_hash(decode(serializer, bytes.fromhex(data)))


def test_texts_of_hadoop() -> None:
    serializer = generic(WRITABLE, "org.apache.hadoop.io.Text")
    for length, head in ((127, "7f"), (128, "8f80"), (255, "8fff"), (256, "8e0100"), (70000, "8d011170")):
        value = bytes.fromhex(head) + b"x" * length
        assert decode(serializer, value).to_pylist() == ["x" * length]
    written = check_column(serializer, pa.array(["\u00e9" * (i * 7 % 300) for i in range(500)]))
    assert decode_elements(serializer, Cursors.over([b"".join(written)]), pa.array([500]).to_numpy()).equals(
        decode(serializer, *written)
    )
    check_prefixes(serializer, bytes.fromhex("8e0100") + b"x" * 256)
    for damaged in ("ff", "87ff", "01ff", "808000000000000000", "88" + "7f" * 8):
        with pytest.raises(CorruptStateError):
            decode(serializer, b"\1a", bytes.fromhex(damaged))
    with pytest.raises(ValueRangeError, match="cannot be null"):
        serializer.sizes(pa.array([None], pa.string()))


def test_java_objects(flink_resources: Path) -> None:
    folders = list((flink_resources / "serializers").glob("java-serializer-*"))
    assert len(folders) == 5
    for folder in folders:
        serializer = read_serializer((folder / "serializer-snapshot").read_bytes())
        assert serializer.opaque_parts() == [serializer]
        data = (folder / "test-data").read_bytes()
        check_value(serializer, data, data)
        check_column(serializer, pa.array([data] * 20))
        several = decode_elements(serializer, Cursors.over([data * 3]), pa.array([3]).to_numpy())
        assert several.to_pylist() == [data] * 3
    with pytest.raises(ValueRangeError, match="JAVA cannot be null"):
        simple(JAVA).sizes(pa.array([None], pa.binary()))


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(values: list[bytes]) -> None:
    for serializer in (generic(WRITABLE, "org.apache.hadoop.io.Text"), simple(JAVA)):
        try:
            column = serializer.decode(Cursors.over(values))
        except CorruptStateError:
            continue
        column.validate(full=True)
