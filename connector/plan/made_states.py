"""States of NEW that are made of something else than its own old state: rows that another operator has emitted, rows of
the user's history, and timers of windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import fixed_array
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.joined_states import Joining
from pyspark_savepoint.plan.made_rows import no_rows
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, PlannedState, StateInput
from pyspark_savepoint.statebackends.evolution.changes import OperatorChange, StateChange, Verdict
from pyspark_savepoint.statebackends.evolution.histories import Slices
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import (
    EXACT,
    StateColumns,
    descriptor_of,
    key_serializer_of,
    namespace_of,
)
from pyspark_savepoint.statebackends.evolution.rewriting.emitted import Emission, EmittedRows
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import next_ends
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import (
    KEY,
    OldStates,
    Order,
    RewrittenRows,
    milliseconds,
)
from pyspark_savepoint.statebackends.evolution.rewriting.merging import DistinctRows, MergedRows
from pyspark_savepoint.statebackends.evolution.shapes import VOID_NAMESPACE
from pyspark_savepoint.statebackends.rows.descriptors import (
    NAMESPACE_COLUMN,
    NO_NAMESPACE,
    WINDOW_COLUMN,
    KeyedDescriptor,
    StateDescriptor,
    StateKind,
    timer_states,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    DEFAULT_SORT_MEMORY,
    KEYED_STATE,
    WINDOW_STATE,
    WriteSpec,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import TIMERS as TIMERS_TABLE
from pyspark_savepoint.statebackends.writing.row_forms import DOMAIN, SERVICE, TIMESTAMP

AddedStates = tuple[StateInput, list[PlannedState]]


@dataclass(frozen=True)
class Emitting:
    """The rows of an operator that emits, with its states, and what it emits of them."""

    rows: Rows
    states: OldStates
    emission: Emission


@dataclass(frozen=True)
class MadeStates:
    """States of an operator of NEW; ``limit`` is its max parallelism."""

    engine: Engine
    change: OperatorChange
    limit: int
    now: int
    #: Where rows of each input have the key.
    places: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    #: The order of the rows of a rank.
    order: tuple[Order, ...] = ()

    @property
    def key(self) -> TypeSerializer:
        assert self.change.new is not None
        return key_serializer_of(self.change.new)

    @property
    def _label(self) -> str:
        assert self.change.new is not None
        return self.change.new.uid

    def emitted(self, state: StateChange, source: Emitting, empty: Sequence[StateChange] = ()) -> AddedStates:
        """Return a state of rows that another operator has emitted, under the keys of this one.

        ``empty`` are states that are registered with it and have nothing.
        """
        assert state.new is not None
        assert self.change.new is not None
        namespace = namespace_of(self.change.new)
        descriptor = descriptor_of(state.new, namespace, timed=False)
        columns = StateColumns.of(descriptor, state.new)
        others = [descriptor_of(one.new, namespace, timed=False) for one in empty if one.new is not None]
        nothing = [
            StateColumns.of(one, change.new)
            for one, change in zip(others, empty, strict=True)
            if change.new is not None
        ]
        schema = pa.schema([pa.field(KEY, self.key.arrow_type(EXACT)), *columns.fields])
        key = tuple(state.fields[place] for place in self.places.get(state.new.input or 0, ()))
        if len(key) != len(self.change.new.key):
            raise UnsupportedStateError(
                f"which fields of state {state.new.name!r} are its key is not known", operator=self._label
            )
        kinds = self.change.new.key
        key = tuple(replace(one, kind=column.kind) for one, column in zip(key, kinds, strict=True))
        function = EmittedRows(source.states, source.emission, state, key, schema, self._label)
        function.of_batch(no_rows(source.rows.schema))
        rows = source.rows.mapped(function, schema)
        # The rows of one key come from several keys of the operator that emits.
        same = replace(state, old=state.new, fields=(), parts={}, key=(), verdict=Verdict.AS_IS, emitted_by=None)
        whole = pa.schema([*schema, *(field for one in nothing for field in one.fields)])
        identity = RewrittenRows(
            OldStates(((state.new, state.new.name),)),
            (same, *empty),
            (columns, *nothing),
            whole,
            now=self.now,
            label=self._label,
            orders={state.new.name: self.order},
        )
        by_key = KeyedDescriptor((KEY,), self.key, ())
        placed = self.engine.by_key(rows, by_key, self.limit, None)
        merged = placed.mapped(MergedRows(identity, by_key, self.limit, schema, DEFAULT_SORT_MEMORY), whole)
        return self._input(merged, (descriptor, *others))

    def joined(self, states: Sequence[StateChange], joining: Joining) -> AddedStates:
        """Return states whose keys, and all of whose values, the user gave."""
        assert self.change.new is not None
        namespace = namespace_of(self.change.new)
        descriptors = [descriptor_of(one.new, namespace, timed=False) for one in states if one.new is not None]
        columns = [
            StateColumns.of(one, state.new)
            for one, state in zip(descriptors, states, strict=True)
            if state.new is not None
        ]
        own = self.change.new.namespace != VOID_NAMESPACE
        window = [pa.field(WINDOW_COLUMN, namespace.arrow_type(EXACT))] if own else []
        key = pa.field(KEY, self.key.arrow_type(EXACT))
        schema = pa.schema([key, *window, *(field for one in columns for field in one.fields)])
        function = RewrittenRows(OldStates(()), tuple(states), tuple(columns), schema, now=self.now, label=self._label)
        by = (namespace, WINDOW_COLUMN) if own else (None, None)
        rows = joining.joined(None, function, self.key, KeyedDescriptor((KEY,), self.key, (), *by), self.limit)
        return self._input(rows, tuple(descriptors), own=own)

    def _input(self, rows: Rows, descriptors: tuple[StateDescriptor, ...], *, own: bool = False) -> AddedStates:
        """Return rows as input of some states; ``own``: they have namespaces of their own."""
        assert self.change.new is not None
        window = (namespace_of(self.change.new), WINDOW_COLUMN) if own else (None, None)
        described = KeyedDescriptor((KEY,), self.key, descriptors, *window)
        spec = WriteSpec(table=WINDOW_STATE if own else KEYED_STATE)
        state_input = StateInput(rows, spec, described, bound_key=True)
        return state_input, [planned_state(one) for one in descriptors]

    def timers_of_windows(
        self, windows: Rows, service: str, slices: Slices | None = None, watermark: int | None = None
    ) -> AddedStates:
        """Return timers that fire at the end of each window of a table of window state.

        A slice whose own window ended by the ``watermark`` fires with the next one that it is in.
        """
        assert self.change.new is not None
        namespace = namespace_of(self.change.new)
        window = windows.schema.field(WINDOW_COLUMN).type
        schema = pa.schema(
            [
                windows.schema.field(KEY),
                pa.field(NAMESPACE_COLUMN, window),
                pa.field(TIMESTAMP, pa.int64()),
                pa.field(DOMAIN, pa.string()),
                pa.field(SERVICE, pa.string()),
            ]
        )
        states = timer_states(self.key, namespace, (service,))
        written = KeyedDescriptor((KEY,), self.key, states, namespace, NAMESPACE_COLUMN)
        rows = windows.mapped(WindowTimers(service, schema, slices, watermark), schema)
        if slices is not None and watermark is not None:
            by_window = replace(written, states=())
            placed = self.engine.by_key(rows, by_window, self.limit, None)
            rows = placed.mapped(DistinctRows(by_window, self.limit, schema, DEFAULT_SORT_MEMORY), schema)
        spec = WriteSpec(table=TIMERS_TABLE, state=service)
        return StateInput(rows, spec, written, bound_key=True), [planned_state(one) for one in states]

    def timers_of_rows(self, rows: Rows, service: str, state: StateChange) -> AddedStates:
        """Return timers that fire at the time of each row of a state that is a row."""
        assert state.new is not None
        assert state.waiting is not None
        place = next(number for number, one in enumerate(state.new.columns) if one.kind.kind == "ROWTIME")
        columns = [(TIMESTAMP, pa.int64()), (DOMAIN, pa.string()), (SERVICE, pa.string())]
        schema = pa.schema([rows.schema.field(KEY), *(pa.field(name, kind) for name, kind in columns)])
        states = timer_states(self.key, NO_NAMESPACE, (service,))
        written = KeyedDescriptor((KEY,), self.key, states)
        made = rows.mapped(RowTimers(service, state.new.name, place, schema), schema)
        spec = WriteSpec(table=TIMERS_TABLE, state=service)
        return StateInput(made, spec, written, bound_key=True), [planned_state(one) for one in states]


@dataclass(frozen=True)
class RowTimers:
    """Function of batches: rows of a state to timers at their times."""

    service: str
    column: str
    place: int
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a timer for each key that has a row."""
        for batch in batches:
            there = batch.filter(batch.column(self.column).is_valid())
            times = milliseconds(there.column(self.column).flatten()[self.place])
            columns = [
                there.column(KEY),
                fixed_array(pa.int64(), times),
                pa.repeat(pa.scalar("event"), len(there)),
                pa.repeat(pa.scalar(self.service), len(there)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True)
class WindowTimers:
    """Function of batches: windows to the timers that fire them, in the last millisecond of each."""

    service: str
    schema: pa.Schema
    slices: Slices | None = None
    watermark: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a timer for each window."""
        for batch in batches:
            window = batch.column(WINDOW_COLUMN)
            end = window if not pa.types.is_struct(window.type) else pc.struct_field(window, "end")
            ends = np.asarray(end, np.int64)
            if self.slices is not None and self.watermark is not None:
                ends = next_ends(self.slices, ends, self.watermark)
                window = fixed_array(pa.int64(), ends)
            columns = [
                batch.column(KEY),
                window,
                fixed_array(pa.int64(), ends - 1),
                pa.repeat(pa.scalar("event"), len(batch)),
                pa.repeat(pa.scalar(self.service), len(batch)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def planned_state(descriptor: StateDescriptor) -> PlannedState:
    """Return the planned state of a descriptor."""
    kind = TIMERS if descriptor.kind is StateKind.TIMER else KEYED
    return PlannedState(kind, descriptor.meta_info(), descriptor.name)
