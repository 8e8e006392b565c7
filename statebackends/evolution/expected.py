"""The states that each node of a plan registers: names, kinds, types, namespaces, timers, layouts of rows.

A node of a kind, version or setting that is not listed is *not known*: nothing is guessed about it. Flink: the
``translateToPlanInternal`` of ``StreamExecXxx``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.statebackends.evolution import expected_aggregates, expected_rows
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape

#: Nodes without state.
STATELESS = (
    "calc", "exchange", "watermark-assigner", "mini-batch-assigner", "union", "local-group-aggregate",
    "local-window-aggregate", "window-table-function", "drop-update-before", "values", "expand", "correlate",
)  # fmt: skip
SOURCES = ("table-source-scan", "data-stream-scan", "legacy-table-source-scan")
#: What the uid of an operator says in place of the kind of its node.
NAMES = {"limit": "rank", "sort-limit": "rank", "window-table-function": "window"}
#: Why the state of a node is not known, where that can be said.
WHY_UNKNOWN = {
    "lookup-join": "it looks rows up asynchronously, or keeps what it found: requests and rows in forms of its own",
    "delta-join": "it looks rows up in both tables, and keeps requests and a cache in forms of its own",
    "multi-join": "it keeps rows of all its inputs in forms of its own",
    "window-table-function": "it keeps the rows of SESSION in forms of its own",
    "process-table-function": "its state is that of the user's function",
    "python-group-aggregate": "its state is that of functions in Python",
    "python-over-aggregate": "its state is that of functions in Python",
    "python-group-window-aggregate": "its state is that of functions in Python",
}


def operators_of(plan: Plan, node: Node) -> tuple[OperatorShape, ...]:
    """Return what the operators of a node keep; none of a node without state."""
    if (node.kind in STATELESS and not _makes_sessions(node)) or _looks_up(node):
        return ()
    if node.kind in SOURCES:
        return (OperatorShape(node.id, "source", node.uid("source"), node.description, of_connector=True),)
    if node.kind == "sink":
        return expected_rows.sink_operators(node)
    name = NAMES.get(node.kind, node.kind)
    shape = OperatorShape(node.id, name, node.uid(name), node.description)
    function = KINDS.get(node.kind)
    if function is None or node.version != 1:
        why = WHY_UNKNOWN.get(node.kind)
        note = f"a node of type {node.type} is not known" + (f": {why}" if why else "")
        return (replace(shape, known=False, notes=(note,)),)
    try:
        shape = function(plan, node, shape)
    except UnsupportedStateError as error:
        return (replace(shape, known=False, notes=(error.message,)),)
    return (shape,) if shape.is_stateful else ()


def _looks_up(node: Node) -> bool:
    """Return whether a node looks rows up in a table, one after the other, and keeps none."""
    if node.kind != "lookup-join":
        return False
    return not any(node.attributes.get(name) for name in ("upsertMaterialize", "asyncLookupOptions", "asyncOptions"))


def _makes_sessions(node: Node) -> bool:
    """Return whether a node gives rows the windows of SESSION, which later rows may join to one."""
    window = (node.attributes.get("windowing") or {}).get("window") or {}
    return node.kind == "window-table-function" and window.get("type") == "SessionWindow"


def shapes_of(plan: Plan) -> dict[int, tuple[OperatorShape, ...]]:
    """Return what the operators of all nodes keep, by node."""
    return {number: operators_of(plan, node) for number, node in plan.nodes.items()}


KINDS: Mapping[str, Callable[[Plan, Node, OperatorShape], OperatorShape]] = {
    "group-aggregate": expected_aggregates.group_aggregate,
    "global-group-aggregate": expected_aggregates.group_aggregate,
    "incremental-group-aggregate": expected_aggregates.incremental,
    "window-aggregate": expected_aggregates.window_aggregate,
    "global-window-aggregate": expected_aggregates.window_aggregate,
    "group-window-aggregate": expected_aggregates.group_window,
    "over-aggregate": expected_aggregates.over,
    "join": expected_rows.join,
    "interval-join": expected_rows.interval_join,
    "temporal-join": expected_rows.temporal_join,
    "window-join": expected_rows.window_join,
    "rank": expected_rows.rank,
    "limit": expected_rows.rank,
    "sort-limit": expected_rows.rank,
    "window-rank": expected_rows.window_rank,
    "window-deduplicate": expected_rows.window_deduplicate,
    "deduplicate": expected_rows.deduplicate,
    "changelog-normalize": expected_rows.normalize,
    "temporal-sort": expected_rows.temporal_sort,
    "match": expected_rows.match,
}
