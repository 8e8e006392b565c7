"""Parts of a serializer, found and replaced by their paths, whatever the composite serializers around them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import KindSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member

#: Names from the outermost part to the innermost: ("lines", "element").
Path = tuple[str, ...]
#: Types of fields of serializers that have no parts: most fields, and there may be 2,000 states.
PLAIN = frozenset({str, int, bool, bytes, type(None)})
Change = Callable[[TypeSerializer, Path], TypeSerializer]


def with_parts(serializer: TypeSerializer, change: Change, path: Path = ()) -> TypeSerializer:
    """Return a serializer whose direct parts are replaced by what ``change`` returns for them."""
    changed: dict[str, Any] = {}
    for name in _attributes(type(serializer)):
        value = getattr(serializer, name)
        if type(value) in PLAIN:
            continue
        if isinstance(value, TypeSerializer):
            part = change(value, (*path, name))
            if part is not value:
                changed[name] = part
        elif type(value) is tuple and value and all(isinstance(part, TypeSerializer | Member) for part in value):
            parts = tuple(
                _member(part, change, path)
                if isinstance(part, Member)
                else change(part, (*path, *_name(serializer, index)))
                for index, part in enumerate(value)
            )
            if any(a is not b for a, b in zip(value, parts, strict=True)):
                changed[name] = parts
    return replace(serializer, **changed) if changed else serializer


def _member(member: Member, change: Change, path: Path) -> Member:
    part = change(member.serializer, (*path, member.name))
    return member if part is member.serializer else replace(member, serializer=part)


@cache
def _attributes(kind: type[TypeSerializer]) -> tuple[str, ...]:
    """Return the names of the fields of a class of serializers."""
    return tuple(attribute.name for attribute in fields(kind))


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
