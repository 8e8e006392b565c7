"""Operators of a savepoint as another plan of its SQL job has them: their ids, and the states that change.

What needs no change stays in the files of the base, byte for byte. A state that changes is read as a table, rewritten
batch by batch (``statebackends.evolution.rewriting``), and added to the operator in the place of the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import struct_array
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.plan.backfills import BackfillInput, with_own_names
from pyspark_savepoint.plan.engine import Engine, Rows, gathered
from pyspark_savepoint.plan.joined_states import Joining
from pyspark_savepoint.plan.keyed_edits import read_options, rehashed, with_states
from pyspark_savepoint.plan.made_rows import no_rows
from pyspark_savepoint.plan.made_states import Emitting, MadeStates, planned_state
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, TIMERS, OperatorPlan, PlannedState, StateInput
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.evolution.changes import (
    Call,
    Evolution,
    FieldSource,
    OldKey,
    OperatorChange,
    StateChange,
    Verdict,
)
from pyspark_savepoint.statebackends.evolution.expected_rows import WATERMARK
from pyspark_savepoint.statebackends.evolution.histories import Slices
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import (
    EXACT,
    StateColumns,
    descriptor_of,
    key_serializer_of,
    namespace_of,
)
from pyspark_savepoint.statebackends.evolution.rewriting.emitted import Emission
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import Computed
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import (
    KEY,
    LATEST,
    LatestTime,
    OldStates,
    Order,
    RewrittenRows,
    key_values,
)
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup
from pyspark_savepoint.statebackends.evolution.rewriting.merging import MergedRows, Rekeyed, UniqueRows
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import PARTS
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows
from pyspark_savepoint.statebackends.evolution.shapes import DISTINCT, VOID_NAMESPACE
from pyspark_savepoint.statebackends.rows.descriptors import (
    NAMESPACE_COLUMN,
    NO_NAMESPACE,
    STATE_WINDOW,
    WINDOW_COLUMN,
    KeyedDescriptor,
    StateDescriptor,
    StateKind,
    timer_states,
)
from pyspark_savepoint.statebackends.rows.groups import group_numbers
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.rows.state_sets import SESSIONS_OF
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.tables.keyed_table import column_names
from pyspark_savepoint.statebackends.writing.planning.exact_casts import with_ttl
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    DEFAULT_SORT_MEMORY,
    KEYED_STATE,
    OPERATOR_STATE,
    WINDOW_STATE,
    WriteSpec,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import TIMERS as TIMERS_TABLE


@dataclass(frozen=True)
class EvolvedOperator:
    """One operator and its change; ``lookups`` and ``joining`` are what the user gave."""

    engine: Engine
    plan: OperatorPlan
    change: OperatorChange
    lookups: Mapping[tuple[str, str], Lookup]
    now: int
    joining: Joining | None = None
    #: The order of the rows of a rank.
    order: tuple[Order, ...] = ()
    #: Of windows: their slices, and the watermark of the savepoint.
    slices: Slices | None = None
    watermark: int | None = None

    def evolved(self) -> OperatorPlan:
        """Return the operator with the states of NEW, under the same identifier."""
        plan = with_states(self.plan)
        if self.change.merges and not self.change.key and self._same_key():
            return replace(self, change=replace(self.change, key=self._same_key())).evolved()
        if not plan.of_kind(KEYED):
            return plan  # the job had no row for it yet
        nothing = not any((one.old and one.new) or one.fields for one in self.change.states)
        if self.change.verdict in (Verdict.LOST, Verdict.BEGINS_EMPTY) and nothing:
            return _without_keyed(plan)
        whole = self._moves_keys
        changed = [one for one in self.change.states if one.new is not None and (whole or not _stays(one))]
        for one in self.change.states:
            if one.old_name is not None and (one in changed or one.new is None):
                plan = _without(plan, one.old_name)
        plan = self._renamed(plan) if not whole else plan
        if not changed:
            return plan
        read = self._read()
        timers = list(self._timers(plan)) if whole else []
        for service in dict.fromkeys(state.service for state in plan.of_kind(TIMERS)) if whole else ():
            plan = plan.without_state(service)
        states_input, planned = self._input(plan, changed, read)
        plan = plan.with_input(states_input, planned, replaces=False)
        for timer_input, queues in timers:
            plan = plan.with_input(timer_input, queues, replaces=False)
        return self._with_changed_timers(plan, states_input.rows)

    def _watermark(self, read: tuple[Rows, OldStates]) -> int:
        """Return the watermark of OLD, as far as the rows tell it that wait for it; 0 if none does."""
        waiting = next((one for one in self.change.states if one.waiting is not None), None)
        if waiting is None or waiting.waiting is None or waiting.old is None:
            return 0
        rows, old = read
        latest = gathered(self.engine, rows.mapped(LatestTime(old, waiting.old.name, waiting.waiting.time), LATEST))
        times = latest.column(0).to_pylist()
        return max(times) - waiting.waiting.delay if times else 0

    def _with_changed_timers(self, plan: OperatorPlan, windows: Rows) -> OperatorPlan:
        """Return the plan with timers made for windows that were made, and without those that nothing has."""
        for one in self.change.timers:
            if one.action not in ("made", "dropped"):
                continue
            if any(state.service == one.service for state in plan.of_kind(TIMERS)):
                plan = plan.without_state(one.service)
            if one.action == "made":
                states = MadeStates(self.engine, self.change, plan.max_parallelism, self.now)
                waiting = next((each for each in self.change.states if each.waiting and each.waiting.waits), None)
                if waiting is not None:
                    made, planned = states.timers_of_rows(windows, one.service, waiting)
                else:
                    made, planned = states.timers_of_windows(windows, one.service, self.slices, self.watermark)
                plan = plan.with_input(made, planned, replaces=False)
        return plan

    @property
    def _moves_keys(self) -> bool:
        """Whether the keys are others, so that everything of the operator is written anew."""
        return bool(self.change.key) or self.change.merges or any(one.key for one in self.change.states)

    def _timers(self, plan: OperatorPlan) -> Iterator[tuple[StateInput, list[PlannedState]]]:
        """Yield tables of the timers under the keys of NEW, one for each service."""
        assert self.change.new is not None
        queues = {queue.service: queue.meta.value_serializer for queue in plan.of_kind(TIMERS)}
        key = key_serializer_of(self.change.new)
        for service, serializer in queues.items():
            namespace = serializer.children[1]
            own = namespace != NO_NAMESPACE
            rows = self.engine.read(self._options(TIMERS_TABLE) | {"state": join_names([service])})
            fields = [pa.field(KEY, key.arrow_type(EXACT)), *(one for one in rows.schema if one.name != KEY)]
            schema = pa.schema(fields)
            column = NAMESPACE_COLUMN if own else None
            states = timer_states(key, namespace, (service,))
            written = KeyedDescriptor((KEY,), key, states, namespace if own else None, column)
            moved = rows.mapped(RekeyedTimers(self.change.key, schema), schema)
            if self.change.merges:
                by_key = replace(written, states=(), namespace=None, namespace_column=None)
                unique = UniqueRows(by_key, plan.max_parallelism, schema, DEFAULT_SORT_MEMORY)
                moved = self.engine.by_key(moved, by_key, plan.max_parallelism, None).mapped(unique, schema)
            spec = WriteSpec(table=TIMERS_TABLE, state=service)
            yield StateInput(moved, spec, written, bound_key=True), [*map(planned_state, states)]

    def _same_key(self) -> tuple[FieldSource, ...]:
        """Return the first fields of OLD's key as those of NEW's, which has fewer."""
        assert self.change.new is not None
        return tuple(
            FieldSource(column.name, column.kind, Verdict.AS_IS, OldKey(place, column.name))
            for place, column in enumerate(self.change.new.key)
        )

    def _renamed(self, plan: OperatorPlan) -> OperatorPlan:
        """Return the plan with the new names of states whose bytes stay; two may have each other's name."""
        names = {
            one.old_name: one.new_name for one in self.change.states if _stays(one) and one.old_name != one.new_name
        }
        known = {state.name for state in plan.of_kind(KEYED)}
        for old in names:
            if old in known:
                plan = plan.with_renamed_state(str(old), f"{old} of before")
        for old, new in names.items():
            if old in known:
                plan = plan.with_renamed_state(f"{old} of before", str(new))
        return plan

    @property
    def namespaced(self) -> bool:
        assert self.change.new is not None
        return self.change.new.namespace != VOID_NAMESPACE

    def _read(self) -> tuple[Rows, OldStates]:
        """Return the table of the operator's states, and which of its columns are which."""
        options = self._options(WINDOW_STATE if self.namespaced else KEYED_STATE) | {"includeTtl": "true"}
        states = with_states(self.plan).of_kind(KEYED)
        names = [state.name for state in states if is_namespaced(state.meta) == self.namespaced]
        columns = column_names(names, self.namespaced)
        assert self.change.old is not None
        shapes = tuple((shape, columns.get(shape.name, "")) for shape in self.change.old.states)
        if self.change.old.state(SESSIONS_OF["window-aggs"]) is not None:
            rows = self.engine.read(options | {"includeStateWindow": "true"})
            schema = pa.schema([_plain(field) for field in rows.schema if field.name != STATE_WINDOW])
            return rows.mapped(UnderStateWindows(schema), schema), OldStates(shapes)
        return self.engine.read(options), OldStates(shapes)

    def _options(self, table: str) -> dict[str, str]:
        """Return the options that read a table of the operator in the base."""
        base = self.plan.base
        assert base is not None
        options = read_options(base)
        options |= {"path": base.path, "uidHash": base.operator.operator_id.hex}
        return options | {"table": table, "timestamps": "raw"}

    def _input(
        self, plan: OperatorPlan, changes: Sequence[StateChange], read: tuple[Rows, OldStates]
    ) -> tuple[StateInput, list[PlannedState]]:
        """Return the table of all changed states, and these states."""
        assert self.change.new is not None
        rows, old = read
        key = key_serializer_of(self.change.new) if self._moves_keys else plan.key_serializer
        assert key is not None
        namespace = namespace_of(self.change.new)
        descriptors, columns = [], []
        for one in changes:
            assert one.new is not None
            timed = one.old is not None and bool(one.old.ttl)
            descriptor = self._as_it_was(one) or descriptor_of(one.new, namespace, timed=timed)
            descriptors.append(descriptor)
            columns.append(StateColumns.of(descriptor, one.new))
        fields = [pa.field(KEY, key.arrow_type(EXACT))]
        fields += [rows.schema.field(WINDOW_COLUMN)] if self.namespaced else []
        schema = pa.schema([*fields, *(field for one in columns for field in one.fields)])
        merges = self.change.merges or any(one.key for one in changes) or self.joining is not None
        function = RewrittenRows(
            old,
            tuple(changes),
            tuple(columns),
            schema,
            () if merges else self.change.key,
            self.lookups,
            self.now,
            self.change.new.uid,
            {one.new.name: self.order for one in changes if one.limit is not None and one.new is not None},
            {
                one.new.name: one.old.name
                for one in self.change.states
                if one.new is not None and one.old is not None and one.emitted_by is None
            },
            self._watermark(read),
        )
        window = (namespace, WINDOW_COLUMN) if self.namespaced else (None, None)
        written = KeyedDescriptor((KEY,), key, tuple(descriptors), *window)
        made = self._merged(rows, function, written) if merges else rows.mapped(function, schema)
        if self.joining is None:
            # Computed once without rows: what is not known here is refused before anything is read.
            none = no_rows(rows.schema)
            none = none_of_key(none, key) if merges else none
            function.of_keys(function.keys(none), none)
        spec = WriteSpec(table=WINDOW_STATE if self.namespaced else KEYED_STATE)
        state_input = StateInput(made, spec, written, bound_key=True)
        return state_input, [planned_state(one) for one in descriptors]

    def _as_it_was(self, change: StateChange) -> StateDescriptor | None:
        """Return the descriptor of a state whose type stays, with the serializer that the base has."""
        old, new = change.old, change.new
        if old is None or new is None or old.value_type != new.value_type:
            return None
        known = next((one.meta for one in with_states(self.plan).of_kind(KEYED) if one.name == old.name), None)
        if known is None or known.state_type != new.kind.upper():
            return None
        kept = known.value_serializer
        if bool(old.ttl) != bool(new.ttl):
            if new.kind != "value":
                return None
            # A comparator of sort keys is code that Flink makes, so that the serializer of the base is used.
            if not new.ttl and not isinstance(kept, TtlSerializer):
                return None
            kept = kept.value if isinstance(kept, TtlSerializer) else with_ttl(StateKind.VALUE, kept)
        serializers = kept, known.serializers["NAMESPACE_SERIALIZER"]
        access = new.name + LAST_ACCESS if new.ttl and old.ttl else None
        return StateDescriptor(new.name, StateKind(known.state_type), *serializers, new.name, access)

    def _merged(self, rows: Rows, function: RewrittenRows, written: KeyedDescriptor) -> Rows:
        """Return the rows of NEW's keys: those of OLD under their new keys, sorted, and merged where keys are one."""
        by_key = replace(written, states=())
        limit, key = self.plan.max_parallelism, written.key_serializer
        rekeyed = rows
        if self._moves_keys or self.change.merges:
            columns = [one for one in rows.schema if one.name != KEY]
            schema = pa.schema([pa.field(KEY, key.arrow_type(EXACT)), *columns])
            by_row = {one.old.name: one.key for one in self.change.states if one.old is not None and one.key}
            rekeyed = rows.mapped(Rekeyed(function.old, self.change.key, by_row, schema), schema)
        if self.joining is not None:
            return self.joining.joined(rekeyed, function, key, by_key, limit)
        placed = self.engine.by_key(rekeyed, by_key, limit, None)
        merged = MergedRows(function, by_key, limit, rekeyed.schema, DEFAULT_SORT_MEMORY)
        return placed.mapped(merged, function.schema)


@dataclass(frozen=True)
class RekeyedTimers:
    """Function of batches: timers under the keys of NEW."""

    key: tuple[FieldSource, ...]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the timers."""
        for batch in batches:
            keys = KeyRows(len(batch), tuple(batch.column(KEY).flatten()), {})
            fields = [pa.concat_arrays([one]) for one in key_values(self.key, keys)]
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns[KEY] = struct_array(self.schema.field(KEY).type, fields, len(batch))
            yield pa.RecordBatch.from_arrays([columns[one.name] for one in self.schema], schema=self.schema)


@dataclass(frozen=True)
class UnderStateWindows:
    """Function of batches: the windows of sessions to those under which Flink keeps their state.

    Views of a session, such as sets of DISTINCT values, have that window already: in a row of their own, if the session
    has another one. Both rows become one. All rows of a key come one after the other.
    """

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their state windows."""
        held = no_rows(self.schema)
        for batch in batches:
            rows = pa.concat_batches([held, self._renamed(batch)])
            last = int(np.flatnonzero(_begins(rows.column(KEY)))[-1]) if len(rows) else 0
            yield self._joined(rows.slice(0, last))
            held = rows.slice(last)
        yield self._joined(held)

    def _renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        stored = batch.column(STATE_WINDOW)
        window = pc.if_else(stored.is_valid(), stored, batch.column(WINDOW_COLUMN))
        columns = [window if one.name == WINDOW_COLUMN else batch.column(one.name) for one in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _joined(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row for each key and window, with what any of its rows has."""
        numbers = group_numbers([rows.column(KEY), rows.column(WINDOW_COLUMN)], len(rows))
        firsts = np.unique(numbers, return_index=True)[1]
        if len(firsts) == len(rows):
            return rows
        columns = []
        for column in rows.columns:
            there = np.flatnonzero(np.asarray(column.is_valid()))
            place = np.full(len(firsts), -1)
            place[numbers[there]] = there
            columns.append(column.take(pa.array(place, mask=place < 0)).take(pa.array(np.argsort(firsts))))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _begins(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Return whether each row has another key than the one before it."""
    return np.asarray(np.diff(group_numbers([keys], len(keys)), prepend=-1) != 0)


def _plain(field: pa.Field) -> pa.Field:
    """Return a field without metadata: what a window is of is not written."""
    return field.with_metadata(None)


def none_of_key(batch: pa.RecordBatch, key: TypeSerializer) -> pa.RecordBatch:
    """Return a batch without rows with another key."""
    others = [field for field in batch.schema if field.name != KEY]
    return no_rows(pa.schema([pa.field(KEY, key.arrow_type(EXACT)), *others]))


def _stays(change: StateChange) -> bool:
    """Return whether the bytes of a state stay."""
    return change.verdict is Verdict.AS_IS and change.old is not None and change.new is not None


def _without_keyed(plan: OperatorPlan) -> OperatorPlan:
    """Remove all keyed state and timers: the operator begins empty, perhaps with other keys."""
    for name in dict.fromkeys(state.service or state.name for state in plan.of_kind(KEYED, TIMERS)):
        plan = plan.without_state(name)
    return plan


def _without(plan: OperatorPlan, name: str) -> OperatorPlan:
    """Remove a keyed state, if the savepoint has it: Flink does not write one that no key has."""
    known = any(state.name == name for state in plan.of_kind(KEYED))
    return plan.without_state(name) if known else plan


@dataclass(frozen=True)
class EvolvedSavepoint:
    """A savepoint and its changes. By uid: what operators of NEW emit, and in which order they rank rows."""

    engine: Engine
    plan: SavepointPlan
    evolution: Evolution
    backfill: BackfillInput
    emissions: Mapping[str, Emission]
    orders: Mapping[str, tuple[Order, ...]]
    key_places: Mapping[tuple[str, int], tuple[int, ...]]
    view_bits: Mapping[tuple[str, str], int]
    slices: Mapping[str, Slices]
    now: int

    def evolved(self) -> SavepointPlan:
        """Return the plan of the savepoint from which NEW goes on; nothing is read but headers."""
        dropped = [change.old_uid for change in self.evolution.dropped if change.old_uid is not None]
        gone = [found for uid in dropped if (found := self.plan.find(identifier_of(uid))) is not None]
        plan = self.plan.without(*gone)
        moved: list[tuple[OperatorPlan, OperatorIdentifier]] = []
        #: Operators of NEW, by their uids there.
        known: dict[str, tuple[OperatorPlan, OperatorChange]] = {}
        new: list[OperatorPlan] = []
        resized = False
        for one in with_own_names(self.evolution).operators:
            change = self._with_bits(one)
            if change.new is None:
                continue
            operator = None if change.old is None else self.plan.find(identifier_of(change.old.uid))
            if operator is None:
                empty = plan.new_operator(identifier_of(change.new.uid), None)
                empty = replace(empty, new_max_parallelism=1) if change.narrows else empty
                made = self._made(empty, change, known)
                if made.states:
                    new.append(made)
                    known[change.new.uid] = made, change
                continue
            max_parallelism = self._max_parallelism(operator, change)
            if max_parallelism != operator.max_parallelism:
                moved_rows = rehashed(with_states(operator), max_parallelism, None)
                plan, operator, resized = plan.with_changed(operator, moved_rows), moved_rows, True
            evolved = operator
            if not change.new.of_connector and (change.verdict is not Verdict.AS_IS or _renames(change)):
                evolved = self._evolved(operator, change)
                evolved = self._made(evolved, change, known)
            plan = plan.with_changed(operator, evolved)
            known[change.new.uid] = evolved, change
            if change.moves:
                moved.append((evolved, identifier_of(change.new.uid)))
        if resized or any(one.narrows or one.widens for one in self.evolution.operators):
            # Operators behind one without a key have max parallelism 1 too. Flink needs nothing of those without state.
            plan = plan.without(*(one for one in plan.operators if one.base is not None and not has_state(one)))
        return _moved(plan, moved).with_new(*new)

    def _max_parallelism(self, operator: OperatorPlan, change: OperatorChange) -> int:
        """Return the max parallelism that an operator of OLD has in NEW: 1 without a key, the job's if it gets one."""
        if change.narrows:
            return 1
        if change.widens and operator.max_parallelism == 1:
            return max(one.max_parallelism for one in self.plan.operators)
        return operator.max_parallelism

    def _evolved(self, operator: OperatorPlan, change: OperatorChange) -> OperatorPlan:
        """Return an operator of OLD with the states of NEW; none of them if all are made anew."""
        assert change.new is not None
        if self._is_whole(change):
            return _without_keyed(with_states(operator))
        own = replace(change, states=tuple(one for one in change.states if one.emitted_by is None))
        order = self.orders.get(change.new.uid, ())
        lookups, joining = self._lookups(change.new.uid), self._joining(change, operator)
        slices = self.slices.get(change.new.uid)
        makes = slices is not None and any(one.action == "made" for one in change.timers)
        watermark = self._watermark(operator) if makes else None
        return EvolvedOperator(
            self.engine, operator, own, lookups, self.now, joining, order, slices, watermark
        ).evolved()

    def _is_whole(self, change: OperatorChange) -> bool:
        """Return whether all of an operator is computed from history."""
        history = self.evolution.histories.get(change.new_uid or "")
        return history is not None and history.whole

    def _joining(self, change: OperatorChange, operator: OperatorPlan | None) -> Joining | None:
        """Return what is given for the keys of an operator; None if nothing is."""
        uid = change.new_uid or ""
        tables, history = self.backfill.tables.get(uid, ()), self.evolution.histories.get(uid)
        by_rows = self.backfill.by_rows.get(uid, ())
        if history is None and not tables and not by_rows:
            return None
        computed = None if history is None else Computed(history, self.orders.get(uid, ()))
        watermark = None
        if history is not None and history.slices is not None and operator is not None:
            watermark = self._watermark(operator)
        return Joining(self.engine, tables, computed, self.backfill.rows, watermark, by_rows)

    def _watermark(self, operator: OperatorPlan) -> int | None:
        """Return the watermark that an operator has: windows that ended by then have fired."""
        base = operator.base
        if base is None or not any(state.name == WATERMARK.name for state in with_states(operator).of_kind(OPERATOR)):
            return None
        options = {"path": base.path, "uidHash": base.operator.operator_id.hex, "state": WATERMARK.name}
        rows = gathered(self.engine, self.engine.read(options | {"table": OPERATOR_STATE, "timestamps": "raw"}))
        values = [value for value in rows.column("value").to_pylist() if value is not None]
        return min(values, default=None)

    def _made(
        self, plan: OperatorPlan, change: OperatorChange, sources: Mapping[str, tuple[OperatorPlan, OperatorChange]]
    ) -> OperatorPlan:
        """Return an operator with the states that are made of rows which other operators have emitted."""
        assert change.new is not None
        places = {side: place for (uid, side), place in self.key_places.items() if uid == change.new.uid}
        order = self.orders.get(change.new.uid, ())
        states = MadeStates(self.engine, change, plan.max_parallelism, self.now, places, order)
        # States of a new operator that begin empty are registered with the first that does not.
        empty = [one for one in change.states if one.verdict is Verdict.BEGINS_EMPTY and change.old is None]
        for one in change.states:
            if one.emitted_by is None or one.new is None:
                continue
            if one.old_name is not None:
                plan = _without(with_states(plan), one.old_name)
            made, planned = states.emitted(one, self._emitting(one.emitted_by, sources), empty)
            plan = plan.with_input(made, planned, replaces=True)
            empty = []
        if self._is_whole(change) or (change.old is None and plan.states is not None and not plan.states):
            return self._joined(plan, change, states)
        return plan

    def _joined(self, plan: OperatorPlan, change: OperatorChange, states: MadeStates) -> OperatorPlan:
        """Return an operator all of whose state the user gives."""
        given = [one for one in change.states if one.new is not None and one.verdict is Verdict.BACKFILLED]
        joining = self._joining(change, plan)
        if not given or joining is None:
            return plan
        made, planned = states.joined(given, joining)
        plan = plan.with_input(made, planned, replaces=False)
        for timers in change.timers:
            if timers.action == "made":
                slices = self.slices.get(change.new_uid or "")
                own, queues = states.timers_of_windows(made.rows, timers.service, slices, joining.watermark)
                plan = plan.with_input(own, queues, replaces=False)
        return plan

    def _with_bits(self, change: OperatorChange) -> OperatorChange:
        """Return the change with the numbers that values of new sets have."""
        states = []
        for one in change.states:
            given = one.old is None and one.new is not None and one.verdict is Verdict.BACKFILLED
            if given and one.new is not None and one.new.layout in DISTINCT and not one.parts:
                assert change.new is not None
                bits = self.view_bits.get((change.new.uid, one.new.name))
                if bits is None:
                    raise UnsupportedStateError(
                        "a set of DISTINCT values of calls with filters, or of rows that are also taken out, cannot be "
                        "given",
                        operator=change.new.uid,
                        state=one.new.name,
                        remedy="leave the aggregate out, or let it begin: fill='initial'",
                    )
                part = PARTS[one.new.layout][0]
                states.append(replace(one, parts={part: Call("set_bits", (bits,))}))
                continue
            states.append(one)
        return replace(change, states=tuple(states))

    def _lookups(self, uid: str) -> dict[tuple[str, str], Lookup]:
        """Return what was given for an operator, by state and name."""
        return {(state, name): lookup for (of, state, name), lookup in self.backfill.lookups.items() if of == uid}

    def _emitting(self, uid: str, sources: Mapping[str, tuple[OperatorPlan, OperatorChange]]) -> Emitting:
        """Return the rows of an operator of NEW, from which follows what it has emitted."""
        emission = self.emissions.get(uid)
        if emission is None or uid not in sources:
            raise UnsupportedStateError(
                "what an operator has emitted by now cannot be computed from its state",
                operator=uid,
                remedy="give the rows of the operator behind it in backfill=, or let its state begin empty",
            )
        operator, _ = sources[uid]
        operator = with_states(operator)
        found = next((state for state in operator.of_kind(KEYED) if state.name == emission.state.name), None)
        if found is not None and found.from_input >= 0:
            rows, column = operator.inputs[found.from_input].rows, found.origin
        else:
            base = operator.base
            assert base is not None
            options = read_options(base)
            options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "timestamps": "raw"}
            rows = self.engine.read(options | {"table": KEYED_STATE})
            names = [state.origin for state in operator.of_kind(KEYED)]
            column = column_names(names, namespaced=False).get(found.origin, "") if found is not None else ""
        return Emitting(rows, OldStates(((emission.state, column),)), emission)


def _renames(change: OperatorChange) -> bool:
    return any(one.old_name != one.new_name for one in change.states)


def _moved(plan: SavepointPlan, moved: Sequence[tuple[OperatorPlan, OperatorIdentifier]]) -> SavepointPlan:
    """Give operators their new ids; one without state that has such an id now goes, as Flink needs none of it."""
    taken = {identifier.operator_id for _, identifier in moved}
    going = {id(operator) for operator, _ in moved}
    in_the_way = [
        operator
        for operator in plan.operators
        if operator.identifier.operator_id in taken and id(operator) not in going
    ]
    for operator in in_the_way:
        if operator.base is not None and has_state(operator):
            raise OptionError(
                "an operator of the new query would have the id of one that keeps its state",
                operator=operator.label,
                remedy="the old plan does not name this operator: is it the plan of this savepoint?",
            )
    plan = plan.without(*in_the_way)
    for operator, identifier in moved:
        plan = plan.with_identifier(operator, identifier)
    return plan


def has_state(operator: OperatorPlan) -> bool:
    """Return whether an operator of the savepoint has any state."""
    base = operator.base
    assert base is not None
    return base.has_keyed_state or base.has_operator_state or base.operator.coordinator_state is not None
