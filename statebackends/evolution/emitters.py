"""What an operator before a state has emitted by now, so that the state can be made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_savepoint.statebackends.evolution.changes import OperatorChange, Verdict
from pyspark_savepoint.statebackends.evolution.expected_aggregates import retracts
from pyspark_savepoint.statebackends.evolution.lineage import AGGREGATES, PASSING, WINDOW_AGGREGATES, Lineage
from pyspark_savepoint.statebackends.evolution.plans import Node
from pyspark_savepoint.statebackends.evolution.shapes import Layout, StateShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import Available, of_emitted


@dataclass(frozen=True)
class Emitted:
    """What an operator has emitted by now: its rows, its uid, and what becomes of it."""

    rows: Available
    uid: str
    verdict: Verdict


Decided = Mapping[int, OperatorChange]

#: Nodes that emit one row per key, which their state has.
EMITTING = (*AGGREGATES, "deduplicate", "changelog-normalize")
#: Nodes that emit updates and deletes.
UPDATING = (
    *AGGREGATES, "rank", "deduplicate", "changelog-normalize", "group-window-aggregate", "limit", "sort-limit",
)  # fmt: skip
#: Nodes whose inputs only get inserts.
INSERTED = (
    "deduplicate", "interval-join", "window-join", "window-rank", "window-deduplicate", "match", "temporal-sort",
)  # fmt: skip
#: Connectors whose tables only have inserts, with a format of rows that are not changes.
ADDING = ("kafka", "filesystem", "kinesis", "kinesis-legacy")
PLAIN_FORMATS = {"json", "csv", "raw", "avro", "avro-confluent", "protobuf", "parquet", "orc"}
#: Layouts that can be made of emitted rows.
EMITTED_LAYOUTS = (
    Layout.ROW, Layout.UNIQUE_ROWS, Layout.COUNTED_ROWS, Layout.ROW_ASSOCIATED, Layout.UNIQUE_ROWS_ASSOCIATED,
    Layout.COUNTED_ROWS_ASSOCIATED, Layout.RANKED_ROWS, Layout.ROWS_BY_SORT_KEY, Layout.ROW_LIST,
)  # fmt: skip


def emitter_of(lineage: Lineage, node: Node) -> Node | None:
    """Return the node with state that emits a node's rows, if only expressions are between; None if there is none."""
    while node.kind in PASSING or (node.kind == "calc" and node.attributes.get("condition") is None):
        (node,) = lineage.plan.inputs(node)
    return node if node.kind in EMITTING else None


def emitted_before(lineage: Lineage, decided: Decided, node: Node, state: StateShape) -> Emitted | None:
    """Return what the operator before a state has emitted, and its uid; None if that cannot be told.

    ``decided`` are the operators of NEW that come before.
    """
    if state.layout not in EMITTED_LAYOUTS or state.input is None:
        return None
    below = emitter_of(lineage, lineage.plan.inputs(node)[state.input])
    if below is None or below.id not in decided:
        return None
    change = decided[below.id]
    if change.new is None or change.verdict in (Verdict.UNKNOWN, Verdict.AMBIGUOUS, Verdict.LOST, Verdict.BEGINS_EMPTY):
        return None
    shape = change.new
    keeps_rows = any(one.layout in (Layout.ACCUMULATORS, Layout.ROW) for one in shape.states)
    if not keeps_rows or not all(one.new is None or one.verdict is not Verdict.BEGINS_EMPTY for one in change.states):
        return None
    return Emitted(of_emitted(shape.uid, lineage.of(below).fields, below.output), shape.uid, change.verdict)


def insert_only(lineage: Lineage, node: Node, place: int) -> bool:
    """Return whether rows are only added to an input, as far as the plan tells.

    A source's kind of changes is not in a plan. A node that only takes inserts tells it, where it is behind nodes that
    would pass on every change: a sink, an aggregate that takes nothing out, a first or last row. So do the connector
    and the format of its table, if they are known.
    """
    waiting, sources = [lineage.plan.inputs(node)[place]], []
    if _takes_inserts(lineage, node):
        return True
    while waiting:
        one = waiting.pop()
        if one.kind in UPDATING or (one.kind == "join" and one.attributes["joinSpec"]["joinType"] != "INNER"):
            return False
        waiting += lineage.plan.inputs(one)
        sources += [one] if not one.inputs else []
    if all(map(_gives_inserts, sources)):
        return True
    behind = [node] if _passes_changes(node) else []
    while behind:
        for target in lineage.plan.targets[behind.pop().id]:
            found = lineage.plan.nodes[target]
            if _takes_inserts(lineage, found):
                return True
            if _passes_changes(found):
                behind.append(found)
    return False


def _gives_inserts(node: Node) -> bool:
    """Return whether the options of a source's table tell that it only has inserts."""
    table = (node.attributes.get("scanTableSource") or {}).get("table") or {}
    options = (table.get("resolvedTable") or {}).get("options") or {}
    formats = {options[name] for name in ("format", "value.format") if name in options}
    if options.get("connector") == "datagen":
        return True
    return options.get("connector") in ADDING and bool(formats) and formats <= PLAIN_FORMATS


def _passes_changes(node: Node) -> bool:
    """Return whether a node that gets updates or deletes gives such."""
    if node.kind == "join":
        return bool(node.attributes["joinSpec"]["joinType"] == "INNER")
    return node.kind in (*PASSING, "calc", "union", "correlate", "expand", "lookup-join")


def _takes_inserts(lineage: Lineage, node: Node) -> bool:
    """Return whether a plan has a node only where no row of its input is changed or taken out."""
    attributes = node.attributes
    if node.kind == "sink":
        return list(attributes.get("inputChangelogMode") or ()) == ["INSERT"]
    if node.kind in ("rank", "sort-limit", "limit"):
        return (attributes.get("rankStrategy") or {}).get("type") == "AppendFast"
    if node.kind in (*AGGREGATES, *WINDOW_AGGREGATES, "incremental-group-aggregate"):
        return not retracts(node)
    if node.kind == "over-aggregate":
        (below,), groups = lineage.plan.inputs(node), attributes["overSpec"]["groups"]
        order = [one["index"] for group in groups for one in group["orderBy"]["fields"]]
        return bool(order) and all(below.output[place].kind.kind in ("ROWTIME", "PROCTIME") for place in order)
    return node.kind in INSERTED
