"""Reads all tables of a damaged snapshot, with all options, to their last row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.catalog.table import SCHEMAS
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest

#: Bytes of Arrow that a table may take: for every byte of the file, and for every row or column there is.
PER_BYTE = 4096
AT_LEAST = 64 << 20


#: Processor seconds of one table of a small file.
SECONDS = 5.0


class TooLargeError(AssertionError):
    """A small file became a huge table."""


class TooSlowError(AssertionError):
    """A small file took long."""


def read_table(request: TableRequest, size: int) -> int:
    """All rows of one table, checked; their number."""
    table = open_table(request)
    rows = total = 0
    parallelism = 3 if request.batch_rows % 2 else 1
    for partition in table.partitions(parallelism):
        for batch in partition.batches():
            batch.validate(full=True)
            if batch.schema != table.schema:
                raise AssertionError(f"a batch of {batch.schema} in a table of {table.schema}")
            rows += batch.num_rows
            total += batch.nbytes
            if total > AT_LEAST + PER_BYTE * size:
                raise TooLargeError(f"{total} bytes of table out of {size} bytes of file")
    return rows


def read_everything(path: str, size: int, rng: random.Random) -> tuple[int, int]:
    """All tables of a snapshot: how many were read, and how many were refused."""
    decode = DecodeOptions(
        timestamps=rng.choice(("micros", "truncate", "raw")),
        decimals=rng.choice(("auto", "string", "20,3")),
        row_kind=rng.random() < 0.5,
        pickle=rng.random() < 0.5,
    )
    base = TableRequest(
        path,
        include_key_group=rng.random() < 0.5,
        include_ttl=rng.random() < 0.5,
        batch_rows=rng.choice((1, 7, 1000, 32768)),
        decode=decode,
    )
    read = refused = 0
    for request in _requests(base):
        # Little memory means many small files: that is slow, and enough to do now and then.
        request = replace(request, memory=4096 if rng.random() < 0.05 else request.memory)
        seconds, done = _timed(request, size)
        if seconds > SECONDS and request.memory == base.memory:
            # A kernel that was compiled takes long once.
            seconds, done = _timed(request, size)
            if seconds > SECONDS:
                raise TooSlowError(f"{seconds:.1f} seconds for {request}")
        read, refused = read + done, refused + (not done)
    return read, refused


def _timed(request: TableRequest, size: int) -> tuple[float, bool]:
    """Processor seconds of a table, and whether it was read rather than refused."""
    start = time.process_time()
    try:
        read_table(request, size)
        done = True
    except SavepointError as error:
        done = not str(error)
    return time.process_time() - start, done


def _requests(base: TableRequest) -> Iterator[TableRequest]:
    for name in SCHEMAS:
        yield replace(base, table=name)
    try:
        operators = Snapshot.open(base.path).operators[:4]
        states = _states(base)
    except SavepointError:
        return
    for operator in operators:
        of = replace(base, uid_hash=operator.operator_id.hex)
        for table in (None, "keyed_state", "window_state", "timers"):
            yield replace(of, table=table)
        yield replace(of, keys='[1, "a"]')
        for table, state in states[:12]:
            yield replace(of, table=table, state=state)
            yield replace(of, table=table, state=state, flatten=True)
            yield replace(of, table=table, state=state, raw=(state,))


def _states(base: TableRequest) -> list[tuple[str, str]]:
    table = open_table(replace(base, table="states"))
    found: dict[tuple[str, str], None] = {}
    for partition in table.partitions(1):
        for batch in partition.batches():
            for row in pa.Table.from_batches([batch]).select(["table", "state"]).to_pylist():
                if row["table"] in ("keyed_state", "window_state", "operator_state") and row["state"]:
                    found[row["table"], row["state"]] = None
    return list(found)
