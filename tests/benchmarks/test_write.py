"""How fast 4,000,000 keys become a canonical savepoint, against walls that nobody passes and the obvious way.

    pytest tests/benchmarks/test_write.py -s                        200,000 keys, as a test
    BENCH_KEYS=4000000 pytest tests/benchmarks/test_write.py -s     the figures of the README
    BENCH_KEYS=4000000 pytest tests/benchmarks/test_write.py -s -k spark

Two value states, LONG and INT, keys LONG or 13-character STRING, max parallelism 128. Every figure stands beside a
rival of the same run: a sort by pyarrow, plain Python, a copy of the bytes (``memcpy``); with Spark the same rows
through Python workers that write nothing. Flink's State Processor API takes 20 s (LONG) and 25 s (STRING) for
4,000,000 keys on a machine of two cores.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.engines.spark.distribution import key_by
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, key_group_for_hash
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer
from pyspark_savepoint.statebackends.writing.row_forms import ColumnSink
from tests.benchmarks.measure import best

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = int(os.environ.get("BENCH_KEYS", "200000"))
#: Rows that Spark gives a Python worker at a time.
SPARKS_BATCH = 10_000
GROUPS = 128
KINDS = pytest.mark.parametrize("kind", ["long", "string"])


class Discard:
    """A file that forgets its bytes."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: memoryview | bytes) -> None:
        self.size += len(data)


def rows_of(kind: str) -> pa.RecordBatch:
    """Keys in an order that says nothing of their key groups."""
    numbers = np.arange(KEYS, dtype=np.int64)
    keys = pa.array(numbers) if kind == "long" else pa.array([f"user-{number:08d}" for number in range(KEYS)])
    return pa.record_batch([keys, numbers * 2, (numbers % 7).astype(np.int32)], names=["key", "total", "visits"])


def descriptor_of(schema: pa.Schema) -> KeyedDescriptor:
    key, *states = [default_serializer(field.type) for field in schema]
    columns = [
        StateDescriptor(field.name, StateKind.VALUE, serializer, column=field.name)
        for field, serializer in zip(list(schema)[1:], states, strict=True)
    ]
    return KeyedDescriptor(("key",), key, tuple(columns))


def write(rows: pa.RecordBatch, memory: int = 1 << 30) -> tuple[int, bool]:
    """All that a task does between Spark and the file: bytes, and whether rows went to disk."""
    descriptor, file = descriptor_of(rows.schema), Discard()
    codec, whole = KeyCodec(descriptor, GROUPS), KeyGroupRange(0, GROUPS - 1)
    with (
        RowSorter(rows.schema, memory) as sorter,
        CanonicalKeyedStreamWriter(file, descriptor.header(), whole, GROUPS, memory) as writer,
    ):
        for low in range(0, rows.num_rows, SPARKS_BATCH):
            batch = rows.slice(low, SPARKS_BATCH)
            keys = codec.encode(batch)
            sorter.add(keys.key_group, keys.key, batch)
        sink = ColumnSink(descriptor, writer, codec)
        for part in sorter.sorted():
            sink.add(part)
        writer.finish()
        return file.size, sorter.spilled


def write_in_plain_python(rows: pa.RecordBatch) -> int:
    """The obvious way: one key after the other, a sorted list per key group and state."""
    groups: list[list[tuple[bytes, bytes, bytes]]] = [[] for _ in range(GROUPS)]
    for key, total, visits in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if isinstance(key, str):
            code = 0
            for unit in key:
                code = (31 * code + ord(unit)) & 0xFFFFFFFF
            data = bytes([len(key) + 1]) + key.encode()
        else:
            code, data = key & 0xFFFFFFFF ^ key >> 32, struct.pack(">q", key)
        group = key_group_for_hash(code, GROUPS)
        groups[group].append((data, struct.pack(">q", total), struct.pack(">i", visits)))
    size = 0
    for number, group in enumerate(groups):
        group.sort()
        out = []
        for state in (1, 2):
            for entry in group:
                composite = bytes([number]) + entry[0] + b"\0"
                out += [
                    struct.pack(">i", len(composite)),
                    composite,
                    struct.pack(">i", len(entry[state])),
                    entry[state],
                ]
        size += len(b"".join(out))
    return size


@KINDS
def test_sort_encode_and_emit(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(kind)
    size, spilled = write(rows)
    assert not spilled
    ours = best(lambda: write(rows))
    table = pa.table(
        {"g": rows.column(1).to_numpy() % GROUPS, **{name: rows.column(name) for name in rows.schema.names}}
    )
    arrow = best(lambda: table.sort_by([("g", "ascending"), ("key", "ascending")]))
    few = rows.slice(0, min(KEYS, 50_000))
    plain = best(lambda: write_in_plain_python(few), 1) * KEYS / few.num_rows
    bytes_of_it = np.zeros(size, np.uint8)
    copy = best(lambda: bytes_of_it.copy())
    with capsys.disabled():
        print(
            f"\n{kind}: {KEYS / ours / 1e6:.1f} M rows/s, {size / ours / 1e6:.0f} MB/s on one core; "
            f"plain Python : ours = {plain / ours:.0f} : 1; sort by pyarrow alone : ours = {arrow / ours:.1f} : 1; "
            f"ours : memcpy = {ours / copy:.0f} : 1"
        )
    assert plain > 3 * ours or KEYS < 1_000_000


@KINDS
def test_through_local_disk(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(kind)
    whole = best(lambda: write(rows), 2)
    # Rows with their keys, and room to sort them, take about four times what they take as columns.
    memory = max(4 << 20, rows.nbytes // 2)
    assert write(rows, memory)[1]
    spilling = best(lambda: write(rows, memory), 2)
    with capsys.disabled():
        print(
            f"\n{kind}: with sortMemory {memory >> 20}m, through local disk, {KEYS / spilling / 1e6:.1f} M rows/s; "
            f"spilling : not spilling = {spilling / whole:.1f} : 1"
        )


# The peak of this process alone, once kernels are compiled; rows are made piece by piece.
MEMORY = """
    import re, sys
    import numpy as np, pyarrow as pa
    from tests.benchmarks import test_write

    def peak():
        return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

    class Pieces:
        def __init__(self, rows):
            self.num_rows = rows
            self.schema = test_write.rows_of("long").schema
        def slice(self, low, count):
            numbers = np.arange(low, min(low + count, self.num_rows)) * 7919 % 1000003 * 1000 + low // 1000003
            numbers = numbers * 1000003 + np.arange(low, min(low + count, self.num_rows))
            columns = [pa.array(numbers), pa.array(numbers), pa.array((numbers % 7).astype(np.int32))]
            return pa.record_batch(columns, schema=self.schema)

    test_write.KEYS = 1
    test_write.write(Pieces(50000))
    before = peak()
    size, spilled = test_write.write(Pieces(int(sys.argv[1])), int(sys.argv[2]) << 20)
    assert spilled
    print(before, peak())
"""


def test_peak_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a task: what the option says, and what numba and Arrow take anyway."""
    rows, memory = 5 * KEYS, max(16, 5 * KEYS * 60 // 4 >> 20)
    command = [sys.executable, "-c", textwrap.dedent(MEMORY), str(rows), str(memory)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    before, peak = map(int, done.stdout.split())
    with capsys.disabled():
        print(f"\n{rows} rows with sortMemory {memory}m: {peak - before} MB more than without, {peak} MB in all")
    # Twice, for the writer may keep back as much as the sorter.
    assert peak - before < 2 * memory + 32


# -- with Spark ------------------------------------------------------------------------------------------------------


def frame_of(spark: SparkSession, kind: str) -> DataFrame:
    key = "id" if kind == "long" else "concat('user-', lpad(cast(id as string), 8, '0'))"
    return spark.range(0, KEYS, 1, 2).selectExpr(f"{key} AS key", "id * 2 AS total", "int(id % 7) AS visits")


def peak_of_workers() -> int:
    """MB of the largest Python worker of Spark on this machine."""
    peaks = [0]
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes()
            status = (process / "status").read_text()
        except OSError:
            continue
        peak = re.search(r"VmHWM:\s+(\d+)", status)
        if b"pyspark.daemon" in command and peak:
            peaks.append(int(peak[1]) // 1024)
    return max(peaks)


@pytest.mark.spark
@KINDS
@pytest.mark.parametrize("laid_out", [False, True], ids=["any layout", "key_by"])
def test_spark_writes(
    kind: str, laid_out: bool, tuned: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "savepoint"

    def work() -> None:
        shutil.rmtree(path, ignore_errors=True)
        frame = frame_of(tuned, kind)
        frame = key_by(frame, "key", max_parallelism=GROUPS) if laid_out else frame
        options = {"uid": "bench", "key": "key", "maxParallelism": GROUPS}
        frame.write.format("savepoint").options(**options).mode("append").save(str(path))

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What any Python sink pays before it does anything; a local function, for workers have no tests to import."""
        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch([pa.array([rows])], names=["rows"])

    def rival() -> None:
        frame_of(tuned, kind).mapInArrow(pass_on, "rows long").write.format("noop").mode("overwrite").save()

    first = best(work, 1)
    ours, floor = best(work, 3), best(rival, 3)
    size = sum(file.stat().st_size for file in path.iterdir())
    with capsys.disabled():
        print(
            f"\n{kind}{', key_by' if laid_out else ''}: {ours:.2f} s ({KEYS / ours / 1e6:.1f} M rows/s, "
            f"{size / ours / 1e6:.0f} MB/s), first time {first:.2f} s; ours : Spark to Python and no more = "
            f"{ours / floor:.1f} : 1; peak memory of a worker {peak_of_workers()} MB"
        )
    assert tuned.read.format("savepoint").option("uid", "bench").load(str(path)).count() == KEYS
    assert peak_of_workers() < 1000
