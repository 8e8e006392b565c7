"""Which operators run in one task: Flink's rules, applied to a described stream graph.

Twins: ``StreamingJobGraphGenerator#isChainable`` and ``#isChainableSource``.
"""

from __future__ import annotations

from pyspark_savepoint.statebackends.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.stream_nodes import (
    ChainingStrategy,
    Partitioner,
    SourceKind,
    StreamEdge,
    StreamNode,
)


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Whether the two operators of an edge run in one task, so that the edge is a method call."""
    return len(graph.nodes[edge.target].in_edges) == 1 and _is_chainable_input(edge, graph)


def is_chainable_source(node: StreamNode, graph: StreamGraph) -> bool:
    """Whether a source runs inside an operator with several inputs."""
    if node.source is not SourceKind.SOURCE or len(node.out_edges) != 1:
        return False
    (edge,) = node.out_edges
    target = graph.nodes[edge.target]
    return target.chaining is ChainingStrategy.HEAD_WITH_SOURCES and _is_chainable_input(edge, graph)


def tasks(graph: StreamGraph) -> dict[int, int]:
    """For every node the node at the head of its task, whose id is also the id of the job vertex."""
    heads: dict[int, int] = {}

    def head(node: StreamNode) -> int:
        if node.id not in heads:
            up = [edge for edge in node.in_edges if is_chainable(edge, graph)]
            if is_chainable_source(node, graph):
                heads[node.id] = node.out_edges[0].target
            else:
                heads[node.id] = head(graph.nodes[up[0].source]) if up and not _is_inlined(up[0], graph) else node.id
        return heads[node.id]

    return {node.id: head(node) for node in graph.nodes.values()}


def _is_inlined(edge: StreamEdge, graph: StreamGraph) -> bool:
    return is_chainable_source(graph.nodes[edge.source], graph)


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
