"""Reader of Kryo's bytes into objects: class, reference and body, for both versions.

    value  := varint 0 null | 1 varint n [text class, where n is new] | id + 2, a registered class;  then an object
    object := [varint 0 null | 1 new | n + 2, the n-th object of this value]  body

Primitives and boxes have no references; with Kryo 5, enums have none either. Where null is possible, a byte 0 (null) or
1 precedes them.
Flink: ``Kryo#readClassAndObject``, ``DefaultClassResolver``, ``MapReferenceResolver``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark_savepoint.formats.class_files.java_types import JavaType
from pyspark_savepoint.formats.serializers.kryo.classes.generic_types import Generics2, Generics5
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import DamagedError, ForeignError, KryoInput
from pyspark_savepoint.formats.serializers.kryo.kryo_walker import PRIMITIVES, WRAPPERS, Budget
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import MAX_DEPTH, ObjectFormat

Arguments = tuple[JavaType, ...]


class ObjectReader(KryoInput):
    """Reader of one value."""

    def __init__(self, data: memoryview, start: int, end: int, form: ObjectFormat, budget: Budget) -> None:
        super().__init__(data, start, end, form.version)
        self.form = form
        self.budget = budget
        self.names: list[str] = []
        self.objects: list[KryoObject] = []
        self.constants: dict[tuple[str, Any], KryoObject] = {}
        self.generics2 = Generics2()
        self.generics5 = Generics5()

    def value(self, arguments: Arguments | None = None) -> KryoObject | None:
        """Read a class and an object of it, or null; ``arguments`` are those of the field, for Kryo 2."""
        name = self.class_name()
        return None if name is None else self.object(name, False, arguments)

    def class_name(self) -> str | None:
        """Read a class; None for null."""
        number = self.varint()
        if number == 0:
            return None
        if number > 1:
            name = self.form.registered.ids.get(number - 2)
            if name is None:
                raise ForeignError(f"the class of id {number - 2}", "the snapshot registers no such class")
            return WRAPPERS.get(name, name)
        place = self.varint()
        if place > len(self.names):
            raise DamagedError(f"the number of one of {len(self.names)} classes", place)
        if place == len(self.names):
            text = self.text()
            if not text:
                raise DamagedError("the name of a class", text)
            self.names.append(WRAPPERS.get(text, text))
        return self.names[place]

    def object(self, name: str, nullable: bool = False, arguments: Arguments | None = None) -> KryoObject | None:
        """Read an object of a class, null, or a reference to an object that was read before."""
        body = self.form.body(name)
        if arguments is not None and self.order == ">":
            self.generics2.set(name, arguments)
        plain = name in PRIMITIVES or (body.plain and self.order == "<")
        reference = 1 if plain and not nullable else self.varint()
        if reference != 1:
            return self._seen(reference, name, nullable, plain)
        found = KryoObject(name)
        if not plain:
            self.objects.append(found)
        generics = self.generics5
        generics.depth += 1
        if generics.depth > MAX_DEPTH:
            raise ForeignError(name, f"objects are nested deeper than {MAX_DEPTH}")
        body.read(self, found)
        generics.depth -= 1
        if plain and body is not self.form.bodies.get(name):
            return self.constants.setdefault((name, found.content), found)
        return found

    def _seen(self, reference: int, name: str, nullable: bool, plain: bool) -> KryoObject | None:
        if reference == 0 and nullable:
            return None
        if plain or not 2 <= reference < len(self.objects) + 2:
            raise DamagedError(f"a new {name}, or one of {len(self.objects)} objects", reference)
        found = self.objects[reference - 2]
        if found.class_name != name:
            raise DamagedError(f"a reference to a {name}", f"one to a {found.class_name}")
        return found

    def some_text(self) -> str:
        """Read a string that is not null."""
        text = self.text()
        if text is None:
            raise DamagedError("a string", "null")
        return text

    def spend(self, nulls: int) -> None:
        """Subtract elements without bytes from the budget."""
        self.budget.nulls -= nulls
        if self.budget.nulls < 0:
            raise DamagedError("fewer elements without bytes", "more")


def _nothing(_: ObjectReader) -> None:
    return None


PRIMITIVE_READERS: Mapping[str, Callable[[ObjectReader], Any]] = {
    "int": ObjectReader.signed,
    "long": ObjectReader.signed_long,
    "boolean": ObjectReader.boolean,
    "byte": ObjectReader.signed_byte,
    "short": lambda reader: reader.fixed("h"),
    "char": lambda reader: chr(int(reader.fixed("H"))),
    "float": lambda reader: reader.fixed("f"),
    "double": lambda reader: reader.fixed("d"),
    "void": _nothing,
}
