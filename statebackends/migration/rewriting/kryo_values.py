"""Convert values of one version of Kryo to the other, or to Flink's own serializers; report what cannot be converted.

Bytes do not show which version wrote them: depending on the value, Kryo 5 reads bytes of Kryo 2 correctly, as another
value, or with an error. :class:`KryoStatePart` rewrites one part of a state and counts these cases.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pyspark_savepoint.formats.class_files import ClassType, JavaClass
from pyspark_savepoint.formats.class_files.class_file import JavaMethod
from pyspark_savepoint.formats.class_files.java_types import PrimitiveType
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import UNFILLED, UNFILLED_MAPS
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
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
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import objects_in
from pyspark_savepoint.statebackends.migration.rewriting.java_times import expect_plausible, loses_offset
from pyspark_savepoint.statebackends.migration.rewriting.misreading import CALLS, misread_object
from pyspark_savepoint.statebackends.migration.rewriting.object_reader import FlinkReader, ReadObject
from pyspark_savepoint.statebackends.migration.rewriting.object_writer import FlinkObjectWriter, PojoOf, WriteObject
from pyspark_savepoint.statebackends.migration.rewriting.scala_types import is_mapped_number
from pyspark_savepoint.statebackends.migration.rewriting.target_types import ChangedPart, OwnSerializers, Target
from pyspark_savepoint.statebackends.migration.rewriting.value_program import Rewrite
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import Loss, Losses

#: Errors of bytes that a version of Kryo does not read.
KryoErrors = (
    *(DamagedError, BeyondError, ForeignError, SavepointError, IndexError, ValueError, OverflowError),
    *(AttributeError, KeyError, TypeError, struct.error),  # objects of other classes than the given type
)
ZONED, LOCALE, PATTERN = "java.time.ZonedDateTime", "java.util.Locale", "java.util.regex.Pattern"
#: In place of the bytes of an object that cannot be written: no value is equal to it.
WRONG = b"\xff" * 16
#: Classes whose content Kryo does not write, because it is in fields that are transient.
UNWRITTEN = frozenset(
    f"java.util.concurrent.atomic.{name}"
    for name in ("LongAdder", "DoubleAdder", "LongAccumulator", "DoubleAccumulator")
)
MAX_SUPERCLASSES = 256
NOT_READ = "whose objects it makes empty and cannot fill"
#: Classes of the JDK whose serializers call a public constructor, in subclasses too, by its parameters.
CALLED = {
    "java.util.TreeMap": ("java.util.Comparator",),
    "java.util.TreeSet": ("java.util.Comparator",),
    "java.util.concurrent.ConcurrentSkipListMap": ("java.util.Comparator",),
    "java.util.PriorityQueue": ("int", "java.util.Comparator"),
}
#: Collections that Kryo 2 writes and cannot fill, and those for which it makes objects of the JDK's class alone.
IMMUTABLE = "java.util.ImmutableCollections$"
SORTED_2 = frozenset({"java.util.TreeMap", "java.util.TreeSet"})
#: Classes with parts that are transient, which Kryo 2 does not write: an id, rules, a handler.
TRANSIENT_2 = frozenset({"java.time.ZoneOffset", "java.time.ZoneRegion", "java.net.URL"})
#: Classes of the JDK that work with fields that are all null or 0, as objects that no constructor made have.
WORKING_WITHOUT_CONSTRUCTOR = frozenset(
    f"java.util.{name}" for name in ("HashMap", "LinkedHashMap", "LinkedList", "concurrent.ConcurrentHashMap")
)
UNREADABLE_CLASSES = (
    *("java.util.EnumMap", "java.util.Collections$Unmodifiable", "java.util.Collections$Synchronized"),
    *(f"java.util.{name}" for name in (*UNFILLED, *UNFILLED_MAPS)),
)


class UnreadableError(ValueError):
    """Error for an object of a class that Kryo writes, but cannot read: the class, why, and the release of Flink."""

    def __str__(self) -> str:
        name, why, flink = self.args
        return f"Kryo in Flink {flink} cannot read the {name} that it writes, {why}: no bytes would restore"


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

    @property
    def is_of_bytes(self) -> bool:
        """Return whether the bytes are no value of the classes that they name."""
        return isinstance(self.error, DamagedError | BeyondError | IndexError | struct.error)


class AmbiguousFormError(UnsupportedStateError):
    """Error for a value that has one meaning with synthetic fields, and another one without them."""


@dataclass
class SyntheticFields:
    """Whether Kryo 2 wrote fields that the compiler added, such as ``this$0``: flink-scala on the job's class path."""

    are_written: bool = True
    #: Whether values show it: those with such fields that can be read in one form only.
    is_proven: bool = False

    @property
    def proven(self) -> bool | None:
        """Whether they are written; None as long as no value shows it."""
        return self.are_written if self.is_proven else None

    def change(self) -> None:
        """Take the other form."""
        self.are_written = not self.are_written


@dataclass(frozen=True)
class KryoChange:
    """The versions of Kryo before and after, and the classes that are known."""

    before: int
    after: int
    classes: DescribedClasses
    pojo_of: PojoOf
    #: The old serializer and the target of a POJO's subclass, by its name; None if class files do not describe it.
    subclass_of: Callable[[str], tuple[TypeSerializer, Target] | None]
    synthetic: SyntheticFields = field(default_factory=SyntheticFields)
    _unreadable: dict[str, str | None] = field(default_factory=dict)
    _formats: dict[tuple[KryoSerializer, int, bool], ObjectFormat] = field(default_factory=dict)

    @cached_property
    def _without_synthetic(self) -> DescribedClasses:
        return self.classes.without_synthetic()

    @property
    def has_forms(self) -> bool:
        """Return whether values have classes whose bytes differ with and without synthetic fields."""
        return self.before == 2 and bool(self.classes.with_synthetic or self._without_synthetic.with_synthetic)

    def format(self, serializer: KryoSerializer, kryo: int, synthetic: bool = True) -> ObjectFormat:
        """Return what a version reads and writes, with the registrations of a serializer."""
        known = self._formats.get((serializer, kryo, synthetic))
        if known is None:
            classes = self.classes if synthetic else self._without_synthetic
            known = object_format(2 if kryo == 2 else 5, serializer.classes, classes)
            self._formats[serializer, kryo, synthetic] = known
        return known

    def reader(self, serializer: KryoSerializer, kryo: int) -> ReadObject:
        """Return the function that reads the object at a position, and returns it with the position after it."""
        without, form = (self.format(serializer, kryo, is_synthetic) for is_synthetic in (False, True))
        synthetic = self.synthetic

        def read(data: bytes, at: int) -> tuple[KryoObject | None, int]:
            return read_object(data, form if synthetic.are_written else without, at)

        return read

    def kryo_writer(self, serializer: KryoSerializer) -> WriteObject:
        """Return the function that appends an object as the version after writes it."""
        form = self.format(serializer, self.after)

        def write(value: KryoObject | None, out: bytearray) -> None:
            out += write_object(value, form)

        return write

    def direct(self, serializer: KryoSerializer, new: KryoSerializer) -> list[DirectConversion]:
        """Return the conversions of values without objects in between, which there are from Kryo 2 to Kryo 5.

        They are by whether synthetic fields are written.
        """
        if (self.before, self.after) != (2, 5):
            return []
        return [
            DirectConversion(
                self.format(serializer, self.before, is_synthetic), self.format(new, self.after, is_synthetic)
            )
            for is_synthetic in (False, True)
        ]

    def is_inner(self, class_name: str) -> bool:
        """Return whether objects of a class have an outer object, in a field that Kryo 5 leaves out."""
        if class_name[:1] == "[":
            return False
        java_class = self.classes.find(class_name)
        return java_class is not None and any(
            java_field.is_synthetic and not java_field.is_static for java_field in java_class.fields
        )

    def fields_of_java(self, class_name: str) -> Iterator[str]:
        """Yield the classes of Java whose fields Kryo 5 sets in objects of a class: itself, or above it."""
        form = self._plain_format
        with suppress(ForeignError):
            if class_name[:1] != "[" and form.writes_fields(class_name):
                for java_class in self.classes.superclasses(class_name):
                    if java_class.name.startswith("java."):
                        yield java_class.name

    @cached_property
    def _plain_format(self) -> ObjectFormat:
        return object_format(5, classes=self.classes)

    def why_unreadable(self, class_name: str) -> str | None:
        """Return why Kryo does not read the objects of a class that it writes; None if it reads them.

        It makes objects of the job's own collections by the constructor that the serializer of the JDK's class calls,
        or by the one without arguments; without that, the fields of the JDK's class are all null.
        """
        if class_name not in self._unreadable:
            self._unreadable[class_name] = self._why_unreadable(class_name)
        return self._unreadable[class_name]

    def _why_unreadable(self, class_name: str) -> str | None:
        if class_name.startswith(UNREADABLE_CLASSES) or (self.after == 2 and class_name.startswith(IMMUTABLE)):
            return NOT_READ
        java_class = self.classes.find(class_name) if class_name[:1] != "[" else None
        if java_class is None or not java_class.constructors:
            return None
        above = next((name for name in self._superclasses(java_class) if name.startswith("java.util.")), None)
        if self.after == 2 and above in SORTED_2:
            return f"in whose place it makes a {above}"
        if self.after != 2 and above in CALLED:
            has = any(
                constructor.is_public and _erased_names(constructor) == CALLED[above]
                for constructor in java_class.constructors
            )
            return None if has else f"it has no public constructor ({', '.join(CALLED[above])}), {CALLS}"
        without = any(not constructor.erased.arguments for constructor in java_class.constructors)
        if above is None or without or above in WORKING_WITHOUT_CONSTRUCTOR:
            return None
        return f"it has no constructor without arguments, so that Kryo makes a {above} whose fields are null"

    def is_primitive(self, class_name: str, field: str) -> bool | None:
        """Return whether a field of a POJO is primitive, which Java cannot set to null; None if that is unknown."""
        java_class = self.classes.find(class_name)
        above = [java_class, *map(self.classes.find, self._superclasses(java_class))]
        for owner in above:
            if owner is None:
                return None
            for one in owner.fields:
                if one.name == field and not one.is_static:
                    # Flink gives the constructor of a record 0 in place of null.
                    return isinstance(one.erased, PrimitiveType) and not owner.is_record
        return None

    def _superclasses(self, java_class: JavaClass | None) -> Iterator[str]:
        for _ in range(MAX_SUPERCLASSES):
            above = java_class.superclass_name if java_class is not None else None
            if above is None:
                return
            yield above
            java_class = self.classes.find(above)

    def expect_none_of(self, own: OwnSerializers, value: KryoObject) -> None:
        """Raise OwnSerializerError for an object that holds one of a class with a serializer of the new job's."""
        for name in class_names(value):
            if name in own.classes or not own.with_subclasses.isdisjoint(self.classes.ancestors(name)):
                raise OwnSerializerError(name)

    def flink_reader(self) -> FlinkReader:
        """Return a reader of objects by Flink's serializers."""

        def pojo_of(name: str) -> PojoSerializer | None:
            subclass = self.subclass_of(name)
            return subclass[0] if subclass is not None and isinstance(subclass[0], PojoSerializer) else None

        return FlinkReader(lambda kryo: self.reader(kryo, self.before), self.classes, pojo_of)

    def writer(self, inspection: Inspection) -> FlinkObjectWriter:
        """Return a writer of objects by Flink's serializers, which shows all that it writes to an inspection."""

        def kryo(serializer: KryoSerializer) -> WriteObject:
            write = self.kryo_writer(serializer)

            def inspected(value: KryoObject | None, out: bytearray) -> None:
                write(value, out)
                if inspection.is_on and value is not None:
                    inspection.of_kryo(value)

            return inspected

        return FlinkObjectWriter(kryo, self.pojo_of, inspection.of_collection)


@dataclass
class Inspection:
    """Search for what is lost in the objects that are written, at any depth: all rules are here."""

    change: KryoChange
    lost: Losses = field(default_factory=Losses)
    #: Whether to look for losses.
    is_on: bool = False
    #: Classes of Java whose fields Kryo 5 sets, which Java 17 allows only in packages that are opened.
    opened: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def found_before(self, lost: Losses) -> None:
        """Go back to what was found before a value."""
        self.lost = lost
        self._seen.clear()

    def of_collection(self, value: KryoObject) -> None:
        """Note a list, set or map that one of Flink's serializers writes, and reads as one of another class."""
        self.lost.note(Loss.COLLECTION, value.class_name)

    def of_kryo(self, value: KryoObject) -> None:
        """Note what Kryo does not keep of an object; raise UnreadableError for one that it cannot read."""
        change, names = self.change, class_names(value)
        if change.after == 2:
            if PATTERN in names and any(
                kryo_object.header for kryo_object in objects_in(value) if kryo_object.class_name == PATTERN
            ):
                self.lost.note(Loss.FLAGS, PATTERN)
            for name in names & TRANSIENT_2:
                self.lost.note(Loss.TRANSIENT, name)
        else:
            if ZONED in names and loses_offset(value):
                self.lost.note(Loss.OFFSET, ZONED)
            if LOCALE in names and any(
                any(kryo_object.content[3:]) for kryo_object in objects_in(value) if kryo_object.class_name == LOCALE
            ):
                self.lost.note(Loss.SCRIPT, LOCALE)
            for name in names & UNWRITTEN:
                self.lost.note(Loss.UNWRITTEN, name)
        for name in names - self._seen:
            why = change.why_unreadable(name)
            if why is not None:
                raise UnreadableError(name, why, "1" if change.after == 2 else "2")
            self._seen.add(name)
            if change.after != 2:
                self.opened.update(change.fields_of_java(name))
            if change.is_inner(name):
                self.lost.note(Loss.WITH_SCALA if change.after == 2 else Loss.OUTER, name)


@dataclass
class KryoStatePart:
    """A part of a state whose values Kryo wrote, and what was found in those that were rewritten so far."""

    part: ChangedPart
    change: KryoChange
    values: int = 0
    changed: int = 0
    inspection: Inspection = field(init=False)

    def __post_init__(self) -> None:
        self.inspection = Inspection(self.change)

    @property
    def keeps_kryo(self) -> bool:
        """Whether the new release leaves the part to Kryo too, as it is in the snapshot."""
        kept = self.part.is_restored or isinstance(self.part.new, KryoSerializer)
        return kept and isinstance(self.part.old, KryoSerializer)

    def rewrite(self) -> Rewrite:
        """Return the function that rewrites a value."""
        old, new, change = self.part.old, self.part.new, self.change
        if is_mapped_number(old, new):
            return self._numbers()
        read, put = change.flink_reader().of(old), change.writer(self.inspection).of(new)
        direct: list[DirectConversion] = []
        own = self.part.own_serializers
        if isinstance(old, KryoSerializer) and isinstance(new, KryoSerializer) and own is None:
            direct = change.direct(old, new)

        def rewrite(data: bytes, at: int, out: bytearray) -> int:
            start = len(out)
            end = direct[change.synthetic.are_written].append(data, at, out) if direct else -1
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
            except (*KryoErrors, RecursionError) as error:
                raise PartError(self.part, error) from error
            self.values += 1
            if out[start:] != data[at:end]:
                self.changed += 1
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

    def misread(self) -> Rewrite:
        """Return the function that reads a value as the version after reads bytes of the version before.

        It appends what was read as that version writes it, or WRONG where it would be another value in any case.
        """
        old, change = self.part.old, self.change
        assert isinstance(old, KryoSerializer)
        form = change.format(old, change.after)

        def misread(data: bytes, at: int, out: bytearray) -> int:
            try:
                if change.after != 2:
                    value, end = misread_object(data, form, at, change.why_unreadable)
                else:
                    value, end = read_object(data, form, at)
                expect_plausible(value)
            except KryoErrors as error:
                raise PartError(self.part, error) from error
            try:
                out += write_object(value, form)
            except (*KryoErrors, RecursionError):
                out += WRONG  # an object of it has a field of another class, or none where it must have one
            return end

        return misread


def _erased_names(method: JavaMethod) -> tuple[str, ...]:
    """Return the parameters of a method as Java's reflection names them."""
    kinds = method.erased.arguments
    return tuple(kind.name if isinstance(kind, ClassType | PrimitiveType) else "" for kind in kinds)
