"""List of the modules that register Flink's own serializers; the registry imports them on first use."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "avro.serializer",
    "basic.arrays",
    "basic.java_math",
    "basic.blobs",
    "basic.constants",
    "basic.enums",
    "basic.local_time",
    "basic.primitives",
    "basic.strings",
    "basic.temporal",
    "composite.collections",
    "composite.pojo",
    "composite.row",
    "composite.tuples",
    "composite.wrappers",
    "kryo.serializer",
    "runtime.cep",
    "runtime.generic",
    "runtime.stream_element",
    "runtime.timers_and_sinks",
    "runtime.ttl",
    "runtime.windows",
    "sql.rowdata",
    "sql.table_data",
    "sql.table_wrappers",
)


def load() -> None:
    """Import every module of ``FAMILIES``, so that its classes register themselves."""
    for family in FAMILIES:
        import_module(f"pyspark_savepoint.formats.serializers.{family}")
