"""PyFlink's state in Spark: SQL over it, and rows written back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint import KeyedStateReaderFunction, OperatorIdentifier, Savepoint, WindowReaderFunction
from pyspark_savepoint.engines.reader_functions import keyed_reader, window_reader
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.statebackends.python.test_pyflink_job import PICKLED_KEYS

pytestmark = pytest.mark.slow("the states of PyFlink, read and written back")

TYPES = "v_long LONG; map MAP<STRING, LONG>"


class Keys(KeyedStateReaderFunction):
    def read_key(self, key: Any, ctx: Any) -> Any:
        yield key


class Windows(WindowReaderFunction):
    def read_window(self, key: Any, ctx: Any, elements: Any) -> Any:
        yield key


def test_pyflink_in_sql_and_back(spark: Any, corpus: Path, tmp_path: Path) -> None:
    job = find_snapshots(str(corpus / "real/pyf-120/sp"))[0].path
    path = Path(shutil.copytree(job, tmp_path / "sp"))
    for file in (path, *path.iterdir()):
        file.chmod(0o755)

    def read(**options: str) -> Any:
        return spark.read.format("savepoint").options(uidHash=PICKLED_KEYS, pyTypes=TYPES, **options).load(str(path))

    rows = read(state="v_long,map,v_pickled")
    rows.createOrReplaceTempView("py")
    pickled = "max(variant_get(v_pickled, '$.i', 'int'))"
    query = f"SELECT key.f1, sum(v_long) AS total, {pickled} AS i, max(map['m3']) AS m FROM py GROUP BY 1"
    assert [row.asDict() for row in spark.sql(query).collect()] == [
        {"f1": "z", "total": sum(range(300)), "i": 299, "m": 298}
    ]
    changed = read(state="v_long").selectExpr("key", "v_long + 1 AS v_long")
    changed.write.format("savepoint").options(uidHash=PICKLED_KEYS, pyTypes=TYPES, state="v_long").mode(
        "overwrite"
    ).save(str(path))
    assert read(state="v_long").selectExpr("sum(v_long)").first()[0] == sum(range(300)) + 10
    assert read(keys='[[7, "z"]]', state="map").count() == 1
    operator = OperatorIdentifier.for_uid_hash(PICKLED_KEYS)
    sp = Savepoint.load(spark, str(path))
    more = read(state="v_long").selectExpr("key", "v_long + 1 AS v_long").where("key.f0 <> 3")
    maps = read(state="map").selectExpr("key", "map_concat(map, map('new', -1)) AS map")
    sp = sp.with_state(operator, "v_long", more, replace=True, pyTypes="v_long LONG")
    sp = sp.with_state(operator, "map", maps, pyTypes=TYPES)
    sp = sp.remove_keys(operator, [[7, "z"]]).remove_keys(
        operator, read(state="v_long").select("key").where("key.f0 = 5")
    )
    sp.write(str(tmp_path / "edited"))
    edited = spark.read.format("savepoint").options(uidHash=PICKLED_KEYS, pyTypes=TYPES).load(str(tmp_path / "edited"))
    found = {row.key.f0: (row.v_long, row["map"]) for row in edited.select("key", "v_long", "map").collect()}
    wanted = {row.key.f0: (row.v_long, row["map"]) for row in read(state="v_long,map").collect()}
    assert found == {
        number: (None if number == 3 else total + 1, {**mapped, "new": -1})
        for number, (total, mapped) in wanted.items()
        if number not in (5, 7)
    }
    assert edited.schema == read().schema
    with pytest.raises(OptionError, match="'types' does not apply to state of PyFlink"):
        sp.with_state(operator, "v_long", changed, types={"v_long": "LONG"})


def test_reader_functions_refuse_state_of_pyflink_in_words(corpus: Path) -> None:
    path, options = find_snapshots(str(corpus / "real/pyf-120/sp"))[0].path, {"uidHash": PICKLED_KEYS}
    schema = pa.schema([("key", pa.string())])
    with pytest.raises(UnsupportedStateError, match=r"state of PyFlink[\s\S]*sp.keyed_state"):
        keyed_reader({**options, "path": path}, Keys(), schema)
    with pytest.raises(UnsupportedStateError, match=r"state of PyFlink[\s\S]*sp.window_state"):
        window_reader({**options, "path": path}, Windows(), schema, None, None)
