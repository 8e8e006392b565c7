"""Classes of the JDK and of Flink that Flink's type extraction inspects; jobs do not contain their class files.

Flink 2.3 was run on every public class of the module ``java.base`` (17): apart from the basic types, only enums and
``java.util.TimeZone`` are not left to Kryo. Class files are required for other modules (``java.awt.Point`` is a POJO).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark_savepoint.formats.class_files import ClassType, JavaClass, JavaField, TypeVariable
from pyspark_savepoint.formats.class_files.class_file import ABSTRACT, ENUM, FINAL, PUBLIC, STATIC
from pyspark_savepoint.formats.class_files.java_types import OBJECT, ClassSignature, JavaType
from pyspark_savepoint.formats.json_text import number_of
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.names import SIMPLE

JAVA_OBJECT, JAVA_ENUM, JAVA_RECORD = "java.lang.Object", "java.lang.Enum", "java.lang.Record"
FLINK = "org.apache.flink."
TUPLE = f"{FLINK}api.java.tuple.Tuple"
EITHER = f"{FLINK}types.Either"
ROW = f"{FLINK}types.Row"
TIME_WINDOW = f"{FLINK}streaming.api.windowing.windows.TimeWindow"
VARIANT, BITMAP = f"{FLINK}types.variant.Variant", f"{FLINK}types.bitmap.Bitmap"
VALUE = f"{FLINK}types.Value"
WRITABLE = "org.apache.hadoop.io.Writable"
AVRO_RECORD = "org.apache.avro.specific.SpecificRecordBase"
TYPE_INFO = f"{FLINK}api.common.typeinfo.TypeInfo"

#: Boxed classes by the primitive type.
BOXES: Mapping[str, str] = {
    "boolean": "java.lang.Boolean",
    "byte": "java.lang.Byte",
    "char": "java.lang.Character",
    "double": "java.lang.Double",
    "float": "java.lang.Float",
    "int": "java.lang.Integer",
    "long": "java.lang.Long",
    "short": "java.lang.Short",
    "void": "java.lang.Void",
}
#: Classes with their own serializer in Flink: ``BasicTypeInfo``, ``SqlTimeTypeInfo``, ``ValueTypeInfo``.
BASIC: Mapping[str, TypeSerializer] = {
    **{
        name: SIMPLE[kind]
        for name, kind in (
            ("java.lang.Boolean", "BOOLEAN"),
            ("java.lang.Byte", "BYTE"),
            ("java.lang.Character", "CHAR"),
            ("java.lang.Double", "DOUBLE"),
            ("java.lang.Float", "FLOAT"),
            ("java.lang.Integer", "INT"),
            ("java.lang.Long", "LONG"),
            ("java.lang.Short", "SHORT"),
            ("java.lang.String", "STRING"),
            ("java.lang.Void", "VOID"),
            ("java.math.BigDecimal", "BIG_DECIMAL"),
            ("java.math.BigInteger", "BIG_INTEGER"),
            ("java.sql.Date", "SQL_DATE"),
            ("java.sql.Time", "SQL_TIME"),
            ("java.sql.Timestamp", "SQL_TIMESTAMP"),
            ("java.time.Instant", "INSTANT"),
            ("java.util.Date", "DATE"),
        )
    },
    **{
        f"{FLINK}types.{name}Value": SIMPLE[f"{name.upper()}_VALUE"]
        for name in ("Boolean", "Byte", "Char", "Double", "Float", "Int", "Long", "Null", "Short", "String")
    },
}
#: Interfaces that become lists since 2.0, and the class of the list.
LISTS = ("java.util.List", "java.util.Collection", "java.lang.Iterable")
MAP, SET = "java.util.Map", "java.util.Set"

#: Packages of ``java.base`` and ``java.sql`` with classes of values.
OF_JDK = (
    "java.io",
    "java.lang",
    "java.math",
    "java.net",
    "java.nio",
    "java.security",
    "java.sql",
    "java.text",
    "java.time",
    "java.util",
)
ENUMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(constants.split())
    for name, constants in (
        ("java.math.RoundingMode", "UP DOWN CEILING FLOOR HALF_UP HALF_DOWN HALF_EVEN UNNECESSARY"),
        ("java.time.DayOfWeek", "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"),
        (
            "java.time.Month",
            "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
        ),
        (
            "java.time.temporal.ChronoUnit",
            "NANOS MICROS MILLIS SECONDS MINUTES HOURS HALF_DAYS DAYS WEEKS MONTHS YEARS DECADES CENTURIES "
            "MILLENNIA ERAS FOREVER",
        ),
        ("java.util.concurrent.TimeUnit", "NANOSECONDS MICROSECONDS MILLISECONDS SECONDS MINUTES HOURS DAYS"),
    )
}
#: Enums of the JDK whose constants are not listed here.
OTHER_ENUMS = frozenset(
    (
        "java.lang.Character$UnicodeScript",
        "java.lang.Thread$State",
        "java.nio.file.AccessMode",
        "java.nio.file.LinkOption",
        "java.nio.file.StandardCopyOption",
        "java.nio.file.StandardOpenOption",
        "java.nio.file.attribute.PosixFilePermission",
        "java.time.chrono.IsoEra",
        "java.time.format.FormatStyle",
        "java.time.format.ResolverStyle",
        "java.time.format.SignStyle",
        "java.time.format.TextStyle",
        "java.time.temporal.ChronoField",
        "java.util.Locale$Category",
        "java.util.Locale$IsoCountryCode",
    )
)
#: Superclasses in the JDK and Flink without fields that Flink considers.
FIELDLESS = frozenset(
    (
        TUPLE,
        JAVA_OBJECT,
        JAVA_RECORD,
        "java.lang.Number",
        "java.util.AbstractCollection",
        "java.util.AbstractList",
        "java.util.AbstractMap",
        "java.util.AbstractQueue",
        "java.util.AbstractSequentialList",
        "java.util.AbstractSet",
        "java.util.EventObject",
    )
)
#: Superclasses with fields without setters, or with ``readObject``: their subclasses are not POJOs.
CLOSED = frozenset(
    (
        "java.io.IOException",
        "java.lang.Error",
        "java.lang.Exception",
        "java.lang.IllegalArgumentException",
        "java.lang.IllegalStateException",
        "java.lang.RuntimeException",
        "java.lang.Thread",
        "java.lang.Throwable",
        "java.util.ArrayList",
        "java.util.EnumMap",
        "java.util.HashMap",
        "java.util.HashSet",
        "java.util.Hashtable",
        "java.util.LinkedHashMap",
        "java.util.LinkedHashSet",
        "java.util.LinkedList",
        "java.util.Observable",
        "java.util.Properties",
        "java.util.Stack",
        "java.util.TreeMap",
        "java.util.TreeSet",
        "java.util.Vector",
    )
)


def made_up(
    name: str,
    fields: Iterable[JavaField] = (),
    superclass: ClassType = OBJECT,
    parameters: tuple[str, ...] = (),
) -> JavaClass:
    """Return a class without a class file; an abstract one needs no constructor."""
    signature = ClassSignature(parameters, superclass, ())
    return JavaClass(name, PUBLIC | ABSTRACT, signature, superclass.name, tuple(fields), ())


def public_field(name: str, kind: JavaType) -> JavaField:
    """Return a public field of a class without a class file."""
    return JavaField(name, PUBLIC, kind, kind)


def enum(name: str, constants: Iterable[str]) -> JavaClass:
    """Return an enum without a class file."""
    kind = ClassType(name)
    fields = [JavaField(constant, PUBLIC | STATIC | FINAL | ENUM, kind, kind) for constant in constants]
    return made_up(name, fields, ClassType(JAVA_ENUM, (kind,)))


def known_class(name: str) -> JavaClass | None:
    """Return a class of the JDK or of Flink that the type extraction inspects."""
    if name in ENUMS:
        return enum(name, ENUMS[name])
    if name == "java.util.TimeZone":
        return made_up(name, [public_field("ID", ClassType("java.lang.String"))])
    if name.startswith(TUPLE) and name != TUPLE:
        digits = name.removeprefix(TUPLE)
        if number_of(digits, 25) is not None and str(int(digits)) == digits:
            names = tuple(f"T{index}" for index in range(int(digits)))
            fields = [public_field(f"f{index}", TypeVariable(parameter)) for index, parameter in enumerate(names)]
            return made_up(name, fields, ClassType(TUPLE), names)
    if name == EITHER:
        return made_up(name, parameters=("L", "R"))
    if name in FIELDLESS:
        return made_up(name)
    return None


def is_left_to_kryo(name: str) -> bool:
    """Return whether a class without a class file is known not to be a POJO, enum or tuple."""
    if name in OTHER_ENUMS:
        return False
    package = name.rpartition(".")[0]
    return name in (ROW, TIME_WINDOW) or any(
        package == jdk_package or package.startswith(jdk_package + ".") for jdk_package in OF_JDK
    )
