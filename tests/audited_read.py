"""Separate process, as an audit hook cannot be removed: reads snapshots twice and reports the second read.

An argument is a path, of which all tables are read, or a request in JSON. ``bytes`` are those that the system counts.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest


def read_all(path: str) -> int:
    """All rows of all default tables, timers and lists of a snapshot."""
    requests = [TableRequest(path)]
    for operator in Snapshot.open(path).operators:
        for table in (None, "window_state", "timers"):
            requests.append(TableRequest(path, uid_hash=operator.operator_id.hex, table=table))
    return sum(map(read, requests))


def read(request: TableRequest) -> int:
    """All rows of a table, up to where it cannot be read (tables that an operator does not have, user classes)."""
    rows = 0
    try:
        for partition in open_table(request).partitions(1):
            for batch in partition.batches():
                rows += batch.num_rows
    except SavepointError:
        return rows
    return rows


def bytes_read() -> int:
    """Bytes that this process has read from files so far."""
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


def read_argument(argument: str) -> int:
    """All rows of what an argument names."""
    return read(TableRequest(**json.loads(argument))) if argument.startswith("{") else read_all(argument)


def main() -> None:
    """Read once to load what is loaded on first use, and once more under the audit hook."""
    events: Counter[str] = Counter()
    opened: set[str] = set()
    watching = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching:
            events[event] += 1
            if event == "open" and isinstance(arguments[0], str):
                opened.add(arguments[0])

    for argument in sys.argv[1:]:
        read_argument(argument)
    sys.addaudithook(hook)
    before = bytes_read()
    watching = True
    rows = sum(map(read_argument, sys.argv[1:]))
    watching = False
    size = bytes_read() - before
    print(json.dumps({"rows": rows, "events": events, "opened": sorted(opened), "bytes": size}))


if __name__ == "__main__":
    main()
