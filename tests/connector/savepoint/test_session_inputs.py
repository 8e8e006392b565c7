"""Contents of sessions that are read, changed and written: they are stored under their state windows for Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import pyspark_savepoint
from pyspark_savepoint import OperatorIdentifier, Savepoint

pytestmark = pytest.mark.spark
AGGREGATE, STATE = "1f83829584986280f4ed1ab082e6c666", "window-contents"
OPERATOR = OperatorIdentifier.for_uid_hash(AGGREGATE)


def rows(path: Path | str) -> dict[str, Any]:
    table = pyspark_savepoint.open(str(path)).table("window_state", uidHash=AGGREGATE, includeStateWindow="true")
    return {row["key"]: row for row in table.to_arrow().to_pylist()}


def test_contents_go_under_their_state_windows(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    path = str(corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb")
    savepoint = Savepoint.load(spark, path)
    contents = savepoint.window_state(OPERATOR)
    amount = (F.col(f"`{STATE}`.f1") * 2).alias("f1")
    doubled = contents.select("key", "window", F.struct(F.col(f"`{STATE}`.f0"), amount).alias(STATE))
    unknown = contents.withColumn("window", F.struct(F.col("window.start"), F.col("window.start").alias("end")))

    same = savepoint.with_state(OPERATOR, STATE, contents).write(str(tmp_path / "same"))
    given = savepoint.window_state(OPERATOR, include_state_window=True)
    savepoint.with_state(OPERATOR, STATE, given).write(str(tmp_path / "given"))
    savepoint.with_state(OPERATOR, STATE, doubled).write(str(tmp_path / "doubled"))

    assert same.diff(savepoint).where("added + removed + changed > 0").count() == 0
    assert rows(tmp_path / "given") == rows(path)
    assert rows(tmp_path / "doubled") == {
        key: row | {STATE: {"f0": row[STATE]["f0"], "f1": row[STATE]["f1"] * 2}} for key, row in rows(path).items()
    }
    with pytest.raises(PySparkException, match="has no session of the window"):
        savepoint.with_state(OPERATOR, STATE, unknown).write(str(tmp_path / "unknown"))
    with pytest.raises(PySparkException, match="includeStateWindow"):
        contents.write.format("savepoint").mode("overwrite").options(
            uidHash=AGGREGATE, table="window_state", state=STATE
        ).save(str(tmp_path / "given"))
