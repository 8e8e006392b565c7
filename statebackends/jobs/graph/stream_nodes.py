"""The parts of a stream graph: operators, the edges between them, and streams, from which a graph is built.

Flink: ``StreamNode``, ``StreamEdge``, ``ChainingStrategy``, ``StreamPartitioner``, ``DataStream``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID

DEFAULT_SLOT_SHARING_GROUP = "default"


class ChainingStrategy(StrEnum):
    """``ChainingStrategy``: what ``disableChaining()`` (NEVER) and ``startNewChain()`` (HEAD) set."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"
    HEAD_WITH_SOURCES = "HEAD_WITH_SOURCES"


class SourceKind(StrEnum):
    """SOURCE reads through the source interface (``fromSource``), LEGACY is a ``SourceFunction`` (``addSource``)."""

    SOURCE = "SOURCE"
    LEGACY = "LEGACY"


class Partitioner(StrEnum):
    """How an edge ships records, by the words of execution plans."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True)
class StreamEdge:
    """Records from one node to another. ``port`` numbers the inputs of the target, so that a union is one port.

    ``batch_exchange`` is a blocking exchange, as only jobs in batch mode have it.
    """

    source: int
    target: int
    partitioner: Partitioner
    port: int = 0
    batch_exchange: bool = False


@dataclass(eq=False)
class StreamNode:
    """One operator. ``source`` is None where the operator has inputs; ``max_parallelism`` None where nobody set it.

    A ``yielding`` operator (async I/O, sink writers) is not chained behind a legacy source.
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
        """How messages call the operator."""
        return f"{self.name!r} (uid {self.uid!r})" if self.uid is not None else f"{self.name!r} (node {self.id})"


@dataclass(frozen=True)
class Stream:
    """What flows into an operator: outputs of nodes, each with the partitioner that was chosen, None for none."""

    outputs: tuple[tuple[StreamNode, Partitioner | None], ...]

    @property
    def node(self) -> StreamNode:
        """The operator whose output this is."""
        (node, _), *more = self.outputs
        if more:
            raise OptionError("a union is the output of several operators", found=len(self.outputs))
        return node

    def union(self, *others: Stream) -> Stream:
        """Several streams as one input."""
        return Stream(sum((other.outputs for other in others), self.outputs))

    def partition(self, partitioner: Partitioner) -> Stream:
        """The stream with another partitioner."""
        return Stream(tuple((node, partitioner) for node, _ in self.outputs))

    def key_by(self) -> Stream:
        """By key."""
        return self.partition(Partitioner.HASH)

    def broadcast(self) -> Stream:
        """All records to every subtask."""
        return self.partition(Partitioner.BROADCAST)

    def rebalance(self) -> Stream:
        """In turn."""
        return self.partition(Partitioner.REBALANCE)

    def rescale(self) -> Stream:
        """In turn, to a part of the subtasks."""
        return self.partition(Partitioner.RESCALE)

    def shuffle(self) -> Stream:
        """By chance."""
        return self.partition(Partitioner.SHUFFLE)

    def to_one(self) -> Stream:
        """All records to the first subtask (``global()``)."""
        return self.partition(Partitioner.GLOBAL)

    def forward(self) -> Stream:
        """To the subtask of the same number."""
        return self.partition(Partitioner.FORWARD)

    def custom(self) -> Stream:
        """By a function of the job (``partitionCustom``)."""
        return self.partition(Partitioner.CUSTOM)
