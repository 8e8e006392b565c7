"""Reading of Kryo 2's bytes as Kryo 5 reads them: what happens to values that are not migrated.

Readers elsewhere refuse what no version of Kryo writes. Kryo itself takes much of it: any byte but 1 for false, 0 in
place of a size plus one for null, an object of another class by its number. It fails at the end of the bytes, for
unknown classes and numbers, and where Java refuses what was made: a comparator that is none, a null in a
ConcurrentHashMap, a date without a day. Flink: ``Kryo 5.6``, ``CollectionSerializer``, ``MapSerializer``,
``DefaultSerializers``, ``MapReferenceResolver``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ENUM,
    ENUMS,
    PRIMITIVES,
    STRING,
    KryoObject,
    component,
    is_final_class,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError
from pyspark_savepoint.formats.serializers.kryo.objects import ObjectFormat
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import CHARSETS
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import Arguments, Budget, ObjectReader

UTIL = "java.util."
#: Collections and maps that refuse null as an element or key, and as a value.
NO_NULLS = frozenset(
    UTIL + name
    for name in (
        *("ArrayDeque", "PriorityQueue", "TreeSet", "Hashtable", "Properties", "concurrent.ConcurrentHashMap"),
        *("concurrent.ConcurrentSkipListMap", "concurrent.ConcurrentSkipListSet", "concurrent.ConcurrentLinkedQueue"),
        *("concurrent.ConcurrentLinkedDeque", "concurrent.LinkedBlockingQueue", "concurrent.LinkedBlockingDeque"),
    )
)
#: Those that compare elements or keys, which must be of one class.
SORTED = frozenset(
    UTIL + name
    for name in (
        "TreeSet",
        "TreeMap",
        "PriorityQueue",
        "concurrent.ConcurrentSkipListMap",
        "concurrent.ConcurrentSkipListSet",
    )
)


OBJECT = "java.lang.Object"
#: Interfaces of strings and boxes.
JUST_ABOVE = frozenset({"java.lang.Comparable", "java.lang.CharSequence", "java.io.Serializable"})
PROTOCOL = re.compile("https?|file|jar|ftp|mailto|jrt", re.IGNORECASE)


#: Returns why Kryo 5 cannot read the objects of a class that it writes, or None.
WhyUnreadable = Callable[[str], str | None]
#: The end of the reason for a class without the constructor that Kryo 5 calls for every object.
CALLS = "which Kryo 5 calls"
#: That of a list without a constructor: Kryo 5 reserves room in it, even for no element.
AT_ONCE = "java.util.ArrayList whose fields are null"


class MisreadError(ValueError):
    """Error that Java raises for an object that Kryo 5 made from bytes of Kryo 2."""


class MisreadingReader(ObjectReader):
    """Reader that takes what Kryo 5 takes; ``why_unreadable`` tells why it cannot read objects of a class."""

    def __init__(self, data: memoryview, at: int, form: ObjectFormat, why_unreadable: WhyUnreadable) -> None:
        super().__init__(data, at, len(data), form, Budget())
        self.why_unreadable = why_unreadable

    def boolean(self) -> bool:
        """Read a byte; all but 1 are false."""
        return self.byte() == 1

    def object(self, name: str, nullable: bool = False, arguments: Arguments | None = None) -> KryoObject | None:
        """Read an object; a size of 0 instead of one plus the size is null."""
        generics = self.generics5
        mark = generics.mark()
        try:
            kryo_object: KryoObject | None = super().object(name, nullable, arguments)
        except DamagedError as error:
            if error.args[1:] != (0,) or not ("plus one" in error.args[0] or "constant" in error.args[0]):
                raise
            generics.rewind(mark)
            return None
        if kryo_object is not None:
            self._expect_made(kryo_object)
        return kryo_object

    def _seen(self, reference: int, name: str, nullable: bool, plain: bool) -> KryoObject | None:
        if reference == 0 and nullable:
            return None
        if plain:
            return super()._seen(reference, name, nullable, plain)
        if not 2 <= reference < len(self.objects) + 2:
            raise DamagedError(f"a new {name}, or one of {len(self.objects)} objects", reference)
        result: KryoObject = self.objects[reference - 2]
        return result

    def _expect_made(self, kryo_object: KryoObject) -> None:
        """Raise MisreadError if Java refuses what an object consists of."""
        name = kryo_object.class_name
        why = self.why_unreadable(name)
        if why is not None and (kryo_object.content or why.endswith((CALLS, AT_ONCE))):
            raise MisreadError(f"a {name}: {why}")
        if name in SORTED:
            if isinstance(kryo_object.header, KryoObject) and not self._may_compare(kryo_object.header.class_name):
                raise MisreadError(f"a {kryo_object.header.class_name} is not a comparator")
            if kryo_object.header is None:
                self._expect_comparable(kryo_object)
        if name[:2] in ("[L", "[["):
            self._expect_stored(component(name), kryo_object)
        if name == "java.net.URL" and not PROTOCOL.fullmatch(kryo_object.field("protocol").content):
            raise MisreadError("a URL without a protocol")
        if name in CHARSETS and not _is_charset(kryo_object.content):
            raise MisreadError("a charset of no legal name")
        if name in NO_NULLS and None in _flat(kryo_object.content):
            raise MisreadError(f"null in a {name}")
        if self.form.body(name) is self.form.bodies[ENUM] and name not in ENUMS:
            constants = self.form.classes.constants(name)
            if constants and kryo_object.content >= len(constants):
                raise MisreadError(f"constant {kryo_object.content} of a {name}")

    def _expect_stored(self, element: str, array: KryoObject) -> None:
        """Raise MisreadError for an element of a class that an array of another class refuses."""
        for stored in array.content:
            if stored is None or element in (OBJECT, stored.class_name):
                continue
            name = stored.class_name
            simple = name == STRING or name in PRIMITIVES
            above = JUST_ABOVE | {"java.lang.Number"} if name in PRIMITIVES else JUST_ABOVE
            if element not in (above if simple else self.form.classes.ancestors(name)) and (
                simple or self.form.classes.find(name) is not None
            ):
                raise MisreadError(f"a {name} in an array of {element}")

    @staticmethod
    def _may_compare(name: str) -> bool:
        if name in PRIMITIVES or name[:1] == "[" or name == STRING:
            return False
        return is_final_class(name) is None or "Comparator" in name

    @staticmethod
    def _expect_comparable(kryo_object: KryoObject) -> None:
        keys = [element[0] if isinstance(element, tuple) else element for element in kryo_object.content or ()]
        if None in keys or len({element.class_name for element in keys}) > 1:
            raise MisreadError(f"the elements of a {kryo_object.class_name} cannot be compared")


def _is_charset(name: str) -> bool:
    try:
        return bool(codecs.lookup(name))
    except (LookupError, ValueError):
        return False


def _flat(content: object) -> list[object]:
    if not isinstance(content, list):
        return []
    return [part for entry in content for part in (entry if isinstance(entry, tuple) else (entry,))]


def misread_object(
    data: bytes, form: ObjectFormat, position: int, why_unreadable: WhyUnreadable
) -> tuple[KryoObject | None, int]:
    """Read the value at a position as Kryo 5 does; return it and the position after it; raise an error if it fails."""
    reader = MisreadingReader(memoryview(data), position, form, why_unreadable)
    kryo_object = reader.value()
    return kryo_object, reader.position
