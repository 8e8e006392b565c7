"""Histories of retained checkpoints: every checkpoint holds what the job knew when it took it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.spark.savepoint import Savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.errors import OptionError, SnapshotNotFoundError
from pyspark_savepoint.options.options import SavepointReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = (
    "1.20.5-changelog-rocksdb-mat",
    "1.20.5-rocksdb-incr",
    "1.20.5-rocksdb-incr-rescaled",
    "2.3.0-forst-incr",
    "2.3.0-hashmap",
    "2.3.0-rocksdb-incr",
    "2.3.0-rocksdb-incr-retained-3",
    # Folders of other histories, which `python -m tests.oracle.make_data history` makes.
    *os.environ.get("HISTORIES", "").split(),
)


def held(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, in the form of ``truth/ID.json``."""
    savepoint = pyspark_savepoint.open(path, allow_outside=True)
    accounts = [
        [row["key"], row["total"], row["tags"], row["per"] and dict(row["per"]), row["seen"]]
        for row in savepoint.keyed_state("accounts").rows()
    ]
    windows = [
        [row["key"], int(row["window"]["start"].timestamp() * 1000), row["window-contents"]["f1"]]
        for row in savepoint.table("window_state", uid="windows").rows()
    ]
    timers = [[row["key"], row["timestamp"]] for row in savepoint.table("timers", uid="accounts").rows()]
    return {
        "accounts": sorted(accounts, key=str),
        "names": {row["key"]: row["count"] for row in savepoint.keyed_state("names").rows()},
        "windows": sorted(windows, key=str),
        "timers": sorted(timers),
        "log": [row["value"] for row in savepoint.table("operator_state", uid="log", state="log").rows()],
    }


def of_truth(truth: dict[str, Any]) -> dict[str, Any]:
    """The truth about a checkpoint in the form of what it holds."""
    accounts = [[key, total, tags, per and dict(per), seen] for key, total, tags, per, seen in truth["accounts"]]
    return {
        "accounts": sorted(accounts, key=str),
        "names": truth["names"],
        "windows": sorted(truth["windows"], key=str),
        "timers": sorted(truth["timers"]),
        "log": truth["log"],
    }


@pytest.mark.parametrize("name", HISTORIES)
def test_every_checkpoint_holds_what_the_job_knew(corpus: Path, name: str) -> None:
    folder = corpus / "history" / name
    checkpoints = json.loads((folder / "history.json").read_text())["checkpoints"]
    retained = [checkpoint for checkpoint in checkpoints if (folder / checkpoint["path"]).exists()]
    assert len(retained) >= 3
    for checkpoint in retained:
        truth = of_truth(json.loads((folder / "truth" / f"{checkpoint['id']}.json").read_text()))
        for part, rows in held(folder / checkpoint["path"]).items():
            assert rows == truth[part], (checkpoint["id"], part)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_version_of_a_folder_is_the_checkpoint_of_that_id(corpus: Path, name: str) -> None:
    folder = corpus / "history" / name
    checkpoints = json.loads((folder / "history.json").read_text())["checkpoints"]
    paths = {checkpoint["id"]: folder / checkpoint["path"] for checkpoint in checkpoints}
    retained = {number: str(path) for number, path in paths.items() if path.exists()}
    for version, path in {**retained, "latest": retained[max(retained)]}.items():
        assert pyspark_savepoint.open(folder, version_as_of=version, allow_outside=True).path == path


@pytest.fixture
def folder(corpus: Path, tmp_path: Path) -> Path:
    """Checkpoints 1 to 8 of two jobs, the second restored from the first: completed a minute one after the other."""
    copy = tmp_path / "checkpoints"
    shutil.copytree(corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints", copy)
    for metadata in copy.rglob("_metadata"):
        minute = int(metadata.parent.name.removeprefix("chk-")) * 60
        os.utime(metadata, (START + minute, START + minute))
    return copy


START = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()


def test_a_time_chooses_the_newest_snapshot_that_was_complete(folder: Path) -> None:
    def at(time: datetime | str) -> int:
        return pyspark_savepoint.open(folder, timestamp_as_of=time)._snapshot().metadata.checkpoint_id

    assert at("2026-11-24T12:03:00Z") == 3
    assert at("2026-11-24T14:06:59+02:00") == 6
    assert at(datetime(2026, 11, 24, 12, 5, 30, tzinfo=UTC)) == 5
    assert at(datetime.fromtimestamp(START + 4 * 60)) == 4
    assert at("2030-01-01T00:00:00Z") == 8
    with pytest.raises(SnapshotNotFoundError, match=r"as old as 2026-11-24T12:00:59\+00:00(?s:.*)2026-11-24T12:01:00"):
        at("2026-11-24T12:00:59Z")
    with pytest.raises(OptionError, match="'2026-11-24', expected a time with its zone"):
        at("2026-11-24")


def test_a_version_that_is_not_there_is_answered_with_those_that_are(folder: Path) -> None:
    shutil.rmtree(next(folder.rglob("chk-4")))
    with pytest.raises(SnapshotNotFoundError, match="checkpoint ids 1-3, 5-8"):
        pyspark_savepoint.open(folder, version_as_of=4)
    with pytest.raises(OptionError, match="'versionAsOf' is 'newest', expected a checkpoint id"):
        pyspark_savepoint.open(folder, version_as_of="newest")
    for as_of, number in (
        ("5", 5),
        ("LATEST", 8),
        ("2026-11-24T12:03:30Z", 3),
        (datetime.fromtimestamp(START + 61), 1),
    ):
        assert pyspark_savepoint.open(folder, as_of=as_of).path == str(next(folder.rglob(f"chk-{number}")))
    with pytest.raises(OptionError, match="'versionAsOf' and 'asOf' each choose"):
        pyspark_savepoint.open(folder, version_as_of=5, as_of=5)
    with pytest.raises(OptionError, match="'asOf' is 'newest', expected a checkpoint id, latest, or a time"):
        pyspark_savepoint.open(folder, as_of="newest")
    with pytest.raises(OptionError, match="each choose a snapshot"):
        pyspark_savepoint.open(folder, version_as_of=4, timestamp_as_of="2026-11-24T12:03:00Z")
    with pytest.raises(OptionError, match="lists all versions"):
        SnapshotTable.of(SavepointReadOptions.parse({"path": str(folder), "table": "snapshots", "versionAsOf": "5"}))


@pytest.mark.parametrize("version", ["v3", "20261124120300000"])
def test_a_version_in_the_path_is_answered_with_the_option(folder: Path, version: str) -> None:
    with pytest.raises(SnapshotNotFoundError, match="'versionAsOf' or 'timestampAsOf'"):
        pyspark_savepoint.open(f"{folder}@{version}")


def test_a_version_of_two_branches_names_both(folder: Path) -> None:
    fork = shutil.copytree(next(folder.rglob("chk-6")), folder / "another-job" / "chk-6")
    with pytest.raises(SnapshotNotFoundError, match=r"2 snapshots(?s:.*)started twice") as caught:
        pyspark_savepoint.open(folder, version_as_of=6)
    assert str(fork) in str(caught.value)
    assert str(next(folder.rglob("f954*/chk-6"))) in str(caught.value)
    assert pyspark_savepoint.open(folder, version_as_of=7).path == str(next(folder.rglob("chk-7")))


def test_the_command_line_takes_a_version(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(folder), "--as-of", "latest"]) == 0
    assert "checkpoint 8, 5 operators" in capsys.readouterr().out
    assert main(["show", str(folder), "names", "--as-of", "2026-11-24T12:02:30Z", "--json", "--limit", "0"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == pyspark_savepoint.open(next(folder.rglob("chk-2"))).keyed_state("names").to_arrow().to_pylist()
    assert main(["offsets", str(folder), "--as-of", "2", "--history"]) == 2
    capsys.readouterr()
    words = ["diff", str(folder), str(folder), "names", "--as-of", "3", "--new-as-of", "latest", "--json"]
    assert main(words) == 1
    mine = capsys.readouterr().out
    paths = [str(next(folder.rglob(f"chk-{number}"))) for number in (3, 8)]
    assert main(["diff", *paths, "names", "--json"]) == 1
    assert capsys.readouterr().out == mine


@pytest.mark.parametrize(
    "words",
    [
        ["sizes"], ["heaviest"], ["verify"], ["doctor", "--fail-on", "error"], ["schema"],
        ["check-migration", "--flink", "2.3"], ["cp", "NEW"], ["rename", "NEW", "names=others", "--dry-run"],
        ["remove", "NEW", "log", "--dry-run"], ["copy-operator", "NEW", "names", "more", "--dry-run"],
        ["set-max-parallelism", "NEW", "64", "--dry-run"],
        ["remove-keys", "NEW", "names", "--where", "count > 0", "--dry-run"],
        ["split", "--to", "NEW", "names", "--rest", "NEW-2", "--dry-run"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_commands_of_one_snapshot_take_a_version(folder: Path, words: list[str], tmp_path: Path) -> None:
    given = [word.replace("NEW", str(tmp_path / "new")) for word in words[1:]]
    alone = main([words[0], str(next(folder.rglob("chk-5"))), *given])
    assert main([words[0], str(folder), *(word.replace("new", "newer") for word in given), "--as-of", "5"]) == alone
    assert alone in (0, 1)


def test_the_reader_takes_the_version_that_the_schema_was_of(folder: Path) -> None:
    moved = shutil.move(next(folder.rglob("chk-8")), folder.parent / "chk-8")
    source = SavepointDataSource({"path": str(folder), "versionAsOf": "latest", "uid": "names"})
    schema = source.schema()
    shutil.move(moved, next(folder.rglob("chk-7")).parent / "chk-8")
    source = pickle.loads(pickle.dumps(source))  # as Spark does, for another process
    assert Path(source.reader(schema).options.path).name == "chk-7"
    assert Path(SavepointDataSource(source.options).reader(schema).options.path).name == "chk-8"


def test_spark_reads_a_version(spark: SparkSession, folder: Path) -> None:
    rows = pyspark_savepoint.open(next(folder.rglob("chk-3"))).keyed_state("names").to_arrow().num_rows
    assert spark.read.format("savepoint").options(uid="names", versionAsOf=3).load(str(folder)).count() == rows
    assert Savepoint.load(spark, folder, version_as_of="latest").path == str(next(folder.rglob("chk-8")))
    spark.sql(
        f"CREATE TEMPORARY VIEW names USING savepoint OPTIONS (path '{folder}', uid 'names', "
        "timestampAsOf '2026-11-24T12:03:30Z')"
    )
    assert spark.sql("SELECT count(*) FROM names").first()[0] == rows
    spark.catalog.dropTempView("names")
