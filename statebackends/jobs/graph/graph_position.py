"""Operators of a snapshot that are known by their place in the job's graph: those that have no uid."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.jobs.graph.hashers import StreamGraphHasher, operator_id_pairs, operator_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import StreamNode
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan


def operator_at(
    snapshot: Savepoint, graph: StreamGraph, name: str, hasher: StreamGraphHasher = StreamGraphHasher.V2
) -> OperatorID:
    """The id of the operator of a name, uid or number in the graph; OperatorNotFoundError says which ids were tried."""
    node = _node(graph, name)
    candidates = operator_id_pairs(graph, hasher)[node.id].candidates
    there = {operator.operator_id for operator in snapshot.operators}
    for _, operator_id in candidates:
        if operator_id in there:
            return operator_id
    taken = "; ".join(graph.assumptions)
    raise OperatorNotFoundError(
        "the snapshot has no operator of the id that this place in the graph gives",
        path=snapshot.path,
        operator=node.label,
        expected=", ".join(f"{operator_id} ({by})" for by, operator_id in candidates),
        found=f"taken for granted: {taken}" if taken else None,
        remedy="the graph must be that of the job as it was: its chaining, parallelism and order count",
    )


def operator_at_plan(snapshot: Savepoint, plan: str, name: str, hasher: StreamGraphHasher) -> OperatorID:
    """The same by an execution plan as JSON; beside ``nodes`` it may have ``settings`` for what it does not say."""
    try:
        parsed: Any = json.loads(plan)
    except ValueError as error:
        raise OptionError("option 'executionPlan' is no JSON", found=str(error)) from None
    settings = parsed.get("settings", {}) if isinstance(parsed, Mapping) else {}
    return operator_at(snapshot, from_execution_plan(parsed, settings), name, hasher)


def _node(graph: StreamGraph, name: str) -> StreamNode:
    if name.isdecimal() and int(name) in graph.nodes:
        return graph.nodes[int(name)]
    return graph.node(name)


def identifiers_to_change(snapshot: Savepoint, graph: StreamGraph) -> dict[OperatorID, OperatorIdentifier]:
    """What operators of a snapshot are called by a job that sets uids since, by what they are called there.

    The graph is that of the job with its new uids, and otherwise as it was. Operators that stay without one get another
    id too, when something before them in the graph has a uid now. Who the snapshot has by uid already stays.
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
