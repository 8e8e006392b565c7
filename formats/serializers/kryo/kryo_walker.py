"""Reader of objects as Kryo writes them: class, reference and body. No Java class is instantiated.

    value  := varint 0 null | 1 varint n [text class, where n is new] | id + 2, a registered class;  then an object
    object := [varint 0 null | 1 new | n + 2, the n-th object of this value]  body

Primitives and their wrappers have no references; with Kryo 5, enums have none either. Bodies have no lengths, so all
bytes after an object of an unknown class are unreadable. ``kryo_types.py`` reads the classes of the JDK.
Flink: ``Kryo#readClassAndObject``, ``DefaultClassResolver``, ``MapReferenceResolver``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.java_stream import JavaValue, parse_java_object
from pyspark_savepoint.formats.serializers.kryo.kryo_input import DamagedError, ForeignError, KryoInput

MAX_DEPTH = 64
#: Limit per batch of nulls without bytes: those in lists that hold nothing but nulls.
MAX_FREE_NULLS = 1 << 20

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
_OPEN = object()

Reader = Callable[["KryoWalker"], Any]


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
        return name in self.custom or (self.any_custom and name not in PRIMITIVES and name != "java.lang.String")


@dataclass(frozen=True)
class KryoDialect:
    """Version of Kryo: the readers of bodies by class, and properties of classes."""

    version: int
    readers: Mapping[str, Reader]
    arrays: Mapping[str, Reader]
    enums: frozenset[str]
    #: Final classes, and classes and interfaces that others extend or implement.
    finals: frozenset[str]
    general: frozenset[str]


@dataclass(frozen=True)
class KryoPart:
    """Object that may also be a part of others, which use its ``raw`` value; ``finish`` returns its own value."""

    kind: Callable[[KryoWalker], KryoPart]
    raw: Any
    finish: Callable[[], Any]


@dataclass
class Budget:
    """Number of nulls without bytes that may still be read."""

    nulls: int = field(default=MAX_FREE_NULLS)


class KryoWalker(KryoInput):
    """Reader of one value; ``typed`` is true if the column has the type of the value, false for VARIANT."""

    def __init__(
        self,
        data: memoryview,
        span: tuple[int, int],
        dialect: KryoDialect,
        classes: KryoClasses,
        options: DecodeOptions,
        typed: bool,
        budget: Budget,
    ) -> None:
        super().__init__(data, *span, dialect.version)
        self.dialect = dialect
        self.classes = classes
        self.options = options
        self.typed = typed
        self.budget = budget
        self.names: list[str] = []
        self.objects: list[Any] = []
        self.depth = 0

    def value(self, expected: Collection[str] = ()) -> Any:
        """Read a class and an object of it, or null; ``expected`` limits the classes, if the column has only these."""
        name = self.class_name()
        if name is not None and expected and name not in expected:
            raise ForeignError(name)
        return None if name is None else self.object(name)

    def class_name(self) -> str | None:
        """Read a class; None for null."""
        number = self.varint()
        if number == 0:
            return None
        if number == 1:
            return self._class_by_name()
        name = self.classes.ids.get(number - 2)
        if name is None:
            raise ForeignError(f"the class of id {number - 2}")
        return name

    def _class_by_name(self) -> str:
        number = self.varint()
        if number > len(self.names):
            raise DamagedError(f"the number of one of {len(self.names)} classes", number)
        if number == len(self.names):
            name = self.text()
            if not name:
                raise DamagedError("the name of a class", name)
            self.names.append(WRAPPERS.get(name, name))
        return self.names[number]

    def object(self, name: str, nullable: bool = False) -> Any:
        """Read an object of a class, or a reference to an object that was read before."""
        self._expect_known(name)
        plain = name in PRIMITIVES or (self.dialect.version > 2 and name in self.dialect.enums)
        if plain and not nullable:
            return self._body(name)
        reference = self.varint()
        if reference == 0 and nullable:
            return None
        if plain or reference < 2:
            if reference != 1:
                raise DamagedError(f"a new {name}", reference)
            return self._body(name) if plain else self._new(name)
        return self._seen(reference - 2)

    def _new(self, name: str) -> Any:
        return _finished(self._remember(lambda: self._body(name)))

    def _remember(self, read: Callable[[], Any]) -> Any:
        """Read an object and number it; objects are numbered in the order in which they begin."""
        place = len(self.objects)
        self.objects.append(_OPEN)
        self.objects[place] = read()
        return self.objects[place]

    def _seen(self, number: int) -> Any:
        return _finished(self._recall(number))

    def _recall(self, number: int) -> Any:
        if number >= len(self.objects):
            raise DamagedError(f"a reference to one of {len(self.objects)} objects", number)
        if self.objects[number] is _OPEN:
            raise ForeignError("an object inside itself")
        return self.objects[number]

    def part(self, read: Callable[[KryoWalker], KryoPart]) -> Any:
        """Read the raw value of a field of a final class, whose class is not written; null is an error."""
        reference = self.varint()
        if reference == 0:
            raise DamagedError("a part of a value", "null")
        found = self._remember(lambda: read(self)) if reference == 1 else self._recall(reference - 2)
        if not isinstance(found, KryoPart) or found.kind is not read:
            raise DamagedError("a part of a value", "an object of another class")
        return found.raw

    def constant(self, name: str) -> Any:
        """Read a constant of an enum whose constants are not known: its class and position."""
        if self.classes.is_custom(name):
            raise ForeignError(name)
        if self.dialect.version > 2:
            return self._position(name)
        reference = self.varint()
        if reference >= 2:
            return self._seen(reference - 2)
        if reference == 0:
            raise DamagedError(f"a constant of {name}", "null")
        return self._remember(lambda: self._position(name))

    def _position(self, name: str) -> str:
        position = self.varint()
        if position == 0:
            raise DamagedError(f"a constant of {name}", "null")
        return f"{name}#{position - 1}"

    def java_object(self) -> JavaValue:
        """Read an object that Java's own serialization wrote; none is made."""
        view = DataInputView(self.data[self.position : self.end])
        try:
            found = parse_java_object(view)
        except CorruptStateError as error:
            raise DamagedError(error.facts.get("expected", "a Java object"), error.facts.get("found")) from None
        self.position += view.position
        return found

    def _expect_known(self, name: str) -> None:
        """Raise ForeignError for an unknown class, for which not even references can be distinguished from bodies."""
        known = name[0] == "[" or name in self.dialect.readers
        if not known or self.classes.is_custom(name):
            raise ForeignError(name)

    def _body(self, name: str) -> Any:
        reader = self.dialect.readers.get(name) or self.dialect.arrays.get(name)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ForeignError(f"objects nested deeper than {MAX_DEPTH}")
        value = reader(self) if reader else self._array(name)
        self.depth -= 1
        return value

    def _array(self, name: str) -> list[Any] | None:
        """Read an array of objects; elements do not repeat their class if it is final, as arrays are."""
        element = component(name)
        final = element[0] == "[" or element in self.dialect.finals
        if not final and element not in self.dialect.general:
            raise ForeignError(name)
        size = self.size(less=1)
        if size < 0:
            return None
        return [self.object(element, nullable=True) if final else self.value() for _ in range(size)]

    def spend(self, nulls: int) -> None:
        """Subtract nulls without bytes from the budget."""
        self.budget.nulls -= nulls
        if self.budget.nulls < 0:
            raise DamagedError(f"at most {MAX_FREE_NULLS} nulls without bytes", "more")


def _finished(found: Any) -> Any:
    return found.finish() if isinstance(found, KryoPart) else found


def component(name: str) -> str:
    """Return the class of an array's elements: ``[I`` for ``[[I``, ``java.lang.String`` for ``[Ljava.lang.String;``."""
    inner = name[1:]
    if inner[:1] == "L" and inner[-1:] == ";" and len(inner) > 2:
        return WRAPPERS.get(inner[1:-1], inner[1:-1])
    if inner[:1] != "[":
        raise DamagedError("the name of an array", name)
    return inner
