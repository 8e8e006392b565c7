"""Checkpoints of the changelog state backend that real Flink has just written read to what the jobs put in."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.metadata.keyed_handles import ChangelogStateBackendHandle, ChangelogStateHandleStreamImpl
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.expected import RecordedSnapshot, differences
from tests.oracle import compare
from tests.oracle.flink import SavepointOf, restore
from tests.oracle.test_changed_savepoints import KEPT, states_of
from tests.oracle.test_reader import OF_ANIMALS, WITHOUT_LENGTHS, snapshot_of, without

pytestmark = pytest.mark.flink

#: Only changes; and what was written as a whole every now and then, with the changes since, in compressed files.
CASES: dict[str, dict[str, Any]] = {
    "changes": {"job": "types", "backend": "changelog", "max_parallelism": 1000, "parallelism": 3},
    "compressed": {
        "job": "types",
        "backend": "changelog-rocksdb",
        "configuration": {"state.changelog.dstl.dfs.compression.enabled": "true"},
    },
}

#: Only changes, no timers, and values whose end only Kryo finds: nothing shows the type of the keys.
WITHOUT_KEYS = {"inferred/pojo"}


@pytest.fixture(params=CASES)
def logged(request: pytest.FixtureRequest, flink_version: str, savepoint_of: SavepointOf) -> RecordedSnapshot:
    snapshot = snapshot_of(savepoint_of(flink_version, format="checkpoint", **CASES[request.param]))
    snapshot.options["allow_outside"] = True  # the changelogs have a folder of their own
    return snapshot


def handles(snapshot: RecordedSnapshot) -> Iterator[ChangelogStateBackendHandle]:
    for operator in Snapshot.open(snapshot.path).operators:
        for subtask in operator.subtasks.values():
            if isinstance(subtask.managed_keyed_state, ChangelogStateBackendHandle):
                yield subtask.managed_keyed_state


def test_changes_and_what_was_materialized_read_to_what_went_in(logged: RecordedSnapshot) -> None:
    found = list(handles(logged))
    assert found
    if logged.expected["meta"]["backend"] == "changelog":
        assert not any(handle.materialized for handle in found)
        deltas = [delta for handle in found for delta in handle.non_materialized]
        assert deltas
        assert all(isinstance(delta, ChangelogStateHandleStreamImpl) for delta in deltas)

    assert differences(without(logged, "broken-strings")) == []

    assert WITHOUT_LENGTHS <= logged.undecodable.keys() <= WITHOUT_LENGTHS | OF_ANIMALS | WITHOUT_KEYS


def test_flink_restores_copies_and_edits(logged: RecordedSnapshot, flink_version: str, tmp_path: Path) -> None:
    copied = copy.deepcopy(logged.expected)
    copied["operators"] = [operator for operator in copied["operators"] if operator["uid"] in KEPT]
    edited = copy.deepcopy(copied)
    for state in states_of(edited, "numbers"):
        state["entries"] = [entry for entry in state["entries"] if entry[0] not in (1, 3)]
    base = pyspark_savepoint.open(logged.path, allow_outside=True)
    base.write(tmp_path / "copied")
    base.remove_keys("numbers", [1, 3]).write(tmp_path / "edited")
    for name, after in (("copied", copied), ("edited", edited)):
        backend = logged.expected["meta"]["backend"]
        found = restore(flink_version, "types", tmp_path / name, tmp_path, backend=backend)
        assert compare.differences(after, {uid: found[uid] for uid in KEPT}) == []


def test_a_changelog_lists_its_states_as_others_do(logged: RecordedSnapshot) -> None:
    (partition,) = open_table(TableRequest(logged.path, allow_outside=True)).partitions(1)

    rows = [row for batch in partition.batches() for row in batch.to_pylist()]

    kinds = {(row["operator_uid_hash"], row["state"]): row["kind"] for row in rows if row["spark_key_type"]}
    ids = {each["uid"]: each["operatorId"] for each in logged.expected["operatorIds"]}
    for operator in logged.operators("keyed"):
        for state in operator["states"]:
            assert kinds[ids[operator["uid"]], state["name"]].lower() == state["kind"]
