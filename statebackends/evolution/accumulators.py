"""Accumulators of SQL aggregates: their fields in order, initial values, and the states of their views.

    COUNT                   BIGINT 0
    SUM, $SUM0              type of the sum; NULL, 0. SUM that rows are taken out of: also BIGINT count of values
    AVG                     sum (BIGINT, DECIMAL(38, s), DOUBLE) 0, count 0
    MIN, MAX                type of the argument NULL; with retraction a structured type with a view
    LISTAGG                 delimiter, list
    FIRST_VALUE, LAST_VALUE ROW of value and order; these and LISTAGG with retraction: a structured type with views
    COLLECT                 a structured type with a view
    ARRAY_AGG               a structured type with two lists of Java's, one for rows that were taken out
    LAG                     a structured type with the offset, the default, and a list of Java's

Then COUNT(*) where rows are taken out or windows hop, and one view per list of DISTINCT arguments. Flink:
``AggregateUtil``, ``AggFunctionFactory``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.formats.serializers.sql.internal import ACCUMULATORS, VIEWS, internal_serializer
from pyspark_savepoint.formats.serializers.sql.logical_types import MAX_LENGTH, LogicalType
from pyspark_savepoint.statebackends.evolution.changes import Merge
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall
from pyspark_savepoint.statebackends.evolution.shapes import Column, Layout, StateShape

INT, BIGINT, STRING = LogicalType("INTEGER"), LogicalType("BIGINT"), LogicalType("VARCHAR", length=MAX_LENGTH)
VIEW, LIST_VIEW = (LogicalType("RAW", class_name=name) for name in VIEWS)
#: Calls of DISTINCT of one column that a LONG has bits for.
MOST_BITS = 64
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
#: Arguments of a LAG with a default, of whose type that of its accumulator depends.
MOST_OF_LAG = 3
#: The lists that ARRAY_AGG and LAG keep inside of the accumulator.
JAVA_LIST = LogicalType("RAW", class_name="java.util.LinkedList")
#: The part of a call that keeps values of a type in such lists: the type of the list does not tell theirs.
IN_LISTS = "lists of "
#: Orders of a LAST_VALUE, or of a FIRST_VALUE that has its value, and of one that waits for it.
NO_ORDER, WAITING = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Buffer:
    """A field of an accumulator: of which call (-1: COUNT(*) of the operator; None: a view) it is which part."""

    column: Column
    call: int | None
    part: str = ""
    initial: Any = None
    merge: Merge = Merge.NEVER
    #: Of a view: the arguments that are DISTINCT.
    distinct: tuple[int, ...] = ()


@dataclass(frozen=True)
class Accumulator:
    """The fields of an accumulator, the states of its views, and calls that are not known."""

    buffers: tuple[Buffer, ...]
    #: Of each list of DISTINCT arguments: the calls that have it, in order.
    distinct: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    unknown: tuple[str, ...] = ()
    #: Whether rows are taken out, or windows hop, so that a value of DISTINCT has a count and no bits.
    counts_rows: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(buffer.column for buffer in self.buffers)

    def counts_by_call(self, users: Sequence[int]) -> bool:
        """Return whether a value of DISTINCT of some calls has a list of counts, one for each call."""
        return self.counts_rows and len(users) > 1

    @property
    def value_type(self) -> str:
        return f"ROWDATA<{', '.join(str(column.kind) for column in self.columns)}>"


def is_count_star(call: AggregateCall) -> bool:
    """Return whether a call counts all rows."""
    return call.function == "COUNT" and not call.arguments and call.filter < 0 and not call.distinct


def call_text(call: AggregateCall, names: Sequence[str]) -> str:
    """Return a call in SQL's words: ``SUM(DISTINCT v) FILTER (WHERE $f2)``."""
    arguments = ", ".join(names[index] for index in call.arguments) or "*"
    where = f" FILTER (WHERE {names[call.filter]})" if call.filter >= 0 else ""
    return f"{call.function.removeprefix('$')}({'DISTINCT ' * call.distinct}{arguments}){where}"


def accumulator_of(calls: Sequence[AggregateCall], rows: Sequence[Column], *, counts_rows: bool) -> Accumulator:
    """Return the accumulator of some calls over rows of these columns.

    ``counts_rows``: rows are taken out, or windows hop, so that a COUNT(*) is needed.
    """
    names = [column.name for column in rows]
    buffers: list[Buffer] = []
    unknown: list[str] = []
    for number, call in enumerate(calls):
        text = call_text(call, names)
        kinds = [rows[index].kind for index in call.arguments]
        found = list(_buffers(call, number, text, kinds))
        if not found:
            unknown.append(text)
        buffers += found
    if counts_rows and not any(map(is_count_star, calls)):
        buffers.append(Buffer(Column("COUNT(*)", BIGINT), -1, "rows", 0, Merge.SUM))
    lists: dict[tuple[int, ...], list[int]] = {}
    for number, call in enumerate(calls):
        if call.distinct:
            lists.setdefault(call.arguments, []).append(number)
    for arguments, users in lists.items():
        shown = ", ".join(names[index] for index in arguments)
        buffers.append(Buffer(Column(f"DISTINCT({shown})", VIEW), None, "view", None, Merge.SAME, arguments))
        if len(users) > MOST_BITS and not counts_rows:
            unknown.append(f"more than {MOST_BITS} calls of DISTINCT({shown})")
    distinct = tuple((arguments, tuple(users)) for arguments, users in lists.items())
    return Accumulator(tuple(buffers), distinct, tuple(unknown), counts_rows)


def _buffers(call: AggregateCall, number: int, text: str, kinds: Sequence[LogicalType]) -> Iterator[Buffer]:
    """Yield the fields of a call; none if the function is not known."""
    function, kind = call.function, replace(call.kind, nullable=True)

    def one(kind: LogicalType, part: str, initial: Any, merge: Merge, suffix: str = "") -> Buffer:
        return Buffer(Column(text + suffix, kind), number, part, initial, merge)

    if not call.built_in:
        return
    if function == "COUNT":
        yield one(BIGINT, "", 0, Merge.SUM)
    elif function == "SUM":
        yield one(kind, "", None, Merge.SUM)
        if call.retracts:
            yield one(BIGINT, "count", 0, Merge.SUM, " count of values")
    elif function == "$SUM0":
        yield one(kind, "", 0, Merge.SUM)
    elif function == "AVG" and (total := _sum_of_average(kinds)) is not None:
        yield one(total, "sum", 0, Merge.SUM, " sum")
        yield one(BIGINT, "count", 0, Merge.SUM, " count of values")
    elif function in ("MIN", "MAX") and kind.root not in ("ROW", "ARRAY", "MAP", "RAW", "OTHER"):
        merge = Merge.MIN if function == "MIN" else Merge.MAX
        kind = replace(kind, kind="REGULAR") if kind.kind in ("ROWTIME", "PROCTIME") else kind
        if call.retracts:
            structure = _extreme(function, kind)
            yield one(structure, "extreme", {structure.names[0]: None, structure.names[1]: 0}, Merge.NEVER)
        else:
            yield one(STRING if kind.root == "VARCHAR" else kind, "", None, merge)
    elif function == "LISTAGG" and not call.retracts:
        yield one(STRING, "delimiter", ",", Merge.SAME, " delimiter")
        yield one(STRING, "list", None, Merge.NEVER)
    elif function == "ARRAY_AGG" and len(kinds) == 1:
        name = "ArrayAggFunction$ArrayAggAccumulator"
        lists = _structured(name, (("list", JAVA_LIST), ("retractList", JAVA_LIST)))
        yield one(lists, f"{IN_LISTS}{replace(kinds[0], nullable=True)}", None, Merge.NEVER)
    elif function == "LAG" and len(kinds) < MOST_OF_LAG and kinds[0].nullable and kinds[0].kind in ("", "REGULAR"):
        fields = (("offset", INT), ("defaultValue", kinds[0]), ("buffer", JAVA_LIST))
        yield one(_structured("LagAggFunction$LagAcc", fields), f"{IN_LISTS}{kinds[0]}", None, Merge.NEVER)
    elif call.retracts or function == "COLLECT":
        viewed = _with_views(function, kinds)
        if viewed is not None:
            yield one(viewed, "views", dict.fromkeys(viewed.names), Merge.NEVER)
    elif function in ("FIRST_VALUE", "LAST_VALUE") and kinds:
        word = function.split("_")[0].lower()
        names = (f"{word}Value", f"{word}Order")
        row = LogicalType("ROW", names=names, children=(replace(kinds[0], nullable=True), BIGINT))
        order = WAITING if word == "first" else NO_ORDER
        yield one(row, "row", {names[0]: None, names[1]: order}, Merge.NEVER)


def _sum_of_average(kinds: Sequence[LogicalType]) -> LogicalType | None:
    """Return the type of the sum that AVG keeps; None if it is not known."""
    if len(kinds) != 1:
        return None
    kind = kinds[0]
    if kind.root in INTEGERS:
        return BIGINT
    if kind.root == "DECIMAL":
        return LogicalType("DECIMAL", precision=38, scale=kind.scale)
    return LogicalType("DOUBLE") if kind.root in ("FLOAT", "DOUBLE") else None


def _extreme(function: str, kind: LogicalType) -> LogicalType:
    word = function.capitalize()
    fields = ((word.lower(), kind), ("mapSize", BIGINT), ("map", VIEW))
    return _structured(f"{word}WithRetractAggFunction${word}WithRetractAccumulator", fields)


def _with_views(function: str, kinds: Sequence[LogicalType]) -> LogicalType | None:
    """Return the accumulator of a function whose values are in views; None if it is not known."""
    lists = (("list", LIST_VIEW), ("retractList", LIST_VIEW))
    word = function.split("_")[0].capitalize()
    fields: Sequence[tuple[str, LogicalType]]
    if function == "LISTAGG":
        name, fields = "ListAgg", lists
        if len(kinds) > 1:
            name, fields = "ListAggWs", (*lists, ("delimiter", STRING))
    elif function in ("FIRST_VALUE", "LAST_VALUE") and kinds:
        value = (f"{word.lower()}Value", replace(kinds[0], nullable=True)), (f"{word.lower()}Order", BIGINT)
        name, fields = f"{word}Value", (*value, ("valueToOrderMap", VIEW), ("orderToValueMap", VIEW))
    elif function == "COLLECT":
        return _structured("CollectAggFunction$CollectAccumulator", (("map", VIEW),))
    else:
        return None
    return _structured(f"{name}WithRetractAggFunction${name}WithRetractAccumulator", fields)


def _structured(class_name: str, fields: Sequence[tuple[str, LogicalType]]) -> LogicalType:
    names, children = zip(*fields, strict=True)
    return LogicalType("STRUCTURED_TYPE", class_name=ACCUMULATORS + class_name, names=names, children=children)


def _view_of(name: str, kind: LogicalType) -> tuple[str, str]:
    """Return the kind and the type of the state of a view, of values of a type."""
    value = internal_type([kind])
    if name in ("list", "retractList"):
        return "list", f"LIST<{value}>"
    if name == "valueToOrderMap":
        return "map", f"MAP<{value}, ARRAYDATA<BIGINT>>"
    return "map", f"MAP<LONG, ARRAYDATA<{kind} NOT NULL>>" if name == "orderToValueMap" else f"MAP<{value}, INT>"


def internal_type(kinds: Sequence[LogicalType]) -> str:
    """Return the type of values in a view: of one column its own, of several a row."""
    if len(kinds) == 1:
        return internal_serializer(kinds[0]).flink_type
    return f"ROWDATA<{', '.join(map(str, kinds))}>"


def view_states(
    accumulator: Accumulator, calls: Sequence[AggregateCall], rows: Sequence[Column], ttl: int
) -> Iterator[StateShape]:
    """Yield the states of the views: of DISTINCT, and of functions that keep values, most of them with retraction."""
    for buffer in accumulator.buffers:
        if buffer.part == "extreme" and buffer.call is not None:
            column = rows[calls[buffer.call].arguments[0]]
            kind = f"MAP<{internal_type([column.kind])}, LONG>"
            yield StateShape(f"agg{buffer.call}$map", "map", Layout.VALUE_COUNTS, kind, (column,), ttl=ttl)
        if buffer.part == "views" and buffer.call is not None:
            value = replace(rows[calls[buffer.call].arguments[0]].kind, nullable=True)
            for name, child in zip(buffer.column.kind.names, buffer.column.kind.children, strict=True):
                if child.root == "RAW":
                    state, kind = _view_of(name, value)
                    yield StateShape(f"agg{buffer.call}${name}", state, Layout.OTHER, kind, ttl=ttl)
    for number, (arguments, users) in enumerate(accumulator.distinct):
        columns = tuple(rows[index] for index in arguments)
        many = accumulator.counts_by_call(users)
        counts = "ARRAYDATA<BIGINT NOT NULL>" if many else "LONG"
        values, nulls = (
            (Layout.DISTINCT_COUNTS, Layout.DISTINCT_NULL_COUNTS)
            if many
            else (Layout.DISTINCT_VALUES, Layout.DISTINCT_NULLS)
        )
        kind = f"MAP<{internal_type([column.kind for column in columns])}, {counts}>"
        name = f"distinctAcc_{number}"
        yield StateShape(name, "map", values, kind, columns, ttl=ttl)
        if len(columns) == 1:
            yield StateShape(f"{name}_null_state", "value", nulls, counts, columns, ttl=ttl)
