"""Snapshots, values and types of SQL state that Flink 2.2.1 wrote (bitmaps, sorted longs: 2.3.0).

``sql_zoo.jsonl`` has two kinds of lines: a type (as Flink prints it) with its Java object stream, and a serializer
with its snapshot, ``getLength()``, values and hash codes (of rows as the serializer writes them).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.registry import read_serializer

ZOO = Path(__file__).with_name("sql_zoo.jsonl")


@dataclass(frozen=True)
class Exhibit:
    """A serializer, and values as Flink wrote them."""

    serializer: TypeSerializer
    snapshot: bytes
    length: int
    values: list[bytes]
    hashes: list[int]


@cache
def types() -> dict[str, bytes]:
    """Java object streams of logical types, by notation."""
    lines = map(json.loads, ZOO.read_text().splitlines())
    return {line["type"]: bytes.fromhex(line["jos"]) for line in lines if "type" in line}


@cache
def exhibits() -> dict[str, Exhibit]:
    """Serializers by name; their snapshots are re-written byte for byte."""
    found = {}
    for line in map(json.loads, ZOO.read_text().splitlines()):
        if "name" not in line:
            continue
        snapshot = bytes.fromhex(line["snapshot"])
        serializer = read_serializer(snapshot)
        view = DataOutputView()
        write_enveloped(serializer, view)
        assert view.getvalue() == snapshot, line["name"]
        values = [bytes.fromhex(value) for value in line["values"]]
        found[line["name"]] = Exhibit(serializer, snapshot, line.get("length", -1), values, line["hashes"])
    return found
