"""Conditions on columns, for ``--where`` and erasures: what SQL's WHERE takes, without functions, evaluated by Arrow.

::

    total < 0 AND profile.tier = 'GOLD'          = <> != < <= > >=, AND OR NOT, parentheses
    key IN (1042, 1043) OR key LIKE 'test-%'     [NOT] IN, [NOT] LIKE (% and _), [NOT] BETWEEN a AND b
    coupon IS NOT NULL                           IS [NOT] NULL
    last_seen < TIMESTAMP '2026-01-01 00:00:00'  also DATE '2026-01-01', X'C0FFEE', TRUE, FALSE, 1.5, -2e3
    `order id` = 7                               names of any characters
    lines[].buyer = 1042                         true for one of the elements; spent{key}, spent{value} of a map

The meaning is Spark's: a comparison with NULL is NULL, a row is kept where the condition is true, NaN is equal to
itself and greater than any other number. A comparison of different types is an error instead of a cast that may fail.
A test of elements (``[]``, ``{key}``, ``{value}``) is true if it is for at least one of them, also with NOT in it, as
``NOT IN`` has; else it is false. Elements are compared with values, and not with columns.

Parts that AND or OR join are a list, and the values of IN are one set: their number does not matter. Parentheses are
functions in functions, up to :data:`MAX_DEPTH`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)(?!\w)|(?P<bytes>[xX]'[0-9a-fA-F]*')"
    r"|(?P<text>'(?:[^']|'')*')|(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),.\[\]{}-]))"
)
COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: How many parentheses can be inside of each other.
MAX_DEPTH = 100
#: How many digits a number can have: as many as DECIMAL of Flink and Spark.
MAX_DIGITS = 38
#: How much of a condition an error shows on each side of the place that it is about.
MAX_CONTEXT = 60
#: Units of times, and how many of them a microsecond has, or how many microseconds one of them has.
PER_MICRO, MICROS = {"ns": 1000, "us": 1}, {"s": 1_000_000, "ms": 1000}
WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "TIMESTAMP", "DATE"])


#: Returns for each row of a batch whether a condition is true.
Mask = Callable[[pa.RecordBatch], pa.Array]
#: Values of a batch, or of elements.
Values = Callable[[Any], Any]


@dataclass(frozen=True)
class Operand:
    """A column, a field of one, or a literal: its type, and its values in a batch.

    ``elements``: of a column with ``[]`` or ``{key}``, all elements in a batch, and the row of each.
    """

    kind: pa.DataType
    of: Values
    text: str
    literal: pa.Scalar | None = None
    elements: Callable[[pa.RecordBatch], tuple[pa.Array, Longs]] | None = None


@dataclass(frozen=True)
class Condition:
    """A condition that was parsed: ``columns`` that it needs, and which rows of a batch are kept."""

    columns: tuple[str, ...]
    of: Values
    #: The argument that has it, for errors.
    argument: str = "--where"

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return for each row whether the condition is true."""
        try:
            mask = self.of(batch)
        except pa.ArrowException as error:
            raise OptionError(f"{self.argument} cannot be evaluated", found=str(error).splitlines()[0]) from None
        if isinstance(mask, pa.Scalar):
            return pa.repeat(pa.scalar(mask.as_py() is True), len(batch))
        return mask.fill_null(False)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        return batch.filter(self.mask(batch))


def parse_condition(text: str, schema: pa.Schema, argument: str = "--where") -> Condition:
    """Parse a condition on the columns of a schema.

    Args:
        text: The condition.
        schema: The columns, in whose types literals must be.
        argument: The argument that has it, for errors.

    Returns:
        The condition.

    Raises:
        OptionError: If it cannot be parsed, names no column, or compares values of different types; the error shows
            where.

    """
    return _Parser(text, schema, argument).parse()


def with_expression(table: pa.Table, name: str, expression: object) -> pa.Table | None:
    """Return a table with the value of an expression of ``pyarrow.compute`` as another column; None for anything else.

    >>> with_expression(pa.table({"id": [7]}), "next", pc.field("id") + 1).column("next").to_pylist()
    [8]
    """
    if not isinstance(expression, pc.Expression):
        return None
    from pyarrow.dataset import InMemoryDataset

    columns = {each: pc.field(each) for each in table.schema.names} | {name: expression}
    try:
        return InMemoryDataset(table).to_table(columns=columns)
    except (pa.ArrowException, TypeError) as error:
        raise OptionError(f"{name} cannot be evaluated", found=str(error).splitlines()[0]) from None


class _Parser:
    """Recursive descent; ``OR`` binds least, then ``AND``, ``NOT``, comparisons."""

    def __init__(self, text: str, schema: pa.Schema, argument: str) -> None:
        self.text, self.schema, self.argument = text, schema, argument
        self.used: dict[str, None] = {}
        self.names = dict.fromkeys(schema.names)
        self.depth = 0
        #: The column whose elements are compared at the moment.
        self.of_elements: str | None = None
        self.tokens = list(self._tokens())
        self.position = 0

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = TOKEN.match(self.text, position)
            if match is None:
                hint = "texts are in single quotes" if '"' in self.text[position : position + 2] else ""
                self._refuse("this is no part of a condition", position, hint)
            kind = str(match.lastgroup)
            yield kind, match[kind], match.start(kind)
            position = match.end()

    def _refuse(self, problem: str, position: int, remedy: str = "") -> NoReturn:
        shown = self.text[position : position + 2 * MAX_CONTEXT].strip()
        start, end = max(0, position - MAX_CONTEXT), position + 2 * MAX_CONTEXT
        context = ("..." if start else "") + self.text[start:end] + ("..." if end < len(self.text) else "")
        raise OptionError(
            f"{self.argument}: {problem}",
            found=f"{shown[:MAX_CONTEXT]!r}, at character {position + 1} of {context!r}"
            if shown
            else f"the end of {context!r}",
            remedy=remedy or f"such as {self.argument} \"total < 0 AND profile.tier = 'GOLD'\"",
        )

    # -- tokens ------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        return self.tokens[self.position][2] if self.position < len(self.tokens) else len(self.text)

    def _is(self, *wanted: str) -> bool:
        if self.position == len(self.tokens):
            return False
        kind, text, _ = self.tokens[self.position]
        return (kind == "sign" and text in wanted) or (kind == "word" and text.upper() in wanted)

    def _take(self, *wanted: str) -> str | None:
        if not self._is(*wanted):
            return None
        self.position += 1
        return self.tokens[self.position - 1][1].upper()

    def _expect(self, symbol: str) -> None:
        if self._take(symbol) is None:
            self._refuse(f"{symbol} is missing", self._here)

    # -- conditions --------------------------------------------------------------------------------------------

    def parse(self) -> Condition:
        condition = self._either()
        if self.position < len(self.tokens):
            self._refuse("AND or OR is missing", self._here)
        return Condition(tuple(self.used), condition, self.argument)

    def _either(self) -> Values:
        parts = [self._both()]
        while self._take("OR"):
            parts.append(self._both())
        return _folded(pc.or_kleene, parts)

    def _both(self) -> Values:
        parts = [self._negated()]
        while self._take("AND"):
            parts.append(self._negated())
        return _folded(pc.and_kleene, parts)

    def _negated(self) -> Values:
        negated = False
        while self._take("NOT"):
            negated = not negated
        start = self._here
        if self._take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self._refuse(
                    f"there are more than {MAX_DEPTH} parentheses inside of each other",
                    start,
                    "leave out those that are not needed: AND and OR take any number of parts",
                )
            inner = self._either()
            self._expect(")")
            self.depth -= 1
        else:
            inner = self._comparison()
        return _not(inner) if negated else inner

    def _comparison(self) -> Values:
        start, left = self._here, self._operand()
        if left.elements is None:
            return self._predicate(left, start)
        self.of_elements = left.text
        predicate, elements = self._predicate(Operand(left.kind, _same, left.text), start), left.elements
        self.of_elements = None

        def one_of_them(batch: pa.RecordBatch) -> pa.Array:
            values, rows = elements(batch)
            matches = predicate(values).fill_null(False).to_numpy(zero_copy_only=False)
            return pa.array(np.bincount(rows[matches], minlength=len(batch)) > 0)

        return one_of_them

    def _predicate(self, left: Operand, start: int) -> Values:
        """Return what is said of a column, or of its elements."""
        sign = self._take(*COMPARISONS)
        if sign is not None:
            return self._compared(COMPARISONS[sign], left, self._operand(), start)
        if self._take("IS"):
            negated = self._take("NOT") is not None
            self._expect("NULL")
            null = left.of
            return _not(lambda batch: pc.is_null(null(batch))) if negated else lambda batch: pc.is_null(null(batch))
        negated = self._take("NOT") is not None
        if self._take("IN"):
            predicate = self._among(left, start)
        elif self._take("BETWEEN"):
            low = self._operand()
            self._expect("AND")
            high = self._operand()
            bounds = [self._compared(">=", left, low, start), self._compared("<=", left, high, start)]
            predicate = _folded(pc.and_kleene, bounds)
        elif self._take("LIKE"):
            predicate = self._like(left, start)
        elif negated:
            self._refuse("IN, LIKE or BETWEEN is missing after NOT", self._here)
        elif pa.types.is_boolean(left.kind):
            return left.of
        else:
            self._refuse(f"a comparison with {left.text} is missing", self._here)
        return _not(predicate) if negated else predicate

    def _among(self, left: Operand, start: int) -> Values:
        """Return the test whether a value is in a list: literals are one set, anything else is compared by itself."""
        self._expect("(")
        family = _family(left) if left.literal is None else ""
        values: list[Any] = []
        parts: list[Values] = []
        while True:
            value = self._plain(family)
            if value is not None:
                values.append(value)
            else:
                parts.append(self._compared("=", left, self._operand(), start))
            if self._take(",") is None:
                break
        self._expect(")")
        if values:
            parts.insert(0, _in_set(left, self._set(left.kind, values, start)))
        return _folded(pc.or_kleene, parts)

    def _plain(self, family: str) -> Any:
        """Take a number or text of a list that is compared with values of a family; None for all else."""
        at = self.position
        negative = family == "number" and at < len(self.tokens) and self.tokens[at][1] == "-"
        at += negative
        if at + 1 >= len(self.tokens) or self.tokens[at + 1][1] not in (",", ")"):
            return None
        kind, text, start = self.tokens[at]
        if kind == "number" and family == "number" and text.isdecimal() and len(text) < MAX_DIGITS:
            value: Any = -int(text) if negative else int(text)
        elif kind == "number" and family == "number" and "e" not in text.lower():
            literal = self._number(f"-{text}" if negative else text, start).literal
            value = None if literal is None else literal.as_py()
        elif kind == "text" and family in ("text", "date", "timestamp"):
            value = text[1:-1].replace("''", "'")
        else:
            return None
        self.position = at + 1
        return value

    def _set(self, kind: pa.DataType, values: list[Any], start: int) -> pa.Array:
        """Return those of some literals that a type can hold, in this type; floating numbers as doubles."""
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            zone = getattr(kind, "tz", None)
            return _moments([self._parsed(text, pa.types.is_date(kind), zone, start) for text in values], kind)
        if pa.types.is_floating(kind):
            return pa.array([float(value) + 0.0 for value in values], pa.float64())
        if pa.types.is_integer(kind):
            width = kind.bit_width - pa.types.is_signed_integer(kind)
            low = -(1 << width) if pa.types.is_signed_integer(kind) else 0
            return pa.array([int(value) for value in values if value == int(value) and low <= value < 1 << width], kind)
        if pa.types.is_decimal(kind):
            step, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)
            exact = (Decimal(value) for value in values)
            return pa.array([value for value in exact if abs(value) < limit and not value % step], kind)
        return pa.array(values, kind)

    def _like(self, left: Operand, start: int) -> Values:
        pattern = self._operand()
        if pattern.literal is None or not pa.types.is_string(pattern.kind) or not pa.types.is_string(left.kind):
            self._refuse("LIKE takes a column of texts and a text", start)
        text = pattern.literal.as_py()
        return lambda batch: pc.match_like(left.of(batch), text)

    def _compared(self, sign: str, left: Operand, right: Operand, start: int) -> Values:
        one, other = _family(left), _family(right)
        if right.elements is not None:
            self._refuse(f"elements are on the left side: {right.text} is on the right one", start)
        if "null" in (one, other):
            self._refuse("a comparison with NULL is never true", start, "IS NULL, or IS NOT NULL")
        if one in ("date", "timestamp") and right.literal is not None and other == "text":
            right, other = self._moment(right, left.kind, start), one
        elif other in ("date", "timestamp") and left.literal is not None and one == "text":
            left, one = self._moment(left, right.kind, start), other
        if one != other or one == "nested":
            self._refuse(
                f"{left.text} is {_type_words(left)}, {right.text} is {_type_words(right)}: they cannot be compared",
                start,
                "compare a field of it, such as profile.tier, or its elements: lines[], spent{key}, spent{value}"
                if "nested" in (one, other)
                else "",
            )
        if one == "boolean" and sign not in ("=", "<>"):
            self._refuse("booleans are equal or not", start)
        if one == "timestamp" and (left.kind.tz is None) != (right.kind.tz is None):
            left, right = _zoned(left), _zoned(right)
        return lambda batch: _compare(sign, left.of(batch), right.of(batch))

    def _moment(self, literal: Operand, kind: pa.DataType, start: int) -> Operand:
        assert literal.literal is not None
        return self._at(literal.literal.as_py(), pa.types.is_date(kind), getattr(kind, "tz", None), start)

    def _at(self, text: str, is_date: bool, zone: str | None, start: int) -> Operand:
        parsed = self._parsed(text, is_date, zone, start)
        kind = pa.date32() if is_date else pa.timestamp("us", None if zone is None else "UTC")
        return _literal(pa.scalar(parsed, kind), repr(text))

    def _parsed(self, text: str, is_date: bool, zone: str | None, start: int) -> dt.date:
        """Return a day, or a moment, which has a zone if the column has one."""
        try:
            if is_date:
                return dt.date.fromisoformat(text)
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            self._refuse(
                f"{text!r} is no {'date' if is_date else 'time'}",
                start,
                "such as '2026-01-31' or '2026-01-31 12:00:00'",
            )
        if zone is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        if zone is None and moment.tzinfo is not None:
            self._refuse("the column has no time zone", start)
        return moment

    # -- operands ----------------------------------------------------------------------------------------------

    def _operand(self) -> Operand:
        start, negative = self._here, False
        while self._take("-"):
            negative = not negative
            if self.position == len(self.tokens) or self.tokens[self.position][0] not in ("number", "sign"):
                self._refuse("a number is missing after -", start)
        if self.position == len(self.tokens):
            self._refuse("a column or value is missing", start)
        kind, text, _ = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return self._number(f"-{text}" if negative else text, start)
        if kind == "text":
            return _literal(pa.scalar(text[1:-1].replace("''", "'")), text)
        if kind == "bytes":
            if len(text) % 2:
                return _literal(pa.scalar(bytes.fromhex(text[2:-1])), text)
            self._refuse("bytes have two digits each", start)
        if kind == "word" and text.upper() in WORDS:
            return self._word(text.upper(), start)
        if kind == "sign":
            self._refuse("a number is missing after -" if negative else "a column or value is missing", start)
        return self._column(start)

    def _number(self, text: str, start: int) -> Operand:
        """Return a literal as SQL has it: whole, decimal, or with an exponent a double."""
        if "e" in text.lower():
            double = float(text)
            if double in (float("inf"), float("-inf")):
                self._refuse("the number is out of range", start, "numbers with an exponent are doubles, up to 1.8e308")
            return _literal(pa.scalar(double), text)
        if len(text.removeprefix("-").replace(".", "").lstrip("0")) > MAX_DIGITS:
            self._refuse(f"the number has more than {MAX_DIGITS} digits", start)
        if "." in text:
            return _literal(pa.scalar(Decimal(text)), text)
        number = int(text)
        return _literal(pa.scalar(number if -(1 << 63) <= number < 1 << 63 else Decimal(number)), text)

    def _word(self, word: str, start: int) -> Operand:
        if word in ("TRUE", "FALSE"):
            return _literal(pa.scalar(word == "TRUE"), word)
        if word == "NULL":
            return _literal(pa.scalar(None), word)
        if word not in ("TIMESTAMP", "DATE"):
            self._refuse("a column or value is missing", start)
        kind, text, _ = self.tokens[self.position] if self.position < len(self.tokens) else ("", "", 0)
        if kind != "text":
            return self._column(start)  # a column of this name
        self.position += 1
        return self._at(text[1:-1], word == "DATE", "UTC" if word == "TIMESTAMP" else None, start)

    def _column(self, start: int) -> Operand:
        kind, text, _ = self.tokens[self.position - 1]
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        if self._is("("):
            self._refuse(f"{name} is a function: conditions have none", start)
        if self.of_elements is not None:
            self._refuse(f"{self.of_elements} is compared with values, and not with a column", start)
        column = self._known(name, self.names, start)
        self.used[column] = None
        data_type, shown = self.schema.field(column).type, column
        steps: list[Step] = []
        while sign := self._take(".", "[", "{"):
            at = self._here
            if sign == ".":
                if self.position == len(self.tokens) or self.tokens[self.position][0] not in ("word", "quoted"):
                    self._refuse("the name of a field is missing", at)
                kind, text, at = self.tokens[self.position]
                self.position += 1
                if not pa.types.is_struct(data_type):
                    self._refuse(f"{shown} has no fields{_ways(shown, data_type)}", at)
                fields = {data_type.field(i).name: data_type.field(i).type for i in range(data_type.num_fields)}
                name = text[1:-1].replace("``", "`") if kind == "quoted" else text
                name = self._known(name, fields, at)
                shown, data_type = f"{shown}.{name}", fields[name]
                steps.append(name)
                continue
            part = None
            if sign == "[" and self._take("]") and pa.types.is_list(data_type):
                part, shown, data_type = 0, f"{shown}[]", data_type.value_type
            elif (
                sign == "{" and (word := self._take("KEY", "VALUE")) and self._take("}") and pa.types.is_map(data_type)
            ):
                part = int(word == "VALUE")
                shown += f"{{{word.lower()}}}"
                data_type = data_type.item_type if part else data_type.key_type
            if part is None:
                self._refuse(
                    f"{shown} has no such elements{_ways(shown, data_type)}",
                    at,
                    "[] after a list, {key} or {value} after a map",
                )
            steps.append(part)
        if any(isinstance(step, int) for step in steps):
            return Operand(data_type, _same, shown, elements=lambda batch: _elements_of(batch.column(column), steps))
        inner = [str(step) for step in steps]

        def values(batch: pa.RecordBatch) -> Any:
            whole = batch.column(column)
            return pc.struct_field(whole, inner) if inner else whole

        return Operand(data_type, values, shown)

    def _known(self, name: str, names: Mapping[str, Any], start: int) -> str:
        """Return a name as it is written; as in Spark, case makes no difference unless two names differ by it."""
        if name in names:
            return name
        matches = [known for known in names if known.casefold() == name.casefold()]
        if len(matches) != 1:
            problem = f"there is no column {name}" if not matches else f"{name} is {' or '.join(matches)}"
            self._refuse(problem, start, did_you_mean(name, names))
        return matches[0]


def _literal(scalar: pa.Scalar, text: str) -> Operand:
    return Operand(scalar.type, lambda _: scalar, text, scalar)


def _family(operand: Operand) -> str:
    types, kind = pa.types, operand.kind
    tests = {
        "null": types.is_null,
        "boolean": types.is_boolean,
        "text": types.is_string,
        "bytes": types.is_binary,
        "date": types.is_date,
        "timestamp": types.is_timestamp,
        "time": types.is_time,
        "nested": types.is_nested,
    }
    return next((name for name, is_one in tests.items() if is_one(kind)), "number")


def _type_words(operand: Operand) -> str:
    return f"a value of type {operand.kind}" if _family(operand) == "nested" else f"a {_family(operand)}"


def _zoned(operand: Operand) -> Operand:
    """Return a time with UTC, which is the zone of times without one here, as in ``ls --sql``."""
    kind = pa.timestamp("us", "UTC")
    return Operand(kind, lambda batch: operand.of(batch).cast(kind), operand.text, operand.literal)


def _same(values: Any) -> Any:
    return values


def _folded(function: Callable[[Any, Any], Any], parts: Sequence[Values]) -> Values:
    """Return what a function makes of all parts, one after the other."""
    return parts[0] if len(parts) == 1 else lambda batch: reduce(function, (part(batch) for part in parts))


def _in_set(left: Operand, values: pa.Array) -> Values:
    """Return the test whether values are in a set; that of NULL is NULL."""

    def among(batch: Any) -> pa.Array:
        column = left.of(batch)
        if pa.types.is_floating(column.type):
            column = pc.add(pc.cast(column, pa.float64(), safe=False), 0.0)  # -0.0 is 0.0
        return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=values), None)

    return among


def _moments(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return days or moments in a type; those that it cannot hold are none of its values."""
    if pa.types.is_date(kind):
        return pa.array(values, kind)
    micros = pa.array(values).cast(pa.timestamp("us", None if kind.tz is None else "UTC")).cast(pa.int64()).to_pylist()
    if kind.unit in MICROS:
        each = MICROS[kind.unit]
        units = [value // each for value in micros if value % each == 0]
    else:
        units = [value * PER_MICRO[kind.unit] for value in micros]
    return pa.array([unit for unit in units if -(1 << 63) <= unit < 1 << 63], pa.int64()).cast(kind)


#: A field by its name, elements of lists and keys of maps (0), or values of maps (1).
Step = str | int


def _ways(name: str, kind: pa.DataType) -> str:
    """Return how the elements of a column are named; nothing if it has none."""
    if pa.types.is_map(kind):
        return f": it is a map, of {name}{{key}} and {name}{{value}}"
    return f": it is a list, of {name}[]" if pa.types.is_list(kind) else ""


def _elements_of(column: pa.Array, steps: Sequence[Step]) -> tuple[pa.Array, Longs]:
    """Return the elements at the end of a path, and the row of each."""
    rows = np.arange(len(column))
    for step in steps:
        if isinstance(step, str):
            column = pc.struct_field(column, [step])
        else:
            counts, parts = flattened(column)
            rows, column = np.repeat(rows, counts), parts[step]
    return column, rows


def flattened(column: pa.Array) -> tuple[Longs, list[pa.Array]]:
    """Return the number of elements of each list or map, and the elements of all: values, or keys and values.

    >>> counts, (values,) = flattened(pa.array([[1, 2], None, [], [3]]))
    >>> counts.tolist(), values.to_pylist()
    ([2, 0, 0, 1], [1, 2, 3])
    """
    # Compact, so that offsets begin at 0 and NULLs are empty.
    column = pa.concat_arrays([pa.array([], column.type), column])
    is_map = pa.types.is_map(column.type)
    lists = pa.ListArray.from_arrays(column.offsets, column.keys) if is_map else column
    counts = pc.if_else(column.is_valid(), pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    counts = counts.astype(np.int64)
    starts = np.repeat(column.offsets.to_numpy().astype(np.int64)[:-1], counts)
    places = pa.array(starts + np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts))
    return counts, [part.take(places) for part in ((column.keys, column.items) if is_map else (column.values,))]


def _not(one: Values) -> Values:
    return lambda batch: pc.invert(one(batch))


def _compare(sign: str, left: Any, right: Any) -> Any:
    """Compare values; of doubles, NaN is equal to itself and greater than all others, as in Spark."""
    if sign == "<>":
        return pc.invert(_compare("=", left, right))
    if sign in ("<", "<="):
        return _compare(">" if sign == "<" else ">=", right, left)
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        left, right = (pc.cast(one, pa.float64(), safe=False) for one in (left, right))
        plain = {"=": pc.equal, ">": pc.greater, ">=": pc.greater_equal}[sign](left, right)
        nan, other = pc.is_nan(left), pc.is_nan(right)
        if sign == ">":
            return pc.or_(plain, pc.and_(nan, pc.invert(other)))
        return pc.or_(plain, pc.and_(nan, other) if sign == "=" else nan)
    return {"=": pc.equal, ">": pc.greater, ">=": pc.greater_equal}[sign](left, right)


def mask_of(condition: object, schema: pa.Schema, argument: str) -> tuple[Mask, tuple[str, ...]]:
    """Return a condition as a function of batches, and the columns that it needs.

    A condition is a text, as in ``--where``, or an expression of ``pyarrow.compute``.
    """
    if isinstance(condition, str):
        parsed = parse_condition(condition, schema, argument)
        return parsed.mask, parsed.columns
    if isinstance(condition, pc.Expression):
        expression = condition

        def mask(batch: pa.RecordBatch) -> pa.Array:
            numbered = pa.Table.from_batches([batch]).append_column(
                "row number", pa.array(range(len(batch)), pa.int64())
            )
            try:
                kept = numbered.filter(expression).column("row number").combine_chunks()
            except (pa.ArrowException, TypeError) as error:
                raise OptionError(f"{argument} cannot be evaluated", found=str(error).splitlines()[0]) from None
            return pc.is_in(numbered.column("row number").combine_chunks(), value_set=kept)

        return mask, tuple(schema.names)
    if type_name(condition).rpartition(".")[2] == "Column":
        raise OptionError(
            f"{argument} is a column of Spark, which the process that reads the state cannot evaluate",
            expected="comparisons with numbers, texts and bytes, AND, OR, NOT, IN, LIKE, tests for NULL",
            found=str(condition),
            remedy="with Spark, leave functions out; or give a text, or pyarrow.compute.field('buyer') == 1042",
        )
    raise OptionError(
        f"{argument} must be a text or an expression of Arrow",
        expected="such as \"buyer = 1042\", or pyarrow.compute.field('buyer') == 1042",
        found=type_name(condition),
    )
