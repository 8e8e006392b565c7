"""Memory of ``evolve`` with many keys: states of recorded SQL jobs with more keys, each change in a process of its own.

    python -m tests.benchmarks.evolve [--keys 2000000] [--only WORDS] [--rocksdb] [--spark]

The savepoints are those of real Flink (``sql-changes`` of ``tests/data``), whose states are replaced by more keys. With
``--rocksdb`` real Flink restores each, and takes a native savepoint of RocksDB, which is what is changed. What is
added is given as a file. Each line has the seconds of the processor, and the memory that the process held at first and
at most. With ``--spark`` these are all processes: the driver, its Java, and the workers of two tasks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyspark_savepoint
from pyspark_savepoint.command_line.row_files import rows_of_file
from tests.connector.api.test_evolve import arguments
from tests.data import unpacked
from tests.oracle.sql_changes import BEFORE, Jobs

VERSION, BATCH, ENTRIES = "2.3.0", 50_000, 4
#: Changes that are recorded under another name.
RECORDED = {
    "sum-from-rows": "sum-backfilled",
    "join-column-given": "join-column-added",
    "join-column-by-key": "join-column-added",
}
#: The names under which something is given.
GIVEN = {
    "sum-backfilled": "total",
    "sum-from-rows": "orders",
    "join-column-given": "item",
    "join-column-by-key": "item",
}
#: The recorded changes, and what is given for each beside what the case gives.
CHANGES: Mapping[str, str] = {
    "sum-added": "an aggregate more, filled",
    "sum-backfilled": "an aggregate more, from a table of its values",
    "sum-from-rows": "an aggregate more, from the rows of the source",
    "sum-removed": "an aggregate less",
    "grouping-column-removed": "a grouping column less, half as many keys",
    "join-column-added": "a column more in a join, filled",
    "join-column-given": "a column more in a join, from a table of its values by another column",
    "join-column-by-key": "a column more in a join, from a table of its values by the key and another column",
    "join-becomes-left": "an inner join becomes a left one",
    "last-row-column-added": "a column more of last rows, filled",
    "top-5-to-3": "five best rows become three",
}


def folder_of(change: str) -> Path:
    return unpacked() / "sql-changes" / VERSION / RECORDED.get(change, change)


def grown(path: Path, change: str, keys: int) -> None:
    """Write the savepoint of a change with as many keys: each has what one of the recorded keys has."""
    old = pyspark_savepoint.open(folder_of(change) / "before")
    for uid, table in tables_of(old).items():
        names = table.column_names[1:]
        rows = pa.RecordBatchReader.from_batches(table.schema, batches(table, keys, numbered=change in RECORDED))
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


def batches(table: pa.Table, keys: int, *, numbered: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield rows of a table again and again, under other keys; ``numbered``: rows of joins have numbers."""
    for first in range(0, keys, BATCH):
        numbers = pa.array(range(first, min(first + BATCH, keys)))
        rows = table.take(pa.array([number.as_py() % len(table) for number in numbers]))
        kind = table.schema.field(0).type
        fields = [key_texts(numbers, place, kind.num_fields) for place in range(kind.num_fields)]
        key = pa.StructArray.from_arrays(fields, fields=list(kind))
        if numbered and "left-records" in table.column_names:
            place = table.schema.get_field_index("left-records")
            rows = rows.set_column(place, table.schema.field(place), with_numbers(rows.column(place), first))
        yield from rows.set_column(0, table.schema.field(0), key).combine_chunks().to_batches()


def with_numbers(column: pa.ChunkedArray, first: int) -> pa.Array:
    """Return maps of rows whose first field is a number that no other row has: four for each key."""
    maps = [
        None if one is None else [({**row, "f0": (first + place) * ENTRIES + number}, count)
        for number, (row, count) in enumerate(one)]
        for place, one in enumerate(column.to_pylist())
    ]  # fmt: skip
    return pa.array(maps, column.type)


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
    for batch in batches(table, keys, numbered=change in RECORDED):
        shop = batch.column(0).field(0)
        if change == "sum-backfilled":
            rows = pa.table({"shop": shop, "total": pa.array([7] * len(shop), pa.int32())})
        elif change.startswith("join"):
            left = batch.column(batch.schema.get_field_index("left-records"))
            owner = pa.array([place for place, one in enumerate(left.to_pylist()) for _ in one or ()], pa.int64())
            number = left.keys.field(0)
            rows = pa.table({"id": number, "item": pa.array([f"item {one}" for one in number.to_pylist()])})
            rows = rows.append_column("shop", shop.take(owner)) if change == "join-column-by-key" else rows
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
    folder, given = folder_of(change), arguments(folder_of(change))
    given.pop("backfill", None)
    if history.exists():
        given["backfill"] = {GIVEN[change]: rows_of_file(history, None, {})}
    first, start = most(), time.process_time()
    pyspark_savepoint.open(before).evolve(folder / "old.json", folder / "new.json", **given).write(to)
    figures.put((time.process_time() - start, first, most()))


def changed_by_spark(before: Path, to: Path, change: str, history: Path, figures: Any) -> None:
    """Do the same with Spark, and send seconds and memory of all processes."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (the other measurements need no Spark)

    warnings.simplefilter("ignore")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    folder, given = folder_of(change), arguments(folder_of(change))
    given.pop("backfill", None)
    if history.exists():
        given["backfill"] = {GIVEN[change]: spark.read.parquet(str(history))}
    spark.range(8).repartition(2).mapInArrow(lambda rows: rows, "id long").count()  # starts the workers
    watched = Watched()
    pyspark_savepoint.Savepoint.load(spark, before).evolve(folder / "old.json", folder / "new.json", **given).write(to)
    figures.put(watched.figures())
    spark.stop()


class Watched:
    """Seconds of the processor and memory of this process and of those below it, looked at ten times a second."""

    def __init__(self) -> None:
        self.first = self.most = sum(memory_of(one) for one in below(os.getpid()))
        self.start, self.is_over = seconds_of_all(), threading.Event()
        self.looking = threading.Thread(target=self._look)
        self.looking.start()

    def _look(self) -> None:
        while not self.is_over.wait(0.1):
            self.most = max(self.most, sum(memory_of(one) for one in below(os.getpid())))

    def figures(self) -> tuple[float, int, int]:
        """Return the seconds of the processor, and the memory in MB at first and at most."""
        self.is_over.set()
        self.looking.join()
        return seconds_of_all() - self.start, self.first // 1024, self.most // 1024


def below(process: int) -> list[int]:
    """Return a process and those that it has started, and they."""
    found = [process]
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text().split():
                found += below(int(child))
    return found


def memory_of(process: int) -> int:
    """Return the memory of a process in KB: of pages that several share, its part."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def seconds_of_all() -> float:
    """Return the seconds of the processor of all processes, and of those below that have ended."""
    ticks = 0
    for process in below(os.getpid()):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


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
    command.add_argument("--spark", action="store_true")
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
            if change in GIVEN:
                apart(history_of, change, history, given.keys)
            figures = multiprocessing.get_context("spawn").SimpleQueue()
            function = changed_by_spark if given.spark else changed
            apart(function, before, folder / "after", change, history, figures)
            seconds, first, last = figures.get()
            size = sum(file.stat().st_size for file in before.rglob("*") if file.is_file()) // 2**20
            print(f"| {words} | {size} | {seconds:.0f} | {first} | {last} |", flush=True)


if __name__ == "__main__":
    main()
