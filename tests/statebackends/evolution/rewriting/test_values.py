"""Values of NEW's fields: moved, cast, filled, given, computed, and expressions of a plan."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.notation.lexer import Tokens
from pyspark_savepoint.formats.serializers.notation.sql import logical_type
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    Call,
    Cast,
    Constant,
    Expression,
    FieldSource,
    Nested,
    OldField,
    OldKey,
    OldState,
    Verdict,
)
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import COUNT, StateRows
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values
from pyspark_savepoint.statebackends.evolution.rex import RexValues


def kind(text: str) -> LogicalType:
    return logical_type(Tokens(text))


ACC = StateRows(np.arange(2), (pa.array([5, None], pa.int32()), pa.array([2, 0])))
SET = StateRows(np.array([0, 0, 0]), (pa.array([3, 4, 9], pa.int32()),), {"number": pa.array([1, 3, 2])})
SIDE = StateRows(np.array([0, 1, 1]), (pa.array(["x", None, "y"]),), {COUNT: pa.array([2, 1, 4], pa.int32())})
GIVEN = Lookup(pa.table({"shop": ["b", "a"], "total": [7, 8]}), (("shop", OldKey(0)),))
KEYS = KeyRows(
    2, (pa.array(["a", "b"]),), {"acc": ACC, "set": SET, "side": SIDE}, {"total": GIVEN}, partners={"side": "side"}
)


@pytest.mark.parametrize(
    ("source", "wanted", "expected"),
    [
        (OldField("acc", 0), "BIGINT", [5, None]),
        (OldKey(0), "STRING", ["a", "b"]),
        (Constant(None), "DECIMAL(10, 2)", [None, None]),
        (Constant(0), "BIGINT", [0, 0]),
        (Backfilled("total"), "BIGINT", [8, 7]),
        (Cast(OldField("acc", 1), kind("STRING")), "STRING", ["2", "0"]),
        (Cast(OldField("acc", 1), kind("DECIMAL(10, 2)")), "DECIMAL(10, 2)", [Decimal(2), Decimal(0)]),
        (Call("sum_if_counted", (OldField("acc", 1), OldField("acc", 1))), "BIGINT", [2, None]),
        (Call("zero_if_null", (OldField("acc", 0),)), "BIGINT", [5, 0]),
        (Call("count_of_values", (OldState("set"),)), "BIGINT", [3, 0]),
        (Call("sum_of_values", (OldState("set"),)), "INT", [16, None]),
        (Call("max_of_values", (OldState("set"),)), "INT", [9, None]),
        (Call("min_of_values", (OldState("set"),)), "INT", [3, None]),
        (Call("count_of_rows", (OldState("side"),)), "BIGINT", [2, 5]),
        (Call("count_of_field", (OldState("side"), 0)), "BIGINT", [2, 4]),
        (Call("associations", (OldState("side"),)), "INT", [2, 5]),
    ],
    ids=repr,
)
def test_value(source: Expression, wanted: str, expected: list[Any]) -> None:
    values = Values(KEYS, ACC, "acc").of(source, kind(wanted), "x")
    assert values.to_pylist() == expected


@pytest.mark.parametrize(
    ("rows", "chosen", "expected"),
    [
        ({"counts": pa.array([[1, 2], [0, 3]])}, (1, 0), [[2, 1], [3, 0]]),
        ({"counts": pa.array([[1, 2], [0, 3]])}, (1, 1, 0), [[2, 2, 1], [3, 3, 0]]),
        ({"number": pa.array([1, 3])}, (0, 0), [[1, 1], [3, 3]]),
        ({"value": pa.array([4])}, (0, 0), [[4, 4]]),
        ({"counts": pa.array([], pa.list_(pa.int64()))}, (1, 0), []),
    ],
    ids=["turned", "twice", "of one call", "of NULL", "of none"],
)
def test_counts_of_calls(rows: dict[str, pa.Array], chosen: tuple[int, ...], expected: list[list[int]]) -> None:
    """Calls of DISTINCT whose rows are also taken out have a count each; without one of them it is a number."""
    (column,) = rows.values()
    values = Values(KEYS, StateRows(np.arange(len(column)), (), rows))
    assert values.plain(Call("counts_of_calls", chosen), kind("BIGINT")).to_pylist() == expected
    one = values.plain(Call("count_of_call", chosen[:1]), kind("BIGINT"))
    assert one.to_pylist() == [counts[0] for counts in expected]


@pytest.mark.parametrize(
    ("call", "expected"), [(Call("set_bits", (3,)), [3, 3, 3]), (Call("moved_bits", (0, 1, 1, 0)), [2, 3, 1])]
)
def test_bits_of_distinct_values(call: Call, expected: list[int]) -> None:
    assert Values(KEYS, SET, "set").plain(call, kind("BIGINT")).to_pylist() == expected


def test_fields_of_a_nested_row() -> None:
    row = pa.array([{"x": 1, "y": "a"}, None])
    rows = StateRows(np.arange(2), (row,))
    fields = (
        FieldSource("y", kind("STRING"), Verdict.TRANSFORMED, OldField("", 1)),
        FieldSource("z", kind("INT"), Verdict.FILLED, Constant(None)),
        FieldSource("x", kind("BIGINT"), Verdict.TRANSFORMED, OldField("", 0)),
    )
    wanted = kind("ROW<y STRING, z INT, x BIGINT>")
    values = Values(KeyRows(2, (), {"row": rows}), rows, "row").of(Nested(OldField("row", 0), fields), wanted, "r")
    assert values.to_pylist() == [{"y": "a", "z": None, "x": 1}, None]


@pytest.mark.parametrize(
    ("column", "wanted", "message"),
    [
        (pa.array([300]), "TINYINT", "does not fit"),
        (pa.array(["abc"]), "VARCHAR(2)", "does not fit"),
        (pa.array([1, None]), "BIGINT NOT NULL", "is NULL"),
        (pa.array([2**60 + 1]), "DOUBLE", "does not fit"),
        (pa.array([1.5]), "STRING", "cannot become text"),
    ],
    ids=["number", "text", "null", "float", "text of a float"],
)
def test_a_value_that_does_not_fit_is_refused(column: pa.Array, wanted: str, message: str) -> None:
    rows = StateRows(np.arange(len(column)), (column,))
    with pytest.raises(SavepointError, match=message):
        Values(KeyRows(len(column), (), {"s": rows}), rows, "s").of(OldField("s", 0), kind(wanted), "x")


def test_a_key_that_was_not_given_is_named() -> None:
    keys = KeyRows(1, (pa.array(["c"]),), {}, {"total": GIVEN})
    with pytest.raises(ValueRangeError) as raised:
        Values(keys, StateRows(np.arange(1))).of(Backfilled("total"), kind("BIGINT"), "x")
    assert "shop='c'" in str(raised.value)


def call(name: str, wanted: str, *operands: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "CALL", "internalName": f"${name}$1", "operands": list(operands), "type": wanted}


def ref(index: int) -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": "INT"}


def literal(value: object, wanted: str) -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": wanted}


NUMBERS = [pa.array([1, 7, None], pa.int32()), pa.array(["a", None, "b"])]
SIX = literal(6, "INT NOT NULL")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (ref(0), [1, 7, None]),
        (call("+", "INT", ref(0), SIX), [7, 13, None]),
        (call("MOD", "INT", ref(0), SIX), [1, 1, None]),
        (call(">", "BOOLEAN", ref(0), SIX), [False, True, None]),
        (call("CAST", "BIGINT", ref(0)), [1, 7, None]),
        (call("UPPER", "STRING", ref(1)), ["A", None, "B"]),
        (call("||", "STRING", ref(1), literal("!", "CHAR(1) NOT NULL")), ["a!", None, "b!"]),
        (call("CASE", "INT", call("IS NULL", "BOOLEAN NOT NULL", ref(0)), SIX, ref(0)), [1, 7, 6]),
        (
            call("OR", "BOOLEAN", call("IS NOT NULL", "BOOLEAN", ref(1)), call("=", "BOOLEAN", ref(0), SIX)),
            [True, False, True],
        ),
    ],
    ids=["reference", "plus", "modulo", "greater", "cast", "upper", "concatenated", "case", "or"],
)
def test_expression_of_a_plan(node: dict[str, Any], expected: list[Any]) -> None:
    assert RexValues(NUMBERS, 3).of(node).to_pylist() == expected


@pytest.mark.parametrize(
    ("side", "expected"),
    [("BOTH", ["a b", "", None]), ("LEADING", ["a b ", "", None]), ("TRAILING", ["  a b", "", None])],
)
def test_texts_are_trimmed_at_an_end_or_both(side: str, expected: list[Any]) -> None:
    texts = [pa.array(["  a b ", " ", None])]
    flag = {"kind": "LITERAL", "symbol": "TRIM", "value": side}
    node = call("TRIM", "STRING", flag, literal(" ", "CHAR(1) NOT NULL"), ref(0))
    assert RexValues(texts, 3).of(node).to_pylist() == expected
    with pytest.raises(UnsupportedStateError, match="TRIM of letters that are no constant"):
        RexValues(texts, 3).of(call("TRIM", "STRING", flag, ref(0), ref(0)))


def test_letters_are_changed_as_java_does() -> None:
    texts = [pa.array(["straße", "ΟΔΟΣ", None])]
    changed = [RexValues(texts, 3).of(call(name, "STRING", ref(0))).to_pylist() for name in ("UPPER", "LOWER")]
    assert changed == [["STRASSE", "ΟΔΟΣ", None], ["straße", "οδος", None]]


@pytest.mark.parametrize("name", ["REGEXP_REPLACE", "my_function", "/"])
def test_an_expression_that_is_not_known_is_named(name: str) -> None:
    with pytest.raises(UnsupportedStateError) as raised:
        RexValues(NUMBERS, 3).of(call(name, "INT", ref(0), SIX))
    assert name in str(raised.value)
