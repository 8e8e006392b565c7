"""Type arguments of fields, as both versions of Kryo pass them to the collections and classes in the fields.

Kryo 2 sets them on the serializer of the value's class (:class:`Generics2`): the next value of that class uses them.
Kryo 5 has a stack of types and depths (:class:`Generics5`; Kryo: ``DefaultGenerics``): a serializer takes the
arguments of the top, which is valid only if it was pushed one level above, and then pushes the last argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.class_files.java_types import (
    ArrayType,
    ClassType,
    JavaType,
    PrimitiveType,
    TypeVariable,
    Wildcard,
    class_name,
)
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import WRAPPERS


def erased(kind: JavaType) -> str:
    """Return the class of a type as objects name it: ``int`` for Integer, ``Object`` for a variable."""
    if isinstance(kind, Wildcard) and kind.upper is not None:
        return erased(kind.upper)
    name = class_name(kind)
    return WRAPPERS.get(name, name)


def arguments_of(kind: JavaType) -> tuple[JavaType, ...]:
    """Return the type arguments of a class, or of the elements of an array of a class."""
    while isinstance(kind, ArrayType):
        kind = kind.component
    return kind.arguments if isinstance(kind, ClassType) else ()


def substituted(kind: JavaType, bound: Mapping[str, JavaType]) -> JavaType:
    """Return a type with the variables in ``bound`` replaced."""
    if isinstance(kind, TypeVariable):
        return bound.get(kind.name, kind)
    if isinstance(kind, ClassType) and kind.arguments:
        return ClassType(kind.name, tuple(substituted(each, bound) for each in kind.arguments))
    if isinstance(kind, ArrayType):
        return ArrayType(substituted(kind.component, bound))
    if isinstance(kind, Wildcard) and kind.upper is not None:
        return Wildcard(substituted(kind.upper, bound))
    return kind


class Generics2:
    """Type arguments by the class whose serializer they are set on."""

    def __init__(self) -> None:
        self._arguments: dict[str, tuple[JavaType, ...]] = {}

    def set(self, name: str, arguments: tuple[JavaType, ...]) -> None:
        """Set the arguments of a field on the class of its value."""
        self._arguments[name] = arguments

    def take(self, name: str) -> tuple[JavaType, ...]:
        """Remove and return the arguments of a class."""
        return self._arguments.pop(name, ())


class Generics5:
    """Stack of types, and the classes that are bound to type variables."""

    def __init__(self) -> None:
        self.depth = 0
        self._types: list[tuple[JavaType, int]] = []
        self._bound: list[tuple[str, str]] = []

    def push(self, kind: JavaType) -> None:
        """Push the type of a field or key, before its object."""
        self._types.append((kind, self.depth))

    def pop(self) -> None:
        """Pop the top if it was pushed at this depth or below."""
        if self._types and self._types[-1][1] >= self.depth:
            self._types.pop()

    def next_types(self) -> tuple[JavaType, ...]:
        """Return the arguments of the top and push the last one if the top belongs to this object; else nothing."""
        if self._types:
            kind, depth = self._types[-1]
            arguments = arguments_of(kind)
            if arguments and depth == self.depth - 1:
                self.push(arguments[-1])
                return arguments
        return ()

    def resolve(self, kind: JavaType) -> str | None:
        """Return the class of a type; None for a variable that is not bound."""
        if not isinstance(kind, TypeVariable):
            return erased(kind)
        for name, found in reversed(self._bound):
            if name == kind.name:
                return found
        return None

    def bind(self, parameters: tuple[str, ...], arguments: tuple[JavaType, ...]) -> int:
        """Bind the type parameters of a class; return how many were bound."""
        if not parameters or len(parameters) > len(arguments):
            return 0
        bound = [
            (name, found)
            for name, found in zip(parameters, map(self.resolve, arguments), strict=False)
            if found is not None
        ]
        self._bound += bound
        return len(bound)

    def unbind(self, count: int) -> None:
        """Remove the last variables."""
        if count:
            del self._bound[-count:]


def is_primitive(kind: JavaType) -> bool:
    """Return whether a field of this type has a primitive type."""
    return isinstance(kind, PrimitiveType)
