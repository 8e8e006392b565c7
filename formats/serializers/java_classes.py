"""Java classes of the values of a type, where it determines them; object arrays record the class of their elements."""

from __future__ import annotations

from collections.abc import Mapping

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
