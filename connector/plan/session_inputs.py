"""Contents of windows that merge, given with their windows: they are written with the state that names the sessions.

Flink finds the contents of a session by that state alone: without it, timers fire and nothing is emitted. A row has the
session (``window``) and the window under which its contents are stored (``state_window``). Without ``state_window``
contents are stored under the session itself, as those of a session of one element are.

One table becomes up to three inputs::

    contents   key, state_window, window-contents     under the state window
    others     key, window, states of the trigger     under the session
    sessions   key, merging-window-set                without namespace: pairs of both windows

Flink: ``MergingWindowSet``, ``WindowOperator#open``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.operator_plan import KEYED, OperatorPlan, PlannedState, StateInput
from pyspark_savepoint.statebackends.rows.descriptors import (
    NO_NAMESPACE,
    STATE_WINDOW,
    WINDOW_COLUMN,
    WINDOW_CONTENTS,
    KeyedDescriptor,
    StateDescriptor,
    StateKind,
)
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.rows.state_sets import SESSIONS_OF
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import SPAN_COLUMNS
from pyspark_savepoint.statebackends.tables.session_windows import MERGING, has_sessions
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.planning.write_request import KEYED_STATE, WriteSpec, is_type_of


@dataclass(frozen=True)
class WindowTable:
    """A part of a table of windows, and how it is written."""

    rows: Rows
    spec: WriteSpec


@dataclass(frozen=True)
class SessionTable:
    """A table of sessions: its parts, and the name and rows of the state that names the sessions, if it is missing."""

    contents: WindowTable
    others: WindowTable | None
    state: str | None
    windows: Rows

    def sessions(self, engine: Engine, descriptor: KeyedDescriptor, spec: WriteSpec) -> tuple[StateInput, PlannedState]:
        """Return the table of the sessions; ``descriptor`` is that of the contents."""
        assert self.state is not None
        assert descriptor.namespace is not None
        is_map = self.state == SESSIONS_OF["window-aggs"]
        serializer = _pairs(self.state, descriptor.namespace, is_map, OperatorTypes.named_by(spec))
        kind = StateKind.MAP if is_map else StateKind.LIST
        state = StateDescriptor(self.state, kind, serializer, NO_NAMESPACE, self.state)
        keys = (*descriptor.key_columns, *([descriptor.key_group] if descriptor.key_group is not None else []))
        rows = engine.sessions(self.windows, keys, self.state, is_map=is_map)
        described = replace(descriptor, states=(state,), namespace=None, namespace_column=None)
        written = replace(spec, table=KEYED_STATE, types={}, states={}, ttl=None)
        planned = PlannedState(KEYED, state.meta_info(), state.name)
        return StateInput(rows, written, described, bound_key=True, sessions=True), planned


def session_table(plan: OperatorPlan, rows: Rows, spec: WriteSpec) -> SessionTable | None:
    """Return a table of window state in its parts if its windows are sessions; None for all other windows."""
    names = rows.schema.names
    contents = [name for name in names if name in WINDOW_CONTENTS]
    planned = [state.name for state in plan.of_kind(KEYED) if state.name in MERGING]
    if not contents or WINDOW_COLUMN not in names:
        if contents and STATE_WINDOW in names and not planned:
            raise OptionError(
                f"column {STATE_WINDOW!r} says where contents are stored, but no column says of which session they are",
                operator=plan.label,
                expected=f"columns {WINDOW_COLUMN!r} and {STATE_WINDOW!r}",
                remedy="read with include_state_window=True, which shows both, and keep both columns",
            )
        return None
    given = STATE_WINDOW in names
    if not given and (planned or not (has_sessions(rows.schema) or _merge(spec))):
        return None
    keys = [*(spec.key or ("key",)), *([spec.key_group] if spec.key_group is not None else [])]
    keys = [name for name in keys if name in names]
    under = STATE_WINDOW if given else WINDOW_COLUMN
    of_contents = [name for name in names if name.removesuffix(LAST_ACCESS) in contents]
    others = [name for name in names if name not in (*keys, *of_contents, STATE_WINDOW, WINDOW_COLUMN)]
    own = rows.select(*keys, under, *of_contents).renamed({under: STATE_WINDOW})
    windows = rows.select(*keys, *dict.fromkeys((WINDOW_COLUMN, under)))
    rest = [name for name in others if name not in SPAN_COLUMNS]
    return SessionTable(
        WindowTable(own, _narrowed(spec, {*keys, *of_contents})),
        WindowTable(rows.select(*keys, WINDOW_COLUMN, *rest), _narrowed(spec, {*keys, *rest})) if rest else None,
        None if planned else SESSIONS_OF[contents[0]],
        windows,
    )


def _merge(spec: WriteSpec) -> bool:
    """Return whether the windows of the operator in option ``typesFrom`` merge."""
    types = OperatorTypes.named_by(spec)
    return types is not None and types.sessions is not None


def _pairs(state: str, window: TypeSerializer, is_map: bool, types: OperatorTypes | None) -> TypeSerializer:
    """Return the serializer of the sessions: that of the operator whose types are used, else the one Flink makes."""
    if types is not None and types.sessions == state:
        return types.states[state].value_serializer
    return MapSerializer.of(window, window) if is_map else ListSerializer.of(TupleSerializer.of(window, window))


def _narrowed(spec: WriteSpec, columns: Collection[str]) -> WriteSpec:
    """Return the options of some columns; the type of ``window`` is that of ``state_window`` too."""
    known = {*columns, KEY, WINDOW_COLUMN, STATE_WINDOW}
    types = {path: text for path, text in spec.types.items() if any(is_type_of(path, name) for name in known)}
    if STATE_WINDOW not in types and WINDOW_COLUMN in types:
        types[STATE_WINDOW] = types[WINDOW_COLUMN]
    ttl = (
        spec.ttl
        if spec.ttl is None or isinstance(spec.ttl, bool)
        else tuple(name for name in spec.ttl if name in known)
    )
    return replace(
        spec, types=types, states={name: kind for name, kind in spec.states.items() if name in known}, ttl=ttl
    )
