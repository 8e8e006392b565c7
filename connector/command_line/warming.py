"""Command warm-up: reads every table of a snapshot once, so that compiled kernels are in the cache.

Without a path, a small savepoint of usual types is written to a temporary folder, read, and removed.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from argparse import Namespace
from decimal import Decimal
from tempfile import TemporaryDirectory

import pyarrow as pa

from pyspark_savepoint.command_line.arguments import read_options
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.local.local_savepoint import LocalSavepoint, open_savepoint
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.model.applicability import SURVEYED

DONE = 0
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def warm_up(arguments: Namespace, output: Output) -> int:
    """Read every table of a snapshot."""
    from pyspark_savepoint.formats.kernels._jit import has_cache

    if not has_cache():
        raise OptionError(
            "compiled code cannot be kept: there is no folder for it that can be written",
            found=os.environ.get("NUMBA_CACHE_DIR"),
            remedy="set NUMBA_CACHE_DIR to a folder that this user can write",
        )
    start = time.monotonic()
    if arguments.path is not None:
        read = read_all(open_savepoint(arguments.path, **read_options(arguments)))
    else:
        with TemporaryDirectory() as folder:
            write_sample(folder)
            read = read_all(open_savepoint(folder))
    seconds = time.monotonic() - start
    output.say(f"{read} tables read in {seconds:.1f} s: what they need is compiled, and kept in the cache")
    output.record({"tables": read, "seconds": round(seconds, 3)})
    return DONE


def read_all(savepoint: LocalSavepoint) -> int:
    """Read every table of every operator; return how many. State that cannot be read compiles nothing."""
    tables = {tuple(sorted(row["options"])) for row in savepoint.states().rows()}
    read = 0
    for options in [*map(dict, tables), *({"table": name} for name in SURVEYED)]:
        try:
            name = options.pop("table", None)
            for _ in savepoint.table(name, **options).batches():
                pass
        except SavepointError:
            continue
        read += 1
    return read


def write_sample(folder: str) -> None:
    """Write a savepoint with usual types, as a task of Spark would."""
    from pyspark_savepoint.statebackends.writing.commit.committer import commit
    from pyspark_savepoint.statebackends.writing.commit.write_task import write_rows
    from pyspark_savepoint.statebackends.writing.planning.write_plan import plan_write

    numbers = range(100)
    values = pa.table(
        {
            "count": pa.array(numbers, pa.int32()),
            "total": pa.array(numbers, pa.int64()),
            "share": pa.array([number / 7 for number in numbers]),
            "name": pa.array([f"name {number}" for number in numbers]),
            "active": pa.array([number % 2 == 0 for number in numbers]),
            "price": pa.array([Decimal(number).scaleb(-2) for number in numbers], pa.decimal128(10, 2)),
            "day": pa.array([NOON.date()] * len(numbers)),
            "time": pa.array([NOON] * len(numbers), pa.timestamp("us", tz="UTC")),
            "recent": pa.array([[number, number + 1] for number in numbers], pa.list_(pa.int64())),
            "spent": pa.array([[("EUR", number)] for number in numbers], pa.map_(pa.string(), pa.int64())),
            "profile": pa.array([{"city": "Berlin", "visits": number} for number in numbers]),
        }
    )
    keys = {"of-longs": pa.array(numbers, pa.int64()), "of-strings": pa.array([f"key {number}" for number in numbers])}
    for uid, key in keys.items():
        table = values.append_column("key", key)
        given = {"path": folder, "uid": uid, "key": "key", "maxParallelism": "128"}
        plan = plan_write(SavepointWriteOptions.parse(given).request(False), table.schema)
        commit(plan, [write_rows(plan, 0, table.to_batches())])
