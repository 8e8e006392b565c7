"""What releases of Flink wrote with each of their serializers: every snapshot, every value, every byte."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.java_stream import JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from tests.formats.serializers.codec_checks import check_prefixes, decode, encode, read_and_written_again

#: As which type each serializer is shown, and by how many of the releases it was written.
SERIALIZERS: dict[str, tuple[str, int]] = {
    "arraylist-serializer": ("LIST<STRING>", 6),
    "big-dec-serializer": ("BIG_DECIMAL", 6),
    "big-int-serializer": ("BIG_INTEGER", 6),
    "boolean-primitive-array-serializer": ("PRIMITIVE_ARRAY<BOOLEAN>", 6),
    "boolean-serializer": ("BOOLEAN", 6),
    "boolean-value-serializer": ("BOOLEAN_VALUE", 6),
    "buffer-entry-serializer": ("BUFFER_ENTRY<STRING>", 6),
    "byte-primitive-array-serializer": ("PRIMITIVE_ARRAY<BYTE>", 6),
    "byte-serializer": ("BYTE", 6),
    "byte-value-array-serializer": ("VALUE_ARRAY<BYTE>", 1),
    "byte-value-serializer": ("BYTE_VALUE", 6),
    "char-primitive-array-serializer": ("PRIMITIVE_ARRAY<CHAR>", 6),
    "char-serializer": ("CHAR", 6),
    "char-value-array-serializer": ("VALUE_ARRAY<CHAR>", 1),
    "char-value-serializer": ("CHAR_VALUE", 6),
    "copyable-value-serializer": ("VALUE<oracle.Parcels$Rack>", 6),
    "date-serializer": ("DATE", 6),
    "dewey-number-serializer": ("DEWEY_NUMBER", 6),
    "double-primitive-array-serializer": ("PRIMITIVE_ARRAY<DOUBLE>", 6),
    "double-serializer": ("DOUBLE", 6),
    "double-value-array-serializer": ("VALUE_ARRAY<DOUBLE>", 1),
    "double-value-serializer": ("DOUBLE_VALUE", 6),
    "either-serializer": ("EITHER<STRING, LONG>", 6),
    "enum-serializer": ("ENUM<oracle.Parcels$Size>(SMALL, MEDIUM, LARGE, BULKY)", 6),
    "event-id-serializer": ("EVENT_ID", 6),
    "float-primitive-array-serializer": ("PRIMITIVE_ARRAY<FLOAT>", 6),
    "float-serializer": ("FLOAT", 6),
    "float-value-array-serializer": ("VALUE_ARRAY<FLOAT>", 1),
    "float-value-serializer": ("FLOAT_VALUE", 6),
    "generic-array-serializer": ("OBJECT_ARRAY<INT>", 6),
    "global-window-serializer": ("GLOBAL_WINDOW", 6),
    "instant-serializer": ("INSTANT", 6),
    "int-primitive-array-serializer": ("PRIMITIVE_ARRAY<INT>", 6),
    "int-serializer": ("INT", 6),
    "int-value-array-serializer": ("VALUE_ARRAY<INT>", 1),
    "int-value-serializer": ("INT_VALUE", 6),
    "java-serializer": ("JAVA", 6),
    "kryo-custom-type-serializer-changed-registration-order": ("KRYO<oracle.Parcels$Stamp>", 6),
    "kryo-serializer-of-a-uuid": ("KRYO<java.util.UUID>", 6),
    "kryo-type-serializer-changed-registration-order": ("KRYO<oracle.Parcels$Stamp>", 6),
    "kryo-type-serializer-unrelated-config-after-restore": ("KRYO<oracle.Parcels$Stamp>", 6),
    "linked-list-serializer": ("LINKED_LIST<LONG>", 5),
    "linked-list-serializer-with-nulls": ("LINKED_LIST<LONG>", 5),
    "list-serializer": ("LIST<STRING>", 6),
    "list-serializer-nested": ("LIST<LIST<TUPLE<LONG, LIST<STRING>>>>", 6),
    "list-serializer-of-pojos": (
        "LIST<POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, weight DOUBLE)>",
        6,
    ),
    "local-date-serializer": ("LOCAL_DATE", 6),
    "local-date-time-serializer": ("LOCAL_DATE_TIME", 6),
    "local-time-serializer": ("LOCAL_TIME", 6),
    "lockable-type-serializer": ("LOCKABLE<STRING>", 6),
    "long-primitive-array-serializer": ("PRIMITIVE_ARRAY<LONG>", 6),
    "long-serializer": ("LONG", 6),
    "long-value-array-serializer": ("VALUE_ARRAY<LONG>", 1),
    "long-value-serializer": ("LONG_VALUE", 6),
    "map-serializer": ("MAP<INT, STRING>", 6),
    "map-serializer-nested": ("MAP<STRING, MAP<LONG, TUPLE<LONG, LIST<STRING>>>>", 6),
    "node-id-serializer": ("NODE_ID", 6),
    "null-serializer": ("NULL", 6),
    "null-value-array-serializer": ("VALUE_ARRAY<NULL_VALUE>", 1),
    "null-value-serializer": ("NULL_VALUE", 6),
    "nullable-padded-serializer": ("NULLABLE<LONG>(PADDED)", 6),
    "nullable-serializer": ("NULLABLE<LONG>", 6),
    "nullable-serializer-nested": ("NULLABLE<TUPLE<LONG, LIST<STRING>>>", 6),
    "pojo-serializer-identical-schema": (
        "POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, weight DOUBLE)",
        6,
    ),
    "pojo-serializer-to-record": ("POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, weight DOUBLE)", 6),
    "pojo-serializer-with-different-field-types": (
        "POJO<oracle.Parcels$Everything>(floor INT, fragile BOOLEAN, item POJO<oracle.Parcels$Item>(id LONG, "
        "label STRING, pieces INT, weight DOUBLE), mark CHAR, names BASIC_ARRAY<STRING>, number LONG, price "
        "DOUBLE, sent BOOLEAN, shelf SHORT, size ENUM<oracle.Parcels$Size>(SMALL, MEDIUM, LARGE, BULKY), stops "
        "PRIMITIVE_ARRAY<INT>, volume FLOAT, zone BYTE)",
        6,
    ),
    "pojo-serializer-with-different-field-types-in-registered-subclass": (
        "POJO<oracle.Parcels$Box>(id INT, label STRING) REGISTERED(oracle.Parcels$Crate "
        "POJO<oracle.Parcels$Crate>(height DOUBLE, id INT, label STRING), oracle.Parcels$Letter "
        "POJO<oracle.Parcels$Letter>(id INT, inside POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, "
        "weight DOUBLE), label STRING, registered BOOLEAN))",
        6,
    ),
    "pojo-serializer-with-different-subclass-registration-order": (
        "POJO<oracle.Parcels$Box>(id INT, label STRING) REGISTERED(oracle.Parcels$Letter "
        "POJO<oracle.Parcels$Letter>(id INT, inside POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, "
        "weight DOUBLE), label STRING, registered BOOLEAN), oracle.Parcels$Crate "
        "POJO<oracle.Parcels$Crate>(height DOUBLE, id INT, label STRING))",
        6,
    ),
    "pojo-serializer-with-missing-registered-subclass": (
        "POJO<oracle.Parcels$Box>(id INT, label STRING) REGISTERED(oracle.Parcels$Crate "
        "POJO<oracle.Parcels$Crate>(height DOUBLE, id INT, label STRING))",
        6,
    ),
    "pojo-serializer-with-modified-schema": ("POJO<oracle.Parcels$Box>(id INT, label STRING)", 6),
    "pojo-serializer-with-modified-schema-in-registered-subclass": (
        "POJO<oracle.Parcels$Box>(id INT, label STRING) REGISTERED(oracle.Parcels$Letter "
        "POJO<oracle.Parcels$Letter>(id INT, inside POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, "
        "weight DOUBLE), label STRING, registered BOOLEAN))",
        6,
    ),
    "pojo-serializer-with-new-registered-subclass": (
        "POJO<oracle.Parcels$Box>(id INT, label STRING) REGISTERED(oracle.Parcels$Crate "
        "POJO<oracle.Parcels$Crate>(height DOUBLE, id INT, label STRING), oracle.Parcels$Letter "
        "POJO<oracle.Parcels$Letter>(id INT, inside POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, "
        "weight DOUBLE), label STRING, registered BOOLEAN)) SUBCLASSES(oracle.Parcels$Bag "
        "POJO<oracle.Parcels$Bag>(handles LONG, id INT, label STRING))",
        6,
    ),
    "row-serializer": ("ROW<LONG, STRING, BOOLEAN>", 6),
    "row-serializer-nested": ("ROW<TUPLE<LONG, LIST<STRING>>, MAP<STRING, LONG>, ROW<INT, STRING>>", 6),
    "row-serializer-of-pojos": (
        "ROW<POJO<oracle.Parcels$Item>(id LONG, label STRING, pieces INT, weight DOUBLE), "
        "ENUM<oracle.Parcels$Size>(SMALL, MEDIUM, LARGE, BULKY)>",
        6,
    ),
    "set-serializer": ("SET<LONG>", 1),
    "shared-buffer-edge-serializer": ("SHARED_BUFFER_EDGE", 6),
    "short-primitive-array-serializer": ("PRIMITIVE_ARRAY<SHORT>", 6),
    "short-serializer": ("SHORT", 6),
    "short-value-array-serializer": ("VALUE_ARRAY<SHORT>", 1),
    "short-value-serializer": ("SHORT_VALUE", 6),
    "sorted-map-serializer": ("SORTED_MAP<LONG, STRING>", 6),
    "sql-date-serializer": ("SQL_DATE", 6),
    "sql-time-serializer": ("SQL_TIME", 6),
    "sql-timestamp-serializer": ("SQL_TIMESTAMP", 6),
    "stream-element-serializer": ("STREAM_ELEMENT<STRING>", 6),
    "string-array-serializer": ("BASIC_ARRAY<STRING>", 6),
    "string-serializer": ("STRING", 6),
    "string-value-array-serializer": ("VALUE_ARRAY<STRING>", 1),
    "string-value-serializer": ("STRING_VALUE", 6),
    "table-count-window-serializer": ("COUNT_WINDOW", 6),
    "table-time-window-serializer": ("TABLE_TIME_WINDOW", 6),
    "time-window-serializer": ("TIME_WINDOW", 6),
    "timer-serializer": ("TIMER<STRING, LONG>", 6),
    "ttl-aware-serializer-string-value": ("STRING", 1),
    "ttl-serializer": ("TTL<STRING>", 6),
    "ttl-serializer-v2": ("TTL<STRING>", 1),
    "tuple-serializer": ("TUPLE<STRING, LONG, DOUBLE>", 6),
    "tuple-serializer-nested": ("TUPLE<EITHER<TUPLE<LONG, LIST<STRING>>, OBJECT_ARRAY<STRING>>, INT>", 6),
    "tuple0-serializer": ("TUPLE<>", 6),
    "two-phase-commit-serializer": ("TWO_PHASE_COMMIT<STRING, INT>", 6),
    "union-serializer-one": ("UNION<STRING, LONG>", 6),
    "value-serializer": ("VALUE<oracle.Parcels$Weight>", 6),
    "void-namespace-serializer": ("VOID_NAMESPACE", 6),
    "void-serializer": ("VOID", 6),
}


def written(corpus: Path, name: str) -> list[Path]:
    """The folders of a serializer, after a check of their number."""
    folders = [path for path in (corpus / "serializers").iterdir() if path.name.rpartition("-")[0] == name]
    assert len(folders) == SERIALIZERS[name][1]
    return sorted(folders)


def release_of(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, folder.name.rpartition("-")[2].split(".")))


def options_of(folder: Path) -> dict[str, Any]:
    """In full, so that what one release shows is comparable with what others do."""
    kryo = 5 if release_of(folder) >= (2, 0) else 2
    return {"timestamps": "raw", "decimals": "string", "ttl": True, "kryo": kryo}


def values_of(folder: Path) -> tuple[list[bytes], list[Any]]:
    """The values in bytes, and what is to be shown of each."""
    values = json.loads((folder / "values.json").read_text("ascii"))
    data = [bytes.fromhex(value) for value, _ in values]
    assert (folder / "test-data").read_bytes() == data[0]
    return data, [shown for _, shown in values]


def shown(value: Any) -> Any:
    """A value of a column as JSON has it."""
    match value:
        case bytes():
            return {"hex": value.hex()}
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: shown(each) for name, each in value.items()}
        case list() | tuple():
            return [shown(each) for each in value]
    return value


def test_every_serializer_is_listed(corpus: Path) -> None:
    assert {path.name.rpartition("-")[0] for path in (corpus / "serializers").iterdir()} == set(SERIALIZERS)


@pytest.mark.parametrize("name", SERIALIZERS)
def test_every_value_is_read_and_written_again(corpus: Path, name: str) -> None:
    for folder in written(corpus, name):
        serializer = read_and_written_again((folder / "serializer-snapshot").read_bytes())
        assert serializer.flink_type == SERIALIZERS[name][0]
        data, expected = values_of(folder)
        options = options_of(folder)
        if expected == [None] * len(data) and serializer.opaque_parts():
            check_opaque(serializer, data)
            continue
        column = decode(serializer, *data, **options)
        assert list(map(shown, column.to_pylist())) == expected, folder.name
        if name.startswith("kryo-"):
            continue  # objects of Kryo are written by other ways than columns
        assert encode(serializer, column) == data, folder.name
        for value in data:
            at = Cursors.over([value + b"\x05\x05"])
            skip_rows(serializer, at)
            assert at.position[0] == len(value)
            check_prefixes(serializer, value[:100] if len(value) > 100 else value, **options)


def check_opaque(serializer: TypeSerializer, data: list[bytes]) -> None:
    """Classes of the job are no columns, and nothing is guessed about them."""
    assert serializer.opaque_parts() == [serializer]
    assert serializer.arrow_type(DecodeOptions()) == pa.binary()
    with pytest.raises(UndecodableStateError):
        serializer.decode(Cursors.over(data))


def test_objects_of_java(corpus: Path) -> None:
    for folder in written(corpus, "java-serializer"):
        number, text, _ = (parse_java_object(DataInputView(value)) for value in values_of(folder)[0])
        assert isinstance(number, JavaObject)
        assert (number.class_name, number.fields, text) == ("java.lang.Integer", {"value": 4711}, "a text")
