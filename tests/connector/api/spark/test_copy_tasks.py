"""Tasks copy the large files of untouched operators: the same savepoint as copies by the driver."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.engines.spark import spark_engine
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy

SHOP = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"


@pytest.mark.thorough("copies by the driver")
@pytest.mark.spark
def test_tasks_copy_what_the_driver_would(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Savepoint.load(spark, str(SHOP)).with_operator(
        "new", spark.range(10).selectExpr("id", "id AS total"), key="id"
    )
    plan.write(str(tmp_path / "driver"))
    monkeypatch.setattr(spark_engine, "LARGE", 1)
    monkeypatch.setattr(spark_engine, "OF_A_TASK", 20_000)
    by_driver: list[int] = []
    monkeypatch.setattr(spark_engine, "copy_files", lambda copies, staging: by_driver.append(len(copies)))
    plan.write(str(tmp_path / "tasks"))
    assert not by_driver

    def copies(path: Path) -> list[bytes]:
        assert not [each for each in path.iterdir() if each.name.startswith(".")]
        return sorted(each.read_bytes() for each in path.glob("*-copy*"))

    assert copies(tmp_path / "tasks") == copies(tmp_path / "driver") != []
    written = Savepoint.load(spark, str(tmp_path / "tasks"))
    assert written.inspect.verify().where("status = 'error'").count() == 0


def test_two_attempts_of_a_task_do_not_meet(tmp_path: Path) -> None:
    source = next(each for each in sorted(SHOP.iterdir()) if each.name != "_metadata")
    location = FileLocation(LocalFileSystem(), str(source), size=source.stat().st_size)
    staging = Staging.at(str(tmp_path / "new"))
    copy = FileCopy(location, f"{staging.token}-copy-0", location.size)
    tasks = pickle.loads(pickle.dumps(spark_engine.CopyTasks([[(0, copy)]], staging)))
    number = pa.record_batch([pa.array([0])], names=["id"])
    first, second = (next(tasks(iter([number]))).column(1)[0].as_py() for _ in range(2))
    assert first != second
    staging.rename_state(second, copy.name)
    assert Path(staging.state_path(copy.name)).read_bytes() == source.read_bytes()
