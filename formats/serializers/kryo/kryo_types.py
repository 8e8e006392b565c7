"""Readers of the bodies of JDK classes, as Kryo 2 (Flink 1) and Kryo 5 (Flink 2) write them.

Most bodies are equal in both. Kryo 5 adds one to the size of collections and maps, and writes the class of the
elements once if it is the same for all. Every class was checked against both versions. ``kryo_times.py`` reads times.

The results are values for ``variant.py``; if the column has the type of the value (``walker.typed``), big numbers are
pairs of unscaled value and scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from pyspark_savepoint.formats.java_stream import JavaObject
from pyspark_savepoint.formats.serializers.basic.java_math import to_text
from pyspark_savepoint.formats.serializers.kryo.kryo_input import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.kryo_times import DATES, TIMES_2, TIMES_5
from pyspark_savepoint.formats.serializers.kryo.kryo_walker import PRIMITIVES, KryoDialect, KryoWalker, Reader
from pyspark_savepoint.formats.variant import MAX_DIGITS

UTIL, LANG = "java.util.", "java.lang."
TUPLE = "org.apache.flink.api.java.tuple.Tuple"

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
}


def _enum(names: tuple[str, ...]) -> Reader:
    def read(walker: KryoWalker) -> str | None:
        number = walker.varint()
        if number > len(names):
            raise DamagedError(f"one of {len(names)} constants", number - 1)
        return names[number - 1] if number else None

    return read


def _enum_set(walker: KryoWalker) -> list[Any]:
    name = walker.class_name()
    constants = ENUMS.get(name or "")
    if constants is None:
        raise ForeignError(name or "an enum")
    read = _enum(constants)
    return [read(walker) for _ in range(walker.size())]


def _float(walker: KryoWalker) -> Any:
    return np.float32(walker.fixed("f"))


def _character(walker: KryoWalker) -> str:
    return chr(int(walker.fixed("H")))


def _sized(read: Reader) -> Reader:
    """Return the reader of an array of primitives: its size plus one, then the elements."""

    def elements(walker: KryoWalker) -> list[Any] | None:
        size = walker.size(less=1)
        return None if size < 0 else [read(walker) for _ in range(size)]

    return elements


def _bytes(walker: KryoWalker) -> bytes | None:
    size = walker.size(less=1)
    return None if size < 0 else walker.take(size)


def _text_or_null(walker: KryoWalker) -> Any:
    return walker.object("java.lang.String", nullable=True)


def _nothing(new: Callable[[], Any]) -> Reader:
    """Return the reader of a class without a body."""
    return lambda _: new()


def _unscaled(walker: KryoWalker) -> int | None:
    size = walker.size(less=1)
    if size == 0:
        raise DamagedError("at least one byte of a number", "none")
    return None if size < 0 else int.from_bytes(walker.take(size), "big", signed=True)


def _big_integer(walker: KryoWalker) -> Any:
    number = _unscaled(walker)
    if number is None or walker.typed:
        return None if number is None else (number, 0)
    return number if abs(number) < 10**MAX_DIGITS else to_text(number, 0)


def _big_decimal(walker: KryoWalker) -> Any:
    number = _unscaled(walker)
    if number is None:
        return None
    scale = walker.signed()
    if walker.typed:
        return number, scale
    if abs(number) < 10**MAX_DIGITS:
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    return to_text(number, scale)


def _bits(walker: KryoWalker) -> list[int]:
    words = walker.size() * 8
    data = walker.take(words)
    array = np.frombuffer(data, walker.order + "u8").astype("<u8").view(np.uint8)
    places: list[int] = np.flatnonzero(np.unpackbits(array, bitorder="little")).tolist()
    return places


def _uuid(high: int, low: int) -> str:
    digits = f"{high & 2**64 - 1:016x}{low & 2**64 - 1:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _comparator(walker: KryoWalker) -> None:
    """Read the comparator of a sorted collection: null, or a known one without fields."""
    name = walker.class_name()
    if name is not None:
        if name not in COMPARATORS:
            raise ForeignError(name)
        walker.object(name)


def _collection_2(walker: KryoWalker) -> list[Any]:
    return [walker.value() for _ in range(walker.size())]


def _sorted_2(walker: KryoWalker) -> list[Any]:
    _comparator(walker)
    return _collection_2(walker)


def _as_list_2(walker: KryoWalker) -> list[Any]:
    """Read the elements of the array in ``Arrays.asList``; the class of the array is not needed."""
    size = walker.varint()
    walker.class_name()
    return [walker.value() for _ in range(walker.bounded(size))]


def _collection_5(walker: KryoWalker, header: Reader | None = None, nulls: bool = True) -> list[Any]:
    """Read elements: with the flag set all have one class, which is written once, else each has its own."""
    same, size = walker.flag_and_size()
    if header:
        header(walker)
    if size <= 0:
        return []
    if not same:
        return [walker.value() for _ in range(walker.bounded(size))]
    name = walker.class_name()
    if name is None:
        walker.spend(size)
        return [None] * size
    nullable = nulls and walker.boolean()
    return [walker.object(name, nullable) for _ in range(walker.bounded(size))]


def _no_nulls_5(walker: KryoWalker) -> list[Any]:
    return _collection_5(walker, nulls=False)


def _sorted_5(walker: KryoWalker) -> list[Any]:
    return _collection_5(walker, _comparator)


def entries(pairs: list[tuple[Any, Any]]) -> Any:
    """Return a map as an object if all keys are strings, else as an array of keys and values."""
    if all(isinstance(key, str) for key, _ in pairs):
        fields = dict(pairs)
        if len(fields) == len(pairs):
            return fields
    return [{"key": key, "value": value} for key, value in pairs]


def _pairs(walker: KryoWalker, size: int) -> Any:
    return entries([(walker.value(), walker.value()) for _ in range(walker.bounded(size))])


def _map_2(walker: KryoWalker) -> Any:
    return _pairs(walker, walker.varint())


def _tree_map_2(walker: KryoWalker) -> Any:
    _comparator(walker)
    return _map_2(walker)


def _map_5(walker: KryoWalker) -> Any:
    return _pairs(walker, walker.varint() - 1)


def _tree_map_5(walker: KryoWalker) -> Any:
    size = walker.varint() - 1
    _comparator(walker)
    return _pairs(walker, size)


def _enum_pairs(walker: KryoWalker, size: int) -> Any:
    """Read the entries of a map whose keys can only be constants of an enum, also of a user's."""
    return entries([(_constant(walker), walker.value()) for _ in range(walker.bounded(size))])


def _constant(walker: KryoWalker) -> Any:
    name = walker.class_name()
    if name is None or name in walker.dialect.readers:
        return None if name is None else walker.object(name)
    return walker.constant(name)


def _locale_2(walker: KryoWalker) -> str:
    found = walker.java_object()
    fields = found.fields if isinstance(found, JavaObject) else {}
    return "_".join(
        part for name in ("language", "country", "variant") if isinstance(part := fields.get(name), str) and part
    )


def _optional_number(read: Reader) -> Reader:
    """Return the reader of Kryo 2's optional numbers: two fields, with a value even if it is absent."""

    def field(walker: KryoWalker) -> Any:
        present, value = walker.boolean(), read(walker)
        return value if present else None

    return field


def _optional_number_5(code: str) -> Reader:
    return lambda walker: walker.fixed(code) if walker.boolean() else None


def _tuple(size: int) -> Reader:
    """Return the reader of a tuple, whose fields are in the order of their names: f10 comes before f2."""
    names = sorted(f"f{number}" for number in range(size))
    return lambda walker: {name: walker.value() for name in names}


def _locale_5(walker: KryoWalker) -> str:
    return "_".join(part for part in (walker.text(), walker.text(), walker.text()) if part)


def _scala_big_decimal(walker: KryoWalker) -> Any:
    """Read the fields of ``scala.math.BigDecimal`` by name: the number, its hash code, and how it is rounded."""
    number = walker.value(("java.math.BigDecimal",))
    walker.signed()
    walker.object("java.math.MathContext", nullable=True)
    return number


def _pattern_5(walker: KryoWalker) -> str | None:
    """Read the text of a regular expression and its flags, which a text does not show."""
    text = walker.text()
    walker.varint()
    return text


def _math_context(walker: KryoWalker) -> Any:
    return {"precision": walker.signed(), "roundingMode": walker.object("java.math.RoundingMode", nullable=True)}


COMPARATORS = frozenset({UTIL + "Collections$ReverseComparator", LANG + "String$CaseInsensitiveComparator"})

_PLAIN_COLLECTIONS = [
    *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet"),
    *("concurrent.CopyOnWriteArrayList", "concurrent.CopyOnWriteArraySet", "concurrent.LinkedBlockingQueue"),
    *("concurrent.ConcurrentLinkedQueue", "concurrent.ConcurrentLinkedDeque", "concurrent.LinkedBlockingDeque"),
    *("Collections$UnmodifiableRandomAccessList", "Collections$UnmodifiableList", "Collections$UnmodifiableSet"),
    *("Collections$UnmodifiableCollection", "Collections$SynchronizedRandomAccessList"),
    *("Collections$SynchronizedList", "Collections$SynchronizedSet", "Collections$SynchronizedCollection"),
    "concurrent.ConcurrentSkipListSet",
]
#: Classes of ``List.of`` and ``Set.of``, which have no nulls.
_NO_NULLS = [f"ImmutableCollections${name}" for name in ("ListN", "List12", "SetN", "Set12")]
_PLAIN_MAPS = [
    *("HashMap", "LinkedHashMap", "Hashtable", "WeakHashMap", "IdentityHashMap"),
    *("concurrent.ConcurrentHashMap", "Collections$UnmodifiableMap", "Collections$SynchronizedMap"),
    *("ImmutableCollections$Map1", "ImmutableCollections$MapN"),
]

COMMON: Mapping[str, Reader] = {
    "int": KryoWalker.signed,
    "long": KryoWalker.signed_long,
    "boolean": KryoWalker.boolean,
    "byte": KryoWalker.signed_byte,
    "short": lambda walker: walker.fixed("h"),
    "char": _character,
    "float": _float,
    "double": lambda walker: walker.fixed("d"),
    LANG + "String": KryoWalker.text,
    LANG + "StringBuilder": KryoWalker.text,
    LANG + "StringBuffer": KryoWalker.text,
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    **DATES,
    UTIL + "BitSet": _bits,
    UTIL + "RegularEnumSet": _enum_set,
    UTIL + "JumboEnumSet": _enum_set,
    UTIL + "Currency": KryoWalker.text,
    "java.net.URI": KryoWalker.text,
    "java.io.File": _text_or_null,
    UTIL + "Optional": KryoWalker.value,
    UTIL + "Collections$EmptyList": _nothing(list),
    UTIL + "Collections$EmptySet": _nothing(list),
    UTIL + "Collections$EmptyMap": _nothing(dict),
    UTIL + "Collections$SingletonList": lambda walker: [walker.value()],
    UTIL + "Collections$SingletonSet": lambda walker: [walker.value()],
    UTIL + "Collections$SingletonMap": lambda walker: _pairs(walker, 1),
    UTIL + "AbstractMap$SimpleEntry": lambda walker: {"key": walker.value(), "value": walker.value()},
    UTIL + "concurrent.atomic.AtomicInteger": KryoWalker.signed,
    UTIL + "concurrent.atomic.AtomicLong": KryoWalker.signed_long,
    UTIL + "concurrent.atomic.AtomicBoolean": lambda walker: walker.signed() != 0,
    UTIL + "concurrent.atomic.AtomicReference": KryoWalker.value,
    **{name: _enum(constants) for name, constants in ENUMS.items()},
    **dict.fromkeys(COMPARATORS, _nothing(str)),
    **{f"{TUPLE}{size}": _tuple(size) for size in range(1, 26)},
}
KRYO_2: Mapping[str, Reader] = {
    **COMMON,
    **TIMES_2,
    UTIL + "regex.Pattern": KryoWalker.text,
    UTIL + "UUID": lambda walker: _uuid(walker.signed_long(), walker.signed_long()),
    UTIL + "Arrays$ArrayList": _as_list_2,
    "java.math.MathContext": _math_context,
    "scala.math.BigDecimal": _scala_big_decimal,
    "scala.math.BigInt": lambda walker: walker.value(("java.math.BigInteger",)),
    **{UTIL + name: _collection_2 for name in [*_PLAIN_COLLECTIONS, *_NO_NULLS]},
    **{UTIL + name: _map_2 for name in [*_PLAIN_MAPS, "concurrent.ConcurrentSkipListMap"]},
    UTIL + "EnumMap": lambda walker: _enum_pairs(walker, walker.varint()),
    UTIL + "Locale": _locale_2,
    UTIL + "TreeSet": _sorted_2,
    UTIL + "PriorityQueue": _sorted_2,
    UTIL + "TreeMap": _tree_map_2,
    UTIL + "OptionalInt": _optional_number(KryoWalker.signed),
    UTIL + "OptionalLong": _optional_number(KryoWalker.signed_long),
    UTIL + "OptionalDouble": _optional_number(lambda walker: walker.fixed("d")),
}
KRYO_5: Mapping[str, Reader] = {
    **COMMON,
    **TIMES_5,
    UTIL + "regex.Pattern": _pattern_5,
    UTIL + "UUID": lambda walker: _uuid(int(walker.fixed("q")), int(walker.fixed("q"))),
    UTIL + "Arrays$ArrayList": _collection_5,
    **{UTIL + name: _collection_5 for name in _PLAIN_COLLECTIONS},
    **{UTIL + name: _no_nulls_5 for name in _NO_NULLS},
    **{UTIL + name: _map_5 for name in _PLAIN_MAPS},
    UTIL + "EnumMap": lambda walker: _enum_pairs(walker, walker.varint() - 1),
    UTIL + "TreeSet": _sorted_5,
    UTIL + "PriorityQueue": _sorted_5,
    UTIL + "TreeMap": _tree_map_5,
    UTIL + "concurrent.ConcurrentSkipListMap": _tree_map_5,
    UTIL + "OptionalInt": _optional_number_5("i"),
    UTIL + "OptionalLong": _optional_number_5("q"),
    UTIL + "OptionalDouble": _optional_number_5("d"),
    UTIL + "Locale": _locale_5,
    "java.net.URL": KryoWalker.text,
}


ARRAYS: Mapping[str, Reader] = {
    "[B": _bytes,
    "[Z": _sized(KryoWalker.boolean),
    "[S": _sized(COMMON["short"]),
    "[C": _sized(_character),
    "[I": _sized(KryoWalker.signed),
    "[J": _sized(KryoWalker.signed_long),
    "[F": _sized(_float),
    "[D": _sized(COMMON["double"]),
    "[Ljava.lang.String;": _sized(_text_or_null),
}
FINALS = (
    PRIMITIVES
    | {LANG + name for name in ("String", "StringBuilder", "StringBuffer")}
    | {UTIL + name for name in ("UUID", "Optional", "OptionalInt", "OptionalLong", "OptionalDouble", "Currency")}
    | {UTIL + "regex.Pattern"}
    | {UTIL + "Locale", "java.net.URI", "java.net.URL", "java.math.RoundingMode", "java.time.DayOfWeek"}
    | {"java.time.Month"}
    | TIMES_2.keys()
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
    ]
)
#: TimeUnit is final in later versions of Java but not in Java 8, so arrays of it are ambiguous and not read.
NOT_FINAL = GENERAL | (KRYO_2.keys() | KRYO_5.keys()) - FINALS - ENUMS.keys()


def _dialect(version: int, readers: Mapping[str, Reader]) -> KryoDialect:
    return KryoDialect(version, readers, ARRAYS, frozenset(ENUMS), frozenset(FINALS), frozenset(NOT_FINAL))


DIALECTS: Mapping[int, KryoDialect] = {2: _dialect(2, KRYO_2), 5: _dialect(5, KRYO_5)}
