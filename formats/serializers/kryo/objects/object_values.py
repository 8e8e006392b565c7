"""Kryo's objects as values of VARIANT: objects and maps with text keys as objects, collections as arrays.

Values of JDK classes are those of ``kryo_types.py``, which reads their bytes. Objects of the user's classes have their
fields by name; if two fields have the same name, that of the superclass is called ``Base.name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.java_stream import JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import STRING, TIME, UTIL
from pyspark_savepoint.formats.serializers.kryo.kryo_input import BeyondError, DamagedError
from pyspark_savepoint.formats.serializers.kryo.kryo_types import ARRAYS, DIALECTS, ENUMS, TUPLE, entries
from pyspark_savepoint.formats.serializers.kryo.kryo_walker import Budget, KryoClasses, KryoWalker
from pyspark_savepoint.formats.serializers.kryo.objects import DescribedClasses, KryoObject, ObjectFormat, write_object
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import url_text

RAW = 'read the state as bytes: option("raw", "<state>")'
#: Classes whose only field is their value, and this field.
HOLDERS: Mapping[str, str] = {
    UTIL + "Optional": "value",
    UTIL + "concurrent.atomic.AtomicReference": "value",
    UTIL + "concurrent.atomic.AtomicLongArray": "array",
    UTIL + "concurrent.atomic.AtomicIntegerArray": "array",
    "java.io.File": "path",
}
#: Classes whose values are those of :class:`KryoWalker`; other ones may contain objects of the user's classes.
NUMBERS = frozenset({"int", "long", "short", "byte", "boolean", "double", "char", STRING})
SIMPLE = frozenset({UTIL + "regex.Pattern", "java.net.URI", UTIL + "Currency", UTIL + "TimeZone"}) | {
    UTIL + "SimpleTimeZone",
    "sun.util.calendar.ZoneInfo",
    "sun.nio.cs.UTF_8",
}


class ObjectValues:
    """Values of the objects of one batch; ``room`` limits the size of shared objects, which are repeated."""

    def __init__(self, form: ObjectFormat, options: DecodeOptions, room: int) -> None:
        self.form = form
        self.options = options
        self.room = room
        self._open: set[KryoObject] = set()
        #: Leaves are read without the job's registrations, because their bytes contain no class ids.
        self._plain = KryoClasses(form.registered.ids)

    @property
    def classes(self) -> DescribedClasses:
        """Return the descriptions of classes."""
        return self.form.classes

    def spend(self, size: int) -> None:
        """Subtract a size from the room that is left."""
        self.room -= size
        if self.room < 0:
            raise BeyondError("values that repeat shared objects are too large for a column", RAW)

    def variant(self, found: KryoObject | None) -> Any:
        """Return the value of an object for VARIANT."""
        if found is None:
            return None
        self.spend(1)
        if found.class_name in NUMBERS:
            return found.content
        if found in self._open:
            raise BeyondError(f"an object of {found.class_name} that contains itself cannot be in a column", RAW)
        self._open.add(found)
        value = self._value(found)
        self._open.discard(found)
        return value

    def _value(self, found: KryoObject) -> Any:
        name, content = found.class_name, found.content
        if isinstance(content, list) and name not in ARRAYS:
            return self._elements(found)
        if name in HOLDERS:
            return self.variant(content[name, HOLDERS[name]])
        if name.startswith(TUPLE):
            return {key: self.variant(value) for (_, key), value in content.items()}
        if name == UTIL + "AbstractMap$SimpleEntry":
            return {key: self.variant(value) for (_, key), value in content.items()}
        if name == "java.net.URL":
            return url_text(found)
        if name == UTIL + "Locale":
            return "_".join(part for part in content[:3] if part)
        if name == "java.text.SimpleDateFormat":
            return _pattern(content)
        if name in SIMPLE or isinstance(content, bytes):
            return content
        if name in DIALECTS[self.form.version].readers or name in ARRAYS or name.startswith((TIME, "java.sql.")):
            return self.leaf(found, False)
        return self._other(found)

    def _elements(self, found: KryoObject) -> Any:
        content = found.content
        if found.class_name.endswith("EnumSet"):
            return [self.constant(found.header, ordinal) for ordinal in content]
        if content and isinstance(content[0], tuple):
            return entries([(self.variant(key), self.variant(value)) for key, value in content])
        if not content and found.class_name.endswith(("Map", "Map1", "MapN", "Hashtable", "Properties")):
            return {}
        return [self.variant(element) for element in content]

    def _other(self, found: KryoObject) -> Any:
        name, content = found.class_name, found.content
        if isinstance(content, int) and self.classes.is_enum(name):
            return self.constant(name, content)
        if isinstance(content, dict):
            return {key: self.variant(value) for key, value in self.fields(found).items()}
        if isinstance(content, tuple):
            return [part for part in content if isinstance(part, str | int | bool | None)]
        return content

    @staticmethod
    def fields(found: KryoObject) -> dict[str, KryoObject | None]:
        """Return the fields of an object by the names of their columns."""
        named: dict[str, KryoObject | None] = {}
        for (declaring, field), value in found.content.items():
            named[column_name(named, declaring, field)] = value
        return named

    def constant(self, name: str, ordinal: int) -> str:
        """Return the name of a constant, or its position if the enum is not described."""
        constants = ENUMS.get(name) or (self.classes.constants(name) if self.classes.find(name) else ())
        if ordinal < len(constants):
            return constants[ordinal]
        if constants:
            raise DamagedError(f"one of {len(constants)} constants of {name}", ordinal)
        return f"{name}#{ordinal}"

    def leaf(self, found: KryoObject, typed: bool) -> Any:
        """Return the value of an object of a JDK class, as in a state of that class."""
        data = memoryview(write_object(found, self.form))
        version = self.form.version
        self.spend(len(data))
        walker = KryoWalker(data, (0, len(data)), DIALECTS[version], self._plain, self.options, typed, Budget())
        return walker.value()


def _pattern(stream: bytes) -> Any:
    """Return the pattern of a SimpleDateFormat, which is written as a Java object stream."""
    found = parse_java_object(DataInputView(memoryview(stream)))
    return found.fields.get("pattern") if isinstance(found, JavaObject) else stream


def column_name(taken: dict[str, Any], declaring: str, field: str) -> str:
    """Return the name of a field's column, given the names of the fields before it."""
    if field not in taken:
        return field
    return f"{declaring.rpartition('.')[2]}.{field}"
