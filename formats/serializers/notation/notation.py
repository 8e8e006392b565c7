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

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.given_serializers import GivenSerializers
from pyspark_savepoint.formats.serializers.notation.names import Flink
from pyspark_savepoint.formats.serializers.notation.parser import OfClass, OfKryo, Parser

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
