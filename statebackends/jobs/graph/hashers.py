"""Operator ids that Flink gives to the operators of a stream graph.

The id of an operator with a uid is the hash of the uid. The id of any other depends on its position: nodes are visited
breadth first from the sources, each as soon as all its inputs have an id::

    n      = number of ids given so far
    data   = i32le(n)  and in version 2 once more i32le(n) for every output that is chained
    id     = murmur3_128(data), then for every input edge in order: id[j] = id[j] * 37 XOR input[j], j = 0 ... 15

In version 2 an id therefore changes with the chaining of an output; version 3 omits that part. Flink up to 2.3 has only
version 2; version 3 is a proposal. Flink: ``StreamGraphHasherV2``, ``StreamGraphUserHashHasher``, ``OperatorIDPair``,
and ``StreamGraphHasherV3`` of the document of that name.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import mmh3

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.chaining import is_chainable
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import StreamNode


@dataclass(frozen=True)
class OperatorIDPair:
    """Id of an operator, with alternatives under which its state may be found, which are tried first, in order.

    Each alternative has a name: ``uid hash`` or ``v2``. ``generated_by`` is ``uid``, ``v2`` or ``v3``.
    """

    generated: OperatorID
    generated_by: str
    alternatives: tuple[tuple[str, OperatorID], ...] = ()

    @property
    def candidates(self) -> tuple[tuple[str, OperatorID], ...]:
        """Return all distinct ids with their names, in the order in which they are tried."""
        every = (*self.alternatives, (self.generated_by, self.generated))
        first: dict[OperatorID, str] = {}
        for name, operator_id in every:
            first.setdefault(operator_id, name)
        return tuple((name, operator_id) for operator_id, name in first.items())


def operator_ids(graph: StreamGraph, hasher: StreamGraphHasher | None = None) -> dict[int, OperatorID]:
    """Return the id of every node, in order of generation; raise OptionError if two operators have the same uid.

    Without ``hasher``, the graph's applies.
    """
    hasher = hasher or graph.hasher
    ids: dict[int, OperatorID] = {}
    waiting = deque(graph.sources)
    visited = {node.id for node in waiting}
    while waiting:
        node = waiting.popleft()
        if node.uid is None and any(edge.source not in ids for edge in node.in_edges):
            visited.discard(node.id)  # queued again by the last of its inputs
            continue
        ids[node.id] = (
            _user_specified(node, graph, ids) if node.uid is not None else _by_place(node, graph, ids, hasher)
        )
        for edge in node.out_edges:
            if edge.target not in visited:
                visited.add(edge.target)
                waiting.append(graph.nodes[edge.target])
    _check_all_reached(graph, ids)
    return ids


def operator_id_pairs(graph: StreamGraph, hasher: StreamGraphHasher | None = None) -> dict[int, OperatorIDPair]:
    """Return the ids of every node with their alternatives: its uid hash, and for version 3 the id of version 2."""
    hasher = hasher or graph.hasher
    generated = operator_ids(graph, hasher)
    older = operator_ids(graph, StreamGraphHasher.V2) if hasher is StreamGraphHasher.V3 else {}
    pairs = {}
    for node_id, operator_id in generated.items():
        node = graph.nodes[node_id]
        alternatives = [] if node.uid_hash is None else [("uid hash", node.uid_hash)]
        if node_id in older and older[node_id] != operator_id:
            alternatives.append((StreamGraphHasher.V2.value, older[node_id]))
        by = "uid" if node.uid is not None else hasher.value
        pairs[node_id] = OperatorIDPair(operator_id, by, tuple(alternatives))
    return pairs


def _user_specified(node: StreamNode, graph: StreamGraph, ids: Mapping[int, OperatorID]) -> OperatorID:
    operator_id = OperatorID.from_uid(node.uid or "")
    for other, given in ids.items():
        if given == operator_id:
            raise OptionError(
                "two operators have the same uid; Flink refuses such a job",
                operator=f"{graph.nodes[other].label} and {node.label}",
                remedy="give every operator a uid of its own",
            )
    return operator_id


def _by_place(
    node: StreamNode, graph: StreamGraph, ids: Mapping[int, OperatorID], hasher: StreamGraphHasher
) -> OperatorID:
    chained = sum(is_chainable(edge, graph) for edge in node.out_edges) if hasher is StreamGraphHasher.V2 else 0
    data = struct.pack("<i", len(ids)) * (1 + chained)
    digest = bytearray(mmh3.hash_bytes(data, 0, True))
    for edge in node.in_edges:
        for j, other in enumerate(ids[edge.source].data):
            digest[j] = digest[j] * 37 & 0xFF ^ other
    return OperatorID(bytes(digest))


def _check_all_reached(graph: StreamGraph, ids: Mapping[int, OperatorID]) -> None:
    missing = [node.label for node in graph.nodes.values() if node.id not in ids]
    if missing:
        raise OptionError(
            "operators that are not reached from a source have no id",
            operator=", ".join(missing),
            remedy="describe the whole job, beginning with its sources; feedback edges of iterations are not supported",
        )
