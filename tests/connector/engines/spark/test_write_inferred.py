"""Types as a job infers them, through Spark: in words and from class files, by df.write and by the fluent API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint

pytestmark = [pytest.mark.spark, pytest.mark.slow("types as jobs infer them, written and read by every way")]

WORDS = "POJO<miglab.Model$PListString>(id INT, name STRING, v LIST<STRING>)"
INFERRED = WORDS.replace("LIST<STRING>", "NULLABLE<LIST<NULLABLE<STRING>>>")


def test_types_as_a_job_infers_them(spark: SparkSession, tmp_path: Path, corpus: Path) -> None:
    classes, path = str(corpus / "migration" / "classes"), str(tmp_path / "sp")
    frame = spark.sql("SELECT 1L AS key, named_struct('id', 7, 'name', 'n', 'v', array('a', NULL)) AS order")

    def write(uid: str, types: str, **options: Any) -> None:
        given = {"uid": uid, "types": json.dumps({"order": types}), **options}
        frame.write.format("savepoint").options(**given).mode("append").save(path)

    write("op", WORDS, inferredBy="2.2")
    write("b", "miglab.Model$PListString", inferredBy="2.2", typesFrom=classes)
    with pytest.raises(PySparkException, match=r"Flink 1\.20 uses Kryo for v"):
        write("c", WORDS, inferredBy="1.20")
    more = frame.withColumnRenamed("order", "more")
    changed = Savepoint.load(spark, path).with_state(
        "op", "more", more, types={"more": WORDS}, inferred_by="2.2", types_from=[classes]
    )
    states = changed.write(str(tmp_path / "changed")).states().collect()
    assert sorted((row["state"], row["value_type"]) for row in states) == [
        ("more", INFERRED),
        ("order", INFERRED),
        ("order", INFERRED),
    ]
