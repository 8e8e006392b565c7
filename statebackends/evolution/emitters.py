"""What an operator before a state has emitted by now, so that the state can be made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_savepoint.statebackends.evolution.changes import OperatorChange, Verdict
from pyspark_savepoint.statebackends.evolution.lineage import AGGREGATES, PASSING, Lineage
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

    A source's kind of changes is not in a plan; a sink behind that only gets inserts tells it.
    """
    waiting = [lineage.plan.inputs(node)[place]]
    while waiting:
        one = waiting.pop()
        if one.kind in UPDATING or (one.kind == "join" and one.attributes["joinSpec"]["joinType"] != "INNER"):
            return False
        waiting += lineage.plan.inputs(one)
    behind, seen = [node.id], {node.id}
    while behind:
        for target in lineage.plan.targets[behind.pop()]:
            found = lineage.plan.nodes[target]
            if found.kind == "sink" and list(found.attributes.get("inputChangelogMode") or ()) == ["INSERT"]:
                return True
            if target not in seen:
                seen.add(target)
                behind.append(target)
    return False
