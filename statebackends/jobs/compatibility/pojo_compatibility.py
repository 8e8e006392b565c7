"""Compatibility of POJOs and records: fields may be added and removed, but the others must keep their types.

Fields match by name and declaring class. A type in notation does not name declaring classes; there only the name
counts. Flink: ``PojoSerializerSnapshot``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.composite.optional_map import Member, OpaqueFrame
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    Compatibility,
    Resolution,
    Resolver,
    after_migration,
    incompatible,
    misread,
    reconfigured,
    worst,
)


def resolve_pojo(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Resolution:
    """Compare two POJOs; they are compatible as is with equal fields and registered subclasses in equal order."""
    if old.class_name != new.class_name:
        return incompatible(f"the class {old.class_name} versus {new.class_name}")
    for member in old.subclasses:
        if member.key is None or _is_absent(member):
            return incompatible(f"the subclass {member.name} could not be loaded when the snapshot was taken")
    found = worst([*_fields(old, new, resolver), *_subclasses(old, new, resolver)])
    if found.verdict.severity < Compatibility.AFTER_MIGRATION.severity and _names(old) != _names(new):
        return misread(f"the fields of {old.class_name} are in another order, which Flink does not notice")
    return found


def _names(serializer: PojoSerializer) -> list[str]:
    return [member.name for member in serializer.fields]


def _fields(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Iterator[Resolution]:
    there = {_identity(member, new): member for member in new.fields}
    before = [member for member in old.fields if not _is_absent(member)]
    kept = {key for member in before if (key := _match(member, there)) is not None}
    for member in before:
        key = _match(member, there)
        if key is None:
            yield after_migration(f"field {member.name} is gone, and its values with it")
        else:
            yield resolver.resolve(member.serializer, there[key].serializer).within(f"field {member.name}")
    for key, member in there.items():
        if key not in kept:
            yield after_migration(f"field {member.name} is new, and will have Java's default")


def _match(member: Member, there: Mapping[tuple[str | None, str], Member]) -> tuple[str | None, str] | None:
    """Return the job's field with the same name, declared by the same class or by an unknown one."""
    for key in ((_declaring_class(member), member.name), (None, member.name)):
        if key in there:
            return key
    return None


def _identity(member: Member, owner: PojoSerializer) -> tuple[str | None, str]:
    declaring = _declaring_class(member)
    return (None if declaring == owner.class_name else declaring, member.name)


def _declaring_class(member: Member) -> str | None:
    if member.key is None:
        return None
    try:
        return DataInputView(member.key).read_utf("the class of a field")
    except CorruptStateError:
        return None


def _is_absent(member: Member) -> bool:
    return isinstance(member.serializer, OpaqueFrame) and member.serializer.payload is None


def _subclasses(old: PojoSerializer, new: PojoSerializer, resolver: Resolver) -> Iterator[Resolution]:
    there = {member.name: member for member in new.registered}
    for member in old.registered:
        if member.name in there:
            yield resolver.resolve(member.serializer, there[member.name].serializer).within(f"subclass {member.name}")
    before, after = [member.name for member in old.registered], list(there)
    if after[: len(before)] != before:
        yield reconfigured(f"subclasses of {old.class_name} are registered in another order")
    if old.others:
        yield reconfigured(f"{old.class_name} has subclasses that were not registered")
