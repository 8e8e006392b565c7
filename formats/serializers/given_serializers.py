"""Serializers that a user gives to one read or write, in addition to those that entry points install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Serializers, each with the name of its snapshot class; or serializers or their classes, by snapshot class.
Given: TypeAlias = Sequence[TypeSerializer] | Mapping[str, type[TypeSerializer] | TypeSerializer]
EXPECTED = (
    "serializers, such as [MoneySerializer('com.shop.MoneySerializer$MoneySerializerSnapshot', 1)], or a mapping of "
    "snapshot classes to subclasses of TypeSerializer"
)


class GivenSerializers:
    """Serializers by snapshot class; objects with equal ``identity`` are equal."""

    __slots__ = ("classes", "identity", "named")

    def __init__(self, given: Given, identity: object) -> None:
        self.identity = identity
        #: The classes that read snapshots, by snapshot class.
        self.classes: dict[str, type[TypeSerializer]] = {}
        #: The serializers to write with, by the name of their type and by snapshot class.
        self.named: dict[str, TypeSerializer] = {}
        pairs = given.items() if isinstance(given, Mapping) else [(_class_of(each), each) for each in _listed(given)]
        for name, found in pairs:
            kind = found if isinstance(found, type) else type(found)
            if not isinstance(name, str) or not issubclass(kind, TypeSerializer):
                raise _refused(found)
            self.classes[name] = kind
            if isinstance(found, TypeSerializer):
                self.named[name] = found
                self.named[found.flink_type.upper()] = found
        if not self.classes:
            raise _refused(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenSerializers) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def of_word(self, word: str) -> TypeSerializer | None:
        """Return the serializer of a word in a type's notation: the name of its type, or its snapshot class."""
        return self.named.get(word) or self.named.get(word.upper())


def _listed(given: object) -> Sequence[TypeSerializer]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise _refused(given)
    return given


def _class_of(serializer: object) -> str:
    if not isinstance(serializer, TypeSerializer):
        raise _refused(serializer)
    return serializer.snapshot_class


def _refused(found: object) -> OptionError:
    return OptionError(
        "option 'serializers' contains an object that is not a serializer", expected=EXPECTED, found=f"{found!r:.200}"
    )
