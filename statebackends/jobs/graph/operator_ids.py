"""Operator ids that Flink gives to the operators of a stream graph, and the lookup of a position in a snapshot.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import mmh3
import pyarrow as pa

from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError
from pyspark_savepoint.formats.json_text import number_of
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import (
    Chains,
    StreamGraph,
    StreamGraphHasher,
    hasher_of,
)
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import StreamNode
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import (
    AN_OBJECT,
    expect_kind,
    from_execution_plan,
    read_json,
)


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


def generated_ids(graph: StreamGraph, hasher: StreamGraphHasher | None = None) -> dict[int, OperatorID]:
    """Return the id of every node, in order of generation, or raise OptionError if two operators have the same uid.

    Without ``hasher``, the graph's applies.
    """
    hasher = hasher or graph.hasher
    chains = Chains(graph)
    ids: dict[int, OperatorID] = {}
    labels: dict[OperatorID, str] = {}
    waiting = deque(graph.sources)
    visited = {node.id for node in waiting}
    unknown = {node.id: len(node.in_edges) for node in graph.nodes.values()}
    while waiting:
        node = waiting.popleft()
        if node.uid is None and unknown[node.id]:
            visited.discard(node.id)  # queued again by the last of its inputs
            continue
        ids[node.id] = _user_specified(node, labels) if node.uid is not None else _by_place(node, chains, ids, hasher)
        labels.setdefault(ids[node.id], node.label)
        for edge in node.out_edges:
            unknown[edge.target] -= 1
            if edge.target not in visited:
                visited.add(edge.target)
                waiting.append(graph.nodes[edge.target])
    _check_all_reached(graph, ids)
    return ids


def operator_id_pairs(graph: StreamGraph, hasher: StreamGraphHasher | None = None) -> dict[int, OperatorIDPair]:
    """Return the ids of every node with their alternatives: its uid hash, and for version 3 the id of version 2."""
    hasher = hasher or graph.hasher
    generated = generated_ids(graph, hasher)
    older = generated_ids(graph, StreamGraphHasher.V2) if hasher is StreamGraphHasher.V3 else {}
    pairs = {}
    for node_id, operator_id in generated.items():
        node = graph.nodes[node_id]
        alternatives = [] if node.uid_hash is None else [("uid hash", node.uid_hash)]
        if node_id in older and older[node_id] != operator_id:
            alternatives.append((StreamGraphHasher.V2.value, older[node_id]))
        by = "uid" if node.uid is not None else hasher.value
        pairs[node_id] = OperatorIDPair(operator_id, by, tuple(alternatives))
    return pairs


def _user_specified(node: StreamNode, labels: Mapping[OperatorID, str]) -> OperatorID:
    operator_id = OperatorID.from_uid(node.uid or "")
    if operator_id in labels:
        raise OptionError(
            "two operators have the same uid; Flink refuses such a job",
            operator=f"{labels[operator_id]} and {node.label}",
            remedy="give every operator a uid of its own",
        )
    return operator_id


def _by_place(node: StreamNode, chains: Chains, ids: Mapping[int, OperatorID], hasher: StreamGraphHasher) -> OperatorID:
    chained = sum(map(chains.is_chainable, node.out_edges)) if hasher is StreamGraphHasher.V2 else 0
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


SCHEMA = pa.schema(
    [
        ("node", pa.int32()),
        ("name", pa.string()),
        ("uid", pa.string()),
        ("operator_id", pa.string()),
        ("by", pa.string()),
        ("alternatives", pa.map_(pa.string(), pa.string())),
    ]
)


def operator_ids(graph: StreamGraph, hasher: str | None = None) -> pa.Table:
    """Return the ids that Flink gives to the operators of a job, one row per operator, in order of generation.

    Args:
        graph: The graph of the job.
        hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``. By default that of the graph.

    Returns:
        Number, name, uid and id of each operator, ``by`` what the id is made (``uid``, ``v2`` or ``v3``), and the
        alternatives that a restore tries before it, by what they are made.

    Raises:
        OptionError: If two operators have one uid, or an operator is not reached from a source.

    Example::

        pyspark_savepoint.operator_ids(graph).to_pandas()

    """
    rows = []
    for number, pair in operator_id_pairs(graph, None if hasher is None else hasher_of(hasher)).items():
        node = graph.nodes[number]
        alternatives = [(how, other.hex) for how, other in pair.alternatives]
        rows.append((number, node.name, node.uid, pair.generated.hex, pair.generated_by, alternatives))
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def operator_at(
    snapshot: Snapshot, graph: StreamGraph, name: str, hasher: StreamGraphHasher | None = None
) -> OperatorID:
    """Return the operator id for a name, uid or number in the graph. OperatorNotFoundError lists the ids tried."""
    node = _node(graph, name)
    candidates = operator_id_pairs(graph, hasher)[node.id].candidates
    present = {operator.operator_id for operator in snapshot.operators}
    for _, operator_id in candidates:
        if operator_id in present:
            return operator_id
    assumptions = "; ".join(graph.assumptions)
    raise OperatorNotFoundError(
        "the snapshot has no operator with the id that follows from this position in the graph",
        path=snapshot.path,
        operator=node.label,
        expected=", ".join(f"{operator_id} ({by})" for by, operator_id in candidates),
        found=f"assumed: {assumptions}" if assumptions else None,
        remedy="the graph must be that of the job when it took the snapshot: its chaining, parallelism and order "
        "matter",
    )


def operator_at_plan(snapshot: Snapshot, plan: str, name: str, hasher: StreamGraphHasher) -> OperatorID:
    """Return the operator id by an execution plan as JSON, which may have ``settings`` next to ``nodes``."""
    parsed = read_json(plan, "option 'executionPlan'")
    expect_kind(parsed, AN_OBJECT, "option 'executionPlan'")
    return operator_at(snapshot, from_execution_plan(parsed, parsed.get("settings")), name, hasher)


def _node(graph: StreamGraph, name: str) -> StreamNode:
    number = number_of(name, max(graph.nodes, default=0))
    if number is not None and number in graph.nodes:
        return graph.nodes[number]
    return graph.node(name)


def identifiers_to_change(snapshot: Snapshot, graph: StreamGraph) -> dict[OperatorID, OperatorIdentifier]:
    """Return the new identifiers of a snapshot's operators for a job to which uids were added, by their current ids.

    The graph is that of the job with its new uids, and otherwise unchanged. Operators without uid also change their id
    if something before them in the graph has a uid now. Operators that the snapshot already has by uid are unchanged.
    """
    present = {operator.operator_id for operator in snapshot.operators}
    new = [
        node for node in graph.nodes.values() if node.uid is not None and OperatorID.from_uid(node.uid) not in present
    ]
    after = generated_ids(graph)
    with _without_uids(new):
        before = generated_ids(graph)
    return {
        before[node_id]: OperatorIdentifier(operator_id, graph.nodes[node_id].uid)
        for node_id, operator_id in after.items()
        if before[node_id] in present and before[node_id] != operator_id
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
