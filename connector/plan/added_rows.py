"""Rows that are added to an operator: the one place that says what they change in it, whichever way they came.

``df.write`` and SQL come from ``write/in_place.py``, the verbs of ``Savepoint``, and so ``open``, ``create`` and
the command line, from ``plan/state_inputs.py``. What rows keep of a state is in ``kept_states`` (of
``statebackends.writing.planning``), which both ask before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.name_lists import split_names
from pyspark_savepoint.formats.snapshot.changes import has_key_groups
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    TIMERS,
    Described,
    OperatorPlan,
    PlannedState,
    StateInput,
    States,
    folded,
)
from pyspark_savepoint.statebackends.rows.descriptors import (
    NAMESPACE_COLUMN,
    USER_TIMERS,
    WINDOW_TIMERS,
    OperatorStateDescriptor,
    StateKind,
)
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
from pyspark_savepoint.statebackends.tables.session_windows import MERGING
from pyspark_savepoint.statebackends.writing.planning.describe_state import describe_keyed, describe_operator_state
from pyspark_savepoint.statebackends.writing.planning.kept_states import (
    expect_keys,
    expect_same_state,
    refuse_other_case,
)
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.planning.write_request import OPERATOR_STATE, WriteSpec
from pyspark_savepoint.statebackends.writing.planning.write_request import TIMERS as TIMERS_TABLE

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.plan.engine import Rows
    from pyspark_savepoint.statebackends.requests.request import BatchFunction


@dataclass(frozen=True)
class RowsOfTasks:
    """Rows that tasks get one after the other, from Spark: only their columns are known where they are planned."""

    schema: pa.Schema
    laid_out: bool = False

    def select(self, *names: str) -> RowsOfTasks:
        """Return some columns, which tasks take by their names."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in names]))

    def renamed(self, names: Mapping[str, str]) -> RowsOfTasks:
        """Raise UnsupportedStateError, as all that needs more than the columns does."""
        self._refuse()

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> RowsOfTasks:
        """Raise UnsupportedStateError."""
        self._refuse()

    def union(self, other: RowsOfTasks) -> RowsOfTasks:
        """Raise UnsupportedStateError."""
        self._refuse()

    def without(self, keys: RowsOfTasks, column: str) -> RowsOfTasks:
        """Raise UnsupportedStateError."""
        self._refuse()

    def joined(self, other: RowsOfTasks, column: str) -> RowsOfTasks:
        """Raise UnsupportedStateError."""
        self._refuse()

    def held(self) -> RowsOfTasks:
        """Raise UnsupportedStateError."""
        self._refuse()

    def collected(self) -> list[dict[str, Any]]:
        """Raise UnsupportedStateError."""
        self._refuse()

    def first(self) -> dict[str, Any] | None:
        """Raise UnsupportedStateError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedStateError(
            "rows of df.write and INSERT are written as they come, and this change needs all of them",
            remedy="write a changed copy: Savepoint.load(spark, path).with_state(...).write(new_path)",
        )


@dataclass(frozen=True)
class AddedTable:
    """Rows as states of an operator: ``states`` are planned, with the registrations that the rows would have."""

    rows: StateInput
    states: tuple[PlannedState, ...]
    registrations: tuple[StateMetaInfoSnapshot, ...]

    @classmethod
    def of(
        cls,
        plan: OperatorPlan,
        rows: Rows,
        spec: WriteSpec,
        types: OperatorTypes | None,
        classes: JobClasses | None = None,
        *,
        added: bool = False,
    ) -> AddedTable:
        """Describe rows as states of an operator.

        Args:
            plan: The operator.
            rows: The rows.
            spec: How they are written, with what they keep of states that exist.
            types: Types of the operator's own states, which the rows get unless ``spec`` gives others.
            classes: The user's classes, in the version of Kryo that writes the rows; None for those of ``spec``.
            added: States that ``types`` lacks are new; else ``types`` must have all of them.

        Raises:
            SavepointError: If options or columns do not fit each other, or the operator's keys.

        """
        if spec.table == OPERATOR_STATE:
            operator_state = describe_operator_state(rows.schema, spec, types, added=added)
            return cls._planned(StateInput(rows, spec, operator_state))
        own = _own_namespace(plan, spec, rows.schema)
        headers = headers_of(plan, rows.schema.names)
        keyed = describe_keyed(rows.schema, spec, headers, types, classes, added=added, own_namespace=own)
        given = types is not None or not {"key", *keyed.key_columns}.isdisjoint(spec.types)
        bound = (plan.key_serializer is not None and not given) or own is not None
        return cls._planned(StateInput(rows, spec, keyed, bound_key=bound))

    @classmethod
    def _planned(cls, rows: StateInput) -> AddedTable:
        states = tuple(planned(rows.descriptor))
        return cls(rows, states, tuple(state.meta for state in states))

    def named(self, name: str) -> AddedTable:
        """Return the only state under another name than its column's."""
        (state,) = self.states
        return self.registered({state.origin: replace(state.meta, name=name)})

    def registered(self, metas: Mapping[str, StateMetaInfoSnapshot]) -> AddedTable:
        """Return the states with registrations that exist, by columns: they have what values do not show."""
        return replace(self, states=tuple(replace(state, meta=metas[state.origin]) for state in self.states))

    def added_to(self, plan: OperatorPlan, *, replaces: bool = False, updates: bool = False) -> OperatorPlan:
        """Return the operator with the states.

        Args:
            plan: The operator.
            replaces: The states take the place of those that exist.
            updates: States that exist get the rows, and keep what other keys have.

        Raises:
            StateExistsError: If the operator has a state that the rows do not replace or update.
            OptionError: If names or types do not fit the operator.

        """
        if not replaces:
            names = [state.name for state in self.states]
            taken = [one for name in names for one in (plan.states or States()).called(folded(name))]
            refuse_other_case(names, [one.name for one in taken if one.kind != TIMERS], plan.label)
        if updates:
            _expect_same_states(plan, self.states, self.registrations)
        return plan.with_input(self.rows, self.states, replaces, updates=updates)


def _expect_same_states(
    plan: OperatorPlan, states: Sequence[PlannedState], written: Sequence[StateMetaInfoSnapshot]
) -> None:
    """Raise an error unless states that exist have keys to find rows by, and the kind and type of the rows."""
    for state, meta in zip(states, written, strict=True):
        before = plan.state(state.kind, state.name)
        if before is not None:
            expect_keys(before.meta, plan.label)
            expect_same_state(meta, before.meta, plan.label)


def with_numbers(plan: OperatorPlan, spec: WriteSpec) -> OperatorPlan:
    """Return the operator with the max parallelism of the rows.

    Raises:
        OptionError: If the operator has state that fixes other numbers.

    """
    base, number = plan.base, spec.max_parallelism
    has_state = base is not None and any(True for one in base.operator.subtasks.values() for _ in one.handles)
    if number is not None and base is None and not plan.inputs:
        plan = replace(plan, default_max_parallelism=number)
    elif number is not None and base is not None and not plan.inputs and (not has_state or spec.is_keyed):
        # Without state by key group, there are no key groups to preserve.
        fixed = has_state and has_key_groups(base.operator)
        plan = plan if fixed else replace(plan, new_max_parallelism=number)
        check_parallelism(plan.max_parallelism, base.operator.parallelism if has_state else 1)
    if number not in (None, plan.max_parallelism):
        raise _differs("maxParallelism", plan, plan.max_parallelism, number)
    if base is not None and has_state and spec.parallelism not in (None, base.operator.parallelism):
        raise _differs("parallelism", plan, base.operator.parallelism, spec.parallelism)
    return plan


def _differs(option: str, plan: OperatorPlan, expected: int, value: object) -> OptionError:
    remedy = "leave the option out: a job restores the savepoint at any parallelism"
    if option == "maxParallelism":
        remedy = (
            "leave the option out, or change the operator first, with_max_parallelism(...); an operator that is new "
            "has that of create(max_parallelism=...)"
        )
    return OptionError(
        f"option '{option}' differs from that of the operator, which has other state",
        operator=plan.label,
        expected=expected,
        found=value,
        remedy=remedy,
    )


def _own_namespace(plan: OperatorPlan, spec: WriteSpec, schema: pa.Schema) -> TypeSerializer | None:
    """Return the type of the namespaces that timers of a service had in the base; None if it had no such timers."""
    if spec.table != TIMERS_TABLE or plan.base is None or not plan.base.has_keyed_state:
        return None
    default = WINDOW_TIMERS if NAMESPACE_COLUMN in schema.names else USER_TIMERS
    services = (default,) if spec.state is None else split_names(spec.state)
    queues = {queue.service: queue for queue in plan.base.opened.raw_queues()}
    queues |= OperatorTypes.of_operator(plan.base.opened).timers
    return next((queues[name].namespace for name in services if name in queues), None)


def planned(described: Described) -> list[PlannedState]:
    """Return the states of a table."""
    if isinstance(described, tuple):
        return [state for descriptor in described for state in planned(descriptor)]
    if isinstance(described, OperatorStateDescriptor):
        return [PlannedState(OPERATOR, described.meta_info(), described.name)]
    return [
        PlannedState(TIMERS if state.kind is StateKind.TIMER else KEYED, state.meta_info(), state.name)
        for state in described.states
    ]


def headers_of(plan: OperatorPlan, columns: Sequence[str]) -> OperatorHeaders | None:
    """Return headers of the planned operator, which an added table must match in its keys.

    They have the states that the columns may name, and those with sessions: whatever the number of all others.
    """
    if plan.key_serializer is None:
        return None
    known = (plan.state(KEYED, name) for name in dict.fromkeys((*columns, *MERGING)))
    metas = tuple(state.meta for state in known if state is not None)
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, metas)
    operator = OperatorState(plan.identifier.operator_id, 1, plan.max_parallelism, uid=plan.identifier.uid)
    return OperatorHeaders(operator, (), (header,))
