"""What nodes keep that have rows of their input: joins, ranks, deduplication, sorts, patterns, sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan, order_of
from pyspark_savepoint.statebackends.evolution.shapes import (
    Column,
    Layout,
    OperatorShape,
    OperatorStateShape,
    StateShape,
)

LONG_WINDOWS, TIME_WINDOWS = "LONG", "TABLE_TIME_WINDOW"
#: Which windows that merged have the state of which.
SESSIONS = f"MAP<{TIME_WINDOWS}, {TIME_WINDOWS}>"
WATERMARK = OperatorStateShape("watermark", "UNION", "LONG")
OUTER_LEFT, OUTER_RIGHT = ("LEFT", "FULL", "SEMI", "ANTI"), ("RIGHT", "FULL")


def row_type(columns: Sequence[Column]) -> str:
    """Return the type of rows: ``ROWDATA<STRING, INT>``."""
    return f"ROWDATA<{', '.join(str(column.kind) for column in columns)}>"


def fields(columns: Sequence[Column], places: Sequence[int]) -> tuple[Column, ...]:
    """Return some of the columns."""
    return tuple(columns[int(place)] for place in places)


def plain_state(name: str, kind: str, ttl: int = 0) -> StateShape:
    """Return a value state without rows."""
    return StateShape(name, "value", Layout.OTHER, kind, ttl=ttl)


# -- joins -----------------------------------------------------------------------------------------------------


def _side(
    name: str, number: int, columns: Sequence[Column], keys: Any, joined: Any, outer: bool, ttl: int
) -> StateShape:
    """Return the state of a join's side: by its unique keys, and by whether matches are counted."""
    row, unique = row_type(columns), [tuple(key) for key in keys or ()]
    rows = tuple(columns)
    contained = any(set(key) <= set(joined) for key in unique)
    if contained:
        layout, kind = Layout.ROW_ASSOCIATED if outer else Layout.ROW, f"TUPLE<{row}, INT>" if outer else row
        return StateShape(name, "value", layout, kind, rows, ttl=ttl, input=number)
    if unique:
        by = min(unique, key=len)
        value = f"TUPLE<{row}, INT>" if outer else row
        layout = Layout.UNIQUE_ROWS_ASSOCIATED if outer else Layout.UNIQUE_ROWS
        kind = f"MAP<{row_type(fields(rows, by))}, {value}>"
        return StateShape(name, "map", layout, kind, rows, by, ttl=ttl, input=number)
    layout = Layout.COUNTED_ROWS_ASSOCIATED if outer else Layout.COUNTED_ROWS
    kind = f"MAP<{row}, {'TUPLE<INT, INT>' if outer else 'INT'}>"
    return StateShape(name, "map", layout, kind, rows, ttl=ttl, input=number)


def join(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    left, right = plan.inputs(node)
    spec, attributes = node.attributes["joinSpec"], node.attributes
    kind, left_keys, right_keys = spec["joinType"], spec["leftKeys"], spec["rightKeys"]
    upserts = (attributes.get("leftUpsertKeys"), attributes.get("rightUpsertKeys"))
    states = (
        _side("left-records", 0, left.output, upserts[0], left_keys, kind in OUTER_LEFT, node.ttl(0)),
        _side("right-records", 1, right.output, upserts[1], right_keys, kind in OUTER_RIGHT, node.ttl(1)),
    )
    return replace(shape, key=fields(left.output, left_keys), states=states)


#: When rows of each side of a join by time are removed.
CLEANUP_TIMES = ("IntervalJoinLeftTimerState", "IntervalJoinRightTimerState")


def interval_join(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    inputs, spec = plan.inputs(node), node.attributes["intervalJoinSpec"]
    bounds = spec["windowBounds"]
    if bounds["leftUpperBound"] < bounds["leftLowerBound"]:
        return shape
    states: list[StateShape] = []
    for number, (side, one) in enumerate(zip(("Left", "Right"), inputs, strict=True)):
        kind = f"MAP<LONG, LIST<TUPLE<{row_type(one.output)}, BOOLEAN>>>"
        name = f"IntervalJoin{side}Cache"
        states.append(StateShape(name, "map", Layout.FLAGGED_ROWS_BY_TIME, kind, one.output, input=number))
        states.append(plain_state(CLEANUP_TIMES[number], "LONG"))
    key = fields(inputs[0].output, spec["joinSpec"]["leftKeys"])
    return replace(shape, key=key, states=tuple(states), timers=(("user-timers", shape.namespace),))


def temporal_join(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    left, right = plan.inputs(node)
    key = fields(left.output, node.attributes["joinSpec"]["leftKeys"])
    if int(node.attributes.get("rightTimeAttributeIndex", -1)) < 0:
        return replace(shape, known=False, notes=("a temporal join by processing time is not known",))
    states = (
        StateShape("left", "map", Layout.ROW_BY_NUMBER, f"MAP<LONG, {row_type(left.output)}>", left.output, input=0),
        StateShape("right", "map", Layout.ROW_BY_NUMBER, f"MAP<LONG, {row_type(right.output)}>", right.output, input=1),
        plain_state("next-index", "LONG"),
        plain_state("timer", "LONG"),
    )
    return replace(shape, key=key, states=states, timers=(("timers", shape.namespace),))


def window_join(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    inputs = plan.inputs(node)
    states = tuple(
        StateShape(name, "list", Layout.ROW_LIST, f"LIST<{row_type(one.output)}>", one.output, input=number)
        for number, (name, one) in enumerate(zip(("left-records", "right-records"), inputs, strict=True))
    )
    key = fields(inputs[0].output, node.attributes["joinSpec"]["leftKeys"])
    return replace(shape, key=key, namespace=LONG_WINDOWS, states=states, timers=(("window-timers", LONG_WINDOWS),))


# -- one row, or the best ones ----------------------------------------------------------------------------------


def _by_sort_key(name: str, rows: tuple[Column, ...], by: tuple[int, ...], ttl: int) -> StateShape:
    kind = f"MAP<{row_type(fields(rows, by))}, LIST<{row_type(rows)}>>"
    return StateShape(name, "map", Layout.ROWS_BY_SORT_KEY, kind, rows, by, ttl=ttl, input=0)


COUNTER = "counterState"


def _counts_first_rows(attributes: Mapping[str, Any]) -> bool:
    """Return whether a rank by processing time keeps the first rows: it counts those that it has emitted."""
    constant = (attributes.get("rankRange") or {}).get("type") == "Constant"
    first = bool(attributes["orderBy"]["fields"][0].get("isAscending"))
    return constant and first and attributes["rankStrategy"]["type"] == "AppendFast"


def rank(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    attributes, rows, ttl = node.attributes, plan.inputs(node)[0].output, node.ttl()
    limits = attributes.get("rankRange") or {}
    strategy = attributes["rankStrategy"]
    by = tuple(int(one["index"]) for one in order_of(node))
    key = fields(rows, (attributes.get("partition") or {}).get("fields") or ())
    shape = replace(shape, key=key)
    processing = len(by) == 1 and rows[by[0]].kind.kind == "PROCTIME"
    if processing and _counts_first_rows(attributes):
        return replace(shape, states=(plain_state(COUNTER, "INT", ttl),))
    if limits.get("type") != "Constant" or attributes.get("rankType", "ROW_NUMBER") != "ROW_NUMBER" or processing:
        return replace(shape, known=False, notes=("a rank with a variable limit, or by processing time, is not known",))
    kind = str(strategy["type"])
    if kind in ("AppendFast", "UpdateFast") and (limits["start"], limits["end"]) == (1, 1):
        state = StateShape("Top1-Rank-State", "value", Layout.ROW, row_type(rows), rows, ttl=ttl, input=0)
        return replace(shape, states=(state,))
    if kind == "AppendFast":
        return replace(shape, states=(_by_sort_key("data-state-with-append", rows, by, ttl),))
    if kind == "UpdateFast":
        unique = tuple(int(index) for index in strategy["primaryKeys"])
        text = f"MAP<{row_type(fields(rows, unique))}, TUPLE<{row_type(rows)}, INT>>"
        name = "data-state-with-update"
        return replace(
            shape, states=(StateShape(name, "map", Layout.RANKED_ROWS, text, rows, unique, ttl=ttl, input=0),)
        )
    if kind == "Retract":
        sorted_kind = f"SORTED_MAP<{row_type(fields(rows, by))}, LONG>"
        counts = StateShape("sorted-map", "value", Layout.SORT_KEY_COUNTS, sorted_kind, fields(rows, by), ttl=ttl)
        return replace(shape, states=(_by_sort_key("data-state", rows, by, ttl), counts))
    return replace(shape, known=False, notes=(f"rank strategy {kind} is not known",))


def window_rank(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    attributes, rows = node.attributes, plan.inputs(node)[0].output
    by = tuple(int(one["index"]) for one in order_of(node))
    state = _by_sort_key("window_rank", rows, by, 0)
    return replace(
        shape,
        key=fields(rows, attributes["partitionSpec"]["fields"]),
        namespace=LONG_WINDOWS,
        states=(state,),
        timers=(("window-timers", LONG_WINDOWS),),
        operator_states=(WATERMARK,),
    )


def window_deduplicate(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    rows = plan.inputs(node)[0].output
    return replace(
        shape,
        key=fields(rows, node.attributes["partitionKeys"]),
        namespace=LONG_WINDOWS,
        states=(_row_state("window_deduplicate", rows, 0),),
        timers=(("window-timers", LONG_WINDOWS),),
        operator_states=(WATERMARK,),
    )


def _row_state(name: str, rows: tuple[Column, ...], ttl: int) -> StateShape:
    return StateShape(name, "value", Layout.ROW, row_type(rows), rows, ttl=ttl, input=0)


def deduplicate(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    attributes, rows, ttl = node.attributes, plan.inputs(node)[0].output, node.ttl()
    shape = replace(shape, key=fields(rows, attributes["uniqueKeys"]))
    if not attributes["isRowtime"] and not attributes["keepLastRow"]:
        return replace(shape, states=(plain_state("deduplicate-state", "BOOLEAN", ttl),))
    if attributes["isRowtime"] and not attributes["keepLastRow"] and attributes.get("outputInsertOnly"):
        states = (
            _row_state("waiting-to-emit-on-timer", rows, 0),  # it waits, however long
            plain_state("already-emitted-state-boolean", "BOOLEAN", ttl),
        )
        return replace(shape, states=states, timers=(("user-timers", shape.namespace),))
    return replace(shape, states=(_row_state("deduplicate-state", rows, ttl),))


def normalize(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    rows = plan.inputs(node)[0].output
    state = _row_state("deduplicate-state", rows, node.ttl())
    return replace(shape, key=fields(rows, node.attributes["uniqueKeys"]), states=(state,))


def temporal_sort(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    rows = plan.inputs(node)[0].output
    first = order_of(node)[0]["index"]
    if rows[first].kind.kind != "ROWTIME":
        return replace(shape, known=False, notes=("a sort by processing time is not known",))
    kind = f"MAP<LONG, LIST<{row_type(rows)}>>"
    data = StateShape("dataState", "map", Layout.ROWS_BY_TIME, kind, rows, input=0)
    states = (data, plain_state("lastTriggeringTsState", "LONG"))
    return replace(shape, states=states, timers=(("user-timers", shape.namespace),))


def match(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    rows = plan.inputs(node)[0].output
    row = row_type(rows)
    queue = StateShape("eventQueuesStateName", "map", Layout.ROWS_BY_TIME, f"MAP<LONG, LIST<{row}>>", rows, input=0)
    states = (
        queue,
        StateShape("sharedBuffer-events", "map", Layout.OTHER, f"MAP<EVENT_ID, LOCKABLE<{row}>>", rows, input=0),
        StateShape("sharedBuffer-events-count", "map", Layout.OTHER, "MAP<LONG, INT>"),
        StateShape(
            "sharedBuffer-entries-with-lockable-edges",
            "map",
            Layout.OTHER,
            "MAP<NODE_ID, LOCKABLE<SHARED_BUFFER_NODE>>",
        ),
        plain_state("nfaStateName", "NFA_STATE"),
    )
    key = fields(rows, node.attributes["matchSpec"]["partition"]["fields"])
    return replace(shape, key=key, states=states, timers=(("watermark-callbacks", shape.namespace),))


# -- sinks -----------------------------------------------------------------------------------------------------

#: What Flink names the parts of a sink, by the uid of the sink.
SINK_PARTS = ("{uid}", "Sink Committer: {uid}", "Sink {uid} Global Committer")


def sink_table(node: Node) -> Mapping[str, Any]:
    return node.attributes.get("dynamicTableSink", {}).get("table", {}) or {}


def table_columns(table: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns of a table that are stored."""
    columns = ((table.get("resolvedTable") or {}).get("schema") or {}).get("columns") or ()
    return tuple(
        Column(str(column["name"]), logical_type_of(column["dataType"])) for column in columns if "dataType" in column
    )


def primary_key(table: Mapping[str, Any]) -> tuple[str, ...]:
    schema = (table.get("resolvedTable") or {}).get("schema") or {}
    return tuple(map(str, (schema.get("primaryKey") or {}).get("columns") or ()))


LEGACY = "'table.exec.sink.upsert-materialize-strategy.type' = 'LEGACY'"


def sink_operators(node: Node) -> tuple[OperatorShape, ...]:
    parts = tuple(
        OperatorShape(node.id, name, form.format(uid=node.uid("sink")), node.description, of_connector=True)
        for name, form in zip(("sink", "committer", "global committer"), SINK_PARTS, strict=True)
    )
    if not node.attributes.get("requireUpsertMaterialize"):
        return parts
    table = sink_table(node)
    rows, key = table_columns(table), primary_key(table)
    name = "upsert-materialize"
    shape = OperatorShape(node.id, name, node.uid(name), node.description)
    strategy = str(node.attributes.get("upsertMaterializeStrategy") or "LEGACY")
    names = [column.name for column in rows]
    if strategy != "LEGACY" or not key or any(column not in names for column in key):
        note = f"what a materializer of strategy {strategy} keeps is not known: compile the new query with {LEGACY}"
        return (replace(shape, known=False, notes=(note,)), *parts)
    state = StateShape("values", "value", Layout.ROW_LIST, f"LIST<{row_type(rows)}>", rows, ttl=node.ttl(), input=0)
    return (replace(shape, key=fields(rows, [names.index(column) for column in key]), states=(state,)), *parts)
