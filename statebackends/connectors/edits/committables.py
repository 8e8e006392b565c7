"""Changes of the committables of sinks, of the queues of asynchronous functions, and of records in flight.

On restore Flink commits at once every committable that is neither failed nor committed; one that is removed or marked
as committed is not committed. All other bytes stay the same.

Records in flight are cut out of the buffers of their channels. All channels whose buffers lie in the same file, also
those of other operators, are written anew, inline in ``_metadata``; others keep their handles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.kind import ASYNC_STATE, COMMITTABLES, COMMITTER_STATE, write_element
from pyspark_savepoint.formats.connectors.sinks.committer import (
    COMMITTED,
    RECEIVED,
    RETRY,
    SINK_COMMITTABLES,
    Committables,
    with_changed,
)
from pyspark_savepoint.formats.errors import (
    OptionError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.keyed.operator_streams import LENGTH, VERSION, Channel, channels_of, frames, read_buffers
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle, ChannelStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle, StreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.channel_records import (
    INPUT,
    OUTPUT,
    ChannelGroup,
    front_of,
    joins_of,
    parts_of,
    rest_of,
    sender_of,
)
from pyspark_savepoint.statebackends.connectors.connector_states import ConnectorState, connector_states, state_elements
from pyspark_savepoint.statebackends.connectors.connector_table import NOTE, rows_of
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: Statuses that can be set. A failed committable is counted with the others, and lost.
MARKS = (RECEIVED, RETRY, COMMITTED)
LOST = "Flink would never commit them, so their data is lost unless it was committed in another way"
ROWS = Sequence[Mapping[str, Any]] | None


def without_committables(
    opened: OpenOperator, rows: ROWS, lose_data: bool, connector: str | None = None
) -> OperatorState:
    """Return the operator without the committables that rows select (None: all); this needs ``lose_data``."""
    return _changed(opened, rows, None, connector, lose_data)


def marked_committables(opened: OpenOperator, rows: ROWS, status: str, connector: str | None = None) -> OperatorState:
    """Return the operator with another status of the committables that rows select (None: all)."""
    if status not in MARKS:
        raise OptionError(
            f"a committable cannot be marked as {status!r}",
            operator=opened.operator.label,
            expected=", ".join(MARKS),
            remedy="remove_committables drops it",
        )
    return _changed(opened, rows, status, connector, lose_data=True)


def without_in_flight(opened: OpenOperator, lose_data: bool) -> OperatorState:
    """Return the operator with an empty queue of asynchronous calls; raise an error without ``lose_data``."""
    operator = opened.operator
    if ASYNC_STATE not in opened.operator_state_names:
        raise StateNotFoundError(
            "the operator calls no asynchronous function", operator=operator.label, expected=ASYNC_STATE
        )
    waiting = state_elements(opened, ASYNC_STATE, TableRequest(opened.savepoint.path))
    if waiting and not lose_data:
        raise OptionError(
            f"{len(waiting)} elements wait for an answer: without them their records are lost",
            operator=operator.label,
            remedy="lose_data=True drops them",
        )
    return with_elements(opened, ASYNC_STATE, {})


def without_queued(opened: OpenOperator, positions: Collection[tuple[int, int]]) -> OperatorState:
    """Return the operator without some elements of its queue of asynchronous calls, by subtask and position."""
    kept: dict[int, list[bytes]] = {}
    counts: dict[int, int] = {}
    for subtask, element in state_elements(opened, ASYNC_STATE, TableRequest(opened.savepoint.path)):
        position = counts.get(subtask, 0)
        counts[subtask] = position + 1
        if (subtask, position) not in positions:
            kept.setdefault(subtask, []).append(element)
    return with_elements(opened, ASYNC_STATE, kept)


#: A channel of an operator: uid hash, part, subtask, and number of the channel.
Place = tuple[str, str, int, int]


@dataclass
class _Cuts:
    """Bytes to cut out of the buffers of channels, and the streams that have them."""

    spans: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)
    delegates: set[StreamStateHandle] = field(default_factory=set)

    def add(self, part: ChannelGroup, channel: Channel, start: int, end: int) -> None:
        channel_id = part.operator.operator_id.hex, part.name, channel.subtask, channel.number
        self.spans.setdefault(channel_id, []).append((start, end))
        self.delegates.add(channel.delegate)


def without_records(snapshot: Snapshot, positions: Mapping[Place, Collection[int]]) -> dict[str, OperatorState]:
    """Return the operators that change without some records in flight, by uid hash.

    ``positions`` are those of table ``in_flight``: the number of an element in its channel. An element that ends in the
    buffers of its sender is cut out of both.
    """
    everything = [part for operator in snapshot.operators for part in parts_of(operator)]
    joins = joins_of(snapshot, everything)
    cuts = _Cuts()
    for part in everything:
        own = part.operator.operator_id.hex
        if all((own, part.name) != channel_id[:2] for channel_id in positions):
            continue
        for channel, data in part.buffers(snapshot):
            removed_positions = positions.get((own, part.name, channel.subtask, channel.number), ())
            front, rest = front_of(joins, part, channel), rest_of(joins, part, channel)
            start = 0 if front is None else front[0]
            framed = frames(data if rest is None else data + rest[0], start)
            spans = [] if framed is None else framed[0]
            for position in removed_positions:
                number = position - (front is not None)
                if not 0 <= number < len(spans):
                    raise UnsupportedStateError(
                        "only whole elements in flight can be removed",
                        path=snapshot.path,
                        operator=part.operator.label,
                        state=part.name,
                        found=f"position {position} of channel {channel.number} of subtask {channel.subtask}",
                    )
                begin, end = spans[number][0] - LENGTH.size, spans[number][1]
                cuts.add(part, channel, begin, min(end, len(data)))
                if end > len(data):
                    sender, its = sender_of(joins, everything, part, channel)
                    cuts.add(sender, its, 0, end - len(data))
    return dict(_recut(snapshot, cuts))


def _recut(snapshot: Snapshot, cuts: _Cuts) -> Iterator[tuple[str, OperatorState]]:
    """Yield the operators that have channels in the streams from which something is cut, with these written anew."""
    for operator in snapshot.operators:
        subtasks = {
            index: replace(
                subtask,
                input_channel_state=_handles(snapshot, operator, subtask.input_channel_state, INPUT, cuts),
                result_subpartition_state=_handles(snapshot, operator, subtask.result_subpartition_state, OUTPUT, cuts),
            )
            for index, subtask in operator.subtasks.items()
        }
        if subtasks != dict(operator.subtasks):
            yield operator.operator_id.hex, replace(operator, subtasks=subtasks)


def _handles(
    snapshot: Snapshot,
    operator: OperatorState,
    handles: tuple[AnyChannelStateHandle, ...],
    direction: str,
    cuts: _Cuts,
) -> tuple[AnyChannelStateHandle, ...]:
    """Return the handles of a subtask and direction; those of streams that are cut have a channel each."""
    kept = tuple(handle for handle in handles if handle.delegate not in cuts.delegates)
    if len(kept) == len(handles):
        return handles
    channels = list(channels_of([handle for handle in handles if handle.delegate in cuts.delegates]))
    data = bytearray(LENGTH.pack(VERSION))
    offsets: list[tuple[Channel, int, int]] = []
    for channel in channels:
        with snapshot.open_state(channel.delegate, operator) as opened:
            buffers = read_buffers(opened, channel.offsets)
        channel_id = operator.operator_id.hex, f"{direction} {channel.index}", channel.subtask, channel.number
        for start, end in sorted(cuts.spans.get(channel_id, ()), reverse=True):
            buffers = buffers[:start] + buffers[end:]
        if buffers:
            offsets.append((channel, len(data), LENGTH.size + len(buffers)))
            data += LENGTH.pack(len(buffers)) + buffers
    if not offsets:
        return kept
    stream = ByteStreamStateHandle(f"{operator.operator_id.hex}-{direction}-{channels[0].subtask}", bytes(data))
    has_subtask = all(handle.has_subtask for handle in handles if isinstance(handle, ChannelStateHandle))
    return (
        *kept,
        *(
            ChannelStateHandle(channel.subtask, (channel.index, channel.number), (offset,), size, stream, has_subtask)
            for channel, offset, size in offsets
        ),
    )


def _changed(
    opened: OpenOperator, rows: ROWS, status: str | None, connector: str | None, lose_data: bool
) -> OperatorState:
    committer = _committer(opened, connector)
    committables = _chosen(committer, rows)
    if committables and not lose_data:
        raise OptionError(
            f"{len(committables)} committables are to be removed: {LOST}",
            operator=opened.operator.label,
            remedy="lose_data=True removes them; mark_committables records that they were committed",
        )
    elements: dict[int, list[bytes]] = {}
    for number, (subtask, payload) in enumerate(zip(committer.subtasks, committer.recognition.payloads, strict=True)):
        positions = {position for element, position in committables if element == number}
        frame = SINK_COMMITTABLES.read(payload).frame
        try:
            changed = Committables(with_changed(frame, positions, status), ())
        except ValueError as error:
            raise OptionError(f"this cannot be changed: {error}", operator=opened.operator.label) from None
        assert subtask is not None
        elements.setdefault(subtask, []).append(write_element(SINK_COMMITTABLES.write(payload.version, changed)))
    return with_elements(opened, COMMITTER_STATE, elements)


def _committer(opened: OpenOperator, connector: str | None) -> ConnectorState:
    """Return the state of an operator's committer; raise an error if it has none that is read."""
    operator = opened.operator
    request = replace(TableRequest(opened.savepoint.path), connector=connector)
    for state in connector_states(opened.savepoint, operator, COMMITTABLES, request):
        if state.state == COMMITTER_STATE:
            if state.recognition.kind is None:
                raise UnsupportedStateError(
                    "the committables have an unknown format, so they cannot be changed",
                    operator=operator.label,
                    found=state.recognition.reason,
                )
            return state
    raise StateNotFoundError(
        "the operator is not a committer of a sink",
        operator=operator.label,
        expected=f"operator state {COMMITTER_STATE!r}",
        remedy="the committer of a sink is another operator than its writer: table 'committables' has its id",
    )


def _chosen(connector_state: ConnectorState, rows: ROWS) -> set[tuple[int, int]]:
    """Return element and position of each committable that equals one of the rows in all columns of the row."""
    committable_rows = _committable_rows(connector_state)
    if rows is None:
        return {committable for committable, _ in committable_rows}
    rows = [{name: value for name, value in row.items() if name != NOTE} for row in rows]
    result = set()
    column_names = list(dict.fromkeys(name for _, row in committable_rows for name in row if name != "fields"))
    for names in dict.fromkeys(tuple(row) for row in rows):
        for name in names:
            if name not in column_names:
                raise OptionError(
                    f"committables have no column {name!r}",
                    operator=connector_state.operator.label,
                    remedy=did_you_mean(name, column_names),
                )
        places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        for committable, row in committable_rows:
            places.setdefault(_values(row, names), []).append(committable)
        for row_to_change in (row for row in rows if tuple(row) == names):
            same = places.get(_values(row_to_change, names), [])
            if not same:
                raise OptionError(
                    "no committable has these values",
                    operator=connector_state.operator.label,
                    found=str(dict(row_to_change)),
                )
            result.update(same)
    return result


def _committable_rows(connector_state: ConnectorState) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Return the rows of all committables, each with its element and its position."""
    kind, table_rows = connector_state.recognition.kind, []
    assert kind is not None
    columns = [*kind.columns.names, "operator_uid", "operator_uid_hash", "operator_name", "state", "subtask", "version"]
    for number, payload in enumerate(connector_state.recognition.payloads):
        one = ConnectorState(
            connector_state.operator,
            connector_state.state,
            (connector_state.subtasks[number],),
            replace(
                connector_state.recognition, payloads=(payload,), values=(connector_state.recognition.values[number],)
            ),
        )
        for row in rows_of(one):
            table_rows.append(((number, row["position"]), {**dict.fromkeys(columns), **row}))
    return table_rows


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(bytes(row[name]) if isinstance(row[name], bytearray) else row[name]) for name in names)
