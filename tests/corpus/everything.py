"""Reads all that a snapshot lists, by the options that the listing gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import UndecodableStateError, UnsupportedStateError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable
from tests.corpus.expected import read
from tests.corpus.written import EXACT

KEYED = ("keyed_state", "window_state", "timers")
#: The names of an operator's options, as a request has them.
NAMES = {"uid": "uid", "uidHash": "uid_hash", "table": "table", "state": "state"}


def states_of(path: Path) -> list[dict[str, Any]]:
    """The listing of a snapshot."""
    listed: list[dict[str, Any]] = read(TableRequest(str(path))).to_pylist()
    return listed


def request_of(path: Path, listed: dict[str, Any], decode: DecodeOptions = EXACT) -> TableRequest:
    """The request that a row of the listing asks for."""
    options = {NAMES[name]: value for name, value in listed["options"]}
    keyed = listed["table"] in KEYED
    return TableRequest(str(path), **options, include_key_group=keyed, decode=decode)


def read_state(path: Path, listed: dict[str, Any], decode: DecodeOptions = EXACT) -> pa.Table | None:
    """The rows of a listed state; None where they are in files that are refused, with a note in the listing."""
    try:
        return read(request_of(path, listed, decode), parallelism=3)
    except UnsupportedStateError:
        assert "canonical savepoint" in listed["note"]
        return None


def misplaced_keys(path: Path, listed: dict[str, Any]) -> Iterator[str]:
    """Yield keys that are not in the key group of their hash."""
    request = request_of(path, listed, DecodeOptions())
    opened = open_table(request)
    assert isinstance(opened, (KeyedTable, TimersTable))
    table = read(request).combine_chunks()
    if not table.num_rows:
        return
    operator = Snapshot.open(request.path).operator(uid=request.uid, uid_hash=request.uid_hash)
    keys = table.column("key").chunk(0)
    try:
        hashes = _key_serializer(opened).java_hash(keys).tolist()
    except UndecodableStateError:
        return
    for key, code, group in zip(keys.to_pylist(), hashes, table.column("key_group").to_pylist(), strict=True):
        if key_group_for_hash(code, operator.max_parallelism) != group:
            yield f"{path.name}: {listed['state']}: key {key} in key group {group}"


def _key_serializer(table: KeyedTable | TimersTable) -> TypeSerializer:
    if table.headers.headers:
        return table.headers.headers[0].key_serializer
    assert isinstance(table, TimersTable)
    return table.raw[0].queues(DecodeOptions())[0].key
