"""Parts of operators' channel state, and which sender's result partition continues which receiver's gate.

A part is all channels of an input gate or of a result partition, named ``input 0`` or ``output 0``. A snapshot does not
record the edges of the job: a sender and a receiver belong together if the elements in which the receiver's buffers end
are completed by the sender's, in every channel, and no other two fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.keyed.operator_streams import Channel, channels_of, completes, frames, read_buffers
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

INPUT, OUTPUT = "input", "output"
#: Pairs of senders and receivers above which elements in two buffers stay in two pieces.
MAX_PAIRS = 10_000
#: Subtask of the receiver and of the sender.
Place = tuple[int, int]


@dataclass(frozen=True)
class ChannelGroup:
    """The channels of an input gate or of a result partition of an operator, in order."""

    operator: OperatorState
    direction: str
    index: int
    channels: tuple[Channel, ...]

    @property
    def name(self) -> str:
        """The value of option ``state`` that selects the part."""
        return f"{self.direction} {self.index}"

    def place(self, channel: Channel) -> Place:
        """Return the subtasks that a channel connects, in an exchange of all with all."""
        ends = channel.subtask, channel.number
        return ends if self.direction == INPUT else (ends[1], ends[0])

    def buffers(self, savepoint: Snapshot) -> Iterator[tuple[Channel, bytes]]:
        """Yield the joined buffers of every channel."""
        for channel in self.channels:
            try:
                with savepoint.open_state(channel.delegate, self.operator) as opened:
                    yield channel, read_buffers(opened, channel.offsets)
            except SavepointError as error:
                raise error.with_facts(operator=self.operator.label) from None


def parts_of(operator: OperatorState) -> list[ChannelGroup]:
    """Return the parts of an operator that have buffers."""
    inputs = [handle for index in sorted(operator.subtasks) for handle in operator.subtasks[index].input_channel_state]
    outputs = [
        handle for index in sorted(operator.subtasks) for handle in operator.subtasks[index].result_subpartition_state
    ]
    return [*_parts(operator, INPUT, inputs), *_parts(operator, OUTPUT, outputs)]


def _parts(operator: OperatorState, direction: str, handles: Sequence[AnyChannelStateHandle]) -> Iterator[ChannelGroup]:
    found: dict[int, list[Channel]] = {}
    for channel in channels_of(handles):
        found.setdefault(channel.index, []).append(channel)
    for index in sorted(found):
        channels = sorted(found[index], key=lambda channel: (channel.subtask, channel.number))
        yield ChannelGroup(operator, direction, index, tuple(channels))


@dataclass
class Joins:
    """Elements that lie in the buffers of two subtasks."""

    #: By receiver and place: the bytes of the sender that complete the last element, and the sender.
    rests: dict[tuple[str, str, Place], tuple[bytes, str]] = field(default_factory=dict)
    #: By sender and place: how many bytes in front belong to an element of a receiver, and the receiver.
    fronts: dict[tuple[str, str, Place], tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Ends:
    """Of a receiver, the incomplete elements at the ends of its channels; of a sender, its buffers."""

    part: ChannelGroup
    data: Mapping[Place, bytes]


def joins_of(savepoint: Snapshot, parts: Sequence[ChannelGroup]) -> Joins:
    """Return which elements lie in the buffers of two subtasks; reads all buffers if any receiver's end within one."""
    receivers = [ends for part in parts if part.direction == INPUT and (ends := _tails(savepoint, part)) is not None]
    senders = [part for part in parts if part.direction == OUTPUT]
    if not receivers or len(receivers) * len(senders) > MAX_PAIRS:
        return Joins()
    pairs = []
    for part in senders:
        sender = _Ends(part, {part.place(channel): data for channel, data in part.buffers(savepoint)})
        pairs += [(sender, receiver, cut) for receiver in receivers if (cut := _cuts(sender, receiver)) is not None]
    found = Joins()
    for sender, receiver, cut in pairs:
        alone = [(s, r) for s, r, _ in pairs if s is sender or r is receiver]
        if len(alone) > 1:
            continue
        for place, size in cut.items():
            found.rests[_key(receiver.part, place)] = (sender.data[place][:size], _label(sender.part))
            found.fronts[_key(sender.part, place)] = (size, _label(receiver.part))
    return found


def _key(part: ChannelGroup, place: Place) -> tuple[str, str, Place]:
    return str(part.operator.operator_id), part.name, place


def rest_of(found: Joins, part: ChannelGroup, channel: Channel) -> tuple[bytes, str] | None:
    """Return what completes the last element of a receiver's channel, and where it lies."""
    return found.rests.get(_key(part, part.place(channel)))


def front_of(found: Joins, part: ChannelGroup, channel: Channel) -> tuple[int, str] | None:
    """Return how many bytes at the beginning of a sender's channel complete an element, and where that begins."""
    return found.fronts.get(_key(part, part.place(channel)))


def sender_of(
    found: Joins, parts: Sequence[ChannelGroup], part: ChannelGroup, channel: Channel
) -> tuple[ChannelGroup, Channel]:
    """Return the part and channel that complete the last element of a receiver's channel, which :func:`rest_of` has."""
    place = part.place(channel)
    _, label = found.rests[_key(part, place)]
    return next(
        (sender, one)
        for sender in parts
        if sender.direction == OUTPUT and _label(sender) == label
        for one in sender.channels
        if sender.place(one) == place
    )


def _label(part: ChannelGroup) -> str:
    return f"{part.name} of operator {part.operator.label}"


def _tails(savepoint: Snapshot, part: ChannelGroup) -> _Ends | None:
    tails = {}
    for channel, data in part.buffers(savepoint):
        found = frames(data)
        if found is None:
            return None
        if found[1] < len(data):
            tails[part.place(channel)] = data[found[1] :]
    return _Ends(part, tails) if tails else None


def _cuts(sender: _Ends, receiver: _Ends) -> dict[Place, int] | None:
    """Return how many bytes complete each element, or None if they do not fit together."""
    if not receiver.data.keys() <= sender.data.keys():
        return None
    found = {}
    for place, data in sender.data.items():
        tail = receiver.data.get(place, b"")
        size = completes(tail, data)
        if size is None:
            return None
        if tail:
            found[place] = size
    return found
