"""What becomes of one operator: where its state comes from, and what is done to it. Immutable, and nothing runs.

Keyed state is a list of states, each of which has one source: the base (under the name that it has there) or one of the
tables that were put in. Keys are deleted from what was there when they were. Operator state is planned the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import StateExistsError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.savepoint import Savepoint as Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYED, TIMERS, OPERATOR = "keyed state", "timers", "operator state"


@dataclass(frozen=True)
class Base:
    """The operator in a snapshot that is there: ``path`` and ``options`` as the user gave them."""

    snapshot: Snapshot
    operator: OperatorState
    path: str
    options: Mapping[str, str]
    relocated: bool = False

    @property
    def has_keyed_state(self) -> bool:
        """Whether any subtask has some; also raw, for that may be timers."""
        return any(s.managed_keyed_state or s.raw_keyed_state for s in self.operator.subtasks.values())

    @property
    def has_operator_state(self) -> bool:
        """Whether any subtask has managed operator state."""
        return any(subtask.managed_operator_state for subtask in self.operator.subtasks.values())


@dataclass(frozen=True)
class Put:
    """A table that is put into an operator: a DataFrame and how it is written, as options of the data source.

    ``states`` are the states that it gives, where they are known before it is written.
    """

    frame: DataFrame
    options: Mapping[str, str]
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedState:
    """One state: its name, its kind, and where it comes from: the base's state ``origin``, or ``puts[put]``."""

    name: str
    kind: str
    origin: str = ""
    put: int = -1


@dataclass(frozen=True)
class OperatorPlan:
    """One operator of a savepoint that is to be written. ``states`` is None until a state of it is asked for."""

    identifier: OperatorIdentifier
    name: str | None = None
    base: Base | None = None
    states: tuple[PlannedState, ...] | None = None
    puts: tuple[Put, ...] = ()
    #: Keys that are deleted, each with the number of puts that were there before: those that come later stay.
    deletions: tuple[tuple[int, DataFrame], ...] = ()
    max_parallelism: int | None = None
    key_hashes: DataFrame | None = None
    _kinds: frozenset[str] = field(default=frozenset())

    @property
    def label(self) -> str:
        """The operator for messages."""
        return self.identifier.uid or self.name or self.identifier.operator_id.hex

    @property
    def edits_keyed_state(self) -> bool:
        """Whether keyed state cannot stay the files that it is."""
        rehashed = self.max_parallelism is not None and self.base is not None and self.base.has_keyed_state
        return bool(self.deletions) or rehashed or KEYED in self._kinds

    @property
    def edits_operator_state(self) -> bool:
        """Whether operator state cannot stay the files that it is."""
        return OPERATOR in self._kinds

    def of_kind(self, *kinds: str) -> list[PlannedState]:
        """The planned states of some kinds."""
        return [state for state in self.states or () if state.kind in kinds]

    # -- changes ---------------------------------------------------------------------------------------------

    def with_put(self, put: Put, states: Iterable[tuple[str, str]], replaces: bool) -> OperatorPlan:
        """Put a table in that gives these states, (name, kind) each; StateExistsError where one is there."""
        kept = list(self.states or ())
        for name, kind in states:
            # Timers, keyed state and operator state each have names of their own.
            there = [state for state in kept if (state.name, state.kind) == (name, kind)]
            if there and not replaces:
                raise StateExistsError(
                    f"the operator has {there[0].kind} {name!r} already",
                    operator=self.label,
                    state=name,
                    remedy="with_state replaces one state; remove_state removes it first",
                )
            planned = PlannedState(name, kind, put=len(self.puts))
            if there:
                kept[kept.index(there[0])] = planned
            else:
                kept.append(planned)
        return self._edited(tuple(kept), {kind for _, kind in states}, puts=(*self.puts, put))

    def without_state(self, name: str) -> OperatorPlan:
        """Remove a state, or both queues of a timer service."""
        doomed = self._find(name)
        left = tuple(state for state in self.states or () if state not in doomed)
        return self._edited(left, {state.kind for state in doomed})

    def with_renamed_state(self, old: str, new: str) -> OperatorPlan:
        """Give a state another name, which no other may have."""
        found = self._find(old)
        taken = [state for state in self.states or () if state.name == new and state not in found]
        if taken:
            raise StateExistsError(f"the operator has {taken[0].kind} {new!r} already", operator=self.label, state=new)
        renamed = tuple(
            replace(state, name=_renamed(state, old, new)) if state in found else state for state in self.states or ()
        )
        return self._edited(renamed, {state.kind for state in found})

    def with_deleted_keys(self, keys: DataFrame) -> OperatorPlan:
        """Delete keys from every keyed state and the timers that are there now."""
        return replace(self, deletions=(*self.deletions, (len(self.puts), keys)))

    def _edited(
        self, states: tuple[PlannedState, ...], kinds: set[str], puts: tuple[Put, ...] | None = None
    ) -> OperatorPlan:
        places = frozenset(OPERATOR if kind == OPERATOR else KEYED for kind in kinds)
        return replace(self, states=states, puts=self.puts if puts is None else puts, _kinds=self._kinds | places)

    def _find(self, name: str) -> list[PlannedState]:
        found = [state for state in self.states or () if name in (state.name, service_name(state))]
        if not found:
            names = dict.fromkeys(service_name(state) or state.name for state in self.states or ())
            raise StateNotFoundError(
                f"the operator has no state {name!r}", operator=self.label, remedy=did_you_mean(name, names)
            )
        return found


def service_name(state: PlannedState) -> str:
    """The timer service of a timer queue; nothing for other states."""
    return state.name.removeprefix("_timer_state/").partition("_")[2] if state.kind == TIMERS else ""


def _renamed(state: PlannedState, old: str, new: str) -> str:
    """The new name; where a timer service was named, that of its queue."""
    return new if state.name == old else state.name.removesuffix(old) + new
