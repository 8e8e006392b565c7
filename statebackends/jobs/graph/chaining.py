"""Chaining of operators into tasks: Flink's rules, applied to a described stream graph.

Flink: ``StreamingJobGraphGenerator#isChainable``, ``#isChainableSource``, ``#createChain``.
"""

from __future__ import annotations

from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import (
    ChainingStrategy,
    Partitioner,
    SourceKind,
    StreamEdge,
    StreamNode,
)


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Return whether the two operators of an edge run in one task, so that the edge is a method call."""
    return len(graph.nodes[edge.target].in_edges) == 1 and _is_chainable_input(edge, graph)


def is_chainable_source(node: StreamNode, graph: StreamGraph) -> bool:
    """Return whether a source runs inside an operator with several inputs."""
    if node.source is not SourceKind.SOURCE or len(node.out_edges) != 1:
        return False
    (edge,) = node.out_edges
    target = graph.nodes[edge.target]
    return target.chaining is ChainingStrategy.HEAD_WITH_SOURCES and _is_chainable_input(edge, graph)


def tasks(graph: StreamGraph) -> dict[int, list[int]]:
    """Return the operators of every task in the order of Flink's job vertex, by the head operator of the task.

    That order is from the ends of the chain to its head. A source inside an operator with several inputs is in no list.
    """
    heads = [
        node.id
        for node in graph.nodes.values()
        if not is_chainable_source(node, graph) and not any(_joins(edge, graph) for edge in node.in_edges)
    ]
    return {head: _chain(head, graph) for head in heads}


def _joins(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Return whether the target of an edge runs in the source's task, rather than the source in the target's."""
    return is_chainable(edge, graph) and not is_chainable_source(graph.nodes[edge.source], graph)


def _chain(head: int, graph: StreamGraph) -> list[int]:
    """Return a chain in Flink's order: heads before outputs, the last output first; then reversed."""
    found: list[int] = []
    waiting = [head]
    while waiting:
        node = graph.nodes[waiting.pop()]
        found.append(node.id)
        waiting += [edge.target for edge in node.out_edges if _joins(edge, graph)]
    return found[::-1]


def _is_chainable_input(edge: StreamEdge, graph: StreamGraph) -> bool:
    up, down = graph.nodes[edge.source], graph.nodes[edge.target]
    return (
        graph.chaining
        and up.slot_sharing_group == down.slot_sharing_group
        and _are_operators_chainable(up, down, graph)
        and edge.partitioner is Partitioner.FORWARD
        and not edge.batch_exchange
        and sum(other.port == edge.port for other in down.in_edges) == 1
    )


def _are_operators_chainable(up: StreamNode, down: StreamNode, graph: StreamGraph) -> bool:
    if down.yielding and _head_of_chain(up, graph).source is SourceKind.LEGACY:
        return False
    if up.chaining is ChainingStrategy.NEVER:
        return False
    if down.chaining in (ChainingStrategy.NEVER, ChainingStrategy.HEAD):
        return False
    if down.chaining is ChainingStrategy.HEAD_WITH_SOURCES and up.source is not SourceKind.SOURCE:
        return False
    if not graph.chain_different_max_parallelism and up.max_parallelism != down.max_parallelism:
        return False
    return up.parallelism == down.parallelism


def _head_of_chain(node: StreamNode, graph: StreamGraph) -> StreamNode:
    while len(node.in_edges) == 1 and is_chainable(node.in_edges[0], graph):
        node = graph.nodes[node.in_edges[0].source]
    return node
