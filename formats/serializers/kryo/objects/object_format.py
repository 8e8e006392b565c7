"""Data shared by reader and writer of objects: the version of Kryo, the registrations of a snapshot, classes.

The body of an object are the bytes after its class and reference. :class:`ObjectFormat` finds the functions that read
and write the body of a class once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import (
    ENUM,
    FIELDS,
    JAVA_STREAM,
    RECORD,
    DescribedClasses,
)
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import ENUM_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import FieldKey, KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import ForeignError
from pyspark_savepoint.formats.serializers.kryo.kryo_walker import BASE_IDS, PRIMITIVES, KryoClasses

Version: TypeAlias = Literal[2, 5]
ARRAY = "[]"
#: Flink 1 has a serializer for this class alone: its subclasses are written as other collections are.
PRIORITY_QUEUE, LIST = "java.util.PriorityQueue", "java.util.ArrayList"
#: Registrations of a job that registers nothing.
NO_REGISTRATIONS = KryoClasses(BASE_IDS)
#: Maximum depth of a value; each level takes four Python stack frames in the reader.
MAX_DEPTH = 128


@dataclass(frozen=True)
class Body:
    """Functions that read and write the body of an object; ``plain``: no references in Kryo 5."""

    read: Callable[[Any, KryoObject], None]
    write: Callable[[Any, KryoObject], None]
    plain: bool = False


@dataclass
class ObjectFormat:
    """A version of Kryo, with ``bodies`` by class or kind of class, the registrations, and the classes of the user."""

    version: Version
    bodies: Mapping[str, Body]
    registered: KryoClasses = NO_REGISTRATIONS
    classes: DescribedClasses = field(default_factory=DescribedClasses)
    #: Classes that plug-ins read.
    plugged: Mapping[str, Body] = field(default_factory=dict)
    #: Whether objects of classes with synthetic fields were read, and one of them held its outer object.
    has_inner: bool = False
    has_outer: bool = False

    def __post_init__(self) -> None:
        self.numbers = {name: number for number, name in self.registered.ids.items()}
        self._found: dict[str, Body] = {}

    def body(self, name: str) -> Body:
        """Return the body of a class; raise ForeignError if only code of the user can read it."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._find(name)
        return found

    def note_inner(self, name: str, content: Mapping[FieldKey, KryoObject | None]) -> None:
        """Note an object of a class with synthetic fields; an outer object that names its class proves the form."""
        self.has_inner = True
        for each in self.classes.fields(name, 2):
            if each.synthetic and each.final is None:
                held = content.get(each.key)
                self.has_outer = self.has_outer or (held is not None and held.class_name == each.erased)

    def _find(self, name: str) -> Body:
        if name in PRIMITIVES:
            return self.bodies[name]
        if name[:1] == "[":
            return self.bodies.get(name, self.bodies[ARRAY])
        if name in self.plugged:
            return self.plugged[name]
        if self._is_java_serialized(name):
            return self.bodies[JAVA_STREAM]
        if name in self.bodies:
            return self.bodies[name]
        kind = ENUM if name in ENUM_CLASSES else self.classes.kind(name)
        if kind == RECORD:
            if self.version == 2:
                raise ForeignError(name, "Kryo 2 cannot write records")
            kind = FIELDS
        if self.version == 2 and kind == PRIORITY_QUEUE:
            kind = LIST
        return self.bodies[kind]

    def _is_java_serialized(self, name: str) -> bool:
        """Return whether JavaSerializer writes a class; raise ForeignError if another serializer of the user does."""
        registered = self.registered
        if name in registered.java_serialized:
            return True
        ancestors = () if name.startswith("java.") else self.classes.ancestors(name)
        if registered.is_custom(name) or not registered.defaults.isdisjoint(ancestors):
            if not registered.java_serialized.isdisjoint(ancestors):
                return True
            raise ForeignError(name, "the job has its own serializer for it")
        return False
