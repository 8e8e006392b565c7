"""Serializers of complex event processing (CEP): the shared buffer of events and the states of the automaton (NFA).

    snapshot   := Composite 1, nested as named below; EventId and Dewey have simple snapshots;
                  NFAState: outer version 2, outer part: bool supportsPreviousTimestamp
    EventId    := i32 id  i64 timestamp
    Dewey      := i32 n  i32[n]
    NodeId     := u8 isPresent  EventId  STRING page
    Edge       := NodeId target  Dewey version
    Lockable   := i32 refCount  element
    BufferNode := i32 n  (i32 refCount  Edge)[n]
    NFAState   := partial matches  completed matches, each i32 n  computation[n]
    computation := STRING state  NodeId  Dewey  i64 start  [i64 previous]  u8 hasStartEvent  EventId

Flink: ``EventId.EventIdSerializer``, ``DeweyNumber.DeweyNumberSerializer``, ``NodeId.NodeIdSerializer``,
``SharedBufferEdge.SharedBufferEdgeSerializer``, ``Lockable.LockableTypeSerializer``, ``SharedBufferNodeSerializer``,
``NFAStateSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import (
    INT,
    LONG,
    Fields,
    Flagged,
    Repeated,
    Shaped,
    ShapedSerializer,
)
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import BOOL, part

NFA = "org.apache.flink.cep.nfa."
TEXT = StringSerializer.of(STRING)


@register(NFA + "sharedbuffer.EventId$EventIdSerializer$EventIdSerializerSnapshot")
@dataclass(frozen=True)
class EventIdSerializer(Shaped, SimpleSerializer):
    """Serializer of EVENT_ID: the timestamp of an event, and its number among the events of that timestamp."""

    flink_type: ClassVar[str] = "EVENT_ID"

    @property
    def length(self) -> int:
        return 12

    @property
    def shape(self) -> Part:
        return Fields(("id", "timestamp"), (INT, LONG))


@register(NFA + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot")
@dataclass(frozen=True)
class DeweyNumberSerializer(Shaped, SimpleSerializer):
    """Serializer of DEWEY_NUMBER: the version of a match, such as 1.0.2."""

    flink_type: ClassVar[str] = "DEWEY_NUMBER"

    @property
    def shape(self) -> Part:
        return Repeated(INT)


@register(NFA + "sharedbuffer.NodeId$NodeIdSerializer$NodeIdSerializerSnapshot")
@dataclass(frozen=True)
class NodeIdSerializer(ShapedSerializer):
    """Serializer of NODE_ID: an event in a stage of the pattern, or null."""

    flink_type: ClassVar[str] = "NODE_ID"

    @property
    def shape(self) -> Part:
        return Flagged(Fields(("event_id", "page_name"), (self.nested[0], TEXT)), null_flag=0)


@register(NFA + "sharedbuffer.SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot")
@dataclass(frozen=True)
class SharedBufferEdgeSerializer(ShapedSerializer):
    """Serializer of SHARED_BUFFER_EDGE: the node of the previous event, and the version of the match."""

    flink_type: ClassVar[str] = "SHARED_BUFFER_EDGE"
    arity: ClassVar[int | None] = 2

    @property
    def shape(self) -> Part:
        return Fields(("target", "dewey_number"), self.nested)


@register(NFA + "sharedbuffer.LockableTypeSerializerSnapshot")
@dataclass(frozen=True)
class LockableSerializer(ShapedSerializer):
    """Serializer of LOCKABLE<T>: the number of matches that use an element, and the element."""

    @property
    def flink_type(self) -> str:
        return f"LOCKABLE<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        return counted(self.nested[0])


def counted(element: TypeSerializer) -> Part:
    """Return the shape of a reference count and an element."""
    return Fields(("ref_count", "element"), (INT, element))


@register(NFA + "sharedbuffer.SharedBufferNodeSerializerSnapshotV2")
@dataclass(frozen=True)
class SharedBufferNodeSerializer(ShapedSerializer):
    """Serializer of SHARED_BUFFER_NODE: the edges of an event, each with its own reference count."""

    flink_type: ClassVar[str] = "SHARED_BUFFER_NODE"

    @property
    def shape(self) -> Part:
        return Repeated(counted(self.nested[0]))


@register(NFA + "sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot")
@dataclass(frozen=True)
class LegacySharedBufferNodeSerializer(ShapedSerializer):
    """Serializer of SHARED_BUFFER_NODE up to Flink 1.13: the nested serializer, a list of edges."""

    flink_type: ClassVar[str] = "SHARED_BUFFER_NODE"

    @property
    def shape(self) -> Part:
        return self.nested[0]


@register(NFA + "NFAStateSerializerSnapshot")
@dataclass(frozen=True)
class NfaStateSerializer(ShapedSerializer):
    """Serializer of NFA_STATE: the partial and the completed matches."""

    supports_previous_timestamp: bool = part(BOOL, "supports a previous timestamp", since=2, absent=False, default=True)
    flink_type: ClassVar[str] = "NFA_STATE"
    arity: ClassVar[int | None] = 3
    outer_versions: ClassVar[tuple[int, ...]] = (1, 2)

    @property
    def shape(self) -> Part:
        version, node, event = self.nested
        parts: dict[str, Part] = {"state": TEXT, "previous_buffer_entry": node, "version": version}
        parts["start_timestamp"] = LONG
        if self.supports_previous_timestamp:
            parts["previous_timestamp"] = LONG
        parts["start_event_id"] = Flagged(event, null_flag=0)
        computations = Repeated(Fields(tuple(parts), tuple(parts.values())))
        return Fields(("partial_matches", "completed_matches"), (computations, computations))
