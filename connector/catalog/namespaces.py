"""A snapshot as databases in Spark's catalog, created and dropped by SQL statements that run one by one.

Works on classic sessions and on Connect, as only ``spark.sql`` and ``spark.catalog`` are used. A namespace belongs to
one snapshot, recorded in its comment: namespaces of other snapshots are neither used nor dropped. Of a folder each
snapshot has one namespace, and its newest has another, ``latest``, whose views look it up in each query.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from pyspark_savepoint.formats.errors import OptionError, StateExistsError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.snapshot.as_of import LATEST, readable_snapshots
from pyspark_savepoint.local.local_table import SnapshotTable
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import located, reached
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session
from pyspark_savepoint.statebackends.catalog.statements import (
    MARK,
    SOURCE_SUFFIX,
    Names,
    create_statements,
    in_one_namespace,
    name_tables,
    quoted,
)
from pyspark_savepoint.verbs.histories import expect_last

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_savepoint.options.keywords import OpenOptions


def create_tables(
    spark: SparkSession,
    folder: str | PathLike[str],
    *,
    last: int | None = None,
    prefix: str | None = None,
    **options: Unpack[OpenOptions],
) -> list[str]:
    """Create a namespace for each snapshot below a folder, and views for its tables, in Spark's catalog.

    ``chk_42.accounts_keyed_state``, ``chk_42.states``, ``latest.accounts_keyed_state`` and so on. The views of
    ``latest`` read the newest snapshot that is there when a query runs, all others the one that they are named after:
    their comments say which. The columns are those of now. Namespaces that were created from the folder before are
    dropped, also those of snapshots that are gone.

    Args:
        spark: The session, classic or Connect.
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        last: The number of newest snapshots; all by default.
        prefix: Letters, digits and ``_`` that precede the names of namespaces.
        **options: Options of the data source, which apply to all tables.

    Returns:
        The names of the views, as SQL takes them.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        StateExistsError: If a namespace exists that was not created from this folder.
        OptionError: If ``last`` is below 1, or the prefix has other characters.

    Example::

        pyspark_savepoint.create_tables(spark, "/checkpoints/7d2e", last=3)
        spark.sql("SELECT * FROM latest.accounts_keyed_state")

    """
    expect_session(spark, "pyspark_savepoint.create_tables(spark, folder)")
    check_worker_python(spark)
    expect_last(last)
    _expect_prefix(prefix)
    texts, path = to_options(options), located(spark, folder)
    found = [one.path for one in readable_snapshots(reached(path, texts))][-(last or 0) :]
    names, made = Names(), list[str]()
    below = f" in {path}"
    wanted = []
    for place, at in [*((one, posixpath.basename(one)) for one in found), (path, LATEST)]:
        follows = at == LATEST
        name = names.take(f"{prefix}_{at}" if prefix else at)
        states = SnapshotTable.of(
            SavepointReadOptions.parse({**texts, "path": found[-1] if follows else place, "table": "states"})
        )
        mark = f"{MARK}{'the newest snapshot' if follows else place}{below}"
        held = {**texts, "asOf": LATEST} if follows else texts
        wanted.append((in_one_namespace(name_tables(states.rows()), name), place, held, mark))
    _refuse_others(spark, {tables[0].namespace: mark for tables, _, _, mark in wanted}, path)
    _drop(spark, lambda comment: comment.startswith(MARK) and comment.endswith(below))
    for tables, place, held, mark in wanted:
        for _, statement in create_statements(tables, place, held, mark):
            spark.sql(statement)
        made += [table.sql for table in tables]
    return made


def drop_tables(spark: SparkSession, folder: str | PathLike[str]) -> list[str]:
    """Drop the views and namespaces that :func:`pyspark_savepoint.create_tables` created from a folder.

    Args:
        spark: The session, classic or Connect.
        folder: The folder.

    Returns:
        The names of the namespaces that were dropped; one that contains other tables remains.

    Example::

        pyspark_savepoint.drop_tables(spark, "/checkpoints/7d2e")

    """
    expect_session(spark, "pyspark_savepoint.drop_tables(spark, folder)")
    below = f" in {located(spark, folder)}"
    return _drop(spark, lambda comment: comment.startswith(MARK) and comment.endswith(below))


def create_tables_of_snapshot(
    spark: SparkSession, states: DataFrame, path: str, options: Mapping[str, str], prefix: str | None
) -> list[str]:
    """Create namespaces and views for the tables that ``states`` lists, and return the views' names as SQL takes them.

    Those created from the same snapshot before are replaced. Raises StateExistsError if a namespace exists that was not
    created from this snapshot.
    """
    _expect_prefix(prefix)
    path = absolute(path)
    tables = name_tables([row.asDict() for row in states.collect()], prefix)
    mine = {table.namespace: MARK + path for table in tables}
    _refuse_others(spark, mine, path)
    _drop(spark, lambda comment: comment == MARK + path, {name.lower() for name in mine})
    for _, statement in create_statements(tables, path, options):
        spark.sql(statement)
    return [table.sql for table in tables]


def drop_tables_of_snapshot(spark: SparkSession, path: str) -> list[str]:
    """Drop the views and namespaces that were created from a snapshot, and return the names of those namespaces."""
    mark = MARK + absolute(path)
    return _drop(spark, lambda comment: comment == mark)


def _expect_prefix(prefix: Any) -> None:
    if prefix is not None and not prefix.replace("_", "a").isalnum():
        raise OptionError("a prefix may contain letters, digits and _ only", found=prefix)


def _namespaces(spark: SparkSession) -> dict[str, str]:
    """Return the comments of the namespaces of the current catalog, by name in lower case."""
    return {database.name.strip("`").lower(): database.description or "" for database in spark.catalog.listDatabases()}


def _refuse_others(spark: SparkSession, wanted: Mapping[str, str], path: str) -> None:
    """Raise StateExistsError if a namespace exists whose comment is another one than wanted."""
    known = _namespaces(spark)
    others = [name for name, mark in wanted.items() if known.get(name.lower(), mark) != mark]
    if others:
        raise StateExistsError(
            "namespaces with these names exist already and belong to something else",
            path=path,
            found=", ".join(f"{name} ({known[name.lower()] or 'without a comment'})" for name in others),
            remedy="give a prefix, such as create_tables(prefix='shop'); if they belong to another snapshot, call "
            "its drop_tables() first",
        )


def _drop(spark: SparkSession, is_mine: Callable[[str], bool], wanted: Collection[str] | None = None) -> list[str]:
    """Drop views and namespaces with some comments and names, and return the names of the dropped namespaces.

    A namespace that contains other tables remains, with these tables.
    """
    gone = []
    for name, comment in _namespaces(spark).items():
        if not is_mine(comment) or (wanted is not None and name not in wanted):
            continue
        tables = [table for table in spark.catalog.listTables(quoted(name)) if not table.isTemporary]
        views = {table.name for table in tables if table.tableType == "VIEW" and table.description == comment}
        sources = {table.name for table in tables if table.name.endswith(SOURCE_SUFFIX) and table.name not in views}
        for kind, names in (("VIEW", views), ("TABLE", sources)):
            for table in sorted(names):
                spark.sql(f"DROP {kind} IF EXISTS {quoted(name)}.{quoted(table)}")
        if len(views) + len(sources) == len(tables):
            spark.sql(f"DROP SCHEMA IF EXISTS {quoted(name)}")
            gone.append(name)
    return gone
