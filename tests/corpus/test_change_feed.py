"""Changes between the checkpoints of a history: the first snapshot and its changes give every later one."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.spark.savepoint import Savepoint
from pyspark_savepoint.command_line.following import following
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointWarning,
    SnapshotNotFoundError,
    StateNotFoundError,
    UnsupportedStateError,
)
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from tests.corpus.test_history import HISTORIES, START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES: dict[str, dict[str, str]] = {
    "accounts": {"uid": "accounts", "table": "keyed_state"},
    "last access": {"uid": "accounts", "table": "keyed_state", "includeTtl": "true"},
    "names": {"uid": "names", "table": "keyed_state"},
    "windows": {"uid": "windows", "table": "window_state"},
    "timers": {"uid": "accounts", "table": "timers"},
    "timers of windows": {"uid": "windows", "table": "timers"},
    "log": {"uid": "log", "table": "operator_state", "state": "log"},
    "reader": {"uid": "steps", "table": "operator_state", "state": "SourceReaderState"},
    "splits": {"table": "splits"},
    "offsets": {"table": "offsets"},
    "some keys": {"uid": "accounts", "table": "keyed_state", "keys": "[1, 2, 3, 5, 8, 13, 1000]"},
    "windows of some keys": {"uid": "windows", "table": "window_state", "keys": "[0, 1, 2, 3, 7]"},
    "timers of some keys": {"uid": "accounts", "table": "timers", "keys": "[1, 2, 3, 5, 8, 13]"},
    "some key groups": {"uid": "accounts", "table": "keyed_state", "keyGroups": "0-9,40,100-127"},
    "timers of some key groups": {"uid": "accounts", "table": "timers", "keyGroups": "3-60"},
    "elements of a list": {"uid": "accounts", "table": "keyed_state", "state": "tags", "flatten": "true"},
    "elements of a map": {"uid": "accounts", "table": "keyed_state", "state": "per", "flatten": "true"},
}
CHANGES = {"readChangeFeed": "true", "startingVersion": "0"}
COLUMNS = ["_change_type", "_commit_version", "_commit_timestamp"]


def options(path: Path | str, **given: Any) -> dict[str, str]:
    return {"path": str(path), "allowOutside": "true", **{name: str(value) for name, value in given.items()}}


def table(path: Path | str, **given: Any) -> SnapshotTable:
    return SnapshotTable.of(SavepointReadOptions.parse(options(path, **given)))


def feed(path: Path | str, **given: Any) -> SnapshotTable:
    return table(path, readChangeFeed="true", **given)


def versions(path: Path) -> dict[int, str]:
    found = {snapshot.checkpoint_id: snapshot.path for snapshot in find_snapshots(str(path))}
    return {number: found[number] for number in sorted(number for number in found if number is not None)}


def counted(rows: pa.Table) -> Counter[bytes]:
    """The rows of a table, told apart by their values."""
    return Counter(value for batch in rows.to_batches() for value in row_bytes(batch.columns).to_pylist())


def expect_replay(changes: pa.Table, snapshots: Mapping[int, pa.Table]) -> None:
    """The changes up to each version, from nothing, are its rows: nothing is deleted that was not there."""
    have: Counter[bytes] = Counter()
    # Flink may write the states of two checkpoints in another order: columns are compared in that of the changes.
    names = [name for name in changes.schema.names if name not in COLUMNS]
    for version, snapshot in snapshots.items():
        assert set(snapshot.schema.names) == set(names)
        rows = snapshot.select(names)
        mine = changes.filter(pa.compute.equal(changes["_commit_version"], version))
        kinds, values = mine["_change_type"].to_pylist(), mine.select(names)
        gone = [kind in ("delete", "update_preimage") for kind in kinds]
        removed = counted(values.filter(pa.array(gone, pa.bool_())))
        assert not removed - have
        have = have - removed + counted(values.filter(pa.array([not each for each in gone], pa.bool_())))
        assert have == counted(rows), version
    assert set(changes["_commit_version"].to_pylist()) <= set(snapshots)


@pytest.fixture
def checkpoints(corpus: Path, tmp_path: Path) -> Path:
    """Checkpoints 1 to 8 of two jobs, the second restored from the first: completed a minute one after the other."""
    copy = tmp_path / "checkpoints"
    shutil.copytree(corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints", copy)
    for metadata in copy.rglob("_metadata"):
        time = START + int(metadata.parent.name.removeprefix("chk-")) * 60
        os.utime(metadata, (time, time))
    return copy


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", HISTORIES)
def test_the_first_snapshot_and_its_changes_are_every_later_one(corpus: Path, name: str, kind: str) -> None:
    path = corpus / "history" / name / "checkpoints"
    given = TABLES[kind]
    known = versions(path)
    parallelism = {} if kind in ("splits", "offsets") else {"parallelism": len(known) * 2}
    changes = feed(path, startingVersion=0, **parallelism, **given)
    assert changes.schema.names[:3] == COLUMNS
    snapshots = {version: table(at, **given).to_arrow() for version, at in known.items()}
    found = changes.to_arrow()
    expect_replay(found, snapshots)
    first = next(iter(known))
    rest = feed(path, startingVersion=list(known)[1], **given).to_arrow()
    assert counted(rest) == counted(found.filter(pa.compute.greater(found["_commit_version"], first)))
    net = feed(path, startingVersion=0, deduplicationMode="netChanges", **given).to_arrow()
    assert set(net["_change_type"].to_pylist()) <= {"insert"}
    assert counted(net.select(net.schema.names[3:])) == counted(snapshots[max(known)])


@pytest.mark.parametrize("name", HISTORIES)
def test_spark_has_the_same_changes(spark: SparkSession, corpus: Path, name: str) -> None:
    path = corpus / "history" / name / "checkpoints"
    for given in TABLES.values():
        expect_spark_replays(spark, path, given)


def expect_spark_replays(spark: SparkSession, path: Path, given: dict[str, str]) -> None:
    """With Spark the first snapshot and its changes are every later one too, by the same rows as without."""
    changes = spark.read.format("savepoint").options(**options(path, **CHANGES, **given)).load().toArrow()
    expected = table(path, **CHANGES, **given)
    assert changes.schema.names == expected.schema.names
    assert counted(changes.cast(expected.schema)) == counted(expected.to_arrow())
    expect_replay(
        changes.cast(expected.schema), {number: table(at, **given).to_arrow() for number, at in versions(path).items()}
    )


def test_spark_refuses_columns_that_changed(spark: SparkSession, checkpoints: Path) -> None:
    newest = next(checkpoints.rglob("chk-8"))
    pyspark_savepoint.open(newest).with_max_parallelism(64).write(checkpoints / "edited")
    shutil.rmtree(newest)
    shutil.move(checkpoints / "edited", newest)
    given = options(checkpoints, **CHANGES, uid="names", keyGroups="0-3")
    with pytest.raises(Exception, match="UnsupportedStateError: the max parallelism of the operator changed"):
        spark.read.format("savepoint").options(**given).load().collect()


def test_changes_up_to_a_snapshot(spark: SparkSession, corpus: Path) -> None:
    path = corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints"
    last = Savepoint.load(spark, versions(path)[8], allow_outside=True)
    up_to_it = last.changes("names", start=4, folder=path).toArrow()
    expected = feed(path, startingVersion=4, uid="names")
    assert counted(up_to_it.cast(expected.schema)) == counted(expected.to_arrow())


@pytest.mark.parametrize("kind", ["accounts", "windows"])
@pytest.mark.parametrize("name", HISTORIES)
def test_net_changes_are_the_ends_of_chains(corpus: Path, name: str, kind: str) -> None:
    """Inserted and deleted: no row. Updates: the first before, the last after. Updated and deleted: the first."""
    path = corpus / "history" / name / "checkpoints"
    known = list(versions(path))
    given = {"startingVersion": known[1], "endingVersion": known[-1], **TABLES[kind]}
    chains: dict[str, list[dict[str, Any]]] = {}
    rows = sorted(feed(path, **given).to_arrow().to_pylist(), key=lambda row: row["_commit_version"])
    identity = ("key", "window") if kind == "windows" else ("key",)
    for row in rows:
        chains.setdefault(str([row[each] for each in identity]), []).append(row)
    expected = Counter[str]()
    for chain in chains.values():
        first = chain[0] if chain[0]["_change_type"] in ("delete", "update_preimage") else None
        last = chain[-1] if chain[-1]["_change_type"] in ("insert", "update_postimage") else None
        values = [None if each is None else str([*each.values()][3:]) for each in (first, last)]
        if values[0] == values[1]:
            continue
        names = ("update_preimage", "update_postimage") if None not in values else ("delete", "insert")
        expected.update(f"{name} {value}" for name, value in zip(names, values, strict=True) if value is not None)
    net = feed(path, deduplicationMode="netChanges", **given).to_arrow().to_pylist()
    assert Counter(f"{row['_change_type']} {[*row.values()][3:]!s}" for row in net) == expected


@pytest.mark.parametrize("name", HISTORIES)
def test_a_stream_of_spark_has_the_same_changes(spark: SparkSession, corpus: Path, tmp_path: Path, name: str) -> None:
    path = corpus / "history" / name / "checkpoints"
    known = versions(path)
    queries = {}
    for kind in ("accounts", "names", "windows", "timers", "log", "splits"):
        given = options(path, **TABLES[kind], maxCheckpointsPerTrigger=3)
        writer = spark.readStream.format("savepoint").options(**given).load().writeStream.format("parquet")
        log = str(tmp_path / f"log of {kind}")
        queries[kind] = writer.trigger(availableNow=True).option("checkpointLocation", log).start(str(tmp_path / kind))
    for kind, query in queries.items():
        query.awaitTermination()
        found = spark.read.parquet(str(tmp_path / kind)).toArrow()
        given = TABLES[kind]
        expected = feed(path, startingVersion=0, **given)
        assert counted(found.cast(expected.schema)) == counted(expected.to_arrow())
        expect_replay(
            found.cast(expected.schema), {version: table(at, **given).to_arrow() for version, at in known.items()}
        )


@pytest.mark.parametrize("kind", ["accounts", "windows", "splits"])
def test_an_update_is_two_rows_one_after_the_other(checkpoints: Path, kind: str) -> None:
    rows = feed(checkpoints, startingVersion=2, **TABLES[kind]).to_arrow().to_pylist()
    updates = [row for row in rows if row["_change_type"].startswith("update")]
    assert updates
    for before, after in zip(updates[::2], updates[1::2], strict=True):
        assert [before["_change_type"], after["_change_type"]] == ["update_preimage", "update_postimage"]
        keys = ("_commit_version", *(("key",) if "key" in before else ("split_id",)))
        assert [before[name] for name in keys] == [after[name] for name in keys]
        assert before != {**after, "_change_type": "update_preimage"}


@pytest.mark.parametrize("kind", ["accounts", "windows", "timers"])
def test_changes_across_another_max_parallelism(checkpoints: Path, kind: str) -> None:
    given = {**TABLES[kind], "startingVersion": 8, "parallelism": 3}
    expected = feed(checkpoints, **given).to_arrow()
    newest = next(checkpoints.rglob("chk-8"))
    pyspark_savepoint.open(newest).with_max_parallelism(96).write(checkpoints / "edited")
    shutil.rmtree(newest)
    columns = [name for name in expected.schema.names if name != "_commit_timestamp"]
    assert counted(feed(checkpoints, **given).to_arrow().select(columns)) == counted(expected.select(columns))


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("lab/2.2.1-hashmap-canonical", {"uid": "window-session"}),
        ("lab/2.2.1-rocksdb-native", {"uid": "window-session"}),
        ("lab/2.2.1-hashmap-canonical", {"uid": "window-session", "table": "timers"}),
        ("lab/2.2.1-hashmap-canonical", {"uid": "op-broadcast"}),
        ("real/pyf-120/sp", {"uidHash": "43487588459d4ffdd9542da2da8250dd"}),
        ("real/pyf-120/sp", {"uidHash": "b00c6b12fa6d7e23a5fc7cadfeeca741"}),
    ],
)
def test_rows_of_one_snapshot_are_inserts(corpus: Path, path: str, given: dict[str, str]) -> None:
    rows = table(next(iter(versions(corpus / path).values())), **given).to_arrow()
    changes = feed(corpus / path, startingVersion=0, **given).to_arrow()
    assert set(changes["_change_type"].to_pylist()) == {"insert"}
    assert counted(changes.select(rows.schema.names)) == counted(rows)


@pytest.mark.parametrize("kind", ["accounts", "windows", "timers", "log"])
def test_net_changes_of_a_range(corpus: Path, kind: str) -> None:
    path = corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints"
    known = versions(path)
    net = feed(path, startingVersion=3, endingVersion=7, deduplicationMode="netChanges", **TABLES[kind]).to_arrow()
    assert set(net["_commit_version"].to_pylist()) == {7}
    before, after = (table(known[version], **TABLES[kind]).to_arrow() for version in (2, 7))
    first = table(known[2], **TABLES[kind]).to_arrow()
    start = pa.table([["insert"] * len(first), [2] * len(first)], names=["_change_type", "_commit_version"])
    for name in first.schema.names:
        start = start.append_column(name, first[name])
    both = pa.concat_tables([start, net.select(start.schema.names).cast(start.schema)])
    expect_replay(both, {2: before, 7: after})


def test_what_changed_and_changed_back_is_no_net_change(checkpoints: Path) -> None:
    """Version 8 is as 6 was: what version 7 changed is changed back."""
    known = versions(checkpoints)
    rows = pyspark_savepoint.open(known[6], allow_outside=True).keyed_state("names").to_arrow()
    without = pyspark_savepoint.open(known[8], allow_outside=True).remove_operator("names")
    without.with_operator("names", rows, key="key").write(checkpoints / "edited")
    shutil.rmtree(known[8])
    given = {"uid": "names", "startingVersion": 7}
    there_and_back = feed(checkpoints, **given).to_arrow()
    assert set(there_and_back["_commit_version"].to_pylist()) == {7, 8}
    assert len(feed(checkpoints, **given, endingVersion=7, deduplicationMode="netChanges").to_arrow())
    net = feed(checkpoints, **given, deduplicationMode="netChanges").to_arrow()
    assert net.num_rows == 0
    assert net.schema == there_and_back.schema


@pytest.mark.parametrize("kind", ["accounts", "windows", "timers", "log", "elements of a map"])
def test_where_a_row_is_is_no_value_of_it(corpus: Path, kind: str) -> None:
    path = corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints"
    given = TABLES[kind]
    alone = feed(path, startingVersion=0, **given).to_arrow()
    changes = feed(path, startingVersion=0, includeKeyGroup="true", **given).to_arrow()
    assert counted(changes.select(alone.schema.names)) == counted(alone)
    for version, at in versions(path).items():
        there = table(at, includeKeyGroup="true", **given).to_arrow()
        mine = changes.filter(pa.compute.equal(changes["_commit_version"], version))
        new = pa.compute.is_in(mine["_change_type"], value_set=pa.array(["insert", "update_postimage"]))
        assert not counted(mine.filter(new).select(there.schema.names)) - counted(there)
    assert "subtask" in changes.schema.names


def test_an_element_of_a_map_or_list_is_updated(corpus: Path) -> None:
    path = corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints"
    for kind, element in (("elements of a map", "map_key"), ("elements of a list", "list_index")):
        rows = feed(path, startingVersion=2, **TABLES[kind]).to_arrow().to_pylist()
        updates = [row for row in rows if row["_change_type"].startswith("update")]
        assert updates or kind == "elements of a list"
        for before, after in zip(updates[::2], updates[1::2], strict=True):
            assert (before["key"], before[element]) == (after["key"], after[element])


def test_key_groups_of_another_max_parallelism(checkpoints: Path) -> None:
    newest = next(checkpoints.rglob("chk-8"))
    pyspark_savepoint.open(newest).with_max_parallelism(96).write(checkpoints / "edited")
    shutil.rmtree(newest)
    with pytest.raises(UnsupportedStateError, match=r"max parallelism(?s:.*)after version [1-7](?s:.*)later 96"):
        feed(checkpoints, uid="accounts", startingVersion=0, keyGroups="1-5")
    with pytest.raises(OptionError, match="out of the range"):
        feed(checkpoints, uid="accounts", startingVersion=0, keyGroups="1-500")
    given = {"startingVersion": 8, "keys": "[1, 2, 3, 5]"}
    assert len(feed(checkpoints, uid="accounts", **given).to_arrow())


def test_ends_of_a_range(checkpoints: Path) -> None:
    def found(**given: Any) -> list[int]:
        return sorted(set(feed(checkpoints, uid="names", **given).to_arrow()["_commit_version"].to_pylist()))

    assert found(startingVersion=3, endingVersion=5) == [3, 4, 5]
    assert found(startingVersion=0, endingVersion=2) == [1, 2]
    assert found(startingVersion=7, endingVersion="latest") == [7, 8]
    assert found(startingVersion=8) == [8]
    minute = "2026-11-24T12:{:02}:{:02}Z".format
    assert found(startingTimestamp=minute(3, 0), endingTimestamp=minute(5, 0)) == [3, 4, 5]
    assert found(startingTimestamp=minute(3, 1), endingTimestamp=minute(5, 59)) == [4, 5]
    commits = feed(checkpoints, uid="names", startingVersion=4, endingVersion=4).to_arrow()["_commit_timestamp"]
    assert set(commits.to_pylist()) == {datetime(2026, 11, 24, 12, 4, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingVersion": 1}, "since the version before it, which this folder has not(?s:.*)startingVersion 2 is"),
        ({"startingVersion": 9}, "has checkpoint id 9(?s:.*)checkpoint ids 1-8"),
        ({"startingVersion": 2, "endingVersion": 11}, "has checkpoint id 11"),
        ({"startingVersion": 5, "endingVersion": 4}, "versions 5 to 4 are none"),
        ({"startingTimestamp": "2030-01-01T00:00:00Z"}, "is of 2030(?s:.*)2026-11-24T12:08:00"),
        ({"startingVersion": 2, "endingTimestamp": "2020-01-01T00:00:00Z"}, "as old as 2020(?s:.*)2026-11-24T12:01:00"),
        ({"startingTimestamp": "2020-01-01T00:00:00Z"}, "since the version before it"),
    ],
)
def test_ranges_that_are_not_there(checkpoints: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SnapshotNotFoundError, match=problem):
        feed(checkpoints, uid="names", **given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingVersion": "2"}, "is for changes: 'readChangeFeed'"),
        ({"readChangeFeed": "true"}, "needs 'startingVersion' or 'startingTimestamp'"),
        ({**CHANGES, "startingTimestamp": "2026-11-24T12:03:00Z"}, "each choose a version"),
        ({**CHANGES, "versionAsOf": "3"}, "chooses one snapshot"),
        (
            {**CHANGES, "includeStateWindow": "true"},
            "'includeStateWindow' cannot apply to changes: (?s:.*)leave it out",
        ),
        ({"readChangeData": "true", "startingVersion": "2"}, "its name is 'readChangeFeed'"),
        ({**CHANGES, "maxFilesPerTrigger": "2"}, "'maxCheckpointsPerTrigger' says how many"),
        ({**CHANGES, "skipChangeCommits": "true"}, "filter by '_change_type'"),
        ({**CHANGES, "snapshotStartBatchId": "3"}, "'versionAsOf' chooses it by its id"),
        ({**CHANGES, "start-timestamp": "1764000000000"}, "'startingTimestamp' is a time with its zone"),
        ({**CHANGES, "branch": "main"}, "a folder has one history"),
        ({"readChangeFeed": "true", "startingVersion": "-1"}, "expected a checkpoint id, such as 42, 0"),
        ({"readChangeFeed": "true", "startingTimestamp": "2021-04-21 05:45:46"}, "such as 2021-04-21T05:45:46Z or"),
        ({"readChangeFeed": "true", "startingTimestamp": "2019-01-01"}, "such as 2019-01-01T00:00:00Z or"),
        (
            {**CHANGES, "keys": "[1]", "flatten": "true", "deduplicationMode": "none"},
            "'none' cannot apply with option 'flatten' and 'keys'",
        ),
        ({**CHANGES, "deduplicationMode": "all"}, "expected dropCarryovers or none or netChanges"),
        ({**CHANGES, "table": "sizes"}, "cannot apply to table 'sizes'"),
        ({**CHANGES, "versions": "1"}, "expected no text"),
        ({**CHANGES}, "needs an operator, or a table"),
    ],
)
def test_options_that_do_not_apply(checkpoints: Path, given: dict[str, str], problem: str) -> None:
    operator = {} if given == CHANGES or "table" in given else {"uid": "names"}
    with pytest.raises(OptionError, match=problem):
        table(checkpoints, **operator, **given)


def test_writes_have_no_changes(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no option 'readChangeFeed'"):
        SavepointWriteOptions.parse({"path": str(tmp_path), "readChangeFeed": "true"})


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError, match="there is no snapshot below this folder"):
        feed(tmp_path, uid="names", startingVersion=0)


def test_what_no_version_has(checkpoints: Path) -> None:
    with pytest.raises(OperatorNotFoundError, match="uid 'name'"):
        feed(checkpoints, uid="name", startingVersion=0)
    with pytest.raises(StateNotFoundError, match="'count'"):
        feed(checkpoints, uid="names", table="keyed_state", state="coun", startingVersion=0)


def test_checkpoints_of_another_job_in_between(checkpoints: Path) -> None:
    shutil.move(next(checkpoints.rglob("chk-3")), checkpoints / "another-job" / "chk-3")
    with pytest.raises(SnapshotNotFoundError, match=r"another job(?s:.*)another-job among those of"):
        feed(checkpoints, uid="names", startingVersion=0)
    assert feed(checkpoints, uid="names", startingVersion=5).schema.names[:3] == COLUMNS


def test_two_versions_of_one_number(checkpoints: Path) -> None:
    shutil.copytree(next(checkpoints.rglob("chk-6")), checkpoints / "another-job" / "chk-6")
    with pytest.raises(SnapshotNotFoundError, match="2 snapshots"):
        feed(checkpoints, uid="names", startingVersion=5)
    assert len(feed(checkpoints, uid="names", startingVersion=0, endingVersion=5).to_arrow())


def test_an_id_that_is_not_that_of_its_folder(checkpoints: Path) -> None:
    """No checksum covers it: a version that never was would have the changes."""
    metadata = next(checkpoints.rglob("chk-8")) / "_metadata"
    data = bytearray(metadata.read_bytes())
    assert data[8:16] == (8).to_bytes(8, "big")
    data[14] = 1
    metadata.write_bytes(data)
    with pytest.warns(SavepointWarning, match="chk-8: the checkpoint id in this file is not that of its folder"):
        found = pyspark_savepoint.open_changes(checkpoints, "names", allow_outside=True).to_arrow()
    assert max(found["_commit_version"].to_pylist()) == 7
    metadata.parent.rename(metadata.parent.with_name("copied"))
    assert max(versions(checkpoints)) == 264


def test_an_operator_that_is_gone(checkpoints: Path) -> None:
    newest = next(checkpoints.rglob("chk-8"))
    pyspark_savepoint.open(newest).remove_operator("names").write(checkpoints / "edited")
    shutil.rmtree(newest)
    with pytest.raises(OperatorNotFoundError, match=r"version 8 does not have it(?s:.*)endingVersion"):
        feed(checkpoints, uid="names", startingVersion=0)
    assert len(feed(checkpoints, uid="names", startingVersion=0, endingVersion=7).to_arrow())


def test_columns_that_changed(checkpoints: Path) -> None:
    newest = next(checkpoints.rglob("chk-8"))
    rows = pa.table({"key": ["a"], "count": [1.5]})
    without = pyspark_savepoint.open(newest).remove_operator("names")
    without.with_operator("names", rows, key="key").write(checkpoints / "edited")
    shutil.rmtree(newest)
    with pytest.raises(
        UnsupportedStateError, match=r"changed after version (?s:.*)'count' with type int64, later double"
    ):
        feed(checkpoints, uid="names", startingVersion=0)


def test_the_version_after_which_columns_changed(checkpoints: Path) -> None:
    newest = next(checkpoints.rglob("chk-8"))
    with pytest.warns(SavepointWarning):
        pyspark_savepoint.open(newest).remove_state("accounts", "tags").write(checkpoints / "edited")
    shutil.rmtree(newest)
    with pytest.raises(UnsupportedStateError, match=r"after version 7(?s:.*)'tags' with type list.*, later none"):
        feed(checkpoints, uid="accounts", startingVersion=0)
    pyspark_savepoint.open(next(checkpoints.rglob("chk-7"))).with_max_parallelism(64).write(newest)
    shutil.rmtree(next(checkpoints.rglob("chk-7")))
    shutil.rmtree(checkpoints / "edited")
    with pytest.raises(UnsupportedStateError, match=r"after version 6(?s:.*)128 key groups, later 64"):
        feed(checkpoints, uid="names", startingVersion=0, keyGroups="0-3")


def test_a_checkpoint_that_cannot_be_read_is_named(
    checkpoints: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = feed(checkpoints, uid="names", startingVersion=0)
    next(checkpoints.rglob("chk-5")).joinpath("_metadata").write_bytes(b"damaged")
    assert not whole.warnings
    without = feed(checkpoints, uid="names", startingVersion=0)
    (warning,) = without.warnings
    assert "checkpoint 5 cannot be read" in warning
    kept = {number: path for number, path in versions(checkpoints).items() if number != 5}
    expect_replay(without.to_arrow(), {number: table(path, uid="names").to_arrow() for number, path in kept.items()})
    assert feed(checkpoints, uid="names", startingVersion=6).warnings == (warning,)
    assert feed(checkpoints, uid="names", startingVersion=7).warnings == ()
    assert feed(checkpoints, uid="names", startingVersion=0, endingVersion=4).warnings == ()
    for given in ({"startingVersion": 5}, {"startingVersion": 2, "endingVersion": 5}):
        with pytest.raises(SnapshotNotFoundError, match=r"checkpoint 5 cannot be read(?s:.*)ids 1-4, 6-8"):
            feed(checkpoints, uid="names", **given)
    with pytest.raises(SnapshotNotFoundError, match=r"checkpoint 5 cannot be read(?s:.*)not the _metadata"):
        table(checkpoints, uid="names", versionAsOf=5)
    assert table(checkpoints, uid="names", versionAsOf="latest").warnings == ()
    next(checkpoints.rglob("chk-8")).joinpath("_metadata").write_bytes(b"")
    assert "checkpoint 8 cannot be read" in table(checkpoints, uid="names", versionAsOf="latest").warnings[0]
    with pytest.warns(SavepointWarning, match="checkpoint 8 cannot be read"):
        assert pyspark_savepoint.open(checkpoints, version_as_of="latest").path.endswith("chk-7")
    assert main(["changes", str(checkpoints), "names", "--allow-outside"]) == 1
    assert "checkpoint 5 cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["first", "-3", "2026-13-01"])
def test_what_is_no_version(checkpoints: Path, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OptionError, match="a version is a checkpoint id, latest, or a time"):
        pyspark_savepoint.open_changes(checkpoints, "names", start=version)
    for arguments in (["changes", "--start"], ["show", "--as-of"]):
        command, option = arguments
        assert main([command, str(checkpoints), "names", f"{option}={version}"]) == 2
        assert "a version is a checkpoint id, latest, or a time" in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"option 'asOf' is '.*', expected a checkpoint id, latest, or a time: for"):
        table(checkpoints, uid="names", asOf=version)
    with pytest.raises(OptionError) as refused:
        feed(checkpoints, uid="names", startingVersion=version)
    assert "needs" not in str(refused.value)


def test_the_python_function_and_the_command_line(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = feed(checkpoints, uid="names", startingVersion=3, endingVersion=5).to_arrow()
    assert pyspark_savepoint.open_changes(checkpoints, "names", start=3, end=5).to_arrow() == expected
    time = datetime(2026, 11, 24, 12, 3, tzinfo=UTC)
    assert pyspark_savepoint.open_changes(checkpoints, "names", start=time, end=5).to_arrow() == expected
    for own in ({"starting_version": 3}, {"ending_timestamp": time}, {"uid_hash": "0" * 32}):
        with pytest.raises(OptionError):
            pyspark_savepoint.open_changes(checkpoints, "names", start=time, **own)
    words = [
        "changes",
        str(checkpoints),
        "names",
        "--start",
        "3",
        "--end",
        "2026-11-24T12:05:00Z",
        "--json",
        "--limit",
        "0",
    ]
    assert main(words) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["_change_type"] for row in rows] == expected["_change_type"].to_pylist()
    assert [row["count"] for row in rows] == expected["count"].to_pylist()
    assert main(["changes", str(checkpoints), "--table", "offsets", "--start", "2", "--net"]) in (0, 1)
    assert main(["changes", str(checkpoints), "names", "--start", "99"]) == 2


def test_the_reader_has_the_versions_of_the_schema(checkpoints: Path) -> None:
    source = SavepointDataSource(options(checkpoints, **CHANGES, uid="names"))
    schema = source.schema()
    shutil.copytree(next(checkpoints.rglob("chk-8")), checkpoints / "another-job" / "chk-8")
    source = pickle.loads(pickle.dumps(source))  # as Spark does, for another process
    found = source.reader(schema).options.versions
    assert [each and each.checkpoint_id for each in found] == [None, *range(1, 9)]


def test_a_snapshot_has_the_changes_up_to_it(checkpoints: Path) -> None:
    expected = feed(checkpoints, uid="names", startingVersion=3, endingVersion=6).to_arrow()
    sixth = pyspark_savepoint.open(checkpoints, version_as_of=6)
    assert sixth.changes("names", start=3, folder=checkpoints).to_arrow() == expected
    assert sixth.changes("names", start=5, end="latest", folder=checkpoints, state="count").to_arrow().num_rows
    # Its own folder has those of the restored job alone, from version 5 on.
    mine = sixth.changes("names", start=6).to_arrow()
    assert mine == feed(checkpoints, uid="names", startingVersion=6, endingVersion=6).to_arrow()
    with pytest.raises(SnapshotNotFoundError, match="since the version before it"):
        sixth.changes("names", start=5)
    with pytest.raises(OptionError, match="starting_version"):
        sixth.changes("names", start=5, starting_version=6)  # type: ignore[call-arg]


def test_the_command_line_follows_a_job(checkpoints: Path, tmp_path: Path) -> None:
    expected = feed(checkpoints, uid="names", startingVersion=5).to_arrow()
    job = next(checkpoints.rglob("chk-8")).parent
    for number in (7, 8):
        (job / f"chk-{number}").rename(tmp_path / f"chk-{number}")
    words = ["changes", str(checkpoints), "names", "--start", "5", "--follow", "--json"]
    run = "import sys; from pyspark_savepoint.command_line.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen([sys.executable, "-c", run, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = []
        for number in (6, 7, 8):
            if number > 6:
                (tmp_path / f"chk-{number}").rename(job / f"chk-{number}")
            count = len(expected.filter(pa.compute.less_equal(expected["_commit_version"], number)))
            while len(found) < count:
                found.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
    assert [(row["_commit_version"], row["_change_type"], row["key"], row["count"]) for row in found] == [
        (row["_commit_version"], row["_change_type"], row["key"], row["count"]) for row in expected.to_pylist()
    ]
    assert main(["changes", str(checkpoints), "names", "--follow"]) == 2


def test_following_goes_on_after_checkpoints_that_are_deleted_while_they_are_read(checkpoints: Path) -> None:
    """Of one that goes nothing is printed: its changes are among those of the next. All that is lost is told."""
    opened = feed(checkpoints, uid="names", startingVersion=6)
    for number in (5, 7):  # after the table was opened
        shutil.rmtree(next(checkpoints.rglob(f"chk-{number}")))
    expected = feed(checkpoints, uid="names", startingVersion=8).to_arrow().to_pylist()
    told = StringIO()
    rows = list(islice(following(opened, Output(StringIO(), told)), len(expected)))
    assert [(row["_commit_version"], row["_change_type"], row["key"], row["count"]) for row in rows] == [
        (row["_commit_version"], row["_change_type"], row["key"], row["count"]) for row in expected
    ]
    assert told.getvalue().splitlines() == [
        "warning: checkpoint 5, up to which changes are shown, was deleted: what changed from it to checkpoint 6 is "
        "not shown",
        "warning: checkpoint 7 was deleted while it was read: its changes are among those of the next one",
    ]


def test_following_begins_with_the_first_checkpoint_that_is_left(checkpoints: Path) -> None:
    opened = feed(checkpoints, uid="names", startingVersion=0)
    for number in (1, 2):
        shutil.rmtree(next(checkpoints.rglob(f"chk-{number}")))
    expected = feed(checkpoints, uid="names", startingVersion=0).to_arrow()
    told = StringIO()
    rows = list(islice(following(opened, Output(StringIO(), told)), len(expected)))
    assert [row["_commit_version"] for row in rows] == expected["_commit_version"].to_pylist()
    assert [line.split()[2] for line in told.getvalue().splitlines()] == ["1", "2"]
