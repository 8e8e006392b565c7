"""A parser of Java Object Serialization streams that never loads a class.

Some snapshots embed Java objects: the properties of a checkpoint, the logical types of SQL state, values of
``JavaSerializer``. This module finds the end of such an object and returns its content. It builds only the plain
records below: no class is looked up or instantiated, and no code runs that the stream could choose.

::

    Stream  := AC ED 00 05  Content
    Content := 70                                            null
             | 71 i32                                        reference to a handle, counted from 7E0000
             | 72 utf i64 * u8 u16 Field[] Annotation Desc   class description, * takes a handle
             | 7D * i32 utf[] Annotation Desc                description of a proxy class
             | 73 Desc * data of each class                  object, the topmost superclass first
             | 74 * utf | 7C * i64 bytes                     string
             | 75 Desc * i32 n elements                      array
             | 76 Desc *                                     class
             | 7E Desc * string                              enum constant
    Field   := u8 code  utf name  (code L or [: string object, the signature)
    Annotation := (Content | 77 u8 bytes | 7A i32 bytes)*  78

Java: ``java.io.ObjectInputStream``. The input is untrusted: lengths are checked against the remaining bytes,
nesting and inheritance are bounded, and references share their target, so a small stream cannot expand when read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.java import decode_modified_utf8

STREAM_HEADER = 0xACED0005
BASE_HANDLE = 0x7E0000
NULL, REFERENCE, CLASSDESC, OBJECT, STRING, ARRAY, CLASS, BLOCKDATA = range(0x70, 0x78)
END_BLOCKDATA, _RESET, BLOCKDATA_LONG, _EXCEPTION, LONGSTRING, PROXYCLASSDESC, ENUM = range(0x78, 0x7F)
WRITE_METHOD, SERIALIZABLE, EXTERNALIZABLE, BLOCK_DATA, ENUM_CLASS = 1, 2, 4, 8, 16

MAX_DEPTH = 2000
MAX_LINEAGE = 64

JavaValue: TypeAlias = "JavaObject | JavaArray | JavaEnum | ObjectStreamClass | str | bytes | int | float | bool | None"
_Step: TypeAlias = Generator["_Step", Any, Any]


@dataclass(frozen=True, slots=True)
class ObjectStreamField:
    """A field of a class: its type code (``B C D F I J S Z L [``), name, and for objects the signature."""

    code: str
    name: str
    signature: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectStreamClass:
    """A class description of the stream. ``lineage`` is its superclasses, topmost first, followed by itself."""

    class_name: str
    serial_version_uid: int = 0
    flags: int = 0
    fields: tuple[ObjectStreamField, ...] = field(default=(), repr=False)
    above: tuple[ObjectStreamClass, ...] = field(default=(), repr=False)

    @property
    def lineage(self) -> tuple[ObjectStreamClass, ...]:
        """Return the superclasses, topmost first, and this class."""
        return (*self.above, self)


@dataclass(frozen=True, slots=True, eq=False)
class JavaEnum:
    """A constant of an enum class."""

    class_name: str
    constant: str


@dataclass(frozen=True, slots=True, eq=False)
class JavaArray:
    """An array; elements of ``byte[]`` are ints as well. Its ``repr`` is short, because an array may contain itself."""

    class_name: str
    elements: list[Any] = field(default_factory=list, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class JavaObject:
    """An object: the fields of its class and superclasses (the nearest wins), and the data that ``writeObject`` added.

    In ``annotations``, block data are bytes. The ``repr`` is short, because an object may refer to itself.
    """

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict, repr=False)
    annotations: list[Any] = field(default_factory=list, repr=False)


def skip_java_object(view: DataInputView) -> bytes:
    """Return the raw bytes of one stream with exactly one object, and move the view past it."""
    start = view.position
    parse_java_object(view)
    return bytes(view.data[start : view.position])


def parse_java_object(view: DataInputView) -> JavaValue:
    """Return the object of one stream with exactly one object as plain records, and move the view past it."""
    view.read_constant(STREAM_HEADER - (1 << 32), "the header of a Java object stream")
    value: JavaValue = _Parser(view).run()
    return value


class _Pending:
    """Placeholder in the handle table for an incomplete value, which cannot be referenced yet."""


class _Parser:
    """The grammar as generators: each yields the productions it needs, and a loop runs them on an explicit stack."""

    def __init__(self, view: DataInputView) -> None:
        self.view = view
        self.handles: list[Any] = []

    def run(self) -> Any:
        stack: list[_Step] = [self.content()]
        value: Any = None
        while stack:
            try:
                child = stack[-1].send(value)
            except StopIteration as done:
                stack.pop()
                value = done.value
            else:
                if len(stack) >= MAX_DEPTH:
                    self.view.fail("Java objects that are not nested that deep")
                stack.append(child)
                value = None
        return value

    def reserve(self, value: Any = _Pending) -> int:
        self.handles.append(value)
        return len(self.handles) - 1

    def content(self) -> _Step:
        """Parse any object, null or reference."""
        tag = self.view.read_u8("a tag of a Java object stream")
        if tag in LEAVES:
            return LEAVES[tag](self)
        if tag not in PRODUCTIONS:
            self.view.position -= 1
            self.view.fail("a tag of a Java object stream", f"{tag:#04x}")
        return (yield PRODUCTIONS[tag](self))

    def null(self) -> None:
        """Return None: no bytes follow the tag."""

    def reference(self) -> Any:
        handle = self.view.read_i32("a handle") - BASE_HANDLE
        if not 0 <= handle < len(self.handles) or self.handles[handle] is _Pending:
            self.view.position -= 4
            self.view.fail("a handle of an object before", handle)
        return self.handles[handle]

    def string(self) -> str:
        text = self.view.read_utf("a Java string")
        self.reserve(text)
        return text

    def long_string(self) -> str:
        start = self.view.position
        data = self.view.read(self.view.read_i64("the length of a Java string"), "a Java string")
        try:
            text = decode_modified_utf8(data)
        except ValueError:
            self.view.position = start
            self.view.fail("a Java string in modified UTF-8")
        self.reserve(text)
        return text

    def text(self, what: str) -> _Step:
        """Parse a string object or a reference to one."""
        at = self.view.position
        value = yield self.content()
        if not isinstance(value, str):
            self.view.position = at
            self.view.fail(what, type(value).__name__)
        return value

    def class_description(self) -> _Step:
        view = self.view
        name = view.read_utf("a Java class name")
        uid = view.read_i64("a serialVersionUID")
        handle = self.reserve()
        flags = view.read_u8("the flags of a Java class")
        if flags & SERIALIZABLE and flags & EXTERNALIZABLE:
            view.fail("a class that is serializable or externalizable", flags)
        fields = []
        for _ in range(view.read_u16("the number of fields")):
            code = chr(view.read_u8("the type code of a field"))
            field_name = view.read_utf("a field name")
            if code in "L[":
                fields.append(ObjectStreamField(code, field_name, (yield self.text("the signature of a field"))))
            elif code in PRIMITIVES:
                fields.append(ObjectStreamField(code, field_name))
            else:
                view.fail("a type code of a field", code)
        above = yield self.rest_of_description()
        described = ObjectStreamClass(name, uid, flags, tuple(fields), above)
        self.handles[handle] = described
        return described

    def proxy_description(self) -> _Step:
        handle = self.reserve()
        names = [self.view.read_utf("an interface") for _ in range(self.view.read_count("interfaces", each=2))]
        above = yield self.rest_of_description()
        described = ObjectStreamClass(f"proxy({', '.join(names)})", 0, SERIALIZABLE, (), above)
        self.handles[handle] = described
        return described

    def rest_of_description(self) -> _Step:
        """Parse the annotation and the superclass; return the lineage of the superclass."""
        yield self.annotation([])
        superclass = yield self.description()
        above = superclass.lineage if superclass is not None else ()
        if len(above) >= MAX_LINEAGE:
            self.view.fail(f"at most {MAX_LINEAGE} superclasses")
        return above

    def description(self) -> _Step:
        """Parse a class description, a reference to one, or null."""
        at = self.view.position
        value = yield self.content()
        if value is not None and not isinstance(value, ObjectStreamClass):
            self.view.position = at
            self.view.fail("the description of a Java class", type(value).__name__)
        return value

    def some_class(self) -> _Step:
        """Parse a class description that must not be null."""
        described = yield self.description()
        if described is None:
            self.view.fail("the description of a Java class", "null")
        return described

    def class_object(self) -> _Step:
        described = yield self.some_class()
        self.reserve(described)
        return described

    def enum(self) -> _Step:
        described = yield self.some_class()
        if not described.flags & ENUM_CLASS:
            self.view.fail("an enum class", described.class_name)
        handle = self.reserve()
        constant = JavaEnum(described.class_name, (yield self.text("the name of an enum constant")))
        self.handles[handle] = constant
        return constant

    def array(self) -> _Step:
        described = yield self.some_class()
        name = described.class_name
        code = name[1:2]
        if name[:1] != "[" or not code or (code not in "L[" and code not in PRIMITIVES):
            self.view.fail("an array class", name)
        array = JavaArray(name)
        self.reserve(array)
        if code in "L[":
            for _ in range(self.view.read_count("array elements")):
                array.elements.append((yield self.content()))
        else:
            letter, width = PRIMITIVES[code]
            count = self.view.read_count("array elements", each=width)
            array.elements.extend(struct.unpack(f">{count}{letter}", self.view.read(count * width, "array elements")))
        return array

    def object(self) -> _Step:
        described = yield self.some_class()
        if described.flags & ENUM_CLASS or not described.flags & (SERIALIZABLE | EXTERNALIZABLE):
            self.view.fail("a class with instances in the stream", described.class_name)
        instance = JavaObject(described.class_name)
        self.reserve(instance)
        if described.flags & EXTERNALIZABLE:
            if not described.flags & BLOCK_DATA:
                self.view.fail("an object whose end can be found", f"old externalizable {described.class_name}")
            yield self.annotation(instance.annotations)
            return instance
        for level in described.lineage:
            for member in level.fields:
                instance.fields[member.name] = yield self.member(member)
            if level.flags & WRITE_METHOD:
                yield self.annotation(instance.annotations)
        return instance

    def member(self, member: ObjectStreamField) -> _Step:
        """Parse the value of a field."""
        if member.code in "L[":
            return (yield self.content())
        letter, width = PRIMITIVES[member.code]
        (value,) = struct.unpack(f">{letter}", self.view.read(width, f"field {member.name}"))
        return value

    def annotation(self, into: list[Any]) -> _Step:
        """Append objects and block data to ``into`` until the end mark."""
        view = self.view
        while True:
            tag = view.read_u8("the end of what writeObject wrote")
            if tag == END_BLOCKDATA:
                return None
            if tag == BLOCKDATA:
                into.append(view.read(view.read_u8("the length of block data"), "block data"))
            elif tag == BLOCKDATA_LONG:
                into.append(view.read_blob("block data"))
            else:
                view.position -= 1
                into.append((yield self.content()))


#: Type code: letter of ``struct``, width.
PRIMITIVES: Mapping[str, tuple[str, int]] = {
    "B": ("b", 1),
    "C": ("H", 2),
    "D": ("d", 8),
    "F": ("f", 4),
    "I": ("i", 4),
    "J": ("q", 8),
    "S": ("h", 2),
    "Z": ("?", 1),
}

LEAVES: Mapping[int, Callable[[_Parser], Any]] = {
    NULL: _Parser.null,
    REFERENCE: _Parser.reference,
    STRING: _Parser.string,
    LONGSTRING: _Parser.long_string,
}
PRODUCTIONS: Mapping[int, Callable[[_Parser], _Step]] = {
    CLASSDESC: _Parser.class_description,
    OBJECT: _Parser.object,
    ARRAY: _Parser.array,
    CLASS: _Parser.class_object,
    PROXYCLASSDESC: _Parser.proxy_description,
    ENUM: _Parser.enum,
}
