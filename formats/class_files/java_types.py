"""Types of Java in class files: descriptors and signatures (JVM specification, 4.3 and 4.7.9.1).

    field      := "B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z"       primitive types
                | "[" field                                           array
                | "T" name ";"                                        type variable
                | "L" name [arguments] ("." name [arguments])* ";"    class: "/" in packages, "." before nested ones
    arguments  := "<" ("*" | ["+" | "-"] field)+ ">"                  "*" is ?, "+" is ? extends, "-" is ? super
    method     := [parameters] "(" field* ")" (field | "V") ("^" field)*
    class      := [parameters] field field*                           superclass, then interfaces
    parameters := "<" (name ":" [field] (":" field)*)+ ">"

Java's reflection represents a class without arguments as ``Class``, and one with arguments as ``ParameterizedType``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

#: Deeper than any type observed in compiled classes.
MAX_DEPTH = 48
PRIMITIVES: Mapping[str, str] = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
    "V": "void",
}
CODES: Mapping[str, str] = {name: code for code, name in PRIMITIVES.items()}


class SignatureError(ValueError):
    """A text that is not a type of a class file."""


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A primitive type or ``void``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ClassType:
    """A class with a name in the form of ``Class.getName``, and its type arguments."""

    name: str
    arguments: tuple[JavaType, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.arguments))}>" if self.arguments else self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    component: JavaType

    def __str__(self) -> str:
        return f"{self.component}[]"


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A type parameter of the enclosing class or method."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Wildcard:
    """A wildcard: ``?``, ``? extends upper`` or ``? super lower``."""

    upper: JavaType | None = None
    lower: JavaType | None = None

    def __str__(self) -> str:
        if self.upper is not None:
            return f"? extends {self.upper}"
        return "?" if self.lower is None else f"? super {self.lower}"


JavaType: TypeAlias = PrimitiveType | ClassType | ArrayType | TypeVariable | Wildcard
OBJECT = ClassType("java.lang.Object")


def is_class(kind: JavaType) -> bool:
    """Return whether reflection represents the type as a ``Class``: no part of it is generic."""
    while isinstance(kind, ArrayType):
        kind = kind.component
    return isinstance(kind, PrimitiveType) or (isinstance(kind, ClassType) and not kind.arguments)


def class_name(kind: JavaType) -> str:
    """Return ``Class.getName`` of the erasure of a type without variables.

    >>> class_name(ArrayType(PrimitiveType("int"))), class_name(ArrayType(ClassType("a.B", (ClassType("a.C"),))))
    ('[I', '[La.B;')
    """
    dimensions = 0
    while isinstance(kind, ArrayType):
        kind, dimensions = kind.component, dimensions + 1
    if isinstance(kind, PrimitiveType):
        return "[" * dimensions + CODES[kind.name] if dimensions else kind.name
    name = kind.name if isinstance(kind, ClassType) else OBJECT.name
    return "[" * dimensions + f"L{name};" if dimensions else name


def parse_field_type(text: str) -> JavaType:
    """Parse the type of a field from its descriptor or signature; raise SignatureError if it is invalid.

    >>> str(parse_field_type("Ljava/util/Map<Ljava/lang/String;[J>;"))
    'java.util.Map<java.lang.String, long[]>'
    """
    parser = _Parser(text)
    field_type = parser.field()
    parser.expect_end()
    return field_type


@dataclass(frozen=True, slots=True)
class ClassSignature:
    """The type parameters of a class, its superclass and its interfaces."""

    parameters: tuple[str, ...]
    superclass: JavaType
    interfaces: tuple[JavaType, ...]


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """The type parameters of a method, the types of its arguments, and its return type."""

    parameters: tuple[str, ...]
    arguments: tuple[JavaType, ...]
    returns: JavaType


def parse_class_signature(text: str) -> ClassSignature:
    """Parse the signature of a generic class."""
    parser = _Parser(text)
    parameters, superclass = parser.parameters(), parser.field()
    interfaces = []
    while not parser.at_end:
        interfaces.append(parser.field())
    return ClassSignature(parameters, superclass, tuple(interfaces))


def parse_method_signature(text: str) -> MethodSignature:
    """Parse the signature or descriptor of a method.

    >>> parse_method_signature("(ILjava/lang/String;)V").returns
    PrimitiveType(name='void')
    """
    parser = _Parser(text)
    parameters = parser.parameters()
    parser.expect("(")
    arguments = []
    while not parser.accept(")"):
        arguments.append(parser.field())
    returns = PrimitiveType("void") if parser.accept("V") else parser.field()
    while parser.accept("^"):
        parser.field()
    parser.expect_end()
    return MethodSignature(parameters, tuple(arguments), returns)


class _Parser:
    """Parser of one signature."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def fail(self, expected: str) -> NoReturn:
        raise SignatureError(f"{expected} was expected at character {self.position + 1} of {self.text[:80]!r}")

    def expect_end(self) -> None:
        if not self.at_end:
            self.fail("the end")

    def accept(self, sign: str) -> bool:
        if self.text.startswith(sign, self.position):
            self.position += 1
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.fail(repr(sign))

    def name(self, ends: str) -> str:
        """Read characters up to one of ``ends``, which is not consumed."""
        start = self.position
        while not self.at_end and self.text[self.position] not in ends:
            self.position += 1
        if self.at_end or start == self.position:
            self.fail(f"a name that ends with one of {ends!r}")
        return self.text[start : self.position]

    def field(self) -> JavaType:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"a type nested at most {MAX_DEPTH} deep")
        field_type = self._field()
        self.depth -= 1
        return field_type

    def _field(self) -> JavaType:
        code = self.text[self.position] if not self.at_end else ""
        self.position += 1
        if code == "L":
            return self.class_type()
        if code == "[":
            return ArrayType(self.field())
        if code == "T":
            name = self.name(";")
            self.position += 1
            return TypeVariable(name)
        if code in PRIMITIVES and code != "V":
            return PrimitiveType(PRIMITIVES[code])
        self.position -= 1
        return self.fail("a type")

    def class_type(self) -> ClassType:
        name = self.name("<.;").replace("/", ".")
        arguments = self.arguments()
        while self.accept("."):
            name += "$" + self.name("<.;")
            arguments = self.arguments()
        self.expect(";")
        return ClassType(name, arguments)

    def arguments(self) -> tuple[JavaType, ...]:
        if not self.accept("<"):
            return ()
        arguments: list[JavaType] = []
        while not self.accept(">"):
            if self.accept("*"):
                arguments.append(Wildcard())
            elif self.accept("+"):
                arguments.append(Wildcard(upper=self.field()))
            elif self.accept("-"):
                arguments.append(Wildcard(lower=self.field()))
            else:
                arguments.append(self.field())
        return tuple(arguments)

    def parameters(self) -> tuple[str, ...]:
        if not self.accept("<"):
            return ()
        names = []
        while not self.accept(">"):
            names.append(self.name(":"))
            self.position += 1
            if not self.text.startswith(":", self.position):
                self.field()
            while self.accept(":"):
                self.field()
        return tuple(names)
