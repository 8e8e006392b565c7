"""Serializers of values in views of aggregates (DISTINCT, MIN and MAX with retraction), made from their types.

Flink keeps the entries of such a view in a map state, whose keys and values are SQL's internal data, each described by
a Java object: a class to which values are converted, and a logical type. Flink: ``ExternalSerializer``,
``DataViewUtils``, ``LogicalTypeUtils#toInternalConversionClass``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.sql.internal import (
    counts_data_type_stream,
    data_type_stream,
    internal_serializer,
)
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.formats.serializers.sql.table_data import ExternalSerializer

EXTERNAL = "org.apache.flink.table.runtime.typeutils.ExternalSerializer$ExternalSerializerSnapshot"
DATA = "org.apache.flink.table.data."
#: The class of SQL's internal data, by type root.
CONVERSION_CLASSES: Mapping[str, str] = {
    "CHAR": DATA + "StringData",
    "VARCHAR": DATA + "StringData",
    "DECIMAL": DATA + "DecimalData",
    "TIMESTAMP_WITHOUT_TIME_ZONE": DATA + "TimestampData",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": DATA + "TimestampData",
    "BOOLEAN": "java.lang.Boolean",
    "TINYINT": "java.lang.Byte",
    "SMALLINT": "java.lang.Short",
    "INTEGER": "java.lang.Integer",
    "DATE": "java.lang.Integer",
    "TIME_WITHOUT_TIME_ZONE": "java.lang.Integer",
    "BIGINT": "java.lang.Long",
    "FLOAT": "java.lang.Float",
    "DOUBLE": "java.lang.Double",
}


#: What several calls of DISTINCT have counted of a value.
COUNTS = LogicalType("ARRAY", children=(LogicalType("BIGINT", nullable=False),))


def external_serializer(kind: LogicalType) -> ExternalSerializer:
    """Return the serializer of values of a type in a view; raise UnsupportedStateError for types with parts.

    >>> external_serializer(LogicalType("BIGINT", nullable=False)).flink_type
    'LONG'
    """
    if kind == COUNTS:
        return ExternalSerializer(EXTERNAL, 3, 1, (internal_serializer(kind),), data_type=counts_data_type_stream(kind))
    name = CONVERSION_CLASSES.get(kind.root)
    if name is None:
        raise UnsupportedStateError(
            f"the serializer of {kind} in a view of an aggregate cannot be created from the type alone",
            remedy="leave the aggregate out, or let the new query cast its argument to a simple type",
        )
    stream = data_type_stream(kind, name)
    return ExternalSerializer(EXTERNAL, 3, 1, (internal_serializer(kind),), data_type=stream)
