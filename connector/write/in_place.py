"""Write of rows to the savepoint at a path: its plan with one edit, whose target is its base.

::

    plan   of the savepoint at the path, or of a new one
    edit   the rows are added to one operator, in place of states (``overwrite``), or laid over them (``state``)
    write  tasks write the rows, and the commit publishes the operator with all that stays of the savepoint

The edit is the one that verbs make (``plan/added_rows.py``): it says what a state keeps of its kind, types and time to
live, and what fits the operator. Here is what only a write to its own base asks: which states it replaces, what would
be lost with them, and whether other operators can stay as they are. All of it is decided on the driver, before a task
runs. The plan pickles; tasks and commit need nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateExistsError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, OPTION, StoragePath
from pyspark_savepoint.formats.flink_releases import Release, first_with_metadata, release_of
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.snapshot.changes import has_channel_state, target_version
from pyspark_savepoint.formats.snapshot.publication import Staging, fingerprint
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.write_folder import folder_of
from pyspark_savepoint.plan.added_rows import AddedTable, RowsOfTasks, with_numbers
from pyspark_savepoint.plan.keyed_edits import merged_rows, with_states
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, TIMERS, OperatorPlan, PlannedState, States
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.python.python_rows import PythonRows
from pyspark_savepoint.statebackends.python.python_state import PREFIX, is_python_operator
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import (
    KeyedDescriptor,
    OperatorStateDescriptor,
    StateKind,
    service_of,
)
from pyspark_savepoint.statebackends.rows.state_sets import Registered, refuse_halves, refuse_unnamed_sessions
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value, is_namespaced
from pyspark_savepoint.statebackends.tables.session_windows import MERGING, has_sessions
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY
from pyspark_savepoint.statebackends.writing.planning.kept_states import (
    expect_keys,
    keeping,
    refuse_checkpoint,
    state_of_column,
)
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, WritePlan
from pyspark_savepoint.statebackends.writing.planning.release_fit import Misfit, expect_one_kryo, refuse_misfits
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    COORDINATOR_STATE,
    IN_FLIGHT,
    KEYED_STATE,
    OPERATOR_STATE,
    RAW_KEYED_STATE,
    RAW_OPERATOR_STATE,
    WINDOW_STATE,
    StatePart,
    WriteRequest,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    TIMERS as TIMERS_TABLE,
)
from pyspark_savepoint.text.doors import in_words, of_rows

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator


@in_words(of_rows)
def plan_write(request: WriteRequest, schema: pa.Schema, layout: Distribution | None = None) -> WritePlan:
    """Plan a write; ``layout`` is the result of ``key_by``. Errors describe why the write is not possible."""
    staging = Staging.at(request.path)
    existed, found = folder_of(staging)
    published = None if found is None else found.data
    staging = replace(staging, version=() if found is None else found.version)
    options = StoragePath.options_of(request.path)
    savepoint, base = SavepointPlan(), None
    if published is not None:
        base = Snapshot.of_bytes(staging.filesystem, staging.directory, published, options)
        refuse_checkpoint(base)
        savepoint = SavepointPlan.of(base, request.path, {} if options == NO_OPTIONS else {OPTION: options.to_json()})
    request, existing = _resolve(request, base, savepoint)
    python = _python(request, schema, existing)
    if python is not None:
        request, schema = _registered(request, python), python.schema(schema)
    version = target_version(savepoint.bases, request.flink_version)
    release = release_of(request.flink_version) if request.flink_version is not None else None
    since = request.flink_version or first_with_metadata(version).version
    change = _Change(replace(request, flink_version=since), schema, savepoint, existing, layout, python)
    change.refuse_what_exists()
    plan = change.plan(staging, fingerprint(published), existed, version)
    if release is None and not savepoint.bases:
        remedy = "option('flinkVersion', '2.3') or '1.20': that of the job which restores the savepoint"
        serializers = [one for meta in change.metas for one in meta.serializers.values()]
        key = change.operator.key_serializer
        expect_one_kryo([*serializers, *([key] if key is not None else [])], request.path, request.operator, remedy)
    plan = plan if release is None else replace(plan, rewritten=change.rewritten_for(release))
    return plan.with_near_files()


def _resolve(
    request: WriteRequest, base: Snapshot | None, savepoint: SavepointPlan
) -> tuple[WriteRequest, OperatorPlan | None]:
    """Return the request with the operator's uid or hash, and the operator, if it exists."""
    if request.uid is None and request.uid_hash is None:
        if base is None:
            raise OptionError(
                "the uid of the new operator is missing",
                operator=f"name {request.operator_name!r}",
                remedy="set option 'uid' to the uid that the job gives it",
            )
        operator = base.operator(name=request.operator_name)
        request = replace(request, uid=operator.uid, uid_hash=None if operator.uid else operator.operator_id.hex)
    if base is not None and request.uid is not None:
        base.expect_no_hash(request.uid)
    return request, savepoint.find(request.uid or OperatorIdentifier(request.operator_id))


def _python(request: WriteRequest, schema: pa.Schema, existing: OperatorPlan | None) -> PythonRows | None:
    """Return the conversion of rows for the PyFlink operator at the path or in ``typesFrom``; None for others."""
    if not request.is_keyed or len(request.key) > 1:
        return None
    opened = OperatorTypes.opened_by(request) if request.type_source is not None else _opened(existing)
    if opened is None or not is_python_operator(opened):
        if request.py_types is not None:
            raise OptionError(
                "option 'pyTypes' is for the operator of a PyFlink job, which is at the path or in 'typesFrom'",
                path=request.path,
                operator=request.operator,
            )
        return None
    read = TableRequest(str(request.path), py_types=request.py_types)
    return PythonRows.of(opened, read, schema, (request.key or (KEY,))[0], request.table == WINDOW_STATE)


def _opened(plan: OperatorPlan | None) -> OpenOperator | None:
    return plan.base.opened if plan is not None and plan.base is not None else None


def _registered(request: WriteRequest, written: PythonRows) -> WriteRequest:
    """Return the request with the names under which PyFlink registers states."""
    named_states = request.named_states
    drop = tuple(PREFIX + name if name in written.others else name for name in request.drop)
    return replace(
        request, drop=drop, state=request.state if named_states is None else join_names(written.names(named_states))
    )


@dataclass(frozen=True)
class _Change:
    """The edit of one operator of the savepoint at the path. ``existing`` is that operator before, if there is one."""

    request: WriteRequest
    schema: pa.Schema
    savepoint: SavepointPlan
    existing: OperatorPlan | None
    layout: Distribution | None
    python: PythonRows | None

    # -- what exists -----------------------------------------------------------------------------------------

    @cached_property
    def opened(self) -> OpenOperator | None:
        """The existing operator with its headers."""
        return _opened(self.existing)

    @cached_property
    def parts(self) -> tuple[StatePart, ...]:
        """The parts of the existing operator that the write can touch."""
        if self.opened is None:
            return ()
        if self.request.replaces_operator:
            return (*_keyed_parts(self.opened), *_operator_parts(self.opened), *_other_parts(self.opened))
        return _keyed_parts(self.opened) if self.request.is_keyed else _operator_parts(self.opened)

    @property
    def label(self) -> str:
        """The operator's name for messages."""
        return self.opened.operator.label if self.opened is not None else self.request.operator

    @property
    def updated(self) -> tuple[str, ...]:
        """The states that exist into which rows are merged by key: those that an append names."""
        request = self.request
        if request.overwrite or request.state is None or request.table == TIMERS_TABLE:
            return ()
        return tuple(part.name for part in self.parts if request.writes(part))

    @property
    def replaces_raw_timers(self) -> bool:
        """Whether timers in raw keyed state are replaced, which takes all of that state."""
        return any(part.raw and self.request.replaces(part) for part in self.parts)

    @property
    def keeps_subtasks(self) -> bool:
        """Whether state that stays fixes the subtasks of the written state."""
        if self.existing is None or self.existing.base is None or self.request.replaces_operator:
            return False
        return any(True for one in self.existing.base.operator.subtasks.values() for _ in one.handles)

    # -- the edit --------------------------------------------------------------------------------------------

    @cached_property
    def before(self) -> OperatorPlan:
        """The operator without what the rows replace."""
        request, existing = self.request, self.existing
        if existing is None:
            identifier = OperatorIdentifier(request.operator_id, request.uid)
            return self.savepoint.new_operator(identifier, request.operator_name)
        if request.replaces_operator:
            new = self.savepoint.new_operator(existing.identifier, existing.name)
            return replace(new, default_max_parallelism=existing.max_parallelism)
        plan, opened = with_states(existing), self.opened
        assert opened is not None
        of_files = opened.keyed.metas()
        stay = [
            state
            for state in plan.states or ()
            if (state.kind == OPERATOR or (state.origin, state.kind == TIMERS) in of_files)
            and not request.replaces(_part_of(state))
        ]
        # Timers in raw keyed state stay in it, unless the write replaces all of that.
        return replace(plan, states=States(stay), raw_timers=False)

    @cached_property
    def operator(self) -> OperatorPlan:
        """The operator with the rows."""
        try:
            types = self._types() if self.request.type_source is None else None
            rows = RowsOfTasks(self.schema, self.layout is not None)
            request = self._keeping()
            before = with_numbers(self.before, request)
            # Only what PyFlink registered says how it pickles values.
            table = AddedTable.of(before, rows, request, types, added=types is not None and self.python is None)
            if isinstance(table.rows.descriptor, KeyedDescriptor):
                self.refuse_other_names(table.rows.descriptor)
            if not self.updated:
                self.refuse_other_tables(before, table)
            return table.added_to(before, updates=bool(self.updated))
        except SavepointError as error:
            raise error.with_facts(path=self.request.path) from None

    def _types(self) -> OperatorTypes | None:
        """Return the key, and the states of the table, as the operator has registered them; None for a new one."""
        if self.opened is None:
            return None
        path = self.request.path
        if not self.request.is_keyed:
            metas = {meta.name: meta for meta in self.opened.operator_states}
            return OperatorTypes(self.opened.operator.label, path, operator_states=metas)
        types = OperatorTypes.of(self.opened.keyed, path=path)
        states = {name: meta for name, meta in types.states.items() if _keyed_part(meta).table == self.request.table}
        return replace(types, states=states)

    def _keeping(self) -> WriteRequest:
        """Return the rows with the kinds and times to live of states that exist, unless options change them."""
        request, types = self._numbered(), self._types()
        if types is None:
            return request
        if not request.is_keyed:
            state = types.operator_states.get(request.state or "")
            return replace(request, kind=request.kind or (state.state_type.lower() if state is not None else None))
        headers = self.opened.keyed.headers if self.opened is not None else ()
        if headers and request.compression is None:
            request = replace(request, compression="snappy" if headers[0].compressed else "none")
        keys = request.key or (KEY,)
        names = {name: state_of_column(name, types.states) for name in self.schema.names if name not in keys}
        return keeping(request, {column: types.states[name] for column, name in names.items() if name in types.states})

    def _numbered(self) -> WriteRequest:
        """Return the request with the numbers of ``key_by`` and of an operator that has no state to keep."""
        request, existing = self.request, self.existing
        if self.keeps_subtasks:
            return request
        max_parallelism, parallelism = request.max_parallelism, request.parallelism
        if self.layout is not None and request.is_keyed:
            max_parallelism = max_parallelism or self.layout.max_parallelism
            same = max_parallelism == self.layout.max_parallelism
            parallelism = parallelism or (self.layout.parallelism if same else None)
        if existing is not None and existing.base is not None:
            max_parallelism = max_parallelism or existing.max_parallelism
            parallelism = parallelism or min(existing.base.operator.parallelism, max_parallelism)
        if parallelism is not None:
            check_parallelism(max_parallelism or self.before.max_parallelism, parallelism)
        return replace(request, max_parallelism=max_parallelism, parallelism=parallelism)

    @property
    def descriptor(self) -> KeyedDescriptor | OperatorStateDescriptor:
        """The states that the rows are."""
        descriptor = self.operator.inputs[-1].descriptor
        assert not isinstance(descriptor, tuple)
        return descriptor

    @property
    def metas(self) -> list[StateMetaInfoSnapshot]:
        """The registrations of the states that the rows are."""
        number = len(self.operator.inputs) - 1
        return [state.meta for state in self.operator.states or () if number in state.inputs]

    @cached_property
    def kept(self) -> list[PlannedState]:
        """The keyed states in state files that stay beside the written ones."""
        if self.opened is None or self.request.replaces_operator or not self.request.is_keyed:
            return []
        of_files = self.opened.keyed.metas()
        planned = self.operator.of_kind(KEYED, TIMERS)
        return [state for state in planned if not state.inputs and (state.origin, state.kind == TIMERS) in of_files]

    def plan(self, staging: Staging, seen: str | None, existed: bool, version: int) -> WritePlan:
        """Return the plan that tasks and commit carry out."""
        request, operator = self.operator.inputs[-1].spec, self.operator
        base = self.existing.base if self.existing is not None else None
        assert isinstance(request, WriteRequest)
        notes: tuple[str, ...] = ()
        descriptor = self.descriptor
        if isinstance(descriptor, KeyedDescriptor):
            self.refuse_loss(descriptor)
            notes = self.notes_of_timers(descriptor)
        parallelism = base.operator.parallelism if self.keeps_subtasks and base is not None else request.parallelism
        if not request.is_keyed:
            # Operator state is redistributed at every other parallelism: one subtask is enough for rows of no subtask.
            parallelism = parallelism or 1
        check_parallelism(operator.max_parallelism, parallelism or 1)
        plan = WritePlan(
            request=request,
            operator_id=operator.identifier.operator_id,
            staging=staging,
            seen=seen,
            existed=existed,
            metadata_version=version,
            max_parallelism=operator.max_parallelism,
            parallelism=parallelism,
            schema=self.schema,
            descriptor=descriptor,
            kept=tuple((state.origin, state.kind == TIMERS) for state in self.kept),
            kept_metas=tuple(state.meta for state in self.kept),
            replaces_raw_timers=self.replaces_raw_timers,
            clustered=self.layout == Distribution(operator.max_parallelism, parallelism or 0),
            python=self.python,
            notes=notes,
            updates=bool(self.updated),
        )
        return self._laid_over(plan) if self.updated and request.is_keyed else plan

    def _laid_over(self, plan: WritePlan) -> WritePlan:
        """Return the plan of rows that are merged by key with the entries of states that exist."""
        rows = merged_rows(self.operator)
        assert rows is not None
        request = self.request
        base = replace(rows.base.request(), classes=request.job_classes if request.serializers is not None else None)
        changed = replace(
            plan.request,
            table=rows.spec.table,
            state=None,
            compression=rows.spec.compression,
            entry_columns=rows.spec.entry_columns,
            updated=rows.spec.updated,
            header=rows.header,
            bases=(base,),
        )
        return replace(plan, request=changed, descriptor=rows.descriptor, kept=(), kept_metas=())

    def rewritten_for(self, release: Release) -> frozenset[OperatorID]:
        """Return the operators whose operator state must be rewritten for a release, which they stay in.

        Raises:
            UnsupportedVersionError: If the release could not read the savepoint, or keyed state of another operator
                would have to be rewritten: only ``Savepoint.write`` does that.

        """
        from pyspark_savepoint.write.target_release import fits

        changed = self.savepoint
        changed = (
            changed.with_new(self.operator)
            if self.existing is None
            else changed.with_changed(self.existing, self.operator)
        )
        problems, rewritten = [], set()
        for operator, fit in fits(changed, release, copied=False):
            mine = operator.identifier == self.operator.identifier
            problems += [(operator.label, problem) for problem in fit.problems]
            if fit.keyed_state:
                remedy = "Savepoint.load(spark, path).write(new_path, flink_version=...) rewrites them"
                problems.append((operator.label, Misfit("keyed state", f"{fit.keyed_state}; {remedy}")))
            if fit.operator_state and (self.request.is_keyed or not mine):
                rewritten.add(operator.identifier.operator_id)
        refuse_misfits(problems, release.version, self.request.path)
        return frozenset(rewritten)

    # -- what is refused -------------------------------------------------------------------------------------

    def refuse_what_exists(self) -> None:
        """Raise StateExistsError if append would replace state, or add timers to those in raw keyed state."""
        request = self.request
        if self.opened is None or request.overwrite:
            return
        if self.updated and request.table == OPERATOR_STATE:
            expect_keys(next(meta for meta in self.opened.operator_states if meta.name == request.state), self.label)
        replaced = [part for part in self.parts if request.writes(part) or (part.raw and request.table == TIMERS_TABLE)]
        if replaced and not self.updated:
            whole = request.table == KEYED_STATE and request.state is None
            updates = (
                f"option('state', {replaced[0].name!r}) merges rows by key into this state, and other keys keep it"
            )
            raise StateExistsError(
                "the savepoint has this state already",
                path=request.path,
                operator=self.label,
                found=f"{request.table}: {_some(part.name for part in replaced)}",
                remedy=("" if request.table == TIMERS_TABLE else f"{updates}; ")
                + "mode('overwrite') replaces "
                + ("the whole operator" if whole else "it and leaves the operator's other state")
                + ": keys without a row are gone",
            )

    def refuse_other_names(self, descriptor: KeyedDescriptor) -> None:
        """Raise an error if option ``state`` is set and names other states than the columns."""
        named_states = self.request.named_states
        written = [state.name for state in descriptor.states]
        if named_states is not None and set(named_states) != set(written):
            raise OptionError(
                "the columns differ from the states that option 'state' names",
                expected=_some(named_states),
                found=_some(written),
                remedy="select the key and these states, or leave the option out",
            )

    def refuse_other_tables(self, before: OperatorPlan, table: AddedTable) -> None:
        """Raise StateExistsError for a state whose name another table of the operator has."""
        taken = {(state.name, state.kind) for state in before.states or ()}
        for state in table.states:
            if (state.name, state.kind) in taken:
                raise StateExistsError(
                    "the operator has a state with this name in another table",
                    operator=self.label,
                    state=state.name,
                    remedy="give the column another name",
                )

    def refuse_loss(self, descriptor: KeyedDescriptor) -> None:
        """Raise an error if an overwrite drops state that is neither rewritten nor named in option ``drop``."""
        request = self.request
        if not request.overwrite:
            if request.drop:
                raise OptionError("option 'drop' needs mode 'overwrite': append removes nothing")
            return
        replaced = [part for part in self.parts if request.replaces(part)]
        written = {_user_name(state.name, state.kind is StateKind.TIMER) for state in descriptor.states}
        lost = [part for part in replaced if not (part.table == request.table and part.name in written)]
        names = list(dict.fromkeys(part.name for part in replaced))
        unknown = [name for name in request.drop if name not in ("*", *names)]
        if unknown:
            raise OptionError(
                f"option 'drop' names {unknown[0]!r}, which this write does not remove",
                path=request.path,
                remedy=did_you_mean(unknown[0], list(dict.fromkeys(part.name for part in lost))),
            )
        self.refuse_loss_of_raw_timers(written)
        left = list(dict.fromkeys(part.name for part in lost if part.name not in request.drop))
        if left and "*" not in request.drop:
            kept = ", ".join(sorted(written))
            what = "the operator" if request.replaces_operator else request.table
            in_place = request.replaces_operator or not any(part.raw for part in lost)
            raise StateExistsError(
                f"overwriting {what} would remove state for which there are no rows",
                path=request.path,
                operator=request.operator,
                found=_some(left),
                remedy=f"option('drop', {','.join(left[:10])!r}) drops it, option('drop', '*') all"
                + (f"; option('state', {kept!r}) replaces what is written and keeps the rest" if in_place else ""),
            )

    def notes_of_timers(self, descriptor: KeyedDescriptor) -> tuple[str, ...]:
        """Return what the operator lacks until its timers are written too.

        Raise an error if it would have states without others that Flink needs with them, which are of the same table.
        """
        before = None
        if self.opened is not None:
            known = [metas[0] for metas in self.opened.keyed.metas().values()]
            before = _registered_names(known, [queue.service for queue in self.opened.raw_queues()])
        kept = [part.name for part in self.parts if part.raw and not self.request.replaces(part)]
        now = _registered_names(
            [*(one.meta for one in self.kept), *(one.meta_info() for one in descriptor.states)], kept
        )
        halves = now.halves(before)
        refuse_halves([half for half in halves if not half.timers], self.request.operator)
        refuse_unnamed_sessions(descriptor, now, _sessions(self.request, self.schema), self.request.operator)
        return tuple(
            f"{self.request.operator}: {half}; append table 'timers' with service {half.missing[0]!r}"
            for half in halves
            if half.timers
        )

    def refuse_loss_of_raw_timers(self, written: Collection[str]) -> None:
        """Raise an error if some timers of raw keyed state are replaced, and others would have to stay in it."""
        others = [part.name for part in self.parts if part.raw and not self.request.replaces(part)]
        if self.replaces_raw_timers and others:
            raise UnsupportedStateError(
                "the timers of this operator are raw keyed state, which is replaced as a whole: those of one service "
                "cannot be replaced beside others",
                path=self.request.path,
                operator=self.request.operator,
                found=f"timers of {_some(dict.fromkeys(others))} beside {_some(sorted(written))}",
                remedy="leave option 'state' out and write the timers of all services, or write a changed copy: "
                "Savepoint.load(spark, path).with_timers(...).write(new_path)",
            )


def _keyed_parts(opened: OpenOperator) -> tuple[StatePart, ...]:
    """Return the keyed states of an operator, and the timer services, also those in raw keyed state."""
    parts = [_keyed_part(metas[0]) for metas in opened.keyed.metas().values()]
    parts += [StatePart(TIMERS_TABLE, queue.service, raw=True) for queue in opened.raw_queues()]
    return tuple(dict.fromkeys(parts))


def _operator_parts(opened: OpenOperator) -> tuple[StatePart, ...]:
    return tuple(StatePart(OPERATOR_STATE, name) for name in opened.operator_state_names)


def _other_parts(opened: OpenOperator) -> tuple[StatePart, ...]:
    """Return the parts of an operator that no DataFrame has the rows of."""
    operator = opened.operator
    subtasks = operator.subtasks.values()
    present = {
        RAW_KEYED_STATE: not opened.raw_timers and any(subtask.raw_keyed_state for subtask in subtasks),
        RAW_OPERATOR_STATE: any(subtask.raw_operator_state for subtask in subtasks),
        COORDINATOR_STATE: operator.coordinator_state is not None,
        IN_FLIGHT: has_channel_state(operator),
    }
    return tuple(StatePart(name, name) for name, is_present in present.items() if is_present)


def _part_of(state: PlannedState) -> StatePart:
    """Return the part of the operator's state that a planned state is."""
    if state.kind == OPERATOR:
        return StatePart(OPERATOR_STATE, state.name)
    return _keyed_part(state.meta)


def _keyed_part(meta: StateMetaInfoSnapshot) -> StatePart:
    """Return the part of the operator's state that a registration of keyed state belongs to."""
    if not is_key_value(meta):
        return StatePart(TIMERS_TABLE, service_of(meta.name)[1])
    return StatePart(WINDOW_STATE if is_namespaced(meta) else KEYED_STATE, meta.name)


def _user_name(name: str, timer: bool) -> str:
    """Return a state's name; for timers that of their service."""
    return service_of(name)[1] if timer else name


def _sessions(request: WriteRequest, schema: pa.Schema) -> frozenset[str]:
    """Return the states that name sessions in the operator whose windows are written, as far as it is known."""
    if request.table != WINDOW_STATE:
        return frozenset()
    types = OperatorTypes.named_by(request)
    known = {name for name in (types.states if types is not None else ()) if name.removeprefix(PREFIX) in MERGING}
    return frozenset(known | set(MERGING if has_sessions(schema) else ()))


def _registered_names(metas: Iterable[StateMetaInfoSnapshot], services: Iterable[str]) -> Registered:
    """Return the names of registrations, and of timer services in raw keyed state."""
    listed = list(metas)
    timers = [meta.name for meta in listed if not is_key_value(meta)]
    return Registered.of((meta for meta in listed if is_key_value(meta)), [*timers, *services])


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 10} more" if len(listed) > 10 else ""
    return ", ".join(repr(name) for name in listed[:10]) + more
