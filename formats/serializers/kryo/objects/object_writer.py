"""Writer of objects as Kryo's bytes, for both versions; class names and references are numbered again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark_savepoint.formats.class_files.java_types import JavaType
from pyspark_savepoint.formats.serializers.kryo.classes.generic_types import Generics2, Generics5
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import WRAPPERS
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.kryo_output import KryoOutput
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import MAX_DEPTH, ObjectFormat

Arguments = tuple[JavaType, ...]
#: Names of the boxes, by their primitive types.
BOXES: Mapping[str, str] = {primitive: box for box, primitive in WRAPPERS.items()}


class ObjectWriter(KryoOutput):
    """Writer of one value."""

    def __init__(self, form: ObjectFormat) -> None:
        super().__init__(form.version)
        self.form = form
        self.names: dict[str, int] = {}
        self.objects: dict[KryoObject, int] = {}
        self.generics2 = Generics2()
        self.generics5 = Generics5()

    def value(self, found: KryoObject | None, arguments: Arguments | None = None) -> None:
        """Write the class of an object and the object, or null."""
        if found is None:
            self.data.append(0)
        else:
            self.class_name(found.class_name)
            self.object(found, False, arguments)

    def class_name(self, name: str | None) -> None:
        """Write a class or null."""
        if name is None:
            self.data.append(0)
            return
        number = self.form.numbers.get(name)
        if number is not None:
            self.varint(number + 2)
            return
        self.data.append(1)
        place = self.names.get(name)
        if place is not None:
            self.varint(place)
            return
        self.varint(len(self.names))
        self.names[name] = len(self.names)
        self.text(BOXES.get(name, name))

    def object(self, found: KryoObject | None, nullable: bool = False, arguments: Arguments | None = None) -> None:
        """Write an object without its class, or null; ``arguments`` are those of the field, for Kryo 2."""
        if found is None:
            self.data.append(0)
            return
        name = found.class_name
        body = self.form.body(name)
        if arguments is not None and self.order == ">":
            self.generics2.set(name, arguments)
        if body.plain:
            if nullable:
                self.data.append(1)
        else:
            place = self.objects.get(found)
            if place is not None:
                self.varint(place + 2)
                return
            self.objects[found] = len(self.objects)
            self.data.append(1)
        generics = self.generics5
        generics.depth += 1
        if generics.depth > MAX_DEPTH:
            raise ForeignError(name, f"objects are nested deeper than {MAX_DEPTH}")
        body.write(self, found)
        generics.depth -= 1


def _nothing(_: ObjectWriter, __: object) -> None:
    return None


PRIMITIVE_WRITERS: Mapping[str, Callable[[ObjectWriter, Any], None]] = {
    "int": ObjectWriter.signed,
    "long": ObjectWriter.signed_long,
    "boolean": ObjectWriter.boolean,
    "byte": ObjectWriter.byte,
    "short": lambda writer, value: writer.fixed("h", value),
    "char": lambda writer, value: writer.fixed("H", ord(value)),
    "float": lambda writer, value: writer.fixed("f", value),
    "double": lambda writer, value: writer.fixed("d", value),
    "void": _nothing,
}
