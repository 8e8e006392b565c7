"""The modules that register Flink's own serializers: the registry imports them when it is first asked."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "arrays",
    "avro",
    "bigs",
    "blobs",
    "cep",
    "collections",
    "constants",
    "enums",
    "generic",
    "kryo",
    "local_time",
    "pojo",
    "primitives",
    "row",
    "rowdata",
    "runtime",
    "stream_element",
    "strings",
    "table_data",
    "table_wrappers",
    "temporal",
    "ttl",
    "tuples",
    "windows",
    "wrappers",
)


def load() -> None:
    """Import every family, so that each class registers itself."""
    for family in FAMILIES:
        import_module(f"pyspark_savepoint.formats.serializers.{family}")
