"""Contents of sessions that are read, changed and written: they are stored under their state windows for Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import pyspark_savepoint
from pyspark_savepoint import OperatorIdentifier, Savepoint
from pyspark_savepoint.formats.errors import OptionError

pytestmark = pytest.mark.spark
AGGREGATE, STATE = "1f83829584986280f4ed1ab082e6c666", "window-contents"
OPERATOR = OperatorIdentifier.for_uid_hash(AGGREGATE)


def rows(path: Path | str) -> dict[str, Any]:
    table = pyspark_savepoint.open(str(path)).table("window_state", uidHash=AGGREGATE, includeStateWindow="true")
    return {row["key"]: row for row in table.to_arrow().to_pylist()}


@pytest.mark.slow  # many queries
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


@pytest.mark.thorough  # many queries
def test_a_new_operator_has_the_state_that_names_its_sessions(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    path = str(corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb")
    savepoint, types = Savepoint.load(spark, path), f"{path}#{AGGREGATE}"
    timers = savepoint.timers(OPERATOR)
    new = Savepoint.create(spark).with_operator("new")

    def written(name: str, windows: DataFrame, **options: Any) -> dict[str, Any]:
        made = new.with_window_state("new", windows, **options).with_timers("new", timers, types_from=types)
        made.write(str(tmp_path / name), flink_version="1.20")
        table = pyspark_savepoint.open(str(tmp_path / name)).window_state("new", include_state_window=True)
        return {row["key"]: row for row in table.to_arrow().to_pylist()}

    own = rows(path)
    assert written("both", savepoint.window_state(OPERATOR, include_state_window=True), types_from=types) == own
    alone = {key: row | {"state_window": row["window"]} for key, row in own.items()}
    # The table says that its windows are sessions, also after a selection.
    assert written("alone", savepoint.window_state(OPERATOR).where("key <> ''").select("key", "window", STATE)) == alone
    with pytest.raises(OptionError, match="without timer service 'window-timers'"):
        new.with_window_state("new", savepoint.window_state(OPERATOR), types_from=types).write(str(tmp_path / "no"))

    plain = savepoint.window_state(OPERATOR).write.format("savepoint").options(uid="new", table="window_state")
    with pytest.raises(PySparkException, match="'window-contents' without state 'merging-window-set'"):
        plain.mode("append").save(str(tmp_path / "plain"))
    named = savepoint.keyed_state(OPERATOR).write.format("savepoint").options(uid="new", typesFrom=types)
    named.option("flinkVersion", "1.20").mode("append").save(str(tmp_path / "steps"))
    windows = savepoint.window_state(OPERATOR, include_state_window=True).write.format("savepoint")
    windows.options(uid="new", table="window_state").mode("append").save(str(tmp_path / "steps"))
    timers.write.format("savepoint").options(uid="new", table="timers").mode("append").save(str(tmp_path / "steps"))
    made = pyspark_savepoint.open(str(tmp_path / "steps"))
    found = {row["key"]: row for row in made.window_state("new", include_state_window=True).to_arrow().to_pylist()}
    assert found == own
    assert {row["status"] for row in made.inspect.verify().rows()} == {"ok"}
