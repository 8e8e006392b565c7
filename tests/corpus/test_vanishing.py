"""Checkpoints that their job deletes while they are read, and checkpoints that are held."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.spark.savepoint import Savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateExistsError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.metadata.manifest import Origin
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from pyspark_savepoint.options.options import SavepointReadOptions, opened_at
from pyspark_savepoint.write.copying import copy_files, pin_snapshot
from tests.corpus.test_change_feed import counted, feed, options, table
from tests.corpus.test_history import HISTORIES, START, held, of_truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Keyed state, by the bytes of files; operator state, by values of what is inline or in private files.
READ = {"accounts": {"uid": "accounts"}, "log": {"uid": "log", "table": "operator_state", "state": "log"}}


@pytest.fixture(params=["1.20.5-rocksdb-incr-rescaled", "2.3.0-hashmap", "2.3.0-forst-incr"])
def checkpoints(corpus: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The checkpoints of a job, completed a minute one after the other."""
    copy = tmp_path / "checkpoints"
    shutil.copytree(corpus / "history" / request.param / "checkpoints", copy)
    for metadata in copy.rglob("_metadata"):
        at = START + int(metadata.parent.name.removeprefix("chk-")) * 60
        os.utime(metadata, (at, at))
    return copy


def chk(folder: Path, number: int) -> Path:
    return next(folder.rglob(f"chk-{number}"))


def newest(folder: Path) -> int:
    return max(int(path.name.removeprefix("chk-")) for path in folder.rglob("chk-*"))


def delete(checkpoint: Path) -> None:
    """Delete a checkpoint as Flink does: its file of metadata first, then its private files, and its folder."""
    (checkpoint / "_metadata").unlink()
    shutil.rmtree(checkpoint)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_held_checkpoint_outlives_its_job(corpus: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "job"
    shutil.copytree(corpus / "history" / name, folder)
    *_, last = (one for one in json.loads((folder / "history.json").read_text())["checkpoints"])
    source = pyspark_savepoint.open(folder / last["path"], allow_outside=True)
    expected = of_truth(json.loads((folder / "truth" / f"{last['id']}.json").read_text()))
    inodes = {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}
    pinned = source.pin(tmp_path / "held")
    assert pinned.path == str(tmp_path / "held")
    files = [path for path in (tmp_path / "held").iterdir() if path.name != "_metadata"]
    # File merging puts several states into one file, whose parts are copied.
    assert all(path.stat().st_ino in inodes for path in files)
    shutil.rmtree(folder)
    assert held(tmp_path / "held") == expected
    shutil.move(tmp_path / "held", tmp_path / "moved")
    assert held(tmp_path / "moved") == expected
    assert not vacuum(str(tmp_path / "moved"), 0)
    assert {row["status"] for row in pyspark_savepoint.open(tmp_path / "moved").inspect.verify().rows()} == {"ok"}


def test_what_cannot_be_linked_is_copied(checkpoints: Path, tmp_path: Path) -> None:
    source = Snapshot.open(str(chk(checkpoints, newest(checkpoints))))
    other_disk = Path("/dev/shm") / tmp_path.name  # another file system, where there is one
    target = other_disk if other_disk.parent.is_dir() else tmp_path / "held"
    try:
        numbers = pin_snapshot(source, str(target))
        assert sum(numbers) == len(list(target.iterdir())) - 1
        assert target.stat().st_dev == checkpoints.stat().st_dev or not numbers[0]
        assert held(target) == held(Path(source.path))
    finally:
        shutil.rmtree(other_disk, ignore_errors=True)


def test_a_savepoint_that_is_held_keeps_its_checksums(checkpoints: Path, tmp_path: Path) -> None:
    pyspark_savepoint.open(chk(checkpoints, newest(checkpoints))).write(tmp_path / "savepoint")
    pyspark_savepoint.open(tmp_path / "savepoint").pin(tmp_path / "held")
    shutil.rmtree(tmp_path / "savepoint")
    rows = pyspark_savepoint.open(tmp_path / "held", checksums="require").keyed_state("accounts").to_arrow()
    expected = pyspark_savepoint.open(chk(checkpoints, newest(checkpoints))).keyed_state("accounts").to_arrow()
    assert counted(rows) == counted(expected)


def test_vacuum_leaves_a_checkpoint_that_is_being_held(checkpoints: Path, tmp_path: Path) -> None:
    source = chk(checkpoints, newest(checkpoints))
    old = time.time() - 9 * 86_400
    for path in checkpoints.rglob("*"):
        os.utime(path, (old, old))
    found: list[Any] = []

    def copy(copies: Sequence[FileCopy], staging: Staging) -> Mapping[str, int]:
        found.extend(vacuum(str(tmp_path / "held"), 3600))  # the files are linked, the metadata is not there yet
        return copy_files(copies, staging)

    pin_snapshot(Snapshot.open(str(source)), str(tmp_path / "held"), copy)
    assert found == []
    assert Savepoint.vacuum(tmp_path / "held", timedelta(0)) == []
    assert Savepoint.vacuum(source, timedelta(0)) == []
    assert held(tmp_path / "held") == held(source)


def test_a_held_checkpoint_is_the_version_that_it_was(checkpoints: Path, tmp_path: Path) -> None:
    last = newest(checkpoints)
    expected = feed(checkpoints, startingVersion=last - 1, uid="accounts").to_arrow()
    for number in (last, last - 1):
        pyspark_savepoint.open(chk(checkpoints, number)).pin(checkpoints / f"held-{number}")
    for deleted in (None, last - 1, last):
        if deleted is not None:
            delete(chk(checkpoints, deleted))
        assert pyspark_savepoint.open(checkpoints, version_as_of=last).path == str(checkpoints / f"held-{last}")
        found = feed(checkpoints, startingVersion=last - 1, uid="accounts").to_arrow()
        assert counted(found) == counted(expected)  # in any order: a held checkpoint shares no files with others
    history = pyspark_savepoint.open_history(checkpoints, "accounts").to_arrow()
    assert sorted(set(history["checkpoint_id"].to_pylist())) == sorted(
        {*range(min(history["checkpoint_id"].to_pylist()), last + 1)}
    )
    shutil.copytree(checkpoints / f"held-{last}", checkpoints / "again")
    copied = pyspark_savepoint.open(checkpoints / "again")
    assert main(["cp", str(checkpoints / "again"), str(tmp_path / "copy")]) == 0
    metadata = Snapshot.open(str(tmp_path / "copy")).metadata
    assert (
        metadata.origin
        == copied._snapshot().metadata.origin
        == Origin(copied._snapshot().origin.digest, START + last * 60)
    )
    assert pyspark_savepoint.open(checkpoints, timestamp_as_of="2026-11-24T13:00:00Z").path in {
        str(checkpoints / f"held-{last}"),
        str(checkpoints / "again"),
    }


def test_the_command_line_holds_a_checkpoint(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pin", str(checkpoints), str(tmp_path / "held"), "--as-of", "latest"]) == 0
    said = capsys.readouterr().out
    assert "held by hard links, 0 files copied" in said
    assert f"{tmp_path / 'held'}: 5 operators" in said
    assert main(["pin", str(checkpoints), str(tmp_path / "held"), "--as-of", "latest"]) == 2
    with pytest.raises(StateExistsError):
        pyspark_savepoint.open(checkpoints, version_as_of="latest").pin(tmp_path / "held")
    with pytest.raises(OptionError, match="not written yet"):
        pyspark_savepoint.open(tmp_path / "held").remove_operator("log").pin(tmp_path / "other")
    assert main(["relocate", str(checkpoints), "file:/old", "file:/new", str(tmp_path / "x"), "--as-of", "latest"]) == 2
    assert "no file of the savepoint is recorded under" in capsys.readouterr().err


# -- deletion between two steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READ)
def test_a_checkpoint_that_vanishes_before_its_rows_are_read(checkpoints: Path, kind: str) -> None:
    last = newest(checkpoints)
    opened = table(chk(checkpoints, last), **READ[kind])
    changes = feed(checkpoints, startingVersion=last, **READ[kind])
    before = pyspark_savepoint.open(chk(checkpoints, last - 1))
    differences = before.diff(chk(checkpoints, last), READ[kind]["uid"])
    shutil.rmtree(chk(checkpoints, last))
    for vanished in (opened, changes, differences):
        for read in (vanished.to_arrow, lambda table=vanished: list(table.rows())):
            with pytest.raises(SnapshotGoneError) as caught:
                read()
            assert f"checkpoint {last} was deleted while it was read" in str(caught.value)
            assert f"the newest that is there now is checkpoint {last - 1}" in str(caught.value)
            assert "pyspark-savepoint pin" in str(caught.value)
    shutil.rmtree(checkpoints)
    with pytest.raises(SnapshotGoneError, match="no snapshot is there now"):
        opened.to_arrow()


@pytest.mark.parametrize("kind", READ)
def test_tasks_of_a_checkpoint_that_vanishes(checkpoints: Path, kind: str) -> None:
    last = newest(checkpoints)
    for given in (
        options(chk(checkpoints, last), parallelism="3", **READ[kind]),
        options(checkpoints, parallelism="3", versionAsOf="latest", **READ[kind]),
        options(checkpoints, parallelism="3", readChangeFeed="true", startingVersion=last, **READ[kind]),
    ):
        source = SavepointDataSource(given)
        reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
        planned = pickle.loads(pickle.dumps(reader.partitions()))
        rows = [sum(len(batch) for batch in reader.read(each)) for each in planned]
        assert sum(rows) or "readChangeFeed" in given
        away = chk(checkpoints, last).parent / "away"
        shared = chk(checkpoints, last).parent / "shared"
        chk(checkpoints, last).rename(away)
        if shared.is_dir():
            shared.rename(checkpoints / "shared-away")
        gone = 0
        for each, expected in zip(planned, rows, strict=True):
            if kind == "accounts" and expected:
                with pytest.raises(SnapshotGoneError, match=f"checkpoint {last} was deleted"):
                    sum(len(batch) for batch in reader.read(each))
                gone += 1
            elif kind == "log":  # is inline in the metadata, which the driver has read
                assert sum(len(batch) for batch in reader.read(each)) == expected
        assert gone or kind == "log"
        away.rename(away.parent / f"chk-{last}")
        if (checkpoints / "shared-away").is_dir():
            (checkpoints / "shared-away").rename(shared)


def test_the_newest_is_planned_instead(checkpoints: Path) -> None:
    last = newest(checkpoints)
    rows = {number: table(chk(checkpoints, number), uid="accounts").to_arrow() for number in (last, last - 1)}
    parsed = SavepointReadOptions.parse(options(checkpoints, versionAsOf="latest", uid="accounts"))
    fixed = SavepointReadOptions.parse(options(checkpoints, versionAsOf=str(last), uid="accounts"))
    opened = SnapshotTable.of(parsed)
    assert opened.to_arrow() == rows[last]
    source = SavepointDataSource(options(checkpoints, versionAsOf="latest", uid="accounts"))
    reader = source.reader(source.schema())
    delete(chk(checkpoints, last))
    assert SnapshotTable.of(parsed).options.path == str(chk(checkpoints, last - 1))
    assert SnapshotTable.of(parsed).to_arrow() == rows[last - 1]
    assert opened.to_arrow() == rows[last - 1]
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(map(len, found)) == len(rows[last - 1])
    with pytest.raises(SnapshotGoneError, match=f"checkpoint {last} was deleted(?s:.*)checkpoint {last - 1}"):
        SnapshotTable.of(fixed)


def test_the_next_is_opened_if_the_newest_vanishes_first(checkpoints: Path) -> None:
    last = newest(checkpoints)
    given = options(checkpoints, versionAsOf="Latest")
    opened = []

    def open_it(texts: dict[str, str]) -> str:
        opened.append(texts["path"])
        if len(opened) == 1:
            delete(Path(texts["path"]))
        return Snapshot.open(texts["path"]).path

    assert opened_at(given, open_it) == str(chk(checkpoints, last - 1))
    assert len(opened) == 2
    opened.clear()
    with pytest.raises(SnapshotGoneError, match=f"checkpoint {last - 1} was deleted"):
        opened_at(options(checkpoints, versionAsOf=str(last - 1)), open_it)
    with pytest.raises(SnapshotNotFoundError) as caught:
        opened_at(options(checkpoints / "nothing"), lambda texts: Snapshot.open(texts["path"]).path)
    assert not isinstance(caught.value, SnapshotGoneError)


def test_a_missing_file_of_a_checkpoint_that_is_there(checkpoints: Path) -> None:
    last = chk(checkpoints, newest(checkpoints))
    private = [path for path in last.iterdir() if path.name != "_metadata"]
    shared = [path for path in last.parent.glob("shared/*") if path.is_file()]
    for path in (*private, *shared):
        path.unlink()
    with pytest.raises(StateFileNotFoundError, match="is missing") as caught:
        table(last, uid="accounts").to_arrow()
    assert "was deleted" not in str(caught.value)


def test_spark_names_the_newest(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    shutil.copytree(corpus / "history" / "1.20.5-rocksdb-incr" / "checkpoints", folder)
    last = newest(folder)
    reads = spark.read.format("savepoint").option("uid", "accounts")
    numbers = {number: reads.load(str(chk(folder, number))).count() for number in (last, last - 1)}
    follows, fixed = (reads.option("versionAsOf", version).load(str(folder)) for version in ("latest", last))
    held = Savepoint.load(spark, folder, version_as_of="latest").pin(tmp_path / "held")
    assert fixed.count() == numbers[last]
    delete(chk(folder, last))
    assert follows.count() == numbers[last - 1]
    with pytest.raises(
        Exception, match=f"checkpoint {last} was deleted(?s:.*)the newest that is there now is checkpoint"
    ):
        fixed.count()
    assert held.keyed_state("accounts").count() == numbers[last]


@pytest.mark.parametrize("name", ["1.20.5-rocksdb-incr", "2.3.0-hashmap"])
def test_a_job_that_keeps_one_checkpoint(corpus: Path, tmp_path: Path, name: str) -> None:
    """Whatever is deleted meanwhile: the rows are those of one checkpoint, or the error says that it is gone."""
    original, folder = corpus / "history" / name / "checkpoints", tmp_path / "checkpoints"
    shutil.copytree(original, folder)
    numbers = sorted(int(path.name.removeprefix("chk-")) for path in folder.rglob("chk-*"))
    expected = {
        number: counted(pyspark_savepoint.open(chk(original, number)).keyed_state("accounts").to_arrow())
        for number in numbers
    }
    job = chk(folder, numbers[0]).parent
    for number in numbers:
        (job / f"chk-{number}").rename(tmp_path / f"chk-{number}")
    ended = threading.Event()

    def run() -> None:
        for _ in range(6):
            for number in numbers:
                shutil.copytree(tmp_path / f"chk-{number}", tmp_path / "next")
                (tmp_path / "next").rename(job / f"chk-{number}")
                time.sleep(0.02)
                for other in numbers:
                    if other != number and (job / f"chk-{other}").exists():
                        delete(job / f"chk-{other}")
            time.sleep(0.02)
        ended.set()

    shutil.copytree(tmp_path / f"chk-{numbers[-1]}", job / f"chk-{numbers[-1]}")
    thread = threading.Thread(target=run)
    thread.start()
    answers, gone = 0, 0
    try:
        while not ended.is_set():
            try:
                savepoint = pyspark_savepoint.open(folder, version_as_of="latest")
                rows = savepoint.keyed_state("accounts").to_arrow()
            except SnapshotGoneError:
                gone += 1
            else:
                answers += 1
                assert savepoint.path is not None
                assert counted(rows) == expected[int(savepoint.path.rpartition("-")[2])]
    finally:
        thread.join()
    assert answers
    assert answers + gone > 3


def test_an_error_that_names_another_thing_stays(checkpoints: Path) -> None:
    opened = table(chk(checkpoints, newest(checkpoints)), uid="accounts")
    with pytest.raises(SavepointError, match="no column 'totl'") as caught:
        opened.select("totl")
    assert not isinstance(caught.value, SnapshotGoneError)
    assert isinstance(opened.to_arrow(), pa.Table)
