"""Conditions on columns, for ``--where`` and erasures: what SQL's WHERE takes, without functions, evaluated by Arrow.

::

    total < 0 AND profile.tier = 'GOLD'          = <> != < <= > >=, AND OR NOT, parentheses
    key IN (1042, 1043) OR key LIKE 'test-%'     [NOT] IN, [NOT] LIKE (% and _), [NOT] BETWEEN a AND b
    coupon IS NOT NULL                           IS [NOT] NULL
    last_seen < TIMESTAMP '2026-01-01 00:00:00'  also DATE '2026-01-01', X'C0FFEE', TRUE, FALSE, 1.5, -2e3
    `order id` = 7                               names of any characters

The meaning is Spark's: a comparison with NULL is NULL, a row is kept where the condition is true, NaN is equal to
itself and greater than any other number. A comparison of different types is an error instead of a cast that may fail.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.errors import OptionError, did_you_mean

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?!\w)|(?P<bytes>[xX]'[0-9a-fA-F]*')"
    r"|(?P<text>'(?:[^']|'')*')|(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|<>|!=|==|[=<>(),.-]))"
)
COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "TIMESTAMP", "DATE"])


@dataclass(frozen=True)
class Operand:
    """A column, a field of one, or a literal: its type, and its values in a batch."""

    kind: pa.DataType
    of: Callable[[pa.RecordBatch], Any]
    text: str
    literal: pa.Scalar | None = None


@dataclass(frozen=True)
class Condition:
    """A condition that was parsed: ``columns`` that it needs, and which rows of a batch are kept."""

    columns: tuple[str, ...]
    of: Callable[[pa.RecordBatch], Any]
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
        shown = self.text[position:].strip()
        raise OptionError(
            f"{self.argument}: {problem}",
            found=f"{shown[:60]!r}, at character {position + 1} of {self.text!r}"
            if shown
            else f"the end of {self.text!r}",
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

    def _expect(self, wanted: str) -> None:
        if self._take(wanted) is None:
            self._refuse(f"{wanted} is missing", self._here)

    # -- conditions --------------------------------------------------------------------------------------------

    def parse(self) -> Condition:
        condition = self._either()
        if self.position < len(self.tokens):
            self._refuse("AND or OR is missing", self._here)
        return Condition(tuple(self.used), condition, self.argument)

    def _either(self) -> Callable[[pa.RecordBatch], Any]:
        one = self._both()
        while self._take("OR"):
            one = _joined(pc.or_kleene, one, self._both())
        return one

    def _both(self) -> Callable[[pa.RecordBatch], Any]:
        one = self._negated()
        while self._take("AND"):
            one = _joined(pc.and_kleene, one, self._negated())
        return one

    def _negated(self) -> Callable[[pa.RecordBatch], Any]:
        if self._take("NOT"):
            return _not(self._negated())
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Callable[[pa.RecordBatch], Any]:
        start, left = self._here, self._operand()
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
            predicate = _joined(
                pc.and_kleene, self._compared(">=", left, low, start), self._compared("<=", left, high, start)
            )
        elif self._take("LIKE"):
            predicate = self._like(left, start)
        elif negated:
            self._refuse("IN, LIKE or BETWEEN is missing after NOT", self._here)
        elif pa.types.is_boolean(left.kind):
            return left.of
        else:
            self._refuse(f"a comparison with {left.text} is missing", self._here)
        return _not(predicate) if negated else predicate

    def _among(self, left: Operand, start: int) -> Callable[[pa.RecordBatch], Any]:
        self._expect("(")
        predicate = self._compared("=", left, self._operand(), start)
        while self._take(","):
            predicate = _joined(pc.or_kleene, predicate, self._compared("=", left, self._operand(), start))
        self._expect(")")
        return predicate

    def _like(self, left: Operand, start: int) -> Callable[[pa.RecordBatch], Any]:
        pattern = self._operand()
        if pattern.literal is None or not pa.types.is_string(pattern.kind) or not pa.types.is_string(left.kind):
            self._refuse("LIKE takes a column of texts and a text", start)
        return lambda batch: pc.match_like(left.of(batch), pattern.literal.as_py())  # type: ignore[union-attr]

    def _compared(self, sign: str, left: Operand, right: Operand, start: int) -> Callable[[pa.RecordBatch], Any]:
        one, other = _family(left), _family(right)
        if "null" in (one, other):
            self._refuse("a comparison with NULL is never true", start, "IS NULL, or IS NOT NULL")
        if one in ("date", "timestamp") and right.literal is not None and other == "text":
            right, other = self._moment(right, left.kind, start), one
        elif other in ("date", "timestamp") and left.literal is not None and one == "text":
            left, one = self._moment(left, right.kind, start), other
        if one != other or one == "nested":
            self._refuse(
                f"{left.text} is {_named(left)}, {right.text} is {_named(right)}: they cannot be compared",
                start,
                "compare a field of it, such as profile.tier" if "nested" in (one, other) else "",
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
        try:
            if is_date:
                return _literal(pa.scalar(dt.date.fromisoformat(text)), repr(text))
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
        return _literal(pa.scalar(moment, pa.timestamp("us", None if zone is None else "UTC")), repr(text))

    # -- operands ----------------------------------------------------------------------------------------------

    def _operand(self) -> Operand:
        start = self._here
        if self._take("-"):
            number = self._operand()
            if number.literal is None or _family(number) != "number":
                self._refuse("a number is missing after -", start)
            return _literal(pa.scalar(-number.literal.as_py(), number.kind), f"-{number.text}")
        if self.position == len(self.tokens):
            self._refuse("a column or value is missing", start)
        kind, text, _ = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return _literal(_number(text), text)
        if kind == "text":
            return _literal(pa.scalar(text[1:-1].replace("''", "'")), text)
        if kind == "bytes":
            if len(text) % 2:
                return _literal(pa.scalar(bytes.fromhex(text[2:-1])), text)
            self._refuse("bytes have two digits each", start)
        if kind == "word" and text.upper() in WORDS:
            return self._word(text.upper(), start)
        if kind == "sign":
            self._refuse("a column or value is missing", start)
        return self._column(start)

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
        column = self._known(name, self.schema.names, start)
        self.used[column] = None
        data_type, path = self.schema.field(column).type, [column]
        while self._take("."):
            if self.position == len(self.tokens) or self.tokens[self.position][0] not in ("word", "quoted"):
                self._refuse("the name of a field is missing", self._here)
            kind, text, at = self.tokens[self.position]
            self.position += 1
            if not pa.types.is_struct(data_type):
                self._refuse(f"{'.'.join(path)} has no fields", at)
            fields = [data_type.field(number) for number in range(data_type.num_fields)]
            name = text[1:-1].replace("``", "`") if kind == "quoted" else text
            name = self._known(name, [field.name for field in fields], at)
            path.append(name)
            data_type = next(field.type for field in fields if field.name == name)
        inner = path[1:]

        def values(batch: pa.RecordBatch) -> Any:
            whole = batch.column(column)
            return pc.struct_field(whole, inner) if inner else whole

        return Operand(data_type, values, ".".join(path))

    def _known(self, name: str, names: list[str], start: int) -> str:
        """Return a name as it is written; as in Spark, case makes no difference unless two names differ by it."""
        matches = [known for known in names if known == name] or [
            known for known in names if known.casefold() == name.casefold()
        ]
        if len(matches) != 1:
            problem = f"there is no column {name}" if not matches else f"{name} is {' or '.join(matches)}"
            self._refuse(problem, start, did_you_mean(name, names))
        return matches[0]


def _literal(scalar: pa.Scalar, text: str) -> Operand:
    return Operand(scalar.type, lambda _: scalar, text, scalar)


def _number(text: str) -> pa.Scalar:
    """Return a literal as SQL has it: whole, decimal, or with an exponent a double."""
    if "e" in text.lower():
        return pa.scalar(float(text))
    if "." in text:
        return pa.scalar(Decimal(text))
    number = int(text)
    return pa.scalar(number) if number < 1 << 63 else pa.scalar(Decimal(number))


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


def _named(operand: Operand) -> str:
    return f"a value of type {operand.kind}" if _family(operand) == "nested" else f"a {_family(operand)}"


def _zoned(operand: Operand) -> Operand:
    """Return a time with UTC, which is the zone of times without one here, as in ``ls --sql``."""
    kind = pa.timestamp("us", "UTC")
    return Operand(kind, lambda batch: operand.of(batch).cast(kind), operand.text, operand.literal)


def _joined(
    function: Callable[[Any, Any], Any], one: Callable[[pa.RecordBatch], Any], other: Callable[[pa.RecordBatch], Any]
) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: function(one(batch), other(batch))


def _not(one: Callable[[pa.RecordBatch], Any]) -> Callable[[pa.RecordBatch], Any]:
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
