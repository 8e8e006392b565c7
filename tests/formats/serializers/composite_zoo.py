"""Snapshots and values that real Flink wrote of composite serializers, with `getLength` and `hashCode`.

One JSON object a line in `composite_zoo.jsonl`: name, version of Flink, length, snapshot, values, and hashes where
Java defines them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.registry import read_serializer
from tests.formats.serializers.codec_checks import check_value, decode, encode


@cache
def _zoo() -> dict[str, dict[str, Any]]:
    lines = Path(__file__).with_suffix(".jsonl").read_text().splitlines()
    return {animal["name"]: animal for animal in map(json.loads, lines)}


def values_of(name: str) -> tuple[TypeSerializer, list[bytes]]:
    """A serializer and its values."""
    animal = _zoo()[name]
    return read_serializer(bytes.fromhex(animal["snapshot"])), [bytes.fromhex(value) for value in animal["values"]]


def check_zoo(name: str, flink_type: str, expected: list[Any], **options: Any) -> TypeSerializer:
    """Check that a serializer and its values are read as Flink reads them, and written to Flink's bytes."""
    animal = _zoo()[name]
    serializer, values = values_of(name)
    view = DataOutputView()
    write_enveloped(serializer, view)
    assert view.getvalue().hex() == animal["snapshot"]
    assert serializer.flink_type == flink_type
    assert serializer.length == animal["length"]
    for value, wanted in zip(values, expected, strict=True):
        check_value(serializer, value, wanted, **options)
    column = decode(serializer, *values, **options)
    assert encode(serializer, column) == values
    if "hashes" in animal:
        assert serializer.java_hash(column).tolist() == animal["hashes"]
    return serializer
