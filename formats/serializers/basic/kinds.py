"""Kinds of types with nested types: what this package knows of each stands in one row.

::

    of_kind(
        Kind("UNION", (STREAMING + "...UnionSerializerSnapshot",), ("one", "two"), versions=(2,),
             shape=lambda nested: Choice(("one", "two"), nested, (1, 2)))
    )(ShapedKindSerializer)

The row is all there is where a shape says what the values are. Kinds with code of their own, for hashes or outer parts
of snapshots, have a subclass of :class:`KindSerializer`, which ``of_kind`` decorates. The notation of types, names of
parts, and what a restore compares follow from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pyspark_savepoint.formats.flink_releases import Flink, lifetime
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer, flink_types
from pyspark_savepoint.formats.serializers.basic.shapes import Shaped
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import loaded, register

Nested = tuple[TypeSerializer, ...]


def _unknown_length(_: Nested) -> int:
    return -1


@dataclass(frozen=True)
class Kind:
    """A kind of types.

    Args:
        word: Its word in the notation of types: LIST of LIST<LONG>.
        snapshots: The snapshot classes; the first one is written.
        parts: The names of the nested types; None if it has fields, any number.
        versions: The versions of the outer part; the last one is written.
        shape: The shape of the values, given the nested serializers.
        notation: The type in the notation, if it is not the word with the nested types.
        length: ``getLength``, given the nested serializers.
        java_class: The class of the values, if the word determines it.
        has_own_notation: Whether the notation has more than the word and the nested types.
        no_text: Why no text can describe such a type, if none can.
        compared: Returns what a restore compares, besides the nested types.
        equal: What it is called in the error for serializers that differ in it.
        migrates: How values are written, if serializers that differ in it are compatible after migration.

    """

    word: str
    snapshots: tuple[str, ...]
    parts: tuple[str, ...] | None = ("element",)
    versions: tuple[int, ...] = (1,)
    shape: Callable[[Nested], Part] | None = None
    notation: Callable[[Nested], str] | None = None
    length: Callable[[Nested], int] = _unknown_length
    java_class: str | None = None
    has_own_notation: bool = False
    no_text: str = ""
    compared: Callable[[Any], object] | None = None
    equal: str = ""
    migrates: str = ""

    def part(self, position: int) -> str:
        """Return the name of a nested type."""
        return f"f{position}" if self.parts is None else self.parts[position]

    @property
    def is_plain(self) -> bool:
        """Whether the notation has the word and the nested types, and nothing else."""
        return not (self.no_text or self.has_own_notation)

    @property
    def since(self) -> Flink | None:
        """The first release that has it; None if all do."""
        return lifetime(self.snapshots[0])[0]

    def of(self, *nested: TypeSerializer, snapshot_class: str = "") -> TypeSerializer:
        """Return a type of this kind as this package writes it."""
        serializer = _SERIALIZERS[self.snapshots[0]]
        return serializer(snapshot_class or self.snapshots[0], 3, self.versions[-1], nested)


@dataclass(frozen=True)
class KindSerializer(CompositeSerializer):
    """Serializer of a kind: what its row says."""

    #: The row for snapshot classes that no row has: those of subclasses in plug-ins.
    row: ClassVar[Kind | None] = None

    @classmethod
    def row_of(cls, name: str) -> Kind:
        """Return the row of a snapshot class."""
        return _KINDS[name] if cls.row is None else _KINDS.get(name, cls.row)

    @property
    def kind(self) -> Kind:
        """The row."""
        return self.row_of(self.snapshot_class)

    @classmethod
    def forms(cls, name: str) -> tuple[tuple[int, ...], int | None]:
        """Return the supported outer versions, and the number of nested serializers."""
        kind = cls.row_of(name)
        return kind.versions, None if kind.parts is None else len(kind.parts)

    @property
    def flink_type(self) -> str:
        kind = self.kind
        return f"{kind.word}<{flink_types(self.nested)}>" if kind.notation is None else kind.notation(self.nested)

    @property
    def java_class(self) -> str | None:
        return self.kind.java_class

    @property
    def length(self) -> int:
        return self.kind.length(self.nested)


@dataclass(frozen=True)
class ShapedKindSerializer(Shaped, KindSerializer):
    """Serializer of a kind whose values a shape describes: that of the row, or of a subclass."""

    @property
    def shape(self) -> Part:
        shape = self.kind.shape
        assert shape is not None, self.snapshot_class
        return shape(self.nested)


_KINDS: dict[str, Kind] = {}
_SERIALIZERS: dict[str, type[KindSerializer]] = {}
#: Rows by their words; where several have one, that of the snapshot that is written.
_WORDS: dict[str, Kind] = {}
S = TypeVar("S", bound=type[KindSerializer])


def of_kind(*kinds: Kind) -> Callable[[S], S]:
    """Register the class of the serializers of some kinds."""

    def enter(serializer: S) -> S:
        if serializer is not ShapedKindSerializer:
            serializer.row = kinds[0]
        for kind in kinds:
            register(*kind.snapshots)(serializer)
            _KINDS.update(dict.fromkeys(kind.snapshots, kind))
            _SERIALIZERS.update(dict.fromkeys(kind.snapshots, serializer))
            _WORDS.setdefault(kind.word, kind)
        return serializer

    return enter


def kind_of_word(word: str) -> Kind | None:
    """Return the row of a word; None if it is no kind with nested types.

    >>> kind_of_word("MAP").parts
    ('key', 'value')
    """
    if word not in _WORDS:
        for _ in loaded():
            if word in _WORDS:
                break
    return _WORDS.get(word)


def all_kinds() -> Sequence[tuple[Kind, type[KindSerializer]]]:
    """Return all rows, and the classes of their serializers."""
    for _ in loaded():
        pass
    return [(kind, _SERIALIZERS[kind.snapshots[0]]) for kind in dict.fromkeys(_KINDS.values())]


def word_of(serializer: TypeSerializer) -> str:
    """Return the word of the kind of a serializer; empty for others."""
    return serializer.kind.word if isinstance(serializer, KindSerializer) else ""
