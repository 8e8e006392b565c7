"""New keys by expressions of Spark: columns, SQL text, functions of a DataFrame, and tables of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint import Savepoint
from pyspark_savepoint.errors import DuplicateKeyError, OptionError
from tests.data import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]


def totals(savepoint: Savepoint) -> dict[object, int]:
    return {row.key: row.total for row in savepoint.keyed_state("accounts", state="total").collect()}


@pytest.mark.thorough  # many queries
def test_expressions(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    base = Savepoint.load(spark, str(shop))
    before = totals(base)
    text = {"key": "STRING"}
    for number, (keys, types) in enumerate(
        [
            ("concat('C-', key)", text),
            (F.concat(F.lit("C-"), F.col("key").cast("string")), text),
            (lambda frame: F.concat(F.lit("C-"), frame["key"].cast("string")), text),
        ]
    ):
        new = base.rekey("accounts", keys, types=types).write(str(tmp_path / f"{number}"))
        assert totals(new) == {f"C-{key}": total for key, total in before.items()}
        assert new.timers("accounts").select("key").distinct().count() == 200
        assert new.keyed_state("accounts", keys=["C-1042"]).count() == 1


def test_pairs_of_a_data_frame(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    base = Savepoint.load(spark, str(shop))
    pairs = base.keyed_state("accounts", state="total").selectExpr("key", "key + 5000 AS new_key").where("key % 2 = 0")
    new = base.rekey("accounts", pairs).write(str(tmp_path / "new"))
    assert totals(new) == {key + 5000 * (key % 2 == 0): total for key, total in totals(base).items()}  # type: ignore[operator]
    twice = base.rekey("accounts", pairs.union(pairs))
    with pytest.raises(DuplicateKeyError, match="say twice what a key becomes"):
        twice.write(str(tmp_path / "twice"))
    assert not (tmp_path / "twice").exists()


@pytest.mark.thorough  # many queries
def test_keys_that_rows_have(spark: SparkSession, tmp_path: Path) -> None:
    """The sides of a join in SQL, by another column of their rows."""
    base = Savepoint.load(spark, str(unpacked() / "sql" / "join-inner-2.3"))
    uid = next(one.identifier for one in base.plan.operators if one.base is not None and one.base.has_keyed_state)
    keys = {"left-records": "map_key.f0", "right-records": "value.f1"}
    new = base.rekey(uid, keys, types={"key": "ROWDATA<BIGINT>"}).write(str(tmp_path / "new"))
    rows = new.keyed_state(uid).selectExpr("key.f0 AS k", "explode_outer(map_keys(`left-records`)) AS row")
    assert rows.where("row IS NOT NULL AND row.f0 <> k").count() == 0
    before = base.keyed_state(uid).selectExpr("explode(map_keys(`left-records`)) AS row").count()
    assert rows.where("row IS NOT NULL").count() == before > 0


def test_what_is_refused(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    base = Savepoint.load(spark, str(shop))
    with pytest.raises(DuplicateKeyError, match=r"key 1\d+ and key 1\d+ become key"):
        base.rekey("accounts", "key div 2").write(str(tmp_path / "new"))
    with pytest.raises(PySparkException, match=r"key: 1042(.|\n)*NULL"):
        base.rekey("accounts", "nullif(key, 1042)").write(str(tmp_path / "new"))
    with pytest.raises(OptionError, match="cannot be written as LONG"):
        base.rekey("accounts", "cast(key AS STRING)")
    with pytest.raises(PySparkException, match="no_such"):
        base.rekey("accounts", "no_such + 1")
    assert not (tmp_path / "new").exists()
