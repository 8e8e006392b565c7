"""Selection and opening of the table that a request names; the entry point of this package for readers."""

from __future__ import annotations

from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint, find_snapshots
from pyspark_savepoint.statebackends.catalog.table import SCHEMAS, CatalogTable
from pyspark_savepoint.statebackends.model.applicability import refuse_useless
from pyspark_savepoint.statebackends.model.request import Table, TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value, is_namespaced
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.surveys.registry import SURVEYS, survey
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.tables.flat_table import FlatTable
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable
from pyspark_savepoint.statebackends.tables.operator_table import OperatorTable
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

OPERATOR_STATE = "operator_state"
KEYED_TABLES = ("keyed_state", "window_state", "timers")
TABLES = (*KEYED_TABLES, OPERATOR_STATE, *SCHEMAS, *SURVEYS)


def open_table(request: TableRequest) -> Table:
    """Return the table of a request; errors name the existing tables, operators and states."""
    if request.table is not None and request.table not in TABLES:
        raise OptionError(f"there is no table {request.table!r}", remedy=did_you_mean(request.table, TABLES))
    if request.table is not None and request.entries is None:
        refuse_useless(request.table, sorted(request.given), path=request.path)
    named = any(name is not None for name in (request.uid, request.uid_hash, request.operator_name))
    if request.table is not None and request.table in SCHEMAS:
        return CatalogTable.of(request, request.table)
    if request.table is not None and request.table in SURVEYS:
        return survey(request, request.table)
    if not named:
        return _without_operator(request)
    savepoint = Savepoint.open(request.path, allow_outside=request.allow_outside, checksums=request.checksums)
    request = request.of_version(savepoint.metadata.version)
    operator = savepoint.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
    try:
        return _of_operator(OpenOperator(savepoint, operator), request)
    except SavepointError as error:
        raise error.with_facts(path=savepoint.path, operator=operator.label) from None


def _without_operator(request: TableRequest) -> Table:
    if request.table is not None or request.state is not None:
        raise OptionError(
            f"option '{'table' if request.table else 'state'}' needs an operator",
            path=request.path,
            remedy="name it with 'uid', 'uidHash' or 'operatorName'; the path without options lists all operators",
        )
    # For a folder of several snapshots, list them instead of raising an error.
    if len(find_snapshots(request.path, depth=0)) != 1 and len(find_snapshots(request.path)) > 1:
        refuse_useless("snapshots", sorted(request.given), path=request.path)
        return CatalogTable.of(request, "snapshots")
    refuse_useless("states", sorted(request.given), path=request.path)
    return CatalogTable.of(request, "states")


def _of_operator(opened: OpenOperator, request: TableRequest) -> Table:
    if request.entries is not None:
        return EntriesTable(opened, request)
    table = request.table or _default_table(opened, request)
    refuse_useless(table, sorted(request.given))
    request.check_key_groups(opened.operator.max_parallelism)
    if "raw" in request.given:
        _check_raw(opened, request, table)
    if table == "timers":
        return TimersTable(opened, request)
    if table == OPERATOR_STATE:
        return OperatorTable(opened, request, _one_state(opened, request))
    if request.flatten:
        return FlatTable(opened, request, table == "window_state")
    return KeyedTable(opened, request, table == "window_state")


def _check_raw(opened: OpenOperator, request: TableRequest, table: str) -> None:
    """Raise an error for names in option ``raw`` that are not states of the operator, which would be ignored."""
    if table == OPERATOR_STATE:
        known = opened.operator_state_names
    elif table == "timers":
        known = ["key", "namespace"]
    else:
        metas = opened.keyed.metas()
        known = [name for name, timer in metas if not timer] + ["key"] + ["window"] * (table == "window_state")
    unknown = [name for name in request.raw if name not in known]
    if unknown:
        raise OptionError(
            f"option 'raw' names {unknown[0]!r}, which table '{table}' of the operator does not have",
            remedy=did_you_mean(unknown[0], known),
        )


def _default_table(opened: OpenOperator, request: TableRequest) -> str:
    names = opened.operator_state_names
    if request.state is not None and request.state in names:
        return OPERATOR_STATE
    if any(subtask.managed_keyed_state is not None for subtask in opened.operator.subtasks.values()):
        return _default_keyed_table(opened)
    if names:
        return OPERATOR_STATE
    raise StateNotFoundError(
        "the operator has no state of its own kind of table",
        path=opened.savepoint.path,
        operator=opened.operator.label,
        remedy="load the path without options to see what the snapshot has",
    )


def _default_keyed_table(opened: OpenOperator) -> str:
    """Return keyed state; windows if there is no keyed state; timers if there is neither."""
    metas = [meta for header in opened.keyed.headers for meta in header.states]
    namespaced = [is_namespaced(meta) for meta in metas if is_key_value(meta)]
    if not namespaced:
        return "timers"
    return "window_state" if all(namespaced) else "keyed_state"


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
            remedy="load the path without options to see what the snapshot has",
        )
    raise OptionError(
        "option 'state' is missing: the operator has several operator states",
        operator=opened.operator.label,
        remedy="name one of " + ", ".join(repr(name) for name in names),
    )
