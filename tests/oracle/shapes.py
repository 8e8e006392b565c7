"""Random shapes of state, written through Spark and restored by real Flink, every value compared.

    python -m tests.oracle.shapes --shapes 200 --seed 7 --releases 1.18.1 1.20.5 2.0.2 2.2.1 2.3.0
    python -m tests.oracle.shapes --shapes 200 --inferred --releases 1.17.2

A shape is a type of Flink and its values: each as Spark has it, and as Flink says it (the JSON of `expected.json`).
With ``--inferred`` Flink is given classes and infers their types, and so do we with `inferredBy`: from words, from
class files, or from both, beside types that are left out and rows that are declared.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import OperatorTransformation, Savepoint, key_by
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from tests.oracle import functions_of_bootstrap
from tests.oracle.compare import differences
from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import class_path, compile_harness, fetch, jdk_tool
from tests.oracle.functions_of_bootstrap import FAR, Numbers

register_pickle_by_value(functions_of_bootstrap)

#: A value for Spark and the same as Flink says it.
Value = tuple[Any, Any]
RELEASES = ("1.18.1", "1.20.5", "2.0.2", "2.2.1", "2.3.0")
BACKENDS = ("hashmap", "rocksdb")
STATES_OF_ONE, KEYS_OF_ONE, DEPTH = 5, 12, 3


@dataclass(frozen=True)
class Shape:
    """A type in our notation, its type in Spark, and how its values are made."""

    flink: str
    spark: str
    value: Callable[[random.Random], Value]
    #: Whether lists and tuples may contain a NULL of this type.
    nullable: bool = False
    #: The Java type that Flink infers it from, and what the harness is given instead of words where it does.
    java: str = ""
    given: str = ""


def _seconds(moment: datetime) -> str:
    """The time of day as Java prints it: no more digits than needed, in threes."""
    text = moment.strftime("%H:%M")
    if moment.second or moment.microsecond:
        text += moment.strftime(":%S")
    if moment.microsecond:
        text += f".{moment.microsecond:06d}".removesuffix("000")
    return text


def _moment(chance: random.Random) -> datetime:
    fraction = chance.choice((0, 5_000, 123_000, 123_456))
    seconds = chance.randrange(-2_000_000_000, 4_000_000_000)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=fraction)


def _millis(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _instant(chance: random.Random) -> Value:
    moment = _moment(chance)
    time = _seconds(moment) if moment.second or moment.microsecond else moment.strftime("%H:%M:%S")
    return moment, f"{moment:%Y-%m-%d}T{time}Z"


def _local(chance: random.Random) -> Value:
    moment = _moment(chance)
    return moment.replace(tzinfo=None), f"{moment:%Y-%m-%d}T{_seconds(moment)}"


def _timestamp(chance: random.Random) -> Value:
    moment = _moment(chance)
    return moment, {"ms": _millis(moment), "nanos": moment.microsecond * 1000}


def _date_of_util(chance: random.Random) -> Value:
    moment = _moment(chance).replace(microsecond=123_000)
    return moment, {"ms": _millis(moment)}


def _day(chance: random.Random) -> Value:
    day = date(1970, 1, 1) + timedelta(days=chance.randrange(-200_000, 200_000))
    return day, day.isoformat()


def _text(chance: random.Random) -> Value:
    text = "".join(chance.choices("aZ0 é中😀\t", k=chance.choice((0, 1, 3, 40))))
    return text, text


def _same(make: Callable[[random.Random], Any]) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        made = make(chance)
        return made, made

    return value


def _whole(bits: int) -> Callable[[random.Random], Value]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return _same(lambda chance: chance.choice((low, high, 0, -1, chance.randint(low, high))))


def _decimal(chance: random.Random) -> Value:
    value = Decimal(chance.randint(-(10**15), 10**15)).scaleb(-4)
    return value, str(value)


def _big(chance: random.Random) -> Value:
    value = chance.choice((0, 1, 10, -1, chance.randint(-(10**29), 10**29)))
    return Decimal(value), str(value)


def _bytes(chance: random.Random) -> Value:
    value = chance.randbytes(chance.choice((0, 1, 30)))
    return bytearray(value), {"hex": value.hex()}


def _array(element: Callable[[random.Random], Value], holes: float = 0.0) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        made = [(None, None) if chance.random() < holes else element(chance) for _ in range(chance.choice((0, 1, 4)))]
        return [spark for spark, _ in made], [flink for _, flink in made]

    return value


KEYS = (
    Shape("BYTE", "tinyint", _whole(8)),
    Shape("SHORT", "smallint", _whole(16)),
    Shape("INT", "int", _whole(32)),
    Shape("LONG", "bigint", _whole(64)),
    Shape("STRING", "string", _text, nullable=True),
    Shape("BIG_DECIMAL", "decimal(19,4)", _decimal, nullable=True),
    Shape("INSTANT", "timestamp", _instant, nullable=True),
    Shape("LOCAL_DATE", "date", _day, nullable=True),
    Shape("LOCAL_DATE_TIME", "timestamp_ntz", _local, nullable=True),
    Shape("SQL_TIMESTAMP", "timestamp", _timestamp),
    Shape("DATE", "timestamp", _date_of_util, nullable=True),
)
MORE_KEYS = (
    Shape("BOOLEAN", "boolean", _same(lambda chance: chance.random() < 0.5)),
    Shape("FLOAT", "float", _same(lambda chance: chance.randrange(-1000, 1000) / 8)),
    Shape("DOUBLE", "double", _same(lambda chance: chance.choice((0.0, 0.1, -1e300, chance.random())))),
    Shape("CHAR", "string", _same(lambda chance: chance.choice("aé中"))),
    Shape("BIG_INTEGER", "decimal(30,0)", _big, nullable=True),
)
LEAVES = (
    *KEYS,
    *MORE_KEYS,
    Shape("PRIMITIVE_ARRAY<BYTE>", "binary", _bytes),
    Shape("PRIMITIVE_ARRAY<LONG>", "array<bigint>", _array(_whole(64))),
    Shape("PRIMITIVE_ARRAY<DOUBLE>", "array<double>", _array(_same(random.Random.random))),
    Shape("BASIC_ARRAY<STRING>", "array<string>", _array(_text, holes=0.2)),
    Shape("BASIC_ARRAY<INT>", "array<int>", _array(_whole(32), holes=0.2)),
)


class Shapes:
    """Makes up shapes, and classes for them that no other shape has."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.classes = 0

    def any(self, depth: int = DEPTH) -> Shape:
        """A shape, of others where the depth allows it."""
        makers = (self.list_, self.map_, self.tuple_, self.row, self.pojo, self.enum, self.either, self.object_array)
        if depth == 0 or self.chance.random() < 0.25:
            return self.chance.choice(LEAVES)
        return self.chance.choice(makers)(depth - 1)

    def key(self) -> Shape:
        """A type that can be a key."""
        if self.chance.random() < 0.6:
            return self.chance.choice(KEYS)
        return self.tuple_of([self.chance.choice(KEYS) for _ in range(self.chance.randint(1, 3))])

    def list_(self, depth: int) -> Shape:
        inner = self.any(depth)
        value = _array(inner.value, 0.1 if inner.nullable else 0)
        return Shape(f"LIST<{inner.flink}>", f"array<{inner.spark}>", value)

    def object_array(self, depth: int) -> Shape:
        parts = [self.any(min(depth, 1)) for _ in range(self.chance.randint(1, 2))]
        inner = self.tuple_of(parts)
        value = _array(inner.value, 0.1)
        return Shape(f"OBJECT_ARRAY<{inner.flink}>", f"array<{inner.spark}>", value)

    def map_(self, depth: int) -> Shape:
        return map_of(self.chance.choice(KEYS), self.any(depth))

    def tuple_(self, depth: int) -> Shape:
        return self.tuple_of([self.any(depth) for _ in range(self.chance.randint(1, 4))])

    def tuple_of(self, parts: list[Shape]) -> Shape:
        def value(chance: random.Random) -> Value:
            made = [part.value(chance) for part in parts]
            return tuple(spark for spark, _ in made), [flink for _, flink in made]

        spark = ", ".join(f"f{i}: {part.spark}" for i, part in enumerate(parts))
        return Shape(f"TUPLE<{', '.join(part.flink for part in parts)}>", f"struct<{spark}>", value)

    def row(self, depth: int) -> Shape:
        parts = [self.any(depth) for _ in range(self.chance.randint(1, 4))]

        def value(chance: random.Random) -> Value:
            made = [(None, None) if chance.random() < 0.2 else part.value(chance) for part in parts]
            return tuple(spark for spark, _ in made), {"kind": "+I", "row": [flink for _, flink in made]}

        spark = ", ".join(f"n{i}: {part.spark}" for i, part in enumerate(parts))
        return Shape(
            f"ROW<{', '.join(f'n{i} {part.flink}' for i, part in enumerate(parts))}>", f"struct<{spark}>", value
        )

    def pojo(self, depth: int) -> Shape:
        name = self._class()
        parts = [self.any(depth) for _ in range(self.chance.randint(1, 4))]

        def value(chance: random.Random) -> Value:
            made = [part.value(chance) for part in parts]
            fields = {f"p{i}": flink for i, (_, flink) in enumerate(made)}
            return tuple(spark for spark, _ in made), {"class": name, "fields": fields}

        fields = ", ".join(f"p{i} {part.flink}" for i, part in enumerate(parts))
        spark = ", ".join(f"p{i}: {part.spark}" for i, part in enumerate(parts))
        return Shape(f"POJO<{name}>({fields})", f"struct<{spark}>", value)

    def enum(self, _depth: int) -> Shape:
        constants = [f"C{i}" for i in range(self.chance.randint(1, 5))]
        value = _same(lambda chance: chance.choice(constants))
        return Shape(f"ENUM<{self._class()}>({', '.join(constants)})", "string", value)

    def either(self, depth: int) -> Shape:
        left, right = self.any(depth), self.any(depth)

        def value(chance: random.Random) -> Value:
            if chance.random() < 0.5:
                spark, flink = left.value(chance)
                return (spark, None), {"left": flink}
            spark, flink = right.value(chance)
            return (None, spark), {"right": flink}

        spark = f"struct<left: {left.spark}, right: {right.spark}>"
        return Shape(f"EITHER<{left.flink}, {right.flink}>", spark, value)

    def _class(self) -> str:
        self.classes += 1
        return f"shapes.Shape{self.seed}x{self.classes}"


#: Java types, of those that Flink infers.
JAVA = {
    "BYTE": "Byte",
    "SHORT": "Short",
    "INT": "Integer",
    "LONG": "Long",
    "BOOLEAN": "Boolean",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "CHAR": "Character",
    "STRING": "String",
    "BIG_DECIMAL": "java.math.BigDecimal",
    "BIG_INTEGER": "java.math.BigInteger",
    "DATE": "java.util.Date",
    "SQL_TIMESTAMP": "java.sql.Timestamp",
    "INSTANT": "java.time.Instant",
    "PRIMITIVE_ARRAY<BYTE>": "byte[]",
    "PRIMITIVE_ARRAY<LONG>": "long[]",
    "PRIMITIVE_ARRAY<DOUBLE>": "double[]",
    "BASIC_ARRAY<STRING>": "String[]",
}
PRIMITIVES = {"Byte": "byte", "Short": "short", "Integer": "int", "Long": "long", "Boolean": "boolean"}
PRIMITIVES |= {"Float": "float", "Double": "double", "Character": "char"}
#: What a write has for a Spark type where nobody names another.
DEFAULTS = ("BYTE", "SHORT", "INT", "LONG", "STRING", "BOOLEAN", "FLOAT", "DOUBLE", "BIG_DECIMAL", "INSTANT")


class InferredShapes(Shapes):
    """Shapes of Java classes whose types a release infers without Kryo; Flink 2 has lists and maps, too."""

    def __init__(self, seed: int, release: ExtractionRelease) -> None:
        super().__init__(seed)
        self.release = release
        #: Java sources by class; whether types may name classes, whose fields are then in class files.
        self.sources: dict[str, str] = {}
        self.from_files = False
        self.leaves = tuple(replace(leaf, java=JAVA[leaf.flink]) for leaf in LEAVES if leaf.flink in JAVA)
        self.simple_keys = tuple(leaf for leaf in self.leaves if leaf.flink in {key.flink for key in KEYS})

    def any(self, depth: int = DEPTH) -> Shape:
        makers = [self.tuple_, self.pojo, self.pojo, self.enum, self.either, self.object_array]
        makers += [self.list_, self.map_] * self.release.has_collections
        if depth == 0 or self.chance.random() < 0.2:
            return self.chance.choice(self.leaves)
        return self.chance.choice(makers)(depth - 1)

    def key(self) -> Shape:
        if self.chance.random() < 0.5:
            return self.chance.choice(self.simple_keys)
        return self.tuple_of([self.chance.choice(self.simple_keys) for _ in range(self.chance.randint(1, 3))])

    def list_(self, depth: int) -> Shape:
        inner = self.plain(depth)
        made = Shape(f"LIST<{inner.flink}>", f"array<{inner.spark}>", _array(inner.value, 0.2), nullable=True)
        return replace(made, java=f"java.util.List<{inner.java}>")

    def map_(self, depth: int) -> Shape:
        key, inner = self.chance.choice(self.simple_keys), self.plain(depth)
        return replace(map_of(key, inner), nullable=True, java=f"java.util.Map<{key.java}, {inner.java}>")

    def plain(self, depth: int) -> Shape:
        """A class without arguments: collections of others are Kryo's."""
        if self.chance.random() < 0.5:
            return self.chance.choice((self.pojo, self.enum))(depth)
        return self.chance.choice([leaf for leaf in self.leaves if "[" not in leaf.java])

    def object_array(self, depth: int) -> Shape:
        inner = self.tuple_of([self.any(min(depth, 1)) for _ in range(self.chance.randint(1, 2))])
        if self.chance.random() < 0.5:
            inner = self.pojo(min(depth, 1))
        made = Shape(f"OBJECT_ARRAY<{inner.flink}>", f"array<{inner.spark}>", _array(inner.value, 0.1))
        return replace(made, java=f"{inner.java}[]")

    def tuple_of(self, parts: list[Shape]) -> Shape:
        arguments = ", ".join(part.java for part in parts)
        return replace(super().tuple_of(parts), java=f"org.apache.flink.api.java.tuple.Tuple{len(parts)}<{arguments}>")

    def pojo(self, depth: int) -> Shape:
        name = self._class()
        parts = [self.any(depth) for _ in range(self.chance.randint(1, 4))]
        kinds = [PRIMITIVES.get(part.java, part.java) if self.chance.random() < 0.5 else part.java for part in parts]
        simple = name.rpartition(".")[2]
        fields = " ".join(f"public {kind} p{i};" for i, kind in enumerate(kinds))
        self.sources[name] = f"package shapes; public class {simple} {{ {fields} public {simple}() {{ }} }}"

        def value(chance: random.Random) -> Value:
            made = [
                (None, None) if kind not in PRIMITIVES.values() and chance.random() < 0.2 else part.value(chance)
                for part, kind in zip(parts, kinds, strict=True)
            ]
            fields = {f"p{i}": flink for i, (_, flink) in enumerate(made)}
            return tuple(spark for spark, _ in made), {"class": name, "fields": fields}

        words = f"POJO<{name}>({', '.join(f'p{i} {part.flink}' for i, part in enumerate(parts))})"
        spark = ", ".join(f"p{i}: {part.spark}" for i, part in enumerate(parts))
        named = name if self.from_files and self.chance.random() < 0.6 else words
        return Shape(named, f"struct<{spark}>", value, java=name)

    def enum(self, depth: int) -> Shape:
        made = super().enum(depth)
        name, _, constants = made.flink.removeprefix("ENUM<").partition(">")
        simple = name.rpartition(".")[2]
        self.sources[name] = f"package shapes; public enum {simple} {{ {constants.strip('()')} }}"
        return replace(made, java=name)

    def either(self, depth: int) -> Shape:
        left, right = self.any(depth), self.any(depth)

        def value(chance: random.Random) -> Value:
            side, part = chance.choice((("left", left), ("right", right)))
            spark, flink = part.value(chance)
            return (spark, None) if side == "left" else (None, spark), {side: flink}

        spark = f"struct<left: {left.spark}, right: {right.spark}>"
        java = f"org.apache.flink.types.Either<{left.java}, {right.java}>"
        return Shape(f"EITHER<{left.flink}, {right.flink}>", spark, value, java=java)

    def stated(self) -> Shape:
        """What a state has: a class, now and then a declared row of them."""
        if self.chance.random() < 0.8:
            return self.hinted(self.any())
        parts = [
            self.hinted(self.pojo(1)) if self.chance.random() < 0.5 else self.chance.choice(KEYS) for _ in range(3)
        ]

        def value(chance: random.Random) -> Value:
            made = [(None, None) if chance.random() < 0.2 else part.value(chance) for part in parts]
            return tuple(spark for spark, _ in made), {"kind": "+I", "row": [flink for _, flink in made]}

        spark = ", ".join(f"n{i}: {part.spark}" for i, part in enumerate(parts))
        flink, given = (
            f"ROW<{', '.join(f'n{i} {text}' for i, text in enumerate(texts))}>"
            for texts in ([part.flink for part in parts], [part.given or part.flink for part in parts])
        )
        return Shape(flink, f"struct<{spark}>", value, given=given)

    def hinted(self, shape: Shape) -> Shape:
        """The shape, as a field that the harness asks Flink to infer the type of."""
        name = self._class()
        simple = name.rpartition(".")[2]
        self.sources[name] = f"package shapes; public class {simple} {{ public {shape.java} of; }}"
        return replace(shape, given=f"AUTO<{name}#of>")


def map_of(key: Shape, inner: Shape, fewest: int = 0) -> Shape:
    """A map; keys that are equal in Java are one."""

    def value(chance: random.Random) -> Value:
        made = {}
        for _ in range(chance.choice((fewest, 1, 3))):
            spark, flink = key.value(chance)
            made[str(flink)] = (spark, flink, *inner.value(chance))
        entries = [[flink, element] for _, flink, _, element in made.values()]
        return {spark: element for spark, _, element, _ in made.values()}, {"map": entries}

    return Shape(f"MAP<{key.flink}, {inner.flink}>", f"map<{key.spark}, {inner.spark}>", value)


@dataclass
class Operator:
    """A keyed operator of random states: rows for Spark, a description for Flink, and what Flink must find."""

    uid: str
    key: Shape
    states: dict[str, tuple[str, Shape]]
    rows: list[tuple[Any, ...]]
    entries: dict[str, list[Any]]
    timers: dict[str, str] = field(default_factory=dict)
    #: Where the rows come from: as they are, from `key_by`, or through a bootstrap function.
    way: str = "rows"
    #: Java sources of its classes; options of the write, which infer types from them.
    sources: dict[str, str] = field(default_factory=dict)
    inferring: dict[str, Any] = field(default_factory=dict)

    def written(self, spark: SparkSession, savepoint: Savepoint) -> Savepoint:
        """The savepoint with this operator."""
        columns = {"key": self.key, **{name: shape for name, (_, shape) in self.states.items()}}
        schema = ", ".join(f"{name} {shape.spark}" for name, shape in columns.items())
        df: DataFrame = spark.createDataFrame(self.rows, schema)
        types = {name: shape.flink for name, shape in columns.items()}
        if self.inferring:  # the type that a column has anyhow needs no word
            types = {name: text for name, text in types.items() if text not in DEFAULTS}
        kinds = {name: kind.lower() for name, (kind, _) in self.states.items()}
        if self.way == "function":
            keyed = OperatorTransformation.bootstrap_with(df).key_by("key", key_type=self.key.flink)
            return savepoint.with_operator(self.uid, keyed.transform(Numbers()))
        if self.way == "key_by":
            df = key_by(df, "key", types={"key": self.key.flink}, **self.inferring)
        return savepoint.with_operator(self.uid, df, types=types, states=kinds, **self.inferring)

    def described(self) -> dict[str, Any]:
        """The operator for the harness: element types of lists, key and value types of maps."""
        states: dict[str, Any] = {}
        for name, (kind, shape) in self.states.items():
            states[name] = {"kind": kind, "type": shape.given or shape.flink}
            if shape.given and kind == "MAP":
                states[name] |= dict(zip(("key", "type"), shape.given.split(", ", 1), strict=True))
            elif shape.given:
                continue
            elif kind == "LIST":
                states[name]["type"] = shape.flink[len("LIST<") : -1]
            elif kind == "MAP":
                key, _, value = shape.flink[len("MAP<") : -1].partition(", ")
                states[name] |= {"key": key, "type": value}
        key_type = self.key.given or self.key.flink
        return {"uid": self.uid, "key": key_type, "states": states, "timers": self.timers}


def made_up(seed: int, count: int) -> list[Operator]:
    """Operators with as many shapes of state in all."""
    shapes = Shapes(seed)
    operators = []
    for number in range(0, count, STATES_OF_ONE):
        states = {}
        for index in range(min(STATES_OF_ONE, count - number)):
            kind = shapes.chance.choice(("VALUE", "VALUE", "LIST", "MAP"))
            shape = shapes.any()
            if kind == "LIST":
                shape = Shape(f"LIST<{shape.flink}>", f"array<{shape.spark}>", at_least_one(shape))
            elif kind == "MAP":
                shape = map_of(shapes.chance.choice(KEYS), shape, fewest=1)
            states[f"s{index}"] = (kind, shape)
        operators.append(filled(f"shapes {seed} {number}", shapes.key(), states, shapes.chance))
    return operators


def made_up_of_classes(seed: int, count: int, version: str, folder: Path) -> list[Operator]:
    """The same of classes whose types a release infers; every second operator has them from class files."""
    release = ExtractionRelease.parse(version)
    shapes = InferredShapes(seed, release)
    operators = []
    for number in range(0, count, STATES_OF_ONE):
        shapes.from_files = number // STATES_OF_ONE % 2 == 1
        states = {}
        for index in range(min(STATES_OF_ONE, count - number)):
            kind = shapes.chance.choice(("VALUE", "VALUE", "LIST", "MAP"))
            shape = shapes.stated()
            if kind == "LIST":
                value = at_least_one(shape)
                shape = Shape(f"LIST<{shape.flink}>", f"array<{shape.spark}>", value, given=shape.given)
            elif kind == "MAP":
                key = shapes.hinted(shapes.chance.choice(shapes.simple_keys))
                shape = replace(map_of(key, shape, fewest=1), given=f"{key.given}, {shape.given}")
            states[f"s{index}"] = (kind, shape)
        made = filled(f"classes {seed} {number}", shapes.hinted(shapes.key()), states, shapes.chance)
        made.way = shapes.chance.choice(("rows", "key_by"))
        made.inferring = {"inferred_by": ".".join(map(str, release.version))}
        if shapes.from_files:
            made.inferring["types_from"] = str(folder)
        operators.append(made)
    compiled(version, shapes.sources, folder)
    for made in operators:
        made.sources = shapes.sources
    return operators


def compiled(version: str, sources: dict[str, str], folder: Path) -> None:
    """Class files of Java sources, in a folder, for a release of Flink."""
    files = folder / "sources"
    files.mkdir(parents=True)
    paths = [files / f"{name.rpartition('.')[2]}.java" for name in sources]
    for path, source in zip(paths, sources.values(), strict=True):
        path.write_text(source)
    command = [jdk_tool("javac"), "-nowarn", "-proc:none", "-d", str(folder)]
    command += ["-cp", class_path([compile_harness(version), *fetch(version)]), *map(str, paths)]
    subprocess.run(command, check=True)


def every_key(seed: int) -> list[Operator]:
    """An operator for each type of key, written in each way."""
    shapes = Shapes(seed)
    number = Shape("LONG", "bigint", _whole(40))
    composite = [shapes.tuple_of([KEYS[i], KEYS[i + 1], KEYS[i + 4]]) for i in range(0, 6, 2)]
    nested = shapes.tuple_of([composite[0], MORE_KEYS[0]])
    operators = []
    for key in (*KEYS, *MORE_KEYS, *composite, nested):
        for way in ("rows", "key_by", "function"):
            made = filled(f"{key.flink} by {way}", key, {"n": ("VALUE", number)}, shapes.chance, holes=0)
            made.way = way
            if way == "function":
                made.timers = {"user-timers": "VOID"}
                made.entries["user-timers/eventTime"] = [[at, FAR + value] for at, _, value in made.entries["n"]]
            operators.append(made)
    return operators


def at_least_one(inner: Shape) -> Callable[[random.Random], Value]:
    """Elements of a list state, which is not there when it is empty."""

    def value(chance: random.Random) -> Value:
        made = [inner.value(chance) for _ in range(chance.choice((1, 1, 3)))]
        return [spark for spark, _ in made], [flink for _, flink in made]

    return value


def filled(
    uid: str, key: Shape, states: dict[str, tuple[str, Shape]], chance: random.Random, holes: float = 0.1
) -> Operator:
    """Rows of keys that are different, some without some of the states."""
    made = Operator(uid, key, states, [], {name: [] for name in states})
    known: set[str] = set()
    for _ in range(KEYS_OF_ONE):
        spark_key, flink_key = key.value(chance)
        if str(flink_key) in known:
            continue
        known.add(str(flink_key))
        row = [spark_key]
        for name, (_, shape) in states.items():
            spark, flink = shape.value(chance) if chance.random() >= holes else (None, None)
            row.append(spark)
            if spark is not None:
                made.entries[name].append([flink_key, None, flink])
        made.rows.append(tuple(row))
    return made


def write(spark: SparkSession, operators: list[Operator], path: Path) -> None:
    """One savepoint of all, for the oldest release, or for the one that infers their types."""
    savepoint = Savepoint.create(spark)
    for operator in operators:
        savepoint = operator.written(spark, savepoint)
    release = operators[0].inferring.get("inferred_by")
    savepoint.write(str(path), **({"flink_version": release} if release else {}))


def restored(release: str, operators: list[Operator], path: Path, folder: Path) -> tuple[list[str], int]:
    """What a release finds otherwise than it was written, on both backends, and how many values it found."""
    jobs: list[Job] = [
        {
            "name": f"shapes on {backend}",
            "held": "read",
            "count": 0,
            "parallelism": 2,
            "restore": str(path),
            "stateBackend": backend,
            "operators": [operator.described() for operator in operators],
            "sources": {name: text for operator in operators for name, text in operator.sources.items()},
        }
        for backend in BACKENDS
    ]
    expected = {
        "operators": [
            {"uid": each.uid, "states": [{"name": name, "entries": entries} for name, entries in each.entries.items()]}
            for each in operators
        ]
    }
    types = {
        f"{each.uid}/{name}": f"{kind} {shape.flink}"
        for each in operators
        for name, (kind, shape) in each.states.items()
    }
    lines, values = [], 0
    for backend, answer in zip(BACKENDS, evolve(release, folder, jobs, timeout=1200), strict=True):
        if "found" not in answer:
            lines.append(f"{release} on {backend}: {answer}")
            continue
        values += sum(len(found) for states in answer["found"].values() for found in states.values())
        for line in differences(expected, answer["found"]):
            lines.append(f"{release} on {backend}: {types.get(line.partition(':')[0])}: {line}")
    return lines, values


def main() -> int:
    """Make up, write, restore by every release, and say what is otherwise."""
    from tests.oracle.matrix.__main__ import session

    parser = argparse.ArgumentParser(prog="python -m tests.oracle.shapes", description=__doc__)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="by chance, unless given")
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--inferred", action="store_true", help="of classes whose types each release infers")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 20) if args.seed is None else args.seed
    operators = [*made_up(seed, args.shapes), *every_key(seed)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="savepoint-shapes-") as folder:
        path = Path(folder) / "savepoint"
        if not args.inferred:
            write(session(), operators, path)
        for release in args.releases:
            if args.inferred:
                path = Path(folder) / f"savepoint-{release}"
                operators = made_up_of_classes(seed, args.shapes, release, Path(folder) / f"classes-{release}")
                write(session(), operators, path)
            lines, values = restored(release, operators, path, Path(folder) / release)
            failed += len(lines)
            of = "inferred shapes" if args.inferred else "shapes and every type of key"
            told = f"{args.shapes} {of}, {values:,} values, {len(lines)} otherwise"
            print(f"seed {seed}: {release} restored {told}", flush=True)
            print("".join(f"  {line[:2000]}\n" for line in lines), end="", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
