"""States that an operator of Flink needs together: with some of them alone it restores, and loses what they hold.

Flink registers all states of such an operator when it starts, so every snapshot of a job has all of them. A savepoint
that tables are written to may have a part: contents of windows without the timers that fire them, the contents of
sessions without the state that names them, one side of a join, partial matches without the events that they refer to.

operator                    states                                                               timers
windows                     window-contents, of sessions merging-window-set                      window-timers
windows of SQL              window-aggs, of sessions session-window-mapping                      window-timers
joins by windows, of SQL    left-records, right-records, with windows                            window-timers
joins of SQL                left-records, right-records
joins of intervals          LEFT_BUFFER, RIGHT_BUFFER                                            CLEANUP_TIMER
joins of intervals, of SQL  IntervalJoinLeftCache, ...RightCache, ...LeftTimerState, ...          user-timers
joins with versions         left, right, next-index                                              timers
patterns (CEP)              nfaStateName, eventQueuesStateName, sharedBuffer-...                 watermark-callbacks

Flink: ``WindowOperator``, ``StreamingJoinOperator``, ``IntervalJoinOperator``, ``TimeIntervalJoin``,
``TemporalRowTimeJoinOperator``, ``CepOperator``, ``SharedBuffer``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer
from pyspark_savepoint.statebackends.rows.descriptors import (
    NO_NAMESPACE,
    PYTHON_PREFIX,
    STATE_WINDOW,
    USER_TIMERS,
    WINDOW_CONTENTS,
    WINDOW_TIMERS,
    KeyedDescriptor,
    service_of,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot

#: The state that names the sessions, by that of their contents.
SESSIONS_OF = dict(zip(WINDOW_CONTENTS, ("merging-window-set", "session-window-mapping"), strict=True))
INTERVALS = ("IntervalJoinLeftCache", "IntervalJoinRightCache")
JOINED = ("left-records", "right-records")
PATTERNS = (
    "nfaStateName",
    "eventQueuesStateName",
    "sharedBuffer-entries-with-lockable-edges",
    "sharedBuffer-events",
    "sharedBuffer-events-count",
)


@dataclass(frozen=True)
class StateSet:
    """States of one operator that belong together, each of which tells the operator, and its timers."""

    states: tuple[str, ...]
    service: str | None
    what: str
    #: States that belong to it, whose names alone do not tell the operator.
    others: tuple[str, ...] = ()


SETS = (
    StateSet(JOINED, None, "one side of the join is matched with nothing"),
    StateSet(("LEFT_BUFFER", "RIGHT_BUFFER"), "CLEANUP_TIMER", "one side of the join is matched with nothing, and "
             "without timers what is buffered is never removed"),
    StateSet(
        (*INTERVALS, "IntervalJoinLeftTimerState", "IntervalJoinRightTimerState"),
        USER_TIMERS,
        "one side of the join is matched with nothing, and without timers what is cached is never removed",
    ),
    StateSet(("next-index",), "timers", "rows are never joined", others=("left", "right")),
    StateSet(PATTERNS, "watermark-callbacks", "partial matches refer to events that are not there, and queued events "
             "wait for timers"),
)  # fmt: skip
UNNAMED_SESSIONS = "the timers of sessions find no contents, and nothing is emitted"
#: States with the windows of an operator that its timers fire.
FIRED = (*WINDOW_CONTENTS, "window_rank", *JOINED)


@dataclass(frozen=True)
class Half:
    """Registered states without others that Flink needs with them."""

    states: tuple[str, ...]
    missing: tuple[str, ...]
    why: str
    timers: bool = False

    def __str__(self) -> str:
        """Return a sentence."""
        have = ", ".join(map(repr, self.states))
        lacks = ", ".join(map(repr, self.missing))
        what = "timer service" if self.timers else "state" + "s" * (len(self.missing) > 1)
        return f"{have} without {what} {lacks}: {self.why}"

    @property
    def remedy(self) -> str:
        """What a writer is to do."""
        if self.timers:
            return (
                f"write table 'timers' with service {self.missing[0]!r} in the same write, or before; "
                "without rows it registers the service"
            )
        return "write all of them together; a column of NULL registers a state without values"


@dataclass(frozen=True)
class Registered:
    """Names of the keyed states of an operator, of those with windows, and of its timer services."""

    states: frozenset[str]
    windowed: frozenset[str]
    services: frozenset[str]

    @classmethod
    def of(cls, states: Iterable[StateMetaInfoSnapshot], timers: Iterable[str]) -> Registered:
        """Return the names of registrations of keyed state, and of timer states or services."""
        metas = list(states)
        windowed = frozenset(meta.name for meta in metas if _has_windows(meta))
        return cls(frozenset(meta.name for meta in metas), windowed, frozenset(service_of(name)[1] for name in timers))

    def halves(self, before: Registered | None = None) -> list[Half]:
        """Return what is there without what belongs to it; not what was so before."""
        known = [] if before is None else before.halves()
        result = [half for half in self._halves() if half not in known]
        sessions = {contents: SESSIONS_OF[contents] for contents in WINDOW_CONTENTS if contents in self.windowed}
        for contents, name in sessions.items():
            if before is not None and name in before.states and name not in self.states:
                result.append(Half((contents,), (name,), UNNAMED_SESSIONS))
        return result

    def _halves(self) -> Iterator[Half]:
        for one in SETS:
            states = [_of_the_release(name, self.states) for name in one.states]
            present = tuple(name for name in states if name in self.states)
            if not present:
                continue
            missing = tuple(name for name in (*states, *one.others) if name not in self.states)
            if missing:
                yield Half(present, missing, one.what)
            if one.service is not None and one.service not in self.services:
                yield Half(present, (one.service,), one.what, timers=True)
        fired = tuple(name for name in FIRED if name in self.windowed)
        if fired and WINDOW_TIMERS not in self.services:
            why = "no window is emitted until another element arrives in it"
            yield Half(fired, (WINDOW_TIMERS,), why, timers=True)


def _has_windows(meta: StateMetaInfoSnapshot) -> bool:
    namespace = meta.serializers.get("NAMESPACE_SERIALIZER", NO_NAMESPACE)
    return not isinstance(namespace, ConstantSerializer)


def _of_the_release(name: str, states: frozenset[str]) -> str:
    """Return the name that releases before 1.15 gave a state, if the operator has that."""
    older = name.removesuffix("-with-lockable-edges")
    return older if older in states else name


def refuse_halves(halves: Iterable[Half], operator: str | None) -> None:
    """Raise OptionError if an operator would have states without others that Flink needs with them."""
    for half in halves:
        raise OptionError(
            f"the operator would lose in silence what it holds: {half}", operator=operator, remedy=half.remedy
        )


def refuse_unnamed_sessions(
    descriptor: KeyedDescriptor, now: Registered, names: Collection[str], operator: str | None
) -> None:
    """Raise OptionError for contents of sessions, which no state of the operator names.

    ``names`` are states that name sessions, in the operator whose windows they are. A column of state windows is one of
    sessions, too.
    """
    for state in descriptor.states:
        plain = state.name.removeprefix(PYTHON_PREFIX)
        if plain not in SESSIONS_OF:
            continue
        name = state.name.removesuffix(plain) + SESSIONS_OF[plain]
        merges = name in names or (state.name == plain and descriptor.namespace_column == STATE_WINDOW)
        if merges and name not in now.states:
            raise OptionError(
                "the operator would lose in silence what it holds: "
                f"{Half((plain,), (SESSIONS_OF[plain],), UNNAMED_SESSIONS)}",
                operator=operator,
                remedy=f"write table 'keyed_state' with column {SESSIONS_OF[plain]!r} before: it has the state window "
                "of each session; Savepoint.with_window_state writes both",
            )
