"""Where keys have state: in which operators, tables and states, whatever the types of their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyspark_savepoint.erasure.sought import KEY, NONE, KeysOfOperator, fitting
from pyspark_savepoint.erasure.tables import KEYED_TABLES, NO_STATE, batches_of
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json, to_json

NAMESPACES, TIMER = ("window", "namespace"), ("timestamp", "domain")
SCHEMA = pa.schema(
    [
        pa.field(name, pa.string(), nullable=name != KEY)
        for name in (
            "operator_uid",
            "operator_uid_hash",
            "operator_name",
            "table",
            "state",
            KEY,
            "window",
            "value",
            "note",
        )
    ]
)
Row = dict[str, Any]


def rows_of_keys(plan: SavepointPlan, options: Mapping[str, str], path: str, values: Sequence[Any]) -> Iterator[Row]:
    """Yield a row per state of the keys in any operator: keys, windows and values as JSON.

    Args:
        plan: The operators.
        options: The options that apply to all tables of the snapshot.
        path: The snapshot.
        values: The keys.

    Raises:
        OptionError: If no operator can have any of the keys.

    """
    states = [row for batch in batches_of(options, path, table="states")[1] for row in batch.to_pylist()]
    types: dict[str, str] = {}
    fits = False
    for operator in map(with_states, plan.operators):
        keys = KeysOfOperator.of(operator)
        own = operator.identifier.operator_id.hex
        mine = [row for row in states if row["operator_uid_hash"] == own and row["table"] in KEYED_TABLES]
        if keys is None or not mine:
            continue
        keys.add_values(values)
        types[operator.label] = str(mine[0]["key_type"])
        fits = fits or bool(keys.fits)
        identity = {name: mine[0][name] for name in ("operator_uid", "operator_uid_hash", "operator_name")}
        for table in dict.fromkeys(row["table"] for row in mine) if keys.fits else ():
            by_type: dict[Any, list[str]] = {}
            for row in mine:
                if row["table"] == table:
                    by_type.setdefault(row["namespace_type"], []).append(row["state"])
            for together in by_type.values():
                texts = {"uidHash": own, "table": table}
                texts |= {"state": join_names(together)} if len(by_type) > 1 else {}
                yield from (
                    {**identity, "table": table, **row} for row in _of_table(keys, options, path, values, texts)
                )
    if not fits:
        raise OptionError(
            "no operator can have any of the keys",
            path=path,
            found=", ".join(sorted({type(value).__name__ for value in values})),
            expected="; ".join(f"{label}: {kind}" for label, kind in types.items()) or "an operator with keyed state",
            remedy="give keys of these types: 1042 is a number, '1042' a text",
        )


def _of_table(
    keys: KeysOfOperator, options: Mapping[str, str], path: str, values: Sequence[Any], texts: Mapping[str, str]
) -> Iterator[Row]:
    """Yield the states of the keys in a table; a row with a note if it cannot be read."""
    fitted = [fitting(value, kind) for kind in dict.fromkeys((keys.kind, keys.column_type)) for value in values]
    json_keys = json.dumps([to_json(value) for value in fitted if value is not NONE])
    try:
        try:
            schema, batches = batches_of(options, path, **texts, **to_options({"keys": json_keys}))
        except SavepointError:  # of a type that can be read and not written: all rows are read
            schema, batches = batches_of(options, path, **texts)
        kinds = kinds_of(schema)
        for batch in batches:
            for row in batch.filter(keys.mask(batch)).to_pylist():
                yield from _of_row(row_to_json(row, kinds), texts["table"])
    except SavepointError as error:
        note = str(error)
        yield {"state": None, KEY: "", "window": None, "value": None, "note": note}


def _of_row(row: Row, table: str) -> Iterator[Row]:
    window = next((row[name] for name in NAMESPACES if row.get(name) is not None), None)
    common = {KEY: json.dumps(row[KEY], ensure_ascii=False), "window": window if window is None else _text(window)}
    if table == "timers":
        yield {**common, "state": row["service"], "value": _text({name: row[name] for name in TIMER}), "note": None}
        return
    for name, value in row.items():
        if name not in NO_STATE and value is not None:
            yield {**common, "state": name, "value": _text(value), "note": None}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
