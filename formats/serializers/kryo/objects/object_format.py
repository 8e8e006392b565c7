"""Data shared by reader and writer of objects: the version of Kryo, the registrations of a snapshot, classes.

The body of an object are the bytes after its class and reference. :class:`ObjectFormat` finds the :class:`Body` of a
class once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import RECORD, DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ARRAY,
    BASE_IDS,
    ENUMS,
    FIELDS,
    JAVA_STREAM,
    LAYOUTS,
    PRIMITIVES,
    WRAPPERS,
    FieldKey,
    KryoClasses,
    KryoObject,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError

Version: TypeAlias = Literal[2, 5]
#: Flink 1 has a serializer for this class alone: its subclasses are written as other collections are.
PRIORITY_QUEUE, LIST = "java.util.PriorityQueue", "java.util.ArrayList"
#: Registrations of a job that registers nothing.
NO_REGISTRATIONS = KryoClasses(BASE_IDS)
#: Maximum depth of a value; each level takes four Python stack frames in the reader.
MAX_DEPTH = 128
RAW = 'read the state as bytes: option("raw", "<state>")'


@dataclass(frozen=True)
class Body:
    """What one version of Kryo writes for the objects of a class; ``plain``: without references.

    ``read`` reads the body into an object. Its value is made by ``value``, if there is one, of the raw form: what
    ``raw_of`` returns for the object, or its content, with values in place of the objects in it. ``raw`` reads the raw
    form without an object, which is faster. ``part``: other classes have it as a part, of which they use the raw form.
    """

    read: Callable[[Any, KryoObject], None]
    write: Callable[[Any, KryoObject], None]
    plain: bool = False
    value: Callable[[Rendering, Any], Any] | None = None
    raw: Callable[[Any], Any] | None = None
    raw_of: Callable[[KryoObject], Any] | None = None
    part: bool = False


@dataclass
class ObjectFormat:
    """A version of Kryo, with ``bodies`` by layout, the registrations, and the classes of the user."""

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
        self.names = {number: WRAPPERS.get(name, name) for number, name in self.registered.ids.items()}
        self.found: dict[str, Body] = {}

    def body(self, name: str) -> Body:
        """Return the body of a class; raise ForeignError if only code of the user can read it."""
        body = self.found.get(name)
        if body is None:
            body = self.found[name] = self._find(name)
        return body

    def writes_fields(self, name: str) -> bool:
        """Return whether objects of a class are written field by field, whatever value is made of them."""
        return self.body(name).write is self.bodies[FIELDS].write

    def note_inner(self, name: str, content: Mapping[FieldKey, KryoObject | None]) -> None:
        """Note an object of a class with synthetic fields; an outer object that names its class proves the form."""
        self.has_inner = True
        for java_field in self.classes.fields(name, 2):
            if java_field.synthetic and java_field.final is None:
                held = content.get(java_field.key)
                self.has_outer = self.has_outer or (held is not None and held.class_name == java_field.erased)

    def _find(self, name: str) -> Body:
        if name in self.plugged:
            return self.plugged[name]
        if self._is_java_serialized(name):
            return self.bodies[JAVA_STREAM]
        if name in LAYOUTS:
            return self.bodies[LAYOUTS[name]]
        if name[:1] == "[":
            return self.bodies[ARRAY]
        kind = self.classes.kind(name)
        if kind == RECORD:
            if self.version == 2:
                raise ForeignError(name, "Kryo 2 cannot write records")
            kind = FIELDS
        if self.version == 2 and kind == PRIORITY_QUEUE:
            kind = LIST
        return self.bodies[LAYOUTS.get(kind, kind)]

    def _is_java_serialized(self, name: str) -> bool:
        """Return whether JavaSerializer writes a class; raise ForeignError if another serializer of the user does."""
        registered = self.registered
        if name in registered.java_serialized:
            return True
        ancestors = () if name.startswith(("java.", "[")) or name in PRIMITIVES else self.classes.ancestors(name)
        if registered.is_custom(name) or not registered.defaults.isdisjoint(ancestors):
            if not registered.java_serialized.isdisjoint(ancestors):
                return True
            raise ForeignError(name, "the job has its own serializer for it")
        return False


@dataclass
class Rendering:
    """How values are shown; ``typed``: in a column of the type of the value, else in a VARIANT."""

    form: ObjectFormat
    options: DecodeOptions
    typed: bool

    def __post_init__(self) -> None:
        self.raw = self.options.timestamps == "raw"
        self.truncates = self.options.timestamps == "truncate"

    def constant(self, name: str, ordinal: int) -> str:
        """Return the name of a constant, or its position if the enum is not described."""
        constants = ENUMS.get(name)
        if constants is None:
            classes = self.form.classes
            constants = classes.constants(name) if classes.find(name) else ()
        if ordinal < len(constants):
            return constants[ordinal]
        if constants:
            raise DamagedError(f"one of {len(constants)} constants of {name}", ordinal)
        return f"{name}#{ordinal}"
