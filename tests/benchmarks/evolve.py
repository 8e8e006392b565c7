"""Memory of ``evolve`` with many keys: states of recorded SQL jobs with more keys, each change in a process of its own.

    python -m tests.benchmarks.evolve [--keys 2000000] [--only WORDS] [--rocksdb]

The savepoints are those of real Flink (``sql-changes`` of ``tests/data``), whose states are replaced by more keys. With
``--rocksdb`` real Flink restores each, and takes a native savepoint of RocksDB, which is what is changed. Each line
has the seconds of the processor, and the memory that the process held at first and at most.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyspark_savepoint
from tests.connector.api.test_evolve import arguments
from tests.data import unpacked
from tests.oracle.sql_changes import BEFORE, Jobs

VERSION, BATCH, ENTRIES = "2.3.0", 50_000, 4
#: The recorded changes, and what is given for each beside what the case gives.
CHANGES: Mapping[str, str] = {
    "sum-added": "an aggregate more, filled",
    "sum-backfilled": "an aggregate more, from a table of its values",
    "sum-from-rows": "an aggregate more, from the rows of the source",
    "sum-removed": "an aggregate less",
    "grouping-column-removed": "a grouping column less, half as many keys",
    "join-column-added": "a column more in a join, filled",
    "join-becomes-left": "an inner join becomes a left one",
    "last-row-column-added": "a column more of last rows, filled",
    "top-5-to-3": "five best rows become three",
}


def folder_of(change: str) -> Path:
    return unpacked() / "sql-changes" / VERSION / change.replace("from-rows", "backfilled")


def grown(path: Path, change: str, keys: int) -> None:
    """Write the savepoint of a change with as many keys: each has what one of the recorded keys has."""
    old = pyspark_savepoint.open(folder_of(change) / "before")
    for uid, table in tables_of(old).items():
        names = table.column_names[1:]
        rows = pa.RecordBatchReader.from_batches(table.schema, batches(table, keys))
        old = old.with_state(uid, names if len(names) > 1 else names[0], rows, replace=True)
    old.write(path)


def tables_of(savepoint: Any) -> dict[str, pa.Table]:
    """Return the rows of all keyed states, by operator."""
    rows = savepoint.states().to_arrow().to_pylist()
    uids = dict.fromkeys(row["operator_uid_hash"] for row in rows if row["table"] == "keyed_state")
    return {uid: shortened(savepoint.keyed_state(uid).to_arrow()) for uid in uids}


def shortened(table: pa.Table) -> pa.Table:
    """Return the rows with a few entries of each map, so that the number of keys makes the size."""
    for place, field in enumerate(table.schema):
        if pa.types.is_map(field.type):
            entries = [None if value is None else value[:ENTRIES] for value in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(entries, field.type))
    return table


def batches(table: pa.Table, keys: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a table again and again, under other keys."""
    for first in range(0, keys, BATCH):
        numbers = pa.array(range(first, min(first + BATCH, keys)))
        rows = table.take(pa.array([number.as_py() % len(table) for number in numbers]))
        kind = table.schema.field(0).type
        fields = [key_texts(numbers, place, kind.num_fields) for place in range(kind.num_fields)]
        key = pa.StructArray.from_arrays(fields, fields=list(kind))
        yield from rows.set_column(0, table.schema.field(0), key).combine_chunks().to_batches()


def key_texts(numbers: pa.Array, place: int, fields: int) -> pa.Array:
    """Return the texts of one field of keys: of two fields, two keys share the first one."""
    shared = fields > 1 and place == 0
    return pa.array([f"key {number.as_py() // 2 if shared else number.as_py()}" for number in numbers])


def native(path: Path, to: Path, change: str, work: Path) -> None:
    """Let real Flink restore a savepoint with RocksDB, and take a native one."""
    case = json.loads((folder_of(change) / "case.json").read_text("utf-8"))
    flink = Jobs(VERSION, work, "rocksdb")
    flink.done(
        plan=folder_of(change) / "old.json", script=case["script"], restore=path.resolve().as_uri(), savepoint=to,
        format="NATIVE", **{"from": BEFORE}, until=BEFORE,
    )  # fmt: skip
    flink.close()


def history_of(change: str, path: Path, keys: int) -> None:
    """Write what a user gives: values by key, or rows of the source's table."""
    table = next(iter(tables_of(pyspark_savepoint.open(folder_of(change) / "before")).values()))
    writer = None
    for batch in batches(table, keys):
        shop = batch.column(0).field(0)
        if change == "sum-backfilled":
            rows = pa.table({"shop": shop, "total": pa.array([7] * len(shop), pa.int32())})
        else:  # as many orders of each shop as the savepoint has counted
            counts = batch.column(1).field(0).to_pylist()
            owner = pa.array([place for place, count in enumerate(counts) for _ in range(count)])
            rows = pa.table({"shop": shop.take(owner), "price": pa.array([7] * len(owner), pa.int32())})
        writer = writer or pq.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    assert writer is not None
    writer.close()


def changed(before: Path, to: Path, change: str, history: Path, figures: Any) -> None:
    """Evolve a savepoint, and send the seconds of the processor and the memory in MB, at first and at most."""
    warnings.simplefilter("ignore")
    folder = folder_of(change)
    given = {name: value for name, value in arguments(folder).items() if name != "backfill"}
    if history.exists():
        given["backfill"] = {"total" if change == "sum-backfilled" else "orders": pq.read_table(history)}
    first, start = most(), time.process_time()
    pyspark_savepoint.open(before).evolve(folder / "old.json", folder / "new.json", **given).write(to)
    figures.put((time.process_time() - start, first, most()))


def most() -> int:
    """Return the most memory that this process held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def apart(function: Any, *given: Any) -> None:
    """Call a function in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=given)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__} failed")


def main() -> None:
    """Measure the changes."""
    command = argparse.ArgumentParser()
    command.add_argument("--keys", type=int, default=2_000_000)
    command.add_argument("--only", default="")
    command.add_argument("--rocksdb", action="store_true")
    given = command.parse_args()
    print("| change | MB of state | seconds | MB at first | MB at most |\n| --- | --- | --- | --- | --- |")
    for change, words in CHANGES.items():
        if given.only and not any(word in change for word in given.only.split(",")):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            before, history = folder / "before", folder / "history.parquet"
            apart(grown, before, change, given.keys)
            if given.rocksdb:
                (folder / "work").mkdir()
                native(before, folder / "native", change, folder / "work")
                shutil.rmtree(before)
                before = folder / "native"
            if change in ("sum-backfilled", "sum-from-rows"):
                apart(history_of, change, history, given.keys)
            figures = multiprocessing.get_context("spawn").SimpleQueue()
            apart(changed, before, folder / "after", change, history, figures)
            seconds, first, last = figures.get()
            size = sum(file.stat().st_size for file in before.rglob("*") if file.is_file()) // 2**20
            print(f"| {words} | {size} | {seconds:.0f} | {first} | {last} |", flush=True)


if __name__ == "__main__":
    main()
