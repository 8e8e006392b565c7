"""Classes of the user, as class files or option ``kryoTypes`` describe them: the fields that Kryo writes, in order.

    fields     those that are neither static nor transient, of the class and its superclasses, in the order of their
               names; of fields with the same name, that of the subclass first. Kryo 5 omits synthetic ones
               (``this$0``), and so does Kryo 2 in jobs without flink-scala on their class path
    arguments  a field's type arguments: Kryo 5 follows ``extends Base<String>``, Kryo 2 does not
    records    Kryo 5 only: the components, in the order of their names

Subclasses of collections, maps and Throwable are written like these, without fields of their own. Classes that change
what Kryo writes (``KryoSerializable``, annotations of Kryo, a superclass of unknown format) are refused by name.

Both versions of Kryo pass the type arguments of fields to the collections and classes in the fields. Kryo 2 sets them
on the serializer of the value's class (:class:`Generics2`): the next value of that class uses them. Kryo 5 has a stack
of types and depths (:class:`Generics5`; Kryo: ``DefaultGenerics``): a serializer takes the arguments of the top, which
is valid only if it was pushed one level above, and then pushes the last argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark_savepoint.formats.class_files import JavaClass, JavaField
from pyspark_savepoint.formats.class_files.class_file import ABSTRACT, FINAL, PUBLIC
from pyspark_savepoint.formats.class_files.java_types import (
    OBJECT,
    ArrayType,
    ClassSignature,
    ClassType,
    JavaType,
    PrimitiveType,
    TypeVariable,
    Wildcard,
    class_name,
    parse_field_type,
)
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ENUM,
    ENUMS,
    FIELDS,
    JAVA_STREAM,
    PRIMITIVES,
    WRAPPERS,
    FieldKey,
    is_final_class,
    is_thrown,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import ForeignError


def erased(kind: JavaType) -> str:
    """Return the class of a type as objects name it: ``int`` for Integer, ``Object`` for a variable."""
    if isinstance(kind, Wildcard) and kind.upper is not None:
        return erased(kind.upper)
    name = class_name(kind)
    return WRAPPERS.get(name, name)


def arguments_of(kind: JavaType) -> tuple[JavaType, ...]:
    """Return the type arguments of a class, or of the elements of an array of a class."""
    while isinstance(kind, ArrayType):
        kind = kind.component
    return kind.arguments if isinstance(kind, ClassType) else ()


def substituted(kind: JavaType, bound: Mapping[str, JavaType]) -> JavaType:
    """Return a type with the variables in ``bound`` replaced."""
    if isinstance(kind, TypeVariable):
        return bound.get(kind.name, kind)
    if isinstance(kind, ClassType) and kind.arguments:
        return ClassType(kind.name, tuple(substituted(argument, bound) for argument in kind.arguments))
    if isinstance(kind, ArrayType):
        return ArrayType(substituted(kind.component, bound))
    if isinstance(kind, Wildcard) and kind.upper is not None:
        return Wildcard(substituted(kind.upper, bound))
    return kind


class Generics2:
    """Type arguments by the class whose serializer they are set on."""

    def __init__(self) -> None:
        self._arguments: dict[str, tuple[JavaType, ...]] = {}

    def set(self, name: str, arguments: tuple[JavaType, ...]) -> None:
        """Set the arguments of a field on the class of its value."""
        self._arguments[name] = arguments

    def take(self, name: str) -> tuple[JavaType, ...]:
        """Remove and return the arguments of a class."""
        return self._arguments.pop(name, ())


class Generics5:
    """Stack of types, and the classes that are bound to type variables."""

    def __init__(self) -> None:
        self.depth = 0
        self._types: list[tuple[JavaType, int]] = []
        self._bound: list[tuple[str, str]] = []

    def push(self, kind: JavaType) -> None:
        """Push the type of a field or key, before its object."""
        self._types.append((kind, self.depth))

    def pop(self) -> None:
        """Pop the top if it was pushed at this depth or below."""
        if self._types and self._types[-1][1] >= self.depth:
            self._types.pop()

    def mark(self) -> tuple[int, list[tuple[JavaType, int]]]:
        """Return the depth and the types, for :meth:`rewind`."""
        return self.depth, list(self._types)

    def rewind(self, mark: tuple[int, list[tuple[JavaType, int]]]) -> None:
        """Go back to a mark: what was read since then is not an object."""
        self.depth, self._types[:] = mark

    def next_types(self) -> tuple[JavaType, ...]:
        """Return the arguments of the top and push the last one if the top belongs to this object; else nothing."""
        if self._types:
            kind, depth = self._types[-1]
            arguments = arguments_of(kind)
            if arguments and depth == self.depth - 1:
                self.push(arguments[-1])
                return arguments
        return ()

    def resolve(self, kind: JavaType) -> str | None:
        """Return the class of a type; None for a variable that is not bound."""
        if not isinstance(kind, TypeVariable):
            return erased(kind)
        for name, argument in reversed(self._bound):
            if name == kind.name:
                return argument
        return None

    def bind(self, parameters: tuple[str, ...], arguments: tuple[JavaType, ...]) -> int:
        """Bind the type parameters of a class; return how many were bound."""
        if not parameters or len(parameters) > len(arguments):
            return 0
        bound = [
            (name, argument)
            for name, argument in zip(parameters, map(self.resolve, arguments), strict=False)
            if argument is not None
        ]
        self._bound += bound
        return len(bound)

    def unbind(self, count: int) -> None:
        """Remove the last variables."""
        if count:
            del self._bound[-count:]


def is_primitive(kind: JavaType) -> bool:
    """Return whether a field of this type has a primitive type."""
    return isinstance(kind, PrimitiveType)


KRYO = "com.esotericsoftware.kryo."
#: The layout of records, besides those of other classes.
RECORD = "record"
#: Superclasses without fields and without their own serializer.
PLAIN = frozenset({"java.lang.Object", "java.lang.Number", "java.lang.Record", "org.apache.flink.api.java.tuple.Tuple"})
COLLECTIONS = frozenset(
    [
        *("java.util.AbstractCollection", "java.util.AbstractList", "java.util.AbstractSequentialList"),
        *("java.util.AbstractSet", "java.util.AbstractQueue", "java.util.ArrayList", "java.util.LinkedList"),
        *("java.util.Vector", "java.util.Stack", "java.util.ArrayDeque", "java.util.HashSet"),
        *("java.util.LinkedHashSet", "java.util.concurrent.CopyOnWriteArrayList"),
    ]
)
MAPS = frozenset(
    [
        *("java.util.AbstractMap", "java.util.HashMap", "java.util.LinkedHashMap", "java.util.Hashtable"),
        *("java.util.Properties", "java.util.WeakHashMap", "java.util.concurrent.ConcurrentHashMap"),
    ]
)
#: Classes that have serializers of their own, which their subclasses inherit.
SORTED = frozenset(
    f"java.util.{name}" for name in ("TreeMap", "TreeSet", "PriorityQueue", "concurrent.ConcurrentSkipListMap")
)
INTERFACES = {
    "java.util.Map": "java.util.HashMap",
    "java.util.Collection": "java.util.ArrayList",
    "java.util.List": "java.util.ArrayList",
    "java.util.Set": "java.util.ArrayList",
    "java.util.Queue": "java.util.ArrayList",
    "java.util.Deque": "java.util.ArrayList",
}
MAX_SUPERCLASSES = 256
NO_CLASS_FILE = "its class file is not known: name its jar in option 'classes', or its fields in option 'kryoTypes'"


class ClassSource(Protocol):
    """Jars, folders or a ``kryoTypes`` text that describe classes."""

    def find(self, name: str) -> JavaClass | None:
        """Return the class of a name; None if it is not described."""


@dataclass(frozen=True)
class ObjectField:
    """A field as one version of Kryo writes it: ``final`` is its class if values do not repeat it, else None."""

    key: FieldKey
    type: JavaType
    erased: str
    primitive: bool
    final: str | None
    arguments: tuple[JavaType, ...]
    #: Whether the compiler added it, such as ``this$0``.
    synthetic: bool = False


class DescribedClasses:
    """Classes by name: those of the sources, and of the JDK."""

    def __init__(self, sources: Iterable[ClassSource] = (), synthetic: bool = True) -> None:
        self._sources = tuple(sources)
        #: Whether Kryo 2 writes synthetic fields, as the Kryo of flink-scala does.
        self.synthetic = synthetic
        #: Classes with such fields whose fields were asked for.
        self.with_synthetic: set[str] = set()
        self._finals: dict[str, bool] = {}
        self._kinds: dict[str, str] = {}
        self._ancestors: dict[str, frozenset[str]] = {}
        self._fields: dict[tuple[str, int, tuple[JavaType, ...]], tuple[ObjectField, ...]] = {}

    def without_synthetic(self) -> DescribedClasses:
        """Return the same classes in a job whose Kryo 2 does not write synthetic fields."""
        return DescribedClasses(self._sources, synthetic=False)

    def find(self, name: str) -> JavaClass | None:
        """Return a class; None if it is not described."""
        for source in self._sources:
            java_class = source.find(name)
            if java_class is not None:
                return java_class
        return _field_class(name)

    def describe(self, name: str) -> JavaClass:
        """Return a class; raise ForeignError if it is not described."""
        java_class = self.find(name)
        if java_class is None:
            raise ForeignError(name, NO_CLASS_FILE)
        return java_class

    def is_final(self, name: str) -> bool:
        """Return whether Kryo treats a class as final; an array is final if its elements are."""
        if name not in self._finals:
            self._finals[name] = self._is_final(name)
        return self._finals[name]

    def _is_final(self, name: str) -> bool:
        inner = name.lstrip("[")
        if inner != name:
            return len(inner) == 1 or self.is_final(inner[1:-1])
        if name in PRIMITIVES or name in WRAPPERS:
            return True
        known = None if name in FIELD_CLASSES else is_final_class(name)
        return self.describe(name).is_final if known is None else known

    def is_enum(self, name: str) -> bool:
        """Return whether a class is an enum, or that of a constant with a body."""
        return name[:1] != "[" and (name in ENUMS or self.kind(name) == ENUM)

    def constants(self, name: str) -> tuple[str, ...]:
        """Return the constants of an enum or of the class of one of its constants."""
        for java_class in self.superclasses(name):
            if java_class.is_enum:
                return java_class.enum_constants
        return ()

    def kind(self, name: str) -> str:
        """Return how Kryo writes the objects of a class: a kind, or the JDK class whose serializer it inherits."""
        if name not in self._kinds:
            self._kinds[name] = self._kind(name)
        return self._kinds[name]

    def _kind(self, name: str) -> str:
        if is_thrown(name):
            return JAVA_STREAM
        self.describe(name)
        interfaces = self.ancestors(name)
        if KRYO + "KryoSerializable" in interfaces:
            raise ForeignError(name, "it is KryoSerializable: its own code writes it")
        for java_class in self.superclasses(name):
            if any(annotation.name.startswith(KRYO) for annotation in java_class.annotations):
                raise ForeignError(name, "a Kryo annotation names its serializer")
            above = java_class.superclass_name or "java.lang.Object"
            if above == "java.lang.Enum":
                return ENUM
            if above.startswith("java.") and above.endswith(("Exception", "Error", "Throwable")):
                return JAVA_STREAM
            if above in COLLECTIONS:
                return "java.util.ArrayList"
            if above in MAPS:
                return "java.util.HashMap"
            if above in SORTED:
                return above
        for interface, inherited in INTERFACES.items():
            if interface in interfaces:
                return inherited
        return RECORD if self.describe(name).is_record else FIELDS

    def superclasses(self, name: str) -> Iterator[JavaClass]:
        """Yield a class and its superclasses, up to a JDK class that has no fields or its own serializer."""
        known = {"java.lang.Enum"} | SORTED | PLAIN | COLLECTIONS | MAPS
        for _ in range(MAX_SUPERCLASSES):
            java_class = self.describe(name)
            yield java_class
            name = java_class.superclass_name or "java.lang.Object"
            if name in known or (name.startswith("java.") and name.endswith(("Exception", "Error", "Throwable"))):
                return
        raise ForeignError(name, f"it has more than {MAX_SUPERCLASSES} superclasses")

    def ancestors(self, name: str) -> frozenset[str]:
        """Return the classes and interfaces above a class, itself included, as far as they are described."""
        if name not in self._ancestors:
            ancestors: set[str] = set()
            waiting = [name]
            while waiting:
                current = waiting.pop()
                if current in ancestors:
                    continue
                ancestors.add(current)
                described = self.find(current)
                if described is not None:
                    waiting += [above.name for above in described.interfaces]
                    waiting += [described.superclass_name] if described.superclass_name else []
            self._ancestors[name] = frozenset(ancestors)
        return self._ancestors[name]

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the type parameters of a class, with the class, as Kryo 5 distinguishes them."""
        return tuple(f"{name}:{parameter}" for parameter in self.describe(name).type_parameters)

    def fields(self, name: str, kryo: int, arguments: tuple[JavaType, ...] = ()) -> tuple[ObjectField, ...]:
        """Return the fields that a version of Kryo writes; ``arguments`` are those of the class, for Kryo 2."""
        key = (name, kryo, arguments)
        if key not in self._fields:
            self._fields[key] = self._order_fields(name, kryo, arguments)
        return self._fields[key]

    def _order_fields(self, name: str, kryo: int, arguments: tuple[JavaType, ...]) -> tuple[ObjectField, ...]:
        parameters = self.describe(name).type_parameters
        bound: dict[str, JavaType]
        if kryo == 2:
            bound = dict(zip(parameters, arguments, strict=False))
        else:
            bound = {each: TypeVariable(f"{name}:{each}") for each in parameters}
        rows: list[ObjectField] = []
        components: frozenset[str] | None = None
        classes = list(self.superclasses(name))
        for index, java_class in enumerate(classes):
            if java_class.is_record:
                components = frozenset(java_class.record_components or ())
            for field in java_class.fields:
                if field.is_static or field.is_transient:
                    continue
                if field.is_synthetic:
                    self.with_synthetic.add(name)
                    if kryo == 5 or not self.synthetic:
                        continue
                if components is not None and field.name not in components:
                    continue
                if any(each.name.startswith(KRYO) for each in field.annotations):
                    raise ForeignError(name, f"a Kryo annotation changes its field {field.name!r}")
                row = self._field((java_class.name, field.name), field.type, field.erased, bound)
                rows.append(replace(row, synthetic=True) if field.is_synthetic else row)
            if index + 1 < len(classes) and kryo == 5:
                above = java_class.superclass or ClassType("java.lang.Object")
                names = classes[index + 1].type_parameters
                bound = {each: substituted(kind, bound) for each, kind in zip(names, above.arguments, strict=False)}
        return tuple(sorted(rows, key=lambda row: row.key[1].encode("utf-16-be", "surrogatepass")))

    def _field(self, key: FieldKey, declared: JavaType, plain: JavaType, bound: dict[str, JavaType]) -> ObjectField:
        kind = substituted(declared, bound)
        name = erased(plain if isinstance(kind, TypeVariable) else kind)
        primitive = is_primitive(plain)
        final = name if primitive or self.is_final(name) else None
        return ObjectField(key, kind, name, primitive, final, arguments_of(kind))


def _field_class(name: str) -> JavaClass | None:
    """Return a class of the JDK or of Flink with the fields that Kryo writes."""
    row = FIELD_CLASSES.get(name)
    if row is None:
        return None
    fields, parameters = [], []
    for declaration in row.fields.split():
        field, _, descriptor = declaration.partition(":")
        kind = parse_field_type(descriptor)
        if isinstance(kind, TypeVariable):
            parameters.append(kind.name)
        fields.append(JavaField(field, 0, kind, OBJECT if isinstance(kind, TypeVariable) else kind))
    flags = PUBLIC | (FINAL if row.final else 0) | (ABSTRACT if row.abstract else 0)
    return JavaClass(name, flags, ClassSignature(tuple(parameters), OBJECT, ()), OBJECT.name, tuple(fields), ())
