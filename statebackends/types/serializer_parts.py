"""Parts of a serializer, found and replaced by their paths, whatever the composite serializers around them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import KindSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member

#: Names from the outermost part to the innermost: ("lines", "element").
Path = tuple[str, ...]
Change = Callable[[TypeSerializer, Path], TypeSerializer]


def with_parts(serializer: TypeSerializer, change: Change, path: Path = ()) -> TypeSerializer:
    """Return a serializer whose direct parts are replaced by what ``change`` returns for them."""
    changed: dict[str, Any] = {}
    held = {field.name: getattr(serializer, field.name) for field in fields(serializer)}
    for name, value in held.items():
        if isinstance(value, TypeSerializer):
            changed[name] = change(value, (*path, name))
        elif isinstance(value, tuple) and value and all(isinstance(part, TypeSerializer | Member) for part in value):
            changed[name] = tuple(
                replace(part, serializer=change(part.serializer, (*path, part.name)))
                if isinstance(part, Member)
                else change(part, (*path, *_name(serializer, index)))
                for index, part in enumerate(value)
            )
    same = all(_same(held[name], value) for name, value in changed.items())
    return serializer if same else replace(serializer, **changed)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, tuple):
        return all(a is b or (isinstance(a, Member) and a == b) for a, b in zip(before, after, strict=True))
    return before is after


def _name(serializer: TypeSerializer, position: int) -> Path:
    """Return the name of a nested serializer."""
    if isinstance(serializer, KindSerializer):
        return (serializer.kind.part(position),)
    return ("element" if len(serializer.children) == 1 else str(position),)


def by_path(serializer: TypeSerializer) -> dict[Path, TypeSerializer]:
    """Return a serializer and all of its parts by their paths."""
    parts: dict[Path, TypeSerializer] = {}

    def add(part: TypeSerializer, path: Path) -> TypeSerializer:
        parts[path] = part
        with_parts(part, add, path)
        return part

    add(serializer, ())
    return parts
