"""Serializers that Flink infers for Java types: its ``TypeExtractor``, applied to class files, not loaded classes.

The rules in Flink's order (a class that is met again among its own fields goes to Kryo):

    @TypeInfo             a factory, which is code: an error, except for ``Either``
    arrays                primitive ones, ``String[]``, others by their components
    Value, Writable       Flink's own ones; others are code: an error
    basic classes         strings, boxed and primitive types, big numbers, dates, ``Instant``
    tuples                subclasses too, unless they have more public fields: then POJOs
    enums                 their constants in order
    List, Map, Set        since 2.0, if all arguments are classes without arguments; else Kryo
    Avro records          by the schema in their class
    POJOs and records     see :mod:`pojos`
    all others            Kryo

The types around a type are kept as in Flink, because they bind type variables and detect recursion: see
``pojos.materialized``. Flink: ``TypeExtractor``, ``TypeExtractionUtils``, ``PojoTypeInfo``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from pyspark_savepoint.formats.class_files import (
    ArrayType,
    ClassPath,
    ClassType,
    JavaClass,
    JavaType,
    PrimitiveType,
    TypeVariable,
)
from pyspark_savepoint.formats.class_files.java_types import class_name, is_class
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer, SchemaError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import POJO, PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import EitherSerializer, NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.notation.names import SIMPLE
from pyspark_savepoint.statebackends.type_extraction.known_classes import (
    AVRO_RECORD,
    BASIC,
    BITMAP,
    BOXES,
    CLOSED,
    EITHER,
    FIELDLESS,
    JAVA_ENUM,
    JAVA_OBJECT,
    LISTS,
    MAP,
    SET,
    TUPLE,
    TYPE_INFO,
    VALUE,
    VARIANT,
    WRITABLE,
    is_left_to_kryo,
    known_class,
)
from pyspark_savepoint.statebackends.type_extraction.pojos import (
    DuplicateFieldError,
    Hierarchy,
    PojoField,
    materialized,
    pojo_fields,
    qualified,
)
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease

#: Limits that no real job reaches: a snapshot repeats every nested class wherever it is used.
MAX_DEPTH, MAX_TYPES, MAX_SUPERCLASSES = 40, 20_000, 100


class NoTypeError(Exception):
    """Error for a type that cannot be inferred; the type around it may go to Kryo. Flink: ``InvalidTypesException``."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A serializer, and the class of its values. Flink: ``TypeInformation#getTypeClass``."""

    serializer: TypeSerializer
    class_name: str


class TypeExtractor:
    """Type inference of one release.

    ``classes`` finds the job's classes by name; ``declared`` are names that stand for given types.
    """

    def __init__(
        self,
        release: ExtractionRelease,
        classes: Callable[[str], JavaClass | None] | ClassPath | None = None,
        declared: Mapping[str, Extracted] = MappingProxyType({}),
    ) -> None:
        self.release = release
        self._declared = declared
        self._find = classes.find if isinstance(classes, ClassPath) else classes
        self._above: dict[ClassType, tuple[ClassType, ...]] = {}
        self._open: list[str] = []
        self._count = self._depth = 0

    def of(self, kind: JavaType) -> TypeSerializer:
        """Return the serializer of ``TypeInformation.of``.

        Raise UnsupportedStateError if the result depends on code or cannot be known.
        """
        self._count = 0
        try:
            return self.top(kind).serializer
        except NoTypeError as error:
            raise UnsupportedStateError(
                f"Flink infers no type for {kind}", found=str(error), remedy="name the type in words"
            ) from None

    def top(self, kind: JavaType) -> Extracted:
        """Return a type without surrounding types."""
        return self.create((kind,), kind)

    # -- classes ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> JavaClass | None:
        """Return a class of the job, or a known class of the JDK or Flink."""
        java_class = self._find(name) if self._find is not None else None
        return java_class or known_class(name)

    def superclass(self, kind: ClassType) -> ClassType | None:
        """Return the superclass of a class, with arguments in the variables of the class."""
        java_class = self.find(kind.name)
        if java_class is None or java_class.superclass is None:
            return None
        bound = qualified(java_class.superclass, java_class)
        return bound if isinstance(bound, ClassType) else None

    def superclasses(self, kind: ClassType) -> tuple[ClassType, ...]:
        """Return a class and its superclasses, as far as they are known, without ``Object``."""
        result = self._above.get(kind)
        if result is not None:
            return result
        lineage: list[ClassType] = []
        above: ClassType | None = kind
        while above is not None and above.name != JAVA_OBJECT:
            if len(lineage) >= MAX_SUPERCLASSES:
                raise UnsupportedStateError(
                    "a class has too many superclasses",
                    found=kind.name,
                    expected=f"at most {MAX_SUPERCLASSES}",
                )
            lineage.append(above)
            above = self.superclass(above)
        self._above[kind] = tuple(lineage)
        return self._above[kind]

    def is_below(self, kind: JavaType, name: str) -> bool:
        """Return whether a class is the named class or a subclass of it."""
        return isinstance(kind, ClassType) and any(above.name == name for above in self.superclasses(kind))

    def implements(self, kind: ClassType, interface: str) -> bool:
        """Return whether a class implements an interface, as far as class files show."""
        waiting, seen = [above.name for above in self.superclasses(kind)], set()
        while waiting:
            name = waiting.pop()
            java_class = self.find(name) if name not in seen else None
            seen.add(name)
            for above in java_class.interfaces if java_class is not None else ():
                if above.name == interface:
                    return True
                waiting.append(above.name)
        return False

    # -- types -----------------------------------------------------------------------------------------------

    def create(self, hierarchy: Hierarchy, kind: JavaType) -> Extracted:
        """Return a type inside others. Flink: ``createTypeInfoWithTypeHierarchy``."""
        self._count += 1
        if self._count > MAX_TYPES or self._depth >= MAX_DEPTH:
            raise UnsupportedStateError(
                "the type is nested too deeply, or has too many parts",
                found=str(kind)[:200],
                expected=f"at most {MAX_TYPES} types in one, {MAX_DEPTH} deep",
            )
        self._depth += 1
        try:
            return self._create(hierarchy, kind)
        finally:
            self._depth -= 1

    def _create(self, hierarchy: Hierarchy, kind: JavaType) -> Extracted:
        if isinstance(kind, TypeVariable):
            bound = materialized(hierarchy, kind, self.find)
            if isinstance(bound, TypeVariable):
                raise NoTypeError(f"type variable {kind.name.rpartition('#')[2]} is not bound")
            return self.create(hierarchy, bound)
        if isinstance(kind, ArrayType):
            return self.array(hierarchy, kind)
        if isinstance(kind, PrimitiveType):
            return Extracted(BASIC[BOXES[kind.name]], kind.name)
        if isinstance(kind, ClassType):
            if kind.name in self._declared:
                return self._declared[kind.name]
            result = self.by_factory(hierarchy, kind)
            if result is not None:
                return result
            return self.tuple(hierarchy, kind) if self.is_below(kind, TUPLE) else self.of_class(hierarchy, kind)
        raise NoTypeError(f"{kind} is not a type")

    def by_factory(self, hierarchy: Hierarchy, kind: ClassType) -> Extracted | None:
        """Return the type if ``@TypeInfo`` of a class or superclass decides it, else None."""
        for above in self.superclasses(kind):
            if above.name == EITHER:
                return self.either((*hierarchy, *self.superclasses(kind)), above)
            java_class = self.find(above.name)
            if java_class is not None and java_class.annotation(TYPE_INFO) is not None:
                self.refuse_factory(java_class.name, f"class {above.name}")
        return None

    def refuse_factory(self, name: str, what: str) -> NoReturn:
        """Raise an error for a type factory, which is code."""
        raise UnsupportedStateError(
            f"@TypeInfo of {what} names a TypeInfoFactory, whose code decides the type",
            found=name,
            remedy="name the type in words, with inferredBy=declared",
        )

    def either(self, hierarchy: Hierarchy, kind: ClassType) -> Extracted:
        """Return ``Either<L, R>``; raise an error without type arguments."""
        if len(kind.arguments) != 2:
            raise NoTypeError("Either without the types of its sides")
        sides = tuple(self.part(hierarchy, argument).serializer for argument in kind.arguments)
        return Extracted(EitherSerializer.of(*sides), EITHER)

    def part(self, hierarchy: Hierarchy, argument: JavaType) -> Extracted:
        """Return a type argument of a tuple or Either. Flink: ``createSubTypesInfo``."""
        bound = materialized(hierarchy, argument, self.find) if isinstance(argument, TypeVariable) else argument
        if isinstance(bound, TypeVariable):
            raise NoTypeError(f"type variable {bound.name.rpartition('#')[2]} is not bound")
        return self.create((*hierarchy, bound), bound)

    def tuple(self, hierarchy: Hierarchy, kind: ClassType) -> Extracted:
        """Return a tuple or a subclass of one; a POJO if that has more public fields."""
        if kind.name == TUPLE:
            raise NoTypeError("Tuple itself is not a type")
        below = self.superclasses(kind)
        tuple_type = below[-2]
        if tuple_type.name == f"{TUPLE}0":
            return Extracted(SIMPLE["TUPLE<>"], tuple_type.name)
        if not tuple_type.arguments:
            raise NoTypeError(f"{tuple_type.name} without the types of its fields")
        around = (*hierarchy, *below[:-1])
        fields = [self.part(around, argument).serializer for argument in tuple_type.arguments]
        classes = [self.find(above.name) for above in below]
        public = [field for java_class in classes if java_class for field in java_class.fields if field.is_public]
        if sum(not field.is_static and not field.is_transient for field in public) > len(fields):
            pojo = self.pojo(hierarchy, kind)
            if pojo is None:
                raise NoTypeError(f"{kind.name} has more fields than a tuple, and is no POJO")
            return pojo
        return Extracted(TupleSerializer.of(*fields, class_name=kind.name), kind.name)

    def array(self, hierarchy: Hierarchy, kind: ArrayType) -> Extracted:
        """Return an array of primitive types or strings; others by their components."""
        name = class_name(kind)
        if is_class(kind):
            if isinstance(kind.component, PrimitiveType):
                return Extracted(SIMPLE[f"PRIMITIVE_ARRAY<{kind.component.name.upper()}>"], name)
            if name == "[Ljava.lang.String;":
                return Extracted(SIMPLE["BASIC_ARRAY<STRING>"], name)
            name = class_name(kind.component)
            if self.count(hierarchy, class_name(kind)) > 1:
                return kryo(class_name(kind))
            if name in BASIC:
                return Extracted(GenericArraySerializer.of(BASIC[name], name), class_name(kind))
        component = self.create(hierarchy, kind.component)
        inner = component.class_name
        return Extracted(
            GenericArraySerializer.of(component.serializer, inner),
            "[" + (inner if inner.startswith("[") else f"L{inner};"),
        )

    def of_class(self, hierarchy: Hierarchy, kind: ClassType) -> Extracted:
        """Return the type of a class that is neither tuple nor array. Flink: ``privateGetForClass``."""
        name = kind.name
        if name in (JAVA_OBJECT, "java.lang.Class") or self.count(hierarchy, name) > 1:
            return kryo(name)
        if self.implements(kind, WRITABLE):
            self.refuse_code(name, "Hadoop's Writable")
        if name in BASIC:
            return Extracted(BASIC[name], name)
        if self.implements(kind, VALUE):
            self.refuse_code(name, "Flink's Value")
        if self.is_below(kind, JAVA_ENUM):
            return self.enum(kind)
        if name == VARIANT and self.release.has_variant:
            return Extracted(SIMPLE["VARIANT"], name)
        if name == BITMAP and self.release.has_bitmap:
            return Extracted(SIMPLE["BITMAP"], name)
        if self.release.has_collections and kind.arguments and all(map(is_class, kind.arguments)):
            collection = self.collection(kind)
            if collection is not None:
                return collection
        if self.is_below(kind, AVRO_RECORD):
            return self.avro(kind)
        java_class = self.find(name)
        if java_class is None:
            if is_left_to_kryo(name):
                return kryo(name)
            self.refuse_unknown(name)
        if java_class.is_interface:
            return kryo(name)
        return self.pojo(hierarchy, kind) or kryo(name)

    @staticmethod
    def count(hierarchy: Hierarchy, name: str) -> int:
        """Return how often a class occurs in the hierarchy, itself included."""
        return sum(not isinstance(kind, TypeVariable) and class_name(kind) == name for kind in hierarchy)

    def collection(self, kind: ClassType) -> Extracted | None:
        """Return List, Map and Set as 2.0 and later infer them."""
        arguments = kind.arguments
        if kind.name == MAP and len(arguments) == 2:
            key, value = (self.afresh(argument) for argument in arguments)
            return Extracted(nullable(MapSerializer.of(nullable(key), value)), MAP)
        if kind.name in LISTS and len(arguments) == 1:
            return Extracted(nullable(ListSerializer.of(nullable(self.afresh(arguments[0])))), LISTS[0])
        if kind.name == SET and len(arguments) == 1:
            return Extracted(nullable(SetSerializer.of(self.afresh(arguments[0]))), SET)
        return None

    def afresh(self, kind: JavaType) -> TypeSerializer:
        """Return a type argument of a collection, without a hierarchy: Flink does not detect recursion there."""
        name = class_name(kind)
        if name in self._open:
            raise UnsupportedStateError(
                f"Flink {self.release} cannot infer a type for {name}, which has a collection of itself: "
                "its TypeExtractor ends with a StackOverflowError",
                remedy="give that field a type in the job (@TypeInfo), and name the type in words here",
            )
        self._open.append(name)
        try:
            return self.top(kind).serializer
        finally:
            self._open.pop()

    def enum(self, kind: ClassType) -> Extracted:
        """Return an enum with its constants."""
        java_class = self.find(kind.name)
        return Extracted(EnumSerializer.of(kind.name, java_class.enum_constants if java_class else ()), kind.name)

    def avro(self, kind: ClassType) -> Extracted:
        """Return a generated Avro record: its schema is in a string constant of its class, or in several."""
        java_class = self.find(kind.name)
        for text in java_class.strings if java_class else ():
            if text.startswith("{"):
                try:
                    serializer = AvroSerializer.of(text, kind.name)
                except SchemaError:
                    continue
                if serializer.name == kind.name.replace("$", "."):
                    return Extracted(serializer, kind.name)
        raise UnsupportedStateError(
            f"{kind.name} is an Avro record whose class does not contain its schema as one string",
            remedy=f"AVRO<{kind.name}>('{{...}}') with the schema's JSON",
        )

    def pojo(self, hierarchy: Hierarchy, kind: ClassType) -> Extracted | None:
        """Return a POJO or record; None if it goes to Kryo. Flink: ``analyzePojo``."""
        around = (*hierarchy, *self.superclasses(kind))
        try:
            fields = pojo_fields(self, kind, around)
        except DuplicateFieldError:
            return None
        if fields is None:
            return None
        members = [Member(field.name, field.key, self.field(around, field)) for field in fields]
        members.sort(key=lambda member: member.name.encode("utf-16-be"))
        return Extracted(PojoSerializer(POJO, 2, kind.name, tuple(members)), kind.name)

    def field(self, around: Hierarchy, field: PojoField) -> TypeSerializer:
        """Return the type of a field; Kryo's if none can be inferred."""
        if field.has_factory:
            self.refuse_factory(f"{field.owner}.{field.name}", f"field {field.name}")
        try:
            return self.create((*around, field.type), field.type).serializer
        except NoTypeError:
            name = field.type.name if isinstance(field.type, ClassType) else JAVA_OBJECT
            return kryo(name).serializer

    # -- unknown classes and errors --------------------------------------------------------------------------

    def expect_superclasses(self, kind: ClassType) -> bool:
        """Return whether all superclasses are known; False if one in the JDK has fields without accessors."""
        top = self.superclasses(kind)[-1]
        if top.name in CLOSED:
            return False
        if self.find(top.name) is None and top.name not in FIELDLESS:
            self.refuse_unknown(top.name, f", above {kind.name},")
        return True

    def refuse_code(self, name: str, interface: str) -> NoReturn:
        """Raise an error for classes whose own code writes their values."""
        raise UnsupportedStateError(
            f"{name} is {interface}: its own code writes its values",
            remedy="take its type from a savepoint that has it, option 'typesFrom'",
        )

    def refuse_unknown(self, name: str, where: str = "") -> NoReturn:
        """Raise an error for a class whose class file is needed but missing."""
        raise UnsupportedStateError(
            f"the class {name}{where} is not in the class files, so what Flink {self.release} infers is not known",
            remedy="add its jar, or the folder of its .class files, to option 'typesFrom'",
        )


def kryo(name: str) -> Extracted:
    """Return the type of a class that Flink leaves to Kryo."""
    return Extracted(KryoSerializer.of(name), name)


def nullable(serializer: TypeSerializer) -> TypeSerializer:
    """Wrap a serializer unless it is nullable already. Flink: ``NullableSerializer.wrap``."""
    return serializer if isinstance(serializer, NullableSerializer) else NullableSerializer.of(serializer)
