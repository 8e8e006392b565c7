"""Bodies of collections and maps, for both versions of Kryo.

    collection 2  [comparator]  varint n  elements
    collection 5  0 elements               01 [comparator]
                  of a known final class   flag(some null, n + 1) [comparator]  elements: some null ? ref or 00 : ref
                  all of one class         flag(1, n + 1) [comparator]  class  u8 some null  elements without class
                  only nulls               flag(1, n + 1) [comparator]  00
                  else                     flag(0, n + 1) [comparator]  elements with class
    map 2         [comparator]  varint n  keys and values;  5: varint n + 1  [comparator]  keys and values

The class of an element, key or value precedes it, unless the type argument of the field is final: then ref or 00.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import erased
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    COLLECTION,
    EMPTY,
    EMPTY_MAP,
    ENTRY,
    LANG,
    MAP,
    NO_NULLS,
    SINGLETON,
    SKIP_LIST_MAP,
    SORTED_COLLECTION,
    SORTED_MAP,
    UTIL,
    KryoObject,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import (
    ObjectReader,
    ObjectWriter,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body, Rendering
from pyspark_savepoint.formats.serializers.kryo.objects.times import plain_body

ENUM_MAP = UTIL + "EnumMap"


def size_plus_one(reader: ObjectReader) -> int:
    """Read a size plus one; 0 is an error, because null is already encoded before the object."""
    size = reader.size(less=1)
    if size < 0:
        raise DamagedError("a size plus one", 0)
    return size


def is_final(stream: ObjectReader | ObjectWriter, name: str | None) -> str | None:
    """Return a class if it is final, else None."""
    return name if name is not None and stream.form.classes.is_final(name) else None


def _argument_2(stream: ObjectReader | ObjectWriter, name: str, count: int = 1) -> list[str | None]:
    """Return the final classes among the type arguments that a field set on a collection or map."""
    classes: list[str | None] = [None] * count
    for place, kind in enumerate(stream.generics2.take(name)[:count]):
        classes[place] = is_final(stream, erased(kind))
    return classes


def _read_comparator(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.header = reader.value()


def _write_comparator(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.value(kryo_object.header)


def _no_header(_: ObjectReader | ObjectWriter, __: KryoObject) -> None:
    return


class _Collection2:
    """Collections of Kryo 2."""

    def __init__(self, header: bool = False) -> None:
        self.header = header

    def read(self, reader: ObjectReader, kryo_object: KryoObject) -> None:
        (final,) = _argument_2(reader, kryo_object.class_name)
        if self.header:
            _read_comparator(reader, kryo_object)
        size = reader.size()
        kryo_object.content = elements = []
        if final is None:
            for _ in range(size):
                elements.append(reader.value())
        else:
            for _ in range(size):
                elements.append(reader.object(final, True))

    def write(self, writer: ObjectWriter, kryo_object: KryoObject) -> None:
        (final,) = _argument_2(writer, kryo_object.class_name)
        if self.header:
            _write_comparator(writer, kryo_object)
        writer.varint(len(kryo_object.content))
        for element in kryo_object.content:
            if final is None:
                writer.value(element)
            else:
                writer.object(element, True)


class _Collection5:
    """Collections of Kryo 5; ``nulls``: elements may be null."""

    def __init__(self, header: bool = False, nulls: bool = True) -> None:
        self.read_header = _read_comparator if header else _no_header
        self.write_header = _write_comparator if header else _no_header
        self.nulls = nulls

    def read(self, reader: ObjectReader, kryo_object: KryoObject) -> None:
        arguments = reader.generics5.next_types()
        final = is_final(reader, reader.generics5.resolve(arguments[0]) if arguments else None)
        flag, size = (False, reader.varint() - 1) if final and not self.nulls else reader.flag_and_size()
        if size < 0:
            raise DamagedError("the size of a collection, plus one", 0)
        kryo_object.content = elements = []
        self.read_header(reader, kryo_object)
        if final:
            for _ in range(reader.bounded(size)):
                elements.append(reader.object(final, flag))
        elif size:
            self._read_unknown(reader, elements, flag, size)
        reader.generics5.pop()

    def _read_unknown(self, reader: ObjectReader, elements: list[Any], same: bool, size: int) -> None:
        """Read elements; their class is written once before all of them if ``same``, else before each."""
        if not same:
            for _ in range(reader.bounded(size)):
                elements.append(reader.value())
            return
        name = reader.class_name()
        if name is None:
            reader.spend(size)
            elements += [None] * size
            return
        if name == "void":
            reader.spend(size)
        nullable = self.nulls and reader.boolean()
        for _ in range(reader.bounded(size)):
            elements.append(reader.object(name, nullable))

    def write(self, writer: ObjectWriter, kryo_object: KryoObject) -> None:
        elements: list[KryoObject | None] = kryo_object.content
        if not elements:
            writer.byte(1)
            self.write_header(writer, kryo_object)
            return
        generics = writer.generics5
        arguments = generics.next_types()
        final = is_final(writer, generics.resolve(arguments[0]) if arguments else None)
        some = None in elements
        if final:
            if self.nulls:
                writer.flag_and_size(some, len(elements) + 1)
            else:
                writer.varint(len(elements) + 1)
            self.write_header(writer, kryo_object)
            for element in elements:
                writer.object(element, some)
        else:
            self._write_unknown(writer, kryo_object, elements, some)
        generics.pop()

    def _write_unknown(
        self, writer: ObjectWriter, kryo_object: KryoObject, elements: list[KryoObject | None], some: bool
    ) -> None:
        names = {element.class_name for element in elements if element is not None}
        writer.flag_and_size(len(names) < 2, len(elements) + 1)
        self.write_header(writer, kryo_object)
        if len(names) > 1:
            for element in elements:
                writer.value(element)
            return
        if not names:
            writer.byte(0)
            return
        writer.class_name(names.pop())
        if self.nulls:
            writer.boolean(some)
        for element in elements:
            writer.object(element, self.nulls and some)


class _Map2:
    """Maps of Kryo 2."""

    def __init__(self, header: bool = False) -> None:
        self.header = header

    def read(self, reader: ObjectReader, kryo_object: KryoObject) -> None:
        key, value = _argument_2(reader, kryo_object.class_name, count=2)
        if self.header:
            _read_comparator(reader, kryo_object)
        kryo_object.content = entries = []
        read_key = reader.enum_key if kryo_object.class_name == ENUM_MAP else reader.value
        for _ in range(reader.size()):
            first = read_key() if key is None else reader.object(key, True)
            entries.append((first, reader.value() if value is None else reader.object(value, True)))

    def write(self, writer: ObjectWriter, found: KryoObject) -> None:
        finals = _argument_2(writer, found.class_name, count=2)
        if self.header:
            _write_comparator(writer, found)
        writer.varint(len(found.content))
        for entry in found.content:
            for kryo_object, final in zip(entry, finals, strict=True):
                if final is None:
                    writer.value(kryo_object)
                else:
                    writer.object(kryo_object, True)


class _Map5:
    """Maps of Kryo 5."""

    def __init__(self, header: bool = False) -> None:
        self.read_header = _read_comparator if header else _no_header
        self.write_header = _write_comparator if header else _no_header

    def _types(self, stream: ObjectReader | ObjectWriter) -> tuple[Any, str | None, str | None]:
        """Return the type of keys if there is one, and the classes of keys and values that are final."""
        generics = stream.generics5
        arguments = generics.next_types()
        if not arguments:
            return None, None, None
        key = is_final(stream, generics.resolve(arguments[0]))
        value = is_final(stream, generics.resolve(arguments[1])) if len(arguments) > 1 else None
        return arguments[0], key, value

    def read(self, reader: ObjectReader, kryo_object: KryoObject) -> None:
        size = size_plus_one(reader)
        self.read_header(reader, kryo_object)
        kryo_object.content = entries = []
        if not size:
            return
        generics = reader.generics5
        kind, key, value = self._types(reader)
        read_key = reader.enum_key if kryo_object.class_name == ENUM_MAP else reader.value
        for _ in range(size):
            if kind is not None:
                generics.push(kind)
            first = read_key() if key is None else reader.object(key, True)
            if kind is not None:
                generics.pop()
            entries.append((first, reader.value() if value is None else reader.object(value, True)))
        generics.pop()

    def write(self, writer: ObjectWriter, found: KryoObject) -> None:
        writer.varint(len(found.content) + 1)
        self.write_header(writer, found)
        if not found.content:
            return
        generics = writer.generics5
        kind, *finals = self._types(writer)
        for entry in found.content:
            for index, (kryo_object, final) in enumerate(zip(entry, finals, strict=True)):
                around = index == 0 and kind is not None
                if around:
                    generics.push(kind)
                if final is None:
                    writer.value(kryo_object)
                else:
                    writer.object(kryo_object, True)
                if around:
                    generics.pop()
        generics.pop()


def entries(_: Rendering, pairs: list[tuple[Any, Any]]) -> Any:
    """Return a map as an object if all keys are strings, else as an array of keys and values."""
    fields = {key: value for key, value in pairs if isinstance(key, str)}
    if len(fields) == len(pairs):
        return fields
    return [{"key": key, "value": value} for key, value in pairs]


def _read_as_list_2(reader: ObjectReader, kryo_object: KryoObject) -> None:
    """Read ``Arrays.asList``: the class of the array's elements follows the size."""
    size = reader.varint()
    kryo_object.header = reader.class_name()
    kryo_object.content = elements = []
    for _ in range(reader.bounded(size)):
        elements.append(reader.value())


def _write_as_list_2(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.varint(len(kryo_object.content))
    writer.class_name(kryo_object.header or LANG + "Object")
    for element in kryo_object.content:
        writer.value(element)


def _read_singleton(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.content = []
    kryo_object.content.append(reader.value())


def _write_singleton(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    (element,) = kryo_object.content
    writer.value(element)


def _read_entry(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.content = []
    key = reader.value()
    kryo_object.content.append((key, reader.value()))


def _write_entry(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    ((key, value),) = kryo_object.content
    writer.value(key)
    writer.value(value)


def _write_nothing(_: ObjectWriter, __: object) -> None:
    return


def _of(codec: _Collection2 | _Collection5) -> Body:
    return Body(codec.read, codec.write)


def _of_map(codec: _Map2 | _Map5) -> Body:
    return Body(codec.read, codec.write, value=entries)


_COMMON: Mapping[str, Body] = {
    EMPTY: plain_body(lambda _: [], _write_nothing),
    EMPTY_MAP: plain_body(lambda _: [], _write_nothing, value=entries),
    SINGLETON: Body(_read_singleton, _write_singleton),
    ENTRY: Body(_read_entry, _write_entry, value=entries),
}
COLLECTIONS_2: Mapping[str, Body] = {
    **_COMMON,
    COLLECTION: _of(_Collection2()),
    NO_NULLS: _of(_Collection2()),
    SORTED_COLLECTION: _of(_Collection2(header=True)),
    MAP: _of_map(_Map2()),
    SKIP_LIST_MAP: _of_map(_Map2()),
    SORTED_MAP: _of_map(_Map2(header=True)),
    UTIL + "Arrays$ArrayList": Body(_read_as_list_2, _write_as_list_2),
}
COLLECTIONS_5: Mapping[str, Body] = {
    **_COMMON,
    COLLECTION: _of(_Collection5()),
    UTIL + "Arrays$ArrayList": _of(_Collection5()),
    NO_NULLS: _of(_Collection5(nulls=False)),
    SORTED_COLLECTION: _of(_Collection5(header=True)),
    MAP: _of_map(_Map5()),
    SKIP_LIST_MAP: _of_map(_Map5(header=True)),
    SORTED_MAP: _of_map(_Map5(header=True)),
}
