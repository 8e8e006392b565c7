"""Two jobs in one folder: which snapshot is the newest, and which are one history, is the same everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import SavepointWarning, SnapshotNotFoundError
from tests.connector.engines.spark.test_stream import Engine

YESTERDAY = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0
OLD, NEW = "814cc9b81f9439b510e9c00167f1d98e", "3d5430ddf202d226db55c92866c8c18a"


def completed(checkpoint: Path, seconds: float) -> None:
    """Give a checkpoint the time when it was complete."""
    os.utime(checkpoint / "_metadata", (seconds, seconds))


@pytest.fixture
def folder(corpus: Path, tmp_path: Path) -> Path:
    """Checkpoints 4 to 8 of yesterday's job, and 1 to 3 of today's, which was started anew."""
    copy = tmp_path / "checkpoints"
    for name, numbers, day in (("1.20.5-rocksdb-incr", range(4, 9), 0.0), ("2.3.0-hashmap", range(1, 4), DAY)):
        shutil.copytree(corpus / "history" / name / "checkpoints", copy, dirs_exist_ok=True)
        job = next(path for path in copy.iterdir() if path.name == (OLD if day == 0.0 else NEW))
        for checkpoint in job.glob("chk-*"):
            number = int(checkpoint.name.removeprefix("chk-"))
            if number in numbers:
                completed(checkpoint, YESTERDAY + day + 60 * number)
            else:
                shutil.rmtree(checkpoint)
    return copy


@pytest.fixture
def one_folder(folder: Path) -> Path:
    """The same with a fixed job id: both in the folder of one."""
    for checkpoint in (folder / NEW).glob("chk-*"):
        checkpoint.rename(folder / OLD / checkpoint.name)
    shutil.rmtree(folder / NEW)
    return folder / OLD


@pytest.fixture(params=["two folders", "one folder"])
def either(request: pytest.FixtureRequest) -> Path:
    """Both jobs, each in a folder of its own or both in one."""
    found: Path = request.getfixturevalue("folder" if request.param == "two folders" else "one_folder")
    return found


def versions(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({row["_commit_version"] for row in rows})


def test_the_newest_is_one_at_every_door(either: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = str(next(either.rglob("chk-3")))
    with pytest.warns(SavepointWarning, match=r"checkpoint ids 4-8 of .* are left out: the _metadata of checkpoint 1 "):
        assert pyspark_savepoint.open(either, version_as_of="latest").path == newest
    assert pyspark_savepoint.open(either, timestamp_as_of="2030-01-01T00:00:00Z").path == newest
    assert main(["ls", str(either), "--json"]) == 0
    listed = [json.loads(line)["checkpoint_id"] for line in capsys.readouterr().out.splitlines()]
    assert listed == [3, 2, 1, 8, 7, 6, 5, 4]
    assert main(["ls", str(either), "--as-of", "latest"]) == 0
    told = capsys.readouterr()
    assert "checkpoint 3, " in told.out
    assert "checkpoint ids 4-8" in told.err
    assert main(["metrics", str(either), "--format", "json"]) == 0
    samples = {sample["name"]: sample["value"] for sample in map(json.loads, capsys.readouterr().out.splitlines())}
    assert samples["flink_savepoint_checkpoint_id"] == 3
    assert samples["flink_savepoint_snapshots"] == 8
    assert main(["report", str(either), "--file", str(tmp_path / "report.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["snapshot"] == newest


def test_versions_by_their_ids_and_at_a_time(either: Path) -> None:
    assert pyspark_savepoint.open(either, version_as_of=8).path == str(next(either.rglob("chk-8")))
    old = pyspark_savepoint.open(either, timestamp_as_of="2026-11-23T13:00:00Z")
    assert old.path == str(next(either.rglob("chk-8")))


def test_changes_are_those_of_the_newest_job(either: Path) -> None:
    with pytest.warns(SavepointWarning, match="checkpoint ids 4-8"):
        found = pyspark_savepoint.open_changes(either, "names").to_arrow().to_pylist()
    assert versions(found) == [1, 3]  # nothing changed up to checkpoint 2
    alone = pyspark_savepoint.open(next(either.rglob("chk-3"))).keyed_state("names").to_arrow().to_pylist()
    left: dict[str, Any] = {}
    for row in found:
        if row["_change_type"] in ("delete", "update_preimage"):
            assert left.pop(row["key"]) == row["count"]
        else:
            left[row["key"]] = row["count"]
    assert left == {row["key"]: row["count"] for row in alone}
    assert versions(pyspark_savepoint.open_changes(either, "names", start=5, end=7).to_arrow().to_pylist()) == [5, 6, 7]
    with pytest.raises(SnapshotNotFoundError, match=r"version 5 is not of the history of version 3(?s:.*)chk-5"):
        pyspark_savepoint.open_changes(either, "names", start=5)


def test_a_stream_has_the_newest_job_or_says_that_it_was_started_anew(either: Path, tmp_path: Path) -> None:
    assert versions(Engine(either, uid="names").run()) == [1, 3]
    newer = [path for path in either.rglob("chk-*") if path.name in ("chk-1", "chk-2", "chk-3")]
    for path in newer:
        shutil.move(path, tmp_path / path.name)
    query = Engine(either, uid="names")
    assert versions(query.run())[-1] == 8
    for path in newer:
        shutil.move(tmp_path / path.name, path)
    with pytest.raises(SnapshotNotFoundError, match=r"started anew(?s:.*)chk-1, after .*chk-8"):
        query.run()


def test_a_history_of_counts_has_no_changes_from_job_to_job(either: Path) -> None:
    rows = pyspark_savepoint.open_history(either, changes=True).to_arrow().to_pylist()
    assert {row["checkpoint_id"] for row in rows} == {2, 3}
    table = pyspark_savepoint.open_history(either, "names").to_arrow()
    assert list(dict.fromkeys(table["checkpoint_id"].to_pylist())) == [4, 5, 6, 7, 8, 1, 2, 3]


def test_jobs_that_run_at_the_same_time_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    completed(next((folder / OLD).glob("chk-8")), YESTERDAY + DAY + 90)
    for given in ({"version_as_of": "latest"}, {"timestamp_as_of": "2030-01-01T00:00:00Z"}):
        with pytest.raises(SnapshotNotFoundError, match=f"another job(?s:.*){OLD} among those of (?s:.*){NEW}"):
            pyspark_savepoint.open(folder, **given)
    assert main(["metrics", str(folder)]) == 2
    assert main(["report", str(folder)]) == 2
    assert main(["changes", str(folder), "names"]) == 2
    assert f"{OLD} among those of" in capsys.readouterr().err
    assert pyspark_savepoint.open(folder, version_as_of=8).path == str(folder / OLD / "chk-8")
    assert pyspark_savepoint.open(folder / NEW, version_as_of="latest").path == str(folder / NEW / "chk-3")


def test_checkpoints_of_two_jobs_that_were_moved_into_one_folder(folder: Path) -> None:
    """The paths of their files have the ids of their jobs."""
    both = folder.parent / "backup"
    both.mkdir()
    for job, numbers in ((OLD, (4, 5)), (NEW, (2,))):
        for number in numbers:
            (folder / job / f"chk-{number}").rename(both / f"chk-{number}")
    (folder / NEW / "chk-3").rename(both / "chk-6")  # an id that the old job would have had next
    metadata = both / "chk-6" / "_metadata"
    data = bytearray(metadata.read_bytes())
    data[8:16] = (6).to_bytes(8, "big")
    metadata.write_bytes(bytes(data).replace(b"/chk-3/", b"/chk-6/"))
    completed(both / "chk-6", YESTERDAY + DAY + 600)
    with pytest.warns(SavepointWarning, match="checkpoint ids 4-5 of .* are left out"):
        found = pyspark_savepoint.open_changes(both, "names", allow_outside=True)
    assert versions(found.to_arrow().to_pylist()) == [2, 6]


def test_following_a_job_that_is_started_anew_ends_with_both_named(either: Path, tmp_path: Path) -> None:
    newer = [path for path in either.rglob("chk-*") if path.name in ("chk-1", "chk-2", "chk-3")]
    for path in newer:
        shutil.move(path, tmp_path / path.name)
    run = "import sys; from pyspark_savepoint.command_line.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["changes", str(either), "names", "--start", "8", "--follow", "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", run, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["_commit_version"] == 8
        for path in newer:
            shutil.move(tmp_path / path.name, path)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 2
    assert "started anew" in told
    assert "chk-1, after" in told


def test_of_one_second_the_higher_id_is_the_newer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(folder / NEW)
    for each in folder.rglob("chk-*"):
        completed(each, YESTERDAY + int(each.name[-1]) / 100)
    (folder / OLD / "chk-8").rename(folder / OLD / "chk-10")
    metadata = folder / OLD / "chk-10" / "_metadata"
    data = bytearray(metadata.read_bytes())
    data[8:16] = (10).to_bytes(8, "big")
    metadata.write_bytes(data)
    completed(metadata.parent, YESTERDAY)
    assert main(["ls", str(folder), "--json"]) == 0
    listed = [json.loads(line)["checkpoint_id"] for line in capsys.readouterr().out.splitlines()]
    assert listed == [10, 7, 6, 5, 4]


def test_a_copy_by_another_tool_is_no_other_job(folder: Path) -> None:
    """It has a later time, and the same bytes."""
    shutil.copytree(folder / NEW / "chk-2", folder / "backup" / "chk-2")
    completed(folder / "backup" / "chk-2", YESTERDAY + 2 * DAY)
    assert pyspark_savepoint.open(folder, version_as_of="latest").path == str(folder / NEW / "chk-3")
    with pytest.raises(SnapshotNotFoundError, match="2 snapshots below this folder have checkpoint id 2"):
        pyspark_savepoint.open_changes(folder, "names")
