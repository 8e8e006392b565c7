"""Elements of a stream graph: operators, the edges between them, and the streams from which a graph is built.

Flink: ``StreamNode``, ``StreamEdge``, ``ChainingStrategy``, ``StreamPartitioner``, ``DataStream``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID

DEFAULT_SLOT_SHARING_GROUP = "default"


class ChainingStrategy(StrEnum):
    """Whether an operator may be chained. ``disableChaining()`` sets NEVER, ``startNewChain()`` HEAD.

    Flink: ``ChainingStrategy``.

    Example::

        graph.operator("print", joined, chaining=ChainingStrategy.NEVER)
    """

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"
    HEAD_WITH_SOURCES = "HEAD_WITH_SOURCES"


class SourceKind(StrEnum):
    """Kind of a source: SOURCE is a ``Source`` (``fromSource``), LEGACY a ``SourceFunction`` (``addSource``)."""

    SOURCE = "SOURCE"
    LEGACY = "LEGACY"


class Partitioner(StrEnum):
    """How an edge distributes records to subtasks, named as in execution plans.

    Flink: ``StreamPartitioner``.
    """

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"


#: Partitioners that connect a subtask with some of those behind it. Flink: ``DistributionPattern.POINTWISE``.
POINTWISE = (Partitioner.FORWARD, Partitioner.RESCALE)


@dataclass(frozen=True)
class StreamEdge:
    """Edge from one node to another.

    ``port`` numbers the inputs of the target. The edges of a union have the same port. ``batch_exchange`` is a blocking
    exchange, which only jobs in batch mode have. Flink: ``StreamEdge``.
    """

    source: int
    target: int
    partitioner: Partitioner
    port: int = 0
    batch_exchange: bool = False


@dataclass(eq=False)
class StreamNode:
    """Node of a stream graph: one operator.

    ``source`` is None for operators with inputs, ``max_parallelism`` None if neither operator nor environment sets it.
    A ``yielding`` operator (async I/O, sink writers) is not chained to a legacy source. Flink: ``StreamNode``.
    """

    id: int
    name: str
    parallelism: int
    uid: str | None = None
    uid_hash: OperatorID | None = None
    max_parallelism: int | None = None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    source: SourceKind | None = None
    yielding: bool = False
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The operator's name and uid or number, for messages."""
        return f"{self.name!r} (uid {self.uid!r})" if self.uid is not None else f"{self.name!r} (node {self.id})"


@dataclass(frozen=True)
class Stream:
    """Input of an operator: the outputs of nodes, each with a partitioner, None for the default one.

    Flink: ``DataStream``.

    Example::

        orders = graph.source("orders", uid="orders")
        graph.operator("join", orders.key_by(), rates.broadcast())
    """

    outputs: tuple[tuple[StreamNode, Partitioner | None], ...]

    @property
    def node(self) -> StreamNode:
        """The operator of this output. OptionError if the stream is a union."""
        (node, _), *more = self.outputs
        if more:
            raise OptionError("a union needs several streams", found=len(self.outputs))
        return node

    def union(self, *others: Stream) -> Stream:
        """Return several streams as one input.

        Flink: ``DataStream#union``.

        Args:
            *others: The other streams.

        Returns:
            The stream of all outputs.

        """
        return Stream(sum((other.outputs for other in others), self.outputs))

    def partition(self, partitioner: Partitioner) -> Stream:
        """Return the stream with another partitioner.

        Args:
            partitioner: How records are distributed to subtasks.

        Returns:
            The stream.

        """
        return Stream(tuple((node, partitioner) for node, _ in self.outputs))

    def key_by(self) -> Stream:
        """Return the stream partitioned by key (``keyBy``)."""
        return self.partition(Partitioner.HASH)

    def broadcast(self) -> Stream:
        """Return the stream with all records sent to every subtask (``broadcast``)."""
        return self.partition(Partitioner.BROADCAST)

    def rebalance(self) -> Stream:
        """Return the stream with records sent to all subtasks in turn (``rebalance``)."""
        return self.partition(Partitioner.REBALANCE)

    def rescale(self) -> Stream:
        """Return the stream with records sent in turn to a part of the subtasks (``rescale``)."""
        return self.partition(Partitioner.RESCALE)

    def shuffle(self) -> Stream:
        """Return the stream with records sent to random subtasks (``shuffle``)."""
        return self.partition(Partitioner.SHUFFLE)

    def to_one(self) -> Stream:
        """Return the stream with all records sent to the first subtask (``global()``)."""
        return self.partition(Partitioner.GLOBAL)

    def forward(self) -> Stream:
        """Return the stream with records sent to the subtask with the same index (``forward``)."""
        return self.partition(Partitioner.FORWARD)

    def custom(self) -> Stream:
        """Return the stream partitioned by a function of the job (``partitionCustom``)."""
        return self.partition(Partitioner.CUSTOM)
