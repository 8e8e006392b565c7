"""Tables of the classes of a column, from which ``kernels/kryo_values.py`` reads its values.

A class is added when a value has an object of it. Classes that are not read there have the node 0: generic classes of
the user, those with fields of the compiler, EnumMap, sorted collections and all that is not listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pyspark_savepoint.formats.class_files.java_types import ClassType, JavaType
from pyspark_savepoint.formats.columns import Bytes, DecodeOptions, Longs
from pyspark_savepoint.formats.kernels import kryo_values as kernels
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import arguments_of, erased
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    COLLECTION,
    EMPTY,
    ENUM,
    ENUMS,
    FIELDS,
    FIELDS_OF,
    MAP,
    MILLIS,
    NO_NULLS,
    PRIMITIVES,
    SINGLETON,
    TEXT,
    TIME,
    UTIL,
    WRAPPERS,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5, ENUM_MAP, column_name
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import ObjectFormat

#: Classes that may be added for the names and ids in values, and the bytes of a name: damaged values add few.
MAX_CLASSES, MAX_IDS, MAX_NAME = 512, 4096, 1024
#: Classes and layouts, and the kinds of their objects.
_KINDS: Mapping[str, int] = {
    **{
        name: getattr(kernels, name.upper())
        for name in ("int", "long", "short", "byte", "boolean", "float", "double", "char")
    },
    TEXT: kernels.TEXT,
    UTIL + "UUID": kernels.UUID,
    MILLIS: kernels.MILLIS,
    "java.sql.Time": kernels.SQL_TIME,
    "java.sql.Timestamp": kernels.SQL_TIMESTAMP,
    TIME + "Instant": kernels.INSTANT,
    TIME + "LocalDate": kernels.DATE,
    TIME + "LocalTime": kernels.CLOCK,
    TIME + "LocalDateTime": kernels.DATE_TIME,
    TIME + "Duration": kernels.DURATION,
    UTIL + "Optional": kernels.OPTIONAL,
    ENUM: kernels.ENUM,
    FIELDS: kernels.FIELDS,
    COLLECTION: kernels.COLLECTION,
    NO_NULLS: kernels.NO_NULLS,
    MAP: kernels.MAP,
    EMPTY: kernels.EMPTY,
    SINGLETON: kernels.SINGLETON,
}
_KIND_OF_BODY = {
    2: {id(BODIES_2[layout]): kind for layout, kind in _KINDS.items()}
    | {id(BODIES_2[UTIL + "Arrays$ArrayList"]): kernels.AS_LIST, id(BODIES_2[NO_NULLS]): kernels.COLLECTION},
    5: {id(BODIES_5[layout]): kind for layout, kind in _KINDS.items()}
    | {id(BODIES_5[UTIL + "Arrays$ArrayList"]): kernels.COLLECTION},
}
#: Kinds whose values depend on option ``timestamps=raw``.
_MOMENTS = (kernels.MILLIS, *range(kernels.SQL_TIMESTAMP, kernels.DURATION + 1))
#: What the parts of an entry of a map are called that is an object; they are the first rows of the table of parts.
PAIR = ("key", "value")


class ValueTables:
    """Classes of one column as numbers: what the kernels know of them."""

    def __init__(self, form: ObjectFormat, options: DecodeOptions) -> None:
        self.form = form
        self.raw = options.timestamps == "raw"
        #: The names of classes by node; no class has the first one.
        self.classes: list[str] = [""]
        self._nodes: dict[str, int] = {}
        self._table: list[list[int]] = [[kernels.OTHER, 0, 0, 0, 0]]
        self._parts: list[list[int]] = []
        self._types: dict[JavaType, int] = {}
        self._type_rows: list[list[int]] = [[0, 0, 0, 0, -1]]
        self._texts = bytearray()
        #: By name: its place among the texts, its node, and its hash.
        self._names: dict[bytes, tuple[int, int, int]] = {}
        self._ids: dict[int, int] = {}
        for rank, key in enumerate(PAIR):
            self._parts.append([0, 0, 0, rank, *self._text(key.encode())])
        for number in range(len(PRIMITIVES) + 1):
            self.add_id(number)
        self.update()

    def update(self) -> None:
        """Make the arrays of what was added."""
        self.table = np.array(self._table, np.int64)
        self.parts = np.array(self._parts, np.int64)
        self.types = np.array(self._type_rows, np.int64)
        self.texts: Bytes = np.frombuffer(self._texts, np.uint8).copy()
        self.ids: Longs = np.full(max(self._ids) + 1, -1, np.int64)
        self.ids[list(self._ids)] = list(self._ids.values())
        self.names: npt.NDArray[np.int64] = np.zeros((2 * len(self._names) + 3, 3), np.int64)
        for name, (start, node, code) in self._names.items():
            slot = code % len(self.names)
            while self.names[slot, 1]:
                slot = (slot + 1) % len(self.names)
            self.names[slot] = start, len(name), node

    def add_name(self, text: bytes) -> None:
        """Add the class of a name, as values have it."""
        name = text.decode("ascii")
        node = self.node(WRAPPERS.get(name, name))
        self._names[text] = self._text(text)[0], node, _hash(text)

    def add_id(self, number: int) -> None:
        """Add a registered class by its id."""
        name = self.form.names.get(number)
        self._ids[number] = 0 if name is None else self.node(name)

    @property
    def is_full(self) -> bool:
        """Whether nothing can be added: values with other classes are not read together."""
        return len(self._names) >= MAX_CLASSES or len(self._ids) >= MAX_IDS

    def node(self, name: str) -> int:
        """Return the node of a class, 0 if its objects are not read by kernels."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = len(self._table)
            self._table.append([kernels.OTHER, 0, 0, 0, 0])
            self.classes.append(name)
            self._describe(name, node)
        return node

    def _describe(self, name: str, node: int) -> None:
        form = self.form
        try:
            body = form.body(name)
            kind = _KIND_OF_BODY[form.version].get(id(body), kernels.OTHER)
            if form.writes_fields(name) and kind in (kernels.OTHER, kernels.FIELDS) and name not in FIELDS_OF:
                self._describe_fields(name, node)
                return
        except ForeignError:
            return
        constants: tuple[str, ...] = ()
        if kind == kernels.ENUM:
            constants = ENUMS.get(name) or (form.classes.constants(name) if form.classes.find(name) else ())
        if name == ENUM_MAP or kind == kernels.FIELDS or (self.raw and kind in _MOMENTS):
            kind = kernels.OTHER
        first = len(self._parts)
        try:
            self._parts += [[0, 0, 0, 0, *self._text(constant.encode())] for constant in constants]
        except UnicodeEncodeError:
            return
        self._table[node] = [kind, int(body.plain), first, 0, len(constants)]

    def _describe_fields(self, name: str, node: int) -> None:
        """Describe a class of the user by its fields."""
        form = self.form
        fields = form.classes.fields(name, form.version)
        names: dict[str, int] = {}
        for place, field in enumerate(fields):
            names[column_name(names, *field.key)] = place
        if form.classes.parameters(name) or name in form.classes.with_synthetic or len(names) < len(fields):
            return
        if not "".join(names).isascii():
            return
        ranks = {key: rank for rank, key in enumerate(sorted(names))}
        rows = []
        for key, field in zip(names, fields, strict=True):
            arguments = ClassType(field.erased, field.arguments) if form.version == 2 else field.type
            if field.primitive or field.final is not None:
                how = kernels.SURE if field.primitive else kernels.NULLABLE
                head = [how, self.node(field.erased if field.primitive else str(field.final))]
            else:
                head = [kernels.VALUE, -1]
            rows.append([*head, self.type(arguments), ranks[key], *self._text(key.encode())])
        self._table[node] = [kernels.FIELDS, 0, len(self._parts), len(rows), 0]
        self._parts += rows

    def type(self, kind: JavaType) -> int:
        """Return the row of a type; 0 for one without arguments that is not final."""
        known = self._types.get(kind)
        if known is not None:
            return known
        number = self._types[kind] = len(self._type_rows)
        self._type_rows.append([0, 0, 0, 0, -1])
        arguments = arguments_of(kind)
        rows = [self.type(argument) for argument in arguments]
        final = -1
        try:
            name = erased(kind)
            if self.form.classes.is_final(name):
                final = self.node(name)
        except ForeignError:
            final = 0
        first, second = (*rows, 0, 0)[:2]
        self._type_rows[number] = [len(rows), first, second, rows[-1] if rows else 0, final]
        return number

    def _text(self, text: bytes) -> tuple[int, int, int]:
        start = len(self._texts)
        self._texts += text
        return start, len(text), 0


def _hash(name: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in name:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value
