"""Objects as Kryo's bytes: reader and writer of class, reference and body, for both versions.

:class:`ObjectReader` returns objects with all that the bytes contain, :class:`ValueReader` the values of columns and
of VARIANT, without objects in between. What the bytes of a class are is defined once for both, by its :class:`Body`.

    value  := varint 0 null | 1 varint n [text class, where n is new] | id + 2, a registered class;  then an object
    object := [varint 0 null | 1 new | n + 2, the n-th object of this value]  body

Primitives and boxes have no references; with Kryo 5, enums have none either. Where null is possible, a byte 0 (null) or
1 precedes them. Bodies have no lengths, so all bytes after an object of an unknown class are unreadable.
Flink: ``Kryo#readClassAndObject``, ``DefaultClassResolver``, ``MapReferenceResolver``.

:class:`ObjectWriter` numbers class names and references again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark_savepoint.formats.class_files.java_types import JavaType
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import Generics2, Generics5
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import PRIMITIVES, WRAPPERS, KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import (
    BeyondError,
    DamagedError,
    ForeignError,
    KryoInput,
    KryoOutput,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import (
    MAX_DEPTH,
    RAW,
    Body,
    ObjectFormat,
    Rendering,
)

Arguments = tuple[JavaType, ...]
T = TypeVar("T")
#: Limit per batch of nulls without bytes: those in lists that hold nothing but nulls.
MAX_FREE_NULLS = 1 << 20


@dataclass
class Budget:
    """Number of nulls without bytes that may still be read."""

    nulls: int = MAX_FREE_NULLS


class ObjectReader(KryoInput):
    """Reader of one value."""

    def __init__(self, data: memoryview, start: int, end: int, form: ObjectFormat, budget: Budget) -> None:
        super().__init__(data, start, end, form.version)
        self.form = form
        self.budget = budget
        self.names: list[str] = []
        self.objects: list[Any] = []
        self.constants: dict[tuple[str, Any], KryoObject] = {}
        self.generics2 = Generics2()
        self.generics5 = Generics5()

    def value(self, arguments: Arguments | None = None) -> Any:
        """Read a class and an object of it, or null; ``arguments`` are those of the field, for Kryo 2."""
        name = self.class_name()
        return None if name is None else self.object(name, False, arguments)

    def enum_key(self) -> Any:
        """Read a key of an EnumMap."""
        return self.value()

    def class_name(self) -> str | None:
        """Read a class; None for null."""
        number = self.varint()
        if number == 0:
            return None
        if number > 1:
            name = self.form.names.get(number - 2)
            if name is None:
                raise ForeignError(f"the class of id {number - 2}", "the snapshot registers no such class")
            return name
        name_id = self.varint()
        if name_id > len(self.names):
            raise DamagedError(f"the number of one of {len(self.names)} classes", name_id)
        if name_id == len(self.names):
            text = self.text()
            if not text:
                raise DamagedError("the name of a class", text)
            self.names.append(WRAPPERS.get(text, text))
        return self.names[name_id]

    def object(self, name: str, nullable: bool = False, arguments: Arguments | None = None) -> Any:
        """Read an object of a class, null, or a reference to an object that was read before."""
        body = self.form.body(name)
        if arguments is not None and self.order == ">":
            self.generics2.set(name, arguments)
        plain = body.plain
        reference = 1 if plain and not nullable else self.varint()
        if reference != 1:
            return self._seen(reference, name, nullable, plain)
        kryo_object = KryoObject(name)
        if not plain:
            self.objects.append(kryo_object)
        generics = self.generics5
        generics.depth += 1
        if generics.depth > MAX_DEPTH:
            raise ForeignError(name, f"objects are nested deeper than {MAX_DEPTH}")
        body.read(self, kryo_object)
        generics.depth -= 1
        if plain and name not in PRIMITIVES:
            return self.constants.setdefault((name, kryo_object.content), kryo_object)
        return kryo_object

    def _seen(self, reference: int, name: str, nullable: bool, plain: bool) -> KryoObject | None:
        if reference == 0 and nullable:
            return None
        if plain or not 2 <= reference < len(self.objects) + 2:
            raise DamagedError(f"a new {name}, or one of {len(self.objects)} objects", reference)
        referenced: KryoObject = self.objects[reference - 2]
        if referenced.class_name != name:
            raise DamagedError(f"a reference to a {name}", f"one to a {referenced.class_name}")
        return referenced

    def primitive(self, name: str) -> Any:
        """Read a field of a primitive type."""
        return KryoObject(name, PRIMITIVE_READERS[name](self))

    def java_stream(self, parse: Callable[[DataInputView], T]) -> T:
        """Parse an object that Java's own serialization wrote, and move past it; no Java class is instantiated."""
        view = DataInputView(self.data[self.position : self.end])
        try:
            return parse(view)
        except CorruptStateError as error:
            raise DamagedError(str(error.facts.get("expected")), error.facts.get("found")) from None
        finally:
            self.position += view.position

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
            raise DamagedError(f"at most {MAX_FREE_NULLS} nulls without bytes", "more")


class ValueReader(ObjectReader):
    """Reader of the values of one column, one after the other: see :class:`Rendering`."""

    def __init__(self, data: memoryview, rendering: Rendering, budget: Budget) -> None:
        super().__init__(data, 0, len(data), rendering.form, budget)
        self.rendering = rendering
        self.bodies = rendering.form.found
        #: The classes of ``objects``.
        self.classes: list[str] = []

    def begin(self, start: int, end: int) -> None:
        """Move to a value."""
        self.position, self.end = start, end
        if self.names:
            self.names.clear()
        if self.objects:
            self.objects.clear()
            self.classes.clear()
        if self.generics5.depth:  # the value before was not read to its end
            self.generics2, self.generics5 = Generics2(), Generics5()

    def typed_value(self, expected: Collection[str]) -> Any:
        """Read a value, or null, of one of the classes that a column has."""
        name = self.class_name()
        if name is not None and name not in expected:
            raise ForeignError(name)
        return None if name is None else self.object(name)

    def object(self, name: str, nullable: bool = False, arguments: Arguments | None = None) -> Any:
        """Return the value of an object; None for null."""
        body = self.bodies.get(name) or self.form.body(name)
        if body.plain:
            reference = self.varint() if nullable else 1
            if reference != 1:
                return self._seen(reference, name, nullable, True)
            raw = body.raw(self) if body.raw is not None else self._raw(name, body)
            return raw if body.value is None else body.value(self.rendering, raw)
        if arguments is not None and self.order == ">":
            self.generics2.set(name, arguments)
        reference = self.varint()
        if reference != 1:
            return self._seen(reference, name, nullable, False)
        object_id = len(self.objects)
        self.objects.append(_OPEN)
        self.classes.append(name)
        generics = self.generics5
        generics.depth += 1
        if generics.depth > MAX_DEPTH:
            raise ForeignError(name, f"objects are nested deeper than {MAX_DEPTH}")
        raw = body.raw(self) if body.raw is not None else self._raw(name, body)
        generics.depth -= 1
        value = raw if body.value is None else body.value(self.rendering, raw)
        self.objects[object_id] = raw if body.part else value
        return value

    def _raw(self, name: str, body: Body) -> Any:
        kryo_object = KryoObject(name)
        body.read(self, kryo_object)
        return kryo_object.content if body.raw_of is None else body.raw_of(kryo_object)

    def _seen(self, reference: int, name: str, nullable: bool, plain: bool) -> Any:
        if reference == 0 and nullable:
            return None
        if plain:
            raise DamagedError(f"a new {name}", reference)
        referenced = self._recall(reference, name)
        body = self.form.body(name)
        return body.value(self.rendering, referenced) if body.part and body.value is not None else referenced

    def _recall(self, reference: int, name: str) -> Any:
        if not 2 <= reference < len(self.objects) + 2:
            raise DamagedError(f"a new {name}, or one of {len(self.objects)} objects", reference)
        if self.classes[reference - 2] != name:
            raise DamagedError(f"a reference to a {name}", f"one to a {self.classes[reference - 2]}")
        referenced = self.objects[reference - 2]
        if referenced is not _OPEN:
            return referenced
        if self.rendering.options.ends:
            return None
        raise BeyondError(f"an object of {name} that contains itself cannot be in a column", RAW)

    def enum_key(self) -> Any:
        """Return a key of an EnumMap: where its enum is not described, the class and the position of the constant."""
        name = self.class_name()
        if name is None:
            return None
        try:
            self.form.body(name)
        except ForeignError:
            if self.form.registered.is_custom(name):
                raise
            return self._constant(name)
        return self.object(name)

    def _constant(self, name: str) -> str:
        reference = self.varint() if self.form.version == 2 else 1
        if reference != 1:
            return str(self._recall(reference, name))
        position = self.varint()
        if position == 0:
            raise DamagedError(f"a constant of {name}", "null")
        constant = f"{name}#{position - 1}"
        if self.form.version == 2:
            self.objects.append(constant)
            self.classes.append(name)
        return constant

    def part(self, name: str) -> Any:
        """Read the raw numbers of an object that is a part of another, whose class is not written; null is an error."""
        reference = self.varint()
        if reference > 1:
            return self._recall(reference, name)
        if reference == 0:
            raise DamagedError(f"a {name}", "null")
        body = self.bodies.get(name) or self.form.body(name)
        if body.raw is None or not body.part:
            raise ForeignError(name, "the job has its own serializer for it")
        object_id = len(self.objects)
        self.objects.append(_OPEN)
        self.classes.append(name)
        raw = self.objects[object_id] = body.raw(self)
        return raw

    def primitive(self, name: str) -> Any:
        raw, value = PRIMITIVE_READERS[name](self), self.form.bodies[name].value
        return raw if value is None else value(self.rendering, raw)


_OPEN = object()


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

    def value(self, kryo_object: KryoObject | None, arguments: Arguments | None = None) -> None:
        """Write the class of an object and the object, or null."""
        if kryo_object is None:
            self.data.append(0)
        else:
            self.class_name(kryo_object.class_name)
            self.object(kryo_object, False, arguments)

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
        name_id = self.names.get(name)
        if name_id is not None:
            self.varint(name_id)
            return
        self.varint(len(self.names))
        self.names[name] = len(self.names)
        self.name_of_class(BOXES.get(name, name))

    def object(
        self, kryo_object: KryoObject | None, nullable: bool = False, arguments: Arguments | None = None
    ) -> None:
        """Write an object without its class, or null; ``arguments`` are those of the field, for Kryo 2."""
        if kryo_object is None:
            self.data.append(0)
            return
        name = kryo_object.class_name
        body = self.form.body(name)
        if arguments is not None and self.order == ">":
            self.generics2.set(name, arguments)
        if body.plain:
            if nullable:
                self.data.append(1)
        else:
            object_id = self.objects.get(kryo_object)
            if object_id is not None:
                self.varint(object_id + 2)
                return
            self.objects[kryo_object] = len(self.objects)
            self.data.append(1)
        generics = self.generics5
        generics.depth += 1
        if generics.depth > MAX_DEPTH:
            raise ForeignError(name, f"objects are nested deeper than {MAX_DEPTH}")
        body.write(self, kryo_object)
        generics.depth -= 1


def _write_nothing(_: ObjectWriter, __: object) -> None:
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
    "void": _write_nothing,
}
