"""Decision of a write on the driver: the operator, which of its state is kept, and the form of the bytes.

Everything that can be rejected is rejected here, before a task runs: existing state, an operator that does not allow
the change, types that Flink does not accept. The plan pickles; tasks and commit need nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, StateExistsError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.flink_releases import first_with_metadata, release_of
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState, SnapshotKind
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.changes import has_channel_state, has_key_groups, target_version
from pyspark_savepoint.formats.snapshot.publication import Staging, fingerprint
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.write_folder import folder_of
from pyspark_savepoint.statebackends.model.descriptors import (
    KeyedDescriptor,
    OperatorStateDescriptor,
    StateKind,
    service_of,
)
from pyspark_savepoint.statebackends.model.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.model.state_sets import Registered, refuse_halves, refuse_unnamed_sessions
from pyspark_savepoint.statebackends.model.unify import united
from pyspark_savepoint.statebackends.python.python_rows import PythonRows
from pyspark_savepoint.statebackends.python.python_state import PREFIX, is_python_operator
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders, is_key_value, is_namespaced
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.session_windows import MERGING, has_sessions
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY
from pyspark_savepoint.statebackends.writing.planning.describe_state import (
    describe_keyed,
    describe_operator_state,
    described_entries,
    entry_columns,
)
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from pyspark_savepoint.statebackends.writing.planning.kept_states import (
    expect_keys,
    expect_same_state,
    keeping,
    refuse_other_case,
    state_of_column,
    usual_max_parallelism,
)
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes, expect_same_key
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, WritePlan
from pyspark_savepoint.statebackends.writing.planning.release_fit import expect_one_kryo, fitted
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    COORDINATOR_STATE,
    ELEMENTS,
    ENTRIES,
    IN_FLIGHT,
    KEYED_STATE,
    OPERATOR_STATE,
    RAW_KEYED_STATE,
    RAW_OPERATOR_STATE,
    TIMERS,
    WINDOW_STATE,
    StatePart,
    WriteRequest,
)

#: Tables whose columns are states.
STATE_TABLES = (KEYED_STATE, WINDOW_STATE)

__all__ = ["Distribution", "WritePlan", "plan_write"]


def plan_write(request: WriteRequest, schema: pa.Schema, layout: Distribution | None = None) -> WritePlan:
    """Plan a write; ``layout`` is the result of ``key_by``. Errors describe why the write is not possible."""
    token, _, part = (request.fragment or "").partition("/")
    staging = Staging.at(request.path, token or None, part)
    # A fragment belongs to a write whose folder was looked at before.
    existed, found = (True, None) if request.fragment else folder_of(staging)
    published = None if found is None else found.data
    staging = replace(staging, version=() if found is None else found.version)
    base = None if published is None else _opened(request, staging, published)
    if base is not None:
        refuse_checkpoint(base)
    request, existing = _resolve(request, base)
    opened = None if base is None or existing is None else OpenOperator(base, existing)
    written = _python(request, schema, opened)
    if written is not None:
        request, schema = _registered(request, written), written.schema(schema)
    current = _Existing.of(opened, request)
    current.refuse_what_is_there()
    request = current.keeping(request, schema)
    usual = usual_max_parallelism(base.operators if base is not None else ())
    max_parallelism, parallelism = _numbers(request, current, layout, usual)
    version = target_version([base.metadata] if base is not None else [], request.flink_version)
    release = release_of(request.flink_version) if request.flink_version is not None else None
    chosen = request.flink_version is not None or base is not None
    since = request.flink_version or first_with_metadata(version).version
    request = replace(request, flink_version=since)
    descriptor = _describe(request, schema, current, written is not None)
    notes: tuple[str, ...] = ()
    if isinstance(descriptor, KeyedDescriptor):
        current.refuse_other_names(descriptor)
        current.refuse_other_case(state.name for state in descriptor.states)
        current.refuse_loss(descriptor)
        notes = current.notes_of_timers(descriptor, _sessions(request, schema))
    plan = WritePlan(
        request=request,
        operator_id=existing.operator_id if existing is not None else request.operator_id,
        staging=staging,
        seen=fingerprint(published),
        existed=existed,
        metadata_version=version,
        max_parallelism=max_parallelism,
        parallelism=parallelism,
        schema=schema,
        descriptor=descriptor,
        kept=current.kept,
        kept_metas=current.kept_metas,
        replaces_raw_timers=current.replaces_raw_timers,
        clustered=layout == Distribution(max_parallelism, parallelism or 0),
        python=written,
        notes=notes,
        updates=bool(current.updated),
    )
    if current.updated and isinstance(descriptor, KeyedDescriptor):
        plan = updating(plan, descriptor, opened)
    if not chosen:
        remedy = "option('flinkVersion', '2.3') or '1.20': that of the job which restores the savepoint"
        expect_one_kryo(_serializers(plan), plan.request.path, plan.request.operator, remedy)
    if request.is_keyed:
        current.refuse_misfits(plan.header())
    check_parallelism(max_parallelism, parallelism or 1)
    # Fragments are checked by the fluent API, all of a write together.
    plan = plan if release is None or request.fragment else fitted(plan, base, current.opened, release)
    return plan.with_near_files()


def updating(plan: WritePlan, descriptor: KeyedDescriptor, opened: OpenOperator | None) -> WritePlan:
    """Return the plan of rows that are merged by key with the entries of states that exist."""
    assert opened is not None
    existing = KeyedStates.of(opened, ())
    assert existing.key_serializer is not None
    label = opened.operator.label
    metas, updated = dict(existing.metas), []
    for state in descriptor.states:
        meta = metas.setdefault((state.name, False), state.meta_info())
        if meta is existing.metas.get((state.name, False)):
            expect_keys(meta, label)
            expect_same_state(state.meta_info(), meta, label)
            updated.append(state.name)
    numbers = {name: number for number, (name, is_timer) in enumerate(metas) if not is_timer}
    of_maps = any(metas[name, False].state_type == "MAP" for name in updated)
    wanted = EntriesRequest(
        tuple(name if name in existing.metas else None for name in metas),
        keys=of_maps,
        digest=opened.savepoint.digest.hex(),
    )
    base = TableRequest(
        plan.request.path,
        uid_hash=opened.operator.operator_id.hex,
        entries=wanted,
        classes=plan.request.job_classes if plan.request.serializers is not None else None,
    )
    request = replace(
        plan.request,
        table=ENTRIES,
        state=None,
        header=KeyedBackendHeader(existing.compressed, existing.key_serializer, tuple(metas.values())),
        compression="snappy" if existing.compressed else "none",
        entry_columns=entry_columns(descriptor, numbers),
        updated=tuple(numbers[name] for name in updated),
        bases=(base,),
    )
    return replace(plan, request=request, kept=(), kept_metas=())


def _serializers(plan: WritePlan) -> list[TypeSerializer]:
    """Return the serializers of the rows that are written; none for entries and elements, which have a header."""
    if isinstance(plan.descriptor, KeyedDescriptor):
        return [plan.descriptor.key_serializer, *(state.serializer for state in plan.descriptor.states)]
    return [] if plan.descriptor is None else list(plan.descriptor.meta_info().serializers.values())


def _python(request: WriteRequest, schema: pa.Schema, existing: OpenOperator | None) -> PythonRows | None:
    """Return the conversion of rows for the PyFlink operator at the path or in ``typesFrom``; None for others."""
    if not request.is_keyed or request.table == ENTRIES or len(request.key) > 1:
        return None
    opened = OperatorTypes.opened_by(request) if request.type_source is not None else existing
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


def _registered(request: WriteRequest, written: PythonRows) -> WriteRequest:
    """Return the request with the names under which PyFlink registers states."""
    named = request.named_states
    drop = tuple(PREFIX + name if name in written.others else name for name in request.drop)
    return replace(request, drop=drop, state=request.state if named is None else ",".join(written.names(named)))


def _describe(
    request: WriteRequest, schema: pa.Schema, existing: _Existing, is_python: bool
) -> KeyedDescriptor | OperatorStateDescriptor | None:
    if request.entry_columns and isinstance(request.header, KeyedBackendHeader):
        return described_entries(request, request.header)
    if request.table in (ENTRIES, ELEMENTS):
        return None
    types = existing.types if request.type_source is None else None
    if request.is_keyed:
        # Only what PyFlink registered says how it pickles values.
        return describe_keyed(schema, request, existing.headers, types, added=types is not None and not is_python)
    existing.refuse_other_case((request.state or "",))
    return describe_operator_state(schema, request, types, added=types is not None)


def _opened(request: WriteRequest, staging: Staging, published: bytes) -> Snapshot:
    options = StoragePath.options_of(request.path)
    return Snapshot.of_bytes(staging.filesystem, staging.directory, published, options)


def refuse_checkpoint(base: Snapshot) -> None:
    """Raise OptionError for a checkpoint, which belongs to its job."""
    if base.kind is SnapshotKind.CHECKPOINT:
        raise OptionError(
            "a checkpoint belongs to its job and cannot be written to",
            path=base.path,
            remedy="write a changed copy of it: Savepoint.load(spark, path).with_operator(...).write(new_path)",
        )


def _resolve(request: WriteRequest, base: Snapshot | None) -> tuple[WriteRequest, OperatorState | None]:
    """Return the request with the operator's uid or hash, and the existing operator, if any."""
    if request.uid is None and request.uid_hash is None:
        if base is None:
            raise OptionError(
                "the uid of the new operator is missing",
                operator=f"name {request.operator_name!r}",
                remedy="set option 'uid' to the uid that the job gives it",
            )
        named = base.operator(name=request.operator_name)
        return replace(request, uid=named.uid, uid_hash=None if named.uid else named.operator_id.hex), named
    if base is None:
        return request, None
    for operator in base.operators:
        if operator.operator_id == request.operator_id or (request.uid is not None and operator.uid == request.uid):
            return request, operator
    return request, None


def _numbers(
    request: WriteRequest, existing: _Existing, layout: Distribution | None, usual: int
) -> tuple[int, int | None]:
    """Return max parallelism and parallelism: requested, laid out, existing, or the usual ones of the savepoint."""
    max_parallelism, parallelism = request.max_parallelism, request.parallelism
    operator = existing.operator
    if existing.binds and operator is not None:
        existing.check(max_parallelism, parallelism)
        # Without state by key group, there are no key groups to preserve.
        chosen = operator.max_parallelism if existing.binds_key_groups or max_parallelism is None else max_parallelism
        return chosen, operator.parallelism
    if layout is not None and request.is_keyed:
        max_parallelism = max_parallelism or layout.max_parallelism
        parallelism = parallelism or (layout.parallelism if max_parallelism == layout.max_parallelism else None)
    if operator is not None:
        max_parallelism = max_parallelism or operator.max_parallelism
        parallelism = parallelism or min(operator.parallelism, max_parallelism)
    max_parallelism = max_parallelism or usual
    if parallelism is not None:
        check_parallelism(max_parallelism, parallelism)
    # Operator state is redistributed at every other parallelism, so one subtask is enough for rows of no subtask.
    return max_parallelism, parallelism if request.is_keyed or request.table == ELEMENTS else parallelism or 1


# -- existing state -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Existing:
    """The existing operator, if any, and which of its state is kept. ``parts`` are those that the write can touch."""

    request: WriteRequest
    opened: OpenOperator | None = None
    headers: OperatorHeaders | None = None
    parts: tuple[StatePart, ...] = ()
    operator_states: Mapping[str, StateMetaInfoSnapshot] = field(default_factory=dict)

    @classmethod
    def of(cls, opened: OpenOperator | None, request: WriteRequest) -> _Existing:
        if opened is None:
            return cls(request)
        if request.replaces_operator:
            parts = (*_keyed_parts(opened), *_operator_parts(opened), *_other_parts(opened))
            return cls(request, opened, parts=parts)
        if not request.is_keyed:
            named = {meta.name: meta for meta in opened.operator_states}
            return cls(request, opened, parts=_operator_parts(opened), operator_states=named)
        key_state = opened.keyed if opened.keyed.headers else None
        return cls(request, opened, key_state, _keyed_parts(opened))

    @property
    def operator(self) -> OperatorState | None:
        """Return the existing operator."""
        return self.opened.operator if self.opened is not None else None

    @property
    def keyed(self) -> tuple[tuple[str, bool], ...]:
        """Return the keyed states in state files, as (name, is a timer); none if the whole operator is replaced."""
        return tuple(self.headers.metas()) if self.headers is not None else ()

    @property
    def written(self) -> tuple[tuple[str, bool], ...]:
        """Return the keyed states that the write has the rows of."""
        if self.headers is None:
            return ()
        metas = self.headers.metas()
        return tuple(state for state in self.keyed if self.request.writes(_part_of(metas[state][0])))

    @property
    def kept(self) -> tuple[tuple[str, bool], ...]:
        """Return the keyed states that are kept in addition to the written ones."""
        written = frozenset(self.written)
        return tuple(state for state in self.keyed if state not in written)

    @property
    def kept_metas(self) -> tuple[StateMetaInfoSnapshot, ...]:
        """Return the registrations of the kept states."""
        if self.headers is None:
            return ()
        metas = self.headers.metas()
        return tuple(metas[state][0] for state in self.kept)

    @property
    def replaces_raw_timers(self) -> bool:
        """Return whether timers in raw keyed state are replaced, which takes all of that state."""
        return any(part.raw and self.request.replaces(part) for part in self.parts)

    @property
    def binds(self) -> bool:
        """Return whether kept state fixes the key groups or subtasks of the written state."""
        if self.operator is None or self.request.replaces_operator:
            return False
        return any(True for subtask in self.operator.subtasks.values() for _ in subtask.handles)

    @property
    def binds_key_groups(self) -> bool:
        """Return whether the existing operator has state by key group, which the write does not replace as a whole."""
        if self.operator is None or not self.binds:
            return False
        return bool(self.keyed) or not self.request.is_keyed or has_key_groups(self.operator)

    def refuse_what_is_there(self) -> None:
        """Raise StateExistsError if append would replace state, or add timers to those in raw keyed state."""
        request = self.request
        if self.operator is None or request.overwrite:
            return
        if self.updated and request.table == OPERATOR_STATE:
            expect_keys(self.operator_states[self.updated[0]], self.operator.label)
        replaced = [part for part in self.parts if request.writes(part) or (part.raw and request.table == TIMERS)]
        if replaced and not self.updated:
            whole = request.table == KEYED_STATE and request.state is None
            updates = (
                f"option('state', {replaced[0].name!r}) merges rows by key into this state, and other keys keep it"
            )
            raise StateExistsError(
                "the savepoint has this state already",
                path=request.path,
                operator=self.operator.label,
                found=f"{request.table}: {_some(part.name for part in replaced)}",
                remedy=("" if request.table == TIMERS else f"{updates}; ")
                + "mode('overwrite') replaces "
                + ("the whole operator" if whole else "it and leaves the operator's other state")
                + ": keys without a row are gone",
            )

    @property
    def updated(self) -> tuple[str, ...]:
        """Return the states that exist into which rows are merged by key: those that an append names."""
        request = self.request
        if request.overwrite or request.state is None or request.table not in (*STATE_TABLES, OPERATOR_STATE):
            return ()
        return tuple(part.name for part in self.parts if request.writes(part))

    @cached_property
    def types(self) -> OperatorTypes | None:
        """The key, and the states of the table, as the operator has registered them; None for a new operator."""
        if self.opened is None:
            return None
        if not self.request.is_keyed:
            return OperatorTypes(self.opened.operator.label, self.request.path, operator_states=self.operator_states)
        types = OperatorTypes.of(self.opened.keyed, path=self.request.path)
        states = {name: meta for name, meta in types.states.items() if _part_of(meta).table == self.request.table}
        return replace(types, states=states)

    def keeping(self, request: WriteRequest, schema: pa.Schema) -> WriteRequest:
        """Return the request with the kinds and times to live of states that exist, unless options change them."""
        if not request.is_keyed:
            state = self.operator_states.get(request.state or "")
            return replace(request, kind=request.kind or (state.state_type.lower() if state is not None else None))
        if self.types is None or self.opened is None:
            return request
        states, keys = self.types.states, request.key or (KEY,)
        names = {column: state_of_column(column, states) for column in schema.names if column not in keys}
        headers = self.opened.keyed.headers
        if headers and request.compression is None:
            request = replace(request, compression="snappy" if headers[0].compressed else "none")
        return keeping(request, {column: states[name] for column, name in names.items() if name in states})

    def refuse_other_case(self, names: Iterable[str]) -> None:
        """Raise OptionError for a new state whose name is that of another one in upper and lower case alone."""
        if self.types is not None and not self.request.replaces_operator:
            refuse_other_case(names, {**self.types.states, **self.types.operator_states}, self.types.label)

    def refuse_other_names(self, descriptor: KeyedDescriptor) -> None:
        """Raise an error if option ``state`` is set and names other states than the columns."""
        named = self.request.named_states
        written = [state.name for state in descriptor.states]
        if named is not None and set(named) != set(written):
            raise OptionError(
                "the columns differ from the states that option 'state' names",
                expected=_some(named),
                found=_some(written),
                remedy="select the key and these states, or leave the option out",
            )

    def refuse_loss(self, descriptor: KeyedDescriptor) -> None:
        """Raise an error if an overwrite drops state that is neither rewritten nor named in option ``drop``."""
        request = self.request
        if not request.overwrite:
            if request.drop:
                raise OptionError("option 'drop' needs mode 'overwrite': append removes nothing")
            return
        replaced = [part for part in self.parts if request.replaces(part)]
        written = {_shown_name(state.name, state.kind is StateKind.TIMER) for state in descriptor.states}
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

    def notes_of_timers(self, descriptor: KeyedDescriptor, sessions: Collection[str]) -> tuple[str, ...]:
        """Return what the operator lacks until its timers are written too.

        Raise an error if it would have states without others that Flink needs with them, which are of the same table.
        ``sessions`` are states that name sessions, in the operator whose windows are written.
        """
        if self.request.fragment or self.request.table in (ENTRIES, ELEMENTS):
            return ()  # the fluent API looks at all of a write together
        before = None
        if self.opened is not None:
            known = [metas[0] for metas in self.opened.keyed.metas().values()]
            before = _registered_names(known, [queue.service for queue in self.opened.raw_queues()])
        kept = [part.name for part in self.parts if part.raw and not self.request.replaces(part)]
        now = _registered_names([*self.kept_metas, *(state.meta_info() for state in descriptor.states)], kept)
        halves = now.halves(before)
        refuse_halves([half for half in halves if not half.timers], self.request.operator)
        refuse_unnamed_sessions(descriptor, now, sessions, self.request.operator)
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

    def check(self, max_parallelism: int | None, parallelism: int | None) -> None:
        """Raise OptionError if the requested parallelisms differ from those of kept state."""
        assert self.operator is not None
        numbers = {"maxParallelism": self.operator.max_parallelism, "parallelism": self.operator.parallelism}
        wanted = {"maxParallelism": max_parallelism if self.binds_key_groups else None, "parallelism": parallelism}
        for name, number in wanted.items():
            if number is not None and number != numbers[name]:
                raise OptionError(
                    f"option '{name}' differs from that of the operator, which has other state",
                    path=self.request.path,
                    operator=self.operator.label,
                    expected=numbers[name],
                    found=number,
                    remedy="leave the option out, or change the operator first "
                    "(Savepoint.load(...).with_max_parallelism(...).write(...))",
                )

    def refuse_misfits(self, header: KeyedBackendHeader) -> None:
        """Raise an error unless written and kept states, which share a file, have equal keys and distinct names."""
        if self.headers is None or not self.kept:
            return
        label = self.operator.label if self.operator is not None else None
        keys = self.headers.key_serializers
        expect_same_key(header.key_serializer, united(keys) or keys[0], label)
        names = [(meta.name, not is_key_value(meta)) for meta in header.states]
        twice = sorted(name for (name, _), count in Counter(names).items() if count > 1)
        if twice:
            raise StateExistsError(
                "the operator has a state with this name in another table",
                path=self.request.path,
                operator=label,
                state=twice[0],
                remedy="give the column another name",
            )


def _keyed_parts(opened: OpenOperator) -> tuple[StatePart, ...]:
    """Return the keyed states of an operator, and the timer services, also those in raw keyed state."""
    parts = [_part_of(metas[0]) for metas in opened.keyed.metas().values()]
    parts += [StatePart(TIMERS, queue.service, raw=True) for queue in opened.raw_queues()]
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


def _part_of(meta: StateMetaInfoSnapshot) -> StatePart:
    """Return the part of the operator's state that a registration of keyed state belongs to."""
    if not is_key_value(meta):
        return StatePart(TIMERS, _shown_name(meta.name, True))
    return StatePart(WINDOW_STATE if is_namespaced(meta) else KEYED_STATE, meta.name)


def _shown_name(name: str, timer: bool) -> str:
    """Return a state's name; for timers that of their service."""
    return service_of(name)[1] if timer else name


def _sessions(request: WriteRequest, schema: pa.Schema) -> frozenset[str]:
    """Return the states that name sessions in the operator whose windows are written, as far as it is known."""
    if request.table != WINDOW_STATE or request.fragment:
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
