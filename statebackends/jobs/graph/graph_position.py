"""Lookup of operators without uid in a snapshot by their position in the job's graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_savepoint.formats.errors import OperatorNotFoundError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.hashers import operator_id_pairs, operator_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import StreamNode
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import (
    AN_OBJECT,
    expect_kind,
    from_execution_plan,
    read_json,
)


def operator_at(
    snapshot: Snapshot, graph: StreamGraph, name: str, hasher: StreamGraphHasher | None = None
) -> OperatorID:
    """Return the operator id for a name, uid or number in the graph; OperatorNotFoundError lists the ids tried."""
    node = _node(graph, name)
    candidates = operator_id_pairs(graph, hasher)[node.id].candidates
    there = {operator.operator_id for operator in snapshot.operators}
    for _, operator_id in candidates:
        if operator_id in there:
            return operator_id
    taken = "; ".join(graph.assumptions)
    raise OperatorNotFoundError(
        "the snapshot has no operator with the id that follows from this position in the graph",
        path=snapshot.path,
        operator=node.label,
        expected=", ".join(f"{operator_id} ({by})" for by, operator_id in candidates),
        found=f"assumed: {taken}" if taken else None,
        remedy="the graph must be that of the job when it took the snapshot: its chaining, parallelism and order "
        "matter",
    )


def operator_at_plan(snapshot: Snapshot, plan: str, name: str, hasher: StreamGraphHasher) -> OperatorID:
    """Return the operator id by an execution plan as JSON, which may have ``settings`` next to ``nodes``."""
    parsed = read_json(plan, "option 'executionPlan'")
    expect_kind(parsed, AN_OBJECT, "option 'executionPlan'")
    return operator_at(snapshot, from_execution_plan(parsed, parsed.get("settings")), name, hasher)


def _node(graph: StreamGraph, name: str) -> StreamNode:
    if name.isdecimal() and int(name) in graph.nodes:
        return graph.nodes[int(name)]
    return graph.node(name)


def identifiers_to_change(snapshot: Snapshot, graph: StreamGraph) -> dict[OperatorID, OperatorIdentifier]:
    """Return the new identifiers of a snapshot's operators for a job to which uids were added, by their current ids.

    The graph is that of the job with its new uids, and otherwise unchanged. Operators without uid also change their id
    if something before them in the graph has a uid now. Operators that the snapshot already has by uid are unchanged.
    """
    there = {operator.operator_id for operator in snapshot.operators}
    new = [node for node in graph.nodes.values() if node.uid is not None and OperatorID.from_uid(node.uid) not in there]
    after = operator_ids(graph)
    with _without_uids(new):
        before = operator_ids(graph)
    return {
        before[node_id]: OperatorIdentifier(operator_id, graph.nodes[node_id].uid)
        for node_id, operator_id in after.items()
        if before[node_id] in there and before[node_id] != operator_id
    }


@contextmanager
def _without_uids(nodes: list[StreamNode]) -> Iterator[None]:
    uids = [node.uid for node in nodes]
    try:
        for node in nodes:
            node.uid = None
        yield
    finally:
        for node, uid in zip(nodes, uids, strict=True):
            node.uid = uid
