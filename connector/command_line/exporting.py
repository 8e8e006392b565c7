"""Command export: a table into a file, batch by batch."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.command_line.arguments import UsageError
from pyspark_savepoint.command_line.output import Output, csv_line, finite
from pyspark_savepoint.command_line.reading import rows_table
from pyspark_savepoint.execution.texts import readable_size, replacing
from pyspark_savepoint.formats.errors import OutputError, StateExistsError
from pyspark_savepoint.local.local_table import SnapshotTable
from pyspark_savepoint.statebackends.model.json_values import kinds_of, row_to_json

DONE = 0
SUFFIXES = {"parquet": "parquet", "arrow": "arrow", "json": "jsonl", "csv": "csv"}


def export(arguments: Namespace, output: Output) -> int:
    """Write a table of an operator to a file."""
    table = rows_table(arguments, output)
    name = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, (arguments.uid, arguments.table, arguments.state))))
    target = Path(arguments.file or f"{name}.{SUFFIXES[arguments.to]}").expanduser()
    if arguments.file in ("-", ""):
        raise UsageError(
            "--file needs the name of a file", found=repr(arguments.file), remedy="to print rows: show --json --limit 0"
        )
    if target.exists() and not arguments.force:
        raise StateExistsError(
            "the file exists already", path=str(target), remedy="--force replaces it, --file names another"
        )
    if not target.absolute().parent.is_dir():
        raise OutputError(
            "there is no such folder", path=str(target.absolute().parent), remedy="make it, or name another --file"
        )
    rows = 0
    with replacing(target) as pending, _writer(arguments.to, pending, table) as write:
        for batch in table.batches():
            write(batch)
            rows += len(batch)
    size = target.stat().st_size
    output.say(f"{target}: {rows} rows, {readable_size(size)}")
    output.record({"file": str(target), "rows": rows, "bytes": size})
    return DONE


@contextmanager
def _writer(form: str, path: Path, table: SnapshotTable) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yield a function that writes a batch."""
    if form == "parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
            yield writer.write_batch
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as sink:
            yield sink.write_batch
    else:
        kinds = kinds_of(table.schema)
        with path.open("w", encoding="utf-8", newline="\n") as lines:
            if form == "csv":
                lines.write(csv_line(kinds) + "\n")

            def line(row: dict[str, Any]) -> str:
                values = row_to_json(row, kinds)
                return csv_line(values.values()) if form == "csv" else json.dumps(finite(values))

            yield lambda batch: lines.writelines(line(row) + "\n" for row in batch.to_pylist())
