"""Rules for POJOs in Flink: which classes are POJOs, and which fields they have.

A POJO is public, has a public constructor without arguments (an abstract class needs none), no methods called
``readObject`` or ``writeObject``, and at least one field. Its fields are those of the class and its superclasses that
are neither static nor transient, with distinct names. Each is public, or has a public getter and a public setter:
``getX``, ``isX`` or ``x`` of the field's type, and ``setX`` or ``x_$eq`` that returns nothing or the class. A record
only has to be public. Flink: ``TypeExtractor#analyzePojo``, ``#isValidPojoField``, ``#getAllDeclaredFields``.

The types around a type, its hierarchy, bind its variables, outermost first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyspark_savepoint.formats.class_files import (
    ArrayType,
    ClassType,
    JavaClass,
    JavaMethod,
    JavaType,
    PrimitiveType,
    TypeVariable,
)
from pyspark_savepoint.formats.class_files.java_types import class_name
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.statebackends.type_extraction.known_classes import BOXES, TYPE_INFO
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease

Hierarchy: TypeAlias = tuple[JavaType, ...]


def qualified(kind: JavaType, owner: JavaClass) -> JavaType:
    """Return a type whose variables name the class that declares them."""
    if isinstance(kind, TypeVariable):
        return TypeVariable(f"{owner.name}#{kind.name}")
    if isinstance(kind, ArrayType):
        return ArrayType(qualified(kind.component, owner))
    if isinstance(kind, ClassType) and kind.arguments:
        return ClassType(kind.name, tuple(qualified(argument, owner) for argument in kind.arguments))
    return kind


def materialized(hierarchy: Hierarchy, variable: TypeVariable, find: Callable[[str], JavaClass | None]) -> JavaType:
    """Resolve a type variable from the types around it, innermost first. Flink: ``materializeTypeVariable``."""
    for kind in reversed(hierarchy):
        if not isinstance(kind, ClassType) or not kind.arguments:
            continue
        java_class = find(kind.name)
        names = [f"{kind.name}#{name}" for name in java_class.type_parameters] if java_class is not None else []
        for name, argument in zip(names, kind.arguments, strict=False):
            if name == variable.name:
                if not isinstance(argument, TypeVariable):
                    return argument
                variable = argument
    return variable


class Classes(Protocol):
    """Lookup of the classes around the inspected one."""

    release: ExtractionRelease

    def find(self, name: str) -> JavaClass | None:
        """Return a class by its name."""
        ...

    def superclasses(self, kind: ClassType) -> tuple[ClassType, ...]:
        """Return a class and its superclasses."""
        ...

    def expect_superclasses(self, kind: ClassType) -> bool:
        """Return whether the superclasses allow a POJO."""
        ...


class DuplicateFieldError(Exception):
    """Error for two classes of one hierarchy that declare a field of the same name."""


@dataclass(frozen=True, slots=True)
class PojoField:
    """A field, the class that declares it, and whether it has ``@TypeInfo``."""

    owner: str
    name: str
    type: JavaType
    erased: JavaType
    is_public: bool
    has_factory: bool

    @property
    def key(self) -> bytes:
        """Return the field's identity in a snapshot: the class that declares it, and its name."""
        view = DataOutputView()
        view.write_utf(self.owner)
        view.write_utf(self.name)
        return view.getvalue()


@dataclass(frozen=True, slots=True)
class _Method:
    """A public method, with its types qualified by the declaring class, and erased."""

    name: str
    arguments: tuple[JavaType, ...]
    returns: JavaType
    erased_arguments: tuple[JavaType, ...]
    erased_returns: JavaType


def pojo_fields(extractor: Classes, kind: ClassType, around: Hierarchy) -> list[PojoField] | None:
    """Return the fields of a class that is a POJO or a record; None if it is neither."""
    java_class = extractor.find(kind.name)
    if java_class is None or not java_class.is_public or not extractor.expect_superclasses(kind):
        return None
    above = [extractor.find(ancestor.name) for ancestor in extractor.superclasses(kind)]
    classes = [ancestor for ancestor in above if ancestor is not None]
    fields = _declared_fields(classes)
    is_record = extractor.release.has_records and java_class.is_record
    if not fields:
        return None
    if is_record:
        return fields
    methods = _public_methods(extractor, classes)
    if not all(field.is_public or _has_accessors(extractor, field, java_class, methods, around) for field in fields):
        return None
    if any(method.name in ("readObject", "writeObject") for ancestor in classes for method in ancestor.methods):
        return None
    return fields if _has_constructor(java_class) else None


def _has_constructor(java_class: JavaClass) -> bool:
    """Return whether the class has a public constructor without arguments, or is abstract and has none."""
    for constructor in java_class.constructors:
        if not constructor.erased.arguments:
            return constructor.is_public
    return java_class.is_abstract


def _declared_fields(classes: list[JavaClass]) -> list[PojoField]:
    fields: dict[str, PojoField] = {}
    for declaring in classes:
        for field in declaring.fields:
            if field.is_static or field.is_transient:
                continue
            if field.name in fields:
                raise DuplicateFieldError(field.name)
            fields[field.name] = PojoField(
                declaring.name,
                field.name,
                qualified(field.type, declaring),
                field.erased,
                field.is_public,
                any(annotation.name == TYPE_INFO for annotation in field.annotations),
            )
    return list(fields.values())


def _public_methods(extractor: Classes, classes: list[JavaClass]) -> dict[str, list[_Method]]:
    """Return methods as ``Class.getMethods`` does, by name without case and underscores; no overridden ones."""
    methods: dict[str, list[_Method]] = {}
    signatures: set[tuple[object, ...]] = set()
    for declaring in (*classes, *_interfaces(extractor, classes)):
        for method in declaring.methods:
            if not method.is_public or (declaring.is_interface and method.is_static) or method.name[0] == "<":
                continue
            public_method = _method(method, declaring)
            mark = (public_method.name, public_method.erased_arguments, public_method.erased_returns)
            if mark not in signatures:
                signatures.add(mark)
                methods.setdefault(_plain_method(public_method.name), []).append(public_method)
    return methods


def _interfaces(extractor: Classes, classes: list[JavaClass]) -> Iterator[JavaClass]:
    """Yield the interfaces of classes, each once, as far as there are class files for them."""
    waiting, seen = [kind.name for java_class in classes for kind in java_class.interfaces], set()
    while waiting:
        name = waiting.pop(0)
        interface = extractor.find(name) if name not in seen else None
        seen.add(name)
        if interface is not None:
            yield interface
            waiting += [kind.name for kind in interface.interfaces]


def _method(method: JavaMethod, declaring: JavaClass) -> _Method:
    return _Method(
        method.name,
        tuple(qualified(kind, declaring) for kind in method.signature.arguments),
        qualified(method.signature.returns, declaring),
        method.erased.arguments,
        method.erased.returns,
    )


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _plain_method(name: str) -> str:
    """Normalize a name as :func:`_plain` does; a Scala setter keeps the ``_`` of ``x_$eq``."""
    return re.sub(r"\$eq$", "_$eq", _plain(name)) if name.endswith("_$eq") else _plain(name)


def _has_accessors(
    extractor: Classes,
    field: PojoField,
    java_class: JavaClass,
    methods: dict[str, list[_Method]],
    around: Hierarchy,
) -> bool:
    """Return whether a field that is not public has a getter and a setter."""
    variable = field.type if isinstance(field.type, TypeVariable) else None
    kind = materialized(around, variable, extractor.find) if variable is not None else field.type
    erased = field.erased
    boxed = BOXES[erased.name] if isinstance(erased, PrimitiveType) else class_name(erased)

    def fits(generic: JavaType, raw: JavaType) -> bool:
        return generic == kind or class_name(raw) == boxed or (variable is not None and generic == variable)

    name = _plain(field.name)
    getter = any(
        not method.arguments and fits(method.returns, method.erased_returns)
        for known in (f"get{name}", f"is{name}", name)
        for method in methods.get(known, ())
    )
    setter = any(
        len(method.arguments) == 1
        and fits(method.arguments[0], method.erased_arguments[0])
        and class_name(method.erased_returns) in ("void", java_class.name)
        for known in (f"set{name}", f"{name}_$eq")
        for method in methods.get(known, ())
    )
    return getter and setter
