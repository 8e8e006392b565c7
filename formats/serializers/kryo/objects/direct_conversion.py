"""Conversion of Kryo 2's bytes to Kryo 5's without objects in between, for values of the shapes in most states.

These are classes with fields and no type parameters, enums, strings, numbers, and lists and maps of them in the usual
classes of Java. The functions of a class are composed once. A value that contains anything else, such as an object with
several references to it, is left to the caller, which converts it through objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark_savepoint.formats.class_files.java_types import JavaType, TypeVariable
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import arguments_of, erased
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ENUM,
    LAYOUTS,
    PRIMITIVES,
    STRING,
    UTIL,
    WRAPPERS,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import ForeignError, KryoOutput
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import BOXES
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import ObjectFormat

COLLECTIONS = {UTIL + name for name in ("ArrayList", "LinkedList", "HashSet", "LinkedHashSet", "Vector")}
MAPS = {UTIL + name for name in ("HashMap", "LinkedHashMap", "concurrent.ConcurrentHashMap")}
LAST = re.compile(rb"[\x80-\xff]")
#: Widths of numbers whose bytes are in the other order.
WIDTHS = {"short": 2, "char": 2, "float": 4, "double": 8}
#: Maximum bytes of a number's varint, and the maximum of the last byte if it has that many.
VARINTS = {"int": (5, 0x0F), "long": (9, 0xFF)}
MAX_DEPTH = 40
#: Characters of the longest text that has no length in both.
MAX_TEXT = 32


class _OtherShapeError(Exception):
    """Error for a value that is left to the caller."""


class _Value:
    """A value that is being converted, with the class names read so far."""

    __slots__ = ("data", "depth", "names", "out", "written")

    def __init__(self, data: bytes, out: bytearray) -> None:
        self.data = data
        self.out = out
        self.names: list[str] = []
        self.written: dict[str, int] = {}
        self.depth = 0


#: Function that converts and appends the bytes at a position, and returns the position after them.
Step = Callable[[_Value, int], int]


def _text(value: _Value, at: int) -> int:
    data = value.data
    if data[at] < 0x80:
        last = LAST.search(data, at, at + MAX_TEXT)
        if last is None:
            raise _OtherShapeError
        value.out += data[at : last.end()]
        return last.end()
    size = data[at] & 0x3F
    if data[at] & 0x40 or not size:
        raise _OtherShapeError
    end = at + 1
    for _ in range(size - 1):
        end = _after_unit(data, end)
    if end - at == size and size > 2:
        raise _OtherShapeError  # ASCII is written without a length
    value.out += data[at:end]
    return end


def _after_unit(data: bytes, at: int) -> int:
    """Return the position after a UTF-16 unit, which must be encoded in as few bytes as possible."""
    first = data[at]
    if first < 0x80:
        return at + 1
    second = data[at + 1]
    if second >> 6 != 0b10 or first < 0xC2 or first > 0xEF or (first == 0xE0 and second < 0xA0):
        raise _OtherShapeError
    if first < 0xE0:
        return at + 2
    if data[at + 2] >> 6 != 0b10:
        raise _OtherShapeError
    return at + 3


def _varint_of(most: int, high: int) -> Step:
    def varint(value: _Value, at: int) -> int:
        data, end = value.data, at
        while data[end] >= 0x80 and end - at < most - 1:
            end += 1
        if end > at and (not data[end] or (end - at == most - 1 and data[end] > high)):
            raise _OtherShapeError
        value.out += data[at : end + 1]
        return end + 1

    return varint


def _reversed(width: int) -> Step:
    def number(value: _Value, at: int) -> int:
        value.out += value.data[at : at + width][::-1]
        return at + width

    return number


def _boolean(value: _Value, at: int) -> int:
    if value.data[at] > 1:
        raise _OtherShapeError
    value.out.append(value.data[at])
    return at + 1


def _byte(value: _Value, at: int) -> int:
    value.out.append(value.data[at])
    return at + 1


_ORDINAL = _varint_of(5, 0x07)


def _ordinal(value: _Value, at: int) -> int:
    if not value.data[at]:
        raise _OtherShapeError
    return _ORDINAL(value, at)


PLAIN: dict[str, Step] = {
    STRING: _text,
    "boolean": _boolean,
    "byte": _byte,
    **{name: _reversed(width) for name, width in WIDTHS.items()},
    **{name: _varint_of(*limits) for name, limits in VARINTS.items()},
}


class DirectConversion:
    """Conversion of values of two formats: Kryo 2 and Kryo 5."""

    def __init__(self, old: ObjectFormat, new: ObjectFormat) -> None:
        self.old = old
        self.new = new
        self._bodies: dict[tuple[str, tuple[JavaType, ...]], Step | None] = {}
        self._top = self._valued(())

    def append(self, data: bytes, at: int, out: bytearray) -> int:
        """Append the value at a position; return the position after it, or -1 if it is left to the caller."""
        start = len(out)
        try:
            end = self._top(_Value(data, out), at)
            if end <= len(data):
                return end
        except (_OtherShapeError, IndexError):
            pass
        del out[start:]
        return -1

    # -- classes and objects -------------------------------------------------------------------------------------

    def _read_class(self, value: _Value, at: int) -> tuple[str | None, int]:
        """Return a class and the position after it; None for null."""
        data = value.data
        number = data[at]
        if number == 0:
            return None, at + 1
        if number > 1:
            name = self.old.registered.ids.get(number - 2) if number < 0x80 else None
            if name is None:
                raise _OtherShapeError
            return WRAPPERS.get(name, name), at + 1
        name_id = data[at + 1]
        if name_id > len(value.names) or name_id >= 0x80:
            raise _OtherShapeError
        at += 2
        if name_id == len(value.names):
            last = LAST.search(data, at)
            if last is None or last.start() == at:
                raise _OtherShapeError
            text = str(data[at : last.start()], "ascii") + chr(data[last.start()] & 0x7F)
            value.names.append(WRAPPERS.get(text, text))
            at = last.end()
        return value.names[name_id], at

    def _write_class(self, value: _Value, name: str) -> None:
        number = self.new.numbers.get(name)
        if number is not None:
            if number > 0x7D:
                raise _OtherShapeError
            value.out.append(number + 2)
            return
        name_id = value.written.get(name)
        if name_id is not None:
            value.out += bytes((1, name_id))
            return
        name_id = value.written[name] = len(value.written)
        if name_id > 0x7F:
            raise _OtherShapeError
        value.out += bytes((1, name_id)) + _name_of_class(BOXES.get(name, name))

    def _is_plain(self, name: str) -> bool:
        """Return whether Kryo 5 writes no reference before objects of a class."""
        return self.new.body(name).plain

    def _nullable(self, name: str) -> Step:
        """Return the step of an object of a known class, or null."""

        def nullable(value: _Value, at: int) -> int:
            flag = value.data[at]
            if flag > 1:
                raise _OtherShapeError
            value.out.append(flag)
            return body(value, at + 1) if flag else at + 1

        body = self._body(name, ())
        return nullable

    def _body(self, name: str, arguments: tuple[JavaType, ...]) -> Step:
        """Return the step of an object's bytes after its reference."""
        key = (name, arguments)
        if key not in self._bodies:
            self._bodies[key] = self._deferred(key)
            try:
                self._bodies[key] = self._made(name, arguments)
            except (_OtherShapeError, ForeignError):
                self._bodies[key] = None
        step = self._bodies[key]
        if step is None:
            raise _OtherShapeError
        return step

    def _deferred(self, key: tuple[str, tuple[JavaType, ...]]) -> Step:
        """Return the step of a class that occurs again in its own fields."""

        def again(value: _Value, at: int) -> int:
            step = self._bodies[key]
            if step is None:
                raise _OtherShapeError
            return step(value, at)

        return again

    def _made(self, name: str, arguments: tuple[JavaType, ...]) -> Step | None:
        """Return the step of a class; None for one that is left to the caller."""
        old, new = self.old.body(name), self.new.body(name)
        layout = LAYOUTS.get(name, "")
        kinds = (BODIES_2.get(layout), BODIES_5.get(layout))
        if name in PLAIN and (old, new) == kinds:
            return PLAIN[name]
        if name in COLLECTIONS and (old, new) == kinds:
            return self._collection(arguments)
        if name in MAPS and (old, new) == kinds:
            return self._map(arguments)
        if (old, new) == (BODIES_2[ENUM], BODIES_5[ENUM]):
            return _ordinal
        if self.old.writes_fields(name) and self.new.writes_fields(name):
            return self._fields(name)
        return None

    def _fields(self, name: str) -> Step | None:
        """Return the step of a class with fields, which both versions write in the same order."""
        classes = self.old.classes
        if classes is not self.new.classes or classes.parameters(name) or name.startswith("java."):
            return None
        fields = classes.fields(name, 2)
        if [field.key for field in fields] != [field.key for field in classes.fields(name, 5)]:
            return None
        if name in classes.with_synthetic:
            return None
        steps: list[Step] = []
        for field in classes.fields(name, 5):
            if isinstance(field.type, TypeVariable) or any(map(_has_arguments, field.arguments)):
                return None
            if field.primitive:
                steps.append(self._body(field.erased, ()))
            elif field.final is not None:
                steps.append(self._nullable(field.final))
            else:
                steps.append(self._valued(field.arguments))

        def all_fields(value: _Value, at: int) -> int:
            value.depth += 1
            if value.depth > MAX_DEPTH:
                raise _OtherShapeError
            for step in steps:
                at = step(value, at)
            value.depth -= 1
            return at

        return all_fields

    def _valued(self, arguments: tuple[JavaType, ...]) -> Step:
        """Return the step of a class and its object, or null."""
        known: dict[str, tuple[Step, bool]] = {}

        def valued(value: _Value, at: int) -> int:
            name, at = self._read_class(value, at)
            if name is None:
                value.out.append(0)
                return at
            self._write_class(value, name)
            if name not in known:
                known[name] = self._body(name, arguments), self._is_plain(name)
            body, plain = known[name]
            if name not in PRIMITIVES:
                if value.data[at] != 1:
                    raise _OtherShapeError
                at += 1
                if not plain:
                    value.out.append(1)
            return body(value, at)

        return valued

    def _final(self, kind: JavaType) -> str | None:
        """Return the class of a type argument if it is final."""
        name = erased(kind)
        return name if self.old.classes.is_final(name) else None

    # -- collections and maps ------------------------------------------------------------------------------------

    def _collection(self, arguments: tuple[JavaType, ...]) -> Step | None:
        final = self._final(arguments[0]) if arguments else None
        if len(arguments) > 1 or any(map(_has_arguments, arguments)):
            return None
        body = self._body(final, ()) if final is not None else None

        def collection(value: _Value, at: int) -> int:
            value.depth += 1
            size = value.data[at]
            if size >= 0x3F or value.depth > MAX_DEPTH:
                raise _OtherShapeError
            at += 1
            out = value.out
            if not size:
                out.append(1)
            elif final is not None and body is not None:
                at = self._of_class(value, at, size, final, body)
            else:
                at = self._of_one_class(value, at, size)
            value.depth -= 1
            return at

        return collection

    def _of_class(self, value: _Value, at: int, size: int, final: str, body: Step) -> int:
        """Append elements of a final class: each after a byte 1, or 0 for null; Kryo 5 omits it if none is null."""
        out, position = value.out, len(value.out)
        out.append(0)
        some = False
        plain = self._is_plain(final)
        starts = []
        for _ in range(size):
            flag = value.data[at]
            at += 1
            if flag > 1:
                raise _OtherShapeError
            some = some or not flag
            starts.append(len(out))
            out.append(flag)
            if flag:
                at = body(value, at)
        out[position : position + 1] = _flag_and_size(some, size + 1)
        if plain and not some:
            shift = len(_flag_and_size(some, size + 1)) - 1
            for start in reversed(starts):
                del out[start + shift]
        return at

    def _of_one_class(self, value: _Value, at: int, size: int) -> int:
        """Append elements of one class, which Kryo 5 writes once before them."""
        first, _ = self._peek(value, at)
        if first is None:
            raise _OtherShapeError
        out = value.out
        out += _flag_and_size(True, size + 1)
        self._write_class(value, first)
        out.append(0)
        body = self._body(first, ())
        plain, nullable = self._is_plain(first), first not in PRIMITIVES
        for _ in range(size):
            name, at = self._read_class(value, at)
            if name != first:
                raise _OtherShapeError
            if nullable:
                if value.data[at] != 1:
                    raise _OtherShapeError
                at += 1
                if not plain:
                    out.append(1)
            at = body(value, at)
        return at

    def _peek(self, value: _Value, at: int) -> tuple[str | None, int]:
        """Return the class at a position without adding it to the names read so far."""
        names = len(value.names)
        peeked = self._read_class(value, at)
        del value.names[names:]
        return peeked

    def _map(self, arguments: tuple[JavaType, ...]) -> Step | None:
        if len(arguments) not in (0, 2) or any(map(_has_arguments, arguments)):
            return None
        finals = [self._final(kind) for kind in arguments] or [None, None]
        steps = [self._valued(()) if final is None else self._nullable(final) for final in finals]

        def mapped(value: _Value, at: int) -> int:
            value.depth += 1
            size = value.data[at]
            if size >= 0x7F or value.depth > MAX_DEPTH:
                raise _OtherShapeError
            at += 1
            value.out.append(size + 1)
            for _ in range(size):
                at = steps[1](value, steps[0](value, at))
            value.depth -= 1
            return at

        return mapped


def _has_arguments(kind: JavaType) -> bool:
    return bool(arguments_of(kind)) or isinstance(kind, TypeVariable)


def _name_of_class(name: str) -> bytes:
    output = KryoOutput(5)
    output.name_of_class(name)
    return bytes(output.data)


def _flag_and_size(flag: bool, size: int) -> bytes:
    output = KryoOutput(5)
    output.flag_and_size(flag, size)
    return bytes(output.data)
