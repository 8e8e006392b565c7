"""Files of RocksDB and ForSt of real Flink: their content, and the errors if one is damaged or missing."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState, write_metadata
from pyspark_savepoint.formats.metadata.keyed_handles import HandleAndLocalPath, IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.rocksdb.database import Database
from pyspark_savepoint.formats.snapshot.relocation import replace_streams
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.expected import RecordedSnapshot, differences

CASES = ("2.2.1-forst-native", "2.2.1-rocksdb-native", "2.2.1-rocksdb-incr-checkpoint")
MERGE = 2
#: An operator with lists, maps, timers; and one that is read when its files are damaged.
DAMAGED, OTHER = "kv-long", "kv-string"


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, corpus: Path) -> RecordedSnapshot:
    return RecordedSnapshot(corpus / "lab" / request.param)


def handles(operator: OperatorState) -> Iterator[tuple[int, IncrementalRemoteKeyedStateHandle]]:
    for index, subtask in operator.subtasks.items():
        if isinstance(subtask.managed_keyed_state, IncrementalRemoteKeyedStateHandle):
            yield index, subtask.managed_keyed_state


def files_of(handle: IncrementalRemoteKeyedStateHandle) -> tuple[HandleAndLocalPath, ...]:
    return handle.shared_state + handle.private_state


def test_a_database_has_a_column_family_per_state(case: RecordedSnapshot) -> None:
    savepoint = Snapshot.open(case.path)
    kinds: set[int] = set()
    for operator in savepoint.operators:
        for _, handle in handles(operator):
            files = {file.local_path: savepoint.resolve(file.handle, operator) for file in files_of(handle)}
            with savepoint.open_state(handle.meta_state) as meta, Database(files, 1) as database:
                assert meta.size > 0
                for name in database.families:
                    family = database.family(name, 0, 127)
                    assert name != "default" or not family.runs
                    for run in family.runs:
                        for entries in run.read(0, 127):
                            kinds |= set(np.unique(entries.tag & 0xFF).tolist())
    # Lists were appended to, so some are still stored in parts.
    assert MERGE in kinds


# -- missing and damaged files -------------------------------------------------------------------------------------


@pytest.fixture
def unpacked(corpus: Path, tmp_path: Path) -> RecordedSnapshot:
    """Return a native savepoint with every table file of one operator in a separate file: ``SUBTASK-NAME``."""
    source = RecordedSnapshot(corpus / "lab" / "2.2.1-rocksdb-native")
    folder = tmp_path / "savepoint"
    folder.mkdir()
    for path in Path(source.path).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    savepoint = Snapshot.open(source.path)
    operators = tuple(_unpack(savepoint, operator, folder) for operator in savepoint.operators)
    metadata = dataclasses.replace(savepoint.metadata, operators=operators)
    (folder / "_metadata").write_bytes(write_metadata(metadata))
    expected = {**source.expected, "meta": {**source.expected["meta"], "savepoint": "savepoint"}}
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    return RecordedSnapshot(tmp_path)


def _unpack(savepoint: Snapshot, operator: OperatorState, folder: Path) -> OperatorState:
    if operator.uid != DAMAGED:
        return operator
    subtasks = dict(operator.subtasks)
    for index, handle in handles(operator):
        files = []
        for file in files_of(handle):
            with savepoint.open_state(file.handle) as source:
                data = source.read(0, source.size)
            name = f"{index}-{file.local_path}"
            (folder / name).write_bytes(data)
            files.append(HandleAndLocalPath(file.local_path, RelativeFileStateHandle(name, len(data))))
        changed = dataclasses.replace(handle, shared_state=(), private_state=tuple(files))
        subtasks[index] = dataclasses.replace(subtasks[index], managed_keyed_state=changed)
    return dataclasses.replace(operator, subtasks=subtasks)


def operator_of(snapshot: RecordedSnapshot, uid: str) -> dict[str, object]:
    (operator,) = [each for each in snapshot.expected["operators"] if each.get("uid") == uid]
    found: dict[str, object] = operator
    return found


def the_rest_reads(snapshot: RecordedSnapshot) -> None:
    expected = [operator for operator in snapshot.expected["operators"] if operator.get("uid") != DAMAGED]
    rest = RecordedSnapshot(snapshot.folder)
    rest.__dict__["expected"] = {**snapshot.expected, "operators": expected}
    assert any(operator.get("uid") == OTHER for operator in expected)
    assert differences(rest) == []


def test_files_of_their_own_read_as_inline_ones_do(unpacked: RecordedSnapshot) -> None:
    assert differences(unpacked) == []


def table_files(snapshot: RecordedSnapshot) -> list[Path]:
    return sorted(Path(snapshot.path).glob("*-*.sst"))


def test_a_missing_table_file(unpacked: RecordedSnapshot) -> None:
    assert len(table_files(unpacked)) > 10
    for path in table_files(unpacked)[::5]:
        data = path.read_bytes()
        path.unlink()

        messages = failures(unpacked, StateFileNotFoundError)

        assert messages
        assert all(str(path) in text and DAMAGED in text for text in messages)
        path.write_bytes(data)
    path.unlink()
    the_rest_reads(unpacked)


def test_a_damaged_table_file(unpacked: RecordedSnapshot) -> None:
    for path in table_files(unpacked)[::5]:
        data = path.read_bytes()
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])

        messages = failures(unpacked, CorruptStateError)

        assert messages
        assert [text for text in messages if not (str(path) in text and DAMAGED in text and "checksum" in text)] == []
        path.write_bytes(data)
    path.write_bytes(bytes(len(data)))
    the_rest_reads(unpacked)


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-000005"])
def test_a_damaged_list_of_files(unpacked: RecordedSnapshot, name: str) -> None:
    path = Path(unpacked.path) / f"1-{name}"
    path.write_bytes(b"#" + path.read_bytes()[1:])

    messages = failures(unpacked, CorruptStateError)

    assert messages
    assert all(str(path) in text and DAMAGED in text for text in messages)


def test_manifests_that_were_swapped(unpacked: RecordedSnapshot) -> None:
    first, second = (Path(unpacked.path) / f"{index}-MANIFEST-000005" for index in (0, 1))
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])

    messages = failures(unpacked, CorruptStateError)

    assert len(messages) == len(operator_of(unpacked, DAMAGED)["states"]) + 1
    assert all(f"file: {unpacked.path}" in text and DAMAGED in text for text in messages)


@pytest.mark.parametrize("wrong", [{"start": 1}, {"start": -1}, {"size": -1}, {"size": 1}], ids=str)
def test_segments_of_a_merged_file_that_are_a_byte_off(unpacked: RecordedSnapshot, wrong: dict[str, int]) -> None:
    merged = Path(unpacked.path) / "merged"
    places: dict[str, tuple[int, int]] = {}
    with merged.open("wb") as out:
        for path in sorted(Path(unpacked.path).glob("*-*.*")) + sorted(Path(unpacked.path).glob("*-[CM]*")):
            if path.name not in places:
                places[path.name] = out.tell(), out.write(path.read_bytes())
        out.write(b"what other states have here")

    def segment(handle: StreamStateHandle, start: int = 0, size: int = 0) -> StreamStateHandle:
        if not isinstance(handle, RelativeFileStateHandle) or handle.relative_path not in places:
            return handle
        at, length = places[handle.relative_path]
        scope = CheckpointedStateScope.SHARED
        return SegmentFileStateHandle(str(merged), max(at + start, 0), length + size, scope, handle.relative_path)

    (operator,) = [each for each in Snapshot.open(unpacked.path).operators if each.uid == DAMAGED]
    rewrite(unpacked, replace_streams(operator, segment))
    assert failures(unpacked, SavepointError) == []

    rewrite(unpacked, replace_streams(operator, lambda handle: segment(handle, **wrong)))

    messages = failures(unpacked, SavepointError)
    assert len(messages) == len(operator_of(unpacked, DAMAGED)["states"]) + 1
    assert all(f"file: {merged}" in text and DAMAGED in text for text in messages)
    the_rest_reads(unpacked)


def test_a_file_that_is_not_listed(unpacked: RecordedSnapshot) -> None:
    savepoint = Snapshot.open(unpacked.path)
    (operator,) = [each for each in savepoint.operators if each.uid == DAMAGED]
    subtasks = dict(operator.subtasks)
    for index, handle in handles(operator):
        kept = tuple(file for file in handle.private_state if not file.local_path.endswith(".sst"))
        changed = dataclasses.replace(handle, private_state=kept)
        subtasks[index] = dataclasses.replace(subtasks[index], managed_keyed_state=changed)
    rewrite(unpacked, dataclasses.replace(operator, subtasks=subtasks))

    messages = failures(unpacked, StateFileNotFoundError)

    assert messages
    for text in messages:
        assert ".sst of a database is not among those that the snapshot lists" in text
        assert f"file: {unpacked.path}" in text
        assert DAMAGED in text
    the_rest_reads(unpacked)


def test_a_value_that_is_none_names_its_table_file(unpacked: RecordedSnapshot) -> None:
    savepoint = Snapshot.open(unpacked.path)
    (operator,) = [each for each in savepoint.operators if each.uid == DAMAGED]
    subtasks = dict(operator.subtasks)
    for index, handle in handles(operator):
        with savepoint.open_state(handle.meta_state, operator) as source:
            header = KeyedBackendHeader.read(DataInputView(source.read(0, source.size)))
        numbers = {meta.name: meta.value_serializer for meta in header.states}
        states = tuple(
            dataclasses.replace(meta, serializers={**meta.serializers, "VALUE_SERIALIZER": numbers["v-double"]})
            if meta.name == "v-string"
            else meta
            for meta in header.states
        )
        out = DataOutputView()
        dataclasses.replace(header, states=states).write(out)
        changed = dataclasses.replace(handle, meta_state=ByteStreamStateHandle("meta", bytes(out.getvalue())))
        subtasks[index] = dataclasses.replace(subtasks[index], managed_keyed_state=changed)
    rewrite(unpacked, dataclasses.replace(operator, subtasks=subtasks))

    with pytest.raises(CorruptStateError) as raised:
        unpacked.table(operator_of(unpacked, DAMAGED), state="v-string", table="keyed_state")

    assert raised.value.facts["path"] in [str(path) for path in table_files(unpacked)]
    assert raised.value.facts["state"] == "v-string"


def test_handles_of_old_releases_read_as_those_of_new_ones(case: RecordedSnapshot, tmp_path: Path) -> None:
    """Up to 1.14, handles had no id and no checkpointed size: type 5 in place of 11."""
    savepoint = Snapshot.open(case.path)
    folder = tmp_path / "checkpoints" / "chk-1"
    shutil.copytree(case.path, folder)
    beside = Path(case.path).parent / "shared"
    if beside.exists():
        shutil.copytree(beside, tmp_path / "checkpoints" / "shared")
    operators = []
    for operator in savepoint.operators:
        subtasks = dict(operator.subtasks)
        for index, handle in handles(operator):
            old = dataclasses.replace(handle, state_handle_id=None, checkpointed_size=-1)
            assert old.type_byte == 5
            subtasks[index] = dataclasses.replace(subtasks[index], managed_keyed_state=old)
        operators.append(dataclasses.replace(operator, subtasks=subtasks))
    metadata = dataclasses.replace(savepoint.metadata, operators=tuple(operators))
    (folder / "_metadata").write_bytes(write_metadata(metadata))
    expected = {**case.expected, "meta": {**case.expected["meta"], "savepoint": "checkpoints/chk-1"}}
    (tmp_path / "expected.json").write_text(json.dumps(expected))

    assert {handle.type_byte for each in Snapshot.open(str(folder)).operators for _, handle in handles(each)} == {5}
    assert differences(RecordedSnapshot(tmp_path)) == []


@pytest.mark.parametrize("uid", ["by-long", "by-string", "by-tuple", "by-pojo"])
def test_incremental_checkpoints_of_1_10(corpus: Path, uid: str) -> None:
    """Table files of format version 0; what the job has put into its states follows from the key's number."""
    folder = find_snapshots(str(corpus / "real" / "old-110-incr" / "chk"))[0].path
    rows = {}
    for row in read_rows(folder, uid, "keyed_state"):
        rows[row["red"]] = row

    assert sorted(rows) == list(range(60))
    for i, row in rows.items():
        assert (row["cnt"], row["last"], row["list"], row["map"]) == (1, f"s{i}", [i], [(f"m{i % 5}", i)])
        assert (row["agg"], row["gone"]) == ({"f0": i, "f1": 1}, i if i % 7 else None)
        assert row["tup"] == {"f0": i, "f1": f"x{i}", "f2": i / 4}
        assert row["either"] == ({"left": None, "right": i} if i % 2 else {"left": f"l{i}", "right": None})
        assert (row["ttl"], row["tlist"], row["tmap"]) == (i, [i], [(i % 3, f"v{i}")])
        assert (row["pojo"]["age"], row["pojo"]["longs"]) == (i, [i, -i])
    timers = sorted((row["domain"], row["timestamp"]) for row in read_rows(folder, uid, "timers"))
    event = [("event", 5_000_000_000_000 + i) for i in range(60) if i % 2]
    assert timers == event + [
        ("processing", 6_000_000_000_000 + i % 10) for i in sorted(range(60), key=lambda i: i % 10)
    ]


def read_rows(path: str, uid: str, table: str) -> list[dict[str, Any]]:
    partitions = open_table(TableRequest(path, uid=uid, table=table)).partitions(2)
    return [row for part in partitions for batch in part.batches() for row in batch.to_pylist()]


def rewrite(snapshot: RecordedSnapshot, changed: OperatorState) -> None:
    """Replace the description of an operator in a snapshot."""
    savepoint = Snapshot.open(snapshot.path)
    operators = tuple(changed if each.uid == changed.uid else each for each in savepoint.operators)
    metadata = dataclasses.replace(savepoint.metadata, operators=operators)
    (Path(snapshot.path) / "_metadata").write_bytes(write_metadata(metadata))


def failures(snapshot: RecordedSnapshot, kind: type[SavepointError]) -> list[str]:
    """Return the errors of the operator's tables that cannot be read; some tables can be."""
    operator = operator_of(snapshot, DAMAGED)
    states = operator["states"]
    assert isinstance(states, list)
    messages = []
    for options in [*({"state": state["name"], "table": "keyed_state"} for state in states), {"table": "timers"}]:
        try:
            snapshot.table(operator, **options)
        except SavepointError as error:
            assert isinstance(error, kind), error  # noqa: PT017  (any of many tables may fail)
            messages.append(str(error))
    return messages
