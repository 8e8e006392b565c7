"""The classes of the JDK and of libraries that Kryo writes field by field, each in one row.

All else follows from a row: how values are read and written in both versions of Kryo, whether they are preceded by
their class, their column, and their value in VARIANT. ``times.py`` and ``bodies.py`` have those of these classes that
Kryo 5 writes in another way.

    a row with ``column``                              that type: the value of the field ``shown``
    a row whose fields are numbers, booleans, strings  STRUCT of the fields
    other rows, also those with ``shown``              VARIANT
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

UTIL, LANG, TIME = "java.util.", "java.lang.", "java.time."
TUPLE = "org.apache.flink.api.java.tuple.Tuple"


@dataclass(frozen=True)
class FieldClass:
    """A class whose objects Kryo writes field by field."""

    #: Names and types as class files have them, without static and transient fields; T, K and V are type parameters.
    fields: str = ""
    #: Whether no class extends it. Of libraries, the job's class files tell, if they are given.
    final: bool = False
    #: Whether it has no objects of its own; so it may be the type of a state or field that has those of other classes.
    abstract: bool = False
    #: The field whose value is shown for an object, "" to show null. Objects without it are shown with all fields.
    shown: str | None = None
    #: The type of the column of that field.
    column: pa.DataType | None = None

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The names of the fields and their types."""
        return tuple((name, kind) for name, _, kind in (each.partition(":") for each in sorted(self.fields.split())))


_DATE, _CLOCK, _DATE_TIME = "Ljava/time/LocalDate;", "Ljava/time/LocalTime;", "Ljava/time/LocalDateTime;"
_OFFSET, _ZONE = "Ljava/time/ZoneOffset;", "Ljava/time/ZoneId;"
_TEXT, _ATOMIC = "Ljava/lang/String;", UTIL + "concurrent.atomic.Atomic"
_PAIR = "Ljava/util/concurrent/atomic/Atomic"


def _json_nodes(package: str) -> dict[str, FieldClass]:
    """Return the nodes of Jackson in a package: their values are those of the JSON."""
    node, factory = f"{package}.JsonNode", f"{package}.node.JsonNodeFactory"
    descriptor = f"L{node};".replace(".", "/")
    factory_field = f"_nodeFactory:L{factory};".replace(".", "/")
    children = {
        "ObjectNode": f"_children:Ljava/util/Map<{_TEXT}{descriptor}>; {factory_field}",
        "ArrayNode": f"_children:Ljava/util/List<{descriptor}>; {factory_field}",
    }
    numbers = {"Short": "S", "Int": "I", "Long": "J", "Float": "F", "Double": "D"}
    values = {
        **{f"{name}Node": kind for name, kind in numbers.items()},
        **{f"{name}Node": f"Ljava/math/Big{name.removeprefix('Big')};" for name in ("BigInteger", "Decimal")},
        "TextNode": _TEXT,
        "BooleanNode": "Z",
        "POJONode": "Ljava/lang/Object;",
    }
    above = [f"{package}.node.{name}Node" for name in ("BaseJson", "Container", "Value", "Numeric")]
    return {
        **{name: FieldClass(abstract=True) for name in (node, *above)},
        factory: FieldClass("_cfgBigDecimalExact:Z"),
        **{f"{package}.node.{name}": FieldClass(fields, shown="_children") for name, fields in children.items()},
        **{f"{package}.node.{name}": FieldClass(f"_value:{kind}", shown="_value") for name, kind in values.items()},
        f"{package}.node.BinaryNode": FieldClass("_data:[B", shown="_data"),
        f"{package}.node.NullNode": FieldClass(shown=""),
        f"{package}.node.MissingNode": FieldClass(final=True, shown=""),
    }


_LANG3 = "org.apache.commons.lang3."
_JACKSON = "com.fasterxml.jackson.databind"
#: All of them.
FIELD_CLASSES: Mapping[str, FieldClass] = {
    TIME + "LocalDate": FieldClass("day:S month:S year:I", final=True),
    TIME + "LocalTime": FieldClass("hour:B minute:B nano:I second:B", final=True),
    TIME + "LocalDateTime": FieldClass(f"date:{_DATE} time:{_CLOCK}", final=True),
    TIME + "Instant": FieldClass("nanos:I seconds:J", final=True),
    TIME + "Duration": FieldClass("nanos:I seconds:J", final=True),
    TIME + "Period": FieldClass("days:I months:I years:I", final=True),
    TIME + "ZonedDateTime": FieldClass(f"dateTime:{_DATE_TIME} offset:{_OFFSET} zone:{_ZONE}", final=True),
    TIME + "OffsetDateTime": FieldClass(f"dateTime:{_DATE_TIME} offset:{_OFFSET}", final=True),
    TIME + "OffsetTime": FieldClass(f"offset:{_OFFSET} time:{_CLOCK}", final=True),
    TIME + "Year": FieldClass("year:I", final=True),
    TIME + "YearMonth": FieldClass("month:I year:I", final=True),
    TIME + "MonthDay": FieldClass("day:I month:I", final=True),
    TIME + "ZoneOffset": FieldClass("totalSeconds:I", final=True),
    TIME + "ZoneRegion": FieldClass(f"id:{_TEXT}", final=True),
    UTIL + "Optional": FieldClass("value:TT;", final=True, shown="value"),
    UTIL + "OptionalInt": FieldClass("isPresent:Z value:I", final=True),
    UTIL + "OptionalLong": FieldClass("isPresent:Z value:J", final=True),
    UTIL + "OptionalDouble": FieldClass("isPresent:Z value:D", final=True),
    _ATOMIC + "Long": FieldClass("value:J", shown="value", column=pa.int64()),
    _ATOMIC + "Integer": FieldClass("value:I", shown="value", column=pa.int32()),
    _ATOMIC + "Boolean": FieldClass("value:I", shown="value", column=pa.bool_()),
    _ATOMIC + "Reference": FieldClass("value:TT;", shown="value"),
    _ATOMIC + "LongArray": FieldClass("array:[J", shown="array"),
    _ATOMIC + "IntegerArray": FieldClass("array:[I", shown="array"),
    _ATOMIC + "ReferenceArray": FieldClass("array:[Ljava/lang/Object;"),
    _ATOMIC + "StampedReference": FieldClass(f"pair:{_PAIR}StampedReference$Pair;"),
    _ATOMIC + "StampedReference$Pair": FieldClass("reference:TT; stamp:I"),
    _ATOMIC + "MarkableReference": FieldClass(f"pair:{_PAIR}MarkableReference$Pair;"),
    _ATOMIC + "MarkableReference$Pair": FieldClass("mark:Z reference:TT;"),
    UTIL + "AbstractMap$SimpleEntry": FieldClass("key:TK; value:TV;"),
    UTIL + "AbstractMap$SimpleImmutableEntry": FieldClass("key:TK; value:TV;"),
    UTIL + "KeyValueHolder": FieldClass("key:TK; value:TV;", final=True),
    UTIL + "Random": FieldClass(
        "haveNextNextGaussian:Z nextNextGaussian:D seed:Ljava/util/concurrent/atomic/AtomicLong;"
    ),
    UTIL + "Collections$ReverseComparator": FieldClass(),
    LANG + "String$CaseInsensitiveComparator": FieldClass(),
    UTIL + "IntSummaryStatistics": FieldClass("count:J max:I min:I sum:J"),
    UTIL + "LongSummaryStatistics": FieldClass("count:J max:J min:J sum:J"),
    UTIL + "DoubleSummaryStatistics": FieldClass("count:J max:D min:D simpleSum:D sum:D sumCompensation:D"),
    # As Java 9 and newer have it.
    UTIL + "StringJoiner": FieldClass(
        f"delimiter:{_TEXT} elts:[{_TEXT} emptyValue:{_TEXT} len:I prefix:{_TEXT} size:I suffix:{_TEXT}", final=True
    ),
    # Their counts are transient: Kryo writes nothing of them.
    UTIL + "concurrent.atomic.LongAdder": FieldClass(),
    UTIL + "concurrent.atomic.DoubleAdder": FieldClass(),
    UTIL + "concurrent.atomic.LongAccumulator": FieldClass(
        "function:Ljava/util/function/LongBinaryOperator; identity:J"
    ),
    UTIL + "concurrent.atomic.DoubleAccumulator": FieldClass(
        "function:Ljava/util/function/DoubleBinaryOperator; identity:J"
    ),
    "java.awt.Point": FieldClass("x:I y:I"),
    "java.io.File": FieldClass(f"path:{_TEXT}", shown="path", column=pa.string()),
    "java.math.MathContext": FieldClass("precision:I roundingMode:Ljava/math/RoundingMode;", final=True),
    "scala.math.BigDecimal": FieldClass(
        "bigDecimal:Ljava/math/BigDecimal; computedHashCode:I mc:Ljava/math/MathContext;",
        final=True,
        shown="bigDecimal",
    ),
    "scala.math.BigInt": FieldClass("bigInteger:Ljava/math/BigInteger;", final=True, shown="bigInteger"),
    "org.apache.kafka.common.TopicPartition": FieldClass(f"hash:I partition:I topic:{_TEXT}", final=True),
    "java.net.URL": FieldClass(
        f"authority:{_TEXT} file:{_TEXT} hashCode:I host:{_TEXT} port:I protocol:{_TEXT} ref:{_TEXT}", final=True
    ),
    **{f"{TUPLE}{size}": FieldClass(" ".join(f"f{place}:TT{place};" for place in range(size))) for size in range(26)},
    **{_LANG3 + f"tuple.{name}": FieldClass(abstract=True) for name in ("Pair", "Triple")},
    **{_LANG3 + f"tuple.{name}Pair": FieldClass("left:TL; right:TR;") for name in ("Immutable", "Mutable")},
    **{
        _LANG3 + f"tuple.{name}Triple": FieldClass("left:TL; middle:TM; right:TR;") for name in ("Immutable", "Mutable")
    },
    _LANG3 + "mutable.MutableInt": FieldClass("value:I", shown="value", column=pa.int32()),
    _LANG3 + "mutable.MutableLong": FieldClass("value:J", shown="value", column=pa.int64()),
    _LANG3 + "mutable.MutableDouble": FieldClass("value:D", shown="value", column=pa.float64()),
    _LANG3 + "mutable.MutableBoolean": FieldClass("value:Z", shown="value", column=pa.bool_()),
    _LANG3 + "mutable.MutableObject": FieldClass("value:TT;", shown="value"),
    **_json_nodes(_JACKSON),
    **_json_nodes("org.apache.flink.shaded.jackson2." + _JACKSON),
}
