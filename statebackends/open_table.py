"""Selection and opening of the table that a request names; the entry point of this package for readers.

Each kind of table is imported when it is asked for: listing a snapshot needs no code that decodes state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    StateNotFoundError,
    did_you_mean,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.requests.applicability import (
    CATALOG,
    CONNECTORS,
    IN_FLIGHT,
    SURVEYED,
    TABLES,
    refuse_useless,
)
from pyspark_savepoint.statebackends.requests.request import (
    ComparisonRequest,
    FeedRequest,
    FeedVersion,
    Table,
    TableRequest,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_savepoint.statebackends.surveys.survey import Plan


def open_table(request: TableRequest) -> Table:
    """Return the table of a request; errors name the existing tables, operators and states."""
    table = _table(request)
    if request.variants != "json":
        return table
    from pyspark_savepoint.statebackends.rows.json_variants import in_json

    return in_json(table)


def _table(request: TableRequest) -> Table:
    if request.feed is not None:
        return _feed(request, request.feed)
    if request.compared is not None:
        return _compared(request, request.compared)
    if request.table is not None:
        if request.table not in TABLES:
            raise OptionError(f"there is no table {request.table!r}", remedy=did_you_mean(request.table, TABLES))
        if request.entries is None:
            refuse_useless(request.table, request.explicit_options, path=request.path)
        if request.table in OPENERS:
            return OPENERS[request.table](request, request.table)
    if not any(name is not None for name in (request.uid, request.uid_hash, request.operator_name)):
        return _without_operator(request)
    from pyspark_savepoint.statebackends.operator_tables import operator_table
    from pyspark_savepoint.statebackends.sources.open_operator import OPENED

    try:
        opened = OPENED.open(request)
    except OperatorNotFoundError as error:
        raise _explained(error, request) from None
    try:
        return operator_table(opened, request.of_version(opened.savepoint.metadata.version))
    except SavepointError as error:
        raise error.with_facts(path=opened.savepoint.path, operator=opened.operator.label) from None


def _explained(error: OperatorNotFoundError, request: TableRequest) -> OperatorNotFoundError:
    """Return the error with another remedy if the state has the name of an operator: both were swapped."""
    operators = Snapshot.open(request.path, allow_outside=request.allow_outside).operators
    if request.state is not None and request.state in {operator.uid for operator in operators}:
        error.facts["remedy"] = f"name the operator first, then the state: {request.state!r} is an operator"
    return error


def _compared(request: TableRequest, comparison: ComparisonRequest) -> Table:
    """Return the differences of two snapshots."""
    if comparison.states is None:
        from pyspark_savepoint.statebackends.merging.change_counts import ChangeCounts

        before, after = comparison.sides
        assert before is not None
        assert after is not None
        return ChangeCounts((before, after))
    from pyspark_savepoint.statebackends.merging.changed_rows import ChangedRows
    from pyspark_savepoint.statebackends.merging.changed_values import ChangedValues
    from pyspark_savepoint.statebackends.python.python_state import job_name_of
    from pyspark_savepoint.statebackends.python.python_tables import PythonDifferences, PythonTable
    from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable
    from pyspark_savepoint.statebackends.tables.operator_table import OperatorTable
    from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

    tables = [None if side is None else _table(side) for side in comparison.sides]
    python = [table if isinstance(table, PythonTable) else None for table in tables]
    below = [outer.inner if isinstance(outer, PythonTable) else outer for outer in tables]
    keyed = [table if isinstance(table, KeyedTable) else None for table in below]
    if any(isinstance(table, OperatorTable) for table in tables):
        return ChangedValues.of_elements((tables[0], tables[1]), request)
    if any(isinstance(table, TimersTable) for table in below):
        return ChangedValues.of_timers((tables[0], tables[1]), request)
    if not any(python):
        return ChangedRows((keyed[0], keyed[1]), comparison.states, request)
    registered = [name for table in keyed if table is not None for name in table.spec.states]
    states = [name for name in dict.fromkeys(registered) if job_name_of(name) in comparison.states]
    return PythonDifferences.of(ChangedRows((keyed[0], keyed[1]), states, request), python)


def _feed(request: TableRequest, feed: FeedRequest) -> Table:
    """Return the changes of a table from version to version."""
    from pyspark_savepoint.statebackends.connectors.connector_table import ConnectorTable
    from pyspark_savepoint.statebackends.merging.change_feed import ChangeFeed
    from pyspark_savepoint.statebackends.tables.operator_table import OperatorTable

    if request.table is not None:
        refuse_useless(request.table, request.explicit_options, path=request.path)
    tables: list[Table | None] = []
    missing: SavepointError | None = None
    for version in feed.versions:
        try:
            tables.append(None if version is None else _of_version(version))
        except (OperatorNotFoundError, StateNotFoundError) as error:
            # What is not there yet has no rows. What is gone may be of another job: its rows are not deleted.
            missing = missing or error
            if any(table is not None for table in tables):
                raise _absence_in_version(error, version) from None
            tables.append(None)
    if missing is not None and all(table is None for table in tables):
        raise missing
    first = next(table for table in tables if table is not None)
    keyed = not isinstance(first, OperatorTable | ConnectorTable)
    return ChangeFeed.of(tables, feed, request, keyed=keyed)


def _of_version(version: FeedVersion) -> Table | None:
    """Return the table of a version; None if no source has splits yet, as its columns are those of their kind."""
    request = version.request
    if request.table is None and not any((request.uid, request.uid_hash, request.operator_name)):
        raise OptionError(
            "option 'readChangeFeed' needs an operator, or a table",
            path=request.path,
            remedy="name the operator with 'uid', 'uidHash' or 'operatorName', or 'table' = 'splits' or 'offsets'",
        )
    table = _table(request)
    return table if request.table not in CONNECTORS or table.partitions(1) else None


def _absence_in_version(error: SavepointError, version: FeedVersion | None) -> SavepointError:
    """Return the error for what a version does not have, but versions before it do."""
    assert version is not None
    error.facts["found"] = f"version {version.number} does not have it, versions before it do"
    error.facts["remedy"] = (
        "end before it with endingVersion; if the checkpoints below the folder are of several jobs, name the folder of "
        "one"
    )
    return error


def _without_operator(request: TableRequest) -> Table:
    if request.table is not None or request.state is not None:
        raise OptionError(
            f"option '{'table' if request.table else 'state'}' needs an operator",
            path=request.path,
            remedy="name it by 'uid', 'uidHash' or 'operatorName'; the path without options lists all operators",
        )
    # For a folder of snapshots, list them instead of raising an error.
    if len(find_snapshots(request.path, depth=0)) != 1 and find_snapshots(request.path):
        refuse_useless("snapshots", request.explicit_options, path=request.path)
        return _catalog_table(request, "snapshots")
    refuse_useless("states", request.explicit_options, path=request.path)
    return _catalog_table(request, "states")


def _catalog_table(request: TableRequest, name: str) -> Table:
    from pyspark_savepoint.statebackends.catalog.table import CatalogTable

    return CatalogTable.of(request, name)


def _in_flight_table(request: TableRequest, _name: str) -> Table:
    from pyspark_savepoint.statebackends.connectors.in_flight_table import InFlightTable

    return InFlightTable.of(request)


def _connector_table(request: TableRequest, name: str) -> Table:
    from pyspark_savepoint.statebackends.connectors.connector_table import ConnectorTable

    return ConnectorTable.of(request, name)


def _survey(request: TableRequest, name: str) -> Table:
    from pyspark_savepoint.statebackends.surveys.survey import SurveyTable

    return SurveyTable.of(request, *surveys()[name])


def surveys() -> Mapping[str, tuple[Plan, pa.Schema]]:
    """Return how the tables that analyse operator state are planned, and their columns, by name."""
    from pyspark_savepoint.statebackends.surveys import heaviest_keys, sizes, ttl_ages, verification

    return {
        "sizes": (sizes.plan_sizes, sizes.SCHEMA),
        "heaviest_keys": (heaviest_keys.plan_heaviest_keys, heaviest_keys.SCHEMA),
        "ttl_ages": (ttl_ages.plan_ttl_ages, ttl_ages.SCHEMA),
        "verification": (verification.plan_verification, verification.SCHEMA),
    }


#: What opens each table that needs no operator; the others are in ``operator_tables``.
OPENERS: Mapping[str, Callable[[TableRequest, str], Table]] = MappingProxyType(
    {
        **dict.fromkeys(CATALOG, _catalog_table),
        **dict.fromkeys(CONNECTORS, _connector_table),
        **dict.fromkeys(SURVEYED, _survey),
        IN_FLIGHT: _in_flight_table,
    }
)
