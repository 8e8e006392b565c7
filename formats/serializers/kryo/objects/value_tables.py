"""Tables of the classes of a column, from which ``kernels/kryo_values.py`` reads its values.

A class is added when a value has an object of it. Classes that are not read there have kind OTHER: those with fields
of the compiler, and all that is not listed here. A generic class has a node for each list of arguments that fields
declare.

Kryo 5 does not write the offset of a ZonedDateTime: those of a zone are looked up for each year that values have.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pyspark_savepoint.formats.class_files.java_types import ClassType, JavaType, TypeVariable
from pyspark_savepoint.formats.columns import Bytes, DecodeOptions, Longs
from pyspark_savepoint.formats.kernels import kryo_kinds as kinds
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import arguments_of, erased, substituted
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import (
    ARRAY,
    BUILDER,
    COLLECTION,
    EMPTY,
    EMPTY_MAP,
    ENTRY,
    ENUM,
    ENUM_SET,
    ENUMS,
    FIELDS,
    MAP,
    MILLIS,
    NO_NULLS,
    PRIMITIVES,
    SINGLETON,
    SKIP_LIST_MAP,
    SORTED_COLLECTION,
    SORTED_MAP,
    TEXT,
    TIME,
    UTIL,
    WRAPPERS,
    component,
)
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5, column_name
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body, ObjectFormat
from pyspark_savepoint.formats.serializers.kryo.objects.times import EPOCH_DAY, offset_at, time_zone

#: Classes that may be added for the names and ids in values, and the bytes of a name: damaged values add few.
MAX_CLASSES, MAX_IDS, MAX_NAME = 512, 4096, 1024
#: Limit on the zones and years whose offsets are looked up, on the changes of offsets in these, and on the nodes of
#: generic classes with arguments.
MAX_ZONES, MAX_OFFSETS, MAX_BOUND = 1024, 1 << 14, 256
#: Classes and layouts, and the kinds of their objects; how they are read where that differs.
_KINDS: Mapping[str, int | tuple[int, int]] = {
    **{
        name: getattr(kinds, name.upper())
        for name in ("int", "long", "short", "byte", "boolean", "float", "double", "char")
    },
    TEXT: kinds.TEXT,
    BUILDER: kinds.TEXT,
    "[B": kinds.BYTES,
    "java.math.BigInteger": kinds.BIG_INTEGER,
    "java.math.BigDecimal": kinds.BIG_DECIMAL,
    UTIL + "UUID": kinds.UUID,
    UTIL + "BitSet": (kinds.COLLECTION, kinds.BITS),
    MILLIS: kinds.MILLIS,
    "java.sql.Time": kinds.SQL_TIME,
    "java.sql.Timestamp": kinds.SQL_TIMESTAMP,
    TIME + "Instant": kinds.INSTANT,
    TIME + "LocalDate": kinds.DATE,
    TIME + "LocalTime": kinds.CLOCK,
    TIME + "LocalDateTime": kinds.DATE_TIME,
    TIME + "Duration": kinds.DURATION,
    TIME + "ZonedDateTime": kinds.ZONED,
    TIME + "OffsetDateTime": kinds.OFFSET_DATE_TIME,
    TIME + "OffsetTime": kinds.OFFSET_TIME,
    TIME + "ZoneOffset": kinds.ZONE_OFFSET,
    TIME + "ZoneRegion": (kinds.TEXT, kinds.REGION),
    TIME + "Period": kinds.PERIOD,
    TIME + "Year": (kinds.INT, kinds.YEAR),
    TIME + "YearMonth": kinds.YEAR_MONTH,
    TIME + "MonthDay": kinds.MONTH_DAY,
    UTIL + "Optional": kinds.OPTIONAL,
    **{UTIL + f"Optional{name}": (kinds.OPTIONAL, kinds.NUMBER_OR_NOT) for name in ("Int", "Long", "Double")},
    ENUM: kinds.ENUM,
    ENUM_SET: (kinds.COLLECTION, kinds.ENUM_SET),
    FIELDS: kinds.FIELDS,
    ARRAY: (kinds.COLLECTION, kinds.ARRAY),
    **{f"[{code}": (kinds.COLLECTION, kinds.PRIMITIVES) for code in "ZSCIJFD"},
    COLLECTION: kinds.COLLECTION,
    SORTED_COLLECTION: kinds.COLLECTION,
    NO_NULLS: kinds.NO_NULLS,
    MAP: kinds.MAP,
    SORTED_MAP: kinds.MAP,
    SKIP_LIST_MAP: kinds.MAP,
    ENTRY: (kinds.MAP, kinds.ENTRY),
    EMPTY: kinds.EMPTY,
    EMPTY_MAP: (kinds.MAP, kinds.EMPTY),
    SINGLETON: kinds.SINGLETON,
}
#: Kinds of objects with one number, by the type of their only field.
_ALONE: Mapping[str, int] = {"I": kinds.INT, "J": kinds.LONG}
#: How the layouts of classes with one field are read.
_ATOMIC: Mapping[str, tuple[int, int]] = {
    **{
        name: (_ALONE[row.fields.partition(":")[2]],) * 2
        for name, row in FIELD_CLASSES.items()
        if row.column is not None and row.fields.partition(":")[2] in _ALONE
    },
    UTIL + "concurrent.atomic.AtomicBoolean": (kinds.BOOLEAN, kinds.FLAG),
    UTIL + "concurrent.atomic.AtomicReference": (kinds.OPTIONAL, kinds.REFERENCE),
}
_AS_LIST = UTIL + "Arrays$ArrayList"


def _by_body(bodies: Mapping[str, Body], other: Mapping[str, int]) -> dict[int, tuple[int, int]]:
    both = {**_KINDS, **other}
    return {id(bodies[layout]): kind if isinstance(kind, tuple) else (kind, kind) for layout, kind in both.items()}


_KIND_OF_BODY = {
    2: _by_body(BODIES_2, {_AS_LIST: kinds.AS_LIST, NO_NULLS: kinds.COLLECTION}),
    5: _by_body(BODIES_5, {_AS_LIST: kinds.COLLECTION}),
}
#: Layouts whose elements or entries follow a comparator.
_SORTED = {
    2: {id(BODIES_2[layout]) for layout in (SORTED_COLLECTION, SORTED_MAP)},
    5: {id(BODIES_5[layout]) for layout in (SORTED_COLLECTION, SORTED_MAP, SKIP_LIST_MAP)},
}
#: With option ``timestamps=raw``: the kinds of objects, how they are read, and the numbers that they consist of.
_MOMENT = (("seconds", "long"), ("nanos", "int"))
_DATE = (("year", "int"), ("month", "int"), ("day", "int"))
_RAW: Mapping[int, tuple[int, int, tuple[tuple[str, str], ...]]] = {
    kinds.MILLIS: (kinds.LONG, kinds.SQL_TIME, ()),
    kinds.SQL_TIMESTAMP: (kinds.FIELDS, kinds.RAW_TIMESTAMP, _MOMENT),
    kinds.INSTANT: (kinds.FIELDS, kinds.RAW_INSTANT, _MOMENT),
    kinds.DATE: (kinds.FIELDS, kinds.RAW_DATE, _DATE),
    kinds.DATE_TIME: (kinds.FIELDS, kinds.RAW_DATE_TIME, (*_DATE, ("nano_of_day", "long"))),
}
#: The classes of the numbers in objects of other classes.
_PRIMITIVES: Mapping[str, str] = {
    "[Z": "boolean",
    "[S": "short",
    "[C": "char",
    "[I": "int",
    "[J": "long",
    "[F": "float",
    "[D": "double",
    UTIL + "BitSet": "int",
    UTIL + "OptionalInt": "int",
    UTIL + "OptionalLong": "long",
    UTIL + "OptionalDouble": "double",
}
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
        self._table: list[list[int]] = [[0] * 8]
        self._parts: list[list[int]] = []
        self._types: dict[JavaType, int] = {}
        self._type_rows: list[list[int]] = [[0, 0, 0, 0, -1, -1, -1]]
        self._bound = 0
        self._texts = bytearray()
        #: By name: its place among the texts, its node, and its hash.
        self._names: dict[bytes, tuple[int, int, int]] = {}
        self._ids: dict[int, int] = {}
        #: Zones and years, by the hash of both; their offsets; and their names.
        self.zones: npt.NDArray[np.int64] = np.zeros((2 * MAX_ZONES, 5), np.int64)
        self.offsets: npt.NDArray[np.int64] = np.zeros((MAX_OFFSETS, 2), np.int64)
        self.zone_texts: Bytes = np.zeros(MAX_ZONES * kinds.MAX_ZONE, np.uint8)
        self._zones = self._offsets = 0
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
        """Return the node of a class, 0 if its objects are not read by kinds."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = len(self._table)
            self._append(name)
            self._describe(name, node)
        return node

    def _append(self, name: str) -> None:
        self._table.append([0] * 8)
        self.classes.append(name)

    def _describe(self, name: str, node: int) -> None:
        form = self.form
        row = self._table[node]
        try:
            body = form.body(name)
            kind, read = _ATOMIC.get(name) or _KIND_OF_BODY[form.version].get(id(body), (kinds.OTHER, kinds.OTHER))
            if form.writes_fields(name) and kind in (kinds.OTHER, kinds.FIELDS):
                if body is form.bodies[FIELDS]:
                    self._describe_fields(name, node)
                return
            parts = self._parts_of(name, kind, read)
        except (ForeignError, DamagedError, UnicodeEncodeError):
            return
        raw = _RAW.get(kind) if self.raw else None
        if raw is not None:
            kind, read, numbers = raw
            ranks = {key: rank for rank, key in enumerate(sorted(key for key, _ in numbers))}
            parts = [[kinds.SURE, self.node(of), 0, ranks[key], *self._text(key.encode())] for key, of in numbers]
        row[:] = [kind, int(body.plain), len(self._parts), len(parts), len(parts), read, 0, 0]
        row[kinds.SORTED] = int(id(body) in _SORTED[form.version])
        self._parts += parts

    def _parts_of(self, name: str, kind: int, read: int) -> list[list[int]]:
        """Return what is in the objects of a class of the JDK: the constants of an enum, or the class of the parts."""
        classes = self.form.classes
        if kind == kinds.ENUM:
            return [[0, 0, 0, 0, *self._text(constant.encode("ascii"))] for constant in self.constants(name)]
        if read == kinds.ARRAY:
            element = component(name)
            final = element[0] == "[" or classes.is_final(element)
            return [[kinds.NULLABLE, self.node(element), 0, 0, 0, 0] if final else [kinds.VALUE, -1, 0, 0, 0, 0]]
        if name in _PRIMITIVES:
            return [[kinds.SURE, self.node(_PRIMITIVES[name]), 0, 0, 0, 0]]
        return []

    def constants(self, name: str) -> tuple[str, ...]:
        """Return the names of the constants of an enum."""
        classes = self.form.classes
        return ENUMS.get(name) or (classes.constants(name) if classes.find(name) else ())

    def _describe_fields(self, name: str, node: int, arguments: tuple[JavaType, ...] = ()) -> None:
        """Describe a class by its fields; ``arguments`` are those of its type parameters."""
        form = self.form
        parameters = form.classes.parameters(name)
        bound: dict[str, JavaType] = {}
        if form.version == 2:
            fields = form.classes.fields(name, 2, arguments)
        else:
            fields = form.classes.fields(name, 5)
            # Kryo 5 binds the erased classes of the arguments.
            bound = {
                each: ClassType(erased(argument))
                for each, argument in zip(parameters, arguments, strict=False)
                if not isinstance(argument, TypeVariable)
            }
        names: dict[str, int] = {}
        for place, field in enumerate(fields):
            names[column_name(names, *field.key)] = place
        if name in form.classes.with_synthetic or len(names) < len(fields) or not "".join(names).isascii():
            return
        ranks = {key: rank for rank, key in enumerate(sorted(names))}
        rows = []
        for key, field in zip(names, fields, strict=True):
            kind = ClassType(field.erased, field.arguments) if form.version == 2 else substituted(field.type, bound)
            final = field.final
            if final is None and isinstance(field.type, TypeVariable) and field.type.name in bound:
                final = erased(kind) if form.classes.is_final(erased(kind)) else None
            if field.primitive or final is not None:
                head = [kinds.SURE if field.primitive else kinds.NULLABLE, self.node(final or field.erased)]
            else:
                head = [kinds.VALUE, -1]
            rows.append([*head, self.type(kind), ranks[key], *self._text(key.encode())])
        self._table[node][:] = [
            *(kinds.FIELDS, 0, len(self._parts), len(rows), 0, kinds.FIELDS, 0),
            int(bool(parameters)),
        ]
        self._parts += rows

    def type(self, kind: JavaType) -> int:
        """Return the row of a type; 0 for one without arguments that is not final."""
        known = self._types.get(kind)
        if known is not None:
            return known
        number = self._types[kind] = len(self._type_rows)
        self._type_rows.append([0, 0, 0, 0, -1, -1, -1])
        arguments = arguments_of(kind)
        rows = [self.type(argument) for argument in arguments]
        final = of_class = bound = -1
        try:
            name = erased(kind)
            if self.form.classes.is_final(name):
                final = self.node(name)
        except ForeignError:
            final = 0
        with suppress(ForeignError):
            of_class, bound = self._bind(erased(kind), arguments)
        first, second = (*rows, 0, 0)[:2]
        self._type_rows[number] = [len(rows), first, second, rows[-1] if rows else 0, final, of_class, bound]
        return number

    def _bind(self, name: str, arguments: tuple[JavaType, ...]) -> tuple[int, int]:
        """Return the node of a generic class, and that of its objects with these arguments; -1 for other classes."""
        form = self.form
        if not arguments or form.classes.find(name) is None or not form.writes_fields(name):
            return -1, -1
        parameters = form.classes.parameters(name)
        if not parameters or len(parameters) > len(arguments) or self._bound >= MAX_BOUND:
            return -1, -1
        self._bound += 1
        node = self.node(name)
        if self._table[node][kinds.KIND] != kinds.FIELDS:
            return -1, -1
        bound = len(self._table)
        self._append(name)
        self._describe_fields(name, bound, arguments)
        return node, bound

    def add_zone(self, name: bytes, year: int) -> bool:
        """Add the offsets of a zone in a year; return whether there was room."""
        changes = offsets_of(name.decode("ascii"), year)
        if self._zones >= MAX_ZONES or self._offsets + len(changes) > MAX_OFFSETS:
            return False
        start = self._zones * kinds.MAX_ZONE
        self.zone_texts[start : start + len(name)] = np.frombuffer(name, np.uint8)
        slot = (_hash(name) ^ year) % len(self.zones)
        while self.zones[slot, 1]:
            slot = (slot + 1) % len(self.zones)
        self.zones[slot] = start, len(name), year, self._offsets, len(changes)
        self.offsets[self._offsets : self._offsets + len(changes)] = np.array(changes, np.int64).reshape(-1, 2)
        self._zones += 1
        self._offsets += len(changes)
        return True

    def _text(self, text: bytes) -> tuple[int, int]:
        start = len(self._texts)
        self._texts += text
        return start, len(text)


def _hash(name: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in name:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


@lru_cache(maxsize=4096)
def offsets_of(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return the local seconds since 1970 from which on a zone has an offset, in a year; nothing if it is not known.

    No zone changes its offset twice in a day, so that a look at each day finds all changes.
    """
    if time_zone(zone) is None:
        return ()

    def offset(seconds: int) -> int:
        day, rest = divmod(seconds, 86_400)
        date = datetime.date.fromordinal(EPOCH_DAY + day)
        clock = rest // 3600, rest // 60 % 60, 0, rest % 60
        found = offset_at(zone, ((date.day, date.month, date.year), clock))
        assert found is not None, "a year that Python has"
        return found

    first, last = ((datetime.date(each, 1, 1).toordinal() - EPOCH_DAY) * 86_400 for each in (year, year + 1))
    changes = [(first, offset(first))]
    for day in range(first, last, 86_400):
        low, high, after = day, day + 86_400, offset(day + 86_400)
        if after == changes[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) == after else (middle, high)
        changes.append((high, after))
    return tuple(changes)
