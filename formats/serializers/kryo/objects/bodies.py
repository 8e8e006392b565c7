"""Bodies of JDK classes, of arrays and enums, and of classes with fields, for both versions of Kryo, and their values.

All layouts were compared with the output of both versions. ``collection_bodies.py`` has collections and maps,
``times.py`` the classes of ``java.time``, ``jdk_classes.py`` the list of classes.

Values are those of ``variant.py``: maps with text keys and objects with fields are objects, collections arrays. In a
column of its own type, a big number is a pair of unscaled value and scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from pyspark_savepoint.formats.class_files.java_types import TypeVariable
from pyspark_savepoint.formats.data_view import MAX_UTF_BYTES, DataInputView
from pyspark_savepoint.formats.java import encode_modified_utf8
from pyspark_savepoint.formats.java_stream import JavaObject, JavaValue, parse_java_object, skip_java_object
from pyspark_savepoint.formats.json_text import number_of
from pyspark_savepoint.formats.serializers.basic.java_math import to_text
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ARRAY,
    BUILDER,
    CALENDAR,
    CHARSET,
    ENUM,
    ENUM_SET,
    FIELDS,
    JAVA_STREAM,
    LANG,
    MILLIS,
    PRIMITIVES,
    STRING,
    TEXT,
    UTIL,
    FieldKey,
    KryoObject,
    component,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.collection_bodies import (
    COLLECTIONS_2,
    COLLECTIONS_5,
    is_final,
    size_plus_one,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import (
    PRIMITIVE_READERS,
    PRIMITIVE_WRITERS,
    ObjectReader,
    ObjectWriter,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body, Rendering
from pyspark_savepoint.formats.serializers.kryo.objects.times import TIMES_5, date_value, part, plain_body, times_2
from pyspark_savepoint.formats.variant import MAX_DIGITS

LOCALE_STREAM = bytes.fromhex(
    "aced0005737200106a6176612e7574696c2e4c6f63616c657ef811609c30f9ec0300064900086861736863"
) + (
    b"odeL\0\7countryt\0\x12Ljava/lang/String;L\0\x0aextensionsq\0~\0\1L\0\x08languageq\0~\0\1L\0\6scriptq\0~\0\1"
    b"L\0\7variantq\0~\0\1xp\xff\xff\xff\xff"
)
FIRST_TEXT_HANDLE = 0x7E0003

# -- arrays, enums, fields -----------------------------------------------------------------------------------------


def _read_array(reader: ObjectReader, kryo_object: KryoObject) -> None:
    """Read an array of objects; elements do not repeat their class if it is final, as arrays are."""
    element = component(kryo_object.class_name)
    arguments = reader.generics2.take(kryo_object.class_name)
    final = element[0] == "[" or reader.form.classes.is_final(element)
    size = size_plus_one(reader)
    kryo_object.content = elements = []
    for _ in range(size):
        elements.append(reader.object(element, True, arguments) if final else reader.value(arguments))


def _write_array(writer: ObjectWriter, found: KryoObject) -> None:
    element = component(found.class_name)
    arguments = writer.generics2.take(found.class_name)
    final = element[0] == "[" or writer.form.classes.is_final(element)
    writer.varint(len(found.content) + 1)
    for kryo_object in found.content:
        if final:
            writer.object(kryo_object, True, arguments)
        else:
            writer.value(kryo_object, arguments)


def _primitives(name: str, value: Callable[[Rendering, Any], Any] | None = None) -> Body:
    """Return the body of an array of primitives."""
    read, write = PRIMITIVE_READERS[name], PRIMITIVE_WRITERS[name]

    def write_all(writer: ObjectWriter, content: list[Any]) -> None:
        writer.varint(len(content) + 1)
        for primitive in content:
            write(writer, primitive)

    return plain_body(lambda reader: [read(reader) for _ in range(size_plus_one(reader))], write_all, value=value)


def _write_bytes(writer: ObjectWriter, content: bytes) -> None:
    writer.varint(len(content) + 1)
    writer.data += content


def _ordinal(reader: ObjectReader) -> int:
    number = reader.varint()
    if not 0 < number < 1 << 31:
        raise DamagedError("the number of a constant", number)
    return number - 1


def _write_ordinal(writer: ObjectWriter, ordinal: int) -> None:
    writer.varint(ordinal + 1)


def _enum(plain: bool) -> Body:
    """Return the body of the constants of enums: their ordinal plus one."""
    body = plain_body(_ordinal, _write_ordinal, plain)
    return Body(
        body.read,
        body.write,
        plain,
        value=lambda rendering, raw: rendering.constant(*raw),
        raw_of=lambda found: (found.class_name, found.content),
    )


def _constant_set(rendering: Rendering, raw: tuple[str | None, list[int]]) -> list[str]:
    name, ordinals = raw
    if name is None:
        raise DamagedError("the class of an enum", "null")
    return [rendering.constant(name, ordinal) for ordinal in ordinals]


def _read_enum_set(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.header = reader.class_name()
    kryo_object.content = [_ordinal(reader) for _ in range(reader.size())]


def _write_enum_set(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.class_name(kryo_object.header)
    writer.varint(len(kryo_object.content))
    for ordinal in kryo_object.content:
        writer.varint(ordinal + 1)


def _read_fields_2(reader: ObjectReader, kryo_object: KryoObject) -> None:
    name = kryo_object.class_name
    content: dict[FieldKey, KryoObject | None] = {}
    kryo_object.content = content
    for field in reader.form.classes.fields(name, 2, reader.generics2.take(name)):
        if field.primitive:
            content[field.key] = reader.primitive(field.erased)
        elif field.final is not None:
            content[field.key] = reader.object(field.final, True, field.arguments)
        else:
            content[field.key] = reader.value(field.arguments)
    form = reader.form
    if name in form.classes.with_synthetic and not form.has_outer:
        form.note_inner(name, content)


def _write_fields_2(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    name = kryo_object.class_name
    for field in writer.form.classes.fields(name, 2, writer.generics2.take(name)):
        value = kryo_object.content.get(field.key)
        if field.primitive:
            PRIMITIVE_WRITERS[field.erased](writer, _part(name, field.key, value).content)
        elif field.final is not None:
            writer.object(value, True, field.arguments)
        else:
            writer.value(value, field.arguments)


def _part(name: str, key: FieldKey, value: KryoObject | None) -> KryoObject:
    if value is None:
        raise ForeignError(name, f"the other version of Kryo did not write its field {key[1]!r}")
    return value


def _read_fields_5(reader: ObjectReader, kryo_object: KryoObject) -> None:
    name, generics = kryo_object.class_name, reader.generics5
    count = generics.bind(reader.form.classes.parameters(name), generics.next_types())
    content: dict[FieldKey, KryoObject | None] = {}
    kryo_object.content = content
    for field in reader.form.classes.fields(name, 5):
        if field.primitive:
            content[field.key] = reader.primitive(field.erased)
            continue
        final = field.final
        if final is None and isinstance(field.type, TypeVariable):
            final = is_final(reader, generics.resolve(field.type))
        if final is None:
            actual = reader.class_name()
            if actual is None:
                content[field.key] = None
                continue
            generics.push(field.type)
            content[field.key] = reader.object(actual)
        else:
            generics.push(field.type)
            content[field.key] = reader.object(final, True)
        generics.pop()
    generics.unbind(count)
    generics.pop()


def _write_fields_5(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    name, generics = kryo_object.class_name, writer.generics5
    count = generics.bind(writer.form.classes.parameters(name), generics.next_types())
    for field in writer.form.classes.fields(name, 5):
        value = kryo_object.content.get(field.key)
        if field.primitive:
            PRIMITIVE_WRITERS[field.erased](writer, _part(name, field.key, value).content)
            continue
        nullable = field.final is not None
        if not nullable and isinstance(field.type, TypeVariable):
            nullable = is_final(writer, generics.resolve(field.type)) is not None
        if not nullable:
            writer.class_name(None if value is None else value.class_name)
            if value is None:
                continue
        generics.push(field.type)
        writer.object(value, nullable)
        generics.pop()
    generics.unbind(count)
    generics.pop()


# -- other classes -------------------------------------------------------------------------------------------------


def _unscaled(reader: ObjectReader) -> int:
    data = reader.take(size_plus_one(reader))
    if len(data) < 2:
        if not data:
            raise DamagedError("at least one byte of a number", "none")
    elif data[0] == (data[1] >> 7) * 0xFF:
        raise DamagedError("the fewest bytes of a number", data[:16].hex())
    return int.from_bytes(data, "big", signed=True)


def _number_bytes(number: int) -> bytes:
    """Return ``BigInteger.toByteArray``."""
    return number.to_bytes(((number if number >= 0 else ~number).bit_length() // 8) + 1, "big", signed=True)


def _integer_value(rendering: Rendering, number: int) -> Any:
    if rendering.typed:
        return number, 0
    return number if abs(number) < 10**MAX_DIGITS else to_text(number, 0)


def _decimal_value(rendering: Rendering, content: tuple[int, int]) -> Any:
    if rendering.typed:
        return content
    number, scale = content
    if abs(number) < 10**MAX_DIGITS:
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    return to_text(number, scale)


def _write_unscaled(writer: ObjectWriter, number: int) -> None:
    _write_bytes(writer, _number_bytes(number))


def _write_decimal(writer: ObjectWriter, content: tuple[int, int]) -> None:
    _write_unscaled(writer, content[0])
    writer.signed(content[1])


def _read_bits(reader: ObjectReader, kryo_object: KryoObject) -> None:
    """Read 64 bits per word; Kryo 2 also writes words that are 0, so their number is kept."""
    words = reader.size()
    data = np.frombuffer(reader.take(words * 8), reader.order + "u8").astype("<u8").tobytes()
    kryo_object.content, kryo_object.header = int.from_bytes(data, "little"), words


def _write_bits(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    words = (kryo_object.content.bit_length() + 63) // 64
    if writer.order == ">":
        words = max(words, kryo_object.header or 0, 1)
    writer.varint(words)
    data = np.frombuffer(kryo_object.content.to_bytes(words * 8, "little"), "<u8")
    writer.data += data.astype(writer.order + "u8").tobytes()


def _bit_places(_: Rendering, bits: int) -> list[int]:
    data = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    places: list[int] = np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist()
    return places


def _uuid_text(_: Rendering, halves: tuple[int, int]) -> str:
    digits = f"{(halves[0] & 2**64 - 1) << 64 | halves[1] & 2**64 - 1:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _write_uuid_2(writer: ObjectWriter, content: tuple[int, int]) -> None:
    for half in content:
        writer.signed_long(half)


def _write_uuid_5(writer: ObjectWriter, content: tuple[int, int]) -> None:
    for half in content:
        writer.fixed("q", half)


def _stream(reader: ObjectReader) -> bytes:
    return reader.java_stream(skip_java_object)


def _write_stream(writer: ObjectWriter, content: bytes) -> None:
    writer.data += content


def _read_locale_2(reader: ObjectReader, kryo_object: KryoObject) -> None:
    start = reader.position
    value: JavaValue = reader.java_stream(parse_java_object)
    if not isinstance(value, JavaObject) or value.class_name != UTIL + "Locale":
        raise DamagedError("a Locale", repr(value)[:80])
    parts = [value.fields.get(name) for name in ("language", "country", "variant", "script", "extensions")]
    if not all(isinstance(part, str) for part in parts):
        raise DamagedError("a Locale of strings", repr(parts)[:80])
    kryo_object.content = tuple(parts)
    stream = bytes(reader.data[start : reader.position])
    kryo_object.header = stream if stream != _locale_stream(*kryo_object.content) else None


def _locale_stream(language: str, country: str, variant: str, script: str, extensions: str) -> bytes:
    """Return the Java object stream of a Locale, in which a string that repeats is a reference."""
    stream = bytearray(LOCALE_STREAM)
    handles: dict[str, int] = {}
    for text in (country, extensions, language, script, variant):
        if text in handles:
            stream += b"q" + handles[text].to_bytes(4, "big")
            continue
        handles[text] = FIRST_TEXT_HANDLE + len(handles)
        data = encode_modified_utf8(text)
        if len(data) > MAX_UTF_BYTES:
            raise ForeignError(UTIL + "Locale", f"Java writes at most {MAX_UTF_BYTES} bytes of a part of it")
        stream += b"t" + len(data).to_bytes(2, "big") + data
    return bytes(stream + b"x")


def _write_locale_2(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.data += kryo_object.header or _locale_stream(*kryo_object.content)


def _locale_text(_: Rendering, parts: tuple[str, ...]) -> str:
    return "_".join(part for part in parts[:3] if part)


def _pattern_of_dates(_: Rendering, stream: bytes) -> Any:
    """Return the pattern of a SimpleDateFormat, which is written as a Java object stream."""
    date_format = parse_java_object(DataInputView(memoryview(stream)))
    return date_format.fields.get("pattern") if isinstance(date_format, JavaObject) else stream


def _listed(_: Rendering, parts: tuple[Any, ...]) -> list[Any]:
    return list(parts)


def _write_locale_5(writer: ObjectWriter, content: tuple[str, ...]) -> None:
    for tag in content[:3]:
        writer.text(tag)


def _read_class(reader: ObjectReader) -> tuple[str | None, bool]:
    """Read a class and whether it is primitive; Kryo 5 writes the flag only for primitive types and boxes."""
    name = reader.class_name()
    return name, reader.boolean() if reader.order == ">" or name in PRIMITIVES else False


def _write_class(writer: ObjectWriter, content: tuple[str | None, bool]) -> None:
    name, primitive = content
    writer.class_name(name)
    if writer.order == ">" or name in PRIMITIVES:
        writer.boolean(primitive)


def _url_parts(text: str) -> dict[str, Any]:
    """Split ``URL.toExternalForm`` into the fields of the class."""
    protocol, _, rest = text.partition(":")
    rest, mark, anchor = rest.partition("#")
    authority = None
    if rest.startswith("//"):
        end = min((position for position in map(rest[2:].find, "/?") if position >= 0), default=len(rest) - 2) + 2
        authority, rest = rest[2:end], rest[end:]
    host, port = (authority or "").rpartition("@")[2], -1
    if ":" in host and number_of(host.rpartition(":")[2], (1 << 31) - 1) is not None:
        host, port = host.rpartition(":")[0], int(host.rpartition(":")[2])
    fields = {"authority": authority, "file": rest, "hashCode": -1, "host": host, "port": port}
    return {**fields, "protocol": protocol, "ref": anchor if mark else None}


def _read_url_5(reader: ObjectReader, kryo_object: KryoObject) -> None:
    name, parts = kryo_object.class_name, _url_parts(reader.some_text())
    kryo_object.content = {
        (name, field): KryoObject("int" if isinstance(url_part, int) else STRING, url_part)
        if url_part is not None
        else None
        for field, url_part in parts.items()
    }
    if parts["host"] == parts["authority"]:
        kryo_object.content[name, "host"] = kryo_object.content[name, "authority"]


def _url(fields: Mapping[FieldKey, Any]) -> str:
    """Return ``URL.toExternalForm``."""
    parts = {name: value for (_, name), value in fields.items() if value is not None}
    authority = f"//{parts['authority']}" if parts.get("authority") else ""
    anchor = f"#{parts['ref']}" if "ref" in parts else ""
    return f"{parts.get('protocol', '')}:{authority}{parts.get('file', '')}{anchor}"


def _url_text(kryo_object: KryoObject) -> str:
    return _url({key: None if value is None else value.content for key, value in kryo_object.content.items()})


def _write_url_5(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.text(_url_text(kryo_object))


def _read_charset_2(reader: ObjectReader) -> str:
    """Read a Charset of the JDK, whose fields are its aliases and its name."""
    if reader.byte():
        raise DamagedError("a Charset whose set of names was not used", "another")
    aliases = reader.object("[Ljava.lang.String;", True)
    name = reader.object(STRING, True)
    if aliases is None or name is None:
        raise DamagedError("a Charset", "null")
    known, name = [_content(alias) for alias in _content(aliases)], _content(name)
    if known != list(ALIASES.get(name, ())):
        raise ForeignError("java.nio.charset.Charset", f"{name} has other aliases than in any known Java")
    return str(name)


def _content(kryo_object: Any) -> Any:
    """Return the content of an object, which a reader of values has read as this."""
    return kryo_object.content if isinstance(kryo_object, KryoObject) else kryo_object


def _write_charset_2(writer: ObjectWriter, name: str) -> None:
    aliases = ALIASES.get(name)
    if aliases is None:
        raise ForeignError("java.nio.charset.Charset", f"Kryo 2's bytes of {name} are not known")
    writer.byte(0)
    writer.object(KryoObject("[Ljava.lang.String;", [KryoObject(STRING, alias) for alias in aliases]), True)
    writer.object(KryoObject(STRING, name), True)


#: Charsets by class, and their aliases, as Kryo 2 writes them.
CHARSETS: Mapping[str, str] = {"sun.nio.cs.UTF_8": "UTF-8"}
ALIASES: Mapping[str, tuple[str, ...]] = {"UTF-8": ("UTF8", "unicode-1-1-utf-8")}


def _read_calendar(reader: ObjectReader) -> tuple[Any, ...]:
    return (
        *(reader.some_text(), reader.long(), reader.boolean(), reader.integer(), reader.integer()),
        reader.signed_long(),
    )


def _write_calendar(writer: ObjectWriter, content: tuple[Any, ...]) -> None:
    zone, millis, lenient, first_day, days, cutover = content
    writer.text(zone)
    writer.long(millis)
    writer.boolean(lenient)
    writer.varint(first_day)
    writer.varint(days)
    writer.signed_long(cutover)


def _write_address(writer: ObjectWriter, content: tuple[str, int]) -> None:
    writer.text(content[0])
    writer.varint(content[1])


def _write_pattern_5(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    """Write the flags after the text; Kryo 2 loses them."""
    writer.text(kryo_object.content)
    writer.varint(kryo_object.header or 0)


def _read_pattern_5(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.content, kryo_object.header = reader.some_text(), reader.integer()


# -- values of classes with fields ---------------------------------------------------------------------------------


def column_name(column_names: Mapping[str, Any], declaring: str, field: str) -> str:
    """Return the name of a field's column, given the names of the fields before it."""
    if field not in column_names:
        return field
    return f"{declaring.rpartition('.')[2]}.{field}"


def _by_column(_: Rendering, content: dict[FieldKey, Any]) -> dict[str, Any]:
    """Return the fields of an object by the names of their columns."""
    columns: dict[str, Any] = {}
    for (declaring, field), value in content.items():
        columns[column_name(columns, declaring, field)] = value
    return columns


def _of_field(field_name: str) -> Callable[[Rendering, Any], Any]:
    """Return the function that takes the value of one field for that of an object, or null."""

    def value(_: Rendering, content: dict[FieldKey, Any]) -> Any:
        return next((each for (_, field), each in content.items() if field == field_name), None)

    return value


def _flag(_: Rendering, content: dict[FieldKey, Any]) -> bool:
    """Return the value of an AtomicBoolean, whose field is an int."""
    (value,) = content.values()
    return bool(value)


def _present(_: Rendering, content: dict[FieldKey, Any]) -> Any:
    """Return an optional number; Kryo 2 writes both fields of the class even if it is absent."""
    present, value = content.values()
    return value if present else None


_VALUES_OF_FIELDS: Mapping[str, Callable[[Rendering, Any], Any]] = {
    **{name: _of_field(row.shown) for name, row in FIELD_CLASSES.items() if row.shown is not None},
    UTIL + "concurrent.atomic.AtomicBoolean": _flag,
    **{UTIL + f"Optional{name}": _present for name in ("Int", "Long", "Double")},
    "java.net.URL": lambda _, content: _url(content),
}


def _fields(body: Body) -> dict[str, Body]:
    """Return the bodies of classes with fields, whose values are these fields or made of them."""
    return {FIELDS: body} | {
        name: Body(body.read, body.write, value=value) for name, value in _VALUES_OF_FIELDS.items()
    }


def _read_optional_5(reader: ObjectReader, kryo_object: KryoObject) -> None:
    kryo_object.content = {}
    kryo_object.content[kryo_object.class_name, "value"] = reader.value()


def _write_optional_5(writer: ObjectWriter, kryo_object: KryoObject) -> None:
    writer.value(kryo_object.content.get((kryo_object.class_name, "value")))


def _optional_number_5(name: str, code: str, kind: str, absent: float) -> Body:
    """Return the body of an optional number; ``absent`` is the value of its field if there is none."""
    name = UTIL + name

    def raw(reader: ObjectReader) -> dict[FieldKey, Any]:
        present = reader.boolean()
        return {(name, "isPresent"): present, (name, "value"): reader.fixed(code) if present else absent}

    def read(reader: ObjectReader, kryo_object: KryoObject) -> None:
        present, value = raw(reader).items()
        kryo_object.content = {present[0]: KryoObject("boolean", present[1]), value[0]: KryoObject(kind, value[1])}

    def write(writer: ObjectWriter, kryo_object: KryoObject) -> None:
        present = part(kryo_object, "isPresent").content
        writer.boolean(present)
        if present:
            writer.fixed(code, part(kryo_object, "value").content)

    def raw_of(kryo_object: KryoObject) -> dict[FieldKey, Any]:
        return {key: member.content for key, member in kryo_object.content.items()}

    return Body(read, write, value=_present, raw=raw, raw_of=raw_of)


# -- all of them ---------------------------------------------------------------------------------------------------


def _float_value(_: Rendering, number: float) -> Any:
    return np.float32(number)


def _floats(_: Rendering, numbers: list[float]) -> list[Any]:
    return [np.float32(number) for number in numbers]


_TEXT = plain_body(ObjectReader.some_text, ObjectWriter.text)
_COMMON: Mapping[str, Body] = {
    **{
        name: plain_body(read, PRIMITIVE_WRITERS[name], True, _float_value if name == "float" else None)
        for name, read in PRIMITIVE_READERS.items()
    },
    **{
        code: _primitives(name, _floats if name == "float" else None)
        for code, name in (
            *(("[Z", "boolean"), ("[S", "short"), ("[C", "char"), ("[I", "int"), ("[J", "long")),
            *(("[F", "float"), ("[D", "double")),
        )
    },
    "[B": plain_body(lambda reader: reader.take(size_plus_one(reader)), _write_bytes),
    ARRAY: Body(_read_array, _write_array),
    JAVA_STREAM: plain_body(_stream, _write_stream),
    TEXT: _TEXT,
    MILLIS: plain_body(ObjectReader.long, ObjectWriter.long, value=date_value),
    "java.sql.Time": plain_body(ObjectReader.long, ObjectWriter.long),
    CALENDAR: plain_body(_read_calendar, _write_calendar, value=_listed),
    "java.net.InetSocketAddress": plain_body(
        lambda reader: (reader.some_text(), reader.varint()), _write_address, value=_listed
    ),
    "java.math.BigInteger": plain_body(_unscaled, _write_unscaled, value=_integer_value),
    "java.math.BigDecimal": plain_body(
        lambda reader: (_unscaled(reader), reader.signed()), _write_decimal, value=_decimal_value
    ),
    "java.text.SimpleDateFormat": plain_body(_stream, _write_stream, value=_pattern_of_dates),
    LANG + "Class": plain_body(_read_class, _write_class, value=_listed),
    UTIL + "BitSet": Body(_read_bits, _write_bits, value=_bit_places),
    ENUM_SET: Body(
        _read_enum_set, _write_enum_set, value=_constant_set, raw_of=lambda found: (found.header, found.content)
    ),
}


_FIELDS_2 = Body(_read_fields_2, _write_fields_2, value=_by_column)
_FIELDS_5 = Body(_read_fields_5, _write_fields_5, value=_by_column)
#: The bodies of all layouts (``jdk_classes.py``), by version.
BODIES_2: Mapping[str, Body] = {
    **_COMMON,
    **COLLECTIONS_2,
    **_fields(_FIELDS_2),
    **times_2(_FIELDS_2),
    ENUM: _enum(False),
    BUILDER: plain_body(ObjectReader.some_text, ObjectWriter.long_text),
    UTIL + "UUID": plain_body(
        lambda reader: (reader.signed_long(), reader.signed_long()), _write_uuid_2, value=_uuid_text
    ),
    UTIL + "Locale": Body(_read_locale_2, _write_locale_2, value=_locale_text),
    UTIL + "regex.Pattern": _TEXT,
    CHARSET: plain_body(_read_charset_2, _write_charset_2),
}
BODIES_5: Mapping[str, Body] = {
    **_COMMON,
    **COLLECTIONS_5,
    **_fields(_FIELDS_5),
    **TIMES_5,
    ENUM: _enum(True),
    BUILDER: _TEXT,
    UTIL + "UUID": plain_body(
        lambda reader: (int(reader.fixed("q")), int(reader.fixed("q"))), _write_uuid_5, value=_uuid_text
    ),
    UTIL + "Locale": plain_body(
        lambda reader: (reader.some_text(), reader.some_text(), reader.some_text(), "", ""),
        _write_locale_5,
        value=_locale_text,
    ),
    UTIL + "regex.Pattern": Body(_read_pattern_5, _write_pattern_5),
    "java.net.URL": Body(_read_url_5, _write_url_5, raw=ObjectReader.some_text, raw_of=_url_text),
    CHARSET: _TEXT,
    UTIL + "Optional": Body(_read_optional_5, _write_optional_5, value=_of_field("value")),
    UTIL + "OptionalInt": _optional_number_5("OptionalInt", "i", "int", 0),
    UTIL + "OptionalLong": _optional_number_5("OptionalLong", "q", "long", 0),
    UTIL + "OptionalDouble": _optional_number_5("OptionalDouble", "d", "double", float("nan")),
}
