"""Tables to add to an operator: their descriptors, determined and checked before any job runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.filesystems.storage_options import OPTION, StoragePath
from pyspark_savepoint.formats.flink_releases import first_with_metadata
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import located_types
from pyspark_savepoint.options.write_options import parse_spec
from pyspark_savepoint.plan.added_rows import AddedTable, planned, with_numbers
from pyspark_savepoint.plan.engine import Engine, Rows, SessionLookup
from pyspark_savepoint.plan.keyed_edits import python_name, read_options, with_states, with_stored_values
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    TIMERS,
    OperatorPlan,
    OperatorRows,
    PlannedState,
    expect_name,
    expect_rows,
)
from pyspark_savepoint.plan.session_inputs import SessionTable, session_table
from pyspark_savepoint.statebackends.python.python_state import is_python_operator, job_name_of
from pyspark_savepoint.statebackends.rows.descriptors import (
    STATE_WINDOW,
    WINDOW_COLUMN,
    WINDOW_CONTENTS,
    KeyedDescriptor,
)
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import SPAN_COLUMNS
from pyspark_savepoint.statebackends.tables.session_windows import MERGING
from pyspark_savepoint.statebackends.writing.planning.describe_key import key_columns
from pyspark_savepoint.statebackends.writing.planning.kept_states import (
    expect_keys,
    keeping,
)
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    KEYED_STATE,
    OPERATOR_STATE,
    WINDOW_STATE,
    WriteSpec,
    is_type_of,
)

#: Options that change a state's type, kind or time to live.
TYPE_OPTIONS = {"types", "typesFrom", "states", "ttl"}
#: Columns of window state that are no state.
OF_WINDOWS = (WINDOW_COLUMN, STATE_WINDOW, *SPAN_COLUMNS)
#: Options that choose one table of a snapshot.
OF_ONE_TABLE = ("uid", "uidHash", "operatorName", "table")
#: Options that the fluent API sets itself, so users cannot.
OWN_OPTIONS = ("uid", "uidHash", "operatorName", "table", "path")
#: Options of a write to an existing savepoint; what :meth:`Savepoint.write` writes is new, and replaces nothing.
OF_REPLACING = ("drop", "retention")
#: Options of a write that apply to state created by functions; their descriptors determine the rest.
OF_FUNCTIONS = ("maxParallelism", "compression", "flinkVersion", "sortMemory")


def add_table(
    engine: Engine, plan: OperatorPlan, source: object, table: str, options: Mapping[str, Any]
) -> OperatorPlan:
    """Return the operator with the states of a table added; raise StateExistsError if it has one of them."""
    rows = expect_rows(engine, source, plan)
    plan = with_states(plan)
    spec = parsed_spec(engine, plan, table, to_options(options))
    _refuse_python_types(plan, spec)
    sessions = session_table(plan, rows, spec) if table == WINDOW_STATE else None
    return _added(plan, rows, spec) if sessions is None else _with_sessions(engine, plan, sessions, spec)


def _refuse_python_types(plan: OperatorPlan, spec: WriteSpec) -> None:
    """Raise OptionError if the types are those of an operator of PyFlink, which has its values in a form of its own."""
    opened = OperatorTypes.opened_by(spec)
    if opened is not None and is_python_operator(opened):
        raise OptionError(
            "option 'typesFrom' names an operator of PyFlink, whose states cannot be added to a new operator",
            operator=plan.label,
            found=opened.operator.label,
            remedy="copy the operator: with_operator(uid, savepoint), then with_state replaces its states",
        )


def _with_sessions(engine: Engine, plan: OperatorPlan, table: SessionTable, spec: WriteSpec) -> OperatorPlan:
    """Return the operator with the contents of sessions, the states of their trigger, and the state that names them."""
    plan = _added(plan, table.contents.rows, table.contents.spec)
    contents = plan.inputs[-1].descriptor
    assert isinstance(contents, KeyedDescriptor)
    if table.others is not None:
        plan = _added(plan, table.others.rows, table.others.spec)
    if table.state is None:
        return plan
    state_input, state = table.sessions(engine, contents, spec)
    return plan.with_input(state_input, [state], replaces=False)


def add_operator_state(
    engine: Engine, plan: OperatorPlan, kind: str, name: str, source: object, options: Mapping[str, Any]
) -> OperatorPlan:
    """Return the operator with a list, union or broadcast state added; raise StateExistsError if it has the state."""
    rows = expect_rows(engine, source, plan)
    plan = with_states(plan)
    expect_name(name, plan.label)
    texts = to_options(options)
    refuse_own(texts, ("state", "kind"))
    return _added(plan, rows, parsed_spec(engine, plan, OPERATOR_STATE, texts, state=name, kind=kind))


def add_rows(plan: OperatorPlan, rows: OperatorRows, options: Mapping[str, Any]) -> OperatorPlan:
    """Return a new operator with the state that user functions create, and the max parallelism that is set for it."""
    plan = with_states(plan)
    texts = to_options(options)
    for name in texts:
        if name not in OF_FUNCTIONS:
            raise OptionError(
                f"option {name!r} does not apply to state that a function writes: set it in its descriptor or key_by",
                remedy=did_you_mean(name, OF_FUNCTIONS[1:]),
            )
    spec = parse_spec(texts)
    numbers = {number for number in (spec.max_parallelism, rows.max_parallelism) if number is not None}
    if len(numbers) > 1:
        raise OptionError(
            "an operator has one max parallelism",
            operator=plan.label,
            expected=rows.max_parallelism,
            found=spec.max_parallelism,
            remedy="give it to set_max_parallelism, or to with_operator",
        )
    plan = replace(plan, default_max_parallelism=next(iter(numbers), plan.max_parallelism))
    for state_input in rows.operator_tables(replace(spec, max_parallelism=plan.max_parallelism)):
        plan = plan.with_input(state_input, planned(state_input.descriptor), replaces=False)
    return plan


def expect_updatable(plan: OperatorPlan, names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise an error unless rows can be laid over states: they exist, their elements have keys, their types stay."""
    changing = sorted(TYPE_OPTIONS & set(to_options(options)))
    for name in names:
        expect_name(name, plan.label)
        existing = [state for state in plan.called(name) if state.name == name and state.kind != TIMERS]
        if changing:
            raise OptionError(
                f"option {changing[0]!r} cannot change a state of which other keys keep what they have",
                operator=plan.label,
                state=name,
                remedy="leave it out; with_state(...) replaces the whole state, and can change its type",
            )
        if not existing:
            raise _no_state_to_update(plan, name)
        expect_keys(existing[-1].meta, plan.label)


def _no_state_to_update(plan: OperatorPlan, name: str) -> StateNotFoundError:
    if any(name == state.service for state in plan.of_kind(TIMERS)):
        return StateNotFoundError(
            f"{name!r} are timers, which have no values",
            operator=plan.label,
            remedy="remove_state removes timers, with_timers adds others",
        )
    known = [state.name for state in plan.of_kind(KEYED, OPERATOR)]
    return StateNotFoundError(
        f"the operator has no state {name!r} to update",
        operator=plan.label,
        remedy=f"{did_you_mean(name, known)} (with_state(...) adds a state)",
    )


def add_state(
    engine: Engine,
    plan: OperatorPlan,
    name: str,
    source: object,
    options: Mapping[str, Any],
    *,
    updates: bool = False,
) -> OperatorPlan:
    """Return the operator with one state replaced, or added if it has none of that name.

    A replaced state keeps its exact serializers unless option ``types`` changes them; its kind, time to live and
    namespace are kept even then, unless ``states`` and ``ttl`` change them. ``updates``: keys without a row keep it.
    """
    texts = to_options(options)
    refuse_own(texts, ("state",))
    rows = expect_rows(engine, source, plan)
    plan = with_states(plan)
    existing = [state for state in plan.called(name) if state.name == name and state.kind != TIMERS]
    if not existing:
        expect_name(name, plan.label)
    if existing and existing[0].kind == OPERATOR:
        kind = None if "kind" in texts else existing[0].meta.state_type.lower()
        spec = parsed_spec(engine, plan, OPERATOR_STATE, texts, state=name, kind=kind)
        return _added(plan, rows, spec, existing[:1], updates=updates)
    registered = python_name(plan, existing[0].origin if existing else name)
    if registered is not None:
        return _add_python(engine, plan, registered, rows, texts, updates=updates)
    old = existing[0] if existing else None
    if old is not None and old.from_input >= 0 and plan.inputs[old.from_input].sessions:
        raise OptionError(
            f"state {name!r} is written from the windows that were given to with_window_state",
            operator=plan.label,
            remedy=f"leave this out, and give with_window_state the windows that it should name: columns "
            f"{WINDOW_COLUMN!r} and {STATE_WINDOW!r}",
        )
    if old is None and name in MERGING:
        _refuse_sessions_afterwards(plan, name)
    table = WINDOW_STATE if old is not None and is_namespaced(old.meta) else KEYED_STATE
    spec = parsed_spec(engine, plan, table, texts)
    if table == WINDOW_STATE:
        rows = rows.select(*(column for column in rows.schema.names if column == name or column not in SPAN_COLUMNS))
    if old is not None and old.from_input < 0 and name in WINDOW_CONTENTS:
        rows = _with_state_windows(engine, plan, rows, spec.key or ("key",))
    keys = [*key_columns(rows.schema, spec), *((spec.key_group,) if spec.key_group else ())]
    windows = (STATE_WINDOW,) if STATE_WINDOW in rows.schema.names and table == WINDOW_STATE else ()
    places = (*windows, WINDOW_COLUMN) if table == WINDOW_STATE else ()
    column = _only_state_column(rows.schema.names, name, (*keys, *places), plan.label)
    # Types of an existing state are found by its name in the base.
    known = old.origin if old is not None else name
    renamed = rows.renamed({column: known, column + LAST_ACCESS: known + LAST_ACCESS})
    if old is None:
        return _added(plan, renamed, spec, name=name)
    spec = _by_existing_name(spec, {name, column}, known)
    exact = old.from_input < 0 and not TYPE_OPTIONS & set(texts)
    spec = spec if exact else _with_existing_kind(plan, old, spec, texts)
    return _added(plan, renamed, spec, [old], name, exact, updates=updates)


def keyed_spec(engine: Engine, plan: OperatorPlan, texts: Mapping[str, str]) -> WriteSpec:
    """Return the request of rows of several keyed states."""
    refuse_own(texts, ("state",))
    return parsed_spec(engine, plan, KEYED_STATE, texts)


def with_keyed_states(
    plan: OperatorPlan, rows: Rows, spec: WriteSpec, replaced: Sequence[PlannedState], *, updates: bool
) -> OperatorPlan:
    """Return the operator with a keyed state of each column: all of them new, or all of them of the base."""
    known = {state.name: state.origin for state in replaced}
    known |= {name + LAST_ACCESS: origin + LAST_ACCESS for name, origin in known.items()}
    return _added(plan, rows.renamed(known), spec, replaced, exact=bool(replaced), updates=updates)


def _refuse_sessions_afterwards(plan: OperatorPlan, name: str) -> None:
    """Raise OptionError if contents were added under windows that the sessions may not name."""
    for state in plan.of_kind(KEYED):
        if state.name in WINDOW_CONTENTS and state.from_input >= 0:
            raise OptionError(
                f"state {state.name!r} was added before the sessions that say where it is stored",
                operator=plan.label,
                state=name,
                remedy=f"add {name!r} first, or give with_window_state columns {WINDOW_COLUMN!r} and {STATE_WINDOW!r}, "
                f"from which {name!r} is written",
            )


def _with_state_windows(engine: Engine, plan: OperatorPlan, rows: Rows, keys: tuple[str, ...]) -> Rows:
    """Return the rows with their state windows, if the operator's windows merge.

    A row is found by its key and session, or by its state window. A row of another window fails the write, as does one
    with another state window than its session has.
    """
    merging = [state for name in MERGING if (state := plan.state(KEYED, name)) is not None]
    if not merging or WINDOW_COLUMN not in rows.schema.names:
        return rows
    state = merging[0]
    if state.inputs and STATE_WINDOW in rows.schema.names:
        return rows
    if state.inputs:
        raise OptionError(
            f"state {state.name!r} was changed, so the state windows of the sessions are not known",
            operator=plan.label,
            expected=f"column {STATE_WINDOW!r}",
            remedy="add the column, or change the contents first",
        )
    assert plan.base is not None, "the state was read from there"
    base = plan.base
    options = read_options(base)
    options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "table": "keyed_state"}
    options |= {"state": join_names([state.origin])}
    window = rows.schema.field(WINDOW_COLUMN).type
    if pa.types.is_struct(window) and any(pa.types.is_int64(field.type) for field in window):
        options["timestamps"] = "raw"
    lookup = SessionLookup(options, state.origin, state.meta.state_type == "MAP", keys, plan.label)
    return engine.with_state_windows(rows, lookup)


def _add_python(
    engine: Engine, plan: OperatorPlan, name: str, rows: Rows, texts: dict[str, str], *, updates: bool
) -> OperatorPlan:
    """Return the operator with a state of PyFlink replaced or updated; its registration stays."""
    type_options = sorted(TYPE_OPTIONS & set(texts))
    if type_options:
        raise OptionError(
            f"option {type_options[0]!r} does not apply to state of PyFlink",
            operator=plan.label,
            remedy="declare the types of its values with option 'pyTypes'",
        )
    (old,) = (state for state in plan.called(name) if state.name == name and state.kind != TIMERS)
    window = (WINDOW_COLUMN,) if is_namespaced(old.meta) else ()
    column = _only_state_column(rows.schema.names, job_name_of(name), ("key", *window), plan.label)
    stored = with_stored_values(plan, name, column, rows, texts, namespaced=bool(window))
    left = {option: text for option, text in texts.items() if option != "pyTypes"}
    spec = parsed_spec(engine, plan, WINDOW_STATE if window else KEYED_STATE, left)
    return _added(plan, stored, spec, [old], name, exact=True, updates=updates)


def parsed_spec(
    engine: Engine,
    plan: OperatorPlan,
    table: str,
    texts: Mapping[str, str],
    state: str | None = None,
    kind: str | None = None,
) -> WriteSpec:
    """Parse the options of a table that is added to an operator."""
    refuse_own(texts, OWN_OPTIONS)
    for name in OF_REPLACING:
        if name in texts:
            raise OptionError(
                f"option {name!r} does not apply: it is about what a write to an existing savepoint replaces",
                operator=plan.label,
                remedy="leave it out: write() writes a new savepoint, and the old one stays as it is",
            )
    if "pyTypes" in texts:
        raise OptionError(
            "option 'pyTypes' is for state of PyFlink",
            operator=plan.label,
            remedy="leave it out: the types of this state are those of its snapshot",
        )
    known = plan.base.options if plan.base is not None else {}
    texts = {**{name: known[name] for name in ("classes", "kryoTypes") if name in known}, **texts}
    located = located_types(engine.located, texts)
    spec = parse_spec(located, table=table, state=state, kind=kind)
    return replace(spec, uid=plan.identifier.uid, uid_hash=plan.identifier.operator_id.hex)


def _by_existing_name(spec: WriteSpec, names: set[str], existing: str) -> WriteSpec:
    """Return types, kinds and times to live with the column's new name in place of the state's or column's old one."""

    def renamed(values: Mapping[str, str]) -> dict[str, str]:
        by_path = {}
        for path, text in values.items():
            name = next((name for name in names if is_type_of(path, name)), None)
            by_path[path if name is None else existing + path.removeprefix(name)] = text
        return by_path

    ttl = spec.ttl
    if isinstance(ttl, tuple):
        ttl = tuple(existing if column in names else column for column in ttl)
    return replace(spec, types=renamed(spec.types), states=renamed(spec.states), ttl=ttl)


def _with_existing_kind(plan: OperatorPlan, old: PlannedState, spec: WriteSpec, names: Collection[str]) -> WriteSpec:
    """Return the rows of an existing state with its kind, time to live and types, unless given options change them."""
    spec = keeping(spec, {old.origin: old.meta})
    if old.from_input >= 0:
        earlier = plan.inputs[old.from_input].spec
        if "types" not in names:
            own = {path: text for path, text in earlier.types.items() if is_type_of(path, old.origin)}
            spec = replace(spec, types=own)
        if "typesFrom" not in names:
            spec = replace(
                spec,
                type_source=earlier.type_source,
                class_path=earlier.class_path,
                allow_outside=spec.allow_outside or earlier.allow_outside,
            )
        # The savepoint that has the types may record a time to live that was removed.
        spec = replace(spec, ttl=False if spec.ttl is None else spec.ttl)
    return spec


def _added(
    plan: OperatorPlan,
    rows: Rows,
    spec: WriteSpec,
    replaced: Sequence[PlannedState] = (),
    name: str | None = None,
    exact: bool = False,
    *,
    updates: bool = False,
) -> OperatorPlan:
    plan = with_numbers(plan, spec)
    types = None
    base = plan.base
    classes = spec.job_classes
    if base is not None and spec.flink_version is None:
        # Keys and values are written as the base has them, whatever the oldest release that the options would name.
        classes = replace(classes, kryo=first_with_metadata(base.snapshot.metadata.version).kryo)
    if replaced and replaced[0].from_input < 0 and base is not None and spec.type_source is None:
        # Serializers come from the base: here from its headers, and by the same name where the rows are written.
        source = f"{base.path}#{base.operator.operator_id}"
        outside = spec.allow_outside or base.options.get("allowOutside") == "true"
        spec = replace(spec, type_source=StoragePath.of(source, base.options.get(OPTION)), allow_outside=outside)
        recorded = OperatorTypes.of_operator(base.opened) if spec.serializers is None else OperatorTypes.named_by(spec)
        assert recorded is not None
        types = recorded.only({old.origin for old in replaced}).described(classes)
    table = AddedTable.of(plan, rows, spec, types, classes)
    if replaced and exact:
        table = table.registered({old.origin: old.meta for old in replaced})
    elif name is not None:
        table = table.named(name)
    return table.added_to(plan, replaces=bool(replaced), updates=updates)


def refuse_own(options: Mapping[str, str], own: Collection[str]) -> None:
    """Raise OptionError for an option that an argument or the method itself gives."""
    for option in options:
        if option in own:
            raise OptionError(
                f"option '{option}' cannot be given here", remedy="leave it out: the method and its arguments set it"
            )


def refuse_to_choose(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option that chooses one table, where a snapshot is opened."""
    for option in options:
        if option in OF_ONE_TABLE:
            raise OptionError(
                f"option '{option}' cannot be given here: it chooses one table",
                remedy="leave it out, and name what to read of the snapshot: keyed_state(uid), table(name, uid)",
            )


def _only_state_column(columns: Sequence[str], name: str, others: tuple[str, ...], operator: str) -> str:
    """Return the column of the state: the one with its name, or the only one beside key and window."""
    for column in (name, f"state_{name}"):
        if column in columns:
            extra = [c for c in columns if c not in (*others, column, column + LAST_ACCESS)]
            if extra:
                raise OptionError(
                    f"column {extra[0]!r} does not belong to state {name!r}",
                    operator=operator,
                    remedy=f"select the columns that do: {', '.join(map(repr, dict.fromkeys((*others, column))))}",
                )
            return column
    rest = [column for column in columns if column not in others and not column.endswith(LAST_ACCESS)]
    if len(rest) == 1:
        return rest[0]
    raise OptionError(
        f"no column, or more than one, can be state {name!r}",
        operator=operator,
        expected=f"column {name!r}, or one column beside the key ({', '.join(others)})",
        found=", ".join(columns),
        remedy=did_you_mean(name, columns),
    )
