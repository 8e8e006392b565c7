"""Java classes of the values of types: the snapshots of object arrays record the class of their elements."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.row import RowSerializer
from pyspark_savepoint.formats.serializers.composite.tuples import TupleSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import EitherSerializer, NullableSerializer

#: Java classes by the notation of their type.
CLASSES: Mapping[str, str] = {
    "BOOLEAN": "java.lang.Boolean",
    "BYTE": "java.lang.Byte",
    "SHORT": "java.lang.Short",
    "INT": "java.lang.Integer",
    "LONG": "java.lang.Long",
    "FLOAT": "java.lang.Float",
    "DOUBLE": "java.lang.Double",
    "CHAR": "java.lang.Character",
    "STRING": "java.lang.String",
    "VOID": "java.lang.Void",
    "BIG_INTEGER": "java.math.BigInteger",
    "BIG_DECIMAL": "java.math.BigDecimal",
    "DATE": "java.util.Date",
    "SQL_DATE": "java.sql.Date",
    "SQL_TIME": "java.sql.Time",
    "SQL_TIMESTAMP": "java.sql.Timestamp",
    "INSTANT": "java.time.Instant",
    "LOCAL_DATE": "java.time.LocalDate",
    "LOCAL_TIME": "java.time.LocalTime",
    "LOCAL_DATE_TIME": "java.time.LocalDateTime",
    "BASIC_ARRAY<STRING>": "[Ljava.lang.String;",
    "TIME_WINDOW": "org.apache.flink.streaming.api.windowing.windows.TimeWindow",
    **{
        f"PRIMITIVE_ARRAY<{name}>": f"[{code}"
        for name, code in zip(
            ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR"), "ZBSIJFDC", strict=True
        )
    },
    **{
        f"{name.upper()}_VALUE": f"org.apache.flink.types.{name}Value"
        for name in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "Char", "String", "Null")
    },
}


def java_class(serializer: TypeSerializer) -> str | None:
    """Return the class of the values, as ``Class.getName`` gives it; None where the type does not determine it.

    >>> from pyspark_savepoint.formats.serializers.notation.notation import parse_type
    >>> java_class(parse_type("OBJECT_ARRAY<LONG>"))
    '[Ljava.lang.Long;'
    """
    if isinstance(serializer, TupleSerializer | PojoSerializer):
        return serializer.class_name
    if type(serializer) is EnumSerializer:
        return serializer.enum_class
    if isinstance(serializer, NullableSerializer):
        return java_class(serializer.nested[0])
    if isinstance(serializer, GenericArraySerializer):
        return f"[L{serializer.component_class};"
    for kind, name in INTERFACES.items():
        if type(serializer) is kind:
            return name
    return CLASSES.get(serializer.flink_type)


INTERFACES: Mapping[type[TypeSerializer], str] = {
    ListSerializer: "java.util.List",
    MapSerializer: "java.util.Map",
    SetSerializer: "java.util.Set",
    RowSerializer: "org.apache.flink.types.Row",
    EitherSerializer: "org.apache.flink.types.Either",
}
