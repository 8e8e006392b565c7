"""``python -m tests.connector.spark_doors``: the questions of ``test_every_door``, asked of live Spark.

The doors are ``df.write``, ``INSERT OVERWRITE`` and ``Savepoint``, of a classic session or, with ``--connect``, of
Spark Connect. Each answer must be the one that the gate demands of the doors without Spark, in the words of its door.

    python -m tests.connector.spark_doors                     # about 10 minutes
    python -m tests.connector.spark_doors --connect --only ttl "time to live"
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import SavepointError
from tests.connector.test_every_door import (
    FOREIGN,
    QUESTIONS,
    REFUSED,
    Options,
    made_base,
    max_parallelisms,
    registered,
)

SparkDoor = Callable[[SparkSession, Path, Path, DataFrame, str, Options], Path]


def texts_of(options: Options) -> dict[str, str]:
    """Options as Spark takes them."""
    return {name: text if isinstance(text, str) else json.dumps(text) for name, text in options.items()}


def by_frame(spark: SparkSession, base: Path, folder: Path, frame: DataFrame, state: str, options: Options) -> Path:
    """``df.write.mode('overwrite')``."""
    path = Path(shutil.copytree(base, folder))
    given = {"uid": "op", "state": state, **texts_of(options)}
    frame.write.format("savepoint").options(**given).mode("overwrite").save(str(path))
    return path


def by_insert(spark: SparkSession, base: Path, folder: Path, frame: DataFrame, state: str, options: Options) -> Path:
    """``INSERT OVERWRITE``."""
    path = Path(shutil.copytree(base, folder))
    given = {"path": str(path), "uid": "op", "state": state, **texts_of(options)}
    listed = ", ".join(f"{name} '{text}'" for name, text in given.items())
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)
    frame.createOrReplaceTempView("given_rows")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW target ({columns}) USING savepoint OPTIONS ({listed})")
    spark.sql("INSERT OVERWRITE target SELECT * FROM given_rows")
    return path


def by_verb(spark: SparkSession, base: Path, folder: Path, frame: DataFrame, state: str, options: Options) -> Path:
    """``Savepoint.with_state``."""
    given: dict[str, Any] = {name: option for name, option in options.items() if name != "table"}
    Savepoint.load(spark, str(base)).with_state("op", state, frame, replace=True, **given).write(str(folder))
    return folder


SPARK_DOORS: dict[str, SparkDoor] = {"df.write": by_frame, "INSERT": by_insert, "Savepoint": by_verb}
#: Questions about rows that Spark itself refuses before a door sees them.
NOT_IN_SPARK = {"a field twice", "a map with a key twice that Python cannot hold"}
#: Words of other doors, by door.
WORDS = {"df.write": FOREIGN["data source"], "INSERT": FOREIGN["data source"], "Savepoint": FOREIGN["verb"]}


def refusal(error: Exception) -> str:
    """The sentence of an error: of this package, or what Spark shows of one."""
    if isinstance(error, SavepointError):
        return str(error)
    found = re.findall(r"pyspark_savepoint\.[\w.]+\.\w+Error: ((?:.*)(?:\n  .*)*)", str(error))
    return str(found[-1] if found else error)


def asked(spark: SparkSession, base: Path, folder: Path, only: list[str]) -> tuple[int, list[str]]:
    """Ask every question at every door; return how many, and the answers that differ."""
    wrong, count = [], 0
    refused: dict[str, tuple[pa.Table, str, Options, Any]] = {name: (*asks, "") for name, asks in REFUSED.items()}
    for question, (rows, state, options, answer) in {**QUESTIONS, **refused}.items():
        if question in NOT_IN_SPARK:
            continue
        if only and not any(word in question for word in only):
            continue
        frame = spark.createDataFrame(rows, from_arrow_schema(rows.schema))  # Connect infers none where no rows are
        for door, ask in SPARK_DOORS.items():
            count += 1
            said, path = None, folder / f"{count}"
            try:
                found = dict(registered(ask(spark, base, path, frame, state, options)))
            except (SavepointError, PySparkException) as error:
                said, found = refusal(error), {}
            words = WORDS[door].findall(said or "")
            expected = said is not None and answer in said and not words if isinstance(answer, str) else (
                found.get(state) == answer and max_parallelisms(path) == {"op": 512}
            )  # fmt: skip
            if not expected:
                wrong.append(f"{question}, {door}: expected {answer}, got {found.get(state)} {words} {said}")
                print("differs", wrong[-1][:1500], flush=True)
            shutil.rmtree(path, ignore_errors=True)
    return count, wrong


def main() -> int:
    """Ask, print what differs, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connect", action="store_true", help="a session of Spark Connect")
    parser.add_argument("--only", nargs="+", default=[], help="questions with one of these words")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.connect:
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        from tests.oracle.matrix.__main__ import session  # noqa: PLC0415 (a client of Connect has no JVM)

        spark = session()
    with tempfile.TemporaryDirectory() as scratch:
        base = made_base(Path(scratch) / "base")
        count, wrong = asked(spark, base, Path(scratch), arguments.only)
    print(f"{count} answers, {len(wrong)} differ, pyspark_savepoint {pyspark_savepoint.__version__}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
