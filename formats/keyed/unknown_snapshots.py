"""Headers with serializer snapshots of unknown classes: where such a snapshot ends, so that all others are read.

A snapshot has no length, and what an unknown class writes is unknown. Its end follows from what is around it: the end
of the header is known, because the first data begin there, and after the snapshot comes either the next serializer of
the state, which begins with its role, or the next state, with its name, kind and options, or the end. These places are
found in the bytes, and tried in order until the header parses up to its end. All places are tried: if the header parses
in two ways, none is chosen. Roles are of registrations, which are around snapshots and never inside of one: so the next
role ends what a snapshot may have. Only where no way to the end is found so, a payload may have roles too.

The places of a header of n bytes are found in time linear in n, and the work of trying them is bounded by n: there are
as many states as the header says, so that in a real header one place is left for most snapshots.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.serializers.base import PLUG_IN, UnknownPayloads

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Bytes, Flags, Longs
    from pyspark_savepoint.formats.data_view import DataInputView

#: A role and the version of the serializer snapshot after it, before which two bytes of length stand.
ROLE = re.compile(rb"[A-Z][A-Z_]{2,60}_SERIALIZER\x00\x00\x00\x02")
ENVELOPE = 4
#: The name of a class in a package, and the length up to which it is looked at.
IN_PACKAGE = re.compile(rb"([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*")
MOST_OF_NAME = 512
#: Positions to look at together.
PIECE = 1 << 20
#: Bytes that take about as much time as an attempt.
ATTEMPT = 256
#: The same for a place that is looked at.
BYTES_OF_PLACE = 4
#: Kinds of states, and most options or serializers that one has here.
KINDS, MOST_PARTS = 5, 16

#: Reads a part at the position of the view, which may have unknown payloads.
Read = Callable[[UnknownPayloads], object]


class Follower(NamedTuple):
    """What comes after a serializer snapshot: ``roles`` more of the state, ``states`` more, ``counts`` of states."""

    roles: int
    states: int
    counts: int


@dataclass
class Places:
    """Positions of a header at which a part of it could begin."""

    data: bytes
    ends: tuple[int, ...]
    #: Whether a serializer snapshot may have what looks like the role of another.
    roles_inside: bool = False

    @cached_property
    def roles(self) -> list[int]:
        """Positions of the role of a serializer."""
        return [
            match.start() - 2
            for match in ROLE.finditer(self.data)
            if self.data[max(match.start() - 2, 0) : match.start()] == (len(match[0]) - ENVELOPE).to_bytes(2, "big")
        ]

    @cached_property
    def states(self) -> list[int]:
        """Positions of the registration of a state: name, kind, and the number and names of its options."""
        bytes_: Bytes = np.frombuffer(self.data, np.uint8)
        zeros = np.concatenate([np.zeros(1, np.int64), np.cumsum(bytes_ == 0)])
        result: list[int] = []
        for start in range(0, max(len(bytes_) - 14, 0), PIECE):
            at = np.arange(start, min(start + PIECE, len(bytes_) - 14), dtype=np.int64)
            end = at + 2 + _u16(bytes_, at)
            fits = end <= len(bytes_) - 12
            at, end = at[fits], end[fits]
            for offset, most in ((0, KINDS), (4, MOST_PARTS)):
                number = _i32(bytes_, end + offset)
                fits = (number >= 0) & (number < most)
                at, end = at[fits], end[fits]
            # No byte of a text of Java's is zero.
            fits = zeros[at + 2] == zeros[end]
            result += at[fits][_parts_follow(bytes_, end[fits])].tolist()
        return result

    @cached_property
    def counts(self) -> list[int]:
        """Positions of a number of states, behind which one begins, or the header ends."""
        states = np.array(self.states, np.int64)
        states = states[states >= 2]
        bytes_: Bytes = np.frombuffer(self.data, np.uint8)
        count = _u16(bytes_, states - 2)
        some = (states[(count > 0) & (count <= len(states))] - 2).tolist()
        none = [end - 2 for end in self.ends if self.data[max(end - 2, 0) : end] == b"\0\0"]
        # An empty list of states has another list after it.
        empty = [place - 2 for place in some if self.data[max(place - 2, 0) : place] == b"\0\0"]
        return sorted({*some, *none, *empty})

    @cached_property
    def snapshots(self) -> list[int]:
        """Positions of a serializer snapshot inside of another: a class name and a version."""
        bytes_: Bytes = np.frombuffer(self.data, np.uint8)
        others = np.concatenate([np.zeros(1, np.int64), np.cumsum(~_IN_NAMES[bytes_])])
        result: list[int] = []
        for start in range(0, max(len(bytes_) - 6, 0), PIECE):
            at = np.arange(start, min(start + PIECE, len(bytes_) - 6), dtype=np.int64)
            end = at + 2 + _u16(bytes_, at)
            fits = (end > at + 2) & (end <= len(bytes_) - 4)
            at, end = at[fits], end[fits]
            result += at[others[at + 2] == others[end]].tolist()
        return result

    def after(self, start: int, follower: Follower) -> Sequence[int]:
        """Return the positions from ``start`` on at which what follows a serializer of a state may begin."""
        last = self._last(start, follower)
        if last < 0:
            return ()
        if follower.roles:
            places: Sequence[int] = self.roles
        elif follower.states:
            places = self.states
        else:
            places = self.counts if follower.counts else self.ends
        chosen = places[bisect_left(places, start) : bisect_right(places, last)]
        if not (follower.roles and self.roles_inside):
            return chosen
        return chosen[: max(len(chosen) - follower.roles + 1, 0)]

    def inside(self, start: int, follower: Follower) -> Iterator[int]:
        """Yield the positions from ``start`` on at which another part of the same serializer may begin.

        Those in front of the name of a class in a package come first.
        """
        nested = self.snapshots
        chosen = nested[bisect_left(nested, start) : bisect_left(nested, self._last(start, follower))]
        yield from (place for place in chosen if self._is_in_package(place))
        yield from (place for place in chosen if not self._is_in_package(place))

    def _is_in_package(self, place: int) -> bool:
        size = int.from_bytes(self.data[place : place + 2], "big")
        return size <= MOST_OF_NAME and IN_PACKAGE.fullmatch(self.data, place + 2, place + 2 + size) is not None

    def _last(self, start: int, follower: Follower) -> int:
        """Return the last position at which the states and the end that are to come may begin; -1 if there is none."""
        if follower.states > len(self.states):
            return -1
        last = self.states[-follower.states] if follower.states else self.ends[-1]
        following = bisect_left(self.roles, start)
        return last if self.roles_inside or following == len(self.roles) else min(last, self.roles[following])


_IN_NAMES = np.zeros(256, np.bool_)
_IN_NAMES[[*range(ord("0"), ord("9") + 1), *range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]] = True
_IN_NAMES[[ord("."), ord("$"), ord("_"), *range(0x80, 0x100)]] = True


def _u16(data: Bytes, at: Longs) -> Longs:
    number: Longs = (data[at].astype(np.int64) << 8) + data[at + 1]
    return number


def _i32(data: Bytes, at: Longs) -> Longs:
    parts = [data[at + i].astype(np.int64) << (24 - 8 * i) for i in range(4)]
    whole: Longs = parts[0] | parts[1] | parts[2] | parts[3]
    return whole


def _parts_follow(data: Bytes, kind: Longs) -> Flags:
    """Return whether options or serializers follow a kind: a text, in front of which its length stands."""
    options = _i32(data, kind + 4)
    room = len(data) - 4
    text = kind + 8 + np.where(options == 0, 4, 0)
    fits = text <= room
    inside = np.minimum(text, room)
    length = _u16(data, inside)
    first = data[inside + 2]
    fits &= (
        (length > 0) & (length < 256) & (inside + 2 + length <= len(data)) & (first >= ord("A")) & (first <= ord("z"))
    )
    roles = _i32(data, np.minimum(kind + 8, room))
    return fits & ((options > 0) | ((roles > 0) & (roles < MOST_PARTS)))


def endings(
    view: DataInputView, places: Places, follower: Follower, shared: UnknownPayloads, read: Read
) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield the ends of what can be read at the position of the view, each with the lengths of its unknown payloads."""
    start = view.position
    plain = shared.trying({})
    ended = _end_of(plain, view, start, read)
    if not plain.met:
        if ended is not None:
            yield ended, {}
        return
    ends = set(places.after(start, follower))
    shared.work.add(len(ends) * BYTES_OF_PLACE)
    # Those that leave the fewest snapshots unknown come first: all lengths of one payload, before those of the next.
    waiting: deque[Iterator[UnknownPayloads]] = deque([iter([plain])])
    while waiting and ends:
        for attempt in waiting.popleft():
            if attempt.work.exhausted(view):
                return
            if attempt is not plain:
                ended = _end_of(attempt, view, start, read)
            if ended in ends:
                ends.remove(ended)
                yield ended, {at: payload.end - at for at, payload in attempt.met.items() if payload.end is not None}
            unsettled = next((position for position in sorted(attempt.met) if position not in attempt.lengths), None)
            if unsettled is not None:
                waiting.append(_tries(attempt, unsettled, places, follower))
            if not ends:
                return


def _end_of(attempt: UnknownPayloads, view: DataInputView, start: int, read: Read) -> int | None:
    """Return where what begins at ``start`` ends; None if it cannot be read."""
    view.position = start
    attempt.work.add(ATTEMPT)
    attempt.ended = None
    with suppress(SavepointError):
        read(attempt)
        attempt.ended = view.position
    return attempt.ended


def _tries(attempt: UnknownPayloads, start: int, places: Places, follower: Follower) -> Iterator[UnknownPayloads]:
    """Yield attempts with each length of the payload that begins at ``start``."""
    found = attempt.met[start]
    if found.end is not None:
        yield attempt.trying({**attempt.lengths, start: found.end - start})
    for end in places.after(start, follower):
        if end != found.end:
            tried = attempt.trying({**attempt.lengths, start: end - start})
            yield tried
            if tried.ended == end:
                found.depth = 0  # the serializer ends with this payload: no other part of it follows
    if found.depth > 0:
        for end in places.inside(start, follower):
            yield attempt.trying({**attempt.lengths, start: end - start})


def not_unique(view: DataInputView, unknown: UnknownPayloads, twice: bool) -> UndecodableStateError:
    """Return the error for a header that parses in two ways, or in more than can be tried."""
    names = sorted({payload.snapshot_class for payload in unknown.met.values()})
    return UndecodableStateError(
        "serializer snapshots are of unknown classes, and their ends cannot be determined: the header "
        + ("can be read in two ways" if twice else "has too many places at which they may end"),
        path=view.path,
        expected="snapshot classes of Flink, or of plug-ins",
        found=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
        remedy=PLUG_IN,
    )
