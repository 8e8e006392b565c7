"""Objects that Kryo wrote, with all contents of the bytes of both versions.

If two fields refer to the same object in Java, they refer to the same :class:`KryoObject`; cycles are kept. The content
by class:

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

from collections.abc import Iterable
from typing import Any, TypeAlias

STRING = "java.lang.String"
UTIL, LANG, TIME = "java.util.", "java.lang.", "java.time."
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
        for (_, each), value in self.content.items():
            if each == name:
                return value
        raise KeyError(name)


def elements_of(found: KryoObject) -> list[KryoObject | None]:
    """Return the elements of a list, a set or an array of objects, in their order."""
    return list(found.content)


def entries_of(found: KryoObject) -> list[tuple[KryoObject | None, KryoObject | None]]:
    """Return the keys and values of a map, in their order."""
    return list(found.content)


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
