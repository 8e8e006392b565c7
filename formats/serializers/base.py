"""TypeSerializer, the plug-in interface of serializers: types in snapshots, and their values as Arrow columns.

Flink has two classes, the serializer and its snapshot. Here one frozen object is both, since a type is only known from
its snapshot. Snapshots have no length prefix: their end is found by parsing the payload.

    Enveloped  := i32 2  Versioned                                   top level: state metadata
    Versioned  := utf snapshotClass  i32 version  payload(version)   nested in another snapshot
    Composite  := i32 911108  i32 outerVersion  outer  Nested        payload, CompositeTypeSerializerSnapshot
    Nested     := i32 1333245  i32 1  i32 n  Versioned[n]            NestedSerializersSnapshotDelegate

Flink: ``TypeSerializer``, ``TypeSerializerSnapshot``, ``TypeSerializerSnapshotSerializationUtil``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import plug_ins
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError, UnsupportedVersionError
from pyspark_savepoint.formats.serializers.java_classes import CLASSES
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout
from pyspark_savepoint.formats.structs import read_parts, write_parts

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, Longs
    from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

T = TypeVar("T")
COMPOSITE_MAGIC = 911108
NESTED_MAGIC = 1333245
MAX_NESTING = 48
PLUG_IN = "plug in a serializer (entry point group 'pyspark_savepoint.serializers')"


@dataclass(frozen=True)
class TypeSerializer(ABC):
    """Base class of serializers, as a snapshot describes them.

    A subclass implements the payload of the snapshot (:meth:`read_snapshot`, :meth:`write_payload`), the type
    (:attr:`flink_type`, :meth:`arrow_type`, :attr:`length`), and the values (:meth:`layout` or :meth:`decode`; to
    write, :meth:`sizes` and :meth:`encode`; for keys, :meth:`java_hash`). Built-in serializers register themselves
    under their snapshot classes (``registry.register``). Others are found as entry points of the group
    ``pyspark_savepoint.serializers``, whose names are snapshot classes. Flink: ``TypeSerializer``,
    ``TypeSerializerSnapshot``.

    Args:
        snapshot_class: The Java name of the snapshot class in the file.
        snapshot_version: The version of the snapshot in the file.

    Example::

        class MoneySerializer(TypeSerializer):  # 8 bytes: cents as a long
            @classmethod
            def read_snapshot(cls, name, version, reader):
                return cls(name, version)

            def write_payload(self, view):
                pass

            @property
            def flink_type(self):
                return "MONEY"

            @property
            def length(self):
                return 8

            def arrow_type(self, options):
                return pa.int64()

            def decode(self, at):
                short = np.flatnonzero(at.end - at.position < 8)
                at.check(int(short[0]) if len(short) else -1, "8 bytes")
                values = at.buffer[at.position[:, None] + np.arange(8)].view(">i8")[:, 0]
                at.position += 8
                return pa.array(values.astype(np.int64))

    """

    snapshot_class: str
    snapshot_version: int

    #: True if only the job's code can decode the values; they become BINARY.
    opaque: ClassVar[bool] = False
    #: True if :meth:`decode` finds the end of opaque values and returns their bytes.
    delimited: ClassVar[bool] = False
    #: In error messages: how to make opaque values readable.
    remedy: ClassVar[str] = PLUG_IN

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        plug_ins.guard(cls)

    @classmethod
    @abstractmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the payload of a snapshot.

        Args:
            name: The Java name of the snapshot class.
            version: The version of the snapshot.
            reader: The reader at the start of the payload. Afterwards, it must be at its end.

        Returns:
            The serializer.

        Raises:
            UnsupportedVersionError: If the version is unknown.
            CorruptStateError: If the payload is invalid.

        """

    @abstractmethod
    def write_payload(self, view: DataOutputView) -> None:
        """Write the payload of the snapshot: byte for byte the one that :meth:`read_snapshot` read.

        Args:
            view: The output.

        """

    @property
    @abstractmethod
    def flink_type(self) -> str:
        """The type in Flink's notation: LONG, TUPLE<LONG, STRING>, POJO<com.shop.Order>(id LONG, ...)."""

    @property
    def java_class(self) -> str | None:
        """The class of the values, as ``Class.getName`` gives it. None if the type does not determine it.

        >>> from pyspark_savepoint.formats.serializers.notation.notation import parse_type
        >>> parse_type("OBJECT_ARRAY<LONG>").java_class
        '[Ljava.lang.Long;'
        """
        return CLASSES.get(self.flink_type)

    @abstractmethod
    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the Arrow type of the column that :meth:`decode` returns.

        Args:
            options: The options of the read, such as the unit of timestamps and the type of decimals.

        Returns:
            The type.

        """

    @property
    def length(self) -> int:
        """The number of bytes of every value, or -1 if it varies. It determines the form of composite keys.

        Flink: ``TypeSerializer#getLength``.
        """
        return -1

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        """The nested serializers, in the order of the snapshot."""
        return ()

    def fold(self, visit: Callable[[TypeSerializer, Iterator[T]], T]) -> T:
        """Return what ``visit`` makes of this serializer and of the results for the nested ones.

        Args:
            visit: Gets a serializer, and the results for its nested serializers in order. They are computed when they
                are asked for, so that a visit that does not ask leaves out what is nested.

        Returns:
            The result for this serializer.

        >>> from pyspark_savepoint.formats.serializers.notation.notation import parse_type
        >>> parse_type("MAP<LONG, LIST<STRING>>").fold(lambda _, nested: 1 + max(nested, default=0))
        3

        """
        return visit(self, (child.fold(visit) for child in self.children))

    def all_parts(self) -> Iterator[TypeSerializer]:
        """Yield this serializer and all nested ones, at any depth, each before those nested in it."""
        parts: list[TypeSerializer] = [self]
        while parts:
            part = parts.pop()
            yield part
            parts += reversed(part.children)

    def layout(self, layout: Layout) -> int:
        """Describe the bytes of a value, so that compiled code can find the ends of values.

        Args:
            layout: The builder to which nodes are added.

        Returns:
            The number of the node that describes a value. UNKNOWN if only :meth:`decode` can find its end.

        """
        return UNKNOWN

    @abstractmethod
    def decode(self, at: Cursors) -> pa.Array:
        """Decode one value per cursor into a column.

        Args:
            at: The buffer, and for each row the position of its value and the limit. Each position must be moved past
                its value.

        Returns:
            The column, with one row per cursor and of the type of :meth:`arrow_type`.

        Raises:
            CorruptStateError: If the bytes of a value are invalid.
            ValueRangeError: If a value does not fit into the type.

        """

    def sizes(self, column: pa.Array) -> Longs:
        """Return the encoded size of each row, in bytes. Only serializers that can be written implement this.

        Args:
            column: Values of the type of :meth:`arrow_type`.

        Returns:
            An int64 array with one size per row.

        Raises:
            UndecodableStateError: If the serializer cannot be written.

        """
        raise self._refuse("written")

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one value per cursor into a buffer. Only serializers that can be written implement this.

        Args:
            column: Values of the type of :meth:`arrow_type`.
            at: The buffer, and for each row the position of its value, with the room that :meth:`sizes` returned. Each
                position must be moved past its value.

        Raises:
            UndecodableStateError: If the serializer cannot be written.

        """
        raise self._refuse("written")

    def java_hash(self, column: pa.Array) -> Ints:
        """Return the ``hashCode`` of the Java object of each row, which determines the key group of a key.

        Args:
            column: Values of the type of :meth:`arrow_type`.

        Returns:
            An int32 array with one hash per row. 0 for null.

        Raises:
            UndecodableStateError: If only the job's code can compute the hash.

        """
        raise UndecodableStateError(
            f"the hashCode of {self.flink_type} is defined by the job's own code",
            expected="a key type whose hash follows from its data",
            remedy="read without 'keys', or select key groups with 'keyGroups'",
        )

    def _refuse(self, what: str) -> UndecodableStateError:
        return UndecodableStateError(
            f"values of {self.flink_type} cannot be {what}",
            found=self.snapshot_class,
            remedy=self.remedy,
        )

    def opaque_parts(self) -> list[TypeSerializer]:
        """Return the serializers in this tree whose values only the job's code can decode."""
        parts: list[TypeSerializer] = [self] if self.opaque else []
        for child in self.children:
            parts += child.opaque_parts()
        return parts


#: Limit of the parts parsed to find the ends of unknown payloads: a constant, and an amount per byte of the header.
MAX_WORK = 1 << 15
WORK_PER_BYTE = 1 / 4
#: Number of bytes that counts as much as one part.
BYTES_OF_WORK = 64


@dataclass
class Work:
    """Amount of parsing done to find the ends of unknown payloads."""

    done: float = 0
    #: Positions of the magic number of nested serializers, searched once.
    magic: list[int] | None = None

    def add(self, size: int) -> None:
        """Count an attempt to parse a part, with the number of bytes that it parsed."""
        self.done += 1 + size / BYTES_OF_WORK

    def exhausted(self, view: DataInputView) -> bool:
        """Return whether the amount exceeds the limit for a header of this size."""
        return self.done > MAX_WORK + view.end * WORK_PER_BYTE


class ClassDescriptions(Protocol):
    """Descriptions of the user's classes."""

    def described(self, serializer: TypeSerializer) -> TypeSerializer:
        """Return the serializer that reads values of a generic type, if its class is described. Else the same."""

    def serializer_of(self, snapshot_class: str) -> type[TypeSerializer] | None:
        """Return the serializer class that the user gave for a snapshot class, or None."""

    def of_snapshot(self, metadata_version: int, complete: bool) -> ClassDescriptions:
        """Return the descriptions for a snapshot. ``complete``: its serializers describe all subclasses of POJOs."""


@dataclass(slots=True)
class UnknownPayload:
    """A payload of an unknown snapshot class: class, number of snapshots around it, and its end if its form has one."""

    snapshot_class: str
    depth: int
    end: int | None = None


@dataclass
class UnknownPayloads:
    """Payloads of unknown snapshot classes by position: those found so far, and lengths to try.

    Trying a length means parsing the same bytes again. ``parsed`` contains parts without unknown payloads and their
    ends, which do not depend on the lengths tried. ``failed`` contains positions at which no snapshot begins. ``work``
    is accumulated over all tries.
    """

    lengths: dict[int, int] = field(default_factory=dict)
    met: dict[int, UnknownPayload] = field(default_factory=dict)
    parsed: dict[tuple[object, int], tuple[Any, int]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    work: Work = field(default_factory=Work)
    #: Classes that the user described, for generic types.
    classes: ClassDescriptions | None = None
    #: True if only the end counts: payloads are passed, but not kept.
    trial: bool = False
    #: Number of bytes of payloads that were passed.
    passed: int = 0
    #: Where the trial ended; None if it failed.
    ended: int | None = None

    def trying(self, lengths: dict[int, int]) -> UnknownPayloads:
        """Return a trial of these lengths, which shares what was parsed."""
        return UnknownPayloads(lengths, parsed=self.parsed, work=self.work, classes=self.classes, trial=True)

    def pass_payload(self, view: DataInputView, start: int) -> bytes:
        """Return the payload from ``start`` to the position of the view, and note its end."""
        self.met[start].end = view.position
        if self.trial:
            self.passed += view.position - start
            return b""
        return bytes(view.data[start : view.position])

    def once(self, kind: object, view: DataInputView, read: Callable[[], T]) -> T:
        """Return the result of parsing here. A part without unknown payloads is parsed once."""
        start, met, passed = view.position, len(self.met), self.passed
        known = self.parsed.get((kind, start))
        if known is not None:
            value: T
            value, view.position = known
            return value
        try:
            value = read()
        finally:
            self.work.add(max(0, view.position - start - (self.passed - passed)))
        if len(self.met) == met:
            self.parsed[kind, start] = value, view.position
        return value


class SnapshotReader:
    """Reader of serializer snapshots, with bounded depth of nesting.

    ``registry.snapshot_reader`` returns one for all registered serializers.

    Args:
        view: The bytes, at the start of a snapshot.
        serializer_of: A function of a snapshot class that returns the class that reads its snapshots.
        depth: The number of snapshots around this one.
        unknown: Lengths of payloads whose snapshot class is unknown.

    Example::

        @classmethod
        def read_snapshot(cls, name, version, reader):
            java_class = reader.view.read_utf("the class of the values")
            return cls(name, version, java_class, reader.versioned())

    """

    def __init__(
        self,
        view: DataInputView,
        serializer_of: Callable[[str], type[TypeSerializer]],
        depth: int = 0,
        unknown: UnknownPayloads | None = None,
    ) -> None:
        self.view = view
        self.serializer_of = serializer_of
        self.depth = depth
        self.unknown = unknown or UnknownPayloads()

    def enveloped(self) -> TypeSerializer:
        """Read a snapshot at the top level of state metadata (Enveloped).

        Returns:
            The serializer.

        Raises:
            UnsupportedVersionError: If it was written before Flink 1.7.

        """
        version = self.view.read_i32("the version of a serializer snapshot")
        if version != 2:
            self.view.position -= 4
            raise UnsupportedVersionError(
                "a serializer snapshot has a version that is not supported",
                path=self.view.path,
                offset=self.view.base + self.view.position,
                expected="version 2 (Flink 1.7 and later)",
                found=version,
                remedy="restore the job and take a savepoint with Flink 1.8 to 1.16",
            )
        return self.versioned()

    def versioned(self) -> TypeSerializer:
        """Read a snapshot nested in another one (Versioned).

        Returns:
            The serializer.

        Raises:
            CorruptStateError: If snapshots are nested too deeply.

        """
        if self.depth >= MAX_NESTING:
            self.view.fail(f"serializers nested at most {MAX_NESTING} deep")
        start, unknown = self.view.position, self.unknown
        if start in unknown.failed:
            self.view.fail("a serializer snapshot")
        try:
            return unknown.once(SnapshotReader, self.view, self._snapshot)
        except SavepointError:
            unknown.failed.add(start)
            raise

    def _snapshot(self) -> TypeSerializer:
        name = self.view.read_utf("a serializer snapshot class")
        version = self.view.read_i32("the version of a serializer snapshot")
        inner = SnapshotReader(self.view, self.serializer_of, self.depth + 1, self.unknown)
        classes = self.unknown.classes
        given = None if classes is None else classes.serializer_of(name)
        serializer = (given or self.serializer_of(name)).read_snapshot(name, version, inner)
        return serializer if classes is None else classes.described(serializer)

    def once(self, read: Callable[[DataInputView], T]) -> T:
        """Return the result of a function that parses here. While lengths are tried, it is called once per position.

        Args:
            read: The function, which advances the view past the bytes that it has parsed.

        Returns:
            Its result.

        """
        return self.unknown.once(read, self.view, lambda: read(self.view))

    def over(self, view: DataInputView) -> SnapshotReader:
        """Return a reader of the same depth over another view.

        Args:
            view: A part of the bytes.

        Returns:
            The reader.

        """
        unknown = UnknownPayloads(classes=self.unknown.classes)
        return SnapshotReader(view, self.serializer_of, self.depth, unknown)

    def nested(self, arity: int | None = None) -> tuple[TypeSerializer, ...]:
        """Read nested serializers (Nested).

        Args:
            arity: The number of nested serializers, if the type determines it.

        Returns:
            The serializers, in order.

        Raises:
            CorruptStateError: If magic number, version or number are not as expected.

        """
        view = self.view
        view.read_constant(NESTED_MAGIC, "the magic number of nested serializers")
        view.read_constant(1, "the version of nested serializers")
        count = view.read_count("nested serializers", each=6)
        if arity is not None and count != arity:
            view.position -= 4
            view.fail(f"{arity} nested serializers", count)
        return tuple(self.versioned() for _ in range(count))

    def outer_version(self, framework_version: int) -> int:
        """Read the start of a composite payload (Composite).

        Args:
            framework_version: The version of the snapshot. Below 3, it is the outer version itself.

        Returns:
            The version of the outer part.

        """
        if framework_version < 3:
            return framework_version
        self.view.read_constant(COMPOSITE_MAGIC, "the magic number of a composite serializer")
        return self.view.read_i32("the version of a composite serializer")


def write_versioned(serializer: TypeSerializer, view: DataOutputView) -> None:
    """Write a snapshot as :meth:`SnapshotReader.versioned` reads it.

    Args:
        serializer: The serializer of the snapshot.
        view: The output.

    """
    view.write_utf(serializer.snapshot_class)
    view.write_i32(serializer.snapshot_version)
    serializer.write_payload(view)


def write_enveloped(serializer: TypeSerializer, view: DataOutputView) -> None:
    """Write a snapshot as :meth:`SnapshotReader.enveloped` reads it.

    Args:
        serializer: The serializer of the snapshot.
        view: The output.

    """
    view.write_i32(2)
    write_versioned(serializer, view)


def write_nested(serializers: tuple[TypeSerializer, ...], view: DataOutputView) -> None:
    """Write nested serializers as :meth:`SnapshotReader.nested` reads them.

    Args:
        serializers: The nested serializers, in order.
        view: The output.

    """
    view.write_i32(NESTED_MAGIC)
    view.write_i32(1)
    view.write_i32(len(serializers))
    for serializer in serializers:
        write_versioned(serializer, view)


@dataclass(frozen=True)
class CompositeSerializer(TypeSerializer):
    """Base class of serializers whose snapshots extend Flink's CompositeTypeSerializerSnapshot.

    Such a snapshot consists of an outer part, empty for most, and nested serializers.

    A subclass sets ``arity`` and ``outer_versions``. If its snapshot has an outer part, it declares its fields with
    ``part`` (``formats.structs``), or implements :meth:`read_outer` and :meth:`write_outer`.
    Flink: ``CompositeTypeSerializerSnapshot``.

    Args:
        snapshot_class: The Java name of the snapshot class in the file.
        snapshot_version: The version of the snapshot in the file.
        outer_version: The version of the outer part.
        nested: The nested serializers.

    Example::

        class BoxSerializer(CompositeSerializer):  # the bytes of its content, and nothing else
            @property
            def flink_type(self):
                return f"BOX<{flink_types(self.nested)}>"

            def arrow_type(self, options):
                return self.nested[0].arrow_type(options)

            def decode(self, at):
                return self.nested[0].decode(at)

    """

    outer_version: int
    nested: tuple[TypeSerializer, ...]

    #: Number of nested serializers, or None if it varies.
    arity: ClassVar[int | None] = 1
    #: Supported outer versions.
    outer_versions: ClassVar[tuple[int, ...]] = (1,)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read a composite payload: outer version, outer part, nested serializers.

        Args:
            name: The Java name of the snapshot class.
            version: The version of the snapshot.
            reader: The reader at the start of the payload.

        Returns:
            The serializer.

        Raises:
            UnsupportedVersionError: If the outer version is unknown.

        """
        outer_version = reader.outer_version(version)
        versions, arity = cls.forms(name)
        if outer_version not in versions:
            expect_version(name, outer_version, versions, reader)
        outer = cls.read_outer(outer_version, reader)
        return cls(name, version, outer_version, reader.nested(arity), **outer)

    @classmethod
    def forms(cls, name: str) -> tuple[tuple[int, ...], int | None]:
        """Return the supported outer versions, and the number of nested serializers.

        Args:
            name: The Java name of the snapshot class.

        Returns:
            ``outer_versions`` and ``arity``.

        """
        return cls.outer_versions, cls.arity

    def write_payload(self, view: DataOutputView) -> None:
        """Write the payload as :meth:`read_snapshot` reads it.

        Args:
            view: The output.

        """
        if self.snapshot_version >= 3:
            view.write_i32(COMPOSITE_MAGIC)
            view.write_i32(self.outer_version)
        self.write_outer(view)
        write_nested(self.nested, view)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        """Read the outer part. Empty by default.

        Args:
            outer_version: Its version.
            reader: The reader at its start. Afterwards, it must be at its end.

        Returns:
            Fields of the subclass, by name.

        """
        return read_parts(cls, reader.view, outer_version, reader)

    def write_outer(self, view: DataOutputView) -> None:
        """Write the outer part as :meth:`read_outer` reads it.

        Args:
            view: The output.

        """
        write_parts(self, view, self.outer_version)

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        """The nested serializers, in the order of the snapshot."""
        return self.nested


def expect_version(name: str, version: int, known: tuple[int, ...], reader: SnapshotReader) -> None:
    """Raise UnsupportedVersionError unless the version of a snapshot is known.

    Args:
        name: The Java name of the snapshot class.
        version: The version in the file.
        known: The supported versions.
        reader: The reader after the version, for the position in the error.

    Raises:
        UnsupportedVersionError: If ``version`` is not in ``known``.

    """
    if version not in known:
        raise UnsupportedVersionError(
            f"{name} has a version that is not supported",
            path=reader.view.path,
            offset=reader.view.base + reader.view.position,
            expected=f"one of {', '.join(map(str, known))}",
            found=version,
            remedy="a newer release of pyspark-savepoint may read it",
        )


def flink_types(serializers: tuple[TypeSerializer, ...]) -> str:
    """Return ``A, B, C``: the type arguments of a composite in Flink's notation.

    Args:
        serializers: The serializers of the parts.

    Returns:
        Their types, separated by commas.

    """
    return ", ".join(serializer.flink_type for serializer in serializers)


def quoted(name: str) -> str:
    """Return a field name in Flink's notation, in backquotes unless it consists of letters, digits and ``_``.

    >>> quoted("id"), quoted("unit price")
    ('id', '`unit price`')

    Args:
        name: The name of a field.

    Returns:
        The name. Backquotes in it are doubled.

    """
    return name if re.fullmatch(r"[^\W\d][\w$]*|\$[\w$]*", name) else "`" + name.replace("`", "``") + "`"


def flink_fields(names: Iterable[str], serializers: Iterable[TypeSerializer]) -> str:
    """Return ``id LONG, name STRING``: the fields of a composite in Flink's notation.

    Args:
        names: The names of the fields.
        serializers: Their serializers.

    Returns:
        The fields with their types, separated by commas.

    """
    return ", ".join(f"{quoted(name)} {part.flink_type}" for name, part in zip(names, serializers, strict=True))


def zeros(column: pa.Array) -> Ints:
    """Return an int32 zero per row.

    Args:
        column: A column.

    Returns:
        An int32 array with one 0 per row: the hash of values that all hash alike.

    """
    return np.zeros(len(column), np.int32)
