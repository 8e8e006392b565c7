"""Tables of one operator: selects the one for a request, and checks the request."""

from __future__ import annotations

from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, did_you_mean
from pyspark_savepoint.statebackends.python.python_state import is_python_operator, job_name_of, python_states
from pyspark_savepoint.statebackends.python.python_tables import python_keyed_table, python_timers_table
from pyspark_savepoint.statebackends.requests.applicability import OPERATOR_STATE, refuse_useless
from pyspark_savepoint.statebackends.requests.request import Table, TableRequest
from pyspark_savepoint.statebackends.sources.lost_state import LostState
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.tables.flat_table import FlatTable
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable
from pyspark_savepoint.statebackends.tables.named_fields import named_fields
from pyspark_savepoint.statebackends.tables.operator_table import OperatorTable
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable


def operator_table(opened: OpenOperator, request: TableRequest) -> Table:
    """Return the table of an operator that a request names, or else the one that its state has."""
    if request.entries is not None:
        request.entries.check_version(opened.savepoint)
        lost = LostState.of(request.entries)
        return EntriesTable(OpenOperator(opened.savepoint, lost.left_of(opened.operator), lost), request)
    table = request.table or _default_table(opened, request)
    refuse_useless(table, request.explicit_options)
    request.check_key_groups(opened.operator.max_parallelism)
    if "raw" in request.explicit_options:
        _check_raw(opened, request, table)
    if table == OPERATOR_STATE:
        return OperatorTable(opened, request, _one_state(opened, request))
    if is_python_operator(opened):
        if table == "timers":
            return python_timers_table(opened, request)
        return python_keyed_table(opened, request, table == "window_state")
    if request.py_types is not None and "pyTypes" in request.explicit_options:
        raise OptionError("option 'pyTypes' is for operators of PyFlink", operator=opened.operator.label)
    keyed = _keyed_table(opened, request, table)
    if request.field_names is None or table == OPERATOR_STATE:
        return keyed
    state = request.state if request.flatten else None
    return named_fields(keyed, request.field_names, opened.operator, state, request.uid)


def _keyed_table(opened: OpenOperator, request: TableRequest, table: str) -> Table:
    if table == "timers":
        return TimersTable(opened, request)
    if request.flatten:
        return FlatTable(opened, request, table == "window_state")
    namespaced = table == "window_state"
    return KeyedTable(opened, request, namespaced, sessions=namespaced)


def _check_raw(opened: OpenOperator, request: TableRequest, table: str) -> None:
    """Raise an error for names in option ``raw`` that are not states of the operator, which would be ignored."""
    if table == OPERATOR_STATE:
        operator_state_names = opened.operator_state_names
    elif table == "timers":
        operator_state_names = ["key", "namespace"]
    else:
        metas = opened.keyed.metas()
        operator_state_names = [name for name, timer in metas if not timer]
        operator_state_names += (
            [job_name_of(name) for name in python_states(opened)] + ["key"] + ["window"] * (table == "window_state")
        )
    unknown = [name for name in request.raw if name not in operator_state_names]
    if unknown:
        raise OptionError(
            f"option 'raw' names {unknown[0]!r}, which table '{table}' of the operator does not have",
            remedy=did_you_mean(unknown[0], operator_state_names),
        )


def _default_table(opened: OpenOperator, request: TableRequest) -> str:
    names = opened.operator_state_names
    if request.state is not None and request.state in names:
        return OPERATOR_STATE
    if any(subtask.managed_keyed_state is not None for subtask in opened.operator.subtasks.values()):
        return opened.keyed.default_table
    if names:
        return OPERATOR_STATE
    raise StateNotFoundError(
        "the operator has no keyed, window or operator state and no timers",
        path=opened.savepoint.path,
        operator=opened.operator.label,
        remedy="the path without options lists what the snapshot has",
    )


def _one_state(opened: OpenOperator, request: TableRequest) -> str:
    names = opened.operator_state_names
    if request.state is not None:
        return request.state
    if len(names) == 1:
        return names[0]
    if not names:
        raise StateNotFoundError(
            "the operator has no operator state",
            operator=opened.operator.label,
            remedy="the path without options lists what the snapshot has",
        )
    raise OptionError(
        "option 'state' is missing: the operator has several operator states",
        operator=opened.operator.label,
        remedy="name one of " + ", ".join(repr(name) for name in names),
    )
