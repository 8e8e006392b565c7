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
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

from pyspark_savepoint.formats.encodings import BOOL
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import (
    INT,
    LONG,
    Fields,
    Flagged,
    Repeated,
    Shaped,
)
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part

NFA = "org.apache.flink.cep.nfa."
#: Why no text can describe a type.
OF_THE_PATTERN = "it depends on the pattern of the job"
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


def counted(nested: tuple[TypeSerializer, ...]) -> Part:
    """Return the shape of a reference count and an element."""
    return Fields(("ref_count", "element"), (INT, *nested))


def _row(word: str, snapshot_class: str, *parts: str, **more: Any) -> Kind:
    """Return the row of a kind that has no type arguments in the notation."""
    return Kind(word, (NFA + snapshot_class,), parts, notation=lambda _: word, no_text=OF_THE_PATTERN, **more)


of_kind(
    # An event in a stage of the pattern, or null.
    _row(
        "NODE_ID",
        "sharedbuffer.NodeId$NodeIdSerializer$NodeIdSerializerSnapshot",
        "event_id",
        shape=lambda nested: Flagged(Fields(("event_id", "page_name"), (nested[0], TEXT)), null_flag=0),
    ),
    # The node of the previous event, and the version of the match.
    _row(
        "SHARED_BUFFER_EDGE",
        "sharedbuffer.SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot",
        "target",
        "dewey_number",
        shape=lambda nested: Fields(("target", "dewey_number"), nested),
    ),
    # The edges of an event, each with its own reference count.
    _row(
        "SHARED_BUFFER_NODE",
        "sharedbuffer.SharedBufferNodeSerializerSnapshotV2",
        "element",
        shape=lambda nested: Repeated(counted(nested)),
    ),
    # The same up to Flink 1.13: the nested serializer is a list of edges.
    _row(
        "SHARED_BUFFER_NODE",
        "sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot",
        "element",
        shape=itemgetter(0),
    ),
    # The number of matches that use an element, and the element.
    Kind("LOCKABLE", (NFA + "sharedbuffer.LockableTypeSerializerSnapshot",), shape=counted, no_text=OF_THE_PATTERN),
)(ShapedKindSerializer)


@of_kind(
    _row(
        "NFA_STATE",
        "NFAStateSerializerSnapshot",
        "version",
        "node_id",
        "event_id",
        versions=(1, 2),
        compared=attrgetter("supports_previous_timestamp"),
        migrates="with or without a previous timestamp",
    )
)
@dataclass(frozen=True)
class NfaStateSerializer(ShapedKindSerializer):
    """Serializer of NFA_STATE: the partial and the completed matches."""

    supports_previous_timestamp: bool = part(BOOL, "supports a previous timestamp", since=2, absent=False, default=True)

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
