"""State files that merge entries of an existing operator with rows, against dictionaries of all entries."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import DuplicateKeyError, FileReplacedError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.merged_bases import BaseState
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, PartOfWrite
from pyspark_savepoint.statebackends.writing.planning.write_request import DELETED, WriteRequest, WriteSpec
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.benchmarks import data

pytestmark = pytest.mark.many_sets

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
States = tuple[tuple[str, bool] | None, ...]
Content = dict[tuple[int, int, bytes], bytes]


def content(path: str, uid: str, states: States, max_parallelism: int | None = None, raw: bool = False) -> Content:
    wanted = EntriesRequest(states, max_parallelism=max_parallelism, raw_timers=raw)
    table = open_table(TableRequest(path, uid=uid, entries=wanted))
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    found = {(row["state"], row["key_group"], row["key"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_entries_of_another_version_are_refused(tmp_path: Path) -> None:
    """A base that is replaced while tasks read it gives an error, not entries of both."""
    path = tmp_path / "sp"
    shutil.copytree(SHOP, path)
    digest = Snapshot.open(str(path)).digest.hex()
    wanted = EntriesRequest((("total", False),), digest=digest)
    request = TableRequest(str(path), uid="accounts", entries=wanted)
    assert open_table(request).partitions(1)

    rows = pa.table({"key": ["a"], "n": [1]})
    plan = plan_write(WriteRequest(str(path), uid="another"), rows.schema, None)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])

    with pytest.raises(FileReplacedError, match="was replaced while it was read"):
        open_table(request)
    with pytest.raises(FileReplacedError, match="was replaced while it was read"):
        BaseState.of(plan, replace(request, uid=None, uid_hash=OperatorID.from_uid("accounts").hex))
    with pytest.raises(ValueError, match="hexadecimal"):
        EntriesRequest((), digest="no digest")


class Merge:
    """An operator of a snapshot, rewritten with rows."""

    def __init__(self, path: str, uid: str, target: Path, **changed: Any) -> None:
        self.path, self.uid, self.target = path, uid, target
        snapshot = Snapshot.open(path)
        self.operator = snapshot.operator(uid=uid)
        self.states = KeyedStates.of(OpenOperator(snapshot, self.operator))
        self.names: States = tuple(self.states.metas)
        self.max_parallelism = changed.get("max_parallelism", self.operator.max_parallelism)
        self.memory = changed.get("memory", 1 << 26)
        self.parallelism = changed.get("parallelism", 2)

    def header(self) -> KeyedBackendHeader:
        assert self.states.key_serializer is not None
        return KeyedBackendHeader(False, self.states.key_serializer, tuple(self.states.metas.values()))

    def run(self, rows: list[tuple[int, int, bytes, bytes]], kept: States | None = None, moved: int = 0) -> Content:
        """Write, and return the entries that were written."""
        rehash = None if self.max_parallelism == self.operator.max_parallelism else self.max_parallelism
        wanted = EntriesRequest(
            self.names if kept is None else kept, keys=any(row[0] == DELETED for row in rows), max_parallelism=rehash,
            raw_timers=self.states.raw_timers,
        )  # fmt: skip
        memory = min(self.memory, 32 << 20)
        base = TableRequest(self.path, uid_hash=self.operator.operator_id.hex, entries=wanted, memory=memory)
        spec = WriteSpec(
            uid=self.uid, table="entries", sort_memory=self.memory, max_parallelism=self.max_parallelism,
            parallelism=self.parallelism,
        )  # fmt: skip
        target = str(self.target)
        part = PartOfWrite(Staging.at(target), target, spec, None, 3, self.header(), (base,))
        plan = part.plan(ENTRIES, Distribution(self.max_parallelism, self.parallelism))
        outputs = []
        for subtask in range(self.parallelism):
            mine = [
                row
                for row in rows
                if row[1] * self.parallelism // self.max_parallelism == (subtask + moved) % self.parallelism
            ]
            columns = list(zip(*mine, strict=True)) if mine else [()] * 4
            arrays = [pa.array(list(c), field.type) for c, field in zip(columns, ENTRIES, strict=True)]
            outputs.append(write_rows(plan, subtask, [pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)]))
        assert all(output.file is not None for output in outputs)
        commit(plan, outputs)
        return content(str(self.target), self.uid, self.names)


LAB = [
    ("2.2.1-hashmap-canonical", "kv-long"),
    ("2.2.1-rocksdb-native", "kv-long"),
    ("1.20.5-hashmap-native", "kv-long"),
]


@pytest.fixture(params=LAB, ids=lambda case: case[0])
def lab(request: pytest.FixtureRequest, corpus: Path) -> tuple[str, str]:
    case, uid = request.param
    return str(next((corpus / "lab" / case).rglob("_metadata")).parent), uid


@pytest.mark.parametrize("memory", [1 << 26, 1 << 12])
def test_all_entries_are_kept(lab: tuple[str, str], tmp_path: Path, memory: int) -> None:
    """In memory, and where each key group is sorted through local disk."""
    merge = Merge(*lab, tmp_path / "sp", memory=memory)
    assert merge.run([]) == content(*lab, merge.names, raw=merge.states.raw_timers)


@pytest.mark.parametrize("native", [False, True], ids=["canonical", "heap"])
def test_deleted_keys_lose_their_entries_and_timers(corpus: Path, tmp_path: Path, native: bool) -> None:
    heap = next((corpus / "lab" / "1.20.5-hashmap-native").rglob("_metadata")).parent
    path, uid = (str(heap), "kv-long") if native else (str(SHOP), "accounts")
    merge = Merge(path, uid, tmp_path / "sp")
    wanted = EntriesRequest(merge.names, keys=True, raw_timers=merge.states.raw_timers)
    table = open_table(TableRequest(path, uid=uid, entries=wanted))
    assert isinstance(table, EntriesTable)
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    gone = {row["serialized_key"]: row["key_group"] for row in rows[:40:3]}
    found = merge.run([(DELETED, group, key, b"") for key, group in gone.items()])
    left = [row for row in rows if row["serialized_key"] not in gone]
    assert any(row["serialized_key"] in gone for row in rows if merge.names[row["state"]][1])  # type: ignore[index]
    assert found == {(row["state"], row["key_group"], row["key"]): row["value"] for row in left}
    assert len(found) < len(rows)


def test_rows_take_the_place_of_a_state(lab: tuple[str, str], tmp_path: Path) -> None:
    merge = Merge(*lab, tmp_path / "sp")
    before = content(*lab, merge.names, raw=merge.states.raw_timers)
    rows = [(1, group, key, b"new") for state, group, key in before if state == 0]
    kept = (merge.names[0], None, *merge.names[2:])
    expected = {place: value for place, value in before.items() if place[0] != 1}
    assert merge.run(rows, kept) == expected | {(1, group, key): b"new" for _, group, key, _ in rows}


@pytest.mark.parametrize("max_parallelism", [64, 512, 96])
@pytest.mark.parametrize("ordered", [True, False])
def test_another_max_parallelism(tmp_path: Path, max_parallelism: int, ordered: bool) -> None:
    path = str(data.write_savepoint(tmp_path / "old", "long", 3_000, ordered=ordered))
    merge = Merge(path, "bench", tmp_path / "sp", max_parallelism=max_parallelism, parallelism=3, memory=1 << 16)
    found = merge.run([])
    assert {(state, key): value for (state, _, key), value in found.items()} == {
        (state, key): value for (state, _, key), value in content(path, "bench", merge.names).items()
    }
    for _, group, key in found:
        number = int.from_bytes(key[:8], "big")  # a void namespace follows
        assert group == key_group_for_hash((number ^ number >> 32) & 0xFFFFFFFF, max_parallelism)


@pytest.mark.parametrize("memory", [1 << 26, 1 << 12])
def test_an_entry_twice_is_refused(tmp_path: Path, memory: int) -> None:
    path = str(data.write_savepoint(tmp_path / "old", "long", 300))
    merge = Merge(path, "bench", tmp_path / "sp", memory=memory)
    state, group, key = next(iter(content(path, "bench", merge.names)))
    with pytest.raises(DuplicateKeyError, match="more than one entry"):
        merge.run([(state, group, key, b"new")])


def test_rows_of_another_subtask_are_refused_and_not_lost(tmp_path: Path) -> None:
    path = str(data.write_savepoint(tmp_path / "old", "long", 300))
    merge = Merge(path, "bench", tmp_path / "sp")
    _, group, key = next(iter(content(path, "bench", merge.names)))
    with pytest.raises(UnsupportedStateError, match="rows of other subtasks"):
        merge.run([(0, group, key + b"x", b"new")], moved=1)


def test_entries_are_sorted(tmp_path: Path) -> None:
    """Also of the heap, whose order is that of hashes, so that readers need no hash table."""
    path = str(data.write_savepoint(tmp_path / "old", "string", 2_000, ordered=False))
    merge = Merge(path, "bench", tmp_path / "sp")
    merge.run([])
    table = open_table(TableRequest(str(merge.target), uid="bench", entries=EntriesRequest(merge.names)))
    for part in table.partitions(1):
        for batch in part.batches():
            places = [(row["key_group"], row["state"], row["key"]) for row in batch.to_pylist()]
            assert places == sorted(places)
