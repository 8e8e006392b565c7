"""A write without Spark: rows of partitions to a savepoint, by the steps that tasks and commit take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, WritePlan
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from pyspark_savepoint.statebackends.writing.task_outputs import TaskOutput
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write

RAW = DecodeOptions(timestamps="raw")


def write(
    path: Path | str, partitions: Sequence[pa.Table], layout: tuple[int, int] | None = None, **request: Any
) -> list[TaskOutput]:
    """Write partitions and publish; return the messages of the tasks."""
    plan = planned(path, partitions[0].schema, layout, **request)
    outputs = [write_rows(plan, i, partition.to_batches()) for i, partition in enumerate(partitions)]
    commit(plan, outputs)
    return outputs


def planned(path: Path | str, schema: pa.Schema, layout: tuple[int, int] | None = None, **request: Any) -> WritePlan:
    """A write that has been decided; of uid ``op``, and without old files, where the test does not care."""
    wanted = {"retention": 0, **({"uid": "op"} if "uid_hash" not in request else {}), **request}
    return plan_write(
        WriteRequest(_text(path), **wanted), schema, Distribution(*layout) if layout is not None else None
    )


def write_both(path: Path | str, uid: str) -> None:
    """An operator of four subtasks, each with a file of keyed state and one of operator state."""
    numbers = pa.array(range(10_000), pa.int64())
    write(path, [pa.table({"x": numbers[:100]})], table="operator_state", state="s", parallelism=4, uid=uid)
    write(path, [pa.table({"key": numbers, "v": numbers})], parallelism=4, uid=uid)


def read(path: Path | str, **request: Any) -> list[dict[str, Any]]:
    """All rows of a table, sorted; of uid ``op`` where the test does not care."""
    wanted = {"uid": "op", **request} if "uid_hash" not in request else request
    table = open_table(TableRequest(_text(path), decode=RAW, **wanted))
    return rows_of(batch for partition in table.partitions(2) for batch in partition.batches())


def rows_of(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[dict[str, Any]]:
    """Rows as dictionaries without NULLs, in an order of their own."""
    rows = [{name: value for name, value in row.items() if value is not None} for b in batches for row in b.to_pylist()]
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def digests(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _text(path: Path | str) -> str:
    """Return a path as a request has it, with its storage options if it has any."""
    return path if isinstance(path, str) else str(path)
