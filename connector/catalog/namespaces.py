"""A snapshot as databases in Spark's catalog, created and dropped by SQL statements that run one by one.

Works on classic sessions and on Connect, as only ``spark.sql`` and ``spark.catalog`` are used. A namespace belongs to
one snapshot, recorded in its comment: namespaces of other snapshots are neither used nor dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError, StateExistsError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.statebackends.catalog.statements import (
    MARK,
    SOURCE_SUFFIX,
    NamedTable,
    create_statements,
    name_tables,
    quoted,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def create_tables(
    spark: SparkSession, states: DataFrame, path: str, options: Mapping[str, str], prefix: str | None
) -> list[str]:
    """Create namespaces and views for the tables that ``states`` lists, and return the views' names as SQL takes them.

    Those created from the same snapshot before are replaced. Raises StateExistsError if a namespace exists that was not
    created from this snapshot.
    """
    if prefix is not None and not prefix.replace("_", "a").isalnum():
        raise OptionError("a prefix may contain letters, digits and _ only", found=prefix)
    path = absolute(path)
    tables = name_tables([row.asDict() for row in states.collect()], prefix)
    refuse_others(spark, tables, path)
    drop_tables(spark, path, {table.namespace for table in tables})
    for _, statement in create_statements(tables, path, options):
        spark.sql(statement)
    return [table.sql for table in tables]


def namespaces(spark: SparkSession) -> dict[str, str]:
    """Return the comments of the namespaces of the current catalog, by name in lower case."""
    return {database.name.strip("`").lower(): database.description or "" for database in spark.catalog.listDatabases()}


def refuse_others(spark: SparkSession, tables: Iterable[NamedTable], path: str) -> None:
    """Raise StateExistsError if a namespace exists that was not created from this snapshot."""
    known = namespaces(spark)
    wanted = dict.fromkeys(table.namespace for table in tables)
    others = [name for name in wanted if name.lower() in known and known[name.lower()] != MARK + path]
    if others:
        raise StateExistsError(
            "namespaces with these names exist already and belong to something else",
            path=path,
            found=", ".join(f"{name} ({known[name.lower()] or 'without a comment'})" for name in others),
            remedy="give a prefix, such as create_tables(prefix='shop'); if they belong to another snapshot, call "
            "its drop_tables() first",
        )


def drop_tables(spark: SparkSession, path: str, only: Iterable[str] | None = None) -> list[str]:
    """Drop the views and namespaces that :func:`create_tables` created, and return the names of the dropped namespaces.

    A namespace that contains other tables remains, with these tables.
    """
    mark = MARK + absolute(path)
    wanted = None if only is None else {name.lower() for name in only}
    gone = []
    for name, comment in namespaces(spark).items():
        if comment != mark or (wanted is not None and name not in wanted):
            continue
        tables = [table for table in spark.catalog.listTables(quoted(name)) if not table.isTemporary]
        views = {table.name for table in tables if table.tableType == "VIEW" and table.description == mark}
        sources = {table.name for table in tables if table.name.endswith(SOURCE_SUFFIX) and table.name not in views}
        for kind, names in (("VIEW", views), ("TABLE", sources)):
            for table in sorted(names):
                spark.sql(f"DROP {kind} IF EXISTS {quoted(name)}.{quoted(table)}")
        if len(views) + len(sources) == len(tables):
            spark.sql(f"DROP SCHEMA IF EXISTS {quoted(name)}")
            gone.append(name)
    return gone
