"""Checks of the four properties of every serializer, and of columns from and to bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.basic.kinds import kind_of_word
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.serializers.registry import read_serializer

BASE = "org.apache.flink.api.common.typeutils.base."


def simple(name: str) -> TypeSerializer:
    """A serializer without parameters, by its snapshot class."""
    return read_serializer(bytes(3) + b"\2" + len(name).to_bytes(2, "big") + name.encode() + bytes(3) + b"\3")


def kind(word: str, *nested: TypeSerializer) -> TypeSerializer:
    """A type of a kind, by its word in the notation."""
    row = kind_of_word(word)
    assert row is not None, word
    return row.of(*nested)


def base(stem: str) -> TypeSerializer:
    """One of ``org.apache.flink.api.common.typeutils.base``."""
    return simple(f"{BASE}{stem}Serializer${stem.rsplit('.', 1)[-1]}SerializerSnapshot")


def read_and_written_again(snapshot: bytes) -> TypeSerializer:
    """Read a snapshot, and check that it is written byte for byte."""
    serializer = read_serializer(snapshot)
    again = DataOutputView()
    write_enveloped(serializer, again)
    assert again.getvalue() == snapshot
    return serializer


def decode(serializer: TypeSerializer, *values: bytes, **options: Any) -> pa.Array:
    """A column from one value a row, each read to its last byte."""
    at = Cursors.over(values, options=DecodeOptions(**options))
    column = serializer.decode(at)
    at.expect_end()
    column.validate(full=True)
    assert column.type == serializer.arrow_type(DecodeOptions(**options))
    assert len(column) == len(values)
    return column


def encode(serializer: TypeSerializer, column: pa.Array) -> list[bytes]:
    """The bytes of every row."""
    sizes = serializer.sizes(column)
    ends = np.cumsum(sizes)
    at = Cursors(np.full(int(sizes.sum()), 0xAA, np.uint8), ends - sizes, ends)
    serializer.encode(column, at)
    at.expect_end()
    data = at.buffer.tobytes()
    return [data[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def check_value(serializer: TypeSerializer, data: bytes, expected: Any, **options: Any) -> None:
    """A value reads as expected, is written as it was, can be delimited, and is not read when cut off."""
    column = decode(serializer, data, **options)
    assert column.to_pylist() == [expected]
    assert encode(serializer, column) == [data]
    at = Cursors.over([data + b"\x05\x05"])
    skip_rows(serializer, at)
    assert at.position[0] == len(data)
    check_prefixes(serializer, data, **options)


def check_prefixes(serializer: TypeSerializer, data: bytes, **options: Any) -> None:
    """Every proper prefix of a value is refused, by reading and by delimiting."""
    for size in range(len(data)):
        with pytest.raises(CorruptStateError):
            serializer.decode(Cursors.over([data[:size]], options=DecodeOptions(**options)))
        with pytest.raises(CorruptStateError):
            skip_rows(serializer, Cursors.over([data[:size]]))


def check_column(serializer: TypeSerializer, column: pa.Array, **options: Any) -> list[bytes]:
    """Check that a written column, and a written slice of it, reads as the column."""
    assert column.type == serializer.arrow_type(DecodeOptions(**options))
    values = encode(serializer, column)
    assert decode(serializer, *values, **options).equals(column)
    middle = slice(len(column) // 3, 2 * len(column) // 3)
    assert encode(serializer, column[middle]) == values[middle]
    # The same rows behind one another, as fields of other values see them.
    at = Cursors.over(values, options=DecodeOptions(**options))
    at.end[:] = len(at.buffer)
    assert serializer.decode(at).equals(column)
    return values


def check_resources(flink_resources: Path, stem: str, expected: Any, releases: int, **options: Any) -> TypeSerializer:
    """All fixtures of a serializer hold the value; snapshots and values are re-written byte for byte."""
    folders = sorted(
        folder for folder in (flink_resources / "serializers").iterdir() if folder.name.rsplit("-", 1)[0] == stem
    )
    assert len(folders) >= releases
    for folder in folders:
        snapshot = (folder / "serializer-snapshot").read_bytes()
        serializer = read_serializer(snapshot, str(folder))
        view = DataOutputView()
        write_enveloped(serializer, view)
        assert view.getvalue() == snapshot
        check_value(serializer, (folder / "test-data").read_bytes(), expected, **options)
    return serializer
