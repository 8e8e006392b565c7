"""TypeSerializer: what a snapshot says about a type, and how its values become columns.

Flink has two classes, the serializer and its snapshot; here one frozen object is both, for a type is only ever known
from its snapshot. Snapshots have no length: to find the end, the payload must be understood.

    Enveloped  := i32 2  Versioned                                   top level: state metadata
    Versioned  := utf snapshotClass  i32 version  payload(version)   nested in another snapshot
    Composite  := i32 911108  i32 outerVersion  outer  Nested        payload, CompositeTypeSerializerSnapshot
    Nested     := i32 1333245  i32 1  i32 n  Versioned[n]            NestedSerializersSnapshotDelegate

Flink: ``TypeSerializer``, ``TypeSerializerSnapshot``, ``TypeSerializerSnapshotSerializationUtil``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, Longs
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import UndecodableStateError, UnsupportedVersionError
from pyspark_savepoint.formats.serializers import plug_ins
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout

T = TypeVar("T")
COMPOSITE_MAGIC = 911108
NESTED_MAGIC = 1333245
MAX_NESTING = 48


@dataclass(frozen=True)
class TypeSerializer(ABC):
    """A serializer as its snapshot describes it. ``snapshot_class`` and ``snapshot_version`` stand in the file.

    A class registers itself under its snapshot class names (``registry.register``) and gives these: the payload
    (``read_snapshot``, ``write_payload``), the type (``flink_type``, ``arrow_type``, ``length``), and the values
    (``layout``, ``decode``, ``sizes`` and ``encode``, ``java_hash``).
    """

    snapshot_class: str
    snapshot_version: int

    #: True for values that nobody can decode without the user's code; they become BINARY.
    opaque: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        plug_ins.guard(cls)

    @classmethod
    @abstractmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """The serializer whose payload starts at the reader."""

    @abstractmethod
    def write_payload(self, view: DataOutputView) -> None:
        """The mirror of :meth:`read_snapshot`: byte-identical for what was read."""

    @property
    @abstractmethod
    def flink_type(self) -> str:
        """The type in Flink's words: LONG, TUPLE<LONG, STRING>, POJO<com.shop.Order>(id LONG, ...)."""

    @abstractmethod
    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """The type of the column that :meth:`decode` returns."""

    @property
    def length(self) -> int:
        """``TypeSerializer#getLength``: bytes of every value, or -1. Decides the form of composite keys."""
        return -1

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        """The serializers inside, in the order of the snapshot."""
        return ()

    def layout(self, layout: Layout) -> int:
        """Describe the bytes of a value; UNKNOWN where only ``decode`` can delimit one."""
        return UNKNOWN

    @abstractmethod
    def decode(self, at: Cursors) -> pa.Array:
        """One value per cursor as a column; every cursor ends behind its value."""

    def sizes(self, column: pa.Array) -> Longs:
        """Encoded bytes of every row of a column of ``arrow_type``."""
        raise self._refuse("written")

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one value per cursor into a buffer that :meth:`sizes` has sized."""
        raise self._refuse("written")

    def java_hash(self, column: pa.Array) -> Ints:
        """``hashCode`` of the Java object of every row, int32; null rows give 0."""
        raise UndecodableStateError(
            f"the hashCode of {self.flink_type} is known only to the user's code",
            expected="a key type whose hash its data defines",
            remedy="read without 'keys', or name the key groups with 'keyGroups'",
        )

    def _refuse(self, what: str) -> UndecodableStateError:
        return UndecodableStateError(
            f"values of {self.flink_type} cannot be {what}",
            found=self.snapshot_class,
            remedy="plug in a serializer: entry point group 'pyspark_savepoint.serializers'",
        )

    def opaque_parts(self) -> list[TypeSerializer]:
        """The serializers in this tree whose values nobody can decode without the user's code."""
        found: list[TypeSerializer] = [self] if self.opaque else []
        for child in self.children:
            found += child.opaque_parts()
        return found


#: What looking for the ends of unknown payloads may cost, in parts that are parsed: so many, and some for every byte.
MAX_WORK = 1 << 15
WORK_PER_BYTE = 1 / 4
#: Bytes of a part that cost as much as the part.
BYTES_OF_WORK = 64


@dataclass
class Work:
    """What was parsed while ends of unknown payloads were looked for."""

    done: float = 0
    #: Positions of the magic number of nested serializers, which are looked for once.
    magic: list[int] | None = None

    def add(self, size: int) -> None:
        """Count a part of some bytes that was parsed, or failed behind them."""
        self.done += 1 + size / BYTES_OF_WORK

    def exhausted(self, view: DataInputView) -> bool:
        """Whether it was more than a header of that size may cost."""
        return self.done > MAX_WORK + view.end * WORK_PER_BYTE


@dataclass
class UnknownPayloads:
    """Payloads of snapshot classes that nobody knows, by position: those that were met, and lengths to try.

    To try is to parse the same bytes again and again. ``parsed`` are parts with their ends that hold nothing unknown,
    so that they stay what they are with other lengths; ``failed`` are positions where no snapshot begins. ``work``
    goes on from try to try.
    """

    lengths: dict[int, int] = field(default_factory=dict)
    met: dict[int, str] = field(default_factory=dict)
    parsed: dict[tuple[object, int], tuple[Any, int]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    work: Work = field(default_factory=Work)

    def with_length(self, start: int, length: int) -> UnknownPayloads:
        """The same with a length to try."""
        return UnknownPayloads({**self.lengths, start: length}, parsed=self.parsed, work=self.work)

    def once(self, kind: object, view: DataInputView, read: Callable[[], T]) -> T:
        """What a function reads here; what it read here before, where that holds nothing unknown."""
        start, met = view.position, len(self.met)
        known = self.parsed.get((kind, start))
        if known is not None:
            value: T
            value, view.position = known
            return value
        try:
            value = read()
        finally:
            self.work.add(max(0, view.position - start))
        if len(self.met) == met:
            self.parsed[kind, start] = value, view.position
        return value


class SnapshotReader:
    """Reads serializer snapshots off a view; the depth of nesting is bounded."""

    def __init__(self, view: DataInputView, depth: int = 0, unknown: UnknownPayloads | None = None) -> None:
        self.view = view
        self.depth = depth
        self.unknown = unknown or UnknownPayloads()

    def enveloped(self) -> TypeSerializer:
        """A snapshot at the top level of state metadata."""
        version = self.view.read_i32("the version of a serializer snapshot")
        if version != 2:
            self.view.position -= 4
            raise UnsupportedVersionError(
                "a serializer snapshot of a version that is not read",
                path=self.view.path,
                offset=self.view.base + self.view.position,
                expected="version 2 (Flink 1.7 and later)",
                found=version,
                remedy="restore the job and take a savepoint with Flink 1.7 to 1.16",
            )
        return self.versioned()

    def versioned(self) -> TypeSerializer:
        """A snapshot inside another one."""
        from pyspark_savepoint.formats.serializers.registry import read_versioned

        if self.depth >= MAX_NESTING:
            self.view.fail(f"serializers nested at most {MAX_NESTING} deep")
        return read_versioned(SnapshotReader(self.view, self.depth + 1, self.unknown))

    def once(self, read: Callable[[DataInputView], T]) -> T:
        """What a function reads here; what it read here before, where lengths are tried."""
        return self.unknown.once(read, self.view, lambda: read(self.view))

    def over(self, view: DataInputView) -> SnapshotReader:
        """The same depth over a part of the bytes."""
        return SnapshotReader(view, self.depth)

    def nested(self, arity: int | None = None) -> tuple[TypeSerializer, ...]:
        """The Nested production; ``arity`` where only one number of children makes sense."""
        view = self.view
        view.read_constant(NESTED_MAGIC, "the magic number of nested serializers")
        view.read_constant(1, "the version of nested serializers")
        count = view.read_count("nested serializers", each=6)
        if arity is not None and count != arity:
            view.position -= 4
            view.fail(f"{arity} nested serializers", count)
        return tuple(self.versioned() for _ in range(count))

    def outer_version(self, framework_version: int) -> int:
        """The start of a composite payload: the version of the outer part."""
        if framework_version < 3:
            return framework_version
        self.view.read_constant(COMPOSITE_MAGIC, "the magic number of a composite serializer")
        return self.view.read_i32("the version of a composite serializer")


def write_versioned(serializer: TypeSerializer, view: DataOutputView) -> None:
    """The mirror of :meth:`SnapshotReader.versioned`."""
    view.write_utf(serializer.snapshot_class)
    view.write_i32(serializer.snapshot_version)
    serializer.write_payload(view)


def write_enveloped(serializer: TypeSerializer, view: DataOutputView) -> None:
    """The mirror of :meth:`SnapshotReader.enveloped`."""
    view.write_i32(2)
    write_versioned(serializer, view)


def write_nested(serializers: tuple[TypeSerializer, ...], view: DataOutputView) -> None:
    """The mirror of :meth:`SnapshotReader.nested`."""
    view.write_i32(NESTED_MAGIC)
    view.write_i32(1)
    view.write_i32(len(serializers))
    for serializer in serializers:
        write_versioned(serializer, view)


@dataclass(frozen=True)
class CompositeSerializer(TypeSerializer):
    """A serializer of the CompositeTypeSerializerSnapshot family: subclasses give the outer part and the arity."""

    outer_version: int
    nested: tuple[TypeSerializer, ...]

    #: Number of nested serializers, or None where the type decides.
    arity: ClassVar[int | None] = 1
    #: Outer versions that are read.
    outer_versions: ClassVar[tuple[int, ...]] = (1,)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Composite payload: outer version, outer part, nested serializers."""
        outer_version = reader.outer_version(version)
        if outer_version not in cls.outer_versions:
            expect_version(name, outer_version, cls.outer_versions, reader)
        outer = cls.read_outer(outer_version, reader)
        return cls(name, version, outer_version, reader.nested(cls.arity), **outer)

    def write_payload(self, view: DataOutputView) -> None:
        """The mirror of :meth:`read_snapshot`."""
        if self.snapshot_version >= 3:
            view.write_i32(COMPOSITE_MAGIC)
            view.write_i32(self.outer_version)
        self.write_outer(view)
        write_nested(self.nested, view)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        """The outer part: fields of the subclass. Empty for most."""
        return {}

    def write_outer(self, view: DataOutputView) -> None:
        """The mirror of :meth:`read_outer`."""

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        """The nested serializers."""
        return self.nested


def expect_version(name: str, version: int, known: tuple[int, ...], reader: SnapshotReader) -> None:
    """Refuse a version of a snapshot that is not among the known."""
    if version not in known:
        raise UnsupportedVersionError(
            f"{name} has a version that is not read",
            path=reader.view.path,
            offset=reader.view.base + reader.view.position,
            expected=f"one of {', '.join(map(str, known))}",
            found=version,
            remedy="a newer release of pyspark-savepoint may read it",
        )


def flink_types(serializers: tuple[TypeSerializer, ...]) -> str:
    """``A, B, C``: the arguments of a composite in Flink's notation."""
    return ", ".join(serializer.flink_type for serializer in serializers)


def quoted(name: str) -> str:
    """A name of a field in the notation of types: in backquotes where it is more than letters, digits and ``_``.

    >>> quoted("id"), quoted("unit price")
    ('id', '`unit price`')
    """
    return name if re.fullmatch(r"[^\W\d][\w$]*|\$[\w$]*", name) else "`" + name.replace("`", "``") + "`"


def flink_fields(names: Iterable[str], serializers: Iterable[TypeSerializer]) -> str:
    """``id LONG, name STRING``: the fields of a composite in Flink's notation."""
    return ", ".join(f"{quoted(name)} {part.flink_type}" for name, part in zip(names, serializers, strict=True))


def zeros(column: pa.Array) -> Ints:
    """An int32 per row."""
    return np.zeros(len(column), np.int32)
