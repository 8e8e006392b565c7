"""Serializers of SQL's internal data, created from logical types: for new state, without an existing snapshot.

Snapshots of arrays, maps and multisets hold the serializers of their elements as Java objects. Serializers without
parts are a class and a few numbers, the same in all releases of Flink, and can be created. Not supported are rows,
arrays and maps inside arrays and maps, whose objects hold compiled lambdas, and RAW and structured types of the user,
whose snapshots hold the user's classes. Those of Flink's own aggregates can: views (``MapView``, ``ListView``), whose
values are in states of their own, and accumulators with such views. Flink: ``InternalSerializers.create``.

Java object streams of logical types are written as Flink itself would write them. They are for new SQL state; a
snapshot that was read keeps its own streams. Classes and serialVersionUIDs are those of Flink and the JDK. An object
that occurs twice is written twice, which Java reads as equal values. Structured types are written as Flink 1 writes
them, which Flink 2 reads as equal to its own. Java: ``java.io.ObjectOutputStream``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.java_stream import (
    BASE_HANDLE,
    BLOCKDATA,
    CLASS,
    CLASSDESC,
    END_BLOCKDATA,
    ENUM,
    ENUM_CLASS,
    NULL,
    OBJECT,
    REFERENCE,
    SERIALIZABLE,
    STREAM_HEADER,
    STRING,
    WRITE_METHOD,
    ObjectStreamField,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.serializers.sql.logical_types import (
    BINARIES,
    KINDS,
    PACKAGE,
    ROWS,
    STRINGS,
    TIMESTAMPS,
    EmbeddedType,
    LogicalType,
)
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    ARRAY_DATA,
    MAP_DATA,
    RAW_VALUE,
    ROW_DATA,
    CollectionDataSerializer,
    RowDataSerializer,
)
from pyspark_savepoint.formats.serializers.sql.table_data import (
    DECIMAL_DATA,
    STRING_DATA,
    TIMESTAMP_DATA,
    DecimalDataSerializer,
    RawValueDataSerializer,
    TimestampDataSerializer,
)

LOGICAL_TYPE = PACKAGE + "LogicalType"
TEXT = "Ljava/lang/String;"
LIST = "Ljava/util/List;"
JAVA_ENUM = "java.lang.Enum"


@dataclass(frozen=True)
class Described:
    """Class description of a stream."""

    uid: int
    flags: int
    fields: tuple[ObjectStreamField, ...] = ()
    superclass: str | None = LOGICAL_TYPE


def _reference(name: str, class_name: str) -> ObjectStreamField:
    return ObjectStreamField("L", name, f"L{class_name.replace('.', '/')};")


def _type_class(simple_name: str) -> Described:
    """Describe a logical type whose fields are numbers and one enum, in Java's order: numbers first, sorted by name."""
    root, attributes = KINDS[simple_name]
    numbers = [ObjectStreamField("I", name) for name, ours in sorted(attributes.items()) if ours != "kind"]
    enums = [_reference(name, ENUMS[root]) for name, ours in attributes.items() if ours == "kind"]
    return Described(1, SERIALIZABLE, (*numbers, *enums))


#: The enum class of a type's ``kind``.
ENUMS: Mapping[str, str] = {
    "TIMESTAMP_WITHOUT_TIME_ZONE": PACKAGE + "TimestampKind",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": PACKAGE + "TimestampKind",
    "TIMESTAMP_WITH_TIME_ZONE": PACKAGE + "TimestampKind",
    "INTERVAL_YEAR_MONTH": PACKAGE + "YearMonthIntervalType$YearMonthResolution",
    "INTERVAL_DAY_TIME": PACKAGE + "DayTimeIntervalType$DayTimeResolution",
}
ROOT = PACKAGE + "LogicalTypeRoot"
ENUM_CONSTANTS = Described(0, SERIALIZABLE | ENUM_CLASS, superclass=JAVA_ENUM)
SIMPLE_TYPES = [name for name, (root, _) in KINDS.items() if root not in (*ROWS, "DISTINCT_TYPE", "RAW", "VARIANT")]
ROW_FIELD = PACKAGE + "RowType$RowField"
#: ``TypeSerializerSingleton#serialVersionUID``.
SINGLETON_UID = 8766687317209282373
STRUCTURED_ATTRIBUTE = PACKAGE + "StructuredType$StructuredAttribute"
COMPARISON = PACKAGE + "StructuredType$StructuredComparison"
USER_DEFINED_TYPE = PACKAGE + "UserDefinedType"
#: Views of aggregates, whose RAW type is the same for all of their elements.
VIEWS = ("org.apache.flink.table.api.dataview.MapView", "org.apache.flink.table.api.dataview.ListView")
#: Where the accumulators of Flink's own aggregates are; none of their classes is Serializable.
ACCUMULATORS = "org.apache.flink.table.runtime.functions.aggregate."
NULL_SERIALIZER = "org.apache.flink.table.dataview.NullSerializer"
TYPE_SERIALIZER = "org.apache.flink.api.common.typeutils.TypeSerializer"
UNMODIFIABLE_LIST = "java.util.Collections$UnmodifiableList"
UNMODIFIABLE_COLLECTION = "java.util.Collections$UnmodifiableCollection"
ARRAY_LIST = "java.util.ArrayList"

DATA_TYPE, ATOMIC_DATA_TYPE, COLLECTION_DATA_TYPE = (
    f"org.apache.flink.table.types.{name}" for name in ("DataType", "AtomicDataType", "CollectionDataType")
)
LONG_ARRAY = "[J"
NUMBER = "java.lang.Number"
#: Serial version and type of the only field of Java's classes of single values.
BOXES: Mapping[str, tuple[int, str]] = {
    "Byte": (-7183698231559129828, "B"),
    "Short": (7515723908773894738, "S"),
    "Integer": (1360826667806852920, "I"),
    "Long": (4290774380558885855, "J"),
    "Float": (-2671257302660747028, "F"),
    "Double": (-9172774392245257468, "D"),
}

CLASSES: Mapping[str, Described] = {
    DATA_TYPE: Described(
        -4138822262654336147,
        SERIALIZABLE,
        (_reference("conversionClass", "java.lang.Class"), _reference("logicalType", LOGICAL_TYPE)),
        None,
    ),
    ATOMIC_DATA_TYPE: Described(1911869481579848498, SERIALIZABLE, (), DATA_TYPE),
    COLLECTION_DATA_TYPE: Described(
        2464825922057708215, SERIALIZABLE, (_reference("elementDataType", DATA_TYPE),), DATA_TYPE
    ),
    LONG_ARRAY: Described(8655923659555304851, SERIALIZABLE, (), None),
    NUMBER: Described(-8742448824652078965, SERIALIZABLE, (), None),
    "java.lang.Boolean": Described(-3665804199014368530, SERIALIZABLE, (ObjectStreamField("Z", "value"),), None),
    **{
        f"java.lang.{name}": Described(uid, SERIALIZABLE, (ObjectStreamField(code, "value"),), NUMBER)
        for name, (uid, code) in BOXES.items()
    },
    LOGICAL_TYPE: Described(
        1, SERIALIZABLE, (ObjectStreamField("Z", "isNullable"), _reference("typeRoot", ROOT)), None
    ),
    JAVA_ENUM: Described(0, SERIALIZABLE | ENUM_CLASS, superclass=None),
    ROOT: ENUM_CONSTANTS,
    **dict.fromkeys(ENUMS.values(), ENUM_CONSTANTS),
    **{PACKAGE + name: _type_class(name) for name in SIMPLE_TYPES},
    PACKAGE + "ArrayType": Described(1, SERIALIZABLE, (_reference("elementType", LOGICAL_TYPE),)),
    PACKAGE + "MultisetType": Described(1, SERIALIZABLE, (_reference("elementType", LOGICAL_TYPE),)),
    PACKAGE + "MapType": Described(
        1, SERIALIZABLE, (_reference("keyType", LOGICAL_TYPE), _reference("valueType", LOGICAL_TYPE))
    ),
    PACKAGE + "RowType": Described(1, SERIALIZABLE, (ObjectStreamField("L", "fields", LIST),)),
    ROW_FIELD: Described(
        1,
        SERIALIZABLE,
        (
            ObjectStreamField("L", "description", TEXT),
            ObjectStreamField("L", "name", TEXT),
            _reference("type", LOGICAL_TYPE),
        ),
        None,
    ),
    PACKAGE + "RawType": Described(
        1, SERIALIZABLE, (_reference("clazz", "java.lang.Class"), _reference("serializer", TYPE_SERIALIZER))
    ),
    NULL_SERIALIZER: Described(-5381596724707742625, SERIALIZABLE, superclass=f"{BASE}TypeSerializerSingleton"),
    f"{BASE}TypeSerializerSingleton": Described(SINGLETON_UID, SERIALIZABLE, superclass=TYPE_SERIALIZER),
    TYPE_SERIALIZER: Described(1, SERIALIZABLE, superclass=None),
    USER_DEFINED_TYPE: Described(
        1,
        SERIALIZABLE,
        (
            ObjectStreamField("Z", "isFinal"),
            ObjectStreamField("L", "description", TEXT),
            _reference("objectIdentifier", "org.apache.flink.table.catalog.ObjectIdentifier"),
        ),
    ),
    PACKAGE + "StructuredType": Described(
        1,
        SERIALIZABLE,
        (
            ObjectStreamField("Z", "isInstantiable"),
            ObjectStreamField("L", "attributes", LIST),
            _reference("comparison", COMPARISON),
            _reference("implementationClass", "java.lang.Class"),
            _reference("superType", PACKAGE + "StructuredType"),
        ),
        USER_DEFINED_TYPE,
    ),
    COMPARISON: ENUM_CONSTANTS,
    STRUCTURED_ATTRIBUTE: Described(
        1,
        SERIALIZABLE,
        (
            ObjectStreamField("L", "description", TEXT),
            ObjectStreamField("L", "name", TEXT),
            _reference("type", LOGICAL_TYPE),
        ),
        None,
    ),
    UNMODIFIABLE_LIST: Described(
        -283967356065247728, SERIALIZABLE, (ObjectStreamField("L", "list", LIST),), UNMODIFIABLE_COLLECTION
    ),
    UNMODIFIABLE_COLLECTION: Described(
        1820017752578914078, SERIALIZABLE, (ObjectStreamField("L", "c", "Ljava/util/Collection;"),), None
    ),
    ARRAY_LIST: Described(8683452581122892189, SERIALIZABLE | WRITE_METHOD, (ObjectStreamField("I", "size"),), None),
}
BY_ROOT: Mapping[str, str] = {root: PACKAGE + name for name, (root, _) in KINDS.items()}


@dataclass(frozen=True)
class EnumConstant:
    """Constant of an enum class."""

    class_name: str
    name: str


@dataclass(frozen=True)
class ClassObject:
    """Object of a class that is not serializable: its name."""

    name: str


@dataclass(frozen=True, eq=False)
class WrittenObject:
    """Object to write: the fields of its class and superclasses, and the elements of a list."""

    class_name: str
    fields: dict[str, Any]
    elements: list[WrittenObject] | None = None


#: The one object of its class, which two views of an accumulator share.
NULL_OBJECT = WrittenObject(NULL_SERIALIZER, {})


def logical_stream(kind: LogicalType) -> bytes:
    """Return the stream of a logical type."""
    stream = _Stream()
    stream.value(_instance(kind))
    return stream.view.getvalue()


def _instance(kind: LogicalType) -> WrittenObject:
    class_name = BY_ROOT.get(kind.root, "")
    if class_name not in CLASSES or not _is_of_flink(kind):
        raise UnsupportedStateError(
            f"a serializer snapshot of {kind} cannot be created from its name alone",
            remedy="write into a savepoint that has this state: its serializer snapshot is kept",
        )
    fields: dict[str, Any] = {"isNullable": kind.nullable, "typeRoot": EnumConstant(ROOT, kind.root)}
    for theirs, ours in KINDS[class_name.removeprefix(PACKAGE)][1].items():
        value = getattr(kind, ours)
        fields[theirs] = EnumConstant(ENUMS[kind.root], value) if ours == "kind" else value
    children = [_instance(child) for child in kind.children]
    if kind.root == "MAP":
        fields |= {"keyType": children[0], "valueType": children[1]}
    elif kind.root == "ROW":
        fields["fields"] = _members(ROW_FIELD, kind, children)
    elif kind.root == "RAW":
        fields |= {"clazz": ClassObject(kind.class_name), "serializer": NULL_OBJECT}
    elif kind.root == "STRUCTURED_TYPE":
        fields |= {"isFinal": True, "description": None, "objectIdentifier": None, "isInstantiable": True}
        fields |= {"attributes": _members(STRUCTURED_ATTRIBUTE, kind, children), "superType": None}
        fields |= {"comparison": EnumConstant(COMPARISON, "NONE"), "implementationClass": ClassObject(kind.class_name)}
    elif children:
        fields["elementType"] = children[0]
    return WrittenObject(class_name, fields)


def _members(member_class: str, kind: LogicalType, children: list[WrittenObject]) -> WrittenObject:
    """Return the list of the fields of a row, or of the attributes of a structured type."""
    members = [
        WrittenObject(member_class, {"description": None, "name": name, "type": child})
        for name, child in zip(kind.names, children, strict=True)
    ]
    elements = WrittenObject(ARRAY_LIST, {"size": len(members)}, members)
    return WrittenObject(UNMODIFIABLE_LIST, {"c": elements, "list": elements})


def _is_of_flink(kind: LogicalType) -> bool:
    """Return whether the classes of a RAW or structured type are those of Flink's own aggregates."""
    if kind.root == "RAW":
        return kind.class_name in VIEWS
    return kind.root != "STRUCTURED_TYPE" or kind.class_name.startswith(ACCUMULATORS)


def data_type_stream(kind: LogicalType, conversion_class: str) -> bytes:
    """Return the stream of a data type: a logical type, and the class to which its values are converted."""
    stream = _Stream()
    fields = {"conversionClass": ClassObject(conversion_class), "logicalType": _instance(kind)}
    stream.value(WrittenObject(ATOMIC_DATA_TYPE, fields))
    return stream.view.getvalue()


def counts_data_type_stream(kind: LogicalType) -> bytes:
    """Return the stream of the data type of an ARRAY of BIGINT, whose values are Java's ``long[]``."""
    array = _instance(kind)
    element = {"conversionClass": ClassObject("long"), "logicalType": array.fields["elementType"]}
    fields = {"conversionClass": ClassObject(LONG_ARRAY), "logicalType": array}
    stream = _Stream()
    stream.value(
        WrittenObject(COLLECTION_DATA_TYPE, {**fields, "elementDataType": WrittenObject(ATOMIC_DATA_TYPE, element)})
    )
    return stream.view.getvalue()


class _Stream:
    """Stream under construction, with handles of classes and signatures by name and of objects by identity."""

    def __init__(self) -> None:
        self.view = DataOutputView()
        self.view.write(STREAM_HEADER.to_bytes(4, "big"))
        self.handles: dict[Any, int] = {}
        self.count = 0

    def seen(self, key: Any) -> bool:
        """Write a reference and return True if ``key`` has a handle; :meth:`reserve` assigns the next one."""
        if key not in self.handles:
            return False
        self.view.write_u8(REFERENCE)
        self.view.write_i32(BASE_HANDLE + self.handles[key])
        return True

    def reserve(self, key: Any) -> None:
        self.handles[key] = self.count
        self.count += 1

    def value(self, value: Any) -> None:
        """Write null, a string, a constant or an object."""
        if value is None:
            self.view.write_u8(NULL)
        elif isinstance(value, str):
            self.text(value, key=None)
        elif isinstance(value, EnumConstant):
            self.constant(value)
        elif isinstance(value, ClassObject):
            self.class_object(value)
        else:
            self.instance(value)

    def text(self, text: str, key: Any) -> None:
        if key is not None and self.seen(key):
            return
        self.view.write_u8(STRING)
        self.view.write_utf(text)
        self.reserve(key if key is not None else object())

    def description(self, class_name: str | None) -> None:
        if class_name is None:
            self.view.write_u8(NULL)
            return
        if self.seen(class_name):
            return
        described = CLASSES[class_name]
        self.view.write_u8(CLASSDESC)
        self.view.write_utf(class_name)
        self.view.write_i64(described.uid)
        self.reserve(class_name)
        self.view.write_u8(described.flags)
        self.view.write_u16(len(described.fields))
        for member in described.fields:
            self.view.write_u8(ord(member.code))
            self.view.write_utf(member.name)
            if member.signature:
                self.text(member.signature, key=("signature", member.signature))
        self.view.write_u8(END_BLOCKDATA)
        self.description(described.superclass)

    def constant(self, constant: EnumConstant) -> None:
        if self.seen(constant):
            return
        self.view.write_u8(ENUM)
        self.description(constant.class_name)
        self.reserve(constant)
        self.text(constant.name, key=None)

    def class_object(self, value: ClassObject) -> None:
        """Write a class; one that is not serializable has no number and no fields."""
        if self.seen(value):
            return
        self.view.write_u8(CLASS)
        if value.name in CLASSES:
            self.description(value.name)
        else:
            _class(self.view, value.name, 0, flags=0)
            self.reserve(("class", value.name))
            self.view.write_u8(NULL)
        self.reserve(value)

    def instance(self, instance: WrittenObject) -> None:
        if self.seen(instance):
            return
        self.view.write_u8(OBJECT)
        self.description(instance.class_name)
        self.reserve(instance)
        for described in _lineage(instance.class_name):
            for member in described.fields:
                self.member(member, instance.fields[member.name])
        if instance.elements is not None:
            self.view.write_u8(BLOCKDATA)
            self.view.write_u8(4)
            self.view.write_i32(len(instance.elements))
            for element in instance.elements:
                self.value(element)
            self.view.write_u8(END_BLOCKDATA)

    def member(self, member: ObjectStreamField, value: Any) -> None:
        if member.code == "Z":
            self.view.write_bool(value)
        elif member.code == "I":
            self.view.write_i32(value)
        else:
            self.value(value)


def _lineage(class_name: str) -> list[Described]:
    """Return the superclasses, topmost first, then the class."""
    lineage: list[Described] = []
    name: str | None = class_name
    while name is not None:
        lineage.insert(0, CLASSES[name])
        name = CLASSES[name].superclass
    return lineage


BYTES = f"{BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"

#: Snapshot classes of serializers without parameters, by type root.
SIMPLE: Mapping[str, str] = {
    **dict.fromkeys(STRINGS, STRING_DATA),
    **dict.fromkeys(BINARIES, BYTES),
    **{
        root: f"{BASE}{stem}Serializer${stem}SerializerSnapshot"
        for root, stem in {
            "BOOLEAN": "Boolean",
            "TINYINT": "Byte",
            "SMALLINT": "Short",
            "INTEGER": "Int",
            "BIGINT": "Long",
            "FLOAT": "Float",
            "DOUBLE": "Double",
            "DATE": "Int",
            "TIME_WITHOUT_TIME_ZONE": "Int",
            "INTERVAL_YEAR_MONTH": "Int",
            "INTERVAL_DAY_TIME": "Long",
        }.items()
    },
}


CONTAINERS: Mapping[str, str] = {"ARRAY": ARRAY_DATA, "MAP": MAP_DATA, "MULTISET": MAP_DATA}


def internal_serializer(kind: LogicalType) -> TypeSerializer:
    """Return the serializer of values of a logical type."""
    if kind.root in SIMPLE:
        return _simple(SIMPLE[kind.root])
    if kind.root == "DECIMAL":
        return DecimalDataSerializer(DECIMAL_DATA, 3, kind.precision, kind.scale)
    if kind.root in TIMESTAMPS:
        return TimestampDataSerializer(TIMESTAMP_DATA, 1, kind.precision)
    if kind.root == "ROW" or (kind.root == "STRUCTURED_TYPE" and _is_of_flink(kind)):
        return row_serializer(kind.children)
    if kind.root == "RAW" and _is_of_flink(kind):
        return RawValueDataSerializer(RAW_VALUE, 3, 0, (_simple(f"{NULL_SERIALIZER}$NullSerializerSnapshot"),))
    if kind.root in CONTAINERS:
        return collection_serializer(kind)
    raise UnsupportedStateError(
        f"a serializer of {kind} cannot be created from its name alone",
        remedy="write into a savepoint that has this state: its serializer snapshot is kept",
    )


def row_serializer(kinds: Sequence[LogicalType], names: tuple[str, ...] = ()) -> RowDataSerializer:
    """Return the serializer of rows with fields of these types."""
    nested = tuple(internal_serializer(kind) for kind in kinds)
    fields = tuple(EmbeddedType(kind, logical_stream(kind)) for kind in kinds)
    return RowDataSerializer(ROW_DATA, 3, fields, nested, field_names=names)


def collection_serializer(kind: LogicalType) -> CollectionDataSerializer:
    """Return the serializer of an array, a map, or a multiset, which is a map from element to count."""
    parts = (*kind.children, LogicalType("INTEGER", nullable=False)) if kind.root == "MULTISET" else kind.children
    objects = tuple(_java_object(internal_serializer(part), kind) for part in parts)
    embedded = tuple(EmbeddedType(part, logical_stream(part)) for part in parts)
    return CollectionDataSerializer(CONTAINERS[kind.root], 3, embedded, objects)


def _java_object(serializer: TypeSerializer, whole: LogicalType) -> bytes:
    """Return a serializer without parts as ``java.io.ObjectOutputStream`` writes it."""
    class_name = serializer.snapshot_class.partition("$")[0]
    numbers: dict[str, int] = {}
    if isinstance(serializer, DecimalDataSerializer):
        numbers = {"precision": serializer.precision, "scale": serializer.scale}
    elif isinstance(serializer, TimestampDataSerializer):
        numbers = {"precision": serializer.precision}
    elif not isinstance(serializer, SimpleSerializer):
        raise UnsupportedStateError(
            f"a serializer of {whole} cannot be created from its name alone: inside rows, only arrays and maps of "
            "simple elements can",
            remedy="write into a savepoint that has this state: its serializer snapshot is kept (option 'typesFrom')",
        )
    view = DataOutputView()
    view.write(STREAM_HEADER.to_bytes(4, "big"))
    view.write_u8(OBJECT)
    _class(view, class_name, 1, tuple(numbers))
    if not numbers:
        _class(view, f"{BASE}TypeSerializerSingleton", SINGLETON_UID)
    _class(view, "org.apache.flink.api.common.typeutils.TypeSerializer", 1)
    view.write_u8(NULL)
    for number in numbers.values():
        view.write_i32(number)
    return view.getvalue()


def _class(view: DataOutputView, name: str, uid: int, numbers: tuple[str, ...] = (), flags: int = SERIALIZABLE) -> None:
    """Write a class description; that of its superclass follows."""
    view.write_u8(CLASSDESC)
    view.write_utf(name)
    view.write_i64(uid)
    view.write_u8(flags)
    view.write_i16(len(numbers))
    for number in numbers:
        view.write_u8(ord("I"))
        view.write_utf(number)
    view.write_u8(END_BLOCKDATA)


def _simple(snapshot_class: str) -> TypeSerializer:
    """Return a serializer without parameters: its snapshot has only a class name."""
    view = DataOutputView()
    view.write_utf(snapshot_class)
    view.write_i32(3)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()
