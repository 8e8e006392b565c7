"""What a user gives ``evolve`` as history: the rows of tables before the savepoint, or those of an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan, read_plan
from tests.oracle.sql_changes import BEFORE, Case

KINDS = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "TIMESTAMP(3)": pa.timestamp("ms")}
#: What passes rows on as they are.
PASSING = ("exchange", "watermark-assigner", "mini-batch-assigner", "local-group-aggregate", "local-window-aggregate")
NOTHING_OF = re.compile("nothing is computed from the rows of '([^']*)'")


def tables_of(case: Case) -> dict[str, pa.Table]:
    """The rows that the tables of a case have at the savepoint: of a table with a key the last one of each."""
    found = {}
    for text in case.new.tables:
        name, columns = re.match(r"CREATE TABLE (\w+) \((.*)\) WITH", text).groups()  # type: ignore[union-attr]
        kinds = {one[0]: KINDS[one[1]] for one in re.findall(r"(\w+) (BIGINT|INT|STRING|TIMESTAMP\(3\))", columns)}
        key = re.search(r"PRIMARY KEY \((\w+)\)", columns)
        rows = list(_rows(case, name, key[1] if key else ""))
        if re.search("ORDER BY ts (ROWS|RANGE)", case.new.text):
            rows = list(_in_time(rows))
        found[name] = pa.table(
            {one: pa.array([_value(row.get(one), kind) for row in rows], kind) for one, kind in kinds.items()}
        )
    return found


def _rows(case: Case, table: str, key: str) -> Iterator[Mapping[str, Any]]:
    last: dict[Any, Mapping[str, Any]] = {}
    for number, (name, change, row) in enumerate(case.script[:BEFORE]):
        if name == table:
            where = row[key] if key else number
            last.pop(where, None)
            if change in ("+I", "+U"):
                last[where] = row
    yield from last.values()


def _in_time(rows: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that the watermark, the latest time so far, has not reached: OVER drops the others."""
    latest = ""
    for row in rows:
        if row["ts"] > latest:
            latest = row["ts"]
            yield row


def _value(value: Any, kind: pa.DataType) -> Any:
    return datetime.fromisoformat(value) if pa.types.is_timestamp(kind) and value is not None else value


def with_history(
    case: Case, before: LocalSavepoint, plans: list[Path], given: Mapping[str, Any], kind: str
) -> tuple[LocalSavepoint, dict[str, pa.Table]]:
    """Return the evolved savepoint, and what was given of the history; nothing if nothing is needed.

    ``kind``: ``tables`` are given, or the ``rows`` of the operators, as far as they are rows of a table.
    """
    given = {name: one for name, one in given.items() if name != "fill"}
    tables = tables_of(case)
    history = tables if kind == "tables" else dict(_own(case, before, plans, tables))
    while True:
        try:
            return before.evolve(*plans, backfill=history, **given), history
        except OptionError as error:
            other = NOTHING_OF.search(str(error))
            name = other[1] if other else ""
            if name not in history:
                raise
            history = {one: rows for one, rows in history.items() if one != name}


def _own(
    case: Case, before: LocalSavepoint, plans: list[Path], tables: Mapping[str, pa.Table]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of operators whose input is what a table has, with columns that the table has."""
    plan = read_plan(plans[1], "new_plan")
    for name in evolution_of(*plans, check_options(), before._snapshot()).given_rows:
        number, _, side = name.partition(".")
        if not number.isdecimal():
            continue
        node = plan.nodes[int(number)]
        below = _table_below(plan, plan.inputs(node)[int(side == "right")])
        if below is None:
            continue
        rows, source = below
        names = [column.name for column in rows.output]
        table = next(
            (one for of, one in tables.items() if f"`{of}`" in str(source.attributes["scanTableSource"])), None
        )
        if table is not None:
            yield name, table.select([one for one in names if one in table.column_names])


def _table_below(plan: Plan, node: Node) -> tuple[Node, Node] | None:
    """Return the node whose rows an operator gets, and the source that they are of, if nothing filters them."""
    while node.kind in PASSING:
        (node,) = plan.inputs(node)
    rows = node
    while node.kind in (*PASSING, "calc"):
        if node.attributes.get("condition") is not None:
            return None
        (node,) = plan.inputs(node)
    if node.kind != "table-source-scan" or "predicates" in str(node.attributes):
        return None
    return rows, node
