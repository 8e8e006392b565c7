"""Types as text: what ``flink_type`` prints and the table ``states`` shows, read back into serializers.

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
              | ROWDATA "<" logical, ... ">"             SQL's rows, with names or without: see notation_sql.py
              | ARRAYDATA "<" logical ">" | MAPDATA "<" logical "," logical ">"
              | DECIMAL "(" p "," s ")" | TIMESTAMP "(" p ")"     SQL's values outside of rows
              | java                                     where class files are given: a class as Flink infers its type
              | POJO "<" class ">" | ENUM "<" class ">"  the same, of a class that must be one
    java     := class ["<" java, ... ">"]                com.shop.Order, com.shop.Box<java.lang.Long>
    field    := name type
    name     := letters, digits, "_", "$"; anything in `backquotes`
    class    := Java's name of a class, nested ones with "$"
    text     := in 'single quotes', a quote inside doubled

Names of types are case-insensitive, space between words is free. The version is the oldest Flink that must restore: a
type that it does not have is refused. Types that hold what no text says (Kryo's registrations, comparators, generated
code) come from an existing savepoint alone. Flink: ``Types`` of the DataStream API, ``LogicalTypeParser``.
"""

from __future__ import annotations

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.names import Flink
from pyspark_savepoint.formats.serializers.notation.parser import OfClass, Parser

DEFAULT_VERSION: Flink = (1, 16)


def parse_type(text: str, version: Flink = DEFAULT_VERSION, classes: OfClass | None = None) -> TypeSerializer:
    """The serializer of a type, as Flink ``version`` and later write it; TypeNotationError points at what is wrong.

    ``classes`` gives the type of a Java class where the text has its name alone.

    >>> parse_type("map<string, tuple<long, list<int>>>").flink_type
    'MAP<STRING, TUPLE<LONG, LIST<INT>>>'
    >>> parse_type("POJO<com.shop.Order>(total DOUBLE, id LONG)").flink_type
    'POJO<com.shop.Order>(id LONG, total DOUBLE)'
    """
    parser = Parser(text, version, classes)
    serializer = parser.type()
    if parser.tokens.next.kind != "end":
        parser.tokens.fail("the end of the type")
    return serializer
