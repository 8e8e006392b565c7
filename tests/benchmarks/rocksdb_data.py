"""The savepoint of ``benchmarks.data`` as a native one: the same keys and values in databases that RocksDB wrote.

A job's incremental checkpoints are those of databases that go on; their table files are in one folder.

Keys arrive in random order, as in a job, so that memtables are flushed and compacted; the table options are those of
Flink (blocks of 4 KiB, Snappy, files of 64 MB).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from rocksdict import BlockBasedOptions, Checkpoint, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import HandleAndLocalPath, IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import (
    FileStateHandle,
    RelativeFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.entry_bytes import is_timer
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
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

    def __init__(
        self, path: Path, kind: str, count: int, parallelism: int = 2, block_size: int = 4096, text: int = 0
    ) -> None:
        (path / "shared").mkdir(parents=True)
        # With ``text`` one state of texts of as many letters, else numbers.
        self._states: dict[str, tuple[str, Any]] = {"note": ("String", text)} if text else {**STATES}
        self.path, self.kind, self.parallelism = path, kind, parallelism
        keys, hashes = make_keys(kind, count)
        self.groups = key_groups(np.asarray(hashes & np.uint64(0xFFFFFFFF) if kind == "long" else hashes), 128)
        self.keys = np.zeros((count, keys.shape[1] + 2), np.uint8)
        self.keys[:, 0], self.keys[:, 1:-1] = self.groups, keys
        self._work = path.with_name(f"{path.name}-databases")
        self._open = []
        for index in range(parallelism):
            database = Rdict(str(self._work / f"{index}"), options=table_options(block_size))
            families = {
                name: database.create_column_family(name, options=table_options(block_size)) for name in self._states
            }
            self._open.append((range_for_operator_index(MAX_PARALLELISM, parallelism, index), database, families))

    def put(self, rows: Any, values: Any) -> None:
        """Give some keys new values in both states."""
        for owned, database, _ in self._open:
            mine = np.flatnonzero((self.groups[rows] >= owned.start) & (self.groups[rows] <= owned.end))
            for name, (stem, form) in self._states.items():
                put = _texts(values[mine], form) if stem == "String" else values[mine].astype(form)
                _put(database, name, self.keys[rows[mine]], put)

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
        subtasks = {}
        for index, (owned, database, families) in enumerate(self._open):
            for family in families.values():
                family.flush()
            taken = self._work / f"{index}-{number}"
            Checkpoint(database).create_checkpoint(str(taken))
            shared, private = taken_files(taken, self.path / "shared", folder, str(index))
            meta = _write_header(folder / f"meta-{index}", self.kind, self._states)
            handle = IncrementalRemoteKeyedStateHandle(
                number, "bench", owned, -1, meta, shared, private, f"handle-{index}-{number}"
            )
            subtasks[index] = OperatorSubtaskState(managed_keyed_state=handle)
        operator = OperatorState(OperatorID.from_uid(UID), self.parallelism, MAX_PARALLELISM, subtasks=subtasks)
        (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, number, operators=(operator,))))
        return folder

    def close(self) -> None:
        """Delete the databases; the checkpoints stay."""
        self.each(lambda family: family.close())
        for _, database, _ in self._open:
            database.close()
        shutil.rmtree(self._work)


class ContinuedJob:
    """The databases of a native savepoint, which go on, as those of a job that was restored from it do."""

    def __init__(self, path: Path, savepoint: Path) -> None:
        (path / "shared").mkdir(parents=True)
        self.path = path
        self._snapshot = Snapshot.open(str(savepoint), allow_outside=True)
        self._work = path.with_name(f"{path.name}-databases")
        self._open: dict[tuple[OperatorID, int], tuple[Rdict, dict[str, Any]]] = {}
        for operator in self._snapshot.operators:
            for index, subtask in operator.subtasks.items():
                handle = subtask.managed_keyed_state
                if isinstance(handle, IncrementalRemoteKeyedStateHandle):
                    folder = self._work / f"{operator.operator_id}-{index}"
                    folder.mkdir(parents=True)
                    for file in handle.shared_state + handle.private_state:
                        self._copy(file.handle, folder / file.local_path)
                    names = Rdict.list_cf(str(folder), table_options())
                    families = {name: table_options() for name in names}
                    database = Rdict(str(folder), options=table_options(), column_families=families)
                    known = {name: database.get_column_family(name) for name in names if name != "default"}
                    self._open[operator.operator_id, index] = database, known

    def _copy(self, handle: StreamStateHandle, target: Path) -> None:
        with self._snapshot.open_state(handle) as source:
            target.write_bytes(source.read(0, source.size))

    def change(self, random: Random, share: float) -> None:
        """Remove a share of the entries of every state, or give them the values of others; timers are removed."""
        for _, families in self._open.values():
            for name, family in families.items():
                entries = list(family.items())
                for key, _ in entries:
                    if random.random() >= share:
                        continue
                    if name.startswith("_timer_state/") or random.random() < share:
                        del family[key]
                    else:
                        family[key] = random.choice(entries)[1]

    def checkpoint(self, number: int) -> Path:
        """Take a checkpoint of the keyed state; files that an earlier one has are not written again."""
        folder = self.path / f"chk-{number}"
        folder.mkdir()
        operators = []
        for operator in self._snapshot.operators:
            subtasks = {}
            for index, subtask in operator.subtasks.items():
                if (operator.operator_id, index) not in self._open:
                    continue
                database, families = self._open[operator.operator_id, index]
                for family in families.values():
                    family.flush()
                name = f"{operator.operator_id}-{index}"
                taken = self._work / f"{name}-{number}"
                Checkpoint(database).create_checkpoint(str(taken))
                shared, private = taken_files(taken, self.path / "shared", folder, name)
                known = subtask.managed_keyed_state
                assert isinstance(known, IncrementalRemoteKeyedStateHandle)
                meta = folder / f"{name}-meta"
                self._copy(known.meta_state, meta)
                handle = replace(
                    known,
                    checkpoint_id=number,
                    meta_state=FileStateHandle(str(meta), meta.stat().st_size),
                    shared_state=shared,
                    private_state=private,
                )
                subtasks[index] = OperatorSubtaskState(managed_keyed_state=handle)
            if subtasks:
                operators.append(replace(operator, subtasks=subtasks, coordinator_state=None))
        metadata = replace(self._snapshot.metadata, checkpoint_id=number, operators=tuple(operators), master_states=())
        (folder / "_metadata").write_bytes(write_metadata(metadata))
        return folder

    def close(self) -> None:
        """Delete the databases; the checkpoints stay."""
        for database, families in self._open.values():
            for family in families.values():
                family.close()
            database.close()
        shutil.rmtree(self._work)


def native_of(savepoint: Path, path: Path) -> Path:
    """A native savepoint of the keyed state of a canonical one: the same bytes in one database for each operator."""
    path.mkdir(parents=True)
    snapshot = Snapshot.open(str(savepoint))
    operators = []
    for operator in snapshot.operators:
        if not any(subtask.managed_keyed_state for subtask in operator.subtasks.values()):
            continue
        opened, name = OpenOperator(snapshot, operator), str(operator.operator_id)
        header = opened.keyed.headers[0]
        states = tuple((meta.name, is_timer(meta)) for meta in header.states)
        options = DecodeOptions(timestamps="raw")
        request = TableRequest(str(savepoint), entries=EntriesRequest(states), decode=options)
        folder, taken = (path.with_name(f"{path.name}-{part}-{name}") for part in ("database", "checkpoint"))
        database = Rdict(str(folder), options=table_options())
        families = [database.create_column_family(state, options=table_options()) for state, _ in states]
        prefix = 2 if operator.max_parallelism > MAX_PARALLELISM else 1
        for part in EntriesTable(opened, request).partitions(1):
            for row in (row for batch in part.batches() for row in batch.to_pylist()):
                families[row["state"]][row["key_group"].to_bytes(prefix, "big") + row["key"]] = row["value"] or b""
        for family in families:
            family.flush()
            family.close()
        Checkpoint(database).create_checkpoint(str(taken))
        database.close()
        head, meta = DataOutputView(), path / f"{name}-meta"
        KeyedBackendHeader(False, header.key_serializer, header.states).write(head)
        meta.write_bytes(head.getvalue())
        owned = range_for_operator_index(operator.max_parallelism, 1, 0)
        handle = IncrementalRemoteKeyedStateHandle(
            1,
            name,
            owned,
            -1,
            FileStateHandle(str(meta), meta.stat().st_size),
            *taken_files(taken, path, path, name),
            name,
        )
        subtasks = {0: OperatorSubtaskState(managed_keyed_state=handle)}
        operators.append(replace(operator, parallelism=1, subtasks=subtasks, coordinator_state=None))
        shutil.rmtree(folder)
    metadata = replace(snapshot.metadata, operators=tuple(operators), master_states=())
    (path / "_metadata").write_bytes(write_metadata(metadata))
    return path


Files = tuple[HandleAndLocalPath, ...]


def taken_files(taken: Path, shared: Path, private: Path, name: str) -> tuple[Files, Files]:
    """Copy the files of a checkpoint that RocksDB took, if they are not there; return those of tables, and others."""
    found: tuple[list[HandleAndLocalPath], list[HandleAndLocalPath]] = [], []
    for source in sorted(taken.iterdir()):
        if source.suffix != ".sst" and not source.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")):
            continue
        table = source.suffix == ".sst"
        target = (shared if table else private) / f"{name}-{source.name}"
        if not target.exists():
            shutil.copy(source, target)
        handle = FileStateHandle(str(target), target.stat().st_size)
        found[not table].append(HandleAndLocalPath(source.name, handle))
    shutil.rmtree(taken)
    return tuple(found[0]), tuple(found[1])


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


def _texts(numbers: Any, letters: int) -> Any:
    """Texts of from 127 letters on that do not compress, other ones for other numbers, as Flink writes them."""
    texts = np.empty((len(numbers), letters + 2), np.uint8)
    texts[:, 0], texts[:, 1] = (letters + 1) & 0x7F | 0x80, (letters + 1) >> 7
    texts[:, 2:] = np.random.default_rng(int(numbers.sum())).integers(33, 127, (len(numbers), letters), np.uint8)
    return texts.view(f"V{letters + 2}").ravel()


def _write_header(path: Path, kind: str, states: Mapping[str, tuple[str, Any]] = STATES) -> RelativeFileStateHandle:
    head = header_of(kind, {name: stem for name, (stem, _) in states.items()})
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
