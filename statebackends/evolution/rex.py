"""Expressions of a compiled plan (RexNodes) over columns of Arrow, with SQL's meaning of NULL.

References, literals, casts without loss, comparisons, AND, OR, NOT, IS NULL, CASE, arithmetic of whole numbers and
decimals, and a few functions of texts are known. All others raise UnsupportedStateError with their name.
Flink: ``RexNodeJsonSerializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.exact import WHOLE_NUMBERS, exactly, raw_type
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of

COMPARISONS: Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
ARITHMETIC: Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


@dataclass(frozen=True)
class RexValues:
    """Values of expressions over some columns, of ``count`` rows."""

    columns: Sequence[pa.Array]
    count: int

    def of(self, node: Mapping[str, Any]) -> pa.Array:
        """Return the values of an expression."""
        kind = node.get("kind")
        if kind == "INPUT_REF":
            return self.columns[int(node["inputIndex"])]
        if kind == "LITERAL":
            return self._literal(node)
        if kind == "CALL":
            return self._call(node)
        raise _unknown(str(kind))

    def _literal(self, node: Mapping[str, Any]) -> pa.Array:
        kind = type_of(node["type"])
        value, wanted = node.get("value"), raw_type(kind)
        if value is None:
            return pa.nulls(self.count, wanted)
        if kind.root in WHOLE_NUMBERS:
            value = int(value)
        elif kind.root == "DECIMAL":
            value = Decimal(str(value))
        elif kind.root == "BOOLEAN":
            value = value is True or value == "true"
        elif kind.root not in ("CHAR", "VARCHAR"):
            raise _unknown(f"a literal of {kind}")
        try:
            return pa.repeat(pa.scalar(value, wanted), self.count)
        except (pa.ArrowInvalid, InvalidOperation):
            raise _unknown(f"the literal {value}") from None

    def _call(self, node: Mapping[str, Any]) -> pa.Array:
        name = function_of(node)
        operands = node.get("operands", [])
        if name in COMPARISONS:
            return COMPARISONS[name](*self._alike(operands))
        if name in ("AND", "OR"):
            parts = [self.of(one) for one in operands]
            whole = parts[0]
            for part in parts[1:]:
                whole = (pc.and_kleene if name == "AND" else pc.or_kleene)(whole, part)
            return whole
        known = FUNCTIONS.get(name)
        if known is None:
            raise _unknown(name)
        return known(self, node)

    def operands(self, node: Mapping[str, Any]) -> list[pa.Array]:
        """Return the values of the operands of a call."""
        return [self.of(one) for one in node.get("operands", [])]

    def _alike(self, operands: Sequence[Mapping[str, Any]]) -> tuple[pa.Array, pa.Array]:
        """Return two columns of one type, the wider of both."""
        left, right = (self.of(one) for one in operands)
        for one in (left, right):
            if pa.types.is_nested(one.type):
                raise _unknown("a comparison of rows, arrays, maps, or times that are finer than milliseconds")
        if left.type == right.type:
            return left, right
        for one, other in ((left, right), (right, left)):
            try:
                cast = one.cast(other.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
            return (cast, other) if one is left else (other, cast)
        raise _unknown(f"a comparison of {left.type} and {right.type}")


def function_of(node: Mapping[str, Any]) -> str:
    """Return the name of the function that a call has.

    >>> function_of({"internalName": "$CONCAT$1"}), function_of({"syntax": "BINARY", "internalName": "$>=$1"})
    ('CONCAT', '>=')
    """
    name = str(node.get("internalName") or node.get("systemName") or node.get("catalogName") or "")
    return name.strip("$").rpartition("$")[0] or name


def type_of(given: Any) -> LogicalType:
    """Return a type of a plan."""
    try:
        return logical_type_of(given)
    except (SavepointError, KeyError, TypeError, ValueError):
        raise _unknown(f"the type {given}") from None


def _unknown(what: str) -> UnsupportedStateError:
    return UnsupportedStateError(
        "an expression of the query is not known here, so its values cannot be computed",
        found=what,
        remedy="give its values in argument 'backfill'",
    )


def _arithmetic(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    kind = type_of(node["type"])
    if kind.root not in (*WHOLE_NUMBERS, "DECIMAL"):
        raise _unknown(f"{function_of(node)} of {kind}")
    wide = pa.int64() if kind.root in WHOLE_NUMBERS else pa.decimal128(38, kind.scale)
    left, right = values.operands(node)
    if kind.root == "DECIMAL" and function_of(node) == "*":
        left, right = (pa.array(one.to_pylist(), pa.decimal128(19, _scale(one))) for one in (left, right))
    else:
        left, right = left.cast(wide), right.cast(wide)
    try:
        return exactly(ARITHMETIC[function_of(node)](left, right), kind, "an expression")
    except pa.ArrowInvalid as error:
        raise ValueRangeError("an expression overflows", found=str(error)) from None


def _scale(column: pa.Array) -> int:
    return column.type.scale if pa.types.is_decimal(column.type) else 0


def _modulo(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    kind = type_of(node["type"])
    left, right = values.operands(node)
    if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
        raise _unknown(f"MOD of {left.type}")
    valid = np.asarray(left.is_valid()) & np.asarray(right.is_valid())
    dividend = np.asarray(left.fill_null(0), np.int64)
    divisor = np.where(valid, np.asarray(right.fill_null(1), np.int64), 1)
    return exactly(pa.array(np.fmod(dividend, divisor), mask=~valid), kind, "an expression")


def _cast(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    return exactly(values.operands(node)[0], type_of(node["type"]), "CAST", digits=True)


def _case(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    kind, operands = type_of(node["type"]), node["operands"]
    result = exactly(values.of(operands[-1]), LogicalType(**{**kind.__dict__, "nullable": True}), "CASE")
    for condition, value in reversed(list(zip(operands[:-1:2], operands[1::2], strict=True))):
        then = exactly(values.of(value), LogicalType(**{**kind.__dict__, "nullable": True}), "CASE")
        result = pc.if_else(pc.fill_null(values.of(condition), False), then, result)
    return result


def _concatenated(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    parts = values.operands(node)
    if not all(pa.types.is_string(part.type) for part in parts):
        raise _unknown("CONCAT of values that are no texts")
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _trimmed(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
    """Return texts without the letters of another text at an end, or at both."""
    side, letters, text = node["operands"]
    trim = TRIMS.get(str(side.get("value")))
    if trim is None or letters.get("kind") != "LITERAL" or not letters.get("value"):
        raise _unknown("TRIM of letters that are no constant")
    return trim(values.of(text), characters=str(letters["value"]))


TRIMS: Mapping[str, Callable[..., pa.Array]] = {
    "BOTH": pc.utf8_trim,
    "LEADING": pc.utf8_ltrim,
    "TRAILING": pc.utf8_rtrim,
}


def _in_case(change: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    """Return Java's change of all letters, where one letter may become several; Arrow keeps their number.

    >>> _in_case(str.upper)(pa.array(["straße"])).to_pylist()
    ['STRASSE']
    """
    return lambda texts: pa.array([None if one is None else change(one) for one in texts.to_pylist()], pa.string())


def _of_values(function: Callable[..., pa.Array]) -> Callable[[RexValues, Mapping[str, Any]], pa.Array]:
    """Return a function of a call that needs the values of its operands alone."""

    def called(values: RexValues, node: Mapping[str, Any]) -> pa.Array:
        return function(*values.operands(node))

    return called


FUNCTIONS: Mapping[str, Callable[[RexValues, Mapping[str, Any]], pa.Array]] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    "MOD": _modulo,
    "%": _modulo,
    "CAST": _cast,
    "REINTERPRET": _cast,
    "CASE": _case,
    "CONCAT": _concatenated,
    "||": _concatenated,
    "TRIM": _trimmed,
    "UPPER": _of_values(_in_case(str.upper)),
    "LOWER": _of_values(_in_case(str.lower)),
    "NOT": _of_values(pc.invert),
    "IS NULL": _of_values(pc.is_null),
    "IS NOT NULL": _of_values(pc.is_valid),
    "IS TRUE": _of_values(lambda column: pc.fill_null(column, False)),
    "COALESCE": _of_values(pc.coalesce),
}
