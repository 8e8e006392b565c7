"""The stream graph of a job, from which Flink generates the ids of operators without uid.

It is built in the order of the job's code, with the operations of the DataStream API::

    graph = StreamGraph(parallelism=4)
    orders = graph.source("orders", uid="orders")
    rates = graph.source("rates", parallelism=1)
    joined = graph.operator("join", orders.key_by(), rates.broadcast())
    graph.operator("print", joined, chaining=ChainingStrategy.NEVER)

Each argument after the name is one input of the operator. ``a.union(b)`` is one input too. Side outputs and
partitioning are edges, not nodes. Nodes are numbered as they are added. At the end: which operators are chained into
one task. Flink: ``StreamGraph``, ``StreamNode``, ``StreamEdge``, ``StreamGraphGenerator``,
``StreamingJobGraphGenerator#isChainable``, ``#isChainableSource``, ``#createChain``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import (
    DEFAULT_SLOT_SHARING_GROUP,
    ChainingStrategy,
    Partitioner,
    SourceKind,
    Stream,
    StreamEdge,
    StreamNode,
)


class StreamGraphHasher(StrEnum):
    """Version of the id generation. Values of the option ``streamGraphHasher``."""

    V2 = "v2"
    V3 = "v3"


class StreamGraph:
    """Nodes and edges of a job, in the order in which the job adds them.

    ``assumptions`` lists what a graph built from an execution plan had to assume, ``knows_uids`` is False there
    until settings give some: a plan has no uids, so that each of its nodes may have one. Flink: ``StreamGraph``.

    Args:
        parallelism: The environment's parallelism, for operators that set none.
        max_parallelism: The environment's max parallelism, for operators that set none.
        chaining: Setting ``pipeline.operator-chaining.enabled``.
        chain_different_max_parallelism: Setting
            ``pipeline.operator-chaining.chain-operators-with-different-max-parallelism``.
        hasher: Setting ``execution.stream-graph-hasher.version``: how operators without uid get their ids, ``v2``, or
            the proposed ``v3``.
        auto_generate_uids: Setting ``pipeline.auto-generate-uids``: without it, every operator needs a uid or a uid
            hash, and one that has none raises OptionError.

    Example::

        graph = StreamGraph(parallelism=4)
        orders = graph.source("orders", uid="orders")
        graph.sink("print", graph.operator("count", orders.key_by()))

    """

    def __init__(
        self,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        *,
        chaining: bool = True,
        chain_different_max_parallelism: bool = True,
        hasher: str = "v2",
        auto_generate_uids: bool = True,
    ) -> None:
        self.parallelism = parallelism
        self.auto_generate_uids = auto_generate_uids
        self.max_parallelism = max_parallelism
        self.chaining = chaining
        self.chain_different_max_parallelism = chain_different_max_parallelism
        self.hasher = hasher
        self.nodes: dict[int, StreamNode] = {}
        self.assumptions: tuple[str, ...] = ()
        self.knows_uids = True

    def __repr__(self) -> str:
        """Return one line: how many nodes there are."""
        return f"<StreamGraph of {len(self.nodes)} nodes, parallelism {self.parallelism}>"

    @property
    def hasher(self) -> StreamGraphHasher:
        """How operators without uid get their ids. Set to ``v2`` or ``v3``."""
        return self._hasher

    @hasher.setter
    def hasher(self, name: str) -> None:
        self._hasher = hasher_of(name)

    @property
    def sources(self) -> list[StreamNode]:
        """The sources, in the order in which ids are generated: by node number."""
        return sorted((node for node in self.nodes.values() if node.source), key=lambda node: node.id)

    def node(self, name: str) -> StreamNode:
        """Return the node with a uid, or else with a name.

        Args:
            name: The uid or name.

        Returns:
            The node.

        Raises:
            OptionError: If there is no such node, or several.

        """
        return self.lookup()(name)

    def lookup(self) -> Callable[[str], StreamNode]:
        """Return :meth:`node` as a function, for many names of a graph that does not change meanwhile.

        Returns:
            The function, from a uid or name to the node.

        Raises:
            OptionError: By the function, if there is no such node, or several.

        Example::

            node_of = graph.lookup()
            orders, rates = node_of("orders"), node_of("rates")

        """
        by_uid: dict[str, list[StreamNode]] = {}
        by_name: dict[str, list[StreamNode]] = {}
        for node in self.nodes.values():
            by_name.setdefault(node.name, []).append(node)
            if node.uid is not None:
                by_uid.setdefault(node.uid, []).append(node)

        def node_of(name: str) -> StreamNode:
            matches = by_uid.get(name) or by_name.get(name, [])
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise OptionError(
                    f"{len(matches)} operators of the job have the name {name!r}",
                    found=", ".join(node.label for node in matches),
                    remedy="give them uids, or take them from 'nodes' by number",
                )
            labels = [label for node in self.nodes.values() for label in (node.uid, node.name) if label]
            raise OptionError("the job has no such operator", operator=name, remedy=did_you_mean(name, labels))

        return node_of

    # -- building --------------------------------------------------------------------------------------------

    def source(
        self,
        name: str,
        *,
        legacy: bool = False,
        uid: str | None = None,
        uid_hash: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        slot_sharing_group: str | None = None,
        chaining: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> Stream:
        """Add a source.

        Args:
            name: Its name in the job.
            legacy: Whether it is a ``SourceFunction`` (``addSource``, ``fromElements`` before Flink 2).
            uid: Its uid, if the job sets one.
            uid_hash: Its uid hash (``setUidHash``), 32 hex digits.
            parallelism: Its parallelism. By default that of the graph.
            max_parallelism: Its max parallelism. By default that of the graph.
            slot_sharing_group: Its slot sharing group. ``default`` by default.
            chaining: Whether it may be chained.

        Returns:
            Its output.

        Raises:
            OptionError: If a number is out of range, or ``uid_hash`` is not 32 hex digits.

        """
        node = self._new_node(name, uid, uid_hash, parallelism, max_parallelism)
        node.source = SourceKind.LEGACY if legacy else SourceKind.SOURCE
        node.slot_sharing_group = slot_sharing_group or DEFAULT_SLOT_SHARING_GROUP
        node.chaining = ChainingStrategy(chaining)
        return Stream(((self.add(node), None),))

    def operator(
        self,
        name: str,
        *inputs: Stream,
        uid: str | None = None,
        uid_hash: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        slot_sharing_group: str | None = None,
        chaining: ChainingStrategy = ChainingStrategy.ALWAYS,
        yielding: bool = False,
    ) -> Stream:
        """Add an operator, or a sink that is one operator.

        Args:
            name: Its name in the job.
            *inputs: A stream for each of its inputs.
            uid: Its uid, if the job sets one.
            uid_hash: Its uid hash (``setUidHash``), 32 hex digits.
            parallelism: Its parallelism. By default that of the graph.
            max_parallelism: Its max parallelism. By default that of the graph.
            slot_sharing_group: Its slot sharing group. By default that of all inputs, or ``default`` if they differ.
            chaining: Whether it may be chained. ALWAYS for operators with broadcast state, on which ``disableChaining``
                has no effect.
            yielding: Whether it yields to the mailbox, as async I/O does.

        Returns:
            Its output.

        Raises:
            OptionError: If there is no input, one is of another graph, or a number is out of range; or if a forward
                edge changes the parallelism.

        Example::

            joined = graph.operator("join", orders.key_by(), rates.broadcast(), uid="join")

        """
        if not inputs:
            raise OptionError(
                "an operator needs at least one input", operator=name, remedy="'source' adds a node without inputs"
            )
        node = self._new_node(name, uid, uid_hash, parallelism, max_parallelism)
        groups = [upstream.slot_sharing_group for stream in inputs for upstream, _ in stream.outputs]
        node.slot_sharing_group = slot_sharing_group or _common(groups)
        node.chaining = ChainingStrategy(chaining)
        node.yielding = yielding
        edges = []
        for port, stream in enumerate(inputs):
            for upstream, partitioner in stream.outputs:
                self._check_member(upstream)
                edge_partitioner = partitioner or _default_partitioner(upstream, node)
                _check_forward(upstream, node, edge_partitioner)
                edges.append(StreamEdge(upstream.id, node.id, edge_partitioner, port))
        self.add(node)
        for edge in edges:
            self.connect(edge)
        return Stream(((node, None),))

    def sink(
        self,
        name: str,
        stream: Stream,
        *,
        committer: bool = False,
        uid: str | None = None,
        uid_hash: str | None = None,
        committer_uid_hash: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        slot_sharing_group: str | None = None,
        chaining: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> Stream:
        """Add the operators of ``sinkTo`` for a sink without own topology: a writer and, if it has one, a committer.

        The committer of a sink with uid U has the uid ``Sink Committer: U``.

        Args:
            name: Its name in the job.
            stream: Its input.
            committer: Whether the sink has a committer.
            uid: Its uid, if the job sets one.
            uid_hash: The uid hash of the writer, 32 hex digits.
            committer_uid_hash: The uid hash of the committer, 32 hex digits.
            parallelism: Its parallelism. By default that of the graph.
            max_parallelism: Its max parallelism. By default that of the graph.
            slot_sharing_group: Its slot sharing group. By default that of its input.
            chaining: Whether it may be chained.

        Returns:
            The output of the last operator.

        Raises:
            OptionError: If a number is out of range, or a uid hash is not 32 hex digits.

        """
        shared: dict[str, Any] = {
            "parallelism": parallelism,
            "max_parallelism": max_parallelism,
            "slot_sharing_group": slot_sharing_group,
            "chaining": chaining,
        }
        writer = self.operator(f"{name}: Writer", stream, uid=uid, uid_hash=uid_hash, yielding=True, **shared)
        if not committer:
            return writer
        committer_uid = None if uid is None else f"Sink Committer: {uid}"
        return self.operator(f"{name}: Committer", writer, uid=committer_uid, uid_hash=committer_uid_hash, **shared)

    # -- parts -----------------------------------------------------------------------------------------------

    def add(self, node: StreamNode) -> StreamNode:
        """Add an existing node, such as one of an execution plan. :meth:`connect` adds its edges.

        Args:
            node: The node.

        Returns:
            The same node.

        Raises:
            OptionError: If the graph has a node with its number.

        """
        if node.id in self.nodes:
            raise OptionError(f"the graph has two nodes {node.id}", found=f"{self.nodes[node.id].label}, {node.label}")
        self.nodes[node.id] = node
        return node

    def connect(self, edge: StreamEdge) -> None:
        """Add an edge, after the existing ones of its two nodes: ids depend on their order.

        Args:
            edge: The edge.

        Raises:
            OptionError: If the graph does not have one of its nodes.

        """
        for end in (edge.source, edge.target):
            if end not in self.nodes:
                raise OptionError(
                    "an edge refers to a node that the graph does not have",
                    expected=f"one of {', '.join(map(str, sorted(self.nodes)))}",
                    found=end,
                )
        self.nodes[edge.source].out_edges.append(edge)
        self.nodes[edge.target].in_edges.append(edge)

    def _new_node(
        self, name: str, uid: str | None, uid_hash: str | None, parallelism: int | None, max_parallelism: int | None
    ) -> StreamNode:
        if not self.auto_generate_uids and uid is None and uid_hash is None:
            raise OptionError(
                "uids are not generated (pipeline.auto-generate-uids is false): an operator needs a uid or a uid hash",
                operator=name,
                remedy="give it a uid, or leave auto_generate_uids out",
            )
        node = StreamNode(
            id=len(self.nodes) + 1,
            name=name,
            parallelism=self.parallelism if parallelism is None else parallelism,
            uid=uid,
            uid_hash=None if uid_hash is None else OperatorID.from_hex(uid_hash),
            max_parallelism=self.max_parallelism if max_parallelism is None else max_parallelism,
        )
        _check_bounds(node)
        return node

    def _check_member(self, node: StreamNode) -> None:
        if self.nodes.get(node.id) is not node:
            raise OptionError("an input belongs to another graph", operator=node.label)


def _check_bounds(node: StreamNode) -> None:
    """Raise OptionError if parallelism or max parallelism is out of range.

    Whether parallelism exceeds max parallelism is left to the restore check, as Flink also finds that out.
    """
    for what, value in (("parallelism", node.parallelism), ("max parallelism", node.max_parallelism)):
        if value is not None and not 1 <= value <= UPPER_BOUND_MAX_PARALLELISM:
            raise OptionError(
                f"the {what} of an operator cannot be {value}",
                operator=node.label,
                expected=f"1 to {UPPER_BOUND_MAX_PARALLELISM}",
            )


def _common(groups: list[str]) -> str:
    """Return the slot sharing group of all inputs, or the default one if they differ."""
    return groups[0] if len(set(groups)) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _default_partitioner(upstream: StreamNode, node: StreamNode) -> Partitioner:
    return Partitioner.FORWARD if upstream.parallelism == node.parallelism else Partitioner.REBALANCE


def _check_forward(upstream: StreamNode, node: StreamNode, partitioner: Partitioner) -> None:
    if partitioner is Partitioner.FORWARD and upstream.parallelism != node.parallelism:
        raise OptionError(
            "a forward edge cannot change the parallelism; Flink refuses such a job",
            operator=node.label,
            expected=f"parallelism {upstream.parallelism}, that of {upstream.label}",
            found=f"parallelism {node.parallelism}",
        )


def hasher_of(name: str) -> StreamGraphHasher:
    """Return the stream graph hasher ``v2`` or ``v3``, or raise OptionError for another name."""
    hashers = [hasher.value for hasher in StreamGraphHasher]
    if name.casefold() not in hashers:
        raise OptionError("unknown version of the stream graph hasher", found=name, remedy=did_you_mean(name, hashers))
    return StreamGraphHasher(name.casefold())


class Chains:
    """Which operators of a graph are chained, found once. The graph does not change meanwhile."""

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        #: How many edges arrive at an input: by node and port.
        self._arriving = Counter((edge.target, edge.port) for node in graph.nodes.values() for edge in node.in_edges)
        self._heads: dict[int, StreamNode] = {}

    def is_chainable(self, edge: StreamEdge) -> bool:
        """Return whether the two operators of an edge run in one task, so that the edge is a method call."""
        return len(self.graph.nodes[edge.target].in_edges) == 1 and self._is_chainable_input(edge)

    def is_chainable_source(self, node: StreamNode) -> bool:
        """Return whether a source runs inside an operator with several inputs."""
        if node.source is not SourceKind.SOURCE or len(node.out_edges) != 1:
            return False
        (edge,) = node.out_edges
        target = self.graph.nodes[edge.target]
        return target.chaining is ChainingStrategy.HEAD_WITH_SOURCES and self._is_chainable_input(edge)

    def tasks(self) -> dict[int, list[int]]:
        """Return the operators of every task in the order of Flink's job vertex, by the head operator of the task.

        That order is from the ends of the chain to its head. A source inside an operator with several inputs is in no
        list.
        """
        heads = [
            node.id
            for node in self.graph.nodes.values()
            if not self.is_chainable_source(node) and not any(map(self._joins, node.in_edges))
        ]
        return {head: self._chain(head) for head in heads}

    def _joins(self, edge: StreamEdge) -> bool:
        """Return whether the target of an edge runs in the source's task, rather than the source in the target's."""
        return self.is_chainable(edge) and not self.is_chainable_source(self.graph.nodes[edge.source])

    def _chain(self, head: int) -> list[int]:
        """Return a chain in Flink's order: heads before outputs, the last output first. Then reversed."""
        chain: list[int] = []
        waiting = [head]
        while waiting:
            node = self.graph.nodes[waiting.pop()]
            chain.append(node.id)
            waiting += [edge.target for edge in node.out_edges if self._joins(edge)]
        return chain[::-1]

    def _is_chainable_input(self, edge: StreamEdge) -> bool:
        up, down = self.graph.nodes[edge.source], self.graph.nodes[edge.target]
        return (
            self._may_chain(up, down)
            and edge.partitioner is Partitioner.FORWARD
            and not edge.batch_exchange
            and self._arriving[edge.target, edge.port] == 1
            and not (down.yielding and self._head(up).source is SourceKind.LEGACY)
        )

    def _may_chain(self, up: StreamNode, down: StreamNode) -> bool:
        if not self.graph.chaining or up.slot_sharing_group != down.slot_sharing_group:
            return False
        if up.chaining is ChainingStrategy.NEVER:
            return False
        if down.chaining in (ChainingStrategy.NEVER, ChainingStrategy.HEAD):
            return False
        if down.chaining is ChainingStrategy.HEAD_WITH_SOURCES and up.source is not SourceKind.SOURCE:
            return False
        if not self.graph.chain_different_max_parallelism and up.max_parallelism != down.max_parallelism:
            return False
        return up.parallelism == down.parallelism

    def _head(self, node: StreamNode) -> StreamNode:
        """Return the head of the chain that a node ends: every node is asked once, the first ones first."""
        below: list[StreamNode] = []
        met = set()
        while node.id not in self._heads and node.id not in met and len(node.in_edges) == 1:
            below.append(node)
            met.add(node.id)
            node = self.graph.nodes[node.in_edges[0].source]
        head = self._heads.setdefault(node.id, node)
        for each in reversed(below):
            if not self.is_chainable(each.in_edges[0]):  # which asks for the head of the node before it: it is known
                head = each
            self._heads[each.id] = head
        return head
