"""Serializer of generic types, whose values Flink serializes with Kryo.

    snapshot := version 2: utf typeClass  OptMap registrations  OptMap defaults  OptMap defaultClasses
                registration: utf class  i32 kind  kind 0: nothing | 1: utf serializerClass | 2: a Java object stream
    value    := ``object_reader.py``; values do not record the version of Kryo: 2 in Flink 1, 5 in Flink 2

A snapshot contains only the erased class. For classes with one representation (Date, BigDecimal, BitSet, UUID,
java.time, arrays) the column has a type; a List, Map or Object becomes VARIANT, because only the data shows the types
of the content. User classes are opaque. A user class inside a VARIANT makes the whole value a VARIANT of its bytes if
the end of the value is known (``whole``), and is an error otherwise. Values of the usual classes are read together
(``objects/value_columns.py``), all others row by row. They cannot be encoded: Kryo's state is copied as bytes. Flink:
``KryoSerializer``, ``KryoSerializerSnapshot``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Flags, Ints
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import UTF
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.java_stream import JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.java_math import AS_TEXT, rescaled, to_text
from pyspark_savepoint.formats.serializers.basic.shapes import gather
from pyspark_savepoint.formats.serializers.basic.strings import ESCAPED_TEXTS, column_texts, refuse_surrogate
from pyspark_savepoint.formats.serializers.basic.temporal import (
    DATE_PARTS,
    DATE_TIME_PARTS,
    MOMENT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from pyspark_savepoint.formats.serializers.composite.optional_map import ENTRIES, OPTIONAL_MAP, Entry
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    BASE_IDS,
    ENUMS,
    FINAL_CLASSES,
    FIRST_USER_ID,
    GENERAL,
    LAYOUTS,
    WRAPPERS,
    KryoClasses,
    is_thrown,
    struct_of,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict
from pyspark_savepoint.formats.variant import (
    MAX_DIGITS,
    VARIANT,
    Date,
    LoneSurrogateError,
    Timestamp,
    VariantError,
    encode_variant,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import ValueReader

RUNTIME_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo."
KRYO = RUNTIME_KRYO + "KryoSerializerSnapshot"
#: Registrations of every job without flink-avro.
AVRO_ARRAY = "org.apache.avro.generic.GenericData$Array"
AVRO_PLACEHOLDERS = tuple(
    f"{RUNTIME_KRYO}Serializers$DummyAvro{stem}Class" for stem in ("Registered", "KryoSerializer")
)
#: Ends of the frames that name a serializer of Java object streams.
JAVA_SERIALIZERS = tuple(
    len(name).to_bytes(2, "big") + name.encode()
    for name in (RUNTIME_KRYO + "JavaSerializer", "com.esotericsoftware.kryo.serializers.JavaSerializer")
)
KRYO_NULL = 0
#: Packages whose classes are not the job's.
OF_OTHERS = ("java.", "javax.", "jdk.", "sun.", "com.sun.", "scala.", "kotlin.", "org.apache.flink.")
RAW = 'read the state as bytes: option("raw", "<state>")'
#: Limits of the size of variants, which may be larger than the bytes of the values: shared objects are repeated.
MAX_GROWTH, FREE_GROWTH = 64, 1 << 26
#: Rows from which on it is faster to read UUIDs together: lists of lists are read in columns of a few rows.
MANY = 32


@dataclass(frozen=True)
class ColumnType:
    """Column type of the values of a class, also with ``timestamps=raw``, and the classes of values that it accepts."""

    arrow: pa.DataType
    raw: pa.DataType | None = None
    classes: tuple[str, ...] = ()


def type_of(name: str, options: DecodeOptions) -> pa.DataType:
    """Return the type of a class of the JDK, or VARIANT."""
    if name in BIG_NUMBERS:
        return _number_type(name, options)
    kind = KINDS.get(name)
    if kind is None:
        return VARIANT
    return kind.raw if kind.raw is not None and options.timestamps == "raw" else kind.arrow


def classes_in(name: str, options: DecodeOptions) -> tuple[str, ...]:
    """Return the classes of the values that a column of a class of the JDK accepts."""
    kind = KINDS.get(name)
    accepted = (kind.classes if kind else ()) or (name,)
    if name == "java.util.Date" and options.timestamps != "raw":
        accepted += ("java.sql.Timestamp",)
    return accepted


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


DATES = ColumnType(TIMESTAMP, pa.int64(), ("java.util.Date", "java.sql.Date"))
KINDS: Mapping[str, ColumnType] = {
    "int": ColumnType(pa.int32()),
    "long": ColumnType(pa.int64()),
    "boolean": ColumnType(pa.bool_()),
    "byte": ColumnType(pa.int8()),
    "short": ColumnType(pa.int16()),
    "char": ColumnType(pa.string()),
    "float": ColumnType(pa.float32()),
    "double": ColumnType(pa.float64()),
    **dict.fromkeys(
        [
            *("java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.util.UUID"),
            "java.util.regex.Pattern",
            *("java.util.Currency", "java.net.URI", "java.time.ZonedDateTime", "java.time.OffsetDateTime"),
            *("java.time.OffsetTime", "java.time.Period", "java.time.YearMonth", "java.time.MonthDay"),
            *("java.time.ZoneOffset", *ENUMS),
        ],
        ColumnType(pa.string()),
    ),
    "java.time.Year": ColumnType(pa.int32()),
    "java.util.Date": DATES,
    "java.sql.Date": DATES,
    "java.sql.Time": ColumnType(pa.int64()),
    "java.sql.Timestamp": ColumnType(TIMESTAMP, MOMENT),
    "java.time.Instant": ColumnType(TIMESTAMP, MOMENT),
    "java.time.LocalDate": ColumnType(pa.date32(), DATE_PARTS),
    "java.time.LocalTime": ColumnType(pa.int64()),
    "java.time.LocalDateTime": ColumnType(TIMESTAMP_NTZ, DATE_TIME_PARTS),
    "java.time.Duration": ColumnType(pa.duration("us"), MOMENT),
    "java.util.BitSet": ColumnType(_list(pa.int32())),
    **{name: ColumnType(kind) for name, row in FIELD_CLASSES.items() if (kind := row.column or struct_of(name))},
    "[B": ColumnType(pa.binary()),
    "[Z": ColumnType(_list(pa.bool_())),
    "[S": ColumnType(_list(pa.int16())),
    "[I": ColumnType(_list(pa.int32())),
    "[J": ColumnType(_list(pa.int64())),
    "[F": ColumnType(_list(pa.float32())),
    "[D": ColumnType(_list(pa.float64())),
    "[Ljava.lang.String;": ColumnType(_list(pa.string())),
}
BIG_DECIMALS = {"java.math.BigDecimal", "scala.math.BigDecimal"}
BIG_NUMBERS = {"java.math.BigInteger", "scala.math.BigInt"} | BIG_DECIMALS
THROWABLE, UUID = "java.lang.Throwable", "java.util.UUID"
THROWN = pa.struct([("class", pa.string()), ("message", pa.string())])
#: Scala classes that Chill does not register, so that they get the next free id, like classes of the job.
WITHOUT_CHILL = {"scala.math.BigInt", "scala.math.BigDecimal"}


@register(KRYO)
@struct_with_dict
class KryoSerializer(DeclaredSerializer):
    """Serializer of a generic class, with the job's registrations and default serializers of Kryo."""

    type_class: str = part(UTF, "a class")
    registrations: tuple[Entry, ...] = part(OPTIONAL_MAP, ENTRIES)
    defaults: tuple[Entry, ...] = part(OPTIONAL_MAP, ENTRIES, default=())
    default_classes: tuple[Entry, ...] = part(OPTIONAL_MAP, ENTRIES, default=())
    snapshot_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def has_forms(self) -> bool:
        """Return whether classes were met that Kryo 2 writes in two forms: with fields of the compiler, or without."""
        return False

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the class and three optional maps, whose frames are kept as bytes."""
        fields = cls.read_fields(name, version, reader)
        kind = ThrowableSerializer if fields["type_class"] == THROWABLE else KryoSerializer
        serializer = kind(name, version, **fields)
        return serializer if serializer.is_known else OpaqueKryoSerializer(name, version, **fields)

    @classmethod
    def of(cls, type_class: str) -> KryoSerializer:
        """Return the serializer of a class in a job without registrations, except those that Flink adds itself."""
        registrations = (_registration(type_class), _registration(AVRO_ARRAY, AVRO_PLACEHOLDERS))
        made = KryoSerializer(KRYO, 2, type_class, registrations)
        return made if made.is_known else OpaqueKryoSerializer(KRYO, 2, type_class, registrations)

    @property
    def flink_type(self) -> str:
        return f"KRYO<{self.type_class}>"

    @cached_property
    def classes(self) -> KryoClasses:
        """Return classes by id, in the order of registration; a class that already has an id keeps it."""
        ids = dict(BASE_IDS)
        taken = {*BASE_IDS.values(), *WRAPPERS}
        defaults = {WRAPPERS.get(name, name) for name, *_ in (*self.defaults, *self.default_classes)}
        custom = set(defaults)
        number = FIRST_USER_ID
        for name, _, value in self.registrations:
            if name.startswith("scala.") and name not in WITHOUT_CHILL:
                break  # Chill assigns ids to many of Scala's classes: from here on ids are uncertain
            if name not in taken:
                ids[number] = name
                number += 1
                taken.add(name)
            if value is None or not _is_plain(value):
                custom.add(WRAPPERS.get(name, name))
        # A default serializer applies to subclasses too.
        inherited = any(name.startswith("java.") and name not in FINAL_CLASSES for name in defaults)
        java = {name for name, _, value in (*self.registrations, *self.default_classes) if _is_java_serializer(value)}
        return KryoClasses(ids, frozenset(custom), inherited, frozenset(defaults), frozenset(java))

    @property
    def is_known(self) -> bool:
        """Whether values of the class can be read without the user's code."""
        name = WRAPPERS.get(self.type_class, self.type_class)
        if self.classes.is_custom(name):
            return False
        return name in GENERAL or _is_readable(name)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the class, or VARIANT."""
        return type_of(WRAPPERS.get(self.type_class, self.type_class), options)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``UUID.hashCode``; the hashes of other classes are not known."""
        if self.type_class != UUID:
            return super().java_hash(column)
        numbers = [0 if text is None else uuid.UUID(text).int for text in column.to_pylist()]
        halves = [(number >> 64) ^ (number & (1 << 64) - 1) for number in numbers]
        return np.array([(half >> 32) ^ (half & 0xFFFFFFFF) for half in halves], np.uint32).view(np.int32)

    def decode(self, at: Cursors, whole: bool = False) -> pa.Array:
        """Read values; ``whole``: cursors end with their values, so an unreadable value becomes its bytes."""
        name = WRAPPERS.get(self.type_class, self.type_class)
        kind = self.arrow_type(at.options)
        rows = _Rows(self, at, name if kind != VARIANT else "", whole)
        if name == UUID and len(at) >= MANY:
            return _uuids(rows)
        if kind != VARIANT and len(at) >= MANY and not at.options.ends:
            return _typed(rows, kind)
        if kind != VARIANT:
            return text_column([rows.typed(row, kind) for row in range(len(at))], kind, at)
        if len(at) >= MANY and not at.options.ends:
            return _variants(rows)
        return variant_column([rows.variant(row) for row in range(len(at))])


@dataclass(frozen=True)
class OpaqueKryoSerializer(KryoSerializer):
    """Serializer of a user's class, or of a class with a user's serializer."""

    opaque: ClassVar[bool] = True
    remedy: ClassVar[str] = (
        "name the job's jar in option 'classes', or describe the class in option 'kryoTypes': "
        "com.shop.Money(cents LONG, cur STRING); if the job has its own Kryo serializer for it, plug in a reader "
        "(entry point group 'pyspark_savepoint.kryo_classes')"
    )

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors, whole: bool = False) -> pa.Array:
        """Raise UndecodableStateError: the end of a value is unknown."""
        raise self._refuse("decoded").with_facts(**at.origin.facts())


@dataclass(frozen=True)
class ThrowableSerializer(KryoSerializer):
    """Serializer of exceptions: Flink makes JavaSerializer their default, which writes Java object streams."""

    @property
    def is_known(self) -> bool:
        return not self.classes.is_custom(THROWABLE)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return a struct of the class and the message."""
        return THROWN

    def decode(self, at: Cursors, whole: bool = False) -> pa.Array:
        """Read class and message of every row; no object is made."""
        return pa.array([self._read(at, row) for row in range(len(at))], THROWN)

    def _read(self, at: Cursors, row: int) -> dict[str, str | None] | None:
        reader = _reader(self, at, True)
        reader.begin(int(at.position[row]), int(at.end[row]))
        try:
            name = reader.class_name()
            if name is not None and reader.varint() != 1:
                raise DamagedError("a new exception", name)
            thrown = None if name is None else reader.java_stream(parse_java_object)
        except (DamagedError, ForeignError) as error:
            at.fail(row, "the class of an exception", error.args[-1])
        at.position[row] = reader.position
        if name is None:
            return None
        message = thrown.fields.get("detailMessage") if isinstance(thrown, JavaObject) else None
        return {"class": name, "message": message if isinstance(message, str) else None}


def _reader(serializer: KryoSerializer, at: Cursors, typed: bool) -> ValueReader:
    """Return the reader of the values of a column; listings of states do not import it."""
    from pyspark_savepoint.formats.serializers.kryo.objects.conversion import object_format
    from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import Budget, ValueReader
    from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Rendering

    form = object_format(2 if at.options.kryo == 2 else 5, serializer.classes)
    return ValueReader(at.buffer.data.cast("B"), Rendering(form, at.options, typed), Budget())


@dataclass
class _Rows:
    """Values of one column, read one by one."""

    serializer: KryoSerializer
    at: Cursors
    type_class: str
    whole: bool

    def __post_init__(self) -> None:
        self.reader = _reader(self.serializer, self.at, bool(self.type_class))
        self.left = FREE_GROWTH + MAX_GROWTH * len(self.at.buffer)
        self.expected = classes_in(self.type_class, self.at.options) if self.type_class else ()

    def _read(self, row: int) -> Any:
        """Read the value of a row; its cursor moves past it."""
        at, reader = self.at, self.reader
        reader.begin(int(at.position[row]), int(at.end[row]))
        try:
            value = reader.typed_value(self.expected) if self.expected else reader.value()
        except DamagedError as error:
            at.position[row] = reader.position
            self._fail(row, *error.args)
        except BeyondError as error:
            at.out_of_range(row, *error.args)
        at.position[row] = reader.position
        return value

    def _fail(self, row: int, expected: str, found: object) -> NoReturn:
        at = self.at
        kryo = at.options.kryo
        try:
            at.fail(row, f"{expected} in a value of Kryo {kryo}", found)
        except CorruptStateError as error:
            error.facts["remedy"] += f'; or another version of Kryo wrote it: option("kryo", "{7 - kryo}")'
            raise

    def typed(self, row: int, kind: pa.DataType) -> Any:
        """Read the value of a row as Arrow accepts it for the column's type."""
        try:
            return plain_value(self._read(row), kind, self.serializer.type_class)
        except ForeignError as error:
            self._refuse(row, error)
        except BeyondError as error:
            self.at.out_of_range(row, *error.args)

    def variant(self, row: int) -> tuple[bytes, bytes] | None:
        """Return the variant (value and metadata) of a row; None for null."""
        start, end = int(self.at.position[row]), int(self.at.end[row])
        try:
            value = self._read(row)
        except ForeignError as error:
            if not self.whole:
                self._refuse(row, error)
            self.at.position[row] = end
            value = bytes(self.reader.data[start:end])
        if self.at.options.ends:
            return None
        if value is None and self.reader.data[start] == KRYO_NULL:
            return None  # an empty Optional is not null: it becomes the null of VARIANT
        try:
            pair = variant_of(value, self.at.options.text)
        except VariantError as error:
            self.at.out_of_range(row, f"a value of {self.serializer.flink_type} cannot be a VARIANT: {error}", RAW)
        self.left -= len(pair[0]) + len(pair[1])
        if self.left < 0:
            self.at.out_of_range(row, "Kryo values that repeat shared objects are too large for VARIANT", RAW)
        return pair

    def _refuse(self, row: int, error: ForeignError) -> NoReturn:
        facts = self.at.origin.facts(int(self.at.position[row]))
        facts["state"] = ".".join((facts["state"] or "value", *self.at.path))
        name, *reason = error.args
        own = not name.startswith(OF_OTHERS)
        raise UndecodableStateError(
            f"a value of {self.serializer.flink_type} has an object of a class that "
            + ("only the job's own classes can read" if own else "this version does not read"),
            found=f"{name}: {reason[0]}" if reason and not own else name,
            remedy=f"name the job's jar in option 'classes', or {RAW}" if own else RAW,
            **facts,
        ) from None


def _uuids(rows: _Rows) -> pa.Array:
    """Return the column of UUIDs: most are read together, and the others one by one."""
    from pyspark_savepoint.formats.serializers.kryo.objects.uuid_columns import read_uuids

    at = rows.at
    together, texts, nulls = read_uuids(at, rows.reader.form.numbers[UUID] + 2)
    if together.all():
        return texts
    others = ~(together | nulls)
    rest = text_column([rows.typed(row, pa.string()) for row in np.flatnonzero(others).tolist()], pa.string(), at)
    return gather(pa.string(), [(together, texts), (others, rest)], len(at))


def _typed(rows: _Rows, kind: pa.DataType) -> pa.Array:
    """Return the column of a class of the JDK: most values are read together, and the others one by one."""
    from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import leaf_shape
    from pyspark_savepoint.formats.serializers.kryo.objects.value_columns import column_one_by_one, read_column
    from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables

    at = rows.at
    values = [rows.typed(row, kind) for some in column_one_by_one(len(at)) for row in range(len(at))[some]]
    if len(values) == len(at):
        return text_column(values, kind, at)
    tables, shape = ValueTables(rows.reader.form, at.options), leaf_shape(kind, rows.expected)
    together, column, _ = read_column(shape, tables, at, False, 0, len(values))
    values += [rows.typed(row, kind) for row in _others(together, len(values))]
    rest = text_column(values, kind, at)
    if not together.any():
        return rest
    return column if together.all() else gather(kind, [(together, column), (~together, rest)], len(at))


def _variants(rows: _Rows) -> pa.Array:
    """Return the column of variants: most are read together, and the others one by one."""
    from pyspark_savepoint.formats.serializers.kryo.objects.value_columns import read_variants, variants_one_by_one
    from pyspark_savepoint.formats.serializers.kryo.objects.value_tables import ValueTables

    at = rows.at
    pairs = [rows.variant(row) for some in variants_one_by_one(len(at)) for row in range(len(at))[some]]
    found = None
    if len(pairs) < len(at):
        found = read_variants(ValueTables(rows.reader.form, at.options), at, rows.left, len(pairs))
    if found is None:
        return variant_column([*pairs, *(rows.variant(row) for row in range(len(pairs), len(at)))])
    together, variants, size = found
    if together.all():
        return variants
    rows.left -= size
    rest = variant_column([*pairs, *(rows.variant(row) for row in _others(together, len(pairs)))])
    return gather(VARIANT, [(together, variants), (~together, rest)], len(at))


def _others(together: Flags, first: int) -> list[int]:
    """Return the rows from the first on that were not read together."""
    rows: list[int] = (np.flatnonzero(~together[first:]) + first).tolist()
    return rows


def variant_column(pairs: list[tuple[bytes, bytes] | None]) -> pa.Array:
    """Return a column of variants, each its value and metadata."""
    mask = pa.array([pair is None for pair in pairs], pa.bool_())
    parts = [pa.array([pair[part] if pair else b"" for pair in pairs], pa.binary()) for part in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=mask)


def text_column(values: list[Any], kind: pa.DataType, at: Cursors) -> pa.Array:
    """Return a column; strings with half of a surrogate pair are as option ``text`` says."""
    form = at.options.text
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if not _has_utf_8(value, kind))
        if form == "error":
            refuse_surrogate(at, row)
    ESCAPED_TEXTS.add()
    return pa.array([column_texts(value, form) for value in values], kind)


def variant_of(value: Any, form: str) -> tuple[bytes, bytes]:
    """Return a value as a variant (value and metadata); its strings are as option ``text`` says."""
    try:
        return encode_variant(value)
    except LoneSurrogateError:
        if form == "error":
            raise
    ESCAPED_TEXTS.add()
    return encode_variant(column_texts(value, form))


def _has_utf_8(value: Any, kind: pa.DataType) -> bool:
    """Return whether all texts in a value can be encoded in UTF-8."""
    try:
        pa.array([value], kind)
    except UnicodeEncodeError:
        return False
    return True


def plain_value(value: Any, kind: pa.DataType, name: str) -> Any:
    """Return a value of a JDK class as Arrow accepts it for the type of its column."""
    if isinstance(value, Timestamp):
        return value.micros
    if isinstance(value, Date):
        return value.days
    if name not in BIG_NUMBERS or value is None:
        return value
    unscaled, scale = value
    return _decimal(unscaled, scale, kind) if pa.types.is_decimal(kind) else to_text(unscaled, scale)


def _decimal(unscaled: int, scale: int, kind: pa.Decimal128Type) -> Decimal:
    number = rescaled(unscaled, scale, kind.scale)
    if number is None or abs(number) >= 10**kind.precision:
        bits = unscaled.bit_length()
        raise BeyondError(f"a number of {bits} bits and scale {scale} is not exactly a {kind}", AS_TEXT)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale))


def _number_type(name: str, options: DecodeOptions) -> pa.DataType:
    if options.decimals == "string" or (options.decimals == "auto" and name in BIG_DECIMALS):
        return pa.string()
    if options.decimals == "objects" and name in BIG_DECIMALS:
        return pa.large_string()
    if options.decimals in ("auto", "objects"):
        return pa.decimal128(MAX_DIGITS, 0)
    precision, scale = options.decimals.split(",")
    return pa.decimal128(int(precision), int(scale))


def _is_readable(name: str) -> bool:
    """Return whether objects of a class, or the elements of an array, are read without descriptions of classes."""
    inner = name.lstrip("[")
    if inner != name:
        return len(inner) == 1 or (inner[:1] == "L" and _is_readable(inner[1:-1]))
    inner = WRAPPERS.get(inner, inner)
    return inner in LAYOUTS or inner in GENERAL or is_thrown(inner)


def _registration(name: str, serializer: tuple[str, ...] = ()) -> Entry:
    """Return a registration of a class with Kryo's own serializer, or with a placeholder class and serializer class."""
    key, value = DataOutputView(), DataOutputView()
    key.write_utf(name)
    value.write_utf(serializer[0] if serializer else name)
    value.write_i32(1 if serializer else 0)
    for class_name in serializer[1:]:
        value.write_utf(class_name)
    return name, key.getvalue(), value.getvalue()


def _is_java_serializer(frame: bytes | None) -> bool:
    """Return whether a registration or default serializer names one that writes Java object streams."""
    return frame is not None and frame.endswith(JAVA_SERIALIZERS)


def _is_plain(registration: bytes) -> bool:
    """Return whether a registration has no serializer of its own (kind 0)."""
    view = DataInputView(registration)
    try:
        view.read_utf("a class")
        return view.read_i32("the kind of a registration") == 0
    except CorruptStateError:
        return False
