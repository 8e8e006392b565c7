"""Parser of SQL's logical types in the notation of types, as Flink prints them.

    logical := word [ "(" number ["," number] ")" ] [ "<" arguments ">" ] [ "NOT" "NULL" ]
    word    := BOOLEAN | TINYINT | SMALLINT | INT | BIGINT | FLOAT | DOUBLE | STRING | CHAR(n) | VARCHAR(n)
             | BYTES | BINARY(n) | VARBINARY(n) | DECIMAL(p, s) | DATE | TIME(p) | TIMESTAMP(p) | TIMESTAMP_LTZ(p)
             | INTERVAL ... | ARRAY<T> | MULTISET<T> | MAP<K, V> | ROW<name T, ...>
             | TIMESTAMP(p) WITH [LOCAL] TIME ZONE
             | RAW('class', '...') | STRUCTURED<'class', name T, ...>

RAW and STRUCTURED are those of Flink's own aggregates: views, and accumulators with views. Those of the user's classes
cannot be described by a text. Numbers may be omitted if SQL has a default: DECIMAL is DECIMAL(10, 0), TIMESTAMP is
TIMESTAMP(6). Flink: ``LogicalTypeParser``, ``LogicalType#asSerializableString``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.serializers.sql.internal import ACCUMULATORS, VIEWS
from pyspark_savepoint.formats.serializers.sql.logical_types import MAX_LENGTH, LogicalType

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.notation.lexer import Token, Tokens

#: Types without arguments, with their type root.
PLAIN: Mapping[str, str] = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "INTEGER": "INTEGER",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
}
#: Types with a length: the root, and the default length.
SIZED: Mapping[str, tuple[str, int]] = {
    "STRING": ("VARCHAR", MAX_LENGTH),
    "BYTES": ("VARBINARY", MAX_LENGTH),
    "CHAR": ("CHAR", 1),
    "VARCHAR": ("VARCHAR", 1),
    "BINARY": ("BINARY", 1),
    "VARBINARY": ("VARBINARY", 1),
}
#: Types with a precision: the root, and the default precision.
TIMES: Mapping[str, tuple[str, int]] = {
    "TIME": ("TIME_WITHOUT_TIME_ZONE", 0),
    "TIMESTAMP": ("TIMESTAMP_WITHOUT_TIME_ZONE", 6),
    "TIMESTAMP_LTZ": ("TIMESTAMP_WITH_LOCAL_TIME_ZONE", 6),
}
COLLECTIONS = ("ARRAY", "MULTISET", "MAP")
WORDS = (*PLAIN, *SIZED, *TIMES, "DECIMAL", "INTERVAL", *COLLECTIONS, "ROW")
#: Types whose snapshots contain classes: those of Flink's own aggregates are known.
OF_CLASSES = ("RAW", "STRUCTURED")
#: Default precision of the units of intervals.
UNITS: Mapping[str, int] = {"YEAR": 2, "MONTH": 0, "DAY": 2, "HOUR": 0, "MINUTE": 0, "SECOND": 6}
#: SQL's names of types that have another name in the DataStream API.
OTHER_WORDS: Mapping[str, str] = {
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
    "BIG_DECIMAL": "DECIMAL(38, 18)",
    "INSTANT": "TIMESTAMP_LTZ(9)",
    "LOCAL_DATE": "DATE",
    "LOCAL_DATE_TIME": "TIMESTAMP(9)",
    "LIST": "ARRAY<T>",
}


def row_fields(tokens: Tokens) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Parse ``< name T, ... >`` or ``< T, ... >``; return names, or an empty tuple, and types."""
    tokens.expect("<")
    return _fields(tokens)


def _fields(tokens: Tokens) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Parse fields up to ``>``."""
    names: list[str] = []
    kinds: list[LogicalType] = []
    while not tokens.is_sign(">"):
        named = _starts_with_name(tokens)
        if kinds and named != bool(names):
            tokens.fail("a name for every field, or for none")
        if named:
            token = tokens.name("the name of a field")
            if token.text in names:
                tokens.fail(f"a name other than {token.text!r}, which an earlier field has", token)
            names.append(token.text)
        kinds.append(logical_type(tokens))
        if not tokens.accept(","):
            break
    tokens.expect(">")
    return tuple(names), tuple(kinds)


def _starts_with_name(tokens: Tokens) -> bool:
    """Return whether a name precedes the type: a text in backquotes, or a word followed by one that begins a type."""
    if tokens.next.kind == "name":
        return True
    following = tokens.ahead(1)
    if tokens.next.upper == "INTERVAL" and following.upper in UNITS:
        return False
    return tokens.next.kind == "word" and following.kind == "word" and following.upper != "NOT"


def logical_type(tokens: Tokens) -> LogicalType:
    token = tokens.word("a type of SQL")
    tokens.descend()
    kind = _without_nullability(token, tokens)
    tokens.ascend()
    nullable = True
    if tokens.accept_word("NOT"):
        if not tokens.accept_word("NULL"):
            tokens.fail("NULL")
        nullable = False
    attribute = kind.kind
    if kind.kind == "REGULAR" and tokens.accept("*"):
        attribute = tokens.word("ROWTIME or PROCTIME").upper
        if attribute not in ("ROWTIME", "PROCTIME"):
            tokens.fail("ROWTIME or PROCTIME")
        tokens.expect("*")
    return replace(kind, nullable=nullable, kind=attribute)


def _without_nullability(token: Token, tokens: Tokens) -> LogicalType:
    word = token.upper
    if word in PLAIN:
        return LogicalType(PLAIN[word])
    if word in SIZED:
        root, default = SIZED[word]
        given = None if word in ("STRING", "BYTES") else _numbers(tokens, 1, (1,), (MAX_LENGTH,))
        return LogicalType(root, length=given[0] if given else default)
    if word in TIMES:
        root, default = TIMES[word]
        given = _numbers(tokens, 1, (0,), (9,))
        if word == "TIMESTAMP" and tokens.accept_word("WITH"):
            root = f"TIMESTAMP_WITH_{'LOCAL_' if tokens.accept_word('LOCAL') else ''}TIME_ZONE"
            if not (tokens.accept_word("TIME") and tokens.accept_word("ZONE")):
                tokens.fail("WITH TIME ZONE, or WITH LOCAL TIME ZONE")
        kind = "" if root == "TIME_WITHOUT_TIME_ZONE" else "REGULAR"
        return LogicalType(root, precision=given[0] if given else default, kind=kind)
    if word == "DECIMAL":
        precision, scale = decimal_arguments(tokens)
        return LogicalType("DECIMAL", precision=precision, scale=scale)
    if word == "INTERVAL":
        return _interval(tokens)
    if word in COLLECTIONS:
        return collection(tokens, word)
    if word == "ROW":
        names, kinds = row_fields(tokens)
        if kinds and not names:
            tokens.fail("names for the fields of a ROW inside ROWDATA: ROW<name T, ...>", token)
        return LogicalType("ROW", names=names, children=kinds)
    if word in OF_CLASSES:
        return _of_class(token, tokens)
    other = OTHER_WORDS.get(word)
    return tokens.fail_unknown("a type of SQL", token, WORDS, f"SQL's word is {other}" if other else None)


def _of_class(token: Token, tokens: Tokens) -> LogicalType:
    """Parse ``('class', '...')`` of a view, or ``<'class', name T, ...>`` of an accumulator."""
    remedy = "its snapshot contains user classes: take the type from a savepoint that has it, option 'typesFrom'"
    structured = token.upper == "STRUCTURED"
    if not tokens.accept("<" if structured else "("):
        tokens.fail("a type that a text can describe", token, remedy)
    name = tokens.take()
    known = name.text.startswith(ACCUMULATORS) if structured else name.text in VIEWS
    if name.kind != "text" or not known:
        tokens.fail("a type that a text can describe", token, remedy)
    tokens.expect(",")
    if structured:
        names, kinds = _fields(tokens)
        return LogicalType("STRUCTURED_TYPE", class_name=name.text, names=names, children=kinds)
    serializer = tokens.take()
    if serializer.kind != "text" or serializer.text != "...":
        tokens.fail("'...', for the serializer of a view", serializer)
    tokens.expect(")")
    return LogicalType("RAW", class_name=name.text)


def collection(tokens: Tokens, root: str) -> LogicalType:
    """Parse ``< T >``, or ``< K, V >`` for a map."""
    tokens.expect("<")
    children = [logical_type(tokens)]
    if root == "MAP":
        tokens.expect(",")
        children.append(logical_type(tokens))
    tokens.expect(">")
    return LogicalType(root, children=tuple(children))


def decimal_arguments(tokens: Tokens) -> tuple[int, int]:
    """Parse ``(p, s)``, ``(p)`` or nothing; return precision and scale."""
    given = _numbers(tokens, 2, (1, 0), (38, 38)) or [10, 0]
    precision, scale = given if len(given) == 2 else (given[0], 0)
    if scale > precision:
        tokens.fail("a scale of at most the precision", tokens.ahead(-2))
    return precision, scale


def precision_argument(tokens: Tokens, default: int) -> int:
    """Parse ``(p)`` or nothing."""
    given = _numbers(tokens, 1, (0,), (9,))
    return given[0] if given else default


def _numbers(tokens: Tokens, most: int, low: tuple[int, ...], high: tuple[int, ...]) -> list[int] | None:
    """Parse numbers in parentheses, each within its bounds; None if there are no parentheses."""
    if not tokens.accept("("):
        return None
    numbers: list[int] = []
    while True:
        token, index = tokens.next, len(numbers)
        value = tokens.number("a number")
        if not low[index] <= value <= high[index]:
            tokens.fail(f"a number from {low[index]} to {high[index]}", token)
        numbers.append(value)
        if len(numbers) == most or not tokens.accept(","):
            break
    tokens.expect(")")
    return numbers


def _interval(tokens: Tokens) -> LogicalType:
    """Parse the units of an interval, such as ``DAY(3) TO SECOND(6)``."""
    first, first_precision = _unit(tokens)
    last, last_precision = _unit(tokens) if tokens.accept_word("TO") else (first, first_precision)
    resolution = first if first == last else f"{first}_TO_{last}"
    order = list(UNITS)
    same = (first in ("YEAR", "MONTH")) == (last in ("YEAR", "MONTH"))
    if not same or order.index(first) > order.index(last):
        tokens.fail("units of an interval from the larger to the smaller, of years and months or of days and below")
    if first in ("YEAR", "MONTH"):
        return LogicalType("INTERVAL_YEAR_MONTH", precision=first_precision if first == "YEAR" else 2, kind=resolution)
    scale = last_precision if last == "SECOND" else 6
    return LogicalType(
        "INTERVAL_DAY_TIME", precision=first_precision if first == "DAY" else 2, scale=scale, kind=resolution
    )


def _unit(tokens: Tokens) -> tuple[str, int]:
    token = tokens.word("a unit of an interval")
    if token.upper not in UNITS:
        tokens.fail_unknown("a unit of an interval", token, UNITS)
    return token.upper, precision_argument(tokens, UNITS[token.upper])
