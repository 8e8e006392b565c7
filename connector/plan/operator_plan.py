"""What becomes of one operator: where its state comes from, and what is done to it. Immutable, and nothing runs.

A state has one source: the base, under the name that it has there, or one of the tables that were put in. Keys are
deleted from what was there when they were. So every chain of calls comes to one list of states, each with its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyspark_savepoint.formats.errors import StateExistsError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.metadata.key_groups import DEFAULT_LOWER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint as Snapshot
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor, OperatorStateDescriptor
from pyspark_savepoint.statebackends.model.timer_queue import service_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYED, TIMERS, OPERATOR = "keyed state", "timers", "operator state"


@dataclass(frozen=True)
class Base:
    """The operator in a snapshot that is there: ``path`` and ``options`` as the user gave them.

    ``relocated``: its handles were given other paths than ``_metadata`` has.
    """

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
class StateInput:
    """A table that is put into an operator: rows, how they are written (options of the data source), what they are."""

    frame: DataFrame
    options: Mapping[str, str]
    descriptor: KeyedDescriptor | OperatorStateDescriptor


@runtime_checkable
class OperatorRows(Protocol):
    """What makes rows for an operator by itself: user functions do."""

    def operator_tables(self, options: Mapping[str, str]) -> Sequence[StateInput]:
        """Tables of the operator's state; the options say ``maxParallelism``, and what the user said more."""


@dataclass(frozen=True)
class PlannedState:
    """One state as it will be registered, and its source: the base's state ``origin``, or ``puts[put]``."""

    kind: str
    meta: StateMetaInfoSnapshot
    origin: str = ""
    put: int = -1

    @property
    def name(self) -> str:
        """The name that it will have."""
        return self.meta.name

    @property
    def service(self) -> str:
        """The timer service of a queue of timers; nothing for other states."""
        return service_of(self.name)[1] if self.kind == TIMERS else ""


@dataclass(frozen=True)
class OperatorPlan:
    """One operator of a savepoint that is to be written. ``states`` is None until somebody asks for one.

    ``deletions`` are keys, each with the number of tables that were put in before: what came later stays.
    ``max_parallelism`` is what it shall be, where that is not the base's; ``default_max_parallelism`` that of new ones.
    """

    identifier: OperatorIdentifier
    name: str | None = None
    base: Base | None = None
    default_max_parallelism: int = DEFAULT_LOWER_BOUND_MAX_PARALLELISM
    states: tuple[PlannedState, ...] | None = None
    key_serializer: TypeSerializer | None = None
    compressed: bool = False
    raw_timers: bool = False
    puts: tuple[StateInput, ...] = ()
    deletions: tuple[tuple[int, DataFrame], ...] = ()
    new_max_parallelism: int | None = None
    key_hashes: DataFrame | None = None
    edited: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The operator for messages."""
        return self.identifier.uid or self.name or self.identifier.operator_id.hex

    @property
    def max_parallelism(self) -> int:
        """What it will be."""
        if self.new_max_parallelism is not None:
            return self.new_max_parallelism
        return self.base.operator.max_parallelism if self.base is not None else self.default_max_parallelism

    @property
    def rehashes(self) -> bool:
        """Whether keyed state of the base gets other key groups."""
        return (
            self.base is not None
            and self.base.has_keyed_state
            and (self.max_parallelism != self.base.operator.max_parallelism)
        )

    @property
    def edits_keyed_state(self) -> bool:
        """Whether keyed state cannot stay the files that it is."""
        return bool(self.deletions) or self.rehashes or bool(self.edited & {KEYED, TIMERS})

    @property
    def edits_operator_state(self) -> bool:
        """Whether operator state cannot stay the files that it is."""
        return OPERATOR in self.edited

    def of_kind(self, *kinds: str) -> list[PlannedState]:
        """The planned states of some kinds, in order."""
        return [state for state in self.states or () if state.kind in kinds]

    # -- changes ---------------------------------------------------------------------------------------------

    def with_put(self, put: StateInput, states: Iterable[PlannedState], replaces: bool) -> OperatorPlan:
        """Put in a table that gives these states; StateExistsError where one is there and shall not be replaced."""
        kept = list(self.states or ())
        for new in states:
            # Timers, keyed state and operator state each have names of their own.
            there = next((old for old in kept if (old.name, old.kind) == (new.name, new.kind)), None)
            if there is not None and not replaces:
                raise StateExistsError(
                    f"the operator has this {new.kind} already",
                    operator=self.label,
                    state=new.name,
                    remedy=f"with_state replaces it, remove_state({new.name!r}) removes it first",
                )
            planned = replace(new, put=len(self.puts))
            if there is None:
                kept.append(planned)
            else:
                kept[kept.index(there)] = planned
        serializer = self.key_serializer
        if serializer is None and isinstance(put.descriptor, KeyedDescriptor):
            serializer = put.descriptor.key_serializer
        plan = replace(self, puts=(*self.puts, put), key_serializer=serializer)
        return plan._edited(kept, {state.kind for state in states})

    def without_state(self, name: str) -> OperatorPlan:
        """Remove a state, or both queues of a timer service."""
        doomed = self._find(name)
        return self._edited([s for s in self.states or () if s not in doomed], {state.kind for state in doomed})

    def with_renamed_state(self, old: str, new: str) -> OperatorPlan:
        """Give a state, or a timer service, another name, which no other may have."""
        found = self._find(old)
        renamed = [_renamed(state, old, new) if state in found else state for state in self.states or ()]
        names = [(state.name, state.kind) for state in renamed]
        if len(set(names)) < len(names):
            raise StateExistsError(
                f"the operator has a state {new!r} already",
                operator=self.label,
                state=old,
                remedy=f"give it another name, or remove the other first: remove_state({new!r})",
            )
        return self._edited(renamed, {state.kind for state in found})

    def with_deleted_keys(self, keys: DataFrame) -> OperatorPlan:
        """Delete keys from every keyed state and the timers that are there now."""
        return replace(self, deletions=(*self.deletions, (len(self.puts), keys)))

    def with_rewritten(self, *kinds: str) -> OperatorPlan:
        """Write state of these kinds anew, with every entry as it is."""
        return replace(self, edited=self.edited | set(kinds))

    def _edited(self, states: list[PlannedState], kinds: set[str]) -> OperatorPlan:
        return replace(self, states=tuple(states), edited=self.edited | kinds)

    def _find(self, name: str) -> list[PlannedState]:
        found = [state for state in self.states or () if name in (state.name, state.service)]
        if not found:
            names = dict.fromkeys(state.service or state.name for state in self.states or ())
            raise StateNotFoundError(
                f"the operator has no state {name!r}", operator=self.label, remedy=did_you_mean(name, names)
            )
        return found


def _renamed(state: PlannedState, old: str, new: str) -> PlannedState:
    """The state by its new name; where a timer service was named, by that of its queue."""
    name = new if state.name == old else state.name.removesuffix(old) + new
    return replace(state, meta=replace(state.meta, name=name))
