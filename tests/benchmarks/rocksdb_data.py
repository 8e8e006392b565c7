"""The savepoint of ``benchmarks.data`` as a native one: the same keys and values in databases that RocksDB wrote.

A job's incremental checkpoints are those of databases that go on; their table files are in one folder.

Keys arrive in random order, as in a job, so that memtables are flushed and compacted; the table options are those of
Flink (blocks of 4 KiB, Snappy, files of 64 MB).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rocksdict import BlockBasedOptions, Checkpoint, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import HandleAndLocalPath, IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle, RelativeFileStateHandle
from tests.benchmarks.data import UID, header_of, key_groups, make_keys

STATES = {"total": ("Long", ">i8"), "count": ("Int", ">i4")}
MAX_PARALLELISM = 128
BATCH = 50_000


def table_options(block_size: int = 4096) -> Options:
    """As Flink sets them."""
    options, blocks = Options(raw_mode=True), BlockBasedOptions()
    blocks.set_block_size(block_size)
    blocks.set_format_version(5)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.snappy())
    options.set_level_compaction_dynamic_level_bytes(False)
    options.create_if_missing(True)
    return options


class IncrementalJob:
    """The databases of an operator's subtasks, whose checkpoints share files, as those of Flink do."""

    def __init__(self, path: Path, kind: str, count: int, parallelism: int = 2, block_size: int = 4096) -> None:
        (path / "shared").mkdir(parents=True)
        self.path, self.kind, self.parallelism = path, kind, parallelism
        keys, hashes = make_keys(kind, count)
        self.groups = key_groups(np.asarray(hashes & np.uint64(0xFFFFFFFF) if kind == "long" else hashes), 128)
        self.keys = np.zeros((count, keys.shape[1] + 2), np.uint8)
        self.keys[:, 0], self.keys[:, 1:-1] = self.groups, keys
        self._work = path.with_name(f"{path.name}-databases")
        self._open = []
        for index in range(parallelism):
            database = Rdict(str(self._work / f"{index}"), options=table_options(block_size))
            families = {name: database.create_column_family(name, options=table_options(block_size)) for name in STATES}
            self._open.append((range_for_operator_index(MAX_PARALLELISM, parallelism, index), database, families))

    def put(self, rows: Any, values: Any) -> None:
        """Give some keys new values in both states."""
        for owned, database, _ in self._open:
            mine = np.flatnonzero((self.groups[rows] >= owned.start) & (self.groups[rows] <= owned.end))
            for name, (_, dtype) in STATES.items():
                _put(database, name, self.keys[rows[mine]], values[mine].astype(dtype))

    def delete(self, rows: Any, state: str) -> None:
        """Remove one state of some keys."""
        for row in rows:
            for owned, _, families in self._open:
                if self.groups[row] in owned:
                    families[state].delete(self.keys[row].tobytes())

    def each(self, work: Callable[[Any], None]) -> None:
        """Do something with all column families, such as compacting them."""
        for _, _, families in self._open:
            for family in families.values():
                work(family)

    def checkpoint(self, number: int) -> Path:
        """Take a checkpoint; files that an earlier one has are not written again."""
        folder = self.path / f"chk-{number}"
        folder.mkdir()
        meta = _write_header(folder / "meta", self.kind)
        subtasks = {}
        for index, (owned, database, families) in enumerate(self._open):
            for family in families.values():
                family.flush()
            taken = self._work / f"{index}-{number}"
            Checkpoint(database).create_checkpoint(str(taken))
            shared, private = [], []
            for source in sorted(taken.iterdir()):
                if source.suffix == ".sst":
                    target, files = self.path / "shared" / f"{index}-{source.name}", shared
                elif source.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")):
                    target, files = folder / f"{index}-{source.name}", private
                else:
                    continue
                if not target.exists():
                    shutil.copy(source, target)
                files.append(HandleAndLocalPath(source.name, FileStateHandle(str(target), target.stat().st_size)))
            handle = IncrementalRemoteKeyedStateHandle(
                number, "bench", owned, -1, meta, tuple(shared), tuple(private), f"handle-{index}-{number}"
            )
            subtasks[index] = OperatorSubtaskState(managed_keyed_state=handle)
            shutil.rmtree(taken)
        operator = OperatorState(OperatorID.from_uid(UID), self.parallelism, MAX_PARALLELISM, subtasks=subtasks)
        (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, number, operators=(operator,))))
        return folder

    def close(self) -> None:
        """Delete the databases; the checkpoints stay."""
        self.each(lambda family: family.close())
        for _, database, _ in self._open:
            database.close()
        shutil.rmtree(self._work)


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
