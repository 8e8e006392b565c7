"""Serializers that a user gives to one read or write, in addition to those that entry points install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Serializers, which name their snapshot classes themselves; or classes of serializers by snapshot class.
Given: TypeAlias = Sequence[TypeSerializer] | Mapping[str, type[TypeSerializer] | TypeSerializer]
EXPECTED = (
    "serializers, such as [MoneySerializer('com.shop.MoneySerializer$MoneySerializerSnapshot', 1)], or a mapping of "
    "snapshot classes to subclasses of TypeSerializer"
)


class GivenSerializers:
    """Serializers by snapshot class; ``identity`` says which are the same."""

    __slots__ = ("classes", "identity", "named")

    def __init__(self, given: Given, identity: object) -> None:
        self.identity = identity
        #: What reads the snapshots of a snapshot class.
        self.classes: dict[str, type[TypeSerializer]] = {}
        #: What is written for a type's word, or for the snapshot class.
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
        """Return the serializer of a word in a type: its own name of the type, or its snapshot class."""
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
        "option 'serializers' has an object that is no serializer", expected=EXPECTED, found=f"{found!r:.200}"
    )
