"""Generic types whose classes are described by class files or in ``kryoTypes``: values are columns instead of bytes.

:class:`JobClasses` holds the options ``classes``, ``kryoTypes`` and ``serializers`` of a read. It pickles as paths and
text; each process parses the classes that it needs once. Values of the usual classes are read together
(``objects/value_columns.py``), and written (``objects/written_columns.py``), all others row by row: see ``objects`` and
``object_columns.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.class_files import ClassPath, expect_paths
from pyspark_savepoint.formats.class_files.java_types import OBJECT, ClassType, JavaType, parse_field_type
from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Flags, Longs
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UndecodableStateError
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import gather
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import ClassSource, erased
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.described.object_columns import (
    ObjectColumn,
    ObjectColumns,
    ObjectMaking,
    ObjectValues,
    refusal,
)
from pyspark_savepoint.formats.serializers.kryo.described.serializer import (
    FREE_GROWTH,
    MANY,
    MAX_GROWTH,
    KryoSerializer,
    OpaqueKryoSerializer,
    text_column,
)
from pyspark_savepoint.formats.serializers.kryo.objects import DescribedClasses, KryoObject, ObjectFormat, object_format
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import read_object, write_object
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import Budget
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import RAW
from pyspark_savepoint.formats.serializers.kryo.objects.plugged_classes import plugged_classes
from pyspark_savepoint.formats.serializers.registry import GivenSerializers
from pyspark_savepoint.formats.variant import VARIANT

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape
    from pyspark_savepoint.formats.serializers.kryo.objects.written_columns import ColumnWriting


class Subclasses(Protocol):
    """Subclasses of POJOs that the job's class files have; it pickles and can be hashed."""

    def of_version(self, metadata_version: int) -> Subclasses:
        """Return the same for a version of a snapshot's metadata, which tells the release of Flink."""

    def below(self, pojo: PojoSerializer, job: JobClasses) -> tuple[Member, ...]:
        """Return the subclasses of a POJO that its serializer does not describe, each with its serializer."""


@redacted
@dataclass(frozen=True)
class JobClasses:
    """Jars and folders of class files, classes in the option ``kryoTypes``, and serializers that the user gave."""

    paths: tuple[str, ...] = ()
    words: str = ""
    #: The version of Kryo in which values are written; None where they are only read.
    kryo: int | None = None
    serializers: GivenSerializers | None = None
    #: What finds subclasses of POJOs that snapshots lack; None where values are not read.
    subclasses: Subclasses | None = None

    @classmethod
    def of(
        cls,
        paths: tuple[str, ...] = (),
        words: str = "",
        serializers: GivenSerializers | None = None,
        subclasses: Subclasses | None = None,
    ) -> JobClasses | None:
        """Return the classes that options or plug-ins describe, None if there are none; a missing jar is an error."""
        expect_paths(paths)
        described = paths or words or serializers or plugged_classes()
        return cls(paths, words, None, serializers, subclasses) if described else None

    def of_snapshot(self, metadata_version: int, complete: bool) -> JobClasses:
        """Return the classes for a snapshot; subclasses are found only where its serializers may lack some."""
        subclasses = None if complete or self.subclasses is None else self.subclasses.of_version(metadata_version)
        return replace(self, subclasses=subclasses)

    def serializer_of(self, snapshot_class: str) -> type[TypeSerializer] | None:
        """Return the serializer class that the user gave for a snapshot class, or None."""
        return None if self.serializers is None else self.serializers.classes.get(snapshot_class)

    def described(self, serializer: TypeSerializer) -> TypeSerializer:
        """Return the serializer that reads the values of a generic type, if its class is described; else the same."""
        if not (self.paths or self.words or self.kryo or plugged_classes()):
            return serializer
        if isinstance(serializer, PojoSerializer):
            pojo = replace(serializer, fields=tuple(map(self._declared, serializer.fields)))
            return pojo if self.subclasses is None else replace(pojo, inferred=self.subclasses.below(pojo, self))
        if not isinstance(serializer, KryoSerializer) or isinstance(serializer, DescribedKryoSerializer):
            return serializer
        opaque = isinstance(serializer, OpaqueKryoSerializer)
        typed = not opaque and serializer.arrow_type(DecodeOptions()) != VARIANT
        if (opaque and not self._is_readable(serializer)) or (typed and self.kryo is None):
            return serializer
        names = serializer.snapshot_class, serializer.snapshot_version, serializer.type_class
        parts = serializer.registrations, serializer.defaults, serializer.default_classes
        # A snapshot has no type arguments, so elements of JDK collections may be of any class.
        return DescribedKryoSerializer(
            *names, *parts, job=self, declared=None if opaque or typed else OBJECT, typed=typed
        )

    def _declared(self, member: Member) -> Member:
        """Return a field of a POJO with its declared type, which includes the element type of a collection."""
        serializer = member.serializer
        if not isinstance(serializer, DescribedKryoSerializer) or member.key is None:
            return member
        classes, _ = load(self)
        owner = classes.find(DataInputView(member.key).read_utf("the class that declares a field"))
        for java_field in owner.fields if owner is not None else ():
            if java_field.name == member.name and erased(java_field.type) == erased(ClassType(serializer.type_class)):
                return replace(member, serializer=replace(serializer, declared=java_field.type))
        return member

    def _is_readable(self, serializer: KryoSerializer) -> bool:
        """Return whether the class of the values, or of the elements of arrays, is described."""
        classes, _ = load(self)
        name = serializer.type_class.lstrip("[")
        name = name[1:-1] if name != serializer.type_class else name
        if name in plugged_classes():
            return True
        java_class = classes.find(name)
        if java_class is None:
            return False
        try:
            if not (java_class.is_interface or java_class.is_abstract):
                object_format(5, serializer.classes, classes).body(name)
        except ForeignError:
            return False
        return True


@lru_cache(maxsize=16)
def load(job: JobClasses, synthetic: bool = True) -> tuple[DescribedClasses, frozenset[str]]:
    """Return the classes of a job, and those that ``kryoTypes`` makes VARIANT; ``kryoTypes`` is looked up first.

    ``synthetic``: whether Kryo 2 writes synthetic fields.
    """
    words = WordClasses.parse(job.words)
    sources: list[ClassSource] = [words, ClassPath(job.paths)] if job.paths else [words]
    return DescribedClasses(sources, synthetic), words.variants


@lru_cache(maxsize=256)
def _column(job: JobClasses, kind: JavaType, options: DecodeOptions, others: frozenset[str]) -> ObjectColumn:
    """Return the column of a type; ``others`` are classes with their own serializers, whose fields are not read."""
    classes, variants = load(job)
    return ObjectColumns(classes, options, variants | others).of(kind)


def _declared(name: str) -> JavaType:
    """Return the type of a name in the form of ``Class.getName``."""
    return parse_field_type(name.replace(".", "/")) if name[:1] == "[" else ClassType(name)


#: The column, serializer and values of which this thread was asked for the sizes.
_KEPT = threading.local()


@dataclass(frozen=True)
class DescribedKryoSerializer(KryoSerializer):
    """Serializer of a generic class that is described."""

    job: JobClasses = field(default_factory=JobClasses, repr=False)
    #: The type that the field of a POJO declares: with type arguments, which the snapshot does not have.
    declared: JavaType | None = field(default=None, repr=False)
    #: Whether values are of a class of the JDK with one representation, which is read without descriptions.
    typed: bool = field(default=False, repr=False)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the class's column."""
        return self._column(options).arrow

    def _column(self, options: DecodeOptions) -> ObjectColumn:
        try:
            others = (self.classes.custom | self.classes.java_serialized).difference(plugged_classes())
            return _column(self.job, self.declared or _declared(self.type_class), options, others)
        except ForeignError as error:
            raise self._refusal(error) from None

    def _form(self, kryo: int, synthetic: bool = True) -> ObjectFormat:
        classes, _ = load(self.job, synthetic)
        return object_format(2 if kryo == 2 else 5, self.classes, classes)

    @property
    def has_forms(self) -> bool:
        """Return whether classes were met that Kryo 2 writes in two forms: with fields of the compiler, or without."""
        return any(load(self.job, synthetic)[0].with_synthetic for synthetic in (False, True))

    def decode(self, at: Cursors, whole: bool = False) -> pa.Array:
        """Read together what can be, and the others row by row."""
        if self.typed:
            return super().decode(at, whole)
        column = self._column(at.options)
        form = self._form(at.options.kryo, at.options.synthetic)
        rows = _Rows(self, at, form, column)
        return rows.array(whole)

    def sizes(self, column: pa.Array) -> Longs:
        """Return the sizes of the encoded values, which are kept until they are written."""
        ends, data = self._written(column)
        _KEPT.values = column, self, (ends, data)
        return np.diff(ends)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write together what can be, and the others object by object."""
        from pyspark_savepoint.formats.kernels import numbers

        kept: Any = getattr(_KEPT, "values", None)
        _KEPT.values = None
        is_kept = kept is not None and kept[0] is column and kept[1] is self
        numbers.write_bytes(at.buffer, at.position, *(kept[2] if is_kept else self._written(column)))

    def _written(self, column: pa.Array) -> tuple[Longs, Bytes]:
        """Return the ends of the encoded values, from 0 on, and their bytes."""
        if self.job.kryo is None:
            raise self._refuse("written")
        if self.declared == OBJECT:
            raise refusal(self.type_class, "the type of the state does not name the classes of its parts")
        form = self._form(self.job.kryo)
        # The objects do not depend on the options of reads: the form of a time follows from its column's type.
        object_column = self._column(DecodeOptions())
        together, values = None, list[bytes]()
        if len(column) >= MANY:
            writing = _writing(self, object_column.shape)
            if writing is not None:
                for some in writing.one_by_one(len(column)):
                    values += self._objects(object_column, form, column[some])
                column = column[len(values) :]
                together = writing.write(column) if len(column) else None
        if together is None:
            return _joined(values + self._objects(object_column, form, column))
        left, ends, data = together
        if not left.any() and not values:
            return ends, data
        others = iter(self._objects(object_column, form, column.filter(pa.array(left))))
        for is_left, (low, high) in zip(left.tolist(), pairwise(ends.tolist()), strict=True):
            values.append(next(others) if is_left else data[low:high].tobytes())
        return _joined(values)

    def _objects(self, object_column: ObjectColumn, form: ObjectFormat, column: pa.Array) -> list[bytes]:
        """Return the encoded values, written one by one."""
        try:
            return [write_object(kryo_object, form) for kryo_object in object_column.make(ObjectMaking(form), column)]
        except ForeignError as error:
            name, *reason = error.args
            raise refusal(name, reason[0] if reason else "it is not described") from None

    def _refusal(self, error: ForeignError) -> UndecodableStateError:
        name, *reason = error.args
        return UndecodableStateError(
            f"a value of {self.flink_type} has an object of a class that cannot be read",
            found=f"{name}: {reason[0]}" if reason else name,
            remedy=f"describe the class in option 'classes' or 'kryoTypes', or {RAW}",
        )


@lru_cache(maxsize=256)
def _writing(serializer: DescribedKryoSerializer, shape: ColumnShape) -> ColumnWriting | None:
    """Return how the values of a column are written together, None if they are not."""
    from pyspark_savepoint.formats.serializers.kryo.objects.written_columns import ColumnWriting

    return ColumnWriting.of(shape, serializer._form(serializer.job.kryo or 5))


def _joined(values: list[bytes]) -> tuple[Longs, Bytes]:
    """Return the ends of values, from 0 on, and their bytes."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return ends, np.frombuffer(bytearray(b"".join(values)), np.uint8)


@dataclass
class _Rows:
    """Values of one column."""

    serializer: DescribedKryoSerializer
    at: Cursors
    form: ObjectFormat
    column: ObjectColumn
    #: Whether a value was no value of the form in which the ones before it were read, and whether those show no form.
    changed: bool = False
    changed_at_first: bool = False
    read_inner: bool = False

    def array(self, whole: bool) -> pa.Array:
        """Return the column; ``whole``: each value must end where its bytes end."""
        at = self.at
        values = ObjectValues(self.form, at.options, FREE_GROWTH + MAX_GROWTH * len(at.buffer))
        self.data, self.budget = at.buffer.data.cast("B"), Budget()
        together: Flags = np.zeros(len(at), np.bool_)
        read: list[Any] = []
        if len(at) >= MANY and not at.options.ends:
            from pyspark_savepoint.formats.serializers.kryo.objects.value_columns import column_one_by_one, read_column
            from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables

            for some in column_one_by_one(len(at)):
                read += self._values(range(len(at))[some], values, whole)
            if len(read) < len(at):
                tables = ValueTables(self.form, at.options)
                together, column, size = read_column(self.column.shape, tables, at, whole, values.room, len(read))
                values.room -= size
        read += self._values((np.flatnonzero(~together[len(read) :]) + len(read)).tolist(), values, whole)
        rest = text_column(read, self.column.arrow, at)
        if at.options.shown is not None:
            at.options.shown.append(self._is_shown())
        if not together.any():
            return rest
        return column if together.all() else gather(rest.type, [(together, column), (~together, rest)], len(at))

    def _values(self, rows: Sequence[int], values: ObjectValues, whole: bool) -> list[Any]:
        """Read rows one by one."""
        at, column_values = self.at, []
        for row in rows:
            try:
                column_values.append(self._row(row, values, whole))
            except DamagedError as error:
                self._fail(row, *error.args)
            except BeyondError as error:
                at.out_of_range(row, *error.args)
            except ForeignError as error:
                self._refuse(row, error)
        return column_values

    def _is_shown(self) -> bool:
        """Return whether values have shown in which form Kryo 2 wrote all of them, or no class has two forms."""
        if self.changed_at_first:
            return True
        form = self.form
        return not self.changed and (not form.has_inner or (form.classes.synthetic and form.has_outer))

    def _row(self, row: int, values: ObjectValues, whole: bool) -> Any:
        at = self.at
        start, end = int(at.position[row]), int(at.end[row])
        self.read_inner = self.form.has_inner
        try:
            kryo_object, position = self._read(self.form, start, end, whole)
        except (DamagedError, ForeignError):
            # Kryo 2 writes fields that the compiler added, such as this$0, only where flink-scala is on the class path.
            if self.form.version != 2:
                raise
            with suppress(DamagedError, ForeignError):
                other = self.serializer._form(2, synthetic=not self.form.classes.synthetic)
                kryo_object, at.position[row] = self._read(other, start, end, whole)
                # Objects that were read before in the wrong form may be wrong.
                self.changed_at_first = not (self.changed or self.read_inner)
                self.changed = True
                self.form = other
                return self._value(values, kryo_object)
            raise
        at.position[row] = position
        return self._value(values, kryo_object)

    def _value(self, values: ObjectValues, kryo_object: KryoObject | None) -> Any:
        return None if self.at.options.ends else self.column.convert(values, kryo_object)

    def _read(self, form: ObjectFormat, start: int, end: int, whole: bool) -> tuple[KryoObject | None, int]:
        kryo_object, position = read_object(self.data[:end], form, start, self.budget)
        if whole and position < end:
            raise DamagedError("the end of a value", f"{end - position} more bytes")
        return kryo_object, position

    def _fail(self, row: int, expected: str, found: object) -> NoReturn:
        at, kryo = self.at, self.at.options.kryo
        try:
            at.fail(row, f"{expected} in a value of Kryo {kryo}", found)
        except CorruptStateError as error:
            error.facts["remedy"] += (
                f'; or another version of Kryo wrote it: option("kryo", "{7 - kryo}"); '
                "or the classes in option 'classes' or 'kryoTypes' are not those of the job that wrote it"
            )
            raise

    def _refuse(self, row: int, error: ForeignError) -> NoReturn:
        facts = self.at.origin.facts(int(self.at.position[row]))
        facts["state"] = ".".join((facts["state"] or "value", *self.at.path))
        refusal: SavepointError = self.serializer._refusal(error)
        raise refusal.with_facts(**facts) from None
