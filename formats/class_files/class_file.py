"""Parser of one compiled class (Java Virtual Machine Specification, chapter 4): what Java's reflection would return.

    file       := u4 CAFEBABE  u2 minor  u2 major  u2 n  constant[n - 1]  u2 flags  u2 this  u2 super
                  u2 n  u2 interface[n]  u2 n  member[n] fields  u2 n  member[n] methods  u2 n  attribute[n]
    constant   := u1 tag, and by tag: 1 utf8 (u2 length, modified UTF-8); 3 4 number (u4); 5 6 (u8, takes two indices);
                  7 class, 8 string, 16 19 20 (u2); 9 10 11 12 17 18 (u2 u2); 15 (u1 u2)
    member     := u2 flags  u2 name  u2 descriptor  u2 n  attribute[n]
    attribute  := u2 name  u4 length  bytes

It reads the attributes ``Signature``, ``InnerClasses`` (flags of nested classes), ``Record`` and
``RuntimeVisibleAnnotations``, and skips code. A file is untrusted input: every index and length is checked, and shared
constants are decoded once, so that time and memory are linear in the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from pyspark_savepoint.formats.class_files.java_types import (
    OBJECT,
    ClassSignature,
    ClassType,
    JavaType,
    MethodSignature,
    SignatureError,
    parse_class_signature,
    parse_field_type,
    parse_method_signature,
)
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.java import decode_modified_utf8, is_well_formed

MAGIC = 0xCAFEBABE
#: More than compilers write: the code of a method has at most 64 kB.
MAX_CLASS_BYTES = 16 << 20

PUBLIC, STATIC, FINAL, INTERFACE, TRANSIENT = 0x0001, 0x0008, 0x0010, 0x0200, 0x0080
ABSTRACT, SYNTHETIC, ANNOTATION, ENUM = 0x0400, 0x1000, 0x2000, 0x4000

UTF8, LONG, DOUBLE, CLASS, STRING = 1, 5, 6, 7, 8
#: Bytes of the constants that are skipped, by tag.
WIDTHS: Mapping[int, int] = {3: 4, 4: 4, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
#: Limit on nested annotations.
MAX_ANNOTATION_DEPTH = 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JavaAnnotation:
    """An annotation with run-time retention; ``classes`` are its elements whose value is a class."""

    name: str
    classes: Mapping[str, JavaType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JavaField:
    """A declared field: ``type`` is the generic type, ``erased`` the type of the descriptor."""

    name: str
    flags: int
    type: JavaType
    erased: JavaType
    annotations: tuple[JavaAnnotation, ...] = ()

    @property
    def is_public(self) -> bool:
        return bool(self.flags & PUBLIC)

    @property
    def is_static(self) -> bool:
        return bool(self.flags & STATIC)

    @property
    def is_final(self) -> bool:
        return bool(self.flags & FINAL)

    @property
    def is_transient(self) -> bool:
        """Return whether Java serialization skips the field."""
        return bool(self.flags & TRANSIENT)

    @property
    def is_synthetic(self) -> bool:
        """Return whether the compiler generated the field, such as ``this$0``."""
        return bool(self.flags & SYNTHETIC)

    @property
    def is_enum_constant(self) -> bool:
        """Return whether the field is a constant of an enum."""
        return bool(self.flags & ENUM)


@dataclass(frozen=True, slots=True)
class JavaMethod:
    """A declared method or constructor (``<init>``), with generic types and with the types of the descriptor."""

    name: str
    flags: int
    signature: MethodSignature
    erased: MethodSignature

    @property
    def is_public(self) -> bool:
        return bool(self.flags & PUBLIC)

    @property
    def is_static(self) -> bool:
        return bool(self.flags & STATIC)


@dataclass(frozen=True)
class JavaClass:
    """A class, interface, enum or record; ``strings`` are the string constants of its code."""

    name: str
    flags: int
    signature: ClassSignature
    superclass_name: str | None
    fields: tuple[JavaField, ...]
    methods: tuple[JavaMethod, ...]
    annotations: tuple[JavaAnnotation, ...] = ()
    record_components: tuple[str, ...] | None = None
    strings: tuple[str, ...] = ()

    @property
    def superclass(self) -> ClassType | None:
        """Return the superclass with its type arguments; None for ``java.lang.Object``."""
        kind = self.signature.superclass
        return kind if self.superclass_name is not None and isinstance(kind, ClassType) else None

    @property
    def interfaces(self) -> tuple[ClassType, ...]:
        """Return the directly implemented interfaces, with their type arguments."""
        return tuple(kind for kind in self.signature.interfaces if isinstance(kind, ClassType))

    @property
    def type_parameters(self) -> tuple[str, ...]:
        return self.signature.parameters

    @property
    def is_public(self) -> bool:
        """Return whether the class is public; for a nested class, according to its source."""
        return bool(self.flags & PUBLIC)

    @property
    def is_final(self) -> bool:
        return bool(self.flags & FINAL)

    @property
    def is_abstract(self) -> bool:
        """Return whether the class is abstract; interfaces are abstract, too."""
        return bool(self.flags & ABSTRACT)

    @property
    def is_interface(self) -> bool:
        return bool(self.flags & INTERFACE)

    @property
    def is_enum(self) -> bool:
        """Return whether the class is declared as an enum; the class of a constant with a body is not."""
        return self.superclass_name == "java.lang.Enum"

    @property
    def is_record(self) -> bool:
        """Return whether the class is a record as defined by Flink: a final class below ``java.lang.Record``."""
        return self.superclass_name == "java.lang.Record" and self.is_final

    @property
    def enum_constants(self) -> tuple[str, ...]:
        """Return the constants of an enum, in the order of their declaration."""
        return tuple(member.name for member in self.fields if member.is_enum_constant)

    @cached_property
    def constructors(self) -> tuple[JavaMethod, ...]:
        return tuple(method for method in self.methods if method.name == "<init>")

    def annotation(self, name: str) -> JavaAnnotation | None:
        """Return the annotation with a class name; None if there is none."""
        return next((annotation for annotation in self.annotations if annotation.name == name), None)


def parse_class(data: bytes, path: str | None = None) -> JavaClass:
    """Parse a class file; raise CorruptStateError if it is invalid."""
    return _ClassFile(DataInputView(data, path)).parse()


def superclass_of(data: bytes, path: str | None = None) -> tuple[str, str | None]:
    """Return the names of a class and of its superclass, without the parse of anything behind them."""
    class_file = _ClassFile(DataInputView(data, path))
    class_file.head()
    return class_file.names_of_class()


class _ClassFile:
    """Parser of one class file."""

    def __init__(self, view: DataInputView) -> None:
        self.view = view
        self.spans: dict[int, tuple[int, int]] = {}
        self.references: dict[int, tuple[int, int]] = {}
        self.texts: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.parsed: dict[tuple[str, int], object] = {}

    def head(self) -> int:
        """Read all in front of the names of the class; return its flags."""
        view = self.view
        if view.end > MAX_CLASS_BYTES:
            view.fail(f"a class of at most {MAX_CLASS_BYTES} bytes", view.end)
        if view.read_i32("the magic number of a class file") & 0xFFFFFFFF != MAGIC:
            view.position = 0
            view.fail("a class file, which begins with CAFEBABE")
        view.read(4, "the version of a class file")
        self.read_constants()
        return view.read_u16("the flags of a class")

    def names_of_class(self) -> tuple[str, str | None]:
        """Read the names of the class and of its superclass."""
        name = self.class_name(self.view.read_u16("the class"))
        above = self.view.read_u16("the superclass")
        return name, self.class_name(above) if above else None

    def parse(self) -> JavaClass:
        view = self.view
        flags = self.head()
        name, superclass = self.names_of_class()
        interfaces = [self.class_name(view.read_u16("an interface")) for _ in range(self.count("interfaces", 2))]
        fields = tuple(self.field() for _ in range(self.count("fields", 8)))
        methods = tuple(self.method() for _ in range(self.count("methods", 8)))
        plain = ClassSignature(
            (), ClassType(superclass) if superclass else OBJECT, tuple(ClassType(name) for name in interfaces)
        )
        signature, components = plain, None
        annotations: tuple[JavaAnnotation, ...] = ()
        for attribute, content in self.attributes():
            if attribute == "Signature":
                signature = self.signature(content, parse_class_signature)
            elif attribute == "InnerClasses":
                flags = self.inner_flags(content, name, flags)
            elif attribute == "Record":
                components = self.record(content)
            elif attribute == "RuntimeVisibleAnnotations":
                annotations = self.annotations(content)
        view.expect_end("a class file")
        strings = tuple(self.text(index) for tag, index in self.references.values() if tag == STRING)
        return JavaClass(name, flags, signature, superclass, fields, methods, annotations, components, strings)

    # -- constants -------------------------------------------------------------------------------------------

    def read_constants(self) -> None:
        view = self.view
        count = view.read_u16("the number of constants")
        number = 1
        while number < count:
            tag = view.read_u8("the tag of a constant")
            if tag == UTF8:
                size = view.read_u16("the length of a text")
                self.spans[number] = (view.position, size)
                view.read(size, "a text")
            elif tag in (CLASS, STRING):
                self.references[number] = (tag, view.read_u16("a constant"))
            elif tag in (LONG, DOUBLE):
                view.read(8, "a number")
                number += 1
            elif tag in WIDTHS:
                view.read(WIDTHS[tag], "a constant")
            else:
                view.position -= 1
                view.fail("the tag of a constant", tag)
            number += 1

    def text(self, index: int) -> str:
        result = self.texts.get(index)
        if result is not None:
            return result
        if index not in self.spans:
            self.view.fail("the index of a text constant", index)
        start, size = self.spans[index]
        try:
            text = decode_modified_utf8(bytes(self.view.data[start : start + size]))
        except ValueError:
            self.view.fail("a text in modified UTF-8")
        self.texts[index] = text
        return text

    def name(self, index: int) -> str:
        """Return the name of a member or class, which may become a column name: not empty, without lone surrogates."""
        result = self.names.get(index)
        if result is not None:
            return result
        name = self.text(index)
        if not name or not is_well_formed(name):
            self.view.fail("a name", ascii(name[:80]))
        self.names[index] = name
        return name

    def class_name(self, index: int) -> str:
        """Return the name of a class constant in the form of ``Class.getName``."""
        tag, text = self.references.get(index, (0, 0))
        if tag != CLASS:
            self.view.fail("the index of a class constant", index)
        return self.once(text, _dotted)

    def once(self, index: int, parse: Callable[[str], T]) -> T:
        """Parse a text constant; the result is cached, however often the constant is referenced."""
        key = (parse.__name__, index)
        if key not in self.parsed:
            try:
                self.parsed[key] = parse(self.name(index))
            except SignatureError as error:
                self.view.fail("a type of Java", str(error))
        parsed: T = self.parsed[key]  # type: ignore[assignment]  # keyed by the parser, whose result it is
        return parsed

    # -- members ---------------------------------------------------------------------------------------------

    def count(self, what: str, each: int) -> int:
        """Read a number of items of at least ``each`` bytes."""
        view = self.view
        count = view.read_u16(f"the number of {what}")
        if count * each > view.remaining:
            view.position -= 2
            view.fail(f"at most {view.remaining // each} {what}", count)
        return count

    def attributes(self) -> Iterator[tuple[str, DataInputView]]:
        for _ in range(self.count("attributes", 6)):
            name = self.text(self.view.read_u16("the name of an attribute"))
            yield name, self.view.sub_view(self.view.read_count("bytes of an attribute"), "an attribute")

    def signature(self, content: DataInputView, parse: Callable[[str], T]) -> T:
        """Parse a Signature attribute."""
        signature = self.once(content.read_u16("a signature"), parse)
        content.expect_end("a signature")
        return signature

    def field(self) -> JavaField:
        flags, name = self.view.read_u16("flags"), self.name(self.view.read_u16("the name of a field"))
        erased = self.once(self.view.read_u16("the descriptor of a field"), parse_field_type)
        generic = erased
        annotations: tuple[JavaAnnotation, ...] = ()
        for attribute, content in self.attributes():
            if attribute == "Signature":
                generic = self.signature(content, parse_field_type)
            elif attribute == "RuntimeVisibleAnnotations":
                annotations = self.annotations(content)
        return JavaField(name, flags, generic, erased, annotations)

    def method(self) -> JavaMethod:
        flags, name = self.view.read_u16("flags"), self.name(self.view.read_u16("the name of a method"))
        erased = self.once(self.view.read_u16("the descriptor of a method"), parse_method_signature)
        generic = erased
        for attribute, content in self.attributes():
            if attribute == "Signature":
                generic = self.signature(content, parse_method_signature)
        return JavaMethod(name, flags, generic, erased)

    # -- attributes ------------------------------------------------------------------------------------------

    def inner_flags(self, content: DataInputView, name: str, flags: int) -> int:
        """Return the source flags of a nested class; ``flags`` if the class is not nested."""
        for _ in range(content.read_u16("the number of nested classes")):
            inner = content.read_u16("a nested class")
            content.read(4, "the class around it, and its simple name")
            source_flags = content.read_u16("the flags of a nested class")
            if self.class_name(inner) == name:
                flags = source_flags
        content.expect_end("nested classes")
        return flags

    def record(self, content: DataInputView) -> tuple[str, ...]:
        """Parse the names of a record's components."""
        names = []
        for _ in range(content.read_u16("the number of components")):
            names.append(self.name(content.read_u16("the name of a component")))
            content.read_u16("the descriptor of a component")
            for _ in range(content.read_u16("the number of attributes")):
                content.read_u16("the name of an attribute")
                content.read(content.read_count("bytes of an attribute"), "an attribute")
        content.expect_end("a record")
        return tuple(names)

    def annotations(self, content: DataInputView) -> tuple[JavaAnnotation, ...]:
        """Parse the annotations with run-time retention."""
        annotations = tuple(self.annotation(content, 0) for _ in range(content.read_u16("the number of annotations")))
        content.expect_end("annotations")
        return annotations

    def annotation(self, content: DataInputView, depth: int) -> JavaAnnotation:
        if depth > MAX_ANNOTATION_DEPTH:
            content.fail(f"annotations nested at most {MAX_ANNOTATION_DEPTH} deep")
        kind = self.once(content.read_u16("the type of an annotation"), _annotation_name)
        classes = {}
        for _ in range(content.read_u16("the number of elements")):
            name = self.text(content.read_u16("the name of an element"))
            value = self.element(content, depth + 1)
            if value is not None:
                classes[name] = value
        return JavaAnnotation(kind, classes)

    def element(self, content: DataInputView, depth: int) -> JavaType | None:
        """Parse one value of an annotation; return it if it is a class, else None."""
        if depth > MAX_ANNOTATION_DEPTH:
            content.fail(f"annotations nested at most {MAX_ANNOTATION_DEPTH} deep")
        tag = chr(content.read_u8("the tag of a value"))
        if tag == "c":
            index = content.read_u16("a class")
            return None if self.text(index) == "V" else self.once(index, parse_field_type)
        if tag == "e":
            content.read(4, "a constant of an enum")
        elif tag == "@":
            self.annotation(content, depth + 1)
        elif tag == "[":
            for _ in range(content.read_u16("the number of values")):
                self.element(content, depth + 1)
        elif tag in "BCDFIJSZs":
            content.read_u16("a constant")
        else:
            content.fail("the tag of a value of an annotation", tag)
        return None


def _dotted(name: str) -> str:
    return name.replace("/", ".")


def _annotation_name(descriptor: str) -> str:
    return str(parse_field_type(descriptor))
