"""What nodes keep that aggregate: their accumulators, and of OVER the rows that it may have to take out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark_savepoint.statebackends.evolution.accumulators import Accumulator, accumulator_of, view_states
from pyspark_savepoint.statebackends.evolution.expected_rows import (
    LONG_WINDOWS,
    SESSIONS,
    TIME_WINDOWS,
    WATERMARK,
    fields,
    plain_state,
    row_type,
)
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall, Node, Plan, calls_of, row_of
from pyspark_savepoint.statebackends.evolution.shapes import (
    Column,
    Layout,
    OperatorShape,
    OperatorStateShape,
    StateShape,
)

# -- aggregates ------------------------------------------------------------------------------------------------


def aggregate_rows(plan: Plan, node: Node) -> tuple[Column, ...]:
    """Return the rows that the arguments of a node's calls refer to: of two phases those of the first."""
    attributes = node.attributes
    for name in ("localAggInputRowType", "partialLocalAggInputRowType"):
        if name in attributes:
            return row_of(attributes[name])
    return plan.inputs(node)[0].output


def aggregate_calls(node: Node) -> tuple[AggregateCall, ...]:
    """Return the calls of a node that aggregates."""
    attributes = node.attributes
    if "overSpec" in attributes:
        groups = attributes["overSpec"]["groups"]
        return tuple(
            call
            for group in groups
            for call in calls_of(group["aggCalls"], [not _is_unbounded(group)] * len(group["aggCalls"]))
        )
    if "partialOriginalAggCalls" in attributes:
        return calls_of(attributes["partialOriginalAggCalls"], attributes.get("partialAggCallNeedRetractions"))
    calls = attributes["aggCalls"]
    given = attributes.get("aggCallNeedRetractions")
    return calls_of(calls, given if given is not None else [bool(attributes.get("needRetraction"))] * len(calls))


def retracts(node: Node) -> bool:
    """Return whether rows are also taken out of an aggregate."""
    return bool(node.attributes.get("needRetraction")) or any(call.retracts for call in aggregate_calls(node))


def accumulator(plan: Plan, node: Node) -> Accumulator:
    """Return the accumulator of a node that aggregates."""
    attributes = node.attributes
    counts = bool(attributes.get("needRetraction")) or _hops(attributes)
    rows = aggregate_rows(plan, node)
    if "overSpec" in attributes:
        group = attributes["overSpec"]["groups"][0]
        counts = not _is_unbounded(group)
        constants = attributes["overSpec"].get("constants") or ()
        rows = (*rows, *(Column(str(one.get("value")), logical_type_of(one["type"])) for one in constants))
    return accumulator_of(aggregate_calls(node), rows, counts_rows=counts)


def _hops(attributes: Mapping[str, Any]) -> bool:
    windowing = attributes.get("windowing") or {}
    window = windowing.get("window") or {}
    return window.get("type") == "HoppingWindow" and windowing.get("strategy") != "WindowAttached"


def _is_unbounded(group: Mapping[str, Any]) -> bool:
    return bool(group["lowerBound"]["kind"] == "UNBOUNDED_PRECEDING")


def _aggregated(plan: Plan, node: Node, shape: OperatorShape, state: str | None, namespace: str) -> OperatorShape:
    found, calls, rows = accumulator(plan, node), aggregate_calls(node), aggregate_rows(plan, node)
    ttl = node.ttl()
    grouping = node.attributes.get("grouping", node.attributes.get("partialAggGrouping", ()))
    states = list(view_states(found, calls, rows, ttl))
    if state is not None:
        states.insert(0, StateShape(state, "value", Layout.ACCUMULATORS, found.value_type, found.columns, ttl=ttl))
    return replace(
        shape,
        key=fields(plan.inputs(node)[0].output, grouping),
        namespace=namespace,
        states=tuple(states),
        known=not found.unknown,
        notes=tuple(f"the accumulator of {text} is not known" for text in found.unknown),
    )


def group_aggregate(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    return _aggregated(plan, node, shape, "accState", shape.namespace)


def incremental(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    return _aggregated(plan, node, shape, None, shape.namespace)


def window_aggregate(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    kind = node.attributes["windowing"]["window"]["type"]
    if kind == "SessionWindow":
        return _session(_aggregated(plan, node, shape, "window-aggs", TIME_WINDOWS), (WATERMARK,))
    if kind not in ("TumblingWindow", "HoppingWindow", "CumulativeWindow"):
        return replace(shape, known=False, notes=(f"windows of type {kind} are not known",))
    timers = (("window-timers", LONG_WINDOWS),)
    found = _aggregated(plan, node, shape, "window-aggs", LONG_WINDOWS)
    return replace(found, timers=timers, operator_states=(WATERMARK,))


def _session(shape: OperatorShape, operator_states: tuple[OperatorStateShape, ...] = ()) -> OperatorShape:
    """Return windows that merge: which of them are one is kept by key, beside the state of each."""
    mapping = StateShape("session-window-mapping", "map", Layout.OTHER, SESSIONS)
    states = (*shape.states, mapping)
    timers = (("window-timers", TIME_WINDOWS),)
    return replace(shape, states=states, timers=timers, operator_states=operator_states)


def group_window(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    window, configuration = node.attributes["window"], node.attributes.get("configuration") or {}
    early = [
        name for name in configuration if "table.exec.emit." in name and configuration[name] not in ("false", None)
    ]
    known = window.get("kind") in ("TUMBLING", "SLIDING", "SESSION")
    if not known or not window.get("isTimeWindow", True) or early:
        return replace(shape, known=False, notes=("windows of this kind, or that fire early, are not known",))
    found = _aggregated(plan, node, shape, "window-aggs", TIME_WINDOWS)
    if window["kind"] == "SESSION":
        return _session(found)
    return replace(found, timers=(("window-timers", TIME_WINDOWS),))


#: What bounded OVER counts, by its time and whether it is bounded by rows.
OVER_NUMBERS: Mapping[tuple[str, bool], tuple[str, ...]] = {
    ("ROWTIME", True): ("lastTriggeringTsState", "processedCountState"),
    ("ROWTIME", False): ("lastTriggeringTsState", "cleanupTsState"),
    ("PROCTIME", True): ("processedCountState", "smallestTSState"),
    ("PROCTIME", False): ("cleanupTsState",),
}


def over(plan: Plan, node: Node, shape: OperatorShape) -> OperatorShape:
    rows = plan.inputs(node)[0].output
    spec = node.attributes["overSpec"]
    groups = spec["groups"]
    order = groups[0]["orderBy"]["fields"] if len(groups) == 1 else ()
    time = rows[order[0]["index"]].kind.kind if order else ""
    if time not in ("ROWTIME", "PROCTIME"):
        return replace(shape, known=False, notes=("OVER that is not ordered by a time is not known",))
    found, bounded, by_rows = accumulator(plan, node), not _is_unbounded(groups[0]), bool(groups[0].get("isRows"))
    kind = f"MAP<LONG, LIST<{row_type(rows)}>>"
    states = [StateShape("accState", "value", Layout.ACCUMULATORS, found.value_type, found.columns)]
    if bounded or time == "ROWTIME":
        states.insert(0, StateShape("inputState", "map", Layout.ROWS_BY_TIME, kind, rows, input=0))
    states += [plain_state(name, "LONG") for name in OVER_NUMBERS[time, by_rows] if bounded]
    ranges = (*rows, *(Column(str(one.get("value")), logical_type_of(one["type"])) for one in spec["constants"]))
    states += view_states(found, aggregate_calls(node), ranges, 0)
    notes = tuple(f"the accumulator of {text} is not known" for text in found.unknown)
    key = fields(rows, spec["partition"]["fields"])
    return replace(shape, key=key, states=tuple(states), known=not notes, notes=notes)
