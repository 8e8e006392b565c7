"""Objects that Kryo read, written by Flink's own serializers: what 2.x infers for lists, maps and sets.

    Nullable(List(Nullable(E))), Nullable(Map(Nullable(K), V)), Nullable(Set(E))     see ``type_extraction``

The classes of the collections are not kept: Flink 2 reads an ArrayList, a HashMap and a HashSet. Elements of a POJO's
subclass are written as ``PojoSerializer`` writes a class that is not registered: by name, with its own POJO.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.java import encode_modified_utf8
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import NO_SUBCLASS, NULL, SUBCLASS, PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoObject
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

#: Appends an object, or null, to the output.
WriteObject = Callable[[Any, bytearray], None]
#: Is told of an object whose class Flink's serializer does not keep.
Tell = Callable[[KryoObject], None]
#: Returns the function that writes by Kryo, and the POJO serializer of a class, None if the class is none.
KryoWriterOf = Callable[[KryoSerializer], WriteObject]
PojoOf = Callable[[str], PojoSerializer | None]

#: Big-endian formats of numbers by their Flink types.
NUMBERS = {
    "BOOLEAN": ">?", "BYTE": ">b", "SHORT": ">h", "INT": ">i", "LONG": ">q", "FLOAT": ">f", "DOUBLE": ">d",
}  # fmt: skip
#: Classes of objects by types, boxes by their primitive types.
CLASSES = {
    **{kind: kind.lower() for kind in (*NUMBERS, "CHAR")},
    "STRING": "java.lang.String",
    "BIG_INTEGER": "java.math.BigInteger",
    "BIG_DECIMAL": "java.math.BigDecimal",
    "INSTANT": "java.time.Instant",
    "BASIC_ARRAY<STRING>": "[Ljava.lang.String;",
}
MILLIS = ("DATE", "SQL_DATE", "SQL_TIME")
ABSENT_MILLIS = -(1 << 63)
ABSENT_NANOS = -(1 << 31)
ARRAY = "PRIMITIVE_ARRAY<"
#: Classes that become ArrayList, HashSet and HashMap without loss.
LISTS = frozenset({"java.util.ArrayList", "java.util.Collections$EmptyList"})
SETS = frozenset({"java.util.HashSet", "java.util.Collections$EmptySet"})
MAPS = frozenset({"java.util.HashMap", "java.util.Collections$EmptyMap"})


class FlinkObjectWriter:
    """Writer of objects by Flink's serializers; one per part, as it keeps the functions that it made.

    ``tell`` is told of each list, set and map, at any depth, that Flink reads as one of another class.
    """

    def __init__(self, kryo: KryoWriterOf, pojo_of: PojoOf, tell: Tell) -> None:
        self.kryo = kryo
        self.pojo_of = pojo_of
        self.tell = tell
        self._made: dict[TypeSerializer, WriteObject] = {}

    def of(self, serializer: TypeSerializer) -> WriteObject:
        """Return the function that writes by a serializer; raise UnsupportedStateError if there is none."""
        if serializer not in self._made:
            write = self._make(serializer)
            name = (
                serializer.enum_class if isinstance(serializer, EnumSerializer) else CLASSES.get(serializer.flink_type)
            )
            self._made[serializer] = write if name is None else _of_class(name, write)
        return self._made[serializer]

    def _make(self, serializer: TypeSerializer) -> WriteObject:
        kind = serializer.flink_type
        if isinstance(serializer, KryoSerializer):
            return self.kryo(serializer)
        if isinstance(serializer, NullableSerializer):
            return _nullable(self.of(serializer.nested[0]), serializer.padding)
        if isinstance(serializer, PojoSerializer):
            return self._pojo(serializer)
        if isinstance(serializer, MapSerializer):
            return self._telling(MAPS, _map(self.of(serializer.key), _flagged(self.of(serializer.value), 1)))
        if isinstance(serializer, SetSerializer):
            return self._telling(SETS, _list(_flagged(self.of(serializer.element), 1)))
        if isinstance(serializer, GenericArraySerializer):
            return _list(_flagged(self.of(serializer.element), 0))
        if isinstance(serializer, ListSerializer):
            return self._telling(LISTS, _list(self.of(serializer.element)))
        if isinstance(serializer, EnumSerializer):
            return _enum
        if isinstance(serializer, TupleSerializer):
            return _tuple([self.of(part) for part in serializer.nested])
        if kind in NUMBERS:
            return _number(NUMBERS[kind])
        if kind.startswith(ARRAY) and kind[len(ARRAY) : -1] in NUMBERS and kind != f"{ARRAY}BYTE>":
            return _array(_number(NUMBERS[kind[len(ARRAY) : -1]]))
        simple: dict[str, WriteObject] = {
            "STRING": _string,
            "CHAR": _char,
            f"{ARRAY}CHAR>": _array(_char),
            f"{ARRAY}BYTE>": _bytes,
            "BASIC_ARRAY<STRING>": _list(_string),
            "BIG_INTEGER": _big_integer,
            "BIG_DECIMAL": _big_decimal,
            "SQL_TIMESTAMP": _sql_timestamp,
            "INSTANT": _instant,
            **dict.fromkeys(MILLIS, _millis),
        }
        if kind not in simple:
            raise UnsupportedStateError(
                f"values that Kryo wrote are not rewritten as {kind}",
                found=serializer.snapshot_class,
                remedy="declare the field's type in the job as it was, or leave the state out (drop)",
            )
        return simple[kind]

    def _telling(self, kept: frozenset[str], write: WriteObject) -> WriteObject:
        """Return a function that tells of collections of other classes than those that are kept."""

        def telling(value: Any, out: bytearray) -> None:
            write(value, out)
            if isinstance(value, KryoObject) and value.class_name not in kept:
                self.tell(value)

        return telling

    def _pojo(self, serializer: PojoSerializer) -> WriteObject:
        fields: list[tuple[str, WriteObject]] = []

        def write(value: Any, out: bytearray) -> None:
            if value is None:
                out.append(NULL)
                return
            if value.class_name != serializer.class_name:
                self._subclass(serializer, value, out)
                return
            if not fields:
                fields.extend((field.name, _flagged(self.of(field.serializer), 1)) for field in serializer.fields)
            out.append(NO_SUBCLASS)
            held = fields_of(value)
            for name, put in fields:
                put(held[name], out)

        return write

    def _subclass(self, serializer: PojoSerializer, value: KryoObject, out: bytearray) -> None:
        pojo = self.pojo_of(value.class_name)
        if pojo is None:
            raise UnsupportedStateError(
                f"an object of {value.class_name}, which is no POJO, is where Flink 2 has {serializer.class_name}",
                remedy="name the class files of that class (classes), or leave the state out (drop)",
            )
        name = encode_modified_utf8(value.class_name)
        out.append(SUBCLASS)
        out += len(name).to_bytes(2, "big") + name
        self.of(pojo)(value, out)


def _of_class(name: str, write: WriteObject) -> WriteObject:
    """Return a function that writes objects of a class, and raises an error for others: the given type is wrong."""

    def checked(value: Any, out: bytearray) -> None:
        if isinstance(value, KryoObject) and not value.class_name.startswith(name):
            raise _another(name, value)
        write(value, out)

    return checked


def _another(name: str, value: KryoObject) -> UnsupportedStateError:
    return UnsupportedStateError(
        f"an object of {value.class_name} is where the given type has {name}",
        remedy="name the type of the new job (types), or a savepoint of it (types_from)",
    )


def _items(value: Any, pairs: bool) -> list[Any]:
    """Return the elements of a collection, or the entries of a map."""
    items = content(value)
    if not isinstance(items, list) or any(isinstance(item, tuple) is not pairs for item in items[:1]):
        raise _another("a map" if pairs else "a collection", there(value))
    return items


def _nullable(write: WriteObject, padding: int) -> WriteObject:
    def nullable(value: Any, out: bytearray) -> None:
        if value is None:
            out += b"\1" + bytes(padding)
        else:
            out.append(0)
            write(value, out)

    return nullable


def _flagged(write: WriteObject, null: int) -> WriteObject:
    def flagged(value: Any, out: bytearray) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(1 - null)
            write(value, out)

    return flagged


def _list(write: WriteObject) -> WriteObject:
    def list_(value: Any, out: bytearray) -> None:
        items = _items(value, pairs=False)
        out += len(items).to_bytes(4, "big")
        for item in items:
            write(item, out)

    return list_


def _map(key: WriteObject, value: WriteObject) -> WriteObject:
    def map_(whole: Any, out: bytearray) -> None:
        pairs = _items(whole, pairs=True)
        out += len(pairs).to_bytes(4, "big")
        for one, other in pairs:
            key(one, out)
            value(other, out)

    return map_


def _tuple(parts: list[WriteObject]) -> WriteObject:
    def tuple_(value: Any, out: bytearray) -> None:
        held = fields_of(there(value))
        for index, put in enumerate(parts):
            put(held[f"f{index}"], out)

    return tuple_


def _number(form: str) -> WriteObject:
    def number(value: Any, out: bytearray) -> None:
        out += struct.pack(form, content(value))

    return number


def _char(value: Any, out: bytearray) -> None:
    out += ord(content(value)).to_bytes(2, "big")


def _enum(value: Any, out: bytearray) -> None:
    out += content(value).to_bytes(4, "big")


def _bytes(value: Any, out: bytearray) -> None:
    data = content(value)
    out += len(data).to_bytes(4, "big") + data


def _array(write: WriteObject) -> WriteObject:
    def array(value: Any, out: bytearray) -> None:
        items = content(value)
        out += len(items).to_bytes(4, "big")
        for item in items:
            write(item, out)

    return array


def _string(value: Any, out: bytearray) -> None:
    if value is None:
        out.append(0)
        return
    text = content(value)
    units = text.encode("utf-16-le", "surrogatepass")
    _varint(len(units) // 2 + 1, out)
    if text.isascii():
        out += text.encode()
        return
    for (unit,) in struct.iter_unpack("<H", units):
        _varint(unit, out)


def _varint(number: int, out: bytearray) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _big_integer(value: Any, out: bytearray) -> None:
    if value is None:
        out += bytes(4)
    else:
        _unscaled(content(value), out)


def _unscaled(number: int, out: bytearray) -> None:
    """Append ``i32 length + 4`` and the bytes; 0, 1 and 10 have codes of their own."""
    code = {0: 1, 1: 2, 10: 3}.get(number)
    if code is not None:
        out += code.to_bytes(4, "big")
        return
    data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    out += (len(data) + 4).to_bytes(4, "big") + data


def _big_decimal(value: Any, out: bytearray) -> None:
    if value is None:
        out += bytes(4)
        return
    number, scale = content(value)
    _unscaled(number, out)
    out += scale.to_bytes(4, "big", signed=True)


def _millis(value: Any, out: bytearray) -> None:
    out += (ABSENT_MILLIS if value is None else content(value)).to_bytes(8, "big", signed=True)


def _sql_timestamp(value: Any, out: bytearray) -> None:
    millis, nanos = (ABSENT_MILLIS, 0) if value is None else content(value)
    if value is not None:
        millis = millis // 1000 * 1000 + nanos // 1_000_000
    out += millis.to_bytes(8, "big", signed=True) + nanos.to_bytes(4, "big")


def _instant(value: Any, out: bytearray) -> None:
    held = fields_of(value) if value is not None else {"seconds": ABSENT_MILLIS, "nanos": ABSENT_NANOS}
    seconds, nanos = content(held["seconds"]), content(held["nanos"])
    out += seconds.to_bytes(8, "big", signed=True) + nanos.to_bytes(4, "big", signed=True)


def fields_of(value: KryoObject) -> dict[str, Any]:
    """Return the fields of an object by name; of two of one name, that of the subclass."""
    result: dict[str, Any] = {}
    for (_, name), part in value.content.items():
        result.setdefault(name, part)
    return result


def content(value: Any) -> Any:
    """Return the content of an object, or of a field of a primitive type, which is the number itself."""
    return there(value).content if isinstance(value, KryoObject) or value is None else value


def there(value: KryoObject | None) -> KryoObject:
    """Return an object; raise UnsupportedStateError for null, where the new serializer has none."""
    if value is None:
        raise UnsupportedStateError(
            "a value has a null where the serializer of Flink 2 has none",
            remedy="Flink 2 could not have written it either: leave the state out (drop)",
        )
    return value
