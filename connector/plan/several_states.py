"""Rows with a column for each of several states. One edit writes as many of the states as possible.

Separate edits would each describe the operator and read its rows again. Their time would grow with the square of the
number of states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.keyed_edits import python_names, with_states
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, OperatorPlan, PlannedState, expect_name, expect_rows
from pyspark_savepoint.plan.state_inputs import (
    OF_WINDOWS,
    TYPE_OPTIONS,
    add_state,
    expect_updatable,
    keyed_spec,
    with_keyed_states,
)
from pyspark_savepoint.statebackends.python.python_state import PREFIX, job_name_of
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.tables.session_windows import MERGING
from pyspark_savepoint.statebackends.writing.planning.describe_key import key_columns
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec, is_type_of


def add_states(
    engine: Engine,
    plan: OperatorPlan,
    names: str | Sequence[str],
    source: object,
    options: Mapping[str, Any],
    *,
    updates: bool = False,
) -> OperatorPlan:
    """Return the operator with one or several states replaced, or added if they are new. Each state has a column.

    With ``updates``, all states exist already, and a key without a row keeps its values.
    """
    if isinstance(names, str):
        if updates:
            expect_updatable(plan := with_states(plan), [names], options)
        return add_state(engine, plan, names, source, options, updates=updates)
    plan, rows = with_states(plan), expect_rows(engine, source, plan)
    listed = _expect_names(names, plan.label)
    if updates:
        expect_updatable(plan, listed, options)
    texts = to_options(options)
    spec = keyed_spec(engine, plan, texts)
    others = [*key_columns(rows.schema, spec), *((spec.key_group,) if spec.key_group else ())]
    _expect_columns(rows.schema.names, listed, [*others, *OF_WINDOWS], plan.label)
    new, old, alone = _by_edit(plan, listed, texts)
    for group, replaced in ((new, []), ([state.name for state in old], old)):
        if group:
            part = rows.select(*others, *_columns_of(group, rows))
            plan = with_keyed_states(plan, part, narrowed(spec, others, group), replaced, updates=updates)
    windows = [name for name in OF_WINDOWS if name in rows.schema.names]
    for name in alone:
        part = rows.select(*others, *windows, *_columns_of([name], rows))
        plan = add_state(engine, plan, name, part, _options_of(options, spec, others, name), updates=updates)
    return plan


def narrowed(spec: WriteSpec, others: Sequence[str], names: Sequence[str]) -> WriteSpec:
    """Return what options say about the key and some columns."""
    known = {"key", *others, *names}
    return replace(
        spec,
        types={path: text for path, text in spec.types.items() if any(is_type_of(path, name) for name in known)},
        states={column: kind for column, kind in spec.states.items() if column in known},
        ttl=tuple(column for column in spec.ttl if column in known) if isinstance(spec.ttl, tuple) else spec.ttl,
    )


def _options_of(options: Mapping[str, Any], spec: WriteSpec, others: Sequence[str], name: str) -> dict[str, Any]:
    """Return the options of one state."""
    own = narrowed(spec, others, [name])
    given = {"types": own.types, "states": own.states, "ttl": list(own.ttl) if isinstance(own.ttl, tuple) else own.ttl}
    left = {option: value for option, value in options.items() if option not in given}
    return left | {option: value for option, value in given.items() if option in options and value not in ({}, [])}


def _expect_names(names: object, operator: str) -> list[str]:
    """Return names of states; raise OptionError unless they are texts, each given once."""
    if not isinstance(names, list | tuple) or not names:
        raise OptionError(
            "states must be given by their names",
            operator=operator,
            expected="a text, or a list of texts",
            found="an empty list" if isinstance(names, list | tuple) else type_name(names),
            remedy="name each state that the rows have a column of: ['total', 'profile']",
        )
    for name in names:
        expect_name(name, operator)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise OptionError(f"state {repeated[0]!r} is named twice", operator=operator, remedy="name it once")
    return list(names)


def _expect_columns(columns: Sequence[str], names: Sequence[str], others: Sequence[str], operator: str) -> None:
    """Raise OptionError unless each state has a column, and each column is a state's, the key's or a window's."""
    known = {*names, *others, *(name + LAST_ACCESS for name in names)}
    given = set(columns)
    missing = [name for name in names if name not in given]
    if missing:
        raise OptionError(
            f"there is no column {missing[0]!r} for the state",
            operator=operator,
            found=", ".join(columns),
            remedy=did_you_mean(missing[0], columns),
        )
    extra = [column for column in columns if column not in known]
    if extra:
        raise OptionError(
            f"column {extra[0]!r} belongs to no state that is named",
            operator=operator,
            expected=", ".join(names),
            remedy="name the state too, or leave the column out",
        )


def _columns_of(names: Sequence[str], rows: Rows) -> list[str]:
    """Return the columns of some states, with those of their times of last access."""
    columns = set(rows.schema.names)
    return [column for name in names for column in (name, name + LAST_ACCESS) if column in columns]


def _by_edit(
    plan: OperatorPlan, names: Sequence[str], texts: Mapping[str, str]
) -> tuple[list[str], list[PlannedState], list[str]]:
    """Return new states and existing states, one edit for each group, and states that need their own edit."""
    existing = {state.name: state for state in plan.states or () if state.kind != TIMERS}
    python = python_names(plan)
    new: list[str] = []
    old: list[PlannedState] = []
    alone: list[str] = []
    for name in names:
        state = existing.get(name)
        if name in MERGING or PREFIX + job_name_of(name if state is None else state.origin) in python:
            alone.append(name)
        elif state is None:
            new.append(name)
        elif state.kind != KEYED or state.from_input >= 0 or is_namespaced(state.meta) or TYPE_OPTIONS & set(texts):
            alone.append(name)
        else:
            old.append(state)
    return new, old, alone
