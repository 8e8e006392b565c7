"""List of the modules that register Flink's own serializers; the registry imports them until it finds one.

Modules that nearly every savepoint needs come first, and those of SQL, Avro, CEP and Kryo last, because importing takes
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

FAMILIES = (
    "basic.primitives",
    "basic.strings",
    "basic.constants",
    "basic.arrays",
    "basic.blobs",
    "composite.collections",
    "composite.pojo",
    "basic.enums",
    "composite.tuples",
    "composite.row",
    "composite.wrappers",
    "composite.flinkx",
    "runtime.ttl",
    "runtime.windows",
    "runtime.timers_and_sinks",
    "basic.temporal",
    "basic.local_time",
    "basic.java_math",
    "kryo.described.serializer",
    "runtime.stream_element",
    "runtime.generic",
    "sql.rowdata",
    "sql.table_data",
    "sql.table_wrappers",
    "avro.serializer",
    "runtime.cep",
)


def loaded() -> Iterator[str]:
    """Import the modules of ``FAMILIES`` one by one, which registers their classes; yield each name after that."""
    for family in FAMILIES:
        import_module(f"pyspark_savepoint.formats.serializers.{family}")
        yield family
