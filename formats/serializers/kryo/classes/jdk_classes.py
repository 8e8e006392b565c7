"""The list of classes of the JDK, Flink and Scala that are read without class files, and what every job knows.

:data:`LAYOUTS` has every class with the name of its layout: what Kryo writes for its objects. ``bodies.py`` has each
layout in both versions; columns, VARIANT, objects and migration all take it from there. Classes that Kryo writes field
by field are rows of ``field_classes.py``. A class that is neither listed here nor in the job's class files cannot be
read, because it is not known whether it is final, which determines the bytes before its objects.

:class:`KryoObject` has all contents of the bytes of both versions. If two fields refer to the same object in Java, they
refer to the same one; cycles are kept. The content by class:

    int long short byte, float double, boolean   the number or bool; also in fields of these types
    char, String, StringBuilder, URI ...         str; a char may be half of a surrogate pair
    enum                                         the ordinal
    collections, arrays of objects               list of objects and None
    maps                                         list of pairs
    byte[], other arrays of primitives           bytes, list of numbers
    BigInteger; BigDecimal                       int; (unscaled, scale)
    Date and time of java.sql; Timestamp         milliseconds; (milliseconds, nanoseconds of the second)
    UUID; BitSet; Locale                         (high, low); int; (language, country, variant, script, extensions)
    Throwable and others by JavaSerializer       bytes: a Java object stream
    all others: java.time, Optional, user's ...  dict from (declaring class, name of the field) to object or None

``header`` is the comparator of a sorted collection or map, the class of the elements of ``Arrays.asList`` and of an
EnumSet. Boxes have the names of their primitive types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES, TUPLE
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import LANG as LANG
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import TIME as TIME
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import UTIL as UTIL
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError

STRING = "java.lang.String"
#: A field: the class that declares it, and its name.
FieldKey: TypeAlias = tuple[str, str]


class KryoObject:
    """An object of a class; equal only to itself."""

    __slots__ = ("class_name", "content", "header")

    def __init__(self, class_name: str, content: Any = None, header: Any = None) -> None:
        self.class_name = class_name
        self.content = content
        self.header = header

    def __repr__(self) -> str:
        return f"KryoObject({self.class_name!r}, {type(self.content).__name__})"

    def field(self, name: str) -> Any:
        """Return the value of a field; if superclasses have fields of this name too, that of the nearest class."""
        for (_, field_name), value in self.content.items():
            if field_name == name:
                return value
        raise KeyError(name)


def elements_of(kryo_object: KryoObject) -> list[KryoObject | None]:
    """Return the elements of a list, a set or an array of objects, in their order."""
    return list(kryo_object.content)


def entries_of(kryo_object: KryoObject) -> list[tuple[KryoObject | None, KryoObject | None]]:
    """Return the keys and values of a map, in their order."""
    return list(kryo_object.content)


def list_of(elements: Iterable[KryoObject | None], class_name: str = UTIL + "ArrayList") -> KryoObject:
    """Return a list, or another collection, of elements."""
    return KryoObject(class_name, list(elements))


def set_of(elements: Iterable[KryoObject | None]) -> KryoObject:
    """Return a HashSet of elements, in the order in which they are written."""
    return KryoObject(UTIL + "HashSet", list(elements))


def map_of(
    entries: Iterable[tuple[KryoObject | None, KryoObject | None]], class_name: str = UTIL + "HashMap"
) -> KryoObject:
    """Return a map of keys and values, in the order in which they are written."""
    return KryoObject(class_name, list(entries))


# -- ids -----------------------------------------------------------------------------------------------------------

#: Class ids that Kryo and Flink assign in every job.
BASE_IDS: Mapping[int, str] = dict(
    enumerate(["int", "java.lang.String", "float", "boolean", "byte", "char", "short", "long", "double", "void"])
) | dict(
    enumerate(
        [
            "java.util.Arrays$ArrayList",
            "java.util.BitSet",
            "java.util.PriorityQueue",
            "java.util.regex.Pattern",
            "java.sql.Date",
            "java.sql.Time",
            "java.sql.Timestamp",
            "java.net.URI",
            "java.net.InetSocketAddress",
            "java.util.UUID",
            "java.util.Locale",
            "java.text.SimpleDateFormat",
        ],
        start=73,
    )
)
FIRST_USER_ID = 85
WRAPPERS: Mapping[str, str] = {
    "java.lang.Integer": "int",
    "java.lang.Float": "float",
    "java.lang.Boolean": "boolean",
    "java.lang.Byte": "byte",
    "java.lang.Character": "char",
    "java.lang.Short": "short",
    "java.lang.Long": "long",
    "java.lang.Double": "double",
    "java.lang.Void": "void",
}
PRIMITIVES = frozenset(WRAPPERS.values())


@dataclass(frozen=True)
class KryoClasses:
    """Classes of a snapshot: their ids, and those with a serializer of the user."""

    ids: Mapping[int, str]
    custom: frozenset[str] = frozenset()
    #: The job has a default serializer for an interface: it may write any class except primitives and String.
    any_custom: bool = False
    #: Classes with a default serializer, which applies to their subclasses too.
    defaults: frozenset[str] = frozenset()
    #: Those of ``custom`` whose serializer writes Java object streams.
    java_serialized: frozenset[str] = frozenset()

    def is_custom(self, name: str) -> bool:
        """Return whether a serializer of the user may write the bodies of the class."""
        return name in self.custom or (self.any_custom and name not in PRIMITIVES and name != STRING)


# -- layouts -------------------------------------------------------------------------------------------------------

ENUMS: Mapping[str, tuple[str, ...]] = {
    "java.time.DayOfWeek": ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"),
    "java.time.Month": (
        *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE"),
        *("JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
    ),
    "java.util.concurrent.TimeUnit": (
        *("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
    ),
    "java.math.RoundingMode": ("UP", "DOWN", "CEILING", "FLOOR", "HALF_UP", "HALF_DOWN", "HALF_EVEN", "UNNECESSARY"),
    "java.time.temporal.ChronoUnit": (
        *("NANOS", "MICROS", "MILLIS", "SECONDS", "MINUTES", "HOURS", "HALF_DAYS", "DAYS", "WEEKS", "MONTHS"),
        *("YEARS", "DECADES", "CENTURIES", "MILLENNIA", "ERAS", "FOREVER"),
    ),
    "java.time.temporal.ChronoField": (
        *("NANO_OF_SECOND", "NANO_OF_DAY", "MICRO_OF_SECOND", "MICRO_OF_DAY", "MILLI_OF_SECOND", "MILLI_OF_DAY"),
        *("SECOND_OF_MINUTE", "SECOND_OF_DAY", "MINUTE_OF_HOUR", "MINUTE_OF_DAY", "HOUR_OF_AMPM"),
        *("CLOCK_HOUR_OF_AMPM", "HOUR_OF_DAY", "CLOCK_HOUR_OF_DAY", "AMPM_OF_DAY", "DAY_OF_WEEK"),
        *("ALIGNED_DAY_OF_WEEK_IN_MONTH", "ALIGNED_DAY_OF_WEEK_IN_YEAR", "DAY_OF_MONTH", "DAY_OF_YEAR"),
        *("EPOCH_DAY", "ALIGNED_WEEK_OF_MONTH", "ALIGNED_WEEK_OF_YEAR", "MONTH_OF_YEAR", "PROLEPTIC_MONTH"),
        *("YEAR_OF_ERA", "YEAR", "ERA", "INSTANT_SECONDS", "OFFSET_SECONDS"),
    ),
}
#: The fields of the classes of ``field_classes.py``.
FIELDS_OF: Mapping[str, str] = {name: row.fields for name, row in FIELD_CLASSES.items() if not row.abstract}
#: Layouts of many classes; the layout of any other class in the list has its name.
FIELDS, ENUM, JAVA_STREAM, ARRAY = "fields", "enum", "stream", "[]"
COLLECTION, NO_NULLS, SORTED_COLLECTION = "collection", "collection without nulls", "sorted collection"
MAP, SORTED_MAP, SKIP_LIST_MAP = "map", "sorted map", "java.util.concurrent.ConcurrentSkipListMap"
EMPTY, EMPTY_MAP, SINGLETON, ENTRY, ENUM_SET = "nothing", "no entries", "one element", "one entry", "enum set"
TEXT, BUILDER, MILLIS, CALENDAR, CHARSET = "text", "text with its length", "milliseconds", "calendar", "charset"
#: Collections and maps of ``java.util`` whose objects Kryo makes without a constructor, so that they take no elements:
#: views of others and fixed sizes. Neither version reads what it writes.
UNFILLED = (
    *("ArrayList$SubList", "AbstractList$SubList", "AbstractList$RandomAccessSubList", "SubList"),
    *("RandomAccessSubList", "Collections$CopiesList", "Collections$SetFromMap", "HashMap$KeySet", "HashMap$Values"),
    *("LinkedHashMap$LinkedKeySet", "LinkedHashMap$LinkedValues", "TreeMap$KeySet", "TreeMap$Values"),
    *("concurrent.ConcurrentHashMap$KeySetView", "concurrent.ConcurrentHashMap$ValuesView"),
    "concurrent.ArrayBlockingQueue",
)
UNFILLED_MAPS = ("TreeMap$AscendingSubMap", "TreeMap$DescendingSubMap")
_CLASSES_OF: Mapping[str, tuple[str, ...]] = {
    COLLECTION: (
        *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet"),
        *("concurrent.CopyOnWriteArrayList", "concurrent.CopyOnWriteArraySet", "concurrent.LinkedBlockingQueue"),
        *("concurrent.ConcurrentLinkedQueue", "concurrent.ConcurrentLinkedDeque", "concurrent.LinkedBlockingDeque"),
        *("Collections$UnmodifiableRandomAccessList", "Collections$UnmodifiableList", "Collections$UnmodifiableSet"),
        *("Collections$UnmodifiableCollection", "Collections$SynchronizedRandomAccessList"),
        *("Collections$SynchronizedList", "Collections$SynchronizedSet", "Collections$SynchronizedCollection"),
        *("concurrent.ConcurrentSkipListSet", "concurrent.PriorityBlockingQueue", "concurrent.LinkedTransferQueue"),
        *UNFILLED,
    ),
    # The classes of List.of and Set.of.
    NO_NULLS: tuple(f"ImmutableCollections${name}" for name in ("ListN", "List12", "SetN", "Set12")),
    SORTED_COLLECTION: ("TreeSet", "PriorityQueue"),
    MAP: (
        *UNFILLED_MAPS,
        *("HashMap", "LinkedHashMap", "Hashtable", "WeakHashMap", "IdentityHashMap", "EnumMap", "Properties"),
        *("concurrent.ConcurrentHashMap", "Collections$UnmodifiableMap", "Collections$SynchronizedMap"),
        *("ImmutableCollections$Map1", "ImmutableCollections$MapN"),
    ),
    SORTED_MAP: ("TreeMap",),
    ENUM_SET: ("EnumSet", "RegularEnumSet", "JumboEnumSet"),
    EMPTY: ("Collections$EmptyList", "Collections$EmptySet"),
    EMPTY_MAP: ("Collections$EmptyMap",),
    SINGLETON: ("Collections$SingletonList", "Collections$SingletonSet"),
    ENTRY: ("Collections$SingletonMap",),
    TEXT: ("Currency", "TimeZone", "SimpleTimeZone"),
    MILLIS: ("Date",),
    CALENDAR: ("Calendar", "GregorianCalendar"),
}
#: All classes that are read without class files, and their layouts.
LAYOUTS: Mapping[str, str] = {
    **dict.fromkeys(FIELDS_OF, FIELDS),
    **{UTIL + name: layout for layout, names in _CLASSES_OF.items() for name in names},
    **dict.fromkeys(ENUMS, ENUM),
    **dict.fromkeys((STRING, "java.net.URI", "sun.util.calendar.ZoneInfo"), TEXT),
    **dict.fromkeys((LANG + "StringBuilder", LANG + "StringBuffer"), BUILDER),
    "java.sql.Date": MILLIS,
    "sun.nio.cs.UTF_8": CHARSET,
    **{
        name: name
        for name in (
            *PRIMITIVES,
            *(f"[{code}" for code in "ZBSCIJFD"),
            *("java.math.BigInteger", "java.math.BigDecimal", "java.sql.Time", "java.sql.Timestamp"),
            *("java.text.SimpleDateFormat", "java.net.InetSocketAddress", "java.net.URL", LANG + "Class"),
            *(UTIL + each for each in ("UUID", "BitSet", "Locale", "regex.Pattern", "Arrays$ArrayList")),
            *(UTIL + f"Optional{kind}" for kind in ("Int", "Long", "Double")),
            *(name for name, row in FIELD_CLASSES.items() if row.shown is not None or name.startswith(TIME)),
            SKIP_LIST_MAP,
        )
    },
}
#: Classes of the fields of objects that are STRUCTs, and the types of their columns, by type.
PARTS: Mapping[str, tuple[str, pa.DataType]] = {
    "Z": ("boolean", pa.bool_()),
    "B": ("byte", pa.int8()),
    "S": ("short", pa.int16()),
    "I": ("int", pa.int32()),
    "J": ("long", pa.int64()),
    "F": ("float", pa.float32()),
    "D": ("double", pa.float64()),
    "Ljava/lang/String;": (STRING, pa.string()),
}


def struct_of(name: str) -> pa.DataType | None:
    """Return the STRUCT of the fields of a listed class; None if its objects are shown otherwise."""
    fields = FIELD_CLASSES[name].parts if LAYOUTS.get(name) == FIELDS else ()
    if not fields or any(kind not in PARTS for _, kind in fields):
        return None
    return pa.struct([pa.field(field, PARTS[kind][1]) for field, kind in fields])


FINAL_CLASSES = (
    PRIMITIVES
    | {LANG + name for name in ("String", "StringBuilder", "StringBuffer", "Class", "StackTraceElement")}
    | {UTIL + name for name in ("UUID", "Currency", "regex.Pattern", "Locale")}
    | {"java.net.URI", "sun.nio.cs.UTF_8", "java.net.Inet4Address", "java.net.Inet6Address"}
    | {name for name, row in FIELD_CLASSES.items() if row.final}
    | ENUMS.keys()
)
#: Interfaces and classes that do not determine the class of a value.
GENERAL = frozenset(
    [
        *("java.lang.Object", "java.lang.Number", "java.lang.CharSequence", "java.lang.Comparable"),
        *("java.lang.Iterable", "java.io.Serializable", "java.util.Collection", "java.util.List", "java.util.Set"),
        *("java.util.Map", "java.util.Queue", "java.util.Deque", "java.util.SortedSet", "java.util.NavigableSet"),
        *("java.util.SortedMap", "java.util.NavigableMap", "java.util.AbstractList", "java.util.AbstractSet"),
        *("java.util.AbstractMap", "java.util.AbstractCollection", "java.util.AbstractQueue", "java.util.EnumSet"),
        *("java.util.Map$Entry", "java.util.concurrent.ConcurrentMap", "java.time.temporal.Temporal"),
        *("java.time.temporal.TemporalAmount", "java.time.ZoneId"),
        *(name for name, row in FIELD_CLASSES.items() if row.abstract),
    ]
)
#: Interfaces and classes that are not final, besides those of the list.
OPEN_CLASSES = frozenset(
    [
        *(LANG + name for name in ("Runnable", "Enum", "Throwable", "Exception", "Error", "Record")),
        LANG + "RuntimeException",
        *(UTIL + name for name in ("Iterator", "ListIterator", "Comparator", "Dictionary", "EventObject")),
        *(UTIL + name for name in ("concurrent.BlockingQueue", "concurrent.BlockingDeque", "concurrent.Callable")),
        *(UTIL + name for name in ("concurrent.ConcurrentNavigableMap", "AbstractSequentialList", "RandomAccess")),
        *("java.lang.Cloneable", "java.nio.charset.Charset", "java.text.DateFormat", "java.net.InetAddress"),
        *("java.net.SocketAddress", "java.nio.ByteBuffer", "java.nio.file.Path"),
        *(TIME + name for name in ("temporal.TemporalAccessor", "temporal.TemporalUnit")),
        *(
            TIME + name
            for name in ("chrono.ChronoLocalDate", "chrono.ChronoZonedDateTime", "chrono.ChronoLocalDateTime")
        ),
        TUPLE,
    ]
)


def is_final_class(name: str) -> bool | None:
    """Return whether a class of the JDK or of Flink is final; None if the class is not known here."""
    if name in FINAL_CLASSES:
        return True
    known = name in LAYOUTS or name in GENERAL or name in OPEN_CLASSES or name.startswith(UTIL + "function.")
    return False if known else None


def is_thrown(name: str) -> bool:
    """Return whether a class of the JDK is an exception, by its name: Flink lets Java serialize these."""
    return name.startswith("java.") and name.endswith(("Exception", "Error", "java.lang.Throwable"))


def component(name: str) -> str:
    """Return the class of an array's elements: ``[I`` for ``[[I``, ``java.lang.String`` for ``[Ljava.lang.String;``."""
    inner = name[1:]
    if inner[:1] == "L" and inner[-1:] == ";" and len(inner) > 2:
        return WRAPPERS.get(inner[1:-1], inner[1:-1])
    if inner[:1] != "[":
        raise DamagedError("the name of an array", name)
    return inner
