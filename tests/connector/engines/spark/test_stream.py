"""Streams of changes: each checkpoint of a job is a micro-batch, in whatever processes it is planned and read."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceStreamReader

import pyspark_savepoint
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.engines.spark.stream import SavepointStreamReader
from pyspark_savepoint.formats.errors import OptionError, SavepointError, SnapshotNotFoundError, UnsupportedStateError
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from tests.played import Played

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.many_sets

ALL = object()
#: PySpark 4.0 and 4.1 do not say how much a micro-batch may have.
WITH_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")


class Engine:
    """What Spark does with a stream: offsets are logged as JSON, then micro-batches are planned, and read in tasks."""

    def __init__(self, folder: Path, *, schema: Any = None, admission: bool = True, **options: str) -> None:
        self.options = {"path": str(folder), "allowOutside": "true", **options}
        self.given, self.admission = schema, admission
        self.log: list[str] = []
        self.start()

    def start(self) -> None:
        """Make the reader, as a query does that starts or starts again."""
        source = SavepointDataSource(self.options)
        schema = self.given or source.schema()
        source = pickle.loads(pickle.dumps(source))
        self.schema = schema
        reader = source.streamReader(schema)
        assert isinstance(reader, SavepointStreamReader)
        self.reader = reader
        if not self.log:
            self.log.append(json.dumps(reader.initialOffset()))

    def offset(self, limit: Any = None) -> str | None:
        """Log where the next micro-batch ends; None if there is nothing new."""
        if self.admission:
            chosen = self.limit() if limit is None else limit
            found = json.dumps(self.reader.latestOffset(json.loads(self.log[-1]), chosen))
        else:
            found = json.dumps(self.reader.latestOffset())
        if found == self.log[-1]:
            return None
        self.log.append(found)
        return found

    def limit(self) -> Any:
        """How much a micro-batch may have, as PySpark says it from 4.2 on."""
        if WITH_LIMITS:
            return self.reader.getDefaultReadLimit()
        return SimpleNamespace(max_files=self.reader.options.max_checkpoints_per_trigger)

    def planned(self, batch: int = -1) -> list[Any]:
        """Plan a micro-batch of the log."""
        start, end = self.log[batch - 1], self.log[batch]
        return [pickle.loads(pickle.dumps(each)) for each in self.reader.partitions(json.loads(start), json.loads(end))]

    def read(self, batch: int = -1) -> list[dict[str, Any]]:
        """The rows of a micro-batch of the log."""
        return self.rows(self.planned(batch))

    def rows(self, partitions: list[Any]) -> list[dict[str, Any]]:
        """The rows of partitions, each read by a task."""
        task = pickle.loads(pickle.dumps(self.reader))
        return [
            row for part in partitions for batch in task.read(part) for row in batch.to_pylist(maps_as_pydicts="strict")
        ]

    def batches(self, limit: Any = None) -> Iterator[list[dict[str, Any]]]:
        """Log and read micro-batches until there is nothing new."""
        while self.offset(limit) is not None:
            yield self.read()

    def run(self, limit: Any = None) -> list[dict[str, Any]]:
        """The rows of all micro-batches until there is nothing new."""
        return [row for rows in self.batches(limit) for row in rows]


def changes(folder: Path, start: int = 0, **options: Any) -> list[dict[str, Any]]:
    """The rows of the change feed."""
    given = {"path": str(folder), "allowOutside": "true", "readChangeFeed": "true", "startingVersion": str(start)}
    found = SnapshotTable.of(SavepointReadOptions.parse({**given, **options})).to_arrow()
    return found.to_pylist(maps_as_pydicts="strict")


def same(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Whether rows are the same, in any order."""
    return sorted(map(str, rows)) == sorted(map(str, others))


def versions(rows: list[dict[str, Any]]) -> list[int]:
    """The versions of changes."""
    return sorted({row["_commit_version"] for row in rows})


def state(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """What is left of rows by key after all changes, of which none is of a row that is not there."""
    kept: dict[Any, Any] = {}
    for row in sorted(rows, key=lambda row: row["_commit_version"]):
        values = {name: value for name, value in row.items() if not name.startswith("_")}
        if row["_change_type"] in ("delete", "update_preimage"):
            assert kept.pop(row["key"]) == values
        else:
            assert kept.setdefault(row["key"], values) is values
    return kept


@pytest.fixture
def job(corpus: Path, tmp_path: Path) -> Played:
    """A job that is restored with another parallelism, and another job id, after checkpoint 4."""
    return Played(corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints", tmp_path / "checkpoints")


@pytest.mark.parametrize("admission", [True, False], ids=["4.2", "4.0"])
def test_every_checkpoint_is_a_micro_batch(job: Played, admission: bool) -> None:
    job.take()
    query = Engine(job.folder, uid="names", admission=admission)
    found = [query.run()]
    for _ in range(7):
        job.take()
        found.append(query.run())
    assert [versions(rows) for rows in found] == [[number] for number in range(1, 9)]
    assert same([row for rows in found for row in rows], changes(job.folder, uid="names"))
    assert query.run() == []


def test_how_many_checkpoints_a_micro_batch_has(job: Played) -> None:
    job.take(8)
    found = [versions(rows) for rows in Engine(job.folder, uid="names").batches()]
    assert found == [[number] for number in range(1, 9)]
    three = Engine(job.folder, uid="names", maxCheckpointsPerTrigger="3")
    assert [versions(rows) for rows in three.batches()] == [[1, 2, 3], [4, 5, 6], [7, 8]]
    every = Engine(job.folder, uid="names", maxCheckpointsPerTrigger="3")
    assert [versions(rows) for rows in every.batches(ALL)] == [[*range(1, 9)]]
    # PySpark 4.0 asks for the newest alone, once if the trigger is availableNow: the first micro-batch has all.
    old = Engine(job.folder, uid="names", maxCheckpointsPerTrigger="3", admission=False)
    assert [versions(rows) for rows in old.batches()] == [[*range(1, 9)]]


def test_a_checkpoint_that_cannot_be_read_is_left_out_with_a_warning(
    job: Played, capfd: pytest.CaptureFixture[str]
) -> None:
    job.take(4)
    query = Engine(job.folder, uid="names")
    next(job.folder.rglob("chk-4")).joinpath("_metadata").write_bytes(b"damaged")
    found = query.run()
    assert versions(found) == [1, 2, 3]
    assert "cannot be read" not in capfd.readouterr().err
    job.take(2)
    found += query.run()
    assert versions(found) == [1, 2, 3, 5, 6]
    assert capfd.readouterr().err.count("checkpoint 4 cannot be read, and is left out") == 1
    newest = pyspark_savepoint.open(job.folder, version_as_of="latest", allow_outside=True)
    assert state(found) == {row["key"]: row for row in newest.keyed_state("names").rows()}


def test_net_changes_are_those_of_a_micro_batch(job: Played) -> None:
    job.take(8)
    query = Engine(job.folder, uid="accounts", maxCheckpointsPerTrigger="4", deduplicationMode="netChanges")
    found = list(query.batches())
    assert [versions(rows) for rows in found] == [[4], [8]]
    net = state([row for rows in found for row in rows])
    assert net == state(changes(job.folder, uid="accounts"))


@pytest.mark.thorough("the log of 4.2", sets=("4.0",))
@pytest.mark.parametrize("admission", [True, False], ids=["4.2", "4.0"])
def test_the_log_gives_the_same_rows_in_another_process(job: Played, admission: bool) -> None:
    job.take(5)
    query = Engine(job.folder, uid="accounts", maxCheckpointsPerTrigger="2", admission=admission)
    found = list(query.batches())
    job.take(1)
    query.offset()
    # Killed after the offset was logged, and started again.
    job.take(2)
    query.start()
    again = [query.read(batch) for batch in range(1, len(query.log))]
    assert all(same(*both) for both in zip(found, again, strict=False))
    rest = query.run()
    assert same([row for rows in again for row in rows] + rest, changes(job.folder, uid="accounts"))


def test_pyspark_4_0_does_not_say_where_a_query_was(job: Played) -> None:
    job.take(5)
    query = Engine(job.folder, uid="names", admission=False)
    found = query.run()
    query.start()
    assert query.offset() is not None
    assert query.planned() == []
    assert query.offset() is None
    job.take(3)
    query.start()
    assert same(found + query.run(), changes(job.folder, uid="names"))


def test_where_a_stream_begins(job: Played) -> None:
    job.take(5)
    latest = Engine(job.folder, uid="names", startingVersion="latest")
    fourth = Engine(job.folder, uid="names", startingVersion="4", readChangeFeed="true")
    by_time = Engine(job.folder, uid="names", startingTimestamp="2025-11-25T12:03:30Z")
    assert Engine(job.folder, uid="names", startingVersion="0").run() == Engine(job.folder, uid="names").run()
    assert latest.run() == []
    job.take(1)
    assert same(latest.run(), changes(job.folder, 6, uid="names"))
    assert same(fourth.run(), changes(job.folder, 4, uid="names"))
    assert same(by_time.run(), changes(job.folder, 4, uid="names"))
    # A query that is started again goes on, also if the version where it began is gone.
    job.delete([1, 2, 3, 4])
    fourth.start()
    assert fourth.run() == []


def test_the_trigger_available_now_ends(job: Played) -> None:
    job.take(2)
    query = Engine(job.folder, uid="names")
    query.reader.prepareForTriggerAvailableNow()
    found = [query.read() for _ in range(2) if query.offset()]
    job.take(2)
    assert query.offset() is None
    assert [versions(rows) for rows in found] == [[1], [2]]


@pytest.mark.parametrize(
    "given",
    [
        {"uid": "windows", "table": "window_state"},
        {"uid": "accounts", "table": "timers"},
        {"uid": "log", "state": "log"},
        {"table": "splits"},
        {"table": "offsets"},
    ],
    ids=lambda given: given.get("table", "operator_state"),
)
def test_tables(job: Played, given: dict[str, str]) -> None:
    query, found = Engine(job.folder, schema=_schema(job, given), **given), []
    assert query.run() == []
    while job.waiting:
        job.take()
        found += query.run()
    assert same(found, changes(job.folder, **given))


def _schema(job: Played, given: dict[str, str]) -> Any:
    return SavepointDataSource({"path": str(job.recorded), "allowOutside": "true", **given}).schema()


def test_a_stream_waits_for_the_first_checkpoint(job: Played) -> None:
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot below(?s:.*)\.schema\(\.\.\.\) gives its columns"):
        Engine(job.folder, uid="names")
    query = Engine(job.folder, uid="names", schema=_schema(job, {"uid": "names"}))
    assert query.run() == []
    assert query.reader.reportLatestOffset() is None
    job.take(2)
    query.start()
    assert same(query.run(), changes(job.folder, uid="names"))
    with pytest.raises(SnapshotNotFoundError, match="no file or folder"):
        Engine(job.folder / "nothing", uid="names", schema=query.given).run()


def test_progress_names_the_newest_checkpoint_and_the_lag(job: Played) -> None:
    job.take(2)
    query = Engine(job.folder, uid="names")
    job.take(3)
    query.offset()
    query.read()
    found = query.reader.reportLatestOffset()
    assert found is not None
    assert [found[name] for name in ("checkpoint", "checkpointsBehind", "millisBehind")] == [5, 4, 4 * 60_000]
    assert found["snapshot"].endswith("/chk-5")
    query.run()
    assert (query.reader.reportLatestOffset() or {})["checkpointsBehind"] == 0


# -- checkpoints that are gone ----------------------------------------------------------------------------------


def test_a_checkpoint_that_is_gone_is_an_error(job: Played) -> None:
    job.take(4)
    query = Engine(job.folder, uid="names")
    query.offset()
    query.read()
    query.offset()
    job.delete([2])
    query.start()
    with pytest.raises(
        SnapshotNotFoundError, match=r"checkpoint 2 is gone(?s:.*)checkpoint ids 3-4(?s:.*)failOnDataLoss"
    ):
        query.read()
    job.delete([1])
    with pytest.raises(SnapshotNotFoundError, match="checkpoint 1 is gone"):
        query.read()


def test_a_checkpoint_that_is_gone_is_stepped_over(job: Played, capfd: pytest.CaptureFixture[str]) -> None:
    job.take(4)
    query = Engine(job.folder, uid="accounts", failOnDataLoss="false")
    query.offset()
    found = query.read()
    query.offset()
    job.delete([2])
    query.start()
    rows = query.read()
    assert versions(rows) == [3]
    assert "checkpoints 2 below" in capfd.readouterr().err
    found += rows + query.run()
    assert versions(found) == [1, 3, 4]
    newest = pyspark_savepoint.open(next(job.folder.glob("*/chk-4"))).keyed_state("accounts").to_arrow()
    assert state(found) == {row["key"]: row for row in newest.to_pylist(maps_as_pydicts="strict")}


def test_a_query_that_stepped_over_a_checkpoint_goes_on_from_there(job: Played) -> None:
    job.take(3)
    query = Engine(job.folder, uid="accounts", failOnDataLoss="false")
    query.offset()
    found = query.read()
    query.offset()
    job.delete([2])
    found += query.read()
    assert versions(found) == [1, 3]
    job.take(1)
    query.offset()
    planned = query.read()
    # Another process knows from the log alone that the query has read up to 3.
    query.start()
    assert same(query.read(), planned)
    assert versions(planned) == [4]
    newest = pyspark_savepoint.open(next(job.folder.glob("*/chk-4"))).keyed_state("accounts").to_arrow()
    assert state(found + planned) == {row["key"]: row for row in newest.to_pylist(maps_as_pydicts="strict")}


def test_what_has_changed_since_a_checkpoint_that_is_gone_is_lost(
    job: Played, capfd: pytest.CaptureFixture[str]
) -> None:
    job.take(3)
    query = Engine(job.folder, uid="names", failOnDataLoss="false")
    query.run()
    job.take(3)
    job.delete([3, 4])
    query.start()
    assert versions(query.run()) == [6]
    assert "its changes up to checkpoint 5 are lost" in capfd.readouterr().err


@pytest.mark.parametrize("lost", ["true", "false"])
def test_files_that_vanish_before_the_metadata(job: Played, lost: str) -> None:
    job.take(5)
    query = Engine(job.folder, uid="names", failOnDataLoss=lost, schema=_schema(job, {"uid": "names"}))
    query.offset()
    query.read()
    query.offset()
    for file in next(job.folder.glob("*/chk-2")).iterdir():
        if file.name != "_metadata":
            file.unlink()
    if lost == "true":
        with pytest.raises(SavepointError, match="chk-2"):
            query.read()
    else:
        assert versions(query.read()) == [3]
        assert versions(query.run()) == [4, 5]


def test_a_checkpoint_that_is_deleted_while_it_is_read(job: Played) -> None:
    job.take(4)
    query = Engine(job.folder, uid="accounts")
    query.offset()
    query.offset()
    parts = query.planned()
    job.delete([1, 2])
    with pytest.raises(SnapshotNotFoundError, match=r"checkpoint 2, or the one before(?s:.*)checkpoint ids 3-4"):
        query.rows(parts)


def test_a_job_that_was_started_anew(job: Played, tmp_path: Path) -> None:
    job.take(4)
    query = Engine(job.folder, uid="names")
    query.run()
    job.delete([1, 2, 3, 4])
    assert query.run() == []
    again = Played(job.recorded, tmp_path / "again")
    again.take(2)
    for checkpoint in again.folder.glob("*/chk-*"):
        shutil.copytree(checkpoint, job.folder / checkpoint.parent.name / checkpoint.name)
    with pytest.raises(SnapshotNotFoundError, match=r"checkpoint 4 is gone(?s:.*)checkpoint ids 1-2"):
        query.run()


@pytest.mark.parametrize("retained", [1, 3])
@pytest.mark.parametrize("admission", [True, False], ids=["4.2", "4.0"])
def test_checkpoints_that_a_query_holds(job: Played, tmp_path: Path, retained: int, admission: bool) -> None:
    job.retained = retained
    job.take()
    query = Engine(job.folder, uid="accounts", pinFolder=str(tmp_path / "held"), admission=admission)
    found = query.run()
    query.reader.commit(json.loads(query.log[-1]))
    for away in (1, 3, 2):
        job.take(away)
        # Killed while there is a micro-batch in the log.
        query.offset()
        job.take(0)
        query.start()
        found += query.read() + query.run()
        query.reader.commit(json.loads(query.log[-1]))
        assert [path.name for path in (tmp_path / "held").iterdir()] == [f"chk-{job.taken[-1]}"]
    newest = pyspark_savepoint.open(next(job.folder.glob("*/chk-7"))).keyed_state("accounts").to_arrow()
    assert state(found) == {row["key"]: row for row in newest.to_pylist(maps_as_pydicts="strict")}


def test_a_checkpoint_that_was_replaced(job: Played, tmp_path: Path) -> None:
    job.take(3)
    query = Engine(job.folder, uid="names", pinFolder=str(tmp_path / "held"), failOnDataLoss="true")
    plain = Engine(job.folder, uid="names")
    found = query.run()
    plain.run()
    third, fourth = next(job.folder.glob("*/chk-3")), next(job.recorded.glob("*/chk-4"))
    pyspark_savepoint.open(third).remove_keys("names", ["name-1"]).write(tmp_path / "edited")
    shutil.rmtree(third)
    shutil.move(tmp_path / "edited", third)
    job.take(1)
    with pytest.raises(SnapshotNotFoundError, match="checkpoint 3 is gone"):
        plain.run()
    found += query.run()
    rows = pyspark_savepoint.open(next(job.folder.glob(f"*/{fourth.name}"))).keyed_state("names").rows()
    assert state(found) == {row["key"]: row for row in rows}


def test_where_a_query_cannot_hold_checkpoints(job: Played) -> None:
    job.take(1)
    with pytest.raises(OptionError, match="'pinFolder' is in the folder that the stream reads"):
        Engine(job.folder, uid="names", pinFolder=str(job.folder / "held"))
    with pytest.raises(OptionError, match="'pinFolder' is in the folder that the stream reads"):
        Engine(job.folder, uid="names", pinFolder=f"{job.folder.parent}/x/../{job.folder.name}/held")


def test_checkpoints_of_another_job_are_not_deleted(job: Played, tmp_path: Path) -> None:
    job.take(3)
    other = tmp_path / "other"
    shutil.copytree(next(job.folder.glob("*/chk-1")).parent, other)
    with pytest.raises(OptionError, match=r"checkpoint that no query holds(?s:.*)name an empty folder"):
        Engine(job.folder, uid="names", pinFolder=str(other))
    assert len([*other.glob("chk-*")]) == 3


def test_a_micro_batch_that_a_query_holds(job: Played, tmp_path: Path) -> None:
    job.take(3)
    given = {"uid": "names", "pinFolder": str(tmp_path / "held"), "maxCheckpointsPerTrigger": "2"}
    query = Engine(job.folder, schema=_schema(job, {"uid": "names"}), **given)
    expected = changes(job.folder, uid="names")
    query.offset()
    job.delete([1, 2])
    query.start()
    rows = query.read()
    query.reader.commit(json.loads(query.log[-1]))
    query.offset()
    job.delete([3])
    query.start()
    assert same(rows + query.read(), expected)
    assert sorted(path.name for path in (tmp_path / "held").iterdir()) == ["chk-2", "chk-3"]


def test_a_held_checkpoint_that_is_deleted_while_it_is_read(job: Played, tmp_path: Path) -> None:
    """Tasks read what the query holds, also as long as the job has it too."""
    job.take(3)
    query = Engine(job.folder, uid="names", pinFolder=str(tmp_path / "held"), maxCheckpointsPerTrigger="3")
    expected = changes(job.folder, uid="names")
    query.offset()
    parts = query.planned()
    job.delete([1, 2, 3])
    assert same(query.rows(parts), expected)


# -- histories that are none ------------------------------------------------------------------------------------


def test_a_job_that_was_started_twice(job: Played) -> None:
    job.take(6)
    shutil.copytree(next(job.folder.glob("*/chk-6")), job.folder / "another-job" / "chk-6")
    query = Engine(job.folder, uid="names", schema=_schema(job, {"uid": "names"}))
    assert versions([row for _ in range(5) if query.offset() for row in query.read()]) == [1, 2, 3, 4, 5]
    with pytest.raises(SnapshotNotFoundError, match=r"2 snapshots(?s:.*)another-job/chk-6"):
        query.offset()


def test_checkpoints_of_another_job_in_between(job: Played) -> None:
    job.take(4)
    shutil.move(next(job.folder.glob("*/chk-3")), job.folder / "another-job" / "chk-3")
    with pytest.raises(SnapshotNotFoundError, match=r"another job(?s:.*)another-job among those of"):
        Engine(job.folder, uid="names")


def test_a_history_does_not_return_to_a_job_that_it_left(job: Played) -> None:
    job.take(5)
    query = Engine(job.folder, uid="names")
    query.run()
    query.start()
    old = next(job.folder.glob("*/chk-4")).parent
    job.take(1)
    shutil.move(next(job.folder.glob("*/chk-6")), old / "chk-6")
    with pytest.raises(SnapshotNotFoundError, match="another job"):
        query.run()


# -- schemas ----------------------------------------------------------------------------------------------------


def _without(job: Played, version: int, state: str) -> None:
    """Take a state out of a checkpoint."""
    checkpoint = next(job.folder.glob(f"*/chk-{version}"))
    edited = job.folder.parent / "edited"
    pyspark_savepoint.open(checkpoint).remove_state("accounts", state).write(edited)
    shutil.rmtree(checkpoint)
    shutil.move(edited, checkpoint)


def test_a_state_that_is_new(job: Played) -> None:
    job.take(4)
    for version in (1, 2):
        _without(job, version, "total")
    ahead = [job.folder / "hidden" / f"chk-{number}" for number in (3, 4)]
    for hidden in ahead:
        shutil.move(next(job.folder.glob(f"*/{hidden.name}")), job.folder.parent / hidden.name)
    query = Engine(job.folder, uid="accounts")
    found = query.run()
    (own,) = {path.parent for path in job.folder.glob("*/chk-*")}
    for hidden in ahead:
        shutil.move(job.folder.parent / hidden.name, own / hidden.name)
    with pytest.raises(
        UnsupportedStateError, match=r"changed in checkpoint 3(?s:.*)'total' is new(?s:.*)start the query"
    ):
        query.run()
    query.start()
    again = query.read()
    assert versions(again) == [3]
    rows = [{"total": None, **row} for row in found] + again + query.run()
    newest = pyspark_savepoint.open(own / "chk-4").keyed_state("accounts").to_arrow()
    assert state(rows) == {row["key"]: row for row in newest.to_pylist(maps_as_pydicts="strict")}
    # Its columns were given: those that are new are not read.
    given = [field for field in query.schema if field.name != "total"]
    chosen = Engine(job.folder, uid="accounts", schema=type(query.schema)(given))
    assert all("total" not in row for row in chosen.run())


def test_a_state_that_older_checkpoints_have(job: Played) -> None:
    job.take(4)
    _without(job, 4, "total")
    with pytest.raises(
        UnsupportedStateError, match=r"since checkpoint 1(?s:.*)'total' is not in the newest(?s:.*)'startingVersion'"
    ):
        Engine(job.folder, uid="accounts").run()
    assert versions(Engine(job.folder, uid="accounts", state="tags").run()) == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [-1, True, 10**30, "4", 4.0])
def test_an_offset_with_what_is_no_checkpoint(job: Played, number: Any) -> None:
    job.take(4)
    query = Engine(job.folder, uid="names")
    query.run()
    query.log[-1] = json.dumps({**json.loads(query.log[-1]), "checkpoint": number})
    with pytest.raises(OptionError, match="an offset that is none of this source"):
        query.offset()


def test_options_of_reads_and_of_both(job: Played, tmp_path: Path) -> None:
    job.take(4)
    with pytest.raises(OptionError, match=r"option 'endingVersion' is for changes(?s:.*)a stream has no end"):
        Engine(job.folder, uid="names", endingVersion="3")
    with pytest.raises(OptionError, match="each choose a version"):
        Engine(job.folder, uid="names", startingVersion="3", startingTimestamp="2026-11-24T12:00:00Z")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotNotFoundError, match="a stream waits for the first"):
        Engine(tmp_path / "empty", uid="names")
    shutil.copytree(next(job.folder.glob("*/chk-4")), job.folder / "another" / "chk-4")
    with pytest.raises(SnapshotNotFoundError) as refused:
        Engine(job.folder, uid="names")
    assert "waits" not in str(refused.value)


def test_a_state_that_is_gone(job: Played) -> None:
    job.take(2)
    query = Engine(job.folder, uid="accounts")
    job.take(2)
    _without(job, 3, "total")
    _without(job, 4, "total")
    with pytest.raises(UnsupportedStateError, match=r"checkpoint 3(?s:.*)'total'(?s:.*)start the query again"):
        query.run()
    query.start()
    assert versions(query.read()) == [3]


def test_a_state_of_another_type(job: Played) -> None:
    job.take(3)
    query = Engine(job.folder, uid="names")
    checkpoint, edited = next(job.folder.glob("*/chk-3")), job.folder.parent / "edited"
    rows = pa.table({"key": ["a"], "count": [1.5]})
    without = pyspark_savepoint.open(checkpoint).remove_operator("names")
    without.with_operator("names", rows, key="key").write(edited)
    shutil.rmtree(checkpoint)
    shutil.move(edited, checkpoint)
    with pytest.raises(
        UnsupportedStateError, match=r"'count' with type int64, later double(?s:.*)new checkpointLocation"
    ):
        query.run()


# -- mistakes ---------------------------------------------------------------------------------------------------


def test_an_offset_log_of_another_folder(job: Played, tmp_path: Path) -> None:
    job.take(2)
    query = Engine(job.folder, uid="names")
    query.run()
    shutil.copytree(job.folder, tmp_path / "copy")
    other = Engine(tmp_path / "copy", uid="names")
    other.log = query.log
    with pytest.raises(OptionError, match=r"of another folder or table(?s:.*)copy(?s:.*)checkpointLocation"):
        other.offset()
    operator = Engine(job.folder, uid="accounts")
    operator.log = query.log
    with pytest.raises(OptionError, match=r"expected: uid accounts below(?s:.*)found: uid names"):
        operator.offset()


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"checkpoint": 3},
        {"folder": "", "of": "", "checkpoint": "3", "snapshot": "chk-3"},
        {"folder": "", "of": "", "checkpoint": 3, "snapshot": "../chk-3"},
        {"folder": "", "of": "", "checkpoint": 3, "snapshot": "/chk-3"},
        {"folder": "", "of": "", "checkpoint": 3, "snapshot": "chk-3", "between": 4},
        {"folder": "", "of": "", "checkpoint": 3, "snapshot": "chk-3", "left": {"0": 7}},
    ],
)
def test_an_offset_that_is_none(job: Played, offset: dict[str, Any]) -> None:
    job.take(1)
    with pytest.raises(OptionError, match="has an offset that is none of this source"):
        Engine(job.folder, uid="names").reader.latestOffset(offset, ALL)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "needs an operator, or a table"),
        ({"uid": "names", "endingVersion": "3"}, "'endingVersion' is for reads(?s:.*)availableNow"),
        ({"uid": "names", "endingTimestamp": "2030-01-01T00:00:00Z"}, "'endingTimestamp' is for reads"),
        ({"uid": "names", "versionAsOf": "2"}, "'versionAsOf' chooses one snapshot"),
        (
            {"uid": "names", "startingVersion": "1", "startingTimestamp": "2030-01-01T00:00:00Z"},
            "each choose a version",
        ),
        (
            {"uid": "names", "startingVersion": "newest"},
            "expected a checkpoint id, such as 42, 0, or for a stream latest",
        ),
        ({"uid": "names", "maxCheckpointsPerTrigger": "0"}, "expected a whole number from 1"),
        ({"uid": "names", "failOnDataLoss": "no"}, "expected true or false"),
        ({"uid": "names", "maxCheckpointsPerTriger": "2"}, "did you mean 'maxCheckpointsPerTrigger'"),
    ],
)
def test_options_that_a_stream_does_not_have(job: Played, given: dict[str, str], problem: str) -> None:
    job.take(2)
    with pytest.raises(OptionError, match=problem):
        Engine(job.folder, schema=_schema(job, {"uid": "names"}), **given)


def test_versions_that_a_stream_cannot_begin_with(job: Played) -> None:
    job.take(2)
    schema = _schema(job, {"uid": "names"})
    with pytest.raises(SnapshotNotFoundError, match="has checkpoint id 7"):
        Engine(job.folder, uid="names", schema=schema, startingVersion="7")
    with pytest.raises(SnapshotNotFoundError, match="since the version before it"):
        Engine(job.folder, uid="names", schema=schema, startingVersion="1")
    with pytest.raises(SnapshotNotFoundError, match="or later"):
        Engine(job.folder, uid="names", schema=schema, startingTimestamp="2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"maxCheckpointsPerTrigger": "2"}, "'maxCheckpointsPerTrigger' is for streams"),
        ({"failOnDataLoss": "false"}, "'failOnDataLoss' is for streams"),
        ({"readChangeFeed": "true"}, "needs 'startingVersion' or 'startingTimestamp'"),
        ({"readChangeFeed": "true", "startingVersion": "latest"}, "'startingVersion' = 'latest' is for streams"),
        ({"readChangeFeed": "true", "startingVersion": "9"}, "has checkpoint id 9"),
        ({}, "is not a snapshot, but contains snapshots"),
    ],
)
def test_a_read_has_its_own_errors(job: Played, given: dict[str, str], problem: str) -> None:
    job.take(2)
    source = SavepointDataSource({"path": str(job.folder), "allowOutside": "true", "uid": "names", **given})
    with pytest.raises(SavepointError, match=problem):
        source.reader(source.schema()).partitions()


# -- Spark ------------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    given = {"uid": "accounts", "allowOutside": True, **options}
    return spark.readStream.format("savepoint").options(**given).load(str(folder))


@pytest.mark.thorough  # streams in processes of their own
def test_spark_streams_into_a_file_sink(spark: SparkSession, job: Played, tmp_path: Path) -> None:
    sink, log = tmp_path / "sink", tmp_path / "log"

    def run(trigger: dict[str, Any]) -> list[Any]:
        writer = stream(spark, job.folder, maxCheckpointsPerTrigger=2).writeStream.format("parquet")
        query = writer.trigger(**trigger).option("checkpointLocation", str(log)).start(str(sink))
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        else:
            query.awaitTermination()
        return [each for each in query.recentProgress if each.numInputRows]

    job.take(3)
    progress = run({"availableNow": True})
    ends = [json.loads(each.sources[0].endOffset)["checkpoint"] for each in progress]
    assert ends == ([2, 3] if WITH_LIMITS else [3])
    job.take(2)
    (once,) = run({"once": True})
    assert json.loads(once.sources[0].endOffset)["checkpoint"] == 5
    job.take(3)
    last = run({"processingTime": "100 milliseconds"})[-1]
    assert json.loads(last.sources[0].endOffset)["checkpoint"] == 8
    assert json.loads(last.sources[0].latestOffset)["checkpoint"] == 8
    found = spark.read.parquet(str(sink)).toArrow()
    expected = SnapshotTable.of(
        SavepointReadOptions.parse(
            {"path": str(job.folder), "uid": "accounts", "readChangeFeed": "true", "startingVersion": "0"}
        )
    ).to_arrow()
    told_apart = [
        sorted(value for batch in rows.to_batches() for value in row_bytes(batch.columns).to_pylist())
        for rows in (found.cast(expected.schema), expected)
    ]
    assert told_apart[0] == told_apart[1]


@pytest.mark.thorough("it without Spark")
def test_what_spark_says_of_a_checkpoint_that_is_gone(spark: SparkSession, job: Played, tmp_path: Path) -> None:
    job.take(2)

    def run() -> None:
        writer = stream(spark, job.folder).writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "log")).start().awaitTermination()

    run()
    job.take(2)
    job.delete([2])
    with pytest.raises(PySparkException, match="checkpoint 2 is gone"):
        run()
