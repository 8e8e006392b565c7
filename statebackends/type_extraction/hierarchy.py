"""Hierarchy of the types around a type, outermost first, which bind type variables; as in Flink's ``TypeExtractor``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark_savepoint.formats.class_files import ArrayType, ClassType, JavaClass, JavaType, TypeVariable

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
        found = find(kind.name)
        names = [f"{kind.name}#{name}" for name in found.type_parameters] if found is not None else []
        for name, argument in zip(names, kind.arguments, strict=False):
            if name == variable.name:
                if not isinstance(argument, TypeVariable):
                    return argument
                variable = argument
    return variable
