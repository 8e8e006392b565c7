"""Prints a digest of every table of some snapshots, one per line, to compare two processes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest


def requests(path: str) -> Iterator[TableRequest]:
    """All tables of keys and timers of a snapshot."""
    for operator in Snapshot.open(path).operators:
        for table in (None, "window_state", "timers"):
            yield TableRequest(path, uid_hash=operator.operator_id.hex, table=table, include_key_group=True)


def digest(request: TableRequest) -> str:
    """The rows, in order of their text, because hash tables have no fixed order."""
    rows: list[str] = []
    try:
        for partition in open_table(request).partitions(2):
            for batch in partition.batches():
                rows += map(repr, batch.to_pylist())
    except SavepointError as error:
        return f"{error.message} {len(rows)}"
    return f"{hashlib.sha256(chr(10).join(sorted(rows)).encode()).hexdigest()} {len(rows)}"


for snapshot in sys.argv[1:]:
    for request in requests(snapshot):
        print(request.uid_hash, request.table, digest(request))
