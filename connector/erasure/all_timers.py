"""Timers of all operators, whatever the types of their keys: keys and namespaces are JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pyspark_savepoint.erasure.tables import batches_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.statebackends.requests.applicability import TIMERS
from pyspark_savepoint.statebackends.rows.descriptors import service_of
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json

OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in (*OPERATOR, "service", "domain")),
        pa.field("timestamp", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("key", "namespace", "note")),
    ]
)
Row = dict[str, Any]


def all_timers(options: Mapping[str, str], path: str) -> Iterator[Row]:
    """Yield a row per timer of any operator; one with a note for timers that cannot be read.

    Args:
        options: The options that apply to all tables of the snapshot.
        path: The snapshot.

    """
    services: dict[str, dict[str, Row]] = {}
    for batch in batches_of(options, path, table="states")[1]:
        for row in batch.to_pylist():
            if row["table"] == TIMERS:
                of_operator = services.setdefault(row["operator_uid_hash"], {})
                of_operator.setdefault(service_of(row["state"])[1], row)
    for uid_hash, of_operator in services.items():
        for service, row in of_operator.items():
            # Keys and namespaces of services differ in type: each is read as a table of its own.
            texts = {"uidHash": uid_hash, "table": TIMERS}
            texts |= {"state": join_names([service])} if len(of_operator) > 1 else {}
            yield from (
                {**{name: row[name] for name in OPERATOR}, **timer} for timer in _of_service(options, path, texts)
            )


def _of_service(options: Mapping[str, str], path: str, texts: Mapping[str, str]) -> Iterator[Row]:
    try:
        schema, batches = batches_of(options, path, **texts)
        kinds = kinds_of(schema)
        for batch in batches:
            for timer in batch.to_pylist():
                yield _common_columns(row_to_json(timer, kinds))
    except SavepointError as error:
        yield {"note": str(error)}


def _common_columns(timer: Row) -> Row:
    """Return the columns that timers of all operators have in common."""
    namespace = timer.get("namespace", timer.get("window"))
    return {
        "service": timer["service"],
        "domain": timer["domain"],
        "timestamp": timer["timestamp"],
        "key": json.dumps(timer["key"], ensure_ascii=False),
        "namespace": None if namespace is None else json.dumps(namespace, ensure_ascii=False),
    }
