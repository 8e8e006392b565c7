"""Notation of types: the text that ``flink_type`` prints and the table ``states`` shows, parsed into serializers.

    type     := NAME                                     LONG, STRING, INSTANT, ... (SIMPLE below)
              | NAME "<" type ["," type] ">"             LIST<T>, MAP<K, V>, SET<T>, EITHER<L, R>, OPTION<T>, TTL<T> ...
              | PRIMITIVE_ARRAY "<" LONG ">"             long[]; of BYTE: byte[]
              | BASIC_ARRAY "<" STRING ">"               String[]; BASIC_ARRAY<LONG> is OBJECT_ARRAY<LONG>
              | OBJECT_ARRAY "<" type ">"                Long[], Order[] ...; OBJECT_ARRAY<class>(T) names the class
              | TUPLE "<" type, ... ">"                  Tuple1 to Tuple25; TUPLE<class>(T, ...): a subclass
              | CASE_CLASS "<" class ">" "(" field, ... ")"      fields are _1, _2 ...
              | ROW "<" field, ... ">"                   fields with names, or types alone: f0, f1 ...
              | POJO "<" class ">" "(" field, ... ")"    fields in any order; Flink orders them by name
                [REGISTERED "(" class type, ... ")"] [SUBCLASSES "(" class type, ... ")"]
              | ENUM "<" class ">" "(" name, ... ")"     constants in the order of their declaration
              | SCALA_ENUM "<" class ">" "(" name "=" number, ... ")"
              | NULLABLE "<" type ">" ["(" PADDED ")"]   padded: a null is as long as a value
              | AVRO "<" class ">" "(" text ")"          text is the schema's JSON; AVRO<text>: GenericRecord
              | ROWDATA "<" logical, ... ">"             SQL's rows, with or without names: see sql.py
              | ARRAYDATA "<" logical ">" | MAPDATA "<" logical "," logical ">"
              | DECIMAL "(" p "," s ")" | TIMESTAMP "(" p ")"     SQL's values outside rows
              | java                                     needs class files: the type that Flink infers for a class
              | POJO "<" class ">" | ENUM "<" class ">"  the same, for a class that must be a POJO or an enum
    java     := class ["<" java, ... ">"]                com.shop.Order, com.shop.Box<java.lang.Long>
    field    := name type
    name     := letters, digits, "_", "$"; anything in `backquotes`
    class    := Java's name of a class, nested ones with "$"
    text     := in 'single quotes', with quotes inside doubled

Names of types are case-insensitive, and white space between words is ignored. The version is that of the oldest Flink
that must restore the savepoint: types that it does not have are errors. Types whose snapshots contain more than a text
can describe (Kryo's registrations, comparators, generated code) can only be taken from an existing savepoint.
Flink: ``Types`` of the DataStream API, ``LogicalTypeParser``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.avro.serializer import GENERIC_RECORD, AvroSerializer, SchemaError
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer, ScalaEnumSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, kind_of_word
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import CaseClassSerializer, RowSerializer, TupleSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.notation.lexer import Token, Tokens
from pyspark_savepoint.formats.serializers.notation.names import (
    NEEDS,
    OTHER_WORDS,
    SIMPLE,
    Flink,
    composites,
    not_from_text,
    scala_home,
    simple_type,
)
from pyspark_savepoint.formats.serializers.notation.sql import (
    collection,
    decimal_arguments,
    precision_argument,
    row_fields,
)
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.formats.serializers.sql.internal import collection_serializer, row_serializer
from pyspark_savepoint.formats.serializers.sql.table_data import (
    DECIMAL_DATA,
    TIMESTAMP_DATA,
    DecimalDataSerializer,
    TimestampDataSerializer,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.registry import GivenSerializers

MAX_TUPLE = 25


@dataclass(frozen=True, slots=True)
class JavaName:
    """Java class by its name, and its type arguments."""

    name: str
    arguments: tuple[JavaName, ...] = ()


#: Function from a Java class to the serializer of its type.
OfClass = Callable[[JavaName], TypeSerializer]
#: Function from the name of a Java class to Kryo's serializer for it.
OfKryo = Callable[[str], TypeSerializer]


class Parser:
    """Parser of one text, for the oldest Flink release that must support its types."""

    def __init__(
        self,
        text: str,
        version: Flink,
        classes: OfClass | None = None,
        given: GivenSerializers | None = None,
        kryo: OfKryo | None = None,
    ) -> None:
        self.tokens = Tokens(text)
        self.version = version
        self.classes = classes
        self.serializers = given
        self.kryo = kryo

    def type(self) -> TypeSerializer:
        tokens = self.tokens
        token = tokens.word("a type")
        given = None if self.serializers is None else self.serializers.of_word(token.text)
        if given is not None:
            return given
        if self.classes is not None and "." in token.text:
            return self.classes(self.java_class(token))
        word = token.upper
        if self.kryo is not None and word == "KRYO":
            return self.kryo(self.class_name())
        special = SPECIAL.get(word)
        simple = simple_type(word) if special is None else None
        kind = kind_of_word(word) if special is None and simple is None else None
        self.expect_version(word, token, NEEDS.get(word) if kind is None else kind.since)
        if special is None and simple is None and (kind is None or not kind.is_plain):
            self.refuse(token)
        tokens.descend()
        if special is not None:
            serializer = special(self, token)
        elif kind is not None:
            serializer = self.composite(kind, token)
        else:
            assert simple is not None
            serializer = simple
            if tokens.is_sign("<") or tokens.is_sign("("):
                tokens.fail(f"nothing after {word}, which has no arguments")
        tokens.ascend()
        return serializer

    def expect_version(self, word: str, token: Token, since: Flink | None) -> None:
        """Raise TypeNotationError for a type that the oldest Flink does not have."""
        if since is not None and self.version < since:
            major, minor = since
            self.tokens.fail(
                f"a type that Flink {'.'.join(map(str, self.version))} has",
                token,
                f"{word} came with Flink {major}.{minor}: use option('flinkVersion', '{major}.{minor}') if no older "
                "release has to restore the savepoint",
            )

    def refuse(self, token: Token) -> None:
        """Raise TypeNotationError for a word that is not a type, or a type that text cannot describe."""
        word = token.upper
        reason = not_from_text(word)
        if reason is not None:
            remedy = f"{reason}: take the type from a savepoint that has it, with option 'typesFrom'"
            self.tokens.fail("a type that a text can describe", token, remedy)
        hint = f"did you mean {OTHER_WORDS[word]!r}?" if word in OTHER_WORDS else None
        self.tokens.fail_unknown("a type", token, [*SIMPLE, *composites(), *SPECIAL], hint)

    def composite(self, kind: Kind, token: Token) -> TypeSerializer:
        """Parse a composite whose snapshot holds only its parts."""
        word = kind.word
        if word == "TTL":
            return TtlSerializer.of(*self.arguments(token, 1, 1))
        count = len(kind.parts or ())
        nested = self.arguments(token, count, count)
        if word in VIEWS and not isinstance(nested[0], VIEWS[word]):
            self.tokens.fail(f"a {word.partition('_')[0]} inside {word}", token)
        return kind.of(*nested, snapshot_class=scala_home(kind.snapshots[0], self.version))

    def arguments(self, token: Token, least: int, most: int) -> tuple[TypeSerializer, ...]:
        """Parse ``< type, ... >``."""
        self.tokens.expect("<")
        return self.types(token, ">", least, most)

    def types(self, token: Token, close: str, least: int, most: int) -> tuple[TypeSerializer, ...]:
        """Parse types up to a closing sign."""
        types: list[TypeSerializer] = []
        while not self.tokens.is_sign(close):
            types.append(self.type())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(close)
        if not least <= len(types) <= most:
            type_count = str(least) if least == most else f"{least} to {most}"
            self.tokens.fail(f"{token.upper} with {type_count} types, not {len(types)},", token)
        return tuple(types)

    def class_name(self) -> str:
        """Parse ``< class >``."""
        self.tokens.expect("<")
        name = self.tokens.word("the name of a Java class").text
        self.tokens.expect(">")
        return name

    @property
    def names_class(self) -> bool:
        """Whether ``< class > (`` comes next."""
        signs = [(token.kind, token.text) for token in (self.tokens.ahead(i) for i in range(4))]
        return signs[1][0] == "word" and [signs[0][1], signs[2][1], signs[3][1]] == ["<", ">", "("]

    def java_class(self, token: Token) -> JavaName:
        """Parse a Java class and its type arguments."""
        self.tokens.descend()
        arguments: list[JavaName] = []
        if self.tokens.accept("<"):
            while not self.tokens.is_sign(">"):
                arguments.append(self.java_class(self.tokens.word("a class of Java")))
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(">")
        self.tokens.ascend()
        return JavaName(token.text, tuple(arguments))

    def named_class(self, token: Token, class_name: str) -> TypeSerializer:
        """Return the type of ``POJO<class>`` or ``ENUM<class>`` without fields or constants, from its class file."""
        if self.classes is None:
            constants = "the constants of the enum, in the order of their declaration: (A, B, ...)"
            self.tokens.fail(
                constants if token.upper == "ENUM" else "'('",
                remedy="or give class files: a jar or folder in option 'typesFrom', and a release in 'inferredBy'",
            )
        serializer = self.classes(JavaName(class_name))
        if not serializer.flink_type.startswith(f"{token.upper}<"):
            self.tokens.fail(f"a class that Flink treats as {token.upper}", token, f"it is {serializer.flink_type}")
        return serializer

    def fields(self, close: str) -> dict[str, TypeSerializer]:
        """Parse ``name type, ...`` up to a closing sign."""
        fields: dict[str, TypeSerializer] = {}
        while not self.tokens.is_sign(close):
            token = self.tokens.name("the name of a field")
            if token.text in fields:
                self.tokens.fail(f"a name other than {token.text!r}, which an earlier field has", token)
            fields[token.text] = self.type()
            if not self.tokens.accept(","):
                break
        self.tokens.expect(close)
        return fields

    def tuple(self, token: Token) -> TypeSerializer:
        if self.names_class:
            class_name = self.class_name()
            self.tokens.expect("(")
            return TupleSerializer.of(*self.types(token, ")", 1, MAX_TUPLE), class_name=class_name)
        fields = self.arguments(token, 0, MAX_TUPLE)
        return TupleSerializer.of(*fields) if fields else SIMPLE["TUPLE<>"]

    def case_class(self, token: Token) -> TypeSerializer:
        class_name = self.class_name()
        self.tokens.expect("(")
        fields = self.fields(")")
        if list(fields) != [f"_{index + 1}" for index in range(len(fields))]:
            self.tokens.fail("fields called _1, _2, ... in the order of the class", token)
        home = scala_home("ScalaCaseClassSerializerSnapshot", self.version)
        return CaseClassSerializer(home, 3, 2, tuple(fields.values()), class_name)

    def row(self, token: Token) -> TypeSerializer:
        """Parse ROW, with or without names."""
        first, second = self.tokens.ahead(1), self.tokens.ahead(2)
        if first.kind == "name" or (first.kind == "word" and second.kind == "word"):
            self.tokens.expect("<")
            fields = self.fields(">")
            return RowSerializer.of(*fields.values(), names=tuple(fields))
        return RowSerializer.of(*self.arguments(token, 0, 1 << 15))

    def pojo(self, token: Token) -> TypeSerializer:
        class_name = self.class_name()
        if not self.tokens.is_sign("("):
            return self.named_class(token, class_name)
        self.tokens.expect("(")
        fields = self.fields(")")
        subclasses = [self.subclasses() if self.tokens.accept_word(word) else {} for word in SUBCLASSES]
        return PojoSerializer.of(class_name, fields, *subclasses)

    def subclasses(self) -> dict[str, TypeSerializer]:
        """Parse ``( class type, ... )``."""
        self.tokens.expect("(")
        subclasses: dict[str, TypeSerializer] = {}
        while not self.tokens.is_sign(")"):
            name = self.tokens.word("the name of a subclass")
            subclasses[name.text] = self.type()
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")")
        return subclasses

    def enum(self, token: Token) -> TypeSerializer:
        """Parse ENUM and SCALA_ENUM."""
        class_name = self.class_name()
        if token.upper == "ENUM" and not self.tokens.is_sign("("):
            return self.named_class(token, class_name)
        if not self.tokens.is_sign("("):
            self.tokens.fail("the constants of the enum")
        self.tokens.expect("(")
        constants: dict[str, int] = {}
        while not self.tokens.is_sign(")"):
            name = self.tokens.name("the name of a constant")
            if name.text in constants:
                self.tokens.fail(f"a constant other than {name.text!r}, which is listed already", name)
            constants[name.text] = len(constants)
            if token.upper == "SCALA_ENUM":
                self.tokens.expect("=")
                constants[name.text] = self.tokens.number("the number of a constant")
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")")
        if token.upper == "ENUM":
            return EnumSerializer.of(class_name, constants)
        home = scala_home("ScalaEnumSerializerSnapshot", self.version)
        return ScalaEnumSerializer(home, 3, class_name, tuple(constants), tuple(constants.values()))

    def nullable(self, token: Token) -> TypeSerializer:
        """Parse NULLABLE, padded or not."""
        (inner,) = self.arguments(token, 1, 1)
        if not self.tokens.accept("("):
            return NullableSerializer.of(inner)
        if not self.tokens.accept_word("PADDED"):
            self.tokens.fail("PADDED")
        if inner.length < 1:
            self.tokens.fail(f"a type of fixed length inside a padded NULLABLE, not {inner.flink_type}", token)
        self.tokens.expect(")")
        return NullableSerializer.of(inner, padded=True)

    def array(self, token: Token) -> TypeSerializer:
        """Parse PRIMITIVE_ARRAY, VALUE_ARRAY and BASIC_ARRAY of a simple type, or OBJECT_ARRAY of any type."""
        if token.upper == "OBJECT_ARRAY" and self.names_class:
            component = self.class_name()
            self.tokens.expect("(")
            (element,) = self.types(token, ")", 1, 1)
            return GenericArraySerializer.of(element, component)
        (element,) = self.arguments(token, 1, 1)
        name = f"{token.upper}<{element.flink_type}>"
        if name in SIMPLE:
            return SIMPLE[name]
        if token.upper in ("PRIMITIVE_ARRAY", "VALUE_ARRAY"):
            element_types = [word[len(token.upper) + 1 : -1] for word in SIMPLE if word.startswith(token.upper)]
            self.tokens.fail(
                f"{token.upper} of one of {', '.join(element_types)}", token, "arrays of objects are OBJECT_ARRAY<T>"
            )
        class_name = element.java_class
        if class_name is None:
            self.tokens.fail("the class of the elements", token, f"OBJECT_ARRAY<com.shop.Item>({element.flink_type})")
        return GenericArraySerializer.of(element, class_name)

    def avro(self, token: Token) -> TypeSerializer:
        """Parse AVRO with its schema."""
        self.tokens.expect("<")
        class_name = GENERIC_RECORD
        if self.tokens.next.kind != "text":
            class_name = self.tokens.word("the schema in single quotes, or the name of a class").text
            self.tokens.expect(">")
            if not self.tokens.accept("("):
                self.tokens.fail(f"the schema of {class_name}", remedy=f"AVRO<{class_name}>('{{\"type\": ...}}')")
        schema = self.tokens.take()
        if schema.kind != "text":
            self.tokens.fail("the schema's JSON in single quotes", schema)
        self.tokens.expect(">" if class_name is GENERIC_RECORD else ")")
        try:
            return AvroSerializer.of(schema.text, class_name)
        except SchemaError as error:
            return self.tokens.fail("an Avro schema", schema, str(error))

    def row_data(self, token: Token) -> TypeSerializer:
        names, kinds = row_fields(self.tokens)
        return self.made(token, lambda: row_serializer(kinds, names))

    def collection_data(self, token: Token) -> TypeSerializer:
        """Parse ARRAYDATA and MAPDATA."""
        kind = collection(self.tokens, token.upper.removesuffix("DATA"))
        return self.made(token, lambda: collection_serializer(kind))

    def made(self, token: Token, make: Callable[[], TypeSerializer]) -> TypeSerializer:
        """Call ``make``; TypeNotationError if the serializer cannot be created from logical types."""
        try:
            return make()
        except UnsupportedStateError as error:
            return self.tokens.fail("a type whose serializer can be made", token, error.message)

    def decimal(self, token: Token) -> TypeSerializer:
        """Parse DECIMAL(p, s)."""
        self.expect_numbers(token, "BIG_DECIMAL", "DECIMAL(p, s)")
        return DecimalDataSerializer(DECIMAL_DATA, 3, *decimal_arguments(self.tokens))

    def timestamp(self, token: Token) -> TypeSerializer:
        """Parse TIMESTAMP(p)."""
        self.expect_numbers(token, "INSTANT or LOCAL_DATE_TIME", "TIMESTAMP(p)")
        return TimestampDataSerializer(TIMESTAMP_DATA, 1, precision_argument(self.tokens, 6))

    def expect_numbers(self, token: Token, stream: str, sql: str) -> None:
        """Require parentheses after SQL's types outside rows: the DataStream API has other types of similar names."""
        if not self.tokens.is_sign("("):
            self.tokens.fail("a type", token, f"a DataStream job has {stream}; SQL's data outside of rows are {sql}")


SPECIAL: Mapping[str, Callable[[Parser, Token], TypeSerializer]] = {
    "TUPLE": Parser.tuple,
    "CASE_CLASS": Parser.case_class,
    "ROW": Parser.row,
    "POJO": Parser.pojo,
    "ENUM": Parser.enum,
    "SCALA_ENUM": Parser.enum,
    "NULLABLE": Parser.nullable,
    "PRIMITIVE_ARRAY": Parser.array,
    "VALUE_ARRAY": Parser.array,
    "BASIC_ARRAY": Parser.array,
    "OBJECT_ARRAY": Parser.array,
    "AVRO": Parser.avro,
    "ROWDATA": Parser.row_data,
    "ARRAYDATA": Parser.collection_data,
    "MAPDATA": Parser.collection_data,
    "DECIMAL": Parser.decimal,
    "TIMESTAMP": Parser.timestamp,
}
#: Words between the fields of a POJO and its subclasses: registered ones (with tags), then the others.
SUBCLASSES = ("REGISTERED", "SUBCLASSES")
VIEWS: Mapping[str, type[CompositeSerializer]] = {"LIST_VIEW": ListSerializer, "MAP_VIEW": MapSerializer}


DEFAULT_VERSION: Flink = (1, 16)
#: Version for types that are only read, so that no release has to restore them.
NEWEST_VERSION: Flink = (2, 99)


def parse_type(
    text: str,
    version: Flink = DEFAULT_VERSION,
    classes: OfClass | None = None,
    given: GivenSerializers | None = None,
    kryo: OfKryo | None = None,
) -> TypeSerializer:
    """Return the serializer of a type, as Flink ``version`` and later write it; TypeNotationError points at mistakes.

    ``classes`` returns the type of a Java class that the text only names; ``given`` are serializers of the user;
    ``kryo`` returns Kryo's serializer for a class, for ``KRYO<com.shop.Money>``, if the registrations are known.

    >>> parse_type("map<string, tuple<long, list<int>>>").flink_type
    'MAP<STRING, TUPLE<LONG, LIST<INT>>>'
    >>> parse_type("POJO<com.shop.Order>(total DOUBLE, id LONG)").flink_type
    'POJO<com.shop.Order>(id LONG, total DOUBLE)'
    """
    parser = Parser(text, version, classes, given, kryo)
    serializer = parser.type()
    if parser.tokens.next.kind != "end":
        parser.tokens.fail("the end of the type")
    return serializer
