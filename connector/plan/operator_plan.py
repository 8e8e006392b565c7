"""Plan of one operator: where its state comes from, and the edits to it. Immutable; nothing runs.

A state has one source: the base, under its name there, or one of the added tables. Deleted keys are removed from the
state that existed at that time. So every chain of calls is reduced to one list of states, each with its source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyspark_savepoint.formats.data_view import MAX_UTF_BYTES, too_long
from pyspark_savepoint.formats.errors import OptionError, StateExistsError, StateNotFoundError, did_you_mean, type_name
from pyspark_savepoint.formats.java import encode_modified_utf8
from pyspark_savepoint.formats.metadata.key_groups import DEFAULT_LOWER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.metadata.keyed_handles import has_database
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.savepoint import IGNORE, VERIFY, Snapshot
from pyspark_savepoint.plan.named import NamedSequence
from pyspark_savepoint.statebackends.catalog.rows import display_name
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, OperatorStateDescriptor, service_of
from pyspark_savepoint.statebackends.sources.lost_state import NOTHING, LostState
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator, headers_ahead
from pyspark_savepoint.statebackends.writing.planning.operator_types import expect_same_key

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import (
        KeyedBackendHeader,
        OperatorBackendHeader,
        StateMetaInfoSnapshot,
    )
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.plan.engine import Engine, Rows
    from pyspark_savepoint.statebackends.types.class_names import ClassRename
    from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

KEYED, TIMERS, OPERATOR = "keyed state", "timers", "operator state"


@redacted
@dataclass(frozen=True)
class Base:
    """The operator in an existing snapshot: ``path`` and ``options`` as the user gave them.

    ``relocated``: its handles have other paths than in ``_metadata``.
    """

    snapshot: Snapshot
    operator: OperatorState
    path: str
    options: Mapping[str, str]
    relocated: bool = False
    #: Keyed state that is left out, because it is damaged.
    lost: LostState = NOTHING

    @cached_property
    def opened(self) -> OpenOperator:
        """The operator with its headers, which are read once for all edits."""
        return OpenOperator(self.snapshot, self.operator, self.lost)

    @property
    def checksums(self) -> str:
        """How its files are read for a write: verified, so that what is damaged gets no new checksums, or as asked."""
        return self.options.get("checksums", VERIFY)

    @property
    def checksums_of_entries(self) -> str:
        """How files of keyed state are read for a write: those of a database have checksums of their own."""
        has_databases = any(has_database(one.managed_keyed_state) for one in self.operator.subtasks.values())
        return self.options.get("checksums", IGNORE) if has_databases else self.checksums

    @cached_property
    def read_for_write(self) -> OpenOperator:
        """The operator, with verification of all data that is read, unless the user has it ignore checksums."""
        snapshot = self.snapshot if self.checksums == IGNORE else self.snapshot.verified()
        return OpenOperator(snapshot, self.operator, self.lost)

    @property
    def has_keyed_state(self) -> bool:
        """Whether any subtask has keyed state, managed or raw (which may be timers)."""
        return any(s.managed_keyed_state or s.raw_keyed_state for s in self.operator.subtasks.values())

    @property
    def has_operator_state(self) -> bool:
        return any(subtask.managed_operator_state for subtask in self.operator.subtasks.values())


def headers_of_bases(bases: Sequence[Base | None]) -> AbstractContextManager[None]:
    """Return a block within which the headers of operators of the first one's snapshot are opened in the background."""
    first = next((base for base in bases if base is not None), None)
    if first is None:
        return nullcontext()
    mine = (base.operator for base in bases if base is not None and base.snapshot is first.snapshot)
    return headers_ahead(first.snapshot, mine)


#: Keyed states, one operator state, or all operator states of a function.
Described = KeyedDescriptor | OperatorStateDescriptor | tuple[OperatorStateDescriptor, ...]


@dataclass(frozen=True)
class StateInput:
    """A table to add to an operator: its rows, how they are written, and the descriptor of its states.

    ``header`` is that of the stream whose entries or elements the rows are. ``bases`` are reads of the
    entries of other operators, which writing tasks merge with ``rest``, all other rows; empty if tasks cannot
    merge them. ``bound_key``: the type of its keys is the operator's, which its options do not give. ``sessions``: the
    rows name the sessions of a table of window state, from whose windows they are made.
    """

    rows: Rows
    spec: WriteSpec
    descriptor: Described
    header: KeyedBackendHeader | OperatorBackendHeader | None = None
    bases: tuple[SavepointReadOptions, ...] = ()
    rest: Rows | None = None
    bound_key: bool = False
    sessions: bool = False


@runtime_checkable
class OperatorRows(Protocol):
    """Source of state for an operator other than a table of rows, such as user functions."""

    @property
    def engine(self) -> Engine:
        """The engine that has the records."""

    @property
    def max_parallelism(self) -> int | None:
        """The max parallelism of the operator; None for that of the savepoint."""

    def operator_tables(self, spec: WriteSpec) -> Sequence[StateInput]:
        """Return tables of the operator's state; of the spec, only what does not depend on descriptors is set."""


class PlanCheck(Protocol):
    """Check of an operator that reads state, before the operator is written."""

    @property
    def is_implied(self) -> bool:
        """Whether writing the operator finds all that the check would find."""

    def run(self, plan: OperatorPlan, /) -> None:
        """Raise a SavepointError if the operator cannot be written as it is planned now."""


@dataclass(frozen=True)
class EarlierCheck:
    """Check of an operator as it was planned before its entries were written anew: with other keys, or merged."""

    check: PlanCheck
    plan: OperatorPlan

    @property
    def is_implied(self) -> bool:
        """Whether writing the operator finds all that the check would find."""
        return self.check.is_implied

    def run(self, _: OperatorPlan) -> None:
        """Raise a SavepointError if the operator could not be written as it was planned."""
        self.check.run(self.plan)


@dataclass(frozen=True)
class PlannedState:
    """One state of the planned operator, and its source: state ``origin`` of the base, or of ``inputs[from_input]``.

    ``updates`` are the numbers of inputs whose rows, of state ``origin`` too, were laid over it, in this order.
    """

    kind: str
    meta: StateMetaInfoSnapshot
    origin: str = ""
    from_input: int = -1
    updates: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of all tables that have rows of it."""
        return (self.from_input, *self.updates) if self.from_input >= 0 else self.updates

    @property
    def name(self) -> str:
        return self.meta.name

    @property
    def service(self) -> str:
        """The timer service of a queue of timers; empty for other states."""
        return service_of(self.name)[1] if self.kind == TIMERS else ""


def folded(name: str) -> Hashable:
    """Return what names have in common that differ in upper and lower case alone."""
    return "", name.casefold()


class States(NamedSequence[PlannedState]):
    """The states of an operator, by name in any case, by kind and name, and timers by their service."""

    __slots__ = ()

    @staticmethod
    def names(item: PlannedState) -> Iterable[Hashable]:
        """Return the names by which a state is found."""
        return dict.fromkeys(((item.kind, item.name), item.name, item.service or item.name, folded(item.name)))


@dataclass(frozen=True)
class OperatorPlan:
    """Plan of one operator of a savepoint. ``states`` is None until it is needed, as it requires reading headers.

    ``deletions`` are keys, each with the number of tables added before it: tables added later keep these keys.
    ``max_parallelism`` is the new one, if it differs from the base's; ``default_max_parallelism`` that of new
    operators. ``renamed``: its identifier was changed. ``checks`` are run before the state is written.
    ``class_renames`` are new names of classes in the serializers of the base.
    """

    identifier: OperatorIdentifier
    name: str | None = None
    base: Base | None = None
    default_max_parallelism: int = DEFAULT_LOWER_BOUND_MAX_PARALLELISM
    states: States | None = None
    key_serializer: TypeSerializer | None = None
    compressed: bool = False
    raw_timers: bool = False
    inputs: tuple[StateInput, ...] = ()
    deletions: tuple[tuple[int, Rows], ...] = ()
    new_max_parallelism: int | None = None
    key_hashes: Rows | None = None
    edited: frozenset[str] = frozenset()
    renamed: bool = False
    checks: tuple[PlanCheck, ...] = ()
    class_renames: tuple[ClassRename, ...] = ()

    @property
    def label(self) -> str:
        """The operator's name for messages."""
        return display_name(self.identifier.uid, self.name, otherwise=self.identifier.operator_id.hex)

    @property
    def max_parallelism(self) -> int:
        """The max parallelism of the planned operator."""
        if self.new_max_parallelism is not None:
            return self.new_max_parallelism
        return self.base.operator.max_parallelism if self.base is not None else self.default_max_parallelism

    @property
    def rehashes(self) -> bool:
        """Whether keyed state of the base is assigned to other key groups."""
        return (
            self.base is not None
            and self.base.has_keyed_state
            and (self.max_parallelism != self.base.operator.max_parallelism)
        )

    @property
    def edits_keyed_state(self) -> bool:
        """Whether keyed state must be rewritten, so that its files cannot be kept."""
        return bool(self.deletions) or self.rehashes or bool(self.edited & {KEYED, TIMERS})

    @property
    def edits_operator_state(self) -> bool:
        """Whether operator state must be rewritten, so that its files cannot be kept."""
        return OPERATOR in self.edited

    def of_kind(self, *kinds: str) -> list[PlannedState]:
        """Return the planned states of some kinds, in order."""
        return [state for state in self.states or () if state.kind in kinds]

    def state(self, kind: str, name: str) -> PlannedState | None:
        """Return the planned state of a kind and name. Timers, keyed and operator state have names of their own."""
        return next(iter(self.states.called((kind, name))), None) if self.states is not None else None

    def called(self, name: object) -> list[PlannedState]:
        """Return the planned states of a name, and the queues of a timer service."""
        return self.states.called(name) if self.states is not None and isinstance(name, str) else []

    def of_new_class(self, serializer: TypeSerializer) -> TypeSerializer:
        """Return a serializer of the base with the new names of classes."""
        return reduce(lambda one, rename: rename.serializer(one), self.class_renames, serializer)

    def with_new_classes(self, meta: StateMetaInfoSnapshot) -> StateMetaInfoSnapshot:
        """Return a registration of the base with the new names of classes."""
        if not self.class_renames:
            return meta
        return replace(meta, serializers={role: self.of_new_class(one) for role, one in meta.serializers.items()})

    # -- changes ---------------------------------------------------------------------------------------------

    @property
    def earlier_checks(self) -> tuple[PlanCheck, ...]:
        """The checks, of the operator as it is planned now: for another plan, whose entries are written anew."""
        return tuple(one if isinstance(one, EarlierCheck) else EarlierCheck(one, self) for one in self.checks)

    def with_input(
        self, state_input: StateInput, states: Iterable[PlannedState], replaces: bool, *, updates: bool = False
    ) -> OperatorPlan:
        """Add a table with these states; raise StateExistsError if one exists and is not to be replaced.

        ``updates``: the states that exist get the table's rows, and keep all others.

        Its keys have the type of the operator's; only where it is all keyed state, options may give them another.
        """
        kept = self.states or States()
        for new in states:
            existing = self.state(new.kind, new.name)
            if existing is not None and updates:
                kept = kept.with_replaced((existing, replace(existing, updates=(*existing.updates, len(self.inputs)))))
                continue
            if existing is not None and not replaces:
                raise StateExistsError(
                    f"the operator has {'these' if new.kind == TIMERS else 'this'} {new.kind} already",
                    operator=self.label,
                    state=new.name,
                    remedy=f"remove_state({new.service!r}) removes them first, with_timers adds those to be there"
                    if new.kind == TIMERS
                    else "update_state changes the keys of the rows, with_state replaces all of it, "
                    f"remove_state({new.name!r}) removes it first",
                )
            planned = replace(new, from_input=len(self.inputs))
            kept = kept.with_added(planned) if existing is None else kept.with_replaced((existing, planned))
        serializer, compressed = self.key_serializer, self.compressed
        if isinstance(state_input.descriptor, KeyedDescriptor):
            if state_input.spec.compression is not None:
                compressed = state_input.spec.compression == "snappy"
            written = state_input.descriptor.key_serializer
            if serializer is None or all(
                state.kind == OPERATOR or state.inputs == (len(self.inputs),) for state in kept
            ):
                serializer = written
            expect_same_key(written, serializer, self.label)
        plan = replace(self, inputs=(*self.inputs, state_input), key_serializer=serializer, compressed=compressed)
        return plan._edited(kept, {state.kind for state in states})

    def without_state(self, name: str) -> OperatorPlan:
        """Remove a state, or both queues of a timer service."""
        doomed = self._find(name)
        return self._edited((self.states or States()).without(*doomed), {state.kind for state in doomed})

    def with_renamed_state(self, old: str, new: str) -> OperatorPlan:
        """Rename a state or a timer service; raise StateExistsError if the name is taken."""
        matches = self._find(old)
        expect_name(new, self.label)
        renamed = [(state, _renamed(state, old, new)) for state in matches]
        states = (self.states or States()).with_replaced(*renamed)
        if any(len(states.called((state.kind, state.name))) > 1 for _, state in renamed):
            raise StateExistsError(
                f"the operator has a state {new!r} already",
                operator=self.label,
                state=old,
                remedy=f"give it another name, or remove the other first: remove_state({new!r})",
            )
        return self._edited(states, {state.kind for state in matches})

    def with_deleted_keys(self, keys: Rows) -> OperatorPlan:
        """Delete keys from all keyed states and timers that exist now."""
        return replace(self, deletions=(*self.deletions, (len(self.inputs), keys)))

    def with_rewritten(self, *kinds: str) -> OperatorPlan:
        """Rewrite state of these kinds, with all entries unchanged."""
        return replace(self, edited=self.edited | set(kinds))

    def _edited(self, states: States, kinds: set[str]) -> OperatorPlan:
        return replace(self, states=states, edited=self.edited | kinds)

    def _find(self, name: str) -> list[PlannedState]:
        matches = self.called(name)
        if not any(state.name == name for state in matches):
            expect_name(name, self.label)
        if not matches:
            names = dict.fromkeys(state.service or state.name for state in self.states or ())
            raise StateNotFoundError(
                f"the operator has no state {name!r}", operator=self.label, remedy=did_you_mean(name, names)
            )
        return matches


def expect_name(name: object, operator: str) -> None:
    """Raise OptionError unless the name of a state is text that is not empty."""
    if not isinstance(name, str):
        raise OptionError(
            "a state must be given by its name",
            operator=operator,
            expected="one text, such as 'total'",
            found=f"{type_name(name)}: {name!r}",
            remedy="call it once for each state",
        )
    if not name.strip():
        raise OptionError("the name of a state must not be empty", operator=operator, found=repr(name))
    size = len(encode_modified_utf8(name))
    if size > MAX_UTF_BYTES:
        raise too_long(name, size).with_facts(operator=operator)


def _renamed(state: PlannedState, old: str, new: str) -> PlannedState:
    """Return the state with its new name; for a timer service, with the name of its queue."""
    name = new if state.name == old else state.name.removesuffix(old) + new
    return replace(state, meta=replace(state.meta, name=name))


def expect_rows(engine: Engine, source: object, plan: OperatorPlan, what: str = "state") -> Rows:
    """Return rows that a user gave; raise OptionError unless they are of the engine."""
    rows = engine.rows(source)
    if rows is None:
        raise OptionError(
            f"{what} must be given as {engine.rows_are}",
            operator=plan.label,
            found=type_name(source),
            remedy=engine.make_rows,
        )
    return rows
