"""Files that the driver opens for one query: a process per step, as Spark has, each forked from this one.

Arguments: a savepoint to load what is loaded when it is first needed, a savepoint that is measured (a copy of the
first), and steps as JSON: options of a read and ``schema``, ``partitions``, or of a write and ``plan``, ``commit``.
What is printed is JSON: per step the number of openings of each file of the savepoint, and the bytes read.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa

from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.open_table import open_table
from tests.audited_read import bytes_read

Step = Callable[[], Any]


def counted(root: str, step: Step) -> tuple[Any, dict[str, int], int]:
    """Run a step in a process of its own; return its result, the openings by file, and the bytes read."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiving)
        opened: Counter[str] = Counter()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(root):
                opened[os.path.relpath(arguments[0], root)] += 1

        sys.addaudithook(hook)
        before = bytes_read()
        result = step()
        size = bytes_read() - before
        with os.fdopen(sending, "wb") as pipe:
            pipe.write(cloudpickle.dumps((result, dict(opened), size)))
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    found: tuple[Any, dict[str, int], int] = pickle.loads(data)
    return found


def read_steps(path: str, options: Mapping[str, str]) -> dict[str, tuple[dict[str, int], int]]:
    """``load`` and ``show``: the schema in one process, the partitions in another."""

    def load() -> tuple[SavepointDataSource, Any]:
        source = SavepointDataSource({"path": path, **options})
        return source, source.schema()

    def show() -> int:
        return len(source.reader(schema).partitions())

    (source, schema), *loaded = counted(path, load)
    _, *shown = counted(path, show)
    return {"load": (loaded[0], loaded[1]), "show": (shown[0], shown[1])}


def write_steps(path: str, options: Mapping[str, str]) -> dict[str, tuple[dict[str, int], int]]:
    """An overwrite with the rows that are there: planned in one process, written in others, committed in one more."""
    named = {"path": path, "uid": options["uid"], "state": options["state"]}
    source = SavepointDataSource(named)
    schema = source.schema()
    batches: list[pa.RecordBatch] = []
    reader = source.reader(schema)
    for partition in reader.partitions():
        batches += reader.read(partition)
    writer, *planned = counted(path, lambda: SavepointDataSource({"path": path, **options}).writer(schema, True))
    message, *_ = counted(path, lambda: writer.write(iter(batches)))
    _, *committed = counted(path, lambda: writer.commit([message]))
    return {"plan": (planned[0], planned[1]), "commit": (committed[0], committed[1])}


def main(warm: str, path: str, kind: str, options: Mapping[str, str]) -> None:
    """Run the steps over the first savepoint, and measure them over the second."""
    while LocalFileSystem().identity(os.path.join(path, "_metadata")) is None:
        time.sleep(0.1)
    steps = read_steps if kind == "read" else write_steps
    for partition in open_table(SavepointReadOptions.parse({"path": warm}).request()).partitions(1):
        list(partition.batches())
    # What is imported in this process is not read again by those that are forked from it.
    if kind == "read":
        source = SavepointDataSource({"path": warm, **options})
        source.reader(source.schema()).partitions()
    else:
        schema = SavepointDataSource({"path": warm, "uid": options["uid"], "state": options["state"]}).schema()
        SavepointDataSource({"path": warm, **options}).writer(schema, True)
    steps(warm, options)
    print(json.dumps(steps(path, options)))


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()), str(Path(sys.argv[2]).resolve()), sys.argv[3], json.loads(sys.argv[4]))
