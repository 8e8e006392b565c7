"""Tables to add to an operator: their descriptors, determined and checked before any job runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.io.storage_options import OPTION
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import located_types
from pyspark_savepoint.options.schema import arrow_schema
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    TIMERS,
    OperatorPlan,
    OperatorRows,
    PlannedState,
    StateInput,
)
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor, OperatorStateDescriptor, StateKind
from pyspark_savepoint.statebackends.model.state_column import LAST_ACCESS, has_ttl
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders, is_namespaced
from pyspark_savepoint.statebackends.writing.planning.describe import describe_keyed, describe_operator_state
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    KEYED_STATE,
    OPERATOR_STATE,
    WINDOW_STATE,
    WriteRequest,
)

#: Options that change a state's type, kind or time to live.
SAID = {"types", "typesFrom", "states", "ttl"}
#: Options that the fluent API sets itself, so users cannot.
OWN_OPTIONS = ("uid", "uidHash", "operatorName", "table", "path", "fragment", "header")


def expect_frame(frame: object, plan: OperatorPlan) -> None:
    """Raise OptionError unless the rows are a DataFrame."""
    if not isinstance(frame, DataFrame):
        raise OptionError(
            "state must be given as a DataFrame",
            operator=plan.label,
            found=type(frame).__name__,
            remedy="spark.createDataFrame(...), or a table of the savepoint: sp.keyed_state(uid)",
        )


def put_table(plan: OperatorPlan, frame: DataFrame, table: str, options: Mapping[str, Any]) -> OperatorPlan:
    """Return the operator with the states of a table added; raise StateExistsError if it has one of them."""
    expect_frame(frame, plan)
    return _put(with_states(plan), frame, table, to_options(options), None)


def put_operator_state(
    plan: OperatorPlan, kind: str, name: str, frame: DataFrame, options: Mapping[str, Any]
) -> OperatorPlan:
    """Return the operator with a list, union or broadcast state added; raise StateExistsError if it has the state."""
    texts = to_options(options)
    refuse_own(texts, ("state", "kind"))
    return put_table(plan, frame, OPERATOR_STATE, {**texts, "state": name, "kind": kind})


def put_rows(plan: OperatorPlan, rows: OperatorRows, options: Mapping[str, Any]) -> OperatorPlan:
    """Return a new operator with the state that user functions create."""
    plan = with_states(plan)
    texts = to_options(options)
    wanted = texts.pop("maxParallelism", None)
    if wanted not in (None, str(plan.max_parallelism)):
        raise _other_max_parallelism(plan, wanted)
    for put in rows.operator_tables({"maxParallelism": str(plan.max_parallelism), **texts}):
        plan = plan.with_put(put, planned(put.descriptor), replaces=False)
    return plan


def put_state(plan: OperatorPlan, name: str, frame: DataFrame, options: Mapping[str, Any]) -> OperatorPlan:
    """Return the operator with one state replaced, or added if it has none of that name.

    A replaced state keeps its exact serializers unless option ``types`` changes them; its kind, time to live and
    namespace are kept even then, unless ``states`` and ``ttl`` change them.
    """
    expect_frame(frame, plan)
    plan = with_states(plan)
    there = [state for state in plan.states or () if state.name == name and state.kind != TIMERS]
    texts = to_options(options)
    if there and there[0].kind == OPERATOR:
        texts = {"kind": there[0].meta.state_type.lower(), **texts, "state": name}
        return _put(plan, frame, OPERATOR_STATE, texts, there[0])
    old = there[0] if there else None
    table = WINDOW_STATE if old is not None and is_namespaced(old.meta) else KEYED_STATE
    key = SavepointWriteOptions.parse({"path": "/", "uid": "any", **texts}).key or ("key",)
    column = _only_state_column(frame, name, (*key, "window"), plan.label)
    # Types of an existing state are found by its name in the base.
    known = old.origin if old is not None else name
    renamed = frame.withColumnsRenamed({column: known, column + LAST_ACCESS: known + LAST_ACCESS})
    if old is None:
        return _put(plan, renamed, table, texts, None, name)
    texts = _by_known_name(texts, {name, column}, known)
    exact = old.put < 0 and not SAID & set(texts)
    return _put(plan, renamed, table, texts if exact else _kept(plan, old, texts), old, name, exact)


def _by_known_name(texts: Mapping[str, str], names: set[str], known: str) -> dict[str, str]:
    """Return the options with the column's new name in place of the state's or column's old one."""
    renamed = dict(texts)
    for option in ("types", "states"):
        if option in texts:
            given: dict[str, str] = json.loads(texts[option])
            for path in list(given):
                head, dot, rest = path.partition(".")
                if head in names:
                    given[known + dot + rest] = given.pop(path)
            renamed[option] = json.dumps(given)
    return renamed


def _kept(plan: OperatorPlan, old: PlannedState, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the options for an existing state: its kind, time to live and namespace, unless options change them."""
    if old.meta.kind is BackendStateType.KEY_VALUE_V2:
        raise UnsupportedStateError(
            "the type of a state of Flink's asynchronous API cannot be changed",
            operator=plan.label,
            state=old.name,
            remedy="leave 'types', 'states' and 'ttl' out: its values can be replaced as they are",
        )
    timed = has_ttl(old.meta)
    if timed and texts.get("ttl") == "false" and "types" not in texts:
        raise OptionError(
            "the time to live can only be removed together with naming the type",
            operator=plan.label,
            found=old.meta.value_serializer.flink_type,
            remedy=f"types={{{old.name!r}: ...}} names the type of its values, beside ttl=False",
        )
    kept = {}
    if old.put >= 0:
        earlier = plan.puts[old.put].options
        types: dict[str, str] = json.loads(earlier.get("types", "{}"))
        own = {path: text for path, text in types.items() if path.partition(".")[0] == old.origin}
        kept = {"types": json.dumps(own)} if own else {}
        kept |= {"typesFrom": earlier["typesFrom"]} if "typesFrom" in earlier else {}
    if "states" not in texts and old.meta.state_type in [kind.value for kind in StateKind]:
        kept["states"] = json.dumps({old.origin: old.meta.state_type.lower()})
    if "ttl" not in texts and timed:
        kept["ttl"] = "true"
    return {**kept, **texts}


def _put(
    plan: OperatorPlan,
    frame: DataFrame,
    table: str,
    options: Mapping[str, str],
    replaced: PlannedState | None,
    name: str | None = None,
    exact: bool = False,
) -> OperatorPlan:
    refuse_own(options, OWN_OPTIONS)
    if replaced is not None:
        options = _types_from(plan, replaced, options)
    options = {**located_types(frame.sparkSession, options), "table": table}
    given = {"path": "/", "uidHash": plan.identifier.operator_id.hex, **options}
    request = replace(SavepointWriteOptions.parse(given).request(overwrite=False), uid=plan.identifier.uid)
    schema = arrow_schema(frame.schema)
    if table == OPERATOR_STATE:
        described = describe_operator_state(schema, request)
        return plan.with_put(StateInput(frame, options, described), planned(described), replaced is not None)
    keyed = describe_keyed(schema, request, _headers(plan))
    states = planned(keyed)
    if replaced is not None and exact:
        # Exactly the registration of the base, including what values do not show.
        states = [replace(states[0], meta=replaced.meta)]
    elif name is not None:
        states = [replace(states[0], meta=replace(states[0].meta, name=name))]
    _check_numbers(plan, request)
    return plan.with_put(StateInput(frame, options, keyed), states, replaced is not None)


def refuse_own(options: Mapping[str, str], own: Collection[str]) -> None:
    """Raise OptionError for an option that an argument or the method itself gives."""
    for option in options:
        if option in own:
            raise OptionError(
                f"option '{option}' is not given here", remedy="leave it out: the method or its arguments give it"
            )


def planned(described: KeyedDescriptor | OperatorStateDescriptor) -> list[PlannedState]:
    """Return the states of a table."""
    if isinstance(described, OperatorStateDescriptor):
        return [PlannedState(OPERATOR, described.meta_info(), described.name)]
    return [
        PlannedState(TIMERS if state.kind is StateKind.TIMER else KEYED, state.meta_info(), state.name)
        for state in described.states
    ]


def _headers(plan: OperatorPlan) -> OperatorHeaders | None:
    """Return the headers of the planned operator, which an added table must match in its keys."""
    if plan.key_serializer is None:
        return None
    metas = tuple(state.meta for state in plan.of_kind(KEYED, TIMERS))
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, metas)
    operator = OperatorState(plan.identifier.operator_id, 1, plan.max_parallelism, uid=plan.identifier.uid)
    return OperatorHeaders(operator, (), (header,))


def _check_numbers(plan: OperatorPlan, request: WriteRequest) -> None:
    if request.max_parallelism not in (None, plan.max_parallelism):
        raise _other_max_parallelism(plan, request.max_parallelism)
    if plan.base is not None and request.parallelism not in (None, plan.base.operator.parallelism):
        raise OptionError(
            "option 'parallelism' differs from the operator's, whose subtasks have state",
            operator=plan.label,
            expected=plan.base.operator.parallelism,
            found=request.parallelism,
            remedy="leave the option out: a job restores the savepoint at any parallelism",
        )


def _other_max_parallelism(plan: OperatorPlan, found: object) -> OptionError:
    return OptionError(
        "option 'maxParallelism' differs from the operator's",
        operator=plan.label,
        expected=plan.max_parallelism,
        found=found,
        remedy="set it with Savepoint.create(spark, max_parallelism=...) for new operators, "
        "with_max_parallelism(...) for existing ones",
    )


def _types_from(plan: OperatorPlan, state: PlannedState, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, with serializers from the base if the state is there and no option overrides them."""
    if state.put >= 0 or plan.base is None or "typesFrom" in options:
        return dict(options)
    storage = {name: text for name, text in plan.base.options.items() if name == OPTION}
    return {**storage, "typesFrom": f"{plan.base.path}#{plan.base.operator.operator_id}", **options}


def _only_state_column(frame: DataFrame, name: str, others: tuple[str, ...], operator: str) -> str:
    """Return the column of the state: the one with its name, or the only one beside key and window."""
    for column in (name, f"state_{name}"):
        if column in frame.columns:
            extra = [c for c in frame.columns if c not in (*others, column, column + LAST_ACCESS)]
            if extra:
                raise OptionError(
                    f"column {extra[0]!r} does not belong to state {name!r}",
                    operator=operator,
                    remedy=f"select what is: df.select({', '.join(map(repr, (*others[:-1], column)))})",
                )
            return column
    rest = [column for column in frame.columns if column not in others and not column.endswith(LAST_ACCESS)]
    if len(rest) == 1:
        return rest[0]
    raise OptionError(
        f"which column is state {name!r}?",
        operator=operator,
        expected=f"column {name!r}, or one column beside the key ({', '.join(others[:-1])})",
        found=", ".join(frame.columns),
        remedy=did_you_mean(name, frame.columns),
    )
