"""Type notation as classes: the types that a release infers from the classes that the notation describes.

``POJO<com.shop.Order>(id LONG, lines LIST<STRING>)`` describes a class with public fields ``Long id`` and
``List<String> lines``. From that class Flink 2.2 infers ``lines NULLABLE<LIST<NULLABLE<STRING>>>``, and 1.20 Kryo. The
notation is therefore converted to Java types and classes, to which the type extraction is applied. Types that no class
describes (NULLABLE, Avro, SQL's data, Scala's) stay unchanged, and so does a simple type by itself: LOCAL_DATE is
``Types.LOCAL_DATE``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark_savepoint.formats.class_files import ArrayType, ClassPath, ClassType, JavaClass, JavaType, parse_field_type
from pyspark_savepoint.formats.class_files.java_types import class_name
from pyspark_savepoint.formats.errors import OptionError, TypeNotationError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import KindSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import RowSerializer, TupleSerializer, tuple_class
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.java_classes import CLASSES
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.notation.names import Flink
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION, JavaName, parse_type
from pyspark_savepoint.statebackends.type_extraction.extractor import Extracted, TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.known_classes import (
    ROW,
    enum,
    made_up,
    public_field,
)
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease


class TypeInference:
    """Inference of a release for types in notation; ``class_path`` are jars and folders of the job's class files."""

    def __init__(self, release: ExtractionRelease, class_path: tuple[str, ...] = ()) -> None:
        self.release = release
        self.classes = ClassPath(class_path)
        self.extractor = TypeExtractor(release, self.classes)
        self._extracted: set[TypeSerializer] = set()

    def parse(
        self, text: str, version: Flink = DEFAULT_VERSION, *, container: bool = False, kryo: bool = False
    ) -> TypeSerializer:
        """Return the type of a text; class names refer to class files, with type arguments if they have some.

        ``container``: a list or map at the top is the container of list or map state, which is not inferred;
        ``kryo``, that the text may name parts that are Kryo's, as ``KRYO<java.util.List>``.
        """
        of_kryo = KryoSerializer.of if kryo else None
        declared = parse_type(text, max(version, self.release.version), self._of_class, kryo=of_kryo)
        return self.infer(declared, container=container)

    def written(self, text: str, version: Flink, *, container: bool = False) -> TypeSerializer:
        """Return the type of a text for writing; raise TypeNotationError if Kryo would write some values."""
        serializer = self.parse(text, version, container=container)
        for path, part in _kryo_parts(serializer, ()):
            since = "" if self.release.has_collections else "; 2.0 and later have serializers for lists, maps and sets"
            raise TypeNotationError(
                f"Flink {self.release} uses Kryo for {'.'.join(path) or 'this type'}, and values of Kryo cannot be "
                f"written",
                found=part.flink_type,
                expected="a type that the release infers a serializer for",
                remedy=f"declare its type in the job, and here: option 'inferredBy' 'declared'{since}",
            )
        return serializer

    def _of_class(self, java: JavaName) -> TypeSerializer:
        serializer = self.extractor.of(_class_type(java))
        self._extracted.add(serializer)
        return serializer

    def infer(self, declared: TypeSerializer, *, container: bool = False) -> TypeSerializer:
        """Return the types that the release infers where the notation describes classes."""
        if container and (type(declared) is ListSerializer or type(declared) is MapSerializer):
            return replace(declared, nested=tuple(self.infer(part) for part in declared.children))
        if declared in self._extracted or not _is_class(declared):
            return self._explicit(declared)
        inferred = _Words(self).infer(declared)
        self._compare(declared, inferred)
        return inferred

    def _explicit(self, declared: TypeSerializer) -> TypeSerializer:
        """Return a type that is not inferred, with the inferred types inside it."""
        if declared in self._extracted or not isinstance(declared, NullableSerializer | RowSerializer):
            return declared
        return replace(declared, nested=tuple(self._inside(part) for part in declared.children))

    def _inside(self, part: TypeSerializer) -> TypeSerializer:
        if isinstance(part, PojoSerializer):
            return self.infer(part)
        if type(part) is ListSerializer or type(part) is MapSerializer or type(part) is SetSerializer:
            return replace(part, nested=tuple(self._inside(inner) for inner in part.children))
        return self._explicit(part)

    def _compare(self, declared: TypeSerializer, serializer: TypeSerializer) -> None:
        """Raise an error if the notation names other fields than the class file of the class."""
        pojos = [part for part in declared.all_parts() if isinstance(part, PojoSerializer)]
        if all(self.classes.find(pojo.class_name) is None for pojo in pojos):
            return
        words = _Words(self, by_words=True).infer(declared)
        if words.flink_type != serializer.flink_type:
            raise OptionError(
                "the fields of the type differ from those of its class file",
                expected=serializer.flink_type,
                found=words.flink_type,
                remedy="leave the fields out: POJO<com.shop.Order> takes those of the class file",
            )


class _Words:
    """The classes that one type in notation describes."""

    def __init__(self, inference: TypeInference, by_words: bool = False) -> None:
        self.inference = inference
        self.by_words = by_words
        self.created: dict[str, JavaClass] = {}
        self.subclasses: dict[str, PojoSerializer] = {}
        self.declared: dict[str, Extracted] = {}

    def infer(self, declared: TypeSerializer) -> TypeSerializer:
        kind = self.java_type(declared)
        extractor = TypeExtractor(self.inference.release, self.find, self.declared)
        return self.with_subclasses(extractor.of(kind))

    def find(self, name: str) -> JavaClass | None:
        java_class = self.inference.classes.find(name)
        return self.created.get(name, java_class) if self.by_words else java_class or self.created.get(name)

    def java_type(self, words: TypeSerializer) -> JavaType:
        """Return the Java type of a field that the notation describes."""
        if words in self.inference._extracted:
            return self.declare(words)
        if isinstance(words, PojoSerializer):
            return self.pojo(words)
        if type(words) is EnumSerializer:
            self.created[words.enum_class] = enum(words.enum_class, words.constants)
            return ClassType(words.enum_class)
        arguments = tuple(map(self.java_type, words.children)) if _is_class(words) else ()
        if isinstance(words, TupleSerializer):
            plain = ClassType(tuple_class(len(arguments)), arguments)
            if words.class_name == plain.name:
                return plain
            self.created[words.class_name] = made_up(words.class_name, superclass=plain)
            return ClassType(words.class_name)
        if isinstance(words, GenericArraySerializer) and words.component_class in _erasures(arguments[0], words):
            return ArrayType(arguments[0])
        if isinstance(words, KindSerializer) and words.kind.java_class is not None:
            return ClassType(words.kind.java_class, arguments)
        if isinstance(words, RowSerializer):
            return ClassType(ROW)
        name = CLASSES.get(words.flink_type)
        if name is not None:
            return parse_field_type(name.replace(".", "/")) if name.startswith("[") else ClassType(name)
        return self.declare(self.inference._explicit(words))

    def pojo(self, words: PojoSerializer) -> JavaType:
        """Return a class with public fields."""
        name = words.class_name
        if name not in self.created:
            self.created[name] = made_up(name)
            fields = [public_field(field.name, self.java_type(field.serializer)) for field in words.fields]
            self.created[name] = made_up(name, fields)
            self.subclasses[name] = words
        elif self.subclasses.get(name, words) != words:
            raise OptionError(f"two types name class {name} with different fields", found=words.flink_type)
        return ClassType(name)

    def declare(self, serializer: TypeSerializer) -> JavaType:
        """Return a Java type that represents a given serializer."""
        name = f"{len(self.declared)}#"
        self.declared[name] = Extracted(serializer, serializer.java_class or "java.lang.Object")
        return ClassType(name)

    def with_subclasses(self, serializer: TypeSerializer) -> TypeSerializer:
        """Return a POJO with the subclasses of the notation, because no class file lists them."""
        words = self.subclasses.get(serializer.class_name) if isinstance(serializer, PojoSerializer) else None
        if not isinstance(serializer, PojoSerializer) or words is None or not words.subclasses:
            return serializer
        registered, others = (
            tuple(replace(member, serializer=self.inference.infer(member.serializer)) for member in members)
            for members in (words.registered, words.others)
        )
        return replace(serializer, registered=registered, others=others)


def _kryo_parts(serializer: TypeSerializer, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TypeSerializer]]:
    if isinstance(serializer, KryoSerializer):
        yield path, serializer
    names = [field.name for field in serializer.fields] if isinstance(serializer, PojoSerializer) else []
    for index, part in enumerate(serializer.children):
        yield from _kryo_parts(part, (*path, names[index]) if index < len(names) else path)


def _class_type(java: JavaName) -> ClassType:
    return ClassType(java.name, tuple(map(_class_type, java.arguments)))


def _is_class(words: TypeSerializer) -> bool:
    """Return whether the type is inferred from a class rather than given by the notation alone."""
    if isinstance(words, PojoSerializer | TupleSerializer | GenericArraySerializer):
        return True
    return isinstance(words, KindSerializer) and words.kind.java_class is not None


def _erasures(component: JavaType, words: GenericArraySerializer) -> tuple[str | None, ...]:
    """Return the possible class names of an array's elements."""
    return class_name(component), words.nested[0].java_class
