"""Folders of checkpoints that another tool copied, with times of its own: no older state is taken in silence.

Only ``_metadata`` tells the order, so that folders here have no other files, unless rows are read.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql.types import StringType
from pyspark.sql.udtf import AnalyzeArgument

import pyspark_savepoint
from pyspark_savepoint.api.spark.catalog import ChangesFunction, StateFunction
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.snapshot.as_of import LATEST, VersionRange, newest_of, snapshot_as_of, versions_between
from tests.connector.engines.spark.test_stream import Engine

AT = 1_796_000_000
#: Real jobs: the state of the first two is in files that checkpoints share, that of the third is not.
INCREMENTAL, MERGED, WHOLE = "2.3.0-rocksdb-incr", "1.20.5-changelog-rocksdb-mat", "2.3.0-hashmap"
NAMES = (INCREMENTAL, MERGED, WHOLE)


def checkpoints_of(corpus: Path, name: str) -> dict[int, Path]:
    """The checkpoints of the first job of a history."""
    found = (corpus / "history" / name / "checkpoints").glob("*/chk-*")
    return {int(path.name.removeprefix("chk-")): path for path in found}


def placed(checkpoint: Path, job: Path, number: int, seconds: int) -> None:
    """Put the metadata of a checkpoint into the folder of a job, as that job would have written it."""
    target = job / f"chk-{number}"
    target.mkdir(parents=True)
    data = bytearray((checkpoint / "_metadata").read_bytes())
    assert int.from_bytes(data[8:16], "big") == int(checkpoint.name.removeprefix("chk-"))
    data[8:16] = number.to_bytes(8, "big")
    own = bytes(data).replace(checkpoint.parent.name.encode(), job.name.encode())
    (target / "_metadata").write_bytes(own)
    os.utime(target / "_metadata", (seconds, seconds))


def copied(corpus: Path, name: str, job: Path, times: Mapping[int, int]) -> Path:
    """Copy checkpoints of a history, whose times are the tool's."""
    checkpoints = checkpoints_of(corpus, name)
    own = job / next(iter(checkpoints.values())).parent.name
    for number, seconds in times.items():
        placed(checkpoints[number], own, number, AT + seconds)
    return own


@pytest.mark.parametrize("name", NAMES)
def test_no_copy_of_a_folder_has_an_older_newest_in_silence(corpus: Path, tmp_path: Path, name: str) -> None:
    draw = random.Random(f"copies of {name}")
    numbers = sorted(checkpoints_of(corpus, name))
    told = 0
    for turn in range(60):
        some = draw.sample(numbers, draw.randint(1, len(numbers)))
        times = dict(zip(some, draw.choices(range(draw.choice((3, 90))), k=len(some)), strict=True))
        folder = copied(corpus, name, tmp_path / str(turn), times)
        chosen, warnings = snapshot_as_of(str(folder), LATEST)
        if chosen.number != max(some):
            told += 1
            assert any(f"'versionAsOf' = {max(some)}" in each for each in warnings), (times, warnings)
        else:
            assert warnings == (), times
        versions, warnings = versions_between(str(folder), VersionRange(start=0))
        found = {one.number for one in versions if one is not None}
        assert found == set(some) or f"'endingVersion' = {max(set(some) - found)}" in "".join(warnings), times
    assert told < 60 * 0.4


@pytest.mark.parametrize(("name", "last"), [(INCREMENTAL, 13), ("2.3.0-forst-incr", 7), (MERGED, 5)])
def test_files_that_checkpoints_share_show_a_copy(corpus: Path, tmp_path: Path, name: str, last: int) -> None:
    """Each order of times, also the usual one of a tool: by names, so that 10 comes before 9."""
    # The sixth of the job with a changelog has no file in common with those before it.
    numbers = sorted(number for number in checkpoints_of(corpus, name) if number <= last)
    draw = random.Random(name)
    orders = [sorted(numbers[1:], key=str), numbers[::-1], *(draw.sample(numbers, len(numbers)) for _ in range(20))]
    for turn, order in enumerate(orders):
        folder = copied(corpus, name, tmp_path / str(turn), {number: at * 7 for at, number in enumerate(order)})
        newest = newest_of(str(folder))
        assert [one.number for one in newest.history] == sorted(order)
        assert newest.warnings == ()


@pytest.mark.parametrize("order", [(3, 5, 2, 7, 6, 4), (2, 4, 1, 3), (5, 6, 3, 4, 7), (4, 2, 6)])
def test_ids_between_those_of_another_start_show_a_copy(corpus: Path, tmp_path: Path, order: Sequence[int]) -> None:
    folder = copied(corpus, WHOLE, tmp_path, {number: 10 * at for at, number in enumerate(order)})
    newest = newest_of(str(folder))
    assert [one.number for one in newest.history] == sorted(order)
    assert newest.warnings == ()


def started_anew(corpus: Path, job: Path, starts: Sequence[Sequence[int]]) -> None:
    """Write the checkpoints of starts of a job with a fixed id, each start with state of its own."""
    seconds = AT
    for name, numbers in zip((INCREMENTAL, WHOLE, "1.20.5-rocksdb-incr"), starts, strict=False):
        own = sorted(checkpoints_of(corpus, name).items())
        for (_, checkpoint), number in zip(own, numbers, strict=False):
            seconds += 60
            placed(checkpoint, job, number, seconds)


def test_a_job_that_began_anew_keeps_its_starts(corpus: Path, tmp_path: Path) -> None:
    """Flink leaves higher ids of earlier starts: a checkpoint whose id is there fails, and deletes that one."""
    draw = random.Random("starts")
    for turn in range(60):
        starts: list[list[int]] = []
        for _ in range(draw.randint(2, 3)):
            last = draw.randint(1, 40)
            own = sorted(draw.sample(range(max(1, last - 9), last + 1), min(last, draw.randint(1, 6))))
            left = ([number for number in start if number > own[-1]] for start in starts)
            starts = [*filter(None, left), own]
        job = tmp_path / str(turn) / ("0" * 32)
        started_anew(corpus, job, starts)
        chosen, warnings = snapshot_as_of(str(job), LATEST)
        assert chosen.number == starts[-1][-1], starts
        highest = max(number for start in starts for number in start)
        assert bool(warnings) is (highest != chosen.number), starts
        for start, later in pairwise(starts):
            history, _ = versions_between(str(job), VersionRange(start=0, end=start[-1]))
            assert {one.number for one in history if one is not None} >= set(start), starts
            assert not {one.number for one in history if one is not None} & set(later), starts


@pytest.fixture
def ambiguous(corpus: Path, tmp_path: Path) -> Path:
    """Checkpoints 6 and 7, without files in common, of which a tool copied 7 first."""
    history = corpus / "history" / WHOLE / "checkpoints"
    folder = shutil.copytree(next(history.iterdir()), tmp_path / next(history.iterdir()).name)
    for checkpoint in folder.glob("chk-*"):
        number = int(checkpoint.name.removeprefix("chk-"))
        os.utime(checkpoint / "_metadata", (AT - 60 * number, AT - 60 * number))
        if number < 6:
            shutil.rmtree(checkpoint)
    return folder


def test_every_door_that_takes_the_newest_says_which(
    ambiguous: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = r"checkpoint 6 is the last, and checkpoint ids 7 of .* are left out: .* copied the folder, .*: give "
    for given in ({"version_as_of": "latest"}, {"as_of": "latest"}, {"timestamp_as_of": "2030-01-01T00:00:00Z"}):
        with pytest.warns(SavepointWarning, match=f"{said}'versionAsOf' = 7"):
            assert pyspark_savepoint.open(ambiguous, **given).path == str(ambiguous / "chk-6")
    with pytest.warns(SavepointWarning, match=f"{said}'endingVersion' = 7"):
        pyspark_savepoint.open_changes(ambiguous, "names")
    with pytest.warns(SavepointWarning, match="name .*chk-7"):
        pyspark_savepoint.open_history(ambiguous, changes=True)
    capsys.readouterr()
    report = ["report", str(ambiguous), "--file", str(tmp_path / "report.html")]
    for words, remedy in (
        (["ls", str(ambiguous), "--as-of", "latest"], "give --as-of 7"),
        (["show", str(ambiguous), "names", "--as-of", "2030-01-01T00:00:00Z"], "give --as-of 7"),
        (["changes", str(ambiguous), "names", "--start", "0"], "give --end 7"),
        (["metrics", str(ambiguous)], f"name {ambiguous / 'chk-7'}"),
        (report, f"name {ambiguous / 'chk-7'}"),
    ):
        assert main(words) in (0, 1)  # 1: there are changes
        told = capsys.readouterr().err
        assert "checkpoint 6 is the last, and checkpoint ids 7 of" in told, words
        assert remedy in told, words


def test_reads_and_streams_of_spark_say_which_is_the_newest(
    ambiguous: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SavepointDataSource({"path": str(ambiguous), "versionAsOf": "latest", "uid": "names"}).schema()
    assert "checkpoint ids 7 of" in (told := capsys.readouterr().err)
    assert "give 'versionAsOf' = 7" in told
    assert Engine(ambiguous, uid="names", startingVersion="latest").run() == []
    assert "checkpoint ids 7 of" in (told := capsys.readouterr().err)
    assert "copy it again with its times" in told
    assert {row["_commit_version"] for row in Engine(ambiguous, uid="names").run()} == {6}
    assert "copy it again with its times" in capsys.readouterr().err


def test_table_functions_of_sql_say_which_is_the_newest(ambiguous: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def constant(value: object) -> AnalyzeArgument:
        return AnalyzeArgument(StringType(), value, isTable=False, isConstantExpression=True)

    path, uid = constant(str(ambiguous)), constant("names")
    StateFunction.analyze(path, uid, versionAsOf=constant("latest"))
    assert "give 'versionAsOf' = 7" in capsys.readouterr().err
    ChangesFunction.analyze(path, uid, constant("0"))
    assert "give 'endingVersion' = 7" in capsys.readouterr().err


def test_the_remedy_takes_the_other_one(ambiguous: Path) -> None:
    assert pyspark_savepoint.open(ambiguous, version_as_of=7).path == str(ambiguous / "chk-7")
    rows = pyspark_savepoint.open_changes(ambiguous, "names", end=7).to_arrow().to_pylist()
    assert {row["_commit_version"] for row in rows} == {7}
