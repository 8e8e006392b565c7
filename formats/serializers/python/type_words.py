"""Notation of option ``pyTypes``: the types that a PyFlink job declared for its states.

    pyTypes  := state (";" state)*
    state    := NAME [kind] type                 NAME without spaces, or in backquotes
    kind     := VALUE | LIST | MAP | REDUCING | AGGREGATING
    type     := LONG | STRING | PICKLED | ...    as Types.LONG() ... of PyFlink; LEAVES below
              | ROW<type, ...> | ROW<name type, ...> | TUPLE<type, ...> | MAP<type, type>
              | LIST<type> | BASIC_ARRAY<type> | OBJECT_ARRAY<type> | PRIMITIVE_ARRAY<type>

After a kind, ``type`` is that of the value, of a list's elements, or ``MAP<K, V>``. Without a kind, ``LIST<T>`` is a
list state of T or a value that is a list, depending on the bytes; any other type is that of a value, or a map state's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark_savepoint.formats.errors import TypeNotationError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.blobs import BYTES, BytesSerializer
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer, MapSerializer
from pyspark_savepoint.formats.serializers.composite.tuples import TupleSerializer
from pyspark_savepoint.formats.serializers.notation.names import SIMPLE
from pyspark_savepoint.formats.serializers.notation.parser import MAX_TUPLE, Parser
from pyspark_savepoint.formats.serializers.python.coders import (
    CODERS,
    DateCoder,
    DecimalCoder,
    PickledCoder,
    StringCoder,
    TimeCoder,
    TimestampCoder,
)
from pyspark_savepoint.formats.serializers.runtime.windows import STREAM_WINDOW, TimeWindowSerializer

KINDS = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
STRING, DECIMAL = StringCoder.of(CODERS + "CharCoder"), DecimalCoder.of(CODERS + "BigDecimalCoder")
PICKLED = PickledCoder.of(CODERS + "CloudPickleCoder")
DATE, TIME = DateCoder.of(CODERS + "DateCoder"), TimeCoder.of(CODERS + "TimeCoder")
TIMESTAMP, BINARY = TimestampCoder.of(CODERS + "TimestampCoder"), BytesSerializer.of(BYTES)
TIME_WINDOW = TimeWindowSerializer.of(STREAM_WINDOW)
LEAVES: Mapping[str, TypeSerializer] = MappingProxyType(
    {
        **{word: SIMPLE[word] for word in ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "INSTANT")},
        "BIG_INT": SIMPLE["LONG"],
        **dict.fromkeys(("STRING", "CHAR"), STRING),
        **dict.fromkeys(("BIG_DEC", "BIG_DECIMAL"), DECIMAL),
        **dict.fromkeys(("DATE", "SQL_DATE"), DATE),
        **dict.fromkeys(("TIME", "SQL_TIME"), TIME),
        **dict.fromkeys(("TIMESTAMP", "SQL_TIMESTAMP"), TIMESTAMP),
        **dict.fromkeys(("BYTES", "BINARY"), BINARY),
        **dict.fromkeys(("PICKLED", "PICKLED_BYTE_ARRAY", "PICKLED_BYTES"), PICKLED),
        "TIME_WINDOW": TIME_WINDOW,
    }
)
COMPOSITES = ("ROW", "TUPLE", "MAP", "LIST", "BASIC_ARRAY", "OBJECT_ARRAY", "PRIMITIVE_ARRAY")
STATE = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`;]+))\s+(.*)", re.DOTALL)
#: The newest release, because these types do not depend on the release.
ANY_RELEASE = (99, 0)


class PythonTypeParser(Parser):
    """Parser of PyFlink's types."""

    def type(self) -> TypeSerializer:
        tokens = self.tokens
        token = tokens.word("a type of PyFlink")
        word = token.upper
        tokens.descend()
        found = LEAVES.get(word)
        if word == "ROW":
            found = self.row(token)
        elif word == "TUPLE":
            found = TupleSerializer.of(*self.arguments(token, 1, MAX_TUPLE))
        elif word == "MAP":
            found = MapSerializer.of(*self.arguments(token, 2, 2))
        elif word == "PRIMITIVE_ARRAY":
            found = self.array(token)
        elif word in COMPOSITES:
            found = list_of(self.arguments(token, 1, 1)[0])
        elif found is None:
            tokens.fail_unknown("a type of PyFlink", token, [*LEAVES, *COMPOSITES])
        tokens.ascend()
        return found


@dataclass(frozen=True)
class ListCoder(GenericArraySerializer):
    """Serializer of a value that is a list: a flag before each element."""

    @property
    def flink_type(self) -> str:
        return f"LIST<{self.element.flink_type}>"


def list_of(element: TypeSerializer) -> ListCoder:
    """Return the coder of a value that is a list."""
    return ListCoder(CODERS + "GenericArrayCoder", 3, 1, (element,), "")


@dataclass(frozen=True)
class DeclaredState:
    """Type of a state as declared in option ``pyTypes``; ``kind`` is empty if it is not declared."""

    kind: str
    type: TypeSerializer
    text: str = ""


def parse_python_types(text: str) -> dict[str, DeclaredState]:
    """Parse the text of option ``pyTypes``.

    >>> {name: (found.kind, found.type.flink_type) for name, found in parse_python_types("a LONG; b LIST INT").items()}
    {'a': ('', 'LONG'), 'b': ('LIST', 'INT')}
    """
    found: dict[str, DeclaredState] = {}
    for part in re.findall(r"(?:[^;`]|`(?:[^`]|``)*`)+", text):
        if not part.strip():
            continue
        match = STATE.fullmatch(part)
        if match is None:
            raise TypeNotationError(
                "option 'pyTypes' needs a name and a type per state",
                expected="such as: total LONG; tags LIST<STRING>",
                found=part[:80],
            )
        name = match[1].replace("``", "`") if match[1] else match[2]
        if name in found:
            raise TypeNotationError(f"state {name[:80]!r} has two types", expected="one type for each state")
        found[name] = _declared(match[3])
    return found


def _declared(text: str) -> DeclaredState:
    parser = PythonTypeParser(text, ANY_RELEASE)
    first, second = parser.tokens.next, parser.tokens.ahead(1)
    kind = first.upper if first.upper in KINDS and second.kind == "word" else ""
    if kind:
        parser.tokens.take()
    kind_of = parser.type()
    if parser.tokens.next.kind != "end":
        parser.tokens.fail("';' or the end after a type")
    if kind == "MAP" and not isinstance(kind_of, MapSerializer):
        parser.tokens.fail("MAP<K, V> for a map state", first)
    return DeclaredState(kind, kind_of, text)
