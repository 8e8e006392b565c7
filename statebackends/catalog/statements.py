"""SQL that makes a database of a snapshot: a namespace for every operator and a view for every table.

::

    CREATE SCHEMA accounts COMMENT '...'
    CREATE TABLE accounts.keyed_state__src USING savepoint OPTIONS (paths '["..."]', uid 'accounts', ...)
    CREATE VIEW accounts.keyed_state AS SELECT * FROM accounts.keyed_state__src WITH (paths = '["..."]', ...)

Spark keeps the schema of such a table, but loses its options when it is queried. Each table therefore has a view that
repeats the options, and users query the views. Names: a namespace is the operator's uid (else its name, else its hash);
its tables are ``keyed_state``, ``window_state``, ``timers``, and every operator state by its own name. Spark's names
are case-insensitive and consist of letters, digits and ``_``: other characters become ``_``, and if two names become
equal, the later one gets a number (``a_b``, ``a_b_2``). The snapshot's own tables are in namespace ``savepoint``. A
prefix is put before all operator names, and replaces ``savepoint``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.statebackends.catalog.rows import display_name
from pyspark_savepoint.statebackends.requests.applicability import KEYED_TABLES

SNAPSHOT_NAMESPACE = "savepoint"
#: The tables of the whole snapshot, by their names in the namespace.
SNAPSHOT_TABLES = {
    "states": "states",
    "operators": "metadata",
    "sizes": "sizes",
    "heaviest_keys": "heaviest_keys",
    "ttl_ages": "ttl_ages",
}
SOURCE_SUFFIX = "__src"
MARK = "made by pyspark_savepoint from "

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table and its names in SQL; ``operator`` is None for a table of the whole snapshot."""

    namespace: str
    name: str
    operator: str | None
    options: Mapping[str, str]

    @property
    def sql(self) -> str:
        return f"{quoted(self.namespace)}.{quoted(self.name)}"


class Names:
    """Allocator of distinct names that are valid in SQL.

    >>> names = Names()
    >>> names.take("orders-per-minute"), names.take("orders_per_minute"), names.take("7th")
    ('orders_per_minute', 'orders_per_minute_2', '_7th')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        #: The last number that was tried for a name: every number is tried once.
        self._numbers: dict[str, int] = {}

    def take(self, text: str) -> str:
        """Return the name for a text."""
        name = re.sub(r"[^A-Za-z0-9_]", "_", text) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        folded, unique = name.lower(), name
        while unique.lower() in self._taken:
            number = self._numbers[folded] = self._numbers.get(folded, 1) + 1
            unique = f"{name}_{number}"
        self._taken.add(unique.lower())
        return unique


def name_tables(states: Iterable[Row], prefix: str | None = None) -> list[NamedTable]:
    """Return the tables of the rows of table ``states``, in their order, with their names."""
    namespaces = Names()
    root = namespaces.take(prefix or SNAPSHOT_NAMESPACE)
    tables = [NamedTable(root, name, None, {"table": table}) for name, table in SNAPSHOT_TABLES.items()]
    operators: dict[str, list[Row]] = {}
    for row in states:
        if row.get("operator_uid_hash") is not None and row.get("table") in (*KEYED_TABLES, "operator_state"):
            operators.setdefault(row["operator_uid_hash"], []).append(row)
    for uid_hash, rows in operators.items():
        label = display_name(rows[0]["operator_uid"], rows[0]["operator_name"], otherwise=f"operator_{uid_hash}")
        namespace = namespaces.take(f"{prefix}_{label}" if prefix else label)
        tables += [NamedTable(namespace, name, label, options) for name, options in _tables(rows)]
    return tables


def _tables(rows: list[Row]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield names and options of an operator's tables."""
    names = Names(KEYED_TABLES)
    reads = {key: value for key, value in dict(rows[0]["options"]).items() if key in ("uid", "uidHash")}
    for table in KEYED_TABLES:
        mine = [row for row in rows if row["table"] == table]
        kinds = {row.get("namespace_type") for row in mine}
        if table == "window_state" and len(kinds) > 1:
            # Windows of different kinds cannot share a table.
            for row in mine:
                yield names.take(f"window_state_{row['state']}"), {**reads, "table": table, "state": row["state"]}
        elif mine:
            yield table, {**reads, "table": table}
    for row in rows:
        if row["table"] == "operator_state":
            yield names.take(row["state"]), {**reads, "table": "operator_state", "state": row["state"]}


def in_one_namespace(tables: Iterable[NamedTable], namespace: str) -> list[NamedTable]:
    """Return the tables of a snapshot in one namespace: ``accounts_keyed_state``, and ``states`` of the snapshot."""
    names = Names()
    named = [(table, table.name if table.operator is None else f"{table.operator}_{table.name}") for table in tables]
    return [NamedTable(namespace, names.take(name), table.operator, table.options) for table, name in named]


def create_statements(
    tables: Iterable[NamedTable], path: str, options: Mapping[str, str], mark: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield namespaces and statements in order of execution; ``options`` are added to those of every table.

    Comments say what the tables are of, by default the snapshot at the path.
    """
    written_names = set()
    comment = literal(mark or MARK + path)
    for table in tables:
        if table.namespace not in written_names:
            written_names.add(table.namespace)
            yield table.namespace, f"CREATE SCHEMA {quoted(table.namespace)} COMMENT {comment}"
        # With option "path", Spark would treat the snapshot as the table's own files: dropping the table must never
        # delete them, and Spark cannot access object stores without a configured Hadoop client.
        inherited_options = {name: text for name, text in options.items() if name not in table.options}
        table_options = {"paths": json.dumps([path]), **inherited_options, **table.options}
        if inherited_options:
            table_options["inherited"] = ",".join(inherited_options)
        source = f"{quoted(table.namespace)}.{quoted(table.name + SOURCE_SUFFIX)}"
        listed = ", ".join(f"{quoted(name)} {literal(value)}" for name, value in table_options.items())
        again = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in table_options.items())
        yield table.namespace, f"CREATE TABLE {source} USING savepoint OPTIONS ({listed}) COMMENT {comment}"
        view = f"CREATE VIEW {table.sql} COMMENT {comment} AS SELECT * FROM {source} WITH ({again})"  # noqa: S608
        yield table.namespace, view


def drop_statements(tables: Iterable[NamedTable]) -> Iterator[tuple[str, str]]:
    namespaces: dict[str, None] = {}
    for table in tables:
        namespaces[table.namespace] = None
        source = f"{quoted(table.namespace)}.{quoted(table.name + SOURCE_SUFFIX)}"
        yield table.namespace, f"DROP VIEW IF EXISTS {table.sql}"
        yield table.namespace, f"DROP TABLE IF EXISTS {source}"
    for namespace in namespaces:
        yield namespace, f"DROP SCHEMA IF EXISTS {quoted(namespace)}"


def quoted(name: str) -> str:
    """Quote a name for SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    r"""Quote a text for SQL; ``$`` is escaped, because Spark substitutes variables for ``${name}``.

    >>> print(literal("it's ${x}"))
    'it\'s \u0024{x}'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
