"""The savepoint of ``benchmarks.data`` as a native one: the same keys and values in databases that RocksDB wrote.

Keys arrive in random order, as in a job, so that memtables are flushed and compacted; the table options are those of
Flink (blocks of 4 KiB, Snappy, files of 64 MB).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from rocksdict import BlockBasedOptions, Checkpoint, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import HandleAndLocalPath, IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from tests.benchmarks.data import UID, header_of, key_groups, make_keys

STATES = {"total": ("Long", ">i8"), "count": ("Int", ">i4")}
MAX_PARALLELISM = 128
BATCH = 50_000


def table_options() -> Options:
    """As Flink sets them."""
    options, blocks = Options(raw_mode=True), BlockBasedOptions()
    blocks.set_block_size(4096)
    blocks.set_format_version(5)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.snappy())
    options.set_level_compaction_dynamic_level_bytes(False)
    options.create_if_missing(True)
    return options


def write_native_savepoint(path: Path, kind: str, count: int, parallelism: int = 2) -> Path:
    """A native savepoint of RocksDB."""
    path.mkdir(parents=True)
    keys, hashes = make_keys(kind, count)
    numbers = np.asarray(hashes & np.uint64(0xFFFFFFFF) if kind == "long" else hashes)
    groups = key_groups(numbers, MAX_PARALLELISM)
    subtasks = {}
    for index in range(parallelism):
        owned = range_for_operator_index(MAX_PARALLELISM, parallelism, index)
        rows = np.flatnonzero((groups >= owned.start) & (groups <= owned.end))
        files = _write_database(path, index, keys[rows], groups[rows], rows % 1000003)
        meta = _write_header(path / f"meta-{index}", kind)
        handle = IncrementalRemoteKeyedStateHandle(1, "bench", owned, -1, meta, (), files, f"handle-{index}")
        subtasks[index] = OperatorSubtaskState(managed_keyed_state=handle)
    operator = OperatorState(OperatorID.from_uid(UID), parallelism, MAX_PARALLELISM, subtasks=subtasks)
    (path / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, 1, operators=(operator,))))
    return path


def _write_header(path: Path, kind: str) -> RelativeFileStateHandle:
    head = header_of(kind, {name: stem for name, (stem, _) in STATES.items()})
    path.write_bytes(head)
    return RelativeFileStateHandle(path.name, len(head))


def _write_database(path: Path, index: int, keys: Any, groups: Any, values: Any) -> tuple[HandleAndLocalPath, ...]:
    folder, checkpoint = (path.with_name(f"{path.name}-{part}-{index}") for part in ("database", "checkpoint"))
    database = Rdict(str(folder), options=table_options())
    order = np.random.default_rng(index).permutation(len(keys))
    whole = np.zeros((len(keys), keys.shape[1] + 2), np.uint8)
    whole[:, 0], whole[:, 1:-1] = groups[order], keys[order]
    for name, (_, dtype) in STATES.items():
        family = database.create_column_family(name, options=table_options())
        _put(database, name, whole, values[order].astype(dtype))
        family.flush()
        family.close()
    Checkpoint(database).create_checkpoint(str(checkpoint))
    database.close()
    files = []
    for source in sorted(checkpoint.iterdir()):
        if source.suffix == ".sst" or source.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")):
            name = f"{index}-{source.name}"
            shutil.copy(source, path / name)
            files.append(HandleAndLocalPath(source.name, RelativeFileStateHandle(name, source.stat().st_size)))
    for used in (folder, checkpoint):
        shutil.rmtree(used)
    return tuple(files)


def _put(database: Rdict, family: str, keys: Any, values: Any) -> None:
    handle = database.get_column_family_handle(family)
    unlogged = WriteOptions()
    unlogged.disable_wal = True
    width, data = keys.shape[1], keys.tobytes()
    size, text = values.dtype.itemsize, values.tobytes()
    for low in range(0, len(keys), BATCH):
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(handle)
        for i in range(low, min(low + BATCH, len(keys))):
            batch.put(data[i * width : (i + 1) * width], text[i * size : (i + 1) * size])
        database.write(batch, unlogged)
