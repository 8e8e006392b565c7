"""Convert values of one version of Kryo to the other, or to Flink's own serializers; report what cannot be converted.

Bytes do not show which version wrote them: depending on the value, Kryo 5 reads bytes of Kryo 2 correctly, as another
value, or with an error. :class:`KryoStatePart` rewrites one part of a state and counts these cases.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.kryo_input import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects import (
    DescribedClasses,
    DirectConversion,
    KryoObject,
    ObjectFormat,
    class_names,
    object_format,
    read_object,
    write_object,
)
from pyspark_savepoint.formats.serializers.kryo.serializer import KryoSerializer
from pyspark_savepoint.statebackends.migration.rewriting.java_times import expect_plausible, loses_offset
from pyspark_savepoint.statebackends.migration.rewriting.object_reader import FlinkReader, ReadObject
from pyspark_savepoint.statebackends.migration.rewriting.object_writer import FlinkObjectWriter, PojoOf, WriteObject
from pyspark_savepoint.statebackends.migration.rewriting.scala_types import is_mapped_number
from pyspark_savepoint.statebackends.migration.rewriting.target_types import ChangedPart, OwnSerializers, Target
from pyspark_savepoint.statebackends.migration.rewriting.value_program import Rewrite

#: Errors of bytes that a version of Kryo does not read.
KryoErrors = (
    *(DamagedError, BeyondError, ForeignError, SavepointError, IndexError, ValueError, OverflowError),
    *(AttributeError, KeyError, TypeError, struct.error),  # objects of other classes than the given type
)
#: Classes that become ArrayList, HashMap or HashSet in Flink 2 without loss.
PLAIN_COLLECTIONS = frozenset(
    {
        "java.util.ArrayList",
        "java.util.HashMap",
        "java.util.HashSet",
        *(f"java.util.Collections${name}" for name in ("EmptyList", "EmptyMap", "EmptySet")),
    }
)


#: A class that both versions write and neither can read, before its object: by number and name.
UNREADABLE = re.compile(
    rb"\x01[\x00-\x7f](java\.util\.(EnumMa\xf0|Collections\$(Unmodifiable|Synchronized)\w*[\x80-\xff]))"
)
ZONED = "java.time.ZonedDateTime"
UNREADABLE_CLASSES = ("java.util.EnumMap", "java.util.Collections$Unmodifiable", "java.util.Collections$Synchronized")


class UnreadableError(ValueError):
    """Error for an object of a class that Kryo 5 writes, but cannot read."""

    def __str__(self) -> str:
        return f"Kryo in Flink 2 cannot read the {self.args[0]} that it writes, so no bytes of it would restore"


class OwnSerializerError(ValueError):
    """Error for an object of a class that the new job registers with a serializer of its own."""

    def __str__(self) -> str:
        return f"the new job registers a Kryo serializer of its own for {self.args[0]}, which would misread the object"


class PartError(Exception):
    """Error of one value of a part: the part, and why Kryo's bytes could not be read or rewritten."""

    def __init__(self, part: ChangedPart, error: Exception) -> None:
        super().__init__(part, error)
        self.part = part
        self.error = error


class NullReadError(PartError):
    """Error for an empty collection of Kryo 2, which Kryo 5 takes for null."""


@dataclass(frozen=True)
class KryoChange:
    """The versions of Kryo before and after, and the classes that are known."""

    before: int
    after: int
    classes: DescribedClasses
    pojo_of: PojoOf
    #: The old serializer and the target of a POJO's subclass, by its name; None if class files do not describe it.
    subclass_of: Callable[[str], tuple[TypeSerializer, Target] | None]
    _formats: dict[tuple[KryoSerializer, int], ObjectFormat] = field(default_factory=dict)

    def _format(self, serializer: KryoSerializer, kryo: int) -> ObjectFormat:
        known = self._formats.get((serializer, kryo))
        if known is None:
            known = object_format(2 if kryo == 2 else 5, serializer.classes, self.classes)
            self._formats[serializer, kryo] = known
        return known

    def reader(self, serializer: KryoSerializer, kryo: int) -> ReadObject:
        """Return the function that reads the object at a position, and returns it with the position after it."""
        form = self._format(serializer, kryo)

        def read(data: bytes, at: int) -> tuple[KryoObject | None, int]:
            return read_object(data, form, at)

        return read

    def kryo_writer(self, serializer: KryoSerializer) -> WriteObject:
        """Return the function that appends an object as the version after writes it."""
        form = self._format(serializer, self.after)

        def write(value: KryoObject | None, out: bytearray) -> None:
            out += write_object(value, form)

        return write

    def direct(self, serializer: KryoSerializer, new: KryoSerializer) -> DirectConversion | None:
        """Return the conversion of values without objects in between, which there is from Kryo 2 to Kryo 5."""
        if (self.before, self.after) != (2, 5):
            return None
        return DirectConversion(self._format(serializer, self.before), self._format(new, self.after))

    def is_inner(self, class_name: str) -> bool:
        """Return whether objects of a class have an outer object, in a field that Kryo 5 leaves out."""
        if self.after == 2 or class_name[:1] == "[":
            return False
        found = self.classes.find(class_name)
        return found is not None and any(each.is_synthetic and not each.is_static for each in found.fields)

    def is_unreadable(self, class_name: str) -> bool:
        """Return whether no version of Kryo reads the objects of a class that it writes.

        A collection of the user's that has no constructor without arguments is made without its own fields.
        """
        if class_name.startswith(UNREADABLE_CLASSES):
            return True
        found = self.classes.find(class_name) if class_name[:1] != "[" else None
        above = found.superclass_name if found is not None else None
        return (
            found is not None
            and above is not None
            and above.startswith("java.util.")
            and bool(found.constructors)
            and all(each.erased.arguments for each in found.constructors)
        )

    def expect_none_of(self, own: OwnSerializers, value: KryoObject) -> None:
        """Raise OwnSerializerError for an object that holds one of a class with a serializer of the new job's."""
        for name in class_names(value):
            if name in own.classes or not own.with_subclasses.isdisjoint(self.classes.ancestors(name)):
                raise OwnSerializerError(name)

    def flink_reader(self) -> FlinkReader:
        """Return a reader of objects by Flink's serializers."""

        def pojo_of(name: str) -> PojoSerializer | None:
            found = self.subclass_of(name)
            return found[0] if found is not None and isinstance(found[0], PojoSerializer) else None

        return FlinkReader(lambda kryo: self.reader(kryo, self.before), self.classes, pojo_of)

    def writer(self) -> FlinkObjectWriter:
        """Return a writer of objects by Flink's serializers."""
        return FlinkObjectWriter(self.kryo_writer, self.pojo_of)


@dataclass
class KryoStatePart:
    """A part of a state whose values Kryo wrote, and what was found in those that were rewritten so far."""

    part: ChangedPart
    change: KryoChange
    values: int = 0
    changed: int = 0
    #: Classes of collections that become ArrayList, HashMap or HashSet.
    collections: set[str] = field(default_factory=set)
    #: Whether the offset of a time in an overlap is not kept.
    offsets: bool = False
    #: Inner classes, whose outer object Kryo 5 does not write.
    inner: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    #: Whether to look for losses.
    inspects: bool = False

    @property
    def keeps_kryo(self) -> bool:
        """Whether both releases leave the part to Kryo."""
        return isinstance(self.part.new, KryoSerializer) and isinstance(self.part.old, KryoSerializer)

    def rewrite(self) -> Rewrite:
        """Return the function that rewrites a value."""
        old, new, change = self.part.old, self.part.new, self.change
        if is_mapped_number(old, new):
            return self._numbers()
        read, put = change.flink_reader().of(old), change.writer().of(new)
        by_kryo = self.keeps_kryo
        direct = None
        own = self.part.own_serializers
        if isinstance(old, KryoSerializer) and isinstance(new, KryoSerializer) and own is None:
            direct = change.direct(old, new)

        def rewrite(data: bytes, at: int, out: bytearray) -> int:
            start = len(out)
            end = direct.append(data, at, out) if direct is not None else -1
            if end >= 0:
                # Values of these types lose nothing, and Kryo 5 reads them.
                self.values += 1
                self.changed += out[start:] != data[at:end]
                return end
            try:
                value, end = read(data, at)
                if own is not None and value is not None:
                    change.expect_none_of(own, value)
                put(value, out)
                if by_kryo:
                    _expect_readable(out, start)
            except KryoErrors as error:
                raise PartError(self.part, error) from error
            self.values += 1
            if out[start:] != data[at:end]:
                self.changed += 1
            if self.inspects and value is not None:
                self._inspect(value)
            return end

        return rewrite

    def _numbers(self) -> Rewrite:
        """Return the function for Scala's numbers, whose digits and scale stay."""
        old, new = self.part.old, self.part.new
        options = DecodeOptions(decimals="string", kryo=2 if self.change.before == 2 else 5)

        def rewrite(data: bytes, at: int, out: bytearray) -> int:
            one = np.array([at], np.int64), np.array([len(data)], np.int64)
            cursors = Cursors(np.frombuffer(data, np.uint8), *one, options=options)
            try:
                column = old.decode(cursors)
                if column.null_count:
                    raise UnsupportedStateError(
                        f"a value is null, which {new.flink_type} cannot write", remedy="leave the state out (drop)"
                    )
                size = int(new.sizes(column)[0])
                written = Cursors(np.zeros(size, np.uint8), np.zeros(1, np.int64), np.array([size], np.int64))
                new.encode(column, written)
            except KryoErrors as error:
                raise PartError(self.part, error) from error
            out += written.buffer.tobytes()
            self.values += 1
            self.changed += 1
            return int(cursors.position[0])

        return rewrite

    def _inspect(self, value: KryoObject) -> None:
        becomes_plain = not isinstance(self.part.new, KryoSerializer)
        if becomes_plain and value.class_name not in PLAIN_COLLECTIONS:
            self.collections.add(value.class_name)
        names = class_names(value)
        if ZONED in names and self.change.after == 5:
            self.offsets = self.offsets or loses_offset(value)
        for name in names - self.seen:
            if self.keeps_kryo and self.change.after == 5 and self.change.is_unreadable(name):
                raise PartError(self.part, UnreadableError(name))
            self.seen.add(name)
            if self.change.is_inner(name):
                self.inner.add(name)

    def misread(self) -> Rewrite:
        """Return the function that reads a value as the version after does, and appends it if that is right."""
        old, change = self.part.old, self.change
        assert isinstance(old, KryoSerializer)

        read, put = change.reader(old, change.after), change.kryo_writer(old)

        def misread(data: bytes, at: int, out: bytearray) -> int:
            try:
                value, end = read(data, at)
                expect_plausible(value)
                put(value, out)
            except DamagedError as error:
                if error.args[1:] == (0,) and "plus one" in error.args[0]:
                    raise NullReadError(self.part, error) from error
                raise PartError(self.part, error) from error
            except KryoErrors as error:
                raise PartError(self.part, error) from error
            return end

        return misread


def _expect_readable(out: bytearray, start: int) -> None:
    match = UNREADABLE.search(out, start)
    if match is not None:
        raise UnreadableError(match[1][:-1].decode("latin-1") + chr(match[1][-1] & 0x7F))
