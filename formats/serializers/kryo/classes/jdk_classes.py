"""Classes of the JDK and Flink that Kryo writes field by field, and which classes of the JDK are final.

Jobs do not contain the class files of these. A class that is neither listed here nor in the job's class files cannot be
read, because it is not known whether it is final, which determines the bytes before its objects.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.class_files import JavaClass, JavaField
from pyspark_savepoint.formats.class_files.class_file import FINAL, PUBLIC
from pyspark_savepoint.formats.class_files.java_types import (
    OBJECT,
    ClassSignature,
    TypeVariable,
    parse_field_type,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import LANG, TIME, UTIL
from pyspark_savepoint.formats.serializers.kryo.kryo_types import ENUMS, FINALS, NOT_FINAL, TUPLE

_DATE, _CLOCK, _DATE_TIME = (
    f"L{name};".replace(".", "/") for name in (TIME + "LocalDate", TIME + "LocalTime", TIME + "LocalDateTime")
)
_OFFSET, _ZONE = "Ljava/time/ZoneOffset;", "Ljava/time/ZoneId;"
_TEXT, _ATOMIC = "Ljava/lang/String;", "java/util/concurrent/atomic/"
#: Fields by class; T, K and V are its type parameters.
_FIELDS: Mapping[str, str] = {
    TIME + "LocalDate": "day:S month:S year:I",
    TIME + "LocalTime": "hour:B minute:B nano:I second:B",
    TIME + "LocalDateTime": f"date:{_DATE} time:{_CLOCK}",
    TIME + "Instant": "nanos:I seconds:J",
    TIME + "Duration": "nanos:I seconds:J",
    TIME + "Period": "days:I months:I years:I",
    TIME + "ZonedDateTime": f"dateTime:{_DATE_TIME} offset:{_OFFSET} zone:{_ZONE}",
    TIME + "OffsetDateTime": f"dateTime:{_DATE_TIME} offset:{_OFFSET}",
    TIME + "OffsetTime": f"offset:{_OFFSET} time:{_CLOCK}",
    TIME + "Year": "year:I",
    TIME + "YearMonth": "month:I year:I",
    TIME + "MonthDay": "day:I month:I",
    TIME + "ZoneOffset": "totalSeconds:I",
    TIME + "ZoneRegion": f"id:{_TEXT}",
    UTIL + "Optional": "value:TT;",
    UTIL + "OptionalInt": "isPresent:Z value:I",
    UTIL + "OptionalLong": "isPresent:Z value:J",
    UTIL + "OptionalDouble": "isPresent:Z value:D",
    UTIL + "concurrent.atomic.AtomicLong": "value:J",
    UTIL + "concurrent.atomic.AtomicInteger": "value:I",
    UTIL + "concurrent.atomic.AtomicBoolean": "value:I",
    UTIL + "concurrent.atomic.AtomicReference": "value:TT;",
    UTIL + "AbstractMap$SimpleEntry": "key:TK; value:TV;",
    UTIL + "AbstractMap$SimpleImmutableEntry": "key:TK; value:TV;",
    UTIL + "Random": "haveNextNextGaussian:Z nextNextGaussian:D seed:Ljava/util/concurrent/atomic/AtomicLong;",
    UTIL + "Collections$ReverseComparator": "",
    LANG + "String$CaseInsensitiveComparator": "",
    UTIL + "concurrent.atomic.AtomicLongArray": "array:[J",
    UTIL + "concurrent.atomic.AtomicIntegerArray": "array:[I",
    UTIL + "concurrent.atomic.AtomicReferenceArray": "array:[Ljava/lang/Object;",
    **{
        UTIL + f"concurrent.atomic.Atomic{kind}Reference": f"pair:L{_ATOMIC}Atomic{kind}Reference$Pair;"
        for kind in ("Stamped", "Markable")
    },
    UTIL + "concurrent.atomic.AtomicStampedReference$Pair": "reference:TT; stamp:I",
    UTIL + "concurrent.atomic.AtomicMarkableReference$Pair": "mark:Z reference:TT;",
    UTIL + "KeyValueHolder": "key:TK; value:TV;",
    UTIL + "IntSummaryStatistics": "count:J max:I min:I sum:J",
    UTIL + "LongSummaryStatistics": "count:J max:J min:J sum:J",
    UTIL + "DoubleSummaryStatistics": "count:J max:D min:D simpleSum:D sum:D sumCompensation:D",
    # As Java 9 and newer have it.
    UTIL + "StringJoiner": (
        f"delimiter:{_TEXT} elts:[{_TEXT} emptyValue:{_TEXT} len:I prefix:{_TEXT} size:I suffix:{_TEXT}"
    ),
    # Their counts are transient: Kryo writes nothing of them.
    **dict.fromkeys((UTIL + f"concurrent.atomic.{kind}Adder" for kind in ("Long", "Double")), ""),
    UTIL + "concurrent.atomic.LongAccumulator": "function:Ljava/util/function/LongBinaryOperator; identity:J",
    UTIL + "concurrent.atomic.DoubleAccumulator": "function:Ljava/util/function/DoubleBinaryOperator; identity:J",
    "java.io.File": f"path:{_TEXT}",
    "java.math.MathContext": "precision:I roundingMode:Ljava/math/RoundingMode;",
    "scala.math.BigDecimal": "bigDecimal:Ljava/math/BigDecimal; computedHashCode:I mc:Ljava/math/MathContext;",
    "scala.math.BigInt": "bigInteger:Ljava/math/BigInteger;",
    "java.net.URL": f"authority:{_TEXT} file:{_TEXT} hashCode:I host:{_TEXT} port:I protocol:{_TEXT} ref:{_TEXT}",
    **{f"{TUPLE}{size}": " ".join(f"f{place}:TT{place};" for place in range(size)) for size in range(26)},
}
FINAL_CLASSES = (
    FINALS
    | {LANG + "Class", LANG + "StackTraceElement", "java.net.URL", "java.net.Inet4Address"}
    | {"java.net.Inet6Address", UTIL + "concurrent.TimeUnit", TIME + "temporal.ChronoUnit"}
    | {UTIL + "KeyValueHolder", UTIL + "StringJoiner"}
    | {TIME + "temporal.ChronoField", "java.math.MathContext", "scala.math.BigDecimal", "scala.math.BigInt"}
)
ENUM_CLASSES = ENUMS.keys() | {TIME + "temporal.ChronoUnit", TIME + "temporal.ChronoField"}
#: Interfaces and classes that are not final, in addition to those that Kryo's serializers write.
_OPEN_CLASSES = frozenset(
    [
        *(LANG + name for name in ("Object", "Number", "CharSequence", "Comparable", "Iterable", "Runnable")),
        *(LANG + name for name in ("Enum", "Throwable", "Exception", "RuntimeException", "Error", "Record")),
        *(UTIL + name for name in ("Iterator", "ListIterator", "Comparator", "Random", "TimeZone", "Calendar")),
        *(
            UTIL + name
            for name in ("GregorianCalendar", "Dictionary", "Properties", "EnumMap", "EnumSet", "EventObject")
        ),
        *(UTIL + name for name in ("concurrent.BlockingQueue", "concurrent.BlockingDeque", "concurrent.Callable")),
        *(UTIL + name for name in ("concurrent.ConcurrentNavigableMap", "AbstractSequentialList", "RandomAccess")),
        *("java.io.Serializable", "java.lang.Cloneable", "java.nio.charset.Charset"),
        *("java.text.DateFormat", "java.text.SimpleDateFormat", "java.net.InetAddress", "java.net.SocketAddress"),
        *("java.net.InetSocketAddress", "java.nio.ByteBuffer", "java.nio.file.Path"),
        *(TIME + name for name in ("ZoneId", "temporal.TemporalAccessor", "temporal.TemporalUnit")),
        *(
            TIME + name
            for name in ("chrono.ChronoLocalDate", "chrono.ChronoZonedDateTime", "chrono.ChronoLocalDateTime")
        ),
        *("java.sql.Date", "java.sql.Time", "java.sql.Timestamp", "java.math.BigInteger", "java.math.BigDecimal"),
        *(TUPLE, *(f"{TUPLE}{size}" for size in range(26))),
    ]
)


def is_final_class(name: str) -> bool | None:
    """Return whether a class of the JDK or of Flink is final; None if the class is not known here."""
    if name in FINAL_CLASSES:
        return True
    known = name in _OPEN_CLASSES or name in NOT_FINAL or name in _FIELDS or name.startswith(UTIL + "function.")
    return False if known else None


def field_class(name: str) -> JavaClass | None:
    """Return a class of the JDK or of Flink with the fields that Kryo writes."""
    described = _FIELDS.get(name)
    if described is None:
        return None
    fields, parameters = [], []
    for each in described.split():
        field, _, descriptor = each.partition(":")
        kind = parse_field_type(descriptor)
        if isinstance(kind, TypeVariable):
            parameters.append(kind.name)
        fields.append(JavaField(field, 0, kind, OBJECT if isinstance(kind, TypeVariable) else kind))
    flags = PUBLIC | (FINAL if name in FINAL_CLASSES else 0)
    return JavaClass(name, flags, ClassSignature(tuple(parameters), OBJECT, ()), OBJECT.name, tuple(fields), ())
